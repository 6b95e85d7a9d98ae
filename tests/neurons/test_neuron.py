"""Tests of dlref.neurons._neuron."""

from functools import partial

import numpy as np
import pytest

from dlref import activations
from dlref.activations._by_name import ACTIVATIONS
from dlref.neurons import neuron, neuron_grad, neuron_jvp, neuron_vjp

X = np.array([[1.0, 2.0, 3.0], [1.0, 8.0, 3.0], [-2.0, 0.5, 1.0]])
W = np.array([0.5, -1.0, 2.0])
B = 0.1
#: Element-wise functions with a second derivative that are no value of `activation`.
NOT_OFFERED = {"squareplus"}  # no published model has it


def test_an_activation_is_a_function_of_one_number():
    assert {"identity", "relu", "gelu", "softplus", "tanh"} < set(ACTIVATIONS)
    assert not {"softmax", "prelu", "swiglu", "logsumexp"} & set(ACTIVATIONS)


def test_each_function_with_a_second_derivative_is_offered_or_left_out_on_purpose():
    """Whoever adds one decides: a name in the table of activations is public in all blocks."""
    smooth = {n.removesuffix("_deriv2") for n in dir(activations) if n.endswith("_deriv2")}
    assert smooth - set(ACTIVATIONS) == NOT_OFFERED
    assert set(ACTIVATIONS) - smooth == {"identity", "gelu_tanh"}
    assert len(set(ACTIVATIONS)) == len(ACTIVATIONS)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_and_its_slope(activation, assert_close):
    z = X @ W + B
    f, slope = np.positive, np.ones_like
    if activation == "gelu_tanh":
        f, slope = (
            partial(g, approximate="tanh") for g in (activations.gelu, activations.gelu_deriv)
        )
    elif activation != "identity":
        f, slope = getattr(activations, activation), getattr(activations, f"{activation}_deriv")
    assert_close(neuron(X, W, B, activation=activation), f(z))
    da_dw, da_db = neuron_grad(X, W, B, activation=activation)
    assert_close(da_db, slope(z))
    assert_close(da_dw, slope(z)[:, None] * X)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "softplus", "gelu"])
def test_pytorch(activation, rng):
    import peers  # noqa: PLC0415  # only where PyTorch is

    f = getattr(peers.torch.nn.functional, activation)
    inputs = rng.normal(size=(7, 3)), rng.normal(size=3), rng.normal()
    peers.assert_same(
        "neurons.neuron", lambda x, w, b: f(x @ w + b), *inputs, rng=rng, activation=activation
    )


def test_the_grad_is_the_vjp_of_each_row(rng, assert_close):
    rows = neuron_grad(X, W, B, activation="tanh")
    for n, x in enumerate(X):
        _, dw, db = neuron_vjp(1.0, x, W, B, activation="tanh")
        assert_close((rows[0][n], rows[1][n]), (dw, db))


def test_at_the_kink_the_slope_is_zero():
    da_dw, da_db = neuron_grad([1.0, -1.0], [2.0, 2.0], 0.0)
    np.testing.assert_array_equal(da_dw, [0, 0])
    assert da_db == 0
    assert neuron_jvp(([1.0], [0.0], 0.0), (None, None, 1.0)) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, W, B), "'x' must have at least 1 axis"),
        ((X, W[:2], B), r"'w' must have shape \(3,\), not \(2,\)"),
        ((X, W, [B]), r"'b' must have shape \(\), not \(1,\)"),
    ],
)
def test_shapes_that_do_not_fit(arguments, message):
    x, w, b = arguments
    for call in (neuron, neuron_grad, lambda *a: neuron_vjp(np.ones(3), *a)):
        with pytest.raises(ValueError, match=message):
            call(x, w, b)
    with pytest.raises(ValueError, match=r"'primals\[.\]' must have"):
        neuron_jvp(arguments, (None, None, None))


def test_unknown_activations():
    for call in (
        lambda **k: neuron(X, W, B, **k),
        lambda **k: neuron_grad(X, W, B, **k),
        lambda **k: neuron_vjp(np.ones(3), X, W, B, **k),
        lambda **k: neuron_jvp((X, W, B), (None, None, None), **k),
    ):
        with pytest.raises(ValueError, match=r"'activation' must be 'identity', .* not 'softmax'"):
            call(activation="softmax")
