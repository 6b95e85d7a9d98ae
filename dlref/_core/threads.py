"""
Rows over threads.

A kernel that treats rows independently takes ``(start, stop, ...)`` and handles the rows of that
range.  `over_rows` cuts the rows into pieces; the calling thread and others, which wait at a queue
for calls to help with, take one after another.  Kernels release the GIL, so that the threads run at
once, and since no row is split the result has the same bits for any number of threads.  (A
`ThreadPoolExecutor` does more bookkeeping: a call of 90 us took a tenth longer with it.)

Between two pieces the calling thread looks for signals.  A piece takes at most a tenth of a second,
so that Ctrl-C need not wait for a long call; when it is raised, no thread writes to an array any
more.

Nothing spins: an idle thread sleeps.  numba's OpenMP layer keeps threads that spin after their work
is done, and on a small machine they compete with the threads of OpenBLAS and PyTorch.
"""

from __future__ import annotations

import _thread
import math
import os
import threading
from collections import deque
from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePosixPath
from queue import SimpleQueue
from typing import Any

import numpy as np

from .arguments import FloatArray, as_integer
from .jit import COMPILED

#: Minimum work before a call uses a second thread, and per additional thread, in operations of
#: about 1 ns.  To hand work to a thread takes some 25 microseconds.
MIN_WORK = 250_000
#: Least and largest work of a piece, and pieces per thread: one that is held up takes fewer.
MIN_PIECE, MAX_PIECE, PIECES = 50_000, 50_000_000, 4
MOST_THREADS = 2**16

CONTROL_GROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def _granted(folder: Path) -> float:
    """Return the processors whose time a control group may use, infinite without a limit."""
    try:
        if (folder / "cpu.max").exists():  # version 2
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):  # no such folder, or "max"
        return math.inf


@cache
def _quota() -> float:
    """Return the processors whose time the control groups of this process grant to it."""
    try:
        lines = MEMBERSHIP.read_text().splitlines()
    except OSError:  # not Linux
        return math.inf
    granted = [math.inf]
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if not controllers or "cpu" in controllers.split(","):
            # in a container a group's own folder is often the top one
            groups = PurePosixPath(path).relative_to("/")
            for top in (controllers, "cpu") if controllers else ("", "unified"):
                folders = [groups, *groups.parents]
                granted += [_granted(CONTROL_GROUPS / top / folder) for folder in folders]
    return min(granted)


def available() -> int:
    """Return how many processors this process can keep busy."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        count = os.process_cpu_count() or 1
    elif hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, math.ceil(min(count, _quota())))


def _from_environment() -> int:
    text = os.environ.get("DLREF_NUM_THREADS", "").strip()
    if not text:
        return available()
    short = len(text) < 20 and text.removeprefix("+").isdecimal()  # int() refuses 5000 digits
    return as_integer("DLREF_NUM_THREADS", int(text) if short else text, least=1, most=MOST_THREADS)


class _Pool:
    """Threads that wait at a queue for calls to help with."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Any] = SimpleQueue()  # None ends a thread
        self.started = 0
        self.ended = False

    def ask(self, call: Callable[[], None], count: int) -> None:
        """
        Have `count` threads, or as many as can be started, make a call, which raises nothing.

        A signal handler may raise at any step of Python: so a thread is counted before it starts,
        and starts in one step of C, where `threading.Thread` takes many.
        """
        while self.started < count and not self.ended:
            self.started += 1
            try:
                _thread.start_new_thread(_serve, (self.calls,))
            except RuntimeError:  # no thread can be started, or the interpreter is ending
                self.started -= 1
                break
        for _ in range(min(count, self.started)):
            self.calls.put(call)

    def end(self) -> None:
        """Let the threads end when they are idle."""
        self.ended = True
        for _ in range(self.started):
            self.calls.put(None)


_num_threads = _from_environment()
_pool = _Pool()
#: A signal handler may call dlref while its thread holds the lock, which is therefore re-entrant.
_lock = threading.RLock()


def _after_fork() -> None:  # pragma: no cover  # in the child, which reports nothing
    """Begin anew: threads do not survive a fork, and one of them may have held the lock."""
    global _pool, _lock
    _pool, _lock = _Pool(), threading.RLock()


if hasattr(os, "register_at_fork"):  # pragma: no branch  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


def get_num_threads() -> int:
    """
    Return how many threads dlref may use.

    Returns
    -------
    int
        The value of the last :func:`set_num_threads`, else of the environment variable
        ``DLREF_NUM_THREADS``, else the number of processors this process may use.

    See Also
    --------
    set_num_threads : Change the limit.

    Notes
    -----
    The limit holds for dlref's own kernels. Products in :mod:`dlref.calculus` and
    :mod:`dlref.neurons` are NumPy's, whose BLAS has a limit of its own
    (``OPENBLAS_NUM_THREADS`` or the package threadpoolctl).

    Examples
    --------
    >>> from dlref import get_num_threads
    >>> get_num_threads() >= 1
    True
    """
    return _num_threads


