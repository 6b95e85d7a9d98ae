"""Documents that are packed into one row of a batch: where each of them begins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .arguments import FloatArray, as_integers, check_fits


def beginnings(segment_ids: Any, shape: tuple[int, ...]) -> npt.NDArray[np.bool_] | None:
    """
    Return whether another document begins at each step of the rows (N, T) of this shape (..., T).

    The first step counts as one that goes on, since a state may come before it. None stays None.
    """
    if segment_ids is None:
        return None
    ids = as_integers("segment_ids", segment_ids)
    check_fits("segment_ids", ids, shape, "..., T")
    rows = np.broadcast_to(ids, shape).reshape(math.prod(shape[:-1]), shape[-1])
    begins = np.zeros(rows.shape, np.bool_)
    begins[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return begins


def of_document(state: FloatArray, begins: npt.NDArray[np.bool_] | None, step: int) -> FloatArray:
    """
    Return a state before a step, or its gradient: 0 in the rows where a document begins.

    It has two axes after the rows, and `begins` has one, the steps.
    """
    return state if begins is None else np.where(begins[:, step, None, None], 0, state)
