"""What dlref computes for the figures to try, at the settings that the browser tests choose.

Those of docs/tryit, and the maps of gallery/attention/plot_statistics.py with their statistics.

    python tests/tryit.py

writes tests/site/tryit.json, since the environment of the browser has no dlref.
"""

import ast
import itertools
import json
from pathlib import Path

import numpy as np

from dlref.attention import (
    attention_distance,
    attention_entropy,
    attention_shares,
    scaled_dot_product_attention,
)
from dlref.positions import apply_rope, rope_frequencies, rope_tables

VALUES = Path(__file__).parent / "site" / "tryit.json"
Q = [[1.0, 0.5, -0.5, 1.0, 0.8, -0.2, 0.3, 0.6]]
K = [[0.6, -0.4, 1.0, 0.5, 0.2, 0.9, -0.7, 0.4]]
#: Scores that are typed into the figure, and values of the words "a b c", read from it.
SCORES = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, -1.5], [2.5, 2.5, -4.0]])


def rope():
    """Yield settings of the dials, and the scores at these positions and ten tokens later."""
    settings = itertools.product([0, 7], [5, 50], [100, 10000], [True, False], [True, False])
    for m, n, base, of_q, of_k in settings:
        frequencies = rope_frequencies(8, base=float(base))
        q, k = (
            apply_rope(x, *rope_tables([p, p + 10], frequencies), interleaved=interleaved)
            for x, p, interleaved in ((np.repeat(Q, 2, 0), m, of_q), (np.repeat(K, 2, 0), n, of_k))
        )
        pairings = ["interleaved" if of else "half-split" for of in (of_q, of_k)]
        yield [m, n, base, *pairings], (q * k).sum(axis=-1).tolist()


def seen(mask, offset):
    """Return what a mask of the workbench lets three queries see of three keys."""
    queries, keys = np.arange(3)[:, None], np.arange(3)
    return {
        "none": queries >= 0 * keys,
        "causal": keys <= queries + offset,
        "hide the first key": (keys > 0) & (queries >= 0),
        "hide all keys of the first query": (queries > 0) & (keys >= 0),
    }[mask]


def attention():
    """Yield settings of the workbench, and the weights."""
    masks = ["none", "causal", "hide the first key", "hide all keys of the first query"]
    for mask, offset, scale, slope in itertools.product(masks, [0, 1], [0.5, 2.0], [0.0, 0.75]):
        distance = abs(np.arange(3)[:, None] + offset - np.arange(3))
        weights = scaled_dot_product_attention(
            SCORES,
            np.eye(3),
            np.eye(3),
            scale=scale,
            mask=seen(mask, offset),
            bias=-slope * distance,
        )
        yield [mask, offset, scale, slope], weights.tolist()


def defined(script, *names):
    """Return functions and constants of a script, without running what it computes and draws."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    tree.body = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.ImportFrom) and node.module.startswith("dlref"))
        or (isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Tuple))
    ]
    scope = {"np": np}
    exec(compile(tree, script.name, "exec"), scope)
    return [scope[name] for name in names]


def statistics():
    """Yield settings of the attention explorer, the map, keys attended to, distance and shares."""
    script = VALUES.parents[2] / "gallery" / "attention" / "plot_statistics.py"
    maps, sentences = defined(script, "random_maps", "SENTENCES")
    for sentence, layer, head in [(0, 0, 0), (0, 2, 3), (3, 1, 2)]:
        weights = maps(sentences[sentence])[layer, head]
        curves = [np.exp(attention_entropy(weights)), attention_distance(weights)]
        curves += [*attention_shares(weights).T]
        yield [sentence, layer, head], [weights.tolist(), *(c.tolist() for c in curves)]


def values():
    return {
        "rope": [*rope()],
        "scores": SCORES.tolist(),
        "attention": [*attention()],
        "statistics": [*statistics()],
    }


if __name__ == "__main__":
    VALUES.write_text(json.dumps(values(), indent=1) + "\n")
