r"""
Momentum in a narrow valley
===========================

What does a memory of earlier gradients buy? Across the valley they nearly
cancel, along it they add up.
"""

# %%
# The same path for each optimizer
# --------------------------------
# The quadratic :math:`\frac12 (x_1^2 + 50\, x_2^2)`, forty steps from the same
# point. Plain descent must keep its rate below 2/50 and crawls along the floor.
# The heavy ball runs ahead and overshoots; Nesterov's look-ahead damps the
# swinging. The adaptive methods scale each axis separately: for a valley along
# the axes its width does not matter.

import matplotlib.pyplot as plt
import numpy as np

from dlref.training import (
    adagrad_step,
    adam_step,
    momentum_step,
    nesterov_step,
    rmsprop_step,
    sgd_step,
)

curvature = np.array([1.0, 50.0])
steps = {
    "plain, 0.03": (sgd_step, {"learning_rate": 0.03}),
    "momentum, 0.03": (momentum_step, {"learning_rate": 0.03, "momentum": 0.8}),
    "Nesterov, 0.02": (nesterov_step, {"learning_rate": 0.02, "momentum": 0.8}),
    "Adagrad, 0.7": (adagrad_step, {"learning_rate": 0.7}),
    "RMSprop, 0.1": (rmsprop_step, {"learning_rate": 0.1, "alpha": 0.9}),
    "Adam, 0.3": (adam_step, {"learning_rate": 0.3}),
}


def descend(step, options, count, start=(-4.0, 0.6), rotation=None):
    """Return the points visited; `rotation` rotates the valley."""
    rotation = np.eye(2) if rotation is None else rotation
    path, state = [rotation @ start], None
    for _ in range(count):
        grad = rotation @ (curvature * (rotation.T @ path[-1]))
        point, state = step(path[-1], grad, state, **options)
        path.append(point)
    return np.array(path) @ rotation  # back in the valley's own axes


def draw(paths):
    """Draw paths in the valley's axes, a panel each."""
    x1, x2 = np.meshgrid(np.linspace(-4.5, 2, 200), np.linspace(-1, 1, 200))
    height = 0.5 * (x1**2 + 50 * x2**2)
    fig, axes = plt.subplots(2, 3, figsize=(9.5, 4.6), sharex=True, sharey=True)
    for ax, (name, path) in zip(axes.flat, paths.items(), strict=True):
        ax.contour(x1, x2, height, np.geomspace(0.1, 25, 8), linewidths=0.7)
        ax.plot(*path.T, ".-", color="C1", lw=1.1, ms=4)
        ax.set(title=name, xlim=(-4.5, 2), ylim=(-1, 1))
    fig.supxlabel("along the valley")
    fig.supylabel("across")
    return fig


paths = {name: descend(step, opts, 40) for name, (step, opts) in steps.items()}
fig = draw(paths)

# %%
# The valley rotated by 45 degrees
# --------------------------------
# Drawn in the valley's own directions again. Plain descent and momentum do
# not depend on the rotation; the adaptive methods do, since now both
# coordinates have gradients of about the same size.

c = np.sqrt(0.5)
rotation = np.array([[c, -c], [c, c]])
rotated = {
    name: descend(s, opts, 40, rotation=rotation)
    for name, (s, opts) in steps.items()
}
fig = draw(rotated)

# %%
# How fast they get down
# ----------------------
# The loss over 120 steps in the valley along the axes. RMSprop does not settle
# at a constant rate: where the gradients become small, the root of their mean
# square soon does, too, and the steps stay long.

fig, ax = plt.subplots()
for name, (step, options) in steps.items():
    path = descend(step, options, 120)
    ax.semilogy(0.5 * np.sum(curvature * path**2, axis=-1), lw=1.4, label=name)
ax.set(
    xlabel="step",
    ylabel="loss",
    ylim=(1e-12, 30),
    title="Loss of six optimizers in one narrow valley",
)
ax.legend(ncols=2, loc="lower left")
