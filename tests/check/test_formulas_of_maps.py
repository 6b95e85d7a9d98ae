"""The formulas that measure what a right kernel may lose are those of their maps."""

import functools
import re

import ml_dtypes
import numpy as np
import pytest
from chapters import PLAIN, RECORDS, VARIANTS

import dlref
from dlref import check
from dlref._core.pytree import map_floats, tree_leaves
from dlref.check._oracle.examples import in_form
from dlref.check._oracle.formulas import REFUSALS, AtRandom, Computed, computed
from dlref.check._oracle.stochastic_rounding import stochastically_rounded

MAPS = {record.name: record for record in RECORDS if record.functions}
#: Inputs that lose more digits than these formulas keep.
ILL_CONDITIONED = re.compile(
    "far ahead|sure and right|offset|far from zero|huge|tiny|large|no variance"
)


def function(name, form):
    f = MAPS[name].functions[0]
    chapter = getattr(dlref, f.__module__.split(".")[1])
    return getattr(chapter, name if form == "forward" else f"{name}_{form}", None)


def cases(name, form, dtype="float64"):
    """Yield inputs and options of a form at which kernels break."""
    record, suffix = MAPS[name], "" if form == "forward" else f"_{form}"
    try:
        every = [*check.hard_inputs(record.f or record.functions[0], dtype)]
    except TypeError:  # nothing is known about its inputs
        return
    for case in every:
        if not ILL_CONDITIONED.search(case.name):
            yield in_form(record, suffix, case)


def refused(f, *inputs, **options):
    try:
        f(*inputs, **options)
    except (TypeError, ValueError):
        return True
    return False


def is_finite(value):
    return np.asarray(value).dtype.kind == "f" and np.isfinite(value).all()


def close(got, want, tolerance):
    got, want = tree_leaves(got), tree_leaves(want)
    assert len(got) == len(want)
    whole = max((np.max(abs(w), initial=0.0) for w in want if is_finite(w)), default=0.0)
    for g, w in zip(got, want, strict=True):
        if w is not None:
            assert np.shape(g) == np.shape(w)
        if is_finite(w):
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * whole)


@pytest.mark.parametrize(("name", "form"), PLAIN)
def test_a_formula_is_its_map(name, form):
    op = function(name, form)
    for _, inputs, options in cases(name, form) if op else ():
        if refused(op, *inputs, **options):
            continue
        want = op(*inputs, **options)
        for formula in (PLAIN[name, form], *VARIANTS.get((name, form), ())):
            for f in (formula, functools.partial(computed, formula)):
                with np.errstate(all="ignore"):
                    try:
                        got = f(*inputs, **options)
                    except REFUSALS:
                        if form == "jvp":  # of options that it does not have
                            continue
                        raise
                close(got, want, 1e-9)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "gelu", "gru_cell", "linear", "mish"])
def test_a_kernel_of_16_bits_returns_them(name, narrow, dtype):
    for form in ("forward", "vjp"):
        _, inputs, options = next(cases(name, form))
        rounded = map_floats(lambda a: np.asarray(a).astype(dtype), inputs)
        got = tree_leaves(computed(PLAIN[name, form], *rounded, narrow=narrow, **options))
        want = tree_leaves(function(name, form)(*inputs, **options))
        for g, w in zip(got, want, strict=True):
            assert g.dtype == dtype
            np.testing.assert_allclose(np.asarray(g, float), w, atol=0.1 * np.max(abs(w)))


@pytest.mark.parametrize("at_random", [False, True])
@pytest.mark.parametrize("name", ["layer_norm", "batch_norm", "rms_norm", "sparsemax"])
def test_a_kernel_of_32_bits_computes_in_them(name, at_random, rng):
    """`numpy.mean` divides by a count; without its `out`, the rest would be of 64 bits."""
    for form in ("forward", "vjp"):
        _, inputs, options = next(cases(name, form))
        narrow = map_floats(lambda a: np.asarray(a).astype(np.float32), inputs)
        if at_random:
            narrow = map_floats(lambda a: stochastically_rounded(a, rng), narrow)
        for value in tree_leaves(computed(PLAIN[name, form], *narrow, **options)):
            assert value.dtype == np.float32


@pytest.mark.parametrize("kind", [Computed, AtRandom])
def test_functions_of_numpy_keep_the_kind_of_an_array(kind):
    """Of a slope that begins with where(x > 0, x, 0), nothing was computed as kernels do."""
    x = np.linspace(-2, 2, 5, dtype=np.float32).view(kind)
    for out in (np.where(x > 0, x, 0), np.concatenate([x, x]), np.stack([x, x]), np.tril(x)):
        assert type(out) is kind
    assert type(np.where(x > 0, 1, 2)) is np.ndarray
