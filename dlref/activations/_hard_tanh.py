r"""Hard tanh: the identity, clipped at -1 and 1."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import inline_fma
from .._math.elementary import Number
from .._math.elementwise import forward, jvp, vjp
from ._relu import _no_curvature


@inline_fma
def _hard_tanh(x: Number) -> Number:
    return -1.0 if x <= -1.0 else (1.0 if x >= 1.0 else x)


@inline_fma
def _hard_tanh_deriv(x: Number) -> Number:
    return 0.0 if abs(x) >= 1.0 else (1.0 if abs(x) < 1.0 else x)


def hard_tanh(x: npt.ArrayLike) -> FloatArray:
    r"""
    Piecewise linear hyperbolic tangent: clipping to [-1, 1].

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        `x` clipped to [-1, 1].

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    hard_tanh_deriv : The first derivative.
    tanh : The smooth map.

    Notes
    -----
    .. math:: f(x) = \max(-1, \min(1, x))

    It agrees with tanh at 0, where both have slope 1, and in both limits; between them it differs
    by at most :math:`1 - \tanh 1 = 0.238`, at :math:`x = \pm 1`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import hard_tanh
    >>> hard_tanh([-3.0, 0.5, 1.0, 7.0])
    array([-1. ,  0.5,  1. ,  1. ])
    >>> x = np.linspace(-3, 3, 601)
    >>> abs(hard_tanh(x) - np.tanh(x)).max().round(3)
    np.float64(0.238)
    """
    return forward(_hard_tanh, x)


def hard_tanh_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the clipping map.

    Parameters
    ----------
    x : as in `hard_tanh`
        Raises the same errors.

    Returns
    -------
    ndarray
        1 between the kinks, else 0.

    Notes
    -----
    .. math:: f'(x) = \begin{cases} 1 & -1 < x < 1 \\ 0 & \text{otherwise} \end{cases}

    0 at both kinks, as in PyTorch; JAX takes 1 there.

    Examples
    --------
    >>> from dlref.activations import hard_tanh_deriv
    >>> hard_tanh_deriv([-2.0, -1.0, 0.0, 1.0])
    array([0., 0., 1., 0.])
    """
    return forward(_hard_tanh_deriv, x)


def hard_tanh_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the clipping map: zero wherever it exists.

    Parameters
    ----------
    x : as in `hard_tanh`
        Raises the same errors.

    Returns
    -------
    ndarray
        Zeros; NaN where `x` is NaN.

    Notes
    -----
    .. math:: f''(x) = 0

    The slope jumps by 1 at -1 and by -1 at 1; the values given there are 0.

    Examples
    --------
    >>> from dlref.activations import hard_tanh_deriv2
    >>> hard_tanh_deriv2([-1.0, 0.0, 1.0])
    array([0., 0., 0.])
    """
    return forward(_no_curvature, x)


def hard_tanh_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the clipping map.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : as in `hard_tanh`
        Raises the same errors.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Notes
    -----
    With the cotangent u, element by element:

    .. math::

        \pdv{L}{x} = u\, f'(x)
          = u\, \begin{cases} 1 & -1 < x < 1 \\ 0 & \text{otherwise} \end{cases}

    Clipped inputs receive no gradient. To clip a gradient, clip the gradient itself
    (:func:`~dlref.training.clip_by_norm`), not the values of the forward pass.

    Examples
    --------
    >>> from dlref.activations import hard_tanh_vjp
    >>> hard_tanh_vjp([1.0, 1.0], [0.5, 7.0])
    array([1., 0.])
    """
    return vjp(_hard_tanh_deriv, dout, x)


def hard_tanh_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the clipping map.

    Parameters
    ----------
    primals : array_like
        The input x. Raises the same errors as `hard_tanh`.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math::

        \dot y = f'(x)\, \dot x
          = \begin{cases} 1 & -1 < x < 1 \\ 0 & \text{otherwise} \end{cases}\, \dot x

    Tangents pass unchanged inside the interval and vanish outside.

    Examples
    --------
    >>> from dlref.activations import hard_tanh_jvp
    >>> hard_tanh_jvp([0.5, 7.0], [0.1, 0.1])
    array([0.1, 0. ])
    """
    return jvp(_hard_tanh_deriv, primals, tangents)
