"""Calls with several options: a kernel may be right with each of them alone."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.pytree import tree_leaves
from ..._records._spec import INSEPARABLE, SEPARABLE
from .examples import is_valid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..._records._spec import Case, Cases

MAX_NAMED = 4


def shapes_of(value: Any) -> tuple[Any, ...]:
    """Return the shapes of all arrays in nested tuples, None for None."""
    return tuple(None if part is None else np.shape(part) for part in tree_leaves(value))


def _alike(cases: list[Case], optional: set[str]) -> list[list[Case]]:
    """Return cases in groups of the same shapes and the same required options."""
    groups: dict[Any, list[Case]] = {}
    for case in cases:
        required = {key: value for key, value in case[2].items() if key not in optional}
        groups.setdefault((repr(shapes_of(case[1])), repr(required)), []).append(case)
    return [*groups.values()]


def _joined(cases: list[Case], optional: set[str]) -> Cases:
    """Yield cases with all options of a group; where one has several values, with each of them."""
    values: dict[str, dict[str, Any]] = {}
    for _, _, options in cases:
        for key, value in options.items():
            values.setdefault(key, {})[repr(value)] = value
    several = {key for key in values if key in optional and len(values[key]) > 1}
    most = max((len(values[key]) for key in several), default=0)
    for i in range(most + 1):
        joined = {key: [*some.values()][min(i, len(some) - 1)] for key, some in values.items()}
        for key in several:
            if i >= len(values[key]):  # the default
                del joined[key]
        without = any(not options.keys() & optional for _, _, options in cases)
        message = SEPARABLE if without else INSEPARABLE
        yield f"{message} {_listed(joined, optional, several)} together", cases[-1][1], joined


def _listed(options: dict[str, Any], optional: set[str], several: set[str]) -> str:
    """Return the names of options, those with several values first, and the values of these."""
    keys = sorted((key for key in options if key in optional), key=lambda key: key not in several)
    short = {key for key in several & options.keys() if isinstance(options[key], int | float | str)}
    names = [f"{key}={options[key]!r}" if key in short else key for key in keys]
    rest = len(names) - MAX_NAMED
    return ", ".join(names if rest <= 1 else [*names[:MAX_NAMED], f"{rest} more"])


def pairwise_cases(
    f: Callable[..., Any], cases: list[Case], optional: set[str], large: list[dict[str, Any]]
) -> Cases:
    """
    Yield cases with options that stand alone in others, such that every two are in one of them.

    `large` has the options of further calls. Where a function refuses all options at once, it is
    called with every two.
    """

    def pairs(options: dict[str, Any]) -> set[tuple[str, ...]]:
        return {*itertools.combinations(sorted(options.keys() & optional), 2)}

    seen = set().union(*(pairs(options) for _, _, options in cases), *map(pairs, large))
    names: set[str] = set()
    for group in _alike(cases, optional):
        for case in _joined(group, optional):
            if pairs(case[2]) <= seen or case[0] in names:  # or a value differs in no name
                continue
            names.add(case[0])
            yield from [case] if is_valid(f, case) else _by_two(f, case, pairs(case[2]) - seen)


def _by_two(f: Any, whole: Case, pairs: set[tuple[str, ...]]) -> Iterator[Case]:
    name, inputs, options = whole
    message = SEPARABLE if name.startswith(SEPARABLE) else INSEPARABLE
    optional = {key for pair in pairs for key in pair}
    for pair in sorted(pairs):
        chosen = {key: v for key, v in options.items() if key in pair or key not in optional}
        case = f"{message} {' and '.join(pair)} together", inputs, chosen
        if is_valid(f, case):
            yield case
