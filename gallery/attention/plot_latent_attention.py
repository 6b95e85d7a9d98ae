r"""
Latent attention: what a cache keeps
====================================

How many numbers does a cache keep for each token, and when does it pay to
attend to the latents themselves?
"""

# %%
# The cache of a layer
# --------------------
# The widths of DeepSeek-V3: 128 heads, keys of 128 + 64 channels, values of
# 128, a latent of 512. Grouped queries have 8 heads of keys here.

import matplotlib.pyplot as plt
import numpy as np

from dlref.attention import KVCache, LatentAttentionParams, latent_attention

H, N, R, V, LATENT = 128, 128, 64, 128, 512
sizes = {
    "all heads": H * (N + R + V),
    "grouped queries": 2 * 8 * 128,
    "multi-query": 2 * 128,
    "latent": LATENT + R,
}
fig, ax = plt.subplots(figsize=(6, 2.6))
bars = ax.barh(list(sizes), list(sizes.values()), color="C0")
ax.bar_label(bars, labels=[f"{n:,}" for n in sizes.values()], padding=4)
ax.set(xscale="log", xlim=(100, 3e5), xlabel="numbers for each token")
ax.set_title("Cache of one layer")
ax.invert_yaxis()

# %%
# Expanded or absorbed
# --------------------
# Multiplications of one layer, without the projections that both have. To
# expand is to project the latents up to keys and values: all of them for each
# decoded token, if the cache holds latents. To absorb is to attend with keys
# as wide as the latents.

S = np.logspace(1, 5, 41)


def expanded(T):
    """Multiplications for T tokens that see S: project up, then attend."""
    return S * H * LATENT * (N + V) + T * S * H * (N + R + V)


def absorbed(T):
    """The same from the latents: project queries and averages, then attend."""
    return T * H * LATENT * (N + V) + T * S * H * (2 * LATENT + R)


fig, axes = plt.subplots(1, 2, figsize=(7, 3), sharey=True)
for ax, T, title in (
    (axes[0], 1, "one token is decoded"),
    (axes[1], S, "a text is read at once"),
):
    ax.loglog(S, expanded(T), label="expanded")
    ax.loglog(S, absorbed(T), label="absorbed", ls="--")
    ax.set(title=title, xlabel="tokens")
axes[0].set_ylabel("multiplications")
axes[0].legend()
fig.alt_text = (
    "Absorbing saves a hundredfold for one token, and costs for a text."
)

# %%
# The same numbers
# ----------------
# A small layer decodes 32 tokens one by one, from a cache of latents. Every
# number of the output agrees with attention over all keys and values at once.

rng = np.random.default_rng(0)  # 4 heads, N = R = V = 8, a latent of 6
shapes = (64, 32), (14, 32), (6,), (32, 6), (32, 6), (32, 32)
weights = [rng.normal(size=shape) / shape[-1] ** 0.5 for shape in shapes]
params = LatentAttentionParams(None, None, *weights)
x, cache = rng.normal(size=(32, 32)), KVCache.empty((), 1, 8, 6, dtype=float)
steps = [
    latent_attention(row, params, num_heads=4, cache=cache, absorbed=True)
    for row in np.split(x, 32)
]
absorbed_out = np.concatenate(steps)
expanded_out = latent_attention(x, params, num_heads=4)
fig, ax = plt.subplots(figsize=(4, 4))
ax.plot(expanded_out.ravel(), absorbed_out.ravel(), ".", ms=3)
most = abs(absorbed_out - expanded_out).max()
ax.set(xlabel="expanded", ylabel="absorbed, with a cache of latents")
ax.set_title(f"Largest difference {most:.0e}")
fig.alt_text = "All outputs lie on the diagonal."
