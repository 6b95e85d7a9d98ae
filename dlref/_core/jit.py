"""
The one place where numba is configured; nothing else in dlref imports it.

A kernel is a loop over preallocated arrays, its workspaces among them.  It is also legal, plain
Python: where numba is missing (a browser) or switched off (``NUMBA_DISABLE_JIT=1``: a debugger, a
coverage run) the same lines run interpreted, slower. Sums then round in another order, so that the
last bits differ.

The cache, the target and the lock are numba's private interface. All of it is looked up in one
place, `_internals`. Where a version of numba has changed it, a warning says so, and kernels are
compiled by plain ``numba.njit``, anew in every process.

Accumulators start as ``np.float64(0.0)``: a bare ``0.0`` is float64 when compiled but
takes the dtype of the other operand when interpreted (NEP 50).

Compiled code is kept on disk, in a folder named after all that it depends on: dlref's sources, the
versions of the compiler's packages, and the processor it is compiled for.  numba itself only
notices edits of the file that holds the kernel; a kernel inlined from another file would be
answered by stale code.
"""

from __future__ import annotations

import _thread
import contextlib
import contextvars
import gc
import hashlib
import inspect
import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .cache import folder_of, read, write

if TYPE_CHECKING:
    from types import FunctionType

try:
    import llvmlite
    import numba
except ImportError:  # pragma: no cover  # no wheel for this platform, or too new a NumPy for it
    numba = None

F = TypeVar("F", bound="Callable[..., Any]")

#: Whether kernels are compiled; otherwise they run as plain Python.
COMPILED: bool = numba is not None and not numba.config.DISABLE_JIT
#: Settings of numba that change the code of a kernel; others are part of the target.
SETTINGS = ("BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE")

#: Options of all compilations.  Nothing is called from C, which saves 8 % of their time.  No memory
#: is allocated: then a row of an array needs no count of its users, whose updates, which other
#: threads must see, would take as long as a row of a hundred numbers.
OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}

#: Objects that Python may allocate, while a kernel is compiled, before it looks for garbage.
OBJECTS = 20_000

#: Bytes of the stack of a thread that compiles: the usual size of a main thread.
STACK = 8 * 2**20

#: The function that each kernel and formula was compiled from, and its decorator.
SOURCES: dict[Any, tuple[Any, Callable[[Any], Any]]] = {}

#: How a thread is started. Libraries that replace it (gevent) would never run a compilation.
_start_new_thread = _thread.start_new_thread


def _internals() -> SimpleNamespace | None:
    """Return the parts of numba's private interface that are used here, or None with a warning."""
    try:
        core = numba.core
        internals = SimpleNamespace(
            cache=core.caching.FunctionCache,
            dumps=core.serialize.dumps,
            lock=core.compiler_lock.global_compiler_lock,
            rebuild=core.compiler.CompileResult._rebuild,
            target=core.registry.cpu_target.target_context,
        )
        # numba loads its tables of NumPy and SciPy, a quarter of a second, at the first call of
        # a process.  Done here it belongs to the import, and a first call whose code is
        # on disk takes milliseconds.
        core.registry.cpu_target.typing_context.refresh()
        internals.target.refresh()
        internals.target.codegen().magic_tuple()
        numba.njit(**OPTIONS)(lambda: None)._compile_for_args  # noqa: B018  # is it there?
    except (AttributeError, ImportError, KeyError, TypeError) as error:
        message = f"{type(error).__name__}: {error}; every process will compile anew"
        warnings.warn(
            f"dlref does not know numba {numba.__version__}: {message}", RuntimeWarning, 2
        )
        return None
    return internals


INTERNALS: Any = _internals() if COMPILED else None


def _target() -> tuple[str, ...]:
    """Return the system, the processor and its features that numba compiles for."""
    if INTERNALS is None:
        return ("unknown", "")
    return tuple(str(part) for part in INTERNALS.target.codegen().magic_tuple())


def target_has(feature: str) -> bool:
    """Return whether numba compiles for processors with a feature, such as "avx512f"."""
    return f"+{feature}" in _target()[-1].split(",")


def _hash_of_sources() -> str:
    digest = hashlib.blake2b(digest_size=8)
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


_SOURCES_AT_IMPORT = _hash_of_sources() if COMPILED else ""


@cache
def cache_folder() -> Path | None:
    """Return the folder for compiled code, or None if there is none to be trusted."""
    from .. import __version__  # noqa: PLC0415  # this module loads while dlref does

    versions = np.__version__, numba.__version__, llvmlite.__version__, sys.version
    settings = {name: getattr(numba.config, name, None) for name in (*SETTINGS, "USING_SVML")}
    key = repr((_SOURCES_AT_IMPORT, versions, _target(), settings)).encode()
    return folder_of(f"{__version__}-{hashlib.blake2b(key, digest_size=8).hexdigest()}")


