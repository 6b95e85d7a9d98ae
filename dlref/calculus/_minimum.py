r"""The smaller of two operands, element by element."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.broadcasting import binary_jacobian, binary_jvp, binary_vjp
from ._maximum import _maximum


def _minimum(w: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    by_w, by_x = _maximum(w, x)
    return by_x, by_w


def minimum_jacobian(w: npt.ArrayLike, x: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both Jacobians of the element-wise minimum :math:`y = \min(w, x)`.

    Parameters
    ----------
    w, x : array_like
        Operands of any shapes that broadcast.

    Returns
    -------
    J_w : ndarray, shape ``out.shape + w.shape``
        Where nothing is broadcast a diagonal of 1 where :math:`w` is smaller, 0 where it
        is larger and 1/2 at a tie.
    J_x : ndarray, shape ``out.shape + x.shape``
        The same for :math:`x`.

    Raises
    ------
    TypeError
        If an operand is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not broadcast.

    See Also
    --------
    minimum_vjp, minimum_jvp : The products with a vector, without forming a matrix.
    maximum_jacobian : The derivation, and the choice at a tie.

    Notes
    -----
    From :math:`\min(w, x) + \max(w, x) = w + x` the slopes of the minimum are 1 minus the slopes of
    the maximum:

    .. math::

        \pdv{\min}{w} = 1 - \pdv{\max}{w} = \pdv{\max}{x} .

    The code takes the last form: the Jacobians of the maximum, exchanged.

    Examples
    --------
    >>> from dlref.calculus import maximum_jacobian, minimum_jacobian
    >>> J_w, J_x = minimum_jacobian([3, 1, 2], [1, 3, 2])
    >>> J_w.diagonal()
    array([0. , 1. , 0.5])
    >>> bool((J_w == maximum_jacobian([3, 1, 2], [1, 3, 2])[1]).all())
    True
    """
    return binary_jacobian(_minimum, w, x)


def minimum_vjp(
    dout: npt.ArrayLike, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the element-wise minimum.

    Parameters
    ----------
    dout : array_like, shape ``out.shape``
        Cotangent :math:`u = \partial L / \partial y`.
    w, x : as in `minimum_jacobian`
        Raises the same errors.

    Returns
    -------
    dw : ndarray, shape ``w.shape``
        :math:`u` where :math:`w` is smaller, half of it at a tie, else 0; summed over broadcast
        axes.
    dx : ndarray, shape ``x.shape``
        The rest of :math:`u`.

    Notes
    -----
    With the step H, 1 for positive and 0 for negative arguments and H(0) = 1/2:

    .. math:: \pdv{L}{w_j} = u_j\, H(x_j - w_j) , \qquad \pdv{L}{x_j} = u_j\, H(w_j - x_j)

    Clipping to :math:`[a, b]` is :math:`\min(\max(x, a), b)`: its slope with respect to
    :math:`x` is the product of two steps, 1 between the limits, 0 outside and 1/2 at each of them.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import maximum_vjp, minimum_vjp
    >>> x = np.array([-3.0, -1.0, 0.5, 1.0, 3.0])
    >>> dinner, _ = minimum_vjp(np.ones(5), np.maximum(x, -1), 1)
    >>> dx, _ = maximum_vjp(dinner, x, -1)
    >>> dx
    array([0. , 0.5, 1. , 0.5, 0. ])
    """
    return binary_vjp(_minimum, dout, w, x)


def minimum_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the element-wise minimum.

    Parameters
    ----------
    primals : tuple (w, x) of array_like
        Operands of :math:`y = \min(w, x)`, of any shapes that broadcast.
        Raises the same errors as `minimum_jacobian`.
    tangents : tuple (dw, dx) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray, shape ``out.shape``
        The tangent of the smaller operand; at a tie the mean of both.

    Notes
    -----
    With the step H, 1 for positive and 0 for negative arguments and H(0) = 1/2:

    .. math:: \dot y_j = H(x_j - w_j)\, \dot w_j + H(w_j - x_j)\, \dot x_j

    The tangents of minimum and maximum add up to :math:`\dot w + \dot x`, as the
    values add up to :math:`w + x`.

    Examples
    --------
    >>> from dlref.calculus import maximum_jvp, minimum_jvp
    >>> primals, tangents = ([3, 1, 2], [1, 3, 2]), ([1, 1, 1], [5, 5, 5])
    >>> minimum_jvp(primals, tangents)
    array([5., 1., 3.])
    >>> minimum_jvp(primals, tangents) + maximum_jvp(primals, tangents)
    array([6., 6., 6.])
    """
    return binary_jvp(_minimum, primals, tangents)
