"""
The fixtures and the marker that pytest finds wherever dlref is installed.

``dlref_check`` runs all cases in a test, ``dlref_case`` makes a test of each. With
``--dlref-report FOLDER`` both write their numbers, as JSON and as a page, for a build to keep.
"""

from __future__ import annotations

import inspect
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .check import CheckReport

#: The cases of each marked function, by its name.
RUNS = pytest.StashKey[dict[str, Any]]()
MARKER = "dlref(candidate, op, **options): a kernel, of which dlref_case makes a test for each case"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the folder of reports."""
    message = "write a report of each test with dlref_check or dlref_case here, as JSON and HTML"
    parser.getgroup("dlref").addoption("--dlref-report", metavar="FOLDER", help=message)


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker."""
    config.addinivalue_line("markers", MARKER)
    config.stash[RUNS] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for each case of a kernel."""
    if "dlref_case" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("dlref")
    if marker is None:
        msg = "A test with dlref_case needs the marker dlref(candidate, op, **options)."
        raise pytest.UsageError(msg)
    run = _run_of(marker, metafunc.definition.nodeid)
    metafunc.config.stash[RUNS][metafunc.definition.nodeid] = run
    names = [case.name for case, _ in run.plan]
    metafunc.parametrize("dlref_case", range(len(names)), ids=names, indirect=True)


def _run_of(marker: pytest.Mark, where: str) -> Any:
    """Prepare the run that a marker describes, which takes what check_all takes."""
    from .check import check_all  # noqa: PLC0415  # pytest imports this file in every project
    from .check._reports import prepared  # noqa: PLC0415

    known = inspect.signature(check_all)
    own = [p for name, p in known.parameters.items() if name != "progress"]
    try:
        known.replace(parameters=own).bind(*marker.args, **marker.kwargs)
        return prepared(*marker.args, **marker.kwargs)
    except (TypeError, ValueError) as error:
        msg = f"The marker dlref of {where} is wrong: {error}"
        raise pytest.UsageError(msg) from error


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Fail a test whose case is off; an exception of a fixture would be an error."""
    report: Any = pyfuncitem.funcargs.get("dlref_case")
    if report is not None and report.failed:
        pytest.fail(str(report), pytrace=False)


def _kept(request: pytest.FixtureRequest, report: CheckReport) -> None:
    """Write a report, if there is a folder for it."""
    if (folder := request.config.getoption("--dlref-report")) is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        # Names that differ in signs alone, as 1e4 and -1e4 do, get different checksums.
        node = request.node.nodeid
        name = re.sub(r"\W+", "_", node).strip("_")[:150] + f"_{zlib.crc32(node.encode()):08x}"
        report.to_json(Path(folder) / f"{name}.json")
        report.to_html(Path(folder) / f"{name}.html")


@pytest.fixture
def dlref_check(request: pytest.FixtureRequest) -> Callable[..., CheckReport]:
    """Compare a kernel with a function of dlref on all hard inputs: dlref.check.check_all."""
    from .check import check_all  # noqa: PLC0415  # pytest imports this file in every project

    def check(candidate: Any, op: Any, **options: Any) -> CheckReport:
        __tracebackhide__ = True
        report = check_all(candidate, op, **options)
        _kept(request, report)
        if not report:
            pytest.fail(str(report), pytrace=False)
        return report

    return check


@pytest.fixture
def dlref_case(request: pytest.FixtureRequest) -> CheckReport:
    """Compare a kernel with a function of dlref in one case of the marker ``dlref``."""
    run = request.config.stash[RUNS][request.node.nodeid.partition("[")[0]]
    report: CheckReport = run.report_on(request.param)
    if not report.rows:
        pytest.skip(f"not taken: {', '.join(report.skipped_options)}")
    _kept(request, report)
    if not report and not report.failed:
        pytest.skip(f"inconclusive: {report}")
    return report
