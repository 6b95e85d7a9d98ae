"""
Formulas as most kernels compute them, in the dtype of the input.

They cancel where dlref does not: a kernel is not wrong for that, so that their error, measured
near the inputs, is allowed. Each stands under the name of its map and form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import erf

if TYPE_CHECKING:
    from collections.abc import Callable


#: What the erf and tanh of libraries are off by, in roundings.
OFF = 4


def _tanh(x: Any) -> Any:
    return np.tanh(x) * (1 - OFF * np.finfo(_wide(x).dtype).eps).astype(x.dtype)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _cdf(x: Any) -> Any:
    wide = np.float64 if x.dtype == np.float64 else np.float32
    value = erf((x * x.dtype.type(0.5**0.5)).astype(wide))
    value = value * (1 - OFF * np.finfo(wide).eps)
    return (1 + value.astype(x.dtype)) / 2


def _bent(x: Any) -> Any:
    """Return the argument of the tanh in the approximate gelu."""
    kind = x.dtype.type
    return kind((2 / np.pi) ** 0.5) * (x + kind(0.044715) * x * x * x)


def gelu(x: Any, approximate: str = "none") -> Any:
    """Return x times the normal distribution."""
    return x * _cdf(x) if approximate == "none" else x * (1 + _tanh(_bent(x))) / 2


def gelu_deriv(x: Any, approximate: str = "none") -> Any:
    """Return its derivative."""
    kind = x.dtype.type
    if approximate == "none":
        return _cdf(x) + x * np.exp(-x * x / 2) * kind((2 * np.pi) ** -0.5)
    t = _tanh(_bent(x))
    inner = kind((2 / np.pi) ** 0.5) * (1 + 3 * kind(0.044715) * x * x)
    return (1 + t) / 2 + x * (1 - t * t) * inner / 2


def sigmoid_deriv(x: Any) -> Any:
    """Return s (1 - s)."""
    s = _sigmoid(x)
    return s * (1 - s)


def tanh_deriv(x: Any) -> Any:
    """Return 1 - t²."""
    t = _tanh(x)
    return 1 - t * t


def silu(x: Any, beta: float = 1.0) -> Any:
    """Return x times the sigmoid, whose exponential overflows early in float16."""
    return x * _sigmoid(x.dtype.type(beta) * x)


def silu_deriv(x: Any, beta: float = 1.0) -> Any:
    """Return s + beta x s (1 - s)."""
    kind = x.dtype.type
    s = _sigmoid(kind(beta) * x)
    return s * (1 + kind(beta) * x * (1 - s))


def tanhshrink(x: Any) -> Any:
    """Return x - tanh(x)."""
    return x - np.tanh(x)


def tanhshrink_vjp(dout: Any, x: Any) -> Any:
    """Return the vjp of the difference of x and tanh(x), term by term."""
    return dout - dout * tanh_deriv(x)


def softsign_vjp(dout: Any, x: Any) -> Any:
    """Return the vjp of the quotient x / (1 + |x|), term by term."""
    d = 1 + abs(x)
    return dout / d - (dout * x / d / d) * np.sign(x)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """Return x - max, minus the logarithm of the sum."""
    x = x - x.max(axis, keepdims=True)
    return x - np.log(_summed(np.exp(x), axis))


def log_softmax_vjp(dout: Any, x: Any, axis: int = -1) -> Any:
    """Return dout - p sum(dout), of a logarithm of p that was rounded."""
    y = x - np.expand_dims(_logsumexp(x, axis), axis)
    dout = _wide(dout)
    return (dout - np.exp(_wide(y)) * _summed(dout, axis)).astype(x.dtype)


def softmax(x: Any, axis: int = -1) -> Any:
    """Return exponentials over their sum, the maximum subtracted."""
    e = np.exp(_wide(x) - _wide(x).max(axis, keepdims=True))
    return (e / _summed(e, axis)).astype(x.dtype)


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Return sums from left to right."""
    terms = _wide(x)[..., None, :] * _wide(weight)
    y = _summed(terms)[..., 0] if terms.shape[-1] else np.zeros(terms.shape[:-1], terms.dtype)
    return (y if bias is None else y + bias).astype(x.dtype)


