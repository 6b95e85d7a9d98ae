r"""
Largest errors
==============

How many digits does each library lose at worst? The page on accuracy explains
points, dtypes and the unit.
"""

import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

here = Path(__file__).parent if "__file__" in globals() else Path()
tables = here / "accuracy.csv", here / "../../docs/results/accuracy.csv"
table = next((each for each in tables if each.exists()), None)
if table is None:
    msg = "Put accuracy.csv, which the page offers, beside the script."
    raise SystemExit(msg)
with table.open(newline="") as file:
    rows = list(csv.DictReader(file))

# %%
# One line per function, one mark per library. The gray line is half a unit in
# the last place, the least that rounding allows.

libraries = {"dlref": "o", "PyTorch": "s", "JAX": "^", "SciPy": "x"}
fig, axes = plt.subplots(1, 2, figsize=(10, 7), sharey=True)
for ax, dtype in zip(axes, ("float64", "float32"), strict=True):
    measured = [row for row in rows if row["dtype"] == dtype]
    names = [row["function"] for row in measured]
    for library, marker in libraries.items():
        errors = [float(row[f"{library} max"] or "nan") for row in measured]
        errors = np.minimum(errors, 1e17)  # infinite ones at the edge
        ax.plot(errors, names, marker, ls="none", label=library, ms=5)
    ax.axvline(0.5, lw=0.8, color="0.5")
    ax.set(
        title=dtype,
        xscale="log",
        xlabel="largest error (ULP)",
        xlim=(0.2, 3e17),
    )
    ax.grid(axis="y", lw=0.4)
axes[0].invert_yaxis()
axes[0].margins(y=0.02)
axes[1].legend(loc="lower right")
