r"""
Sparsemax
=========

How far behind may a score be before it gets no probability at all? Sparsemax
and softmax of the same scores, and their Jacobians.
"""

# %%
# One score against two others
# ----------------------------
# The first score moves, the others are 0 and 0.5. Solid: sparsemax, straight
# between its corners, exactly 0 or 1 at the ends. Dotted: softmax, never 0.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import (
    softmax,
    softmax_jacobian,
    sparsemax,
    sparsemax_jacobian,
)

t = np.linspace(-2, 3, 501)
scores = np.stack([t, np.zeros_like(t), np.full_like(t, 0.5)], axis=-1)
fig, ax = plt.subplots()
for k, label in enumerate(["moving score", "score 0", "score 0.5"]):
    ax.plot(t, sparsemax(scores)[:, k], color=f"C{k}", label=label)
    ax.plot(t, softmax(scores)[:, k], ":", color=f"C{k}")
ax.set(
    xlabel="moving score",
    ylabel="probability",
    title="Sparsemax (solid) and softmax (dotted)",
)
ax.legend()

# %%
# The projection onto the simplex
# -------------------------------
# Three probabilities that sum to one are a triangle. Random scores (gray) move
# to the nearest point of it: many to an edge, where one probability is 0, and
# some to a corner. Softmax stays inside.

rng = np.random.default_rng(0)
x = rng.normal(scale=0.8, size=(250, 3)) + 1 / 3
to_plane = np.array([[1.0, -0.5, -0.5], [0.0, np.sqrt(0.75), -np.sqrt(0.75)]])
corners = to_plane[:, [0, 1, 2, 0]]
fig, axes = plt.subplots(1, 2, figsize=(7.5, 3.6), sharex=True, sharey=True)
for ax, f in zip(axes, (sparsemax, softmax), strict=True):
    ax.plot(*corners, color="black", lw=1)
    before, after = x @ to_plane.T, f(x) @ to_plane.T
    ax.plot(*np.stack([before, after], axis=1).T, color="0.8", lw=0.6)
    ax.plot(*after.T, ".", color="C1")
    ax.set(title=f.__name__, aspect="equal", xticks=[], yticks=[])
fig.alt_text = (
    "Two triangles. Sparsemax puts many points onto the edges and corners; "
    "softmax puts all inside."
)

# %%
# The Jacobians
# -------------
# Of five scores two are outside of the support: their rows and columns are 0.
# Inside, all entries of a kind are equal. The Jacobian of softmax is full.

row = np.array([1.0, 0.8, 0.6, -0.2, -0.5])
fig, axes = plt.subplots(1, 2, figsize=(7, 3))
for ax, f in zip(axes, (sparsemax_jacobian, softmax_jacobian), strict=True):
    image = ax.imshow(f(row), cmap="RdBu_r", vmin=-0.7, vmax=0.7)
    ax.set(title=f.__name__, xlabel="score", ylabel="probability")
fig.colorbar(image, ax=axes, label="derivative")
fig.alt_text = (
    "The Jacobian of sparsemax has a block of 3 by 3; softmax's is full."
)
