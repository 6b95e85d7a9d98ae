"""
The arguments of attention: checked, and brought into the shapes that `dlref._flash` takes.

Heads and batch axes become one axis of units; several units may share keys and values.  Mask and
bias stay as small as they are: a flat array, the place where that of each unit starts, and
the steps from one query and from one key to the next, 0 where the axis was stretched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _flash
from ._broadcast import unbroadcast
from ._flash import FAR, Given
from ._parallel import ready
from ._validate import (
    FloatArray,
    FloatDType,
    as_array,
    as_floats,
    as_integer,
    as_mask,
    as_number,
    check_constant,
    check_fits,
    check_multiple,
    check_ndim,
    check_pattern,
    check_shape,
    choice,
    entries,
    result,
)

__all__ = ["Attention", "MovingAttention", "as_window", "moving"]


def as_window(window: Any) -> tuple[int, int]:
    """Return how many keys are seen to the left and to the right, `FAR` for no bound."""
    if window is None:
        return FAR, FAR
    if not isinstance(window, tuple | list) or len(window) != 2:
        msg = f"Argument 'window' must be a pair (left, right) or None, not {window!r}."
        raise TypeError(msg)
    sides = [
        -1 if side is None else as_integer(f"window[{i}]", side, least=-1)
        for i, side in enumerate(window)
    ]
    left, right = (FAR if side == -1 else side for side in sides)
    return left, right


def _steps(array: Any, lead: tuple[int, ...], grid: tuple[int, int]) -> tuple[Any, ...]:
    """Return a flat array, where each unit starts in it, and the steps along both grid axes."""
    array = array.reshape((1,) * (2 - array.ndim) + array.shape)
    *outer, rows, columns = array.shape
    places = np.arange(math.prod(outer), dtype=np.int64).reshape(outer) * (rows * columns)
    at = np.ascontiguousarray(np.broadcast_to(places, lead)).ravel()
    row = columns if rows == grid[0] and rows > 1 else 0
    column = 1 if columns == grid[1] and columns > 1 else 0
    return ready(array).ravel(), ready(at), row, column


@dataclass
class Attention:
    """
    What an attention computes with; the methods bring results back into the shapes of arguments.

    `names` are those of q, k and v in error messages; v may be missing.  `extra` are more
    arrays that take part in the promotion of dtypes.
    """

    names: tuple[str, ...]
    arrays: tuple[npt.ArrayLike, ...]
    mask: npt.ArrayLike | None = None
    bias: npt.ArrayLike | None = None
    is_causal: bool = False
    q_offset: int = 0
    window: Any = None
    scale: float | None = None
    softcap: float | None = None
    sink: npt.ArrayLike | None = None
    extra: dict[str, npt.ArrayLike] = field(default_factory=dict)

    dtype: FloatDType = field(init=False)
    given: Given = field(init=False)

    def __post_init__(self) -> None:
        optional = {"bias": self.bias, "sink": self.sink, **self.extra}
        if self.bias is not None and as_array("bias", self.bias).dtype.kind == "b":
            msg = "Argument 'bias' must be real, not bool; a boolean mask is 'mask'."
            raise TypeError(msg)
        named = {n: a for n, a in optional.items() if a is not None}
        self.dtype, found = as_floats(
            {**dict(zip(self.names, self.arrays, strict=True)), **named}, work=np.float32
        )
        q, k, *rest = found[: len(self.names)]
        self.more = dict(zip(named, found[len(self.names) :], strict=True))
        self._check_shapes(q, k, rest)
        self._check_options()
        self.bias_shape = () if self.bias is None else self.more["bias"].shape
        self._arrange(q, k, rest)

    def _check_shapes(self, q: FloatArray, k: FloatArray, rest: list[FloatArray]) -> None:
        check_ndim(self.names[0], q, 2)
        *lead, T, E = q.shape
        batch, heads = (*lead[:-1],), ("Hk",) * (q.ndim > 2)
        check_pattern(self.names[1], k, (*batch, *heads, "S", E))
        if rest:
            check_pattern(self.names[2], rest[0], (*k.shape[:-1], "V"))
        self.headless = q.ndim == 2
        self.batch = batch
        self.H = 1 if self.headless else q.shape[-3]
        self.Hk = 1 if self.headless else k.shape[-3]
        self.T, self.S, self.E = T, k.shape[-2], E
        self.V = rest[0].shape[-1] if rest else 0
        check_multiple(self.names[0], "a number of heads", self.H, self.Hk)
        self.lead = (*batch, self.H)
        if "sink" in self.more:
            check_shape("sink", self.more["sink"], (self.H,))
        if self.bias is not None:
            check_fits("bias", self.more["bias"], (*self.lead, T, self.S), "..., H, T, S")

    def _check_options(self) -> None:
        choice("is_causal", self.is_causal, (True, False))
        self.left, self.right = as_window(self.window)
        self.right = 0 if self.is_causal else self.right
        self.offset = as_integer("q_offset", self.q_offset, least=-FAR)
        cap = self.softcap
        self.cap = 0.0 if cap is None else as_number("softcap", cap, above=0.0)
        if self.scale is None:
            self.factor = 1.0 / math.sqrt(self.E) if self.E else 1.0
        else:
            self.factor = as_number("scale", self.scale)

    def _arrange(self, q: FloatArray, k: FloatArray, rest: list[FloatArray]) -> None:
        work = q.dtype
        self.units, self.pairs = math.prod(self.lead), math.prod((*self.batch, self.Hk))
        self.q = self.queries(q) * work.type(self.factor)
        self.k = self.shared(k)
        self.v = self.shared(rest[0]) if rest else np.zeros((self.pairs, self.S, 1), work)
        sink = np.broadcast_to(self.more.get("sink", work.type(-np.inf)), self.lead)
        self.sinks = np.array(sink).ravel()
        grid = (self.T, self.S)
        nowhere = np.zeros(1, np.int64)
        mask: tuple[Any, ...] = np.empty(0, np.bool_), nowhere, 0, 0
        bias: tuple[Any, ...] = np.empty(0, work), nowhere, 0, 0
        if self.mask is not None:
            seen = as_mask("mask", self.mask)
            check_fits("mask", seen, (*self.lead, *grid), "..., H, T, S")
            mask = _steps(seen, self.lead, grid)
        if self.bias is not None:
            bias = _steps(self.more["bias"], self.lead, grid)
        rows, columns = _flash.QUERIES, _flash.KEYS
        if min(self.left, self.right) - self.S < 0:  # smaller tiles are cut by the edge less often
            rows, columns = max(1, rows // (2 if rows < self.T else 4)), max(1, columns // 2)
        group = self.H // self.Hk if self.Hk else 1
        rest_of_it: Any = self.offset, self.left, self.right, group, self.cap, False, rows, columns
        self.given = Given._make((*mask, *bias, *rest_of_it))

    def queries(self, array: FloatArray) -> FloatArray:
        """Return an array of the shape of the queries (or of the output) by units."""
        return self._by_units(array, self.units)

    def shared(self, array: FloatArray) -> FloatArray:
        """Return an array of the shape of the keys (or values) by pairs of key and value."""
        return self._by_units(array, self.pairs)

    def _by_units(self, array: FloatArray, count: int) -> FloatArray:
        width = array.shape[-1]
        if width == 0:  # BLAS knows no products over nothing
            array = np.zeros((*array.shape[:-1], 1), array.dtype)
        flat: FloatArray = ready(array).reshape(count, array.shape[-2], max(width, 1))
        return flat

    def of_queries(self, array: FloatArray, *inner: int) -> FloatArray:
        """Return results by units in the shape of the queries, narrowed to `inner`."""
        return self._outside(array, self.lead, inner)

    def of_pairs(self, array: FloatArray, *inner: int) -> FloatArray:
        """Return results by pairs in the shape of the keys."""
        return self._outside(array, (*self.batch, self.Hk), inner)

    def _outside(self, array: FloatArray, lead: tuple[int, ...], inner: Any) -> FloatArray:
        lead = () if self.headless else lead
        if len(inner) == 2 and array.shape[-1] != inner[-1]:
            array = array[..., : inner[-1]]
        return result(np.ascontiguousarray(array).reshape(*lead, *inner), self.dtype)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output."""
        return (*(() if self.headless else self.lead), self.T, self.V)

    def attend(self) -> tuple[FloatArray, FloatArray]:
        """Return the output and the log-sum-exp of the scores, by units."""
        return _flash.attend(self.q, self.k, self.v, self.sinks, self.given)

    def bias_gradient(self, flat: FloatArray) -> FloatArray:
        """Return the gradient of the bias from its flat one."""
        return result(flat.reshape(self.bias_shape), self.dtype)

    def bias_of_scores(self, moved: FloatArray) -> FloatArray:
        """Return the gradient of the bias from that of all scores (units, T, S)."""
        whole = moved.reshape(*self.lead, self.T, self.S)
        return result(np.array(unbroadcast(whole, self.bias_shape)), self.dtype)

    def sink_gradient(self, by_units: FloatArray) -> FloatArray:
        """Return the gradient of the sinks from those of the units."""
        flat = by_units.reshape(math.prod(self.batch), self.H)
        return result(flat.sum(0), self.dtype)


