"""Tests of dlref._math.elementary."""

import sys
from fractions import Fraction
from types import SimpleNamespace

import elementary_coefficients
import exact
import numpy as np
import pytest
from conftest import FUSED
from mpmath import mp

from dlref import activations
from dlref._core.jit import COMPILED, kernel
from dlref._core.specialize import instantiate
from dlref._math import circle, elementary
from dlref.activations import _gelu, _mish, _silu

COUNT = 6000 if COMPILED else 300


def _call(x):
    raise NotImplementedError


def _every(x, out):
    for i in range(x.size):
        out[i] = _call(np.float64(x[i]))


def values(name, points):
    points = np.asarray(points, np.float64)
    out = np.empty_like(points)
    instantiate(_every, _call=getattr(elementary, name))(points, out)
    return out


def normal_tail(t):
    return mp.exp(t**2 / 2) * mp.erfc(t / mp.sqrt(2)) / 2


def erfcx(x):
    return mp.exp(x**2) * mp.erfc(x)


@pytest.mark.parametrize(
    ("name", "reference", "low", "high", "bound"),
    [
        ("exp", mp.exp, -708.3, 709.7, 0.7),
        ("exp", mp.exp, -745.1, 709.7, 0.8),  # rounded once more where it is subnormal
        ("expm1", mp.expm1, -45, 709.7, 1.3),
        ("expm1", mp.expm1, 0.345, 0.355, 1.3),
        ("sigmoid", exact.sigmoid, -745, 745, 0.9),
        ("sigmoid", exact.sigmoid, -3, 3, 0.7),
        ("tanh", exact.tanh, -20, 20, 1.0),
        ("tanh_gap", exact.tanhshrink, -30, 30, 1.9),
        ("log", mp.log, 1e-300, 1e300, 0.9),
        ("log", mp.log, 0.4, 2.5, 0.9),
        ("log1p", mp.log1p, -0.999, 5, 0.9),
        ("log1p", mp.log1p, 5, 1e300, 0.9),
        ("normal_tail", normal_tail, 0, 39, 1.4),
        ("erfcx", erfcx, 0, 27, 1.8),
        ("erfc", mp.erfc, -6, 27.2, 2.6 if FUSED else 2.8),
        ("erf", mp.erf, -6, 6, 1.0),
    ],
)
def test_error_bound(name, reference, low, high, bound, rng):
    points = exact.grid(low, high, rng=rng, count=COUNT)
    errors = exact.ulp_errors(values(name, points), exact.evaluate(reference, points))
    assert errors.max() <= bound


@pytest.mark.parametrize(
    ("name", "reference", "low", "high"),
    [
        ("exp", mp.exp, -700, 700),
        ("raised", mp.exp, -700, 700),
        ("expm1", mp.expm1, -45, 700),
        ("sigmoid", exact.sigmoid, -700, 700),
        ("tanh", exact.tanh, -20, 20),
        ("tanh_gap", exact.tanhshrink, -30, 30),
        ("log1p_exp", exact.softplus, -104, 0),
        ("normal_tail", normal_tail, 0, 20),
    ],
)
def test_half_the_digits(name, reference, low, high, rng):
    points = exact.grid(low, high, rng=rng, count=COUNT).astype(np.float32).astype(np.float64)
    short = elementary.single(getattr(elementary, name))
    out = np.empty_like(points)
    if name == "raised":
        out[:] = [short(1.0, x, 0.0) for x in points]
    else:
        instantiate(_every, _call=short)(points, out)
    true = exact.evaluate(reference, points)
    assert exact.ulp_errors(out, true).max() <= 2.0 ** (53 - 36)


def test_without_blocks_to_shorten_a_formula_is_its_own_short_form():
    assert elementary.single(elementary.log) is elementary.log


