"""
Formulas as most kernels compute them, in the dtype of the input.

They cancel where dlref does not: a kernel is not wrong for that, so that their error, measured
near the inputs, is allowed. Each stands under the name of its map and form.
"""

from __future__ import annotations

import math
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import erf

from ..._core.broadcasting import unbroadcast
from ...attention import attention_scores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


#: Scale and alpha of SELU.
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
#: What the erf and tanh of libraries are off by, in roundings.
OFF = 4


def _tanh(x: Any) -> Any:
    return np.tanh(x) * (1 - OFF * np.finfo(_wide(x).dtype).eps).astype(x.dtype)


def _uneven_tanh(x: Any) -> Any:
    """
    Return tanhs, some of them off, others for other arguments.

    What all share would cancel in the gradient of a softmax.
    """
    some = np.random.default_rng(zlib.crc32(x.tobytes())).random(x.shape) < 0.5
    return np.where(some, _tanh(x), np.tanh(x))


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


def elu(x: Any, alpha: float = 1.0) -> Any:
    """Return alpha (exp(x) - 1) where x is negative, of an exponential that was rounded."""
    wide = _wide(x)
    below = wide.dtype.type(alpha) * (np.exp(np.minimum(wide, 0)) - 1)
    return np.where(wide > 0, wide, below).astype(x.dtype)


def elu_deriv(x: Any, alpha: float = 1.0) -> Any:
    """Return y + alpha, of an output y that is a rounding too low."""
    wide = np.nextafter(_wide(elu(x, alpha)), -np.inf)
    return np.where(x > 0, 1, wide + wide.dtype.type(alpha)).astype(x.dtype)


def celu(x: Any, alpha: float = 1.0) -> Any:
    """Return alpha (exp(x / alpha) - 1) where x is negative."""
    kind = x.dtype.type
    return kind(alpha) * elu(x / kind(alpha))


def celu_deriv(x: Any, alpha: float = 1.0) -> Any:
    """Return y / alpha + 1."""
    return elu_deriv(x / x.dtype.type(alpha))


def selu(x: Any) -> Any:
    """Return the scaled unit of one alpha."""
    return x.dtype.type(SELU_SCALE) * elu(x, SELU_ALPHA)


def selu_deriv(x: Any) -> Any:
    """Return its derivative by its output."""
    return x.dtype.type(SELU_SCALE) * elu_deriv(x, SELU_ALPHA)


def mish(x: Any) -> Any:
    """Return x times the tanh of a softplus that was rounded."""
    return x * _tanh(np.log1p(np.exp(x)))


def tanhshrink(x: Any) -> Any:
    """Return x - tanh(x)."""
    return x - _tanh(x)


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


def log_softmax_jvp(x: Any, dx: Any, axis: int = -1) -> Any:
    """Return dx minus its mean, by the exponential of a logarithm of p that was rounded."""
    y = x - np.expand_dims(_logsumexp(x, axis), axis)
    dx = _wide(dx)
    return (dx - _summed(np.exp(_wide(y)) * dx, axis)).astype(x.dtype)


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


def softmax_vjp(dout: Any, x: Any, axis: int = -1, probabilities: Any = softmax) -> Any:
    """Return p (dout - <p, dout>), of probabilities that were rounded."""
    p, dout = _wide(probabilities(x, axis)), _wide(dout)
    return (p * (dout - (p * dout).sum(axis, keepdims=True))).astype(x.dtype)


def _by_logsumexp(x: Any, axis: int = -1) -> Any:
    """Return a softmax as exponentials of x minus logsumexp(x)."""
    wide = _wide(x)
    return np.exp(wide - np.expand_dims(_logsumexp(wide, axis), axis)).astype(x.dtype)


