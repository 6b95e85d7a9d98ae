"""
Convolutions as products with the matrix whose columns are windows (im2col).

That matrix would have as many times the size of the input as a window has places.  So it is made
for a block of outputs at a time, in the layout that a product of matrices reads
(`dlref._math.gemm`), and stays in the processor's cache.  Threads share images and blocks, or rows
of the result: no sum is split.

**Planes.** A row of the matrix has what one place of the windows sees as they slide.  For a stride
of 1 and one axis these are neighbors in memory.  For a stride of s, an image is first split into
planes of every s-th place, with its padding, and they are neighbors in one of these.  With two
axes a row goes on in the next line of the plane, over gaps where no window begins; the products
there are thrown away, which is less work than to copy line by line.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._core.jit import inline_fma, kernel
from ..._core.threads import as_carray, over_rows
from ..._math.elementary import add_multiple
from ..._math.gemm import multiply
from ..._math.gemm_tiles import WIDTH_BYTES
from ..._math.softmax_rows import sum_of_products

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from ..._core.arguments import FloatArray
    from .windows import Windows

    IntArray = npt.NDArray[np.int64]
    Sides = tuple[int, int, int]

ROOM = 2**18  #: bytes of the windows of a block
AT_ONCE = 2**23  #: bytes of the planes of images that are split at a time
OUTPUTS = 256  #: in a block in which windows are rows
FEW = 4  #: output channels of a group, for which tiles of a product would be mostly padding
COPY, COST = 1 / 4, 1 / 64  #: nanoseconds of a number that is copied, and of a multiplication


@inline_fma
def _place(offsets: IntArray, row: int) -> tuple[int, int]:
    """Return the channel of a row of the matrix, and where in its planes the first output is."""
    return row // offsets.size, offsets[row % offsets.size]


@kernel
def _copy_windows(
    planes: FloatArray,
    offsets: IntArray,
    row: int,
    end_row: int,
    first: int,
    end: int,
    panels: FloatArray,
) -> None:
    """
    Write windows of an image (C, places) as panels (P, R, W) of a matrix.

    The rows are places of the windows, counted over the channels, from `row` to `end_row`; the
    columns are outputs from `first` to `end`, with zeros to the end of the last panel.
    """
    width = panels.shape[2]
    for r in range(end_row - row):
        c, begin = _place(offsets, row + r)
        line = planes[c, begin + first : begin + end]
        for p in range(-((first - end) // width)):
            part, to = line[p * width : (p + 1) * width], panels[p, r]
            for i in range(part.size):
                to[i] = part[i]
            for i in range(part.size, width):
                to[i] = 0.0


@kernel
def _copy_lines(
    wide: FloatArray, first: int, end: int, lines: tuple[Sides, Sides], out: FloatArray
) -> None:
    """Copy products (O, outputs) to (O, T), without the gaps."""
    (m0, m1, m2), (_, h1, h2) = lines
    t = first
    while t < end:
        t0, t1, t2 = t // (h1 * h2), t // h2 % h1, t % h2
        inside = min(m2 - t2, end - t) if t1 < m1 and t0 < m0 else 0
        to = (t0 * m1 + t1) * m2 + t2
        for o in range(len(out) if inside > 0 else 0):
            line, part = out[o, to : to + inside], wide[o, t - first :]
            for i in range(line.size):
                line[i] = part[i]
        t += h2 - t2


@kernel
def _clear_gaps(columns: FloatArray, first: int, end: int, lines: tuple[Sides, Sides]) -> None:
    """Write 0 over the gaps of a matrix (R, outputs), in which a NaN would spread."""
    (_, m1, m2), (_, h1, h2) = lines
    t = first
    while t < end:
        t1, t2 = t // h2 % h1, t % h2
        gap = t + max(0, m2 - t2) if t1 < m1 else t
        following = min(end, t - t2 + h2)
        for r in range(len(columns) if gap < following else 0):
            for i in range(gap - first, following - first):
                columns[r, i] = 0.0
        t += h2 - t2


@kernel
def _correlate(
    start: int,
    stop: int,
    planes: FloatArray,
    weight: FloatArray,
    offsets: IntArray,
    lines: tuple[Sides, Sides],
    total: int,
    out: FloatArray,
    panels: FloatArray,
    wide: FloatArray,
    last: FloatArray,
) -> None:
    """Write blocks of (N, G, O, T) for images (N, G, C, places) and a weight (G, O, C K)."""
    groups, depth, size, width = out.shape[1], weight.shape[2], wide.shape[1], panels.shape[2]
    blocks = -(-total // size)
    for r in range(start, stop):
        n, g, first = r // blocks // groups, r // blocks % groups, r % blocks * size
        end = min(first + size, total)
        wide[:] = 0.0
        if len(wide) < FEW:
            for row in range(depth):
                c, begin = _place(offsets, row)
                line = planes[n, g, c, begin + first : begin + end]
                for o in range(len(wide)):
                    add_multiple(weight[g, o, row], line, wide[o, : end - first])
        else:
            _copy_windows(planes[n, g], offsets, 0, depth, first, end, panels)
            used = panels[: -((first - end) // width), :depth]
            multiply(weight[g, :, :depth], used, wide[:, : end - first], last)
        _copy_lines(wide, first, end, lines, out[n, g])


@kernel
def _add_few_terms(
    u: FloatArray,
    weight: FloatArray,
    offsets: IntArray,
    rows: tuple[int, int],
    lines: tuple[Sides, Sides],
    planes: FloatArray,
) -> None:
    """Add the product of rows of a weight (C K, O) with u (O, places) to an image (C, places)."""
    (m0, m1, m2), (_, h1, h2) = lines
    for row in range(rows[0], rows[1]):
        c, begin = _place(offsets, row)
        for line in range(m0 * m1):
            t = (line // m1 * h1 + line % m1) * h2
            to = planes[c, begin + t : begin + t + m2]
            for o in range(len(u)):
                add_multiple(weight[row, o], u[o, t : t + m2], to)


@kernel
def _spread(
    start: int,
    stop: int,
    u: FloatArray,
    weight: FloatArray,
    offsets: IntArray,
    lines: tuple[Sides, Sides],
    total: int,
    planes: FloatArray,
    panels: FloatArray,
    terms: FloatArray,
    last: FloatArray,
) -> None:
    """Write channels of (N, G, C, places) for u (N, G, O, places) and a weight (G, C K, O)."""
    groups, channels, outputs = planes.shape[1], planes.shape[2], u.shape[2]
    size, width, some = terms.shape[1], panels.shape[2], len(terms)
    r = start
    while r < stop:  # channels of one image and group
        n, g, c = r // channels // groups, r // channels % groups, r % channels
        end_channel = min(channels, c + stop - r)
        rows = c * offsets.size, end_channel * offsets.size
        planes[n, g, c:end_channel] = 0.0
        r += end_channel - c
        if outputs < FEW:
            _add_few_terms(u[n, g], weight[g], offsets, rows, lines, planes[n, g])
            continue
        for first in range(0, total, size):
            end = min(first + size, total)
            _copy_windows(u[n, g], offsets[:1], 0, outputs, first, end, panels)
            used = panels[: -((first - end) // width), :outputs]
            for some_rows in range(rows[0], rows[1], some):
                part = weight[g, some_rows : min(some_rows + some, rows[1]), :outputs]
                to = terms[: len(part), : end - first]
                to[:] = 0.0
                multiply(part, used, to, last)
                _clear_gaps(to, first, end, lines)
                for row in range(len(part)):
                    c, begin = _place(offsets, some_rows + row)
                    add_multiple(1.0, terms[row], planes[n, g, c, begin + first : begin + end])


@kernel
def _add_few_products(
    u: FloatArray,
    planes: FloatArray,
    offsets: IntArray,
    rows: tuple[int, int],
    lines: tuple[Sides, Sides],
    out: FloatArray,
) -> None:
    """Add products of windows of an image (C, places) with u (O, places) to rows of (C K, O)."""
    (m0, m1, m2), (_, h1, h2) = lines
    for row in range(rows[0], rows[1]):
        c, begin = _place(offsets, row)
        for o in range(len(u)):
            total = np.float64(0.0)
            for line in range(m0 * m1):
                t = (line // m1 * h1 + line % m1) * h2
                total += sum_of_products(planes[c, begin + t : begin + t + m2], u[o, t : t + m2])
            out[row, o] += total


@kernel
def _transpose(u: FloatArray, first: int, end: int, panels: FloatArray) -> None:
    """Write u (O, places) from first to end as panels (P, places, W) of its transpose."""
    panels[:] = 0.0
    for o in range(len(u)):
        line, p, w = u[o, first:end], o // panels.shape[2], o % panels.shape[2]
        for t in range(line.size):
            panels[p, t, w] = line[t]


@kernel
def _weight_grad(
    start: int,
    stop: int,
    u: FloatArray,
    planes: FloatArray,
    offsets: IntArray,
    lines: tuple[Sides, Sides],
    total: int,
    out: FloatArray,
    panels: FloatArray,
    columns: FloatArray,
    last: FloatArray,
) -> None:
    """Add to rows of (G, C K, O), for u (N, G, O, places) and images (N, G, C, places)."""
    (depth, outputs), size, some = out.shape[1:], columns.shape[2], columns.shape[1]
    r = start
    while r < stop:  # rows of one group
        g, begin = r // depth, r % depth
        end_row = min(depth, begin + stop - r)
        r += end_row - begin
        for n in range(len(u)):
            if outputs < FEW:
                rows = begin, end_row
                _add_few_products(u[n, g], planes[n, g], offsets, rows, lines, out[g])
                continue
            for first in range(0, total, size):
                end = min(first + size, total)
                _transpose(u[n, g], first, end, panels)
                for row in range(begin, end_row, some):
                    to = out[g, row : min(row + some, end_row), :outputs]
                    last_row = row + len(to)
                    _copy_windows(planes[n, g], offsets, row, last_row, first, end, columns)
                    left = columns[0, : len(to), : end - first]
                    _clear_gaps(left, first, end, lines)
                    multiply(left, panels[:, : end - first], to, last)


class _Planes(NamedTuple):
    """How images (..., n0, n1, n2) are split into planes (..., phase, h0, h1, h2)."""

    size: Sides
    stride: Sides
    padding: Sides
    dilation: Sides
    windows: Sides  # how many
    space: Sides

    @property
    def sides(self) -> Sides:
        """Return the lengths of a plane's axes."""
        steps = zip(self.size, self.stride, self.dilation, self.windows, strict=True)
        h0, h1, h2 = (m + (k - 1) * d // s for k, s, d, m in steps)
        return h0, h1, h2

    @property
    def total(self) -> int:
        """Return how far the windows' beginnings reach in a plane."""
        (m0, m1, m2), (_, h1, h2) = self.windows, self.sides
        return ((m0 - 1) * h1 + m1 - 1) * h2 + m2

    def _phases(self) -> Iterator[tuple[Any, Any]]:
        """Yield where each phase is in the planes, and where in the image."""
        for phase in itertools.product(*map(range, self.stride)):
            inner, outer = [], []
            for r, s, p, n, h in zip(
                phase, self.stride, self.padding, self.space, self.sides, strict=True
            ):
                low, high = max(0, -((r - p) // s)), min(h, (n - 1 + p - r) // s + 1)
                inner.append(slice(low, max(low, high)))
                outer.append(slice(low * s + r - p, max(low, high) * s + r - p, s))
            yield (..., *phase, *inner), (..., *outer)

    def blocks(self, images: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Yield some images (N, G, C, *space) and room for their planes, (some, G, C, places)."""
        places = math.prod(self.stride + self.sides)
        size = math.prod(images.shape[1:3]) * places * images.itemsize
        some = min(len(images), max(1, AT_ONCE // max(1, size)))
        room = np.empty((some, *images.shape[1:3], places), images.dtype)
        for n in range(0, len(images), max(1, some)):
            yield slice(n, n + some), room[: len(images) - n]

    def split(self, images: FloatArray, planes: FloatArray) -> None:
        """Write the planes of images, zero where they reach beyond them."""
        self._copy(lambda image, plane: (plane, image), images, planes)

    def join(self, planes: FloatArray, images: FloatArray) -> None:
        """Write the images that have these planes, zero where no window reaches."""
        self._copy(lambda image, plane: (image, plane), images, planes)

    def _copy(self, to_from: Callable[..., Any], images: FloatArray, planes: FloatArray) -> None:
        count = math.prod(images.shape[:3])
        axes = self.space, self.stride + self.sides
        pair = [a.reshape(count, *b) for a, b in zip((images, planes), axes, strict=True)]

        def copy(start: int, stop: int) -> None:
            image, plane = (a[start:stop] for a in pair)
            to_from(image, plane)[0][:] = 0.0
            for inner, outer in self._phases():
                to, part = to_from(image[outer], plane[inner])
                to[:] = part

        over_rows(copy, count, COPY * math.prod(self.space))

    def widened(self, u: FloatArray) -> FloatArray:
        """Return u (N, G, O, *count) where windows begin in a plane, with zeros between."""
        (_, h1, h2), (m0, m1, m2) = self.sides, self.windows
        if (h1, h2) == (m1, m2):
            return as_carray(u).reshape(*u.shape[:3], m0 * m1 * m2)
        wide = np.zeros((*u.shape[:3], m0, h1, h2), u.dtype)
        wide[..., :m1, :m2] = u.reshape(*u.shape[:3], *self.windows)
        return wide.reshape(*u.shape[:3], m0 * h1 * h2)


def _planes_of(at: Windows, space: tuple[int, ...], count: tuple[int, ...]) -> _Planes:
    """Return the planes along three axes; an axis that is missing has length 1."""
    more = 3 - len(count)

    def three(option: tuple[int, ...], neutral: int = 1) -> Any:
        return (neutral,) * more + option

    padding = three(at.padding, 0)
    return _Planes(
        three(at.size), three(at.stride), padding, three(at.dilation), three(count), three(space)
    )


@lru_cache(maxsize=64)
def _offsets(planes: _Planes) -> IntArray:
    """Return where each place of the first window is, among all planes."""
    places = [np.arange(k) * d for k, d in zip(planes.size, planes.dilation, strict=True)]
    phases = np.ix_(*(j % s for j, s in zip(places, planes.stride, strict=True)))
    shifts = np.ix_(*(j // s for j, s in zip(places, planes.stride, strict=True)))
    numbers = np.broadcast_arrays(*phases, *shifts)
    return np.ravel_multi_index(numbers, planes.stride + planes.sides).ravel()


def _where(planes: _Planes) -> tuple[IntArray, tuple[Sides, Sides], int]:
    """Return what kernels have to know of the planes."""
    return _offsets(planes), (planes.windows, planes.sides), planes.total


def _run(
    function: Callable[..., None],
    rows: int,
    cost: float,
    *arguments: Any,
    rooms: tuple[tuple[int, ...], ...],
    even: bool = False,
) -> None:
    """Call a kernel on ranges of rows, each time with workspaces of these shapes."""
    dtype = arguments[0].dtype

    def call(start: int, stop: int, *arguments: Any) -> None:
        *some, (height, width) = rooms
        # the last one is of the kind of the parts of a result
        last = np.empty((height, width + 1), dtype)[:, :width]
        function(start, stop, *arguments, *(np.empty(room, dtype) for room in some), last)

    over_rows(call, rows, cost, *arguments, even=even)


def _panels(depth: int, total: int, itemsize: int) -> tuple[int, int, int]:
    """Return the shape of the panels of a block of at most so many columns."""
    width = WIDTH_BYTES // itemsize
    number = max(1, ROOM // (max(1, depth) * itemsize * width))
    return min(number, -(-total // width)), depth, width


def correlate(
    x: FloatArray, weight: FloatArray, at: Windows, count: tuple[int, ...] | None = None
) -> FloatArray:
    """Return (N, G, O, *count) for x (N, G, C, *space) and weight (G, O, C, *size)."""
    count = at.outputs(at.last(x.shape)) if count is None else count
    if at.circular:
        x, at = at.padded(x), at.without_padding
    planes = _planes_of(at, at.last(x.shape), count)
    groups, outputs = weight.shape[:2]
    depth, total = math.prod(weight.shape[2:]), planes.total
    panels = _panels(depth, total, x.itemsize)
    size, width = panels[0] * panels[2], panels[2]
    matrix = as_carray(weight.reshape(groups, outputs, depth))
    where = matrix, *_where(planes)
    blocks, cost = groups * -(-total // size), COST * outputs * depth * min(size, total)
    rooms = panels, (outputs, size), (outputs, width)
    out = np.empty((len(x), groups, outputs, math.prod(count)), x.dtype)
    for some, room in planes.blocks(x):
        planes.split(x[some], room)
        _run(_correlate, len(room) * blocks, cost, room, *where, out[some], rooms=rooms)
    return out.reshape(*out.shape[:3], *count)


def spread(u: FloatArray, weight: FloatArray, at: Windows, space: tuple[int, ...]) -> FloatArray:
    """Return the adjoint of `correlate` in x, (N, G, C, *space), for u (N, G, O, *count)."""
    if at.circular:
        return at.cropped(spread(u, weight, at.without_padding, at.around(space)))
    planes = _planes_of(at, space, at.last(u.shape))
    groups, outputs, channels = weight.shape[:3]
    depth, total, places = math.prod(weight.shape[2:]), planes.total, math.prod(at.size)
    panels = _panels(outputs, min(total, 2 * OUTPUTS), u.itemsize)
    size, width = panels[0] * panels[2], panels[2]
    height = min(depth, max(1, ROOM // (size * u.itemsize)))
    rooms, cost = (panels, (height, size), (height, width)), COST * places * outputs * total
    matrix = as_carray(weight.reshape(groups, outputs, depth).swapaxes(1, 2))
    where = matrix, *_where(planes)
    out = np.empty((len(u), groups, channels, *space), u.dtype)
    for some, room in planes.blocks(out):
        rows, part = len(room) * groups * channels, planes.widened(u[some])
        _run(_spread, rows, cost, part, *where, room, rooms=rooms, even=True)
        planes.join(room, out[some])
    return out


def weight_grad(u: FloatArray, x: FloatArray, at: Windows) -> FloatArray:
    """Return the adjoint of `correlate` in its weight, (G, O, C, *size)."""
    if at.circular:
        x, at = at.padded(x), at.without_padding
    planes = _planes_of(at, at.last(x.shape), at.last(u.shape))
    groups, outputs, channels = *u.shape[1:3], x.shape[2]
    depth, total = channels * math.prod(at.size), planes.total
    width, size = WIDTH_BYTES // x.itemsize, min(OUTPUTS, total)
    height = min(depth, max(1, ROOM // (size * x.itemsize)))
    rooms = (-(-outputs // width), size, width), (1, height, size), (height, width)
    out = np.zeros((groups, depth, outputs), u.dtype)
    for some, room in planes.blocks(x):
        planes.split(x[some], room)
        arguments = planes.widened(u[some]), room, *_where(planes), out
        cost = COST * outputs * total * len(room)
        _run(_weight_grad, groups * depth, cost, *arguments, rooms=rooms, even=True)
    return out.swapaxes(1, 2).reshape(groups, outputs, channels, *at.size)
