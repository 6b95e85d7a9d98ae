"""Matrices that files keep as one, cut in another way than they were put together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...attention import LatentAttentionParams
from ...transformer import GatedDeltaParams, GatedFeedForwardParams, MixtureParams
from .common import Mistakes, Options

COUNTS = {2: "two", 3: "three", 4: "four"}
#: How many processors may have parts of a matrix.
PROCESSORS = (2, 4, 8)


class Fused(NamedTuple):
    """Parts that one matrix may hold, and how a message calls the matrix, its groups and parts."""

    what: str
    names: tuple[str, ...]  # of the parameters, from top to bottom
    said: tuple[str, ...]  # of the parts
    groups: int  # rows of all parts alternate in so many groups, or one part follows the other
    by: str
    axis: int = 0
    whole: bool = True  # the parts may also be in another order
    others: tuple[tuple[int, str], ...] = ()  # numbers of groups that may be taken instead


def _on_processors(f: Fused, sizes: list[int]) -> Iterator[Fused]:
    """Yield a matrix whose rows alternate as several processors have them."""
    for count in (n for n in PROCESSORS if n != f.groups and all(size % n == 0 for size in sizes)):
        by = f"as {count} processors have their rows"
        yield f._replace(groups=count, by=by, whole=False)


def _rows(sizes: list[int], order: tuple[int, ...], groups: int) -> NDArray[np.intp]:
    """Return which rows of the parts, counted from top to bottom, a matrix has in its order."""
    starts = np.cumsum([0, *sizes])
    parts = [starts[i] + np.arange(sizes[i]).reshape(groups, -1) for i in order]
    return np.concatenate(parts, axis=1).ravel()


def _misread_rows(written: NDArray[np.intp], read: NDArray[np.intp]) -> NDArray[np.intp]:
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


def _readings(f: Fused, sizes: list[int]) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Yield ways to cut a matrix of parts with so many rows."""
    own, seen = tuple(range(len(sizes))), {np.arange(sum(sizes)).tobytes()}
    apart = f"in {COUNTS[len(sizes)]} parts"
    ways = [(f.groups, f.by), (1, apart), *f.others]
    pairs = [
        (how, instead, _rows(sizes, own, there), _rows(sizes, own, here))
        for (here, how), (there, instead) in itertools.permutations(ways, 2)
    ]
    for how, instead, written, read in pairs:
        rows = _misread_rows(written, read)
        if rows.tobytes() not in seen:  # both may be the same rows, and either may be the mistake
            yield f"{f.what} is read {how}, not {instead}", rows
    if not f.whole:
        return
    seen |= {_misread_rows(written, read).tobytes() for _, _, written, read in pairs}
    for order, groups in itertools.product(_orders(len(sizes)), (1, f.groups)):
        rows = _misread_rows(_rows(sizes, own, groups), _rows(sizes, order, groups))
        if rows.tobytes() not in seen:
            seen.add(rows.tobytes())
            yield _order_in_words(f, sizes, order, f.by if groups > 1 else apart), rows


def _order_in_words(f: Fused, sizes: list[int], order: tuple[int, ...], how: str) -> str:
    """Return a message of parts that are read in another order."""
    moved = sorted(i for i, part in enumerate(order) if i != part)
    if len(moved) == 2 and sizes[moved[0]] == sizes[moved[1]]:
        first, second = moved
        return f"{f.said[first]} and {f.said[second]} are exchanged"
    names = [f.names[i].split("_")[-1] for i in order]
    return f"{f.what} is read {how} in the order {', '.join(names)}"


class _Rows:
    """
    Rows of several matrices, stacked; multiplying by them multiplies by each whole matrix.

    Nothing is copied of matrices that stay in their file.
    """

    def __init__(self, matrices: list[Any], rows: NDArray[np.intp]) -> None:
        self.matrices, self.rows = matrices, rows

    def __len__(self) -> int:
        return len(self.rows)

    def applied(self, x: Any) -> Any:
        """Return the product of each row of x with the transposed rows."""
        products = [matrix.applied(x) for matrix in self.matrices]
        return np.concatenate(products, axis=-1)[..., self.rows]


