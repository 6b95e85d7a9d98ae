"""
Right kernels as people write them.

Other formulas, other orders of sums, statistics in float32 for inputs of 16 bits. Those whose
source is a letter are of our reviews: they were called wrong.
"""

import math

import numpy as np
import torch
from torch.nn import functional as F

from dlref import activations as act
from dlref import attention as att
from dlref import convolution, losses, neurons, positions, recurrent, training
from dlref import normalization as norm

from .attention import attention as heads
from .attention import of_queries, visible
from .kernels import Right, cases, gradients, refuse
from .norms import sum_of_rows
from .optimizers import adam_step, adamw_step, lion_step
from .recurrences import log_decay, tokens

TORCH = {"framework": "torch"}


def llama_norm(x, weight=None, eps=1e-6):
    """Round the normalized input before the weight, as LlamaRMSNorm does."""
    a = x.to(torch.float32)
    y = (a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
    return y if weight is None else weight * y


def gemma_norm(x, weight=None, eps=1e-6, weight_offset=0.0):
    """Multiply in float32, and round once."""
    a = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    return (a if weight is None else a * (weight_offset + weight.float())).to(x.dtype)


def liger_rms_backward(dout, x, weight=None, eps=1e-6):
    """dx = (1 / rms) (g - (1 / n) (1 / rms^2) (g . x) x)."""
    n = x.shape[-1]
    g = dout if weight is None else dout * weight
    rstd = 1 / np.sqrt((x * x).sum(-1, keepdims=True) / np.float32(n) + np.float32(eps))
    dx = rstd * (g - (rstd * rstd * (g * x).sum(-1, keepdims=True) / np.float32(n)) * x)
    return gradients(dx, None if weight is None else sum_of_rows(dout * (x * rstd)))


def row_after_row(dout, x, weight=None, eps=1e-6):
    """Add the gradient of the weight in float32, a row after the other."""
    rms = np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps))
    x_hat = x / rms
    g = dout if weight is None else dout * weight
    dx = (g - x_hat * (g * x_hat).mean(-1, keepdims=True)) / rms
    total = (dout * x_hat).reshape(-1, x.shape[-1]).sum(0)
    return gradients(dx, None if weight is None else total)


def welford(x, weight=None, bias=None, eps=1e-5):
    """Mean and variance in one pass over the columns, as in apex."""
    mean, m2 = np.zeros(x.shape[:-1], x.dtype), np.zeros(x.shape[:-1], x.dtype)
    for i in range(x.shape[-1]):
        delta = x[..., i] - mean
        mean = mean + delta / np.float32(i + 1)
        m2 = m2 + delta * (x[..., i] - mean)
    y = (x - mean[..., None]) / np.sqrt(m2[..., None] / np.float32(x.shape[-1]) + np.float32(eps))
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def scale_and_shift(x, mean, var, weight=None, bias=None, eps=1e-5):
    """Fold everything into a factor and an offset, as for inference."""
    factor = 1 / np.sqrt(var + np.float32(eps))
    factor = factor if weight is None else factor * weight
    offset = -mean * factor
    return x * factor + (offset if bias is None else offset + bias)


def instance_norm(x, weight=None, bias=None, eps=1e-5):
    """F.instance_norm has the channels first."""
    return F.instance_norm(x.movedim(-1, 1), weight=weight, bias=bias, eps=eps).movedim(1, -1)


def new_gelu(x, approximate="none"):
    """NewGELUActivation and GELUActivation of transformers."""
    if approximate == "none":
        return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


def online_gradient(dout, x, target, reduction="mean"):
    """Softmax minus one-hot, from the maximum and the sum of an online pass, as in Liger."""
    if target.ndim == x.ndim or (target < 0).any():
        refuse("probabilities, or ignored rows")
    top, total = np.full(x.shape[:-1], -np.inf, x.dtype), np.zeros(x.shape[:-1], x.dtype)
    for start in range(0, x.shape[-1], 16):
        part = x[..., start : start + 16]
        new = np.maximum(top, part.max(-1))
        total = total * np.exp(top - new) + np.exp(part - new[..., None]).sum(-1)
        top = new
    p = np.exp(x - top[..., None]) / total[..., None]
    p = p - (np.arange(x.shape[-1]) == target[..., None])
    rows = x[..., 0].size if reduction == "mean" else 1
    return (np.asarray(dout)[..., None] * p / rows).astype(x.dtype)


