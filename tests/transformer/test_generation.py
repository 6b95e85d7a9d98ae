"""Generation: with the cache as without, drawn as told, and the best of all by beam search."""

import itertools

import numpy as np
import pytest
import trees

from dlref.activations import log_softmax, softmax
from dlref.transformer import (
    LanguageModelConfig,
    beam_search,
    generate,
    init_language_model,
    language_model,
    next_token_probabilities,
)
from dlref.transformer._decoding import Decoding

SCHEMES = ["learned", "sinusoidal", "rope", "alibi", "t5", "none"]


def model(rng, **fields):
    config = LanguageModelConfig(**{"vocab_size": 11, "d_model": 16, "num_heads": 4, **fields})
    return trees.drawn(rng, init_language_model(rng, config), 0.15), config


KINDS = [
    *({"positions": scheme} for scheme in SCHEMES),
    {
        "positions": "rope",
        "norm": "rms",
        "activation": "swiglu",
        "num_kv_heads": 2,
        "biases": False,
    },
    {"norm_first": False, "tied": False, "positions": "t5", "activation": "relu"},
    {"activation": "tanh"},
    {"num_layers": 0},
]


class TestCache:
    @pytest.mark.broad
    @pytest.mark.parametrize("fields", KINDS)
    @pytest.mark.parametrize("pieces", [(1,) * 9, (4, 1, 1, 3), (9,)])
    def test_logits_are_those_of_the_whole_text(self, rng, fields, pieces):
        params, config = model(rng, **fields)
        tokens = rng.integers(0, 11, (3, 9))
        full = language_model(tokens, params, config)
        decoding, start = Decoding(params, config, (3,), 9), 0
        for piece in pieces:
            got = decoding.feed(tokens[:, start : start + piece])
            start += piece
            want = full[:, start - 1]
            assert np.max(abs(got - want)) < 1e-13 * np.max(abs(want))

    def test_float32(self, rng):
        params, config = model(rng, positions="rope")
        narrow = trees.mapped(lambda a: a.astype(np.float32), params)
        tokens = rng.integers(0, 11, (2, 6))
        decoding = Decoding(narrow, config, (2,), 6)
        got = [decoding.feed(tokens[:, i : i + 1]) for i in range(6)][-1]
        assert got.dtype == np.float32
        want = language_model(tokens, params, config)[:, -1]
        assert np.max(abs(got - want)) < 1e-5 * np.max(abs(want))

    @pytest.mark.broad
    @pytest.mark.parametrize("fields", KINDS[:7])
    def test_greedy_text_is_the_uncached_one(self, rng, fields):
        params, config = model(rng, **fields)
        text = rng.integers(0, 11, (2, 3))
        got = generate(text, params, config, steps=8, temperature=0)
        for _ in range(8):
            best = language_model(text, params, config)[:, -1].argmax(-1)
            text = np.concatenate([text, best[:, None]], axis=1)
        np.testing.assert_array_equal(got, text)


