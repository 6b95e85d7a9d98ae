r"""
Recurrent networks: states and memory
=====================================

What does a recurrent network do at each step, and how long does it remember
a spike?
"""

# %%
# One cell, many steps
# --------------------
# A recurrent neuron reads its own last state. Unrolled in time it is a chain
# of copies, which all have the same weights.

import matplotlib.pyplot as plt
import numpy as np

from dlref.propagation import orthogonal
from dlref.recurrent import rnn, rnn_vjp

ARROW = {"arrowstyle": "-|>", "color": "0.45", "shrinkA": 0, "shrinkB": 0}


def cell(ax, x, label):
    """Draw a neuron at x with its input and its output."""
    ax.add_patch(plt.Circle((x, 0), 0.34, fc="C0", ec="none", alpha=0.25))
    ax.text(x, 0, "φ", ha="center", va="center", fontsize=13)
    for y0, y1 in ((-1, -0.34), (0.34, 1)):
        ax.annotate("", (x, y1), (x, y0), arrowprops=ARROW)
    ax.text(x, -1.05, f"$x_{{{label}}}$", ha="center", va="top")
    ax.text(x, 1.05, f"$h_{{{label}}}$", ha="center", va="bottom")


fig, ax = plt.subplots(figsize=(8, 2.9))
cell(ax, 0, "t")
ax.plot([0, -0.75, -0.75], [0.65, 0.65, 0], color="0.45", lw=1.2)
ax.annotate("", (-0.34, 0), (-0.77, 0), arrowprops=ARROW)
ax.text(-0.85, 0.32, "$h_{t-1}$", ha="right", va="center")
ax.text(1.5, 0, "=", ha="center", va="center", fontsize=18)
for k, label in enumerate(("t-3", "t-2", "t-1", "t")):
    at = 3 + 1.5 * k
    cell(ax, at, label)
    ax.annotate("", (at - 0.34, 0), (at - 1.16, 0), arrowprops=ARROW)
ax.annotate("", (9.0, 0), (7.84, 0), arrowprops=ARROW)
ax.text(1.75, 0.18, "…", fontsize=13)
ax.set(xlim=(-1.6, 9.1), ylim=(-1.5, 1.5), aspect="equal")
ax.set_title("A recurrent neuron, rolled and unrolled")
ax.axis("off")
fig.alt_text = (
    "Left, a neuron with input x_t, output h_t and an arrow from its output "
    "back to itself; right, four copies of it for the times t-3 to t, each "
    "with an input and an output, connected in a row."
)

# %%
# States and inputs
# -----------------
# A network of three units with weights of standard deviation 0.01 reads two
# waves. Its states follow the inputs at once: the crosses, the same cell
# *without* its state, are within 0.00031. There is a state, but nothing in it.

state = np.random.RandomState(42)
w_x, w_h = state.randn(2, 3).T * 0.01, state.randn(3, 3).T * 0.01
t = np.arange(15)
waves = np.stack(
    [np.sin(4 * np.pi * t / 14), np.cos(3 * np.pi * t / 14)], axis=1
)
h = rnn(waves, None, w_x, w_h)
alone = np.tanh(waves @ w_x.T)

fig, axes = plt.subplots(2, 1, sharex=True, figsize=(7, 4.4))
for k in range(3):
    axes[0].plot(t, h[:, k], "o-", color=f"C{k}", label=f"unit {k + 1}")
    axes[0].plot(t, alone[:, k], "x", color="0.13", ms=7)
axes[0].plot([], [], "x", color="0.13", ms=7, label="without a state")
axes[0].set(title="States", ylabel="state")
axes[0].legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.02))
axes[1].plot(t, waves[:, 0], "o-", color="C4", label="sine")
axes[1].plot(t, waves[:, 1], "o-", color="C5", label="cosine")
axes[1].set(title="Inputs", xlabel="step", ylabel="input")
axes[1].legend(loc="lower left")

# %%
# The memory of a spike
# ---------------------
# An input of 3 at the first step, then silence. With weights of 0.01 it is
# gone after two steps, and after fourteen its trace is 1e-25. An *orthogonal*
# recurrent matrix keeps lengths, and remembers.

spike = np.zeros((15, 2))
spike[0, 0] = 3.0
rng = np.random.default_rng(0)
weights = {
    "weights near 0.01": w_h,
    "spectral radius 0.8": 0.8 * orthogonal(rng, (3, 3)),
    "orthogonal": orthogonal(rng, (3, 3)),
}
fig, ax = plt.subplots()
for label, w in weights.items():
    size = np.linalg.norm(rnn(spike, None, w_x, w), axis=1)
    ax.semilogy(t, size, "o-", label=label)
