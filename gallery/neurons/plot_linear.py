r"""
A linear layer
==============

What does a dense layer do to its inputs, and what does the activation add? The
layer shears, rotates and scales a grid as a whole; the activation folds it.
"""

# %%
# A grid before, between and after
# --------------------------------
# Straight lines stay straight and parallel under :math:`y = W x + b`, since its
# Jacobian is :math:`W` everywhere. The ReLU folds the half-planes left of and
# below the axes onto them: two of the four quadrants become half-lines and one
# a point, and there the layer cannot be inverted.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import relu
from dlref.neurons import linear, linear_vjp

weight, bias = np.array([[1.0, -0.7], [0.5, 0.8]]), np.array([0.4, 0.2])
ticks, fine = np.linspace(-1, 1, 9), np.linspace(-1, 1, 101)
lines = [np.stack([np.full_like(fine, t), fine], axis=-1) for t in ticks]
lines += [line[:, ::-1] for line in lines]

fig, axes = plt.subplots(1, 3, figsize=(9.5, 3.3))
maps = {
    "inputs": lambda x: x,
    "$y = W x + b$": lambda x: linear(x, weight, bias),
    r"$\max(0, y)$": lambda x: relu(linear(x, weight, bias)),
}
for ax, (title, f) in zip(axes, maps.items(), strict=True):
    for k, line in enumerate(lines):
        ax.plot(*f(line).T, lw=1, color=f"C{k // len(ticks)}")
    ax.set(title=title, aspect="equal", xlim=(-2, 2.3), ylim=(-1.6, 1.9))
fig.alt_text = (
    "A square grid of inputs, the same grid sheared and rotated by a linear "
    "layer, and the grid after the ReLU, which has folded three of the four "
    "quadrants onto the axes and the origin."
)

# %%
# The gradient of the weights has the rank of the batch
# -----------------------------------------------------
# Each row of a batch adds one outer product to the gradient of a 64 x 64
# weight. A batch of 8 rows can change the weights in 8 directions only.

rng = np.random.default_rng(0)
fig, ax = plt.subplots()
for rows, marker in ((1, "o"), (8, "s"), (32, "^"), (128, "v")):
    x, dout = rng.normal(size=(2, rows, 64))
    _, dweight = linear_vjp(dout, x, np.eye(64))
    values = np.linalg.svd(dweight, compute_uv=False)
    ax.semilogy(
        range(1, 65), values / values[0], marker, ms=3, label=f"{rows} rows"
    )
ax.set(
    xlabel="index",
    ylabel="singular value / largest",
    title="Singular values of the weight gradient",
)
ax.legend()
