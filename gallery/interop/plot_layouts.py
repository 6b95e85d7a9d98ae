r"""
Layouts of heads and rotations
==============================

What happens to a head if its channels, or its axes, are read in the layout of
another library?
"""

# %%
# Channels of rotated pairs
# -------------------------
# Eight channels; channels of the same color are rotated together. The
# permutation moves the first of each pair to the left half, the second to the
# right.

import matplotlib.pyplot as plt
import numpy as np

from dlref.interop import to_half_split, transpose_heads

pairs = np.repeat(np.arange(4), 2)
fig, axes = plt.subplots(2, 1, figsize=(7, 2.6), sharex=True)
for ax, row, title in (
    (axes[0], pairs, "interleaved: the paper, GPT-J"),
    (axes[1], to_half_split(pairs), "halves: GPT-NeoX, LLaMA in Hugging Face"),
):
    ax.imshow(row[None], cmap="tab10", vmax=9, aspect="auto")
    for place, pair in enumerate(row.astype(int)):
        ax.text(place, 0, f"pair {pair}", ha="center", va="center", color="w")
    ax.set(title=title, yticks=[])
axes[1].set_xlabel("channel")

# %%
# Axes of heads
# -------------
# Three heads of four tokens, numbered by head (color) and token. In memory one
# library has all tokens of a head together, the other all heads of a token.
# With as many heads as tokens, the shapes are the same.

x = np.arange(12.0).reshape(3, 4, 1)
fig, axes = plt.subplots(2, 1, figsize=(8, 2.6), sharex=True)
for ax, name, title in (
    (axes[0], "torch", "PyTorch, ONNX, dlref: (H, T, E)"),
    (axes[1], "jax", "JAX, flash-attention: (T, H, E)"),
):
    flat = transpose_heads(x, "dlref", name).ravel()
    ax.imshow(flat[None] // 4, cmap="tab10", vmax=9, aspect="auto")
    for place, value in enumerate(flat):
        text = f"head {value // 4:.0f}\ntoken {value % 4:.0f}"
        ax.text(place, 0, text, ha="center", va="center", color="w", size=8)
    ax.set(title=title, yticks=[])
axes[1].set_xlabel("place in memory")
