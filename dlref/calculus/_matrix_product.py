r"""Products of matrices, and the quadratic form."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._broadcast import unbroadcast
from .._validate import (
    FloatArray,
    as_floats,
    as_tangents,
    check_matrix,
    check_ndim,
    check_shape,
    result,
)

__all__ = [
    "matmul_jacobian",
    "matmul_jvp",
    "matmul_vjp",
    "quadratic_form_grad",
    "quadratic_form_jvp",
    "quadratic_form_vjp",
]


def _as_matrices(
    names: tuple[str, str], a: FloatArray, b: FloatArray
) -> tuple[FloatArray, FloatArray, tuple[int, ...]]:
    """Return the operands as stacks of matrices, and the shape of their product."""
    check_ndim(names[0], a, 1)
    check_ndim(names[1], b, 1)
    matrix_a, matrix_b = a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
    try:
        batch = np.broadcast_shapes(matrix_a.shape[:-2], matrix_b.shape[:-2])
    except ValueError:
        batch = None
    if batch is None or matrix_a.shape[-1] != matrix_b.shape[-2]:
        msg = (
            f"Arguments {names[0]!r} and {names[1]!r} must have shapes (..., n, k) and "
            f"(..., k, p), or (k,), not {a.shape} and {b.shape}."
        )
        raise ValueError(msg)
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ()
    return matrix_a, matrix_b, (*batch, *rows, *columns)


def matmul_jacobian(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both Jacobians of the matrix product :math:`Y = A B`.

    Parameters
    ----------
    a : array_like, shape (..., n, k) or (k,)
        Left factor; a vector is a row.
    b : array_like, shape (..., k, p) or (k,)
        Right factor; a vector is a column. Leading axes of both broadcast.

    Returns
    -------
    J_a : ndarray, shape (..., n, p, n, k)
        ``J_a[..., i, l, r, s]`` is :math:`\partial Y_{il} / \partial A_{rs}`, one Jacobian
        per product of two matrices. For a vector its axis of length one is missing.
    J_b : ndarray, shape (..., n, p, k, p)
        ``J_b[..., i, l, r, s]`` is :math:`\partial Y_{il} / \partial B_{rs}`.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If an argument is a scalar, or the shapes do not fit.

    See Also
    --------
    matmul_vjp, matmul_jvp : The products with a matrix, without forming the Jacobian.

    Notes
    -----
    From :math:`Y_{il} = \sum_m A_{im} B_{ml}`,

    .. math::

        \pdv{Y_{il}}{A_{rs}} = \sum_m \delta_{ir} \delta_{ms} B_{ml} = \delta_{ir} B_{sl},
        \qquad
        \pdv{Y_{il}}{B_{rs}} = A_{ir}\, \delta_{ls} .

    Only one entry in :math:`n` of the first and one in :math:`p` of the second is not
    zero. Stacked into a vector row by row, :math:`J_A = I_n \otimes B^\top` and
    :math:`J_B = A \otimes I_p` :cite:p:`MagnusNeudecker2019`.

    Examples
    --------
    The Jacobian of :math:`y = A x` with respect to :math:`x` is :math:`A`:

    >>> from dlref.calculus import matmul_jacobian
    >>> J_a, J_x = matmul_jacobian([[1, 2], [3, 4]], [5, 6])
    >>> J_x
    array([[1., 2.],
           [3., 4.]])

    and with respect to :math:`A`, output :math:`i` reads row :math:`i` alone:

    >>> J_a[0]
    array([[5., 6.],
           [0., 0.]])
    """
    dtype, (a, b) = as_floats({"a": a, "b": b})
    matrix_a, matrix_b, _ = _as_matrices(("a", "b"), a, b)
    n, p = matrix_a.shape[-2], matrix_b.shape[-1]
    batch = np.broadcast_shapes(matrix_a.shape[:-2], matrix_b.shape[:-2])
    jac_a = np.einsum("ir,...sl->...ilrs", np.eye(n), matrix_b)
    jac_b = np.einsum("...ir,ls->...ilrs", matrix_a, np.eye(p))
    # the axes that a vector does not have: its own, and the output's
    of_a = (-2,) if a.ndim == 1 else ()
    of_b = (-1,) if b.ndim == 1 else ()
    lost = ((-4,) if a.ndim == 1 else ()) + ((-3,) if b.ndim == 1 else ())
    jac_a = np.broadcast_to(jac_a, batch + jac_a.shape[-4:]).squeeze(lost + of_a)
    jac_b = np.broadcast_to(jac_b, batch + jac_b.shape[-4:]).squeeze(lost + of_b)
    return result(jac_a.copy(), dtype), result(jac_b.copy(), dtype)


