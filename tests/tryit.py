"""What dlref computes for the figures to try: those of docs/tryit, and those of the gallery.

The browser tests move the controls and compare.  Models that were trained while the pages were
built are read from the files that the pages offer.
"""

import ast
import itertools
import sys
from pathlib import Path

import numpy as np

from dlref import activations
from dlref.attention import (
    attention_distance,
    attention_entropy,
    attention_shares,
    scaled_dot_product_attention,
)
from dlref.convolution import conv, conv_vjp
from dlref.losses import cross_entropy, cross_entropy_grad
from dlref.positions import apply_rope, rope_frequencies, rope_score, rope_tables
from dlref.propagation import gradient_magnitude
from dlref.transformer import language_model_trace, load_params

GALLERY = Path(__file__).parents[1] / "gallery"
Q = [[1.0, 0.5, -0.5, 1.0, 0.8, -0.2, 0.3, 0.6]]
K = [[0.6, -0.4, 1.0, 0.5, 0.2, 0.9, -0.7, 0.4]]
#: Scores that are typed into the figure, for the words "a b c".
SCORES = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, -1.5], [2.5, 2.5, -4.0]])


def rope_rotated(m, n, base, of_q=True, of_k=True, add=0):
    """Return query and key of the dials, rotated; `of_q` and `of_k`: are they interleaved?"""
    frequencies = rope_frequencies(8, base=float(base))
    return [
        apply_rope(x, *rope_tables([p + add], frequencies), interleaved=interleaved)[0]
        for x, p, interleaved in ((Q, m, of_q), (K, n, of_k))
    ]


def rope_scores(*settings):
    """Return the scores of the dials: at these positions, and ten tokens later."""
    return [float(np.dot(*rope_rotated(*settings, add=add))) for add in (0, 10)]


def rope():
    """Yield settings of the dials and their scores."""
    for m, n, base, of_q, of_k in itertools.product(
        [0, 7], [5, 50], [100, 10000], [True, False], [True, False]
    ):
        pairings = ["interleaved" if of else "half-split" for of in (of_q, of_k)]
        yield [m, n, base, *pairings], rope_scores(m, n, base, of_q, of_k)


def seen(mask, cached, window):
    """Return what a mask of the workbench lets the queries after a cache see of three keys."""
    queries, keys = np.arange(3 - cached)[:, None], np.arange(3)
    shown = {
        "none": queries >= 0 * keys,
        "causal": keys <= queries + cached,
        "hide the first key": (keys > 0) & (queries >= 0),
        "hide all keys of the first query": (queries > 0) & (keys >= 0),
    }[mask]
    return shown & (abs(queries + cached - keys) < window) if window else shown


def attention(scores, values, cached):
    """Yield settings of the workbench, the weights, and the outputs for these values."""
    masks = ["none", "causal", "hide the first key", "hide all keys of the first query"]
    choices = itertools.product(masks, [0, 2], [0.5, 2.0], [0.0, 0.75], ["none", "-2", "2"])
    for mask, window, scale, slope, sink in choices:
        distance = abs(np.arange(3 - cached)[:, None] + cached - np.arange(3))
        output, weights = scaled_dot_product_attention(
            scores[None],
            np.eye(3)[None],
            values[None],
            scale=scale,
            mask=seen(mask, cached, window),
            bias=-slope * distance,
            sink=None if sink == "none" else [float(sink)],
            return_weights=True,
        )
        yield [mask, window, scale, slope, sink], weights[0], output[0]


def classifier():
    """Yield scores and a class of the figure on the start page, probabilities, gradient, loss."""
    for scores, true in itertools.product([[1.0, 0.0, -1.0], [-4.0, 4.0, 0.5]], [0, 1, 2]):
        z = np.array([scores])
        gradient, loss = cross_entropy_grad(z, [true])[0], cross_entropy(z, [true])
        yield scores, true, activations.softmax(scores), gradient, loss


# Figures of the gallery: a function of the controls that returns, for each panel, a map or the
# values of its curves.


