"""The models, written out: their blocks, and the steps before and after them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._core.arguments import FloatArray, as_array
from ..._core.pytree import as_float_trees, named_leaves
from ...activations import log_softmax, softmax
from ...activations._by_name import by_name
from ...attention import padding_mask
from ...neurons import LinearParams, mlp
from ...positions import (
    alibi_bias,
    alibi_slopes,
    sinusoidal,
    t5_bias,
)
from ...transformer import (
    BlockOptions,
    DecoderBlockParams,
    EncoderBlockParams,
    LanguageModelConfig,
    NormParams,
    decoder,
    decoder_block,
    encoder,
    encoder_block,
    encoder_decoder_model,
    language_model,
    sequence_classifier,
)
from ...transformer._padding import Padding, as_padding
from ...transformer._structure import as_block
from .blocks import IN_NORMS, block_steps, decoder_block_steps, normed
from .common import GATES, Mistakes, Options, RefutedError, Steps, linear
from .fits import fits_of
from .mistakes import block_mistakes, changed_norms, decoder_mistakes, other_norms
from .rotations import rotation_of

FIELDS = tuple(field.name for field in fields(BlockOptions))
#: Further arguments of a call of blocks, and their defaults.
CALL: Options = {"mask": None, "bias": None, "q_offset": 0, "memory_mask": None}
#: The ones that cross-attention has in addition to the mask of the memory.
ACROSS = {"bias": None, "is_causal": False, "q_offset": 0, "window": None, "softcap": None}
ACROSS |= {"rope": None, "own": False, "chunk": None}
#: The kind of the parameters, the steps and the mistakes of a block.
ENCODER: Any = EncoderBlockParams, block_steps, block_mistakes
DECODER: Any = DecoderBlockParams, decoder_block_steps, decoder_mistakes

#: Steps of pairs of tokens, and steps whose last axis is the time.
PAIRS, TIME_LAST = ("attention.scores", "attention.weights"), ("attention.beta", "attention.decay")


#: The mistake that no change of the model makes: a part is given the output of an earlier one.
LEFT_OUT = "it reads {}: the parts between are left out"
#: Steps of a language model before and after its blocks.
AROUND_BLOCKS = ("embedding", "positioned", "norm", "logits")

#: Whether a part has a mistake, from the part's steps with it and without it.
IsMade = Callable[[Steps, Steps], bool]


class Change(NamedTuple):
    """A mistake that parts of a model have: a known one, or an option with another value."""

    message: str
    value: float | None = None  # of the option

    def changed_arguments(self, mistakes: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a part after the change, the same ones if it is no part of it."""
        given, *own = arguments
        if self.value is None:
            for message, *changed in mistakes(*own):
                if message == self.message:
                    return given, *changed
        elif _has_fits(arguments):
            for fit in fits_of(own[-1]):
                if fit.message == self.message:
                    return *arguments[:-1], fit.options(self.value)
        return arguments


def _has_options(arguments: Sequence[Any]) -> bool:
    """Whether the last argument of a part has the options of a block."""
    return isinstance(arguments[-1], dict) and "softcap" in arguments[-1]


def _has_fits(arguments: Sequence[Any]) -> bool:
    """Whether the last argument of a part has options with numbers that a search may find."""
    return _has_options(arguments) or isinstance(arguments[-1], LanguageModelConfig)


