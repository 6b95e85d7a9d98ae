r"""
Speed ratios
============

How much longer do the others take? The page on speed explains shapes, threads
and the comparison.
"""

import csv
from pathlib import Path

import matplotlib.pyplot as plt

here = Path(__file__).parent if "__file__" in globals() else Path()
tables = here / "speed.csv", here / "../../docs/results/speed.csv"
table = next((each for each in tables if each.exists()), None)
if table is None:
    msg = "Put speed.csv, which the page offers, beside the script."
    raise SystemExit(msg)
with table.open(newline="") as file:
    rows = list(csv.DictReader(file))

# %%
# The largest shape of each function. Right of the line dlref is faster.

largest = {}
for row in rows:  # the last shape of a function is its largest
    largest[row["function"], row["dtype"]] = row
names = sorted({name for name, _ in largest}, reverse=True)

fig, axes = plt.subplots(
    1, 2, figsize=(10, 0.19 * len(names) + 1.2), sharey=True
)
for ax, dtype in zip(axes, ("float32", "float64"), strict=True):
    for library, marker in {"NumPy": "x", "PyTorch": "s", "JAX": "^"}.items():
        points = [
            (float(row[library]), name.removeprefix("scaled_dot_product_"))
            for (name, kind), row in largest.items()
            if kind == dtype and row[library]
        ]
        ax.plot(
            *zip(*points, strict=True), marker, ls="none", ms=5, label=library
        )
    ax.axvline(1, lw=0.8, color="0.5")
    ax.set(title=dtype, xscale="log", xlabel="time / time of dlref")
    ax.grid(axis="y", lw=0.4)
    ax.tick_params(axis="y", labelsize=7)
axes[0].margins(y=0.02)
fig.legend(
    *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3
)
