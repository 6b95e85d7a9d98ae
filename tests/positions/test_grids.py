"""Positions in a grid: sinusoids of MAE, the bias of Swin."""

import numpy as np
import pytest

from dlref.positions import (
    relative_bias,
    relative_bias_grid,
    relative_bias_grid_vjp,
    sinusoidal,
    sinusoidal_grid,
)


class TestSinusoids:
    def test_the_module_of_vit_mae(self):
        source = pytest.importorskip("transformers.models.vit_mae.modeling_vit_mae")
        torch = pytest.importorskip("torch")
        make = source.build_2d_sinusoidal_position_embedding
        want = make(3, 5, 24, dtype=torch.float64).numpy().reshape(3, 5, 24)
        np.testing.assert_allclose(sinusoidal_grid((3, 5), 24), want, rtol=0, atol=4e-15)

    def test_interleaved(self):
        got = sinusoidal_grid((2, 3), 8, layout="interleaved", base=50.0, dtype=np.float32)
        assert got.dtype == np.float32
        half = sinusoidal(3, 4, base=50.0, dtype=np.float32)
        np.testing.assert_array_equal(got[1, :, 4:], half)
        np.testing.assert_array_equal(got[:, 2, :4], half[:2])

    def test_of_no_places(self):
        assert sinusoidal_grid((0, 3), 4).shape == (0, 3, 4)

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'dim' must be a multiple of 4, not 6\."):
            sinusoidal_grid((2, 2), 6)
        with pytest.raises(ValueError, match=r"^Argument 'shape' must be a tuple of 2 integers"):
            sinusoidal_grid((2,), 4)
        with pytest.raises(TypeError, match=r"^Argument 'shape' must be a tuple of 2 integers"):
            sinusoidal_grid(2, 4)
        with pytest.raises(ValueError, match=r"^Argument 'shape\[1\]' must be at least 0"):
            sinusoidal_grid((2, -1), 4)


class TestBias:
    @pytest.mark.parametrize(("h", "w"), [(1, 1), (2, 3), (4, 4)])
    def test_the_module_of_swin(self, rng, h, w):
        torch = pytest.importorskip("torch")
        source = pytest.importorskip("transformers.models.swin.modeling_swin")
        module = source.SwinRelativePositionBias(3, (h, w)).double()
        table = rng.normal(size=((2 * h - 1) * (2 * w - 1), 3))
        module.load_state_dict({"relative_position_bias_table": torch.tensor(table)})
        want = module()[0].detach().numpy()
        np.testing.assert_array_equal(relative_bias_grid(table, h, w), want)

    def test_one_row_is_the_bias_of_a_sequence_reversed(self, rng):
        table = rng.normal(size=(7, 2))
        want = relative_bias(table[::-1].T, 4, 4)
        np.testing.assert_array_equal(relative_bias_grid(table, 1, 4), want)
        np.testing.assert_array_equal(relative_bias_grid(table, 4, 1), want)

    def test_the_gradient_counts_pairs(self):
        got = relative_bias_grid_vjp(np.ones((1, 6, 6)), np.zeros((15, 1)), 2, 3)
        want = np.outer([1, 2, 1], [1, 2, 3, 2, 1]).reshape(-1, 1)
        np.testing.assert_array_equal(got, want)

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'table' must have shape \(15, H\), not"):
            relative_bias_grid(np.ones((14, 2)), 2, 3)
        with pytest.raises(ValueError, match=r"^Argument 'height' must be at least 1, not 0"):
            relative_bias_grid(np.ones((1, 2)), 0, 1)
