"""
Plant wrong changes in what pages and docstrings say, and count which of them a test would see.

    tox run -e measure -- planted_pages --seed 2 --count 200
    tox run -e measure -- planted_pages --seed 2 --alike 10

A change is a wrong sign, factor, index, number or word in a place drawn by chance: in a displayed
equation; in an inline relation or definition; in a number of a sentence; in a quoted error, a
default, or the condition of a hypothesis.  No file is written: each change is given to the function
that the tests ask.  Nothing else is counted as seen.

With `--alike`, each change is made in two places: in a displayed equation and in the ledger of the
tests.  Where the ledger evaluates the text itself, that is the same text; where it transcribes it,
the same kind of change is made in the transcription.  So many equations are drawn of all, and so
many of those that are transcribed.  `--only KIND` draws one kind of change.
"""

import argparse
import ast
import collections
import functools
import random
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "docs" / "measure")]

import bounds  # noqa: E402
import exact  # noqa: E402
import test_bounds  # noqa: E402
import test_documented_defaults as defaults  # noqa: E402
from activations import test_largest_errors  # noqa: E402
from equations import (  # noqa: E402
    backed,
    defined,
    hypotheses,
    inline,
    ledger,
    places,
    test_defined,
    test_inline,
    test_planted,
    test_reading,
    worded,
)

places.load_checks()
#: Words for numbers; a planted mistake puts one in the place of another.
WORDS = "half", "twice", "three", "four", "ten", "a third", "a quarter"


def wrong_number(text, rng):
    """Return another number than a number in digits or words: its double, one more, or a digit."""
    if text in backed.NUMBERS:
        return rng.choice([w for w in WORDS if backed.NUMBERS[w] != backed.NUMBERS[text]])
    number, _ = backed.value(text)
    digit = rng.choice([m.start() for m in re.finditer(r"\d", text)])
    other = (
        text[:digit] + rng.choice([d for d in "123456789" if d != text[digit]]) + text[digit + 1 :]
    )
    return rng.choice([f"{2 * number or 1:.15g}", f"{number + 1:.15g}", other])


# Displayed equations.


def displayed(rng):
    """A text that is read turns its check red; one transcribed by hand has no check any more."""
    place, text = rng.choice(ledger.places())
    new, check = mistaken(text, rng), ledger.CHECKS[text]
    if isinstance(check, ledger.Reading):
        return f"{place}: {new}", test_reading.verdict(check, text, new) != "green"
    return f"{place}: {new} (transcribed)", ledger.normalized(new) not in ledger.CHECKS


def mistaken(text, rng):
    found = test_reading.mistakes(text)
    return rng.choice(found)[1] if found else text + " + 1"


def alike(rng, *, transcribed):
    """The same change in a text and in the ledger: the check of the changed text is asked."""
    chosen = [
        (place, text)
        for place, text in ledger.places()
        if not transcribed or not isinstance(ledger.CHECKS[text], ledger.Reading)
    ]
    place, text = rng.choice(chosen)
    check = ledger.CHECKS[text]
    if isinstance(check, ledger.Reading):
        new = mistaken(text, rng)
        return f"{place}: {new}", test_reading.verdict(check, text, new) != "green"
    kind, number, owner = rng.choice(
        [
            (kind, number, owner)
            for owner in test_planted.owners(check.function)
            for kind in test_planted.KINDS
            for number in range(test_planted.count_places(owner, kind))
        ]
    )
    changed = test_planted.planted(check.function, kind, number, owner)
    words = f"{place}: {kind.__name__} {number} of {owner.__name__}, {check.function.__name__}"
    return words, not test_planted.is_green(changed, check)


# Inline relations.


@functools.cache
def relations():
    return [(p, text) for p, texts in test_inline.FOUND.items() for text in texts]


def inline_statement(rng):
    place, text = rng.choice([pair for pair in relations() if inline.states(pair[1])])
    new = test_inline.wrong(text, rng)
    return f"{place}: {new}", seen_inline(place, text, new)


def inline_definition(rng):
    """A symbol and an expression, not a number or another symbol."""
    every = [(p, t) for p, t in relations() if inline.defines(t)]
    place, text = rng.choice(every)
    new = test_inline.wrong(text, rng)
    return f"{place}: {new}", seen_inline(place, text, new)


def seen_inline(place, text, new):
    if text in test_defined.KNOWN.get(place, {}) or text in defined.valued().get(place, {}):
        return test_defined.FOUND[place].count(text) == 1
    part = backed.literals().get((place, text))
    if part and backed.is_literal(place, part, text):
        return bool(backed.LITERAL.fullmatch(new)) and not backed.is_literal(place, part, new)
    return test_inline.is_seen(place, text, new)


# Sentences.


@functools.cache
def required():
    """Return what tests require of each file: the texts, and in them the numbers they compute."""
    texts = collections.defaultdict(list)
    for file, check in worded.WORDED.values():
        texts[file] += [worded.marked(sentence)[0] for sentence, *_ in check()]
    for file, check in hypotheses.HYPOTHESES.values():
        texts[file] += [sentence for sentence, *_ in check()]
    return texts


