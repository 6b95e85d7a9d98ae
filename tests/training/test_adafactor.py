"""Tests of dlref.training._adafactor."""

import numpy as np
import pytest

from dlref.formulas import training as formulas
from dlref.training import AdafactorState, adafactor_step


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beta2_decay": -0.5, "d": 2.0, "weight_decay": 0.1},
        {"eps": (0.5, 4.0)},
        {"eps": (1e-3, 1e-3), "d": 1.0},
    ],
)
def test_pytorch(options, compare_with_pytorch):
    compare_with_pytorch("Adafactor", adafactor_step, options, options)


def test_bands_and_pieces(rng):
    """Sums over more rows than a band has, and over longer ones than a piece."""
    for shape in ((2, 70, 3), (33, 5000), (9000,)):
        w, g = rng.normal(size=(2, *shape))
        moved, state = adafactor_step(w, g, None, learning_rate=0.1)
        moved, state = adafactor_step(moved, w, state, learning_rate=0.1)
        expected, kept = formulas.adafactor_step(w, g, None, learning_rate=0.1)
        expected, kept = formulas.adafactor_step(expected, w, kept, learning_rate=0.1)
        np.testing.assert_allclose(moved, expected, rtol=1e-13, atol=1e-15)
        for slot, of_formula in zip(state[1:], kept[1:], strict=True):
            assert (slot is None) == (of_formula is None)
            if slot is not None:
                np.testing.assert_allclose(slot, of_formula, rtol=1e-13)


def test_squares_that_overflow_and_a_row_of_zeros():
    w = np.ones((2, 2), np.float32)
    _, state = adafactor_step(w, np.float32([[2e19, 1], [1, 1]]), None, learning_rate=0.1)
    np.testing.assert_array_equal(state.row, [[np.inf], [1]])
    np.testing.assert_array_equal(state.column, [[np.inf, 1]])
    moved, _ = adafactor_step(w, w * [[0], [1]], None, learning_rate=0.1, eps=(0, 1e-3))
    np.testing.assert_array_equal(np.isnan(moved), [[True, True], [False, False]])


def test_long_steps_are_shortened(rng):
    w = rng.normal(size=(5, 7))
    size = np.sqrt(np.mean(w**2))
    _, state = adafactor_step(w, 1e-3 * rng.normal(size=w.shape), None, learning_rate=0.25)
    state = state._replace(step=100)
    for d in (0.5, 1.0, 2.0):
        moved, _ = adafactor_step(w, rng.normal(size=w.shape), state, learning_rate=0.05, d=d)
        np.testing.assert_allclose(np.sqrt(np.mean((moved - w) ** 2)), 0.05 * d * size, rtol=1e-12)


def test_the_product_is_the_nearest_of_rank_one(rng):
    """In the generalized divergence; scaled rows and columns are farther away."""
    squares = rng.uniform(0.1, 2.0, (4, 6))
    _, state = adafactor_step(np.ones((4, 6)), np.sqrt(squares), None, learning_rate=0.1)

    def divergence(row, column):
        v = row * column
        return np.sum(squares * np.log(squares / v) - squares + v)

    row, column = state.row / state.row.mean(), state.column
    least = divergence(row, column)
    for _ in range(50):
        near = row * np.exp(1e-3 * rng.normal(size=row.shape))
        assert divergence(near, column * np.exp(1e-3 * rng.normal(size=column.shape))) > least


def test_with_an_exponent_of_minus_one_all_steps_count_alike(rng):
    grads, state = rng.normal(size=(8, 3, 4)), None
    for g in grads:
        _, state = adafactor_step(np.ones((3, 4)), g, state, learning_rate=0.1, beta2_decay=-1)
    np.testing.assert_allclose(state.row[:, 0], np.mean(grads**2, axis=(0, 2)), rtol=1e-14)
    np.testing.assert_allclose(state.column[0], np.mean(grads**2, axis=(0, 1)), rtol=1e-14)


def test_dtypes_and_structure():
    params = (np.ones((2, 3), np.float32), (None, np.ones(4, np.float32), np.ones((2, 1, 3))))
    moved, state = adafactor_step(params, params, None, learning_rate=0.1)
    assert isinstance(state, AdafactorState)
    assert (state.row[0].shape, state.column[0].shape, state.square[0]) == ((2, 1), (1, 3), None)
    assert (state.row[1][:2], state.square[1][1].shape) == ((None, None), (4,))
    assert (state.row[1][2].shape, state.column[1][2].shape) == ((2, 1, 1), (2, 1, 3))
    assert state.row[0].dtype == state.square[1][1].dtype == moved[0].dtype == np.float32
    _, second = adafactor_step(moved, params, state, learning_rate=0.1)
    assert second.step == 2
    for shape in ((0, 3), (2, 0), (0,)):
        empty = np.zeros(shape)
        assert adafactor_step(empty, empty, None, learning_rate=0.1)[0].shape == shape


def test_errors():
    w = np.eye(2)
    with pytest.raises(TypeError, match=r"^Argument 'eps' must be a tuple of 2 numbers"):
        adafactor_step(w, w, None, learning_rate=1, eps=1e-3)
    with pytest.raises(ValueError, match=r"^Argument 'eps\[0\]' must be at least 0"):
        adafactor_step(w, w, None, learning_rate=1, eps=(-1, 0))
    with pytest.raises(ValueError, match=r"^Argument 'd' must be greater than 0"):
        adafactor_step(w, w, None, learning_rate=1, d=0)
    with pytest.raises(ValueError, match=r"^Argument 'beta2_decay' must be at most 0"):
        adafactor_step(w, w, None, learning_rate=1, beta2_decay=0.8)
    _, state = adafactor_step(w, w, None, learning_rate=1)
    for other in (np.eye(3), np.ones(2)):
        with pytest.raises(ValueError, match=r"^Argument 'state' must come from a step with these"):
            adafactor_step(other, other, state, learning_rate=1)
    with pytest.raises(TypeError, match=r"^Argument 'state' must be AdafactorState"):
        adafactor_step(w, w, (1, w), learning_rate=1)
