r"""
Long short-term memory: gates at work
=====================================

What is in an LSTM cell, what do its gates do, and how far back does a
gradient get?
"""

# %%
# The cell
# --------
# The cell state runs along the top: it is multiplied by the forget gate, and
# the gated candidate is added. All gates read the input and the last state.

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from dlref.recurrent import gru_vjp, lstm, lstm_gates, lstm_vjp, rnn_vjp

LINE = {"arrowstyle": "-|>", "color": "0.45", "shrinkA": 0, "shrinkB": 0}
TOP, OUT = 3.2, 0.35  # height of the cell state, and of the state


def arrow(ax, *points, alpha=1.0):
    """Draw a line through the points, with a head at the last."""
    for start, end in pairwise(points[:-1]):
        ax.plot(
            *zip(start, end, strict=True),
            color="0.45",
            lw=1.2,
            zorder=0,
            alpha=alpha,
        )
    ax.annotate("", points[-1], points[-2], arrowprops={**LINE, "alpha": alpha})


def box(ax, x, y, text, color, alpha=1.0):
    """Draw a layer."""
    style = {"boxstyle": "round,pad=0.02", "ec": color, "lw": 1.5}
    ax.add_patch(
        plt.matplotlib.patches.FancyBboxPatch(
            (x - 0.38, y - 0.25), 0.76, 0.5, fc="none", alpha=alpha, **style
        )
    )
    ax.text(x, y, text, ha="center", va="center", alpha=alpha)


def node(ax, x, y, text, alpha=1.0):
    """Draw an operation on single elements."""
    ax.add_patch(
        plt.Circle((x, y), 0.2, fc="C4", ec="none", alpha=0.35 * alpha)
    )
    ax.text(x, y, text, ha="center", va="center", alpha=alpha)


def cell(ax, step=None):
    """Draw a cell; if one of its steps is given, all else is pale."""

    def seen(*steps):
        return 1.0 if step is None or step in steps else 0.2

    arrow(ax, (-0.6, TOP), (1.0, TOP), alpha=seen(1, 3))
    arrow(ax, (1.4, TOP), (3.3, TOP), alpha=seen(3))
    arrow(ax, (3.7, TOP), (7.6, TOP), alpha=seen(3))
    node(ax, 1.2, TOP, "×", seen(1, 3))
    node(ax, 3.5, TOP, "+", seen(3))
    layers = ("f", "σ", 1), ("i", "σ", 2), ("g", "tanh", 2), ("o", "σ", 4)
    for k, (name, text, used) in enumerate(layers):
        x, alpha = 1.2 + 1.4 * k, seen(used)
        box(ax, x, 1.4, text, f"C{k}", alpha)
        arrow(ax, (x, OUT), (x, 1.13), alpha=alpha)
        style = {"ha": "right", "va": "center", "style": "italic"}
        ax.text(x - 0.12, 1.88, name, alpha=alpha, **style)
    read = seen(1, 2, 4)
    ax.plot([-0.6, 5.4], [OUT, OUT], color="0.45", lw=1.2, alpha=read)
    arrow(ax, (-0.2, -0.5), (-0.2, OUT), alpha=read)
    arrow(ax, (1.2, 1.67), (1.2, TOP - 0.2), alpha=seen(1))
    arrow(ax, (2.6, 1.67), (2.6, 2.35), (3.3, 2.35), alpha=seen(2))
    arrow(ax, (4.0, 1.67), (4.0, 2.35), (3.7, 2.35), alpha=seen(2))
    node(ax, 3.5, 2.35, "×", seen(2))
    arrow(ax, (3.5, 2.55), (3.5, TOP - 0.2), alpha=seen(3))
    node(ax, 6.4, 1.4, "×", seen(4))
    arrow(ax, (5.8, 1.4), (6.2, 1.4), alpha=seen(4))
    box(ax, 6.4, 2.35, "tanh", "0.45", seen(4))
    arrow(ax, (6.4, TOP), (6.4, 2.62), alpha=seen(4))
    arrow(ax, (6.4, 2.08), (6.4, 1.6), alpha=seen(4))
    arrow(ax, (6.4, 1.2), (6.4, OUT), (7.6, OUT), alpha=seen(4))
    for x, y, text, side, alpha in (
        (-0.7, TOP, "$c_{t-1}$", "right", seen(1, 3)),
        (7.7, TOP, "$c_t$", "left", seen(3)),
        (-0.7, OUT, "$h_{t-1}$", "right", read),
        (7.7, OUT, "$h_t$", "left", seen(4)),
        (-0.2, -0.7, "$x_t$", "center", read),
    ):
        style = {"ha": side, "va": "center", "fontsize": 12}
        ax.text(x, y, text, alpha=alpha, **style)
    ax.set(xlim=(-1.5, 8.3), ylim=(-0.95, 3.6), aspect="equal")
    ax.axis("off")


