r"""
Gradient clipping
=================

What does clipping do to the direction of a gradient? Clipping by value rotates
it towards a diagonal, clipping by norm leaves it.
"""

# %%
# By norm and by value
# --------------------
# A circle of gradients of length 3. By norm they end on the circle of
# radius 1, each on its own ray. By value they end on the square, most of
# them in its corners. The right panel shows by how much the direction was
# rotated.

import matplotlib.pyplot as plt
import numpy as np

from dlref.training import clip_by_norm, clip_by_value

angles = np.linspace(0, 2 * np.pi, 49)
fig, axes = plt.subplots(1, 3, figsize=(9.5, 3.2))
for ax, clip, name in zip(
    axes, (clip_by_norm, clip_by_value), ("norm", "value"), strict=False
):
    for angle in angles:
        g = 3 * np.array([np.cos(angle), np.sin(angle)])
        ax.plot(*np.stack([g, clip(g, 1.0)], axis=1), color="0.75", lw=0.8)
        ax.plot(*g, ".", color="C0", ms=4)
        ax.plot(*clip(g, 1.0), ".", color="C1", ms=6)
    ax.set(title=f"Clipped by {name}", aspect="equal", xlabel="$g_1$")
axes[0].set_ylabel("$g_2$")

fine = np.linspace(0, 90, 361)
for clip, name in ((clip_by_norm, "norm"), (clip_by_value, "value")):
    rotated = []
    for angle in np.radians(fine):
        g = clip(3 * np.array([np.cos(angle), np.sin(angle)]), 1.0)
        rotated.append(np.degrees(np.arctan2(g[1], g[0]) - angle))
    axes[2].plot(fine, rotated, label=f"by {name}")
axes[2].set(
    xlabel="direction (degrees)",
    ylabel="rotated by (degrees)",
    title="Change of direction",
)
axes[2].legend()

# %%
# More parameters, larger angles
# ------------------------------
# The angle between a random gradient and its clipped version, for limits
# from harmless to tight (in units of the root mean square of its
# elements). In the end only signs are left, at an angle of 37 degrees for
# normal elements and of more for elements with heavier tails.

rng = np.random.default_rng(0)
limits = np.geomspace(0.01, 10, 60)
fig, ax = plt.subplots()
for name, g in {
    "normal": rng.normal(size=20000),
    "Laplace": rng.laplace(size=20000),
    "Student, 3 degrees": rng.standard_t(3, size=20000),
}.items():
    rms = np.sqrt(np.mean(g**2))
    cut = [clip_by_value(g, limit * rms) for limit in limits]
    cosines = [c @ g / np.linalg.norm(c) / np.linalg.norm(g) for c in cut]
    ax.semilogx(
        limits, np.degrees(np.arccos(np.minimum(cosines, 1))), label=name
    )
ax.axhline(0, color="0.5", lw=1, ls="--", label="any, by norm")
ax.set(
    xlabel="limit / root mean square",
    ylabel="angle (degrees)",
    title="Angle between a gradient and its clipped version",
)
ax.legend()
