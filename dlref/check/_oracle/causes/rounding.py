"""Rounding to integers with a scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...._core.pytree import tree_leaves
from ..calls import ReferenceCall
from .common import Trials


def other_roundings(call: ReferenceCall) -> Trials:
    """Yield other ties and ranges, and gradients that do not stop at the ends of the range."""
    x, scale, *rest = call.inputs
    given = rest[0] if rest else call.settings.get("zero_point", 0)  # by its name, too
    point = np.asarray(given, np.float64)
    half = 2.0 ** (call.settings["bits"] - 1)
    t = x / scale
    if call.form == "forward":
        for message, rounded in (
            ("halves are rounded away from zero", np.copysign(np.floor(abs(t) + 0.5), t)),
            ("halves are rounded up", np.floor(t + 0.5)),
            ("it is truncated, not rounded", np.trunc(t)),
            ("it is the floor, not rounded", np.floor(t)),
        ):
            q = np.clip(rounded + point, -half, half - 1)
            yield message, [(q - point) * scale]
        q = np.rint(t) + point
        for message, (low, high) in (
            ("the lowest integer is left out: the range is symmetric", (1 - half, half - 1)),
            ("the integers have no sign", (0, 2 * half - 1)),
            ("nothing is clipped", (-math.inf, math.inf)),
        ):
            yield message, [(np.clip(q, low, high) - point) * scale]
        yield "the integers are returned, without the scale", [np.clip(q, -half, half - 1)]
    if call.form == "vjp":
        yield from _other_gradients(call, t, np.rint(t) + point, point, half)


def _other_gradients(call: ReferenceCall, t: Any, q: Any, point: Any, half: float) -> Trials:
    u, scale = np.asarray(call.arguments[0]), call.inputs[1]
    dx, dscale = tree_leaves(call.run())
    message = "the gradient does not stop at the ends of the range"
    yield message, [u, dscale]
    inside = (-half <= q) & (q <= half - 1)
    bound = np.clip(q, -half, half - 1) - point
    between = (-half <= t + point) & (t + point <= half - 1)
    message = "the ends of the range are those before rounding"
    yield message, [np.where(between, u, 0.0), dscale]
    for message, slope in (
        ("the scale has the slope of a factor alone, without the quotient", bound),
        ("the scale has no gradient beyond the range", np.where(inside, bound - t, 0.0)),
    ):
        yield message, [dx, _summed(u * slope, scale.shape)]
    share = dx.size // max(1, dscale.size)
    message = "the gradient of the scale has the factor 1 / sqrt(N Q) of LSQ"
    yield message, [dx, dscale / math.sqrt(max(1.0, share * (half - 1)))]


def _summed(terms: Any, shape: tuple[int, ...]) -> Any:
    """Add up to a shape that broadcasts to the terms."""
    lead = terms.ndim - len(shape)
    axes = tuple(k for k in range(terms.ndim) if k < lead or shape[k - lead] == 1)
    return terms.sum(axis=axes).reshape(shape)
