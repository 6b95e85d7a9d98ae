"""
The forms of a loss that is a formula of arrays, without a loop of its own.

A loss has terms, which are reduced, and a slope of each term for each number of each input.  A
term is a sum over one axis of the inputs, the first or the last.

Terms and slopes are computed in float64, piece by piece (`dlref._core.chunks`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_shape,
    choice,
    in_float64,
    result,
)
from ..._core.chunks import map_chunks
from .reduction import REDUCTIONS, reduced, seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Smooth(NamedTuple):
    """A loss of several arrays of one shape; gradients are with respect to the first `wanted`."""

    names: tuple[str, ...]
    check: Callable[[tuple[str, ...], list[FloatArray]], None]
    terms: Callable[..., FloatArray]
    slopes: Callable[..., tuple[FloatArray, ...]]
    axis: int  # over which a term is a sum: 0 or -1
    wanted: int = 1
    of_kernels: bool = False  # whether terms and slopes take arrays of float32, too

    def value(self, inputs: tuple[Any, ...], reduction: str) -> FloatArray:
        """Return the reduced loss."""
        given = dict(zip(self.names, inputs, strict=True))
        dtype, arrays = as_floats(given, work=np.float32)
        self._check(self.names, arrays, reduction)
        terms = np.empty(self._shape(arrays[0]))
        self._fill([terms], lambda *some: [self.terms(*some)], arrays)
        with np.errstate(all="ignore"):
            return result(reduced(terms, reduction), dtype)

    def grad(self, inputs: tuple[Any, ...], reduction: str) -> tuple[FloatArray, ...]:
        """Return the gradients of a scalar loss."""
        given = dict(zip(self.names, inputs, strict=True))
        dtype, arrays = as_floats(given, work=np.float32)
        self._check(self.names, arrays, reduction)
        choice("reduction", reduction, REDUCTIONS[:2])
        grads = self._pulled(np.ones(()), arrays, reduction, self.wanted)
        return tuple(result(g, dtype) for g in grads)

    def vjp(self, dout: Any, inputs: tuple[Any, ...], reduction: str) -> tuple[FloatArray, ...]:
        """Pull the cotangent of the loss back to all inputs."""
        given = dict(zip(self.names, inputs, strict=True))
        dtype, (u, *arrays) = as_floats({"dout": dout, **given}, work=np.float32)
        self._check(self.names, arrays, reduction)
        grads = self._pulled(in_float64(u), arrays, reduction, len(arrays))
        return tuple(result(g, dtype) for g in grads)

    def _pulled(
        self, u: FloatArray, arrays: list[FloatArray], reduction: str, count: int
    ) -> list[FloatArray]:
        def pulled(each: FloatArray, *some: FloatArray) -> list[FloatArray]:
            each = np.expand_dims(each, self.axis)
            return [each * slope for slope in self.slopes(*some)[:count]]

        grads = [np.empty(a.shape, a.dtype) for a in arrays[:count]]
        with np.errstate(all="ignore"):
            each = seeds(u, self._shape(arrays[0]), reduction)
        self._fill(grads, pulled, [each, *arrays])
        return grads

    def _fill(
        self,
        outs: list[FloatArray],
        formulas: Callable[..., Sequence[FloatArray]],
        arrays: list[FloatArray],
    ) -> None:
        """Write the results of formulas of arrays, whose first axis becomes the terms'."""
        count, inputs = math.prod(self._shape(arrays[-1])), arrays[-1].ndim

        def transposed(*some: FloatArray) -> list[FloatArray]:
            return [values.T for values in formulas(*(a.T for a in some))]

        def rows(a: FloatArray) -> FloatArray:
            if a.ndim < inputs:
                return a.reshape(count)
            return a.reshape(len(a), count).T if self.axis == 0 else a.reshape(count, a.shape[-1])

        function = transposed if self.axis == 0 else formulas
        inner = [rows(a) for a in outs], function, [rows(a) for a in arrays]
        map_chunks(*inner, convert=not self.of_kernels)

    def jvp(self, primals: Any, tangents: Any, reduction: str) -> FloatArray:
        """Push tangents forward to the loss."""
        count = len(self.names)
        dtype, arrays, moves = as_tangents(primals, tangents, count=count)
        names = tuple(f"primals[{i}]" for i in range(count)) if count > 1 else ("primals",)
        self._check(names, arrays, reduction)
        with np.errstate(all="ignore"):
            moved: Any = np.zeros(arrays[0].shape)
            entries = tangents if count > 1 else (tangents,)
            for slope, move, given in zip(self.slopes(*arrays), moves, entries, strict=True):
                if given is not None:  # zero, even where the slope is not finite
                    moved = moved + slope * move
            return result(reduced(moved.sum(self.axis), reduction), dtype)

    def _check(self, names: tuple[str, ...], arrays: list[FloatArray], reduction: str) -> None:
        self.check(names, arrays)
        for name, array in zip(names[1:], arrays[1:], strict=True):
            check_shape(name, array, arrays[0].shape)
        choice("reduction", reduction, REDUCTIONS)

    def _shape(self, array: FloatArray) -> tuple[int, ...]:
        """Return the shape of the terms."""
        return array.shape[1:] if self.axis == 0 else array.shape[:-1]
