r"""
The loss surface of a neuron
============================

What does the loss of a neuron look like as a function of its parameters? It is
a valley, and next to it a flat region where the gradient is zero.
"""

# %%
# Weight and bias
# ---------------
# One input, four examples on the line :math:`y = 2x + 1`. The valley has
# its lowest point at :math:`w = 2`, :math:`b = 1`. Below the broken line
# no example makes the neuron active: the loss is flat and the gradient 0.
# The starting points on the other side descend into the valley, and along it
# towards the minimum; those in the flat region stay where they are. Left of the
# picture there are others that do not arrive: at :math:`w = -4`,
# :math:`b = 4` the first example is fitted, no other makes the neuron active,
# and the gradient is 0.

import matplotlib.pyplot as plt
import numpy as np

from dlref.losses import neuron_squared_error, neuron_squared_error_grad
from dlref.training import gradient_descent

X, y = np.array([[0.5], [1.0], [1.5], [2.0]]), np.array([2.0, 3.0, 4.0, 5.0])
ws, bs = np.linspace(-3, 4, 141), np.linspace(-4, 5, 181)
surface = np.array(
    [[neuron_squared_error(X, y, [w], b) for w in ws] for b in bs]
)


def loss(params):
    """Return value and gradient, as the descent expects them."""
    return (
        neuron_squared_error(X, y, *params),
        neuron_squared_error_grad(X, y, *params),
    )


fig, ax = plt.subplots(figsize=(7, 4.6))
image = ax.contourf(
    ws, bs, surface, np.geomspace(0.02, 80, 19), norm="log", extend="both"
)
for start in ((-0.5, 2.0), (3.0, 4.0), (0.8, -1.2), (-2.0, -1.0), (-2.5, 1.0)):
    path = [start]
    gradient_descent(
        loss,
        (np.array(start[:1]), start[1]),
        learning_rate=0.05,
        steps=200,
        callback=lambda _step, _value, p, path=path: path.append(
            (p[0][0], p[1])
        ),
    )
    ax.plot(*np.array(path).T, ".-", color="C1", lw=1.2, ms=4)
    ax.plot(*start, "o", color="C1", ms=7)
edge = np.minimum(-ws * X.min(), -ws * X.max())
ax.plot(ws, edge, "--", color="white")
ax.set(
    xlabel="weight $w$",
    ylabel="bias $b$",
    ylim=bs[[0, -1]],
    xlim=ws[[0, -1]],
    title="Descent from five points; below the broken line the neuron is dead",
)
fig.colorbar(image, ax=ax, label="loss", format="%.2g")

# %%
# A cut through the surface
# -------------------------
# Along the weight, at :math:`b = -1`. Each example becomes active at a
# weight of its own, where the slope or the curvature jumps; between those it
# is a parabola. On the left it is flat.

fig, ax = plt.subplots()
cut = [neuron_squared_error(X, y, [w], -1.0) for w in np.linspace(-1, 5, 601)]
ax.plot(np.linspace(-1, 5, 601), cut)
for x in X[:, 0]:
    ax.axvline(1 / x, color="0.5", lw=0.8, ls=":")
ax.set(
    xlabel="weight $w$",
    ylabel="loss",
    title="The dotted lines mark where an example becomes active",
)
