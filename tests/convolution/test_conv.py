"""Convolution: against PyTorch, as matrices, and its errors."""

import numpy as np
import pytest

from dlref import get_num_threads, set_num_threads
from dlref._core.jit import COMPILED
from dlref.convolution import conv, conv_jvp, conv_vjp
from dlref.convolution._kernels.products import ROOM
from dlref.formulas import convolution as formulas
from dlref.neurons import linear

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape)


SETTINGS = [
    ((2, 3, 9), (4, 3, 3), {}),
    ((2, 3, 9), (4, 3, 3), {"stride": 2, "padding": 1}),
    ((2, 4, 9), (6, 2, 3), {"dilation": 3, "groups": 2}),
    ((2, 4, 9, 8), (4, 1, 3, 2), {"groups": 4, "padding": (1, 2), "stride": (2, 1)}),
    ((3, 4, 8, 7), (5, 4, 3, 3), {"padding": 1, "dilation": (1, 2)}),
    ((1, 2, 5, 6, 4), (3, 2, 3, 2, 2), {"padding": (1, 0, 1), "stride": (1, 2, 3)}),
]


@pytest.mark.parametrize(("shape", "kernel", "options"), SETTINGS)
def test_against_pytorch(shape, kernel, options):
    peers = pytest.importorskip("peers")
    f = getattr(peers.torch.nn.functional, f"conv{len(shape) - 2}d")
    arrays = normal(*shape), normal(*kernel), normal(kernel[0])
    peers.assert_same("convolution.conv", lambda *a: f(*a, **options), *arrays, rng=RNG, **options)


SIDES = [
    ((2, 3, 9), (4, 3, 4), {"dilation": 3}, "same", ((4, 5),)),
    ((2, 4, 9, 8), (4, 2, 3, 2), {"groups": 2, "dilation": (1, 3)}, "same", ((1, 1), (1, 2))),
    ((2, 3, 9), (4, 3, 4), {"dilation": 2, "stride": 2}, "causal", ((6, 0),)),
    ((2, 3, 9), (4, 3, 4), {"stride": 3}, "valid", ((0, 0),)),
    ((2, 3, 6, 5), (4, 3, 3, 2), {"stride": 2}, ((0, 3), 1), ((0, 3), (1, 1))),
]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize(("shape", "kernel", "options", "padding", "sides"), SIDES)
def test_padding_of_each_side_against_pytorch(shape, kernel, options, padding, sides):
    peers = pytest.importorskip("peers")
    torch = peers.torch
    f = getattr(torch.nn.functional, f"conv{len(shape) - 2}d")
    widths = [n for side in reversed(sides) for n in side]  # the last axis first

    def of(x, w, b):
        return f(torch.nn.functional.pad(x, widths), w, b, **options)

    arrays = normal(*shape), normal(*kernel), normal(kernel[0])
    kwargs = {**options, "padding": padding}
    peers.assert_same("convolution.conv", of, *arrays, rng=RNG, **kwargs)
    if padding == "same":
        got = conv(*arrays, **kwargs)
        close(got, f(*map(torch.tensor, arrays), padding="same", **options))
        assert got.shape[2:] == shape[2:]


RINGS = [
    ((2, 3, 9), (4, 3, 3), {"padding": 2}),
    ((2, 3, 4), (4, 3, 5), {"padding": 4, "stride": 2}),
    ((2, 4, 9, 8), (4, 2, 3, 2), {"groups": 2, "padding": (1, 3), "dilation": (2, 1)}),
    ((1, 2, 5, 6, 4), (3, 2, 3, 2, 2), {"padding": (1, 0, 2), "stride": (1, 2, 3)}),
    ((2, 3, 9), (4, 3, 4), {"padding": "same", "dilation": 3}),
]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize(("shape", "kernel", "options"), RINGS)
def test_circular_padding_against_pytorch(shape, kernel, options):
    peers = pytest.importorskip("peers")
    torch = peers.torch
    axes, kwargs = len(shape) - 2, {**options, "padding_mode": "circular"}
    layer = getattr(torch.nn, f"Conv{axes}d")(shape[1], kernel[0], kernel[2:], **kwargs).double()
    of = lambda x, w, b: torch.func.functional_call(layer, {"weight": w, "bias": b}, (x,))  # noqa: E731
    arrays = normal(*shape), normal(*kernel), normal(kernel[0])
    peers.assert_same("convolution.conv", of, *arrays, rng=RNG, **kwargs)


def test_a_ring_that_is_shorter_than_its_padding():
    x, w, options = (
        normal(2, 3),
        normal(4, 2, 3),
        {"padding": ((7, 4),), "padding_mode": "circular"},
    )
    index = np.arange(-7, 7) % 3
    np.testing.assert_array_equal(conv(x, w, **options), conv(x[:, index], w))
    u = normal(4, 12)
    copies, want = conv_vjp(u, x[:, index], w)[0], np.zeros((2, 3))
    np.add.at(want, (slice(None), index), copies)
    close(conv_vjp(u, x, w, **options)[0], want)


