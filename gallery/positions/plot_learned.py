r"""
Learned positions: which rows does a batch train?
=================================================

A table of positions has a row for every place up to the maximum length. How
much gradient does each row receive from texts of different lengths, and how
does the table start?
"""

# %%
# Late rows are rarely read
# -------------------------
# 200 texts whose lengths are drawn from a log-normal distribution, clipped to
# 512 tokens. Every position passes the same gradient here. The first rows
# get it from all texts, the last from a few.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import (
    learned_positions_vjp,
    rope_frequencies,
    rope_tables,
    sinusoidal,
)

rng = np.random.default_rng(0)
lengths = np.minimum(rng.lognormal(5, 0.6, 200).astype(int) + 1, 512)
positions = np.concatenate([np.arange(length) for length in lengths])
dout = np.ones((len(positions), 1))
grad = learned_positions_vjp(dout, np.zeros((600, 1)), positions)[:, 0]

fig, ax = plt.subplots()
ax.fill_between(np.arange(600), grad, step="mid", alpha=0.5)
ax.axvline(512, lw=0.8, color="0.5")
ax.text(516, 150, "never read", size=9)
ax.set(xlabel="position", ylabel="sum of gradients")
ax.set_title("Gradient of each row")

# %%
# Three tables
# ------------
# The start of a learned table, noise without any order (of standard deviation
# 0.02, shown 25 times as large), next to the sinusoids and the cosines and
# sines of a rotation. The last two hold the same numbers in another order of
# columns. Only their use differs: one table is added to the tokens, the other
# multiplies queries and keys.

places, dim = np.arange(60), 32
cos, sin = rope_tables(places, rope_frequencies(dim))
added, factors = sinusoidal(60, dim), np.hstack([cos, sin])
assert np.allclose(np.hstack([added[:, 1::2], added[:, ::2]]), factors)
tables = {
    "learned, at the start × 25": 25 * rng.normal(0, 0.02, (60, dim)),
    "sinusoidal, added": added,
    "RoPE, cosines and sines": factors,
}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True)
for ax, (title, table) in zip(axes, tables.items(), strict=True):
    image = ax.imshow(table, aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1)
    ax.set(title=title, xlabel="column")
axes[0].set_ylabel("position")
fig.colorbar(image, ax=axes, label="value")
fig.alt_text = (
    "Three tables of 60 positions by 32 columns: noise; stripes that slow down "
    "from left to right; the same stripes, cosines on the left and sines on "
    "the right."
)
