"""Liger: kernels of Triton for training."""

from liger_kernel.transformers import functional

from dlref import activations, losses, normalization, positions

from . import Kernel, lacks, refuse

ROWS = [[(4, 7)], [(3, 16)], [(2, 37)]]
NORMS = [[(3, 7), (7,)], [(2, 3, 32), (32,)]]
TWO_NORMS = [[*shapes, shapes[1]] for shapes in NORMS]
PAIRS = [[(3, 7), (3, 7)], [(2, 3, 32), (2, 3, 32)]]
LOGITS = [[(4, 7), (4,)], [(3, 40), (3,)]]


def rms_norm(x, weight, eps=1e-6, weight_offset=0.0):
    # "gemma" computes all in float32, "llama" the statistics
    return functional.liger_rms_norm(x, weight, eps, weight_offset, "llama", in_place=False)


def layer_norm(x, weight, bias, eps=1e-5):
    return functional.liger_layer_norm(x, weight, bias, eps)


def group_norm(x, groups, weight, bias, eps=1e-5):
    channels = x.shape[-1]
    rows = x.movedim(-1, 1)
    return functional.liger_group_norm(rows, weight, bias, channels, groups, eps).movedim(1, -1)


def cross_entropy(
    logits, target, weight=None, ignore_index=-100, label_smoothing=0.0, z_loss=0.0,
    reduction="mean",
):  # fmt: skip
    lacks("probabilities as targets", target.ndim == logits.ndim)
    rows = logits.reshape(-1, logits.shape[-1]).clone()  # the gradient is written over the logits
    out = functional.liger_cross_entropy(
        rows, target.reshape(-1), weight, ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing, lse_square_scale=z_loss,
    )  # fmt: skip
    return out.reshape(target.shape) if reduction == "none" else out


def linear_cross_entropy(
    x, weight, target, bias=None, ignore_index=-100, label_smoothing=0.0, z_loss=0.0,
    reduction="mean",
):  # fmt: skip
    lacks("reduction", reduction == "none")  # its backward pass takes a scalar
    return functional.liger_fused_linear_cross_entropy(
        x.reshape(-1, x.shape[-1]), weight, target.reshape(-1), bias, ignore_index=ignore_index,
        label_smoothing=label_smoothing, lse_square_scale=z_loss, reduction=reduction,
    )  # fmt: skip


def swiglu(x, gate, beta=1.0, limit=None, shift=0.0):
    refuse(beta=beta - 1, limit=limit, shift=shift)
    return functional.liger_swiglu(gate.clone(), x.clone())  # its backward pass overwrites them


def softmax(x, axis=-1):
    refuse(axis=axis + 1)
    return functional.liger_softmax(x)


def sparsemax(x, axis=-1):
    return functional.liger_sparsemax(x, axis)


def apply_rope(x, cos, sin, interleaved=True):
    *_, steps, width = x.shape
    lacks("positions of each head", x.ndim < 2 or cos.ndim != 2)
    heads = x.reshape(1, -1, steps, width)
    tables = [table.repeat(1, 2)[None] for table in (cos, sin)]
    if interleaved:  # its pairs are the halves of a head
        heads = heads.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    # it overwrites its arguments
    q, _ = functional.liger_rope(heads.clone(), heads.detach().clone(), *tables)
    if interleaved:
        q = q.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
    return q.reshape(x.shape)


def kl_divergence(log_p, q, reduction="mean"):
    lacks("reduction", reduction == "none")
    rows = [a.reshape(-1, a.shape[-1]) for a in (log_p, q)]
    name = {"mean": "batchmean", "sum": "sum"}[reduction]
    return functional.liger_kl_div(*rows, reduction=name)


KERNELS = (
    Kernel("rms_norm", normalization.rms_norm, rms_norm, NORMS),
    Kernel("layer_norm", normalization.layer_norm, layer_norm, TWO_NORMS),
    Kernel("group_norm", normalization.group_norm, group_norm, None),
    Kernel("cross_entropy", losses.cross_entropy, cross_entropy, LOGITS),
    Kernel(
        "fused_linear_cross_entropy",
        losses.linear_cross_entropy,
        linear_cross_entropy,
        [[(4, 6), (9, 6), (4,)], [(3, 5), (33, 5), (3,)]],
    ),
    Kernel("swiglu", activations.swiglu, swiglu, PAIRS),
    # its GELU is the approximation by tanh, which dlref's geglu does not have
    Kernel("relu_squared", activations.relu_squared, functional.liger_relu_squared, ROWS),
    Kernel("softmax", activations.softmax, softmax, ROWS),
    Kernel("sparsemax", activations.sparsemax, sparsemax, ROWS),
    Kernel("rope", positions.apply_rope, apply_rope, [[(1, 2, 5, 8), (5, 4), (5, 4)]]),
    Kernel("kl_div", losses.kl_divergence, kl_divergence, [[(4, 7), (4, 7)]]),
)
