r"""
RMS normalization keeps the mean
================================

What does RMS norm change that layer norm does not, and the other way round?
"""

# %%
# On two features
# ---------------
# RMS norm moves each point along its ray to the circle; layer norm, of two
# features, leaves only the sign of their difference.

import matplotlib.pyplot as plt
import numpy as np

from dlref.normalization import layer_norm, rms_norm

rng = np.random.default_rng(0)
x = rng.normal(size=(40, 2)) + np.array([1.0, 0.3])
fig, axes = plt.subplots(1, 2, figsize=(7, 3.6), sharex=True, sharey=True)
for ax, f, title in zip(
    axes, [rms_norm, layer_norm], ["RMS norm", "layer norm"], strict=True
):
    y = f(x)
    ax.plot(
        np.stack([x[:, 0], y[:, 0]]),
        np.stack([x[:, 1], y[:, 1]]),
        color="0.8",
        lw=1,
    )
    ax.plot(*x.T, ".", label="input")
    ax.plot(*y.T, "o", label="output")
    ax.set(title=title, xlabel="$x_1$", aspect="equal")
axes[0].set_ylabel("$x_2$")
axes[0].legend()
fig.alt_text = (
    "Points and where they move. RMS norm: along rays onto a circle. Layer "
    "norm: onto the two points (1, -1) and (-1, 1)."
)

# %%
# A mean that grows
# -----------------
# Add the same number to all 256 features. Layer norm is unaffected; after RMS
# norm the differences between the features fade, as the mean takes up the whole
# norm.

row = rng.normal(size=256)
means = np.linspace(0, 10, 50)
fig, ax = plt.subplots()
for f, name in ((rms_norm, "RMS norm"), (layer_norm, "layer norm")):
    ax.plot(means, [f(row + m).std() for m in means], label=name)
ax.set(
    title="Deviation of the output",
    xlabel="mean of the input",
    ylabel="standard deviation",
)
ax.legend()

# %%
# Weight norm: a step only lengthens the direction
# ------------------------------------------------
# The gradient of a direction is tangent to its circle, so that a step of plain
# descent leaves the circle. The weight of length 1 looks for the star. The
# larger the learning rate, the longer the direction becomes, and later steps
# turn it less.

from dlref.normalization import weight_norm, weight_norm_vjp

target = np.array([[-0.6, 0.8]])
fig, axes = plt.subplots(1, 2, figsize=(7, 3.3))
for rate in (0.5, 2, 6):
    v, path = np.array([[1.0, 0.0]]), []
    for _ in range(25):
        path.append(v[0])
        v = (
            v
            - rate
            * weight_norm_vjp(weight_norm(v, [1.0]) - target, v, [1.0])[0]
        )
    axes[0].plot(*np.array(path).T, ".-", lw=1.2, label=f"rate {rate:g}")
    axes[1].plot(np.linalg.norm(path, axis=1), label=f"rate {rate:g}")
circle = np.linspace(0, 2 * np.pi, 100)
axes[0].plot(np.cos(circle), np.sin(circle), color="0.6", lw=0.8)
axes[0].plot(*target.T, "*", color="0.13", ms=12)
axes[0].set(aspect="equal", xlabel="$v_1$", ylabel="$v_2$", title="Direction v")
axes[1].set(xlabel="step", ylabel="length of v", title="It never gets shorter")
axes[1].legend()
