"""Predicted second moments against closed forms and against networks."""

import math

import numpy as np
import pytest
import scipy.integrate

from dlref import activations
from dlref._core.jit import COMPILED
from dlref.activations._by_name import ACTIVATIONS, by_name
from dlref.propagation import critical_gain, he_normal, signal_propagation
from dlref.propagation._signal_propagation import _mean_square


class TestIntegrals:
    @pytest.mark.parametrize("name", ACTIVATIONS)
    @pytest.mark.parametrize("q", [1e-6, 0.3, 1.0, 50.0])
    def test_against_adaptive_quadrature(self, name, q):
        f = by_name(name).map

        def integrand(t):
            density = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
            return float(f(np.asarray(math.sqrt(q) * t))) ** 2 * density

        kinks = sorted({0.0, *(k / math.sqrt(q) for k in (-3, -1, 1, 3, 6))} & _inside(q))
        want = sum(
            scipy.integrate.quad(integrand, a, b, epsrel=1e-12, epsabs=0, limit=200)[0]
            for a, b in zip([-12, *kinks], [*kinks, 12], strict=True)
        )
        assert _mean_square(f, q) == pytest.approx(want, rel=1e-9)

    @pytest.mark.parametrize("q", [1e-12, 1.0, 1e8])
    def test_closed_forms(self, q):
        assert _mean_square(np.positive, q) == pytest.approx(q, rel=1e-13)
        assert _mean_square(activations.relu, q) == pytest.approx(q / 2, rel=1e-13)
        assert _mean_square(activations.relu_deriv, q) == pytest.approx(0.5, rel=1e-13)

    def test_selu_keeps_one(self):
        assert _mean_square(activations.selu, 1.0) == pytest.approx(1, rel=1e-12)


def _inside(q):
    return {k / math.sqrt(q) for k in (-3, -1, 0, 1, 3, 6) if abs(k) < 12 * math.sqrt(q)}


class TestSignalPropagation:
    @pytest.mark.skipif(not COMPILED, reason="of a million elements each")
    @pytest.mark.parametrize("activation", ["relu", "tanh", "selu", "gelu", "identity"])
    @pytest.mark.parametrize("init", ["he_normal", "glorot_uniform", "lecun_normal", "orthogonal"])
    def test_networks_follow_the_recursion(self, rng, activation, init):
        widths = (300, 400, 500, 400, 300, 400)
        found = signal_propagation(widths, activation=activation, init=init, rng=rng)
        assert all(values.shape == (5,) for values in found)
        np.testing.assert_allclose(found.forward, found.forward_predicted, rtol=0.3)
        np.testing.assert_allclose(found.backward, found.backward_predicted, rtol=0.3)

    def test_relu_with_he_is_level(self, rng):
        found = signal_propagation((200,) * 31, activation="relu", init="he_normal", rng=rng)
        np.testing.assert_allclose(found.forward_predicted, 2, rtol=0.2)

    def test_any_function_may_draw(self, rng):
        def twice(rng, shape):
            return 2 * he_normal(rng, shape)

        found = signal_propagation((300,) * 4, activation="relu", init=twice, rng=rng)
        np.testing.assert_allclose(found.forward_predicted, 2.0 * 4 ** np.arange(1, 4), rtol=0.1)

    @pytest.mark.skipif(not COMPILED, reason="of 60 million elements")
    @pytest.mark.parametrize(
        ("activation", "init", "depth", "least", "most"),
        [
            ("relu", "he_normal", 5, 0.9, 1.7),
            ("identity", "lecun_normal", 5, 0.15, 0.32),
            ("tanh", "lecun_normal", 5, 0.09, 0.2),
            ("tanh", "lecun_normal", 20, 0.17, 0.28),
            ("tanh", "he_normal", 20, 0.06, 0.11),
        ],
    )
    def test_scatter_about_the_prediction(self, activation, init, depth, least, most):
        options = {"activation": activation, "init": init}
        drawn = [
            signal_propagation((200,) * (depth + 1), rng=np.random.default_rng(k), **options)
            for k in range(60)
        ]
        ratios = np.array([found.forward[-1] / found.forward_predicted[-1] for found in drawn])
        scatter = math.sqrt(np.mean((ratios - 1) ** 2)) / math.sqrt(depth / 200)
        assert least < scatter < most

    def test_nothing_stays_nothing(self, rng):
        def nothing(_rng, shape):
            return np.zeros(shape)

        found = signal_propagation((3, 3, 3), activation="tanh", init=nothing, rng=rng)
        assert found.forward.tolist() == found.forward_predicted.tolist() == [0.0, 0.0]

    def test_errors(self, rng):
        with pytest.raises(ValueError, match=r"'activation' must be 'identity', .* not 'x'"):
            signal_propagation((2, 2), activation="x", init="he_normal", rng=rng)
        with pytest.raises(ValueError, match=r"'init' must be 'glorot_normal', .* not 'x'"):
            signal_propagation((2, 2), activation="relu", init="x", rng=rng)
        with pytest.raises(TypeError, match="'rng' must be"):
            signal_propagation((2, 2), activation="relu", init="he_normal", rng=None)
        with pytest.raises(TypeError, match="'widths' must be a tuple of integers, not 3"):
            signal_propagation(3, activation="relu", init="he_normal", rng=rng)
        with pytest.raises(ValueError, match="'widths' must have at least 2 elements, not 1"):
            signal_propagation((3,), activation="relu", init="he_normal", rng=rng)
        with pytest.raises(ValueError, match="'samples' must be at least 1"):
            signal_propagation((3, 3), activation="relu", init="he_normal", rng=rng, samples=0)


