r"""
A language model learns to write
================================

How far does a small model get on the first four chapters of *Alice's
Adventures in Wonderland*, and what does it write on the way?

The text is in the public domain (1865), as Project Gutenberg spread it; the
file ``alice.txt`` has one line for each paragraph.
"""

# %%
# Characters are the tokens. The last tenth of the text is held out. A model has
# to beat two baselines: the entropy of single characters, and the prediction
# from the previous character alone, both measured on the held-out part.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from tqdm import tqdm

from dlref.training import adamw_step, cosine_schedule
from dlref.transformer import (
    LanguageModelConfig,
    generate,
    init_language_model,
    language_model_loss,
    language_model_loss_value_and_grad,
    language_model_trace,
    parameter_counts,
    save_params,
)

here = Path(__file__).parent if "__file__" in globals() else Path()
if not (here / "alice.txt").exists():
    msg = "Put alice.txt, which the page offers, beside the script."
    raise SystemExit(msg)
text = (here / "alice.txt").read_text()
characters = sorted(set(text))
V, T, B, STEPS = len(characters), 64, 16, 400
tokens = np.array([characters.index(c) for c in text])
cut = len(tokens) * 9 // 10
train, held = tokens[:cut], tokens[cut:]

single = np.bincount(train, minlength=V) + 1.0
pairs = np.full((V, V), 0.1)
np.add.at(pairs, (train[:-1], train[1:]), 1)
pairs /= pairs.sum(1, keepdims=True)
UNIGRAM = -np.mean(np.log(single / single.sum())[held[1:]])
BIGRAM = -np.mean(np.log(pairs[held[:-1], held[1:]]))
print(f"{len(text)} characters, {V} different")
print(f"guess {np.log(V):.2f}, unigram {UNIGRAM:.2f}, bigram {BIGRAM:.2f} nats")

# %%
# Training
# --------
# Two blocks of width 64, made like LLaMA's. Each step takes 16 pieces of 64
# characters from anywhere in the text.

config = LanguageModelConfig(
    V,
    64,
    4,
    num_layers=2,
    positions="rope",
    norm="rms",
    activation="swiglu",
    biases=False,
)
rng = np.random.default_rng(0)
params, state = init_language_model(rng, config, dtype=np.float32), None
print(f"{parameter_counts(config).total} parameters")

whole = held[: len(held) // T * T].reshape(-1, T)
losses, checks, samples = [], {}, {}


def look(step):
    """Note the loss on the held-out text, and a sample."""
    checks[step] = float(language_model_loss(whole, params, config))
    prompt = [characters.index(c) for c in "Alice "]
    drawn = generate(
        prompt,
        params,
        config,
        steps=90,
        temperature=0.7,
        rng=np.random.default_rng(1),
    )
    samples[step] = "".join(characters[t] for t in drawn).replace("\n", "¶")


bar = tqdm(range(STEPS), disable=None)  # shown on a terminal only
for step in bar:
    if step in (0, 50, 150):
        look(step)
    start = rng.integers(0, len(train) - T, B)
    batch = train[start[:, None] + np.arange(T + 1)]
    loss, grads = language_model_loss_value_and_grad(batch, params, config)
    losses.append(float(loss))
    rate = cosine_schedule(step + 1, peak=5e-3, warmup=40, steps=STEPS)
    params, state = adamw_step(
        params,
        grads,
        state,
        learning_rate=rate,
        betas=(0.9, 0.98),
        weight_decay=0.1,
    )
    bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
look(STEPS)
assert checks[STEPS] < BIGRAM < UNIGRAM
print(
    f"held-out loss {checks[STEPS]:.2f}: {checks[STEPS] / np.log(2):.2f} bits"
)

# %%
# The loss falls in steps that have names: first the frequencies of the
# characters, then which follows which, then pieces of words.

fig, ax = plt.subplots()
ax.plot(np.arange(1, STEPS + 1), losses, lw=1, label="training, each step")
ax.plot(list(checks), list(checks.values()), "o-", label="held-out text")
for level, name in (
    (np.log(V), "guess"),
    (UNIGRAM, "unigram"),
    (BIGRAM, "bigram"),
):
    ax.axhline(level, color="0.6", ls=":", lw=1)
    ax.annotate(name, (STEPS, level), ha="right", va="bottom", fontsize=9)
ax.set(
    title="Loss of a character model",
    xlabel="step",
    ylabel="nats per character",
    ylim=(1.2, 4.5),
)
ax.legend(loc=(0.42, 0.62))

# %%
# Samples
# -------
# The same prompt and the same random numbers at four stages.

for step, sample in samples.items():
    print(f"{step:4d} steps  {sample}")

# %%
# Where it looks
# --------------
# Attention of the trained model while it reads beginnings of sentences. Some
# heads look one or two characters back, some for the beginning of the word.
# The parameters are kept in a file, which the page offers: ``load_params``
# reads them, and the maps follow from them without any training.

save_params(here / "language_model.npz", params, config)

try:
    from interactive import Control, Interactive, Panel
except ModuleNotFoundError:
    msg = "Put interactive.py, which the page offers, beside the script."
    raise SystemExit(msg) from None

SENTENCES = [
    "said the King to the Queen",
    "she went on and on in silence",
    "`What is it?' asked the cat",
]
MAPS = {}
for sentence in SENTENCES:
    ids = [characters.index(c) for c in sentence]
    for layer, weights in enumerate(
        language_model_trace(ids, params, config).weights
    ):
        for head, one in enumerate(weights):
            MAPS[sentence, f"{layer + 1}", f"{head + 1}"] = one
MOST = max(map(len, SENTENCES))
spots = np.arange(MOST)


def padded(values):
    """Fill up to the length of the longest sentence with gaps."""
    gaps = [(0, MOST - n) for n in np.shape(values)]
    return np.pad(np.asarray(values, float), gaps, constant_values=np.nan)


def shown(sentence, layer, head):
    """Return one map."""
    return MAPS[sentence, layer, head]


needs = ["sentence", "layer", "head"]
explorer = Interactive(
    "Attention of the trained model",
    [
        Control("sentence", "Text", SENTENCES, start=SENTENCES[0]),
        Control("layer", "Layer", ["1", "2"], start="1"),
        Control("head", "Head", ["1", "2", "3", "4"], start="1"),
    ],
    [
        Panel(
            "Weights",
            spots,
            lambda **choice: {"weight": padded(shown(**choice))},
            needs,
            xlabel="key",
            ylabel="query",
            ylim=(0, 1),
            y=spots,
            labels=("sentence", [list(each) for each in SENTENCES]),
        ),
        Panel(
            "Mean weight by distance",
            spots,
            lambda **choice: {
                "weight": padded(
                    [
                        np.diagonal(shown(**choice), -d).mean()
                        for d in range(len(shown(**choice)))
                    ]
                )
            },
            needs,
            xlabel="characters back",
            ylabel="mean weight",
            ylim=(0, 1),
            points=True,
        ),
    ],
)
explorer.show()
