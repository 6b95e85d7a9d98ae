"""Tests of dlref.activations._softmax and of the rows it shares with its relatives."""

import exact
import numpy as np
import pytest
import scipy.special
from mpmath import mp, mpf

import dlref.activations as A
from dlref._core.jit import COMPILED

LENGTHS = [1, 2, 5, 31, 32, 33, 64, 500] if COMPILED else [1, 5, 33]
SCALES = [1e-3, 1.0, 30.0, 700.0]


def exact_softmax(row):
    with mp.workdps(60):
        scores = [mpf(float(x)) for x in row]
        powers = [mp.exp(x - max(scores)) for x in scores]
        total = mp.fsum(powers)
        return [p / total for p in powers]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 3), ("float32", 0.501)])
def test_accuracy(length, scale, dtype, bound, rng):
    x = rng.normal(scale=scale, size=length).astype(dtype)
    assert exact.ulp_errors(A.softmax(x), exact_softmax(x)).max() <= bound


def test_scipy(rng):
    x = rng.normal(size=(3, 4, 5))
    for axis in (-1, 0, 1):
        want = scipy.special.softmax(x, axis=axis)
        np.testing.assert_allclose(A.softmax(x, axis=axis), want, rtol=1e-14)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_pytorch(axis, rng):
    peers = pytest.importorskip("peers")
    x = rng.normal(scale=3, size=(3, 4, 50))
    peers.assert_same("activations.softmax", lambda t: t.softmax(axis), x, rng=rng, axis=axis)


class TestIdentities:
    def test_probabilities_sum_to_one(self, rng):
        s = A.softmax(rng.normal(scale=5, size=(7, 100)))
        np.testing.assert_allclose(s.sum(-1), 1, rtol=1e-15)

    def test_only_differences_count(self, rng):
        x = rng.integers(-50, 50, size=(7, 40)).astype(float)
        np.testing.assert_array_equal(A.softmax(x), A.softmax(x + 1000))

    def test_the_jacobian_is_symmetric_and_removes_constants(self, rng):
        jac = A.softmax_jacobian(rng.normal(scale=5, size=(7, 6)))
        np.testing.assert_array_equal(jac, np.swapaxes(jac, -1, -2))
        np.testing.assert_allclose(jac.sum(-1), 0, atol=1e-16)

    def test_the_jacobian_of_a_confident_row_keeps_its_diagonal(self):
        jac = A.softmax_jacobian([50.0, 0.0])
        np.testing.assert_allclose(jac[0, 0], np.exp(-50.0), rtol=1e-14)

    def test_both_products_are_one(self, rng):
        x, v = rng.normal(size=(2, 3, 5))
        np.testing.assert_array_equal(A.softmax_vjp(v, x), A.softmax_jvp(x, v))

    def test_other_axes(self, rng):
        x, v = rng.normal(size=(2, 3, 4))
        np.testing.assert_array_equal(A.softmax(x, axis=0), A.softmax(x.T).T)
        np.testing.assert_array_equal(A.softmax_jvp(x, v, axis=0), A.softmax_jvp(x.T, v.T).T)
        np.testing.assert_array_equal(A.softmax_jacobian(x, axis=0), A.softmax_jacobian(x.T))


class TestEdges:
    @pytest.mark.parametrize("c", [-1e300, -1e4, 1e4, 1e300])
    def test_large_scores(self, c):
        np.testing.assert_array_equal(A.softmax([c, c]), [0.5, 0.5])
        np.testing.assert_array_equal(A.softmax([c, -c]), [c > 0, c < 0])

    def test_masked_score(self):
        np.testing.assert_array_equal(A.softmax([-np.inf, 0.0]), [0, 1])

    @pytest.mark.parametrize("where", [0, 1, 40])
    @pytest.mark.parametrize("bad", [np.inf, np.nan])
    def test_undefined_rows_are_nan(self, bad, where):
        x = np.zeros((2, 41))
        x[0, where] = bad
        assert np.isnan(A.softmax(x)).all(-1).tolist() == [True, False]

    def test_nothing_but_minus_infinity_is_nan(self):
        assert np.isnan(A.softmax([-np.inf, -np.inf])).all()

    @pytest.mark.parametrize("shape", [(2, 0), (0, 3), (0,)])
    def test_empty(self, shape):
        assert A.softmax(np.zeros(shape)).shape == shape
        assert A.softmax_vjp(np.zeros(shape), np.zeros(shape)).shape == shape
        assert A.hardmax(np.zeros(shape)).shape == shape

    def test_subnormal_probabilities(self):
        x = np.array([0.0, -740.0, -744.9])
        assert exact.ulp_errors(A.softmax(x), exact_softmax(x)).max() <= 1


class TestErrors:
    NAMES = ("softmax", "log_softmax", "hardmax", "softmax_jacobian", "logsumexp_hessian")

    @pytest.mark.parametrize("name", NAMES)
    def test_scalar(self, name):
        with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 1 axis"):
            getattr(A, name)(1.0)

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("axis", [2, -3])
    def test_axis_out_of_range(self, name, axis):
        with pytest.raises(ValueError, match=r"^Argument 'axis' must"):
            getattr(A, name)(np.ones((2, 3)), axis=axis)

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("axis", [None, (0, 1), 0.5, "0"])
    def test_axis_must_be_one_integer(self, name, axis):
        with pytest.raises(TypeError, match=r"^Argument 'axis' must be an integer, not"):
            getattr(A, name)(np.ones((2, 3)), axis=axis)


class TestHardmax:
    def test_the_first_of_the_largest_takes_all(self):
        np.testing.assert_array_equal(A.hardmax([[1, 3, 3], [2, 1, 0]]), [[0, 1, 0], [1, 0, 0]])
        np.testing.assert_array_equal(A.hardmax([[1, 3], [2, 1]], axis=0), [[0, 1], [1, 0]])

    def test_limit_of_softmax(self, rng):
        x = rng.normal(size=(5, 6))
        np.testing.assert_array_equal(A.hardmax(x), A.softmax(1e6 * x))

    def test_nan_takes_the_row(self):
        assert np.isnan(A.hardmax([[0, np.nan], [0, 1]])).all(-1).tolist() == [True, False]
