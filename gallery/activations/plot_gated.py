r"""
Gated units
===========

What does a gate do to the values it multiplies? The surface of each gated unit
over its two arguments, and where its two gradients are not zero.
"""

# %%
# Four gates
# ----------
# Color is the output for a value x and a gate g, red where it is positive, on
# a scale of its own for each map. Along a horizontal line the unit is linear;
# along a vertical one it is the activation, times x.

import matplotlib.pyplot as plt
import numpy as np

from dlref import activations
from dlref.activations import swiglu_vjp

x, gate = np.meshgrid(np.linspace(-3, 3, 121), np.linspace(-5, 5, 121))
extent = (-3, 3, -5, 5)
names = ("glu", "swiglu", "geglu", "reglu")
fig, axes = plt.subplots(1, 4, figsize=(9, 2.9), sharey=True)
for ax, name in zip(axes, names, strict=True):
    out = getattr(activations, name)(x, gate)
    limit = abs(out).max()
    ax.imshow(
        out,
        origin="lower",
        extent=extent,
        aspect="auto",
        cmap="RdBu_r",
        vmin=-limit,
        vmax=limit,
    )
    ax.set(title=name, xlabel="x")
axes[0].set_ylabel("gate")
fig.alt_text = "Four heat maps of gated units over value and gate."

# %%
# Two gradients
# -------------
# The gradient of swiglu with respect to the value is the activated gate alone;
# the gradient with respect to the gate grows with the value.

dx, dgate = swiglu_vjp(np.ones_like(x), x, gate)
fig, axes = plt.subplots(1, 2, figsize=(7, 3), sharey=True)
for ax, grad, title in [
    (axes[0], dx, "with respect to x"),
    (axes[1], dgate, "with respect to the gate"),
]:
    image = ax.imshow(
        grad,
        origin="lower",
        extent=extent,
        aspect="auto",
        cmap="RdBu_r",
        vmin=-5,
        vmax=5,
    )
    ax.set(title=title, xlabel="x")
axes[0].set_ylabel("gate")
fig.colorbar(image, ax=axes, label="gradient of swiglu")
fig.alt_text = "Heat maps of both gradients of swiglu."
