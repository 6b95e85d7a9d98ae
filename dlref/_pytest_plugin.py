"""The fixture that pytest finds wherever dlref is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from .check import CheckReport


@pytest.fixture(scope="session")
def dlref_check() -> Callable[..., CheckReport]:
    """Compare a kernel with a function of dlref on all hard inputs: dlref.check.check_all."""
    from .check import check_all  # noqa: PLC0415  # pytest imports this file in every project

    def check(candidate: Any, op: Any, **options: Any) -> CheckReport:
        __tracebackhide__ = True
        report = check_all(candidate, op, **options)
        if not report:
            pytest.fail(str(report), pytrace=False)
        return report

    return check
