"""The fixture dlref_check, in a project of somebody else."""

import importlib
import tomllib
from pathlib import Path

import numpy as np
import pytest

from dlref import check
from dlref.activations import relu

relu(np.ones(2, np.float32))  # modules first loaded within pytester would be loaded twice
check.check_all(relu, relu)
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


CASES = """
import numpy as np
import pytest
from dlref.activations import silu
from dlref.check import TestCase
from dlref.losses import cross_entropy

@pytest.mark.dlref(lambda x: x / (1 + np.exp(-np.where(x.size == 111, 2 * x, x))), silu)
def test_silu(dlref_case):
    assert dlref_case.op == "silu"

LOST = TestCase("lost", (np.float32([[30, 0]]), np.array([0])), {})

@pytest.mark.dlref(lambda *_: np.float32(0), cross_entropy, cases=[LOST])
def test_lost(dlref_case):
    pass

def test_right(dlref_check):
    dlref_check(silu, silu)
"""


@pytest.mark.usefixtures("without_programs")
def test_a_test_for_each_case_with_its_reports(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(CASES)
    arguments = ("-p", "dlref._pytest_plugin", "-rs", "-W", "ignore", "--dlref-report", "kept")
    outcome = pytester.runpytest_inprocess(*arguments)
    counts = outcome.parseoutcomes()
    assert counts["failed"] >= 1  # the length that is no multiple of a tile
    assert counts["passed"] >= 10
    assert counts["skipped"] == 2
    outcome.stdout.fnmatch_lines(["*not taken: beta*"])
    outcome.stdout.fnmatch_lines(["*inconclusive*"])
    kept = [path.name for path in (pytester.path / "kept").iterdir()]
    assert sum(name.endswith(".json") for name in kept) == counts["failed"] + counts["passed"] + 1
    assert len({name.partition(".")[0] for name in kept}) == len(kept) / 2


SIGNS = """
import pytest
from dlref.activations import relu

@pytest.mark.parametrize("offset", [1e4, -1e4], ids=["an offset of 1e4", "an offset of -1e4"])
def test_relu(dlref_check, offset):
    dlref_check(relu, relu)
"""


def test_names_of_reports_differ_by_a_sign(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(SIGNS)
    pytester.runpytest_inprocess("-p", "dlref._pytest_plugin", "--dlref-report", "kept")
    assert len([*(pytester.path / "kept").glob("*.json")]) == 2


def test_a_case_needs_a_marker(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile("def test_it(dlref_case):\n    pass\n")
    outcome = pytester.runpytest_inprocess("-p", "dlref._pytest_plugin")
    outcome.stdout.fnmatch_lines(["*needs the marker dlref(candidate, op*"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("relu, relu, tolerance=1", "got an unexpected keyword argument 'tolerance'"),
        ("relu, relu, progress=print", "got an unexpected keyword argument 'progress'"),
        ("op=relu", "missing a required argument: 'candidate'"),
        ("relu, relu, relu", "too many positional arguments"),
        ("relu, relu, factor='2'", "Argument 'factor' must be"),
        ("None, relu", "Argument 'candidate' must be a function"),
        ("relu, 3", "Argument 'op' must be"),
        ("relu, relu, dtype='int8'", "int8"),
    ],
)
def test_a_marker_that_is_wrong_is_an_error_of_usage(pytester, monkeypatch, arguments, message):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        f"""
        import pytest
        from dlref.activations import relu

        @pytest.mark.dlref({arguments})
        def test_relu(dlref_case):
            pass
        """
    )
    outcome = pytester.runpytest_inprocess("-p", "dlref._pytest_plugin")
    outcome.stdout.fnmatch_lines([f"*The marker dlref of *test_relu is wrong: *{message}*"])
    outcome.stdout.no_fnmatch_line("*Traceback*")


def test_is_found_by_pytest():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name = project["entry-points"]["pytest11"]["dlref"]
    assert hasattr(importlib.import_module(name), "dlref_check")
