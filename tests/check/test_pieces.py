"""Mistakes in the pieces of recent models: which are known, and that they are told apart."""

import dataclasses
import functools

import numpy as np
import pytest
from decoders import FAMILIES, V
from interop_states import configured, state_of

from dlref.check import first_difference, trace
from dlref.check._tracing import pieces
from dlref.interop import from_state_dict
from dlref.transformer import (
    LanguageModelConfig,
    encoder_block,
    gated_feed_forward,
    language_model,
)


@functools.cache
def traced(kind, variant=0):
    rng = np.random.default_rng(0)
    config = configured(kind, FAMILIES[kind][1][variant])
    params, own = from_state_dict(state_of(kind, config, rng), config=config)
    ids = rng.integers(3, V, (1, 7))
    return ids, params, own, trace(language_model, ids, params, own)


@functools.cache
def known(kind, variant, step):
    """Return the known mistakes of a part, with what they lead to."""
    causes = {}
    for message, steps in traced(kind, variant)[-1].mistakes[step]():
        causes.setdefault(message, steps)
    return causes


def test_bounds_without_a_rotation_or_norms():
    """Nothing says then where they are."""
    rng = np.random.default_rng(0)
    config = configured("olmo", {"clip_qkv": 0.5})
    params, own = from_state_dict(state_of("olmo", config, rng), config=config)
    block, x = params.blocks[0], rng.normal(size=(5, own.d_model))
    options = {"num_heads": own.num_heads, "num_kv_heads": own.num_kv_heads, "is_causal": True}
    options |= {"norm_first": True, "activation": "silu", "norm": "layer", "clip_qkv": 0.5}
    steps = trace(encoder_block, x, block, **options)
    words = [message for message, _ in steps.mistakes["out"]() if "bound" in message]
    assert words == ["the values are not bounded", "queries, keys and values have no lower bound"]


@pytest.mark.parametrize(("kind", "variant"), [("olmo", 2), ("olmoe", 1)])
def test_bounds_that_a_port_takes_in_place(kind, variant):
    """OLMo's modules change the array that a hook has kept: after the projection or the norm."""
    ids, params, own, right = traced(kind, variant)
    before = "q_normed" if kind == "olmoe" else "q"
    kept = {name: right[name] for name in ("blocks.0.norm1", "blocks.0.attention.weights", OUT)}
    name = f"blocks.0.attention.{before}"
    clipped = right["blocks.0.attention.q_clipped"]
    assert not np.array_equal(right[name], clipped)
    assert first_difference(right, kept | {name: clipped}) is None
    blocks = {**own.blocks, "clip_qkv": 0.8}
    other = trace(language_model, ids, params, dataclasses.replace(own, blocks=blocks))
    wrong = {key: other[key] for key in kept} | {name: other["blocks.0.attention.q_clipped"]}
    difference = first_difference(right, wrong)
    assert difference.name == name
    assert difference.cause == "the bound of queries, keys and values is 0.8 instead of 0.5"
    if kind == "olmoe":  # whose bounds follow the norm
        assert first_difference(right, {"blocks.0.attention.q": clipped}) is not None


