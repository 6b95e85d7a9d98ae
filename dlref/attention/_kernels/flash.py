"""
Scaled dot-product attention in tiles: one pass over the keys, never the whole matrix of scores.

A tile is a product of some queries with some keys, small enough for the cache.  The forward pass
keeps, for each query, the largest score so far, the sum of exponentials relative to it, and the
weighted sum of values; a larger score scales all earlier ones down by the same factor. The backward
pass recomputes the tiles from the log-sum-exp that the forward pass saved.  The forward mode of
differentiation takes whole rows of scores, a few at a time.

Threads divide the tiles, in Python: a tile takes a tenth of a millisecond, almost all of it in
compiled loops and NumPy.

float32 is computed in float32, sums over the rows of a tile included; the sums of tiles are
float64.

A weight that is exactly zero ignores its key in both directions, even a NaN: zero times NaN would
be NaN, so where an operand is not finite, `product_with_gaps` is used.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._core.arguments import FloatArray
from ..._core.jit import inline_fma, inline_reassoc, inline_strict, kernel
from ..._core.specialize import specialize
from ..._core.threads import over_rows
from ..._math.dense import blas_matmul
from ..._math.elementary import (
    Number,
    bits_single,
    exp,
    largest,
    largest_single,
    number_single,
)
from ..._math.gemm import add_product, matmul

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IntArray = npt.NDArray[np.int64]

QUERIES, KEYS = 512, 256  #: rows and columns of a tile
AT_ONCE, LEAST = 2**18, 8  #: scores in whole rows that the forward mode takes at once, and rows
PIECES = 8  #: parts of the backward pass, at least
LOG2E = np.float32(math.log2(math.e))
LOWEST = np.float32(-88.0)  #: e^x is the same, 0, for all x below
LN2 = np.float32(0.693359375), np.float32(-2.12194440e-4)  #: few digits, and the rest
SHIFT = np.float32(1.5 * 2**23 + 127)  #: adding it leaves n + 127 in the low bits
#: (e^r - 1 - r) / r^2 in r, to 1.1e-8
EXPM1 = tuple(
    np.float32(c)
    for c in (0.5, 0.16666573381900845, 0.04166655011, 0.0083637738744, 0.00139269266140)
)


class Matrices(NamedTuple):
    """A mask or a bias: a few matrices, and the index of the matrix for each head of queries."""

    values: npt.NDArray[Any]  # (matrices, T or 1, S or 1)
    of_head: IntArray

    def _inside(self, rows: slice, columns: slice) -> tuple[slice, slice]:
        T, S = self.values.shape[1:]
        return rows if T > 1 else slice(None), columns if S > 1 else slice(None)

    def tile(self, heads: slice, rows: slice, columns: slice) -> npt.NDArray[Any]:
        """Return the part that belongs to some scores; axes of length 1 stay."""
        return self.values[self.of_head[heads], *self._inside(rows, columns)]

    def add(self, part: FloatArray, heads: slice, rows: slice, columns: slice) -> None:
        """Add to that part; sum where it is broadcast."""
        axes = tuple(axis for axis in (1, 2) if self.values.shape[axis] == 1)
        part = part.sum(axes, keepdims=True)
        for matrix, addend in zip(self.of_head[heads], part, strict=True):
            self.values[matrix, *self._inside(rows, columns)] += addend


class TileSpec(NamedTuple):
    """The inputs of scores other than queries and keys; see `Attention`."""

    mask: Matrices | None
    bias: Matrices | None
    offset: int
    left: int
    right: int
    softcap: float  # 0 without one
    dropout: Matrices | None = None

    @property
    def reach(self) -> tuple[int, int, int]:
        """Where query 0 stands among the keys, and how many it sees before and after that."""
        return self.offset, self.left, self.right

    @property
    def reach_of_keys(self) -> tuple[int, int, int]:
        """Where key 0 stands among the queries, and how many see it from before and after that."""
        return -self.offset, self.right, self.left


@inline_fma
def rescaled(x: Number) -> Number:
    """e^x for x <= 0."""
    return exp(x)


@inline_fma
def rescaled_single(x: Number) -> Number:
    """
    e^x for x <= 0 in float32, to 1 ULP; 0 below -87.7, where it is not a normal number.

    There n is -127, so that the exponent bits n + 127 are 0, which is the number 0.
    """
    inside = LOWEST if x < LOWEST else x  # a NaN stays
    z = inside * LOG2E + SHIFT
    k = z - SHIFT
    r = (inside - k * LN2[0]) - k * LN2[1]
    c = EXPM1
    tail = c[0] + r * (c[1] + r * (c[2] + r * (c[3] + r * c[4])))
    power = np.int32(bits_single(z) << 23)
    return (np.float32(1.0) + (r + r * r * tail)) * number_single(power)


@inline_reassoc
def _sum(x: FloatArray) -> Number:
    total = x.dtype.type(0.0)
    for j in range(x.size):
        total += x[j]
    return total


@inline_strict
def _between(position: int, left: int, right: int, size: int) -> tuple[int, int]:
    """Return the start and the end of the columns, out of `size`, that a row at a position sees."""
    return min(max(position - left, 0), size), min(max(position + right + 1, 0), size)


@kernel
def _online(
    scores: FloatArray,
    position: int,
    left: int,
    right: int,
    top: FloatArray,
    total: FloatArray,
    fade: FloatArray,
) -> None:
    """
    Turn a tile of scores into weights relative to the largest score so far; hidden ones become 0.
    `position` is the place of the first query among the keys. `total` is the sum of all weights so
    far, and `fade` becomes the factor of the weights of earlier tiles.
    """
    for n in range(scores.shape[0]):
        for i in range(scores.shape[1]):
            row, before = scores[n, i], top[n, i]
            first, last = _between(position + i, left, right, row.size)
            seen = row[first:last]
            new = before
            if seen.size:
                highest = largest(seen)
                new = before if before > highest else highest
            shift = new if new != -np.inf else top.dtype.type(0.0)
            for j in range(seen.size):
                seen[j] = rescaled(seen[j] - shift)
            for j in range(first):
                row[j] = 0.0
            for j in range(last, row.size):
                row[j] = 0.0
            factor = rescaled(before - shift)
            fade[n, i] = factor
            total[n, i] = total[n, i] * np.float64(factor) + np.float64(_sum(seen))
            top[n, i] = new


@kernel
def _gradient(
    scores: FloatArray,
    moved: FloatArray,
    position: int,
    left: int,
    right: int,
    lse: FloatArray,
    shift: FloatArray,
) -> None:
    """
    Turn a transposed tile of scores S into weights P, and dP into dS = P * (dP - shift).

    Rows belong to keys, columns to queries; hidden elements get 0.  Where P is zero, dS is.
    """
    for n in range(scores.shape[0]):
        for j in range(scores.shape[1]):
            row, drow = scores[n, j], moved[n, j]
            first, last = _between(position + j, left, right, row.size)
            p, d = row[first:last], drow[first:last]
            ell, mean = lse[n, first:last], shift[n, first:last]
            for i in range(p.size):
                weight = rescaled(p[i] - ell[i])
                p[i] = weight
                d[i] = weight if weight == 0.0 else weight * (d[i] - mean[i])
            for i in range(first):
                row[i] = drow[i] = 0.0
            for i in range(last, row.size):
                row[i] = drow[i] = 0.0


#: Replacements in float32.
SINGLE = {rescaled: rescaled_single, largest: largest_single}


@functools.cache
def _for_dtype(dtype: Any, loop: Any) -> Any:
    return specialize(loop, SINGLE, "single") if dtype == np.float32 else loop


def finite(*arrays: FloatArray) -> bool:
    """Return whether there is neither infinity nor NaN."""
    with np.errstate(all="ignore"):
        return all(bool(np.isfinite(a.sum())) or bool(np.isfinite(a).all()) for a in arrays)


def product_with_gaps(a: FloatArray, b: FloatArray) -> FloatArray:
    """``a @ b``, where a zero of `a` ignores the element of `b`, even infinity or NaN."""
    with np.errstate(all="ignore"):
        out = np.asarray(a @ np.where(np.isfinite(b), b, np.where(b < 0, -1, 1).astype(b.dtype)))
        kinds = a > 0, a < 0, a != 0, b == np.inf, b == -np.inf, np.isnan(b)
        above, below, other, high, low, nan = (x.astype(a.dtype) for x in kinds)
        out[above @ high + below @ low > 0] += np.inf
        out[above @ low + below @ high > 0] -= np.inf
        out[other @ nan > 0] = np.nan
    return out


def _add_with_gaps(a: FloatArray, b: FloatArray, out: FloatArray) -> None:
    out += product_with_gaps(a, b)


def _tiles(length: int, size: int) -> list[slice]:
    """Split a length into parts of nearly equal size, at most `size`."""
    count = -(-length // size)
    return [slice(length * i // count, length * (i + 1) // count) for i in range(count)]


def _place(rows: slice, columns: slice, offset: int, left: int, right: int) -> tuple[int, ...]:
    """Return the place of the first row among the columns, and how far it sees on both sides."""
    return rows.start + offset - columns.start, left, right


def _overlapping(
    tiles: list[slice], rows: slice, offset: int, left: int, right: int
) -> Iterator[slice]:
    """Yield the tiles in which some row sees something."""
    low, high = rows.start + offset - left, rows.stop + offset + right
    return (tile for tile in tiles if tile.start < high and tile.stop > low)


def _adjust(
    scores: FloatArray, heads: slice, rows: slice, columns: slice, spec: TileSpec
) -> FloatArray | None:
    """Cap some scores, add the bias, and mask; return the slope of the cap, if there is one."""
    slope = None
    if spec.softcap > 0.0:
        cap = scores.dtype.type(spec.softcap)
        t = np.tanh(scores / cap)
        slope = (1 - t) * (1 + t)
        np.multiply(t, cap, out=scores)
    if spec.bias is not None:
        bias = spec.bias.tile(heads, rows, columns)
        scores += bias
        np.copyto(scores, -np.inf, where=bias == -np.inf)  # hides even NaN
    if spec.mask is not None:
        np.copyto(scores, -np.inf, where=~spec.mask.tile(heads, rows, columns))
    return slope


class _Grid:
    """
    The tiles of scores: `rows` and `columns` of each, and the heads.

    A product takes several heads of keys at once if they are short, and for each of these one head
    of queries.
    """

    def __init__(
        self, q: FloatArray, k: FloatArray, spec: TileSpec, queries: int | None = None
    ) -> None:
        (q_heads, T), (kv_heads, S) = q.shape[:2], k.shape[:2]
        if not q_heads:  # an empty batch of long sequences has no tiles
            T = S = 0
        bounded, room = min(spec.left, spec.right) < S, QUERIES * KEYS
        # smaller tiles are cut by an edge less often
        queries = queries or (max(1, QUERIES // 2) if bounded else QUERIES)
        self.rows = _tiles(T, queries)
        # few queries see more keys at once
        self.columns = _tiles(S, KEYS * max(1, QUERIES // max(1, min(queries, T)) // 2))
        short = len(self.rows) == len(self.columns) == 1
        self.kv_heads = _tiles(kv_heads, max(1, room // (2 * T * S)) if short else 1)
        self.starts = range(0, q_heads, max(1, kv_heads))
        seen = S / 2 if spec.right < S <= spec.left else min(S, spec.left + spec.right + 1)
        #: scores that are computed, about
        self.scores = q_heads * T * seen

    def q_heads(self, kv: slice) -> Iterator[slice]:
        """Yield heads of queries that share some heads of keys, one for each of these."""
        return (slice(first + kv.start, first + kv.stop) for first in self.starts)

    def of_queries(self) -> list[tuple[slice, slice, slice]]:
        """Return the heads of keys, heads of queries and rows of all tiles of queries."""
        return [
            (kv, heads, rows)
            for kv in self.kv_heads
            for heads in self.q_heads(kv)
            for rows in self.rows
        ]


def _start(sink: FloatArray, heads: slice, rows: slice) -> tuple[FloatArray, FloatArray]:
    """Return the largest score and the sum of exponentials before the first key."""
    top = np.empty((heads.stop - heads.start, rows.stop - rows.start), sink.dtype)
    top[:] = sink[heads, None]
    return top, (top > -np.inf).astype(np.float64)


def _run(
    loop: Callable[..., None], grid: _Grid, tasks: list[Any], inner: int, *arguments: Any
) -> None:
    """Distribute tasks among threads; the products of a score have `inner` terms in all."""
    size = arguments[0].itemsize
    cost = grid.scores * (inner / 40 + 0.5) * size / 4
    over_rows(loop, len(tasks), cost / max(1, len(tasks)), tasks, grid, *arguments)


@np.errstate(all="ignore")
def _attend(
    start: int,
    stop: int,
    tasks: list[tuple[slice, slice, slice]],
    grid: _Grid,
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    sink: FloatArray,
    spec: TileSpec,
    out: FloatArray,
    lse: FloatArray,
) -> None:
    online = _for_dtype(q.dtype, _online)
    for kv, heads, rows in tasks[start:stop]:
        top, total = _start(sink, heads, rows)
        fade, sums = np.empty_like(top), np.zeros((*top.shape, v.shape[2]), v.dtype)
        for number, columns in enumerate(_overlapping(grid.columns, rows, *spec.reach)):
            scores = matmul(q[heads, rows], k[kv, columns].swapaxes(1, 2))
            _adjust(scores, heads, rows, columns, spec)
            online(scores, *_place(rows, columns, *spec.reach), top, total, fade)
            if spec.dropout is not None:
                scores *= spec.dropout.tile(heads, rows, columns)
            if number:
                sums *= fade[..., None]
            add_product(scores, v[kv, columns], sums)
        factor = 1 / np.maximum(total, 0.5)  # 0 if there is nothing to attend to, else at least 1
        np.multiply(sums, factor.astype(q.dtype)[..., None], out=out[heads, rows])
        lse[heads, rows] = top + np.log(total)


@np.errstate(all="ignore")
def attend(
    q: FloatArray, k: FloatArray, v: FloatArray, sink: FloatArray, spec: TileSpec
) -> tuple[FloatArray, FloatArray]:
    """Return the output (q_heads, T, V) and the log-sum-exp of the scores (q_heads, T)."""
    out = np.empty((*q.shape[:2], v.shape[2]), q.dtype)
    lse, grid = np.empty(q.shape[:2], q.dtype), _Grid(q, k, spec)
    inner = q.shape[2] + v.shape[2]
    _run(_attend, grid, grid.of_queries(), inner, q, k, v, sink, spec, out, lse)
    if not finite(out):  # from behind a mask, or weighted sums overflow where averages do not
        for rows in _tiles(q.shape[1], max(1, AT_ONCE // max(1, len(q) * k.shape[1]))):
            weights = weights_of(scores_of(q, k, spec, rows), lse[:, rows])
            if spec.dropout is not None:
                weights *= spec.dropout.tile(slice(None), rows, slice(0, k.shape[1]))
            out[:, rows] = grouped(product_with_gaps, weights, v)
    return out, lse


@np.errstate(all="ignore")
def grouped(multiply: Any, a: FloatArray, b: FloatArray) -> FloatArray:
    """Multiply the matrix of each head of queries by the matrix of its head of keys."""
    each = a.reshape(len(a) // max(len(b), 1), len(b), *a.shape[1:])
    out: FloatArray = multiply(each, b)
    return out.reshape(len(a), *out.shape[2:])


def scores_of(
    q: FloatArray, k: FloatArray, spec: TileSpec, rows: slice | None = None
) -> FloatArray:
    """Return whole rows of scores (q_heads, T, S), −inf where something is hidden."""
    rows, columns = rows or slice(0, q.shape[1]), slice(0, k.shape[1])
    scores = grouped(blas_matmul, q[:, rows], k.swapaxes(1, 2))
    with np.errstate(all="ignore"):
        _adjust(scores, slice(None), rows, columns, spec)
    i, j = np.arange(rows.start, rows.stop)[:, None] + spec.offset, np.arange(columns.stop)
    np.copyto(scores, -np.inf, where=(j < i - spec.left) | (j > i + spec.right))
    return scores


def weights_of(scores: FloatArray, lse: FloatArray) -> FloatArray:
    """Return the weights that belong to whole rows of scores and their log-sum-exp."""
    with np.errstate(all="ignore"):
        return np.exp(scores - np.where(lse == -np.inf, 0, lse)[..., None])


def slope_of(q: FloatArray, k: FloatArray, spec: TileSpec) -> FloatArray | None:
    """Return the slope of the cap at all scores, if there is one."""
    whole = slice(None)
    with np.errstate(all="ignore"):
        scores = grouped(blas_matmul, q, k.swapaxes(1, 2))
        return _adjust(scores, whole, whole, whole, spec._replace(mask=None, bias=None))


@np.errstate(all="ignore")
def _vjp(
    start: int,
    stop: int,
    tasks: list[list[tuple[slice, int]]],
    grid: _Grid,
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    u: FloatArray,
    lse: FloatArray,
    shift: FloatArray,
    spec: TileSpec,
    add: Callable[[FloatArray, FloatArray, FloatArray], None],
    dq: FloatArray,
    dk: FloatArray,
    dv: FloatArray,
    dbias: Matrices | None,
) -> None:
    gradient = _for_dtype(q.dtype, _gradient)
    for kv, piece in (task for some in tasks[start:stop] for task in some):
        for columns in grid.columns[piece :: len(dq)]:
            for heads in grid.q_heads(kv):
                for rows in _overlapping(grid.rows, columns, *spec.reach_of_keys):
                    qi, ui, kj, vj = q[heads, rows], u[heads, rows], k[kv, columns], v[kv, columns]
                    # transposed, so that only one of the products has a transposed left operand
                    scores, moved = matmul(kj, qi.swapaxes(1, 2)), matmul(vj, ui.swapaxes(1, 2))
                    slope = _adjust(scores.swapaxes(1, 2), heads, rows, columns, spec)
                    place = _place(columns, rows, *spec.reach_of_keys)
                    factors = None
                    if spec.dropout is not None:
                        factors = spec.dropout.tile(heads, rows, columns).swapaxes(1, 2)
                        moved *= factors
                    gradient(scores, moved, *place, lse[heads, rows], shift[heads, rows])
                    if factors is not None:
                        scores *= factors
                    add(scores, ui, dv[kv, columns])
                    by_queries = moved.swapaxes(1, 2)
                    if dbias is not None:
                        dbias.add(by_queries, heads, rows, columns)
                    if slope is not None:
                        np.multiply(by_queries, slope, out=by_queries, where=by_queries != 0)
                    add(moved, qi, dk[kv, columns])
                    add(np.ascontiguousarray(by_queries), kj, dq[piece, heads, rows])


@np.errstate(all="ignore")
def vjp(
    u: FloatArray,
    dlse: FloatArray | None,
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    sink: FloatArray,
    spec: TileSpec,
    known: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """
    Return the gradients of the scaled q, of k, v, of the matrices of the bias, and of the sinks.

    `known` is the result of `attend` for the same operands, if available.
    """
    out, lse = attend(q, k, v, sink, spec) if known is None else known
    # a sum over the row, in float64: rowsum(dO * O), minus the cotangent of the log-sum-exp
    shift = np.einsum("hie,hie->hi", u, out, dtype=np.float64)
    if dlse is not None:
        shift -= dlse
    dsink = -np.sum(np.where(shares := sink_shares(sink, lse), shares * shift, 0), axis=1)
    grid = _Grid(q, k, spec, QUERIES // 2)
    parts = max(1, min(-(-PIECES // max(1, len(grid.kv_heads))), len(grid.columns)))
    tasks, dbias = [[(kv, piece)] for piece in range(parts) for kv in grid.kv_heads], None
    if spec.bias is not None:
        dbias = spec.bias._replace(values=np.zeros_like(spec.bias.values))
        # additions to the same gradient of a bias run one after the other
        tasks = [[(kv, piece) for kv in grid.kv_heads] for piece in range(parts)]
        if spec.bias.values.shape[2] == 1:
            tasks = [list(itertools.chain(*tasks))]
    dq, dk, dv = np.zeros((parts, *q.shape), q.dtype), np.zeros_like(k), np.zeros_like(v)
    add = add_product if finite(u, q, k, v) else _add_with_gaps
    inner, lse = 3 * q.shape[2] + 2 * v.shape[2], np.where(lse == -np.inf, np.inf, lse)
    arguments = q, k, v, u, lse, shift.astype(q.dtype), spec, add, dq, dk, dv, dbias
    _run(_vjp, grid, tasks, inner, *arguments)
    of_bias = np.zeros(0, q.dtype) if dbias is None else dbias.values
    return dq.sum(0) if parts > 1 else dq[0], dk, dv, of_bias, dsink


def sink_shares(sink: FloatArray, lse: FloatArray) -> FloatArray:
    """Return the weight of the sink in every row, in float64."""
    with np.errstate(all="ignore"):
        shares = np.exp(np.subtract(sink[:, None], lse, dtype=np.float64))
    return np.where((sink == -np.inf)[:, None] | (lse == -np.inf), 0.0, shares)


@np.errstate(all="ignore")
def _jvp(
    start: int,
    stop: int,
    tasks: list[tuple[slice, slice, slice]],
    grid: _Grid,
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    sink: FloatArray,
    spec: TileSpec,
    dq: FloatArray,
    dk: FloatArray,
    dv: FloatArray,
    dsink: FloatArray,
    dbias: Matrices | None,
    add: Callable[[FloatArray, FloatArray, FloatArray], None],
    out: FloatArray,
    lse: FloatArray,
) -> None:
    """Compute whole rows of weights and of their tangents, so that the mean of these is known."""
    online = _for_dtype(q.dtype, _online)
    for kv, heads, rows in tasks[start:stop]:
        (top, total), tiles = _start(sink, heads, rows), []
        fade = np.empty_like(top)
        for columns in _overlapping(grid.columns, rows, *spec.reach):
            kj, dkj = (x[kv, columns].swapaxes(1, 2) for x in (k, dk))
            scores, moved = matmul(q[heads, rows], kj), matmul(dq[heads, rows], kj)
            moved += matmul(q[heads, rows], dkj)
            slope = _adjust(scores, heads, rows, columns, spec)
            if slope is not None:
                moved *= slope
            if dbias is not None:
                moved += dbias.tile(heads, rows, columns)
            online(scores, *_place(rows, columns, *spec.reach), top, total, fade)
            tiles.append((columns, scores, moved, top.copy()))
        shift, factor = np.where(top == -np.inf, 0, top), 1 / np.maximum(total, 0.5)
        share = factor * np.exp(sink[heads, None] - shift)
        mean = np.where(share == 0, 0, share * dsink[heads, None])
        for _, p, moved, earlier in tiles:
            np.multiply(p, (factor * np.exp(earlier - shift)).astype(p.dtype)[..., None], out=p)
            np.copyto(moved, 0, where=p == 0)
            mean += np.einsum("hij,hij->hi", p, moved)
        sums = np.zeros((*top.shape, v.shape[2]), v.dtype)
        for columns, p, moved, _ in tiles:
            np.subtract(moved, mean.astype(p.dtype)[..., None], out=moved)
            np.multiply(moved, p, out=moved)
            if spec.dropout is not None:
                factors = spec.dropout.tile(heads, rows, columns)
                np.multiply(p, factors, out=p)
                np.multiply(moved, factors, out=moved)
            add(p, dv[kv, columns], sums)
            add(moved, v[kv, columns], sums)
        out[heads, rows], lse[heads, rows] = sums, mean


def jvp(
    q: FloatArray,
    k: FloatArray,
    v: FloatArray,
    sink: FloatArray,
    spec: TileSpec,
    tangents: list[FloatArray],
    dsink: FloatArray,
    dbias: Matrices | None,
) -> tuple[FloatArray, FloatArray]:
    """Return the tangents of the output and of the log-sum-exp; q and dq are scaled."""
    out, lse = np.empty((*q.shape[:2], v.shape[2]), q.dtype), np.empty(q.shape[:2], q.dtype)
    grid = _Grid(q, k, spec, min(QUERIES, max(LEAST, AT_ONCE // max(k.shape[1], 1))))
    add = add_product if finite(q, k, v, *tangents) else _add_with_gaps
    arguments = q, k, v, sink, spec, *tangents, dsink, dbias, add, out, lse
    _run(_jvp, grid, grid.of_queries(), 3 * q.shape[2] + 2 * v.shape[2], *arguments)
    return out, lse
