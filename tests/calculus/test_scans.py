"""Tests of the scans."""

import itertools

import mpmath
import numpy as np
import pytest

from dlref import calculus

INF, NAN = np.inf, np.nan
SCANS = ["cumsum", "cumprod", "cumlogsumexp"]
OPTIONS = list(itertools.product([False, True], repeat=2))


def torch_scan(torch, name, axis, reverse, exclusive):
    """Return a scan of PyTorch, which has neither option: turned, and shifted."""
    f = {"cumlogsumexp": torch.logcumsumexp}.get(name) or getattr(torch, name)
    first = {"cumsum": 0.0, "cumprod": 1.0, "cumlogsumexp": -INF}[name]

    def scan(x):
        x = torch.flip(x, [axis]) if reverse else x
        y = f(x, axis)
        if exclusive:
            start = torch.full_like(y.narrow(axis, 0, 1), first)
            y = torch.cat([start, y.narrow(axis, 0, y.shape[axis] - 1)], axis)
        return torch.flip(y, [axis]) if reverse else y

    return scan


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("reverse", "exclusive"), OPTIONS)
@pytest.mark.parametrize("name", SCANS)
def test_pytorch(name, reverse, exclusive, axis, rng, assert_close):
    import peers  # noqa: PLC0415  # only where PyTorch is

    options = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
    x, dout = rng.normal(size=(2, 3, 5, 4))
    scan = torch_scan(peers.torch, name, **options)
    value, (want,) = peers.value_and_vjp(scan, x, dout=dout)
    finite = np.isfinite(value)
    got = getattr(calculus, name)(x, **options)
    np.testing.assert_array_equal(got[~finite], value[~finite])
    assert_close(got[finite], value[finite])
    assert_close(getattr(calculus, f"{name}_vjp")(dout, x, **options), want)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", SCANS)
def test_jax(name, reverse, rng):
    jax = pytest.importorskip("jax")
    x, v = rng.normal(size=(2, 3, 6)).astype(np.float32)
    f = lambda x: getattr(jax.lax, name)(x, axis=1, reverse=reverse)  # noqa: E731
    want, moved = jax.jvp(f, (x,), (v,))
    got = getattr(calculus, name)(x, reverse=reverse)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)
    got = getattr(calculus, f"{name}_jvp")(x, v, reverse=reverse)
    np.testing.assert_allclose(got, moved, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("x", [[2, 0, 5, 3], [0, 4, 0, 3], [0, 0, 0, 0], [1, 2, 3, 0]])
def test_zeros_of_a_product(x):
    x, u = np.array(x, float), np.array([1.0, 10, 100, 1000])
    slopes = np.array(
        [[np.prod(np.delete(x[: i + 1], j)) if j <= i else 0 for j in range(4)] for i in range(4)]
    )
    np.testing.assert_array_equal(calculus.cumprod_vjp(u, x), u @ slopes)
    np.testing.assert_array_equal(calculus.cumprod_jvp(x, u), slopes @ u)


@pytest.mark.parametrize("offset", [0.0, 1e4, -1e4])
def test_fifty_digits_of_log_sums(offset, rng):
    x, u = 5 * rng.normal(size=300) + offset, rng.normal(size=300)
    with mpmath.workdps(50):
        exponentials = [mpmath.exp(mpmath.mpf(v)) for v in x]
        sums = list(itertools.accumulate(exponentials))
        want = [float(mpmath.log(total)) for total in sums]
        shares = [mpmath.mpf(a) / total for a, total in zip(u, sums, strict=True)]
        after = list(itertools.accumulate(reversed(shares)))[::-1]
        slopes = [float(e * s) for e, s in zip(exponentials, after, strict=True)]
    np.testing.assert_allclose(calculus.cumlogsumexp(x), want, rtol=4e-15)
    got = calculus.cumlogsumexp_vjp(u, x)
    np.testing.assert_allclose(got, slopes, rtol=0, atol=4e-15 * np.max(np.abs(slopes)))


class TestSpecialValues:
    def test_nothing_but_minus_infinity_comes_first(self):
        x = [-INF, -INF, 0.0, -INF, 0.0]
        np.testing.assert_array_equal(calculus.cumlogsumexp(x)[:4], [-INF, -INF, 0, 0])
        np.testing.assert_array_equal(
            calculus.cumlogsumexp_vjp([1, 1, 1, 1, 2], x), [0, 0, 3, 0, 1]
        )
        np.testing.assert_array_equal(
            calculus.cumlogsumexp_jvp(x, [5, 5, 4, 5, 2]), [0, 0, 4, 4, 3]
        )

    def test_infinity_and_nan_reach_what_comes_after(self):
        np.testing.assert_array_equal(calculus.cumlogsumexp([0, INF, INF, 0]), [0, INF, INF, INF])
        np.testing.assert_array_equal(
            calculus.cumlogsumexp([-INF, NAN, 0, INF]), [-INF, NAN, NAN, NAN]
        )
        np.testing.assert_array_equal(calculus.cumsum([1, INF, -INF, 2]), [1, INF, NAN, NAN])
        np.testing.assert_array_equal(calculus.cumprod([2, INF, 0, 1]), [2, INF, NAN, NAN])

    @pytest.mark.parametrize("name", SCANS)
    def test_an_exclusive_scan_does_not_read_its_last_element(self, name):
        x, u = np.array([[1.0, 2.0, NAN]]), np.ones((1, 3))
        assert np.isfinite(getattr(calculus, name)(x, exclusive=True)[0, 1:]).all()
        got = getattr(calculus, f"{name}_vjp")(u, x, exclusive=True)
        assert np.isfinite(got).all()
        assert got[0, 2] == 0

    @pytest.mark.parametrize("name", SCANS)
    def test_one_element_and_none(self, name):
        f, nothing = getattr(calculus, name), {"cumsum": 0, "cumprod": 1, "cumlogsumexp": -INF}
        np.testing.assert_array_equal(f([3.0]), [3])
        np.testing.assert_array_equal(f([3.0], exclusive=True), [nothing[name]])
        assert f(np.ones((2, 0)), exclusive=True).shape == (2, 0)


@pytest.mark.parametrize("name", SCANS)
def test_a_transposed_scan_turns_around(name, rng):
    x, u = rng.normal(size=(2, 4, 6))
    for exclusive in (False, True):
        turned = getattr(calculus, f"{name}_vjp")(
            u[:, ::-1], x[:, ::-1], reverse=True, exclusive=exclusive
        )
        want = getattr(calculus, f"{name}_vjp")(u, x, exclusive=exclusive)
        np.testing.assert_array_equal(turned[:, ::-1], want)


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"axis": 2}, ValueError, "'axis' must hold distinct axes of an array of 2 axes, not 2"),
        ({"axis": 0.5}, TypeError, "'axis' must be an integer, not 0.5"),
        ({"axis": None}, TypeError, "'axis' must be an integer, not None"),
        ({"reverse": 1}, TypeError, "'reverse' must be True or False, not 1"),
        ({"exclusive": "no"}, TypeError, "'exclusive' must be True or False, not 'no'"),
    ],
)
def test_refused(name, options, error, words):
    x = np.ones((2, 3))
    for call in (
        lambda: getattr(calculus, name)(x, **options),
        lambda: getattr(calculus, f"{name}_vjp")(x, x, **options),
        lambda: getattr(calculus, f"{name}_jvp")(x, x, **options),
    ):
        with pytest.raises(error, match=f"^Argument {words}"):
            call()
    with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 1 axis"):
        getattr(calculus, name)(1.0)
