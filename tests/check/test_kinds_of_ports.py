"""Kinds of mistakes in ports: norms, positions, numbers of heads, bounds, and caps of logits."""

import dataclasses

import numpy as np
import pytest
from check.test_changed_models import in_all_blocks, in_turn, out_of_turn
from check.test_pieces import known, traced
from check.test_reported_ports import WEIGHTS, model_of_heads, normalized, rms, softmax
from check.test_traces import V, filled

from dlref.activations import silu
from dlref.check import first_difference, trace
from dlref.check._tracing import models
from dlref.transformer import LanguageModelConfig, language_model


def squares(x):
    return x * x


NORMS = {
    "eps is multiplied by the largest square of the inputs of a norm": (
        lambda x, w, eps: rms(x / abs(x).max(-1, keepdims=True), w, eps)
    ),
    "inputs of the norms are multiplied by the root, not divided by it": (
        lambda x, w, eps: x * w * np.sqrt(squares(x).mean(-1, keepdims=True) + eps)
    ),
}


@pytest.mark.parametrize("message", NORMS)
def test_other_roots_of_norms(message):
    _, params, own, right = traced("granite")
    last = right["blocks.2.out"]
    for step, x, weight in (
        ("blocks.0.norm1", right["embedding"], params.blocks[0].norm1.weight),
        ("norm", last, params.norm.weight),
    ):
        port = {step: NORMS[message](x, weight, own.eps)}
        assert first_difference(right, port).cause == message


def test_numbers_of_heads_that_are_taken_as_positions():
    params, config, ids = model_of_heads(blocks={"rope_interleaved": False})
    right = trace(language_model, ids, params, config)
    frequencies = 1e4 ** (-np.arange(12) / 12)

    def turned(x):
        angles = np.arange(len(x))[:, None, None] * frequencies
        first, second = np.split(x, 2, axis=-1)
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    q, k = (turned(right[f"blocks.0.attention.{name}"]) for name in "qk")
    scores = q @ np.repeat(k, 2, axis=0).swapaxes(-1, -2) / 24**0.5
    scores[:, np.triu(np.ones(scores.shape[-2:]), 1) == 1] = -np.inf
    found = first_difference(right, {WEIGHTS: softmax(scores)})
    assert found.cause == "the number of the head is taken as the position"


def test_a_text_shorter_than_its_heads_has_no_such_positions():
    params, config, ids = model_of_heads()
    right = trace(language_model, ids[:3], params, config)
    causes = [cause for cause, _ in right.mistakes["blocks.0.out"]()]
    assert "the number of the head is taken as the position" not in causes


OTHER_HEADS = {
    "the {} of the first head are those of all heads": lambda a: np.full_like(a, a[0]),
    "the {} of the heads are in the opposite order": lambda a: a[::-1],
    "the {} are those of the next head": lambda a: a[[*range(1, len(a)), 0]],
    "the {} are those of the head before": lambda a: a[[-1, *range(len(a) - 1)]],
}


@pytest.mark.parametrize("said", OTHER_HEADS)
@pytest.mark.parametrize("field", ["dt_bias", "a_log", "sink"])
def test_numbers_of_other_heads(field, said):
    words = {"dt_bias": "biases of the steps", "a_log": "logarithms of the decay"}
    kind = "gpt_oss" if field == "sink" else "qwen3_next"
    ids, params, own, right = traced(kind)
    a = params.blocks[0].attention
    changed = a._replace(**{field: OTHER_HEADS[said](getattr(a, field))})
    block = params.blocks[0]._replace(attention=changed)
    port = trace(language_model, ids, params._replace(blocks=(block, *params.blocks[1:])), own)
    seen = {n: x for n, x in port.items() if n.endswith(("out", "norm1"))}
    cause = first_difference(right, seen).cause
    message = said.format(words.get(field, "sinks"))
    assert message in cause.split(", or ")


def centered(x, w, eps=1e-5):
    x = x - x.mean(-1, keepdims=True)
    return rms(x, w[:, None], eps)


@pytest.mark.parametrize("kind", ["stablelm", "cohere"])
def test_layer_norms_of_heads(kind):
    """Each head has a row of the weight, and they are no RMS norms."""
    _, params, _, right = traced(kind, 2)
    a = params.blocks[0].attention
    step = "blocks.0.attention.{}_normed"
    q, k = (right[f"blocks.0.attention.{name}"] for name in "qk")
    port = {step.format("q"): centered(q, a.q_norm), step.format("k"): centered(k, a.k_norm)}
    assert first_difference(right, port) is None
    other = port | {step.format("q"): rms(q, a.q_norm[:, None], 1e-5)}
    message = "the norms of queries and keys are RMS norms, not layer norms"
    assert first_difference(right, other).cause == message
    other = port | {step.format("q"): centered(q, a.q_norm[:1].repeat(len(a.q_norm), 0))}
    message = "the norms of queries of the first head are those of all heads"
    assert first_difference(right, other).cause == message
    other = port | {step.format("k"): centered(k, a.k_norm[::-1])}
    assert "the norms of keys" in first_difference(right, other).cause
    assert "queries and keys are not normalized" in known(kind, 2, "blocks.0.out")


