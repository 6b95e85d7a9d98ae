"""
Elements that a candidate leaves unwritten.

An array of ``np.empty`` or ``torch.empty`` has the old contents of its memory, which can be the
right result of an earlier call. So a candidate runs in memory that is filled with NaN.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._core.pytree import is_float, tree_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The explanation of an output that has such elements.
NOT_WRITTEN = "not written (these elements have the old contents of the memory)"
#: The bytes that memory is filled with: NaN in each format and -1 in integers, or 0.
NAN, ZERO = 0xFF, 0x00
#: NumPy keeps so many freed blocks of each size, and hands out the one that was freed last.
BLOCKS = 7
#: glibc keeps as many for each thread, of up to about so many bytes.
SMALL = 1024
#: Blocks of more bytes are left alone where each has to be filled.
LARGE = 2**24
#: glibc's number of the option that fills memory when it is allocated.
M_PERTURB = -6
#: Where PyDataMem_SetHandler and PyDataMem_GetHandler stand in NumPy's table of C functions.
SET_HANDLER, GET_HANDLER = 304, 305
#: The version of the structure below.
HANDLER_VERSION = 1
#: glibc looks for such blocks in the heap itself, not among the small ones that were just freed.
ALIGNMENT = 1024


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler: the functions that allocate the memory of arrays."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        *((name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free")),
    )


class _Glibc(NamedTuple):
    """How glibc and NumPy are told where memory comes from, and how it is filled."""

    library: Any
    set_handler: Callable[[Any], Any]
    handler: Any  # a capsule


@functools.cache
def _glibc() -> _Glibc | None:
    """
    Return how glibc fills all memory that it hands out; None where there is another allocator.

    NumPy keeps freed blocks for itself. With a handler of its own it does not ask for these: malloc
    is ``aligned_alloc``, whose first argument is the alignment where a handler's is its context.
    """
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or not hasattr(libc, "gnu_get_libc_version"):
        return None
    api, name = ctypes.pythonapi, b"mem_handler"
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    capsule = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    )(("PyCapsule_New", api))
    numpy_api = importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API
    table = ctypes.cast(pointer_of(numpy_api, None), ctypes.POINTER(ctypes.c_void_p))
    get_handler = ctypes.PYFUNCTYPE(ctypes.py_object)(table[GET_HANDLER])
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[SET_HANDLER])
    own = _Handler.from_buffer_copy(_Handler.from_address(pointer_of(get_handler(), name)))
    if own.version != HANDLER_VERSION:
        return None
    own.name, own.ctx = b"dlref.check", ALIGNMENT
    own.malloc = ctypes.cast(libc.aligned_alloc, ctypes.c_void_p).value
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    kept = own, name
    # Arrays may outlive this module, and its cache: each frees its memory by this structure.
    api.Py_IncRef(ctypes.py_object(kept))
    return _Glibc(libc, set_handler, capsule(ctypes.addressof(own), name, None))


@contextlib.contextmanager
def poisoned(
    values: Any, byte: int = NAN, framework: str = "numpy", device: Any = None
) -> Iterator[None]:
    """
    Fill the memory that is allocated within this context with one byte.

    Where glibc does not do that, blocks of the sizes of some `values` are filled and freed, to be
    handed out again: glibc's own small ones, another allocator's, and PyTorch's on a device. A
    program of JAX cannot leave memory unwritten.
    """
    glibc = _glibc()
    if glibc is None or device is not None:
        _fill_freed(_sizes(values), byte, framework, device)
    if glibc is None:
        yield
        return
    _fill_small(glibc.library, values, byte)
    before = glibc.set_handler(glibc.handler)
    # glibc fills freed memory as well. Objects of other libraries that are destroyed only now may
    # still be read by them: numba has crashed so, while it compiled.
    collects = gc.isenabled()
    gc.disable()
    # The option is the complement of the byte; the bit above it makes 0 different from no option.
    glibc.library.mallopt(M_PERTURB, 0x100 | (byte ^ 0xFF))
    try:
        yield
    finally:
        glibc.library.mallopt(M_PERTURB, 0)
        glibc.set_handler(before)
        if collects:
            gc.enable()


def _sizes(values: Any) -> list[int]:
    """Return the bytes of arrays and of their rows, in their own format and in wider ones."""
    sizes = set()
    for value in tree_leaves(values):
        if isinstance(value, np.ndarray | np.generic | float | int):
            a = np.asarray(value)
            sizes |= {n * width for n in (a.size, *a.shape[-1:]) for width in (a.itemsize, 4, 8)}
    return sorted(size for size in sizes if 0 < size <= LARGE)


def _fill_small(libc: Any, values: Any, byte: int) -> None:
    """
    Fill the small blocks that glibc keeps for each thread, and hands out as they are.

    A kernel of numba has up to some bytes more than its array, for the array's count of references.
    """
    own = {np.asarray(a).nbytes for a in tree_leaves(values) if a is not None}
    sizes = {n + 16 * i for n in own if n <= SMALL for i in range(8)}
    for size in sizes:
        blocks = [libc.malloc(size) for _ in range(BLOCKS)]
        for block in blocks:
            ctypes.memset(block, byte, size)
            libc.free(block)


def _fill_freed(sizes: list[int], byte: int, framework: str, device: Any) -> None:
    """Fill blocks of some sizes, several of each, and free them."""
    torch = importlib.import_module("torch") if framework == "torch" else None
    for size in sizes:
        blocks: list[Any] = [np.empty(size, np.uint8) for _ in range(BLOCKS)]
        if torch is not None:
            blocks += [torch.empty(size, dtype=torch.uint8, device=device) for _ in range(BLOCKS)]
        for block in blocks:
            block[...] = byte


def needs_another_call(want: Any, dtype: Any) -> bool:
    """Return whether memory of NaN does not tell: a result is no float, or NaN is right."""
    return not is_float(np.empty(0, dtype)) or bool(np.isnan(want).any())


def unwritten(got: Any, want: Any, again: Any = None) -> Any:
    """
    Return which elements a candidate has not written, in memory of NaN.

    `again` is its result in memory of zeros, where that is needed: integers have to be the same in
    both. In a NaN that is computed not all bits are set.
    """
    if not is_float(got):
        return np.zeros(got.shape, bool) if again is None else got != again
    there = (_bytes(got) == NAN).all(-1)
    is_nan = np.isnan(np.asarray(want, np.float64))
    return there & (~is_nan if again is None else ~is_nan | (_bytes(again) == ZERO).all(-1))


def _bytes(array: Any) -> Any:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return flat.reshape(*array.shape, array.itemsize)
