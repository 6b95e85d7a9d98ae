r"""
GRU, LSTM and RNN: which cells learn to remember
================================================

Which of the three cells learns a task whose answer lies 40 steps back, and
what does clipping the gradient do?
"""

# %%
# The adding problem
# ------------------
# A sequence of 40 random numbers; two are marked, one in each half. The answer
# is the sum of these two. A model that ignores the marks and always answers 1
# has a mean squared error of 1/6.
#
# RNN, LSTM and GRU get 24 units, the same sequences, Adam at the same rate,
# 900 steps, and gradients clipped to norm 1. The gates that keep (f of the
# LSTM, z of the GRU) start at a bias of 2. The GRU learns the task within 300
# steps and the LSTM within 600; the RNN stays at the loss of the constant. The
# lines are means over 25 steps.

import matplotlib.pyplot as plt
import numpy as np

from dlref.recurrent import gru, gru_vjp, lstm, lstm_vjp, rnn, rnn_vjp
from dlref.training import adam_step, clip_by_norm

CELLS = {
    "RNN": (rnn, rnn_vjp, 1),
    "LSTM": (lstm, lstm_vjp, 4),
    "GRU": (gru, gru_vjp, 3),
}


def adding(rng, count, length):
    """Draw sequences (count, length, 2) of numbers and marks, and sums."""
    x = np.zeros((count, length, 2), np.float32)
    x[..., 0] = rng.random((count, length))
    rows, half = np.arange(count), length // 2
    x[rows, rng.integers(0, half, count), 1] = 1
    x[rows, rng.integers(half, length, count), 1] = 1
    return x, (x[..., 0] * x[..., 1]).sum(axis=1)


def train(kind, *, length=40, units=24, steps=900, rate=0.005, limit=1.0):
    """Return the loss and the norm of the gradient at each step."""
    rng = np.random.default_rng(0)
    f, f_vjp, gates = CELLS[kind]
    bound = units**-0.5
    shapes = (gates * units, 2), (gates * units, units), (1, units)
    w_x, w_h, w_out = (rng.uniform(-bound, bound, s) for s in shapes)
    b = np.zeros(gates * units)
    if gates > 1:
        b[units : 2 * units] = 2.0
    params = tuple(
        p.astype(np.float32) for p in (w_x, w_h, b, w_out, np.zeros(1))
    )
    state, losses, norms = None, [], []
    none = (None,) * (2 if gates == 4 else 1)
    for _ in range(steps):
        x, y = adding(rng, 32, length)
        w_x, w_h, b, w_out, b_out = params
        h = f(x, *none, w_x, w_h, b)
        h = h[0] if gates == 4 else h
        error = (h[:, -1] @ w_out.T + b_out)[:, 0] - y
        losses.append(np.mean(error**2))
        d = (error / 16)[:, None].astype(np.float32)
        u = np.zeros_like(h)
        u[:, -1] = d @ w_out
        dout = (u, None) if gates == 4 else u
        _, *grads = f_vjp(dout, x, *none, w_x, w_h, b)
        grads = (*grads, d.T @ h[:, -1], d.sum(axis=0))
        norms.append(np.sqrt(sum(float(np.sum(g * g)) for g in grads)))
        grads = clip_by_norm(grads, limit)
        params, state = adam_step(params, grads, state, learning_rate=rate)
    return np.array(losses), np.array(norms)


def smooth(values, width=25):
    """Take means of neighbors."""
    return np.convolve(values, np.ones(width) / width, mode="valid")


fig, ax = plt.subplots(figsize=(7, 4))
for kind in CELLS:
    losses, _ = train(kind)
    ax.semilogy(smooth(losses), label=kind)
ax.axhline(1 / 6, color="0.45", ls=":", lw=1.2)
ax.text(880, 0.21, "always answer 1", fontsize=9, ha="right", va="bottom")
ax.set(
    title="The adding problem at 40 steps",
    xlabel="training step",
    ylabel="mean squared error",
    ylim=(2e-4, 0.8),
)
ax.legend(loc="lower left")

# %%
# The effect of clipping
# ----------------------
# One unit, :math:`h_t = \sigma(w h_{t-1} + b)`, 50 steps, and a target of 0.7
# for the last state. Two plains of the loss meet at a cliff, where the state
# changes from one fixed point to the other. Descent zigzags along its edge,
# until one step meets the cliff itself, and lands far away on a plain without
# slope. Steps in the same directions, but of limited length, stay at the cliff:
# they jump to and fro across its edge, and the lower side gets lower, to 0.003.

steps = np.zeros((50, 1))


def loss_and_grads(w, b):
    """Return the loss of one unit, and its gradient."""
    args = steps, [0.5], [[0.0]], [[w]], [b]
    h = rnn(*args, activation="sigmoid")
    u = np.zeros((50, 1))
    u[-1] = 2 * (h[-1] - 0.7)
    *_, dw, db = rnn_vjp(u, *args, activation="sigmoid")
    return float((h[-1, 0] - 0.7) ** 2), np.array([dw[0, 0], db[0]])


