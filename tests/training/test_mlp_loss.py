"""The loss of a perceptron: PyTorch with all gradients, and the parts it is made of."""

import numpy as np
import peers
import pytest
import trees

from dlref.losses import cross_entropy, squared_error
from dlref.neurons import LinearParams, mlp
from dlref.training import mlp_loss, mlp_loss_grad, mlp_loss_value_and_grad


@pytest.fixture
def params(rng):
    return tuple(
        LinearParams(rng.normal(size=(n, m)) / 2, rng.normal(size=n) / 3)
        for n, m in ((6, 4), (5, 6), (3, 5))
    )


def batch(rng, loss):
    x = rng.normal(size=(7, 4))
    return x, rng.integers(0, 3, 7) if loss == "cross_entropy" else rng.normal(size=(7, 3))


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
        torch = peers.torch
        x, targets = batch(rng, loss)
        target, functional = torch.tensor(targets), torch.nn.functional
        criterion = functional.cross_entropy if loss == "cross_entropy" else functional.mse_loss

        def theirs(*flat):
            h = torch.tensor(x)
            for w, b in zip(flat[:-2:2], flat[1:-2:2], strict=True):
                h = torch.relu(functional.linear(h, w, b))
            return criterion(functional.linear(h, *flat[-2:]), target)

        value, grads = peers.value_and_vjp(theirs, *trees.leaves(params))
        got, dparams = mlp_loss_value_and_grad(x, targets, params, loss=loss)
        assert got == pytest.approx(value, rel=4e-15)
        for g, w in zip(trees.leaves(dparams), grads, strict=True):
            trees.assert_close(g, w, 4e-15)


def test_an_unknown_loss_is_refused(rng, params):
    for f in (mlp_loss, mlp_loss_grad):
        with pytest.raises(ValueError, match="'loss' must be 'cross_entropy' or 'squared_error'"):
            f(np.ones((2, 4)), [0, 1], params, loss="hinge")
