"""Attention, additive and linear attention."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from ...._core.broadcasting import unbroadcast
from ....attention import attention_scores
from .common import as_rows, product, tanh, widen
from .rows import softmax

MASKS = {"mask", "is_causal", "q_offset", "window"}


def _scores(q: Any, k: Any, options: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Return the scores of keys and of the sink, the largest, and the slope of the scores."""
    if {*options} - {*MASKS, "bias", "scale", "softcap", "sink", "dropout", "indices"}:
        raise NotImplementedError
    kind = q.dtype.type
    if "indices" in options:
        keys = np.asarray(options["indices"])[..., None] == np.arange(k.shape[-2])
        options = {**options, "mask": keys.any(-2) & options.get("mask", True)}
    slope = kind(options.get("scale", q.shape[-1] ** -0.5))
    scores = product(q, np.swapaxes(k, -1, -2)) * slope
    if "softcap" in options:
        bent = tanh(scores / kind(options["softcap"]))
        scores, slope = kind(options["softcap"]) * bent, slope * (1 - bent * bent)
    masks = {key: options[key] for key in MASKS & {*options}}
    one_wide = (np.zeros((*a.shape[:-1], 1)) for a in (q, k))
    hidden = attention_scores(*one_wide, **masks)  # -inf or 0
    scores = scores + (hidden + options.get("bias", 0)).astype(q.dtype)
    sink = np.reshape(options.get("sink", -np.inf), (-1, 1, 1)).astype(q.dtype)
    sink = sink if "sink" in options else sink[0]
    most = np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), sink)
    most = np.where(np.isfinite(most), most, 0)
    return scores, sink, most, slope


def _sum_with_sink(e: Any, last: Any) -> Any:
    return np.maximum(e.sum(-1, keepdims=True) + last, np.finfo(e.dtype).tiny)


