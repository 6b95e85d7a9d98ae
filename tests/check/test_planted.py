"""Mistakes planted in candidates: check_forward and check_vjp flag all, and name most rightly."""

import numpy as np
import peers
import pytest

from dlref import activations as act
from dlref import attention as att
from dlref import check, losses, neurons, positions, recurrent, training, transformer
from dlref import normalization as norm
from dlref.formulas.activations import softmax

R = np.random.default_rng(7)
X, W, B, U = (R.normal(size=s) for s in ((6, 8), (8, 8), (8,), (6, 8)))
Q, K, V = (R.normal(size=s) for s in ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)))
Q4 = R.normal(size=(2, 6, 5, 8))
DOUT = R.normal(size=(2, 3, 5, 6))
MASK = R.random((5, 7)) < 0.6
MASK[:, 0] = True
EMPTY = MASK.copy()
EMPTY[2] = False
LSTM = tuple(R.normal(size=s) for s in ((2, 5, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,), (16,)))
GRU = tuple(R.normal(size=s) for s in ((2, 5, 3), (2, 4), (12, 3), (12, 4), (12,), (12,)))
ANGLES = R.uniform(0, 6, (5, 4))
ROPE = R.normal(size=(2, 5, 8)), np.cos(ANGLES), np.sin(ANGLES)
CLASSES = R.integers(0, 8, 6)
LSTM_DOUT = tuple(R.normal(size=(2, 5, 4)) for _ in "hc")
SDPA = att.scaled_dot_product_attention
FREQUENCIES = positions.rope_frequencies(8)


def naive_softmax(x):
    with np.errstate(all="ignore"):
        return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def naive_softplus(x):
    with np.errstate(over="ignore"):
        return np.log1p(np.exp(x))


def divided_silu(x):
    with np.errstate(invalid="ignore"):
        return act.silu(x) * x / x


def log_of_softmax(x):
    with np.errstate(divide="ignore"):
        return np.log(softmax(x))


def smoothed_over_others(x, c, label_smoothing):
    n = x.shape[-1]
    rest = label_smoothing / (n - 1)
    target = np.where(np.arange(n) == c[:, None], 1 - label_smoothing, rest)
    return -(target * np.log(softmax(x))).sum(-1).mean()


def adam(p, g, direction, *, learning_rate, eps, start=None, weight_decay=0.0):
    """The first step of Adam, of which `direction` gets the corrected means and eps."""
    _, state = training.adam_step(p if start is None else start, g, None, learning_rate=0.1)
    return p - learning_rate * direction(g, g * g, eps), state


def counting_softmax_loss(x, c):
    losses_of = -np.log(softmax(x))[np.arange(len(c)), np.maximum(c, 0)]
    return (losses_of * (c >= 0)).mean()


def t(a):
    return np.swapaxes(a, -1, -2)


