"""Arrays of other libraries as NumPy's; none of these libraries is imported before it is met."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import numpy as np


def _of_torch(tensor: Any) -> Any:
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if str(tensor.dtype) != "torch.bfloat16":
        return _in_storage(tensor)
    torch = importlib.import_module("torch")
    bfloat16 = importlib.import_module("ml_dtypes").bfloat16
    return _in_storage(tensor.view(torch.int16)).view(bfloat16)


def _in_storage(tensor: Any) -> Any:
    """Return the numbers of a tensor, as a part of its storage if it has an offset in it."""
    lead, array = tensor.storage_offset(), tensor.numpy()
    if not lead or not array.size:
        return array
    low, high = np.lib.array_utils.byte_bounds(array)
    storage = tensor.as_strided((lead + (high - low) // array.itemsize,), (1,), 0).numpy()
    return np.ndarray(array.shape, array.dtype, storage, lead * array.itemsize, array.strides)


def kind_of(value: Any) -> str:
    """Return the library that an object comes from."""
    name = type(value).__module__.split(".")[0]
    return {"torch": "torch", "jax": "jax", "jaxlib": "jax"}.get(name, "numpy")


def as_numpy_array(value: Any) -> Any:
    """Return an array of another library as NumPy's, all else as it is."""
    if isinstance(value, np.ndarray | np.generic | list | tuple) or np.isscalar(value):
        return value
    if kind_of(value) == "torch" and hasattr(value, "detach"):
        return _of_torch(value)
    if hasattr(value, "__array__"):
        with contextlib.suppress(TypeError):  # CuPy refuses a silent copy from the device
            return np.asarray(value)
    if hasattr(value, "get") and hasattr(value, "dtype"):
        return np.asarray(value.get())
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else value
