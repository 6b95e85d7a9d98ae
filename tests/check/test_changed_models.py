"""Ports of recent models whose mistake is tried on the model, and right ports in float32."""

import dataclasses

import numpy as np
import pytest
from check.test_pieces import traced
from check.test_traces import CONFIGS, D, H, T, V, filled

from dlref.check import first_difference, trace
from dlref.positions import t5_bias
from dlref.transformer import (
    LanguageModelConfig,
    encoder_decoder_model,
    init_encoder_decoder_model,
    language_model,
)


def in_turn(parts, groups):
    """Return rows of parts that alternate in so many groups."""
    each = [w.reshape(groups, -1, *w.shape[1:]) for w in parts]
    return np.concatenate([w[g] for g in range(groups) for w in each])


def out_of_turn(rows, sizes, groups):
    """Return the parts of such rows."""
    parts = np.split(rows.reshape(groups, -1, *rows.shape[1:]), np.cumsum(sizes)[:-1] // groups, 1)
    return [w.reshape(-1, *rows.shape[1:]) for w in parts]


def cut(names, groups, *, split_in_turn):
    """Return a change of weights that a file has in one order, and a port reads in another."""

    def changed(a):
        parts = [getattr(a, name) for name in names]
        sizes = [len(w) for w in parts]
        if split_in_turn:
            read = out_of_turn(np.concatenate(parts), sizes, groups)
        else:
            read = np.split(in_turn(parts, groups), np.cumsum(sizes)[:-1])
        return a._replace(**dict(zip(names, read, strict=True)))

    return changed


def of_experts(names, **order):
    """Return the change of the matrices of each expert."""

    def changed(experts):
        count, rows = experts.w_up.shape[:2]
        one = cut(names, rows, **order)
        each = [one(experts._replace(**{n: getattr(experts, n)[e] for n in names}))
                for e in range(count)]  # fmt: skip
        return experts._replace(**{n: np.stack([getattr(p, n) for p in each]) for n in names})

    return changed


def with_biases(change, biases):
    return lambda a: biases(change(a))


def replaced(**changes):
    """Return a change of arrays by functions."""
    return lambda a: a._replace(**{name: f(getattr(a, name)) for name, f in changes.items()})


def in_all_blocks(params, path, change):
    """Return parameters with a change of this part of all blocks that have its arrays."""

    def changed(p, names):
        if not names:
            return change(p)
        there = getattr(p, names[0], None)
        return p if there is None else p._replace(**{names[0]: changed(there, names[1:])})

    return params._replace(blocks=tuple(changed(p, path) for p in params.blocks))


def only(kind, change):
    """Return a change of parts of one kind that leaves others alone."""
    return lambda a: change(a) if type(a).__name__ == kind else a


ROWS = "row by row in turn"
GATE_UP, QKVZ = ("w_gate", "w_up"), ("w_q", "w_k", "w_v", "w_z")
ATTENTION, NETWORK, EXPERTS = ("attention",), ("feed_forward",), ("feed_forward", "experts")
#: Family, variant, changed part, its change, first wrong step and cause.
PLANTED = {
    "gate_up in turn": (
        "gemma", 0, NETWORK, cut(GATE_UP, 24, split_in_turn=True),
        "feed_forward.gate", f"gate_up is read {ROWS}, not in two parts",
    ),
    "gate_up in halves": (
        "gemma", 0, NETWORK, cut(GATE_UP, 24, split_in_turn=False),
        "feed_forward.gate", f"gate_up is read in two parts, not {ROWS}",
    ),
    "gate_up of experts in halves": (
        "gpt_oss", 0, EXPERTS, with_biases(
            of_experts(GATE_UP, split_in_turn=False),
            of_experts(("b_gate", "b_up"), split_in_turn=False),
        ),
        "feed_forward.out", f"gate_up of the experts is read in two parts, not {ROWS}",
    ),
    "gate_up of a shared expert in turn": (
        "deepseek_v3", 2, ("feed_forward", "shared"), cut(GATE_UP, 24, split_in_turn=True),
        "feed_forward.out", f"gate_up of the shared expert is read {ROWS}, not in two parts",
    ),
    "queries with their gates": (
        "qwen3_next", 1, ATTENTION,
        only("AttentionParams", cut(("w_q", "w_gate"), 4, split_in_turn=False)),
        "attention.q", "the matrix of queries and gates is read in two parts, not head by head",
    ),
    "qkvz": (
        "qwen3_next", 0, ATTENTION,
        only("GatedDeltaParams", cut(QKVZ, 2, split_in_turn=False)),
        "attention.q", "qkvz is read in four parts, not head by head of the keys",
    ),
    "b and a": (
        "qwen3_next", 0, ATTENTION,
        only("GatedDeltaParams", lambda a: a._replace(w_b=a.w_a, w_a=a.w_b)),
        "attention.beta", "w_b and w_a are exchanged",
    ),
    "kv_b": (
        "deepseek_v3", 2, ATTENTION, cut(("w_uk", "w_uv"), 4, split_in_turn=False),
        "attention.k", "kv_b is read in two parts, not head by head",
    ),
    "kv_a": (
        "deepseek_v3", 2, ATTENTION,
        replaced(w_dkv=lambda w: np.concatenate([w[4:], w[:4]])),
        "attention.latent", "kv_a is read with the shared key first, not the latent",
    ),
    "q_norm as 1 + w": (
        "deepseek_v3", 2, ATTENTION, replaced(q_norm=lambda w: w + 1),
        "attention.q_latent", "the weight of q_norm is taken as 1 + w",
    ),
    "kv_norm as 1 + w": (
        "deepseek_v3", 2, ATTENTION, replaced(kv_norm=lambda w: w + 1),
        "attention.latent", "the weight of kv_norm is taken as 1 + w",
    ),
    "exp twice": (
        "qwen3_next", 0, ATTENTION, only("GatedDeltaParams", replaced(a_log=np.exp)),
        "attention.decay", "the decay's rates are taken with two exponentials",
    ),
    "own norm of the delta rule": (
        "qwen3_next", 0, ATTENTION,
        only("GatedDeltaParams", replaced(norm=lambda w: w + 1)),
        "attention.out", "the weight of the delta rule's own norm is taken as 1 + w",
    ),
    "offset twice": (
        "gemma", 0, ("norm1",), replaced(weight=lambda w: w + 1),
        "norm1", "the offset of the weight of norm1 is added twice",
    ),
    "offset of the queries' norm twice": (
        "qwen3_next", 1, ATTENTION,
        only("AttentionParams", replaced(q_norm=lambda w: w + 1, k_norm=lambda w: w + 1)),
        "attention.q_normed",
        "the weights of the norms of queries and keys are taken as 2 + w, with the offset twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_changed_part_is_named(name):
    kind, variant, path, change, step, cause = PLANTED[name]
    ids, params, own, right = traced(kind, variant)
    port = trace(language_model, ids, in_all_blocks(params, path, change), own)
    found = first_difference(right, port)
    assert (found.name, found.cause, found.then) == (f"blocks.0.{step}", cause, None)


def test_keys_that_come_first_in_a_fused_matrix():
    config = CONFIGS["llama"]
    params, ids = filled(config), np.arange(T)
    right = trace(language_model, ids, params, config)

    def changed(a):
        rows = np.concatenate([a.w_q, a.w_k, a.w_v])
        w_k, w_q, w_v = np.split(rows, [len(a.w_k), len(a.w_k) + len(a.w_q)])
        return a._replace(w_q=w_q, w_k=w_k, w_v=w_v)

    port = trace(language_model, ids, in_all_blocks(params, ATTENTION, changed), config)
    found = first_difference(right, port)
    assert found.cause == "a fused projection is read in three parts in the order k, q, v"
    assert found.then is None


def with_blocks(config, change):
    """Return a configuration with a change of the options of its blocks."""
    many = isinstance(config.blocks, tuple)
    each = tuple(change(o) for o in (config.blocks if many else (config.blocks,)))
    return LanguageModelConfig(**{**vars(config), "blocks": each if many else each[0]})


def test_all_options_of_the_units_of_experts_are_missing():
    ids, params, own, right = traced("gpt_oss")
    plain = {"k": 2, "score": "softmax_of_top"}
    port = trace(language_model, ids, params, with_blocks(own, lambda o: o | {"router": plain}))
    port = {name: array for name, array in port.items() if name in right}
    found = first_difference(right, port)
    assert found.name == "blocks.0.feed_forward.out"
    assert found.cause == "the experts' options limit, shift, beta are missing"


YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 4.0}
LONG = {"type": "longrope", "short_factor": [2.0] * 16, "long_factor": [4.0] * 16}
LONG |= {"original_max_position_embeddings": 64, "attention_factor": 1.0}
SCALED = {
    "factor": (YARN, YARN | {"factor": 8.0}, "the factor of the scaling is 8, not 4"),
    "type": (
        YARN, {"type": "linear", "factor": 4.0},
        "the scaling of the rotation is linear instead of yarn",
    ),
    "truncate": (YARN, YARN | {"truncate": False}, "YaRN's bounds are not rounded (truncate)"),
    "no truncate": (YARN | {"truncate": False}, YARN, "YaRN's bounds are rounded (truncate)"),
    "long": (LONG, None, "the scaling of the rotation is missing"),
    "beta": (YARN, YARN | {"beta_fast": 32.0}, "YaRN's beta_fast is 32, not 4"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALED)
def test_other_scalings(name):
    scaling, another, cause = SCALED[name]
    config = LanguageModelConfig(
        V, 64, 2, positions="rope", norm="rms", rope_base=100.0, rope_scaling=scaling
    )
    other = dataclasses.replace(config, rope_scaling=another)
    params, ids = filled(config), np.arange(12)
    right = trace(language_model, ids, params, config)
    found = first_difference(right, trace(language_model, ids, params, other))
    assert (found.name, found.cause) == ("blocks.0.attention.q_rotated", cause)
    assert found.then is None


def weights_of(logits, correction, *, score, groups, like, outside, corrected=False):
    """Return the normalized weights of three experts in the two best of some groups."""
    scores = 1 / (1 + np.exp(-logits)) if score == "sigmoid" else np.exp(logits)
    scores = scores if score == "sigmoid" else scores / scores.sum(-1, keepdims=True)
    chosen_by = scores + correction
    members = chosen_by.reshape(*logits.shape[:-1], groups, -1)
    best = np.sort(members, -1)[..., -like:].sum(-1)
    last = np.sort(best, -1)[..., -2:-1]
    inside = np.where((best >= last)[..., None], members, outside).reshape(logits.shape)
    experts = np.argsort(-inside, -1, kind="stable")[..., :3]  # the first of equal ones
    weights = np.take_along_axis(chosen_by if corrected else scores, experts, -1)
    return weights / weights.sum(-1, keepdims=True)


ROUTED = {
    "right": ("sigmoid", {}, None),
    "weights": (
        "sigmoid", {"corrected": True},
        "the correction of the router is in the experts' weights, too",
    ),
    "one": (
        "sigmoid", {"like": 1},
        "groups of experts are chosen by their best expert, not by their two best",
    ),
    "two": (
        "softmax", {"like": 2},
        "groups of experts are chosen by their two best experts, not by the best one",
    ),
    "zero": ("sigmoid", {"outside": 0.0}, "scores outside the best groups are 0, not"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUTED)
def test_experts_that_are_chosen_otherwise(name):
    score, change, cause = ROUTED[name]
    ids, params, own, _ = traced("deepseek_v3", 2)
    router = own.blocks["router"] | {"score": score}
    own = with_blocks(own, lambda o: o | {"router": router})
    # Corrections below 0 are what makes 0 better than the scores of the best groups.
    correction = np.linspace(-0.9, -0.3, 8)[[3, 0, 6, 1, 7, 2, 5, 4]]
    params = in_all_blocks(params, NETWORK, lambda p: p._replace(correction=correction))
    right = trace(language_model, ids, params, own)
    like = {"sigmoid": 2, "softmax": 1}[score]
    options = {"score": score, "groups": 4, "like": like, "outside": -np.inf} | change
    steps = ("norm1", "attention.out", "norm2", "feed_forward.router")
    port = {f"blocks.0.{step}": right[f"blocks.0.{step}"] for step in steps}
    logits = right["blocks.0.feed_forward.router"]
    port["blocks.0.feed_forward.weights"] = router["scale"] * weights_of(
        logits, correction, **options
    )
    found = first_difference(right, port)
    if cause is None:
        assert found is None
    else:
        assert found.name == "blocks.0.feed_forward.weights"
        assert found.cause.startswith(cause)


def test_corrected_weights_without_groups():
    """Of a router that does not normalize its weights, without a shared expert."""
    ids, params, own, _ = traced("minimax_m2")
    own = with_blocks(own, lambda o: o | {"router": o["router"] | {"normalize": False}})
    right = trace(language_model, ids, params, own)
    logits = right["blocks.0.feed_forward.router"]
    corrected = 1 / (1 + np.exp(-logits)) + params.blocks[0].feed_forward.correction
    weights = "blocks.0.feed_forward.weights"
    largest = -np.sort(-corrected, axis=-1)[..., : own.blocks["router"]["k"]]
    found = first_difference(right, {weights: largest})
    assert found.cause == "the correction of the router is in the experts' weights, too"


def test_the_bias_of_self_attention_in_the_cross_attention():
    config = LanguageModelConfig(V, D, H, positions="t5", norm="rms")
    params = filled(config, init_encoder_decoder_model)
    source, target = np.arange(T + 2), np.arange(T)
    right = trace(encoder_decoder_model, source, target, params, config)
    scores = "decoder.blocks.0.cross_attention.scores"
    bias = np.asarray(t5_bias(params.positions, T, T + 2, bidirectional=False))
    found = first_difference(right, {scores: right[scores] + bias})
    assert found.cause == "the cross-attention has the bias of self-attention"
    assert first_difference(right, {scores: right[scores].copy()}) is None


def test_a_last_norm_that_is_missing_in_one_half():
    config = LanguageModelConfig(V, D, H, norm="rms")
    params = filled(config, init_encoder_decoder_model)
    source, target = np.arange(T + 2), np.arange(T)
    right = trace(encoder_decoder_model, source, target, params, config)
    raw = right[f"encoder.blocks.{config.num_layers - 1}.out"]
    port = {"encoder.norm": raw, "decoder.norm": right["decoder.norm"]}
    found = first_difference(right, port)
    assert (found.name, found.cause) == ("encoder.norm", "the last norm is missing")
    assert found.then.name == "decoder.norm"


def test_mistakes_that_lead_to_the_same_numbers():
    """All are named: with one key head of two, either order may be the one that is read."""
    ids, params, own, right = traced("qwen3_next")
    change = only("GatedDeltaParams", cut(("w_b", "w_a"), 2, split_in_turn=False))
    found = first_difference(
        right, trace(language_model, ids, in_all_blocks(params, ATTENTION, change), own)
    )
    assert found.cause == (
        "ba is read head by head of the keys, not in two parts, "
        "or ba is read in two parts, not head by head of the keys"
    )


def in_another_order(params, order):
    """Return the parameters of a model whose stream has its channels in another order."""
    inputs = {"w_q", "w_k", "w_v", "w_gate", "w_up", "head"}
    outputs = {"embedding", "w_o", "w_down"}

    def changed(tree, name=""):
        if hasattr(tree, "_fields"):
            return type(tree)(*map(changed, tree, tree._fields))
        if isinstance(tree, tuple):
            return tuple(map(changed, tree))
        if tree is None:
            return None
        if name in inputs or name == "embedding":
            return tree[:, order]
        return tree[order] if name in outputs or name == "weight" else tree

    return changed(params)


def with_less_precision(config, params, ids):
    """Return the steps of a right port: in float32, with sums in another order."""
    order = np.random.default_rng(5).permutation(D)
    narrow = map_arrays(in_another_order(params, order), lambda a: a.astype(np.float32))
    steps = trace(language_model, ids, narrow, config)
    back = np.argsort(order)
    return {
        name: np.ascontiguousarray(a[..., back]) if a.shape[-1] == D and a.ndim == 2 else a
        for name, a in steps.items()
    }


def map_arrays(tree, f):
    if isinstance(tree, tuple):
        parts = [map_arrays(part, f) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return None if tree is None else f(tree)


@pytest.fixture(scope="module")
def less_precise():
    config, ids = CONFIGS["llama"], np.arange(T) % V
    params = filled(config)
    right = trace(language_model, ids, params, config)
    return right, with_less_precision(config, params, ids)


def test_a_port_in_float32_is_right(less_precise):
    right, port = less_precise
    assert 0 < np.max(np.abs(port["logits"] - right["logits"])) < 1e-4
    assert first_difference(right, port) is None
    wide = {name: a.astype(np.float64) for name, a in port.items()}
    assert first_difference(right, wide) is None


@pytest.mark.parametrize("rtol", 2.0 ** np.arange(-28, -18))
def test_a_right_port_that_is_less_precise_has_no_cause(less_precise, rtol):
    """At any tolerance: a mistake explains a difference, it does not make one a little smaller."""
    right, port = less_precise
    found = first_difference(right, port, rtol=rtol)
    assert found is None or (found.cause == "" and found.then is None)
