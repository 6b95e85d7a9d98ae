"""Tests of dlref.interop._layouts."""

import numpy as np
import peers
import pytest

from dlref.interop import to_half_split, to_interleaved, transpose_heads
from dlref.positions import apply_rope, rope_frequencies, rope_tables

SHAPES = {
    "dlref": (2, 4, 3, 6), "torch": (2, 4, 3, 6), "onnx": (2, 4, 3, 6), "jax": (2, 3, 4, 6),
    "flash": (2, 3, 4, 6), "keras": (2, 3, 4, 6), "onnx_3d": (2, 3, 24),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pairs_go_there_and_back(dtype, rng):
    x = rng.normal(size=(3, 8)).astype(dtype)
    halves = to_half_split(x)
    assert halves.dtype == dtype
    np.testing.assert_array_equal(halves[:, :4], x[:, ::2])
    np.testing.assert_array_equal(halves[:, 4:], x[:, 1::2])
    np.testing.assert_array_equal(to_interleaved(halves), x)
    assert not np.shares_memory(to_interleaved(x), x)


def test_a_converted_projection_gives_the_same_scores(rng):
    H, E, D, T = 2, 8, 5, 4
    w_q, w_k = rng.normal(size=(2, H * E, D))
    x, tables = rng.normal(size=(T, D)), rope_tables(np.arange(T), rope_frequencies(E))

    def scores(w_q, w_k, interleaved):
        heads = ((x @ w.T).reshape(T, H, E).transpose(1, 0, 2) for w in (w_q, w_k))
        q, k = (apply_rope(v, *tables, interleaved=interleaved) for v in heads)
        return q @ k.transpose(0, 2, 1)

    def convert(w):
        channels_last = np.swapaxes(w.reshape(H, E, D), 1, 2)
        return np.swapaxes(to_half_split(channels_last), 1, 2).reshape(H * E, D)

    want = scores(w_q, w_k, True)
    np.testing.assert_allclose(scores(convert(w_q), convert(w_k), False), want, atol=1e-12)
    assert abs(scores(w_q, w_k, False) - want).max() > 0.1


@pytest.mark.parametrize("source", SHAPES)
@pytest.mark.parametrize("target", SHAPES)
def test_heads(source, target, rng):
    x = rng.normal(size=(2, 4, 3, 6))  # as dlref has it
    there = transpose_heads(x, "dlref", source)
    assert there.shape == SHAPES[source]
    got = transpose_heads(there, source, target, num_heads=4)
    assert got.shape == SHAPES[target]
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(transpose_heads(got, target, "dlref", num_heads=4), x)


def test_three_axes_are_those_of_a_projection(rng):
    torch = peers.torch
    x = rng.normal(size=(2, 3, 24))
    want = torch.tensor(x).unflatten(-1, (4, 6)).transpose(1, 2).numpy()
    np.testing.assert_array_equal(transpose_heads(x, "onnx_3d", "torch", num_heads=4), want)


def test_errors():
    with pytest.raises(ValueError, match=r"^Argument 'x' must have an even number of channels"):
        to_half_split(np.ones(3))
    with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 1 axis"):
        to_interleaved(1.0)
    with pytest.raises(ValueError, match=r"^Argument 'source' must be 'dlref', .* not 'mxnet'"):
        transpose_heads(np.ones((1, 1, 1)), "mxnet", "torch")
    with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 3 axes"):
        transpose_heads(np.ones((2, 2)), "jax", "torch")
    with pytest.raises(TypeError, match=r"^Argument 'num_heads' must be an integer, not None"):
        transpose_heads(np.ones((2, 4)), "onnx_3d", "torch")
    with pytest.raises(ValueError, match=r"multiple of 3, not 4"):
        transpose_heads(np.ones((2, 4)), "onnx_3d", "torch", num_heads=3)