def test_heads_that_share_keys_have_their_norms():
    causes = known("cohere", 2, "blocks.0.out")
    assert "query head h uses key head h mod Hk instead of h // (H / Hk)" in causes


def test_one_head_has_no_others():
    config = LanguageModelConfig(V, 8, 1, positions="rope")
    sink = np.array([0.5])
    params = in_all_blocks(filled(config), ("attention",), lambda a: a._replace(sink=sink))
    right = trace(language_model, np.arange(6), params, config)
    causes = [cause for cause, _ in right.mistakes["blocks.0.out"]()]
    assert "the sinks are missing" in causes
    assert not any("next head" in cause for cause in causes)


@pytest.mark.parametrize(("read", "kept"), [("norm1", "norm2"), ("norm2", "norm1")])
def test_a_norm_with_the_parameters_of_another(read, kept):
    ids, params, own, right = traced("gpt_neox")
    block = params.blocks[0]
    block = block._replace(**{kept: getattr(block, read)})
    port = trace(language_model, ids, params._replace(blocks=(block, *params.blocks[1:])), own)
    seen = {name: a for name, a in port.items() if name.endswith(("norm1", "norm2", "out"))}
    assert first_difference(right, seen).cause == f"{kept} has the parameters of {read}"


BOUNDS = {
    "the experts' gate is bounded below, too": lambda g, u, c: (g.clip(-c, c), u.clip(-c, c)),
    "the experts' gate is not bounded": lambda g, u, c: (g, u.clip(-c, c)),
    "the experts' up is not bounded": lambda g, u, c: (g.clip(None, c), u),
    "the experts' up is bounded above alone": lambda g, u, c: (g.clip(None, c), u.clip(None, c)),
}


@pytest.mark.parametrize("message", BOUNDS)
def test_other_bounds_of_experts(message):
    ids, params, own, _ = traced("gpt_oss")
    limit, beta = 0.5, own.blocks[0]["router"]["beta"]
    blocks = tuple(o | {"router": o["router"] | {"limit": limit}} for o in own.blocks)
    right = trace(language_model, ids, params, dataclasses.replace(own, blocks=blocks))
    network, x = params.blocks[0].feed_forward, right["blocks.0.norm2"]
    logits, out = right["blocks.0.feed_forward.router"], np.zeros_like(x)
    e = network.experts
    for at in np.ndindex(logits.shape[:-1]):
        chosen = np.argsort(-logits[at])[:2]
        for n, weight in zip(chosen, softmax(logits[at][chosen]), strict=True):
            gate, up = (w[n] @ x[at] + b[n] for w, b in ((e.w_gate, e.b_gate), (e.w_up, e.b_up)))
            gate, up = BOUNDS[message](gate, up, limit)
            hidden = silu(beta * gate) / beta * (up + 1)
            out[at] += weight * (e.w_down[n] @ hidden + e.b_down[n])
    found = first_difference(right, {"blocks.0.feed_forward.out": out})
    assert found.cause == message


@pytest.mark.parametrize("cap", [30.0, 2.5])
@pytest.mark.parametrize("kind", ["granite", "gemma2"])
def test_another_cap_of_the_logits(kind, cap):
    _, _, own, right = traced(kind)
    logits, usual = right["logits"], own.logit_softcap
    bare = logits if usual is None else usual * np.arctanh(logits / usual)
    found = first_difference(right, {"logits": cap * np.tanh(bare / cap)})
    place = "where none is" if usual is None else f"instead of {usual:g}"
    assert found.cause == f"the soft cap of the logits is {cap:g} {place}"


def test_a_factor_under_the_cap_of_the_logits():
    _, _, own, right = traced("gemma2")
    cap = own.logit_softcap
    bare = np.arctanh(right["logits"] / cap)
    found = first_difference(right, {"logits": cap * np.tanh(0.3 * bare)})
    assert found.cause == "the logits are multiplied by 0.3 instead of by 1"


def test_the_second_mistake_after_a_cap_of_the_logits():
    """The search's value goes into the model, and what is left agrees."""
    _, _, _, right = traced("granite")
    port = dict(right) | {"logits": 3 * np.tanh(right["logits"] / 3)}
    found = first_difference(right, port)
    assert (found.cause, found.then) == ("the soft cap of the logits is 3 where none is", None)


