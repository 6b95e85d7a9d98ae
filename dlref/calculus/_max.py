r"""Maximum over axes."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from .._core.arguments import Axis, FloatArray
from ._kernels.reductions import _vjp, grad, jvp, max_rows


def max_grad(x: npt.ArrayLike, *, axis: Axis = None) -> FloatArray:
    r"""
    Gradient of the largest element, :math:`y = \max_i x_i`.

    Parameters
    ----------
    x : array_like
        Array to reduce.
    axis : int, tuple of int or None
        Axes to reduce over; None means all. Each slice has a gradient of its own.

    Returns
    -------
    ndarray, shape ``x.shape``
        One at the largest element, shared evenly among equals; zero elsewhere.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or `axis` is not an integer.
    ValueError
        If `axis` is out of range or repeated, or a slice is empty.

    See Also
    --------
    max_vjp, max_jvp : The maximum over some of the axes.
    maximum_jacobian : The maximum of two arrays.

    Notes
    -----
    Where one element :math:`x_k` is larger than the others, :math:`y = x_k` also nearby:

    .. math:: \pdv{y}{x_j} = \delta_{jk} .

    **Ties.** Where :math:`m` elements are largest, the subdifferential is the set of all
    convex weights on them. dlref returns its center, :math:`1/m` for each: the minimum-norm
    subgradient, and the only choice that does not depend on the order of the elements.
    ``torch.amax``, ``torch.max`` without `dim`, and JAX choose it too;
    ``torch.max(dim=...)`` takes one of the largest, by position.

    **Special values.** A NaN makes the maximum, and the whole gradient, NaN.

    Examples
    --------
    >>> from dlref.calculus import max_grad
    >>> max_grad([2, 7, 4])
    array([0., 1., 0.])
    >>> max_grad([7, 2, 7, 4])
    array([0.5, 0. , 0.5, 0. ])
    """
    return grad(max_rows, x, axis)


def max_vjp(
    dout: npt.ArrayLike, x: npt.ArrayLike, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of a maximum over axes.

    Parameters
    ----------
    dout : array_like
        Cotangent :math:`u = \partial L / \partial y`, of the shape of the reduced array.
    x, axis : as in `max_grad`
        Raises the same errors.
    keepdims : bool
        Whether the reduced axes stay, with length one, in the shape of `dout`.

    Returns
    -------
    ndarray, shape ``x.shape``
        `dout` at the largest element of its slice, shared evenly among equals, else zero.

    Notes
    -----
    Let :math:`m_k` be the number of elements of slice k that are equal to its maximum.

    .. math::

        \pdv{L}{x_{kj}} = \frac{u_k}{m_k} \begin{cases} 1 & x_{kj} = y_k \\
          0 & x_{kj} < y_k \end{cases}

    This is the backward pass of max-pooling: each output passes its gradient to the element it was
    taken from, and :math:`\sum_j \partial L / \partial x_{kj} = u_k`. At a tie, PyTorch's pooling
    gives all of it to one element.

    Examples
    --------
    >>> from dlref.calculus import max_vjp
    >>> max_vjp([[5, 6]], [[1, 9], [2, 3]], axis=0, keepdims=True)
    array([[0., 6.],
           [5., 0.]])
    """
    return _vjp(max_rows, dout, x, axis, keepdims)


def max_jvp(
    primals: Any, tangents: Any, *, axis: Axis = None, keepdims: bool = False
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a maximum over axes.

    Parameters
    ----------
    primals : array_like
        Array :math:`x` to reduce.
    tangents : array_like or None
        Direction :math:`\dot x`, of the shape of `primals`; None is zero.
    axis : as in `max_grad`
        Raises the same errors.
    keepdims : bool
        Whether the reduced axes stay, with length one.

    Returns
    -------
    ndarray or scalar, shape of the reduced array
        The tangent of the largest element; the mean of the tangents of equals.

    Notes
    -----
    Let :math:`m_k` be the number of elements of slice k that are equal to its maximum.

    .. math:: \dot y_k = \frac{1}{m_k} \sum_{j :\, x_{kj} = y_k} \dot x_{kj}

    At a tie the directional derivative is the largest of the tied tangents. It is not
    linear, so no matrix times :math:`\dot x` can give it; the mean is, and stays the
    adjoint of :func:`max_vjp`.

    Examples
    --------
    >>> from dlref.calculus import max_jvp
    >>> float(max_jvp([2, 7, 4], [10, 20, 30]))
    20.0
    """
    return jvp(max_rows, primals, tangents, axis, keepdims)
