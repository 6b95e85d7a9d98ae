r"""
Three bugs in an attention's backward pass
==========================================

A gradient is wrong. Which of its parts, and what did the kernel do instead?
"""

# %%
# Someone's backward pass
# -----------------------
# It looks right, runs, and the loss even falls for a while. Three things are
# wrong with it.

import matplotlib.pyplot as plt
import numpy as np

from dlref.attention import scaled_dot_product_attention as attend
from dlref.check import check_vjp

rng = np.random.default_rng(0)
dout, q, k, v = rng.normal(size=(4, 6, 8))


def backward(dout, q, k, v, is_causal, scale=1.0, tril=1, half=0.5):
    """Return (dq, dk, dv); the defaults are the mistakes."""
    s = scale * q @ k.T
    s = np.where(np.tri(*s.shape, tril), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = dout @ v.T
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    return scale * ds @ k, scale * ds.T @ q, half * p.T @ dout


# %%
# What the verdict says
# ---------------------
# All three gradients are off, in most elements. When several mistakes meet,
# none of them alone explains the result. So one is mended after the other,
# beginning with what all gradients share: first the scale, which
# :func:`~dlref.attention.scaled_dot_product_attention` puts at 1 / sqrt(E).

attempts = [
    {},
    {"scale": 8**-0.5},
    {"scale": 8**-0.5, "half": 1.0},
    {"scale": 8**-0.5, "half": 1.0, "tril": 0},
]
verdicts = []
for mended in attempts:

    def candidate(*args, mended=mended, **options):
        return backward(*args, **options, **mended)

    verdict = check_vjp(candidate, attend, dout, q, k, v, is_causal=True)
    verdicts.append(verdict)
    print(", ".join(mended) or "as it was", "->", verdict.ok)
    for cause in verdict.causes:
        print("   what comes out if", cause)

# %%
# With the scale right and the factor 1/2 gone, the last mistake has a name:
# the mask lets one more key through. Where dq is off shows it, too: the last
# query sees all keys under either mask, and its row alone is right.

right = backward(dout, q, k, v, True, **attempts[-1])
fig, axes = plt.subplots(1, 3, figsize=(9.5, 2.8))
for ax, i, name in zip(axes, range(3), ("dq", "dk", "dv"), strict=True):
    got = backward(dout, q, k, v, True, **attempts[2])[i]
    image = ax.imshow(abs(got - right[i]), cmap="magma")
    ax.set(title=f"error of {name}", xlabel="channel", ylabel="position")
    fig.colorbar(image, ax=ax)
