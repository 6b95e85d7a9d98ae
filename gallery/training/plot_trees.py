r"""
A network as one vector
=======================

The optimizers of SciPy, and the Hessian matrix, work with vectors only. With
all parameters in one vector, a network can use both.
"""

# %%
# L-BFGS and Adam
# ---------------
# A perceptron with 16 hidden units learns whether two numbers have the same
# sign. :func:`dlref.training.tree_ravel` makes a vector of its parameters and
# of its gradient, :func:`dlref.training.tree_unravel` makes parameters of a
# vector. On all data at once, without noise, L-BFGS needs far fewer gradients
# than Adam.
#
# The right panel is the matrix of second derivatives: one gradient for each
# entry of the vector, by central differences. The lines lie between the arrays.
# Dark blocks off the diagonal say that the best weights of one layer depend on
# the other.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

from dlref.neurons import LinearParams
from dlref.training import (
    adam_step,
    mlp_loss_value_and_grad,
    tree_map,
    tree_ravel,
    tree_unravel,
)

rng = np.random.default_rng(0)
x = rng.normal(size=(200, 2))
y = (x[:, 0] * x[:, 1] > 0).astype(int)
settings = {"loss": "cross_entropy", "activation": "tanh"}
shapes = [(16, 2), (2, 16)]
start = tuple(
    LinearParams(rng.normal(size=(m, n)) / np.sqrt(n), np.zeros(m))
    for m, n in shapes
)


def f(vector):
    params = tree_unravel(vector, start)
    loss, grads = mlp_loss_value_and_grad(x, y, params, **settings)
    return loss, tree_ravel(grads)


seen = []


def counted(vector):
    loss, gradient = f(vector)
    seen.append(loss)
    return loss, gradient


options = {"maxfun": 300, "maxiter": 300}
found = minimize(
    counted, tree_ravel(start), jac=True, method="L-BFGS-B", options=options
)

vector, state, losses = tree_ravel(start), None, []
for _ in range(300):
    loss, gradient = f(vector)
    losses.append(loss)
    vector, state = adam_step(vector, gradient, state, learning_rate=0.03)

h = 1e-5
units = np.eye(vector.size)
hessian = [
    (f(vector + h * e)[1] - f(vector - h * e)[1]) / (2 * h) for e in units
]

fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
axes[0].semilogy(losses, label="Adam")
axes[0].semilogy(np.minimum.accumulate(seen), label="L-BFGS")
axes[0].set(
    xlabel="gradients computed",
    ylabel="cross-entropy",
    title="Fitting a network",
)
axes[0].legend()
magnitude = np.log10(np.abs(hessian) + 1e-6)
picture = axes[1].imshow(magnitude, cmap="viridis_r", vmin=-4)
borders = np.cumsum(tree_ravel(tree_map(np.size, start)))
names = ["$W_1$", "$b_1$", "$W_2$", "$b_2$"]
middles = (np.concatenate([[0], borders[:-1]]) + borders) / 2 - 0.5
for border in borders[:-1]:
    axes[1].axhline(border - 0.5, color="k", lw=0.6)
    axes[1].axvline(border - 0.5, color="k", lw=0.6)
axes[1].set_xticks(middles, names)
axes[1].set_yticks(middles, names)
axes[1].set_title("Hessian of the loss")
fig.colorbar(picture, label=r"$\log_{10}$ of the absolute value")
fig.alt_text = (
    "Left: cross-entropy over the number of gradients, L-BFGS falling faster "
    "than Adam. Right: matrix of second derivatives in blocks, by the arrays "
    "of the two layers."
)

# %%
# The vector
# ----------
# Numbers in the order of the layers; a parameter that is None has no place.

for layer, shape in enumerate(tree_map(np.shape, start)):
    print(f"layer {layer}: {shape}")
print(f"the vector: {tree_ravel(start).shape}")
print(f"loss after {len(seen)} gradients of L-BFGS: {found.fun:.1e}")
print(f"loss after {len(losses)} gradients of Adam: {losses[-1]:.1e}")