ax.set(
    title="What is left of a spike",
    xlabel="steps since the spike",
    ylabel="norm of the state",
)
ax.legend()

# %%
# A training run
# --------------
# Predict the next value of :math:`\sin 0.1 x` from the present one, sixteen
# units, 300 epochs. One run uses the gradient of the reported loss, the mean of
# squares; the other one uses the gradient of half the sum, which is 50 times as
# large. The dotted lines show two baselines: the last value, repeated, and a
# straight line through the last two. From epoch 120 on the loss of the faster
# run falls by only a tenth. That is a plateau and not a minimum: a straight
# line has a loss ten thousand times smaller. The series is less than one sixth
# of a period long, so there is no wave in it to be learned.

series = np.sin(0.1 * np.linspace(0, 10, 101))
x, y = series[:-1, None], series[1:, None]
marks = [0, 50, 100, 200, 299]
stages = [0, 30, 60, 75, 90, 150, 299]


def train(factor, epochs=300, rate=0.005, limit=5.0):
    """Return the losses, and the predictions before some epochs."""
    state = np.random.RandomState(42)
    shapes = (1, 16), (16, 16), (16, 1)
    w_x, w_h, w_out = (state.randn(*shape).T * 0.01 for shape in shapes)
    params = [w_x, w_h, np.zeros(16), w_out, np.zeros(1)]
    losses, kept = [], {}
    for epoch in range(epochs):
        w_x, w_h, b, w_out, b_out = params
        h = rnn(x, None, w_x, w_h, b)
        prediction = h @ w_out.T + b_out
        error = prediction - y
        losses.append(np.mean(error**2))
        kept[epoch] = prediction[:, 0]
        dy = factor * error
        _, dw_x, dw_h, db = rnn_vjp(dy @ w_out, x, None, w_x, w_h, b)
        grads = [dw_x, dw_h, db, dy.T @ h, dy.sum(axis=0)]
        params = [
            p - rate * np.clip(g, -limit, limit)
            for p, g in zip(params, grads, strict=True)
        ]
    return np.array(losses), kept


losses, kept = train(1.0)
slow, _ = train(2 / len(x))

fig, ax = plt.subplots(figsize=(7, 4))
ax.semilogy(losses, label="gradient of half the sum")
ax.semilogy(slow, label="gradient of the mean")
ax.semilogy(marks, losses[marks], "o", color="C0")
ax.axvspan(120, 300, color="0.45", alpha=0.12, lw=0)
ax.text(210, 0.12, "plateau", ha="center", color="0.45")
repeat = np.mean((series[1:] - series[:-1]) ** 2)
line = np.mean((series[2:] - 2 * series[1:-1] + series[:-2]) ** 2)
for value, label in (
    (repeat, "repeat the last value"),
    (line, "straight line"),
):
    ax.axhline(value, color="0.45", ls=":", lw=1.2)
    ax.text(298, 1.3 * value, label, ha="right", va="bottom", fontsize=9)
ax.set(
    title="Loss during training",
    xlabel="epoch",
    ylabel="mean squared error",
    ylim=(1e-9, 1),
)
ax.legend(loc="center right", bbox_to_anchor=(1, 0.35))

# %%
# Predictions, stage by stage
# ---------------------------
# Move the control through seven stages of the first run. For a long time
# the network predicts little more than a constant; then a level and a
# slope; in the end, the last value with a small correction.

try:
    from interactive import Control, Interactive, Panel
except ModuleNotFoundError:
    msg = "Put interactive.py, which the page offers, beside the script."
    raise SystemExit(msg) from None

at = np.linspace(0, 10, 101)[1:]
Interactive(
    "Predictions through seven stages of training",
    [Control("epoch", "Epoch", stages, start=75)],
    [
        Panel(
            "Prediction and truth",
            at,
            lambda epoch: {"truth": y[:, 0], "prediction": kept[int(epoch)]},
            ["epoch"],
            xlabel="x",
            ylabel="value",
            ylim=(-0.1, 1.0),
        ),
        Panel(
            "Error",
            at,
            lambda epoch: {"|error|": abs(kept[int(epoch)] - y[:, 0])},
            ["epoch"],
            xlabel="x",
            ylabel="|prediction - truth|",
            ylim=(0, 0.1),
            points=True,
        ),
    ],
).show()
