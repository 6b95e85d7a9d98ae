"""Tests of dlref.training._momentum."""

import numpy as np
import pytest

from dlref.training import (
    MomentumState,
    SGDState,
    gradient_descent,
    momentum_step,
    nesterov_step,
    sgd_step,
)

MOMENTUM = {"momentum": 0.9}


@pytest.mark.parametrize(
    ("step", "options", "theirs"),
    [
        (sgd_step, {}, {}),
        (sgd_step, {"weight_decay": 0.1}, {}),
        (momentum_step, {}, MOMENTUM),
        (momentum_step, {"momentum": 0.5, "dampening": 0.25, "weight_decay": 0.1}, {}),
        (nesterov_step, {}, MOMENTUM | {"nesterov": True}),
        (nesterov_step, {"momentum": 0.8, "weight_decay": 0.1}, {"nesterov": True}),
    ],
)
def test_pytorch(step, options, theirs, compare_with_pytorch):
    compare_with_pytorch("SGD", step, options, theirs | options)


def test_plain_steps_are_gradient_descent():
    x, state = np.array([1.0, -2.0]), None
    for _ in range(5):
        x, state = sgd_step(x, 2 * x, state, learning_rate=0.125)
    want, _ = gradient_descent(lambda x: (x @ x, 2 * x), [1.0, -2.0], learning_rate=0.125, steps=5)
    np.testing.assert_array_equal(x, want)
    assert state == SGDState(5)


def test_nesterov_is_the_look_ahead(rng):
    """The method as it is written down first, at the points that it does not return."""
    matrix = rng.normal(size=(3, 3))
    hessian, eta, mu = matrix @ matrix.T, 0.05, 0.7
    theta = phi = rng.normal(size=3)
    v, state = np.zeros(3), None
    for _ in range(30):
        v = mu * v + hessian @ (theta - eta * mu * v)
        theta = theta - eta * v
        phi, state = nesterov_step(phi, hessian @ phi, state, learning_rate=eta, momentum=mu)
    np.testing.assert_allclose(phi, theta - eta * mu * v, rtol=1e-12)


@pytest.mark.parametrize(("sign", "size"), [(1.0, 1 / (1 - 0.9)), (-1.0, 1 / (1 + 0.9))])
def test_what_steady_and_alternating_gradients_leave(sign, size):
    p, state = 0.0, None
    for t in range(500):
        p, state = momentum_step(p, sign**t, state, learning_rate=0.1, momentum=0.9)
    assert abs(state.velocity) == pytest.approx(size, rel=1e-12)


@pytest.mark.parametrize("step", [momentum_step, nesterov_step])
def test_without_momentum_it_is_plain(step, rng):
    p, g = rng.normal(size=4), rng.normal(size=4)
    got, _ = step(p, g, None, learning_rate=0.5, momentum=0)
    np.testing.assert_array_equal(got, sgd_step(p, g, None, learning_rate=0.5)[0])


@pytest.mark.parametrize(
    ("dtype", "kept"), [("float16", "float32"), ("float32", "float32"), ("int8", "float64")]
)
def test_the_state_has_the_dtype_that_the_step_is_computed_in(dtype, kept):
    p, state = momentum_step(np.ones(2, dtype), np.ones(2), None, learning_rate=0.5)
    assert p.dtype == ("float64" if dtype == "int8" else dtype)
    assert state.velocity.dtype == kept
    assert isinstance(state, MomentumState)


@pytest.mark.parametrize("step", [sgd_step, momentum_step, nesterov_step])
def test_errors(step):
    with pytest.raises(ValueError, match="'learning_rate' must be at least 0"):
        step(1.0, 1.0, None, learning_rate=-1)
    with pytest.raises(ValueError, match="'weight_decay' must be at least 0"):
        step(1.0, 1.0, None, learning_rate=1, weight_decay=-1)
    with pytest.raises(ValueError, match=r"'grads' must have shape \(2,\), not \(1,\)"):
        step(np.ones(2), np.ones(1), None, learning_rate=1)
    with pytest.raises(ValueError, match="'grads' must have the structure of 'params'"):
        step((1.0, 2.0), 1.0, None, learning_rate=1)
    if step is not sgd_step:
        with pytest.raises(ValueError, match="'momentum' must be at least 0"):
            step(1.0, 1.0, None, learning_rate=1, momentum=-0.1)
        _, state = step(np.ones(2), np.ones(2), None, learning_rate=1)
        with pytest.raises(ValueError, match="'state' must come from a step with these"):
            step(np.ones(3), np.ones(3), state, learning_rate=1)
        with pytest.raises(ValueError, match="'state' must come from a step with these"):
            step((np.ones(2), 1.0), (np.ones(2), 1.0), state, learning_rate=1)
    with pytest.raises(TypeError, match="'grads' must be"):
        step(1.0, 1j, None, learning_rate=1)
