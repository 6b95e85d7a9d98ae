r"""
Three estimates of a divergence
===============================

How biased are the three estimates of a divergence, how much do they vary, and
what do their gradients point to?
"""

# %%
# Bias and spread
# ---------------
# A model and a reference over 50 classes drift apart. Left: the mean of each
# estimate over the model, relative to the divergence. Right: the spread (the
# standard deviation) for one sample, relative to the divergence too.

import matplotlib.pyplot as plt
import numpy as np

from dlref.formulas.activations import log_softmax
from dlref.losses import kl_estimate, kl_estimate_grad

rng = np.random.default_rng(0)
start, drift = rng.normal(size=(2, 50))


log_ref = log_softmax(start)
steps = np.linspace(0.02, 2.5, 50)
exact, means, spreads = [], [], []
for step in steps:
    log_p = log_softmax(start + step * drift)
    p = np.exp(log_p)
    exact.append(p @ (log_p - log_ref))
    each = [
        kl_estimate(log_p, log_ref, kind=kind, reduction="none")
        for kind in ("k1", "k2", "k3")
    ]
    means.append([p @ k for k in each])
    spreads.append([np.sqrt(p @ k**2 - (p @ k) ** 2) for k in each])
exact = np.array(exact)[:, None]
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2))
for ax, curves, title in (
    (axes[0], means / exact, "mean"),
    (axes[1], spreads / exact, "standard deviation"),
):
    for k, kind in enumerate(("k1", "k2", "k3")):
        style = "--" if kind == "k3" else "-"
        ax.plot(exact[:, 0], curves[:, k], style, color=f"C{k}", label=kind)
    ax.set(xlabel="divergence (nats)", title=title, xscale="log")
axes[0].legend()
axes[1].set_yscale("log")
fig.alt_text = "k1 and k3 are unbiased, k2 drifts; k3 varies least near 0."

# %%
# Gradients
# ---------
# The mean gradient of the logits, over the exact gradient of the divergence:
# k2 is right, k1 is zero on average, and k3 has the gradient of the divergence
# in the other direction. On the gray line both are equal.

log_p = log_softmax(start + 1.5 * drift)
p, ref = np.exp(log_p), np.exp(log_ref)


def of_logits(slope):
    """Return the mean of slope times the gradient of log p, over the logits."""
    return p * slope - p * (p @ slope)


fig, ax = plt.subplots()
truth = of_logits(log_p - log_ref)
for k, kind in enumerate(("k1", "k2", "k3")):
    slope = kl_estimate_grad(log_p, log_ref, kind=kind, reduction="sum")
    ax.plot(truth, of_logits(slope), ".", color=f"C{k}", label=kind)
ax.plot(truth, truth, color="0.6", lw=1)
ax.set(xlabel="gradient of the divergence", ylabel="mean gradient")
ax.set_title("Gradients of the logits")
ax.legend()
