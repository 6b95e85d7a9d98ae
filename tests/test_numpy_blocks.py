"""
The NumPy that pages show: pasted into an empty interpreter it prints what the page prints, and the
examples of the pages hold with the formulas in the place of dlref's functions.
"""

import ast
import contextlib
import doctest
import functools
import importlib
import inspect
import io
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy_blocks import DERIVATIVE, FOLDER, Blocks
from test_shown_numbers import NUMBER, agrees

import dlref

#: Chapters without formulas: their functions compare, and convert.
TOOLS = {"check", "interop"}


def topics():
    """Yield chapter, name and public names of every topic."""
    for path in sorted(FOLDER.parent.glob("*/_*.py")):
        chapter = path.parent.name
        if path.name.startswith("__") or chapter.startswith("_") or chapter in TOOLS:
            continue
        module = importlib.import_module(f"dlref.{chapter}.{path.stem}")
        if names := getattr(module, "__all__", None):
            yield SimpleNamespace(chapter=chapter, name=path.stem[1:], names=names, module=module)


TOPICS = list(topics())
BLOCKS = Blocks(TOPICS)
SHOWN = {f"{key} {f.name}": f for key, shown in BLOCKS.shown.items() for f in shown}


def same(want, got):
    """Whether texts agree but for white space, and for the last digit of a number."""
    blank = [re.sub(r"\s", "", NUMBER.sub("#", text)) for text in (want, got)]
    pairs = zip(NUMBER.findall(want), NUMBER.findall(got), strict=False)
    return blank[0] == blank[1] and all(agrees(*pair) or close(*pair) for pair in pairs)


def close(shown, computed):
    """Whether a number is off by rounding alone: a formula has no tricks."""
    size = max(abs(float(shown)), abs(float(computed)))
    return abs(float(shown) - float(computed)) <= 1e-12 * size or size < 1e-14


@pytest.mark.parametrize("name", SHOWN)
def test_a_block_prints_what_its_page_prints(name):
    formula, out = SHOWN[name], io.StringIO()
    code = compile(BLOCKS.code(formula), name, "exec")
    with contextlib.redirect_stdout(out):
        exec(code, {"__name__": "pasted"})
    assert same(formula.output, out.getvalue()), out.getvalue()


@pytest.mark.parametrize("topic", TOPICS, ids=lambda t: f"{t.chapter}.{t.name}")
def test_every_map_shows_its_formula(topic):
    """And its backward pass, or the gradient that this multiplies."""
    formulas = importlib.import_module(f"dlref.formulas.{topic.chapter}")
    shown = {f.name for f in BLOCKS.shown.get(f"{topic.chapter}.{topic.name}", [])}
    functions = [n for n in topic.names if inspect.isfunction(getattr(topic.module, n))]
    with_formula = [n for n in functions if hasattr(formulas, n)]
    if any(not DERIVATIVE.search(n) for n in with_formula):
        assert any(not DERIVATIVE.search(n) for n in shown), "no formula is shown"
    if any(n.endswith(("_vjp", "_grad")) for n in with_formula):
        assert any(DERIVATIVE.search(n) for n in shown), "no backward pass is shown"


#: Maps without a formula of their name, and why.
WITHOUT_FORMULA: dict[str, str] = {}


@pytest.mark.parametrize("topic", TOPICS, ids=lambda t: f"{t.chapter}.{t.name}")
def test_every_map_has_a_formula(topic):
    formulas = importlib.import_module(f"dlref.formulas.{topic.chapter}")
    missing = [
        name
        for name in topic.names
        if inspect.isfunction(getattr(topic.module, name))
        and not name.endswith(("_jvp", "_jacobian", "_hessian", "_deriv2", "_value_and_grad"))
        and not hasattr(formulas, name)
        and f"{topic.chapter}.{name}" not in WITHOUT_FORMULA
    ]
    assert not missing, f"dlref/formulas/{topic.chapter}.py: write the formulas of {missing}"


#: Examples that a formula cannot give, by the line of the call, and why.
BEYOND_FORMULAS: dict[str, str] = {}


def as_arrays(value):
    """Return lists and floats of an example as the arrays that a formula takes."""
    if isinstance(value, list):
        return np.asarray(value) if len({np.shape(v) for v in value}) < 2 else value
    return np.float64(value) if isinstance(value, float) else value


def of_arrays(formula):
    @functools.wraps(formula)
    def call(*inputs, **options):
        return formula(*map(as_arrays, inputs), **{k: as_arrays(v) for k, v in options.items()})

    return call


def rewritten(source):
    """Return an example that takes its functions from dlref.formulas, as far as they are there."""
    lines = []
    for node in ast.parse(source).body:
        chapter = (getattr(node, "module", None) or "").removeprefix("dlref.")
        if isinstance(node, ast.ImportFrom) and chapter in BLOCKS.modules:
            formulas = importlib.import_module(f"dlref.formulas.{chapter}")
            for alias in node.names:
                if hasattr(formulas, alias.name):
                    bound = alias.asname or alias.name
                    lines.append(f"{bound} = of_arrays('{chapter}', '{alias.name}')")
                else:
                    lines.append(f"from {node.module} import {alias.name} as {bound_name(alias)}")
        else:
            lines.append(ast.get_source_segment(source, node))
    return "\n".join(lines) + "\n"


def bound_name(alias):
    return alias.asname or alias.name


class Same(doctest.OutputChecker):
    def check_output(self, want, got, optionflags):
        return super().check_output(want, got, optionflags) or same(want, got)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("topic", TOPICS, ids=lambda t: f"{t.chapter}.{t.name}")
def test_examples_hold_with_formulas(topic):
    def formula_of(chapter, name):
        return of_arrays(getattr(importlib.import_module(f"dlref.formulas.{chapter}"), name))

    failures = []
    for name in topic.names:
        text = inspect.getdoc(getattr(topic.module, name)) or ""
        examples = doctest.DocTestParser().get_examples(text)
        kept = []
        for example in examples:
            if any(part in example.source for part in BEYOND_FORMULAS):
                continue
            example.source = rewritten(example.source)
            kept.append(example)
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        runner = doctest.DocTestRunner(Same(), verbose=False, optionflags=flags)
        test = doctest.DocTest(kept, {"of_arrays": formula_of}, name, None, 0, text)
        runner.run(test, out=failures.append)
    assert not failures, "".join(failures)