@pytest.mark.parametrize(
    ("name", "points", "want"),
    [
        ("exp", [np.inf, -np.inf, 0.0, -0.0, 710.0, -746.0], [np.inf, 0, 1, 1, np.inf, 0]),
        ("expm1", [np.inf, -np.inf, 0.0, -0.0, 5e-324], [np.inf, -1, 0.0, -0.0, 5e-324]),
        ("tanh", [np.inf, -np.inf, -0.0, 5e-324, 1e308], [1, -1, -0.0, 5e-324, 1]),
        ("tanh_gap", [np.inf, -np.inf, -0.0, 1e308], [np.inf, -np.inf, -0.0, 1e308]),
        ("log", [np.inf, 0.0, -0.0, 1.0], [np.inf, -np.inf, -np.inf, 0]),
        ("log1p", [np.inf, -1.0, -0.0, 5e-324], [np.inf, -np.inf, -0.0, 5e-324]),
        ("erf", [np.inf, -np.inf, -0.0, 5e-324], [1, -1, -0.0, 5e-324]),
        ("erfc", [np.inf, -np.inf, 0.0, 28.0], [0, 2, 1, 0]),
    ],
)
def test_special_values(name, points, want):
    got = values(name, points)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize(
    "name", ["exp", "expm1", "tanh", "tanh_gap", "log", "log1p", "erf", "erfc"]
)
def test_nan_stays_nan(name):
    assert np.isnan(values(name, [np.nan])).all()


@pytest.mark.parametrize("name", ["log", "log1p"])
def test_no_logarithm_of_a_negative_number(name):
    assert np.isnan(values(name, [-2.0, -np.inf])).all()


def test_logarithm_of_subnormal_numbers(rng):
    points = 10.0 ** rng.uniform(-323, -300, 200)
    errors = exact.ulp_errors(values("log", points), exact.evaluate(mp.log, points))
    assert errors.max() <= 0.9


def test_zeros_of_derivatives_are_those_of_the_script():
    for name, value in elementary_coefficients.at_zeros().items():
        home = {"SILU": _silu, "MISH": _mish, "GELU": _gelu}[name.split("_")[0]]
        assert getattr(home, name) == value, name


def test_coefficients_are_those_of_the_script():
    for name, value in elementary_coefficients.coefficients().items():
        home = circle if hasattr(circle, name) else elementary
        assert getattr(home, name) == value, name


def _fuse(x, y, z, out):
    for i in range(x.size):
        out[i] = elementary.fma(x[i], y[i], z[i])


def _fuse_single(x, y, z, out):
    for i in range(x.size):
        out[i] = elementary.fma_single(x[i], y[i], z[i])


def fma(x, y, z, by=_fuse):
    out = np.empty_like(x)
    kernel(by)(x, y, z, out)
    return out


def test_a_fused_sum_is_rounded_once(rng):
    x, y, noise = rng.normal(size=(3, 200))
    z = np.where(noise < 0.0, -x * y * (1.0 + 2.0**-51 * np.round(8 * noise)), noise)
    exact = [Fraction(a) * Fraction(b) + Fraction(c) for a, b, c in zip(x, y, z, strict=True)]
    np.testing.assert_array_equal(fma(x, y, z), [float(value) for value in exact])


@pytest.mark.parametrize("given", [np.float32, np.float64])
def test_a_fused_sum_of_float32_is_rounded_once(rng, given):
    x, y, noise = rng.normal(size=(3, 200)).astype(np.float32)
    z = np.float32(-x * y * (1 + noise * 1e-7))
    exact = [
        Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        for a, b, c in zip(x, y, z, strict=True)
    ]
    got = fma(x.astype(given), y.astype(given), z.astype(given), _fuse_single)
    np.testing.assert_array_equal(got, np.array(exact, float).astype(np.float32))


def test_a_fused_sum_of_special_values():
    x = np.array([0.0, -0.0, np.inf, np.inf, 1.0, 1e300, 2.0])
    y = np.array([-1.0, -1.0, 1.0, 0.0, 1.0, 1e300, 3.0])
    z = np.array([-0.0, 0.0, -1.0, 1.0, np.nan, 1.0, -6.0])
    want = [-0.0, 0.0, np.inf, np.nan, np.nan, np.inf, 0.0]
    got = fma(x, y, z)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(want[:2]))


def test_error_terms_lack_nothing(rng):
    for x, y in rng.normal(size=(50, 2)):
        rest = elementary.two_prod_error(np.float64(x), np.float64(y))
        assert Fraction(x * y) + Fraction(float(rest)) == Fraction(x) * Fraction(y)
        high, low = elementary.two_square(np.float64(x))
        assert Fraction(float(high)) + Fraction(float(low)) == Fraction(x) ** 2


