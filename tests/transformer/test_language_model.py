"""The language model: the formula, PyTorch with all gradients, and what a mask is for."""

import itertools

import numpy as np
import peers
import pytest
import torch_models
import trees

from dlref.formulas import transformer as formulas
from dlref.losses import cross_entropy
from dlref.transformer import (
    LanguageModelConfig,
    dropout_mask,
    init_language_model,
    language_model,
    language_model_jvp,
    language_model_loss,
    language_model_loss_grad,
    language_model_loss_value_and_grad,
    language_model_trace,
    language_model_vjp,
)

LLAMA = {
    "positions": "rope", "norm": "rms", "activation": "swiglu", "tied": False, "biases": False,
    "num_kv_heads": 2, "eps": 1e-6,
}  # fmt: skip
SCHEMES = ["learned", "sinusoidal", "rope", "alibi", "t5", "none"]


ROW = np.array([2.0, 0, 2, 1, 0])  # factors of dropout: of keys, or of five positions
FEATURES = np.array([0.0, 2, 2, 0, 1, 2, 0, 2])


def modeling(shape=(2, 5), options=None, **fields):
    config = LanguageModelConfig(
        **{"vocab_size": 7, "d_model": 8, "num_heads": 2, "length": 6, **fields}
    )

    def problem(rng):
        params = trees.drawn(rng, init_language_model(rng, config), 0.2)
        return (rng.integers(0, 7, shape), params), (config,), options or {}

    return problem


class TestModel(trees.Contract):
    maps = language_model, language_model_vjp, language_model_jvp, formulas.language_model
    problems = [  # noqa: RUF012
        modeling(biases=False),
        *(modeling(positions=scheme) for scheme in SCHEMES),
        modeling(**{**LLAMA, "num_heads": 4}),
        modeling(shape=(4,), norm_first=False, activation="relu"),
        modeling(shape=(1, 2, 1), num_layers=1, tied=False, scale_embeddings=True),
        modeling(num_layers=0),
        modeling(options={"embedding_dropout": FEATURES * ROW[:, None]}, tied=False),
        modeling(options={"embedding_dropout": FEATURES}, positions="sinusoidal"),
        modeling(options={"attention_dropout": (ROW, None)}, positions="t5"),
        modeling(
            options={
                "dropout": ((None, FEATURES), (FEATURES, None)),
                "attention_dropout": (None, np.stack([ROW, ROW[::-1]])[:, None]),
                "embedding_dropout": ROW[:, None],
            },
            positions="rope",
        ),
    ]


def problem_of(rng, *, shape=(3, 9), **fields):
    config = LanguageModelConfig(**{"vocab_size": 13, "d_model": 16, "num_heads": 4, **fields})
    params = trees.drawn(rng, init_language_model(rng, config), 0.1)
    return rng.integers(0, 13, shape), params, config


class TestAgainstPyTorch:
    def check(self, rng, model, options, fields):
        assert peers.torch
        tokens, params, config = problem_of(rng, **fields)
        logits, loss, grads = torch_models.gradients(model, params, tokens, *options)
        trees.assert_close(language_model(tokens, params, config), logits, 1e-13)
        value, ours = language_model_loss_value_and_grad(tokens, params, config)
        assert value == pytest.approx(loss, rel=1e-14)
        trees.assert_close(ours, grads, 1e-13)
        for got, want in zip(trees.leaves(ours), trees.leaves(grads), strict=True):
            if np.max(abs(want)) > 1e-15:  # the keys' biases have none
                trees.assert_close(got, want, 1e-12)  # each on its own scale

    def test_gpt2(self, rng):
        self.check(rng, torch_models.gpt2, (4,), {"num_layers": 3, "length": 9})

    def test_llama(self, rng):
        self.check(rng, torch_models.llama, (4, 2, 1e-6), {**LLAMA, "num_layers": 3})


