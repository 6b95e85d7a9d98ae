r"""
Transposed convolution
======================

What does each input write to the output, and why does the overlap of kernels
show in generated images?
"""

# %%
# Kernels that are added up
# -------------------------
# Three inputs, 1, 2 and 3, a kernel of four places and a stride of 2. Each
# input writes the kernel, scaled by its value, two places after the one
# before.

import matplotlib.pyplot as plt
import numpy as np

from dlref.convolution import conv, conv_transpose

x, kernel = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 3.0, 1.0])
weight = kernel[None, None]
parts = conv_transpose(np.diag(x)[:, None], weight, stride=2)[:, 0]
places = np.arange(parts.shape[1])

fig, ax = plt.subplots()
bottom = np.zeros(len(places))
for t, part in enumerate(parts):
    ax.bar(places, part, bottom=bottom, label=f"of input {t}, value {x[t]:g}")
    bottom += part
ax.set(title="What the outputs are made of", xlabel="output")
ax.legend(loc="upper left")

# %%
# The transposed matrix
# ---------------------
# Left the matrix of a convolution of stride 2, right the one of the
# transposed convolution with the same weight: rows and columns have changed
# places.

options = {"stride": 2, "padding": 1}
forward = conv(np.eye(8)[:, None], weight, **options)[:, 0].T
backward = conv_transpose(np.eye(4)[:, None], weight, **options)[:, 0].T
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6))
for ax, matrix, title in (
    (axes[0], forward, "convolution"),
    (axes[1], backward, "transposed convolution"),
):
    image = ax.imshow(matrix, vmin=0, vmax=3)
    ax.set(title=title, xlabel="input", ylabel="output")
fig.colorbar(image, ax=axes, label="weight", ticks=range(4))
fig.alt_text = (
    "Two heat maps: a matrix of four rows and eight columns with a band that "
    "moves two columns a row, and its transpose."
)

# %%
# A checkerboard
# --------------
# How many kernels reach each output of a plane, with stride 2. Three places
# are no multiple of the stride: a pixel gets one, two or four kernels, and
# random weights make that visible. With four places all inner pixels get
# four.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.4))
for ax, size in zip(axes, (3, 4), strict=True):
    plane = np.ones((1, 6, 6))
    count = conv_transpose(plane, np.ones((1, 1, size, size)), stride=2)[0]
    image = ax.imshow(count, vmin=0, vmax=4)
    ax.set(title=f"kernel of {size} × {size}", xticks=[], yticks=[])
fig.colorbar(image, ax=axes, label="kernels", ticks=range(5))
fig.alt_text = (
    "Two maps of counts. With a kernel of 3 x 3 they alternate between 1, 2 "
    "and 4 like a checkerboard; with 4 x 4 they are 4 everywhere but at the "
    "border."
)
