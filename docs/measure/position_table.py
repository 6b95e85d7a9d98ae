"""
Write docs/results/positions.csv: what distinguishes the position schemes.

``python docs/measure/position_table.py``; tests/test_position_table.py compares the file and code.
Most is computed here; losses and times are those of positions_measured.csv, which
docs/measure/positions_measured.py measures.
"""

import ast
import csv
import re
from pathlib import Path

import numpy as np

from dlref import positions as P

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
FILE, MEASURED = RESULTS / "positions.csv", RESULTS / "positions_measured.csv"
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


def disentangled(i, j, _text):
    """Score with tables of 32 offsets."""
    q, k = np.zeros((2, 1, i + 1, DIM))
    q[0, i], k[0, j] = Q, K
    return P.disentangled_scores(q, k, VECTORS[None, :32], LEARNED[None, :32])[0, i, j]


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


AS_THEY_ARE = "keys as they are; "
ROW = AS_THEY_ARE + "the row of the bias for the new query, by its offset"
LEARNED_PATTERN = "what is learned"

#: name, how it enters, parameters of the model above (and how often), maximum length, score, which
#: keys it favors before anything is learned, what is done where keys are kept, who uses it
SCHEMES = [
    (
        "none (a causal mask alone)", "—", "0", "any", lambda _i, _j, _text: Q @ K, "none",
        "keys as they are", "experiments :cite:p:`Haviv2022,Kazemnejad2023`",
    ),
    (
        ":func:`~dlref.positions.sinusoidal`", "added to the tokens", "0", "any",
        added(lambda p: P.sinusoidal(1, DIM, offset=p)[0]), "near ones",
        AS_THEY_ARE + "the row of the new position, by its offset",
        "Transformer :cite:p:`Vaswani2017`",
    ),
    (
        ":func:`~dlref.positions.learned_positions`", "added to the tokens", f"{L * D} once",
        "rows of the table", added(lambda p: LEARNED[p]), LEARNED_PATTERN,
        AS_THEY_ARE + "the row of the new position, until there are no more",
        "GPT-2 :cite:p:`Radford2019`, BERT :cite:p:`Devlin2019`",
    ),
    (
        ":func:`~dlref.positions.apply_rope`", "rotates queries and keys", "0", "any", rotated,
        "near ones that are like the query",
        ("keys rotated, once; tables extended on demand. Unrotated keys are kept only where the "
        "frequencies change with the length"),
        ("GPT-NeoX :cite:p:`Black2022`, LLaMA :cite:p:`Touvron2023`, "
        "Qwen :cite:p:`Bai2023`, Gemma :cite:p:`Gemma2024`"),
    ),
    (
        ":func:`~dlref.positions.apply_xpos`", "rotates and scales queries and keys", "0", "any",
        rotated_and_scaled, "near ones",
        "keys rotated and scaled, once; in long texts the scales under- and overflow",
        "RetNet :cite:p:`SunDong2023`",
    ),
    (
        ":func:`~dlref.positions.alibi_bias`", "added to the scores", "0", "any",
        biased(lambda i: P.alibi_bias(0.25, 1, i + 1, q_offset=i)[0]), "near ones", ROW,
        "BLOOM :cite:p:`Scao2022`, MPT :cite:p:`MosaicML2023`",
    ),
    (
        ":func:`~dlref.positions.t5_bias`", "added to the scores", f"{BUCKETS * H} once", "any",
        biased(
            lambda i: P.t5_bias(
                OFFSETS[:BUCKETS, None], 1, i + 1, bidirectional=False, q_offset=i
            )[0, 0]
        ),
        LEARNED_PATTERN, ROW, "T5 :cite:p:`Raffel2020`",
    ),
    (
        ":func:`~dlref.positions.relative_bias`", "added to the scores",
        f"{(2 * L - 1) * H} each layer", "offsets of the table",
        biased(lambda i: P.relative_bias(OFFSETS[TABLE - 1 - i : TABLE], 1, i + 1)[0]),
        LEARNED_PATTERN, ROW, "Swin, in two dimensions :cite:p:`LiuLin2021`",
    ),
    (
        ":func:`~dlref.positions.kerple_bias`", "added to the scores", f"{2 * H} each layer", "any",
        biased(lambda i: P.kerple_bias(1.0, 1.0, 1, i + 1, q_offset=i)[0]), "near ones", ROW,
        "models of its paper :cite:p:`Chi2022`",
    ),
    (
        ":func:`~dlref.positions.fire_bias`", "added to the scores",
        f"{2 * 32 + 33 * H + 2} each layer", "any", biased(network), LEARNED_PATTERN,
        AS_THEY_ARE + "the whole row anew, as it depends on the query's position",
        "models of its paper :cite:p:`Li2024`",
    ),
    (
        ":func:`~dlref.positions.shaw_scores`", "query times a vector", f"{33 * E} each layer",
        "any, clipped at 16", shaw, LEARNED_PATTERN,
        AS_THEY_ARE + "the new query times the 33 vectors",
        "Music Transformer :cite:p:`Huang2018`",
    ),
    (
        ":func:`~dlref.positions.transformer_xl_scores`", "query times a vector",
        f"{D * D + 2 * D} each layer", "any", transformer_xl, LEARNED_PATTERN,
        AS_THEY_ARE + "the table of projected sinusoids one row longer",
        "Transformer-XL :cite:p:`Dai2019`, XLNet :cite:p:`YangDai2019`",
    ),
    (
        ":func:`~dlref.positions.disentangled_scores`", "query and key times a vector",
        f"{512 * D} once, {2 * D * D} each layer", "any, clipped at 256", disentangled,
        LEARNED_PATTERN, AS_THEY_ARE + "the new query and the keys times the projected vectors",
        "DeBERTa :cite:p:`HeLiu2020`",
    ),
    (
        ":func:`~dlref.positions.cope`", "query times a vector", f"{64 * E} each layer",
        "any, clipped at 63", contextual, LEARNED_PATTERN,
        AS_THEY_ARE + "all gates anew, as each query opens its own",
        "models of its paper :cite:p:`Golovneva2024`",
    ),
]  # fmt: skip
HEADER = [
    "scheme",
    "enters",
    "loss at 32",
    "loss at 64",
    "loss at 128",
    "cost",
    "backward",
    "lines",
    "parameters",
    "maximum length",
    "text in front",
    "text between",
    "gradient of the query",
    "favors at first",
    "with a cache",
    "used by",
]


