"""Normalizations: epsilon, variance and axes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import tree_leaves
from ..calls import ReferenceCall
from .common import Trials, chapter, replaced

if TYPE_CHECKING:
    from ...._core.arguments import FloatArray


def reduced(call: ReferenceCall) -> tuple[tuple[int, ...], int]:
    """Return the axes of mean and variance, without a group's, and the count of numbers."""
    shape = np.shape(call.inputs[0])
    n = chapter("normalization")
    first = {n.batch_norm: 0, n.instance_norm: 1, n.group_norm: 1}.get(call.core)
    axes = (len(shape) - 1,) if first is None else tuple(range(first, len(shape) - 1))
    grouped = shape[-1] // call.inputs[1] if call.core is n.group_norm else 1
    return axes, grouped * math.prod(shape[a] for a in axes)


def _scaled(call: ReferenceCall, y: FloatArray) -> FloatArray:
    names, inputs = call.names, call.inputs
    for key in ("weight", "bias"):
        if key in names and (a := inputs[names.index(key)]) is not None:
            y = y * (a + call.settings.get("weight_offset", 0)) if key == "weight" else y + a
    return y


def divided_by_less(call: ReferenceCall) -> Trials:
    _, n = reduced(call)
    if call.form == "jvp" or n < 2:
        return
    c = math.sqrt((n - 1) / n)
    smaller = call.with_options(eps=call.settings["eps"] * (n - 1) / n)
    place = call.names.index("weight") if "weight" in call.names else 0
    weight = call.inputs[place] if place else None
    message = "the variance is divided by n - 1, not n"
    if weight is None:
        yield message, [c * part for part in tree_leaves(smaller.run())]
        return
    trial = replaced(smaller, place, weight * c)
    if call.form == "vjp":
        dx, dw, *db = tree_leaves(trial.run())
        yield message, [dx, dw * c, *db]
    else:
        yield message, trial


def _mean(call: ReferenceCall, axes: tuple[int, ...]) -> Any:
    """Return the number that is subtracted: the mean, or 0 for a root mean square."""
    if call.core is chapter("normalization").rms_norm:
        return 0.0
    return np.asarray(call.inputs[0]).mean(axes, keepdims=True)


def _moments(call: ReferenceCall) -> tuple[tuple[int, ...], Any, Any]:
    """Return the axes of the statistics, the input less its mean, and its variance."""
    axes, _ = reduced(call)
    centered = np.asarray(call.inputs[0]) - _mean(call, axes)
    return axes, centered, (centered**2).mean(axes, keepdims=True)


def other_forms(call: ReferenceCall) -> Trials:
    """Yield another place of epsilon, another mean, or no root."""
    if call.form != "forward":
        return
    axes, centered, var = _moments(call)
    eps, x, (_, n) = call.settings["eps"], np.asarray(call.inputs[0]), reduced(call)
    with np.errstate(all="ignore"):
        outside = {e: centered / (np.sqrt(var) + e) for e in dict.fromkeys((eps, 1e-5, 1e-6, 1e-8))}
        rms = x / np.sqrt((x * x).mean(axes, keepdims=True) + eps)
        squared = centered / (var + eps)
        norm = centered / np.sqrt(var * n + eps)
    for e, y in outside.items():
        message = "eps is added outside the root" + ("" if e == eps else f", and is {e}, not {eps}")
        yield message, [_scaled(call, y)]
    yield "the mean is not subtracted", [_scaled(call, rms)]
    yield "only subtracted before the variance", [_scaled(call, x / np.sqrt(var + eps))]
    yield "it divides by the variance, not by its root", [_scaled(call, squared)]
    yield "the squares are summed, where their mean is due", [_scaled(call, norm)]


def least_variance(call: ReferenceCall) -> Trials:
    """Yield max(variance, eps) in place of their sum, where that is not the variance alone."""
    if call.form != "forward":
        return
    (_, centered, var), eps = _moments(call), call.settings["eps"]
    if (var < eps).any():
        y = centered / np.sqrt(np.maximum(var, eps))
        yield "eps is the least variance, max(var, eps), and not added to it", [_scaled(call, y)]


def joined_rows(call: ReferenceCall) -> Trials:
    place = 1 if call.form == "vjp" else 0
    if call.form == "jvp" or np.ndim(call.inputs[0]) < 3:
        return
    shape = np.shape(call.inputs[0])
    rows = shape[0], math.prod(shape[1:])
    heads = [np.reshape(a, rows) for a in call.arguments[: place + 1]]
    times = rows[1] // shape[-1]
    rest = [a if a is None else np.tile(a, times) for a in call.arguments[place + 1 :]]
    out, *grads = tree_leaves(replace(call, arguments=(*heads, *rest)).run())
    sums = [np.reshape(g, (times, -1)).sum(0) for g in grads]
    yield "rows are joined: it is over all axes but the first", [np.reshape(out, shape), *sums]


#: Lengths of tiles of rows.
TILES = (64, 128, 256, 512, 1024)


