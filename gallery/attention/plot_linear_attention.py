r"""
Linear attention: a state in place of a matrix
==============================================

When does changing the order of multiplication pay, and what does a memory
that only adds answer with?
"""

# %%
# Multiplications
# ---------------
# Softmax attention needs the matrix of weights, T × T; linear attention a
# state of E × V. They meet where T equals the width.

import matplotlib.pyplot as plt
import numpy as np

from dlref.attention import (
    attention_weights,
    linear_attention,
    recurrent_linear_attention,
)

width = 64
lengths = 2 ** np.arange(3, 15)
fig, ax = plt.subplots()
ax.loglog(lengths, lengths**2 * 2.0 * width, "o-", label="softmax, T² (E + V)")
ax.loglog(lengths, lengths * 2.0 * width**2, "s-", label="linear, 2 T E V")
ax.axvline(width, color="0.45", lw=1, ls="--")
ax.set(title="Products of one head of width 64", xlabel="length $T$")
ax.set_ylabel("multiplications")
ax.legend()

# %%
# Flatter weights
# ---------------
# One query and 40 keys along a line. The features of ELU + 1 grow linearly,
# so linear attention cannot point at one key as the exponential does.

position = np.linspace(-3, 3, 41)[:, None]
query = np.array([[2.0]])
eye = np.eye(41)
fig, ax = plt.subplots()
ax.plot(
    position, attention_weights(query, position, scale=1.0)[0], label="softmax"
)
for name in ("elu", "exp"):
    weights = linear_attention(query, position, eye, feature_map=name)[0]
    ax.plot(position, weights, label=f"features “{name}”")
ax.set(
    title="Weights of 41 keys for the query 2", xlabel="key", ylabel="weight"
)
ax.legend()

# %%
# Adding and correcting
# ---------------------
# Eight values are written under four keys, each key twice, and read at once.
# Adding answers with the sum of both, the delta rule with the second.

rng = np.random.default_rng(0)
keys = np.tile(np.linalg.qr(rng.normal(size=(6, 4)))[0].T, (2, 1))
values = np.array([1.0, 2.0, 3.0, 4.0, 4.0, 3.0, 2.0, 1.0])[:, None]
added, _ = recurrent_linear_attention(keys, keys, values)
faded, _ = recurrent_linear_attention(
    keys, keys, values, np.full((8, 1), np.log(0.8))
)
corrected, _ = recurrent_linear_attention(keys, keys, values, beta=np.ones(8))
fig, ax = plt.subplots()
for k, (label, out) in enumerate(
    {
        "written": values,
        "adding": added,
        "fading by 0.8 per step": faded,
        "delta rule": corrected,
    }.items()
):
    ax.plot(out.ravel(), "sovd"[k], ms=8 - k, label=label, ls=":" if k else "-")
ax.set(title="What the memory answers", xlabel="step", ylabel="value read")
ax.legend()

# %%
# What an erasure takes away
# --------------------------
# A memory of four keys: each row is the answer to one of them. A step erases
# with two keys: the first one asks, and its answer is subtracted under the
# second. If both are the same key, as in the delta rule, its row is gone. A
# mixture of two keys takes the mean of their rows from both. With a strength
# for each key channel, as in RWKV-7, a row loses a part. And the answer of
# one key can be taken from the row of another. Bold numbers have changed.

memory = np.array([[1.0, 2, 3], [4, 2, 0], [2, -2, 2], [-1, 1, 3]])
first, second, third, fourth = np.eye(4)
mixture = (second + third) / np.sqrt(2)
strength = np.array([0.0, 0.5, 1.0, 0.0])
erasures = {
    "before": (0 * first, 0 * first),
    "key 2": (second, second),
    "keys 2 and 3": (mixture, mixture),
    "row 2 by half": (mixture, strength * mixture),
    "key 1 from row 4": (first, fourth),
}
nothing = np.zeros((1, 4)), np.zeros((1, 3))
fig, axes = plt.subplots(1, 5, figsize=(10.5, 3.4), sharey=True)
for ax, (title, (asks, erases)) in zip(axes, erasures.items(), strict=True):
    _, after = recurrent_linear_attention(
        nothing[0], *nothing, state=memory, erase=(asks[None], -erases[None])
    )
    same = np.isclose(after, memory)
    ax.imshow(after, cmap="RdBu", vmin=-6, vmax=6)
    for row, column in np.ndindex(after.shape):
        ax.text(
            column,
            row,
            f"{after[row, column]:g}".replace("-", "−"),
            ha="center",
            va="center",
            weight="normal" if same[row, column] else "bold",
        )
    ax.set(title=title, xlabel="channel", xticks=range(3), yticks=range(4))
    ax.set_yticklabels(["key 1", "key 2", "key 3", "key 4"])
fig.alt_text = (
    "Five tables of four keys and three channels: a memory, and what four "
    "erasures leave of it. Key 2 alone becomes 0; a mixture of the keys 2 and "
    "3 takes their mean from both; with half of the strength the second row "
    "keeps more; the row of key 1 is subtracted from key 4."
)
