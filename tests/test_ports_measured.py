"""What the pages say of planted ports and of checkpoints is in the tables."""

import csv
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def table(name):
    with (DOCS / "results" / name).open(encoding="utf-8") as file:
        return [*csv.DictReader(file)]


def page(name):
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


def test_planted_ports():
    rows = table("ports.csv")
    wrong = [row for row in rows if not row["ports"].startswith("right")]
    right = [row for row in rows if row["ports"].startswith("right")]

    def total(rows, column):
        return sum(int(row[column]) for row in rows)

    planted, steps = total(wrong, "number"), total(wrong, "step right, or alarm")
    named, wrongly = total(wrong, "cause named"), total(wrong, "named wrongly")
    assert planted >= 80
    assert steps == planted
    assert named >= 0.85 * planted
    assert wrongly == 0
    assert total(right, "number") >= 60
    assert total(right, "step right, or alarm") == 0
    text = page("withstands.rst")
    assert f"all of the {planted} ports, and the text names {named} of the mistakes" in text
    assert f"None of the {total(right, 'number')} right ports raises an alarm" in text


def test_checkpoints():
    rows = {row["contents"]: row for row in table("checkpoints.csv")}
    by_name = rows["the parameters, from the file's name"]
    by_tensors = rows["the parameters, from a dictionary of its tensors"]
    read, times = rows["the bytes, by ``file.read``"], "times ``np.fromfile``"
    assert int(by_name["MB"]) >= 1000
    assert float(by_name[times]) <= 2
    assert float(by_name["memory by the state's size"]) <= 1.2
    said = re.search(
        r"takes ([\d.]+) times as long as ``np.fromfile`` of the whole file, or ([\d.]+) "
        r"times as long as ``file.read``, and ([\d.]+) times its size in memory. By way of a "
        r"dictionary it takes ([\d.]+) times as long and ([\d.]+) times the size",
        page("reference/interop.rst"),
    )
    faster = float(by_name["seconds"]) / float(read["seconds"])
    columns = times, "memory by the state's size"
    first, memory, second, double = (float(r[c]) for r in (by_name, by_tensors) for c in columns)
    want = [f"{value:.1f}" for value in (first, faster, memory, second, double)]
    assert [*said.groups()] == want


def test_a_layer_of_a_large_model():
    right, wrong = table("traced_layer.csv")
    assert right["first difference"] == ""
    assert "w_gate and w_up are exchanged" in wrong["cause"]
    assert max(float(row["GB of memory"]) for row in (right, wrong)) < 2
    text = page("reference/interop.rst")
    took = round(float(right["s to trace"]))
    assert f"took {right['GB of memory']} GB of memory and {took} seconds" in text
    took = round(float(wrong["s to judge"]))
    assert f"then {took} seconds and {wrong['GB of memory']} GB to find the cause" in text
