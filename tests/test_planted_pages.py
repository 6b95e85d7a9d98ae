"""Wrong changes that docs/measure/planted_pages.py plants in what pages say are seen."""

import random

import planted_pages
import pytest

#: The least share that tests see of 40 changes.
LEAST = {
    "displayed": 0.95,
    "inline_statement": 0.85,
    "inline_definition": 0.75,
    "number_in_prose": 0.85,
    "error_bound": 0.85,
    "default": 0.85,
    "hypothesis": 0.85,
}


@pytest.mark.parametrize("kind", LEAST)
def test_most_changes_are_seen(kind):
    rng, plant = random.Random(0), getattr(planted_pages, kind)
    drawn = [plant(rng) for _ in range(40)]
    assert sum(seen for _, seen in drawn) >= 40 * LEAST[kind]


@pytest.mark.parametrize("transcribed", [False, True])
def test_changes_of_page_and_ledger_alike_are_seen(transcribed):
    rng = random.Random(0)
    drawn = [planted_pages.alike(rng, transcribed=transcribed) for _ in range(10)]
    assert not [words for words, seen in drawn if not seen]


def test_a_right_text_is_not_counted_as_seen():
    """Nothing tells an unchanged sentence, relation or figure from the true one."""
    for place, text in planted_pages.errors():
        assert not planted_pages.is_bound_seen(place, text, text)
    rng = random.Random(0)
    others = {planted_pages.wrong_number("0.5", rng) for _ in range(40)}
    assert {"1", "1.5", "0.7"} <= others
    assert "0.5" not in others
