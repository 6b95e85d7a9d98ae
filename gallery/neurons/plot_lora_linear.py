r"""
LoRA: how much a low rank can change
====================================

How good is the best correction of a given rank, and how near does training
come to it?
"""

# %%
# Rank and error
# --------------
# A layer of 32 by 32 weights has to change by a matrix whose singular values
# fall slowly or fast. Lines: the error of the best correction of each rank,
# from the singular values. Circles: the error after gradient descent on the two
# factors of :func:`~dlref.neurons.lora_linear`, from B = 0.

import matplotlib.pyplot as plt
import numpy as np

from dlref.neurons import lora_linear, lora_linear_vjp

rng = np.random.default_rng(0)
D, ranks = 32, np.array([1, 2, 4, 8, 16])
U, V = (np.linalg.qr(rng.normal(size=(D, D)))[0] for _ in range(2))
eye = np.eye(D)  # one input for each channel: the outputs are the weights


def trained(change, r, steps=1500, rate=0.4):
    """Fit the factors to a change of the weights; return the relative error."""
    a, b = rng.normal(size=(r, D)) / np.sqrt(D), np.zeros((D, r))
    frozen = np.zeros((D, D))
    for _ in range(steps):
        error = lora_linear(eye, frozen, a, b) - change.T
        _, da, db = lora_linear_vjp(error, eye, frozen, a, b)
        a, b = a - rate * da, b - rate * db
    return np.linalg.norm(error) / np.linalg.norm(change)


fig, ax = plt.subplots()
for k, fall in enumerate((0.98, 0.8, 0.5)):
    s = fall ** np.arange(D)
    left = [np.linalg.norm(s[r:]) / np.linalg.norm(s) for r in range(1, D)]
    ax.plot(np.arange(1, D), left, color=f"C{k}", label=f"{fall}")
    found = [trained((U * s) @ V.T, r) for r in ranks]
    ax.plot(ranks, found, "o", color=f"C{k}")
ax.set(xlabel="rank r", ylabel="relative error", yscale="log", ylim=(1e-5, 1.5))
ax.set_title("Best correction (lines) and trained one (circles)")
ax.legend(title="ratio of singular values")
