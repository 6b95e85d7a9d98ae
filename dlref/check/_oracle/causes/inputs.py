"""Inputs transposed, negated, exchanged or left out; rotations counted otherwise."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from ...._core.pytree import is_float, tree_leaves
from ..arrays import copied, lead_of
from ..calls import ReferenceCall
from .common import Trials, named, replaced

if TYPE_CHECKING:
    from collections.abc import Callable


#: Inputs that kernels forget: biases, weights, and the states that a sequence begins with.
IGNORED = ("bias", "b", "weight", "b_ih", "b_hh", "h0", "c0", "h", "c")


def other_inputs(call: ReferenceCall) -> Trials:
    """Yield the call with an input transposed, negated, left out, or two exchanged."""
    names = call.names
    arrays = [(i, a) for i, a in enumerate(call.inputs) if is_float(a)]
    for i, a in arrays:
        if np.ndim(a) == 2 and a.shape[0] == a.shape[1] and i > 0:
            message = f"{names[i]} is transposed"
            trial = replaced(call, i, a.T)
            yield message, trial
            if call.form == "vjp":
                yield message, _transposed(trial, i)
        if i > 0 and np.ndim(a) and names[i] in IGNORED:
            neutral = np.ones_like(a) if names[i] == "weight" else np.zeros_like(a)
            yield f"{names[i]} is ignored", replaced(call, i, neutral)
        if names[i] == "sin":
            yield "the rotation goes the other way", replaced(call, i, -a)
        if names[i] == "cos":
            sin = call.inputs[names.index("sin")]
            yield "cosine and sine are exchanged", named(call, cos=sin, sin=a)
    for i, value in enumerate(call.inputs):
        for key in getattr(value, "_fields", ()):
            if key.startswith("b_") and is_float(part := getattr(value, key)):
                message = f"{names[i]}.{key} is ignored"
                yield message, replaced(call, i, value._replace(**{key: np.zeros_like(part)}))
    for (i, a), (j, b) in itertools.combinations(arrays, 2):
        if np.shape(a) == np.shape(b) and (names[i], names[j]) != ("cos", "sin"):
            swapped = named(call, **{names[i]: b, names[j]: a})
            yield f"{names[i]} and {names[j]} are exchanged", swapped


def _transposed(call: ReferenceCall, i: int) -> list[Any]:
    out = tree_leaves(call.run())
    floats = [j for j, a in enumerate(call.inputs) if is_float(a)]
    place = floats.index(i)
    out[place] = np.swapaxes(out[place], -1, -2)
    return out


def _tables(call: ReferenceCall) -> list[Any]:
    """Return the cosines and the sines of a rotation."""
    return [call.inputs[call.names.index(name)] for name in ("cos", "sin")]


def _turned(call: ReferenceCall, turns: Any) -> ReferenceCall:
    return named(call, cos=turns.real, sin=turns.imag)


def other_positions(call: ReferenceCall) -> Trials:
    """Yield a rotation whose positions are counted from another number."""
    cos, sin = _tables(call)
    turns = cos + 1j * sin
    if turns.ndim < 2 or len(turns) < 2:
        return
    by = turns[..., 1:2, :] / turns[..., :1, :]  # by one position
    if np.allclose(turns[..., 1:, :], turns[..., :-1, :] * by, rtol=0, atol=1e-5):
        for message, new in (("large", turns * by), ("small", turns / by)):
            yield f"the positions of the rotation are one too {message}", _turned(call, new)
        for n in range(2, turns.shape[-2] + 1):  # a cache of so many positions
            message = f"the positions of the rotation are {n} too small: a cache is not counted"
            yield message, _turned(call, turns / by**n)


def other_bases(call: ReferenceCall) -> Trials:
    """Yield a rotation of another base, where the tables are of positions from 0 on."""
    cos, sin = _tables(call)
    pairs, place = cos.shape[-1], np.arange(cos.shape[-1])
    if cos.ndim != 2 or len(cos) < 2 or pairs < 2 or sin[1, -1] <= 0:
        return
    own = np.arctan2(sin[1, -1], cos[1, -1]) ** (-pairs / (pairs - 1))
    position = np.arange(len(cos))[:, None]
    angles = position * own ** (-place / pairs)
    if not np.allclose(cos + 1j * sin, np.exp(1j * angles), rtol=0, atol=1e-5):
        return
    for base in (1e4, 5e5, 1e6):
        if not np.isclose(base, own, rtol=1e-3):
            angles = position * base ** (-place / pairs)
            message = f"the base of the rotation is {base:.0f}, not {own:.6g}"
            yield message, named(call, cos=np.cos(angles), sin=np.sin(angles))


def rotation_signs(call: ReferenceCall) -> Trials:
    """Yield a rotation with no half negated, or both."""
    if call.form == "jvp":
        return
    trials = call, named(call, sin=-_tables(call)[1])
    right, back = (np.asarray(tree_leaves(trial.run())[0]) for trial in trials)
    place = np.arange(right.shape[-1])
    width = call.settings["rotary_dim"] or len(place)
    if call.settings["rotary_last"]:
        place -= len(place) - width
    first = place % 2 == 0 if call.settings["interleaved"] else place < width // 2
    for a, b in ((back, right), (right, back)):
        message = "both products with the sine have the same sign, where one half is negated"
        yield message, [np.where(first, a, b)]


def channels_first(call: ReferenceCall) -> Trials:
    """Yield a normalization whose channels are the second axis, as in images of PyTorch."""
    if call.form == "forward" and np.ndim(call.inputs[0]) > 2:
        moved = replaced(call, 0, np.moveaxis(call.inputs[0], 1, -1))
        message = "the channels are taken along axis 1, not the last"
        with contextlib.suppress(ValueError):  # of another number than weights or groups allow
            yield message, [np.moveaxis(moved.run(), -1, 1)]


def misread(call: ReferenceCall) -> Trials:
    """Yield arrays read as if they had no strides, then as if they had no offset."""
    message = "the strides of {} are ignored: memory is read as contiguous"
    yield from _misread(call, _from_first, message)
    message = "the storage offset of {} is ignored: memory is read from its beginning"
    yield from _misread(call, _from_beginning, message)


def _misread(call: ReferenceCall, reading: Callable[[Any], Any], message: str) -> Trials:
    """Yield arrays that are read in a wrong way, one by one and all together."""
    read = [reading(a) if isinstance(a, np.ndarray) else None for a in call.memory]
    differing = [i for i, a in enumerate(read) if a is not None]
    # a jvp of one array is given its tangent, too
    names = ["dout"] * (call.form == "vjp") + call.names + ["the tangent"] * (call.form == "jvp")
    for some in (*([i] for i in differing), *([differing] if len(differing) > 1 else [])):
        own = [read[i] if i in some else a for i, a in enumerate(call.arguments)]
        which = " and ".join(names[i] for i in some)
        yield message.format(which), replace(call, arguments=tuple(own))


def _from_beginning(a: Any) -> Any:
    """Return the numbers that a kernel without an offset reads; None if these are right."""
    lead = lead_of(a)
    if not lead or not is_float(a) or not a.size:
        return None
    given = copied(a)  # with numbers before it, as it is given
    start = given.ctypes.data - given.base.ctypes.data - lead * given.itemsize
    read = np.ndarray(given.shape, given.dtype, given.base, start, given.strides)
    return read.astype(np.float64)


def _from_first(a: Any) -> Any:
    """Return the numbers that a kernel without strides reads; None if right, or out of memory."""
    if a.flags.c_contiguous or not is_float(a):
        return None
    low, high = byte_bounds(a)
    first = a.__array_interface__["data"][0]
    if first != low or high - low < a.nbytes:
        return None
    memory = as_strided(copied(a), (a.size,), (a.itemsize,))  # with gaps of zeros, as it is given
    return memory.reshape(a.shape).astype(np.float64)
