"""Channels in groups: the axes of convolutions and of their transposes, checked and split."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._core.arguments import (
    as_integer,
    check_multiple,
    check_ndim,
    check_shape,
    wrong_shape,
)
from .windows import Windows, per_axis

if TYPE_CHECKING:
    from ..._core.arguments import FloatArray


class Layout(NamedTuple):
    """Where the windows lie, in how many groups the channels are, and the batch axes."""

    at: Windows
    groups: int
    batch: tuple[int, ...]

    def image(self, x: FloatArray) -> FloatArray:
        """Return (N, G, C, *space) for an array (..., G C, *space)."""
        lead = x.ndim - len(self.at.size)
        channels = x.shape[lead - 1] // self.groups
        return x.reshape(math.prod(self.batch), self.groups, channels, *x.shape[lead:])

    def kernel(self, w: FloatArray) -> FloatArray:
        """Return (G, O, C, *size) for a weight (G O, C, *size)."""
        return w.reshape(self.groups, len(w) // self.groups, *w.shape[1:])

    def flat(self, y: FloatArray) -> FloatArray:
        """Return (..., G C, *space) for an array (N, G, C, *space)."""
        return y.reshape(*self.batch, y.shape[1] * y.shape[2], *y.shape[3:])


def layout_of(
    names: tuple[str, ...],
    arrays: list[FloatArray],
    options: dict[str, Any],
    *,
    transposed: bool = False,
) -> Layout:
    """Check input, weight and, if there is one, bias; the input is (..., C, *space)."""
    x, w, *rest = arrays
    axes = w.ndim - 2
    if not 1 <= axes <= 3 or 0 in w.shape[2:]:
        channels = "in, out / groups" if transposed else "out, in / groups"
        wrong_shape(names[1], w, f"({channels}, *kernel) with 1 to 3 axes of at least 1")
    check_ndim(names[0], x, 1 + axes)
    groups = as_integer("groups", options["groups"], least=1)
    least = {"stride": 1, "padding": 0, "dilation": 1}
    given = {key: per_axis(key, options[key], axes, least=n) for key, n in least.items()}
    check_multiple(names[1], "a first axis", len(w), groups)
    first, second = len(w), w.shape[1] * groups
    channels_in, channels_out = (first, second) if transposed else (second, first)
    if x.shape[-axes - 1] != channels_in:
        wrong_shape(names[0], x, f"(..., {channels_in}, *space)")
    if rest:
        check_shape(names[2], rest[0], (channels_out,))
    return Layout(Windows(w.shape[2:], **given), groups, x.shape[: -axes - 1])


def spaced(bias: FloatArray, at: Windows) -> FloatArray:
    """Return a bias that broadcasts over the axes of space."""
    return bias.reshape(-1, *(1,) * len(at.size))
