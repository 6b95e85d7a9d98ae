"""Normalizations: epsilon, variance and axes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import tree_leaves
from ..calls import ReferenceCall
from .common import Trials, chapter

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


def other_eps(call: ReferenceCall) -> Trials:
    """Yield an epsilon that is outside of the root, and another one, or added to torch.std."""
    if call.form == "forward":
        _, centered, var = _moments(call)
        (_, n), own = reduced(call), call.settings["eps"]
        unbiased = np.sqrt(var * n / max(n - 1, 1))
        for eps in dict.fromkeys((own, 1e-5, 1e-6, 1e-8)):
            other = "" if eps == own else f", and is {eps}, not {own}"
            outside = f"eps is added outside the root{other}"
            if other:
                yield outside, [_scaled(call, centered / (np.sqrt(var) + eps))]
            message = f"the variance is divided by n - 1, not n, and {outside}"
            yield message, [_scaled(call, centered / (unbiased + eps))]


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


def weighted_gradients(call: ReferenceCall) -> Trials:
    """Yield gradients without a factor 1 / variance, and of a bias with a weight too many."""
    if call.form != "vjp" or len(call.inputs) < 2 or call.inputs[1] is None:
        return
    axes, centered, var = _moments(call)
    s = 1 / np.sqrt(var + call.settings["eps"])
    _, *rest = tree_leaves(call.run())
    weight = np.asarray(call.inputs[1]) + call.settings.get("weight_offset", 0)
    g = np.asarray(call.arguments[0]) * weight
    through = 0.0 if np.ndim(_mean(call, axes)) == 0 else g.mean(axes, keepdims=True)
    other = through + centered * (g * centered).mean(axes, keepdims=True)
    yield (
        "the gradient through the variance lacks the factor 1 / variance",
        [s * (g - other), *rest],
    )
    if rest[1:]:
        message = "the gradient of the bias is multiplied by the weight"
        yield message, [*tree_leaves(call.run())[:2], g.reshape(-1, g.shape[-1]).sum(0)]


def constant_statistics(call: ReferenceCall) -> Trials:
    """Yield the gradient of a normalization whose mean or variance counts as a constant."""
    if call.form != "vjp":
        return
    axes, _, var = _moments(call)
    dout, x = (np.asarray(a) for a in call.arguments[:2])
    s = 1 / np.sqrt(var + call.settings["eps"])
    rest = tree_leaves(call.run())[1:]
    g = _scaled(call.with_inputs(x, *call.inputs[1:2]), dout) if len(call.inputs) > 1 else dout
    yield "mean and variance are taken as constants in the gradient", [g * s, *rest]
    if call.core is not chapter("normalization").rms_norm:
        no_var = s * (g - g.mean(axes, keepdims=True))
        yield "the gradient through the variance is missing", [no_var, *rest]
