r"""
RoPE in pictures
================

What does rotation do to an attention map, and why does the angle between two
words survive when the sentence gets a prefix or a suffix?
"""

# %%
# One pair of channels
# --------------------
# Two words as vectors of two channels. At position m a vector is rotated by m
# times the frequency, here 0.4 radians per token. A suffix moves neither word.
# A prefix of three words moves both by three positions, and rotates both by the
# same 1.2 radians: they point elsewhere, the angle between them is the same,
# and so is their dot product.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import softmax
from dlref.positions import (
    apply_rope,
    rope_frequencies,
    rope_score,
    rope_tables,
)

frequency = 0.4
vectors = {"dog": [1.0, 0.0], "pig": [0.55, 0.65]}
TEXTS = {
    "alone": ["the", "dog", "and", "the", "pig"],
    "with a suffix": ["the", "dog", "and", "the", "pig", "sleep", "here"],
    "with a prefix": ["I", "think", "that", "the", "dog", "and", "the", "pig"],
}


def angle(v):
    """Return the direction of a vector in radians."""
    return float(np.arctan2(v[1], v[0]))


fig, axes = plt.subplots(
    1, 3, figsize=(8, 3.6), sharex=True, sharey=True, layout="constrained"
)
angles = []
for ax, (name, words) in zip(axes, TEXTS.items(), strict=True):
    rotated = {}
    for k, (word, vector) in enumerate(vectors.items()):
        place = words.index(word)
        tables = rope_tables([place], [frequency])
        rotated[word] = apply_rope([vector], *tables)[0]
        style = {"length_includes_head": True, "width": 0.012}
        ax.arrow(0, 0, *vector, **style, color=f"C{k}", alpha=0.25)
        ax.arrow(0, 0, *rotated[word], **style, color=f"C{k}")
        ax.annotate(f"{word} at {place}", 1.15 * rotated[word], ha="center")
    between = angle(rotated["pig"]) - angle(rotated["dog"])
    angles.append(between % (2 * np.pi))
    dot = rotated["dog"] @ rotated["pig"]
    ax.set_title(f"{name}:\n{' '.join(words)}", fontsize=9)
    ax.set_xlabel(f"angle {np.degrees(angles[-1]):.1f}°, dot product {dot:.3f}")
    ax.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.7", lw=0.8))
    ax.set(aspect="equal", xlim=(-1.5, 1.5), ylim=(-1.5, 1.5))
assert np.allclose(angles, angles[0])
fig.alt_text = (
    "Three circles with the vectors of two words, pale before and strong after "
    "the rotation: alone, with a suffix and with a prefix. With the prefix "
    "both point elsewhere; the angle between them is the same in all three."
)

# %%
# The angle is the angle of the words plus the rotation by three positions:
# :math:`\phi + 3 \cdot 0.4`. With many pairs it is one such angle for each.
#
# Maps with and without rotation
# ------------------------------
# The same queries and keys, of 64 channels: each is a vector that all share,
# plus one of its own, as in trained models. Without rotation a weight depends
# on the two vectors alone, whether they are near or far. With it the shared
# part gives a score that is greatest on the diagonal, and the mean over all
# draws depends on the offset.

dim, T = 64, 24
rng = np.random.default_rng(0)
theta = rope_frequencies(dim)
shared = rng.normal(size=dim)
q, k = shared + 0.7 * rng.normal(size=(2, T, dim))
turned_q, turned_k = apply_rope(
    np.stack([q, k]), *rope_tables(np.arange(T), theta)
)
visible = np.tri(T, dtype=bool)


def weights(queries, keys):
    """Return causal attention weights."""
    scores = queries @ keys.T / np.sqrt(dim)
    return softmax(np.where(visible, scores, -np.inf))


maps = {
    "without rotation": weights(q, k),
    "with rotation": weights(turned_q, turned_k),
}
fig, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for ax, (name, shown) in zip(axes, maps.items(), strict=False):
    image = ax.imshow(np.where(visible, shown, np.nan), vmin=0, vmax=0.5)
    ax.set(title=f"Weights {name}", xlabel="key", ylabel="query")
fig.colorbar(image, ax=axes[:2], label="weight")
back = np.arange(16)
for name, shown in maps.items():
    rows = np.arange(16, T)  # queries that have sixteen keys behind them
    mean = [shown[rows, rows - n].mean() for n in back]
    axes[2].plot(back, mean, "o-", ms=4, label=name)
axes[2].set(
    title="Mean weight by distance", xlabel="keys back", ylabel="weight"
)
axes[2].legend()
fig.alt_text = (
    "Heat maps of causal attention weights of the same queries and keys. "
    "Without rotation the columns differ and distance does not matter; with "
    "rotation the weights are greatest on the diagonal. Right: mean weight "
    "against distance, flat without and falling with rotation."
)

# %%
# A prefix does not change the map
# --------------------------------
# With five tokens in front, all angles are different and the scores between
# the old tokens are not.

moved_q, moved_k = apply_rope(
    np.stack([q, k]), *rope_tables(np.arange(T) + 5, theta)
)
change = np.abs(weights(moved_q, moved_k) - maps["with rotation"]).max()
print(f"vectors move by up to {np.abs(moved_q - turned_q).max():.1f}")
print(f"weights move by up to {change:.0e}")
assert change < 1e-12
assert np.isclose(
    turned_q[20] @ turned_k[3], rope_score(q[20], k[3], -17, theta)
)