@functools.cache
def quoted():
    """Return the texts of at least four words that tests hold as strings."""
    found = set()
    for path in ROOT.glob("tests/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = ledger.normalized(node.value)
                if 20 < len(text) < 400 and text.count(" ") >= 3:
                    found.add(text)
    return found


def number_in_prose(rng):
    place, sentence, part = rng.choice(backed.sentences())
    spot = rng.choice(backed.spots(sentence))
    new = sentence[: spot.start()] + wrong_number(spot[0], rng) + sentence[spot.end() :]
    return f"{place}: {new}", is_number_seen(place, part, sentence, new, spot)


def is_number_seen(place, part, sentence, new, spot):
    """Whether a number is computed, quoted, or has no longer the backing that it had."""
    texts = [*required()[place.partition("::")[0]], *quoted()]
    seen = any(t in sentence and t not in new for t in texts)
    if "Largest error found" in sentence and not seen:
        seen = is_bound_seen(place, sentence, new)
    checked = [*worded.phrased(new), *worded.given(new)]
    if seen or not all(right for _, right in checked):
        return True
    moved = [other for other in backed.spots(new) if other.start() == spot.start()]
    return any(worded.is_alone(place, part, new, other) for other in moved)


@functools.cache
def errors():
    """Return the sentences that quote the largest error that a search found."""
    found = []
    for place, text in inline.sources():
        words = " ".join(text.split())
        found += [(place, m[0]) for m in re.finditer(r"Largest error found.*?\.(?: |$)", words)]
    return found


def error_bound(rng):
    place, sentence = rng.choice(errors())
    figures = list(re.finditer(r"\d+(?:\.\d+)?(?= ULP)", sentence))
    spot = rng.choice(figures or list(backed.NUMBER.finditer(sentence)))
    new = sentence[: spot.start()] + wrong_number(spot[0], rng) + sentence[spot.end() :]
    return f"{place}: {new}", is_bound_seen(place, sentence, new)


def is_bound_seen(place, sentence, new):
    """Whether a figure of a table of errors differs from what the docstring would say."""
    name, true = place.partition("::")[2], bounds.text

    def of_name(rows):
        return [r for r in rows if r["function"].replace("_tanh", "") == name]

    for row in of_name(test_largest_errors.ROWS):
        figure = re.escape(exact.rounded_up(float(row["largest error"]), 2))
        quoted = rf"(?<![\d.]){figure} "
        if row["dtype"] == "float64" and re.search(quoted, sentence) and not re.search(quoted, new):
            return True
    try:
        bounds.text = lambda function: true(function).replace(sentence.strip(), new.strip())
        return any(
            bounds.published(row["function"]) != float(row["published"])
            for row in of_name(test_bounds.TABLE)
            if row["dtype"] == "float64"
        )
    except (TypeError, AttributeError, ValueError):
        return True
    finally:
        bounds.text = true


@functools.cache
def stated_defaults():
    """Return all places of a docstring's parameters where a default stands, with what it is."""
    checked = {(f.rpartition(".")[2], p) for f, p, _ in defaults.STATED}  # names of methods, too
    found = []
    for place, text in inline.sources():
        if place.startswith("dlref/") and "Parameters\n---" in text:
            section = defaults.SECTION.split(text.partition("Parameters\n----------\n")[2])[0]
            for names, kind in defaults.PARAMETER.findall(section):
                if "default" in kind:
                    found += [(place, name) for name in names.split(", ")]
    return [(p, name, (p.partition("::")[2], name) in checked) for p, name in found]


def default(rng):
    place, name, seen = rng.choice(stated_defaults())
    return f"{place}: default of {name}", seen


def hypothesis(rng):
    place, sentence = rng.choice(list(hypotheses.sentences()))
    spot = hypotheses.WORDS.search(sentence)
    new = sentence[: spot.start()] + "even if" + sentence[spot.end() :]
    texts = required()[place.partition("::")[0]]
    return f"{place}: {new}", any(t in sentence and t not in new for t in texts)


#: How many of a hundred changes are of a kind.
KINDS = {
    displayed: 35,
    inline_statement: 20,
    inline_definition: 10,
    number_in_prose: 15,
    error_bound: 7,
    default: 6,
    hypothesis: 7,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--green", action="store_true", help="print the changes that nothing sees")
    parser.add_argument("--alike", type=int, default=0, metavar="EQUATIONS")
    parser.add_argument("--only", choices=[kind.__name__ for kind in KINDS])
    options = parser.parse_args()
    rng = random.Random(options.seed)
    if options.alike:
        for name, transcribed in (("of all", False), ("of transcribed", True)):
            report(
                name,
                [alike(rng, transcribed=transcribed) for _ in range(options.alike)],
                green=True,
            )
        return
    for kind, share in KINDS.items():
        if options.only in {None, kind.__name__}:
            count = share * options.count // 100 if options.only is None else options.count
            report(kind.__name__, [kind(rng) for _ in range(count)], green=options.green)


def report(name, drawn, *, green):
    """Print how many changes were seen, and those that were not."""
    print(f"{name:20} {sum(seen for _, seen in drawn)} of {len(drawn)}", flush=True)
    if green:
        print(*(f"    {words[:200]}" for words, seen in drawn if not seen), sep="\n")


if __name__ == "__main__":
    main()
