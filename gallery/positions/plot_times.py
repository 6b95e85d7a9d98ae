r"""
Times and points
================

What does a network see of a time step or of a coordinate? The channels of both
embeddings, and how alike two of them are.
"""

# %%
# Four conventions
# ----------------
# The same 1000 time steps. The order of sines and cosines differs, and the
# slowest frequency; a time from 0 to 1 that was not multiplied by 1000 gives
# channels that hardly change.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import fourier_features, timestep_embedding

t = np.arange(0, 1000, 4)
maps = {
    "DDPM": timestep_embedding(t, 64, shift=1.0),
    "Stable Diffusion": timestep_embedding(t, 64, cosine_first=True),
    "Flux, t / 1000": timestep_embedding(
        t / 1000, 64, cosine_first=True, scale=1000.0
    ),
    "not multiplied": timestep_embedding(t / 1000, 64, cosine_first=True),
}
fig, axes = plt.subplots(1, 4, figsize=(9, 3), sharey=True)
for ax, (title, y) in zip(axes, maps.items(), strict=True):
    ax.imshow(
        y,
        aspect="auto",
        extent=(0, 64, 1000, 0),
        cmap="RdBu_r",
        vmin=-1,
        vmax=1,
    )
    ax.set(title=title, xlabel="channel")
axes[0].set_ylabel("time step")
fig.alt_text = (
    "Four maps of 64 channels over 1000 steps: stripes that widen to the right "
    "in each half; the last one is nearly constant in time."
)

# %%
# Random Fourier features
# -----------------------
# The dot product of the features of two points, over their distance, for
# frequencies of three widths. The wider the distribution, the narrower the
# region of points that look alike. Dotted: the Gaussian that is its mean.

rng = np.random.default_rng(0)
x = np.linspace(-1, 1, 401)[:, None]
fig, ax = plt.subplots()
for k, width in enumerate((0.5, 1.0, 3.0)):
    f = width * rng.normal(size=(512, 1))
    y = fourier_features(x, f)
    ax.plot(x, y @ y[200] / 512, color=f"C{k}", label=f"width {width:g}")
    ax.plot(x, np.exp(-2 * (np.pi * width * x) ** 2), ":", color=f"C{k}")
ax.set(xlabel="distance", ylabel="dot product / M", title="Likeness")
ax.legend()
