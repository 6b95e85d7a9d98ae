r"""
Binary cross-entropy
====================

How does the cost of an answer grow with the logit, and what do the naive
formulas lose? The loss is a soft corner; computed from its definition, it
breaks at a logit of 37.
"""

# %%
# A soft corner
# -------------
# The target is *yes*. Left of 0 the loss rises like :math:`-z`, right of
# it it tends to 0; the gradient runs from -1 to 0. A `pos_weight` of 3
# makes missing a *yes* three times as expensive and leaves *no* alone.

import matplotlib.pyplot as plt
import numpy as np

from dlref.losses import binary_cross_entropy, binary_cross_entropy_grad

z = np.linspace(-6, 6, 401)
cases = {"yes": (1.0, 1.0), "no": (0.0, 1.0), "yes, weight 3": (1.0, 3.0)}
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
for name, (t, weight) in cases.items():
    target = np.full_like(z, t)
    loss = binary_cross_entropy(z, target, pos_weight=weight, reduction="none")
    grad = binary_cross_entropy_grad(
        z, target, pos_weight=weight, reduction="sum"
    )
    axes[0].plot(z, loss, label=name)
    axes[1].plot(z, grad)
axes[0].set(xlabel="logit $z$", ylabel="loss (nats)", title="Loss", ylim=(0, 8))
axes[1].set(
    xlabel="logit $z$", ylabel=r"$\partial \ell / \partial z$", title="Gradient"
)
axes[0].legend(title="target")

# %%
# Where digits are lost
# ---------------------
# The target is *no* and the logit negative: the true loss falls as
# :math:`e^z`. The definition computes :math:`\log(1 - \sigma(z))`, and the
# digits of a small :math:`\sigma(z)` are lost in the difference from 1; the
# frequent form :math:`z + \log(1 + e^{-z})` subtracts nearly equal numbers.

z = np.linspace(-60, -1, 237)
ours = binary_cross_entropy(z, 0 * z, reduction="none")
forms = {
    "definition": -np.log(1 - 1 / (1 + np.exp(-z))),
    r"$z + \log(1 + e^{-z})$": z + np.log1p(np.exp(-z)),
}
fig, ax = plt.subplots()
for name, values in forms.items():
    ax.semilogy(
        z, np.maximum(abs(values / ours - 1), 1e-17), ".", ms=4, label=name
    )
ax.axhline(2**-53, color="0.5", lw=0.8)
ax.set(
    xlabel="logit $z$",
    ylabel="relative error",
    title="Error of two other formulas; the line is half a unit of rounding",
)
ax.legend()

# %%
# A focus
# -------
# The focal loss against the probability of the right answer. With a focus of 2,
# answers that are right with 0.9 cost a hundredth of their cross-entropy, while
# those that are wrong keep most of it.

from dlref.losses import sigmoid_focal_loss, sigmoid_focal_loss_grad

right = np.linspace(0.01, 0.99, 197)
logit, yes = np.log(right / (1 - right)), np.ones(right.size)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
for gamma in (0, 0.5, 1, 2, 5):
    options = {"alpha": -1, "gamma": gamma}
    loss = sigmoid_focal_loss(logit, yes, reduction="none", **options)
    slope = sigmoid_focal_loss_grad(logit, yes, reduction="sum", **options)
    axes[0].plot(right, loss, label=str(gamma))
    axes[1].plot(right, slope, label=str(gamma))
where = "probability of the right answer"
axes[0].set(xlabel=where, ylabel=r"$\ell$", title="Loss", ylim=(0, 4))
axes[1].set(
    xlabel=where, ylabel=r"$\partial \ell / \partial x$", title="Gradient"
)
axes[0].legend(title=r"focus $\gamma$")
