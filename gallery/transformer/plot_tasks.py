r"""
Induction heads
===============

How does a model find what came after a token the last time, and what does it
take?
"""

# %%
# The task
# --------
# Eight keys, each followed by a value; then the keys again in another order.
# After each key of the second half the model has to give its value. Which value
# belongs to which key changes from text to text, so nothing can be learned by
# heart: chance is log 8 = 2.08 nats. Guessing each value as often as the text
# has it costs 1.56 nats, without knowing which key it belongs to.
#
# Two models with a single head in each layer, one layer and two.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dlref.attention import attention_shares
from dlref.training import adamw_step
from dlref.transformer import (
    LanguageModelConfig,
    associative_recall_task,
    init_language_model,
    language_model,
    language_model_loss_value_and_grad,
    language_model_trace,
    save_params,
)

KEYS = VALUES = PAIRS = 8
STEPS = 450


def texts(rng, count):
    return associative_recall_task(
        rng, count, pairs=PAIRS, keys=KEYS, values=VALUES
    )


def trained(layers):
    """Train a model until it knows, or time is up."""
    config = LanguageModelConfig(
        KEYS + VALUES,
        32,
        1,
        num_layers=layers,
        d_ff=64,
        positions="rope",
        rope_base=10.0,
        norm="rms",
        biases=False,
        tied=False,
        scale_embeddings=True,
    )
    rng = np.random.default_rng(0)
    params, state = init_language_model(rng, config, dtype=np.float32), None
    losses = []
    for step in range(STEPS):
        tokens, targets = texts(rng, 32)
        loss, grads = language_model_loss_value_and_grad(
            tokens, params, config, targets=targets
        )
        rate = 5e-3 * min(1, (step + 1) / 50)
        params, state = adamw_step(
            params,
            grads,
            state,
            learning_rate=rate,
            betas=(0.9, 0.98),
            weight_decay=0.0,
        )
        losses.append(float(loss))
        if np.mean(losses[-10:]) < 0.01:
            break
    return losses, params, config


models = {layers: trained(layers) for layers in (1, 2)}
fig, ax = plt.subplots()
for layers, (losses, _, _) in models.items():
    name = "one layer" if layers == 1 else "two layers"
    ax.plot(np.arange(1, len(losses) + 1), losses, lw=1.2, label=name)
ax.axhline(np.log(VALUES), color="0.6", ls=":", lw=1)
ax.annotate("chance", (STEPS, np.log(VALUES)), ha="right", va="bottom")
ax.set(
    title="Associative recall",
    xlabel="step",
    ylabel="nats a value",
    ylim=(0, None),
)
ax.legend()

fresh, wanted = texts(np.random.default_rng(1), 200)
asked = wanted >= 0
right = {
    layers: np.mean(
        language_model(fresh, params, config).argmax(-1)[asked] == wanted[asked]
    )
    for layers, (_, params, config) in models.items()
}
print(f"right answers: one layer {right[1]:.0%}, two layers {right[2]:.0%}")
assert right[2] > 0.95
assert right[1] < 0.6

# %%
# Two heads, one circuit
# ----------------------
# The weights of the two-layer model for one text. The head of the first layer
# looks one step back, so that each value knows its key. The head of the
# second, at a key of the second half, looks at the place *behind* that key's
# first occurrence, where its value stands, and copies it. One layer cannot do
# this: no place knows what was before it.


def named(tokens):
    """Keys are letters, values digits."""
    return [
        "abcdefgh"[t] if t < KEYS else str(t - KEYS + 1)
        for t in tokens.tolist()
    ]


_, params, config = models[2]
tokens = fresh[0]
first, second = (
    w[0] for w in language_model_trace(tokens, params, config).weights
)
names = named(tokens)
size = len(tokens)
fig, axes = plt.subplots(1, 2, figsize=(8.6, 4.3), sharey=True)
for ax, weights, title in (
    (axes[0], first, "first layer: previous token"),
    (axes[1], second, "second layer: induction"),
):
    image = ax.imshow(weights, vmin=0, vmax=1)
    ax.set(
        title=title,
        xlabel="looked at",
        xticks=range(size),
        yticks=range(size),
        xticklabels=names,
        yticklabels=names,
    )
    ax.tick_params(labelsize=6.5, length=0)
axes[0].set(ylabel="token")
fig.colorbar(image, ax=axes, shrink=0.8, label="weight")
fig.alt_text = (
    "Two maps of attention weights over the tokens of a text. In the first "
    "layer the weights lie below the diagonal; in the second the keys of the "
    "second half look at the values that followed them in the first half."
)

# %%
# In numbers, for 200 texts: how much weight the head of the first layer has on
# the previous token, at the values of the first half, and the head of the
# second layer on the value after the key that is asked for.

first, second = (
    w[:, 0] for w in language_model_trace(fresh, params, config).weights
)
value_places = np.arange(1, 2 * PAIRS, 2)
back = first[:, value_places, value_places - 1].mean()
text, place = np.nonzero(asked)
source = np.argmax(
    fresh[text, : 2 * PAIRS] == fresh[text, place][:, None], axis=1
)
found = second[text, place, source + 1].mean()
print(f"first layer, on the previous token:  {back:.2f}")
print(f"second layer, on the value searched: {found:.2f}")

# %%
# Other texts
# -----------
# The same two heads at work on four texts; one of them is shown above the maps.
# The page offers the parameters of the model, as ``load_params`` reads them.

here = Path(__file__).parent if "__file__" in globals() else Path()
save_params(here / "tasks.npz", params, config)

try:
    from interactive import Control, Interactive, Panel
except ModuleNotFoundError:
    msg = "Put interactive.py, which the page offers, beside the script."
    raise SystemExit(msg) from None

LABELS = [" ".join(named(text)) for text in fresh[:4]]
MAPS = {
    (text, str(layer + 1)): weights[k]
    for layer, weights in enumerate((first, second))
    for k, text in enumerate(LABELS)
}
places = np.arange(size)
explorer = Interactive(
    "Two heads that recall",
    [
        Control("text", "Text", LABELS, start=LABELS[0]),
        Control("layer", "Layer", ["1", "2"], start="2"),
    ],
    [
        Panel(
            "Weights",
            places,
            lambda text, layer: {"weight": MAPS[text, layer]},
            ["text", "layer"],
            xlabel="key",
            ylabel="query",
            ylim=(0, 1),
            y=places,
            labels=("text", [text.split() for text in LABELS]),
        ),
        Panel(
            "Shares",
            places,
            lambda text, layer: dict(
                zip(
                    ("first", "previous", "own"),
                    attention_shares(MAPS[text, layer]).T,
                    strict=True,
                )
            ),
            ["text", "layer"],
            xlabel="query",
            ylabel="share of the weight",
            ylim=(0, 1),
            points=True,
        ),
    ],
)
explorer.show()
