"""Matrices that files keep as one, cut in another way than they were put together."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...attention import LatentAttentionParams
from ...transformer import GatedDeltaParams, GatedFeedForwardParams, MixtureParams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..._core.arguments import FloatArray
    from .common import Mistakes, Options

COUNTS = {2: "two", 3: "three", 4: "four"}


class Fused(NamedTuple):
    """Parts that one matrix may hold, and how a message calls the matrix, its groups and parts."""

    what: str
    names: tuple[str, ...]  # of the parameters, from top to bottom
    said: tuple[str, ...]  # of the parts
    groups: int  # rows of all parts alternate in so many groups, or one part follows the other
    by: str
    axis: int = 0


def _rows(sizes: list[int], order: tuple[int, ...], groups: int) -> FloatArray:
    """Return which rows of the parts, counted from top to bottom, a matrix has in its order."""
    starts = np.cumsum([0, *sizes])
    parts = [starts[i] + np.arange(sizes[i]).reshape(groups, -1) for i in order]
    return np.concatenate(parts, axis=1).ravel()


def _read(written: FloatArray, read: FloatArray) -> FloatArray:
    """Return which rows the parts get if a matrix is written in one order and read in another."""
    rows = np.empty_like(read)
    rows[read] = written
    return rows


def _orders(count: int) -> Iterator[tuple[int, ...]]:
    """Yield the other orders of the parts; of four, those in which two are exchanged."""
    own = tuple(range(count))
    for order in itertools.permutations(own):
        if order != own and (count < 4 or sum(i != j for i, j in zip(order, own, strict=True)) < 3):
            yield order


def _readings(f: Fused, sizes: list[int]) -> Iterator[tuple[str, FloatArray]]:
    """Yield ways to cut a matrix of parts with so many rows, each way with its rows once."""
    own, seen = tuple(range(len(sizes))), {np.arange(sum(sizes)).tobytes()}
    blocks, grouped = _rows(sizes, own, 1), _rows(sizes, own, f.groups)
    thirds = f"in {COUNTS[len(sizes)]} parts"
    ways = [(f"{f.what} is read {f.by}, not {thirds}", _read(blocks, grouped))]
    ways.append((f"{f.what} is read {thirds}, not {f.by}", _read(grouped, blocks)))
    for order, groups in itertools.product(_orders(len(sizes)), (1, f.groups)):
        rows = _read(_rows(sizes, own, groups), _rows(sizes, order, groups))
        moved = [i for i, j in zip(order, own, strict=True) if i != j]
        if len(moved) == 2 and sizes[moved[0]] == sizes[moved[1]]:
            first, second = sorted(moved)
            message = f"{f.said[first]} and {f.said[second]} are exchanged"
        else:
            names = [f.names[i].split("_")[-1] for i in order]
            how = f.by if groups > 1 else thirds
            message = f"{f.what} is read {how} in the order {', '.join(names)}"
        ways.append((message, rows))
    for message, rows in ways:
        if rows.tobytes() not in seen:
            seen.add(rows.tobytes())
            yield message, rows


def _cut(p: Any, f: Fused) -> Iterator[tuple[str, Any]]:
    """Yield parameters whose fused matrix is cut otherwise, and their biases with it."""
    arrays = [getattr(p, name) for name in f.names]
    sizes = [a.shape[f.axis] for a in arrays]
    if any(size % f.groups for size in sizes):
        return
    biases = tuple("b" + name[1:] for name in f.names if name[0] == "w")
    together = [f.names]
    if len(biases) == len(arrays) and all(getattr(p, b, None) is not None for b in biases):
        together.append(biases)
    for message, rows in _readings(f, sizes):
        changed: dict[str, Any] = {}
        for names in together:
            fused = np.concatenate([getattr(p, name) for name in names], axis=f.axis)
            parts = np.split(fused.take(rows, axis=f.axis), np.cumsum(sizes)[:-1], axis=f.axis)
            changed |= zip(names, map(np.ascontiguousarray, parts), strict=True)
        yield message, p._replace(**changed)


def _of_attention(a: Any, o: Options) -> Iterator[Fused]:
    """Yield the matrices of attention that families keep as one."""
    H = o["num_heads"]
    if isinstance(a, LatentAttentionParams):
        names = "the keys", "the values of kv_b"
        yield Fused("kv_b", ("w_uk", "w_uv"), names, H, "head by head")
    elif isinstance(a, GatedDeltaParams):
        keys = o["delta_heads"] or len(a.a_log)
        names = "w_q", "w_k", "w_v", "w_z"
        yield Fused("qkvz", names, names, keys, "head by head of the keys")
        yield Fused("ba", ("w_b", "w_a"), ("w_b", "w_a"), keys, "head by head of the keys")
    else:
        keys = o["num_kv_heads"] or H
        by = "head by head, as (H, 3, E)" if keys == H else "by groups of heads, (q ... q, k, v)"
        said = "queries", "keys", "values"
        yield Fused("a fused projection", ("w_q", "w_k", "w_v"), said, keys, by)
        if a.w_gate is not None:
            said = "queries", "gates of the attention"
            what = "the matrix of queries and gates"
            yield Fused(what, ("w_q", "w_gate"), said, H, "head by head")


def fused_attention(p: Any, o: Options, part: str) -> Mistakes:
    """Yield the ways to cut the fused matrices of attention."""
    a = getattr(p, part)
    for fused in _of_attention(a, o):
        for message, changed in _cut(a, fused):
            yield message, p._replace(**{part: changed}), o
    if isinstance(a, LatentAttentionParams):
        rotated = np.roll(a.w_dkv, len(a.w_dkv) - len(a.kv_norm), axis=0)
        message = "kv_a is read with the shared key first, not the latent"
        yield message, p._replace(**{part: a._replace(w_dkv=rotated)}), o


def fused_networks(p: Any, o: Options) -> Mistakes:
    """Yield the ways to cut the fused matrices of gates and of what they multiply."""
    network: Any = p.feed_forward
    names = "w_gate", "w_up"
    if isinstance(network, GatedFeedForwardParams):
        fused = Fused("gate_up", names, names, len(network.w_up), "row by row in turn")
        for message, changed in _cut(network, fused):
            yield message, p._replace(feed_forward=changed), o
    if isinstance(network, MixtureParams):
        said, rows = ("gate", "up of the experts"), network.experts.w_up.shape[1]
        what = "gate_up of the experts"
        fused = Fused(what, names, said, rows, "row by row in turn", axis=1)
        for message, changed in _cut(network.experts, fused):
            yield message, p._replace(feed_forward=network._replace(experts=changed)), o
        if network.shared is not None:
            said, rows = ("gate", "up of the shared expert"), len(network.shared.w_up)
            what = "gate_up of the shared expert"
            fused = Fused(what, names, said, rows, "row by row in turn")
            for message, changed in _cut(network.shared, fused):
                yield message, p._replace(feed_forward=network._replace(shared=changed)), o
