r"""
Elementary functions as code that LLVM can vectorize.

``math.exp`` in a loop calls the C library once per element. The functions here consist only of
additions, multiplications and selections, so that a loop over one of them handles four or eight
elements at a time. All compute in float64; a float32 result is their value rounded once.

**The exponential.**  Write :math:`x = n \log 2 + r` with an integer n and
:math:`|r| \le \frac12 \log 2`; then :math:`e^x = 2^n e^r`.

1. *The integer.*  Adding :math:`1.5 \cdot 2^{52}` to :math:`x / \log 2` leaves no bit for a
   fraction: the addition itself rounds the sum to an integer, and subtracting the constant gives n.
   The low bits of the sum hold n as a binary number.
2. *The remainder.*  :math:`\log 2` is kept as a sum of two constants, the first with 32 bits: its
   product with n (11 bits) is exact, and so is the difference from x, since the two agree in the
   leading bits.  The absolute error is less than :math:`2^{-53}`.
3. *The polynomial.*  :math:`e^r - 1 = r + r^2 c(r)` with c of degree 10; the error of the
   polynomial is below 0.01 units in the last place, far below the error of its evaluation.
4. *The power of two.*  Shifting :math:`n + 1023` by 52 bits writes the exponent of a float64
   whose value is :math:`2^n`.  Two factors
   :math:`2^{\lfloor n/2 \rfloor} 2^{n - \lfloor n/2 \rfloor}` reach
   the subnormal numbers and the largest finite ones; only the last product rounds.

Subtracting one *before* the scaling turns the same pieces into :math:`e^x - 1` without
cancellation: :math:`2^n (e^r - 1) + (2^n - 1)`, where the bracket on the right is exact.

**The logarithm.**  Write :math:`w = 2^k m` with :math:`m \in [\sqrt{1/2}, \sqrt 2)`, so that
:math:`\log w = k \log 2 + \log m`, and with :math:`f = m - 1`, :math:`s = f / (2 + f)`

.. math:: \log m = 2 \operatorname{artanh} s = 2s + s^3 L(s^2).

Since :math:`2s = f - s f`, the leading term f is exact, and :math:`\log(1 + u)` remains accurate
for the smallest u.  (The C library written at Sun in 1993 arranges the terms in this way.)

**The Mills ratio.**  It is :math:`\sqrt{2\pi}\, m(t)` with :math:`m(t) = e^{t^2/2} \Phi(-t)` and
the standard normal CDF :math:`\Phi(t) = \frac12 \operatorname{erfc}(-t / \sqrt 2)`.  The factor m
decreases slowly from 1/2 towards :math:`1 / (t \sqrt{2\pi})`.  Multiplied by :math:`1 +
\frac{13}{16} t`, nearly its inverse for small t, it varies between 0.5 and 0.32 only, and :math:`q
= (t - 4) / (t + 4)` maps the half-line to :math:`[-1, 1)`: one polynomial in q, of degree 22,
serves up to t = 40, where the tail underflows.  (:cite:t:`Shepherd1981` use this form.)  The factor
:math:`e^{-t^2/2}` needs more digits of :math:`t^2` than a float64 has; ``two_square`` finds them.

**Half the digits.**  A float32 result is within 0.501 ULP if the float64 that is rounded to it has
a relative error below :math:`0.001 \cdot 2^{-24}`, about :math:`2^{-34}` (next to a power of two a
unit is half as large).  ``single`` replaces the building blocks of a formula by shorter ones with
an error below :math:`2^{-36}`:

- their polynomials stop earlier;
- :math:`\log 2` is one constant, and the low-order part of an argument, at most its rounding
  :math:`2^{-53} |x| < 2^{-43}`, is ignored (a float32 has an exact square);
- one power of two suffices: the exponential is clipped to :math:`e^{-700}`, a float64 that is not
  subnormal, but far below all of float32, and no formula needs more than :math:`e^{700}`, far above
  it: a sigmoid need not tell the signs of its argument apart;
- the Mills ratio is multiplied by :math:`t + 5` and read at :math:`q = 1 - 10 / (t + 5)`, so
  that one division does for both; it is good up to t = 20, where the tail is :math:`10^{-89}`;
- a division by the sum of a row of float32 is a product with its reciprocal.

**Low-order parts.** ``fma`` is the processor's :math:`x y + z`, rounded once. With z minus the
rounded product, it returns the rounding error of that product exactly: the digits of :math:`x^2`
that :math:`e^{-x^2/2}` needs, or the digits of a rotary angle, where only the remainder after whole
turns matters.  It also divides: with the rounded inverse i of y, the guess :math:`q = x i` leaves
the remainder :math:`x - q y`, which is a float64 again, and :math:`q + (x - q y)\, i`, rounded
once, is the quotient to the last bit :cite:p:`Markstein1990`.  Where many x are divided by one y,
these three operations are several times as fast as the division.

**Pairs.** Where several roundings add up, each number is kept as a pair of high-order and low-order
part: ``pair_sum``, ``pair_product`` and ``pair_quotient`` are the three operations, and only the
quotient at the end of a formula is rounded.  So a sigmoid or a GELU is off by little more than half
a unit, at the price of some additions.  For float32 the low-order part is dropped.

The coefficients are computed by ``tests/elementary_coefficients.py``; a test compares. Errors
stated in the source are the largest errors over dense grids, in units in the last place (ULP) of
float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from .._core.jit import inline_fma, inline_reassoc, inline_strict, intrinsic
from .._core.specialize import specialize

if TYPE_CHECKING:
    from .._core.arguments import FloatArray

    F = TypeVar("F", bound=Callable[..., Any])

Number: TypeAlias = Any  #: a float64

SHIFT = 1.5 * 2.0**52
SPLIT = 2.0**27 + 1.0  # halves the digits of a float64
SHIFT_SINGLE = SHIFT + 1023
LOG2E = 1.4426950408889634
DENSITY = 0.3989422804014327  #: 1 / sqrt(2 pi), the normal density at 0
DENSITY_REST = -2.49232720227773e-17  #: its low-order part
SHIFT_BITS = 0x4338000000000000  #: SHIFT as an integer
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD  #: sqrt(1/2) as an integer
MAGNITUDE, MAGNITUDE_SINGLE = 2**63 - 1, 2**31 - 1  #: all bits but the sign

#: the upper 32 digits of ln 2, and the low-order part
LN2 = (
    0.6931471806019545,
    -4.2009150726810846e-11,
)

#: (e^r - 1 - r) / r^2
EXPM1 = (
    0.5,
    0.1666666666666667,
    0.04166666666666667,
    0.008333333333326136,
    0.0013888888888883748,
    0.00019841269874820627,
    2.4801587325547743e-05,
    2.7557255400206422e-06,
    2.75572736431103e-07,
    2.5105217004720745e-08,
    2.0914686968086876e-09,
)

#: (ln(1 + f) - 2 s) / s^3 in s^2
LOG = (
    0.6666666666666666,
    0.40000000000000885,
    0.28571428570799784,
    0.22222222392581045,
    0.18181795547521137,
    0.15386244737621665,
    0.13268638369266825,
    0.13088034850927555,
)

#: erf(x) / x - 1 in x^2
ERF = (
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954879,
    -0.026866170645076792,
    0.0052239776248180145,
    -0.000854832698083379,
    0.0001205533111164271,
    -1.4925595266831182e-05,
    1.6461000484121368e-06,
    -1.6350312701054695e-07,
    1.4659775274047436e-08,
    -1.1372848856791674e-09,
    5.957176147748911e-11,
)

#: (x - tanh x) / x^3 in x^2
TANH = (
    0.3333333333333333,
    -0.1333333333333309,
    0.05396825396804637,
    -0.02186948852912909,
    0.008863235404578283,
    -0.003592126679366341,
    0.0014558246920964941,
    -0.0005899792946300052,
    0.00023895705228738225,
    -9.646277743313181e-05,
    3.8389607893147334e-05,
    -1.4606131676715378e-05,
    4.987760317520347e-06,
    -1.3791814499083342e-06,
    2.6330772232959337e-07,
    -2.5155023659382105e-08,
)

TANH_REST = 1.850371707708594e-17  #: the first coefficient minus 1/3

#: (1 + 13/16 t) e^(t^2 / 2) Phi(-t) in q
NORMAL = (
    0.40124522553336794,
    -0.11052114811813726,
    0.03469581358971148,
    0.0097926569176488,
    -0.02037359214060072,
    0.012980811300416874,
    -0.003969264711462238,
    -0.00011229118465430758,
    0.0005295067937860429,
    -8.526601551107743e-05,
    -6.60087915404397e-05,
    1.8133619243546964e-05,
    1.0263417110252684e-05,
    -2.943014458896208e-06,
    -1.9948747408660675e-06,
    3.656926909498371e-07,
    4.236579256476813e-07,
    -8.058911259376097e-09,
    -8.053839519341937e-08,
    -1.2858261627330951e-08,
    9.446544046181615e-09,
    3.140613571069273e-09,
    3.897331436719611e-11,
)
NORMAL_REST = 2.2588377956936774e-17  #: low-order part of the first coefficient

#: the same for half the digits; (t + 5) e^(t^2 / 2) Phi(-t) in q
LN2_SINGLE = 0.6931471805599453
EXPM1_SINGLE = (
    0.5,
    0.16666666719028936,
    0.04166666671901226,
    0.00833329846980059,
    0.001388885403566671,
    0.00019899285575896282,
    2.4859589834589056e-05,
)
LOG_SINGLE = (
    0.6666666666737868,
    0.3999999879244169,
    0.28571755535032944,
    0.22191337428065783,
    0.19363884986633198,
)
TANH_SINGLE = (
    0.33333333333225423,
    -0.13333333307175674,
    0.0539682434166709,
    -0.021869321308866544,
    0.00886186414808997,
    -0.003585488736449051,
    0.0014354461254894883,
    -0.0005487032108964547,
    0.0001827076199883596,
    -4.4488025782535576e-05,
    5.583756261356437e-06,
)
NORMAL_SINGLE = (
    0.7691930497516508,
    -0.6653825028979644,
    0.49530561567729675,
    -0.3135331567788477,
    0.16502037489965374,
    -0.06911862562510313,
    0.02079497593217958,
    -0.002993572782318079,
    -0.0007974982256673504,
    0.0005460452360974503,
    -5.9697911562206206e-05,
    -5.267362052387736e-05,
    1.5245048439667256e-05,
    6.551643232466027e-06,
)

#: sqrt(2), and its low-order part
SQRT2 = (
    1.4142135623730951,
    -9.667293313452913e-17,
)


def _bits(x: Number) -> Number:
    """Return the 64 bits of x as an integer."""
    return np.float64(x).view(np.int64)


def _number(n: Number) -> Number:
    """Return the number whose 64 bits are n."""
    return np.int64(n).view(np.float64)


def _bits_single(x: Number) -> Number:
    """Return the 32 bits of x, in float32, as an integer."""
    return np.float32(x).view(np.int32)


def _number_single(n: Number) -> Number:
    """Return the float32 whose 32 bits are n."""
    return np.int32(n).view(np.float32)


def _emit_same_bits(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.bitcast(args[0], context.get_value_type(signature.return_type))


bits = intrinsic(_bits, _emit_same_bits, "int64", "float64")
number = intrinsic(_number, _emit_same_bits, "float64", "int64")
bits_single = intrinsic(_bits_single, _emit_same_bits, "int32", "float32")
number_single = intrinsic(_number_single, _emit_same_bits, "float32", "int32")


def _fma(x: Number, y: Number, z: Number) -> Number:
    """Return x y + z, rounded once: the processor's fused multiplication and addition."""
    near = x * y + z
    if not np.isfinite(near):
        return near
    if abs(x) < 1e140 and abs(y) < 1e140 and abs(x * y) > 1e-250:  # the product as an exact sum
        x, y, z = float(x), float(y), float(z)
        x_high, y_high = x * SPLIT - (x * SPLIT - x), y * SPLIT - (y * SPLIT - y)
        x_low, y_low = x - x_high, y - y_high
        terms = x_high * y_high, x_high * y_low, x_low * y_high, x_low * y_low, z
        return np.float64(math.fsum(terms) or near)  # which knows the sign of zero
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    return np.float64(exact) if exact else near


