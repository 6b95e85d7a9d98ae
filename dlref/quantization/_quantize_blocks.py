r"""Blocks of numbers of 4 to 8 bits that share a scale: the MX formats and NVFP4."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_integers,
    as_number,
    check_multiple,
    check_ndim,
    check_range,
    check_shape,
    choice,
    float_dtype,
    result,
    wrong_shape,
)
from .._core.jit import inline_fma, kernel
from .._core.threads import as_carray, over_rows
from .._math.elementary import bits, number

CodeArray = npt.NDArray[np.uint8]
Number = Any  #: a float64
COST = 2  # nanoseconds, or elementary operations, an element
TO_INTEGER = 1.5 * 2.0**52  # added and subtracted, it rounds to an integer, half to even
BIAS = 127  # of the scales that are powers of two
NAN_POWER, NAN_E4M3 = 255, 127  # scales of a block that holds NaN or an infinity


class _Element(NamedTuple):
    """A format of small numbers: mantissa bits, exponents, and the code of the largest number."""

    mantissa: int
    least: int  # the exponent of the smallest normal number
    most: int  # the exponent of the largest number
    top: int  # its code
    sign: int  # the code of -0


E4M3 = _Element(3, -6, 8, 0x7E, 0x80)
E5M2 = _Element(2, -14, 15, 0x7B, 0x80)
E2M3 = _Element(3, 0, 2, 0x1F, 0x20)
E3M2 = _Element(2, -2, 4, 0x1F, 0x20)
E2M1 = _Element(1, 0, 2, 0x7, 0x8)
#: The elements of each format, and how many share a scale.
FORMATS = {
    "mxfp8_e4m3": (E4M3, 32),
    "mxfp8_e5m2": (E5M2, 32),
    "mxfp6_e2m3": (E2M3, 32),
    "mxfp6_e3m2": (E3M2, 32),
    "mxfp4": (E2M1, 32),
    "nvfp4": (E2M1, 16),
}
SCALING_MODES = ("floor", "even", "rceil", "ceil")
NOT_FINITE = 0x7FF
NATIVE = (np.dtype(np.float32), np.dtype(np.float64))


@inline_fma
def _exponent(v: Number) -> Number:
    """Return floor(log2 |v|) of a normal number; less than -1022 for others near 0."""
    return ((bits(v) >> 52) & NOT_FINITE) - 1023


@inline_fma
def _power(exponent: Number) -> Number:
    """Return 2^exponent, which must be normal."""
    return number((np.int64(exponent) + 1023) << 52)


@inline_fma
def _code(v: Number, element: tuple[int, int, int, int, int]) -> Number:
    """Return the code of the nearest number: ties to even, the largest beyond it."""
    mantissa, least, most, top, sign = element
    exponent = _exponent(v)
    exponent = exponent if exponent > least else least
    exponent = exponent if exponent < most else most
    steps = abs(v) * _power(mantissa - exponent)  # of the numbers between two powers of two
    bound = np.float64(4 << mantissa)  # beyond the largest number
    steps = steps if steps < bound else bound
    rounded = bits(steps + TO_INTEGER) - bits(TO_INTEGER)
    code = rounded + ((exponent - least) << mantissa)
    code = code if code < top else top
    return code + (sign if bits(v) < 0 else 0)


@inline_fma
def _value(code: Number, element: tuple[int, int, int, int, int]) -> Number:
    """Return the number of a code."""
    mantissa, least, _, _, sign = element
    size = np.int64(code) & (sign - 1)
    field = size >> mantissa
    steps = size - ((field - 1) << mantissa) if field > 0 else size
    exponent = field - 1 if field > 0 else 0
    value = np.float64(steps) * _power(exponent + least - mantissa)
    return -value if np.int64(code) & sign else value


@inline_fma
def _largest_exponent(block: FloatArray) -> Number:
    """Return the exponent of the largest number of a block; 1024 with NaN or an infinity."""
    top = np.int64(-1023)
    for i in range(block.size):
        exponent = _exponent(np.float64(block[i]))
        top = exponent if exponent > top else top
    return top


@inline_fma
def _largest(block: FloatArray) -> Number:
    """Return the largest absolute value of a block without NaN."""
    top = np.float64(0.0)
    for i in range(block.size):
        size = abs(np.float64(block[i]))
        top = size if size > top else top
    return top


@kernel
def _powers(
    start: int,
    stop: int,
    x: FloatArray,
    limit: float,
    element: tuple[int, int, int, int, int],
    codes: CodeArray,
    scales: CodeArray,
) -> None:
    """Write codes and scales of blocks whose scales are powers of two."""
    for r in range(start, stop):
        block, to = x[r], codes[r]
        top = _largest_exponent(block)
        if top == 1024:
            to[:], scales[r] = 0, NAN_POWER
            continue
        shared = max(-BIAS, min(top - element[2], BIAS))
        if limit < np.inf and shared < BIAS and _largest(block) * _power(-shared) > limit:
            shared += 1
        scales[r] = shared + BIAS
        factor = _power(-shared)
        for i in range(block.size):
            to[i] = _code(np.float64(block[i]) * factor, element)


@kernel
def _fractions(
    start: int,
    stop: int,
    x: FloatArray,
    tensor_scale: float,
    element: tuple[int, int, int, int, int],
    scale_element: tuple[int, int, int, int, int],
    largest: float,
    codes: CodeArray,
    scales: CodeArray,
) -> None:
    """Write codes and scales of blocks whose scales have a mantissa."""
    for r in range(start, stop):
        block, to = x[r], codes[r]
        if _largest_exponent(block) == 1024:
            to[:], scales[r] = 0, NAN_E4M3
            continue
        code = _code(_largest(block) / largest / tensor_scale, scale_element)
        scales[r] = code
        scale = _value(code, scale_element) * tensor_scale
        for i in range(block.size):
            v = np.float64(block[i])
            to[i] = _code(v / scale if scale > 0.0 else 0.0 * v, element)


@kernel
def _products(
    start: int,
    stop: int,
    codes: npt.NDArray[np.int64],
    scales: FloatArray,
    numbers: FloatArray,
    out: FloatArray,
) -> None:
    """Write the numbers of codes, times the scales of their blocks."""
    for r in range(start, stop):
        row, to, scale = codes[r], out[r], scales[r]
        for i in range(row.size):
            to[i] = numbers[row[i]] * scale


def _checked(format: str, tensor_scale: float | None) -> tuple[_Element, int, float]:
    """Return the elements of a format, how many share a scale, and the scale of all."""
    choice("format", format, FORMATS)
    if tensor_scale is not None and format != "nvfp4":
        msg = f"Argument 'tensor_scale' must be None for format {format!r}: it is of 'nvfp4'."
        raise ValueError(msg)
    one = 1.0 if tensor_scale is None else tensor_scale
    return *FORMATS[format], as_number("tensor_scale", one, above=0.0)


def _limit(element: _Element, scaling_mode: str) -> float:
    """Return the quotient by the floored scale above which a block takes the next scale."""
    choice("scaling_mode", scaling_mode, SCALING_MODES)
    power = 2.0**element.most
    if scaling_mode == "even":
        tie = power * (2.0 - 2.0 ** -(element.mantissa + 1))
        return float(np.nextafter(tie, 0.0))  # the tie itself goes up
    largest = float(_value(element.top, element))
    return {"floor": np.inf, "rceil": largest, "ceil": power}[scaling_mode]


def _numbers(element: _Element) -> FloatArray:
    """Return the numbers of all codes, NaN for codes that are none."""
    codes = np.arange(2 * element.sign)
    values = np.array([_value(code, element) for code in codes])
    beyond = (codes & (element.sign - 1)) > element.top
    values[beyond] = np.nan
    if element is E5M2:
        values[[0x7C, 0xFC]] = np.inf, -np.inf
    return values


def quantize_blocks(
    x: npt.ArrayLike,
    *,
    format: str = "mxfp8_e4m3",
    tensor_scale: float | None = None,
    scaling_mode: str = "floor",
) -> tuple[CodeArray, CodeArray]:
    r"""
    Round to numbers of 4, 6 or 8 bits, with a scale for each block of 16 or 32.

    Large models run in these formats of the Open Compute Project (MX) and of NVIDIA (NVFP4): a
    block that holds small numbers only has a small scale, and keeps its digits.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Numbers. Blocks are consecutive along the last axis, which they must fill.
    format : str
        ``"mxfp8_e4m3"``, ``"mxfp8_e5m2"``, ``"mxfp6_e2m3"``, ``"mxfp6_e3m2"`` or ``"mxfp4"``, with
        blocks of 32, or ``"nvfp4"``, with blocks of 16.
    tensor_scale : float, optional
        Scale t > 0 of the whole array, for ``"nvfp4"`` alone; 1 by default.
    scaling_mode : {"floor", "even", "rceil", "ceil"}
        How the exponent of an MX scale is rounded. The scale of ``"nvfp4"`` has a mantissa, and
        only "floor" stands beside it.

    Returns
    -------
    codes : ndarray of uint8, shape (..., D)
        The bits of each number, one to a byte, from the lowest bit.
    scales : ndarray of uint8, shape (..., D / 32) or (..., D / 16)
        The bits of each scale: its exponent plus 127 (E8M0), or a number E4M3 for ``"nvfp4"``.

    Raises
    ------
    TypeError
        If `x` is neither integer nor a real floating-point array, or `tensor_scale` is not a
        number.
    ValueError
        If the blocks do not fill the last axis, `format` or `scaling_mode` is not known, or
        `tensor_scale` is not positive, or one of both is given for a format without it.

    See Also
    --------
    dequantize_blocks : The numbers again.
    fake_quantize : Integers with one scale.

    Notes
    -----
    A format EeMm has a sign, e bits of exponent and m of mantissa. With :math:`E_{min}` and
    :math:`E_{max}` for the exponents of its smallest normal and of its largest number:

    ======  ===================  ===================  ========  =====================
    format  :math:`E_{min}`      :math:`E_{max}`      largest   smallest, not 0
    ======  ===================  ===================  ========  =====================
    E4M3    -6                   8                    448       :math:`2^{-9}`
    E5M2    -14                  15                   57344     :math:`2^{-16}`
    E2M3    0                    2                    7.5       :math:`2^{-3}`
    E3M2    -2                   4                    28        :math:`2^{-4}`
    E2M1    0                    2                    6         :math:`2^{-1}`
    ======  ===================  ===================  ========  =====================

    **Rounding.** Numbers v between two powers of two have equal distances; below
    :math:`2^{E_{min}}` they continue down to 0 (subnormal numbers). The nearest one is

    .. math:: R(v) = d \operatorname{round}(v / d) , \qquad
       d = 2^{E - m} , \qquad E = \max \bigl( \lfloor \log_2 |v| \rfloor , E_{min} \bigr) ,

    ties to the even integer, and never beyond the largest number: it saturates.

    **MX.** The scale of a block is a power of two, such that its largest number has the largest
    exponent of the format:

    .. math:: s = 2^{\lfloor \log_2 \max_i |x_i| \rfloor - E_{max}} , \qquad
       \hat x_i = s\, R(x_i / s) ,

    with the exponent from -127 to 127. Division by it is exact. The largest number lies between
    :math:`2^{E_{max}}` and :math:`2^{E_{max} + 1}`, so the last part of that range is saturated:
    for E4M3 all above 464, an error of up to one eighth of the largest number of a block; for E2M1
    all above 7, a quarter.

    **Scales rounded up.** The other modes double the scale of a block if its largest quotient is
    too large. With R without saturation and :math:`x_{max}` for the largest number of the format,

    .. math::

        q = \frac{\max_i |x_i|}{s} , \qquad
        s' = \begin{cases} 2 s & \text{even: } R(q) = 2^{E_{max} + 1} \\
        2 s & \text{rceil: } q > x_{max} \\ 2 s & \text{ceil: } q > 2^{E_{max}} \\
        s & \text{otherwise.} \end{cases}

    "even" doubles it if the largest number is rounded up to the next power of two, at 7 for
    E2M1, and leaves a saturation to E4M3 alone, between 464 and 496. "rceil" is the smallest scale
    with which nothing saturates: :math:`s' = 2^{\lceil \log_2 (\max_i |x_i| / x_{max}) \rceil}`.
    "ceil" rounds up the logarithm of the floored scale itself, nearly always, and wastes half of
    the range.

    **NVFP4.** The scale is itself a number with a mantissa, so that the largest number of a block
    becomes nearly 6:

    .. math:: s = t\, R_{E4M3} \Bigl( \frac{\max_i |x_i|}{6\, t} \Bigr) , \qquad
       \hat x_i = s\, R_{E2M1}(x_i / s) .

    E4M3 reaches from :math:`2^{-9}` to 448 only: without the scale t of the array, blocks below
    0.006 become 0, and numbers above 2688 are saturated. The recipe is
    :math:`t = \max |x| / (448 \cdot 6)` over the whole array.

    **Special values.** A block that holds NaN or an infinity gets the scale NaN (255, or 127 for
    ``"nvfp4"``) and codes 0, so that all of it becomes NaN. A block of zeros has the
    smallest scale, code 0. The sign of 0 is kept.

    **Conventions.** Codes are computed from the quotient in float64, and so from the exact quotient
    for MX. One code fills one byte; hardware packs two codes of 4 bits, the first in the low half:
    ``codes[..., ::2] | codes[..., 1::2] << 4``. The modes have their names from torchao, which
    computes "rceil" in float32, with a rounded reciprocal of :math:`x_{max}`. Other recipes find
    NaN first and keep it in its place.

    References
    ----------
    - :cite:t:`OCPMX2023`, sections 5 and 6
    - :cite:t:`RouhaniMX2023`
    - :cite:t:`MicikeviciusFP82022` on E4M3 and E5M2
    - :cite:t:`NVFP42025`

    Examples
    --------
    The largest number, 5, has the exponent 2, the largest of E2M1: the scale is 1, code 127.
    Halves are even or odd in the last bit: 2.5 becomes 2, and 5 becomes 4.

    >>> import numpy as np
    >>> from dlref.quantization import dequantize_blocks, quantize_blocks
    >>> x = np.zeros(32)
    >>> x[:6] = 0.3, -1.2, 2.5, 3.5, 5.0, -5.0
    >>> codes, scales = quantize_blocks(x, format="mxfp4")
    >>> codes[:6], scales
    (array([ 1, 10,  4,  6,  6, 14], dtype=uint8), array([127], dtype=uint8))
    >>> dequantize_blocks(codes, scales, format="mxfp4")[:6]
    array([ 0.5, -1. ,  2. ,  4. ,  4. , -4. ], dtype=float32)

    A block whose largest number is 7: it saturates at 6, unless the scale is rounded up.

    >>> x[:6] = 0.3, -1.2, 2.5, 3.5, 5.0, -7.0
    >>> for mode in ("floor", "even"):
    ...     codes, scales = quantize_blocks(x, format="mxfp4", scaling_mode=mode)
    ...     print(scales, dequantize_blocks(codes, scales, format="mxfp4")[:6])
    [127] [ 0.5 -1.   2.   4.   4.  -6. ]
    [128] [ 0. -1.  2.  4.  4. -8.]
    """
    _, (x,) = as_floats({"x": x}, work=np.float32)
    element, block, t = _checked(format, tensor_scale)
    limit = _limit(element, scaling_mode)
    if format == "nvfp4" and scaling_mode != "floor":
        msg = f"Argument 'scaling_mode' must be 'floor' for format 'nvfp4', not {scaling_mode!r}."
        raise ValueError(msg)
    check_ndim("x", x, 1)
    check_multiple("x", "a last axis", x.shape[-1], block)
    blocks = as_carray(x).reshape(-1, block)
    codes, scales = np.empty(blocks.shape, np.uint8), np.empty(len(blocks), np.uint8)
    if format == "nvfp4":
        largest = _value(element.top, element)
        options = (t, tuple(element), tuple(E4M3), largest)
        over_rows(_fractions, len(blocks), COST * block, blocks, *options, codes, scales)
    else:
        over_rows(_powers, len(blocks), COST * block, blocks, limit, tuple(element), codes, scales)
    return codes.reshape(x.shape), scales.reshape(*x.shape[:-1], x.shape[-1] // block)


def dequantize_blocks(
    codes: npt.ArrayLike,
    scales: npt.ArrayLike,
    *,
    format: str = "mxfp8_e4m3",
    tensor_scale: float | None = None,
    dtype: npt.DTypeLike = np.float32,
) -> FloatArray:
    r"""
    Return the numbers that codes and scales of blocks stand for.

    Parameters
    ----------
    codes : array_like of int, shape (..., D)
        Codes of numbers, one to an entry, as `quantize_blocks` returns them.
    scales : array_like of int, shape (..., D / 32) or (..., D / 16)
        Codes of the scales.
    format, tensor_scale : as in `quantize_blocks`
        The same as there.
    dtype : dtype
        Of the result: float16, float32 or float64 (or bfloat16 where ml_dtypes is installed).

    Returns
    -------
    ndarray, shape (..., D)
        Products of numbers and scales, rounded once.

    Raises
    ------
    TypeError
        If the codes are not integers, or `dtype` is none of these.
    ValueError
        If a code has more bits than its format, the shapes do not fit, or an option is not as in
        `quantize_blocks`.

    See Also
    --------
    quantize_blocks : Codes and scales.

    Notes
    -----
    With the sign bit S, the bits of the exponent as a number e and of the mantissa as a number f,
    the number of a code is

    .. math:: v = (-1)^S \cdot \begin{cases} 2^{E_{min} - m} f & e = 0 \\
       2^{E_{min} + e - 1} (1 + 2^{-m} f) & e > 0 \end{cases}

    The code E4M3 with all bits but the sign set is NaN. E5M2 has infinities, 124 and 252, and NaN
    above them. The other formats have neither. The result is :math:`s v`, where a scale E8M0 of
    code c is :math:`s = 2^{c - 127}`, and NaN for 255.

    Codes that grow stand for numbers that grow, within each sign: rounding to a format is
    rounding an integer, and the next number is the next code.

    Examples
    --------
    All numbers of E2M1, with the scales 1 and 2:

    >>> import numpy as np
    >>> from dlref.quantization import dequantize_blocks
    >>> codes = np.tile(np.arange(8), 8).reshape(2, 32)
    >>> dequantize_blocks(codes, [[127], [128]], format="mxfp4")[:, :8]
    array([[ 0. ,  0.5,  1. ,  1.5,  2. ,  3. ,  4. ,  6. ],
           [ 0. ,  1. ,  2. ,  3. ,  4. ,  6. ,  8. , 12. ]], dtype=float32)
    """
    element, block, t = _checked(format, tensor_scale)
    kind = float_dtype("dtype", dtype)
    rows, factors = as_integers("codes", codes), as_integers("scales", scales)
    if rows.ndim == 0:
        wrong_shape("codes", rows, "(..., D)")
    check_multiple("codes", "a last axis", rows.shape[-1], block)
    check_shape("scales", factors, (*rows.shape[:-1], rows.shape[-1] // block))
    check_range("codes", rows, 2 * element.sign)
    check_range("scales", factors, 256)
    with np.errstate(all="ignore"):
        if format == "nvfp4":
            s = _numbers(E4M3)[factors] * t
        else:
            s = np.where(factors == NAN_POWER, np.nan, np.ldexp(1.0, factors - BIAS))
        out = np.empty((factors.size, block), kind if kind in NATIVE else np.float64)
        arguments = (rows.reshape(out.shape), s.reshape(-1), _numbers(element), out)
        over_rows(_products, factors.size, COST * block, *arguments)
        return result(out.reshape(rows.shape), kind)
