r"""
Attention masks
===============

Which pairs of query and key does each mask leave, and how does a window grow
when layers are stacked?
"""

import matplotlib.pyplot as plt
import numpy as np

from dlref.attention import (
    block_mask,
    causal_mask,
    chunk_mask,
    document_mask,
    padding_mask,
    prefix_mask,
    tree_mask,
    window_mask,
)

# %%
# Four masks
# ----------
# Bright: query i may attend to key j. The second is for three new tokens
# after a cache of five.

masks = {
    "causal": causal_mask(8),
    "causal, offset 5": causal_mask(3, 8, q_offset=5),
    "window (2, 1)": window_mask(8, 8, left=2, right=1),
    "padding, length 5": np.broadcast_to(padding_mask(5, 8)[0], (8, 8)),
}
fig, axes = plt.subplots(1, 4, figsize=(9, 2.9))
for ax, (title, mask) in zip(axes, masks.items(), strict=True):
    ax.pcolormesh(mask, cmap="cividis", edgecolors="0.5", vmin=-0.3, vmax=1.1)
    ax.invert_yaxis()
    ax.set(title=title, xlabel="key $j$", aspect="equal", xticks=[0, 4, 8])
    ax.set_yticks(range(0, len(mask) + 1, 2 if len(mask) > 3 else 1))
axes[0].set_ylabel("query $i$")

# %%
# Five more
# ---------
# Two packed documents, causal; a prefix of three tokens; chunks of three; a
# tree, in which token 0 has two branches; blocks of two, causal.

blocks = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1]]) > 0
masks = {
    "documents": document_mask([0, 0, 0, 1, 1, 1, 1, 1]) & causal_mask(8),
    "prefix": prefix_mask(8, 3),
    "chunks": chunk_mask(8, size=3),
    "tree": tree_mask([-1, 0, 0, 1, 1, 2, 3, 5]),
    "blocks": block_mask(blocks, size=2) & causal_mask(8),
}
fig, axes = plt.subplots(1, 5, figsize=(9, 2.4), sharey=True)
for ax, (title, mask) in zip(axes, masks.items(), strict=True):
    ax.pcolormesh(mask, cmap="cividis", edgecolors="0.5", vmin=-0.3, vmax=1.1)
    ax.set(title=title, xlabel="key $j$", aspect="equal", xticks=[0, 4, 8])
axes[0].invert_yaxis()
axes[0].set_ylabel("query $i$")
fig.alt_text = (
    "Five masks of 8 by 8: two triangles, a triangle with three full columns, "
    "three triangles, the ancestors of each token, and a pattern of blocks."
)

# %%
# Layers of a window
# ------------------
# One layer sees two tokens back. The L-th power of the mask shows the tokens
# that a token depends on after L layers: two tokens further back with each
# layer.

window = window_mask(24, 24, left=2, right=0).astype(int)
fig, axes = plt.subplots(1, 4, figsize=(9, 2.8))
reach = np.eye(24, dtype=int)
for layers, ax in enumerate(axes, 1):
    reach = window @ reach
    ax.imshow(np.log10(np.where(reach > 0, reach, np.nan)), cmap="cividis")
    ax.set(title=f"{layers} layer{'s' * (layers > 1)}", xlabel="token")
axes[0].set_ylabel("depends on it")
fig.alt_text = (
    "A band below the diagonal, 3 tokens wide after one layer, 5, 7 and 9 "
    "after two, three and four layers, brighter where more paths lead."
)
