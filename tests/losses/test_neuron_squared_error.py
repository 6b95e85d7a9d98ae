"""Tests of dlref.losses._neuron_squared_error."""

import numpy as np
import pytest

from dlref.losses import neuron_squared_error, neuron_squared_error_grad, squared_error_vjp
from dlref.neurons import neuron, neuron_vjp

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
Y = np.array([10.0, 20.0, 30.0])


def test_the_values_of_the_note():
    w, b = [0.5, -1.0, 2.0], 0.1
    np.testing.assert_allclose(neuron_squared_error(X, Y, w, b), 138.97666666666666, rtol=1e-15)
    dw, db = neuron_squared_error_grad(X, Y, w, b)
    np.testing.assert_allclose(dw, [-109.2, -131.0, -152.8], rtol=1e-15)
    np.testing.assert_allclose(db, -21.8, rtol=1e-15)


def test_pytorch(rng, assert_close):
    import peers  # noqa: PLC0415  # only where PyTorch is

    x, y, w, b = rng.normal(size=(9, 4)), rng.normal(size=9), rng.normal(size=4), rng.normal()

    def f(w, b):
        return ((peers.torch.tensor(x) @ w + b).relu() - peers.torch.tensor(y)).square().mean()

    out, grads = peers.value_and_vjp(f, w, b)
    assert_close(neuron_squared_error(x, y, w, b), out)
    assert_close(neuron_squared_error_grad(x, y, w, b), grads)


def test_the_chain_of_its_parts(rng, assert_close):
    x, y, w, b = rng.normal(size=(9, 4)), rng.normal(size=9), rng.normal(size=4), rng.normal()
    da, _ = squared_error_vjp(1.0, neuron(x, w, b), y)
    _, dw, db = neuron_vjp(da, x, w, b)
    assert_close(neuron_squared_error_grad(x, y, w, b), (dw, db))


def test_the_dead_half_plane():
    dw, db = neuron_squared_error_grad(X, Y, [-1.0, -1.0, -1.0], 0.0)
    np.testing.assert_array_equal(dw, [0, 0, 0])
    assert db == 0
    dw, db = neuron_squared_error_grad([[1.0]], [1.0], [0.0], 0.0)  # the kink itself
    assert dw[0] == 0
    assert db == 0


@pytest.mark.parametrize(("w", "b", "arrives"), [(-2.5, 4.0, True), (-4.0, 4.0, False)])
def test_an_active_neuron_may_stop_where_one_example_is_fitted(w, b, arrives):
    x, y = np.array([[0.5], [1.0], [1.5], [2.0]]), np.array([2.0, 3.0, 4.0, 5.0])
    w = np.array([w])
    assert neuron(x, w, b).any()
    for _ in range(3000):
        dw, db = neuron_squared_error_grad(x, y, w, b)
        w, b = w - 0.05 * dw, b - 0.05 * db
    assert (neuron_squared_error(x, y, w, b) < 1e-6) == arrives


def test_no_examples():
    assert np.isnan(neuron_squared_error(np.ones((0, 2)), [], [1.0, 1.0], 0.0))


@pytest.mark.parametrize("f", [neuron_squared_error, neuron_squared_error_grad])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X[0], Y, X[0], 0), r"'X' must have shape \(N, D\), not \(3,\)"),
        ((X, Y[1:], X[0], 0), r"'y' must have shape \(3,\), not \(2,\)"),
        ((X, Y, X[0, 1:], 0), r"'w' must have shape \(3,\), not \(2,\)"),
        ((X, Y, X[0], [0]), r"'b' must have shape \(\), not \(1,\)"),
    ],
)
def test_shapes_that_do_not_fit(f, arguments, message):
    with pytest.raises(ValueError, match=message):
        f(*arguments)


def test_squares_whose_sum_overflows_have_a_mean():
    loss = neuron_squared_error(np.zeros((4, 1)), np.full(4, 1e154), [0.0], 0.0)
    np.testing.assert_allclose(loss, 1e308, rtol=1e-15)
