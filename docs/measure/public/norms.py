"""Normalization: statistics, their gradients, and the gradients of weights."""

import ml_dtypes
import numpy as np

from dlref import normalization as norm

from .kernels import Wrong, gradients, wide


def rounded(a):
    """Round to bfloat16 and back."""
    return a.astype(ml_dtypes.bfloat16).astype(a.dtype)


def factors(x_hat, weight, bias):
    """Multiply by the weight and add the bias, where they are given."""
    y = x_hat if weight is None else x_hat * weight
    return y if bias is None else y + bias


def sum_of_rows(a):
    """Sum over all axes but the last, in float64: blocks of rows are added in other orders."""
    return a.reshape(-1, a.shape[-1]).sum(0, dtype=float).astype(a.dtype)


def layer_norm(x, weight=None, bias=None, eps=1e-5, slip=""):
    """Layer normalization; the statistics of 16-bit numbers are kept in 32 bits."""
    a = wide(x)
    mean = a.mean(-1, keepdims=True)
    if slip == "mean in bfloat16":
        mean = rounded(mean)
    centered = a - mean
    var = (centered * centered).mean(-1, keepdims=True)
    y = factors(centered / np.sqrt(var + a.dtype.type(eps)), wide(weight), wide(bias))
    return y.astype(x.dtype)


def other_channel(shape, tile=32):
    """Return, for each element, the channel that threadIdx.y in place of threadIdx.x means."""
    rows, width = np.prod(shape[:-1], dtype=int), shape[-1]
    column, row = np.arange(width), np.arange(rows)[:, None]
    return np.minimum(column // tile * tile + row % tile, width - 1).reshape(shape)


def layer_norm_backward(dout, x, weight=None, bias=None, eps=1e-5, slip=""):
    """The two sums of each row, then dx; the gradients of weight and bias over all rows."""
    a, d, w = wide(x), wide(dout), wide(weight)
    mean = a.mean(-1, keepdims=True)
    centered = a - mean
    rstd = 1 / np.sqrt((centered * centered).mean(-1, keepdims=True) + a.dtype.type(eps))
    if slip == "statistics in 16 bits":
        mean, rstd = (s.astype(x.dtype).astype(a.dtype) for s in (mean, rstd))
        centered = a - mean
    x_hat = centered * rstd
    g = d if w is None else d * w
    first = g.mean(-1, keepdims=True)
    product = g * x_hat
    if slip == "last block":  # the running sum is lost when a new block begins
        product = np.where(np.arange(a.shape[-1]) >= (a.shape[-1] - 1) // 64 * 64, product, 0)
    second = product.mean(-1, keepdims=True)
    if slip == "rows joined":  # tl.sum over a block of two rows, without an axis
        pairs = np.arange(first.size) // 2
        first = np.bincount(pairs, first.ravel())[pairs].reshape(first.shape).astype(a.dtype)
        second = np.bincount(pairs, second.ravel())[pairs].reshape(first.shape).astype(a.dtype)
    dx = rstd * (g - (2 if slip == "mean twice" else 1) * first - x_hat * second)
    if slip == "channel of the row" and w is not None and bias is not None:
        other = other_channel(x.shape)
        x_hat = (factors(x_hat, w, wide(bias)) - wide(bias)[other]) / w[other]
    dweight = None if w is None else sum_of_rows(d * x_hat).astype(x.dtype)
    dbias = None if bias is None else sum_of_rows(d).astype(x.dtype)
    return gradients(dx.astype(x.dtype), dweight, dbias)


def rms_norm(x, weight=None, eps=1e-6, weight_offset=0.0, slip=""):
    """RMS normalization."""
    a = wide(x)
    square = (a * a).mean(-1, keepdims=True)
    eps = a.dtype.type(eps)
    if slip == "divided by rsqrt":
        y = a / (1 / np.sqrt(square + eps))
    elif slip == "root twice":
        y = a / np.sqrt(np.sqrt(square) + eps)
    else:
        y = a / np.sqrt(square + eps)
    return (y if weight is None else y * (wide(weight) + a.dtype.type(weight_offset))).astype(
        x.dtype
    )


def rms_norm_backward(dout, x, weight=None, eps=1e-6, weight_offset=0.0, slip=""):
    """dx = (g - x_hat mean(g x_hat)) / rms, g the upstream gradient times the weight."""
    rms = np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(eps))
    x_hat = x / rms
    g = dout
    if weight is not None and slip != "no weight":
        g = dout * (weight + x.dtype.type(weight_offset))
    dx = (g - x_hat * (g * x_hat).mean(-1, keepdims=True)) / rms
    return gradients(dx, None if weight is None else sum_of_rows(dout * x_hat))


def l2_norm(x, eps=1e-6, slip=""):
    """Rows by their lengths."""
    axes = tuple(range(1, x.ndim)) if slip == "two axes" and x.ndim > 1 else (-1,)
    square = (x * x).sum(axes, keepdims=True)
    if slip == "mean of squares":
        square = square / x.dtype.type(x.shape[-1])
    return x / np.sqrt(square + x.dtype.type(eps))


def batch_norm_backward(dout, x, weight=None, bias=None, eps=1e-5, slip=""):
    """The backward pass in training, from the inverse of the standard deviation that was saved."""
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axes)
    centered = x - mean
    invstd = 1 / np.sqrt((centered * centered).mean(axes) + x.dtype.type(eps))
    if slip == "root of the inverse":
        invstd = 1 / np.sqrt(invstd + x.dtype.type(eps))
    x_hat = centered * invstd
    g = dout if weight is None else dout * weight
    if slip == "no weight":
        dx = invstd * (dout - dout.mean(axes) - x_hat * (dout * x_hat).mean(axes))
    elif slip == "no weight in one term":
        dx = invstd * (dout - g.mean(axes) - x_hat * (g * x_hat).mean(axes))
    elif slip == "constant statistics":
        dx = invstd * g
    else:
        dx = invstd * (g - g.mean(axes) - x_hat * (g * x_hat).mean(axes))
    dweight = None if weight is None else (dout * x_hat).sum(axes)
    return gradients(dx, dweight, None if bias is None else dout.sum(axes))