class TestLoss:
    def test_is_the_mean_over_next_tokens(self, rng):
        tokens, params, config = problem_of(rng)
        logits = language_model(tokens, params, config)
        want = cross_entropy(logits[:, :-1], tokens[:, 1:])
        assert language_model_loss(tokens, params, config) == pytest.approx(float(want), rel=1e-14)

    def test_asks_only_where_there_is_a_target(self, rng):
        tokens, params, config = problem_of(rng)
        targets = np.full(tokens.shape, -100)
        targets[1, 4] = 5
        logits = language_model(tokens, params, config)
        want = float(cross_entropy(logits[1, 4], 5))
        value, grads = language_model_loss_value_and_grad(tokens, params, config, targets=targets)
        assert value == pytest.approx(want, rel=1e-14)
        assert language_model_loss(tokens, params, config, targets=targets) == value
        only = language_model_loss_grad(tokens[1:2, :5], params, config, targets=targets[1:2, :5])
        trees.assert_close(grads._replace(positions=None), only._replace(positions=None), 1e-13)

    def test_falls_along_the_gradient(self, rng):
        tokens, params, config = problem_of(rng)
        loss, grads = language_model_loss_value_and_grad(tokens, params, config)
        pairs = zip(trees.leaves(params), trees.leaves(grads), strict=True)
        moved = trees.filled(params, [p - 1e-5 * g for p, g in pairs])
        drop = loss - language_model_loss(tokens, moved, config)
        squares = sum(np.sum(g**2) for g in trees.leaves(grads))
        assert drop == pytest.approx(1e-5 * squares, rel=1e-2)

    def test_dropout(self, rng):
        tokens, params, config = problem_of(rng, num_layers=1)
        factors = ((dropout_mask(rng, (3, 8, 16), rate=0.5), None),)
        value, grads = language_model_loss_value_and_grad(tokens, params, config, dropout=factors)
        assert value == language_model_loss(tokens, params, config, dropout=factors)
        move = trees.mapped(lambda a: rng.normal(size=a.shape), params)
        ends = []
        for h in (1e-5, -1e-5):
            pairs = zip(trees.leaves(params), trees.leaves(move), strict=True)
            moved = trees.filled(params, [p + h * d for p, d in pairs])
            ends.append(language_model_loss(tokens, moved, config, dropout=factors))
        pairs = zip(trees.leaves(grads), trees.leaves(move), strict=True)
        want = sum(np.sum(g * d) for g, d in pairs)
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(want, rel=1e-6)

    @pytest.mark.parametrize(
        "factors",
        [
            {"embedding_dropout": np.array([[2.0, 0, 2, 1, 0, 2, 2, 0]]).T},
            {"attention_dropout": (np.array([2.0, 0, 2, 1, 0, 2, 2, 0]),)},
        ],
        ids=["embedding", "weights"],
    )
    def test_all_forms_drop_the_same(self, rng, factors):
        tokens, params, config = problem_of(rng, num_layers=1)
        value, grads = language_model_loss_value_and_grad(tokens, params, config, **factors)
        assert value == language_model_loss(tokens, params, config, **factors)
        assert value != language_model_loss(tokens, params, config)
        only = language_model_loss_grad(tokens, params, config, **factors)
        trees.assert_close(only, grads, 0)
        moved = language_model_jvp((tokens[:, :-1], params), (None, grads), config, **factors)
        logits = language_model(tokens[:, :-1], params, config, **factors)
        p = np.exp(logits - np.max(logits, -1, keepdims=True))
        p = p / p.sum(-1, keepdims=True) - np.eye(13)[tokens[:, 1:]]
        squares = sum(np.sum(g**2) for g in trees.leaves(grads))
        assert np.sum(p * moved) / p[..., 0].size == pytest.approx(squares, rel=1e-12)

    @pytest.mark.parametrize(("layers", "exact"), [(0, True), (1, False)])
    def test_is_an_ensemble_of_subnetworks(self, rng, layers, exact):
        """All 256 of them; the mean of the logits is that of the geometric mean."""
        config = LanguageModelConfig(5, 8, 2, num_layers=layers, norm_first=False, tied=False)
        params = trees.drawn(rng, init_language_model(rng, config), 1.0)
        masks = 2.0 * (np.arange(256)[:, None] >> np.arange(8) & 1)
        tokens = np.full((256, 1), 3)
        logits = language_model(tokens, params, config, embedding_dropout=masks[:, None])[:, 0]
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        ensemble = np.exp(log_p.mean(0)) / np.exp(log_p.mean(0)).sum()
        whole = np.exp(language_model([3], params, config)[0])
        whole /= whole.sum()
        assert np.allclose(ensemble, whole, rtol=1e-12) == exact

    def test_a_dropped_embedding_has_no_gradient(self, rng):
        tokens, params, config = problem_of(rng, shape=(1, 9), num_layers=1, tied=False)
        tokens[0] = np.arange(9)
        factors = np.ones((8, 1))
        factors[3] = 0
        grads = language_model_loss_grad(tokens, params, config, embedding_dropout=factors)
        assert np.flatnonzero(np.any(grads.embedding != 0, axis=1)).tolist() == [
            0,
            1,
            2,
            4,
            5,
            6,
            7,
        ]
        assert not np.any(grads.positions[3])

    def test_float32_stays_float32(self, rng):
        tokens, params, config = problem_of(rng)
        narrow = trees.mapped(lambda a: a.astype(np.float32), params)
        loss, grads = language_model_loss_value_and_grad(tokens, narrow, config)
        assert loss.dtype == np.float32
        assert {g.dtype for g in trees.leaves(grads)} == {np.dtype(np.float32)}
        wide = language_model_loss_grad(tokens, params, config)
        trees.assert_close(grads, wide, 1e-4)


