"""Models of other kinds: scaled and capped logits, gates, no norms; errors of their blocks."""

from dataclasses import replace

import numpy as np
import pytest
from trees import leaves

from dlref.attention import multi_head_attention
from dlref.check import numerical_jacobian, trace
from dlref.transformer import (
    LanguageModelConfig,
    LanguageModelParams,
    generate,
    init_language_model,
    init_sequence_classifier,
    language_model,
    language_model_jvp,
    language_model_vjp,
    multiplication_counts,
    parameter_counts,
    sequence_classifier,
)

SMALL = {"num_layers": 1, "d_ff": 8, "positions": "rope"}


@pytest.mark.parametrize(
    "more",
    [{"logit_scale": 0.5}, {"logit_softcap": 3.0}, {"logit_scale": 0.5, "logit_softcap": 3.0}],
)
def test_the_gradient_of_scaled_and_capped_logits(more, rng):
    config = LanguageModelConfig(7, 8, 2, **SMALL, **more)
    params = init_language_model(rng, config)
    ids, u = np.array([[1, 2, 3]]), rng.normal(size=(1, 3, 7))
    grads = language_model_vjp(u, ids, params, config)

    def loss(table):
        logits = language_model(ids, params._replace(embedding=table), config)
        return np.sum(u * logits)

    want = numerical_jacobian(loss, params.embedding)
    np.testing.assert_allclose(grads.embedding, want, rtol=0, atol=1e-6 * abs(want).max())


NARROW = [SMALL | {"embedding_dim": 3, **more} for more in ({}, {"tied": False})]


class TestEmbeddingsOfAnotherWidth:
    """They are compared with the model that has both products as tables."""

    @pytest.fixture(params=NARROW)
    def model(self, request, rng):
        config = LanguageModelConfig(7, 8, 2, **request.param, embedding_scale=1.5)
        return init_language_model(rng, config), config

    def test_their_gradients(self, model, rng):
        params, config = model
        table, p, q = params.embedding, params.embedding_in, params.embedding_out
        rows = table if params.head is None else params.head
        wide = LanguageModelParams(table @ p.T, *params[1:4], rows @ q)
        plain = replace(config, embedding_dim=None, tied=False)
        ids, u = np.array([[1, 2, 3]]), rng.normal(size=(1, 3, 7))
        logits = language_model(ids, params, config)
        np.testing.assert_allclose(logits, language_model(ids, wide, plain), rtol=1e-12)
        grads = language_model_vjp(u, ids, params, config)
        whole = language_model_vjp(u, ids, wide, plain)
        of_table, of_head = whole.embedding @ p, whole.head @ q.T
        if params.head is None:
            of_table = of_table + of_head
        else:
            np.testing.assert_allclose(grads.head, of_head, atol=1e-13)
        np.testing.assert_allclose(grads.embedding, of_table, atol=1e-13)
        np.testing.assert_allclose(grads.embedding_in, whole.embedding.T @ table, atol=1e-13)
        np.testing.assert_allclose(grads.embedding_out, rows.T @ whole.head, atol=1e-13)

    def test_their_tangent_is_adjoint_to_them(self, model, rng):
        params, config = model
        ids, u = np.array([[1, 2, 3]]), rng.normal(size=(1, 3, 7))
        along = init_language_model(rng, config)
        moved = language_model_jvp((ids, params), (None, along), config)
        grads = language_model_vjp(u, ids, params, config)
        pairs = zip(leaves(along), leaves(grads), strict=True)
        want = sum(np.sum(a * b) for a, b in pairs)
        np.testing.assert_allclose(np.sum(u * moved), want, rtol=1e-11)

    def test_a_text_that_grows_and_a_trace(self, model):
        params, config = model
        text = generate([1, 2, 3], params, config, steps=3, temperature=0.0)
        again = [1, 2, 3]
        for _ in range(3):
            again.append(int(np.argmax(language_model(again, params, config)[-1])))
        np.testing.assert_array_equal(text, again)
        steps = trace(language_model, again, params, config)
        logits = language_model(again, params, config)
        np.testing.assert_allclose(steps["logits"], logits, atol=1e-12 * abs(logits).max())

    def test_their_numbers(self, model):
        params, config = model
        counts, first = parameter_counts(config), params.embedding.size
        assert counts.total == sum(a.size for a in leaves(params))
        assert counts.embedding == first + params.embedding_in.size + params.embedding_out.size
        assert multiplication_counts(config, context=4).head == 7 * 3 + 2 * 8 * 3

    def test_errors(self, model, rng):
        params, config = model
        with pytest.raises(ValueError, match=r"'params\.embedding_out' must be an array, as conf"):
            language_model([1], params._replace(embedding_out=None), config)
        with pytest.raises(ValueError, match=r"'params\.embedding' must have shape \(7, 3\), not"):
            language_model([1], params._replace(embedding=np.ones((7, 8))), config)
        plain = replace(config, embedding_dim=None)
        given = init_language_model(rng, plain)._replace(embedding_in=np.ones((8, 3)))
        with pytest.raises(ValueError, match=r"'params\.embedding_in' must be None, as config"):
            language_model([1], given, plain)
        classes = init_sequence_classifier(rng, plain, 2)
        with pytest.raises(ValueError, match=r"'config\.embedding_dim' must be None, not 3"):
            sequence_classifier([1], classes, config)


def test_a_trace_of_a_block_with_a_gate_and_without_norms(rng):
    config = LanguageModelConfig(7, 8, 2, **SMALL)
    params = init_language_model(rng, config)
    block = params.blocks[0]
    gate = {"w_gate": rng.normal(size=(8, 8)), "b_gate": rng.normal(size=8)}
    block = block._replace(attention=block.attention._replace(**gate), norm1=None, norm2=None)
    params = params._replace(blocks=(block,))
    ids = np.array([[1, 2, 3]])
    steps = trace(language_model, ids, params, config)
    logits = language_model(ids, params, config)
    np.testing.assert_allclose(steps["logits"], logits, atol=1e-12 * abs(logits).max())


def test_blocks_of_another_number():
    with pytest.raises(
        ValueError, match=r"'blocks' must be a dictionary or a tuple of num_layers = 1"
    ):
        LanguageModelConfig(7, 8, 2, **SMALL, blocks=({}, {}))


def test_parameters_that_are_no_tuple(rng):
    x = rng.normal(size=(3, 8))
    with pytest.raises(TypeError, match="'params' must be a tuple of 8 to 13 arrays"):
        multi_head_attention(x, x, 3.0, num_heads=2)
