"""
Numbers of a few bits: integers with a scale, and small floating-point numbers in blocks.

A format EeMm has a sign, e bits of exponent and m of mantissa. Blocks are consecutive along the
last axis, and each has a scale.
"""

import numpy as np

from .activations import clip
from .calculus import sum_to_shape

# == fake_quantize


def round_straight_through(x):
    """Nearest integer, whose slope counts as 1."""
    # A complex step sees the imaginary part alone.
    return np.rint(x.real) + (x - x.real)


def fake_quantize(x, scale, zero_point=0, *, bits=8):
    """
    Nearest multiple of a scale that an integer can count.

    >>> x = np.array([0.5, 1.5, 2.5, 2.75, 9.0, -9.0])
    >>> print(fake_quantize(x, 1.0, bits=3))
    [ 0.  2.  2.  3.  3. -4.]
    """
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    z = np.asarray(zero_point, x.dtype)
    q = clip(round_straight_through(x / scale) + z, low, high)
    return scale * (q - z)


def fake_quantize_vjp(dout, x, scale, zero_point=0, *, bits=8):
    """
    Straight-through backward pass: inputs beyond the range get nothing.

    >>> x = np.array([0.25, 9.0])
    >>> print(*fake_quantize_vjp(np.ones(2), x, 1.0, bits=3))
    [1. 0.] 2.75
    """
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    z = np.asarray(zero_point, x.dtype)
    q = np.rint(x / scale) + z
    inside = (low <= q) & (q <= high)
    dx = np.where(inside, dout, 0)
    slope = clip(q, low, high) - z - np.where(inside, x / scale, 0)
    return dx, sum_to_shape(dout * slope, np.shape(scale))


# == quantize_blocks

NUMBERS = {
    # Bits of the mantissa, exponents of the smallest normal and of the largest number, the
    # largest number, and all bits.
    "E4M3": (3, -6, 8, 448.0, 8),
    "E5M2": (2, -14, 15, 57344.0, 8),
    "E2M3": (3, 0, 2, 7.5, 6),
    "E3M2": (2, -2, 4, 28.0, 6),
    "E2M1": (1, 0, 2, 6.0, 4),
}
FORMATS = {
    # The format of the numbers, and how many share a scale.
    "mxfp8_e4m3": ("E4M3", 32),
    "mxfp8_e5m2": ("E5M2", 32),
    "mxfp6_e2m3": ("E2M3", 32),
    "mxfp6_e3m2": ("E3M2", 32),
    "mxfp4": ("E2M1", 32),
    "nvfp4": ("E2M1", 16),
}
# Codes of scales that are NaN.
NAN_POWER, NAN_E4M3 = 255, 127


def exponent_of(v):
    """Rounded down, the logarithm of the size of a number to the base 2."""
    _, exponent = np.frexp(v)
    return np.where(v == 0, -np.inf, exponent - 1)


def nearest(v, number):
    """Nearest number of a format, ties to even, saturated at the largest."""
    mantissa, least, _, largest, _ = NUMBERS[number]
    E = np.maximum(exponent_of(v), least)  # Below the smallest normal number the distances stay.
    d = 2.0 ** (E - mantissa)
    return np.clip(d * np.rint(v / d), -largest, largest)


def code_of(v, number):
    """Bits of a number of a format."""
    mantissa, least, _, _, bits = NUMBERS[number]
    E = np.maximum(exponent_of(v), least)
    steps = np.abs(v) / 2.0 ** (E - mantissa)
    size = steps + (E - least) * 2**mantissa
    return (size + 2 ** (bits - 1) * np.signbit(v)).astype(np.uint8)


def number_of(code, number):
    """Number of the bits of a format."""
    mantissa, least, _, _, bits = NUMBERS[number]
    code = np.asarray(code, int)
    size = code % 2 ** (bits - 1)
    e, f = size // 2**mantissa, size % 2**mantissa
    subnormal = 2.0 ** (least - mantissa) * f
    normal = 2.0 ** (least - 1 + e) * (1 + f / 2**mantissa)
    v = np.where(e == 0, subnormal, normal)
    if number == "E4M3":
        v = np.where(size == NAN_E4M3, np.nan, v)
    if number == "E5M2":  # With infinities, as in float16.
        v = np.where(e == 31, np.where(f == 0, np.inf, np.nan), v)
    return np.where(code >= 2 ** (bits - 1), -v, v)


