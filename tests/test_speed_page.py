"""What the page on speed says in words is what its table says."""

import csv
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from statistics import geometric_mean, median

import bench
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


def test_means_without_avx512(text):
    with (DOCS / "results" / "speed_avx2.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["PyTorch"]]
    said = re.search(r"Without AVX-512, .*? the mean over PyTorch is (\S+):", text)[1]
    assert float(said) == pytest.approx(geometric_mean(float(r["PyTorch"]) for r in rows), abs=0.01)
    times = [
        1 / float(row["PyTorch"])
        for row in rows
        if row["function"].startswith("scaled_dot_product_attention") and row["dtype"] == "float32"
    ]
    said = re.search(r"Attention in float32 takes (\S+) to (\S+) times as long", text).groups()
    assert [*map(float, said)] == pytest.approx([min(times), max(times)], abs=0.05)


@pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="features of x86")
def test_numba_is_held_to_avx2_too():
    """The name of a processor alone leaves numba the features of the machine."""
    code = "from dlref._core.jit import target_has as has; print(has('avx2'), has('avx512f'))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env={**os.environ, **bench.AVX2}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False"]


def test_a_library_may_be_left_out(tmp_path):
    table = {("attention", "document_mask", "4096", "float32"): ["2.0", "", "2.00", ""]}
    rows = bench.write(tmp_path / "speed_avx2.csv", table)
    assert bench.means(rows) == {"PyTorch": 2.0}
    assert (tmp_path / "slow_avx2.csv").exists()


def test_steps_of_optimizers(rows, text):
    said = re.search(r"the measured ratios in float32 are (\S+), (\S+) and (\S+)\.", text).groups()
    for number, name in zip(said, ("adam_step", "momentum_step", "sgd_step"), strict=True):
        assert float(number) == pytest.approx(share(rows, name, "float32"), abs=0.04)


@pytest.fixture
def reasons(text):
    return text.partition("Where the limits are")[2].partition("These are the rows")[0]


@pytest.mark.parametrize("end", ["", "_avx2"])
def test_rows_below_one_half_have_a_reason(end, reasons):
    tables = DOCS / "results" / f"speed{end}.csv", DOCS / "results" / f"slow{end}.csv"
    rows, slow = (list(csv.DictReader(path.read_text().splitlines())) for path in tables)
    assert slow == [r for r in rows if r["PyTorch"] and float(r["PyTorch"]) < bench.SLOW]
    maps = {r["function"].removesuffix("_vjp").removesuffix("_jvp") for r in slow}
    assert [name for name in sorted(maps) if f"``{name}``" not in reasons] == []


def test_momentum_in_float64(rows, reasons):
    said = re.search(r"(\S+) for ``momentum_step``", reasons)[1]
    assert float(said) == pytest.approx(share(rows, "momentum_step", "float64"), abs=0.04)


def test_the_table_has_the_order_of_the_benchmark(rows):
    order = [bench.key_of(row) for row in bench.rows_of(bench.SIZES)]
    places = [order.index(tuple(list(row.values())[:4])) for row in rows]
    assert places == sorted(places)


def test_rows_that_are_not_timed_stay(tmp_path, rows):
    table = bench.read(bench.RESULTS)
    last = bench.key_of(next(iter(bench.rows_of(["training"]))))
    table[last] = ["1.0", "", "0.30", ""]
    written = bench.write(tmp_path / "speed.csv", table)
    assert len(written) == len(table) >= len(rows)
    assert bench.read(tmp_path / "speed.csv") == table
    assert last in bench.read(tmp_path / "slow.csv")


def test_first_calls(text):
    with (DOCS / "results" / "cold.csv").open(newline="") as file:
        seconds = [float(s) for row in list(csv.reader(file))[1:] for s in row[1:3] if s]
    assert "The very first call costs a median of a fifth of a CPU second" in text
    assert median(seconds) == pytest.approx(0.2, abs=0.03)
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
