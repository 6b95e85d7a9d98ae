"""Counts, against the arrays themselves and against published numbers."""

import itertools

import numpy as np
import pytest
import trees

from dlref.transformer import (
    LanguageModelConfig,
    init_language_model,
    multiplication_counts,
    parameter_counts,
)


@pytest.mark.parametrize(
    ("positions", "norm", "activation", "flags"),
    list(
        itertools.product(
            ["learned", "t5", "rope"],
            ["layer", "rms"],
            ["gelu", "swiglu"],
            [(True, True, True), (False, False, False), (True, False, True)],
        )
    ),
)
def test_parameters_are_as_many_as_there_are(rng, positions, norm, activation, flags):
    config = LanguageModelConfig(11, 12, 6, 3, 3, 20, positions, norm, activation, *flags, length=9)
    params, counts = init_language_model(rng, config), parameter_counts(config)

    def size(tree):
        return sum(a.size for a in trees.leaves(tree))

    assert counts.total == size(params)
    assert counts.embedding == size(params.embedding)
    assert counts.positions == size(params.positions)
    assert counts.attention == sum(size(b.attention) for b in params.blocks)
    assert counts.feed_forward == sum(size(b.feed_forward) for b in params.blocks)
    norms = sum(size((b.norm1, b.norm2)) for b in params.blocks) + size(params.norm)
    assert counts.norms == norms
    assert counts.head == size(params.head)


def test_multiplications_are_two_for_each_weight_and_key(rng):
    """Count them on the shapes of the arrays."""
    config = LanguageModelConfig(11, 12, 6, 2, 3, 20, activation="swiglu")
    params, counts = init_language_model(rng, config), multiplication_counts(config, context=7)
    weights = [a for b in params.blocks for a in trees.leaves(b.attention) if a.ndim == 2]
    assert counts.projections == sum(a.size for a in weights)
    assert counts.feed_forward == sum(
        w.size for b in params.blocks for w in b.feed_forward if w is not None
    )
    queries, keys = np.ones((6, 2)), np.ones((7, 6, 2))
    assert counts.scores == 3 * 2 * (queries * keys).size
    assert counts.head == params.embedding.size
    assert counts.total == sum(counts)


def test_published_sizes():
    big = LanguageModelConfig(50257, 1600, 25, num_layers=48)
    assert parameter_counts(big).total == 1_557_611_200  # GPT-2 XL
    grouped = LanguageModelConfig(
        128256, 4096, 32, 8, 32, 14336, "rope", "rms", "swiglu", tied=False, biases=False
    )
    assert parameter_counts(grouped).total == 8_030_261_248  # LLaMA 3, 8B


def test_errors():
    with pytest.raises(TypeError, match=r"'config' must be a LanguageModelConfig"):
        parameter_counts(3)
    with pytest.raises(ValueError, match=r"'context' must be at least 1, not 0"):
        multiplication_counts(LanguageModelConfig(11, 12, 6), context=0)
