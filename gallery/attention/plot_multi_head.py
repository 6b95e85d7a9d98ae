r"""
Multi-head attention
====================

What do several heads see that one does not, and how do the tokens of a
sentence reach each other?
"""

# %%
# Paths between tokens
# --------------------
# In a recurrent network "fox" reaches "jumps" through every state between them.
# Attention joins each pair in one step; the widths are examples of weights, not
# taken from a trained model.

import matplotlib.pyplot as plt
import numpy as np

from dlref.attention import (
    AttentionParams,
    multi_head_attention,
    repeat_kv,
)

words = ["The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]
pairs = {
    ("jumps", "fox"): 0.8,
    ("quick", "fox"): 0.6,
    ("brown", "fox"): 0.7,
    ("lazy", "dog"): 0.7,
    ("over", "jumps"): 0.5,
    ("the", "dog"): 0.6,
}
fig, axes = plt.subplots(2, 1, figsize=(9, 4.6))
for ax, title in zip(axes, ("Recurrent network", "Attention"), strict=True):
    ax.set(title=title, xlim=(-0.6, 9.6), ylim=(-0.5, 2.2))
    ax.axis("off")
    for i, word in enumerate(words):
        frame = {"boxstyle": "round", "fc": "0.95", "ec": "0.45"}
        ax.text(i, 0, word, ha="center", va="center", bbox=frame)
for i in range(len(words)):
    axes[0].annotate(
        "",
        (i, 0.95),
        (i, 0.25),
        arrowprops={"arrowstyle": "->", "color": "0.45"},
    )
    axes[0].text(i, 1.15, f"$h_{{{i}}}$", ha="center", va="center")
    if i:
        axes[0].annotate(
            "", (i - 0.2, 1.15), (i - 0.8, 1.15),
            arrowprops={"arrowstyle": "->", "color": "C0", "lw": 2},
        )  # fmt: skip
for (query, key), weight in pairs.items():
    a, b = words.index(query), words.index(key)
    t = np.linspace(0, 1, 50)
    height = 0.35 + 0.45 * abs(a - b) ** 0.8
    arc = 0.3 + 3.6 * height * t * (1 - t)
    axes[1].plot(a + (b - a) * t, arc, color="C1", lw=6 * weight, alpha=0.8)
    axes[1].text(
        (a + b) / 2, 0.42 + 0.9 * height, f"{weight}", ha="center", fontsize=8
    )
fig.alt_text = (
    "Above: a chain of hidden states, one for each word. Below: arcs that "
    "join pairs of words directly, thicker for larger weights."
)

# %%
# Heads as subspaces
# ------------------
# Tokens in the plane, two heads of width 1. Each head projects the tokens onto
# its own line, attends there, and writes along its own direction; the output is
# the sum of both.

rng = np.random.default_rng(4)
x = rng.normal(size=(7, 2))
angle = np.deg2rad([20, 110])
lines = np.stack([np.cos(angle), np.sin(angle)], axis=1)
params = AttentionParams(3 * lines, 3 * lines, lines, lines.T)
out, weights = multi_head_attention(
    x, x, params, num_heads=2, return_weights=True
)
fig, axes = plt.subplots(1, 3, figsize=(9, 3.3))
for h in range(2):
    shadow = np.outer(x @ lines[h], lines[h])
    ax = axes[h]
    ax.axline((0, 0), lines[h], color="0.7", lw=1)
    for point, foot in zip(x, shadow, strict=True):
        ax.plot(*np.stack([point, foot]).T, color="0.8", lw=1)
    ax.plot(*x.T, "o", color="0.45", label="tokens")
    ax.scatter(
        *shadow.T, s=300 * weights[h, 0], color=f"C{h}", label="on the line"
    )
    ax.plot(*shadow[0], "k*", ms=10, label="the one that asks")
    ax.set(title=f"head {h}", xlabel="$x_1$", aspect="equal")
axes[0].set_ylabel("$x_2$")
axes[0].legend(fontsize=7)
axes[2].plot(*x.T, "o", color="0.45", label="tokens")
axes[2].plot(*out.T, "s", color="C2", label="outputs")
for a, b in zip(x, out, strict=True):
    axes[2].annotate("", b, a, arrowprops={"arrowstyle": "->", "color": "0.6"})
axes[2].set(title="sum of both heads", xlabel="$x_1$", aspect="equal")
axes[2].legend(fontsize=7)
fig.alt_text = (
    "Tokens in a plane, their projections onto the lines of two heads with "
    "sizes by weight, and the outputs, sums along both lines."
)

# %%
# Layers and heads
# ----------------
# Weights of four heads in three layers, random parameters, a causal mask. Every
# map is different, though nothing has been learned.

x = rng.normal(size=(12, 16))
fig, axes = plt.subplots(3, 4, figsize=(8, 6.2), sharex=True, sharey=True)
for layer, row in enumerate(axes):
    params = AttentionParams(*(rng.normal(size=(4, 16, 16)) / 4))
    out, maps = multi_head_attention(
        x,
        x,
        params,
        num_heads=4,
        is_causal=True,
        return_weights=True,
        scale=1.5,
    )
    x = x + out
    x = x / x.std(axis=-1, keepdims=True)
    for head, ax in enumerate(row):
        image = ax.imshow(maps[head], vmin=0, vmax=1)
        ax.set_title(f"layer {layer}, head {head}", fontsize=9)
    row[0].set_ylabel("query")
for ax in axes[-1]:
    ax.set_xlabel("key")
fig.colorbar(image, ax=axes, label="weight", shrink=0.7)

# %%
# Grouped heads
# -------------
# Which of eight heads of queries reads which head of keys: one each
# (multi-head), groups of four (grouped-query), one for all (multi-query).
# ``repeat_kv`` writes these copies out.

fig, axes = plt.subplots(1, 3, figsize=(8, 2.6))
for ax, kv_heads in zip(axes, (8, 2, 1), strict=True):
    source = repeat_kv(np.arange(kv_heads).reshape(-1, 1, 1), 8 // kv_heads)
    reads = source.ravel()[:, None] == np.arange(kv_heads)
    ax.imshow(reads, aspect="auto", cmap="Blues", vmin=0, vmax=1.4)
    ax.set(
        title=f"{kv_heads} heads of keys",
        xlabel="head of keys",
        xticks=range(kv_heads),
    )
axes[0].set_ylabel("head of queries")
fig.alt_text = (
    "Eight rows, the heads of queries; in each, the head of keys it reads is "
    "marked: a diagonal, two blocks of four, a single column."
)
