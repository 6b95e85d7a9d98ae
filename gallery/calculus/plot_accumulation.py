r"""
Forward or reverse mode?
========================

In which order should the Jacobians of a chain be multiplied? It depends on
whether there are more inputs or more outputs.
"""

# %%
# The crossover
# -------------
# Five layers of width 64 between :math:`n` inputs and :math:`m` outputs. Left
# the cost of both modes for 64 inputs as the number of outputs grows; right
# which mode is cheaper. A training loss sits in the upper left corner of the
# right picture, where forward mode takes 184 times as many multiplications.

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from dlref.calculus import chain_cost


def chain(outputs, inputs, width=64, layers=5):
    """Return the shapes of the Jacobians, the outermost first."""
    sides = [outputs, *[width] * (layers - 1), inputs]
    return list(pairwise(sides))


sizes = 2 ** np.arange(13)
cost = {
    mode: [chain_cost(chain(int(m), 64), mode=mode)[0] for m in sizes]
    for mode in ("forward", "reverse", "optimal")
}
ratio = np.array(
    [
        [
            chain_cost(chain(int(m), int(n)), mode="forward")[0]
            / chain_cost(chain(int(m), int(n)), mode="reverse")[0]
            for m in sizes
        ]
        for n in sizes
    ]
)

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.8))
for (mode, values), style in zip(
    cost.items(), ("o-", "s-", "k--"), strict=True
):
    axes[0].loglog(sizes, values, style, label=mode, ms=4)
axes[0].axvline(64, lw=0.8, color="0.5")
axes[0].set(xlabel="outputs $m$", ylabel="multiplications", title="64 inputs")
axes[0].legend()
mesh = axes[1].pcolormesh(
    sizes,
    sizes,
    np.log10(ratio),
    cmap="RdBu",
    vmin=-3.6,
    vmax=3.6,
    shading="nearest",
)
axes[1].plot(sizes, sizes, "--", color="0.4")
axes[1].set(
    xscale="log", yscale="log", xlabel="outputs $m$", ylabel="inputs $n$"
)
axes[1].set_title("forward / reverse cost")
fig.colorbar(mesh, ax=axes[1], label=r"$\log_{10}$ of the ratio")

# %%
# Neither forward nor reverse
# ---------------------------
# A bottleneck in the middle, as in an autoencoder, is best multiplied from both
# ends towards it. The optimal order is found by dynamic programming.

sides = [784, 256, 16, 256, 784]
shapes = list(pairwise(sides))
results = {mode: chain_cost(shapes, mode=mode) for mode in cost}


def written(order):
    """Write an order as a product with parentheses."""
    if isinstance(order, int):
        return f"$J_{order + 1}$"
    return "(" + " ".join(written(part) for part in order) + ")"


fig, ax = plt.subplots(figsize=(6.4, 2.4))
names = [f"{mode}\n{written(order)}" for mode, (_, order) in results.items()]
bars = ax.barh(names, [count / 1e6 for count, _ in results.values()])
ax.bar_label(bars, fmt="%.0f", padding=3)
ax.set(
    xlabel="multiplications (millions)", title="Widths 784, 256, 16, 256, 784"
)
ax.invert_yaxis()
ax.margins(x=0.15)
