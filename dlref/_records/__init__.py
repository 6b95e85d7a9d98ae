"""
The records of all topics: one for each map, in the module of its chapter.

A record says how the map is called, how its inputs are drawn, and at which inputs kernels of it
break; or why nothing is known. It is found by the function itself, and serves all forms of the map.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

from ._spec import FORMS, NOT_ARRAYS
from ._spec import MapSpec as MapSpec

#: Chapters that have a module of records here.
CHAPTERS = tuple(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
UNKNOWN = MapSpec(f=None, why_not=NOT_ARRAYS)


def records(chapter: str) -> tuple[MapSpec, ...]:
    return tuple(importlib.import_module(f"{__name__}.{chapter}").RECORDS)


@functools.cache
def _table(chapter: str) -> dict[Callable[..., Any], MapSpec]:
    return {f: record for record in records(chapter) for f in record.functions}


def spec_of(f: Any) -> tuple[MapSpec, str]:
    """Return the record of a function, and which form of the map it is; `UNKNOWN` without one."""
    while isinstance(f, functools.partial):
        f = f.func
    package, _, rest = (getattr(f, "__module__", None) or "").partition(".")
    chapter, name = rest.partition(".")[0], getattr(f, "__name__", "")
    if package != "dlref" or chapter not in CHAPTERS:
        return UNKNOWN, ""
    table, module = _table(chapter), sys.modules[f.__module__]
    maps = [getattr(module, name.removesuffix(form), None) for form in FORMS if name.endswith(form)]
    spec = next((table[function] for function in (f, *maps) if function in table), UNKNOWN)
    return spec, name.removeprefix(spec.name)
