"""
The arguments of attention, checked and reshaped for the flash kernels. Heads and batch axes become
one axis. For keys it has all heads of the first entry of the batch, then all heads of the second.
Queries are ordered by position within a group, then by batch entry and key head, so that query head
h uses key head h % len(keys). Mask and bias are not expanded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Required, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from ..._core.arguments import (
    MAX_OFFSET,
    FloatArray,
    FloatDType,
    as_array,
    as_floats,
    as_integer,
    as_integers,
    as_mask,
    as_number,
    check_constant,
    check_fits,
    check_flags,
    check_given,
    check_multiple,
    check_ndim,
    check_pattern,
    check_shape,
    entries,
    present,
    result,
    shown,
)
from ..._core.broadcasting import unbroadcast
from ..._core.threads import as_carray
from . import flash
from .flash import Matrices, TileSpec


class ScoreOptions(TypedDict, total=False):
    """Options that mask, bias or change the scores or the weights."""

    mask: npt.ArrayLike | None
    bias: npt.ArrayLike | None
    is_causal: bool
    window: Any
    softcap: float | None
    sink: npt.ArrayLike | None
    dropout: npt.ArrayLike | None


class AttentionOptions(ScoreOptions, total=False):
    """All options of an attention of queries, keys and values; `Attention` checks them."""

    q_offset: int
    scale: npt.ArrayLike | None
    indices: npt.ArrayLike | None


class TangentOptions(ScoreOptions, total=False):
    """The same, and the tangents of arguments that have one."""

    q_offset: int
    dbias: npt.ArrayLike | None
    dsink: npt.ArrayLike | None


class HeadOptions(ScoreOptions, total=False):
    """The same, and how heads are split and rotated."""

    num_heads: Required[int]
    num_kv_heads: int | None
    rope: tuple[npt.ArrayLike, npt.ArrayLike] | None
    rope_interleaved: bool
    scale: float | None
    norm_eps: float
    norm_offset: float
    norm_after_rope: bool
    clip_qkv: float | None


class TangentHeadOptions(HeadOptions, TangentOptions, total=False):
    """Both."""


def as_window(window: Any) -> tuple[int, int]:
    """Return how many keys are seen to the left and to the right, `MAX_OFFSET` for no bound."""
    if window is None:
        return MAX_OFFSET, MAX_OFFSET
    if not isinstance(window, tuple | list) or len(window) != 2:
        msg = f"Argument 'window' must be a pair (left, right) or None, not {shown(window)}."
        raise TypeError(msg)
    return as_side("window", window[0]), as_side("window", window[1])


def as_side(name: str, side: Any) -> int:
    """Return how many keys are seen to one side."""
    count = -1 if side is None else as_integer(name, side, least=-1)
    return MAX_OFFSET if count == -1 else min(count, MAX_OFFSET)


@dataclass
class Attention:
    """
    Operands and options of an attention; its methods reshape results like the arguments. `names`
    are the names of q, k and v in error messages; v may be missing. `extra` are more arrays that
    take part in the promotion of dtypes.
    """

    names: tuple[str, ...]
    arrays: tuple[npt.ArrayLike, ...]
    mask: npt.ArrayLike | None = None
    bias: npt.ArrayLike | None = None
    is_causal: bool = False
    q_offset: int = 0
    window: Any = None
    scale: npt.ArrayLike | None = None
    softcap: float | None = None
    sink: npt.ArrayLike | None = None
    extra: dict[str, npt.ArrayLike] = field(default_factory=dict)
    dropout: npt.ArrayLike | None = None
    indices: npt.ArrayLike | None = None

    dtype: FloatDType = field(init=False)
    spec: TileSpec = field(init=False)

    def __post_init__(self) -> None:
        optional = {"bias": self.bias, "sink": self.sink, **self.extra}
        check_given("dout", self.extra.get("dout", ()))
        if self.bias is not None and as_array("bias", self.bias).dtype.kind == "b":
            msg = "Argument 'bias' must be real, not bool; a boolean mask is 'mask'."
            raise TypeError(msg)
        named = present(optional)
        self.dtype, floats = as_floats(
            {**dict(zip(self.names, self.arrays, strict=True)), **named}, work=np.float32
        )
        q, k, *rest = floats[: len(self.names)]
        self.more = dict(zip(named, floats[len(self.names) :], strict=True))
        self._check_shapes(q, k, rest)
        self._check_options()
        self.bias_shape = () if self.bias is None else self.more["bias"].shape
        with np.errstate(all="ignore"):  # an infinite scale
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
        check_flags(is_causal=self.is_causal)
        self.left, self.right = as_window(self.window)
        self.right = 0 if self.is_causal else self.right
        self.offset = as_integer("q_offset", self.q_offset, least=-MAX_OFFSET, most=MAX_OFFSET)
        cap = self.softcap
        self.cap = 0.0 if cap is None else as_number("softcap", cap, above=0.0)
        self.groups = self.H // self.Hk if self.Hk else 0
        self.factor: Any = self._factor()

    def _factor(self) -> Any:
        """Return the factor of the products, a number or one for each query."""
        if self.scale is None:
            return 1.0 / math.sqrt(self.E) if self.E else 1.0
        if not isinstance(self.scale, np.ndarray | list | tuple) or not np.ndim(self.scale):
            return as_number("scale", self.scale)
        _, [factors] = as_floats({"scale": self.scale})
        check_fits("scale", factors, (*self.lead, self.T, 1), "..., H, T, 1")
        return self.queries(np.broadcast_to(factors, (*self.lead, self.T, 1)))

    def _seen(self) -> npt.NDArray[np.bool_] | None:
        """Return the mask, with the selected keys; None if all keys are seen."""
        seen = None
        if self.mask is not None:
            seen = as_mask("mask", self.mask)
            check_fits("mask", seen, (*self.lead, self.T, self.S), "..., H, T, S")
        if self.indices is None:
            return seen
        chosen = as_integers("indices", self.indices)
        check_ndim("indices", chosen, 1)
        shape = (*self.lead, self.T, chosen.shape[-1])
        check_fits("indices", chosen, shape, "..., H, T, count")
        if chosen.size and chosen.max() >= self.S:
            most = f"integers up to {self.S - 1}, or negative ones for no key"
            msg = f"Argument 'indices' must hold {most}, not {chosen.max()}."
            raise ValueError(msg)
        selected = np.zeros((*chosen.shape[:-1], self.S + 1), bool)  # the last column: none
        np.put_along_axis(selected, np.where(chosen < 0, self.S, chosen), True, -1)
        return selected[..., :-1] if seen is None else seen & selected[..., :-1]

    def _arrange(self, q: FloatArray, k: FloatArray, rest: list[FloatArray]) -> None:
        work = q.dtype
        self.q = self.queries(q) * work.type(self.factor)
        self.k = self.keys(k)
        self.v = self.keys(rest[0]) if rest else self.k[..., :0]
        self.sinks = self._of_heads(self.more.get("sink", np.asarray(-np.inf, work)))
        mask = bias = dropout = None
        if (seen := self._seen()) is not None:
            mask = self.matrices(seen)
        if self.bias is not None:
            bias = self.matrices(self.more["bias"])
        if self.dropout is not None:
            _, [factors] = as_floats({"dropout": self.dropout}, work=np.float32)
            check_fits("dropout", factors, (*self.lead, self.T, self.S), "..., H, T, S")
            dropout = self.matrices(factors.astype(work, copy=False))
        reach = self.offset, self.left, self.right
        self.spec = TileSpec(mask, bias, *reach, self.cap, dropout)

    def _of_heads(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return an option of each head of queries, broadcast to (..., H), in their order."""
        whole = np.broadcast_to(array, self.lead).reshape(*self.batch, self.Hk, self.groups)
        return np.moveaxis(whole, -1, 0).ravel()

    def matrices(self, array: npt.NDArray[Any]) -> Matrices:
        """Return a mask or bias as a few matrices."""
        array = array.reshape((1,) * (2 - array.ndim) + array.shape)
        *outer, rows, columns = array.shape
        numbers = np.arange(math.prod(outer)).reshape(outer)
        return Matrices(array.reshape(numbers.size, rows, columns), self._of_heads(numbers))

    def queries(self, array: FloatArray) -> FloatArray:
        """Return an array of the shape of the queries, the output or the scores by heads."""
        rows = array.shape[-2:]
        split = array.reshape(*self.batch, self.Hk, self.groups, *rows)
        return as_carray(np.moveaxis(split, -3, 0)).reshape(math.prod(self.lead), *rows)

    def keys(self, array: FloatArray) -> FloatArray:
        """Return an array of the shape of the keys or values by heads."""
        count = math.prod((*self.batch, self.Hk))
        return as_carray(array).reshape(count, *array.shape[-2:])

    def of_queries(self, array: FloatArray, *inner: int) -> FloatArray:
        """Return results by heads of queries in the shape of the queries."""
        split = array.reshape(self.groups, *self.batch, self.Hk, *inner)
        return self._outside(np.moveaxis(split, 0, len(self.batch) + 1), self.lead, inner)

    def of_keys(self, array: FloatArray, *inner: int) -> FloatArray:
        """Return results by heads of keys in the shape of the keys."""
        return self._outside(array, (*self.batch, self.Hk), inner)

    def _outside(self, array: FloatArray, lead: tuple[int, ...], inner: Any) -> FloatArray:
        lead = () if self.headless else lead
        return result(np.ascontiguousarray(array).reshape((*lead, *inner)), self.dtype)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output."""
        return (*(() if self.headless else self.lead), self.T, self.V)

    def attend(self) -> tuple[FloatArray, FloatArray]:
        """Return the output and the log-sum-exp of the scores, by heads."""
        return flash.attend(self.q, self.k, self.v, self.sinks, self.spec)

    def bias_gradient(self, matrices: FloatArray) -> FloatArray:
        """Return the gradient of the bias from the gradient of its matrices."""
        return result(matrices.reshape(self.bias_shape), self.dtype)

    def bias_of_scores(self, moved: FloatArray) -> FloatArray:
        """Return the gradient of the bias from the gradient of all scores (q_heads, T, S)."""
        whole = self.of_queries(moved, self.T, self.S).reshape(*self.lead, self.T, self.S)
        return result(np.array(unbroadcast(whole, self.bias_shape)), self.dtype)

    def sink_gradient(self, by_heads: FloatArray) -> FloatArray:
        """Return the gradient of the sinks from the gradients of all heads of queries."""
        whole = self.of_queries(by_heads).reshape(math.prod(self.batch), self.H)
        return result(whole.sum(0), self.dtype)


class TangentAttention(Attention):
    """An attention and `tangents` of q, k and v, `dbias` and `dsink`."""

    tangents: list[FloatArray]
    dbias: Matrices | None
    dsink: FloatArray


def jvp_arguments(
    count: int,
    primals: Any,
    tangents: Any,
    optional: dict[str, Any],
    **options: Unpack[AttentionOptions],
) -> TangentAttention:
    """Check the arguments of a jvp; `optional` are the tangents of bias and sink."""
    points = entries("primals", primals, count)
    directions = entries("tangents", tangents, count)
    extra = present(directions)
    for name, value in optional.items():
        if value is not None and options.get(name) is None:
            check_constant(f"d{name}", value)
        extra |= {} if value is None else {f"d{name}": value}
    at = TangentAttention(tuple(points), tuple(points.values()), **options, extra=extra)
    shapes = {
        name: np.shape(value) for name, value in zip(directions, points.values(), strict=True)
    }
    shapes |= {"dbias": at.bias_shape, "dsink": (at.H,)}
    for name in extra:
        check_shape(name, at.more[name], shapes[name])
    arranged = []
    for i, name in enumerate(directions):
        tangent = at.more.get(name)
        tangent = np.zeros(shapes[name], at.q.dtype) if tangent is None else tangent
        with np.errstate(all="ignore"):
            factor = at.q.dtype.type(at.factor)
            arranged.append(at.keys(tangent) if i else at.queries(tangent) * factor)
    at.tangents = arranged
    at.dbias = at.matrices(at.more["dbias"]) if "dbias" in at.more else None
    at.dsink = at._of_heads(at.more.get("dsink", np.zeros((), at.q.dtype)))
    return at
