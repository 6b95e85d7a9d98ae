"""Code shared by latent attention and by the blocks that have it: the pass and its derivatives."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Unpack

import numpy as np

from .._core.arguments import (
    FloatArray,
    check_multiple,
    check_pattern,
    check_shape,
    wrong_shape,
)
from ..normalization import rms_norm, rms_norm_jvp, rms_norm_vjp
from ._attention_weights import attention_weights
from ._block import Heads, merge, split
from ._cache import KVCache, appended
from ._kernels.arguments import AttentionOptions
from ._scaled_dot_product import (
    scaled_dot_product_attention,
    scaled_dot_product_attention_jvp,
    scaled_dot_product_attention_vjp,
)


def check_latent_params(labels: list[str], p: Any, width: int, heads: Heads) -> None:
    """Raise unless the weights fit tokens of this width and each other."""
    H = heads.queries
    if (p.w_dq is None) != (p.q_norm is None):
        which, other = (0, 1) if p.w_dq is None else (1, 0)
        msg = f"Argument {labels[which]!r} must be given where {labels[other]} is, not None."
        raise TypeError(msg)
    low = width
    if p.w_dq is not None:
        check_pattern(labels[0], p.w_dq, ("Rq", width))
        low = len(p.w_dq)
        check_shape(labels[1], p.q_norm, (low,))
    check_pattern(labels[4], p.kv_norm, ("Rkv",))
    latent = len(p.kv_norm)
    check_pattern(labels[3], p.w_dkv, ("Rkv + R", width))
    rotated = len(p.w_dkv) - latent
    if rotated < 0:
        wrong_shape(labels[3], p.w_dkv, f"(Rkv + R, {width}) with Rkv = {latent}")
    for label, w in zip(labels[5:7], (p.w_uk, p.w_uv), strict=True):
        check_pattern(label, w, ("rows", latent))
        check_multiple(label, "a number of rows", len(w), H)
    check_shape(labels[2], p.w_uq, (len(p.w_uk) + H * rotated, low))
    check_pattern(labels[7], p.w_o, ("D_out", len(p.w_uv)))
    if heads.rope is not None and 2 * heads.rope[0].shape[-1] != rotated:
        msg = f"Argument 'rope' must have tables of R / 2 = {rotated / 2:g} columns, "
        raise ValueError(msg + f"not {heads.rope[0].shape[-1]}.")


class _Attended(NamedTuple):
    """Queries, keys and values of all heads, or of the latents."""

    q: FloatArray
    k: FloatArray
    v: FloatArray


class LatentBlock:
    """
    A forward pass over tokens `x`, and those in the cache, whose arrays are checked.

    It has the methods of `AttentionBlock`; `options` are as in `scaled_dot_product_attention`.
    """

    def __init__(
        self,
        x: FloatArray,
        params: Any,
        heads: Heads,
        cache: KVCache | None = None,
        *,
        absorbed: bool = False,
        **options: Unpack[AttentionOptions],
    ) -> None:
        self.x, self.p, self.heads = x, params, heads
        self.N = len(params.w_uk) // heads.queries
        self.R = len(params.w_dkv) - len(params.kv_norm)
        if options.get("scale") is None:
            options["scale"] = 1 / math.sqrt(max(self.N + self.R, 1))
        self.options = options
        self._project()
        with appended(cache, self.shared, self.latent[..., None, :, :]) as (shared, latents):
            operands = self._absorbed if absorbed else self._expanded
            self.operands = operands(latents[..., 0, :, :], shared)
            averages = scaled_dot_product_attention(*self.operands, **options)
        self.merged = merge(self._project_values(averages) if absorbed else averages)

    @property
    def _norm(self) -> Any:
        return {"eps": self.heads.norm_eps}

    def _project(self) -> None:
        """Compute the latents, and from them the queries."""
        p = self.p
        self.low = self.x
        if p.w_dq is not None:
            self.before_q = self.x @ p.w_dq.T
            self.low = rms_norm(self.before_q, p.q_norm, **self._norm)
        q = split(self.low @ p.w_uq.T, self.heads.queries)
        self.q_plain, self.q_turned = q[..., : self.N], self.heads.rotated(q[..., self.N :])
        down = self.x @ p.w_dkv.T
        self.before_kv = down[..., : len(p.kv_norm)]
        self.latent = rms_norm(self.before_kv, p.kv_norm, **self._norm)
        self.shared = self.heads.rotated(down[..., None, :, len(p.kv_norm) :])

    def _expanded(self, latent: FloatArray, shared: FloatArray) -> _Attended:
        """Return queries, keys and values of all heads."""
        H = self.heads.queries
        keys = split(latent @ self.p.w_uk.T, H)
        common = np.broadcast_to(shared, (*keys.shape[:-1], self.R))
        q = np.concatenate([self.q_plain, self.q_turned], axis=-1)
        k = np.concatenate([keys, common], axis=-1)
        return _Attended(q, k, split(latent @ self.p.w_uv.T, H))

    def _absorbed(self, latent: FloatArray, shared: FloatArray) -> _Attended:
        """Return queries that meet the latents themselves, which are keys and values of all."""
        w_uk = self.p.w_uk.reshape(self.heads.queries, self.N, -1)
        q = np.concatenate([self.q_plain @ w_uk, self.q_turned], axis=-1)
        one = latent[..., None, :, :]
        return _Attended(q, np.concatenate([one, shared], axis=-1), one)

    def _project_values(self, averages: FloatArray) -> FloatArray:
        """Return the averages of the values, given the averages of the latents."""
        H = self.heads.queries
        w_uv = self.p.w_uv.reshape(H, -1, self.p.w_uv.shape[-1])
        return np.asarray(averages @ w_uv.swapaxes(-1, -2))

    def out(self) -> FloatArray:
        """Return the output (..., T, D_out)."""
        return np.asarray(self.merged @ self.p.w_o.T)

    def weights(self) -> FloatArray:
        """Return the weights (..., H, T, S)."""
        options: Any = {name: value for name, value in self.options.items() if name != "dropout"}
        return attention_weights(self.operands.q, self.operands.k, **options)

    def vjp(self, u: FloatArray) -> tuple[Any, ...]:
        """Return the tokens' gradients by way of queries and of latents, dparams, and dbias."""
        p, heads, N = self.p, self.heads, self.N
        du = split(u @ p.w_o, heads.queries)
        dq, dk, dv, *rest = scaled_dot_product_attention_vjp(du, *self.operands, **self.options)
        dkeys, dvalues = merge(dk[..., :N]), merge(dv)
        dlatent = dkeys @ p.w_uk + dvalues @ p.w_uv
        dshared = heads.rotated_vjp(dk[..., N:].sum(-3, keepdims=True))[..., 0, :, :]
        dbefore, dkv_norm = rms_norm_vjp(dlatent, self.before_kv, p.kv_norm, **self._norm)
        ddown = np.concatenate([dbefore, dshared], axis=-1)
        dqueries = merge(np.concatenate([dq[..., :N], heads.rotated_vjp(dq[..., N:])], axis=-1))
        dx_q, dw_dq, dq_norm = dqueries @ p.w_uq, None, None
        if p.w_dq is not None:
            dbefore_q, dq_norm = rms_norm_vjp(dx_q, self.before_q, p.q_norm, **self._norm)
            dw_dq, dx_q = _outer(dbefore_q, self.x), dbefore_q @ p.w_dq
        dparams = p._replace(
            w_dq=dw_dq, q_norm=dq_norm, w_uq=_outer(dqueries, self.low),
            w_dkv=_outer(ddown, self.x), kv_norm=dkv_norm, w_uk=_outer(dkeys, self.latent),
            w_uv=_outer(dvalues, self.latent), w_o=_outer(u, self.merged),
        )  # fmt: skip
        return dx_q, ddown @ p.w_dkv, dparams, *rest

    def jvp(
        self, dx_q: FloatArray, dx_kv: FloatArray | None, dp: Any, **tangents: Any
    ) -> tuple[FloatArray]:
        """Return the tangent of the output; the arguments are as in `AttentionBlock.jvp`."""
        assert dx_kv is not None
        p, heads, N, H = self.p, self.heads, self.N, self.heads.queries
        dlow = dx_q
        if p.w_dq is not None:
            moved = dx_q @ p.w_dq.T + self.x @ dp.w_dq.T
            dlow = rms_norm_jvp((self.before_q, p.q_norm), (moved, dp.q_norm), **self._norm)
        dq = split(dlow @ p.w_uq.T + self.low @ dp.w_uq.T, H)
        dq = np.concatenate([dq[..., :N], heads.rotated(dq[..., N:])], axis=-1)
        ddown = dx_kv @ p.w_dkv.T + self.x @ dp.w_dkv.T
        width = len(p.kv_norm)
        primals = self.before_kv, p.kv_norm
        dlatent = rms_norm_jvp(primals, (ddown[..., :width], dp.kv_norm), **self._norm)
        dkeys = split(dlatent @ p.w_uk.T + self.latent @ dp.w_uk.T, H)
        dshared = heads.rotated(ddown[..., None, :, width:])
        dshared = np.broadcast_to(dshared, (*dkeys.shape[:-1], self.R))
        dk = np.concatenate([dkeys, dshared], axis=-1)
        dv = split(dlatent @ p.w_uv.T + self.latent @ dp.w_uv.T, H)
        dout = scaled_dot_product_attention_jvp(
            tuple(self.operands), (dq, dk, dv), **self.options, **tangents
        )
        return (np.asarray(merge(dout) @ p.w_o.T + self.merged @ dp.w_o.T),)


def _outer(u: FloatArray, x: FloatArray) -> FloatArray:
    """Return the sum of the outer products of all tokens."""
    return np.asarray(u.reshape(-1, u.shape[-1]).T @ x.reshape(-1, x.shape[-1]))
