r"""
Selective scan: the step size keeps or forgets
==============================================

How does the step size of a token decide what the state of Mamba remembers, and
how do a few rounds of pairs replace a loop over time?
"""

# %%
# A step size for each token
# --------------------------
# One channel with four rates. The input is noise, except for two marked tokens
# (dotted). Left: every token has the same step, and the marked inputs fade
# among the noise. Right: unmarked tokens have a step near 0, which hardly
# writes or forgets, and the state holds the marked inputs.

import matplotlib.pyplot as plt
import numpy as np

from dlref.recurrent import selective_scan

rng = np.random.default_rng(0)
T, rates = 60, -np.array([[0.1, 0.3, 1.0, 3.0]])
marked = np.zeros(T, bool)
marked[[10, 35]] = True
x = np.where(marked, 3.0, rng.normal(size=T))[:, None]
ones = np.ones((T, 4))


def states(delta):
    """Return the states of all steps: outputs that read one number each."""
    inputs = x, delta[:, None], rates, ones
    read = [selective_scan(*inputs, ones * unit)[0] for unit in np.eye(4)]
    return np.concatenate(read, axis=1)


fig, axes = plt.subplots(1, 2, figsize=(7, 3), sharey=True)
for ax, delta, title in (
    (axes[0], np.full(T, 0.5), "the same step for all"),
    (
        axes[1],
        np.where(marked, 0.5, 0.002),
        "a step near 0 for unmarked tokens",
    ),
):
    for rate, h in zip(-rates[0], states(delta).T, strict=True):
        ax.plot(h, label=f"rate {rate:g}")
    for t in np.flatnonzero(marked):
        ax.axvline(t, color="0.6", lw=1, ls=":")
    ax.set(title=title, xlabel="step t")
axes[0].set_ylabel("state")
axes[1].legend(fontsize="small")
fig.alt_text = "Equal steps: states fluctuate. Selected: they hold two inputs."

# %%
# A scan in rounds
# ----------------
# Each round combines the pair of a step with the pair 1, 2, 4, ... steps
# before. The picture shows how many inputs the state of each step contains
# after each round. After three rounds, all eight states are complete.

reach = np.ones((4, 8), int)
for k in range(3):
    reach[k + 1] = reach[k] + np.concatenate(
        [np.zeros(2**k, int), reach[k][: -(2**k)]]
    )
fig, ax = plt.subplots(figsize=(6, 2.6))
image = ax.imshow(reach, cmap="cividis")
for (k, t), n in np.ndenumerate(reach):
    ax.text(t, k, n, ha="center", va="center", color="w" if n < 5 else "k")
ax.set(
    xlabel="step t",
    ylabel="rounds",
    yticks=range(4),
    title="Inputs that a state contains",
)
fig.alt_text = (
    "The numbers double in each round until step t contains t + 1 inputs."
)
