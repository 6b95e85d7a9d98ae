"""
Numbers standardized over positions: batch, group and instance normalization.

x has the axes samples, positions, channels, and a group is some adjacent channels of one sample
at all its positions.  Memory holds the channels of a position side by side, so the sums of all
channels are formed side by side, too.  Where channels are few, several positions make one row.

A sample is cut into pieces that fit the processor's cache.  Each column of a piece is summed up as
differences from its mean, and, for a product with the Jacobian, so is the vector.
Every 64 rows the sums are added to totals, so that few numbers are added to one total.  Pieces are
combined as in [1]_: moving the mean by delta adds 2 delta s + n delta^2 to a sum of n squares.  A
second read gives the result; where a sample is a single piece, it comes from the processor's cache.

.. [1] T. F. Chan, G. H. Golub, R. J. LeVeque: Algorithms for computing the sample variance.
   The American Statistician 37(3), 1983, https://doi.org/10.1080/00031305.1983.10483115
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..._core.arguments import FloatArray
from ..._core.jit import kernel
from ..._core.threads import as_carray, over_rows, with_workspace
from .rows import (
    Vector,
    affine,
    as_vector,
    difference,
    lost,
    rows,
    rows_jvp,
    rows_vjp,
    safe_unit,
)

IntArray = npt.NDArray[np.int64]
ROW = 256  #: numbers that a row has at least, if there are positions enough
PIECE = 2**16  #: numbers of a piece, at most
RUN = 64  #: rows that are added up before they are added to totals
COST = 0.5  #: nanoseconds an element


@kernel
def _clear(sums: FloatArray) -> None:
    for k in range(sums.shape[0]):
        for c in range(sums.shape[1]):
            sums[k, c] = 0.0


@kernel
def _flush(some: FloatArray, sums: FloatArray) -> None:
    """Add the sums of some rows to the totals, and start anew."""
    for k in range(some.shape[0]):
        for c in range(some.shape[1]):
            sums[k, c] += some[k, c]
            some[k, c] = 0.0


@kernel
def _means(part: FloatArray, sums: FloatArray, some: FloatArray) -> None:
    """Write the mean of each column of some rows to the first row of `sums`, 0 to the rest."""
    _clear(sums)
    for begin in range(0, part.shape[0], RUN):
        for i in range(begin, min(begin + RUN, part.shape[0])):
            row, to = part[i], some[0]
            for c in range(to.size):
                to[c] += np.float64(row[c])
        _flush(some[:1], sums[:1])
    mean = sums[0]
    for c in range(mean.size):
        mean[c] /= part.shape[0]


@kernel
def _moments(
    start: int,
    stop: int,
    x: FloatArray,
    size: int,
    pieces: int,
    sums: FloatArray,
    some: FloatArray,
) -> None:
    """Write a mean and the sums of d = x - mean and of d**2 for each column of a piece."""
    for block in range(start, stop):
        begin = block % pieces * size
        part = x[block // pieces, begin : begin + size]
        _clear(some)
        _means(part, sums[block], some)
        mean, s, q = sums[block, 0], some[0], some[1]
        for first in range(0, part.shape[0], RUN):
            run = part[first : first + RUN]
            fours = run.shape[0] // 4
            for i in range(fours):  # four rows at a time: the sums are read and written less often
                a, b, e, f = run[4 * i], run[4 * i + 1], run[4 * i + 2], run[4 * i + 3]
                for c in range(mean.size):
                    d0, d1 = difference(a[c], mean[c]), difference(b[c], mean[c])
                    d2, d3 = difference(e[c], mean[c]), difference(f[c], mean[c])
                    s[c] += (d0 + d1) + (d2 + d3)
                    q[c] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
            for i in range(4 * fours, run.shape[0]):
                row = run[i]
                for c in range(mean.size):
                    d = difference(row[c], mean[c])
                    s[c] += d
                    q[c] += d * d
            _flush(some[:2], sums[block, 1:])


@kernel
def _products(
    start: int,
    stop: int,
    x: FloatArray,
    size: int,
    pieces: int,
    sums: FloatArray,
    v: FloatArray,
    some: FloatArray,
) -> None:
    """Do the same, and write the sums of v and of v d."""
    for block in range(start, stop):
        begin = block % pieces * size
        part, of_v = x[block // pieces, begin : begin + size], v[block // pieces]
        _clear(some)
        _means(part, sums[block], some)
        mean, s, q, vs, vd = sums[block, 0], some[0], some[1], some[2], some[3]
        for first in range(0, part.shape[0], RUN):
            run, u = part[first : first + RUN], of_v[begin + first : begin + first + RUN]
            pairs = run.shape[0] // 2
            for i in range(pairs):
                a, b, e, f = run[2 * i], run[2 * i + 1], u[2 * i], u[2 * i + 1]
                for c in range(mean.size):
                    d0, d1 = difference(a[c], mean[c]), difference(b[c], mean[c])
                    v0, v1 = np.float64(e[c]), np.float64(f[c])
                    s[c] += d0 + d1
                    q[c] += d0 * d0 + d1 * d1
                    vs[c] += v0 + v1
                    vd[c] += v0 * d0 + v1 * d1
            for i in range(2 * pairs, run.shape[0]):
                row, tail = run[i], u[i]
                for c in range(mean.size):
                    d = difference(row[c], mean[c])
                    s[c] += d
                    q[c] += d * d
                    vs[c] += np.float64(tail[c])
                    vd[c] += np.float64(tail[c]) * d
            _flush(some, sums[block, 1:])


@kernel
def _combine(
    sums: FloatArray,
    size: int,
    positions: int,
    group_of: IntArray,
    count: int,
    eps: float,
    unit: FloatArray,
    statistics: FloatArray,
    odd: npt.NDArray[np.bool_],
) -> None:
    """
    Write mean, scale and low of each group: (x - mean) scale - low has variance 1.

    `unit` has the unit of each group of x.  Note in `odd` where squares overflowed or vanished.
    """
    for sample in range(statistics.shape[0]):
        mean, scale, low = statistics[sample, 0], statistics[sample, 1], statistics[sample, 2]
        for g in range(mean.size):
            mean[g], scale[g], low[g] = 0.0, 0.0, 0.0
        for piece in range(sums.shape[1]):
            part, share = sums[sample, piece, 0], min(size, positions - piece * size) / count
            for c in range(part.size):
                mean[group_of[c]] += part[c] * share
        for piece in range(sums.shape[1]):
            part, n = sums[sample, piece], min(size, positions - piece * size)
            for c in range(part.shape[1]):
                g, s = group_of[c], part[1, c]
                delta = part[0, c] - mean[g]
                low[g] += s + n * delta
                scale[g] += part[2, c] + delta * (2.0 * s + n * delta)
        for g in range(mean.size):
            shift, least = low[g] / count, eps * unit[sample, g] * unit[sample, g]
            var = scale[g] / count - shift * shift
            var = np.float64(0.0) if var < 0.0 else var  # NaN stays
            scale[g] = 1.0 / np.sqrt(var + least)
            low[g] = shift * scale[g]
            odd[sample, g] = lost(scale[g], least)


@kernel
def _combine_products(
    sums: FloatArray,
    group_of: IntArray,
    statistics: FloatArray,
    of_v: FloatArray,
    of_vz: FloatArray,
) -> None:
    """Write the sums of v and of v z for each channel of each sample."""
    samples, channels = of_v.shape
    for sample in range(samples):
        mean, scale, low = statistics[sample, 0], statistics[sample, 1], statistics[sample, 2]
        vs, vz = of_v[sample], of_vz[sample]
        for c in range(channels):
            vs[c], vz[c] = 0.0, 0.0
        for piece in range(sums.shape[1]):
            part = sums[sample, piece]
            for begin in range(0, part.shape[1], channels):
                for c in range(channels):
                    delta, u = part[0, begin + c] - mean[group_of[c]], part[3, begin + c]
                    vs[c] += u
                    vz[c] += part[4, begin + c] + delta * u
        for c in range(channels):
            vz[c] = vz[c] * scale[group_of[c]] - vs[c] * low[group_of[c]]


@kernel
def _as_lines(
    statistics: FloatArray, group: int, weight: FloatArray, bias: FloatArray, lines: FloatArray
) -> None:
    """Write the inputs of `_standardized`: mean, slope and rest of each column and sample."""
    for sample in range(lines.shape[0]):
        mean, slope, rest = lines[sample, 0], lines[sample, 1], lines[sample, 2]
        for begin in range(0, mean.size, weight.size):
            for c in range(weight.size):
                g = c // group
                mean[begin + c] = statistics[sample, 0, g]
                slope[begin + c] = statistics[sample, 1, g] * weight[c]
                rest[begin + c] = bias[c] - statistics[sample, 2, g] * weight[c]


@kernel
def _standardized(
    start: int, stop: int, x: FloatArray, size: int, pieces: int, lines: FloatArray, out: FloatArray
) -> None:
    """Write (x - mean) slope + rest; these three of each column of a sample are `lines`."""
    for block in range(start, stop):
        sample, begin = block // pieces, block % pieces * size
        mean, slope, rest = lines[sample, 0], lines[sample, 1], lines[sample, 2]
        for i in range(begin, min(begin + size, x.shape[1])):
            row, to = x[sample, i], out[sample, i]
            for c in range(mean.size):
                to[c] = affine(difference(row[c], mean[c]), slope[c], rest[c])


@kernel
def _whole_samples(
    start: int,
    stop: int,
    x: FloatArray,
    sums: FloatArray,
    group_of: IntArray,
    group: int,
    count: int,
    eps: float,
    unit: FloatArray,
    statistics: FloatArray,
    odd: npt.NDArray[np.bool_],
    weight: FloatArray,
    bias: FloatArray,
    lines: FloatArray,
    out: FloatArray,
    some: FloatArray,
) -> None:
    """Do all of this for samples of one piece, which is read again from the processor's cache."""
    size = x.shape[1]
    for s in range(start, stop):
        one = slice(s, s + 1)
        _moments(0, 1, x[one], size, 1, sums[s], some)
        _combine(sums[one], size, size, group_of, count, eps, unit[one], statistics[one], odd[one])
        _as_lines(statistics[one], group, weight, bias, lines[one])
        _standardized(0, 1, x[one], size, 1, lines[one], out[one])


