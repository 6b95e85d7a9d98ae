r"""
Four ways to use a recurrent cell
=================================

Which inputs does a recurrent network read, and which of its outputs are
used?
"""

# %%
# The configurations
# ------------------
# A cell is the same in all four. Missing inputs are zero; unused outputs are
# computed, and dropped. In the last one the decoder has its own weights, and
# starts from the encoder's last state.

import matplotlib.pyplot as plt
import numpy as np

from dlref.recurrent import bidirectional, rnn

ARROW = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0}


def draw(ax, title, inputs, outputs, colors):
    """Draw a chain of cells; None among inputs or outputs is left gray."""
    for k, (x, y, color) in enumerate(
        zip(inputs, outputs, colors, strict=True)
    ):
        ax.add_patch(
            plt.Rectangle(
                (k - 0.3, -0.3), 0.6, 0.6, fc=color, ec="none", alpha=0.35
            )
        )
        for text, near, far in ((x, -0.3, -0.95), (y, 0.3, 0.95)):
            used = text is not None
            start, end = (far, near) if near < 0 else (near, far)
            style = ARROW | {
                "color": "0.45" if used else "0.8",
                "linestyle": "-" if used else ":",
            }
            ax.annotate("", (k, end), (k, start), arrowprops=style)
            ax.text(
                k,
                far * 1.08,
                text if used else ("0" if near < 0 else ""),
                ha="center",
                va="top" if near < 0 else "bottom",
            )
        if k:
            ax.annotate(
                "",
                (k - 0.3, 0),
                (k - 0.7, 0),
                arrowprops=ARROW | {"color": "0.45"},
            )
    ax.set(xlim=(-0.6, len(inputs) - 0.4), ylim=(-1.5, 1.5), title=title)
    ax.set_aspect("equal")
    ax.axis("off")


def named(letter, count):
    return [f"${letter}_{k + 1}$" for k in range(count)]


blank = [None] * 3
fig, axes = plt.subplots(2, 2, figsize=(8.5, 5.4))
draw(
    axes[0, 0],
    "sequence to sequence",
    named("x", 4),
    named("y", 4),
    ["C0"] * 4,
)
draw(
    axes[0, 1],
    "sequence to vector",
    named("x", 4),
    [*blank, "$y$"],
    ["C0"] * 4,
)
draw(
    axes[1, 0],
    "vector to sequence",
    ["$x$"] * 4,
    named("y", 4),
    ["C0"] * 4,
)
draw(
    axes[1, 1],
    "encoder and decoder",
    [*named("x", 3), "$y_0$", *named("y", 2)],
    [*blank, *named("y", 3)],
    ["C0"] * 3 + ["C1"] * 3,
)
fig.alt_text = (
    "Four chains of cells: with an input and an output at every step; with an "
    "output at the last step only; with the same input at every step; and "
    "an encoder of three inputs followed by a decoder of three outputs."
)

# %%
# Two directions
# --------------
# A running mean knows only the past: where the signal jumps it lags behind. The
# same from the other end is early. A bidirectional network has both at every
# step.

rng = np.random.default_rng(0)
signal = np.where(np.arange(60) < 30, -1.0, 1.0)
x = (signal + 0.5 * rng.normal(size=60))[:, None]
mean = (None, [[0.15]], [[0.85]])
both = bidirectional(rnn, x, mean, mean, activation="identity")
fig, ax = plt.subplots()
ax.plot(x[:, 0], ".", color="0.6", label="input")
ax.plot(both[:, 0], label="forward")
ax.plot(both[:, 1], label="backward")
ax.plot(both.mean(axis=1), "--", label="mean of both")
ax.set(title="Past and future", xlabel="step", ylabel="state")
ax.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.18))