OUT = "blocks.0.out"
#: Family, variant, step, and words of mistakes that the part of the step can have.
KNOWN = [
    ("deepseek_v3", 2, OUT, "the output of the shared expert is multiplied by 2.5, too"),
    ("gemma2", 0, OUT, "the scores are clipped, not capped by a tanh"),
    ("granite", 0, OUT, "the output of the attention is not multiplied by 0.3"),
    ("granite", 0, OUT, "the output of the network is not multiplied by 0.3"),
    ("mixtral", 0, OUT, "the experts' weights multiply their inputs, not their outputs"),
    ("mixtral", 0, OUT, "the columns of w_o go from head to head first, not through a head"),
    ("olmo", 2, OUT, "the option clip_qkv is missing"),
    ("olmo", 2, OUT, "the values are not bounded"),
    ("olmo", 2, OUT, "queries, keys and values have no lower bound"),
    ("olmo", 2, OUT, "queries and keys are bounded after the rotation instead of before it"),
    ("olmoe", 1, OUT, "queries and keys are bounded before their norms instead of after them"),
    (
        "olmo2", 0, OUT,
        "the norms of queries and keys go over each head, not over all heads at once",
    ),
    (
        "qwen3", 0, OUT,
        "the norms of queries and keys go over all heads at once, not over each head",
    ),
    (
        "qwen3", 0, OUT,
        "keys are rotated for positions that are one later than those of queries",
    ),
    ("qwen3", 0, OUT, "keys have the norm of queries"),
    (
        "qwen3", 0, OUT,
        "query head h uses values of head h mod Hk instead of h // (H / Hk)",
    ),
    ("qwen3", 0, OUT, "values are rotated, too, as neighbors"),
    ("stablelm", 0, OUT, "the last channels of a head are rotated, not the first ones"),
    ("gpt_oss", 0, OUT, "the sinks are missing"),
    ("gpt_oss", 0, OUT, "there are 1 experts of a token, not 2"),
    ("gpt_oss", 0, OUT, "there are 3 experts of a token, not 2"),
    ("gpt_oss", 0, OUT, "the router's scores are computed by sigmoid"),
    ("gpt_oss", 0, OUT, "the experts' option beta is missing"),
    ("gpt_oss", 0, OUT, "the experts' option shift is missing"),
    ("gpt_oss", 0, OUT, "gate and up of the experts are exchanged"),
    ("mixtral", 0, OUT, "gate and up of the experts are exchanged"),
    ("mixtral", 0, OUT, "the experts are counted from 1"),
    ("mixtral", 0, OUT, "the weights of the experts are not normalized"),
    ("qwen3_moe", 0, OUT, "the weights of the experts are normalized to the sum 1"),
    ("deepseek_v3", 2, OUT, "experts are chosen among all of them, not among the best groups"),
    ("deepseek_v3", 2, OUT, "the experts' option scale is missing"),
    ("deepseek_v3", 2, OUT, "the shared expert is missing"),
    ("deepseek_v3", 2, OUT, "the correction of the router is missing"),
    ("deepseek_v3", 2, OUT, "the scaling of the rotation is missing"),
    ("qwen3_next", 1, OUT, "the gate of the attention's output is missing"),
    ("qwen3_next", 1, OUT, "the gate of the attention's output lacks its sigmoid"),
    ("qwen3_next", 1, OUT, "the gate of the shared expert is missing"),
    ("qwen3_next", 1, OUT, "all channels of a head are rotated"),
    ("qwen3_next", 1, OUT, "the weights of the norms of queries and keys are missing"),
    (
        "qwen3_next", 1, OUT,
        "the weights of the norms of queries and keys are taken as w, not as 1 + w",
    ),
    ("qwen3_next", 1, OUT, "the weight of norm1 is taken as w, not as 1 + w"),
    ("qwen3_next", 1, "norm", "the weight of the last norm is taken as w, not as 1 + w"),
    ("qwen3", 0, OUT, "queries and keys are not normalized"),
    ("qwen3", 0, OUT, "queries are not normalized"),
    ("qwen3", 0, OUT, "keys are not normalized"),
    ("qwen3", 0, OUT, "the norms of queries and keys are exchanged"),
    ("qwen3", 0, OUT, "the norms of queries and keys come after the rotation instead of before it"),
    ("qwen3", 0, OUT, "the weights of the norms of queries and keys are taken as 1 + w"),
    ("qwen3", 0, OUT, "channels are rotated as halves, while the weights have pairs as neighbors"),
    ("qwen3", 0, OUT, "the rows of w_k go from head to head first, not through a head"),
    ("qwen3", 0, OUT, "eps is added to the root, not under it"),
    ("qwen3", 0, OUT, "norm2 is missing"),
    ("qwen3", 0, "norm", "eps is added to the root, not under it"),
    ("qwen2", 0, OUT, "half of the channels of a head are rotated"),
    ("olmo2", 0, OUT, "query head h uses key head h mod Hk instead of h // (H / Hk)"),
    ("olmo2", 0, OUT, "output_norm2 is missing"),
    ("olmo2", 1, OUT, "the scaling of the rotation is missing"),
    ("granite", 0, OUT, "the outputs of the sub-layers are not multiplied by 0.3"),
    ("granite", 0, "embedding", "the embeddings are not multiplied by 3"),
    ("granite", 0, "logits", "the logits are not multiplied by 0.4"),
    ("gemma2", 0, "logits", "the cap of the logits is missing"),
    ("gemma2", 0, "embedding", "the embeddings are not multiplied by the root of D"),
    ("gemma2", 0, OUT, "the block has the options of block 1"),
    ("smollm3", 0, "blocks.1.out", "queries and keys are rotated, as in block 0"),
    ("gemma3_text", 0, OUT, "the block has the rotation of block 1"),
    ("gpt_neox", 0, OUT, "the network reads the sum of the attention, not the input of the block"),
    ("gpt_neox", 1, OUT, "all sub-layers read the input of the block"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "variant", "step", "message"), KNOWN)