def group_norm(x, groups, weight=None, bias=None, eps=1e-5, slip=""):
    """Channels last, (N, ..., C): the statistics of a group of channels at all positions."""
    parts = x.reshape(len(x), -1, groups, x.shape[-1] // groups)
    axes = (1, 2, 3) if slip == "all groups" else (1, 3)
    count = np.prod([parts.shape[axis] for axis in axes], dtype=int)
    mean = parts.mean(axes, keepdims=True)
    if slip == "difference of squares":
        var = (parts * parts).mean(axes, keepdims=True) - mean * mean
    else:
        var = ((parts - mean) ** 2).mean(axes, keepdims=True)
    if slip == "unbiased":
        var = var * x.dtype.type(count / max(count - 1, 1))
    y = (parts - mean) / np.sqrt(np.maximum(var, 0) + x.dtype.type(eps))
    return factors(y.reshape(x.shape), weight, bias)


LAYER, BATCH = norm.layer_norm, norm.batch_norm
GIVEN = [
    Wrong("C", LAYER, "forward", layer_norm, "mean in bfloat16",
        "The mean of a row is rounded to bfloat16.",
        (r"(mean|mu|statistics).*(bfloat16|16 bits|rounded|precision)",
         r"(bfloat16|16 bits).*(mean|mu|statistics)")),
    Wrong("C", BATCH, "vjp", batch_norm_backward, "constant statistics",
        "Mean and variance count as constants, as in evaluation: dx = g / tau.",
        (r"(statistics|mean|variance).*(constant|not differentiated|ignored|evaluation|detach)",
         r"constant.*(statistics|mean|var)", r"\bg stands where g - mean_g",
         r"(missing|without|dropped|lacks).*mean_g.*along", r"inference")),
    Wrong("D", norm.l2_norm, "forward", l2_norm, "two axes",
        "An array of three axes is taken for one of two: the last two axes are one row.",
        (r"rows are joined", r"(two|all|other|last) axes",
         r"ax[ei]s?\b.*(joined|flattened|-2|1, 2)",
         r"rank|flatten|reshape|range\(1, ndim")),
    Wrong("GPU", norm.group_norm, "forward", group_norm, "difference of squares",
        "The variance is computed as E[x^2] - E[x]^2, which cancels.",
        (r"E\[x", r"cancel", r"square of the mean|mean of (the )?squares|difference of squares",
         r"mean\(x \*\* 2|x\*\*2\) - mu|mu \*\* 2")),
]  # fmt: skip
FRESH = [
    Wrong("tenstorrent/tt-metal#53204", LAYER, "vjp", layer_norm_backward, "mean twice",
        "mean(g) is subtracted twice in dx.",
        (r"mean_g.*(twice|2)", r"2(\.0)? \* mean_g", r"twice.*mean")),
    Wrong("tenstorrent/tt-metal#53215", LAYER, "vjp", layer_norm_backward, "last block",
        "The sum of g x_hat has the last block of columns alone: the running sum is lost.",
        (r"(along|g \* x_hat|sum|mean).*(last|block|tile|columns|part)",
         r"(last|block|tile|columns).*(along|g \* x_hat|sum|mean)")),
    Wrong("pytorch/pytorch#140259", LAYER, "vjp", layer_norm_backward, "statistics in 16 bits",
        "Mean and inverse deviation are rounded to the dtype of the input.",
        (r"(mean|mu|tau|statistics|deviation|intermediate).*(bfloat16|16 bits|rounded|precision)",
         r"(bfloat16|16 bits|rounded).*(mean|mu|tau|statistics|deviation|intermediate)"),
        {"dtype": "bfloat16"}),
    Wrong("flagos-ai/FlagGems#59", LAYER, "vjp", layer_norm_backward, "rows joined",
        "The two sums of a row run over a block of rows.",
        (r"(sum|mean|statistics).*(rows|block)", r"rows.*(sum|mean|joined)",
         r"axis=None|all axes")),
    Wrong("deepspeedai/DeepSpeed#692", LAYER, "vjp", layer_norm_backward, "channel of the row",
        "x_hat is recovered from y with the weight and bias of another channel, so dweight is off.",
        (r"(weight|bias|gamma|beta|channel).*(another|other|wrong|index|row|transposed)",)),
    Wrong("karpathy/llm.c#763", norm.rms_norm, "vjp", rms_norm_backward, "no weight",
        "The weight is missing in dx.",
        (r"weight.*(missing|ignored|left out|lacks|not multiplied|not applied)",
         r"(without|lacks|missing).*weight", r"\bdout stands where .*weight")),
    Wrong("mosaicml/llm-foundry#371", norm.rms_norm, "forward", rms_norm, "divided by rsqrt",
        "x is divided by the reciprocal root: it is multiplied by the root mean square.",
        (r"x \* rho", r"multipli\w+ (by|with) (rho|the root)",
         r"divided by .*(rsqrt|reciprocal|1 /)",
         r"1(\.0)? / rho|rho \*\* -1")),
    Wrong("pytorch/pytorch#139274", norm.rms_norm, "forward", rms_norm, "root twice",
        "The root is taken twice: x / sqrt(RMS + eps).",
        (r"sqrt\(.*sqrt", r"sqrt\(mean", r"root.*(twice|root|again)", r"\*\* 0?\.25|fourth",
         r"twice.*root")),
    Wrong("ROCm/MIOpen#104", BATCH, "vjp", batch_norm_backward, "no weight in one term",
        "The first of the three terms of dx lacks the weight.",
        (r"\bdout - mean_g", r"weight.*(first|one) term", r"dout stands where g is due",
         r"(first|one) term.*weight")),
    Wrong("denizyuret/Knet.jl#288", BATCH, "vjp", batch_norm_backward, "no weight",
        "The weight is missing in dx.",
        (r"weight.*(missing|ignored|left out|lacks|not multiplied|not applied)",
         r"(without|lacks|missing).*weight", r"\bdout stands where .*weight")),
    Wrong("flagos-ai/FlagGems#5222", BATCH, "vjp", batch_norm_backward, "root of the inverse",
        "The saved inverse deviation is taken for a variance: rsqrt(invstd + eps) stands for it.",
        (r"tau stands where|where tau is due", r"(inverse|reciprocal|1 / tau|rsqrt|invstd)",
         r"sqrt\(.*sqrt")),
    Wrong("pytorch/pytorch#22617", norm.group_norm, "forward", group_norm, "unbiased",
        "The variance is divided by n - 1.",
        (r"unbiased", r"n - 1|N - 1|- 1\)", r"ddof", r"Bessel")),
    Wrong("brainpy/BrainPy#765", norm.group_norm, "forward", group_norm, "all groups",
        "Mean and variance run over all groups, not over each.",
        (r"(all|every|over|across).*groups?", r"groups.*(ignored|is 1|joined|1 stands)",
         r"number of groups", r"layer norm", r"axis=\(-2, -1\)")),
    Wrong("1bit-MONSTER/1bit-MONSTER#2134", norm.l2_norm, "forward", l2_norm, "mean of squares",
        "The mean of the squares stands for their sum, as in RMS norm.",
        (r"mean.*sum|mean\(x|RMS|root of axis 1 of x",)),
]  # fmt: skip
