r"""
The next word
=============

What does a small model of words know after reading one story and five
sentences, what does it do with a word it never met, and where does it look?
"""

# %%
# Words are the tokens here, and punctuation marks. The text is *Alice* again,
# nine tenths of it, with five sentences, often used to explain attention, read
# in between. A word that occurs only once in the text gets no vector of its
# own: it is read as ``<unk>``, as every word will be that is not in the
# vocabulary.

import re
import tempfile
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from tqdm import tqdm

from dlref.activations import softmax
from dlref.attention import attention_distance, attention_entropy
from dlref.training import adamw_step, cosine_schedule
from dlref.transformer import (
    LanguageModelConfig,
    dropout_mask,
    init_language_model,
    language_model,
    language_model_loss,
    language_model_loss_value_and_grad,
    language_model_trace,
    parameter_counts,
    save_params,
)

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "The animal didn't cross the street because it was too tired.",
    "The big red dog chased the small cat.",
    "Dog bites man.",
    "Man bites dog.",
]


def split(text):
    """Cut a text into words and punctuation marks."""
    return re.findall(r"[a-z]+(?:'[a-z]+)?|[.,;:!?]", text.lower())


here = Path(__file__).parent if "__file__" in globals() else Path()
if not (here / "alice.txt").exists():
    msg = "Put alice.txt, which the page offers, beside the script."
    raise SystemExit(msg)
paragraphs = (here / "alice.txt").read_text().splitlines()
cut = len(paragraphs) * 9 // 10
story = [split(line) for line in paragraphs[:cut]]
known = [split(sentence) for sentence in SENTENCES]
count = Counter(word for line in story for word in line)
words = sorted(
    {word for word, n in count.items() if n > 1}.union(*known),
    key=lambda word: (-count[word], word),
)
WORDS = ["<end>", "<unk>", *words]
NUMBER = {word: i for i, word in enumerate(WORDS)}
END, UNKNOWN = 0, 1


def numbered(line):
    """Return tokens, with a mark of the end in front."""
    return [END] + [NUMBER.get(word, UNKNOWN) for word in line]


def read(text):
    """Show a text as the model reads it."""
    return " ".join(WORDS[i] for i in numbered(split(text))[1:])


held = np.concatenate(
    [numbered(split(line)) for line in paragraphs[cut:]] + [[END]]
)
print(
    f"{len(WORDS)} words; {np.mean(held == UNKNOWN):.0%} of new text is <unk>"
)
for text in (*SENTENCES[:1], "The quick brown wombat jumps over the lazy dog."):
    print(read(text))

# %%
# Training
# --------
# With so little text, a model can learn all of it by heart. Dropout on the
# embeddings, the weights of attention and the layers slows that down; the loss
# on the last tenth counts. It has to be lower than the loss of guessing by word
# frequency. The table of all pairs of words, mixed with the frequencies, is
# hard to beat with eight thousand words to learn from, and this model does not.
# Its settings were chosen among six by this same last tenth, so its loss there
# is a little flattered.

