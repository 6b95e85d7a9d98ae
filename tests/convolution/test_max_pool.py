"""Pooling by maximum and by mean: against PyTorch, ties, padding, and errors."""

import numpy as np
import pytest

from dlref.convolution import (
    conv,
    max_pool,
    max_pool_jvp,
    max_pool_vjp,
    mean_pool,
    mean_pool_jvp,
    mean_pool_vjp,
)

RNG = np.random.default_rng(0)
FORMS = {
    "max": (max_pool, max_pool_vjp, max_pool_jvp),
    "avg": (mean_pool, mean_pool_vjp, mean_pool_jvp),
}
NAMES = {"max": "max_pool", "avg": "mean_pool"}
SETTINGS = [
    ((2, 3, 9), {"size": (3,)}),
    ((2, 3, 9), {"size": (4,), "stride": 2, "padding": 2}),
    ((2, 3, 9, 8), {"size": (3, 2), "stride": (1, 3), "padding": (1, 0)}),
    ((1, 2, 5, 6, 4), {"size": (2, 3, 2), "stride": 2, "padding": 1}),
]


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize(("shape", "options"), SETTINGS)
def test_against_pytorch(shape, options, equal, kind):
    peers = pytest.importorskip("peers")
    pool = getattr(peers.torch.nn.functional, f"{kind}_pool{len(shape) - 2}d")
    kwargs = options.get("stride"), options.get("padding", 0)
    x = RNG.normal(size=shape) if not equal else RNG.integers(0, 3, shape).astype(float)
    f = lambda x: pool(x, options["size"], *kwargs)  # noqa: E731
    peers.assert_same(f"convolution.{NAMES[kind]}", f, x, rng=RNG, **options)


ROUNDED_UP = [
    ((2, 3, 9), {"size": (2,), "stride": 2}),
    ((2, 3, 10), {"size": (4,), "stride": 3, "padding": 2}),
    ((2, 3, 4), {"size": (2,), "stride": 3, "padding": 1}),
    ((2, 3, 9, 8), {"size": (3, 2), "stride": (2, 3), "padding": (1, 0)}),
    ((1, 2, 5, 6, 4), {"size": (2, 3, 2), "stride": 2, "padding": 1}),
]


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        ("max", "dilation", 1),
        ("max", "dilation", 2),
        ("avg", "count_include_pad", False),
        ("avg", "count_include_pad", True),
    ],
)
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("shape", "options"), ROUNDED_UP + SETTINGS)
def test_shapes_and_divisors_against_pytorch(shape, options, ceil_mode, kind, option, value):
    peers = pytest.importorskip("peers")
    pool = getattr(peers.torch.nn.functional, f"{kind}_pool{len(shape) - 2}d")
    places = options.get("stride"), options.get("padding", 0)
    more = {option: value, "ceil_mode": ceil_mode}
    f = lambda x: pool(x, options["size"], *places, **more)  # noqa: E731
    x = RNG.normal(size=shape)
    peers.assert_same(f"convolution.{NAMES[kind]}", f, x, rng=RNG, **options, **more)


def test_a_dilated_window_needs_an_element():
    with pytest.raises(ValueError, match=r"^Argument 'dilation' must leave an element in every"):
        max_pool([1.0, 2.0], size=(2,), stride=1, padding=1, dilation=3)
    for f in (max_pool, mean_pool):
        with pytest.raises(TypeError, match=r"^Argument 'ceil_mode' must be"):
            f([1.0, 2.0], size=(2,), ceil_mode=2)
    with pytest.raises(TypeError, match=r"^Argument 'count_include_pad' must be"):
        mean_pool([1.0, 2.0], size=(2,), count_include_pad=2)


def test_a_nan_gets_the_gradient():
    x = np.array([3.0, np.nan, 5.0, 1.0, 2.0, 4.0])
    grad = max_pool_vjp(np.array([10.0, 20.0]), x, size=(3,))
    np.testing.assert_array_equal(grad, [0.0, 10.0, 0.0, 0.0, 0.0, 20.0])


