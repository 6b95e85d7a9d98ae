"""flash-linear-attention: kernels of Triton for linear attention and delta rules."""

import functools
import itertools

import ml_dtypes  # noqa: F401 - NumPy knows bfloat16 then
import numpy as np
import torch
from fla.ops import delta_rule, gated_delta_rule, gla, kda, linear_attn, simple_gla

from dlref import attention

from . import Kernel, lacks


def recurrence(kernel, q, k, v, decay=None, beta=None, state=None, scale=1.0, *, gate=None):
    """Return outputs and last memory of one of fla's functions: batch, time, heads, width."""
    *lead, steps, _ = q.shape

    def with_heads(a):
        return a.reshape(-1, steps, 1, a.shape[-1])

    inputs = dict(zip("qkv", map(with_heads, (q, k, v)), strict=True))
    if gate == "channel":
        full = torch.zeros_like(q) if decay is None else decay.expand(q.shape)
        inputs["g"] = with_heads(full)
    elif gate == "head":
        lacks("a decay of each channel", decay is not None and decay.shape[-1] != 1)
        full = torch.zeros_like(q[..., :1]) if decay is None else decay
        inputs["g"] = with_heads(full)[..., 0]
    else:
        lacks("a decay", decay is not None)
    if kernel in CORRECTED:
        lacks("addition", beta is None)
        inputs["beta"] = with_heads(beta[..., None])[..., 0]
    else:
        lacks("a correction", beta is not None)
    start = None if state is None else state.reshape(-1, 1, *state.shape[-2:]).float()
    more = {"normalize": False} if kernel is linear_attn.chunk_linear_attn else {}
    out, last = kernel(**inputs, scale=scale, initial_state=start, output_final_state=True, **more)
    return out.reshape(v.shape), last.reshape(*lead, *last.shape[-2:]).to(q.dtype)


def memories(dtype):
    """Yield cases whose steps are a chunk, and no whole number of chunks."""
    rng = np.random.default_rng(0)
    for steps, width, values in (64, 32, 32), (150, 64, 32):
        shapes = (width,), (width,), (values,), (1,), ()
        q, k, v, g, beta = (rng.normal(size=(2, steps, *shape)) for shape in shapes)
        k /= np.linalg.norm(k, axis=-1, keepdims=True)
        g, beta = -np.log1p(np.exp(g)) / 16, 1 / (1 + np.exp(-beta))
        state = rng.normal(size=(2, width, values))
        decays = {"no decay": None, "a decay": g, "decays": g * np.linspace(0.5, 2, width)}
        for (what, decay), share in itertools.product(decays.items(), (None, beta)):
            start, name = (state, what) if share is None else (None, f"{what}, corrected")
            inputs = [a if a is None else a.astype(dtype) for a in (q, k, v, decay, share, start)]
            yield f"{steps} steps, {name}", inputs, {"scale": width**-0.5}


CORRECTED = (
    delta_rule.chunk_delta_rule, delta_rule.fused_recurrent_delta_rule,
    gated_delta_rule.chunk_gated_delta_rule, kda.chunk_kda, kda.fused_recurrent_kda,
)  # fmt: skip
#: Each with the decay that it takes.
RECURRENCES = {
    linear_attn.chunk_linear_attn: None,
    simple_gla.chunk_simple_gla: "head",
    simple_gla.fused_recurrent_simple_gla: "head",
    gla.chunk_gla: "channel",
    gla.fused_recurrent_gla: "channel",
    delta_rule.chunk_delta_rule: None,
    delta_rule.fused_recurrent_delta_rule: None,
    gated_delta_rule.chunk_gated_delta_rule: "head",
    kda.chunk_kda: "channel",
    kda.fused_recurrent_kda: "channel",
}


KERNELS = tuple(
    Kernel(
        kernel.__name__,
        attention.recurrent_linear_attention,
        functools.partial(recurrence, kernel, gate=gate),
        cases=memories,
    )
    for kernel, gate in RECURRENCES.items()
)