def test_a_convolution_on_a_ring_is_a_product_of_fourier_transforms():
    x, w = normal(8), normal(8)
    options = {"padding": ((0, 7),), "padding_mode": "circular"}
    want = np.fft.ifft(np.fft.fft(x) * np.fft.fft(w).conj()).real
    np.testing.assert_allclose(conv([x], [[w]], **options)[0], want, rtol=0, atol=1e-14)


def test_causal_outputs_read_no_later_input():
    x, w = normal(2, 9), normal(3, 2, 4)
    changed = x.copy()
    changed[:, 5:] += 1
    options = {"padding": "causal", "dilation": 2}
    same = conv(x, w, **options) == conv(changed, w, **options)
    assert same[:, :5].all()
    assert not same[:, 5:].any()


def close(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-15 * np.abs(want).max())


@pytest.mark.parametrize(("shape", "kernel", "options"), SETTINGS)
def test_the_vjp_is_the_transposed_matrix(shape, kernel, options):
    x, w = normal(1, *shape[1:]), normal(*kernel)
    units = np.eye(x.size).reshape(-1, *x.shape[1:])
    matrix = conv(units, w, **options).reshape(x.size, -1).T
    y = conv(x, w, **options)
    close(y.ravel(), matrix @ x.ravel())
    u = normal(*y.shape)
    close(conv_vjp(u, x, w, **options)[0].ravel(), matrix.T @ u.ravel())


def test_a_kernel_of_one_place_is_a_linear_layer():
    x, w, b = normal(2, 3, 5, 4), normal(6, 3), normal(6)
    got = conv(x, w[:, :, None, None], b)
    close(np.moveaxis(got, 1, -1), linear(np.moveaxis(x, 1, -1), w, b))


def test_numpy_convolves_with_the_reversed_kernel():
    x, w = normal(20), normal(5)
    close(conv(x[None], w[None, None, ::-1])[0], np.convolve(x, w, "valid"))


def test_a_shift_of_the_input_shifts_the_output():
    x, w = normal(2, 12), normal(3, 2, 3)
    np.testing.assert_array_equal(conv(np.roll(x, 1, -1), w)[:, 1:], conv(x, w)[:, :-1])


def test_a_stride_takes_every_second_output_and_a_dilation_spreads_the_kernel():
    x, w = normal(2, 3, 16), normal(4, 3, 3)
    close(conv(x, w, stride=2), conv(x, w)[..., ::2])
    spread = np.zeros((4, 3, 5))
    spread[..., ::2] = w
    close(conv(x, w, dilation=2), conv(x, spread))


def test_groups_are_separate_convolutions():
    x, w = normal(2, 6, 9), normal(4, 3, 2)
    parts = [conv(x[:, 3 * g : 3 * g + 3], w[2 * g : 2 * g + 2]) for g in range(2)]
    close(conv(x, w, groups=2), np.concatenate(parts, axis=1))


@pytest.mark.parametrize("outputs", [6, 16])  # by sums of lines, and by tiles
def test_blocks_of_outputs_fit_together(outputs, monkeypatch):
    x, w = normal(2, 4, 9, 8), normal(outputs, 2, 3, 3)
    options = {"groups": 2, "padding": 1, "stride": (1, 2)}
    whole = conv(x, w, **options)
    u = normal(*whole.shape)
    grads = conv_vjp(u, x, w, **options)
    for limit in (1, 9, 3000):  # bytes, and outputs in a block
        for name in ("ROOM", "AT_ONCE", "OUTPUTS"):
            monkeypatch.setattr(f"dlref.convolution._kernels.products.{name}", limit)
        close(conv(x, w, **options), whole)
        for got, want in zip(conv_vjp(u, x, w, **options), grads, strict=True):
            close(got, want)


@pytest.mark.parametrize("outputs", [2, 8])  # by sums of lines, and by tiles
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1])
def test_a_bad_number_reaches_what_depends_on_it_alone(padding, axes, bad, outputs):
    """Not what stands beside the gaps between the lines of an image."""
    options = {"stride": (2, 1, 1)[:axes], "padding": padding}
    arrays = normal(2, 2, *(6, 5, 4)[:axes]), normal(outputs, 2, *(3, 3, 2)[:axes])
    arrays = (normal(*conv(*arrays, **options).shape), *arrays)
    for number, array in enumerate(arrays):
        for place in range(0, array.size, 7):
            spoiled = [a.copy() for a in arrays]
            spoiled[number].ravel()[place] = bad
            with np.errstate(invalid="ignore"):
                expected = [
                    formulas.conv(*spoiled[1:], **options),
                    *formulas.conv_vjp(*spoiled, **options),
                ]
            got = [conv(*spoiled[1:], **options), *conv_vjp(*spoiled, **options)]
            for one, other in zip(got, expected, strict=True):
                np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))


