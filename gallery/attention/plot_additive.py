r"""
Additive attention: a network that compares
===========================================

How does the score of additive attention depend on query and key, compared with
a dot product?
"""

# %%
# For one query, the score over all keys of two channels. The dot product is
# a plane and has no largest value; a sum of bounded units can have a
# hill wherever the query puts it.

import matplotlib.pyplot as plt
import numpy as np

from dlref.attention import additive_attention, attention_weights

grid = np.linspace(-3, 3, 61)
keys = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
query = np.array([[1.0, -0.5]])
turns = np.deg2rad(np.arange(0, 360, 45))
u = 2 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
w = np.column_stack([-u, np.full(8, -1.5)])  # a constant channel as bias
vec = -1.2 * np.ones(8)
asking = np.column_stack([query, [[1.0]]])
_, additive = additive_attention(
    asking, keys, np.zeros((len(keys), 1)), w, u, vec, return_weights=True
)
dot = attention_weights(query, keys)
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.4))
for ax, weights, title in zip(
    axes, (dot, additive), ("dot product", "additive, 8 units"), strict=True
):
    image = ax.pcolormesh(grid, grid, 1e3 * weights.reshape(61, 61))
    ax.plot(*query[0], "*", color="C1", ms=12)
    ax.set(title=title, xlabel="key, channel 0", aspect="equal")
    fig.colorbar(image, ax=ax, label="weight in thousandths", shrink=0.8)
axes[0].set_ylabel("key, channel 1")
fig.alt_text = (
    "Weights over all keys in a plane for the query marked by a star: "
    "for the dot product they grow towards a corner, for additive attention "
    "they are largest at the query."
)
