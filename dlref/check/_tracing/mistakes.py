"""Mistakes in blocks: messages, and the parameters and options that make the mistake."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..._core.arguments import FloatArray, as_array
from ...attention import LatentAttentionParams
from ...positions import rope_permutation
from ...transformer import GatedDeltaParams, GatedFeedForwardParams
from ...transformer._structure import norm_fields, sublayer_fields
from .common import Mistakes, Options
from .delta import delta_mistakes
from .fused import fused_attention, fused_networks
from .latent import latent_mistakes
from .pieces import attention_pieces, network_pieces, norm_pieces


def _reordered(w: FloatArray | None, heads: int, *, halves: bool) -> FloatArray | None:
    """Reorder the rows of each head from neighbors to halves, or from halves to neighbors."""
    if w is None:
        return None
    rows = w.reshape(heads, len(w) // heads, -1)
    order = rope_permutation(rows.shape[1])
    return rows[:, order if halves else np.argsort(order)].reshape(w.shape)


#: Rotations whose pairs and tables of angles do not fit each other, and their layouts.
TABLES = {
    "neighbors by halves": ("neighboring channels", "halves"),
    "halves by neighbors": ("channels in halves", "neighbors"),
}


def _other_tables(of_weights: str) -> Iterator[tuple[str, str]]:
    """Yield messages of rotations by other tables, and the names that the steps have for them."""
    for wrong, (turned, of_tables) in TABLES.items():
        message = f"{turned} are rotated together by tables of angles in {of_tables}"
        yield message + of_weights, wrong


def _rotations(p: Any, o: Options, part: str = "attention") -> Mistakes:
    for message, other in o.get("scalings", {}).items():
        yield message, p, o | {"rope": other}
    if o["rope"] is None:
        return
    a, H = getattr(p, part), o["num_heads"]
    keys = o["num_kv_heads"] or H
    cos, sin = (as_array("rope", table) for table in o["rope"])
    if 2 * cos.shape[-1] == len(a.w_q) // H:
        message = "channels are rotated as halves, while the weights have pairs as neighbors"
        if o["rope_interleaved"]:
            message = (
                "neighboring channels are rotated together, while the weights have pairs in halves"
            )
        reordered = {
            name: _reordered(getattr(a, name), n, halves=o["rope_interleaved"])
            for name, n in {"w_q": H, "b_q": H, "w_k": keys, "b_k": keys}.items()
        }
        moved = p._replace(**{part: a._replace(**reordered)})
        yield message, moved, o
        yield from _misordered(p, o, part)
        place = "halves" if o["rope_interleaved"] else "neighbors"
        for message, wrong in _other_tables(f", while the weights have pairs as {place}"):
            yield message, moved, o | {"wrong": wrong}
    pairs = ("neighbors", "halves") if o["rope_interleaved"] else ("halves", "neighbors")
    message = f"channels are rotated as {pairs[1]}, while the weights have pairs as {pairs[0]}"
    yield message, p, o | {"rope_interleaved": not o["rope_interleaved"]}
    for message, wrong in _other_tables(""):
        yield message, p, o | {"wrong": wrong}
    yield "queries and keys are not rotated", p, o | {"rope": None}
    if 2 * cos.shape[-1] < len(a.w_q) // H:
        message = "the last channels of a head are rotated, not the first ones"
        yield message, p, o | {"wrong": "last channels"}
        if not o["rope_interleaved"]:
            message = "the pairs of channels are halves of a head, not of its rotated channels"
            yield message, p, o | {"rope": _padded(cos, sin, len(a.w_q) // H)}
    yield "keys are not rotated", p, o | {"wrong": "keys"}
    if len(cos) >= H:
        message = "the number of the head is taken as the position"
        yield message, p, o | {"wrong": "places are heads"}
    if 2 * cos.shape[-1] <= len(a.w_v) // keys:
        yield "values are rotated, too", p, o | {"wrong": "values"}
        message = f"values are rotated, too, as {pairs[1]}"
        yield message, p, o | {"wrong": "values by other pairs"}
    yield "the rotation goes backwards", p, o | {"rope": (cos, -sin)}
    yield "the rotation lacks its terms with the sine", p, o | {"rope": (cos, np.zeros_like(sin))}
    if len(cos) > 1:
        step, slope = cos[1] / cos[0], sin[1] / cos[0]
        later = cos * step - sin * slope, sin * step + cos * slope
        before = cos * step + sin * slope, sin * step - cos * slope
        yield "positions begin at 1, which changes no score", p, o | {"rope": later}
        for tables, place in ((later, "later"), (before, "earlier")):
            message = f"keys are rotated for positions that are one {place} than those of queries"
            yield message, p, o | {"rope_of_keys": tables}
        yield "positions are counted from the end", p, o | {"rope": (cos[::-1], sin[::-1])}


def _padded(cos: FloatArray, sin: FloatArray, width: int) -> tuple[FloatArray, FloatArray]:
    """Return tables for all channels of a head, whose last pairs stay where they are."""
    rest = (len(cos), width // 2 - cos.shape[-1])
    last = np.ones(rest, cos.dtype), np.zeros(rest, sin.dtype)
    first, second = (np.concatenate(pair, axis=-1) for pair in zip((cos, sin), last, strict=True))
    return first, second


#: Loaders bring pairs of channels from one order into the other; `_reordered` asks for `halves`.
ORDERS = {True: ("neighbors", "in halves"), False: ("halves", "as neighbors")}


#: Rows that a loader may bring in order alone, and the rest.
ALONE = (
    ("w_q", ("w_q", "b_q"), "w_k"),
    ("w_k", ("w_k", "b_k"), "w_q"),
    ("b_q and b_k", ("b_q", "b_k"), "the weights"),
)


def _misordered(p: Any, o: Options, part: str) -> Mistakes:
    """Yield loaders that bring pairs of channels in order by other heads, or in some rows alone."""
    a, H = getattr(p, part), o["num_heads"]
    heads: dict[str, int] = {"q": H, "k": o["num_kv_heads"] or H}

    def rows(names: Iterable[str], order: Callable[[Any, str], Any]) -> Any:
        changed = {name: order(getattr(a, name), name[-1]) for name in names}
        return p._replace(**{part: a._replace(**changed)})

    def alone(w: FloatArray | None, kind: str) -> FloatArray | None:
        return _reordered(w, heads.get(kind, heads["k"]), halves=halves)

    def of_others(w: FloatArray | None, kind: str) -> FloatArray | None:
        # The file has the order before; the weights that are traced have either.
        if halves == o["rope_interleaved"]:
            return _reordered(_reordered(w, count, halves=halves), heads[kind], halves=not halves)
        return _reordered(_reordered(w, heads[kind], halves=not halves), count, halves=halves)

    for halves, (before, after) in ORDERS.items():
        other = ORDERS[not halves][1]
        for said, names, rest in ALONE:
            if any(getattr(a, name) is not None for name in names):
                place = f"pairs of channels are {after}, but {other} in {rest}, as they are rotated"
                yield f"{said}: {place}", rows(names, alone), o
        if len(a.w_v) // heads["k"] % 2 == 0:
            message = f"the rows of w_v are reordered from {before} to pairs {after}, too"
            yield message, rows(("w_v", "b_v"), alone), o
        for c, right in heads.items():
            for count in sorted({1, *heads.values()} - {right}):
                if len(getattr(a, f"w_{c}")) % (2 * count) == 0:
                    message = f"the rows of w_{c} are reordered from {before} to pairs {after}"
                    message += f" as if there were {count} heads, not {right}"
                    yield message, rows((f"w_{c}", f"b_{c}"), of_others), o


def _scores(p: Any, o: Options, part: str = "attention") -> Mistakes:
    weights = getattr(p, part)
    E = len(weights.w_q) // o["num_heads"]
    scale = E**-0.5 if o["scale"] is None else o["scale"]
    for factor, message in (
        (1.0, "are not scaled"),
        (1 / E, "are scaled by 1/E"),
        (E**0.5, "are multiplied by the root of E"),
        (len(weights.w_q) ** -0.5, "are divided by the root of H E instead of E"),
    ):
        if factor not in (scale, E**-0.5):
            yield f"the scores {message}", p, o | {"scale": factor}
    if scale != E**-0.5:
        yield "the scores are divided by the root of E", p, o | {"scale": None}
    if o["is_causal"]:
        yield "the causal mask is missing", p, o | {"is_causal": False}
        if getattr(getattr(p, part), "sink", None) is None:
            message = "the causal mask multiplies the weights after the softmax"
            yield message, p, o | {"wrong": "masked weights"}
        for by, message in ((-1, "hides a token from itself"), (1, "shows one token too many")):
            yield f"the causal mask {message}", p, o | {"q_offset": o["q_offset"] + by}
    else:
        yield "there is a causal mask", p, o | {"is_causal": True}
    for name in ("mask", "bias", "window", "chunk", "softcap"):
        if o[name] is not None:
            yield f"the option {name} is missing", p, o | {name: None}
    if o["softcap"] is not None:
        yield "the scores are clipped, not capped by a tanh", p, o | {"wrong": "clipped"}
        message = "the scores are capped before they are multiplied by their scale"
        yield message, p, o | {"softcap": o["softcap"] * scale}
    yield from _biases(p, o, E**-0.5 if scale == 1 else scale)
    yield from _tiled(p, o, part)


def _tiled(p: Any, o: Options, part: str) -> Mistakes:
    """Yield heads of keys that repeat in turn, of keys or values alone or of both."""
    weights, H = getattr(p, part), o["num_heads"]
    keys = o["num_kv_heads"] or H
    if keys == H:
        return
    names, of_all = ["w_k", "b_k", "w_v", "b_v"], False
    if weights.k_norm is not None and weights.k_norm.shape != (len(weights.w_q) // H,):
        names, of_all = [*names, "k_norm"], True
    a = {name: getattr(weights, name) for name in names}
    tiled = {
        name: None if w is None else np.concatenate([w] * (H // keys)) for name, w in a.items()
    }
    for which, said in {"kv": "key head", "k": "keys of head", "v": "values of head"}.items():
        if of_all and which == "k":
            continue
        moved = [name for name in names if name.split("_")[0 if "norm" in name else 1] in which]
        mixed = _repeated(a, keys, H) | {name: tiled[name] for name in moved}
        message = f"query head h uses {said} h mod Hk instead of h // (H / Hk)"
        yield message, p._replace(**{part: weights._replace(**mixed)}), o | {"num_kv_heads": H}

    for pick, said in ((_mean_head, "the mean of all heads"), (_first_head, "the first head")):
        one = {name: None if w is None else pick(w, keys) for name, w in a.items()}
        message = f"all queries use {said} of keys and values"
        yield message, p._replace(**{part: weights._replace(**one)}), o | {"num_kv_heads": 1}


def _mean_head(w: Any, heads: int) -> Any:
    return np.asarray(w).reshape(heads, -1, *w.shape[1:]).mean(0)


def _first_head(w: Any, heads: int) -> Any:
    return np.asarray(w)[: len(w) // heads]


def _repeated(arrays: Mapping[str, Any], keys: int, heads: int) -> dict[str, Any]:
    """Return the rows of each head of keys once for each of its heads of queries."""

    def one(w: Any) -> Any:
        rows = np.asarray(w).reshape(keys, -1, *w.shape[1:])
        return np.repeat(rows, heads // keys, axis=0).reshape(-1, *w.shape[1:])

    return {name: None if w is None else one(w) for name, w in arrays.items()}


def _biases(p: Any, o: Options, scale: float) -> Mistakes:
    """Yield the bias of the scores for exchanged positions, or scaled as they are."""
    if o["bias"] is None:
        return
    bias = as_array("bias", o["bias"])
    if bias.ndim > 1 and bias.shape[-1] == bias.shape[-2]:
        message = "the bias has queries and keys exchanged"
        yield message, p, o | {"bias": np.ascontiguousarray(np.swapaxes(bias, -1, -2))}
    message = f"the bias is multiplied by {scale:.4g}, like scores"
    yield message, p, o | {"bias": bias * bias.dtype.type(scale)}


def _crossings(p: Any, o: Options) -> Mistakes:
    a, across = p.cross_attention, o["across"]
    for message, changed, options in _scores(p, across, "cross_attention"):
        said = message.replace("option mask", "option memory_mask")
        yield f"in the cross-attention, {said}", changed, o | {"across": options}
    if o.get("memory_bias") is not None:
        message = "the cross-attention has the bias of self-attention"
        yield message, p, o | {"across": across | {"bias": o["memory_bias"]}}
    if a.w_k.shape[1] == a.w_q.shape[1]:
        message = "the cross-attention reads the decoder itself instead of the memory"
        yield message, p, o | {"across": across | {"own": True, "mask": None}}
    if a.w_k.shape == a.w_v.shape:
        message = "keys and values of the cross-attention are exchanged"
        yield message, p._replace(cross_attention=_swapped(a, "k", "v")), o


def _swapped(a: Any, first: str, second: str) -> Any:
    """Return attention with two of its projections in each other's place."""
    pairs = [(f"{kind}_{first}", f"{kind}_{second}") for kind in "wb"]
    return a._replace(
        **{here: getattr(a, there) for x, y in pairs for here, there in ((x, y), (y, x))}
    )


