"""Mistakes of public reports that were looked up after the set unsought: layers."""

import math

import numpy as np

from dlref import activations, calculus, losses, neurons, propagation, training
from dlref import normalization as norm

from .kernels import Wrong, cases, gradients, softmax

R = np.random.default_rng(151)


def cosine_schedule(step, peak, steps, warmup=0, floor=0.0, slip=""):
    """A linear warm-up, whose peak is handed to a cosine."""
    length, epoch = steps - warmup, step - warmup
    wave = (1 + np.cos(math.pi * np.minimum(epoch, length) / length)) / 2
    if slip == "a step back at the handoff":
        wave = np.where(epoch == 0, 2 / (1 + math.cos(math.pi / length)), wave)
    return np.where(epoch < 0, peak * step / max(warmup, 1), floor + (peak - floor) * wave)


def cross_entropy(logits, target, label_smoothing=0.0, slip=""):
    """The likelihood of the label, and a share of the sum of all log-probabilities."""
    n = logits.shape[-1]
    logs = np.log(softmax(logits))
    each, own = label_smoothing / n, 1 - label_smoothing
    if slip == "shared by the others":
        each = label_smoothing / (n - 1)
    if slip:
        own = own - each
    likelihood = np.take_along_axis(logs, target[:, None], -1)[:, 0]
    return -(own * likelihood + each * logs.sum(-1)).mean()


def group_norm_backward(dout, x, groups, weight, bias, eps=1e-5, slip=""):
    """Each row has groups of its own, whose means and deviations were kept."""
    n, width = x.shape
    parts = x.reshape(n, groups, -1)
    mean, rstd = parts.mean(-1, keepdims=True), 1 / np.sqrt(parts.var(-1, keepdims=True) + eps)
    if slip == "one group":
        groups, mean, rstd = 1, mean[:, :1], rstd[:, :1]
    x_hat = (x.reshape(n, groups, -1) - mean) * rstd
    wdy = (weight * dout).reshape(n, groups, -1)
    c1, c2 = (wdy * x_hat).mean(-1, keepdims=True), wdy.mean(-1, keepdims=True)
    dx = (wdy - x_hat * c1 - c2) * rstd
    dweight = (dout * x_hat.reshape(n, width)).sum(0)
    return gradients(dx.reshape(n, width), dweight, dout.sum(0) if bias is not None else None)


def group_norm(x, groups, eps=1e-5, slip=""):
    """The samples lie one after the other, each with a row of all groups for a position."""
    n, positions, channels = x.shape
    width = channels // groups
    stride = positions * (width if slip == "span of a group" else channels)
    flat, y = x.ravel(), np.empty_like(x)
    for b in range(n):
        sample = flat[b * stride :][: positions * channels].reshape(positions, groups, width)
        mean, var = sample.mean((0, 2), keepdims=True), sample.var((0, 2), keepdims=True)
        y[b] = ((sample - mean) / np.sqrt(var + eps)).reshape(positions, channels)
    return y


def prelu_backward(dout, x, slope, slip=""):
    """The gradients of the input, and of the slope where the input is negative."""
    out = np.where(x > 0, x, slope * x)
    dx = np.where(x > 0, dout, slope * dout)
    off = out > 0 if slip == "sign of the output" else x > 0
    return gradients(dx, np.where(off, 0, dout * x).sum(tuple(range(x.ndim - 1))))


def adam_step(params, grads, state, learning_rate, betas=(0.9, 0.999), eps=1e-8, slip=""):
    """A step of Adam, the decay rates of whose moments are given."""
    step, m, v = (0, 0.0, 0.0) if state is None else state[:3]
    d1, d2 = (1 - b for b in betas) if slip == "shares of the new" else betas
    t = step + 1
    m, v = d1 * m + (1 - d1) * grads, d2 * v + (1 - d2) * grads**2
    alpha = learning_rate / (1 - d1**t)
    update = alpha * m / (np.sqrt(v / (1 - d2**t)) + eps)
    return params - update, (t, m, v, None)


def adafactor_step(params, grads, state, learning_rate, slip=""):
    """Adafactor for a matrix: one factor for the rows, another for the columns."""
    step, row, column, _ = (0, 0.0, 0.0, None) if state is None else state
    one_minus_beta2 = (step + 1) ** -0.8
    square = grads**2
    row = row + one_minus_beta2 * (square.mean(1, keepdims=True) - row)
    column = column + one_minus_beta2 * (square.mean(0, keepdims=True) - column)
    tall = len(params) > params.shape[1]
    mean = column if tall and slip == "mean of one axis" else column.mean()
    update = grads / np.sqrt(row) / np.sqrt(column / mean)
    update = update / max(1, math.sqrt((update**2).mean()))
    rate = min(learning_rate, (step + 1) ** -0.5) * max(math.sqrt((params**2).mean()), 1e-3)
    return params - rate * update, (step + 1, row, column, None)


