r"""
SiLU (swish): the input times its sigmoid.

All have the form x g(x) with a sigmoid g.  To the left they decay like :math:`x e^x` or faster, and
are computed down to the smallest subnormal number: the power of two of the exponential is
multiplied last.  Their first derivatives change sign at a number that is not a float64. Near it, an
absolute error of :math:`2^{-52}` would be many units in the last place of a tiny result, so there
the code multiplies the distance from the zero, which is known to 106 digits, by a polynomial. The
second derivatives have no such form: near their zeros the error is absolute.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy.typing as npt

from .._core.arguments import FloatArray, as_number
from .._core.jit import inline_fma, inline_strict
from .._core.specialize import specialize
from .._math.elementary import (
    Number,
    exp,
    exp_pair,
    exp_parts,
    fast_sum,
    fma,
    near_zero,
    pair_product,
    pair_quotient,
    two_prod_error,
)
from .._math.elementwise import forward, jvp, vjp

#: The zero of the derivative, as a float64 and its low-order part; there the usual formula cancels.
SILU_ZERO = (-1.2784645427610737, -1.0946994183093437e-16)
#: The derivative divided by the distance from that zero, within 0.375 of it: the coefficients of a
#: polynomial in the distance, lowest power first (tests/elementary_coefficients.py).
SILU_SLOPE = (
    0.2178117057198001,
    0.1466487969969469,
    0.018874814223782333,
    -0.01522265522318802,
    -0.006606589138359702,
    0.00012662741007934988,
    0.0007985218820106927,
    0.00018570724371276627,
    -4.0905347144807036e-05,
    -2.9733545036185094e-05,
    -2.9425596103405143e-06,
    2.3460726099161287e-06,
    8.593634568842169e-07,
    -3.087473357565486e-08,
    -9.002720027797255e-08,
    -1.7278468149028642e-08,
)


@inline_strict
def _scaled(x: Number, beta: Number) -> tuple[Number, Number, Number]:
    """Return u = beta x, -|u|, and the rounding error of the product."""
    u = beta * x
    rest = two_prod_error(beta, x) if abs(u) < 800.0 else 0.0
    return u, -abs(u), (-rest if u > 0.0 else rest)


@inline_fma
def _unscaled(x: Number, _beta: Number) -> tuple[Number, Number, Number]:
    """`_scaled` for beta = 1, where nothing is rounded."""
    return x, -abs(x), 0.0


def _steep(formula: Callable[..., Any], beta: float) -> Callable[..., Any]:
    """Return the formula to use for this beta: without the product if that is 1."""
    return _of_slope_one(formula) if beta == 1.0 else formula


@cache
def _of_slope_one(formula: Callable[..., Any]) -> Callable[..., Any]:
    return specialize(formula, {_scaled: _unscaled}, "of_slope_one")


@inline_fma
def _silu(x: Number, beta: Number) -> Number:
    u, power, rest = _scaled(x, beta)
    h, h_low, a, b = exp_pair(power, rest)
    below, lost = fast_sum(1.0, h * a * b)
    left = u < 0.0
    above = fma(x, h, x * h_low) if left else x
    ratio = pair_quotient(above, 0.0, below, lost + h_low * a * b)
    far = -0.0 if left else x
    return far if abs(u) > 800.0 else (ratio * a * b if left else ratio)


@inline_fma
def _silu_short(x: Number, _beta: Number) -> Number:
    """`_silu` for beta = 1 and float32, in which the result at -700 is 0."""
    x = -700.0 if x < -700.0 else x
    return x / (1.0 + exp(-x))


@inline_fma
def _silu_deriv(x: Number, beta: Number) -> Number:
    u, power, rest = _scaled(x, beta)
    h, h_low, a, b = exp_pair(power, rest)
    e, e_low = h * a * b, h_low * a * b
    power = -800.0 if power < -800.0 else power
    d, lost = fast_sum(1.0, e)
    square, square_low = pair_product(d, lost + e_low, d, lost + e_low)
    top, top_low = pair_product((1.0 + power) + (e + rest), 0.0, h, h_low)
    left = u < 0.0
    top, top_low = (top, top_low) if left else (1.0 + (e - power * e), 0.0)
    value = pair_quotient(top, top_low, square, square_low)
    value = value * a * b if left else value
    return near_zero(u - SILU_ZERO[0], rest - SILU_ZERO[1], SILU_SLOPE, value)


@inline_fma
def _silu_deriv2(x: Number, beta: Number) -> Number:
    _, power, rest = _scaled(x, beta)
    r, t, a, b = exp_parts(power, rest)
    p = r + t
    e = (1.0 + p) * a * b
    power = -800.0 if power < -800.0 else power
    slope = (2.0 + power * ((1.0 - e) / (1.0 + e))) / ((1.0 + e) * (1.0 + e))
    slope = beta * slope
    return (slope + slope * p) * a * b


def silu(x: npt.ArrayLike, *, beta: float = 1.0) -> FloatArray:
    r"""
    Sigmoid-weighted input, also called swish.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.
    beta : float, default 1.0
        Steepness of the gate.

    Returns
    -------
    ndarray
        :math:`x \sigma(\beta x)`.

    Raises
    ------
    TypeError
        If `x` or `beta` is not real.

    See Also
    --------
    silu_deriv : The first derivative.
    gelu : The gate is the standard normal CDF.
    hard_swish : A piecewise quadratic stand-in.
    swiglu : The gated unit built on it.

    Notes
    -----
    .. math:: f(x) = x \, \sigma(\beta x) = \frac{x}{1 + e^{-\beta x}}

    For :math:`\beta = 0` it is x/2, for :math:`\beta \to \infty` relu. All are one curve, scaled:
    :math:`f_\beta(x) = f_1(\beta x) / \beta`. Not monotonic: for :math:`\beta = 1` it falls to
    -0.2785 at -1.2785, where :math:`1 + x + e^x = 0` makes the value equal to 1 + x.

    **Numerics.** For a negative product u = βx the code computes :math:`x e^u / (1 + e^u)`, the
    power of two last. The rounding of u would cost up to 512 units in the last place; the rounding
    error is added to the exponent. Largest error found: 1.7 ULP, for `beta` from 1/64 to 64.

    References
    ----------
    - :cite:t:`HendrycksGimpel2016`, :cite:t:`Elfwing2018`
    - :cite:t:`Ramachandran2017`, who found it again by search

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import silu
    >>> silu(np.log([1 / 3, 1.0, 3.0])) / np.log([1 / 3, 2.0, 3.0])
    array([0.25, 0.  , 0.75])

    Beyond the point where the exponential underflows:

    >>> print(f"{silu(-745.5):.0e}")
    -1e-321
    """
    beta = as_number("beta", beta)
    return forward(_steep(_silu, beta), x, beta, short=_silu_short if beta == 1.0 else None)


def silu_deriv(x: npt.ArrayLike, *, beta: float = 1.0) -> FloatArray:
    r"""
    Derivative of silu.

    Parameters
    ----------
    x, beta : as in `silu`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`\sigma(u) + u \sigma(u) \sigma(-u)` at :math:`u = \beta x`.

    Notes
    -----
    Product rule, with :math:`\sigma' = \sigma(u) \sigma(-u)`:

    .. math:: f' = \sigma(u) + u \, \sigma(u) \sigma(-u)
       = \begin{cases} e^u (1 + e^u + u) / (1 + e^u)^2 & u < 0 \\
         (1 + e^{-u} + u e^{-u}) / (1 + e^{-u})^2 & u \ge 0 . \end{cases}

    It is zero at u = -1.2785 and largest, 1.0998, at u = 2.3994. Largest error found: 2 ULP, near
    the zero as elsewhere, and 2.4 ULP for `beta` from 1/64 to 64.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import silu_deriv
    >>> silu_deriv([0.0, 2.3993572805154]).round(4)
    array([0.5   , 1.0998])
    >>> silu_deriv(-np.inf)
    np.float64(-0.0)
    """
    beta = as_number("beta", beta)
    return forward(_steep(_silu_deriv, beta), x, beta)


def silu_deriv2(x: npt.ArrayLike, *, beta: float = 1.0) -> FloatArray:
    r"""
    Second derivative of silu.

    Parameters
    ----------
    x, beta : as in `silu`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`\beta \sigma(u) \sigma(-u) (2 - u \tanh \frac u2)` at :math:`u = \beta x`.

    Notes
    -----
    Differentiate :math:`\sigma(u) + u\, \sigma'(u)` with respect to u, insert
    :math:`\sigma'' = -\sigma' \tanh \frac u2`, and multiply by the inner derivative
    :math:`\beta`:

    .. math:: f'' = \beta \bigl( 2 \sigma'(u) + u\, \sigma''(u) \bigr)
       = \beta\, \sigma(u)\, \sigma(-u) \Bigl( 2 - u \tanh \frac u2 \Bigr)

    It is even, and zero where :math:`u \tanh \frac u2 = 2`, at :math:`u = \pm 2.3994`. Largest
    error found: 11 ULP, 12 ULP for `beta` from 1/64 to 64, or 0.43 units of :math:`2^{-53}` within
    0.5 of a zero.

    Examples
    --------
    >>> from dlref.activations import silu_deriv2
    >>> silu_deriv2([0.0, 1.0, -1.0], beta=2).round(4)
    array([1.    , 0.1001, 0.1001])
    """
    beta = as_number("beta", beta)
    return forward(_steep(_silu_deriv2, beta), x, beta)


def silu_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, beta: float = 1.0) -> FloatArray:
    r"""
    Reverse mode of silu.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x, beta : as in `silu`
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
          = u\, \bigl( \sigma(\beta x) + \beta x\, \sigma(\beta x)\, \sigma(-\beta x) \bigr)

    Left of the minimum the gradient changes its sign, and tends to 0.

    Examples
    --------
    >>> from dlref.activations import silu_vjp
    >>> silu_vjp([2.0, 2.0], [0.0, -20.0]).round(6)
    array([ 1., -0.])
    """
    beta = as_number("beta", beta)
    return vjp(_steep(_silu_deriv, beta), dout, x, beta)


def silu_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, beta: float = 1.0
) -> FloatArray:
    r"""
    Forward mode of silu.

    Parameters
    ----------
    primals : array_like
        The input x.
    tangents : array_like, shape of `primals`, or None
        Tangent of the input; None is zero.
    beta : as in `silu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math::

        \dot y = f'(x)\, \dot x
          = \bigl( \sigma(\beta x) + \beta x\, \sigma(\beta x)\, \sigma(-\beta x) \bigr)\, \dot x

    The slope exceeds 1 between 1.28 and infinity: strong inputs are amplified slightly.

    Examples
    --------
    >>> from dlref.activations import silu_jvp
    >>> silu_jvp([0.0, 40.0], [2.0, 2.0])
    array([1., 2.])
    """
    beta = as_number("beta", beta)
    return jvp(_steep(_silu_deriv, beta), primals, tangents, beta)
