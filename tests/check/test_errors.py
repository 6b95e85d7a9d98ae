"""Tests of dlref.check._errors."""

from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from mpmath import mp, mpf

from dlref.check import error_report, ulp_error


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_a_neighbour_is_one_unit_away(dtype):
    x = np.array([1.0, 1.5, -3.0, 100.0], dtype)
    up = np.nextafter(x, np.array(2, dtype) * x)
    exact = x.astype(np.float64)
    np.testing.assert_array_equal(ulp_error(up, exact), 1.0)
    np.testing.assert_array_equal(ulp_error(x, exact), 0.0)


@pytest.mark.parametrize(
    ("dtype", "tiny"),
    [
        (np.float16, 2.0**-24),
        (ml_dtypes.bfloat16, 2.0**-133),
        (np.float32, 2.0**-149),
        (np.float64, 5e-324),
    ],
)
def test_the_smallest_unit_is_the_smallest_number(dtype, tiny):
    got = ulp_error(np.array([0.0, tiny, 3 * tiny], dtype), np.array([tiny, 0.0, tiny]))
    np.testing.assert_array_equal(got, [1.0, 1.0, 2.0])


@pytest.mark.parametrize("kind", [Fraction, Decimal, mpf])
def test_exact_values_of_any_kind(kind):
    with mp.workdps(40):
        third = kind(1) / kind(3)
        got = ulp_error(np.array([1 / 3, 0.5]), np.array([third, kind(1) / kind(2)], object))
    want = float(abs(Fraction(1, 3) - Fraction(1 / 3)) * 2**54)
    np.testing.assert_allclose(got, [want, 0.0], rtol=1e-11)


def test_float32_has_a_spacing_between_6e_8_and_1_2e_7(rng):
    x = np.sort(rng.uniform(1, 2, 10_000)).astype(np.float32)
    spacing = np.spacing(x) / x.astype(float)
    assert 5.9e-8 < spacing.min() < 6.1e-8
    assert 1.19e-7 < spacing.max() < 1.2e-7


def test_long_doubles_keep_their_digits():
    exact = np.longdouble(1) + np.finfo(np.longdouble).eps * 4
    if np.finfo(np.longdouble).eps < 2**-52:
        assert 0 < ulp_error(1.0, exact) < 0.5


def test_what_is_not_finite():
    inf, nan = np.inf, np.nan
    got = ulp_error([inf, -inf, nan, 1.0, nan, inf], [inf, inf, nan, nan, 1.0, 1.0])
    np.testing.assert_array_equal(got, [0, inf, 0, inf, inf, inf])
    assert ulp_error(np.float32(inf), 1e39) == 0  # rounds to infinity
    assert ulp_error(np.float32(inf), 1e38) == inf
    with mp.workdps(40):
        assert ulp_error([inf], np.array([mpf("inf")], object)) == [0.0]


def test_report_finds_the_worst_value():
    got = np.float32([[1, 2], [3, 4]])
    exact = got + np.array([[0.0, 2.0**-23], [2.0**-20, 0.0]])
    report = error_report(got, exact, baseline=got + np.float32(1))
    assert report[:5] == (4.0, 1.125, (1, 0), 3.0, 3 + 2.0**-20)
    assert report.baseline == 2.0**23
    assert "largest error 4 ULP at (1, 0)" in str(report)
    assert str(report).endswith("; baseline: largest 8.39e+06 ULP")


def test_report_of_infinite_errors():
    report = error_report([np.nan], [1.0])
    assert report.largest == report.mean == np.inf


def test_exact_integers_of_any_size():
    exact = np.array([3, 10**400, -(10**400), 10**400], object)
    errors = ulp_error(np.array([3.0, np.inf, -np.inf, 1e308]), exact)
    assert errors.tolist() == [0.0, 0.0, 0.0, np.inf]
    assert error_report(np.ones(1), exact[1:2]).exact == np.inf


def test_errors():
    with pytest.raises(ValueError, match=r"^Argument 'exact' must have shape \(2,\), not \(3,\)"):
        ulp_error(np.ones(2), np.ones(3))
    with pytest.raises(TypeError, match=r"^Argument 'exact' must hold numbers"):
        ulp_error(np.ones(1), ["a"])
    for strange in ([1j], [print], ["1"], [None], [1j + 1]):
        for exact in (np.array(strange, object), np.array(strange)):
            with pytest.raises(TypeError, match=r"^Argument 'exact' must hold numbers"):
                ulp_error(np.ones(1), exact)
    with pytest.raises(TypeError, match=r"^Argument 'exact' must hold numbers, not datetime64"):
        ulp_error(np.ones(1), np.array(["2026-01-01"], "M8[s]"))
    with pytest.raises(TypeError, match=r"^Argument 'actual' must be"):
        ulp_error(np.ones(1, complex), np.ones(1))
    with pytest.raises(ValueError, match=r"^Argument 'actual' must hold at least one value"):
        error_report(np.ones(0), np.ones(0))