class TestMask:
    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_no_logit_depends_on_a_later_token(self, rng, scheme):
        tokens, params, config = problem_of(rng, positions=scheme)
        before = language_model(tokens, params, config)
        changed = tokens.copy()
        changed[:, 5] = (changed[:, 5] + 1) % 13
        after = language_model(changed, params, config)
        np.testing.assert_array_equal(after[:, :5], before[:, :5])
        assert np.all(np.any(after[:, 5:] != before[:, 5:], axis=-1))

    @pytest.mark.parametrize("scheme", ["rope", "alibi", "t5", "none"])
    def test_relative_schemes_do_not_see_where_a_text_begins(self, rng, scheme):
        """One token in front that nobody sees leaves the rest as it was."""
        tokens, params, config = problem_of(rng, positions=scheme, num_layers=1)
        weights = language_model_trace(tokens, params, config).weights[0]
        shifted = np.concatenate([tokens[:, :1], tokens], axis=1)
        moved = language_model_trace(shifted, params, config).weights[0][..., 1:, 1:]
        np.testing.assert_allclose(moved / moved.sum(-1, keepdims=True), weights, atol=1e-13)


class TestTrace:
    @pytest.mark.parametrize("norm_first", [True, False])
    def test_ends_in_the_logits(self, rng, norm_first):
        tokens, params, config = problem_of(rng, norm_first=norm_first)
        trace = language_model_trace(tokens, params, config)
        assert len(trace.residual) == 3
        h = trace.residual[-1]
        h = formulas.layer_norm(h, *params.norm) if norm_first else h
        got = language_model(tokens, params, config)
        np.testing.assert_allclose(got, h @ params.embedding.T, atol=1e-13)
        for weights in trace.weights:
            np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-14)
            assert not np.any(np.triu(weights, 1))


def test_the_loss_is_that_of_the_text_after_its_first_token(rng):
    config = LanguageModelConfig(3, 8, 2)
    params = init_language_model(rng, config)
    for first in range(3):
        texts = [(first, *rest) for rest in itertools.product(range(3), repeat=2)]
        each = [np.exp(-2 * language_model_loss(text, params, config)) for text in texts]
        assert sum(each) == pytest.approx(1)


def test_empty_texts(rng):
    for scheme in SCHEMES:
        _, params, config = problem_of(rng, positions=scheme)
        assert language_model(np.zeros((2, 0), int), params, config).shape == (2, 0, 13)
        grads = language_model_vjp(np.ones((2, 0, 13)), np.zeros((2, 0), int), params, config)
        assert not any(np.any(g) for g in trees.leaves(grads))
        moved = language_model_jvp((np.zeros((2, 0), int), params), (None, params), config)
        assert moved.shape == (2, 0, 13)


