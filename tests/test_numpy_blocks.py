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
import sys
import typing
from types import SimpleNamespace

import numpy as np
import pytest
from exports import exported
from numpy_blocks import DERIVATIVE, FOLDER, Blocks
from selection import is_selected
from test_shown_numbers import NUMBER, agrees

import dlref
from dlref._core.pytree import rebuilt
from dlref._records import spec_of

#: Chapters without formulas: their functions compare, and convert.
TOOLS = {"check", "interop"}


def topics():
    """Yield chapter, name and public names of every topic."""
    for path in sorted(FOLDER.parent.glob("*/_*.py")):
        chapter = path.parent.name
        if path.name.startswith("__") or chapter.startswith("_") or chapter in TOOLS:
            continue
        module = importlib.import_module(f"dlref.{chapter}.{path.stem}")
        if names := exported(path):
            yield SimpleNamespace(chapter=chapter, name=path.stem[1:], names=names, module=module)


TOPICS = list(topics())
BLOCKS = Blocks(TOPICS)
SHOWN = {
    f"{key} {f.name}": f
    for key, shown in BLOCKS.shown.items()
    for f in shown
    if is_selected(key, f.name)
}
TOPICS = [topic for topic in TOPICS if is_selected(topic.name, *topic.names)]


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
WITHOUT_FORMULA = {
    "transformer.load_params": "it reads a file",
    "transformer.save_params": "it writes a file",
}


@pytest.mark.parametrize("topic", TOPICS, ids=lambda t: f"{t.chapter}.{t.name}")
def test_every_map_has_a_formula(topic):
    formulas = importlib.import_module(f"dlref.formulas.{topic.chapter}")
    missing = [
        name
        for name in topic.names
        if inspect.isfunction(getattr(topic.module, name))
        and not name.endswith(("_jvp", "_jacobian", "_hessian", "_value_and_grad"))
        and not hasattr(formulas, name)
        and f"{topic.chapter}.{name}" not in WITHOUT_FORMULA
    ]
    assert not missing, f"dlref/formulas/{topic.chapter}.py: write the formulas of {missing}"


#: Examples that a formula cannot give, by the line of the call, and why.
BEYOND_FORMULAS = {
    "gelu_deriv([-np.inf": "a limit at infinity",
    "silu_deriv(-np.inf)": "a limit at infinity",
    "softsign(np.inf)": "a limit at infinity",
    "(1 - glu([1.0, 1.0], [37.4": "the last digit of a sigmoid near 1",
    "mish_deriv2(300.0)": "a slope below the smallest difference from 1",
    "norm_grad([3e-200": "squares that underflow",
    "prod_grad([1e200": "products that overflow",
    "[1e160]": "a square that overflows",
    "p, state.square": "a square that overflows",
    "v, mask=mask)": "a hidden value that is not a number",
    "num_head=2": "an error that names the option",
    "rms_norm(x, weight)": "a sum that is wider than float16",
    "callback=": "what is called after each step is not part of the map",
}


def as_arrays(value, dtype=None):
    """Return numbers, and lists of them, as the arrays that a formula takes."""
    if isinstance(value, float) or (isinstance(value, int) and dtype is not None):
        return np.asarray(value, dtype)[()]
    if isinstance(value, list) and not any(isinstance(part, tuple) for part in value):
        with contextlib.suppress(ValueError):  # of different lengths
            return np.asarray(value, dtype)
    if isinstance(value, tuple) and any(isinstance(part, list | tuple) for part in value):
        return rebuilt(value, [as_arrays(part) for part in value])
    return value


def named(value, hint):
    """Return plain tuples as the named tuples that the public function returns."""
    if not isinstance(value, tuple) or hint is None:
        return value
    if typing.get_origin(hint) is tuple:
        hints = [h for h in typing.get_args(hint) if h is not Ellipsis]
        hints += [None] * (len(value) - len(hints))
        return tuple(named(*pair) for pair in zip(value, hints, strict=False))
    is_named = hasattr(hint, "_fields") and len(hint._fields) == len(value)
    return hint(*value) if is_named else value


def result_of(f):
    """Return the annotation of a function's result, None where it cannot be evaluated."""
    with contextlib.suppress(NameError, AttributeError):  # names for type checkers alone
        return eval(f.__annotations__.get("return", "None"), vars(sys.modules[f.__module__]))
    return None


def as_scalars(value):
    """Return arrays without axes as numbers, as dlref does."""
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map(as_scalars, value))
    return value[()] if isinstance(value, np.ndarray) else value


def of_arrays(chapter, name):
    formula = getattr(importlib.import_module(f"dlref.formulas.{chapter}"), name)
    public = getattr(getattr(dlref, chapter), name)
    (spec, form), hint = spec_of(public), result_of(public)
    shapes = spec.calls[0].shapes if spec.calls else ()
    floats = {k for k, shape in enumerate(shapes) if isinstance(shape, tuple)} - {*spec.constant}
    floats = {0, *(k + 1 for k in floats)} if form == "_vjp" else floats

    @functools.wraps(formula)
    def call(*inputs, **options):
        options = {key: as_arrays(value) for key, value in options.items()}
        arrays = (as_arrays(a, np.float64 if k in floats else None) for k, a in enumerate(inputs))
        return named(as_scalars(formula(*arrays, **options)), hint)

    return call


def rewritten(source):
    """Return an example that takes its functions from dlref.formulas, as far as they are there."""
    node = ast.parse(source).body[0]
    chapter = (getattr(node, "module", None) or "").removeprefix("dlref.")
    if not isinstance(node, ast.ImportFrom) or chapter not in BLOCKS.modules:
        return source
    formulas = importlib.import_module(f"dlref.formulas.{chapter}")
    public = f"__import__('importlib').import_module('{node.module}')"
    values = [
        f"of_arrays('{chapter}', '{alias.name}')"
        if inspect.isfunction(getattr(formulas, alias.name, None))
        else f"getattr({public}, '{alias.name}')"
        for alias in node.names
    ]
    names = [alias.asname or alias.name for alias in node.names]
    return f"{', '.join(names)} = {', '.join(values)}\n"


class Same(doctest.OutputChecker):
    def check_output(self, want, got, optionflags):
        return super().check_output(want, got, optionflags) or same(want, got)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "topic", [t for t in TOPICS if t.name != "storage"], ids=lambda t: f"{t.chapter}.{t.name}"
)
def test_examples_hold_with_formulas(topic):
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
        test = doctest.DocTest(kept, {"of_arrays": of_arrays}, name, None, 0, text)
        runner.run(test, out=failures.append)
    assert not failures, "".join(failures)
