"""
Where each displayed equation stands: the names of the checks of every docstring and page, in order.

`places.toml` keeps them, so that an equation that moves to another function, or two that are
exchanged, are seen by a test although both texts have a check. ``tox run -e written`` writes the
file anew; read the difference before you commit it.
"""

import functools
import importlib
import pkgutil
import tomllib
from pathlib import Path

from equations import ledger

FILE = Path(__file__).parent / "places.toml"


def load_checks():
    """Import every module of this folder that holds checks."""
    for _, name, _ in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if name not in {"ledger", "places"} and not name.startswith("test_"):
            importlib.import_module(f"equations.{name}")


@functools.cache
def found():
    """Return the names of the checks of each place, in the order of its equations."""
    names = {}
    for place, text in ledger.places():
        check = ledger.CHECKS.get(text)
        names.setdefault(place, []).append("no check" if check is None else check.name)
    return names


def known():
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def write():
    lines = [f'"{place}" = {names!r}\n'.replace("'", '"') for place, names in found().items()]
    FILE.write_text("".join(lines), encoding="utf-8")
