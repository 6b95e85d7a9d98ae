"""Tests of dlref.activations._sparsemax."""

import numpy as np
import pytest

import dlref.activations as A
from dlref.activations import sparsemax, sparsemax_jacobian, sparsemax_jvp, sparsemax_vjp


def by_sorting(torch, x):
    """Sparsemax as libraries of PyTorch have it, differentiated by autograd."""
    order = x.sort(-1, descending=True).values
    k = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    size = (1 + k * order > order.cumsum(-1)).sum(-1, keepdim=True)
    tau = (order.cumsum(-1).gather(-1, size - 1) - 1) / size
    return torch.clamp(x - tau, min=0)


@pytest.mark.parametrize("scale", [0.05, 0.5, 5.0])
def test_pytorch(scale, rng):
    peers = pytest.importorskip("peers")
    x = scale * rng.normal(size=(6, 40))
    peer = lambda t: by_sorting(peers.torch, t)  # noqa: E731
    peers.assert_same("activations.sparsemax", peer, x, rng=rng)


def test_is_the_nearest_point_of_the_simplex(rng):
    x = rng.normal(size=(100, 6))
    p = sparsemax(x)
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-15)
    assert p.min() == 0
    others = rng.dirichlet(np.ones(6), size=(100, 50))
    nearest = np.sum((p - x) ** 2, -1)
    assert (nearest[:, None] <= np.sum((others - x[:, None]) ** 2, -1)).all()


def test_two_scores_are_a_hard_sigmoid(rng):
    x = rng.normal(size=(200, 2))
    want = A.hard_sigmoid(x[:, 0] - x[:, 1], alpha=0.5, beta=0.5)
    np.testing.assert_allclose(sparsemax(x)[:, 0], want, atol=1e-16)


def test_only_differences_count(rng):
    x = rng.integers(-5, 5, size=(7, 40)) / 16
    np.testing.assert_array_equal(sparsemax(x), sparsemax(x + 1024))


def test_probabilities_are_their_own_projection(rng):
    p = rng.dirichlet(np.ones(5), size=20)
    np.testing.assert_allclose(sparsemax(p), p, atol=2e-16)


def test_ties_share(rng):
    np.testing.assert_allclose(sparsemax([2.0, 2.0, 2.0, 0.5]), [1 / 3, 1 / 3, 1 / 3, 0])


def test_a_score_at_the_threshold_is_outside():
    x = [1.0, 0.0]  # the threshold is 0
    np.testing.assert_array_equal(sparsemax(x), [1, 0])
    np.testing.assert_array_equal(sparsemax_jacobian(x), np.zeros((2, 2)))
    np.testing.assert_array_equal(sparsemax_vjp([5.0, 7.0], x), [0, 0])


def test_the_jacobian_is_a_projection_whose_rank_is_one_less_than_the_support(rng):
    x = rng.normal(size=(30, 7))
    jac, support = sparsemax_jacobian(x), (sparsemax(x) > 0).sum(-1)
    np.testing.assert_allclose(jac @ jac, jac, atol=1e-15)
    np.testing.assert_allclose(np.trace(jac, axis1=-2, axis2=-1), support - 1, atol=1e-14)


def test_other_axes(rng):
    x, v = rng.normal(size=(2, 3, 4))
    np.testing.assert_array_equal(sparsemax(x, axis=0), sparsemax(x.T).T)
    np.testing.assert_array_equal(sparsemax_jvp(x, v, axis=0), sparsemax_jvp(x.T, v.T).T)
    np.testing.assert_array_equal(sparsemax_jacobian(x, axis=0), sparsemax_jacobian(x.T))


def test_special_values():
    np.testing.assert_array_equal(sparsemax([-np.inf, 0.0, 0.5]), [0, 0.25, 0.75])
    np.testing.assert_array_equal(sparsemax([1e308, -1e308]), [1, 0])
    for bad in ([0.0, np.nan], [0.0, np.inf], [-np.inf, -np.inf]):
        assert np.isnan(sparsemax(bad)).all()
        assert np.isnan(sparsemax_vjp([1.0, 2.0], bad)).all()


@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (0,)])
def test_empty(shape):
    assert sparsemax(np.zeros(shape)).shape == shape
    assert sparsemax_vjp(np.zeros(shape), np.zeros(shape)).shape == shape
    assert sparsemax_jacobian(np.zeros(shape)).shape == (*shape, shape[-1])


def test_errors():
    with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 1 axis"):
        sparsemax(1.0)
    with pytest.raises(TypeError, match=r"^Argument 'axis' must be an integer, not"):
        sparsemax_jacobian(np.ones((2, 3)), axis=(0, 1))
