r"""GELU: the input times the standard normal CDF, exact or by tanh."""

from __future__ import annotations

import numpy.typing as npt

from .._core.arguments import FloatArray, choice
from .._core.jit import inline_fma, inline_strict
from .._math.elementary import (
    DENSITY,
    DENSITY_REST,
    Number,
    exp_pair,
    exp_parts,
    fast_sum,
    near_zero,
    normal_tail_pair,
    pair_product,
    pair_quotient,
    raised,
    two_diff_error,
    two_prod_error,
    two_square,
)
from .._math.elementwise import forward, jvp, vjp

CUBIC = (1.5957691216057308, -9.96930880911092e-17)  #: 2 sqrt(2 / pi), and its low-order part
CUBE = (0.07135481627260025, -6.175149918155315e-19)  #: 0.044715 times that

#: The zero of the derivative, as a float64 and its low-order part. Next to it the terms of the
#: usual formula cancel; the quotient of the derivative and the distance from it is smooth.
GELU_ZERO = (-0.7517915246935645, 1.4956759177009883e-17)
#: The polynomial of that quotient in the distance, within 0.375 of the zero, lowest power first
#: (tests/elementary_coefficients.py computes both).
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
#: The same for the approximation by tanh.
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


@inline_fma
def _bounded(x: Number) -> Number:
    size = abs(x)
    return 39.0 if size > 39.0 else size


@inline_fma
def _bell(size: Number) -> tuple[Number, Number, Number, Number]:
    """Return e^(-size^2 / 2) as `exp_pair` does."""
    high, low = two_square(size)
    return exp_pair(-0.5 * high, -0.5 * low)


@inline_fma
def _gelu(x: Number) -> Number:
    size, left = _bounded(x), x < 0.0
    p, p_low, d, d_low = normal_tail_pair(size)  # Phi(-size) = p / d times the bell
    h, h_low, a, b = _bell(size)
    p, p_low = pair_product(p, p_low, h, h_low)
    rest, rest_low = fast_sum(d, -p * a * b)
    rest_low = rest_low + (d_low - p_low * a * b)
    x = -39.0 if x < -39.0 else x
    p, p_low = pair_product(x, 0.0, p if left else rest, p_low if left else rest_low)
    ratio = pair_quotient(p, p_low, d, d_low)
    return ratio * a * b if left else (x if x > 39.0 else ratio)


@inline_fma
def _gelu_deriv(x: Number) -> Number:
    size, left = _bounded(x), x < 0.0
    p, p_low, d, d_low = normal_tail_pair(size)
    h, h_low, a, b = _bell(size)
    slope, slope_low = pair_product(DENSITY, DENSITY_REST, size, 0.0)
    slope, slope_low = pair_product(slope, slope_low, d, d_low)
    p, p_low = p - slope, two_diff_error(p, slope) + (p_low - slope_low)
    p, p_low = pair_product(p, p_low, h, h_low)
    rest, rest_low = fast_sum(d, -p * a * b)
    rest_low = rest_low + (d_low - p_low * a * b)
    ratio = pair_quotient(p if left else rest, p_low if left else rest_low, d, d_low)
    value = ratio * a * b if left else ratio
    return near_zero(x - GELU_ZERO[0], -GELU_ZERO[1], GELU_SLOPE, value)


@inline_fma
def _gelu_deriv2(x: Number) -> Number:
    size = abs(x)
    high, low = two_square(40.0 if size > 40.0 else size)
    return raised(DENSITY * ((2.0 - high) - low), -0.5 * high, -0.5 * low)


@inline_strict
def _cubic(x: Number) -> tuple[Number, Number, Number, Number]:
    """Return size = |x|, its square, and the argument v = -2 sqrt(2/pi) (x + 0.044715 x^3) in
    two parts.
    """
    size = abs(x)
    size = 30.0 if size > 30.0 else size
    high, low = two_square(size)
    cube = CUBE[0] * high
    total = CUBIC[0] + cube
    back = total - CUBIC[0]
    lost = (CUBIC[0] - (total - back)) + (cube - back)
    lost = lost + (two_prod_error(CUBE[0], high) + (CUBE[0] * low + CUBE[1] * high)) + CUBIC[1]
    return size, high + low, -size * total, -(two_prod_error(size, total) + size * lost)


