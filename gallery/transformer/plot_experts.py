r"""
Mixtures of experts
===================

Which tokens go to which expert, and what does the balancing loss do about it?
"""

# %%
# Regions of a plane
# ------------------
# Tokens of two features, six experts: a router without a bias cuts the plane
# into sectors. A number stands in the direction of its expert's weight. Experts
# 4 and 5 are never the best: their weights lie inside of the hull of the other
# four. With k = 2 a sector belongs to a pair, and all six are chosen somewhere.

import matplotlib.pyplot as plt
import numpy as np

from dlref.transformer import (
    load_balancing_loss,
    load_balancing_loss_grad,
    top_k_router,
    top_k_router_vjp,
)

rng = np.random.default_rng(1)
weight = 2 * rng.normal(size=(6, 2))
side = np.linspace(-1, 1, 200)
plane = np.stack(np.meshgrid(side, side), axis=-1)

fig, axes = plt.subplots(1, 2, sharey=True)
for ax, k in zip(axes, (1, 2), strict=True):
    routing = top_k_router(plane, weight, k=k)
    pairs = np.sort(routing.experts, axis=-1)
    number = pairs[..., 0] if k == 1 else 6 * pairs[..., 0] + pairs[..., 1]
    _, region = np.unique(number, return_inverse=True)
    ax.imshow(
        region.reshape(number.shape),
        extent=(-1, 1, -1, 1),
        origin="lower",
        cmap="tab20",
    )
    for e, w in enumerate(weight / np.linalg.norm(weight, axis=1)[:, None]):
        ax.annotate(f"{e}", 0.8 * w, ha="center", va="center")
    ax.set(title=f"k = {k}", xlabel="feature 0")
axes[0].set(ylabel="feature 1")

# %%
# Balance
# -------
# Tokens that lie on one side leave some experts without work. Steps against the
# gradient of the balancing loss move the router, which has a bias now, until
# all have about the same share, here one sixth of the tokens each. The gray
# line is 1, the loss of an even load.

tokens = rng.normal(size=(600, 2)) + np.array([1.5, 0.5])
bias, shares, losses = np.zeros(6), [], []
for _ in range(400):
    routing = top_k_router(tokens, weight, k=1, bias=bias)
    shares.append(np.bincount(routing.experts.ravel(), minlength=6) / 600)
    losses.append(load_balancing_loss(routing.scores, routing.experts))
    dscores = load_balancing_loss_grad(routing.scores, routing.experts)
    _, dweight, dbias = top_k_router_vjp(
        (None, None, dscores), tokens, weight, k=1, bias=bias
    )
    weight, bias = weight - 0.1 * dweight, bias - 0.1 * dbias
assert abs(shares[-1] - 1 / 6).max() < 0.01

fig, axes = plt.subplots(1, 2)
axes[0].stackplot(range(400), np.transpose(shares))
axes[0].set(title="share of the tokens", xlabel="step", ylim=(0, 1))
axes[1].plot(losses)
axes[1].axhline(1, color="0.6", lw=1)
axes[1].set(title="balancing loss", xlabel="step")
plt.show()
