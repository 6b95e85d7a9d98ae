"""Models of other kinds: scaled and capped logits, gates, no norms; errors of their blocks."""

import numpy as np
import pytest

from dlref.attention import multi_head_attention
from dlref.check import numerical_jacobian, trace
from dlref.transformer import (
    LanguageModelConfig,
    init_language_model,
    language_model,
    language_model_vjp,
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
