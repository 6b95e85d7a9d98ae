r"""
Sigmoids
========

Where do sigmoids saturate, and what is left of their derivatives there? Curves,
slopes, and the digits that the textbook formulas lose.
"""

# %%
# The curves and two derivatives
# ------------------------------
# Sigmoid and tanh are one curve; softsign reaches its limits more slowly.

import matplotlib.pyplot as plt
import numpy as np

from dlref import activations
from dlref.activations import sigmoid, sigmoid_deriv, softplus

x = np.linspace(-6, 6, 601)
fig, axes = plt.subplots(1, 3, figsize=(9, 3), sharex=True)
for name in ("sigmoid", "tanh", "softsign", "softplus", "tanhshrink"):
    for ax, suffix in zip(axes, ("", "_deriv", "_deriv2"), strict=True):
        ax.plot(x, getattr(activations, name + suffix)(x), label=name)
for ax, title in zip(axes, ("f(x)", "f'(x)", "f''(x)"), strict=True):
    ax.set(xlabel="x", title=title)
axes[0].set_ylim(-1.5, 3)
axes[0].legend(fontsize=7)
fig.alt_text = "Five sigmoid-like curves with their first two derivatives."

# %%
# Saturation
# ----------
# On a logarithmic scale the tails of the sigmoid and of tanh are straight:
# with every step the slope falls by e, or by its square. Softsign falls
# like a power.

x = np.linspace(0, 40, 401)
fig, ax = plt.subplots()
for name in ("sigmoid", "tanh", "softsign"):
    ax.semilogy(x, getattr(activations, f"{name}_deriv")(x), label=name)
ax.set(xlabel="x", ylabel="slope", ylim=(1e-18, 2), title="Slope in the tail")
ax.legend()

# %%
# Where the naive derivative loses its digits
# -------------------------------------------
# The derivative as :math:`s(1 - s)` subtracts two numbers that become
# equal. From 37.5 on nothing is left. The error is counted in units in the
# last place; the reference is computed with exp in extended precision.

x = np.linspace(0, 60, 601)
wide = np.exp(-x.astype(np.longdouble))
exact = wide / (1 + wide) ** 2
unit = np.spacing(exact.astype(float))
s = sigmoid(x)
fig, ax = plt.subplots()
for label, value in [
    ("s (1 - s)", s * (1 - s)),
    ("dlref", sigmoid_deriv(x)),
]:
    error = abs((value - exact) / unit).astype(float)
    ax.semilogy(x, np.maximum(error, 1e-2), label=label)
ax.set(
    xlabel="x", ylabel="error, ULP", title="Error of the sigmoid's derivative"
)
ax.legend()

# %%
# Softplus approaches relu
# ------------------------
# Scaling the argument by n and the value by 1/n sharpens the corner.

x = np.linspace(-3, 3, 301)
fig, ax = plt.subplots()
for n in (1, 2, 4, 16):
    ax.plot(x, softplus(n * x) / n, label=f"n = {n}")
ax.set(xlabel="x", ylabel="softplus(n x) / n", title="From softplus to relu")
ax.legend()