fig, ax = plt.subplots(figsize=(8, 4.2))
cell(ax)
ax.set_title("An LSTM cell")
fig.alt_text = (
    "The cell state c runs along the top from left to right: it is multiplied "
    "by the forget gate f, and the product of the input gate i and the "
    "candidate g is added. Below, four layers read the input x and the last "
    "state h. The output gate o times tanh of the cell state is the new state."
)

# %%
# Step by step
# ------------
# The forget gate says how much of each element of the old cell state stays; the
# candidate is the value that could be written, and the input gate says how much
# of it is; both are added up; and the output gate says how much the other
# layers see.

fig, axes = plt.subplots(2, 2, figsize=(9, 5.4))
titles = (
    "1. forget: f ⊙ c",
    "2. write: i ⊙ g",
    "3. the new cell state, their sum",
    "4. show: o ⊙ tanh c",
)
for step, (ax, title) in enumerate(zip(axes.flat, titles, strict=True), 1):
    cell(ax, step)
    ax.set_title(title)
fig.alt_text = (
    "The same cell four times, each time with one step in full color: first "
    "the forget gate, which multiplies the old cell state; then input gate and "
    "candidate, which are multiplied; then the cell state, to which their "
    "product is added; then the output gate, times tanh of the cell state."
)

# %%
# States and gates
# ----------------
# A network of three units with weights of standard deviation 0.1 and no
# biases, on two waves. All gates stay near one half: nothing is kept for
# long. Of the first cell state 3e-5 is left after 15 steps. With a bias of 4
# the forget gates are open.

t = np.arange(15)
waves = np.stack(
    [np.sin(4 * np.pi * t / 14), np.cos(3 * np.pi * t / 14)], axis=1
)
state = np.random.RandomState(42)
drawn = [
    (state.randn(2, 3).T * 0.1, state.randn(3, 3).T * 0.1) for _ in range(4)
]
w_ih, w_hh = (
    np.concatenate([drawn["fico".index(gate)][k] for gate in "ifco"])
    for k in (0, 1)
)
h, c = lstm(waves, None, None, w_ih, w_hh)
gates = lstm_gates(waves, None, None, w_ih, w_hh)

fig, axes = plt.subplots(1, 3, figsize=(10, 3.2))
for ax, values, title in zip(
    axes[:2], (h, c), ("State h", "Cell state c"), strict=True
):
    for k in range(3):
        ax.plot(t, values[:, k], "o-", label=f"unit {k + 1}")
    ax.set(title=title, xlabel="step", ylabel=title.lower(), ylim=(-0.2, 0.2))
axes[0].legend(loc="upper right")
for gate in ("i", "f", "o"):
    axes[2].plot(t, getattr(gates, gate).mean(axis=1), "o-", label=gate)
axes[2].set(
    title="Gates, mean over units", xlabel="step", ylabel="gate", ylim=(0, 1)
)
axes[2].legend()

# %%
# How far back a gradient gets
# ----------------------------
# The norm of the gradient of the last state by an input, against the lag
# between them: 32 units, weights as PyTorch draws them. The plain network
# forgets at a constant rate, and LSTM and GRU, whose gates are at one half, at
# much the same. A bias of 4 on the gate that keeps (f, or z) makes the
# difference. It is not a guarantee: the gradient of the LSTM even grows,
# through the gates, by which the states feed back.

T, D, H = 100, 4, 32
rng = np.random.default_rng(0)
x = rng.normal(size=(T, D))
bound = H**-0.5


def weights(count, kept=None):
    """Draw weights for `count` gates; the gate number `kept` gets a bias."""
    b = np.zeros(count * H)
    if kept is not None:
        b[kept * H : (kept + 1) * H] = 4.0
    w_x = rng.uniform(-bound, bound, (count * H, D))
    return w_x, rng.uniform(-bound, bound, (count * H, H)), b


u = np.zeros((T, H))
u[-1] = rng.normal(size=H)
curves = {
    "RNN": rnn_vjp(u, x, None, *weights(1)),
    "LSTM": lstm_vjp((u, None), x, None, None, *weights(4)),
    "GRU": gru_vjp(u, x, None, *weights(3)),
    "LSTM, forget bias 4": lstm_vjp((u, None), x, None, None, *weights(4, 1)),
    "GRU, update bias 4": gru_vjp(u, x, None, *weights(3, 1)),
}
fig, ax = plt.subplots(figsize=(7, 4))
styles = ("C0-", "C1--", "C2--", "C1-", "C2-")
for style, (label, (dx, *_)) in zip(styles, curves.items(), strict=True):
    size = np.linalg.norm(dx[::-1], axis=1)
    ax.semilogy(size / size[0], style, label=label)
ax.set(
    title="Gradient by an earlier input",
    xlabel="lag in steps",
    ylabel="norm, relative to lag 0",
    ylim=(1e-20, 1e3),
)
ax.legend()
