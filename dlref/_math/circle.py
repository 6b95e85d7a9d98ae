r"""
Cosine and sine that LLVM can vectorize, of an angle in turns or in radians.

Only the remainder of an angle after whole turns matters, and no digits may be lost there:

1. *Turns.*  The angle is a product, p (high + low) turns, whose second factor is a sum of two
   float64 with 106 digits.  The product is a sum, too: the rounded product and its error from
   `two_prod_error`.  For an angle p in radians the second factor is :math:`1 / 2 \pi`.
2. *The remainder.*  The nearest quarter turn is subtracted.  The subtraction is exact, and the
   error of the product is added to the remainder, an angle of at most :math:`\pi / 4`.
3. *The series* of sine and cosine, to the order 17 and 16: the next terms are below
   :math:`10^{-17}` of the result.
4. *The quarter.*  Four cases: sine and cosine change places, and signs.

All steps are additions, multiplications and selections.

For float32 half the digits are enough (see `elementary`): the series are shorter polynomials, good
to :math:`2^{-35}`, and only the rounding error of the product of turns is corrected, since it alone
can be as large as the remainder.

The second factor has an error of :math:`10^{-33}`. It matters where a result is near zero, because
the angle is near a multiple of a quarter turn, and where there are many turns: `cos` and `sin`
return NaN there, and the caller takes a function of the C library.
"""

from __future__ import annotations

import math

import numpy as np

from .._core.jit import inline_fma, inline_strict
from .elementary import SHIFT, SINGLE, Number, bits, two_prod_error

TURN = (6.283185307179586, 2.4492935982947064e-16)  #: 2 pi, and its low-order part
PER_TURN = (0.15915494309189535, -9.839338337591243e-18)  #: its inverse
MOST = 2.0**49  #: turns, above which quarters of a turn can no longer be distinguished
FAR, LEAST = 2.0**32, 2.0**-17  #: radians and results between which no digits are lost

#: (sin a - a) / a^3 and (cos a - 1 + a^2 / 2) / a^4 in a^2
SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(1, 9))
COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(2, 9))

#: the same to half the digits (tests/elementary_coefficients.py)
SIN_SINGLE = (
    -0.16666666663854168,
    0.008333331874273714,
    -0.000198400864995936,
    2.7249895230611676e-06,
)
COS_SINGLE = (
    0.041666666664320264,
    -0.0013888887671652504,
    2.480060018036381e-05,
    -2.7300933687212943e-07,
)


@inline_strict
def quarters(p: Number, high: Number, low: Number) -> tuple[Number, Number, Number]:
    """Return n, r, lost: p (high + low) turns are n quarters and r + lost turns."""
    t = p * high
    z = 4.0 * t + SHIFT
    r = t - 0.25 * (z - SHIFT)
    r = np.nan if abs(t) > MOST else r
    return bits(z) & 3, r, two_prod_error(p, high) + p * low


@inline_strict
def remainder(p: Number, high: Number, low: Number) -> tuple[Number, Number, Number]:
    """Return n, a, b: p (high + low) turns are n quarters and an angle of a + b radians."""
    n, r, lost = quarters(p, high, low)
    first = TURN[0] * r
    rest = two_prod_error(TURN[0], r) + (TURN[1] * r + TURN[0] * lost)
    a = first + rest
    return n, a, rest - (a - first)


@inline_fma
def rotated_by_quarters(n: Number, cosine: Number, sine: Number) -> tuple[Number, Number]:
    """Return cosine and sine of an angle that is n quarters of a turn larger."""
    x = sine if n & 1 else cosine
    y = cosine if n & 1 else sine
    return -x if (n + 1) & 2 else x, -y if n & 2 else y


@inline_fma
def circle(p: Number, high: Number, low: Number) -> tuple[Number, Number]:
    """Cosine and sine of p (high + low) turns, to 0.9 ULP."""
    n, a, b = remainder(p, high, low)
    z = a * a
    s, c = SIN, COS
    odd = s[4] + z * (s[5] + z * (s[6] + z * s[7]))
    odd = s[0] + z * (s[1] + z * (s[2] + z * (s[3] + z * odd)))
    even = c[3] + z * (c[4] + z * (c[5] + z * c[6]))
    even = c[0] + z * (c[1] + z * (c[2] + z * even))
    half = 0.5 * z
    sine = a + (a * z * odd + b * (1.0 - half))
    most = 1.0 - half
    cosine = most + (((1.0 - most) - half) + (z * z * even - a * b))
    return rotated_by_quarters(n, cosine, sine)


@inline_fma
def circle_single(p: Number, high: Number, low: Number) -> tuple[Number, Number]:
    """`circle` to half the digits."""
    n, r, lost = quarters(p, high, low)
    a = TURN[0] * (r + lost)
    z = a * a
    s, c = SIN_SINGLE, COS_SINGLE
    odd = (s[0] + z * s[1]) + (z * z) * (s[2] + z * s[3])
    even = (c[0] + z * c[1]) + (z * z) * (c[2] + z * c[3])
    return rotated_by_quarters(n, (1.0 - 0.5 * z) + (z * z) * even, a + (a * z) * odd)


SINGLE[circle] = circle_single


@inline_fma
def known(x: Number, value: Number) -> Number:
    """Return the cosine or sine of x, or NaN where it may have lost digits."""
    return value if abs(x) < FAR and abs(value) > LEAST else np.nan


@inline_fma
def cos(x: Number) -> Number:
    """Cosine of x, an angle in radians, to 1 ULP, or NaN: see `known`."""
    return known(x, circle(x, PER_TURN[0], PER_TURN[1])[0])


@inline_fma
def sin(x: Number) -> Number:
    """Sine of x, an angle in radians, to 1 ULP, or NaN: see `known`."""
    return known(x, circle(x, PER_TURN[0], PER_TURN[1])[1])