def _weights(p: Any, o: Options) -> Mistakes:
    for part in sublayer_fields(type(p)):
        arrays = getattr(p, part)
        for message, changes in _changes(part, arrays):
            yield message, p._replace(**{part: arrays._replace(**changes)}), o
    network = p.feed_forward
    if isinstance(network, GatedFeedForwardParams):
        yield "the activation is that of up instead of gate", p, o | {"wrong": "up"}
        message = "the activation is applied to the product of gate and up, not to the gate"
        yield message, p, o | {"wrong": "product"}


def _changes(part: str, arrays: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield biases that are missing and weights that are transposed, one and several at a time."""
    there = {name: w for name, w in arrays._asdict().items() if hasattr(w, "ndim")}
    needed = there if isinstance(arrays, LatentAttentionParams | GatedDeltaParams) else {}
    biases = [name for name, w in there.items() if w.ndim == 1 and name[0] == "b"]
    square = [name for name, w in there.items() if w.ndim == 2 and w.shape[0] == w.shape[1]]
    for name in (
        n for n, w in there.items() if w.ndim == 1 and n not in (*needed, "sink", "correction")
    ):
        yield f"{part}.{name} is missing", {name: None}
    for name in square:
        yield f"{part}.{name} is transposed", {name: there[name].T}
    for kind, some, message in (("biases", biases, "missing"), ("weights", square, "transposed")):
        of_sources = [name for name in some if name[-1] in "qkv"]
        groups = {f"all {kind} of {part}": some}
        groups[f"the {kind} of queries, keys and values in {part}"] = of_sources
        for said, names in groups.items():
            if len(names) > 1:
                yield (
                    f"{said} are {message}",
                    {n: None if n[0] == "b" else there[n].T for n in names},
                )


def _exchanged(p: Any, o: Options, part: str) -> Mistakes:
    """Yield projections of self-attention exchanged, or cut into heads in the other order."""
    a, H = getattr(p, part), o["num_heads"]
    if a.w_q.shape == a.w_o.shape:
        message = "queries and outputs are exchanged"
        yield message, p._replace(**{part: _swapped(a, "q", "o")}), o
    message = "the columns of w_o go from head to head first, not through a head"
    turned: Any = _heads_apart(np.asarray(a.w_o).T, H)
    yield message, p._replace(**{part: a._replace(w_o=np.ascontiguousarray(turned.T))}), o
    apart = {
        name: _heads_apart(getattr(a, name), H if name.endswith("q") else o["num_kv_heads"] or H)
        for name in ("w_q", "b_q", "w_k", "b_k", "w_v", "b_v")
    }
    for which, what in {"qkv": "the projections", "q": "w_q", "k": "w_k", "v": "w_v"}.items():
        some = {name: w for name, w in apart.items() if name[-1] in which}
        message = f"the rows of {what} go from head to head first, not through a head"
        yield message, p._replace(**{part: a._replace(**some)}), o


#: Mistakes that no parameter makes, by the names that the steps have for them.
WRONG = {
    "cut": "projections are cut into heads by a reshape that mixes heads and positions",
    "merge": "heads are joined by a reshape that mixes heads and positions",
    "axis": "the softmax goes over the queries instead of the keys",
    "quick": "the activation is GELU by a sigmoid, x sigmoid(1.702 x)",
    "left out 1": "the first sum leaves out the input of the block",
    "left out 2": "the second sum leaves out what the first one gave",
    "left out 3": "the third sum leaves out what the second one gave",
    "normed": "the sums take the normalized input of a sub-layer, not the input itself",
    "normed 1": "the first sum takes the normalized input of the attention, not the input itself",
    "normed 2": "the second sum takes the normalized input of its sub-layer, not the input itself",
    "given": "the sums after the first one take the input of the block, not the sum before",
    "unnormed": "the sub-layers read their inputs before the norms",
    "parallel": "all sub-layers read the input of the block",
}


#: Mistakes among these that only a block with its norms first can have.
NORMED = ("normed", "normed 1", "normed 2", "unnormed", "parallel")


def _heads_apart(w: FloatArray | None, heads: int) -> FloatArray | None:
    """Read rows in the order (E, H) as if they were in the order (H, E)."""
    if w is None:
        return None
    return np.swapaxes(w.reshape(-1, heads, *w.shape[1:]), 0, 1).reshape(w.shape)


def changed_norms(some: Mapping[str, Any], o: Options) -> Iterator[tuple[str, Any, Options]]:
    """Yield norms with other weights, without biases, or that divide by another sum of squares."""
    some = {name: norm for name, norm in some.items() if norm.weight is not None}
    names, offset = " and ".join(some), o["norm_offset"]
    if not some:  # OLMo's have no parameters
        return

    def weighed(change: Callable[..., FloatArray], by: float) -> dict[str, Any]:
        weights = {name: (norm.weight, norm.weight.dtype.type(by)) for name, norm in some.items()}
        return {name: some[name]._replace(weight=change(*pair)) for name, pair in weights.items()}

    if not offset:
        message = f"the weight of {names} is taken as 1 + w, as in Gemma"
        yield message, weighed(np.add, 1), o
    missing = weighed(lambda w, by: np.ones_like(w) - by, offset)
    yield f"the weight of {names} is missing", missing, o
    if offset:
        message = f"the weight of {names} is taken as w, not as 1 + w"
        yield message, weighed(np.subtract, offset), o
        message = f"the offset of the weight of {names} is added twice"
        yield message, weighed(np.add, offset), o
    if all(norm.bias is not None for norm in some.values()):
        # zeros, because None would make it another norm
        none = {name: norm._replace(bias=np.zeros_like(norm.bias)) for name, norm in some.items()}
        yield f"the bias of {names} is missing", none, o
    D = len(next(iter(some.values())).weight)
    for n, message in ((max(D - 1, 1), "n - 1"), (1, "1")):  # the multiple takes eps along
        said = f"the sum of squares is divided by {message} instead of n in {names}"
        yield said, weighed(np.multiply, (D / n) ** -0.5), o | {"eps": o["eps"] * n / D}


def other_norms(o: Options) -> Iterator[tuple[str, Options]]:
    """Yield options of the other norm, or with next to no epsilon; `fits_of` finds others."""
    for other in ("layer", "rms"):
        yield f"the normalization is that of {other} norm", o | {"norm": other}
    for eps in (1e-12, 0.0):
        yield f"eps is {eps:g} instead of {o['eps']:g}", o | {"eps": eps}


def block_mistakes(p: Any, o: Options) -> Mistakes:
    yield from _of_attention(p, o, "attention")
    yield from _anywhere(p, o)


def decoder_mistakes(p: Any, o: Options) -> Mistakes:
    yield from _of_attention(p, o, "self_attention")
    yield from _crossings(p, o)
    yield from _anywhere(p, o)


def _of_attention(p: Any, o: Options, part: str) -> Mistakes:
    """Yield the mistakes of self-attention, whatever kind it is."""
    yield from fused_attention(p, o, part)
    if isinstance(getattr(p, part), LatentAttentionParams):
        yield from latent_mistakes(p, o, part)
    elif isinstance(getattr(p, part), GatedDeltaParams):
        yield from delta_mistakes(p, o, part)
    else:
        yield from _rotations(p, o, part)
        yield from _scores(p, o, part)
        yield from attention_pieces(p, o, part)
        yield from _exchanged(p, o, part)


def _anywhere(p: Any, o: Options) -> Mistakes:
    """Yield the mistakes that any block can have."""
    yield from fused_networks(p, o)
    yield from _weights(p, o)
    yield from network_pieces(p, o)
    yield from norm_pieces(p, o)
    for message, options in other_norms(o):
        yield message, p, options
    norms = {name: getattr(p, name) for name in norm_fields(type(p))}
    norms = {name: norm for name, norm in norms.items() if norm is not None}
    for some in (*({name: norm} for name, norm in norms.items()), *([norms] if norms else [])):
        for message, changed, options in changed_norms(some, o):
            yield message, p._replace(**changed), options
    for first, second in itertools.combinations(norms, 2):
        swapped = p._replace(**{first: norms[second], second: norms[first]})
        yield f"{first} and {second} are exchanged", swapped, o
        for one, other in ((first, second), (second, first)):
            yield f"{other} has the parameters of {one}", p._replace(**{other: norms[one]}), o
    place = "after the sums" if o["norm_first"] else "before the sub-layers"
    yield f"the norms come {place}", p, o | {"norm_first": not o["norm_first"]}
    for activation in ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "identity"):
        if activation != o["activation"]:
            yield f"the activation is {activation}", p, o | {"activation": activation}
    for wrong, message in WRONG.items():
        if wrong == "parallel" and o["parallel"]:
            said = "the network reads the sum of the attention, not the input of the block"
            yield said, p, o | {"wrong": wrong}
        elif o["norm_first"] or wrong not in NORMED:
            yield message, p, o | {"wrong": wrong}