def test_weights_of_experts_sum_to_1_here():
    """The loop above weighs the two chosen experts as gpt-oss does."""
    logits = np.array([0.1, 2.0, -1.0, 1.0])
    chosen = logits[[1, 3]]
    np.testing.assert_allclose(softmax(chosen), normalized(softmax(logits)[[1, 3]]))


@pytest.mark.parametrize("late", [True, False])
def test_another_memory_of_the_delta_rule(late):
    _, params, _, right = traced("qwen3_next")
    part = "blocks.0.attention."
    q, k, v, beta, decay = (right[part + name] for name in ("q", "k", "v", "beta", "decay"))
    memory, read = np.zeros((*q.shape[:-2], q.shape[-1], v.shape[-1])), np.empty_like(v)
    for t in range(q.shape[-2]):
        factor = np.exp(decay[..., t, None, None])
        memory = memory if late else factor * memory
        known = (memory * k[..., t, :, None]).sum(-2) if late else 0
        step = beta[..., t, None] * (v[..., t, :] - known)
        memory = memory + k[..., t, :, None] * step[..., None, :]
        memory = factor * memory if late else memory
        read[..., t, :] = (memory * q[..., t, :, None]).sum(-2)
    found = first_difference(right, {f"{part}averages": read / q.shape[-1] ** 0.5})
    if late:
        assert found.cause == "the memory decays after it has taken a value, not before"
    else:
        message = "the memory takes the values, not the part that its keys do not read yet"
        assert found.cause == message
    assert params.blocks[0].attention.a_log.size == q.shape[-3]


def test_a_second_sum_with_the_input_of_the_block():
    _, _, own, right = traced("qwen2")
    x, out = right["embedding"], right["blocks.0.feed_forward.out"]
    assert own.blocks == {"rope_interleaved": False}
    message = "the sums after the first one take the input of the block, not the sum before"
    assert message in first_difference(right, {"blocks.0.out": x + out}).cause.split(", or ")


@pytest.mark.parametrize("by_heads", [True, False])
def test_queries_and_gates_by_the_heads_of_keys(by_heads):
    """A file has them head by head, and a port reads them by heads of keys, or the reverse."""
    ids, params, own, right = traced("qwen3_next", 2)
    groups = {True: 4, False: 2}

    def change(a):
        both = in_turn((a.w_q, a.w_gate), groups[by_heads])
        sizes = len(a.w_q), len(a.w_gate)
        w_q, w_gate = out_of_turn(both, sizes, groups[not by_heads])
        b_q, b_gate = out_of_turn(
            in_turn((a.b_q, a.b_gate), groups[by_heads]), sizes, groups[not by_heads]
        )
        return a._replace(w_q=w_q, w_gate=w_gate, b_q=b_q, b_gate=b_gate)

    port = trace(language_model, ids, in_all_blocks(params, ("attention",), change), own)
    seen = {name: a for name, a in port.items() if name.endswith(("norm1", "weights", "out"))}
    first, second = "head by head of the keys", "head by head"
    first, second = (first, second) if by_heads else (second, first)
    message = f"the matrix of queries and gates is read {first}, not {second}"
    assert message in first_difference(right, seen).cause.split(", or ")


def test_roundings_to_float32_that_a_norm_magnifies():
    """Rows far from 0 with a small spread: what is left after the mean is mostly rounding."""
    config = LanguageModelConfig(V, 16, 2, 1, positions="none")
    params, ids = filled(config), np.arange(6)
    params = params._replace(embedding=1000 + 0.01 * params.embedding)
    rounded = params._replace(embedding=params.embedding.astype(np.float32).astype(float))
    right, port = (trace(language_model, ids, p, config) for p in (params, rounded))
    port["logits"] = port["logits"] * 1.5
    off = abs(port["blocks.0.norm1"] - right["blocks.0.norm1"]).max()
    assert off > 1e-4
    found = first_difference(right, port)
    assert found.name == "logits"
    assert any("own input, up to roundings in float32" in note for note in found.notes)
    port["blocks.0.norm1"] = port["blocks.0.norm1"] + 0.1
    assert first_difference(right, port).name == "blocks.0.norm1"


def test_a_change_that_a_part_does_not_have_leaves_it_alone():
    change = models.Change("a mistake of norms")
    assert change.changed_arguments(lambda x: [("a mistake of heads", 2 * x)], ("given", 1)) == (
        "given",
        1,
    )
    assert change.changed_arguments(lambda x: [("a mistake of norms", 2 * x)], ("given", 1)) == (
        "given",
        2,
    )
