"""Convolution: the direction of the kernel, the order of axes and groups, values of the padding."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...._core.pytree import tree_leaves
from ..calls import ReferenceCall
from .common import Trials, replaced, with_dout

if TYPE_CHECKING:
    from collections.abc import Callable

WEIGHT = 1  # its place among the inputs


def _other_weight(call: ReferenceCall, f: Callable[[Any], Any]) -> Any:
    """Return the results with f of the weight in its place; f undoes itself on its gradient."""
    moved = replaced(call, WEIGHT, f(call.inputs[WEIGHT]))
    if call.form != "vjp":
        return moved
    out = tree_leaves(moved.run())
    out[WEIGHT] = f(out[WEIGHT])
    return out


def _space(w: Any) -> tuple[int, ...]:
    return tuple(range(2, np.ndim(w)))


def _widths(call: ReferenceCall, axes: int) -> list[tuple[int, int]]:
    """Return the padding of all axes of the first input; so many of them are of space."""
    given = call.settings["padding"]
    sides = given if isinstance(given, tuple | list) else (given,) * axes
    return [(0, 0)] * (np.ndim(call.inputs[0]) - axes) + [(p, p) for p in sides]


def reversed_kernel(call: ReferenceCall) -> Trials:
    """Yield a convolution in the sense of signal processing."""
    if call.form == "jvp":
        return
    message = "the kernel is reversed, as in a convolution of signal processing"
    if call.form == "vjp":
        message = "it takes the kernel in the wrong direction"
    yield message, _other_weight(call, lambda w: np.flip(w, _space(w)))


def exchanged_axes(call: ReferenceCall) -> Trials:
    """Yield a weight with two of its axes exchanged, where its shape allows that."""
    shape = np.shape(call.inputs[WEIGHT])
    if call.form == "jvp":
        return
    for i, j, message in (
        (0, 1, "the axes of input and output channels of the weight are exchanged"),
        (-2, -1, "the last two axes of the kernel are exchanged"),
    ):
        if shape[i] == shape[j] > 1 and (i == 0 or len(shape) > 3):
            yield message, _other_weight(call, functools.partial(np.swapaxes, axis1=i, axis2=j))


def interleaved_groups(call: ReferenceCall) -> Trials:
    """Yield groups of every G-th output in place of neighbors."""
    groups, w = call.settings["groups"], call.inputs[WEIGHT]
    if call.form != "forward" or groups == 1:
        return
    order = np.arange(len(w)).reshape(-1, groups).T.ravel()
    axis = -1 - len(_space(w))
    without = (*call.inputs[:WEIGHT], w[order])
    y = call.with_inputs(*without).run()
    y = np.take(y, np.argsort(order), axis)
    if len(call.inputs) > 2 and call.inputs[2] is not None:
        y = y + np.reshape(call.inputs[2], (-1, *(1,) * (-axis - 1)))
    yield "the outputs of a group are interleaved with the others, not neighbors", [y]


def other_padding(call: ReferenceCall) -> Trials:
    """Yield a padding that is not zero."""
    x, w = call.inputs[:2]
    width = _widths(call, len(_space(w)))
    if call.form != "forward" or not np.any(width):
        return
    modes: tuple[tuple[Literal["edge", "reflect", "wrap"], str], ...] = (
        ("edge", "the padding repeats the values at the ends, it is not zero"),
        ("reflect", "the padding mirrors the values, it is not zero"),
    )
    for mode, message in modes:
        around = np.pad(x, width, mode)
        yield message, replaced(call, 0, around).with_options(padding=0)


def padded_at_the_start(call: ReferenceCall) -> Trials:
    settings = call.settings
    if call.form != "forward" or not np.any(settings["output_padding"]):
        return
    x, w, *rest = call.inputs
    space = tuple(range(-len(_space(w)), 0))
    y = call.with_inputs(np.flip(x, space), np.flip(w, space), *rest).run()
    yield "the output padding is at the start, not at the end", [np.flip(y, space)]


def zeros_win(call: ReferenceCall) -> Trials:
    width = _widths(call, len(call.settings["size"]))
    if call.form == "forward" and np.any(width):
        around = np.pad(call.inputs[0], width)
        yield "the padding is 0, not -inf", call.with_inputs(around).with_options(padding=0)


def other_winners(call: ReferenceCall) -> Trials:
    """Yield gradients that equal maxima share, or that go to another of them."""
    if call.form != "vjp":
        return
    dout, x = call.arguments
    size, stride = tuple(call.settings["size"]), call.settings["stride"]
    axes = len(size)
    width = _widths(call, axes)
    around = np.pad(x, width, constant_values=-np.inf)
    steps = size if stride is None else stride
    steps = tuple(steps) if isinstance(steps, tuple | list) else axes * (steps,)
    best = call.core(x, size=size, stride=steps, padding=call.settings["padding"])
    parts: list[Any] = []
    equal: list[Any] = []
    for k in np.ndindex(size):
        ends = zip(k, steps, best.shape[best.ndim - axes :], strict=True)
        part: Any = (..., *(slice(a, a + s * n, s) for a, s, n in ends))
        parts.append(part)
        equal.append((around[part] == best).astype(float))
    ties = np.array(equal)
    later = np.cumsum(ties[::-1], axis=0)[::-1] - ties
    for message, shares in (
        ("of equal maxima the last one gets the gradient, not the first", ties * (later == 0)),
        ("equal maxima share the gradient, as in JAX's amax", ties / np.maximum(ties.sum(0), 1)),
        ("all equal maxima get the whole gradient", ties),
    ):
        dx = np.zeros(np.shape(around))
        for part, share in zip(parts, shares, strict=True):
            dx[part] += dout * share
        sides = zip(width, np.shape(around), strict=True)
        yield message, [dx[tuple(slice(a, n - b) for (a, b), n in sides)]]


def padding_not_counted(call: ReferenceCall) -> Trials:
    if not np.any(call.settings["padding"]):
        return
    options = {key: call.settings[key] for key in ("size", "stride", "padding")}
    share = call.core(np.ones(np.shape(call.inputs[0])), **options)
    message = "the mean does not count the padding"
    if call.form == "vjp":
        yield message, with_dout(call, call.arguments[0] / share)
    else:
        yield message, [call.run() / share]


def reversed_in_time(call: ReferenceCall) -> Trials:
    if call.form != "jvp":
        message = "the kernel is reversed: its first weight belongs to the current step"
        yield message, _other_weight(call, lambda w: np.flip(w, 1))


def centered(call: ReferenceCall) -> Trials:
    """Yield windows that reach into the future."""
    x, w, bias, state = call.inputs
    ahead = np.shape(w)[1] // 2
    if call.form != "forward" or state is not None or not ahead:
        return
    later = np.zeros((*np.shape(x)[:-2], ahead, np.shape(x)[-1]))
    y, _ = call.with_inputs(np.concatenate([x, later], -2), w, bias, None).run()
    yield "the window is centered, so that it sees the future", [y[..., ahead:, :]]


def state_of_all_documents(call: ReferenceCall) -> Trials:
    """Yield right outputs, and a last state that goes on over the beginning of a document."""
    if call.form == "forward" and call.settings["segment_ids"] is not None:
        _, last = call.with_options(segment_ids=None).run()
        yield "the last state holds inputs of earlier documents", [call.run()[0], last]
