"""
Files of safetensors, read with NumPy alone.

Eight bytes are the length of a header, which is JSON: for each tensor its dtype, its shape and
where its bytes begin and end. The numbers of all tensors follow, one tensor after the other. A
tensor is read into an array of its own. The package safetensors maps the file into memory and
copies it from there, which takes more than twice as long for large tensors. A large model has
several files, and an index, also JSON, that says in which file a tensor is.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable
from functools import cache, cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from .._core.archives import UNREADABLE

Array = np.ndarray[Any, Any]

LONGEST = 100_000_000  # bytes of a header, as in the package safetensors
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U64": "<u8",
    "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?", "C64": "<c8",
}  # fmt: skip


class Entry(NamedTuple):
    """Dtype, shape and place of a tensor."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int  # from the beginning of the file

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class InFile:
    """A tensor of a file, which is read whenever its numbers are asked for."""

    def __init__(self, path: str, entry: Entry) -> None:
        self.path, self.entry = path, entry

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the numbers, a new array each time."""
        kind, shape, start = self.entry
        array = np.fromfile(self.path, kind, math.prod(shape), offset=start)
        return np.asarray(array.reshape(shape), dtype)

    def rows(self, first: int, last: int) -> InFile:
        """Return rows `first` to `last` - 1 of the tensor, which follow each other in the file."""
        kind, (_, *rest), start = self.entry
        start += first * math.prod(rest) * kind.itemsize
        return InFile(self.path, Entry(kind, (last - first, *rest), start))


class InShard(InFile):
    """A tensor of one of several files, whose header is read when the tensor is first used."""

    def __init__(self, path: str, name: str, header: Callable[[str], dict[str, InFile]]) -> None:
        self.path, self.name, self.header = path, name, header

    @cached_property
    def entry(self) -> Entry:  # type: ignore[override]
        """Return the tensor's place, which the header of its file has."""
        try:
            return self.header(self.path)[self.name].entry
        except KeyError:
            problem = f"it has no tensor {self.name!r:.80}, which its index says that it has"
        except UNREADABLE as error:
            problem = str(error)
        msg = f"Argument 'path' must be a file of tensors, not {self.path!r:.200}: {problem}."
        raise ValueError(msg) from None


def tensors_of_index(path: str) -> dict[str, InFile]:
    """Return the tensors of the files that an index names; none of these files is opened."""
    with open(path, encoding="utf-8") as file:
        index = json.load(file, object_pairs_hook=_once)
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict):
        msg = "it has no 'weight_map'"
        raise TypeError(msg)
    for shard in places.values():  # an index leads to no other folder
        if not isinstance(shard, str) or shard in ("", "..") or os.path.basename(shard) != shard:
            msg = f"{shard!r:.80} is not the name of a file beside it"
            raise ValueError(msg)
    header, folder = cache(tensors_of), os.path.dirname(path)
    return {
        name: InShard(os.path.join(folder, shard), name, header) for name, shard in places.items()
    }


def tensors_of(path: str) -> dict[str, InFile]:
    """Return the tensors of a file. An invalid header raises ValueError or TypeError."""
    with contextlib.suppress(ImportError):
        import_module("ml_dtypes")  # makes the name bfloat16 known to NumPy
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, LONGEST):
            msg = f"its header has {length} bytes"
            raise ValueError(msg)
        header = json.loads(file.read(length), object_pairs_hook=_once)
    if not isinstance(header, dict):
        msg = "its header is not a dictionary"
        raise TypeError(msg)
    header.pop("__metadata__", None)
    entries = {name: _entry(name, options, 8 + length) for name, options in header.items()}
    _check_places(entries, 8 + length, size)
    return {name: InFile(path, entry) for name, entry in entries.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dictionary of pairs, unless a name occurs twice."""
    named = dict(pairs)
    if len(named) < len(pairs):
        msg = "a name occurs twice in its header"
        raise ValueError(msg)
    return named


def _entry(name: str, header: Any, start: int) -> Entry:
    """Return the entry of a tensor, checked by itself."""
    match header:
        case {"dtype": str(kind), "shape": [*shape], "data_offsets": [int(first), int(last)]}:
            pass
        case _:
            msg = f"{name!r:.80} has no dtype, shape and data_offsets"
            raise TypeError(msg)
    if kind not in DTYPES:
        msg = f"{name!r:.80} has the unknown dtype {kind!r:.20}"
        raise ValueError(msg)
    try:
        dtype = np.dtype(DTYPES[kind])
    except TypeError:
        msg = f"NumPy has no dtype {DTYPES[kind]}"
        raise TypeError(msg) from None
    np.broadcast_to(np.zeros((), dtype), shape)  # raises for a shape that no array can have
    entry = Entry(dtype, tuple(shape), start + first)
    if entry.nbytes != last - first:
        msg = f"{name!r:.80} has the shape {shape!r:.80} and {last - first} bytes"
        raise ValueError(msg)
    return entry


def _check_places(entries: dict[str, Entry], start: int, size: int) -> None:
    """Raise ValueError unless the tensors fill the file, one after the other."""
    in_order = sorted(entries.items(), key=lambda item: (item[1].start, item[1].nbytes))
    for name, entry in in_order:
        if entry.start != start:
            msg = f"{name!r:.80} does not begin where the tensor before it ends"
            raise ValueError(msg)
        start += entry.nbytes
    if start != size:
        msg = f"its tensors end at byte {start} of {size}"
        raise ValueError(msg)
