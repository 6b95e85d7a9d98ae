"""How often docstrings, comments and pages use the turns that ``prose.HABITS`` counts."""

from pathlib import Path

import prose
import pytest

ROOT = Path(__file__).parents[1]
#: The most of each turn in 1000 words.
TARGET = 0.5


def folders():
    """Return the files whose prose is counted, by folder: chapters, gallery, and pages."""
    found = {}
    for path in prose.counted_files():
        parts = path.relative_to(ROOT).parts
        folder = "/".join(parts[:2]) if parts[0] == "dlref" and len(parts) > 2 else parts[0]
        found.setdefault("docs" if folder == "README.md" else folder, []).append(path)
    return found | {"all": prose.counted_files()}


FOLDERS = folders()


@pytest.mark.parametrize("folder", FOLDERS)
def test_turns_in_1000_words(folder):
    words, rates = prose.rates(FOLDERS[folder])
    # A short folder may have one of each.
    over = [name for name, rate in rates.items() if rate > max(TARGET, 1000 / words)]
    places = [
        f"{path.relative_to(ROOT)}:{line}: {name}: {around}"
        for path in FOLDERS[folder]
        for name, line, around in prose.habits(prose.prose(path))
        if name in over
    ]
    assert not over, "\n".join(["see the rules of docs/contributing.rst:", *places])


def test_the_chapters_are_counted():
    assert {"docs", "gallery", "dlref/check", "dlref/_core", "dlref/calculus"} <= set(FOLDERS)


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("It returns what it was given.", ["headless what"]),
        ("What is left goes to the sink.", ["headless what"]),
        ("What is left?", []),
        ("If the input is 0, what is left of it?", []),
        ("The report says what is wrong. It is short.", []),
        ("What if it fails, whatever the input.", []),
        ("The size is that of x, the others those of y.", ["that of, those of"] * 2),
        ("Two terms, one of which is 0.", ["of which"]),
        ("The scale stands beside the score; besides, it is 1.", ["beside"]),
        ("See ``what`` and :func:`that of`.", []),
    ],
)
def test_what_is_counted(tmp_path, sentence, found):
    page = tmp_path / "page.rst"
    page.write_text(
        f"{sentence}\n\n.. math:: what + beside\n\n>>> beside = 1\n\nAn end::\n\n   what\n"
    )
    assert [name for name, *_ in prose.habits(prose.prose(page))] == found
    module = tmp_path / "module.py"
    module.write_text(f'"""Summary.\n\n{sentence}\n"""\nwhat = "beside"  # {sentence}\n')
    assert [name for name, *_ in prose.habits(prose.prose(module))] == sorted(
        2 * found, key=list(prose.HABITS).index
    )


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
