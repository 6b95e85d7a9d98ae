"""Every displayed equation has a check, and every check its equation."""

from pathlib import Path

import pytest
from equations import ledger, places
from selection import TOPIC

places.load_checks()
MODULES = [path.stem for path in Path(__file__).parent.glob("*.py")]
FILES = ledger.files()


@pytest.mark.parametrize("file", FILES)
def test_every_equation_has_a_check(file):
    missing = [
        f"{place}: {text}"
        for place, text in ledger.places()
        if text not in ledger.CHECKS and place.partition("::")[0] == file
    ]
    chapter = next((name for name in MODULES if f"/{name}" in file), "pages")
    where = f"tests/equations/{chapter}.py"
    where += (
        " (or elementwise.py: MAPS for products, @reads for the rest)"
        if chapter == "activations"
        else ""
    )
    assert not missing, f"{where}: no check of\n" + "\n".join(missing)


KNOWN = places.known()


@pytest.mark.parametrize("file", sorted({*FILES, *(place.partition("::")[0] for place in KNOWN)}))
def test_every_equation_stands_in_its_place(file):
    found = places.found()
    here = [place for place in sorted({*found, *KNOWN}) if place.partition("::")[0] == file]
    differ = [
        place
        for place in here
        if found.get(place) != KNOWN.get(place)
        and "no check" not in found.get(place, ())  # which fails in the test above
    ]
    where = "tests/equations/places.toml: run `tox run -e written`, then read the difference"
    assert not differ, f"{where} of {differ}"


def test_every_check_has_its_equation():
    assert not set(ledger.CHECKS) - {text for _, text in ledger.places()}


#: Where the equations of one topic stand, if it runs alone, so that -k selects their checks.
PLACES = {text: place for place, text in ledger.places()} if TOPIC else {}


@pytest.mark.parametrize("text", ledger.CHECKS, ids=lambda text: f"{PLACES.get(text, '')} {text}")
def test_equation(text):
    check = ledger.CHECKS[text]
    ledger.compare(check.lines(), check)


@pytest.mark.parametrize("beginning", [r"\pdv{L}{x_j} = …", "no equation begins so…"])
def test_a_beginning_names_one_equation(beginning):
    with pytest.raises(AssertionError, match="displayed equations begin with"):
        ledger.completed(beginning)
