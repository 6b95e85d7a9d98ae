"""
Attention beside PyTorch's fused kernel, which has no forward mode, causal and not; the merge of two
parts, (T, V) for each of 8 heads, and the mask of documents.
"""

import numpy as np

import dlref.attention as A

SHAPES = [(2, 8, 128, 64), (1, 8, 512, 64), (1, 8, 2048, 64), (1, 2, 8192, 64)]
NAME = "scaled_dot_product_attention"
SIZES = {
    NAME: SHAPES,
    f"{NAME}_causal": SHAPES,
    "merge_attention": [(4096, 64)],
    "document_mask": [(4096,)],
}


def _arguments(name, shape, dtype):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(dtype) for _ in range(4)]
    return arrays, {"is_causal": name.endswith("_causal")}


def _merged(shape, dtype):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(2, 8, *size)).astype(dtype) for size in (shape, shape[:1])]


def dlref_call(name, form, shape, dtype):
    if name == "document_mask":
        ids = np.arange(shape[0]) // 500
        return (lambda: A.document_mask(ids)) if (form, dtype) == ("map", "float32") else None
    if name == "merge_attention":
        out, lse = _merged(shape, dtype)
        f = {"map": A.merge_attention, "vjp": A.merge_attention_vjp}.get(form)
        given = () if form == "map" else ((out[0], lse[0]),)
        return f and (lambda: f(*given, out, lse))
    (q, k, v, u), options = _arguments(name, shape, dtype)
    if form == "map":
        return lambda: A.scaled_dot_product_attention(q, k, v, **options)
    if form == "vjp":
        return lambda: A.scaled_dot_product_attention_vjp(u, q, k, v, **options)
    return lambda: A.scaled_dot_product_attention_jvp((q, k, v), (u, q, k), **options)


def torch_call(name, form, shape, dtype):
    import torch  # noqa: PLC0415

    torch.set_num_threads(2)
    if name == "document_mask":
        ids = torch.arange(shape[0]) // 500
        return (lambda: ids[:, None] == ids) if (form, dtype) == ("map", "float32") else None
    if name == "merge_attention":
        return _torch_merge(torch, form, *map(torch.tensor, _merged(shape, dtype)))
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


def _torch_merge(torch, form, out, lse):
    def merge(out, lse):
        total = torch.logsumexp(lse, 0)
        return (torch.exp(lse - total)[..., None] * out).sum(0), total

    if form == "map":
        return torch.no_grad()(lambda: merge(out, lse))
    if form == "jvp":
        return None
    cotangents = out[0].clone(), lse[0].clone()
    tensors = out.requires_grad_(), lse.requires_grad_()
    return lambda: torch.autograd.grad(merge(*tensors), tensors, cotangents)
