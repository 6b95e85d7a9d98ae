r"""
Sinkhorn's steps
================

A matrix of scores becomes doubly stochastic: rows and columns are divided by
their sums, by turns. Its limit, and how fast it is reached.
"""

# %%
# Half a step, one, and many
# --------------------------
# After the rows were divided by their sums, the columns (numbers below) do not
# sum to one. After the columns were, the rows (numbers at the right) do not. In
# the end both do.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import softmax
from dlref.normalization import sinkhorn

x = np.random.default_rng(3).normal(size=(4, 4)) * 1.5
matrices = {
    "rows divided": softmax(x),
    "then columns": sinkhorn(x, steps=1),
    "20 steps": sinkhorn(x),
}
fig, axes = plt.subplots(1, 3, figsize=(9, 3.3))
for ax, (title, p) in zip(axes, matrices.items(), strict=True):
    ax.imshow(p, cmap="Blues", vmin=0, vmax=1)
    for i in range(4):
        ax.text(3.6, i, f"{p[i].sum():.2f}", va="center")
        ax.text(i, 3.65, f"{p[:, i].sum():.2f}", ha="center", va="top")
    ax.set(title=title, xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
fig.alt_text = (
    "Three matrices as squares. The sums beside them are one for the rows in "
    "the first, for the columns in the second, and for both in the third."
)

# %%
# The rate
# --------
# The largest error of a row's sum after each step. The larger the scores, the
# closer the limit is to a permutation, its second singular value to 1, and the
# slower the steps. Dotted: the square of that value, raised to the steps.

steps = np.arange(1, 31)
fig, ax = plt.subplots()
for k, scale in enumerate((0.25, 0.5, 1)):
    errors = [
        np.abs(sinkhorn(scale * x, steps=int(n)).sum(-1) - 1).max()
        for n in steps
    ]
    limit = sinkhorn(scale * x, steps=5000)
    rate = np.linalg.svd(limit, compute_uv=False)[1] ** 2
    ax.semilogy(steps, errors, color=f"C{k}", label=f"scores times {scale:g}")
    ax.semilogy(steps, errors[4] * rate ** (steps - 5.0), ":", color=f"C{k}")
ax.set(
    xlabel="steps",
    ylabel="error of the sums",
    ylim=(1e-16, 2),
    title="The steps converge at a constant rate",
)
ax.legend()
