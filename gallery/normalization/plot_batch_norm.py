r"""
Batch normalization: its benefit
================================

How large is the gradient in each of 50 layers, for good and bad weights, with
and without normalization?
"""

# %%
# Networks of 50 layers
# ---------------------
# Rows are activations, columns normalizations, colors initializations. Each
# line is the norm of the gradient of the values, layer by layer, in a network
# of width 100 with a batch of 64. Without normalization a line is level only
# where the variance fits the activation: He's for ReLU, Glorot's and LeCun's
# for tanh and SELU. (These two agree where all layers have the same width.)
# With it all lines are nearly one, since the scale of the weights has no effect
# any more; only the random draws differ. The batch norm of ReLU shows the
# price: gradients grow towards the input, exponentially in depth.

import matplotlib.pyplot as plt
import numpy as np

from dlref import activations
from dlref.normalization import (
    batch_norm,
    batch_norm_vjp,
    layer_norm,
    layer_norm_vjp,
)
from dlref.propagation import glorot_normal, he_normal, lecun_normal

rng = np.random.default_rng(0)
n, depth, batch = 100, 50, 64
inits = {
    "bad, σ = 0.05": lambda shape: rng.normal(0, 0.05, shape),
    "Glorot": lambda shape: glorot_normal(rng, shape),
    "He": lambda shape: he_normal(rng, shape),
    "LeCun": lambda shape: lecun_normal(rng, shape),
}
norms = {
    "no normalization": (lambda z: z, lambda u, _z: u),
    "batch norm": (batch_norm, batch_norm_vjp),
    "layer norm": (layer_norm, layer_norm_vjp),
}


def gradient_norms(name, draw, norm, norm_vjp):
    """Norm of dL/dh before each layer, for a random cotangent of the output."""
    f, f_vjp = getattr(activations, name), getattr(activations, f"{name}_vjp")
    h, tape = rng.normal(size=(batch, n)), []
    for _ in range(depth):
        W = draw((n, n))
        z = h @ W.T
        a = norm(z)
        tape.append((W, z, a))
        h = f(a)
    dh, sizes = rng.normal(size=h.shape) / batch, []
    for W, z, a in reversed(tape):
        dz = norm_vjp(f_vjp(dh, a), z)
        dh = dz @ W
        sizes.append(np.linalg.norm(dh))
    return sizes[::-1]


kinds = ["tanh", "relu", "selu"]
fig, axes = plt.subplots(3, 3, figsize=(9, 7.5), sharex=True, sharey=True)
for row, kind in zip(axes, kinds, strict=True):
    for ax, (title, pair) in zip(row, norms.items(), strict=True):
        for name, draw in inits.items():
            sizes = np.maximum(gradient_norms(kind, draw, *pair), 1e-30)
            ax.semilogy(np.arange(1, depth + 1), sizes, label=name, lw=1.5)
        ax.set(title=f"{kind}, {title}", ylim=(1e-25, 1e12))
for ax in axes[-1]:
    ax.set_xlabel("layer")
for ax in axes[:, 0]:
    ax.set_ylabel("norm of the gradient")
axes[0, 0].legend(loc="lower right")

# %%
# The running statistics
# ----------------------
# Batches of 32 from a channel with mean 3. The smaller the momentum, the
# smoother and the slower.

from dlref.normalization import batch_norm_update

fig, ax = plt.subplots()
for momentum in (0.5, 0.1, 0.02):
    running, trace = 0.0, []
    for _ in range(100):
        running = batch_norm_update(
            running, rng.normal(3, 2, 32).mean(), momentum=momentum
        )
        trace.append(running)
    ax.plot(trace, label=f"momentum {momentum}")
ax.set(title="Running mean", xlabel="batch", ylabel="running mean")
ax.legend()
