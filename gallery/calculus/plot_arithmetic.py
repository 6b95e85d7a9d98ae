r"""
Jacobians of element-wise operations
====================================

Which outputs does an input reach? For an element-wise operation only its own,
so the Jacobian is diagonal; a scalar operand reaches all of them.
"""

# %%
# Diagonals
# ---------
# The vectors are :math:`w = (2, 3, 4)` and :math:`x = (5, 6, 7)`. Rows are
# outputs, columns are inputs. Elements off the diagonal are exactly zero.

import time

import matplotlib.pyplot as plt
import numpy as np

from dlref import calculus
from dlref.calculus import add_jacobian, multiply_jacobian, multiply_vjp


def draw(ax, jac, title, limit):
    """Draw a Jacobian as a grid of numbers on colors."""
    jac = np.atleast_2d(jac.T).T
    image = ax.imshow(jac, cmap="RdBu_r", vmin=-limit, vmax=limit)
    for (i, j), value in np.ndenumerate(jac):
        color = "white" if abs(value) > 0.6 * limit else "black"
        ax.text(j, i, f"{value:.3g}", ha="center", va="center", color=color)
    ax.set(title=title, xticks=range(jac.shape[1]), yticks=range(jac.shape[0]))
    return image


w, x = np.array([2.0, 3, 4]), np.array([5.0, 6, 7])
signs = {"add": "+", "subtract": "-", "multiply": r"\odot", "divide": "/"}

fig, axes = plt.subplots(2, 4, figsize=(9, 4.8))
for column, (name, sign) in zip(axes.T, signs.items(), strict=True):
    jacobians = getattr(calculus, f"{name}_jacobian")(w, x)
    for ax, jac, operand in zip(column, jacobians, "wx", strict=True):
        title = rf"$\partial\,(w {sign} x) / \partial {operand}$"
        draw(ax, jac, title, abs(jac).max())
axes[0, 0].set_ylabel("output $i$")
axes[1, 0].set(ylabel="output $i$", xlabel="input $j$")
fig.alt_text = "Eight diagonal 3 by 3 Jacobians, two for each operation."

# %%
# Scalar expansion
# ----------------
# For a scalar :math:`z` the Jacobian of :math:`x + z` is a column of ones, and
# the Jacobian of :math:`x z` is the column :math:`x`: every output depends on
# :math:`z`.

x, z = np.array([1.0, 2, 3]), np.array([5.0])
fig, axes = plt.subplots(
    1, 4, figsize=(8, 2.6), gridspec_kw={"width_ratios": [3, 1, 3, 1]}
)
for pair, f, sign in (
    (axes[:2], add_jacobian, "+"),
    (axes[2:], multiply_jacobian, ""),
):
    for ax, jac, operand in zip(pair, f(x, z), "xz", strict=True):
        draw(ax, jac, rf"$\partial\,(x {sign} z) / \partial {operand}$", 5)
axes[0].set(ylabel="output $i$", xlabel="input $j$")
fig.alt_text = "Two diagonal Jacobians with respect to x, two columns for z."

# %%
# The structure saves work
# ------------------------
# The same product :math:`u^\top J_w`, once with the dense matrix and once with
# its diagonal, timed on the machine that built this page: a diagonal product
# takes :math:`n` multiplications instead of :math:`n^2`, and no matrix.


def fastest(f, repeat=7):
    """Return the shortest of several times, in seconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


sizes = 2 ** np.arange(4, 12)
dense, diagonal = [], []
for n in sizes:
    u, w, x = np.random.default_rng(0).normal(size=(3, n))
    J_w, _ = multiply_jacobian(w, x)
    np.testing.assert_allclose(u @ J_w, multiply_vjp(u, w, x)[0])
    dense.append(fastest(lambda u=u, J=J_w: u @ J))
    diagonal.append(fastest(lambda u=u, w=w, x=x: multiply_vjp(u, w, x)))

fig, ax = plt.subplots()
ax.loglog(sizes, 1e6 * np.array(dense), "o-", label=r"dense: $u^\top J_w$")
ax.loglog(sizes, 1e6 * np.array(diagonal), "s-", label="diagonal: multiply_vjp")
ax.set(
    xlabel="elements $n$",
    ylabel="time (µs)",
    title="One vector-Jacobian product",
)
ax.legend()
