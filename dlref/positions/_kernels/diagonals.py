r"""
Learned relative positions: a number, or a vector, for every offset.

A matrix whose element i, j depends on j − i only is a Toeplitz matrix.  Its T S elements are
T + S − 1 numbers, each along one diagonal; the gradient of a number is the sum along its diagonal.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..._core.arguments import (
    FloatArray,
    check_flags,
)


def distances(T: int, S: int, first: int | npt.NDArray[np.int64], *, symmetric: bool) -> FloatArray:
    """Return how far back the key lies on each diagonal; 0 where it lies ahead, or as far."""
    check_flags(symmetric=symmetric)
    behind = first - np.arange(1.0 - T, S)
    return np.asarray(np.abs(behind) if symmetric else np.maximum(behind, 0.0))
