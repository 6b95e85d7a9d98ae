"""Tests of the functions of one number."""

import mpmath
import numpy as np
import peers
import pytest

from dlref import calculus
from dlref._core.jit import COMPILED

INF, NAN = np.inf, np.nan
#: Points, the slope at a point of mpmath, and the largest error in units in the last place.
SLOPES = {
    "exp": (np.linspace(-745, 709, 301), mpmath.exp, 1),
    "log": (10.0 ** np.linspace(-300, 300, 301), lambda x: 1 / x, 0.5),
    "log1p": (np.concatenate([np.linspace(-1, 3, 301)[1:], 10.0 ** np.arange(-300, 300, 7)]),
              lambda x: 1 / (1 + x), 1.5),
    "expm1": (np.linspace(-745, 709, 301), mpmath.exp, 1),
    "sqrt": (10.0 ** np.linspace(-300, 300, 301), lambda x: 1 / (2 * mpmath.sqrt(x)), 1.5),
    "sin": (np.linspace(-1e4, 1e4, 301), mpmath.cos, 1),
    "cos": (np.linspace(-1e4, 1e4, 301), lambda x: -mpmath.sin(x), 1),
    "tan": (np.linspace(-1e4, 1e4, 301), lambda x: 1 + mpmath.tan(x) ** 2, 3),
    "erf": (np.linspace(-26.5, 26.5, 301),
            lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(x**2)), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_fifty_digits(name):
    points, slope, units = SLOPES[name]
    got = getattr(calculus, f"{name}_deriv")(points)
    with mpmath.workdps(50):
        for x, value in zip(points, got, strict=True):
            exact = slope(mpmath.mpf(x))
            assert abs(value - exact) <= units * np.spacing(abs(float(exact))), x


@pytest.mark.parametrize("name", [*SLOPES, "absolute", "clip"])
def test_pytorch(name, rng):
    torch = peers.torch
    x = rng.uniform(0.1, 2, size=(5, 4)) if name in {"log", "sqrt"} else rng.normal(size=(5, 4))
    x = np.abs(x) if name == "log1p" else x
    options = {"min": -0.5, "max": 0.75} if name == "clip" else {}
    f = {"absolute": torch.abs, "clip": torch.clamp}.get(name) or getattr(torch, name)
    peers.assert_same(f"calculus.{name}", lambda x: f(x, **options), x, rng=rng, **options)


@pytest.mark.parametrize(
    ("name", "x", "slope"),
    [
        ("exp", [-INF, 0, INF, NAN], [0, 1, INF, NAN]),
        ("expm1", [-INF, 0, INF, NAN], [0, 1, INF, NAN]),
        ("log", [0, -0.0, -1, INF, NAN], [INF, INF, NAN, 0, NAN]),
        ("log1p", [-1, -2, INF, NAN], [INF, NAN, 0, NAN]),
        ("sqrt", [0, -0.0, -1, INF, NAN], [INF, INF, NAN, 0, NAN]),
        ("sin", [INF, NAN], [NAN, NAN]),
        ("cos", [INF, NAN], [NAN, NAN]),
        ("tan", [INF, NAN], [NAN, NAN]),
        ("erf", [-INF, 28, 1e300, INF, NAN], [0, 0, 0, 0, NAN]),
        ("absolute", [-INF, -0.0, 0, INF, NAN], [-1, 0, 0, 1, NAN]),
        ("clip", [-INF, 0, INF, NAN], [1, 1, 1, NAN]),
    ],
)
def test_special_values(name, x, slope):
    np.testing.assert_array_equal(getattr(calculus, f"{name}_deriv")(x), np.array(slope, float))


def test_kinks_of_the_libraries():
    jax = pytest.importorskip("jax", reason="see the dependency group 'peers'")
    torch, at = peers.torch, np.array([-1.0, 1.0])
    _, (theirs,) = peers.value_and_vjp(lambda x: torch.clamp(x, -1, 1), at, dout=np.ones(2))
    np.testing.assert_array_equal(calculus.clip_deriv(at, min=-1, max=1), theirs)
    assert jax.grad(lambda x: jax.numpy.clip(x, -1, 1))(1.0) == 0.5
    _, (theirs,) = peers.value_and_vjp(torch.abs, np.zeros(1), dout=np.ones(1))
    np.testing.assert_array_equal(calculus.absolute_deriv([0.0]), theirs)
    assert jax.grad(jax.numpy.abs)(0.0) == 1
    _, (theirs,) = peers.value_and_vjp(torch.log, np.array([-2.0]), dout=np.ones(1))
    assert theirs[0] == jax.grad(jax.numpy.log)(-2.0) == -0.5


def test_a_clip_is_two_extrema_but_for_its_limits(rng):
    x = rng.normal(size=50)
    inner, _ = calculus.minimum_vjp(np.ones(50), np.maximum(x, -0.5), 0.5)
    want, _ = calculus.maximum_vjp(inner, x, -0.5)
    np.testing.assert_array_equal(calculus.clip_deriv(x, min=-0.5, max=0.5), want)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"min": 2, "max": 1}, ValueError, "'max' must be at least 2, not 1"),
        ({"min": NAN}, ValueError, "'min' must be at least -inf, not nan"),
        ({"max": NAN}, ValueError, "'max' must be at least -inf, not nan"),
        ({"min": [1, 2]}, TypeError, r"'min' must be a number, not \[1, 2\]"),
    ],
)
def test_limits_that_are_refused(options, error, words):
    for call in (
        lambda: calculus.clip_deriv(0.0, **options),
        lambda: calculus.clip_vjp(1.0, 0.0, **options),
        lambda: calculus.clip_jvp(0.0, 1.0, **options),
    ):
        with pytest.raises(error, match=f"^Argument {words}"):
            call()


#: Angles next to a quarter of a turn, or of many turns: where a remainder may lose its digits.
ANGLES = np.concatenate([np.pi / 2 * np.arange(-40.0, 41), np.pi / 2 * 3.0 ** np.arange(26),
                         2.0 ** np.arange(20, 1023, 17), [1e-300, 0.0]])  # fmt: skip


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_angles_that_lose_digits(name, dtype):
    points = ANGLES[np.finfo(dtype).max > ANGLES].astype(dtype)
    got = getattr(calculus, f"{name}_deriv")(points)
    units = SLOPES[name][2] if dtype == np.float64 else 0.501
    with mpmath.workdps(400):
        for x, value in zip(points, got, strict=True):
            exact = SLOPES[name][1](mpmath.mpf(float(x)))
            unit = np.spacing(dtype(abs(exact)))
            assert abs(mpmath.mpf(float(value)) - exact) <= units * mpmath.mpf(float(unit)), x


def test_the_bits_of_an_element_do_not_depend_on_the_others(rng, set_num_threads):
    """Some elements near a quarter of a turn are computed in another way; only they are."""
    x, u = rng.normal(size=(2, 2**18 if COMPILED else 3000))
    x[rng.integers(0, x.size, 50)] = np.pi / 2
    set_num_threads(2)
    whole = calculus.sin_vjp(u, x)
    set_num_threads(1)
    parts = [calculus.sin_vjp(u[k::3], x[k::3]) for k in range(3)]
    for k, part in enumerate(parts):
        np.testing.assert_array_equal(whole[k::3], part)
    np.testing.assert_array_equal(whole, calculus.sin_jvp(x, u))
