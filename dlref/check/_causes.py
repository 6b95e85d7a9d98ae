"""
What a wrong result may come of: known mistakes, tried one after the other.

A `Cause` is a phrase and a function of a `Case` that yields what a kernel with that mistake would
return.  If the candidate returned just that, the mistake has a name.  To teach `check_forward` and
its kin another one, append it to `CAUSES`.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._core.pytree import flat
from ._scales import mapped_arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .._core.arguments import FloatArray


class Case(NamedTuple):
    """A reference function, with what it was called with and what it returned, in float64."""

    f: Callable[..., Any]
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    want: list[FloatArray]
    form: str  # "map", "vjp" or "jvp"
    op: Callable[..., Any]  # the map itself

    def call(self, inputs: tuple[Any, ...] | None = None, **options: Any) -> list[FloatArray]:
        """Return what the reference gives for other inputs or options."""
        given = self.inputs if inputs is None else inputs
        with np.errstate(all="ignore"):
            out = flat(self.f(*given, **{**self.options, **options}))
        return [np.asarray(y, np.float64) for y in out if y is not None]

    def option(self, name: str) -> Any:
        """Return the value of an option, None where there is none."""
        known = inspect.signature(self.f).parameters
        if name not in known:
            return None
        return self.options.get(name, known[name].default)

    @property
    def primals(self) -> tuple[Any, ...]:
        """The inputs of the map."""
        if self.form == "vjp":
            return self.inputs[1:]
        points = self.inputs[0] if self.form == "jvp" else self.inputs
        return points if isinstance(points, tuple) else (points,)

    def with_primals(self, primals: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the inputs with other primals."""
        if self.form == "vjp":
            return self.inputs[0], *primals
        if self.form == "jvp":
            bare = not isinstance(self.inputs[0], tuple)
            return primals[0] if bare else primals, *self.inputs[1:]
        return primals


Outputs = list[Any]  # arrays, or None for an output that the mistake leaves alone


class Cause(NamedTuple):
    """A mistake in words, and the results that it leads to."""

    words: str
    results: Callable[[Case], Iterator[Outputs]]


def _options(name: str, *values: Any) -> Callable[[Case], Iterator[Outputs]]:
    """Return the results for other values of an option."""

    def results(case: Case) -> Iterator[Outputs]:
        now = case.option(name)
        if name in inspect.signature(case.f).parameters:
            for value in values:
                if value is not now and np.any(value != now):
                    yield case.call(**{name: value})

    return results


def _other_axis(case: Case) -> Iterator[Outputs]:
    if isinstance(axis := case.option("axis"), int):
        count = np.ndim(case.primals[0])
        yield from (case.call(axis=k) for k in range(count) if k != axis % count)


def _scale(power: float) -> Callable[[Case], Iterator[Outputs]]:
    """Return the results for a scale of attention of E to another power."""

    def results(case: Case) -> Iterator[Outputs]:
        if "scale" in inspect.signature(case.f).parameters and case.option("scale") is None:
            yield case.call(scale=float(np.shape(case.primals[0])[-1]) ** power)

    return results


def _mask(change: Callable[[Any], Any]) -> Callable[[Case], Iterator[Outputs]]:
    def results(case: Case) -> Iterator[Outputs]:
        if (mask := case.option("mask")) is not None:
            yield case.call(mask=change(np.asarray(mask)))

    return results


def _keys(case: Case) -> tuple[int, int]:
    q, k = case.primals[:2]
    return np.shape(q)[-2], np.shape(k)[-2]


def _causal(change: Callable[[int, int, int], int]) -> Callable[[Case], Iterator[Outputs]]:
    """Return the results of a causal attention with another offset."""

    def results(case: Case) -> Iterator[Outputs]:
        if case.option("is_causal") and case.option("q_offset") is not None:
            before = case.option("q_offset")
            if (offset := change(before, *_keys(case))) != before:
                yield case.call(q_offset=offset)

    return results


def _transposed_weight(case: Case) -> Iterator[Outputs]:
    for i, x in enumerate(case.primals[1:], 1):
        if np.ndim(x) == 2 and len(x) == len(np.transpose(x)):
            primals = list(case.primals)
            primals[i] = np.transpose(x)
            yield case.call(case.with_primals(tuple(primals)))


def _swapped_inputs(case: Case) -> Iterator[Outputs]:
    for i, j in itertools.combinations(range(len(case.primals)), 2):
        primals = list(case.primals)
        if primals[i] is not None and np.shape(primals[i]) == np.shape(primals[j]):
            primals[i], primals[j] = primals[j], primals[i]
            yield case.call(case.with_primals(tuple(primals)))


