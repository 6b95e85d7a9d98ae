"""Mistakes of public reports that were looked up after the set unread had been tried."""

import numpy as np

from dlref import attention, calculus, training, transformer
from dlref import normalization as norm

from .kernels import Wrong, cases, gradients, softmax

R = np.random.default_rng(103)


def cumprod_backward(dout, x, slip=""):
    """Each factor's gradient, by the products before it and the sums after it."""
    if slip == "divided":
        weighted = dout * np.cumprod(x, -1)
        return np.cumsum(weighted[..., ::-1], -1)[..., ::-1] / x
    before = np.cumprod(np.concatenate([np.ones_like(x[..., :1]), x[..., :-1]], -1), -1)
    after, total = np.empty_like(x), 0.0
    for j in reversed(range(x.shape[-1])):
        after[..., j] = dout[..., j] + total
        total = x[..., j] * after[..., j]
    return before * after


def rms_norm_backward(dout, x, weight, eps=1e-6, slip=""):
    """The gradients of input and weight."""
    root = np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    unit, d = x / root, dout * weight
    dx = (d - unit * (d * unit).mean(-1, keepdims=True)) / root
    dweight = (dout * unit).sum(tuple(range(x.ndim - 1)))
    return gradients(dx, 0 * dweight if slip == "weight without gradient" else dweight)


def attention_of(q, k, v, mask, slip=""):
    """Attention to the keys that a mask allows; a query that sees none gets zeros."""
    s = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    if slip == "mask of queries":
        mask = np.swapaxes(mask, -1, -2)
    hidden = -10000.0 if slip == "finite" else -np.inf
    return softmax(np.where(mask, s, hidden)) @ v


def clip_by_norm(grads, max_norm, slip=""):
    """All gradients by one factor."""
    total = np.sqrt(sum((g**2).sum() for g in grads))
    factor = 1.0 if slip == "no factor" else max_norm
    return tuple(factor * g / max(total, max_norm) for g in grads)


def adam_step(params, grads, state, learning_rate, betas=(0.9, 0.999), eps=1e-8, slip=""):
    """Adam's first step."""
    del state
    b1, b2 = betas
    mean, square = (1 - b1) * grads, (1 - b2) * grads * grads
    root = np.sqrt(square / (1 - b2))
    root = root - eps if slip == "eps subtracted" else root + eps
    return params - learning_rate * mean / (1 - b1) / root, (1, mean, square, None)


def l2_norm(x, eps=1e-6, slip=""):
    """Rows of length 1."""
    axis = -2 if slip == "along the tokens" else -1
    return x / np.sqrt((x * x).sum(axis, keepdims=True) + eps)


def next_token_probabilities(logits, top_p, slip=""):
    """The fewest tokens that together have a probability."""
    p = softmax(logits)
    order = np.argsort(-p, -1)
    rows = np.take_along_axis(p, order, -1)
    mass = np.cumsum(rows, -1)
    kept = mass <= top_p if slip == "without the last" else mass - rows < top_p
    kept[..., 0] = True
    out = np.zeros_like(p)
    np.put_along_axis(out, order, np.where(kept, rows, 0), -1)
    return out / out.sum(-1, keepdims=True)


def factors():
    def case(*shape):
        x = R.normal(size=shape)
        x[..., 1] = 0
        return (x,), {}

    return cases(case(5), case(3, 4), case(2, 6))


def rows(*shapes):
    return cases(*(((R.normal(size=s), R.uniform(0.5, 2, s[-1])), {}) for s in shapes))


def padded(*counts):
    """Return cases in which some sequences end early."""

    def case(T, lengths):
        seen = np.arange(T) < np.array(lengths)[:, None, None]
        inputs = (*R.normal(size=(3, len(lengths), T, 4)),)
        return inputs, {"mask": np.broadcast_to(seen, (len(lengths), T, T)).copy()}

    return cases(*(case(*c) for c in counts))


def blind(*sizes):
    """Return cases in which some queries see no key."""

    def case(T, S):
        mask = R.uniform(size=(T, S)) < 0.6
        mask[1], mask[:1, 0] = False, True
        return (R.normal(size=(T, 4)), *R.normal(size=(2, S, 4))), {"mask": mask}

    return cases(*(case(*size) for size in sizes))


def gradients_of(*norms):
    def case(c):
        return ((R.normal(size=(3, 4)), R.normal(size=5)), c), {}

    return cases(*(case(c) for c in norms))


def first_steps():
    def case(shape, rate, eps):
        inputs = R.normal(size=shape), R.normal(size=shape), None
        return inputs, {"learning_rate": rate, "eps": eps}

    return cases(case((3, 4), 0.1, 0.05), case((6,), 0.2, 0.1), case((2, 5), 0.05, 0.02))


def of_logits(*some):
    return cases(*(((2 * R.normal(size=shape),), {"top_p": p}) for shape, p in some))


def tokens(*shapes):
    return cases(*(((R.normal(size=shape),), {}) for shape in shapes))


SDPA = attention.scaled_dot_product_attention
UNWRITTEN = [
    Wrong("Theano/Theano#5317", calculus.cumprod, "vjp", cumprod_backward, "divided",
        "A reversed sum is divided by x, which gives NaN where a factor is 0.",
        (r"/ x|divid|division|quotient|cumsum",), factors()),
    Wrong("paiml/trueno#178", norm.rms_norm, "vjp", rms_norm_backward, "weight without gradient",
        "The gradient of the weight is zero.",
        (r"(weight|output 1).*(zero|\b0\b|nothing|not written|left out)",
         r"(zero|\b0\b).*(weight|output 1)"), rows((3, 5), (2, 4, 6), (4, 3))),
    Wrong("NVIDIA/apex#1390", SDPA, "forward", attention_of, "finite",
        "A query that sees no key gets the mean of all values.",
        (r"sees? no|no key|all (keys )?masked|uniform|mean|finite|-1e4|hidden",),
        blind((5, 4), (6, 7), (4, 5))),
    Wrong("HomebrewML/HeavyBall#72", training.clip_by_norm, "forward", clip_by_norm, "no factor",
        "The factor max_norm is left out: the result has the norm 1.",
        (r"max_norm|\bc\b|norm",), gradients_of(0.5, 1.5, 2.0)),
    Wrong("hyunwoongko/transformer#40", SDPA, "forward", attention_of, "mask of queries",
        "The mask hides queries, not keys.", (r"mask.*(T\b|transpos|swap|axis|quer)|transpos",),
        padded((5, (5, 3)), (6, (4, 6, 2)), (4, (3, 2)))),
    Wrong("tensorflow/tensorflow#61411", training.adam_step, "forward", adam_step,
        "eps subtracted", "eps is subtracted from the root.", (r"- ?eps|eps",), first_steps()),
    Wrong("gabeur/mmt#1", norm.l2_norm, "forward", l2_norm, "along the tokens",
        "Each feature is divided by its norm over all tokens.", (r"axis|along|-2|columns|tokens",),
        tokens((3, 5), (2, 4, 6), (3, 2, 4))),
    Wrong("Biohub/esm#360", transformer.next_token_probabilities, "forward",
        next_token_probabilities, "without the last",
        "The token that crosses the threshold is left out.",
        (r"<=|<|cross|last|before|one token|cum",),
        of_logits(((3, 6), 0.6), ((2, 5), 0.8), ((4, 7), 0.5))),
]  # fmt: skip
