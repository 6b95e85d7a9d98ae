"""Attention beside PyTorch's fused kernel, which has no forward mode; causal and not."""

import numpy as np

import dlref.attention as A

SHAPES = [(2, 8, 128, 64), (1, 8, 512, 64), (1, 8, 2048, 64), (1, 2, 8192, 64)]
NAME = "scaled_dot_product_attention"
SIZES = {NAME: SHAPES, f"{NAME}_causal": SHAPES}


def _arguments(name, shape, dtype):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(dtype) for _ in range(4)]
    return arrays, {"is_causal": name.endswith("_causal")}


def dlref_call(name, form, shape, dtype):
    (q, k, v, u), options = _arguments(name, shape, dtype)
    if form == "map":
        return lambda: A.scaled_dot_product_attention(q, k, v, **options)
    if form == "vjp":
        return lambda: A.scaled_dot_product_attention_vjp(u, q, k, v, **options)
    return lambda: A.scaled_dot_product_attention_jvp((q, k, v), (u, q, k), **options)


def torch_call(name, form, shape, dtype):
    import torch  # noqa: PLC0415

    torch.set_num_threads(2)
    arrays, options = _arguments(name, shape, dtype)
    q, k, v, u = map(torch.tensor, arrays)
    f = torch.nn.functional.scaled_dot_product_attention
    if form == "map":
        return torch.no_grad()(lambda: f(q, k, v, **options))
    if form == "jvp":
        return None
    for x in (q, k, v):
        x.requires_grad_()
    return lambda: torch.autograd.grad(f(q, k, v, **options), (q, k, v), u)