#: Blocks of rows of the weights of a recurrent cell, by the number of gates.
GATES = {"lstm": 4, "lstm_cell": 4, "gru": 3, "gru_cell": 3}


def _gate_order(case: Case) -> Iterator[Outputs]:
    count = GATES.get(case.op.__name__, 0)
    weights = [len(x) for x in case.primals if x is not None and np.ndim(x) == 2]
    rows = max((n for n in weights if count and n % count == 0), default=0)

    def moved(a: Any, order: tuple[int, ...]) -> Any:
        if a.dtype.kind != "f" or a.ndim not in {1, 2} or len(a) != rows:
            return a
        return np.concatenate([np.split(a, count)[k] for k in order])

    for order in itertools.islice(itertools.permutations(range(count)), 1, None):
        move = functools.partial(moved, order=order)
        points = [mapped_arrays(move, p) for p in case.primals[1:]]
        yield case.call(case.with_primals((case.primals[0], *points)))


def _of_outputs(change: Callable[[FloatArray], FloatArray]) -> Callable[[Case], Iterator[Outputs]]:
    def results(case: Case) -> Iterator[Outputs]:
        yield [change(y) for y in case.want]

    return results


def _each_output(
    change: Callable[[Case, FloatArray], FloatArray | None],
) -> Callable[[Case], Iterator[Outputs]]:
    """Return the results with one output changed, the others left alone."""

    def results(case: Case) -> Iterator[Outputs]:
        for i, y in enumerate(case.want):
            if (other := change(case, y)) is not None:
                yield [other if j == i else None for j in range(len(case.want))]

    return results


def _one_of_several(
    change: Callable[[FloatArray], FloatArray],
) -> Callable[[Case], Iterator[Outputs]]:
    return _each_output(lambda case, y: change(y) if len(case.want) > 1 else None)


def _batch_mean(case: Case, y: FloatArray) -> FloatArray | None:
    """Return a gradient of parameters divided by the number of rows."""
    x = np.asarray(case.primals[0])
    rows = x.size // x.shape[-1] if x.ndim > 1 else 0
    return y / rows if rows > 1 and case.form == "vjp" and y.shape != x.shape else None


def _only_last(case: Case, y: FloatArray) -> FloatArray | None:
    """Return the gradient that only the last row of the batch gives, where all are summed."""
    x, *rest = case.primals
    if case.form != "vjp" or np.ndim(x) < 2 or y.shape == np.shape(x):
        return None
    dout = mapped_arrays(lambda u: u[-1:], case.inputs[0])
    found = [z for z in case.call((dout, x[-1:], *rest)) if z.shape == y.shape]
    return found[0] if found else None


def _unweighted(case: Case) -> Iterator[Outputs]:
    """Return the vjp of ones, the derivative that nobody multiplied by `dout`."""
    if case.form == "vjp":
        ones = mapped_arrays(np.ones_like, case.inputs[0])
        yield case.call((ones, *case.inputs[1:]))


def _second_derivative(case: Case) -> Iterator[Outputs]:
    module = inspect.getmodule(case.op)
    name = case.op.__name__
    second = getattr(module, f"{name}_deriv2", None)
    if case.form == "vjp" and second is not None:
        yield [case.inputs[0] * second(case.inputs[1])]
    if name.endswith("_deriv") and hasattr(module, f"{name}2"):
        yield [np.asarray(getattr(module, f"{name}2")(*case.inputs))]


def _masked_rows(value: str) -> Callable[[Case], Iterator[Outputs]]:
    """Return the results in which rows that see nothing are not 0."""

    def results(case: Case) -> Iterator[Outputs]:
        if case.option("mask") is None or case.form != "map" or len(case.primals) < 3:
            return
        y, v = case.want[0], np.asarray(case.primals[2])
        empty = np.all(y == 0, axis=-1, keepdims=True)
        if empty.any():
            mean = v.mean(-2, keepdims=True) if v.ndim == y.ndim else v.mean()
            other = np.broadcast_to(np.nan if value == "nan" else mean, y.shape)
            yield [np.where(empty, other, y), *[None] * (len(case.want) - 1)]

    return results


def _no_maximum(case: Case) -> Iterator[Outputs]:
    """Return softmax and its kin as they come out if exponentials may overflow."""
    formulas = {
        "softmax": lambda e, total: e / total,
        "log_softmax": lambda e, total: np.log(e / total),
        "logsumexp": lambda e, total: np.log(total[..., 0]),
    }
    if case.form == "map" and case.op.__name__ in formulas and case.option("axis") in {-1, None}:
        for dtype in (np.float32, np.float64):
            with np.errstate(all="ignore"):
                e = np.exp(np.asarray(case.primals[0], dtype))
                out = formulas[case.op.__name__](e, e.sum(-1, keepdims=True))
            yield [np.asarray(out, np.float64)]


