"""Windows of pooling: one of each channel, with nothing to multiply by."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._core.arguments import as_bool, as_integer, check_ndim, shown
from ..._core.threads import as_carray, over_rows
from .windows import ROOM, Windows, check_space, per_axis

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from ..._core.arguments import FloatArray


class Pool(NamedTuple):
    """Where windows lie in an array (..., *space), and how many there are."""

    at: Windows
    lead: tuple[int, ...]
    space: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the output."""
        return self.lead + self.outputs

    def rows(self, x: FloatArray) -> FloatArray:
        """Return an array (..., *axes) with all leading axes joined into one."""
        return x.reshape(math.prod(self.lead), *self.at.last(x.shape))

    def over_pieces(self, itemsize: int, compute: Callable[[slice], None]) -> None:
        """Call a function on ranges of rows that stay in the cache together, over threads."""
        some = max(1, ROOM // max(1, math.prod(self.around(1)) * itemsize))

        def run(start: int, stop: int) -> None:
            with np.errstate(all="ignore"):
                for begin in range(start, stop, some):
                    compute(slice(begin, min(begin + some, stop)))

        over_rows(run, math.prod(self.lead), self.cost)

    @property
    def cost(self) -> float:
        """Return the number of places that the windows of a row have."""
        return float(math.prod((*self.at.size, *self.outputs)))

    def in_three_axes(self, *arrays: FloatArray) -> tuple[Any, ...]:
        """Return arrays with one leading axis and three of space, and the windows' options."""
        axes, lead = len(self.at.size), math.prod(self.lead)
        more = 3 - axes  # axes of one place
        shapes = ((lead, *(1,) * more, *a.shape[a.ndim - axes :]) for a in arrays)
        options = zip(self.at[:4], (1, 1, 0, 1), strict=True)
        at = tuple((neutral,) * more + option for option, neutral in options)
        return *(as_carray(a).reshape(s) for a, s in zip(arrays, shapes, strict=True)), at

    def around(self, rows: int) -> tuple[int, ...]:
        """Return the shape of so many padded rows."""
        return (rows, *self.at.around(self.space))

    def members(self, *, with_padding: bool) -> npt.NDArray[np.float64]:
        """Return how many places of each window are elements, or elements and padding."""
        if with_padding and not any(self.at.beyond):
            return np.array(float(math.prod(self.at.size)))
        total = np.ones(())
        sides = zip(self.space, self.outputs, *self.at[:4], strict=True)
        for n, count, k, s, p, d in sides:
            places = s * np.arange(count)[:, None] + d * np.arange(k) - p
            low, high = (-p, n + p) if with_padding else (0, n)
            total = total[..., None] * np.sum((places >= low) & (places < high), axis=1)
        return np.asarray(total, np.float64)

    def windows(self, x: npt.NDArray[Any]) -> list[Any]:
        """Return a view for each place of a window: its elements of all windows of padded rows."""
        windows = self.at.view(x, self.outputs)
        return [windows[(slice(None), *k)] for k in np.ndindex(self.at.size)]


def _overhang(at: Windows, space: tuple[int, ...]) -> tuple[int, ...]:
    """Return how far a last window, which begins within the input, may reach beyond the padding."""
    more = []
    for n, p, e, s in zip(space, at.padding, at.extent, at.stride, strict=True):
        last = -(-(n + 2 * p - e) // s) * s  # where the last window begins, if it may begin there
        last -= s * (last >= n + p)
        more.append(max(0, last + e - n - 2 * p))
    return tuple(more)


def pool_of(
    name: str,
    x: FloatArray,
    size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    dilation: Any = 1,
) -> Pool:
    """Check the options of pooling, and the array."""
    if not isinstance(size, tuple | list) or not 1 <= len(size) <= 3:
        msg = f"Argument 'size' must be a tuple of 1 to 3 integers, not {shown(size)}."
        raise (ValueError if isinstance(size, tuple | list) else TypeError)(msg)
    axes = len(size)
    sides = tuple(as_integer(f"size[{i}]", n, least=1) for i, n in enumerate(size))
    steps = sides if stride is None else per_axis("stride", stride, axes, least=1)
    around = per_axis("padding", padding, axes, least=0)
    if any(2 * p > n for p, n in zip(around, sides, strict=True)):
        msg = f"Argument 'padding' must be at most half of the size {sides}, not {around}."
        raise ValueError(msg)
    gaps = per_axis("dilation", dilation, axes, least=1)
    check_ndim(name, x, axes)
    at = Windows(sides, steps, around, gaps)
    check_space(name, x, at)
    space = at.last(x.shape)
    if as_bool("ceil_mode", ceil_mode):
        at = at._replace(beyond=_overhang(at, space))
    pool = Pool(at, x.shape[: x.ndim - axes], space, at.outputs(space))
    if max(gaps) > 1 and not np.all(pool.members(with_padding=False)):
        msg = f"Argument 'dilation' must leave an element in every window, not be {gaps}."
        raise ValueError(msg)
    return pool
