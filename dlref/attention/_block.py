"""
The attention block: project, split into heads, attend, merge, project.

`multi_head_attention`, the blocks of a Transformer and decoding with a cache all compute with it.
Arrays have one dtype; only the options of `Attention` are checked here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Unpack

import numpy as np

from .._core.arguments import (
    MAX_OFFSET,
    FloatArray,
    as_array,
    as_integer,
    as_number,
    check_flags,
    check_multiple,
    check_pattern,
    check_shape,
    check_symbols,
    entries,
)
from .._math.dense import affine, affine_jvp, affine_vjp
from ..activations import sigmoid, sigmoid_vjp
from ..calculus import clip_vjp
from ..normalization import (
    layer_norm,
    layer_norm_jvp,
    layer_norm_vjp,
    rms_norm,
    rms_norm_jvp,
    rms_norm_vjp,
)
from ..positions import apply_rope, apply_rope_vjp
from ._cache import KVCache, appended
from ._kernels.arguments import Attention, AttentionOptions, as_window
from ._kernels.matrices import scores, softmax_parts
from ._params import AttentionParams
from ._scaled_dot_product import gradients, scaled_dot_product_attention_jvp


class Heads(NamedTuple):
    """How channels are cut into heads, their bounds, and the tables that rotate them."""

    queries: int
    keys: int
    rope: tuple[FloatArray, FloatArray] | None = None
    interleaved: bool = True
    norm_eps: float = 1e-6
    norm_offset: float = 0.0
    norm_after_rope: bool = False
    clip_qkv: float | None = None

    def bounded(self, z: FloatArray) -> FloatArray:
        """Restrict queries, keys or values to the interval from -c to c, if there is a bound c."""
        return z if self.clip_qkv is None else np.clip(z, -self.clip_qkv, self.clip_qkv)

    def bounded_vjp(self, u: FloatArray, z: FloatArray, w: FloatArray | None = None) -> FloatArray:
        """Return the gradient before the bounds of numbers that are normalized by `w` first."""
        if self.clip_qkv is None:
            return u
        return clip_vjp(u, self._normed(z, w), min=-self.clip_qkv, max=self.clip_qkv)

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

    def prepared(self, z: FloatArray, w: FloatArray | None) -> FloatArray:
        """Normalize queries or keys (..., H, T, E) if there is a `w`, bound and rotate them."""
        if self.norm_after_rope:
            return self._normed(self.rotated(self.bounded(z)), w)
        return self.rotated(self.bounded(self._normed(z, w)))

    def prepared_vjp(
        self, u: FloatArray, z: FloatArray, w: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return the gradients of queries or keys before that, and of the weight."""
        if self.norm_after_rope:
            dz, dw = self._normed_vjp(u, self.rotated(self.bounded(z)), w)
            return self.bounded_vjp(self.rotated_vjp(dz), z), dw
        return self._normed_vjp(self.bounded_vjp(self.rotated_vjp(u), z, w), z, w)

    def prepared_jvp(
        self, z: FloatArray, v: FloatArray, w: FloatArray | None, dw: FloatArray | None
    ) -> FloatArray:
        """Return the tangent after that; the Jacobian of the bounds is diagonal."""
        if self.norm_after_rope:
            rotated, moved = self.rotated(self.bounded(z)), self.rotated(self.bounded_vjp(v, z))
            return self._normed_jvp(rotated, moved, w, dw)
        return self.rotated(self.bounded_vjp(self._normed_jvp(z, v, w, dw), z, w))

    def _normed(self, z: FloatArray, w: FloatArray | None) -> FloatArray:
        if w is None:
            return z
        if w.ndim == 2:
            return np.asarray(self._weights(w) * layer_norm(z, eps=self.norm_eps))
        rows = _rows_of_norm(z, w)
        return _heads_of_norm(rms_norm(rows, w, **self._norm), z)

    def _normed_vjp(
        self, u: FloatArray, z: FloatArray, w: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None]:
        if w is None:
            return u, None
        if w.ndim == 2:
            dw = np.asarray(np.sum(u * layer_norm(z, eps=self.norm_eps), axis=-2))
            dz = layer_norm_vjp(np.asarray(self._weights(w) * u), z, eps=self.norm_eps)
            return dz, dw.sum(tuple(range(dw.ndim - 2)))
        dz, dw = rms_norm_vjp(_rows_of_norm(u, w), _rows_of_norm(z, w), w, **self._norm)
        return _heads_of_norm(dz, z), dw

    def _normed_jvp(
        self, z: FloatArray, v: FloatArray, w: FloatArray | None, dw: FloatArray | None
    ) -> FloatArray:
        if w is None:
            return v
        if w.ndim == 2:
            alone = layer_norm_jvp((z, None, None), (v, None, None), eps=self.norm_eps)
            along = np.zeros_like(w) if dw is None else dw
            own = along[:, None, :] * layer_norm(z, eps=self.norm_eps)
            return np.asarray(self._weights(w) * alone + own)
        rows, moved = _rows_of_norm(z, w), _rows_of_norm(v, w)
        return _heads_of_norm(rms_norm_jvp((rows, w), (moved, dw), **self._norm), z)

    def _weights(self, w: FloatArray) -> FloatArray:
        """Return a weight for each head and channel, the same in all positions."""
        return np.asarray(w[:, None, :] + w.dtype.type(self.norm_offset))

    @property
    def _norm(self) -> Any:
        return {"eps": self.norm_eps, "weight_offset": self.norm_offset}

    @property
    def _pairs(self) -> Any:
        assert self.rope is not None
        return {"interleaved": self.interleaved, "rotary_dim": 2 * self.rope[0].shape[-1]}