class Trace(dict[str, FloatArray]):
    """Intermediates by name, and their values after a known mistake."""

    def __init__(self, change: Change | None = None, is_made: IsMade | None = None) -> None:
        super().__init__()
        self.change, self.is_made = change, is_made
        #: The same model with a mistake, in the parts that have it.
        self.changed: Callable[[Change, IsMade], Trace] | None = None
        self.padding: Padding | None = None
        self.axes = 0  # of the tokens
        #: By step: the steps of its part after each mistake that the first of them do not refute.
        self.mistakes: dict[str, Callable[..., Iterator[tuple[str, Steps]]]] = {}
        self.parts: dict[str, tuple[Options, Callable[[Options], Steps]]] = {}
        #: By step: the step that its part reads, the part as a function of it, and its parameters.
        self.sources: dict[str, tuple[str, Callable[[Any], Steps], tuple[Any, ...]]] = {}
        self.inputs: dict[str, FloatArray] = {}  # of the blocks so far, by the steps that gave them
        self.last: Any = None  # value of the last step
        self.given: set[str] = set()  # steps that are the other's own
        self.blocks: set[int] | None = None  # the ones that are traced, if there are others

    def add(self, prefix: str, run: Callable[..., Steps], mistakes: Any, *arguments: Any) -> Any:
        """Run a part, keep its steps, and return the last one."""
        placed, before = self.placed, next(reversed(self), "")

        def named(steps: Steps) -> Steps:
            return {prefix + step: placed(step, value) for step, value in steps.items()}

        if self.change is not None and self.is_made is not None:
            changed = self.change.changed_arguments(mistakes, arguments)
            if self.is_made(named(run(*changed)), named(run(*arguments))):
                arguments = changed
        steps = run(*arguments)
        reads_last = self.padding is None and arguments[0] is self.last
        earlier = dict(self.inputs) if reads_last and _has_options(arguments) else {}
        if reads_last and _has_options(arguments):
            self.inputs[before] = arguments[0]

        def wrong(
            refutes: Callable[[Steps], bool] = lambda _: False,
        ) -> Iterator[tuple[str, Steps]]:
            def stop(steps: Steps) -> None:
                if refutes(named(steps)):
                    raise RefutedError

            for message, *changed in mistakes(*arguments[1:]):
                if _has_options(changed):
                    changed[-1] = changed[-1] | {"stop": stop}
                try:
                    other = run(arguments[0], *changed)
                except RefutedError:
                    continue
                for step in steps:
                    if step not in other:  # without a norm, bounds or a rotation
                        other[step] = other[step_before(step, steps)]
                yield message, named(other)
            for source, x in earlier.items():
                yield LEFT_OUT.format(source), named(run(x, *arguments[1:]))

        def with_options(options: Options) -> Steps:
            return named(run(*arguments[:-1], options))

        def on_input(x: Any) -> Steps:
            return {prefix + step: value for step, value in run(x, *arguments[1:]).items()}

        for step, value in steps.items():
            self[prefix + step] = placed(step, value).copy()  # an output is also the last sum
            self.mistakes[prefix + step] = wrong
            if _has_fits(arguments):
                self.parts[prefix + step] = arguments[-1], with_options
            if reads_last:
                self.sources[prefix + step] = before, on_input, arguments[1:]
        self.last = value
        return value

    def placed(self, step: str, array: FloatArray) -> FloatArray:
        """Return an array in the order of the caller's rows, with 0 where there is no token."""
        if self.padding is None:
            return array
        if step.endswith(TIME_LAST):
            return self.placed("", array[..., None])[..., 0]
        heads = array.ndim - self.axes > 1 or step == ""
        padding = self.padding.of_heads() if heads else self.padding
        out = padding.back(array)
        if step.endswith(PAIRS) and heads:  # queries, then keys
            out = np.take_along_axis(out, padding.homes[..., None, :], -1)
        return np.ascontiguousarray(out)

    def judged(self, other: Mapping[str, Any]) -> dict[str, Any]:
        """Return the other's arrays, but none of the parts that are not traced."""
        blocks = self.blocks
        if blocks is None:
            return dict(other)

        def is_outside(name: str) -> bool:
            block = re.match(r"blocks\.(\d+)\.", name)
            place = int(block[1]) in blocks if block else name not in AROUND_BLOCKS
            return name in self.given or (name not in self and not place)

        return {name: array for name, array in other.items() if not is_outside(name)}

    def hidden(self, name: str) -> Any:
        """Return where an array has no token, None if texts fill their rows."""
        if self.padding is None:
            return None
        real = self.placed(name, np.ones(self[name].shape))
        return real == 0


def _check_inference(options: Options) -> None:
    """Raise unless nothing is dropped."""
    for name in ("dropout", "attention_dropout", "embedding_dropout"):
        if options.get(name) is not None:
            msg = f"Argument {name!r} must be None: a trace is of a model at inference."
            raise ValueError(msg)


