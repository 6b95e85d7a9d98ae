"""Means that are representable although the sum of the terms is not."""

import numpy as np
import pytest

from dlref import losses

HUGE = 1.5e308
ROOT = 2.0**511.5


@pytest.mark.parametrize(
    ("value", "term"),
    [
        (lambda r: losses.absolute_error([HUGE] * 4, [0.0] * 4, reduction=r), HUGE),
        (lambda r: losses.squared_error([ROOT] * 4, [0.0] * 4, reduction=r), ROOT**2),
        (lambda r: losses.huber([HUGE] * 4, [0.0] * 4, reduction=r), HUGE),
        (lambda r: losses.hinge([-HUGE] * 4, [1] * 4, reduction=r), HUGE),
        (lambda r: losses.cross_entropy([[HUGE, 0.0]] * 4, [1] * 4, reduction=r), HUGE),
        (lambda r: losses.nll([[-HUGE, 0.0]] * 4, [0] * 4, reduction=r), HUGE),
        (lambda r: losses.binary_cross_entropy([HUGE] * 4, [0.0] * 4, reduction=r), HUGE),
    ],
)
def test_mean(value, term):
    assert value("none").tolist() == pytest.approx([term] * 4, rel=1e-14)
    assert value("mean") == pytest.approx(term, rel=1e-14)
    assert value("sum") == np.inf  # which no float64 holds


def test_mean_of_many_blocks(rng):
    pred = rng.uniform(0.5, 1.0, size=20_000)
    want = losses.absolute_error(pred, np.zeros(20_000))
    found = losses.absolute_error(np.ldexp(pred, 1023), np.zeros(20_000))
    assert found == pytest.approx(np.ldexp(want, 1023), rel=1e-14)


def test_weighted_mean():
    logits, weight = [[HUGE, 0.0], [HUGE, 0.0], [0.0, 0.0]], [1.0, 0.5]
    found = losses.cross_entropy(logits, [1, 1, 0], weight=weight)
    assert found == pytest.approx(HUGE / 2, rel=1e-14)  # (HUGE/2 + HUGE/2 + log 2) / 2


def test_sums_that_cancel():
    found = losses.absolute_error_jvp(([1.0] * 4, [0.0] * 4), ([HUGE, HUGE, -HUGE, -HUGE], None))
    assert found == 0.0


def test_mean_of_a_neuron():
    X, y = np.zeros((4, 1)), [ROOT] * 4
    assert losses.neuron_squared_error(X, y, [0.0], 0.0) == pytest.approx(ROOT**2, rel=1e-14)


def test_what_is_not_representable_is_infinite():
    assert losses.squared_error([1e160, 0.0], [0.0, 0.0]) == np.inf
    assert np.isnan(losses.squared_error([np.nan, 1e160], [0.0, 0.0]))
    assert np.isnan(losses.squared_error([], []))
