r"""
Parts, gates and selected keys
==============================

Which keys does a query read if a gate closes, if an indexer selects, or if a
second map is subtracted? Maps of weights, and two parts of one attention.
"""

# %%
# Forget gates
# ------------
# Left: the same gate at every position is ALiBi, with a weight that falls with
# the distance. Right: the gates of positions 8 and 16 are nearly closed; later
# queries hardly see the keys before.

import matplotlib.pyplot as plt
import numpy as np

from dlref.attention import (
    attention_weights,
    differential_attention,
    forgetting_bias,
    indexer_scores,
    merge_attention,
    scaled_dot_product_attention,
    select_keys,
)

rng = np.random.default_rng(0)
constant = np.full((1, 24), -0.15)
gated = np.full((1, 24), -0.02)
gated[0, [8, 16]] = -3.0
zero = np.zeros((1, 24, 1))
fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), sharey=True)
for ax, gate, title in (
    (axes[0], constant, "constant: ALiBi"),
    (axes[1], gated, "two gates nearly closed"),
):
    bias = forgetting_bias(gate)
    weights = attention_weights(zero, zero, bias=bias, is_causal=True)[0]
    image = ax.imshow(weights, cmap="cividis", vmax=0.4)
    ax.set(title=title, xlabel="key")
axes[0].set_ylabel("query")
fig.colorbar(image, ax=axes, label="weight")
fig.alt_text = "Weights fade with the distance, or end at two closed gates."

# %%
# An indexer selects
# ------------------
# The scores of the indexer, and the six keys that each query reads.

q, k = rng.normal(size=(4, 24, 8)), rng.normal(size=(24, 8))
scores = indexer_scores(q, k, rng.uniform(size=(24, 4)))
chosen = select_keys(scores, count=6)
picked = (chosen[..., None] == np.arange(24)).any(axis=1)
fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), sharey=True)
axes[0].imshow(np.where(np.tri(24) > 0, scores, np.nan), cmap="viridis")
axes[1].imshow(picked, cmap="cividis")
axes[0].set(title="scores", xlabel="key", ylabel="query")
axes[1].set(title="selected keys", xlabel="key")
fig.alt_text = "A triangle of scores, and at most six selected keys in a row."

# %%
# A second map subtracted
# -----------------------
# One query finds key 12; both maps see the same noise. The difference keeps the
# peak, and most of the noise is gone.

keys = rng.normal(size=(24, 16))
noise = rng.normal(size=(1, 16))
values = np.eye(24)
one = scaled_dot_product_attention(noise + 0.6 * keys[12], keys, values)[0]
both = differential_attention(
    noise + 0.6 * keys[12], keys, noise, keys, values, 0.8
)[0]
fig, ax = plt.subplots()
ax.plot(one, label="one map")
ax.plot(both, label="difference")
ax.axhline(0, color="0.5", lw=0.8)
ax.set(xlabel="key", ylabel="weight", title="Noise in common is canceled")
ax.legend()

# %%
# Merged parts
# ------------
# The keys in two halves. Each half alone gives another average; the parts
# merged with their log-sum-exps give the average over all keys.

q, k, v = rng.normal(size=(12, 4)), *rng.normal(size=(2, 24, 4))
parts = [
    scaled_dot_product_attention(q, k[half], v[half], return_lse=True)
    for half in (slice(12), slice(12, 24))
]
out, lse = (np.stack(arrays) for arrays in zip(*parts, strict=True))
merged, _ = merge_attention(out, lse)
whole = scaled_dot_product_attention(q, k, v)
fig, ax = plt.subplots()
ax.plot(out[0, :, 0], ":", label="first half")
ax.plot(out[1, :, 0], ":", label="second half")
ax.plot(whole[:, 0], "o", label="all keys")
ax.plot(merged[:, 0], label="merged")
ax.set(xlabel="query", ylabel="first channel", title="Two parts, merged")
ax.legend()
