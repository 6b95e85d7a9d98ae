"""
Products of matrices in the dtype of their operands, in kernels of our own.

The right operand is copied once into *panels*, a few columns each, so narrow that the innermost
loop (`dlref._microkernel`) reads whole vectors, one after the other.  A recurrent network keeps its
panels for all steps; a product shares the rows of its result out among threads.

Not BLAS: its threads spin for a while after each product, in the way of ours, and on a processor
that it does not know it takes kernels for older ones, at half the speed.  Here an element of the
result is a sum over k in ascending order, by blocks of 512, for any number of rows and threads.
Only a product of very few rows with a transposed matrix, not worth a copy, sums as it likes.

`affine` and its products with the Jacobian are the dense layer of training: in float32 they take a
fraction of the time of `dlref.neurons.linear`, which accumulates in float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ._jit import kernel, summation
from ._microkernel import (
    FEW_PANELS,
    HALF,
    PANELS,
    ROWS,
    VECTORS,
    WIDTH_BYTES,
    add_half,
    add_part_of_row,
    add_row,
    add_short_row,
    add_tile,
    copy_to_panel,
    copy_to_panels,
    turn,
)
from ._parallel import over_rows, ready

if TYPE_CHECKING:
    from ._elementary import Number
    from ._validate import FloatArray

__all__ = [
    "affine",
    "affine_jvp",
    "affine_vjp",
    "column_sums",
    "copy",
    "dot",
    "multiply",
    "pack",
    "panels",
    "product",
    "sum_of_products",
    "transposed_product",
]

FLOPS = 100.0  # multiplications and additions in a nanosecond, on one core, in float32
DEPTH = 512  # terms that are added up before they are added to others; a panel has 64 KiB then
BLOCK = 4 * DEPTH  # terms for which the right operand is in panels at a time
PIECE = 8 * ROWS  # rows of a result that are computed in one go
PIECES = 8  # parts of a result there shall be, at least
FEW = 4  # rows up to which a copy of the right operand costs more than it saves
ROWS_OF_SUM = 256  # added up before they are added to others


@kernel
def copy(x: FloatArray, out: FloatArray) -> None:
    """Copy a row, or the part of it for which there is room."""
    for j in range(out.size):
        out[j] = x[j]


@kernel
def _copy_rows(x: FloatArray, out: FloatArray) -> None:
    for i in range(x.shape[0]):
        row, to = x[i], out[i]
        for j in range(row.size):  # a call for each of these short rows would take longer
            to[j] = row[j]


@kernel
def _turn(x: FloatArray, out: FloatArray) -> None:
    """Copy a matrix whose columns lie in one piece, by squares."""
    side = WIDTH_BYTES // x.itemsize // VECTORS
    rows, columns = x.shape
    high, wide = rows - rows % side, columns - columns % side
    for j in range(0, wide, side):
        for i in range(0, high, side):
            turn(x[i : i + side, j : j + side], out[i : i + side, j : j + side])
    _copy_rows(x[high:], out[high:])
    _copy_rows(x[:high, wide:], out[:high, wide:])


@kernel
def _copy_matrix(x: FloatArray, out: FloatArray) -> None:
    """Copy a matrix to one whose rows lie in one piece."""
    if x.strides[0] == x.itemsize:
        _turn(x, out)
    else:
        _copy_rows(x, out)


@kernel
def pack(b: FloatArray, out: FloatArray) -> None:
    """Copy b (K, N) into panels `out` (P, K, W), with zeros beyond the last column."""
    count, depth, width = out.shape
    p = 0
    if b.strides[1] == b.itemsize:
        while (p + PANELS) * width <= b.shape[1]:  # a line of each panel, one after the other
            copy_to_panels(b[:, p * width :], out[p : p + PANELS])
            p += PANELS
        while (p + 1) * width <= b.shape[1]:
            copy_to_panel(b[:, p * width :], out[p : p + 1])
            p += 1
    for q in range(p, count):
        part, panel = b[:, q * width : (q + 1) * width], out[q]
        _copy_matrix(part, panel)
        for k in range(depth if part.shape[1] < width else 0):
            beyond = panel[k][part.shape[1] :]
            for j in range(beyond.size):
                beyond[j] = 0.0


@kernel
def _pack(start: int, stop: int, b: FloatArray, out: FloatArray) -> None:
    """Copy matrices b (B, K, N) into panels `out` (B, P, K, W), PANELS at a time."""
    count, width = out.shape[1], out.shape[3]
    groups = -(-count // PANELS)
    for task in range(start, stop):
        i, p = task // groups, task % groups * PANELS
        pack(b[i][:, p * width : (p + PANELS) * width], out[i, p : p + PANELS])


@kernel
def _add_to_columns(a: FloatArray, w: FloatArray, out: FloatArray) -> None:
    """Add the product of `a` with some panels w, all of whose columns `out` has."""
    rows, width = a.shape[0], w.shape[2]
    whole = rows - rows % ROWS
    rest = whole + (HALF if rows - whole >= HALF else 0)
    for p in range(w.shape[0] if rest else 0):
        to = out[:, p * width : (p + 1) * width]
        for i in range(0, whole, ROWS):
            add_tile(a[i : i + ROWS], w[p : p + 1], to[i : i + ROWS])
        if rest > whole:
            add_half(a[whole:rest], w[p : p + 1], to[whole:rest])
    for i in range(rest, rows):
        row, to, p = a[i : i + 1], out[i : i + 1], 0
        while p + PANELS <= w.shape[0]:
            add_row(row, w[p : p + PANELS], to[:, p * width : (p + PANELS) * width])
            p += PANELS
        if p + FEW_PANELS <= w.shape[0]:
            add_short_row(row, w[p : p + FEW_PANELS], to[:, p * width : (p + FEW_PANELS) * width])
            p += FEW_PANELS
        for single in range(p, w.shape[0]):
            columns = to[:, single * width : (single + 1) * width]
            add_part_of_row(row, w[single : single + 1], columns)


@kernel
def _add_block(a: FloatArray, w: FloatArray, out: FloatArray) -> None:
    """Add the product of `a` with panels w to `out`, for so many terms as one panel holds."""
    rows, columns = out.shape
    width = w.shape[2]
    whole = columns // width
    inside = whole * width
    _add_to_columns(a, w[:whole], out[:, :inside])
    if inside < columns:
        room = np.zeros((rows, width), out.dtype)
        _add_to_columns(a, w[whole:], room)
        for i in range(rows):
            to, more = out[i, inside:], room[i]
            for j in range(to.size):
                to[j] += more[j]


@kernel
def multiply(a: FloatArray, w: FloatArray, out: FloatArray) -> None:
    """Add the product of `a` (R, K) with panels of K rows to `out` (R, N)."""
    rows, terms = a.shape
    if rows > HALF and a.strides[0] == a.itemsize:  # the terms of a row lie far apart
        near = np.empty((rows, min(terms, DEPTH)), out.dtype)
        for k in range(0, terms, DEPTH):
            part = near[:, : min(terms - k, DEPTH)]
            _copy_matrix(a[:, k : k + DEPTH], part)
            _add_block(part, w[:, k : k + DEPTH], out)
    else:
        for k in range(0, terms, DEPTH):
            _add_block(a[:, k : k + DEPTH], w[:, k : k + DEPTH], out)


@kernel
def dot(a: FloatArray, b: FloatArray, out: FloatArray) -> None:
    """Write ``a @ b`` to `out`, on one thread, for use inside kernels."""
    width = WIDTH_BYTES // out.itemsize
    w = np.empty((-(-b.shape[1] // width), b.shape[0], width), out.dtype)
    pack(b, w)
    for i in range(out.shape[0]):
        row = out[i]
        for j in range(row.size):
            row[j] = 0.0
    multiply(a, w, out)


def panels(b: FloatArray) -> FloatArray:
    """Copy matrices (..., K, N) into panels (..., P, K, W), with zeros beyond the last column."""
    *batch, depth, columns = b.shape
    width = WIDTH_BYTES // b.itemsize
    count = -(-columns // width)
    matrices = b if b.ndim == 3 else b[None]
    out = np.empty((len(matrices), count, depth, width), b.dtype)
    tasks = len(out) * -(-count // PANELS)
    over_rows(_pack, tasks, 0.3 * depth * width * PANELS, matrices, out)
    return out.reshape(*batch, count, depth, width)


@kernel
def _parts_of_product(
    start: int,
    stop: int,
    a: FloatArray,
    k: int,
    w: FloatArray,
    bias: FloatArray,
    each: int,
    out: FloatArray,
) -> None:
    """
    Compute some parts of the result, each a piece of rows and `each` panels of columns.

    The panels are for the terms from k on; the first go to the bias, others to what is there.
    """
    depth, width = w.shape[1:]
    across = -(-w.shape[0] // each)
    for part in range(start, stop):
        i, p = part // across * PIECE, part % across * each
        columns = slice(p * width, (p + each) * width)
        to, more = out[i : i + PIECE, columns], bias[columns]
        for r in range(to.shape[0] if k == 0 else 0):
            copy(more, to[r])
        multiply(a[i : i + PIECE, k : k + depth], w[p : p + each], to)


@summation
def sum_of_products(x: FloatArray, y: FloatArray) -> Number:
    """Return the sum of the products of two rows of one dtype, in that dtype."""
    total = x.dtype.type(0.0)
    for k in range(x.size):
        total += x[k] * y[k]
    return total


@kernel
def _columns_of_product(
    start: int, stop: int, a: FloatArray, b: FloatArray, bias: FloatArray, out: FloatArray
) -> None:
    """Compute some columns for few rows; b (N, K) is the transposed right operand."""
    for j in range(start, stop):
        for i in range(a.shape[0]):
            out[i, j] = bias[j] + sum_of_products(a[i], b[j])


def product(a: FloatArray, b: FloatArray, bias: FloatArray | None = None) -> FloatArray:
    """
    Return the product of two matrices of one dtype, computed in that dtype, plus a row `bias`.

    Transposed views are fine.
    """
    (n, inner), m = a.shape, b.shape[1]
    out = np.empty((n, m), a.dtype)
    if bias is None:
        bias = np.zeros(m, a.dtype)
    speed = FLOPS * 4 / a.itemsize
    if n <= FEW and b.flags.f_contiguous:
        time = 2.0 * n * inner / (0.1 * speed)
        over_rows(_columns_of_product, m, time, ready(a), ready(b.T), bias, out)
        return out
    pieces, across = -(-n // PIECE), -(-m * a.itemsize // WIDTH_BYTES)
    each = max(1, across * pieces // PIECES) if pieces < PIECES else max(1, across)
    parts = pieces * -(-across // each)
    for k in range(0, max(inner, 1), BLOCK):
        right = b[k : k + BLOCK]
        time = 2.0 * n * right.size / speed / max(parts, 1)
        over_rows(_parts_of_product, parts, time, a, k, panels(right), bias, each, out)
    return out


def transposed_product(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return ``a.T @ b``, a sum over the rows of both, of one dtype."""
    return product(a.T, b)


