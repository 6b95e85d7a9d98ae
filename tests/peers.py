"""
PyTorch as an oracle: values and gradients by its automatic differentiation, in float64.

A test that uses it is skipped where PyTorch is not installed.
"""

import sys

import numpy as np
import pytest


def __getattr__(name):
    if name == "torch":
        fresh = "torch" not in sys.modules
        torch = pytest.importorskip("torch", reason="see the dependency group 'peers'")
        if fresh:  # the fixture that seeds it has run already
            torch.manual_seed(0)
        return torch
    raise AttributeError(name)


def _tensor(array, **options):
    torch = __getattr__("torch")
    return torch.tensor(np.asarray(array, np.float64), **options)


def value_and_vjp(f, *inputs, dout=None):
    """Return f(*inputs) and the gradient with respect to each input, as NumPy arrays."""
    tensors = [_tensor(x, requires_grad=True) for x in inputs]
    torch = __getattr__("torch")
    out = f(*tensors)
    seed = torch.ones_like(out) if dout is None else _tensor(dout)
    grads = torch.autograd.grad(out, tensors, seed, allow_unused=True)
    zeros = (torch.zeros_like(t) if g is None else g for g, t in zip(grads, tensors, strict=True))
    return out.detach().numpy(), tuple(g.numpy() for g in zeros)


def jvp(f, primals, tangents):
    """Return the directional derivative of f, as a NumPy array."""
    primals, tangents = (tuple(map(_tensor, arrays)) for arrays in (primals, tangents))
    return __getattr__("torch").func.jvp(f, primals, tangents)[1].numpy()


def jacobians(f, *inputs):
    """Return the dense Jacobian of f with respect to each input, as NumPy arrays."""
    jacobian = __getattr__("torch").autograd.functional.jacobian
    return tuple(j.numpy() for j in jacobian(f, tuple(map(_tensor, inputs))))
