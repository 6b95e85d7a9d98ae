r"""
Length extrapolation
====================

Which scheme of positions learns best, and how good is each at positions that
training never reached?
"""

# %%
# One small model, six times: only the scheme differs. All of them see the same
# pieces of 32 characters from *Alice*, and are then read texts of 128. The
# table of learned positions has rows for all 128, but those from 32 on have
# never been trained.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dlref.activations import log_softmax
from dlref.training import adamw_step, cosine_schedule
from dlref.transformer import (
    LanguageModelConfig,
    init_language_model,
    language_model,
    language_model_loss_value_and_grad,
)

here = Path(__file__).parent if "__file__" in globals() else Path()
if not (here / "alice.txt").exists():
    msg = "Put alice.txt, which the page offers, beside the script."
    raise SystemExit(msg)
text = (here / "alice.txt").read_text()
characters = sorted(set(text))
tokens = np.array([characters.index(c) for c in text])
V, T, FAR, B, STEPS = len(characters), 32, 128, 16, 220
cut = len(tokens) * 9 // 10
held = tokens[cut:]
SCHEMES = ("learned", "sinusoidal", "rope", "alibi", "t5", "none")
pairs = np.full((V, V), 0.1)
np.add.at(pairs, (tokens[: cut - 1], tokens[1:cut]), 1)
pairs /= pairs.sum(1, keepdims=True)
single = np.bincount(tokens[:cut], minlength=V) + 1.0
UNIGRAM = -np.mean(np.log(single / single.sum())[held[1:]])
BIGRAM = -np.mean(np.log(pairs[held[:-1], held[1:]]))


def trained(scheme):
    """Train a model, and return its losses."""
    config = LanguageModelConfig(
        V, 48, 4, num_layers=2, positions=scheme, length=FAR, tied=False
    )
    rng = np.random.default_rng(0)
    params, state = init_language_model(rng, config, dtype=np.float32), None
    places = np.random.default_rng(1)
    trace = []
    for step in range(1, STEPS + 1):
        start = places.integers(0, cut - T, B)
        batch = tokens[start[:, None] + np.arange(T + 1)]
        loss, grads = language_model_loss_value_and_grad(batch, params, config)
        rate = cosine_schedule(step, peak=5e-3, warmup=20, steps=STEPS)
        params, state = adamw_step(
            params, grads, state, learning_rate=rate, betas=(0.9, 0.98)
        )
        trace.append(float(loss))
    return trace, params, config


def by_position(params, config):
    """Return the mean loss at each of 128 positions of held-out texts."""
    starts = np.random.default_rng(2).integers(0, len(held) - FAR - 1, 250)
    texts = held[starts[:, None] + np.arange(FAR + 1)]
    logp = log_softmax(language_model(texts[:, :-1], params, config))
    chosen = np.take_along_axis(logp, texts[:, 1:, None], -1)
    return -chosen[..., 0].mean(0, dtype=np.float64)


results = {}
for scheme in SCHEMES:
    trace, params, config = trained(scheme)
    results[scheme] = trace, by_position(params, config)

# %%
# Learning
# --------
# Rotations and ALiBi encode distance from the first step on, and get furthest.
# A table has to learn it. Even without any scheme the model keeps up with it: a
# causal mask tells it about places, too.

fig, ax = plt.subplots()
for k, (scheme, (trace, _)) in enumerate(results.items()):
    smooth = np.convolve(trace, np.ones(20) / 20, "valid")
    ax.plot(
        np.arange(20, STEPS + 1), smooth, lw=1.5, color=f"C{k}", label=scheme
    )
ax.axhline(BIGRAM, color="0.6", ls=":", lw=1)
ax.annotate("bigram", (STEPS, BIGRAM), ha="right", va="bottom", fontsize=9)
ax.set(
    title="Training on pieces of 32 characters",
    xlabel="step",
    ylabel="nats per character, mean of 20 steps",
    ylim=(1.9, 3.3),
)
ax.legend(ncols=2)

# %%
# Reading on
# ----------
# Beyond the dashed line no position was ever trained. Rotations fail worst,
# though they are defined at any position: their slow pairs reach angles that
# never occurred in training. The untrained rows of the learned table are noise
# to the model; sinusoids have values there, and the model little use for them.
# ALiBi is as good as before.

fig, ax = plt.subplots()
within, beyond = {}, {}
for k, (scheme, (_, losses)) in enumerate(results.items()):
    blocks = losses.reshape(-1, 8).mean(1)
    style = "o-" if k < 3 else "s--"
    ax.plot(
        np.arange(4, FAR, 8),
        blocks,
        style,
        ms=3,
        lw=1.5,
        color=f"C{k}",
        label=scheme,
    )
    within[scheme], beyond[scheme] = losses[8:T].mean(), losses[64:].mean()
ax.axvline(T, color="0.5", ls="--", lw=1)
ax.annotate(" length of training", (T, ax.get_ylim()[1]), va="top", fontsize=9)
ax.set(
    title="Loss on held-out text, by position",
    xlabel="position (characters)",
    ylabel="nats per character",
)
ax.legend(ncols=2)
print("scheme      8 to 32   64 to 128")
for scheme in SCHEMES:
    print(f"{scheme:12}{within[scheme]:.2f}      {beyond[scheme]:.2f}")
assert max(within["rope"], within["alibi"]) < BIGRAM
assert max(within.values()) < UNIGRAM
assert beyond["rope"] > within["rope"] + 0.1
assert beyond["learned"] > within["learned"] + 0.05
assert beyond["sinusoidal"] > within["sinusoidal"] + 0.05
assert beyond["alibi"] < within["alibi"] + 0.03
