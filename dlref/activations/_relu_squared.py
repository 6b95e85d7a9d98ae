r"""Squared ReLU: the square of the positive part."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import inline_fma
from .._math.elementary import Number
from .._math.elementwise import forward, jvp, vjp


@inline_fma
def _relu_squared(x: Number) -> Number:
    return 0.0 if x <= 0.0 else x * x


@inline_fma
def _relu_squared_deriv(x: Number) -> Number:
    return 0.0 if x <= 0.0 else 2.0 * x


@inline_fma
def _relu_squared_deriv2(x: Number) -> Number:
    return 0.0 if x <= 0.0 else (2.0 if x > 0.0 else x)


def relu_squared(x: npt.ArrayLike) -> FloatArray:
    r"""
    Square of the positive part, the activation of Primer and Nemotron.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        :math:`\max(x, 0)^2`, with the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    relu_squared_deriv : The first derivative.
    relu : Without the square.
    reglu : The product with a second array in place of the square.

    Notes
    -----
    .. math:: f(x) = \max(x, 0)^2 = x \max(x, 0)

    It is homogeneous of degree 2, :math:`f(c x) = c^2 f(x)` for :math:`c > 0`: doubling the input
    of a layer quadruples its output. It is the gated unit :func:`reglu` whose two halves share
    their weights, because :math:`f(x)` is x times relu(x). An architecture search found it
    :cite:p:`So2021`; its zeros are exact, so a hidden layer is as sparse as with relu, and the
    slope has no jump at 0.

    **Numerics.** One product is rounded. Inputs below :math:`1.5 \cdot 10^{-162}` underflow to 0
    and inputs above :math:`1.34 \cdot 10^{154}` overflow. In float16 an input of 256 overflows,
    because :math:`256^2` is larger than 65504.

    **Conventions.** ``ACT2FN["relu2"]`` of the package transformers is this map. It is not
    :func:`relu` of the square, which would be the square itself.

    References
    ----------
    - :cite:t:`So2021`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import relu_squared
    >>> relu_squared([-3.0, 0.0, 0.5, 3.0])
    array([0.  , 0.  , 0.25, 9.  ])

    Twice the input gives four times the output, and an input of 256 is too large for float16:

    >>> relu_squared(2 * np.array([0.5, 3.0])) / relu_squared([0.5, 3.0])
    array([4., 4.])
    >>> relu_squared(np.array([255.0, 256.0], np.float16)).tolist()
    [65024.0, inf]
    """
    return forward(_relu_squared, x)


def relu_squared_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the squared ReLU: a ramp.

    Parameters
    ----------
    x : as in `relu_squared`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`2 \max(x, 0)`.

    Notes
    -----
    The power rule where x is positive; elsewhere the map is constant:

    .. math:: f'(x) = 2 \max(x, 0)

    It is continuous, with the value 0 at 0. Unlike the slope of relu it has no bound: a large
    pre-activation multiplies the gradient by twice its size.

    Examples
    --------
    >>> from dlref.activations import relu_squared_deriv
    >>> relu_squared_deriv([-3.0, 0.0, 0.5, 3.0])
    array([0., 0., 1., 6.])
    """
    return forward(_relu_squared_deriv, x)


def relu_squared_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the squared ReLU: a step.

    Parameters
    ----------
    x : as in `relu_squared`
        Raises the same errors.

    Returns
    -------
    ndarray
        2 where `x` is positive, else 0.

    Notes
    -----
    .. math:: f''(x) = \begin{cases} 2 & x > 0 \\ 0 & x \le 0 \end{cases}

    The jump of the slope of relu has moved here. The value at 0 is 0, as in PyTorch.

    Examples
    --------
    >>> from dlref.activations import relu_squared_deriv2
    >>> relu_squared_deriv2([-3.0, 0.0, 3.0])
    array([0., 0., 2.])
    """
    return forward(_relu_squared_deriv2, x)


def relu_squared_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the squared ReLU.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : as in `relu_squared`
        Raises the same errors.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Notes
    -----
    With the cotangent u, element by element:

    .. math:: \pdv{L}{x} = u\, f'(x) = u\, 2 \max(x, 0)

    As with relu, a unit that is negative for every example gets no gradient. In addition, a unit
    that is only slightly positive gets a small one.

    Examples
    --------
    >>> from dlref.activations import relu_squared_vjp
    >>> relu_squared_vjp([10.0, 10.0, 10.0], [-2.0, 0.25, 3.0])
    array([ 0.,  5., 60.])
    """
    return vjp(_relu_squared_deriv, dout, x)


def relu_squared_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the squared ReLU.

    Parameters
    ----------
    primals : array_like
        The input x. Raises the same errors as `relu_squared`.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math:: \dot y = f'(x)\, \dot x = 2 \max(x, 0)\, \dot x

    A relative change of a positive input becomes twice that relative change of the output.

    Examples
    --------
    >>> from dlref.activations import relu_squared_jvp
    >>> relu_squared_jvp([-2.0, 3.0], [1.0, 0.03])
    array([0.  , 0.18])
    """
    return jvp(_relu_squared_deriv, primals, tangents)
