"""
The forms of a loss that is a formula of arrays, without a loop of its own.

A loss has terms, which are reduced, and a slope of each term for each number of each input.  An
input may have more numbers than there are terms, on one axis, over which a term is a sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._core.arguments import FloatArray, as_floats, as_tangents, check_shape, choice, result
from .reduction import REDUCTIONS, reduced, seeds

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Smooth"]


class Smooth(NamedTuple):
    """A loss of several arrays of one shape; gradients are with respect to the first `wanted`."""

    names: tuple[str, ...]
    check: Callable[[tuple[str, ...], list[FloatArray]], None]
    terms: Callable[..., FloatArray]
    slopes: Callable[..., tuple[FloatArray, ...]]
    axis: int | None = None  # over which a term is a sum
    wanted: int = 1

    def value(self, inputs: tuple[Any, ...], reduction: str) -> FloatArray:
        """Return the reduced loss."""
        dtype, arrays = as_floats(dict(zip(self.names, inputs, strict=True)))
        self._check(self.names, arrays, reduction)
        with np.errstate(all="ignore"):
            return result(reduced(self.terms(*arrays), reduction), dtype)

    def grad(self, inputs: tuple[Any, ...], reduction: str) -> tuple[FloatArray, ...]:
        """Return the gradients of a scalar loss."""
        dtype, arrays = as_floats(dict(zip(self.names, inputs, strict=True)))
        self._check(self.names, arrays, reduction)
        choice("reduction", reduction, REDUCTIONS[:2])
        grads = self._pulled(np.ones(()), arrays, reduction)
        return tuple(result(g, dtype) for g in grads[: self.wanted])

    def vjp(self, dout: Any, inputs: tuple[Any, ...], reduction: str) -> tuple[FloatArray, ...]:
        """Pull the cotangent of the loss back to all inputs."""
        given = dict(zip(self.names, inputs, strict=True))
        dtype, (u, *arrays) = as_floats({"dout": dout, **given})
        self._check(self.names, arrays, reduction)
        return tuple(result(g, dtype) for g in self._pulled(u, arrays, reduction))

    def _pulled(self, u: FloatArray, arrays: list[FloatArray], reduction: str) -> list[FloatArray]:
        with np.errstate(all="ignore"):
            each = seeds(u, self._shape(arrays[0]), reduction)
            if self.axis is not None:
                each = np.expand_dims(each, self.axis)
            return [each * slope for slope in self.slopes(*arrays)]

    def jvp(self, primals: Any, tangents: Any, reduction: str) -> FloatArray:
        """Push tangents forward to the loss."""
        count = len(self.names)
        dtype, arrays, moves = as_tangents(primals, tangents, count=count)
        self._check(tuple(f"primals[{i}]" for i in range(count)), arrays, reduction)
        with np.errstate(all="ignore"):
            moved: Any = np.zeros(arrays[0].shape)
            for slope, move, given in zip(self.slopes(*arrays), moves, tangents, strict=True):
                if given is not None:  # zero, even where the slope is not finite
                    moved = moved + slope * move
            terms = moved if self.axis is None else moved.sum(self.axis)
            return result(reduced(terms, reduction), dtype)

    def _check(self, names: tuple[str, ...], arrays: list[FloatArray], reduction: str) -> None:
        self.check(names, arrays)
        for name, array in zip(names[1:], arrays[1:], strict=True):
            check_shape(name, array, arrays[0].shape)
        choice("reduction", reduction, REDUCTIONS)

    def _shape(self, array: FloatArray) -> tuple[int, ...]:
        """Return the shape of the terms."""
        if self.axis is None:
            return array.shape
        return array.shape[1:] if self.axis == 0 else array.shape[:-1]