@inline_fma
def _gelu_tanh(x: Number) -> Number:
    _, _, power, rest = _cubic(x)
    h, h_low, a, b = exp_pair(power, rest)
    d, lost = fast_sum(1.0, h * a * b)
    left = x < 0.0
    x = -30.0 if x < -30.0 else x
    above, above_low = pair_product(x, 0.0, h if left else 1.0, h_low if left else 0.0)
    ratio = pair_quotient(above, above_low, d, lost + h_low * a * b)
    return ratio * a * b if left else (x if x > 30.0 else ratio)


@inline_fma
def _gelu_tanh_deriv(x: Number) -> Number:
    size, square, power, rest = _cubic(x)
    h, h_low, a, b = exp_pair(power, rest)
    e, e_low = h * a * b, h_low * a * b
    bend = 2.0 * CUBE[0] * size * square  # k = size (CUBIC + 3 CUBE square) = bend - v
    k = bend - (power + rest)
    d, lost = fast_sum(1.0, e)
    double, double_low = pair_product(d, lost + e_low, d, lost + e_low)
    left = x < 0.0
    top, top_low = pair_product((1.0 + power) + ((e - bend) + rest), 0.0, h, h_low)
    top, top_low = (top, top_low) if left else (1.0 + (e + k * e), 0.0)
    value = pair_quotient(top, top_low, double, double_low)
    value = value * a * b if left else value
    return near_zero(x - GELU_TANH_ZERO[0], -GELU_TANH_ZERO[1], GELU_TANH_SLOPE, value)


@inline_fma
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

    with the standard normal CDF :math:`\Phi`: the input is kept with the probability that a
    standard normal variable is below it, and this is the mean. ``approximate="tanh"`` is

    .. math::

       f(x) = \frac{x}{2} \Bigl( 1 + \tanh\bigl( \sqrt{2/\pi}\, (x + 0.044715\, x^3) \bigr) \Bigr),

    which differs from it by up to 4.7e-4. PyTorch and ONNX use the exact map by default, JAX the
    approximation.

    **Numerics.** 1 + erf cancels for negative x: nothing is left below -8.38. The code writes
    :math:`\Phi(-t) = e^{-t^2/2} m(t)` with a slowly varying m, takes the exponential of the exact
    :math:`t^2/2`, and multiplies the power of two last. The approximation is x σ(v) with twice the
    argument of tanh, computed in two parts. Largest error found: 1.8 ULP exact, 0.78 ULP tanh.

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

    The left tail is not zero, where 1 + erf is:

    >>> import math
    >>> 1 + math.erf(-8.37 / math.sqrt(2)) > 0, 1 + math.erf(-8.38 / math.sqrt(2))
    (True, 0.0)
    >>> print(f"{gelu(-20.0):.3g}")
    -5.51e-88
    """
    choice("approximate", approximate, FORMS)
    return forward(FORMS[approximate][0], x)


def gelu_deriv(x: npt.ArrayLike, *, approximate: str = "none") -> FloatArray:
    r"""
    Derivative of gelu.

    Parameters
    ----------
    x, approximate : as in `gelu`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`\Phi(x) + x \phi(x)`, or the derivative of the approximation.

    Notes
    -----
    The product rule, with the density :math:`\Phi' = \phi`:

    .. math:: f' = \Phi(x) + x\, \phi(x) , \qquad \phi(x) = \frac{e^{-x^2/2}}{\sqrt{2\pi}}

    Left of 0 both terms contain :math:`e^{-x^2/2}`, which is factored out:
    :math:`e^{-t^2/2} (m(t) - t / \sqrt{2\pi})` at t = -x.

    The approximation is :math:`x\, \sigma(v)` with twice the argument of tanh, and so has

    .. math:: f' = \sigma(v) + x\, v'\, \sigma(v)\, \sigma(-v) , \qquad v = c x + d x^3 , \quad
       v' = c + 3 d x^2 ,

    where :math:`c = 2 \sqrt{2 / \pi}` and :math:`d = 0.044715\, c`.

    The exact derivative is 0 at -0.7518, and the derivative of the approximation at -0.7525.
    Largest error found: 1.6 ULP exact, 3.5 ULP tanh, near the zero as elsewhere.

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
    return forward(FORMS[approximate][1], x)


