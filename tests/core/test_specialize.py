"""Tests of dlref._core.specialize: copies of kernels that compute with other formulas."""

import numpy as np
import pytest

from dlref._core.jit import SOURCES, inline_fma, kernel
from dlref._core.specialize import instantiate, specialize


@inline_fma
def one(x):
    return x + 1.0


@inline_fma
def two(x):
    return x + 2.0


@inline_fma
def twice(x):
    return one(one(x))


def _formula(x):
    """Stand for a formula."""


def _loop(x, out):
    for i in range(x.size):
        out[i] = _formula(x[i])


@kernel
def _sum(x, out):
    for i in range(x.size):
        out[i] = twice(x[i]) + abs(x[i])


def values(loop):
    out = np.zeros(2)
    loop(np.array([1.0, -3.0]), out)
    return out.tolist()


@pytest.mark.parametrize(("formula", "want"), [(one, [2, -2]), (twice, [3, -1])])
def test_a_formula_is_written_into_a_loop(formula, want):
    assert values(instantiate(_loop, _formula=formula)) == want


def test_a_formula_is_replaced_wherever_it_is_called():
    other = specialize(_sum, {one: two}, "other")
    assert values(_sum) == [4, 2]
    assert values(other) == [6, 4]


def test_what_calls_nothing_to_replace_stays():
    assert specialize(_sum, {two: one}, "other") is _sum
    assert specialize(len, {abs: len}, "other") is len
    assert specialize(abs, {abs: len}, "other") is len


@inline_fma
def thrice(x):
    return one(x) + twice(x)


def test_a_formula_that_is_called_twice_is_copied_once():
    other = specialize(thrice, {one: two}, "other")
    again = specialize(twice, {one: two}, "other")
    source, _ = SOURCES[other]
    assert source.__globals__["twice"] is again
    assert specialize(thrice, {one: two}, "other") is other
    assert specialize(twice, {one: abs}, "other") is not again
