r"""
ALiBi: a penalty that grows with distance
=========================================

How far back does each head look if every token of distance costs it a fixed
amount?
"""

# %%
# One bias per head
# -----------------
# Four of eight heads, 40 queries and keys. Above the diagonal the bias is 0;
# a causal mask hides those keys anyway.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import alibi_bias, alibi_slopes

slopes = alibi_slopes(8)
bias = alibi_bias(slopes, 40, 40)
fig, axes = plt.subplots(1, 4, figsize=(10, 2.8), sharey=True)
for ax, h in zip(axes, [0, 2, 4, 7], strict=True):
    image = ax.imshow(bias[h], vmin=-10, vmax=0)
    ax.set(title=f"head {h}: slope 1/{1 / slopes[h]:g}", xlabel="key")
axes[0].set_ylabel("query")
fig.colorbar(image, ax=axes, label="bias", extend="min")

# %%
# The factor of a weight
# ----------------------
# The bias multiplies each weight, before they are normalized, by :math:`e^{-m
# d}`, exponential in the distance d. The steepest head sees a handful of
# tokens, the flattest about a thousand.

distance = np.arange(2000)
fig, ax = plt.subplots()
for h in (0, 2, 4, 7):
    row = alibi_bias(slopes[h], 1, 2000, q_offset=1999)[0, ::-1]
    ax.semilogx(distance + 1, np.exp(row), label=f"slope 1/{1 / slopes[h]:g}")
ax.set(xlabel="distance + 1", ylabel="factor of the weight")
ax.set_title("Penalty of each head")
ax.legend()

# %%
# Head counts that are no power of two
# ------------------------------------
# Twelve heads. The rule of the paper spaces all slopes evenly; the official
# code keeps those for eight heads and adds four of the sequence for sixteen:
# one above the steepest, the others between the next.

fig, ax = plt.subplots(figsize=(7, 2.4))
for row, rule in enumerate(["paper", "official"]):
    m = alibi_slopes(12, rule=rule)
    ax.semilogx(m, np.full(12, row), "o", base=2)
    for h, slope in enumerate(m):
        ax.annotate(
            str(h), (slope, row), (0, 7), textcoords="offset points", size=8
        )
ax.set(yticks=[0, 1], yticklabels=["paper", "official"], ylim=(-0.5, 1.6))
ax.set(xlabel="slope", title="Slopes of 12 heads, in order")