def attention(q, k, v, scale=None, keep=None, empty=0.0):
    """Attention with a mask, and what a row without a key shall be."""
    scores = q @ t(k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if keep is None:
        return softmax(scores) @ v
    with np.errstate(invalid="ignore"):
        p = softmax(np.where(keep, scores, empty))
    return p @ v


def attention_backward(u, q, k, v, bug=""):
    scale = q.shape[-1] ** -0.5
    p = softmax(q @ t(k) * scale)
    dp = u @ t(v)
    rows = 0 if bug == "rows" else (p * dp).sum(-1, keepdims=True)
    ds = p * (dp - rows) * (1 if bug == "scale" else scale)
    return ds @ k, t(ds) @ q, t(q @ t(k) * scale if bug == "raw" else p) @ u


def layer_norm(x, w, b, *, eps=1e-5, ddof=0, outside=False, center=True):
    c = x - x.mean(-1, keepdims=True) if center else x
    v = x.var(-1, keepdims=True, ddof=ddof) if center else (x * x).mean(-1, keepdims=True)
    return c / (np.sqrt(v) + eps if outside else np.sqrt(v + eps)) * w + b


def gates(args, order):
    """Reorder the gates of a recurrent layer."""
    head, tail = args[:-4], args[-4:]
    return *head, *(np.concatenate([np.split(a, len(order))[i] for i in order]) for a in tail)


def tail_missing(x):
    out = act.silu(x).copy()
    out[:, 7:] = 0
    return out


def half_sum(x, w, b):
    out = np.zeros((len(x), len(w)), np.float16)
    for j in range(x.shape[1]):
        out += x[:, j, None].astype(np.float16) * w[:, j].astype(np.float16)
    return out.astype(x.dtype) + b


def tiled_backward(u, q, k, v):
    tiled = (np.concatenate([a, a], 1) for a in (k, v))
    dq, *grads = att.scaled_dot_product_attention_vjp(u, q, *tiled)
    return dq, *(g[:, :3] + g[:, 3:] for g in grads)


def unbiased_groups(x, groups):
    y = x.reshape(*x.shape[:-1], groups, -1)
    y = y - y.mean((1, 3), keepdims=True)
    return (y / np.sqrt((y**2).sum((1, 3), keepdims=True) / 9 + 1e-5)).reshape(x.shape)


def causal(q, k, offset):
    return np.arange(k.shape[-2]) <= np.arange(q.shape[-2])[:, None] + offset


def linear_backward(u, x, w, b, *, dw=None, db=None, dx=None):
    return (
        u @ w if dx is None else dx(u, w),
        u.T @ x if dw is None else dw(u, x),
        u.sum(0) if db is None else db(u),
    )


def rounded(a):
    """Round to bfloat16, by cutting off."""
    return (a.view(np.uint32) + np.uint32(0x8000) & np.uint32(0xFFFF0000)).view(np.float32)


def unbiased_backward(u, x, w):
    n = x.shape[-1]
    s = 1 / np.sqrt(x.var(-1, keepdims=True, ddof=1) + 1e-5)
    y = (x - x.mean(-1, keepdims=True)) * s
    g = u * w
    dx = s * (g - g.mean(-1, keepdims=True) - y * (g * y).sum(-1, keepdims=True) / (n - 1))
    return dx, (u * y).sum(0), u.sum(0)


def regated_lstm(u, args):
    """Differentiate an LSTM whose gates are in another order."""
    order = (0, 1, 3, 2)
    grads = recurrent.lstm_vjp(u, *gates(args, order))
    return gates(grads, order)


# what, op, candidate, arguments, options, words of the cause; a vjp's first argument is dout
FORWARD = [
    ("softmax axis", act.softmax, lambda x: softmax(x, axis=0), (X,), {}, "along axis 0"),
    ("no maximum", act.softmax, naive_softmax,
     (X * 1e4,), {}, "maximum is not subtracted"),
    ("gelu tanh", act.gelu, lambda x: act.gelu(x, approximate="tanh"), (X,), {},
     "approximate is tanh"),
    ("silu beta", act.silu, lambda x, beta: act.silu(x), (X,), {"beta": 2.0}, "'beta' is ignored"),
    ("tail tile", act.silu, tail_missing, (X,), {}, "the last entry of the result"),
    ("transposed weight", neurons.linear, lambda x, w, b: x @ w + b, (X, W, B), {},
     "weight is transposed"),
    ("no bias", neurons.linear, lambda x, w, b: x @ w.T, (X, W, B), {}, "bias is ignored"),
    ("transposed output", neurons.linear, lambda x, w, b: (x @ w.T + b).T, (X, W, B), {},
     "transposed"),
    ("float16 sum", neurons.linear, half_sum, tuple(a.astype("f4") for a in (X, W, B)), {},
     "float16"),
    ("shifted", act.tanh, lambda x: np.roll(np.tanh(x), 1, 1), (X,), {}, "shifted by one"),
    ("sum for mean", losses.squared_error, lambda p, q: ((p - q) ** 2).sum(), (X, U), {},
     "reduction is sum"),
    ("one half", losses.squared_error, lambda p, q: ((p - q) ** 2).mean() / 2, (X, U), {},
     "halved"),
    ("smoothing", losses.cross_entropy, lambda x, c, label_smoothing: losses.cross_entropy(x, c),
     (X, CLASSES), {"label_smoothing": 0.1}, "'label_smoothing' is ignored"),
    ("ignored counted", losses.cross_entropy,
        counting_softmax_loss,
        (X, np.where(CLASSES[0] == CLASSES, -100, CLASSES)), {}, "counts the ignored"),
    ("eps", norm.layer_norm, lambda x, w, b: layer_norm(x, w, b, eps=1e-6),
     tuple(a.astype("f4") for a in (X, B, B)), {}, "eps is 1e-06, not 1e-05"),
    ("eps outside", norm.layer_norm, lambda x, w, b: layer_norm(x, w, b, outside=True),
     (X, B, B), {}, "sqrt(var) + eps stands where sqrt(var + eps)"),
    ("unbiased", norm.layer_norm, lambda x, w, b: layer_norm(x, w, b, ddof=1), (X, B, B), {},
     "n - 1"),
    ("no mean", norm.layer_norm, lambda x, w, b: layer_norm(x, w, b, center=False),
     (X + 0.3, B, B), {}, "x stands where x - mu is due"),
    ("1 + w", norm.rms_norm, lambda x, w: norm.rms_norm(x, w, weight_offset=1.0), (X, B), {},
     "weight_offset is 1.0"),
    ("no scale", SDPA, lambda q, k, v: attention(q, k, v, 1.0), (Q, K, V), {},
     "scale of the scores is missing"),
    ("scale twice", SDPA, lambda q, k, v: attention(q, k, v, 1 / 8), (Q, K, V), {},
     "applied twice"),
    ("mask inverted", SDPA, lambda q, k, v, mask: attention(q, k, v, keep=~mask, empty=-np.inf),
     (Q, K, V), {"mask": MASK & (np.arange(7) < 6)}, "inverted"),
    ("causal end", SDPA, lambda q, k, v, is_causal: attention(
        q, k, v, keep=causal(q, k, 2), empty=-np.inf), (Q, K, V), {"is_causal": True},
     "anchored at the last key"),
    ("causal shift", SDPA, lambda q, k, v, is_causal: attention(
        q, k, v, keep=causal(q, k, 1), empty=-np.inf), (Q, K, V), {"is_causal": True},
     "sees the next key"),
    ("causal missing", SDPA, lambda q, k, v, is_causal: attention(q, k, v), (Q, K, V),
     {"is_causal": True}, "'is_causal' is ignored"),
    ("empty row mean", SDPA, lambda q, k, v, mask: attention(q, k, v, keep=mask, empty=-1e30),
     (Q, K, V), {"mask": EMPTY}, "mean of the values"),
    ("empty row nan", SDPA, lambda q, k, v, mask: attention(q, k, v, keep=mask, empty=-np.inf),
     (Q, K, V), {"mask": EMPTY}, "gives NaN"),
    ("tiled heads", SDPA, lambda q, k, v: attention(
        q, np.concatenate([k, k], 1), np.concatenate([v, v], 1)), (Q4, K, V), {}, "tiled"),
    ("layout", SDPA, lambda q, k, v: np.swapaxes(attention(q, k, v), 1, 2), (Q, K, V), {},
     "transposed"),
    ("bias ignored", SDPA, lambda q, k, v, bias: attention(q, k, v), (Q, K, V),
     {"bias": R.normal(size=(5, 7))}, "'bias' is ignored"),
    ("half split", positions.apply_rope,
     lambda x, c, s: positions.apply_rope(x, c, s, interleaved=False), ROPE, {}, "half-split"),
    ("rotated back", positions.apply_rope,
     lambda x, c, s: positions.apply_rope(x, c, -s), ROPE, {}, "other way"),
    ("lstm gates", recurrent.lstm, lambda *a: recurrent.lstm(*gates(a, (0, 1, 3, 2))), LSTM, {},
     "ifog"),
    ("lstm forget bias", recurrent.lstm, lambda *a: recurrent.lstm(
        *a[:-1], a[-1] + np.repeat([0.0, 1, 0, 0], 4)), LSTM, {}, "forget gate"),
    ("gru gates", recurrent.gru, lambda *a: recurrent.gru(*gates(a, (1, 0, 2))), GRU, {}, "zrn"),
    ("gru reset", recurrent.gru, lambda *a: recurrent.gru(*a, reset_after=False), GRU, {},
     "before the product"),
    ("over queries", SDPA, lambda q, k, v: softmax(q @ t(k) * 8**-0.5, axis=-2) @ v, (Q, K, V), {},
     "axis=-2 stands where axis=-1 is due"),
    ("mask transposed", SDPA, lambda q, k, v, mask: attention(q, k, v, keep=mask.T, empty=-np.inf),
     (Q, K[..., :5, :], V[..., :5, :]), {"mask": np.tri(5, dtype=bool) | (MASK[:, :5])},
     "mask is transposed"),
    ("columns", norm.layer_norm, lambda x: (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), (X,), {},
     "axis=-2 stands where axis=-1 is due"),
    ("unbiased, no weight", norm.layer_norm, lambda x: (x - x.mean(-1, keepdims=True))
     / np.sqrt(x.var(-1, keepdims=True, ddof=1) + 1e-5), (X,), {}, "n - 1"),
    ("rms by variance", norm.rms_norm, lambda x: x / (np.mean(x * x, -1, keepdims=True) + 1e-6),
     (X,), {}, "+ eps stands where sqrt("),
    ("gru update", recurrent.gru, lambda *a: recurrent.gru(
        *a[:2], *(np.concatenate([r, -z, n]) for r, z, n in (np.split(w, 3) for w in a[2:]))),
     GRU, {}, "1 - sigmoid("),
    ("cos and sin", positions.apply_rope, lambda x, c, s: positions.apply_rope(x, s, c), ROPE, {},
     "cosine and sine are exchanged"),
    ("weights times a third", act.silu, lambda x: act.silu(x) / 3, (X,), {},
     "the exact result times 0.333333"),
    ("reversed", act.silu, lambda x: act.silu(x)[:, ::-1].copy(), (X,), {}, "is reversed along"),
    ("one pass", norm.layer_norm, lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(
        np.abs((x * x).mean(-1, keepdims=True) - x.mean(-1, keepdims=True) ** 2) + np.float32(1e-5)
     ), ((X + 300).astype("f4"),), {}, "variance cancels"),
    ("inputs in bfloat16", neurons.linear, lambda x, w: rounded(x) @ rounded(w).T,
     tuple(a.astype("f4") for a in (X, W)), {}, "bfloat16"),
    ("sums in float16", neurons.linear, lambda x, w: half_sum(x, w, 0).astype("f2"),
     tuple(np.tile(a, (1, 40)).astype("f2") for a in (X, W)), {}, "sums in float16"),
    ("exp of both signs", act.softplus, naive_softplus, (X * 1e4,), {},
     "an exponential overflows"),
    ("zero by zero", act.silu, divided_silu, (np.array([0.0, 1.0]),), {},
     "a division by zero"),
    ("log of zero", act.log_softmax, log_of_softmax, (X * 1e3,), {},
     "logarithm of a number that is rounded to 0"),
    ("backwards", recurrent.lstm, lambda *a: recurrent.lstm(*a, reverse=True), LSTM, {},
     "read backwards"),
    ("smoothing of the others", losses.cross_entropy, smoothed_over_others, (X, CLASSES),
     {"label_smoothing": 0.1}, "over the other classes only"),
    ("sigmoid for GELU", act.gelu, lambda x: x / (1 + np.exp(-1.702 * x)), (X,), {},
     "x sigmoid(1.702 x)"),
    ("kept share", norm.batch_norm_update, lambda r, b, momentum: momentum * r + (1 - momentum) * b,
     (B, W[0]), {"momentum": 0.1}, "that is kept, not replaced"),
    ("KL of q", losses.kl_divergence, lambda log_p, q: (np.exp(log_p) * (
        log_p - np.log(q))).sum(-1).mean(), (np.log(softmax(X)), softmax(U)), {},
     "two distributions are exchanged"),
    ("softmax twice", losses.cross_entropy, lambda x, c: losses.cross_entropy(softmax(x), c),
     (X, CLASSES), {}, "softmax(logits) stands where logits is due"),
    ("sigmoid twice", losses.binary_cross_entropy, lambda x, y: losses.binary_cross_entropy(
        act.sigmoid(x), y), (X, (U > 0) * 1.0), {}, "sigmoid(logits) stands where logits is due"),
    ("SmoothL1", losses.huber, lambda p, q, delta: losses.huber(p, q, delta=delta) / delta,
     (X, U), {"delta": 3.0}, "divided by delta"),
    ("channels first", norm.group_norm, lambda x, n: np.moveaxis(norm.group_norm(
        np.moveaxis(x, 1, -1), n), -1, 1), (R.normal(size=(3, 10, 8)), 2), {}, "along axis 1"),
    ("rotation from 1", positions.apply_rope, lambda x, c, s: positions.apply_rope(
        x, *positions.rope_tables(np.arange(1, 6), FREQUENCIES)),
     (ROPE[0], *positions.rope_tables(np.arange(5), FREQUENCIES)), {}, "one too large"),
    ("another base", positions.rope_frequencies, lambda E: positions.rope_frequencies(E, base=5e5),
     (8,), {}, "base is 500000.0"),
    *((f"adam, {what}", training.adam_step, lambda p, g, s, f=f, **o: adam(p, g, f, **o),
       (B, W[1], None), {"learning_rate": 0.1, "eps": 0.01}, message) for what, f, message in (
        ("no correction", lambda m, v, e: 0.1 * m / ((1e-3 * v) ** 0.5 + e),
         "means are not corrected"),
        ("square alone", lambda m, v, e: m / ((1e-3 * v) ** 0.5 + e), "where v / (1 - beta2"),
        ("mean alone", lambda m, v, e: 0.1 * m / (v**0.5 + e), "where m / (1 - beta1"),
        ("eps inside", lambda m, v, e: m / (v + e) ** 0.5, "sqrt(v + eps) stands"),
        ("eps first", lambda m, v, e: m * 1e-3**0.5 / ((1e-3 * v) ** 0.5 + e),
         "eps is added before"),
        ("no root", lambda m, v, e: m / (v + e), "v stands where sqrt(v) is due"),
    )),
    ("adamw for adam", training.adam_step, training.adamw_step, (B, W[1], None),
     {"learning_rate": 0.1, "weight_decay": 0.5}, "decoupled from the gradient"),
    ("adam for adamw", training.adamw_step, training.adam_step, (B, W[1], None),
     {"learning_rate": 0.1, "weight_decay": 0.5}, "added to the gradient"),
    ("no correction in adamw", training.adamw_step, lambda p, g, s, **o: adam(
        0.99 * p, g, lambda m, v, e: 0.1 * m / ((1e-3 * v) ** 0.5 + e), start=p, **o),
     (B, W[1], None), {"learning_rate": 0.1, "weight_decay": 0.1, "eps": 0.01},
     "means are not corrected"),
    ("a sign in AMSGrad", training.adam_step, lambda p, g, s, **o: (
        p + g, training.adam_step(p, g, s, **o)[1]), (B, W[1], None),
     {"learning_rate": 0.1, "amsgrad": True}, "m / -0.1 stands where"),  # at this learning rate
    ("an unknown rotation", positions.apply_rope, lambda x, c, s: positions.apply_rope(
        x, c, s) + x**2, (ROPE[0], *positions.rope_tables(np.arange(5), FREQUENCIES)), {}, ""),
    ("an unknown step", training.adam_step, lambda p, g, s, **o: (
        p + g * g, training.adam_step(p, g, s, **o)[1]), (B, W[1], None),
     {"learning_rate": 0.1}, ""),
    ("an unknown window", SDPA, lambda q, k, v, window: SDPA(q, k, v, window=window) + DOUT**2,
     (Q, K, V), {"window": (2, 0)}, ""),
    ("as far off everywhere", act.tanh, lambda x: np.tanh(x) + 1e-3 * np.sign(x),
     (X.astype("f4"),), {}, ""),
    ("a window too short", SDPA, lambda q, k, v, window: SDPA(q, k, v, window=(1, 0)),
     (Q, K, V), {"window": (2, 0)}, "one key too short on the left"),
    ("a window too long", SDPA, lambda q, k, v, window: SDPA(q, k, v, window=(2, 2)),
     (Q, K, V), {"window": (2, 1)}, "one key too long on the right"),
    ("another eps outside", norm.rms_norm, lambda x, w: x * w / (
        np.sqrt((x * x).mean(-1, keepdims=True)) + 1e-5), (X, B), {},
     "outside the root, and is 1e-05, not 1e-06"),
]  # fmt: skip
BACKWARD = [
    ("softmax, sum of dout", act.softmax, lambda u, x: softmax(x) * (
        u - u.sum(-1, keepdims=True)), (U, X), {}, "dout stands where s * dout is due"),
    ("sigmoid for GELU, backward", act.gelu,
     lambda u, x: act.silu_vjp(u, x, beta=1.702), (U, X), {}, "x sigmoid(1.702 x)"),
    ("softmax no sum", act.softmax, lambda u, x: softmax(x) * u, (U, X), {}, "it is p dout"),
    ("log_softmax no p", act.log_softmax, lambda u, x: u - softmax(x), (U, X), {},
     "softmax(x, axis=axis) * sum(dout, axis=axis) is due"),
    ("dout ignored", act.silu, lambda u, x: act.silu_deriv(x), (U, X), {}, "dout is ignored"),
    ("times the output", act.silu, lambda u, x: u * act.silu(x), (U, X), {},
     "multiplied by the output"),
    ("unbiased, backward", norm.layer_norm,
     lambda u, x, w, b: unbiased_backward(u, x, w), (U, X, B, B), {}, "n - 1"),
    ("no variance", norm.layer_norm, lambda u, x: (u - u.mean(-1, keepdims=True))
     / np.sqrt(x.var(-1, keepdims=True) + 1e-5), (U, X), {}, "through the variance is missing"),
    ("constants, rms", norm.rms_norm,
     lambda u, x: u / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6), (U, X), {}, "as constants"),
    ("lstm gates, backward", recurrent.lstm, lambda u, *a: regated_lstm(u, a),
     (LSTM_DOUT, *LSTM), {}, "ifog"),
    ("none", neurons.linear, lambda u, x, w: (u @ w, None), (U, X, W), {},
     "gradient of one operand is missing"),
    ("second derivative", act.tanh, lambda u, x: u * act.tanh_deriv2(x), (U, X), {},
     "second derivative"),
    ("at the output", act.sigmoid, lambda u, x: u * act.sigmoid_deriv(act.sigmoid(x)), (U, X), {},
     "taken at the output"),
    ("sign", act.silu, lambda u, x: -act.silu_vjp(u, x), (U, X), {}, "sign is reversed"),
    ("dW transposed", neurons.linear, lambda *a: linear_backward(*a, dw=lambda u, x: x.T @ u),
     (U, X, W, B), {}, "transposed"),
    ("db mean", neurons.linear, lambda *a: linear_backward(*a, db=lambda u: u.mean(0)),
     (U, X, W, B), {}, "mean stands where a sum is due"),
    ("db not summed", neurons.linear, lambda *a: linear_backward(*a, db=lambda u: u),
     (U, X, W, B), {}, "not summed over the broadcast axes"),
    ("dx missing", neurons.linear, lambda *a: linear_backward(*a, dx=lambda u, w: 0 * u),
     (U, X, W, B), {}, "it is zero"),
    ("dW twice", neurons.linear, lambda *a: linear_backward(*a, dw=lambda u, x: 2 * u.T @ x),
     (U, X, W, B), {}, "accumulated twice"),
    ("p alone", losses.cross_entropy, lambda u, x, c: u * softmax(x) / len(x), (1.0, X, CLASSES),
     {}, "target is not subtracted"),
    ("constants", norm.layer_norm, lambda u, x: u / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
     (U, X), {}, "as constants"),
    ("dk scale", SDPA, lambda *a: attention_backward(*a, bug="scale"), (DOUT, Q, K, V), {},
     "lacks the scale of the scores, 1/sqrt(E)"),
    ("row sum", SDPA, lambda *a: attention_backward(*a, bug="rows"), (DOUT, Q, K, V), {},
     "row sum"),
    ("raw scores", SDPA, lambda *a: attention_backward(*a, bug="raw"), (DOUT, Q, K, V), {},
     "scores stand where"),
]  # fmt: skip


