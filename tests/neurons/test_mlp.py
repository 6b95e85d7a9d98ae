"""The multilayer perceptron: the formula, PyTorch with all gradients, the recursion of deltas."""

from itertools import pairwise

import numpy as np
import peers
import pytest
import trees

from dlref.formulas import neurons as formulas
from dlref.neurons import LinearParams, linear_vjp, mlp, mlp_deltas, mlp_jvp, mlp_vjp
from dlref.normalization import layer_norm, layer_norm_vjp


def layers(rng, *widths, biases=True):
    return tuple(
        LinearParams(
            rng.normal(size=(n, m)) / np.sqrt(m), rng.normal(size=n) / 3 if biases else None
        )
        for m, n in pairwise(widths)
    )


def network(*widths, shape=(2, 3), biases=True, **options):
    def problem(rng):
        x = rng.normal(size=(*shape, widths[0]))
        return (x, layers(rng, *widths, biases=biases)), (), options

    return problem


class TestMLP(trees.Contract):
    maps = mlp, mlp_vjp, mlp_jvp, formulas.mlp
    problems = [  # noqa: RUF012
        network(4, 5, 3, activation="gelu"),
        network(4, 3),
        network(4, 6, 2, 5, 3, activation="tanh", shape=()),
        network(2, 5, 5, 1, activation="sigmoid", biases=False),
        network(3, 4, 2, 2, dropout=(np.array([2.0, 0, 2, 2]), None), activation="silu"),
        network(3, 4, 2, dropout=(np.array([[[2.0], [0], [1]]] * 2),), activation="softsign"),
        network(3, 4, 2, shape=(0,)),
    ]


@pytest.mark.broad
@pytest.mark.parametrize(("gain", "least", "most"), [(1.0, 0, 1e-17), (10.15, 0.05, 20)])
def test_what_thirty_layers_of_sigmoids_leave(rng, gain, least, most):
    params = tuple(LinearParams(gain * rng.normal(size=(64, 64)) / 8) for _ in range(31))
    x, u = rng.normal(size=(2, 32, 64))
    deltas = mlp_deltas(u, x, params, activation="sigmoid")
    assert least < np.std(deltas[0]) / np.std(deltas[-1]) < most


def test_ten_sigmoids_at_zero_reach_the_bound():
    layer = LinearParams(np.ones((1, 1)), np.array([-0.5]))
    first = LinearParams(np.ones((1, 1)), np.zeros(1))
    deltas = mlp_deltas([1.0], [0.0], (first, *9 * [layer]), activation="sigmoid")
    assert deltas[0] == 4.0**-9


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu", "sigmoid"])
def test_against_pytorch(rng, activation):
    torch = peers.torch
    widths = 6, 9, 9, 4
    x, u, params = rng.normal(size=(5, 6)), rng.normal(size=(5, 4)), layers(rng, *widths)
    f = getattr(torch, activation, None) or getattr(torch.nn.functional, activation)
    flat = [a for layer in params for a in layer]

    def theirs(x, *flat):
        for w, b in zip(flat[:-2:2], flat[1:-2:2], strict=True):
            x = f(torch.nn.functional.linear(x, w, b))
        return torch.nn.functional.linear(x, *flat[-2:])

    out, (dx, *grads) = peers.value_and_vjp(theirs, x, *flat, dout=u)
    trees.assert_close(mlp(x, params, activation=activation), out, 4e-15)
    got, dparams = mlp_vjp(u, x, params, activation=activation)
    for g, w in zip([got, *trees.leaves(dparams)], [dx, *grads], strict=True):
        trees.assert_close(g, w, 4e-15)


