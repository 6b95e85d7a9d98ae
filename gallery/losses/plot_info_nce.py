r"""
Contrastive losses
==================

Which elements of the matrix of similarities does each loss push, and how hard?
"""

# %%
# Similarities and gradients
# --------------------------
# Eight pairs; the third and the fourth are much alike. The softmax pushes where
# two items compete for one partner; the sigmoid asks each element alone.

import matplotlib.pyplot as plt
import numpy as np

from dlref.losses import info_nce, info_nce_grad, siglip_loss, siglip_loss_grad

rng = np.random.default_rng(0)
similarity = rng.normal(size=(8, 8)) + 4 * np.eye(8)
similarity[2, 3] = similarity[3, 2] = 4.5
softmax_grad = info_nce_grad(similarity, reduction="sum")
sigmoid_grad, _ = siglip_loss_grad(similarity, -2.0, reduction="sum")
fig, axes = plt.subplots(1, 3, figsize=(10, 3))
pictures = {
    "similarity": similarity,
    "gradient, InfoNCE": softmax_grad,
    "gradient, SigLIP": sigmoid_grad,
}
for ax, (title, matrix) in zip(axes, pictures.items(), strict=True):
    most = abs(matrix).max()
    image = ax.imshow(matrix, cmap="RdBu_r", vmin=-most, vmax=most)
    ax.set(title=title, xlabel="caption", ylabel="image")
    fig.colorbar(image, ax=ax)

# %%
# Temperature
# -----------
# The losses of 256 pairs of noisy vectors over the factor of similarities.
# The mean cannot fall below a floor set by the noise. Beyond the best factor
# the few pairs that are confused cost more and more.

x = rng.normal(size=(256, 32))
y = x + 0.8 * rng.normal(size=x.shape)
x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, y))
factors = np.logspace(0, 2.5, 40)
fig, ax = plt.subplots()
ax.loglog(factors, [float(info_nce(t * x @ y.T)) for t in factors])
for k, bias in enumerate((-5.0, -10.0)):
    values = [float(siglip_loss(t * x @ y.T, bias)) for t in factors]
    ax.loglog(
        factors, values, "--", color=f"C{k + 1}", label=f"SigLIP, {bias:g}"
    )
ax.lines[0].set_label("InfoNCE")
ax.axhline(np.log(256), color="0.5", ls=":", label="log N")
ax.set(xlabel="inverse temperature", ylabel="loss", title="Losses of 256 pairs")
ax.legend()

# %%
# One negative at a time
# ----------------------
# The triplet loss over the place of the negative, for an anchor at the origin
# and a positive one unit to its right. It is 0 beyond twice the unit: outside
# a circle around the anchor, or, with the swap, around both of them.

from dlref.losses import triplet_margin_loss

side = np.linspace(-3, 4, 141), np.linspace(-3, 3, 121)
negative = np.stack(np.meshgrid(*side), axis=-1)
anchor = np.zeros(negative.shape)
positive = anchor + np.array([1.0, 0.0])
fig, axes = plt.subplots(1, 2, figsize=(7, 3.3), sharey=True)
for ax, swap in zip(axes, (False, True), strict=True):
    options = {"swap": swap, "reduction": "none"}
    loss = triplet_margin_loss(anchor, positive, negative, **options)
    lines = ax.contour(*side, loss, levels=[0.01, 0.5, 1, 1.5])
    ax.clabel(lines, fontsize=7)
    ax.plot([0], [0], "o", color="C0", label="anchor")
    ax.plot([1], [0], "s", color="C1", label="positive")
    ax.set(aspect="equal", xlabel="first component", title=f"swap={swap}")
axes[0].set(ylabel="second component")
axes[0].legend(fontsize=8, loc="lower left")
