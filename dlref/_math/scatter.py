"""Sums of rows that belong together: the transposed map of a lookup."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import kernel
from .._core.threads import over_rows


@kernel
def _scatter(
    start: int, stop: int, dout: FloatArray, rows: npt.NDArray[np.int64], out: FloatArray
) -> None:
    for r in range(rows.size):
        row, to = dout[r, start:stop], out[rows[r], start:stop]
        for d in range(to.size):
            to[d] += row[d]


@kernel
def _place(
    start: int,
    stop: int,
    sums: FloatArray,
    factor: float,
    used: npt.NDArray[np.int64],
    out: FloatArray,
) -> None:
    for r in range(start, stop):
        row, to = sums[r], out[used[r]]
        for d in range(to.size):
            to[d] = factor * row[d]


def add_rows(
    dout: FloatArray, rows: npt.NDArray[np.int64], table: FloatArray, factor: float = 1.0
) -> FloatArray:
    """
    Return the sum of the cotangents of each row of a table, times a factor.

    Sums are float64 and rounded once. Rows that were looked up are few where a vocabulary is large:
    only they get a sum; the others are zeros, which cost no time until somebody looks at them.
    """
    flat = np.ascontiguousarray(dout).reshape(rows.size, table.shape[1])
    used, places = np.unique(rows.ravel(), return_inverse=True)
    sums = np.zeros((len(used), table.shape[1]))
    over_rows(_scatter, table.shape[1], rows.size, flat, places, sums)
    out = np.zeros(table.shape, table.dtype)
    over_rows(_place, len(used), table.shape[1], sums, np.float64(factor), used, out)
    return out
