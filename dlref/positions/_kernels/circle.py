r"""
Cosine and sine of position times frequency, at any position.

The angle p f of a late position is a large number: a float64 product of :math:`10^6` has a rounding
error of :math:`10^{-10}`, and so has its remainder after whole turns.  The frequency is therefore
kept as turns per position, :math:`f / 2 \pi`, in two float64 whose sum has 106 digits, and
`dlref._math.circle` loses none of them.

Its series are rarely needed for a float32 table.  A whole position is a multiple of `STEPS` plus a
step, and the addition theorem gives cosine and sine of the sum of both angles. The multiples need
the series once in `STEPS` rows, and the steps once in a program:

.. math:: \cos(a + b) = \cos a \cos b - \sin a \sin b, \qquad
   \sin(a + b) = \sin a \cos b + \cos a \sin b .

In float64 the sum is wrong by 4e-16, which is too much only for a result below `NEAR`: a row
that has one is computed from the series.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..._core.arguments import FloatArray
from ..._core.jit import inline_fma, kernel
from ..._core.threads import over_rows, with_workspace
from ..._math.circle import PER_TURN, circle
from ..._math.elementary import Number, single, two_prod_error

COST = 4  #: nanoseconds a pair
STEPS = 32  #: rows that one use of the series serves in float32
NEAR = 2.0**-16  #: results below it have too few digits if they are differences

PI = Decimal("3.1415926535897932384626433832795028841971693993751")


@kernel
def _in_turns(f: FloatArray, high: FloatArray, low: FloatArray) -> None:
    for i in range(f.size):
        high[i] = f[i] * PER_TURN[0]
        low[i] = two_prod_error(f[i], PER_TURN[0]) + f[i] * PER_TURN[1]


def in_turns(frequencies: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return radians per position as turns per position, in high-order and low-order part."""
    f = np.ascontiguousarray(frequencies, np.float64)
    high, low = np.empty_like(f), np.empty_like(f)
    _in_turns(f, high, low)
    return high, low


@kernel
def _fill(
    start: int,
    stop: int,
    p: FloatArray,
    high: FloatArray,
    low: FloatArray,
    factor: float,
    width: int,
    interleaved: bool,
    cosines: FloatArray,
    sines: FloatArray,
) -> None:
    """Fill in cosines and sines for each position."""
    for r in range(start, stop):
        q, cos, sin = p[r], cosines[r * width :], sines[r * width :]
        if interleaved:  # known strides, for LLVM
            for i in range(high.size):
                x, y = circle(q, high[i], low[i])
                sin[2 * i], sin[2 * i + 1] = factor * y, factor * x
        else:
            for i in range(high.size):
                x, y = circle(q, high[i], low[i])
                cos[i], sin[i] = factor * x, factor * y


_fill_by_series = single(_fill)


@inline_fma
def _cosine_of_sum(c: Number, s: Number, d: Number, t: Number) -> Number:
    return c * d - s * t


@inline_fma
def _sine_of_sum(c: Number, s: Number, d: Number, t: Number) -> Number:
    return s * d + c * t


@kernel
def _fill_single(
    start: int,
    stop: int,
    steps: FloatArray,
    p: FloatArray,
    high: FloatArray,
    low: FloatArray,
    factor: float,
    width: int,
    interleaved: bool,
    cosines: FloatArray,
    sines: FloatArray,
    room: FloatArray,
) -> None:
    """`_fill` by the addition theorem, from the multiple of `STEPS` below a position."""
    anchor, c, s = np.nan, room[0], room[1]
    d, t = steps[:STEPS], steps[STEPS:]
    for r in range(start, stop):
        cos, sin = cosines[r * width :], sines[r * width :]
        first = STEPS * np.floor(p[r] / STEPS)
        step, near = p[r] - first, 1
        if step == np.floor(step):  # not NaN, nor between two positions
            if first != anchor:
                anchor = first
                for i in range(high.size):
                    c[i], s[i] = circle(anchor, high[i], low[i])
            k, near = int(step), 0
            if interleaved:
                for i in range(high.size):
                    x = _cosine_of_sum(c[i], s[i], d[k, i], t[k, i])
                    y = _sine_of_sum(c[i], s[i], d[k, i], t[k, i])
                    near += int(abs(x) < NEAR) + int(abs(y) < NEAR)
                    sin[2 * i], sin[2 * i + 1] = factor * y, factor * x
            else:  # two loops, as LLVM vectorizes none over six arrays
                for i in range(high.size):
                    x = _cosine_of_sum(c[i], s[i], d[k, i], t[k, i])
                    near += int(abs(x) < NEAR)
                    cos[i] = factor * x
                for i in range(high.size):
                    y = _sine_of_sum(c[i], s[i], d[k, i], t[k, i])
                    near += int(abs(y) < NEAR)
                    sin[i] = factor * y
        if near:
            arguments = (p, high, low, factor, width, interleaved, cosines, sines)
            _fill_by_series(r, r + 1, *arguments)


