r"""Quadratic form."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_matrix,
    check_ndim,
    check_shape,
    result,
)


def _check_quadratic_form(names: tuple[str, str], x: FloatArray, a: FloatArray) -> None:
    check_ndim(names[0], x, 1)
    check_matrix(names[1], a)
    check_shape(names[1], a, (*x.shape, x.shape[-1]))


def quadratic_form_grad(x: npt.ArrayLike, a: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both gradients of the quadratic form :math:`y = \vec x^\top \mat A \vec x`.

    Parameters
    ----------
    x : array_like, shape (..., n)
        Vector, or rows of vectors.
    a : array_like, shape (..., n, n)
        Matrix :math:`\mat A`, one per row, not necessarily symmetric.

    Returns
    -------
    gx : ndarray, shape (..., n)
        :math:`(\mat A + \mat A^\top) \vec x`.
    ga : ndarray, shape (..., n, n)
        :math:`\vec x \vec x^\top`.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If `x` is a scalar, or `a` does not have shape (..., n, n).

    See Also
    --------
    quadratic_form_vjp, quadratic_form_jvp : The products with a cotangent and tangents.
    dot_grad : The case :math:`\mat A = \mat I` with two vectors.

    Notes
    -----
    In :math:`y = \sum_{ij} x_i A_{ij} x_j` the element :math:`x_k` stands twice:

    .. math::

        \pdv{y}{x_k} = \sum_{ij} (\delta_{ik} A_{ij} x_j + x_i A_{ij} \delta_{jk})
                     = (\mat A \vec x)_k + (\mat A^\top \vec x)_k ,
        \qquad
        \pdv{y}{A_{kl}} = x_k x_l .

    For a symmetric matrix the first is the familiar :math:`2 \mat A \vec x`. The second treats all
    :math:`n^2` entries of :math:`\mat A` as free.

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
    x, a : as in `quadratic_form_grad`
        Raises the same errors.

    Returns
    -------
    dx : ndarray, shape (..., n)
        :math:`u (\mat A + \mat A^\top) \vec x`.
    da : ndarray, shape (..., n, n)
        :math:`u\, \vec x \vec x^\top`.

    Notes
    -----
    **The differential.** The product rule for three factors:

    .. math:: \dd y = \dd \vec x^\top \mat A\, \vec x + \vec x^\top \dd \mat A\, \vec x
       + \vec x^\top \mat A\, \dd \vec x .

    **The inner product.** The output is one number, so :math:`\dd L = u\, \dd y`.

    **The transpose.** A number is its own transpose, so the first term is
    :math:`\vec x^\top \mat A^\top \dd \vec x`, and with the last one

    .. math::

        \pdv{L}{\vec x} = u\, (\mat A + \mat A^\top)\, \vec x , \qquad
        \pdv{L}{\mat A} = u\, \vec x \vec x^\top

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
        Raises the same errors as `quadratic_form_grad`.
    tangents : tuple (dx, da) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray or scalar, shape (...)
        :math:`\dot y = \dot{\vec x}^\top (\mat A + \mat A^\top) \vec x + \vec x^\top \dot{\mat A}
        \vec x`.

    Notes
    -----
    .. math::

        \dot y = \dot{\vec x}^\top (\mat A + \mat A^\top)\, \vec x
               + \vec x^\top \dot{\mat A}\, \vec x

    A skew-symmetric change of :math:`\mat A` has no effect:
    :math:`\vec x^\top \dot{\mat A} \vec x = 0`.

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
