"""The symbols of docs/conventions.rst, and no others for the same things."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATTERNS = "dlref/**/*.py gallery/**/*.py docs/*.rst docs/reference/*.rst"
OWN = "docs/exercises/**/*.rst docs/steps/**/* docs/tables/**/* docs/tryit/**/*"
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for pattern in f"{PATTERNS} {OWN}".split()
    for path in ROOT.glob(pattern)
    if path.is_file()
}
OUTLAWED = {
    r"\\ln\b": r"\log",
    r"\\varepsilon\b": r"\epsilon",
    r"\\varphi\b": r"\phi",
    r"\\(mathbf|boldsymbol|bm)\b": r"\vec or \mat",
    r"\^(T\b|\{T\}|\{?\\mathsf|\\intercal|\\mathrm *\{?T)": r"^\top",
    r"\\(times|cdot|ast) *\\(tanh|sigma)": r"\odot",
    r"\\operatorname\{?(log|exp|tanh|max|min)\b": "the operator's own command",
    r"\\operatorname\{E\}": r"\E",
    r"\\vec *\{?[A-Z]\b": r"\mat for a matrix",
    r"\\mat *\{?[a-z]\b": r"\vec for a vector",
    r"(?<![\w\\}{.])[a-z] *\\cdot *[a-z]\b": r"bold vectors in their product, \, between numbers",
    r"[Cc]otangents? :math:`(?!(\\vec |\\mat )?[uU](?![a-z])|\\partial|\()[^`]*`": r"\vec u",
    r"(?<![Cc]o)\b[Tt]angents? :math:`(?!(\\vec )?v\b|v_|\\dot|\d)[^`]*`": r"\vec v, or a dot",
    r"\be = e\^": "a letter that is not Euler's number",
    r"[\x00-\x08\x0b-\x1f]": "the backslash and the letter that Python read as a control character",
}
#: Where the letter may be, with the meanings that the table gives it.
LAMBDA = {
    "weight decay": " ".join(
        f"training/_{name}"
        for name in ("adam", "sgd", "momentum", "rmsprop", "adagrad", "lion", "muon", "adafactor")
    ),
    "log-sum-exp": "losses/_cross_entropy losses/plot_cross_entropy losses/_linear_cross_entropy",
    "curvature": "training/_gradient_descent docs/rates_of_descent",
    "factor of SELU": "activations/_selu",
    "wavelength": "positions/_rotary_scaling",
    "factor of the second map": "attention/_differential_attention",
    "the table": "docs/conventions",
}
#: The norm of a letter that is not bold; of calculus, whose arguments have any number of axes.
PLAIN_NORM = re.compile(r"\\norm\{ *[A-Za-z]\b")
#: Sums to an upper limit T, T being time.
SUM_TO_T = re.compile(r"\\(sum|prod)_\{[^}]*\}\^T\b")
#: What may stand on both sides of a circle: maps.
MAPS = re.compile(r"(f|\\operatorname\{norm\}|B_K|\\dots) \\circ (g|B_K|B_1|\\dots)")


@pytest.mark.parametrize("symbol", OUTLAWED)
def test_outlawed(symbol):
    found = [
        f"{path}: {match[0]}"
        for path, text in TEXTS.items()
        for match in re.finditer(symbol, SUM_TO_T.sub("", text))
    ]
    assert not found, f"write {OUTLAWED[symbol]}"


def test_transposed_and_inverse_matrices_are_bold():
    plain = re.compile(r"(?<!\\mat )(?<![\w\\])[A-Z]\^(\\top|\{-1\}|\{-\\top\})")
    titles = re.compile(r"\$[^$\n]*\$")  # of figures: Matplotlib has no macros
    assert [p for p, text in TEXTS.items() if plain.search(titles.sub("", text))] == []


def test_lambda_has_the_meanings_of_the_table():
    places = " ".join(LAMBDA.values()).split()
    found = {p for p, text in TEXTS.items() if re.search(r"\\lambda(?![a-zA-Z])", text)}
    assert [p for p in found if not any(place in p for place in places)] == []
    assert [place for place in places if not any(place in p for p in found)] == []


def test_norms_are_of_bold_letters():
    found = {p for p, text in TEXTS.items() if PLAIN_NORM.search(text)}
    assert found <= {"dlref/calculus/_norm.py"}


def test_a_circle_is_a_composition():
    circles = {p: len(re.findall(r"(?<!\^)\\circ\b", text)) for p, text in TEXTS.items()}
    assert sum(circles.values()) >= 3
    for path, count in circles.items():
        between = re.sub(r"(\\circ) (\S+) (?=\\circ)", r"\1 \2 \2 ", TEXTS[path])
        assert len(MAPS.findall(between)) == count, path


def test_texts_are_found():
    assert len(TEXTS) > 250