def gradient_by_logsumexp(dout, x, target, reduction="mean"):
    """exp(x - lse) minus one-hot, as PyTorch computes it."""
    if target.ndim == x.ndim or (target < 0).any():
        refuse("probabilities, or ignored rows")
    top = x.max(-1, keepdims=True)
    lse = top + np.log(np.exp(x - top).sum(-1, keepdims=True))
    p = np.exp(x - lse) - (np.arange(x.shape[-1]) == target[..., None])
    rows = x[..., 0].size if reduction == "mean" else 1
    return (np.asarray(dout)[..., None] * p / rows).astype(x.dtype)


def smoothed(x, target, label_smoothing=0.0):
    """LabelSmoothingCrossEntropy of timm: a share of the mean of all classes."""
    if target.ndim == x.ndim or bool((target < 0).any()):
        refuse("probabilities, or ignored rows")
    logs = F.log_softmax(x, dim=-1)
    picked = -logs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return ((1.0 - label_smoothing) * picked + label_smoothing * -logs.mean(-1)).mean()


def wide_loss(x, weight, target, bias=None, reduction="mean"):
    """A loss in float32 for inputs of 16 bits, as in Liger."""
    if target.ndim == x.ndim:
        refuse("probabilities")
    logits = x.float() @ weight.float().T
    logits = logits if bias is None else logits + bias.float()
    rows = F.cross_entropy(logits.flatten(0, -2), target.flatten(), reduction=reduction)
    return rows.reshape(target.shape) if reduction == "none" else rows


def base_two(q, k, v, is_causal=False, scale=None):
    """Probabilities as powers of two, as in flash-attention."""
    if isinstance(scale, np.ndarray):
        refuse("a scale for each query")
    scale = np.float32((q.shape[-1] ** -0.5 if scale is None else scale) * math.log2(math.e))
    s = (q @ np.swapaxes(of_queries(k, q), -1, -2)) * scale
    s = np.where(visible(*s.shape[-2:], is_causal, 0, None), s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp2(s - np.where(np.isfinite(top), top, 0))
    total = p.sum(-1, keepdims=True)
    return (p @ of_queries(v, q) / np.where(total == 0, 1, total)).astype(q.dtype)


def eager(q, k, v, is_causal=False):
    """Softmax in float32, whose probabilities are rounded before the values, as in transformers."""
    k, v = (a.repeat_interleave(q.shape[-3] // a.shape[-3], -3) if a.ndim > 2 else a
            for a in (k, v))  # fmt: skip
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if is_causal:
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(), float("-inf"))
    return torch.softmax(s, -1, dtype=torch.float32).to(q.dtype) @ v


def own_heads(q, k, v, is_causal=False):
    """Attention of PyTorch, grouped."""
    grouped = q.ndim > 2 and q.shape[-3] != k.shape[-3]
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=grouped)


def complex_rope(x, cos, sin, interleaved=True):
    """Products of complex numbers, as in Llama's own code."""
    if not interleaved or cos.shape[-1] * 2 != x.shape[-1]:
        refuse("halves, or a part of the channels")
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
    y = torch.view_as_real(z * torch.complex(cos.float(), sin.float()))
    return y.flatten(-2).to(x.dtype)


def rotate_half(x, cos, sin, interleaved=True):
    """x cos + rotate_half(x) sin, as in transformers."""
    if interleaved or cos.shape[-1] * 2 != x.shape[-1]:
        refuse("neighbors, or a part of the channels")
    a, b = x.chunk(2, -1)
    cos, sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
    return (x * cos + torch.cat((-b, a), -1) * sin).to(x.dtype)


