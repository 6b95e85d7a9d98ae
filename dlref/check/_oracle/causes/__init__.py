"""
The explanations of a difference.

A *mistake* changes the reference: it yields words and another call (or other outputs), and explains
a difference if the candidate agrees with that. A *sign* is read off the two arrays. Mistakes
and signs of a map stand in its record (`dlref.check._known`) and are tried for that map alone; the
others stand here, in the order in which they are tried, special ones before general ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import flat
from ..calls import Call
from . import derivatives, inputs, options
from .signs import (
    FEW,
    LAST,
    SIGNS,
    Pair,
    agrees,
    not_summed,
    overflown,
    transposed,
    without_inputs,
)
from .slips import slips

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Whether an error inside a mistake ends the verdict: in tests alone, where it is a bug.
RAISE = False
#: What is said of an option with another value.
VALUE = re.compile(r"(?P<key>\w+) is (?P<value>.+), not (?P<due>.+)")


def _trials(call: Call) -> Iterator[tuple[str, list[Any]]]:
    """Yield the results of the mistakes; the function may refuse other inputs and options."""
    for mistake in (
        *call.known.mistakes,
        options.other_options,
        *call.known.later,
        derivatives.wrong_derivative,
        inputs.as_contiguous,
        inputs.other_inputs,
    ):
        trials = mistake(call)
        while True:
            try:
                words, trial = next(trials)
            except StopIteration:
                break
            except Exception:
                if RAISE:
                    raise
                break
            try:
                run = trial.run() if isinstance(trial, Call) else tuple(trial)
            except (TypeError, ValueError):
                continue
            yield words, flat(run)


@np.errstate(all="ignore")  # infinities are expected in scores that are masked
def cause_of(call: Call, number: int, got: Any, want: list[Any], bound: Any, dtype: Any) -> str:
    """Return the explanation of the difference of one output, empty if none is known."""
    exact = np.asarray(want[number], np.float64)
    if got is None:
        return "the gradient of one operand is missing" if call.form == "vjp" else ""
    if got.dtype.kind not in "fiub" and got.dtype.name != "bfloat16":
        return ""
    if got.dtype.kind == "b":
        return "it is inverted" if np.array_equal(got, np.asarray(want[number]) == 0) else ""
    pair = Pair(call, number, got.astype(np.float64), exact, bound, np.dtype(dtype))
    if pair.got.shape != exact.shape:
        words = next(filter(None, (sign(pair) for sign in (transposed, not_summed))), "")
        return words or _mistaken(pair) or _another(pair, want)
    if pair.dtype != got.dtype or not exact.size:
        return ""
    return _explained(pair) or _another(pair, want)


def _another(pair: Pair, want: list[Any]) -> str:
    for i, other in enumerate(want):
        if i == pair.number or other is None or not np.any(other):
            continue
        if agrees(pair.got, other, pair):
            return f"it equals output {i}: the outputs are in another order"
    return ""


def _explained(pair: Pair) -> str:
    known = pair.call.known
    first = without_inputs, *known.signs
    signs = overflown, *SIGNS, *known.last_signs, slipped, *LAST
    return (
        next(filter(None, (sign(pair) for sign in first)), "")
        or _mistaken(pair)
        or next(filter(None, (sign(pair) for sign in signs)), "")
    )


def _mistaken(pair: Pair) -> str:
    """Return the mistake that leads to an output; all values of an option that do."""
    trials = _trials(pair.call)
    said = next((words for words, other in trials if _leads_to(pair, other)), "")
    if not (one := VALUE.fullmatch(said)) or one["key"] not in pair.call.settings:
        return said
    found = [one["value"]]
    for words, other in trials:
        alike = VALUE.fullmatch(words)
        if alike and alike["key"] == one["key"] and _leads_to(pair, other):
            found.append(alike["value"])
    return f"{one['key']} is {' or '.join(found)}, not {one['due']}"


def _leads_to(pair: Pair, other: list[Any]) -> bool:
    return pair.number < len(other) and agrees(pair.got, np.asarray(other[pair.number]), pair)


def slipped(pair: Pair) -> str:
    """Find a slip in the plain formula; one of so many explains a few numbers by chance."""
    if pair.want.size < FEW:
        return ""
    return next((words for words, other in slips(pair.call) if _leads_to(pair, other)), "")
