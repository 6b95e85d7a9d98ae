"""
The blocks, written out.

This is a second transcription of `dlref.transformer`, on purpose.  It is the oracle of a trace:
tests hold that it arrives at the numbers of the forward pass, which keeps no T x T arrays, has
fused kernels and shares projections.  And it can be made to go wrong: a mistake changes its
parameters, its options, or what stands under "wrong", and no such side door belongs into the
forward pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.arguments import FloatArray
from ...activations import sigmoid
from ...activations._by_name import by_name
from ...attention import attention_scores, attention_weights
from ...neurons import linear
from ...normalization import layer_norm, rms_norm
from ...positions import apply_rope

ATTENTION = ("mask", "bias", "is_causal", "q_offset", "window", "scale", "softcap")

#: Options besides those of the functions. "wrong" is a mistake that no parameter makes.
Options = dict[str, Any]
Steps = dict[str, FloatArray]
Mistake = tuple[str, Any, Options]  # words, parameters, options


def normed(x: FloatArray, p: Any, o: Options) -> FloatArray:
    """Normalize as a block with these parameters and options does."""
    if o["norm"] == "layer" or (o["norm"] is None and p.bias is not None):
        return layer_norm(x, *p, eps=o["eps"])
    y = rms_norm(x, p.weight, eps=o["eps"])
    return y if p.bias is None else y + p.bias  # a bias only after a mistake


def _heads(x: FloatArray, count: int, wrong: str = "") -> FloatArray:
    width = x.shape[-1] // count  # not -1, which no text of no tokens has
    if wrong == "cut":
        return x.reshape(*x.shape[:-2], count, x.shape[-2], width)
    return np.swapaxes(x.reshape(*x.shape[:-1], count, width), -2, -3)


def _attend(x: FloatArray, p: Any, o: Options, y: Any = None, part: str = "attention") -> Steps:
    """Return the steps of attention to `y`, of self-attention if there is none."""
    H, y, wrong = o["num_heads"], x if y is None else y, o.get("wrong", "")
    keys = o["num_kv_heads"] or H
    q, k, v = (
        _heads(linear(x, p.w_q, p.b_q), H, wrong),
        _heads(linear(y, p.w_k, p.b_k), keys, wrong),
        _heads(linear(y, p.w_v, p.b_v), keys, wrong),
    )
    steps: Steps = {"q": q, "k": k, "v": v}
    if o["rope"] is not None:
        cos, sin = o["rope"]
        tables = {"interleaved": o["rope_interleaved"], "rotary_dim": 2 * np.shape(cos)[-1]}
        rotated = [np.asarray(apply_rope(a, cos, sin, **tables)) for a in (q, k, v)]
        q, k = rotated[0], k if wrong == "keys" else rotated[1]
        v = rotated[2] if wrong == "values" else v
        steps |= {"q_rotated": q, "k_rotated": k}
    options = {name: o[name] for name in ATTENTION}
    steps["scores"] = attention_scores(q, k, **options)
    steps["weights"] = attention_weights(q, k, **options)
    if wrong == "axis":
        steps["weights"] = _over_queries(steps["scores"])
    steps["averages"] = steps["weights"] @ np.repeat(v, H // keys, axis=-3)
    merged = steps["averages"] if wrong == "merge" else np.swapaxes(steps["averages"], -2, -3)
    merged = merged.reshape(*x.shape[:-1], H * v.shape[-1])
    steps["out"] = linear(merged, p.w_o, p.b_o)
    return {f"{part}.{name}": value for name, value in steps.items()}


def _over_queries(scores: FloatArray) -> FloatArray:
    """Return the softmax of scores over the wrong axis."""
    with np.errstate(invalid="ignore", over="ignore"):
        e = np.exp(scores - scores.max(-2, keepdims=True, initial=-np.inf))
        return np.asarray(e / e.sum(-2, keepdims=True))


def _quick_gelu(x: FloatArray) -> FloatArray:
    return np.asarray(x * sigmoid(x.dtype.type(1.702) * x))


def _network(x: FloatArray, p: Any, o: Options) -> Steps:
    """Return the steps of a feed-forward network."""
    f = _quick_gelu if o.get("wrong") == "quick" else by_name(o["activation"]).map
    if len(p) == 3:  # gated
        steps: Steps = {
            "feed_forward.gate": linear(x, p.w_gate),
            "feed_forward.up": linear(x, p.w_up),
        }
        gate, up = steps.values()
        hidden: Any = gate * f(up) if o.get("wrong") == "up" else f(gate) * up
        out = linear(hidden, p.w_down)
    else:
        steps = {"feed_forward.inner": linear(x, p.w1, p.b1)}
        hidden = f(steps["feed_forward.inner"])
        out = linear(hidden, p.w2, p.b2)
    return steps | {"feed_forward.hidden": hidden, "feed_forward.out": out}


def _sublayers(x: FloatArray, parts: Any, o: Options) -> Steps:
    """Return the steps of sub-layers with their norms and sums, the output last."""
    steps: Steps = {}
    wrong, given = o.get("wrong", ""), x
    for i, (run, norm) in enumerate(parts, 1):
        z = given if wrong == "parallel" else x
        if o["norm_first"]:
            steps[f"norm{i}"] = normed(z, norm, o)
            z = z if wrong == "unnormed" else steps[f"norm{i}"]
        steps |= run(z)
        beside = {f"left out {i}": np.zeros_like(x), "normed": z}.get(wrong, x)
        x = steps[f"sum{i}"] = np.asarray(beside + list(steps.values())[-1])
        if not o["norm_first"]:
            x = steps[f"norm{i}"] = normed(x, norm, o)
    return steps | {"out": x}


def block_steps(x: FloatArray, p: Any, o: Options) -> Steps:
    """Return the steps of an encoder block."""
    attend = (lambda z: _attend(z, p.attention, o)), p.norm1
    network = (lambda z: _network(z, p.feed_forward, o)), p.norm2
    return _sublayers(x, (attend, network), o)


def decoder_block_steps(given: tuple[FloatArray, FloatArray], p: Any, o: Options) -> Steps:
    """Return the steps of a decoder block, which is given its input and the memory."""
    x, memory = given
    across = o["across"]

    def read(z: FloatArray) -> Steps:
        source = z if across["own"] else memory
        return _attend(z, p.cross_attention, across, source, "cross_attention")

    attend = (lambda z: _attend(z, p.self_attention, o, part="self_attention")), p.norm1
    network = (lambda z: _network(z, p.feed_forward, o)), p.norm3
    return _sublayers(x, (attend, (read, p.norm2), network), o)
