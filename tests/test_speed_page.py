"""What the page on speed says in words is what its table says."""

import csv
import re
from pathlib import Path
from statistics import geometric_mean, median

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def text():
    return " ".join((DOCS / "speed.rst").read_text().split())


@pytest.fixture
def rows():
    with (DOCS / "results" / "speed.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def share(rows, function, dtype, library="PyTorch"):
    """Return the time of another library divided by dlref's."""
    found = [r for r in rows if (r["function"], r["dtype"]) == (function, dtype)]
    return float(found[0][library])


def test_gelu_of_pytorch(rows, text):
    said = re.search(r"PyTorch's is off by several units, and (\S+) times as fast", text)[1]
    assert said == f"{1 / share(rows, 'gelu', 'float32'):.1f}"


def test_means(rows, text):
    said = re.search(
        r"PyTorch takes (\S+) times as long as dlref, JAX (\S+) times, NumPy (\S+) times", text
    )
    means = {
        name: geometric_mean(float(r[name]) for r in rows if r[name])
        for name in ("PyTorch", "JAX", "NumPy")
    }
    assert float(said[1]) == pytest.approx(means["PyTorch"], abs=0.01)
    assert float(said[2]) == pytest.approx(means["JAX"], abs=0.05)
    assert float(said[3]) == pytest.approx(means["NumPy"], abs=0.05)


def test_steps_of_optimizers(rows, text):
    said = re.search(r"the measured ratios in float32 are (\S+), (\S+) and (\S+)\.", text).groups()
    for number, name in zip(said, ("adam_step", "momentum_step", "sgd_step"), strict=True):
        assert float(number) == pytest.approx(share(rows, name, "float32"), abs=0.04)


def test_rows_below_one_half_are_named(rows, text):
    slow = {(r["function"], r["dtype"]) for r in rows if r["PyTorch"] and float(r["PyTorch"]) < 0.5}
    named = {("gelu", "float32"), ("cross_entropy", "float32"), ("momentum_step", "float64")}
    assert slow == named
    words = r"(\S+), with GELU and cross-entropy of float32 the only rows below one half"
    said = re.search(words, text)[1]
    assert float(said) == pytest.approx(share(rows, "momentum_step", "float64"), abs=0.04)


def test_first_calls(text):
    with (DOCS / "results" / "cold.csv").open(newline="") as file:
        seconds = [float(s) for row in list(csv.reader(file))[1:] for s in row[1:3] if s]
    assert "The very first call costs a median of a quarter of a CPU second" in text
    assert median(seconds) == pytest.approx(0.25, abs=0.03)
    said = re.search(r"takes (\S+), the largest number here", text)[1]
    assert max(seconds) == pytest.approx(float(said), abs=0.05)


def test_more_threads_than_processors():
    with (DOCS / "results" / "threads.csv").open(newline="") as file:
        table = list(csv.reader(file))
    assert table[0][2:] == [f"ms, {count} threads" for count in (1, 2, 8, 64)]
    calls = {(name, processors) for name, processors, *_ in table[1:]}
    assert len(calls) == 4
    for _, _, one, *more in table[1:]:
        assert max(map(float, more)) <= 1.5 * float(one)
