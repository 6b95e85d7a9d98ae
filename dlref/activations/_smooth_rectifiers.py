r"""
Smooth rectifiers: an input times the fraction of it that passes.

All have the form x g(x) with a sigmoid g.  To the left they decay like :math:`x e^x` or faster,
and are
computed down to the smallest subnormal number: the power of two of the exponential is
multiplied last.  Their first derivatives change sign at a number that is no float64.  Near it, an
absolute error of :math:`2^{-52}` would be many units of a tiny result; there they are the
distance from the zero, which is known to 106 digits, times a polynomial.  The second
derivatives do without: near their zeros the error is an absolute one.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from .._elementary import (
    DENSITY,
    Number,
    exp_parts,
    low_product,
    low_square,
    near_zero,
    normal_tail,
    raised,
)
from .._elementwise import mapped, pulled, pushed
from .._jit import exchanged, formula, literal_formula
from .._validate import FloatArray, as_number, choice

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "gelu",
    "gelu_deriv",
    "gelu_deriv2",
    "gelu_jvp",
    "gelu_vjp",
    "mish",
    "mish_deriv",
    "mish_deriv2",
    "mish_jvp",
    "mish_vjp",
    "silu",
    "silu_deriv",
    "silu_deriv2",
    "silu_jvp",
    "silu_vjp",
]


CUBIC = (1.5957691216057308, -9.96930880911092e-17)  #: 2 sqrt(2 / pi), and what it lacks
CUBE = (0.07135481627260025, -6.175149918155315e-19)  #: 0.044715 times that
#: where the derivatives vanish, in two parts, and the derivatives over the distance from there, of
#: which the absolute error of their other formulas would be most (tests/elementary_coefficients.py)
SILU_ZERO = (-1.2784645427610737, -1.0946994183093437e-16)
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
MISH_ZERO = (-1.1924312145154952, -4.8484829848031044e-17)
MISH_SLOPE = (
    0.2669479140495345,
    0.20473126408010586,
    0.04190782104360926,
    -0.02027182271668449,
    -0.015821126561642283,
    -0.003360684926986403,
    0.0010924055357634935,
    0.0009898181000290672,
    0.00025412950853535057,
    -4.196143724760667e-05,
    -5.5831108669672634e-05,
    -1.7300165630248114e-05,
    9.611391854956273e-07,
    2.916384980447737e-06,
    9.914019257894974e-07,
    -6.629749260220308e-09,
)
GELU_ZERO = (-0.7517915246935645, 1.4956759177009883e-17)
GELU_SLOPE = (
    0.4314939923140469,
    0.388284982990552,
    -0.018199676398671233,
    -0.11400823329722172,
    -0.014771522148222502,
    0.019421679838189904,
    0.004539228377882542,
    -0.0022395380681211226,
    -0.0007448268039190593,
    0.00018633974756538827,
    8.61589504992124e-05,
    -1.1214400475894796e-05,
    -7.74401032629287e-06,
    4.330165182217249e-07,
    5.50683554109169e-07,
    -2.3634321798541715e-09,
)
GELU_TANH_ZERO = (-0.7524614220710163, 3.635560509207687e-17)
GELU_TANH_SLOPE = (
    0.4304000910248585,
    0.38751844613578895,
    -0.015782853521849688,
    -0.11394448308095842,
    -0.016619328342804298,
    0.019682309459749088,
    0.005261059240771322,
    -0.002422731841088524,
    -0.0009274416264332366,
    0.00026392750651161115,
    0.00012424622966169648,
    -3.495413121030912e-05,
    -1.58995890329808e-05,
    5.901352947597611e-06,
    2.204665332997227e-06,
    -9.133341271231158e-07,
)


@literal_formula
def _scaled(x: Number, beta: Number) -> tuple[Number, Number, Number]:
    """Return u = beta x, -|u|, and what that lacks to the exact product."""
    u = beta * x
    rest = low_product(beta, x) if abs(u) < 800.0 else 0.0
    return u, -abs(u), (-rest if u > 0.0 else rest)


@formula
def _unscaled(x: Number, _beta: Number) -> tuple[Number, Number, Number]:
    """`_scaled` for beta = 1, where nothing is lost."""
    return x, -abs(x), 0.0


def _steep(formula: Callable[..., Any], beta: float) -> Callable[..., Any]:
    """Return the formula to use for this beta: without the product if that is 1."""
    return _of_slope_one(formula) if beta == 1.0 else formula


@cache
def _of_slope_one(formula: Callable[..., Any]) -> Callable[..., Any]:
    return exchanged(formula, {_scaled: _unscaled}, "of_slope_one")


@formula
def _silu(x: Number, beta: Number) -> Number:
    u, power, rest = _scaled(x, beta)
    r, t, a, b = exp_parts(power, rest)
    p = r + t
    above = (-0.0 if u < -800.0 else x + x * p) * a * b
    return (above if u < 0.0 else x) / (1.0 + (1.0 + p) * a * b)


@formula
def _silu_deriv(x: Number, beta: Number) -> Number:
    u, power, rest = _scaled(x, beta)
    r, t, a, b = exp_parts(power, rest)
    p = r + t
    e = (1.0 + p) * a * b
    power = -800.0 if power < -800.0 else power
    square = (1.0 + e) * (1.0 + e)
    left = ((1.0 + power) + (e + rest)) / square
    right = (1.0 + (e - power * e)) / square
    value = (left + left * p) * a * b if u < 0.0 else right
    return near_zero((u - SILU_ZERO[0]) + (rest - SILU_ZERO[1]), SILU_SLOPE, value)


@formula
def _silu_deriv2(x: Number, beta: Number) -> Number:
    _, power, rest = _scaled(x, beta)
    r, t, a, b = exp_parts(power, rest)
    p = r + t
    e = (1.0 + p) * a * b
    power = -800.0 if power < -800.0 else power
    slope = (2.0 + power * ((1.0 - e) / (1.0 + e))) / ((1.0 + e) * (1.0 + e))
    slope = beta * slope
    return (slope + slope * p) * a * b


@formula
def _mish(x: Number) -> Number:
    r, t, a, b = exp_parts(-abs(x), 0.0)
    p = r + t
    w = (1.0 + p) * a * b
    left = (-800.0 if x < -800.0 else x) * (w + 2.0) / (2.0 + w * (2.0 + w))
    right = x * ((1.0 + 2.0 * w) / (1.0 + 2.0 * w * (1.0 + w)))
    return (left + left * p) * a * b if x < 0.0 else right


@formula
def _mish_deriv(x: Number) -> Number:
    size = abs(x)
    size = 800.0 if size > 800.0 else size
    r, t, a, b = exp_parts(-size, 0.0)
    p = r + t
    w = (1.0 + p) * a * b
    d = 2.0 + w * (2.0 + w)
    left = (4.0 * (1.0 - size) + w * ((6.0 - 4.0 * size) + w * (4.0 + w))) / (d * d)
    d = 1.0 + 2.0 * w * (1.0 + w)
    right = ((1.0 + 2.0 * w) * d + 4.0 * size * w * w * (1.0 + w)) / (d * d)
    value = (left + left * p) * a * b if x < 0.0 else right
    return near_zero((x - MISH_ZERO[0]) - MISH_ZERO[1], MISH_SLOPE, value)


@formula
def _mish_deriv2(x: Number) -> Number:
    size = abs(x)
    size = 800.0 if size > 800.0 else size
    r, t, a, b = exp_parts(-size, 0.0)
    p = r + t
    w = (1.0 + p) * a * b
    d = 2.0 + w * (2.0 + w)
    bend = 2.0 * (1.0 + w) * d - size * (2.0 + w * (2.0 - w * (3.0 + 2.0 * w)))
    left = 4.0 * bend / (d * d * d)
    left = (left + left * p) * a * b
    d = 1.0 + 2.0 * w * (1.0 + w)
    bend = 2.0 * (1.0 + w) * d - size * (2.0 + w * (3.0 - w * (2.0 + 2.0 * w)))
    right = 4.0 * bend / (d * d * d)
    right = (right + right * p) * a * b
    right = (right + right * p) * a * b
    return left if x < 0.0 else right


@formula
def _tail(x: Number) -> tuple[Number, Number, Number, Number]:
    """Return size = |x|, and m, high, low with Phi(-size) = m exp(-(high + low) / 2)."""
    size = abs(x)
    size = 39.0 if size > 39.0 else size
    high, low = low_square(size)
    return size, normal_tail(size), high, low


@formula
def _gelu(x: Number) -> Number:
    size, m, high, low = _tail(x)
    tail = raised(-size * m if x < 0.0 else m, -0.5 * high, -0.5 * low)
    return tail if x < 0.0 else x * (1.0 - tail)


@formula
def _gelu_deriv(x: Number) -> Number:
    size, m, high, low = _tail(x)
    left = raised(m - DENSITY * size, -0.5 * high, -0.5 * low)
    value = left if x < 0.0 else 1.0 - left
    return near_zero((x - GELU_ZERO[0]) - GELU_ZERO[1], GELU_SLOPE, value)


@formula
def _gelu_deriv2(x: Number) -> Number:
    size = abs(x)
    high, low = low_square(40.0 if size > 40.0 else size)
    return raised(DENSITY * ((2.0 - high) - low), -0.5 * high, -0.5 * low)


@literal_formula
def _cubic(x: Number) -> tuple[Number, Number, Number, Number]:
    """Return size = |x|, its square, and the argument v = -2 sqrt(2/pi) (x + 0.044715 x^3) in
    two parts.
    """
    size = abs(x)
    size = 30.0 if size > 30.0 else size
    high, low = low_square(size)
    cube = CUBE[0] * high
    total = CUBIC[0] + cube
    back = total - CUBIC[0]
    lost = (CUBIC[0] - (total - back)) + (cube - back)
    lost = lost + (low_product(CUBE[0], high) + (CUBE[0] * low + CUBE[1] * high)) + CUBIC[1]
    return size, high + low, -size * total, -(low_product(size, total) + size * lost)


@formula
def _gelu_tanh(x: Number) -> Number:
    _, _, power, rest = _cubic(x)
    r, t, a, b = exp_parts(power, rest)
    p = r + t
    bounded = -30.0 if x < -30.0 else x
    above = (bounded + bounded * p) * a * b
    return (above if x < 0.0 else x) / (1.0 + (1.0 + p) * a * b)


@formula
def _gelu_tanh_deriv(x: Number) -> Number:
    size, square, power, rest = _cubic(x)
    r, t, a, b = exp_parts(power, rest)
    p = r + t
    e = (1.0 + p) * a * b
    bend = 2.0 * CUBE[0] * size * square  # k = size (CUBIC + 3 CUBE square) = bend - v
    k = bend - (power + rest)
    left = ((1.0 + power) + ((e - bend) + rest)) / ((1.0 + e) * (1.0 + e))
    right = (1.0 + (e + k * e)) / ((1.0 + e) * (1.0 + e))
    value = (left + left * p) * a * b if x < 0.0 else right
    return near_zero((x - GELU_TANH_ZERO[0]) - GELU_TANH_ZERO[1], GELU_TANH_SLOPE, value)


@formula
def _gelu_tanh_deriv2(x: Number) -> Number:
    size, square, power, rest = _cubic(x)
    r, t, a, b = exp_parts(power, rest)
    p = r + t
    e = (1.0 + p) * a * b
    slope = CUBIC[0] + 3.0 * CUBE[0] * square
    bend = 2.0 * CUBIC[0] + 12.0 * CUBE[0] * square
    bend = bend - size * slope * slope * ((1.0 - e) / (1.0 + e))
    bend = bend / ((1.0 + e) * (1.0 + e))
    return (bend + bend * p) * a * b


#: the map and its two derivatives, exact and approximated
FORMS = {
    "none": (_gelu, _gelu_deriv, _gelu_deriv2),
    "tanh": (_gelu_tanh, _gelu_tanh_deriv, _gelu_tanh_deriv2),
}


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
    gelu : The gate is the normal distribution function.
    hard_swish : A piecewise quadratic stand-in.
    swiglu : The gated unit built on it.

    Notes
    -----
    .. math:: f(x) = x \, \sigma(\beta x) = \frac{x}{1 + e^{-\beta x}}

    For :math:`\beta = 0` it is x/2, for :math:`\beta \to \infty` relu. All are one curve, scaled:
    :math:`f_\beta(x) = f_1(\beta x) / \beta`. Not monotonic: for :math:`\beta = 1` it falls to
    -0.2785 at
    -1.2785, where :math:`1 + x + e^x = 0` makes the value equal to 1 + x.

    **Numerics.** For a negative product u = βx the code computes :math:`x e^u / (1 + e^u)`, the
    power
    of two last. The rounding of u would cost up to 370 units in the last place; what it lost is
    added to the exponent. Error: 2.2 ULP.

    References
    ----------
    - :cite:t:`Ramachandran2017`

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
    return mapped(_steep(_silu, beta), x, beta)


def silu_deriv(x: npt.ArrayLike, *, beta: float = 1.0) -> FloatArray:
    r"""
    Derivative of silu.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.
    beta : float, default 1.0
        Steepness of the gate.

    Returns
    -------
    ndarray
        :math:`\sigma(u) + u \sigma(u) \sigma(-u)` at :math:`u = \beta x`.

    Raises
    ------
    TypeError
        If `x` or `beta` is not real.

    See Also
    --------
    silu : The map itself.
    silu_deriv2 : The second derivative.

    Notes
    -----
    Product rule, with :math:`\sigma' = \sigma(u) \sigma(-u)`:

    .. math:: f' = \sigma(u) + u \, \sigma(u) \sigma(-u)
       = \begin{cases} e^u (1 + e^u + u) / (1 + e^u)^2 & u < 0 \\
         (1 + e^{-u} + u e^{-u}) / (1 + e^{-u})^2 & u \ge 0 . \end{cases}

    It is zero at u = -1.2785 and largest, 1.0998, at u = 2.3994. Error: 5 ULP,
    near the zero as elsewhere.

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
    return mapped(_steep(_silu_deriv, beta), x, beta)


