"""Gradients of candidates by their frameworks, and layouts, with frameworks of a few lines."""

import sys
import types

import numpy as np
import pytest

from dlref.check._oracle.autograd import in_layout, own_vjp


class Tensor:
    """As much of a tensor of PyTorch as the harness uses; its values are an array."""

    __module__ = "torch"

    def __init__(self, values, requires_grad=False):
        self.values, self.requires_grad = np.asarray(values), requires_grad

    @property
    def ndim(self):
        return self.values.ndim

    def is_floating_point(self):
        return self.values.dtype.kind == "f"

    def detach(self):
        return Tensor(self.values)

    def requires_grad_(self):
        self.requires_grad = True
        return self

    def permute(self, order):
        return Tensor(self.values.transpose(order))

    def contiguous(self):
        return self


@pytest.fixture
def torch(monkeypatch):
    """A PyTorch whose functions are all the double of each input."""
    module = types.ModuleType("torch")
    module.is_tensor = lambda value: isinstance(value, Tensor)

    def grad(outs, leaves, weights, allow_unused):
        assert allow_unused
        assert all(leaf.requires_grad for leaf in leaves)
        assert len(outs) == len(weights)
        return tuple(Tensor(2 * weights[0].values) for _ in leaves)

    module.autograd = types.SimpleNamespace(grad=grad)
    monkeypatch.setitem(sys.modules, "torch", module)


@pytest.mark.usefixtures("torch")
def test_the_gradient_of_torch():
    def f(x, classes, pair):
        assert x.requires_grad
        assert pair[0].requires_grad
        assert not classes.requires_grad
        return Tensor(2 * x.values)

    x, classes = Tensor(np.ones(3)), Tensor(np.arange(3))
    grads = own_vjp(f, "torch")(Tensor([1.0, 2.0, 3.0]), x, classes, (Tensor(np.ones(2)), None))
    assert grads[0].values.tolist() == grads[1][0].values.tolist() == [2.0, 4.0, 6.0]
    assert (len(grads), grads[1][1]) == (2, None)
    gradients = own_vjp(lambda x: (Tensor(x.values), x), "torch")(
        (Tensor([1.0]), None), Tensor([5.0])
    )
    assert gradients.values.tolist() == [2.0]


@pytest.mark.usefixtures("torch")
def test_the_gradients_of_learned_options_follow_the_inputs():
    def f(x, bias=None, scale=1.0):
        assert bias.requires_grad
        assert not scale.requires_grad
        return Tensor(x.values)

    options = {"scale": Tensor(1.0), "bias": Tensor([7.0])}
    grads = own_vjp(f, "torch", ("bias", "sink"))(Tensor([3.0]), Tensor([5.0]), **options)
    assert [g.values.tolist() for g in grads] == [[6.0], [6.0]]


class Array(np.ndarray):
    """An array that says it is JAX's."""

    __module__ = "jax"


def test_the_gradient_of_jax(monkeypatch):
    module = types.ModuleType("jax")

    def vjp(f, *leaves):
        out = f(*leaves)
        first = out[0] if isinstance(out, tuple) else out
        assert np.array_equal(first, 2 * leaves[0])
        take = lambda u: u[0] if isinstance(u, tuple) else u  # noqa: E731
        return out, lambda u: tuple(2 * take(u) for _ in leaves)

    module.vjp = vjp
    monkeypatch.setitem(sys.modules, "jax", module)
    x, ids = np.ones(3).view(Array), np.arange(3).view(Array)
    grads = own_vjp(lambda x, ids: 2 * x, "jax")(np.arange(3.0), x, ids)
    assert grads.tolist() == [0.0, 2.0, 4.0]
    two = own_vjp(lambda x, y: (2 * x, y), "jax")((np.arange(3.0), np.zeros(3)), x, x)
    assert [g.tolist() for g in two] == [[0.0, 2.0, 4.0]] * 2


def test_layouts():
    q = np.random.default_rng(0).normal(size=(2, 3, 4, 5))  # B, H, T, E

    def f(x, n):
        assert x.shape == (2, 4, 3, 5)
        assert n == 7
        return x

    assert np.array_equal(in_layout(f, "BTHE")(q, 7), q)
    tensor = in_layout(lambda x: x, "BTHE")(Tensor(q))
    assert np.array_equal(tensor.values, q)
    with pytest.raises(ValueError, match="the letters B, H, T and E, not 'BTD'"):
        in_layout(f, "BTD")
