"""Gumbel-softmax beside its formula in PyTorch's tensors, with the same noise."""

import numpy as np

from dlref.activations import gumbel_softmax, gumbel_softmax_vjp

SIZES = {"gumbel_softmax": [(4096, 512)]}
T = 0.5


def _arrays(shape, dtype):
    rng = np.random.default_rng(0)
    draws = rng.normal(size=shape), rng.gumbel(size=shape), rng.normal(size=shape)
    return [a.astype(dtype) for a in draws]


def dlref_call(_name, form, shape, dtype):
    x, noise, u = _arrays(shape, dtype)
    calls = {
        "map": lambda: gumbel_softmax(x, noise, temperature=T),
        "vjp": lambda: gumbel_softmax_vjp(u, x, noise, temperature=T),
    }
    return calls.get(form)


def torch_call(_name, form, shape, dtype):
    import torch  # noqa: PLC0415

    torch.set_num_threads(2)
    x, noise, u = (torch.tensor(a) for a in _arrays(shape, dtype))
    moving = [t.requires_grad_(form == "vjp") for t in (x, noise)]

    def f():
        return ((x + noise) / T).softmax(-1)

    calls = {"map": f, "vjp": lambda: torch.autograd.grad(f(), moving, u)}
    return calls.get(form)
