"""Position schemes: the pairwise rotation, and tables and biases as frameworks compute them."""

import numpy as np

import dlref.positions as P

SIZES = {
    "apply_rope": [(16, 1024, 128)],
    "rope_tables": [(8192, 512)],
    "sinusoidal": [(8192, 512)],
    "alibi_bias": [(8, 2048, 2048)],
    "t5_bias": [(8, 2048, 2048)],
}


def _rope(shape, dtype):
    _, T, E = shape
    tables = P.rope_tables(np.arange(T), P.rope_frequencies(E))
    x = np.random.default_rng(0).normal(size=shape)
    return [a.astype(dtype) for a in (x, *tables)]


def dlref_call(name, form, shape, dtype):
    rows, last = shape[0], shape[-1]
    if name == "apply_rope":
        x, cos, sin = _rope(shape, dtype)
        if form == "jvp":
            return None
        if form == "vjp":
            return lambda: P.apply_rope_vjp(x, x, cos, sin)
        return lambda: P.apply_rope(x, cos, sin)
    if form != "map":
        return None
    if name == "rope_tables":
        p, f = np.arange(rows, dtype=dtype), P.rope_frequencies(last).astype(dtype)
        return lambda: P.rope_tables(p, f)
    if name == "sinusoidal":
        return lambda: P.sinusoidal(rows, last, dtype=dtype)
    if name == "alibi_bias":
        slopes = P.alibi_slopes(rows).astype(dtype)
        return lambda: P.alibi_bias(slopes, *shape[1:])
    table = np.random.default_rng(0).normal(size=(32, rows)).astype(dtype)
    return lambda: P.t5_bias(table, *shape[1:])


def torch_call(name, form, shape, dtype):
    import torch  # noqa: PLC0415

    torch.set_num_threads(2)
    kind = getattr(torch, dtype)
    rows, last = shape[0], shape[-1]
    if name == "apply_rope":
        x, cos, sin = (torch.tensor(a) for a in _rope(shape, dtype))
        x.requires_grad_(form == "vjp")

        def rotated():
            x1, x2 = x[..., ::2], x[..., 1::2]
            return torch.stack([x1 * cos - x2 * sin, x1 * sin + x2 * cos], -1).flatten(-2)

        if form == "map":
            return torch.no_grad()(rotated)
        ones = torch.ones_like(x)
        return (lambda: torch.autograd.grad(rotated(), x, ones)) if form == "vjp" else None
    if form != "map":
        return None
    if name == "rope_tables":
        f = torch.tensor(P.rope_frequencies(last), dtype=kind)

        def tables():
            angles = torch.outer(torch.arange(rows, dtype=kind), f)
            return angles.cos(), angles.sin()

        return tables
    if name == "sinusoidal":

        def table():
            step = torch.arange(0, last, 2, dtype=kind)
            angles = torch.arange(rows, dtype=kind)[:, None] * 10000 ** (-step / last)
            out = torch.empty(rows, last, dtype=kind)
            out[:, ::2], out[:, 1::2] = angles.sin(), angles.cos()
            return out

        return table
    T, S = shape[1:]
    if name == "alibi_bias":
        slopes = torch.tensor(P.alibi_slopes(rows), dtype=kind)

        def bias():
            distance = (torch.arange(T)[:, None] - torch.arange(S)).clamp(min=0).to(kind)
            return -slopes[:, None, None] * distance

        return bias
    embedding = torch.randn(32, rows, dtype=kind)

    def looked_up():
        offset = torch.arange(S) - torch.arange(T)[:, None]
        bucket, n = 16 * (offset > 0), offset.abs()
        far = 8 + (torch.log(n / 8) / np.log(128 / 8) * 8).long().clamp(max=7)
        bucket = bucket + torch.where(n < 8, n, far)
        return embedding[bucket].permute(2, 0, 1)

    return torch.no_grad()(looked_up)
