r"""
Embedding
=========

Which rows of the table does a text read, and which rows get a gradient?
"""

# %%
# Rows that are read, rows that are changed
# -----------------------------------------
# Left: the places of a text of 12 tokens, and the row that each reads. Right:
# the gradient of the table if all cotangents are 1. A row gets as much as it is
# read, and most rows get nothing.

import matplotlib.pyplot as plt
import numpy as np

from dlref.neurons import embedding, embedding_vjp

ids = np.array([3, 7, 1, 3, 9, 3, 0, 7, 12, 1, 3, 14])
table = np.zeros((16, 4))
u = np.ones((12, 4))
fig, axes = plt.subplots(1, 2, figsize=(7, 3.6), sharey=True)
axes[0].imshow(embedding(np.eye(16), ids).T, cmap="Greys")
axes[0].set(title="row that each place reads", xlabel="place", ylabel="row")
grad = embedding_vjp(u, table, ids)
image = axes[1].imshow(grad, cmap="cividis", aspect="auto")
axes[1].set(title="gradient of the table", xlabel="channel")
fig.colorbar(image, ax=axes[1])
fig.alt_text = "Four of twelve places read row 3, whose gradient is 4."

# %%
# Frequent tokens
# ---------------
# In a text whose words follow Zipf's law, one batch of 2048 tokens reads few of
# 10,000 rows, and a few rows get most of the gradient. Rare words therefore
# learn slowly with SGD; adaptive optimizers divide by that size.

rng = np.random.default_rng(0)
p = 1 / np.arange(1, 10001)
tokens = rng.choice(10000, size=2048, p=p / p.sum())
size = embedding_vjp(np.ones((2048, 1)), np.zeros((10000, 1)), tokens)[:, 0]
fig, ax = plt.subplots()
ax.loglog(np.arange(1, 10001), np.maximum(size, 0.5), ".", ms=3)
ax.set(xlabel="rank of the word", ylabel="gradient (0.5 stands for 0)")
ax.set_title(f"{np.count_nonzero(size)} of 10,000 rows have a gradient")
