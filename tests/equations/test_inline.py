"""Inline relations are true, where they can be read, and where a check states them."""

import itertools
import tomllib

import numpy as np
import pytest
from equations import inline, stated

FOUND = {}
for _place, _text in inline.relations():
    FOUND.setdefault(_place, []).append(_text)
VERDICTS = {text: inline.verdict(text) for texts in FOUND.values() for text in texts}
IDENTITIES = tomllib.loads(inline.LIST.read_text(encoding="utf-8"))


def in_file(file):
    return {t for place, texts in FOUND.items() if place.partition("::")[0] == file for t in texts}


def test_relations_between_numbers_are_true():
    false = [(place, t) for place, ts in FOUND.items() for t in ts if VERDICTS[t] == "false"]
    assert not false
    assert sum(verdict == "number" for verdict in VERDICTS.values()) >= 25


@pytest.mark.parametrize("place", IDENTITIES)
def test_identities_stand_where_they_are_listed(place):
    gone = [t for t in IDENTITIES[place] if VERDICTS.get(t) != "identity" or t not in FOUND[place]]
    assert not gone, "changed? If right: PYTHONPATH=tests python -m equations.inline"


@pytest.mark.parametrize("name", stated.STATED)
def test_stated_relations_are_true(name):
    file, check = stated.STATED[name]
    here = in_file(file)
    for text, *values in check():
        assert text in here, f"{file} states it no more, or otherwise: {text}"
        tolerance = values.pop() if isinstance(values[-1], stated.Near) else 1e-10
        assert len(values) >= 2
        for one, other in itertools.pairwise(values):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=tolerance, err_msg=text)


def test_a_hundred_stated_results_are_checked():
    texts = {(file, text) for file, check in stated.STATED.values() for text, *_ in check()}
    listed = {(place, text) for place, ts in IDENTITIES.items() for text in ts}
    numbers = {text for text, verdict in VERDICTS.items() if verdict == "number"}
    assert len(texts) + len(listed) + len(numbers) >= 200
