"""Tests of the rectifiers with kinks."""

from fractions import Fraction

import numpy as np
import pytest

import dlref.activations as A
from dlref._core import threads
from dlref._math import elementwise

MAPS = ["relu", "leaky_relu", "relu6", "thresholded_relu", "hard_tanh", "hard_sigmoid"]
MAPS += ["hard_swish"]
PEERS = {
    "relu": "relu",
    "leaky_relu": "leaky_relu",
    "relu6": "relu6",
    "hard_tanh": "hardtanh",
    "hard_sigmoid": "hardsigmoid",
    "hard_swish": "hardswish",
}
KINKS = {"relu6": [0, 6], "hard_tanh": [-1, 1], "hard_sigmoid": [-3, 3], "hard_swish": [-3, 3]}


def test_a_loop_as_fast_as_memory_is_shared_out_later(set_num_threads, monkeypatch):
    """To hand a part to another thread takes longer than 200,000 comparisons."""
    set_num_threads(2)
    shared, x = [], np.zeros(200_000)
    monkeypatch.setattr(elementwise, "over_rows", lambda _, n, cost, *__: shared.append(n * cost))
    for name in MAPS:
        getattr(A, name)(x)
    work = dict(zip(MAPS, shared, strict=True))
    slow = {name for name in MAPS if work[name] >= threads.MIN_WORK}
    assert slow == {"hard_swish"}  # the one that divides


@pytest.mark.parametrize("name", PEERS)
def test_pytorch_at_the_kinks_too(name, rng):
    peers = pytest.importorskip("peers")
    x, dout = rng.normal(scale=4, size=(2, 200))
    x[:3] = [0.0, *KINKS.get(name, [-1, 1])]
    peer = getattr(peers.torch.nn.functional, PEERS[name])
    value, (grad,) = peers.value_and_vjp(peer, x, dout=dout)
    np.testing.assert_allclose(getattr(A, name)(x), value, rtol=0, atol=1e-14)
    got = getattr(A, f"{name}_vjp")(dout, x)
    # PyTorch's gradient of hardsigmoid has 1/6 rounded to float32, in float64 too
    rtol = 4e-8 if name == "hard_sigmoid" else 0
    np.testing.assert_allclose(got, grad, rtol=rtol, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "x", "y", "slope", "options"),
    [
        ("relu", [-1, 0, 2], [0, 0, 2], [0, 0, 1], {}),
        ("leaky_relu", [-2, 0, 2], [-0.5, 0, 2], [0.25, 0.25, 1], {"negative_slope": 0.25}),
        ("relu6", [-1, 0, 2, 6, 7], [0, 0, 2, 6, 6], [0, 0, 1, 0, 0], {}),
        ("thresholded_relu", [0.5, 1, 2], [0, 0, 2], [0, 0, 1], {}),
        ("thresholded_relu", [-1, -0.5, 0], [0, -0.5, 0], [0, 1, 1], {"alpha": -1}),
        ("hard_tanh", [-2, -1, 0, 1, 2], [-1, -1, 0, 1, 1], [0, 0, 1, 0, 0], {}),
        ("hard_sigmoid", [-4, 0, 4], [0, 0.5, 1], [0, 0.25, 0], {"alpha": 0.25}),
        ("hard_swish", [-4, -3, 0, 3, 4], [0, 0, 0, 3, 4], [0, 0, 0.5, 1, 1], {}),
    ],
)
def test_values(name, x, y, slope, options):
    np.testing.assert_array_equal(getattr(A, name)(x, **options), y)
    np.testing.assert_array_equal(getattr(A, f"{name}_deriv")(x, **options), slope)


@pytest.mark.parametrize("name", MAPS)
def test_second_derivative(name):
    got = getattr(A, f"{name}_deriv2")([-7.0, -0.5, 0.5, 7.0])
    want = 1 / 3 if name == "hard_swish" else 0
    np.testing.assert_array_equal(got, [0, want, want, 0])


