"""Convolutions and pooling, at shapes of ResNets, audio models and Mamba, next to PyTorch's."""

import numpy as np

import dlref.convolution as C

# input (B, C, *space), then output channels, kernel and stride; the padding is half of the kernel
SIZES = {
    "conv": [
        (8, 64, 56, 56, 64, 3, 1),
        (8, 128, 56, 56, 128, 3, 2),
        (8, 512, 7, 7, 512, 3, 1),
        (8, 3, 224, 224, 64, 7, 2),
        (8, 80, 1500, 384, 3, 1),
        (1, 512, 16000, 512, 3, 2),
    ],
    "conv_transpose": [(8, 128, 28, 28, 64, 4, 2)],
    "max_pool": [(8, 64, 112, 112, 64, 3, 2)],
    "mean_pool": [(8, 64, 112, 112, 64, 2, 2)],
    "causal_conv": [(2, 2048, 1024, 4)],  # B, T, D, K
    "interpolate": [(8, 64, 56, 56, 112)],  # images, and the new height and width
}


def _operands(name, shape, dtype):
    """Return the arrays and the options of PyTorch."""
    rng = np.random.default_rng(0)
    if name == "causal_conv":
        sizes, options = (shape[:3], shape[2:]), {}
    elif name == "interpolate":
        sizes, options = [shape[:4]], {"size": 2 * shape[4:]}
    else:
        *image, outputs, size, stride = shape
        kernel = len(image[2:]) * (size,)
        options = {"stride": stride, "padding": (size - 1) // 2}
        channels = (image[1], outputs) if name == "conv_transpose" else (outputs, image[1])
        sizes = [image] if name.endswith("pool") else [image, (*channels, *kernel)]
        options |= {"size": kernel} if name.endswith("pool") else {}
    return [rng.normal(size=s).astype(dtype) for s in sizes], options


def dlref_call(name, form, shape, dtype):
    operands, options = _operands(name, shape, dtype)
    f = getattr(C, name)
    if form == "map":
        return lambda: f(*operands, **options)
    if form == "vjp":
        out = f(*operands, **options)
        dout = tuple(map(np.ones_like, out)) if name == "causal_conv" else np.ones_like(out)
        return lambda: getattr(C, f"{name}_vjp")(dout, *operands, **options)
    return None


def torch_call(name, form, shape, dtype):
    import torch  # noqa: PLC0415

    if form == "jvp":
        return None
    torch.set_num_threads(2)
    F = torch.nn.functional
    arrays, options = _operands(name, shape, dtype)
    if name == "causal_conv":
        x, w = arrays
        arrays = [np.ascontiguousarray(x.swapaxes(1, 2)), w[:, None]]
        channels, width = w.shape
        map_ = lambda x, w: F.conv1d(x, w, padding=width - 1, groups=channels)[..., : x.shape[2]]  # noqa: E731
    elif name == "interpolate":
        map_ = lambda x: F.interpolate(x, mode="bilinear", **options)  # noqa: E731
    else:
        kind = {"max_pool": "max_pool", "mean_pool": "avg_pool"}.get(name, name)
        theirs = getattr(F, f"{kind}{arrays[0].ndim - 2}d")
        if "size" in options:
            options["kernel_size"] = options.pop("size")
        map_ = lambda *tensors: theirs(*tensors, **options)  # noqa: E731
    tensors = [torch.tensor(a, requires_grad=form == "vjp") for a in arrays]
    if form == "map":
        return lambda: map_(*tensors)
    ones = torch.ones_like(map_(*tensors).detach())
    return lambda: torch.autograd.grad(map_(*tensors), tensors, ones)
