r"""
Learned positions: which rows does a batch train?
=================================================

A table of positions has a row for every place up to the maximum length. How
much gradient does each row receive from texts of different lengths?
"""

# %%
# Late rows are rarely read
# -------------------------
# 200 texts whose lengths are drawn from a log-normal distribution, clipped to
# 512 tokens. Every position passes the same gradient here. The first rows
# get it from all texts, the last from a few.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import learned_positions_vjp

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
