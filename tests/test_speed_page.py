"""What the page on speed says in words is what its table says."""

import csv
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_gelu_of_pytorch():
    with (DOCS / "results" / "speed.csv").open(newline="") as file:
        rows = {(r["function"], r["dtype"]): r for r in csv.DictReader(file)}
    share = float(rows["gelu", "float32"]["PyTorch"])  # time of PyTorch's divided by dlref's
    text = " ".join((DOCS / "speed.rst").read_text().split())
    said = re.search(r"PyTorch's is off by several units, and (\S+) times as fast", text)[1]
    assert said == f"{1 / share:.1f}"
