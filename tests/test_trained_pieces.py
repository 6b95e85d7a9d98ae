"""What the page says of trained pieces is in their table, and the script trains."""

import csv
import re

import numpy as np
import pytest
import trained_pieces as measured

PAGE = measured.ROOT / "docs" / "reference" / "interop.rst"


@pytest.fixture(scope="module")
def rows():
    with measured.RESULTS.open(newline="", encoding="utf-8") as file:
        return {(row["model"], row["quantity"]): row for row in csv.DictReader(file)}


def said(pattern):
    """Return the numbers of a sentence of the page."""
    found = re.search(pattern, " ".join(PAGE.read_text(encoding="utf-8").split()))
    assert found, pattern
    return [*found.groups()]


NUMBER = r"(\d\.\d+)"


def test_every_model_is_in_the_table(rows):
    long, short = (f"loss at {n}" for n in (measured.LONG, measured.SHORT))
    want = {(name, "recalled") for name in measured.MIXERS}
    want |= {(name, q) for name in measured.ROTATIONS for q in (short, long)}
    want |= {(name, q) for name in measured.BALANCE for q in ("error", "largest share")}
    assert set(rows) == want


def test_delta_rules_and_attention(rows):
    attention, delta, both = (rows[name, "recalled"] for name in measured.MIXERS)
    means = [float(row["mean"]) for row in (attention, delta, both)]
    spread = float(attention["spread"])
    sentence = f"recall {NUMBER} of the values, and the seeds differ by {NUMBER}:.*? it is {NUMBER}"
    found = said(f"{sentence}, and in the first one alone {NUMBER}")
    assert found == [f"{value:.2f}" for value in (means[0], spread, *means[1:])]
    assert min(means[1:]) > means[0] + 0.3
    assert max(float(row["spread"]) for row in (delta, both)) < 0.05
    assert abs(means[1] - means[2]) < 0.01  # attention next to the rule buys nothing


def test_rotations(rows):
    at = {
        name: [float(rows[name, f"loss at {n}"]["mean"]) for n in (measured.SHORT, measured.LONG)]
        for name in measured.ROTATIONS
    }
    every, windows, other, both, none = at.values()
    sentence = f"rises from {NUMBER} to {NUMBER}, without them in every other block from {NUMBER}"
    found = said(rf"{sentence} to {NUMBER}\. .*? leave rotations out: from {NUMBER} to {NUMBER}\.")
    assert found == [f"{value:.2f}" for value in (*every, *other, *both)]
    assert said(f"in all blocks the loss is {NUMBER} at both") == [f"{windows[0]:.2f}"]
    assert f"{windows[1]:.2f}" == f"{windows[0]:.2f}"
    spread = [
        float(rows[name, f"loss at {measured.LONG}"]["spread"])
        for name in ("rotations in all blocks", "in every other block")
    ]
    assert abs(every[1] - other[1]) < min(spread)  # no gain
    assert both[1] < other[1] - 0.5  # a gain
    assert windows[1] < both[1]
    assert none[0] > both[0]


def test_balance(rows):
    without, balanced = (
        [rows[name, q] for q in ("error", "largest share")] for name in measured.BALANCE
    )
    errors = said(f"their error is {NUMBER} without it and {NUMBER} with it")
    assert errors == [row[0]["mean"] for row in (without, balanced)]
    assert abs(float(errors[0]) - float(errors[1])) <= float(without[0]["spread"])
    shares = said(
        f"has {NUMBER} of the tokens without it, and {NUMBER} with it, "
        f"where the seeds differ by {NUMBER} and by {NUMBER}"
    )
    want = [row[1][column] for column in ("mean", "spread") for row in (without, balanced)]
    assert shares == [f"{float(value):.2f}" for value in want]
    assert float(shares[1]) < float(shares[0])


@pytest.mark.parametrize("mixers", measured.MIXERS.values())
def test_a_model_of_mixers_trains(mixers):
    """A few steps, without a claim: 1 in 8 is chance."""
    assert 0 < measured.recall(mixers, 0, steps=3) < 0.5


def test_a_model_with_and_without_rotations_trains():
    blocks = measured.ROTATIONS["in every other, windows there"]
    first, later = (measured.read_on(blocks, 0, steps=n, D=16) for n in (1, 25))
    assert np.isfinite(first).all()
    assert max(later) < min(first) - 0.3


def test_experts_train():
    for weight in measured.BALANCE.values():
        (before, _, _), (after, share, _) = (measured.routed(weight, 0, n) for n in (1, 100))
        assert after < 0.7 * before
        assert 1 / measured.EXPERTS <= share < 1
