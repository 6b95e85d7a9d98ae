"""PyTorch: its own kernels, its compiler's, and each way in which it computes attention."""

import functools

import torch
from check import test_right
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from dlref import activations, attention, convolution, losses, normalization

from . import Kernel, lacks

DTYPES = "float64", "float32", "float16", "bfloat16"
#: What a compiler fuses into kernels of its own; each shape is compiled.
COMPILED = (
    activations.softmax, activations.log_softmax, activations.gelu, activations.mish,
    normalization.layer_norm, normalization.rms_norm, losses.cross_entropy,
)  # fmt: skip


def compiled(f):
    """Return a function that is compiled for each shape, and for each set of options."""
    return functools.wraps(f)(torch.compile(f, dynamic=False))


def by(backend):
    """Return attention by one of PyTorch's kernels; what that one lacks is refused."""

    def attend(q, k, v, mask=None, bias=None, is_causal=False, scale=None):
        with sdpa_kernel(backend):
            return test_right.sdpa(q, k, v, mask, bias, is_causal, scale=scale)

    return attend


def conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    lacks("two axes, and one padding", x.ndim != 4 or not isinstance(padding, int))
    return functional.conv2d(x, weight, bias, stride, padding, dilation, groups)


def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    # PyTorch's second axis is the channels
    out = functional.group_norm(x.movedim(-1, 1), groups, weight, bias, eps)
    return out.movedim(1, -1)


FUSED = {
    "flash": (SDPBackend.FLASH_ATTENTION, ("float16", "bfloat16")),
    "memory-efficient": (SDPBackend.EFFICIENT_ATTENTION, ("float32", "float16", "bfloat16")),
    "cuDNN": (SDPBackend.CUDNN_ATTENTION, ("float16", "bfloat16")),
}
KERNELS = (
    *(Kernel(op.__name__, op, f, None, DTYPES) for op, f in test_right.F.items()),
    Kernel("conv2d", convolution.conv, conv, None, DTYPES),
    Kernel("group_norm", normalization.group_norm, group_norm, None, DTYPES),
)  # fmt: skip
#: These are those of a GPU.
ON_DEVICE = (
    *(
        Kernel(f"attention, {name}", attention.scaled_dot_product_attention, by(backend), None,
               dtypes)
        for name, (backend, dtypes) in FUSED.items()
    ),
    *(
        Kernel(f"{op.__name__}, compiled", op, compiled(test_right.F[op]), None,
               ("float32", "bfloat16"), {"max_shapes": 4})
        for op in COMPILED
    ),
)  # fmt: skip
