"""
Names that other libraries use, and errors that suggest the name used here.

A chapter is loaded lazily from its stub; a name that it does not have is looked for in the other
chapters, in a table of names, and among names that are spelt alike.
"""

from __future__ import annotations

import ast
import difflib
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lazy_loader

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["attach", "called", "suggestion"]

PACKAGE = Path(__file__).parents[1]


@cache
def called() -> dict[str, list[str]]:
    """Return the names that each map, as chapter.name, has elsewhere, from names.toml."""
    table = tomllib.loads((PACKAGE / "_records" / "names.toml").read_text(encoding="utf-8"))
    return {f"{c}.{name}": others for c, maps in table.items() for name, others in maps.items()}


@cache
def _public() -> dict[str, str]:
    """Return the chapter of every public name, read from the stubs: nothing is imported."""
    found: dict[str, str] = {}
    for stub in sorted(PACKAGE.glob("*/__init__.pyi")):
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            found |= {alias.name: stub.parent.name for alias in getattr(node, "names", [])}
    return found


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


@cache
def _elsewhere() -> dict[str, str]:
    """Return the map here for each name of other libraries, without its capitals."""
    names: dict[str, str] = {}
    for here, others in called().items():
        for name in others:
            names.setdefault(_plain(name.rpartition(".")[2]), here)
    return names


def suggestion(name: str, chapter: str = "") -> str:
    """Return the likely name here, from ``dlref.`` on; "" if no name is similar."""
    public, elsewhere, plain = _public(), _elsewhere(), _plain(name)
    if name in public:
        return f"dlref.{public[name]}.{name}"
    stem, suffix = name, ""
    for form in ("_vjp", "_jvp", "_grad", "_deriv"):
        if name.endswith(form):
            stem, suffix = name.removesuffix(form), form
    if here := elsewhere.get(plain) or elsewhere.get(_plain(stem)):
        formed = here.rpartition(".")[2] + suffix
        return f"dlref.{here}{suffix}" if formed in public else f"dlref.{here}"
    own = [known for known, home in public.items() if home == chapter]
    by_plain = {_plain(known): known for known in (own or public)}
    if close := difflib.get_close_matches(plain, by_plain, n=1, cutoff=0.8):
        known = by_plain[close[0]]
        return f"dlref.{public[known]}.{known}"
    return ""


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], Any]:
    """Call `lazy_loader.attach_stub`; errors of its result suggest the name that a map has here."""
    load, listing, names = lazy_loader.attach_stub(package, file)

    def attribute(name: str) -> Any:
        if name in names:
            return load(name)
        found = "" if name.startswith("_") else suggestion(name, package.rpartition(".")[2])
        hint = f" It may be {found!r}." if found else ""
        msg = f"module {package!r} has no attribute {name!r}.{hint}"
        raise AttributeError(msg)

    return attribute, listing, names