def defined(script, *names):
    """
    Return what a script defines, without running what it computes and draws.

    Its functions, and assignments to nothing but `names`, in its order.
    """
    tree = ast.parse((GALLERY / script).with_suffix(".py").read_text(encoding="utf-8"))
    known = {"dlref", "numpy", *sys.stdlib_module_names}

    def wanted(node):
        if isinstance(node, ast.Import):
            return all(alias.name in known for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            return node.module.partition(".")[0] in known
        if isinstance(node, ast.Assign):
            assigned = [n for target in node.targets for n in ast.walk(target)]
            return {n.id for n in assigned if isinstance(n, ast.Name)} <= set(names)
        return isinstance(node, ast.FunctionDef)

    tree.body = [node for node in tree.body if wanted(node)]
    scope = {"__file__": str((GALLERY / script).with_suffix(".py"))}
    exec(compile(tree, script, "exec"), scope)
    return [scope[name] for name in names]


def maps(tokens_of, file):
    """Return a function of a text and a layer: the weights of all heads of a saved model."""
    params, config = load_params(file)
    return lambda text, layer: language_model_trace(tokens_of(text), params, config).weights[
        int(layer) - 1
    ]


def language_model(file):
    """Return the values of gallery/transformer/plot_language_model.py."""
    characters = sorted(set((GALLERY / "transformer" / "alice.txt").read_text(encoding="utf-8")))
    of = maps(lambda text: [characters.index(c) for c in text], file)

    def panels(sentence, layer, head):
        weights = of(sentence, layer)[int(head) - 1]
        return weights, [[np.diagonal(weights, -d).mean() for d in range(len(weights))]]

    return panels


def tasks(file):
    """Return the values of gallery/transformer/plot_tasks.py: keys are a to h, values 1 to 8."""
    of = maps(lambda text: ["abcdefgh12345678".index(t) for t in text.split()], file)

    def panels(text, layer):
        [weights] = of(text, layer)
        return weights, attention_shares(weights).T

    return panels


def words(file):
    """Return the values of gallery/transformer/plot_words.py."""
    vocabulary = "here paragraphs cut SENTENCES story known count words WORDS NUMBER END UNKNOWN"
    names = [*vocabulary.split(), "split", "numbered"]
    *_, split, numbered = defined("transformer/plot_words", *names)
    of = maps(lambda text: numbered(split(text)), file)

    def panels(text, layer, head):
        weights = of(text, layer)[int(head) - 1]
        return weights, [attention_entropy(weights), attention_distance(weights)]

    return panels


def statistics():
    """Return the values of gallery/attention/plot_statistics.py."""
    *_, drawn = defined(
        "attention/plot_statistics", "SENTENCES", "LAYERS", "HEADS", "MOST", "random_maps"
    )

    def panels(sentence, layer, head):
        weights = drawn(sentence)[layer, head]
        wide = [np.exp(attention_entropy(weights)), attention_distance(weights)]
        return weights, wide, attention_shares(weights).T

    return panels


def rotary():
    """Return the values of gallery/positions/plot_rotary.py."""
    q, k = np.random.default_rng(3).normal(size=(2, 64))
    offsets = np.arange(-60, 61)

    def panels(position, pair, base):
        frequencies = rope_frequencies(64, base=float(base))
        tables = rope_tables(np.arange(position + 1), frequencies)
        scores = [rope_score(q, other, offsets, frequencies) for other in (k, q)]
        return [table[:, pair] for table in tables], scores

    return panels


def rnn():
    """Return the values of gallery/recurrent/plot_rnn.py: predictions of a network in training."""
    *_, y, stages, train = defined("recurrent/plot_rnn", "series", "x", "y", "stages", "train")
    _, kept = train(1.0)
    assert set(stages) <= set(kept)
    truth = np.sin(0.1 * np.linspace(0, 10, 101))[1:]
    np.testing.assert_array_equal(y[:, 0], truth)
    return lambda epoch: ([truth, kept[epoch]], [abs(kept[epoch] - truth)])


def dashboard():
    """Return the values of gallery/propagation/plot_gradient_magnitude.py."""
    z = np.linspace(-9, 9, 20000, endpoint=False) + 0.00045  # misses the kinks
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * 0.0009
    x = np.insert(np.linspace(-5, 5, 130), 65, [-1e-9, 1e-9])
    options = {"Leaky ReLU": "negative_slope", "ELU": "alpha"}

    def panels(weight, depth, kind, alpha):
        name, given = kind.lower().replace(" ", "_"), {}
        if kind in options:
            given[options[kind]] = alpha
        value, slope = (getattr(activations, name + form) for form in ("", "_deriv"))
        typical = np.sqrt(np.sum(density * slope(z, **given) ** 2))
        layers = np.arange(1, depth + 1)
        sizes = [gradient_magnitude(weight, layers, activation_slope=s) for s in (typical, 1.0)]
        return sizes, [value(x, **given)], [slope(x, **given)]

    return panels


def touched():
    """Return the values of gallery/convolution/plot_conv.py: touched outputs, and windows."""

    def panels(place, stride, dilation):
        options = {"stride": stride, "padding": dilation, "dilation": dilation}
        y = conv(np.eye(9)[[place]], [[[1, 2, 3]]], **options)[0]
        shown = np.zeros(9)
        shown[: len(y)] = y
        ones = np.ones((1, 1, 3))
        count, _ = conv_vjp(np.ones((1, len(y))), np.zeros((1, 9)), ones, **options)
        return [shown], [count[0]]

    return panels


#: Where each figure is, what computes it, and the file of its trained model.
FIGURES = {
    "attention/plot_statistics": (statistics, None),
    "convolution/plot_conv": (touched, None),
    "positions/plot_rotary": (rotary, None),
    "propagation/plot_gradient_magnitude": (dashboard, None),
    "recurrent/plot_rnn": (rnn, None),
    "transformer/plot_language_model": (language_model, "language_model.npz"),
    "transformer/plot_tasks": (tasks, "tasks.npz"),
    "transformer/plot_words": (words, "words.npz"),
}
