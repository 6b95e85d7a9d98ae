"""Latent attention in a block, written out, and its mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.arguments import FloatArray
from ...attention import attention_scores, attention_weights, document_mask
from ...normalization import rms_norm
from ...positions import apply_rope
from .common import Mistakes, Options, Steps, in_part, inner_eps, joined, linear, split

ATTENTION = ("mask", "bias", "is_causal", "q_offset", "window", "scale", "softcap")


def attention_options(o: Options, T: int) -> Options:
    """Return the options of attention of T queries, chunks as a mask."""
    options = {name: o[name] for name in ATTENTION}
    if o["chunk"] is not None:
        queries = np.arange(o["q_offset"], o["q_offset"] + T) // o["chunk"]
        same = document_mask(queries, np.arange(T) // o["chunk"])
        options["mask"] = same if o["mask"] is None else np.asarray(o["mask"]) & same
    return options


def latent_steps(x: FloatArray, p: Any, o: Options, part: str) -> Steps:
    """Return the steps of latent attention, with keys and values of all heads."""
    H, steps = o["num_heads"], {}
    N, R = len(p.w_uk) // H, len(p.w_dkv) - len(p.kv_norm)
    wrong = o.get("wrong", "")

    def normed(rows: FloatArray, weight: FloatArray, name: str) -> FloatArray:
        return rows if wrong == name else rms_norm(rows, weight, eps=inner_eps(o))

    def rotated(rows: FloatArray) -> FloatArray:
        if o["rope"] is None:
            return rows
        return np.asarray(apply_rope(rows, *o["rope"], interleaved=o["rope_interleaved"]))

    low = x
    if p.w_dq is not None:
        low = steps["q_latent"] = normed(linear(x, p.w_dq), p.q_norm, "q_norm")
    q = split(linear(low, p.w_uq), H)
    down = linear(x, p.w_dkv)
    latent = steps["latent"] = normed(down[..., : len(p.kv_norm)], p.kv_norm, "kv_norm")
    shared = down[..., None, :, len(p.kv_norm) :]
    steps["q"] = np.concatenate([q[..., :N], rotated(q[..., N:])], axis=-1)
    keys = split(linear(latent, p.w_uk), H)
    shared = shared if wrong == "keys" else rotated(shared)
    common = np.broadcast_to(shared, (*keys.shape[:-1], R))
    steps["k"] = np.concatenate([keys, common], axis=-1)
    steps["v"] = split(linear(latent, p.w_uv), H)
    options = attention_options(o, x.shape[-2])
    if options["scale"] is None:
        options["scale"] = max(N + R, 1) ** -0.5
    steps["scores"] = attention_scores(steps["q"], steps["k"], **options)
    steps["weights"] = attention_weights(steps["q"], steps["k"], **options)
    steps["averages"] = steps["weights"] @ steps["v"]
    steps["out"] = linear(joined(steps["averages"]), p.w_o)
    return in_part(part, steps)


def latent_mistakes(p: Any, o: Options, part: str) -> Mistakes:
    a, H = getattr(p, part), o["num_heads"]
    N, R = len(a.w_uk) // H, len(a.w_dkv) - len(a.kv_norm)
    for width, message in {len(a.kv_norm): "the latent's width", R: "R", N: "N"}.items():
        if width:
            said = f"the scores are divided by the root of {message} instead of N + R"
            yield said, p, o | {"scale": width**-0.5}
    if o["scale"] is not None:
        yield "the scores are divided by the root of N + R", p, o | {"scale": None}
    if o["is_causal"]:
        yield "the causal mask is missing", p, o | {"is_causal": False}
    yield "the norm of the latents is missing", p, o | {"wrong": "kv_norm"}
    if a.w_dq is not None:
        yield "the norm of the queries' latents is missing", p, o | {"wrong": "q_norm"}
    for name in ("q_norm", "kv_norm"):
        weight = getattr(a, name)
        if weight is not None:
            plus = a._replace(**{name: weight + weight.dtype.type(1)})
            yield f"the weight of {name} is taken as 1 + w", p._replace(**{part: plus}), o
    if o["rope"] is not None:
        cos, sin = o["rope"]
        for said, other in o.get("scalings", {}).items():
            if np.shape(other[0]) == np.shape(cos):
                yield said, p, o | {"rope": other}
        yield "the shared key is not rotated", p, o | {"wrong": "keys"}
        yield "queries and the shared key are not rotated", p, o | {"rope": None}
        yield "the rotation goes backwards", p, o | {"rope": (cos, -np.asarray(sin))}
        pairs = ("neighbors", "halves") if o["rope_interleaved"] else ("halves", "neighbors")
        message = f"channels are rotated as {pairs[1]}, while the weights have pairs as {pairs[0]}"
        yield message, p, o | {"rope_interleaved": not o["rope_interleaved"]}
        rows = a.w_uq.reshape(H, N + R, -1)
        first = np.concatenate([rows[:, N:], rows[:, :N]], axis=1).reshape(a.w_uq.shape)
        message = "the rotated channels of the queries come first in each head, not last"
        yield message, p._replace(**{part: a._replace(w_uq=first)}), o
