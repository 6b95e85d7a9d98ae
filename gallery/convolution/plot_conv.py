r"""
Convolution
===========

Which outputs does an input touch, and which inputs does an output see?
"""

# %%
# Which outputs an input touches
# ------------------------------
# Nine inputs below, the outputs above, and a line for each pair that a kernel
# of three places connects. The colored lines begin at input 4. Its gradient
# is the sum of what comes back along them. A stride leaves outputs out, so
# that some inputs are read twice and others once; with dilation an input may
# touch outputs that its neighbor does not touch.

import matplotlib.pyplot as plt
import numpy as np

from dlref.convolution import conv, conv_vjp

settings = {
    "padding 1": {"padding": 1},
    "padding 1, stride 2": {"padding": 1, "stride": 2},
    "padding 2, dilation 2": {"padding": 2, "dilation": 2},
}
size, chosen = 9, 4


def matrix_of(weight, options, n=size):
    """Return the matrix of a convolution of one channel: a column per input."""
    return conv(np.eye(n)[:, None], [[weight]], **options)[:, 0].T


fig, axes = plt.subplots(1, 3, figsize=(9.5, 2.6))
for ax, (title, options) in zip(axes, settings.items(), strict=True):
    touched = matrix_of([1, 1, 1], options)
    above = np.linspace(0, size - 1, len(touched))
    for t, j in np.argwhere(touched):
        of_chosen = j == chosen
        ax.plot(
            [j, above[t]],
            [0, 1],
            color="C1" if of_chosen else "0.75",
            lw=2 if of_chosen else 0.8,
            zorder=2 if of_chosen else 1,
        )
    ax.plot(np.arange(size), np.zeros(size), "s", color="C0", ms=7, zorder=3)
    ax.plot(above, np.ones(len(above)), "o", color="C2", ms=7, zorder=3)
    ax.set(title=title, xticks=[], yticks=[0, 1], yticklabels=["in", "out"])
    ax.set_ylim(-0.2, 1.2)
fig.alt_text = (
    "Inputs and outputs of a convolution, joined by lines. Input 4 touches "
    "three outputs with stride 1, one with stride 2, and three that are two "
    "apart with dilation 2."
)

# %%
# The matrix
# ----------
# Each row is the kernel, moved on by the stride: equal numbers stand along
# diagonals. The transposed matrix gives the gradient of the input.

fig, axes = plt.subplots(1, 3, figsize=(9.5, 3.0))
for ax, (title, options) in zip(axes, settings.items(), strict=True):
    image = ax.imshow(matrix_of([1, 2, 3], options), vmin=0, vmax=3)
    ax.set(title=title, xlabel="input", ylabel="output")
fig.colorbar(image, ax=axes, label="weight", ticks=range(4))
fig.alt_text = (
    "Heat maps of three Toeplitz matrices for the kernel 1, 2, 3: a band of "
    "three diagonals, a band that descends two columns a row, and three "
    "diagonals that are two apart."
)

# %%
# A window that moves over an image
# ---------------------------------
# A kernel of 3 x 3 with stride 2 and padding 1 on an image of 5 x 5 pixels,
# for four of its nine windows. The outline is the window; the shade counts
# how many windows have read a pixel by then. In the end, rows and columns 1
# and 3 have been read twice, since neighboring windows overlap there.

frames = [0, 1, 2, 8]
fig, axes = plt.subplots(1, len(frames), figsize=(9.5, 2.7))
x, weight = np.zeros((1, 5, 5)), np.ones((1, 1, 3, 3))
for ax, number in zip(axes, frames, strict=True):
    u = (np.arange(9) <= number).astype(float).reshape(1, 3, 3)
    read, _ = conv_vjp(u, x, weight, stride=2, padding=1)
    ax.imshow(read[0], vmin=0, vmax=4, cmap="Blues", extent=(0, 5, 5, 0))
    row, column = divmod(number, 3)
    corner = 2 * column - 1, 2 * row - 1
    ax.add_patch(plt.Rectangle(corner, 3, 3, fill=False, ec="C1", lw=2.5))
    ax.add_patch(plt.Rectangle((0, 0), 5, 5, fill=False, ec="0.3", lw=1))
    ax.set(xlim=(-1.2, 6.2), ylim=(6.2, -1.2), xticks=[], yticks=[])
    ax.set_title(f"window {number + 1}, output ({row}, {column})")
