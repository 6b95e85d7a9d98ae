"""Random weights, drawn from the same generator, of another size or with other signs."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from ..calls import Call
from .common import Trials


def _fans(call: Call) -> tuple[int, int, int]:
    """Return fan_in, fan_out, and how many weights join one input to one output."""
    n_out, n_in, *kernel = call.inputs[1]
    field = math.prod(kernel)
    return n_in * field, n_out * field, field


def _variance(call: Call) -> float:
    n_in, n_out, _ = _fans(call)
    if (slope := call.settings.get("negative_slope")) is not None:  # they are for a leaky ReLU
        return float(2 / ((1 + slope**2) * n_in))
    if (gain := call.settings.get("gain")) is not None:
        return float(2 * gain**2 / (n_in + n_out))
    return 1 / n_in


def _with_variances(call: Call, variances: list[tuple[str, float]]) -> Trials:
    """Yield weights of other variances, the mistakes that lead to the same one in one sentence."""
    right = _variance(call)
    if not right > 0:
        return
    alike: dict[str, tuple[float, list[str]]] = {}
    for why, variance in variances:
        factor = math.sqrt(variance / right)
        if factor and not math.isclose(factor, 1):
            alike.setdefault(f"{factor:.9g}", (factor, []))[1].append(why)
    for factor, words in alike.values():
        yield ", or ".join(words), [factor * np.asarray(call.run())]


def variances(call: Call) -> Trials:
    """Yield weights whose variance is computed from another fan, or for another activation."""
    n_in, n_out, field = _fans(call)
    right, slope = _variance(call), call.settings.get("negative_slope")
    mean = (n_in + n_out) / 2
    if call.settings.get("gain") is None:
        found = [
            ("fan_out stands where fan_in is due", right * n_in / n_out),
            ("the mean of fan_in and fan_out stands where fan_in is due", right * n_in / mean),
        ]
    else:
        found = [
            ("fan_in stands where the mean of fan_in and fan_out is due", right * mean / n_in),
            ("fan_out stands where the mean of fan_in and fan_out is due", right * mean / n_out),
            ("the sum of fan_in and fan_out stands where their mean is due", right / 2),
        ]
    found += [
        ("the size of the kernel is not counted in the fans", right * field),
        ("the variance stands where the standard deviation is due", right**2),
    ]
    if slope is not None:
        found += [
            ("the factor 2 of the ReLU is missing", right / 2),
            ("the slope is not squared", right * (1 + slope**2) / (1 + slope)),
        ]
    yield from _with_variances(call, found)


def bounds(call: Call) -> Trials:
    words = "the standard deviation stands where the bound is due, which is sqrt(3) times as large"
    yield words, [np.asarray(call.run()) / math.sqrt(3)]
    bound = math.sqrt(3 * _variance(call))
    words = "the interval begins at 0, not at the negative bound"
    yield words, [(np.asarray(call.run()) + bound) / 2]


def signs_of_columns(call: Call) -> Trials:
    """Yield an orthogonal matrix as a QR factorization returns it."""
    rng, shape = call.inputs
    n_in, _, _ = _fans(call)
    sides = max(shape[0], n_in), min(shape[0], n_in)
    q: Any = np.linalg.qr(copy.deepcopy(rng).normal(size=sides))[0]
    gain = call.settings["gain"]
    words = "the signs of R's diagonal are not multiplied onto the columns of Q"
    yield words, [(gain * (q if shape[0] >= n_in else q.T)).reshape(shape)]
