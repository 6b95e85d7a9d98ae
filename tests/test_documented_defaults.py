"""The defaults that docstrings state are those of the signatures."""

import inspect
import re

import numpy as np
import pytest

import dlref

PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : (.*)$", re.MULTILINE)
SECTION = re.compile(r"^\w[\w ]*\n-{3,}$", re.MULTILINE)
DEFAULT = re.compile(r"\bdefault (.+?)(?:$|, (?![\d.]))")


def documented():
    """Yield each function, parameter and default that a docstring states."""
    for chapter in (getattr(dlref, name) for name in dlref.__all__):
        if not hasattr(chapter, "__path__") or chapter is dlref.formulas:
            continue
        for name in chapter.__all__:
            doc = inspect.getdoc(getattr(chapter, name)) or ""
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
    chapter, _, name = function.rpartition(".")
    signature = inspect.signature(getattr(getattr(dlref, chapter.partition(".")[2]), name))
    names = {"float64": np.float64}
    assert eval(stated, names) == signature.parameters[parameter].default
