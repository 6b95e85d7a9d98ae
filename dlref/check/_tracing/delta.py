"""The gated delta rule of a block, written out step by step, and its mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.arguments import FloatArray
from ...activations import sigmoid, silu, softplus
from ...convolution import causal_conv
from ...normalization import rms_norm
from .common import Mistakes, Options, Steps, in_part, joined, linear, of_other_heads, split


def _remembered(
    q: FloatArray, k: FloatArray, v: FloatArray, decay: FloatArray, beta: FloatArray, wrong: str
) -> FloatArray:
    """Return the value that each query reads: heads (..., H, T, E), decay and beta (..., H, T)."""
    memory = np.zeros((*q.shape[:-2], q.shape[-1], v.shape[-1]), q.dtype)
    read = np.empty(v.shape, q.dtype)
    for t in range(q.shape[-2]):
        factor = np.exp(decay[..., t, None, None])
        memory = memory if wrong == "decay last" else factor * memory
        error = v[..., t, :] - np.einsum("...ev,...e->...v", memory, k[..., t, :])
        error = v[..., t, :] if wrong == "no error" else error
        memory = memory + k[..., t, :, None] * (beta[..., t, None] * error)[..., None, :]
        memory = factor * memory if wrong == "decay last" else memory
        read[..., t, :] = np.einsum("...ev,...e->...v", memory, q[..., t, :])
    return read


def delta_steps(x: FloatArray, p: Any, o: Options, part: str) -> Steps:
    wrong, H = o.get("wrong", ""), len(p.a_log)
    keys, steps = o["delta_heads"] or H, {}
    E = len(p.w_q) // keys

    def shared(rows: FloatArray) -> FloatArray:
        z = split(rows, keys)
        if wrong != "lengths":
            z = z / np.sqrt(np.sum(z * z, axis=-1, keepdims=True) + z.dtype.type(1e-6))
        if wrong == "tiled":
            return np.concatenate([z] * (H // keys), axis=-3)
        return np.repeat(z, H // keys, axis=-3)

    rows = [linear(x, w) for w in (p.w_q, p.w_k, p.w_v)]
    conv = np.split(p.conv, [len(p.w_q), 2 * len(p.w_q)])
    taps = [w[:, ::-1] if wrong == "flipped" else w for w in conv]
    filtered = [causal_conv(z, w)[0] for z, w in zip(rows, taps, strict=True)]
    q, k, v = filtered if wrong == "activation" else map(silu, filtered)
    scale = E**-0.5 if wrong != "scale" else 1.0
    steps["q"], steps["k"] = shared(q), shared(k)
    steps["v"] = split(v, H)
    scores = np.swapaxes(linear(x, p.w_b), -1, -2)
    steps["beta"] = scores if wrong == "beta" else sigmoid(scores)
    moved = linear(x, p.w_a) + (0 if wrong == "dt_bias" else p.dt_bias)
    rates = p.a_log if wrong == "a_log" else np.exp(p.a_log)
    rates = np.exp(rates) if wrong == "exp twice" else rates
    rise = moved if wrong == "softplus" else softplus(moved)
    decay = steps["decay"] = np.swapaxes(-rates * rise, -1, -2)
    q, k, v, beta = (steps[name] for name in ("q", "k", "v", "beta"))
    steps["averages"] = q.dtype.type(scale) * _remembered(q, k, v, decay, beta, wrong)
    gate = steps["gate"] = split(linear(x, p.w_z), H)
    read = steps["averages"]
    opened = 1 if wrong == "gate" else sigmoid(gate) if wrong == "sigmoid" else silu(gate)
    weight = p.norm + p.norm.dtype.type(1) if wrong == "1 + w" else p.norm
    if wrong == "order":
        merged = rms_norm(read * opened, weight, eps=o["eps"])
    else:
        merged = rms_norm(read, weight, eps=o["eps"]) * opened
    steps["out"] = linear(joined(merged), p.w_o)
    return in_part(part, steps)


#: Mistakes by their names in `delta_steps`.
WRONG = {
    "lengths": "queries and keys are not divided by their lengths",
    "activation": "the convolution's outputs lack their SiLU",
    "flipped": "the convolution's weights are flipped in time",
    "scale": "what is read is not divided by the root of E",
    "beta": "the rates beta lack their sigmoid",
    "dt_bias": "the bias of the steps is missing",
    "a_log": "the decay's rates are taken without their exponential",
    "exp twice": "the decay's rates are taken with two exponentials",
    "softplus": "the decay's steps lack their softplus",
    "no error": "the memory takes the values, not the part that its keys do not read yet",
    "decay last": "the memory decays after it has taken a value, not before",
    "1 + w": "the weight of the delta rule's own norm is taken as 1 + w",
    "gate": "the gate of the output is missing",
    "sigmoid": "the gate of the output is a sigmoid, not a SiLU",
    "order": "the norm comes after the gate, not before it",
}


#: Parameters with one number a head, as messages call them.
PER_HEAD = {"dt_bias": "the biases of the steps", "a_log": "the logarithms of the decay"}


def delta_mistakes(p: Any, o: Options, part: str) -> Mistakes:
    heads = len(getattr(p, part).a_log)
    for wrong, message in WRONG.items():
        yield message, p, o | {"wrong": wrong}
    for field, said in PER_HEAD.items():
        own = getattr(p, part)
        for message, numbers in of_other_heads(said, getattr(own, field)):
            yield message, p._replace(**{part: own._replace(**{field: numbers})}), o
    if (o["delta_heads"] or heads) < heads:
        message = "value head h uses key head h mod Hk instead of h // (H / Hk)"
        yield message, p, o | {"wrong": "tiled"}
