r"""
Gradient of a maximum
=====================

What is the slope of a maximum where both operands are equal? There is none,
but there is a set of candidates, and one of them is returned.
"""

# %%
# Routing
# -------
# Contours of :math:`\max(w, x)` with its gradient
# :math:`(\partial y / \partial w, \partial y / \partial x)`. Away from the
# dashed line the gradient points at the larger operand; on the line it is
# :math:`(\frac12, \frac12)`, shared.

import matplotlib.pyplot as plt
import numpy as np

from dlref.calculus import maximum_vjp, minimum_vjp

grid = np.linspace(-2, 2, 101)
W, X = np.meshgrid(grid, grid)
coarse = np.linspace(-1.6, 1.6, 5)
w, x = np.meshgrid(coarse, coarse)

fig, axes = plt.subplots(1, 2, figsize=(8.5, 4), sharey=True)
for ax, f, vjp, name in (
    (axes[0], np.maximum, maximum_vjp, "max"),
    (axes[1], np.minimum, minimum_vjp, "min"),
):
    ax.contour(W, X, f(W, X), levels=np.arange(-2, 2.1, 0.5), linewidths=1)
    ax.plot([-2, 2], [-2, 2], "--", color="0.5")
    dw, dx = vjp(np.ones(w.shape), w, x)
    ax.quiver(
        w, x, dw, dx, angles="xy", scale_units="xy", scale=2.2, width=0.006
    )
    ax.set(title=rf"$\{name}(w, x)$", xlabel="$w$", aspect="equal")
axes[0].set_ylabel("$x$")
fig.alt_text = "Contours of maximum and minimum with gradient arrows."

# %%
# Subgradients
# ------------
# Along :math:`w - x` the maximum has a kink. Every line through the kink that
# stays below the graph has a slope in :math:`[0, 1]` in :math:`w`: a
# subgradient. dlref, PyTorch and JAX return the one in the middle.

t = np.linspace(-1, 1, 201)
fig, ax = plt.subplots()
ax.plot(t, np.maximum(t, 0), lw=2.5, label=r"$\max(w, x) - x$")
for slope in (0.0, 0.25, 0.75, 1.0):
    ax.plot(t, slope * t, lw=1, color="0.6")
(middle,) = [float(d) for d in maximum_vjp(1.0, 0.0, 0.0)][:1]
ax.plot(t, middle * t, "--", label=f"slope {middle:g}, returned")
ax.set(xlabel="$w - x$", ylabel="value", title="Subgradients at a tie")
ax.legend()
