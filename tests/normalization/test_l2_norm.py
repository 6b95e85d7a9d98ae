"""Tests of dlref.normalization._l2_norm."""

import numpy as np
import pytest

from dlref.normalization import l2_norm, l2_norm_jvp, l2_norm_vjp, rms_norm


@pytest.mark.parametrize("eps", [1e-6, 0.3])
def test_pytorch(eps, rng):
    peers = pytest.importorskip("peers")

    def qwen3_next(t):  # l2norm of transformers' modeling_qwen3_next.py
        return t * peers.torch.rsqrt((t * t).sum(-1, keepdim=True) + eps)

    x = rng.normal(size=(5, 4, 64))
    peers.assert_same("normalization.l2_norm", qwen3_next, x, rng=rng, eps=eps)


@pytest.mark.parametrize("eps", [1e-12, 0.0, 2.0])
def test_normalize_of_pytorch(eps, rng):
    peers = pytest.importorskip("peers")
    x, u = rng.normal(size=(2, 9, 4))
    x[3] *= 1e-9
    normalize = peers.torch.nn.functional.normalize
    value, (grad,) = peers.value_and_vjp(lambda t: normalize(t, dim=-1, eps=eps), x, dout=u)
    options = {"eps": eps, "clamp": True}
    np.testing.assert_allclose(l2_norm(x, **options), value, rtol=0, atol=4e-15)
    got = l2_norm_vjp(u, x, **options)
    size = abs(grad).max(-1, keepdims=True)
    np.testing.assert_allclose(got / size, grad / size, rtol=0, atol=4e-15)
    np.testing.assert_array_equal(l2_norm_jvp(x, u, **options), got)


def test_a_least_length():
    for x in ([3e-200, 4e-200], [3e200, 4e200]):
        np.testing.assert_allclose(l2_norm(x, eps=0, clamp=True), [0.6, 0.8], rtol=1e-15)
    np.testing.assert_array_equal(l2_norm([3.0, 4.0], eps=10.0, clamp=True), [0.3, 0.4])
    np.testing.assert_array_equal(l2_norm([0.0, 0.0], clamp=True), [0, 0])
    np.testing.assert_array_equal(l2_norm_vjp([1.0, 2.0], [0.0, 0.0], eps=0.5, clamp=True), [2, 4])
    assert np.isnan(l2_norm([np.nan, 1.0], clamp=True)).all()


def test_is_rms_norm_over_the_root_of_the_width(rng):
    x = rng.normal(size=(3, 16))
    np.testing.assert_allclose(l2_norm(x, eps=1.6), rms_norm(x, eps=0.1) / 4, rtol=1e-15)


def test_rows_have_length_one(rng):
    x = rng.normal(size=(20, 7)) * 10.0 ** rng.integers(-3, 3, size=(20, 1))
    np.testing.assert_allclose(np.linalg.norm(l2_norm(x, eps=0), axis=-1), 1, rtol=1e-15)


def test_extreme_rows():
    np.testing.assert_allclose(l2_norm([3e200, 4e200], eps=0), [0.6, 0.8], rtol=1e-15)
    np.testing.assert_allclose(l2_norm([3e-200, 4e-200], eps=0), [0.6, 0.8], rtol=1e-15)
    assert l2_norm([0.0, 0.0]).tolist() == [0, 0]
    assert np.isnan(l2_norm([0.0, 0.0], eps=0)).all()


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0,)])
def test_empty(shape):
    x = np.zeros(shape)
    assert l2_norm(x).shape == l2_norm_vjp(x, x).shape == l2_norm_jvp(x, None).shape == shape


def test_errors():
    with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 1 axis"):
        l2_norm(1.0)
    with pytest.raises(ValueError, match=r"^Argument 'eps' must be at least 0, not -1"):
        l2_norm([1.0], eps=-1)
    with pytest.raises(TypeError, match=r"^Argument 'clamp' must be"):
        l2_norm([1.0], clamp=2)