def _of_blocks(
    options: BlockOptions | tuple[BlockOptions, ...] | None,
    keywords: Options,
    count: int = 1,
    *,
    causal: bool = False,
) -> list[Options]:
    """Return the options of each block as a dictionary, with the arrays of the call."""
    _check_inference(keywords)
    call = CALL | {name: value for name, value in keywords.items() if name in CALL}
    fields = {name: value for name, value in keywords.items() if name in FIELDS}
    given = options if isinstance(options, tuple) else (options,) * max(count, 1)
    each = [BlockOptions(**fields) if o is None else replace(o, **fields) for o in given]
    dicts = [{name: getattr(o, name) for name in FIELDS} | call for o in each]
    for o in dicts:
        o["is_causal"] = causal if o["is_causal"] is None else o["is_causal"]
    return dicts


#: Ends of the names of queries, keys and values after one of their steps.
OF_HEADS = re.compile("_(normed|clipped|rotated)$")


def step_before(step: str, steps: Iterable[str]) -> str:
    """Return the step of the same queries, keys or values that comes before one of theirs."""
    names = [name for name in steps if OF_HEADS.sub("", name) == OF_HEADS.sub("", step)]
    return names[names.index(step) - 1]


def last_norm(x: FloatArray, p: Any, o: Options) -> Steps:
    return {"norm": x if p is None else normed(x, p, o)}


def last_mistakes(p: Any, o: Options) -> Mistakes:
    if p is None:  # after the mistake that it is missing
        return
    for message, options in other_norms(o):
        yield message, p, options
    for message, changed, options in changed_norms({"the last norm": p}, o):
        yield message, changed["the last norm"], options
    yield "the last norm is missing", None, o
    for wrong, message in IN_NORMS.items():
        yield message, p, o | {"wrong": wrong}


def _params(p: Any, kind: str, dropout: Options) -> Any:
    """Return the parameters of a model at inference, which have to be a named tuple."""
    _check_inference(dropout)
    if not hasattr(p, "_fields"):
        msg = f"Argument 'params' must be {kind}, a named tuple, not a plain one."
        raise TypeError(msg)
    return as_float_trees({"params": p})[1][0]


def _in_a_stack(
    mistakes: Any, blocks: Any, each: list[Options], i: int
) -> Callable[[Any, Options], Mistakes]:
    """Return the mistakes of a block, and those with the parameters or options of another one."""

    def wrong(p: Any, o: Options) -> Mistakes:
        yield from mistakes(p, o)
        own, *shapes = ([(path, np.shape(a)) for path, a in named_leaves("", b)]
                        for b in (p, *blocks))  # fmt: skip
        for j in dict.fromkeys((0, len(blocks) - 1 - i, i - 1, i + 1)):
            if j != i and 0 <= j < len(blocks) and shapes[j] == own:
                yield f"the block has the parameters of block {j}", blocks[j], o
                if each[j] is not each[i]:
                    yield f"the block has the options of block {j}", p, each[j]
                for path, array in named_leaves("", blocks[j]):
                    yield f"{path} is that of block {j}", _with_leaf(p, path, array), o

    return wrong


def _with_leaf(p: Any, path: str, array: FloatArray) -> Any:
    """Return a tree with another array at a path of names."""
    name, _, rest = path.partition(".")
    if not rest:
        return p._replace(**{name: array})
    return p._replace(**{name: _with_leaf(getattr(p, name), rest, array)})


def _add_stack(
    trace: Trace,
    x: Any,
    blocks: Any,
    norm: Any,
    each: list[Options],
    prefix: str = "",
    memory: Any = None,
) -> Any:
    """Add the blocks of an encoder, or of a decoder if there is a memory."""
    kind, run, mistakes = ENCODER if memory is None else DECODER
    each = each if memory is None else [*map(_across, each)]
    blocks = [as_block(kind, f"params[{i}]", p) for i, p in enumerate(blocks)]
    for i, (p, o) in enumerate(zip(blocks, each, strict=False)):
        wrong = _in_a_stack(mistakes, blocks, each, i)
        given = x if memory is None else (x, memory)
        x = trace.add(f"{prefix}blocks.{i}.", run, wrong, given, p, o)
    if norm is None:
        return x
    return trace.add(prefix, last_norm, last_mistakes, x, NormParams(*norm), each[-1])


