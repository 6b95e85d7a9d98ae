"""A step of Adafactor for a stack of matrices, in three passes over memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._core.jit import inline_reassoc, kernel
from ..._math.softmax_rows import dot

if TYPE_CHECKING:
    from typing import Any

    from ..._core.arguments import FloatArray

    Number = Any

BAND = 32  #: rows of a matrix whose squares are added to one row of sums


@inline_reassoc
def _add_squares(x: FloatArray, columns: FloatArray) -> Number:
    """Add the squares of a row to the sums of the columns, and return their sum."""
    total = np.float64(0.0)
    for j in range(x.size):
        square = np.float64(x[j] * x[j])  # infinite where the dtype of x has no such square
        columns[j] += square
        total += square
    return total


@kernel
def sums_of_squares(
    start: int, stop: int, g: FloatArray, rows: FloatArray, columns: FloatArray
) -> None:
    """
    Sum the squares of each row, and of each column of a band of rows.

    `g` has shape (matrices, n, m), `rows` (matrices, n), `columns` (matrices, bands, m), of zeros.
    """
    bands = columns.shape[1]
    for b in range(start, stop):
        matrix, band = b // bands, b % bands
        for i in range(band * BAND, min((band + 1) * BAND, g.shape[1])):
            rows[matrix, i] = _add_squares(g[matrix, i], columns[matrix, band])


@kernel
def directions(
    start: int,
    stop: int,
    p: FloatArray,
    g: FloatArray,
    rows: FloatArray,
    columns: FloatArray,
    least: Number,
    out: FloatArray,
    squares: FloatArray,
) -> None:
    """
    Divide each gradient by the root of ``rows * columns``, which is at least the root of `least`.

    `squares`, of shape (matrices n, 2), gets the sums of the squares of each row of `p` and `out`.
    """
    n = g.shape[1]
    for r in range(start, stop):
        matrix, i = r // n, r % n
        row, slopes = out[matrix, i], g[matrix, i]
        share, column = rows[matrix, i], columns[matrix]
        for j in range(row.size):
            square = share * column[j]
            square = least if square < least else square  # NaN stays
            row[j] = slopes[j] / np.sqrt(square)
        squares[r, 0] = dot(p[matrix, i], p[matrix, i])
        squares[r, 1] = dot(row, row)


@kernel
def move(
    start: int, stop: int, p: FloatArray, keep: Number, factor: Number, out: FloatArray
) -> None:
    """Replace directions by the parameters after the step."""
    p, out = p[start:stop], out[start:stop]
    for i in range(p.size):
        out[i] = keep * p[i] - factor * out[i]
