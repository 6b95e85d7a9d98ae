"""
All activations
===============

What do the element-wise activations have in common? Each panel has the map and
its derivative, on one scale.
"""

# %%
# Maps and slopes
# ---------------
# Solid: the map. Dashed: its derivative, the factor by which the backward pass
# multiplies a gradient. Where the dashed line is at 0, no gradient passes.

import matplotlib.pyplot as plt
import numpy as np

from dlref import activations

names = [
    name
    for name in sorted(activations.__all__)
    if f"{name}_deriv2" in activations.__all__
]
x = np.linspace(-4, 4, 401)
rows = -(-len(names) // 5)
fig, axes = plt.subplots(
    rows, 5, figsize=(9, 1.6 * rows), sharex=True, sharey=True
)
for ax, name in zip(axes.flat, names, strict=False):
    ax.axhline(0, color="0.8", lw=0.6)
    ax.plot(x, getattr(activations, name)(x), label="map")
    slope = getattr(activations, f"{name}_deriv")(x)
    ax.plot(x, slope, "--", label="derivative")
    ax.set_title(name, fontsize=9)
    ax.set_ylim(-2, 3)
for ax in axes.flat[len(names) :]:
    ax.axis("off")
for ax in axes[-1]:
    ax.set_xlabel("x")
axes[0, 0].legend(fontsize=7)
fig.alt_text = (
    "A panel for each activation, with its map and its derivative between "
    "-4 and 4."
)

# %%
# The largest gradient through ten layers
# ---------------------------------------
# The largest slope to the tenth power: the largest factor that ten layers can
# multiply a gradient by, with weights of 1. The sigmoid divides it by a
# million, the hard sigmoid by sixty million; selu multiplies it by 282.

finite = np.linspace(-20, 20, 100_001)
largest = {
    name: float(np.max(np.abs(getattr(activations, f"{name}_deriv")(finite))))
    for name in names
}
order = sorted(names, key=largest.get)
fig, ax = plt.subplots(figsize=(7, 5))
ax.barh(order, [largest[name] ** 10 for name in order])
ax.set(xscale="log", xlabel="largest slope, to the tenth power")
ax.axvline(1, color="0.5", lw=0.8)
fig.alt_text = (
    "Bars for each activation on a logarithmic axis, from 2e-8 (hard sigmoid) "
    "to 282 (selu)."
)
