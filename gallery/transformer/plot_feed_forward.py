r"""
Feed-forward layers
===================

How well do few hidden units draw a curve, and what does a gate add to them?
"""

# %%
# A sum of kinks
# --------------
# One number in, one out. Each ReLU contributes a kink; the output weights,
# found here by least squares, say how strong each is. With GELU the kinks are
# round.

import matplotlib.pyplot as plt
import numpy as np

from dlref.transformer import (
    FeedForwardParams,
    GatedFeedForwardParams,
    feed_forward,
    gated_feed_forward,
)

x = np.linspace(-3, 3, 301)[:, None]
curve = np.sin(2 * x)


def fitted(hidden, activation):
    """Place the kinks evenly, and fit the output weights."""
    w1 = np.where(np.arange(hidden) % 2, 1.0, -1.0)[:, None]
    b1 = -w1[:, 0] * np.linspace(-3, 3, hidden)
    units = FeedForwardParams(w1, b1, np.eye(hidden), None)
    h = np.stack(
        [
            feed_forward(
                x, units._replace(w2=row[None]), activation=activation
            )[:, 0]
            for row in np.eye(hidden)
        ],
        axis=1,
    )
    w2 = np.linalg.lstsq(np.hstack([h, np.ones_like(x)]), curve, rcond=None)[
        0
    ].T
    return FeedForwardParams(w1, b1, w2[:, :-1], w2[:, -1])


fig, axes = plt.subplots(1, 2, sharey=True)
for ax, activation in zip(axes, ("relu", "gelu"), strict=True):
    ax.plot(x, curve, color="0.6", lw=4, label="sin 2x")
    for hidden in (4, 8, 16):
        y = feed_forward(x, fitted(hidden, activation), activation=activation)
        ax.plot(x, y, lw=1.5, label=f"{hidden} units")
    ax.set(title=f"activation {activation}", xlabel="input x")
axes[0].set(ylabel="output")
fig.legend(
    *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4
)

# %%
# A product in one unit
# ---------------------
# A gated unit multiplies two linear forms. With the identity for a gate one
# unit is exactly :math:`x_1 x_2`. A plain network has to put the saddle
# together from folded planes.

side = np.linspace(-2, 2, 41)
points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
gate = GatedFeedForwardParams(
    np.array([[1.0, 0]]), np.array([[0.0, 1]]), np.array([[1.0], [0.0]])
)
product = gated_feed_forward(points, gate, activation="identity")[:, 0]
folds = np.array([[1.0, 1], [-1, -1], [1, -1], [-1, 1]])
plain = FeedForwardParams(
    folds, np.zeros(4), np.array([[1.0, 1, -1, -1], [0, 0, 0, 0]]), None
)
saddle = feed_forward(points, plain)[:, 0]

fig, axes = plt.subplots(1, 2, sharey=True)
for ax, z, title in zip(
    axes,
    (product, saddle),
    ("one gated unit, $x_1 x_2$", "four ReLUs, $|x_1+x_2|-|x_1-x_2|$"),
    strict=True,
):
    image = ax.contourf(
        side, side, z.reshape(41, 41), 15, cmap="RdBu_r", vmin=-4, vmax=4
    )
    ax.set(title=title, xlabel="$x_1$", aspect="equal")
    fig.colorbar(image, ax=ax, shrink=0.8)
axes[0].set(ylabel="$x_2$")
