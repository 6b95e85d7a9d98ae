"""Dense layers and large matrix products by NumPy's BLAS, in the dtype of their operands."""

from __future__ import annotations

import math

import numpy as np

from .._core.arguments import FloatArray

#: Multiplications per BLAS call, about a tenth of a second: BLAS does not check for Ctrl-C.
AT_ONCE = 2**31


def blas_matmul(a: FloatArray, b: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Return ``a @ b`` for matrices (..., R, K) and (..., K, N), split if `a` is large."""
    *lead, rows, depth = a.shape
    shape = np.broadcast_shapes(lead, b.shape[:-2]) if lead or b.ndim > 2 else ()
    piece = max(1, AT_ONCE // max(1, math.prod(shape) * depth * b.shape[-1]))
    if rows <= piece:
        return np.matmul(a, b, out=out)
    if out is None:
        out = np.empty((*shape, rows, b.shape[-1]), a.dtype)
    for start in range(0, rows, piece):
        some = slice(start, start + piece)
        np.matmul(a[..., some, :], b, out=out[..., some, :])
    return out


def as_matrix(x: FloatArray) -> FloatArray:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def affine(x: FloatArray, w: FloatArray, b: FloatArray | None = None) -> FloatArray:
    """Return ``x @ w.T + b`` for x (..., n_in), w (n_out, n_in), b (n_out,), of one dtype."""
    with np.errstate(all="ignore"):
        out = blas_matmul(as_matrix(x), w.T)
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
    u = as_matrix(dout)
    with np.errstate(all="ignore"):
        dx, dw = blas_matmul(u, w).reshape(x.shape), blas_matmul(u.T, as_matrix(x))
    return dx, dw, None if b is None else column_sums(u)


@np.errstate(all="ignore")
def affine_jvp(
    primals: tuple[FloatArray, FloatArray, FloatArray | None],
    tangents: tuple[FloatArray | None, FloatArray | None, FloatArray | None],
) -> FloatArray:
    """Return the tangent of `affine`: dx w' + x dw' + db, where None means zero."""
    (x, w, _), (dx, dw, db) = primals, tangents
    out = np.zeros((*x.shape[:-1], len(w)), x.dtype)
    if dx is not None:
        out += affine(dx, w)
    if dw is not None:
        out += affine(x, dw)
    if db is not None:
        out += db
    return out
