"""Channels in groups: the axes of convolutions and of their transposes, checked and split."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._core.arguments import (
    MAX_OFFSET,
    as_integer,
    check_multiple,
    check_ndim,
    check_shape,
    choice,
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
    s, d = (per_axis(key, options[key], axes, least=1) for key in ("stride", "dilation"))
    if transposed:
        at = Windows(w.shape[2:], s, per_axis("padding", options["padding"], axes, least=0), d)
    else:
        before, after = sides_of(options["padding"], w.shape[2:], s, d)
        beyond = tuple(q - p for p, q in zip(before, after, strict=True))
        choice("padding_mode", options["padding_mode"], ("zeros", "circular"))
        circular = options["padding_mode"] == "circular"
        if circular and options["padding"] == "causal":
            msg = "Argument 'padding' must not be 'causal' if 'padding_mode' is 'circular'."
            raise ValueError(msg)
        at = Windows(w.shape[2:], s, before, d, beyond, circular)
    check_multiple(names[1], "a first axis", len(w), groups)
    first, second = len(w), w.shape[1] * groups
    channels_in, channels_out = (first, second) if transposed else (second, first)
    if x.shape[-axes - 1] != channels_in:
        wrong_shape(names[0], x, f"(..., {channels_in}, *space)")
    if rest:
        check_shape(names[2], rest[0], (channels_out,))
    return Layout(at, groups, x.shape[: -axes - 1])


def sides_of(
    padding: Any, size: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding before and after each axis of space."""
    axes = len(size)
    if isinstance(padding, str):
        choice("padding", padding, ("valid", "same", "causal"))
        total = tuple(d * (k - 1) for k, d in zip(size, dilation, strict=True))
        if padding == "same" and max(stride) > 1:
            msg = f"Argument 'stride' must be 1 for the padding 'same', not {stride}."
            raise ValueError(msg)
        before = {"valid": axes * (0,), "same": tuple(n // 2 for n in total)}.get(padding, total)
        whole = total if padding == "same" else before
        return before, tuple(n - p for n, p in zip(whole, before, strict=True))
    if not isinstance(padding, tuple | list) or len(padding) != axes:
        both = per_axis("padding", padding, axes, least=0)
        return both, both
    pairs = [
        per_axis(f"padding[{i}]", side, 2, least=0)
        if isinstance(side, tuple | list)
        else 2 * (as_integer(f"padding[{i}]", side, least=0, most=MAX_OFFSET),)
        for i, side in enumerate(padding)
    ]
    return tuple(p for p, _ in pairs), tuple(q for _, q in pairs)


def spaced(bias: FloatArray, at: Windows) -> FloatArray:
    """Return a bias that broadcasts over the axes of space."""
    return bias.reshape(-1, *(1,) * len(at.size))
