"""Displayed equations are read: how many are, and that a wrong one turns its check red."""

import collections
import random
import re

import numpy as np
import pytest
from equations import evaluate, ledger, places, tex

places.load_checks()
READ = {text: c for text, c in ledger.CHECKS.items() if isinstance(c, ledger.Reading)}
#: The number of displayed equations that are read; it only rises.
LEAST = 941
MODULES = sorted({check.function.__module__ for check in READ.values()})
NAME = re.compile(r"(?<![\\a-zA-Z])[a-z](?![a-zA-Z])")
ENDING = re.compile(r"\+|-|=|\\qquad|\\quad|\\\\|&|,|\\end|\\(?:[bB]igg?r)?\s*[)\]}]|[)\]}]")


def test_enough_equations_are_read():
    assert len(READ) >= LEAST, "transcribe none by hand that was read"


def wrong_signs(text):
    """Exchange plus and minus, or leave out a minus; a hyphen in a word is none."""
    for m in re.finditer(r"\\text\{[^}]*\}|(?<![_^])[+-](?!infty|\s*\\ldots)", text):
        if len(m[0]) > 1:
            continue
        before = text[: m.start()].rstrip()
        alone = not before or before[-1] in "=(&{[<," or before.endswith(r"\le")
        new = "" if alone and m[0] == "-" else "-" if m[0] == "+" else "+"
        yield text[: m.start()] + new + text[m.end() :]


def wrong_factors(text):
    """Double the first term of a side."""
    for m in re.finditer(r"(?<![<>:!])=\s*(-?)", text):
        if not re.match(r"\s*(?:0\b|\\vec 0|\\min|\\max|\d|&)", text[m.end() :]):
            yield f"{text[: m.end()]} 2 \\, {text[m.end() :]}"


def wrong_powers(text):
    """Take another power, or leave out a transposition."""
    for m in re.finditer(r"\^2(?!\d)|\^3|\^\\top", text):
        new = "" if m[0].endswith("top") else "^4"
        yield text[: m.start()] + new + text[m.end() :]


def wrong_indices(text):
    """Exchange the indices of an entry, or take another index."""
    subscripts = re.findall(r"(?<!\\delta)_(?:\{([^{}]*)\}|(\w))", text)
    known = {name for pair in subscripts for name in NAME.findall("".join(pair))}
    for m in re.finditer(r"(?<!\\delta)(?<!\\sum)_(?:\{([a-z])([a-z])\}|([a-z]))", text):
        if m[1] and m[1] != m[2]:
            yield text[: m.start()] + f"_{{{m[2]}{m[1]}}}" + text[m.end() :]
        elif m[3]:
            for other in sorted(known - {m[3]})[:2]:
                yield text[: m.start()] + f"_{other}" + text[m.end() :]


def wrong_terms(text):
    """Leave out a term after a sign."""
    for m in re.finditer(r"(?<=[^=(&{\[<,\s]) [+-] (?!\\ldots)", text):
        depth, end = 0, m.end()
        while end < len(text):
            if depth == 0 and ENDING.match(text, end):
                break
            depth += (text[end] in "({[") - (text[end] in ")}]")
            end += 1
        yield text[: m.start()] + " " + text[end:]


#: Checks in whose texts an exchange of indices changes nothing, and why.
UNSEEN = {
    "a Kronecker delta makes its indices one": """
        gradient_of_a_log_probability gradient_of_a_sum gradient_through_a_product
        gradients_of_a_quadratic_form gradients_of_a_scaled_sum products_of_scaled_sum
        products_of_the_negative_log_likelihood products_of_trace gradient_of_the_trace""",
    "the matrix is symmetric, or each entry the same": """
        derivatives_of_sparsemax jacobians_of_a_sum loss_of_each_question_and_its_derivatives
        products_of_sum softmax_and_its_relatives the_softmax_and_its_derivatives""",
}
KINDS = wrong_signs, wrong_factors, wrong_powers, wrong_indices, wrong_terms


def verdict(check, text, planted):
    """Say what a check makes of a planted text: green, a wrong value, or an error."""
    texts = [planted if t == text else t for t in check.texts]
    try:
        ledger.compare(check.lines_of(texts), check)
    except AssertionError:
        return "wrong"
    except Exception:  # what was planted may have no value at all
        return "error"
    return "green"


def mistakes(text):
    """Return the wrong versions of a text, each with its kind."""
    result = [(kind.__name__, other) for kind in KINDS for other in kind(text)]
    return [(kind, other) for kind, other in result if ledger.normalized(other) != text]


def samples(module, count):
    """Yield some mistakes in each text of a module."""
    rng, unseen = random.Random(0), " ".join(UNSEEN.values()).split()
    for text, check in READ.items():
        if check.function.__module__ == module:
            result = mistakes(text)
            if check.function.__name__ in unseen:
                result = [pair for pair in result if pair[0] != "wrong_indices"]
            for kind, planted in rng.sample(result, min(count, len(result))):
                yield check, text, kind, planted


@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.broad)])
@pytest.mark.parametrize("module", MODULES)
def test_mistakes_in_the_text_are_seen(module, count):
    """No environment is touched: only the text of the equation is wrong."""
    chosen = list(samples(module, count))
    assert all(verdict(check, text, text) == "green" for check, text, _, _ in chosen)
    green = [new for check, text, _, new in chosen if verdict(check, text, new) == "green"]
    assert len(green) <= 0.05 * len(chosen), green


def test_grammar():
    given = {"a": 2.0, "x": np.array([1.0, 2.0]), "W": np.array([[1.0, 2.0], [3.0, 4.0]])}
    for text, want in {
        r"y = a \sum_i x_i^2": 10.0,
        r"y = \vec x^\top \mat W \vec x": 27.0,
        r"\vec y = \mat W \vec x - \frac{\vec x}{a}": [4.5, 10.0],
        r"y = \begin{cases} 1 & a > 3 \\ \max(a, 1) & a \le 3 \end{cases}": 2.0,
        r"y = \prod_{i=0}^{1} (1 + x_i)": 6.0,
        r"y_{ij} = [i \ne j]\, W_{ij}": [[0, 2], [3, 0]],
    }.items():
        ((node, *_),) = tex.equations(text, lambda _: False)
        environment = evaluate.Environment(given)
        local = evaluate.Local(None, [i.key for i in node.parts[0].indices], node.parts[1])
        np.testing.assert_allclose(local.array(environment), want)


@pytest.mark.parametrize("text", [r"y = x_1 \mid", r"y = \vec x \vec x", r"y = q", r"q = x_1"])
def test_what_is_not_known_is_an_error(text):
    given = {"y": 1.0, "x": np.ones(2)}
    with pytest.raises((tex.UnreadableError, evaluate.UnknownError, TypeError, AssertionError)):
        list(evaluate.lines([text], given))


def main():
    """Plant every mistake in every text that is read, and print which are not seen."""
    counts = collections.Counter()
    for text, check in READ.items():
        for kind, planted in mistakes(text):
            result = verdict(check, text, planted)
            counts[result] += 1
            counts[kind, result] += 1
            if result == "green":
                print(check.function.__module__, check.name, kind, planted)
    print(counts)


if __name__ == "__main__":  # cd tests; python -m equations.test_reading
    main()
