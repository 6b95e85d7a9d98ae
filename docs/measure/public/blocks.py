"""What a GPU computes block by block: masks of tails, online sums, races and rounded inputs."""

import numpy as np

from dlref import activations as act
from dlref import attention as att
from dlref import losses, neurons, recurrent
from dlref import normalization as norm

from .attention import attention_backward, power_of_two
from .kernels import Wrong, cases, gradients, refuse, sigmoid
from .norms import layer_norm_backward

R = np.random.default_rng(57)


def blocks(n, size):
    """Slices of at most so many places."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def softmax(x, axis=-1, slip=""):
    """A program for each row, whose columns are padded to a power of two."""
    rows = np.moveaxis(x, axis, -1)
    shape, n = rows.shape, rows.shape[-1]
    rows = rows.reshape(-1, n)
    fill = 0 if slip == "padding is 0" else -np.inf
    padded = np.full((len(rows), power_of_two(n)), fill, x.dtype)
    padded[:, :n] = rows
    e = np.exp(padded - padded.max(-1, keepdims=True))
    out = (e / e.sum(-1, keepdims=True))[:, :n]
    if slip == "rows of whole blocks alone":
        out[len(out) // 4 * 4 :] = 0
    return np.moveaxis(out.reshape(shape), -1, axis)


def logsumexp(x, axis=-1, slip=""):
    """An online sum: it is rescaled where a block has a larger maximum."""
    if isinstance(axis, tuple):
        refuse("several axes")
    rows = np.moveaxis(x, axis, -1)
    top = np.full(rows.shape[:-1], -np.inf, x.dtype)
    total = np.zeros_like(top)
    for block in blocks(rows.shape[-1], 32):
        part = rows[..., block]
        new = np.maximum(top, part.max(-1))
        safe = np.where(np.isfinite(new), new, 0)
        if slip != "not rescaled":
            total = total * np.exp(top - safe)
        total = total + np.exp(part - safe[..., None]).sum(-1)
        top = new
    return np.log(total) + np.where(np.isfinite(top), top, 0)


def cross_entropy(x, target, reduction="mean", slip=""):
    """The loss of classes, none of which is ignored, from an online sum."""
    if target.ndim == x.ndim or (target < 0).any():
        refuse("probabilities, or ignored rows")
    lse = logsumexp(x, slip=slip)
    rows = lse - np.take_along_axis(x, target[..., None], -1)[..., 0]
    total = rows if reduction == "none" else rows.sum()
    return (total / x.dtype.type(rows.size) if reduction == "mean" else total).astype(x.dtype)


def attention(q, k, v, is_causal=False, scale=None, slip=""):
    """Flash attention: keys in blocks, with an online softmax."""
    if k.ndim > 2 and k.shape[-3] != q.shape[-3]:
        k, v = (np.repeat(a, q.shape[-3] // a.shape[-3], -3) for a in (k, v))
    if isinstance(scale, np.ndarray):
        refuse("a scale for each query")
    scale = q.dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)
    size, S = 16, k.shape[-2]
    pad = [(0, 0)] * (k.ndim - 2) + [(0, -S % size), (0, 0)]
    k, v = np.pad(k, pad), np.pad(v, pad)
    top = np.full(q.shape[:-1], -np.inf, q.dtype)
    total, acc = np.zeros_like(top), np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    for block in blocks(k.shape[-2], size):
        s = (q @ np.swapaxes(k[..., block, :], -1, -2)) * scale
        j = np.arange(block.start, block.stop)
        if slip != "last block not masked":
            s = np.where(j < S, s, -np.inf)
        if is_causal:
            s = np.where(j <= np.arange(q.shape[-2])[:, None], s, -np.inf)
        new = np.maximum(top, s.max(-1))
        safe = np.where(np.isfinite(new), new, 0)
        alpha, p = np.exp(top - safe), np.exp(s - safe[..., None])
        total = total * alpha + p.sum(-1)
        acc = acc * (1 if slip == "output not rescaled" else alpha[..., None])
        acc = acc + p @ v[..., block, :]
        top = new
    return (acc / np.where(total == 0, 1, total)[..., None]).astype(q.dtype)


def last_queries_missing(dout, q, k, v, is_causal=False, scale=None, slip=""):
    """Gradients of keys and values are sums over blocks of queries."""
    if slip:
        whole = q.shape[-2] // 16 * 16
        kept = np.where(np.arange(q.shape[-2])[:, None] < whole, dout, 0).astype(dout.dtype)
        dq, _, _ = attention_backward(dout, q, k, v, is_causal=is_causal, scale=scale)
        _, dk, dv = attention_backward(kept, q, k, v, is_causal=is_causal, scale=scale)
        return dq, dk, dv
    return attention_backward(dout, q, k, v, is_causal=is_causal, scale=scale)


def tail_of_memory(a, width):
    """Rows as they are read without a mask: after the end of a row comes the next one."""
    flat = np.concatenate([a.ravel(), np.zeros(width, a.dtype)])
    rows = a.shape[-1] * np.arange(a.size // a.shape[-1])
    return flat[rows[:, None] + np.arange(width)]


def truncated(a):
    """Set the last 13 bits of float32 to 0, as Triton's TF32 does."""
    return (a.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def rounded(a):
    """Round float32 to the 10 bits of TF32, as cuBLAS does."""
    return ((a.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def linear(x, weight, bias=None, slip=""):
    """A product whose inner axis is cut into blocks of 32."""
    n = x.shape[-1]
    a, w = x.reshape(-1, n) if n else x, weight
    if slip == "last block of the inner axis" and n:
        width = -(-n // 32) * 32
        a, w = tail_of_memory(a, width), tail_of_memory(w, width)
    elif slip in ("TF32 truncated", "TF32 rounded"):
        cut = truncated if "truncated" in slip else rounded
        a, w = (cut(np.ascontiguousarray(m)) for m in (a, w))
    elif slip == "sums in float16":
        total = np.zeros((len(a), len(w)), x.dtype)
        for i in range(n):
            total = total + a[:, i, None] * w[:, i]
        y = total.reshape(*x.shape[:-1], len(weight))
        return y if bias is None else y + bias
    y = (a.astype(float) @ w.T.astype(float)).reshape(*x.shape[:-1], len(weight))
    return (y if bias is None else y + bias).astype(x.dtype)


def layer_norm(x, weight=None, bias=None, eps=1e-5, slip=""):
    """A program for each row, with its columns in one block that is padded with 0."""
    n = x.shape[-1]
    block = 128 if slip == "columns beyond the block" else power_of_two(n)
    padded = np.zeros((*x.shape[:-1], block), x.dtype)
    padded[..., : min(n, block)] = x[..., :block]
    mean = padded.sum(-1, keepdims=True) / x.dtype.type(min(n, block))
    centered = padded - mean
    if slip != "padding in the variance":
        centered = np.where(np.arange(block) < n, centered, 0)
    var = (centered * centered).sum(-1, keepdims=True) / x.dtype.type(min(n, block))
    y = np.zeros_like(x)
    y[..., :block] = (centered / np.sqrt(var + x.dtype.type(eps)))[..., : min(n, block)]
    if weight is not None:
        y[..., :block] *= weight[:block]
    if bias is not None:
        y[..., :block] += bias[:block]
    return y


def rms_norm(x, weight=None, eps=1e-6, slip=""):
    """A program for each row."""
    n = x.shape[-1]
    count = power_of_two(n) if slip == "divided by the block" else n
    square = (x * x).sum(-1, keepdims=True) / x.dtype.type(count)
    y = x / np.sqrt(square + x.dtype.type(eps))
    return y if weight is None else y * weight


def race_in_dweight(dout, x, weight=None, bias=None, eps=1e-5, slip=""):
    """Blocks of rows add to the gradients of weight and bias, at once."""
    grads = layer_norm_backward(dout, x, weight, bias, eps)
    if not slip or not isinstance(grads, tuple):
        return grads
    # without an atomic sum, the block that writes last wins
    rows, d = x.reshape(-1, x.shape[-1]), dout.reshape(-1, x.shape[-1])
    last = slice((len(rows) - 1) // 4 * 4, None)
    _, *rest = layer_norm_backward(d[last], rows[last], weight, bias, eps)
    return gradients(grads[0], *rest)


def swiglu(x, gate, slip=""):
    """Blocks of 32 over all elements."""
    if x.shape != gate.shape:
        refuse("operands of other shapes")
    y = x * gate * sigmoid(gate)
    if slip:  # the grid has n // 32 programs
        y = np.where(np.arange(y.size).reshape(y.shape) < y.size // 32 * 32, y, 0).astype(x.dtype)
    return y


def selective_scan(x, delta, a, b, c, d=None, state=None, delta_softplus=False, slip=""):
    """Chunks of 16 steps, each from the state after the one before."""
    step = np.maximum(delta, 0) + np.log1p(np.exp(-np.abs(delta))) if delta_softplus else delta
    first = np.zeros((*x.shape[:-2], *a.shape), x.dtype) if state is None else state
    h, y = first, np.zeros_like(x)
    for t in range(x.shape[-2]):
        if slip and t and t % 16 == 0:
            h = np.zeros_like(h)
        decay = np.exp(step[..., t, :, None] * a)
        h = decay * h + (step * x)[..., t, :, None] * b[..., t, None, :]
        y[..., t, :] = (h * c[..., t, None, :]).sum(-1)
    return (y if d is None else y + d * x).astype(x.dtype), h.astype(x.dtype)


SDPA = att.scaled_dot_product_attention
Q, K, V = (R.normal(size=s) for s in ((2, 2, 40, 8), (2, 2, 41, 8), (2, 2, 41, 6)))
WIDE = cases(((R.normal(size=(5, 70)), R.normal(size=(4, 70))), {}),
             ((R.normal(size=(3, 45)), R.normal(size=(6, 45)), R.normal(size=6)), {}))  # fmt: skip
SCAN = cases(*(((R.normal(size=(2, T, 3)), np.abs(R.normal(size=(2, T, 3))) / 4,
                 -np.abs(R.normal(size=(3, 4))), R.normal(size=(2, T, 4)),
                 R.normal(size=(2, T, 4))), {}) for T in (40, 43)))  # fmt: skip
GIVEN = [
    Wrong("GPU", act.softmax, "forward", softmax, "padding is 0",
        "Columns that pad a row to a power of two are loaded as 0, and count in the sum.",
        (r"pad\w+.*(0|count|sum|load)", r"(power of (2|two)|block).*(0|count|sum)")),
    Wrong("GPU", act.softmax, "forward", softmax, "rows of whole blocks alone",
        "The rows after the last whole block are not written.",
        (r"not (written|computed)", r"(last|tail).*(row|zero|0)", r"rows?.*(zero|missing)")),
    Wrong("GPU", act.logsumexp, "forward", logsumexp, "not rescaled",
        "The online sum is not rescaled where the maximum grows.",
        (r"rescal", r"online", r"running (sum|maximum)")),
    Wrong("GPU", losses.cross_entropy, "forward", cross_entropy, "not rescaled",
        "The online sum is not rescaled where the maximum grows.",
        (r"rescal", r"online", r"running (sum|maximum)")),
    Wrong("GPU", SDPA, "forward", attention, "last block not masked",
        "Keys that pad the last block are not masked: their score is 0.",
        (r"(last|pad\w+).*(block|key|tile).*", r"keys?.*(padded|score 0|zeros)",
         r"of k is padded"),
        cases(((Q, K, V), {}), ((Q[:, :, :1], K, V), {"scale": 1.0}))),
    Wrong("GPU", SDPA, "forward", attention, "output not rescaled",
        "The running output is not rescaled where the maximum grows.",
        (r"rescal", r"online", r"running (sum|maximum|output)"),
        cases(((Q, K, V), {}), ((Q[:, :, :1], K, V), {"scale": 1.0}))),
    Wrong("GPU", SDPA, "vjp", last_queries_missing, "last queries missing",
        "The gradients of keys and values lack the queries after the last whole block.",
        (r"(last|block|tile|tail|rows|queries).*(miss|lack|left out|not)",
         r"whole_blocks.*@ q.*whole_blocks.*@ dout"),
        cases(((Q, K, V), {}), ((Q[:, :, :23], K, V), {"scale": 1.0}))),
    Wrong("GPU", neurons.linear, "forward", linear, "last block of the inner axis",
        "The last block of the inner axis is not masked, and reads into the next rows.",
        (r"(last|block|inner|tail|K\b).*(mask|read|next|beyond|memory)", r"next row|out of bounds"),
        WIDE),
    Wrong("GPU", neurons.linear, "forward", linear, "TF32 truncated",
        "Inputs are cut to the 10 bits of TF32.",
        (r"TF32", r"10 bits|truncated")),
    Wrong("GPU", neurons.linear, "forward", linear, "TF32 rounded",
        "Inputs are rounded to the 10 bits of TF32.",
        (r"TF32", r"10 bits")),
    Wrong("GPU", neurons.linear, "forward", linear, "sums in float16",
        "Sums are added up in float16.",
        (r"sums? (are )?in (float16|16 bits)", r"(accumul|add|sum)\w*.*(float16|16 bits)"),
        {"dtype": "float16"}),
    Wrong("GPU", norm.layer_norm, "forward", layer_norm, "columns beyond the block",
        "Columns beyond the block of 128 are neither counted nor written.",
        (r"(column|block|tile|tail|beyond|128).*(not|zero|0|written|count|beyond)",)),
    Wrong("GPU", norm.layer_norm, "forward", layer_norm, "padding in the variance",
        "Columns that pad the block count in the variance, as 0 - mean.",
        (r"(pad\w+|power of (2|two)|block).*(var|deviation|square|count|mean)",
         r"(var|deviation).*(padded|power of|block)")),
    Wrong("GPU", norm.rms_norm, "forward", rms_norm, "divided by the block",
        "The sum of squares is divided by the size of the block, a power of two.",
        (r"power of (2|two)", r"(divi|mean|count)\w*.*(block|padded|tile)", r"padded")),
    Wrong("GPU", norm.layer_norm, "vjp", race_in_dweight, "last block of rows wins",
        "Blocks of rows overwrite the gradients of weight and bias: a race.",
        (r"race|overwrit|atomic|last_block\(dout", r"(last|block|part|some).*rows",
         r"rows.*(last|block|part|alone)")),
    Wrong("GPU", act.swiglu, "forward", swiglu, "last block missing",
        "The elements after the last whole block are not written.",
        (r"not (written|computed)", r"(last|tail|block).*(zero|0|miss)", r"zero")),
    Wrong("GPU", recurrent.selective_scan, "forward", selective_scan, "state not carried",
        "Each chunk of 16 steps begins with a state of 0.",
        (r"(chunk|block|16).*(state|0|zero|start|begin)",
         r"state.*(carried|chunk|reset|lost)"), SCAN),
]  # fmt: skip
