"""The loss of a linear layer: PyTorch, chunks, memory, errors."""

import tracemalloc

import numpy as np
import pytest

from dlref._core.jit import COMPILED
from dlref.losses import (
    cross_entropy,
    linear_cross_entropy,
    linear_cross_entropy_grad,
    linear_cross_entropy_jvp,
    linear_cross_entropy_vjp,
)

TARGET = np.array([[0, 5, -100], [3, 3, 6]])


@pytest.fixture
def arrays(rng):
    return rng.normal(size=(2, 3, 4)), rng.normal(size=(7, 4)), rng.normal(size=7)


@pytest.mark.parametrize("chunk", [None, 1, 2, 100])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_pytorch(arrays, chunk, reduction, smoothing, rng):
    peers = pytest.importorskip("peers")
    f = peers.torch.nn.functional
    target = peers.torch.tensor(TARGET).reshape(-1)

    def loss(x, weight, bias):
        z = f.linear(x, weight, bias).reshape(-1, 7)
        out = f.cross_entropy(z, target, reduction=reduction, label_smoothing=smoothing)
        return out.reshape(2, 3) if reduction == "none" else out

    x, weight, bias = arrays
    options = {"reduction": reduction, "label_smoothing": smoothing, "chunk": chunk}
    u = rng.normal(size=(2, 3) if reduction == "none" else ())
    value, grads = peers.value_and_vjp(loss, x, weight, bias, dout=u)
    got = linear_cross_entropy(x, weight, TARGET, bias, **options)
    np.testing.assert_allclose(got, value, rtol=1e-14)
    pulled = linear_cross_entropy_vjp(u, x, weight, TARGET, bias, **options)
    for mine, theirs in zip(pulled, grads, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=2e-14)
    if reduction != "none":
        grads = linear_cross_entropy_grad(x, weight, TARGET, bias, **options)
        for g, v in zip(grads, pulled, strict=True):
            np.testing.assert_allclose(u * g, v, rtol=0, atol=1e-14)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_function_of_pytorch(arrays, reduction):
    peers = pytest.importorskip("peers")
    f = peers.torch.nn.functional
    target = peers.torch.tensor(TARGET).reshape(-1)

    def loss(x, weight, bias):
        options = {"reduction": reduction, "ignore_index": -100, "label_smoothing": 0.1}
        return f.linear_cross_entropy(x.reshape(-1, 4), weight, target, linear_bias=bias, **options)

    value, grads = peers.value_and_vjp(loss, *arrays)
    x, weight, bias = arrays
    options = {"reduction": reduction, "label_smoothing": 0.1, "chunk": 2}
    got = linear_cross_entropy(x, weight, TARGET, bias, **options)
    np.testing.assert_allclose(got, value, rtol=1e-14)
    mine = linear_cross_entropy_grad(x, weight, TARGET, bias, **options)
    for one, other in zip(mine, grads, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-14)


def test_it_is_the_cross_entropy_of_the_logits(arrays):
    x, weight, bias = arrays
    options = {"label_smoothing": 0.25, "z_loss": 0.5, "ignore_index": 3, "reduction": "none"}
    target = np.where(TARGET < 0, 1, TARGET)
    want = cross_entropy(x @ weight.T + bias, target, **options)
    got = linear_cross_entropy(x, weight, target, bias, chunk=4, **options)
    np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize("chunk", [None, 1, 4])
@pytest.mark.parametrize("with_bias", [False, True])
def test_adjoint(arrays, chunk, with_bias, rng):
    x, weight, bias = arrays
    options = {"reduction": "none", "z_loss": 0.25, "chunk": chunk}
    dx, dweight, dbias, u = (rng.normal(size=s) for s in (x.shape, weight.shape, 7, (2, 3)))
    more, moved = ((bias,), (dbias,)) if with_bias else ((), ())
    tangent = linear_cross_entropy_jvp(
        (x, weight, TARGET, *more), (dx, dweight, None, *moved), **options
    )
    grads = linear_cross_entropy_vjp(u, x, weight, TARGET, *more, **options)
    right = sum(np.sum(g * d) for g, d in zip(grads, (dx, dweight, *moved), strict=True))
    assert np.sum(u * tangent) == pytest.approx(right, rel=1e-12)
    if not with_bias:
        none = linear_cross_entropy_jvp(
            (x, weight, TARGET, None), (dx, dweight, None, None), **options
        )
        np.testing.assert_array_equal(none, tangent)


def test_all_ignored(arrays):
    x, weight, _ = arrays
    nothing = np.full((2, 3), -100)
    assert np.isnan(linear_cross_entropy(x, weight, nothing))
    assert linear_cross_entropy(x, weight, nothing, reduction="sum") == 0
    dx, dweight = linear_cross_entropy_grad(x, weight, nothing, reduction="sum")
    assert not dx.any()
    assert not dweight.any()
    assert linear_cross_entropy(x[:0], weight, nothing[:0], reduction="sum") == 0


@pytest.mark.skipif(not COMPILED, reason="the arrays are the same, the loops take long")
def test_memory_is_bounded_by_the_chunk(rng):
    """A hundred rows at a time: a tenth of the logits and of their gradient, not all of them."""
    x, weight = rng.normal(size=(1000, 8)), rng.normal(size=(2000, 8))
    target = rng.integers(0, 2000, 1000)
    linear_cross_entropy_grad(x, weight, target, chunk=100)
    peaks = []
    for chunk in (50, 1000):
        tracemalloc.start()
        linear_cross_entropy_grad(x, weight, target, chunk=chunk)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    logits = x.shape[0] * weight.shape[0] * 8
    assert peaks[1] > 2 * logits
    assert peaks[0] < 0.25 * logits


@pytest.mark.parametrize(("rows", "width"), [(0, 4), (3, 0), (0, 0)])
def test_no_rows_and_no_inputs(rows, width):
    x, weight, target = np.ones((rows, 1, width)), np.ones((5, width)), np.zeros((rows, 1), int)
    arrays, bias = (x, weight, target), np.zeros(5)
    loss = linear_cross_entropy(*arrays, reduction="sum")
    np.testing.assert_allclose(loss, rows * np.log(5), rtol=1e-15)
    dx, dweight, dbias = linear_cross_entropy_grad(*arrays, bias, reduction="sum")
    assert dx.shape == x.shape
    assert not dweight.any()
    np.testing.assert_allclose(dbias, rows * (0.2 - np.eye(5)[0]), rtol=1e-14)
    assert linear_cross_entropy_jvp(arrays, (x, weight, None), reduction="sum") == 0


def test_errors(arrays):
    x, weight, bias = arrays
    with pytest.raises(ValueError, match=r"^Argument 'weight' must have shape \(7, 4\)"):
        linear_cross_entropy(x, weight[:, :3], TARGET)
    with pytest.raises(ValueError, match=r"^Argument 'bias' must have shape \(7,\)"):
        linear_cross_entropy(x, weight, TARGET, bias[:2])
    with pytest.raises(ValueError, match=r"^Argument 'target' must hold classes from 0 to 6"):
        linear_cross_entropy(x, weight, TARGET + 1)
    with pytest.raises(ValueError, match=r"^Argument 'chunk' must be at least 1"):
        linear_cross_entropy(x, weight, TARGET, chunk=0)
    with pytest.raises(ValueError, match=r"^Argument 'reduction' must be 'mean' or 'sum'"):
        linear_cross_entropy_grad(x, weight, TARGET, reduction="none")
    with pytest.raises(ValueError, match=r"^Argument 'tangents\[2\]' must be None"):
        linear_cross_entropy_jvp((x, weight, TARGET), (x, weight, TARGET))