def matmul_vjp(
    dout: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the matrix product.

    Parameters
    ----------
    dout : array_like, shape (..., n, p)
        Cotangent :math:`U = \partial L / \partial Y`, of the shape of ``a @ b``.
    a : array_like, shape (..., n, k) or (k,)
        Left factor of :math:`Y = A B`; a vector is a row.
    b : array_like, shape (..., k, p) or (k,)
        Right factor; a vector is a column. Leading axes of both broadcast.

    Returns
    -------
    da : ndarray, shape ``a.shape``
        :math:`U B^\top`, summed over what was broadcast.
    db : ndarray, shape ``b.shape``
        :math:`A^\top U`, summed over what was broadcast.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If an operand is a scalar, the shapes do not fit, or `dout` has not the shape of
        the product.

    See Also
    --------
    matmul_jacobian : The derivation of :math:`J`.
    matmul_jvp : Forward mode.

    Notes
    -----
    With the Jacobians of :func:`matmul_jacobian`,

    .. math::

        \pdv{L}{A_{rs}} = \sum_{i,l} U_{il}\, \delta_{ir} B_{sl}
                        = \sum_l U_{rl} B_{sl} = (U B^\top)_{rs},
        \qquad
        \pdv{L}{B_{rs}} = \sum_{i,l} U_{il}\, A_{ir} \delta_{ls}
                        = (A^\top U)_{rs} .

    Shapes leave no choice: only :math:`U B^\top` is :math:`n \times k`. Both products
    together cost twice the forward one. Products are formed in float64 by BLAS and
    rounded once.

    References
    ----------
    The rule in matrix form is in :cite:t:`Giles2008`.

    Examples
    --------
    A dense layer without bias, :math:`y = W x`: its weight gradient is the outer product
    of what comes back and what went in.

    >>> from dlref.calculus import matmul_vjp
    >>> dW, dx = matmul_vjp([1, 10], [[1, 2], [3, 4]], [5, 6])
    >>> dW
    array([[ 5.,  6.],
           [50., 60.]])
    >>> dx
    array([31., 42.])
    """
    dtype, (dout, a, b) = as_floats({"dout": dout, "a": a, "b": b})
    matrix_a, matrix_b, shape = _as_matrices(("a", "b"), a, b)
    check_shape("dout", dout, shape)
    batch = np.broadcast_shapes(matrix_a.shape[:-2], matrix_b.shape[:-2])
    u = dout.reshape(*batch, matrix_a.shape[-2], matrix_b.shape[-1])
    with np.errstate(all="ignore"):
        da = unbroadcast(u @ matrix_b.mT, matrix_a.shape).reshape(a.shape)
        db = unbroadcast(matrix_a.mT @ u, matrix_b.shape).reshape(b.shape)
    return result(da, dtype), result(db, dtype)


def matmul_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the matrix product.

    Parameters
    ----------
    primals : tuple (a, b) of array_like
        Factors of :math:`Y = A B`, of shapes (..., n, k) and (..., k, p), or (k,).
    tangents : tuple (da, db) of array_like or None
        Directions, each of the shape of its factor; None is zero.

    Returns
    -------
    ndarray or scalar, shape (..., n, p)
        :math:`\dot Y = \dot A B + A \dot B`.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If an operand is a scalar, the shapes do not fit, or a tangent has not the shape
        of its factor.

    See Also
    --------
    matmul_jacobian : The derivation of :math:`J`.
    matmul_vjp : Reverse mode.

    Notes
    -----
    The product rule, with the order of the factors kept: matrices do not commute.

    Examples
    --------
    The derivative of :math:`A^2` is :math:`\dot A A + A \dot A`, not :math:`2 A \dot A`:

    >>> from dlref.calculus import matmul_jvp
    >>> A, dA = [[0, 1], [0, 0]], [[0, 0], [1, 0]]
    >>> matmul_jvp((A, A), (dA, dA))
    array([[1., 0.],
           [0., 1.]])
    """
    dtype, (a, b), (da, db) = as_tangents(primals, tangents, count=2)
    _as_matrices(("primals[0]", "primals[1]"), a, b)
    with np.errstate(all="ignore"):
        return result(da @ b + a @ db, dtype)


def _check_quadratic_form(names: tuple[str, str], x: FloatArray, a: FloatArray) -> None:
    check_ndim(names[0], x, 1)
    check_matrix(names[1], a)
    check_shape(names[1], a, (*x.shape, x.shape[-1]))


def quadratic_form_grad(x: npt.ArrayLike, a: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both gradients of the quadratic form :math:`y = x^\top A x`.

    Parameters
    ----------
    x : array_like, shape (..., n)
        Vector, or rows of vectors.
    a : array_like, shape (..., n, n)
        Matrix :math:`A`, one per row, not necessarily symmetric.

    Returns
    -------
    gx : ndarray, shape (..., n)
        :math:`(A + A^\top) x`.
    ga : ndarray, shape (..., n, n)
        :math:`x x^\top`.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `x` is a scalar, or `a` has not the shape (..., n, n).

    See Also
    --------
    quadratic_form_vjp, quadratic_form_jvp : The products with a cotangent and tangents.
    dot_grad : The case :math:`A = I` with two vectors.

    Notes
    -----
    In :math:`y = \sum_{ij} x_i A_{ij} x_j` the element :math:`x_k` stands twice:

    .. math::

        \pdv{y}{x_k} = \sum_{ij} (\delta_{ik} A_{ij} x_j + x_i A_{ij} \delta_{jk})
                     = (A x)_k + (A^\top x)_k ,
        \qquad
        \pdv{y}{A_{kl}} = x_k x_l .

    For a symmetric matrix the first is the familiar :math:`2 A x`. The second treats all
    :math:`n^2` entries of :math:`A` as free.

    Examples
    --------
    >>> from dlref.calculus import quadratic_form_grad
    >>> gx, ga = quadratic_form_grad([1, 2], [[1, 4], [0, 3]])
    >>> gx
    array([10., 16.])
    >>> ga
    array([[1., 2.],
           [2., 4.]])
    """
    dtype, (x, a) = as_floats({"x": x, "a": a})
    _check_quadratic_form(("x", "a"), x, a)
    with np.errstate(all="ignore"):
        gx = ((a + a.mT) @ x[..., None])[..., 0]
        return result(gx, dtype), result(x[..., None] * x[..., None, :], dtype)


def quadratic_form_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, a: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the quadratic form.

    Parameters
    ----------
    dout : array_like, shape (...)
        Cotangent :math:`u = \partial L / \partial y`, a number per row.
    x : array_like, shape (..., n)
        Vector, or rows of vectors.
    a : array_like, shape (..., n, n)
        Matrix :math:`A`, one per row.

    Returns
    -------
    dx : ndarray, shape (..., n)
        :math:`u (A + A^\top) x`.
    da : ndarray, shape (..., n, n)
        :math:`u\, x x^\top`.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `x` is a scalar, `a` has not the shape (..., n, n), or `dout` has not one number
        per row.

    See Also
    --------
    quadratic_form_grad : The derivation.
    quadratic_form_jvp : Forward mode.

    Notes
    -----
    The output is one number per row, so the vjp scales that row's gradient by :math:`u`.

    Examples
    --------
    >>> from dlref.calculus import quadratic_form_vjp
    >>> dx, da = quadratic_form_vjp(0.5, [1, 2], [[1, 4], [0, 3]])
    >>> dx
    array([5., 8.])
    """
    dtype, (dout, x, a) = as_floats({"dout": dout, "x": x, "a": a})
    _check_quadratic_form(("x", "a"), x, a)
    check_shape("dout", dout, x.shape[:-1])
    with np.errstate(all="ignore"):
        ux = dout[..., None] * x
        dx = ((a + a.mT) @ ux[..., None])[..., 0]
        return result(dx, dtype), result(ux[..., None] * x[..., None, :], dtype)


def quadratic_form_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the quadratic form.

    Parameters
    ----------
    primals : tuple (x, a) of array_like
        Vectors of shape (..., n) and matrices of shape (..., n, n).
    tangents : tuple (dx, da) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray or scalar, shape (...)
        :math:`\dot y = \dot x^\top (A + A^\top) x + x^\top \dot A x`.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If the shapes do not fit, or a tangent has not the shape of its operand.

    See Also
    --------
    quadratic_form_grad : The derivation.
    quadratic_form_vjp : Reverse mode.

    Notes
    -----
    A skew-symmetric change of :math:`A` moves nothing: :math:`x^\top \dot A x = 0`.

    Examples
    --------
    >>> from dlref.calculus import quadratic_form_jvp
    >>> float(quadratic_form_jvp(([1, 2], [[1, 4], [0, 3]]), (None, [[0, 7], [-7, 0]])))
    0.0
    """
    dtype, (x, a), (dx, da) = as_tangents(primals, tangents, count=2)
    _check_quadratic_form(("primals[0]", "primals[1]"), x, a)
    with np.errstate(all="ignore"):
        moved = (a + a.mT) @ dx[..., None] + da @ x[..., None]
        return result(np.sum(x * moved[..., 0], axis=-1), dtype)
