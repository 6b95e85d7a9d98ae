r"""
Rectifiers
==========

Where does a rectifier let the gradient pass? The curves and their slopes, with
the jumps where the slope is a convention.
"""

# %%
# Curves and slopes
# -----------------
# Above the map, below its derivative. The dots are the values that dlref and
# PyTorch return at the kinks.

import itertools

import matplotlib.pyplot as plt
import numpy as np

from dlref import activations

kinks = {
    "relu": [0],
    "leaky_relu": [0],
    "relu6": [0, 6],
    "hard_tanh": [-1, 1],
    "hard_sigmoid": [-3, 3],
    "hard_swish": [-3, 3],
}
options = {"leaky_relu": {"negative_slope": 0.2}}


def pieces(name):
    """Yield the intervals of the axis between the kinks."""
    ends = [-4, *kinks[name], 7.5]
    for low, high in itertools.pairwise(ends):
        yield np.linspace(low + 1e-9, high - 1e-9, 60)


fig, axes = plt.subplots(2, 6, figsize=(9, 3.6), sharex=True)
for column, name in zip(axes.T, kinks, strict=True):
    kwargs = options.get(name, {})
    for ax, suffix in zip(column, ("", "_deriv"), strict=True):
        f = getattr(activations, name + suffix)
        for x in pieces(name):
            ax.plot(x, f(x, **kwargs), color="C0")
    column[1].plot(kinks[name], f(kinks[name], **kwargs), "o", color="C1")
    column[0].set_title(name)
    column[1].set_xlabel("x")
axes[0, 0].set_ylabel("f(x)")
axes[1, 0].set_ylabel("f'(x)")
fig.alt_text = (
    "Six rectifiers, straight or curved in pieces, and their slopes below."
)

# %%
# Hard variants and the smooth curves
# -----------------------------------
# How far is the piecewise map from the smooth one it replaces?

x = np.linspace(-6, 6, 601)
fig, ax = plt.subplots()
for hard, smooth in [
    ("hard_sigmoid", "sigmoid"),
    ("hard_tanh", "tanh"),
    ("hard_swish", "silu"),
]:
    gap = getattr(activations, hard)(x) - getattr(activations, smooth)(x)
    ax.plot(x, gap, label=f"{hard} - {smooth}")
ax.set(xlabel="x", ylabel="difference", title="What the kinks cost")
ax.legend()
