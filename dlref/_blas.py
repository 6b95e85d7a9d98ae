"""
Products of matrices in the dtype of their operands, with the threads of BLAS under control.

BLAS keeps threads of its own, which spin for a while after each product and then stand in the
way of ours.  So it gets one thread while dlref computes, and the rows of a product are shared out
by `dlref._parallel`, in pieces whose size depends on the shape alone: the bits of a result do not
depend on the number of threads.

`affine` and its products with the Jacobian are the dense layer of training: in float32 they take a
third of the time of `dlref.neurons.linear`, which accumulates in float64.
"""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ._jit import kernel
from ._parallel import over_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._validate import FloatArray

try:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
except ImportError:  # pragma: no cover  # BLAS then has as many threads as it likes
    ThreadpoolController = None

__all__ = [
    "affine",
    "affine_jvp",
    "affine_vjp",
    "column_sums",
    "one_thread",
    "product",
    "transposed_product",
]

FLOPS = 60.0  # multiplications and additions in a nanosecond, on one core
SMALL, LARGE = 2e5, 2e7  # nanoseconds that a product takes
ROWS = 256  # added up before they are added to others
LEAST = 64  # rows of a piece, for BLAS to be at its speed


class _Limit:
    """How many computations need BLAS held to one thread, and what it had before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.libraries: list[Any] | None = None
        self.before: list[int] = []

    def find(self) -> list[Any]:
        """Return the BLAS libraries of this process; found once, in some milliseconds."""
        if self.libraries is None:
            found = ThreadpoolController() if ThreadpoolController is not None else None
            self.libraries = found.select(user_api="blas").lib_controllers if found else []
        return self.libraries

    def enter(self) -> None:
        with self.lock:
            self.count += 1
            if self.count == 1:
                self.before = [library.num_threads for library in self.find()]
                self.set([1] * len(self.before))

    def leave(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                self.set(self.before)

    def set(self, numbers: list[int]) -> None:
        for library, now, number in zip(self.find(), self.before, numbers, strict=True):
            if now > 1:
                library.set_num_threads(number)


_limit = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold BLAS to one thread; several threads of Python may ask for it at once."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


def _rows_of_product(
    start: int,
    stop: int,
    a: FloatArray,
    b: FloatArray,
    bias: FloatArray | None,
    bounds: list[int],
    out: FloatArray,
) -> None:
    for piece in range(start, stop):
        rows = slice(bounds[piece], bounds[piece + 1])
        np.dot(a[rows], b, out=out[rows])
        if bias is not None:
            out[rows] += bias


def _pieces(rows: int, time: float) -> list[int]:
    """Return the bounds of pieces, the last ones smaller, so that threads end together."""
    if time <= SMALL:
        return [0, rows]
    if rows < 8 * LEAST:
        return [*range(0, rows, LEAST), rows]
    return [rows * eighth // 8 for eighth in ((0, 3, 6, 7, 8) if time < LARGE else range(9))]


def product(a: FloatArray, b: FloatArray, bias: FloatArray | None = None) -> FloatArray:
    """
    Return the product of two matrices of one dtype, computed in that dtype, plus a row `bias`.

    Transposed views are fine: BLAS reads them as they are.
    """
    (n, inner), m = a.shape, b.shape[1]
    out = np.empty((n, m), a.dtype)
    time = 2.0 * n * inner * m / FLOPS
    bounds = _pieces(n, time)
    with np.errstate(all="ignore"), one_thread():
        pieces = len(bounds) - 1
        over_rows(_rows_of_product, pieces, time / pieces, a, b, bias, bounds, out)
    return out


def _part_of_sum(
    start: int, stop: int, a: FloatArray, b: FloatArray, bounds: list[int], parts: FloatArray
) -> None:
    for piece in range(start, stop):
        rows = slice(bounds[piece], bounds[piece + 1])
        np.dot(a[rows].T, b[rows], out=parts[piece])


@kernel
def _add_parts(start: int, stop: int, parts: FloatArray, out: FloatArray) -> None:
    for r in range(start, stop):
        to = out[r]
        for part in range(parts.shape[0]):
            more = parts[part, r]
            for c in range(to.size):
                to[c] += more[c]


def transposed_product(a: FloatArray, b: FloatArray) -> FloatArray:
    """
    Return ``a.T @ b``, a sum over the rows of both, of one dtype.

    Here the sum is shared out: BLAS takes twice as long for some columns of `a` as it should.
    """
    (n, m), k = a.shape, b.shape[1]
    time = 2.0 * n * m * k / FLOPS
    pieces = 1 if time < SMALL else 2 if time < LARGE else 4
    bounds = [*range(0, max(n, 1), max(LEAST, -(-n // pieces))), n]
    parts = np.empty((len(bounds) - 1, m, k), a.dtype)
    with np.errstate(all="ignore"), one_thread():
        over_rows(_part_of_sum, len(parts), time / len(parts), a, b, bounds, parts)
    if len(parts) == 1:
        return parts.reshape(m, k)
    out = np.zeros((m, k), a.dtype)
    over_rows(_add_parts, m, 0.3 * len(parts) * k, parts, out)
    return out


@kernel
def _add_rows(start: int, stop: int, x: FloatArray, sums: FloatArray) -> None:
    for piece in range(start, stop):
        s = sums[piece]
        for r in range(piece * ROWS, min((piece + 1) * ROWS, x.shape[0])):
            row = x[r]
            for c in range(s.size):
                s[c] += np.float64(row[c])


def column_sums(x: FloatArray) -> FloatArray:
    """Return the sum of the rows of a matrix, accumulated in float64."""
    x = np.ascontiguousarray(x)
    sums = np.zeros((-(-len(x) // ROWS), x.shape[1]))
    over_rows(_add_rows, len(sums), 0.3 * ROWS * x.shape[1], x, sums)
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
