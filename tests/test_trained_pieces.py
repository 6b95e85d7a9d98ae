"""What the page says of trained pieces is in their table, and the script trains."""

import csv
import inspect
import re

import connected_models as models
import numpy as np
import pytest
import trained_pieces as measured

from dlref.losses import cross_entropy, cross_entropy_grad
from dlref.training import tree_map, tree_ravel, tree_unravel

PAGE = measured.ROOT / "docs" / "reference" / "interop.rst"
ESSAY = measured.ROOT / "docs" / "connections_and_caches.rst"


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
    want |= {(name, "loss") for name in (*measured.CONNECTIONS, *measured.CACHES)}
    want |= {(name, "gain of the mixtures") for name in measured.CONNECTIONS if "streams" in name}
    want |= {(name, "cached numbers") for name in measured.CACHES}
    want |= {(name, "loss of the next") for name in measured.TARGETS}
    several = [*measured.TARGETS][1:]
    want |= {(name, q) for name in several for q in ("loss of the one after", "accepted")}
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


# The essay


def table(first):
    """Return the table of the essay whose first column has this name, by its first cells."""
    lines = iter(ESSAY.read_text(encoding="utf-8").split("\n"))
    next(line for line in lines if line.startswith(f"{first}  "))
    next(lines)
    found = {}
    for line in lines:
        if line.startswith("==="):
            return found
        name, *cells = re.split(r"\s{2,}", line.strip())
        found[name] = cells
    return found


def shown(row):
    """Return a mean and a spread as a table of the essay has them."""
    return [f"{float(row[column]):.2f}" for column in ("mean", "spread")]


def test_the_tables_of_the_essay(rows):
    found = table("Connections")
    assert list(found) == list(measured.CONNECTIONS)
    for name, cells in found.items():
        gain = rows.get((name, "gain of the mixtures"))
        assert cells == [*shown(rows[name, "loss"]), f"{float(gain['mean']):.2f}" if gain else "–"]
    found = table("Predicted")
    assert list(found) == list(measured.TARGETS)
    for name, cells in found.items():
        accepted = rows.get((name, "accepted"))
        share = f"{float(accepted['mean']):.2f}" if accepted else "–"
        assert cells == [*shown(rows[name, "loss of the next"]), share]
    found = table("Keys and values")
    assert list(found) == list(measured.CACHES)
    for name, cells in found.items():
        numbers = f"{float(rows[name, 'cached numbers']['mean']):.0f}"
        assert cells == [numbers, *shown(rows[name, "loss"])]


KINDS = {
    "residual connections": (models.chain, {}),
    "pairs of blocks that share": (lambda x, p: models.chain(x, p, share=2), {}),
    "three blocks that share": (lambda x, p: models.chain(x, p, share=3), {}),
    "latents": (models.chain, {"attention": models.latents(6, 4)}),
    "free streams": (models.free_streams, {"connect": models.draw_streams(1.0)}),
    "streams": (models.doubly_stochastic_streams, {"connect": models.draw_streams(3.0)}),
    "over depth": (models.over_depth, {"connect": models.draw_queries}),
    "several heads": (models.chain, {"heads": 2}),
}


@pytest.mark.parametrize(("connected", "parts"), KINDS.values(), ids=KINDS)
def test_gradients_of_connected_models(connected, parts):
    """By a difference quotient along a random direction, in float64."""
    rng = np.random.default_rng(0)
    p = models.draw(rng, 7, 16, 3, **parts)
    p = tree_map(lambda a: a + 0.1 * rng.normal(size=a.shape), p)
    tokens, target = rng.integers(0, 7, (2, 2, 5))
    direction = tree_unravel(rng.normal(size=tree_ravel(p).size), p)

    def loss(step):
        moved = tree_map(lambda a, b: a + step * b, p, direction)
        return sum(cross_entropy(z, target) for z in models.model(tokens, moved, connected)[0])

    logits, back = models.model(tokens, p, connected)
    grads = back([cross_entropy_grad(z, target) for z in logits])
    quotient = (loss(1e-6) - loss(-1e-6)) / 2e-6
    np.testing.assert_allclose(tree_ravel(grads) @ tree_ravel(direction), quotient, rtol=1e-5)


def test_hyper_connections_begin_as_residual_connections():
    rng = np.random.default_rng(1)
    p = models.draw(rng, 7, 16, 3, connect=models.draw_streams(1.0))
    x = rng.normal(size=(1, 5, 16))
    one, many = (connected(x, p)[0] for connected in (models.chain, models.free_streams))
    np.testing.assert_allclose(one, many, rtol=1e-12)


@pytest.mark.parametrize("compare", ["connections", "several", "caches"])
def test_a_model_of_the_text_trains(compare):
    """A few steps: the loss falls below that of a guess among all characters."""
    chance = np.log(measured.characters()[1])
    if compare == "connections":
        kind = measured.CONNECTIONS["four streams, doubly stochastic"]
        loss, gain = measured.connections(kind, 0, steps=40, D=16, depth=2)
        assert np.isclose(gain, 1, rtol=1e-3)
        _, gain = measured.connections(measured.CONNECTIONS["residual connections"], 0, 1, 16, 1)
        assert gain == 1
    elif compare == "several":
        loss, after, accepted = measured.several(2, 0, steps=40, D=16)
        assert after < chance - 0.3
        assert 0 < accepted <= 1
    else:
        kind = measured.CACHES["four heads, shared by all layers"]
        loss = measured.caches(kind, 0, steps=40, D=16, depth=2)
    assert loss < chance - 0.3


def test_numbers_in_the_cache():
    assert list(map(measured.cached, measured.CACHES.values())) == [512, 128, 128, 128, 128]


def test_the_sentences_of_the_essay(rows):
    words = " ".join(ESSAY.read_text(encoding="utf-8").split())
    assert "on 40,000 characters of a novel" in words
    assert round(0.9 * len(measured.characters()[0]), -4) == 40_000
    assert "after 300 steps: the mean of three seeds" in words
    compared = measured.connections, measured.several, measured.caches
    assert {inspect.signature(f).parameters["steps"].default for f in compared} == {300}
    assert len(measured.SEEDS) == 3
    share = float(rows["two characters", "accepted"]["mean"])
    said = f"in {share:.2f} of all places, so two heads write {1 + share:.2f} characters in a pass"
    assert said in words
    quarter = [f"{float(rows[name, 'cached numbers']['mean']):.0f}" for name in measured.CACHES]
    assert {int(quarter[0]) / int(other) for other in quarter[1:]} == {4}
    losses, spreads = (
        {name: float(row[column]) for (name, q), row in rows.items() if q == "loss"}
        for column in ("mean", "spread")
    )
    own, *smaller = measured.CACHES
    assert all(losses[name] < losses[own] + spreads[name] for name in smaller)
    connected = [losses[name] for name in measured.CONNECTIONS]
    assert np.ptp(connected) < min(spreads[name] for name in measured.CONNECTIONS)
    one, *more = (float(rows[name, "loss of the next"]["mean"]) for name in measured.TARGETS)
    assert min(more) > one + max(
        float(rows[n, "loss of the next"]["spread"]) for n in [*measured.TARGETS][:2]
    )
