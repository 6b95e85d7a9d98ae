r"""
Axial RoPE: rotation on a grid
==============================

How does the score of two equal vectors fall off across an image, if half of
the channels know the row and half the column?
"""

# %%
# Two axes, no distance
# ---------------------
# The score of a vector of ones at the centre with the same vector elsewhere.
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
ax.set(xlabel="columns from the centre", ylabel="rows from the centre")
ax.set_title("Score with the centre")
fig.colorbar(image, label="score")