def log_softmax_vjp(u, x, rest):
    return u - softmax(x) if rest == "p" else u


def norm_vjp(u, x, w, b, *, mean=True, var=True):
    c = x - x.mean(-1, keepdims=True)
    s = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    g, y = u * w, c * s
    dx = g - (g.mean(-1, keepdims=True) if mean else 0)
    dx = s * (dx - (y * (g * y).mean(-1, keepdims=True) if var else 0))
    return dx, (u * y).sum(0), u.sum(0)


def unbiased_vjp(u, x, w, b):
    n = x.shape[-1]
    c = ((n - 1) / n) ** 0.5
    dx, dw, db = norm.layer_norm_vjp(u, x, w * c, b, eps=1e-5 * (n - 1) / n)
    return dx, dw * c, db


def lstm_gates_vjp(u, *a):
    out = recurrent.lstm_vjp(u, *gates(a, (0, 1, 3, 2)))
    return gates(out, (0, 1, 3, 2))


def sure(x):
    with np.errstate(all="ignore"):
        return np.exp(x) / (1 + np.exp(x))


def noisy(x, w):
    y = neurons.linear(x, w)
    return y * (1 + 0.02 * np.sin(1e3 * y.astype(float))).astype(y.dtype)


def infinite_log(x):
    with np.errstate(all="ignore"):
        return np.log(np.where(softmax(x) < 0.1, 0, softmax(x)))


