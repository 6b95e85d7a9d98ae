"""The symbols of docs/conventions.rst, and no others for the same things."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATTERNS = "dlref/**/*.py gallery/**/*.py docs/*.rst docs/reference/*.rst"
OWN = "docs/exercises/**/*.rst docs/steps/**/* docs/tryit/**/*"
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
    r"\be = e\^": "a letter that is not Euler's number",
    r"[\x00-\x08\x0b-\x1f]": "the backslash and the letter that Python read as a control character",
}
#: Sums to an upper limit T, T being time.
SUM_TO_T = re.compile(r"\\(sum|prod)_\{[^}]*\}\^T\b")
#: What may stand on both sides of a circle: maps.
MAPS = re.compile(r"(f|\\operatorname\{norm\}|B_L|\\dots) \\circ (g|B_L|B_1|\\dots)")


@pytest.mark.parametrize("symbol", OUTLAWED)
def test_outlawed(symbol):
    found = [
        f"{path}: {match[0]}"
        for path, text in TEXTS.items()
        for match in re.finditer(symbol, SUM_TO_T.sub("", text))
    ]
    assert not found, f"write {OUTLAWED[symbol]}"


def test_a_circle_is_a_composition():
    circles = {p: len(re.findall(r"(?<!\^)\\circ\b", text)) for p, text in TEXTS.items()}
    assert sum(circles.values()) >= 3
    for path, count in circles.items():
        between = re.sub(r"(\\circ) (\S+) (?=\\circ)", r"\1 \2 \2 ", TEXTS[path])
        assert len(MAPS.findall(between)) == count, path


def test_texts_are_found():
    assert len(TEXTS) > 250
