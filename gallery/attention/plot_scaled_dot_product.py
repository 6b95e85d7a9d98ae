r"""
Scaled dot-product attention, step by step
==========================================

What happens between the question of one token and its answer, and why are
the scores divided by :math:`\sqrt E`?
"""

# %%
# One query
# ---------
# The sentence has random embeddings and projections of width 4, as a model
# has before training: this shows the mechanism, not a meaning. "it" asks, all
# tokens are compared with it, and the answer is a weighted sum of values.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import softmax_jacobian
from dlref.attention import (
    attention_scores,
    attention_weights,
    scaled_dot_product_attention,
)

SENTENCES = {
    "it": "The animal didn't cross the street because it was too tired.",
    "cat.": "The big red dog chased the small cat.",
}


def project(sentence):
    """Return tokens and random queries, keys and values."""
    tokens = sentence.split()
    legacy = np.random.RandomState(42)  # as in the docstring
    x = legacy.randn(len(tokens), 4)
    return tokens, *(x @ (0.5 * legacy.randn(4, 4)) for _ in range(3))


def draw(word):
    """Draw the path from one query to its output."""
    tokens, q, k, v = project(SENTENCES[word])
    i = tokens.index(word)
    out, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    scores = attention_scores(q, k)
    fig, axes = plt.subplots(
        1, 4, figsize=(9, 3.9), width_ratios=[1.2, 1, 1, 1.2], sharey=True
    )
    places = np.arange(len(tokens))
    for ax, matrix, title in (
        (axes[0], k, "keys $k_j$"),
        (axes[3], weights[i][:, None] * v, "weight × value $p_j v_j$"),
    ):
        limit = abs(matrix).max()
        ax.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
        ax.set(title=title, xlabel="channel", xticks=range(4))
    axes[0].set_yticks(places, tokens)
    axes[1].barh(places, scores[i], color="C0")
    axes[1].axvline(0, color="0.45", lw=1)
    axes[1].set(title=r"scores $q \cdot k_j / \sqrt{4}$", xlabel="score")
    axes[2].barh(places, weights[i], color="C1")
    axes[2].set(title="weights (softmax)", xlabel="weight")
    answer = ", ".join(f"{each:.2f}" for each in out[i])
    fig.suptitle(f"“{word}” asks; its answer is ({answer})")
    fig.alt_text = (
        f"From left to right: the keys of a sentence, their scores for the "
        f"query of “{word}”, the weights, and the weighted values."
    )


draw("it")

# %%
# Another sentence, seen from its last word.

draw("cat.")

# %%
# Raw and masked scores
# ---------------------
# Under a causal mask, scores of keys after the query are minus infinity before
# the softmax and exactly 0 after it.

raw = np.random.RandomState(42).randn(5, 5)  # as in the docstring
eye = np.eye(5)
masked = attention_scores(raw, eye, scale=1.0, is_causal=True)
weights = attention_weights(raw, eye, scale=1.0, is_causal=True)
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2))
titles = "raw", "masked", "softmax"
for ax, matrix, title in zip(axes, (raw, masked, weights), titles, strict=True):
    share = title == "softmax"
    ax.imshow(
        np.where(np.isfinite(matrix), matrix, np.nan),
        cmap="viridis" if share else "RdBu_r",
        vmin=0 if share else -2,
        vmax=1 if share else 2,
    )
    for (i, j), value in np.ndenumerate(matrix):
        seen = np.isfinite(value)
        dark = seen and (value < 0.5 if share else abs(value) > 1.4)
        ax.text(
            j,
            i,
            f"{value:.2f}" if seen else "−∞",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if dark else "0.13",
        )
    ax.set(title=title, xlabel="key $j$", ylabel="query $i$")

# %%
# Why the square root
# -------------------
# Queries and keys of independent elements of variance 1. Without the factor
# the scores spread with the width, the softmax saturates, and from some width
# on the gradient through it falls.

rng = np.random.default_rng(0)
widths = 2 ** np.arange(1, 10)
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2))
for scale, label in ((1.0, "without"), (None, r"with $1/\sqrt{E}$")):
    variance, top, slope = [], [], []
    for width in widths:
        q, k = rng.normal(size=(2, 64, width))
        rows = attention_scores(q, k, scale=scale)
        variance.append(np.var(rows))
        top.append(np.mean(attention_weights(q, k, scale=scale).max(-1)))
        slope.append(
            np.mean([np.linalg.norm(softmax_jacobian(r)) for r in rows])
        )
    for ax, values in zip(axes, (variance, top, slope), strict=True):
        ax.plot(widths, values, "o-", label=label)
for ax, title, ylabel in zip(
    axes,
    (
        "Variance of the scores",
        "Largest of 64 weights",
        "Jacobian of the softmax",
    ),
    ("variance", "mean weight", "mean norm"),
    strict=True,
):
    ax.set(title=title, ylabel=ylabel, xlabel="width $E$", xscale="log")
    ax.set_xticks([2, 16, 128], ["2", "16", "128"])
    ax.minorticks_off()
axes[0].set_yscale("log")
axes[0].legend()

# %%
# In tiles
# --------
# The matrix of scores is never formed. A tile of queries goes along the keys;
# for each query a maximum, a sum and an average are kept, and scaled down when
# a larger score turns up. Causality hides the tiles above the diagonal, which
# are not visited.

