"""Tests of dlref._records."""

import functools
import subprocess
import sys

import numpy as np
import pytest

from dlref import activations, calculus, check, interop, neurons, recurrent
from dlref._records import UNKNOWN, spec_of
from dlref._records._spec import MapSpec, call
from dlref.check._oracle import causes
from dlref.check._oracle.calls import ReferenceCall


@pytest.mark.parametrize(
    ("f", "name", "form"),
    [
        (activations.softmax, "softmax", ""),
        (activations.softmax_vjp, "softmax", "_vjp"),
        (activations.logsumexp_hessian, "logsumexp", "_hessian"),
        (calculus.max_grad, "max", "_grad"),
        (calculus.inverse_jacobian, "inverse", "_jacobian"),
        (recurrent.rnn_state_jacobian, "rnn_state", "_jacobian"),
    ],
)
def test_a_form_has_the_record_of_its_map(f, name, form):
    record, found_form = spec_of(f)
    assert (record.name, found_form) == (name, form)


@pytest.mark.parametrize("f", [np.tanh, len, lambda x: x, check.check_all, object()])
def test_nothing_is_known_of_others(f):
    assert spec_of(f) == (UNKNOWN, "")


def test_a_call_has_the_record_of_its_map_alone():
    softmax = spec_of(activations.softmax)[0]
    of_axis = functools.partial(activations.softmax, axis=0)
    for op in (activations.softmax, of_axis):
        assert ReferenceCall(op, "vjp", (np.ones(2), np.ones(2)), {}).spec is softmax
    form = ReferenceCall(activations.softmax_vjp, "forward", (np.ones(2), np.ones(2)), {}).spec
    assert form.f is activations.softmax_vjp
    assert form.calls == UNKNOWN.calls


def test_why_nothing_is_known_is_said():
    assert spec_of(interop.conventions)[0].why_not
    assert not spec_of(neurons.linear)[0].why_not


def test_larger_calls_keep_what_depends_on_sizes():
    known = MapSpec(f=activations.silu, calls=[call((2, 1, 4)), call((3,), beta=2.0), call((0, 2))])
    assert [sample.shapes for sample in known.hard_samples] == [((6, 1, 12),), ((2, 1, 4),)]
    assert [sample.options for sample in known.option_samples] == [{"beta": 2.0}]
    needed = MapSpec(f=activations.silu, calls=known.calls, needed=("beta",))
    assert needed.hard_samples[-1].options == {"beta": 2.0}
    assert not needed.option_samples


def broken(_call):
    yield "unused", [np.zeros(3)]
    msg = "a bug"
    raise KeyError(msg)


def test_a_verdict_outlives_an_error_inside_a_mistake(monkeypatch):
    monkeypatch.setattr(causes.inputs, "other_inputs", broken)
    wrong = lambda x: np.sin(x) + x  # noqa: E731
    x = np.linspace(0.1, 1.0, 3)
    with pytest.raises(KeyError, match="a bug"):
        check.check_forward(wrong, activations.tanh, x)
    monkeypatch.setattr(causes, "RAISE", False)
    verdict = check.check_forward(wrong, activations.tanh, x)
    assert not verdict
    assert verdict.cause == ""


def test_a_verdict_outlives_an_error_inside_a_heuristic(monkeypatch):
    monkeypatch.setattr(causes, "GENERAL_HEURISTICS", (lambda _pair: {}["a bug"],))
    x = np.linspace(0.1, 1.0, 3)
    with pytest.raises(KeyError, match="a bug"):
        check.check_forward(np.sin, activations.tanh, x)
    monkeypatch.setattr(causes, "RAISE", False)
    assert not check.check_forward(np.sin, activations.tanh, x)


LOADED = """
import sys
import numpy as np
from dlref.activations import softmax
from dlref.check import check_forward
assert "dlref._records.activations" not in sys.modules
assert check_forward(softmax, softmax, np.ones((2, 3), np.float32))
print(*(name for name in sys.modules if name.startswith(("dlref._records", "dlref.tr"))))
"""


def test_records_of_other_chapters_are_not_loaded():
    run = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    loaded = {name.rpartition(".")[2] for name in run.stdout.split()}
    assert {"activations"} < loaded <= {"_records", "_spec", "_draw", "activations", "calculus"}
