"""Texts of different lengths in the language model: padded on either side, and in lists."""

import numpy as np
import pytest
import trees
from trees import leaves

from dlref.training import tree_map
from dlref.transformer import (
    LanguageModelConfig,
    beam_search,
    generate,
    init_language_model,
    language_model,
    language_model_jvp,
    language_model_loss,
    language_model_loss_value_and_grad,
    language_model_trace,
    language_model_vjp,
)

SCHEMES = ["learned", "sinusoidal", "rope", "alibi", "t5", "none"]
LENGTHS = [3, 5, 1, 0]
T = 5


def problem(positions="rope"):
    rng = np.random.default_rng(0)
    config = LanguageModelConfig(7, 8, 2, num_layers=2, length=8, positions=positions)
    params = trees.drawn(rng, init_language_model(rng, config), 0.3)
    return config, params, rng.integers(0, 7, (len(LENGTHS), T)), rng


def padded(texts, padding, junk):
    """Return texts in rows of T, with any tokens in the padding, and which tokens are real."""
    rows, real = junk.copy(), np.zeros((len(texts), T), bool)
    for row, mark, text in zip(rows, real, texts, strict=True):
        place = slice(0, len(text)) if padding == "right" else slice(T - len(text), T)
        row[place], mark[place] = text, True
    return rows, real


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("positions", SCHEMES)
def test_logits_are_those_of_each_text_alone(positions, padding):
    config, params, junk, rng = problem(positions)
    texts = [rng.integers(0, 7, n) for n in LENGTHS]
    rows, real = padded(texts, padding, junk)
    logits = language_model(rows, params, config, lengths=LENGTHS, padding=padding)
    assert (logits[~real] == 0).all()
    for text, found, mark in zip(texts, logits, real, strict=True):
        if len(text):
            close(found[mark], language_model(text, params, config))


@pytest.mark.parametrize("padding", ["right", "left"])
def test_gradients_are_sums_over_the_texts(padding):
    config, params, junk, rng = problem("learned")
    texts = [rng.integers(0, 7, n) for n in LENGTHS]
    rows, real = padded(texts, padding, junk)
    u = rng.normal(size=(*rows.shape, 7))
    found = language_model_vjp(u, rows, params, config, lengths=LENGTHS, padding=padding)
    alone = [
        leaves(language_model_vjp(v[mark], text, params, config))
        for text, v, mark in zip(texts, u, real, strict=True)
        if len(text)
    ]
    for whole, *parts in zip(leaves(found), *alone, strict=True):
        close(whole, sum(parts))
    along = trees.drawn(rng, params, 1.0)
    moved = language_model_jvp(
        (rows, params), (None, along), config, lengths=LENGTHS, padding=padding
    )
    assert (moved[~real] == 0).all()
    inner = sum(np.vdot(g, v) for g, v in zip(leaves(found), leaves(along), strict=True))
    assert np.isclose(inner, np.vdot(u, moved), rtol=1e-12)


@pytest.mark.parametrize("padding", ["right", "left"])
def test_the_loss_is_the_mean_over_all_predictions(padding):
    config, params, junk, rng = problem()
    texts = [rng.integers(0, 7, n) for n in LENGTHS]
    rows, _ = padded(texts, padding, junk)
    options = {"lengths": LENGTHS, "padding": padding}
    long = [text for text in texts if len(text) > 1]
    counts = [len(text) - 1 for text in long]
    want = sum(
        n * language_model_loss(text, params, config) for n, text in zip(counts, long, strict=True)
    ) / sum(counts)
    close(language_model_loss(rows, params, config, **options), want)
    loss, grads = language_model_loss_value_and_grad(rows, params, config, **options)
    close(loss, want)
    along = trees.drawn(rng, params, 1.0)
    step = 1e-6
    ends = [
        language_model_loss(
            rows,
            tree_map(lambda p, v, s=sign: p + s * step * v, params, along),
            config,
            **options,
        )
        for sign in (1, -1)
    ]
    slope = sum(np.vdot(g, v) for g, v in zip(leaves(grads), leaves(along), strict=True))
    assert np.isclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("padding", ["right", "left"])
def test_targets_of_padding_are_ignored(padding):
    config, params, junk, rng = problem()
    texts = [rng.integers(0, 7, n) for n in LENGTHS]
    rows, real = padded(texts, padding, junk)
    targets = rng.integers(0, 7, rows.shape)
    found = language_model_loss(
        rows, params, config, targets=targets, lengths=LENGTHS, padding=padding
    )
    total = sum(
        len(text) * language_model_loss(text, params, config, targets=wanted[mark])
        for text, wanted, mark in zip(texts, targets, real, strict=True)
        if len(text)
    )
    close(found, total / sum(LENGTHS))