def embedding_backward(dout, table, ids, padding_id=None, slip=""):
    """Token by token, the gradients are added to the rows that were looked up."""
    padding = 0 if slip == "0 is padding" else padding_id
    grad = np.zeros_like(table)
    for token, row in zip(ids.ravel(), dout.reshape(-1, table.shape[1]), strict=True):
        if token != padding or slip == "padding counts":
            grad[token] += row
    return grad


def inverse_backward(dout, a, slip=""):
    """Minus the cotangent between two transposes of the inverse."""
    inverse = np.linalg.inv(a)
    axes = (-2, -1) if slip == "axes of NumPy" else (-1, -2)
    return -(inverse.transpose(axes) @ (dout @ inverse.transpose(axes)))


def inverse_backward_by_factors(dout, a, slip=""):
    """Back through two triangular solves, and then through the factors L and U."""
    n = len(a)
    lower, upper = np.eye(n), a.copy()
    for k in range(n):
        lower[k + 1 :, k] = upper[k + 1 :, k] / upper[k, k]
        upper[k + 1 :] -= np.outer(lower[k + 1 :, k], upper[k])
    half, full = np.linalg.inv(lower), np.linalg.inv(a)
    dhalf = np.linalg.solve(upper.T, dout)
    dupper, dlower = -dhalf @ full.T, -np.linalg.solve(lower.T, dhalf) @ half.T
    if slip != "not masked":
        dupper, dlower = np.triu(dupper), np.tril(dlower, -1)
    both = dupper + dlower
    middle = np.tril(lower.T @ np.tril(both, -1), -1) + np.triu(np.triu(both) @ upper.T)
    return np.linalg.solve(lower.T, middle) @ np.linalg.inv(upper).T


def lecun_normal(rng, shape, slip=""):
    """Normal weights with the standard deviation scale / sqrt(n_in)."""
    fan_in = math.prod(shape[1:])
    scale = 1 / fan_in if slip == "scale divided, too" else 1.0
    return rng.normal(0, scale * math.sqrt(1 / fan_in), shape)


def of_steps():
    def case(steps, warmup, peak):
        step = np.arange(0.0, steps + 2)
        return (step,), {"steps": steps, "warmup": warmup, "peak": peak}

    return cases(case(13, 3, 1.0), case(12, 4, 0.3), case(17, 6, 2.0))


def smoothed(*some):
    return cases(*(((R.normal(size=(n, c)), R.integers(0, c, n)), {"label_smoothing": eps})
                   for n, c, eps in some))  # fmt: skip


def features():
    def case(n, groups, width):
        x, (weight, bias) = R.normal(size=(n, width * groups)), R.normal(size=(2, width * groups))
        return (x + R.normal(size=x.shape[1]), groups, weight, bias), {}

    return cases(case(4, 2, 3), case(3, 4, 5), case(5, 3, 2))


def samples():
    def case(n, positions, groups, width):
        return (R.normal(1, 1, (n, positions, groups * width)), groups), {}

    return cases(case(2, 5, 2, 3), case(3, 4, 3, 2), case(4, 7, 5, 2))


def slopes():
    def case(*shape):
        slope = R.uniform(0.2, 0.8, shape[-1])
        slope[::2] *= -1
        return (R.normal(size=shape), slope), {}

    return cases(case(5, 4), case(3, 2, 6), case(7, 3))


def of_adam():
    def case(shape, number, betas, rate=0.1):
        p, g, mean = R.normal(size=(3, *shape))
        state = training.AdamState(number, mean, R.uniform(0.1, 2, shape), None)
        return (p, g, state if number else None), {"learning_rate": rate, "betas": betas}

    return cases(
        case((3, 4), 1, (0.9, 0.999)), case((6,), 4, (0.8, 0.95)), case((2, 5), 7, (0.9, 0.99))
    )


def of_matrices():
    def case(n, m, number):
        p, g = R.normal(size=(2, n, m))
        row, column = R.uniform(0.3, 2, (n, 1)), R.uniform(0.3, 2, (1, m))
        column *= row.mean() / column.mean()
        state = training.AdafactorState(number, row, column, None) if number else None
        return (p, g, state), {"learning_rate": 0.1}

    return cases(case(6, 4, 0), case(7, 3, 2), case(4, 5, 3))


def texts(*some):
    def case(rows, width, shape, padding):
        ids = R.integers(0, rows, shape)
        ids.flat[:2] = 0 if padding is None else padding
        return (R.normal(size=(rows, width)), ids), {"padding_id": padding}

    return cases(*(case(*one) for one in some))


