r"""
KL divergence
=============

How far is a prediction p from the true distribution q, and is it the same
with p and q exchanged? The divergence is zero only where they agree, and it is
not symmetric.
"""

# %%
# Both directions
# ---------------
# Three classes with :math:`q = (0.6, 0.3, 0.1)`. The simplex of all
# :math:`p` is drawn over its first two coordinates; the dot is :math:`q`.
# A prediction p near 0 for a class that occurs (left, near the edges) costs
# without bound. In the other direction the divergence at the edges is finite.

import matplotlib.pyplot as plt
import numpy as np

from dlref.losses import kl_divergence

q = np.array([0.6, 0.3, 0.1])
side = np.linspace(0.002, 0.998, 250)
p1, p2 = np.meshgrid(side, side)
inside = p1 + p2 < 0.999
p = np.stack([p1, p2, 1 - p1 - p2], axis=-1)[inside]
both = {
    r"$\sum_c q_c \log (q_c / p_c)$": (np.log(p), np.broadcast_to(q, p.shape)),
    r"$\sum_c p_c \log (p_c / q_c)$": (np.log(np.broadcast_to(q, p.shape)), p),
}

fig, axes = plt.subplots(1, 2, figsize=(9, 3.7), sharey=True)
levels = [0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
for ax, (title, (log_p, true)) in zip(axes, both.items(), strict=True):
    values = np.full(p1.shape, np.nan)
    values[inside] = kl_divergence(log_p, true, reduction="none")
    image = ax.contourf(p1, p2, values, levels, cmap="viridis_r", extend="max")
    ax.plot(*q[:2], "o", color="C1")
    ax.set(title=title, xlabel="$p_1$", aspect="equal")
axes[0].set_ylabel("$p_2$")
fig.colorbar(image, ax=axes, label="divergence (nats)")