@pytest.mark.parametrize("padding", ["right", "left"])
def test_the_trace_has_zeros_where_there_is_no_token(padding):
    config, params, junk, rng = problem("alibi")
    texts = [rng.integers(0, 7, n) for n in LENGTHS]
    rows, real = padded(texts, padding, junk)
    found = language_model_trace(rows, params, config, lengths=LENGTHS, padding=padding)
    for i, (text, mark) in enumerate(zip(texts, real, strict=True)):
        if not len(text):
            continue
        alone = language_model_trace(text, params, config)
        for a, b in zip(found.residual, alone.residual, strict=True):
            close(a[i][mark], b)
            assert (a[i][~mark] == 0).all()
        for a, b in zip(found.weights, alone.weights, strict=True):
            close(a[i][:, mark][:, :, mark], b)
            assert a[i][:, mark].sum() == pytest.approx(b.sum())


def test_factors_of_dropout_stay_where_texts_are_padded_on_the_right():
    config, params, junk, rng = problem()
    factors = 2.0 * rng.integers(0, 2, (*junk.shape, 8))
    options = {"lengths": LENGTHS, "embedding_dropout": factors}
    found = language_model(junk, params, config, **options)
    want = language_model(junk, params, config, embedding_dropout=factors)
    close(found[1], want[1])
    with pytest.raises(ValueError, match="dropout must be None where 'padding' is 'left'"):
        language_model(junk, params, config, padding="left", **options)
    with pytest.raises(ValueError, match="dropout must be None where 'padding' is 'left'"):
        language_model_loss(junk, params, config, padding="left", **options)


PROMPTS = [[1, 2, 3], [4], [5, 6], [0, 1, 2]]


def test_prompts_of_different_lengths_are_continued_as_alone():
    config, params, *_ = problem()
    found = generate(PROMPTS, params, config, steps=4, temperature=0)
    rows = np.array([[0] * (3 - len(p)) + p for p in PROMPTS])
    counts = [len(p) for p in PROMPTS]
    left = generate(rows, params, config, steps=4, temperature=0, lengths=counts)
    assert left.shape == (4, 7)
    for prompt, text, row in zip(PROMPTS, found, left, strict=True):
        alone = generate(prompt, params, config, steps=4, temperature=0)
        assert text.tolist() == alone.tolist() == row[3 - len(prompt) :].tolist()
    assert (left[:, :3] == rows).all()


def test_a_draw_belongs_to_its_place_in_the_batch():
    config, params, *_ = problem()
    equal = np.array([[1, 2], [3, 4]])
    draws = [
        generate(equal, params, config, steps=5, rng=np.random.default_rng(1), **options)
        for options in ({}, {"lengths": [2, 2]})
    ]
    assert (draws[0] == draws[1]).all()
    texts = generate([[1, 2], [3, 4, 5]], params, config, steps=5, rng=np.random.default_rng(1))
    assert texts[0].tolist() == draws[0][0].tolist()


def test_beams_of_prompts_of_different_lengths():
    config, params, *_ = problem()
    texts, scores = beam_search(PROMPTS, params, config, steps=3, beams=2, stop=0)
    rows = np.array([[6] * (3 - len(p)) + p for p in PROMPTS])
    counts = [len(p) for p in PROMPTS]
    left, same = beam_search(rows, params, config, steps=3, beams=2, stop=0, lengths=counts)
    assert left.shape == (4, 2, 6)
    close(scores, same)
    for i, prompt in enumerate(PROMPTS):
        alone, value = beam_search(prompt, params, config, steps=3, beams=2, stop=0)
        assert (texts[i] == alone).all()
        assert (left[i, :, 3 - len(prompt) :] == alone).all()
        close(scores[i], value)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"lengths": [1, 2]}, ValueError, r"'lengths' must have shape \(4,\), not \(2,\)"),
        ({"lengths": [1, 2, 3, 6]}, ValueError, "'lengths'"),
        ({"lengths": [1.0, 2, 3, 4]}, TypeError, "'lengths' must be integer"),
        ({"padding": "middle"}, ValueError, "'padding' must be"),
    ],
)
def test_bad_lengths(options, error, words):
    config, params, junk, _ = problem()
    with pytest.raises(error, match=words):
        language_model(junk, params, config, **options)
    with pytest.raises(error, match=words):
        language_model_loss(junk, params, config, **options)
    with pytest.raises(error, match=words):
        generate(junk, params, config, steps=1, temperature=0, **options)


def test_bad_prompts():
    config, params, junk, _ = problem()
    options = {"steps": 1, "temperature": 0}
    with pytest.raises(ValueError, match=r"'lengths' must lie in \[1, 5\]"):
        generate(junk, params, config, lengths=[0, 1, 2, 3], **options)
    with pytest.raises(ValueError, match="'padding' must be"):
        generate(junk, params, config, lengths=[1, 1, 2, 3], padding="right", **options)
    with pytest.raises(ValueError, match="at least 1 token"):
        generate([[1, 2], []], params, config, **options)
    with pytest.raises(ValueError, match=r"'prompt\[1\]' must have 1 axes"):
        generate([[1, 2], [[1], [2], [3]]], params, config, **options)
    empty = np.zeros((0, 3), int)
    assert generate(empty, params, config, lengths=np.zeros(0, int), **options).shape == (0, 4)
    assert generate([[1, 2], [3, 4]], params, config, **options).shape == (2, 3)
