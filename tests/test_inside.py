"""dlref inside PyTorch and JAX: the code of the page docs/inside.rst."""

import numpy as np
import pytest

from dlref.activations import softmax, softmax_jvp, softmax_vjp
from dlref.normalization import layer_norm, layer_norm_vjp

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


class Softmax(torch.autograd.Function):
    """dlref's softmax as an operation of PyTorch, with a backward and a forward mode."""

    @staticmethod
    def forward(x):
        return torch.from_numpy(softmax(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, dout):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(softmax_vjp(dout, x))

    @staticmethod
    def jvp(ctx, dx):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(softmax_jvp(x, dx))


def to_torch(array, like):
    """Return an array as a tensor on the device, and of the dtype, of another."""
    if array.dtype.kind == "V" or array.dtype.name == "bfloat16":  # torch knows no ml_dtypes
        array = array.astype(np.float32)
    return torch.from_numpy(np.asarray(array)).to(like)


class LayerNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        ctx.save_for_backward(x, weight, bias)
        ctx.eps = eps
        return to_torch(layer_norm(x, weight, bias, eps=eps), x)

    @staticmethod
    def backward(ctx, dout):
        x, weight, bias = ctx.saved_tensors
        grads = layer_norm_vjp(dout, x, weight, bias, eps=ctx.eps)
        return (*map(to_torch, grads, (x, weight, bias)), None)


class LayerNorm(torch.nn.Module):
    """A module with the parameters of `torch.nn.LayerNorm`, computed by dlref."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        return LayerNormFunction.apply(x, self.weight, self.bias, self.eps)


@jax.custom_vjp
def jax_softmax(x):
    """dlref's softmax as a function of JAX; under jit the callback runs on the host."""
    same = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(softmax, same, x, vmap_method="broadcast_all")


def forward(x):
    return jax_softmax(x), x


def backward(x, dout):
    same = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return (jax.pure_callback(softmax_vjp, same, dout, x, vmap_method="broadcast_all"),)


jax_softmax.defvjp(forward, backward)


def test_gradcheck():
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Softmax.apply, (x,), check_forward_ad=True)


def test_softmax_agrees_with_torch():
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    u = torch.randn(3, 5, dtype=torch.float64)
    (mine,) = torch.autograd.grad(Softmax.apply(x), x, u)
    (theirs,) = torch.autograd.grad(torch.softmax(x, -1), x, u)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_module_has_the_values_and_gradients_of_torch(dtype):
    mine, theirs = (m.to(dtype) for m in (LayerNorm(6), torch.nn.LayerNorm(6)))
    x, u = (torch.randn(4, 6).to(dtype) for _ in range(2))
    results = []
    for module in (mine, theirs):
        point = x.clone().requires_grad_()
        module(point).backward(u)
        results.append([point.grad, module.weight.grad, module.bias.grad])
        assert all(g.dtype == dtype for g in results[-1])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a.float(), b.float(), rtol=0.05, atol=0.05)
        if dtype == torch.float64:
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_softmax_in_jax_under_jit_vmap_and_grad():
    x = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    u = np.random.default_rng(1).normal(size=(2, 3, 5)).astype(np.float32)
    loss = lambda f: jax.grad(lambda a: (f(a) * u).sum())  # noqa: E731
    want = loss(jax.nn.softmax)(x)
    assert np.allclose(loss(jax_softmax)(x), want, atol=1e-6)
    assert np.allclose(jax.jit(loss(jax_softmax))(x), want, atol=1e-6)
    rows = jax.vmap(jax.grad(lambda a, v: (jax_softmax(a) * v).sum()))
    assert np.allclose(jax.jit(rows)(x, u), want, atol=1e-6)


def test_the_error_of_a_tracer_names_the_page():
    with pytest.raises(
        TypeError, match=r"'x' must be an array, not DynamicJaxprTracer: .* 'Use dlref inside"
    ):
        jax.jit(softmax)(np.ones(3))


def test_a_tensor_without_numbers_names_the_page():
    with pytest.raises(TypeError, match=r"must be an array, not Tensor: .* 'Use dlref inside"):
        softmax(torch.ones(3, device="meta"))