class TestDeltas:
    def test_are_the_gradients_of_the_biases_row_by_row(self, rng):
        x, u, params = rng.normal(size=(4, 3)), rng.normal(size=(4, 2)), layers(rng, 3, 5, 5, 2)
        deltas = mlp_deltas(u, x, params, activation="tanh")
        _, grads = mlp_vjp(u, x, params, activation="tanh")
        for delta, grad in zip(deltas, grads, strict=True):
            np.testing.assert_allclose(delta.sum(0), grad.bias, rtol=1e-13)

    def test_recursion(self, rng):
        x, u, params = rng.normal(size=(4, 3)), rng.normal(size=(4, 2)), layers(rng, 3, 5, 5, 2)
        deltas = mlp_deltas(u, x, params, activation="tanh")
        h = x
        for l in range(2):
            z = h @ params[l].weight.T + params[l].bias
            h = np.tanh(z)
            back = deltas[l + 1] @ params[l + 1].weight
            np.testing.assert_allclose(deltas[l], (1 - h**2) * back, rtol=1e-13)

    def test_bound_of_a_deep_sigmoid(self, rng):
        params = tuple(LinearParams(np.linalg.qr(rng.normal(size=(8, 8)))[0]) for _ in range(10))
        u = rng.normal(size=8)
        deltas = mlp_deltas(u, rng.normal(size=8), params, activation="sigmoid")
        sizes = [np.linalg.norm(d) for d in deltas]
        assert sizes[0] < 0.25**9 * sizes[-1]
        assert all(a < b for a, b in pairwise(sizes))

    def test_of_one_layer_is_a_copy_of_the_cotangent(self, rng):
        x, u, params = rng.normal(size=(4, 3)), rng.normal(size=(4, 2)), layers(rng, 3, 2)
        [delta] = mlp_deltas(u, x, params)
        np.testing.assert_array_equal(delta, u)
        assert not np.shares_memory(delta, u)
        dx, _ = mlp_vjp(u, x, params)
        np.testing.assert_array_equal(dx, linear_vjp(u, x, params[0].weight, params[0].bias)[0])


class TestErrors:
    def test_of_params(self, rng):
        x, (one, two) = rng.normal(size=(2, 3)), layers(rng, 3, 4, 2)
        for params in ((), one, None):
            with pytest.raises(TypeError, match="'params' must be a tuple of LinearParams"):
                mlp(x, params)
        with pytest.raises(ValueError, match=r"'params\[1\].weight' must have shape \(4, 4\), not"):
            mlp(x, (one, LinearParams(np.ones((4, 3)))))
        with pytest.raises(ValueError, match=r"'params\[0\].weight' must have 2 axes"):
            mlp(x, (LinearParams(np.ones(3)), two))
        with pytest.raises(ValueError, match=r"'params\[1\].bias' must have shape \(2,\), not"):
            mlp(x, (one, two._replace(bias=np.ones(3))))
        with pytest.raises(ValueError, match=r"'primals.x' must have at least 1"):
            mlp_jvp((np.ones(()), (one, two)), (None, None))

    def test_of_options(self, rng):
        x, params = rng.normal(size=(2, 3)), layers(rng, 3, 4, 2)
        with pytest.raises(ValueError, match="'activation' must be"):
            mlp(x, params, activation="cube")
        with pytest.raises(ValueError, match="'dropout' must be a tuple of 1 arrays or None"):
            mlp(x, params, dropout=(None, None))
        with pytest.raises(ValueError, match=r"'dropout\[0\]' must "):
            mlp(x, params, dropout=(np.ones(5),))
        for f in (mlp_vjp, mlp_deltas):
            with pytest.raises(ValueError, match=r"'dout' must have shape \(2, 2\), not \(2, 3\)"):
                f(x, x, params)


@pytest.mark.parametrize(("gain", "least", "most"), [(1.0, 0.1, 2.0), (10.0, 1e5, 1e9)])
def test_layer_norm_makes_up_for_small_gains_of_sigmoids_only(rng, gain, least, most):
    h, dh = rng.normal(size=(2, 32, 64))
    kept = []
    for w in gain / 8 * rng.normal(size=(31, 64, 64)):
        s = 1 / (1 + np.exp(-layer_norm(h) @ w.T))
        kept.append((w, h, s))
        h = s - 0.5
    for w, h, s in kept[::-1]:
        dh = layer_norm_vjp((dh * s * (1 - s)) @ w, h)
    assert least < np.sqrt(np.mean(dh**2)) < most
