r"""
The memory of logits
====================

How much memory do the last layer and the loss take, and what do chunks cost?
"""

# %%
# Memory over the vocabulary
# --------------------------
# Logits and their gradient for 8192 tokens in float32. Without chunks they soon
# outgrow everything else; with chunks of 32 tokens they stay small next to the
# weights of the layer.

import matplotlib.pyplot as plt
import numpy as np

from dlref.losses import linear_cross_entropy_grad

classes = np.logspace(3, 5.5, 50)
fig, ax = plt.subplots()
for tokens in (8192, 1024, 32):
    size = 2 * 4 * tokens * classes / 1e9
    ax.loglog(classes, size, label=f"{tokens} tokens at a time")
ax.loglog(classes, 4 * 4096 * classes / 1e9, "k:", label="weights, width 4096")
ax.set(
    title="Memory of logits and their gradient",
    xlabel="vocabulary",
    ylabel="GB",
)
ax.legend()

# %%
# The same gradient
# -----------------
# The gradient of the weights is a sum over chunks. In another order it differs
# by rounding alone: this is the largest difference from the gradient without
# chunks, over the largest element, in float32.

rng = np.random.default_rng(0)
x = rng.normal(size=(512, 16)).astype(np.float32)
weight = rng.normal(size=(1000, 16)).astype(np.float32)
target = rng.integers(0, 1000, 512)
whole = linear_cross_entropy_grad(x, weight, target, chunk=512)[1]
sizes = 2 ** np.arange(10)
off = []
for chunk in sizes.tolist():
    part = linear_cross_entropy_grad(x, weight, target, chunk=chunk)[1]
    off.append(np.abs(part - whole).max() / np.abs(whole).max())
fig, ax = plt.subplots()
ax.semilogx(sizes, np.array(off) / 2**-23, "o-", base=2)
ax.set(
    title="Difference from the gradient without chunks",
    xlabel="rows in a chunk",
    ylabel=r"units of $2^{-23}$",
)
