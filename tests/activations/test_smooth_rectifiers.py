"""Tests of SiLU, Mish and GELU."""

import exact
import numpy as np
import pytest

import dlref.activations as A
from dlref._core.jit import COMPILED
from dlref.activations._gelu import GELU_TANH_ZERO, GELU_ZERO
from dlref.activations._mish import MISH_ZERO
from dlref.activations._silu import SILU_ZERO

CASES = [("silu", {}), ("silu", {"beta": 1.7}), ("mish", {}), ("gelu", {})]
CASES += [("gelu", {"approximate": "tanh"})]


@pytest.mark.parametrize(
    ("name", "zero", "options"),
    [
        ("silu", SILU_ZERO, {"beta": 1.0}),
        ("silu", np.divide(SILU_ZERO, 1.3), {"beta": 1.3}),
        ("mish", MISH_ZERO, {}),
        ("gelu", GELU_ZERO, {}),
        ("gelu", GELU_TANH_ZERO, {"approximate": "tanh"}),
    ],
)
def test_derivatives_are_accurate_around_their_zeros(name, zero, options, rng):
    count = 1500 if COMPILED else 30
    tiny = 10.0 ** rng.uniform(-16, -1, count) * rng.choice([-1, 1], count)
    x = np.concatenate([zero[0] + rng.uniform(-0.6, 0.6, count), zero[0] + tiny])
    x = np.append(x, zero[0] + np.spacing(zero[0]) * np.arange(-9, 10))
    true = exact.evaluate(getattr(exact, f"{name}_deriv"), x, **options)
    assert exact.ulp_errors(getattr(A, f"{name}_deriv")(x, **options), true).max() <= 5
    x = np.float32(zero[0] + rng.uniform(-0.6, 0.6, count))
    x = np.append(
        x, np.float32(zero[0]) + np.spacing(np.float32(zero[0])) * np.arange(-9, 10, dtype="f4")
    )
    true = exact.evaluate(getattr(exact, f"{name}_deriv"), x.astype(np.float64), **options)
    assert exact.ulp_errors(getattr(A, f"{name}_deriv")(x, **options), true).max() <= 0.501


@pytest.mark.parametrize(
    ("name", "low", "high", "bound", "absolute", "options"),
    [
        ("silu", -751, 751, 2.5, 0, {"beta": 1.0}),
        ("silu", -570, 570, 2.5, 0, {"beta": 1.3}),
        ("silu", -3000, 3000, 2.5, 0, {"beta": 0.25}),
        ("silu_deriv", -751, 751, 5, 0, {"beta": 1.0}),
        ("silu_deriv", -570, 570, 5, 0, {"beta": 1.3}),
        ("silu_deriv2", -751, 751, 5, 2**-51, {"beta": 1.0}),
        ("silu_deriv2", -570, 570, 6, 2**-51, {"beta": 1.3}),
        ("mish", -750, 750, 3, 0, {}),
        ("mish_deriv", -750, 750, 5, 0, {}),
        ("mish_deriv2", -750, 375, 6, 2**-50, {}),
        ("gelu", -38.6, 40, 3, 0, {}),
        ("gelu_deriv", -38.8, 40, 5, 0, {}),
        ("gelu_deriv2", -38.8, 38.8, 3, 0, {}),
        ("gelu", -20.9, 40, 3, 0, {"approximate": "tanh"}),
        ("gelu_deriv", -20.9, 40, 5, 0, {"approximate": "tanh"}),
        ("gelu_deriv2", -20.9, 20.9, 8, 2**-51, {"approximate": "tanh"}),
    ],
)
def test_accuracy(name, low, high, bound, absolute, options, rng):
    f, reference = getattr(A, name), getattr(exact, name)
    exact.assert_accurate(f, reference, low, high, bound, rng=rng, absolute=absolute, **options)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_pytorch(name, options, rng):
    peers = pytest.importorskip("peers")
    functional = peers.torch.nn.functional
    peer = {
        "silu": lambda t: t * (options.get("beta", 1) * t).sigmoid(),
        "mish": functional.mish,
        "gelu": lambda t: functional.gelu(t, **options),
    }[name]
    x = rng.normal(scale=3, size=200)
    peers.assert_same(f"activations.{name}", peer, x, rng=rng, **options)


class TestIdentities:
    @pytest.mark.parametrize(("name", "options"), [c for c in CASES if c[0] != "mish"])
    def test_what_does_not_pass_passes_in_the_mirror(self, name, options, rng):
        f, x = getattr(A, name), rng.normal(size=200)
        gates = f(x, **options) / x + f(-x, **options) / -x
        np.testing.assert_allclose(gates, 1, rtol=1e-15)

    def test_silu_is_one_curve_scaled(self, rng):
        x = rng.normal(size=200)
        np.testing.assert_array_equal(A.silu(x, beta=4), A.silu(4 * x) / 4)

    def test_silu_with_slope_zero_is_half_the_input(self, rng):
        x = rng.normal(size=200)
        np.testing.assert_array_equal(A.silu(x, beta=0), x / 2)

    def test_the_two_forms_of_gelu_differ_by_at_most_a_half_permille(self):
        x = np.linspace(-6, 6, 1201)
        gap = abs(A.gelu(x) - A.gelu(x, approximate="tanh")).max()
        assert 4.7e-4 < gap < 4.8e-4

    @pytest.mark.parametrize(
        ("name", "at", "value"),
        [("silu", -1.2784645427610738, -0.2784645427610738), ("mish", -1.1924, -0.30884)],
    )
    def test_minimum(self, name, at, value):
        assert getattr(A, f"{name}_deriv")(at) == pytest.approx(0, abs=2e-5)
        assert getattr(A, name)(at) == pytest.approx(value, rel=1e-4)


class TestEdges:
    @pytest.mark.parametrize(("name", "options"), CASES)
    @pytest.mark.parametrize("big", [1e4, 1e160, 1.7e308, np.inf])
    def test_large_inputs(self, name, options, big):
        f = getattr(A, name)
        np.testing.assert_array_equal(f([-big, big], **options), [0, big])
        slope = getattr(A, f"{name}_deriv")([-big, big], **options)
        np.testing.assert_array_equal(slope, [0, 1])
        np.testing.assert_array_equal(getattr(A, f"{name}_deriv2")([-big, big], **options), 0)

    @pytest.mark.parametrize(("name", "options"), CASES)
    @pytest.mark.parametrize("form", ["", "_deriv", "_deriv2"])
    def test_nan_stays_nan(self, name, options, form):
        assert np.isnan(getattr(A, name + form)(np.nan, **options))

    def test_float32_beyond_the_range_of_squares(self):
        x = np.float32(3e38)
        assert A.gelu(x) == x
        assert A.gelu_deriv(x, approximate="tanh") == 1

    def test_tails_where_peers_return_zero(self):
        assert A.gelu(np.float32(-12)) < 0
        assert A.silu(-745.5) < 0


class TestErrors:
    @pytest.mark.parametrize("form", ["", "_deriv", "_deriv2"])
    def test_unknown_approximation(self, form):
        with pytest.raises(ValueError, match=r"^Argument 'approximate' must be 'none' or 'tanh'"):
            getattr(A, f"gelu{form}")(1.0, approximate="erf")

    def test_beta_must_be_a_number(self):
        with pytest.raises(TypeError, match=r"^Argument 'beta' must be a number, not '1'\.$"):
            A.silu(1.0, beta="1")
