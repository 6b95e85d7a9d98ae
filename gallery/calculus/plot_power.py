r"""
Gradient of a power
===================

How does a power depend on its base, and how on its exponent? And how many
digits does the textbook formula of the slope keep?
"""

# %%
# The two slopes
# --------------
# Left :math:`x\,w^{x-1}`, right :math:`w^x \log w`. Both are largest at a small
# base with a negative exponent, −16000 and −1200 in the corner; above 1, in
# exponent and base, both grow with the base. At :math:`w = 1` the exponent does
# not matter at all.

import matplotlib.pyplot as plt
import mpmath
import numpy as np
from matplotlib.colors import SymLogNorm

from dlref.calculus import power_vjp

w, x = np.linspace(0.05, 3, 200), np.linspace(-2, 3, 200)
W, X = np.meshgrid(w, x)
slopes = power_vjp(np.ones(W.shape), W, X)

fig, axes = plt.subplots(1, 2, figsize=(8.5, 3.6), sharey=True)
norm = SymLogNorm(0.1, vmin=-100, vmax=100)
names = (r"$\partial w^x / \partial w$", r"$\partial w^x / \partial x$")
for ax, slope, name in zip(axes, slopes, names, strict=True):
    mesh = ax.pcolormesh(w, x, slope, cmap="RdBu_r", norm=norm, rasterized=True)
    ax.set(title=name, xlabel="base $w$")
axes[0].set_ylabel("exponent $x$")
fig.colorbar(mesh, ax=axes, label="slope")

# %%
# Digits
# ------
# :math:`x - 1` is rounded before :math:`w` is raised to it, and the error is
# multiplied by :math:`\log w`. Computed as :math:`x\,(w^x / w)` the slope keeps
# its digits. Errors are in units in the last place (ULP), against 50 digits.

rng = np.random.default_rng(0)
w, x = 10.0 ** rng.uniform(-300, 300, 1500), rng.uniform(0.01, 0.4, 1500)
with mpmath.workdps(50):
    exact = [
        mpmath.mpf(b) * mpmath.power(a, mpmath.mpf(b) - 1)
        for a, b in zip(w, x, strict=True)
    ]
    slopes = {
        "$x\\,w^{x-1}$": x * w ** (x - 1),
        "dlref": power_vjp(np.ones_like(w), w, x)[0],
    }
    errors = {
        name: [
            float(abs(s - e) / np.spacing(abs(s)))
            for s, e in zip(got, exact, strict=True)
        ]
        for name, got in slopes.items()
    }

fig, ax = plt.subplots()
for (name, error), marker in zip(errors.items(), "o.", strict=True):
    ax.semilogy(np.log10(w), np.maximum(error, 1e-3), marker, ms=3, label=name)
ax.set(xlabel=r"$\log_{10}$ of the base $w$", ylabel="error (ULP)")
ax.set_title("Error of the slope in the base")
ax.legend()
