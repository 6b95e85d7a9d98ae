r"""
Multiplicative attention
========================

What can a bilinear form ask for that a dot product cannot?
"""

# %%
# Tokens on a circle, each attending to all. The identity prefers the token
# itself, a rotation the one a quarter turn ahead, a negative identity the
# one opposite, and one of rank one compares a single channel.

import matplotlib.pyplot as plt
import numpy as np

from dlref.attention import multiplicative_attention

angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
forms = {
    "identity": np.eye(2),
    "quarter turn": np.array([[0.0, 1.0], [-1.0, 0.0]]),
    "minus identity": -np.eye(2),
    "rank one": np.array([[1.0, 0.0], [0.0, 0.0]]),
}
fig, axes = plt.subplots(1, 4, figsize=(9, 2.7), sharey=True)
for ax, (title, w) in zip(axes, forms.items(), strict=True):
    _, weights = multiplicative_attention(x, x, x, 6 * w, return_weights=True)
    image = ax.imshow(weights, vmin=0, extent=(0, 360, 360, 0))
    ax.set(title=title, xlabel="key, degrees", xticks=[0, 180, 360])
axes[0].set(ylabel="query, degrees", yticks=[0, 180, 360])
