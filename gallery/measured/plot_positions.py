r"""
Scores against distance
=======================

Which position scheme makes a distant key count for less, and for which keys?
"""

# %%
# Queries and keys of 64 standard normal channels, 400 draws; above, query and
# key are independent, below, they are the same vector. Lines are means and
# bands one standard deviation, all over the square root of the width, which
# is the scale of attention.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import (
    alibi_bias,
    apply_xpos,
    kerple_bias,
    rope_frequencies,
    rope_score,
    rope_tables,
    sinusoidal,
    t5_relative_position_bucket,
    xpos_scales,
)

dim, longest = 64, 2000
distance = np.unique(np.geomspace(1, longest, 50).astype(int))
theta = rope_frequencies(dim)
rng = np.random.default_rng(0)
q, independent = rng.normal(size=(2, 400, dim))


def no_position(q, k):
    """Score content alone."""
    return np.sum(q * k, -1)[:, None] + np.zeros(distance.size)


def with_sinusoids(q, k):
    """Add a row of the table to each, the query at the end of the text."""
    rows = sinusoidal(longest + 1, dim)
    return (q + rows[longest]) @ rows[longest - distance].T + no_position(
        q + rows[longest], k
    )


def with_bias(bias):
    """Add a number for each distance."""
    return lambda q, k: np.sqrt(dim) * bias + no_position(q, k)


def rotated(q, k):
    """Turn both."""
    return rope_score(q[:, None], k[:, None], -distance, theta)


def rotated_and_scaled(q, k):
    """Turn and scale both: the query at the distance, the key at 0."""
    tables = *rope_tables(distance, theta), xpos_scales(distance, dim)
    copies = np.repeat(q[:, None], distance.size, axis=1)
    return np.einsum("ntd,nd->nt", apply_xpos(copies, *tables), k)


far = {"T": 1, "S": longest + 1, "q_offset": longest}
trained = np.log(np.geomspace(1, 0.05, 32))  # numbers a T5 might have learned
buckets = t5_relative_position_bucket(-distance, bidirectional=False)
schemes = {
    "none": no_position,
    "sinusoidal": with_sinusoids,
    "RoPE": rotated,
    "xPos": rotated_and_scaled,
    "ALiBi, 1/256": with_bias(
        alibi_bias(1 / 256, **far)[0, longest - distance]
    ),
    "T5, made-up table": with_bias(trained[buckets]),
    "KERPLE, log": with_bias(
        kerple_bias(1.0, 1.0, **far)[0, longest - distance]
    ),
}
fig, axes = plt.subplots(
    2, len(schemes), figsize=(13, 5), sharex=True, sharey="row"
)
for column, (name, score) in enumerate(schemes.items()):
    for row, k in enumerate((independent, q)):
        values = score(q, k) / np.sqrt(dim)
        mean, spread = values.mean(0), values.std(0)
        ax = axes[row, column]
        ax.fill_between(distance, mean - spread, mean + spread, alpha=0.3)
        ax.semilogx(distance, mean)
        ax.axhline(0, color="0.6", lw=0.8)
    axes[0, column].set_title(name)
    axes[1, column].set_xlabel("distance")
axes[0, 0].set_ylabel("score, independent")
axes[1, 0].set_ylabel("score, q = k")
