"""Blocks, stacks and models, whose parameters are nested."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import transformer as t
from .._core.pytree import map_floats
from ._spec import NOT_ARRAYS, RANDOM, Cases, MapSpec, call, each, option_case, without
from .attention import HEADS, blind, each_of, rotated, rotations
from .neurons import sequence


def model(rng: Any, init: Callable[..., Any], *more: Any, **changes: Any) -> tuple[Any, Any]:
    """Return parameters, none of them zero or one, and their configuration."""
    fields = {"num_layers": 1, "d_ff": 12, "length": 40} | changes
    config = t.LanguageModelConfig(11, 8, 2, **fields)
    params = init(rng, config, *more)
    return map_floats(lambda a: a + rng.normal(size=a.shape) / 4, params), config


def block(rng: Any, **changes: Any) -> Any:
    return model(rng, t.init_language_model, **changes)[0].blocks[0]


# Inputs of each, from a length and changes of the configuration.


def _encoder_block(rng: Any, length: int = 5, **changes: Any) -> tuple[Any, ...]:
    return sequence(rng, length), block(rng, **changes)


def _encoder(rng: Any, length: int = 5, **changes: Any) -> tuple[Any, ...]:
    p, _ = model(rng, t.init_language_model, num_layers=2, **changes)
    return sequence(rng, length), p.blocks, p.norm


def _decoder_block(rng: Any, length: int = 5, **changes: Any) -> tuple[Any, ...]:
    p, _ = model(rng, t.init_encoder_decoder_model, **changes)
    return sequence(rng, length), sequence(rng, 7), p.decoder[0]


def _decoder(rng: Any, length: int = 5, **changes: Any) -> tuple[Any, ...]:
    p, _ = model(rng, t.init_encoder_decoder_model, num_layers=2, **changes)
    return sequence(rng, length), sequence(rng, 7), p.decoder


#: Factors of two sub-layers; the first one drops every other channel.
DROPPED = (2.0 * (np.arange(8) % 2), np.linspace(0.5, 2.0, 8))
OF_THREE = (*DROPPED, DROPPED[0])
OF_HEADS = np.array([2.0, 0.5]).reshape(2, 1, 1)
MEMORY = {"memory_mask": each_of(5, 7)["mask"]}


#: Fields of the options of a block, which may be given as keywords, and their defaults.
OF_BLOCKS = {
    field.name: field.default
    for field in dataclasses.fields(t.BlockOptions)
    if field.default is not dataclasses.MISSING
}


def of_blocks(f: Any, inputs: Callable[..., Any], extra: dict[str, Any], *, rms: bool) -> MapSpec:
    """Return the record of a block or a stack; `extra` are options that others lack."""

    def hard(rng: Any) -> Cases:
        yield "norms after the sums", inputs(rng), HEADS
        yield "norms before the parts", inputs(rng), {**HEADS, "norm_first": True}
        yield "causal", inputs(rng), {**HEADS, "is_causal": True}
        yield "a row that sees no key", inputs(rng), {**HEADS, "mask": blind(5, 5)}
        yield "one position", inputs(rng, 1), HEADS
        longer = inputs(rng, 33)
        yield "a length that is no multiple of a tile", longer, {**HEADS, "activation": "gelu"}
        if rms:
            gated = inputs(rng, norm="rms", activation="swiglu")
            options = {**HEADS, "activation": "silu", "norm": "rms"}
            yield "root mean squares and gates", gated, options

    def options(rng: Any) -> Cases:
        scores, causal = each_of(5, 5), "memory_mask" in extra  # the default of a decoder
        some = {key: scores[key] for key in ("mask", "bias", "window", "scale", "softcap")}
        every = {**some, **extra, "eps": 0.5, "is_causal": not causal}
        yield from each(lambda: inputs(rng), every, **HEADS)
        yield option_case("q_offset"), inputs(rng), {**HEADS, "is_causal": True, "q_offset": 2}
        yield from rotated(inputs(rng))
        yield option_case("num_kv_heads"), inputs(rng, num_kv_heads=1), {**HEADS, "num_kv_heads": 1}
        yield option_case("norm"), inputs(rng, norm="rms"), {**HEADS, "norm": "layer"}
        yield option_case("residual_scale"), inputs(rng), {**HEADS, "residual_scale": 0.5}
        yield option_case("norm_offset"), inputs(rng, norm="rms"), {**HEADS, "norm_offset": 1.0}
        yield from _of_other_kinds(rng, inputs(rng))
        if causal:
            yield option_case("cross_scale"), inputs(rng), {**HEADS, "cross_scale": 1.0}
        else:
            first = {**HEADS, "norm_first": True}
            yield option_case("parallel"), inputs(rng), {**first, "parallel": True}

    fields = {**OF_BLOCKS, "is_causal": "memory_mask" in extra}
    # of blocks without cross-attention only, and of those with it
    del fields["parallel" if "memory_mask" in extra else "cross_scale"]
    return MapSpec(f=f, hard=hard, options=options, fields=fields)


def _with_parameters(given: Any, change: Callable[[Any], Any]) -> Any:
    """Return inputs with the parameters of the block, or of each one of a stack, changed."""
    place = next(i for i, part in enumerate(given) if isinstance(part, tuple))
    params = given[place]
    params = change(params) if hasattr(params, "_fields") else tuple(map(change, params))
    return *given[:place], params, *given[place + 1 :]


def _normed(p: Any) -> Any:
    """Return a block whose queries and keys are normalized."""
    field = p._fields[0]
    own = getattr(p, field)
    weight = np.linspace(0.5, 2.0, len(own.w_q) // HEADS["num_heads"])
    return p._replace(**{field: own._replace(q_norm=weight, k_norm=weight[::-1].copy())})


def experts(rng: Any, count: int = 6) -> Any:
    """Return experts for tokens of width 8."""
    shapes = (count, 5, 8), (count, 5, 8), (count, 8, 5)
    return t.ExpertParams(*(rng.normal(size=shape) / 3 for shape in shapes))


def _of_other_kinds(rng: Any, given: Any) -> Cases:
    """Yield the options of blocks that need other parameters."""
    rotation = {**HEADS, **rotations(), "norm_after_rope": True}
    yield option_case("norm_after_rope"), _with_parameters(given, _normed), rotation
    bounded = {**HEADS, **rotations(), "clip_qkv": 0.5}
    yield option_case("clip_qkv"), _with_parameters(given, _normed), bounded
    yield option_case("inner_eps"), _with_parameters(given, _normed), {**HEADS, "inner_eps": 0.5}
    network = t.MixtureParams(rng.normal(size=(6, 8)), experts(rng))
    options = {**HEADS, "activation": "silu", "router": {"k": 2}}
    yield (
        option_case("router"),
        _with_parameters(given, lambda p: p._replace(feed_forward=network)),
        options,
    )
    options = {**HEADS, "is_causal": True, "delta_heads": 2}
    yield (
        option_case("delta_heads"),
        _with_parameters(given, lambda p: _with_memory(rng, p)),
        options,
    )


def _with_memory(rng: Any, p: Any) -> Any:
    """Return a block with a gated delta rule: 4 heads of values, for 2 heads of keys."""
    shapes = ((8, 8),) * 4 + ((4, 8), (4, 8), (24, 3), (4,), (4,), (2,), (8, 8))
    arrays = (rng.normal(size=shape) / 2 for shape in shapes)
    return p._replace(**{p._fields[0]: t.GatedDeltaParams(*arrays)})


def _mixtures(rng: Any) -> Cases:
    x, weight = sequence(rng), rng.normal(size=(6, 8))
    yield "two of six", (x, weight, experts(rng)), {"k": 2}
    yield "one of six, sigmoids", (x, weight, experts(rng)), {"k": 1, "score": "sigmoid"}
    yield "all of six", (sequence(rng, 33), weight, experts(rng)), {"k": 6}


def _mixture_options(rng: Any) -> Cases:
    given = sequence(rng), rng.normal(size=(12, 8)), experts(rng, 12)  # groups of three
    gated = t.GatedFeedForwardParams(*(rng.normal(size=s) / 3 for s in ((5, 8), (5, 8), (8, 5))))
    values = {
        "score": "sigmoid", "normalize": False, "scale": 2.5, "activation": "geglu", "limit": 0.5,
        "shift": 1.0, "beta": 1.7, "shared": gated, "correction": np.linspace(0.9, -0.9, 12),
        "router_bias": np.linspace(-0.9, 0.9, 12),
    }  # fmt: skip
    yield from each(lambda: given, values, k=2)
    options = {"k": 2, "shared": gated, "shared_gate": np.ones((1, 8))}
    yield option_case("shared_gate"), given, options
    yield option_case("groups"), given, {"k": 2, "groups": 4}
    yield option_case("top_groups"), given, {"k": 2, "groups": 4, "top_groups": 2}


def network(f: Any, **changes: Any) -> MapSpec:
    def hard(rng: Any) -> Cases:
        p = block(rng, **changes).feed_forward
        yield "random", (sequence(rng), p), {}
        yield "{'activation': 'gelu'}", (sequence(rng), p), {"activation": "gelu"}
        yield "a length that is no multiple of a tile", (sequence(rng, 67), p), {}

    return MapSpec(f=f, hard=hard)


# Models.


def _language_model(rng: Any) -> Cases:
    tokens = rng.integers(0, 11, (2, 5))
    for what, changes in (
        ("learned positions", {}),
        ("sinusoidal positions", {"positions": "sinusoidal"}),
        ("ALiBi", {"positions": "alibi"}),
        ("T5's biases", {"positions": "t5"}),
        ("norms after the sums", {"norm_first": False}),
        ("embeddings of another width", {"embedding_dim": 3}),
        ("grouped heads, rotations, gates", {
            "positions": "rope", "norm": "rms", "activation": "swiglu", "num_kv_heads": 1,
            "tied": False, "biases": False,
        }),
    ):  # fmt: skip
        params, config = model(rng, t.init_language_model, **changes)
        yield what, (tokens, params), {"config": config}
    yield "one token", (tokens[:, :1], params), {"config": config}
    longer = rng.integers(0, 11, (1, 33))
    yield "a length that is no multiple of a tile", (longer, params), {"config": config}
    options = {"config": config, "lengths": np.array([4, 2])}
    yield "shorter texts", (tokens, params), options
    yield "texts padded on the left", (tokens, params), {**options, "padding": "left"}


def of_model(f: Any, inputs: Callable[[Any], tuple[Any, Any]], extra: Any, **known: Any) -> MapSpec:
    """Return the record of a model; `inputs` has its configuration, too, `extra` are options."""

    def hard(rng: Any) -> Cases:
        given, config = inputs(rng)
        yield "whole rows", given, {"config": config}
        yield "shorter rows", given, {"config": config, "lengths": np.array([5, 1])}

    def options(rng: Any) -> Cases:
        given, config = inputs(rng)
        yield from each(lambda: given, extra, config=config)

    return MapSpec(f=f, **({"hard": hard, "options": options} | known))


def _of_tokens(rng: Any) -> tuple[Any, Any]:
    params, config = model(rng, t.init_language_model)
    return (rng.integers(0, 11, (2, 5)), params), config


def _of_a_class(rng: Any) -> tuple[Any, Any]:
    params, config = model(rng, t.init_sequence_classifier, 3)
    return (rng.integers(0, 11, (2, 5)), params), config


def _of_classes(rng: Any) -> tuple[Any, Any]:
    (tokens, params), config = _of_a_class(rng)
    return (tokens, np.array([2, 0]), params), config


def _of_pairs(rng: Any) -> tuple[Any, Any]:
    params, config = model(rng, t.init_encoder_decoder_model)
    return (rng.integers(0, 11, (2, 5)), rng.integers(0, 11, (2, 4)), params), config


#: Dropout at the three places of a model of one block, and of one with two stacks.
OF_MODEL = {
    "dropout": (DROPPED,),
    "attention_dropout": (OF_HEADS,),
    "embedding_dropout": DROPPED[0],
}
OF_STACKS = {
    "dropout": ((DROPPED,), (OF_THREE,)),
    "attention_dropout": ((OF_HEADS,), None),
    "embedding_dropout": (None, DROPPED[0]),
}
TARGETS = np.array([[0, 3, -100, 10, 2], [-100, 1, 1, 5, -100]])
OF_LOSS = {**OF_MODEL, "targets": TARGETS}
OF_PAIRS = {**OF_STACKS, "targets": np.array([[0, 3, -100, 10], [-100, 1, 1, 5]])}

RECORDS = [
    network(t.feed_forward), network(t.gated_feed_forward, activation="swiglu"),
    MapSpec(f=t.mixture_of_experts, hard=_mixtures, options=_mixture_options),
    MapSpec(f=t.router_z_loss, hard=[call((5, 7)), call((2, 33, 4))], is_loss=True),
    of_blocks(
        t.encoder_block, _encoder_block, {"dropout": DROPPED, "attention_dropout": OF_HEADS},
        rms=True,
    ),
    of_blocks(
        t.encoder, _encoder, {"dropout": (DROPPED, None), "attention_dropout": (None, OF_HEADS)},
        rms=False,
    ),
    of_blocks(
        t.decoder_block, _decoder_block,
        {"dropout": OF_THREE, "attention_dropout": OF_HEADS, **MEMORY}, rms=False,
    ),
    of_blocks(
        t.decoder, _decoder,
        {"dropout": (OF_THREE, None), "attention_dropout": (None, OF_HEADS), **MEMORY}, rms=False,
    ),
    of_model(t.language_model, _of_tokens, OF_MODEL, hard=_language_model),
    MapSpec(f=t.language_model_trace, hard=_language_model),
    of_model(t.language_model_loss, _of_tokens, OF_LOSS, hard=_language_model, is_loss=True),
    of_model(t.sequence_classifier, _of_a_class, OF_MODEL),
    of_model(t.sequence_classifier_loss, _of_classes, OF_MODEL, is_loss=True),
    of_model(t.encoder_decoder_model, _of_pairs, OF_STACKS),
    of_model(t.encoder_decoder_model_loss, _of_pairs, OF_PAIRS, is_loss=True),
    of_model(t.encoder_decoder_weights, _of_pairs, None, options=None),
    MapSpec(
        f=t.next_token_probabilities, hard=[call((5, 37)), call((5, 37), temperature=0.5)],
        options=[call((5, 37), top_k=5), call((5, 37), top_p=0.6), call((5, 37), min_p=0.2)],
    ),
    *without(
        RANDOM, t.addition_task, t.associative_recall_task, t.copy_task, t.dropout_mask, t.generate,
        t.init_encoder_decoder_model, t.init_language_model, t.init_sequence_classifier,
        t.reverse_task,
    ),
    *without("it returns or takes a choice", t.top_k_router, t.load_balancing_loss),
    *without("its result is tokens, not numbers", t.beam_search, t.encoder_decoder_generate),
    *without(NOT_ARRAYS, t.load_params, t.multiplication_counts, t.parameter_counts, t.save_params),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "encoder_block": ["torch.nn.TransformerEncoderLayer", "encoder_layer"],
    "decoder_block": ["torch.nn.TransformerDecoderLayer", "decoder_layer"],
    "encoder": ["torch.nn.TransformerEncoder"],
    "decoder": ["torch.nn.TransformerDecoder"],
    "encoder_decoder_model": ["torch.nn.Transformer"],
    "feed_forward": ["ffn", "position_wise_feed_forward"],
    "gated_feed_forward": ["LlamaMLP", "gated_mlp"],
    "mixture_of_experts": ["moe", "moe_layer", "MixtralSparseMoeBlock"],
    "top_k_router": ["topk_router", "TopKRouter", "gate", "grouped_topk", "router"],
    "language_model": ["gpt", "decoder_only"],
    "next_token_probabilities": [
        "top_p",
        "top_k",
        "min_p",
        "nucleus_sampling",
        "TopPLogitsWarper",
        "MinPLogitsWarper",
    ],
    "load_balancing_loss": ["load_balancing_loss_func", "aux_loss"],
    "BlockOptions": [
        "residual_multiplier: here it is the option `residual_scale`",
        "residual_scaling: here it is the option `residual_scale`",
    ],
    "LanguageModelConfig": ['nope: here it is the option positions="none"'],
}
