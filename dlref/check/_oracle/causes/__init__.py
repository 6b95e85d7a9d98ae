"""
The explanations of a difference.

A *mistake* changes the reference: it yields a message and another call (or other outputs), and
explains a difference if the candidate agrees with that. A *heuristic* looks at both arrays alone.
The mistakes and heuristics of a map stand in its explanation (`dlref.check._oracle.explanations`)
and are tried for that map alone; the others stand here, in the order in which they are tried,
special ones before general ones.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import is_float, tree_leaves
from ..calls import ReferenceCall
from . import derivatives, inputs, options
from .evidence import Evidence
from .heuristics import (
    GENERAL_HEURISTICS,
    NARROW_SUMS,
    NOISE,
    NOT_A_NUMBER,
    NOT_FINITE,
    Pair,
    agrees,
    narrow,
    not_summed,
    overflown,
    transposed,
    unchanged,
    undefined,
    without_inputs,
)
from .readings import with_reading, without_option
from .search import common_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


#: Whether an error inside a mistake or a heuristic is raised: in tests alone, where it is a bug.
RAISE = False
#: A message about an option that has another value.
NUMBER = r"(?:\([^()]+\)|[\w.+-]+)"
VALUE = re.compile(rf"(?P<key>\w+) is (?P<value>{NUMBER}), not (?P<due>{NUMBER})")
VALUES = re.compile(rf"(?P<key>\w+) is (?P<value>{NUMBER}(?: or {NUMBER})*), not (?P<due>{NUMBER})")
#: The end of a message about a number, which says the right one.
DUE = re.compile(rf", not {NUMBER}$")


def _outlived() -> Any:
    return contextlib.nullcontext() if RAISE else contextlib.suppress(Exception)


def _up_to_an_error(trials: Iterator[Any]) -> Iterator[Any]:
    with _outlived():
        yield from trials


def _first_match(heuristics: Iterable[Any], pair: Pair, refuted: frozenset[str]) -> str:
    """Return the message of the first heuristic that applies."""
    for heuristic in heuristics:
        with _outlived():
            if (message := heuristic(pair)) and message not in refuted:
                return str(message)
    return ""


def _trials(call: ReferenceCall) -> Iterator[tuple[str, list[Any]]]:
    """Yield the results of the mistakes; the function may refuse other inputs and options."""
    for mistake in (
        *call.explanation.mistakes,
        options.other_options,
        options.other_names,
        *call.explanation.later,
        derivatives.wrong_derivative,
        derivatives.other_douts,
        inputs.misread,
        inputs.other_inputs,
    ):
        for message, trial in _up_to_an_error(mistake(call)):
            with contextlib.suppress(TypeError, ValueError):
                is_call = isinstance(trial, ReferenceCall)
                yield message, tree_leaves(trial.run() if is_call else tuple(trial))


@np.errstate(all="ignore")  # infinities are expected in scores that are masked
def cause_of(
    call: ReferenceCall,
    number: int,
    got: Any,
    want: list[Any],
    bound: Any,
    dtype: Any,
    refuted: frozenset[str] = frozenset(),
) -> str:
    """
    Return the explanation of the difference of one output, empty if none is known.

    Explanations that other cases have refuted are passed over.
    """
    exact = np.asarray(want[number], np.float64)
    if got is None:
        return "the gradient of one operand is missing" if call.form == "vjp" else ""
    if got.dtype.kind not in "fiub" and got.dtype.name != "bfloat16":
        return ""
    if got.dtype.kind == "b":
        return _of_conditions(got, np.asarray(want[number]))
    # values of another dtype are explained as well, once they are rounded to the right one
    values = got.astype(dtype) if is_float(got) else got
    pair = Pair(call, number, values.astype(np.float64), exact, bound, np.dtype(dtype))
    if pair.got.shape != exact.shape:
        return (
            _first_match((transposed, not_summed), pair, refuted)
            or _mistaken([pair], refuted=refuted)
            or _another(pair, want)
        )
    if not exact.size or (pair.dtype != got.dtype and np.all(np.abs(pair.got - exact) <= bound)):
        return ""
    return _explained(pair, refuted) or _another(pair, want)


def _of_conditions(got: Any, want: Any) -> str:
    """Return the mistake that an array of True and False shows."""
    if np.array_equal(got, want == 0):
        return "it is inverted"
    is_one = got.size > 1 and (got.all() or not got.any())
    return f"it is {got.flat[0]} everywhere" if is_one else ""


def _another(pair: Pair, want: list[Any]) -> str:
    for i, other in enumerate(want):
        if i == pair.number or other is None or not np.any(other):
            continue
        if agrees(pair.got, other, pair):
            return f"it equals output {i}: the outputs are in another order"
    return ""


def common_cause(
    call: ReferenceCall, got: list[Any], want: list[Any], bounds: dict[int, Any]
) -> str:
    """Return the mistake that explains all outputs that are off, and leaves the others alone."""
    if not any(np.any(got[i]) for i in bounds if got[i] is not None):
        return ""  # each is zero
    pairs = []
    for i, bound in bounds.items():
        if got[i] is None or got[i].dtype.kind != "f" or np.shape(got[i]) != np.shape(want[i]):
            return ""
        exact = np.asarray(want[i], np.float64)
        pairs.append(Pair(call, i, got[i].astype(np.float64), exact, bound, got[i].dtype))
    others = {i: w for i, w in enumerate(want) if w is not None and i not in bounds}
    return _mistaken(pairs, others)


def _explained(pair: Pair, refuted: frozenset[str]) -> str:
    why = pair.call.explanation
    first = without_inputs, *why.heuristics
    last = overflown, *GENERAL_HEURISTICS, *why.last_heuristics, undefined, narrow
    return (
        _first_match(first, pair, refuted)
        or _mistaken([pair], refuted=refuted)
        or _first_match(last, pair, refuted)
    )


def _mistaken(
    pairs: list[Pair],
    others: dict[int, Any] | None = None,
    refuted: frozenset[str] = frozenset(),
) -> str:
    """Return the mistake that leads to outputs; all values of an option that do."""
    every = pairs[0].call.once(_trials)
    trials = iter((text, other) for text, other in every if text not in refuted)
    right = others or {}
    said = next((text for text, other in trials if _leads_to(pairs, other, right)), "")
    if not (match := VALUE.fullmatch(said)) or match["key"] not in pairs[0].call.settings:
        return said
    values = [match["value"]]
    for message, other in trials:
        alike = VALUE.fullmatch(message)
        if alike and alike["key"] == match["key"] and _leads_to(pairs, other, right):
            values.append(alike["value"])
    return f"{match['key']} is {' or '.join(values)}, not {match['due']}"


def _leads_to(pairs: list[Pair], other: list[Any], right: dict[int, Any]) -> bool:
    """Return whether a mistake has these outputs, and the right ones beside them."""
    return all(
        pair.number < len(other) and agrees(pair.got, np.asarray(other[pair.number]), pair)
        for pair in pairs
    ) and all(i < len(other) and _near(other[i], w) for i, w in right.items())


def _near(left: Any, right: Any) -> bool:
    size = np.max(np.abs(right), initial=0.0)
    return np.shape(left) == np.shape(right) and np.allclose(left, right, 0.0, 1e-3 * size)


#: The size of an axis, or of an array.
SIZE = re.compile(r" \(\d+\)|(?<=the size) \d+")
#: Observations of a result, which say little about the mistake that led to it.
SEEN = (
    *(NOISE, "elements are all zero", "it is the exact result", "it is zero", "it is one number"),
    *(NOT_A_NUMBER, NOT_FINITE, NARROW_SUMS),
)


#: The cause that a kernel does not read an option.
IGNORED = re.compile(r"the option '(\w+)' is ignored")
#: Observations that are only a number, which would be another one in other cases by chance.
MEASURED = re.compile(
    r"it is the exact result (times|plus) (-?[\d.]+(?:e[+-]?\d+)?)|it is zero.*|it is .+, unchanged"
)


def is_measured(cause: str) -> bool:
    """Return whether a cause only says that an output is off by a number, zero or an input."""
    return MEASURED.fullmatch(cause) is not None


def is_shown(cause: str, evidence: Evidence) -> bool:
    """Return whether some output of a case is what such a cause says of it."""
    if cause.endswith(", unchanged"):
        return any(unchanged(pair) == cause for pair in evidence.pairs)
    match = MEASURED.fullmatch(cause)
    if match is None or match[2] is None:
        return any(not np.any(pair.got) for pair in evidence.pairs)
    value = float(match[2])
    for pair in evidence.pairs:
        other = value * pair.want if match[1] == "times" else value + pair.want
        size = np.max(np.abs(other), where=np.isfinite(other), initial=0.0)
        if np.allclose(pair.got, other, 0.0, 1e-4 * size, equal_nan=True):
            return True
    return False


def is_settled(causes: set[str]) -> bool:
    """Return whether all outputs of all cases have one cause that is more than an observation."""
    if len({*in_common(causes).values()}) != 1 or not all(causes):
        return False
    return not any(words in c for c in causes for words in SEEN)


def in_common(causes: Iterable[str]) -> dict[str, str]:
    """Return each cause as it holds for all cases: with shared values, and no sizes that differ."""
    causes = [*causes]
    alike = {cause: _shared_reading(cause, causes) for cause in causes} | shared_values(causes)
    texts: dict[str, set[str]] = {}
    for text in alike.values():
        texts.setdefault(SIZE.sub("", text), set()).add(text)
    short = {text: key for key, some in texts.items() for text in some if len(some) > 1}
    return {cause: short.get(text, text) for cause, text in alike.items()}


def _shared_reading(cause: str, causes: list[str]) -> str:
    """Return the first of the readings of a cause, "a; or b", that is the cause of another case."""
    return next((text for text in cause.split("; or ") if text in causes), cause)


def next_cause(evidence: Evidence, refuted: frozenset[str]) -> str:
    """Return the next explanation of all outputs that are off in a case; empty if there is none."""
    causes = {
        cause_of(
            evidence.call, i, evidence.got[i], evidence.want, evidence.bounds[i],
            evidence.dtypes[i], refuted,
        )
        for i in evidence.off
    }  # fmt: skip
    return causes.pop() if len(causes) == 1 else ""


def cause_in_common(cases: Sequence[Evidence]) -> str:
    """Return the changed program that explains all cases; empty if there is none."""
    with _outlived():
        return common_program(cases)
    return ""


@np.errstate(all="ignore")
def is_refuted(cause: str, evidence: Evidence) -> bool:
    """Return whether a mistake leads to other outputs than a candidate's in a case of its own."""
    if not evidence.off and _has_other_value(cause, evidence.call):
        return False  # a kernel may have a default of its own, or mistake one name for another
    if not evidence.off and _heeds_ignored_option(cause, evidence):
        return True
    there = False
    for message, outputs in _trials(evidence.call):
        if same_cause(message, cause):
            if evidence.agrees(outputs, evidence.want, slack=4):
                return False
            there = True
    return there