class MovingAttention(Attention):
    """An attention and the tangents of all that may vary: `moves` of q, k, v, `dbias`, `dsink`."""

    moves: list[FloatArray]
    dbias: FloatArray
    dsink: FloatArray


def moving(
    count: int, primals: Any, tangents: Any, optional: dict[str, Any], **options: Any
) -> MovingAttention:
    """Check the arguments of a jvp; `optional` are the tangents of bias and sink."""
    points = entries("primals", primals, count)
    directions = entries("tangents", tangents, count)
    extra = {name: value for name, value in directions.items() if value is not None}
    for name, value in optional.items():
        if value is not None and options.get(name) is None:
            check_constant(f"d{name}", value)
        extra |= {} if value is None else {f"d{name}": value}
    at = MovingAttention(tuple(points), tuple(points.values()), **options, extra=extra)
    shapes = {
        name: np.shape(value) for name, value in zip(directions, points.values(), strict=True)
    }
    shapes |= {"dbias": at.bias_shape, "dsink": (at.H,)}
    for name in extra:
        check_shape(name, at.more[name], shapes[name])
    arranged = []
    for i, name in enumerate(directions):
        given = at.more.get(name)
        given = np.zeros(shapes[name], at.q.dtype) if given is None else given
        arranged.append(at.shared(given) if i else at.queries(given) * at.q.dtype.type(at.factor))
    at.moves = arranged
    at.dbias = np.zeros(0, at.q.dtype)
    if optional.get("bias") is not None:
        at.dbias = ready(at.more["dbias"]).ravel()
    dsink = at.more.get("dsink", np.zeros(at.H, at.q.dtype))
    at.dsink = np.array(np.broadcast_to(dsink, at.lead)).ravel()
    return at
