r"""
An encoder-decoder learns to reverse
====================================

Can an encoder-decoder learn to write a text backwards, and where does its
decoder look?
"""

# %%
# Texts of 8 symbols out of 10. The decoder begins with a start token and is to
# write the symbols in reverse order. Chance is log 10 = 2.30 nats.

import matplotlib.pyplot as plt
import numpy as np

from dlref.training import adamw_step
from dlref.transformer import (
    LanguageModelConfig,
    encoder_decoder_generate,
    encoder_decoder_model_loss_value_and_grad,
    encoder_decoder_weights,
    init_encoder_decoder_model,
)

N, SYMBOLS, STEPS = 8, 10, 200
config = LanguageModelConfig(
    1 + SYMBOLS, 32, 4, num_layers=1, d_ff=64, positions="learned", length=N + 1
)
rng = np.random.default_rng(0)
params, state = init_encoder_decoder_model(rng, config, dtype=np.float32), None


def pairs(rng, count):
    """Draw texts and targets: the start token 0 first."""
    source = rng.integers(1, 1 + SYMBOLS, (count, N))
    start = np.zeros((count, 1), int)
    return source, np.concatenate([start, source[:, ::-1]], axis=1)


losses, right = [], {}
fresh = pairs(np.random.default_rng(1), 200)
for step in range(STEPS + 1):
    if step % 20 == 0:
        written = encoder_decoder_generate(
            fresh[0], params, config, start=0, steps=N
        )
        right[step] = np.mean(np.all(written == fresh[1], axis=1))
    loss, grads = encoder_decoder_model_loss_value_and_grad(
        *pairs(rng, 64), params, config
    )
    rate = 5e-3 * min(1, (step + 1) / 30)
    params, state = adamw_step(
        params, grads, state, learning_rate=rate, betas=(0.9, 0.98)
    )
    losses.append(float(loss))
assert losses[-1] < 0.1 < np.log(SYMBOLS)
assert right[STEPS] > 0.9

fig, axes = plt.subplots(1, 2)
axes[0].plot(losses)
axes[0].axhline(np.log(SYMBOLS), color="0.6", ls=":", lw=1)
axes[0].annotate("chance", (STEPS, np.log(SYMBOLS)), ha="right", va="top")
axes[0].set(
    title="Loss", xlabel="step", ylabel="nats per symbol", ylim=(0, None)
)
axes[1].plot(list(right), list(right.values()), "o-", color="C1")
axes[1].set(
    title="Whole texts reversed without an error",
    xlabel="step",
    ylabel="share of fresh texts",
    ylim=(-0.02, 1.02),
)

# %%
# Where it looks
# --------------
# Cross-attention of the trained model for one text. Row t has the weights for
# writing symbol t, the mean of the four heads. The anti-diagonal is the
# algorithm.

source, target = fresh[0][:1], fresh[1][:1]
(weights,) = encoder_decoder_weights(source, target[:, :-1], params, config)
names = [chr(ord("A") + s - 1) for s in source[0]]
fig, axes = plt.subplots(1, 2, width_ratios=[1.25, 2], figsize=(7, 3.3))
image = axes[0].imshow(weights[0].mean(0), vmin=0, vmax=1)
axes[0].set(
    title="mean of the heads",
    xlabel="read",
    ylabel="written",
    xticks=range(N),
    yticks=range(N),
    xticklabels=names,
    yticklabels=names[::-1],
)
fig.colorbar(image, ax=axes[0], shrink=0.8, label="weight")
mean = weights[0].mean(0)
axes[1].plot(mean[:, ::-1].diagonal(), "o-", label="on the right symbol")
axes[1].plot(mean.max(1), "s:", label="largest weight")
axes[1].set(
    title="weight by place",
    xlabel="symbol written",
    ylabel="weight",
    ylim=(0, 1.02),
)
axes[1].legend(loc="lower left")
fig.alt_text = (
    "A map of weights with a bright anti-diagonal: the last symbol read is "
    "the first one written."
)
