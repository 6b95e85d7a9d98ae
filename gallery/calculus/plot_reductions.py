r"""
Gradients of reductions
=======================

A reduction maps many numbers to one. How is the gradient distributed among
them in the backward pass?
"""

# %%
# Six ways to share
# -----------------
# The same six numbers, with two equal largest ones and a zero. A sum copies, a
# mean divides, a product gives each element the product of the others (all of
# it to the zero here), a maximum gives to the largest, a minimum to the
# smallest, a norm in proportion.

import matplotlib.pyplot as plt
import numpy as np

from dlref import calculus
from dlref.calculus import norm_grad, prod_grad

x = np.array([1.0, -2.0, 0.0, 3.0, 0.5, 3.0])
labels = [f"{v:g}" for v in x]

fig, axes = plt.subplots(1, 6, figsize=(11, 2.8))
names = ["sum", "mean", "prod", "max", "min", "norm"]
for ax, name in zip(axes, names, strict=True):
    ax.bar(range(6), getattr(calculus, f"{name}_grad")(x))
    ax.axhline(0, lw=0.8, color="black")
    ax.set(title=name, xticks=range(6), xticklabels=labels)
    ax.tick_params(axis="x", labelsize=7)
axes[0].set_ylabel(r"$\partial y / \partial x_j$")
axes[2].set_xlabel("element $x_j$")

# %%
# The product of the others
# -------------------------
# The short formula :math:`y / x_j` needs the whole product. With two elements
# of size :math:`s` and two of size :math:`1/s` that is 1, but :math:`s^2`,
# which is formed on the way, overflows from :math:`s = 10^{154}` on. Shown is
# the share of the gradient's elements that come out right.

sizes = np.logspace(0, 200, 81)
naive, ours = [], []
with np.errstate(all="ignore"):
    for s in sizes:
        x = np.array([s, s, 1 / s, 1 / s, 2.0, 0.5])
        exact = 1 / x  # the product of all is one
        naive.append(
            np.mean(np.isclose(np.prod(x[[0, 1, 4, 5, 2, 3]]) / x, exact))
        )
        ours.append(np.mean(np.isclose(prod_grad(x), exact)))

fig, ax = plt.subplots()
ax.semilogx(sizes, naive, label="$y / x_j$")
ax.semilogx(sizes, ours, "--", label="prod_grad")
ax.set(xlabel="size $s$ of two of the elements", ylabel="share that is right")
ax.set(title="Gradient of a product that is one", ylim=(-0.05, 1.1))
ax.legend()

# %%
# The norm points outwards
# ------------------------
# Its gradient has length one everywhere but at the origin, the tip of the cone,
# where zero is returned.

grid = np.linspace(-2, 2, 9)
points = np.stack(np.meshgrid(grid, grid), axis=-1)
arrows = norm_grad(points, axis=-1)
fig, ax = plt.subplots(figsize=(4, 4))
fine = np.linspace(-2.3, 2.3, 101)
ax.contour(fine, fine, np.hypot(*np.meshgrid(fine, fine)), linewidths=1)
ax.quiver(
    points[..., 0], points[..., 1], arrows[..., 0], arrows[..., 1], width=0.006
)
ax.set(
    title=r"$\nabla \|x\| = x / \|x\|$",
    xlabel="$x_1$",
    ylabel="$x_2$",
    aspect="equal",
)
