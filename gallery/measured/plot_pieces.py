r"""
What recent pieces buy
======================

Small models trained with a piece and without it: what does each change?
"""

import csv
from pathlib import Path

import matplotlib.pyplot as plt

here = Path(__file__).parent if "__file__" in globals() else Path()
name = "trained_pieces.csv"
tables = here / name, here / "../../docs/results" / name
table = next((each for each in tables if each.exists()), None)
if table is None:
    msg = "Put trained_pieces.csv, which the page offers, beside the script."
    raise SystemExit(msg)
with table.open(newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))

# %%
# Means of three seeds, with the distance between the best and the worst.

titles = {
    "recalled": "values recalled by their keys",
    "loss at 128": "loss at 128 characters, trained on 32",
    "largest share": "largest share of one of 8 experts",
}
fig, axes = plt.subplots(3, 1, figsize=(7, 5))
for ax, (quantity, title) in zip(axes, titles.items(), strict=True):
    some = [row for row in rows if row["quantity"] == quantity]
    means = [float(row["mean"]) for row in some]
    spread = [float(row["spread"]) / 2 for row in some]
    ax.barh([row["model"] for row in some], means, xerr=spread, height=0.6)
    ax.invert_yaxis()
    ax.set(title=title)
plt.show()
