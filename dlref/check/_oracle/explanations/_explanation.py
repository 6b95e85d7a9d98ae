"""The fields of an explanation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanation:
    """Formulas that usual kernels of a map compute, and mistakes that explain wrong ones."""

    plain: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # by form
    variants: Mapping[str, tuple[Callable[..., Any], ...]] = field(default_factory=dict)
    jumps: bool = False  # whether the formulas jump, so that their error near an input says nothing
    each_rounded: bool = False  # whether usual kernels of 16 bits round each operation
    mistakes: tuple[Callable[[Any], Iterator[Any]], ...] = ()
    later: tuple[Callable[[Any], Iterator[Any]], ...] = ()  # if no option is ignored or another
    heuristics: tuple[Callable[[Any], str], ...] = ()
    last_heuristics: tuple[Callable[[Any], str], ...] = ()
    exponent: Callable[[Any], float] | None = None  # the largest, if no maximum is subtracted