class TestIdentities:
    def test_two_rectifiers_restore_the_identity(self, rng):
        x = rng.normal(size=50)
        np.testing.assert_array_equal(A.relu(x) - A.relu(-x), x)

    def test_rectifiers_scale(self, rng):
        x = rng.normal(size=50)
        np.testing.assert_array_equal(A.relu(4 * x), 4 * A.relu(x))

    def test_hard_swish_is_the_input_times_the_hard_sigmoid(self, rng):
        x = rng.normal(scale=3, size=50)
        np.testing.assert_allclose(A.hard_swish(x), x * A.hard_sigmoid(x), rtol=0, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hard_sigmoid_is_0_and_1_at_its_kinks(dtype):
    """Where a fused product and sum leave what the factor, a sixth, was rounded by."""
    assert A.hard_sigmoid(np.array([-3, 3], dtype)).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hard_sigmoid_is_correctly_rounded_near_its_kink(dtype, rng):
    x = (-3 + 10.0 ** rng.uniform(-6, -1, 300)).astype(dtype)
    alpha = 1 / 6
    for got, point in zip(A.hard_sigmoid(x).tolist(), x.tolist(), strict=True):
        line = Fraction(alpha) * Fraction(point) + Fraction(1, 2)
        assert abs(Fraction(got) - line) <= Fraction(float(np.spacing(dtype(line)))) * 501 / 1000


class TestEdges:
    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("form", ["", "_deriv", "_deriv2"])
    def test_nan_stays_nan(self, name, form):
        assert np.isnan(getattr(A, name + form)(np.nan))

    @pytest.mark.parametrize(
        ("name", "left", "right"),
        [
            ("relu", 0, np.inf),
            ("leaky_relu", -np.inf, np.inf),
            ("relu6", 0, 6),
            ("thresholded_relu", 0, np.inf),
            ("hard_tanh", -1, 1),
            ("hard_sigmoid", 0, 1),
            ("hard_swish", 0, np.inf),
        ],
    )
    def test_infinity(self, name, left, right):
        np.testing.assert_array_equal(getattr(A, name)([-np.inf, np.inf]), [left, right])


class TestPrelu:
    def test_pytorch(self, rng):
        peers = pytest.importorskip("peers")
        x, dout = rng.normal(size=(2, 7, 3))
        x[0, 0] = 0.0
        slope = rng.normal(size=3)
        value, (dx, dslope) = peers.value_and_vjp(
            peers.torch.nn.functional.prelu, x, slope, dout=dout
        )
        np.testing.assert_allclose(A.prelu(x, slope), value, rtol=0, atol=1e-15)
        got = A.prelu_vjp(dout, x, slope)
        np.testing.assert_allclose(got[0], dx, rtol=0, atol=1e-14)
        np.testing.assert_allclose(got[1], dslope, rtol=0, atol=1e-14)

    def test_one_slope_for_all(self):
        np.testing.assert_array_equal(A.prelu([[-2.0], [3.0]], 0.5), [[-1], [3]])

    def test_nan_stays_nan(self):
        assert np.isnan(A.prelu(np.nan, 0.5))

    def test_slopes_that_do_not_fit(self):
        with pytest.raises(ValueError, match=r"^Argument 'slope' must broadcast to .* \(2, 3\)"):
            A.prelu(np.ones((2, 3)), np.ones(2))

    def test_slopes_may_not_broadcast_the_input(self):
        with pytest.raises(ValueError, match=r"^Argument 'slope' must broadcast"):
            A.prelu(np.ones(3), np.ones((2, 3)))


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("leaky_relu", "negative_slope"),
        ("thresholded_relu", "alpha"),
        ("hard_sigmoid", "alpha"),
        ("hard_sigmoid", "beta"),
    ],
)
def test_options_must_be_numbers(name, option):
    for form in ("", "_deriv", "_deriv2"):
        with pytest.raises(TypeError, match=f"^Argument '{option}' must be a number"):
            getattr(A, name + form)(1.0, **{option: "x"})


class TestSquaredRelu:
    def test_transformers_and_pytorch(self, rng):
        peers = pytest.importorskip("peers")
        x = rng.normal(scale=3, size=200)
        x[0] = 0.0
        relu = peers.torch.nn.functional.relu
        peers.assert_same("activations.relu_squared", lambda t: relu(t).square(), x, rng=rng)

    def test_is_a_gated_unit_with_shared_weights(self, rng):
        x = rng.normal(size=50)
        np.testing.assert_array_equal(A.relu_squared(x), A.reglu(x, x))

    def test_special_values(self):
        x = [-np.inf, -0.0, np.inf, np.nan, 1e200, 1.4e-162]
        np.testing.assert_array_equal(A.relu_squared(x), [0, 0, np.inf, np.nan, np.inf, 0])
        np.testing.assert_array_equal(A.relu_squared_deriv2([-1.0, 0.0, np.nan]), [0, 0, np.nan])

    def test_is_float32_rounded_once(self, rng):
        x = rng.normal(size=500).astype(np.float32)
        want = np.square(np.maximum(x.astype(float), 0)).astype(np.float32)
        np.testing.assert_array_equal(A.relu_squared(x), want)
