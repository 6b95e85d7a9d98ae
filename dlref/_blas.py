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

from ._parallel import over_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._validate import FloatArray

try:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
except ImportError:  # pragma: no cover  # BLAS then has as many threads as it likes
    ThreadpoolController = None

__all__ = ["affine", "affine_jvp", "affine_vjp", "one_thread", "product"]

FLOPS = 60.0  # multiplications and additions in a nanosecond, on one core
PIECES = (2, 8)  # of a product, and of one that takes more than LARGE nanoseconds
LARGE = 2e7
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
    start: int, stop: int, a: FloatArray, b: FloatArray, size: int, out: FloatArray
) -> None:
    for piece in range(start, stop):
        rows = slice(piece * size, (piece + 1) * size)
        np.dot(a[rows], b, out=out[rows])


def product(a: FloatArray, b: FloatArray) -> FloatArray:
    """
    Return the product of two matrices of one dtype, computed in that dtype.

    Transposed views are fine: BLAS reads them as they are.
    """
    (n, inner), m = a.shape, b.shape[1]
    out = np.empty((n, m), a.dtype)
    pieces = PIECES[2.0 * n * inner * m / FLOPS > LARGE]
    size = max(LEAST, -(-n // pieces))
    with np.errstate(all="ignore"), one_thread():
        cost = 2.0 * size * inner * m / FLOPS
        over_rows(_rows_of_product, -(-n // size), cost, a, b, size, out)
    return out


def _matrix(x: FloatArray) -> FloatArray:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def affine(x: FloatArray, w: FloatArray, b: FloatArray | None = None) -> FloatArray:
    """Return ``x @ w.T + b`` for x (..., n_in), w (n_out, n_in), b (n_out,), of one dtype."""
    out = product(_matrix(x), w.T)
    if b is not None:
        out += b
    return out.reshape(*x.shape[:-1], len(w))


def affine_vjp(
    dout: FloatArray, x: FloatArray, w: FloatArray, b: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return (dx, dw, db) for the cotangent `dout` of `affine`; db is None without b."""
    u, rows = _matrix(dout), _matrix(x)
    dx = product(u, w).reshape(x.shape)
    db = None if b is None else u.sum(axis=0, dtype=np.float64).astype(u.dtype)
    return dx, product(u.T, rows), db


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
