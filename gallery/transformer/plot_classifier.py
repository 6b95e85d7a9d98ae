r"""
A Transformer classifier
========================

Can a classifier tell which of two letters comes first, with positions and
without?
"""

# %%
# Texts of 12 letters contain one A and one B; the class is whether A stands
# before B. The letters are the same in both classes, so a model without
# positions cannot do better than guess, however long it is trained. Nor could a
# model that claims a rotation of queries and keys and has none.

import matplotlib.pyplot as plt
import numpy as np

from dlref.training import adamw_step
from dlref.transformer import (
    LanguageModelConfig,
    init_sequence_classifier,
    sequence_classifier,
    sequence_classifier_loss_value_and_grad,
)

T, LETTERS, STEPS = 12, 10, 250


def texts(rng, count):
    """Draw texts with an A (0) and a B (1), and whether A comes first."""
    tokens = rng.integers(2, LETTERS, (count, T))
    places = np.argsort(rng.random((count, T)), axis=1)[:, :2]
    row = np.arange(count)
    tokens[row, places[:, 0]], tokens[row, places[:, 1]] = 0, 1
    return tokens, (places[:, 0] < places[:, 1]).astype(int)


def trained(scheme):
    """Train a classifier; return its accuracy on the way."""
    config = LanguageModelConfig(
        LETTERS, 32, 4, num_layers=2, positions=scheme, length=T + 1
    )
    rng = np.random.default_rng(0)
    params = init_sequence_classifier(rng, config, 2, dtype=np.float32)
    state, accuracy = None, {}
    fresh = texts(np.random.default_rng(1), 400)
    for step in range(STEPS + 1):
        if step % 10 == 0:
            scores = sequence_classifier(fresh[0], params, config)
            accuracy[step] = np.mean(scores.argmax(-1) == fresh[1])
        tokens, classes = texts(rng, 64)
        _, grads = sequence_classifier_loss_value_and_grad(
            tokens, classes, params, config
        )
        params, state = adamw_step(params, grads, state, learning_rate=3e-3)
    return accuracy, params, config


fig, ax = plt.subplots()
final = {}
for scheme in ("learned", "rope", "none"):
    accuracy, params, config = trained(scheme)
    final[scheme] = accuracy[STEPS]
    ax.plot(list(accuracy), list(accuracy.values()), "o-", ms=3, label=scheme)
ax.axhline(0.5, color="0.6", ls=":", lw=1)
ax.set(
    title="Does A come before B?",
    xlabel="step",
    ylabel="accuracy on fresh texts",
    ylim=(0.4, 1.02),
)
ax.legend(title="positions", loc="center right")
assert final["learned"] > 0.9
assert abs(final["none"] - 0.5) < 0.1
