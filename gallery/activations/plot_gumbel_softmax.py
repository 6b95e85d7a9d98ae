r"""
Gumbel-softmax
==============

What does the temperature do to samples, and to the gradient that comes through
them? Random vectors for three temperatures, and the gradient's size.
"""

# %%
# Samples of three classes
# ------------------------
# The classes have the probabilities 1/2, 1/3 and 1/6. At a small temperature
# the samples are near the corners, so nearly one-hot; at a large one all are
# near the middle. The color of a sample is its largest class, whose
# frequencies, below each triangle, are the same in all.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import gumbel_softmax, gumbel_softmax_vjp

rng = np.random.default_rng(0)
logits = np.tile(np.log([3.0, 2.0, 1.0]), (600, 1))
noise = rng.gumbel(size=logits.shape)
to_plane = np.array([[1.0, -0.5, -0.5], [0.0, np.sqrt(0.75), -np.sqrt(0.75)]])
fig, axes = plt.subplots(1, 3, figsize=(9, 3.1), sharex=True, sharey=True)
for ax, t in zip(axes, (0.2, 1.0, 5.0), strict=True):
    y = gumbel_softmax(logits, noise, temperature=t)
    drawn = gumbel_softmax(logits, noise, temperature=t, hard=True).argmax(-1)
    ax.plot(*to_plane[:, [0, 1, 2, 0]], color="black", lw=1)
    for k in range(3):
        ax.plot(*(y[drawn == k] @ to_plane.T).T, ".", ms=3)
    shares = np.bincount(drawn, minlength=3) / len(drawn)
    ax.set(title=f"T = {t:g}", aspect="equal", xticks=[], yticks=[])
    ax.set_xlabel(" ".join(f"{share:.2f}" for share in shares))
fig.alt_text = (
    "Samples in a triangle: at its corners for T = 0.2, spread for T = 1, in "
    "the middle for T = 5. Below: how often each class is the largest."
)

# %%
# The size of the gradient
# ------------------------
# The gradient of the first output with respect to the logits, over 600 samples.
# Its mean falls as T grows beyond 1, since it is divided by T. Its spread is
# largest for small T, where most samples have no gradient and a few have a
# large one.

temperature = np.geomspace(0.05, 20, 40)
u = np.tile([1.0, 0.0, 0.0], (600, 1))
grads = np.stack(
    [
        gumbel_softmax_vjp(u, logits, noise, temperature=t)[0]
        for t in temperature
    ]
)
fig, ax = plt.subplots()
ax.loglog(temperature, grads[:, :, 0].mean(1), label="mean")
ax.loglog(temperature, grads[:, :, 0].std(1), "--", label="standard deviation")
ax.set(
    xlabel="temperature T",
    ylabel="gradient of the first logit",
    title="Mean and spread of the gradient",
)
ax.legend()
