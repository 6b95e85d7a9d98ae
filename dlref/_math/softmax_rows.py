"""
The exponentials of one row of scores, shared by softmax, log-sum-exp and cross-entropy.

The difference of a score from the maximum carries its rounding error, because an error of the
exponent is a relative error of the exponential; `run_on_rows` takes shorter forms, without that
error and with fewer terms, if the scores are float32.

Each exponential is split into a high part, whose sum is exact in any order, and a low part.  If all
but one are small, the split is made relative to the sum of the others, because that sum determines
the logarithm.  Other sums are taken over pieces of a row, each in the order that is fastest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .._core.arguments import FloatArray, as_integer, check_ndim, reduced_axes
from .._core.jit import inline_reassoc, inline_strict, kernel
from .._core.specialize import specialize
from .._core.threads import as_carray, over_rows, with_workspace
from .elementary import (
    SINGLE,
    Number,
    bits,
    largest,
    log1p_pair,
    number,
    pair_sum,
    quotient,
    raised,
    summed,
    two_diff_error,
)

COST = 3  # nanoseconds an element
PIECE = 256
LARGE = 1.5 * 2.0**27  # its last place is 2^-25
DOMINATED = 2.0**-8
HUGE = 2.0**990
EXPONENT = 0x7FF0000000000000  # the bits of a float64 that hold its exponent


@inline_strict
def _split(e: Number, shift: Number) -> tuple[Number, Number]:
    """Return e as a multiple of the last place of a larger number, and a remainder."""
    coarse = (e + shift) - shift
    return coarse, e - coarse


@inline_strict
def _whole(e: Number, _shift: Number) -> tuple[Number, Number]:
    """`_split` for half the digits: no remainder."""
    return e, 0.0


@inline_reassoc
def _sums(e: FloatArray, shift: Number) -> tuple[Number, Number, Number]:
    """Return how many numbers are 1, and the sums of high and low parts of the others."""
    ones, coarse, fine = np.float64(0.0), np.float64(0.0), np.float64(0.0)
    for j in range(e.size):
        one = np.floor(e[j])
        part, rest = _split(e[j] - one, shift)
        ones += one
        coarse += part
        fine += rest
    return ones, coarse, fine


@inline_strict
def _split_again(e: FloatArray, rest: Number, fine: Number) -> tuple[Number, Number]:
    """If the other terms sum to less than DOMINATED, split them again relative to that sum."""
    if rest < DOMINATED:
        _, rest, fine = _sums(e, LARGE * (rest + fine))
    return rest, fine


@inline_strict
def _as_it_is(_e: FloatArray, rest: Number, fine: Number) -> tuple[Number, Number]:
    """`_split_again` for half the digits: a plain sum is accurate enough."""
    return rest, fine


@inline_strict
def _others(e: FloatArray) -> tuple[Number, Number]:
    """
    Return, as a pair, the sum of numbers from 0 to 1 without one of those that are 1.

    Coarse parts are multiples of 2^-25, whose sums are exact.
    """
    ones, coarse, fine = _sums(e, LARGE)
    rest, fine = _split_again(e, (ones - 1.0) + coarse, fine)
    return rest + fine, two_diff_error(rest, -fine)


@inline_reassoc
def sum_of_products(e: FloatArray, v: FloatArray) -> Number:
    """Return the sum of e v, for short arrays."""
    total = np.float64(0.0)
    for j in range(e.size):
        total += e[j] * np.float64(v[j])
    return total


@inline_reassoc
def _coarse_and_fine(x: FloatArray, shift: Number) -> tuple[Number, Number]:
    """Return the sums of the coarse parts and of the rests."""
    coarse, fine = np.float64(0.0), np.float64(0.0)
    for j in range(x.size):
        part, rest = _split(x[j], shift)
        coarse += part
        fine += rest
    return coarse, fine


@kernel
def sum_pair(x: FloatArray) -> tuple[Number, Number]:
    """
    Return the sum of non-negative numbers as a pair.

    Coarse parts are multiples of 2^-25 of a power of two near the largest number, so their sum is
    exact in any order.
    """
    total = summed(x)
    top = np.float64(largest(x))
    if not total < HUGE:  # infinite, NaN, or too large to be shifted
        return total, 0.0
    coarse, fine = _coarse_and_fine(x, LARGE * number(bits(top) & EXPONENT))
    return pair_sum(coarse, fine)


@kernel
def exponentials(x: FloatArray, e: FloatArray) -> tuple[Number, Number, Number]:
    """
    Fill e with exp(x - max x); return the maximum and, as a pair, the sum of all e but one 1.

    The full sum is one more; its logarithm is log1p of the rest.
    """
    top = np.float64(largest(x))
    for j in range(e.size):
        score = np.float64(x[j])
        d = score - top
        e[j] = raised(1.0, d, two_diff_error(score, top) if d > -800.0 else 0.0)
    others, low = _others(e)
    return top, others, low


@kernel
def added(v: FloatArray) -> Number:
    """Return the sum of v."""
    total = np.float64(0.0)
    for begin in range(0, v.size, PIECE):
        total += summed(v[begin : begin + PIECE])
    return total


@kernel
def dot(e: FloatArray, v: FloatArray) -> Number:
    """Return the sum of e v."""
    total = np.float64(0.0)
    for begin in range(0, e.size, PIECE):
        total += sum_of_products(e[begin : begin + PIECE], v[begin : begin + PIECE])
    return total


@inline_strict
def softmax_and_logarithm(x: FloatArray, logs: FloatArray, out: FloatArray) -> None:
    """Write the softmax of x, and its logarithm."""
    top, others, more = exponentials(x, out)
    rest, total = log1p_pair(others, more), 1.0 + others
    lost = two_diff_error(1.0, -others) + more
    for i in range(x.size):
        score = np.float64(x[i])
        d = score - top
        low = two_diff_error(score, top)
        logs[i] = d - (rest - (low if d > -np.inf else 0.0))
        out[i] = quotient(out[i], total, lost)


def _same(matrix: FloatArray) -> FloatArray:
    return matrix


def as_rows_along(
    axis: Any, *arrays: FloatArray
) -> tuple[list[FloatArray], Callable[..., FloatArray]]:
    """
    Return the arrays as matrices whose rows lie along `axis`, and the inverse.

    The inverse takes a matrix of the same shape.
    """
    check_ndim("x", arrays[-1], 1)
    ndim = arrays[-1].ndim
    axis = as_integer("axis", axis, least=-ndim)
    last = axis in {-1, ndim - 1}  # nothing to move: the fast path of most calls
    if last and ndim == 2:
        return [as_carray(array) for array in arrays], _same
    if not last:
        (axis,) = reduced_axes(axis, ndim)
        arrays = tuple(np.moveaxis(array, axis, -1) for array in arrays)
    shape = arrays[-1].shape
    rows = math.prod(shape[:-1])

    def back(matrix: FloatArray) -> FloatArray:
        out = matrix.reshape(shape)
        return out if last else np.moveaxis(out, -1, axis)

    return [as_carray(array).reshape(rows, shape[-1]) for array in arrays], back


@cache
def _half_digits(function: Callable[..., None]) -> Callable[..., None]:
    return specialize(function, {**SINGLE, _split: _whole, _split_again: _as_it_is}, "single")


def for_rows(function: Callable[..., None], dtype: Any) -> Callable[..., None]:
    """Return the copy of a kernel for rows of this dtype; float32 takes half the digits."""
    return _half_digits(function) if dtype == np.float32 else function


def run_on_rows(function: Callable[..., None], *arrays: FloatArray) -> None:
    """
    Call a kernel on the rows of matrices, over threads; float32 takes half the digits.

    The kernel's last argument is a workspace for the exponentials of a row.
    """
    rows, width = arrays[0].shape
    function = for_rows(function, arrays[0].dtype)
    if rows and width:
        over_rows(with_workspace(function, width), rows, COST * width, *arrays)
