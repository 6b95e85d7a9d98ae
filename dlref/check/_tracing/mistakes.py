"""What goes wrong in blocks: words, and the parameters and options that make the mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.arguments import FloatArray, as_array
from ...positions import rope_frequencies, rope_permutation, rope_tables
from .blocks import Mistake, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Bases of rotation: those of the paper, of LLaMA 3, and of long contexts.
BASES = (1e4, 5e5, 1e6)


def _halves(w: FloatArray | None, heads: int) -> FloatArray | None:
    """Reorder the rows of each head from neighbours to halves."""
    if w is None:
        return None
    rows = w.reshape(heads, len(w) // heads, -1)
    return rows[:, rope_permutation(rows.shape[1])].reshape(w.shape)


def _rotations(p: Any, o: Options, part: str = "attention") -> Iterator[Mistake]:
    if o["rope"] is None:
        return
    a, H = getattr(p, part), o["num_heads"]
    keys = o["num_kv_heads"] or H
    cos, sin = (as_array("rope", table) for table in o["rope"])
    if o["rope_interleaved"] and 2 * cos.shape[-1] == len(a.w_q) // H:
        halves = a._replace(
            w_q=_halves(a.w_q, H), b_q=_halves(a.b_q, H),
            w_k=_halves(a.w_k, keys), b_k=_halves(a.b_k, keys),
        )  # fmt: skip
        words = "neighbouring channels are rotated together, while the weights have pairs in halves"
        yield words, p._replace(**{part: halves}), o
    flipped = not o["rope_interleaved"]
    pairs = ("neighbours", "halves") if o["rope_interleaved"] else ("halves", "neighbours")
    words = f"channels are rotated as {pairs[1]}, while the weights have pairs as {pairs[0]}"
    yield words, p, o | {"rope_interleaved": flipped}
    yield "queries and keys are not rotated", p, o | {"rope": None}
    yield "the rotation goes backwards", p, o | {"rope": (cos, -sin)}
    if len(cos) > 1:
        step, slope = cos[1], sin[1]
        later = cos * step - sin * slope, sin * step + cos * slope
        yield "positions begin at 1, which changes no score", p, o | {"rope": later}
    for base in BASES:
        tables = rope_tables(np.arange(len(cos)), rope_frequencies(2 * cos.shape[-1], base=base))
        other = tuple(table.astype(cos.dtype) for table in tables)
        yield f"the base of the rotation is {base:g}", p, o | {"rope": other}


def _scores(p: Any, o: Options, part: str = "attention") -> Iterator[Mistake]:
    weights = getattr(p, part)
    E = len(weights.w_q) // o["num_heads"]
    scale = E**-0.5 if o["scale"] is None else o["scale"]
    for factor, words in ((1.0, "are not scaled"), (1 / E, "are scaled by 1/E")):
        if factor != scale:
            yield f"the scores {words}", p, o | {"scale": factor}
    if scale != E**-0.5:
        yield "the scores are divided by the root of E", p, o | {"scale": None}
    if o["is_causal"]:
        yield "the causal mask is missing", p, o | {"is_causal": False}
        for by, words in ((-1, "hides a token from itself"), (1, "shows one token too many")):
            yield f"the causal mask {words}", p, o | {"q_offset": o["q_offset"] + by}
    else:
        yield "there is a causal mask", p, o | {"is_causal": True}
    for name in ("mask", "bias", "window", "softcap"):
        if o[name] is not None:
            yield f"the option {name} is missing", p, o | {name: None}
    H, keys = o["num_heads"], o["num_kv_heads"] or o["num_heads"]
    if keys < H:
        names = ("w_k", "b_k", "w_v", "b_v")
        a = {name: getattr(weights, name) for name in names}
        tiled = {
            name: None if w is None else np.concatenate([w] * (H // keys)) for name, w in a.items()
        }
        words = "query head h uses key head h mod Hk instead of h // (H / Hk)"
        yield words, p._replace(**{part: weights._replace(**tiled)}), o | {"num_kv_heads": H}


def _crossings(p: Any, o: Options) -> Iterator[Mistake]:
    a, across = p.cross_attention, o["across"]
    for words, changed, options in _scores(p, across, "cross_attention"):
        said = words.replace("option mask", "option memory_mask")
        yield f"in the cross-attention, {said}", changed, o | {"across": options}
    if a.w_k.shape[1] == a.w_q.shape[1]:
        words = "the cross-attention reads the decoder itself instead of the memory"
        yield words, p, o | {"across": across | {"own": True, "mask": None}}
    if a.w_k.shape == a.w_v.shape:
        words = "keys and values of the cross-attention are exchanged"
        yield words, p._replace(cross_attention=_swapped(a, "k", "v")), o


def _swapped(a: Any, one: str, two: str) -> Any:
    """Return attention with two of its projections in each other's place."""
    pairs = [(f"{kind}_{one}", f"{kind}_{two}") for kind in "wb"]
    return a._replace(
        **{here: getattr(a, there) for x, y in pairs for here, there in ((x, y), (y, x))}
    )


