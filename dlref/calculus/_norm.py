r"""Euclidean norm over axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import Axis, FloatArray
from .._core.jit import inline_reassoc, kernel
from ._kernels.reductions import _vjp, grad, jvp


@inline_reassoc
def _squares(x: FloatArray, scale: float) -> float:
    total = np.float64(0.0)
    for i in range(x.size):
        scaled = scale * np.float64(x[i])
        total += scaled * scaled
    return total


@kernel
def _norm_rows(start: int, stop: int, dout: FloatArray, x: FloatArray, dx: FloatArray) -> None:
    for r in range(start, stop):
        scale, total = np.float64(1.0), _squares(x[r], 1.0)
        if total < 1e-290 or total > 1e300:  # squares that vanished or overflowed
            largest = np.float64(0.0)
            for i in range(x.shape[1]):
                if abs(x[r, i]) > largest:  # max() may keep a NaN
                    largest = np.float64(abs(x[r, i]))
            if largest > 0.0 and not np.isinf(largest):
                exponent = min(max(math.frexp(largest)[1], -1000), 1000)
                scale = np.ldexp(np.float64(1.0), -exponent)  # a product with it is exact
                total = _squares(x[r], scale)
        length = math.sqrt(total)
        slope, to = np.float64(dout[r]), dx[r]
        for i in range(x.shape[1]):
            to[i] = slope * (scale * np.float64(x[r, i]) / length if length != 0.0 else 0.0)


def norm_grad(x: npt.ArrayLike, *, axis: Axis = None) -> FloatArray:
    r"""
    Gradient of the Euclidean norm of all elements, :math:`y = \lVert x \rVert_2`.

    Parameters
    ----------
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all. Each slice has a gradient of its own.

    Returns
    -------
    ndarray, shape ``x.shape``
        The unit vector in the direction of `x`; zeros if `x` is zero.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or `axis` is not an integer.
    ValueError
        If `axis` is out of range or repeated.

    See Also
    --------
    norm_vjp, norm_jvp : The norm over some of the axes.

    Notes
    -----
    From :math:`y^2 = \sum_i x_i^2`, differentiating both sides,
    :math:`2 y\, \partial y / \partial x_j = 2 x_j`, so

    .. math:: \nabla y = \frac{x}{\norm{x}} .

    It has length one: a step of length h away from the origin increases the norm by h. Where the
    squares would overflow or underflow, x is multiplied by a power of two first, which changes no
    digit.

    **The kink.** At :math:`x = 0` the norm is a cone and every vector of length at most
    one is a subgradient. dlref returns the one of minimum norm, 0, as PyTorch does; JAX returns
    NaN.

    **Special values.** An infinite element gets NaN and makes the finite ones 0; a NaN
    makes all NaN.

    Examples
    --------
    >>> from dlref.calculus import norm_grad
    >>> norm_grad([3, 4])
    array([0.6, 0.8])
    >>> norm_grad([3e-200, 4e-200])
    array([0.6, 0.8])
    >>> norm_grad([0, 0])
    array([0., 0.])
    """
    return grad(_norm_rows, x, axis)


def norm_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of a Euclidean norm over axes.

    Parameters
    ----------
    dout : array_like
        Cotangent :math:`u = \partial L / \partial y`, of the shape of the reduced array.
    x, axis : as in `norm_grad`
        Raises the same errors.
    keepdims : bool
        Whether the reduced axes stay, with length one, in the shape of `dout`.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` times the unit vector of the slice.

    Notes
    -----
    **The differential.** From :math:`y_k^2 = \sum_j x_{kj}^2`, where :math:`y_k \ne 0`,

    .. math:: \dd y_k = \frac{1}{y_k} \sum_j x_{kj}\, \dd x_{kj} .

    **The inner product.** There is one cotangent per slice, and
    :math:`\dd L = \sum_k u_k\, \dd y_k`.

    **The transpose.** The factor of :math:`\dd x_{kj}` is

    .. math:: \pdv{L}{x_{kj}} = u_k\, \frac{x_{kj}}{\norm{x_k}}

    The gradient points along :math:`x`, whatever :math:`L` does with the norm; it is 0 where the
    slice is 0.

    Examples
    --------
    >>> from dlref.calculus import norm_vjp
    >>> norm_vjp([10, 1], [[3, 4], [0, 0]], axis=1)
    array([[6., 8.],
           [0., 0.]])
    """
    return _vjp(_norm_rows, dout, x, axis, keepdims)


def norm_jvp(
    primals: Any, tangents: Any, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a Euclidean norm over axes.

    Parameters
    ----------
    primals : array_like
        Array :math:`x` to reduce.
    tangents : array_like or None
        Direction :math:`\dot x`, of the shape of `primals`; None is zero.
    axis : as in `norm_grad`
        Raises the same errors.
    keepdims : bool
        Whether the reduced axes stay, with length one.

    Returns
    -------
    ndarray or scalar, shape of the reduced array
        :math:`\dot y = x^\top \dot x / \lVert x \rVert_2`; zero at :math:`x = 0`.

    Notes
    -----
    .. math:: \dot y_k = \frac{1}{\norm{x_k}} \sum_j x_{kj}\, \dot x_{kj}

    Only the part of :math:`\dot x` along :math:`x` changes the length; a tangent at right angles to
    :math:`x` does not. Where the slice is 0, the tangent is 0.

    Examples
    --------
    >>> from dlref.calculus import norm_jvp
    >>> float(norm_jvp([3, 4], [3, 4])), float(norm_jvp([3, 4], [-4, 3]).round(12))
    (5.0, 0.0)
    """
    return jvp(_norm_rows, primals, tangents, axis, keepdims)
