r"""
Initializations, layer by layer
===============================

What do the activations of a deep network look like before training, and which
weights keep them alive?
"""

# %%
# Histograms through ten layers of tanh
# -------------------------------------
# Weights that are too small let everything shrink to zero, weights that are
# too large drive most units close to :math:`\pm 1`, where the slope is small.
# Glorot's variance does neither.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import tanh
from dlref.propagation import glorot_normal, lecun_normal, orthogonal

rng = np.random.default_rng(0)
n, depth, shown = 400, 10, (1, 4, 7, 10)
draws = {
    "too small, σ = 0.01": lambda shape: rng.normal(0, 0.01, shape),
    "too large, σ = 0.2": lambda shape: rng.normal(0, 0.2, shape),
    "Glorot, σ = 0.05": lambda shape: glorot_normal(rng, shape),
}

fig, axes = plt.subplots(3, len(shown), figsize=(8, 5), sharex=True)
for row, (name, draw) in zip(axes, draws.items(), strict=True):
    h = rng.normal(size=(200, n))
    for layer in range(1, depth + 1):
        h = tanh(h @ draw((n, n)).T)
        if layer in shown:
            ax = row[shown.index(layer)]
            ax.hist(h.ravel(), bins=41, range=(-1, 1), density=True)
            ax.set(yticks=[], title=f"layer {layer}" if ax in axes[0] else None)
    row[0].set_ylabel(name)
for ax in axes[-1]:
    ax.set_xlabel("activation")
fig.alt_text = (
    "Histograms of tanh activations in layers 1, 4, 7 and 10. Small weights: a "
    "spike at 0. Large weights: two spikes at -1 and 1. Glorot: a bell that "
    "narrows slowly."
)

# %%
# Mean squares are not enough
# ---------------------------
# Independent weights of variance :math:`1/n` keep the mean square of a
# gradient. Yet the singular values of a product of :math:`L` such matrices
# spread, and most directions are lost. Orthogonal matrices lose none.

n = 100
fig, axes = plt.subplots(1, 2, sharey=True)
for ax, draw, name in zip(
    axes,
    [lecun_normal, orthogonal],
    ["independent weights", "orthogonal"],
    strict=True,
):
    product = np.eye(n)
    for length in range(1, 33):
        product = draw(rng, (n, n)) @ product
        if length in (1, 2, 8, 32):
            s = np.linalg.svd(product, compute_uv=False)
            ax.semilogy(np.arange(1, n + 1), s, label=f"L = {length}")
    ax.set(title=name, xlabel="rank")
axes[0].set(ylabel="singular value", ylim=(1e-8, 30))
axes[0].legend()
fig.alt_text = (
    "Singular values of products of L random matrices: for independent weights "
    "they fall over more and more decades as L grows, for orthogonal ones all "
    "stay 1."
)
