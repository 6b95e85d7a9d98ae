"""Blocks and models with latent attention: compositions, gradients, caches, traces."""

import numpy as np
import pytest
from trees import filled, leaves, mapped

from dlref.attention import AttentionParams, LatentAttentionParams, latent_attention
from dlref.check import first_difference, trace
from dlref.normalization import rms_norm
from dlref.positions import rope_frequencies, rope_tables
from dlref.transformer import (
    DecoderBlockParams,
    LanguageModelConfig,
    decoder_block,
    decoder_block_vjp,
    encoder_block,
    encoder_block_jvp,
    encoder_block_vjp,
    gated_feed_forward,
    generate,
    init_language_model,
    language_model,
    language_model_jvp,
    language_model_loss_value_and_grad,
    language_model_trace,
    language_model_vjp,
    load_params,
    save_params,
)

D, H, N, R, V, QUERIES, LATENT, VOCABULARY = 8, 2, 3, 2, 4, 5, 6, 11
CONFIG = LanguageModelConfig(
    VOCABULARY, D, H, positions="rope", norm="rms", activation="swiglu", d_ff=6, biases=False,
    head_dim=N + R, rope_dim=R, eps=1e-6, tied=False,
)  # fmt: skip


def latent(rng, low=True):
    shapes = (
        (QUERIES, D), (QUERIES,), (H * (N + R), QUERIES if low else D), (LATENT + R, D), (LATENT,),
        (H * N, LATENT), (H * V, LATENT), (D, H * V),
    )  # fmt: skip
    some = [0.5 * rng.normal(size=shape) for shape in shapes]
    return LatentAttentionParams(*(some if low else [None, None, *some[2:]]))


@pytest.fixture
def params(rng):
    p = init_language_model(rng, CONFIG)
    blocks = tuple(
        block._replace(attention=latent(rng, low))
        for block, low in zip(p.blocks, (True, False), strict=True)
    )
    return mapped(lambda a: a + 0.1 * rng.normal(size=a.shape), p._replace(blocks=blocks))


@pytest.fixture
def ids(rng):
    return rng.integers(0, VOCABULARY, (2, 6))


def test_the_model_is_its_composition(params, ids):
    tables = rope_tables(np.arange(6), rope_frequencies(R))
    x = params.embedding[ids]
    for block in params.blocks:
        z = rms_norm(x, block.norm1.weight)
        x = x + latent_attention(z, block.attention, num_heads=H, rope=tables)
        z = rms_norm(x, block.norm2.weight)
        x = x + gated_feed_forward(z, block.feed_forward, activation="silu")
    want = rms_norm(x, params.norm.weight) @ params.head.T
    np.testing.assert_allclose(language_model(ids, params, CONFIG), want, rtol=1e-13, atol=1e-14)


def test_gradients_by_complex_and_central_differences(rng, params, ids):
    moves = mapped(lambda a: rng.normal(size=a.shape), params)
    u = rng.normal(size=(2, 6, VOCABULARY))
    tangent = language_model_jvp((ids, params), (None, moves), CONFIG)
    h = 1e-6
    there, back = (
        filled(params, [p + s * d for p, d in zip(leaves(params), leaves(moves), strict=True)])
        for s in (h, -h)
    )
    want = (language_model(ids, there, CONFIG) - language_model(ids, back, CONFIG)) / (2 * h)
    np.testing.assert_allclose(tangent, want, rtol=1e-6, atol=1e-7)
    grads = language_model_vjp(u, ids, params, CONFIG)
    pulled = sum(np.sum(g * d) for g, d in zip(leaves(grads), leaves(moves), strict=True))
    assert np.sum(u * tangent) == pytest.approx(pulled, rel=1e-12)
    assert grads.blocks[1].attention.w_dq is None


def test_a_block_with_a_bias_a_mask_and_a_window(rng):
    attention = latent(rng)
    block = init_language_model(rng, CONFIG).blocks[0]._replace(attention=attention)
    x, u = rng.normal(size=(2, 2, 6, D))
    bias, move = rng.normal(size=(2, H, 6, 6))
    options = {
        "num_heads": H, "norm_first": True, "norm": "rms", "activation": "silu", "window": (2, 1),
        "mask": np.arange(6) != 3, "bias": bias,
    }  # fmt: skip
    dx, dblock, dbias = encoder_block_vjp(u, x, block, **options)
    still = (np.zeros_like(x), mapped(np.zeros_like, block))
    pushed = encoder_block_jvp((x, block), still, dbias=move, **options)
    assert np.sum(u * pushed) == pytest.approx(np.sum(dbias * move), rel=1e-12)
    h = 1e-6
    ends = (encoder_block(x + s * u, block, **options) for s in (h, -h))
    moved = encoder_block_jvp((x, block), (u, still[1]), **options)
    np.testing.assert_allclose(moved, np.subtract(*ends) / (2 * h), rtol=1e-6, atol=1e-7)
    assert np.sum(u * moved) == pytest.approx(np.sum(dx * u), rel=1e-12)
    assert isinstance(dblock.attention, LatentAttentionParams)


