"""The bounds of docs/error_bounds.rst hold for all inputs tried, and are nearly attained."""

import csv

import error_bounds
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long doubles are no wider than float64 here"
)
with error_bounds.RESULTS.open(newline="") as file:
    TABLE = list(csv.DictReader(file))


def of(row):
    return row["map"], row["computed by"], int(row["numbers"])


def test_of_all_maps_programs_and_sizes():
    assert [of(row) for row in TABLE] == [
        (name, program, size)
        for name in error_bounds.MAPS
        for program in error_bounds.PROGRAMS
        for size in error_bounds.SIZES
    ]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: "-".join(map(str, of(row))))
def test_is_what_the_table_says(row):
    inputs = error_bounds.inputs_of(*of(row), row["kind"], int(row["seed"]))
    share, error, bound = error_bounds.shares(*of(row)[:2], inputs)
    assert share < 1
    if row["computed by"].startswith("plain"):
        found = [float(row[name]) for name in ("share", "error", "bound")]
        np.testing.assert_allclose([share, error, bound], found, rtol=0.01)


@pytest.mark.parametrize("name", error_bounds.MAPS)
@pytest.mark.parametrize("program", error_bounds.PROGRAMS)
def test_no_other_input_exceeds_a_bound(name, program, rng):
    seeds = rng.integers(2**31, size=3)
    sizes = [2, 3, *rng.integers(5, 300, 3), 4097]
    assert all(float(error_bounds.worst(name, program, int(n), seeds)[5]) <= 1 for n in sizes)


@pytest.mark.parametrize("name", error_bounds.MAPS)
def test_the_bounds_are_nearly_attained(name):
    assert max(float(row["share"]) for row in TABLE if row["map"] == name) > 0.6


def of_squares(x):
    """Normalize with the mean of the squares minus the square of the mean."""
    n = x.dtype.type(x.shape[-1])
    mean, square = error_bounds.added(x) / n, error_bounds.added(x * x) / n
    return (x - mean) / np.sqrt(abs(square - mean * mean) + x.dtype.type(error_bounds.EPS))


WORSE = {
    "softmax": lambda x: error_bounds.plain_softmax(x.astype(np.float16)).astype(x.dtype),
    "log_softmax": lambda x: np.log(error_bounds.plain_softmax(x) + np.float32(1e-5)),
    "log_softmax of the largest score": lambda x: error_bounds.plain_log_softmax(x).max(
        -1, keepdims=True
    ),
    "rms_norm": lambda x, w: error_bounds.plain_rms_norm(x, w) * np.float32(1 + 1e-4),
    "layer_norm": of_squares,
    "linear": lambda x, w, b: x @ w.T + b.astype(np.float16),
    "attention": lambda *inputs: error_bounds.plain_attention(*inputs) * np.float32(1 + 1e-3),
}


@pytest.mark.parametrize("name", error_bounds.MAPS)
def test_a_worse_program_is_seen(name, monkeypatch):
    made = error_bounds.MAPS[name]._replace(plain=WORSE[name])
    monkeypatch.setitem(error_bounds.MAPS, name, made)
    assert float(error_bounds.worst(name, "plain, float32", 64)[5]) > 1


def test_a_norm_with_one_pass_exceeds_the_bound_at_a_large_mean():
    x = error_bounds.inputs_of("layer_norm", "plain, float32", 64, "offset", 0)[0]
    true, bound, _ = error_bounds.layer_norm(np.float32, x.astype(error_bounds.Long))
    assert np.max(abs(of_squares(x) - true) / bound) > 10
