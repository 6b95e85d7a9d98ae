"""Divergences of two rows of probabilities, and their slopes by the logits."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.arguments import FloatArray
from ..._core.jit import inline_fma, inline_strict
from ..._core.specialize import instantiate
from ..._core.threads import as_carray, with_room
from ..._math.elementary import Number, exp_parts, expm1, log1p, log1p_exp
from ..._math.softmax_rows import added, softmax_and_logarithm

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["divergence_slopes", "divergence_values"]

LN2 = np.log(2.0)


@inline_fma
def _term(a: Number, b: Number, gap: Number) -> Number:
    """
    Return a log(a / b) - a + b, never negative, for the logarithm as `gap`; b where a is 0.

    Near 0 it is a (e^d - 1 - d) with d = -gap, of second order. There `exp_parts` has e^d as
    2^n (1 + r + t): t is of second order, and n is 0 or 1 in absolute value.
    """
    r, t, first, second = exp_parts(-gap, 0.0)
    power = first * second
    whole = power - 1.0
    near = a * (power * t + (whole * r + (whole + (gap + r))))
    far = a * gap - a + b
    return b if a == 0.0 else (near if abs(gap) < 1.0 else far)


@inline_fma
def _slope(a: Number, gap: Number, value: Number) -> Number:
    """Return the slope of the divergence of a from b by a logit of a, for T = 1."""
    return a * (gap - value) if a != 0.0 else 0.0


@inline_fma
def _to_middle(ratio: Number) -> Number:
    """Return the logarithm of a over the mean of a and b, for log(b / a)."""
    near = -log1p(0.5 * expm1(ratio if ratio < 1.0 else 1.0))
    far = LN2 - ratio - log1p_exp(-(ratio if ratio > 1.0 else 1.0))
    return near if ratio < 1.0 else far


@inline_strict
def _kl(
    log_p: FloatArray,
    p: FloatArray,
    log_q: FloatArray,
    q: FloatArray,
    factor: Number,
    terms: FloatArray,
) -> Number:
    """Return the divergence of q from p; unless `factor` is 0, write slopes over the logs."""
    for i in range(p.size):
        log_q[i] -= log_p[i]
        terms[i] = _term(q[i], p[i], log_q[i])
    value = added(terms)
    if factor != 0.0:
        for i in range(p.size):
            log_p[i] = factor * (p[i] - q[i])
            log_q[i] = factor * _slope(q[i], log_q[i], value)
    return value


@inline_strict
def _jsd(
    log_p: FloatArray,
    p: FloatArray,
    log_q: FloatArray,
    q: FloatArray,
    factor: Number,
    terms: FloatArray,
) -> Number:
    """Return half the divergences of p and q from their mean, and slopes as `_kl`."""
    for i in range(p.size):
        ratio = log_q[i] - log_p[i]
        log_p[i], log_q[i] = _to_middle(ratio), _to_middle(-ratio)
        terms[i] = _term(p[i], 0.5 * (p[i] + q[i]), log_p[i])
    of_p = added(terms)
    for i in range(p.size):
        terms[i] = _term(q[i], 0.5 * (p[i] + q[i]), log_q[i])
    of_q = added(terms)
    if factor != 0.0:
        for i in range(p.size):
            log_p[i] = 0.5 * factor * _slope(p[i], log_p[i], of_p)
            log_q[i] = 0.5 * factor * _slope(q[i], log_q[i], of_q)
    return 0.5 * (of_p + of_q)


def _divergence(*_rows: Any) -> Number:
    """Placeholder for the divergence that `instantiate` inserts."""


def _rows(
    start: int,
    stop: int,
    z: FloatArray,
    t: FloatArray,
    factor: float,
    value: FloatArray,
    dz: FloatArray,
    dt: FloatArray,
    room: FloatArray,
) -> None:
    """Write divergences of rows of logits, and T² times their slopes unless T is 0."""
    p, q, terms = room[0], room[1], room[2]
    for r in range(start, stop):
        k = r if factor != 0.0 else 0
        softmax_and_logarithm(z[r], dz[k], p)
        softmax_and_logarithm(t[r], dt[k], q)
        value[r] = _divergence(dz[k], p, dt[k], q, factor, terms)


@cache
def _kernel(formula: Callable[..., Number]) -> Callable[..., None]:
    return instantiate(_rows, _divergence=formula)


def _solved(
    kind: str, T: float, factor: float, logits: FloatArray, teacher: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the divergences of all rows and, unless `factor` is 0, slopes times `factor`."""
    if kind == "reverse":
        value, dq, dp = _solved("kl", T, factor, teacher, logits)
        return value, dp, dq
    scaled = (a if T == 1.0 else a / T for a in (logits, teacher))
    rows, classes = math.prod(logits.shape[:-1]), logits.shape[-1]
    z, t = (as_carray(a).reshape(rows, classes) for a in scaled)
    value = np.empty(rows)
    dz, dt = (np.empty((rows if factor else 1, classes)) for _ in range(2))
    kernel = with_room(_kernel(_jsd if kind == "jsd" else _kl), 3, classes)
    kernel(0, rows, z, t, factor, value, dz, dt)
    return value, dz, dt


# Extreme temperatures: logarithms of probabilities, times T, have the size of the logits, whereas
# T² and logits over T may overflow or vanish.

#: From here on the difference of two logarithms of probabilities loses too many digits.
HOT = 1024.0
#: Logits over T are at most SMALL, so that `_remainder` converges, or above LARGE, where they may
#: overflow.
SMALL, LARGE = 0.125, 1e300


