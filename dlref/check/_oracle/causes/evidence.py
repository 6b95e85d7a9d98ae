"""
The cause that all cases of a report have: the changed program that a candidate is.

It leads to every output of the candidate in every case in which that is off, and to the right ones
where it is right. No draw of numbers agrees with a wrong program by chance twice.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import is_float, tree_leaves
from ..formulas import spellings
from ..stochastic_rounding import EPS
from .heuristics import MIN_SAMPLES, Pair, agrees
from .mutations import formula_of, outputs_of
from .programs import Program, pairs_of_changes, programs
from .readings import readings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..calls import ReferenceCall

#: Programs that are tried, at most, and numbers of the case that they are tried on first.
MAX_PROGRAMS, MAX_NUMBERS = 4000, 2**13
#: Numbers of a case that a program is confirmed on, at most.
MAX_CONFIRMED = 2**18
#: How many programs are named, at most, if no case tells them apart; with more, none is.
MAX_TIES = 3


@dataclass(frozen=True, eq=False)
class Evidence:
    """A case of a candidate: the call, its outputs, and which of them are off."""

    call: ReferenceCall
    got: list[Any]
    want: list[Any]
    dtypes: list[Any]
    bounds: dict[int, Any]  # of the outputs that were compared
    off: frozenset[int]

    @property
    def size(self) -> int:
        """Return how many numbers go in and out."""
        return sum(np.size(a) for a in tree_leaves((self.call.arguments, tuple(self.want))))

    @property
    def is_small(self) -> bool:
        """Return whether programs may be tried on it."""
        return self.size <= MAX_CONFIRMED

    @functools.cached_property
    def wrong(self) -> int:
        """Return how many numbers are off."""
        return int(sum((~(pair.gaps <= pair.bound)).sum() for pair in self.pairs))

    @functools.cached_property
    def pairs(self) -> list[Pair]:
        """Return the outputs that are off beside the exact ones."""
        return [
            Pair(
                self.call, i, np.asarray(self.got[i], np.float64),
                np.asarray(self.want[i], np.float64), self.bounds[i], np.dtype(self.dtypes[i]),
            )
            for i in sorted(self.off)
        ]  # fmt: skip

    def agrees(
        self, outputs: list[Any], right: list[Any], *, explains: bool = True, slack: float = 1.0
    ) -> bool:
        """
        Return whether outputs are the candidate's, and the `right` ones where it is right.

        The latter may differ by `slack` times the bounds of the candidate.

        Few programs explain nearly all of a difference by chance. Where one has done so, it only
        has to agree up to rounding in the other cases.
        """
        if any(i >= len(outputs) or outputs[i] is None for i in self.bounds):
            return False
        close = agrees if explains else _is_rounded
        return all(
            close(pair.got, np.asarray(outputs[pair.number], np.float64), pair)
            for pair in self.pairs
        ) and all(
            _is_near(outputs[i], right[i], slack * np.asarray(bound))
            for i, bound in self.bounds.items()
            if i not in self.off
        )

    @property
    def is_clear(self) -> bool:
        """Return whether a cause can be tried on it: it is right, or its numbers speak."""
        wide = all(np.dtype(d).itemsize > 2 for d in self.dtypes if d is not None)
        return not self.call.numeric and (not self.off or (self.speaks and wide))

    @functools.cached_property
    def speaks(self) -> bool:
        """Return whether a program could have led to its outputs: finite numbers, not only 0."""
        if self.call.numeric or not self.off <= self.bounds.keys():
            return False
        for i in self.off:
            a, w = self.got[i], self.want[i]
            if a is None or not (is_float(a) or a.dtype.kind in "biu"):
                return False
            if np.shape(a) != np.shape(w) or not np.any(a):  # many programs lead to zeros
                return False
            if not np.isfinite(np.asarray(a, np.float64)[np.isfinite(np.asarray(w, float))]).all():
                return False
        return True


def _leads_to(
    program: Program, evidence: Evidence, own: list[Any], *, explains: bool
) -> list[Any] | None:
    """Return the outputs of a program, if they are the candidate's."""
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        outputs: list[Any] | None = program.run(evidence.call)
    if outputs is None or len(outputs) < len(evidence.want):
        return None
    return outputs if evidence.agrees(outputs, own, explains=explains) else None