def trl_dpo(log_p, log_ref, beta=0.1, label_smoothing=0.0, reduction="mean"):
    """Logarithms of sigmoids of both signs."""
    ratios = log_p - log_ref
    z = beta * (ratios[0] - ratios[1])
    terms = -F.logsigmoid(z) * (1 - label_smoothing) - F.logsigmoid(-z) * label_smoothing
    return {"mean": torch.mean, "sum": torch.sum, "none": lambda a: a}[reduction](terms)


def trl_ppo(log_p, old, advantage, clip=0.2, clip_high=None):
    """The larger of two losses."""
    ratio = torch.exp(log_p - old)
    bounded = torch.clamp(ratio, 1 - clip, 1 + (clip if clip_high is None else clip_high))
    return torch.max(-ratio * advantage, -bounded * advantage).mean()


def trl_k3(log_p, log_ref):
    """exp(d) - d - 1."""
    d = log_ref - log_p
    return (torch.exp(d) - d - 1).mean()


def hinton(logits, teacher, temperature=1.0):
    """KLDivLoss with its batchmean."""
    T = temperature
    a, b = F.log_softmax(logits / T, -1), F.softmax(teacher / T, -1)
    return F.kl_div(a.flatten(0, -2), b.flatten(0, -2), reduction="batchmean") * T * T


def clip_loss(similarity):
    """The mean of two cross-entropies, as in open_clip."""
    if similarity.ndim != 2:
        refuse("batches")
    labels = torch.arange(len(similarity))
    return (F.cross_entropy(similarity, labels) + F.cross_entropy(similarity.T, labels)) / 2


def elu_plus_one(q, k, v, is_causal=False):
    """The features as everybody writes them: they cancel where a number is far below 0."""
    weights = (F.elu(q) + 1) @ (F.elu(k) + 1).transpose(-1, -2)
    weights = weights.tril() if is_causal else weights
    total = weights.sum(-1, keepdim=True)
    return weights @ v / torch.where(total == 0, 1, total)


def mamba(x, delta, a, b, c, d=None, state=None, delta_softplus=False):
    """selective_scan_ref of mamba, with time before the channels."""
    delta = F.softplus(delta) if delta_softplus else delta
    decay = torch.exp(torch.einsum("...ld,dn->...ldn", delta, a))
    written = torch.einsum("...ld,...ln,...ld->...ldn", delta, b, x)
    h, out = torch.zeros((*x.shape[:-2], *a.shape), dtype=x.dtype) if state is None else state, []
    for t in range(x.shape[-2]):
        h = decay[..., t, :, :] * h + written[..., t, :, :]
        out.append(torch.einsum("...dn,...n->...d", h, c[..., t, :]))
    y = torch.stack(out, -2)
    return (y if d is None else y + x * d), h


def bounded_decay(q, k, v, decay=None, beta=None, state=None):
    """Linear attention whose decay cannot grow: exp(min(g, 0)), as in Mamba-2."""
    if beta is not None:
        refuse("beta")
    S = np.zeros((*q.shape[:-2], q.shape[-1], v.shape[-1]), v.dtype) if state is None else state
    out = np.zeros(v.shape, v.dtype)
    for t in range(q.shape[-2]):
        S = S if decay is None else np.exp(np.minimum(decay[..., t, :], 0))[..., None] * S
        S = S + k[..., t, :, None] * v[..., t, None, :]
        out[..., t, :] = np.einsum("...ev,...e->...v", S, q[..., t, :])
    return out, S


def decay_by_running_sums(dout, q, k, v, decay):
    """The gradient of the decay as a sum from the end of q dq - k dk, as in fla."""
    _, D = dout
    dq, dk, dv, _ = att.recurrent_linear_attention_vjp(dout, q, k, v, decay)
    last = att.recurrent_linear_attention(q, k, v, decay)[1]
    flow = (q * dq - k * dk)[..., ::-1, :].cumsum(-2)[..., ::-1, :]
    ddecay = flow + (last * D).sum(-1)[..., None, :]
    if decay.shape[-1] == 1:
        ddecay = ddecay.sum(-1, keepdims=True)
    return dq, dk, dv, ddecay.astype(decay.dtype)


