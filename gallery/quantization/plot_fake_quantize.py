r"""
Rounding to integers
====================

What do the staircase, its straight-through gradient and the gradient of the
scale look like, and which scale loses least?
"""

# %%
# The staircase and its gradients
# -------------------------------
# Three bits, the scale 1. The gradient of the input is 1 within the range and 0
# beyond it. The gradient of the scale is the rounding error within, and the
# whole integer beyond.

import matplotlib.pyplot as plt
import numpy as np

from dlref.quantization import fake_quantize, fake_quantize_vjp

x = np.linspace(-6, 6, 1201)
dx, _ = fake_quantize_vjp(np.ones(x.size), x, 1.0, bits=3)
_, slope = fake_quantize_vjp(np.ones(x.size), x, np.ones(x.size), bits=3)
fig, axes = plt.subplots(1, 3, figsize=(10, 3.2))
axes[0].plot(x, x, color="0.6", lw=0.8)
axes[0].plot(x, fake_quantize(x, 1.0, bits=3))
axes[1].plot(x, dx, color="C1")
axes[2].plot(x, slope, color="C2")
titles = ("Result", "Gradient of the input", "Gradient of the scale")
for ax, title in zip(axes, titles, strict=True):
    ax.set(title=title, xlabel="x")

# %%
# Which scale
# -----------
# Gaussian numbers, rounded with scales around the one that clips
# nothing. With few bits a much smaller scale is better, the dot on each line:
# the few numbers that are clipped cost less than the steps of all others.

rng = np.random.default_rng(0)
x = rng.normal(size=100_000)
fig, ax = plt.subplots()
for k, bits in enumerate((8, 6, 4, 3)):
    whole = np.max(abs(x)) / (2 ** (bits - 1) - 1)
    factors = np.logspace(-1.2, 0.3, 60)
    errors = [
        np.mean((fake_quantize(x, f * whole, bits=bits) - x) ** 2)
        for f in factors
    ]
    ax.semilogy(factors, errors, color=f"C{k}", label=f"{bits} bits")
    best = np.argmin(errors)
    ax.plot(factors[best], errors[best], "o", color=f"C{k}")
ax.set(
    title="Error of Gaussian numbers",
    xlabel="scale / (max |x| / largest integer)",
    ylabel="mean square error",
)
ax.legend()
