r"""
Softmax
=======

What does the size of the scores do to probabilities and gradients? Temperature,
the Jacobian, and the gradient that a confident row lets pass.
"""

# %%
# Temperature
# -----------
# Dividing the scores by T takes the output from uniform (large T) and a
# one at the largest score (small T): the hardmax, dotted.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import hardmax, softmax, softmax_jacobian

x = np.array([1.0, 2.0, 4.0])
temperature = np.geomspace(0.1, 100, 200)
fig, ax = plt.subplots()
probabilities = softmax(x / temperature[:, None])
ax.semilogx(temperature, probabilities, label=[f"score {s:g}" for s in x])
ax.hlines(hardmax(x), 0.1, 0.3, color="gray", linestyle=":", label="hardmax")
ax.set(
    xlabel="temperature T", ylabel="probability", title="From hard to uniform"
)
ax.legend()

# %%
# The Jacobian
# ------------
# Symmetric, each row summing to zero. As T falls, all entries shrink: a
# saturated softmax passes no gradient.

fig, axes = plt.subplots(1, 3, figsize=(8, 2.8))
for ax, t in zip(axes, [4.0, 1.0, 0.25], strict=True):
    image = ax.imshow(
        softmax_jacobian(x / t), vmin=-0.25, vmax=0.25, cmap="RdBu_r"
    )
    ax.set(title=f"T = {t:g}", xticks=[], yticks=[])
fig.colorbar(image, ax=axes, label="derivative of output i by score j")
fig.alt_text = "Three 3 by 3 Jacobians of softmax that fade as T falls."

# %%
# How much gradient passes
# ------------------------
# The largest singular value of the Jacobian, for two classes and for ten,
# as the lead of the first score grows. It is largest where the first class
# has half of the probability, of ten at a lead of 2.2. From there on it decays
# exponentially.

lead = np.linspace(0, 20, 201)
fig, ax = plt.subplots()
for classes in (2, 10):
    scores = np.zeros((lead.size, classes))
    scores[:, 0] = lead
    size = np.linalg.norm(softmax_jacobian(scores), ord=2, axis=(-2, -1))
    ax.semilogy(lead, size, label=f"{classes} classes")
ax.set(
    xlabel="lead of the first score",
    ylabel="norm",
    title="Norm of the Jacobian",
)
ax.legend()
