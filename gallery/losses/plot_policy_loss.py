r"""
Losses of policies
==================

Where does the gradient of a clipped loss stop, and how much does a token of a
long answer count?
"""

# %%
# Gain and gradient over the ratio
# --------------------------------
# A good token is raised until its ratio is 1.2, a bad one is lowered until 0.8.
# On the other side nothing is clipped: there the gradient pulls a token back.
# CISPO clips the factor of the gradient and never stops. Between the limits,
# the gray band, PPO and CISPO agree.

import matplotlib.pyplot as plt
import numpy as np

from dlref.losses import policy_loss_grad

ratio = np.linspace(0.4, 1.8, 561)
log_p, old = np.log(ratio)[None], np.zeros((1, ratio.size))
fig, axes = plt.subplots(2, 2, figsize=(8, 5.2), sharex=True)
for column, advantage in zip(axes.T, (1.0, -1.0), strict=True):
    gain = np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
    word = "good" if advantage > 0 else "bad"
    column[0].plot(ratio, gain, color="C0")
    column[0].set(title=f"Gain of a {word} token", ylim=(-2, 2))
    for kind, style in (("ppo", "-"), ("cispo", "--")):
        slope = -ratio.size * policy_loss_grad(
            log_p, old, [[advantage]], kind=kind
        )
        column[1].plot(ratio, slope[0], style, label=kind.upper())
    column[1].set(title="Derivative", xlabel="ratio", ylim=(-2, 2))
    for ax in column:
        ax.axvspan(0.8, 1.2, color="0.9", lw=0)
        ax.axhline(0, color="0.6", lw=0.8)
axes[1, 0].legend()

# %%
# How much a token counts
# -----------------------
# Eight sequences, the longest of 512 tokens, before any step: how hard one
# token of each is pushed. The mean over the tokens of a sequence makes a token
# of a short answer count most; the other two treat all tokens alike.

lengths = 2 ** np.arange(2, 10)
mask = np.arange(512) < lengths[:, None]
zero, good = np.zeros(mask.shape), np.ones((len(lengths), 1))
fig, ax = plt.subplots()
for kind in ("grpo", "ppo", "dr_grpo"):
    push = -policy_loss_grad(zero, zero, good, kind=kind, mask=mask)[:, 0]
    ax.loglog(lengths, push, "o-", label=kind)
ax.set(
    title="Gradient of one token",
    xlabel="tokens of its sequence",
    ylabel="weight",
)
ax.legend()

# %%
# Several steps on one batch
# --------------------------
# Sixteen tokens, half of them good (blue, the others orange), and steps of
# gradient descent on the same batch. Without a clip the ratios run away; with
# it they stay near its limits, the gray band.

rng = np.random.default_rng(0)
weights = rng.normal(size=(16, 10)) / 3
advantage = np.where(np.arange(16) % 2, 1.0, -1.0)[None]
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True)
for ax, clip in zip(axes, (0.2, np.inf), strict=True):
    theta, history = np.zeros(10), []
    for _ in range(40):
        history.append(np.exp(weights @ theta))
        grad = policy_loss_grad(
            (weights @ theta)[None], np.zeros((1, 16)), advantage, clip=clip
        )
        theta = theta - 0.3 * grad[0] @ weights
    paths = np.array(history).T
    for k, path in enumerate(paths):
        ax.semilogy(path, color="C0" if k % 2 else "C1", lw=0.9)
    ax.axhspan(0.8, 1.2, color="0.9", lw=0)
    ax.set(title="No clip" if np.isinf(clip) else "Clip 0.2", xlabel="step")
axes[0].set_ylabel("ratio")
fig.alt_text = (
    "Ratios of sixteen tokens over 40 steps. With the clip they stay near the "
    "band from 0.8 to 1.2; without it those of good tokens keep rising."
)

# %%
# A ratio for each token, or one for the sequence
# -----------------------------------------------
# Eight tokens of one good answer, whose ratios differ. With a ratio for each
# token, two tokens are above the limit of 1.2, the dashed line, and are not
# pushed; each of the others is pushed by its ratio. With one ratio for the
# sequence, the geometric mean, all tokens are pushed alike, as long as the
# mean is below the limit. In the lower row one more token has risen far: the
# mean passes the limit, and no token is pushed.

ratios = np.array(
    [
        [0.7, 1.1, 1.5, 0.9, 1.3, 1.0, 0.8, 1.15],
        [0.7, 1.1, 1.5, 0.9, 1.3, 4.5, 0.8, 1.15],
    ]
)
fig, axes = plt.subplots(2, 2, figsize=(9, 5), sharex=True, sharey="col")
for (ratio, push), row in zip(axes, ratios, strict=True):
    token = np.arange(1, 9)
    ratio.bar(token, row, color="0.6")
    ratio.axhline(1.2, color="black", lw=0.8, ls="--")
    mean = np.exp(np.mean(np.log(row)))
    ratio.axhline(mean, color="C1")
    ratio.set(ylabel="ratio", title=f"geometric mean {mean:.2f}")
    for shift, level in ((-0.2, "token"), (0.2, "sequence")):
        gradient = policy_loss_grad(
            np.log(row)[None], np.zeros((1, 8)), [[1.0]], level=level
        )
        push.bar(token + shift, -8 * gradient[0], width=0.4, label=level)
    push.set(title="Gradient of each token", ylabel="push", ylim=(0, 1.6))
axes[0, 1].legend(title="level of the ratio", loc="upper center", ncols=2)
for ax in axes[1]:
    ax.set(xlabel="token", xticks=token)
fig.alt_text = (
    "Bars of eight ratios and of the gradients of their tokens, for two "
    "answers. With token ratios, tokens above 1.2 have no gradient. With a "
    "sequence ratio of 1.03 all have the same one, and with 1.24 none has."
)
