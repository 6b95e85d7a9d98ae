"""Times and points as sinusoids."""

import numpy as np
import pytest

from dlref.positions import (
    fourier_features,
    fourier_features_vjp,
    sinusoidal,
    timestep_embedding,
)


def diffusers(torch, t, dim, *, flip, shift, scale):
    """Transcribe get_timestep_embedding of diffusers."""
    half = dim // 2
    exponent = -np.log(10000) * torch.arange(half, dtype=t.dtype) / (half - shift)
    emb = scale * (t[:, None] * exponent.exp()[None])
    emb = torch.cat([emb.sin(), emb.cos()], -1)
    return torch.cat([emb[:, half:], emb[:, :half]], -1) if flip else emb


class TestTimes:
    @pytest.mark.parametrize(
        ("flip", "shift", "scale"), [(False, 1.0, 1.0), (True, 0.0, 1.0), (True, 0.0, 1000.0)]
    )
    def test_diffusers(self, rng, flip, shift, scale):
        peers = pytest.importorskip("peers")
        scaling = {"shift": shift, "scale": scale}
        f = lambda t: diffusers(peers.torch, t, 16, flip=flip, **scaling)  # noqa: E731
        options = {**scaling, "dim": 16, "cosine_first": flip}
        # an angle of 1000 is known to a rounding of 1000
        near, t = 4e-15 * max(scale, 1), rng.uniform(size=6)
        peers.assert_same("positions.timestep_embedding", f, t, rng=rng, tolerance=near, **options)

    def test_of_positions_they_are_the_sinusoids(self):
        got = timestep_embedding(np.arange(9.0), 12)
        np.testing.assert_allclose(got, sinusoidal(9, 12, layout="halves"), atol=4e-15)

    def test_the_slowest_frequency_of_ddpm(self):
        y = timestep_embedding(1.0, 8, shift=1.0)
        np.testing.assert_allclose(y[3], np.sin(1e-4), rtol=1e-14)

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'dim' must be even, not 3"):
            timestep_embedding(1.0, 3)
        with pytest.raises(ValueError, match=r"^Argument 'shift' must be less than dim / 2 = 1"):
            timestep_embedding(1.0, 2, shift=1)
        with pytest.raises(TypeError, match=r"^Argument 'cosine_first' must be True or False"):
            timestep_embedding(1.0, 2, cosine_first=1)


class TestPoints:
    def test_pytorch(self, rng):
        peers = pytest.importorskip("peers")

        def g(x, f):
            z = 2 * np.pi * x @ f.T
            return peers.torch.cat([z.cos(), z.sin()], -1)

        x, f = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
        peers.assert_same("positions.fourier_features", g, x, f, rng=rng, tolerance=2e-14)

    def test_whole_turns_are_exact(self):
        y = fourier_features([2.0**40 + 0.25], [[1.0]])
        np.testing.assert_allclose(y, [0, 1], atol=1e-16)

    def test_of_no_points(self):
        dx, df = fourier_features_vjp(np.ones((0, 6)), np.ones((0, 2)), np.ones((3, 2)))
        assert dx.shape == (0, 2)
        np.testing.assert_array_equal(df, np.zeros((3, 2)))

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'frequencies' must have shape \(M, 2\)"):
            fourier_features(np.ones((4, 2)), np.ones((3, 3)))
        with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 1 axis"):
            fourier_features(1.0, np.ones((3, 1)))
