"""The normalizations with weight and bias; PyTorch gets images as it wants them, channels first."""

import numpy as np

import dlref.normalization as N

ROWS, IMAGES, GROUPS = [(64, 32), (4096, 768)], [(32, 784, 64)], 8
SIZES = {
    "layer_norm": ROWS,
    "rms_norm": ROWS,
    "batch_norm": ROWS,
    "group_norm": IMAGES,
    "instance_norm": IMAGES,
    "weight_norm": [(512, 1024)],
}


def _operands(name, shape, dtype):
    rng = np.random.default_rng(0)
    sizes = [shape, shape[-1:], shape[-1:]][: 2 if name == "rms_norm" else 3]
    if name == "weight_norm":
        sizes = [shape, shape[:1]]
    return [rng.normal(size=size).astype(dtype) for size in sizes]


def dlref_call(name, form, shape, dtype):
    operands = _operands(name, shape, dtype)
    dout = np.ones_like(operands[0])
    if name == "group_norm":
        operands.insert(1, GROUPS)
    if form == "map":
        return lambda: getattr(N, name)(*operands)
    if form == "vjp":
        return lambda: getattr(N, f"{name}_vjp")(dout, *operands)
    return None


def torch_call(name, form, shape, dtype):
    import torch  # noqa: PLC0415

    if form == "jvp":
        return None
    torch.set_num_threads(2)
    F, width = torch.nn.functional, shape[-1:]
    map_ = {
        "layer_norm": lambda x, w, b: F.layer_norm(x, width, w, b),
        "rms_norm": lambda x, w: F.rms_norm(x, width, w, 1e-6),
        "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        "group_norm": lambda x, w, b: F.group_norm(x, GROUPS, w, b),
        "instance_norm": lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        "weight_norm": lambda v, g: torch._weight_norm(v, g[:, None], 0),
    }[name]
    operands = _operands(name, shape, dtype)
    if len(shape) == 3:
        operands[0] = np.ascontiguousarray(operands[0].swapaxes(1, 2))
    tensors = [torch.tensor(a, requires_grad=form == "vjp") for a in operands]
    if form == "map":
        return lambda: map_(*tensors)
    return lambda: torch.autograd.grad(map_(*tensors), tensors, torch.ones_like(tensors[0]))
