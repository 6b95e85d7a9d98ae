"""
Shared code of the recurrent cells: their arguments, the order of steps, and the product of each
step. A kernel loops over time for some entries of the batch. Entries are independent, so threads
divide them and never wait for one another. The products of the inputs and of the gradients depend
on no state, and are computed at once for all steps.  So a step finds its entries next to each
other: arrays of all steps are (T, B, ...) in here.

A step multiplies few rows, the states, by a matrix that stays the same.  A BLAS would rearrange
that matrix at each step; here it is copied once into the panels of `dlref._math.gemm_tiles`, which
takes half of the time or less. So is the matrix of the inputs, because the threads of a BLAS would
still be spinning when the steps begin. The products of a single step, and of the gradients, are
NumPy's.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._core.arguments import (
    FloatArray,
    FloatDType,
    as_array,
    as_bool,
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
from ..._core.documents import beginnings
from ..._core.jit import inline_fma, kernel
from ..._core.specialize import specialize
from ..._core.threads import MAX_PIECE, as_carray, over_rows
from ..._math.dense import blas_matmul
from ..._math.elementary import sigmoid, tanh
from ..._math.gemm import panels
from ..._math.gemm_tiles import (
    FEW_PANELS,
    HALF,
    PANELS,
    ROWS,
    WIDTH_BYTES,
    add_half,
    add_part_of_row,
    add_row,
    add_short_row,
    add_tile,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

STATES = ("h", "c")
NEEDED = {"x", "w_ih", "w_hh"}  # the arguments that may not be None
Number = Any


#: tanh x = x P(x^2) / Q(x^2) to 2.1e-8 for |x| < 7, by least squares with Lawson's weights; then P4
#: was raised by 1e-13, so that the quotient passes 1 before 9, where it is clipped
P0 = np.float32(0.999999979643501)
P1 = np.float32(0.13380974452285108)
P2 = np.float32(0.0034955262612175572)
P3 = np.float32(2.0608037229253497e-05)
P4 = np.float32(1.3353290816354785e-08)
Q1 = np.float32(0.46714290120096086)
Q2 = np.float32(0.02587674942142358)
Q3 = np.float32(0.0003285532277196179)
Q4 = np.float32(7.775959757665797e-07)
ONE, HALF_OF_1, FAR = np.float32(1.0), np.float32(0.5), np.float32(9.0)


@inline_fma
def tanh_float32(x: Number) -> Number:
    """
    Hyperbolic tangent in the arithmetic of float32, to 5 ULP (7 where products are rounded).

    States go through many steps in float32, each with its own rounding errors, so more digits of a
    gate would be lost at once.  No coefficient is negative: nothing cancels.
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


@inline_fma
def sigmoid_float32(x: Number) -> Number:
    """Sigmoid in the arithmetic of float32, with an error of at most 2e-7."""
    return HALF_OF_1 + HALF_OF_1 * tanh_float32(HALF_OF_1 * np.float32(x))


@cache
def for_float32(loop: Callable[..., None]) -> Callable[..., None]:
    """Return the copy of a kernel that computes gates in float32."""
    return specialize(loop, {tanh: tanh_float32, sigmoid: sigmoid_float32}, "float32")


@kernel
def add_product(a: FloatArray, w: FloatArray, out: FloatArray) -> None:
    """Add the product of the first K columns of `a` with panels w (P, K, W) to `out` (R, P W)."""
    rows, (count, depth, width) = a.shape[0], w.shape
    whole = rows - rows % ROWS
    rest = whole + (HALF if rows - whole >= HALF else 0)
    for p in range(count if rest else 0):
        panel, to = w[p : p + 1], out[:, p * width : (p + 1) * width]
        for i in range(0, whole, ROWS):
            add_tile(a[i : i + ROWS, :depth], panel, to[i : i + ROWS])
        if rest > whole:
            add_half(a[whole:rest, :depth], panel, to[whole:rest])
    for i in range(rest, rows):
        row, to, p = a[i : i + 1, :depth], out[i : i + 1], 0
        while p + PANELS <= count:
            add_row(row, w[p : p + PANELS], to[:, p * width :])
            p += PANELS
        if p + FEW_PANELS <= count:
            add_short_row(row, w[p : p + FEW_PANELS], to[:, p * width :])
            p += FEW_PANELS
        while p < count:
            add_part_of_row(row, w[p : p + 1], to[:, p * width :])
            p += 1


