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

import docutils.core
import docutils.nodes
import numpy as np
from docutils.parsers.rst import Directive, directives, roles
from equations import evaluate
from selection import is_selected

ROOT = Path(__file__).parents[2]
CHECKS: dict[str, "Check"] = {}
PARTS = ("exercises", "steps", "tables", "tryit")  # of which pages are composed


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
    """Mark a function as the environment of texts that are evaluated themselves."""
    return functools.partial(_register, texts, kind=Reading, rtol=rtol, atol=atol)


def _register(texts, function, *, kind=Check, **options):
    for place, text in enumerate(map(normalized, texts)):
        known = CHECKS.get(text)  # by the same function, where pytest imports a file twice
        assert known is None or known.function.__qualname__ == function.__qualname__, text
        CHECKS[text] = check = kind(function, **options)
        check.texts = tuple(map(normalized, texts))
        check.name = function.__qualname__.partition(".<locals>")[0]
        check.name += f" {place + 1}" if len(texts) > 1 else ""
    return function


class _AnyOption(dict):
    """Every option there may be, each a text."""

    def __getitem__(self, name):
        """Return how an option is read."""
        return str

    def __bool__(self):
        """Say that there are options."""
        return True


class _Anything(Directive):
    """A directive of Sphinx or of an extension: only what stands in it is looked at."""

    option_spec = _AnyOption()

    has_content = True
    optional_arguments = 100
    final_argument_whitespace = True

    def run(self):
        """Parse the content."""
        container = docutils.nodes.container()
        self.state.nested_parse(self.content, self.content_offset, container)
        return [container]


class _Math(_Anything):
    """Sphinx's directive: a label, and all its lines as one equation."""

    def run(self):
        """Return the equation."""
        text = "\n".join([*self.arguments, *self.content])
        return [docutils.nodes.math_block(text, text)]


def _directive(name, *arguments, _known=directives.directive):
    """Return docutils' own directive, or one that parses its content."""
    if name in {
        "code-block",
        "raw",
        "include",
        "toctree",
        "plot",
        "bibliography",
        "literalinclude",
    }:
        return type("Nothing", (_Anything,), {"run": lambda _: []}), []
    if name == "math":
        return _Math, []
    found, messages = _known(name, *arguments)
    return (found, messages) if found else (_Anything, [])


def _role(name, *arguments, _known=roles.role):
    """Return docutils' own role, or one that reads as plain text."""
    found, messages = _known(name, *arguments)
    return (found, messages) if found else (roles.GenericRole(name, docutils.nodes.inline), [])


@functools.cache
def displayed(source):
    """Return the displayed equations of a text in reStructuredText."""
    quiet = {"report_level": 5, "halt_level": 6, "file_insertion_enabled": False}
    saved = directives.directive, roles.role
    directives.directive, roles.role = _directive, _role
    try:
        document = docutils.core.publish_doctree(source, settings_overrides=quiet)
    finally:
        directives.directive, roles.role = saved
    return [normalized(node.astext()) for node in document.findall(docutils.nodes.math_block)]


@functools.cache
def docstrings(path):
    """Return the docstrings of a module, its functions and its classes, each with its place."""
    kinds = (ast.Module, ast.FunctionDef, ast.ClassDef)
    return [
        (f"{path.relative_to(ROOT)}::{getattr(node, 'name', 'module')}", text)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kinds) and (text := ast.get_docstring(node))
    ]


def _sources():
    """Yield each place with its text: docstrings, and pages.

    Pages in folders of docs/reference are composed of docstrings, of docs/steps, docs/exercises and
    docs/tryit, which are read here instead.
    """
    for path in sorted(ROOT.glob("dlref/**/*.py")):
        yield from docstrings(path)
    parts = [path for name in PARTS for path in ROOT.glob(f"docs/{name}/**/*.rst")]
    for path in sorted([*ROOT.glob("docs/*.rst"), *ROOT.glob("docs/reference/*.rst"), *parts]):
        yield str(path.relative_to(ROOT)), path.read_text()


def _displaying():
    """Yield the sources with displayed equations, of the files of one topic if it runs alone."""
    # to parse all sources takes nine seconds
    return ((p, text) for p, text in _sources() if ".. math::" in text and is_selected(p))


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
            np.testing.assert_allclose(one, other, rtol=check.rtol, atol=check.atol)
