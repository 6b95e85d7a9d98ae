"""
Bounds of large results, measured at some places of an axis along which the results are independent.

Heads and batches of attention, or rows of a softmax, do not depend on each other, and a bound takes
dozens of evaluations.  They are made where the candidate is farthest from the exact result.
Elsewhere the bound is the largest that was measured, in proportion to the size of the numbers.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.pytree import is_float, tree_leaves
from .arrays import map_leaves
from .bounds import baselines, bounds, numbers_of, size_of

if TYPE_CHECKING:
    from .bounds import Limits
    from .calls import ReferenceCall

#: Numbers of a call from which on its bounds are measured at some places.
LARGE = 2**20
#: Numbers that are enough to measure with.
ENOUGH = 2**18


@dataclass(frozen=True)
class Split:
    """
    An axis that is cut into equal groups, in all arrays that have so many axes.

    With four heads of keys for sixteen of queries there are four groups.  An array of one number
    for each entry of the axis is cut, too.
    """

    axis: int
    groups: int
    size: int
    least_ndim: int
    is_mean: bool = False

    def axis_of(self, value: Any) -> int | None:
        """Return which axis of an array is cut; None if it is whole, or no array."""
        shape = value.shape if isinstance(value, np.ndarray) else ()
        if len(shape) >= self.least_ndim:
            return self.axis if shape[self.axis] > 1 else None
        return 0 if shape == (self.size,) else None

    def cuts(self, want: Any) -> bool:
        """Return whether a result is cut along the axis, into as many groups."""
        is_cut = self.axis_of(want) == self.axis and is_float(want)
        return is_cut and want.shape[self.axis] % self.groups == 0

    def taken(self, value: Any, places: Any) -> Any:
        """Return the groups at some places of an array, and other values as they are."""
        axis = self.axis_of(value)
        if axis is None:
            return value
        some = _by_group(value, axis, self.groups)[places]
        return np.moveaxis(some.reshape(-1, *some.shape[2:]), 0, axis)

    def call_at(self, call: ReferenceCall, places: Any) -> ReferenceCall:
        """Return the call of the groups at some places."""
        take = functools.partial(map_leaves, functools.partial(self.taken, places=places))
        options = {key: take(value) for key, value in call.options.items()}
        return replace(call, arguments=take(call.arguments), options=options)

    def share_of(self, places: Any) -> float:
        """Return the factor by which the results of some groups are smaller among all."""
        return len(places) / self.groups if self.is_mean else 1.0

    def results_at(self, values: list[Any], places: Any) -> list[Any]:
        """Return the results of `call_at` from the results of all groups."""
        share = self.share_of(places)
        return [v if self.axis_of(v) is None else self.taken(v, places) / share for v in values]


def _by_group(array: Any, axis: int, groups: int) -> Any:
    """Return a view of an array with the groups of an axis along its first one."""
    first = np.moveaxis(array, axis, 0)
    return first.reshape(groups, -1, *first.shape[1:])


def _splits(call: ReferenceCall) -> list[Split]:
    """Return the ways to cut a call along its first or second axis, the finest one first."""
    every = tree_leaves((call.arguments, *call.options.values()))
    arrays = [a for a in every if isinstance(a, np.ndarray) and a.ndim]
    most = max((a.ndim for a in arrays), default=0)
    splits = []
    for axis in range(min(2, most)):
        for least in dict.fromkeys((most, axis + 1)):
            sizes = [a.shape[axis] for a in arrays if a.ndim >= least]
            groups = math.gcd(*(size for size in sizes if size > 1))
            splits.append(Split(axis, groups, max(sizes), least))
    return sorted((s for s in splits if s.groups > 1), key=lambda s: -s.groups)


def _run_at(split: Split, call: ReferenceCall, places: Any) -> list[Any] | None:
    """Return the results of some groups alone; None if their shapes do not fit."""
    try:
        return tree_leaves(split.call_at(call, places).run())
    except (TypeError, ValueError):
        return None


def _are_close(alone: list[Any] | None, among: list[Any]) -> bool:
    """Return whether some groups alone have the results that they have among others."""
    if alone is None:
        return False
    pairs = zip(alone, among, strict=True)
    return all(b is None or (np.shape(a) == b.shape and _is_close(a, b)) for a, b in pairs)


def _is_close(a: Any, b: Any) -> bool:
    return bool(np.allclose(a, b, 1e-9, 1e-9 * size_of(b), equal_nan=True))


def _scale(want: Any, split: Split) -> Any:
    """Return the size of each element and of its group, as an element may be small by chance."""
    size = np.abs(np.nan_to_num(want, posinf=0.0, neginf=0.0)) + np.finfo(np.float64).tiny
    groups = _by_group(size, split.axis, split.groups)
    groups += np.mean(groups, (*range(1, groups.ndim),), keepdims=True)
    return np.minimum(size, np.finfo(np.float64).max)


def _farthest(got: Any, want: Any, scale: Any, split: Split) -> Any:
    """Return how far each group is from the exact one, in proportion to the one farthest away."""
    if np.shape(got) != want.shape or not is_float(got):
        return np.zeros(split.groups)
    away = np.abs(np.asarray(got, np.float64) - want) / scale
    groups = _by_group(away, split.axis, split.groups)
    worst = np.nan_to_num(groups.max((*range(1, groups.ndim),)), nan=np.inf)
    worst = np.minimum(worst, np.finfo(np.float64).max)
    return worst / max(worst.max(), np.finfo(np.float64).tiny)


def _everywhere(some: Any, scale: Any, split: Split, places: Any) -> Any:
    """Return numbers that were measured at some places, and elsewhere the largest for the scale."""
    out = np.max(some / split.taken(scale, places), initial=0.0) * scale
    measured = _by_group(some, split.axis, len(places))
    _by_group(out, split.axis, split.groups)[places] = measured
    return out


@np.errstate(all="ignore")
def split_of(call: ReferenceCall, want: list[Any]) -> Split | None:
    """Return how a large call can be cut into parts that do not depend on each other."""
    if call.numeric or numbers_of(call) < LARGE:
        return None
    for split in _splits(call):
        if all(w is None or split.cuts(w) for w in want):
            places = {0, split.groups // 2, split.groups - 1}
            alone = {p: _run_at(split, call, [p]) for p in places}
            fitting = [
                way
                for way in (split, replace(split, is_mean=True))
                if all(_are_close(alone[p], way.results_at(want, [p])) for p in places)
            ]
            if len(fitting) == 1:  # both, if the results are 0
                return fitting[0]
    return None


@np.errstate(all="ignore")
def sampled_bounds(
    split: Split,
    call: ReferenceCall,
    want: list[Any],
    dtypes: list[Any],
    limits: Limits,
    got: list[Any],
    times: int,
) -> tuple[list[Any], list[Any]]:
    """Return the bounds and moves of all elements, measured at some places of a call."""
    scales = [w if w is None else _scale(w, split) for w in want]
    outputs = [entry for entry in zip(got, want, scales, strict=True) if entry[1] is not None]
    away = np.max([_farthest(g, w, scale, split) for g, w, scale in outputs], 0)
    enough = math.ceil(split.groups * ENOUGH / numbers_of(call))
    places = np.sort(np.argsort(-away, kind="stable")[:enough])
    results = split.results_at(want, places)
    if not _are_close(_run_at(split, call, places), results):
        return bounds(call, want, dtypes, limits, times)
    measured = bounds(split.call_at(call, places), results, dtypes, limits, times)
    share = split.share_of(places)
    limit, moves = (
        [
            few if scale is None else _everywhere(share * few, scale, split, places)
            for few, scale in zip(some, scales, strict=True)
        ]
        for some in measured
    )
    return limit, moves


def sampled_baselines(
    split: Split, call: ReferenceCall, want: list[Any], own: list[Any], dtypes: list[Any]
) -> list[float]:
    """Return the largest error of the plain formula by output, at one place of a call."""
    part, alone = split.call_at(call, [0]), split.results_at(own, [0])
    largest = baselines(part, split.results_at(want, [0]), alone, dtypes)
    return [split.share_of([0]) * error for error in largest]
