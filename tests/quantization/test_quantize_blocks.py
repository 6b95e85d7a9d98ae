"""Formats with blocks, bit by bit: ml_dtypes, the definition written out, PyTorch's casts."""

import itertools
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from dlref.formulas import quantization as formulas
from dlref.quantization import dequantize_blocks, quantize_blocks

MX = {
    "mxfp8_e4m3": ml_dtypes.float8_e4m3fn,
    "mxfp8_e5m2": ml_dtypes.float8_e5m2,
    "mxfp6_e2m3": ml_dtypes.float6_e2m3fn,
    "mxfp6_e3m2": ml_dtypes.float6_e3m2fn,
    "mxfp4": ml_dtypes.float4_e2m1fn,
}
#: m, E_min, E_max, the largest number.
ELEMENTS = {
    "mxfp8_e4m3": (3, -6, 8, 448),
    "mxfp8_e5m2": (2, -14, 15, 57344),
    "mxfp6_e2m3": (3, 0, 2, 7.5),
    "mxfp6_e3m2": (2, -2, 4, 28),
    "mxfp4": (1, 0, 2, 6),
}
FORMATS = [*MX, "nvfp4"]
WIDTH = {"mxfp8_e4m3": 8, "mxfp8_e5m2": 8, "mxfp6_e2m3": 6, "mxfp6_e3m2": 6, "mxfp4": 4, "nvfp4": 4}


def numbers(dtype, bits):
    """All finite numbers of a dtype of ml_dtypes, in order."""
    values = np.arange(2**bits, dtype=np.uint8).view(dtype).astype(np.float64)
    return np.unique(values[np.isfinite(values)])


def every_edge(name):
    """Numbers, midpoints, their neighbors in float32, and some far off."""
    values = numbers(MX[name], WIDTH[name])
    points = np.concatenate([values, (values[1:] + values[:-1]) / 2])
    single = points.astype(np.float32)
    assert np.array_equal(single, points)
    near = [np.nextafter(single, np.float32(to)) for to in (-np.inf, np.inf)]
    top = 2.0 ** (ELEMENTS[name][2] + 1)
    end = np.nextafter(np.float32(top), np.float32(0))
    rest = np.array([0.0, -0.0, 1e-30, -1e-30, end, -end])
    return np.concatenate([points, *near, rest])


def in_blocks(x, name):
    """Blocks with one number whose exponent is the largest, so that the scale is 1."""
    size = 31
    padded = np.concatenate([x, np.zeros(-len(x) % size)]).reshape(-1, size)
    first = np.full((len(padded), 1), 2.0 ** ELEMENTS[name][2])
    return np.concatenate([first, padded], axis=1)


def cast(x, name):
    """Cast with ml_dtypes, saturating first; -0 is kept."""
    largest = ELEMENTS[name][3]
    return np.clip(x, -largest, largest).astype(MX[name]).view(np.uint8)


@pytest.mark.parametrize("name", MX)
@pytest.mark.parametrize("power", [0, -40, 60, -100])
def test_every_number_and_midpoint_against_ml_dtypes(name, power):
    x = in_blocks(every_edge(name), name)
    codes, scales = quantize_blocks(x * 2.0**power, format=name)
    np.testing.assert_array_equal(scales, 127 + power)
    np.testing.assert_array_equal(codes, cast(x, name))


@pytest.mark.parametrize("name", MX)
def test_float32_gives_the_same_codes(name):
    x = in_blocks(every_edge(name), name).astype(np.float32)
    x = np.where(abs(x) < 2.0 ** (ELEMENTS[name][2] + 1), x, 1).astype(np.float32)
    codes, scales = quantize_blocks(x, format=name)
    np.testing.assert_array_equal(codes, cast(x.astype(np.float64), name))
    assert np.all(scales == 127)


