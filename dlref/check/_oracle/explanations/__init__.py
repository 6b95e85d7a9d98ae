"""What explains a difference: a table for each chapter, by the function that is explained."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, cast

from ._explanation import Explanation as Explanation

if TYPE_CHECKING:
    from ...._records import MapSpec

CHAPTERS = {m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")}
NONE = Explanation()


def explanation_of(spec: MapSpec) -> Explanation:
    """Return the explanation of a map, an empty one where the map has none."""
    for f in spec.functions:
        chapter = f.__module__.split(".")[1]
        if chapter in CHAPTERS:
            module = importlib.import_module(f"{__name__}.{chapter}")
            return cast("Explanation", module.EXPLANATIONS.get(f, NONE))
    return NONE