def silu_deriv2(x: npt.ArrayLike, *, beta: float = 1.0) -> FloatArray:
    r"""
    Second derivative of silu.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.
    beta : float, default 1.0
        Steepness of the gate.

    Returns
    -------
    ndarray
        :math:`\beta \sigma(u) \sigma(-u) (2 - u \tanh \frac u2)` at :math:`u = \beta x`.

    Raises
    ------
    TypeError
        If `x` or `beta` is not real.

    See Also
    --------
    silu_deriv : The first derivative.

    Notes
    -----
    Differentiating :math:`\sigma + u \sigma'` with respect to u gives
    :math:`2 \sigma' + u \sigma''`, and
    :math:`\sigma'' = -\sigma' \tanh \frac u2`. Even; zero where :math:`u \tanh \frac u2 = 2`, at
    :math:`u = \pm 2.3994`. Error: 5 ULP, or :math:`2^{-52}` near the zeros.

    Examples
    --------
    >>> from dlref.activations import silu_deriv2
    >>> silu_deriv2([0.0, 1.0, -1.0], beta=2).round(4)
    array([1.    , 0.1001, 0.1001])
    """
    beta = as_number("beta", beta)
    return mapped(_steep(_silu_deriv2, beta), x, beta)


def silu_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, beta: float = 1.0) -> FloatArray:
    r"""
    Reverse mode of silu.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : array_like
        Input of the map.
    beta : float, default 1.0
        Steepness of the gate.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Raises
    ------
    TypeError
        If `x` or `beta` is not real.
    ValueError
        If `dout` has not the shape of `x`.

    See Also
    --------
    silu_deriv : The factor.
    silu_jvp : Forward mode.

    Notes
    -----
    Left of the minimum the gradient is reversed, and slowly dies out.

    Examples
    --------
    >>> from dlref.activations import silu_vjp
    >>> silu_vjp([2.0, 2.0], [0.0, -20.0]).round(6)
    array([ 1., -0.])
    """
    beta = as_number("beta", beta)
    return pulled(_steep(_silu_deriv, beta), dout, x, beta)


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
        Rate of change of the input; None is zero.
    beta : float, default 1.0
        Steepness of the gate.

    Returns
    -------
    ndarray
        Rate of change of the output.

    Raises
    ------
    TypeError
        If `primals` or `beta` is not real.
    ValueError
        If `tangents` has not the shape of `primals`.

    See Also
    --------
    silu_deriv : The factor.
    silu_vjp : Reverse mode.

    Notes
    -----
    The slope exceeds 1 between 1.28 and infinity: strong inputs are amplified slightly.

    Examples
    --------
    >>> from dlref.activations import silu_jvp
    >>> silu_jvp([0.0, 40.0], [2.0, 2.0])
    array([1., 2.])
    """
    beta = as_number("beta", beta)
    return pushed(_steep(_silu_deriv, beta), primals, tangents, beta)


def mish(x: npt.ArrayLike) -> FloatArray:
    r"""
    Input times the hyperbolic tangent of its softplus.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.

    Returns
    -------
    ndarray
        :math:`x \tanh(\ln(1 + e^x))`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    mish_deriv : The first derivative.
    silu : Close to it.
    softplus : The inner map.

    Notes
    -----
    .. math:: f(x) = x \tanh(\ln(1 + e^x))

    With :math:`y = 1 + e^x` the tangent is :math:`(y^2 - 1) / (y^2 + 1)`, so no logarithm is
    needed, and
    with :math:`e = e^x`

    .. math:: f(x) = x \, \frac{e (e + 2)}{e^2 + 2 e + 2},

    where all terms are positive. For x > 0 numerator and denominator are divided by :math:`e^2`.
    The minimum is -0.3088
    at -1.1924. Error: 2.7 ULP.

    References
    ----------
    - :cite:t:`Misra2019`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import mish
    >>> mish([0.0, 40.0])
    array([ 0., 40.])

    The rational form: e = 2 gives 8/10, e = 1/2 gives 5/13.

    >>> mish(np.log([2.0, 0.5])) / np.log([2.0, 0.5]) * [10, 13]
    array([8., 5.])
    """
    return mapped(_mish, x)


def mish_deriv(x: npt.ArrayLike) -> FloatArray:
    r"""
    Derivative of mish.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.

    Returns
    -------
    ndarray
        :math:`T + x T^\prime` with :math:`T = \tanh(\ln(1 + e^x))`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    mish : The map itself.
    mish_deriv2 : The second derivative.

    Notes
    -----
    With :math:`e = e^x`, :math:`d = e^2 + 2e + 2` and :math:`T = 1 - 2/d`, differentiating d gives
    :math:`d' = 2e(e + 1)`, hence

    .. math:: T' = \frac{2 d'}{d^2} = \frac{4 e (e + 1)}{d^2}, \qquad
       f' = \frac{e \bigl( (e + 2) d + 4 x (e + 1) \bigr)}{d^2} .

    Zero at -1.1924. Error: 4 ULP, near the zero as elsewhere.

    Examples
    --------
    >>> from dlref.activations import mish_deriv
    >>> mish_deriv([0.0, 40.0])
    array([0.6, 1. ])
    """
    return mapped(_mish_deriv, x)


def mish_deriv2(x: npt.ArrayLike) -> FloatArray:
    r"""
    Second derivative of mish.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.

    Returns
    -------
    ndarray
        :math:`2 T^\prime + x T^{\prime\prime}`.

    Raises
    ------
    TypeError
        If `x` is not real.

    See Also
    --------
    mish_deriv : The first derivative.

    Notes
    -----
    Differentiating once more, with :math:`e = e^x` and :math:`d = e^2 + 2e + 2`,

    .. math:: T'' = \frac{4e\,(2 + 2e - 3e^2 - 2e^3)}{d^3}, \qquad
       f'' = \frac{4e \bigl( 2 (e + 1) d + x (2 + 2e - 3e^2 - 2e^3) \bigr)}{d^3} .

    To the right it decays like :math:`e^{-2x}`. Error: 6 ULP, or :math:`2^{-51}` near the two
    zeros.

    Examples
    --------
    >>> from dlref.activations import mish_deriv2
    >>> mish_deriv2([0.0, -2.0, 2.0]).round(4)
    array([ 0.64  ,  0.035 , -0.0577])
    """
    return mapped(_mish_deriv2, x)


def mish_vjp(dout: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    r"""
    Reverse mode of mish.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : array_like
        Input of the map.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Raises
    ------
    TypeError
        If `x` is not real.
    ValueError
        If `dout` has not the shape of `x`.

    See Also
    --------
    mish_deriv : The factor.
    mish_jvp : Forward mode.

    Notes
    -----
    At 0 three fifths of the gradient pass, against half of it for silu and gelu.

    Examples
    --------
    >>> from dlref.activations import mish_vjp
    >>> mish_vjp([5.0, 5.0], [0.0, 40.0])
    array([3., 5.])
    """
    return pulled(_mish_deriv, dout, x)


def mish_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Forward mode of mish.

    Parameters
    ----------
    primals : array_like
        The input x.
    tangents : array_like, shape of `primals`, or None
        Rate of change of the input; None is zero.

    Returns
    -------
    ndarray
        Rate of change of the output.

    Raises
    ------
    TypeError
        If `primals` is not real.
    ValueError
        If `tangents` has not the shape of `primals`.

    See Also
    --------
    mish_deriv : The factor.
    mish_vjp : Reverse mode.

    Notes
    -----
    Right of 4 the slope is 1 to better than half a percent.

    Examples
    --------
    >>> from dlref.activations import mish_jvp
    >>> mish_jvp([0.0, 40.0], [5.0, 5.0])
    array([3., 5.])
    """
    return pushed(_mish_deriv, primals, tangents)


