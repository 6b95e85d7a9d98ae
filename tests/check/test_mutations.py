"""What every function and every vjp returns, changed a little: it is called wrong."""

import inspect

import numpy as np
import pytest
from chapters import CHAPTERS, FORMS

import dlref
from dlref import check
from dlref._core.pytree import rebuilt, tree_leaves
from dlref.check._oracle.examples import drawn_like

pytestmark = pytest.mark.broad


def changed_at_the_median(change):
    """Return a change of one element: of the one whose size is the median of those not zero."""

    def changed(a):
        a = a.copy()
        order = np.argsort(np.abs(a), axis=None)
        order = order[np.flatnonzero(np.isfinite(a.flat[order]) & (a.flat[order] != 0))]
        a.flat[order[len(order) // 2]] = change(a.flat[order[len(order) // 2]])
        return a

    return changed


MUTATIONS = {
    "a thousandth more": lambda a: a * a.dtype.type(1.001),
    "one element zero": changed_at_the_median(lambda _: 0.0),
    "one element off by 3e-3": changed_at_the_median(lambda v: 1.003 * v),
    "one element NaN": changed_at_the_median(lambda _: np.nan),
    "rows moved on": lambda a: np.roll(a, 1, -2) if a.ndim > 1 else a,
    "in reverse order": lambda a: a[..., ::-1].copy() if a.ndim else a,
    "in float16": lambda a: a.astype(np.float16),
    "another axis": lambda a: a[None],
}


def mutants(value):
    """Yield a result whose largest output is changed, where that makes a difference."""
    outputs = [a for a in tree_leaves(value) if isinstance(a, np.ndarray | np.floating)]
    sizes = [np.max(np.abs(a), where=np.isfinite(a), initial=0.0) for a in outputs]
    if not max(sizes, default=0.0):
        return
    chosen = outputs[int(np.argmax(sizes))]
    for what, change in MUTATIONS.items():
        mutant = change(np.asarray(chosen))
        if mutant.dtype != chosen.dtype or not np.array_equal(mutant, chosen):
            yield what, with_one(value, chosen, mutant)


def with_one(value, old, new):
    """Return a result with one of its arrays, which is in nested tuples, exchanged."""
    if isinstance(value, tuple):
        return rebuilt(value, [with_one(part, old, new) for part in value])
    return new if value is old else value


def forms(chapter):
    """Yield each function of a chapter with what judges it and its inputs, and the vjp of a map."""
    module, rng = getattr(dlref, chapter), np.random.default_rng(0)
    for name in module.__all__:
        f = getattr(module, name)
        base = next((name.removesuffix(form) for form in FORMS if name.endswith(form)), "")
        if not inspect.isfunction(f) or hasattr(module, base):  # a form of another
            continue
        try:
            case = next(check.hard_inputs(f, "float32"))
        except TypeError:
            continue
        yield f, f, check.check_forward, case.inputs, case.options
        if (vjp := getattr(module, f"{name}_vjp", None)) is not None:
            dout = drawn_like(f(*case.inputs, **case.options), rng)
            yield f, vjp, check.check_vjp, (dout, *case.inputs), case.options


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_change_is_called_right(chapter):
    count = 0
    for op, f, judge, inputs, options in forms(chapter):
        for what, mutant in mutants(f(*inputs, **options)):
            count += 1
            verdict = judge(lambda *_, out=mutant, **__: out, op, *inputs, **options)
            assert not verdict, (f.__name__, what)
    assert count >= 7
