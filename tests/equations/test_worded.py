"""Sentences with numbers in words stand in their files and are true; a wrong number is seen."""

import pytest
from equations import ledger, places, worded

places.load_checks()


@pytest.mark.parametrize("name", worded.WORDED)
def test_sentences_are_true(name):
    file, check = worded.WORDED[name]
    source = " ".join((ledger.ROOT / file).read_text(encoding="utf-8").split())
    for sentence, *values in check():
        text, said = worded.marked(sentence)
        assert text in source, f"{file} does not say: {text}"
        assert worded.holds(said, *values), f"{text}: {float(values[0])}"


def test_wrong_numbers_are_seen():
    """Of 200 mistakes in the numbers of all sentences, 95 %."""
    entries = [entry for _, check in worded.WORDED.values() for entry in check()]
    assert len(entries) >= 50
    seen = []
    for sentence, *values in entries:
        _, said = worded.marked(sentence)
        others = {2 * said, said / 2, 1.1 * said, said + 1} - {said}  # twice 0 is 0
        seen += [not worded.holds(wrong, *values) for wrong in others]
    assert len(seen) >= 200
    assert sum(seen) >= 0.95 * len(seen)
