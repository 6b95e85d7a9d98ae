"""Mistakes of public reports that were looked up after the set unmet had been tried."""

import numpy as np

from dlref import activations as act
from dlref import attention as att
from dlref import losses, positions, training, transformer

from .kernels import Wrong, cases, refuse, sigmoid, softmax
from .losses import log_softmax
from .november import reduced

R = np.random.default_rng(97)


def adam_step(params, grads, state, learning_rate, betas=(0.9, 0.999), eps=1e-8, slip=""):
    """Adam, whose corrections are factors of the step."""
    b1, b2 = betas
    step, mean, square = (0, 0.0, 0.0) if state is None else state[:3]
    t = step + 1
    mean = b1 * mean + (1 - b1) * grads
    square = b2 * square + (1 - b2) * grads * grads
    correction1, correction2 = 1 - b1**t, 1 - b2**t
    if slip == "one minus the correction":
        correction2 = 1 - correction2
    root = np.sqrt(square)
    if slip == "eps of another size":
        move = np.sqrt(correction2) / correction1 * mean / (root + eps)
    else:
        move = mean / correction1 / (root / np.sqrt(correction2) + eps)
    return params - learning_rate * move, (t, mean, square, None)


def apply_rope(x, cos, sin, rotary_dim=None, interleaved=True, slip=""):
    """The rotation of the first numbers of a head, in two halves."""
    if interleaved:
        refuse("pairs that are neighbors")
    size = x.shape[-1] if rotary_dim is None else rotary_dim
    half, away = size // 2, (x.shape[-1] if slip == "pairs of the whole head" else size) // 2
    out = x.copy()
    a, b = x[..., :half], x[..., away : away + half]
    out[..., :half] = a * cos - b * sin
    out[..., away : away + half] = a * sin + b * cos
    return out


def attention(q, k, v, window, slip=""):
    """Attention within a window."""
    left, right = window
    left += slip == "one key more"
    right -= slip == "one key less"
    i, j = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    return softmax(np.where((j >= i - left) & (j <= i + right), scores, -np.inf)) @ v


def cross_entropy(logits, target, ignore_index, label_smoothing, reduction="mean", slip=""):
    """Smoothed labels of the rows that count."""
    log_p, counts = log_softmax(logits), target != ignore_index
    own = -np.take_along_axis(log_p, np.where(counts, target, 0)[:, None], -1)[:, 0] * counts
    spread = -log_p.mean(-1) * (counts if slip != "ignored rows are smoothed" else 1)
    rows = (1 - label_smoothing) * own + label_smoothing * spread
    return rows.sum() / counts.sum() if reduction == "mean" else reduced(rows, reduction)


def silu_backward(dout, x, slip=""):
    """The slope as one fraction."""
    if slip == "one fraction":
        with np.errstate(all="ignore"):
            e = np.exp(x)
            return dout * (e * (x + e + 1) / (e + 1) ** 2)
    s = sigmoid(x)
    return (dout * (s + x * s * (1 - s))).astype(x.dtype)


def top_k_router(x, weight, k, normalize=True, slip=""):
    """The k best experts, whose probabilities weigh them."""
    z = x @ weight.T
    p = softmax(z)
    experts = np.argsort(-p, -1, kind="stable")[..., :k]
    chosen = np.take_along_axis(z if slip == "scores of one" and not normalize else p, experts, -1)
    if normalize and slip == "sum of all tokens" and k == 1:
        chosen = chosen / chosen.sum()
    elif normalize:
        chosen = chosen / chosen.sum(-1, keepdims=True)
    return experts, chosen, p


def huber(pred, target, delta=1.0, reduction="mean", slip=""):
    """A parabola, and its tangents beyond delta."""
    d = np.abs(pred - target)
    inner, outer = d**2 / 2, delta * (d - delta / 2)
    if slip == "divided":
        inner = inner / (1 + d**2)
    if slip == "delta whole":
        outer = delta * (d - delta)
    if slip == "tangents of 1":
        outer = d - 0.5
    return reduced(np.where(d < delta, inner, outer), reduction)


def clip_by_norm(grads, max_norm, slip=""):
    """All gradients by one factor."""
    squares = [(g**2).sum() for g in grads]
    if slip == "squared again":
        squares = [s**2 for s in squares]
    total = sum(squares) if slip == "no root" else np.sqrt(sum(squares))
    return tuple(g * min(1.0, max_norm / total) for g in grads)


def of_steps():
    def case(shape, rate, eps, step):
        of = (step, R.normal(size=shape), R.uniform(0.5, 2, shape), None) if step else None
        return (R.normal(size=shape), R.normal(size=shape), of), {"learning_rate": rate, "eps": eps}

    return cases(case((4, 3), 0.1, 1e-2, 3), case((3, 5), 0.05, 1e-3, 6), case((2, 7), 0.2, 0.1, 0))