def gelu(x: npt.ArrayLike, *, approximate: str = "none") -> FloatArray:
    r"""
    Gaussian error linear unit.

    Parameters
    ----------
    x : array_like
        Input, of any shape; integers count as float64.
    approximate : {"none", "tanh"}
        The exact map, or its approximation by tanh.

    Returns
    -------
    ndarray
        :math:`x \Phi(x)`, or its approximation.

    Raises
    ------
    TypeError
        If `x` is not real.
    ValueError
        If `approximate` is neither of the two.

    See Also
    --------
    gelu_deriv : The first derivative.
    silu : The gate is logistic.
    geglu : The gated unit built on it.

    Notes
    -----
    .. math::

        f(x) = x \, \Phi(x) = \frac{x}{2} \Bigl( 1 + \operatorname{erf} \frac{x}{\sqrt 2} \Bigr)

    with the normal distribution function :math:`\Phi`: the input is kept with the probability
    that a
    standard normal variable is below it, and this is the mean. ``approximate="tanh"`` is

    .. math::

       f(x) = \frac{x}{2} \Bigl( 1 + \tanh\bigl( \sqrt{2/\pi}\, (x + 0.044715\, x^3) \bigr) \Bigr),

    which differs from it by up to 4.7e-4. PyTorch and ONNX take the exact map unless told
    otherwise, JAX the approximation.

    **Numerics.** 1 + erf cancels for negative x: nothing is left below -8.3. The code writes
    :math:`\Phi(-t) = e^{-t^2/2} m(t)` with a slowly varying m, takes the exponential of the exact
    :math:`t^2/2`, and multiplies the power of two last. The approximation is x σ(v) with twice the
    argument of tanh, computed in two parts. Error: 2.8 ULP exact, 2.3 ULP tanh.

    References
    ----------
    - :cite:t:`HendrycksGimpel2016`

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import gelu
    >>> gelu([-1.0, 0.0, 1.0]).round(4)
    array([-0.1587,  0.    ,  0.8413])

    The difference between the two forms:

    >>> x = np.linspace(-4, 4, 801)
    >>> abs(gelu(x) - gelu(x, approximate="tanh")).max().round(6)
    np.float64(0.000473)

    The left tail is not zero:

    >>> print(f"{gelu(-20.0):.3g}")
    -5.51e-88
    """
    choice("approximate", approximate, FORMS)
    return mapped(FORMS[approximate][0], x)


