"""The loss of a perceptron: PyTorch with all gradients, and the parts it is made of."""

import numpy as np
import peers
import pytest
import trees

from dlref.activations._by_name import ACTIVATIONS
from dlref.losses import cross_entropy, squared_error
from dlref.neurons import LinearParams, mlp, mlp_jvp, mlp_vjp
from dlref.training import mlp_loss, mlp_loss_grad, mlp_loss_hvp, mlp_loss_value_and_grad


@pytest.fixture
def params(rng):
    return tuple(
        LinearParams(rng.normal(size=(n, m)) / 2, rng.normal(size=n) / 3)
        for n, m in ((6, 4), (5, 6), (3, 5))
    )


def batch(rng, loss):
    x = rng.normal(size=(7, 4))
    return x, rng.integers(0, 3, 7) if loss == "cross_entropy" else rng.normal(size=(7, 3))


def loss_of_torch(x, targets, loss, activation):
    """Return PyTorch's loss as a function of the weights and biases, one after the other."""
    functional = peers.torch.nn.functional
    criterion = functional.cross_entropy if loss == "cross_entropy" else functional.mse_loss

    def of(*flat):
        h = peers.torch.tensor(x)
        for w, b in zip(flat[:-2:2], flat[1:-2:2], strict=True):
            h = getattr(functional, activation)(functional.linear(h, w, b))
        return criterion(functional.linear(h, *flat[-2:]), peers.torch.tensor(targets))

    return of


@pytest.mark.parametrize("loss", ["cross_entropy", "squared_error"])
class TestLoss:
    def test_is_that_of_the_outputs(self, rng, params, loss):
        x, targets = batch(rng, loss)
        want = {"cross_entropy": cross_entropy, "squared_error": squared_error}[loss]
        got = mlp_loss(x, targets, params, loss=loss, activation="tanh")
        assert got == want(mlp(x, params, activation="tanh"), targets)
        value, grads = mlp_loss_value_and_grad(x, targets, params, loss=loss, activation="tanh")
        assert value == got
        same = mlp_loss_grad(x, targets, params, loss=loss, activation="tanh")
        for a, b in zip(trees.leaves(grads), trees.leaves(same), strict=True):
            np.testing.assert_array_equal(a, b)

    def test_gradient_is_a_difference_quotient(self, rng, params, loss):
        x, targets = batch(rng, loss)
        dropout = (np.array([2.0, 0, 2, 2, 0, 2]), None)
        options = {"loss": loss, "activation": "silu", "dropout": dropout}
        grads = mlp_loss_grad(x, targets, params, **options)
        move = trees.mapped(lambda a: rng.normal(size=a.shape), params)
        flat, along, h = trees.leaves(params), trees.leaves(move), 1e-4

        def at(t):
            moved = trees.filled(params, [a + t * v for a, v in zip(flat, along, strict=True)])
            return float(mlp_loss(x, targets, moved, **options))

        want = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
        got = sum(np.sum(g * v) for g, v in zip(trees.leaves(grads), along, strict=True))
        assert got == pytest.approx(want, rel=1e-9)

    def test_against_pytorch(self, rng, params, loss):
        x, targets = batch(rng, loss)
        theirs = loss_of_torch(x, targets, loss, "relu")
        value, grads = peers.value_and_vjp(theirs, *trees.leaves(params))
        got, dparams = mlp_loss_value_and_grad(x, targets, params, loss=loss)
        assert got == pytest.approx(value, rel=4e-15)
        for g, w in zip(trees.leaves(dparams), grads, strict=True):
            trees.assert_close(g, w, 4e-15)

    def test_hessian_against_pytorch(self, rng, params, loss):
        torch = peers.torch
        x, targets = batch(rng, loss)
        direction = trees.drawn(rng, params)
        theirs = loss_of_torch(x, targets, loss, "silu")
        flat, along = ([torch.tensor(a) for a in trees.leaves(t)] for t in (params, direction))
        _, want = torch.autograd.functional.hvp(theirs, (*flat,), (*along,))
        got = mlp_loss_hvp(x, targets, params, direction, loss=loss, activation="silu")
        trees.assert_close(got, tuple(w.numpy() for w in want), 4e-15)

    def test_gauss_newton_sees_the_loss_through_the_network(self, rng, params, loss):
        x, targets = batch(rng, loss)
        direction = trees.drawn(rng, params)
        options = {"activation": "tanh", "dropout": (np.array([2.0, 0, 2, 2, 0, 2]), None)}
        dz = mlp_jvp((x, params), (None, direction), **options)
        if loss == "cross_entropy":
            p = np.exp(mlp(x, params, **options))
            p /= p.sum(axis=-1, keepdims=True)
            dz = (p * dz - p * np.sum(p * dz, axis=-1, keepdims=True)) / 7
        else:
            dz = 2 * dz / 21
        _, want = mlp_vjp(dz, x, params, **options)
        got = mlp_loss_hvp(x, targets, params, direction, loss=loss, gauss_newton=True, **options)
        trees.assert_close(got, want, 4e-15)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_hessian_is_a_difference_of_gradients(rng, params, activation):
    x, direction = rng.normal(size=(7, 4)), trees.drawn(rng, params)
    at = (x, rng.integers(0, 3, 7))
    forward, back = (
        mlp_loss_grad(*at, trees.filled(params, moved), activation=activation)
        for moved in (
            [p + h * v for p, v in zip(*map(trees.leaves, (params, direction)), strict=True)]
            for h in (1e-5, -1e-5)
        )
    )
    pairs = zip(trees.leaves(forward), trees.leaves(back), strict=True)
    want = tuple((a - b) / 2e-5 for a, b in pairs)
    trees.assert_close(mlp_loss_hvp(*at, params, direction, activation=activation), want, 1e-6)


def test_a_missing_direction_is_zero_and_ignored_rows_have_no_curvature(rng, params):
    x, classes = rng.normal(size=(7, 4)), np.array([0, -100, 2, 1, -100, 0, 1])
    direction = None, LinearParams(None, rng.normal(size=5)), None
    zeros = trees.mapped(np.zeros_like, params)
    filled = zeros[0], LinearParams(zeros[1].weight, direction[1].bias), zeros[2]
    got = mlp_loss_hvp(x, classes, params, direction)
    kept = mlp_loss_hvp(x[classes >= 0], classes[classes >= 0], params, filled)
    trees.assert_close(got, kept, 4e-15)
    shares = np.eye(3)[classes[classes >= 0]]
    trees.assert_close(mlp_loss_hvp(x[classes >= 0], 2 * shares, params, filled), tuple(
        LinearParams(2 * w, 2 * b) for w, b in kept
    ), 4e-15)  # fmt: skip


def test_a_direction_of_another_shape_is_refused(params):
    with pytest.raises(ValueError, match=r"'direction' must be a tuple of 3, not a tuple of 2"):
        mlp_loss_hvp(np.ones((2, 4)), [0, 1], params, params[:2])
    other = (*params[:2], LinearParams(np.ones((3, 4)), None))
    with pytest.raises(ValueError, match=r"'direction\.2\.weight' must have shape \(3, 5\)"):
        mlp_loss_hvp(np.ones((2, 4)), [0, 1], params, other)


def test_an_unknown_loss_is_refused(rng, params):
    for f in (mlp_loss, mlp_loss_grad):
        with pytest.raises(ValueError, match="'loss' must be 'cross_entropy' or 'squared_error'"):
            f(np.ones((2, 4)), [0, 1], params, loss="hinge")
