r"""ReLU clipped at 6."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import inline_fma
from .._math.elementary import Number
from .._math.elementwise import forward, jvp, vjp
from ._relu import _no_curvature


@inline_fma
def _relu6(x: Number) -> Number:
    return 0.0 if x <= 0.0 else (6.0 if x >= 6.0 else x)


@inline_fma
def _relu6_deriv(x: Number) -> Number:
    return 0.0 if (x <= 0.0) | (x >= 6.0) else (1.0 if x > 0.0 else x)


def relu6(x: npt.ArrayLike) -> FloatArray:
    r"""
    Rectifier that saturates at 6.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        :math:`\min(\max(x, 0), 6)`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    relu6_deriv : The first derivative.
    relu : Without the ceiling.
    hard_swish : Built from it.

    Notes
    -----
    .. math:: f(x) = \min(\max(x, 0), 6)

    The ceiling keeps activations in a range that few bits of fixed-point arithmetic cover: with
    three bits before the point, everything below 8 can be represented.

    Examples
    --------
    >>> from dlref.activations import relu6
    >>> relu6([-1.0, 2.5, 8.0])
    array([0. , 2.5, 6. ])
    """
    return forward(_relu6, x)


def relu6_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of the rectifier that saturates at 6.

    Parameters
    ----------
    x : as in `relu6`
        Raises the same errors.

    Returns
    -------
    ndarray
        1 between the kinks, else 0.

    Notes
    -----
    .. math:: f'(x) = \begin{cases} 1 & 0 < x < 6 \\ 0 & \text{otherwise} \end{cases}

    0 at both kinks, 0 and 6, as in PyTorch and JAX.

    Examples
    --------
    >>> from dlref.activations import relu6_deriv
    >>> relu6_deriv([-1.0, 0.0, 2.5, 6.0, 8.0])
    array([0., 0., 1., 0., 0.])
    """
    return forward(_relu6_deriv, x)


def relu6_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of the rectifier that saturates at 6: zero.

    Parameters
    ----------
    x : as in `relu6`
        Raises the same errors.

    Returns
    -------
    ndarray
        Zeros; NaN where `x` is NaN.

    Notes
    -----
    .. math:: f''(x) = 0

    The slope jumps up at 0 and down at 6; the values given there are 0.

    Examples
    --------
    >>> from dlref.activations import relu6_deriv2
    >>> relu6_deriv2([0.0, 3.0, 6.0])
    array([0., 0., 0.])
    """
    return forward(_no_curvature, x)


def relu6_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of the rectifier that saturates at 6.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : as in `relu6`
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
          = u\, \begin{cases} 1 & 0 < x < 6 \\ 0 & \text{otherwise} \end{cases}

    Only inputs strictly between 0 and 6 receive a gradient.

    Examples
    --------
    >>> from dlref.activations import relu6_vjp
    >>> relu6_vjp([1.0, 1.0, 1.0], [-1.0, 2.5, 8.0])
    array([0., 1., 0.])
    """
    return vjp(_relu6_deriv, dout, x)


def relu6_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of the rectifier that saturates at 6.

    Parameters
    ----------
    primals : array_like
        The input x. Raises the same errors as `relu6`.
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
          = \begin{cases} 1 & 0 < x < 6 \\ 0 & \text{otherwise} \end{cases}\, \dot x

    The tangent of a saturated unit is 0.

    Examples
    --------
    >>> from dlref.activations import relu6_jvp
    >>> relu6_jvp([2.5, 8.0], [1.0, 1.0])
    array([1., 0.])
    """
    return jvp(_relu6_deriv, primals, tangents)
