"""
Two changes at once, each of which explains part of the difference.

A formula has far too many pairs of changes to run them all. Where two are of different terms,
outputs or places, their differences add up; where they are factors, their quotients multiply. The
results of all programs with one change tell then which two lead to the candidate: these are run.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from ..stochastic_rounding import EPS
from .mutations import outputs_of
from .programs import Edit, Program, with_both
from .readings import change_of, with_reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .evidence import Evidence

#: Numbers of each output that are compared: some that are off, and some others.
MAX_OFF, MAX_RIGHT = 24, 8
#: Different numbers that are off, at least: fewer would agree with some pair by chance.
MIN_OFF = 8
#: Programs that are combined, and pairs that are run, at most.
MAX_PROGRAMS, MAX_PAIRS = 8000, 200
#: Programs that explain much, and others that are tried with each of them, at most.
MAX_FIRST, MAX_SECOND = 4, 400
#: How much farther from the candidate than the right result a number counts, at most.
MAX_GAP = 10.0
#: Numbers that are this much smaller than others of a result have no quotient.
SMALL = 1e-3


class Pairs:
    """The results of programs with one change in a case, and the pairs that explain it."""

    def __init__(self, e: Evidence) -> None:
        self.e, self.places = e, _sampled(e)
        self.programs: dict[bytes, tuple[Program, Any]] = {}

    def add(self, program: Program, outputs: list[Any]) -> None:
        """Keep a program that can be combined with others, if it is the first with its results."""
        if not self.places or len(self.programs) >= MAX_PROGRAMS:
            return
        if program.edit is None and change_of(program) is None:
            return
        if (numbers := self.numbers(outputs)) is not None:
            self.programs.setdefault(numbers.astype(np.float32).tobytes(), (program, numbers))

    def numbers(self, outputs: list[Any]) -> Any:
        """Return the numbers of results at the places that are compared; None if some are none."""
        some = []
        for i, where in self.places.items():
            a = outputs[i] if i < len(outputs) else None
            if a is None or np.shape(a) != np.shape(self.e.want[i]):
                return None
            some.append(np.asarray(a, np.float64).ravel()[where])
        numbers = np.concatenate(some)
        return numbers if np.isfinite(numbers).all() else None

    def found(self, right: list[Any] | None) -> Iterator[Program]:
        """Yield the pairs that lead to the numbers of the candidate, then others that might do."""
        if len(self.programs) < 2 or right is None:
            return
        due, got = self.numbers(right), self.numbers(self.e.got)
        if due is None or got is None:
            return
        programs = [program for program, _ in self.programs.values()]
        every = np.array([numbers for _, numbers in self.programs.values()])
        allowed = np.concatenate([_allowed(self.e, i)[w] for i, w in self.places.items()])
        exact = {*_pairs(every - due, got - due, allowed), *_of_factors(every, due, got, allowed)}
        pairs = itertools.chain(sorted(exact, key=sum)[:MAX_PAIRS], _nearest(every, due, got))
        yield from filter(None, (_combined(programs[i], programs[j]) for i, j in pairs))


def _sampled(e: Evidence) -> dict[int, Any]:
    """Return the places of each output that are compared; none if too few numbers are off."""
    rng = np.random.default_rng(0)
    places, count = {}, 0
    for i, bound in e.bounds.items():
        got, want = (np.asarray(a[i], np.float64).ravel() for a in (e.got, e.want))
        limit = np.broadcast_to(bound, np.shape(e.want[i])).ravel()
        off = np.flatnonzero(~(np.abs(got - want) <= limit))
        rest = np.setdiff1d(np.flatnonzero(np.isfinite(want)), off)
        some = [rng.permutation(a)[:most] for a, most in ((off, MAX_OFF), (rest, MAX_RIGHT))]
        places[i] = np.concatenate(some)
        count += np.unique(got[some[0]]).size
    return places if count >= MIN_OFF else {}


def _allowed(e: Evidence, i: int) -> Any:
    """Return how far each number of an output may be off, as the comparison of all has it."""
    want = np.asarray(e.want[i], np.float64)
    unit = EPS.get(np.dtype(e.dtypes[i]).name, EPS["float64"])
    size = np.max(np.abs(want), where=np.isfinite(want), initial=0.0)
    return (4 * np.broadcast_to(e.bounds[i], want.shape) + 8 * unit * size).ravel()


def _nearest(every: Any, due: Any, got: Any) -> Iterator[tuple[int, int]]:
    """Yield the programs that explain most, each with all of the most usual ones."""
    left = np.minimum(np.abs(every - got), MAX_GAP * np.abs(due - got)).sum(1)
    for i in np.argsort(left, kind="stable")[:MAX_FIRST]:
        yield from ((int(i), j) for j in range(min(len(every), MAX_SECOND)) if j != i)


def _of_factors(every: Any, due: Any, got: Any, allowed: Any) -> Iterator[tuple[int, int]]:
    """Yield the pairs whose quotients with the right numbers multiply to the candidate's."""
    large = np.minimum(np.abs(due), np.abs(got)) > SMALL * np.abs(due).max(initial=0.0)
    quotients = every[:, large] / due[large]
    rows = np.flatnonzero((quotients != 0).all(1))
    target = got[large] / due[large]
    if large.sum() < MIN_OFF or not rows.size:
        return
    with np.errstate(all="ignore"):
        logs = [np.log(np.abs(a)) for a in (quotients[rows], target)]
    for i, j in _pairs(logs[0], logs[1], allowed[large] / np.abs(got[large])):
        if (np.sign(quotients[rows[i]] * quotients[rows[j]]) == np.sign(target)).all():
            yield int(rows[i]), int(rows[j])


def _pairs(rows: Any, target: Any, allowed: Any) -> Iterator[tuple[int, int]]:
    """Yield which two rows add up to a target; rows of nearly 0 change nothing."""
    some = np.flatnonzero((np.abs(rows) > 4 * allowed).any(1))
    # The sums of the numbers with random signs find the few pairs that may do.
    signs = np.random.default_rng(1).choice([-1.0, 1.0], target.size) / allowed
    sums = rows[some] @ signs
    order = np.argsort(sums)
    left = target @ signs - sums
    width = 2.0 * target.size
    first = np.searchsorted(sums[order], left - width)
    last = np.searchsorted(sums[order], left + width, side="right")
    for i, row in enumerate(some):
        near = some[order[first[i] : last[i]]]
        gaps = np.abs(rows[near] + rows[row] - target)
        for other in near[(gaps <= 2 * allowed).all(1)]:
            if row < other:
                yield int(row), int(other)


def _combined(first: Program, second: Program) -> Program | None:
    """Return the program with two changes; None if they cannot be made at once."""
    message = f"{first.message}; and {second.message}"
    if isinstance(first.edit, Edit) and isinstance(second.edit, Edit):
        formula = with_both(first.edit, second.edit)
        return Program(message, functools.partial(outputs_of, formula)) if formula else None
    if (change := change_of(first)) is None:
        first, second, change = second, first, change_of(second)
    if (other := change_of(second)) is not None:
        run = functools.partial(with_reading, lambda call: other(change(call)))
    else:
        run = functools.partial(_after, second, change)
    return Program(message, run)


def _after(program: Program, change: Any, call: Any) -> Any:
    """Return the outputs of a program for a changed call; None if the change does not fit it."""
    with contextlib.suppress(Exception):  # inputs of another case may have fewer axes
        return program.run(change(call))
    return None