class TestGenerate:
    def test_shapes_and_prompt(self, rng):
        params, config = model(rng)
        prompt = rng.integers(0, 11, (2, 3, 4))
        got = generate(prompt, params, config, steps=5, rng=rng)
        assert got.shape == (2, 3, 9)
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got[..., :4], prompt)
        assert generate([3], params, config, steps=0, rng=rng).tolist() == [3]
        assert generate(np.zeros((0, 2), int), params, config, steps=3, rng=rng).shape == (0, 5)

    def test_equal_states_give_equal_texts(self, rng):
        params, config = model(rng)
        one, two, other = (
            generate([[1, 2]] * 3, params, config, steps=9, rng=np.random.default_rng(seed))
            for seed in (5, 5, 6)
        )
        np.testing.assert_array_equal(one, two)
        assert np.any(one != other)
        assert np.any(one[0] != one[1])  # texts of a batch are drawn on their own

    def test_draws_from_the_distribution(self, rng):
        params, config = model(rng, num_layers=0)
        count = 1500
        drawn = generate([[1, 2]] * count, params, config, steps=1, rng=rng)[:, -1]
        want = softmax(language_model([1, 2], params, config)[-1])
        got = np.bincount(drawn, minlength=11) / count
        assert np.max(abs(got - want)) < 5 * np.sqrt(0.25 / count)

    def test_options_reach_the_draw(self, rng):
        params, config = model(rng)
        greedy = generate([1, 2], params, config, steps=6, temperature=0)
        np.testing.assert_array_equal(
            generate([1, 2], params, config, steps=6, top_k=1, rng=rng), greedy
        )
        np.testing.assert_array_equal(
            generate([1, 2], params, config, steps=6, top_p=1e-9, rng=rng), greedy
        )
        np.testing.assert_array_equal(
            generate([1, 2], params, config, steps=6, min_p=1.0, rng=rng), greedy
        )

    def test_stop_fills_the_rest(self, rng):
        params, config = model(rng)
        free = generate([[1], [2], [3]], params, config, steps=12, rng=np.random.default_rng(8))
        stop = int(free[0, 4])
        got = generate(
            [[1], [2], [3]], params, config, steps=12, rng=np.random.default_rng(8), stop=stop
        )
        for text, original in zip(got, free, strict=True):
            end = 1 + np.argmax(original[1:] == stop) if stop in original[1:] else 13
            np.testing.assert_array_equal(text[:end], original[:end])
            assert np.all(text[end:] == stop)

    def test_all_stopped(self, rng):
        params, config = model(rng, num_layers=0, tied=False)
        params = params._replace(head=np.zeros((11, 16)))
        assert generate([1], params, config, steps=3, temperature=0, stop=0).tolist() == [
            1,
            0,
            0,
            0,
        ]

    def test_the_last_token_is_not_read_again(self, rng):
        params, config = model(rng, length=5)
        assert generate([1, 2], params, config, steps=4, rng=rng).shape == (6,)
        with pytest.raises(
            ValueError, match=r"must have at most length = 1024 positions|length = 5"
        ):
            generate([1, 2], params, config, steps=5, rng=rng)


