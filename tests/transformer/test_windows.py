"""Windows and chunks: decoding with a cache that forgets is decoding with the whole text."""

from dataclasses import replace

import numpy as np
import pytest
import trees

from dlref.activations import log_softmax
from dlref.attention import KVCache, LatentAttentionParams, chunk_mask
from dlref.check import first_difference, trace
from dlref.transformer import (
    LanguageModelConfig,
    beam_search,
    encoder_block,
    encoder_block_jvp,
    encoder_block_vjp,
    generate,
    init_language_model,
    language_model,
)
from dlref.transformer._decoding import Decoding

VOCABULARY, T = 11, 23
NEAR = {
    "window": {"window": (4, 0)},
    "itself alone": {"window": (0, 0)},
    "chunk": {"chunk": 5},
    "chunk and window": {"chunk": 6, "window": (3, 0)},
    "some blocks": ({"window": (2, 0)}, {"chunk": 4}, {}),
}
FIELDS = [
    *({"positions": scheme} for scheme in ("rope", "learned", "alibi", "t5", "none")),
    {
        "positions": "rope",
        "norm": "rms",
        "activation": "swiglu",
        "num_kv_heads": 2,
        "biases": False,
    },
]


def model(rng, blocks, **fields):
    fields = {"vocab_size": VOCABULARY, "d_model": 16, "num_heads": 4, "num_layers": 3} | fields
    config = LanguageModelConfig(**fields, blocks=blocks)
    return trees.drawn(rng, init_language_model(rng, config), 0.15), config


def buffers(decoding):
    """Return the number of rows of each cache's buffer, and the bytes of all of them."""
    caches = [cache for field in decoding.caches for cache in field.values()]
    rows = [cache._keys.shape[-2] for cache in caches]
    return rows, sum(cache._keys.nbytes + cache._values.nbytes for cache in caches)


class TestDecoding:
    @pytest.mark.broad
    @pytest.mark.parametrize("fields", FIELDS)
    @pytest.mark.parametrize(("near", "prefill"), [*zip(NEAR, (14, 3, 14, 1, 14), strict=True)])
    def test_logits_are_those_of_the_whole_text(self, rng, near, fields, prefill):
        params, config = model(rng, NEAR[near], **fields)
        tokens = rng.integers(0, VOCABULARY, (2, T))
        full = language_model(tokens, params, config)
        decoding, at = Decoding(params, config, (2,), T), 0
        for piece in (prefill, 1, 1, 4, *(1,) * (T - prefill - 6)):
            got = decoding.feed(tokens[:, at : at + piece])
            at += piece
            want = full[:, at - 1]
            assert np.max(abs(got - want)) < 1e-13 * np.max(abs(want))

    def test_a_latent_cache_forgets_too(self, rng):
        D, H, N, R, low = 8, 2, 3, 2, 6
        config = LanguageModelConfig(
            VOCABULARY, D, H, positions="rope", norm="rms", activation="swiglu", d_ff=6,
            biases=False, head_dim=N + R, rope_dim=R, blocks={"window": (3, 0)},
        )  # fmt: skip
        shapes = (H * (N + R), D), (low + R, D), (low,), (H * N, low), (H * 4, low), (D, H * 4)
        params = trees.drawn(rng, init_language_model(rng, config), 0.15)
        w_uq, *rest = (rng.normal(size=shape) / 2 for shape in shapes)
        latent = LatentAttentionParams(None, None, w_uq, *rest)
        blocks = tuple(block._replace(attention=latent) for block in params.blocks)
        params = params._replace(blocks=blocks)
        tokens = rng.integers(0, VOCABULARY, (1, T))
        text = generate(tokens, params, config, steps=6, temperature=0)
        want = language_model(text[:, :-1], params, config)[:, -6:]
        np.testing.assert_array_equal(text[:, -6:], want.argmax(-1))
        decoding = Decoding(params, config, (1,), 99)
        decoding.feed(tokens)
        assert buffers(decoding)[0] == [3, 3]

    @pytest.mark.broad
    @pytest.mark.parametrize("near", NEAR)
    def test_beam_search_goes_on_with_other_texts(self, rng, near):
        params, config = model(rng, NEAR[near], positions="rope")
        params = params._replace(embedding=2 * params.embedding)
        prompt, steps = rng.integers(0, VOCABULARY, 8), 9
        texts, scores = beam_search(prompt, params, config, steps=steps, beams=5)
        assert len({tuple(text[8:11]) for text in texts}) > 1  # beams were left and doubled
        logp = log_softmax(language_model(texts[:, :-1], params, config))
        each = np.take_along_axis(logp, texts[:, 1:, None], -1)[:, -steps:, 0]
        np.testing.assert_allclose(scores, each.sum(1), rtol=1e-12)


class TestMemory:
    @pytest.mark.parametrize(
        ("near", "most"), [({"window": (8, 0)}, 8), ({"chunk": 8}, 8), ({"window": (2, 0)}, 2)]
    )
    def test_it_does_not_grow_with_the_text(self, rng, near, most):
        params, config = model(rng, near, positions="rope")
        tokens = rng.integers(0, VOCABULARY, (1, 70))
        decoding = Decoding(params, config, (1,), 70)
        room = most + (most + 1) // 2 + 1
        assert max(buffers(decoding)[0]) <= room
        decoding.feed(tokens[:, :40])
        for t in range(40, 70):
            decoding.feed(tokens[:, t : t + 1])
            rows, size = buffers(decoding)
            assert max(rows) <= room
            assert size == sum(rows) * 2 * 16 * 8  # keys and values of 16 numbers in float64
        caches = [cache for field in decoding.caches for cache in field.values()]
        assert all(len(cache) <= most and cache.total == 70 for cache in caches)

    def test_a_layer_that_sees_all_keeps_all(self, rng):
        params, config = model(rng, NEAR["some blocks"], positions="rope")
        decoding = Decoding(params, config, (1,), 99)
        decoding.feed(rng.integers(0, VOCABULARY, (1, 60)))
        kept = [len(cache) for field in decoding.caches for cache in field.values()]
        assert kept == [2, 0, 60]  # 60 is the beginning of a chunk of 4