@kernel
def _add_rows(start: int, stop: int, x: FloatArray, sums: FloatArray) -> None:
    for piece in range(start, stop):
        s = sums[piece]
        for r in range(piece * ROWS_OF_SUM, min((piece + 1) * ROWS_OF_SUM, x.shape[0])):
            row = x[r]
            for c in range(s.size):
                s[c] += np.float64(row[c])


def column_sums(x: FloatArray) -> FloatArray:
    """Return the sum of the rows of a matrix, accumulated in float64."""
    x = np.ascontiguousarray(x)
    sums = np.zeros((-(-len(x) // ROWS_OF_SUM), x.shape[1]))
    over_rows(_add_rows, len(sums), 0.3 * ROWS_OF_SUM * x.shape[1], x, sums)
    with np.errstate(over="ignore"):  # too large for float32 is inf
        out: FloatArray = sums.sum(0).astype(x.dtype)
    return out


def _matrix(x: FloatArray) -> FloatArray:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def affine(x: FloatArray, w: FloatArray, b: FloatArray | None = None) -> FloatArray:
    """Return ``x @ w.T + b`` for x (..., n_in), w (n_out, n_in), b (n_out,), of one dtype."""
    return product(_matrix(x), w.T, b).reshape(*x.shape[:-1], len(w))


def affine_vjp(
    dout: FloatArray, x: FloatArray, w: FloatArray, b: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return (dx, dw, db) for the cotangent `dout` of `affine`; db is None without b."""
    u, rows = _matrix(dout), _matrix(x)
    dx = product(u, w).reshape(x.shape)
    db = None if b is None else column_sums(u)
    return dx, transposed_product(u, rows), db


def affine_jvp(
    primals: tuple[FloatArray, FloatArray, FloatArray | None],
    tangents: tuple[FloatArray | None, FloatArray | None, FloatArray | None],
) -> FloatArray:
    """Return the tangent of `affine`: dx w' + x dw' + db, where None is zero."""
    (x, w, _), (dx, dw, db) = primals, tangents
    out = np.zeros((*x.shape[:-1], len(w)), x.dtype)
    if dx is not None:
        out += affine(dx, w)
    if dw is not None:
        out += affine(x, dw)
    if db is not None:
        out += db
    return out
