r"""
Learning rate schedules
=======================

How does each schedule spend its steps? All rise at first; then one stays, one
stays until a short fall at the end, one falls along a cosine, and one falls
forever.
"""

# %%
# Four schedules
# --------------
# Peak 1, a warmup of 100 steps, and 2000 steps in all.

import matplotlib.pyplot as plt
import numpy as np

from dlref.training import (
    cosine_schedule,
    gradient_descent,
    inverse_sqrt_schedule,
    warmup_schedule,
    wsd_schedule,
)

t = np.arange(1, 2001)
fig, ax = plt.subplots()
ax.plot(t, warmup_schedule(t, peak=1, warmup=100), label="warmup")
ax.plot(
    t,
    cosine_schedule(t, peak=1, steps=2000, warmup=100, floor=0.1),
    label="cosine, floor 0.1",
)
ax.plot(
    t,
    wsd_schedule(t, peak=1, steps=2000, warmup=100, decay=400),
    label="WSD, a fifth of the steps for the fall",
)
ax.plot(t, inverse_sqrt_schedule(t, peak=1, warmup=100), label="inverse root")
ax.set(xlabel="step", ylabel="learning rate / peak", title="Learning rates")
ax.legend()

# %%
# Why the rate falls
# ------------------
# A parabola with a noisy gradient, like the gradient of a batch. With a
# constant rate the parameter keeps fluctuating around the minimum, the more the
# larger the rate is; with a falling one it converges. Mean over 400 runs.

noise = np.random.default_rng(0).normal(size=(2001, 400))
schedules = {
    "constant 0.3": lambda step: 0.3,
    "constant 0.03": lambda step: 0.03,
    "cosine from 0.3": lambda step: cosine_schedule(step, peak=0.3, steps=2000),
    "inverse root from 0.3": lambda s: inverse_sqrt_schedule(
        s, peak=0.3, warmup=20
    ),
}
fig, ax = plt.subplots()
for name, rate in schedules.items():
    draws, left = iter(noise), []

    def noisy(x, draws=draws):
        """Return the mean loss of the runs, and a gradient for each."""
        return np.mean(x**2) / 2, x + next(draws)

    gradient_descent(
        noisy,
        np.full(400, 5.0),
        learning_rate=rate,
        steps=2000,
        callback=lambda _step, value, _x, left=left: left.append(value),
    )
    ax.loglog(t, left, lw=1.5, label=name)
ax.set(xlabel="step", ylabel="mean loss", title="Descent with noisy gradients")
ax.legend()
