"""
The attention block: project, split into heads, attend, merge, project.

`multi_head_attention`, the blocks of a Transformer and decoding with a cache all compute with it.
Arrays have one dtype; only the options of `Attention` are checked here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._core.arguments import (
    FloatArray,
    as_array,
    as_integer,
    check_flags,
    check_multiple,
    check_pattern,
    check_shape,
    entries,
)
from .._math.dense import affine, affine_jvp, affine_vjp
from ..positions import apply_rope, apply_rope_vjp
from ._cache import KVCache
from ._kernels.arguments import Attention
from ._kernels.matrices import scores, softmax_parts
from ._params import AttentionParams
from ._scaled_dot_product import gradients, scaled_dot_product_attention_jvp


class Heads(NamedTuple):
    """How channels are cut into heads, and the tables that rotate queries and keys."""

    queries: int
    keys: int
    rope: tuple[FloatArray, FloatArray] | None = None
    interleaved: bool = True

    def rotated(self, x: FloatArray) -> FloatArray:
        """Rotate queries or keys."""
        if self.rope is None:
            return x
        return np.asarray(apply_rope(x, *self.rope, **self._pairs))

    def rotated_vjp(self, dx: FloatArray) -> FloatArray:
        """Return the gradient before the rotation."""
        if self.rope is None:
            return dx
        return np.asarray(apply_rope_vjp(dx, dx, *self.rope, **self._pairs))

    @property
    def _pairs(self) -> Any:
        assert self.rope is not None
        return {"interleaved": self.interleaved, "rotary_dim": 2 * self.rope[0].shape[-1]}


def as_heads(
    num_heads: int, num_kv_heads: int | None, rope: Any = None, rope_interleaved: bool = True
) -> Heads:
    """Check the options that say how channels are cut into heads."""
    check_flags(rope_interleaved=rope_interleaved)
    H = as_integer("num_heads", num_heads, least=1)
    Hk = H if num_kv_heads is None else as_integer("num_kv_heads", num_kv_heads, least=1)
    if H % Hk:
        msg = f"Argument 'num_kv_heads' must divide num_heads = {H}, not {Hk}."
        raise ValueError(msg)
    if rope is not None:
        cos, sin = (as_array(name, table) for name, table in entries("rope", rope, 2).items())
        # tables of their own for each sequence serve all its heads
        rope = (cos, sin) if cos.ndim <= 2 else (cos[..., None, :, :], sin[..., None, :, :])
    return Heads(H, Hk, rope, rope_interleaved)


def check_attention_params(
    name: str, p: AttentionParams, width: int, memory: int, heads: Heads
) -> None:
    """Raise unless the weights fit each other and tokens of these widths."""
    counts = heads.queries, heads.keys, heads.keys
    names = [f"{name}.{field}" for field in p._fields]
    for i, (w, n) in enumerate(zip(p[:3], (width, memory, memory), strict=True)):
        check_pattern(names[i], w, ("Hk E" if i else "H E", n))
    for label, w, count in zip(names[:3], p[:3], counts, strict=True):
        check_multiple(label, "a number of rows", len(w), count)
    check_pattern(names[1], p.w_k, (len(p.w_q) // heads.queries * heads.keys, memory))
    check_pattern(names[3], p.w_o, ("D_out", len(p.w_v) // heads.keys * heads.queries))
    for label, b, w in zip(names[4:], p[4:], p[:4], strict=True):
        if b is not None:
            check_shape(label, b, w.shape[:1])


def split(x: FloatArray, heads: int) -> FloatArray:
    """Cut the features of each token into heads: (..., T, H E) to (..., H, T, E)."""
    return np.swapaxes(x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads), -2, -3)


def merge(x: FloatArray) -> FloatArray:
    """Put the heads of each token side by side, the inverse of `split`."""
    rows = np.ascontiguousarray(np.swapaxes(x, -2, -3))
    return rows.reshape(*rows.shape[:-2], math.prod(rows.shape[-2:]))


class AttentionBlock:
    """
    A forward pass: tokens `x_q` ask tokens `x_kv`, and those in the cache.

    `options` are those of `Attention`: mask, bias, is_causal, q_offset, window, scale, softcap and
    sink.
    """

    def __init__(
        self,
        x_q: FloatArray,
        x_kv: FloatArray,
        params: AttentionParams,
        heads: Heads,
        cache: KVCache | None = None,
        **options: Any,
    ) -> None:
        p, self.x_q, self.x_kv, self.p, self.heads = params, x_q, x_kv, params, heads
        self.options = options
        q = heads.rotated(split(affine(x_q, p.w_q, p.b_q), heads.queries))
        k = heads.rotated(split(affine(x_kv, p.w_k, p.b_k), heads.keys))
        v = split(affine(x_kv, p.w_v, p.b_v), heads.keys)
        if cache is not None:
            k, v = cache.append(k, v)
        self.operands = q, k, v
        self.at = Attention(("q", "k", "v"), self.operands, **options)
        self.averages, self.log_sums = self.at.attend()
        self.merged = merge(self.at.of_queries(self.averages, self.at.T, self.at.V))

    def out(self) -> FloatArray:
        """Return the output (..., T, D_out)."""
        return affine(self.merged, self.p.w_o, self.p.b_o)

    def lse(self) -> FloatArray:
        """Return the log-sum-exp (..., H, T) of the scores."""
        return self.at.of_queries(self.log_sums, self.at.T)

    def weights(self) -> FloatArray:
        """Return the weights (..., H, T, S)."""
        at = self.at
        return at.of_queries(softmax_parts(at, scores(at))[0], at.T, at.S)

    def vjp(self, dout: FloatArray) -> tuple[Any, ...]:
        """Return (dx_q, dx_kv, dparams), then the gradients of bias and sink if there are any."""
        p, heads = self.p, self.heads
        dmerged, dw_o, db_o = affine_vjp(dout, self.merged, p.w_o, p.b_o)
        dq, dk, dv, *rest = gradients(
            self.at, split(dmerged, heads.queries), known=(self.averages, self.log_sums)
        )
        dq, dk = heads.rotated_vjp(dq), heads.rotated_vjp(dk)
        dx_q, dw_q, db_q = affine_vjp(merge(dq), self.x_q, p.w_q, p.b_q)
        dx_k, dw_k, db_k = affine_vjp(merge(dk), self.x_kv, p.w_k, p.b_k)
        dx_v, dw_v, db_v = affine_vjp(merge(dv), self.x_kv, p.w_v, p.b_v)
        dparams = p._replace(
            w_q=dw_q, w_k=dw_k, w_v=dw_v, w_o=dw_o, b_q=db_q, b_k=db_k, b_v=db_v, b_o=db_o
        )  # fmt: skip
        return dx_q, dx_k + dx_v, dparams, *rest

    def jvp(
        self,
        dx_q: FloatArray | None,
        dx_kv: FloatArray | None,
        dp: AttentionParams,
        **tangents: Any,
    ) -> tuple[FloatArray, ...]:
        """
        Return the tangent of the output, and those of log-sum-exp and weights if asked for.

        `tangents` are those of bias and sink, and what `scaled_dot_product_attention_jvp` returns.
        """
        p, heads = self.p, self.heads
        dq = affine_jvp((self.x_q, p.w_q, p.b_q), (dx_q, dp.w_q, dp.b_q))
        dk = affine_jvp((self.x_kv, p.w_k, p.b_k), (dx_kv, dp.w_k, dp.b_k))
        dv = affine_jvp((self.x_kv, p.w_v, p.b_v), (dx_kv, dp.w_v, dp.b_v))
        dq = heads.rotated(split(dq, heads.queries))
        dk, dv = heads.rotated(split(dk, heads.keys)), split(dv, heads.keys)
        moved = scaled_dot_product_attention_jvp(
            self.operands, (dq, dk, dv), **self.options, **tangents
        )
        dout, *more = moved if isinstance(moved, tuple) else (moved,)
        dout = affine_jvp((self.merged, p.w_o, p.b_o), (merge(dout), dp.w_o, dp.b_o))
        return dout, *more
