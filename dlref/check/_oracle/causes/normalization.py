"""Normalizations: epsilon, variance and axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...._core.pytree import flat
from .common import NORMS, replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...._core.arguments import FloatArray
    from ..calls import Call
    from .common import Trial


def reduced(call: Call) -> tuple[tuple[int, ...], int]:
    """Return the axes of mean and variance, those of a group aside, and of how many numbers."""
    shape = np.shape(call.inputs[0])
    first = {"batch_norm": 0, "instance_norm": 1, "group_norm": 1}.get(call.name)
    axes = (len(shape) - 1,) if first is None else tuple(range(first, len(shape) - 1))
    grouped = shape[-1] // call.inputs[1] if call.name == "group_norm" else 1
    return axes, grouped * math.prod(shape[a] for a in axes)


def _scaled(call: Call, y: FloatArray) -> FloatArray:
    names, inputs = call.names, call.inputs
    for key in ("weight", "bias"):
        if key in names and (a := inputs[names.index(key)]) is not None:
            y = y * (a + call.settings.get("weight_offset", 0)) if key == "weight" else y + a
    return y


def other_variance(call: Call) -> Iterator[Trial]:
    """Yield another epsilon or variance of a normalization."""
    if call.name not in NORMS or call.form == "jvp":
        return
    axes, n = reduced(call)
    eps, x = call.settings["eps"], np.asarray(call.inputs[0])
    if n > 1 and call.name != "rms_norm":
        c = math.sqrt((n - 1) / n)
        smaller = call.with_options(eps=eps * (n - 1) / n)
        place = call.names.index("weight") if "weight" in call.names else 0
        weight = call.inputs[place] if place else None
        words = "the variance is divided by n - 1, not n"
        if weight is not None:
            trial = replaced(smaller, place, weight * c)
            if call.form == "vjp":
                dx, dw, *db = flat(trial.run())
                yield words, [dx, dw * c, *db]
            else:
                yield words, trial
        else:
            yield words, [c * part for part in flat(smaller.run())]
    if call.form != "forward" or call.name == "group_norm":
        return
    mean = 0.0 if call.name == "rms_norm" else x.mean(axes, keepdims=True)
    var = ((x - mean) ** 2).mean(axes, keepdims=True)
    with np.errstate(all="ignore"):
        outside = {
            e: (x - mean) / (np.sqrt(var) + e) for e in dict.fromkeys((eps, 1e-5, 1e-6, 1e-8))
        }
        rms = x / np.sqrt((x * x).mean(axes, keepdims=True) + eps)
        squared = (x - mean) / (var + eps)
        norm = (x - mean) / np.sqrt(var * n + eps)
    for e, y in outside.items():
        words = "eps is added outside the root" + ("" if e == eps else f", and is {e}, not {eps}")
        yield words, [_scaled(call, y)]
    yield "the mean is not subtracted", [_scaled(call, rms)]
    yield "only subtracted before the variance", [_scaled(call, x / np.sqrt(var + eps))]
    yield "it divides by the variance, not by its root", [_scaled(call, squared)]
    yield "the squares are summed, where their mean is due", [_scaled(call, norm)]


def other_statistics(call: Call) -> Iterator[Trial]:
    """Yield a batch norm over rows, a layer norm over columns."""
    if call.name not in ("layer_norm", "batch_norm") or call.form != "forward":
        return
    x, eps = np.asarray(call.inputs[0]), call.settings["eps"]
    for axis in range(x.ndim):
        centred = x - x.mean(axis, keepdims=True)
        y = centred / np.sqrt((centred**2).mean(axis, keepdims=True) + eps)
        yield f"mean and variance are taken along axis {axis} alone", [_scaled(call, y)]


def constant_statistics(call: Call) -> Iterator[Trial]:
    """Yield the gradient of a normalization whose mean and variance count as constants."""
    if call.name not in NORMS or call.name == "group_norm" or call.form != "vjp":
        return
    axes, _ = reduced(call)
    dout, x = (np.asarray(a) for a in call.arguments[:2])
    mean = 0.0 if call.name == "rms_norm" else x.mean(axes, keepdims=True)
    centred = x - mean
    s = 1 / np.sqrt((centred**2).mean(axes, keepdims=True) + call.settings["eps"])
    rest = flat(call.run())[1:]
    g = _scaled(call.with_inputs(x, *call.inputs[1:2]), dout) if len(call.inputs) > 1 else dout
    yield "mean and variance are taken as constants in the gradient", [g * s, *rest]
    if call.name != "rms_norm":
        no_var = s * (g - g.mean(axes, keepdims=True))
        y = centred * s
        no_mean = s * (g - y * (g * y).mean(axes, keepdims=True))
        yield "the gradient through the variance is missing", [no_var, *rest]
        yield "the gradient through the mean is missing", [no_mean, *rest]