@cache
def announce() -> None:
    """Say once on a terminal why a first call takes seconds."""
    if sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("DLREF_QUIET"):
        place = f"; kept in {cache_folder()}" if cache_folder() else ""
        sys.stderr.write(f"dlref: first calls compile for this processor{place}\n")


@contextlib.contextmanager
def _without_cache() -> Iterator[None]:
    """
    Compile without the cache where a function has no file, or its entry cannot be loaded.

    The cache uses numba's private interface. Another version of numba may change it, which is said.
    """
    try:
        yield
    except (AttributeError, ImportError) as error:
        message = f"{type(error).__name__}: {error}; every process will compile anew"
        warnings.warn(f"dlref's cache of compiled code failed: {message}", RuntimeWarning, 2)
    except Exception:
        pass


@cache
def _hash_of_file(path: str) -> str:
    return hashlib.blake2b(Path(path).read_bytes()).hexdigest()


if INTERNALS is not None:

    class _Cache(INTERNALS.cache):  # type: ignore[misc]
        """The compiled code of a kernel on disk; code that cannot be loaded is compiled anew."""

        def __init__(self, function: FunctionType) -> None:
            self._py_func, self._cache_path = function, None

        def _name(self, signature: Any, codegen: Any) -> str:
            function = self._py_func
            stamp = _hash_of_file(inspect.getfile(function))  # it need not be one of dlref
            key = self._index_key(signature, codegen)
            return repr((function.__module__, function.__qualname__, stamp, key))

        def load_overload(self, signature: Any, context: Any) -> Any:
            context.refresh()
            with _without_cache():
                data = read(cache_folder(), self._name(signature, context.codegen()))
                if data is not None:
                    return INTERNALS.rebuild(context, *pickle.loads(data))
            announce()
            return None

        def save_overload(self, signature: Any, compiled: Any) -> None:
            with _without_cache():
                if not compiled.library.has_dynamic_globals:  # addresses of this process
                    data = INTERNALS.dumps(compiled._reduce())
                    write(cache_folder(), self._name(signature, compiled.library.codegen), data)

    #: The lock that numba holds while it compiles or loads compiled code.
    COMPILING = INTERNALS.lock

    if hasattr(os, "register_at_fork"):  # pragma: no branch  # not on Windows
        # A child in which nobody would ever release it could not compile.
        os.register_at_fork(
            before=COMPILING.acquire,
            after_in_parent=COMPILING.release,
            after_in_child=COMPILING.release,
        )


def _answer(
    compilation: Callable[..., Any],
    calls: list[tuple[Any, ...]],
    answers: list[tuple[Any, BaseException | None]],
    done: SimpleQueue[None],
) -> None:
    """
    Compile for the arguments of a call, and append the result or the error to `answers`.

    Both lists are empty afterwards: the thread may end later than the caller lets go of its arrays.
    """
    sys.settrace(sys.gettrace() or threading.gettrace())  # of a debugger, or of coverage
    try:
        answers.append((compilation(*calls.pop()), None))
    except BaseException as error:
        answers.append((None, error))
    done.put(None)


def _without_signals(compilation: Callable[..., Any]) -> Callable[..., Any]:
    """
    Return a compilation that no signal handler gets in the middle of.

    Python runs handlers in the main thread, between any two steps. One that raises in a compilation
    would leave LLVM's locks held forever, and one that calls dlref would start the same compilation
    again. So another thread compiles while the main thread waits; it goes on if a handler raises.
    """

    @_switched_on()
    def wait(*arguments: Any) -> Any:
        is_main = _thread.get_ident() == threading.main_thread().ident
        if not is_main or COMPILING.is_locked():  # if this thread holds it, no other may compile
            return compilation(*arguments)
        done: SimpleQueue[None] = SimpleQueue()
        calls, answers = [arguments], list[Any]()
        chosen = threading.stack_size(STACK)  # LLVM needs more than some programs choose
        try:
            # filters of warnings belong to the context in Python without a GIL
            context = contextvars.copy_context()
            _start_new_thread(context.run, (_answer, compilation, calls, answers, done))
        except RuntimeError:  # no thread can be started
            return compilation(*arguments)
        finally:
            threading.stack_size(chosen)
        done.get()
        result, error = answers.pop()
        if error is None:
            return result
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    return wait


