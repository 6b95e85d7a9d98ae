"""
The cause that all cases of a report have: the changed program that a candidate is.

It leads to every output of the candidate in every case in which that is off, and to the right ones
where it is right. No draw of numbers agrees with a wrong program by chance twice. Where no program
leads to all outputs, each may have one of its own: a backward pass has a formula for each.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import is_float
from ..bounds import in_dtype
from ..formulas import spellings
from .common import OutOfTimeError, time_limit
from .evidence import Evidence, is_near
from .heuristics import MIN_SAMPLES, stagnates
from .mutations import formula_of, outputs_of
from .pairs import Pairs
from .programs import (
    Program,
    programs,
    programs_at_one_call,
    programs_with_factors,
    programs_with_terms,
    programs_with_two_changes,
    rarer_programs,
    usual_programs,
)
from .readings import composed_programs, other_maps, part_readings, readings, scaled_programs
from .slopes import along_directions, slope_searches
from .values import other_constants, other_factors, other_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Programs that are tried, at most, and numbers of the case that they are tried on first.
MAX_PROGRAMS, MAX_TERMS, MAX_FACTORS, MAX_NUMBERS = 4000, 2000, 500, 2**13
MAX_AT_ONE_CALL = 1000
#: And on a few numbers.
MAX_USUAL = 500
#: The largest relative error in float32 with which a program still counts, and the multiple of that
#: error granted to a candidate, which may run its operations in another order.
MAX_ERROR, TIMES = 0.01, 8
#: Seconds of computing after which a search ends: one program of a whole block may take one.
MAX_SECONDS = 120.0
#: How many programs are named, at most, if no case tells them apart; with more, none is.
MAX_TIES = 3
#: What changed formulas call, and what that stands for.
MEANINGS = {
    "last_block(": "the last block alone is added up",
    "first_block(": "the first block alone is added up",
    "whole_blocks(": "nothing beyond the last whole block is added up",
    "sum_of_rows(": "all rows of a block are added up as one",
    "mean_of_rows(": "all rows of a block are averaged as one",
    "with_zeros(": "zeros that pad the rows are counted",
    "at_indices(": "the selected entries alone are read, the others count as 0",
    "beyond_indices(": "the selected entries count as 0",
    "mean_by_less(": "the sum is divided by n - 1, not n",
    "padded(": "the size is a padded one",
}


def common_program(cases: Sequence[Evidence]) -> str:
    """Return the program that a candidate is, from its outputs in all cases; empty if none."""
    with contextlib.suppress(OutOfTimeError), time_limit(MAX_SECONDS):
        return _common_program(cases)
    return ""


def _common_program(cases: Sequence[Evidence]) -> str:
    cases = [e for e in cases if e.confirms or not e.off]
    first = _first([e for e in cases if e.off and e.speaks])
    if first is None:
        return ""
    search = _Search(first, cases)
    if sum(bool(e.off) for e in cases) < 2 and first.wrong < 2 * MIN_SAMPLES:
        return search.among(_of_few_numbers(first))
    if message := search.among(_searches(first)):
        return message
    slopes = {e: along_directions(e) for e in cases}
    if (start := slopes[first]) is not None:
        search.cases = _ordered(start, [e for e in slopes.values() if e is not None])
        if message := search.among(slope_searches(first, start)):
            return message
        search.cases = _ordered(first, cases)
    return search.by_output() or search.in_part() or search.of_two_changes()


def _ordered(first: Evidence, cases: Sequence[Evidence]) -> list[Evidence]:
    """Return the first case, the others that are off, and the right ones."""
    return [first, *sorted((e for e in cases if e is not first), key=lambda e: not e.off)]


class _Search:
    """The programs that lead to the outputs of a candidate, all of them or one, in all cases."""

    def __init__(self, first: Evidence, cases: Sequence[Evidence]) -> None:
        self.cases, self.names = _ordered(first, cases), first.names
        self.off = frozenset[int]().union(*(e.off for e in cases))
        self.by_number: dict[int, _Matches] = {i: _Matches() for i in sorted(self.off)}
        given = [{*e.call.non_default_options} for e in cases if e.off]
        self.options = set.intersection(*given)  # wherever an output is off
        # programs that lead to the numbers that are off, and not to the others
        off = [e for e in self.cases if e.off]
        self.partly = off if len(off) > 1 and all(e.is_partly_off for e in off) else []
        self.partial = _Matches()
        self.pairs = Pairs(first)

    def among(self, searches: Iterable[tuple[Iterable[Program], Any]]) -> str:
        """Return the first programs of some searches that are the candidate; empty if none."""
        each = {i: [e.only({i}) for e in self.cases] for i in self.off}
        rest = [e.only(e.bounds.keys() - self.off) for e in self.cases]
        for every, own in searches:
            matches = _Matches()
            unexplained = [i for i, other in self.by_number.items() if not other.programs]
            for program in every:
                outputs, is_right = self.explained(program, own, each, rest)
                if outputs.keys() == self.off and is_right:
                    where = max((where for where, _ in outputs.values()), key=len)
                    matches.add(program.message + where, [arrays for _, arrays in outputs.values()])
                for i in outputs.keys() & unexplained if program.is_term else ():
                    where, values = outputs[i]
                    self.by_number[i].add(program.message + where, [values])
                if matches.is_too_many:
                    return ""
            if matches.programs:
                return matches.message
        return ""

    def explained(
        self, program: Program, own: Any, each: dict[int, list[Evidence]], rest: list[Evidence]
    ) -> tuple[dict[int, tuple[str, list[Any]]], bool]:
        """
        Return the outputs that a program explains in all cases, and whether the others are right.

        Each has the condition on which it does so, and its values. A kernel may have a branch of
        its own for an option: right cases without that option do not refute a program.
        """
        matching: dict[int, list[Any]] = {i: [] for i in self.off}
        options = dict.fromkeys(self.off, self.options)
        count, is_right = 0, True
        for place, e in enumerate(self.cases):
            if (right := own(e)) is None:  # the formula does not take this case
                continue
            count += bool(e.off)
            if (values := _outputs(program, e)) is None:
                return {}, False
            if not place:
                self.pairs.add(program, values)
                self.try_in_part(program, values)
            for i in [*matching]:
                alone = each[i][place]
                if alone.agrees(values, right, explains=not place) or (
                    place and _up_to_own_errors(program, alone, values)
                ):
                    matching[i].append(values[i] if i < len(values) else None)
                    continue
                matching[i].append(None)  # the program does not stand here
                options[i] = options[i] - e.call.non_default_options.keys()
                if e.off or not options[i]:
                    del matching[i]
            if not matching:
                return {}, False
            is_right = is_right and rest[place].agrees(values, right)
        if not self.is_told(program):
            return {}, False
        if count < min(2, sum(bool(e.off) for e in self.cases)):  # no second case confirms it
            return {}, False
        return {i: (self.condition(options[i]), values) for i, values in matching.items()}, is_right

    def is_told(self, program: Program) -> bool:
        """Return whether some case that is off tells a program from those with other numbers."""
        return program.tells is None or any(program.tells(e) for e in self.cases if e.off)

    def try_in_part(self, program: Program, first: list[Any]) -> None:
        """Keep a program that leads to all numbers that are off, in two cases at least."""
        if not self.partly or not self.cases[0].agrees_where_off(first):
            return
        every = [first, *(_outputs(program, e) for e in self.partly[1:])]
        numbers = []
        for e, values in zip(self.partly, every, strict=True):
            if values is None or not e.agrees_where_off(values):
                return
            numbers.append([np.asarray(values[i], np.float64)[off] for i, off, _ in e.places])
        self.partial.add(program.message, numbers)

    def in_part(self) -> str:
        """Return the program that stands for the formula in some places alone; empty if none."""
        if not self.partial.programs or self.partial.is_too_many:
            return ""
        return f"{self.partial.message}, in some places alone{_where(self.partly)}"

    def of_two_changes(self) -> str:
        """Return the two changes that explain the cases together; empty if there are none."""
        right = [e for e in self.cases if not e.off]
        if any(self.options - e.call.non_default_options.keys() for e in right):
            return ""  # with the same option in all cases that are off, numbers agree by chance
        formula = formula_of(self.pairs.e.call)
        own = functools.cache(functools.partial(_unchanged_outputs, formula))
        return self.among([(self.pairs.found(own(self.pairs.e)), own)])

    def condition(self, options: set[str]) -> str:
        """Return where a program stands for the formula: where an option is given, if any."""
        return "" if options is self.options else f", where {min(options)} is given"

    def by_output(self) -> str:
        """Return the program of each output; empty if one has none, or too few numbers."""
        by_text: dict[str, list[str]] = {}
        for i, matches in self.by_number.items():
            wrong = sum(e.only({i}).wrong for e in self.cases)
            if not matches.programs or matches.is_too_many or wrong < 2 * MIN_SAMPLES:
                return ""
            by_text.setdefault(matches.message, []).append(self.names[i])
        return "; and ".join(
            f"in {' and '.join(names)} alone, {text}" for text, names in by_text.items()
        )


class _Matches:
    """Programs that differ in some case, up to one more than are named."""

    def __init__(self) -> None:
        self.programs: list[tuple[str, list[Any]]] = []

    def add(self, message: str, outputs: list[Any]) -> None:
        """Add a program, unless another one has the same outputs."""
        if not self.is_too_many and not any(
            _equivalent(outputs, other) for _, other in self.programs
        ):
            self.programs.append((message, outputs))

    @property
    def is_too_many(self) -> bool:
        """Return whether there are more programs than are named."""
        return len(self.programs) > MAX_TIES

    @property
    def message(self) -> str:
        """Return the changes, and the meaning of a function that they call."""
        text = " or: ".join(message for message, _ in self.programs)
        return text + next((f" ({why})" for name, why in MEANINGS.items() if name in text), "")


def _where(cases: list[Evidence]) -> str:
    """Return which input tells the places that are off from the others; empty if none does."""
    form, names = cases[0].call.form, cases[0].call.names
    for k, name in enumerate(names, form == "vjp"):
        sides = [side for e in cases if (side := _side(e, k)) is not None]
        if len(sides) == len(cases) and len({way for way, *_ in sides}) == 1:
            way = sides[0][0]
            is_sign = all(low <= 0 <= high for _, low, high in sides)
            what = {"large": "above 0", "small": "below 0"}[way] if is_sign else way
            return f": where {name} is {what}"
    return ""


def _side(e: Evidence, k: int) -> tuple[str, float, float] | None:
    """Return on which side of two numbers an input is where a case is off; None if on neither."""
    a = np.asarray(e.call.arguments[k]) if is_float(e.call.arguments[k]) else np.zeros(0)
    ((_, off, _), *more) = e.places
    if more or a.shape != off.shape:
        return None
    inside, outside = a[off], a[~off]
    if inside.min() > outside.max():
        return "large", float(outside.max()), float(inside.min())
    if inside.max() < outside.min():
        return "small", float(inside.max()), float(outside.min())
    return None


def _outputs(program: Program, e: Evidence) -> list[Any] | None:
    """Return the outputs of a program in a case; None if it lacks some."""
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        outputs: list[Any] | None = program.run(e.call)
    return outputs if outputs is not None and len(outputs) >= len(e.want) else None


def _up_to_own_errors(program: Program, e: Evidence, values: list[Any]) -> bool:
    """
    Return whether a program explains float32 outputs within its own rounding errors in float32.

    A wrong program may cancel where the right one does not, as the square of a distance does beside
    a large one. Then it says little about this case, and the others have to confirm it.
    """
    if not e.off or any(pair.dtype != np.float32 for pair in e.pairs):
        return False
    narrow = _outputs(program, replace(e, call=in_dtype(np.float32, e.call)))
    return narrow is not None and all(
        _is_within_errors(pair.got, values[pair.number], narrow[pair.number]) for pair in e.pairs
    )


def _is_within_errors(got: Any, exact: Any, narrow: Any) -> bool:
    if any(a is None or np.shape(a) != np.shape(got) for a in (exact, narrow)):
        return False
    error, size = np.max(np.abs(narrow - exact)), np.max(np.abs(exact))
    return bool(error <= MAX_ERROR * size and np.all(np.abs(got - exact) <= TIMES * error))


def _of_few_numbers(first: Evidence) -> Iterator[tuple[Iterable[Program], Any]]:
    """Yield the usual programs alone: among thousands, one would explain few numbers by chance."""
    formula = formula_of(first.call)
    short = any(pair.dtype.itemsize < 4 or stagnates(pair) for pair in first.pairs)
    if formula is not None and not short:
        usual = itertools.islice(usual_programs(formula, first.call), MAX_USUAL)
        own = functools.partial(_unchanged_outputs, formula)
        yield itertools.chain(composed_programs(first.call), usual), own


def _searches(first: Evidence) -> Iterator[tuple[Iterable[Program], Any]]:
    """Yield programs, and a function that returns the right outputs of a case, by search."""
    call = first.call
    if (formula := formula_of(call)) is None:
        return
    others = [f for f in dict.fromkeys(spellings(call)) if f is not formula]
    own = {f: functools.cache(functools.partial(_unchanged_outputs, f)) for f in (formula, *others)}
    yield itertools.chain(readings(call), scaled_programs(call)), own[formula]
    known = dict(zip(own, (None, *own), strict=False))  # another spelling, changed before
    for f, outputs in own.items():
        yield itertools.islice(programs(f, call, known=known[f]), MAX_PROGRAMS), outputs
    yield other_values(formula, first), own[formula]
    for f in others:
        yield other_constants(f, first), own[f]
    if any(np.asarray(w).dtype.kind == "b" for w in first.want):
        return  # a few conditions agree with many programs
    for f, outputs in own.items():
        some = rarer_programs(f, call, known=known[f])
        yield itertools.islice(some, MAX_PROGRAMS), outputs
    rest = part_readings(call), other_maps(call), other_factors(formula, first)
    yield itertools.chain(*rest), own[formula]
    yield itertools.islice(programs_with_terms(formula, call), MAX_TERMS), own[formula]
    yield itertools.islice(programs_with_factors(formula, call), MAX_FACTORS), own[formula]
    at_one_call = programs_at_one_call(formula, call)
    yield itertools.islice(at_one_call, MAX_AT_ONE_CALL), own[formula]
    for f, outputs in own.items():
        yield programs_with_two_changes(f, call), outputs


def _unchanged_outputs(formula: Any, evidence: Evidence) -> list[Any] | None:
    """Return the outputs of the unchanged formula, if they are the right ones."""
    with np.errstate(all="ignore"):
        outputs = outputs_of(formula, evidence.call)
    if outputs is None or len(outputs) < len(evidence.want):
        return None
    near = all(is_near(outputs[i], evidence.want[i], bound) for i, bound in evidence.bounds.items())
    return outputs if near else None


def _equivalent(left: list[Any], right: list[Any]) -> bool:
    """Return whether two programs are one in all cases, but for the rounding of float64."""
    return all(
        (a is None) == (b is None) and (a is None or is_near(a, b, 0.0))
        for some, other in zip(left, right, strict=True)
        for a, b in zip(some, other, strict=True)
    )


def _first(off: list[Evidence]) -> Evidence | None:
    """Return the smallest case in which enough numbers are off."""
    small = [e for e in off if e.size <= MAX_NUMBERS]
    telling = [e for e in small if e.wrong >= MIN_SAMPLES] or small
    return min(telling, key=lambda e: (len(e.call.non_default_options), e.size), default=None)
