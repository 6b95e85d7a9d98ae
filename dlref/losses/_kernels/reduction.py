r"""Losses of pairs of numbers: squared and absolute error, Huber's, hinge, estimates of a KL."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..._core.arguments import FloatArray, as_floats, as_tangents, check_shape, choice, result
from ..._core.specialize import instantiate
from ..._core.threads import over_rows, with_workspace
from ..._math.elementary import for_dtype, summed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._core.arguments import FloatDType

Number: TypeAlias = Any  #: a float64


REDUCTIONS = ("mean", "sum", "none")


COST = 2  # nanoseconds, or elementary operations, an element


BLOCK = 4096  # elements whose losses are added up at a time


SHIFT = 64  # a power of two above the number of terms there can be


def divided_sum(terms: FloatArray, divisor: Any) -> Any:
    """Return the sum of finite terms over a divisor, also where only the sum overflows."""
    quotient = np.add.reduce(terms, axis=None) / divisor
    if math.isfinite(quotient) or not np.isfinite(terms).all():
        return quotient
    return np.ldexp(np.sum(np.ldexp(terms, -SHIFT)) / divisor, SHIFT)


def reduced(terms: FloatArray, reduction: str) -> Any:
    """Reduce the losses of the elements or rows; the mean over none is NaN."""
    if reduction == "none":
        return terms
    return divided_sum(terms, np.float64(terms.size) if reduction == "mean" else np.float64(1.0))


def seeds(dout: FloatArray, shape: tuple[int, ...], reduction: str) -> FloatArray:
    """Return the cotangent of each element's loss, given the cotangent of the reduced loss."""
    check_shape("dout", dout, shape if reduction == "none" else ())
    count = np.prod(shape, dtype=np.float64) if reduction == "mean" else np.float64(1.0)
    return np.broadcast_to(dout / count, shape)


class Loss(NamedTuple):
    """A loss of two numbers and an option, and its slopes: formulas that loops are built from."""

    term: Callable[[Number, Number, Number], Number]
    slope: Callable[[Number, Number, Number], Number]
    target_slope: Callable[[Number, Number, Number], Number]
    names: tuple[str, str] = ("pred", "target")  # of its arrays, for errors

    @property
    def slopes(self) -> tuple[Callable[[Number, Number, Number], Number], ...]:
        """The slopes in both numbers."""
        return self.slope, self.target_slope


def _formula(p: Number, t: Number, option: Number) -> Number:
    """Placeholder for the formula that `instantiate` inserts."""


def _each(
    start: int,
    stop: int,
    pred: FloatArray,
    target: FloatArray,
    option: float,
    factor: float,
    out: FloatArray,
) -> None:
    p, t, to = pred[start:stop], target[start:stop], out[start:stop]
    for i in range(p.size):
        to[i] = factor * _formula(np.float64(p[i]), np.float64(t[i]), option)


def _sums(
    start: int,
    stop: int,
    pred: FloatArray,
    target: FloatArray,
    option: float,
    sums: FloatArray,
    terms: FloatArray,
) -> None:
    for r in range(start, stop):
        p, t = pred[r * BLOCK : (r + 1) * BLOCK], target[r * BLOCK : (r + 1) * BLOCK]
        for i in range(p.size):
            terms[i] = _formula(np.float64(p[i]), np.float64(t[i]), option)
        sums[r] = summed(terms[: p.size])


@cache
def loop(
    template: Callable[..., None], function: Callable[..., Any], dtype: FloatDType
) -> Callable[..., None]:
    return instantiate(template, _formula=for_dtype(function, dtype))


def mapped(
    function: Callable[..., Any],
    pred: FloatArray,
    target: FloatArray,
    option: float,
    factor: Any = 1.0,
    dtype: Any = None,
) -> FloatArray:
    """Apply a formula to every pair of elements and multiply by `factor`."""
    out = np.empty(pred.shape, pred.dtype if dtype is None else dtype)
    flat = pred.ravel(), target.ravel(), np.float64(option), np.float64(factor), out.reshape(-1)
    over_rows(loop(_each, function, pred.dtype), pred.size, COST, *flat)
    return out


