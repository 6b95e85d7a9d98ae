"""Tests of maximum and minimum."""

import numpy as np
import pytest

from dlref import calculus

W = np.array([3.0, 1, 2, -np.inf, np.inf, np.inf])
X = np.array([1.0, 3, 2, 5, np.inf, -np.inf])


@pytest.mark.parametrize("stem", ["maximum", "minimum"])
def test_pytorch(stem, rng):
    import peers  # noqa: PLC0415  # only where PyTorch is

    w, x = np.rint(2 * rng.normal(size=(5, 4))), np.rint(2 * rng.normal(size=4))
    assert (w == x).any()
    peers.assert_same(f"calculus.{stem}", getattr(peers.torch, stem), w, x, rng=rng)


def test_ties_are_shared_and_infinities_compared():
    J_w, J_x = calculus.maximum_jacobian(W, X)
    np.testing.assert_array_equal(J_w.diagonal(), [1, 0, 0.5, 0, 0.5, 1])
    np.testing.assert_array_equal(J_x.diagonal(), [0, 1, 0.5, 1, 0.5, 0])


def test_max_pooling_of_pytorch_gives_a_tie_to_one_element():
    import peers  # noqa: PLC0415  # only where PyTorch is

    x = np.array([[7.0, 2.0, 7.0]])
    pool = peers.torch.nn.functional.max_pool1d
    _, [theirs] = peers.value_and_vjp(lambda x: pool(x, 3), x, dout=np.ones((1, 1)))
    assert sorted(theirs.ravel()) == [0.0, 0.0, 1.0]
    assert calculus.max_vjp([1.0], x, axis=1).tolist() == [[0.5, 0.0, 0.5]]


def test_minimum_and_maximum_share_out_the_cotangent(rng):
    dout = rng.normal(size=6)
    low, high = calculus.minimum_vjp(dout, W, X), calculus.maximum_vjp(dout, W, X)
    for dw, dx in (low, high):
        np.testing.assert_array_equal(dw + dx, dout)
    np.testing.assert_array_equal(low[0], high[1])


@pytest.mark.parametrize("pair", [(np.nan, 1.0), (1.0, np.nan), (np.nan, np.nan)])
def test_nan_makes_both_slopes_nan(pair):
    assert np.isnan(calculus.maximum_vjp(1.0, *pair)).all()
    assert np.isnan(calculus.minimum_vjp(1.0, *pair)).all()
