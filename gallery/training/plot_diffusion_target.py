r"""
Targets of diffusion models
===========================

What do the four targets of a diffusion model weigh, and where does each fail?
"""

# %%
# The weight of a time
# --------------------
# An error of the data counts with another factor in each target. The noise
# ignores the data where there is noise alone; the data does not care about
# details where there is hardly any noise.

import itertools

import matplotlib.pyplot as plt
import numpy as np

from dlref.training import diffusion_target

t = np.linspace(0.02, 0.98, 200)
alpha, sigma = 1 - t, t
fig, ax = plt.subplots()
for kind in ("noise", "data", "velocity", "flow"):
    # an error of 1 of the data, and the noise that it leaves for the mixture
    error = diffusion_target(
        np.ones(t.size), -alpha / sigma, alpha, sigma, kind=kind
    )
    ax.semilogy(t, error**2, label=kind)
ax.set(
    title="Weight of the squared error of the data",
    xlabel="time, from data to noise",
)
ax.legend()

# %%
# From noise to data
# ------------------
# The best flow for data at −1 and 1, followed from noise at the right to data
# at the left. The paths are curved at first, where the mean of both is the best
# guess, and straight at the end.

rng = np.random.default_rng(0)


def best_flow(z, t):
    """Return the mean of noise - x, given the mixture z, for x at -1 or 1."""
    x = np.tanh((1 - t) * z / t**2)
    return (z - (1 - t) * x) / t - x


times = np.linspace(1, 0.01, 200)
fig, ax = plt.subplots()
z = rng.normal(size=30)
path = [z]
for now, then in itertools.pairwise(times):
    z = z + (then - now) * best_flow(z, now)
    path.append(z)
ax.plot(times, path, color="C0", lw=0.8)
ax.set(
    title="Paths of the flow",
    xlabel="time, from data to noise",
    ylabel="mixture",
)
