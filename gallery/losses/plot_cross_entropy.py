r"""
Cross-entropy
=============

What are the loss and the gradient of a wrong answer? The loss grows
with the margin by which the true class is behind; the gradient is never more
than one, and never zero while the answer can be improved.
"""

# %%
# Loss and gradient
# -----------------
# Three classes with the scores :math:`(m, 0, 0)`; the first one is right. Label
# smoothing shifts the minimum from infinity to a finite margin: beyond it more
# confidence costs more.

import matplotlib.pyplot as plt
import numpy as np

from dlref.losses import cross_entropy, cross_entropy_grad

margin = np.linspace(-8, 12, 401)
scores = np.stack([margin, 0 * margin, 0 * margin], axis=-1)
y = np.zeros(margin.size, int)

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
for smoothing in (0.0, 0.1, 0.3):
    loss = cross_entropy(scores, y, label_smoothing=smoothing, reduction="none")
    grad = cross_entropy_grad(
        scores, y, label_smoothing=smoothing, reduction="sum"
    )
    axes[0].plot(margin, loss, label=rf"$\epsilon = {smoothing:g}$")
    axes[1].plot(margin, grad[:, 0])
axes[0].set(xlabel="margin $m$", ylabel="loss (nats)", title="Loss")
axes[1].set(
    xlabel="margin $m$",
    ylabel=r"$\partial \ell / \partial m$",
    title="Gradient with respect to the score of the true class",
)
axes[1].axhline(0, color="0.5", lw=0.8)
axes[0].legend()

# %%
# The digits of a confident answer
# --------------------------------
# Where the true class leads by 38 or more, :math:`p_y` is 1 to the last digit.
# Its logarithm is 0 then, and so is :math:`p_y - 1`; adding up the *other*
# classes keeps every digit. The true values fall as :math:`2 e^{-m}`.

lead = np.linspace(1, 60, 237)
scores = np.stack([lead, 0 * lead, 0 * lead], axis=-1)
y = np.zeros(lead.size, int)
e = np.exp(scores - lead[:, None])
p = e / e.sum(-1, keepdims=True)
naive = {"loss": -np.log(p[:, 0]), "gradient": 1 - p[:, 0]}
ours = {
    "loss": cross_entropy(scores, y, reduction="none"),
    "gradient": -cross_entropy_grad(scores, y, reduction="sum")[:, 0],
}

fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
for ax, name in zip(axes, ours, strict=True):
    seen = naive[name] > 0
    ax.semilogy(lead, ours[name], label="dlref")
    ax.semilogy(lead[seen], naive[name][seen], ".", ms=4, label="softmax first")
    ax.set(xlabel="lead of the right class", title=f"Size of the {name}")
axes[0].legend()

# %%
# The effect of the z-loss
# ------------------------
# Adding a constant to all scores changes no probability, and the plain
# loss is flat along it. The term :math:`\zeta \lambda^2` is not: it
# prefers scores whose log-sum-exp :math:`\lambda` is 0.

shift = np.linspace(-6, 6, 201)
scores = shift[:, None] + np.log([0.7, 0.2, 0.1])
fig, ax = plt.subplots()
for zeta in (0.0, 0.01, 0.1):
    loss = cross_entropy(
        scores, np.zeros(201, int), z_loss=zeta, reduction="none"
    )
    ax.plot(shift, loss, label=rf"$\zeta = {zeta:g}$")
ax.set(
    xlabel="common shift of the scores",
    ylabel="loss (nats)",
    title="Probabilities 0.7, 0.2 and 0.1, all along",
)
ax.legend()

# %%
# A focus
# -------
# The focal loss is a function of the cross-entropy alone, so its gradient is
# the one of cross-entropy times a factor. With a focus, a row whose class
# has a high probability hardly counts; a row that is wrong counts a little
# more than with cross-entropy, whose factor is 1.

from dlref.losses import softmax_focal_loss, softmax_focal_loss_grad

right = np.linspace(0.005, 0.995, 199)
scores = np.log(np.stack([right, 1 - right], axis=-1))
y = np.zeros(right.size, int)
plain = cross_entropy_grad(scores, y, reduction="sum")[:, 0]
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
for gamma in (0, 0.5, 1, 2, 5):
    loss = softmax_focal_loss(scores, y, gamma=gamma, reduction="none")
    grad = softmax_focal_loss_grad(scores, y, gamma=gamma, reduction="sum")
    axes[0].plot(right, loss, label=str(gamma))
    axes[1].plot(right, grad[:, 0] / plain)
where = "probability of the right class"
axes[0].set(xlabel=where, ylabel="loss (nats)", title="Loss", ylim=(0, 4))
axes[1].set(
    xlabel=where,
    ylabel="factor",
    title="Gradient, relative to cross-entropy",
)
axes[0].legend(title=r"focus $\gamma$")
