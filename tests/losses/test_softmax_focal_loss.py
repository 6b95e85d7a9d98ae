"""The focal loss of classes: automatic differentiation, long doubles, its limits, errors."""

import numpy as np
import pytest

from dlref.losses import (
    cross_entropy,
    cross_entropy_grad,
    sigmoid_focal_loss,
    softmax_focal_loss,
    softmax_focal_loss_grad,
    softmax_focal_loss_jvp,
    softmax_focal_loss_vjp,
)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
def test_automatic_differentiation_agrees(reduction, gamma, rng):
    """As the usual modules write it: the negative log-likelihood times a power of 1 - p."""
    peers = pytest.importorskip("peers")
    y, w = rng.integers(0, 6, 9), rng.uniform(0.5, 2, 6)
    y[[2, 5]] = -1

    def f(z):
        torch = peers.torch
        log_p = torch.log_softmax(z, -1)
        rows = [
            -w[c] * (1 - torch.exp(row[c])) ** gamma * row[c] if c >= 0 else 0 * row[0]
            for row, c in zip(log_p, y, strict=True)
        ]
        loss = torch.stack(rows)
        return loss if reduction == "none" else loss.sum() / (7 if reduction == "mean" else 1)

    options = {"gamma": gamma, "weight": w, "ignore_index": -1, "reduction": reduction}
    z = 2 * rng.normal(size=(9, 6))
    peers.assert_same("losses.softmax_focal_loss", f, z, constants=(y,), rng=rng, **options)


def test_without_a_focus_it_is_cross_entropy(rng):
    z, y = rng.normal(size=(8, 5)), rng.integers(0, 5, 8)
    y[3] = -100
    assert softmax_focal_loss(z, y, gamma=0) == pytest.approx(cross_entropy(z, y), rel=1e-15)
    got, want = softmax_focal_loss_grad(z, y, gamma=0), cross_entropy_grad(z, y)
    np.testing.assert_allclose(got, want, rtol=1e-15, atol=1e-17)


def test_two_classes_are_one_question(rng):
    x, t = rng.normal(size=20), rng.integers(0, 2, 20)
    z = np.stack([np.zeros(20), x], axis=-1)
    got = softmax_focal_loss(z, t, gamma=1.5, reduction="none")
    want = sigmoid_focal_loss(x, t, gamma=1.5, alpha=-1, reduction="none")
    np.testing.assert_allclose(got, want, rtol=4e-15)


def test_digits_where_the_right_class_is_nearly_certain():
    """Against long doubles: 1 - p has no digits left beyond 38."""
    for lead in (40.0, 300.0):
        q = np.exp(-np.longdouble(lead))  # of the other class, but for its square
        b = np.log1p(q)
        got = softmax_focal_loss([lead, 0.0], 0, gamma=0.5)
        assert got == pytest.approx(float(q**0.5 * b), rel=4e-15)
        slope = float(q**0.5 * q * 1.5)
        got = softmax_focal_loss_grad([lead, 0.0], 0, gamma=0.5)
        np.testing.assert_allclose(got, [-slope, slope], rtol=4e-15)


def test_ends():
    """At a probability of 1 nothing is left; at 0 the loss is cross-entropy."""
    assert softmax_focal_loss([2000.0, 0.0], 0) == 0
    np.testing.assert_array_equal(softmax_focal_loss_grad([2000.0, 0.0], 0), [0, 0])
    np.testing.assert_array_equal(softmax_focal_loss_grad([2000.0, 0.0], 0, gamma=0), [0, 0])
    assert softmax_focal_loss([0.0, 2000.0], 0) == 2000
    np.testing.assert_array_equal(softmax_focal_loss_grad([0.0, 2000.0], 0), [-1, 1])
    impossible = [-np.inf, 0.0]
    assert softmax_focal_loss(impossible, 0) == np.inf
    np.testing.assert_array_equal(softmax_focal_loss_grad(impossible, 0), [-1, 1])
    assert softmax_focal_loss(impossible, 0, weight=[0.0, 1.0]) == 0
    assert np.isnan(softmax_focal_loss([np.nan, 0.0], 0))
    assert np.isnan(softmax_focal_loss([[1.0, 0.0]], [-100]))
    assert softmax_focal_loss_jvp(([1.0, 0.0], 0), (None, None)) == 0


def test_a_wrong_row_gets_more_gradient_than_from_cross_entropy():
    z = np.log([1.0, 9.0])
    longer = softmax_focal_loss_grad(z, 0) / cross_entropy_grad(z, 0)
    want = 0.81 * (1 + 2 * np.log(10) / 9)
    np.testing.assert_allclose(longer, want, rtol=1e-14)
    assert want > 1.2


def test_errors():
    z, y = np.zeros((2, 3)), [0, 2]
    with pytest.raises(ValueError, match="'gamma' must be at least 0, not -1"):
        softmax_focal_loss(z, y, gamma=-1)
    with pytest.raises(ValueError, match="'target' must hold classes from 0 to 2"):
        softmax_focal_loss(z, [0, 3])
    with pytest.raises(ValueError, match=r"'weight'.* shape"):
        softmax_focal_loss(z, y, weight=[1.0])
    with pytest.raises(ValueError, match="'reduction'"):
        softmax_focal_loss_grad(z, y, reduction="none")
    with pytest.raises(ValueError, match=r"'dout'.* shape"):
        softmax_focal_loss_vjp([1.0], z, y)
    with pytest.raises(ValueError, match=r"'tangents\[0\]'"):
        softmax_focal_loss_jvp((z, y), (np.zeros(3), None))
