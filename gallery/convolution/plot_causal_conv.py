r"""
Causal convolution
==================

What does a window that ends at the current step see, and what must be kept to
go on with a sequence?
"""

# %%
# No entry above the diagonal
# ---------------------------
# The matrix of a kernel of four weights for eight steps. A convolution with
# centered windows also reads later steps; a causal one reads the three steps
# before the first one, which are its state.

import matplotlib.pyplot as plt
import numpy as np

from dlref.convolution import causal_conv, conv

steps, kernel = 8, np.array([1.0, 2.0, 3.0, 4.0])
width = len(kernel)
units = np.eye(steps)
centered = conv(units[:, None], kernel[None, None], padding=2)[:, 0, :steps].T
# a channel for each column: its input, or its state, is a unit vector
own = causal_conv(units, np.tile(kernel, (steps, 1)))[0]
states = np.eye(width - 1)
nothing = np.zeros((steps, width - 1))
weights = np.tile(kernel, (width - 1, 1))
of_state = causal_conv(nothing, weights, None, states)[0]
causal = np.hstack([of_state, own])

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.4), width_ratios=[8, 11])
axes[0].imshow(centered, vmin=0, vmax=4)
axes[0].set(title="centered", xlabel="input", ylabel="output")
image = axes[1].imshow(
    causal,
    vmin=0,
    vmax=4,
    extent=(-width + 0.5, steps - 0.5, steps - 0.5, -0.5),
)
axes[1].axvline(-0.5, color="white", ls="--")
axes[1].set(title="causal, with the state to the left", xlabel="input")
fig.colorbar(image, ax=axes, label="weight", ticks=range(5))
fig.alt_text = (
    "Two heat maps of banded matrices. The centered one has one diagonal "
    "above the main one; the causal one has none, and its first three rows "
    "reach into three columns of the state."
)

# %%
# Two pieces of one sequence
# --------------------------
# A noisy signal is smoothed in two pieces. Without the state the second piece
# starts from zeros, and its first outputs are wrong; with it they are those
# of the whole sequence.

rng = np.random.default_rng(0)
time = np.arange(60)
signal = 1 + 0.3 * np.sin(time / 6) + 0.1 * rng.normal(size=60)
x, mean = signal[:, None], np.full((1, 12), 1 / 12)
before = np.full((11, 1), signal[0])
whole, _ = causal_conv(x, mean, None, before)
first, state = causal_conv(x[:30], mean, None, before)
cut, _ = causal_conv(x[30:], mean)
kept, _ = causal_conv(x[30:], mean, None, state)

fig, ax = plt.subplots()
ax.plot(time, signal, ".", color="0.6", label="input")
ax.plot(time, whole, lw=5, alpha=0.35, label="whole sequence")
ax.plot(time[30:], cut, label="second piece, no state")
ax.plot(time[30:], kept, "--", label="second piece, with state")
ax.set(title="Running mean of 12 steps", xlabel="step", ylim=(0, 1.6))
ax.legend(loc="lower left")

# %%
# Packed documents
# ----------------
# Which inputs does an output see if documents of three, five and four steps
# stand in one row? For attention a mask says it. With ``segment_ids`` the
# window of a convolution ends at the boundary, the dashed line, and a
# recurrence begins anew: their Jacobians have the same blocks.

from dlref.attention import causal_mask, document_mask
from dlref.recurrent import selective_scan

ids = np.repeat([0, 1, 2], [3, 5, 4])
each = np.eye(len(ids))
fading = np.tile([0.2, 0.4, 0.6, 0.8], (len(ids), 1))
ones, slow = np.ones((len(ids), 1)), np.full((len(ids), 1), -0.2)
seen = {
    "attention": document_mask(ids) & causal_mask(len(ids)),
    "convolution, window 4": causal_conv(each, fading, segment_ids=ids)[0],
    "recurrence": selective_scan(
        each, np.ones(each.shape), slow, ones, ones, segment_ids=ids
    )[0],
}
fig, axes = plt.subplots(1, 3, figsize=(9.5, 3.5), sharey=True)
for ax, (title, weights) in zip(axes, seen.items(), strict=True):
    image = ax.imshow(weights, vmin=0, vmax=1)
    for boundary in (2.5, 7.5):
        ax.axhline(boundary, color="white", lw=0.8, ls="--")
        ax.axvline(boundary, color="white", lw=0.8, ls="--")
    ax.set(title=title, xlabel="input", xticks=range(0, 12, 4))
axes[0].set(ylabel="output", yticks=range(0, 12, 4))
fig.colorbar(image, ax=axes, label="seen, or derivative")
fig.alt_text = (
    "Three heat maps of twelve outputs and inputs. All are zero outside of "
    "three triangles on the diagonal, one for each document. Attention fills "
    "them, the convolution has a band of four diagonals in them, and the "
    "recurrence fades with the distance."
)
