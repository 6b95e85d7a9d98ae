r"""
What recent pieces buy
======================

Small models are trained with a piece and without it: what does it change?
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
# Means of three seeds.

titles = {
    "recalled": "share of the values recalled by their keys",
    "loss at 128": "loss at 128 characters, trained on 32",
    "largest share": "largest share of the tokens, of 8 experts",
}
shown = {q: [row for row in rows if row["quantity"] == q] for q in titles}
fig, axes = plt.subplots(
    3,
    1,
    figsize=(7, 5.5),
    height_ratios=[len(some) + 1 for some in shown.values()],
)
for ax, (quantity, some) in zip(axes, shown.items(), strict=True):
    names = [row["model"] for row in some]
    bars = ax.barh(names, [float(row["mean"]) for row in some], height=0.6)
    labels = [f"seeds differ by {float(row['spread']):.2f}" for row in some]
    ax.bar_label(bars, labels, padding=4)
    ax.margins(x=0.5)
    ax.invert_yaxis()
    ax.set(title=titles[quantity])
plt.show()
