r"""
Smooth rectifiers
=================

How do silu, mish and gelu differ, and how far is the tanh form of gelu from the
exact one? Curves, differences, and the error of the naive formula.
"""

# %%
# Curves and derivatives
# ----------------------
# All have one minimum below zero. Slopes exceed 1 to the right of 0.75 (gelu),
# 0.80 (mish) and 1.28 (silu).

import math

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import erfcx

from dlref import activations
from dlref.activations import gelu, gelu_deriv

x = np.linspace(-6, 5, 551)
fig, axes = plt.subplots(1, 3, figsize=(9, 3), sharex=True)
for name in ("silu", "mish", "gelu"):
    for ax, suffix in zip(axes, ("", "_deriv", "_deriv2"), strict=True):
        ax.plot(x, getattr(activations, name + suffix)(x), label=name)
for ax, title in zip(axes, ("f(x)", "f'(x)", "f''(x)"), strict=True):
    ax.set(xlabel="x", title=title)
axes[0].set_ylim(-0.4, 2)
axes[0].legend()
fig.alt_text = "silu, mish and gelu with their first two derivatives."

# %%
# Exact gelu and its approximation
# --------------------------------
# The two curves cannot be told apart by eye; their difference can be seen.

fig, axes = plt.subplots(1, 2, figsize=(8, 3))
for ax, f, title in [
    (axes[0], gelu, "Values"),
    (axes[1], gelu_deriv, "Derivatives"),
]:
    ax.plot(x, f(x, approximate="tanh") - f(x))
    ax.set(xlabel="x", ylabel="tanh form - exact", title=title)
fig.alt_text = "Difference of both forms of gelu: at most a thousandth."

# %%
# Where the naive formula loses its digits
# ----------------------------------------
# The factor 1 + erf cancels to the left of 0. Below -8.4 it is exactly 0,
# while the true value is a perfectly good number. The reference takes the
# exponential in extended precision, times a function that varies slowly.

x = np.linspace(-12, 0, 481)
naive = np.array([t / 2 * (1 + math.erf(t / math.sqrt(2))) for t in x])
power = np.exp(-(x.astype(np.longdouble) ** 2) / 2)
exact = x / 2 * power * erfcx(-x / np.sqrt(2))
unit = np.spacing(abs(exact).astype(float))
fig, ax = plt.subplots()
for label, value in [("x (1 + erf) / 2", naive), ("dlref", gelu(x))]:
    error = abs((value - exact) / unit).astype(float)
    ax.semilogy(x, np.maximum(error, 1e-1), label=label)
ax.set(xlabel="x", ylabel="error, ULP", title="Error of gelu in its left tail")
ax.legend()

# %%
# The tails
# ---------
# On a logarithmic scale: gelu falls like a normal density, silu and mish
# like an exponential. No curve stops before the smallest number there is.

x = -np.geomspace(0.1, 760, 2000)
fig, ax = plt.subplots()
for name in ("silu", "mish", "gelu"):
    size = -getattr(activations, name)(x)
    ax.loglog(-x[size > 0], size[size > 0], label=name)
ax.set(xlabel="-x", ylabel="-f(x)", title="Left tails down to 5e-324")
ax.legend()
