r"""
Axial RoPE: rotation on a grid
==============================

How does the score of two equal vectors fall off across an image, if half of
the channels know the row and half the column?
"""

# %%
# Two axes, no distance
# ---------------------
# The score of a vector of ones at the center with the same vector elsewhere.
# Rows and columns contribute separate terms, so that the contours are not
# circles: along an axis one half of the score does not change at all.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import apply_rope_axial, rope_frequencies, rope_tables

side = 33
places = np.stack(np.meshgrid(*2 * [np.arange(side)], indexing="ij"), -1)
tables = rope_tables(places.reshape(-1, 2), rope_frequencies(32, base=100.0))
x = np.tile([1.0, 0.0], (side * side, 32))
rotated = apply_rope_axial(x, *tables)
score = (rotated @ rotated[side * side // 2]).reshape(side, side)

fig, ax = plt.subplots(figsize=(5, 4))
half = side // 2
image = ax.imshow(
    score, extent=(-half - 0.5, half + 0.5, half + 0.5, -half - 0.5)
)
ax.set(xlabel="columns from the center", ylabel="rows from the center")
ax.set_title("Score with the center")
fig.colorbar(image, label="score")

# %%
# Coordinates that share frequencies
# ----------------------------------
# Which coordinate turns which pair in models of videos: in sections, or in
# turns. Frequencies fall from left to right. A bar is the angle of a pair, for
# a token at 1 on the axis of this color and at 0 on the others: only the
# pairs of that axis turn.

from dlref.positions import rope_frequencies, rope_tables_multi

frequencies = rope_frequencies(32)
fig, axes = plt.subplots(2, 1, figsize=(7, 3.4), sharex=True)
for ax, interleaved in zip(axes, (False, True), strict=True):
    for k, name in enumerate(("time", "row", "column")):
        place = np.zeros((3, 1))
        place[k] = 1.0
        cos, sin = rope_tables_multi(
            place, frequencies, sections=(6, 5, 5), interleaved=interleaved
        )
        angle = np.arctan2(sin, cos)[0]
        pair = np.flatnonzero(angle)
        ax.bar(pair, angle[pair], color=f"C{k}", label=name, log=True)
    title = "in turns (Qwen3-VL)" if interleaved else "in sections (Qwen2-VL)"
    ax.set(title=title, ylabel="angle")
axes[0].legend()
axes[1].set_xlabel("pair")
fig.alt_text = "Bars of 16 pairs in three colors: three groups, or alternating."
