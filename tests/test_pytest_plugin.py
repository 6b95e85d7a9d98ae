"""The fixture dlref_check, in a project of somebody else."""

import importlib
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest_plugins = ["pytester"]

SUITE = """
import numpy as np
from dlref.activations import relu, relu_vjp

def test_right(dlref_check):
    assert dlref_check(lambda x: np.maximum(x, 0), relu, vjp=lambda u, x: u * (x > 0))

def test_wrong(dlref_check):
    dlref_check(lambda x: np.abs(x), relu)

def test_wrong_backward(dlref_check):
    dlref_check(None, relu, vjp=lambda u, x: 2 * u * (x > 0))
"""


@pytest.fixture
def outcome(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(SUITE)
    return pytester.runpytest_inprocess("-p", "dlref._pytest_plugin")


def test_passes_and_fails(outcome):
    outcome.assert_outcomes(passed=1, failed=2)


def test_the_report_is_the_failure(outcome):
    outcome.stdout.fnmatch_lines(["relu, float32: * cases are off*"])
    outcome.stdout.fnmatch_lines(["vjp *it is doubled*"])
    outcome.stdout.no_fnmatch_line("*Traceback*")


def test_is_found_by_pytest():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name = project["entry-points"]["pytest11"]["dlref"]
    assert hasattr(importlib.import_module(name), "dlref_check")
