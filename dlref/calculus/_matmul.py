r"""Matrix product."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_tangents, check_ndim, check_shape, result
from .._core.broadcasting import unbroadcast
from .._math.dense import blas_matmul


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
    Both Jacobians of the matrix product :math:`\mat Y = \mat A \mat B`.

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

    The symbol :math:`\delta_{ij}` is 1 if i = j, else 0. So only one entry in :math:`n` of the
    first Jacobian and one in :math:`p` of the second is not zero. With both matrices stacked into
    vectors row by row, as NumPy does, and with the Kronecker product :math:`\otimes`, which puts a
    multiple of its second factor in place of each entry of the first,

    .. math:: \mat J_A = \mat I_n \otimes \mat B^\top , \qquad \mat J_B = \mat A \otimes \mat I_p .

    :cite:t:`MagnusNeudecker2019` stack column by column; then they are
    :math:`\mat B^\top \otimes \mat I_n` and :math:`\mat I_p \otimes \mat A`.

    Examples
    --------
    The Jacobian of :math:`\vec y = \mat A \vec x` with respect to :math:`\vec x` is :math:`\mat A`:

    >>> from dlref.calculus import matmul_jacobian
    >>> J_a, J_x = matmul_jacobian([[1, 2], [3, 4]], [5, 6])
    >>> J_x
    array([[1., 2.],
           [3., 4.]])

    and with respect to :math:`\mat A`, output :math:`i` depends on row :math:`i` alone. This is the
    Jacobian of the first output, laid out as the matrix :math:`\mat A`:

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
        Cotangent :math:`\mat U = \partial L / \partial \mat Y`, of the shape of ``a @ b``.
    a, b : as in `matmul_jacobian`
        Raises the same errors.

    Returns
    -------
    da : ndarray, shape ``a.shape``
        :math:`\mat U \mat B^\top`, summed over broadcast axes.
    db : ndarray, shape ``b.shape``
        :math:`\mat A^\top \mat U`, summed over broadcast axes.

    Notes
    -----
    **The differential.** The product rule, with the factors in their order:

    .. math:: \dd \mat Y = \dd \mat A\, \mat B + \mat A\, \dd \mat B .

    **The inner product.** :math:`\dd L = \langle \mat U, \dd \mat Y \rangle = \sum_{il} U_{il}\,
    \dd Y_{il}`.

    **The transpose.** The factors of :math:`\dd A_{rs}` and :math:`\dd B_{rs}`, with the Jacobians
    of :func:`matmul_jacobian`, are

    .. math::

        \pdv{L}{A_{rs}} = \sum_{i,l} U_{il}\, \delta_{ir} B_{sl}
                        = \sum_l U_{rl} B_{sl} = (\mat U \mat B^\top)_{rs},
        \qquad
        \pdv{L}{B_{rs}} = \sum_{i,l} U_{il}\, A_{ir} \delta_{ls}
                        = (\mat A^\top \mat U)_{rs} .

    Where n, k and p differ, the shapes leave no choice: only :math:`\mat U \mat B^\top` is
    :math:`n \times k`. Both products together cost twice the forward product. NumPy computes them
    in the dtype of the input.

    References
    ----------
    The rule in matrix form is in :cite:t:`Giles2008`.

    Examples
    --------
    A dense layer without bias, :math:`\vec y = \mat W \vec x`: its weight gradient is the outer
    product of the upstream gradient and the input.

    >>> from dlref.calculus import matmul_vjp
    >>> dW, dx = matmul_vjp([1, 10], [[1, 2], [3, 4]], [5, 6])
    >>> dW
    array([[ 5.,  6.],
           [50., 60.]])
    >>> dx
    array([31., 42.])
    """
    dtype, (dout, a, b) = as_floats({"dout": dout, "a": a, "b": b}, work=np.float32)
    matrix_a, matrix_b, shape = _as_matrices(("a", "b"), a, b)
    check_shape("dout", dout, shape)
    batch = np.broadcast_shapes(matrix_a.shape[:-2], matrix_b.shape[:-2])
    u = dout.reshape(*batch, matrix_a.shape[-2], matrix_b.shape[-1])
    with np.errstate(all="ignore"):
        da = unbroadcast(blas_matmul(u, matrix_b.mT), matrix_a.shape).reshape(a.shape)
        db = unbroadcast(blas_matmul(matrix_a.mT, u), matrix_b.shape).reshape(b.shape)
    return result(da, dtype), result(db, dtype)


def matmul_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the matrix product.

    Parameters
    ----------
    primals : tuple (a, b) of array_like
        Factors of :math:`\mat Y = \mat A \mat B`, of shapes (..., n, k) and (..., k, p), or (k,).
        Raises the same errors as `matmul_jacobian`.
    tangents : tuple (da, db) of array_like or None
        Directions, each of the shape of its factor; None is zero.

    Returns
    -------
    ndarray or scalar, shape (..., n, p)
        :math:`\dot{\mat Y} = \dot{\mat A} \mat B + \mat A \dot{\mat B}`.

    Notes
    -----
    .. math:: \dot{\mat Y} = \dot{\mat A} \mat B + \mat A \dot{\mat B}

    The product rule, with the order of the factors kept: matrices do not commute.

    Examples
    --------
    The derivative of :math:`\mat A^2` is :math:`\dot{\mat A} \mat A + \mat A \dot{\mat A}`, not
    :math:`2 \mat A \dot{\mat A}`:

    >>> from dlref.calculus import matmul_jvp
    >>> A, dA = [[0, 1], [0, 0]], [[0, 0], [1, 0]]
    >>> matmul_jvp((A, A), (dA, dA))
    array([[1., 0.],
           [0., 1.]])
    """
    dtype, (a, b), (da, db) = as_tangents(primals, tangents, count=2, work=np.float32)
    _as_matrices(("primals[0]", "primals[1]"), a, b)
    with np.errstate(all="ignore"):
        return result(da @ b + a @ db, dtype)
