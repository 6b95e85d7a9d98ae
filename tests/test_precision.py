"""What pages promise of the precision of float32, beside what the functions return."""

import numpy as np
import pytest
from cases import SPECS, Problem, applicable, form_of, key_of, leaves, public_functions
from topic_records import load

from dlref import calculus, losses, neurons, training
from dlref._core.jit import COMPILED

RNG = np.random.default_rng(0)
A, B, U = RNG.normal(size=(3, 40, 40))
X, W, Y = RNG.normal(size=(50, 40)), RNG.normal(size=40), RNG.normal(size=50)
RATE = {"learning_rate": 0.01}


def promise(topic):
    """Return what docs/_ext/facts.py writes on the page of a topic that was not measured."""
    chapter, name = topic.split(".")
    return load()[chapter].topics[name].precision


def is_rounded_once(f, arrays):
    """Whether results of float32 are those of float64, rounded."""
    low = [array.astype(np.float32) for array in arrays]
    results = f(*low), f(*(array.astype(np.float64) for array in low))
    got, want = (r if isinstance(r, tuple) else (r,) for r in results)
    assert all(g.dtype == np.float32 for g in got)
    return all(np.array_equal(g, w.astype(np.float32)) for g, w in zip(got, want, strict=True))


def cast(value, dtype):
    """Return arguments with their floating-point arrays in another dtype."""
    if isinstance(value, tuple | list):
        entries = [cast(entry, dtype) for entry in value]
        return type(value)(*entries) if hasattr(value, "_fields") else type(value)(entries)
    array = np.asarray(value)
    return array.astype(dtype) if array.dtype.kind == "f" and value is not None else value


def topic_of(name):
    """Return the topic of a function, chapter.topic: the module that it stands in."""
    return f"{name.partition('.')[0]}.{FUNCTIONS[name].__module__.rpartition('.')[2].lstrip('_')}"


FUNCTIONS = dict(public_functions())
CHAPTERS = (
    "calculus",
    "activations",
    "losses",
    "normalization",
    "positions",
    "attention",
    "recurrent",
)
ONCE = [
    name
    for name in FUNCTIONS
    if name.startswith(CHAPTERS) and "rounded once" in promise(topic_of(name))
]


@pytest.mark.skipif(not COMPILED, reason="interpreted, a float32 times a float is a float32")
@pytest.mark.parametrize("name", ONCE)
def test_float32_is_rounded_once(name):
    for call in SPECS[key_of(name)].calls:
        problem = Problem(key_of(name), call)
        low = cast(problem.arguments(form_of(name)), np.float32)
        options = applicable(name, problem)
        got, want = (leaves(FUNCTIONS[name](*a, **options)) for a in (low, cast(low, np.float64)))
        for one, exact in zip(got, want, strict=True):
            unit = np.spacing(np.abs(exact).astype(one.dtype)).astype(np.float64)
            with np.errstate(invalid="ignore"):  # infinities are equal
                units = np.abs(one - exact) / unit
            assert np.nanmax(units, initial=0.0) < 0.51


@pytest.mark.parametrize(
    ("topic", "f", "arrays"),
    [
        ("calculus.matmul", calculus.matmul_vjp, (U, A, B)),
        ("calculus.chain_rule", calculus.chain_rule, (A, B, U)),
        ("calculus.inverse", calculus.inverse_vjp, (U, A)),
        ("calculus.logdet", calculus.logdet_grad, (A,)),
        ("calculus.quadratic_form", calculus.quadratic_form_vjp, (A[0, 0], W, B)),
        ("calculus.dot", calculus.dot_vjp, (W, A, B)),
        ("neurons.neuron", lambda x, w: neurons.neuron(x, w, np.float32(0.5)), (X, W)),
        ("neurons.linear", neurons.linear, (X, A)),
        ("neurons.mlp", lambda x, *w: neurons.mlp(x, [(v, None) for v in w]), (X, A, B)),
        ("losses.neuron_squared_error", losses.neuron_squared_error_grad, (X, Y, W, Y[0])),
        ("training.clipping", lambda g: training.clip_by_norm(g, 1.0), (X,)),
        ("training.adam", lambda p, g: training.adam_step(p, g, None, **RATE)[0], (A, B)),
        (
            "training.fit_neuron",
            lambda X, y, w: tuple(training.fit_neuron(X, y, w, np.float32(0), **RATE, epochs=9)),
            (X, Y, W),
        ),
    ],
)
def test_float32(topic, f, arrays):
    said = promise(topic)
    assert is_rounded_once(f, arrays) == ("in float64" in said), said


def test_schedules_are_float64():
    rate = training.cosine_schedule(np.arange(9, dtype=np.float32), peak=1.0, steps=8)
    assert rate.dtype == np.float64
    assert promise("training.schedules") == "Computed in float64."
