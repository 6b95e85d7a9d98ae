"""Tests of dlref.normalization._batch_norm_train."""

import numpy as np
import pytest

from dlref.normalization import (
    batch_norm,
    batch_norm_jvp,
    batch_norm_train,
    batch_norm_train_jvp,
    batch_norm_train_vjp,
    batch_norm_vjp,
)


@pytest.fixture
def step(rng):
    x, u = 3 * rng.normal(size=(2, 4, 5, 6)) + 2
    mean, weight, bias = rng.normal(size=(3, 6))
    return u, x, mean, rng.uniform(0.5, 2, size=6), weight, bias


@pytest.mark.parametrize("momentum", [0.1, 0.0, 1.0])
def test_pytorch(step, momentum):
    torch = pytest.importorskip("torch")
    u, *arrays = step
    x, mean, var, weight, bias = (torch.tensor(array) for array in arrays)
    leaves = [t.requires_grad_() for t in (x, weight, bias)]
    y = torch.nn.functional.batch_norm(
        x.movedim(-1, 1), mean, var, weight, bias, training=True, momentum=momentum, eps=1e-3
    ).movedim(1, -1)
    options = {"momentum": momentum, "eps": 1e-3}
    got = batch_norm_train(*arrays, **options)
    for one, want in zip(got, (y, mean, var), strict=True):
        np.testing.assert_allclose(one, want.detach().numpy(), rtol=0, atol=8e-15)
    grads = torch.autograd.grad(y, leaves, torch.tensor(u))
    for one, want in zip(batch_norm_train_vjp(u, *arrays, **options), grads, strict=True):
        scale = abs(want.numpy()).max()
        np.testing.assert_allclose(one, want.numpy(), rtol=0, atol=8e-15 * scale)


def test_the_output_is_the_output_of_batch_norm(step):
    u, x, mean, var, weight, bias = step
    y, _, _ = batch_norm_train(x, mean, var, weight, bias)
    np.testing.assert_array_equal(y, batch_norm(x, weight, bias))
    got = batch_norm_train_vjp(u, x, mean, var, None, bias)
    for one, want in zip(got, batch_norm_vjp(u, x, None, bias), strict=True):
        np.testing.assert_array_equal(one, want)
    alone = batch_norm_train_vjp(u, x, mean, var)
    np.testing.assert_array_equal(alone, batch_norm_vjp(u, x))
    moves = u, mean, var, bias, weight
    got = batch_norm_train_jvp((x, mean, var, weight, bias), moves)
    np.testing.assert_array_equal(got, batch_norm_jvp((x, weight, bias), (u, bias, weight)))


def test_adjoint(step, rng):
    u, *arrays = step
    moves = [rng.normal(size=array.shape) for array in arrays]
    pushed = batch_norm_train_jvp(tuple(arrays), (moves[0], None, None, *moves[3:]))
    pulled = batch_norm_train_vjp(u, *arrays)
    there = np.sum(u * pushed)
    back = sum(np.sum(a * b) for a, b in zip(pulled, (moves[0], *moves[3:]), strict=True))
    assert abs(there - back) < 4e-15 * np.sum(abs(u * pushed))


def test_repeated_steps_approach_the_statistics_of_the_batch(step):
    _, x, mean, var, *_ = step
    for _ in range(400):
        _, mean, var = batch_norm_train(x, mean, var)
    np.testing.assert_allclose(mean, x.mean((0, 1)), rtol=1e-12)
    np.testing.assert_allclose(var, x.var((0, 1), ddof=1), rtol=1e-12)


def test_dtypes(step):
    u, *arrays = (array.astype(np.float32) for array in step)
    got = batch_norm_train(*arrays)
    want = batch_norm_train(*(array.astype(float) for array in arrays))
    for one, wide in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, wide.astype(np.float32))
    assert all(grad.dtype == np.float32 for grad in batch_norm_train_vjp(u, *arrays))


def test_no_channels():
    y, mean, var = batch_norm_train(np.ones((3, 0)), np.ones(0), np.ones(0))
    assert y.shape == (3, 0)
    assert mean.shape == var.shape == (0,)


def test_errors(step):
    u, x, mean, var, weight, bias = step
    with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 2 values for each"):
        batch_norm_train(x[:1, 0], mean, var)
    with pytest.raises(ValueError, match=r"^Argument 'var' must have shape \(6,\), not \(5,\)"):
        batch_norm_train(x, mean, var[:5])
    with pytest.raises(TypeError, match=r"^Argument 'mean' must be an array, not None"):
        batch_norm_train(x, None, var)
    with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 2 axes"):
        batch_norm_train(x[0, 0], mean, var)
    with pytest.raises(ValueError, match=r"^Argument 'dout' must have shape"):
        batch_norm_train_vjp(u[0], x, mean, var)
    with pytest.raises(TypeError, match=r"^Argument 'dout' must be an array, not None"):
        batch_norm_train_vjp(None, x, mean, var)
    with pytest.raises(ValueError, match=r"^Argument 'momentum' must be from 0 to 1, not 2"):
        batch_norm_train(x, mean, var, momentum=2)
    with pytest.raises(ValueError, match=r"^Argument 'tangents\[3\]' must be None"):
        batch_norm_train_jvp((x, mean, var, None, bias), (None, None, None, weight, None))
