"""Tests of the sigmoids and their relatives."""

import exact
import numpy as np
import pytest
import scipy.special

import dlref.activations as A

NAMES = ["sigmoid", "log_sigmoid", "softplus", "tanh", "tanhshrink", "softsign"]


@pytest.mark.parametrize(
    ("name", "low", "high", "bound"),
    [
        ("sigmoid", -745, 745, 2),
        ("sigmoid_deriv", -745, 745, 3.5),
        ("sigmoid_deriv2", -745, 745, 5),
        ("log_sigmoid", -800, 745, 1.5),
        ("log_sigmoid_deriv", -745, 745, 2),
        ("log_sigmoid_deriv2", -745, 745, 3.5),
        ("softplus", -745, 800, 1.5),
        ("softplus_deriv", -745, 745, 2),
        ("softplus_deriv2", -745, 745, 3.5),
        ("tanh", -20, 20, 2),
        ("tanh_deriv", -372, 372, 3.5),
        ("tanh_deriv2", -372, 372, 5),
        ("tanhshrink", -30, 30, 3),
        ("tanhshrink_deriv", -30, 30, 4.5),
        ("tanhshrink_deriv2", -372, 372, 5),
        ("softsign", -1e30, 1e30, 1.5),
        ("softsign_deriv", -1e3, 1e3, 3.5),
        ("softsign_deriv2", -1e3, 1e3, 5),
    ],
)
def test_accuracy(name, low, high, bound, rng):
    exact.assert_accurate(getattr(A, name), getattr(exact, name), low, high, bound, rng=rng)


@pytest.mark.parametrize("beta", [0.3, 1.7, 20.0])
@pytest.mark.parametrize(("form", "bound"), [("", 1.2), ("_deriv", 0.75), ("_deriv2", 0.8)])
def test_accuracy_of_a_steep_softplus(form, bound, beta, rng):
    f, want = getattr(A, f"softplus{form}"), getattr(exact, f"softplus{form}")
    exact.assert_accurate(f, want, -740 / beta, 740 / beta, bound, rng=rng, beta=beta)


def test_softplus_where_a_search_found_the_largest_errors():
    """Once 2.4 and 1.6 ULP: a rounded logarithm was divided, and a rounded quotient multiplied."""
    for name, x, beta, bound in (
        ("softplus", -0.5483158395284269, 2.1619245, 1.15),
        ("softplus", -2.675228701497366, 2.0631404392848975, 0.75),
        ("softplus_deriv2", -22.051797547122202, 0.11939038499824622, 0.75),
    ):
        points = np.array([x])
        true = exact.evaluate(getattr(exact, name), points, beta=beta)
        assert exact.ulp_errors(getattr(A, name)(points, beta=beta), true)[0] < bound


@pytest.mark.parametrize(
    ("name", "low", "high", "bound", "options"),
    [
        ("sigmoid_deriv", -3, 3, 0.75, {}),
        ("sigmoid_deriv2", 0.2, 0.6, 0.75, {}),
        ("sigmoid_deriv2", -3, 3, 0.75, {}),
        ("silu_deriv", -20, 20, 1.5, {}),
        ("softplus_deriv2", -3, -0.5, 0.75, {"beta": 4.0}),
    ],
)
def test_low_order_parts_have_their_sign_and_scale(name, low, high, bound, options):
    """With another sign or scale the error is from 1 to 2.5 ULP, and beyond these bounds."""
    points = np.linspace(low, high, 1500)
    true = exact.evaluate(getattr(exact, name), points, **options)
    assert exact.ulp_errors(getattr(A, name)(points, **options), true).max() <= bound