def test_it_is_known_and_leads_elsewhere(kind, variant, step, message):
    right, wrong = traced(kind, variant)[-1], known(kind, variant, step)[message]
    changed = [
        name
        for name, array in wrong.items()
        if name in right and (array.shape != right[name].shape or np.any(array != right[name]))
    ]
    assert step in changed or step.replace("out", "feed_forward.out") in changed


@pytest.mark.parametrize(
    ("kind", "variant", "step", "message"),
    [row for row in KNOWN if row[3].startswith(("the sinks", "norm2", "the cap", "the network"))],
)
def test_it_is_named(kind, variant, step, message):
    """Of all mistakes, the one that was made is found from few steps."""
    right = traced(kind, variant)[-1]
    kept = ("norm1", "attention.out", "feed_forward.out", "out", "logits")
    port = {n: a for n, a in known(kind, variant, step)[message].items() if n.endswith(kept)}
    assert first_difference(right, port).cause == message


def test_a_block_that_is_left_out():
    """The next part reads what the block before it gave."""
    ids, params, own, right = traced("granite")
    blocks = (params.blocks[0], params.blocks[2])
    fewer = LanguageModelConfig(**{**vars(own), "num_layers": 2})
    port = trace(language_model, ids, params._replace(blocks=blocks), fewer)
    moved = {n.replace("blocks.1.", "blocks.2."): a for n, a in port.items()}
    found = first_difference(right, moved)
    assert found.name == "blocks.2.norm1"
    assert found.cause == "it reads blocks.0.out: the parts between are left out"
    assert found.then is None


def test_one_matrix_of_another_block():
    ids, params, own, right = traced("qwen3")
    first, second, *rest = params.blocks
    mixed = second._replace(attention=second.attention._replace(w_k=first.attention.w_k))
    port = trace(language_model, ids, params._replace(blocks=(first, mixed, *rest)), own)
    kept = {n: a for n, a in port.items() if n.endswith(("attention.out", "out"))}
    assert first_difference(right, kept).cause == "attention.w_k is that of block 0"


def test_a_factor_that_divides():
    ids, params, own, right = traced("granite")
    for field, name in (("logit_scale", "logits"), ("embedding_scale", "embedding")):
        other = LanguageModelConfig(**{**vars(own), field: 1 / getattr(own, field)})
        found = first_difference(right, trace(language_model, ids, params, other))
        assert found.name == name
        assert "divided by" in found.cause


def test_epsilon_inside_attention_alone():
    ids, params, own, right = traced("qwen3")
    other = LanguageModelConfig(**{**vars(own), "blocks": dict(own.blocks) | {"inner_eps": 1e-2}})
    found = first_difference(right, trace(language_model, ids, params, other))
    assert found.name == "blocks.0.attention.q_normed"
    assert found.cause == "eps of the norms inside attention is 0.01 instead of 1e-06"


