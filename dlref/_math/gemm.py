"""
Products of matrices inside kernels and threads.

The right operand is copied once into *panels* of a few columns, so narrow that the innermost loop
(`dlref._math.gemm_tiles`) reads whole vectors in sequence. A recurrent network keeps its panels for
all steps.

BLAS is not used here, since its own threads would compete with the threads that call it. Here an
element of the result is a sum over k in ascending order, in blocks of 512, for any number of rows.
"""

from __future__ import annotations

import numpy as np

from .._core.arguments import FloatArray
from .._core.jit import kernel
from .gemm_tiles import PANELS, ROWS, WIDTH_BYTES, add_part_of_row, add_row, add_tile

DEPTH = 512  # terms that are summed before they are added to the result; a panel then has 64 KiB


@kernel
def multiply(a: FloatArray, w: FloatArray, out: FloatArray, last: FloatArray) -> None:
    """
    Add the product of `a` (R, K) with panels of K rows to `out` (R, N).

    `last` (R, W) is a workspace for the last panel, if it reaches beyond the last column.
    """
    (rows, columns), width = out.shape, w.shape[2]
    whole, inside = rows - rows % ROWS, columns // width
    ragged = inside * width < columns
    for i in range(rows if ragged else 0):
        last[i] = 0.0
    for k in range(0, a.shape[1], DEPTH):
        terms = slice(k, k + DEPTH)
        for p in range(w.shape[0] if whole else 0):
            to = out[:, p * width : (p + 1) * width] if p < inside else last
            for i in range(0, whole, ROWS):
                add_tile(a[i : i + ROWS, terms], w[p : p + 1, terms], to[i : i + ROWS])
        for i in range(whole, rows):
            p = 0
            while p + PANELS <= inside:
                to = out[i : i + 1, p * width : (p + PANELS) * width]
                add_row(a[i : i + 1, terms], w[p : p + PANELS, terms], to)
                p += PANELS
            for q in range(p, w.shape[0]):
                to = out[:, q * width : (q + 1) * width] if q < inside else last
                add_part_of_row(a[i : i + 1, terms], w[q : q + 1, terms], to[i : i + 1])
    for i in range(rows if ragged else 0):
        for j in range(inside * width, columns):
            out[i, j] += last[i, j - inside * width]


def panels(b: FloatArray) -> FloatArray:
    """Copy matrices (..., K, N) into panels (..., P, K, W), with zeros beyond the last column."""
    *batch, depth, columns = b.shape
    width = WIDTH_BYTES // b.itemsize
    whole, ragged = divmod(columns, width)
    out = np.zeros((*batch, whole + (ragged > 0), depth, width), b.dtype)
    inside = b[..., : whole * width].reshape(*batch, depth, whole, width)
    out[..., :whole, :, :] = inside.swapaxes(-3, -2)
    if ragged:
        out[..., whole, :, :ragged] = b[..., whole * width :]
    return out


@kernel
def _multiply_each(a: FloatArray, w: FloatArray, out: FloatArray, last: FloatArray) -> None:
    for n in range(len(a)):
        multiply(a[n], w[n], out[n], last)


def add_product(a: FloatArray, b: FloatArray, out: FloatArray) -> None:
    """Add ``a @ b`` to `out`, for matrices (B, R, K) and (B, K, N), on this thread."""
    if a.shape[1] < ROWS:  # too little for BLAS to take several threads
        with np.errstate(all="ignore"):
            out += np.matmul(a, b)
    else:
        w = panels(b)
        last = np.empty((a.shape[1], 2 * w.shape[3]), a.dtype)[:, : w.shape[3]]  # of out's kind
        _multiply_each(a, w, out, last)


def matmul(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return ``a @ b`` for matrices (B, R, K) and (B, K, N), computed on this thread."""
    out = np.empty((*a.shape[:2], b.shape[2]), a.dtype)
    out.fill(0)
    add_product(a, b, out)
    return out
