"""Functions that a changed formula may call: other formats, parts of sums, padding."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np


def _rounded_to(name: str, a: Any) -> Any:
    """Return float64 whose numbers are rounded to another format."""
    importlib.import_module("ml_dtypes")  # NumPy knows bfloat16 from then on
    return np.asarray(a).astype(name).astype(np.float64)


def in_block(a: Any, size: int, axis: Any, *, which: str) -> Any:
    """Return an array that is 0 but for its first or last block along axes, or its whole ones."""
    a = np.asarray(a)
    axes = range(a.ndim) if axis is None else np.atleast_1d(axis) % a.ndim
    shape = [n if i in axes else 1 for i, n in enumerate(a.shape)]
    count = int(np.prod(shape))
    block = np.arange(count).reshape(shape) // size
    wanted = {"first": block == 0, "last": block == (count - 1) // size}
    return a * wanted.get(which, block < count // size)


def _with_zeros(a: Any, block: int) -> Any:
    """Return an array whose last axis is padded with zeros to whole blocks."""
    more = padded(np.shape(a)[-1], block) - np.shape(a)[-1]
    return np.concatenate([a, np.zeros((*np.shape(a)[:-1], more))], -1)


def _over_rows(sums: Any, block: int, *, average: bool) -> Any:
    """Return sums of rows that kernels take over a block of rows: added up, or averaged."""
    flat = np.asarray(sums).reshape(-1)
    starts = np.arange(0, flat.size, block)
    counts = np.diff(np.append(starts, flat.size))
    totals = np.add.reduceat(flat, starts) / (counts if average else 1)
    return np.repeat(totals, counts).reshape(np.shape(sums))


def _mean_by_less(a: Any, axis: Any = None, **options: Any) -> Any:
    """Return a sum over the count less one, as an unbiased variance is."""
    mean = np.mean(a, axis, **options)
    n = np.size(a) / max(1, np.size(mean))
    return mean * n / (n - 1) if n > 1 else mean


def _off_diagonal(a: Any) -> Any:
    """Return an array whose last two axes make a square, with zeros on the diagonal of that."""
    if np.ndim(a) < 2 or np.shape(a)[-1] != np.shape(a)[-2]:
        raise NotImplementedError
    return a * (1 - np.eye(np.shape(a)[-1]))


def _at_indices(a: Any, indices: Any) -> Any:
    """Return an array that is 0 but at the places of its last axis that indices say."""
    places = np.reshape(indices, (*np.shape(a)[:-1], -1))
    return a * (places[..., None] == np.arange(np.shape(a)[-1])).any(-2)


def _beyond_indices(a: Any, indices: Any) -> Any:
    """Return an array that is 0 at those places."""
    return a - _at_indices(a, indices)


def _plus(a: Any, b: Any) -> Any:
    """Return the sum of an array and another one, if that is given."""
    return a if b is None else a + b


def _of_floats(a: Any) -> Any:
    """Return floats as they are; an integer may be a size, and an array too large with a factor."""
    if np.asarray(a).dtype.kind != "f":
        raise NotImplementedError
    return a


def _of_positive(f: Any, a: Any) -> Any:
    """Return f(a), unless a number is negative."""
    if np.min(a, initial=0.0) < 0:
        raise NotImplementedError
    return f(a)


def padded(n: int, block: int) -> int:
    """Return a size rounded up to whole blocks, or to a power of two where there are none."""
    return -(-n // block) * block if block else 1 << (n - 1).bit_length()


def _activation(x: Any, *, name: str) -> Any:
    return getattr(importlib.import_module("dlref.formulas.activations"), name)(x)


class Constant:
    """A function whose results in a first pass are returned in later ones, whatever it is given."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.place: int | None = None

    def __call__(self, value: Any) -> Any:
        """Keep a value, or return the one that was kept at this point of the first pass."""
        if self.place is None:
            self.values.append(np.copy(value))
            return value
        self.place += 1
        return self.values[self.place - 1]


class Unknown:
    """A number of a formula that is looked for."""

    value = 1.0

    def __call__(self) -> float:
        """Return the value that is tried."""
        return self.value


#: The number that is looked for.
SOLVED = Unknown()
#: It holds an intermediate fixed while a formula is differentiated.
CONSTANT = Constant()
#: Functions that round an intermediate.
FORMATS = {name: functools.partial(_rounded_to, name) for name in ("bfloat16", "float16")}
#: All of them, by name.
HELPERS: dict[str, Any] = {
    **FORMATS,
    "first_block": functools.partial(in_block, which="first"),
    "last_block": functools.partial(in_block, which="last"),
    "whole_blocks": functools.partial(in_block, which="whole"),
    "with_zeros": _with_zeros,
    "sum_of_rows": functools.partial(_over_rows, average=False),
    "mean_of_rows": functools.partial(_over_rows, average=True),
    "mean_by_less": _mean_by_less,
    "padded": padded,
    "off_diagonal": _off_diagonal,
    "at_indices": _at_indices,
    "beyond_indices": _beyond_indices,
    "plus": _plus,
    "of_floats": _of_floats,
    "_sqrt": functools.partial(_of_positive, np.sqrt),
    "_log": functools.partial(_of_positive, np.log),
    "constant": CONSTANT,
    "solved": SOLVED,
    **{
        name: functools.partial(_activation, name=name)
        for name in ("softmax", "sigmoid", "relu", "silu", "gelu")
    },
}
