r"""Softsign: a sigmoid without exponentials."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import inline_fma
from .._math.elementary import Number, fma, pair_product, pair_sum
from .._math.elementwise import forward, jvp, vjp


@inline_fma
def _softsign(x: Number) -> Number:
    limit = 1.0 if x > 0.0 else -1.0
    return limit if abs(x) == np.inf else x / (1.0 + abs(x))


@inline_fma
def _inverse(x: Number) -> tuple[Number, Number]:
    """Return 1 / (1 + |x|) as a pair."""
    size = abs(x)
    d, d_low = pair_sum(1.0, 1e300 if size > 1e300 else size)
    r = 1.0 / d
    return r, r * (fma(-r, d, 1.0) - r * d_low)


@inline_fma
def _softsign_deriv(x: Number) -> Number:
    r, r_low = _inverse(x)
    return fma(r, r, 2.0 * r * r_low)


@inline_fma
def _softsign_deriv2(x: Number) -> Number:
    r, r_low = _inverse(x)
    square, square_low = pair_product(r, r_low, r, r_low)
    size = 2.0 * fma(square, r, square * r_low + square_low * r)
    return -size if x > 0.0 else (size if x < 0.0 else 0.0 * r)


def softsign(x: npt.ArrayLike) -> FloatArray:
    r"""
    Sigmoid with algebraic tails.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        Values in [-1, 1].

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    softsign_deriv : The first derivative.
    tanh : Exponential tails.

    Notes
    -----
    .. math:: f(x) = \frac{x}{1 + \abs{x}}

    It approaches its limits as :math:`1 - 1/x`, so that saturation sets in later than for tanh.
    Its inverse has the same form: :math:`x = y / (1 - \abs{y})`.

    Largest error found: 1.5 ULP.

    References
    ----------
    - :cite:t:`GlorotBengio2010`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import softsign
    >>> softsign([-3.0, 0.0, 1.0])
    array([-0.75,  0.  ,  0.5 ])
    >>> softsign(np.inf)
    np.float64(1.0)
    """
    return forward(_softsign, x)


def softsign_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of softsign.

    Parameters
    ----------
    x : as in `softsign`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`1 / (1 + \abs{x})^2`.

    Notes
    -----
    The quotient rule, with :math:`x \operatorname{sign}(x) = \abs{x}`, gives

    .. math:: f' = \frac{(1 + \abs{x}) - x \operatorname{sign}(x)}{(1 + \abs{x})^2}
       = \frac{1}{(1 + \abs{x})^2} ,

    continuous at 0, where both sides give 1. Computed as the square of a reciprocal, since the
    square of a large x overflows.

    Largest error found: 0.5 ULP.

    Examples
    --------
    >>> from dlref.activations import softsign_deriv
    >>> softsign_deriv([-3.0, 0.0, 1.0])
    array([0.0625, 1.    , 0.25  ])
    """
    return forward(_softsign_deriv, x)


def softsign_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of softsign.

    Parameters
    ----------
    x : as in `softsign`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`-2 \operatorname{sign}(x) / (1 + \abs{x})^3`.

    Notes
    -----
    The chain rule on :math:`(1 + \abs{x})^{-2}`:

    .. math:: f'' = -2\, (1 + \abs{x})^{-3} \dv{\abs{x}}{x}
       = \frac{-2 \operatorname{sign}(x)}{(1 + \abs{x})^3}

    It jumps from 2 to -2 at 0; the value given there is their mean, 0.

    Largest error found: 0.5 ULP.

    Examples
    --------
    >>> from dlref.activations import softsign_deriv2
    >>> softsign_deriv2([-1.0, 0.0, 1.0])
    array([ 0.25,  0.  , -0.25])
    """
    return forward(_softsign_deriv2, x)


def softsign_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of softsign.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : as in `softsign`
        Raises the same errors.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Notes
    -----
    With the cotangent u, element by element:

    .. math:: \pdv{L}{x} = u\, f'(x) = u\, \frac{1}{(1 + \abs{x})^2}

    At 9 the gradient is divided by 100; at the same place tanh divides it by 16 million.

    Examples
    --------
    >>> from dlref.activations import softsign_vjp
    >>> softsign_vjp([1.0, 1.0], [0.0, 9.0])
    array([1.  , 0.01])
    """
    return vjp(_softsign_deriv, dout, x)


def softsign_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of softsign.

    Parameters
    ----------
    primals : array_like
        The input x. Raises the same errors as `softsign`.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math:: \dot y = f'(x)\, \dot x = \frac{1}{(1 + \abs{x})^2}\, \dot x

    A tenfold input weakens the tangent thirtyfold at 1, and about a hundredfold far beyond.

    Examples
    --------
    >>> from dlref.activations import softsign_jvp
    >>> softsign_jvp([0.0, 9.0], [1.0, 1.0])
    array([1.  , 0.01])
    """
    return jvp(_softsign_deriv, primals, tangents)