def gelu_deriv(x: npt.ArrayLike, *, approximate: str = "none") -> FloatArray:
    r"""
    Derivative of gelu.

    Parameters
    ----------
    x : array_like
        Where to take the derivative.
    approximate : {"none", "tanh"}
        The exact map, or its approximation by tanh.

    Returns
    -------
    ndarray
        :math:`\Phi(x) + x \phi(x)`, or that of the approximation.

    Raises
    ------
    TypeError
        If `x` is not real.
    ValueError
        If `approximate` is neither of the two.

    See Also
    --------
    gelu : The map itself.
    gelu_deriv2 : The second derivative.

    Notes
    -----
    Product rule with :math:`\Phi' = \phi`, the density
    :math:`\phi(x) = e^{-x^2/2} / \sqrt{2\pi}`. Left of 0 both terms contain
    :math:`e^{-x^2/2}`, which is taken out: :math:`e^{-t^2/2} (m(t) - t / \sqrt{2\pi})` at t = -x.

    The approximation x σ(v), with :math:`v = c x + d x^3`, has
    :math:`f' = \sigma(v) + x v' \sigma(v) \sigma(-v)`.

    Both vanish near -0.7518. Error: 4.5 ULP, near that zero as elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import gelu_deriv
    >>> gelu_deriv([-np.inf, 0.0, np.inf])
    array([-0. ,  0.5,  1. ])
    >>> gelu_deriv(np.sqrt(2.0)).round(4)
    np.float64(1.1289)
    """
    choice("approximate", approximate, FORMS)
    return mapped(FORMS[approximate][1], x)