def _rows_of_norm(z: FloatArray, w: FloatArray) -> FloatArray:
    """Return the rows that a norm of weight `w` takes: one a head, or one for all."""
    return z if len(w) == z.shape[-1] else merge(z)


def _heads_of_norm(rows: FloatArray, like: FloatArray) -> FloatArray:
    """Return rows in heads again."""
    return rows if rows.ndim == like.ndim else split(rows, like.shape[-3])


def as_heads(
    num_heads: int,
    num_kv_heads: int | None,
    rope: Any = None,
    rope_interleaved: bool = True,
    *,
    clip_qkv: float | None = None,
    **norm: Any,
) -> Heads:
    """Check the options that say how channels are cut into heads, normalized and rotated."""
    check_flags(rope_interleaved=rope_interleaved)
    if clip_qkv is not None:
        clip_qkv = as_number("clip_qkv", clip_qkv, above=0)
    H = as_integer("num_heads", num_heads, least=1)
    Hk = H if num_kv_heads is None else as_integer("num_kv_heads", num_kv_heads, least=1)
    if H % Hk:
        msg = f"Argument 'num_kv_heads' must divide num_heads = {H}, not {Hk}."
        raise ValueError(msg)
    if rope is not None:
        cos, sin = (as_array(name, table) for name, table in entries("rope", rope, 2).items())
        # tables of their own for each sequence serve all its heads
        rope = (cos, sin) if cos.ndim <= 2 else (cos[..., None, :, :], sin[..., None, :, :])
    return Heads(H, Hk, rope, rope_interleaved, *_checked_norm(**norm), clip_qkv)


