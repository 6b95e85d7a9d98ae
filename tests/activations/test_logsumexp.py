"""Tests of dlref.activations._logsumexp."""

import exact
import numpy as np
import pytest
import scipy.special
from mpmath import mp, mpf

import dlref.activations as A
from dlref._core.jit import COMPILED

LENGTHS = [1, 2, 5, 33, 500] if COMPILED else [1, 5, 33]


def exact_logsumexp(row):
    with mp.workdps(60):
        first, *others = sorted((mpf(float(x)) for x in row), reverse=True)
        return first + mp.log1p(mp.fsum(mp.exp(x - first) for x in others))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 300.0])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_accuracy(length, scale, dtype, rng):
    for x in rng.normal(scale=scale, size=(5, length)).astype(dtype):
        true = exact_logsumexp(x)
        # where maximum and logarithm cancel, an error of one unit of the larger remains
        absolute = 2.0**-52 * abs(float(x.max()))
        errors = exact.ulp_errors(np.array([A.logsumexp(x)]), [true], absolute=absolute)
        assert errors.max() <= 1.1


@pytest.mark.parametrize("axis", [-1, 0, (0, 1), (2, 0), (0, 1, 2)])
def test_scipy(axis, rng):
    x = rng.normal(scale=5, size=(3, 4, 5))
    want = scipy.special.logsumexp(x, axis=axis)
    np.testing.assert_allclose(A.logsumexp(x, axis=axis), want, rtol=1e-14)


@pytest.mark.parametrize("axis", [-1, 0, (0, 1), (2, 0), (0, 1, 2)])
def test_pytorch(axis, rng):
    peers = pytest.importorskip("peers")
    x = rng.normal(scale=3, size=(3, 4, 5))
    peers.assert_same("activations.logsumexp", lambda t: t.logsumexp(axis), x, rng=rng, axis=axis)
    _, (grad,) = peers.value_and_vjp(lambda t: t.logsumexp(axis), x)
    np.testing.assert_allclose(A.logsumexp_grad(x, axis=axis), grad, rtol=0, atol=4e-15)


class TestIdentities:
    def test_bounds(self, rng):
        x = rng.normal(scale=5, size=(30, 8))
        gap = A.logsumexp(x) - x.max(-1)
        assert (gap >= 0).all()
        assert (gap <= np.log(8)).all()

    def test_a_shift_of_the_scores_is_one_of_the_value(self, rng):
        x = rng.normal(size=(30, 8))
        np.testing.assert_allclose(A.logsumexp(x + 100), A.logsumexp(x) + 100, rtol=1e-15)

    def test_the_gradient_is_softmax(self, rng):
        x = rng.normal(size=(3, 4))
        np.testing.assert_array_equal(A.logsumexp_grad(x), A.softmax(x))
        np.testing.assert_array_equal(A.logsumexp_grad(x, axis=0), A.softmax(x, axis=0))

    def test_convex(self, rng):
        assert np.linalg.eigvalsh(A.logsumexp_hessian(rng.normal(size=(5, 6)))).min() > -1e-16


class TestEdges:
    @pytest.mark.parametrize(
        ("row", "want"),
        [
            ([-np.inf, -np.inf], -np.inf),
            ([np.inf, 0.0], np.inf),
            ([np.inf, -np.inf], np.inf),
            ([-np.inf, 3.0], 3.0),
            ([np.inf, np.nan], np.nan),
            ([np.inf, -np.nan], np.nan),  # a NaN with the sign bit set
            ([np.nan, 0.0], np.nan),
            ([-np.inf, np.nan], np.nan),
            ([1e308, 1e308], 1e308),
        ],
    )
    def test_special_values(self, row, want):
        np.testing.assert_array_equal(A.logsumexp(row), want)
        np.testing.assert_array_equal(A.logsumexp([row, [0.0, 0.0]])[0], want)

    def test_over_no_scores(self):
        np.testing.assert_array_equal(A.logsumexp(np.zeros((2, 0))), [-np.inf, -np.inf])
        assert A.logsumexp([]) == -np.inf
        assert A.logsumexp(np.zeros((0, 3))).shape == (0,)

    def test_no_axes_at_all(self):
        assert A.logsumexp(2.0, axis=()) == 2.0
        assert A.logsumexp_grad(2.0, axis=()) == 1.0


class TestErrors:
    @pytest.mark.parametrize("f", [A.logsumexp, A.logsumexp_grad])
    @pytest.mark.parametrize("axis", [2, (0, 0), (0, 5)])
    def test_axes(self, f, axis):
        with pytest.raises(ValueError, match=r"^Argument 'axis' must hold distinct axes"):
            f(np.ones((2, 3)), axis=axis)

    @pytest.mark.parametrize("f", [A.logsumexp, A.logsumexp_grad])
    def test_a_scalar_has_no_axis(self, f):
        with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 1 axis, not shape"):
            f(2.0)
