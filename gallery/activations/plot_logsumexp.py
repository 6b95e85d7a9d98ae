r"""
Log-sum-exp
===========

How close is log-sum-exp to the maximum? Level lines, the gap between the two,
and the sharpening of the corner.
"""

# %%
# Rounding off the corner
# -----------------------
# The level lines of the maximum of two numbers have a corner on the diagonal.
# The level lines of log-sum-exp are smooth, and the gap is at most log 2, on
# the diagonal.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import logsumexp, logsumexp_grad

side = np.linspace(-4, 4, 161)
points = np.stack(np.meshgrid(side, side), axis=-1)
fig, axes = plt.subplots(1, 2, figsize=(7.5, 3.2), sharey=True)
value = logsumexp(points)
lines = axes[0].contour(side, side, value, levels=np.arange(-3, 5))
axes[0].clabel(lines, fontsize=7)
axes[0].set(title="log-sum-exp", xlabel="first score", ylabel="second score")
gap = value - points.max(-1)
image = axes[1].imshow(
    gap, origin="lower", extent=(-4, 4, -4, 4), aspect="auto"
)
axes[1].set(title="gap to the maximum", xlabel="first score")
fig.colorbar(image, ax=axes[1])
fig.alt_text = "Level lines of log-sum-exp, and its gap to the maximum."

# %%
# Sharper
# -------
# With n times the scores and 1/n of the value the corner returns; the
# slope, which is softmax, becomes a step.

x = np.linspace(-3, 3, 301)
rows = np.stack([x, np.zeros_like(x)], axis=-1)
fig, axes = plt.subplots(1, 2, figsize=(7.5, 3))
for n in (1, 2, 8):
    axes[0].plot(x, logsumexp(n * rows) / n, label=f"n = {n}")
    axes[1].plot(x, logsumexp_grad(n * rows)[:, 0], label=f"n = {n}")
axes[0].set(xlabel="x", title="log-sum-exp of (n x, 0), over n")
axes[1].set(xlabel="x", title="its slope")
axes[0].legend()
fig.alt_text = "log-sum-exp approaching the maximum, its slope a step."
