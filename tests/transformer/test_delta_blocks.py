"""Blocks and models with a gated delta rule: compositions, gradients, caches, traces."""

import numpy as np
import pytest
from trees import filled, leaves, mapped

from dlref.activations import sigmoid, silu, softplus
from dlref.attention import recurrent_linear_attention
from dlref.check import first_difference, trace
from dlref.check._tracing.delta import WRONG
from dlref.convolution import causal_conv
from dlref.interop import from_state_dict
from dlref.normalization import l2_norm, rms_norm
from dlref.transformer import (
    BlockOptions,
    GatedDeltaParams,
    LanguageModelConfig,
    beam_search,
    decoder_block,
    encoder_block,
    generate,
    init_encoder_decoder_model,
    init_language_model,
    language_model,
    language_model_jvp,
    language_model_loss_value_and_grad,
    language_model_trace,
    language_model_vjp,
    load_params,
    save_params,
)

D, H, KEYS, E, V, TAPS, VOCABULARY = 8, 4, 2, 3, 2, 3, 11
CONFIG = LanguageModelConfig(
    VOCABULARY, D, 2, positions="rope", norm="rms", activation="swiglu", d_ff=6, biases=False,
    eps=1e-6, tied=False, blocks=({"delta_heads": KEYS}, {}),
)  # fmt: skip


def delta(rng):
    shapes = (
        (KEYS * E, D), (KEYS * E, D), (H * V, D), (H * V, D), (H, D), (H, D),
        (2 * KEYS * E + H * V, TAPS), (H,), (H,), (V,), (D, H * V),
    )  # fmt: skip
    return GatedDeltaParams(*(0.7 * rng.normal(size=shape) for shape in shapes))


@pytest.fixture
def params(rng):
    p = init_language_model(rng, CONFIG)
    first = p.blocks[0]._replace(attention=delta(rng))
    return mapped(
        lambda a: a + 0.1 * rng.normal(size=a.shape), p._replace(blocks=(first, p.blocks[1]))
    )


@pytest.fixture
def ids(rng):
    return rng.integers(0, VOCABULARY, (2, 6))


def composed(x, p):
    """The layer as its parameters' docstring writes it."""
    rows = np.concatenate([p.w_q, p.w_k, p.w_v])
    mixed = silu(causal_conv(x @ rows.T, p.conv)[0])
    q, k, v = np.split(mixed, [KEYS * E, 2 * KEYS * E], axis=-1)

    def heads(z, n):
        return np.swapaxes(z.reshape(*z.shape[:-1], n, -1), -2, -3)

    q, k = (np.repeat(l2_norm(heads(z, KEYS)), H // KEYS, axis=-3) for z in (q, k))
    beta = np.swapaxes(sigmoid(x @ p.w_b.T), -1, -2)
    decay = np.swapaxes(-np.exp(p.a_log) * softplus(x @ p.w_a.T + p.dt_bias), -1, -2)[..., None]
    o = recurrent_linear_attention(q, k, heads(v, H), decay, beta, scale=E**-0.5)[0]
    opened = rms_norm(o, p.norm, eps=1e-6) * silu(heads(x @ p.w_z.T, H))
    return np.swapaxes(opened, -2, -3).reshape(*x.shape[:-1], H * V) @ p.w_o.T


def test_the_block_is_its_composition(rng, params):
    block, x = params.blocks[0], rng.normal(size=(2, 6, D))
    still = block._replace(feed_forward=mapped(np.zeros_like, block.feed_forward))
    options = {"num_heads": 2, "norm_first": True, "norm": "rms", "activation": "silu", "eps": 1e-6}
    got = encoder_block(x, still, is_causal=True, delta_heads=KEYS, **options)
    want = x + composed(rms_norm(x, block.norm1.weight, eps=1e-6), block.attention)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def test_gradients(rng, params, ids):
    moves = mapped(lambda a: rng.normal(size=a.shape), params)
    u = rng.normal(size=(2, 6, VOCABULARY))
    tangent = language_model_jvp((ids, params), (None, moves), CONFIG)
    h = 1e-6
    ends = (
        filled(params, [p + s * d for p, d in zip(leaves(params), leaves(moves), strict=True)])
        for s in (h, -h)
    )
    there, back = (language_model(ids, end, CONFIG) for end in ends)
    np.testing.assert_allclose(tangent, (there - back) / (2 * h), rtol=1e-5, atol=1e-5)
    grads = language_model_vjp(u, ids, params, CONFIG)
    pulled = sum(np.sum(g * d) for g, d in zip(leaves(grads), leaves(moves), strict=True))
    assert np.sum(u * tangent) == pytest.approx(pulled, rel=1e-11)
    assert isinstance(grads.blocks[0].attention, GatedDeltaParams)


def test_decoding_keeps_a_memory(params, ids):
    text = generate(ids[:, :2], params, CONFIG, steps=4, temperature=0)
    for t in range(2, 6):
        logits = language_model(text[:, :t], params, CONFIG)[:, -1]
        np.testing.assert_array_equal(text[:, t], logits.argmax(-1))


def test_beams_carry_their_memories(params):
    texts, scores = beam_search([1, 2], params, CONFIG, steps=3, beams=3)
    logits = language_model(texts[..., :-1], params, CONFIG)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = np.take_along_axis(logs, texts[..., 1:, None], -1)[..., -3:, 0].sum(-1)
    np.testing.assert_allclose(scores, chosen, rtol=1e-10)


def test_lengths_and_padding(params, ids):
    for padding, kept in (("right", slice(4)), ("left", slice(2, None))):
        logits = language_model(ids, params, CONFIG, lengths=[6, 4], padding=padding)
        alone = language_model(ids[1, kept], params, CONFIG)
        np.testing.assert_allclose(logits[1, kept], alone, rtol=1e-11, atol=1e-12)
        seen = language_model_trace(ids, params, CONFIG, lengths=[6, 4], padding=padding)
        assert seen.weights[0] is None


@pytest.mark.naming
def test_traces_and_their_mistakes(params, ids):
    assert language_model_trace(ids, params, CONFIG).weights[0] is None
    right = trace(language_model, ids, params, CONFIG)
    np.testing.assert_allclose(right["logits"], language_model(ids, params, CONFIG), atol=1e-12)
    named = set()
    for words, steps in right.mistakes["blocks.0.attention.out"]():
        if words in WRONG.values() or "mod Hk" in words:
            assert first_difference(right, dict(right) | steps).cause == words
            named.add(words)
    assert len(named) == len(WRONG) + 1


@pytest.mark.naming
def test_mistakes_in_a_decoder_block(rng):
    model = init_encoder_decoder_model(rng, LanguageModelConfig(VOCABULARY, D, 2))
    block = model.decoder[0]._replace(self_attention=delta(rng))
    x, memory = rng.normal(size=(2, 5, D)), rng.normal(size=(2, 4, D))
    right = trace(decoder_block, x, memory, block, BlockOptions(num_heads=2, delta_heads=KEYS))
    named = {
        words
        for words, steps in right.mistakes["self_attention.out"]()  # some change nothing here
        if (found := first_difference(right, dict(right) | steps)) and found.cause == words
    }
    assert named >= set(WRONG.values())


def test_saved_loaded_and_trained(tmp_path, params, ids):
    save_params(tmp_path / "model.npz", params, CONFIG)
    again, config = load_params(tmp_path / "model.npz")
    assert config == CONFIG
    loss, grads = language_model_loss_value_and_grad(ids, again, CONFIG)
    pairs = zip(leaves(again), leaves(grads), strict=True)
    after = filled(again, [p - 0.02 * g for p, g in pairs])
    assert language_model_loss_value_and_grad(ids, after, CONFIG)[0] < loss


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"is_causal": False}, "'is_causal' must be True for a block with a gated delta rule"),
        ({"mask": np.ones(6, bool)}, "'mask' must be None for a block with a gated delta rule"),
        ({"delta_heads": 3}, r"'params.attention.w_q' must have a number of rows|must .*3"),
        ({"delta_heads": 0}, "'delta_heads' must be at least 1, not 0"),
        ({"clip_qkv": 8.0}, "'clip_qkv' must be None where params.attention is no AttentionParams"),
    ],
)
def test_what_it_does_not_take(rng, params, options, words):
    given = {"num_heads": 2, "norm_first": True, "is_causal": True, "delta_heads": KEYS} | options
    with pytest.raises(ValueError, match=words):
        encoder_block(rng.normal(size=(6, D)), params.blocks[0], **given)


