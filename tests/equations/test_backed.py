"""Every number in prose is backed by what stands beside it, or computed; a wrong one is seen."""

import collections

import pytest
from equations import backed, defined, places, worded
from selection import is_selected

places.load_checks()
#: Names that are given numbers which no code of their place has.
UNCHECKED = {
    r"dlref/neurons/_linear.py::linear: n_{in}",
    r"dlref/propagation/_signal_propagation.py::critical_gain: \chi",
    r"dlref/training/_adam.py::adam_step: v",
    r"docs/accuracy.rst: x",
    r"docs/rates_of_descent.rst: \kappa",
    r"docs/exercises/recurrent/lstm.rst: o",
}
BY_FILE = collections.defaultdict(list)
for _place, _sentence, _part in backed.sentences():
    if is_selected(_place):
        BY_FILE[_place.partition("::")[0]].append((_place, _sentence, _part))


@pytest.mark.parametrize("file", BY_FILE)
def test_numbers_are_backed(file):
    alone = [
        f"{sentence[: spot.start()]}[{spot[0]}]{sentence[spot.end() :]}"
        for place, sentence, part in BY_FILE[file]
        for spot in backed.spots(sentence)
        if worded.is_alone(place, part, sentence, spot)
    ]
    assert not alone, (
        "compute the number in brackets under @worded, or in sentences.toml: " + "\n".join(alone)
    )


def test_phrases_have_the_right_numbers():
    found = [
        (place, m[0], right) for place, s, _ in backed.sentences() for m, right in worded.phrased(s)
    ]
    assert not [(place, words) for place, words, right in found if not right]
    assert len(found) >= 3 * len(worded.PHRASES)


def test_names_of_numbers_have_them_in_the_code():
    every = backed.literals()
    alone = [(p, text) for (p, text), part in every.items() if not backed.is_literal(p, part, text)]
    checked = {**defined.known(), **defined.valued()}
    alone = [pair for pair in alone if pair[1] not in checked.get(pair[0], {})]
    assert {f"{place}: {text.partition(' =')[0]}" for place, text in alone} <= UNCHECKED
    assert len(every) >= 50


def test_few_numbers_are_given():
    """Each such phrase stands in a sentence, and the register has its number; few are so."""
    every = [(s, spot) for _, s, _ in backed.sentences() for spot in backed.spots(s)]
    given = [(s, spot) for s, spot in every if worded.is_given(s, spot)]
    assert len(worded.GIVEN) <= len(given) <= 0.105 * len(every)


def test_given_numbers_are_those_of_the_register():
    every = [
        (place, m[0], known) for place, s, _ in backed.sentences() for m, known in worded.given(s)
    ]
    assert not [(place, words) for place, words, known in every if not known]


def test_another_number_is_not_what_is_given():
    phrase = next(phrase for phrase, numbers in worded.GIVEN.items() if numbers == {"112"})
    sentence = phrase.replace("#", "112").replace("\\", "")
    (spot,) = [s for s in backed.spots(sentence) if s[0] == "112"]
    assert worded.is_given(sentence, spot)
    other = sentence.replace("112", "113")
    assert not any(worded.is_given(other, spot) for spot in backed.spots(other))


@pytest.mark.parametrize(("name", "is_known"), [("Llama 3.1", True), ("Llama 3.4", False)])
def test_names_with_numbers_are_known(name, is_known):
    sentence = f"the rule in the code of {name}"
    (spot,) = backed.spots(sentence)
    found = backed.is_backed("docs/a.rst", "A sentence.", sentence, spot)
    assert found is (None if is_known else False)


@pytest.mark.parametrize(
    ("sentence", "seen"),
    [("of 12 and 3 rows", True), ("of 3, 12, 7", True), ("of 3, 7, 12", False), ("K - 1", True),
     ("K - 2", False), ("of 30 %", True), ("of 0.33", True), ("of 0.35", False), ("of 13", False)],
)  # fmt: skip
def test_what_backs_a_number(sentence, seen):
    part = "A sentence.\n\n>>> f([3, 12, 7])\n0.3333\n>>> x[: K - 1], 0.3\n"
    spots = backed.spots(sentence)
    assert all(backed.is_backed("docs/a.rst", part, sentence, spot) for spot in spots) is seen
