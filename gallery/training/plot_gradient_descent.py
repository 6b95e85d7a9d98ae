r"""
Gradient descent and the learning rate
======================================

What learning rate is too small, right, or too large? On a quadratic the
curvature decides, and the limit is sharp: two over the largest curvature.
"""

# %%
# Three rates in one valley
# -------------------------
# The function is :math:`\frac12 (x_1^2 + 12\, x_2^2)`, so the limit is
# :math:`2 / 12 = 0.167`. Below it every step goes down; close to it the
# path swings across the valley; above it, the path diverges.

import matplotlib.pyplot as plt
import numpy as np

from dlref.training import gradient_descent

curvature = np.array([1.0, 12.0])


def valley(x):
    """Return the value and the gradient."""
    return 0.5 * np.sum(curvature * x**2), curvature * x


x1, x2 = np.meshgrid(np.linspace(-3.2, 1.2, 200), np.linspace(-1.6, 1.6, 200))
height = 0.5 * (x1**2 + 12 * x2**2)
rates = {"too small": 0.008, "right": 0.12, "too large": 0.17}

fig, axes = plt.subplots(1, 3, figsize=(9.5, 3), sharey=True)
for ax, (word, rate) in zip(axes, rates.items(), strict=True):
    path = [np.array([-3.0, 0.5])]
    gradient_descent(
        valley,
        path[0],
        learning_rate=rate,
        steps=24,
        callback=lambda _step, _value, x, path=path: path.append(x),
    )
    ax.contour(
        x1,
        x2,
        height,
        np.geomspace(0.05, 16, 9),
        cmap="viridis",
        linewidths=0.8,
    )
    ax.plot(*np.array(path).T, ".-", color="C1", lw=1.2)
    ax.set(
        title=rf"{word}: $\eta = {rate:g}$",
        xlabel="$x_1$",
        xlim=(-3.2, 1.2),
        ylim=(-1.6, 1.6),
    )
axes[0].set_ylabel("$x_2$")

# %%
# After a hundred steps
# ---------------------
# The loss that is left, for every rate. To the left the shallow direction has
# hardly changed, to the right of the broken line the steep one diverges. The
# best rate, :math:`2 / (1 + 12)`, balances both.

rates = np.linspace(0.002, 0.18, 357)
left = [
    valley(
        gradient_descent(valley, [-3.0, 0.5], learning_rate=r, steps=100)[0]
    )[0]
    for r in rates
]
fig, ax = plt.subplots()
ax.semilogy(rates, left)
ax.axvline(2 / 12, ls="--", color="0.5", lw=1)
ax.axvline(2 / 13, ls=":", color="0.5", lw=1)
ax.set(
    xlabel=r"learning rate $\eta$",
    ylabel="loss after 100 steps",
    ylim=(1e-16, 1e4),
    title="Best at 2/13 (dotted), hopeless from 2/12 on (broken)",
)