SQUARE = R.random((7, 7)) < 0.6
SQUARE[:, 0] = SQUARE[0] = True
SQUARE[3, 1], SQUARE[1, 3] = True, False
Q7 = R.normal(size=(2, 3, 7, 8))
STEPS = R.normal(size=(2, 5, 4))
PROJECTIONS = att.AttentionParams(*R.normal(size=(4, 4, 4)))
FORWARD += [
    ("mask transposed", SDPA, lambda q, k, v, mask: SDPA(q, k, v, mask=mask.T), (Q7, K, V),
     {"mask": SQUARE}, "mask is transposed"),
    ("scale ignored", SDPA, lambda q, k, v, scale: SDPA(q, k, v), (Q, K, V), {"scale": 1.0},
     "'scale' is ignored"),
    ("default given", act.softmax, lambda x, axis: softmax(x, axis=0), (X,), {"axis": -1},
     "axis 0"),
    ("lstm gates without biases", recurrent.lstm, lambda x, h, c, w, u, *_: recurrent.lstm(
        x, h, c, *gates((w, u, w, u), (2, 1, 0, 3))[:2]), (*LSTM[:5], None, None), {}, "gfio"),
    ("half a sum", losses.squared_error, lambda p, q: ((p - q) ** 2).sum() / 2, (X[0], X[1]), {},
     "1/2 and a sum"),
    ("a loss times 1.37", losses.cross_entropy, lambda x, c: 1.37 * losses.cross_entropy(x, c),
     (X, CLASSES), {}, ""),  # one number has no multiple
    ("an unknown norm", norm.layer_norm, lambda x: layer_norm(x, 1, 0) + x**2, (X,), {}, ""),
    ("unbiased without weight", norm.layer_norm, lambda x: layer_norm(x, 1, 0, ddof=1), (X,), {},
     "n - 1"),
    ("unbiased without bias", norm.layer_norm, lambda x, w, b: layer_norm(x, w, 0, ddof=1),
     (X, B, None), {}, "n - 1"),
    ("no mean, batch", norm.batch_norm, lambda x: x / np.sqrt((x * x).mean(0) + 1e-5), (X,), {},
     "x stands where x - mu is due"),
    ("update gate", recurrent.gru, lambda *a: recurrent.gru(*a[:2], *(
        np.concatenate([r, -z, n]) for r, z, n in (np.split(b, 3) for b in a[2:]))), GRU, {},
     "1 - sigmoid("),
    ("exp of the wrong sign", act.sigmoid, sure, (X * 1e4,), {}, "exponential overflows"),
    ("a division by zero", act.tanh, lambda x: np.where(x > 0, np.inf, np.tanh(x)), (X,), {},
     "division by zero"),
    ("a softmax over nothing", act.softmax, lambda x: np.where(x > 0, np.nan, softmax(x)), (X,), {},
     "0 divided by 0"),
    ("an infinite log", act.log_softmax, infinite_log, (X,), {}, "rounded to 0"),
    ("any multiple", act.tanh, lambda x: 1.37 * np.tanh(x), (X,), {}, "times 1.37"),
    ("ripples", norm.layer_norm, lambda x: layer_norm(x, 1, 0) + 1e-3 * np.sin(1e3 * x),
     (X + 100,), {}, ""),  # a wave is no noise
    ("noise", neurons.linear, noisy, (X.astype("f2"), W.astype("f2")), {}, "noise"),
    ("unknown", act.tanh, lambda x: np.tanh(x) + x**2, (X,), {}, ""),
    ("window without a right end", SDPA, lambda q, k, v, window: SDPA(q, k, v, window=(2, None)),
     (Q, K, V), {"window": (2, 0)}, "no right end"),
    ("window without a left end", SDPA, lambda q, k, v, window: SDPA(q, k, v, is_causal=True),
     (Q, K, V), {"window": (2, 0)}, "no left end"),
    ("causal, heads joined", att.multi_head_attention, lambda x, y, p, num_heads, is_causal:
     att.multi_head_attention(x, y, p, num_heads=num_heads), (STEPS, STEPS, PROJECTIONS),
     {"num_heads": 2, "is_causal": True}, "'is_causal' is ignored"),
    ("mask inverted, heads joined", att.multi_head_attention, lambda x, y, p, num_heads, mask:
     att.multi_head_attention(x, y, p, num_heads=num_heads, mask=~mask),
     (STEPS, STEPS, PROJECTIONS), {"num_heads": 2, "mask": SQUARE[:5, :5]}, "mask is inverted"),
    ("another activation", transformer.feed_forward, lambda x, p: transformer.feed_forward(
        x, p, activation="gelu"), (STEPS, transformer.FeedForwardParams(
            W[:6, :4], W[0, :6], W[:4, :6], W[1, :4])), {}, "activation is gelu, not relu"),
    ("weights and the number", losses.cross_entropy, lambda x, c, weight: losses.cross_entropy(
        x, c, weight=weight) * weight[c].mean(), (X, CLASSES), {"weight": np.exp(B)},
     "not by the sum of their weights"),
    ("h and c", recurrent.lstm, lambda *a: recurrent.lstm(*a)[::-1], LSTM, {},
     "it equals output 1"),
    ("unbiased instances", norm.instance_norm, lambda x: (x - x.mean(1, keepdims=True))
     / np.sqrt(x.var(1, keepdims=True, ddof=1) + 1e-5), (STEPS,), {}, "n - 1"),
    ("eps outside, instances", norm.instance_norm, lambda x: (x - x.mean(1, keepdims=True))
     / (np.sqrt(x.var(1, keepdims=True)) + 1e-5), (STEPS,), {}, "sqrt(var) + eps stands"),
    ("unbiased groups", norm.group_norm, lambda x, groups, w, b: w * unbiased_groups(x, groups) + b,
     (STEPS, 2, STEPS[0, 0], STEPS[0, 1]), {}, "n - 1"),
    ("nothing", act.tanh, lambda x: None, (X,), {}, ""),
    ("a wrong shape", act.tanh, lambda x: np.zeros((2, *x.shape)), (X,), {}, ""),
]  # fmt: skip
BACKWARD += [
    ("diagonal", act.softmax, lambda u, x: u * softmax(x) * (1 - softmax(x)), (U, X), {},
     "s * dout stands where sum(s * dout"),
    ("rms times 1.37", norm.rms_norm, lambda u, x: 1.37 * norm.rms_norm_vjp(u, x), (U, X), {},
     "times 1.37"),
    ("log_softmax p", act.log_softmax, lambda u, x: log_softmax_vjp(u, x, "p"), (U, X), {},
     "softmax(x, axis=axis) * sum(dout, axis=axis) is due"),
    ("log_softmax dout", act.log_softmax, lambda u, x: log_softmax_vjp(u, x, ""), (U, X), {},
     "it is dout, unchanged"),
    ("no mean term", norm.layer_norm, lambda *a: norm_vjp(*a, mean=False), (U, X, B, B), {},
     "g stands where g - mean_g is due"),
    ("no variance term", norm.layer_norm, lambda *a: norm_vjp(*a, var=False), (U, X, B, B), {},
     "through the variance"),
    ("unbiased gradient", norm.layer_norm, unbiased_vjp, (U, X, B, B), {}, "n - 1"),
    ("rms constants", norm.rms_norm,
     lambda u, x: u / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6), (U, X), {}, "as constants"),
    ("lstm gates backward", recurrent.lstm, lstm_gates_vjp, ((STEPS, STEPS), *LSTM), {}, "ifog"),
    ("grouped heads twice", SDPA, lambda u, q, k, v: tuple(
        2 * g for g in att.scaled_dot_product_attention_vjp(u, q, k, v)),
     (R.normal(size=(2, 6, 5, 6)), Q4, K, V), {}, "accumulated twice"),
    ("capped twice", SDPA, lambda u, q, k, v, softcap: tuple(
        2 * g for g in att.scaled_dot_product_attention_vjp(u, q, k, v, softcap=softcap)),
     (DOUT, Q, K, V), {"softcap": 2.0}, "accumulated twice"),
    ("constants, instances", norm.instance_norm,
     lambda u, x: u / np.sqrt(x.var(1, keepdims=True) + 1e-5), (STEPS[::-1], STEPS), {},
     "as constants"),
    ("heads tiled, backward", SDPA, tiled_backward,
     (R.normal(size=(2, 6, 5, 6)), Q4, K, V), {}, "tiled"),
    ("heads not gathered", SDPA, lambda u, q, k, v: att.scaled_dot_product_attention_vjp(
        u, q, np.repeat(k, 2, 1), np.repeat(v, 2, 1)),
     (R.normal(size=(2, 6, 5, 6)), Q4, K, V), {}, "those that share one along axis 1"),
    ("dx and dw", neurons.linear, lambda u, x, w: neurons.linear_vjp(u, x, w)[::-1],
     (U, X, W), {}, "it equals output 1"),
    ("dropout forgotten for dv", SDPA, lambda u, q, k, v, dropout: (
        *att.scaled_dot_product_attention_vjp(u, q, k, v, dropout=dropout)[:2],
        att.scaled_dot_product_attention_vjp(u, q, k, v)[2]), (DOUT, Q, K, V),
     {"dropout": 2.0 * MASK}, "dv lacks the mask of dropout"),
    ("sum backward", act.logsumexp, lambda u, x: -u[:, None] * softmax(x), (U[:, 0], X), {},
     "sign is reversed"),
    ("p sum", losses.cross_entropy, lambda u, x, c, reduction: u * softmax(x), (1.0, X, CLASSES),
     {"reduction": "sum"}, "target is not subtracted"),
]  # fmt: skip


