r"""
Squared, absolute and Huber error
=================================

What are the loss and the gradient of an error? One outlier dominates the
squared error; the gradient of the absolute error has the same size for all
errors; the Huber loss is half the first near zero, and a line far away.
"""

# %%
# Loss and gradient
# -----------------
# The gradient of the squared error grows without bound, the gradient of the
# absolute error jumps at 0.

import matplotlib.pyplot as plt
import numpy as np

from dlref.losses import (
    absolute_error,
    absolute_error_grad,
    huber,
    huber_grad,
    squared_error,
    squared_error_grad,
)

error = np.linspace(-3, 3, 601)
zero = np.zeros_like(error)
losses = {
    "squared": (squared_error, squared_error_grad),
    "absolute": (absolute_error, absolute_error_grad),
    r"Huber, $\delta = 1$": (huber, huber_grad),
}

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
for name, (loss, grad) in losses.items():
    axes[0].plot(error, loss(error, zero, reduction="none"), label=name)
    axes[1].plot(error, grad(error, zero, reduction="sum"))
axes[0].set(
    xlabel="error $p - t$", ylabel=r"loss $\ell$", title="Loss", ylim=(0, 4)
)
axes[1].set(
    xlabel="error $p - t$",
    ylabel=r"$\partial \ell / \partial p$",
    title="Gradient",
    ylim=(-3, 3),
)
axes[0].legend()

# %%
# The best constant
# -----------------
# Nine measurements near 1, and one of 8. For each constant prediction the
# mean loss, with a dot at its minimum: the squared error ends at the mean,
# 1.7, the absolute error at the median, and the Huber loss at 1.11.

targets = np.array([0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 8.0])
constants = np.linspace(0, 3, 601)
fig, ax = plt.subplots()
for name, (loss, _) in losses.items():
    values = np.array([loss(np.full(10, c), targets) for c in constants])
    best = values.argmin()
    (line,) = ax.plot(constants, values, label=name)
    ax.plot(constants[best], values[best], "o", color=line.get_color())
ax.plot(targets[:-1], np.zeros(9), "|", color="0.5", ms=12)
ax.set(
    xlabel="constant prediction",
    ylabel="mean loss",
    ylim=(0, 9),
    title="One outlier at 8, the other targets at the ticks",
)
ax.legend()
