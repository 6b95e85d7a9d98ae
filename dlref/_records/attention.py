"""Attention: scores, weights, averages, heads, and statistics of weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import attention as a
from . import _draw as draw
from ._spec import (
    MASKS,
    NOT_ARRAYS,
    PACKED,
    Cases,
    MapSpec,
    Sample,
    call,
    each,
    option_case,
    pairwise,
    record,
    without,
)
from .neurons import sequence

PART = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1]], bool)  # one row sees nothing
DROPPED = np.array([[2.0, 0, 0.5, 1], [0, 0, 2, 2], [1, 2, 0, 3]])
QKV = ((2, 5, 8), (2, 7, 8), (2, 7, 6))
TWO_MAPS = ((2, 5, 8), (2, 7, 8), (2, 5, 8), (2, 7, 8), (2, 7, 6), ())
ERASE = tuple(np.cos(np.add.outer([3, 1, 4, 1, 5], start + np.arange(4))) / 2 for start in (0, 7))
PROJECTED = ((2, 5, 7), (2, 6, 3), (2, 6, 4), (7, 3))


def each_of(t: int, s: int) -> dict[str, Any]:
    """Return a value for each option of T x S scores of two heads."""
    grid = np.add.outer(np.arange(t), 2 * np.arange(s))
    return {
        "mask": grid % 3 != 1,
        "bias": np.cos(grid),
        "window": (2, 1),
        "scale": 0.25,
        "softcap": 0.5,
        "sink": np.array([1.0, -1.0]),
        "dropout": 2.0 * (grid % 2),
        "indices": np.stack([np.arange(t) % s, np.full(t, -1), np.full(t, s - 1)], axis=-1),
    }


def _at(shapes: Any) -> list[dict[str, Any]]:
    """Return a value for each option of attention of these shapes, and two of them together."""
    (*_, t, _), (*_, s, _) = shapes[:2]
    heads = shapes[0][-3] if len(shapes[0]) > 2 else 1
    options = each_of(t, s) | {"sink": np.cos(np.arange(heads))}
    causal: list[dict[str, Any]] = [{"is_causal": True}, {"is_causal": True, "q_offset": 2}]
    singles = ({key: value} for key, value in options.items())
    return [*causal, *singles, causal[0] | {"softcap": 2.0}]


def _each_option(shapes: Any, *, without: tuple[str, ...] = ()) -> list[Sample]:
    """Return calls of attention with one option each."""
    options = each_of(shapes[0][-2], shapes[1][-2])
    some = [Sample(shapes, {key: value}) for key, value in options.items() if key not in without]
    return [*some, call(*shapes, is_causal=True, q_offset=2)]


def _hard(known: MapSpec, rng: Any, _size: Any) -> Cases:
    count = len(known.calls[0].shapes)

    def qkv(t: int, s: int, *, heads: int = 2, keys: int = 2) -> tuple[Any, ...]:
        every = (
            rng.normal(size=(2, heads, t, 8)),
            rng.normal(size=(2, keys, s, 8)),
            rng.normal(size=(2, keys, s, 6)),
        )
        return every[:count]

    mask = rng.random((5, 7)) < 0.6
    mask[:, 0] = True
    yield "as many queries as keys", qkv(6, 6), {}
    yield "causal", qkv(6, 6), {"is_causal": True}
    yield "fewer queries than keys, causal", qkv(3, 7), {"is_causal": True}
    yield "a cache before the queries", qkv(3, 7), {"is_causal": True, "q_offset": 4}
    yield "a mask", qkv(5, 7), {"mask": mask}
    mask = mask.copy()
    mask[2] = False
    yield "a row that sees no key", qkv(5, 7), {"mask": mask}
    yield "one key", qkv(5, 1), {}
    yield "one query", qkv(1, 7), {}
    yield "grouped heads", qkv(5, 7, heads=6), {}
    yield "a bias", qkv(5, 7), {"bias": rng.normal(size=(2, 5, 7))}
    yield "a scale", qkv(5, 7), {"scale": 0.1}
    yield "a soft cap", qkv(5, 7), {"softcap": 2.0}
    bias = 2.0 * rng.normal(size=(5, 7))
    yield "a soft cap before a bias", qkv(5, 7), {"softcap": 2.0, "bias": bias}
    causal = {"is_causal": True, "q_offset": 2}
    yield "a soft cap before a causal mask", qkv(5, 7), {"softcap": 2.0, **causal}
    masked = {"mask": mask, "bias": bias, **causal}
    yield "mask, bias, causal, grouped heads", qkv(5, 7, heads=4), masked
    q, *others = qkv(5, 7)
    yield "large scores", (20.0 * q, *others), {}
    yield "a length that is no multiple of a tile", qkv(33, 67), {}
    yield "one bias for the batch", qkv(5, 5), {"bias": rng.normal(size=(1, 2, 5, 5))}


def _beyond_tiles(options: list[Sample], *, values: bool) -> list[Sample]:
    """Return calls beyond tiles, with the options that there are: each pair in one of them."""
    q, k, v = (2, 129, 64), (2, 300, 64), (2, 300, 65)
    grid = np.add.outer(np.arange(129), 2 * np.arange(300))
    every = each_of(129, 300) | {"window": (170, 20), "softcap": 2.0, "mask": grid % 5 != 1}
    names = [key for sample in options for key in sample.options if key in every]
    groups = [{key: every[key]} for key in names] + [{"is_causal": True, "q_offset": 171}]
    grouped = call((1, 4, 67, 32), (1, 2, 67, 32), *([(1, 2, 67, 32)] * values), is_causal=True)
    return [*pairwise((q, k, v)[: 2 + values], *groups), grouped]


def dot_product(f: Any, *calls: Sample, values: bool = False, **known: Any) -> MapSpec:
    """Return the record of attention by dot products, its weights, or their scores."""
    v, heads, none = ([(4, 2)], [(2, 2, 4, 1)], [(0, 1, 4, 1)]) if values else ([], [], [])
    fixed = [
        call((3, 2), (4, 2), *v),
        call((3, 2), (4, 2), *v, mask=PART),
        call((2, 4, 3, 2), (2, 2, 4, 2), *heads, is_causal=True, softcap=1.5),
        call((3, 2), (4, 2), *v, window=(1, 0), q_offset=1, scale=2.0),
        call((0, 2, 3, 2), (0, 1, 4, 2), *none),
    ]
    return record(
        f,
        *fixed,
        *calls,
        options_at=_at,
        large=_beyond_tiles([*known["options"]], values=values),
        hard=(),
        more=_hard,
        **known,
    )


def of_weights(f: Any, *calls: Sample, hard: list[Sample]) -> MapSpec:
    every = [call((3, 4)), call((2, 3, 3)), call((0, 2, 3)), *calls]
    fields: dict[str, Any] = {"hard": hard, "options": (), "fixed": True}
    return MapSpec(f=f, family="weights", calls=every, draw=(draw.distribution,), **fields)


# Heads, whose parameters are nested.

HEADS = {"num_heads": 2}


def blind(rows: int, columns: int) -> Any:
    """Return a mask with a row that sees nothing."""
    mask = np.add.outer(np.arange(rows), np.arange(columns)) % 3 != 1
    mask[1] = False
    return mask


def rotations() -> dict[str, Any]:
    turns = np.outer(np.arange(5), [1.0, 0.1])
    return {"rope": (np.cos(turns), np.sin(turns))}


def rotated(inputs: Any) -> Cases:
    options = {**HEADS, **rotations()}
    yield option_case("rope"), inputs, options
    yield option_case("rope_interleaved"), inputs, {**options, "rope_interleaved": False}


def _projections(rng: Any, keys: int = 8) -> Any:
    """Return weights and biases for a width of 8, and keys of another."""
    shapes = (8, 8), (keys, 8), (keys, 8), (8, 8)
    weights = [rng.normal(size=shape) / 3 for shape in shapes]
    return a.AttentionParams(*weights, *(rng.normal(size=shape[0]) / 4 for shape in shapes))


def _multi_head(rng: Any) -> Cases:
    p = _projections(rng)
    yield "fewer queries than keys", (sequence(rng), sequence(rng, 7), p), HEADS
    yield "one key", (sequence(rng), sequence(rng, 1), p), HEADS
    yield "causal", (sequence(rng), sequence(rng), p), {**HEADS, "is_causal": True}
    masked = {**HEADS, "mask": blind(5, 7)}
    yield "a row that sees no key", (sequence(rng), sequence(rng, 7), p), masked
    grouped = _projections(rng, 4)
    yield "grouped heads", (sequence(rng), sequence(rng, 7), grouped), {**HEADS, "num_kv_heads": 1}
    yield "a length that is no multiple of a tile", (sequence(rng, 33), sequence(rng, 67), p), HEADS


def _multi_head_options(rng: Any) -> Cases:
    p, x = _projections(rng), sequence(rng)
    values = {k: v for k, v in each_of(5, 7).items() if k != "indices"}
    yield from each(lambda: (x, sequence(rng, 7), p), values, **HEADS)
    yield option_case("q_offset"), (x, x, p), {**HEADS, "is_causal": True, "q_offset": 2}
    yield from rotated((x, x, p))
    weight = np.linspace(0.5, 2.0, len(p.w_q) // HEADS["num_heads"])
    normed = x, x, p._replace(q_norm=weight, k_norm=weight[::-1].copy())
    norms = {"norm_eps": 0.5, "norm_offset": 1.0, "norm_after_rope": True, "clip_qkv": 0.5}
    for key, value in norms.items():
        yield option_case(key), normed, {**HEADS, **rotations(), key: value}


def _latents(rng: Any) -> a.LatentAttentionParams:
    """Return weights for tokens of 8 numbers: H = 2, N = 3, R = 4, V = 6, latents of 9 and 7."""
    shapes = (9, 8), (9,), (14, 9), (11, 8), (7,), (6, 7), (12, 7), (8, 12)
    return a.LatentAttentionParams(*(rng.normal(size=shape) / 2 for shape in shapes))


def _latent(rng: Any) -> Cases:
    p = _latents(rng)
    yield "some tokens", (sequence(rng), p), HEADS
    yield "one token", (sequence(rng, 1), p), HEADS
    yield "a length that is no multiple of a tile", (sequence(rng, 67), p), HEADS
    straight = p._replace(w_dq=None, q_norm=None, w_uq=rng.normal(size=(14, 8)) / 2)
    yield "queries without a latent", (sequence(rng), straight), HEADS


def _latent_options(rng: Any) -> Cases:
    p = _latents(rng)
    values = {"is_causal": False, "scale": 0.25, "eps": 0.5, "mask": blind(5, 5)}
    yield from each(lambda: (sequence(rng), p), values, **HEADS)
    yield from rotated((sequence(rng), p))


STATE = ((3, 2), (3, 2), (3, 4))  # q, k, v

RECORDS = [
    dot_product(
        a.attention_scores, options=_each_option(QKV[:2], without=("sink", "dropout", "indices")),
    ),
    dot_product(
        a.attention_weights, options=_each_option(QKV[:2], without=("dropout", "indices")),
    ),
    dot_product(
        a.scaled_dot_product_attention,
        call((3, 2), (4, 2), (4, 2), dropout=DROPPED, is_causal=True, softcap=1.5),
        call((3, 2), (4, 2), (4, 2), scale=np.array([[0.5], [1.0], [2.0]]), softcap=1.5),
        call((2, 3, 2), (2, 4, 2), (2, 4, 1), indices=np.array([[0, 2], [3, -1], [1, 1]])),
        call((2, 4, 3, 2), (2, 2, 4, 2), (2, 2, 4, 1), dropout=DROPPED[:1], mask=PART), values=True,
        options=_each_option(QKV),
        of_forms={
            "forward": [call(*QKV, return_lse=True), call(*QKV, return_weights=True)],
            "vjp": [call(*QKV, dlse=np.cos(np.arange(10.0)).reshape(2, 5))],
        },
    ),
    record(
        a.multiplicative_attention,
        call((3, 2), (4, 3), (4, 2), (2, 3)),
        call((2, 2, 3, 1), (2, 1, 4, 3), (2, 1, 4, 2), (1, 3)),
        call((0, 1, 3, 2), (0, 1, 4, 3), (0, 1, 4, 2), (2, 3), scale=0.5),
        batched=False,
        hard=[
            call(*PROJECTED), call((2, 33, 7), (2, 67, 3), (2, 67, 4), (7, 3), scale=0.5),
            call((2, 6, 7), (2, 6, 3), (2, 6, 4), (7, 3), is_causal=True),
        ],
        options=_each_option(PROJECTED, without=("indices",)),
    ),
    record(
        a.additive_attention,
        call((3, 2), (4, 3), (4, 2), (5, 2), (5, 3), (5,)),
        call((2, 3, 2), (2, 4, 3), (2, 4, 2), (1, 2), (1, 3), (1,), mask=np.arange(4) != 1),
        call((0, 3, 2), (0, 4, 3), (0, 4, 2), (5, 2), (5, 3), (5,)),
        batched=False,
        hard=[
            call((5, 7), (6, 3), (6, 4), (5, 7), (5, 3), (5,)),
            call((33, 7), (1, 3), (1, 4), (5, 7), (5, 3), (5,)),
            call((5, 7), (6, 3), (6, 4), (5, 7), (5, 3), (5,), mask=np.arange(6) != 1),
        ],
        options=(),
    ),
    record(
        a.linear_attention,
        call((3, 2), (4, 2), (4, 3)),
        call((2, 3, 2), (2, 3, 2), (2, 3, 1), is_causal=True, feature_map="exp"),
        call((3, 2), (3, 2), (3, 1), is_causal=True),
        call((3, 2), (4, 2), (4, 1), feature_map="identity", normalize=False),
        call((0, 3, 2), (0, 4, 2), (0, 4, 1)),
        hard=[
            call((5, 4), (7, 4), (7, 3)), call((67, 4), (67, 4), (67, 3), is_causal=True),
            call((5, 4), (7, 4), (7, 3), feature_map="exp"),
            call((7, 4), (7, 4), (7, 3), is_causal=True, feature_map="exp", normalize=False),
        ],
        options=[call((5, 4), (7, 4), (7, 3), normalize=False)],
    ),
    record(
        a.recurrent_linear_attention,
        call(*STATE, None, None, None), call(*STATE, (3, 2), (3,), (2, 4), scale=0.5),
        call(*STATE, (3, 1), None, None), call(*STATE, None, (3,), None),
        call((0, 3, 2), (0, 3, 2), (0, 3, 1), None, (0, 3), None),
        call(*STATE, (3, 2), (3,), (2, 4), segment_ids=np.array([0, 1, 1])),
        draw=(draw.normal, draw.unit_rows, draw.normal, draw.log_decay, draw.unit),
        hard=[
            call((5, 4), (5, 4), (5, 3), None, None, None),
            call((33, 4), (33, 4), (33, 3), (33, 4), (33,), (4, 3), scale=0.5),
            call((2, 9, 4), (2, 9, 4), (2, 9, 3), (2, 9, 1), None, None),  # RetNet, Mamba-2
            call((2, 9, 4), (2, 9, 4), (2, 9, 3), None, (2, 9), None),  # DeltaNet
            call((2, 9, 4), (2, 9, 4), (2, 9, 3), (2, 9, 1), (2, 9), None),  # Gated DeltaNet
            call((9, 4), (9, 4), (9, 3), (9, 4), None, (4, 3)),  # gated linear attention
        ],
        options=[
            call((5, 4), (5, 4), (5, 3), (5, 4), None, (4, 3), erase=ERASE),
            call((5, 4), (5, 4), (5, 3), (5, 4), None, (4, 3), scale=0.5),
            call((5, 4), (5, 4), (5, 3), (5, 4), None, (4, 3), **PACKED),
        ],
    ),
    record(
        a.merge_attention,
        call((3, 2, 4), (3, 2)), call((2, 3, 2, 1), (2, 3, 2), axis=1), call((1, 3, 2), (1, 3)),
        call((2, 0, 3), (2, 0)),
        batched=False, hard=[call((4, 5, 7), (4, 5))],
        options=[call((4, 4, 7), (4, 4), axis=1)],
    ),
    record(
        a.forgetting_bias,
        call((2, 5)), call((4,), q_offset=2), call((2, 1, 3), q_offset=3), call((0, 3)),
        call((2, 4), q_offset=-2), call((2, 5), q_offset=1, T=2),
        draw=(draw.log_decay,), hard=[call((2, 33))],
        options=[call((2, 7), q_offset=3), call((2, 7), T=3)],
    ),
    record(
        a.indexer_scores,
        call((3, 4, 2), (5, 2), (4, 3)), call((2, 1, 3, 2), (2, 3, 2), (2, 3, 1)),
        call((0, 2, 3, 1), (0, 2, 1), (0, 3, 2)),
        hard=[call((2, 5, 7), (6, 7), (5, 2))],
    ),
    record(
        a.differential_attention,
        call((3, 2), (4, 2), (3, 2), (4, 2), (4, 3), ()),
        call(*2 * [(2, 4, 3, 2), (2, 2, 4, 2)], (2, 2, 4, 1), (4, 1, 1), is_causal=True),
        call(*2 * [(0, 2, 3, 2), (0, 1, 4, 2)], (0, 1, 4, 1), ()),
        batched=False, hard=[call(*TWO_MAPS)],
        options=_each_option(TWO_MAPS, without=("sink", "dropout", "indices")),
    ),
    record(
        a.repeat_kv, call((2, 3, 4), 2), call((2, 1, 3, 1), 3), call((0, 1, 2, 1), 1),
        constant=(1,), batched=False,
    ),
    of_weights(a.attention_entropy, hard=[call((5, 7)), call((2, 3, 33, 67))]),
    of_weights(
        a.attention_distance, call((3, 4), q_offset=2),
        hard=[call((5, 7)), call((5, 7), q_offset=2)],
    ),
    of_weights(
        a.attention_shares, call((3, 4), q_offset=-1),
        hard=[call((5, 7)), call((5, 7), q_offset=-1)],
    ),
    record(
        a.attention_rollout,
        call((2, 2, 3, 3)), call((1, 4, 2, 2, 2), residual=0.25), call((3, 1, 1, 1)),
        draw=(draw.distribution,), batched=False,
        hard=[call((2, 2, 5, 5)), call((3, 2, 7, 7), residual=0.25)], options=(), fixed=True,
    ),
    MapSpec(
        f=a.multi_head_attention, hard=_multi_head, options=_multi_head_options,
    ),
    MapSpec(
        f=a.latent_attention, hard=_latent, options=_latent_options,
    ),
    *without(
        MASKS, a.block_mask, a.causal_mask, a.chunk_mask, a.document_mask, a.padding_mask,
        a.prefix_mask, a.tree_mask, a.window_mask,
    ),
    *without(NOT_ARRAYS, a.select_keys),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "causal_mask": [
        "torch.nn.Transformer.generate_square_subsequent_mask",
        "tril",
        "look_ahead_mask",
    ],
    "multi_head_attention": [
        "torch.nn.MultiheadAttention",
        "mha",
        "multihead_attention",
        "MultiHeadAttention",
        "gqa",
        "gated_attention",
        "qk_norm: it takes the norms of queries and keys as parameters",
    ],
    "recurrent_linear_attention": [
        "gated_delta_rule",
        "delta_rule",
        "retention",
        "retnet",
        "gla",
        "deltanet",
        "mamba2",
        "ssd",
        "rwkv7",
        "dplr_delta_rule",
        "comba",
        "GatedDeltaNet",
        "gated_delta_net",
        "kda",
        "kimi_delta_attention",
        "iplr_delta_rule",
    ],
    "repeat_kv": ["repeat_interleave"],
    "scaled_dot_product_attention": [
        "torch.nn.functional.scaled_dot_product_attention",
        "jax.nn.dot_product_attention",
        "sdpa",
        "attention",
        "flash_attention",
        "flash_attn_func",
        "softmax_attention",
        "cross_layer_attention: it is given the keys and values of an earlier layer",
        "kv_sharing: it is given the keys and values of an earlier layer",
        "attention_residuals: it is given the outputs of the layers before as keys and values",
        "attention_over_depth: it is given the outputs of the layers before as keys and values",
        "sinks: here it is the option `sink`",
    ],
    "window_mask": ["sliding_window", "local_mask"],
    "KVCache": ["DynamicCache", "kv_cache", "past_key_values"],
    "document_mask": [
        "segment_mask",
        "cu_seqlens: it holds the boundaries of the documents, `segment_ids` their numbers",
    ],
    "indexer_scores": ["indexer", "lightning_indexer"],
    "latent_attention": ["compressed_keys", "compressed_kv"],
}