def _weights(p: Any, o: Options) -> Iterator[Mistake]:
    for part in (name for name in p._fields if not name.startswith("norm")):
        arrays = getattr(p, part)
        for name, w in zip(arrays._fields, arrays, strict=True):
            changes: dict[str, Any] = {}
            if w is not None and w.ndim == 1:
                changes["is missing"] = None
            elif w is not None and w.shape[0] == w.shape[1]:
                changes["is transposed"] = w.T
            for words, value in changes.items():
                changed = arrays._replace(**{name: value})
                yield f"{part}.{name} {words}", p._replace(**{part: changed}), o
    yield from _exchanged(p, o)
    network = p.feed_forward
    if len(network) == 3:
        swapped = network._replace(w_gate=network.w_up, w_up=network.w_gate)
        yield "w_gate and w_up are exchanged", p._replace(feed_forward=swapped), o


def _exchanged(p: Any, o: Options) -> Iterator[Mistake]:
    """Yield projections of self-attention exchanged, or cut into heads in the other order."""
    part = "attention" if "attention" in p._fields else "self_attention"
    a, H = getattr(p, part), o["num_heads"]
    for one, two, words in (("q", "k", "queries and keys"), ("k", "v", "keys and values")):
        if getattr(a, f"w_{one}").shape == getattr(a, f"w_{two}").shape:
            yield f"{words} are exchanged", p._replace(**{part: _swapped(a, one, two)}), o
    apart = {
        name: _heads_apart(getattr(a, name), H if name.endswith("q") else o["num_kv_heads"] or H)
        for name in ("w_q", "b_q", "w_k", "b_k", "w_v", "b_v")
    }
    words = "the rows of the projections go from head to head first, not through a head"
    yield words, p._replace(**{part: a._replace(**apart)}), o


def _heads_apart(w: FloatArray | None, heads: int) -> FloatArray | None:
    """Read rows in the order (E, H) as if they were in the order (H, E)."""
    if w is None:
        return None
    return np.swapaxes(w.reshape(-1, heads, *w.shape[1:]), 0, 1).reshape(w.shape)


NORM_WEIGHTS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "is taken as 1 + w, as in Gemma": lambda w: w + w.dtype.type(1),
    "is missing": np.ones_like,
}


def with_weight(norm: Any, change: Callable[[FloatArray], FloatArray]) -> Any:
    """Return a norm whose weight is changed."""
    return norm._replace(weight=change(norm.weight))


def other_norms(o: Options) -> Iterator[tuple[str, Options]]:
    """Yield options of the other norm, or with another epsilon."""
    kind = {"layer": "rms", "rms": "layer"}
    for other in kind:
        yield f"the normalization is that of {other} norm", o | {"norm": other}
    for eps in (1e-3, 1e-5, 1e-6, 1e-8, 1e-12, 0.0):
        if eps != o["eps"]:
            yield f"eps is {eps:g} instead of {o['eps']:g}", o | {"eps": eps}


def block_mistakes(p: Any, o: Options) -> Iterator[Mistake]:
    """Yield what goes wrong in an encoder block."""
    yield from _rotations(p, o)
    yield from _scores(p, o)
    yield from _anywhere(p, o)


def decoder_mistakes(p: Any, o: Options) -> Iterator[Mistake]:
    """Yield what goes wrong in a decoder block."""
    yield from _rotations(p, o, "self_attention")
    yield from _scores(p, o, "self_attention")
    yield from _crossings(p, o)
    yield from _anywhere(p, o)


def _anywhere(p: Any, o: Options) -> Iterator[Mistake]:
    """Yield the mistakes that any block can have."""
    yield from _weights(p, o)
    for words, options in other_norms(o):
        yield words, p, options
    norms = {name: getattr(p, name) for name in p._fields if name.startswith("norm")}
    for some in (*({name: norm} for name, norm in norms.items()), norms):
        for words, change in NORM_WEIGHTS.items():
            changed = {name: with_weight(norm, change) for name, norm in some.items()}
            yield f"the weight of {' and '.join(some)} {words}", p._replace(**changed), o
    place = "after the sums" if o["norm_first"] else "before the sub-layers"
    yield f"the norms come {place}", p, o | {"norm_first": not o["norm_first"]}
    for activation in ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "identity"):
        if activation != o["activation"]:
            yield f"the activation is {activation}", p, o | {"activation": activation}
