"""Tests of dlref._math.softmax_rows."""

from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from dlref._math.softmax_rows import HUGE, exponentials, sum_pair


@pytest.mark.parametrize("size", [1.0, 3e-200, 7e100, 5e200])
def test_a_sum_is_a_pair(rng, size):
    for count in (1, 3, 300):
        x = rng.random(count) * size
        total, low = (Fraction(float(part)) for part in sum_pair(x))
        exact = sum(Fraction(float(number)) for number in x)
        assert abs(total + low - exact) <= Fraction(2) ** -70 * exact
        assert total == float(exact)


def test_a_sum_that_cannot_be_shifted_is_plain():
    assert sum_pair(np.full(2, HUGE)) == (2 * HUGE, 0.0)
    assert sum_pair(np.full(2, np.inf)) == (np.inf, 0.0)


@pytest.mark.parametrize("offset", [0.0, 1e4, -1e4])
@pytest.mark.parametrize("width", [0.1, 3.0, 40.0, 900.0])
def test_exponentials_of_scores(rng, offset, width):
    """The error of the difference from the maximum is one of the exponential."""
    x = offset + width * rng.normal(size=50)
    e = np.empty(50)
    top, others, low = exponentials(x, e)
    with mp.workdps(60):
        exact = [mp.exp(mp.mpf(float(one)) - mp.mpf(float(x.max()))) for one in x]
        rest = mp.fsum(sorted(exact)[:-1])
        assert top == x.max()
        for got, want in zip(e, exact, strict=True):
            assert abs(mp.mpf(float(got)) - want) <= 1.6e-16 * want + mp.mpf(5e-324)
        assert abs(mp.mpf(float(others)) + mp.mpf(float(low)) - rest) <= 1.6e-16 * rest + 5e-324
