r"""Inline definitions, such as :math:`\bar v = \sum_j s_j v_j`, beside the equations that use them.

Many displayed equations are read and evaluated, with values of their symbols. An inline equation
of the same docstring or page is read together with them: it is *checked* by them if all of them
hold with it, and one does not once a side of it is doubled or gets another sign. `defined.toml` has
what is checked so, and by which equations; ``tox run -e written`` writes it. Where no equation
beside it uses what it defines, `definitions.toml` has the values of its symbols, of which the
function that it belongs to gives one.
"""

import collections
import functools
import re
import tomllib
from pathlib import Path

from equations import evaluate, inline, ledger, places, quantities

import dlref

LIST = Path(__file__).with_name("defined.toml")
VALUES = Path(__file__).with_name("definitions.toml")
PART = re.compile(r"docs/(?:exercises|steps)/(\w+)/(\w+)\.rst")
EQUALS = re.compile(r"(?<![<>:!])=\s*")


def known():
    return tomllib.loads(LIST.read_text(encoding="utf-8"))


@functools.cache
def checks():
    """Return the checks of each place that read their equations, and of each file, by name."""
    found = collections.defaultdict(dict)
    for place, text in ledger.places():
        check = ledger.CHECKS.get(text)
        if isinstance(check, ledger.Reading):
            name = check.function.__qualname__
            found[place][name] = found[place.partition("::")[0]][name] = check
    return found


@functools.cache
def valued():
    """Return the checks of the definitions of each place that have values of their symbols."""
    names = {**vars(dlref), **vars(evaluate), **vars(quantities)}
    names |= {chapter: getattr(dlref, chapter) for chapter in quantities.CHAPTERS}
    found = {}
    for place, texts in tomllib.loads(VALUES.read_text(encoding="utf-8")).items():
        for text, expression in texts.items():
            values = eval(expression, dict(names))
            within = values.pop("within", 1e-10)
            check = ledger.Reading(functools.partial(dict, values), rtol=within, atol=1e-20)
            found.setdefault(place, {})[text] = check
    return found


def holds(check, text):
    """Whether a text holds with all equations of a check; None if it has no value."""
    try:
        ledger.compare(check.lines_of((text, *check.texts)), check)
    except AssertionError:
        return False
    except Exception:  # a text beyond the grammar, or with symbols that have no value
        return None
    return True


def is_closed(text):
    """Whether each brace and bracket of a text is closed."""
    return text.count("{") == text.count("}") and text.count("[") == text.count("]")


def wrong(text):
    """Return the text with its last side doubled, and with another sign."""
    every = [(m, text[: m.start()]) for m in EQUALS.finditer(text)]
    last = [m for m, before in every if is_closed(before)][-1]
    before, after = text[: last.end()], text[last.end() :]
    return rf"{before} 2 \bigl( {after} \bigr)", rf"{before} - \bigl( {after} \bigr)"


def is_checked(check, text):
    return holds(check, text) is True and all(holds(check, other) is False for other in wrong(text))


def checks_for(place):
    """Return the checks of a place, of its file, and of the docstrings it is shown with."""
    file = place.partition("::")[0]
    found = {**checks()[place], **checks()[file]}
    if part := PART.match(file):
        found |= {
            k: c for k, c in checks()[f"dlref/{part[1]}/_{part[2]}.py"].items() if k not in found
        }
    return found


def checker(place, text):
    """Return the name of a check that checks a text of a place."""
    if not EQUALS.search(text):
        return None
    return next((name for name, c in checks_for(place).items() if is_checked(c, text)), None)


def main(topic=""):
    """Write the list of definitions that are checked, with new ones of the places of a topic."""
    places.load_checks()
    lines = ["# Inline definitions: written by `tox run -e written`."]
    found, before = collections.defaultdict(dict), known()
    for place, text in inline.relations():
        name = before.get(place, {}).get(text)
        if topic in place:
            name = None if inline.verdict(text) else checker(place, text)
        if name:
            found[place][text] = name
    for place, texts in sorted(found.items()):
        lines.append(f'["{place}"]')
        lines += [f'{quoted(text)} = "{name}"' for text, name in sorted(texts.items())]
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")


def quoted(text):
    """Return a key of TOML."""
    return '"' + text.replace("\\", "\\\\") + '"' if "'" in text else f"'{text}'"