def test_another_factor_of_the_sums_is_fitted():
    ids, params, own, right = traced("granite")
    fields = dict(own.blocks) | {"residual_scale": 0.7}
    other = LanguageModelConfig(**{**vars(own), "blocks": fields})
    port = trace(language_model, ids, params, other)
    kept = {name: port[name] for name in ("blocks.0.attention.out", "blocks.0.sum1", OUT)}
    message = "the sub-layers' outputs are multiplied by 0.7 before the sums instead of by 0.3"
    assert first_difference(right, kept).cause == message


def test_the_factor_of_the_sums_in_another_place():
    right = traced("granite")[-1]
    x, f = right["embedding"], right["blocks.0.attention.out"]
    for out, cause in (
        (0.3 * x + f, "the inputs of the sub-layers are multiplied by 0.3 before the sums, not"),
        (0.3 * (x + f), "the sums themselves are multiplied by 0.3, not the outputs alone"),
    ):
        found = first_difference(right, {"embedding": x, "blocks.0.sum1": out})
        assert found.cause.startswith(cause)


def test_norms_without_parameters_have_no_weights_to_be_wrong():
    right = traced("olmo")[-1]
    found = first_difference(right, {"blocks.0.norm1": 2 * right["blocks.0.norm1"]})
    assert found.name == "blocks.0.norm1"
    assert found.cause == "it is multiplied by 2"


def test_the_activation_of_a_product():
    _, params, _, right = traced("granite")
    gate, up = (right[f"blocks.0.feed_forward.{name}"] for name in ("gate", "up"))
    hidden = gate * up / (1 + np.exp(-gate * up))
    out = hidden @ params.blocks[0].feed_forward.w_down.T
    found = first_difference(right, {"blocks.0.feed_forward.out": out})
    assert found.cause == "the activation is applied to the product of gate and up, not to the gate"


def test_a_mask_after_the_softmax_and_averaged_heads():
    right = traced("granite")[-1]
    q, k = (right[f"blocks.0.attention.{name}_rotated"] for name in "qk")
    seen = np.tril(np.ones((7, 7), bool))

    def weights(k, masked):
        scores = 0.2 * q @ np.swapaxes(k, -1, -2)
        e = np.exp(scores) if not masked else np.where(seen, np.exp(scores), 0.0)
        return e / e.sum(-1, keepdims=True) * seen

    name = "blocks.0.attention.weights"
    found = first_difference(right, {name: weights(np.repeat(k, 2, axis=-3), masked=False)})
    assert found.cause == "the causal mask multiplies the weights after the softmax"
    found = first_difference(right, {name: weights(k.mean(-3, keepdims=True), masked=True)})
    assert found.cause == "all queries use the mean of all heads of keys and values"


def test_the_gate_of_a_shared_expert():
    _, params, _, right = traced("qwen2_moe")
    p, x = params.blocks[0].feed_forward, right["blocks.0.norm2"]
    shared, logits = gated_feed_forward(x, p.shared), x @ p.shared_gate.T
    gate = 1 / (1 + np.exp(-logits))
    others = right["blocks.0.feed_forward.out"] - gate * shared
    for out, cause in (
        (others + logits * shared, "lacks its sigmoid"),
        (gate * (others + shared), "multiplies the output of all experts"),
        (gate * others + shared, "multiplies the output of the other experts"),
        (others + shared, "is missing"),
    ):
        found = first_difference(right, {"blocks.0.norm2": x, "blocks.0.feed_forward.out": out})
        assert found.cause == f"the gate of the shared expert {cause}"


def test_a_factor_that_is_rounded_to_float32_is_no_difference():
    right = traced("gemma2")[-1]
    port = dict(right) | {"embedding": right["embedding"] * (1 + 2.0**-25)}
    assert first_difference(right, port) is None
    port = dict(right) | {"embedding": right["embedding"] * (1 + 2.0**-21)}
    assert first_difference(right, port).name == "embedding"


