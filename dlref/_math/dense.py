"""The dense layer, on NumPy's BLAS, in the dtype of its operands."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .._core.arguments import FloatArray

__all__ = ["affine", "affine_jvp", "affine_vjp", "column_sums"]


def _rows(x: FloatArray) -> FloatArray:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def affine(x: FloatArray, w: FloatArray, b: FloatArray | None = None) -> FloatArray:
    """Return ``x @ w.T + b`` for x (..., n_in), w (n_out, n_in), b (n_out,), of one dtype."""
    with np.errstate(all="ignore"):
        out = _rows(x) @ w.T
        if b is not None:
            out += b
    return out.reshape(*x.shape[:-1], len(w))


def column_sums(x: FloatArray) -> FloatArray:
    """Return the sum of the rows of a matrix, accumulated in float64."""
    with np.errstate(all="ignore"):  # too large for float32 is inf
        out: FloatArray = x.sum(0, dtype=np.float64).astype(x.dtype)
    return out


def affine_vjp(
    dout: FloatArray, x: FloatArray, w: FloatArray, b: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return (dx, dw, db) for the cotangent `dout` of `affine`; db is None without b."""
    u = _rows(dout)
    with np.errstate(all="ignore"):
        dx, dw = (u @ w).reshape(x.shape), u.T @ _rows(x)
    return dx, dw, None if b is None else column_sums(u)


@np.errstate(all="ignore")
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
