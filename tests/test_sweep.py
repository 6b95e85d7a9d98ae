"""A sample of tests/sweep.py: what the full sweep says of all float32 inputs."""

import numpy as np
import pytest
import sweep

from dlref._jit import COMPILED

COUNT = 40_000 if COMPILED else 100


@pytest.mark.skipif(not sweep.EXTENDED, reason="long double is no wider than double")
@pytest.mark.parametrize("name", sweep.REFERENCES)
def test_sample(name, rng):
    found = sweep.check(name, rng.integers(0, 2**32, COUNT, dtype=np.uint32))
    assert found["largest"] <= 0.501


@pytest.mark.skipif(not sweep.EXTENDED, reason="long double is no wider than double")
def test_an_error_is_seen(monkeypatch, rng):
    original = sweep.A.tanh
    wrong = lambda x: np.nextafter(original(x), np.float32(2))  # noqa: E731
    monkeypatch.setattr(sweep, "A", type("Wrong", (), {"tanh": staticmethod(wrong)}))
    found = sweep.check("tanh", rng.integers(0, 2**32, 1000, dtype=np.uint32))
    assert found["largest"] > 0.501
    assert found["not_correctly_rounded"]


def test_what_is_known_is_not_computed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "SIZE", 1000)
    first = sweep.chunk("tanh", 7, tmp_path)
    monkeypatch.setattr(sweep, "check", None)
    assert sweep.chunk("tanh", 7, tmp_path) == first
    assert sweep.summary("tanh", [first, first])["inputs"] == 2 * first["inputs"]
