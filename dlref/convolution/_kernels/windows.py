"""
Windows that slide along axes of space, and products with them.

The windows of an array are a view: no number is copied until BLAS needs a matrix. That matrix,
whose columns are windows (im2col), would have as many times the size of the input as a window has
places, so it is made for one block of outputs at a time and stays in the processor's cache.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..._core.arguments import MAX_OFFSET, as_integer, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import numpy.typing as npt

    from ..._core.arguments import FloatArray

#: Least and largest number of bytes of a block of columns.
ROOM, MOST = 2**20, 2**22


class Windows(NamedTuple):
    """Where windows lie: a number for each axis of space."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    beyond: tuple[int, ...] = ()  # how many more places stand after each axis than before it
    circular: bool = False  # whether the padding repeats the array, as if its axes were rings

    @property
    def after(self) -> tuple[int, ...]:
        """Return the padding after each axis."""
        more = self.beyond or (0,) * len(self.padding)
        return tuple(p + q for p, q in zip(self.padding, more, strict=True))

    @property
    def extent(self) -> tuple[int, ...]:
        """Return the distance from the first to the last place of a window, plus 1."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.size, self.dilation, strict=True))

    def outputs(self, space: tuple[int, ...]) -> tuple[int, ...]:
        """Return how many windows there are along each axis of an array."""
        sides = zip(self.around(space), self.extent, self.stride, strict=True)
        return tuple((n - e) // s + 1 for n, e, s in sides)

    def around(self, space: tuple[int, ...]) -> tuple[int, ...]:
        """Return the lengths of padded axes."""
        return tuple(n + p + q for n, p, q in zip(space, self.padding, self.after, strict=True))

    def padded(self, x: FloatArray, value: float = 0.0) -> FloatArray:
        """Return `x` with its padding, of `value` or circular; `x` itself without padding."""
        if not any(self.padding) and not any(self.after):
            return x
        lead = [(0, 0)] * (x.ndim - len(self.size))
        width = [*lead, *zip(self.padding, self.after, strict=True)]
        if self.circular:
            return np.pad(x, width, mode="wrap")
        return np.pad(x, width, constant_values=value)

    def cropped(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the adjoint of `padded`: a view without the padding, or sums around rings."""
        sides = zip(self.padding, self.after, self.last(x.shape), strict=True)
        if self.circular:
            for axis, (p, q, n) in enumerate(sides, x.ndim - len(self.size)):
                x = _turns(x, axis, p, q, n - p - q).sum(axis)
            return x
        inside: npt.NDArray[Any] = x[_all(tuple(slice(p, n - q) for p, q, n in sides))]
        return inside

    def last(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the axes of space of a shape."""
        return shape[len(shape) - len(self.size) :]

    def view(self, x: npt.NDArray[Any], count: tuple[int, ...]) -> npt.NDArray[Any]:
        """Return the windows (..., *size, *count) of a padded array (..., *space)."""
        lead = x.ndim - len(self.size)
        steps = x.strides[lead:]
        within = (n * d for n, d in zip(steps, self.dilation, strict=True))
        between = (n * s for n, s in zip(steps, self.stride, strict=True))
        return np.lib.stride_tricks.as_strided(
            x, (*x.shape[:lead], *self.size, *count), (*x.strides[:lead], *within, *between)
        )


def _turns(x: npt.NDArray[Any], axis: int, p: int, q: int, n: int) -> npt.NDArray[Any]:
    """Cut a padded axis into turns around a ring of n places: (..., turns, n, ...)."""
    width = [(0, 0)] * x.ndim
    width[axis] = -p % n, -q % n
    whole = np.pad(x, width)
    return whole.reshape(*x.shape[:axis], -1, n, *x.shape[axis + 1 :])


def _all(block: tuple[slice, ...]) -> tuple[Any, ...]:
    """Return the index of a block for all axes before those of space."""
    return (..., *block)


def per_axis(name: str, value: Any, axes: int, *, least: int) -> tuple[int, ...]:
    """Return an option that is one integer for all axes of space, or a tuple of one each."""
    if not isinstance(value, tuple | list):
        return axes * (as_integer(name, value, least=least, most=MAX_OFFSET),)
    if len(value) != axes:
        msg = f"Argument {name!r} must be an integer or a tuple of {axes}, not {shown(value)}."
        raise ValueError(msg)
    return tuple(
        as_integer(f"{name}[{i}]", entry, least=least, most=MAX_OFFSET)
        for i, entry in enumerate(value)
    )


def check_space(name: str, x: FloatArray, at: Windows) -> None:
    """Raise ValueError unless a window fits into the padded axes of space."""
    space = at.last(x.shape)
    if any(n < 1 for n in at.outputs(space)) or (at.circular and 0 in space):
        sides = zip(at.extent, at.padding, at.after, strict=True)
        least = tuple(max(int(at.circular), e - p - q) for e, p, q in sides)
        msg = f"Argument {name!r} must have axes of space of at least {least}, not {space}."
        raise ValueError(msg)


def blocks(count: tuple[int, ...], columns: int) -> Iterator[tuple[slice, ...]]:
    """Yield slices that cut axes into blocks of at most so many outputs, and at least 1."""
    steps: list[int] = []
    for n in reversed(count):
        steps.insert(0, max(1, min(n, columns)))
        columns //= steps[0]
    starts = (range(0, n, step) for n, step in zip(count, steps, strict=True))
    for corner in itertools.product(*starts):
        sides = zip(corner, steps, count, strict=True)
        yield tuple(slice(a, min(a + step, n)) for a, step, n in sides)


def _workspace(depth: int, *arrays: FloatArray) -> FloatArray:
    """
    Return room for a block of columns, a quarter of the size of the arrays within limits.

    The fewer blocks there are, the less often the threads of BLAS have to meet.
    """
    size = max(ROOM, min(MOST, sum(a.nbytes for a in arrays) // 4))
    return np.empty(max(size // arrays[0].itemsize, depth), arrays[0].dtype)


def _columns(x: FloatArray, at: Windows, count: tuple[int, ...], room: FloatArray) -> Iterator[Any]:
    """Yield blocks of outputs, and the matrices (G, C K, outputs) of the windows of x (G, C, *)."""
    windows = at.view(at.padded(x), count)
    groups, depth = x.shape[0], x.shape[1] * math.prod(at.size)
    for block in blocks(count, room.size // max(1, groups * depth)):
        part = windows[_all(block)]
        outputs = math.prod(at.last(part.shape))
        columns = room[: groups * depth * outputs]
        columns.reshape(part.shape)[...] = part
        yield _all(block), columns.reshape(groups, depth, outputs)


def correlate(
    x: FloatArray, weight: FloatArray, at: Windows, count: tuple[int, ...] | None = None
) -> FloatArray:
    """Return (N, G, O, *count) for x (N, G, C, *space) and weight (G, O, C, *size)."""
    count = at.outputs(at.last(x.shape)) if count is None else count
    groups, outputs = weight.shape[:2]
    matrix = weight.reshape(groups, outputs, weight.shape[2] * math.prod(at.size))
    out = np.empty((len(x), groups, outputs, *count), x.dtype)
    room = _workspace(groups * matrix.shape[2], x, out)
    for one, to in zip(x, out, strict=True):
        for block, columns in _columns(one, at, count, room):
            to[block] = np.matmul(matrix, columns).reshape(to[block].shape)
    return out


def spread(u: FloatArray, weight: FloatArray, at: Windows, space: tuple[int, ...]) -> FloatArray:
    """Return the adjoint of `correlate` in x, (N, G, C, *space), for u (N, G, O, *count)."""
    groups, outputs, channels = weight.shape[:3]
    depth, count = channels * math.prod(at.size), at.last(u.shape)
    matrix = weight.reshape(groups, outputs, depth).swapaxes(1, 2)
    around = np.empty((groups, channels, *at.around(space)), u.dtype)
    windows = at.view(around, count)
    out = np.empty((len(u), groups, channels, *space), u.dtype)
    room = _workspace(groups * depth, u, out)
    for one, to in zip(u, out, strict=True):
        around[...] = 0
        for block in blocks(count, room.size // max(1, groups * depth)):
            part = one[_all(block)]
            shape = at.last(part.shape)
            terms = room[: groups * depth * math.prod(shape)].reshape(
                groups, depth, math.prod(shape)
            )
            np.matmul(matrix, part.reshape(groups, outputs, math.prod(shape)), out=terms)
            terms = terms.reshape(groups, channels, *at.size, *shape)
            for k in np.ndindex(at.size):
                windows[(slice(None), slice(None), *k, *block)] += terms[:, :, *k]
        to[...] = at.cropped(around)
    return out


def weight_grad(u: FloatArray, x: FloatArray, at: Windows) -> FloatArray:
    """Return the adjoint of `correlate` in its weight, (G, O, C, *size)."""
    groups, outputs, channels = *u.shape[1:3], x.shape[2]
    count, depth = at.last(u.shape), channels * math.prod(at.size)
    out = np.zeros((groups, outputs, depth), u.dtype)
    room = _workspace(groups * depth, u, x)
    for one, of in zip(u, x, strict=True):
        for block, columns in _columns(of, at, count, room):
            part = one[block].reshape(groups, outputs, columns.shape[2])
            out += np.matmul(part, columns.swapaxes(1, 2))
    return out.reshape(groups, outputs, channels, *at.size)