@kernel
def _projected(
    start: int,
    stop: int,
    x: FloatArray,
    size: int,
    pieces: int,
    lines: FloatArray,
    v: FloatArray,
    out: FloatArray,
) -> None:
    """Write v factor + (x - mean) slope + rest."""
    for block in range(start, stop):
        sample, begin = block // pieces, block % pieces * size
        mean, slope, rest = lines[sample, 0], lines[sample, 1], lines[sample, 2]
        factor = lines[sample, 3]
        for i in range(begin, min(begin + size, x.shape[1])):
            row, u, to = x[sample, i], v[sample, i], out[sample, i]
            for c in range(mean.size):
                line = affine(difference(row[c], mean[c]), slope[c], rest[c])
                to[c] = affine(u[c], factor[c], line)


class _Columns:
    """x (samples, positions, channels) cut into pieces of rows, and its statistics."""

    def __init__(self, x: FloatArray, groups: int, v: FloatArray | None = None) -> None:
        self.shape = samples, positions, channels = x.shape
        self.group = channels // groups
        fitting = range(max(1, ROW // channels), 0, -1)
        at_once = next(k for k in fitting if positions % k == 0)
        self.flat = samples, positions // at_once, at_once * channels
        self.x = as_carray(x).reshape(self.flat)
        self.v = None if v is None else as_carray(v).reshape(self.flat)
        self.size = max(1, PIECE // self.flat[2])
        self.pieces = -(-self.flat[1] // self.size)
        self.channel_of = np.arange(self.flat[2]) % channels  # of each column
        self.group_of = self.channel_of // self.group
        self.count = positions * self.group  # numbers of a group
        self.unit, self.odd = np.ones((samples, groups)), np.empty((samples, groups), np.bool_)
        self.statistics = np.empty((samples, 3, groups))
        self.sums = np.empty((samples, self.pieces, 3 if v is None else 5, self.flat[2]))

    def over_pieces(self, function: Any, *arguments: Any, room: int = 0) -> None:
        cost = COST * min(self.size, self.flat[1]) * self.flat[2]
        function = with_workspace(function, room, self.flat[2]) if room else function
        over_rows(
            function, self.flat[0] * self.pieces, cost, self.x, self.size, self.pieces, *arguments
        )

    def measure(self, eps: float) -> None:
        """Find the statistics of each group: mean, scale and low."""
        by_piece = self.sums.reshape(-1, *self.sums.shape[2:])
        if self.v is None:
            self.over_pieces(_moments, by_piece, room=2)
        else:
            self.over_pieces(_products, by_piece, self.v, room=4)
        arguments = self.sums, self.size, self.flat[1], self.group_of, self.count, eps
        _combine(*arguments, self.unit, self.statistics, self.odd)

    def change_units(self) -> bool:
        """Rescale x in groups whose squares overflowed or vanished, if there are any."""
        if self.x.dtype == np.float32 or not self.odd.any():
            return False
        x = self.x.reshape(*self.shape[:2], -1, self.group)
        largest = abs(x).max((1, 3))
        for at in zip(*np.nonzero(self.odd), strict=True):
            self.unit[at] = safe_unit(largest[at])
        with np.errstate(invalid="ignore"):  # a signaling NaN becomes a NaN
            self.x = (x * self.unit[:, None, :, None]).reshape(self.flat)
        return True

    def standardized(self, weight: Vector, bias: Vector, eps: float, out: FloatArray) -> None:
        """Write z weight + bias, where z are the standardized numbers."""
        samples, rows, columns = self.flat
        vectors = as_vector(weight, 1.0, self.shape[2]), as_vector(bias, 0.0, self.shape[2])
        lines, to = np.empty((samples, 3, columns)), out.reshape(self.flat)
        if self.pieces == 1:
            kept = self.unit, self.statistics, self.odd, *vectors, lines, to
            grouping = self.group_of, self.group, self.count
            cost = 2 * COST * rows * columns
            function = with_workspace(_whole_samples, 2, columns)
            over_rows(function, samples, cost, self.x, self.sums, *grouping, eps, *kept)
        else:
            self.measure(eps)
            _as_lines(self.statistics, self.group, *vectors, lines)
            self.over_pieces(_standardized, lines, to)

    def of_channels(self, values: FloatArray) -> FloatArray:
        """Give each channel the value of its group, which is on the last axis."""
        return np.repeat(values, self.group, axis=-1)

    def lines(self, *values: Any) -> FloatArray:
        """Return arrays (samples, channels) side by side, repeated along a row."""
        samples, _, channels = self.shape
        stacked = np.empty((samples, len(values), channels))
        for k, value in enumerate(values):
            stacked[:, k] = value
        lines: FloatArray = stacked.take(self.channel_of, 2)
        return lines


def columns(x: FloatArray, groups: int, weight: Vector, bias: Vector, eps: float) -> FloatArray:
    """Standardize each group of channels of each sample of x (samples, positions, channels)."""
    if x.shape[1] == 1:
        return rows(x, weight, bias, eps, about_mean=True, groups=groups)
    out = np.empty(x.shape, x.dtype)
    if out.size:
        at = _Columns(x, groups)
        at.standardized(weight, bias, eps, out)
        if at.change_units():
            at.standardized(weight, bias, eps, out)
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
    samples, _, size = x.shape
    out = np.empty(x.shape, x.dtype)
    sums = np.zeros((2, samples, size))  # of v, and of v z
    if not out.size:
        return out, sums[1].sum(0), sums[0].sum(0)
    given = (before, 1.0), (after, 1.0), (gain, 0.0), (offset, 0.0)
    w, outer, of_z, shift = (as_vector(*each, size) for each in given)
    at = _Columns(x, groups, v)
    at.measure(eps)
    if at.change_units():
        at.measure(eps)
    _combine_products(at.sums, at.group_of, at.statistics, sums[0], sums[1])
    with np.errstate(all="ignore"):
        # components of v along 1 and along z, which J projects out
        along = (w * sums).reshape(2, samples, groups, -1).sum(3) / at.count
        along_1, along_z = at.of_channels(along)
        mean, scale, low = at.of_channels(at.statistics.swapaxes(0, 1))
        factor = scale * at.of_channels(at.unit) * outer
        slope = of_z - along_z * factor
        rest = shift - low * slope - along_1 * factor
        lines = at.lines(mean, scale * slope, rest, w * factor)
        of_v, of_vz = sums.sum(1)
    at.over_pieces(_projected, lines, at.v, out.reshape(at.flat))
    return out, of_vz, of_v


def columns_vjp(
    v: FloatArray, x: FloatArray, groups: int, weight: Vector, eps: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return J (weight v), and the sums for each channel of v z and of v."""
    if x.shape[1] == 1:
        return rows_vjp(v, x, weight, eps, about_mean=True, groups=groups)
    return _product_with_jacobian(v, x, groups, eps, before=weight)


def columns_jvp(
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
        return rows_jvp(v, x, weight, gain, offset, eps, about_mean=True, groups=groups)
    return _product_with_jacobian(v, x, groups, eps, after=weight, gain=gain, offset=offset)[0]
