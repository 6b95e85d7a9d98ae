"""
Shared kernels of the normalizations: standardized numbers, and products with their Jacobian.

The mean m comes first, as the rounded sum of the numbers over their count; all other sums are taken
over differences d = x - m.  Where x and m agree within a factor of two the differences are exact,
however large both are.  The mean of d is the small error of m, and the variance is the mean of d**2
minus the square of the mean of d, which changes it by a rounding.  All sums are float64, and long
ones are taken piece by piece, so that few numbers are added to one total.

Two layouts share the formulas.  Rows, here: the numbers of a group are adjacent, and a row stays
in the first-level cache for the second look.  Columns, in `channels`: the numbers of a channel
are as far apart as there are channels, and all channels are summed up side by side.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._core.arguments import (
    FloatArray,
    FloatDType,
    as_floats,
    check_ndim,
    check_shape,
    entries,
    in_float64,
)
from ..._core.jit import inline_fma, inline_reassoc, inline_strict, kernel
from ..._core.threads import as_carray, over_rows
from ..._math.softmax_rows import added

COST = 0.5  #: nanoseconds an element
PIECE = 256  #: numbers that are added to one total
#: Variances between which no square was lost: float64 overflows beyond, and has few digits before.
TINY, HUGE = 1e-280, 1e290
Number = Any  # a float64
Vector = Any  # an array of one number per channel, or None


@inline_strict
def difference(x: Number, mean: Number) -> Number:
    return np.float64(x) - mean  # not to be computed as the sum of x minus the sum of the means


@inline_fma
def affine(z: Number, weight: Number, bias: Number) -> Number:
    return np.float64(z) * weight + bias


@inline_reassoc
def _moments(x: FloatArray, mean: Number) -> tuple[Number, Number]:
    """Return the sums of d = x - mean and of d**2."""
    s, q = np.float64(0.0), np.float64(0.0)
    for j in range(x.size):
        d = difference(x[j], mean)
        s += d
        q += d * d
    return s, q


@inline_reassoc
def _products(
    x: FloatArray, mean: Number, v: FloatArray, weight: FloatArray
) -> tuple[Number, Number]:
    """Return the sums of weight v and of weight v d."""
    along_1, along_d = np.float64(0.0), np.float64(0.0)
    for j in range(x.size):
        u = np.float64(v[j]) * weight[j]
        along_1 += u
        along_d += u * difference(x[j], mean)
    return along_1, along_d


@inline_strict
def _moments_of(x: FloatArray, eps: Number, about_mean: bool) -> tuple[Number, Number, Number]:
    """Return mean, scale and low: z = (x - mean) scale - low has mean 0 and variance 1."""
    mean = added(x) / x.size if about_mean else np.float64(0.0)
    s, q = np.float64(0.0), np.float64(0.0)
    for begin in range(0, x.size, PIECE):
        of_d, of_squares = _moments(x[begin : begin + PIECE], mean)
        s += of_d
        q += of_squares
    shift = s / x.size if about_mean else np.float64(0.0)
    var = q / x.size - shift * shift
    var = np.float64(0.0) if var < 0.0 else var  # NaN stays
    scale = 1.0 / np.sqrt(var + eps)
    return mean, scale, shift * scale


@inline_fma
def lost(scale: Number, eps: Number) -> bool:
    """Whether squares, whose mean plus eps is 1 / scale**2, overflowed or vanished."""
    square = scale * scale
    return not (square > 1.0 / HUGE and (square < 1.0 / TINY or eps > TINY))


@inline_fma
def safe_unit(largest: Number) -> Number:
    """Return the power of two that brings the largest of some numbers near 1; 1 for 0 and NaN."""
    return np.float64(2.0) ** -np.floor(np.log2(largest)) if 0.0 < largest < np.inf else 1.0


@kernel
def _statistics(
    x: FloatArray, eps: Number, about_mean: bool, copy: FloatArray
) -> tuple[Number, Number, Number, Number]:
    """
    Return mean, scale, low, and the unit in which they are: 1, or a power of two.

    In float64 a square can overflow or vanish though the result does not.  Then `copy`, the row of
    the result, is x in another unit; float32 has no such squares, for the sums are float64.
    """
    unit, largest = np.float64(1.0), np.float64(0.0)
    for _ in range(2):
        mean, scale, low = _moments_of(x, eps * unit * unit, about_mean)
        if x.itemsize == 4 or unit != 1.0 or not lost(scale, eps):
            break
        for j in range(x.size):
            largest = max(largest, abs(np.float64(x[j])))
        unit = safe_unit(largest)
        for j in range(x.size):
            copy[j] = x[j] * unit
        x = copy
    return mean, scale, low, unit


@kernel
def _rows(
    start: int,
    stop: int,
    x: FloatArray,
    weight: FloatArray,
    bias: FloatArray,
    eps: Number,
    about_mean: bool,
    out: FloatArray,
) -> None:
    for r in range(start, stop):
        row, to, w, b = x[r], out[r], weight[r % weight.shape[0]], bias[r % weight.shape[0]]
        mean, scale, low, unit = _statistics(row, eps, about_mean, to)
        row = row if unit == 1.0 else to
        for j in range(to.size):
            to[j] = affine(difference(row[j], mean) * scale - low, w[j], b[j])


@inline_strict
def _projection(
    row: FloatArray,
    v: FloatArray,
    weight: FloatArray,
    mean: Number,
    scale: Number,
    low: Number,
    about_mean: bool,
) -> tuple[Number, Number]:
    """
    Return slope and rest: J (weight v) is (weight v + (x - mean) slope + rest) scale.

    The Jacobian projects out the components along 1 and along z.
    """
    along_1, along_d = np.float64(0.0), np.float64(0.0)
    for begin in range(0, row.size, PIECE):
        piece = slice(begin, begin + PIECE)
        of_v, of_vd = _products(row[piece], mean, v[piece], weight[piece])
        along_1 += of_v
        along_d += of_vd
    along_z = (along_d * scale - along_1 * low) / row.size
    rest = along_z * low
    if about_mean:
        rest -= along_1 / row.size
    return -along_z * scale, rest


@inline_strict
def _add_to_sums(
    v: FloatArray, x: FloatArray, mean: Number, scale: Number, low: Number, sums: FloatArray
) -> None:
    """Add v z and v to the two rows of `sums`."""
    vz, vs = sums[0], sums[1]
    for j in range(vz.size):
        u = np.float64(v[j])
        vz[j] += u * (difference(x[j], mean) * scale - low)
        vs[j] += u


@kernel
def _rows_vjp(
    start: int,
    stop: int,
    size: int,
    v: FloatArray,
    x: FloatArray,
    weight: FloatArray,
    eps: Number,
    about_mean: bool,
    out: FloatArray,
    sums: FloatArray,
) -> None:
    for block in range(start, stop):
        for r in range(block * size, min((block + 1) * size, x.shape[0])):
            group = r % weight.shape[0]
            row, u, to, w = x[r], v[r], out[r], weight[group]
            mean, scale, low, unit = _statistics(row, eps, about_mean, to)
            row = row if unit == 1.0 else to
            slope, rest = _projection(row, u, w, mean, scale, low, about_mean)
            _add_to_sums(u, row, mean, scale, low, sums[block, group])
            for j in range(to.size):
                line = affine(difference(row[j], mean), slope, rest)
                to[j] = (np.float64(u[j]) * w[j] + line) * (scale * unit)


@kernel
def _rows_jvp(
    start: int,
    stop: int,
    v: FloatArray,
    x: FloatArray,
    weight: FloatArray,
    gain: FloatArray,
    offset: FloatArray,
    ones: FloatArray,
    eps: Number,
    about_mean: bool,
    out: FloatArray,
) -> None:
    for r in range(start, stop):
        row, u, to, group = x[r], v[r], out[r], r % weight.shape[0]
        w, of_z, shift = weight[group], gain[group], offset[group]
        mean, scale, low, unit = _statistics(row, eps, about_mean, to)
        row = row if unit == 1.0 else to
        slope, rest = _projection(row, u, ones, mean, scale, low, about_mean)
        for j in range(to.size):
            d = difference(row[j], mean)
            moved = (np.float64(u[j]) + affine(d, slope, rest)) * (scale * unit)
            to[j] = affine(moved, w[j], affine(d * scale - low, of_z[j], shift[j]))


def as_vector(value: Vector, default: float, size: int) -> FloatArray:
    """Return one number per channel, in float64."""
    return np.full(size, default) if value is None else in_float64(value)


def _matrix(x: FloatArray, groups: int) -> FloatArray:
    if x.ndim == 2 and groups == 1:
        return as_carray(x)
    count = math.prod(x.shape[:-1]) * groups
    return as_carray(x).reshape(count, x.shape[-1] // groups)


def _vectors(size: int, groups: int, *values: tuple[Vector, float]) -> list[FloatArray]:
    return [as_vector(value, default, size).reshape(groups, -1) for value, default in values]


def rows(
    x: FloatArray,
    weight: Vector,
    bias: Vector,
    eps: float,
    *,
    about_mean: bool,
    groups: int = 1,
) -> FloatArray:
    """Standardize each group of each row of x, then apply weight and bias to each column."""
    a = _matrix(x, groups)
    out = np.empty_like(a)
    w, b = _vectors(x.shape[-1], groups, (weight, 1.0), (bias, 0.0))
    if a.size:
        over_rows(_rows, len(a), COST * a.shape[1], a, w, b, eps, about_mean, out)
    return out.reshape(x.shape)


def rows_vjp(
    v: FloatArray, x: FloatArray, weight: Vector, eps: float, *, about_mean: bool, groups: int = 1
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return J (weight v), and the sums over the rows of v z, z being standardized, and of v."""
    a, u = _matrix(x, groups), _matrix(v, groups)
    count, size = a.shape
    out = np.empty_like(a)
    block = max(32, -(-count // 32))  # depends on the shape only, not on the threads
    block = -(-block // groups) * groups
    blocks = -(-count // block)
    sums = np.zeros((blocks, groups, 2, size))
    if a.size:
        cost, [w] = 2 * COST * block * size, _vectors(x.shape[-1], groups, (weight, 1.0))
        over_rows(_rows_vjp, blocks, cost, block, u, a, w, eps, about_mean, out, sums)
    vz, vs = sums.sum(0).swapaxes(0, 1).reshape(2, -1)
    return out.reshape(x.shape), vz, vs


def rows_jvp(
    v: FloatArray,
    x: FloatArray,
    weight: Vector,
    gain: Vector,
    offset: Vector,
    eps: float,
    *,
    about_mean: bool,
    groups: int = 1,
) -> FloatArray:
    """Return weight (J v) + gain z + offset, where z are the standardized rows."""
    a, u = _matrix(x, groups), _matrix(v, groups)
    out = np.empty_like(a)
    vectors = _vectors(x.shape[-1], groups, (weight, 1.0), (gain, 0.0), (offset, 0.0))
    if a.size:
        cost, ones = 2 * COST * a.shape[1], np.ones(a.shape[1])
        over_rows(_rows_jvp, len(a), cost, u, a, *vectors, ones, eps, about_mean, out)
    return out.reshape(x.shape)


@np.errstate(all="ignore")
def rows_jacobian(x: FloatArray, weight: Vector, eps: float, *, about_mean: bool) -> FloatArray:
    """Return weight J for each row: as J is symmetric, its rows are its products."""
    size = x.shape[-1]
    unit = np.broadcast_to(np.eye(size), (*x.shape, size))
    repeated = np.broadcast_to(x[..., None, :], unit.shape).astype(np.float64)
    jac = rows_jvp(unit, repeated, None, None, None, eps, about_mean=about_mean)
    return jac if weight is None else jac * np.asarray(weight, np.float64)[:, None]


def operands(
    x: npt.ArrayLike, *, least: int = 1, **others: npt.ArrayLike | None
) -> tuple[FloatDType, FloatArray, list[Any]]:
    """
    Check x, of at least `least` axes, and the others: one number per channel.

    "dout" has the shape of x; "weight" and "bias" may be None.
    """
    given: dict[str, Any] = {
        name: value
        for name, value in {"x": x, **others}.items()
        if value is not None or name not in {"weight", "bias"}
    }
    dtype, [x, *rest] = as_floats(given, work=np.float32)
    check_ndim("x", x, least)
    remaining, arrays = iter(rest), []
    for name in others:
        array = next(remaining) if name in given else None
        if array is not None:
            check_shape(name, array, x.shape if name == "dout" else x.shape[-1:])
        arrays.append(array)
    return dtype, x, arrays


def jvp_arguments(
    primals: Any,
    tangents: Any,
    *,
    count: int,
    needed: int = 1,
    least: int = 1,
    constant: tuple[int, ...] = (),
) -> tuple[FloatDType, FloatArray, FloatArray, list[Any], list[Any]]:
    """
    Check the arguments of a jvp: x, then one number per channel each, or None beyond `needed`.

    Return the dtype, x and its tangent, the other primals and their tangents, where a None
    is an operand left out and a tangent of zero.  Positions in `constant` are skipped.
    """
    points = list(entries("primals", primals, count).items())
    directions = list(entries("tangents", tangents, count).items())
    kept = [k for k in range(count) if k not in constant]
    for k, ((_, point), (name, direction)) in enumerate(zip(points, directions, strict=True)):
        if direction is not None and (k in constant or (k >= needed and point is None)):
            msg = (
                f"Argument {name!r} must be None, as its primal is constant or None, not an array."
            )
            raise ValueError(msg)
    given = dict(
        item
        for pairs in (points, directions)
        for k, item in enumerate(pairs)
        if k in kept and (item[1] is not None or (k < needed and pairs is points))
    )
    dtype, floats = as_floats(given, work=np.float32)
    arrays = dict(zip(given, floats, strict=True))
    x = arrays["primals[0]"]
    check_ndim("primals[0]", x, least)
    for name, array in arrays.items():
        check_shape(name, array, x.shape if name.endswith("[0]") else x.shape[-1:])
    v = arrays.get("tangents[0]")
    return (
        dtype,
        x,
        np.zeros_like(x) if v is None else v,
        [arrays.get(f"primals[{k}]") for k in kept[1:]],
        [arrays.get(f"tangents[{k}]") for k in kept[1:]],
    )
