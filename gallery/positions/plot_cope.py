r"""
CoPE: positions that depend on content
======================================

How can a position be a number of sentences instead of a number of tokens?
"""

# %%
# Gates, and their sums
# ---------------------
# The last word is the query. If only full stops matter to it, only their gates
# open, and the position of a word is the number of full stops from it to the
# query. A query to which everything matters counts tokens, up to the bound of
# the table.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import sigmoid
from dlref.positions import cope

text = "The dog ran . It saw a cat . The cat fled . So the dog"
words = text.split()
stops = np.array([word == "." for word in words])
table = np.arange(13.0)[:, None]  # an entry is its own position
fig, axes = plt.subplots(2, 2, figsize=(10, 4.4), sharex=True)
for column, scores, title in (
    (0, np.where(stops, 6.0, -6.0), "a query that counts sentences"),
    (1, np.full(len(words), 6.0), "a query that counts tokens"),
):
    top, bottom = axes[:, column]
    top.bar(range(len(words)), sigmoid(scores))
    top.set(title=title, ylim=(0, 1.1))
    bottom.step(
        range(len(words)), cope([[1.0]], [scores], table)[0], where="mid"
    )
    bottom.set(ylim=(0, 13))
    bottom.set_xticks(range(len(words)), words, rotation=60, ha="right")
axes[0, 0].set_ylabel("gate")
axes[1, 0].set_ylabel("position")