def dominant():
    def case(n):
        a = R.normal(size=(n, n)) + 3 * n * np.diag(R.uniform(0.5, 1, n))
        return (n * n * R.normal(size=(n, n)), a), {}

    return cases(case(3), case(4), case(6))


def of_shapes(*shapes):
    return cases(*(((np.random.default_rng(7), shape), {}) for shape in shapes))


CE = losses.cross_entropy
EMBEDDING = neurons.embedding
UNASKED = [
    Wrong("deepseek-ai/DeepSpec#32", training.cosine_schedule, "forward", cosine_schedule,
        "a step back at the handoff",
        "Where the warm-up ends, the rate is the peak times 2 / (1 + cos(pi / steps)).",
        (r"(at|end of|is|==) (the )?warm-?up|first (step|value)|t == |done.*\b0\b|cos\(pi /",),
        of_steps()),
    Wrong("eladhoffer/utils.pytorch#14", CE, "forward", cross_entropy, "less the share, too",
        "The class of the label keeps 1 - eps - eps / C, in place of 1 - eps.",
        (r"1 - label_smoothing|smoothing.*twice|kept|keeps|one.?hot|smoothing / classes|\bt\b",),
        smoothed((5, 4, 0.1), (6, 3, 0.2), (4, 7, 0.3))),
    Wrong("mindspore-ai/mindspore#73", CE, "forward", cross_entropy, "shared by the others",
        "The other classes have eps / (C - 1) each, and the class of the label none of it.",
        (r"(classes|\bC|\bn) - 1|classes less 1|other classes|all but|label_smoothing / \(",),
        smoothed((6, 3, 0.1), (5, 4, 0.2), (7, 6, 0.3))),
    Wrong("state-spaces/mamba#547", norm.group_norm, "vjp", group_norm_backward, "one group",
        "In the backward pass all channels are one group.",
        (r"\bgroups?\b|layer norm|(all|over) channels",), features()),
    Wrong("tenstorrent/tt-metal#57223", norm.group_norm, "forward", group_norm,
        "span of a group",
        "Samples after the first are read too early: the stride is one group.",
        (r"\b(samples?|images?|batch)\b|stride|offset|early|shift|rolled|axis 0|begins?",),
        samples()),
    Wrong("PaddlePaddle/Paddle#12538", activations.prelu, "vjp", prelu_backward,
        "sign of the output",
        "The gradient of the slope asks for the sign of the output, not of the input.",
        (r"sign of the output|\by\b|slope \* x|negative slope|slope.*negative|slope (<|>) 0",),
        slopes()),
    Wrong("mila-iqia/blocks#1159", training.adam_step, "forward", adam_step, "shares of the new",
        "The betas weigh the new gradient and square, not the old moments.",
        (r"1 - (betas?|b)_?[12\[]?|betas?.*(exchang|swap|revers|1 less|less)|by 1 less",),
        of_adam()),
    Wrong("huggingface/pytorch-image-models#2749", training.adafactor_step, "forward",
        adafactor_step, "mean of one axis",
        "For tall matrices the factor of the columns is missing.",
        (r"\bc\b|columns?\b|mean of r\b|mean\(r|\bis r\b|tall|axis=?-2",),
        of_matrices()),
    Wrong("pytorch/pytorch#26302", EMBEDDING, "vjp", embedding_backward, "padding counts",
        "The row of the padding has a gradient, too.", (r"padding",),
        texts((6, 4, (3, 5), 2), (5, 3, (8,), 0), (7, 2, (4, 3), 5))),
    Wrong("ibalazevic/TuckER#17", EMBEDDING, "vjp", embedding_backward, "0 is padding",
        "The first row has no gradient, as if 0 were padding.",
        (r"padding|(row|id|token|index|number|table\[?) ?0|first (row|token|id|entry)",),
        texts((6, 4, (3, 5), None), (5, 3, (8,), None), (7, 2, (4, 3), None))),
    Wrong("ekzhang/jax-js#84", calculus.inverse_vjp, "forward", inverse_backward_by_factors,
        "not masked",
        "The gradients of both triangular factors are not cut to their triangles.",
        (r"tri[ul]\b|triang|mask|factor|\bLU\b|\bL\b|\bU\b|diagonal",), dominant()),
    Wrong("pytorch/pytorch.github.io#2135", calculus.inverse_vjp, "forward", inverse_backward,
        "axes of NumPy", "The inverse is not transposed on either side.",
        (r"transpos|\.m?T\b",), dominant()),
    Wrong("zishansami102/CNN-from-Scratch#8", propagation.lecun_normal, "forward", lecun_normal,
        "scale divided, too", "The deviation is n_in ** (-3/2): 1 / n_in is a factor of the root.",
        (r"\bn_in\b|fans?\b|\*\* ?(-?1\.5|3)|cube",),
        of_shapes((4, 6), (7, 3), (5, 3, 2))),
]  # fmt: skip
