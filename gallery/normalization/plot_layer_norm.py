r"""
Layer normalization is a projection
===================================

Where do points end up when their rows are normalized, and which part of
a gradient gets back through?
"""

# %%
# Onto a circle
# -------------
# Three features: subtracting the mean projects onto the plane through the
# origin, orthogonal to (1, 1, 1); dividing by the standard deviation then
# puts all points on a circle of radius :math:`\sqrt 3` in it. The color of a
# point is its place on the circle.

import matplotlib.pyplot as plt
import numpy as np

from dlref.normalization import layer_norm, layer_norm_jacobian, layer_norm_vjp

rng = np.random.default_rng(3)
x = rng.normal(size=(60, 3)) * 1.2 + 0.8
centered = x - x.mean(1, keepdims=True)
y = layer_norm(x)

fig = plt.figure(figsize=(9, 3.6))
stages = {
    "input": x,
    "mean subtracted": centered,
    "divided by the standard deviation": y,
}
for k, (title, points) in enumerate(stages.items(), 1):
    ax = fig.add_subplot(1, 3, k, projection="3d")
    ax.scatter(
        *points.T,
        c=np.arctan2(y @ [1, -1, 0], y @ [1, 1, -2] / 3**0.5),
        cmap="twilight",
        s=14,
    )
    ax.plot(*np.outer([-2, 2], [1, 1, 1]).T, color="0.5", lw=1)
    ax.set(
        title=title,
        xlim=(-3, 3),
        ylim=(-3, 3),
        zlim=(-3, 3),
        xticks=[],
        yticks=[],
        zticks=[],
    )
    for number, axis in enumerate((ax.xaxis, ax.yaxis, ax.zaxis), 1):
        axis.set_rotate_label(False)
        axis.set_label_text(f"$x_{number}$")
        axis.labelpad = -13  # near the axis, since there are no numbers
    ax.view_init(20, 20)
fig.alt_text = (
    "Three stages in three dimensions: a cloud of points, the cloud flattened "
    "onto a plane orthogonal to the gray line (1, 1, 1), and all points on a "
    "circle in that plane."
)

# %%
# Two eigenvalues are zero
# ------------------------
# The Jacobian of a row of 16: of the gradient that arrives, the part along
# (1, ..., 1) and the part along the row itself are taken out.

row = rng.normal(size=16)
jac = layer_norm_jacobian(row, eps=0)
fig, axes = plt.subplots(1, 2, width_ratios=[1, 1.3])
limit = abs(jac).max()
image = axes[0].imshow(jac, cmap="RdBu_r", vmin=-limit, vmax=limit)
axes[0].set(title="Jacobian of a row", xlabel="input $j$", ylabel="output $i$")
fig.colorbar(image, ax=axes[0])
axes[1].plot(np.arange(1, 17), row.std() * np.linalg.eigvalsh(jac), "o")
axes[1].set(
    title="its eigenvalues, times the standard deviation",
    xlabel="number",
    ylabel="eigenvalue",
)

# %%
# Large inputs, small gradients
# -----------------------------
# The output does not change when the row is scaled, so the gradient shrinks as
# the row grows: their product is constant, as long as the variance of the row
# is large compared with ε.

scale = np.logspace(-4, 3, 60)
u = rng.normal(size=16)
fig, ax = plt.subplots()
for eps in (1e-5, 1e-3):
    sizes = [np.linalg.norm(layer_norm_vjp(u, c * row, eps=eps)) for c in scale]
    ax.loglog(scale, sizes, label=f"ε = {eps:g}")
ax.set(
    title="Gradient of a row, by its scale",
    xlabel="scale of the row",
    ylabel="norm of the gradient",
)
ax.legend()
