"""Evidence: a case of a candidate that is off or right, and whether a program agrees with it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import is_float, tree_leaves
from ..stochastic_rounding import EPS
from .heuristics import Pair, agrees

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..calls import ReferenceCall

#: Numbers of a case that a program is confirmed on, at most.
MAX_CONFIRMED = 2**18
#: Different numbers that are off, at least, if a program that explains them alone is looked for.
MIN_PLACES = 4
#: Different numbers of an output that says little, at most.
MAX_FEW = 2


@dataclass(frozen=True, eq=False)
class Evidence:
    """A case of a candidate: the call, its outputs, and which of them are off."""

    call: ReferenceCall
    got: list[Any]
    want: list[Any]
    dtypes: list[Any]
    bounds: dict[int, Any]  # of the outputs that were compared
    off: frozenset[int]
    names: list[str]  # of the outputs

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
            is_near(outputs[i], right[i], slack * np.asarray(bound))
            for i, bound in self.bounds.items()
            if i not in self.off
        )

    def only(self, numbers: Iterable[int]) -> Evidence:
        """Return the case with some of its outputs alone."""
        bounds = {i: self.bounds[i] for i in numbers if i in self.bounds}
        return replace(self, bounds=bounds, off=self.off & bounds.keys())

    @property
    def is_clear(self) -> bool:
        """Return whether a cause can be tried on it: it is right, or its numbers speak."""
        wide = all(np.dtype(d).itemsize > 2 for d in self.dtypes if d is not None)
        return not self.call.numeric and (not self.off or (self.speaks and wide))

    @functools.cached_property
    def speaks(self) -> bool:
        """Return whether a program could have led to its outputs: finite numbers, not only one."""
        pairs = ((self.got[i], self.want[i]) for i in self.off)
        # many programs lead to the same number everywhere, and to zeros and ones
        few = any(_is_of_few(a) > _is_of_few(w) for a, w in pairs)
        return self.confirms and not few and not self._draws_zeros

    @property
    def _draws_zeros(self) -> bool:
        """Return whether random numbers are due, times 0: any factor but 0 would explain others."""
        return self.call.draws and not any(np.any(self.want[i]) for i in self.off)

    @functools.cached_property
    def confirms(self) -> bool:
        """Return whether outputs are finite and not zero: a program has to lead to them, too."""
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

    @functools.cached_property
    def places(self) -> list[tuple[int, Any, Any]]:
        """Return the places of each output that are off, with the numbers there."""
        every = ((pair, ~(pair.gaps <= pair.bound)) for pair in self.pairs)
        return [(pair.number, off, pair.got[off]) for pair, off in every]

    @functools.cached_property
    def is_partly_off(self) -> bool:
        """Return whether some elements are right, and enough others have numbers that speak."""
        return self.speaks and all(
            not off.all() and np.unique(numbers).size >= MIN_PLACES
            for _, off, numbers in self.places
        )

    def agrees_where_off(self, outputs: list[Any]) -> bool:
        """Return whether outputs are the candidate's in the places that are off."""
        for pair, (i, off, numbers) in zip(self.pairs, self.places, strict=True):
            if i >= len(outputs) or outputs[i] is None or np.shape(outputs[i]) != off.shape:
                return False
            bound = 4 * np.broadcast_to(np.asarray(pair.bound), off.shape)[off]
            other = np.asarray(outputs[i], np.float64)[off]
            if not is_near(numbers, other, bound, EPS.get(pair.dtype.name, 0.0)):
                return False
        return True


def _is_of_few(a: Any) -> bool:
    """Return whether an array of several numbers has one alone, or two in more places than two."""
    count = np.unique(np.asarray(a, np.float64)).size
    return np.size(a) > count and count <= MAX_FEW


def _is_rounded(got: Any, want: Any, pair: Pair) -> bool:
    """Return whether an output differs by no more than a few of its bounds and roundings."""
    eps = EPS.get(pair.dtype.name, 0.0)
    return is_near(got, want, 4 * np.asarray(pair.bound), eps)


def is_near(got: Any, want: Any, bound: Any, eps: float = 0.0) -> bool:
    if want is None or np.shape(got) != np.shape(want):
        return want is None
    with np.errstate(all="ignore"):
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
        size = np.max(np.abs(want), where=np.isfinite(want), initial=0.0)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        eps = max(eps, EPS["float64"])
        unit = (8 if eps > EPS["float32"] else 64) * eps
        return bool((same | (np.abs(got - want) <= bound + unit * size)).all())
