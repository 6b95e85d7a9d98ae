r"""
Scans and their backward passes
===============================

Which outputs of a scan does an element reach, and how strongly? The gradient
comes back along the same entries.
"""

# %%
# Jacobians of scans
# ------------------
# Row :math:`i` shows which elements the output :math:`i` depends on, and how
# strongly. All three Jacobians are triangular: an element reaches its own
# output and all later ones. A sum has the slope 1 everywhere. A product with a
# zero as its third factor has slopes in that column only, once the zero has
# been passed. A log-sum-exp has a softmax in each row.

import matplotlib.pyplot as plt
import numpy as np

from dlref import calculus

x = {
    "cumsum": np.zeros(6),
    "cumprod": np.array([1.2, 0.8, 0.0, 1.1, 0.9, 1.2]),
    "cumlogsumexp": np.array([0.0, 1.0, -1.0, 0.5, 1.5, 0.0]),
}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for ax, (name, point) in zip(axes, x.items(), strict=True):
    vjp = getattr(calculus, f"{name}_vjp")
    jacobian = vjp(np.eye(6), np.broadcast_to(point, (6, 6)))
    mesh = ax.imshow(jacobian, cmap="RdBu_r", vmin=-1.2, vmax=1.2)
    ax.set(title=name, xlabel="element $j$")
axes[0].set_ylabel("output $i$")
fig.colorbar(mesh, ax=axes, label=r"$\partial y_i / \partial x_j$")
