"""The numbers that examples show are right to their last digit.

pytest's option NUMBER, with which the examples run, compares a number to one unit of its last
digit: a shown ``0.`` passes for 0.9, ``2e-01`` for 0.1. Here half a unit is allowed, and a number
without digits behind its point, as NumPy prints whole ones, must be whole.
"""

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"(?<![\w.])[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?!\w)")
PARTS = re.compile(r"[+-]?\d*\.?(\d*)(?:[eE]([+-]?\d+))?")


def agrees(shown, computed):
    """Whether a number is what is shown of it."""
    if shown == computed:
        return True
    if not re.search(r"[.eE]", shown):
        return False  # an integer
    digits, exponent = PARTS.fullmatch(shown).groups()
    want, got = float(shown), float(computed)
    if want == 0.0:
        return got == 0.0
    if digits in ("", "0") and exponent is None:
        return abs(got - want) <= 1e-9 * max(1.0, abs(want))
    return abs(got - want) <= 0.5001 * 10.0 ** (int(exponent or 0) - len(digits))


class Digits(doctest.OutputChecker):
    """Compares all but the numbers as text, without white space."""

    def check_output(self, want, got, optionflags):
        """Return whether an example returned what is shown."""
        if super().check_output(want, got, optionflags):
            return True
        texts = [re.sub(r"\s", "", NUMBER.sub("#", text)) for text in (want, got)]
        numbers = zip(NUMBER.findall(want), NUMBER.findall(got), strict=False)
        return texts[0] == texts[1] and all(agrees(shown, number) for shown, number in numbers)


def texts(path):
    """Return the docstrings of a module, or the whole of a page."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [source]
    kinds = ast.Module | ast.FunctionDef | ast.ClassDef
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds))
    return [text for node in nodes if (text := ast.get_docstring(node))]


def names(path):
    """Return the names that an example begins with: those of its module, as in any doctest."""
    if path.suffix != ".py":
        return {}
    module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    return dict(vars(importlib.import_module(module.removesuffix(".__init__"))))


PATHS = [
    path
    for pattern in ("dlref/**/*.py", "docs/**/*.rst", "README.md")
    for path in sorted(ROOT.glob(pattern))
    if ">>> " in path.read_text(encoding="utf-8") and "_build" not in path.parts
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_shown_numbers(path):
    found = []
    for text in texts(path):
        example = doctest.DocTestParser().get_doctest(text, names(path), path.stem, str(path), 0)
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        runner = doctest.DocTestRunner(Digits(), verbose=False, optionflags=flags)
        runner.run(example, out=found.append)
    assert not found, "".join(found)


@pytest.mark.parametrize(
    ("shown", "computed", "right"),
    [
        ("0.", "0.9", False),
        ("2e-01", "1e-01", False),
        ("0.00000000e+00", "1.11022302e-16", False),
        ("0.768900644327", "0.7689006443276264", False),
        ("0.768900644328", "0.7689006443276264", True),
        ("5.", "5.0", True),
        ("19.0000", "19.000000189999977", True),
        ("0.5000", "0.49999999999999994", True),
        ("3", "4", False),
    ],
)
def test_agrees(shown, computed, right):
    assert agrees(shown, computed) is right
