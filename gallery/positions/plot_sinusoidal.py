r"""
Sinusoidal positions
====================

What does a table of sines and cosines look like, and which positions does it
make similar?
"""

# %%
# The table and its transpose
# ---------------------------
# Left 100 positions and 64 dimensions. The first dimensions are the fast
# ones, and the last hardly change. Right the transpose, as many papers print
# it, of a table of 512 positions and 128 dimensions: the fast waves are the
# top rows, and the lowest hardly change in 512 positions.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import sinusoidal

table, long = sinusoidal(100, 64), sinusoidal(512, 128)
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8))
axes[0].imshow(table, aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1)
axes[0].set(
    xlabel="dimension", ylabel="position", title="position by dimension"
)
image = axes[1].imshow(long.T, aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1)
axes[1].set(
    xlabel="position", ylabel="dimension", title="dimension by position"
)
fig.colorbar(image, ax=axes, label="value")

# %%
# Rows as curves
# --------------
# Neighboring positions differ in the first dimensions only, distant ones in
# more of them. Right the first 30 of 128 dimensions, for three neighbors:
# towards dimension 30 the rows come together.

fig, axes = plt.subplots(1, 2, figsize=(10, 3.4), sharey=True)
for ax, rows, places in (
    (axes[0], table, (0, 1, 10, 50)),
    (axes[1], long[:, :30], (0, 2, 4)),
):
    for p in places:
        ax.plot(rows[p], ".-", lw=1, ms=4, label=f"position {p}")
    ax.set(xlabel="dimension")
    ax.legend(loc="lower right", fontsize=8)
axes[0].set(ylabel="value", title="All of 64 dimensions")
axes[1].set_title("The first 30 of 128 dimensions")

# %%
# Who is like whom
# ----------------
# Dot products of all rows. Every diagonal has one value, because the product
# depends on the distance alone. It falls quickly at first, then waves.

gram = table @ table.T
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.6))
image = axes[0].imshow(gram)
axes[0].set(xlabel="position", ylabel="position", title="Gram matrix")
fig.colorbar(image, ax=axes[0], label="dot product")
axes[1].plot(np.arange(-50, 50), gram[50])
axes[1].set(xlabel="distance from position 50", ylabel="dot product")
axes[1].set_title("One row of it")

# %%
# Added to embeddings
# -------------------
# Four tokens with embeddings in the plane, and their sums at the positions 0 to
# 3: each position has the same arrow for every token. Arrows of length 1 are
# not small compared with such embeddings.

words = ["cat", "sat", "on", "mat"]
E = np.array([[1.0, 1.0], [1.0, 3.0], [3.0, 1.0], [3.0, 3.0]])
P = sinusoidal(4, 2)
fig, ax = plt.subplots(figsize=(5, 4))
ax.plot(*E.T, "o", label="embedding")
ax.plot(*(E + P).T, "s", label="with position")
ax.quiver(
    *E.T, *P.T, angles="xy", scale_units="xy", scale=1, width=0.006, color="C2"
)
for p, (word, place) in enumerate(zip(words, E, strict=True)):
    ax.annotate(f"{word}, {p}", place, (-6, -14), textcoords="offset points")
ax.set(xlim=(0, 4.5), ylim=(0, 4.5), aspect="equal")
ax.set(xlabel="dimension 0", ylabel="dimension 1", title="Tokens and positions")
ax.legend(loc="upper left")

# %%
# A grid
# ------
# The table of an image: half of the channels count rows, half columns. How
# alike the place in the middle is to all others: level lines follow the axes.

from dlref.positions import sinusoidal_grid

places = sinusoidal_grid((24, 24), 64)
fig, ax = plt.subplots(figsize=(4, 3.6))
image = ax.imshow(places @ places[12, 12])
ax.set(title="Dot product with the middle", xlabel="column", ylabel="row")
fig.colorbar(image, ax=ax)
fig.alt_text = "A bright cross along the row and the column of the middle."
