"""The table of docs/measure/normwise.py: its errors are there, and draws find no larger ones."""

import csv
import math

import normwise
import numpy as np
import pytest
from conftest import FUSED

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long doubles are no wider than float64 here"
)
with normwise.RESULTS.open(newline="") as file:
    ROWS = list(csv.DictReader(file))

#: Their roundings depend on the processor's BLAS, or interpreted on NumPy's.
PRODUCTS = {"linear", "scaled_dot_product_attention", "rnn", "lstm", "gru"}


STEPS = normwise.read(normwise.STEPS, 3)


def starts(row):
    """Yield what a row says of value and gradients, and the changes that its climb kept."""
    for part, of in zip(normwise.PARTS, ("", " of vjp"), strict=True):
        kept = STEPS.get((row["function"], row["dtype"], part), [""])[0]
        start = row["kind" + of], int(row["size" + of]), int(row["seed" + of])
        largest = float(row["largest error" if part == "value" else "vjp"])
        yield largest, float(row["drawn" + of]), start, [int(step) for step in kept.split()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['function']}-{row['dtype']}")
def test_is_what_the_table_says(row):
    task = row["function"], row["dtype"]
    if row["function"] in PRODUCTS and row["dtype"] == "float32" and not FUSED:
        pytest.skip("interpreted, all products are NumPy's")
    slack = 1.5 if FUSED else 3.0  # the order of sums depends on the width of vectors
    for part, (largest, drawn, start, steps) in enumerate(starts(row)):
        assert drawn <= largest
        found = normwise.measured(*task, *start)[part][0]
        climbed = normwise.errors(task[0], normwise.replayed(*task, *start, steps))[part][0]
        assert max(found, climbed) <= slack * largest
        if (
            row["function"] not in PRODUCTS
        ):  # whose order differs from one library of BLAS to another
            assert found >= drawn / 3


@pytest.mark.parametrize("name", normwise.MAPS)
def test_another_search_finds_no_more(name):
    (row,) = [r for r in ROWS if r["function"] == name and r["dtype"] == "float64"]
    value, vjp = (draws[0][0] for draws in normwise.search((name, np.float64), 4e4, 77))
    slack = 1.25 if FUSED else 3.0
    assert value <= slack * float(row["largest error"])
    assert vjp <= slack * float(row["vjp"])


@pytest.mark.parametrize("name", ["rms_norm", "linear", "kl_divergence", "rnn"])
def test_a_climb_can_be_made_again(name):
    task, start = (name, np.float64), ("usual", 5, 3)
    before = normwise.measured(*task, *start)[0][0]
    best, steps = normwise.climb(task, 0, start, patience=200, seconds=math.inf)
    inputs = normwise.replayed(*task, *start, steps)
    assert normwise.errors(name, inputs)[0] == best
    assert best[0] > before
    assert normwise.MAPS[name].legal(*inputs)
    for (least, most), array in zip(
        normwise.limits_of(normwise.drawn(*task, *start)), inputs, strict=True
    ):
        assert least <= array.min() <= array.max() <= most


def test_what_a_climb_made_is_an_input():
    legal = normwise.MAPS["layer_norm"].legal
    u, x, w, b = normwise.drawn("layer_norm", np.float64, "usual", 8, 0)
    assert legal(u, x, w, b)
    assert not legal(u, 1e9 + x, w, b)
    u, x, start, w_ih, w_hh, bias = normwise.drawn("rnn", np.float64, "usual", 5, 0)
    assert not normwise.MAPS["rnn"].legal(u, x, start, 9 * w_ih, w_hh, bias)


def test_of_all_dtypes():
    assert {(row["function"], row["dtype"]) for row in ROWS} == {
        (name, dtype) for name in normwise.MAPS for dtype in ("float32", "float64")
    }


def test_a_wrong_result_is_seen(monkeypatch):
    made = normwise.MAPS["layer_norm"]

    def wrong(*inputs):
        value, grads = made.got(*inputs)
        return value * np.float32(1 + 1e-5), grads

    monkeypatch.setitem(normwise.MAPS, "layer_norm", made._replace(got=wrong))
    (value, _), _ = normwise.measured("layer_norm", np.float32, "usual", 64, 0)
    assert 80 < value < 90  # 1e-5 in units of 2^-23