def power_of_blocks(top, number, scaling_mode="floor"):
    """Exponent of the scale that gives the largest number of a block the largest exponent."""
    mantissa, _, most, largest, _ = NUMBERS[number]
    E = exponent_of(top)
    size = np.where(top == 0, 1, top) / 2.0 ** np.where(top == 0, 0, E)  # from 1 to 2
    too_large = {
        "floor": size > 2,
        "even": np.rint(size * 2**mantissa) == 2 * 2**mantissa,
        "rceil": size > largest / 2**most,
        "ceil": size > 1,
    }
    return np.clip(E - most + too_large[scaling_mode], -127, 127)


def round_mx(x, number="E4M3", block=32):
    """
    Numbers after rounding, with a power of two as the scale of each block.

    >>> x = np.array([0.3, -1.2, 2.5, 3.5, 5.0, -5.0])
    >>> print(round_mx(x, "E2M1", block=6))
    [ 0.5 -1.   2.   4.   4.  -4. ]
    """
    blocks = x.reshape(-1, block)
    top = np.max(np.abs(blocks), axis=1, keepdims=True)
    s = 2.0 ** power_of_blocks(top, number)
    return (s * nearest(blocks / s, number)).reshape(x.shape)


def round_nvfp4(x, t=1.0):
    """
    Numbers E2M1 after rounding, with a number E4M3 as the scale of each block.

    >>> x = np.zeros(16)
    >>> x[:6] = 0.3, -1.2, 2.5, 3.5, 5.0, -6.0
    >>> print(round_nvfp4(x)[:6])
    [ 0.5 -1.   2.   4.   4.  -6. ]
    """
    blocks = x.reshape(-1, 16)
    top = np.max(np.abs(blocks), axis=1, keepdims=True)
    s = t * nearest(top / 6 / t, "E4M3")
    s = np.where(s == 0, t, s)  # All numbers of the block become 0.
    return (s * nearest(blocks / s, "E2M1")).reshape(x.shape)


def scale_codes(blocks, format, t, scaling_mode):
    """Bits of the scale of each block."""
    number, _ = FORMATS[format]
    _, _, _, largest, _ = NUMBERS[number]
    top = np.max(np.abs(blocks), axis=-1)
    if format == "nvfp4":
        codes, nan = code_of(nearest(top / largest / t, "E4M3"), "E4M3"), NAN_E4M3
    else:
        codes, nan = power_of_blocks(top, number, scaling_mode) + 127, NAN_POWER
    return np.where(np.isfinite(top), codes, nan).astype(np.uint8)


def scales_of(codes, format, t):
    """Scales of the bits of scales."""
    if format == "nvfp4":
        return t * number_of(codes, "E4M3")
    return np.where(codes == NAN_POWER, np.nan, 2.0 ** (np.asarray(codes, int) - 127))


def quantize_blocks(x, *, format="mxfp8_e4m3", tensor_scale=None, scaling_mode="floor"):
    """
    Bits of all numbers and of the scales of their blocks.

    >>> x = np.zeros(32)
    >>> x[:6] = 0.3, -1.2, 2.5, 3.5, 5.0, -5.0
    >>> codes, scales = quantize_blocks(x, format="mxfp4")
    >>> print(codes[:6], scales)
    [ 1 10  4  6  6 14] [127]
    """
    number, block = FORMATS[format]
    t = 1.0 if tensor_scale is None else tensor_scale
    blocks = x.reshape(*x.shape[:-1], x.shape[-1] // block, block).astype(float)
    scales = scale_codes(blocks, format, t, scaling_mode)
    s = scales_of(scales, format, t)[..., None]
    has_scale = s > 0  # Otherwise all numbers become 0, or the scale is NaN.
    quotients = np.where(has_scale, blocks / np.where(has_scale, s, 1), 0 * blocks)
    codes = code_of(nearest(quotients, number), number)
    codes = np.where(np.isnan(s), 0, codes).astype(np.uint8)
    return codes.reshape(x.shape), scales


def dequantize_blocks(codes, scales, *, format="mxfp8_e4m3", tensor_scale=None, dtype=np.float32):
    """
    Numbers of the bits, times the scales of their blocks.

    >>> codes, scales = np.tile(np.arange(8), (2, 4)), np.array([[127], [128]])
    >>> print(dequantize_blocks(codes, scales, format="mxfp4")[:, :8])
    [[ 0.   0.5  1.   1.5  2.   3.   4.   6. ]
     [ 0.   1.   2.   3.   4.   6.   8.  12. ]]
    """
    number, block = FORMATS[format]
    t = 1.0 if tensor_scale is None else tensor_scale
    s = np.repeat(scales_of(scales, format, t), block, axis=-1)
    return (s * number_of(codes, number)).astype(dtype)
