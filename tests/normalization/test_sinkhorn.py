"""Tests of dlref.normalization._sinkhorn."""

import numpy as np
import pytest

from dlref.normalization import sinkhorn, sinkhorn_jvp, sinkhorn_vjp


def test_pytorch(rng):
    peers = pytest.importorskip("peers")

    def steps_of(t):  # as the projection of hyper-connections is written
        p = t.softmax(-1)
        p = p / p.sum(-2, keepdim=True)
        for _ in range(19):
            p = p / p.sum(-1, keepdim=True)
            p = p / p.sum(-2, keepdim=True)
        return p

    x = rng.normal(size=(4, 5, 5))
    peers.assert_same("normalization.sinkhorn", steps_of, x, rng=rng)


def test_the_limit_is_doubly_stochastic_and_a_projection(rng):
    x = rng.normal(size=(50, 4, 4))
    p = sinkhorn(x, steps=300)
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-12)
    np.testing.assert_allclose(p.sum(-2), 1, rtol=1e-14)
    np.testing.assert_allclose(sinkhorn(np.log(p), steps=1), p, rtol=1e-12)
    moved = x + rng.normal(size=(4, 1)) + rng.normal(size=4)  # scaled rows and columns
    np.testing.assert_allclose(sinkhorn(moved, steps=300), p, rtol=1e-10)
    assert np.linalg.svd(p, compute_uv=False).max() < 1 + 1e-12


def test_a_step_multiplies_the_error_by_the_square_of_a_singular_value(rng):
    x = 2 * rng.normal(size=(5, 5))
    p = sinkhorn(x, steps=500)
    errors = [np.abs(sinkhorn(x, steps=steps) - p).max() for steps in (9, 10)]
    rate = np.linalg.svd(p, compute_uv=False)[1] ** 2
    np.testing.assert_allclose(errors[1] / errors[0], rate, rtol=0.02)


def test_scores_that_overflow():
    x = np.array([[1000.0, 0.0], [0.0, 1000.0]])
    np.testing.assert_array_equal(sinkhorn(x), np.eye(2))
    np.testing.assert_array_equal(sinkhorn(-x), 1 - np.eye(2))
    np.testing.assert_array_equal(sinkhorn_vjp(np.ones((2, 2)), x), np.zeros((2, 2)))


def test_special_values():
    x = np.array([[0.0, -np.inf], [0.0, 0.0]])
    assert sinkhorn(x)[0, 1] == 0
    np.testing.assert_allclose(sinkhorn(x, steps=1), [[2 / 3, 0.0], [1 / 3, 1.0]], rtol=1e-15)
    for bad in (np.nan, np.inf):
        assert np.isnan(sinkhorn([[bad, 0.0], [0.0, 0.0]])).all()
    assert np.isnan(sinkhorn([[-np.inf, -np.inf], [0.0, 0.0]])).all()
    assert sinkhorn(np.zeros((2, 0, 0))).shape == (2, 0, 0)


def test_errors():
    with pytest.raises(ValueError, match=r"must have square matrices, not shape \(2, 3\)"):
        sinkhorn(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="at least 2 axes"):
        sinkhorn_jvp(np.zeros(3), None)
    with pytest.raises(ValueError, match="steps"):
        sinkhorn_vjp(np.zeros((2, 2)), np.zeros((2, 2)), steps=0)
