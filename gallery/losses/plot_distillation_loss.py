r"""
Distillation
============

What does a temperature show of a teacher, and what does each direction of the
divergence make of a student that is too small?
"""

# %%
# Soft targets
# ------------
# The probabilities of a teacher at three temperatures. At 1 only the first
# class can be seen; higher temperatures show which wrong classes are nearly
# right.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import softmax
from dlref.losses import distillation_loss, distillation_loss_grad

teacher = np.array([9.0, 6.5, 5.0, 2.0, 1.0, 0.0])
fig, ax = plt.subplots()
for k, T in enumerate((1.0, 3.0, 8.0)):
    place = np.arange(6) + 0.27 * (k - 1)
    ax.bar(place, softmax(teacher / T), 0.25, color=f"C{k}", label=f"T = {T:g}")
ax.set(xlabel="class", ylabel="probability", title="What a teacher shows")
ax.legend()

# %%
# A student that is too small
# ---------------------------
# A teacher with two peaks over 60 classes, and a student that can only form
# one: its logits are a parabola, whose center and width are trained, beginning
# with a peak at −1. The first direction covers both peaks; the reverse keeps
# to the larger, and the third nearly so.

x = np.linspace(-3, 3, 60)
peaks = np.exp(-((x + 1.2) ** 2) * 8) + 0.6 * np.exp(-((x - 1.2) ** 2) * 8)
logits = np.log(peaks + 1e-6)
features = np.stack([x, x**2], axis=1)
fig, ax = plt.subplots()
ax.fill_between(x, softmax(logits), color="0.85", label="teacher")
for k, kind in enumerate(("kl", "reverse", "jsd")):
    w = np.array([-6.0, -3.0])  # a peak at -1
    for _ in range(8000):
        u = distillation_loss_grad(features @ w, logits, kind=kind)
        w = w - 0.05 * (u @ features)
    z = features @ w
    left = distillation_loss(z, logits, kind=kind)
    label = f"{kind}: {left:.2f}"
    ax.plot(x, softmax(z), color=f"C{k}", label=label)
ax.set(xlabel="x", ylabel="probability", title="Students of one peak")
ax.legend()
