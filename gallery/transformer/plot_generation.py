r"""
Sampling and beam search
========================

What do temperature, top k, top p and min p leave of a distribution, and how
does the size of the nucleus follow the certainty of a model?
"""

# %%
# Four rules
# ----------
# What follows "th" in *Alice*? Pairs of characters counted in the text give
# the distribution; ``log`` of it serves as logits.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dlref.transformer import next_token_probabilities

here = Path(__file__).parent if "__file__" in globals() else Path()
if not (here / "alice.txt").exists():
    msg = "Put alice.txt, which the page offers, beside the script."
    raise SystemExit(msg)
text = (here / "alice.txt").read_text().lower()
letters = sorted(set(text) & set("abcdefghijklmnopqrstuvwxyz "))
V = len(letters)


def followers(context):
    """Count the characters that follow a context in the text."""
    counts = 0.05 + 1e-6 * np.arange(V)  # no ties
    for place in range(len(text) - len(context)):
        if text.startswith(context, place):
            following = text[place + len(context)]
            if following in letters:
                counts[letters.index(following)] += 1
    return counts / counts.sum()


p = followers("th")
order = np.argsort(-p)[:9]
rules = {
    "as it is": {},
    "temperature 0.5": {"temperature": 0.5},
    "temperature 2": {"temperature": 2.0},
    "top k = 3": {"top_k": 3},
    "top p = 0.9": {"top_p": 0.9},
    "temperature 0": {"temperature": 0},
}
fig, axes = plt.subplots(2, 3, sharex=True, sharey=True, figsize=(7, 4))
for ax, (title, options) in zip(axes.flat, rules.items(), strict=True):
    q = next_token_probabilities(np.log(p), **options)
    ax.bar(range(9), q[order])
    ax.set(title=title, xticks=range(9))
    ax.set_xticklabels([letters[i].replace(" ", "␣") for i in order])
fig.supxlabel("next character after “th”", fontsize=10)
fig.supylabel("probability", fontsize=10)

# %%
# The nucleus breathes
# --------------------
# For many contexts of the text: top p keeps few tokens where the model is sure
# and many where it is not. Top k keeps the same number in both.

contexts = sorted({text[i : i + 2] for i in range(0, 4000, 25)})
contexts = [c for c in contexts if set(c) <= set(letters)]
distributions = np.array([followers(c) for c in contexts])
logits = np.log(distributions)
entropy = -np.sum(distributions * logits, axis=1)
fig, ax = plt.subplots()
for name, options, marker in (
    ("top p = 0.9", {"top_p": 0.9}, "o"),
    ("top k = 5", {"top_k": 5}, "s"),
):
    kept = np.count_nonzero(next_token_probabilities(logits, **options), axis=1)
    ax.plot(entropy, kept, marker, ms=4, label=name)
ax.set(
    title=f"Characters that may be drawn, for {len(contexts)} contexts",
    xlabel="entropy of the distribution (nats)",
    ylabel="characters kept",
)
ax.legend()

# %%
# Min p at a high temperature
# ---------------------------
# A temperature above 1 makes texts more varied, and lifts the many characters
# that hardly ever follow. Top p admits them, because it collects a fixed
# probability; min p compares each character with the most probable one, so
# that fewer slips remain.

temperatures = np.linspace(0.5, 2.5, 21)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
for name, options in (
    ("top p = 0.9", {"top_p": 0.9}),
    ("min p = 0.1", {"min_p": 0.1}),
):
    kept, slips = [], []
    for temperature in temperatures:
        q = next_token_probabilities(logits, temperature=temperature, **options)
        kept.append(np.count_nonzero(q, axis=1).mean())
        slips.append(np.where(distributions < 0.01, q, 0).sum(axis=1).mean())
    axes[0].plot(temperatures, kept, label=name)
    axes[1].plot(temperatures, slips, label=name)
axes[0].set(
    xlabel=r"temperature $\tau$",
    ylabel="characters",
    title="Characters kept, mean of all contexts",
)
axes[1].set(
    xlabel=r"temperature $\tau$",
    ylabel="probability",
    title="Probability of those below 0.01 at temperature 1",
)
axes[0].legend()

# %%
# The savings of a cache
# ----------------------
# Multiplications for a text of n tokens by GPT-2 small: with the cache each
# token costs one pass, without it the whole text again.

from dlref.transformer import LanguageModelConfig, multiplication_counts

gpt2 = LanguageModelConfig(50257, 768, 12, num_layers=12)
lengths = np.arange(1, 1025)
each = [multiplication_counts(gpt2, context=int(n)).total for n in lengths]
with_cache = np.cumsum(each)
fig, ax = plt.subplots()
ax.loglog(lengths, with_cache, label="with a cache")
ax.loglog(lengths, np.cumsum(with_cache), label="without")
ax.set(
    title="Multiplications to write a text",
    xlabel="tokens written",
    ylabel="multiplications",
)
ax.legend()
