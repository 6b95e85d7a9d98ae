r"""
Pre-norm and post-norm
======================

How large is the residual stream after each block, and how large is the
gradient that gets back to it, with norms before and after the sub-layers?
"""

# %%
# Two stacks of 32 blocks, with freshly drawn weights and the same input. A
# pre-norm block adds to the stream and never normalizes it, so that it grows
# like the square root of the depth. A post-norm block ends in a norm.

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from dlref.transformer import (
    LanguageModelConfig,
    encoder_block,
    encoder_block_vjp,
    init_language_model,
)

LAYERS, D = 32, 64
rng = np.random.default_rng(0)
x0, u0 = rng.normal(size=(2, 4, 24, D))
post = LanguageModelConfig(
    8, D, 4, num_layers=LAYERS, norm_first=False, positions="none"
)
# drawn for post-norm, where no weights are made smaller: the same for both
blocks = init_language_model(np.random.default_rng(1), post).blocks


def sizes(norm_first):
    """Return the root mean square of stream and gradient after each block."""
    options = {"num_heads": 4, "norm_first": norm_first, "activation": "gelu"}
    stream = [x0]
    for block in blocks:
        stream.append(encoder_block(stream[-1], block, **options))
    gradient = [u0]
    for block, x in zip(blocks[::-1], stream[-2::-1], strict=True):
        gradient.append(encoder_block_vjp(gradient[-1], x, block, **options)[0])
    return [
        [np.sqrt(np.mean(a**2)) for a in arrays]
        for arrays in (stream, gradient[::-1])
    ]


fig, axes = plt.subplots(1, 2)
depth = np.arange(LAYERS + 1)
measured = {}
for first, name, marker in (
    (True, "pre-norm", "o-"),
    (False, "post-norm", "s-"),
):
    measured[name] = sizes(first)
    for ax, values in zip(axes, measured[name], strict=True):
        ax.plot(depth, values, marker, ms=3, label=name)
growth = measured["pre-norm"][0][-1] / np.sqrt(2 * LAYERS)
axes[0].plot(
    depth, growth * np.sqrt(2 * depth), ":", color="0.4", label="√depth"
)
axes[0].set(
    title="Residual stream", xlabel="after block", ylabel="root mean square"
)
axes[1].set(
    title="Gradient of the stream",
    xlabel="after block",
    ylabel="root mean square",
    yscale="log",
)
axes[0].legend()
fig.alt_text = (
    "Left: the stream of pre-norm blocks grows like the square root of depth, "
    "that of post-norm blocks stays at 1. Right: the gradient by depth."
)

# %%
# The contribution of a block
# ---------------------------
# The deeper a pre-norm block stands, the smaller its contribution is relative
# to the stream. Dividing the output matrices by the square root of the number
# of sub-layers, as :func:`~dlref.transformer.init_language_model` does, keeps
# the stream from growing, whatever the depth.

fig, ax = plt.subplots()
for layers in (8, 16, 32):
    config = replace(post, norm_first=True, num_layers=layers)
    params = init_language_model(np.random.default_rng(1), config)
    x, ratio = x0, []
    for block in params.blocks:
        y = encoder_block(
            x, block, num_heads=4, norm_first=True, activation="gelu"
        )
        ratio.append(np.linalg.norm(y - x) / np.linalg.norm(x))
        x = y
    ax.plot(
        np.arange(1, layers + 1), ratio, "o-", ms=3, label=f"{layers} blocks"
    )
ax.set(
    title="Change made by each block, with small output matrices",
    xlabel="block",
    ylabel="change / stream",
    ylim=(0, None),
)
ax.legend()