def _shifted(x: Any, dx: Any, axis: int) -> tuple[Any, Any, Any]:
    """Return the exponentials of x less its maximum, their sum, and the tangent of that."""
    wide, dx, at = _wide(x), _wide(dx), np.expand_dims(x.argmax(axis), axis)
    e = np.exp(wide - np.take_along_axis(wide, at, axis))
    return e, _summed(e, axis), dx - np.take_along_axis(dx, at, axis)


def softmax_jvp_shifted(x: Any, dx: Any, axis: int = -1) -> Any:
    """Return the tangent of softmax by the quotient rule, that of the maximum subtracted first."""
    e, total, dz = _shifted(x, dx, axis)
    return (e * dz / total - e * _summed(e * dz, axis) / (total * total)).astype(x.dtype)


def log_softmax_jvp_shifted(x: Any, dx: Any, axis: int = -1) -> Any:
    """Return that of log-softmax."""
    e, total, dz = _shifted(x, dx, axis)
    return (dz - _summed(e * dz, axis) / total).astype(x.dtype)


def logsumexp_jvp(x: Any, dx: Any, axis: int = -1) -> Any:
    """Return that of the maximum plus the mean of what is left."""
    e, total, dz = _shifted(x, dx, axis)
    mean = _summed(e * dz, axis) / total
    return (_wide(dx) - dz + mean).take(0, axis).astype(x.dtype)


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


def _through_maximum(formula: Callable[..., Any], *, total: bool = False) -> Callable[..., Any]:
    """
    Return a vjp as autograd computes it, which sends a gradient through the maximum, too.

    It is the total, dout or 0, less the sum of the gradients: 0, but for its rounding.
    """

    def vjp(dout: Any, x: Any, *others: Any, **options: Any) -> Any:
        axis, wide = options.get("axis", -1), _wide(x)
        grads = formula(_wide(np.asarray(dout)), wide, *others, **options)
        grad, *rest = grads if isinstance(grads, tuple) else (grads,)
        own = (np.expand_dims(dout, axis) if total else 0) - _summed(grad, axis)
        at = np.expand_dims(x.argmax(axis), axis)
        np.put_along_axis(grad, at, np.take_along_axis(grad, at, axis) + own, axis)
        grad = grad.astype(x.dtype)
        return (grad, *rest) if rest else grad

    return vjp


MASKS = {"mask", "is_causal", "q_offset", "window"}


