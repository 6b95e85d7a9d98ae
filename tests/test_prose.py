"""How often docstrings, comments and pages use the turns that ``prose.HABITS`` counts."""

from pathlib import Path

import prose
import pytest

ROOT = Path(__file__).parents[1]
#: The most of each turn in 1000 words.
TARGET = 0.5
#: Folders above the target, with the rates measured there. They only fall; the target is TARGET.
CEILINGS = {
    "dlref/check": {"headless what": 12.1, "that of, those of": 2.7, "beside": 0.6},
    "dlref/_core": {"headless what": 6.3, "that of, those of": 3.0},
    "dlref/transformer": {"headless what": 8.4, "that of, those of": 2.6},
    # of _multi_head.py and _block.py
    "dlref/attention": {"headless what": 0.6, "that of, those of": 1.1},
    # of _families.py, _modules.py and _state_dicts.py
    "dlref/interop": {
        "headless what": 7.8,
        "that of, those of": 2.1,
        "of which": 0.6,
        "beside": 0.6,
    },
    "all": {"headless what": 1.9, "that of, those of": 0.6},
}


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
    ceilings = dict.fromkeys(prose.HABITS, TARGET) | CEILINGS.get(folder, {})
    words, rates = prose.rates(FOLDERS[folder])
    # A short folder may have one of each.
    over = [name for name, rate in rates.items() if rate > max(ceilings[name], 1000 / words)]
    places = [
        f"{path.relative_to(ROOT)}:{line}: {name}: {around}"
        for path in FOLDERS[folder]
        for name, line, around in prose.habits(prose.prose(path))
        if name in over
    ]
    assert not over, "\n".join(["see the ten rules of docs/contributing.rst:", *places])


def test_the_chapters_are_counted():
    assert {"docs", "gallery", "dlref/check", "dlref/_core", "dlref/calculus"} <= set(FOLDERS)
    assert set(CEILINGS) <= set(FOLDERS)


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
