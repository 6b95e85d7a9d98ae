"""
What the normalizations share: numbers made standard, and products with the Jacobian of that.

Let m be near the mean of the numbers x.  The differences d = x - m are formed first; where
x and m agree within a factor of two they are exact, however large m is.  The mean is m plus the
mean of d, and the variance is the mean of d**2 less the square of the mean of d.  That
cancels little if m is off by less than the deviation.  For a row, m is the mean of its first
numbers, for a channel that of some positions, or 0 where that is as good and saves the
subtraction; it is corrected in the rare case that it is not good enough.  The sums have 53 bits:
for numbers of 24 bits m = 0 is good enough unless the mean is many times the deviation.

Two layouts share the formulas.  Rows, here: the numbers of a group are adjacent, and a row stays
in the first-level cache for the second look.  Columns, in `_channels`: the numbers of a channel
are as far apart as there are channels, and all channels are summed up side by side.
Sums are taken piece by piece, so that rounding errors grow with the length of a piece.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from ._elementary import fused_single
from ._jit import exchanged, formula, kernel, literal_formula, summation
from ._microkernel import fetch, fetch_to_write
from ._parallel import over_rows
from ._validate import (
    FloatArray,
    FloatDType,
    as_floats,
    check_ndim,
    check_shape,
    entries,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "about_0",
    "add_four_products",
    "affine",
    "difference",
    "four",
    "moving",
    "operands",
    "rows",
    "rows_jacobian",
    "rows_pull",
    "rows_push",
    "tolerance",
    "vector",
]

PIECE = 128
GUESS = 32  # numbers from which the mean of a row is guessed
COST = 0.5  # nanoseconds an element
Number = Any  # a float64
Vector = Any  # an array of one number a channel, or None


@literal_formula
def difference(x: Number, mean: Number) -> Number:
    return np.float64(x) - mean  # not to be summed up as the sum of x less that of the means


@formula
def _from_0(x: Number, _mean: Number) -> Number:
    """`difference` from a mean of 0."""
    return np.float64(x)


def about_0(function: F) -> F:
    """Return the copy of a kernel, or of a formula, for means of 0: without the subtraction."""
    return exchanged(function, {difference: _from_0}, "about_0")


@formula
def _standard(x: Number, mean: Number, scale: Number, low: Number) -> Number:
    return difference(x, mean) * scale - low


@formula
def affine(z: Number, weight: Number, bias: Number) -> Number:
    return np.float64(z) * weight + bias


@formula
def four(a: Number, b: Number, c: Number, d: Number) -> Number:
    return (a + b) + (c + d)


@formula
def add_four_products(
    total: Number,
    a: Number,
    b: Number,
    c: Number,
    d: Number,
    e: Number,
    f: Number,
    g: Number,
    h: Number,
) -> Number:
    """Return total + a e + b f + c g + d h, by four fused multiplications and additions."""
    return d * h + (c * g + (b * f + (a * e + total)))


@summation
def _moments(x: FloatArray, mean: Number) -> tuple[Number, Number]:
    """Return the sums of d = x - mean and of d**2."""
    s, q = np.float64(0.0), np.float64(0.0)
    for j in range(x.size):
        d = difference(x[j], mean)
        s += d
        q += d * d
    return s, q


@summation
def _products(
    x: FloatArray, mean: Number, v: FloatArray, weight: FloatArray
) -> tuple[Number, Number, Number, Number]:
    """Return the same, and the sums of weight v and of weight v d."""
    s, q, vs, vq = np.float64(0.0), np.float64(0.0), np.float64(0.0), np.float64(0.0)
    for j in range(x.size):
        d, u = difference(x[j], mean), np.float64(v[j]) * weight[j]
        s += d
        q += d * d
        vs += u
        vq += u * d
    return s, q, vs, vq


_moments_about_0, _products_about_0 = about_0(_moments), about_0(_products)


@literal_formula
def _piece_products(
    r: int,
    begin: int,
    mean: Number,
    x: FloatArray,
    v: FloatArray,
    weight: FloatArray,
    out: FloatArray,
) -> tuple[Number, Number, Number, Number]:
    """
    Return the sums over a piece of row r; ask for that of the next row, and of the result.

    A processor that is asked for more lines than it can wait for stands still: not for whole rows.
    """
    end, following = begin + PIECE, min(r + 1, x.shape[0] - 1)
    fetch(x[following, begin:end])
    fetch(v[following, begin:end])
    fetch_to_write(out[r, begin:end])
    if mean == 0.0:
        return _products_about_0(x[r, begin:end], mean, v[r, begin:end], weight[begin:end])
    return _products(x[r, begin:end], mean, v[r, begin:end], weight[begin:end])


@literal_formula
def _piece_moments(
    r: int,
    begin: int,
    mean: Number,
    x: FloatArray,
    _v: FloatArray,
    _weight: FloatArray,
    out: FloatArray,
) -> tuple[Number, Number, Number, Number]:
    """Do the same where there is no v."""
    end, following = begin + PIECE, min(r + 1, x.shape[0] - 1)
    fetch(x[following, begin:end])
    fetch_to_write(out[r, begin:end])
    part, nothing = x[r, begin:end], np.float64(0.0)
    s, q = _moments_about_0(part, mean) if mean == 0.0 else _moments(part, mean)
    return s, q, nothing, nothing


@formula
def tolerance(itemsize: int) -> Number:
    """
    Return how many variances the square of a neglected mean may have.

    The digits lost are log2 of that.  Of the 53 that are summed up float32 has no need of all.
    """
    return 256.0 if itemsize == 4 else 1.0


@kernel
def _guess(x: FloatArray) -> Number:
    """Return the mean of some numbers, or 0 if it is clearly smaller than their spread."""
    s, q = _moments_about_0(x, 0.0)
    mean, square = s / x.size, q / x.size
    return np.float64(0.0) if 5.0 * mean * mean < square else mean


@formula
def pair(x: Number) -> tuple[Number, Number]:
    """Return x as the sum of two float32 numbers."""
    high = np.float32(x)
    return high, np.float32(x - np.float64(high))


@literal_formula
def _row_product(
    r: int,
    x: FloatArray,
    v: FloatArray,
    weight: FloatArray,
    out: FloatArray,
    eps: Number,
    about_mean: bool,
) -> tuple[Number, Number, Number, Number, Number]:
    """
    Return mean, scale and low, so that z = (x - mean) scale - low has mean 0 and variance 1.

    The mean is a guess, of which low makes up for the error.  It is 0 where that is good enough,
    in float32 nearly always: a subtraction less for each number.  Then the line that takes the
    projections off: the product with the Jacobian is (weight v + (x - mean) slope + rest) scale.
    """
    n = x.shape[1]
    mean, shift, var = np.float64(0.0), np.float64(0.0), np.float64(0.0)
    if about_mean and x.itemsize == 8:
        mean += _guess(x[r, :GUESS])
    for _ in range(3):  # pragma: no branch  # the second guess is good already
        mean += shift
        if x.itemsize == 4:
            mean = np.float64(np.float32(mean))  # for exact differences
        s, q = np.float64(0.0), np.float64(0.0)
        along_1, along_d = np.float64(0.0), np.float64(0.0)
        for begin in range(0, n, PIECE):
            sums = _piece_products(r, begin, mean, x, v, weight, out)
            s += sums[0]
            q += sums[1]
            along_1 += sums[2]
            along_d += sums[3]
        shift = s / n if about_mean else np.float64(0.0)
        var = q / n - shift * shift
        if not shift * shift > tolerance(x.itemsize) * var:  # a good guess, or NaN
            break
    var = np.float64(0.0) if var < 0.0 else var  # NaN stays
    scale = 1.0 / np.sqrt(var + eps)
    low = shift * scale
    along_z = (along_d * scale - along_1 * low) / n
    along_1 = along_1 / n if about_mean else np.float64(0.0)
    return mean, scale, low, -along_z * scale, along_z * low - along_1


_row_moments = exchanged(_row_product, {_piece_products: _piece_moments}, "moments")


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
        row, to, group = x[r], out[r], r % weight.shape[0]
        w, b = weight[group], bias[group]
        m, f, g, _, _ = _row_moments(r, x, x, w, out, eps, about_mean)
        if m == 0.0 and x.itemsize == 4 and 1e-30 < f < 1e30:  # so that a pair has all its digits
            (scale, scale_low), (shift, shift_low) = pair(f), pair(-g)
            for j in range(to.size):
                z = fused_single(row[j], scale, shift)
                rest = fused_single(row[j], scale_low, shift_low)
                to[j] = fused_single(z, w[j], fused_single(rest, w[j], b[j]))
        elif m == 0.0:
            for j in range(to.size):
                to[j] = affine(affine(row[j], f, -g), w[j], b[j])
        else:
            for j in range(to.size):
                to[j] = affine(_standard(row[j], m, f, g), w[j], b[j])


@formula
def _projected(g: Number, line: Number, scale: Number) -> Number:
    return (np.float64(g) + line) * scale


@kernel
def _add_rows(
    v: FloatArray, x: FloatArray, step: int, rows: int, found: FloatArray, sums: FloatArray
) -> None:
    """
    Add the columns of v z and of v, for some rows of flat arrays, to the two rows of `sums`.

    A row begins `step` numbers after the one before; `found` has mean, scale and low of each.  Four
    rows at a time: the sums leave the first-level cache from one visit to the next.
    """
    vz, vs = sums[0], sums[1]
    step = max(step, vz.size)  # it is; LLVM has to know that it is not negative
    if rows == 4:
        (m0, f0, g0), (m1, f1, g1) = found[0], found[1]
        (m2, f2, g2), (m3, f3, g3) = found[2], found[3]
        for j in range(vz.size):
            u0, u1 = np.float64(v[j]), np.float64(v[j + step])
            u2, u3 = np.float64(v[j + 2 * step]), np.float64(v[j + 3 * step])
            z0, z1 = _standard(x[j], m0, f0, g0), _standard(x[j + step], m1, f1, g1)
            z2 = _standard(x[j + 2 * step], m2, f2, g2)
            z3 = _standard(x[j + 3 * step], m3, f3, g3)
            vz[j] = add_four_products(vz[j], u0, u1, u2, u3, z0, z1, z2, z3)
            vs[j] += four(u0, u1, u2, u3)
        return
    for k in range(rows):
        u, z, m, f, g = v[k * step :], x[k * step :], found[k, 0], found[k, 1], found[k, 2]
        for j in range(vz.size):
            uj = np.float64(u[j])
            vz[j] += uj * _standard(z[j], m, f, g)
            vs[j] += uj


_add_rows_about_0 = about_0(_add_rows)


@kernel
def _rows_pull(
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
    groups, n = weight.shape
    some = 4 * groups  # so that each group has four rows
    found = np.empty((groups, 4, 3))
    for block in range(start, stop):
        end = min((block + 1) * size, x.shape[0])
        for begin in range(block * size, end, some):
            rows = min(some, end - begin)
            for k in range(rows):
                r, group = begin + k, k % groups
                u, row, to, w = v[r], x[r], out[r], weight[group]
                m, f, g, slope, rest = _row_product(r, x, v, w, out, eps, about_mean)
                if m == 0.0:
                    for j in range(to.size):
                        line = affine(row[j], slope, rest)
                        to[j] = _projected(np.float64(u[j]) * w[j], line, f)
                else:
                    for j in range(to.size):
                        line = affine(difference(row[j], m), slope, rest)
                        to[j] = _projected(np.float64(u[j]) * w[j], line, f)
                found[group, k // groups, 0] = m
                found[group, k // groups, 1] = f
                found[group, k // groups, 2] = g
            for group in range(groups):
                u, row = v[begin + group :].ravel(), x[begin + group :].ravel()
                of, to = found[group], sums[block, group]
                if of[: rows // groups, 0].any():
                    _add_rows(u, row, groups * n, rows // groups, of, to)
                else:
                    _add_rows_about_0(u, row, groups * n, rows // groups, of, to)


@kernel
def _rows_push(
    start: int,
    stop: int,
    v: FloatArray,
    x: FloatArray,
    weight: FloatArray,
    gain: FloatArray,
    offset: FloatArray,
    eps: Number,
    about_mean: bool,
    out: FloatArray,
) -> None:
    ones = np.ones(x.shape[1])
    for r in range(start, stop):
        u, row, to, group = v[r], x[r], out[r], r % weight.shape[0]
        w, of_z, rest = weight[group], gain[group], offset[group]
        m, f, g, slope, shift = _row_product(r, x, v, ones, out, eps, about_mean)
        for j in range(to.size):
            moved = _projected(u[j], affine(difference(row[j], m), slope, shift), f)
            to[j] = affine(moved, w[j], affine(_standard(row[j], m, f, g), of_z[j], rest[j]))


def vector(
    value: Vector, default: float, size: int, dtype: npt.DTypeLike = np.float64
) -> FloatArray:
    """Return one number a channel."""
    if value is None:
        return np.full(size, default, dtype)
    return np.ascontiguousarray(value, dtype)


def _matrix(x: FloatArray, groups: int) -> FloatArray:
    count = math.prod(x.shape[:-1]) * groups
    return np.ascontiguousarray(x).reshape(count, x.shape[-1] // groups)


def _vectors(
    size: int, groups: int, *values: tuple[Vector, float], dtype: npt.DTypeLike = np.float64
) -> list[FloatArray]:
    return [vector(*value, size, dtype).reshape(groups, -1) for value in values]


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
    w, b = _vectors(x.shape[-1], groups, (weight, 1.0), (bias, 0.0), dtype=x.dtype)
    if a.size:
        over_rows(_rows, len(a), COST * a.shape[1], a, w, b, eps, about_mean, out)
    return out.reshape(x.shape)


def rows_pull(
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
        over_rows(_rows_pull, blocks, cost, block, u, a, w, eps, about_mean, out, sums)
    vz, vs = sums.sum(0).swapaxes(0, 1).reshape(2, -1)
    return out.reshape(x.shape), vz, vs


def rows_push(
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
        cost = 2 * COST * a.shape[1]
        over_rows(_rows_push, len(a), cost, u, a, *vectors, eps, about_mean, out)
    return out.reshape(x.shape)


def rows_jacobian(x: FloatArray, weight: Vector, eps: float, *, about_mean: bool) -> FloatArray:
    """Return weight J for each row: as J is symmetric, its rows are its products."""
    size = x.shape[-1]
    unit = np.broadcast_to(np.eye(size), (*x.shape, size))
    repeated = np.broadcast_to(x[..., None, :], unit.shape).astype(np.float64)
    jac = rows_push(unit, repeated, None, None, None, eps, about_mean=about_mean)
    return jac if weight is None else jac * np.asarray(weight, np.float64)[:, None]


def operands(
    x: npt.ArrayLike, *, least: int = 1, **others: npt.ArrayLike | None
) -> tuple[FloatDType, FloatArray, list[Any]]:
    """
    Check x, of at least `least` axes, and the others: one number a channel.

    "dout" has the shape of x; "weight" and "bias" may be None.
    """
    given: dict[str, Any] = {
        name: value
        for name, value in others.items()
        if value is not None or name not in {"weight", "bias"}
    }
    dtype, [x, *rest] = as_floats({"x": x, **given}, work=np.float32)
    check_ndim("x", x, least)
    arrays = dict(zip(given, rest, strict=True))
    for name, array in arrays.items():
        check_shape(name, array, x.shape if name == "dout" else x.shape[-1:])
    return dtype, x, [arrays.get(name) for name in others]


def moving(
    primals: Any,
    tangents: Any,
    *,
    count: int,
    needed: int = 1,
    least: int = 1,
    constant: tuple[int, ...] = (),
) -> tuple[FloatDType, FloatArray, FloatArray, list[Any], list[Any]]:
    """
    Check the arguments of a jvp: x, then one number a channel each, or None beyond `needed`.

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
    dtype, found = as_floats(given, work=np.float32)
    arrays = dict(zip(given, found, strict=True))
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
