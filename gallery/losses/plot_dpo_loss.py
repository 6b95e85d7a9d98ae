r"""
Preference loss
===============

How does the loss of a pair depend on the two gains, what does training with it
do to both answers, and where do other losses of preferences pull?
"""

# %%
# The loss of a pair
# ------------------
# Over the difference of the gains, for three strengths and with 10 % wrong
# labels. Smoothing gives the loss a minimum.

import matplotlib.pyplot as plt
import numpy as np

from dlref.losses import (
    dpo_loss,
    dpo_loss_grad,
    kto_loss_grad,
    orpo_loss_grad,
)

gap = np.linspace(-60, 60, 241)
pairs, zero = np.stack([gap, np.zeros_like(gap)]), np.zeros((2, gap.size))
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2))
curves = [(0.05, 0.0), (0.1, 0.0), (0.3, 0.0), (0.1, 0.1)]
for k, (beta, wrong) in enumerate(curves):
    options = {"beta": beta, "label_smoothing": wrong}
    label = rf"$\beta$ = {beta}" + (", smoothed" if wrong else "")
    loss = dpo_loss(pairs, zero, reduction="none", **options)
    axes[0].plot(gap, loss, color=f"C{k}", label=label)
    slope = dpo_loss_grad(pairs, zero, reduction="sum", **options)[0]
    axes[1].plot(gap, slope, color=f"C{k}")
axes[0].set(xlabel="chosen − rejected", ylabel="loss", title="Loss")
axes[1].set(xlabel="chosen − rejected", title="Gradient of the chosen")
axes[0].legend()

# %%
# Both answers may become less probable
# -------------------------------------
# A model over five answers, whose logits are features times two weights. Answer
# 0 is preferred to answer 1. They differ in the second feature, of which an
# answer that nobody has compared has more. Gradient descent raises its weight:
# the pair is put in order, and then that answer takes the probability of both.

features = np.array([[1.0, 0.1], [1.0, -0.3], [0, 1.0], [0, 0], [0, 0]])
w, history = np.array([2.0, 0.0]), []
for _ in range(400):
    logits = features @ w
    log_p = logits - np.log(np.exp(logits).sum())
    history.append(log_p)
    if not history[1:]:
        log_ref = log_p
    u = dpo_loss_grad(log_p[:2], log_ref[:2], beta=0.5)
    p = np.exp(log_p)
    dlogits = np.concatenate([u, np.zeros(3)]) - u.sum() * p
    w = w - 1.0 * (dlogits @ features)
fig, ax = plt.subplots()
for k, name in enumerate(("chosen", "rejected", "not compared")):
    ax.plot(np.exp(np.array(history)[:, k]), color=f"C{k}", label=name)
ax.set(xlabel="step", ylabel="probability", title="Probabilities in training")
ax.legend()

# %%
# Where other losses pull
# -----------------------
# Left: the pull on the chosen answer, over the difference of the gains. The
# logistic loss never lets go, the hinge stops, IPO pulls back, and KTO lets go
# of answers on either side. Right: ORPO has no reference. Its pull on either
# answer, over the probability of that answer, while the other one has 1/2.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.2))
options = {"beta": 0.1, "reduction": "sum"}
for kind in ("sigmoid", "hinge", "ipo"):
    pull = -dpo_loss_grad(pairs, zero, kind=kind, **options)[0]
    scale = 0.001 if kind == "ipo" else 1.0
    label = {"sigmoid": "DPO", "ipo": "IPO / 1000"}.get(kind, kind)
    axes[0].plot(gap, scale * pull, label=label)
is_good = np.ones(gap.size, bool)
pull = -kto_loss_grad(gap, zero[0], is_good, **options)
axes[0].plot(gap, pull, label="KTO, one answer")
axes[0].set(
    xlabel="gain", ylabel="minus the gradient", title="Pull on the chosen"
)
axes[0].legend()
p = np.linspace(0.02, 0.9, 200)
half = np.log(np.full(p.size, 0.5))
options = {"beta": 0.5, "reduction": "sum"}
chosen = -orpo_loss_grad(np.stack([np.log(p), half]), **options)[0]
rejected = -orpo_loss_grad(np.stack([half, np.log(p)]), **options)[1]
axes[1].plot(p, chosen, label="chosen")
axes[1].plot(p, rejected, label="rejected")
axes[1].set(xlabel="probability of the answer", title=r"ORPO, $\beta$ = 0.5")
axes[1].legend()
