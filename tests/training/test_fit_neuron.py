"""Tests of dlref.training._fit_neuron."""

import numpy as np
import pytest

from dlref.training import FitResult, fit_neuron

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
Y = np.array([10.0, 20.0, 30.0])
W = np.random.RandomState(42).randn(3)  # the stream the values are known for


def by_hand(epochs, eta):
    """Run the loop one number at a time."""
    w, b, losses = list(map(float, W)), 0.0, []
    for _ in range(epochs):
        loss, dw, db = 0.0, [0.0] * 3, 0.0
        for x, y in zip(X.tolist(), Y.tolist(), strict=True):
            z = sum(wi * xi for wi, xi in zip(w, x, strict=True)) + b
            e = max(0.0, z) - y
            loss += e * e / 3
            if z > 0:
                dw = [d + 2 / 3 * e * xi for d, xi in zip(dw, x, strict=True)]
                db += 2 / 3 * e
        losses.append(loss)
        w = [wi - eta * d for wi, d in zip(w, dw, strict=True)]
        b -= eta * db
    return np.array(w), b, np.array(losses)


def test_the_losses_and_weights_of_the_note():
    fit = fit_neuron(X, Y, W, 0.0, learning_rate=0.01, epochs=100)
    epochs = [0, 9, 19, 29, 39, 49, 59, 69, 79, 89, 99]
    printed = [252.0780, 45.8938, 7.5255, 1.7175, 0.7380, 0.4949, 0.3805, 0.3010, 0.2394]
    assert np.round(fit.loss[epochs], 4).tolist() == [*printed, 0.1907, 0.1518]
    np.testing.assert_allclose(W, [0.49671415, -0.1382643, 0.64768854], atol=5e-9)
    np.testing.assert_allclose(fit.w, [0.55084591, 0.6847681, 2.23962159], atol=5e-9)
    np.testing.assert_allclose(fit.b, 0.7689006443276262, rtol=1e-12)


def test_against_the_loop_by_hand():
    fit = fit_neuron(X, Y, W, 0.0, learning_rate=0.01, epochs=100)
    w, b, losses = by_hand(100, 0.01)
    np.testing.assert_allclose(fit.w, w, rtol=1e-12)
    np.testing.assert_allclose(fit.b, b, rtol=1e-12)
    np.testing.assert_allclose(fit.loss, losses, rtol=1e-12)


def test_the_rate_at_which_it_diverges():
    design = np.column_stack([X, np.ones(3)])
    limit = 2 / np.linalg.eigvalsh(2 / 3 * design.T @ design).max()
    np.testing.assert_allclose(limit, 0.0105, atol=5e-5)
    right = fit_neuron(X, Y, W, 0.0, learning_rate=0.99 * limit, epochs=50)
    assert np.all(np.diff(right.loss) < 0)


def test_float32_steps_in_float64():
    fit = fit_neuron(
        *(a.astype(np.float32) for a in (X, Y, W)), 0.0, learning_rate=0.01, epochs=100
    )
    wide = fit_neuron(X, Y, W.astype(np.float32), 0.0, learning_rate=0.01, epochs=100)
    assert fit.loss.dtype == fit.w.dtype == fit.b.dtype == np.float32
    np.testing.assert_array_equal(fit.w, wide.w.astype(np.float32))


def test_callback_and_no_epochs():
    seen = []
    fit = fit_neuron(
        X, Y, W, 0, learning_rate=0.01, epochs=3, callback=lambda *a: seen.append(a[:2])
    )
    assert seen == [(k + 1, loss) for k, loss in enumerate(fit.loss)]
    fit = fit_neuron(X, Y, W, 0, learning_rate=0.01, epochs=0)
    assert isinstance(fit, FitResult)
    np.testing.assert_array_equal(fit.w, W)
    assert not np.shares_memory(fit.w, W)


def test_errors():
    with pytest.raises(ValueError, match=r"'w' must have shape \(3,\)"):
        fit_neuron(X, Y, W[1:], 0, learning_rate=0.01, epochs=0)
    with pytest.raises(TypeError, match="'epochs' must be an integer"):
        fit_neuron(X, Y, W, 0, learning_rate=0.01, epochs=1.0)
    with pytest.raises(ValueError, match="'epochs' must be at least 0"):
        fit_neuron(X, Y, W, 0, learning_rate=0.01, epochs=-1)
    with pytest.raises(ValueError, match="'learning_rate' must be at least 0"):
        fit_neuron(X, Y, W, 0, learning_rate=-0.01, epochs=1)
