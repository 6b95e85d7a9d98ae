"""Mistakes of public reports that were looked up after those of newest.py had been tried."""

import numpy as np

from dlref import attention as att
from dlref import losses, recurrent, training
from dlref import normalization as norm
from dlref.formulas.training import tree_map

from .kernels import Wrong, cases, refuse, softmax
from .november import reduced
from .recurrences import lstm_cell

R = np.random.default_rng(75)


def absolute_error(pred, target, reduction="mean", slip=""):
    """Distances of numbers."""
    e = pred - target
    return reduced(e if slip == "no absolute value" else np.abs(e), reduction).astype(pred.dtype)


def batch_norm(x, weight=None, bias=None, eps=1e-5, slip=""):
    """Channels by their statistics in a batch."""
    axes = tuple(range(x.ndim - 1))
    var = x.var(axes) + x.dtype.type(eps)
    y = (x - x.mean(axes)) / (var**2 if slip == "square for the root" else np.sqrt(var))
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).astype(x.dtype)


def batch_norm_inference(x, mean, var, weight=None, bias=None, eps=1e-5, slip=""):
    """Channels by statistics that are given."""
    if slip == "own statistics":
        axes = tuple(range(x.ndim - 1))
        mean, var = x.mean(axes), x.var(axes)
    root = var + eps if slip == "no root" else np.sqrt(var + eps)
    y = (x - mean) / root.astype(x.dtype)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).astype(x.dtype)


def nesterov_step(params, grads, state, learning_rate, momentum=0.9, weight_decay=0.0, slip=""):
    """A step along the gradient and the new velocity."""
    step, old = (0, tree_map(np.zeros_like, params)) if state is None else state
    grads = tree_map(lambda p, g: g + weight_decay * p, params, grads)
    velocity = tree_map(lambda g, v: momentum * v + g, grads, old)
    ahead = tree_map(lambda g, v: g + momentum * v, grads, velocity)
    new = tree_map(
        lambda p, d: np.asarray(p - learning_rate * d, np.asarray(p).dtype), params, ahead
    )
    return new, (step + 1, ahead if slip == "direction kept" else velocity)


def momentum_step(params, grads, state, learning_rate, momentum=0.9, weight_decay=0.0, slip=""):
    """A heavy ball."""
    step, old = (0, tree_map(np.zeros_like, params)) if state is None else state
    if slip != "no decay without momentum" or momentum > 0:
        grads = tree_map(lambda p, g: g + weight_decay * p, params, grads)
    velocity = tree_map(lambda g, v: momentum * v + g, grads, old)
    new = tree_map(
        lambda p, v: np.asarray(p - learning_rate * v, np.asarray(p).dtype), params, velocity
    )
    return new, (step + 1, velocity)


def attention(q, k, v, is_causal=False, slip=""):
    """Queries that share the keys of their group."""
    if q.ndim < 3 or q.shape[:-3] != k.shape[:-3]:
        refuse("one head")
    count = q.shape[-3] // k.shape[-3]
    if slip == "heads in turn":
        k, v = (np.concatenate([a] * count, -3) for a in (k, v))
    else:
        k, v = (np.repeat(a, count, -3) for a in (k, v))
    s = (q @ np.swapaxes(k, -1, -2)) * q.dtype.type(q.shape[-1] ** -0.5)
    if is_causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    return (softmax(s) @ v).astype(q.dtype)


def of_step(op, **options):
    """Return the first and the second step of an optimizer."""
    p, g = R.normal(size=(2, 3, 5)), R.normal(size=(2, 3, 5))
    _, state = op(p[0], g[0], None, **options)
    return cases(((p[0], g[0], None), options), ((p[1], g[1], state), options))


def of_groups():
    """Return queries of several heads for each head of keys."""

    def case(heads, groups, T):
        return tuple(R.normal(size=(2, n, T, 4)) for n in (heads, groups, groups)), {}

    return cases(case(4, 2, 5), case(6, 3, 4), case(6, 2, 7))


NESTEROV, CELL = training.nesterov_step, recurrent.lstm_cell
GROUPED = of_groups()
LATEST = [
    Wrong("mlpack/mlpack#2444", losses.absolute_error, "forward", absolute_error,
        "no absolute value", "The absolute value is missing.", (r"abs",)),
    Wrong("nicodjimenez/lstm#47", CELL, "forward", lstm_cell, "no tanh",
        "The cell has no tanh.", (r"tanh",)),
    Wrong("ARM-software/CMSIS-NN#181", CELL, "forward", lstm_cell, "forget gate of the input",
        "The forget gate stands for the input gate.",
        (r"\b(z_)?f stands where (z_)?i|f \* g|forget",)),
    Wrong("tensorflow/tensorflow#46522", norm.batch_norm_inference, "forward",
        batch_norm_inference, "no root", "The root is missing.", (r"sqrt|root",)),
    Wrong("jax-ml/jax#442", norm.batch_norm, "forward", batch_norm, "square for the root",
        "The square stands for the root.", (r"square|\*\* 2",)),
    Wrong("ooples/AiDotNet.Tensors#27", norm.batch_norm_inference, "forward",
        batch_norm_inference, "own statistics",
        "The statistics are those of the batch, not those that are given.",
        (r"batch|own|statistics|mean\(x|var\(x",)),
    Wrong("patrikeh/go-deep#17", NESTEROV, "forward", nesterov_step, "direction kept",
        "The direction is kept in place of the velocity.",
        (r"direction|ahead|velocity|\bv\b|twice|again",),
        of_step(NESTEROV, learning_rate=0.1)),
    Wrong("ml-explore/mlx#440", training.momentum_step, "forward", momentum_step,
        "no decay without momentum", "Without momentum the decay is ignored.", (r"weight_decay",),
        of_step(training.momentum_step, learning_rate=0.1, momentum=0.0, weight_decay=0.2)),
    Wrong("onnx/onnx#7274", att.scaled_dot_product_attention, "forward", attention,
        "heads in turn", "Heads of keys are tiled, not repeated one by one.",
        (r"tile|repeat|group|in turn|order",), GROUPED),
]  # fmt: skip