@pytest.mark.parametrize("name", MX)
def test_the_numbers_of_all_codes_are_those_of_ml_dtypes(name):
    count = 2 ** WIDTH[name]
    codes = np.resize(np.arange(count, dtype=np.uint8), max(32, count))
    want = codes.view(MX[name]).astype(np.float64)
    ones = np.full(codes.size // 32, 127)
    got = dequantize_blocks(codes, ones, format=name, dtype=np.float64)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    finite = np.isfinite(want)
    back, _ = quantize_blocks(in_blocks(want[finite], name), format=name)
    np.testing.assert_array_equal(back[:, 1:].ravel()[: finite.sum()], codes[finite])


@pytest.mark.parametrize("name", MX)
def test_all_scales_are_powers_of_two(name):
    codes = np.zeros((256, 32), int)
    codes[:, 0] = 1
    scales = np.arange(256)[:, None]
    got = dequantize_blocks(codes, scales, format=name, dtype=np.float64)[:, 0]
    m, least, _, _ = ELEMENTS[name]
    want = scales.ravel().astype(np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    np.testing.assert_array_equal(got, want * 2.0 ** (least - m))


def by_definition(block, name):
    """Section 6.3 of the specification, in rational numbers: codes of the nearest, ties to even."""
    _, _, most, _ = ELEMENTS[name]
    top = max(abs(Fraction(float(v))) for v in block)
    shared = -127
    if top:
        exponent = -1100
        while Fraction(2) ** (exponent + 1) <= top:
            exponent += 1
        shared = min(127, max(-127, exponent - most))
    values = [Fraction(float(v)) for v in numbers(MX[name], WIDTH[name]) if v >= 0]
    codes = []
    for v in block:
        size = abs(Fraction(float(v))) / Fraction(2) ** shared
        best = min(range(len(values)), key=lambda c: (abs(values[c] - size), c % 2))
        codes.append(best + (2 ** (WIDTH[name] - 1) if np.signbit(v) else 0))
    return codes, shared + 127


@pytest.mark.parametrize("name", MX)
def test_the_definition_in_rational_numbers(name, rng):
    blocks = rng.normal(size=(6, 32)) * np.exp2(rng.integers(-20, 20, (6, 1)))
    blocks[1] *= 1e-44  # the scale is the smallest, and what is left are subnormal numbers
    blocks[2] *= 1e30
    blocks[3] = 0.0
    blocks[4, ::2] = -0.0
    codes, scales = quantize_blocks(blocks, format=name)
    for n, block in enumerate(blocks):
        want, scale = by_definition(block, name)
        assert codes[n].tolist() == want
        assert scales[n, 0] == scale


def rounded_up(top, name, mode):
    """Exponent of the scale of a block, by comparisons of rational numbers."""
    m, _, most, largest = ELEMENTS[name]
    top, exponent = Fraction(float(top)), -1100
    while Fraction(2) ** (exponent + 1) <= top:
        exponent += 1
    quotient = top / Fraction(2) ** (exponent - most)
    above = {
        "floor": False,
        "even": quotient >= Fraction(2) ** (most + 1) * (1 - Fraction(1, 4 * 2**m)),
        "rceil": quotient > Fraction(largest),
        "ceil": quotient > Fraction(2) ** most,
    }
    return min(127, max(-127, exponent - most + above[mode]))


@pytest.mark.parametrize("mode", ["floor", "even", "rceil", "ceil"])
@pytest.mark.parametrize("name", MX)
def test_rounded_scales_in_rational_numbers(name, mode, rng):
    m, _, most, largest = ELEMENTS[name]
    tie = 2.0 ** (most + 1) * (1 - 2.0 ** -(m + 2))
    edges = np.array([2.0**most, largest, tie, 1.3 * 2.0**most])
    edges = np.concatenate([np.nextafter(edges, 0), edges, np.nextafter(edges, np.inf)])
    powers = [0, 5, -50, -127 - most, -130 - most, 126, 200, -900]
    blocks = rng.uniform(-1, 1, (len(powers), len(edges), 32)) * 2.0 ** (most - 1)
    blocks[..., 3] = -edges
    blocks *= np.exp2(powers)[:, None, None]
    codes, scales = quantize_blocks(blocks, format=name, scaling_mode=mode)
    formula = formulas.quantize_blocks(blocks, format=name, scaling_mode=mode)
    for i, j in np.ndindex(*blocks.shape[:2]):
        shared = rounded_up(abs(blocks[i, j]).max(), name, mode)
        assert scales[i, j, 0] == shared + 127
        rest = np.delete(blocks[i, j], 3) * 2.0**-shared  # ml_dtypes rounds the edge twice
        np.testing.assert_array_equal(np.delete(codes[i, j], 3), cast(rest, name))
    for got, want in zip((codes, scales), formula, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("mode", ["floor", "even", "ceil"])
@pytest.mark.parametrize("name", MX)
def test_scales_from_the_bits_of_float32(name, mode, rng):
    """The bits of the largest number, as torchao works with them."""
    m, _, most, _ = ELEMENTS[name]
    x = (rng.normal(size=(200, 32)) * np.exp2(rng.integers(-20, 20, (200, 1)))).astype(np.float32)
    bits = abs(x).max(-1).view(np.int32)
    if mode == "even":
        bits = bits + (1 << (23 - m - 1))
    exponent = (bits >> 23) - 127 + (mode == "ceil") * (bits % 2**23 > 0)
    scales = quantize_blocks(x, format=name, scaling_mode=mode)[1]
    np.testing.assert_array_equal(scales[:, 0], exponent - most + 127)


@pytest.mark.parametrize("name", MX)
def test_neighbours_of_midpoints_in_float64(name):
    """A cast by way of float32 rounds them twice, as ml_dtypes does."""
    values = numbers(MX[name], WIDTH[name])
    middle = (values[1:] + values[:-1]) / 2
    for to, want in ((-np.inf, values[:-1]), (np.inf, values[1:])):
        x = in_blocks(np.nextafter(middle, to), name)
        codes, scales = quantize_blocks(x, format=name)
        got = dequantize_blocks(codes, scales, format=name, dtype=np.float64)
        np.testing.assert_array_equal(got[:, 1:].ravel()[: len(want)], want)


def test_numbers_beyond_all_scales_are_saturated():
    x = np.full(32, 1e300)
    codes, scales = quantize_blocks(x, format="mxfp4")
    assert scales[0] == 254
    assert np.all(codes == 7)
    small = np.full(32, 1e-300)
    codes, scales = quantize_blocks(-small, format="mxfp4")
    assert scales[0] == 0
    assert np.all(codes == 8)


class TestNVFP4:
    def test_every_number_and_midpoint_against_ml_dtypes(self):
        values = np.concatenate([every_edge("mxfp4"), np.zeros(16)])
        values = values[abs(values) <= 6]
        values = values[: len(values) // 15 * 15].reshape(-1, 15)
        for scale in (1.0, 448.0, 2.0**-9, 0.8125):
            x = np.concatenate([np.full((len(values), 1), 6.0), values], axis=1)
            codes, scales = quantize_blocks(x * scale, format="nvfp4")
            want = np.array([scale]).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
            assert np.all(scales == want)
            np.testing.assert_array_equal((x * scale) / scale, x)
            np.testing.assert_array_equal(codes, cast(x, "mxfp4"))

    def test_every_scale_and_midpoint_of_scales(self):
        values = numbers(ml_dtypes.float8_e4m3fn, 8)
        values = abs(values[values >= 0])
        points = np.concatenate([values, (values[1:] + values[:-1]) / 2])
        tops = np.concatenate([points, np.nextafter(points, np.inf), np.nextafter(points, 0)])
        x = np.zeros((len(tops), 16))
        x[:, 3] = 6 * tops
        _, scales = quantize_blocks(x, format="nvfp4")
        q = x[:, 3] / 6
        once = abs(q.astype(np.float32) - q) == 0  # others are rounded twice by the cast
        want = q.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        np.testing.assert_array_equal(scales[once, 0], want[once])
        assert once.sum() > 200
        got = dequantize_blocks(np.full(x.shape, 2), scales, format="nvfp4", dtype=np.float64)
        error = abs(got[:, 0] - q)
        assert np.all(error <= np.min(abs(values - q[:, None]), axis=1))

    def test_limits_without_a_scale_of_the_array(self):
        x = np.full((3, 16), [[0.0058], [2688.0], [4000.0]])
        codes, scales = quantize_blocks(x, format="nvfp4")
        assert scales.ravel().tolist() == [0, 126, 126]
        got = dequantize_blocks(codes, scales, format="nvfp4")
        np.testing.assert_array_equal(got[:, 0], [0, 2688, 2688])

    def test_a_scale_of_the_array(self, rng):
        x = 1e-6 * rng.normal(size=(4, 64))
        t = np.max(abs(x)) / (6 * 448)
        options = {"format": "nvfp4", "tensor_scale": t}
        codes, scales = quantize_blocks(x, **options)
        assert scales.max() == 126
        got = dequantize_blocks(codes, scales, **options, dtype=np.float64)
        tops = np.repeat(abs(x).reshape(4, 4, 16).max(-1), 16, axis=1)
        assert np.all(abs(got - x) <= tops / 5)
        again = quantize_blocks(x / t, format="nvfp4")[0]
        assert np.mean(again != codes) < 0.01


class TestSpecialValues:
    @pytest.mark.parametrize("name", FORMATS)
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_a_block_with_one_that_is_not_finite_is_nan(self, name, bad, rng):
        x = rng.normal(size=(3, 32))
        clean, _ = quantize_blocks(x, format=name)
        x[1, 5] = bad
        codes, scales = quantize_blocks(x, format=name)
        np.testing.assert_array_equal(codes[::2], clean[::2])
        assert not codes[1, :16].any()
        assert scales[1, 0] == (127 if name == "nvfp4" else 255)
        got = dequantize_blocks(codes, scales, format=name)
        assert np.isnan(got[1, :16]).all()
        assert np.isfinite(got[::2]).all()

    @pytest.mark.parametrize("name", FORMATS)
    def test_zeros(self, name):
        x = np.zeros((1, 32))
        x[0, 1::2] = -0.0
        codes, scales = quantize_blocks(x, format=name)
        assert not scales.any()
        sign = 2 ** (WIDTH[name] - 1)
        assert codes[0, :2].tolist() == [0, sign]
        got = dequantize_blocks(codes, scales, format=name)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(x))

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16, np.float64])
    def test_dtypes(self, dtype, rng):
        x = rng.normal(size=(2, 64)).astype(dtype)
        want = quantize_blocks(x.astype(np.float64))
        for got, exact in zip(quantize_blocks(x), want, strict=True):
            assert got.dtype == np.uint8
            np.testing.assert_array_equal(got, exact)
        y = dequantize_blocks(*want, dtype=dtype)
        assert y.dtype == dtype
        exact = dequantize_blocks(*want, dtype=np.float64)
        np.testing.assert_array_equal(y, exact.astype(dtype))

    def test_layouts_and_empty_batches(self, rng):
        x = rng.normal(size=(64, 6)).T
        for got, want in zip(quantize_blocks(x), quantize_blocks(x.copy()), strict=True):
            np.testing.assert_array_equal(got, want)
        codes, scales = quantize_blocks(np.zeros((0, 64)))
        assert codes.shape == (0, 64)
        assert scales.shape == (0, 2)
        assert dequantize_blocks(codes, scales).shape == (0, 64)
        codes, scales = quantize_blocks(np.zeros((3, 0)))
        assert codes.shape == scales.shape == (3, 0)


def test_pytorch_casts(rng):
    """The codes of E4M3 and E5M2 are PyTorch's, where nothing saturates."""
    torch = pytest.importorskip("torch")
    for name, dtype in (
        ("mxfp8_e4m3", torch.float8_e4m3fn),
        ("mxfp8_e5m2", torch.float8_e5m2),
    ):
        x = in_blocks(every_edge(name), name).astype(np.float32)
        x = np.where(abs(x) <= ELEMENTS[name][3], x, 0).astype(np.float32)
        want = torch.tensor(x).to(dtype).view(torch.uint8).numpy()
        np.testing.assert_array_equal(quantize_blocks(x, format=name)[0], want)


@pytest.mark.parametrize("name", FORMATS)
def test_rounding_twice_changes_nothing(name, rng):
    x = rng.normal(size=(20, 64))
    y = dequantize_blocks(*quantize_blocks(x, format=name), format=name, dtype=np.float64)
    again = dequantize_blocks(*quantize_blocks(y, format=name), format=name, dtype=np.float64)
    if name == "nvfp4":  # the scale is chosen anew
        assert np.mean(again == y) > 0.9
    else:
        np.testing.assert_array_equal(again, y)


class TestErrors:
    def test_formats(self):
        x = np.ones((2, 32))
        with pytest.raises(ValueError, match=r"^Argument 'format' must be 'mxfp8_e4m3', "):
            quantize_blocks(x, format="mxfp8")
        with pytest.raises(ValueError, match=r"^Argument 'tensor_scale' must be None for format"):
            quantize_blocks(x, tensor_scale=1.0)
        with pytest.raises(ValueError, match=r"^Argument 'scaling_mode' must be 'floor', 'even'"):
            quantize_blocks(x, scaling_mode="up")
        with pytest.raises(
            ValueError, match=r"^Argument 'scaling_mode' must be 'floor' for format"
        ):
            quantize_blocks(x, format="nvfp4", scaling_mode="ceil")
        with pytest.raises(ValueError, match=r"^Argument 'tensor_scale' must be greater than 0"):
            quantize_blocks(x, format="nvfp4", tensor_scale=0.0)

    def test_shapes(self):
        for name, width in itertools.product(FORMATS, (8, 33)):
            message = r"^Argument 'x' must have a last axis that is a multiple of (16|32), not"
            with pytest.raises(ValueError, match=message):
                quantize_blocks(np.ones((2, width)), format=name)
        with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 1 axis"):
            quantize_blocks(1.0)
        codes = np.zeros((2, 64), int)
        with pytest.raises(ValueError, match=r"^Argument 'scales' must have shape \(2, 2\)"):
            dequantize_blocks(codes, codes[:, :1])
        with pytest.raises(ValueError, match=r"^Argument 'codes' must have a last axis"):
            dequantize_blocks(codes[:, :7], codes[:, :1])
        with pytest.raises(ValueError, match=r"^Argument 'codes' must have shape \(\.\.\., D\)"):
            dequantize_blocks(3, 1)

    def test_codes(self):
        codes, scales = np.full((1, 32), 16), np.zeros((1, 1), int)
        with pytest.raises(ValueError, match=r"from 0 to 15, not 16\.$"):
            dequantize_blocks(codes, scales, format="mxfp4")
        with pytest.raises(ValueError, match=r"from 0 to 255, not 256\.$"):
            dequantize_blocks(codes, scales + 256)
        with pytest.raises(TypeError, match=r"^Argument 'codes' must be integer"):
            dequantize_blocks(codes * 1.0, scales)
        with pytest.raises(TypeError, match="dtype"):
            dequantize_blocks(codes, scales, dtype=np.complex64)
