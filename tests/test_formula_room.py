"""The room that pages keep for formulas, from docs/_ext/formula_room.py, against widths."""

import pytest
from formula_room import displayed_height, inline_width

#: Widths in pixels that MathJax gave formulas in Chromium, in text of 16 pixels.
MEASURED = {
    r"\vec y = f(\vec x)": 80.4,
    "E": 15.7,
    "p_i": 17.0,
    r"\dd x": 23.2,
    r"\sum_i \hat x_i": 50.2,
    r"\vec h_{t-1}": 39.2,
    r"g = \frac12": 53.5,
    r"\partial L / \partial \mat O": 65.3,
    "v": 10.0,
}


@pytest.mark.parametrize("tex", MEASURED)
def test_the_width_of_an_inline_formula(tex):
    assert 16 * inline_width(tex) == pytest.approx(MEASURED[tex], rel=0.2)


@pytest.mark.parametrize(("wide", "narrow"), [
    (r"\frac{a + b}{c}", r"\frac{a}{c}"), ("a^{bc}_d", "a_d"), (r"\text{for all}", r"\text{if}"),
    (r"\sqrt{x}", "x"), (r"a \, b", "a b"), (r"\operatorname{var} x", r"\vec x"),
])  # fmt: skip
def test_what_makes_a_formula_wider(wide, narrow):
    assert inline_width(wide) > inline_width(narrow)


def test_scripts_stand_one_on_another():
    assert inline_width("x_i^2") == inline_width("x^2_i") == max(map(inline_width, ["x_i", "x^2"]))


@pytest.mark.parametrize("tex", ["", "{", "}", "x_", "x^{", r"\frac{a", r"\text", "\\"])
def test_half_a_formula_has_some_room(tex):
    assert 0 < inline_width(tex) < 5
    assert displayed_height(tex) > 3


def test_lines_fractions_and_limits_make_a_formula_higher():
    formulas = ("x", r"\sum_i x_i", r"\sum_{i}^n x", r"x \\ y \\ z")
    heights = [displayed_height(tex) for tex in formulas]
    assert heights == sorted(heights)
    assert len({*heights}) == 4
