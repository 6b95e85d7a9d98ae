"""Transposed convolution: against PyTorch and JAX, as the adjoint, and its errors."""

import numpy as np
import pytest

from dlref.convolution import (
    conv,
    conv_transpose,
    conv_transpose_jvp,
    conv_vjp,
)

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape)


def close(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-15 * np.abs(want).max())


SETTINGS = [
    ((2, 3, 5), (3, 4, 3), {}),
    ((2, 3, 5), (3, 4, 4), {"stride": 2, "padding": 1}),
    ((2, 4, 5), (4, 2, 3), {"stride": 3, "output_padding": 2, "groups": 2}),
    ((2, 4, 4, 5), (4, 1, 3, 2), {"groups": 4, "padding": (1, 0), "dilation": (1, 2)}),
    ((1, 2, 3, 4, 2), (2, 3, 2, 3, 2), {"stride": (1, 2, 3), "output_padding": (0, 1, 2)}),
]


@pytest.mark.parametrize(("shape", "kernel", "options"), SETTINGS)
def test_against_pytorch(shape, kernel, options):
    peers = pytest.importorskip("peers")
    f = getattr(peers.torch.nn.functional, f"conv_transpose{len(shape) - 2}d")
    outputs = kernel[1] * options.get("groups", 1)
    arrays = normal(*shape), normal(*kernel), normal(outputs)
    of = lambda *a: f(*a, **options)  # noqa: E731
    peers.assert_same("convolution.conv_transpose", of, *arrays, rng=RNG, **options)


@pytest.mark.parametrize("reads_in_order", [True, False])
def test_jax_does_not_reverse_the_kernel_by_default(reads_in_order):
    jax = pytest.importorskip("jax")
    x, w = normal(1, 2, 5), normal(2, 3, 3)
    weight = w.swapaxes(0, 1)[..., ::-1] if reads_in_order else w
    with jax.enable_x64(True):
        got = jax.lax.conv_transpose(
            x, weight, (2,), "VALID", dimension_numbers=("NCH", "OIH", "NCH"),
            transpose_kernel=not reads_in_order,
        )  # fmt: skip
    np.testing.assert_allclose(np.asarray(got), conv_transpose(x, w, stride=2), atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2}])
def test_it_is_the_adjoint_of_the_convolution(options):
    z, w = normal(2, 3, 9, 7), normal(4, 3, 3, 3)
    y = conv(z, w, **options)
    x = normal(*y.shape)
    back = conv_transpose(x, w, **options)
    assert back.shape == z.shape  # both sides are odd, so that no output padding is needed
    np.testing.assert_allclose(np.sum(x * y), np.sum(back * z), rtol=1e-12)
    close(back, conv_vjp(x, z, w, **options)[0])


def test_the_output_padding_chooses_the_size():
    w = normal(1, 1, 3)
    for size, q in ((9, 0), (10, 1)):
        y = conv(normal(1, size), w, stride=2, padding=1)
        back = conv_transpose(y, w, stride=2, padding=1, output_padding=q)
        assert y.shape == (1, 5)
        assert back.shape == (1, size)


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(2, 1, 1), (3, 0, 2), (1, 2, 2)])
def test_it_is_a_convolution_of_spread_inputs(stride, padding, dilation):
    x, w = normal(2, 5), normal(2, 3, 3)
    spread = np.zeros((2, 5 * stride - stride + 1))
    spread[:, ::stride] = x
    options = {"padding": padding, "dilation": dilation}
    want = conv(
        spread,
        w.swapaxes(0, 1)[..., ::-1],
        padding=2 * dilation - padding,
        dilation=dilation,
    )
    close(conv_transpose(x, w, stride=stride, **options), want)


@pytest.mark.parametrize(
    ("message", "x", "weight", "options"),
    [
        (r"'weight' must have shape \(in, out / groups", (2, 5), (2, 3), {}),
        (r"'x' must have shape \(..., 2, ", (3, 5), (2, 3, 1), {}),
        ("first axis that is a multiple of 2", (3, 5), (3, 2, 1), {"groups": 2}),
        (r"'output_padding' must be less than .* \(2,\), not \(2,\)", (2, 5), (2, 3, 3),
         {"stride": 2, "output_padding": 2}),
        (r"'x' and 'padding' must leave an output", (2, 2), (2, 3, 3), {"padding": 2}),
        (r"'x' and 'padding' must leave an output", (2, 0), (2, 3, 3), {}),
    ],
)  # fmt: skip
def test_errors(message, x, weight, options):
    with pytest.raises(ValueError, match=message):
        conv_transpose(np.ones(x), np.ones(weight), **options)


def test_missing_arrays_are_refused():
    x, w = np.ones((2, 5)), np.ones((2, 3, 2))
    with pytest.raises(TypeError, match="'weight' must be an array, not None"):
        conv_transpose(x, None)
    with pytest.raises(ValueError, match=r"'bias' must have shape \(3,\)"):
        conv_transpose(x, w, np.ones(2))
    with pytest.raises(TypeError, match="'tangents' must be a tuple of 2"):
        conv_transpose_jvp((x, w, None), np.ones(3))
    with pytest.raises(TypeError, match="'primals' must be a tuple of 3"):
        conv_transpose_jvp(x, None)