def embed(tokens: Any, p: Any, config: Any) -> Steps:
    x, projection = p.embedding[tokens], getattr(p, "embedding_in", None)
    return _positioned(x if projection is None else linear(x, projection), p, config)


def _embed_text(tokens: Any, p: Any, config: Any) -> Steps:
    """Return the steps of a text after the token of its class."""
    first = np.broadcast_to(p.class_token, (*tokens.shape[:-1], 1, config.d_model))
    return _positioned(np.concatenate([first, p.embedding[tokens]], axis=-2), p, config)


def _positioned(x: FloatArray, p: Any, config: Any) -> Steps:
    x = x * x.dtype.type(config.embedding_scale)
    T = x.shape[-2]
    steps: Steps = {"embedding": x}
    if config.positions == "learned":
        steps["positioned"] = x + p.positions[..., :T, :]
    if config.positions == "sinusoidal":
        steps["positioned"] = x + sinusoidal(T, config.d_model).astype(x.dtype)
    return steps


def _in_16_bits(value: float) -> dict[float, str]:
    """Return the names of the dtypes of 16 bits by the numbers to which they round one."""
    bits = np.float32(value).view(np.uint32)
    half = np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))  # ties go to even numbers
    upper = np.uint32(bits + half & np.uint32(0xFFFF0000))
    bfloat16, float16 = float(upper.view(np.float32)), float(np.float16(value))
    if bfloat16 == float16:
        return {bfloat16: "bfloat16 or float16"}
    return {bfloat16: "bfloat16", float16: "float16"}


def embed_mistakes(T: int, p: Any, config: Any) -> Iterator[tuple[Any, ...]]:
    root, scale = config.d_model**0.5, config.embedding_scale
    by = "the root of D" if scale in (1, root) else f"{scale:g}"
    factor, message = (1 / scale, "not multiplied") if scale != 1 else (root, "multiplied")
    changed = p._replace(embedding=p.embedding * p.embedding.dtype.type(factor))
    yield f"the embeddings are {message} by {by}", changed, config
    if scale != 1:
        changed = p._replace(embedding=p.embedding * p.embedding.dtype.type(scale**-2))
        yield f"the embeddings are divided by {by}, not multiplied by it", changed, config
        changed = p._replace(embedding=p.embedding * p.embedding.dtype.type(scale))
        yield f"the embeddings are multiplied by {by} twice", changed, config
        for rounded, names in _in_16_bits(scale).items():
            if rounded == scale:
                continue
            message = f"the embeddings are multiplied by {by} rounded to {names}, {rounded:.7g}"
            yield message, p, replace(config, embedding_scale=rounded)
    if config.positions == "learned":
        own = p.positions
        others = {f"positions begin at {n}": np.roll(own, -n, axis=0) for n in (1, 2)}
        others["positions are counted from the end"] = np.concatenate([own[:T][::-1], own[T:]])
        others["the positions are missing"] = np.zeros_like(own)
        for message, table in others.items():
            yield message, p._replace(positions=table), config


def add_head(trace: Trace, x: FloatArray, p: Any, config: Any) -> None:
    """Add the logits; before the last norm x was the step before the last one."""
    raw = x if p.norm is None else [*trace.values()][-2]
    run = partial(_head, config=config)
    trace.add("", run, partial(_head_mistakes, raw, config), x, p, config)


def _head(x: FloatArray, p: Any, instead: Any, *, config: Any) -> Steps:
    """Return the logits, also of another input, or another array that is taken for them."""
    if isinstance(instead, LanguageModelConfig):
        config, instead = instead, None
    x, after = (instead, None) if isinstance(instead, np.ndarray) else (x, instead)
    narrowing = getattr(p, "embedding_out", None)
    x = x if narrowing is None else linear(x, narrowing)
    logits = linear(x, p.embedding if p.head is None else p.head)
    kind, cap = logits.dtype.type, config.logit_softcap
    if config.logit_scale != 1:
        logits = np.asarray(logits * kind(config.logit_scale))
    if cap is not None:
        logits = np.asarray(np.tanh(logits / kind(cap)) * kind(cap))
    return {"logits": logits if after is None else np.asarray(after(logits))}


