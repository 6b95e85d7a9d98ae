"""
Numbers made standard over positions: batch, group and instance normalization.

x has the axes samples, positions, channels, and a group is some adjacent channels of one sample
at all its positions.  Memory holds the channels of a position side by side.  So the sums of all
channels are formed side by side, too, in the order of memory, and a row of sums is as long as
the channels, or several times as long if they are few: then one row of it takes several
positions, and is folded at the end.

The forward pass reads x for the moments and for the result, the product with the Jacobian reads
x and the vector for four sums at once (of x - m, of its square, of v, of v times x - m) and for
the result.  Where there are samples enough for all threads, a thread takes whole samples, and finds
them in its cache the second time; otherwise, as in a batch, which is one sample, threads share
its pieces out, once for the sums and once for the result.  The bits are the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._jit import formula, kernel
from ._parallel import over_rows, threads_for
from ._standardize import (
    Number,
    Vector,
    about_0,
    add_four_products,
    affine,
    difference,
    four,
    rows,
    rows_pull,
    rows_push,
    tolerance,
    vector,
)
from ._validate import FloatArray

__all__ = ["columns", "columns_pull", "columns_push"]

ROW = 256  # numbers that a row of sums has at least
PIECE = 256  # rows of x summed up before the sums are added to others
SAMPLED = 32, 8  # positions from which the mean is guessed, in float64 and in float32
COST = 0.5  # nanoseconds an element
TRIALS = 3  # of guesses of the mean; the second is good already


class Statistics(NamedTuple):
    """Of each sample and group: (x - mean) scale - low has mean 0 and variance 1."""

    mean: FloatArray
    scale: FloatArray
    low: FloatArray


class Factors(NamedTuple):
    """What makes after J (before v) + gain z + offset of J v, for each channel."""

    before: FloatArray
    after: FloatArray
    gain: FloatArray
    offset: FloatArray


class Lines(NamedTuple):
    """Of each channel of each sample: the result is v factor + (x - mean) slope + rest."""

    factor: FloatArray
    slope: FloatArray
    rest: FloatArray


class Layout(NamedTuple):
    """How a sample is cut: into pieces of `size` numbers, in rows of `row` numbers."""

    channels: int
    group: int
    row: int
    size: int
    pieces: int


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
            s[c] += four(d0, d1, d2, d3)
            q[c] = add_four_products(q[c], d0, d1, d2, d3, d0, d1, d2, d3)
    for begin in range(4 * fours * n, x.size, n):
        part = x[begin : begin + n]  # the last row may be short
        for c in range(part.size):
            d = difference(part[c], mean[c])
            s[c] += d
            q[c] += _product(d, d)


_add_moments_about_0 = about_0(_add_moments)


@kernel
def _add_products(
    v: FloatArray,
    x: FloatArray,
    mean: FloatArray,
    s: FloatArray,
    q: FloatArray,
    vs: FloatArray,
    vq: FloatArray,
) -> None:
    """Do the same, and add rows of v, and of v times x - mean, to vs and vq."""
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
            s[c] += four(d0, d1, d2, d3)
            q[c] = add_four_products(q[c], d0, d1, d2, d3, d0, d1, d2, d3)
            vs[c] += four(u0, u1, u2, u3)
            vq[c] = add_four_products(vq[c], u0, u1, u2, u3, d0, d1, d2, d3)
    for begin in range(4 * fours * n, x.size, n):
        part, u = x[begin : begin + n], v[begin : begin + n]
        for c in range(part.size):
            d = difference(part[c], mean[c])
            s[c] += d
            q[c] += _product(d, d)
            vs[c] += np.float64(u[c])
            vq[c] += _product(u[c], d)


_add_products_about_0 = about_0(_add_products)


@kernel
def _spread(values: FloatArray, group: int, to: FloatArray) -> None:
    """Give each channel the value of its group, and repeat the channels along the row."""
    channels = values.size * group
    if group == 1:
        to[:channels] = values
    else:
        for g in range(values.size):
            for c in range(g * group, (g + 1) * group):
                to[c] = values[g]
    for c in range(channels, to.size):
        to[c] = to[c - channels]


@kernel
def _fold(row: FloatArray, group: int, to: FloatArray) -> None:
    """Sum up what the row has for each group, or for each channel if `group` is 1."""
    channels = to.size * group
    to[:] = 0.0
    for begin in range(0, row.size, channels):
        if group == 1:
            for c in range(channels):
                to[c] += row[begin + c]
        else:
            for g in range(to.size):
                for c in range(begin + g * group, begin + (g + 1) * group):
                    to[g] += row[c]


@kernel
def _guess(x: FloatArray, at: Layout, mean: FloatArray) -> None:
    """
    Fill in the mean of each group at some of the positions.

    In a sample whose means are all smaller than the spread of the numbers they are 0: that
    is good enough, and a subtraction less for each number.
    """
    positions = x.shape[1] // at.channels
    step = max(positions // (SAMPLED[0] if x.itemsize == 8 else SAMPLED[1]), 1)
    enough = tolerance(x.itemsize)
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
            small = small and (m == 0.0 or m * m < enough * (square[g] / count - m * m))
        if small:
            mean[sample] = 0.0


@kernel
def _statistics(
    moments: FloatArray,
    count: int,
    eps: Number,
    enough: Number,
    found: Statistics,
) -> bool:
    """
    Fill in scale and low; where the means were no good guess, mend them and return False.

    The square of what a guess lacks may be `enough` variances.
    """
    mean, scale, low = found
    pieces = moments.shape[0] // mean.shape[0]
    good = True
    for sample in range(mean.shape[0]):
        shift, var = low[sample], scale[sample]
        shift[:] = 0.0
        var[:] = 0.0
        for block in range(sample * pieces, (sample + 1) * pieces):
            s, q = moments[block, 0], moments[block, 1]
            for g in range(shift.size):
                shift[g] += s[g]
                var[g] += q[g]
        bad = 0
        for g in range(shift.size):
            about = shift[g] / count
            v = var[g] / count - about * about
            bad += about * about > enough * v  # NaN is no reason to go on
            v = np.float64(0.0) if v < 0.0 else v  # NaN stays
            var[g] = 1.0 / np.sqrt(v + eps)
            shift[g] = about * var[g]
        if bad:
            good = False
            for g in range(shift.size):
                mean[sample, g] += shift[g] / var[g]
    return good


@kernel
def _begin(
    block: int, mean: FloatArray, at: Layout, middle: FloatArray, row_sums: FloatArray
) -> tuple[int, int, int]:
    """Make ready the rows for a block of numbers; return its sample and its bounds."""
    sample, piece = block // at.pieces, block % at.pieces
    _spread(mean[sample], at.group, middle)
    row_sums[:] = 0.0
    return sample, piece * at.size, (piece + 1) * at.size


@kernel
def _moments(
    start: int, stop: int, x: FloatArray, mean: FloatArray, at: Layout, sums: FloatArray
) -> None:
    middle, row_sums = np.empty(at.row), np.empty((2, at.row))
    s, q = row_sums[0], row_sums[1]
    for block in range(start, stop):
        sample, begin, end = _begin(block, mean, at, middle, row_sums)
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
    middle, row_sums = np.empty(at.row), np.empty((4, at.row))
    s, q, vs, vq = row_sums[0], row_sums[1], row_sums[2], row_sums[3]
    for block in range(start, stop):
        sample, begin, end = _begin(block, mean, at, middle, row_sums)
        part, u = x[sample][begin:end], v[sample][begin:end]
        if mean[sample].any():
            _add_products(u, part, middle, s, q, vs, vq)
        else:
            _add_products_about_0(u, part, middle, s, q, vs, vq)
        _fold(s, at.group, moments[block, 0])
        _fold(q, at.group, moments[block, 1])
        _fold(vs, 1, sums[block, 0])
        _fold(vq, 1, sums[block, 1])


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
                    to[c] = affine(difference(row[c], m[c]), f[c], g[c])
            else:
                for c in range(to.size):
                    to[c] = affine(row[c], f[c], g[c])


@kernel
def _coefficients(
    sums: FloatArray,
    found: Statistics,
    count: int,
    factors: Factors,
    at: Layout,
    lines: Lines,
    of_vz: FloatArray,
    of_v: FloatArray,
) -> None:
    """Fill in the lines, and the sums of v z and of v for each channel, from those of v and v d."""
    before, after, gain, offset = factors
    along_1, along_z = np.empty((2, found.low.shape[1]))
    for sample in range(of_v.shape[0]):
        vz, vs = of_vz[sample], of_v[sample]
        scale, low = found.scale[sample], found.low[sample]
        vz[:] = 0.0
        vs[:] = 0.0
        for block in range(sample * at.pieces, (sample + 1) * at.pieces):
            for c in range(vs.size):
                vs[c] += sums[block, 0, c]
                vz[c] += sums[block, 1, c]
        along_1[:] = 0.0
        along_z[:] = 0.0
        for c in range(vs.size):
            g = c // at.group
            vz[c] = vz[c] * scale[g] - vs[c] * low[g]
            along_1[g] += before[c] * vs[c] / count
            along_z[g] += before[c] * vz[c] / count
        for c in range(vs.size):
            g = c // at.group
            factor = scale[g] * after[c]
            of_z = gain[c] - along_z[g] * factor
            lines.factor[sample, c] = before[c] * factor
            lines.slope[sample, c] = scale[g] * of_z
            lines.rest[sample, c] = offset[c] - low[g] * of_z - along_1[g] * factor


@kernel
def _projections(
    start: int,
    stop: int,
    v: FloatArray,
    x: FloatArray,
    mean: FloatArray,
    lines: Lines,
    at: Layout,
    out: FloatArray,
) -> None:
    m, f, g, r = np.empty(at.row), np.empty(at.row), np.empty(at.row), np.empty(at.row)
    for block in range(start, stop):
        sample, piece = block // at.pieces, block % at.pieces
        _spread(mean[sample], at.group, m)
        _spread(lines.slope[sample], 1, f)
        _spread(lines.rest[sample], 1, g)
        _spread(lines.factor[sample], 1, r)
        shifted = mean[sample].any()
        for begin in range(piece * at.size, min((piece + 1) * at.size, x.shape[1]), at.row):
            row, u = x[sample][begin : begin + at.row], v[sample][begin : begin + at.row]
            to = out[sample][begin : begin + at.row]
            if shifted:
                for c in range(to.size):
                    line = affine(difference(row[c], m[c]), f[c], g[c])
                    to[c] = affine(u[c], r[c], line)
            else:
                for c in range(to.size):
                    to[c] = affine(u[c], r[c], affine(row[c], f[c], g[c]))


@kernel
def _sample_by_sample(
    start: int,
    stop: int,
    x: FloatArray,
    weight: FloatArray,
    bias: FloatArray,
    count: int,
    eps: Number,
    at: Layout,
    out: FloatArray,
) -> None:
    """Do all that `columns` does, for one sample after the other while the cache has it."""
    groups = at.channels // at.group
    of_group = np.empty((3, 1, groups))
    found = Statistics(of_group[0], of_group[1], of_group[2])
    moments = np.empty((at.pieces, 2, groups))
    for sample in range(start, stop):
        part = x[sample : sample + 1]
        _guess(part, at, found.mean)
        for _ in range(TRIALS):  # pragma: no branch
            _moments(0, at.pieces, part, found.mean, at, moments)
            if _statistics(moments, count, eps, tolerance(x.itemsize), found):
                break
        _standardized(0, at.pieces, part, found, weight, bias, at, out[sample : sample + 1])


@kernel
def _products_sample_by_sample(
    start: int,
    stop: int,
    v: FloatArray,
    x: FloatArray,
    factors: Factors,
    count: int,
    eps: Number,
    at: Layout,
    out: FloatArray,
    of_vz: FloatArray,
    of_v: FloatArray,
) -> None:
    """Do all that `_product_with_jacobian` does, for one sample after the other."""
    groups, size = at.channels // at.group, at.channels
    of_group, of_channel = np.empty((3, 1, groups)), np.empty((3, 1, size))
    found = Statistics(of_group[0], of_group[1], of_group[2])
    lines = Lines(of_channel[0], of_channel[1], of_channel[2])
    moments, sums = np.empty((at.pieces, 2, groups)), np.empty((at.pieces, 2, size))
    for sample in range(start, stop):
        end = sample + 1
        part, u, to = x[sample:end], v[sample:end], out[sample:end]
        _guess(part, at, found.mean)
        for _ in range(TRIALS):  # pragma: no branch
            _products(0, at.pieces, part, found.mean, at, moments, u, sums)
            if _statistics(moments, count, eps, tolerance(x.itemsize), found):
                break
        _coefficients(sums, found, count, factors, at, lines, of_vz[sample:end], of_v[sample:end])
        _projections(0, at.pieces, u, part, found.mean, lines, at, to)


def _layout(positions: int, channels: int, groups: int) -> Layout:
    together = min(-(-ROW // channels), positions)
    row = together * channels
    size = PIECE * row
    return Layout(channels, channels // groups, row, size, -(-positions * channels // size))


def _pieces(x: FloatArray, at: Layout) -> tuple[int, float]:
    """Return how many pieces there are, and the work of each."""
    return len(x) * at.pieces, COST * min(at.size, x.shape[1])


def _over(kernel: Any, x: FloatArray, at: Layout, *arguments: Any) -> None:
    over_rows(kernel, *_pieces(x, at), *arguments)


def _over_samples(kernel: Any, x: FloatArray, *arguments: Any) -> None:
    over_rows(kernel, len(x), 2 * COST * x.shape[1], *arguments)


def _whole(x: FloatArray, at: Layout) -> bool:
    """Return whether threads had better take whole samples than pieces of them."""
    threads = threads_for(*_pieces(x, at))
    return threads == 1 or (len(x) > 1 and (at.pieces == 1 or len(x) >= 4 * threads))


def _examined(
    kernel: Any, x: FloatArray, at: Layout, count: int, eps: float, *others: FloatArray
) -> Statistics:
    """Return the statistics, the sums being those of a kernel that takes `others`, too."""
    groups = at.channels // at.group
    found = Statistics(*np.empty((3, len(x), groups)))
    moments = np.empty((len(x) * at.pieces, 2, groups))
    _guess(x, at, found.mean)
    for _ in range(TRIALS):  # pragma: no branch
        _over(kernel, x, at, x, found.mean, at, moments, *others)
        if _statistics(moments, count, eps, tolerance(x.itemsize), found):
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
    if not out.size:
        return out
    at = _layout(positions, size, groups)
    count = positions * at.group
    flat, to = (a.reshape(samples, -1) for a in (np.ascontiguousarray(x), out))
    w, b = vector(weight, 1.0, size, x.dtype), vector(bias, 0.0, size, x.dtype)
    if _whole(flat, at):
        _over_samples(_sample_by_sample, flat, flat, w, b, count, eps, at, to)
    else:
        found = _examined(_moments, flat, at, count, eps)
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
    of_vz, of_v = np.zeros((2, samples, size))
    if not out.size:
        return out, of_vz.sum(0), of_v.sum(0)
    at = _layout(positions, size, groups)
    count = positions * at.group
    flat, u, to = (np.ascontiguousarray(a).reshape(samples, -1) for a in (x, v, out))
    operands = (before, 1.0), (after, 1.0), (gain, 0.0), (offset, 0.0)
    factors = Factors(*(vector(*value, size) for value in operands))
    if _whole(flat, at):
        arguments = u, flat, factors, count, eps, at, to, of_vz, of_v
        _over_samples(_products_sample_by_sample, flat, *arguments)
    else:
        sums = np.empty((samples * at.pieces, 2, size))
        found = _examined(_products, flat, at, count, eps, u, sums)
        lines = Lines(*np.empty((3, samples, size)))
        _coefficients(sums, found, count, factors, at, lines, of_vz, of_v)
        _over(_projections, flat, at, u, flat, found.mean, lines, at, to)
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
