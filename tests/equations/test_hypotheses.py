"""Statements hold where their hypotheses do, and fail beyond them."""

import pytest
from equations import hypotheses, ledger, places

places.load_checks()

#: Sentences without a check: a proof that an exercise asks for, and a condition of a reader's.
LEFT = ("show that the three steps of one period add up to a positive number",)


@pytest.mark.parametrize("name", hypotheses.HYPOTHESES)
def test_a_statement_holds_inside_and_fails_outside(name):
    file, check = hypotheses.HYPOTHESES[name]
    source = ledger.normalized((ledger.ROOT / file).read_text(encoding="utf-8"))
    for sentence, inside, outside in check():
        assert sentence in source, f"{file} does not say: {sentence}"
        assert inside, f"{sentence}: fails inside its hypothesis"
        assert outside, f"{sentence}: holds outside of it"


def test_every_sentence_with_a_hypothesis_is_checked():
    said = {
        (file, sentence)
        for file, check in hypotheses.HYPOTHESES.values()
        for sentence, *_ in check()
    }
    found = list(hypotheses.sentences())
    left = [
        f"{place}: {sentence}"
        for place, sentence in found
        if not any(place.partition("::")[0] == f and s in sentence for f, s in said)
        and not any(words in sentence for words in LEFT)
    ]
    assert len(found) >= 35
    assert not left, "no check under @hypothesis in tests/equations of\n" + "\n".join(left)