def turns():
    def case(T, size, dim):
        angles = positions.rope_angles(np.arange(T), positions.rope_frequencies(dim))
        options = {"rotary_dim": dim, "interleaved": False}
        return (R.normal(size=(2, T, size)), np.cos(angles), np.sin(angles)), options

    return cases(case(5, 16, 8), case(7, 12, 4), case(4, 24, 12))


def windows(*some):
    return cases(*(((*R.normal(size=(3, 2, T, 4)),), {"window": w}) for T, w in some))


def of_router(*options):
    return cases(*(((R.normal(size=(5, 4)), R.normal(size=(6, 4))), o) for o in options))


def distances(*deltas):
    return cases(*(((3 * R.normal(size=(4, 5)), R.normal(size=(4, 5))),
                    {"delta": d, "reduction": "none"}) for d in deltas))  # fmt: skip


def smoothed():
    def case(n, share):
        target = R.integers(0, 5, n)
        target[1::3] = -100
        return (R.normal(size=(n, 5)), target), {"label_smoothing": share, "ignore_index": -100}

    return cases(case(6, 0.1), case(8, 0.3), case(11, 0.2))


def gradients_of(*norms):
    return cases(*((((R.normal(size=(3, 4)), R.normal(size=5)), n), {}) for n in norms))


WIDE = cases(*(((np.linspace(-30, top, 7, dtype="f"),), {}) for top in (95, 120, 200)))
SDPA, ROUTER, CE = att.scaled_dot_product_attention, transformer.top_k_router, losses.cross_entropy
UNHEARD = [
    Wrong("kozistr/AdaBound-tensorflow#3", training.adam_step, "forward", adam_step,
        "one minus the correction", "The square root is taken of beta2^t, not of 1 - beta2^t.",
        (r"1 - |correction|b2|beta",), of_steps()),
    Wrong("karpathy/nanochat#304", training.adam_step, "forward", adam_step, "eps of another size",
        "eps is added before the correction of the bias.", (r"eps",), of_steps()),
    Wrong("apple/coreai-models#66", positions.apply_rope, "forward", apply_rope,
        "pairs of the whole head", "Pairs are half a head apart instead of rotary_dim / 2.",
        (r"pair|half|rotary_dim|partial",), turns()),
    Wrong("zml/zml#763", SDPA, "forward", attention, "one key more",
        "The window has a key more on the left.", (r"window|left|off by one|one (more|key)",),
        windows((8, (2, 0)), (9, (3, 1)), (7, (1, 0)))),
    Wrong("huggingface/transformers#47010", SDPA, "forward", attention, "one key less",
        "The window has a key less on the right.", (r"window|right|off by one|one (less|key)",),
        windows((8, (2, 2)), (9, (3, 1)), (7, (1, 3)))),
    Wrong("pytorch/pytorch#73205", CE, "forward", cross_entropy, "ignored rows are smoothed",
        "The uniform part counts ignored rows.", (r"ignore",), smoothed()),
    Wrong("deeplearning4j/libnd4j#519", act.silu, "vjp", silu_backward, "one fraction",
        "The exponential overflows.", (r"overflow",), WIDE),
    Wrong("sgl-project/sglang#35160", ROUTER, "forward", top_k_router, "scores of one",
        "Weights that are not normalized are logits.", (r"logits|\bz\b|softmax|scores?\b",),
        of_router({"k": 2, "normalize": False}, {"k": 3, "normalize": False}, {"k": 2})),
    Wrong("databricks/megablocks#87", ROUTER, "forward", top_k_router, "sum of all tokens",
        "One expert's weight is divided by the sum over tokens.", (r"axis|token|row|batch|sum",),
        of_router({"k": 1}, {"k": 1}, {"k": 2})),
    Wrong("unibas-gravis/scalismo#260", losses.huber, "forward", huber, "divided",
        "The parabola is divided by 1 + d^2.", (r"1 \+ d|d\*\*2|parabola|inner",),
        distances(1.0, 0.5, 2.0)),
    Wrong("h2oai/h2o-3#6015", losses.huber, "forward", huber, "delta whole",
        "The tangents begin at delta, not at half of it.", (r"delta|2 stands|half|0\.5",),
        distances(1.0, 0.5, 2.0)),
    Wrong("pytorch/pytorch#17447", losses.huber, "forward", huber, "tangents of 1",
        "Outside the parabola, delta is taken to be 1.", (r"delta|\b1\b|smooth",),
        distances(1.5, 0.5, 2.0)),
    Wrong("paiml/entrenar#311", training.clip_by_norm, "forward", clip_by_norm, "squared again",
        "The sum of squares of each gradient is squared.", (r"square|\*\*|norm",),
        gradients_of(0.5, 1.0, 2.0)),
    Wrong("paiml/entrenar#311", training.clip_by_norm, "forward", clip_by_norm, "no root",
        "The square of the norm stands for the norm.", (r"root|sqrt|square",),
        gradients_of(0.5, 1.0, 2.0)),
]  # fmt: skip
