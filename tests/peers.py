"""PyTorch as an oracle: values and gradients by its automatic differentiation, in float64."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="see the dependency group 'peers'")


def value_and_vjp(f, *inputs, dout=None):
    """Return f(*inputs) and the gradient with respect to each input, as NumPy arrays."""
    tensors = [torch.tensor(np.asarray(x, np.float64), requires_grad=True) for x in inputs]
    out = f(*tensors)
    seed = torch.ones_like(out) if dout is None else torch.tensor(np.asarray(dout, np.float64))
    grads = torch.autograd.grad(out, tensors, seed, allow_unused=True)
    zeros = (torch.zeros_like(t) if g is None else g for g, t in zip(grads, tensors, strict=True))
    return out.detach().numpy(), tuple(g.numpy() for g in zeros)


def jvp(f, primals, tangents):
    """Return the directional derivative of f, as a NumPy array."""
    primals, tangents = (
        tuple(torch.tensor(np.asarray(a, np.float64)) for a in arrays)
        for arrays in (primals, tangents)
    )
    return torch.func.jvp(f, primals, tangents)[1].numpy()


def jacobians(f, *inputs):
    """Return the dense Jacobian of f with respect to each input, as NumPy arrays."""
    tensors = tuple(torch.tensor(np.asarray(x, np.float64)) for x in inputs)
    return tuple(j.numpy() for j in torch.autograd.functional.jacobian(f, tensors))