def test_decoding_keeps_the_latents(params, ids):
    text = generate(ids[:, :2], params, CONFIG, steps=4, temperature=0)
    for t in range(2, 6):
        logits = language_model(text[:, :t], params, CONFIG)[:, -1]
        np.testing.assert_array_equal(text[:, t], logits.argmax(-1))


def test_lengths_and_padding(params, ids):
    logits = language_model(ids, params, CONFIG, lengths=[6, 4])
    alone = language_model(ids[1, :4], params, CONFIG)
    np.testing.assert_allclose(logits[1, :4], alone, rtol=1e-12, atol=1e-13)


def test_weights_are_traced(params, ids):
    seen = language_model_trace(ids, params, CONFIG)
    np.testing.assert_allclose(seen.weights[0].sum(-1), 1, rtol=1e-13)
    steps = trace(language_model, ids, params, CONFIG)
    np.testing.assert_allclose(steps["blocks.1.attention.weights"], seen.weights[1], atol=1e-14)
    np.testing.assert_allclose(steps["logits"], language_model(ids, params, CONFIG), atol=1e-13)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda a: a._replace(kv_norm=a.kv_norm + 1), ""),
        (lambda a: a, None),
    ],
)
def test_first_difference_of_other_weights(params, ids, change, cause):
    right = trace(language_model, ids, params, CONFIG)
    block = params.blocks[0]
    other = params._replace(
        blocks=(block._replace(attention=change(block.attention)), params.blocks[1])
    )
    found = first_difference(right, trace(language_model, ids, other, CONFIG))
    if cause is None:
        assert found is None
    else:
        assert found.name == "blocks.0.attention.latent"


@pytest.mark.naming
def test_every_mistake_of_latent_attention_is_named(params, ids):
    right = trace(language_model, ids, params, CONFIG)
    named = 0
    for words, steps in right.mistakes["blocks.0.attention.out"]():
        if "latent" in words or words.startswith(("the rotated", "the shared key", "the scores")):
            assert first_difference(right, dict(right) | steps).cause == words
            named += 1
    assert named >= 7


def test_saved_and_loaded(tmp_path, params):
    save_params(tmp_path / "model.npz", params, CONFIG)
    again, config = load_params(tmp_path / "model.npz")
    assert config == CONFIG
    assert type(again.blocks[0].attention) is LatentAttentionParams
    for a, b in zip(leaves(again), leaves(params), strict=True):
        np.testing.assert_array_equal(a, b)


def test_one_step_of_training_learns(params, ids):
    loss, grads = language_model_loss_value_and_grad(ids, params, CONFIG)
    pairs = zip(leaves(params), leaves(grads), strict=True)
    after = filled(params, [p - 0.05 * g for p, g in pairs])
    assert language_model_loss_value_and_grad(ids, after, CONFIG)[0] < loss


def test_shapes_that_do_not_fit(params, ids):
    block = params.blocks[0]
    wrong = block.attention._replace(w_uk=np.ones((H * N + 1, LATENT)))
    bad = params._replace(blocks=(block._replace(attention=wrong), params.blocks[1]))
    with pytest.raises(ValueError, match=r"^Argument 'params.blocks\[0\].attention.w_uk' must"):
        language_model(ids, bad, CONFIG)


def test_a_decoder_block_may_have_it_for_itself(rng, params):
    """Cross-attention has no latents; its parameters stay what they were."""
    block = params.blocks[0]
    cross = AttentionParams(*rng.normal(size=(4, D, D)))
    both = DecoderBlockParams(
        block.attention, block.norm1, cross, block.norm1, block.feed_forward, block.norm2
    )
    x, memory, u = rng.normal(size=(3, 2, 4, D))
    options = {"num_heads": H, "norm_first": True, "norm": "rms", "activation": "silu"}
    dx, dmemory, dparams, *_ = decoder_block_vjp(u, x, memory, both, **options)
    h = 1e-6
    ends = (decoder_block(x + s * u, memory - s * x, both, **options) for s in (h, -h))
    moved = np.subtract(*ends) / (2 * h)
    assert np.sum(u * moved) == pytest.approx(np.sum(dx * u) - np.sum(dmemory * x), rel=1e-6)
    assert isinstance(dparams.self_attention, LatentAttentionParams)


def test_mistakes_without_a_rotation(rng, params):
    """Nor low-rank queries, a causal mask, or the usual scale."""
    whole = latent(rng, low=False)
    own = whole._replace(
        w_uq=whole.w_uq[: H * N], w_dkv=whole.w_dkv[:LATENT], q_norm=None, w_dq=None
    )
    block, x = params.blocks[0]._replace(attention=own), rng.normal(size=(5, D))
    options = {
        "num_heads": H,
        "norm_first": True,
        "norm": "rms",
        "activation": "silu",
        "scale": 0.3,
    }
    right = trace(encoder_block, x, block, **options)
    np.testing.assert_allclose(right["out"], encoder_block(x, block, **options), atol=1e-13)
    words = [words for words, _ in right.mistakes["attention.out"]()]
    assert "the scores are divided by the root of N + R" in words
    assert not any("rotation" in word or "causal mask is missing" in word for word in words)
    assert not any("rotated" in word for word in words)
