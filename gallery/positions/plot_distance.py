r"""
KERPLE and FIRE: learned functions of the distance
==================================================

How much does a distance cost if the price is a logarithm, a power, or a
learned function of the share of the text?
"""

# %%
# The factor of a weight
# ----------------------
# ALiBi multiplies a weight by an exponential of the distance, KERPLE by a power
# law or a stretched exponential. On logarithmic axes a power law is a line: it
# never forgets entirely.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import alibi_bias, fire_bias, kerple_bias

size = 4001
distance = np.arange(size)
fig, ax = plt.subplots()
for label, bias in (
    ("ALiBi, slope 1/16", alibi_bias(1 / 16, 1, size, q_offset=size - 1)),
    (
        "KERPLE, log, r₁ = 1, r₂ = 1",
        kerple_bias(1.0, 1.0, 1, size, q_offset=size - 1),
    ),
    (
        "KERPLE, log, r₁ = 2, r₂ = 0.1",
        kerple_bias(2.0, 0.1, 1, size, q_offset=size - 1),
    ),
    (
        "KERPLE, power, r₁ = 0.3, r₂ = 0.5",
        kerple_bias(0.3, 0.5, 1, size, kind="power", q_offset=size - 1),
    ),
):
    ax.loglog(distance + 1, np.exp(bias[0, ::-1]), label=label)
ax.set(xlabel="distance + 1", ylabel="factor of the weight", ylim=(1e-8, 1.5))
ax.set_title("Penalty of a distance")
ax.legend()

# %%
# A share of the text instead of a distance
# -----------------------------------------
# FIRE divides the logarithm of the distance by the logarithm of the query's
# position, at least the threshold of 64 (gray). The input of the network lies
# between 0 and 1 at any length, and the lines of equal input fan out: beyond
# the threshold the bias is not a function of the offset.

T = 256
fed = fire_bias([1.0], [0.0], [[1.0]], [0.0], 0.1, 64.0, T, T)[0]
fed = np.where(np.tri(T) > 0, fed, np.nan)
rng = np.random.default_rng(2)
w1, b1 = rng.normal(size=(2, 32))
learned = fire_bias(w1, b1, rng.normal(size=(1, 32)), [0.0], 0.1, 64.0, T, T)[0]
learned = np.where(np.tri(T) > 0, learned, np.nan)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6))
for ax, values, title in (
    (axes[0], fed, "input of the network"),
    (axes[1], learned, "bias of a random network"),
):
    image = ax.imshow(values)
    if title.startswith("input"):
        levels = [0.25, 0.5, 0.75, 0.9]
        ax.contour(values, levels=levels, colors="w", linewidths=0.8)
    ax.axhline(64, color="0.5", lw=0.8)
    ax.set(title=title, xlabel="key", ylabel="query")
    fig.colorbar(image, ax=ax)
