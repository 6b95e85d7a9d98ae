r"""Every intermediate of a model by name, and where a port leaves the path."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._core.arguments import FloatArray, as_array, as_number, check_mapping, shown
from .._core.pytree import as_float_trees
from ..activations._by_name import by_name
from ..attention import attention_scores, attention_weights, padding_mask
from ..neurons import LinearParams, linear, mlp
from ..normalization import layer_norm, rms_norm
from ..positions import (
    alibi_bias,
    alibi_slopes,
    apply_rope,
    rope_attention_factor,
    rope_frequencies,
    rope_permutation,
    rope_tables,
    sinusoidal,
    t5_bias,
)
from ..transformer import (
    NormParams,
    decoder,
    decoder_block,
    encoder,
    encoder_block,
    encoder_decoder_model,
    language_model,
    sequence_classifier,
)
from ._candidates import html_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["TraceDifference", "first_difference", "trace"]

#: Names whose channels may be kept as halves instead of neighbours.
ROTATED = ("attention.q", "attention.k", "attention.q_rotated", "attention.k_rotated")
ATTENTION = ("mask", "bias", "is_causal", "q_offset", "window", "scale", "softcap")
#: What cross-attention has of them, beside the mask of the memory.
ACROSS = {"bias": None, "is_causal": False, "q_offset": 0, "window": None, "scale": None}
ACROSS |= {"softcap": None, "rope": None, "own": False}
GATES = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}
GATES |= {"reglu": "relu", "glu": "sigmoid", "bilinear": "identity"}

Options = dict[str, Any]
Steps = dict[str, FloatArray]
Mistake = tuple[str, Any, Options]  # words, parameters, options


class Trace(dict[str, FloatArray]):
    """Intermediates by name, and what they would be after a known mistake."""

    def __init__(self) -> None:
        super().__init__()
        self.mistakes: dict[str, Callable[[], Iterator[tuple[str, Steps]]]] = {}

    def add(self, prefix: str, run: Callable[..., Steps], mistakes: Any, *arguments: Any) -> Any:
        """Run a part, keep its steps, and return the last one."""
        steps = run(*arguments)

        def wrong() -> Iterator[tuple[str, Steps]]:
            for words, *changed in mistakes(*arguments[1:]):
                found = run(arguments[0], *changed)
                for step in steps.keys() - found.keys():  # there is no rotation
                    found[step] = found[step.removesuffix("_rotated")]
                yield words, {prefix + step: value for step, value in found.items()}

        for step, value in steps.items():
            self[prefix + step] = value.copy()  # a block's output is also its last sum
            self.mistakes[prefix + step] = wrong
        return value


# The blocks, written out.


def _normed(x: FloatArray, p: Any, o: Options) -> FloatArray:
    if o["norm"] == "layer" or (o["norm"] is None and p.bias is not None):
        return layer_norm(x, *p, eps=o["eps"])
    y = rms_norm(x, p.weight, eps=o["eps"])
    return y if p.bias is None else y + p.bias  # a bias only after a mistake


def _heads(x: FloatArray, count: int) -> FloatArray:
    width = x.shape[-1] // count  # not -1, which no text of no tokens has
    return np.swapaxes(x.reshape(*x.shape[:-1], count, width), -2, -3)


def _attend(x: FloatArray, p: Any, o: Options, y: Any = None, part: str = "attention") -> Steps:
    """Return the steps of attention to `y`, of self-attention if there is none."""
    H, y = o["num_heads"], x if y is None else y
    keys = o["num_kv_heads"] or H
    q, k, v = (
        _heads(linear(x, p.w_q, p.b_q), H),
        _heads(linear(y, p.w_k, p.b_k), keys),
        _heads(linear(y, p.w_v, p.b_v), keys),
    )
    steps: Steps = {"q": q, "k": k, "v": v}
    if o["rope"] is not None:
        cos, sin = o["rope"]
        tables = {"interleaved": o["rope_interleaved"], "rotary_dim": 2 * np.shape(cos)[-1]}
        q, k = (np.asarray(apply_rope(a, cos, sin, **tables)) for a in (q, k))
        steps |= {"q_rotated": q, "k_rotated": k}
    options = {name: o[name] for name in ATTENTION}
    steps["scores"] = attention_scores(q, k, **options)
    steps["weights"] = attention_weights(q, k, **options)
    steps["averages"] = steps["weights"] @ np.repeat(v, H // keys, axis=-3)
    merged = np.swapaxes(steps["averages"], -2, -3)
    merged = merged.reshape(*merged.shape[:-2], H * merged.shape[-1])
    steps["out"] = linear(merged, p.w_o, p.b_o)
    return {f"{part}.{name}": value for name, value in steps.items()}


def _network(x: FloatArray, p: Any, o: Options) -> Steps:
    """Return the steps of a feed-forward network."""
    f = by_name(o["activation"]).map
    if len(p) == 3:  # gated
        steps: Steps = {
            "feed_forward.gate": linear(x, p.w_gate),
            "feed_forward.up": linear(x, p.w_up),
        }
        hidden: Any = f(steps["feed_forward.gate"]) * steps["feed_forward.up"]
        out = linear(hidden, p.w_down)
    else:
        steps = {"feed_forward.inner": linear(x, p.w1, p.b1)}
        hidden = f(steps["feed_forward.inner"])
        out = linear(hidden, p.w2, p.b2)
    return steps | {"feed_forward.hidden": hidden, "feed_forward.out": out}


def _sublayers(x: FloatArray, parts: Any, o: Options) -> Steps:
    """Return the steps of sub-layers with their norms and sums, the output last."""
    steps: Steps = {}
    for i, (run, norm) in enumerate(parts, 1):
        z = x
        if o["norm_first"]:
            z = steps[f"norm{i}"] = _normed(x, norm, o)
        steps |= run(z)
        x = steps[f"sum{i}"] = np.asarray(x + list(steps.values())[-1])
        if not o["norm_first"]:
            x = steps[f"norm{i}"] = _normed(x, norm, o)
    return steps | {"out": x}


def _block(x: FloatArray, p: Any, o: Options) -> Steps:
    """Return the steps of an encoder block."""
    attend = (lambda z: _attend(z, p.attention, o)), p.norm1
    network = (lambda z: _network(z, p.feed_forward, o)), p.norm2
    return _sublayers(x, (attend, network), o)


def _decoder_block(given: tuple[FloatArray, FloatArray], p: Any, o: Options) -> Steps:
    """Return the steps of a decoder block, which is given its input and the memory."""
    x, memory = given
    across = o["across"]

    def read(z: FloatArray) -> Steps:
        source = z if across["own"] else memory
        return _attend(z, p.cross_attention, across, source, "cross_attention")

    attend = (lambda z: _attend(z, p.self_attention, o, part="self_attention")), p.norm1
    network = (lambda z: _network(z, p.feed_forward, o)), p.norm3
    return _sublayers(x, (attend, (read, p.norm2), network), o)


# What goes wrong in them.


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


def _with_weight(norm: Any, change: Callable[[FloatArray], FloatArray]) -> Any:
    return norm._replace(weight=change(norm.weight))


def _norms(o: Options) -> Iterator[tuple[str, Options]]:
    kind = {"layer": "rms", "rms": "layer"}
    for other in kind:
        yield f"the normalization is that of {other} norm", o | {"norm": other}
    for eps in (1e-3, 1e-5, 1e-6, 1e-8, 1e-12, 0.0):
        if eps != o["eps"]:
            yield f"eps is {eps:g} instead of {o['eps']:g}", o | {"eps": eps}


def _block_mistakes(p: Any, o: Options) -> Iterator[Mistake]:
    yield from _rotations(p, o)
    yield from _scores(p, o)
    yield from _anywhere(p, o)


def _decoder_mistakes(p: Any, o: Options) -> Iterator[Mistake]:
    yield from _rotations(p, o, "self_attention")
    yield from _scores(p, o, "self_attention")
    yield from _crossings(p, o)
    yield from _anywhere(p, o)


def _anywhere(p: Any, o: Options) -> Iterator[Mistake]:
    """Yield the mistakes that any block can have."""
    yield from _weights(p, o)
    for words, options in _norms(o):
        yield words, p, options
    norms = {name: getattr(p, name) for name in p._fields if name.startswith("norm")}
    for some in (*({name: norm} for name, norm in norms.items()), norms):
        for words, change in NORM_WEIGHTS.items():
            changed = {name: _with_weight(norm, change) for name, norm in some.items()}
            yield f"the weight of {' and '.join(some)} {words}", p._replace(**changed), o
    place = "after the sums" if o["norm_first"] else "before the sub-layers"
    yield f"the norms come {place}", p, o | {"norm_first": not o["norm_first"]}
    for activation in ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "identity"):
        if activation != o["activation"]:
            yield f"the activation is {activation}", p, o | {"activation": activation}


# Models.


def _defaults(model: Any, options: Options) -> Options:
    """Return all options of a block or a stack."""
    known = inspect.signature(model).parameters.values()
    defaults = {p.name: p.default for p in known if p.kind is p.KEYWORD_ONLY}
    for name in ("dropout", "attention_dropout", "embedding_dropout"):
        if options.get(name) is not None:
            msg = f"Argument {name!r} must be None: a trace is of a model at inference."
            raise ValueError(msg)
    return defaults | options


def _last_norm(x: FloatArray, p: Any, o: Options) -> Steps:
    return {"norm": _normed(x, p, o)}


def _last_mistakes(p: Any, o: Options) -> Iterator[Mistake]:
    for words, options in _norms(o):
        yield words, p, options
    for words, change in NORM_WEIGHTS.items():
        yield f"the weight of the last norm {words}", _with_weight(p, change), o


def _check_named(name: str, p: Any, kind: str = "EncoderBlockParams") -> None:
    """Raise unless the parameters of a block are the named tuples, not plain ones."""
    if not all(hasattr(part, "_fields") for part in (p, *p)):
        msg = f"Argument {name!r} must be {kind} of named tuples, not plain tuples."
        raise TypeError(msg)


def _check_model(p: Any, kind: str) -> None:
    """Raise unless the parameters of a model are a named tuple."""
    if not hasattr(p, "_fields"):
        msg = f"Argument 'params' must be {kind}, a named tuple, not a plain one."
        raise TypeError(msg)


def _add_norm(found: Trace, x: Any, norm: Any, o: Options, prefix: str = "") -> Any:
    if norm is None:
        return x
    return found.add(prefix, _last_norm, _last_mistakes, x, NormParams(*norm), o)


def _add_blocks(found: Trace, x: Any, blocks: Any, norm: Any, o: Options, prefix: str = "") -> Any:
    where = f"params.{prefix[:-1]}" if prefix else "blocks"
    for i, p in enumerate(blocks):
        _check_named(f"{where}[{i}]", p)
        x = found.add(f"{prefix}blocks.{i}.", _block, _block_mistakes, x, p, o)
    return _add_norm(found, x, norm, o, prefix)


def _add_decoder(
    found: Trace, x: Any, memory: Any, blocks: Any, norm: Any, o: Options, prefix: str = ""
) -> Any:
    where = f"params.{prefix[:-1]}" if prefix else "blocks"
    for i, p in enumerate(blocks):
        _check_named(f"{where}[{i}]", p, "DecoderBlockParams")
        name = f"{prefix}blocks.{i}."
        x = found.add(name, _decoder_block, _decoder_mistakes, (x, memory), p, o)
    return _add_norm(found, x, norm, o, prefix)


def _embed(tokens: Any, p: Any, config: Any) -> Steps:
    return _positioned(p.embedding[tokens], p, config)


def _embed_text(tokens: Any, p: Any, config: Any) -> Steps:
    """Return the steps of a text after the token of its class."""
    first = np.broadcast_to(p.class_token, (*tokens.shape[:-1], 1, config.width))
    return _positioned(np.concatenate([first, p.embedding[tokens]], axis=-2), p, config)


def _positioned(x: FloatArray, p: Any, config: Any) -> Steps:
    x = x * x.dtype.type(config.embedding_scale)
    T = x.shape[-2]
    steps: Steps = {"embedding": x}
    if config.positions == "learned":
        steps["positioned"] = x + p.positions[:T]
    if config.positions == "sinusoidal":
        steps["positioned"] = x + sinusoidal(T, config.width).astype(x.dtype)
    return steps


def _embed_mistakes(p: Any, config: Any) -> Iterator[tuple[Any, ...]]:
    root = p.embedding.dtype.type(config.width**0.5)
    factor, words = (
        (1 / root, "not multiplied") if config.scale_embeddings else (root, "multiplied")
    )
    changed = p._replace(embedding=p.embedding * factor)
    yield f"the embeddings are {words} by the root of D", changed, config
    if config.positions == "learned":
        for start in (1, 2):
            later = np.roll(p.positions, -start, axis=0)
            yield f"positions begin at {start}", p._replace(positions=later), config


def _add_head(found: Trace, x: FloatArray, p: Any) -> None:
    """Add the logits; before the last norm x was the step before the last one."""
    raw = x if p.norm is None else [*found.values()][-2]
    found.add("", _head, functools.partial(_head_mistakes, raw), x, p, None)


def _head(x: FloatArray, p: Any, instead: FloatArray | None) -> Steps:
    x = x if instead is None else instead
    return {"logits": linear(x, p.embedding if p.head is None else p.head)}


def _head_mistakes(raw: FloatArray, p: Any, _: None) -> Iterator[tuple[Any, ...]]:
    if p.head is not None:
        yield "the head is the matrix of embeddings", p._replace(head=None), None
    yield "the last norm is missing", p, raw


def _class(x: FloatArray, p: Any) -> Steps:
    return {"logits": linear(np.ascontiguousarray(x[..., 0, :]), p.w_head, p.b_head)}


def _class_mistakes(p: Any) -> Iterator[tuple[Any, ...]]:
    if p.b_head is not None:
        yield "b_head is missing", p._replace(b_head=None)


def _places(config: Any, table: Any, T: int, dtype: Any, *, causal: bool = True) -> Options:
    """Return the options of attention that a scheme of positions makes."""
    if config.positions == "rope":
        scaling = config.rope_scaling
        frequencies = rope_frequencies(config.head_width, base=config.rope_base, scaling=scaling)
        factor = rope_attention_factor(scaling)
        cos, sin = rope_tables(np.arange(T), frequencies, attention_factor=factor)
        return {"rope": (cos.astype(dtype), sin.astype(dtype))}
    if config.positions == "alibi":
        slopes = alibi_slopes(config.heads)
        return {"bias": alibi_bias(slopes, T, T, symmetric=not causal).astype(dtype)}
    if config.positions == "t5":
        return {"bias": np.asarray(t5_bias(table, T, T, bidirectional=not causal))}
    return {}


def _language_model(tokens: Any, params: Any, config: Any) -> Trace:
    ids, found = as_array("tokens", tokens), Trace()
    _check_model(params, "LanguageModelParams")
    _, [params] = as_float_trees({"params": params})
    x = found.add("", _embed, _embed_mistakes, ids, params, config)
    o = _of_config(config, params.positions, x, causal=True)
    x = _add_blocks(found, x, params.blocks, params.norm, o)
    _add_head(found, x, params)
    return found


def _of_config(config: Any, table: Any, x: FloatArray, *, causal: bool) -> Options:
    """Return the options of the blocks of a model."""
    return _defaults(
        encoder,
        {
            "num_heads": config.heads,
            "num_kv_heads": config.kv_heads,
            "norm_first": config.norm_first,
            "norm": config.norm,
            "activation": GATES.get(config.activation, config.activation),
            "is_causal": causal,
            "eps": config.eps,
            **_places(config, table, x.shape[-2], x.dtype, causal=causal),
        },
    )


def _sequence_classifier(
    tokens: Any, params: Any, config: Any, *, lengths: Any = None, **dropout: Any
) -> Trace:
    ids, found = as_array("tokens", tokens), Trace()
    _defaults(encoder, dropout)
    _check_model(params, "SequenceClassifierParams")
    _, [params] = as_float_trees({"params": params})
    x = found.add("", _embed_text, _embed_mistakes, ids, params, config)
    o = _of_config(config, params.positions, x, causal=False)
    if lengths is not None:
        o["mask"] = padding_mask(as_array("lengths", lengths) + 1, x.shape[-2])
    x = _add_blocks(found, x, params.blocks, params.norm, o)
    found.add("", _class, _class_mistakes, x, params)
    return found


def _encoder_decoder(
    source: Any, target: Any, params: Any, config: Any, *, lengths: Any = None, **dropout: Any
) -> Trace:
    ids, answer, found = as_array("source", source), as_array("target", target), Trace()
    _defaults(decoder, dropout)
    _check_model(params, "EncoderDecoderParams")
    _, [p] = as_float_trees({"params": params})
    there, S = p._replace(positions=p.source_positions), ids.shape[-1]
    seen = None if lengths is None else padding_mask(as_array("lengths", lengths), S)
    x = found.add("encoder.", _embed, _embed_mistakes, ids, there, config)
    o = _of_config(config, there.positions, x, causal=False) | {"mask": seen}
    memory = _add_blocks(found, x, p.encoder, p.encoder_norm, o, "encoder.")
    x = found.add("decoder.", _embed, _embed_mistakes, answer, p, config)
    o = _across(_of_config(config, p.positions, x, causal=True) | {"memory_mask": seen})
    x = _add_decoder(found, x, memory, p.decoder, p.norm, o, "decoder.")
    _add_head(found, x, p)
    return found


def _layer(x: FloatArray, p: Any, activation: str) -> Steps:
    inner = linear(x, p.weight, p.bias)
    return {"inner": inner, "out": by_name(activation).map(inner)}


def _layer_mistakes(p: Any, activation: str) -> Iterator[tuple[Any, ...]]:
    if p.bias is not None:
        yield "the bias is missing", p._replace(bias=None), activation
    if p.weight.shape[0] == p.weight.shape[1]:
        yield "the weight is transposed", p._replace(weight=p.weight.T), activation
    for other in ("relu", "gelu", "tanh", "sigmoid", "silu", "identity"):
        if other != activation:
            yield f"the activation is {other}", p, other


def _mlp(x: Any, params: Any, *, activation: str = "relu", dropout: Any = None) -> Trace:
    found = Trace()
    _defaults(mlp, {"dropout": dropout})
    x, layers = as_float_trees({"x": x, "params": tuple(params)})[1]
    for i, p in enumerate(layers):
        f = activation if i + 1 < len(layers) else "identity"
        x = found.add(f"layers.{i}.", _layer, _layer_mistakes, x, LinearParams(*p), f)
    return found


def _encoder(x: Any, params: Any, final_norm: Any = None, **options: Any) -> Trace:
    found = Trace()
    o = _defaults(encoder, options)
    trees = {"x": x, "params": tuple(params), "final_norm": final_norm}
    x, blocks, norm = as_float_trees(trees)[1]
    _add_blocks(found, x, blocks, norm, o)
    return found


def _encoder_block(x: Any, params: Any, **options: Any) -> Trace:
    found = Trace()
    o = _defaults(encoder_block, options)
    _check_named("params", params)
    x, params = as_float_trees({"x": x, "params": params})[1]
    found.add("", _block, _block_mistakes, x, params, o)
    return found


def _across(o: Options) -> Options:
    """Add the options of the cross-attention."""
    return o | {"across": o | ACROSS | {"mask": o["memory_mask"]}}


def _decoder(x: Any, memory: Any, params: Any, final_norm: Any = None, **options: Any) -> Trace:
    found = Trace()
    o = _across(_defaults(decoder, options))
    trees = {"x": x, "memory": memory, "params": tuple(params), "final_norm": final_norm}
    x, memory, blocks, norm = as_float_trees(trees)[1]
    _add_decoder(found, x, memory, blocks, norm, o)
    return found


def _one_decoder_block(x: Any, memory: Any, params: Any, **options: Any) -> Trace:
    found = Trace()
    o = _across(_defaults(decoder_block, options))
    _check_named("params", params, "DecoderBlockParams")
    x, memory, params = as_float_trees({"x": x, "memory": memory, "params": params})[1]
    found.add("", _decoder_block, _decoder_mistakes, (x, memory), params, o)
    return found


MODELS: dict[Any, Callable[..., Trace]] = {
    language_model: _language_model,
    encoder: _encoder,
    encoder_block: _encoder_block,
    decoder: _decoder,
    decoder_block: _one_decoder_block,
    encoder_decoder_model: _encoder_decoder,
    sequence_classifier: _sequence_classifier,
    mlp: _mlp,
}


def trace(model: Any, *inputs: Any, **options: Any) -> dict[str, FloatArray]:
    r"""
    Run a model and keep every intermediate by name.

    Parameters
    ----------
    model : function
        One of :func:`~dlref.transformer.language_model`, :func:`~dlref.transformer.encoder`,
        :func:`~dlref.transformer.encoder_block`, :func:`~dlref.transformer.decoder`,
        :func:`~dlref.transformer.decoder_block`,
        :func:`~dlref.transformer.encoder_decoder_model`,
        :func:`~dlref.transformer.sequence_classifier` and :func:`~dlref.neurons.mlp`.
    *inputs
        Its positional arguments; parameters as the named tuples.
    **options
        Its options, dropout excepted.

    Returns
    -------
    dict of ndarray
        Arrays by name, in the order in which they are computed.

    Raises
    ------
    TypeError
        If `model` is another function, an argument is not what the model takes, or parameters are
        plain tuples.
    ValueError
        If an argument is not what the model takes, or there is dropout.

    See Also
    --------
    first_difference : Where another implementation leaves the path.
    dlref.transformer.language_model_trace : Residual stream and weights only.

    Notes
    -----
    Names of a block, after ``blocks.0.`` and the like:

    - ``norm1``, ``norm2``: the normalizations; ``sum1``, ``sum2``: the sums; ``out``: the
      block's output;
    - ``attention.q``, ``.k``, ``.v`` of shape (..., H, T, E), ``.q_rotated``, ``.k_rotated``,
      ``.scores`` (−inf where masked), ``.weights``, ``.averages`` of the values, ``.out``;
    - ``feed_forward.inner``, or ``.gate`` and ``.up``, then ``.hidden`` and ``.out``.

    A decoder's block has three sub-layers, hence ``norm3`` and ``sum3``, too. Its steps are called
    ``self_attention.q`` and ``cross_attention.q`` (keys and values of the memory) instead of
    ``attention.q``, and likewise.

    A language model begins with ``embedding`` and, where vectors are added for the places,
    ``positioned``; it ends with ``norm`` and ``logits``. A classifier does so, too, the vector of
    its class before the text. An encoder-decoder model has both halves, as ``encoder.embedding``,
    ``encoder.blocks.0.out``, ``encoder.norm`` (the memory), ``decoder.embedding``,
    ``decoder.blocks.0.out`` and the like, then ``logits``. Layers of a perceptron have ``inner``
    and ``out``, after ``layers.0.`` and the like.

    All is computed by dlref's functions for the parts, one at a time, so that T² numbers per head
    are kept. The last entry is what the model returns, up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import trace
    >>> from dlref.transformer import LanguageModelConfig, init_language_model, language_model
    >>> config = LanguageModelConfig(9, 8, 2, layers=1)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> steps = trace(language_model, [1, 2, 3], params, config)
    >>> list(steps)[:4], steps["blocks.0.attention.weights"].shape
    (['embedding', 'positioned', 'blocks.0.norm1', 'blocks.0.attention.q'], (2, 3, 3))
    >>> bool(np.allclose(steps["logits"], language_model([1, 2, 3], params, config)))
    True
    """
    if not any(model is known for known in MODELS):
        names = ", ".join(f.__name__ for f in MODELS)
        msg = f"Argument 'model' must be one of dlref's functions {names}, not {shown(model)}."
        raise TypeError(msg)
    model(*inputs, **options)  # checks all arguments
    return MODELS[model](*inputs, **options)


# Differences.


class TraceDifference(NamedTuple):
    r"""
    Where another implementation leaves the path.

    Parameters
    ----------
    name : str
        The first intermediate that differs.
    cause : str
        The mistake that explains it, empty if no known one does.
    wrong : int
        Number of elements that differ.
    size : int
        Number of elements.
    at : tuple of int
        Index of the element that differs most.
    got : float
        The other value there.
    exact : float
        The value of the trace there.
    agreed : tuple of str
        Names that were compared before, and agree.
    notes : tuple of str
        Layouts in which the other implementation keeps what agrees.

    See Also
    --------
    first_difference : Returns it.

    Notes
    -----
    Its text is a sentence. A mistake explains a difference if dlref, making it, arrives at the
    same numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import TraceDifference, first_difference
    >>> found = first_difference({"a": np.ones(2)}, {"a": np.array([1.0, 3.0])})
    >>> found.at, found.got, found.exact
    ((1,), 3.0, 1.0)
    >>> TraceDifference._fields[:2]
    ('name', 'cause')
    """

    name: str
    cause: str
    wrong: int
    size: int
    at: tuple[int, ...]
    got: float
    exact: float
    agreed: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """Return a sentence."""
        if self.wrong:
            beside = f"at {self.at} it is {self.got:.6g} instead of {self.exact:.6g}"
            text = f"{self.name} differs in {self.wrong} of {self.size} elements: {beside}"
        else:
            text = f"{self.name} has another shape"
        text += f"; {self.cause}" if self.cause else ""
        before = f"{len(self.agreed)} before it agree" if self.agreed else "nothing was before it"
        return "; ".join([text, before, *self.notes])

    def __repr__(self) -> str:
        """Return the same, for a prompt."""
        return str(self)

    def _repr_html_(self) -> str:
        """Return a table of what differs, where and why, in notebooks."""
        rows = [
            ("differs first", self.name),
            ("elements", f"{self.wrong} of {self.size}" if self.wrong else "another shape"),
            ("worst at", f"{self.at}: {self.got:.6g} instead of {self.exact:.6g}"),
            ("cause", self.cause or "unknown"),
            ("agree before it", ", ".join(self.agreed) or "none"),
            *(("layout", note) for note in self.notes),
        ]
        return html_table(("", ""), rows)


def _layouts(name: str, array: Any) -> Iterator[tuple[str, Any]]:
    """Yield the layouts in which an array may be kept, with words for it."""
    channels = {"": array}
    rotated = name.endswith(ROTATED) and "cross_attention" not in name
    if rotated and array.shape[-1] % 2 == 0:
        channels["pairs of channels in halves"] = array[..., rope_permutation(array.shape[-1])]
    for words, value in channels.items():
        yield words, value
        if "attention." in name and array.ndim > 2:
            swapped = np.swapaxes(value, -2, -3)
            yield f"{words}{', ' if words else ''}heads after the time axis", swapped
            merged = swapped.reshape(*swapped.shape[:-2], -1)
            yield f"{words}{', ' if words else ''}heads joined", merged


def _bound(want: Any, rtol: float) -> Any:
    """Return what each element is allowed: by its row's size, by the whole one's for tiny rows."""
    size = np.where(np.isfinite(want), np.abs(want), 0.0)
    rows = size.max(-1, keepdims=True, initial=0.0)
    return rtol * np.maximum(rows, 1e-3 * size.max(initial=0.0))


def _misses(got: Any, want: Any, rtol: float) -> Any:
    """Return by how many times its bound each element is off, NaN and inf included."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = np.where(got == want, 0.0, np.abs(got - want))
        ratio = np.where(gap == 0, 0.0, gap / _bound(want, rtol))
    return np.where(np.isnan(ratio), np.inf, ratio)


