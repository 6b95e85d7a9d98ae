"""Targets of diffusion models: published schedulers, relations, errors."""

import numpy as np
import pytest

from dlref.training import diffusion_target, min_snr_weight

KINDS = ["noise", "data", "velocity", "flow"]


def test_the_velocity_of_published_code(rng):
    """Diffusers' get_velocity: factors from the cumulated products of a schedule."""
    alphas_cumprod = np.cumprod(1 - np.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2)
    steps = np.array([0, 17, 999])
    x, noise = rng.normal(size=(2, 3, 4, 5, 5))
    alpha = alphas_cumprod[steps][:, None, None, None] ** 0.5
    sigma = (1 - alphas_cumprod[steps][:, None, None, None]) ** 0.5
    velocity = alpha * noise - sigma * x
    got = diffusion_target(x, noise, alpha, sigma, kind="velocity")
    np.testing.assert_array_equal(got, velocity)


def test_data_and_noise_come_back_from_each_kind(rng):
    x, noise = rng.normal(size=(2, 4, 3))
    alpha, sigma = rng.uniform(0.2, 1, size=(2, 4, 1))
    z = alpha * x + sigma * noise
    # a row of factors of data and noise, below the mixture's
    rows = {"noise": (0, 1), "data": (1, 0), "velocity": (-sigma, alpha), "flow": (-1, 1)}
    for kind, (p, q) in rows.items():
        y = diffusion_target(x, noise, alpha, sigma, kind=kind)
        determinant = alpha * q - sigma * p
        np.testing.assert_allclose((q * z - sigma * y) / determinant, x, atol=1e-14)
        np.testing.assert_allclose((alpha * y - p * z) / determinant, noise, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_dtype_and_memory(kind, rng):
    x, noise = rng.normal(size=(2, 3, 4)).astype(np.float32)
    got = diffusion_target(x, noise, 0.6, np.float32(0.8), kind=kind)
    assert got.dtype == np.float32
    assert got.shape == x.shape
    assert not np.shares_memory(got, x)
    assert not np.shares_memory(got, noise)
    assert isinstance(diffusion_target(1.0, 2.0, 3.0, 4.0, kind=kind), np.float64)


def test_float32_is_rounded_once():
    """Both products are 1 up to their last digit, which float32 alone would lose."""
    near = np.float32(1 + 2**-12)
    got = diffusion_target(near, near, near, np.float32(1 - 2**-12), kind="velocity")
    assert got == np.float32((1 + 2**-12) * 2 * 2**-12)


def test_errors():
    with pytest.raises(
        ValueError, match=r"^Argument 'kind' must be 'noise', 'data', 'velocity' or"
    ):
        diffusion_target(1.0, 1.0, 1.0, 0.0, kind="epsilon")
    with pytest.raises(ValueError, match=r"^Argument 'noise' must have shape \(2,\), not \(\)"):
        diffusion_target([1.0, 2.0], 1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match=r"^Argument 'sigma' must broadcast to .* = \(2,\), not"):
        diffusion_target([1.0, 2.0], [1.0, 2.0], 1.0, np.ones(3))


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (2, 1, 1), (2, 3, 4), (1, 1, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_of_any_shape(shape, dtype, rng):
    x, noise = rng.normal(size=(2, 2, 3, 4)).astype(dtype)
    alpha, sigma = rng.normal(size=(2, *shape)).astype(dtype)
    wide = [a.astype(np.float64) for a in (x, noise, alpha, sigma)]
    velocity = wide[2] * wide[1] - wide[3] * wide[0]
    got = diffusion_target(x, noise, alpha, sigma, kind="velocity")
    np.testing.assert_array_equal(got, velocity.astype(dtype))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_no_examples_have_no_targets(shape):
    x = np.zeros(shape)
    assert diffusion_target(x, x, 0.6, 0.8, kind="velocity").shape == shape


@pytest.mark.parametrize("gamma", [0.5, 5.0])
def test_weights_of_published_code(gamma):
    """Diffusers' training scripts: weights from the cumulated products of a schedule."""
    alphas_cumprod = np.cumprod(1 - np.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2)
    snr = alphas_cumprod / (1 - alphas_cumprod)
    factors = alphas_cumprod**0.5, (1 - alphas_cumprod) ** 0.5
    least = np.minimum(snr, gamma)
    for kind, want in (("noise", least / snr), ("velocity", least / (snr + 1)), ("data", least)):
        got = min_snr_weight(*factors, kind=kind, gamma=gamma)
        np.testing.assert_allclose(got, want, rtol=1e-11)  # 1 - cumprod cancels


@pytest.mark.parametrize("kind", KINDS)
def test_weighted_losses_of_all_targets_are_one(kind, rng):
    x, guess, noise = rng.normal(size=(3, 6, 4))
    alpha, sigma = rng.uniform(0.1, 1, size=(2, 6, 1))
    left = (alpha * x + sigma * noise - alpha * guess) / sigma
    want = min_snr_weight(alpha, sigma, kind="data", gamma=2.0) * (x - guess) ** 2
    error = diffusion_target(x, noise, alpha, sigma, kind=kind)
    error -= diffusion_target(guess, left, alpha, sigma, kind=kind)
    loss = min_snr_weight(alpha, sigma, kind=kind, gamma=2.0) * error**2
    np.testing.assert_allclose(loss, want, rtol=1e-10)


@pytest.mark.parametrize(
    ("kind", "ends"), [("noise", [0, 1]), ("data", [5, 0]), ("velocity", [0, 0]), ("flow", [0, 0])]
)
def test_weights_without_noise_and_without_signal(kind, ends):
    assert min_snr_weight([1.0, 0.0], [0.0, 1.0], kind=kind).tolist() == ends


def test_errors_of_weights():
    with pytest.raises(ValueError, match=r"^Argument 'kind' must be 'noise', 'data', 'velocity'"):
        min_snr_weight(1.0, 1.0, kind="epsilon")
    with pytest.raises(ValueError, match=r"^Argument 'gamma' must be greater than 0, not 0"):
        min_snr_weight(1.0, 1.0, gamma=0.0)
    with pytest.raises(ValueError, match=r"^Argument 'sigma' must have batch axes that broadcast"):
        min_snr_weight(np.ones(2), np.ones(3))
