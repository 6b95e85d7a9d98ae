r"""
Where a port first differs
==========================

Three ports of one model, each with a mistake. The logits of all three are
wrong; the intermediates tell where each goes astray.
"""

# %%
# Distances along the way
# -----------------------
# A model of two blocks, and the same with another form of GELU, with a matrix
# transposed, and with positions that begin at 1. :func:`dlref.check.trace` has
# 34 intermediates of each, in the order in which they are computed. The dots
# mark the results of :func:`dlref.check.first_difference`.

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from dlref.check import first_difference, trace
from dlref.transformer import (
    LanguageModelConfig,
    init_language_model,
    language_model,
)

config = LanguageModelConfig(50, 32, 4, activation="gelu_tanh")
rng = np.random.default_rng(0)
params = init_language_model(rng, config)
tokens = rng.integers(0, 50, 12)
right = trace(language_model, tokens, params, config)

first, second = params.blocks
attention = second.attention._replace(w_o=second.attention.w_o.T)
transposed = params._replace(
    blocks=(first, second._replace(attention=attention))
)
shifted = params._replace(positions=np.roll(params.positions, -1, axis=0))
exact = replace(config, activation="gelu")
ports = {
    "GELU in its exact form": trace(language_model, tokens, params, exact),
    "w_o of block 1 transposed": trace(
        language_model, tokens, transposed, config
    ),
    "positions begin at 1": trace(language_model, tokens, shifted, config),
}


def distance(a, b):
    finite = np.isfinite(b)
    gap = np.linalg.norm(a[finite] - b[finite]) / np.linalg.norm(b[finite])
    return max(gap, 1e-17)


fig, ax = plt.subplots(figsize=(8, 4.5))
for label, port in ports.items():
    gaps = [distance(port[name], right[name]) for name in right]
    ax.semilogy(gaps, label=label)
    start = list(right).index(first_difference(right, port).name)
    ax.plot(start, gaps[start], "o", color=ax.lines[-1].get_color())
ax.set_xticks(range(len(right)), right, rotation=90, fontsize=7)
ax.set(
    title="Three ports beside the model",
    ylabel="relative distance (0 drawn as 1e-17)",
)
ax.legend(loc="center left")
fig.alt_text = (
    "Relative distance of three ports from the model, along the names of its "
    "intermediates. Each is 0 up to one name and jumps there: to 1 at the "
    "positions, to 1e-4 at the hidden units of block 0, to 1 at the output of "
    "the attention of block 1."
)

# %%
# The causes
# ----------
# An exact GELU where the tanh form was meant is off by a ten-thousandth, and no
# plausibility check detects that.

for port in ports.values():
    found = first_difference(right, port)
    print(f"{found.name}: {found.cause}")
