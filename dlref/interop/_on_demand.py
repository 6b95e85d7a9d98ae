"""Matrices that stay in their file: products with them read as many rows at a time as fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.arguments import float_dtype
from .._core.pytree import map_tree
from ..neurons import linear
from ._safetensors import InFile
from ._tensors import Sizes, Tensor, Zeros, is_node, misfit, raise_all, without_optional

if TYPE_CHECKING:
    from .._core.arguments import FloatArray, FloatDType

AT_ONCE = 2**25  # bytes of the rows that are in memory together, in the dtype of the products
FEWEST = 2**16  # numbers of a matrix that is worth the trouble


class OnDemand:
    """
    A matrix that stays in its file, in the orientation that dlref uses.

    `trace` multiplies by it (`applied`). To everything else it is an array that is read again
    each time: the search for causes tries changed matrices.
    """

    def __init__(self, stored: InFile, tensor: Tensor, dtype: Any) -> None:
        self.stored, self.tensor, self.dtype = stored, tensor, np.dtype(dtype)
        self.products: dict[bytes, FloatArray] = {}  # of the last inputs; they are small
        n = tensor.heads and stored.entry.shape[0] // tensor.heads
        #: Whether any rows can be read alone, and how many of them belong together.
        self.apart = tensor == Tensor(tensor.name, tensor.shape, heads=tensor.heads)
        self.together = n or 1
        self.shape = stored.entry.shape if self.apart else np.asarray(self).shape
        self.ndim, self.size = len(self.shape), int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        """Return the numbers, a new array each time."""
        array = self.tensor.parameter_from(np.asarray(self.stored))
        return np.array(array, self.dtype if dtype is None else dtype, order="C")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # such names are asked for to find out what an object is
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index]

    def _blocks(self) -> Iterator[FloatArray]:
        """Yield the matrix in blocks of rows, in order."""
        if not self.apart:
            yield np.asarray(self)
            return
        rows = AT_ONCE // (self.shape[1] * self.dtype.itemsize * self.together)
        step = max(rows, 1) * self.together
        for first in range(0, len(self), step):
            some = self.stored.rows(first, min(first + step, len(self)))
            heads = some.entry.shape[0] // self.together if self.tensor.heads else 0
            array = self.tensor._replace(heads=heads).parameter_from(np.asarray(some))
            yield np.asarray(array, self.dtype)

    def applied(self, x: FloatArray) -> FloatArray:
        """Return the product of each row of x with the transposed matrix."""
        key = x.tobytes()
        if key not in self.products:
            if len(self.products) > 3:
                self.products.clear()
            parts = [linear(x, block) for block in self._blocks()]
            self.products[key] = np.concatenate(parts, axis=-1)
        return self.products[key].copy()

    def rows_of(self, numbers: Any) -> FloatArray:
        """Return some rows alone: of a matrix of embeddings, the rows of a text."""
        if not self.apart:
            return np.asarray(np.asarray(self)[numbers])
        rows = [np.asarray(self.stored.rows(n, n + 1), self.dtype) for n in numbers]
        return np.concatenate(rows)


def refer(
    layout: Any, state: Mapping[str, Any], what: str, sizes: Sizes, dtype: FloatDType
) -> tuple[FloatDType, Any]:
    """
    Return the dtype to compute in, and the parameters of a layout, large matrices on demand.

    The dtype is `dtype`, or float64 if a tensor is. As in `read`, all tensors that are missing or
    of another shape are named; no others are touched.
    """
    problems: dict[str, str] = {}
    kinds = [np.dtype(dtype)]

    def checked(entry: Any) -> Any:
        """Return the tensor of an entry, or None."""
        if entry is None or isinstance(entry, Zeros) or entry.name not in state:
            if isinstance(entry, Tensor) and not entry.optional:
                problems[entry.name] = f"{entry.name!r} is missing"
            return None
        value = state[entry.name]
        stored = value if isinstance(value, InFile) else np.asarray(value)
        array: Any = stored.entry if isinstance(stored, InFile) else stored
        kinds.append(float_dtype(entry.name, array.dtype, integers=False))  # refuses quantized ones
        if want := misfit(array.shape, entry.shape, sizes):
            problems[entry.name] = f"{entry.name!r} must have shape {want}, not {array.shape}"
        return stored

    def taken(entry: Any, stored: Any) -> Any:
        if stored is None:
            return None
        plain = isinstance(stored, InFile) and len(stored.entry.shape) == 2 and not entry.form
        if plain and _is_large(stored):
            return OnDemand(stored, entry, work)
        return np.array(entry.parameter_from(np.asarray(stored)), work, order="C")

    arrays = map_tree(checked, layout, is_node=is_node)
    raise_all(f"Argument 'path' must hold the tensors of {what}", list(problems.values()))
    work: Any = np.dtype(np.float64 if np.dtype(np.float64) in kinds else np.float32)
    return work, without_optional(layout, map_tree(taken, layout, arrays, is_node=is_node))


def _is_large(stored: InFile) -> bool:
    return int(np.prod(stored.entry.shape)) >= FEWEST