BIAS, SINK, CAUSAL = R.normal(size=(5, 7)), R.normal(size=3), {"is_causal": True}
SOFTCAP = {"softcap": 2.0}
LONG = R.normal(size=(2, 6, 4))
GRAD = W[1]


def seen_by(mask=None, is_causal=False):
    return np.tri(5, 7, dtype=bool) if is_causal else mask


def scored(change, *, late=False):
    """Attention whose scores are changed, or whose weights are masked at the end."""

    def f(q, k, v, bias=0.0, softcap=None, scale=8**-0.5, dropout=1.0, **masks):
        seen = seen_by(**masks) if masks else np.True_
        p = softmax(change(q @ t(k) * scale, bias, softcap, seen))
        return (p * seen if late else p) * dropout @ v

    return f


def cap(s, c):
    return c * np.tanh(s / c)


def hidden(s, seen):
    return np.where(seen, s, -np.inf)


def weights_masked_late(q, k, is_causal):
    return softmax(q @ t(k) * 8**-0.5) * seen_by(is_causal=True)


def heads_of(x, how):
    if how == "rows":
        return x.reshape(2, 2, -1, 2)
    return np.moveaxis(x.reshape(2, -1, 2, 2), -1, 1) if how == "inner" else t_heads(x)


def t_heads(x):
    return np.swapaxes(x.reshape(2, -1, 2, 2), 1, 2)


