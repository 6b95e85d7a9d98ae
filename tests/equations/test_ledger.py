"""Every displayed equation has a check, and every check its equation."""

from pathlib import Path

import pytest
from equations import ledger, places

places.load_checks()
MODULES = [path.stem for path in Path(__file__).parent.glob("*.py")]
PLACES = ledger.places()
FILES = sorted({place.partition("::")[0] for place, _ in PLACES})


@pytest.mark.parametrize("file", FILES)
def test_every_equation_has_a_check(file):
    missing = [
        f"{place}: {text}"
        for place, text in PLACES
        if text not in ledger.CHECKS and place.partition("::")[0] == file
    ]
    chapter = next((name for name in MODULES if f"/{name}" in file), "pages")
    where = f"tests/equations/{chapter}.py"
    where += " (MAPS of elementwise.py, if one)" if chapter == "activations" else ""
    assert not missing, f"{where}: no check of\n" + "\n".join(missing)


FOUND, KNOWN = places.found(), places.known()
#: The places of each file; one that has no check yet fails in the test above.
PLACED: dict = {}
for _place in sorted({*FOUND, *KNOWN}):
    if "no check" not in FOUND.get(_place, ()):
        PLACED.setdefault(_place.partition("::")[0], []).append(_place)


@pytest.mark.parametrize("file", PLACED)
def test_every_equation_stands_in_its_place(file):
    differ = [place for place in PLACED[file] if FOUND.get(place) != KNOWN.get(place)]
    where = "tests/equations/places.toml: `PYTHONPATH=tests python tests/equations/places.py`"
    assert not differ, f"{where} writes the checks of {differ} anew, if they are right"


def test_every_check_has_its_equation():
    assert not set(ledger.CHECKS) - {text for _, text in PLACES}


@pytest.mark.parametrize("text", ledger.CHECKS)
def test_equation(text):
    check = ledger.CHECKS[text]
    ledger.compare(check.function(), check)