def _head_mistakes(
    raw: FloatArray, config: LanguageModelConfig, p: Any, _: Any
) -> Iterator[tuple[Any, ...]]:
    if config.logit_softcap is not None:
        yield "the cap of the logits is missing", p, replace(config, logit_softcap=None)
    if config.logit_scale != 1:
        message = f"the logits are not multiplied by {config.logit_scale:g}"
        yield message, p, replace(config, logit_scale=1.0)
        message = f"the logits are divided by {config.logit_scale:g}, not multiplied by it"
        yield message, p, replace(config, logit_scale=1 / config.logit_scale)
    if p.head is not None and p.embedding is not None:
        yield "the head is the matrix of embeddings", p._replace(head=None), None
    yield "the last norm is missing", p, raw
    yield "they are probabilities, after a softmax", p, softmax
    yield "they are logarithms of probabilities", p, log_softmax


def _class(x: FloatArray, p: Any) -> Steps:
    return {"logits": linear(np.ascontiguousarray(x[..., 0, :]), p.w_head, p.b_head)}


def _class_mistakes(p: Any) -> Iterator[tuple[Any, ...]]:
    if p.b_head is not None:
        yield "b_head is missing", p._replace(b_head=None)


def _places(config: Any, table: Any, T: int, dtype: Any, *, causal: bool = True) -> Options:
    """Return the options of attention that a scheme of positions makes."""
    if config.positions == "alibi":
        slopes = alibi_slopes(config.num_heads, exponent=config.alibi_exponent)
        return {"bias": alibi_bias(slopes, T, T, symmetric=not causal).astype(dtype)}
    if config.positions == "t5":
        return {"bias": np.asarray(t5_bias(table, T, T, bidirectional=not causal))}
    return {}


def _language_model(
    trace: Trace,
    tokens: Any,
    params: Any,
    config: Any,
    *,
    lengths: Any = None,
    padding: str = "right",
    **dropout: Any,
) -> Trace:
    ids, params = as_array("tokens", tokens), _params(params, "LanguageModelParams", dropout)
    rows = as_padding(lengths, padding, ids.shape)
    ids, trace.padding, trace.axes = ids if rows is None else rows.texts(ids), rows, ids.ndim
    x = trace.add("", embed, partial(embed_mistakes, ids.shape[-1]), ids, params, config)
    each = of_config(config, params.positions, x, causal=True)
    x = _add_stack(trace, x, params.blocks, params.norm, each)
    add_head(trace, x, params, config)
    return trace


def of_config(
    config: Any, table: Any, x: FloatArray, *, causal: bool, **call: Any
) -> list[Options]:
    """Return the options of each block of a model, and at least of one."""
    there = _places(config, table, x.shape[-2], x.dtype, causal=causal)
    options = {
        "num_heads": config.num_heads,
        "num_kv_heads": config.num_kv_heads,
        "norm_first": config.norm_first,
        "norm": config.norm,
        "activation": GATES.get(config.activation, config.activation),
        "is_causal": causal,
        "eps": config.eps,
    }
    given = config.blocks if isinstance(config.blocks, tuple) else (config.blocks,)
    count = max(config.num_layers, config.num_decoder_layers or 0, 1)
    given = given * count if len(given) == 1 else given
    options_of_blocks = []
    usual: Options | None = {} if config.positions == "rope" else None
    rotations = [(own or {}).get("rope", usual) for own in given]
    for own, rotation in zip(given, rotations, strict=True):
        more = {name: value for name, value in (own or {}).items() if name != "rope"}
        others = [(j, r) for j, r in enumerate(rotations) if r != rotation and r is not None]
        rotated = rotation_of(config, rotation, others[:1], x.shape[-2], x.dtype)
        [o] = _of_blocks(None, options | more | there | call | {"rope": rotated["rope"]})
        options_of_blocks.append(o | rotated)
    return [options_of_blocks[given.index(own)] for own in given]  # equal blocks have one object


def _sequence_classifier(
    trace: Trace, tokens: Any, params: Any, config: Any, *, lengths: Any = None, **dropout: Any
) -> Trace:
    ids = as_array("tokens", tokens)
    params = _params(params, "SequenceClassifierParams", dropout)
    x = trace.add("", _embed_text, partial(embed_mistakes, ids.shape[-1] + 1), ids, params, config)
    seen = None
    if lengths is not None:
        seen = padding_mask(as_array("lengths", lengths) + 1, x.shape[-2])
    each = of_config(config, params.positions, x, causal=False, mask=seen)
    x = _add_stack(trace, x, params.blocks, params.norm, each)
    trace.add("", _class, _class_mistakes, x, params)
    return trace