def loss(
    kind: Loss,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    reduction: str,
    option: float = 0.0,
) -> FloatArray:
    """Return the reduced loss of equally shaped predictions and targets."""
    given = dict(zip(kind.names, (pred, target), strict=True))
    dtype, (pred, target) = as_floats(given, work=np.float32)
    check_shape(kind.names[1], target, pred.shape)
    choice("reduction", reduction, REDUCTIONS)
    if reduction == "none":
        return result(mapped(kind.term, pred, target, option), dtype)
    blocks = -(-pred.size // BLOCK)
    sums = np.empty(blocks)
    arrays = pred.ravel(), target.ravel(), np.float64(option), sums
    add_up = with_workspace(loop(_sums, kind.term, pred.dtype), BLOCK)
    over_rows(add_up, blocks, COST * min(BLOCK, pred.size), *arrays)
    with np.errstate(all="ignore"):
        divisor = np.float64(pred.size) if reduction == "mean" else np.float64(1.0)
        mean = sums.sum() / divisor
        if not math.isfinite(mean):  # of the sum, perhaps, but not of the terms
            mean = divided_sum(mapped(kind.term, pred, target, option, dtype=np.float64), divisor)
        return result(mean, dtype)


def loss_grad(
    kind: Loss,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    reduction: str,
    option: float = 0.0,
) -> FloatArray:
    """Return the gradient of the reduced loss with respect to the predictions."""
    given = dict(zip(kind.names, (pred, target), strict=True))
    dtype, (pred, target) = as_floats(given, work=np.float32)
    check_shape(kind.names[1], target, pred.shape)
    choice("reduction", reduction, REDUCTIONS[:2])
    factor = 1.0 / max(pred.size, 1) if reduction == "mean" else 1.0
    return result(mapped(kind.slope, pred, target, option, factor), dtype)


def loss_vjp(
    kind: Loss,
    dout: npt.ArrayLike,
    pred: npt.ArrayLike,
    target: npt.ArrayLike,
    reduction: str,
    option: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Pull the cotangent of the reduced loss back to predictions and targets."""
    given = dict(zip(("dout", *kind.names), (dout, pred, target), strict=True))
    dtype, (dout, pred, target) = as_floats(given, work=np.float32)
    check_shape(kind.names[1], target, pred.shape)
    choice("reduction", reduction, REDUCTIONS)
    check_shape("dout", dout, pred.shape if reduction == "none" else ())
    with np.errstate(all="ignore"):
        if reduction == "none":
            slopes = [mapped(f, pred, target, option, dtype=np.float64) for f in kind.slopes]
            dpred, dtarget = (result(dout * slope, dtype) for slope in slopes)
        else:
            u = np.float64(dout) / (np.float64(pred.size) if reduction == "mean" else 1.0)
            grads = (mapped(f, pred, target, option, u) for f in kind.slopes)
            dpred, dtarget = (result(grad, dtype) for grad in grads)
        return dpred, dtarget


def loss_jvp(
    kind: Loss, primals: Any, tangents: Any, reduction: str, option: float = 0.0
) -> FloatArray:
    """Push the tangents of predictions and targets forward to the reduced loss."""
    dtype, (pred, target), moved = as_tangents(primals, tangents, count=2)
    check_shape("primals[1]", target, pred.shape)
    choice("reduction", reduction, REDUCTIONS)
    with np.errstate(all="ignore"):
        terms = np.zeros(pred.shape)
        for slope, tangent, given in zip(kind.slopes, moved, tangents, strict=True):
            if given is not None:  # zero, even where the slope is not finite
                terms = terms + mapped(slope, pred, target, option) * tangent
        return result(reduced(terms, reduction), dtype)