def _scores(q: Any, k: Any, options: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Return the scores of keys and of the sink, the largest, and the slope of the scores."""
    if {*options} - {*MASKS, "bias", "scale", "softcap", "sink", "dropout"}:
        raise NotImplementedError
    kind = q.dtype.type
    slope = kind(options.get("scale", q.shape[-1] ** -0.5))
    scores = q @ np.swapaxes(k, -1, -2) * slope
    if "softcap" in options:
        bent = _tanh(scores / kind(options["softcap"]))
        scores, slope = kind(options["softcap"]) * bent, slope * (1 - bent * bent)
    masks = {key: options[key] for key in MASKS & {*options}}
    hidden = attention_scores(np.zeros(q.shape), np.zeros(k.shape), **masks)  # -inf or 0
    scores = scores + (hidden + options.get("bias", 0)).astype(q.dtype)
    sink = np.reshape(options.get("sink", -np.inf), (-1, 1, 1)).astype(q.dtype)
    sink = sink if "sink" in options else sink[0]
    most = np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), sink)
    most = np.where(np.isfinite(most), most, 0)
    return scores, sink, most, slope


def _total(e: Any, last: Any) -> Any:
    return np.maximum(e.sum(-1, keepdims=True) + last, np.finfo(e.dtype).tiny)


def _weights(q: Any, k: Any, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return the weights of keys and sink, not rounded yet, and the slope of the scores."""
    scores, sink, most, slope = _scores(q, k, options)
    e, last = np.exp(scores - most), np.exp(sink - most)
    return e / (total := _total(e, last)), last / total, slope


def _weights_by_logsumexp(q: Any, k: Any, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return the same as FlashAttention: exponentials of scores less the logarithm of their sum."""
    scores, sink, most, slope = _scores(q, k, options)
    y = most + np.log(_total(np.exp(scores - most), np.exp(sink - most)))
    return np.exp(scores - y), np.exp(sink - y), slope


def _dropped(options: dict[str, Any], q: Any) -> Any:
    return _wide(np.asarray(options.get("dropout", 1)).astype(q.dtype))


def _repeated(q: Any, k: Any, v: Any) -> tuple[Any, Any, int]:
    """Return keys and values, once for each query head, and for how many heads each is."""
    heads = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    k, v = (np.repeat(_wide(a), heads, -3) if heads > 1 else _wide(a) for a in (k, v))
    return k, v, heads


def attention(q: Any, k: Any, v: Any, weights: Any = _weights, **options: Any) -> Any:
    """Return averages of values with weights that were rounded."""
    k, v, _ = _repeated(q, k, v)
    p, _, _ = weights(_wide(q), k, options)
    return (_wide(p.astype(q.dtype)) * _dropped(options, q) @ v).astype(q.dtype)


def _in_another_order(terms: Any) -> Any:
    """Return sums over rows, with the rounding that another order of the terms may leave."""
    off = np.finfo(terms.dtype).eps * abs(terms).sum(-1, keepdims=True)
    return terms.sum(-1, keepdims=True) + off


def attention_vjp(
    dout: Any, q: Any, k: Any, v: Any, weights: Any = _weights, **options: Any
) -> Any:
    """Return the gradients of attention by its textbook formula, weights and scores rounded."""
    dtype, shapes, drop = q.dtype, (k.shape, v.shape), _dropped(options, q)
    k, v, heads = _repeated(q, k, v)
    dout, q = map(_wide, (dout, q))
    p, last, slope = weights(q, k, options)
    p = _wide(p.astype(dtype))
    dp = dout @ np.swapaxes(v, -1, -2) * drop
    out = _wide((p * drop @ v).astype(dtype))
    rows = _in_another_order(dout * out)
    ds = _wide((p * (dp - rows)).astype(dtype))
    grads = [ds * slope @ k]
    parts = np.swapaxes(ds * slope, -1, -2) @ q, np.swapaxes(p * drop, -1, -2) @ dout
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
    dtype, drop = q.dtype, _dropped(options, q)
    dq, dk, dv = (
        np.zeros_like(a) if d is None else d for a, d in zip(primals, tangents, strict=True)
    )
    k, v, _ = _repeated(q, k, v)
    dk, dv, _ = _repeated(q, dk, dv)
    q, dq = map(_wide, (q, dq))
    p, _, slope = weights(q, k, options)
    p = _wide(p.astype(dtype))
    ds = (dq @ np.swapaxes(k, -1, -2) + q @ np.swapaxes(dk, -1, -2)) * slope
    dp = _wide((p * (ds - _in_another_order(p * ds))).astype(dtype))
    return (dp * drop @ v + p * drop @ dv).astype(dtype)


def _identity(k: Any) -> Any:
    """Return values of which attention makes its weights."""
    n = k.shape[-2]
    return np.broadcast_to(np.eye(n, dtype=k.dtype), (*k.shape[:-1], n))


def weights_vjp(dout: Any, q: Any, k: Any, **options: Any) -> Any:
    """Return the gradients of the weights of attention, those of its bias and sink too."""
    dq, dk, _, *rest = attention_vjp(dout, q, k, _identity(k), **options)
    return dq, dk, *rest


def additive_attention_vjp(
    dout: Any, q: Any, k: Any, v: Any, w: Any, u: Any, vec: Any, **options: Any
) -> Any:
    """Return the gradients of additive attention, of tanhs and weights that were rounded."""
    if options:
        raise NotImplementedError
    t = _uneven_tanh((q @ w.T)[..., :, None, :] + (k @ u.T)[..., None, :, :])
    p, dp = softmax(t @ vec), dout @ np.swapaxes(v, -1, -2)
    ds = p * (dp - _in_another_order(p * dp))
    inner = ds[..., None] * vec * (1 - t * t)
    dq, dk = inner.sum(-2), inner.sum(-3)
    dv = np.swapaxes(p, -1, -2) @ dout
    dvec = _rows(ds[..., None] * t).sum(0)
    return dq @ w, dk @ u, dv, _rows(dq).T @ _rows(q), _rows(dk).T @ _rows(k), dvec


def lstm_cell_vjp(
    dout: Any, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, **options: Any
) -> Any:
    """Return the gradients of a step of an LSTM, of gates that were rounded."""
    if options or any(a is None for a in (*dout, h, c, b_ih, b_hh)):
        raise NotImplementedError
    dtype = x.dtype
    dh, dc, x, h, c, w_ih, w_hh, b_ih, b_hh = map(_wide, (*dout, x, h, c, w_ih, w_hh, b_ih, b_hh))
    parts = np.split(x @ w_ih.T + h @ w_hh.T + b_ih + b_hh, 4, -1)
    i, f, o = (_wide(_sigmoid(parts[k]).astype(dtype)) for k in (0, 1, 3))
    g = _wide(_tanh(parts[2]).astype(dtype))
    t = _wide(_tanh(f * c + i * g).astype(dtype))
    dc = dc + dh * o * (1 - t * t)
    di, df, do = dc * g * i * (1 - i), dc * c * f * (1 - f), dh * t * o * (1 - o)
    gates = np.concatenate([di, df, dc * i * (1 - g * g), do], -1)
    weights = _rows(gates).T @ _rows(x), _rows(gates).T @ _rows(h)
    total = _rows(gates).sum(0)
    grads = gates @ w_ih, gates @ w_hh, dc * f, *weights, total, total
    return tuple(grad.astype(dtype) for grad in grads)


def gru_cell_vjp(
    dout: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, **options: Any
) -> Any:
    """Return the gradients of a step of a GRU, of gates that were rounded."""
    if options or any(a is None for a in (h, b_ih, b_hh)):
        raise NotImplementedError
    dtype = x.dtype
    dout, x, h, w_ih, w_hh, b_ih, b_hh = map(_wide, (dout, x, h, w_ih, w_hh, b_ih, b_hh))
    (ri, zi, ni), (rh, zh, nh) = (
        np.split(a @ w.T + b, 3, -1) for a, w, b in ((x, w_ih, b_ih), (h, w_hh, b_hh))
    )
    r, z = (_wide(_sigmoid(s).astype(dtype)) for s in (ri + rh, zi + zh))
    n = _wide(_tanh(ni + r * nh).astype(dtype))
    dn = dout * (1 - z) * (1 - n * n)
    dr, dz = dn * nh * r * (1 - r), dout * (h - n) * z * (1 - z)
    di, dh = np.concatenate([dr, dz, dn], -1), np.concatenate([dr, dz, dn * r], -1)
    inputs, states = di @ w_ih, dh @ w_hh + dout * z
    weights = _rows(di).T @ _rows(x), _rows(dh).T @ _rows(h)
    grads = inputs, states, *weights, _rows(di).sum(0), _rows(dh).sum(0)
    return tuple(grad.astype(dtype) for grad in grads)


def _gates(primals: Any, tangents: Any, count: int) -> tuple[list[Any], list[Any]]:
    """Return the pre-activations from x and from h, gate by gate, and their tangents."""
    if any(a is None for a in (*primals, *tangents)):
        raise NotImplementedError
    (x, h, w, r, b, d), (dx, dh, dw, dr, db, dd) = (map(_wide, a) for a in (primals, tangents))
    sums = x @ w.T + b, h @ r.T + d
    moved = dx @ w.T + x @ dw.T + db, dh @ r.T + h @ dr.T + dd
    return [np.split(s, count, -1) for s in sums], [np.split(s, count, -1) for s in moved]


def gru_cell_jvp(primals: Any, tangents: Any, **options: Any) -> Any:
    """Return the tangent of a step of a GRU, of gates that were rounded."""
    if options:
        raise NotImplementedError
    dtype, h, dh = primals[0].dtype, primals[1], tangents[1]
    sums, moved = _gates(primals, tangents, 3)
    ((ri, zi, ni), (rh, zh, nh)), ((dri, dzi, dni), (drh, dzh, dnh)) = sums, moved
    r, z = (_wide(_sigmoid(s).astype(dtype)) for s in (ri + rh, zi + zh))
    n = _wide(_tanh(ni + r * nh).astype(dtype))
    dr, dz = r * (1 - r) * (dri + drh), z * (1 - z) * (dzi + dzh)
    dn = (1 - n * n) * (dni + dr * nh + r * dnh)
    return (dn - dz * n - z * dn + dz * _wide(h) + z * _wide(dh)).astype(dtype)


def lstm_cell_jvp(primals: Any, tangents: Any, **options: Any) -> Any:
    """Return the tangents of a step of an LSTM, of gates that were rounded."""
    if options or primals[2] is None or tangents[2] is None:
        raise NotImplementedError
    dtype, c, dc = primals[0].dtype, _wide(primals[2]), _wide(tangents[2])
    values, steps = ((*given[:2], *given[3:]) for given in (primals, tangents))
    sums, moved = ([a + b for a, b in zip(*x, strict=True)] for x in _gates(values, steps, 4))
    i, f, o = (_wide(_sigmoid(sums[k]).astype(dtype)) for k in (0, 1, 3))
    g = _wide(_tanh(sums[2]).astype(dtype))
    di, df, do = (s * (1 - s) * moved[k] for s, k in ((i, 0), (f, 1), (o, 3)))
    t = _wide(_tanh(f * c + i * g).astype(dtype))
    dc = df * c + f * dc + di * g + i * (1 - g * g) * moved[2]
    return (do * t + o * (1 - t * t) * dc).astype(dtype), dc.astype(dtype)


def _rows(x: Any) -> Any:
    return x.reshape(-1, x.shape[-1])


def _features(x: Any, feature_map: str) -> tuple[Any, Any]:
    """Return the features of linear attention, and their slopes."""
    e = np.exp(np.minimum(x, 0)) if feature_map == "elu" else np.exp(x)
    if feature_map == "exp":
        return e, e
    if feature_map == "identity":
        return x, np.ones_like(x)
    return np.where(x > 0, x + 1, e), np.where(x > 0, 1, e).astype(x.dtype)


def _products(q: Any, k: Any, options: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Return products of features, what their rows are divided by, and features with slopes."""
    (a, da), (b, db) = (_features(x, options.get("feature_map", "elu")) for x in (q, k))
    s = a @ np.swapaxes(b, -1, -2)
    s = np.tril(s) if options.get("is_causal") else s
    total = s.sum(-1, keepdims=True) if options.get("normalize", True) else 1
    return s, total, (a, da), (b, db)


def linear_attention(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Return averages of values whose weights are products of features, all weights at a time."""
    s, total, _, _ = _products(_wide(q), _wide(k), options)
    return (s @ _wide(v) / total).astype(q.dtype)


def linear_attention_vjp(dout: Any, q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Return the gradients of the average: each product of weights takes off what all share."""
    dtype = q.dtype
    dout, q, k, v = map(_wide, (dout, q, k, v))
    s, total, (a, da), (b, db) = _products(q, k, options)
    ds = dout @ np.swapaxes(v, -1, -2)
    if options.get("normalize", True):
        out = _wide((s @ v / total).astype(dtype))
        ds = ds - (dout * out).sum(-1, keepdims=True)
    ds = ds / total
    ds = np.tril(ds) if options.get("is_causal") else ds
    grads = da * (ds @ b), db * (np.swapaxes(ds, -1, -2) @ a), np.swapaxes(s / total, -1, -2) @ dout
    return tuple(grad.astype(dtype) for grad in grads)


def _aimed(logits: Any, target: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return the weight of each class in each row, and what the mean divides by."""
    if "z_loss" in options:
        raise NotImplementedError
    n, mixed = logits.shape[-1], options.get("label_smoothing", 0.0)
    weight = np.asarray(options.get("weight", np.ones(n)), logits.dtype)
    if target.dtype.kind in "iu":
        kept = target != options.get("ignore_index", -100)
        target = np.where(kept, target, 0)
        count = (weight[target] * kept).sum()
        target = np.eye(n, dtype=logits.dtype)[target] * kept[..., None]
        y = (1 - mixed) * target + mixed / n * kept[..., None]
    else:
        y, count = (1 - mixed) * target + mixed / n, math.prod(logits.shape[:-1])
    how = options.get("reduction", "mean")
    return (y * weight).astype(logits.dtype), count if how == "mean" else 1


def cross_entropy_vjp(dout: Any, logits: Any, target: Any, **options: Any) -> Any:
    """Return p - y, weighed, over the number of rows for the mean; and that of real targets."""
    y, count = _aimed(logits, target, options)
    dout = (np.asarray(dout)[..., None] / count).astype(logits.dtype)
    logs = log_softmax(logits)
    grad = dout * (np.exp(logs) * y.sum(-1, keepdims=True) - y)
    if target.dtype.kind in "iu":
        return grad
    weight = np.asarray(options.get("weight", 1), logits.dtype)
    return grad, -dout * weight * logs * (1 - options.get("label_smoothing", 0.0))


def cross_entropy(logits: Any, target: Any, **options: Any) -> Any:
    """Return the mean of the logarithms, their sum, or all."""
    y, count = _aimed(logits, target, options)
    losses = -(y * np.where(y == 0, 0, log_softmax(logits))).sum(-1)
    return losses if options.get("reduction") == "none" else losses.sum() / count


def _weighed(target: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    """Return the weight of a loss over what the mean divides by, of a positive, and of both."""
    weight, positive = (
        np.asarray(options.get(key, 1), target.dtype) for key in ("weight", "pos_weight")
    )
    how = options.get("reduction", "mean")
    size = target.dtype.type(target.size if how == "mean" else 1)
    return weight / size, positive, 1 + (positive - 1) * target


def binary_cross_entropy(logits: Any, target: Any, **options: Any) -> Any:
    """Return x - x y + log(1 + exp(-x)), which cancels for each sign of x."""
    weight, _, both = _weighed(target, options)
    line = np.where(logits > 0, logits - logits * target, (1 - target) * logits)
    losses = weight * (line + both * _softplus(-logits))
    return losses if options.get("reduction") == "none" else losses.sum()


def binary_cross_entropy_vjp(dout: Any, logits: Any, target: Any, **options: Any) -> Any:
    """Return s - y and -x, weighed."""
    weight, positive, both = _weighed(target, options)
    dout = dout * weight
    slope = both * _sigmoid(logits) - positive * target
    terms = positive * _softplus(-logits), _softplus(logits)  # their difference is -x without it
    return dout * slope, dout * (terms[0] - terms[1] if "pos_weight" in options else -logits)


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


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


def _gated(f: Callable[..., Any], slope: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield x f(gate) in its three forms."""

    def jvp(primals: Any, tangents: Any, **options: Any) -> Any:
        (x, gate), (dx, dgate) = primals, tangents
        dx, dgate = (0 if d is None else d for d in (dx, dgate))
        return dx * f(gate, **options) + x * (dgate * slope(gate, **options))

    def vjp(dout: Any, x: Any, gate: Any, **options: Any) -> Any:
        return dout * f(gate, **options), dout * x * slope(gate, **options)

    yield "forward", lambda x, gate, **options: x * f(gate, **options)
    yield "vjp", vjp
    yield "jvp", jvp


#: Formulas by the name of a map and its form.
PLAIN: dict[tuple[str, str], Callable[..., Any]] = {
    ("gelu", "forward"): gelu,
    ("silu", "forward"): silu,
    ("elu", "forward"): elu,
    ("celu", "forward"): celu,
    ("selu", "forward"): selu,
    ("mish", "forward"): mish,
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
    ("binary_cross_entropy", "forward"): binary_cross_entropy,
    ("binary_cross_entropy", "vjp"): binary_cross_entropy_vjp,
    ("log_softmax", "jvp"): log_softmax_jvp,
    ("softmax", "vjp"): softmax_vjp,
    ("softmax", "jvp"): lambda x, dx, **options: softmax_vjp(dx, x, **options),
    ("softsign", "vjp"): softsign_vjp,
    ("tanhshrink", "vjp"): tanhshrink_vjp,
    ("tanhshrink", "jvp"): lambda x, dx: tanhshrink_vjp(dx, x),
    ("softsign", "jvp"): lambda x, dx: softsign_vjp(dx, x),
    ("logsumexp", "vjp"): logsumexp_vjp,
    ("logsumexp", "jvp"): logsumexp_jvp,
    ("scaled_dot_product_attention", "vjp"): attention_vjp,
    ("linear_attention", "forward"): linear_attention,
    ("linear_attention", "vjp"): linear_attention_vjp,
    ("attention_weights", "vjp"): weights_vjp,
    ("additive_attention", "vjp"): additive_attention_vjp,
    ("gru_cell", "vjp"): gru_cell_vjp,
    ("gru_cell", "jvp"): gru_cell_jvp,
    ("lstm_cell", "vjp"): lstm_cell_vjp,
    ("lstm_cell", "jvp"): lstm_cell_jvp,
    ("scaled_dot_product_attention", "jvp"): attention_jvp,
}
_FLASH = {"weights": _weights_by_logsumexp}
#: Other ways in which some are computed: what autograd makes of them, and FlashAttention's.
VARIANTS: dict[tuple[str, str], tuple[Callable[..., Any], ...]] = {
    ("softmax", "forward"): (_by_logsumexp,),
    ("softmax", "vjp"): (
        _through_maximum(softmax_vjp),
        partial(softmax_vjp, probabilities=_by_logsumexp),
    ),
    ("softmax", "jvp"): (softmax_jvp_shifted,),
    ("log_softmax", "vjp"): (_through_maximum(log_softmax_vjp),),
    ("log_softmax", "jvp"): (log_softmax_jvp_shifted,),
    ("logsumexp", "vjp"): (_through_maximum(logsumexp_vjp, total=True),),
    ("cross_entropy", "vjp"): (_through_maximum(cross_entropy_vjp),),
    ("scaled_dot_product_attention", "forward"): (partial(attention, **_FLASH),),
    ("scaled_dot_product_attention", "vjp"): (partial(attention_vjp, **_FLASH),),
    ("scaled_dot_product_attention", "jvp"): (partial(attention_jvp, **_FLASH),),
}
for _f in (
    *(gelu_deriv, sigmoid_deriv, tanh_deriv, silu_deriv),
    *(elu_deriv, celu_deriv, selu_deriv),
):
    _name = _f.__name__.removesuffix("_deriv")
    PLAIN[_name, "vjp"] = _reversed(_f)
    PLAIN[_name, "jvp"] = _forward(_f)
for _name, _f, _slope in (
    ("glu", _sigmoid, sigmoid_deriv),
    ("swiglu", silu, silu_deriv),
    ("geglu", gelu, gelu_deriv),
):
    PLAIN.update(((_name, form), formula) for form, formula in _gated(_f, _slope))
