"""Tasks: each answer is right, and asked for where it can be known."""

import numpy as np
import pytest

from dlref.transformer import addition_task, associative_recall_task, copy_task, reverse_task


@pytest.mark.parametrize(("task", "step"), [(copy_task, 1), (reverse_task, -1)])
def test_copy_and_reverse(rng, task, step):
    tokens, targets = task(rng, 50, length=6, vocabulary=9)
    assert tokens.shape == targets.shape == (50, 12)
    text = tokens[:, :6]
    assert text.min() == 1
    assert text.max() == 8
    assert np.all(tokens[:, 6] == 0)
    assert np.all(targets[:, :6] == -100)
    np.testing.assert_array_equal(targets[:, 6:], text[:, ::step])
    np.testing.assert_array_equal(tokens[:, 7:], targets[:, 6:-1])


@pytest.mark.parametrize(
    ("task", "offsets"), [(copy_task, [6] * 6), (reverse_task, [1, 3, 5, 7, 9, 11])]
)
def test_distance_to_what_is_looked_up(rng, task, offsets):
    tokens, targets = task(rng, 1, length=6, vocabulary=1000)  # no symbol twice
    text = tokens[0, :6].tolist()
    assert len(set(text)) == 6
    assert [place - text.index(targets[0, place]) for place in range(6, 12)] == offsets


def test_associative_recall(rng):
    tokens, targets = associative_recall_task(rng, 50, pairs=5, keys=8, values=4)
    assert tokens.shape == (50, 19)
    for text, wanted in zip(tokens, targets, strict=True):
        known = dict(zip(text[:10:2].tolist(), text[1:10:2].tolist(), strict=True))
        assert len(known) == 5
        assert set(known) <= set(range(8))
        assert set(known.values()) <= set(range(8, 12))
        for place in range(19):
            if place >= 10 and place % 2 == 0:
                assert wanted[place] == known[text[place]]
            else:
                assert wanted[place] == -100
        np.testing.assert_array_equal(text[11::2], wanted[10:-1:2])
        assert set(text[10::2].tolist()) == set(known)


def test_associative_recall_by_the_frequencies_of_the_values(rng):
    """What a model can know without the keys: the loss that the gallery names."""
    tokens, targets = associative_recall_task(rng, 4000, pairs=8, keys=8, values=8)
    seen = tokens[:, 1:16:2]
    share = np.mean(seen[:, None, :] == np.arange(8, 16)[:, None], axis=-1)
    asked = targets[:, 16::2]
    np.testing.assert_array_equal(np.sort(asked), np.sort(seen))
    loss = -np.log(np.take_along_axis(share, asked - 8, axis=1)).mean()
    assert loss == pytest.approx(1.56, abs=0.015)
    assert loss < np.log(8) - 0.5


@pytest.mark.parametrize("digits", [1, 3, 17])
def test_addition(rng, digits):
    tokens, targets = addition_task(rng, 50, digits=digits)
    assert tokens.shape == (50, 3 * digits + 2)
    powers = [10**k for k in range(digits + 1)]
    for text, wanted in zip(tokens.tolist(), targets.tolist(), strict=True):
        a = sum(d * p for d, p in zip(text[:digits], powers[:digits], strict=True))
        b = sum(
            d * p for d, p in zip(text[digits + 1 : 2 * digits + 1], powers[:digits], strict=True)
        )
        assert text[digits] == 10
        assert text[2 * digits + 1] == 11
        answer = wanted[2 * digits + 1 :]
        assert sum(d * p for d, p in zip(answer, powers, strict=True)) == a + b
        assert text[2 * digits + 2 :] == answer[:-1]
        assert set(wanted[: 2 * digits + 1]) == {-100}


@pytest.mark.parametrize("task", [copy_task, reverse_task])
def test_errors(rng, task):
    with pytest.raises(ValueError, match=r"'vocabulary' must be at least 2, not 1"):
        task(rng, 3, length=2, vocabulary=1)
    with pytest.raises(ValueError, match=r"'length' must be at least 1, not 0"):
        task(rng, 3, length=0, vocabulary=3)
    with pytest.raises(TypeError, match=r"'rng' must be a numpy.random.Generator"):
        task(0, 3, length=2, vocabulary=3)
    assert task(rng, 0, length=2, vocabulary=3)[0].shape == (0, 4)


def test_other_errors(rng):
    with pytest.raises(ValueError, match=r"'pairs' must be at most keys = 3, not 4"):
        associative_recall_task(rng, 2, pairs=4, keys=3, values=2)
    with pytest.raises(ValueError, match=r"'digits' must be at most 17, not 18"):
        addition_task(rng, 2, digits=18)
