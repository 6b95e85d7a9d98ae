"""
Every formula gives what the public function of its name gives, with every option.

The cases are those that `check_all` uses: options one by one, every two of them together, the
inputs at which kernels break. What amplifies rounding errors by more than a formula without tricks
can bear is left out by its name.
"""

import ast
import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from selection import is_selected

import dlref
from dlref.check import hard_inputs
from dlref.check._inputs import joint_inputs

FOLDER = Path(dlref.__file__).parent / "formulas"
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
SUFFIXES = ("", "_vjp", "_grad", "_jvp", "_deriv", "_deriv2", "_jacobian", "_value_and_grad")
#: Parameters of public functions that concern the computation and not the map.
NOT_OF_THE_MAP = {"out", "callback", "progress"}
#: Inputs that lose more digits than a formula without tricks keeps.
ILL_CONDITIONED = re.compile(
    "sure and right|offset|far from zero|huge|tiny|1e[3-9]|large|far ahead|ties|no variance"
)


def pairs():
    """Yield chapter, public function and formula of each name that both sides have."""
    for chapter in MODULES:
        formulas = importlib.import_module(f"dlref.formulas.{chapter}")
        public = getattr(dlref, chapter)
        for name in public.__all__:
            f = getattr(public, name)
            if inspect.isfunction(f) and hasattr(formulas, name) and is_selected(name):
                yield pytest.param(f, getattr(formulas, name), id=f"{chapter}.{name}")


PAIRS = list(pairs())


def leaves(value):
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value)]


def cast(value, dtype):
    """Return arrays of floats in another dtype, within tuples of any class."""
    if isinstance(value, tuple):
        parts = [cast(part, dtype) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value.astype(dtype) if is_float else value


def cases(f):
    try:
        return [*hard_inputs(f, "float64", every_option=True), *joint_inputs(f, "float64")]
    except TypeError:  # nothing is known about its inputs: its own test calls it
        return []


def close(got, want, tolerance):
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want)
    # a gradient that is exactly 0 is what rounding leaves of the others
    numbers = [w[np.isfinite(w)] for w in want if w.dtype.kind == "f"]
    whole = max((np.max(abs(part), initial=0.0) for part in numbers), default=0.0)
    for g, w in zip(got, want, strict=True):
        if w.dtype == object:
            assert (g == w).all()
            continue
        assert g.shape == w.shape
        finite = abs(w[np.isfinite(w)]) if w.dtype.kind in "fc" else abs(w)
        scale = np.max(finite, initial=1e-3 * whole)
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize(("f", "formula"), PAIRS)
def test_signature(f, formula):
    def shape(g):
        parameters = inspect.signature(g).parameters.values()
        return [
            (p.name, p.kind, repr(p.default)) for p in parameters if p.name not in NOT_OF_THE_MAP
        ]

    assert shape(formula) == shape(f)


@pytest.mark.parametrize(("f", "formula"), PAIRS)
def test_values(f, formula):
    for case in cases(f):
        if ILL_CONDITIONED.search(case.name):
            continue
        with np.errstate(all="ignore"):
            got = formula(*case.inputs, **case.options)
        try:
            close(got, f(*case.inputs, **case.options), 1e-12)
        except AssertionError as error:
            error.add_note(f"case {case.name!r}, options {case.options}")
            raise


@pytest.mark.parametrize(("f", "formula"), PAIRS)
def test_the_dtype_is_that_of_the_inputs(f, formula):
    for case in cases(f)[:1]:
        inputs = cast(case.inputs, np.float32)
        options = {key: cast(value, np.float32) for key, value in case.options.items()}
        with np.errstate(all="ignore"):
            got, want = formula(*inputs, **options), f(*inputs, **options)
        for g, w in zip(leaves(got), leaves(want), strict=True):
            assert g.dtype == w.dtype or g.dtype.kind not in "f"


@pytest.mark.parametrize("chapter", MODULES)
def test_imports_numpy_alone(chapter):
    for node in ast.walk(ast.parse((FOLDER / f"{chapter}.py").read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [] if node.level == 1 else [node.module]  # of the other formulas
        else:
            continue
        assert {name.split(".")[0] for name in names} <= {
            "numpy", "scipy", "functools", "itertools", "math", "typing", "__future__",
        }  # fmt: skip