def _other_reduction(case: Case) -> Iterator[Outputs]:
    if (now := case.option("reduction")) is not None:
        yield from (case.call(reduction=r) for r in ("mean", "sum") if r != now)


CAUSES = [
    Cause("it works along another axis", _other_axis),
    Cause("the maximum is not subtracted first, and exponentials overflow", _no_maximum),
    Cause("the scale 1 / sqrt(E) is missing", _scale(0.0)),
    Cause("the scale 1 / sqrt(E) is applied twice", _scale(-1.0)),
    Cause("the scale is sqrt(E) in place of 1 / sqrt(E)", _scale(0.5)),
    Cause("the mask is inverted", _mask(np.logical_not)),
    Cause("the mask is ignored", _options("mask", None)),
    Cause("the bias is ignored", _options("bias", None)),
    Cause("it is not causal", _options("is_causal", False)),
    Cause("it is causal, and should not be", _options("is_causal", True)),
    Cause("the causal mask hides the diagonal", _causal(lambda o, t, s: o - 1)),
    Cause("the causal mask lets one more key through", _causal(lambda o, t, s: o + 1)),
    Cause("the causal mask is aligned with the last key", _causal(lambda o, t, s: s - t)),
    Cause("the causal mask is aligned with the first key", _causal(lambda o, t, s: 0)),
    Cause("the other pairs of channels are rotated (neighbours against halves)",
          lambda case: _options("interleaved", not case.option("interleaved"))(case)),
    Cause("the reset gate acts on the other side of the product",
          lambda case: _options("reset_after", not case.option("reset_after"))(case)),
    Cause("the gates are in another order", _gate_order),
    Cause("the other form of GELU is computed", _options("approximate", "none", "tanh")),
    Cause("it is the sum in place of the mean, or the reverse", _other_reduction),
    Cause("label smoothing is left out", _options("label_smoothing", 0.0)),
    Cause("eps has another value", _options("eps", 1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 0.0)),
    Cause("a weight is transposed", _transposed_weight),
    Cause("two inputs are exchanged", _swapped_inputs),
    Cause("rows that see nothing are NaN in place of 0", _masked_rows("nan")),
    Cause("rows that see nothing are the mean of the values in place of 0", _masked_rows("mean")),
    Cause("the cotangent is not multiplied in", _unweighted),
    Cause("it is the second derivative", _second_derivative),
    Cause("the sign is wrong", _of_outputs(np.negative)),
    Cause("all is 0", _of_outputs(np.zeros_like)),
    Cause("it is half of what is right", _of_outputs(lambda y: y / 2)),
    Cause("it is twice what is right", _of_outputs(lambda y: 2 * y)),
    Cause("the output is transposed", _of_outputs(
        lambda y: np.swapaxes(y, -1, -2) if y.ndim > 1 else y)),
    Cause("rows are in reverse order", _of_outputs(lambda y: y[..., ::-1, :] if y.ndim > 1 else y)),
    Cause("a gradient is missing", _one_of_several(np.zeros_like)),
    Cause("the sign of one output is wrong", _one_of_several(np.negative)),
    Cause("one output is half of what is right", _one_of_several(lambda y: y / 2)),
    Cause("one output is accumulated twice", _one_of_several(lambda y: 2 * y)),
    Cause("a gradient of parameters is the mean over the rows in place of the sum",
          _each_output(_batch_mean)),
    Cause("a gradient of parameters is of the last row of the batch alone",
          _each_output(_only_last)),
    Cause("an output is transposed", _each_output(
        lambda case, y: y.T if y.ndim == 2 and y.shape == y.T.shape else None)),
]  # fmt: skip


def explained(case: Case, got: list[Any], right: list[bool], fits: Any) -> tuple[str, ...]:
    """
    Return the words of all causes that give what the candidate gave.

    `right` says which outputs are, and ``fits(i, got, want)`` whether an array is within what is
    allowed for output i.
    """
    found = []
    for cause in CAUSES:
        try:
            results = list(cause.results(case))
        except (TypeError, ValueError, IndexError):  # the mistake makes no sense for this function
            continue
        for result in results:
            if len(result) == len(got) and all(
                right[i] if y is None else _same(i, got[i], y, case.want[i], fits)
                for i, y in enumerate(result)
            ):
                if any(
                    y is not None and not fits(i, y, case.want[i]) for i, y in enumerate(result)
                ):
                    found.append(cause.words)
                break
    return tuple(dict.fromkeys(found))


def _same(i: int, got: Any, wrong: Any, want: FloatArray, fits: Any) -> bool:
    return np.shape(wrong) == np.shape(got) and bool(fits(i, np.asarray(got, np.float64), wrong))
