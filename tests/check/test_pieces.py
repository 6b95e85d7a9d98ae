"""Mistakes in the pieces of recent models: which are known, and that they are told apart."""

import functools

import numpy as np
import pytest
from decoders import FAMILIES, V
from interop_states import configured, state_of

from dlref.check import first_difference, trace
from dlref.check._tracing import pieces
from dlref.interop import from_state_dict
from dlref.transformer import LanguageModelConfig, language_model


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
    found = {}
    for words, steps in traced(kind, variant)[-1].mistakes[step]():
        found.setdefault(words, steps)
    return found


OUT = "blocks.0.out"
#: Family, variant, step, and words of mistakes that the part of the step can have.
KNOWN = [
    ("gpt_oss", 0, OUT, "the sinks are missing"),
    ("gpt_oss", 0, OUT, "there are 1 experts of a token, not 2"),
    ("gpt_oss", 0, OUT, "there are 3 experts of a token, not 2"),
    ("gpt_oss", 0, OUT, "the router's scores are those of sigmoid"),
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
    ("qwen3", 0, OUT, "channels are rotated as halves, while the weights have pairs as neighbours"),
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
    ("gemma2", 0, OUT, "the options are those of block 1"),
    ("smollm3", 0, "blocks.1.out", "queries and keys are rotated, as in block 0"),
    ("gemma3_text", 0, OUT, "the rotation is that of block 1"),
    ("gpt_neox", 0, OUT, "the network reads the sum of the attention, not the input of the block"),
    ("gpt_neox", 1, OUT, "all sub-layers read the input of the block"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "variant", "step", "words"), KNOWN)
def test_it_is_known_and_leads_elsewhere(kind, variant, step, words):
    right, wrong = traced(kind, variant)[-1], known(kind, variant, step)[words]
    changed = [
        name
        for name, array in wrong.items()
        if name in right and (array.shape != right[name].shape or np.any(array != right[name]))
    ]
    assert step in changed or step.replace("out", "feed_forward.out") in changed


@pytest.mark.parametrize(
    ("kind", "variant", "step", "words"),
    [row for row in KNOWN if row[3].startswith(("the sinks", "norm2", "the cap", "the network"))],
)
def test_it_is_named(kind, variant, step, words):
    """Of all mistakes, the one that was made is found from few steps."""
    right = traced(kind, variant)[-1]
    kept = ("norm1", "attention.out", "feed_forward.out", "out", "logits")
    port = {n: a for n, a in known(kind, variant, step)[words].items() if n.endswith(kept)}
    assert first_difference(right, port).cause == words


def test_another_factor_of_the_sums_is_fitted():
    ids, params, own, right = traced("granite")
    told = dict(own.blocks) | {"residual_scale": 0.7}
    other = LanguageModelConfig(**{**vars(own), "blocks": told})
    port = trace(language_model, ids, params, other)
    kept = {name: port[name] for name in ("blocks.0.attention.out", "blocks.0.sum1", OUT)}
    words = "the sub-layers' outputs are multiplied by 0.7 before the sums"
    assert first_difference(right, kept).cause == words


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
    found = first_difference(right, {"blocks.0.norm1": x * rows})
    assert found.name == "blocks.0.norm1"
    assert first_difference(right, {"blocks.0.norm1": x * rows * noise}) is None
    zeros = {"blocks.0.norm1": np.zeros_like(x)}
    assert first_difference(dict(zeros), {"blocks.0.norm1": zeros["blocks.0.norm1"] + 1.0})


def test_other_options_of_a_router_are_other_ones():
    """With one expert a token, none and one are not tried."""
    said = [words for words, _ in pieces._choices({"k": 1}, 4)]
    assert "there are 2 experts of a token, not 1" in said
    assert not [words for words in said if "there are 1" in words or "there are 0" in words]
