r"""
RoPE: rotation by position
==========================

What happens to a vector as its position grows, and on what does the score of
two such vectors depend?
"""

# %%
# Trajectories of the pairs
# -------------------------
# A head of 64 channels has the pairs 0 to 31. Pair 0 rotates by one radian per
# token, pair 24 by a thousandth: in 41 positions the first runs through its
# circle six times, the last hardly moves. Slow pairs tell far from near, fast
# ones tell neighbors apart. The frequencies of the four pairs shown are powers
# of ten, and the only ones of a head of 8 channels.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import apply_rope, rope_score, rope_tables

dim = 64
theta = 10000.0 ** (-np.arange(0, dim, 2) / dim)
positions = np.arange(41)
x = np.tile([1.0, 0.0], dim // 2)
y = apply_rope(np.tile(x, (41, 1)), *rope_tables(positions, theta))

fig, axes = plt.subplots(1, 4, figsize=(10, 2.9), sharex=True, sharey=True)
for ax, pair in zip(axes, [0, dim // 8, dim // 4, 3 * dim // 8], strict=True):
    u, v = y[:, 2 * pair], y[:, 2 * pair + 1]
    ax.plot(u, v, "-", color="0.7", lw=0.8)
    points = ax.scatter(u, v, c=positions, s=14, zorder=3)
    for p in (0, 10, 20, 30, 40):
        at = 1.17 * np.array([u[p], v[p]])
        if p in (0, 40) and np.hypot(*(y[40] - y[0])[2 * pair :][:2]) < 0.1:
            at[1] += 0.2 if p else -0.2  # above and below the points
        elif p in (10, 20, 30) and theta[pair] < 0.1:
            continue  # the labels would cover each other
        ax.annotate(str(p), at, ha="center", va="center", size=8)
    ax.set(
        title=f"pair {pair}:\n{theta[pair]:.3g} rad per token",
        xlabel="first channel",
    )
    ax.set(aspect="equal", xlim=(-1.35, 1.35), ylim=(-1.35, 1.35))
axes[0].set_ylabel("second channel")
fig.colorbar(points, ax=axes, label="position")

# %%
# The score against the offset
# ----------------------------
# Two independent vectors, and one vector as both query and key. The score is
# a sum of cosines, the even part, and of sines, the odd part. For equal
# vectors the odd part is zero and the curve symmetric. Every position of the
# query gives the same curve.

rng = np.random.default_rng(3)
q, k = rng.normal(size=(2, dim))
r = np.arange(-60, 61)
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.3))
for ax, other, title in (
    (axes[0], k, "independent q and k"),
    (axes[1], q, "q = k"),
):
    there, back = (
        rope_score(q, other, r, theta),
        rope_score(q, other, -r, theta),
    )
    ax.plot(r, there, label="score")
    ax.plot(r, (there + back) / 2, lw=1, label="even part")
    ax.plot(r, (there - back) / 2, lw=1, label="odd part")
    ax.axhline(0, color="0.6", lw=0.8)
    ax.set(title=title, xlabel="key position − query position", ylabel="score")
axes[0].legend()

# %%
# Position, pair and base: try it
# -------------------------------
# On the left the two channels of a pair that starts at (1, 0), up to a
# position; on the right the score of the two vectors from above. A greater base
# slows all pairs but the first, and smooths the score far from zero.

try:
    from interactive import Control, Interactive, Panel
except ModuleNotFoundError:
    msg = "Put interactive.py, which the page offers, beside the script."
    raise SystemExit(msg) from None


steps = np.arange(65)


def channels(pair, base):
    """Both channels of a pair at all positions."""
    frequency = float(base) ** (-2 * pair / dim)
    cos, sin = rope_tables(steps, [frequency])
    return {"first channel": cos[:, 0], "second channel": sin[:, 0]}


def scores(base):
    """Scores of independent and of equal vectors at all offsets."""
    frequencies = float(base) ** (-np.arange(0, dim, 2) / dim)
    return {
        "q and k": rope_score(q, k, r, frequencies),
        "q and q": rope_score(q, q, r, frequencies),
    }


Interactive(
    "A rotated pair, and the score of two vectors",
    [
        Control("position", "Position", steps[1:], start=40),
        Control("pair", "Pair", np.arange(dim // 2), start=4),
        Control(
            "base", "Base", ["100", "1000", "10000", "500000"], start="10000"
        ),
    ],
    [
        Panel(
            "Channels of the pair",
            steps,
            channels,
            ["pair", "base"],
            until="position",
            xlabel="position",
            ylabel="value",
            ylim=(-1, 1),
        ),
        Panel(
            "Score against offset",
            r,
            scores,
            ["base"],
            xlabel="key − query",
            ylabel="score",
            ylim=(-20, 60),
        ),
    ],
).show()

# %%
# Decay, or not
# -------------
# Root mean square over 500 draws. Between independent vectors the size of the
# score is the same at every distance: there is no decay. Between a vector and
# itself it falls, because pairs that all began at angle zero get out of step.

distance = np.unique(np.geomspace(1, 10_000, 60).astype(int))
qs, ks = rng.normal(size=(2, 500, 1, dim))
fig, ax = plt.subplots()
for other, label in ((ks, "independent"), (qs, "equal")):
    scores = rope_score(qs, other, distance, theta)
    ax.semilogx(distance, np.sqrt((scores**2).mean(0)) / dim, label=label)
ax.set(xlabel="distance in tokens", ylabel="rms score / width", ylim=(0, 1))
ax.set_title("Scores at a distance")
ax.legend()

# %%
# The error of narrow angles
# --------------------------
# The largest error of a table of 64 pairs in a block of positions: for
# positions rounded to bfloat16, which has 8 bits and cannot tell 256 from 257;
# for angles rounded to float32 before the cosine; and for tables that
# are reduced first and rounded last.


def bfloat16(values):
    """Round to the nearest number with eight significant bits, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + (bits >> 16 & 1)
    return (rounded & 0xFFFF0000).view(np.float32).astype(float)


starts = 2 ** np.arange(4, 24)
errors = {"position in bfloat16": [], "angle in float32": [], "dlref": []}
for start in starts:
    p = np.arange(start, start + 16)
    true, _ = rope_tables(p, theta)
    narrow, _ = rope_tables(bfloat16(p), theta)
    angle = p[:, None].astype(np.float32) * theta.astype(np.float32)
    tables = (narrow, np.cos(angle.astype(float)), true.astype(np.float32))
    for found, got in zip(errors.values(), tables, strict=True):
        found.append(np.max(np.abs(got - true)))
fig, ax = plt.subplots()
for (label, found), marker in zip(errors.items(), "^os", strict=True):
    ax.loglog(starts, np.where(found, found, np.nan), marker + "-", label=label)
ax.set(xlabel="position", ylabel="largest error of a cosine")
ax.set_title("Precision at long positions")
ax.legend()