def reshaped(split, join):
    """Multi-head attention of two heads of width two."""

    def f(x, y, p, num_heads, is_causal=False):
        q, k, v = (heads_of(a @ w.T, split) for a, w in ((x, p.w_q), (y, p.w_k), (y, p.w_v)))
        out = SDPA(q, k, v, is_causal=is_causal)
        if join == "inner":
            out = np.moveaxis(out, 1, -1)
        elif join == "heads":
            out = np.swapaxes(out, 1, 2)
        return out.reshape(x.shape) @ p.w_o.T

    return f


HALVED = {"interleaved": False, "rotary_dim": 6}
ROPE6 = ROPE[0], ROPE[1][:, :3], ROPE[2][:, :3]


def rotated_halves(x, c, s, interleaved, rotary_dim):
    """Without the minus of rotate_half."""
    turned = x[..., :6] * np.tile(c, 2) + np.roll(x[..., :6], 3, -1) * np.tile(s, 2)
    return np.concatenate([turned, x[..., 6:]], -1)


def rotated_pairs(x, c, s, sign=1):
    a, b = x[..., ::2], x[..., 1::2]
    return np.stack([a * c + sign * b * s, b * c + sign * a * s], -1).reshape(x.shape)


WITHOUT_BIASES = att.AttentionParams(*PROJECTIONS[:4])
FORWARD += [
    ("cap before the scale", SDPA, scored(lambda s, b, c, seen: cap(s * 8**0.5, c) * 8**-0.5),
     (Q, K, V), SOFTCAP, "before their scale"),
    ("cap with the bias", SDPA, scored(lambda s, b, c, seen: cap(s + b, c)), (Q, K, V),
     {**SOFTCAP, "bias": BIAS}, "to the scores with their bias"),
    ("cap after the mask", SDPA, scored(lambda s, b, c, seen: cap(np.where(seen, s, -1e9), c)),
     (Q, K, V), {**SOFTCAP, **CAUSAL}, "after the mask"),
    ("cap after mask and bias, a scale", SDPA,
     scored(lambda s, b, c, seen: cap(np.where(seen, s + b, -1e9), c)),
     (Q, K, V), {**SOFTCAP, "mask": MASK, "bias": BIAS, "scale": 0.5}, "after the mask"),
    ("an unknown cap", SDPA, scored(lambda s, b, c, seen: cap(s, c) + s**2), (Q, K, V), SOFTCAP,
     ""),
    ("mask times scores", SDPA, scored(lambda s, b, c, seen: s * seen), (Q, K, V), CAUSAL,
     "the mask multiplies the scores"),
    ("mask added", SDPA, scored(lambda s, b, c, seen: s + seen), (Q, K, V), {"mask": MASK},
     "added as 0 and 1"),
    ("mask after the softmax", SDPA, scored(lambda s, b, c, seen: s, late=True), (Q, K, V), CAUSAL,
     "after the softmax"),
    ("mask after the softmax, dropout", SDPA, scored(lambda s, b, c, seen: s, late=True), (Q, K, V),
     {"mask": MASK, "dropout": 2.0 * (BIAS > 0)}, "after the softmax"),
    ("weights masked late", att.attention_weights, weights_masked_late, (Q, K), CAUSAL,
     "after the softmax"),
    ("scores masked by 0", att.attention_scores, lambda q, k, is_causal: q @ t(k) * 8**-0.5
     * np.tri(5, 7), (Q, K), CAUSAL, "multiplies the scores"),
    ("a finite mask", SDPA, scored(lambda s, b, c, seen: np.where(seen, s, -10.0)), (Q, K, V),
     CAUSAL, "hidden scores are -10, not -inf"),
    ("the last key", SDPA, lambda q, k, v: SDPA(q, k[..., :-1, :], v[..., :-1, :]), (Q, K, V), {},
     "the last key is left out"),
    ("the first key", SDPA, lambda q, k, v, mask: SDPA(q, k[..., 1:, :], v[..., 1:, :],
     mask=mask[:, 1:]), (Q, K, V), {"mask": MASK}, "the first key is left out"),
    ("scores of an unknown mask", att.attention_scores, lambda q, k, is_causal: (
        att.attention_scores(q, k, is_causal=True) + BIAS**2), (Q, K), CAUSAL, ""),
    ("an unknown mask", SDPA, lambda q, k, v, mask: SDPA(q, k, v, mask=mask) + DOUT**2, (Q, K, V),
     {"mask": MASK}, ""),
    ("scaled bias", SDPA, scored(lambda s, b, c, seen: s + b * 8**-0.5), (Q, K, V), {"bias": BIAS},
     "the bias is scaled"),
    ("scaled sink", SDPA, lambda q, k, v, sink, scale: SDPA(q, k, v, sink=sink * scale,
     scale=scale), (Q, K, V), {"sink": SINK, "scale": 0.5}, "the sink is scaled"),
    ("base 2", SDPA, lambda q, k, v: SDPA(q, k, v, scale=8**-0.5 * np.log(2)), (Q, K, V), {},
     "the scores lack the factor log2(e)"),
    ("base e after all", SDPA, lambda q, k, v: SDPA(q, k, v, scale=8**-0.5 / np.log(2)), (Q, K, V),
     {}, "have the factor log2(e)"),
    ("powers of 2", act.softmax, lambda x: 2**x / (2**x).sum(-1, keepdims=True), (X,), {},
     "log(2) * x stands where x is due"),
    ("heads split", att.multi_head_attention, reshaped("rows", "heads"),
     (STEPS, STEPS, WITHOUT_BIASES), {"num_heads": 2}, "heads are split by a reshape"),
    ("heads joined", att.multi_head_attention, reshaped("heads", "rows"),
     (STEPS, LONG, WITHOUT_BIASES), {"num_heads": 2}, "heads are joined by a reshape"),
    ("heads split and joined", att.multi_head_attention, reshaped("rows", "rows"),
     (STEPS, STEPS, WITHOUT_BIASES), {"num_heads": 2, **CAUSAL}, "split and joined"),
    ("heads inside", att.multi_head_attention, reshaped("inner", "inner"),
     (STEPS, STEPS, WITHOUT_BIASES), {"num_heads": 2}, "lie apart"),
    ("heads inside, split alone", att.multi_head_attention, reshaped("inner", "heads"),
     (STEPS, STEPS, WITHOUT_BIASES), {"num_heads": 2}, "but not joined so"),
    ("heads, unknown", att.multi_head_attention, lambda x, y, p, num_heads: x**2,
     (STEPS, STEPS, WITHOUT_BIASES), {"num_heads": 2}, ""),
    ("heads rotated, unknown", att.multi_head_attention, lambda x, y, p, num_heads, rope: x**2,
     (STEPS, STEPS, WITHOUT_BIASES),
     {"num_heads": 2, "rope": (np.cos(ANGLES[:, :1]), np.sin(ANGLES[:, :1]))}, ""),
    ("grouped heads split", att.multi_head_attention, lambda x, y, p, num_heads, num_kv_heads:
     SDPA((x @ p.w_q.T).reshape(2, 2, 5, 2), *((y @ w.T)[:, None] for w in (p.w_k, p.w_v))
     ).swapaxes(1, 2).reshape(x.shape) @ p.w_o.T,
     (STEPS, STEPS, WITHOUT_BIASES._replace(w_k=W[:2, :4], w_v=W[2:4, :4])),
     {"num_heads": 2, "num_kv_heads": 1}, "heads are split by a reshape"),
    ("rotate_half without a minus", positions.apply_rope, rotated_halves, ROPE6, HALVED,
     "both products with the sine have the same sign"),
    ("pairs without a minus", positions.apply_rope, rotated_pairs, ROPE, {},
     "both products with the sine have the same sign"),
    ("pairs with two", positions.apply_rope, lambda *a: rotated_pairs(*a, sign=-1), ROPE, {},
     "both products with the sine have the same sign"),
    ("sines, then cosines", positions.sinusoidal, lambda T, D: np.concatenate([
        positions.sinusoidal(T, D)[:, ::2], positions.sinusoidal(T, D)[:, 1::2]], -1), (6, 8), {},
     "layout is"),
    ("uphill", training.momentum_step, lambda p, g, s, **o: (
        p + 0.1 * g, training.momentum_step(p, g, s, **o)[1]), (B, GRAD, None),
     {"learning_rate": 0.1}, "theta + eta * d stands"),
    ("no decay", training.adamw_step, training.adam_step,
     (B, GRAD, None), {"learning_rate": 0.1}, "weight_decay is 0.0, not 0.01"),
    ("other betas", training.adam_step, lambda p, g, s, **o: training.adam_step(
        p, g, s, **o, betas=(0.9, 0.95)), (B, GRAD, training.adam_step(
            B, W[2], None, learning_rate=0.1)[1]), {"learning_rate": 0.1}, "betas is (0.9, 0.95)"),
    ("another slope", act.leaky_relu, lambda x: np.where(x > 0, x, 0.2 * x), (X,), {},
     "negative_slope is 0.2, not 0.01"),
    ("perplexity", losses.cross_entropy, lambda x, c: np.exp(losses.cross_entropy(x, c)),
     (X, CLASSES), {}, "exp(the result) is returned"),
    ("root of the mean square", losses.squared_error, lambda p, q: np.sqrt(((p - q) ** 2).mean()),
     (X, U), {}, "sqrt(the result) is returned"),
    ("bits", losses.cross_entropy, lambda x, c: losses.cross_entropy(x, c) / np.log(2),
     (X, CLASSES), {}, "to base 2"),
    ("decimal digits", losses.nll, lambda x, c: losses.nll(x, c) / np.log(10),
     (act.log_softmax(X), CLASSES), {}, "to base 10"),
    ("n - 1 rows", losses.cross_entropy, lambda x, c: losses.cross_entropy(x, c) * 6 / 5,
     (X, CLASSES), {}, "divides by n - 1, not by n: axis 0"),
    ("n - 1 elements", losses.squared_error, lambda p, q: ((p - q) ** 2).sum() / 47,
     (X, U), {}, "divides by n - 1, not by n: the size 48"),
    ("minus logsumexp", act.log_softmax, lambda x: x - act.logsumexp(x)[:, None],
     (np.float32(32 * X),), {}, "subtract the maximum first"),
    ("log-softmax, unknown", act.log_softmax, lambda x: x**3, (X,), {}, ""),
    ("threshold", act.softplus, lambda x: np.where(x > 20, x, act.softplus(x)), (20 * X,), {},
     "beyond 20"),
    ("near a known factor", losses.squared_error, lambda p, q: 2.001 * ((p - q) ** 2).mean(),
     (X, U), {}, ""),
]  # fmt: skip
BACKWARD += [
    ("no rows of dW", neurons.linear, lambda u, x, w: (u @ w, np.ones((0, 8))), (U, X, W), {}, ""),
    ("twice the rows of dW", neurons.linear, lambda u, x, w: (u @ w, np.ones((16, 8))), (U, X, W),
     {}, ""),
    ("rotated both up", positions.apply_rope, lambda u, *a: rotated_pairs(u, *a[1:]),
     (ROPE[0][::-1], *ROPE), {}, "both products with the sine have the same sign"),
    ("slope of a clamp at 0", act.softplus, lambda u, x: np.where(
        x == 0, u, act.softplus_vjp(u, x)), (U, np.where(X > 1, 0, X)), {}, "only where x is 0"),
    ("slope of abs at 0", losses.absolute_error, lambda u, x, t, **o: tuple(np.where(x == t, u, g)
     for g in losses.absolute_error_vjp(u, x, t, **o)),
     (U, np.round(X), np.round(U)), {"reduction": "none"}, "only where pred equals target"),
    ("square that overflows", act.sigmoid, lambda u, x: np.where(
        x < -45, np.float32(0), act.sigmoid_vjp(u, x)),  # exp(-x) / (1 + exp(-x))²
     (np.float32(U), np.float32(np.where(X > 1, -60, X))), {}, "the square of an exponential"),
    ("threshold, backward", act.softplus, lambda u, x: np.where(
        x > 20, u, act.softplus_vjp(u, x)), (U, 20 * X), {}, "beyond 20"),
    ("mask after the softmax, backward", SDPA, lambda u, q, k, v, mask:
     att.scaled_dot_product_attention_vjp(u, q, k, v, dropout=mask * 1.0), (DOUT, Q, K, V),
     {"mask": MASK}, ""),
    ("cap before the scale, backward", SDPA, lambda u, q, k, v, softcap:
     att.scaled_dot_product_attention_vjp(u, q, k, v, softcap=softcap * 8**-0.5), (DOUT, Q, K, V),
     SOFTCAP, "before their scale"),
]  # fmt: skip