def _encoder_decoder(
    trace: Trace,
    source: Any,
    target: Any,
    params: Any,
    config: Any,
    *,
    lengths: Any = None,
    **dropout: Any,
) -> Trace:
    ids, answer = as_array("source", source), as_array("target", target)
    p = _params(params, "EncoderDecoderParams", dropout)
    there, S = p._replace(positions=p.source_positions), ids.shape[-1]
    seen = None if lengths is None else padding_mask(as_array("lengths", lengths), S)
    x = trace.add("encoder.", embed, partial(embed_mistakes, ids.shape[-1]), ids, there, config)
    each = of_config(config, there.positions, x, causal=False, mask=seen)
    memory = _add_stack(trace, x, p.encoder, p.encoder_norm, each, "encoder.")
    x = trace.add("decoder.", embed, partial(embed_mistakes, answer.shape[-1]), answer, p, config)
    each = of_config(config, p.positions, x, causal=True, memory_mask=seen)
    if config.positions == "t5":
        bias = np.asarray(t5_bias(p.positions, answer.shape[-1], S, bidirectional=False))
        each = [o | {"memory_bias": bias} for o in each]
    x = _add_stack(trace, x, p.decoder, p.norm, each, "decoder.", memory)
    add_head(trace, x, p, config)
    return trace


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


def _mlp(
    trace: Trace, x: Any, params: Any, *, activation: str = "relu", dropout: Any = None
) -> Trace:
    _check_inference({"dropout": dropout})
    x, layers = as_float_trees({"x": x, "params": tuple(params)})[1]
    for i, p in enumerate(layers):
        f = activation if i + 1 < len(layers) else "identity"
        x = trace.add(f"layers.{i}.", _layer, _layer_mistakes, x, LinearParams(*p), f)
    return trace


def _across(o: Options) -> Options:
    """Add the options of the cross-attention."""
    changed = {"mask": o["memory_mask"], "scale": o["cross_scale"]}
    return o | {"across": o | ACROSS | changed}


def _decoder(
    trace: Trace,
    x: Any,
    memory: Any,
    params: Any,
    final_norm: Any = None,
    options: Any = None,
    **keywords: Any,
) -> Trace:
    each = _of_blocks(options, keywords, len(params), causal=memory is not None)
    trees = {"x": x, "memory": memory, "params": tuple(params), "final_norm": final_norm}
    x, memory, blocks, norm = as_float_trees(trees)[1]
    _add_stack(trace, x, blocks, norm, each, memory=memory)
    return trace


def _decoder_block(
    trace: Trace, x: Any, memory: Any, params: Any, options: Any = None, **keywords: Any
) -> Trace:
    kind, run, mistakes = ENCODER if memory is None else DECODER
    [o] = _of_blocks(options, keywords, causal=memory is not None)
    trees = {"x": x, "memory": memory, "params": as_block(kind, "params", params)}
    x, memory, params = as_float_trees(trees)[1]
    given, o = (x, o) if memory is None else ((x, memory), _across(o))
    trace.add("", run, mistakes, given, params, o)
    return trace


MODELS: dict[Any, Callable[..., Trace]] = {
    language_model: _language_model,
    encoder: lambda t, x, *rest, **keywords: _decoder(t, x, None, *rest, **keywords),
    encoder_block: lambda t, x, *rest, **keywords: _decoder_block(t, x, None, *rest, **keywords),
    decoder: _decoder,
    decoder_block: _decoder_block,
    encoder_decoder_model: _encoder_decoder,
    sequence_classifier: _sequence_classifier,
    mlp: _mlp,
}


def traced(model: Any, inputs: tuple[Any, ...], options: Options) -> Trace:
    """Return the trace of a model."""

    def changed(change: Change, is_made: IsMade) -> Trace:
        return MODELS[model](Trace(change, is_made), *inputs, **options)

    trace = MODELS[model](Trace(), *inputs, **options)
    trace.changed = changed
    return trace
