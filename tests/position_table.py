"""
Write docs/results/positions.csv: what distinguishes the position schemes, computed.

``python tests/position_table.py``; tests/test_position_table.py compares the file with the code.
"""

import csv
from pathlib import Path

import numpy as np

from dlref import positions as P

FILE = Path(__file__).parents[1] / "docs" / "results" / "positions.csv"
D, H, E, L, BUCKETS = 512, 8, 64, 512, 32  # the model that parameters are counted for
DIM, TABLE = 16, 600  # of the scores that are compared
RNG = np.random.default_rng(7)
Q, K, *XL = RNG.normal(size=(4, DIM))
TEXT, LEARNED = RNG.normal(size=(2, TABLE, DIM))
OFFSETS = RNG.normal(size=2 * TABLE - 1)
VECTORS = RNG.normal(size=(33, DIM))
FREQUENCIES = P.rope_frequencies(DIM)


def added(table):
    """Score of the query in place i and the key in place j, with vectors added to both."""
    return lambda i, j, _text: (Q + table(i)) @ (K + table(j))


def rotated(i, j, _text):
    q, k = P.apply_rope([Q, K], *P.rope_tables([i, j], FREQUENCIES))
    return q @ k


def rotated_and_scaled(i, j, _text):
    tables = *P.rope_tables([i, j], FREQUENCIES), P.xpos_scales([i, j], DIM)
    return P.apply_xpos([Q, K], *tables)[0] @ P.apply_xpos([Q, K], *tables, inverse=True)[1]


def biased(bias):
    """Score with a number added, computed for the query in place i and all keys up to it."""
    return lambda i, j, _text: Q @ K + bias(i)[j]


def shaw(i, j, _text):
    q = np.zeros((i + 1, DIM))
    q[i] = Q
    return Q @ K + P.shaw_scores(q, VECTORS)[i, j]


def transformer_xl(i, j, _text):
    sinusoids = P.sinusoidal(i + 1, DIM)[::-1]  # offsets -i to 0
    keys = np.zeros((i + 1, DIM))
    keys[j] = K
    return P.transformer_xl_scores([Q], keys, sinusoids, *XL)[0, j]


def contextual(i, j, text):
    keys = text[: i + 1].copy()
    keys[j] = K
    return Q @ K + P.cope([Q], [keys @ Q], LEARNED[:200])[0, j]


def network(i):
    return P.fire_bias(VECTORS[0], VECTORS[1], [VECTORS[2]], [0.0], 0.1, 8.0, 1, i + 1, q_offset=i)[
        0, 0
    ]


#: name, how it enters, parameters of the model above (and how often), maximum length, score
SCHEMES = [
    ("none (a causal mask alone)", "—", "0", "any", lambda _i, _j, _text: Q @ K, ""),
    (
        ":func:`~dlref.positions.sinusoidal`", "added to the tokens", "0", "any",
        added(lambda p: P.sinusoidal(1, DIM, offset=p)[0]), "Transformer :cite:p:`Vaswani2017`",
    ),
    (
        ":func:`~dlref.positions.learned_positions`", "added to the tokens", f"{L * D} once",
        "rows of the table", added(lambda p: LEARNED[p]), "BERT :cite:p:`Devlin2019`",
    ),
    (
        ":func:`~dlref.positions.apply_rope`", "rotates queries and keys", "0", "any", rotated,
        "GPT-NeoX :cite:p:`Black2022`, LLaMA :cite:p:`Touvron2023`",
    ),
    (
        ":func:`~dlref.positions.apply_xpos`", "rotates and scales queries and keys", "0", "any",
        rotated_and_scaled, "",
    ),
    (
        ":func:`~dlref.positions.alibi_bias`", "added to the scores", "0", "any",
        biased(lambda i: P.alibi_bias(0.25, 1, i + 1, q_offset=i)[0]), "BLOOM :cite:p:`Scao2022`",
    ),
    (
        ":func:`~dlref.positions.t5_bias`", "added to the scores", f"{BUCKETS * H} once", "any",
        biased(
            lambda i: P.t5_bias(
                OFFSETS[:BUCKETS, None], 1, i + 1, bidirectional=False, q_offset=i
            )[0, 0]
        ),
        "T5 :cite:p:`Raffel2020`",
    ),
    (
        ":func:`~dlref.positions.relative_bias`", "added to the scores",
        f"{(2 * L - 1) * H} each layer", "offsets of the table",
        biased(lambda i: P.relative_bias(OFFSETS[TABLE - 1 - i : TABLE], 1, i + 1)[0]), "",
    ),
    (
        ":func:`~dlref.positions.kerple_bias`", "added to the scores", f"{2 * H} each layer", "any",
        biased(lambda i: P.kerple_bias(1.0, 1.0, 1, i + 1, q_offset=i)[0]), "",
    ),
    (
        ":func:`~dlref.positions.fire_bias`", "added to the scores",
        f"{2 * 32 + 33 * H + 2} each layer", "any", biased(network), "",
    ),
    (
        ":func:`~dlref.positions.shaw_scores`", "query times a vector", f"{33 * E} each layer",
        "any, clipped at 16", shaw, "",
    ),
    (
        ":func:`~dlref.positions.transformer_xl_scores`", "query times a vector",
        f"{D * D + 2 * D} each layer", "any", transformer_xl, "Transformer-XL :cite:p:`Dai2019`",
    ),
    (
        ":func:`~dlref.positions.cope`", "query times a vector", f"{64 * E} each layer",
        "any, clipped at 63", contextual, "",
    ),
]  # fmt: skip
HEADER = [
    "scheme",
    "enters",
    "parameters",
    "maximum length",
    "text in front",
    "text between",
    "used by",
]


def rows():
    """Return the rows of the table, without its header."""
    table = []
    for name, enters, parameters, longest, score, users in SCHEMES:
        base = score(20, 15, TEXT)
        in_front = np.concatenate([TEXT[::-1][:33], TEXT])
        moved = score(20 + 33, 15 + 33, in_front)
        between = score(20, 15, np.concatenate([TEXT[:16], TEXT[300:304], TEXT[20:]]))
        same = [
            "no matter" if abs(other - base) < 1e-9 else "changes" for other in (moved, between)
        ]
        table.append([name, enters, parameters, longest, *same, users])
    return table


if __name__ == "__main__":
    with FILE.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows()])
