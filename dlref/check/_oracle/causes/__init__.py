"""
The known explanations of a difference.

`HYPOTHESES` is the table of those that change the reference: each yields words and another call (or
other outputs), and explains a difference if the candidate agrees with that. `SIGNS` is the table
of those that are read off the two arrays. To add one, write a small function into the module of
its kind and put it into its table; the first that fits is named, so that what is special stands
before what is general.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import flat
from ..calls import Call
from . import attention, derivatives, inputs, normalization, options, recurrent, training
from .signs import LAST, SIGNS, Pair, agrees, not_summed, overflown, transposed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .common import Trial

HYPOTHESES: tuple[Callable[[Call], Iterator[Trial]], ...] = (
    attention.scales,
    attention.masks,
    attention.masked_rows,
    attention.soft_caps,
    attention.soft_masks,
    attention.scaled_with_scores,
    attention.heads_reshaped,
    attention.over_queries,
    attention.heads_tiled,
    attention.gradients,
    recurrent.gate_order,
    recurrent.update_gate,
    recurrent.forget_bias,
    options.other_meanings,
    options.other_options,
    inputs.other_positions,
    inputs.rotation_signs,
    inputs.base_two,
    training.uphill,
    inputs.channels_first,
    training.applied_twice,
    training.adam,
    options.by_a_sigmoid,
    normalization.other_variance,
    normalization.constant_statistics,
    derivatives.without_a_term,
    derivatives.wrong_derivative,
    training.other_losses,
    inputs.other_inputs,
    normalization.other_statistics,
)


def _trials(call: Call) -> Iterator[tuple[str, list[Any]]]:
    other = contextlib.suppress(TypeError, ValueError, IndexError)  # it is of other inputs
    for hypothesis in HYPOTHESES:
        with other:
            for words, trial in hypothesis(call):
                with other:
                    run = trial.run() if isinstance(trial, Call) else tuple(trial)
                    yield words, flat(run)


@np.errstate(all="ignore")  # infinities are expected in scores that are masked
def cause_of(call: Call, number: int, got: Any, want: list[Any], bound: Any, dtype: Any) -> str:
    """Return what explains the difference of one output, empty if nothing known does."""
    exact = np.asarray(want[number], np.float64)
    if got is None:
        return "the gradient of one operand is missing" if call.form == "vjp" else ""
    if got.dtype.kind not in "fiub" and got.dtype.name != "bfloat16":
        return ""
    pair = Pair(call, number, got.astype(np.float64), exact, bound, np.dtype(dtype))
    if pair.got.shape != exact.shape:
        words = next(filter(None, (sign(pair) for sign in (transposed, not_summed))), "")
        return words or _another(pair, want)
    if pair.dtype != got.dtype or not exact.size:
        return ""
    return overflown(pair) or _explained(pair) or _another(pair, want)


def _another(pair: Pair, want: list[Any]) -> str:
    for i, other in enumerate(want):
        if i == pair.number or other is None or not np.any(other):
            continue
        if agrees(pair.got, other, pair):
            return f"it equals output {i}: the outputs are in another order"
    return ""


def _explained(pair: Pair) -> str:
    for words, other in _trials(pair.call):
        if pair.number < len(other) and agrees(pair.got, np.asarray(other[pair.number]), pair):
            return words
    return next(filter(None, (sign(pair) for sign in (*SIGNS, *LAST))), "")
