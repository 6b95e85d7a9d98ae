"""Variances, bounds and shapes of the initial weights."""

import numpy as np
import pytest

from dlref import propagation
from dlref.activations import selu

VARIANCE = {
    "glorot_uniform": lambda n_in, n_out: 2 / (n_in + n_out),
    "glorot_normal": lambda n_in, n_out: 2 / (n_in + n_out),
    "he_uniform": lambda n_in, _: 2 / n_in,
    "he_normal": lambda n_in, _: 2 / n_in,
    "lecun_normal": lambda n_in, _: 1 / n_in,
}
NAMES = [*VARIANCE, "orthogonal"]


@pytest.mark.parametrize("name", VARIANCE)
@pytest.mark.parametrize(
    ("shape", "n_in", "n_out"), [((300, 200), 200, 300), ((40, 20, 5, 5), 500, 1000)]
)
def test_mean_and_variance(rng, name, shape, n_in, n_out):
    W = getattr(propagation, name)(rng, shape)
    want = VARIANCE[name](n_in, n_out)
    assert W.shape == shape
    assert W.dtype == np.float64
    assert abs(W.mean()) < 5 * np.sqrt(want / W.size)
    assert W.var() == pytest.approx(want, rel=0.05)


@pytest.mark.parametrize("name", ["glorot_uniform", "he_uniform"])
def test_uniform_weights_are_bounded_by_three_variances(rng, name):
    W = getattr(propagation, name)(rng, (300, 200))
    bound = np.sqrt(3 * VARIANCE[name](200, 300))
    assert 0.999 * bound < abs(W).max() <= bound


@pytest.mark.parametrize("name", ["glorot_normal", "he_normal", "lecun_normal"])
def test_normal_weights_have_the_fourth_moment_of_normal_ones(rng, name):
    W = getattr(propagation, name)(rng, (300, 300))
    assert np.mean(W**4) == pytest.approx(3 * W.var() ** 2, rel=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_the_generator_decides(name):
    f = getattr(propagation, name)
    one, two = (f(np.random.default_rng(7), (4, 3)) for _ in range(2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize("name", ["glorot_uniform", "glorot_normal", "orthogonal"])
def test_gain_is_a_factor(name):
    f = getattr(propagation, name)
    one, two = (f(np.random.default_rng(7), (4, 3), gain=gain) for gain in (1, 2.5))
    np.testing.assert_allclose(two, 2.5 * one, rtol=1e-14)


@pytest.mark.parametrize("name", ["he_uniform", "he_normal"])
def test_slope_of_the_rectifier(name):
    f = getattr(propagation, name)
    relu, leaky = (f(np.random.default_rng(7), (4, 3), negative_slope=slope) for slope in (0, 0.5))
    np.testing.assert_allclose(leaky, relu / np.sqrt(1.25), rtol=1e-14)


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (4, 2, 3)])
def test_orthogonal(rng, shape):
    W = propagation.orthogonal(rng, shape)
    assert W.shape == shape
    W = W.reshape(shape[0], -1)
    small = W @ W.T if W.shape[0] <= W.shape[1] else W.T @ W
    np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-14)


def test_orthogonal_matrices_prefer_no_direction(rng):
    # without the signs of R, no entry of the diagonal would be positive
    traces = [np.trace(propagation.orthogonal(rng, (4, 4))) for _ in range(500)]
    assert abs(np.mean(traces)) < 0.2
    assert np.var(traces) == pytest.approx(1, rel=0.2)  # of uniform orthogonal matrices


@pytest.mark.parametrize("name", NAMES)
class TestErrors:
    def test_generator(self, name):
        with pytest.raises(TypeError, match=r"'rng' must be a numpy\.random\.Generator, not 3"):
            getattr(propagation, name)(3, (2, 2))

    def test_shape(self, name, rng):
        f = getattr(propagation, name)
        with pytest.raises(TypeError, match="'shape' must be a tuple of integers, not 5"):
            f(rng, 5)
        with pytest.raises(TypeError, match=r"'shape' must be an integer, not 2\.5"):
            f(rng, (2, 2.5))
        with pytest.raises(ValueError, match="'shape' must be at least 1, not 0"):
            f(rng, (2, 0))
        with pytest.raises(ValueError, match=r"'shape' must be \(n_out, n_in, ...\), not \(2,\)"):
            f(rng, (2,))


@pytest.mark.broad
@pytest.mark.parametrize(
    ("name", "normalized"),
    [("lecun_normal", True), ("orthogonal", True), ("glorot_uniform", True), ("he_normal", False)],
)
def test_selu_normalizes_itself_with_this_variance(rng, name, normalized):
    h = rng.normal(size=(400, 100))
    for _ in range(20):
        h = selu(getattr(propagation, name)(rng, (400, 400)) @ h)
    assert (abs(h.mean()) < 0.1 and 0.9 < h.std() < 1.1) == normalized


def test_gain_is_not_negative(rng):
    with pytest.raises(ValueError, match="'gain' must be at least 0"):
        propagation.orthogonal(rng, (2, 2), gain=-1)


def test_a_unit_has_n_times_the_variance_of_a_weight_times_the_mean_square_of_its_inputs(rng):
    x = rng.normal(2.0, 3.0, size=400)
    w = rng.normal(scale=0.1, size=(20_000, 400))
    mean_square = np.mean(x**2)
    assert (w @ x).var() == pytest.approx(400 * 0.01 * mean_square, rel=0.05)
    assert mean_square > 10  # so that it is not n times the variance alone


def test_large_weights_saturate_most_units_and_not_all(rng):
    h = rng.normal(size=(200, 400))
    for _ in range(10):
        h = np.tanh(h @ rng.normal(0, 0.2, (400, 400)))
    assert 0.55 < np.mean(abs(h) > 0.9) < 0.8
