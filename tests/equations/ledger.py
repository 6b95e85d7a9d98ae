"""The ledger of equations: every displayed equation of docstrings and pages, and what checks it.

A check is a function that transcribes an equation from its *text*, both sides and every step of a
chain, with NumPy, and yields tuples of values that must agree. It names the text it was written
from; `test_ledger.py` fails where a text has no check, so that an equation cannot change alone.
"""

import ast
import functools
import itertools
import re
from pathlib import Path

import numpy as np
from equations import evaluate
from selection import is_selected

ROOT = Path(__file__).parents[2]
CHECKS: dict[str, "Check"] = {}
PARTS = ("exercises", "steps", "tables", "tryit")  # of which pages are composed
#: The directive with all lines that are indented further, and an option of it.
MATH = re.compile(r"^( *)\.\. math::(.*(?:\n(?:\1 +\S.*| *))*)", re.MULTILINE)
OPTION = re.compile(r"^ *:\w+:.*$", re.MULTILINE)


class Check:
    """A function that writes a text again and yields the values that must agree."""

    kind = "written"

    def __init__(self, function, *, rtol, atol):
        self.function, self.name = function, ""
        self.rtol, self.atol = rtol, atol

    def lines(self):
        """Return the tuples of values that must agree."""
        return self.function()


class Reading(Check):
    """A check that evaluates texts in the environment that its function returns."""

    kind = "read"
    texts: tuple[str, ...] = ()

    def lines(self):
        """Return the sides of the texts, which share the environment."""
        return self.lines_of(self.texts)

    def lines_of(self, texts):
        """Return the sides of other texts in the same environment."""
        values = self.function()
        with np.errstate(all="ignore"):
            for environment in [values] if isinstance(values, dict) else values:
                yield from evaluate.lines(texts, environment)


def normalized(text):
    """Return a text of TeX with every run of white space as one space."""
    return re.sub(r"\s+", " ", text).strip()


def equation(*texts, rtol=1e-10, atol=1e-12):
    """Mark a function as the check of one or more displayed equations."""
    return functools.partial(_register, texts, rtol=rtol, atol=atol)


def reads(*texts, rtol=1e-10, atol=1e-12):
    """Mark a function as the environment of texts that are evaluated themselves.

    A long text is named by its beginning, with an ellipsis: the rest is read where it is displayed.
    """
    texts = tuple(map(completed, texts))
    return functools.partial(_register, texts, kind=Reading, rtol=rtol, atol=atol)


def completed(text):
    """Return a text, or the displayed equation that begins with it, if it ends with an ellipsis."""
    if not text.endswith("…"):
        return text
    beginning = text.removesuffix("…")
    every = {equation for _, source in _sources() for equation in displayed(source)}
    whole = [equation for equation in every if equation.startswith(beginning)]
    assert len(whole) == 1, f"{len(whole)} displayed equations begin with {beginning}"
    return whole[0]


def _register(texts, function, *, kind=Check, **options):
    for place, text in enumerate(map(normalized, texts)):
        known = CHECKS.get(text)  # by the same function, where pytest imports a file twice
        assert known is None or known.function.__qualname__ == function.__qualname__, text
        CHECKS[text] = check = kind(function, **options)
        check.texts = tuple(map(normalized, texts))
        check.name = function.__qualname__.partition(".<locals>")[0]
        check.name += f" {place + 1}" if len(texts) > 1 else ""
    return function


def kept_in(checks):
    """Return a decorator with the file that a check is of: it keeps both under the check's name."""

    def of(file):
        def mark(function):
            _, known = checks.setdefault(function.__name__, (file, function))
            at, other = function.__code__, known.__code__
            again = (at.co_filename, at.co_firstlineno) == (other.co_filename, other.co_firstlineno)
            assert again, function.__name__  # the same one, where pytest imports a file twice
            return function

        return mark

    return of


@functools.cache
def displayed(source):
    """Return the displayed equations of a text in reStructuredText, without labels."""
    return [normalized(OPTION.sub("", block[2])) for block in MATH.finditer(source)]


@functools.cache
def docstrings(path):
    """Return the docstrings of a module, its functions and its classes, each with its place."""
    kinds = (ast.Module, ast.FunctionDef, ast.ClassDef)
    return [
        (f"{path.relative_to(ROOT)}::{getattr(node, 'name', 'module')}", text)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kinds) and (text := ast.get_docstring(node))
    ]


@functools.cache
def _sources():
    """Return each place with its text, if it displays an equation: docstrings, and pages.

    Pages in folders of docs/reference are composed of docstrings, of docs/steps, docs/exercises and
    docs/tryit, which are read here instead.
    """
    texts = [pair for p in sorted(ROOT.glob("dlref/**/*.py")) for pair in docstrings(p)]
    parts = [path for name in PARTS for path in ROOT.glob(f"docs/{name}/**/*.rst")]
    pages = sorted([*ROOT.glob("docs/*.rst"), *ROOT.glob("docs/reference/*.rst"), *parts])
    texts += [(str(path.relative_to(ROOT)), path.read_text()) for path in pages]
    return [(place, text) for place, text in texts if ".. math::" in text]


def _displaying():
    """Return the sources with displayed equations, of the files of one topic if it runs alone."""
    return [(place, text) for place, text in _sources() if is_selected(place)]


def files():
    """Return the files that have displayed equations."""
    return sorted({place.partition("::")[0] for place, _ in _displaying()})


@functools.cache
def places():
    """Return where each displayed equation stands, and its text."""
    return [(place, equation) for place, text in _displaying() for equation in displayed(text)]


def compare(lines, check):
    """Raise AssertionError unless all values of each line agree."""
    lines = list(lines)
    assert lines
    for values in lines:
        assert len(values) >= 2
        for one, other in itertools.pairwise(values):
            assert not np.any(np.isnan(one)), "two that are no numbers would agree"
            np.testing.assert_allclose(one, other, rtol=check.rtol, atol=check.atol)