@lru_cache(maxsize=32)
def _steps(high: bytes, low: bytes) -> FloatArray:
    """Return cosines, then sines of the positions 0 to STEPS - 1, a row for each."""
    turns = np.frombuffer(high).copy(), np.frombuffer(low).copy()  # not read-only
    size = turns[0].size
    steps = np.empty((2, STEPS * size))
    _fill(0, STEPS, np.arange(float(STEPS)), *turns, 1.0, size, False, *steps)
    return steps.reshape(2 * STEPS, size)


def fill(
    positions: FloatArray,
    turns: tuple[FloatArray, FloatArray],
    factor: float,
    cos: FloatArray,
    sin: FloatArray,
    *,
    width: int,
    interleaved: bool = False,
) -> None:
    """
    Write cosine and sine of every position times every frequency, times the factor.

    Both arrays are flat, and a row begins `width` numbers after the one before.  If `interleaved`,
    sines and cosines alternate, all in the array for sines.
    """
    p, pairs = np.ascontiguousarray(positions, np.float64).ravel(), turns[0].size
    arguments = (p, *turns, factor, width, interleaved, cos, sin)
    if not p.size or not pairs:
        return
    if cos.dtype == np.float32:
        steps = _steps(*(a.tobytes() for a in turns))
        over_rows(with_workspace(_fill_single, 2, pairs), p.size, COST * pairs, steps, *arguments)
    else:
        over_rows(_fill, p.size, COST * pairs, *arguments)


def circles(
    positions: FloatArray,
    frequencies: FloatArray,
    factor: float = 1.0,
    dtype: npt.DTypeLike = np.float64,
) -> tuple[FloatArray, FloatArray]:
    """Return cosine and sine of every position times every frequency, times the factor."""
    return circles_of_turns(positions, *in_turns(frequencies), factor, dtype)


def circles_of_turns(
    positions: FloatArray,
    high: FloatArray,
    low: FloatArray,
    factor: float = 1.0,
    dtype: npt.DTypeLike = np.float64,
) -> tuple[FloatArray, FloatArray]:
    """Return the same for frequencies in turns per position."""
    cos, sin = (np.empty((*positions.shape, high.size), dtype) for _ in range(2))
    fill(positions, (high, low), factor, cos.reshape(-1), sin.reshape(-1), width=high.size)
    return cos, sin


def powers(base: float, numerator: int, denominator: int, count: int) -> list[Decimal]:
    """Return base ** (-i * numerator / denominator) for i < count, to 45 digits."""
    with localcontext(prec=50):
        ratio = (Decimal(base).ln() * -numerator / denominator).exp()
        out = [Decimal(1)]
        for _ in range(1, count):
            out.append(out[-1] * ratio)
        return out[:count]


@lru_cache(maxsize=64)  # a millisecond of decimal arithmetic, the same for every table
def powers_in_turns(
    base: float, numerator: int, denominator: int, count: int
) -> tuple[FloatArray, FloatArray]:
    """Return the powers, divided by 2 pi, in high-order and low-order part."""
    with localcontext(prec=50):
        turns = [w / (2 * PI) for w in powers(base, numerator, denominator, count)]
        high = [float(t) for t in turns]
        low = [float(t - Decimal(h)) for t, h in zip(turns, high, strict=True)]
    return np.array(high, np.float64), np.array(low, np.float64)
