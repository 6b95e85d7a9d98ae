r"""
Attention maps and their statistics
===================================

What can be said about a map of weights, row by row, that does not hold for
every map?
"""

# %%
# Explorer
# --------
# Choose a sentence, a layer and a head. **The model is random**: embeddings and
# projections are drawn, nothing is trained, so that no pattern here means
# anything. The meaning of the statistics does not depend on that. A function of
# sentence, layer and head gives the maps; a trained model can take its place.

try:
    from interactive import Control, Interactive, Panel
except ModuleNotFoundError:
    msg = "Put interactive.py, which the page offers, beside the script."
    raise SystemExit(msg) from None

import matplotlib.pyplot as plt
import numpy as np

from dlref.attention import (
    AttentionParams,
    attention_distance,
    attention_entropy,
    attention_rollout,
    attention_shares,
    multi_head_attention,
)

SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "The big red dog chased the small cat.",
    "The quick brown fox jumps over the lazy dog.",
    "Dog bites man",
    "Man bites dog",
]
LAYERS, HEADS, MOST = 3, 4, 11


def words(sentence):
    """Return the words without capitals and full stop."""
    return sentence.lower().strip(".").split()


def random_maps(sentence):
    """Return weights (layers, heads, tokens, tokens), untrained."""
    vocabulary = sorted({w for each in SENTENCES for w in words(each)})
    rng = np.random.default_rng(42)
    table = rng.normal(size=(len(vocabulary), 16))
    places = rng.normal(size=(MOST, 16))
    layers = rng.normal(size=(LAYERS, 4, 16, 16)) / 4
    tokens = [vocabulary.index(word) for word in words(sentence)]
    x, maps = table[tokens] + 0.5 * places[: len(tokens)], []
    for weights in layers:
        out, p = multi_head_attention(
            x,
            x,
            AttentionParams(*weights),
            num_heads=HEADS,
            return_weights=True,
        )
        x = x + out
        maps.append(p)
    return np.stack(maps)


MAPS = {sentence: random_maps(sentence) for sentence in SENTENCES}


def chosen(sentence, layer, head):
    """Return one map."""
    return MAPS[sentence][int(layer), int(head)]


def padded(values):
    """Fill up to the length of the longest sentence with gaps."""
    values = np.asarray(values, float)
    return np.pad(
        values, [(0, MOST - n) for n in values.shape], constant_values=np.nan
    )


def padded_rows(rows):
    """Fill up each of several curves."""
    return [padded(row) for row in rows]


tokens = np.arange(MOST)
needs = ["sentence", "layer", "head"]
explorer = Interactive(
    "Attention explorer, random weights",
    [
        Control("sentence", "Sentence", SENTENCES, start=SENTENCES[0]),
        Control("layer", "Layer", range(LAYERS), start=0),
        Control("head", "Head", range(HEADS), start=0),
    ],
    [
        Panel(
            "Weights",
            tokens,
            lambda **choice: {"weight": padded(chosen(**choice))},
            needs,
            xlabel="key",
            ylabel="query",
            ylim=(0, 0.5),
            y=tokens,
            labels=("sentence", [words(each) for each in SENTENCES]),
        ),
        Panel(
            "Keys attended to, and how far away",
            tokens,
            lambda **choice: {
                "number of keys": padded(
                    np.exp(attention_entropy(chosen(**choice)))
                ),
                "distance": padded(attention_distance(chosen(**choice))),
            },
            needs,
            xlabel="query",
            ylabel="keys, tokens",
            ylim=(0, 11),
            points=True,
        ),
        Panel(
            "Shares",
            tokens,
            lambda **choice: dict(
                zip(
                    ("first", "previous", "own"),
                    padded_rows(attention_shares(chosen(**choice)).T),
                    strict=True,
                )
            ),
            needs,
            xlabel="query",
            ylabel="share of the weight",
            ylim=(0, 0.6),
            points=True,
        ),
    ],
)


explorer.show()

# %%
# Number of keys and distance
# ---------------------------
# All heads of the longest sentence in one picture: by how many keys they
# spread over, and by how far they look. Uniform weights are at the
# cross.

fig, ax = plt.subplots(figsize=(6, 3.8))
for layer, maps in enumerate(MAPS[SENTENCES[0]]):
    ax.plot(
        np.exp(attention_entropy(maps)).mean(-1),
        attention_distance(maps).mean(-1),
        "osv"[layer],
        label=f"layer {layer}",
    )
ax.plot(
    MOST, (MOST**2 - 1) / (3 * MOST), "x", color="0.13", label="uniform", ms=9
)
ax.set(
    title="Twelve heads",
    xlabel="number of keys, $e^H$, mean of the queries",
    ylabel="mean distance in tokens",
)
ax.legend()

# %%
# Rollout
# -------
# Shares of the inputs in each token after one, two and three layers, half of
# each layer being the residual connection. They level out with depth.

fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True)
maps = MAPS[SENTENCES[0]]
for depth, ax in enumerate(axes, 1):
    image = ax.imshow(attention_rollout(maps[:depth]), vmin=0, vmax=0.6)
    ax.set(title=f"after layer {depth - 1}", xlabel="input token")
axes[0].set_yticks(range(MOST), SENTENCES[0].split())
fig.colorbar(image, ax=axes, label="share", shrink=0.8)
