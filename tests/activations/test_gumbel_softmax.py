"""Tests of dlref.activations._gumbel_softmax."""

import numpy as np
import pytest

from dlref.activations import (
    gumbel_softmax,
    gumbel_softmax_jvp,
    gumbel_softmax_vjp,
    hardmax,
    softmax,
)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_pytorch(temperature, hard, rng, monkeypatch):
    peers = pytest.importorskip("peers")
    torch = peers.torch
    logits, dout = rng.normal(size=(2, 6, 9))
    exponential = rng.exponential(size=(6, 9))  # PyTorch's noise is minus its logarithm
    monkeypatch.setattr(
        torch.Tensor, "exponential_", lambda self: self.copy_(torch.from_numpy(exponential))
    )
    f = torch.nn.functional.gumbel_softmax
    value, (grad,) = peers.value_and_vjp(lambda t: f(t, temperature, hard), logits, dout=dout)
    options, noise = {"temperature": temperature, "hard": hard}, -np.log(exponential)
    np.testing.assert_allclose(gumbel_softmax(logits, noise, **options), value, atol=4e-15)
    got, of_noise = gumbel_softmax_vjp(dout, logits, noise, **options)
    np.testing.assert_allclose(got, grad, rtol=0, atol=4e-15 * abs(grad).max())
    np.testing.assert_array_equal(got, of_noise)


def test_hard_samples_have_the_frequencies_of_the_softmax(rng):
    logits = np.log([0.5, 0.3, 0.15, 0.05])
    count = 40_000
    for temperature in (0.1, 5.0):
        noise = rng.gumbel(size=(count, 4))
        y = gumbel_softmax(np.tile(logits, (count, 1)), noise, temperature=temperature, hard=True)
        p = softmax(logits)
        assert (abs(y.mean(0) - p) < 5 * np.sqrt(p * (1 - p) / count)).all()
        assert set(np.unique(y)) == {0.0, 1.0}


def test_hard_is_the_limit_of_small_temperatures(rng):
    logits, noise = rng.normal(size=(2, 20, 5))
    hard = gumbel_softmax(logits, noise, hard=True)
    np.testing.assert_array_equal(hard, gumbel_softmax(logits, noise, temperature=1e-6))
    np.testing.assert_array_equal(hard, hardmax(logits + noise))


@pytest.mark.parametrize("temperature", [1e-200, 1e-308, 5e-324])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_soft_samples_have_a_limit_at_temperatures_near_0(temperature, dtype):
    logits = np.array([[0.0, 5.0, -20.0], [1.0, -7.0, 1.0], [0.0, -np.inf, -1e30]], dtype)
    noise, u = np.zeros_like(logits), np.array([[1.0, 2.0, 3.0]] * 3, dtype)
    want = np.array([[0, 1, 0], [0.5, 0, 0.5], [1, 0, 0]])
    got = gumbel_softmax(logits, noise, temperature=temperature)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, want)
    with np.errstate(over="ignore"):
        slope = (np.array([[0, 0, 0], [-0.5, 0, 0.5], [0, 0, 0]]) / temperature).astype(dtype)
    grad, _ = gumbel_softmax_vjp(u, logits, noise, temperature=temperature)
    np.testing.assert_array_equal(grad, slope)
    pushed = gumbel_softmax_jvp((logits, noise), (u, None), temperature=temperature)
    np.testing.assert_array_equal(pushed, slope)
    nothing = np.zeros((0, 3))
    assert gumbel_softmax_jvp((nothing, nothing), (nothing, None), temperature=1e-308).size == 0


def test_the_class_of_a_hard_sample_does_not_depend_on_the_temperature():
    got = gumbel_softmax([0.0, 5.0, 20.0], np.zeros(3), temperature=1e-308, hard=True)
    np.testing.assert_array_equal(got, [0.0, 0.0, 1.0])


def test_the_tangent_of_a_hard_sample_is_the_tangent_of_the_soft_one(rng):
    logits, noise, v = rng.normal(size=(3, 4, 5))
    moves = v, None
    soft = gumbel_softmax_jvp((logits, noise), moves, temperature=0.5)
    hard = gumbel_softmax_jvp((logits, noise), moves, temperature=0.5, hard=True)
    np.testing.assert_array_equal(soft, hard)
    assert abs(hard).max() > 0.01


def test_a_masked_class_is_never_drawn(rng):
    noise = rng.gumbel(size=(50, 3))
    logits = np.tile([0.0, -np.inf, 0.0], (50, 1))
    assert not gumbel_softmax(logits, noise, hard=True)[:, 1].any()
    dlogits, _ = gumbel_softmax_vjp(np.ones((50, 3)) * [1, 2, 3], logits, noise)
    assert not dlogits[:, 1].any()


def test_errors():
    with pytest.raises(ValueError, match=r"^Argument 'noise' must have shape \(2,\), not \(3,\)"):
        gumbel_softmax(np.ones(2), np.ones(3))
    with pytest.raises(ValueError, match=r"^Argument 'temperature' must be greater than 0, not 0"):
        gumbel_softmax(np.ones(2), np.ones(2), temperature=0)
    with pytest.raises(TypeError, match=r"^Argument 'hard' must be True or False, not 1"):
        gumbel_softmax(np.ones(2), np.ones(2), hard=1)
    with pytest.raises(ValueError, match=r"^Argument 'logits' must have at least 1 axis"):
        gumbel_softmax(1.0, 1.0)
