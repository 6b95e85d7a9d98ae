"""A sample of docs/measure/sweep.py: what the full sweep says of all float32 inputs."""

import numpy as np
import pytest
import sweep

from dlref._core.jit import COMPILED

PIECES, COUNT = (16, 2000) if COMPILED else (3, 50)


@pytest.mark.parametrize("name", sweep.NAMES)
def test_sample(name, rng):
    for start in rng.integers(0, 2**31 - 2**23 - COUNT, PIECES).tolist():
        found = sweep.check(name, start + 2**31 * int(rng.integers(2)), COUNT)
        assert found["largest"] <= 0.501, found


@pytest.mark.parametrize("where", [1.0, -1e-3, 1e-30, 2e-39])
def test_an_error_is_seen(where, monkeypatch):
    start = int(np.float32(where).view(np.uint32))
    right = sweep.check("tanh", start, 64)
    original = sweep.A.tanh
    wrong = lambda x: np.nextafter(original(x), np.float32(2))  # noqa: E731
    monkeypatch.setattr(sweep, "A", type("Wrong", (), {"tanh": staticmethod(wrong)}))
    found = sweep.check("tanh", start, 64)
    assert right["largest"] <= 0.501 < found["largest"]
    assert right["not_correctly_rounded"] <= 1
    assert found["not_correctly_rounded"] >= 63


def test_ties_of_subnormal_numbers_are_decided_by_the_second_order(monkeypatch):
    start = int(np.float32(1e-40).view(np.uint32))
    assert sweep.check("gelu", start, 64)["not_correctly_rounded"] <= 32  # x/2 alone: a tie
    up = lambda x: np.ceil(x.astype(float) / 2 * 2.0**149) * 2.0**-149  # noqa: E731
    names = {"gelu": staticmethod(lambda x: up(x).astype(np.float32))}
    monkeypatch.setattr(sweep, "A", type("Up", (), names))
    assert sweep.check("gelu", start, 64)["not_correctly_rounded"] == 0


def test_what_is_known_is_not_computed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "SIZE", 1000)
    first = sweep.chunk("tanh", 7, tmp_path)
    monkeypatch.setattr(sweep, "check", None)
    assert sweep.chunk("tanh", 7, tmp_path) == first
    assert sweep.summary("tanh", [first, first])["inputs"] == 2 * first["inputs"]


def test_the_report_keeps_what_was_swept_before(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "RESULTS", tmp_path / "sweep.csv")
    row = {"inputs": 10, "largest": 0.25, "at": 1.0, "not_correctly_rounded": 2}
    sweep.report([{"name": "tanh", **row}])
    sweep.report([{"name": "sigmoid", **row}])
    text = (tmp_path / "sweep.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in text[1:]] == ["sigmoid", "tanh"]
    assert text[1].endswith(",2,2e+05")
