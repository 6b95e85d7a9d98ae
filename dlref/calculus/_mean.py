r"""Mean over axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import Axis, FloatArray
from .._core.jit import kernel
from ._kernels.reductions import _vjp, grad, jvp


@kernel
def _mean_rows(start: int, stop: int, dout: FloatArray, x: FloatArray, dx: FloatArray) -> None:
    for r in range(start, stop):
        for i in range(x.shape[1]):
            dx[r, i] = np.float64(dout[r]) / x.shape[1]


def mean_grad(x: npt.ArrayLike, *, axis: Axis = None) -> FloatArray:
    r"""
    Gradient of the mean of all elements, :math:`y = \frac1n \sum_i x_i`.

    Parameters
    ----------
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all. Each slice has a gradient of its own.

    Returns
    -------
    ndarray, shape ``x.shape``
        :math:`1/n` in every element.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or `axis` is not an integer.
    ValueError
        If `axis` is out of range or repeated.

    See Also
    --------
    mean_vjp, mean_jvp : The mean over some of the axes.

    Notes
    -----
    The gradient of the sum, divided by the number of elements:

    .. math:: \pdv{y}{x_j} = \frac{1}{n} .

    This factor is why a loss averaged over a batch has gradients that do not grow with the batch,
    while the gradients of a summed loss do.

    Examples
    --------
    >>> from dlref.calculus import mean_grad
    >>> mean_grad([2, 3, 4, 5])
    array([0.25, 0.25, 0.25, 0.25])
    """
    return grad(_mean_rows, x, axis)


def mean_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of a mean over axes.

    Parameters
    ----------
    dout : array_like
        Cotangent :math:`u = \partial L / \partial y`, of the shape of the reduced array.
    x, axis : as in `mean_grad`
        Raises the same errors.
    keepdims : bool
        Whether the reduced axes stay, with length one, in the shape of `dout`.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` divided by the number :math:`n` of elements of a slice, in each of them.

    Notes
    -----
    **The differential.** A mean is linear: :math:`\dd y_k = \frac1n \sum_j \dd x_{kj}`.

    **The inner product.** :math:`\dd L = \sum_k u_k\, \dd y_k = \sum_{kj} \frac{u_k}{n}\, \dd
    x_{kj}`.

    **The transpose.** The factor of :math:`\dd x_{kj}` is

    .. math:: \pdv{L}{x_{kj}} = \frac{u_k}{n}

    For centering, :math:`y_i = x_i - \bar x`, the vjp is :math:`u_j - \frac1n \sum_i u_i`:
    cotangents are centered as the values are, and a constant shift of :math:`x` gets no
    gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.calculus import mean_vjp
    >>> x, u = np.array([1.0, 2.0, 6.0]), np.array([3.0, 0.0, 0.0])
    >>> u + mean_vjp(-u.sum(), x)
    array([ 2., -1., -1.])
    """
    return _vjp(_mean_rows, dout, x, axis, keepdims)


def mean_jvp(
    primals: Any, tangents: Any, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a mean over axes.

    Parameters
    ----------
    primals : array_like
        Array :math:`x` to reduce.
    tangents : array_like or None
        Direction :math:`\dot x`, of the shape of `primals`; None is zero.
    axis : as in `mean_grad`
        Raises the same errors.
    keepdims : bool
        Whether the reduced axes stay, with length one.

    Returns
    -------
    ndarray or scalar, shape of the reduced array
        :math:`\dot y = \frac1n \sum_i \dot x_i`, accumulated in float64.

    Notes
    -----
    .. math:: \dot y_k = \frac1n \sum_i \dot x_{ki}

    The mean is linear: its tangent is the mean of the tangents, at any `primals`. Over no elements
    the tangent is 0, an empty sum, though the mean itself is NaN: nothing can move it.

    Examples
    --------
    >>> from dlref.calculus import mean_jvp
    >>> mean_jvp([[1, 2], [3, 4]], [[1, 0], [1, 4]], axis=0)
    array([1., 2.])
    """
    return jvp(_mean_rows, primals, tangents, axis, keepdims)
