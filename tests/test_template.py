"""Backward passes are derived in three steps: differential, inner product, transpose."""

import inspect
import re

import pytest
from chapters import CHAPTERS

import dlref

STEPS = ["**The differential.**", "**The inner product.**", "**The transpose.**"]
#: Functions with any of the three steps of the page docs/adjoints.rst.
FUNCTIONS = {
    f"{chapter}.{name}": f
    for chapter in CHAPTERS
    for name in getattr(dlref, chapter).__all__
    if any(
        step in (inspect.getdoc(f := getattr(getattr(dlref, chapter), name)) or "")
        for step in STEPS
    )
}
GRADIENT = re.compile(r"\\d?p?dv\{L\}|\\partial L|\\vec\\delta|\\vec g_i")


def test_no_backward_pass_has_lost_all_steps():
    """Their number only grows."""
    assert len(FUNCTIONS) >= 52


@pytest.mark.parametrize("name", FUNCTIONS)
def test_three_steps_in_this_order(name):
    text = inspect.getdoc(FUNCTIONS[name])
    places = [text.find(step) for step in STEPS]
    assert -1 < places[0] < places[1] < places[2], "the headings of the three steps, in order"
    assert all(text.count(step) == 1 for step in STEPS)
    differential, product, transpose = (
        text[a:b] for a, b in zip(places, [*places[1:], len(text)], strict=True)
    )
    assert r"\dd " in differential, "a formula of the differential"
    assert r"\dd L" in product, "the change of the loss"
    assert ".. math::" in transpose, "the gradient, displayed"
    assert GRADIENT.search(transpose)
