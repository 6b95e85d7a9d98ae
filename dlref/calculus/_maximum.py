r"""The larger of two operands, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.broadcasting import binary_jacobian, binary_jvp, binary_vjp


def _maximum(w: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    defined = np.where(np.isnan(w) | np.isnan(x), np.nan, 1)
    by_w = ((w > x) + (w == x) / 2) * defined
    return by_w, 1.0 - by_w


def maximum_jacobian(w: npt.ArrayLike, x: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both Jacobians of the element-wise maximum :math:`y = \max(w, x)`.

    Parameters
    ----------
    w, x : array_like
        Operands of any shapes that broadcast.

    Returns
    -------
    J_w : ndarray, shape ``out.shape + w.shape``
        Where nothing is broadcast a diagonal of 1 where :math:`w` wins, 0 where it loses
        and 1/2 at a tie.
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
    maximum_vjp, maximum_jvp : The products with a vector, without forming a matrix.
    minimum_jacobian : The loser's side.
    max_grad : The maximum over the elements of one array.

    Notes
    -----
    Where :math:`w_i > x_i` the output is :math:`w_i`, also nearby: slope 1 in :math:`w_i`, 0 in
    :math:`x_i`. Written with the step function :math:`H`, 1 for positive and 0 for negative
    arguments,

    .. math::

        \pdv{y_i}{w_i} = H(w_i - x_i), \qquad \pdv{y_i}{x_i} = H(x_i - w_i).

    **The kink.** On the line :math:`w_i = x_i` no derivative exists: the subdifferential is the
    segment of all pairs :math:`(\alpha, 1 - \alpha)`, :math:`0 \le \alpha \le 1`. The pair returned
    is its midpoint :math:`(\frac12, \frac12)`, which treats both operands equally and is the
    minimum-norm subgradient. PyTorch and JAX choose it as well. (ReLU does *not*:
    :math:`\max(0, x)` has the convention :math:`0` at 0 there.)

    **Special values.** A NaN in either operand makes both slopes NaN. Two infinities of
    the same sign are a tie.

    Examples
    --------
    One output reads w, the next x, and the last both:

    >>> from dlref.calculus import maximum_jacobian
    >>> J_w, J_x = maximum_jacobian([3, 1, 2], [1, 3, 2])
    >>> J_w.diagonal()
    array([1. , 0. , 0.5])
    >>> J_x.diagonal()
    array([0. , 1. , 0.5])
    """
    return binary_jacobian(_maximum, w, x)


def maximum_vjp(
    dout: npt.ArrayLike, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the element-wise maximum.

    Parameters
    ----------
    dout : array_like, shape ``out.shape``
        Cotangent :math:`u = \partial L / \partial y`.
    w, x : as in `maximum_jacobian`
        Raises the same errors.

    Returns
    -------
    dw : ndarray, shape ``w.shape``
        :math:`u` where :math:`w` is larger, half of it at a tie, else 0; summed over broadcast
        axes.
    dx : ndarray, shape ``x.shape``
        The rest of :math:`u`.

    Notes
    -----
    With the step H, 1 for positive and 0 for negative arguments and H(0) = 1/2:

    .. math:: \pdv{L}{w_j} = u_j\, H(w_j - x_j) , \qquad \pdv{L}{x_j} = u_j\, H(x_j - w_j)

    A maximum *routes* the gradient to the larger operand. Nothing is lost:
    without broadcasting :math:`\partial L / \partial w + \partial L / \partial x = u`.

    Examples
    --------
    Clipping from below at 0 stops the gradient of clipped elements:

    >>> from dlref.calculus import maximum_vjp
    >>> dw, dfloor = maximum_vjp([10, 20, 30], [-1, 5, -2], 0)
    >>> dw
    array([ 0., 20.,  0.])
    >>> float(dfloor)
    40.0
    """
    return binary_vjp(_maximum, dout, w, x)


def maximum_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the element-wise maximum.

    Parameters
    ----------
    primals : tuple (w, x) of array_like
        Operands of :math:`y = \max(w, x)`, of any shapes that broadcast.
        Raises the same errors as `maximum_jacobian`.
    tangents : tuple (dw, dx) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray, shape ``out.shape``
        The tangent of the larger operand; at a tie the mean of both.

    Notes
    -----
    With the step H, 1 for positive and 0 for negative arguments and H(0) = 1/2:

    .. math:: \dot y_j = H(w_j - x_j)\, \dot w_j + H(x_j - w_j)\, \dot x_j

    At a tie the *directional* derivative exists, :math:`\max(\dot w, \dot x)`, but it is
    not linear in the direction. The mean returned here is, and so stays the adjoint of
    :func:`maximum_vjp`.

    Examples
    --------
    >>> from dlref.calculus import maximum_jvp
    >>> maximum_jvp(([3, 1, 2], [1, 3, 2]), ([1, 1, 1], [5, 5, 5]))
    array([1., 5., 3.])
    """
    return binary_jvp(_maximum, primals, tangents)
