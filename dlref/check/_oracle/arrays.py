"""Arrays of other libraries, to NumPy and back; none of these libraries is imported here first."""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any

import numpy as np

from ..._core.arguments import choice
from ..._core.foreign import as_numpy_array, kind_of
from ..._core.pytree import map_tree

FRAMEWORKS = ("numpy", "torch", "jax")


#: Apply a function to all that is within tuples and lists.
map_leaves = functools.partial(map_tree, is_node=lambda value: isinstance(value, tuple | list))


def as_numpy(value: Any) -> Any:
    """Return arrays of any library as NumPy's, within tuples and lists; all else as it is."""
    return map_leaves(as_numpy_array, value)


def framework_of(values: Any, name: str | None = None) -> str:
    """Return the library that a caller names, or the first array's that is not NumPy's."""
    if name is not None:
        choice("framework", name, FRAMEWORKS)
        return name
    kinds: list[str] = []
    map_leaves(lambda value: kinds.append(kind_of(value)), values)
    return next((kind for kind in kinds if kind != "numpy"), "numpy")


#: Of more numbers than these before an array's first one, so many and a remainder are copied.
LEAD = 8


def lead_of(array: Any) -> int:
    """Return how many numbers a copy has before its first one: at most as many as the original."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    before = np.lib.array_utils.byte_bounds(array)[0] - np.lib.array_utils.byte_bounds(owner)[0]
    lead = before // array.itemsize
    return int(lead if lead < 2 * LEAD else LEAD + lead % LEAD)


@np.errstate(all="ignore")  # of numbers that another dtype does not have
def copied(array: Any, dtype: Any = None) -> Any:
    """Copy an array with the order, the gaps and the beginning of its memory."""
    dtype = array.dtype if dtype is None else dtype
    if not array.size:
        return array.astype(dtype)
    low, high = np.lib.array_utils.byte_bounds(array)
    old, new = array.itemsize, dtype.itemsize
    lead = lead_of(array) * old
    memory = np.zeros((high - low + lead) // old * new, np.uint8)
    strides = [stride // old * new for stride in array.strides]
    first = (array.ctypes.data - low + lead) // old * new
    if dtype.kind not in "biu":  # neither 0 nor one number in all places
        np.ndarray(lead // old, dtype, memory)[...] = np.arange(lead // old) + 1
    out = np.ndarray(array.shape, dtype, memory, first, strides)
    out[...] = array
    return out


def device_of(values: Any, framework: str, device: Any = None) -> Any:
    """Return the device that a caller names, or the one of the first tensor that is on another."""
    if device is not None and framework != "torch":
        msg = f"Argument 'device' must be None where 'framework' is not 'torch', not {device!r}."
        raise ValueError(msg)
    devices: list[Any] = [device]
    map_leaves(lambda value: devices.append(getattr(value, "device", None)), values)
    return next((d for d in devices if d is not None and str(d) != "cpu"), device)


def _to(array: Any, framework: str, device: Any = None) -> Any:
    if framework == "jax":
        return importlib.import_module("jax.numpy").asarray(array)
    torch = importlib.import_module("torch")
    if min(array.strides, default=0) < 0:  # PyTorch has no such memory
        array = array.copy()
    if isinstance(array.base, np.ndarray) and (device is not None or lead_of(array)):
        return _strided(torch, array, device)
    if array.dtype.name == "bfloat16":
        return _on_device(torch.from_numpy(array.view(np.int16)).view(torch.bfloat16), device)
    return _on_device(torch.from_numpy(array), device)


def _on_device(tensor: Any, device: Any) -> Any:
    return tensor if device is None else tensor.to(device)


def _strided(torch: Any, array: Any, device: Any) -> Any:
    """
    Return a copy's whole memory as a tensor, and the array as a part of it.

    A device has the strides and the gaps of the array only if all of its memory is placed there.
    PyTorch counts an offset from the beginning of the storage.
    """
    memory = torch.from_numpy(array.base).view(getattr(torch, array.dtype.name))
    strides = [stride // array.itemsize for stride in array.strides]
    return _on_device(memory, device).as_strided(array.shape, strides, lead_of(array))


def handed(value: Any, framework: str, device: Any = None) -> Any:
    """Copy arrays, within tuples and lists, as arrays of a library; all else as it is."""
    return map_leaves(functools.partial(_handed, framework=framework, device=device), value)


def _handed(value: Any, framework: str, device: Any) -> Any:
    if isinstance(value, np.generic):
        return value.copy() if framework == "numpy" else _to(np.array(value), framework, device)
    if not isinstance(value, np.ndarray):
        return value
    copy = copied(value)
    if framework != "numpy":
        return _to(copy, framework, device)
    copy.flags.writeable = value.flags.writeable
    return copy


def calling(framework: str) -> Any:
    """Return the context in which a candidate runs: JAX keeps float64 in it."""
    if framework != "jax":
        return contextlib.nullcontext()
    older = getattr(importlib.import_module("jax.experimental"), "enable_x64", None)
    return (older or importlib.import_module("jax").enable_x64)(True)
