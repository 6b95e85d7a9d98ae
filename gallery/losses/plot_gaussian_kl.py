r"""
Gaussian divergence
===================

How far is a Gaussian from the standard one, and where does the gradient pull
its mean and its variance?
"""

# %%
# The divergence and its gradient
# -------------------------------
# Contours of the divergence over mean and variance, with the direction of
# steepest descent. All arrows end at mean 0 and variance 1; narrow Gaussians
# (below) are widened slowly.

import matplotlib.pyplot as plt
import numpy as np

from dlref.losses import gaussian_kl, gaussian_kl_grad

mean, log_var = np.meshgrid(np.linspace(-3, 3, 121), np.linspace(-5, 2.5, 121))
rows = mean.reshape(-1, 1), log_var.reshape(-1, 1)
value = gaussian_kl(*rows, reduction="none").reshape(mean.shape)
few = mean[::10, ::10], log_var[::10, ::10]
dmean, dlog_var = gaussian_kl_grad(*few, reduction="sum")
fig, ax = plt.subplots()
lines = ax.contour(mean, log_var, value, levels=[0.1, 0.5, 1, 2, 3, 4, 6])
ax.clabel(lines, fontsize="small")
ax.quiver(*few, -dmean, -dlog_var, color="0.4", width=0.003)
ax.set(
    xlabel="mean",
    ylabel="logarithm of the variance",
    title="Divergence in nats",
)

# %%
# A code that carries information
# -------------------------------
# Each input has a code of its own. The divergence of a code is the price, in
# nats, of telling inputs apart: means far from 0 or small variances. Dashed:
# the standard Gaussian.

z = np.linspace(-4, 4, 401)
fig, ax = plt.subplots()
ax.plot(z, np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), "--", color="0.4")
for k, (m, v) in enumerate([(0, 0), (1, -1), (-1.5, -3), (2, -4)]):
    cost = gaussian_kl([float(m)], [float(v)])
    density = np.exp(-((z - m) ** 2) / np.exp(v) / 2 - v / 2)
    ax.plot(z, density / np.sqrt(2 * np.pi), color=f"C{k}", label=f"{cost:.2f}")
ax.set(xlabel="z", ylabel="density", title="Codes and their divergence")
ax.legend(title="nats")
