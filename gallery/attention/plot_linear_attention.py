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
