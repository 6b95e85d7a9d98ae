r"""
Relative position bias
======================

What does a bias that depends on the offset alone look like, and where does
its gradient go?
"""

# %%
# Forward and backward along diagonals
# ------------------------------------
# A table of eleven numbers fills a matrix of 36, each along its diagonal. The
# gradient of a number is the sum of the same diagonal: in the middle of six
# terms, at the ends of one.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import (
    disentangled_scores,
    relative_bias,
    relative_bias_grid,
    relative_bias_vjp,
    shaw_scores,
    transformer_xl_scores,
)

offset = np.arange(-5, 6)
table = np.exp(-(((offset + 1) / 2) ** 2))
fig, axes = plt.subplots(1, 3, figsize=(10, 3))
axes[0].bar(offset, table)
axes[0].set(xlabel="key − query", ylabel="number", title="table")
image = axes[1].imshow(relative_bias(table, 6, 6))
axes[1].set(xlabel="key", ylabel="query", title="bias")
fig.colorbar(image, ax=axes[1])
axes[2].bar(offset, relative_bias_vjp(np.ones((6, 6)), table, 6, 6))
axes[2].set(
    xlabel="key − query",
    ylabel="gradient",
    title="gradient if all cotangents are 1",
)

# %%
# A vector instead of a number
# ----------------------------
# Queries drawn at random, keys all zero, so that only the offsets score. With a
# number per offset all rows would look alike. Here each query has its own
# preferred offsets. Shaw's table ends at distance 4, beyond which the score is
# constant.

rng = np.random.default_rng(1)
T, E = 24, 8
q = rng.normal(size=(T, E))
shaw = shaw_scores(q, rng.normal(size=(9, E)))
zero = np.zeros(E)
xl = transformer_xl_scores(
    q, np.zeros((T, E)), rng.normal(size=(2 * T - 1, E)), zero, zero
)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8))
for ax, scores, title in (
    (axes[0], shaw, "Shaw, K = 4"),
    (axes[1], xl, "Transformer-XL"),
):
    image = ax.imshow(scores, cmap="RdBu_r", vmin=-8, vmax=8)
    ax.set(xlabel="key", ylabel="query", title=title)
fig.colorbar(image, ax=axes, label="score")

# %%
# DeBERTa's three terms
# ---------------------
# The same, with the terms apart: the query's content with positions varies from
# row to row, the key's content with positions from column to column.

k, places = rng.normal(size=(T, E)), rng.normal(size=(1, 16, E))
terms = {
    "query, position": (q, 0 * k, {"p2c": False}),
    "position, key": (0 * q, k, {"c2p": False}),
    "all three": (q, k, {}),
}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True)
for ax, (title, (a, b, flags)) in zip(axes, terms.items(), strict=True):
    ax.imshow(disentangled_scores([a], [b], places, places, **flags)[0])
    ax.set(title=title, xlabel="key")
axes[0].set_ylabel("query")
fig.alt_text = "Rows of their own, columns of their own, and the sum of three."

# %%
# A grid
# ------
# The bias of a window of four by four places, for a table that falls with the
# distance: a matrix of blocks, and the row of one query as a picture.

offset = np.arange(-3, 4)
table = -np.hypot.outer(offset, offset).reshape(-1, 1)
bias = relative_bias_grid(table, 4, 4)[0]
fig, axes = plt.subplots(1, 2, figsize=(7, 3.4))
axes[0].imshow(bias)
axes[0].set(title="all pairs", xlabel="key", ylabel="query")
axes[1].imshow(bias[5].reshape(4, 4))
axes[1].set(title="the query at (1, 1)", xlabel="column", ylabel="row")
fig.alt_text = "A block Toeplitz matrix, and one of its rows as a grid."