class TestErrors:
    def test_tokens(self, rng):
        _, params, config = problem_of(rng, length=4)
        with pytest.raises(ValueError, match=r"'tokens' must hold integers from 0 to 12, not 13"):
            language_model([1, 13], params, config)
        with pytest.raises(ValueError, match=r"'tokens' must hold integers from 0 to 12, not -1"):
            language_model([1, -1], params, config)
        with pytest.raises(TypeError, match=r"'tokens' must be integer, not float64"):
            language_model([1.0], params, config)
        with pytest.raises(ValueError, match=r"'tokens' must have at least 1 axis"):
            language_model(1, params, config)
        with pytest.raises(
            ValueError, match=r"'tokens' must have at most length = 4 positions, not 5"
        ):
            language_model([1] * 5, params, config)
        with pytest.raises(ValueError, match=r"'tokens' must have at least 2 positions"):
            language_model_loss([1], params, config)
        with pytest.raises(ValueError, match=r"'targets' must have shape \(2,\), not \(3,\)"):
            language_model_loss([1, 2], params, config, targets=[1, 2, 3])

    def test_the_mean_over_no_prediction_is_nan(self, rng):
        _, params, config = problem_of(rng)
        assert np.isnan(language_model_loss([1, 2], params, config, targets=[-100, -100]))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"embedding": np.ones((12, 16))}, r"'params.embedding' must have shape \(13, 16\)"),
            ({"head": np.ones((13, 15))}, r"'params.head' must have shape \(13, 16\)"),
            ({"positions": np.ones((9, 15))}, r"'params.positions' must have shape \(9, 16\)"),
            ({"positions": None}, r"'params.positions' must have shape \(0, 16\)"),
            ({"norm": (np.ones(15), None)}, r"'params.norm.weight' must have shape \(16,\)"),
            ({"blocks": ()}, "'params.blocks' must be a tuple of num_layers = 2, not 0"),
            ({"blocks": 3}, "'params.blocks' must be a tuple of num_layers = 2, not int"),
        ],
    )
    def test_parameters(self, rng, change, message):
        tokens, params, config = problem_of(rng)
        with pytest.raises(ValueError, match=message):
            language_model(tokens, params._replace(**change), config)

    def test_tables(self, rng):
        tokens, params, _ = problem_of(rng)
        for scheme, message in (("rope", "must be None, as config.positions is 'rope'"),
                                ("t5", r"must have shape \(32, 4\)")):  # fmt: skip
            config = LanguageModelConfig(13, 16, 4, positions=scheme)
            with pytest.raises(ValueError, match=rf"'params.positions' {message}"):
                language_model(tokens, params, config)

    def test_other_arguments(self, rng):
        tokens, params, config = problem_of(rng)
        with pytest.raises(TypeError, match=r"'config' must be a LanguageModelConfig"):
            language_model(tokens, params, {"d_model": 16})
        with pytest.raises(TypeError, match=r"'params' must be LanguageModelParams\(embedding, "):
            language_model(tokens, params[:2], config)
        with pytest.raises(ValueError, match=r"'dropout' must be a tuple of 2 tuples"):
            language_model(tokens, params, config, dropout=(None,))
        with pytest.raises(ValueError, match=r"'attention_dropout' must be a tuple of 2 arrays"):
            language_model(tokens, params, config, attention_dropout=(None,))
        with pytest.raises(ValueError, match=r"'embedding_dropout' must have batch axes"):
            language_model(tokens, params, config, embedding_dropout=np.ones(5))
        with pytest.raises(TypeError, match=r"'primals' must be a tuple of 2 entries, tokens and"):
            language_model_jvp(params, (None, None), config)
        with pytest.raises(TypeError, match=r"'tangents' must be a tuple of 2 entries, None and"):
            language_model_jvp((tokens, params), (tokens, None), config)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_only_rotary_positions_give_key_biases_a_gradient(rng, scheme):
    config = LanguageModelConfig(7, 8, 2, length=6, positions=scheme)
    params = init_language_model(rng, config)
    grads = language_model_loss_grad(rng.integers(0, 7, (4, 6)), params, config)
    size = abs(grads.blocks[0].attention.b_k).max()
    assert (size > 1e-5) if scheme == "rope" else (size < 1e-16)


@pytest.mark.parametrize("loss", [language_model_loss, language_model_loss_value_and_grad])
def test_predicted_tokens_out_of_range_are_named(rng, loss):
    config = LanguageModelConfig(9, 8, 2)
    params = init_language_model(rng, config)
    with pytest.raises(ValueError, match="'tokens' must hold integers from 0 to 8, not 9"):
        loss([1, 9], params, config)
    with pytest.raises(ValueError, match="'targets' must hold integers from 0 to 8, not -1"):
        loss([1, 2], params, config, targets=[-1, -100])
