"""
Mistakes planted in candidates of PyTorch and JAX, forwards and backwards.

Each is written once, in terms that both libraries have. Backward passes are those of a
``torch.autograd.Function`` and of a ``jax.custom_vjp`` whose forward is right, as a kernel's are.
"""

import functools
import importlib

import numpy as np
import peers
import pytest

from dlref import activations as act
from dlref import attention as att
from dlref import check, losses, neurons, positions
from dlref import normalization as norm

R = np.random.default_rng(11)
X, W, B, U = (R.normal(size=s) for s in ((6, 8), (8, 8), (8,), (6, 8)))
X32, B32 = X.astype("f4"), B.astype("f4")
Q, K, V = (R.normal(size=s) for s in ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)))
DOUT = R.normal(size=(2, 3, 5, 6))
MASK = R.random((5, 7)) < 0.6
MASK[:, 0] = True
MASK[:, 6] = False
ANGLES = R.uniform(0, 6, (5, 4))
ROPE = R.normal(size=(2, 5, 8)), np.cos(ANGLES), np.sin(ANGLES)
CLASSES = R.integers(0, 8, 6)
SDPA = att.scaled_dot_product_attention


def t(a):
    return a.swapaxes(-1, -2)


def softmax(xp, x, axis=-1):
    e = xp.exp(x - x.mean(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def sigmoid(xp, x):
    return 1 / (1 + xp.exp(-x))


def attention(xp, q, k, v, *, scale=8**-0.5, keep=None, axis=-1):
    scores = t(t(q @ t(k))) * scale
    if keep is not None:
        scores = xp.where(keep, scores, -300.0)
    return softmax(xp, scores, axis) @ v


def attention_backward(xp, u, q, k, v, bug):
    scale = 8**-0.5
    p = softmax(xp, q @ t(k) * scale)
    dp = u @ t(v)
    rows = 0 if bug == "rows" else (p * dp).sum(axis=-1, keepdims=True)
    ds = p * (dp - rows) * (1 if bug == "scale" else scale)
    return ds @ k, t(ds) @ q, t(q @ t(k) * scale if bug == "raw" else p) @ u


def normed(xp, x, w, b, *, eps=1e-5, less=0, outside=False, center=True):
    c = x - x.mean(axis=-1, keepdims=True) if center else x
    v = (c * c).sum(axis=-1, keepdims=True) / (x.shape[-1] - less)
    return c / (xp.sqrt(v) + eps if outside else xp.sqrt(v + eps)) * w + b


def norm_backward(xp, u, x, w, b, *, mean=True, var=True):
    c = x - x.mean(axis=-1, keepdims=True)
    s = 1 / xp.sqrt((c * c).mean(axis=-1, keepdims=True) + 1e-5)
    g, y = u * w, c * s
    dx = g - (g.mean(axis=-1, keepdims=True) if mean else 0)
    dx = s * (dx - (y * (g * y).mean(axis=-1, keepdims=True) if var else 0))
    return dx, (u * y).sum(axis=0), u.sum(axis=0)


def linear(xp, x, w, b):
    return x @ t(w) + b


def linear_backward(xp, u, x, w, b, *, dx=None, dw=None, db=None):
    return (
        u @ w if dx is None else dx(u, w),
        t(u) @ x if dw is None else dw(u, x),
        u.sum(axis=0) if db is None else db(u),
    )


def scored(xp, x, c):
    p = xp.log(softmax(xp, x))
    return -sum(p[i, int(k)] for i, k in enumerate(CLASSES)) / len(CLASSES)


def rotated(xp, x, cos, sin, *, halves=False, sign=1):
    a, b = (x[..., :4], x[..., 4:]) if halves else (x[..., ::2], x[..., 1::2])
    turned = a * cos - sign * b * sin, b * cos + sign * a * sin
    if halves:
        return xp.concatenate(turned, -1)
    return xp.stack(turned, -1).reshape(x.shape)


def gelu_by_tanh(xp, x):
    return x * (1 + xp.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2


def causal(xp, q, k, v, is_causal, offset):
    return attention(xp, q, k, v, keep=xp.asarray(np.tri(5, 7, offset, dtype=bool)))


# name, op, candidate(xp, ...), inputs, options, words of the cause
FORWARD = [
    ("axis", act.softmax, lambda xp, x: softmax(xp, x, 0), (X,), {}, "along axis 0"),
    ("tanh", act.gelu, gelu_by_tanh, (X,), {}, "approximate is tanh"),
    ("eps", norm.layer_norm, lambda xp, *a: normed(xp, *a, eps=1e-6), (X32, B32, B32), {},
     "eps is 1e-06"),
    ("outside", norm.layer_norm, lambda xp, *a: normed(xp, *a, outside=True), (X, B, B), {},
     "sqrt(var) + eps stands where sqrt(var + eps)"),
    ("unbiased", norm.layer_norm, lambda xp, *a: normed(xp, *a, less=1), (X, B, B), {}, "n - 1"),
    ("no mean", norm.layer_norm, lambda xp, *a: normed(xp, *a, center=False), (X + 0.3, B, B), {},
     "x stands where x - mu is due"),
    ("no scale", SDPA, lambda xp, *a: attention(xp, *a, scale=1.0), (Q, K, V), {},
     "scale of the scores is missing"),
    ("scale twice", SDPA, lambda xp, *a: attention(xp, *a, scale=1 / 8), (Q, K, V), {},
     "applied twice"),
    ("inverted", SDPA, lambda xp, q, k, v, mask: attention(xp, q, k, v, keep=~mask), (Q, K, V),
     {"mask": MASK}, "inverted"),
    ("anchored", SDPA, lambda xp, q, k, v, is_causal: causal(xp, q, k, v, is_causal, 2),
     (Q, K, V), {"is_causal": True}, "anchored at the last key"),
    ("shifted", SDPA, lambda xp, q, k, v, is_causal: causal(xp, q, k, v, is_causal, 1),
     (Q, K, V), {"is_causal": True}, "sees the next key"),
    ("over queries", SDPA, lambda xp, *a: attention(xp, *a, axis=-2), (Q, K, V), {},
     "axis=-2 stands where axis=-1 is due"),
    ("heads last", SDPA, lambda xp, *a: attention(xp, *a).swapaxes(1, 2), (Q, K, V), {},
     "transposed"),
    ("sum", losses.squared_error, lambda xp, p, q: ((p - q) ** 2).sum(), (X, U), {},
     "reduction is sum"),
    ("half", losses.squared_error, lambda xp, p, q: ((p - q) ** 2).mean() / 2, (X, U), {},
     "halved"),
    ("weight", neurons.linear, lambda xp, x, w, b: x @ w + b, (X, W, B), {}, "is transposed"),
    ("no bias", neurons.linear, lambda xp, x, w, b: x @ t(w), (X, W, B), {}, "bias is ignored"),
    ("pairs", positions.apply_rope, functools.partial(rotated, halves=True), ROPE, {},
     "half-split"),
    ("back", positions.apply_rope, functools.partial(rotated, sign=-1), ROPE, {}, "other way"),
    ("beta", act.silu, lambda xp, x, beta: x * sigmoid(xp, x), (X,), {"beta": 2.0},
     "'beta' is ignored"),
]  # fmt: skip


def silu(xp, x):
    return x * sigmoid(xp, x)


def silu_slope(xp, x):
    s = sigmoid(xp, x)
    return s * (1 + x * (1 - s))


def row_root(xp, x):
    return xp.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)


def tanh(xp, x):
    return xp.tanh(x)


def log_softmax(xp, x):
    return xp.log(softmax(xp, x))


def rms(xp, x):
    return x / row_root(xp, x)


NORM, LINEAR, HEADS = (U, X, B, B), (U, X, W, B), (DOUT, Q, K, V)
# name, op, right forward(xp, ...), backward(xp, dout, ...), dout and inputs, words of the cause
BACKWARD = [
    ("p dout", act.softmax, softmax, lambda xp, u, x: softmax(xp, x) * u, (U, X), "it is p dout"),
    ("second", act.tanh, tanh, lambda xp, u, x: -2 * u * xp.tanh(x) * (1 - xp.tanh(x) ** 2),
     (U, X), "second derivative"),
    ("output", act.sigmoid, sigmoid,
     lambda xp, u, x: u * sigmoid(xp, sigmoid(xp, x)) * (1 - sigmoid(xp, sigmoid(xp, x))), (U, X),
     "taken at the output"),
    ("sign", act.silu, silu, lambda xp, u, x: -u * silu_slope(xp, x), (U, X), "sign is reversed"),
    ("no dout", act.silu, silu, lambda xp, u, x: silu_slope(xp, x), (U, X), "dout is ignored"),
    ("sum of dout", act.log_softmax, log_softmax, lambda xp, u, x: u - softmax(xp, x), (U, X),
     "softmax(x, axis=axis) * sum(dout, axis=axis) is due"),
    ("dw transposed", neurons.linear, linear,
     functools.partial(linear_backward, dw=lambda u, x: t(x) @ u), LINEAR, "transposed"),
    ("db mean", neurons.linear, linear,
     functools.partial(linear_backward, db=lambda u: u.mean(axis=0)), LINEAR, "mean stands where"),
    ("dw twice", neurons.linear, linear,
     functools.partial(linear_backward, dw=lambda u, x: 2 * t(u) @ x), LINEAR, "accumulated twice"),
    ("dx zero", neurons.linear, linear,
     functools.partial(linear_backward, dx=lambda u, w: 0 * u), LINEAR, "it is zero"),
    ("dx by w", neurons.linear, linear,
     functools.partial(linear_backward, dx=lambda u, w: u @ t(w)), LINEAR, "transposed"),
    ("no mean", norm.layer_norm, normed, functools.partial(norm_backward, mean=False), NORM,
     "g stands where g - mean_g is due"),
    ("no variance", norm.layer_norm, normed, functools.partial(norm_backward, var=False), NORM,
     "through the variance"),
    ("constants", norm.rms_norm, rms, lambda xp, u, x: u / row_root(xp, x), (U, X),
     "as constants"),
    ("scale", SDPA, attention, functools.partial(attention_backward, bug="scale"), HEADS,
     "lacks the scale of the scores, 1/sqrt(E)"),
    ("row sums", SDPA, attention, functools.partial(attention_backward, bug="rows"), HEADS,
     "row sum"),
    ("raw scores", SDPA, attention, functools.partial(attention_backward, bug="raw"), HEADS,
     "scores stand where"),
    ("p alone", losses.cross_entropy, scored,
     lambda xp, u, x, c: (u * softmax(xp, x) / len(x), None), (1.0, X, CLASSES),
     "target is not subtracted"),
]  # fmt: skip


def in_torch(forward, backward):
    """Return the vjp of a function of tensors with a backward pass of its own."""
    torch = peers.torch

    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(torch, *inputs)

        @staticmethod
        def backward(ctx, dout):
            return backward(torch, dout, *ctx.saved_tensors)

    def vjp(dout, *inputs):
        leaves = [a.requires_grad_() if a.is_floating_point() else a for a in inputs]
        out = Kernel.apply(*leaves)
        wanted = [a for a in leaves if a.requires_grad]
        return torch.autograd.grad(out, wanted, torch.as_tensor(dout, dtype=out.dtype))

    return vjp


def in_jax(forward, backward):
    """Return the same, of arrays of JAX."""
    jax = importlib.import_module("jax")
    kernel = jax.custom_vjp(lambda *inputs: forward(jax.numpy, *inputs))
    kernel.defvjp(
        lambda *inputs: (kernel(*inputs), inputs),
        lambda inputs, dout: as_tuple(backward(jax.numpy, dout, *inputs)),
    )

    def vjp(dout, *inputs):
        out, pullback = jax.vjp(kernel, *inputs)
        grads = pullback(jax.numpy.asarray(dout, out.dtype))
        return tuple(g for g in grads if g.dtype.kind == "f")

    return vjp


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


NAMESPACES = {"torch": "torch", "jax": "jax.numpy"}
ROWS = [("forward", *row[:3], None, *row[3:]) for row in FORWARD]
ROWS += [("vjp", *row[:-1], {}, row[-1]) for row in BACKWARD]


def verdict_of(framework, row):
    form, _, op, forward, backward, inputs, options, _ = row
    if form == "forward":
        xp = importlib.import_module(NAMESPACES[framework])
        candidate = functools.partial(forward, xp)
        return check.check_forward(candidate, op, *inputs, framework=framework, **options)
    vjp = (in_torch if framework == "torch" else in_jax)(forward, backward)
    return check.check_vjp(vjp, op, *inputs, framework=framework)


@pytest.mark.parametrize("framework", NAMESPACES)
@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS])
def test_a_planted_mistake_is_flagged_and_named(row, framework):
    pytest.importorskip(framework)
    verdict = verdict_of(framework, row)
    assert not verdict
    assert row[-1] in verdict.cause


@pytest.mark.parametrize("framework", NAMESPACES)
def test_each_forward_that_a_wrong_backward_stands_beside_is_right(framework):
    """So that it is the backward pass that was found."""
    pytest.importorskip(framework)
    xp = importlib.import_module(NAMESPACES[framework])
    for _, op, forward, _, (_, *inputs), _ in BACKWARD:
        candidate = functools.partial(forward, xp)
        assert check.check_forward(candidate, op, *inputs, framework=framework), op.__name__
