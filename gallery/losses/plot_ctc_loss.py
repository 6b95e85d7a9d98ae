r"""
The trellis of CTC
==================

Which ways lead through the letters of a text, and how much does each step of a
recording belong to each letter?
"""

# %%
# All beginnings and ends
# -----------------------
# The text "see" with blanks around its letters, over twelve steps. A path goes
# from the left to the right: it stays, moves on by one place, or skips a blank
# between letters that differ, never between the two e. The first picture shows
# the probability of all beginnings that end at a place, as its logarithm; the
# second, in how many of the paths of the text a step is at that place.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import log_softmax
from dlref.losses import ctc_loss, ctc_loss_grad

rng = np.random.default_rng(3)
T, names, text = 12, "-se", [1, 2, 2]
places = [0, *(k for letter in text for k in (letter, 0))]
spoken = np.array([0, 1, 1, 0, 2, 2, 2, 0, 0, 2, 0, 0])
logits = rng.normal(size=(T, 3))
logits[np.arange(T), spoken] += 1.5
x = log_softmax(logits)


def trellis(x, places):
    """Logarithms of the sums over all beginnings, the recursion of the page."""
    alpha = np.full((len(x), len(places)), -np.inf)
    alpha[0, :2] = x[0, places[:2]]
    for t in range(1, len(x)):
        for s, k in enumerate(places):
            skip = s > 1 and k != 0 and k != places[s - 2]
            before = alpha[t - 1, max(0, s - 1 - skip) : s + 1]
            alpha[t, s] = x[t, k] + np.logaddexp.reduce(before)
    return alpha


alpha = trellis(x, places)
beta = trellis(x[::-1], places[::-1])[::-1, ::-1] - x[:, places]
loss = ctc_loss(x, text, reduction="sum")
share = np.exp(alpha + beta + loss)

fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
pictures = {
    "Beginnings, logarithm": np.where(np.isfinite(alpha), alpha, np.nan),
    "Share of the paths": share,
}
for ax, (title, values) in zip(axes, pictures.items(), strict=True):
    image = ax.imshow(values.T, aspect="auto", cmap="viridis")
    ax.set(title=title, xlabel="step", xticks=range(T))
    ax.set_yticks(range(len(places)), [names[k] for k in places])
    fig.colorbar(image, ax=ax)
for t in range(T - 1):
    for s, k in enumerate(places):
        reach = 1 + (s > 1 and k != 0 and k != places[s - 2])
        for r in range(max(0, s - reach), s + 1):
            weight = share[t, r] * share[t + 1, s]
            if weight > 0.01:
                axes[1].plot([t, t + 1], [r, s], color="w", lw=3 * weight)

# %%
# The gradient at the logits
# --------------------------
# The probability of each class minus its share among the paths of the text.
# Where the network hears the right letter at a place that fits, there is little
# to change.

grad = ctc_loss_grad(x, text, reduction="sum")
pushed = grad - np.exp(x) * grad.sum(1, keepdims=True)
fig, axes = plt.subplots(1, 3, figsize=(10, 2.4), sharey=True)
pictures = {
    "Probabilities y": np.exp(x),
    r"Shares $\gamma$": -grad,
    r"Gradient $y - \gamma$": pushed,
}
for ax, (title, values) in zip(axes, pictures.items(), strict=True):
    limits = {"vmin": 0, "vmax": 1, "cmap": "viridis"}
    if "Gradient" in title:
        limits = {"vmin": -1, "vmax": 1, "cmap": "RdBu_r"}
    image = ax.imshow(values.T, aspect="auto", **limits)
    ax.set(title=title, xlabel="step")
    ax.set_yticks(range(3), list(names))
    fig.colorbar(image, ax=ax)
