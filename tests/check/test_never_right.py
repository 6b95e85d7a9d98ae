"""Zeros, constants, an input and random numbers are right for no operation and no form."""

import dataclasses
import inspect

import numpy as np
import pytest
from chapters import CHAPTERS, FORMS

import dlref
from dlref import activations as act
from dlref import check
from dlref import normalization as norm
from dlref._core.pytree import is_float, rebuilt, tree_leaves
from dlref._records import spec_of
from dlref.check import _candidates
from dlref.check._oracle.examples import drawn_like, jvp_arguments


def filled(value, f):
    """Return a result whose arrays of floats are those that f makes of a shape."""
    if isinstance(value, tuple):
        return rebuilt(value, [filled(part, f) for part in value])
    return f(np.shape(value)).astype(np.asarray(value).dtype) if is_float(value) else value


def impostors(value, inputs):
    """Yield results that have nothing to do with the inputs, and an input of the same shape."""
    rng = np.random.default_rng(99)
    yield "zeros", filled(value, np.zeros)
    yield "ones", filled(value, np.ones)
    yield "a constant", filled(value, lambda shape: np.full(shape, 0.3))
    yield "random numbers", filled(value, lambda shape: rng.normal(size=shape))
    if not isinstance(value, tuple):
        same = [a for a in tree_leaves(inputs) if is_float(a) and np.shape(a) == np.shape(value)]
        yield from (("an input", a) for a in same)


def maps():
    for chapter in CHAPTERS:
        module = getattr(dlref, chapter)
        for name in module.__all__:
            f = getattr(module, name)
            known = spec_of(f)[0]
            if inspect.isfunction(f) and not name.endswith(FORMS) and not known.why_not:
                yield pytest.param(f, module, id=f"{chapter}.{name}")


def forms(f, module):
    """Yield what judges each form at the first inputs, its arguments and its result."""
    case = next(check.hard_inputs(f, "float32"))
    out, rng = f(*case.inputs, **case.options), np.random.default_rng(7)
    yield check.check_forward, case.inputs, case.options, out
    if (vjp := getattr(module, f"{f.__name__}_vjp", None)) is not None:
        given = drawn_like(out, rng), *case.inputs
        yield check.check_vjp, given, case.options, vjp(*given, **case.options)
    takes_name = next(iter(inspect.signature(f).parameters)) == "f"
    if (jvp := getattr(module, f"{f.__name__}_jvp", None)) is not None and not takes_name:
        given = jvp_arguments(spec_of(f)[0], case.inputs, rng)
        yield check.check_jvp, given, case.options, jvp(*given, **case.options)


@pytest.mark.parametrize(("f", "module"), list(maps()))
def test_impostors(f, module):
    for judge, given, options, result in forms(f, module):
        right = [a for a in tree_leaves(result) if is_float(a)]
        for what, impostor in impostors(result, given):
            if all(
                np.array_equal(a, b)
                for a, b in zip(tree_leaves(impostor), tree_leaves(result), strict=True)
            ):
                continue  # it is what is right: the gradient of a sum is one number
            verdict = judge(lambda *_, out=impostor, **__: out, f, *given, **options)
            assert not verdict, (judge.__name__, what, len(right))


LARGE = (np.float32(1e4) + np.arange(16, dtype=np.float32) * np.float32(1e-3))[None]


@pytest.mark.parametrize(
    ("op", "x"),
    [
        (norm.layer_norm, LARGE),
        (norm.rms_norm, np.float32([[1e20, -1e20, 2e20, 0]])),
        (act.tanhshrink, np.float32([1e-3, 2e-3])),
    ],
)
def test_zeros_are_not_right_where_the_allowance_reaches_the_value(op, x):
    verdict = check.check_forward(np.zeros_like, op, x)
    assert not verdict
    if verdict.inconclusive:
        assert "inconclusive" in str(verdict)
        assert "inconclusive" in verdict._repr_html_()
        assert verdict.cause == ""


def test_a_verdict_of_several_outputs_that_is_inconclusive_says_for_which():
    x = np.float32([[1e20, -1e20, 2e20, 0]])
    w, u = np.ones(4, np.float32), np.ones((1, 4), np.float32)
    verdict = check.check_vjp(norm.rms_norm_vjp, norm.rms_norm, u, x, w)
    assert str(verdict)
    blind = check.Verdict(False, (), "")
    assert not blind.inconclusive


def test_what_is_inconclusive_is_no_failure_of_a_report():
    report = check.check_all(act.tanhshrink, act.tanhshrink, vjp=act.tanhshrink_vjp)
    assert report
    verdict = check.check_forward(np.zeros_like, norm.layer_norm, LARGE)
    row = check.CheckRow("forward", "a case", verdict)
    only = check.CheckReport("layer_norm", "float32", (row,))
    if verdict.inconclusive:
        assert row.outcome == "inconclusive"
        assert not only
        assert not only.failed
        assert "inconclusive" in str(only)


def test_an_output_of_which_nothing_can_be_told_is_named():
    """For rows that are constant, the gradients of x and the weight are 0, but for rounding."""
    x = np.repeat(np.float32([[1.0], [2.0]]), 8, -1)
    u, w, b = np.random.default_rng(0).normal(size=(3, 2, 8)).astype("f")
    given = u, x, w[0], b[0]
    verdict = check.check_vjp(norm.layer_norm_vjp, norm.layer_norm, *given)
    inconclusive = [output for output in verdict.outputs if output.inconclusive]
    if inconclusive:
        assert verdict.ok == any(output.ok for output in verdict.outputs)
        assert "inconclusive for" in verdict.message
        assert not verdict.inconclusive
    case = check.TestCase("constant rows", (x, w[0], b[0]), {})
    report = check.check_all(None, norm.layer_norm, vjp=norm.layer_norm_vjp, cases=[case])
    assert len(report.inconclusive_outputs) == len(inconclusive)
    assert ("no case is conclusive for" in str(report)) == bool(inconclusive)


def test_outputs_that_cannot_be_told_are_said_of_a_right_verdict():
    right = check.check_forward(act.relu, act.relu, np.ones(4, np.float32)).outputs[0]
    blind = dataclasses.replace(right, ok=False, num_wrong=0, name="output 1")
    assert blind.inconclusive
    message = _candidates._summary([right, blind])
    assert message.startswith("1 of 2 outputs are right; inconclusive for output 1")
    verdict = check.Verdict(True, (right, blind), message)
    assert not verdict.inconclusive
    assert verdict.worst is right
    report = check.CheckReport("relu", "float32", (check.CheckRow("vjp", "a case", verdict),))
    assert report
    assert report.inconclusive_outputs == ("vjp: output 1",)
    assert "no case is conclusive for vjp: output 1" in str(report)
    assert "inconclusive for output 1" in str(report)
    assert check.Verdict(False, (blind, blind), _candidates._summary([blind, blind])).inconclusive