class TestCriticalGain:
    def test_closed_forms(self):
        assert critical_gain("identity") == 1
        assert critical_gain("relu") == math.sqrt(2)
        assert critical_gain("tanh") == 1
        leaky = math.sqrt(2 / (1 + 0.01**2))
        assert critical_gain("leaky_relu") == pytest.approx(leaky, rel=1e-15)

    @pytest.mark.parametrize(("name", "bias"), [("sigmoid", 0), ("tanh", 0.5), ("elu", 0.3)])
    def test_slope_at_the_fixed_point_is_one(self, name, bias):
        phi, slope = by_name(name)[:2]
        gain, q = critical_gain(name, bias_deviation=bias), 1.0
        for _ in range(20_000):  # convergence at the critical point is slow
            before, q = q, gain**2 * _mean_square(phi, q) + bias**2
            if abs(q - before) < 1e-13 * q:
                break
        assert gain**2 * _mean_square(slope, q) == pytest.approx(1, rel=1e-6)

    @pytest.mark.broad
    def test_the_gain_of_the_sigmoid_is_one_over_the_root_mean_square_slope(self):
        phi, slope = by_name("sigmoid")[:2]
        gain = critical_gain("sigmoid")
        q = 1.0
        for _ in range(200):
            q = gain**2 * _mean_square(phi, q)
        assert round(gain, 2) == 10.15
        assert round(math.sqrt(_mean_square(slope, q)), 3) == 0.099
        mean = _mean_square(lambda z: np.sqrt(slope(z)), q)
        assert round(mean, 3) == 0.057  # not the root mean square

    @pytest.mark.parametrize("name", ["gelu", "silu", "mish", "hard_swish"])
    def test_there_is_none_where_the_variance_leaves_the_fixed_point(self, name):
        phi, slope = by_name(name)[:2]
        gain, q = 1.0 / slope(np.zeros(1))[0], 0.5  # would be critical at q = 0
        for _ in range(20):
            q = gain**2 * _mean_square(phi, q)
        assert q > 10
        with pytest.raises(ValueError, match=f"not '{name}', whose variance leaves"):
            critical_gain(name)

    @pytest.mark.broad
    @pytest.mark.parametrize(("q", "layers"), [(1e-3, 556), (4.0, 19)])
    def test_how_fast_the_variances_of_gelu_leave_zero(self, q, layers):
        for n in range(1, layers + 1):
            q = 4 * _mean_square(activations.gelu, q)
            assert (q > 1e6) == (n == layers)

    @pytest.mark.broad
    def test_where_tanh_settles_with_the_weights_of_he(self):
        phi, slope = by_name("tanh")[:2]
        q = 2.0
        for _ in range(200):
            q = 2 * _mean_square(phi, q)
        assert round(q, 2) == 0.62
        assert round(2 * _mean_square(slope, q), 2) == 1.11  # of the mean square, per layer

    def test_gelu_is_critical_with_biases(self):
        q = (3 + math.sqrt(17)) / 2
        phi, slope = by_name("gelu")[:2]
        weights = 1 / _mean_square(slope, q)  # the gradient keeps its size
        biases = q - weights * _mean_square(phi, q)  # and q is the fixed point
        assert (round(weights, 4), round(biases, 4)) == (1.9831, 0.1729)
        h = 1e-3
        growth = weights * (_mean_square(phi, q + h) - _mean_square(phi, q - h)) / (2 * h)
        assert growth == pytest.approx(1, rel=1e-6)  # where both factors are 1
        gain = critical_gain("gelu", bias_deviation=math.sqrt(biases * 1.001))
        assert gain**2 == pytest.approx(weights, rel=1e-3)
        with pytest.raises(ValueError, match="whose variance leaves"):
            critical_gain("gelu", bias_deviation=math.sqrt(biases * 0.999))

    def test_an_unstable_root_is_no_answer(self):
        with pytest.raises(ValueError, match="whose variance leaves"):
            critical_gain("silu", bias_deviation=0.3)  # 1.5756 was returned

    @pytest.mark.parametrize("bias", [0.5, 2.0])
    def test_unbounded_moments_give_the_limit(self, bias):
        assert critical_gain("relu", bias_deviation=bias) == pytest.approx(math.sqrt(2))
        assert critical_gain("softplus") == pytest.approx(math.sqrt(2), rel=1e-6)

    def test_errors(self):
        with pytest.raises(ValueError, match="'activation' must be"):
            critical_gain("x")
        with pytest.raises(ValueError, match="'bias_deviation' must be at least 0"):
            critical_gain("tanh", bias_deviation=-1)


