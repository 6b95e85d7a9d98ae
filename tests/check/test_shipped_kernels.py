"""Liger's kernels in Triton's interpreter: right, but for one: ``tox run -e triton``."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from dlref import check

pytest.importorskip("liger_kernel")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("Triton's interpreter is not asked for", allow_module_level=True)
sys.path.append(str(Path(__file__).parents[2] / "docs" / "measure"))
# before Liger takes functions of the device from Triton
importlib.import_module("real").complete_interpreter()
liger = importlib.import_module("real.liger")
KERNELS = {kernel.name: kernel for kernel in liger.KERNELS}


def report_on(kernel, dtype="float32"):
    shapes = {"shapes": kernel.few} if kernel.few else {}
    return check.check_all(
        kernel.candidate, kernel.op, vjp=kernel.vjp, framework="torch", dtype=dtype, **shapes
    )


@pytest.mark.parametrize("name", sorted(KERNELS.keys() - {"group_norm"}))
def test_a_shipped_kernel_is_right(name):
    report = report_on(KERNELS[name])
    assert report, str(report)


def test_a_variance_that_cancels_is_named():
    report = report_on(KERNELS["group_norm"])
    assert next(iter(report.causes)).startswith("the variance cancels")
    assert {row.case for row in report.failed} == {"a mean of 100"}
