"""The formulas in long doubles, which the search for errors relies on, against 60 digits."""

import exact
import extended
import numpy as np
import pytest
from mpmath import mp, mpf

NAMES = [
    stem + form
    for stem in ("sigmoid", "tanhshrink", "silu", "mish", "gelu", "gelu_tanh", "selu", "softplus")
    for form in ("", "_deriv", "_deriv2")
]


def whole(value):
    """Return a long double as a number of mpmath."""
    mantissa, power = np.frexp(value)
    high = float(mantissa)
    return (mpf(high) + mpf(float(mantissa - high))) * mpf(2) ** int(power)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="long doubles of x86")
@pytest.mark.parametrize("name", NAMES)
def test_is_exact_to_a_tenth_of_a_unit_of_float64(name, rng):
    high = {"gelu": 37, "gelu_tanh": 14}.get(name.partition("_deriv")[0], 700)
    zeros = extended.ZEROS.get(name, ((), 0))[0]
    near = [z + 0.1 * rng.uniform(-1, 1, 10) * 10.0 ** rng.uniform(-8, 0, 10) for z in zeros]
    x = np.concatenate([rng.uniform(-high, high, 20), rng.uniform(-4, 4, 20), *near])
    got = extended.function(name)(x)
    with mp.workdps(exact.DIGITS):
        for value, true in zip(got, exact.evaluate(exact.reference(name), x), strict=True):
            assert abs(whole(value) - true) <= 0.1 * mpf(2) ** (mp.frexp(true)[1] - 53)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="long doubles of x86")
@pytest.mark.parametrize("stem", extended.OPTIONS)
@pytest.mark.parametrize("form", ["", "_deriv", "_deriv2"])
def test_with_an_option_it_is_as_exact(stem, form, rng):
    name, (option, formula) = stem + form, extended.OPTIONS[stem]
    for value in 2.0 ** rng.uniform(-6, 6, 8):
        scale = value if stem == "celu" else 1 / value if option == "beta" else 1.0
        x = np.concatenate([rng.uniform(-700, 700, 20), rng.uniform(-4, 4, 20)]) * scale
        options = {option: float(value)}
        for got, true in zip(
            formula(name, x.astype(extended.Long), value),
            exact.evaluate(exact.reference(name), x, **options),
            strict=True,
        ):
            with mp.workdps(exact.DIGITS):
                assert abs(whole(got) - true) <= 0.1 * mpf(2) ** (mp.frexp(true)[1] - 53)