class TestCache:
    @pytest.mark.parametrize("pieces", [(1,) * 9, (7, 1, 1), (2, 3, 4), (9,)])
    def test_of_a_window(self, rng, pieces):
        k = rng.normal(size=(2, 1, 9, 3))
        cache, at = KVCache.empty((2,), 1, 3, dtype=np.float64, window=2), 0
        seen = []
        for size in pieces:
            first = at - len(cache)
            keys, values = cache.append(k[..., at : at + size, :], -k[..., at : at + size, :])
            at += size
            np.testing.assert_array_equal(keys, k[..., first:at, :])
            np.testing.assert_array_equal(values, -keys)
            assert (len(cache), cache.total) == (min(2, at), at)
            np.testing.assert_array_equal(cache.keys, k[..., at - len(cache) : at, :])
            seen.append((keys, keys.copy()))
        for view, copy in seen:
            np.testing.assert_array_equal(view, copy)  # views stay valid

    def test_of_chunks(self, rng):
        k = rng.normal(size=(1, 9, 3))
        cache = KVCache.empty((), 1, 3, dtype=np.float64, chunk=4)
        met = [cache.append(k[:, t : t + 1], k[:, t : t + 1])[0] for t in range(9)]
        assert [keys.shape[1] for keys in met] == [1, 2, 3, 4, 1, 2, 3, 4, 1]
        np.testing.assert_array_equal(met[6], k[:, 4:7])

    def test_arguments(self):
        for name, value in (("window", -1), ("chunk", 0)):
            with pytest.raises(ValueError, match=f"'{name}' must be"):
                KVCache.empty((), 1, 2, **{name: value})
            with pytest.raises(TypeError, match=f"'{name}' must be an integer"):
                KVCache.empty((), 1, 2, **{name: 1.5})


class TestChunks:
    def options(self):
        return {"num_heads": 2, "norm_first": True, "is_causal": True}

    def block(self, rng):
        config = LanguageModelConfig(VOCABULARY, 8, 2, num_layers=1)
        return trees.drawn(rng, init_language_model(rng, config), 0.3).blocks[0]

    @pytest.mark.parametrize("size", [1, 3, 7, 20])
    def test_is_the_mask(self, rng, size):
        p, x, u = self.block(rng), rng.normal(size=(2, 7, 8)), rng.normal(size=(2, 7, 8))
        mask, o = chunk_mask(7, size=size), self.options()
        np.testing.assert_array_equal(
            encoder_block(x, p, **o, chunk=size), encoder_block(x, p, **o, mask=mask)
        )
        for f, arguments in (
            (encoder_block_vjp, (u, x, p)),
            (encoder_block_jvp, ((x, p), (u, trees.drawn(rng, p, 1.0)))),
        ):
            trees.assert_close(f(*arguments, **o, chunk=size), f(*arguments, **o, mask=mask), 0)

    def test_meets_a_mask(self, rng):
        p, x = self.block(rng), rng.normal(size=(7, 8))
        mask = rng.random((7, 7)) < 0.6
        got = encoder_block(x, p, **self.options(), chunk=3, mask=mask)
        want = encoder_block(x, p, **self.options(), mask=mask & chunk_mask(7, size=3))
        np.testing.assert_array_equal(got, want)
        with pytest.raises(ValueError, match="'mask' must"):
            encoder_block(x, p, **self.options(), chunk=3, mask=mask[:5])

    def test_is_checked(self, rng):
        p, x = self.block(rng), rng.normal(size=(7, 8))
        with pytest.raises(ValueError, match="'chunk' must be"):
            encoder_block(x, p, **self.options(), chunk=0)
        with pytest.raises(TypeError, match="'chunk' must be an integer"):
            encoder_block(x, p, **self.options(), chunk=2.5)

    @pytest.mark.naming
    def test_a_trace_has_them(self, rng):
        params, config = model(rng, {"chunk": 5}, positions="rope", num_layers=1)
        tokens = rng.integers(0, VOCABULARY, (1, 12))
        steps = trace(language_model, tokens, params, config)
        logits = language_model(tokens, params, config)
        np.testing.assert_allclose(steps["logits"], logits, rtol=0, atol=1e-13)
        for blocks, cause in (
            (None, "the option chunk is missing"),
            ({"chunk": 4}, "the chunks have 4 tokens instead of 5"),
        ):
            other = replace(config, blocks=blocks)
            found = first_difference(steps, trace(language_model, tokens, params, other))
            assert (found.name, found.cause) == ("blocks.0.attention.scores", cause)
            masked = {"chunk": 5, "mask": np.ones((12, 12), bool)}
        x = rng.normal(size=(12, 16))
        options = {"num_heads": 4, "norm_first": True, "is_causal": True}
        block = params.blocks[0]
        steps = trace(encoder_block, x, block, **options, **masked)
        np.testing.assert_allclose(
            steps["out"], encoder_block(x, block, **options, chunk=5), rtol=0, atol=1e-13
        )


def test_the_shape_of_a_batch_is_a_tuple():
    with pytest.raises(TypeError, match="'batch_shape' must be a tuple of integers, not 3"):
        KVCache.empty(3, 2, 4)
