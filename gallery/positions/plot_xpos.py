r"""
xPos: rotation with decay
=========================

What does a scale that grows with the position add to a rotation?
"""

# %%
# The factor of each pair
# -----------------------
# The score of a query and a key, pair by pair, is multiplied by a number to the
# power of the distance. Fast pairs, which tell neighbors apart, fade within
# some hundred tokens; slow ones hardly do.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import (
    apply_xpos,
    rope_frequencies,
    rope_score,
    rope_tables,
    xpos_scales,
)

dim = 64
distance = np.arange(2049)
factor = xpos_scales(distance, dim)
fig, ax = plt.subplots()
for pair in (0, 4, 8, 16, 31):
    ax.plot(distance, factor[:, pair], label=f"pair {pair}")
ax.set(xlabel="distance in tokens", ylabel="factor", ylim=(0, 1.02))
ax.set_title("What remains of each pair")
ax.legend()

# %%
# Scores of equal and of independent vectors
# ------------------------------------------
# Root mean square over 400 draws. The rotation alone keeps independent vectors
# at the same score forever; with the scale both curves fall.

theta = rope_frequencies(dim)
rng = np.random.default_rng(0)
q, k = rng.normal(size=(2, 400, dim))
offsets = np.unique(np.geomspace(1, 2048, 40).astype(int))
cos, sin = rope_tables(offsets, theta)
scales = xpos_scales(offsets, dim)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
for ax, other, title in (
    (axes[0], q, "q = k"),
    (axes[1], k, "independent q and k"),
):
    plain = rope_score(q[:, None], other[:, None], -offsets, theta)
    # the query at the later position, the key at 0
    copies = np.repeat(q[:, None], len(offsets), axis=1)
    later = apply_xpos(copies, cos, sin, scales)
    scaled = np.einsum("nte,ne->nt", later, other)
    for scores, label in ((plain, "RoPE"), (scaled, "xPos")):
        ax.semilogx(offsets, np.sqrt((scores**2).mean(0)) / dim, label=label)
    ax.set(title=title, xlabel="distance in tokens", ylim=(0, 1))
axes[0].set_ylabel("rms score / width")
axes[0].legend()
