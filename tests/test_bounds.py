"""The table of docs/measure/bounds.py: docstrings quote it, and fresh searches do not exceed it."""

import csv

import bounds
import numpy as np
import pytest
from conftest import FUSED

from dlref import activations
from dlref._core.jit import COMPILED

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant != 63, reason="long doubles of x86 are the reference"
)
with bounds.RESULTS.open(newline="") as file:
    TABLE = list(csv.DictReader(file))
WITH_OPTIONS = [name for name in bounds.NAMES if bounds.option_of(name)[0]]


def test_of_all_functions_in_both_dtypes():
    names = [*bounds.NAMES, *bounds.ROWS]
    assert [(row["function"], row["dtype"]) for row in TABLE] == [
        (name, dtype) for name in names for dtype in ("float64", "float32")
    ]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row['function']}-{row['dtype']}")
def test_is_what_the_docstring_says_and_holds(row):
    bound = float(row["published"])
    quoted = bounds.published(row["function"]) if row["dtype"] == "float64" else bounds.SINGLE
    assert float(row["largest found"]) <= bound == quoted


@pytest.mark.skipif(not FUSED, reason="the figures are those of fused operations")
@pytest.mark.parametrize(
    "row",
    [row for row in TABLE if row["with"]],
    ids=lambda row: f"{row['function']}-{row['dtype']}",
)
def test_the_worst_points_are_as_bad_as_the_table_says(row):
    option, _, value = row["with"].partition(" = ")
    task = row["function"], np.dtype(row["dtype"]), float(row["at"])
    error = bounds.confirmed(*task, {option: float(value)})
    np.testing.assert_allclose(error, float(row["largest found"]), rtol=1e-3)


@pytest.mark.parametrize("name", WITH_OPTIONS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_fresh_search_finds_nothing_larger(name, dtype, rng):
    seed, count = int(rng.integers(2**31)), 60_000 if COMPILED else bounds.CHUNK
    error, _, options, tried = bounds.search(name, np.dtype(dtype), count, seed)
    assert tried >= count
    assert options
    slack = 1.0 if FUSED else 1.3
    assert 0.4 < error <= slack * (bounds.published(name) if dtype == np.float64 else 0.501)


@pytest.mark.parametrize("name", ["softmax", "kl_divergence"])
def test_a_fresh_search_of_rows_finds_nothing_larger(name, rng):
    count = 60_000 if COMPILED else 100
    error, *_ = bounds.search_rows(name, np.dtype(np.float64), count, int(rng.integers(2**31)))
    assert 0 <= error <= bounds.published(name)


def test_a_wrong_digit_is_seen(monkeypatch):
    right, bound = activations.elu, bounds.published("elu")
    monkeypatch.setattr(activations, "elu", lambda x, **options: right(x, **options) * (1 + 2**-51))
    error, *_ = bounds.search("elu", np.dtype(np.float64), bounds.CHUNK, 0)
    assert error > 2 * bound
