"""Random weights, drawn from the same generator, of another size."""

from __future__ import annotations

import math

import numpy as np

from ..calls import ReferenceCall
from .common import Trials


def _fans(call: ReferenceCall) -> tuple[int, int, int]:
    """Return fan_in, fan_out, and how many weights join one input to one output."""
    n_out, n_in, *kernel = call.inputs[1]
    field = math.prod(kernel)
    return n_in * field, n_out * field, field


def _variance(call: ReferenceCall) -> float:
    n_in, n_out, _ = _fans(call)
    if (slope := call.settings.get("negative_slope")) is not None:  # they are for a leaky ReLU
        return float(2 / ((1 + slope**2) * n_in))
    if (gain := call.settings.get("gain")) is not None:
        return float(2 * gain**2 / (n_in + n_out))
    return 1 / n_in


def _with_variances(call: ReferenceCall, variances: list[tuple[str, float]]) -> Trials:
    """Yield weights of other variances, the mistakes that lead to the same one in one sentence."""
    right = _variance(call)
    if not right > 0:
        return
    alike: dict[str, tuple[float, list[str]]] = {}
    for why, variance in variances:
        factor = math.sqrt(variance / right)
        if factor and not math.isclose(factor, 1):
            alike.setdefault(f"{factor:.9g}", (factor, []))[1].append(why)
    for factor, message in alike.values():
        yield ", or ".join(message), [factor * np.asarray(call.run())]


def variances(call: ReferenceCall) -> Trials:
    """Yield weights whose variance is computed from another fan, or for another activation."""
    n_in, n_out, field = _fans(call)
    right, slope = _variance(call), call.settings.get("negative_slope")
    mean = (n_in + n_out) / 2
    if call.settings.get("gain") is None:
        wrong = [
            ("fan_out stands where fan_in is due", right * n_in / n_out),
            ("the mean of fan_in and fan_out stands where fan_in is due", right * n_in / mean),
        ]
    else:
        wrong = [
            ("fan_in stands where the mean of fan_in and fan_out is due", right * mean / n_in),
            ("fan_out stands where the mean of fan_in and fan_out is due", right * mean / n_out),
            ("the sum of fan_in and fan_out stands where their mean is due", right / 2),
        ]
    wrong += [
        ("the size of the kernel is not counted in the fans", right * field),
        ("the variance stands where the standard deviation is due", right**2),
    ]
    if slope is not None:
        wrong += [
            ("the factor 2 of the ReLU is missing", right / 2),
            ("the slope is not squared", right * (1 + slope**2) / (1 + slope)),
        ]
    yield from _with_variances(call, wrong)


def bounds(call: ReferenceCall) -> Trials:
    message = (
        "the standard deviation stands where the bound is due, which is sqrt(3) times as large"
    )
    yield message, [np.asarray(call.run()) / math.sqrt(3)]
    bound = math.sqrt(3 * _variance(call))
    message = "the interval begins at 0, not at the negative bound"
    yield message, [(np.asarray(call.run()) + bound) / 2]
