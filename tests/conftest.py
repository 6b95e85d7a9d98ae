"""Fixtures and the tolerance policy of the test suite."""

import importlib
import platform
import sys

import numpy as np
import pytest

import dlref
from dlref._core import jit

#: Largest error allowed, relative to the largest of the terms that are summed up.
TOLERANCE = {
    "float64": 4e-15,  # against a complex step, PyTorch in float64, SciPy
    "float32": 64 * 2.0**-23,  # against the result in float64
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}

#: Whether a product and a sum are rounded once; without that, some errors are a little larger.
FUSED = jit.COMPILED and (platform.machine() in {"aarch64", "arm64"} or jit.target_has("fma"))


@pytest.fixture(autouse=True)
def same_draws_in_every_run():
    """Seed PyTorch's generator for each test; every generator of NumPy has a seed of its own."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def without_programs(monkeypatch):
    """Leave out the search for changed programs, which takes long where there is none."""
    causes = importlib.import_module("dlref.check._oracle.causes")
    monkeypatch.setattr(causes, "common_program", lambda cases: "")


@pytest.fixture
def set_num_threads(monkeypatch):
    """Return what sets the number of threads, be there so many processors or not."""
    before = dlref.get_num_threads()
    monkeypatch.setattr("dlref._core.threads.available", lambda: 64)
    yield dlref.set_num_threads
    dlref.set_num_threads(before)


@pytest.fixture
def assert_close():
    """Compare shape, dtype and values, the latter normwise."""

    def check(got, want, *, dtype=np.float64, scale=None, tolerance=None):
        if isinstance(want, tuple):
            assert isinstance(got, tuple)
            assert len(got) == len(want)
            for g, w in zip(got, want, strict=True):
                check(g, w, dtype=dtype, scale=scale, tolerance=tolerance)
            return
        if want is None:
            assert got is None
            return
        dtype = np.dtype(dtype)
        want = np.asarray(want, np.float64)
        assert np.shape(got) == want.shape
        assert got.dtype == dtype
        if scale is None:
            finite = np.abs(want[np.isfinite(want)])
            scale = np.max(finite, initial=0.0)
        limit = (TOLERANCE[dtype.name] if tolerance is None else tolerance) * scale
        np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=0, atol=limit)

    return check
