r"""Sum, mean, product, maximum, minimum and norm; the dot product and the scaled sum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..._core.arguments import (
    Axis,
    FloatArray,
    as_floats,
    as_tangents,
    axes_back,
    axes_last,
    check_flags,
    check_shape,
    reduced_axes,
    result,
)
from ..._core.jit import kernel
from ..._core.threads import over_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    # (start, stop, cotangents of the rows, rows, gradients to fill)
    RowKernel = Callable[[int, int, FloatArray, FloatArray, FloatArray], None]


@kernel
def max_rows(start: int, stop: int, dout: FloatArray, x: FloatArray, dx: FloatArray) -> None:
    for r in range(start, stop):
        top = x[r, 0]
        for i in range(x.shape[1]):
            if x[r, i] > top or np.isnan(x[r, i]):
                top = x[r, i]
        _share(dout[r], x[r], top, dx[r])


@kernel
def min_rows(start: int, stop: int, dout: FloatArray, x: FloatArray, dx: FloatArray) -> None:
    for r in range(start, stop):
        bottom = x[r, 0]
        for i in range(x.shape[1]):
            if x[r, i] < bottom or np.isnan(x[r, i]):
                bottom = x[r, i]
        _share(dout[r], x[r], bottom, dx[r])


@kernel
def _share(dout: float, x: FloatArray, chosen: float, dx: FloatArray) -> None:
    ties = 0
    for i in range(x.size):
        ties += x[i] == chosen
    share = np.float64(dout) / ties if ties > 0 else np.nan  # none: the chosen one is NaN
    for i in range(x.size):
        dx[i] = share if x[i] == chosen or ties == 0 else 0.0


def by_rows(
    row_kernel: RowKernel, dout: FloatArray, x: FloatArray, axes: tuple[int, ...]
) -> FloatArray:
    """Pass the slices of `x` to a kernel as rows; return its results in the shape of `x`."""
    if row_kernel in (max_rows, min_rows) and 0 in (x.shape[axis] for axis in axes):
        msg = f"Argument 'x' must not be empty where it is reduced, not of shape {x.shape}."
        raise ValueError(msg)
    kept = x.ndim - len(axes)
    last = axes_last(x, axes)
    shape = math.prod(last.shape[:kept]), math.prod(last.shape[kept:])
    rows = np.ascontiguousarray(last).reshape(shape)
    dx = np.empty_like(rows)
    over_rows(row_kernel, shape[0], 3 * shape[1], dout.ravel(), rows, dx)
    return axes_back(dx.reshape(last.shape), axes)


def grad(row_kernel: RowKernel, x: npt.ArrayLike, axis: Axis) -> FloatArray:
    """Return the gradient of the value of each slice."""
    dtype, (x,) = as_floats({"x": x}, work=np.float32)
    axes = reduced_axes(axis, x.ndim)
    slices = math.prod(length for a, length in enumerate(x.shape) if a not in axes)
    return result(by_rows(row_kernel, np.ones(slices, x.dtype), x, axes), dtype)


def _vjp(
    row_kernel: RowKernel, dout: npt.ArrayLike, x: npt.ArrayLike, axis: Axis, keepdims: bool
) -> FloatArray:
    """Scale the gradient of each slice by the slice's cotangent."""
    dtype, (dout, x) = as_floats({"dout": dout, "x": x}, work=np.float32)
    axes = reduced_axes(axis, x.ndim)
    check_flags(keepdims=keepdims)
    kept = tuple(1 if a in axes else length for a, length in enumerate(x.shape))
    reduced = tuple(length for a, length in enumerate(x.shape) if a not in axes)
    check_shape("dout", dout, kept if keepdims else reduced)
    return result(by_rows(row_kernel, dout, x, axes), dtype)


def jvp(
    row_kernel: RowKernel, primals: Any, tangents: Any, axis: Axis, keepdims: bool
) -> FloatArray:
    """Multiply the gradient of each slice with the slice's tangent, summing in float64."""
    dtype, (x,), (dx,) = as_tangents(primals, tangents, count=1)
    axes = reduced_axes(axis, x.ndim)
    check_flags(keepdims=keepdims)
    slices = math.prod(length for a, length in enumerate(x.shape) if a not in axes)
    with np.errstate(all="ignore"):
        moved = by_rows(row_kernel, np.ones(slices), x, axes) * dx
        return result(np.sum(moved, axis=axes, keepdims=keepdims), dtype)
