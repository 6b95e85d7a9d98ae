"""Mistakes that are tried as programs: two at once, fused matrices, tables of other pairs."""

import numpy as np
import pytest
from check.test_pieces import traced
from check.test_traces import CONFIGS, D, E, H, T, filled, problem

from dlref.check import first_difference, trace
from dlref.positions import rope_frequencies, rope_tables
from dlref.transformer import LanguageModelConfig, encoder, encoder_block, language_model


def test_a_second_mistake_is_found_behind_the_first():
    x, p, options, _ = problem("llama")
    right = trace(encoder_block, x, p, **options)
    other = trace(encoder_block, x, p, **options | {"scale": 1.0, "activation": "relu"})
    found = first_difference(right, other)
    assert (found.name, found.cause) == ("attention.scores", "the scores are not scaled")
    assert (found.then.name, found.then.cause) == (
        "feed_forward.hidden",
        "the activation is relu",
    )
    assert found.then.then is None
    assert "with this mistake in the model, feed_forward.hidden differs" in repr(found)
    assert "then" in found._repr_html_()
    one = trace(encoder_block, x, p, **options | {"scale": 1.0})
    assert first_difference(right, one).then is None


#: Family, the blocks' options after the mistake by the number of the block, and its cause.
SOME_BLOCKS = {
    "two": ("gemma2", {0: {"window": (4, 0)}, 2: {"window": (4, 0)}}, "the window ends 4 keys"),
    "first": ("gemma2", {i: {"scale": 0.5} for i in range(2)}, "the scale of the scores is 0.5"),
    "only one": ("gemma2", {1: {"softcap": None}}, "the option softcap is missing"),
    "all": ("smollm3", {i: {"residual_scale": 0.7} for i in range(3)}, "the sub-layers' outputs"),
}  # fmt: skip


@pytest.mark.parametrize("name", SOME_BLOCKS)
def test_a_mistake_of_some_blocks_is_one_mistake(name):
    kind, changes, cause = SOME_BLOCKS[name]
    ids, params, own, right = traced(kind)
    each = [o | changes.get(i, {}) for i, o in enumerate(own.blocks)]
    other = LanguageModelConfig(**{**vars(own), "blocks": tuple(each)})
    found = first_difference(right, trace(language_model, ids, params, other))
    assert found.cause.startswith(cause)
    assert found.name.startswith(f"blocks.{min(changes)}.")
    assert found.then is None


def test_a_base_where_one_block_has_no_rotation():
    ids, params, own, right = traced("smollm3")
    other = LanguageModelConfig(**{**vars(own), "rope_base": 777.0})
    found = first_difference(right, trace(language_model, ids, params, other))
    assert (found.cause, found.then) == ("the base of the rotation is 777", None)


@pytest.mark.parametrize("all_steps", [True, False])
def test_a_norm_of_blocks_that_is_not_that_of_the_model(all_steps):
    """The last norm would have the mistake, too, if it were taken for one of all parts."""
    config = CONFIGS["llama"]
    params, ids = filled(config), np.arange(T)
    right = trace(language_model, ids, params, config)
    x = right["embedding"]
    options = {"num_heads": H, "num_kv_heads": config.num_kv_heads, "activation": "silu"}
    options |= {"is_causal": True, "norm_first": True, "norm": "layer"}
    options |= {"rope": rope_tables(np.arange(T), rope_frequencies(E))}
    port = trace(encoder, x, params.blocks, **options)
    x = port["blocks.1.out"]
    port["norm"] = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + config.eps) * params.norm.weight
    kept = ("blocks.0.norm1", "blocks.1.out", "norm")
    found = first_difference(right, port if all_steps else {name: port[name] for name in kept})
    assert (found.name, found.then) == ("blocks.0.norm1", None)
    assert found.cause == "the normalization is that of layer norm"


def test_rows_by_groups_of_heads_are_read_in_three_parts():
    x, p, options, keys = problem("llama")
    a, each = p.attention, H // keys
    rows = np.concatenate(
        [
            block
            for g in range(keys)
            for block in (
                a.w_q[g * each * E : (g + 1) * each * E],
                a.w_k[g * E : (g + 1) * E],
                a.w_v[g * E : (g + 1) * E],
            )
        ]
    )
    w_q, w_k, w_v = np.split(rows, [D, D + keys * E])
    port = p._replace(attention=a._replace(w_q=w_q, w_k=w_k, w_v=w_v))
    found = first_difference(
        trace(encoder_block, x, p, **options), trace(encoder_block, x, port, **options)
    )
    assert found.name == "attention.q"
    assert found.cause.startswith("a fused projection is read in three parts, not by groups")


@pytest.mark.parametrize("stored", ["neighbors", "halves"])
@pytest.mark.parametrize("neighbors", [True, False])
def test_pairs_and_tables_that_do_not_fit(neighbors, stored):
    x, p, options, _ = problem("llama")
    right = trace(encoder_block, x, p, **options)
    order = np.arange(E) if stored == "neighbors" else np.r_[0:E:2, 1:E:2]
    q, k = (right[f"attention.{n}"][..., order] for n in "qk")
    cos, sin = options["rope"]
    wide = (lambda t: np.concatenate([t, t], -1)) if neighbors else (lambda t: np.repeat(t, 2, -1))

    def turned(z):
        crossed = np.concatenate([-z[..., E // 2 :], z[..., : E // 2]], -1)
        if neighbors:
            crossed = np.stack([-z[..., 1::2], z[..., ::2]], -1).reshape(z.shape)
        return z * wide(cos) + crossed * wide(sin)

    other = {"attention.q_rotated": turned(q), "attention.k_rotated": turned(k)}
    found = first_difference(right, {"attention.q": q, **other})
    words = "neighboring channels are" if neighbors else "channels in halves are"
    assert found.cause.startswith(f"{words} rotated together by tables of angles in")
    assert found.cause.endswith("weights have pairs as halves") == (stored == "halves")
    assert len(cos) == T
