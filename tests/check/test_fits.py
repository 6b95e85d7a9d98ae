"""Options of a port whose values are found by a search; rounding that is no mistake."""

import numpy as np
import pytest
from check.test_traces import T, problem

from dlref.check import first_difference, trace
from dlref.positions import rope_frequencies, rope_tables
from dlref.transformer import encoder_block


def both(name="llama", **changes):
    """Return a trace, and one with other options in a port that keeps some of its arrays."""
    x, p, options, _ = problem(name)
    right = trace(encoder_block, x, p, **options)
    other = trace(encoder_block, x, p, **(options | changes))
    kept = ("norm1", "attention.q", "attention.q_rotated", "attention.weights", "out")
    return right, {key: value for key, value in other.items() if key in kept}


def tables(**changes):
    width = 2 * problem("llama")[2]["rope"][0].shape[-1]
    factor = changes.pop("factor", 1.0)
    return rope_tables(factor * np.arange(T), rope_frequencies(width, **changes))


FITTED = {
    "eps": ({"eps": 3.3e-4}, "norm1", "eps is 0.00033 instead of 1e-05"),
    "scale": ({"scale": 0.37}, "attention.weights", "the scale of the scores is 0.37"),
    "cap": ({"softcap": 0.8}, "attention.weights", "the soft cap is 0.8 where none is"),
    "window": ({"window": (2, 0)}, "attention.weights", "the window ends 2 keys to the left"),
    "base": ({"rope": tables(base=12345.0)}, "attention.q_rotated", "the rotation is 12345"),
    "angles": ({"rope": tables(factor=0.35)}, "attention.q_rotated", "are multiplied by 0.35"),
}


@pytest.mark.broad
@pytest.mark.parametrize("what", FITTED)
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_value_is_found(what, name):
    changes, where, message = FITTED[what]
    difference = first_difference(*both(name, **changes))
    assert difference.name == where
    assert message in difference.cause


def test_another_soft_cap_is_found():
    x, p, options, _ = problem("llama")
    right = trace(encoder_block, x, p, **options, softcap=2.0)
    other = trace(encoder_block, x, p, **options, softcap=1.25)
    kept = {key: other[key] for key in ("attention.weights", "out")}
    assert first_difference(right, kept).cause == "the soft cap is 1.25 instead of 2"


def test_another_bound_of_queries_keys_and_values_is_found():
    x, p, options, _ = problem("llama")
    right = trace(encoder_block, x, p, **options, clip_qkv=0.5)
    other = trace(encoder_block, x, p, **options, clip_qkv=0.8)
    kept = {key: other[key] for key in ("attention.weights", "out")}
    message = "the bound of queries, keys and values is 0.8 instead of 0.5"
    assert first_difference(right, kept).cause == message


def test_what_is_no_option_is_not_found():
    right, other = both()
    other["attention.weights"] = other["attention.weights"] ** 1.5
    assert first_difference(right, other).cause == ""
    x, p, options, _ = problem("llama")
    first = {"rope": tuple(table[:1] for table in tables())}
    first_trace = trace(encoder_block, x[:1], p, **options | first)
    assert (
        first_difference(
            first_trace, {"norm1": first_trace["norm1"] + np.arange(x.shape[-1])}
        ).cause
        == ""
    )


def in_float32(steps):
    return {key: value.astype(np.float32).astype(float) for key, value in steps.items()}


def test_norms_in_float32_within_float64_are_no_difference():
    x, p, options, _ = problem("llama")
    right = trace(encoder_block, x, p, **options)
    port = trace(encoder_block, x, p, **options)
    assert first_difference(right, in_float32(port)) is None
    several = port | {"norm1": in_float32(port)["norm1"] * (1 + 3e-6)}
    assert first_difference(right, several).name == "norm1"
    small = in_float32(port)
    small["norm1"] = port["norm1"] * (1 + 1e-6)  # it follows the array
    difference = first_difference(right, small)
    assert (difference.name, difference.cause) == ("norm1", "it is multiplied by 1.000001")
    heads = {"attention.q": np.swapaxes(in_float32(port)["attention.q"], 0, 1)}
    assert first_difference(right, heads) is None
    few = {"a": np.array([1.0, 2.0])}
    assert first_difference(few, {"a": few["a"] * (1 + 1e-6)}) is not None


def test_a_row_of_one_number_is_no_measure():
    """The first query of a causal mask sees one key, whose score may be near 0."""
    right = {"attention.scores": np.where(np.tri(6, dtype=bool), 1.0 + np.eye(6), -np.inf)}
    right["attention.scores"][0, 0] = 1e-9
    other = {key: value.copy() for key, value in right.items()}
    other["attention.scores"][0, 0] += 1e-14
    assert first_difference(right, other) is None
    other["attention.scores"][0, 0] = 0.5
    assert first_difference(right, other).at == (0, 0)


def test_a_factor_of_scores_under_a_mask_is_named():
    scores = np.random.default_rng(0).normal(size=(2, 6, 6))
    hidden = ~np.tri(6, dtype=bool)
    right = {"attention.scores": np.where(hidden, -np.inf, scores)}
    for low in (-np.inf, -1e9):
        other = {"attention.scores": np.where(hidden, low, 0.37 * scores)}
        assert first_difference(right, other).cause == "it is multiplied by 0.37"
