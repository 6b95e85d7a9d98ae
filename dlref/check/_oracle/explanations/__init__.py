"""Explanations of a difference: a table for each chapter, by the function that is explained."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING

from ..formulas import completed
from ._explanation import Explanation as Explanation

if TYPE_CHECKING:
    from ...._records import MapSpec

CHAPTERS = {m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")}
NONE = Explanation()


@functools.cache
def explanation_of(spec: MapSpec) -> Explanation:
    """Return the explanation of a map, with the formulas of its forms."""
    chapter, own = "", NONE
    for f in spec.functions:
        chapter = f.__module__.split(".")[1]
        if chapter in CHAPTERS:
            module = importlib.import_module(f"{__name__}.{chapter}")
            own = module.EXPLANATIONS.get(f, NONE)
            break
    return completed(chapter, spec, own)