def _match(name: str, got: Any, want: Any, rtol: float) -> str | None:
    """Return the layout in which two arrays agree, '' if it is the same, None if there is none."""
    for words, value in _layouts(name, want):
        if value.shape == got.shape and not np.any(_misses(got, value, rtol) > 1):
            return words
    return None


def _difference(
    name: str, got: Any, want: Any, rtol: float, cause: str, before: tuple[Any, Any]
) -> TraceDifference:
    """Describe a difference, in the layout that fits best."""
    alike = [value for _, value in _layouts(name, want) if value.shape == got.shape]
    if not alike:
        cause = cause or f"it has shape {got.shape} instead of {want.shape}"
        return TraceDifference(name, cause, 0, got.size, (), np.nan, np.nan, *before)
    ratios = [_misses(got, value, rtol) for value in alike]
    best = min(range(len(alike)), key=lambda i: int(np.sum(ratios[i] > 1)))
    ratio, value = ratios[best], alike[best]
    at = tuple(int(i) for i in np.unravel_index(np.argmax(ratio), ratio.shape))
    wrong = int(np.sum(ratio > 1))
    entries = float(got[at]), float(value[at])
    return TraceDifference(name, cause, wrong, got.size, at, *entries, *before)


def first_difference(
    trace: Mapping[str, Any], other: Mapping[str, Any], *, rtol: float | None = None
) -> TraceDifference | None:
    r"""
    Find the first intermediate in which another implementation differs, and why.

    Parameters
    ----------
    trace : dict of array_like
        What :func:`trace` has returned.
    other : dict of array_like
        Intermediates of the other implementation, by the same names; as many or as few as there
        are. Arrays of other libraries are taken, too.
    rtol : float or None
        What an element may be off, relative to the largest of its row; None is 1024 times the
        epsilon of the narrower dtype.

    Returns
    -------
    TraceDifference or None
        The first difference in the order of the trace, None if all agrees.

    Raises
    ------
    TypeError
        If an argument is not a dictionary, or an array is not an array.
    ValueError
        If `other` has names that the trace does not have, or no names, or `rtol` is negative.

    See Also
    --------
    trace : The names.
    check_forward : For a single function.

    Notes
    -----
    Arrays with heads may have them before the time axis, after it, or joined with the channels,
    and queries and keys may have rotated pairs in halves instead of neighbours (as in LLaMA's
    checkpoints). Both are layouts, no mistakes: the result says so in its ``notes``.

    Where an array differs, the part of the model that it belongs to is run once more for each known
    mistake, on the input up to which everything agrees. The mistake that leads to the other
    values is the cause: rotation of other pairs, backwards or none, with another base or from
    position 1 on; scale; causal mask missing or shifted; keys of grouped heads in another order;
    projections exchanged, or cut into heads in the other order; a weight transposed, a bias
    missing; the other kind of norm, its weight, eps and place; the activation; gate and up
    exchanged; in cross-attention the same, and that it reads the decoder itself, or that its keys
    and values are exchanged. If none fits, a constant factor is named.

    The fewer names `other` has, the more parts lie between two of them, and a cause
    is only found if it is the only one in its block.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import first_difference, trace
    >>> from dlref.transformer import LanguageModelConfig, init_language_model, language_model
    >>> rng = np.random.default_rng(0)
    >>> config = LanguageModelConfig(9, 16, 2, activation="gelu")
    >>> params = init_language_model(rng, config)
    >>> right = trace(language_model, [1, 2, 3], params, config)
    >>> relu = LanguageModelConfig(9, 16, 2, activation="relu")
    >>> port = trace(language_model, [1, 2, 3], params, relu)
    >>> found = first_difference(right, port)
    >>> found.name, found.cause
    ('blocks.0.feed_forward.hidden', 'the activation is relu')
    """
    check_mapping("trace", trace)
    check_mapping("other", other)
    unknown = [name for name in other if name not in trace]
    if unknown or not other:
        names = ", ".join(map(repr, unknown[:5])) or "none"
        some = ", ".join(map(repr, list(trace)[:5]))
        msg = f"Argument 'other' must have names of the trace ({some}, ...), not {names}."
        raise ValueError(msg)
    factor = None if rtol is None else as_number("rtol", rtol, least=0)
    mistakes = getattr(trace, "mistakes", {})
    agreed: list[str] = []
    notes: dict[str, list[str]] = {}
    for name, value in trace.items():
        if name not in other:
            continue
        want, got = as_array(f"trace[{name!r}]", value), as_array(f"other[{name!r}]", other[name])
        bound = 1024 * max(_eps(want), _eps(got)) if factor is None else factor
        layout = _match(name, got, want, bound)
        if layout is None:
            cause = _cause(name, (trace, other), bound, mistakes.get(name, tuple)(), agreed)
            cause = cause or _multiple(name, got, want, bound)
            said = tuple(f"{', '.join(names)}: {words}" for words, names in notes.items())
            return _difference(name, got, want, bound, cause, (tuple(agreed), said))
        if layout:
            notes.setdefault(layout, []).append(name)
        agreed.append(name)
    return None


