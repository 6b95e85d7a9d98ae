r"""Sum over axes."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import Axis, FloatArray
from .._core.jit import kernel
from ._kernels.reductions import _vjp, grad, jvp


@kernel
def _sum_rows(start: int, stop: int, dout: FloatArray, x: FloatArray, dx: FloatArray) -> None:
    for r in range(start, stop):
        for i in range(x.shape[1]):
            dx[r, i] = dout[r]


def sum_grad(x: npt.ArrayLike, *, axis: Axis = None) -> FloatArray:
    r"""
    Gradient of the sum of all elements, :math:`y = \sum_i x_i`.

    Parameters
    ----------
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all. Each slice has a gradient of its own.

    Returns
    -------
    ndarray, shape ``x.shape``
        Ones.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or `axis` is not an integer.
    ValueError
        If `axis` is out of range or repeated.

    See Also
    --------
    sum_vjp, sum_jvp : The sum over some of the axes.
    scaled_sum_grad : The sum times a scalar.

    Notes
    -----
    Each element enters the sum once, with slope one:

    .. math::

        \pdv{y}{x_j} = \sum_i \pdv{x_i}{x_j} = \sum_i \delta_{ij} = 1,
        \qquad \nabla y = \vec{1} .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import sum_grad
    >>> float(np.sum([2.0, 3.0, 4.0])), sum_grad([2, 3, 4])
    (9.0, array([1., 1., 1.]))
    """
    return grad(_sum_rows, x, axis)


def sum_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of a sum over axes.

    Parameters
    ----------
    dout : array_like
        Cotangent :math:`u = \partial L / \partial y`, of the shape of the reduced array.
    x, axis : as in `sum_grad`
        Raises the same errors.
    keepdims : bool
        Whether the reduced axes stay, with length one, in the shape of `dout`.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout`, copied to every element of its slice.

    See Also
    --------
    add_vjp : Reverse mode of broadcasting: the sum.

    Notes
    -----
    **The differential.** A sum is linear: :math:`\dd y_k = \sum_j \dd x_{kj}`.

    **The inner product.** :math:`\dd L = \sum_k u_k\, \dd y_k = \sum_{kj} u_k\, \dd x_{kj}`.

    **The transpose.** The factor of :math:`\dd x_{kj}` is

    .. math:: \pdv{L}{x_{kj}} = \sum_l u_l \pdv{y_l}{x_{kj}} = u_k

    Every :math:`x_{kj}` gets the cotangent of its sum: the reverse of a sum is a broadcast, as the
    reverse of a broadcast is a sum.

    Examples
    --------
    >>> from dlref.calculus import sum_vjp
    >>> sum_vjp([10, 20], [[1, 2, 3], [4, 5, 6]], axis=1)
    array([[10., 10., 10.],
           [20., 20., 20.]])
    """
    return _vjp(_sum_rows, dout, x, axis, keepdims)


def sum_jvp(
    primals: Any, tangents: Any, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a sum over axes.

    Parameters
    ----------
    primals : array_like
        Array :math:`x` to reduce.
    tangents : array_like or None
        Direction :math:`\dot x`, of the shape of `primals`; None is zero.
    axis : as in `sum_grad`
        Raises the same errors.
    keepdims : bool
        Whether the reduced axes stay, with length one.

    Returns
    -------
    ndarray or scalar, shape of the reduced array
        :math:`\dot y = \sum_i \dot x_i`, accumulated in float64.

    Notes
    -----
    .. math:: \dot y_k = \sum_i \dot x_{ki}

    The sum is linear, hence its own derivative: `primals` gives the shape and the dtype,
    its values do not matter.

    Examples
    --------
    >>> from dlref.calculus import sum_jvp
    >>> float(sum_jvp([2, 3, 4], [0.5, 0, 0.25]))
    0.75
    """
    return jvp(_sum_rows, primals, tangents, axis, keepdims)
