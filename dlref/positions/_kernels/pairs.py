"""Scores of pairs of tokens; each pair reads one row of a table of offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..._core.arguments import FloatArray

Rows = npt.NDArray[np.int64]


def read_rows(products: FloatArray, row: Rows) -> FloatArray:
    """Return (..., T, S): of the products (..., T, L) with all rows, the one that a pair reads."""
    where = np.broadcast_to(row, (*products.shape[:-2], *row.shape))
    return np.take_along_axis(products, where, axis=-1)


def row_sums(u: FloatArray, row: Rows, count: int) -> FloatArray:
    """Return (..., T, L): the sums of `u` (..., T, S) over the pairs that read one row."""
    sums = np.zeros((*u.shape[:-1], count))
    where: Any = (..., np.arange(len(row))[:, None], row)
    np.add.at(sums, where, u)
    return sums
