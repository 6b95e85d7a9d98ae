"""Slips in plain formulas: they are found in the source, and named in a verdict."""

import contextlib
import functools
import importlib
import inspect
import itertools
import re
import sys

import numpy as np
import pytest
from chapters import PLAIN

from dlref import activations as act
from dlref import attention, check, losses, positions, recurrent
from dlref import normalization as norm
from dlref.check._oracle.calls import ReferenceCall
from dlref.check._oracle.causes import shared_values
from dlref.check._oracle.usual import through_maximum

# the package has a function of this name
mutations = importlib.import_module("dlref.check._oracle.causes.mutations")

R = np.random.default_rng(3)
X, U = R.normal(size=(2, 5, 7))
SOME = [
    ("silu", "vjp"),
    ("elu", "vjp"),
    ("swiglu", "vjp"),
    ("softmax", "vjp"),
    ("binary_cross_entropy", "forward"),
    ("scaled_dot_product_attention", "forward"),
]


def silu_backward(u, x):
    s = 1 / (1 + np.exp(-x))
    return u * s * (1 + x * (1 + s))


def silu_without_gate(u, x):
    return u / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("op", "wrong", "message"),
    [
        (act.silu, silu_backward, "1 + s stands where 1 - s is due"),
        (
            act.silu,
            silu_without_gate,
            "sigmoid(u) stands where sigmoid(u) + u * sigmoid_deriv(u) is due",
        ),
        (
            act.softmax,
            lambda u, x: act.softmax(x) * (u + (act.softmax(x) * u).sum(-1, keepdims=True)),
            "dout + mean stands where dout - mean is due",
        ),
        (act.elu, lambda u, x: u * np.where(x < 0, 1, x + 1), "x < 0 stands where x > 0 is due"),
    ],
)
def test_a_slip_is_named(op, wrong, message):
    verdict = check.check_vjp(wrong, op, U, X)
    assert not verdict
    assert message in verdict.cause


def test_a_slip_in_a_mean_is_named():
    y = (U > 0) * 1.0

    def loss(x, y):
        return (x - x * y + 2 * np.log1p(np.exp(-x))).mean()

    verdict = check.check_forward(loss, losses.binary_cross_entropy, X, y)
    assert "stands where" in verdict.cause
    narrow = [a.astype("f2") for a in (X, y)]
    half = check.check_forward(
        lambda *a: loss(*a).astype("f2"), losses.binary_cross_entropy, *narrow
    )
    assert half.cause == ""  # too few digits


@pytest.mark.parametrize("key", SOME)
def test_formulas_are_changed_one_place_at_a_time(key):
    formula = PLAIN[key]
    changed = [*mutations.mutants(formula)]
    assert len(changed) >= 10
    assert len({other for *_, other in changed}) == len(changed)
    inner = mutations.parts(formula)
    assert inner[0] is formula
    for stands, due, other in changed:
        assert stands != due
        assert [*inspect.signature(other).parameters] == [*inspect.signature(formula).parameters]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("x - np.mean(x, axis=-1, keepdims=True)", "x - mean(x, axis=-1)"),
        ("np.where(x.real > 0, x, np.expm1(x))", "where(x > 0, x, expm1(x))"),
        ("_shifted(x, dx, axis)", "shifted(x, dx, axis)"),
        ("np.eye(n, dtype=x.dtype) - one_hot(i, n).astype(x.dtype)", "eye(n) - one_hot(i, n)"),
        ("np.zeros(3, x.dtype) + np.asarray(w, x.dtype)", "zeros(3) + w"),
        ("scipy.special.ndtr(x).astype(x.dtype)", "ndtr(x)"),
        ("linear_attention(q, k, v, **options)", "linear_attention(q, k, v)"),
        ("2 * options", ""),
        ("x.dtype", ""),
    ],
)
def test_formulas_are_read_as_mathematics(text, read):
    assert mutations.as_read(text) == read


#: What no report may show: private names, options and dtypes.
PRIVATE = re.compile(r"(?<![\w'])_\w|\b(dtype|options|astype|np|real|scipy)\b")


def test_no_formula_has_private_names():
    raw, read = set(), set()
    for formula in PLAIN.values():
        few = itertools.islice(mutations.mutants(formula), 40)
        some = {text for *both, _ in few for text in both}
        raw |= some
        read |= {mutations.as_read(text) for text in some}
    assert len([text for text in raw if PRIVATE.search(text)]) > 500
    assert len(read) > 1000
    assert not [text for text in read if PRIVATE.search(text)]


