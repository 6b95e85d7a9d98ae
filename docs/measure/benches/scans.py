"""
Recurrences of linear cost next to a loop over time, which is what PyTorch offers without kernels of
its own: the delta rule, (H, T, E), and the selective scan, (T, D, N).

No loop is timed at the long sequence, which shows that dlref's time grows with its length alone.
"""

import numpy as np

import dlref.attention as A
import dlref.recurrent as R

LONG = (8, 32768, 64)
SIZES = {"recurrent_linear_attention": [(8, 1024, 64), LONG], "selective_scan": [(1024, 512, 16)]}


def _arguments(name, shape, dtype):
    rng = np.random.default_rng(0)
    if name == "selective_scan":
        T, D, N = shape
        sizes = [(T, D), (T, D), (D, N), (T, N), (T, N), (D,)]
        x, delta, a, b, c, d = (rng.normal(size=size) for size in sizes)
        arrays = [x, abs(delta), -abs(a), b, c, d]
    else:
        q, k, v = (rng.normal(size=shape) for _ in range(3))
        beta = rng.uniform(size=shape[:2])
        decay = -rng.uniform(size=(*shape[:2], 1))
        arrays = [q, k / np.linalg.norm(k, axis=-1, keepdims=True), v, decay, beta]
    return [array.astype(dtype) for array in arrays]


def dlref_call(name, form, shape, dtype):
    f, arrays = getattr(A, name, None) or getattr(R, name), _arguments(name, shape, dtype)
    if form == "map":
        return lambda: f(*arrays)
    if form == "jvp":
        return None
    out, state = f(*arrays)
    cotangents = np.ones_like(out), np.zeros_like(state)
    vjp = getattr(A, f"{name}_vjp", None) or getattr(R, f"{name}_vjp")
    return lambda: vjp(cotangents, *arrays)


def torch_call(name, form, shape, dtype):
    import torch  # noqa: PLC0415

    if form == "jvp" or shape == LONG:
        return None
    torch.set_num_threads(2)
    f = {"selective_scan": selective_scan, "recurrent_linear_attention": delta_rule}[name]
    tensors = [torch.tensor(array) for array in _arguments(name, shape, dtype)]
    if form == "map":
        return torch.no_grad()(lambda: f(torch, *tensors))
    for tensor in tensors:
        tensor.requires_grad_()
    return lambda: torch.autograd.grad(f(torch, *tensors).sum(), tensors)


def selective_scan(torch, x, delta, a, b, c, d):
    h, out = torch.zeros_like(a), []
    for t in range(x.shape[0]):
        h = torch.exp(delta[t, :, None] * a) * h + (delta[t] * x[t])[:, None] * b[t]
        out.append(h @ c[t] + d * x[t])
    return torch.stack(out)


def delta_rule(torch, q, k, v, decay, beta):
    state, out = torch.zeros(len(q), q.shape[-1], v.shape[-1], dtype=q.dtype), []
    for t in range(q.shape[1]):
        state = torch.exp(decay[:, t, :, None]) * state
        error = v[:, t, None] - k[:, t, None] @ state
        state = state + k[:, t, :, None] * (beta[:, t, None, None] * error)
        out.append(q[:, t, None] @ state)
    return torch.cat(out, 1)
