r"""
The vanishing gradient, layer by layer
======================================

How much of the gradient reaches the first of thirty layers? It is a product of
thirty factors, and their size decides whether the layer learns.
"""

# %%
# Sigmoids pass a quarter at most
# -------------------------------
# A perceptron of thirty hidden layers, 64 neurons wide; a unit cotangent at
# its end. :func:`~dlref.neurons.mlp_deltas` returns the gradient with
# respect to the pre-activation of each layer. For the sigmoid with a gain of
# 1 it falls by more than a factor of four per layer, since the slope is at
# most 1/4. It depends on the size of the weights, and for each activation
# there is one with which the gradient neither falls nor grows exponentially:
# the gain is 1 for tanh, 1.41 for ReLU and 10.15 for the sigmoid, see
# :func:`~dlref.propagation.critical_gain`.

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from dlref.neurons import (
    LinearParams,
    linear,
    linear_vjp,
    mlp_deltas,
    mlp_vjp,
)
from dlref.normalization import layer_norm, layer_norm_vjp

DEPTH, WIDTH = 30, 64
rng = np.random.default_rng(0)
x = rng.normal(size=(32, WIDTH))
u = rng.normal(size=(32, WIDTH))


def network(gain):
    scale = gain / np.sqrt(WIDTH)
    return tuple(
        LinearParams(scale * rng.normal(size=(WIDTH, WIDTH)))
        for _ in range(DEPTH + 1)
    )


def sizes(deltas):
    return [np.sqrt(np.mean(d**2)) for d in deltas]


cases = {
    "sigmoid, gain 1": ("sigmoid", 1.0),
    "sigmoid, gain 10.15": ("sigmoid", 10.15),
    "tanh, gain 0.7": ("tanh", 0.7),
    "tanh, gain 1": ("tanh", 1.0),
    r"ReLU, gain $\sqrt{2}$ (He)": ("relu", np.sqrt(2)),
    "ReLU, gain 2": ("relu", 2.0),
}
layers = np.arange(1, DEPTH + 2)
fig, ax = plt.subplots()
for label, (activation, gain) in cases.items():
    deltas = mlp_deltas(u, x, network(gain), activation=activation)
    ax.semilogy(layers, sizes(deltas), label=label)
ax.set(
    xlabel="layer",
    ylabel=r"root mean square of $\delta_l$",
    title="The gradient in the backward pass, from right to left",
)
ax.legend(ncols=2)

# %%
# Residual connections and normalization
# --------------------------------------
# With a residual connection, :math:`h_l = h_{l-1} + \phi(W h_{l-1})`, the
# gradient has a path around every sigmoid: the Jacobian is the identity plus a
# small matrix. Layer normalization before the weights divides by the size of
# the sum. That makes up for a gain of 1 and below, where a sigmoid is nearly
# linear, but not for one of 10, at which the gradient explodes. Both are
# chained here from the library's own vjps; 1/2 is subtracted from each sigmoid,
# so that its output has mean 0.


def chained(gain, residual, normalized):
    """Return the size of the gradient at each layer of a sigmoid network."""
    weights = [p.weight for p in network(gain)]
    h, kept = x, []
    for w in weights:
        n = layer_norm(h) if normalized else h
        s = 1 / (1 + np.exp(-linear(n, w)))
        kept.append((h, n, s))
        h = s - 0.5 + (h if residual else 0)
    dh, found = u, []
    for w, (h, n, s) in zip(weights[::-1], kept[::-1], strict=True):
        delta = dh * s * (1 - s)
        dn = linear_vjp(delta, n, w)[0]
        dn = layer_norm_vjp(dn, h) if normalized else dn
        dh = dn + (dh if residual else 0)
        found.insert(0, dh)
    return sizes(found)


fig, ax = plt.subplots()
for residual, normalized, label in (
    (False, False, "plain"),
    (False, True, "layer norm"),
    (True, False, "residual"),
    (True, True, "residual and layer norm"),
):
    ax.semilogy(layers, chained(1.0, residual, normalized), label=label)
ax.set(
    xlabel="layer",
    ylabel="root mean square of the gradient",
    title="Thirty layers of sigmoids, gain 1",
)
ax.legend()

# %%
# A small network, with its gradients
# -----------------------------------
# Three inputs, two hidden layers with ReLU, one output, and the gradient of
# the output with respect to each weight as the width of its line: blue where
# it is positive, orange where it is negative. A unit that is inactive, drawn
# gray, stops the gradient: no line into it or out of it has a width.

rng = np.random.default_rng(3)
widths = [3, 4, 4, 1]
small = tuple(
    LinearParams(rng.normal(size=(n, m)), np.zeros(n))
    for m, n in pairwise(widths)
)
inputs = np.array([1.0, -0.5, 2.0])
values = [inputs]
for k, part in enumerate(small):
    z = linear(values[-1], *part)
    values.append(np.maximum(z, 0) if k < 2 else z)
_, grads = mlp_vjp(np.ones(1), inputs, small, activation="relu")
fig, ax = plt.subplots(figsize=(7, 3.6))
places = [
    [(2.0 * k, j - n / 2) for j in range(n)] for k, n in enumerate(widths)
]
largest = max(np.abs(part.weight).max() for part in grads)
for k, part in enumerate(grads):
    for i, end in enumerate(places[k + 1]):
        for j, start in enumerate(places[k]):
            size = part.weight[i, j] / largest
            ax.plot(
                *zip(start, end, strict=True),
                color="0.7" if size == 0 else "C0" if size > 0 else "C1",
                lw=0.5 + 6 * abs(size),
                zorder=0,
            )
for k, column in enumerate(places):
    for j, place in enumerate(column):
        value = float(values[k][j])
        active = value != 0
        ax.add_patch(
            plt.Circle(place, 0.3, fc="1" if active else "0.9", ec="0.3")
        )
        ax.text(*place, f"{value:.1f}", ha="center", va="center", fontsize=9)
for k, text in enumerate(["input", "hidden 1", "hidden 2", "output"]):
    ax.text(2.0 * k, 1.75, text, ha="center")
ax.set(xlim=(-0.6, 6.6), ylim=(-2.5, 2.2), aspect="equal")
ax.axis("off")
fig.alt_text = (
    "A network of three inputs, two hidden layers of four units, and one "
    "output. Each weight is a line whose width is the size of its gradient; "
    "no line with a width leads into or out of an inactive unit."
)
