r"""
Group and instance normalization
================================

Batch, layer, group or instance: which elements share a mean and a variance?
"""

# %%
# One sample, one channel
# -----------------------
# Three samples (blocks) of six positions (rows) and six channels (columns).
# The gradient of one output, marked, reaches every element that shared its
# statistics, and nothing else.

import matplotlib.pyplot as plt
import numpy as np

from dlref.normalization import (
    batch_norm_vjp,
    group_norm_vjp,
    instance_norm_vjp,
    layer_norm_vjp,
)

rng = np.random.default_rng(0)
x, u = rng.normal(size=(3, 6, 6)), np.zeros((3, 6, 6))
u[1, 2, 3] = 1
reached = {
    "batch": batch_norm_vjp(u, x),
    "layer": layer_norm_vjp(u, x),
    "group, G = 1": group_norm_vjp(u, x, 1),
    "group, G = 3": group_norm_vjp(u, x, 3),
    "instance": instance_norm_vjp(u, x),
}

fig, axes = plt.subplots(1, 5, figsize=(7.5, 4), layout="compressed")
for ax, (title, dx) in zip(axes, reached.items(), strict=True):
    stacked = np.full((20, 6), np.nan)
    for sample in range(3):
        stacked[7 * sample : 7 * sample + 6] = np.log10(
            np.maximum(abs(dx[sample]), 1e-20)
        )
    image = ax.imshow(np.where(stacked < -19, np.nan, stacked), vmin=-3, vmax=0)
    ax.plot(3, 9, "o", mfc="none", mew=1.5, color="#D55E00")
    ax.set(title=title, xticks=[], yticks=[2.5, 9.5, 16.5], yticklabels=[])
    ax.set_xlabel("channel")
axes[0].set_yticklabels(["sample 1", "sample 2", "sample 3"])
fig.colorbar(image, ax=axes, label="log10 of the gradient's size", shrink=0.6)
fig.alt_text = (
    "Where the gradient of one output arrives. Batch norm: its channel in all "
    "samples. Layer norm: its row. One group: its whole sample. Three groups: "
    "two channels of it. Instance norm: one channel."
)
