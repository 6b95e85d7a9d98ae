r"""
A perceptron learns two moons
=============================

What does a network with two hidden layers make of two classes that no line can
separate? Watch the surface between them curve, and the validation loss rise.
"""

# %%
# The decision surface as it learns
# ---------------------------------
# Two interleaved half circles with noise, dots and triangles. The shade is the
# probability of the second class, the black line where it is 1/2; the title has
# the share of the points that are classified correctly. A network without a
# hidden layer would be left with a straight line.

from functools import partial
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import softmax
from dlref.neurons import LinearParams, mlp
from dlref.propagation import he_normal
from dlref.training import (
    adam_step,
    minibatch_descent,
    mlp_loss,
    mlp_loss_value_and_grad,
)

rng = np.random.default_rng(0)


def moons(count, noise):
    classes = np.arange(count) % 2
    angle = rng.uniform(0, np.pi, count)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    x[classes == 1] = [1.0, 0.5] - x[classes == 1]
    return x + noise * rng.normal(size=x.shape), classes


def network(*widths):
    return tuple(
        LinearParams(he_normal(rng, (n, m)), np.zeros(n))
        for m, n in pairwise(widths)
    )


def value_and_grad(params, x, y):
    return mlp_loss_value_and_grad(x, y, params)


x, y = moons(200, 0.15)
side = np.linspace(-1.6, 2.6, 121)
grid = np.stack(np.meshgrid(side, side), axis=-1)
params = network(2, 16, 16, 2)
fig, axes = plt.subplots(1, 4, figsize=(9.5, 2.8), sharex=True, sharey=True)
for ax, epochs in zip(axes, (0, 3, 10, 60), strict=True):
    fit = minibatch_descent(
        value_and_grad,
        params,
        x,
        y,
        step=partial(adam_step, learning_rate=0.01),
        epochs=epochs,
        batch_size=20,
        rng=np.random.default_rng(1),
    )
    p = softmax(mlp(grid, fit.params))[..., 1]
    ax.pcolormesh(side, side, p, cmap="RdBu", vmin=-0.6, vmax=1.6)
    ax.contour(side, side, p, [0.5], colors="k", linewidths=1.2)
    for c, marker in ((0, "o"), (1, "^")):
        ax.plot(*x[y == c].T, marker, ms=2.5, color="k", alpha=0.6, mew=0)
    right = np.mean(mlp(x, fit.params).argmax(-1) == y)
    ax.set(
        title=f"epoch {epochs}: {right:.0%}",
        xlim=(-1.6, 2.6),
        ylim=(-1.3, 1.8),
    )

# %%
# When to stop
# ------------
# Forty noisy points and a network far too large for them. The training loss
# falls towards 0; the loss on points it has not seen starts to rise early.
# ``patience`` would have ended the run soon after the dot, and
# :func:`~dlref.training.minibatch_descent` returns the parameters of the
# dot in any case.

x, y = moons(40, 0.35)
xv, yv = moons(400, 0.35)
fit = minibatch_descent(
    value_and_grad,
    network(2, 64, 64, 2),
    x,
    y,
    step=partial(adam_step, learning_rate=0.005),
    epochs=150,
    batch_size=10,
    rng=rng,
    validation=lambda params: mlp_loss(xv, yv, params),
)
epoch = np.arange(1, len(fit.loss) + 1)
fig, ax = plt.subplots()
ax.semilogy(epoch, fit.loss, label="training")
ax.semilogy(epoch, fit.validation, label="validation")
best = fit.best_epoch
ax.plot(best, fit.validation[best - 1], "o", color="C1", label="best epoch")
ax.set(xlabel="epoch", ylabel="cross-entropy", title="Early stopping")
ax.legend()