def _weights(q: Any, k: Any, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return the weights of keys and sink, not rounded yet, and the slope of the scores."""
    scores, sink, most, slope = _scores(q, k, options)
    e, last = np.exp(scores - most), np.exp(sink - most)
    return e / (total := _sum_with_sink(e, last)), last / total, slope


def weights_by_logsumexp(q: Any, k: Any, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return the same as FlashAttention: exponentials of scores less the logarithm of their sum."""
    scores, sink, most, slope = _scores(q, k, options)
    y = most + np.log(_sum_with_sink(np.exp(scores - most), np.exp(sink - most)))
    return np.exp(scores - y), np.exp(sink - y), slope


def _dropout(options: dict[str, Any], q: Any) -> Any:
    return widen(np.asarray(options.get("dropout", 1)).astype(q.dtype))


def _repeated(q: Any, k: Any, v: Any) -> tuple[Any, Any, int]:
    """Return keys and values, once for each query head, and for how many heads each is."""
    heads = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    k, v = (np.repeat(widen(a), heads, -3) if heads > 1 else widen(a) for a in (k, v))
    return k, v, heads


def attention(q: Any, k: Any, v: Any, weights: Any = _weights, **options: Any) -> Any:
    """Return averages of values with weights that were rounded."""
    k, v, _ = _repeated(q, k, v)
    p, _, _ = weights(widen(q), k, options)
    return product(widen(p.astype(q.dtype)) * _dropout(options, q), v).astype(q.dtype)


def attention_vjp(
    dout: Any, q: Any, k: Any, v: Any, weights: Any = _weights, **options: Any
) -> Any:
    """Return the gradients of attention by its textbook formula, weights and scores rounded."""
    if isinstance(dout, tuple):  # with the gradient of the log-sum-exp
        raise NotImplementedError
    dtype, shapes, drop = q.dtype, (k.shape, v.shape), _dropout(options, q)
    k, v, heads = _repeated(q, k, v)
    dout, q = map(widen, (dout, q))
    p, last, slope = weights(q, k, options)
    p = widen(p.astype(dtype))
    dp = product(dout, np.swapaxes(v, -1, -2)) * drop
    out = widen(product(p * drop, v).astype(dtype))
    rows = (dout * out).sum(-1, keepdims=True)
    ds = widen((p * (dp - rows)).astype(dtype))
    grads, ds_k = [product(ds * slope, k)], np.swapaxes(ds * slope, -1, -2)
    parts = product(ds_k, q), product(np.swapaxes(p * drop, -1, -2), dout)
    for part, shape in zip(parts, shapes, strict=True):
        grads.append(part.reshape(*shape[:-2], heads, *shape[-2:]).sum(-3))
    if "bias" in options:
        grads.append(unbroadcast(ds, np.shape(options["bias"])))
    if "sink" in options:
        grads.append(unbroadcast(-(last * rows).sum((-1, -2)), np.shape(options["sink"])))
    return tuple(grad.astype(dtype) for grad in grads)


def attention_jvp(primals: Any, tangents: Any, weights: Any = _weights, **options: Any) -> Any:
    """Return the tangent of attention by its textbook formula, weights and scores rounded."""
    q, k, v = primals
    dtype, drop = q.dtype, _dropout(options, q)
    dq, dk, dv = (
        np.zeros_like(a) if d is None else d for a, d in zip(primals, tangents, strict=True)
    )
    k, v, _ = _repeated(q, k, v)
    dk, dv, _ = _repeated(q, dk, dv)
    q, dq = map(widen, (q, dq))
    p, _, slope = weights(q, k, options)
    p = widen(p.astype(dtype))
    ds = product(dq, np.swapaxes(k, -1, -2)) + product(q, np.swapaxes(dk, -1, -2))
    ds = ds * slope
    dp = widen((p * (ds - (p * ds).sum(-1, keepdims=True))).astype(dtype))
    return (product(dp * drop, v) + product(p * drop, dv)).astype(dtype)


def differential_attention(
    q1: Any, k1: Any, q2: Any, k2: Any, v: Any, lam: Any, **options: Any
) -> Any:
    """Return one attention minus lambda times the other, both rounded."""
    return attention(q1, k1, v, **options) - lam * attention(q2, k2, v, **options)


def differential_attention_vjp(
    dout: Any, q1: Any, k1: Any, q2: Any, k2: Any, v: Any, lam: Any, **options: Any
) -> Any:
    """Return the gradients of both attentions."""
    if "bias" in options:
        raise NotImplementedError
    *first, dv = attention_vjp(dout, q1, k1, v, **options)
    *second, other = attention_vjp(-lam * dout, q2, k2, v, **options)
    dlam = unbroadcast(-dout * attention(q2, k2, v, **options), lam.shape)
    return *first, *second, dv + other, dlam


def _identity(k: Any) -> Any:
    """Return values for which the result of attention is its weights."""
    n = k.shape[-2]
    return np.broadcast_to(np.eye(n, dtype=k.dtype), (*k.shape[:-1], n))


def weights_vjp(dout: Any, q: Any, k: Any, **options: Any) -> Any:
    """Return the gradients of the weights of attention, including bias and sink."""
    dq, dk, _, *rest = attention_vjp(dout, q, k, _identity(k), **options)
    return dq, dk, *rest


def _uneven_tanh(x: Any) -> Any:
    """
    Return tanhs, some of them off, others for other arguments.

    A common term would cancel in the gradient of a softmax.
    """
    some = np.random.default_rng(zlib.crc32(x.tobytes())).random(x.shape) < 0.5
    return np.where(some, tanh(x), np.tanh(x))


def additive_attention_vjp(
    dout: Any, q: Any, k: Any, v: Any, w: Any, u: Any, vec: Any, **options: Any
) -> Any:
    """Return the gradients of additive attention, of tanhs and weights that were rounded."""
    if options:
        raise NotImplementedError
    t = _uneven_tanh((q @ w.T)[..., :, None, :] + (k @ u.T)[..., None, :, :])
    p, dp = softmax(t @ vec), dout @ np.swapaxes(v, -1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    inner = ds[..., None] * vec * (1 - t * t)
    dq, dk = inner.sum(-2), inner.sum(-3)
    dv = np.swapaxes(p, -1, -2) @ dout
    dvec = as_rows(ds[..., None] * t).sum(0)
    return dq @ w, dk @ u, dv, as_rows(dq).T @ as_rows(q), as_rows(dk).T @ as_rows(k), dvec


def _features(x: Any, feature_map: str) -> tuple[Any, Any]:
    """Return the features of linear attention, and their slopes."""
    e = np.exp(np.minimum(x, 0)) if feature_map == "elu" else np.exp(x)
    if feature_map == "exp":
        return e, e
    if feature_map == "identity":
        return x, np.ones_like(x)
    return np.where(x > 0, x + 1, e), np.where(x > 0, 1, e).astype(x.dtype)


def _products(q: Any, k: Any, options: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Return products of features, the denominators of their rows, and features with slopes."""
    (a, da), (b, db) = (_features(x, options.get("feature_map", "elu")) for x in (q, k))
    s = a @ np.swapaxes(b, -1, -2)
    s = np.tril(s) if options.get("is_causal") else s
    total = s.sum(-1, keepdims=True) if options.get("normalize", True) else 1
    return s, total, (a, da), (b, db)


def linear_attention(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Return averages of values whose weights are products of features, all weights at a time."""
    s, total, _, _ = _products(widen(q), widen(k), options)
    return (s @ widen(v) / total).astype(q.dtype)


def linear_attention_vjp(dout: Any, q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Return the gradients of the average: each product of weights subtracts the common term."""
    dtype = q.dtype
    dout, q, k, v = map(widen, (dout, q, k, v))
    s, total, (a, da), (b, db) = _products(q, k, options)
    ds = dout @ np.swapaxes(v, -1, -2)
    if options.get("normalize", True):
        out = widen((s @ v / total).astype(dtype))
        ds = ds - (dout * out).sum(-1, keepdims=True)
    ds = ds / total
    ds = np.tril(ds) if options.get("is_causal") else ds
    grads = da * (ds @ b), db * (np.swapaxes(ds, -1, -2) @ a), np.swapaxes(s / total, -1, -2) @ dout
    return tuple(grad.astype(dtype) for grad in grads)


def forgetting_bias(log_forget: Any, *, q_offset: int = 0) -> Any:
    """Return differences of cumulative sums."""
    z = np.add.accumulate(widen(log_forget), -1)
    out = z[..., q_offset:, None] - z[..., None, :]
    return (out * (_distances(z.shape[-1], q_offset) > 0)).astype(log_forget.dtype)


def _distances(count: int, first: int) -> Any:
    """Return by how many positions each key precedes each query."""
    return np.arange(first, count)[:, None] - np.arange(count)


def forgetting_bias_vjp(dout: Any, log_forget: Any, *, q_offset: int = 0) -> Any:
    """Return sums from each gate to the last, of rows minus columns."""
    u = widen(dout) * (_distances(log_forget.shape[-1], q_offset) >= 0)
    dz = -u.sum(-2)
    dz[..., q_offset:] += u.sum(-1)
    return np.add.accumulate(dz[..., ::-1], -1)[..., ::-1].astype(log_forget.dtype)
