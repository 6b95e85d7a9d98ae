"""Tests of dlref.training._gradient_descent."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from dlref.training import cosine_schedule, gradient_descent


class Layer(NamedTuple):
    weight: Any
    bias: Any


class Net(NamedTuple):
    layers: tuple
    scale: Any


def norm_of(tree):
    """Half the squared distance to 1 of everything in a tree, and its gradient."""
    if tree is None:
        return 0.0, None
    if isinstance(tree, tuple):
        values, grads = zip(*(norm_of(entry) for entry in tree), strict=True)
        return sum(values), type(tree)(*grads) if hasattr(tree, "_fields") else grads
    return 0.5 * np.sum((tree - 1.0) ** 2), tree - 1.0


def test_nested_parameters():
    layers = (Layer(np.zeros((2, 3)), None), Layer(np.full((1, 2), 2.0), np.zeros(1)))
    start = Net(layers, 3.0)
    params, trace = gradient_descent(norm_of, start, learning_rate=0.5, steps=3)
    assert isinstance(params, Net)
    assert isinstance(params.layers[0], Layer)
    assert params.layers[0].bias is None
    np.testing.assert_array_equal(params.layers[0].weight, np.full((2, 3), 0.875))
    np.testing.assert_array_equal(params.layers[1].weight, np.full((1, 2), 1.125))
    assert params.scale == 1.25
    np.testing.assert_allclose(trace, trace[0] / 4.0 ** np.arange(3))
    np.testing.assert_array_equal(start.layers[0].weight, 0)  # not written to


def test_the_closed_form_on_a_paraboloid(rng):
    matrix = rng.normal(size=(4, 4))
    hessian = matrix @ matrix.T
    x0, eta = rng.normal(size=4), 0.5 / np.linalg.norm(hessian, 2)
    x, _ = gradient_descent(
        lambda x: (0.5 * x @ hessian @ x, hessian @ x), x0, learning_rate=eta, steps=20
    )
    want = np.linalg.matrix_power(np.eye(4) - eta * hessian, 20) @ x0
    np.testing.assert_allclose(x, want, rtol=1e-12)


def test_dtypes_stay():
    start = (np.ones(2, np.float32), np.ones(2), np.array([1, 2]))
    params, _ = gradient_descent(norm_of, start, learning_rate=0.5, steps=1)
    assert [p.dtype for p in params] == [np.float32, np.float64, np.float64]


def test_no_steps_return_a_copy():
    start = np.zeros(2)
    params, trace = gradient_descent(norm_of, start, learning_rate=1, steps=0)
    assert trace.shape == (0,)
    assert not np.shares_memory(params, start)


def test_the_rate_may_be_a_schedule_and_steps_count_from_one():
    seen = []
    x, _ = gradient_descent(
        lambda x: (x, 1.0),
        0.0,
        learning_rate=lambda step: cosine_schedule(step, peak=1.0, steps=4),
        steps=4,
        callback=lambda step, value, params: seen.append((step, value, float(params))),
    )
    rates = cosine_schedule(np.arange(1, 5), peak=1.0, steps=4)
    np.testing.assert_allclose(x, -rates.sum(), rtol=1e-15)
    assert [step for step, _, _ in seen] == [1, 2, 3, 4]
    assert seen[0][1] == 0.0
    assert seen[-1][2] == float(x)
    assert [value for _, value, _ in seen[1:]] == [end for _, _, end in seen[:-1]]


@pytest.mark.parametrize(
    ("params", "grads"),
    [
        ((1.0, 2.0), (1.0,)),
        ((1.0, 2.0), 1.0),
        (1.0, (1.0,)),
        (1.0, None),
        ((None, 1.0), (1.0, 1.0)),
    ],
)
def test_the_gradient_has_the_structure_of_the_parameters(params, grads):
    with pytest.raises(ValueError, match="'grads' must have the structure of 'params', here"):
        gradient_descent(lambda _: (0.0, grads), params, learning_rate=1, steps=1)


def test_errors():
    with pytest.raises(ValueError, match=r"'grads' must have shape \(2,\), not \(3,\)"):
        gradient_descent(lambda _: (0, np.ones(3)), np.ones(2), learning_rate=1, steps=1)
    with pytest.raises(TypeError, match="'steps' must be an integer"):
        gradient_descent(norm_of, 1.0, learning_rate=1, steps=1.5)
    with pytest.raises(ValueError, match="'steps' must be at least 0"):
        gradient_descent(norm_of, 1.0, learning_rate=1, steps=-1)
    with pytest.raises(ValueError, match="'learning_rate' must be at least 0"):
        gradient_descent(norm_of, 1.0, learning_rate=-1, steps=1)
    with pytest.raises(TypeError, match="'learning_rate' must be a number"):
        gradient_descent(norm_of, 1.0, learning_rate="fast", steps=1)
    with pytest.raises(TypeError, match="'params' must be"):
        gradient_descent(norm_of, 1j, learning_rate=1, steps=1)
