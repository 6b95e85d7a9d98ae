r"""
A neuron
========

What does one neuron compute over all its inputs, and where does it learn? It
is flat on one side of a plane and rises on the other, and only there does it
have a gradient.
"""

# %%
# The output over two inputs
# --------------------------
# Weights :math:`w = (1, -0.5)` and bias :math:`b = 0.4`. On the white line
# the pre-activation :math:`z` is 0. The arrow is :math:`w`: it points
# straight up the ramp. The smooth relative on the right has no edge, and a
# slope everywhere.

import matplotlib.pyplot as plt
import numpy as np

from dlref.neurons import neuron, neuron_grad

w, b = np.array([1.0, -0.5]), 0.4
side = np.linspace(-2, 2, 201)
x = np.stack(np.meshgrid(side, side), axis=-1)

fig, axes = plt.subplots(1, 2, figsize=(9, 3.9), sharey=True)
for ax, activation in zip(axes, ("relu", "softplus"), strict=True):
    a = neuron(x, w, b, activation=activation)
    image = ax.contourf(side, side, a, np.linspace(0, 3.6, 19))
    z = neuron(x, w, b, activation="identity")
    ax.contour(side, side, z, [0], colors="white", linewidths=2)
    ax.annotate(
        "",
        w - b * w / (w @ w),
        -b * w / (w @ w),
        arrowprops={"arrowstyle": "->", "color": "C1", "lw": 2},
    )
    ax.set(title=activation, xlabel="$x_1$", aspect="equal")
axes[0].set_ylabel("$x_2$")
fig.colorbar(image, ax=axes, label="output $a$", ticks=range(4))
fig.alt_text = (
    "Two maps of a neuron's output over two inputs, with ReLU and with "
    "softplus. A white line marks z = 0; with ReLU the output is 0 on one "
    "side of it. On the other side it rises along the arrow, which is "
    "perpendicular to the line."
)

# %%
# The gradient of the weights
# ---------------------------
# One input :math:`x = 2` and the bias :math:`-1`, as the weight varies.
# Where :math:`z > 0` the gradient of the ReLU neuron is the input itself,
# elsewhere it is 0, so that gradient descent does not change an inactive
# neuron. The gradient of the softplus is never 0.

weights = np.linspace(-1, 2, 301)
fig, axes = plt.subplots(1, 2, figsize=(8, 3), sharex=True)
for activation in ("relu", "softplus"):
    a, slope = (
        [f([2.0], [v], -1.0, activation=activation) for v in weights]
        for f in (neuron, lambda *args, **kw: neuron_grad(*args, **kw)[0][0])
    )
    axes[0].plot(weights, a, label=activation)
    axes[1].plot(weights, slope, label=activation)
axes[0].set(xlabel="weight $w$", ylabel="output $a$", title="The output")
axes[1].set(
    xlabel="weight $w$",
    title="Its gradient",
    ylabel=r"$\partial a / \partial w$",
)
axes[1].legend()
