"""Divergences of two rows of probabilities, and their slopes by the logits."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.arguments import FloatArray
from ..._core.jit import inline_fma, inline_strict
from ..._core.specialize import instantiate
from ..._core.threads import as_carray, with_workspace
from ..._math.elementary import Number, exp_parts, expm1, log1p, log1p_exp
from ..._math.softmax_rows import added, softmax_and_logarithm

if TYPE_CHECKING:
    from collections.abc import Callable


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
def _to_middle(ratio: Number, weight: Number, log_weight: Number, odds: Number) -> Number:
    """
    Return the logarithm of a over a mean of a and b, with a weight of b, for log(b / a).

    `odds` is the logarithm of the weight of a over the weight of b.
    """
    limit = max(1.0, odds)  # beyond it b has the larger share
    near = -log1p(weight * expm1(ratio if ratio < limit else limit))
    far = -log_weight - ratio - log1p_exp(odds - (ratio if ratio > limit else limit))
    return near if ratio < limit else far


@inline_fma
def _minus(a: Number, b: Number, gap: Number) -> Number:
    """Return a - b for log(b / a) as `gap`, to all digits where both are nearly the same."""
    return -a * expm1(gap) if abs(gap) < 0.125 else a - b


@inline_fma
def _apart(z: Number, t: Number, T: Number) -> Number:
    """Return (t - z) / T; 0 for a class that both exclude, too."""
    return 0.0 if t == z else (np.float64(t) - np.float64(z)) / T


@inline_strict
def _are_near(z: FloatArray, t: FloatArray, T: Number) -> bool:
    """Return whether no two logits are farther apart than T."""
    count = 0
    for i in range(z.size):
        count += abs(_apart(z[i], t[i], T)) <= 1.0
    return count == z.size


@inline_strict
def _subtract(
    z: FloatArray,
    t: FloatArray,
    T: Number,
    log_p: FloatArray,
    p: FloatArray,
    log_q: FloatArray,
    terms: FloatArray,
) -> None:
    """
    Write log(q / p) over log q, and 0 over log p, if all logits are near each other.

    Both logarithms are rounded, and so is each logit over T: their difference comes from the
    differences d of the logits, which are divided by T afterwards. It is d minus log sum p e^d,
    and the sum is 1 plus the mean of e^d - 1.
    """
    if not _are_near(z, t, T):
        return
    for i in range(p.size):
        terms[i] = p[i] * expm1(_apart(z[i], t[i], T))
    shift = log1p(added(terms))
    for i in range(p.size):
        log_q[i] = _apart(z[i], t[i], T) - shift
        log_p[i] = 0.0


@inline_strict
def _kl(
    log_p: FloatArray,
    p: FloatArray,
    log_q: FloatArray,
    q: FloatArray,
    factor: Number,
    beta: Number,
    terms: FloatArray,
) -> Number:
    """Return the divergence of q from p; unless `factor` is 0, write slopes over the logs."""
    for i in range(p.size):
        log_q[i] -= log_p[i]
        terms[i] = _term(q[i], p[i], log_q[i])
    value = added(terms)
    if factor != 0.0:
        for i in range(p.size):
            log_p[i] = factor * _minus(p[i], q[i], log_q[i])
            log_q[i] = factor * _slope(q[i], log_q[i], value)
    return value


@inline_strict
def _jsd(
    log_p: FloatArray,
    p: FloatArray,
    log_q: FloatArray,
    q: FloatArray,
    factor: Number,
    beta: Number,
    terms: FloatArray,
) -> Number:
    """Return the divergences of p and q from their mean, weighted, and slopes as `_kl`."""
    alpha = 1.0 - beta
    log_alpha, log_beta = np.log(alpha), np.log(beta)
    odds = log_alpha - log_beta
    for i in range(p.size):
        ratio = log_q[i] - log_p[i]
        log_p[i] = _to_middle(ratio, beta, log_beta, odds)
        log_q[i] = _to_middle(-ratio, alpha, log_alpha, -odds)
        terms[i] = _term(p[i], alpha * p[i] + beta * q[i], log_p[i])
    of_p = added(terms)
    for i in range(p.size):
        terms[i] = _term(q[i], alpha * p[i] + beta * q[i], log_q[i])
    of_q = added(terms)
    if factor != 0.0:
        for i in range(p.size):
            log_p[i] = alpha * factor * _slope(p[i], log_p[i], of_p)
            log_q[i] = beta * factor * _slope(q[i], log_q[i], of_q)
    return alpha * of_p + beta * of_q


def _divergence(*_rows: Any) -> Number:
    """Placeholder for the divergence that `instantiate` inserts."""


def _rows(
    start: int,
    stop: int,
    z: FloatArray,
    t: FloatArray,
    T: float,
    factor: float,
    beta: float,
    value: FloatArray,
    dz: FloatArray,
    dt: FloatArray,
    room: FloatArray,
) -> None:
    """Write divergences of rows of logits over T; their slopes times `factor`, unless it is 0."""
    p, q, terms, scaled = room[0], room[1], room[2], room[3]
    for r in range(start, stop):
        k = r if factor != 0.0 else 0
        _divide(z[r], T, scaled)
        softmax_and_logarithm(scaled, dz[k], p)
        _divide(t[r], T, scaled)
        softmax_and_logarithm(scaled, dt[k], q)
        _subtract(z[r], t[r], T, dz[k], p, dt[k], terms)
        value[r] = _divergence(dz[k], p, dt[k], q, factor, beta, terms)


@inline_strict
def _divide(x: FloatArray, T: Number, to: FloatArray) -> None:
    """Write x / T."""
    for i in range(x.size):
        to[i] = np.float64(x[i]) / T


@cache
def _kernel(formula: Callable[..., Number]) -> Callable[..., None]:
    return instantiate(_rows, _divergence=formula)


def _solved(
    kind: str, beta: float, T: float, factor: float, logits: FloatArray, teacher: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the divergences of all rows and, unless `factor` is 0, slopes times `factor`."""
    if kind == "reverse":
        value, dq, dp = _solved("kl", beta, T, factor, teacher, logits)
        return value, dp, dq
    rows, classes = math.prod(logits.shape[:-1]), logits.shape[-1]
    z, t = (as_carray(a).reshape(rows, classes) for a in (logits, teacher))
    value = np.empty(rows)
    dz, dt = (np.empty((rows if factor else 1, classes)) for _ in range(2))
    kernel = _kernel(_jsd if kind == "jsd" else _kl)
    with_workspace(kernel, 4, classes)(0, rows, z, t, np.float64(T), factor, beta, value, dz, dt)
    return value, dz, dt


def divergence_values(
    kind: str, beta: float, T: float, logits: FloatArray, teacher: FloatArray
) -> FloatArray:
    """Return T² times the divergence of each row."""
    value, _, _ = _solved(kind, beta, T, 0.0, logits, teacher)
    return T * T * value.reshape(logits.shape[:-1])


def divergence_slopes(
    kind: str, beta: float, T: float, logits: FloatArray, teacher: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the slopes of `divergence_values` by both logits."""
    _, dz, dt = _solved(kind, beta, T, T, logits, teacher)
    return dz.reshape(logits.shape), dt.reshape(logits.shape)
