"""Slips in plain formulas: they are found in the source, and named in a verdict."""

import functools
import importlib
import inspect

import numpy as np
import pytest
from chapters import PLAIN

from dlref import activations as act
from dlref import check, losses, positions, recurrent
from dlref.check._oracle.causes import shared_values

# the package has a function of this name
slips = importlib.import_module("dlref.check._oracle.causes.slips")

R = np.random.default_rng(3)
X, U = R.normal(size=(2, 5, 7))
SOME = [
    ("silu", "vjp"),
    ("elu", "forward"),
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
    ("op", "wrong", "words"),
    [
        (act.silu, silu_backward, "1 + s stands where 1 - s is due"),
        (act.silu, silu_without_gate, "s stands where s * (1 + beta * x * (1 - s)) is due"),
        (
            act.softmax,
            lambda u, x: act.softmax(x) * (u + (act.softmax(x) * u).sum(-1, keepdims=True)),
            "dout + (p * dout).sum(axis) stands where dout - (p * dout).sum(axis) is due",
        ),
        (act.elu, lambda u, x: u * np.where(x < 0, 1, x + 1), "x < 0 stands where x > 0 is due"),
    ],
)
def test_a_slip_is_named(op, wrong, words):
    verdict = check.check_vjp(wrong, op, U, X)
    assert not verdict
    assert words in verdict.cause


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
    found = [*slips.mutants(formula)]
    assert len(found) >= 10
    assert len({other for *_, other in found}) == len(found)
    inner = slips.parts(formula)
    assert inner[0] is formula
    for stands, due, other in found:
        assert stands != due
        assert [*inspect.signature(other).parameters] == [*inspect.signature(formula).parameters]


def test_a_partial_is_a_formula():
    whole = PLAIN["softmax", "vjp"]
    by = functools.partial(whole, probabilities=PLAIN["softmax", "forward"])
    stands, due, other = next(slips.mutants(by))
    assert (stands, due) != ("", "")
    assert isinstance(other, functools.partial)
    assert other.func is not whole
    assert slips.parts(by) == slips.parts(whole)


def test_without_a_source_there_are_no_slips(monkeypatch):
    def missing(_):
        msg = "could not get source code"
        raise OSError(msg)

    monkeypatch.setattr(slips.inspect, "getsource", missing)
    slips._mutants.cache_clear()
    assert check.check_vjp(silu_backward, act.silu, U, X).cause == ""
    monkeypatch.undo()
    slips._mutants.cache_clear()


def test_values_of_an_option_are_those_that_all_cases_have():
    rows = ["eps is 1e-08, not 1e-05", "eps is 1e-06 or 1e-08, not 1e-05", "beta is 2.0, not 1.0"]
    one = "eps is 1e-08, not 1e-05"
    alike = shared_values([*rows, "it is zero"])
    assert alike == {rows[0]: one, rows[1]: one, rows[2]: rows[2]}
    assert shared_values(["eps is 1e-08, not 1e-05", "eps is 1e-06, not 1e-05"]) == {}


def test_a_case_whose_shapes_need_an_option_is_left_out():
    def rotate(x, cos, sin):
        return positions.apply_rope(x, cos, sin)

    report = check.check_all(rotate, positions.apply_rope)
    assert report
    assert {"rotary_dim", "interleaved"} <= {*report.left_out}


def test_the_formula_itself_has_no_slip():
    """At huge inputs, the tanh of the formula leaves roundings where the exact gradient is 0."""
    case = next(c for c in check.hard_inputs(recurrent.gru_cell, "float64") if c.name == "huge")
    dout = R.normal(size=np.shape(recurrent.gru_cell(*case.inputs)))
    with np.errstate(all="ignore"):
        verdict = check.check_vjp(
            PLAIN["gru_cell", "vjp"], recurrent.gru_cell, dout, *case.inputs, **case.options
        )
    assert "stands where" not in str(verdict)
