"""
Names that other libraries use, and errors that suggest the name used here.

A chapter is loaded lazily from its stub; a name that it does not have is looked for in the other
chapters, in a table of names, in the words of signatures and docstrings, and among names that are
spelt alike.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import lazy_loader

PACKAGE = Path(__file__).parents[1]
#: Endings of the forms of a map.
FORMS = ("_vjp", "_jvp", "_grad", "_deriv", "_jacobian")
#: A function or a class: its name, signature and docstring.
DEFINED = re.compile(r'^(?:def|class) (\w+)(.*?)"""(.*?)"""', re.DOTALL | re.MULTILINE)
#: The names elsewhere in the records of a chapter.
NAMES = re.compile(r"^NAMES = (\{.*?^\})", re.DOTALL | re.MULTILINE)
#: Where the words of a name begin: at capitals, digits apart.
BEGINNINGS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
#: How much a word counts: in the name, in a name elsewhere, in the first sentence or an option.
WEIGHTS = {"name": 6, "elsewhere": 4, "first": 3}
#: The part of a name, by the rarity of its words, that a docstring has to have.
SHARE = 0.6
#: Words of names that say nothing, and in how many docstrings a word counts that is in none.
FILLERS, UNKNOWN = {"fn", "func", "get", "with"}, 50


@cache
def _table() -> dict[str, dict[str, str]]:
    """
    Return how each name of each map, as chapter.name, differs elsewhere.

    `NAMES` of a chapter's records has the names in PyTorch and JAX, with their modules, and then
    others; after a colon, how the map of that name differs from the one here. The records import
    the maps, so they are read as text.
    """
    table = {}
    for path in sorted(PACKAGE.glob("_records/*.py")):
        for written in NAMES.findall(path.read_text(encoding="utf-8")):
            for name, others in ast.literal_eval(written).items():
                parts = (other.partition(": ") for other in others)
                here = f"{path.stem.removeprefix('_')}.{name}"
                table[here] = {other: note for other, _, note in parts}
    return table


def called() -> dict[str, list[str]]:
    """Return the names that each map, as chapter.name, has elsewhere."""
    return {here: [*others] for here, others in _table().items()}


def _note(name: str, here: str) -> str:
    """Return how the map of a name of another library differs from the one here."""
    others = _table().get(here.removeprefix("dlref."), {})
    return next(
        (note for o, note in others.items() if _plain(o.rpartition(".")[2]) == _plain(name)), ""
    )


@cache
def _public() -> dict[str, str]:
    """Return the chapter of every public name, read from the stubs: nothing is imported."""
    chapters: dict[str, str] = {}
    for stub in sorted(PACKAGE.glob("*/__init__.pyi")):
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            chapters |= {alias.name: stub.parent.name for alias in getattr(node, "names", [])}
    return chapters


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


def _words(text: str) -> list[str]:
    """Return the words of a name or a text, in lower case."""
    parts = re.split(r"[^A-Za-z0-9]+", BEGINNINGS.sub("_", text))
    return [part.lower() for part in parts if len(part) > 1]


@cache
def _described() -> dict[str, Counter[str]]:
    """Return how much each word counts for each public name, as chapter.name, but for forms."""
    public, described = _public(), {}
    for path in sorted(PACKAGE.glob("*/*.py")):
        for name, signature, text in DEFINED.findall(path.read_text(encoding="utf-8")):
            here = f"{path.parent.name}.{name}"
            if public.get(name) != path.parent.name or name.endswith(FORMS):
                continue
            first = signature + text.strip().partition("\n\n")[0]
            counts = Counter({*_words(text)})
            counts.update(dict.fromkeys(_words(first), WEIGHTS["first"]))
            for other in called().get(here, ()):
                counts.update(dict.fromkeys(_words(other), WEIGHTS["elsewhere"]))
            counts.update(dict.fromkeys(_words(name), WEIGHTS["name"]))
            described[here] = counts
    return described


def _by_words(name: str, chapter: str) -> str:
    """
    Return the public name whose docstring has the words of a name, rare ones above all.

    Of names that have them as often, a name of the chapter comes first.
    """
    described = _described()
    counts_of = {w: sum(w in counts for counts in described.values()) for w in _words(name)}
    rarity = {
        word: math.log(len(described) / (count or UNKNOWN))
        for word, count in counts_of.items()
        if word not in FILLERS
    }
    scores = {}
    for here, counts in described.items():
        shares = {word: size for word, size in rarity.items() if counts[word]}
        if sum(shares.values()) >= SHARE * sum(rarity.values()) > 0:
            scores[here] = sum(size * math.log(1 + counts[word]) for word, size in shares.items())
    return max(
        scores,
        key=lambda here: (
            round(scores[here], 6),
            here.startswith(f"{chapter}."),
            here.islower(),
            -len(here),
        ),
        default="",
    )


def suggestion(name: str, chapter: str = "") -> str:
    """Return the likely name here, from ``dlref.`` on; "" if no name is similar."""
    public, elsewhere, plain = _public(), _elsewhere(), _plain(name)
    if name in public:
        return f"dlref.{public[name]}.{name}"
    if (derivative := f"{name}_vjp") in public:  # NumPy has the map itself
        return f"dlref.{public[derivative]}.{derivative}"
    suffix = next((form for form in FORMS if name.endswith(form)), "")
    stem = name.removesuffix(suffix)
    if here := elsewhere.get(plain) or elsewhere.get(_plain(stem)) or _by_words(stem, chapter):
        formed = here.rpartition(".")[2] + suffix
        return f"dlref.{here}{suffix}" if formed in public else f"dlref.{here}"
    own = [known for known, home in public.items() if home == chapter]
    by_plain = {_plain(known): known for known in (own or public)}
    if close := difflib.get_close_matches(plain, by_plain, n=1, cutoff=0.8):
        known = by_plain[close[0]]
        return f"dlref.{public[known]}.{known}"
    return ""


def _loaded(load: Callable[[str], Any], name: str) -> Any:
    """Load a name; where NumPy cannot be loaded at all, say why in its place."""
    try:
        return load(name)
    except ImportError as error:
        if "subinterpreters" not in str(error):
            raise
        msg = "dlref needs the main interpreter of a process: NumPy refuses to load in another one."
        raise ImportError(msg) from error


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], Any]:
    """Call `lazy_loader.attach_stub`; errors of its result suggest the name that a map has here."""
    load, listing, names = lazy_loader.attach_stub(package, file)

    def attribute(name: str) -> Any:
        if name in names:
            return _loaded(load, name)
        near = "" if name.startswith("_") else suggestion(name, package.rpartition(".")[2])
        note = (
            f" But for one difference: {difference}." if (difference := _note(name, near)) else ""
        )
        hint = f" It may be {near!r}.{note}" if near else ""
        msg = f"module {package!r} has no attribute {name!r}.{hint}"
        raise AttributeError(msg)

    return attribute, listing, names
