r"""
Signal propagation: order, chaos and the edge
=============================================

For which weights does a signal survive depth, and does the theory predict what
a random network does?
"""

# %%
# Predicted and measured
# ----------------------
# Lines are the recursion, dots are one random network of 50 layers of width
# 300. He's weights keep ReLU's moments; LeCun's lose half of them at each
# layer. Tanh with He's weights settles at 0.62 forward, and its gradients grow
# by 11 percent per layer backward: they explode.

import matplotlib.pyplot as plt
import numpy as np

from dlref.propagation import critical_gain, signal_propagation

rng = np.random.default_rng(0)
widths = (300,) * 51
layers = np.arange(1, 51)
cases = [("relu", "he_normal"), ("relu", "lecun_normal"), ("tanh", "he_normal")]

fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True)
for activation, init in cases:
    found = signal_propagation(
        widths, activation=activation, init=init, rng=rng
    )
    label = f"{activation}, {init.split('_')[0]}"
    for ax, way in zip(axes, ("forward", "backward"), strict=True):
        [line] = ax.semilogy(
            layers, getattr(found, f"{way}_predicted"), label=label, lw=1
        )
        values = getattr(found, way)
        ax.semilogy(
            layers[::3], values[::3], "o", ms=3.5, color=line.get_color()
        )
axes[0].set(title="values, forward", xlabel="layer", ylabel="second moment")
axes[1].set(title="gradients, backward", xlabel="layer")
axes[0].legend()
fig.alt_text = (
    "Second moments over 50 layers on a log axis; dots on the predicted lines. "
    "ReLU with He: flat. ReLU with LeCun: straight down forward. Tanh with He: "
    "flat forward, growing backward."
)

# %%
# The critical line of tanh
# -------------------------
# Above the line gradients explode and near inputs part (chaos), below it
# they vanish and all inputs become alike (order). Without biases it starts
# at 1.

sigma_b = np.linspace(0, 1.5, 31)
sigma_w = np.array([critical_gain("tanh", bias_deviation=s) for s in sigma_b])

fig, ax = plt.subplots()
ax.plot(sigma_w, sigma_b)
ax.text(1.05, 1.1, "order: gradients vanish")
ax.text(2.0, 0.3, "chaos: gradients explode")
ax.set(
    xlim=(0.9, 3),
    xlabel=r"weights, $\sigma_w$",
    ylabel=r"biases, $\sigma_b$",
    ylim=(0, 1.5),
    title="The edge of chaos for tanh",
)