def without_tail(call: ReferenceCall) -> Trials:
    """Yield statistics without the numbers of a row beyond a multiple of a tile."""
    x, eps = np.asarray(call.inputs[0]), call.settings["eps"]
    n = x.shape[-1]
    if call.form != "forward":
        return
    mean = _mean(call, (x.ndim - 1,))
    for rest, tile in {n % tile: tile for tile in TILES if 0 < n % tile < n}.items():
        some = x[..., : n - rest]
        own = 0.0 if np.ndim(mean) == 0 else some.mean(-1, keepdims=True)
        square = ((some - mean) ** 2).sum(-1, keepdims=True)
        message = (
            f"the last numbers of a row, {rest} beyond a multiple of {tile}, are left out of its"
        )
        for what, center, var in (
            ("variance", mean, square / n),
            ("variance, and not counted", mean, square / (n - rest)),
            ("mean and variance", own, ((some - own) ** 2).mean(-1, keepdims=True)),
        ):
            yield f"{message} {what}", [_scaled(call, (x - center) / np.sqrt(var + eps))]


def along_one_axis(call: ReferenceCall) -> Trials:
    """Yield a batch norm over rows, a layer norm over columns."""
    if call.form != "forward":
        return
    x, eps = np.asarray(call.inputs[0]), call.settings["eps"]
    for axis in range(x.ndim):
        centered = x - x.mean(axis, keepdims=True)
        y = centered / np.sqrt((centered**2).mean(axis, keepdims=True) + eps)
        yield f"mean and variance are taken along axis {axis} alone", [_scaled(call, y)]


def weighted_gradients(call: ReferenceCall) -> Trials:
    """Yield gradients with a weight, or a standard deviation, too many or too few."""
    if call.form != "vjp" or len(call.inputs) < 2 or call.inputs[1] is None:
        return
    axes, centered, var = _moments(call)
    dout, x = (np.asarray(a) for a in call.arguments[:2])
    s = 1 / np.sqrt(var + call.settings["eps"])
    dx, dw, *db = tree_leaves(call.run())
    weight = np.asarray(call.inputs[1]) + call.settings.get("weight_offset", 0)
    y, g = centered * s, dout * weight

    def row(a: Any) -> Any:
        return a.mean(axes, keepdims=True)

    def summed(a: Any) -> Any:
        return a.reshape(-1, a.shape[-1]).sum(0)

    through = 0.0 if np.ndim(_mean(call, axes)) == 0 else row(g)
    for message, other in (
        ("lacks the weight", through + y * row(dout * y)),
        ("lacks the factor 1 / variance", through + centered * row(g * centered)),
        ("lacks one factor 1 / standard deviation", through + y * row(g * centered)),
    ):
        yield f"the gradient through the variance {message}", [s * (g - other), dw, *db]
    if np.ndim(through):
        other = s * (g - row(dout) - y * row(g * y))
        yield "the gradient through the mean lacks the weight", [other, dw, *db]
    yield "the gradient is divided by the standard deviation twice", [s * dx, dw, *db]
    yield "the gradient of the weight has x where the normalized x is due", [
        dx, summed(dout * x), *db,
    ]  # fmt: skip
    yield "the gradient of the weight is multiplied by the weight", [dx, summed(g * y), *db]
    if db:
        yield "the gradient of the bias is multiplied by the weight", [dx, dw, summed(g)]


def constant_statistics(call: ReferenceCall) -> Trials:
    """Yield the gradient of a normalization whose mean and variance count as constants."""
    if call.form != "vjp":
        return
    axes, centered, var = _moments(call)
    dout, x = (np.asarray(a) for a in call.arguments[:2])
    s = 1 / np.sqrt(var + call.settings["eps"])
    rest = tree_leaves(call.run())[1:]
    g = _scaled(call.with_inputs(x, *call.inputs[1:2]), dout) if len(call.inputs) > 1 else dout
    yield "mean and variance are taken as constants in the gradient", [g * s, *rest]
    y = centered * s
    through = g - (0.0 if np.ndim(_mean(call, axes)) == 0 else g.mean(axes, keepdims=True))
    message = "a sum over the row stands for its mean in the gradient through the variance"
    yield message, [s * (through - y * (g * y).sum(axes, keepdims=True)), *rest]
    if call.core is not chapter("normalization").rms_norm:
        no_var = s * (g - g.mean(axes, keepdims=True))
        no_mean = s * (g - y * (g * y).mean(axes, keepdims=True))
        yield "the gradient through the variance is missing", [no_var, *rest]
        yield "the gradient through the mean is missing", [no_mean, *rest]


def running_variance(call: ReferenceCall) -> Trials:
    """Yield running statistics of the biased variance, and outputs divided by the unbiased one."""
    x, var = call.inputs[0], call.inputs[2]
    n, momentum = x.size // x.shape[-1], call.settings["momentum"]
    y, mean, new = call.run()
    kept = (1 - momentum) * var
    message = "the running variance is the biased one, divided by n, not n - 1"
    yield message, [y, mean, kept + (new - kept) * (n - 1) / n]
    unbiased = ReferenceCall(
        chapter("normalization").batch_norm, "forward", (x, *call.inputs[3:]), {}
    )
    for _, smaller in divided_by_less(unbiased):
        out = smaller if isinstance(smaller, list) else [smaller.run()]
        yield "the output is divided by the root of the unbiased variance", [*out, mean, new]
