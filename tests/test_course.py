"""
The course: its code is one program that prints what the lessons print and computes what dlref
computes; its lessons are short, begin where the ones before ended, and use no letter too early.
"""

import ast
import contextlib
import functools
import importlib
import io
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
from course import ITEM, SKETCH, Course
from lesson_cases import CASES, OWN
from sketches import draw
from test_numpy_blocks import same

import dlref.formulas

COURSE = Course(Path(__file__).parents[1] / "docs")
LESSONS = COURSE.by_name
#: Characters of a line of code that a page shows without scrolling.
WIDTH = 86
#: Letters that are no quantities.
NOTATION = {"d", "e"}
GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "kappa",
    "lambda", "mu", "nu", "xi", "pi", "rho", "sigma", "tau", "phi", "varphi", "chi", "psi", "omega",
    "Gamma", "Delta", "Theta", "Lambda", "Sigma", "Phi", "Psi", "Omega", "ell",
}  # fmt: skip
WORDS = re.compile(r"\\(?:text|operatorname|mathrm|textbf|begin|end|label)\*?\{[^}]*\}")
TOKEN = re.compile(r"\\([A-Za-z]+)|([A-Za-z])")
MATH = re.compile(r":math:`([^`]+)`|^( *)\.\. math::(.*\n(?:\2 +.*\n|\s*\n)*)", re.MULTILINE)
NUMBER = re.compile(r"\d+\.\d+|\d+")


def test_the_course_is_whole():
    assert [len(COURSE.of(part)) for part in range(1, 7)] == [11, 10, 7, 8, 7, 5]


class Program:
    """The program, run lesson after lesson; each lesson once."""

    def __init__(self):
        self.names, self.printed = {"__name__": "course"}, {}

    def after(self, lesson):
        """Run all lessons up to one and return what its blocks printed."""
        for earlier in COURSE.lessons[: lesson.number]:
            if earlier.name not in self.printed:
                self.printed[earlier.name] = [*map(self.run, earlier.blocks)]
        return self.printed[lesson.name]

    def run(self, block):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block.code, "the course", "exec"), self.names)
        return out.getvalue()


@functools.cache
def program():
    return Program()


def defined(lesson):
    """Return the functions and classes that a lesson defines."""
    kinds = ast.FunctionDef | ast.ClassDef
    trees = (ast.parse(block.code) for block in lesson.blocks)
    return [node.name for tree in trees for node in tree.body if isinstance(node, kinds)]


DEFINED = {name for lesson in COURSE.lessons for name in defined(lesson)}


def formulas():
    """Return the names of all formulas."""
    names = (m.name for m in pkgutil.iter_modules(dlref.formulas.__path__))
    modules = [importlib.import_module(f"dlref.formulas.{name}") for name in names]
    return {name for module in modules for name, f in vars(module).items() if callable(f)}


@pytest.mark.parametrize("name", LESSONS)
def test_blocks_print_what_the_page_prints(name):
    lesson = LESSONS[name]
    assert len(lesson.blocks) >= 2
    assert max(len(line) for block in lesson.blocks for line in block.code.split("\n")) <= WIDTH
    for block, printed in zip(lesson.blocks, program().after(lesson), strict=True):
        assert same(block.output, printed), f"{block.code}\n{printed}"


@pytest.mark.parametrize("name", CASES)
def test_functions_agree_with_dlref(name):
    program().after(COURSE.lessons[-1])
    computed, expected = CASES[name](program().names[name])
    np.testing.assert_equal(len(computed), len(expected))
    for got, want in zip(computed, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_every_function_is_compared_or_belongs_to_the_course_alone():
    assert DEFINED - CASES.keys() == OWN.keys() & DEFINED
    assert not OWN.keys() - DEFINED
    assert not formulas() & OWN.keys()


@pytest.mark.parametrize("name", LESSONS)
def test_a_function_is_defined_once_unless_a_lesson_says_so(name):
    lesson = LESSONS[name]
    before = {f for earlier in COURSE.lessons[: lesson.number - 1] for f in defined(earlier)}
    assert before.intersection(defined(lesson)) == {*lesson.replaces}


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_is_one_lesson(name):
    """It is short, has one picture, exercises with solutions, and a question at the end."""
    lesson = LESSONS[name]
    assert 600 <= lesson.words <= 900
    assert len(SKETCH.findall(lesson.text)) == 1
    assert 3 <= len(lesson.exercises) <= 5
    assert len(ITEM.findall(lesson.text)) == len(lesson.exercises)
    assert list(lesson.parts)[-2:] == ["Exercises", "Before you go on"]
    assert ".. dropdown:: Answer" in lesson.parts["Before you go on"]
    assert "?" in lesson.parts["Before you go on"]
    assert lesson.text.count(".. dropdown:: In PyTorch") >= 1


@pytest.mark.parametrize("name", LESSONS)
def test_the_numbers_of_the_picture_are_those_of_the_text(name):
    lesson = LESSONS[name]
    [(_, code)] = SKETCH.findall(lesson.text)
    lines = "\n".join(line.removeprefix("   ") for line in code.split("\n"))
    words = re.sub(r"<[^>]*>", " ", draw(lines, lesson.page)).replace("−", "-")
    elsewhere = SKETCH.sub("", lesson.text)
    shown = {float(n) for n in NUMBER.findall(words)}
    assert len(shown & {float(n) for n in NUMBER.findall(elsewhere)}) >= 3


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_needs_earlier_ones_only(name):
    lesson = LESSONS[name]
    assert all(LESSONS[other].number < lesson.number for other in lesson.needs)


def letters(text):
    """Return the letters and Greek names in the formulas of a text."""
    out = set()
    for inline, _, displayed in MATH.findall(text):
        for command, letter in TOKEN.findall(WORDS.sub(" ", inline or displayed)):
            if letter or command in GREEK:
                out.add(letter or command)
    return out


@pytest.mark.parametrize("name", LESSONS)
def test_no_letter_is_used_before_it_is_introduced(name):
    lesson = LESSONS[name]
    known = {s for other in COURSE.lessons[: lesson.number] for s in other.symbols.split()}
    assert letters(lesson.text) <= known | NOTATION
    assert {*lesson.symbols.split()} <= letters(lesson.text)