def slope(score):
    """Return the length of the score's gradient with respect to the query."""
    global Q  # noqa: PLW0603  # the scores read it
    here, step, ends = Q, 1e-4, []
    for sign in (1, -1):
        along = []
        for axis in np.eye(DIM):
            Q = here + sign * step * axis
            along.append(score(20, 15, TEXT))
        ends.append(np.array(along))
    Q = here
    return np.linalg.norm(ends[0] - ends[1]) / (2 * step)


def measured():
    """Return losses and cost of each scheme by its name."""
    with MEASURED.open(newline="") as file:
        return {row["scheme"]: row for row in csv.DictReader(file)}


def key(name):
    """Return the name of the function, or none."""
    return re.sub(r".*\.|`| .*", "", name)


#: What else a scheme needs, beside the function of its name and what that calls.
NEEDED = {
    "none": (),
    "apply_rope": ("apply_rope", "rope_tables", "rope_frequencies"),
    "apply_xpos": ("apply_xpos", "xpos_scales", "rope_tables", "rope_frequencies"),
    "alibi_bias": ("alibi_bias", "alibi_slopes"),
    "transformer_xl_scores": ("transformer_xl_scores", "sinusoidal"),
}


def lines(scheme):
    """Return the lines of NumPy of a scheme: those of its formula and of what that calls."""
    text = (ROOT / "dlref" / "formulas" / "positions.py").read_text(encoding="utf-8")
    known = {
        node.name: (node, text.splitlines())
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }
    todo, seen, count = list(NEEDED.get(scheme, (scheme,))), set(), 0
    while todo:
        name = todo.pop()
        if name in seen or name not in known:
            continue
        seen.add(name)
        node, text = known[name]
        options = node.body[0].end_lineno if ast.get_docstring(node) else node.lineno
        count += 1 + sum(bool(line.strip()) for line in text[options : node.end_lineno])
        called = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
        todo += [function.id for function in called if isinstance(function, ast.Name)]
    return str(count)


def rows():
    """Return the rows of the table, without its header."""
    table, found = [], measured()
    for name, enters, parameters, longest, score, favors, cache, users in SCHEMES:
        base = score(20, 15, TEXT)
        in_front = np.concatenate([TEXT[::-1][:33], TEXT])
        moved = score(20 + 33, 15 + 33, in_front)
        between = score(20, 15, np.concatenate([TEXT[:16], TEXT[300:304], TEXT[20:]]))
        same = [
            "no matter" if abs(other - base) < 1e-9 else "changes" for other in (moved, between)
        ]
        same_length = abs(slope(score) / np.linalg.norm(K) - 1) < 1e-6
        gradient = "as long as without" if same_length else "another length"
        numbers = [found[key(name)][column] for column in HEADER[2:7]]
        limits = [lines(key(name)), parameters, longest, *same, gradient]
        table.append([name, enters, *numbers, *limits, favors, cache, users])
    return table


def write():
    """Write the file."""
    with FILE.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows()])


if __name__ == "__main__":
    write()