def _checked_norm(
    norm_eps: float = 1e-6, norm_offset: float = 0.0, norm_after_rope: bool = False
) -> tuple[float, float, bool]:
    check_flags(norm_after_rope=norm_after_rope)
    eps, offset = as_number("norm_eps", norm_eps, least=0), as_number("norm_offset", norm_offset)
    return eps, offset, bool(norm_after_rope)


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
    for label, b, w in zip(names[4:8], p[4:8], p[:4], strict=True):
        if b is not None:
            check_shape(label, b, w.shape[:1])
    for key, w, count in (("q_norm", p.w_q, heads.queries), ("k_norm", p.w_k, heads.keys)):
        norm = getattr(p, key)
        each = count, len(w) // count
        if norm is not None and norm.shape not in (w.shape[:1], each):
            check_symbols(f"{name}.{key}", norm, "(E,)", (len(w) // count,))
    merged = p.w_o.shape[1]
    if p.w_gate is not None:
        check_shape(f"{name}.w_gate", p.w_gate, (merged, width))
    if p.b_gate is not None:
        if p.w_gate is None:
            msg = f"Argument '{name}.b_gate' must be None where w_gate is None, not an array."
            raise ValueError(msg)
        check_shape(f"{name}.b_gate", p.b_gate, (merged,))
    if p.sink is not None:
        check_shape(f"{name}.sink", p.sink, (heads.queries,))


def split(x: FloatArray, heads: int) -> FloatArray:
    """Cut the features of each token into heads: (..., T, H E) to (..., H, T, E)."""
    return np.swapaxes(x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads), -2, -3)


def merge(x: FloatArray) -> FloatArray:
    """Put the heads of each token side by side, the inverse of `split`."""
    rows = np.ascontiguousarray(np.swapaxes(x, -2, -3))
    return rows.reshape(*rows.shape[:-2], math.prod(rows.shape[-2:]))


def keys_before(window: Any) -> int | None:
    """Return how many keys before its own a query sees, None if there is no bound."""
    left, _ = as_window(window)
    return None if left == MAX_OFFSET else left


class AttentionBlock:
    """
    A forward pass: tokens `x_q` ask tokens `x_kv`, and those in the cache.

    `options` are as in `Attention`: mask, bias, is_causal, q_offset, window, scale, softcap and
    sink, which the parameters may have instead.
    """

    def __init__(
        self,
        x_q: FloatArray,
        x_kv: FloatArray,
        params: AttentionParams,
        heads: Heads,
        cache: KVCache | None = None,
        **options: Unpack[AttentionOptions],
    ) -> None:
        p, self.x_q, self.x_kv, self.p, self.heads = params, x_q, x_kv, params, heads
        self.options = options if p.sink is None else {**options, "sink": p.sink}
        self.raw = (  # before norms, bounds and rotation
            split(affine(x_q, p.w_q, p.b_q), heads.queries),
            split(affine(x_kv, p.w_k, p.b_k), heads.keys),
            split(affine(x_kv, p.w_v, p.b_v), heads.keys),
        )
        q, k = heads.prepared(self.raw[0], p.q_norm), heads.prepared(self.raw[1], p.k_norm)
        v = heads.bounded(self.raw[2])
        with appended(cache, k, v) as (k, v):
            self.operands = q, k, v
            self.at = Attention(("q", "k", "v"), self.operands, **self.options)
            self.averages, self.log_sums = self.at.attend()
        self.merged = merge(self.at.of_queries(self.averages, self.at.T, self.at.V))
        self.gate, self.opened = None, self.merged
        if p.w_gate is not None:
            self.gate = affine(x_q, p.w_gate, p.b_gate)
            self.openness = sigmoid(self.gate)
            self.opened = self.openness * self.merged

    def out(self) -> FloatArray:
        """Return the output (..., T, D_out)."""
        return affine(self.opened, self.p.w_o, self.p.b_o)

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
        dmerged, dw_o, db_o = affine_vjp(dout, self.opened, p.w_o, p.b_o)
        own: dict[str, FloatArray | None] = {}
        dx_gate = None
        if self.gate is not None and p.w_gate is not None:
            dgate = sigmoid_vjp(dmerged * self.merged, self.gate)
            dx_gate, dw_gate, db_gate = affine_vjp(dgate, self.x_q, p.w_gate, p.b_gate)
            own |= {"w_gate": dw_gate, "b_gate": db_gate}
            dmerged = dmerged * self.openness
        dq, dk, dv, *rest = gradients(
            self.at, split(dmerged, heads.queries), known=(self.averages, self.log_sums)
        )
        if p.sink is not None:
            *rest, own["sink"] = rest
        dq, own["q_norm"] = heads.prepared_vjp(dq, self.raw[0], p.q_norm)
        dk, own["k_norm"] = heads.prepared_vjp(dk, self.raw[1], p.k_norm)
        dv = heads.bounded_vjp(dv, self.raw[2])
        dx_q, dw_q, db_q = affine_vjp(merge(dq), self.x_q, p.w_q, p.b_q)
        dx_k, dw_k, db_k = affine_vjp(merge(dk), self.x_kv, p.w_k, p.b_k)
        dx_v, dw_v, db_v = affine_vjp(merge(dv), self.x_kv, p.w_v, p.b_v)
        dparams = p._replace(
            w_q=dw_q, w_k=dw_k, w_v=dw_v, w_o=dw_o, b_q=db_q, b_k=db_k, b_v=db_v, b_o=db_o, **own
        )  # fmt: skip
        dx_q = dx_q if dx_gate is None else dx_q + dx_gate
        return dx_q, dx_k + dx_v, dparams, *rest

    def jvp(
        self,
        dx_q: FloatArray | None,
        dx_kv: FloatArray | None,
        dp: AttentionParams,
        **tangents: Any,
    ) -> tuple[FloatArray, ...]:
        """
        Return the tangents of the output, and of log-sum-exp and weights if asked for.

        `tangents` are the tangents of bias and sink; the result is as in
        `scaled_dot_product_attention_jvp`.
        """
        p, heads = self.p, self.heads
        dq = affine_jvp((self.x_q, p.w_q, p.b_q), (dx_q, dp.w_q, dp.b_q))
        dk = affine_jvp((self.x_kv, p.w_k, p.b_k), (dx_kv, dp.w_k, dp.b_k))
        dv = affine_jvp((self.x_kv, p.w_v, p.b_v), (dx_kv, dp.w_v, dp.b_v))
        dq = heads.prepared_jvp(self.raw[0], split(dq, heads.queries), p.q_norm, dp.q_norm)
        dk = heads.prepared_jvp(self.raw[1], split(dk, heads.keys), p.k_norm, dp.k_norm)
        dv = heads.bounded_vjp(split(dv, heads.keys), self.raw[2])
        if p.sink is not None:
            tangents["dsink"] = dp.sink
        moved = scaled_dot_product_attention_jvp(
            self.operands, (dq, dk, dv), **self.options, **tangents
        )
        dout, *more = moved if isinstance(moved, tuple) else (moved,)
        dout = merge(dout)
        if self.gate is not None and p.w_gate is not None:
            moved_gate = (dx_q, dp.w_gate, dp.b_gate)
            dgate = affine_jvp((self.x_q, p.w_gate, p.b_gate), moved_gate)
            dout = self.openness * dout + sigmoid_vjp(dgate * self.merged, self.gate)
        dout = affine_jvp((self.opened, p.w_o, p.b_o), (dout, dp.w_o, dp.b_o))
        return dout, *more
