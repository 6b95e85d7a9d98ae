r"""
Jacobians of maps that move numbers
===================================

What does the Jacobian of a map look like that only moves numbers? It has zeros
and ones, and its transpose moves the gradient back.
"""

# %%
# Who reads whom
# --------------
# A filled square in row :math:`i` and column :math:`j` means that output
# :math:`i` reads input :math:`j`. A column with two squares is an input that is
# read twice: its gradient is the sum of two. An empty row is a constant, and an
# empty column an input that nobody reads, whose gradient is 0. The Jacobian of
# a scatter-add is the transpose of the one of taking entries.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from dlref import calculus

n = 5
places = np.array([3, 0, 3, 4])
borders = {"pad_width": (3, 2)}


def rows(vjp, count):
    """Return the Jacobian, a row from each unit cotangent."""
    return np.array([vjp(unit) for unit in np.eye(count)])


x = np.zeros(n)
jacobians = {
    "take 3, 0, 3, 4": rows(lambda u: calculus.take_vjp(u, x, places), 4),
    "scatter-add to 3, 0, 3, 4": rows(
        lambda u: calculus.scatter_add_vjp(u, x, places, np.zeros(4))[1], n
    ),
    "where 1, 0, 0, 1, 1": rows(
        lambda u: calculus.where_vjp(u, np.array([1, 0, 0, 1, 1]) == 1, x, x)[
            0
        ],
        n,
    ),
    "pad, constant": rows(lambda u: calculus.pad_vjp(u, x, **borders), n + 5),
    "pad, reflect": rows(
        lambda u: calculus.pad_vjp(u, x, **borders, mode="reflect"), n + 5
    ),
    "pad, wrap": rows(
        lambda u: calculus.pad_vjp(u, x, **borders, mode="wrap"), n + 5
    ),
}
fig, axes = plt.subplots(2, 3, figsize=(9, 7), layout="constrained")
for ax, (name, jacobian) in zip(axes.flat, jacobians.items(), strict=True):
    ax.imshow(np.where(jacobian == 1, 1, np.nan), cmap=ListedColormap(["C0"]))
    height, width = jacobian.shape
    ax.set_xticks(range(width))
    ax.set_yticks(range(height))
    ax.set_xticks(np.arange(width + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(height + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="0.8", lw=0.8)
    ax.tick_params(which="minor", length=0)
    ax.set(title=name, xlabel="input $j$", ylabel="output $i$")
fig.alt_text = (
    "Six Jacobians of zeros and ones: take, scatter-add, where, and padding "
    "with constants, by reflection and periodically."
)
