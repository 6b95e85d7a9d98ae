"""docs/conventions.rst names functions that are plain NumPy: calls of them compile nothing."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")
BEFORE = """
import numpy as np
from numba.core.dispatcher import Dispatcher
def refuse(self, *_):
    raise AssertionError(f"{self.py_func.__name__} is compiled")
Dispatcher.compile = refuse  # which also loads what was compiled before
from dlref import activations, calculus, losses, neurons
w, x = np.array([2.0, 3, 4]), np.array([5.0, 6, 7])
"""
PLAIN = """
for name in ("add", "subtract", "multiply", "divide"):
    getattr(calculus, f"{name}_jacobian")(w, x)
    getattr(calculus, f"{name}_vjp")(w, w, x)
    getattr(calculus, f"{name}_jvp")((w, x), (w, x))
calculus.chain_rule(np.eye(3), np.ones((3, 3)))
calculus.total_derivative([np.ones((3, 2))], [np.ones((2, 3))])
neurons.neuron(x, w, 0.1, activation="identity")
losses.neuron_squared_error(np.ones((4, 3)), np.ones(4), w, 0.1)
"""


def run(calls):
    """Run calls where nothing may be compiled; return what went wrong."""
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + calls],
        env={**os.environ, "NUMBA_DISABLE_JIT": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr


def test_they_compile_nothing():
    assert run(PLAIN) == ""


def test_others_do():
    assert "is compiled" in run("activations.gelu(x)")