T, size = 6, 2
fig, axes = plt.subplots(1, 6, figsize=(9, 2.3))
steps = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
for ax, (a, b) in zip(axes, steps, strict=True):
    state = np.full((T, T), 0.0)
    for i in range(3):
        for j in range(i + 1):
            done = (i, j) < (a, b)
            state[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] = 1 if done else 0
    state[np.triu_indices(T, 1)] = np.nan
    state[2 * a : 2 * a + 2, 2 * b : 2 * b + 2] = 2
    state[np.triu_indices(T, 1)] = np.where(
        state[np.triu_indices(T, 1)] == 2, 1.5, np.nan
    )
    ax.pcolormesh(state, cmap="cividis", vmin=-0.6, vmax=2, edgecolors="0.6")
    ax.invert_yaxis()
    ax.set(aspect="equal", xticks=[0, 2, 4, 6], yticks=[0, 2, 4, 6])
    ax.set(title=f"queries {2 * a}, {2 * a + 1}\nkeys {2 * b}, {2 * b + 1}")
    ax.set(xlabel="key")
axes[0].set_ylabel("query")
fig.alt_text = (
    "The six steps of a tiled pass over a causal 6 by 6 matrix of scores, with "
    "tiles of 2 by 2: the tile at work is bright, those done are gray."
)

# %%
# The running sums: one row of scores, key by key. Whenever a larger score turns
# up, the sum so far is scaled down; at the end it is the sum of the whole row.

row = np.array([0.5, 1.0, -0.5, 2.5, 0.0, 3.0, 1.0, -1.0])
top, total = -np.inf, 0.0
tops, totals = [], []
for score in row:
    new = max(top, score)
    total = total * np.exp(top - new) + np.exp(score - new)
    top = new
    tops.append(top)
    totals.append(total)
fig, axes = plt.subplots(1, 2)
axes[0].plot(row, "o", label="score")
axes[0].step(range(8), tops, where="mid", label="largest so far, $m$")
axes[0].set(title="One row of scores", xlabel="key", ylabel="score")
axes[1].plot(totals, "s-", color="C2", label="sum relative to $m$")
axes[1].plot(
    np.log(totals) + tops, "^-", color="C3", label=r"$m + \log$ of the sum"
)
axes[1].set(title="What is kept", xlabel="key", ylabel="value")
axes[0].legend(loc="upper left")
axes[1].legend()

# %%
# Error and time
# --------------
# float32 and float64 at growing length, and the time of one head as the
# benchmark measured it (two threads). Time grows with the square of the length;
# memory with the length, and the error hardly.

import csv
from pathlib import Path

from dlref.attention import scaled_dot_product_attention_vjp

lengths = [64, 128, 256, 512, 1024]
errors = {"out": [], "dq": []}
for length in lengths:
    q, k, v, u = rng.normal(size=(4, 1, length, 64)).astype(np.float32)
    wide = [x.astype(np.float64) for x in (q, k, v)]
    exact = scaled_dot_product_attention(*wide)
    exact_dq = scaled_dot_product_attention_vjp(u, *wide)[0]
    out = scaled_dot_product_attention(q, k, v)
    dq = scaled_dot_product_attention_vjp(u, q, k, v)[0]
    for name, got, want in (("out", out, exact), ("dq", dq, exact_dq)):
        errors[name].append(abs(got - want).max() / abs(want).max() * 2**23)
here = Path(__file__).parent if "__file__" in globals() else Path()
tables = here / "speed.csv", here / "../../docs/results/speed.csv"
table = next((each for each in tables if each.exists()), None)
if table is None:
    msg = "Put speed.csv, which the page offers, beside the script."
    raise SystemExit(msg)
with table.open(newline="") as file:
    rows = [
        row
        for row in csv.DictReader(file)
        if row["chapter"] == "attention" and row["dtype"] == "float32"
    ]
fig, axes = plt.subplots(1, 2)
for name, values in errors.items():
    axes[0].plot(lengths, values, "o-", label=name)
axes[0].set(
    title="Error of float32", ylabel="units of $2^{-23}$ of the largest"
)
axes[0].set(xlabel="length $T$", xscale="log")
axes[0].set_xticks(lengths, [str(n) for n in lengths])
for name, label in {
    "scaled_dot_product_attention": "forward",
    "scaled_dot_product_attention_causal": "forward, causal",
    "scaled_dot_product_attention_vjp": "vjp",
    "scaled_dot_product_attention_jvp": "jvp",
}.items():
    points = []
    for row in rows:
        if row["function"] == name:
            batch, heads, length, _ = map(int, row["shape"].split("x"))
            points.append(
                (length, float(row["dlref µs"]) / 1e3 / batch / heads)
            )
    axes[1].loglog(*np.reshape(points, (-1, 2)).T, "o-", label=label)
axes[1].set(title="Time of one head, E = 64", ylabel="milliseconds")
axes[1].set(xlabel="length $T$")
axes[1].set_xticks([128, 512, 2048, 8192], ["128", "512", "2048", "8192"])
for ax in axes:
    ax.minorticks_off()
    ax.legend()