def gelu_deriv2(x: npt.ArrayLike, *, approximate: str = "none") -> FloatArray:
    r"""
    Second derivative of gelu.

    Parameters
    ----------
    x : array_like
        Where to take the second derivative.
    approximate : {"none", "tanh"}
        The exact map, or its approximation by tanh.

    Returns
    -------
    ndarray
        :math:`(2 - x^2) \phi(x)`, or that of the approximation.

    Raises
    ------
    TypeError
        If `x` is not real.
    ValueError
        If `approximate` is neither of the two.

    See Also
    --------
    gelu_deriv : The first derivative.

    Notes
    -----
    :math:`\phi' = -x \phi`, so that :math:`\Phi' + (x \phi)' = 2\phi - x^2 \phi`. The zeros at
    :math:`\pm\sqrt 2` keep all their
    digits, because :math:`x^2` is known to twice the digits of a float64. Error: 2.6 ULP.

    The approximation has :math:`\sigma(v)\sigma(-v) (2 v' + x v'' - x v'^2 \tanh\frac v2)`, with
    an error of
    8 ULP, or :math:`2^{-51}` near its zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import gelu_deriv2
    >>> print(f"{gelu_deriv2(np.sqrt(2.0)):.1e}")
    -4.0e-17
    >>> gelu_deriv2([0.0, 1.0]).round(4)
    array([0.7979, 0.242 ])
    """
    choice("approximate", approximate, FORMS)
    return mapped(FORMS[approximate][2], x)