PLANTED = [
    (norm.layer_norm, "forward", (X,), "mean"),
    (act.gelu, "forward", (X,), "normal_cdf"),
    (act.log_softmax, "vjp", (U, X), "softmax"),
    (act.swiglu, "vjp", (U, X, X[::-1]), "silu_deriv"),
    (losses.binary_cross_entropy, "forward", (X, (U > 0) * 1.0), "softplus"),
    (attention.scaled_dot_product_attention, "forward", (X, X + U, U), "for_all_queries"),
]


@pytest.mark.parametrize(("op", "form", "arguments", "name"), PLANTED)
def test_reports_on_slips_show_no_private_names(op, form, arguments, name):
    formula = PLAIN[op.__name__, form]
    of_name = (m for m in mutations.mutants(formula) if re.search(rf"\b_?{name}\(", m[1]))
    causes = []
    for *_, planted in itertools.islice(of_name, 6):
        # a change need not make sense
        with contextlib.suppress(AttributeError, NameError, TypeError):
            planted(*arguments)
            run = check.check_forward if form == "forward" else check.check_vjp
            report = run(planted, op, *arguments)
            assert not PRIVATE.search(f"{report!r} {report._repr_html_()}")
            causes.append(report.cause)
    assert any(f"{name}(" in cause for cause in causes)


def test_a_partial_is_a_formula():
    whole = PLAIN["softmax", "vjp"]
    by = functools.partial(through_maximum, whole)
    stands, due, other = next(mutations.mutants(by))
    assert (stands, due) != ("", "")
    assert isinstance(other, functools.partial)
    assert other.func is not through_maximum
    assert mutations.parts(by) == (through_maximum, *mutations.parts(whole))


def test_without_a_source_there_are_no_slips(monkeypatch):
    def missing(_):
        msg = "could not get source code"
        raise OSError(msg)

    monkeypatch.setattr(mutations.inspect, "getsource", missing)
    mutations._module.cache_clear()
    assert check.check_vjp(silu_backward, act.silu, U, X).cause == ""


def test_values_of_an_option_are_those_that_all_cases_have():
    rows = ["eps is 1e-08, not 1e-05", "eps is 1e-06 or 1e-08, not 1e-05", "beta is 2.0, not 1.0"]
    cause = "eps is 1e-08, not 1e-05"
    alike = shared_values([*rows, "it is zero"])
    assert alike == {rows[0]: cause, rows[1]: cause, rows[2]: rows[2]}
    assert shared_values(["eps is 1e-08, not 1e-05", "eps is 1e-06, not 1e-05"]) == {}


def test_a_case_whose_shapes_need_an_option_is_left_out():
    def rotate(x, cos, sin):
        return positions.apply_rope(x, cos, sin)

    report = check.check_all(rotate, positions.apply_rope)
    assert report
    assert {"rotary_dim", "interleaved"} <= {*report.skipped_options}


def test_the_formula_itself_has_no_slip():
    """At huge inputs, the tanh of the formula leaves roundings where the exact gradient is 0."""
    case = next(c for c in check.hard_inputs(recurrent.gru_cell, "float64") if c.name == "huge")
    dout = R.normal(size=np.shape(recurrent.gru_cell(*case.inputs)))
    with np.errstate(all="ignore"):
        verdict = check.check_vjp(
            PLAIN["gru_cell", "vjp"], recurrent.gru_cell, dout, *case.inputs, **case.options
        )
    assert "stands where" not in str(verdict)


def with_an_axis_more(x):
    return x[..., None] * np.ones(8)


def in_ten_steps(x):
    for _ in range(10):
        x = with_an_axis_more(x)
    return x


def test_a_program_whose_arrays_grow_is_ended():
    """Ten steps would need 8 GB; other profilers are left at work."""
    call = ReferenceCall(act.relu, "forward", (X[0, :1],), {})
    assert mutations.outputs_of(in_ten_steps, call) is None
    (small,) = mutations.outputs_of(with_an_axis_more, call)
    assert small.shape == (1, 8)
    events = []
    sys.setprofile(lambda frame, event, value: events.append(event))
    try:
        (same,) = mutations.outputs_of(with_an_axis_more, call)
    finally:
        sys.setprofile(None)
    assert "call" in events
    np.testing.assert_array_equal(small, same)
