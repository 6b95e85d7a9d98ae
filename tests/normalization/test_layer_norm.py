"""What is special about layer normalization."""

import numpy as np
import peers
import pytest

from dlref._core.jit import COMPILED
from dlref.normalization import (
    layer_norm,
    layer_norm_jacobian,
    layer_norm_jvp,
    layer_norm_vjp,
)

#: Relative to the largest; interpreted, a row is one sum, compiled it is a dozen partial ones.
FEW_UNITS = 1e-15 if COMPILED else 4e-15


def by_torch(x, w, b):
    return peers.torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b)


@pytest.mark.parametrize(("offset", "tolerance"), [(0, 4e-15), (1e4, 1e-11)])
@pytest.mark.parametrize("width", [3, 64, 768, 3001])
def test_against_pytorch(rng, width, offset, tolerance):
    x = rng.normal(size=(5, width)) + offset
    w, b = rng.normal(size=(2, width))
    peers.assert_same("normalization.layer_norm", by_torch, x, w, b, rng=rng, tolerance=tolerance)


class TestLargeOffsets:
    @pytest.mark.parametrize("offset", [0.0, 1.0, 1e4, -1e8, 1e12])
    def test_cost_no_digits(self, rng, exactly_standardized, offset):
        x = rng.normal(size=768) + offset
        want = exactly_standardized(x, 1e-5)
        assert np.max(abs(layer_norm(x) - want)) < 1e-15 * np.max(abs(want))

    @pytest.mark.parametrize("outlier", [1e2, -1e6, 1e12])
    def test_a_part_unlike_the_rest_costs_a_few_roundings(self, rng, exactly_standardized, outlier):
        x = rng.normal(size=768) + 1e4
        x[:16] += np.linspace(outlier, 2 * outlier, 16)
        want = exactly_standardized(x, 1e-5)
        assert np.max(abs(layer_norm(x) - want)) < FEW_UNITS * np.max(abs(want))

    @pytest.mark.parametrize("size", [8, 257, 1025])
    def test_nor_does_an_eighth_far_from_the_rest(self, exactly_standardized, size):
        """A mean of that eighth alone would cost three bits: 5.5 units at 8 numbers."""
        for seed in range(20):
            rng = np.random.default_rng(seed)
            x = rng.normal(size=size)
            x[: -(-size // 8)] += 10.0 ** rng.uniform(0, 4)
            want = exactly_standardized(x, 1e-5)
            units = 2.5 if COMPILED else 20.0
            assert np.max(abs(layer_norm(x) - want)) < units * 2.0**-52 * np.max(abs(want))

    def test_nor_does_one_that_begins_at_zero(self, rng, exactly_standardized):
        x = rng.normal(size=768) + 10
        x[:32] -= 10
        want = exactly_standardized(x, 1e-5)
        assert np.max(abs(layer_norm(x) - want)) < FEW_UNITS * np.max(abs(want))

    @pytest.mark.parametrize("offset", [20.0, -1e4])
    def test_float32_is_exact_up_to_one_rounding(self, rng, exactly_standardized, offset):
        x = (rng.normal(size=768) + offset).astype(np.float32)
        want = exactly_standardized(x, 1e-5)
        got = layer_norm(x)
        assert got.dtype == np.float32
        assert np.max(abs(got - want) / np.spacing(abs(want).astype(np.float32))) < 0.501

    def test_in_the_vjp(self, rng):
        x, u = np.round(rng.normal(size=(2, 768)), 9), rng.normal(size=(2, 768))
        moved = x + 1e4
        near = moved - 1e4  # what is left of x: the same numbers without the offset
        got, want = layer_norm_vjp(u, moved), layer_norm_vjp(u, near)
        assert np.max(abs(got - want)) < 4e-15 * np.max(abs(want))


class TestFloat32:
    @pytest.mark.parametrize("offset", [0.0, -0.01, 1.0, 15.0])
    @pytest.mark.parametrize("size", [1e-25, 1.0, 1e25])
    def test_keeps_the_bound(self, rng, exactly_standardized, offset, size):
        x, w, b = (rng.normal(size=(3, 768)) * size).astype(np.float32)
        x += np.float32(offset * size)
        z = exactly_standardized(x, 0.0)
        for weight, bias in [(None, None), (w, None), (w, b)]:
            scaled, shift = (1 if weight is None else weight.astype(float)), np.zeros_like(z)
            shift += 0 if bias is None else bias
            want, got = z * scaled + shift, layer_norm(x, weight, bias, eps=0)
            assert got.dtype == np.float32
            terms = abs(z * scaled) + abs(shift) + abs(want)
            assert np.all(abs(got - want) <= 2.0**-24 * terms + 1e-11 * abs(scaled) * (1 + abs(z)))

    @pytest.mark.parametrize("size", [1e-37, 1e37])
    def test_where_pairs_lack_digits_it_is_exact_up_to_one_rounding(
        self, rng, exactly_standardized, size
    ):
        x = (rng.normal(size=300) * size).astype(np.float32)
        want = exactly_standardized(x, 0.0)
        got = layer_norm(x, eps=0)
        assert np.max(abs(got - want) / np.spacing(abs(want).astype(np.float32))) < 0.501

    @pytest.mark.parametrize("offset", [0.0, -0.01, 15.0, 1e4])
    def test_gradients_are_rounded_once(self, assert_rounded_once, offset):
        assert_rounded_once(layer_norm_vjp, by_torch, (9, 768), offset)

    def test_nothing_is_lost_between_the_two_ways(self, rng):
        rows = rng.normal(size=(40, 100)) + np.linspace(14, 18, 40)[:, None]
        x = rows.astype(np.float32)
        want = layer_norm(x.astype(float))
        assert np.all(abs(layer_norm(x) - want) <= 2.0**-23 * abs(want) + 1e-10)


class TestProjections:
    def test_gradient_is_orthogonal_to_shift_and_stretch(self, rng):
        x, u = rng.normal(size=(4, 50)), rng.normal(size=(4, 50))
        dx = layer_norm_vjp(u, x, eps=0)
        assert np.max(abs(dx.sum(-1))) < 1e-13
        assert np.max(abs(np.sum(dx * (x - x.mean(-1, keepdims=True)), -1))) < 1e-13

    def test_two_eigenvalues_are_zero(self, rng):
        x = rng.normal(size=10)
        jac = x.std() * layer_norm_jacobian(x, eps=0)
        assert np.linalg.eigvalsh(jac) == pytest.approx([0] * 2 + [1] * 8, abs=1e-14)

    def test_eps_leaves_a_rest_of_the_second(self, rng):
        x, eps = rng.normal(size=10), 0.3
        tau = np.sqrt(x.var() + eps)
        values = np.linalg.eigvalsh(tau * layer_norm_jacobian(x, eps=eps))
        assert values == pytest.approx([0, eps / tau**2] + [1] * 8, abs=1e-14)

    def test_twice_is_once(self, rng, assert_close):
        y = layer_norm(rng.normal(size=(3, 20)), eps=0)
        assert_close(layer_norm(y, eps=0), y)


class TestEdges:
    @pytest.mark.parametrize("value", [0.0, 1.0, 1 / 3, -1e30])
    @pytest.mark.parametrize("width", [1, 2, 7, 1000])
    def test_constant_rows_give_the_bias(self, rng, value, width):
        bias = rng.normal(size=width)
        got = layer_norm(np.full((2, width), value), rng.normal(size=width), bias)
        np.testing.assert_allclose(got, np.stack([bias, bias]), rtol=0, atol=1e-9)
        assert np.all(np.isfinite(layer_norm_vjp(got, np.full((2, width), value))))

    def test_width_1_has_no_gradient(self):
        dx, dweight, dbias = layer_norm_vjp([[3.0], [4.0]], [[1.0], [2.0]], [5.0], [6.0])
        assert dx.tolist() == [[0.0], [0.0]]
        assert dweight.tolist() == [0.0]
        assert dbias.tolist() == [7.0]

    def test_constant_row_without_eps_is_undefined(self):
        assert np.isnan(layer_norm([2.0, 2.0], eps=0)).all()

    def test_a_large_eps_leaves_centring(self, rng, assert_close):
        x = rng.normal(size=(3, 9))
        want = (x - x.mean(-1, keepdims=True)) / 1e10
        assert_close(layer_norm(x, eps=1e20), want)
        assert_close(layer_norm_jacobian(x[0], eps=1e20), (np.eye(9) - 1 / 9) / 1e10)

    def test_rows_without_features(self):
        assert layer_norm(np.ones((3, 0))).shape == (3, 0)
        dx, dweight = layer_norm_vjp(np.ones((3, 0)), np.ones((3, 0)), np.ones(0))
        assert dx.shape == (3, 0)
        assert dweight.shape == (0,)

    @pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
    def test_not_finite_spoils_its_row_only(self, bad):
        out = layer_norm([[1.0, bad, 2.0], [1.0, 3.0, 2.0]])
        assert np.isnan(out[0]).all()
        assert np.isfinite(out[1]).all()


class TestErrors:
    def test_scalar(self):
        with pytest.raises(ValueError, match="'x' must have at least 1 axis"):
            layer_norm(3.0)

    @pytest.mark.parametrize("name", ["weight", "bias"])
    def test_shape(self, name):
        with pytest.raises(ValueError, match=rf"'{name}' must have shape \(3,\), not \(2,\)"):
            layer_norm(np.ones((2, 3)), **{name: np.ones(2)})

    def test_eps(self):
        with pytest.raises(ValueError, match="'eps' must be at least 0, not -1"):
            layer_norm([1.0], eps=-1)

    def test_tangent_of_what_is_not_there(self):
        with pytest.raises(ValueError, match=r"'tangents\[1\]' must be None, as its primal is"):
            layer_norm_jvp(([1.0], None, None), ([1.0], [1.0], None))
