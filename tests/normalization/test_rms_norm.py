"""What is special about RMS normalization."""

import numpy as np
import peers
import pytest

from dlref.normalization import (
    layer_norm,
    rms_norm,
    rms_norm_jacobian,
    rms_norm_vjp,
)


def by_torch(x, w):
    return peers.torch.nn.functional.rms_norm(x, (x.shape[-1],), w, 1e-6)


@pytest.mark.parametrize("offset", [0, 1e4])
@pytest.mark.parametrize("width", [3, 64, 768, 3001])
def test_against_pytorch(rng, width, offset):
    primals = rng.normal(size=(5, width)) + offset, rng.normal(size=width)
    tolerance = 1e-11 if offset else 4e-15
    peers.assert_same("normalization.rms_norm", by_torch, *primals, rng=rng, tolerance=tolerance)


def test_centred_rows_are_layer_normalized(rng, assert_close):
    x = rng.normal(size=(4, 30))
    x -= x.mean(-1, keepdims=True)
    assert_close(rms_norm(x, eps=1e-5), layer_norm(x))


def test_weight_offset_shifts_the_weight(rng, assert_close):
    x, w, u = rng.normal(size=(4, 6)), rng.normal(size=6), rng.normal(size=(4, 6))
    assert_close(rms_norm(x, w, weight_offset=1), rms_norm(x, 1 + w))
    for got, want in zip(
        rms_norm_vjp(u, x, w, weight_offset=1), rms_norm_vjp(u, x, 1 + w), strict=True
    ):
        assert_close(got, want)
    jac = rms_norm_jacobian(x, w, weight_offset=1)
    assert_close(jac, rms_norm_jacobian(x, 1 + w))


def test_weight_offset_needs_a_weight(rng, assert_close):
    x = rng.normal(size=(4, 6))
    assert_close(rms_norm(x, weight_offset=5), rms_norm(x))


def test_one_eigenvalue_is_zero(rng):
    x = rng.normal(size=10)
    jac = np.sqrt(np.mean(x**2)) * rms_norm_jacobian(x, eps=0)
    assert np.linalg.eigvalsh(jac) == pytest.approx([0] + [1] * 9, abs=1e-14)


def test_zero_rows_stay_zero():
    assert rms_norm(np.zeros((2, 3))).tolist() == [[0.0] * 3] * 2
    assert np.isnan(rms_norm(np.zeros(3), eps=0)).all()


def test_width_1_is_the_sign():
    assert rms_norm([[-3.0], [0.5]], eps=0).tolist() == [[-1.0], [1.0]]


def test_large_offsets_cost_no_digits(rng, assert_close):
    x = rng.normal(size=768) + 1e4
    exact = x / np.sqrt(np.mean(x.astype(np.longdouble) ** 2) + 1e-6)
    assert_close(rms_norm(x), exact.astype(float), tolerance=1e-15)


def test_errors():
    with pytest.raises(ValueError, match=r"'weight' must have shape \(3,\), not \(2,\)"):
        rms_norm(np.ones((2, 3)), np.ones(2))
    with pytest.raises(TypeError, match="'weight_offset' must be a number, not 'a'"):
        rms_norm([1.0], weight_offset="a")
    with pytest.raises(ValueError, match="'eps' must be at least 0"):
        rms_norm_jacobian([1.0], eps=-1e-9)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_default_epsilon_of_pytorch(dtype):
    kind = getattr(peers.torch, dtype)
    x = (peers.torch.arange(1, 9) * 1e-3).to(kind)
    got = peers.torch.nn.functional.rms_norm(x, (8,)).to(peers.torch.float64).numpy()
    values, near = x.to(peers.torch.float64).numpy(), {"rtol": 1e-2 if "16" in dtype else 1e-5}
    eps = np.finfo(np.float64 if dtype == "float64" else np.float32).eps
    np.testing.assert_allclose(got, rms_norm(values, np.ones(8), eps=eps), **near)
    if "16" in dtype:  # the epsilon of the input's own dtype would halve the result and more
        own = peers.torch.finfo(kind).eps
        assert abs(got / rms_norm(values, np.ones(8), eps=own)).min() > 2