def _emit_fma(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    to, kinds = signature.return_type, signature.args
    return builder.fma(*[context.cast(builder, *of, to) for of in zip(args, kinds, strict=True)])


def _fma_single(x: Number, y: Number, z: Number) -> Number:
    """Return x y + z of float32 numbers in float32, rounded once."""
    return np.float32(np.float64(x) * np.float64(y) + np.float64(z))


fma = intrinsic(_fma, _emit_fma, "float64")
fma_single = intrinsic(_fma_single, _emit_fma, "float32")


@inline_strict
def pair_sum(x: Number, y: Number) -> tuple[Number, Number]:
    """Return x + y for finite numbers as a pair: the rounded sum and its error."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


@inline_strict
def fast_sum(x: Number, y: Number) -> tuple[Number, Number]:
    """`pair_sum` if x is 0 or y is not larger in absolute value."""
    total = x + y
    return total, y - (total - x)


@inline_strict
def pair_product(x: Number, x_low: Number, y: Number, y_low: Number) -> tuple[Number, Number]:
    """Return (x + x_low) (y + y_low) as a pair."""
    product = x * y
    return product, fma(x, y, -product) + (x * y_low + x_low * y)


@inline_strict
def pair_quotient(x: Number, x_low: Number, y: Number, y_low: Number) -> Number:
    """Return (x + x_low) / (y + y_low), rounded once, for finite x and y."""
    inverse = 1.0 / y
    guess = x * inverse
    return fma(fma(-guess, y, x) + (x_low - guess * y_low), inverse, guess)


@inline_fma
def exp_parts(x: Number, low: Number) -> tuple[Number, Number, Number, Number]:
    """
    Return r, t, a, b with ``exp(x + low) = (1 + (r + t)) * a * b``.

    r is between -0.35 and 0.35, t the smaller remainder of e^r - 1, a and b are powers of two.
    `low` is the low-order part of the argument (exact argument = x + low): an error of the argument
    is a relative error of the result, and at x = -700 the rounding of x alone would cost 500 units
    in the last place.
    """
    x = -800.0 if x < -800.0 else x  # a NaN stays
    x = 710.0 if x > 710.0 else x
    z = x * LOG2E + SHIFT
    n = bits(z) - SHIFT_BITS
    k = z - SHIFT
    first = x - k * LN2[0]
    rest = low - k * LN2[1]
    r = first + rest
    lost = (first - r) + rest
    c, s = EXPM1, r * r  # in pairs: fewer steps depend on one another than in Horner's scheme
    low4 = (c[0] + r * c[1]) + s * (c[2] + r * c[3])
    mid4 = (c[4] + r * c[5]) + s * (c[6] + r * c[7])
    tail = low4 + (s * s) * (mid4 + (s * s) * ((c[8] + r * c[9]) + s * c[10]))
    a = ((n >> 1) + 1023) << 52
    b = (n - (n >> 1) + 1023) << 52
    return r, s * tail + lost, number(a), number(b)


@inline_fma
def exp_pair(x: Number, low: Number) -> tuple[Number, Number, Number, Number]:
    """Return h, h_low, a, b with ``exp(x + low) = (h + h_low) * a * b``; as `exp_parts`."""
    r, t, a, b = exp_parts(x, low)
    one = 1.0 + r
    rest = (r - (one - 1.0)) + t
    h = one + rest
    return h, rest - (h - one), a, b


@inline_fma
def exp(x: Number) -> Number:
    """e^x, to 0.7 ULP; subnormal results, which are rounded twice, to 0.8."""
    h, _, a, b = exp_pair(x, 0.0)
    return h * a * b


@inline_fma
def raised(factor: Number, x: Number, low: Number) -> Number:
    """Factor times e^(x + low), scaled last: finite and accurate wherever the product is."""
    h, h_low, a, b = exp_pair(x, low)
    return fma(factor, h, factor * h_low) * a * b


@inline_fma
def expm1_pair(x: Number, low: Number) -> tuple[Number, Number]:
    """e^(x + low) - 1 without cancellation, as a pair."""
    bounded = -40.0 if x < -40.0 else x  # e^-40 does not change 1
    r, t, a, b = exp_parts(bounded, low)
    half = 0.5 * a * b  # 2^n may be infinite where e^x is not
    p = r + t
    whole, lost = pair_sum(half, -0.5)
    whole, rest = fast_sum(whole, half * p)
    rest = rest + (lost + half * (t - (p - r)))
    tiny = abs(x) < 1e-17
    return (x if tiny else 2.0 * whole), (-0.0 if tiny else 2.0 * rest)


@inline_fma
def expm1(x: Number) -> Number:
    """e^x - 1 without cancellation, to 1.3 ULP."""
    high, low = expm1_pair(x, 0.0)
    return high + (low if x < 709.0 else -0.0)


@inline_fma
def capped(x: Number) -> Number:
    """Return x, or 720 for a larger one: the exponential of both is infinite."""
    return 720.0 if x > 720.0 else x


@inline_fma
def exp_excess(x: Number) -> Number:
    """e^x - 1 - x, never negative: x is left out of the series of e^x before it is added up."""
    x = capped(x)
    # e^x is (1 + r + rest) * a * b, with r = x for a small one
    r, rest, a, b = exp_parts(x, 0.0)
    half = 0.5 * a * b  # a * b may be infinite where e^x is not
    return 2.0 * (half * rest + ((half * r - 0.5 * x) + (half - 0.5)))


@inline_fma
def sigmoid(x: Number) -> Number:
    """1 / (1 + e^-x), to 0.9 ULP, in both tails."""
    h, h_low, a, b = exp_pair(-abs(x), 0.0)
    e, e_low = h * a * b, h_low * a * b
    below, rest = fast_sum(1.0, e)
    left = x < 0.0
    return pair_quotient(e if left else 1.0, e_low if left else 0.0, below, rest + e_low)


@inline_fma
def tanh(x: Number) -> Number:
    """Hyperbolic tangent: -w / (2 + w) with w = e^(-2|x|) - 1, to 1 ULP."""
    w, w_low = expm1_pair(-2.0 * abs(x), 0.0)
    below, rest = fast_sum(2.0, w)
    ratio = pair_quotient(-w, -w_low, below, rest + w_low)
    ratio = -ratio if x < 0.0 else ratio
    return x if abs(x) < 1e-9 else ratio


@inline_fma
def tanh_gap(x: Number) -> Number:
    """
    Return x - tanh x without cancellation, to 1.4 ULP.

    Below 0.975 a polynomial; above it (x - 1) + (1 - tanh x), where the first bracket is exact, and
    1 - tanh x less than 1/4.
    """
    z, z_low = two_square(x)
    c = TANH
    p = c[10] + z * (c[11] + z * (c[12] + z * (c[13] + z * (c[14] + z * c[15]))))
    p = c[5] + z * (c[6] + z * (c[7] + z * (c[8] + z * (c[9] + z * p))))
    p = c[1] + z * (c[2] + z * (c[3] + z * (c[4] + z * p)))
    bent, bent_low = pair_product(z, z_low, p, 0.0)
    p, p_low = fast_sum(c[0], bent)
    p, p_low = pair_product(z, z_low, p, p_low + (bent_low + TANH_REST))
    size = abs(x)
    h, h_low, a, b = exp_pair(-2.0 * size, 0.0)
    w, w_low = h * a * b, h_low * a * b
    below, rest = fast_sum(1.0, w)
    far = (size - 1.0) + 2.0 * pair_quotient(w, w_low, below, rest + w_low)
    far = -far if x < 0.0 else far
    return x * p + x * p_low if size < 0.975 else far


@inline_fma
def log_mantissa(f: Number, k: Number, low: Number) -> Number:
    """Return k ln 2 + ln(1 + f) + low for f in [-0.3, 0.42]."""
    return k * LN2[0] - (log_missing(f, k, low) - f)


@inline_fma
def log_missing(f: Number, k: Number, low: Number) -> Number:
    """Return k LN2[0] + f minus `log_mantissa`, which is of second order in f."""
    s = f / (2.0 + f)
    z = s * s
    c = LOG
    tail = c[4] + z * (c[5] + z * (c[6] + z * c[7]))
    tail = z * (c[0] + z * (c[1] + z * (c[2] + z * (c[3] + z * tail))))
    half = 0.5 * f * f
    return half - (s * (half + tail) + (k * LN2[1] + low))


@inline_fma
def log(x: Number) -> Number:
    """Natural logarithm, to 0.9 ULP; -inf at 0, NaN below."""
    tiny = x < 2.0**-1000
    w = x * 2.0**54 if tiny else x
    exponent = (bits(w) - SQRT_HALF_BITS) >> 52
    mantissa = number(bits(w) - (exponent << 52))
    k = np.float64(exponent) - (54.0 if tiny else 0.0)
    inside = log_mantissa(mantissa - 1.0, k, 0.0)
    outside = -np.inf if x == 0.0 else (np.nan if x < 0.0 else x)  # NaN and inf are unchanged
    return inside if (x > 0.0) & (x < np.inf) else outside


@inline_fma
def log1p(u: Number) -> Number:
    """ln(1 + u) without cancellation, to 0.9 ULP; -inf at -1, NaN below."""
    return log1p_pair(u, 0.0)


@inline_fma
def log1p_pair(u: Number, u_low: Number) -> Number:
    """ln(1 + u + u_low), as `log1p`."""
    w = 1.0 + u
    exponent = (bits(w) - SQRT_HALF_BITS) >> 52
    mantissa = number(bits(w) - (exponent << 52))
    lost = 1.0 - (w - u) if u > 1.0 else u - (w - 1.0)
    f = u if exponent == 0 else mantissa - 1.0
    low = ((0.0 if exponent == 0 else lost) + u_low) / w  # beyond ln(w)
    inside = log_mantissa(f, np.float64(exponent), low)
    inside = u if abs(u) < 1e-17 else inside
    outside = -np.inf if u == -1.0 else (np.nan if u < -1.0 else u)
    return inside if (u > -1.0) & (u < np.inf) else outside


@inline_fma
def log1p_exp(x: Number) -> Number:
    """ln(1 + e^x) for x <= 0, to 1.3 ULP."""
    f, k, low = log1p_exp_parts(x, 0.0)
    return log_mantissa(f, k, low)


@inline_fma
def softplus(x: Number) -> Number:
    """log(1 + e^x) for any x."""
    return (x if x > 0.0 else 0.0) + log1p_exp(-abs(x))


@inline_fma
def log1p_exp_pair(x: Number, low: Number) -> tuple[Number, Number]:
    """ln(1 + e^(x + low)) for x <= 0, as a pair."""
    f, k, more = log1p_exp_parts(x, low)
    high, rest = pair_sum(k * LN2[0], f)
    high, less = fast_sum(high, -log_missing(f, k, more))
    return high, rest + less


@inline_fma
def log1p_exp_parts(x: Number, low: Number) -> tuple[Number, Number, Number]:
    """
    Return the arguments of `log_mantissa` for ln(1 + e^(x + low)).

    The sum lies between 1 and 2, so the power of two is 0 or 1. The rounding errors of the
    exponential and of the sum are known, and change the logarithm by their quotient with the sum.
    """
    r, t, a, b = exp_parts(x, low)
    p = r + t
    q = 1.0 + p
    e = q * a * b
    rest = ((p - (q - 1.0)) + (t - (p - r))) * a * b
    w = 1.0 + e
    upper = w > 1.4
    f = 0.5 * w - 1.0 if upper else e
    lost = e - (w - 1.0) if upper else 0.0
    return f, (1.0 if upper else 0.0), (lost + rest) / w


@inline_fma
def quotient(x: Number, y: Number, y_low: Number) -> Number:
    """
    Return x / (y + y_low) for many finite x and one y, whose inverse LLVM computes once.

    With y_low = 0 it has the bits of a division, except that a subnormal quotient may be its
    neighbor.
    """
    inverse = 1.0 / y
    guess = x * inverse
    return fma(fma(-guess, y, x) - guess * y_low, inverse, guess)


@inline_strict
def two_diff_error(x: Number, y: Number) -> Number:
    """Return the rounding error of x - y, exact minus rounded."""
    d = x - y
    back = d - x
    return (x - (d - back)) - (y + back)


@inline_strict
def two_prod_error(x: Number, y: Number) -> Number:
    """Return the rounding error of x y, exact minus rounded, if neither is tiny."""
    return fma(x, y, -(x * y))


@inline_strict
def two_square(x: Number) -> tuple[Number, Number]:
    """Return x^2 as a pair: the rounded square and its error."""
    return x * x, two_prod_error(x, x)


@inline_fma
def normal_tail_pair(t: Number) -> tuple[Number, Number, Number, Number]:
    """Return `normal_tail` as numerator and denominator: p, p_low, d, d_low."""
    q = pair_quotient(*pair_sum(t, -4.0), *pair_sum(t, 4.0))
    c = NORMAL
    p = c[18] + q * (c[19] + q * (c[20] + q * (c[21] + q * c[22])))
    p = c[12] + q * (c[13] + q * (c[14] + q * (c[15] + q * (c[16] + q * (c[17] + q * p)))))
    p = c[6] + q * (c[7] + q * (c[8] + q * (c[9] + q * (c[10] + q * (c[11] + q * p)))))
    p = q * (c[1] + q * (c[2] + q * (c[3] + q * (c[4] + q * (c[5] + q * p)))))
    p, p_low = fast_sum(c[0], p)
    d, d_low = pair_sum(1.0, 0.8125 * t)
    return p, p_low + NORMAL_REST, d, d_low + two_prod_error(0.8125, t)


@inline_fma
def normal_tail(t: Number) -> Number:
    """e^(t^2 / 2) Phi(-t) for t in [0, 40], Phi the standard normal CDF; to 1.4 ULP."""
    p, p_low, d, d_low = normal_tail_pair(t)
    return pair_quotient(p, p_low, d, d_low)


@inline_fma
def erfcx(x: Number) -> Number:
    """
    e^(x^2) erfc(x) = 2 m(sqrt(2) x) for x in [0, 28], where m is `normal_tail`; to 1.8 ULP.

    The rounding of sqrt(2) x is corrected with m' = t m - 1 / sqrt(2 pi).
    """
    t = SQRT2[0] * x
    m = normal_tail(t)
    return 2.0 * (m + (two_prod_error(SQRT2[0], x) + SQRT2[1] * x) * (t * m - DENSITY))


@inline_fma
def erfc(x: Number) -> Number:
    """Complementary error function, to 2.6 ULP in both tails."""
    size = abs(x)
    size = 28.0 if size > 28.0 else size
    high, low = two_square(size)
    tail = raised(erfcx(size), -high, -low)
    return 2.0 - tail if x < 0.0 else tail


@inline_fma
def erf(x: Number) -> Number:
    """Error function, to 1 ULP."""
    z = x * x
    c = ERF
    p = c[9] + z * (c[10] + z * (c[11] + z * c[12]))
    p = c[5] + z * (c[6] + z * (c[7] + z * (c[8] + z * p)))
    p = c[0] + z * (c[1] + z * (c[2] + z * (c[3] + z * (c[4] + z * p))))
    far = 1.0 - erfc(abs(x))
    far = -far if x < 0.0 else far
    return x + x * p if abs(x) < 1.0 else far


@inline_fma
def exp_parts_single(x: Number, _low: Number) -> tuple[Number, Number, Number, Number]:
    """
    `exp_parts` to half the digits, for x < 700: ln 2 is one constant, 2^n one factor.

    The shift also adds 1023, so that the low bits of z are the exponent of 2^n.
    """
    x = -700.0 if x < -700.0 else x
    z = x * LOG2E + SHIFT_SINGLE
    r = x - (z - SHIFT_SINGLE) * LN2_SINGLE
    c, s = EXPM1_SINGLE, r * r
    tail = (c[0] + r * c[1]) + s * ((c[2] + r * c[3]) + s * ((c[4] + r * c[5]) + s * c[6]))
    return r, s * tail, number(bits(z) << 52), 1.0


@inline_fma
def sigmoid_single(x: Number) -> Number:
    """`sigmoid` to half the digits; e^-x may exceed any float32 without harm."""
    r, t, a, _ = exp_parts_single(-(-700.0 if x < -700.0 else x), 0.0)
    return 1.0 / (1.0 + (1.0 + (r + t)) * a)


@inline_fma
def tanh_single(x: Number) -> Number:
    """`tanh` to half the digits: the rounding error of t + 2 is ignored."""
    size = abs(x)
    t = expm1_single(2.0 * (20.0 if size > 20.0 else size))
    ratio = t / (t + 2.0)
    ratio = -ratio if x < 0.0 else ratio
    return x if size < 1e-9 else ratio


@inline_fma
def capped_single(x: Number) -> Number:
    """`capped` for `exp_parts_single`; no float32 holds e^700."""
    return 700.0 if x > 700.0 else x


@inline_fma
def expm1_single(x: Number) -> Number:
    """`expm1` to half the digits."""
    r, t, a, _ = exp_parts_single(capped_single(x), 0.0)
    return x if abs(x) < 1e-17 else a * (r + t) + (a - 1.0)


@inline_fma
def tanh_gap_single(x: Number) -> Number:
    """`tanh_gap` to half the digits."""
    z = x * x
    c = TANH_SINGLE
    p = c[6] + z * (c[7] + z * (c[8] + z * (c[9] + z * c[10])))
    p = c[0] + z * (c[1] + z * (c[2] + z * (c[3] + z * (c[4] + z * (c[5] + z * p)))))
    size = abs(x)
    r, t, a, _ = exp_parts_single(-2.0 * size, 0.0)
    w = (1.0 + (r + t)) * a
    far = (size - 1.0) + 2.0 * w / (1.0 + w)
    far = -far if x < 0.0 else far
    return x * (z * p) if size < 1.0 else far


@inline_fma
def log1p_exp_single(x: Number) -> Number:
    """`log1p_exp` to half the digits: the rounding errors of exponential and sum are ignored."""
    r, t, a, _ = exp_parts_single(x, 0.0)
    e = (1.0 + (r + t)) * a
    upper = e > 0.4
    f = 0.5 * e - 0.5 if upper else e
    s = f / (2.0 + f)
    z = s * s
    c = LOG_SINGLE
    tail = c[0] + z * (c[1] + z * (c[2] + z * (c[3] + z * c[4])))
    return s * (2.0 + z * tail) + (LN2_SINGLE if upper else 0.0)


@inline_fma
def log1p_exp_pair_single(x: Number, _low: Number) -> tuple[Number, Number]:
    """`log1p_exp_pair` to half the digits."""
    return log1p_exp_single(x), 0.0


@inline_fma
def quotient_single(x: Number, y: Number, _y_low: Number) -> Number:
    """`quotient` for many x and one y, whose reciprocal LLVM computes once."""
    return x * (1.0 / y)


@inline_fma
def exp_pair_single(x: Number, low: Number) -> tuple[Number, Number, Number, Number]:
    """`exp_pair` to half the digits."""
    r, t, a, b = exp_parts_single(x, low)
    return 1.0 + (r + t), 0.0, a, b


@inline_fma
def expm1_pair_single(x: Number, _low: Number) -> tuple[Number, Number]:
    """`expm1_pair` to half the digits."""
    return expm1_single(x), 0.0


@inline_fma
def pair_sum_single(x: Number, y: Number) -> tuple[Number, Number]:
    """`pair_sum` without the low-order part."""
    return x + y, 0.0


@inline_fma
def pair_product_single(
    x: Number, _x_low: Number, y: Number, _y_low: Number
) -> tuple[Number, Number]:
    """`pair_product` without the low-order part."""
    return x * y, 0.0


@inline_fma
def pair_quotient_single(x: Number, _x_low: Number, y: Number, _y_low: Number) -> Number:
    """`pair_quotient` of two numbers."""
    return x / y


@inline_fma
def raised_single(factor: Number, x: Number, low: Number) -> Number:
    """`raised` to half the digits."""
    r, t, a, b = exp_parts_single(x, low)
    return (factor + factor * (r + t)) * a * b


@inline_fma
def two_diff_error_single(_x: Number, _y: Number) -> Number:
    """Replace `two_diff_error`: half the digits need no correction."""
    return 0.0


@inline_fma
def two_square_single(x: Number) -> tuple[Number, Number]:
    """`two_square` of a float32, whose square is exact."""
    return x * x, 0.0


@inline_fma
def normal_tail_single(t: Number) -> Number:
    """`normal_tail` to half the digits, for t in [0, 20]."""
    inverse = 1.0 / (t + 5.0)
    q = 1.0 - 10.0 * inverse
    c, s = NORMAL_SINGLE, q * q
    low4 = (c[0] + q * c[1]) + s * (c[2] + q * c[3])
    mid4 = (c[4] + q * c[5]) + s * (c[6] + q * c[7])
    top = (c[8] + q * c[9]) + s * (c[10] + q * c[11]) + (s * s) * (c[12] + q * c[13])
    return (low4 + (s * s) * (mid4 + (s * s) * top)) * inverse


@inline_fma
def normal_tail_pair_single(t: Number) -> tuple[Number, Number, Number, Number]:
    """`normal_tail_pair` of one number over 1."""
    return normal_tail_single(t), 0.0, 1.0, 0.0


@inline_fma
def near_zero(d: Number, rest: Number, c: tuple[Number, ...], value: Number) -> Number:
    """
    Return d c(d) for the distance d + rest from a zero, or `value` if it is far.

    Near the zero, digits of `value` are lost that its distance from it still has.
    """
    d, d_low = fast_sum(d, rest)
    low4 = d * c[1] + (d * d) * (c[2] + d * c[3])
    mid4 = (c[4] + d * c[5]) + (d * d) * (c[6] + d * c[7])
    q = (d * d) * (d * d)
    top = (c[8] + d * c[9]) + (d * d) * (c[10] + d * c[11])
    last = (c[12] + d * c[13]) + (d * d) * (c[14] + d * c[15])
    p, p_low = fast_sum(c[0], low4 + q * (mid4 + q * (top + q * last)))
    p, p_low = pair_product(d, d_low, p, p_low)
    return p + p_low if abs(d) < 0.375 else value


@inline_fma
def near_zero_single(d: Number, rest: Number, c: tuple[Number, ...], value: Number) -> Number:
    """`near_zero` to half the digits, which `value` has from a shorter distance on."""
    d = d + rest
    s = d * d
    p = (c[0] + d * c[1]) + s * ((c[2] + d * c[3]) + s * ((c[4] + d * c[5]) + s * c[6]))
    return d * p if abs(d) < 0.06 else value


@inline_fma
def largest(x: FloatArray) -> Number:
    """
    Return the maximum of some numbers; a positive NaN counts as the largest.

    The bits of a number, read as an integer, grow with the number if it is positive and fall if it
    is negative; negative ones are mirrored.  Integers, unlike floats, have a maximum that does not
    depend on the order, so LLVM may compare several at a time.
    """
    top = np.int64(-MAGNITUDE - 1)
    for j in range(x.size):
        code = bits(x[j])
        key = code if code >= 0 else code ^ MAGNITUDE
        top = key if key > top else top
    return number(top if top >= 0 else top ^ MAGNITUDE)


@inline_fma
def largest_single(x: FloatArray) -> Number:
    """`largest` of float32, as a float32."""
    top = np.int32(-MAGNITUDE_SINGLE - 1)
    for j in range(x.size):
        code = bits_single(x[j])
        key = np.int32(code if code >= 0 else code ^ np.int32(MAGNITUDE_SINGLE))
        top = key if key > top else top
    return number_single(top if top >= 0 else top ^ np.int32(MAGNITUDE_SINGLE))


@inline_reassoc
def summed(x: FloatArray) -> Number:
    """Return the sum of some numbers, in the order that is fastest."""
    total = np.float64(0.0)
    for j in range(x.size):
        total += np.float64(x[j])
    return total


@inline_fma
def add_multiple(factor: Number, line: FloatArray, to: FloatArray) -> None:
    """Add a multiple of some numbers to others."""
    for j in range(to.size):
        to[j] += factor * line[j]


#: Replacements, for results that need half the digits only.
SINGLE = {
    capped: capped_single,
    exp_pair: exp_pair_single,
    exp_parts: exp_parts_single,
    expm1: expm1_single,
    expm1_pair: expm1_pair_single,
    largest: largest_single,
    log1p_exp: log1p_exp_single,
    log1p_exp_pair: log1p_exp_pair_single,
    two_diff_error: two_diff_error_single,
    two_square: two_square_single,
    near_zero: near_zero_single,
    normal_tail: normal_tail_single,
    normal_tail_pair: normal_tail_pair_single,
    pair_product: pair_product_single,
    pair_quotient: pair_quotient_single,
    fast_sum: pair_sum_single,
    pair_sum: pair_sum_single,
    quotient: quotient_single,
    raised: raised_single,
    sigmoid: sigmoid_single,
    tanh: tanh_single,
    tanh_gap: tanh_gap_single,
}


@cache
def single(function: F) -> F:
    """Return the copy of a formula or a kernel for float32, with half the digits."""
    return specialize(function, SINGLE, "single")


def for_dtype(function: F, dtype: Any) -> F:
    """Return the copy of a formula or a kernel for arrays of this dtype."""
    return single(function) if dtype == np.float32 else function
