"""The gated delta rule in place of a block's attention: the pass and its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_integers, check_multiple, check_pattern, check_shape
from ..activations import (
    sigmoid,
    sigmoid_deriv,
    silu,
    silu_deriv,
    softplus,
    softplus_deriv,
)
from ..attention import (
    recurrent_linear_attention,
    recurrent_linear_attention_jvp,
    recurrent_linear_attention_vjp,
)
from ..attention._block import merge, split
from ..convolution import causal_conv, causal_conv_jvp, causal_conv_vjp
from ..neurons import linear, linear_vjp
from ..normalization import l2_norm, l2_norm_jvp, l2_norm_vjp, rms_norm, rms_norm_jvp, rms_norm_vjp
from ._params import GatedDeltaParams

EPS = 1e-6  #: of the lengths of queries and keys


def check_delta_params(name: str, p: GatedDeltaParams, width: int, key_heads: int) -> None:
    """Raise unless the weights fit tokens of this width and each other."""
    H, V = len(p.a_log), len(p.norm)
    labels = {field: f"{name}.{field}" for field in p._fields}
    check_pattern(labels["w_q"], p.w_q, ("Hk E", width))
    check_multiple(labels["w_q"], "a number of rows", len(p.w_q), key_heads)
    check_shape(labels["w_k"], p.w_k, p.w_q.shape)
    check_multiple(labels["a_log"], "a number of heads", H, key_heads)
    for field, rows in (("w_v", H * V), ("w_z", H * V), ("w_b", H), ("w_a", H)):
        check_shape(labels[field], getattr(p, field), (rows, width))
    check_pattern(labels["conv"], p.conv, (2 * len(p.w_q) + H * V, "K"))
    for field, shape in (("a_log", (H,)), ("dt_bias", (H,)), ("norm", (V,))):
        check_shape(labels[field], getattr(p, field), shape)
    check_shape(labels["w_o"], p.w_o, (width, H * V))


class DeltaCache:
    """The state of a gated delta rule: the last inputs of the convolution, and the memory."""

    def __init__(self) -> None:
        self.inputs: FloatArray | None = None
        self.memory: FloatArray | None = None

    def reorder(self, texts: npt.ArrayLike) -> None:
        """Go on with some of the texts of the first batch axis, as beam search does."""
        which = as_integers("texts", texts)
        assert self.inputs is not None  # a text has been read
        assert self.memory is not None
        self.inputs, self.memory = self.inputs[which], self.memory[which]


class DeltaBlock:
    """
    A forward pass over tokens `x`, whose arrays are checked.

    It has the methods of `AttentionBlock`, but no attention weights: tokens meet in a memory.
    """

    def __init__(
        self, x: FloatArray, p: GatedDeltaParams, key_heads: int, eps: float, cache: Any = None
    ) -> None:
        self.x, self.p, self.key_heads, self.eps = x, p, key_heads, eps
        self.H, self.K = len(p.a_log), len(p.w_q)
        self.cuts = self.K, 2 * self.K
        self.rows = linear(x, np.concatenate([p.w_q, p.w_k, p.w_v]))
        before = None if cache is None else (cache.inputs, cache.memory)
        state = None if before is None else before[0]
        self.filtered, last = causal_conv(self.rows, p.conv, None, state)
        self.raw = [
            split(part, n)
            for part, n in zip(
                np.split(silu(self.filtered), self.cuts, axis=-1),
                (key_heads, key_heads, self.H),
                strict=True,
            )
        ]
        q, k = (self._repeated(l2_norm(part, eps=EPS)) for part in self.raw[:2])
        self.scores = linear(x, p.w_b)
        self.steps = linear(x, p.w_a) + p.dt_bias
        self.rates = -np.exp(p.a_log)
        decay = np.swapaxes(self.rates * softplus(self.steps), -1, -2)[..., None]
        beta = np.swapaxes(sigmoid(self.scores), -1, -2)
        memory = None if before is None else before[1]
        self.operands = q, k, self.raw[2], decay, beta, memory
        self.scale = (self.K // key_heads) ** -0.5
        self.read, memory = recurrent_linear_attention(*self.operands, scale=self.scale)
        if cache is not None:
            cache.inputs, cache.memory = last, memory
        self.gate = split(linear(x, p.w_z), self.H)
        self.normed = rms_norm(self.read, p.norm, eps=eps)
        self.merged = merge(self.normed * silu(self.gate))

    def _repeated(self, heads: FloatArray) -> FloatArray:
        """Let several heads of values share a head of keys."""
        return np.repeat(heads, self.H // self.key_heads, axis=-3)

    def _summed(self, heads: FloatArray) -> FloatArray:
        """Add up the gradients of the heads that share one, the adjoint."""
        shape = *heads.shape[:-3], self.key_heads, -1, *heads.shape[-2:]
        return np.asarray(heads.reshape(shape).sum(-3))

    def out(self) -> FloatArray:
        """Return the output (..., T, D)."""
        return linear(self.merged, self.p.w_o)

    def weights(self) -> None:
        """Return None: a memory has no weights of pairs of tokens."""

    def vjp(self, u: FloatArray) -> tuple[Any, ...]:
        """Return the tokens' gradients by way of the gates and of the memory, and dparams."""
        p, x = self.p, self.x
        dmerged, dw_o = linear_vjp(u, self.merged, p.w_o)
        dgated = split(dmerged, self.H)
        dgate = merge(dgated * self.normed * silu_deriv(self.gate))
        dread, dnorm = rms_norm_vjp(dgated * silu(self.gate), self.read, p.norm, eps=self.eps)
        still = np.zeros((*x.shape[:-2], *self._memory_shape), x.dtype)
        dq, dk, dv, ddecay, dbeta, *_ = recurrent_linear_attention_vjp(
            (dread, still), *self.operands, scale=self.scale
        )
        dscores = np.swapaxes(dbeta, -1, -2) * sigmoid_deriv(self.scores)
        ddecay = np.swapaxes(ddecay[..., 0], -1, -2)
        dsteps = ddecay * self.rates * softplus_deriv(self.steps)
        over = tuple(range(x.ndim - 1))
        pairs = zip((dq, dk), self.raw, strict=False)
        draw = [l2_norm_vjp(self._summed(d), z, eps=EPS) for d, z in pairs]
        dfiltered = np.concatenate([merge(part) for part in (*draw, dv)], axis=-1)
        dfiltered = dfiltered * silu_deriv(self.filtered)
        last = np.zeros((*x.shape[:-2], p.conv.shape[1] - 1, p.conv.shape[0]), x.dtype)
        drows, dconv, *_ = causal_conv_vjp((dfiltered, last), self.rows, p.conv)
        dx_rows, dw_rows = linear_vjp(drows, x, np.concatenate([p.w_q, p.w_k, p.w_v]))
        dw_q, dw_k, dw_v = np.split(dw_rows, self.cuts)
        dx, grads = np.zeros_like(x), {}
        for field, d in (("w_z", dgate), ("w_b", dscores), ("w_a", dsteps)):
            part, grads[field] = linear_vjp(d, x, getattr(p, field))
            dx += part
        dparams = p._replace(
            w_q=dw_q, w_k=dw_k, w_v=dw_v, conv=dconv, norm=dnorm, w_o=dw_o,
            a_log=np.sum(ddecay * softplus(self.steps), axis=over) * self.rates,
            dt_bias=np.sum(dsteps, axis=over), **grads,
        )  # fmt: skip
        return dx, dx_rows, dparams

    @property
    def _memory_shape(self) -> tuple[int, int, int]:
        return self.H, self.K // self.key_heads, len(self.p.norm)

    def jvp(
        self, dx_q: FloatArray, dx_kv: FloatArray | None, dp: Any, **tangents: Any
    ) -> tuple[FloatArray]:
        """Return the tangent of the output; `dx_q` and `dx_kv` are the tokens' alike."""
        p, x, dx = self.p, self.x, dx_q

        def moved(field: str) -> FloatArray:
            return linear(dx, getattr(p, field)) + linear(x, getattr(dp, field))

        drows = np.concatenate([moved(field) for field in ("w_q", "w_k", "w_v")], axis=-1)
        given, moves = (self.rows, p.conv, None, None), (drows, dp.conv, None, None)
        dfiltered, _ = causal_conv_jvp(given, moves)
        dfiltered = silu_deriv(self.filtered) * dfiltered
        counts = self.key_heads, self.key_heads, self.H
        pieces = np.split(dfiltered, self.cuts, axis=-1)
        dq, dk, dv = (split(part, n) for part, n in zip(pieces, counts, strict=True))
        dq, dk = (
            self._repeated(l2_norm_jvp(z, d, eps=EPS))
            for z, d in zip(self.raw, (dq, dk), strict=False)
        )
        dbeta = np.swapaxes(sigmoid_deriv(self.scores) * moved("w_b"), -1, -2)
        dsteps = moved("w_a") + dp.dt_bias
        ddecay = softplus_deriv(self.steps) * dsteps + dp.a_log * softplus(self.steps)
        ddecay = self.rates * ddecay
        ddecay = np.swapaxes(ddecay, -1, -2)[..., None]
        dread, _ = recurrent_linear_attention_jvp(
            self.operands, (dq, dk, dv, ddecay, dbeta, None), scale=self.scale
        )
        dgate = silu_deriv(self.gate) * split(moved("w_z"), self.H)
        dnormed = rms_norm_jvp((self.read, p.norm), (dread, dp.norm), eps=self.eps)
        dmerged = merge(dnormed * silu(self.gate) + self.normed * dgate)
        return (linear(dmerged, p.w_o) + linear(self.merged, dp.w_o),)
