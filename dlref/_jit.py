"""
The one place where numba is configured; nothing else in dlref imports it.

A kernel is a loop over preallocated arrays.  It is also legal, plain Python: where
numba is missing (a browser) or switched off (``NUMBA_DISABLE_JIT=1``: a debugger, a
coverage run) the same lines run interpreted, slower, with the same results.

Accumulators start as ``np.float64(0.0)``: a bare ``0.0`` is float64 when compiled but
takes the dtype of the other operand when interpreted (NEP 50).

Compiled code is kept on disk, in a folder named after dlref's version and a hash of its
sources.  numba itself only notices edits of the file that holds the kernel; a kernel
inlined from another file would be answered by stale code.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

try:
    import numba
except ImportError:  # pragma: no cover  # no wheel for this platform, or too new a NumPy for it
    numba = None

__all__ = [
    "COMPILED",
    "cache_folder",
    "emitted",
    "exchanged",
    "formula",
    "kernel",
    "literal_formula",
    "loop_over",
    "summation",
]

F = TypeVar("F", bound="Callable[..., Any]")

#: Whether kernels are compiled; otherwise they run as plain Python.
COMPILED: bool = numba is not None and not numba.config.DISABLE_JIT

if COMPILED:
    # numba loads what it knows about NumPy and SciPy, a quarter of a second, at the first
    # call of a process.  Done here it belongs to the import, and a first call whose code is
    # on disk takes milliseconds.
    numba.core.registry.cpu_target.typing_context.refresh()
    numba.core.registry.cpu_target.target_context.refresh()


def _source_hash() -> str:
    digest = hashlib.blake2b(digest_size=8)
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _user_cache() -> Path:
    """Return the folder that the platform reserves for caches."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return Path(os.environ["NUMBA_CACHE_DIR"])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def cache_folder() -> Path | None:
    """
    Return the folder for compiled code, or None if no folder can be written.

    The folder's name changes with every edit of a source file of dlref, so that an
    answer never comes from code that is no longer there.
    """
    from . import __version__  # noqa: PLC0415  # this module loads while dlref does

    try:
        folder = _user_cache() / "dlref" / f"{__version__}-{_source_hash()}"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # read-only, or a user without a home
        return None


_CACHE = cache_folder() if COMPILED else None

#: What each kernel and formula was compiled from, and by what.
_SOURCES: dict[Any, tuple[FunctionType, Callable[[Any], Any]]] = {}


def kernel(function: F) -> F:
    """
    Compile a loop with numba, keeping the result on disk.

    Compiled kernels release the GIL, so that `dlref._parallel` can run them on several
    threads, and divide as NumPy does: ``x / 0`` is infinite instead of an exception.
    """
    if not COMPILED:
        quiet: F = np.errstate(all="ignore")(function)  # compiled code warns of nothing
        _SOURCES[quiet] = function, kernel  # type: ignore[assignment]
        return quiet
    folder = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_CACHE or "")  # read once, when the cache is set up
    try:
        compiled: F = numba.njit(nogil=True, error_model="numpy", cache=_CACHE is not None)(
            function
        )
    finally:
        numba.config.CACHE_DIR = folder
    _SOURCES[compiled] = function, kernel  # type: ignore[assignment]
    return compiled


def formula(function: F) -> F:
    """
    Compile a function of numbers for use inside kernels.

    It becomes part of the loop that calls it, so that LLVM can treat several elements at
    once.  A product that is added may be rounded once instead of twice (``contract``); no
    other freedom is given, because the formulas rely on the order of their operations.
    """
    return _inlined(function, {"contract"})


def literal_formula(function: F) -> F:
    """
    Compile like `formula`, rounding after every operation: for exact error terms.

    Also for a part of a kernel that takes several arrays, of seven words each, for every row.
    """
    return _inlined(function, set())


def summation(function: F) -> F:
    """
    Compile a function that sums an array up, in whatever order is fastest.

    The order decides the rounding errors, not more: call it on short pieces.
    """
    return _inlined(function, {"reassoc", "nsz", "contract"})


def _inlined(function: F, fastmath: set[str]) -> F:
    compiled = function
    if COMPILED:
        compiled = numba.njit(nogil=True, error_model="numpy", fastmath=fastmath, forceinline=True)(
            function
        )
    _SOURCES[compiled] = function, lambda copy: _inlined(copy, fastmath)  # type: ignore[assignment]
    return compiled


def emitted(interpreted: F, emit: Callable[..., Any], result: str = "void") -> F:
    """
    Return a function, of arrays or numbers, which, compiled, is the LLVM code that `emit` writes.

    `emit` gets numba's context and builder, the signature and the arguments, and returns a value
    of numba's type `result`, that of None for "void".  Interpreted it is `interpreted`, which has
    one argument to three.
    """
    if not COMPILED:
        return interpreted

    kind = getattr(numba.types, result)

    def of_one(_: Any, a: Any) -> Any:
        return kind(a), emit

    def of_two(_: Any, a: Any, b: Any) -> Any:
        return kind(a, b), emit

    def of_three(_: Any, a: Any, b: Any, c: Any) -> Any:
        return kind(a, b, c), emit

    typed: Any = (of_one, of_two, of_three)[interpreted.__code__.co_argcount - 1]
    function: F = numba.extending.intrinsic(typed)
    return function


def loop_over(template: F, **formulas: Callable[..., Any]) -> F:
    """
    Compile a copy of the loop `template` in which the given global names mean `formulas`.

    Globals, not arguments or a closure: only so can numba keep the code on disk.  There it is
    found by its name, which is therefore that of the template and of the formulas.
    """
    parts = [f"{f.__module__.rpartition('.')[2]}_{f.__name__}" for f in formulas.values()]
    copy: F = _renamed(template, "_of_".join([template.__name__, *parts]), formulas)
    return kernel(copy)


def exchanged(function: F, replacements: Mapping[Any, Any], suffix: str) -> F:
    """
    Return a copy of a kernel or formula that computes with other formulas.

    Wherever it, or what it calls, calls a key of `replacements`, the copy calls the value.  Its
    name ends in `suffix`; a function in which there is nothing to replace is its own copy.
    """
    if function in replacements:
        return replacements[function]  # type: ignore[no-any-return]
    if function not in _SOURCES:
        return function
    source, compiled = _SOURCES[function]
    called = {name: source.__globals__.get(name) for name in source.__code__.co_names}
    news = {n: exchanged(f, replacements, suffix) for n, f in called.items() if callable(f)}
    if all(f is called[name] for name, f in news.items()):
        return function
    return compiled(_renamed(source, f"{source.__name__}_{suffix}", news))  # type: ignore[no-any-return]


def _renamed(function: Any, name: str, names: dict[str, Any]) -> Any:
    """Copy a function, giving a name to it and a meaning to some of its global names."""
    code = function.__code__.replace(co_name=name, co_qualname=name)
    copy = FunctionType(code, {**function.__globals__, **names}, name)
    copy.__module__ = function.__module__
    return copy
