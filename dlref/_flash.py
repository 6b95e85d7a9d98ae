"""
Scaled dot-product attention in tiles: one pass over the keys, never the whole matrix of scores.

A tile is a product of some queries with some keys, small enough for the cache.  The forward pass
keeps, for each query, the largest score so far, the sum of exponentials relative to it, and the
weighted sum of values; a larger score makes all earlier ones fade by the same factor.  The
backward pass computes the tiles anew from the log-sum-exp that the forward pass left.  The forward
mode of differentiation takes whole rows of scores, a few at a time.

float32 is computed in float32, sums over the rows of a tile included; the sums of tiles are
float64.

A weight that is exactly zero takes nothing from its key and gives nothing to it, not even a NaN:
zero times NaN would be NaN, so where an operand is not finite, loops replace the products.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._elementary import Number, exp, largest, largest_single, log
from ._jit import exchanged, formula, kernel, summation
from ._parallel import over_rows
from ._product import copy, dot, multiply, panels
from ._validate import FloatArray

__all__ = [
    "FAR",
    "Given",
    "attend",
    "finite",
    "matrix",
    "pull",
    "pull_scores",
    "push",
    "push_scores",
]

IntArray = npt.NDArray[np.int64]

QUERIES, KEYS = 256, 512  #: rows and columns of a tile
AT_ONCE, LEAST = 2**18, 8  #: scores in whole rows that the forward mode takes at once, and rows
PIECES = 8  #: parts of the backward pass there shall be, at least
FAR = 1 << 40  #: a window without bound
LOG2E = np.float32(math.log2(math.e))
LN2 = np.float32(0.693359375), np.float32(-2.12194440e-4)  #: few digits, and the rest
SHIFT = np.float32(1.5 * 2**23 + 127)  #: adding it leaves n + 127 in the low bits
#: (e^r - 1 - r) / r^2 in r, to 1.1e-8
EXPM1 = tuple(
    np.float32(c)
    for c in (0.5, 0.16666573381900845, 0.04166655011, 0.0083637738744, 0.00139269266140)
)


class Given(NamedTuple):
    """What decides about a tile of scores besides queries and keys; see `arranged`."""

    mask: npt.NDArray[np.bool_]  # flat; empty without a mask
    mask_at: IntArray  # where that of each unit starts
    mask_row: int  # steps from one query to the next, and from one key to the next (0 or 1)
    mask_column: int
    bias: FloatArray  # flat; empty without a bias
    bias_at: IntArray
    bias_row: int
    bias_column: int
    offset: int
    left: int
    right: int
    group: int  # units that share keys and values
    softcap: float  # 0 without one
    careful: bool  # whether something is not finite
    queries: int  # of a tile
    keys: int


@formula
def rescaled(x: Number) -> Number:
    """e^x for x <= 0."""
    return exp(x)


@formula
def rescaled_single(x: Number) -> Number:
    """e^x for x <= 0 in float32, to 1 ULP; 0 where that is below the smallest normal number."""
    inside = x if x > np.float32(-87.0) else np.float32(-87.0)
    inside = x if x != x else inside  # noqa: PLR0124  # a NaN stays
    z = inside * LOG2E + SHIFT
    k = z - SHIFT
    r = (inside - k * LN2[0]) - k * LN2[1]
    c = EXPM1
    tail = c[0] + r * (c[1] + r * (c[2] + r * (c[3] + r * c[4])))
    power = np.int32(np.int32(np.float32(z).view(np.int32)) << 23)
    e = (np.float32(1.0) + (r + r * r * tail)) * np.int32(power).view(np.float32)
    return np.float32(0.0) if x < np.float32(-87.0) else e


@summation
def _sum(x: FloatArray) -> Number:
    total = x.dtype.type(0.0)
    for j in range(x.size):
        total += x[j]
    return total


@summation
def _dot_seen(p: FloatArray, x: FloatArray) -> Number:
    total = p.dtype.type(0.0)
    for j in range(p.size):
        total += p[j] if p[j] == 0.0 else p[j] * x[j]
    return total


@kernel
def _fill(x: FloatArray, value: float) -> None:
    """Write a value everywhere; numba compiles this in a fraction of the time of ``x[:] =``."""
    for j in range(x.size):
        x[j] = value


@kernel
def _product_with_gaps(a: FloatArray, b: FloatArray, out: FloatArray) -> None:
    """``a @ b`` in which a zero of `a` takes nothing from `b`, not even a NaN."""
    for i in range(out.shape[0]):
        _fill(out[i], 0.0)
        for j in range(b.shape[0]):
            factor = a[i, j]
            if factor != 0.0:
                for e in range(out.shape[1]):
                    out[i, e] += factor * b[j, e]


@kernel
def _product(a: FloatArray, b: FloatArray, out: FloatArray, careful: bool) -> None:
    if careful:
        _product_with_gaps(a, b, out)
    else:
        dot(a, b, out)


@kernel
def _add(x: FloatArray, out: FloatArray) -> None:
    for j in range(x.size):
        out[j] += x[j]


@kernel
def _cap(scores: FloatArray, cap: float) -> None:
    for j in range(scores.size):
        scores[j] = cap * np.tanh(np.float64(scores[j]) / cap)  # rare, so not vectorized


@kernel
def _add_to_scores(scores: FloatArray, unit: int, i0: int, j0: int, given: Given) -> None:
    """Add the bias to a tile; one of -inf hides, even what is NaN."""
    rows, columns = scores.shape
    hidden = scores.dtype.type(-np.inf)
    for i in range(rows):
        row = scores[i]
        at = given.bias_at[unit] + (i0 + i) * given.bias_row
        if given.bias_column:
            part = given.bias[at + j0 : at + j0 + columns]
            for j in range(columns):
                row[j] = hidden if part[j] == hidden else row[j] + part[j]
        else:
            b = given.bias[at]
            for j in range(columns):
                row[j] = hidden if b == hidden else row[j] + b


@kernel
def _hide(scores: FloatArray, unit: int, i0: int, j0: int, given: Given) -> None:
    """Write -inf where the mask is false."""
    rows, columns = scores.shape
    hidden = scores.dtype.type(-np.inf)
    for i in range(rows):
        row = scores[i]
        at = given.mask_at[unit] + (i0 + i) * given.mask_row
        if given.mask_column:
            seen = given.mask[at + j0 : at + j0 + columns]
            for j in range(columns):
                row[j] = row[j] if seen[j] else hidden
        elif not given.mask[at]:
            _fill(row, -np.inf)


@kernel
def _shape(scores: FloatArray, unit: int, i0: int, j0: int, given: Given) -> None:
    """Cap a tile of scores, add the bias, and write -inf where nothing is to be seen."""
    rows, columns = scores.shape
    if given.softcap > 0.0:
        _cap(scores.reshape(rows * columns), given.softcap)
    if given.bias.size:
        _add_to_scores(scores, unit, i0, j0, given)
    if given.mask.size:
        _hide(scores, unit, i0, j0, given)
    first, last = i0 + given.offset, i0 + rows - 1 + given.offset  # positions of the queries
    if j0 < last - given.left or j0 + columns - 1 > first + given.right:
        for i in range(rows):
            position = first + i
            before = min(max(position - given.left - j0, 0), columns)
            beyond = min(max(position + given.right + 1 - j0, 0), columns)
            _fill(scores[i][:before], -np.inf)
            _fill(scores[i][beyond:], -np.inf)


@kernel
def _recompute(scores: FloatArray, lse: FloatArray) -> None:
    """Turn a tile of scores into weights e^(s - lse)."""
    for i in range(scores.shape[0]):
        row, shift = scores[i], lse[i]
        for j in range(row.size):
            e = rescaled(row[j] - shift)
            row[j] = 0.0 if row[j] == -np.inf else e


@formula
def _bounds(i0: int, i1: int, length: int, before: int, after: int) -> tuple[int, int]:
    """Return the range of positions from i0 - before to i1 - 1 + after within a sequence."""
    low = min(max(i0 - before, 0), length)
    high = min(max(i1 + after, low), length)
    return low, high


@formula
def _from_both_ends(k: int, count: int) -> int:
    """Return 0, count - 1, 1, count - 2, ...: under a causal mask, long and short in turn."""
    return k // 2 if k % 2 == 0 else count - 1 - k // 2


@kernel
def _online(scores: FloatArray, top: FloatArray, total: FloatArray, fade: FloatArray) -> None:
    """Turn a tile of scores into weights relative to the largest score so far."""
    for i in range(scores.shape[0]):
        row = scores[i]
        new = largest(row)
        new = top[i] if top[i] > new else new
        shift = new if new != -np.inf else top.dtype.type(0.0)
        for j in range(row.size):
            e = rescaled(row[j] - shift)
            row[j] = 0.0 if row[j] == -np.inf else e
        fade[i] = 0.0 if top[i] == -np.inf else rescaled(top[i] - shift)
        total[i] = total[i] * np.float64(fade[i]) + np.float64(_sum(row))
        top[i] = new


@kernel
def _fold(part: FloatArray, fade: FloatArray, sums: FloatArray, first: bool) -> None:
    """Let the sums fade, and add those of a new tile."""
    for i in range(part.shape[0]):
        row, add, factor = sums[i], part[i], fade[i]
        if first:
            for e in range(row.size):
                row[e] = add[e]
        else:
            for e in range(row.size):
                row[e] = row[e] * factor + add[e]


@kernel
def _attend(
    start: int,
    stop: int,
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    sink: FloatArray,
    given: Given,
    out: FloatArray,
    lse: FloatArray,
) -> None:
    T, S, width = q.shape[1], k.shape[1], v.shape[2]
    tiles = -(-T // given.queries)
    room = np.empty(given.queries * given.keys, q.dtype)
    room_part = np.empty(given.queries * width, q.dtype)
    top, fade = np.empty(given.queries, q.dtype), np.empty(given.queries, q.dtype)
    total = np.empty(given.queries)
    for task in range(start, stop):
        unit = task // tiles
        i0 = _from_both_ends(task % tiles, tiles) * given.queries
        i1 = min(i0 + given.queries, T)
        rows = i1 - i0
        low, high = _bounds(i0 + given.offset, i1 + given.offset, S, given.left, given.right)
        _fill(top, sink[unit])
        _fill(total, 0.0 if sink[unit] == -np.inf else 1.0)
        sums = out[unit, i0:i1]
        part = room_part[: rows * width].reshape((rows, width))
        if low == high:
            _fill(sums.reshape(rows * width), 0.0)
        for j0 in range(low, high, given.keys):
            j1 = min(j0 + given.keys, high)
            scores = room[: rows * (j1 - j0)].reshape((rows, j1 - j0))
            dot(q[unit, i0:i1], k[unit // given.group, j0:j1].T, scores)
            _shape(scores, unit, i0, j0, given)
            _online(scores, top, total, fade)
            _product(scores, v[unit // given.group, j0:j1], part, given.careful)
            _fold(part, fade, sums, j0 == low)
        for i in range(rows):
            row = sums[i]
            if total[i] == 0.0:  # nothing to attend to
                _fill(row, 0.0)
                lse[unit, i0 + i] = -np.inf
            else:
                factor = 1.0 / total[i]
                for e in range(width):
                    row[e] = row[e] * factor
                lse[unit, i0 + i] = np.float64(top[i]) + log(total[i])


@kernel
def _matrix(
    start: int,
    stop: int,
    q: FloatArray,
    k: FloatArray,
    lse: FloatArray,
    given: Given,
    out: FloatArray,
) -> None:
    """Write out the scores, or the weights if `lse` is not empty."""
    T = q.shape[1]
    tiles = -(-T // given.queries)
    for task in range(start, stop):
        unit = task // tiles
        i0 = (task % tiles) * given.queries
        i1 = min(i0 + given.queries, T)
        scores = out[unit, i0:i1]
        dot(q[unit, i0:i1], k[unit // given.group].T, scores)
        _shape(scores, unit, i0, 0, given)
        if lse.size:
            _recompute(scores, lse[unit, i0:i1])


@kernel
def _slope(scores: FloatArray, moved: FloatArray, cap: float) -> None:
    """Multiply by the derivative of the cap, 1 - tanh^2, at raw scores."""
    for j in range(scores.size):
        t = np.tanh(np.float64(scores[j]) / cap)
        moved[j] *= (1.0 - t) * (1.0 + t)


@kernel
def _add_bias(
    moved: FloatArray, unit: int, i0: int, j0: int, given: Given, out: FloatArray
) -> None:
    """Add a tile of score gradients to that of the bias."""
    rows, columns = moved.shape
    for i in range(rows):
        at = given.bias_at[unit] + (i0 + i) * given.bias_row
        if given.bias_column:
            _add(moved[i], out[at + j0 : at + j0 + columns])
        else:
            out[at] += _sum(moved[i])


@kernel
def _score_gradient(weights: FloatArray, moved: FloatArray, shift: FloatArray) -> None:
    """Turn dP in place into dS = P * (dP - shift); where P is zero, dS is."""
    for i in range(weights.shape[0]):
        p, d, c = weights[i], moved[i], shift[i]
        for j in range(p.size):
            d[j] = p[j] if p[j] == 0.0 else p[j] * (d[j] - c)


@kernel
def _pull(
    start: int,
    stop: int,
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    u: FloatArray,
    lse: FloatArray,
    shift: FloatArray,
    given: Given,
    jobs: int,
    parts: int,
    dq: FloatArray,
    dk: FloatArray,
    dv: FloatArray,
    dbias: FloatArray,
) -> None:
    T, S, E, V = q.shape[1], k.shape[1], q.shape[2], v.shape[2]
    room_s = np.empty(given.queries * given.keys, q.dtype)
    room_d = np.empty(given.queries * given.keys, q.dtype)
    room_c = np.empty(given.queries * given.keys if given.softcap > 0.0 else 0, q.dtype)
    room_q = np.empty(given.queries * E, q.dtype)
    room_k = np.empty(given.keys * E, q.dtype)
    room_v = np.empty(given.keys * V, q.dtype)
    each = k.shape[0] // max(jobs, 1)
    for task in range(start, stop):
        job, piece = task // parts, _from_both_ends(task % parts, parts)
        low, high = S * piece // parts, S * (piece + 1) // parts
        for unit in range(job * each * given.group, (job + 1) * each * given.group):
            shared = unit // given.group
            for j0 in range(low, high, given.keys):
                j1 = min(j0 + given.keys, high)
                columns = j1 - j0
                kj, vj = k[shared, j0:j1], v[shared, j0:j1]
                dkj, dvj = dk[shared, j0:j1], dv[shared, j0:j1]
                part_k = room_k[: columns * E].reshape((columns, E))
                part_v = room_v[: columns * V].reshape((columns, V))
                i_low, i_high = _bounds(
                    j0 - given.offset, j1 - given.offset, T, given.right, given.left
                )
                for i0 in range(i_low, i_high, given.queries):
                    i1 = min(i0 + given.queries, i_high)
                    size = (i1 - i0) * columns
                    scores = room_s[:size].reshape((i1 - i0, columns))
                    moved = room_d[:size].reshape((i1 - i0, columns))
                    part_q = room_q[: (i1 - i0) * E].reshape((i1 - i0, E))
                    qi, ui = q[unit, i0:i1], u[unit, i0:i1]
                    dot(qi, kj.T, scores)
                    if given.softcap > 0.0:
                        copy(room_s, room_c[:size])
                    _shape(scores, unit, i0, j0, given)
                    _recompute(scores, lse[unit, i0:i1])
                    dot(ui, vj.T, moved)
                    _product(scores.T, ui, part_v, given.careful)
                    _add(part_v.reshape(columns * V), dvj.reshape(columns * V))
                    _score_gradient(scores, moved, shift[unit, i0:i1])
                    if dbias.size:
                        _add_bias(moved, unit, i0, j0, given, dbias)
                    if given.softcap > 0.0:
                        _slope(room_c[:size], room_d[:size], given.softcap)
                    _product(moved.T, qi, part_k, given.careful)
                    _add(part_k.reshape(columns * E), dkj.reshape(columns * E))
                    _product(moved, kj, part_q, given.careful)
                    dqi = dq[piece, unit, i0:i1]
                    _add(part_q.reshape((i1 - i0) * E), dqi.reshape((i1 - i0) * E))


@kernel
def _tangent_weights(
    weights: FloatArray, moved: FloatArray, sink: Number, dsink: Number, mean: FloatArray
) -> None:
    """Turn whole rows of scores S and of dS in place into P and P * (dS - mean of dS)."""
    for i in range(weights.shape[0]):
        p, d = weights[i], moved[i]
        top = largest(p)
        top = sink if sink > top else top
        shift = top if top != -np.inf else p.dtype.type(0.0)
        for j in range(p.size):
            e = rescaled(p[j] - shift)
            p[j] = 0.0 if p[j] == -np.inf else e
        share = np.float64(0.0 if sink == -np.inf else rescaled(sink - shift))
        total = share + np.float64(_sum(p))
        slope = np.float64(_dot_seen(p, d)) + (share * dsink if share > 0.0 else 0.0)
        factor = p.dtype.type(0.0 if total == 0.0 else 1.0 / total)
        mean[i] = slope * factor
        offset = mean[i]
        for j in range(p.size):
            share_of_key = p[j] * factor
            p[j] = share_of_key
            d[j] = share_of_key if share_of_key == 0.0 else share_of_key * (d[j] - offset)


@kernel
def _add_tangent(
    moved: FloatArray, unit: int, i0: int, j0: int, given: Given, tangent: FloatArray
) -> None:
    """Add the tangent of the bias to a tile."""
    rows, columns = moved.shape
    for i in range(rows):
        at = given.bias_at[unit] + (i0 + i) * given.bias_row
        if given.bias_column:
            _add(tangent[at + j0 : at + j0 + columns], moved[i])
        else:
            moved[i] += tangent[at]


@kernel
def _add_product(
    a: FloatArray, w: FloatArray, b: FloatArray, out: FloatArray, part: FloatArray, careful: bool
) -> None:
    """Add a b to out; w has b in panels."""
    if careful:
        _product_with_gaps(a, b, part)
        for i in range(out.shape[0]):
            _add(part[i], out[i])
    else:
        multiply(a, w, out)


@kernel
def _push(
    start: int,
    stop: int,
    q: FloatArray,
    v: FloatArray,
    dq: FloatArray,
    dv: FloatArray,
    panels_k: FloatArray,
    panels_dk: FloatArray,
    panels_v: FloatArray,
    panels_dv: FloatArray,
    sink: FloatArray,
    dsink: FloatArray,
    dbias: FloatArray,
    given: Given,
    out: FloatArray,
    lse: FloatArray,
) -> None:
    """Compute whole rows of weights and of their tangents, so that the mean of these is known."""
    T, (S, V), width = q.shape[1], v.shape[1:], panels_k.shape[3]
    tiles = -(-T // given.queries)
    most = given.queries * S
    room_s, room_d = np.empty(most, q.dtype), np.empty(most, q.dtype)
    room_c = np.empty(most if given.softcap > 0.0 else 0, q.dtype)
    room_v = np.empty((given.queries, V), q.dtype)
    for task in range(start, stop):
        unit = task // tiles
        i0 = _from_both_ends(task % tiles, tiles) * given.queries
        i1 = min(i0 + given.queries, T)
        shared = unit // given.group
        low, high = _bounds(i0 + given.offset, i1 + given.offset, S, given.left, given.right)
        first, last = low // width, -(-high // width)
        low = first * width  # what is in between is hidden
        rows, columns = i1 - i0, high - low
        size = rows * columns
        scores = room_s[:size].reshape((rows, columns))
        moved = room_d[:size].reshape((rows, columns))
        _fill(room_s[:size], 0.0)
        _fill(room_d[:size], 0.0)
        multiply(q[unit, i0:i1], panels_k[shared, first:last], scores)
        multiply(dq[unit, i0:i1], panels_k[shared, first:last], moved)
        multiply(q[unit, i0:i1], panels_dk[shared, first:last], moved)
        if given.softcap > 0.0:
            copy(room_s, room_c[:size])
            _slope(room_c[:size], room_d[:size], given.softcap)
        if dbias.size:
            _add_tangent(moved, unit, i0, low, given, dbias)
        _shape(scores, unit, i0, low, given)
        _tangent_weights(scores, moved, sink[unit], dsink[unit], lse[unit, i0:i1])
        to = out[unit, i0:i1]
        _fill(to.reshape(rows * V), 0.0)
        part = room_v[:rows]
        for which in range(2):  # p dv + p (ds - mean) v; one call: each is compiled anew
            a, w, b = scores, panels_dv, dv
            if which == 1:
                a, w, b = moved, panels_v, v
            _add_product(a, w[shared, :, low:high], b[shared, low:high], to, part, given.careful)


#: What takes the place of what in float32.
SINGLE = {rescaled: rescaled_single, largest: largest_single}


@functools.cache
def _of(dtype: Any, loop: Any) -> Any:
    return exchanged(loop, SINGLE, "single") if dtype == np.float32 else loop


def finite(*arrays: FloatArray) -> bool:
    """Return whether there is neither infinity nor NaN."""
    with np.errstate(all="ignore"):
        return all(bool(np.isfinite(a.sum())) or bool(np.isfinite(a).all()) for a in arrays)


def _careful(given: Given, *arrays: FloatArray) -> Given:
    """Ask for loops in place of products if something is not finite."""
    return given if finite(*arrays) else given._replace(careful=True)


def _cost(inner: int, given: Given, dtype: Any) -> float:
    """Return nanoseconds for one score, with products of `inner` multiplications in all."""
    return (inner / 40 + 0.5) * (1 if dtype == np.float32 else 2) + (
        6.0 if given.softcap > 0 else 0.0
    )


def _seen(T: int, S: int, given: Given) -> float:
    """Return how many keys a query sees on average, roughly."""
    sides = min(given.left, S) + min(given.right, S)
    return S / 2 if given.right < S <= given.left else float(min(S, sides + 1))


def attend(
    q: FloatArray, k: FloatArray, v: FloatArray, sink: FloatArray, given: Given
) -> tuple[FloatArray, FloatArray]:
    """Return the output (units, T, V) and the log-sum-exp of the scores (units, T)."""
    (units, T, E), V, S = q.shape, v.shape[2], k.shape[1]
    out, lse = np.empty((units, T, V), q.dtype), np.empty((units, T), q.dtype)
    tiles = -(-T // given.queries)
    cost = T / max(tiles, 1) * _seen(T, S, given) * _cost(E + V, given, q.dtype)
    over_rows(_of(q.dtype, _attend), units * tiles, cost, q, k, v, sink, given, out, lse)
    if not given.careful and not finite(out) and not finite(v):  # perhaps from behind a mask
        return attend(q, k, v, sink, given._replace(careful=True))
    return out, lse


def matrix(q: FloatArray, k: FloatArray, lse: FloatArray | None, given: Given) -> FloatArray:
    """Return the scores (units, T, S), or the weights that belong to a log-sum-exp."""
    (units, T, E), S = q.shape, k.shape[1]
    out = np.empty((units, T, S), q.dtype)
    tiles = -(-T // given.queries)
    cost = T / max(tiles, 1) * S * _cost(E, given, q.dtype)
    lse = np.empty((0, 0), q.dtype) if lse is None else lse
    if out.size:
        over_rows(_of(q.dtype, _matrix), units * tiles, cost, q, k, lse, given, out)
    return out


def _slopes(q: FloatArray, k: FloatArray, given: Given, moved: FloatArray) -> None:
    """Multiply gradients or tangents of scores by the derivative of the cap, in place."""
    if given.softcap > 0.0 and moved.size:
        nothing = np.empty(0, q.dtype)
        bare = given._replace(softcap=0.0, mask=nothing.astype(bool), bias=nothing)
        raw = matrix(q, k, None, bare._replace(left=FAR, right=FAR))
        _slope(raw.ravel(), moved.reshape(-1), given.softcap)


def pull_scores(
    moved: FloatArray, q: FloatArray, k: FloatArray, given: Given
) -> tuple[FloatArray, FloatArray]:
    """Return the gradients of the scaled q and of k for those of the scores, which are used up."""
    dq, dk = np.zeros_like(q), np.zeros_like(k)
    given = _careful(given, moved, q, k)
    _slopes(q, k, given, moved)
    for unit in range(len(q) if moved.size else 0):
        shared, part = unit // given.group, np.empty_like(k[0])
        _product(moved[unit], k[shared], dq[unit], given.careful)
        _product(moved[unit].T, q[unit], part, given.careful)
        dk[shared] += part
    return dq, dk


def push_scores(
    dq: FloatArray, dk: FloatArray, q: FloatArray, k: FloatArray, given: Given
) -> FloatArray:
    """Return the tangents of the scores before the bias, for those of the scaled q and of k."""
    moved = np.zeros((len(q), q.shape[1], k.shape[1]), q.dtype)
    part = np.empty_like(moved[0]) if moved.size else moved
    for unit in range(len(q) if moved.size else 0):
        shared = unit // given.group
        dot(dq[unit], k[shared].T, moved[unit])
        dot(q[unit], dk[shared].T, part)
        moved[unit] += part
    _slopes(q, k, given, moved)
    return moved


def pull(
    u: FloatArray,
    dlse: FloatArray | None,
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    sink: FloatArray,
    given: Given,
    known: tuple[FloatArray, FloatArray] | None = None,
    *,
    with_bias: bool,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """
    Return the gradients of the scaled q, of k, v, of the flat bias and of the sinks.

    `known` is what `attend` returned for the same operands, if that has been kept.
    """
    given = _careful(given, u, q, k, v)
    out, lse = attend(q, k, v, sink, given) if known is None else known
    (units, T, E), (pairs, S, V) = q.shape, v.shape
    with np.errstate(all="ignore"):
        # a sum over the row, in float64: rowsum(dO * O), less the cotangent of the log-sum-exp
        shift = np.einsum("uie,uie->ui", u, out, dtype=np.float64)
        if dlse is not None:
            shift -= dlse
        shares = np.exp(np.subtract(sink[:, None], lse, dtype=np.float64))
        absent = (sink == -np.inf)[:, None] | (lse == -np.inf)
        dsink = -np.sum(np.where(absent, 0.0, shares * shift), axis=1)
    jobs, parts = pairs, 1
    if with_bias and len(np.unique(given.bias_at)) < units:
        jobs = min(pairs, 1)  # units that share a bias add to it one after the other
    if jobs and not (with_bias and not given.bias_column):
        parts = max(1, min(-(-PIECES // jobs), -(-S // given.keys)))
    dq = np.zeros((parts, units, T, E), q.dtype)
    dk, dv = np.zeros(k.shape, k.dtype), np.zeros(v.shape, v.dtype)
    dbias = np.zeros(given.bias.size if with_bias else 0, q.dtype)
    heads = given.group * (pairs // jobs if jobs else 0)
    cost = heads * S / parts * min(T, _seen(S, T, given)) * _cost(3 * E + 2 * V, given, q.dtype)
    arguments = (q, k, v, u, lse, shift.astype(q.dtype), given, jobs, parts, dq, dk, dv, dbias)
    over_rows(_of(q.dtype, _pull), jobs * parts, cost, *arguments)
    return dq.sum(0) if parts > 1 else dq[0], dk, dv, dbias, dsink


def push(
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    sink: FloatArray,
    given: Given,
    dq: FloatArray,
    dk: FloatArray,
    dv: FloatArray,
    dsink: FloatArray,
    dbias: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the tangents of the output and of the log-sum-exp; q and dq are scaled."""
    (units, T, E), V, S = q.shape, v.shape[2], k.shape[1]
    out, lse = np.empty((units, T, V), q.dtype), np.empty((units, T), q.dtype)
    if not units:
        return out, lse
    given = given._replace(queries=min(given.queries, max(LEAST, AT_ONCE // max(S, 1))))
    tiles = -(-T // given.queries)
    cost = T / max(tiles, 1) * _seen(T, S, given) * _cost(3 * E + 2 * V, given, q.dtype)
    right = [panels(x) for x in (k.swapaxes(1, 2), dk.swapaxes(1, 2), v, dv)]
    arguments = (q, v, dq, dv, *right, sink, dsink, dbias, given, out, lse)
    over_rows(_of(q.dtype, _push), units * tiles, cost, *arguments)
    if not given.careful and not finite(out) and not finite(q, k, v, dq, dk, dv):
        return push(q, k, v, sink, given._replace(careful=True), dq, dk, dv, dsink, dbias)
    return out, lse
