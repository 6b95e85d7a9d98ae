"""Tests of dlref.training._clipping."""

import numpy as np
import pytest

from dlref.training import MomentumState, clip_by_norm, clip_by_value


@pytest.fixture
def grads(rng):
    return rng.normal(size=(2, 3)), (rng.normal(size=4), None), np.float64(rng.normal())


def flat(tree):
    if isinstance(tree, tuple):
        return np.concatenate([flat(entry) for entry in tree])
    return np.zeros(0) if tree is None else np.ravel(tree)


def test_pytorch(grads):
    torch = pytest.importorskip("torch", reason="see the dependency group 'peers'")
    for name, ours, limit in (
        ("clip_grad_norm_", clip_by_norm, 1.5),
        ("clip_grad_value_", clip_by_value, 0.25),
    ):
        tensor = torch.zeros(11, dtype=torch.float64, requires_grad=True)
        tensor.grad = torch.tensor(flat(grads))
        getattr(torch.nn.utils, name)([tensor], limit)
        # PyTorch adds 1e-6 to the norm
        np.testing.assert_allclose(flat(ours(grads, limit)), tensor.grad.numpy(), rtol=1e-6)


def test_only_the_norm_keeps_the_direction(grads):
    g = flat(grads)
    by_norm, by_value = flat(clip_by_norm(grads, 0.5)), flat(clip_by_value(grads, 0.5))
    cosine = lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b)  # noqa: E731
    np.testing.assert_allclose(cosine(by_norm, g), 1, rtol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(by_norm), 0.5, rtol=1e-15)
    assert 0 < cosine(by_value, g) < 0.99


@pytest.mark.parametrize("clip", [clip_by_norm, clip_by_value])
def test_structure_and_dtypes(clip):
    tree = MomentumState(np.full(2, 9, np.float32), (None, np.array([3, 4])))
    out = clip(tree, 1.0)
    assert isinstance(out, MomentumState)
    assert out[0].dtype == np.float32
    assert out[1][0] is None
    assert out[1][1].dtype == np.float64
    assert clip((), 1.0) == ()
    short = np.array([0.1, 0.2])
    same = clip(short, 1.0)
    np.testing.assert_array_equal(same, short)
    assert not np.shares_memory(same, short)


def test_norms_beyond_the_range_of_squares():
    np.testing.assert_allclose(clip_by_norm([3e200, 4e200], 5.0), [3, 4], rtol=1e-15)
    np.testing.assert_allclose(clip_by_norm([3e-200, 4e-200], 5e-201), [3e-201, 4e-201], rtol=1e-14)
    np.testing.assert_allclose(clip_by_norm([1.5e308] * 4, 2.0), [1] * 4, rtol=1e-15)
    np.testing.assert_array_equal(clip_by_norm([0.0, 0.0], 1.0), [0, 0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_cannot_be_clipped(bad):
    out = clip_by_norm(([1.0, bad], 2.0), 1.0)
    assert np.isnan(out[0][1])
    out = clip_by_value([1.0, bad], 0.5)
    assert out[0] == 0.5
    assert np.isnan(out[1]) if np.isnan(bad) else out[1] == 0.5


@pytest.mark.parametrize(("clip", "name"), [(clip_by_norm, "max_norm"), (clip_by_value, "limit")])
def test_errors(clip, name):
    for bad in (0, -1, np.nan):
        with pytest.raises(ValueError, match=f"'{name}' must be greater than 0, not"):
            clip([1.0], bad)
    with pytest.raises(TypeError, match=f"'{name}' must be a number, not 'low'"):
        clip([1.0], "low")
    with pytest.raises(TypeError, match="'grads' must be"):
        clip([1j], 1.0)
