r"""
Muon and its polynomial
=======================

How does a polynomial bring all singular values near 1, and what is it good for
in an optimizer?
"""

# %%
# Singular values by step
# -----------------------
# Each singular value follows the polynomial on its own. The steep coefficients
# of Muon lift small values quickly and then stay in a band from 0.68 to 1.13.
# The coefficients that converge to 1 are still far from it after five steps.

import matplotlib.pyplot as plt
import numpy as np

from dlref.training import adam_step, momentum_step, muon_step, newton_schulz

s = np.logspace(-3, 0, 400)
polynomials = {
    "Muon's coefficients": (3.4445, -4.7750, 2.0315),
    "coefficients that converge": (1.875, -1.25, 0.375),
}
fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
for ax, (name, (a, b, c)) in zip(axes, polynomials.items(), strict=True):
    value = s
    for k in range(1, 6):
        value = a * value + b * value**3 + c * value**5
        ax.semilogx(s, value, color=plt.cm.viridis(k / 6), label=f"step {k}")
    ax.axhspan(0.68, 1.13, color="0.5", alpha=0.2, lw=0)
    ax.set(title=name, xlabel="singular value before")
axes[0].set_ylabel("after")
axes[1].legend()

# %%
# The spectrum of a gradient
# --------------------------
# The gradient of a linear layer is a product of errors and inputs. Where few
# directions of the inputs are strong, few singular values are large, and plain
# descent learns these directions only.

rng = np.random.default_rng(0)
size = 32
scales = np.logspace(0, -2, size)
x = rng.normal(size=(512, size)) * scales
true = rng.normal(size=(size, size))


def value_and_grad(w):
    """Return the mean squared error of a linear layer, and its gradient."""
    error = x @ (w - true).T
    return np.sum(error**2) / len(x), 2 / len(x) * error.T @ x


gradient = value_and_grad(np.zeros((size, size)))[1]
fig, ax = plt.subplots()
for name, matrix in {
    "gradient / norm": gradient / np.linalg.norm(gradient),
    "step of Muon": newton_schulz(gradient),
}.items():
    values = np.linalg.svd(matrix, compute_uv=False)
    ax.semilogy(range(1, size + 1), values, "o-", ms=3, label=name)
ax.set(title="Singular values", xlabel="number")
ax.legend()

# %%
# Three optimizers
# ----------------
# The same layer, with a learning rate for each method that falls to 0 and was
# chosen for the least loss at the end. The inputs are rotated, so that no
# parameter belongs to one direction and Adam's scale for each parameter does
# not help. Muon brings all directions down at the same pace.

x = x @ np.linalg.qr(rng.normal(size=(size, size)))[0]
methods = {
    "momentum": (momentum_step, {}),
    "Adam": (adam_step, {}),
    "Muon": (muon_step, {"weight_decay": 0.0}),
}


def losses(step, rate, options, count=150):
    """Return the loss before each step."""
    w, state, path = np.zeros((size, size)), None, []
    for t in range(count):
        value, grad = value_and_grad(w)
        path.append(value)
        now = rate * (1 - t / count)
        w, state = step(w, grad, state, learning_rate=now, **options)
    return path


fig, ax = plt.subplots()
for name, (step, options) in methods.items():
    runs = {
        rate: losses(step, rate, options) for rate in np.logspace(-2.5, 0.5, 13)
    }
    best = min(runs, key=lambda rate: runs[rate][-1])
    ax.semilogy(runs[best], label=f"{name}, rate {best:.2g}")
ax.set(title="Loss of a linear layer", xlabel="step")
ax.legend()
