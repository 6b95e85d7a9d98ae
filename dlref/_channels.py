"""
Numbers made standard over positions: batch, group and instance normalization.

x has the axes samples, positions, channels, and a group is some adjacent channels of one sample
at all its positions.  Memory holds the channels of a position side by side.  So the sums of all
channels are formed side by side, too, in the order of memory, and a row of sums is as long as
the channels, or several times as long if they are few: then one row of it takes several
positions, and is folded at the end.

The forward pass reads x for the moments and for the result, the product with the Jacobian reads
x and the vector for four sums (of x - m, of its square, of v, of v times x - m) and for
the result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._jit import formula, kernel
from ._parallel import over_rows
from ._standardize import (
    Number,
    Vector,
    about_0,
    affine,
    difference,
    rows,
    rows_pull,
    rows_push,
    vector,
)
from ._validate import FloatArray

__all__ = ["columns", "columns_pull", "columns_push"]

ROW = 256  # numbers that a row of sums has at least
PIECE = 256  # rows of x summed up before the sums are added to others
SAMPLED = 32  # positions from which the mean is guessed
COST = 0.5  # nanoseconds an element


class Statistics(NamedTuple):
    """Of each sample and group: (x - mean) scale - low has mean 0 and variance 1."""

    mean: FloatArray
    scale: FloatArray
    low: FloatArray


class Layout(NamedTuple):
    """How a sample is cut: into pieces of `size` numbers, in rows of `row` numbers."""

    channels: int
    group: int
    row: int
    size: int
    pieces: int


@formula
def _four(a: Number, b: Number, c: Number, d: Number) -> Number:
    return (a + b) + (c + d)


@formula
def _four_products(
    a: Number, b: Number, c: Number, d: Number, e: Number, f: Number, g: Number, h: Number
) -> Number:
    return (a * e + b * f) + (c * g + d * h)


@formula
def _product(v: Number, d: Number) -> Number:
    return np.float64(v) * d


@kernel
def _add_moments(x: FloatArray, mean: FloatArray, s: FloatArray, q: FloatArray) -> None:
    """Add rows of x - mean, and their squares, to s and q, four rows at a time."""
    n = mean.size
    fours = x.size // (4 * n)
    for k in range(fours):  # a range with a step would keep LLVM from vectorizing
        part = x[4 * k * n :]
        for c in range(n):
            d0 = difference(part[c], mean[c])
            d1 = difference(part[c + n], mean[c])
            d2 = difference(part[c + 2 * n], mean[c])
            d3 = difference(part[c + 3 * n], mean[c])
            s[c] += _four(d0, d1, d2, d3)
            q[c] += _four_products(d0, d1, d2, d3, d0, d1, d2, d3)
    for begin in range(4 * fours * n, x.size, n):
        part = x[begin : begin + n]  # the last row may be short
        for c in range(part.size):
            d = difference(part[c], mean[c])
            s[c] += d
            q[c] += _product(d, d)


_add_moments_about_0 = about_0(_add_moments)


@kernel
def _add_products(
    v: FloatArray, x: FloatArray, mean: FloatArray, s: FloatArray, q: FloatArray
) -> None:
    """Add rows of v, and of v times x - mean, to s and q, four rows at a time."""
    n = mean.size
    fours = x.size // (4 * n)
    for k in range(fours):
        part, u = x[4 * k * n :], v[4 * k * n :]
        for c in range(n):
            d0 = difference(part[c], mean[c])
            d1 = difference(part[c + n], mean[c])
            d2 = difference(part[c + 2 * n], mean[c])
            d3 = difference(part[c + 3 * n], mean[c])
            u0, u1 = np.float64(u[c]), np.float64(u[c + n])
            u2, u3 = np.float64(u[c + 2 * n]), np.float64(u[c + 3 * n])
            s[c] += _four(u0, u1, u2, u3)
            q[c] += _four_products(u0, u1, u2, u3, d0, d1, d2, d3)
    for begin in range(4 * fours * n, x.size, n):
        part, u = x[begin : begin + n], v[begin : begin + n]
        for c in range(part.size):
            s[c] += np.float64(u[c])
            q[c] += _product(u[c], difference(part[c], mean[c]))


@kernel
def _spread(values: FloatArray, group: int, to: FloatArray) -> None:
    """Give each channel the value of its group, and repeat the channels along the row."""
    c = 0
    while c < to.size:
        for g in range(values.size):
            to[c : c + group] = values[g]
            c += group


@kernel
def _fold(row: FloatArray, group: int, to: FloatArray) -> None:
    """Sum up what the row has for each group, or for each channel if `group` is 1."""
    to[:] = 0.0
    c = 0
    while c < row.size:
        for g in range(to.size):
            for _ in range(group):
                to[g] += row[c]
                c += 1


@kernel
def _guess(x: FloatArray, at: Layout, mean: FloatArray) -> None:
    """
    Fill in the mean of each group at some of the positions.

    In a sample whose means are all smaller than the spread of the numbers they are 0: that
    is good enough, and a subtraction less for each number.
    """
    positions = x.shape[1] // at.channels
    step = max(positions // SAMPLED, 1)
    s, q, square = np.empty(at.channels), np.empty(at.channels), np.empty(mean.shape[1])
    for sample in range(x.shape[0]):
        s[:] = 0.0
        q[:] = 0.0
        count = 0
        for p in range(0, positions, step):
            part = x[sample][p * at.channels :]
            for c in range(s.size):
                s[c] += np.float64(part[c])
                q[c] += _product(part[c], np.float64(part[c]))
            count += at.group
        _fold(s, at.group, mean[sample])
        _fold(q, at.group, square)
        small = True
        for g in range(square.size):
            mean[sample, g] /= count
            m = mean[sample, g]
            small = small and (m == 0.0 or 2.0 * m * m < square[g] / count)
        if small:
            mean[sample] = 0.0


@kernel
def _statistics(
    moments: FloatArray,
    count: int,
    eps: Number,
    mean: FloatArray,
    scale: FloatArray,
    low: FloatArray,
) -> bool:
    """Fill in scale and low; if the mean was no good guess, mend it and return False."""
    good = True
    pieces = moments.shape[0] // mean.shape[0]
    for sample in range(mean.shape[0]):
        shift, var = low[sample], scale[sample]
        shift[:] = 0.0
        var[:] = 0.0
        for block in range(sample * pieces, (sample + 1) * pieces):
            s, q = moments[block, 0], moments[block, 1]
            for g in range(shift.size):
                shift[g] += s[g]
                var[g] += q[g]
        for g in range(shift.size):
            about = shift[g] / count
            v = var[g] / count - about * about
            good = good and not about * about > v  # NaN is no reason to go on
            v = np.float64(0.0) if v < 0.0 else v  # NaN stays
            scale[sample, g] = 1.0 / np.sqrt(v + eps)
            low[sample, g] = about * scale[sample, g]
    if not good:
        for sample in range(mean.shape[0]):
            for g in range(mean.shape[1]):
                mean[sample, g] += low[sample, g] / scale[sample, g]
    return good


@kernel
def _begin(
    block: int, mean: FloatArray, at: Layout, middle: FloatArray, s: FloatArray, q: FloatArray
) -> tuple[int, int, int]:
    """Make ready the rows for a block of numbers; return its sample and its bounds."""
    sample, piece = block // at.pieces, block % at.pieces
    _spread(mean[sample], at.group, middle)
    s[:] = 0.0
    q[:] = 0.0
    return sample, piece * at.size, (piece + 1) * at.size


@kernel
def _moments(
    start: int, stop: int, x: FloatArray, mean: FloatArray, at: Layout, sums: FloatArray
) -> None:
    middle, s, q = np.empty(at.row), np.empty(at.row), np.empty(at.row)
    for block in range(start, stop):
        sample, begin, end = _begin(block, mean, at, middle, s, q)
        if mean[sample].any():
            _add_moments(x[sample][begin:end], middle, s, q)
        else:
            _add_moments_about_0(x[sample][begin:end], middle, s, q)
        _fold(s, at.group, sums[block, 0])
        _fold(q, at.group, sums[block, 1])


@kernel
def _products(
    start: int,
    stop: int,
    x: FloatArray,
    mean: FloatArray,
    at: Layout,
    moments: FloatArray,
    v: FloatArray,
    sums: FloatArray,
) -> None:
    _moments(start, stop, x, mean, at, moments)
    middle, s, q = np.empty(at.row), np.empty(at.row), np.empty(at.row)
    for block in range(start, stop):
        sample, begin, end = _begin(block, mean, at, middle, s, q)
        _add_products(v[sample][begin:end], x[sample][begin:end], middle, s, q)
        _fold(s, 1, sums[block, 0])
        _fold(q, 1, sums[block, 1])


@formula
def _line(x: Number, mean: Number, slope: Number, rest: Number) -> Number:
    return difference(x, mean) * slope + rest


@kernel
def _standardized(
    start: int,
    stop: int,
    x: FloatArray,
    found: Statistics,
    weight: FloatArray,
    bias: FloatArray,
    at: Layout,
    out: FloatArray,
) -> None:
    m, f, g = np.empty(at.row), np.empty(at.row), np.empty(at.row)
    w, b = np.empty(at.row), np.empty(at.row)
    _spread(weight, 1, w)
    _spread(bias, 1, b)
    for block in range(start, stop):
        sample, piece = block // at.pieces, block % at.pieces
        shifted = found.mean[sample].any()
        _spread(found.mean[sample], at.group, m)
        _spread(found.scale[sample], at.group, f)
        _spread(found.low[sample], at.group, g)
        for c in range(w.size):
            f[c] *= w[c]
            g[c] = b[c] - g[c] * w[c]
        for begin in range(piece * at.size, min((piece + 1) * at.size, x.shape[1]), at.row):
            row, to = x[sample][begin : begin + at.row], out[sample][begin : begin + at.row]
            if shifted:
                for c in range(to.size):
                    to[c] = _line(row[c], m[c], f[c], g[c])
            else:
                for c in range(to.size):
                    to[c] = affine(row[c], f[c], g[c])


@formula
def _projected(v: Number, weight: Number, along_1: Number, factor: Number, line: Number) -> Number:
    return (np.float64(v) * weight - along_1) * factor + line


@kernel
def _projections(
    start: int,
    stop: int,
    v: FloatArray,
    x: FloatArray,
    mean: FloatArray,
    slope: FloatArray,
    rest: FloatArray,
    before: FloatArray,
    along_1: FloatArray,
    factor: FloatArray,
    at: Layout,
    out: FloatArray,
) -> None:
    m, f, g = np.empty(at.row), np.empty(at.row), np.empty(at.row)
    w, s, r = np.empty(at.row), np.empty(at.row), np.empty(at.row)
    _spread(before, 1, w)
    for block in range(start, stop):
        sample, piece = block // at.pieces, block % at.pieces
        _spread(mean[sample], at.group, m)
        _spread(slope[sample], 1, f)
        _spread(rest[sample], 1, g)
        _spread(along_1[sample], at.group, s)
        _spread(factor[sample], 1, r)
        for begin in range(piece * at.size, min((piece + 1) * at.size, x.shape[1]), at.row):
            row, u = x[sample][begin : begin + at.row], v[sample][begin : begin + at.row]
            to = out[sample][begin : begin + at.row]
            for c in range(to.size):
                line = _line(row[c], m[c], f[c], g[c])
                to[c] = _projected(u[c], w[c], s[c], r[c], line)


def _layout(positions: int, channels: int, groups: int) -> Layout:
    together = min(-(-ROW // channels), positions)
    row = together * channels
    size = PIECE * row
    return Layout(channels, channels // groups, row, size, -(-positions * channels // size))


def _over(kernel: Any, x: FloatArray, at: Layout, *arguments: Any) -> None:
    over_rows(kernel, len(x) * at.pieces, COST * min(at.size, x.shape[1]), *arguments)


def _examined(
    kernel: Any, x: FloatArray, at: Layout, count: int, eps: float, *others: FloatArray
) -> Statistics:
    """Return the statistics, the sums being those of a kernel that takes `others`, too."""
    groups = at.channels // at.group
    found = Statistics(*np.empty((3, len(x), groups)))
    moments = np.empty((len(x) * at.pieces, 2, groups))
    _guess(x, at, found.mean)
    for _ in range(3):  # pragma: no branch  # the second guess is good already
        _over(kernel, x, at, x, found.mean, at, moments, *others)
        if _statistics(moments, count, eps, *found):
            break
    return found


def columns(
    x: FloatArray,
    groups: int,
    weight: Vector,
    bias: Vector,
    eps: float,
) -> FloatArray:
    """Standardize each group of channels of each sample of x (samples, positions, channels)."""
    samples, positions, size = x.shape
    if positions == 1:
        return rows(x, weight, bias, eps, about_mean=True, groups=groups)
    out = np.empty(x.shape, x.dtype)
    if out.size:
        at = _layout(positions, size, groups)
        flat, to = (a.reshape(samples, -1) for a in (np.ascontiguousarray(x), out))
        found = _examined(_moments, flat, at, positions * at.group, eps)
        w, b = vector(weight, 1.0, size), vector(bias, 0.0, size)
        _over(_standardized, flat, at, flat, found, w, b, at, to)
    return out


def _product_with_jacobian(
    v: FloatArray,
    x: FloatArray,
    groups: int,
    eps: float,
    *,
    before: Vector = None,
    after: Vector = None,
    gain: Vector = None,
    offset: Vector = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """
    Return after J (before v) + gain z + offset, and the sums of v z and of v for each channel.

    z are the standardized numbers and J the Jacobian, symmetric, of z with respect to x.
    """
    samples, positions, size = x.shape
    out = np.empty(x.shape, x.dtype)
    if not out.size:
        return out, np.zeros(size), np.zeros(size)
    at = _layout(positions, size, groups)
    count = positions * at.group
    flat, u, to = (np.ascontiguousarray(a).reshape(samples, -1) for a in (x, v, out))
    sums = np.empty((samples * at.pieces, 2, size))
    found = _examined(_products, flat, at, count, eps, u, sums)
    scale, low = (np.repeat(a, at.group, axis=1) for a in (found.scale, found.low))
    of_v, of_vd = sums.reshape(samples, -1, 2, size).sum(1).swapaxes(0, 1)
    of_vz = of_vd * scale - of_v * low
    weight = vector(before, 1.0, size)
    along_1, along_z = (
        (weight * a).reshape(samples, groups, at.group).sum(2) / count for a in (of_v, of_vz)
    )
    factor = scale * vector(after, 1.0, size)
    of_z = vector(gain, 0.0, size) - np.repeat(along_z, at.group, axis=1) * factor
    slope, rest = scale * of_z, vector(offset, 0.0, size) - low * of_z
    parts = found.mean, slope, rest, weight, along_1, factor
    _over(_projections, flat, at, u, flat, *parts, at, to)
    return out, of_vz.sum(0), of_v.sum(0)


def columns_pull(
    v: FloatArray, x: FloatArray, groups: int, weight: Vector, eps: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return J (weight v), and the sums for each channel of v z and of v."""
    if x.shape[1] == 1:
        return rows_pull(v, x, weight, eps, about_mean=True, groups=groups)
    return _product_with_jacobian(v, x, groups, eps, before=weight)


def columns_push(
    v: FloatArray,
    x: FloatArray,
    groups: int,
    weight: Vector,
    gain: Vector,
    offset: Vector,
    eps: float,
) -> FloatArray:
    """Return weight (J v) + gain z + offset."""
    if x.shape[1] == 1:
        return rows_push(v, x, weight, gain, offset, eps, about_mean=True, groups=groups)
    return _product_with_jacobian(v, x, groups, eps, after=weight, gain=gain, offset=offset)[0]
