r"""
RoPE scaling for longer texts
=============================

Which pairs does each scaling slow down, and by how much? Which angles of a
long text were never seen in training?
"""

# %%
# Angles that are new
# -------------------
# Width 128, base 10 000, texts of 4096 tokens in training. For each pair the
# bars show the part of its circle that training has covered, at most one turn,
# and the part that a text of 16 384 tokens needs. From pair 46 on these are
# angles that never occurred in training.

import matplotlib.pyplot as plt
import numpy as np

from dlref.positions import rope_attention_factor, rope_frequencies

dim, trained, longer = 128, 4096, 16384
theta = rope_frequencies(dim)
pair = np.arange(dim // 2)
seen = np.minimum(trained * theta / (2 * np.pi), 1)
asked = np.minimum(longer * theta / (2 * np.pi), 1)

fig, ax = plt.subplots()
ax.bar(pair, asked, width=0.8, label="new in a text of 16 384", color="C1")
ax.bar(pair, seen, width=0.8, label="seen in training", color="C0")
ax.set(
    xlabel="pair $i$", ylabel="turns (at most 1)", title="Part of the circle"
)
ax.legend(loc="lower left")

# %%
# Wavelengths under each scaling
# ------------------------------
# Left the tokens per turn of every pair, right how many times slower it is than
# without scaling. The factor is 4; the dynamic one is 2, which its formula
# makes 7 for such a text. Linear scaling slows all pairs equally, NTK slows
# them more and more towards the end, YaRN and Llama 3 leave fast pairs alone
# and treat the slow ones like the linear one.

length = "original_max_position_embeddings"
scalings = {
    "linear": {"type": "linear", "factor": 4},
    "ntk": {"type": "ntk", "factor": 4},
    "dynamic": {"type": "dynamic", "factor": 2, length: trained},
    "yarn": {"type": "yarn", "factor": 4, length: trained},
    "llama3": {
        "type": "llama3",
        "factor": 4,
        "low_freq_factor": 1,
        "high_freq_factor": 4,
        length: trained,
    },
}
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8))
axes[0].semilogy(pair, 2 * np.pi / theta, "k--", lw=1, label="none")
for name, scaling in scalings.items():
    scaled = rope_frequencies(dim, scaling=scaling, seq_len=longer)
    axes[0].semilogy(pair, 2 * np.pi / scaled, label=name, lw=1.5)
    axes[1].plot(pair, theta / scaled, label=name, lw=1.5)
axes[0].axhline(trained, color="0.5", lw=0.8)
axes[0].text(1, 1.15 * trained, "training length", size=8)
axes[0].set(xlabel="pair $i$", ylabel="tokens per turn", title="Wavelengths")
axes[1].set(xlabel="pair $i$", ylabel="times slower", title="Slowdown")
axes[1].legend()

# %%
# Factors of the tables
# ---------------------
# YaRN and LongRoPE also multiply cosine and sine, and thereby the scores by
# the square, because a softmax over more keys is flatter.

factor = np.geomspace(1, 64, 40)
curves = {
    "yarn": [
        rope_attention_factor({"type": "yarn", "factor": s, length: trained})
        for s in factor
    ],
    "longrope": [
        rope_attention_factor(
            {
                "type": "longrope",
                "short_factor": [1],
                "long_factor": [1],
                "factor": s,
                length: trained,
            }
        )
        for s in factor
    ],
}
fig, ax = plt.subplots()
for name, values in curves.items():
    ax.semilogx(factor, np.square(values), label=name, base=2)
ax.set(xlabel="factor $s$ of the length", ylabel="scores are multiplied by")
ax.set_title("Temperature of the softmax")
ax.legend()