class TestProbabilities:
    @pytest.fixture
    def logits(self, rng):
        return rng.normal(size=(3, 20))

    def test_plain_is_softmax(self, logits):
        np.testing.assert_allclose(next_token_probabilities(logits), softmax(logits), rtol=1e-14)

    @pytest.mark.parametrize("k", [1, 3, 20, 50])
    def test_top_k_keeps_the_largest(self, logits, k):
        p, full = next_token_probabilities(logits, top_k=k), softmax(logits)
        for row, whole in zip(p, full, strict=True):
            best = np.sort(whole)[::-1][:k]
            np.testing.assert_allclose(np.sort(row)[::-1][: len(best)], best / best.sum())
            assert np.count_nonzero(row) == min(k, 20)

    @pytest.mark.parametrize("mass", [1e-9, 0.3, 0.7, 1.0])
    def test_top_p_keeps_the_fewest_that_suffice(self, logits, mass):
        p, full = next_token_probabilities(logits, top_p=mass), softmax(logits)
        for row, whole in zip(p, full, strict=True):
            kept = whole[row > 0]
            assert whole[row == 0].max(initial=0) <= kept.min()
            assert kept.sum() >= mass - 1e-12
            assert kept.sum() - kept.min() < mass or len(kept) == 1
            np.testing.assert_allclose(row[row > 0], kept / kept.sum())

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_top_p_of_an_exact_sum(self, dtype):
        logits = np.log(np.array([1 / 2, 1 / 4, 1 / 8, 1 / 8], dtype))
        assert np.sum(next_token_probabilities(logits, top_p=7 / 8) > 0) == 3

    def test_top_p_ends_where_the_mass_is_just_reached(self):
        got = next_token_probabilities([0.0, 0.0, -np.inf, -np.inf], top_p=0.5)
        assert got.tolist() == [1, 0, 0, 0]
        got = next_token_probabilities([0.0, 0.0, -np.inf], top_p=np.nextafter(0.5, 1))
        assert got.tolist() == [0.5, 0.5, 0]

    @pytest.mark.parametrize("share", [0.0, 0.2, 0.7, 1.0])
    def test_min_p_is_a_share_of_the_largest(self, logits, share):
        p, full = next_token_probabilities(logits, min_p=share), softmax(logits)
        for row, whole in zip(p, full, strict=True):
            kept = whole >= share * whole.max()
            np.testing.assert_allclose(row, np.where(kept, whole, 0) / whole[kept].sum())

    def test_min_p_after_the_others_as_in_transformers(self, logits):
        options = {"temperature": 2.0, "top_k": 9, "top_p": 0.8, "min_p": 0.6}
        z = logits / 2
        z = np.where(z < np.sort(z, -1)[:, -9, None], -np.inf, z)
        p, want = softmax(z), []
        for row in p:
            order = np.argsort(-row)
            row[order[np.cumsum(row[order]) - row[order] >= 0.8]] = 0
            row[row < 0.6 * row.max()] = 0
            want.append(row / row.sum())
        np.testing.assert_allclose(next_token_probabilities(logits, **options), want, rtol=1e-14)

    def test_ties_of_top_k_stay(self):
        got = next_token_probabilities([1.0, 0.0, 0.0, -1.0], top_k=2)
        assert np.count_nonzero(got) == 3

    def test_temperature(self, logits):
        cold, hot = (next_token_probabilities(logits, temperature=t) for t in (1e-3, 1e6))
        np.testing.assert_allclose(cold.max(-1), 1)
        np.testing.assert_allclose(hot, 1 / 20, rtol=1e-4)
        zero = next_token_probabilities(logits, temperature=0)
        np.testing.assert_array_equal(zero.argmax(-1), logits.argmax(-1))
        assert np.unique(zero).tolist() == [0.0, 1.0]

    @pytest.mark.parametrize("tau", [1e-30, 1e-308, 1e-320])
    def test_tiny_temperatures_do_not_overflow(self, tau):
        got = next_token_probabilities([-1e10, 2e10, 2e10], temperature=tau)
        assert got.tolist() == [0, 0.5, 0.5]

    @pytest.mark.parametrize("tau", [0, 0.5, 1, 2])
    def test_rows_without_a_distribution(self, tau):
        rows = [[np.nan, 1.0], [-np.inf, -np.inf], [-np.inf, 1.0]]
        got = next_token_probabilities(rows, temperature=tau)
        np.testing.assert_array_equal(got, [[np.nan] * 2, [np.nan] * 2, [0, 1]])

    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    def test_dtype(self, logits, dtype):
        assert next_token_probabilities(logits.astype(dtype), top_p=0.5).dtype == dtype

    def test_empty(self):
        assert next_token_probabilities(np.ones((0, 3))).shape == (0, 3)

    def test_errors(self, logits):
        with pytest.raises(ValueError, match=r"'temperature' must be at least 0, not -1"):
            next_token_probabilities(logits, temperature=-1)
        with pytest.raises(ValueError, match=r"'top_k' must be at least 1, not 0"):
            next_token_probabilities(logits, top_k=0)
        for mass, words in ((0, "greater than 0, not 0"), (2, "at most 1, not 2")):
            with pytest.raises(ValueError, match=rf"'top_p' must be {words}\."):
                next_token_probabilities(logits, top_p=mass)
        with pytest.raises(ValueError, match=r"'min_p' must be from 0 to 1, not 1.5"):
            next_token_probabilities(logits, min_p=1.5)
        with pytest.raises(ValueError, match=r"'logits' must have at least 1 axis"):
            next_token_probabilities(1.0)