def _is_rounded(got: Any, want: Any, pair: Pair) -> bool:
    """Return whether an output differs by no more than a few of its bounds and roundings."""
    eps = EPS.get(pair.dtype.name, 0.0)
    return _is_near(got, want, 4 * np.asarray(pair.bound), eps)


def _is_near(got: Any, want: Any, bound: Any, eps: float = 0.0) -> bool:
    if want is None or np.shape(got) != np.shape(want):
        return want is None
    with np.errstate(all="ignore"):
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
        size = np.max(np.abs(want), where=np.isfinite(want), initial=0.0)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        eps = max(eps, EPS["float64"])
        unit = (8 if eps > EPS["float32"] else 64) * eps
        return bool((same | (np.abs(got - want) <= bound + unit * size)).all())


def _own(formula: Any, evidence: Evidence) -> list[Any] | None:
    """Return the outputs of the unchanged formula, if they are the right ones."""
    with np.errstate(all="ignore"):
        outputs = outputs_of(formula, evidence.call)
    if outputs is None or len(outputs) < len(evidence.want):
        return None
    near = all(
        _is_near(outputs[i], evidence.want[i], bound) for i, bound in evidence.bounds.items()
    )
    return outputs if near else None


def common_program(cases: Sequence[Evidence]) -> str:
    """Return the program that a candidate is, from its outputs in all cases; empty if none."""
    off = [e for e in cases if e.off and e.speaks]
    first = _first(off)
    if first is None:
        return ""
    others = [e for e in off if e is not first]
    if not others and first.wrong < 2 * MIN_SAMPLES:
        return ""
    ordered = [first, *others, *(e for e in cases if not e.off)]
    for every, own in _searches(first.call):
        found: list[tuple[str, list[Any]]] = []
        for program in every:
            outputs = _in_all_cases(program, ordered, own)
            if not outputs or any(_same(outputs, other) for _, other in found):
                continue
            found.append((program.message, outputs))
            if len(found) > MAX_TIES:
                return ""
        if found:
            return " or: ".join(message for message, _ in found)
    return ""


def _in_all_cases(program: Program, cases: list[Evidence], own: Any) -> list[list[Any]]:
    """Return the outputs of a program in each case; none if it is not the candidate in one."""
    outputs = []
    for e in cases:
        if (right := own(e)) is None:  # the formula does not take this case
            continue
        if (values := _leads_to(program, e, right, explains=e is cases[0])) is None:
            return []
        outputs.append(values)
    return outputs


def _searches(call: ReferenceCall) -> Iterator[tuple[Iterable[Program], Any]]:
    """Yield programs, and a function that returns the right outputs of a case, by search."""
    if (formula := formula_of(call)) is None:
        return
    others = [f for f in dict.fromkeys(spellings(call)) if f is not formula]
    own = {f: functools.cache(functools.partial(_own, f)) for f in (formula, *others)}
    for f, outputs in own.items():
        every = itertools.chain(readings(call) if f is formula else (), programs(f, call))
        yield itertools.islice(every, MAX_PROGRAMS), outputs
    for f, outputs in own.items():
        yield pairs_of_changes(f), outputs


def _same(left: list[Any], right: list[Any]) -> bool:
    """Return whether two programs are one in all cases, but for the rounding of float64."""
    return all(
        (a is None) == (b is None) and (a is None or _is_near(a, b, 0.0))
        for some, other in zip(left, right, strict=True)
        for a, b in zip(some, other, strict=True)
    )


def _first(off: list[Evidence]) -> Evidence | None:
    """Return the smallest case in which enough numbers are off."""
    small = [e for e in off if e.size <= MAX_NUMBERS]
    telling = [e for e in small if e.wrong >= MIN_SAMPLES] or small
    return min(telling, key=lambda e: (len(e.call.non_default_options), e.size), default=None)