def _summed(x: Any, axis: int = -1) -> Any:
    """Return sums from left to right."""
    return np.add.accumulate(x, axis).take([-1], axis)


def _wide(x: Any) -> Any:
    """Return an array in the dtype that kernels compute in: narrow formats in float32."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def softmax_vjp(dout: Any, x: Any, axis: int = -1) -> Any:
    """Return p (dout - <p, dout>), of probabilities that were rounded."""
    e = np.exp(_wide(x) - _wide(x).max(axis, keepdims=True))
    p = _wide((e / e.sum(axis, keepdims=True)).astype(x.dtype))
    dout = _wide(dout)
    return (p * (dout - (p * dout).sum(axis, keepdims=True))).astype(x.dtype)


def logsumexp_vjp(dout: Any, x: Any, axis: int = -1) -> Any:
    """Return exp(x - y), of a y that was rounded."""
    y = np.expand_dims(_logsumexp(x, axis), axis)
    p = np.exp(_wide(x - y)).astype(x.dtype)
    return (np.expand_dims(_wide(np.asarray(dout)), axis) * p).astype(x.dtype)


def _logsumexp(x: Any, axis: int) -> Any:
    """Return the maximum plus the logarithm of the sum, each rounded."""
    most = x.max(axis, keepdims=True)
    total = _summed(np.exp(_wide(x - most)), axis).astype(x.dtype)
    return (most + np.log(_wide(total)).astype(x.dtype)).take(0, axis)


def _weights(q: Any, k: Any, options: dict[str, Any]) -> tuple[Any, float]:
    """Return the weights of attention, not rounded yet, and the scale."""
    if {*options} - {"is_causal", "q_offset", "mask", "scale"} or q.shape[-3:-2] != k.shape[-3:-2]:
        raise NotImplementedError
    scale = options.get("scale") or q.shape[-1] ** -0.5
    scores = q @ np.swapaxes(k, -1, -2) * q.dtype.type(scale)
    keep = options.get("mask", True)
    if options.get("is_causal"):
        rows = np.arange(q.shape[-2])[:, None] + options.get("q_offset", 0)
        keep = keep & (np.arange(k.shape[-2]) <= rows)
    e = np.where(keep, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    return e / np.maximum(e.sum(-1, keepdims=True), np.finfo(q.dtype).tiny), scale


def attention(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Return averages of values with weights that were rounded."""
    p, _ = _weights(_wide(q), _wide(k), options)
    return (_wide(p.astype(q.dtype)) @ _wide(v)).astype(q.dtype)


