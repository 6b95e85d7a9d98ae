"""
One step of an optimizer on a million parameters, beside PyTorch's fused step in place.

PyTorch has no Lion, and its Muon computes in bfloat16: their formulas in tensors stand for them. So
they do for the target of a diffusion model.
"""

import numpy as np

import dlref.training as T

PARAMETERS = [(1_000_000,)]
RATE = 1e-3
STEPS = ("sgd", "momentum", "rmsprop", "adam", "adamw", "nadam", "lion")
SIZES = {f"{name}_step": PARAMETERS for name in STEPS} | {
    "adafactor_step": [(1000, 1000)],
    "muon_step": [(512, 1024)],
    "diffusion_target": [(64, 3, 64, 64)],
}
SIGNAL, SCALE = 0.8, 0.6


def _arrays(shape, dtype):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(dtype) for _ in range(2)]


def dlref_call(name, form, shape, dtype):
    if form != "map":
        return None
    params, grads = _arrays(shape, dtype)
    if name == "diffusion_target":
        signal, noise = (np.full((shape[0], 1, 1, 1), v, dtype) for v in (SIGNAL, SCALE))
        return lambda: T.diffusion_target(params, grads, signal, noise, kind="velocity")
    step = getattr(T, name)
    _, state = step(params, grads, None, learning_rate=RATE)
    return lambda: step(params, grads, state, learning_rate=RATE)


def _lion(torch, params, grads, mean):
    step = torch.sign(0.9 * mean + 0.1 * grads)
    mean.mul_(0.99).add_(grads, alpha=0.01)
    return params.sub_(step, alpha=RATE)


def _muon(torch, params, grads, mean):
    mean.mul_(0.95).add_(grads, alpha=0.05)
    x = 0.05 * grads + 0.95 * mean
    x = x / torch.linalg.norm(x)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * (gram @ gram)) @ x
    return params.mul_(1 - 0.1 * RATE).sub_(x, alpha=RATE)


def _velocity(torch, x, noise, _mean):
    signal, scale = (torch.full((len(x), 1, 1, 1), v, dtype=x.dtype) for v in (SIGNAL, SCALE))
    return signal * noise - scale * x


FORMULAS = {"lion_step": _lion, "muon_step": _muon, "diffusion_target": _velocity}


def torch_call(name, form, shape, dtype):
    import torch  # noqa: PLC0415

    if form != "map":
        return None
    torch.set_num_threads(2)
    params, grads = (torch.tensor(a) for a in _arrays(shape, dtype))
    if name in FORMULAS:
        mean = torch.zeros_like(params)
        return lambda: FORMULAS[name](torch, params, grads, mean)
    params = torch.nn.Parameter(params)
    params.grad = grads
    optim = torch.optim
    optimizer = {
        "sgd_step": lambda: optim.SGD([params], RATE, fused=True),
        "momentum_step": lambda: optim.SGD([params], RATE, momentum=0.9, fused=True),
        "rmsprop_step": lambda: optim.RMSprop([params], RATE),  # has no fused step
        "adam_step": lambda: optim.Adam([params], RATE, fused=True),
        "adamw_step": lambda: optim.AdamW([params], RATE, fused=True),
        "adafactor_step": lambda: optim.Adafactor([params], RATE),
        "nadam_step": lambda: optim.NAdam([params], RATE),  # has no fused step
    }[name]()
    return optimizer.step