def _quotient(f: Callable[..., Any], x: Any) -> Any:
    """Return f(x) / x, for an f that is x near 0."""
    return np.where(x == 0.0, 1.0, f(x) / np.where(x == 0.0, 1.0, x))


def _remainder(g: Any) -> Any:
    """Return (e^-g - 1 + g) / g², for g between -1 and 1."""
    out = np.zeros_like(g)
    for k in range(18, 1, -1):
        out = 1.0 / math.factorial(k) - g * out
    return out


def _scaled_softmax(z: FloatArray, T: float) -> tuple[Any, Any]:
    """Return the probabilities, and T times their logarithms."""
    z = z - z.max(-1, keepdims=True)
    e = np.exp(z / T)
    total = e.sum(-1, keepdims=True)
    return e / total, z - T * np.log(total)


def _hot(kind: str, T: float, z: FloatArray, t: FloatArray) -> tuple[Any, Any, Any]:
    """Return T² times the divergences of rows, and the slopes, for logits far below T."""
    (p, _), (q, _) = _scaled_softmax(z, T), _scaled_softmax(t, T)
    d = np.where(t == z, 0.0, t - z)  # classes that both exclude
    d = d - d.mean(-1, keepdims=True)
    mean = np.sum(p * d * _quotient(np.expm1, d / T), -1, keepdims=True)
    gap = d - mean * _quotient(np.log1p, mean / T)  # T log(q / p)

    def half(a: Any, gap: Any) -> tuple[Any, Any]:
        """Return T² a (log(a / b) - 1 + b / a), added up, and its slopes, for the gap of a to b."""
        value = np.sum(a * gap * gap * _remainder(gap / T), -1, keepdims=True)
        return value, a * (gap - value / T)

    if kind == "kl":
        value, dt = half(q, gap)
        return value, -p * gap * _quotient(np.expm1, gap / T), dt
    excess = (0.5 * g * _quotient(np.expm1, g / T) for g in (gap, -gap))  # T (b / m - 1)
    of_p, of_q = (-x * _quotient(np.log1p, x / T) for x in excess)  # T log(a / m)
    (first, dz), (second, dt) = half(p, of_p), half(q, of_q)
    return 0.5 * (first + second), 0.5 * dz, 0.5 * dt


def _share(a: Any, gap: Any) -> Any:
    """Return a times a logarithm, which may be infinite where a is 0."""
    return np.where(a == 0.0, 0.0, a * gap)


def _cold(kind: str, T: float, z: FloatArray, t: FloatArray) -> tuple[Any, Any, Any]:
    """Return the same for logits so far above T that their quotients overflow."""
    (p, of_p), (q, of_q) = _scaled_softmax(z, T), _scaled_softmax(t, T)
    gap = np.where(of_q == of_p, 0.0, of_q - of_p)
    if kind == "kl":
        value = np.sum(_share(q, gap), -1, keepdims=True)
        return T * value, T * (p - q), _share(q, gap - value)
    size = T * np.log1p(np.exp(-abs(gap) / T))
    of_p, of_q = (T * LN2 - np.maximum(g, 0.0) - size for g in (gap, -gap))
    first, second = (np.sum(_share(*x), -1, keepdims=True) for x in ((p, of_p), (q, of_q)))
    dz, dt = _share(p, of_p - first), _share(q, of_q - second)
    return 0.5 * T * (first + second), 0.5 * dz, 0.5 * dt


@np.errstate(all="ignore")  # the loss itself may overflow
def _put_extremes(
    kind: str, T: float, logits: FloatArray, teacher: FloatArray, outs: list[FloatArray]
) -> None:
    """Write the values, or both slopes, of the rows at an extreme temperature."""
    hidden = np.isneginf([logits, teacher])  # excluded classes
    sizes = abs(np.where(hidden, 0.0, [logits, teacher])).max((0, -1))
    finite = np.isfinite(sizes) & ~hidden.all(-1).any(0)
    alike = (hidden[0] == hidden[1]).all(-1)
    for rows, solve in (
        (finite & alike & (sizes <= SMALL * T) & (T >= HOT), _hot),
        (finite & (sizes > LARGE * T), _cold),
    ):
        if not rows.any():
            continue
        z, t = (a[rows].astype(np.float64) for a in (logits, teacher))
        if kind == "reverse":
            value, dt, dz = solve("kl", T, t, z)
        else:
            value, dz, dt = solve(kind, T, z, t)
        for out, found in zip(outs, (value[..., 0],) if len(outs) == 1 else (dz, dt), strict=True):
            out[rows] = found


def _are_extreme(T: float, logits: FloatArray) -> bool:
    return not 1.0 / LARGE <= T < HOT and bool(logits.size)


def divergence_values(kind: str, T: float, logits: FloatArray, teacher: FloatArray) -> FloatArray:
    """Return T² times the divergence of each row."""
    value, _, _ = _solved(kind, T, 0.0, logits, teacher)
    value = T * (T * value.reshape(logits.shape[:-1]))
    if _are_extreme(T, logits):
        _put_extremes(kind, T, logits, teacher, [value])
    return value


def divergence_slopes(
    kind: str, T: float, logits: FloatArray, teacher: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the slopes of `divergence_values` by both logits."""
    _, dz, dt = _solved(kind, T, T, logits, teacher)
    dz, dt = dz.reshape(logits.shape), dt.reshape(logits.shape)
    if _are_extreme(T, logits):
        _put_extremes(kind, T, logits, teacher, [dz, dt])
    return dz, dt
