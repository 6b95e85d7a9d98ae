"""
Run what can fail for one topic: ``tox run -e topic -- squareplus``.

The whole suite collects 35,000 tests before it runs those of a name. These files hold every test
that names a topic or one of its functions: its own, the contract that all functions keep, and those
that ask whether its record, its formula, its page and its equations are there. The symbols of all
texts are looked at, too.
"""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Files that walk all topics, relative to this folder.
SHARED = (
    "test_api.py",
    "test_contract.py",
    "test_empty_and_long.py",
    "test_formulas.py",
    "test_numpy_blocks.py",
    "test_prose.py",
    "test_symbols.py",
    "equations",
    "check/test_options.py",
)


def modules(name):
    """Return the modules that define a topic or a function of this name."""
    paths = sorted(ROOT.glob("dlref/*/_*.py"))
    return [
        path
        for path in paths
        if path.stem == f"_{name}" or f"\ndef {name}(" in path.read_text(encoding="utf-8")
    ]


def files(name):
    """Return the files with tests of a topic."""
    own = modules(name)
    chapters = {path.parent.name for path in own if not path.parent.name.startswith("_")}
    tests = [ROOT / "tests" / part for part in SHARED]
    tests += [ROOT / "tests" / chapter for chapter in sorted(chapters)]
    formulas = [ROOT / "dlref" / "formulas" / f"{chapter}.py" for chapter in sorted(chapters)]
    return [path for path in (*own, *formulas, *tests) if path.exists()]


def main(arguments):
    """Run the tests of a topic, and return pytest's status."""
    if not arguments or arguments[0].startswith("-"):
        sys.exit("the name of a topic or a function is missing: tox run -e topic -- softmax")
    name, *rest = arguments
    os.environ["DLREF_TOPIC"] = name  # nothing else is collected
    return pytest.main([*map(str, files(name)), "-q", "-k", f"{name} or test_symbols", *rest])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
