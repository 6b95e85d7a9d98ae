r"""
Three bugs in an attention backward
===================================

Someone's backward pass of attention runs, and its loss goes down. It has three
mistakes; ten lines find them.
"""

# %%
# The kernel
# ----------
# Forward it is right. Backward, one mistake belongs to each gradient: a scale
# that is missing, a sum that is missing, an accumulation that runs twice.

import matplotlib.pyplot as plt
import numpy as np

from dlref.attention import scaled_dot_product_attention as attention
from dlref.check import check_all, check_vjp, random_inputs


def t(a):
    """Exchange the last two axes."""
    return np.swapaxes(a, -1, -2)


def weights(q, k):
    """Return the softmax of the scores."""
    scores = q @ t(k) / np.sqrt(q.shape[-1], dtype=q.dtype)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def backward(dout, q, k, v, fixed=()):
    """Return the gradients of q, k and v, with three mistakes or fewer."""
    p = weights(q, k)
    dp = dout @ t(v)
    scale = q.dtype.type(q.shape[-1] ** -0.5)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    dq = (ds if "q" in fixed else ds / scale) @ k
    dk = t(ds if "k" in fixed else p * dp * scale) @ q
    dv = t(p) @ dout * (1 if "v" in fixed else 2)
    return dq, dk, dv


# %%
# The ten lines
# -------------
# The verdict lists every gradient that is wrong, and the cause.

rng = np.random.default_rng(0)
shapes = [(2, 4, 16, 8), (2, 4, 16, 8), (2, 4, 16, 8)]
q, k, v = random_inputs(attention, shapes, np.float32, rng)
dout = rng.normal(size=v.shape).astype(np.float32)
verdict = check_vjp(backward, attention, dout, q, k, v)
for output in verdict.outputs:
    print(f"{output.name}: {output.cause}")

# %%
# Fixed one by one
# ----------------

mended = ["", "q", "qk", "qkv"]
fig, ax = plt.subplots()
for fixed in mended:
    verdict = check_vjp(
        lambda *a, fixed=fixed: backward(*a, fixed=fixed),
        attention,
        *(dout, q, k, v),
    )
    ratios = [one.error / one.allowed for one in verdict.outputs]
    ax.semilogy(["q", "k", "v"], ratios, "o-", label=fixed or "none")
ax.axhline(1, color="0.5", lw=0.8)
ax.text(0, 1.2, "allowed", size=8)
ax.set(xlabel="gradient of", ylabel="largest error / allowed")
ax.set_title("Gradients of attention, by what has been mended")
ax.legend(title="mended")

# %%
# Over the hard inputs
# --------------------
# A kernel that is right on random numbers may still be wrong: this one has no
# masks, grouped heads or soft caps. The report says so case by case, and names
# all options of the function that the kernel does not take.


def whole(dout, q, k, v):
    """Call the fixed kernel."""
    return backward(dout, q, k, v, fixed="qkv")


print(check_all(None, attention, vjp=whole))