def _heeds_ignored_option(cause: str, evidence: Evidence) -> bool:
    """Return whether a right case has an option that is said to be ignored, and depends on it."""
    call, match = evidence.call, IGNORED.fullmatch(cause)
    if match is None or match[1] not in call.non_default_options or match[1] not in call.defaults:
        return False
    outputs = with_reading(functools.partial(without_option, key=match[1]), call)
    return outputs is not None and not evidence.agrees(outputs, evidence.want, slack=4)


def _has_other_value(cause: str, call: ReferenceCall) -> bool:
    """Return whether a cause is about a value of an option which a call does not have."""
    match = VALUES.fullmatch(cause)
    return match is not None and str(call.settings.get(match["key"])) != match["due"]


def is_of_option(cause: str, evidence: Evidence) -> bool:
    """Return whether a cause is another value of an option that a case gives."""
    options = evidence.call.non_default_options
    return DUE.search(cause) is not None and any(re.search(rf"\b{key}\b", cause) for key in options)


def same_cause(left: str, right: str) -> bool:
    """Return whether two causes are one: for an option, whether they have a value in common."""
    a, b = VALUES.fullmatch(left), VALUES.fullmatch(right)
    if a and b:
        values = ({*match["value"].split(" or ")} for match in (a, b))
        return a["key"] == b["key"] and bool(set.intersection(*values))
    return _with_few_digits(left) == _with_few_digits(right)


def _with_few_digits(cause: str) -> str:
    """Return a cause without sizes and right values, whose measured numbers have three digits."""
    cause = DUE.sub("", SIZE.sub("", cause))
    return re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda number: f"{float(number[0]):.3g}", cause)


def shared_values(causes: Iterable[str]) -> dict[str, str]:
    """Return causes of an option whose values agree, each with the values that all of them have."""
    by_option: dict[tuple[str, str], dict[str, list[str]]] = {}
    for match in filter(None, map(VALUES.fullmatch, causes)):
        values = match["value"].split(" or ")
        by_option.setdefault((match["key"], match["due"]), {})[match[0]] = values
    alike: dict[str, str] = {}
    for (key, due), some in by_option.items():
        first = next(iter(some.values()))
        if shared := [value for value in first if all(value in each for each in some.values())]:
            alike |= dict.fromkeys(some, f"{key} is {' or '.join(shared)}, not {due}")
    return alike
