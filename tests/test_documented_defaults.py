"""The defaults that docstrings state are those of the signatures."""

import inspect
import operator
import re

import numpy as np
import pytest

import dlref

PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : (.*)$", re.MULTILINE)
SECTION = re.compile(r"^\w[\w ]*\n-{3,}$", re.MULTILINE)
DEFAULT = re.compile(r"\bdefault (.+?)(?:$|, (?![\d.]))")


def members(chapter):
    """Yield the public functions and classes of a chapter, and the methods of the classes."""
    for name in chapter.__all__:
        member = getattr(chapter, name)
        yield name, member
        if inspect.isclass(member):
            for method in vars(member):
                if not method.startswith("_") and inspect.isroutine(getattr(member, method)):
                    yield f"{name}.{method}", getattr(member, method)


def documented():
    """Yield each function, parameter and default that a docstring states."""
    for chapter in (getattr(dlref, name) for name in dlref.__all__):
        if not hasattr(chapter, "__path__") or chapter is dlref.formulas:
            continue
        for name, member in members(chapter):
            doc = inspect.getdoc(member) or ""
            section = SECTION.split(doc.partition("Parameters\n----------\n")[2])[0]
            for names, kind in PARAMETER.findall(section):
                if stated := DEFAULT.search(kind):
                    for parameter in names.split(", "):
                        yield f"{chapter.__name__}.{name}", parameter, stated[1].strip()


STATED = list(documented())


def test_many_are_stated():
    assert len(STATED) > 150


@pytest.mark.parametrize(("function", "parameter", "stated"), STATED)
def test_a_stated_default_is_that_of_the_signature(function, parameter, stated):
    signature = inspect.signature(operator.attrgetter(function.partition(".")[2])(dlref))
    names = {"float64": np.float64, "float32": np.float32}
    assert eval(stated, names) == signature.parameters[parameter].default
