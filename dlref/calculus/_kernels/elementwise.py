"""
The three forms of a function of one number.

Its Jacobian is diagonal, so both products multiply each element by the slope there. A slope is a
formula of whole arrays of float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._core.arguments import FloatArray, as_floats, as_tangents, check_shape, result
from ..._core.chunks import map_chunks

Slope = Callable[[FloatArray], FloatArray]


def _computed(formula: Callable[..., FloatArray], *arrays: FloatArray) -> FloatArray:
    """Apply a formula to arrays of one shape, piece by piece."""
    out = np.empty(arrays[0].size, arrays[0].dtype)
    map_chunks([out], lambda *parts: [formula(*parts)], [a.ravel() for a in arrays])
    return out.reshape(arrays[0].shape)


def deriv(slope: Slope, x: npt.ArrayLike) -> FloatArray:
    """Return the slope at each element."""
    dtype, (x,) = as_floats({"x": x}, work=np.float32)
    return result(_computed(slope, x), dtype)


def vjp(slope: Slope, dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    """Multiply a cotangent by the slopes."""
    dtype, (dout, x) = as_floats({"dout": dout, "x": x}, work=np.float32)
    check_shape("dout", dout, x.shape)
    return result(_computed(lambda u, x: u * slope(x), dout, x), dtype)


def jvp(slope: Slope, primals: Any, tangents: Any) -> FloatArray:
    """Multiply a tangent by the slopes."""
    dtype, (x,), (dx,) = as_tangents(primals, tangents, count=1, work=np.float32)
    return result(_computed(lambda v, x: v * slope(x), dx, x), dtype)
