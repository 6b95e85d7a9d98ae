r"""
Log-softmax
===========

How many digits does a log-probability keep? The logarithm of softmax, the
subtraction of log-sum-exp, and dlref, on a row that becomes more confident.
"""

# %%
# Confident rows
# --------------
# Two scores, x and 0. The exact log-probability of the first is
# :math:`-\log(1 + e^{-x})`. Taking the logarithm of a probability near 1
# leaves nothing; so does subtracting two numbers near x.

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import log_softmax, log_softmax_jacobian, softmax

x = np.linspace(0, 60, 601)
rows = np.stack([x, np.zeros_like(x)], axis=-1)
exact = -np.log1p(np.exp(-x.astype(np.longdouble)))
unit = np.spacing(abs(exact.astype(float)))
naive = np.log(np.exp(rows).sum(-1))
fig, ax = plt.subplots()
for label, value in [
    ("log(softmax)", np.log(softmax(rows)[:, 0])),
    ("x - log(sum(exp))", x - naive),
    ("dlref", log_softmax(rows)[:, 0]),
]:
    error = abs((value - exact) / unit).astype(float)
    ax.semilogy(x, np.maximum(error, 1e-2), label=label)
ax.set(xlabel="x", ylabel="error, ULP", title="Error of the log-probability")
ax.legend()

# %%
# The Jacobian
# ------------
# Not symmetric: all rows are the identity's, minus the same probabilities.

fig, axes = plt.subplots(1, 3, figsize=(8, 2.8))
scores = np.array([1.0, 2.0, 4.0])
for ax, t in zip(axes, [4.0, 1.0, 0.25], strict=True):
    jac = log_softmax_jacobian(scores / t)
    image = ax.imshow(jac, vmin=-1, vmax=1, cmap="RdBu_r")
    ax.set(title=f"T = {t:g}", xticks=[], yticks=[])
fig.colorbar(image, ax=axes, label="derivative of output i by score j")
fig.alt_text = "Three Jacobians of log-softmax; they do not fade as T falls."
