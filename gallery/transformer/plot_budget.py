r"""
Parameters and multiplications of a Transformer
===============================================

Which parts of a model hold its parameters, and which parts take its time?
"""

# %%
# Parameters
# ----------
# The smaller a model, the larger the share of its embeddings; they grow with
# the width, the blocks with its square. The four sizes of GPT-2: embeddings are
# 31 % of the smallest, and 5 % of the largest.

import matplotlib.pyplot as plt
import numpy as np

from dlref.transformer import (
    LanguageModelConfig,
    multiplication_counts,
    parameter_counts,
)

SIZES = {"small": (768, 12, 12), "medium": (1024, 16, 24)}
SIZES |= {"large": (1280, 20, 36), "XL": (1600, 25, 48)}
models = {
    name: LanguageModelConfig(50257, width, heads, num_layers=layers)
    for name, (width, heads, layers) in SIZES.items()
}
counts = {name: parameter_counts(config) for name, config in models.items()}
assert counts["small"].total == 124_439_808
embedded = {name: f"{c.embedding / c.total:.0%}" for name, c in counts.items()}
assert (embedded["small"], embedded["XL"]) == ("31%", "5%")

fig, ax = plt.subplots(figsize=(7, 2.8))
left = np.zeros(4)
for field in ("feed_forward", "attention", "embedding", "positions", "norms"):
    share = np.array([getattr(c, field) / c.total for c in counts.values()])
    ax.barh(range(4), share, left=left, label=field.replace("_", "-"))
    left += share
labels = [f"{n}: {c.total / 1e6:.0f} M" for n, c in counts.items()]
ax.set(
    title="Parameters of the four GPT-2",
    xlabel="share of all parameters",
    yticks=range(4),
    yticklabels=labels,
    xlim=(0, 1),
)
ax.invert_yaxis()
fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=5)

# %%
# Multiplications
# ---------------
# A weight is used once per token, whatever the length of the text. Only scores
# and sums of attention grow with it, and overtake the rest of a block where
# the text is six times as long as the model is wide.

context = np.unique(np.logspace(0, 5, 60).astype(int))
small = models["small"]
parts = [multiplication_counts(small, context=int(S)) for S in context]
fig, ax = plt.subplots()
for field in ("feed_forward", "projections", "scores", "head"):
    values = [getattr(p, field) / 1e6 for p in parts]
    ax.loglog(context, values, label=field.replace("_", "-"))
ax.axvline(6 * small.d_model, color="0.5", ls=":", lw=1)
ax.annotate("6 × width", (6 * small.d_model, 1.5), ha="right", rotation=90)
ax.set(
    title="GPT-2 small: one token",
    xlabel="tokens attended to",
    ylabel="million multiplications",
    ylim=(1, None),
)
ax.legend()

# %%
# A cache
# -------
# The memory for each token of a text, in a model like LLaMA 3 with 8 billion
# parameters: fewer heads of keys make it smaller, and change little else.

fig, ax = plt.subplots(figsize=(7, 2.6))
for k, groups in enumerate((32, 8, 1)):
    size = 2 * 32 * groups * 128 * 2 / 1024  # keys and values, float16
    ax.barh(k, size, color=f"C{k}")
    ax.annotate(f" {size:.0f} KiB", (size, k), va="center")
ax.set(
    title="Cache: 32 layers, 32 heads of width 128, 2 bytes per number",
    xlabel="KiB for each token",
    yticks=range(3),
    yticklabels=["32 heads of keys", "8 heads", "1 head"],
    xlim=(0, 600),
)
