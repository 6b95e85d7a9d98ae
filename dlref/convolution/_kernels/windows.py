"""
Windows that slide along axes of space.

The windows of an array are a view: no number is copied.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..._core.arguments import MAX_OFFSET, as_integer, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import numpy.typing as npt

    from ..._core.arguments import FloatArray

ROOM = 2**20  #: bytes of arrays that stay in the cache together


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

    @property
    def without_padding(self) -> Windows:
        """Return the windows of an array that has its padding."""
        return self._replace(padding=(0,) * len(self.padding), beyond=(), circular=False)

    def cropped(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the adjoint of `padded`: a view without the padding, or sums around rings."""
        sides = zip(self.padding, self.after, self.last(x.shape), strict=True)
        if self.circular:
            for axis, (p, q, n) in enumerate(sides, x.ndim - len(self.size)):
                x = _turns(x, axis, p, q, n - p - q).sum(axis)
            return x
        inside: npt.NDArray[Any] = x[
            _with_leading_axes(tuple(slice(p, n - q) for p, q, n in sides))
        ]
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
    return whole.reshape(*x.shape[:axis], whole.shape[axis] // n, n, *x.shape[axis + 1 :])


def _with_leading_axes(block: tuple[slice, ...]) -> tuple[Any, ...]:
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