class TestBeamSearch:
    @pytest.mark.broad
    def test_enough_beams_find_the_best_of_all(self, rng):
        params, config = model(rng, vocab_size=3)
        texts, scores = beam_search([[0, 1], [2, 0]], params, config, steps=3, beams=9)
        every = np.array(list(itertools.product(range(3), repeat=3)))
        for prompt, found, score in zip(([0, 1], [2, 0]), texts, scores, strict=True):
            full = np.array([[*prompt, *rest] for rest in every])
            logp = log_softmax(language_model(full, params, config))
            total = sum(logp[np.arange(27), i, full[:, i + 1]] for i in (1, 2, 3))
            order = np.argsort(-total)[:5]
            np.testing.assert_array_equal(found[:5], full[order])
            np.testing.assert_allclose(score[:5], total[order], rtol=1e-13)

    def test_one_beam_is_greedy(self, rng):
        params, config = model(rng, positions="rope")
        texts, _ = beam_search([1, 2], params, config, steps=7, beams=1)
        assert texts.shape == (1, 9)
        greedy = generate([1, 2], params, config, steps=7, temperature=0)
        np.testing.assert_array_equal(texts[0], greedy)

    def test_stop_and_length_penalty(self, rng):
        params, config = model(rng, vocab_size=3)
        for penalty in (0.0, 1.0):
            texts, scores = beam_search(
                [1], params, config, steps=3, beams=27, stop=0, length_penalty=penalty
            )
            totals = {}
            for rest in itertools.product(range(3), repeat=3):
                end = rest.index(0) + 1 if 0 in rest else 3
                text = (1, *rest[:end], *(0,) * (3 - end))
                logp = log_softmax(language_model(text, params, config))
                total = sum(float(logp[i, text[i + 1]]) for i in range(end))
                totals[text] = total / end**penalty
            best = sorted(totals.items(), key=lambda pair: -pair[1])
            assert tuple(texts[0].tolist()) == best[0][0]
            finite = scores[np.isfinite(scores)]
            np.testing.assert_allclose(finite, [score for _, score in best], rtol=1e-12)

    def test_no_steps(self, rng):
        params, config = model(rng)
        texts, scores = beam_search([[1, 2]], params, config, steps=0, beams=2)
        assert texts.tolist() == [[[1, 2], [1, 2]]]
        assert scores.tolist() == [[0.0, -np.inf]]
        assert beam_search(np.zeros((0, 1), int), params, config, steps=2)[0].shape == (0, 4, 3)


class TestErrors:
    def test_arguments(self, rng):
        params, config = model(rng)
        with pytest.raises(TypeError, match=r"'rng' must be a numpy.random.Generator, not None"):
            generate([1], params, config, steps=1)
        with pytest.raises(ValueError, match=r"'prompt' must have at least 1 token"):
            generate(np.zeros(0, int), params, config, steps=1, rng=rng)
        with pytest.raises(ValueError, match=r"'prompt' must hold integers from 0 to 10, not 11"):
            generate([11], params, config, steps=1, rng=rng)
        with pytest.raises(ValueError, match=r"'steps' must be at least 0"):
            generate([1], params, config, steps=-1, rng=rng)
        with pytest.raises(ValueError, match=r"'stop' must hold integers from 0 to 10, not 11"):
            generate([1], params, config, steps=1, rng=rng, stop=11)
        with pytest.raises(ValueError, match=r"'stop' must hold integers from 0 to 10, not 11"):
            beam_search([1], params, config, steps=1, stop=11)
        with pytest.raises(ValueError, match=r"'beams' must be at least 1"):
            beam_search([1], params, config, steps=1, beams=0)


@pytest.mark.parametrize("prompt", [[1, 2], [[1, 2], [3]]])
def test_refused_calls_draw_no_number(rng, prompt):
    config = LanguageModelConfig(9, 8, 2, length=3)
    params, source = init_language_model(rng, config), np.random.default_rng(0)
    before = source.bit_generator.state
    with pytest.raises(ValueError, match=r"at most length = 3 positions, not [56]"):
        generate(prompt, params, config, steps=5, rng=source)
    assert source.bit_generator.state == before
    assert len(generate([1, 2], params, config, steps=2, rng=source)) == 4
    with pytest.raises(TypeError, match="'config' must be a LanguageModelConfig"):
        generate(prompt, params, None, steps=1, temperature=0, stop=0)
    with pytest.raises(TypeError, match="'config' must be a LanguageModelConfig"):
        beam_search(prompt, params, None, steps=1, stop=0)
