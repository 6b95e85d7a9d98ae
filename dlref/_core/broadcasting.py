"""
Element-wise maps of two operands that broadcast.

All three forms follow from the two partial derivatives, arrays of the shape of the output:

- Jacobian: entry (i, j) is the partial at i if output i reads operand element j, else 0;
- vjp: cotangent times partial, summed over the outputs that read the same element;
- jvp: partial times tangent, added up over the two operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .arguments import FloatArray, as_floats, as_tangents, check_shape, result

if TYPE_CHECKING:
    import numpy.typing as npt

    # an array each, of any shape that broadcasts to the output's; a scalar if constant
    Partials = Callable[[FloatArray, FloatArray], tuple[Any, Any]]


def broadcast_shape(names: tuple[str, str], w: FloatArray, x: FloatArray) -> tuple[int, ...]:
    """Return the shape that two operands broadcast to."""
    try:
        return np.broadcast_shapes(w.shape, x.shape)
    except ValueError:
        msg = (
            f"Arguments {names[0]!r} and {names[1]!r} must have shapes that broadcast, "
            f"not {w.shape} and {x.shape}."
        )
        raise ValueError(msg) from None


def unbroadcast(array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """
    Sum `array` over the axes along which an operand of `shape` was broadcast.

    The adjoint of `numpy.broadcast_to`.  Returns `array` itself if nothing was broadcast.
    """
    extra = array.ndim - len(shape)
    stretched = tuple(
        axis
        for axis, length in enumerate(array.shape)
        if axis < extra or (shape[axis - extra] == 1 and length != 1)
    )
    with np.errstate(all="ignore"):
        return array.sum(stretched).reshape(shape) if stretched else array


def _spread(partial: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Spread a partial derivative over the dense Jacobian, of shape ``out.shape + shape``."""
    size = int(np.prod(shape, dtype=np.intp))
    read = np.broadcast_to(np.arange(size).reshape(shape), partial.shape)
    dense = np.zeros((partial.size, size))
    dense[np.arange(partial.size), read.ravel()] = partial.ravel()
    return dense.reshape(partial.shape + shape)


def binary_jacobian(
    partials: Partials, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return both dense Jacobians of a map with these partial derivatives."""
    dtype, (w, x) = as_floats({"w": w, "x": x})
    shape = broadcast_shape(("w", "x"), w, x)
    with np.errstate(all="ignore"):
        dense = [
            _spread(np.broadcast_to(partial, shape), operand.shape)
            for partial, operand in zip(partials(w, x), (w, x), strict=True)
        ]
    return result(dense[0], dtype), result(dense[1], dtype)


def binary_vjp(
    partials: Partials, dout: npt.ArrayLike, w: npt.ArrayLike, x: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Pull a cotangent back to both operands."""
    dtype, (dout, w, x) = as_floats({"dout": dout, "w": w, "x": x})
    check_shape("dout", dout, broadcast_shape(("w", "x"), w, x))
    with np.errstate(all="ignore"):
        dw, dx = (
            result(unbroadcast(dout * partial, operand.shape), dtype)
            for partial, operand in zip(partials(w, x), (w, x), strict=True)
        )
    return dw, dx


def binary_jvp(partials: Partials, primals: Any, tangents: Any) -> FloatArray:
    """Push the tangents of both operands forward."""
    dtype, (w, x), (dw, dx) = as_tangents(primals, tangents, count=2)
    shape = broadcast_shape(("primals[0]", "primals[1]"), w, x)
    with np.errstate(all="ignore"):
        moved = [
            partial * tangent
            for partial, tangent, given in zip(partials(w, x), (dw, dx), tangents, strict=True)
            if given is not None  # zero, even where the partial derivative is not finite
        ]
        return result(sum(moved, np.zeros(shape)), dtype)