def test_shapes_that_do_not_fit(params, ids):
    block = params.blocks[0]
    wrong = block.attention._replace(conv=np.ones((4, TAPS)))
    bad = params._replace(blocks=(block._replace(attention=wrong), params.blocks[1]))
    with pytest.raises(ValueError, match=r"^Argument 'params.blocks\[0\].attention.conv' must"):
        language_model(ids, bad, CONFIG)


SMALL = {
    "model_type": "qwen3_next", "vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 6,
    "layer_types": ["linear_attention"], "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "num_experts": 2, "num_experts_per_tok": 1, "mlp_only_layers": [0],
}  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"linear_num_key_heads": 3}, "'linear_num_key_heads' must divide 4, not be 3"),
        ({"layer_types": ["full_attention"] * 2}, "'layer_types' must be a list of 1 known types"),
        ({"layer_types": ["else"]}, "'layer_types' must be a list of 1 known types"),
        ({}, r"'model.layers.0.linear_attn.in_proj_q.weight' is missing"),
    ],
)
def test_states_and_configurations_that_do_not_fit(settings, words):
    state = {"model.embed_tokens.weight": np.ones((11, 8))}
    with pytest.raises(ValueError, match=words):
        from_state_dict(state, "qwen3_next", SMALL | settings)


def test_fused_matrices_of_another_size():
    start = "model.layers.0.linear_attn."
    shapes = {"in_proj_qkvz.weight": (7, 8), "in_proj_ba.weight": (8, 8), "A_log": (4,)}
    shapes |= {"norm.weight": (3,), "conv1d.weight": (20, 1, 3)}
    state = {f"{start}{name}": np.ones(shape) for name, shape in shapes.items()}
    with pytest.raises(ValueError, match=r"must fit 2 heads of keys in the layer 'model\.layers"):
        from_state_dict(state, "qwen3_next", SMALL)


def test_as_many_heads_of_keys(rng, params):
    p = params.blocks[0].attention
    more = p._replace(
        w_q=rng.normal(size=(H * E, D)),
        w_k=rng.normal(size=(H * E, D)),
        conv=rng.normal(size=(2 * H * E + H * V, TAPS)),
    )
    block, x = params.blocks[0]._replace(attention=more), rng.normal(size=(5, D))
    options = {"num_heads": 2, "norm_first": True, "activation": "silu", "is_causal": True}
    right = trace(encoder_block, x, block, **options)
    np.testing.assert_allclose(right["out"], encoder_block(x, block, **options), atol=1e-12)
    assert not any("mod Hk" in words for words, _ in right.mistakes["attention.out"]())
