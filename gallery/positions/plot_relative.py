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
    relative_bias,
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
