"""One step of an optimizer on a million parameters, beside PyTorch's fused step in place."""

import numpy as np

import dlref.training as T

PARAMETERS = [(1_000_000,)]
RATE = 1e-3
SIZES = dict.fromkeys(
    ["sgd_step", "momentum_step", "rmsprop_step", "adam_step", "adamw_step"], PARAMETERS
) | {"muon_step": [(512, 1024)]}


def _arrays(shape, dtype):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(dtype) for _ in range(2)]


def dlref_call(name, form, shape, dtype):
    if form != "map":
        return None
    params, grads = _arrays(shape, dtype)
    step = getattr(T, name)
    _, state = step(params, grads, None, learning_rate=RATE)
    return lambda: step(params, grads, state, learning_rate=RATE)


def torch_call(name, form, shape, dtype):
    import torch  # noqa: PLC0415

    if form != "map":
        return None
    torch.set_num_threads(2)
    params, grads = (torch.tensor(a) for a in _arrays(shape, dtype))
    params = torch.nn.Parameter(params)
    params.grad = grads
    optim = torch.optim
    optimizer = {
        "sgd_step": lambda: optim.SGD([params], RATE, fused=True),
        "momentum_step": lambda: optim.SGD([params], RATE, momentum=0.9, fused=True),
        "rmsprop_step": lambda: optim.RMSprop([params], RATE),  # has no fused step
        "adam_step": lambda: optim.Adam([params], RATE, fused=True),
        "muon_step": lambda: optim.Muon([params], RATE),
        "adamw_step": lambda: optim.AdamW([params], RATE, fused=True),
    }[name]()
    return optimizer.step
