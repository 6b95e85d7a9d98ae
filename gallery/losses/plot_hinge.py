r"""
Hinge loss
==========

When is the gradient of a right answer zero? For the hinge loss it is zero from
a margin of one on; for the cross-entropy it never is.
"""

# %%
# Two bounds of the number of errors
# ----------------------------------
# Loss and gradient against the margin :math:`t p`. The step is the number of
# errors, which you would like to minimize; it has no useful gradient. In bits,
# the cross-entropy lies above it as the hinge does.

import matplotlib.pyplot as plt
import numpy as np

from dlref.losses import (
    binary_cross_entropy,
    binary_cross_entropy_grad,
    hinge,
    hinge_grad,
)

margin = np.linspace(-3, 3, 601)
one = np.ones_like(margin)
bit = np.log(2)

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
axes[0].plot(margin, hinge(margin, one, reduction="none"), label="hinge")
entropy = binary_cross_entropy(margin, one, reduction="none") / bit
axes[0].plot(margin, entropy, label="cross-entropy (bits)")
axes[0].plot(margin, margin < 0, "--", color="0.5", lw=1, label="errors")
axes[1].plot(margin, hinge_grad(margin, one, reduction="sum"))
axes[1].plot(
    margin, binary_cross_entropy_grad(margin, one, reduction="sum") / bit
)
axes[0].set(xlabel="margin $t p$", ylabel="loss", title="Loss")
axes[1].set(xlabel="margin $t p$", ylabel="derivative", title="Gradient")
axes[0].legend()

# %%
# Three classes
# -------------
# Class 0 is right, and the axes say how far the two wrong scores lie above its
# score. Below the margin of both the loss of margins is 0; the cross-entropy
# still falls. The gradient of a shortfall (power 1) takes one of four values,
# one in each region.

from dlref.losses import cross_entropy, multi_margin_loss

ahead = np.linspace(-4, 2, 121)
first, second = np.meshgrid(ahead, ahead)
scores = np.stack([0 * first, first, second], axis=-1)
right = np.zeros(first.shape, int)
losses = {
    "margins, power 1": multi_margin_loss(scores, right, reduction="none"),
    "margins, power 2": multi_margin_loss(scores, right, p=2, reduction="none"),
    "cross-entropy": cross_entropy(scores, right, reduction="none"),
}

fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharex=True, sharey=True)
for ax, (name, loss) in zip(axes, losses.items(), strict=True):
    lines = ax.contour(first, second, loss, levels=[0.01, 0.25, 0.5, 1, 1.5, 2])
    ax.clabel(lines, fontsize=7)
    ax.set(xlabel="$x_1 - x_0$", title=name)
axes[0].set(ylabel="$x_2 - x_0$")

# %%
# Between the two
# ---------------
# The sparsemax loss of two classes against the lead of the right score. It is 0
# from a lead of one on, as the hinge loss is, and smooth, as the cross-entropy.

from dlref.losses import sparsemax_loss, sparsemax_loss_grad

leads = np.stack([margin, 0 * margin], axis=-1)
first = np.zeros(margin.size, int)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
axes[0].plot(margin, hinge(margin, one, reduction="none"), label="hinge")
entropy = cross_entropy(leads, first, reduction="none")
axes[0].plot(margin, entropy, label="cross-entropy")
sparse = sparsemax_loss(leads, first, reduction="none")
axes[0].plot(margin, sparse, label="sparsemax")
axes[1].plot(margin, hinge_grad(margin, one, reduction="sum"))
axes[1].plot(margin, binary_cross_entropy_grad(margin, one, reduction="sum"))
axes[1].plot(margin, sparsemax_loss_grad(leads, first, reduction="sum")[:, 0])
axes[0].set(xlabel="lead $t$", ylabel="loss", title="Loss")
axes[1].set(xlabel="lead $t$", ylabel="derivative", title="Gradient")
axes[0].legend()
