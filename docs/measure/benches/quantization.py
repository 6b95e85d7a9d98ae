"""Rounding a million numbers to integers, next to PyTorch's."""

import numpy as np

from dlref.quantization import fake_quantize, fake_quantize_vjp

SIZES = {"fake_quantize": [(1024, 1024)]}
SCALE = 0.3


def _arrays(shape, dtype):
    rng = np.random.default_rng(0)
    return [(30 * rng.normal(size=shape)).astype(dtype) for _ in range(2)]


def dlref_call(_name, form, shape, dtype):
    x, u = _arrays(shape, dtype)
    calls = {"map": lambda: fake_quantize(x, SCALE), "vjp": lambda: fake_quantize_vjp(u, x, SCALE)}
    return calls.get(form)


def torch_call(_name, form, shape, dtype):
    import torch  # noqa: PLC0415

    torch.set_num_threads(2)
    x, u = (torch.tensor(a) for a in _arrays(shape, dtype))
    x.requires_grad_(form == "vjp")
    f = torch.fake_quantize_per_tensor_affine
    calls = {
        "map": lambda: f(x, SCALE, 0, -128, 127),
        "vjp": lambda: torch.autograd.grad(f(x, SCALE, 0, -128, 127), x, u),
    }
    return calls.get(form)