def gelu_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, approximate: str = "none") -> FloatArray:
    r"""
    Reverse mode of gelu.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x : array_like
        Input of the map.
    approximate : {"none", "tanh"}
        The exact map, or its approximation by tanh.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Raises
    ------
    TypeError
        If `x` is not real.
    ValueError
        If `approximate` is neither of the two.

    See Also
    --------
    gelu_deriv : The factor.
    gelu_jvp : Forward mode.

    Notes
    -----
    Not a number nowhere: a large x gives slope 1, also where its square overflows.

    Examples
    --------
    >>> from dlref.activations import gelu_vjp
    >>> gelu_vjp([2.0, 2.0], [0.0, 1e200])
    array([1., 2.])
    """
    choice("approximate", approximate, FORMS)
    return pulled(FORMS[approximate][1], dout, x)


def gelu_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, approximate: str = "none"
) -> FloatArray:
    r"""
    Forward mode of gelu.

    Parameters
    ----------
    primals : array_like
        The input x.
    tangents : array_like, shape of `primals`, or None
        Rate of change of the input; None is zero.
    approximate : {"none", "tanh"}
        The exact map, or its approximation by tanh.

    Returns
    -------
    ndarray
        Rate of change of the output.

    Raises
    ------
    TypeError
        If `primals` is not real.
    ValueError
        If `approximate` is neither of the two.

    See Also
    --------
    gelu_deriv : The factor.
    gelu_vjp : Reverse mode.

    Notes
    -----
    The slope is largest, 1.129, at the square root of 2.

    Examples
    --------
    >>> from dlref.activations import gelu_jvp
    >>> gelu_jvp([0.0, 1e200], [2.0, 2.0])
    array([1., 2.])
    """
    choice("approximate", approximate, FORMS)
    return pushed(FORMS[approximate][1], primals, tangents)