def im2col(x, weight, bias=None, stride=1, padding=0):
    """One product with unfolded columns, as in Caffe; two axes of space."""
    if weight.ndim != 4 or x.ndim != 4 or isinstance(padding, str):
        refuse("other axes of space, or paddings by name")
    columns = F.unfold(x, weight.shape[2:], stride=stride, padding=padding)
    y = weight.flatten(1) @ columns
    y = y if bias is None else y + bias[:, None]
    s, p = ((a, a) if isinstance(a, int) else a for a in (stride, padding))
    rows = (x.shape[2] + 2 * p[0] - weight.shape[2]) // s[0] + 1
    return y.unflatten(-1, (rows, -1))


def manual_lstm(x, h0, c0, w_ih, w_hh, b_ih=None, b_hh=None):
    """A loop over the steps, with chunks of the gates."""
    zeros = x.new_zeros((*x.shape[:-2], w_hh.shape[1]))
    h, c = (zeros if s is None else s for s in (h0, c0))
    hs, cs = [], []
    for t in range(x.shape[-2]):
        gates = F.linear(x[..., t, :], w_ih, b_ih) + F.linear(h, w_hh, b_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        hs.append(h)
        cs.append(c)
    return torch.stack(hs, -2), torch.stack(cs, -2)


def naive_softmax(x, axis=-1):
    """NumPy in the dtype of the input."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def hard_tanh(x):
    """JAX's own."""
    import jax  # noqa: PLC0415  # slow to import

    return jax.nn.hard_tanh(x)


def in_pieces(x, weight, bias=None):
    """Partial products of 64 columns that are added in float32."""
    y = np.zeros((*x.shape[:-1], len(weight)), x.dtype)
    for start in range(0, x.shape[-1], 64):
        y = y + x[..., start : start + 64] @ weight[:, start : start + 64].T
    return y if bias is None else y + bias


def max_pool(x, size, stride=None, padding=0):
    """PyTorch has a function for each number of axes."""
    return getattr(F, f"max_pool{len(size)}d")(x, size, stride=stride, padding=padding)


def alibi(slopes, T, S):
    """Slopes times distances from two ranges."""
    distance = np.arange(S)[None, :] - np.arange(T)[:, None]
    return slopes[..., None, None] * np.minimum(distance, 0).astype(slopes.dtype)


SDPA, NARROW = att.scaled_dot_product_attention, {"dtype": "float16", **TORCH}
DECAYED = cases(
    *(
        (tuple(a.astype(np.float32) for a in (*tokens(3), log_decay(2, 3, 12, n))), {})
        for n in (1, 6)
    ),
    dtype="float32",
)
RIGHT = [
    Right("A", neurons.dropout, "autograd", lambda x, mask: x * mask, TORCH),
    Right("A", positions.apply_rope, "autograd", rotate_half, TORCH),
    Right("A", neurons.lora_linear, "autograd",
          lambda x, weight, a, b, bias=None, scale=1.0: F.linear(x, weight, bias)
          + scale * (x @ a.T @ b.T), TORCH),
    Right("A", losses.policy_loss, "autograd", trl_ppo, TORCH),
    Right("A", att.recurrent_linear_attention, "vjp", decay_by_running_sums, DECAYED),
    Right("A", training.adamw_step, "forward", adamw_step),
    Right("A", training.adam_step, "forward", adam_step),
    Right("A", training.lion_step, "forward", lion_step),
    Right("A", losses.cross_entropy, "vjp", gradient_by_logsumexp),
    Right("A", losses.linear_cross_entropy, "forward", wide_loss, NARROW),
    Right("A", norm.instance_norm, "forward", instance_norm, {"dtype": "float64", **TORCH}),
    Right("A", norm.instance_norm, "forward", instance_norm, NARROW),
    Right("A", act.prelu, "forward", lambda x, slope: torch.where(x > 0, x, x * slope), TORCH),
    Right("A", act.prelu, "forward", lambda x, slope: torch.where(x > 0, x, x * slope),
          {"dtype": "bfloat16", **TORCH}),
    Right("A", act.softmax, "forward", naive_softmax, {"dtype": "float16"}),
    Right("A", act.hard_tanh, "forward", hard_tanh, {"framework": "jax"}),
    Right("A", act.hard_tanh, "forward", hard_tanh, {"framework": "jax", "dtype": "bfloat16"}),
    Right("A", positions.alibi_bias, "forward", alibi),
    Right("B", att.recurrent_linear_attention, "forward", bounded_decay),
    Right("transformers, LlamaRMSNorm", norm.rms_norm, "forward", llama_norm, NARROW),
    Right("transformers, LlamaRMSNorm", norm.rms_norm, "forward", llama_norm,
          {"dtype": "bfloat16", **TORCH}),
    Right("transformers, Gemma3RMSNorm", norm.rms_norm, "forward", gemma_norm, NARROW),
    Right("transformers, Gemma3RMSNorm", norm.rms_norm, "autograd", gemma_norm, TORCH),
    Right("Liger, RMS norm", norm.rms_norm, "vjp", liger_rms_backward),
    Right("rows added in float32", norm.rms_norm, "vjp", row_after_row),
    Right("apex, layer norm", norm.layer_norm, "forward", welford),
    Right("ONNX Runtime, batch norm", norm.batch_norm_inference, "forward", scale_and_shift),
    Right("transformers, NewGELUActivation", act.gelu, "forward", new_gelu, TORCH),
    Right("llama.cpp, SiLU", act.silu, "forward",
          lambda x, beta=1.0: x / (1 + np.exp(-x.dtype.type(beta) * x))),
    Right("tinygrad, sigmoid", act.sigmoid, "forward",
          lambda x: 1 / (1 + np.exp2(x * np.float32(-1 / math.log(2))))),
    Right("JAX, softmax", act.softmax, "forward",
          lambda x, axis=-1: np.exp(x - x.max(axis, keepdims=True)
                                    - np.log(np.exp(x - x.max(axis, keepdims=True))
                                             .sum(axis, keepdims=True)))),
    Right("transformers, SwiGLU", act.swiglu, "autograd", lambda x, gate: F.silu(gate) * x, TORCH),
    Right("Liger, cross-entropy", losses.cross_entropy, "vjp", online_gradient),
    Right("timm, label smoothing", losses.cross_entropy, "autograd", smoothed, TORCH),
    Right("flash-attention, exp2", SDPA, "forward", base_two),
    Right("transformers, eager attention", SDPA, "forward", eager, NARROW),
    Right("PyTorch, grouped attention", SDPA, "autograd", own_heads, TORCH),
    Right("NumPy, windows", SDPA, "forward", heads, {"dtype": "float64"}),
    Right("Llama, complex rotation", positions.apply_rope, "forward", complex_rope, TORCH),
    Right("transformers, rotate_half", positions.apply_rope, "forward", rotate_half, TORCH),
    Right("trl, DPO", losses.dpo_loss, "autograd", trl_dpo, TORCH),
    Right("trl, k3", losses.kl_estimate, "forward", trl_k3, TORCH),
    Right("knowledge distillation", losses.distillation_loss, "autograd", hinton, TORCH),
    Right("open_clip, contrastive loss", losses.info_nce, "autograd", clip_loss, TORCH),
    Right("fla, linear attention", att.linear_attention, "autograd", elu_plus_one, TORCH),
    Right("mamba, selective_scan_ref", recurrent.selective_scan, "autograd", mamba, TORCH),
    Right("Caffe, im2col", convolution.conv, "autograd", im2col, TORCH),
    Right("a loop over nn.LSTMCell", recurrent.lstm, "autograd", manual_lstm, TORCH),
    Right("split-K, linear", neurons.linear, "forward", in_pieces),
    Right("PyTorch, max_pool", convolution.max_pool, "autograd", max_pool, TORCH),
]  # fmt: skip