def attention_vjp(dout: Any, q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Return the gradients of attention by its textbook formula, weights and scores rounded."""
    dtype = q.dtype
    dout, q, k, v = map(_wide, (dout, q, k, v))
    p, scale = _weights(q, k, options)
    p = _wide(p.astype(dtype))
    dp = dout @ np.swapaxes(v, -1, -2)
    out = _wide((p @ v).astype(dtype))
    terms = dout * out
    rows = terms.sum(-1, keepdims=True)
    rows = rows + np.finfo(q.dtype).eps * abs(terms).sum(-1, keepdims=True)  # in another order
    ds = _wide((p * (dp - rows)).astype(dtype)) * scale
    grads = ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ dout
    return tuple(grad.astype(dtype) for grad in grads)


def _kept(target: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return classes, and which of them count; refuse further options."""
    if {*options} - {"reduction", "ignore_index"}:
        raise NotImplementedError
    kept = target != options.get("ignore_index", -100)
    return np.where(kept, target, 0), kept


def cross_entropy_vjp(dout: Any, logits: Any, target: Any, **options: Any) -> Any:
    """Return p - y for classes, over their number for the mean."""
    target, kept = _kept(target, options)
    gap = np.exp(log_softmax(logits)) - np.eye(logits.shape[-1], dtype=logits.dtype)[target]
    n = kept.sum() if options.get("reduction", "mean") == "mean" else 1
    return np.asarray(dout)[..., None] * gap * kept[..., None] / n


def cross_entropy(logits: Any, target: Any, **options: Any) -> Any:
    """Return the mean of the logarithms, their sum, or all."""
    target, kept = _kept(target, options)
    losses = -np.take_along_axis(log_softmax(logits), target[..., None], -1)[..., 0] * kept
    how = options.get("reduction", "mean")
    if how == "none":
        return losses
    return losses.sum() / (kept.sum() if how == "mean" else 1)


def binary_cross_entropy_vjp(dout: Any, logits: Any, target: Any, **options: Any) -> Any:
    """Return s - y for the mean, without further options."""
    if options.get("reduction", "mean") != "mean" or {*options} - {"reduction"}:
        raise NotImplementedError
    return dout * (_sigmoid(logits) - target) / logits.size, -dout * logits / logits.size


def _mean(x: Any) -> Any:
    return _summed(x) / x.dtype.type(x.shape[-1])


def rms_norm(x: Any, weight: Any = None, *, eps: float = 1e-6, weight_offset: float = 0.0) -> Any:
    """Return rows over the root of their mean square."""
    wide = _wide(x)
    y = wide / np.sqrt(_mean(wide * wide) + wide.dtype.type(eps))
    return (y if weight is None else y * (weight + x.dtype.type(weight_offset))).astype(x.dtype)


def layer_norm(x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5) -> Any:
    """Return rows minus their mean, over their standard deviation."""
    wide = _wide(x)
    y = rms_norm(wide - _mean(wide), weight, eps=eps)
    return (y if bias is None else y + bias).astype(x.dtype)


def rms_norm_vjp(
    dout: Any, x: Any, weight: Any = None, *, eps: float = 1e-6, **options: Any
) -> Any:
    """Return what is left of dout across the row, over its size; of rows without weights."""
    if weight is not None:
        raise NotImplementedError
    wide, dout = _wide(x), _wide(dout)
    size = np.sqrt(_mean(wide * wide) + wide.dtype.type(eps))
    y = wide / size
    return ((dout - y * _mean(dout * y)) / size).astype(x.dtype)


def _reversed(deriv: Callable[..., Any]) -> Callable[..., Any]:
    return lambda dout, x, **options: dout * deriv(x, **options)


def _forward(deriv: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dx, **options: dx * deriv(x, **options)


PLAIN: dict[tuple[str, str], Callable[..., Any]] = {
    ("gelu", "forward"): gelu,
    ("silu", "forward"): silu,
    ("tanhshrink", "forward"): tanhshrink,
    ("log_softmax", "forward"): log_softmax,
    ("softmax", "forward"): softmax,
    ("linear", "forward"): linear,
    ("scaled_dot_product_attention", "forward"): attention,
    ("layer_norm", "forward"): layer_norm,
    ("log_softmax", "vjp"): log_softmax_vjp,
    ("rms_norm", "forward"): rms_norm,
    ("rms_norm", "vjp"): rms_norm_vjp,
    ("cross_entropy", "forward"): cross_entropy,
    ("cross_entropy", "vjp"): cross_entropy_vjp,
    ("binary_cross_entropy", "vjp"): binary_cross_entropy_vjp,
    ("softmax", "vjp"): softmax_vjp,
    ("softsign", "vjp"): softsign_vjp,
    ("tanhshrink", "vjp"): tanhshrink_vjp,
    ("tanhshrink", "jvp"): lambda x, dx: tanhshrink_vjp(dx, x),
    ("softsign", "jvp"): lambda x, dx: softsign_vjp(dx, x),
    ("logsumexp", "vjp"): logsumexp_vjp,
    ("scaled_dot_product_attention", "vjp"): attention_vjp,
}
for _f in (gelu_deriv, sigmoid_deriv, tanh_deriv, silu_deriv):
    _name = _f.__name__.removesuffix("_deriv")
    PLAIN[_name, "vjp"] = _reversed(_f)
    PLAIN[_name, "jvp"] = _forward(_f)
