"""Tests of dlref.positions._cope."""

import numpy as np
import peers
import pytest

import dlref.positions as P


def published(torch, last):
    """Return the layer as its authors describe it."""

    def f(q, scores, table):
        positions = torch.sigmoid(scores).flip(-1).cumsum(-1).flip(-1).clamp(max=last)
        low, high = positions.floor().long(), positions.ceil().long()
        products = q @ table.T
        w = positions - low
        return products.gather(-1, high) * w + products.gather(-1, low) * (1 - w)

    return f


@pytest.mark.parametrize("last", [2, 3, 20])
@pytest.mark.parametrize("causal", [False, True])
def test_against_pytorch(last, causal, rng):
    q, table = rng.normal(size=(2, 7, 4)), rng.normal(size=(last + 1, 4))
    scores = rng.normal(size=(2, 7, 7))
    if causal:
        scores = np.where(np.tri(7) > 0, scores, -np.inf)
    f = published(peers.torch, last)
    peers.assert_same("positions.cope", f, q, scores, table, rng=rng)


def test_open_gates_count_tokens(rng):
    q, table = rng.normal(size=(5, 3)), rng.normal(size=(9, 3))
    scores = np.where(np.tri(5) > 0, 50.0, -np.inf)
    i, j = np.tril_indices(5)
    want = np.einsum("ie,ie->i", q[i], table[i - j + 1])
    np.testing.assert_allclose(P.cope(q, scores, table)[i, j], want, rtol=0, atol=1e-13)


def test_far_positions_are_the_last_and_pass_no_gradient(rng):
    q, table = rng.normal(size=(1, 3)), rng.normal(size=(2, 3))
    scores = np.full((1, 6), 9.0)
    np.testing.assert_allclose(P.cope(q, scores, table)[0, :5], float(q[0] @ table[1]))
    ds = P.cope_vjp(np.ones((1, 6)), q, scores, table)[1]
    assert np.count_nonzero(ds) == 1  # the last key alone lies below position 1


def test_errors():
    q, s, a = np.ones((2, 3)), np.ones((2, 4)), np.ones((5, 3))
    with pytest.raises(
        ValueError, match=r"^Argument 'scores' must have shape \(2, 4\), not \(3, 4\)"
    ):
        P.cope(q, np.ones((3, 4)), a)
    with pytest.raises(
        ValueError, match=r"^Argument 'table' must have shape \(5, 3\), not \(5, 2\)"
    ):
        P.cope(q, s, np.ones((5, 2)))
    with pytest.raises(
        ValueError, match=r"^Argument 'table' must have shape \(1, 3\), not \(0, 3\)"
    ):
        P.cope(q, s, np.ones((0, 3)))
    with pytest.raises(ValueError, match=r"^Argument 'q' must have at least 2 axes"):
        P.cope(np.ones(3), s, a)


def test_vectors_of_no_channels():
    """A sum over no channels is 0: no position matters, and every gradient is empty or 0."""
    q, scores, table = np.ones((2, 3, 0)), np.ones((2, 3, 4)), np.ones((5, 0))
    dq, ds, dtable = P.cope_vjp(np.ones((2, 3, 4)), q, scores, table)
    assert dq.shape == q.shape
    assert dtable.shape == table.shape
    np.testing.assert_array_equal(ds, np.zeros((2, 3, 4)))
