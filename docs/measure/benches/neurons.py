"""Dense layers, embedding and dropout beside PyTorch's."""

import numpy as np

import dlref.neurons as N

SIZES = {
    "linear": [(512, 768, 768)],  # rows, inputs, outputs
    "lora_linear": [(512, 768, 768)],
    "embedding": [(4096, 32000, 256)],  # tokens, rows of the table, width
    "dropout": [(1024, 1024)],
}
RANK = 16


def _arrays(name, shape, dtype):
    """Return what is differentiated, what is not, and the cotangent."""
    rng = np.random.default_rng(0)

    def draw(*size):
        return rng.normal(size=size).astype(dtype)

    if name == "dropout":
        return [draw(*shape)], [2 * (rng.random(shape) < 0.5).astype(dtype)], draw(*shape)
    rows, inputs, outputs = shape
    u = draw(rows, outputs)
    if name == "embedding":
        return [draw(inputs, outputs)], [rng.integers(0, inputs, rows)], u
    x, W = draw(rows, inputs), draw(outputs, inputs)
    if name == "linear":
        return [x, W, draw(outputs)], [], u
    return [x, draw(RANK, inputs), draw(outputs, RANK)], [W], u


def _of_dlref(name, moving, fixed):
    """Return the arguments in dlref's order."""
    return [moving[0], *fixed, *moving[1:]] if name == "lora_linear" else [*moving, *fixed]


def dlref_call(name, form, shape, dtype):
    moving, fixed, u = _arrays(name, shape, dtype)
    arguments = _of_dlref(name, moving, fixed)
    f, vjp = getattr(N, name), getattr(N, f"{name}_vjp")
    return {"map": lambda: f(*arguments), "vjp": lambda: vjp(u, *arguments)}.get(form)


def torch_call(name, form, shape, dtype):
    import torch  # noqa: PLC0415

    torch.set_num_threads(2)
    F = torch.nn.functional
    f = {
        "linear": F.linear,
        "lora_linear": lambda x, a, b, W: F.linear(x, W) + F.linear(F.linear(x, a), b),
        "embedding": lambda table, ids: F.embedding(ids, table),
        "dropout": torch.mul,
    }[name]
    moving, fixed, u = _arrays(name, shape, dtype)
    moving = [torch.tensor(a, requires_grad=form == "vjp") for a in moving]
    fixed, u = [torch.tensor(a) for a in fixed], torch.tensor(u)
    calls = {
        "map": lambda: f(*moving, *fixed),
        "vjp": lambda: torch.autograd.grad(f(*moving, *fixed), moving, u),
    }
    return calls.get(form)