T, B, STEPS, RATE = 24, 16, 240, 0.1
config = LanguageModelConfig(
    len(WORDS), 48, 4, num_layers=2, positions="alibi", tied=False
)
rng = np.random.default_rng(0)
mixed = []
for i, line in enumerate(story):
    mixed += numbered(line)
    if i % 2 == 0:
        mixed += numbered(known[i // 2 % len(known)])
train = np.array([*mixed, END])

single = np.bincount(train, minlength=len(WORDS)) + 0.5
single /= single.sum()
pairs = np.zeros((len(WORDS), len(WORDS)))
np.add.at(pairs, (train[:-1], train[1:]), 1)
pairs = (pairs + 20 * single) / (pairs.sum(1, keepdims=True) + 20)
UNIGRAM = -np.mean(np.log(single[held[1:]]))
BIGRAM = -np.mean(np.log(pairs[held[:-1], held[1:]]))

params, state = init_language_model(rng, config, dtype=np.float32), None
print(f"{parameter_counts(config).total} parameters, {len(train)} tokens")
whole = held[: len(held) // T * T].reshape(-1, T)
losses, checks = [], {}


def drawn(*shape):
    """Draw factors of dropout."""
    return dropout_mask(rng, shape, rate=RATE, dtype=np.float32)


bar = tqdm(range(STEPS + 1), disable=None)  # shown on a terminal only
for step in bar:
    if step % 40 == 0:
        checks[step] = float(language_model_loss(whole, params, config))
    if step == STEPS:
        break
    start = rng.integers(0, len(train) - T, B)
    batch = train[start[:, None] + np.arange(T + 1)]
    loss, grads = language_model_loss_value_and_grad(
        batch,
        params,
        config,
        embedding_dropout=drawn(B, T, 48),
        attention_dropout=tuple(drawn(B, 4, T, T) for _ in range(2)),
        dropout=tuple((drawn(B, T, 48), drawn(B, T, 48)) for _ in range(2)),
    )
    losses.append(float(loss))
    rate = cosine_schedule(step + 1, peak=1e-2, warmup=30, steps=STEPS)
    params, state = adamw_step(
        params,
        grads,
        state,
        learning_rate=rate,
        betas=(0.9, 0.98),
        weight_decay=0.1,
    )
    bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
print(f"unigram {UNIGRAM:.2f}, bigram {BIGRAM:.2f}, model {checks[STEPS]:.2f}")
assert checks[STEPS] < UNIGRAM

fig, ax = plt.subplots()
ax.plot(np.arange(1, STEPS + 1), losses, lw=1, label="training, with dropout")
ax.plot(list(checks), list(checks.values()), "o-", label="held-out text")
for level, name in (
    (np.log(len(WORDS)), "guess"),
    (UNIGRAM, "unigram"),
    (BIGRAM, "bigram"),
):
    ax.axhline(level, color="0.6", ls=":", lw=1)
    ax.annotate(name, (STEPS + 4, level), va="bottom", fontsize=9)
ax.set(
    title="Loss of a word model",
    xlabel="step",
    ylabel="nats per word",
    xlim=(-8, STEPS + 50),
)
ax.legend()

# %%
# The next word
# -------------
# After each beginning, the five words that are most probable. The sentences
# were read often enough to be known by heart: that is memory, not grammar. A
# beginning that occurs nowhere gets a continuation that fits its last words;
# and an unknown word is shown as such, even where the model proposes it.

BEGINNINGS = [
    "The quick brown fox jumps over the lazy",
    "The animal didn't cross the street because it was too",
    "Dog bites",
    "Man bites",
    "The quick brown wombat jumps over the",
    "Alice was very",
]


def after(text):
    """Return the probability of each word to come next."""
    return softmax(language_model(numbered(split(text)), params, config)[-1])


for text in BEGINNINGS:
    p = after(text)
    best = np.argsort(p)[::-1][:5]
    print(f"{read(text)} ...")
    print("    " + ", ".join(f"{WORDS[i]} {p[i]:.0%}" for i in best))
assert WORDS[np.argmax(after(BEGINNINGS[0]))] == "dog"

# %%
# Where it looks
# --------------
# The weights of one head for one sentence: a row for each word that asks, a
# column for each word that is asked. No word sees those after it.


def maps_of(text):
    """Return the words that are read, and the weights of each layer."""
    ids = numbered(split(text))
    return [WORDS[i] for i in ids], language_model_trace(
        ids, params, config
    ).weights


seen, weights = maps_of(SENTENCES[1])
fig, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for ax, layer in zip(axes, (0, 1), strict=True):
    image = ax.imshow(weights[layer][0], vmin=0, vmax=1)
    ax.set_xticks(range(len(seen)), seen, rotation=90)
    ax.set_yticks(range(len(seen)), seen)
    ax.set(title=f"Layer {layer + 1}, head 1", xlabel="key", ylabel="query")
fig.colorbar(image, ax=axes, label="weight")
fig.alt_text = (
    "Two heat maps of attention weights with words on both axes, one for each "
    "layer; all weight is on and below the diagonal."
)

# %%
# Choose a sentence
# -----------------
# The last one has a word that the model does not know. The page offers the
# parameters of the model, as ``load_params`` reads them.

save_params(here / "words.npz", params, config)

try:
    from interactive import Control, Interactive, Panel
except ModuleNotFoundError:
    msg = "Put interactive.py, which the page offers, beside the script."
    raise SystemExit(msg) from None

TEXTS = [*SENTENCES, "The quick brown wombat was very tired."]


def explorer(title, found):
    """
    Return a figure of attention maps.

    `found` has for each text the words and, for each layer, an array of
    (heads, words, words).
    """
    most = max(len(seen) for seen, _ in found.values())
    first = next(iter(found.values()))[1]
    spots = np.arange(most)
    layers = [str(i + 1) for i in range(len(first))]
    heads = [str(i + 1) for i in range(len(first[0]))]

    def one(text, layer, head):
        return np.asarray(found[text][1][int(layer) - 1][int(head) - 1], float)

    def filled(values):
        gaps = [(0, most - n) for n in np.shape(values)]
        return np.pad(values, gaps, constant_values=np.nan)

    needs = ["text", "layer", "head"]
    return Interactive(
        title,
        [
            Control("text", "Text", list(found), start=next(iter(found))),
            Control("layer", "Layer", layers, start=layers[0]),
            Control("head", "Head", heads, start=heads[0]),
        ],
        [
            Panel(
                "Weights",
                spots,
                lambda **choice: {"weight": filled(one(**choice))},
                needs,
                xlabel="key",
                ylabel="query",
                ylim=(0, 1),
                y=spots,
                labels=("text", [seen for seen, _ in found.values()]),
            ),
            Panel(
                "How wide, and how far",
                spots,
                lambda **choice: {
                    "entropy in nats": filled(attention_entropy(one(**choice))),
                    "mean distance": filled(attention_distance(one(**choice))),
                },
                needs,
                xlabel="place of the word that asks",
                ylabel="of its weights",
                ylim=(0, 2),
                points=True,
            ),
        ],
    )


explorer("Attention between words", {t: maps_of(t) for t in TEXTS}).show()

# %%
# Maps of a model of your own
# ---------------------------
# No pretrained weights come with dlref, and nothing is downloaded: all that is
# shown above was trained while this page was built. But the figure takes the
# maps of any model. From the package transformers, with a checkpoint that is on
# your disk, they are (only its plain implementation of attention, "eager",
# returns weights)::
#
#    model.set_attn_implementation("eager")
#    out = model(**tokenizer(text, return_tensors="pt"), output_attentions=True)
#    weights = [layer[0].detach().numpy() for layer in out.attentions]
#    seen = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
#    np.savez("maps.npz", *weights, words=seen)
#
# From such a file on it is two lines. The file here has maps of the model
# above, written the same way. Checkpoints of GPT-2, LLaMA and BERT can also be
# read as parameters of dlref: ``dlref.interop.from_state_dict``.

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "maps.npz"
    np.savez(file, *weights, words=np.array(seen))
    with np.load(file) as kept:
        read_words = list(kept["words"])
        read_maps = [kept[name] for name in kept.files if name != "words"]
figure = explorer("Maps from a file", {SENTENCES[1]: (read_words, read_maps)})
print(len(figure._repr_html_()), "characters of HTML")
assert all(
    np.array_equal(a, b) for a, b in zip(weights, read_maps, strict=True)
)
