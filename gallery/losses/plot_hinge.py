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