fig.alt_text = (
    "Four frames of a window of 3 x 3 that moves over an image of 5 x 5 in "
    "steps of two. It starts one pixel outside of the upper left corner and "
    "ends one pixel outside of the lower right one; odd rows and columns are "
    "read twice."
)

# %%
# What one output sees
# --------------------
# The gradient of one output in the middle, after one, two, ... layers with a
# kernel of 3 places. Without dilation the field of view grows by two a layer;
# if the dilation doubles from layer to layer, it doubles, too.

length = 63
fig, axes = plt.subplots(1, 2, figsize=(9.5, 2.8), sharey=True)
for ax, doubled in zip(axes, (False, True), strict=True):
    rows = []
    for depth in range(5):
        u = np.zeros((1, length))
        u[0, length // 2] = 1
        for layer in reversed(range(depth)):
            d = 2**layer if doubled else 1
            u, _ = conv_vjp(u, u, np.ones((1, 1, 3)) / 3, padding=d, dilation=d)
        rows.append(u[0] / u.max())
    ax.imshow(np.array(rows), aspect="auto", vmin=0, vmax=1, cmap="viridis")
    ax.set(
        title="dilations 1, 2, 4, 8" if doubled else "dilation 1",
        xlabel="input",
    )
axes[0].set_ylabel("layers")
fig.alt_text = (
    "Heat maps of the gradient of one output by 63 inputs, after 0 to 4 "
    "layers. With dilation 1 it reaches 9 inputs, with doubled dilations 31."
)

# %%
# Move an input
# -------------
# The kernel is 1, 2, 3, and the padding is as wide as the dilation. Move the
# input and watch the outputs that it touches: their weights stand in reversed
# order, as they do in the gradient. The second plot counts the windows that
# read each input: with a stride they differ, and with a stride of 3 and a
# dilation of 3 most inputs are read by no window at all.

try:
    from interactive import Control, Interactive, Panel
except ModuleNotFoundError:
    msg = "Put interactive.py, which the page offers, beside the script."
    raise SystemExit(msg) from None

places = np.arange(size)


def setting(stride, dilation):
    """Return the options of the controls."""
    d = int(dilation)
    return {"stride": int(stride), "padding": d, "dilation": d}


def touched_by(place, stride, dilation):
    """Return the weight of an input in each output; 0 after the last one."""
    matrix = matrix_of([1, 2, 3], setting(stride, dilation))
    return {"weight": np.pad(matrix[:, int(place)], (0, size - len(matrix)))}


def counted(stride, dilation):
    """Return how many windows read each input."""
    matrix = matrix_of([1, 1, 1], setting(stride, dilation))
    return {"windows": matrix.sum(axis=0)}


Interactive(
    "Outputs that an input touches",
    [
        Control("place", "Input j", places, start=4),
        Control("stride", "Stride s", [1, 2, 3], start=1),
        Control("dilation", "Dilation d", [1, 2, 3], start=1),
    ],
    [
        Panel(
            "Outputs that input j touches",
            places,
            touched_by,
            ["place", "stride", "dilation"],
            xlabel="output",
            ylabel="weight",
            ylim=(0, 3),
            points=True,
        ),
        Panel(
            "Windows that read each input",
            places,
            counted,
            ["stride", "dilation"],
            xlabel="input",
            ylabel="windows",
            ylim=(0, 3),
            points=True,
        ),
    ],
).show()