def test_a_factor_of_each_row_with_noise_is_rounding():
    """Norms in float32 round a factor of each row; without noise it is another epsilon."""
    right = traced("qwen3")[-1]
    x = right["blocks.0.norm1"]
    rng = np.random.default_rng(1)
    rows = 1 + 1e-7 * (0.5 + rng.random((*x.shape[:-1], 1)))
    noise = 1 + 2.0**-25 * rng.uniform(-1, 1, x.shape)
    difference = first_difference(right, {"blocks.0.norm1": x * rows})
    assert difference.name == "blocks.0.norm1"
    assert first_difference(right, {"blocks.0.norm1": x * rows * noise}) is None
    zeros = {"blocks.0.norm1": np.zeros_like(x)}
    assert first_difference(dict(zeros), {"blocks.0.norm1": zeros["blocks.0.norm1"] + 1.0})


def test_other_options_of_a_router_are_other_ones():
    """With one expert a token, none and one are not tried."""
    said = [message for message, _ in pieces._choices({"k": 1}, 4)]
    assert "there are 2 experts of a token, not 1" in said
    assert not [message for message in said if "there are 1" in message or "there are 0" in message]


# Routers in 16 bits.


def in_16_bits(steps):
    return {name: array.astype(np.float16) for name, array in steps.items()}


def with_another_choice(nearest):
    """Return a trace, and one in which a token, the most or least decided, has another expert."""
    rng = np.random.default_rng(0)
    config = configured("mixtral", FAMILIES["mixtral"][1][0])
    params, own = from_state_dict(state_of("mixtral", config, rng), config=config)
    ids = rng.integers(3, V, (4, 40))
    right = trace(language_model, ids, params, own)
    scores = np.sort(right["blocks.0.feed_forward.router"])
    gaps = scores[..., -2] - scores[..., -3]
    at = np.unravel_index(gaps.argmin() if nearest else gaps.argmax(), gaps.shape)
    x, order = right["blocks.0.norm2"][at], np.argsort(right["blocks.0.feed_forward.router"][at])
    chosen, other = order[-2], order[-3]
    block, turned = params.blocks[0], 0.51 * gaps[at] * x / (x @ x)
    router = block.feed_forward.router.copy()
    router[chosen] -= turned
    router[other] += turned
    changed = block._replace(feed_forward=block.feed_forward._replace(router=router))
    wrong = params._replace(blocks=(changed, *params.blocks[1:]))
    return right, in_16_bits(trace(language_model, ids, wrong, own))


SEEN = ("embedding", "norm1", "attention.out", "feed_forward.out", "out", "norm", "logits")


@pytest.mark.parametrize("kind", ["minimax_m2", "exaone_moe"])
def test_a_close_choice_by_a_correction_is_no_difference(kind):
    """What the router's logits do not show: a correction that is added to their sigmoids."""
    ids, params, own, right = traced(kind)
    block = 0 if kind == "minimax_m2" else 1
    place = f"blocks.{block}.feed_forward."
    network = params.blocks[block].feed_forward
    k = right[f"{place}weights"].shape[-1]
    scores = 1 / (1 + np.exp(-right[f"{place}router"][0, 0])) + network.correction
    order = np.argsort(-scores)
    gap = scores[order[k - 1]] - scores[order[k]]

    def port(more):
        correction = network.correction.copy()
        correction[order[k - 1]] -= gap * more
        changed = params.blocks[block]._replace(
            feed_forward=network._replace(correction=correction)
        )
        blocks = (*params.blocks[:block], changed, *params.blocks[block + 1 :])
        steps = trace(language_model, ids, params._replace(blocks=blocks), own)
        return {name: a for name, a in in_16_bits(steps).items() if name.endswith(SEEN)}

    near = params.blocks[block]._replace(
        feed_forward=network._replace(
            correction=network.correction - gap * 0.9999 * np.eye(len(scores))[order[k - 1]]
        )
    )
    blocks = (*params.blocks[:block], near, *params.blocks[block + 1 :])
    close = trace(language_model, ids, params._replace(blocks=blocks), own)
    found = first_difference(close, port(1.0001))
    assert found is None or found.name != f"{place}out"
    if gap > 0.1:
        assert first_difference(right, port(1.5)).name.startswith(f"blocks.{block}.")


