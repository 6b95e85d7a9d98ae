r"""Subtraction, element by element."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.broadcasting import binary_jacobian, binary_jvp, binary_vjp


def _subtract(_w: FloatArray, _x: FloatArray) -> tuple[float, float]:
    return 1.0, -1.0


def subtract_jacobian(w: npt.ArrayLike, x: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""
    Both Jacobians of the element-wise difference :math:`y = w - x`.

    Parameters
    ----------
    w, x : array_like
        Operands of any shapes that broadcast.

    Returns
    -------
    J_w : ndarray, shape ``out.shape + w.shape``
        :math:`I` where nothing is broadcast.
    J_x : ndarray, shape ``out.shape + x.shape``
        :math:`-I` where nothing is broadcast.

    Raises
    ------
    TypeError
        If an operand is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not broadcast.

    See Also
    --------
    subtract_vjp, subtract_jvp : The products with a vector, without forming a matrix.

    Notes
    -----
    From :math:`y_i = w_i - x_i`,

    .. math::

        \pdv{y_i}{w_j} = \delta_{ij}, \qquad \pdv{y_i}{x_j} = -\delta_{ij} .

    Entries off the diagonal are :math:`+0`: output :math:`i` does not read operand
    :math:`j` at all, so nothing is there to be negated.

    Examples
    --------
    The map itself is NumPy's; with the two vectors of the Jacobians below it gives

    >>> import numpy as np
    >>> np.subtract([2, 3, 4], [5, 6, 7])
    array([-3, -3, -3])

    >>> from dlref.calculus import subtract_jacobian
    >>> J_w, J_x = subtract_jacobian([2, 3, 4], [5, 6, 7])
    >>> J_x
    array([[-1.,  0.,  0.],
           [ 0., -1.,  0.],
           [ 0.,  0., -1.]])
    """
    return binary_jacobian(_subtract, w, x)


def subtract_vjp(
    dout: npt.ArrayLike, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the element-wise difference.

    Parameters
    ----------
    dout : array_like, shape ``out.shape``
        Cotangent :math:`u = \partial L / \partial y`.
    w, x : as in `subtract_jacobian`
        Raises the same errors.

    Returns
    -------
    dw : ndarray, shape ``w.shape``
        :math:`u`, summed over broadcast axes.
    dx : ndarray, shape ``x.shape``
        :math:`-u`, summed over broadcast axes.

    Notes
    -----
    .. math:: \pdv{L}{w_j} = u_j , \qquad \pdv{L}{x_j} = -u_j

    The two gradients are opposite where nothing is broadcast. A loss of the residual
    :math:`w - x` therefore pushes prediction and target towards each other.

    Examples
    --------
    Subtracting the mean: the gradient of :math:`y = x - \mu` with respect to the one
    number :math:`\mu` gathers all outputs.

    >>> from dlref.calculus import subtract_vjp
    >>> dx, dmu = subtract_vjp([1, 2, 4], [3, 1, 2], 2)
    >>> float(dmu)
    -7.0
    """
    return binary_vjp(_subtract, dout, w, x)


def subtract_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the element-wise difference.

    Parameters
    ----------
    primals : tuple (w, x) of array_like
        Operands of :math:`y = w - x`, of any shapes that broadcast.
        Raises the same errors as `subtract_jacobian`.
    tangents : tuple (dw, dx) of array_like or None
        Directions, each of the shape of its operand; None is zero.

    Returns
    -------
    ndarray, shape ``out.shape``
        :math:`\dot y = \dot w - \dot x`.

    Notes
    -----
    .. math:: \dot y = \dot w - \dot x

    Equal tangents, :math:`\dot w = \dot x`, leave the difference unchanged:
    :math:`J_w + J_x = 0`.

    Examples
    --------
    >>> from dlref.calculus import subtract_jvp
    >>> subtract_jvp(([2, 3, 4], [5, 6, 7]), ([1, 1, 1], [1, 1, 1]))
    array([0., 0., 0.])
    """
    return binary_jvp(_subtract, primals, tangents)