PLANTED = [("forward", *row) for row in FORWARD] + [("vjp", *row) for row in BACKWARD]


def verdict_of(row):
    form, _, op, candidate, arguments, options, _ = row
    judge = check.check_forward if form == "forward" else check.check_vjp
    return judge(candidate, op, *arguments, **options)


#: Of these the search has seconds to think.
SEARCHED = {
    "heads rotated, unknown", "heads, unknown", "h and c", "mask after the softmax, backward",
    "gru update", "update gate", "an unknown window", "an unknown cap",
}  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row[1], marks=[pytest.mark.broad] * (row[1] in SEARCHED))
        for row in PLANTED
    ],
)
def test_a_planted_mistake_is_flagged_and_named(row):
    verdict = verdict_of(row)
    assert not verdict
    assert row[-1] in verdict.cause if row[-1] else verdict.cause == ""
    assert verdict.cause in str(verdict)


def test_a_jvp_by_its_inputs():
    tangents = U, W[::-1], B
    wrong = lambda p, t: neurons.linear_jvp((p[0], p[1].T, p[2]), t)  # noqa: E731
    verdict = check.check_jvp(wrong, neurons.linear, (X, W, B), tangents)
    assert verdict.cause == "weight is transposed"
    verdict = check.check_jvp(
        lambda p, t: norm.layer_norm_jvp(p, (2 * t[0], None, None)),
        norm.layer_norm,
        (X, None, None),
        (U, None, None),
    )
    assert "doubled" in verdict.cause
    wrong = lambda x, dx: dx * act.tanh_deriv2(x)  # noqa: E731
    assert not check.check_jvp(wrong, act.tanh, X, U)