def over_batch(loop: Callable[..., None], operations: int, batch: int, *arguments: Any) -> None:
    """Call a kernel, or its copy for float32, on all entries of `operations` operations each."""
    short = any(getattr(a, "dtype", None) == np.float32 for a in arguments)
    loop = for_float32(loop) if short else loop
    over_rows(loop, batch, operations / 20, *arguments, even=True)


def over_steps(
    loop: Callable[..., None],
    operations: int,
    shape: tuple[int, ...],
    *arguments: Any,
    backward: bool = False,
) -> None:
    """
    Call a kernel on all entries of a batch for ranges of steps; `shape` begins with T, B.

    `operations` is the number for one step of one entry.  A range takes no longer than `over_rows`
    lets a piece take, so that a long sequence can be interrupted.
    """
    steps, batch = shape[:2]
    if 0 in shape:  # an empty batch has as many steps as it says, and nothing to compute in them
        return
    most = max(1, int(20 * MAX_PIECE // max(batch * operations, 1)))
    ranges = [(t, min(t + most, steps)) for t in range(0, steps, most)]
    for begin, end in reversed(ranges) if backward else ranges:
        over_batch(loop, (end - begin) * operations, batch, begin, end, *arguments)


def by_time(a: FloatArray) -> FloatArray:
    """Transpose (B, T, N) to (T, B, N)."""
    return np.ascontiguousarray(a.swapaxes(0, 1))


def with_first(first: FloatArray, steps: int) -> FloatArray:
    """Return a workspace (T + 1, B, H) for the initial state and the states of all steps."""
    states = np.empty((steps + 1, *first.shape), first.dtype)
    states[0] = first
    return states


def padded(columns: int, dtype: npt.DTypeLike) -> int:
    """Return the number of columns of whole panels."""
    width = WIDTH_BYTES // np.dtype(dtype).itemsize
    return -(-columns // width) * width


def project(x: FloatArray, w: FloatArray) -> FloatArray:
    """Multiply x (T, B, D) by the transpose of w (N, D): whole panels of columns, zeros at last."""
    z = np.zeros((*x.shape[:2], padded(len(w), x.dtype)), x.dtype)
    rows, out = rows_of(x), rows_of(z)
    if len(x) == 1:
        blas_matmul(rows, w.T, out[:, : len(w)])
        return z
    parts = panels(w.T)

    def multiply(start: int, stop: int) -> None:
        add_product(rows[start:stop], parts, out[start:stop])

    over_rows(multiply, len(rows), w.size / 20)
    return z


def rows_of(a: FloatArray) -> FloatArray:
    """Return the rows of all steps and entries as one matrix."""
    return a.reshape(a.shape[0] * a.shape[1], a.shape[2])


def product_of_steps(dz: FloatArray, w: FloatArray) -> FloatArray:
    """Multiply the rows of all steps (T, B, N) by w (N, D), in one product."""
    return blas_matmul(rows_of(dz), w).reshape(*dz.shape[:2], w.shape[1])


def total(dz: FloatArray) -> FloatArray:
    """Sum the rows of dz (T, B, N), accumulated in float64."""
    if not dz.size:  # NumPy walks through the steps of an empty batch
        return np.zeros(dz.shape[2], dz.dtype)
    out: FloatArray = dz.sum(axis=(0, 1), dtype=np.float64).astype(dz.dtype)
    return out


class Steps(NamedTuple):
    """The order in which the steps of each entry are taken, and where the entry ends."""

    lengths: npt.NDArray[np.int64] | None
    reverse: bool

    def arranged(self, a: FloatArray) -> FloatArray:
        """
        Reorder (B, T, ...) from the order of time to the order of the steps, with 0 beyond the end.
        Applied twice it restores the order, as each entry is reversed within its length.
        """
        if self.lengths is None:
            return as_carray(a[:, ::-1]) if self.reverse else a
        t, ends = np.arange(a.shape[1]), self.lengths[:, None]
        inside = (t < ends)[..., None]
        if self.reverse:
            order = np.where(t < ends, ends - 1 - t, t)
            a = np.take_along_axis(a, order[..., None], axis=1)
        return np.where(inside, a, 0)

    def clip(self, a: FloatArray) -> None:
        """Set (T, B, N), in the order of the steps, to 0 beyond the end."""
        if self.lengths is not None:
            a[np.arange(len(a))[:, None] >= self.lengths] = 0


class Documents(NamedTuple):
    """Documents of packed rows, as entries of a batch of their own: D of at most M steps."""

    shape: tuple[int, int]  # B, T of the rows
    row: npt.NDArray[np.int64]  # (D,)
    sizes: npt.NDArray[np.int64]  # (D,): the number of steps
    first: npt.NDArray[np.bool_]  # (D,): whether the initial state is for this document of the row
    place: npt.NDArray[np.int64]  # (D, M): the step among all B T, the last one beyond the end

    @classmethod
    def from_begins(cls, begins: npt.NDArray[np.bool_], steps: Steps) -> Documents:
        """Find the documents of rows (B, T) that begin where it is said, and at the first step."""
        rows, count = begins.shape
        ends = np.full(rows, count) if steps.lengths is None else steps.lengths
        t = np.arange(count)
        row, start = np.nonzero((begins | (t == 0)) & (t < ends[:, None]))
        is_last = np.append(row[1:] != row[:-1], np.ones(min(len(row), 1), np.bool_))
        sizes = np.where(is_last, ends[row], np.roll(start, -1)) - start
        inside = np.minimum(np.arange(sizes.max(initial=0)), sizes[:, None] - 1)
        place = (row * count + start)[:, None] + inside
        return cls((rows, count), row, sizes, is_last if steps.reverse else start == 0, place)

    def split(self, a: FloatArray) -> FloatArray:
        """Return (D, M, ...) for rows (B, T, ...); steps beyond the end have any values."""
        return rows_of(a)[self.place]

    def joined(self, a: FloatArray) -> FloatArray:
        """Return rows (B, T, ...) for documents (D, M, ...), 0 where there are none."""
        out = np.zeros((*self.shape, a.shape[2]), a.dtype)
        inside = np.arange(a.shape[1]) < self.sizes[:, None]
        rows_of(out)[self.place[inside]] = a[inside]
        return out

    def states(self, a: FloatArray) -> FloatArray:
        """Return the initial state of each document (D, H), given the states of the rows (B, H)."""
        return np.where(self.first[:, None], a[self.row], 0)

    def states_vjp(self, a: FloatArray) -> FloatArray:
        """Return the gradients of the initial states of the rows."""
        out = np.zeros((self.shape[0], a.shape[1]), a.dtype)
        out[self.row[self.first]] = a[self.first]
        return out


#: The order of a cell's only step.
ONE_STEP = Steps(None, reverse=False)


class Inputs(NamedTuple):
    """The checked arguments of a cell or a sequence; batch axes are merged into one."""

    dtype: FloatDType
    batch: tuple[int, ...]
    cell: bool
    given: tuple[str, ...]  # the roles of the arguments that are not None
    x: FloatArray  # (B, T, D); a cell has one step
    states: list[FloatArray]  # (B, H) each; zeros where None was given
    w_ih: FloatArray
    w_hh: FloatArray
    b_ih: FloatArray  # zeros where None was given
    b_hh: FloatArray
    w_p: FloatArray | None
    documents: Documents | None = None  # if they are the entries of the batch

    @property
    def size(self) -> int:
        """Number of hidden units."""
        return int(self.w_hh.shape[1])

    def steps(self, lengths: npt.ArrayLike | None, *, reverse: bool) -> Steps:
        """Check the options of a sequence."""
        count, reverse = self.x.shape[1], as_bool("reverse", reverse)
        if lengths is None:
            return Steps(None, reverse)
        array = as_integers("lengths", lengths)
        check_symbols("lengths", array, "(...)", self.batch)
        check_range("lengths", array, count + 1)
        return Steps(array.reshape(-1), reverse)

    def packed(self, documents: Documents | None) -> Inputs:
        """Return the inputs with documents as the entries of the batch, if there are any."""
        if documents is None:
            return self
        states = [documents.states(state) for state in self.states]
        return self._replace(x=documents.split(self.x), states=states, documents=documents)

    def arranged(
        self, lengths: npt.ArrayLike | None, segment_ids: npt.ArrayLike | None, *, reverse: bool
    ) -> tuple[Inputs, Steps]:
        """Check the options of a sequence; return the inputs by documents, and their steps."""
        steps = self.steps(lengths, reverse=reverse)
        begins = beginnings(segment_ids, (*self.batch, self.x.shape[1]))
        if begins is None:
            return self, steps
        documents = Documents.from_begins(begins, steps)
        return self.packed(documents), Steps(documents.sizes, steps.reverse)

    def split(self, a: FloatArray) -> FloatArray:
        """Return an array (B, T, ...) by documents, if they are the entries of the batch."""
        return a if self.documents is None else self.documents.split(a)

    def outputs(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        """Give arrays (B, T, H) the batch axes of the input and the dtype of the result."""
        by_row = arrays if self.documents is None else map(self.documents.joined, arrays)
        inner = [a[:, 0] if self.cell else a for a in by_row]
        return tuple(
            result(np.ascontiguousarray(a).reshape(*self.batch, *a.shape[1:]), self.dtype)
            for a in inner
        )

    def gradients(self, **grads: FloatArray) -> tuple[FloatArray, ...]:
        """Return the gradients of the arguments that are not None, in order, with their shapes."""
        if self.cell:
            grads["x"] = grads["x"][:, 0]
        if self.documents is not None:
            grads["x"] = self.documents.joined(grads["x"])
            for role in grads.keys() & {*STATES}:
                grads[role] = self.documents.states_vjp(grads[role])
        for role in grads.keys() & {"x", *STATES}:
            grads[role] = grads[role].reshape(*self.batch, *grads[role].shape[1:])
        return tuple(result(np.ascontiguousarray(grads[r]), self.dtype) for r in self.given)


def _flat(
    by_role: dict[str, FloatArray], states: int, batch: tuple[int, ...], *, cell: bool
) -> dict[str, Any]:
    """Return the arrays of Inputs: batch axes merged into one, zeros for missing arguments."""
    x, (rows, size) = by_role["x"], by_role["w_hh"].shape
    count = math.prod(batch)
    flat: dict[str, Any] = {
        "x": np.ascontiguousarray(x).reshape(count, 1 if cell else x.shape[-2], x.shape[-1]),
        "w_ih": by_role["w_ih"],
        "w_hh": by_role["w_hh"],
        "w_p": by_role.get("w_p"),
    }
    zero = np.zeros((count, size), x.dtype)
    flat["states"] = [as_carray(by_role.get(s, zero)).reshape(count, size) for s in STATES[:states]]
    for bias in ("b_ih", "b_hh"):
        flat[bias] = by_role[bias] if bias in by_role else np.zeros(rows, x.dtype)
    return flat


def _check(
    label: dict[str, str], by_role: dict[str, FloatArray], gates: int, *, cell: bool
) -> tuple[int, ...]:
    """Check the shapes of the arguments; return the batch axes."""
    times = "" if gates == 1 else f"{gates} "
    x, w_ih, w_hh = by_role["x"], by_role["w_ih"], by_role["w_hh"]
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
        if role in by_role:
            check_symbols(label[role], by_role[role], *expected)
    return batch


def _labels(names: Iterable[str], states: int) -> dict[str, str]:
    """Return the name of the argument for each role."""
    roles = ("x", *STATES[:states], "w_ih", "w_hh", "b_ih", "b_hh", "w_p")
    return dict(zip(roles, names, strict=False))


def named(*arrays: npt.ArrayLike | None, cell: bool = False) -> dict[str, npt.ArrayLike | None]:
    """Return the arrays of a cell or a sequence by name: 6, or 8 with cell state and peepholes."""
    states = ("h", "c")[: 1 + (len(arrays) > 6)]
    states = states if cell else tuple(f"{name}0" for name in states)
    names = "x", *states, "w_ih", "w_hh", "b_ih", "b_hh", "w_p"
    return dict(zip(names, arrays, strict=False))


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
    by_role = dict(zip(given, arrays, strict=False))
    batch = _check(label, by_role, gates, cell=cell)
    checked = Inputs(dtype, batch, cell, given, **_flat(by_role, states, batch, cell=cell))
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
    by_name = dict(zip(given, arrays, strict=True))
    full = (*checked.x.shape[:2], checked.size)
    for name, array in by_name.items():
        check_symbols(name, array, symbols, (*checked.batch, *inner))
    zero = np.zeros(full, checked.x.dtype)
    return checked, [
        as_carray(by_name[name]).reshape(full) if name in by_name else zero for name in parts
    ]


def jvp_arguments(
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
    tangent_of = dict(zip(given, arrays, strict=True))
    moves = {}
    for role, name in _labels(directions, states).items():
        if role in checked.given:
            point = as_array(role, points[_labels(points, states)[role]])
            moves[role] = tangent_of.get(name, np.zeros(point.shape, checked.x.dtype))
            check_shape(name, moves[role], point.shape)
    flat = _flat(moves, states, checked.batch, cell=cell)
    return checked, checked._replace(**flat)