def gelu_deriv2(x: npt.ArrayLike, *, approximate: str = "none") -> FloatArray:
    r"""
    Second derivative of gelu.

    Parameters
    ----------
    x, approximate : as in `gelu`
        Raises the same errors.

    Returns
    -------
    ndarray
        :math:`(2 - x^2) \phi(x)`, or the derivative of the approximation.

    Notes
    -----
    With the standard normal density :math:`\phi`, for which :math:`\phi' = -x \phi`,

    .. math:: f'' = \Phi' + (x \phi)' = 2 \phi(x) + x\, \phi'(x) = (2 - x^2)\, \phi(x) .

    The zeros at :math:`\pm\sqrt 2` keep all their digits, because :math:`x^2` is known to twice the
    digits of a float64. Largest error found: 2.9 ULP exact, 14 ULP tanh, or 1 and 2.2 units of
    :math:`2^{-53}` within 0.5 of a zero.

    For the approximation, differentiate :math:`\sigma(v) + x\, v'\, \sigma'(v)` with the v of
    :func:`gelu_deriv`, where :math:`v'' = 6 d x`, and insert
    :math:`\sigma'' = -\sigma' \tanh \frac v2`:

    .. math::

        f'' = 2 v'\, \sigma'(v) + x\, v''\, \sigma'(v) + x\, v'^2\, \sigma''(v)
            = \sigma(v)\, \sigma(-v) \Bigl( 2 v' + x\, v'' - x\, v'^2 \tanh \frac v2 \Bigr) .

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
    return forward(FORMS[approximate][2], x)


def gelu_vjp(dout: npt.ArrayLike, x: npt.ArrayLike, *, approximate: str = "none") -> FloatArray:
    r"""
    Reverse mode of gelu.

    Parameters
    ----------
    dout : array_like, shape of `x`
        Gradient of a loss with respect to the output.
    x, approximate : as in `gelu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Gradient of that loss with respect to `x`.

    Notes
    -----
    With the cotangent u, element by element:

    .. math:: \pdv{L}{x} = u\, f'(x) = u\, \bigl( \Phi(x) + x\, \phi(x) \bigr)

    for the exact form, with the standard normal density :math:`\phi`; for the approximation,
    :func:`gelu_deriv` has the derivative.

    The result is never NaN for a finite x: a large x gives slope 1, also where its square
    overflows.

    Examples
    --------
    >>> from dlref.activations import gelu_vjp
    >>> gelu_vjp([2.0, 2.0], [0.0, 1e200])
    array([1., 2.])
    """
    choice("approximate", approximate, FORMS)
    return vjp(FORMS[approximate][1], dout, x)


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
        Tangent of the input; None is zero.
    approximate : as in `gelu`
        Raises the same errors.

    Returns
    -------
    ndarray
        Tangent of the output.

    Notes
    -----
    Element by element:

    .. math:: \dot y = f'(x)\, \dot x = \bigl( \Phi(x) + x\, \phi(x) \bigr)\, \dot x

    for the exact form, with the standard normal density :math:`\phi`; for the approximation,
    :func:`gelu_deriv` has the derivative.

    The slope is largest, 1.129, at the square root of 2.

    Examples
    --------
    >>> from dlref.activations import gelu_jvp
    >>> gelu_jvp([0.0, 1e200], [2.0, 2.0])
    array([1., 2.])
    """
    choice("approximate", approximate, FORMS)
    return jvp(FORMS[approximate][1], primals, tangents)
