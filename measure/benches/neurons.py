"""A dense layer beside PyTorch's."""

import numpy as np

from dlref.neurons import linear, linear_vjp

SIZES = {"linear": [(512, 768, 768)]}  # rows, inputs, outputs


def _arrays(shape, dtype):
    rows, inputs, outputs = shape
    rng = np.random.default_rng(0)
    sizes = (rows, inputs), (outputs, inputs), (outputs,)
    return [rng.normal(size=size).astype(dtype) for size in sizes]


def dlref_call(_name, form, shape, dtype):
    x, W, b = _arrays(shape, dtype)
    u = np.ones((shape[0], shape[2]), dtype)
    calls = {"map": lambda: linear(x, W, b), "vjp": lambda: linear_vjp(u, x, W, b)}
    return calls.get(form)


def torch_call(_name, form, shape, dtype):
    import torch  # noqa: PLC0415

    torch.set_num_threads(2)
    tensors = [torch.tensor(a, requires_grad=form == "vjp") for a in _arrays(shape, dtype)]
    f, u = torch.nn.functional.linear, torch.ones(shape[0], shape[2], dtype=tensors[0].dtype)
    calls = {
        "map": lambda: f(*tensors),
        "vjp": lambda: torch.autograd.grad(f(*tensors), tensors, u),
    }
    return calls.get(form)
