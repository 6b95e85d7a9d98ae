"""Tests of dlref.activations._log_softmax."""

import exact
import numpy as np
import pytest
import scipy.special
from mpmath import mp, mpf

import dlref.activations as A
from dlref._core.jit import COMPILED

LENGTHS = [1, 2, 5, 33, 500] if COMPILED else [1, 5, 33]


def exact_log_softmax(row):
    with mp.workdps(60):
        first, *others = sorted((mpf(float(x)) for x in row), reverse=True)
        rest = mp.log1p(mp.fsum(mp.exp(x - first) for x in others))
        return [(mpf(float(x)) - first) - rest for x in row]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 300.0])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 2), ("float32", 0.501)])
def test_accuracy(length, scale, dtype, bound, rng):
    x = rng.normal(scale=scale, size=length).astype(dtype)
    assert exact.ulp_errors(A.log_softmax(x), exact_log_softmax(x)).max() <= bound


@pytest.mark.parametrize("gap", [1e-8, 1.0, 36.0, 40.0, 200.0, 700.0])
def test_accuracy_of_confident_rows(gap):
    x = np.array([gap, 0.0, -1.0])
    assert exact.ulp_errors(A.log_softmax(x), exact_log_softmax(x)).max() <= 2


def test_scipy(rng):
    x = rng.normal(scale=5, size=(3, 4, 5))
    for axis in (-1, 0, 1):
        want = scipy.special.log_softmax(x, axis=axis)
        np.testing.assert_allclose(A.log_softmax(x, axis=axis), want, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("axis", [0, -1])
def test_pytorch(axis, rng):
    peers = pytest.importorskip("peers")
    x = rng.normal(scale=3, size=(3, 50))
    peers.assert_same(
        "activations.log_softmax", lambda t: t.log_softmax(axis), x, rng=rng, axis=axis
    )


class TestIdentities:
    def test_its_exponential_is_softmax(self, rng):
        x = rng.normal(size=(3, 40))
        np.testing.assert_allclose(np.exp(A.log_softmax(x)), A.softmax(x), rtol=2e-15)

    def test_the_jacobian_is_a_projection(self, rng):
        jac = A.log_softmax_jacobian(rng.normal(size=(3, 6)))
        np.testing.assert_allclose(jac @ jac, jac, rtol=0, atol=4e-16)

    def test_other_axes(self, rng):
        x, v = rng.normal(size=(2, 3, 4))
        for got, want in [
            (A.log_softmax(x, axis=0), A.log_softmax(x.T).T),
            (A.log_softmax_jvp(x, v, axis=0), A.log_softmax_jvp(x.T, v.T).T),
            (A.log_softmax_vjp(v, x, axis=0), A.log_softmax_vjp(v.T, x.T).T),
            (A.log_softmax_jacobian(x, axis=0), A.log_softmax_jacobian(x.T)),
        ]:
            np.testing.assert_array_equal(got, want)

    def test_the_jacobian_of_a_confident_row_keeps_its_diagonal(self):
        jac = A.log_softmax_jacobian([50.0, 0.0])
        np.testing.assert_allclose(jac[0, 0], np.exp(-50.0), rtol=1e-14)


class TestEdges:
    def test_masked_score(self):
        np.testing.assert_array_equal(A.log_softmax([-np.inf, 0.0]), [-np.inf, 0])

    @pytest.mark.parametrize("bad", [np.inf, np.nan])
    def test_undefined_rows_are_nan(self, bad):
        assert np.isnan(A.log_softmax([[bad, 0], [0, 0]])).all(-1).tolist() == [True, False]

    def test_nothing_but_minus_infinity_is_nan(self):
        assert np.isnan(A.log_softmax([-np.inf, -np.inf])).all()

    def test_large_scores(self):
        np.testing.assert_array_equal(A.log_softmax([1e300, -1e300]), [0, -2e300])
