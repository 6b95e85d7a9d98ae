r"""Dot product of two vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    FloatDType,
    as_floats,
    as_tangents,
    check_ndim,
    check_shape,
    result,
)


def _dot_operands(
    w: npt.ArrayLike, x: npt.ArrayLike, **dout: npt.ArrayLike
) -> tuple[FloatDType, list[FloatArray]]:
    dtype, arrays = as_floats({"w": w, "x": x, **dout})
    check_ndim("w", arrays[0], 1)
    check_shape("x", arrays[1], arrays[0].shape)
    return dtype, arrays


def dot_grad(w: npt.ArrayLike, x: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both gradients of the dot product :math:`y = w^\top x`.

    Parameters
    ----------
    w, x : array_like, shape (..., n)
        Vectors, or rows of vectors, of the same shape.

    Returns
    -------
    gw : ndarray, shape (..., n)
        :math:`\partial y / \partial w = x`, a gradient per row.
    gx : ndarray, shape (..., n)
        :math:`\partial y / \partial x = w`, a gradient per row.

    Raises
    ------
    TypeError
        If an argument is neither integer nor a real floating-point array.
    ValueError
        If an argument is a scalar, or the shapes differ.

    See Also
    --------
    dot_vjp, dot_jvp : The products with a cotangent and with tangents.
    quadratic_form_grad : The dot product with a matrix between.

    Notes
    -----
    The dot product is a sum after a product. By the vector chain rule with
    :math:`p = w \odot x`,

    .. math::

        \nabla_w\, y = \pdv{y}{p} \pdv{p}{w}
                     = \vec{1}^\top \operatorname{diag}(x) = x^\top ,

    and likewise :math:`\nabla_x\, y = w^\top`: each vector is the other one's gradient.

    Examples
    --------
    >>> from dlref.calculus import dot_grad
    >>> gw, gx = dot_grad([2, 3, 4], [5, 6, 7])
    >>> gw
    array([5., 6., 7.])
    """
    dtype, (w, x) = _dot_operands(w, x)
    return result(x.copy(), dtype), result(w.copy(), dtype)


def dot_vjp(
    dout: npt.ArrayLike, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the dot product along the last axis.

    Parameters
    ----------
    dout : array_like, shape (...)
        Cotangent :math:`u = \partial L / \partial y`, a number per row.
    w, x : as in `dot_grad`
        Raises the same errors.

    Returns
    -------
    dw : ndarray, shape (..., n)
        :math:`u\, x`, row by row.
    dx : ndarray, shape (..., n)
        :math:`u\, w`, row by row.

    Notes
    -----
    **The differential.** The product rule in each term:

    .. math:: \dd y = \sum_j (x_j\, \dd w_j + w_j\, \dd x_j) .

    **The inner product.** The output is one number, so :math:`\dd L = u\, \dd y`.

    **The transpose.** The factors of the two differentials are

    .. math:: \pdv{L}{w_j} = u\, x_j , \qquad \pdv{L}{x_j} = u\, w_j

    The score :math:`q^\top k` of attention is such a product: the gradient with respect to a query
    is :math:`u` times the key.

    Examples
    --------
    >>> from dlref.calculus import dot_vjp
    >>> dw, dx = dot_vjp([2, -1], [[1, 0], [0, 1]], [[3, 4], [5, 6]])
    >>> dw
    array([[ 6.,  8.],
           [-5., -6.]])
    """
    dtype, (w, x, dout) = _dot_operands(w, x, dout=dout)
    check_shape("dout", dout, w.shape[:-1])
    with np.errstate(all="ignore"):
        return result(dout[..., None] * x, dtype), result(dout[..., None] * w, dtype)


def dot_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the dot product along the last axis.

    Parameters
    ----------
    primals : tuple (w, x) of array_like, shape (..., n)
        Rows of vectors, of the same shape.
        Raises the same errors as `dot_grad`.
    tangents : tuple (dw, dx) of array_like or None, shape (..., n)
        Directions; None is zero.

    Returns
    -------
    ndarray or scalar, shape (...)
        :math:`\dot y = \dot w^\top x + w^\top \dot x`, accumulated in float64.

    Notes
    -----
    .. math:: \dot y = \dot w^\top x + w^\top \dot x

    With :math:`w = x` and :math:`\dot w = \dot x` this is the derivative of the squared
    length, :math:`2\, x^\top \dot x`.

    Examples
    --------
    >>> from dlref.calculus import dot_jvp
    >>> float(dot_jvp(([3, 4], [3, 4]), ([1, 0], [1, 0])))
    6.0
    """
    dtype, (w, x), (dw, dx) = as_tangents(primals, tangents, count=2)
    check_ndim("primals[0]", w, 1)
    check_shape("primals[1]", x, w.shape)
    with np.errstate(all="ignore"):
        return result(np.sum(dw * x + w * dx, axis=-1), dtype)
