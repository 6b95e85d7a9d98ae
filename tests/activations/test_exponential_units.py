"""Tests of the exponential units."""

import exact
import numpy as np
import pytest

import dlref.activations as A


@pytest.mark.parametrize(
    ("name", "low", "bound", "options"),
    [
        ("elu", -50, 1, {"alpha": 1.0}),
        ("elu", -50, 1, {"alpha": 1.7}),
        ("elu", -2, 1, {"alpha": 7.7}),
        ("elu_deriv", -745, 1, {"alpha": 1.7}),
        ("elu_deriv2", -745, 1, {"alpha": 1.7}),
        ("selu", -50, 3, {}),
        ("selu_deriv", -745, 1.5, {}),
        ("selu_deriv2", -745, 1.5, {}),
        ("celu", -80, 1, {"alpha": 1.7}),
        ("celu", -0.1, 1, {"alpha": 7.7}),
        ("celu_deriv", -1260, 1, {"alpha": 1.7}),
        ("celu_deriv2", -1260, 0.75, {"alpha": 1.7}),
        ("celu_deriv", -220, 1, {"alpha": 0.3}),
    ],
)
def test_accuracy(name, low, bound, options, rng):
    f, reference = getattr(A, name), getattr(exact, name)
    exact.assert_accurate(f, reference, low, 3, bound, rng=rng, **options)


def test_at_the_points_where_a_search_found_the_largest_errors():
    """Once 2.3, 2.4 and 1.4 ULP: alpha multiplied a rounded result."""
    for name, x, alpha in (
        ("elu", -0.2930316240263589, 0.06112910865648369),
        ("celu", -0.00048015172644820, 7.7),
        ("celu", -0.007842618888778444, 0.2362521802140031),
        ("celu_deriv2", -74.57154517341789, 0.8065683300027628),
    ):
        points = np.array([x])
        true = exact.evaluate(getattr(exact, name), points, alpha=alpha)
        assert exact.ulp_errors(getattr(A, name)(points, alpha=alpha), true)[0] < 0.75


@pytest.mark.parametrize(
    ("name", "options"),
    [("elu", {}), ("elu", {"alpha": 0.3}), ("selu", {}), ("celu", {}), ("celu", {"alpha": 2.0})],
)
def test_pytorch(name, options, rng):
    peers = pytest.importorskip("peers")
    x = rng.normal(size=200)
    x[0] = 0.0  # the kink: PyTorch's choice is ours
    peer = getattr(peers.torch.nn.functional, name)
    peers.assert_same(f"activations.{name}", lambda t: peer(t, **options), x, rng=rng, **options)


class TestIdentities:
    def test_elu_and_celu_agree_for_alpha_one(self, rng):
        x = rng.normal(size=100)
        np.testing.assert_allclose(A.elu(x), A.celu(x), rtol=1e-15)

    def test_celu_is_one_curve_scaled(self, rng):
        x = rng.normal(size=100)
        np.testing.assert_array_equal(A.celu(x, alpha=4), 4 * A.celu(x / 4))

    def test_the_derivative_of_elu_is_the_output_plus_alpha(self, rng):
        x = -rng.uniform(0, 3, size=100)
        got = A.elu_deriv(x, alpha=0.3)
        np.testing.assert_allclose(got, A.elu(x, alpha=0.3) + 0.3, rtol=1e-14)

    @pytest.mark.parametrize("power", [1, 2])
    def test_selu_keeps_mean_and_variance(self, power):
        x, w = np.polynomial.hermite_e.hermegauss(200)
        moment = w @ A.selu(x) ** power / w.sum()
        assert abs(moment - (power == 2)) < 2e-3  # the quadrature meets a kink


class TestEdges:
    def test_values_at_the_kink_are_those_of_the_left_side(self):
        assert A.elu_deriv(0.0, alpha=0.5) == 0.5
        assert A.elu_deriv2(0.0, alpha=0.5) == 0.5
        assert A.selu_deriv(0.0) == pytest.approx(1.7580993408473766)
        assert A.celu_deriv(0.0, alpha=0.5) == 1
        assert A.celu_deriv2(0.0, alpha=0.5) == 2

    @pytest.mark.parametrize("name", ["elu", "selu", "celu"])
    def test_limits(self, name):
        got = getattr(A, name)([-np.inf, -1e308, np.inf])
        floor = -1.7580993408473766 if name == "selu" else -1.0
        np.testing.assert_allclose(got, [floor, floor, np.inf], rtol=1e-15)
        np.testing.assert_array_equal(getattr(A, f"{name}_deriv")([-np.inf, -1e308]), [0, 0])

    @pytest.mark.parametrize("name", ["elu", "selu", "celu"])
    @pytest.mark.parametrize("form", ["", "_deriv", "_deriv2"])
    def test_nan_stays_nan(self, name, form):
        assert np.isnan(getattr(A, name + form)(np.nan))

    def test_the_saturated_derivative_is_not_zero(self):
        np.testing.assert_allclose(A.selu_deriv(-5.0), 0.0118459, rtol=1e-5)

    def test_subnormal_inputs_of_celu(self):
        assert A.celu(-5e-324, alpha=3) == -5e-324


class TestErrors:
    @pytest.mark.parametrize("name", ["elu", "celu"])
    @pytest.mark.parametrize("bad", ["1", None, 1j, [1.0], True])
    def test_alpha_must_be_a_number(self, name, bad):
        with pytest.raises(TypeError, match=r"^Argument 'alpha' must be a number, not"):
            getattr(A, name)(1.0, alpha=bad)

    @pytest.mark.parametrize("bad", [0, -1.0, np.nan])
    def test_alpha_of_celu_must_be_positive(self, bad):
        with pytest.raises(ValueError, match=r"^Argument 'alpha' must be greater than 0, not"):
            A.celu_vjp(1.0, 1.0, alpha=bad)
