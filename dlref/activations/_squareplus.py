r"""Squareplus: a smooth rectifier without exponentials."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_number
from .._core.jit import inline_fma
from .._math.elementary import Number, fma, pair_product, pair_quotient, pair_sum
from .._math.elementwise import forward, jvp, vjp

LARGEST = 1.7976931348623157e308  #: of all float64 numbers


@inline_fma
def _root(x: Number, b: Number) -> tuple[Number, Number, Number]:
    """Return a finite |x|, and r = sqrt(x^2 + b) as a pair."""
    size = LARGEST if abs(x) > LARGEST else abs(x)
    far = size > 1e150  # the square of a larger number may overflow
    square, square_low = pair_product(0.0 if far else size, 0.0, 0.0 if far else size, 0.0)
    total, total_low = pair_sum(square, b)
    r = np.sqrt(total)
    r_low = 0.5 * (fma(-r, r, total) + (square_low + total_low)) / r
    return size, (size * np.sqrt(1.0 + b / size / size) if far else r), (0.0 if far else r_low)


@inline_fma
def _tail(size: Number, r: Number, r_low: Number, b: Number) -> Number:
    """Return b / (2 (|x| + r)), in halves, since the sum may overflow."""
    total, total_low = pair_sum(0.5 * r, 0.5 * size)
    return pair_quotient(0.25 * b, 0.0, total, total_low + 0.5 * r_low)


@inline_fma
def _squareplus(x: Number, b: Number) -> Number:
    size, r, r_low = _root(x, b)
    tail = 0.0 if abs(x) == np.inf else _tail(size, r, r_low, b)
    return (x if x > 0.0 else 0.0) + tail


@inline_fma
def _squareplus_deriv(x: Number, b: Number) -> Number:
    size, r, r_low = _root(x, b)
    left = pair_quotient(_tail(size, r, r_low, b), 0.0, r, r_low)
    return 1.0 - left if x > 0.0 else left


@inline_fma
def _squareplus_deriv2(x: Number, b: Number) -> Number:
    _, r, r_low = _root(x, b)
    once = pair_quotient(0.5 * b, 0.0, r, r_low)
    twice = pair_quotient(once, 0.0, r, r_low)
    return pair_quotient(twice, 0.0, r, r_low)


def _bend(b: float) -> float:
    return as_number("b", b, above=0)


def squareplus(x: npt.ArrayLike, *, b: float = 4.0) -> FloatArray:
    r"""
    Smooth positive part, algebraic.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.
    b : float, default 4.0
        Size of the bend, greater than 0: the value at 0 is half the square root of `b`.

    Returns
    -------
    ndarray
        Positive values.

    Raises
    ------
    TypeError
        If `x` or `b` is not real.
    ValueError
        If `b` is not greater than 0.

    See Also
    --------
    squareplus_deriv : The first derivative.
    relu : Its limit.
    softplus : Exponential tail.

    Notes
    -----
    .. math:: f(x) = \frac{x + r}{2} , \qquad r = \sqrt{x^2 + b}

    The root r is larger than :math:`\abs{x}`, so f is positive; it tends to relu as b tends to 0.
    The two signs of x share r, and from the definition

    .. math:: f(x) - f(-x) = x , \qquad f(x)\, f(-x) = \frac{r^2 - x^2}{4} = \frac b4 .

    For a negative x the sum :math:`x + r` cancels. The product turns it into a quotient, whose
    denominator adds positive numbers, and the difference extends the quotient to a positive x:

    .. math:: f(x) = \max(x, 0) + f(-\abs{x}) = \max(x, 0) + \frac{b}{2 (\abs{x} + r)}

    It exceeds relu by at most :math:`\sqrt b / 2`, at 0, and by about :math:`b / (4 \abs{x})` far
    from 0.

    **Numerics.** The last form adds positive numbers only. Where the square of x would overflow,
    the code takes :math:`r = \abs{x} \sqrt{1 + b / x^2}`. Largest error found: 1.1 ULP, for
    b from 1/64 to 64.

    References
    ----------
    - :cite:t:`Barron2021`

    Examples
    --------
    >>> from dlref.activations import squareplus
    >>> squareplus([-1.5, 0.0, 1.5])
    array([0.5, 1. , 2. ])

    The definition itself returns 0 at the first of these:

    >>> squareplus([-1e8, 1e200])
    array([1.e-008, 1.e+200])
    """
    return forward(_squareplus, x, _bend(b))


def squareplus_deriv(x: npt.ArrayLike, *, b: float = 4.0) -> FloatArray:
    r"""
    Derivative of squareplus.

    Parameters
    ----------
    x, b : as in `squareplus`
        Raises the same errors.

    Returns
    -------
    ndarray
        Values in [0, 1].

    Notes
    -----
    With :math:`r = \sqrt{x^2 + b}` the chain rule gives

    .. math:: \dv{r}{x} = \frac xr , \qquad
       f' = \frac12 \Bigl( 1 + \frac xr \Bigr) = \frac{x + r}{2 r} = \frac{f(x)}{r} .

    The slopes at x and -x have the sum 1. For a negative x the code divides f by r; for a positive
    one it subtracts the slope at -x, which is at most 1/2, from 1. Largest error found: 1.6 ULP,
    for b from 1/64 to 64.

    Examples
    --------
    >>> from dlref.activations import squareplus_deriv
    >>> squareplus_deriv([-1.5, 0.0, 1.5])
    array([0.2, 0.5, 0.8])
    """
    return forward(_squareplus_deriv, x, _bend(b))


def squareplus_deriv2(x: npt.ArrayLike, *, b: float = 4.0) -> FloatArray:
    r"""
    Second derivative of squareplus.

    Parameters
    ----------
    x, b : as in `squareplus`
        Raises the same errors.

    Returns
    -------
    ndarray
        Positive values, or 0 where they underflow: squareplus is convex.

    Notes
    -----
    With :math:`r = \sqrt{x^2 + b}` the quotient rule gives

    .. math:: f'' = \frac12 \dv{}{x} \frac xr = \frac12 \cdot \frac{r - x^2 / r}{r^2}
       = \frac{r^2 - x^2}{2 r^3} = \frac{b}{2 r^3}

    It has the integral 1 and is largest at 0. The cube may overflow; the code divides by r three
    times. Largest error found: 2.4 ULP, for b from 1/64 to 64.

    Examples
    --------
    >>> from dlref.activations import squareplus_deriv2
    >>> squareplus_deriv2([-1.5, 0.0, 1.5])
    array([0.128, 0.25 , 0.128])
    """
    return forward(_squareplus_deriv2, x, _bend(b))


def squareplus_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, b: float = 4.0) -> FloatArray:
    r"""
    Reverse mode of squareplus.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x, b : as in `squareplus`
        Raises the same errors.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Notes
    -----
    With the cotangent u, element by element:

    .. math:: \pdv{L}{x} = u\, f'(x) = u\, \frac{f(x)}{\sqrt{x^2 + b}}

    On the left the gradient is divided by about :math:`4 x^2 / b`, while softplus divides it by an
    exponential.

    Examples
    --------
    >>> from dlref.activations import squareplus_vjp
    >>> squareplus_vjp([10.0, 10.0], [-1.5, 1.5])
    array([2., 8.])
    """
    return vjp(_squareplus_deriv, dout, x, _bend(b))


def squareplus_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, b: float = 4.0
) -> FloatArray:
    r"""
    Forward mode of squareplus.

    Parameters
    ----------
    primals : array_like
        The input x. Raises the same errors as `squareplus`.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.
    b : as in `squareplus`
        Raises the same errors.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math:: \dot y = f'(x)\, \dot x = \frac{f(x)}{\sqrt{x^2 + b}}\, \dot x

    Tangents at x and -x are weighted with factors whose sum is 1.

    Examples
    --------
    >>> from dlref.activations import squareplus_jvp
    >>> squareplus_jvp([-1.5, 1.5], [10.0, 10.0])
    array([2., 8.])
    """
    return jvp(_squareplus_deriv, primals, tangents, _bend(b))