@pytest.mark.broad
@pytest.mark.parametrize(
    ("name", "gain", "variance", "factor"),
    [("tanh", 5 / 3, 1.18, 1.21), ("selu", 3 / 4, 0.023, 1.004)],
)
def test_gains_of_pytorch(name, gain, variance, factor):
    f = by_name(name)
    path = [1.0]
    for _ in range(300):
        path.append(gain**2 * _mean_square(f.map, path[-1]))
    assert path[-1] == pytest.approx(variance, rel=5e-3)
    assert path[50] == pytest.approx(path[-1], rel=0.05)
    assert gain**2 * _mean_square(f.deriv, path[-1]) == pytest.approx(factor, rel=5e-4)


def test_the_backward_prediction_takes_the_moment_of_each_layer():
    """Weights of two signs have a known mean square; the moments of the layers differ."""
    sizes = {60: 0.1, 70: 0.4}

    def init(rng, shape):
        return sizes[shape[0]] * rng.choice([-1.0, 1.0], shape)

    def mean(f, q):
        def weighted(t):
            return f(math.sqrt(q) * t) * math.exp(-t * t / 2) / math.sqrt(2 * math.pi)

        return scipy.integrate.quad(weighted, -12, 12, epsabs=1e-13)[0]

    def slope(z):
        return 1 - math.tanh(z) ** 2

    rng = np.random.default_rng(0)
    result = signal_propagation((50, 60, 70), activation="tanh", init=init, rng=rng)
    first = 50 * 0.1**2
    second = 60 * 0.4**2 * mean(lambda z: math.tanh(z) ** 2, first)
    last = mean(lambda z: slope(z) ** 2, second)
    before = 70 * 0.4**2 * last * mean(lambda z: slope(z) ** 2, first)
    np.testing.assert_allclose(result.forward_predicted, [first, second], rtol=1e-12)
    np.testing.assert_allclose(result.backward_predicted, [before, last], rtol=1e-12)


def test_a_layer_without_a_signal_has_no_prediction_for_its_gradient(rng):
    """Its slope would be that at 0, where an activation may have a kink."""

    def init(_, shape):
        return np.zeros(shape)

    result = signal_propagation((3, 4), activation="relu", init=init, rng=rng)
    np.testing.assert_array_equal(result.forward_predicted, [0.0])
    np.testing.assert_array_equal(result.backward_predicted, [np.nan])
