r"""
Exponential units
=================

How smooth are elu, selu and celu where their two sides meet? Curves, slopes,
and the size of activations after many layers.
"""

# %%
# The corner
# ----------
# For a value of alpha other than 1 the slope of elu jumps at 0; celu curves its
# left side so that it never jumps. The slope of selu always jumps.

import matplotlib.pyplot as plt
import numpy as np

from dlref import activations
from dlref.activations import elu, relu, selu

left, right = np.linspace(-5, 0, 200), np.linspace(1e-9, 2, 80)
cases = [
    ("elu", {"alpha": 1.0}),
    ("elu", {"alpha": 0.5}),
    ("celu", {"alpha": 0.5}),
    ("selu", {}),
]
fig, axes = plt.subplots(1, 3, figsize=(9, 3), sharex=True)
for k, (name, options) in enumerate(cases):
    label = name + "".join(f", alpha = {value}" for value in options.values())
    for ax, suffix in zip(axes, ("", "_deriv", "_deriv2"), strict=True):
        f = getattr(activations, name + suffix)
        ax.plot(left, f(left, **options), color=f"C{k}", label=label)
        ax.plot(right, f(right, **options), color=f"C{k}")
for ax, title in zip(axes, ("f(x)", "f'(x)", "f''(x)"), strict=True):
    ax.set(xlabel="x", title=title)
axes[0].legend(fontsize=7)
fig.alt_text = "elu, celu and selu with their derivatives; slopes jump at zero."

# %%
# Self-normalization
# ------------------
# Which unit keeps the size of activations? Each layer has 400 units and
# weights of variance 1/400. Only selu, with its two constants, returns to
# variance 1.

rng = np.random.default_rng(0)
start = 1.5 * rng.normal(size=(200, 400))
fig, ax = plt.subplots()
for name, f in [("selu", selu), ("elu", elu), ("relu", relu)]:
    h, variances = start, []
    for _ in range(30):
        h = f(h @ rng.normal(scale=1 / 20, size=(400, 400)))
        variances.append(h.var())
    ax.semilogy(range(1, 31), variances, label=name)
ax.set(xlabel="layer", ylabel="variance", title="Variance of the activations")
ax.legend()
