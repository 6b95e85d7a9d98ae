"""Tests of check: errors inside a mistake end them, and the bounds of a case are measured once."""

import pickle

import numpy as np
import pytest

from dlref.check import _candidates
from dlref.check._oracle import causes
from dlref.check._oracle.bounds import bounds


@pytest.fixture(autouse=True)
def raise_errors_of_mistakes(monkeypatch):
    """End a test with an error that a verdict of a user outlives."""
    monkeypatch.setattr(causes, "RAISE", True)


#: Bounds are measured on hundreds of evaluations; the same case is judged for many candidates.
KNOWN_BOUNDS: dict[bytes, tuple[list, list]] = {}
MAX_PICKLED, MAX_KNOWN = 2**16, 2**10


@pytest.fixture(autouse=True)
def keep_bounds(monkeypatch):
    """Measure the bounds of a call once, however many candidates are judged by them."""

    def known(call, want, dtypes, limits, times=1):
        names = [None if dtype is None else np.dtype(dtype).name for dtype in dtypes]
        try:
            key = pickle.dumps(
                (call.op, call.form, call.arguments, call.options, names, limits, times)
            )
        except Exception:
            key = b""  # a function that no module has
        if not key or len(key) > MAX_PICKLED:
            return bounds(call, want, dtypes, limits, times)
        if key not in KNOWN_BOUNDS:
            if len(KNOWN_BOUNDS) == MAX_KNOWN:
                KNOWN_BOUNDS.pop(next(iter(KNOWN_BOUNDS)))
            KNOWN_BOUNDS[key] = bounds(call, want, dtypes, limits, times)
        limit, moves = KNOWN_BOUNDS[key]
        return [*limit], [*moves]

    monkeypatch.setattr(_candidates, "bounds", known)
