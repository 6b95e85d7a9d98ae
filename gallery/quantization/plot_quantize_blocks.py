r"""
Formats with blocks
===================

How much does each format lose, and for inputs of which size?
"""

# %%
# Signal to noise over the size of the inputs
# -------------------------------------------
# Gaussian numbers times powers of two. With a scale for each block the loss is
# the same for all sizes. NVFP4 without a scale of the whole array has the range
# of E4M3 only; with one it has the same loss everywhere. An integer of eight
# bits with a scale that was fixed for inputs of size 1 is the best near there.

import matplotlib.pyplot as plt
import numpy as np

from dlref.quantization import (
    dequantize_blocks,
    fake_quantize,
    quantize_blocks,
)

rng = np.random.default_rng(0)
x = rng.normal(size=2**14)
sizes = np.arange(-24, 25)


def decibels(x, rounded):
    noise = np.mean((rounded - x) ** 2)
    return 10 * np.log10(np.mean(x**2) / noise) if noise else np.inf


def blocks(x, format, tensor_scale=None):
    options = {"format": format, "tensor_scale": tensor_scale}
    codes = quantize_blocks(x, **options)
    return dequantize_blocks(*codes, **options, dtype=np.float64)


fig, ax = plt.subplots(figsize=(7, 4.2))
for k, format in enumerate(
    ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp4", "nvfp4")
):
    values = [decibels(x * 2.0**n, blocks(x * 2.0**n, format)) for n in sizes]
    style = "--" if format == "mxfp6_e2m3" else "-"
    ax.plot(sizes, values, style, color=f"C{k}", label=format)
values = []
for n in sizes:
    y = x * 2.0**n
    values.append(decibels(y, blocks(y, "nvfp4", np.max(abs(y)) / (6 * 448))))
ax.plot(sizes, values, "--", color="C4", label="nvfp4, tensor scale")
values = [
    decibels(x * 2.0**n, fake_quantize(x * 2.0**n, 4 / 127)) for n in sizes
]
ax.plot(sizes, values, ":", color="0.3", label="8 bits, fixed scale")
ax.set(
    title="Signal to noise of Gaussian numbers",
    xlabel="logarithm to base 2 of their size",
    ylabel="decibels",
    ylim=(0, 45),
)
ax.legend(ncols=2, loc="upper left", fontsize=8)

# %%
# One large number in a block
# ---------------------------
# The loss of the other numbers when the largest of a block is so many times
# their size. Formats with more bits of exponent suffer later.

ratios = np.logspace(0, 3, 40)
base = rng.normal(size=(512, 32))
fig, ax = plt.subplots()
for k, format in enumerate(
    ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "nvfp4")
):
    values = []
    for ratio in ratios:
        y = base.copy()
        y[:, ::16] = 3 * ratio  # one in each block of 16
        rounded = blocks(y, format)
        others = np.arange(32) % 16 != 0
        values.append(decibels(y[:, others], rounded[:, others]))
    ax.semilogx(3 * ratios, values, color=f"C{k}", label=format)
ax.set(
    title="Loss of the other numbers",
    xlabel="largest number of a block / size of the others",
    ylabel="decibels",
)
ax.legend(fontsize=8)

# %%
# All numbers of each format
# --------------------------
# From 0 to the largest, as shares of it. Above the smallest normal number the
# distances double with each power of two.

formats = ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2")
fig, ax = plt.subplots(figsize=(7, 2.8))
for row, format in enumerate(formats):
    bits = 4 if "4" in format[:6] else 6 if "fp6" in format else 8
    codes = np.resize(np.arange(2 ** (bits - 1)), 128)
    values = dequantize_blocks(codes, np.full(4, 127), format=format)
    values = values[np.isfinite(values)]
    ax.plot(values / values.max(), np.full(values.size, row), "|", ms=12)
ax.set(title="Numbers of each format", xlabel="share of the largest")
ax.set_yticks(range(len(formats)), formats)
ax.grid(False)
