r"""Minimum over axes."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import Axis, FloatArray
from ._kernels.reductions import _vjp, grad, jvp, min_rows


def min_grad(x: npt.ArrayLike, *, axis: Axis = None) -> FloatArray:
    r"""
    Gradient of the smallest element, :math:`y = \min_i x_i`.

    Parameters
    ----------
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all. Each slice has a gradient of its own.

    Returns
    -------
    ndarray, shape ``x.shape``
        One at the smallest element, shared evenly among equals; zero elsewhere.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or `axis` is not an integer.
    ValueError
        If `axis` is out of range or repeated, or a slice is empty.

    See Also
    --------
    min_vjp, min_jvp : The minimum over some of the axes.
    max_grad : The largest element, and the choice at a tie.
    minimum_jacobian : The minimum of two arrays.

    Notes
    -----
    The smallest element is the largest of the negated ones, with the sign reversed:

    .. math:: \min_i x_i = -\max_i (-x_i)

    By the chain rule the two signs cancel. Where one element :math:`x_k` is smaller than the
    others,

    .. math:: \pdv{y}{x_j} = \delta_{jk} .

    **Ties.** Where :math:`m` elements are smallest, each gets :math:`1/m`, as in :func:`max_grad`.
    ``torch.amin``, ``torch.min`` without `dim`, and JAX do the same; ``torch.min(dim=...)`` takes
    one of the smallest, by position.

    **Special values.** A NaN makes the minimum, and the whole gradient, NaN.

    Examples
    --------
    >>> from dlref.calculus import min_grad
    >>> min_grad([2, 7, 4])
    array([1., 0., 0.])
    >>> min_grad([7, 2, 2, 4])
    array([0. , 0.5, 0.5, 0. ])
    """
    return grad(min_rows, x, axis)


def min_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of a minimum over axes.

    Parameters
    ----------
    dout : array_like
        Cotangent :math:`u = \partial L / \partial y`, of the shape of the reduced array.
    x, axis : as in `min_grad`
        Raises the same errors.
    keepdims : bool
        Whether the reduced axes stay, with length one, in the shape of `dout`.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` at the smallest element of its slice, shared evenly among equals, else zero.

    Notes
    -----
    Let :math:`m_k` be the number of elements of slice k that are equal to its minimum.

    .. math::

        \pdv{L}{x_{kj}} = \frac{u_k}{m_k} \begin{cases} 1 & x_{kj} = y_k \\
          0 & x_{kj} > y_k \end{cases}

    A distance to a set is such a minimum: its gradient moves the nearest point, and no other one.

    Examples
    --------
    >>> from dlref.calculus import min_vjp
    >>> min_vjp([[5, 6]], [[1, 9], [2, 3]], axis=0, keepdims=True)
    array([[5., 0.],
           [0., 6.]])
    """
    return _vjp(min_rows, dout, x, axis, keepdims)


def min_jvp(
    primals: Any, tangents: Any, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a minimum over axes.

    Parameters
    ----------
    primals : array_like
        Array :math:`x` to reduce.
    tangents : array_like or None
        Direction :math:`\dot x`, of the shape of `primals`; None is zero.
    axis : as in `min_grad`
        Raises the same errors.
    keepdims : bool
        Whether the reduced axes stay, with length one.

    Returns
    -------
    ndarray or scalar, shape of the reduced array
        The tangent of the smallest element; the mean of the tangents of equals.

    Notes
    -----
    Let :math:`m_k` be the number of elements of slice k that are equal to its minimum.

    .. math:: \dot y_k = \frac{1}{m_k} \sum_{j :\, y_k = x_{kj}} \dot x_{kj}

    At a tie the directional derivative is the smallest of the tied tangents, which is not linear.
    The mean is, and stays the adjoint of :func:`min_vjp`.

    Examples
    --------
    >>> from dlref.calculus import min_jvp
    >>> float(min_jvp([2, 7, 4], [10, 20, 30]))
    10.0
    """
    return jvp(min_rows, primals, tangents, axis, keepdims)