def test_infinities_and_nan_as_in_pytorch():
    torch = pytest.importorskip("torch")
    inf, nan = np.inf, np.nan
    x = np.array([[-inf, -inf, -inf, nan, 1.0, nan, inf, inf, -inf, -inf, 2.0, -inf]])
    options = {"size": (3,), "stride": 1, "padding": 1}
    u = np.arange(1.0, 13.0)[None]
    tensor = torch.tensor(x, requires_grad=True)
    y = torch.nn.functional.max_pool1d(tensor[None], 3, 1, 1)[0]
    (grad,) = torch.autograd.grad(y, tensor, torch.tensor(u))
    np.testing.assert_array_equal(max_pool(x, **options), y.detach())
    np.testing.assert_array_equal(max_pool_vjp(u, x, **options), grad)


def test_a_mean_is_a_convolution_with_equal_weights():
    x = RNG.normal(size=(2, 1, 6, 7))
    options = {"stride": 2, "padding": 1}
    want = conv(x, np.full((1, 1, 3, 2), 1 / 6), **options)
    np.testing.assert_allclose(mean_pool(x, size=(3, 2), **options), want, atol=1e-15)


def test_windows_of_the_whole_image():
    x = RNG.normal(size=(3, 4, 5))
    np.testing.assert_array_equal(max_pool(x, size=(4, 5))[:, 0, 0], x.max((1, 2)))
    np.testing.assert_allclose(mean_pool(x, size=(4, 5))[:, 0, 0], x.mean((1, 2)), atol=1e-15)


def test_a_mean_of_float32_is_rounded_once():
    x = RNG.uniform(size=(1, 100_000)).astype(np.float32)
    got = mean_pool(x, size=(100_000,))
    assert got.dtype == np.float32
    assert got[0, 0] == np.float32(x.mean(dtype=np.float64))


@pytest.mark.parametrize("kind", FORMS)
def test_pieces_of_rows_fit_together(kind, monkeypatch):
    f, vjp, jvp = FORMS[kind]
    x, options = RNG.normal(size=(5, 3, 6, 7)), {"size": (3, 2), "padding": 1}
    y = f(x, **options)
    whole = y, vjp(y, x, **options), jvp(x, x, **options)
    monkeypatch.setattr("dlref.convolution._kernels.pools.ROOM", 1000)
    pieces = f(x, **options), vjp(y, x, **options), jvp(x, x, **options)
    for got, want in zip(pieces, whole, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("f", [max_pool, mean_pool])
@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (TypeError, "'size' must be a tuple of 1 to 3 integers, not 2", {"size": 2}),
        (ValueError, "'size' must be a tuple of 1 to 3", {"size": ()}),
        (ValueError, r"'size\[1\]' must be at least 1", {"size": (1, 0)}),
        (ValueError, "at most half of the size", {"size": (3,), "padding": 2}),
        (ValueError, "'stride' must be at least 1", {"size": (3,), "stride": 0}),
        (ValueError, "'x' must have at least 3 axes", {"size": (1, 1, 1)}),
        (ValueError, r"'x' must have axes of space of at least \(7,\)", {"size": (7,)}),
    ],
)
def test_errors(f, error, message, options):
    with pytest.raises(error, match=message):
        f(np.ones((4, 5)), **options)


@pytest.mark.parametrize("vjp", [max_pool_vjp, mean_pool_vjp])
def test_missing_arrays_are_refused(vjp):
    with pytest.raises(TypeError, match="'x' must be an array, not None"):
        vjp(np.ones(2), None, size=(2,))
    with pytest.raises(TypeError, match="'dout' must be an array, not None"):
        vjp(None, np.ones(4), size=(2,))
    with pytest.raises(TypeError, match="'x' must be an array, not None"):
        FORMS["max" if vjp is max_pool_vjp else "avg"][0](None, size=(2,))