def test_quotients_are_those_of_a_division(rng):
    x = np.concatenate([rng.normal(size=COUNT), 10.0 ** rng.uniform(-290, 290, COUNT)])
    for y in [6.0, 3.0, 1.0 / 3.0, np.nextafter(2.0, 1.0), *rng.uniform(1, 1000, 5)]:
        got = [elementary.quotient(a, np.float64(y), 0.0) for a in x]
        np.testing.assert_array_equal(got, x / y)


COEFFICIENTS = tuple(float(c) for c in np.linspace(1.5, -2.0, 16))


def _near(d, rest, out):
    for i in range(d.size):
        out[i] = elementary.near_zero(d[i], rest[i], COEFFICIENTS, 7.0)


def test_near_zero_is_d_times_its_polynomial(rng):
    d = rng.uniform(-0.374, 0.374, 60)
    rest, out = d * 2.0**-54 * rng.uniform(-1, 1, 60), np.empty(60)
    kernel(_near)(d, rest, out)
    for at, low, got in zip(d, rest, out, strict=True):
        x = Fraction(float(at)) + Fraction(float(low))
        exact = x * sum(Fraction(c) * x**k for k, c in enumerate(COEFFICIENTS))
        assert abs(Fraction(float(got)) - exact) <= Fraction(2) ** -52 * abs(exact)


def test_near_zero_takes_the_value_farther_away():
    d, out = np.array([0.375, -0.375, 1.0]), np.empty(3)
    kernel(_near)(d, np.zeros(3), out)
    assert (out == 7.0).all()


def _nearer(d, rest, out):
    for i in range(d.size):
        out[i] = elementary.near_zero_single(d[i], rest[i], COEFFICIENTS, 7.0)


def test_near_zero_to_half_the_digits(rng):
    d, out = np.append(rng.uniform(-0.0599, 0.0599, 60), 0.06), np.empty(61)
    kernel(_nearer)(d, np.zeros(61), out)
    for at, got in zip(d[:60], out, strict=False):
        exact = at * np.polynomial.Polynomial(COEFFICIENTS)(at)
        assert abs(got - exact) <= 1e-8 * abs(exact)  # of a sixth of half a unit of float32
    assert out[60] == 7.0


@pytest.mark.parametrize(
    ("name", "zero"), [("silu", -1.27846), ("gelu", -0.75179), ("mish", -1.19241)]
)
def test_derivatives_around_their_zeros_in_float32(name, zero, rng):
    f = getattr(activations, f"{name}_deriv")
    for width in (1e-5, 0.05, 0.07, 0.4):
        x = np.float32(zero + rng.uniform(-width, width, 200))
        exact = f(np.float64(x))  # more than twice the digits
        assert np.max(np.abs(f(x) - exact) / np.spacing(np.abs(exact).astype("f4"))) < 0.502


def test_numbers_of_a_fused_multiply_add_have_the_type_of_its_result():
    """The instruction that numba asks for while it compiles, with a builder that keeps it."""
    context = SimpleNamespace(cast=lambda builder, value, given, to: (value, given, to))
    builder = SimpleNamespace(fma=lambda *numbers: numbers)
    signature = SimpleNamespace(return_type="double", args=("float", "double", "int64"))
    emitted = elementary._emit_fma(context, builder, signature, "xyz")
    assert emitted == (
        ("x", "float", "double"), ("y", "double", "double"), ("z", "int64", "double")
    )  # fmt: skip


def test_the_bits_of_a_number_become_another_type():
    """The instruction that numba asks for while it compiles, with a builder that keeps it."""
    context = SimpleNamespace(get_value_type=lambda name: f"i{name}")
    builder = SimpleNamespace(bitcast=lambda number, to: (number, to))
    signature = SimpleNamespace(return_type=64, args=("double",))
    assert elementary._emit_same_bits(context, builder, signature, ["x"]) == ("x", "i64")


@pytest.mark.parametrize("x", [1.0, -0.0, 5e-324, -np.inf])
def test_interpreted_bits_lead_back_to_the_number(x):
    n = elementary._bits(x)
    assert n == int.from_bytes(np.float64(x).tobytes(), sys.byteorder, signed=True)
    assert np.copysign(1.0, elementary._number(n)) == np.copysign(1.0, x)
    assert elementary._number(n) == x
    single = np.float32(x)
    n = elementary._bits_single(single)
    assert n == int.from_bytes(single.tobytes(), sys.byteorder, signed=True)
    assert elementary._number_single(n) == single
