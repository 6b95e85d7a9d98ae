r"""
Preference loss
===============

How does the loss of a pair depend on the two gains, and what does training
with it do to both answers?
"""

# %%
# The loss of a pair
# ------------------
# Over the difference of the gains, for three strengths and with 10 % wrong
# labels. Smoothing gives the loss a minimum.

import matplotlib.pyplot as plt
import numpy as np

from dlref.losses import dpo_loss, dpo_loss_grad

gap = np.linspace(-60, 60, 241)
pairs, zero = np.stack([gap, np.zeros_like(gap)]), np.zeros((2, gap.size))
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2))
curves = [(0.05, 0.0), (0.1, 0.0), (0.3, 0.0), (0.1, 0.1)]
for k, (beta, wrong) in enumerate(curves):
    told = {"beta": beta, "label_smoothing": wrong}
    label = rf"$\beta$ = {beta}" + (", smoothed" if wrong else "")
    loss = dpo_loss(pairs, zero, reduction="none", **told)
    axes[0].plot(gap, loss, color=f"C{k}", label=label)
    slope = dpo_loss_grad(pairs, zero, reduction="sum", **told)[0]
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
