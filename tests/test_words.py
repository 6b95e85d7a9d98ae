"""The field's words and full lines: what docstrings, pages and figures do not say."""

import re
from pathlib import Path

import prose
import pytest

ROOT = Path(__file__).parents[1]
PATTERNS = "dlref/**/*.py gallery/**/*.py docs/*.rst docs/reference/*.rst docs/exercises/**/*.rst"
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for pattern in PATTERNS.split()
    for path in sorted(ROOT.glob(pattern))
    if path.name != "changelog.rst"
}
#: What is outlawed everywhere, and what to write.
OUTLAWED = {
    r"has not the shape": "does not have shape",
    r"shortest subgradient": "minimum-norm subgradient",
    r"\bparaboloid": "quadratic",
    r"normal distribution function": "standard normal CDF",
    r"scaled normal tail": "Mills ratio",
    r"\blast but one\b": "second to last",
    r"\bgreatest length\b": "maximum length",
    r"\bthrice\b": "three times",
    r"\bundiminished\b": "unchanged",
    r"\bat the time of use\b": "at inference",
    r"\b(Taken|Returned) is\b": "We take, Returns",
    r"\bmoments stay\b": "moments are preserved",
    r"(?i)errors of a number|\byes or no\n[-=~^]": "Regression losses, Binary classification",
    r"\bis no (tuple|matrix|integer|number|pair|generator|callable|sequence)\b": "is not a ...",
    r"` no (integer|number|tuple|pair|generator)\b": "is not a ...",
    r"[Dd]erivatives by number": "numerical derivatives",
    r"No scores have no|Not a number nowhere|None has none": "a plain statement",
    r"turns log-odds|how surprised a reader|cost less than nothing": "a plain statement",
    r"Neither is an encoder": "a plain statement",
    r"\b[Ww]ays? (back|forward)\b|\bway there\b": "backward pass, forward pass",
    r"\b([Gg]radient|[Dd]erivative)s? (for|by)\s+(the\s+(scores?|target|weights|"
    r"logits|outputs?|inputs?|predictions?|logarithms)|[wxyz]\b)": ("with respect to"),
    r"\b[Ss]hortcut": "residual connection",
    r"\bcut off\b|\bcut up\b": "clipped, split",
    r"\b(silent (unit|neuron)|shut)\b": "inactive",
    r"\bshall\b": "must",
    r"\bin use\b": "at inference",
    r"\bturned\b": "rotated",
    r"mean stays|\bKept (is|are)\b|pulls back|tenfold a": "a plain statement",
    r"\bless (1|one|the (mean|share))\b|\brows less\b": "minus",
    r"\b(nats|bits|bytes|radians) a (token|text|step|position|layer|symbol|character|row)\b": "per",
    r"[^_=\w](?<![Ss]tandard )deviation of": "standard deviation",
    r"\b(lost|exponential|percent|ULP|\d`?) an? (step|token|head|logit|layer|row|epoch)\b": "per",
    r"\b[Bb]ehind the (end|norm|layer)\b": "after",
    r"\bsends? back\b|\bhands? it (on|through)\b": "passes",
    r"\bmoves (with|every)\b": "changes, tangent",
    r"\bhad better\b|\bcaller's affair\b": "should",
    r":math:`\s": "mathematics after the backtick; a backslash and an n became a new line",
}


def found(pattern, texts):
    pattern = re.compile(pattern, re.MULTILINE)
    return [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}"
        for path, text in texts.items()
        for match in pattern.finditer(text)
    ]


@pytest.mark.parametrize("pattern", OUTLAWED)
def test_outlawed(pattern):
    assert not found(pattern, TEXTS), f"write: {OUTLAWED[pattern]}"


def test_the_patterns_find_what_they_outlaw():
    samples = [
        "x has not the shape (3,)",
        "`x` is no tuple",
        "`x` is real, `axis` no integer",
        "The way back",
        "the gradient for the scores of",
        "A shortcut around",
        "lost a step.",
        "grows by 7 percent a layer",
        "a layer behind the norm",
        "3 nats a token",
        "It is turned by an angle",
        "The length of :math:`\norm x`",
    ]
    for sample in samples:
        assert any(found(pattern, {"": sample}) for pattern in OUTLAWED), sample


#: Chapters and pages whose lines are full.
FULL = [
    *(ROOT / "dlref").glob("*/_*.py"),
    *(ROOT / "docs/reference").glob("*.rst"),
]


@pytest.mark.parametrize("path", FULL, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_ragged_lines(path):
    assert not list(prose.ragged_lines(path))


def test_a_ragged_line_is_found(tmp_path):
    text = '"""Summary.\n\nA first line that is long enough to be one,\nand\nthen a second.\n"""\n'
    (tmp_path / "a.py").write_text(text)
    assert list(prose.ragged_lines(tmp_path / "a.py")) == ["and"]
    prose.reflow(tmp_path / "a.py")
    assert not list(prose.ragged_lines(tmp_path / "a.py"))
    assert "to be one, and then a second." in (tmp_path / "a.py").read_text()
