"""Inline definitions stand where they are listed, and hold in what is displayed beside them."""

import collections
import random

import pytest
from equations import defined, inline, ledger, places
from selection import is_selected

places.load_checks()
KNOWN = {place: texts for place, texts in defined.known().items() if is_selected(place)}
FOUND = collections.defaultdict(list)
for _place, _text in inline.relations():
    FOUND[_place].append(_text)


def check_of(place, name):
    return defined.checks_for(place)[name]


@pytest.mark.parametrize("place", KNOWN)
def test_definitions_stand_in_their_places_and_hold(place):
    gone = [text for text in KNOWN[place] if text not in FOUND[place]]
    assert not gone, "changed? If right: tox run -e written"
    by_check = collections.defaultdict(list)
    for text, name in KNOWN[place].items():
        by_check[name].append(text)
    for name, texts in by_check.items():
        check = check_of(place, name)
        for text in texts:
            ledger.compare(check.lines_of((text, *check.texts)), check)


@pytest.mark.parametrize("place", [place for place in defined.valued() if is_selected(place)])
def test_definitions_hold_with_their_values(place):
    for text, check in defined.valued()[place].items():
        assert text in FOUND[place], f"{place} does not define: {text}"
        assert text not in KNOWN.get(place, {}), f"checked by an equation beside it: {text}"
        ledger.compare(check.lines_of((text,)), check)
        assert all(defined.holds(check, other) is False for other in defined.wrong(text))


def test_many_are_checked():
    assert sum(map(len, defined.known().values())) >= 340


def test_wrong_definitions_are_seen():
    every = [(p, text, name) for p, texts in KNOWN.items() for text, name in texts.items()]
    for place, text, name in random.Random(0).sample(every, min(20, len(every))):
        for other in defined.wrong(text):
            assert defined.holds(check_of(place, name), other) is False
