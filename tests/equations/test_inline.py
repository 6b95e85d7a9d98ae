"""Inline relations are true, where they can be read, and where a check states them."""

import functools
import itertools
import random
import re
import tomllib

import numpy as np
import pytest
from equations import defined, inline, places, stated

places.load_checks()
FOUND = {}
for _place, _text in inline.relations():
    FOUND.setdefault(_place, []).append(_text)
VERDICTS = {text: inline.verdict(text) for texts in FOUND.values() for text in texts}
IDENTITIES = tomllib.loads(inline.LIST.read_text(encoding="utf-8"))
DEFINED = defined.known()


@functools.cache
def checked():
    """Return each relation that a check states, with its file; the checks call many kernels."""
    return {(file, text) for file, check in stated.STATED.values() for text, *_ in check()}


def in_file(file):
    return {t for place, texts in FOUND.items() if place.partition("::")[0] == file for t in texts}


def test_relations_between_numbers_are_true():
    false = [(place, t) for place, ts in FOUND.items() for t in ts if VERDICTS[t] == "false"]
    assert not false
    assert sum(verdict == "number" for verdict in VERDICTS.values()) >= 25


@pytest.mark.parametrize("place", IDENTITIES)
def test_identities_stand_where_they_are_listed(place):
    gone = [t for t in IDENTITIES[place] if VERDICTS.get(t) != "identity" or t not in FOUND[place]]
    assert not gone, "changed? If right: tox run -e written"


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


def test_gradients_are_named_without_a_factor():
    named = [(place, t) for place, ts in FOUND.items() for t in ts if inline.names_gradient(t)]
    assert len(named) >= 60
    assert not [pair for pair in named if not inline.is_named_rightly(pair[1])]
    assert not [pair for pair in named if not inline.is_name(*pair)]
    for text in (r"u = -\partial L / \partial y", r"\vec u_t = \partial L / \partial \vec h_s"):
        assert not inline.is_named_rightly(text)


def test_no_check_states_again_what_is_read():
    """A relation that holds in what is displayed beside it, or of numbers, needs no check."""
    for file, text in checked():
        here = [p for p, ts in FOUND.items() if p.partition("::")[0] == file and text in ts]
        assert not all(text in DEFINED.get(place, {}) for place in here), (file, text)
        assert VERDICTS[text] != "number", (file, text)


def test_six_hundred_results_are_checked():
    read = {(p, text) for known in (IDENTITIES, DEFINED) for p, ts in known.items() for text in ts}
    numbers = {text for text, verdict in VERDICTS.items() if verdict == "number"}
    assert len(checked()) + len(read) + len(numbers) >= 600


def wrong(text, rng):
    """Return a relation with one mistake: a sign, a comparison, a digit, a letter, or a factor."""
    kinds = [
        (r"(?<![({^=,] )(?<![({^=,])-", "+"),
        (r"\+", "-"),
        (r"\\le\b", r"\\ge "),
        (r"\\ge\b", r"\\le "),
        (r"<", ">"),
        (r"\d(?![\d.]*[a-zA-Z])", lambda m: str((int(m[0]) + 1) % 10)),
        (r"\\sum", r"2 \\sum"),
        (r"\\odot", "+"),
        (r"\\tanh", r"\\sinh"),
        (r"\^\\top", ""),
        (r"= (?!-)", "= -"),
        (r"(?<![a-zA-Z\\{])[ux](?![a-zA-Z])", "w"),
        (r"$", " + 1"),
    ]
    found = [(m, new) for old, new in kinds for m in re.finditer(old, text)]
    match, new = rng.choice(found)
    planted = match.expand(new) if isinstance(new, str) else new(match)
    return text[: match.start()] + planted + text[match.end() :]


def is_seen(place, text, planted):
    """Whether a test turns red if a place has the planted text in place of its own."""
    file = place.partition("::")[0]
    here = [t for p, ts in FOUND.items() if p.partition("::")[0] == file for t in ts]
    if VERDICTS[text] == "number":
        return inline.verdict(planted) == "false"
    if inline.names_gradient(text):
        return inline.names_gradient(planted) and not (
            inline.is_named_rightly(planted) and inline.is_name(place, planted)
        )
    if text in IDENTITIES.get(place, []) or text in DEFINED.get(place, {}):
        return FOUND[place].count(text) == 1
    return (file, text) in checked() and here.count(text) == 1


def test_planted_mistakes_are_seen():
    """Of 200 mistakes in inline relations that state something, in all files, 95 %."""
    rng = random.Random(0)
    places = [(p, t) for p, ts in FOUND.items() for t in ts if inline.states(t)]
    assert len(places) > 250
    chosen = rng.sample(places, 200)
    seen = [is_seen(place, text, wrong(text, rng)) for place, text in chosen]
    assert sum(seen) >= 190, [where for where, s in zip(chosen, seen, strict=True) if not s]