def set_num_threads(num_threads: int) -> None:
    """
    Limit how many threads dlref may use.

    Parameters
    ----------
    num_threads : int
        From 1 to 65536. Small arrays use one thread whatever the limit is, and no call uses more
        threads than there are processors.

    Raises
    ------
    TypeError
        If `num_threads` is not an integer.
    ValueError
        If `num_threads` is less than 1 or greater than 65536.

    See Also
    --------
    get_num_threads : The limit in force.

    Notes
    -----
    Every result has the same bits for any number of threads: threads share out whole
    rows, and no sum is ever split between two of them.

    The processors are those that this process may run on and whose time it is granted: fewer than
    the machine has under ``taskset``, or in a container with a quota.

    Examples
    --------
    >>> from dlref import get_num_threads, set_num_threads
    >>> before = get_num_threads()
    >>> set_num_threads(1)
    >>> get_num_threads()
    1
    >>> set_num_threads(before)
    """
    global _num_threads  # noqa: PLW0603
    number = as_integer("num_threads", num_threads, least=1, most=MOST_THREADS)
    with _lock:
        _num_threads = number
        _pool.end()


def _serve(calls: SimpleQueue[Any]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # while it waits, a thread holds nothing


def _ask(call: Callable[[], None], count: int) -> None:
    global _pool
    with _lock:
        if _pool.ended:
            new = _Pool()
            before, _pool = _pool, new  # a signal handler that does the same runs before or after
            before.end()  # once more, if a signal handler raised while it did
        _pool.ask(call, count)


def threads_for(rows: int, cost: float) -> int:
    """Return how many threads share `rows` of `cost` elementary operations each."""
    work = rows * cost
    if work < MIN_WORK or _num_threads == 1 or not COMPILED:
        return 1
    return min(_num_threads, available(), rows, int(work // MIN_WORK) + 1)


class _Job:
    """The pieces of a call, and the threads that help with them."""

    def __init__(self, kernel: Callable[..., None], rows: int, parts: int, *arguments: Any) -> None:
        self.kernel = kernel
        self.arguments: tuple[Any, ...] = arguments
        self.pieces = deque((rows * k // parts, rows * (k + 1) // parts) for k in range(parts))
        self.helping: deque[int] = deque()
        self.ended: SimpleQueue[None] = SimpleQueue()  # one entry for each that has helped
        self.errors: list[BaseException] = []

    def work(self) -> None:
        """Compute one piece after another until none is left."""
        try:
            while self.pieces:
                try:
                    start, stop = self.pieces.popleft()
                except IndexError:  # pragma: no cover  # another thread was faster
                    break
                self.kernel(start, stop, *self.arguments)
        except BaseException as error:
            self.pieces.clear()
            self.errors.append(error)

    def help(self) -> None:
        """Do the same in another thread."""
        self.helping.append(threading.get_ident())  # before it takes a piece: see `end`
        self.work()
        self.helping.pop()
        self.ended.put(None)

    def run(self, helpers: int) -> None:
        """Compute all pieces, with the help of some threads."""
        try:
            _ask(self.help, helpers)
            self.work()
        finally:
            self.end()
        if self.errors:
            try:
                raise self.errors[0]
            finally:
                self.errors.clear()  # else an error's traceback would hold it, by way of this job

    def end(self) -> None:
        """Have no thread begin a piece, and wait for those that have, even if interrupted."""
        interruption = None
        while True:
            try:
                self.pieces.clear()
                while self.helping:  # a thread that is busy elsewhere is not needed any more
                    self.ended.get()
                break
            except BaseException as error:  # of a signal handler: Ctrl-C, or a test's time limit
                interruption = error
        # But it may hold this job for a while, whose kernel may be a closure over arrays, too.
        del self.kernel, self.arguments
        if interruption is not None:
            raise interruption


def over_rows(
    kernel: Callable[..., None], rows: int, cost: float, *arguments: Any, even: bool = False
) -> None:
    """
    Call ``kernel(start, stop, *arguments)`` on ranges that cover ``range(rows)``.

    `cost` is the number of elementary operations of one row.  `even` asks for one range a
    thread, for kernels that gain from long ones.
    """
    work, threads = rows * cost, threads_for(rows, cost)
    if threads == 1 and work <= MAX_PIECE:
        kernel(0, rows, *arguments)
        return
    parts = threads
    if threads > 1 and not even:
        parts = max(threads, min(threads * PIECES, int(work // MIN_PIECE)))
    parts = max(1, min(rows, max(parts, math.ceil(work / MAX_PIECE))))
    if threads > 1:
        _Job(kernel, rows, parts, *arguments).run(threads - 1)
        return
    for k in range(parts):
        kernel(rows * k // parts, rows * (k + 1) // parts, *arguments)


def with_workspace(kernel: Callable[..., None], *shape: int) -> Callable[..., None]:
    """Return a kernel that gives its last argument, a workspace of this shape, to each call."""

    def call(start: int, stop: int, *arguments: Any) -> None:
        kernel(start, stop, *arguments, np.empty(shape))

    return call


def as_carray(a: FloatArray) -> FloatArray:
    """
    Return `a` as kernels want it: contiguous, and writeable, though they do not write to it.

    A read-only array is another type to numba, for which it would compile once more.
    """
    return a if a.flags.carray else np.require(a, requirements=["C", "W"])
