"""The table that measure/normwise.py writes: each of its errors is there, and little is beyond."""

import csv

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
PRODUCTS_OF_FLOAT32 = {
    ("float32", name) for name in ("linear", "scaled_dot_product_attention", "rnn", "lstm", "gru")
}


def again(row, of):
    """Measure at the input that a row of the table names: the errors of value and vjp."""
    kind, size, seed = (row[key + of] for key in ("kind", "size", "seed"))
    return normwise.measured(row["function"], row["dtype"], kind, int(size), int(seed))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['function']}-{row['dtype']}")
def test_is_what_the_table_says(row):
    value, vjp = float(row["largest error"]), float(row["vjp"])
    slack = 1.5 if FUSED else 3.0  # the order of sums depends on the width of vectors
    if (row["dtype"], row["function"]) in PRODUCTS_OF_FLOAT32 and not FUSED:
        pytest.skip("interpreted, all products are NumPy's")
    found = again(row, "")[0][0], again(row, " of vjp")[1][0]
    assert found[0] <= slack * value
    assert found[1] <= slack * vjp
    if (row["dtype"], row["function"]) not in PRODUCTS_OF_FLOAT32:
        assert found[0] >= value / 3
        assert found[1] >= vjp / 3


@pytest.mark.parametrize("name", normwise.MAPS)
def test_another_search_finds_little_more(name):
    (row,) = [r for r in ROWS if r["function"] == name and r["dtype"] == "float64"]
    _, _, value, *_, vjp, _, _, _, _ = normwise.search((name, np.float64), 4e4, 77)
    slack = 1.25 if FUSED else 3.0
    assert float(value) <= slack * float(row["largest error"])
    assert float(vjp) <= slack * float(row["vjp"])


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
