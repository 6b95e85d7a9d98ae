r"""
Adagrad, RMSprop and Adam
=========================

How long are the steps of the adaptive methods when the gradient changes its
size? They divide it by a memory of earlier gradients, and each has another kind
of memory.
"""

# %%
# A gradient that comes and goes
# ------------------------------
# The gradient is 1 for fifty steps, then 0.1, then 1 again. Plain descent
# follows it. Adagrad follows it, too, at a rate that only falls. RMSprop
# adapts to the small gradient, takes nearly full steps again, and jumps to
# three times the learning rate when the large one returns, as it does at the
# start. Adam's steps never exceed the learning rate, since its mean lags as its
# divisor does; they fall to 0.58 of it twice, some twenty steps after the
# gradient became small and at once when the large one returns, and recover.

import matplotlib.pyplot as plt
import numpy as np

from dlref.training import (
    adafactor_step,
    adagrad_step,
    adam_step,
    adamw_step,
    lion_step,
    rmsprop_step,
    sgd_step,
)

gradient = np.repeat([1.0, 0.1, 1.0], 50)
methods = {
    "plain": (sgd_step, {}),
    "Adagrad": (adagrad_step, {}),
    r"RMSprop, $\alpha = 0.9$": (rmsprop_step, {"alpha": 0.9}),
    r"Adam, $\beta = (0.9, 0.9)$": (adam_step, {"betas": (0.9, 0.9)}),
}

fig, ax = plt.subplots()
for name, (step, options) in methods.items():
    p, state, lengths = 0.0, None, []
    for g in gradient:
        q, state = step(p, g, state, learning_rate=1, **options)
        lengths.append(p - q)
        p = q
    ax.plot(range(1, 151), lengths, lw=1.6, label=name)
ax.set(
    xlabel="step",
    ylabel="length / learning rate",
    title="Steps under a gradient of 1, then 0.1, then 1",
)
ax.legend()

# %%
# The correction of the start
# ---------------------------
# Noise around a mean of 1. Adam's two means start at 0 and would be far
# too small at first, the slower one for a thousand steps. Divided by
# :math:`1 - \beta^t` they are right from the beginning.

rng = np.random.default_rng(0)
p, state, means = 0.0, None, []
noise = 1 + 0.5 * rng.normal(size=400)
for g in noise:
    p, state = adam_step(p, g, state, learning_rate=0.01)
    means.append((state.mean, state.square))
t = np.arange(1, 401)
mean, square = np.array(means).T
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2))
for ax, raw, beta, true, name in (
    (axes[0], mean, 0.9, 1.0, "mean of the gradient"),
    (axes[1], square, 0.999, 1.25, "mean of its square"),
):
    ax.plot(t, raw, label="as kept")
    ax.plot(t, raw / (1 - beta**t), label="corrected")
    ax.axhline(true, color="0.5", lw=0.8, ls="--")
    ax.set(xlabel="step", title=rf"{name}, $\beta = {beta:g}$", ylim=(0, 2))
axes[0].legend()

# %%
# Weight decay in Adam and in AdamW
# ---------------------------------
# Two weights with gradients that are pure noise, of size 1 and of size 0.01.
# Decay that goes through Adam is divided by that size; decay outside of it
# treats both weights equally.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
for ax, step, decay, name in (
    (axes[0], adam_step, 0.01, "through Adam"),
    (axes[1], adamw_step, 1.0, "beside it (AdamW)"),
):
    w, state, trace = np.ones(2), None, []
    for _ in range(1500):
        g = rng.normal(size=2) * [1.0, 0.01]
        w, state = step(w, g, state, learning_rate=1e-3, weight_decay=decay)
        trace.append(w)
    ax.plot(np.array(trace), label=["gradients of size 1", "of size 0.01"])
    ax.set(xlabel="step", title=f"Weight decay {name}")
axes[0].set_ylabel("weight")
axes[0].legend()

# %%
# Lion: only the sign
# -------------------
# Adam and Lion on a parabola with noisy gradients. Far away both take steps of
# the learning rate. Near the minimum the noise is larger than the gradient:
# Adam's steps shrink, Lion's do not, so it needs a smaller rate and a schedule
# that ends near 0.

fig, ax = plt.subplots()
draws = rng.normal(size=600)
for name, step, rates in (
    ("Adam", adam_step, np.full(600, 0.02)),
    ("Lion", lion_step, np.full(600, 0.02)),
    ("Lion, falling rate", lion_step, np.linspace(0.02, 0.0, 600)),
):
    p, state, path = 3.0, None, []
    for draw, rate in zip(draws, rates, strict=True):
        p, state = step(p, p + draw, state, learning_rate=rate)
        path.append(float(p))
    ax.plot(path, lw=1.4, label=name)
ax.axhline(0, color="0.5", lw=0.8, ls="--")
ax.set(xlabel="step", ylabel="parameter", title="Adam and Lion on a parabola")
ax.legend()

# %%
# Adafactor: a row times a column
# -------------------------------
# Gradients of a layer with 16 inputs of different sizes, and 12 errors of
# different sizes. Adam keeps the mean square of each weight's gradient.
# Adafactor keeps the means of rows and columns, whose product is close: the
# roots, by which a step is divided, differ by less than a third.

inputs, errors = np.geomspace(0.1, 10, 16), np.geomspace(3, 0.1, 12)
w, state, square = np.ones((12, 16)), None, np.zeros((12, 16))
for _ in range(200):
    g = np.outer(errors * rng.normal(size=12), inputs * rng.normal(size=16))
    w, state = adafactor_step(w, g, state, learning_rate=1e-3, beta2_decay=-1.0)
    square += g**2 / 200
product = state.row * state.column / state.row.mean()
fig, axes = plt.subplots(1, 3, figsize=(9, 2.8))
panels = (
    ("192 squares (log10)", np.log10(square), "viridis", (-4, 3)),
    ("of 12 + 16 numbers (log10)", np.log10(product), "viridis", (-4, 3)),
    ("quotient of the roots", np.sqrt(square / product), "RdBu_r", (0.7, 1.3)),
)
for ax, (title, values, cmap, (low, high)) in zip(axes, panels, strict=True):
    image = ax.imshow(values, cmap=cmap, vmin=low, vmax=high)
    ax.set(title=title, xlabel="input", yticks=[0, 5, 10])
    fig.colorbar(image, shrink=0.6)
axes[0].set_ylabel("output")
