r"""
Pooling
=======

Which elements get the gradient of a window, and what does a shift of the
input do?
"""

# %%
# Where the gradient goes
# -----------------------
# Windows of 3 x 3 with stride 2 over a smooth image, and an upstream gradient
# of ones. The maximum sends a 1 from each window to its winner, marked by
# dots in the image; one that wins in several windows gets as many. The mean
# gives each element 1/9 from each window that it is in: more where windows
# overlap.

import matplotlib.pyplot as plt
import numpy as np

from dlref.convolution import (
    conv,
    max_pool,
    max_pool_vjp,
    mean_pool,
    mean_pool_vjp,
)

rng = np.random.default_rng(3)
ticks = np.linspace(-1, 1, 5)
blur = np.exp(-4 * (ticks[:, None] ** 2 + ticks**2))[None, None]
image = conv(rng.normal(size=(1, 15, 15)), blur)[0]
options = {"size": (3, 3), "stride": 2}
u = np.ones_like(max_pool(image, **options))
winners = max_pool_vjp(u, image, **options)
shares = mean_pool_vjp(u, image, **options)

fig, axes = plt.subplots(1, 3, figsize=(9.5, 3.2))
axes[0].imshow(image, cmap="gray")
rows, columns = np.nonzero(winners)
axes[0].plot(columns, rows, "o", color="C1", ms=6)
axes[0].set_title("input and winners")
for ax, grad, title in (
    (axes[1], winners, "gradient, maximum"),
    (axes[2], shares, "gradient, mean"),
):
    shown = ax.imshow(grad, vmin=0)
    ax.set_title(title)
    fig.colorbar(shown, ax=ax, shrink=0.8)
for ax in axes:
    ax.set(xticks=[], yticks=[])
fig.alt_text = (
    "A blurred random image with a dot on the winner of each window; the "
    "gradient of the maximum, which is nonzero at the dots alone; and the "
    "gradient of the mean, a lattice that is brightest where four windows "
    "overlap."
)

# %%
# A shift of the input
# --------------------
# A narrow peak moves over sixteen places, with windows of four. The maximum of
# the second window (gray) stays the same as long as the peak is within it; the
# mean of a narrow peak is smaller and changes little. A stride without pooling
# sees the peak at one place and next to it.

peaks = np.eye(16) + 0.4 * (np.eye(16, k=1) + np.eye(16, k=-1))
outputs = {
    "max_pool": max_pool(peaks, size=(4,))[:, 1],
    "mean_pool": mean_pool(peaks, size=(4,))[:, 1],
    "every fourth element": peaks[:, 4],
}
fig, ax = plt.subplots()
for (label, values), style in zip(
    outputs.items(), ("o-", "s-", "^--"), strict=True
):
    ax.plot(values, style, ms=4, label=label)
ax.axvspan(3.5, 7.5, color="0.5", alpha=0.15, lw=0)
ax.set(title="Output of the second window", xlabel="place of the peak")
ax.legend()
fig.alt_text = (
    "Three curves over the place of a peak. The maximum is 1 within the "
    "window of places 4 to 7, the mean near 0.4, and every fourth element is "
    "1 at place 4 only."
)

# %%
# What the padding holds
# ----------------------
# A row of ones and a row of minus ones, with windows of three places, stride
# 1 and padding 1. The mean counts the zeros of the padding, so that it is
# smaller at both ends; the maximum ignores the padding. Zeros in its place
# would win against negative numbers.

fig, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True)
kwargs = {"size": (3,), "stride": 1, "padding": 1}
for ax, value in zip(axes, (1.0, -1.0), strict=True):
    row = np.full(7, value)
    zeros = max_pool(np.pad(row, 1), size=(3,), stride=1)
    ax.plot(max_pool(row, **kwargs), "o-", label="maximum")
    ax.plot(mean_pool(row, **kwargs), "s-", label="mean")
    ax.plot(zeros, "^--", color="C3", label="maximum, zeros around")
    ax.set(title=f"input {value:g}", xlabel="window")
axes[1].legend()
fig.alt_text = (
    "For an input of 1, the maximum is 1 and the mean 2/3 at both ends. For "
    "an input of -1, the maximum is -1, but 0 at both ends if zeros stand "
    "around."
)