@contextlib.contextmanager
def _switched_on() -> Iterator[None]:
    """Compile although numba was switched off after dlref was imported: it would fail halfway."""
    chosen = numba.config.DISABLE_JIT
    if not chosen:
        yield
        return
    numba.config.DISABLE_JIT = 0
    try:
        yield
    finally:
        numba.config.DISABLE_JIT = chosen


@contextlib.contextmanager
def _seldom_collecting() -> Iterator[None]:
    """
    Look for garbage seldom while numba compiles, which allocates millions of small objects.

    That takes a sixth of a first call, and more in a program with many objects. The lock is held,
    so no other thread and no child process mistakes the changed setting for the program's own.
    """
    with COMPILING:
        usual = gc.get_threshold()
        if usual[0]:  # 0 is never
            gc.set_threshold(max(usual[0], OBJECTS), *usual[1:])
        try:
            yield
        finally:
            gc.set_threshold(*usual)


def _njit(function: Any, **options: Any) -> Any:
    with _switched_on():
        if INTERNALS is None:
            return numba.njit(nogil=True, error_model="numpy", **options)(function)
        compiled = numba.njit(**OPTIONS, **options)(function)
    compilation = _seldom_collecting()(compiled._compile_for_args)
    compiled._compile_for_args = _without_signals(compilation)
    return compiled


def kernel(function: F) -> F:
    """
    Compile a loop with numba, keeping the result on disk.

    Compiled kernels release the GIL, so that `dlref._core.threads` can run them on several
    threads, and divide as NumPy does: ``x / 0`` is infinite instead of an exception.  They allocate
    nothing: a workspace is an argument (`dlref._core.threads.with_workspace`).
    """
    if not COMPILED:
        quiet: F = np.errstate(all="ignore")(function)  # compiled code warns of nothing
        SOURCES[quiet] = function, kernel
        return quiet
    compiled: F = _njit(function)
    if INTERNALS is not None:
        compiled._cache = _Cache(function)  # type: ignore[attr-defined, arg-type]
    SOURCES[compiled] = function, kernel
    return compiled


def inline_fma(function: F) -> F:
    """
    Compile a function of numbers for use inside kernels.

    It becomes part of the loop that calls it, so that LLVM can treat several elements at
    once.  A product that is added may be rounded once instead of twice (``contract``); no
    other freedom is given, because the formulas rely on the order of their operations.
    """
    return _inlined(function, {"contract"})


def inline_strict(function: F) -> F:
    """
    Compile like `inline_fma`, rounding after every operation: for exact error terms.

    Also for a part of a kernel that takes several arrays, of seven words each, for every row.
    """
    return _inlined(function, set())


def inline_reassoc(function: F) -> F:
    """
    Compile a function that sums an array up, in whatever order is fastest.

    The order decides the rounding errors, not more: call it on short pieces.
    """
    return _inlined(function, {"reassoc", "nsz", "contract"})


def _inlined(function: F, fastmath: set[str]) -> F:
    compiled = function
    if COMPILED:
        options = {"fastmath": fastmath, "forceinline": True}
        compiled = _njit(function, **options)
        if INTERNALS is not None:
            _let_kernels_call(compiled, options)
    SOURCES[compiled] = function, lambda copy: _inlined(copy, fastmath)
    return compiled


def _let_kernels_call(compiled: Any, options: dict[str, Any]) -> None:
    """
    Let kernels call a copy of a function that Python has no way into.

    That way is code of its own, which takes an eighth of a first call. The function itself is
    compiled if Python calls it, as tests do.
    """

    @cache
    def copy() -> Any:
        with _switched_on():
            return numba.njit(**OPTIONS, **options, no_cpython_wrapper=True)(compiled.py_func)

    compiled.get_call_template = lambda *types: copy().get_call_template(*types)
    compiled.get_overload = lambda types: copy().get_overload(types)


def intrinsic(
    interpreted: F, emit: Callable[..., Any], result: str = "void", argument: str = ""
) -> F:
    """
    Return a function, of arrays or numbers, which, compiled, is the LLVM code that `emit` writes.

    `emit` gets numba's context and builder, the signature and the arguments, and returns a value
    of numba's type `result`, or None for "void".  Interpreted it is `interpreted`, which has
    three arguments, or one of the type `argument` if that is given.
    """
    if not COMPILED:
        return interpreted

    kind = getattr(numba.types, result)

    def of_one(_: Any, a: Any) -> Any:
        return kind(getattr(numba.types, argument)), emit

    def of_three(_: Any, a: Any, b: Any, c: Any) -> Any:
        return kind(a, b, c), emit

    function: F = numba.extending.intrinsic(of_one if argument else of_three)
    return function