def _regrouped(matrices: list[Any], rows: NDArray[np.intp], axis: int) -> list[Any]:
    """Return matrices of the same sizes made of rows of them all, counted from top to bottom."""
    ends = np.cumsum([a.shape[axis] for a in matrices])[:-1]
    if all(hasattr(a, "applied") for a in matrices):
        return [_Rows(matrices, some) for some in np.split(rows, ends)]
    fused = np.concatenate(matrices, axis=axis)
    return [*map(np.ascontiguousarray, np.split(fused.take(rows, axis=axis), ends, axis=axis))]


def _cut(p: Any, f: Fused) -> Iterator[tuple[str, Any]]:
    """Yield parameters whose fused matrix is cut otherwise, and their biases with it."""
    arrays = [getattr(p, name) for name in f.names]
    sizes = [a.shape[f.axis] for a in arrays]
    biases = tuple("b" + name[1:] for name in f.names if name[0] == "w")
    together = [f.names]
    if len(biases) == len(arrays) and all(getattr(p, b, None) is not None for b in biases):
        together.append(biases)
    for message, rows in _readings(f, sizes):
        changed: dict[str, Any] = {}
        for names in together:
            parts = _regrouped([getattr(p, name) for name in names], rows, f.axis)
            changed |= zip(names, parts, strict=True)
        yield message, p._replace(**changed)


def _of_attention(a: Any, o: Options) -> Iterator[Fused]:
    """Yield the matrices of attention that families keep as one."""
    H = o["num_heads"]
    if isinstance(a, LatentAttentionParams):
        said = "the keys", "the values of kv_b"
        yield Fused("kv_b", ("w_uk", "w_uv"), said, H, "head by head")
    elif isinstance(a, GatedDeltaParams):
        keys, by = o["delta_heads"] or len(a.a_log), "head by head of the keys"
        for what, *names in (("qkvz", "w_q", "w_k", "w_v", "w_z"), ("ba", "w_b", "w_a")):
            yield Fused(what, tuple(names), tuple(names), keys, by)
    else:
        keys = o["num_kv_heads"] or H
        by = "head by head, as (H, 3, E)" if keys == H else "by groups of heads, (q ... q, k, v)"
        of_three = "queries", "keys", "values"
        whole = Fused("a fused projection", ("w_q", "w_k", "w_v"), of_three, keys, by)
        yield whole
        yield from _on_processors(whole, [keys])
        if a.w_gate is not None:
            said = "queries", "gates of the attention"
            what = "the matrix of queries and gates"
            of_keys = ((keys, "head by head of the keys"),) if keys not in (1, H) else ()
            yield Fused(what, ("w_q", "w_gate"), said, H, "head by head", others=of_keys)


def fused_attention(p: Any, o: Options, part: str) -> Mistakes:
    """Yield the ways to cut the fused matrices of attention."""
    a = getattr(p, part)
    for fused in _of_attention(a, o):
        for message, changed in _cut(a, fused):
            yield message, p._replace(**{part: changed}), o
    if isinstance(a, LatentAttentionParams):
        rotated = np.roll(a.w_dkv, len(a.kv_norm) - len(a.w_dkv), axis=0)
        message = "kv_a is read with the shared key first, not the latent"
        yield message, p._replace(**{part: a._replace(w_dkv=rotated)}), o


def fused_networks(p: Any, o: Options) -> Mistakes:
    """Yield the ways to cut the fused matrices of gates and their values."""
    network: Any = p.feed_forward
    if isinstance(network, GatedFeedForwardParams):
        for message, changed in _gates_cut(network, ""):
            yield message, p._replace(feed_forward=changed), o
    if isinstance(network, MixtureParams):
        for part in ("experts", "shared"):
            if getattr(network, part) is None:
                continue
            of = " of the experts" if part == "experts" else " of the shared expert"
            for message, changed in _gates_cut(getattr(network, part), of):
                yield message, p._replace(feed_forward=network._replace(**{part: changed})), o


def _gates_cut(network: Any, of: str) -> Iterator[tuple[str, Any]]:
    """Yield units, also of many experts, whose matrix of gates and up is cut otherwise."""
    axis = network.w_up.ndim - 2
    names, said = ("w_gate", "w_up"), ("gate", "up" + of) if of else ("w_gate", "w_up")
    rows = network.w_up.shape[axis]
    whole = Fused("gate_up" + of, names, said, rows, "row by row in turn", axis)
    for fused in (whole, *_on_processors(whole, [rows])):
        yield from _cut(network, fused)
