"""
What the recurrent cells share: their arguments, the order of time, and the product of each step.

A kernel walks through time with some entries of the batch, and takes all steps of them in one
call: entries do not know of each other, so that threads share them out and never wait for one
another.  Only of a single sequence of many units do they share the units, and meet at each step.
What does not wait for a state, the product of the inputs with ``w_ih``, is done for some steps at
once, enough for whole tiles, and few enough to stay in the cache.

A step multiplies few rows, the states, by a matrix that stays the same.  The general product of a
BLAS would rearrange that matrix at each step; here it is copied once into the panels of
`dlref._product`.  Any number of rows gives a row the same bits: its products are added in the
same order.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._elementary import sigmoid, tanh
from ._jit import exchanged, formula, kernel
from ._microkernel import FEW_PANELS, WIDTH_BYTES
from ._parallel import available, get_num_threads, over_phases, over_rows, ready
from ._product import column_sums, copy, multiply, product, transposed_product
from ._validate import (
    FloatArray,
    FloatDType,
    as_array,
    as_floats,
    as_integers,
    check_constant,
    check_range,
    check_shape,
    check_symbols,
    entries,
    result,
    wrong_shape,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "AT_ONCE",
    "Inputs",
    "Steps",
    "cotangents",
    "flat_product",
    "inputs",
    "moving",
    "multiply_inputs",
    "outer_products",
    "parts_of",
    "previous",
    "room",
    "room_for_panels",
    "rooms",
    "run",
    "run_parts",
    "total",
]

AT_ONCE = 32  # rows of inputs that are multiplied at once
LEAST = 30_000  # operations of a step that are worth a thread of their own, and those of
LEAST_IN_ALL = 2_500_000  # all steps
STATES = ("h", "c")
NEEDED = {"x", "w_ih", "w_hh"}  # the arguments that may not be None
Number = Any


#: tanh x = x P(x^2) / Q(x^2) to 2.1e-8 for |x| < 7, by least squares with Lawson's weights; then P4
#: was raised by 1e-13, so that the quotient passes 1 before 9, where it is cut off
P0 = np.float32(0.999999979643501)
P1 = np.float32(0.13380974452285108)
P2 = np.float32(0.0034955262612175572)
P3 = np.float32(2.0608037229253497e-05)
P4 = np.float32(1.3353290816354785e-08)
Q1 = np.float32(0.46714290120096086)
Q2 = np.float32(0.02587674942142358)
Q3 = np.float32(0.0003285532277196179)
Q4 = np.float32(7.775959757665797e-07)
ONE, HALF, FAR = np.float32(1.0), np.float32(0.5), np.float32(9.0)


@formula
def tanh_narrow(x: Number) -> Number:
    """
    Hyperbolic tangent in the arithmetic of float32, to 5 ULP (7 where products are rounded).

    States go through many steps in float32, each with rounding errors of its own, so that more
    digits of a gate would be lost at once.  No coefficient is negative: nothing cancels.
    """
    x = np.float32(x)
    x = FAR if x > FAR else x  # NaN stays
    x = -FAR if x < -FAR else x
    z = x * x
    p = P0 + z * (P1 + z * (P2 + z * (P3 + z * P4)))
    q = ONE + z * (Q1 + z * (Q2 + z * (Q3 + z * Q4)))
    t = x * p / q
    t = ONE if t > ONE else t
    return -ONE if t < -ONE else t


@formula
def sigmoid_narrow(x: Number) -> Number:
    """Sigmoid in the arithmetic of float32, with an error of at most 2e-7."""
    return HALF + HALF * tanh_narrow(HALF * np.float32(x))


@cache
def narrow(loop: Callable[..., None]) -> Callable[..., None]:
    """Return the copy of a kernel for float32."""
    return exchanged(loop, {tanh: tanh_narrow, sigmoid: sigmoid_narrow}, "narrow")


@kernel
def rooms(rows: int, x: FloatArray, columns: int) -> tuple[int, FloatArray, FloatArray]:
    """Return how many steps' inputs are multiplied at once, and room for them and the products."""
    steps = max(1, AT_ONCE // max(rows, 1))
    xs = np.empty((steps * rows, x.shape[2]), x.dtype)
    return steps, xs, np.empty((steps * rows, columns), x.dtype)


@kernel
def multiply_inputs(
    x: FloatArray, w: FloatArray, bias: FloatArray, xs: FloatArray, zs: FloatArray
) -> None:
    """Multiply x (R, T, D) by panels and add the bias: zs (T R, N), all entries of a step first."""
    rows, steps = x.shape[:2]
    for t in range(steps):
        for r in range(rows):
            copy(x[r, t], xs[t * rows + r])
            copy(bias, zs[t * rows + r])
    multiply(xs[: steps * rows], w, zs[: steps * rows])


def _fitting(loop: Callable[..., None], arguments: tuple[Any, ...]) -> Callable[..., None]:
    """Return a kernel, or its copy for float32."""
    short = any(getattr(a, "dtype", None) == np.float32 for a in arguments)
    return narrow(loop) if short else loop


def run(loop: Callable[..., None], operations: int, batch: int, *arguments: Any) -> None:
    """Call a kernel on all entries of a batch; `operations` are those of one."""
    over_rows(_fitting(loop, arguments), batch, operations / 20, *arguments, even=True)


def run_parts(
    loop: Callable[..., None], operations: int, phases: int, parts: int, *arguments: Any
) -> None:
    """Call a kernel on all parts of the units of a single sequence, in phases."""
    over_phases(_fitting(loop, arguments), phases, parts, operations / 20 / parts, *arguments)


def parts_of(a: Inputs, columns: int, operations: int) -> int:
    """
    Return into how many parts the units of a single sequence are cut, one a thread.

    `columns` are those of the product of each step.  A part has panels enough for a fast product,
    and work worth the half of a microsecond that threads take to meet.
    """
    steps, width = a.x.shape[1], WIDTH_BYTES // a.x.itemsize
    if math.prod(a.batch) != 1 or not steps or a.size % width:
        return 1
    worth = min(operations // steps // LEAST, operations // LEAST_IN_ALL)
    cores = min(get_num_threads(), available())  # a thread that has none would be waited for
    most = min(worth, columns // width // FEW_PANELS, cores)
    return max((n for n in range(1, most + 1) if a.size // width % n == 0), default=1)


def room(parts: int, rows: int, columns: int, dtype: npt.DTypeLike) -> FloatArray:
    """Return room for a matrix of each part; a row more keeps the threads' lines apart."""
    return np.empty((parts, rows + 1, columns), dtype)


def room_for_panels(parts: int, rows: int, columns: int, dtype: npt.DTypeLike) -> FloatArray:
    """Return room for the panels of a matrix of each part."""
    width = WIDTH_BYTES // np.dtype(dtype).itemsize
    return np.empty((parts, columns // width, rows, width), dtype)


def _rows(x: FloatArray) -> FloatArray:
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def flat_product(x: FloatArray, w: FloatArray) -> FloatArray:
    """Multiply the rows of x (B, T, K) by the transpose of w (N, K): (B, T, N)."""
    return product(_rows(x), w.T).reshape(*x.shape[:2], len(w))


def outer_products(dz: FloatArray, x: FloatArray) -> FloatArray:
    """Sum the outer products of the rows of dz (B, T, N) with those of x (B, T, K): (N, K)."""
    return transposed_product(_rows(dz), _rows(x))


def total(dz: FloatArray) -> FloatArray:
    """Sum the rows of dz (B, T, N)."""
    return column_sums(_rows(dz))


def previous(first: FloatArray, states: FloatArray) -> FloatArray:
    """Return the state before each step: the initial one (B, 1, H), then those of (B, T, H)."""
    out = np.empty_like(states)
    out[:, :1], out[:, 1:] = first[:, : states.shape[1]], states[:, :-1]
    return out


class Steps(NamedTuple):
    """The order in which the steps of each entry are taken, and where the entry ends."""

    lengths: npt.NDArray[np.int64] | None
    reverse: bool

    def arranged(self, a: FloatArray) -> FloatArray:
        """
        Bring (B, T, ...) from the order of time into that of the steps, with 0 beyond the end.

        The same again brings it back, as each entry is reversed within its length.
        """
        if self.lengths is None:
            return ready(a[:, ::-1]) if self.reverse else a
        t, ends = np.arange(a.shape[1]), self.lengths[:, None]
        inside = (t < ends)[..., None]
        if self.reverse:
            order = np.where(t < ends, ends - 1 - t, t)
            a = np.take_along_axis(a, order[..., None], axis=1)
        return np.where(inside, a, 0)


class Inputs(NamedTuple):
    """The checked arguments of a cell or a sequence; batch axes are merged into one."""

    dtype: FloatDType
    batch: tuple[int, ...]
    cell: bool
    given: tuple[str, ...]  # the roles of the arguments that are not None
    x: FloatArray  # (B, T, D); a cell has one step
    states: list[FloatArray]  # (B, 1, H) each; zeros where None was given
    w_ih: FloatArray
    w_hh: FloatArray
    b_ih: FloatArray  # zeros where None was given
    b_hh: FloatArray
    w_p: FloatArray | None

    @property
    def size(self) -> int:
        """Number of hidden units."""
        return int(self.w_hh.shape[1])

    def steps(self, lengths: npt.ArrayLike | None, *, reverse: bool) -> Steps:
        """Check the options of a sequence."""
        count = self.x.shape[1]
        if lengths is None:
            return Steps(None, reverse)
        array = as_integers("lengths", lengths)
        check_symbols("lengths", array, "(...)", self.batch)
        check_range("lengths", array, count + 1)
        return Steps(array.reshape(-1), reverse)

    def outputs(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        """Give arrays (B, T, H) the batch axes of the input, and the dtype of the result."""
        inner = [a[:, 0] if self.cell else a for a in arrays]
        return tuple(
            result(np.ascontiguousarray(a).reshape(*self.batch, *a.shape[1:]), self.dtype)
            for a in inner
        )

    def gradients(self, **grads: FloatArray) -> tuple[FloatArray, ...]:
        """Return the gradients of what was given, in its order, with its shape."""
        if self.cell:
            grads["x"] = grads["x"][:, 0]
        for role in grads.keys() & {"x", *STATES}:
            grads[role] = grads[role].reshape(*self.batch, *grads[role].shape[1:])
        return tuple(result(np.ascontiguousarray(grads[r]), self.dtype) for r in self.given)


def _flat(
    found: dict[str, FloatArray], states: int, batch: tuple[int, ...], *, cell: bool
) -> dict[str, Any]:
    """Return the arrays of Inputs: batch axes merged into one, zeros for what is missing."""
    x, (rows, size) = found["x"], found["w_hh"].shape
    count = math.prod(batch)
    flat: dict[str, Any] = {
        "x": np.ascontiguousarray(x).reshape(count, 1 if cell else x.shape[-2], x.shape[-1]),
        "w_ih": found["w_ih"],
        "w_hh": found["w_hh"],
        "w_p": found.get("w_p"),
    }
    zero = np.zeros((count, size), x.dtype)
    flat["states"] = [ready(found.get(s, zero)).reshape(count, 1, size) for s in STATES[:states]]
    for bias in ("b_ih", "b_hh"):
        flat[bias] = found[bias] if bias in found else np.zeros(rows, x.dtype)
    return flat


def _check(
    label: dict[str, str], found: dict[str, FloatArray], gates: int, *, cell: bool
) -> tuple[int, ...]:
    """Check the shapes of the arguments; return the batch axes."""
    times = "" if gates == 1 else f"{gates} "
    x, w_ih, w_hh = found["x"], found["w_ih"], found["w_hh"]
    if x.ndim < 2 - cell:
        wrong_shape(label["x"], x, "(..., D)" if cell else "(..., T, D)")
    if w_hh.ndim != 2 or w_hh.shape[0] != gates * w_hh.shape[1]:
        wrong_shape(label["w_hh"], w_hh, f"({times}H, H)")
    (rows, size), batch = w_hh.shape, x.shape[: x.ndim - 2 + cell]
    if w_ih.shape != (rows, x.shape[-1]):
        symbols = f"({times}H, D) = {(rows, x.shape[-1])}, with D of {label['x']!r}"
        wrong_shape(label["w_ih"], w_ih, symbols)
    wanted: dict[str, tuple[str, tuple[int, ...]]] = {
        **dict.fromkeys(STATES, ("(..., H)", (*batch, size))),
        **dict.fromkeys(("b_ih", "b_hh"), (f"({times}H,)", (rows,))),
        "w_p": ("(3 H,)", (3 * size,)),
    }
    for role, expected in wanted.items():
        if role in found:
            check_symbols(label[role], found[role], *expected)
    return batch


def _labels(names: Iterable[str], states: int) -> dict[str, str]:
    """Say what each role is called among the arguments."""
    roles = ("x", *STATES[:states], "w_ih", "w_hh", "b_ih", "b_hh", "w_p")
    return dict(zip(roles, names, strict=False))


def inputs(
    values: Mapping[str, npt.ArrayLike | None],
    *,
    gates: int,
    states: int = 1,
    cell: bool = False,
    more: Mapping[str, npt.ArrayLike] | None = None,
) -> tuple[Inputs, list[FloatArray]]:
    """
    Check x, the states, the weights and biases, and perhaps peepholes, by their names.

    `values` has them in the order of the arguments; states, biases and peepholes may be None.
    `more` are arrays that only take part in the promotion; they are returned as such.
    """
    label = _labels(values, states)
    given = tuple(r for r, name in label.items() if values[name] is not None or r in NEEDED)
    every: dict[str, Any] = {label[role]: values[label[role]] for role in given}
    dtype, arrays = as_floats({**every, **(more or {})}, work=np.float32)
    found = dict(zip(given, arrays, strict=False))
    batch = _check(label, found, gates, cell=cell)
    checked = Inputs(dtype, batch, cell, given, **_flat(found, states, batch, cell=cell))
    return checked, arrays[len(given) :]


def cotangents(
    dout: Any, values: Mapping[str, npt.ArrayLike | None], *, outputs: int = 1, **options: Any
) -> tuple[Inputs, list[FloatArray]]:
    """Check the arguments of a vjp; return the inputs and the cotangents as (B, T, H)."""
    parts = entries("dout", dout, outputs)
    given = {name: part for name, part in parts.items() if part is not None or outputs == 1}
    checked, arrays = inputs(values, more=given, **options)
    inner = (checked.size,) if checked.cell else (checked.x.shape[1], checked.size)
    symbols = "(..., H)" if checked.cell else "(..., T, H)"
    found = dict(zip(given, arrays, strict=True))
    full = (*checked.x.shape[:2], checked.size)
    for name, array in found.items():
        check_symbols(name, array, symbols, (*checked.batch, *inner))
    zero = np.zeros(full, checked.x.dtype)
    return checked, [ready(found[name]).reshape(full) if name in found else zero for name in parts]


def moving(
    primals: Any,
    tangents: Any,
    *,
    gates: int,
    states: int = 1,
    cell: bool = False,
    w_p: npt.ArrayLike | None = None,
    w_p_tangent: npt.ArrayLike | None = None,
) -> tuple[Inputs, Inputs]:
    """Check the arguments of a jvp; return the point and the direction, zero where None."""
    count = 5 + states
    points = entries("primals", primals, count) | {"w_p": w_p}
    directions = entries("tangents", tangents, count) | {"w_p_tangent": w_p_tangent}
    for name, point in zip(directions, points.values(), strict=True):
        if point is None:
            check_constant(name, directions[name])
    given = {name: d for name, d in directions.items() if d is not None}
    checked, arrays = inputs(points, gates=gates, states=states, cell=cell, more=given)
    moved = dict(zip(given, arrays, strict=True))
    found = {}
    for role, name in _labels(directions, states).items():
        if role in checked.given:
            point = as_array(role, points[_labels(points, states)[role]])
            found[role] = moved.get(name, np.zeros(point.shape, checked.x.dtype))
            check_shape(name, found[role], point.shape)
    flat = _flat(found, states, checked.batch, cell=cell)
    return checked, checked._replace(**flat)