@pytest.mark.parametrize("outputs", [3, 32])
def test_bits_do_not_depend_on_threads(outputs):
    """Also for one image, whose channels are shared."""
    x, w = normal(1, 30, 40, 41), normal(outputs, 30, 3, 3)
    u = normal(1, outputs, 20, 21)
    before, results = get_num_threads(), []
    for number in (1, 2, 3):
        set_num_threads(number)
        options = {"stride": 2, "padding": 1}
        results.append([conv(x, w, **options), *conv_vjp(u, x, w, **options)])
    set_num_threads(before)
    for other in results[1:]:
        for got, want in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(2, 32, 128, 128), (1, 64, 56, 56), (8, 64, 56, 56)])
@pytest.mark.skipif(not COMPILED, reason="the arrays are large for plain Python")
def test_memory_is_bounded(shape):
    """No array has a column for each window: 9 times the input here. Threads have workspaces."""
    import tracemalloc  # noqa: PLC0415

    x, w = np.ones(shape, np.float32), np.ones((*2 * shape[1:2], 3, 3), np.float32)
    u = conv(x, w, padding=1)
    for call in (lambda: conv(x, w, padding=1), lambda: conv_vjp(u, x, w, padding=1)):
        call()  # compiled, which takes memory of its own
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2 * (x.nbytes + u.nbytes) + 3 * get_num_threads() * ROOM


@pytest.mark.parametrize(
    ("error", "message", "x", "weight", "options"),
    [
        (ValueError, r"'weight' must have shape \(out, in / groups, \*ker", (2, 5), (3, 2), {}),
        (ValueError, "'weight' must have shape", (2, 5), (3, 2, 1, 1, 1, 1), {}),
        (ValueError, "axes of at least 1, not", (2, 5), (3, 2, 0), {}),
        (ValueError, "'x' must have at least 3 axes", (5, 5), (3, 2, 1, 1), {}),
        (ValueError, r"'x' must have shape \(..., 2, \*space\), not", (3, 5), (3, 2, 1), {}),
        (ValueError, "first axis that is a multiple of 2", (4, 5), (3, 2, 1), {"groups": 2}),
        (ValueError, "'groups' must be at least 1", (2, 5), (3, 2, 1), {"groups": 0}),
        (ValueError, r"'x' must have axes of space of at least \(5,\)",
         (2, 4), (3, 2, 3), {"dilation": 2}),
        (ValueError, "'stride' must be at least 1", (2, 4), (3, 2, 3), {"stride": 0}),
        (ValueError, "'stride' must be an integer or a tuple of 1",
         (2, 4), (3, 2, 3), {"stride": (1, 1)}),
        (ValueError, r"'padding\[0\]' must be at least 0", (2, 4), (3, 2, 3), {"padding": (-1,)}),
        (ValueError, r"'padding\[0\]\[1\]' must be at least 0", (2, 4), (3, 2, 3),
         {"padding": ((0, -1),)}),
        (ValueError, r"'padding' must be 'valid', 'same' or 'causal'", (2, 4), (3, 2, 3),
         {"padding": "full"}),
        (ValueError, r"'stride' must be 1 for the padding 'same'", (2, 4), (3, 2, 3),
         {"padding": "same", "stride": 2}),
        (ValueError, r"'padding' must be an integer or a tuple of 1", (2, 4), (3, 2, 3),
         {"padding": (1, 1)}),
        (TypeError, "'dilation' must be an integer", (2, 4), (3, 2, 3), {"dilation": 1.5}),
    ],
)  # fmt: skip
def test_errors(error, message, x, weight, options):
    with pytest.raises(error, match=message):
        conv(np.ones(x), np.ones(weight), **options)


def test_missing_arrays_are_refused():
    with pytest.raises(TypeError, match="'weight' must be an array, not None"):
        conv(np.ones((2, 5)), None)
    with pytest.raises(ValueError, match="'bias' must have shape"):
        conv(np.ones((2, 5)), np.ones((3, 2, 2)), np.ones(2))
    with pytest.raises(TypeError, match="'primals' must be a tuple of 3"):
        conv_jvp(np.ones(3), None)
    with pytest.raises(TypeError, match="'tangents' must be a tuple of 2"):
        conv_jvp((np.ones((2, 5)), np.ones((3, 2, 2)), None), np.ones(3))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"padding_mode": "reflect"}, "'padding_mode' must be 'zeros' or 'circular'"),
        ({"padding": "causal"}, "'padding' must not be 'causal' if 'padding_mode' is 'circular'"),
        ({"padding": 3}, r"'x' must have axes of space of at least \(1,\), not \(0,\)"),
    ],
)
def test_errors_of_rings(options, words):
    with pytest.raises(ValueError, match=words):
        conv(np.ones((1, 0)), np.ones((1, 1, 3)), **{"padding_mode": "circular"} | options)