def test_a_close_choice_of_experts_is_no_difference():
    right, port = with_another_choice(nearest=True)
    port = {name: a for name, a in port.items() if name.endswith(SEEN)}
    assert first_difference(right, port) is None
    later = first_difference(right, port | {"logits": 2 * port["logits"]})
    assert later.name == "logits"
    assert any("inconclusive for 1 of 160 tokens" in note for note in later.notes)
    # a step that does not depend on the choice is compared for every token
    difference = first_difference(right, port | {"blocks.0.norm1": -port["blocks.0.norm1"]})
    assert difference.name == "blocks.0.norm1"
    # nor is it told from a difference where the input is unknown, or a tolerance is given
    without = {name: a for name, a in port.items() if name != "embedding"}
    for difference in (first_difference(right, without), first_difference(right, port, rtol=0.01)):
        assert difference.name == "blocks.0.feed_forward.out"


def test_another_choice_of_experts_is_a_difference():
    right, port = with_another_choice(nearest=False)
    port = {name: a for name, a in port.items() if name.endswith(SEEN)}
    assert first_difference(right, port).name == "blocks.0.feed_forward.out"


@pytest.mark.parametrize(
    ("kind", "variant", "message"),
    [
        ("deepseek_v3", 2, "experts are chosen among all of them, not among the best groups"),
        ("deepseek_v3", 2, "the correction of the router is missing"),
        ("mixtral", 0, "there are 1 experts of a token, not 2"),
        ("mixtral", 0, "the experts are counted from 1"),
    ],
)
def test_mistakes_of_routers_in_16_bits(kind, variant, message):
    right, wrong = traced(kind, variant)[-1], known(kind, variant, OUT)[message]
    port = in_16_bits({n: right[n] for n in ("embedding", "blocks.0.attention.out")})
    port |= in_16_bits({n: a for n, a in wrong.items() if n.endswith("feed_forward.out")})
    difference = first_difference(right, port)
    assert (difference.name, difference.cause) == ("blocks.0.feed_forward.out", message)


def test_every_expert_is_chosen():
    """There is no choice that could be close."""
    ids, params, own, _ = traced("mixtral")
    fields = dict(own.blocks) | {"router": dict(own.blocks["router"]) | {"k": 4}}
    every = LanguageModelConfig(**{**vars(own), "blocks": fields})
    right = trace(language_model, ids, params, every)
    port = in_16_bits({name: right[name] for name in ("embedding", "blocks.0.feed_forward.out")})
    assert first_difference(right, port) is None
    port["blocks.0.feed_forward.out"][0, 3] *= 2
    assert first_difference(right, port).name == "blocks.0.feed_forward.out"


def test_roundings_of_earlier_blocks_in_16_bits():
    """They grow: a block is judged by its own input, if that is known."""
    right = traced("mixtral")[-1]
    rng = np.random.default_rng(2)
    x = right["blocks.0.out"]
    moved = x + 0.03 * np.abs(x).max(-1, keepdims=True) * rng.uniform(-1, 1, x.shape)
    moved = moved.astype(np.float16).astype(np.float64)
    before, run, _ = right.sources["blocks.1.out"]
    assert before == "blocks.0.out"
    port = in_16_bits({"blocks.0.out": moved} | run(moved))
    kept = {n: a for n, a in port.items() if n.endswith(("weights", "out")) and a.ndim > 2}
    assert first_difference(right, kept) is None
    without = {name: a for name, a in kept.items() if name != "blocks.0.out"}
    assert first_difference(right, without) is not None
    kept["blocks.1.attention.weights"] = kept["blocks.1.attention.weights"][..., ::-1].copy()
    assert first_difference(right, kept).name == "blocks.1.attention.weights"
    kept["blocks.1.attention.weights"] = kept["blocks.1.attention.weights"][..., :3].copy()
    assert first_difference(right, kept).name == "blocks.1.attention.weights"
