"""
The call pattern of element-wise maps.

Activations, their derivatives and the derivatives of the elementary functions are formulas of one
number.  One loop applies a formula to every element, another multiplies by it, and
`dlref._core.specialize.instantiate` writes the formula into the loop;
`dlref._math.elementary.single` shortens it first where the elements are float32.  The Jacobian of
an element-wise map is diagonal, so its two products with a vector are the same: each element times
the derivative there.  `jvp` and `vjp` differ only in the names of their arguments.

A formula that LLVM can vectorize may return NaN where it would lose digits.  It comes with an
`exact` one, which may call the C library and takes its place there.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, FloatDType, as_floats, as_tangents, check_shape, result
from .._core.jit import SOURCES
from .._core.specialize import instantiate
from .._core.threads import over_rows
from .elementary import for_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

#: Nanoseconds, or elementary operations, an element; and for a formula that calls no other one,
#: whose time is spent on memory.
COST, LIGHT = 2.0, 0.25
BLOCK = 1024  #: elements that are looked at once more if a formula was NaN for one of them


def _formula(x: Any, *options: Any) -> Any:
    """Placeholder for the formula that `instantiate` inserts."""


def _map(start: int, stop: int, x: FloatArray, options: tuple[Any, ...], out: FloatArray) -> None:
    part, to = x[start:stop], out[start:stop]  # counting from 0: no negative index to wrap
    for i in range(part.size):
        to[i] = _formula(np.float64(part[i]), *options)


def _product(
    start: int,
    stop: int,
    v: FloatArray,
    x: FloatArray,
    options: tuple[Any, ...],
    out: FloatArray,
) -> None:
    factor, part, to = v[start:stop], x[start:stop], out[start:stop]
    for i in range(part.size):
        to[i] = np.float64(factor[i]) * _formula(np.float64(part[i]), *options)


def _exact(x: Any, *options: Any) -> Any:
    """Placeholder for the formula of the elements where the other one is NaN."""


def _mended_product(
    start: int,
    stop: int,
    v: FloatArray,
    x: FloatArray,
    options: tuple[Any, ...],
    out: FloatArray,
) -> None:
    for begin in range(start, stop, BLOCK):
        end = min(begin + BLOCK, stop)
        factor, part, to = v[begin:end], x[begin:end], out[begin:end]
        missing = 0
        for i in range(part.size):
            value = _formula(np.float64(part[i]), *options)
            missing += int(np.isnan(value))
            to[i] = np.float64(factor[i]) * value
        if missing:
            for i in range(part.size):
                if np.isnan(_formula(np.float64(part[i]), *options)):
                    to[i] = np.float64(factor[i]) * _exact(np.float64(part[i]), *options)


@cache
def _loop(
    template: Callable[..., None],
    formula: Callable[..., Any],
    exact: Callable[..., Any] | None,
    dtype: FloatDType,
) -> Callable[..., None]:
    formulas = {"_formula": for_dtype(formula, dtype)} | ({"_exact": exact} if exact else {})
    return instantiate(template, **formulas)


@cache
def _cost(formula: Callable[..., Any]) -> float:
    source, _ = SOURCES[formula]
    called = (source.__globals__.get(name) for name in source.__code__.co_names)
    return COST if any(callable(f) and f in SOURCES for f in called) else LIGHT


def forward(
    formula: Callable[..., Any],
    x: npt.ArrayLike,
    *options: float,
    short: Callable[..., Any] | None = None,
    exact: Callable[..., Any] | None = None,
) -> FloatArray:
    """Apply the formula, or a shorter one that suffices for float32, to every element."""
    dtype, [array] = as_floats({"x": x}, work=np.float32)
    if exact is not None:
        return result(times_map(formula, np.ones_like(array), array, *options, exact=exact), dtype)
    if short is not None and array.dtype == np.float32:
        formula = short
    out = np.empty_like(array, order="C", subok=False)
    over_rows(
        _loop(_map, formula, None, array.dtype),
        array.size,
        _cost(formula),
        array.ravel(),
        _floats(options),
        out.reshape(-1),
    )
    return result(out, dtype)


def times_map(
    formula: Callable[..., Any],
    v: FloatArray,
    x: FloatArray,
    *options: float,
    exact: Callable[..., Any] | None = None,
) -> FloatArray:
    """Multiply `v` element by element by the formula of `x`; equal shapes and dtypes."""
    out = np.empty_like(x, order="C", subok=False)
    over_rows(
        _loop(_mended_product if exact else _product, formula, exact, x.dtype),
        x.size,
        _cost(formula),
        v.ravel(),
        x.ravel(),
        _floats(options),
        out.reshape(-1),
    )
    return out


def vjp(
    formula: Callable[..., Any],
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    *options: float,
    exact: Callable[..., Any] | None = None,
) -> FloatArray:
    """Reverse mode: `dout` times the derivative."""
    dtype, [v, array] = as_floats({"dout": dout, "x": x}, work=np.float32)
    check_shape("dout", v, array.shape)
    return result(times_map(formula, v, array, *options, exact=exact), dtype)


def jvp(
    formula: Callable[..., Any],
    primals: npt.ArrayLike,
    tangents: npt.ArrayLike | None,
    *options: float,
    exact: Callable[..., Any] | None = None,
) -> FloatArray:
    """Forward mode: the derivative times `tangents`, where None is zero."""
    dtype, [x], [v] = as_tangents(primals, tangents, count=1, work=np.float32)
    return result(times_map(formula, v, x, *options, exact=exact), dtype)


def _floats(options: tuple[float, ...]) -> tuple[Any, ...]:
    return tuple(np.float64(option) for option in options)