def _cause(
    name: str,
    arrays: tuple[Mapping[str, Any], Mapping[str, Any]],
    bound: float,
    trials: Iterable[tuple[str, Steps]],
    agreed: list[str],
) -> str:
    """Return the mistake that leads to an array of the other, and leaves alone what agrees."""
    right, other = arrays

    def fits(step: str, steps: Steps) -> bool:
        got = as_array(f"other[{step!r}]", other[step])
        return _match(step, got, steps[step], bound) is not None

    for words, steps in trials:
        alike = [s for s in agreed if s in steps and np.shape(right[s]) == steps[s].shape]
        if all(fits(step, steps) for step in (name, *alike)):
            return words
    return ""


def _multiple(name: str, got: Any, want: Any, bound: float) -> str:
    """Return words if an array is a multiple of what it should be, in any layout."""
    a, b = np.ravel(got).astype(np.float64), np.ravel(want).astype(np.float64)
    if a.size < 2 or a.shape != b.shape or not np.isfinite([a, b]).all() or not b.any():
        return ""
    factor = np.copysign(np.linalg.norm(a) / np.linalg.norm(b), a.mean() * b.mean())
    if factor == 0 or _match(name, got, want * factor, 4 * bound) is None:
        return ""
    return f"it is multiplied by {factor:.4g}"


def _eps(array: Any) -> float:
    """Return the epsilon of an array's dtype, that of float64 for integers."""
    if array.dtype.name == "bfloat16":
        return 2.0**-7
    return float(np.finfo(array.dtype).eps if array.dtype.kind == "f" else np.finfo(float).eps)
