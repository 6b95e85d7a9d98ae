"""What the page says of planted kernels, and of the cases that find them, is in the tables."""

import csv
from pathlib import Path

from test_ports_measured import page, table

ROOT = Path(__file__).parents[1]

RIGHT = ("formulas", "dlref", "PyTorch", "JAX", "other seeds")
NUMBERS = {20: "Twenty", 21: "Twenty-one", 22: "Twenty-two"}


def total(rows, column):
    return sum(int(row[column]) for row in rows)


def test_planted_kernels():
    rows = table("planted.csv")
    wrong = [row for row in rows if row["source"] not in RIGHT]
    right = {row["source"]: row for row in rows[len(wrong) :]}
    assert {*right} == {*RIGHT}
    assert total(wrong, "kernels") >= 400
    assert total(wrong, "flagged") == total(wrong, "kernels")
    assert total(wrong, "named") >= 0.85 * total(wrong, "kernels")
    assert total(wrong, "named wrongly") == 0
    again = right.pop("other seeds")
    count = total(right.values(), "kernels")
    assert count >= 300
    assert int(again["kernels"]) == 5 * (count // 10)
    alarms = total([*right.values(), again], "flagged")
    text = page("withstands.rst")
    assert "the last five rows are right kernels" in text
    assert f"There are {alarms} alarms." in text
    assert {name for name, row in right.items() if int(row["flagged"])} <= {"formulas", "PyTorch"}
    (tests,) = (row for row in wrong if row["source"] == "tests")
    unknown = int(tests["kernels"]) - int(tests["named"])
    assert f"{NUMBERS[unknown]} rows of the tests are unknown mistakes" in text


def test_no_cell_is_a_hyphen():
    """A page would show it as a list of one empty item."""
    for path in sorted((ROOT / "docs/results").glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert "-" not in cells, path.name


def test_kinds_of_cases():
    rows = table("planted_cases.csv")
    assert len({row["case"] for row in rows}) == len(rows) >= 10
    assert all(int(row["alone"]) <= int(row["flags"]) <= int(row["wrong kernels"]) for row in rows)
    assert total(rows, "alone") > 0


def test_kernels_that_libraries_ship():
    rows = table("real.csv")
    assert len({(*row.values(),)[:4] for row in rows}) == len(rows)
    off = {(row["library"], row["kernel"]) for row in rows if int(row["off"])}
    right = [row for row in rows if not int(row["off"])]
    assert off == {
        ("liger", "group_norm"),
        *(("liger", "cross_entropy"), ("pytorch", "cross_entropy")),
        ("pytorch", "cross_entropy, compiled"),
    }
    # where none is right, the kernel takes no case
    assert all(int(row["right"]) for row in right)
    assert f"Of {len(rows)} lines {len(right)} are right in all cases." in page("withstands.rst")
    assert len(rows) - len(right) == 11