class TestSteepSoftplus:
    @pytest.mark.parametrize("beta", [0.3, 4.0])
    def test_pytorch(self, beta, rng):
        peers = pytest.importorskip("peers")
        softplus = peers.torch.nn.functional.softplus
        x, peer = rng.normal(scale=3, size=200), lambda t: softplus(t, beta, 1e9)
        peers.assert_same("activations.softplus", peer, x, rng=rng, beta=beta)

    def test_above_the_threshold_pytorch_returns_its_input(self):
        torch = pytest.importorskip("torch")
        x = 20.5 / 4
        assert torch.nn.functional.softplus(torch.tensor(x), 4.0).item() == x
        assert 0 < A.softplus(x, beta=4) - x < 2e-9 / 4

    def test_far_out(self):
        np.testing.assert_array_equal(A.softplus([-np.inf, np.inf], beta=2), [0, np.inf])
        np.testing.assert_array_equal(A.softplus_deriv([-1e308, 1e308], beta=5), [0, 1])
        np.testing.assert_array_equal(A.softplus_deriv2([-1e308, 1e308], beta=5), [0, 0])
        assert np.isnan(A.softplus(np.nan, beta=2))

    @pytest.mark.parametrize("form", ["", "_deriv", "_deriv2"])
    @pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
    def test_beta_must_be_positive(self, form, bad):
        with pytest.raises(ValueError, match=r"^Argument 'beta' must be greater than 0, not"):
            getattr(A, f"softplus{form}")(1.0, beta=bad)


@pytest.mark.parametrize("name", NAMES)
def test_pytorch(name, rng):
    peers = pytest.importorskip("peers")
    peer = getattr(peers.torch.nn.functional, name.replace("log_sigmoid", "logsigmoid"))
    peers.assert_same(f"activations.{name}", peer, rng.normal(scale=3, size=200), rng=rng)


def test_scipy(rng):
    x = rng.normal(scale=20, size=300)
    np.testing.assert_allclose(A.sigmoid(x), scipy.special.expit(x), rtol=1e-15)
    np.testing.assert_allclose(A.log_sigmoid(x), scipy.special.log_expit(x), rtol=1e-15)


class TestIdentities:
    def test_the_two_sides_of_the_sigmoid_sum_to_one(self, rng):
        x = rng.normal(scale=5, size=200)
        np.testing.assert_allclose(A.sigmoid(x) + A.sigmoid(-x), 1, rtol=3e-16)

    def test_tanh_is_a_rescaled_sigmoid(self, rng):
        x = rng.normal(size=200)
        np.testing.assert_allclose(A.tanh(x), 2 * A.sigmoid(2 * x) - 1, rtol=0, atol=4e-16)

    def test_softplus_minus_its_mirror_image_is_the_identity(self, rng):
        x = rng.normal(scale=5, size=200)
        np.testing.assert_allclose(A.softplus(x) - A.softplus(-x), x, rtol=0, atol=4e-15)

    @pytest.mark.parametrize("name", ["tanh", "tanhshrink", "softsign", "sigmoid_deriv2"])
    def test_odd(self, name, rng):
        f, x = getattr(A, name), rng.normal(scale=5, size=200)
        np.testing.assert_array_equal(f(-x), -f(x))

    @pytest.mark.parametrize("name", ["sigmoid_deriv", "tanh_deriv", "softsign_deriv"])
    def test_even(self, name, rng):
        f, x = getattr(A, name), rng.normal(scale=5, size=200)
        np.testing.assert_array_equal(f(-x), f(x))


class TestEdges:
    @pytest.mark.parametrize(
        ("name", "left", "right"),
        [
            ("sigmoid", 0, 1),
            ("log_sigmoid", -np.inf, 0),
            ("softplus", 0, np.inf),
            ("tanh", -1, 1),
            ("tanhshrink", -np.inf, np.inf),
            ("softsign", -1, 1),
            ("sigmoid_deriv", 0, 0),
            ("tanh_deriv", 0, 0),
            ("softsign_deriv", 0, 0),
            ("tanhshrink_deriv", 1, 1),
            ("sigmoid_deriv2", 0, 0),
            ("softsign_deriv2", 0, 0),
        ],
    )
    def test_limits(self, name, left, right):
        f = getattr(A, name)
        np.testing.assert_array_equal(f([-np.inf, np.inf]), [left, right])

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("form", ["", "_deriv", "_deriv2"])
    def test_nan_stays_nan(self, name, form):
        assert np.isnan(getattr(A, name + form)(np.nan))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("name", ["tanh", "softsign", "tanhshrink"])
    def test_signed_zero_stays(self, name, dtype):
        assert np.signbit(getattr(A, name)(dtype(-0.0)))

    def test_the_jump_of_the_second_derivative_of_softsign(self):
        np.testing.assert_allclose(A.softsign_deriv2([-1e-20, 0.0, 1e-20]), [2, 0, -2])

    def test_squares_that_overflow(self):
        assert 0 < A.softsign_deriv(1e160) < 2e-320