def descend(limit, count=30):
    """Return the path of gradient descent, at rate 1."""
    path = [np.array([5.1, -2.1])]
    for _ in range(count):
        grad = loss_and_grads(*path[-1])[1]
        path.append(path[-1] - clip_by_norm((grad,), limit)[0])
    return np.array(path)


w, b = np.linspace(4, 7, 91), np.linspace(-3, 3, 91)
surface = np.array([[loss_and_grads(wi, bi)[0] for wi in w] for bi in b])
fig, ax = plt.subplots(figsize=(7, 4.2))
image = ax.pcolormesh(w, b, surface, shading="nearest")
fig.colorbar(image, ax=ax, label="loss")
for limit, style, label in (
    (np.inf, "C1o-", "not clipped"),
    (0.1, "C5o-", "clipped to 0.1"),
):
    ax.plot(*descend(limit).T, style, ms=4, lw=1.2, label=label)
ax.set(
    title="A cliff in the loss, and two ways down",
    xlabel="weight of the state w",
    ylabel="bias b",
    xlim=(4, 7),
    ylim=(-3, 3),
)
ax.legend(loc="upper left")

# %%
# The cell
# --------
# The state runs along the top. The update gate z keeps a share of it, and one
# minus that share of the candidate n is added; the reset gate r decides how
# much of the state the candidate sees.

TOP, LOW, STATE = 3.0, -0.15, 0.2  # heights of state, input, and its copy
LINE = {"arrowstyle": "-|>", "color": "0.45", "shrinkA": 0, "shrinkB": 0}


def wire(ax, *points):
    """Draw a line through the points, with a head at the last."""
    if len(points) > 2:
        ax.plot(*np.array(points[:-1]).T, color="0.45", lw=1.2, zorder=0)
    ax.annotate("", points[-1], points[-2], arrowprops=LINE)


def node(ax, x, y, text):
    """Draw an operation on single elements."""
    ax.add_patch(plt.Circle((x, y), 0.22, fc="C4", alpha=0.35, ec="none"))
    ax.text(x, y, text, ha="center", va="center")


def layer(ax, x, text, name, color):
    """Draw a layer, and the name of what it returns."""
    ax.add_patch(
        plt.Rectangle((x - 0.4, 0.75), 0.8, 0.5, fc="none", ec=color, lw=1.5)
    )
    ax.text(x, 1.0, text, ha="center", va="center")
    ax.text(x - 0.14, 1.45, name, ha="right", style="italic")


fig, ax = plt.subplots(figsize=(7, 3.8))
wire(ax, (-0.6, TOP), (4.38, TOP))
wire(ax, (4.82, TOP), (5.98, TOP))
wire(ax, (6.42, TOP), (7.6, TOP))
ax.plot([-0.2, 6.35], [LOW, LOW], color="0.45", lw=1.2)
wire(ax, (-0.2, -0.7), (-0.2, LOW))
ax.plot([0.2, 0.2, 4.45], [TOP, STATE, STATE], color="0.45", lw=1.2)
for x, text, name, color in (
    (1.2, "σ", "r", "C0"),
    (4.6, "σ", "z", "C1"),
    (6.2, "tanh", "n", "C2"),
):
    layer(ax, x, text, name, color)
    wire(ax, (x + 0.15, LOW), (x + 0.15, 0.73))
    if name != "n":
        wire(ax, (x - 0.15, STATE), (x - 0.15, 0.73))
node(ax, 4.6, TOP, "×")
wire(ax, (4.6, 1.27), (4.6, TOP - 0.24))
node(ax, 6.2, TOP, "+")
node(ax, 6.2, 2.2, "×")
wire(ax, (6.2, 1.27), (6.2, 1.96))
wire(ax, (6.2, 2.44), (6.2, TOP - 0.24))
node(ax, 5.4, 2.2, "1−")
wire(ax, (4.6, 2.2), (5.16, 2.2))
wire(ax, (5.64, 2.2), (5.96, 2.2))
node(ax, 2.6, 1.9, "×")
wire(ax, (1.2, 1.27), (1.2, 1.9), (2.36, 1.9))
wire(ax, (2.6, TOP), (2.6, 2.14))
wire(ax, (2.6, 1.66), (2.6, 0.45), (6.0, 0.45), (6.0, 0.73))
ax.text(-0.75, TOP, "$h_{t-1}$", ha="right", va="center")
ax.text(7.75, TOP, "$h_t$", ha="left", va="center")
ax.text(-0.2, -0.85, "$x_t$", ha="center", va="top")
ax.set(xlim=(-1.5, 8.4), ylim=(-1.2, 3.5), aspect="equal", title="A GRU cell")
ax.axis("off")
fig.alt_text = (
    "The state runs along the top from left to right: it is multiplied by the "
    "update gate z, and one minus z times the candidate n is added. Three "
    "layers read the input. Both gates also read the state, the candidate "
    "reads the state times the reset gate r."
)
