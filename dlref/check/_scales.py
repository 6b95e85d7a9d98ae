"""How large an error each element may have: the scale that its own inputs give it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.pytree import flat, rebuilt

if TYPE_CHECKING:
    from collections.abc import Callable

#: Relative sizes of the changes of inputs: one that shows how the exact values move, and one so
#: small that what moves is the rounding of float64 on the way.
STEP, TINY = 2.0**-24, 2.0**-50
SAMPLES = 4


def mapped_arrays(f: Callable[[npt.NDArray[Any]], Any], value: Any) -> Any:
    """Apply f to the arrays and numbers in nested tuples; None and flags stay."""
    if isinstance(value, tuple):
        return rebuilt(value, [mapped_arrays(f, entry) for entry in value])
    return value if value is None or isinstance(value, bool | str) else f(np.asarray(value))


def widened(value: Any) -> Any:
    """Return arrays of real numbers as float64, and all else as it is."""
    return mapped_arrays(lambda a: a if a.dtype.kind in "biu" else a.astype(np.float64), value)


def changed(value: Any, step: float, sample: int) -> Any:
    """
    Change every real number by a relative `step` at most.

    The change depends on the number alone, so that equal numbers stay equal: a tie between them is
    the same tie.
    """

    def change(a: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if a.dtype.kind in "biu":
            return a
        with np.errstate(invalid="ignore"):
            share = np.sin(1e4 * np.where(np.isfinite(a), a, 0.0) + sample)
        return np.asarray(a * (1 + step * share), np.float64)

    return mapped_arrays(change, value)


def element_scales(f: Callable[..., Any], inputs: tuple[Any, ...], want: Any) -> list[FloatArray]:
    r"""
    Return for each output of ``f(*inputs)``, in float64, the scale of the error of each element.

    .. math:: s_i = |y_i| + \max_k \frac{|y_i(x (1 + h \xi_k)) - y_i(x)|}{h}
              + \max_{\text{row}} \Bigl( \frac{|y|}{8}
              + \max_k \frac{|y(x (1 + \epsilon \xi_k)) - y(x)|}{\epsilon} \Bigr)

    The second term is what rounded inputs cost whoever computes it: for a sum about
    :math:`\sqrt{\sum_j x_j^2}` of its terms, however much they cancel.  The last are for what is
    rounded on the way, beside larger elements of the row, and beside larger numbers whose
    difference is identically 0, as in the gradient through a softmax of one number.
    """
    exact: list[FloatArray] = [np.asarray(y, np.float64) for y in flat(want) if y is not None]
    moves, noises = (_moves(f, inputs, exact, step) for step in (STEP, TINY))
    scales = [
        abs(y) + move + row_largest(abs(y) / 8 + noise)
        for y, move, noise in zip(exact, moves, noises, strict=True)
    ]
    return [np.where(np.isfinite(scale), scale, 0.0) for scale in scales]


def _moves(
    f: Callable[..., Any], inputs: tuple[Any, ...], exact: list[FloatArray], step: float
) -> list[FloatArray]:
    """Return how far each element moves if the inputs do, for a relative change of 1."""
    moves = [np.zeros_like(y) for y in exact]
    for sample in range(SAMPLES):
        with np.errstate(all="ignore"):
            moved = flat(f(*(changed(x, step, sample) for x in inputs)))
            there = (np.asarray(y, np.float64) for y in moved if y is not None)
            for move, y, z in zip(moves, exact, there, strict=True):
                np.fmax(move, abs(z - y) / step, out=move)
    return moves


def row_largest(y: FloatArray) -> FloatArray:
    """Return the largest finite absolute value along the last axis."""
    size = np.where(np.isfinite(y), abs(y), 0.0)
    return size.max(-1, keepdims=True, initial=0.0) if y.ndim else size
