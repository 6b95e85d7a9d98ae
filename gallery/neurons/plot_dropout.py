r"""
Dropout
=======

What does a random mask do to one sum, and to all sums on average?
"""

# %%
# Mean and spread
# ---------------
# A sum of 100 inputs under 20,000 masks, for three probabilities. The mean does
# not move, and the spread grows with :math:`\sqrt{p / (1 - p)}` (dashed: the
# normal distribution with that spread). The gray line is the sum of all inputs.

import matplotlib.pyplot as plt
import numpy as np

from dlref.neurons import dropout

rng = np.random.default_rng(0)
x = rng.uniform(size=100)
fig, ax = plt.subplots()
grid = np.linspace(20, 80, 400)
for k, p in enumerate((0.1, 0.3, 0.5)):
    masks = (rng.random((20000, 100)) >= p) / (1 - p)
    sums = dropout(np.broadcast_to(x, masks.shape), masks).sum(axis=1)
    ax.hist(sums, bins=80, density=True, alpha=0.5, color=f"C{k}", label=f"{p}")
    spread = np.sqrt(p / (1 - p) * np.sum(x**2))
    curve = np.exp(-(((grid - x.sum()) / spread) ** 2) / 2)
    ax.plot(grid, curve / spread / np.sqrt(2 * np.pi), "--", color=f"C{k}")
ax.axvline(x.sum(), color="0.4", lw=1)
ax.set(xlabel="sum", ylabel="density", title="Sum of the inputs that are left")
ax.legend(title="p")

# %%
# A decay in disguise
# -------------------
# The mean squared error of a linear layer over all masks is the error without
# a mask, plus a weight decay. Dots are the mean over 20,000 masks, and the line
# of the same color is that formula.

w, t = rng.normal(size=100), 3.0
scales = np.linspace(0, 1.5, 16)
fig, ax = plt.subplots()
for k, p in enumerate((0.1, 0.3, 0.5)):
    masks = (rng.random((20000, 100)) >= p) / (1 - p)
    y = dropout(np.broadcast_to(x, masks.shape), masks) @ w
    ax.plot(scales, [np.mean((s * y - t) ** 2) for s in scales], "o", ms=4)
    decay = p / (1 - p) * np.sum((w * x) ** 2) * scales**2
    error = (scales * (w @ x) - t) ** 2
    ax.plot(scales, error + decay, color=f"C{k}", label=f"{p}")
ax.set(xlabel="factor of the weights", ylabel="mean squared error")
ax.set_title("Mean over masks, and error plus decay")
ax.legend(title="p")