def test_there_are_forty():
    assert len(PLANTED) >= 40


class TestOtherLibraries:
    """Candidates that take and return tensors."""

    def test_torch_mistakes(self):
        nn = peers.torch.nn.functional
        x32 = X.astype(np.float32)
        rows = [
            (act.gelu, lambda x: nn.gelu(x, approximate="tanh"), (x32,), {}, "approximate"),
            (SDPA, nn.scaled_dot_product_attention, (Q, K, V), {"is_causal": True}, ""),
            (SDPA, lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, scale=1.0),
             (Q, K, V), {}, "scale of the scores is missing"),
            (SDPA, lambda q, k, v, mask: nn.scaled_dot_product_attention(q, k, v, ~mask),
             (Q, K, V), {"mask": MASK & (np.arange(7) < 6)}, "inverted"),
            (norm.layer_norm, lambda x: nn.layer_norm(x, (8,), eps=1e-6), (x32,), {}, "eps is"),
            (act.softmax, lambda x: x.softmax(0), (X,), {}, "along axis 0"),
            (neurons.linear, lambda x, w, b: nn.linear(x, w.T, b), (X, W, B), {}, "transposed"),
            (norm.batch_norm, lambda x: (x - x.mean(0)) / (x.var(0) + 1e-5).sqrt(), (X,), {},
             "n - 1"),
        ]  # fmt: skip
        for op, candidate, inputs, options, message in rows:
            verdict = check.check_forward(candidate, op, *inputs, framework="torch", **options)
            if not message:
                assert verdict
                continue
            assert not verdict
            assert message in verdict.cause

    def test_jax_mistakes(self):
        jax = pytest.importorskip("jax")
        rows = [
            (act.gelu, jax.nn.gelu, (X,), {}, "approximate is tanh"),
            (act.softmax, lambda x: jax.nn.softmax(x, 0), (X,), {}, "along axis 0"),
            (norm.layer_norm, lambda x: jax.nn.standardize(x, epsilon=1e-6), (X,), {}, "eps is"),
            (act.silu, lambda x: jax.nn.silu(2 * x), (X,), {}, ""),
        ]
        for op, candidate, inputs, options, message in rows:
            verdict = check.check_forward(candidate, op, *inputs, framework="jax", **options)
            assert not verdict
            assert message in verdict.cause
