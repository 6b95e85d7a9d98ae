"""
Rows over threads.

A kernel that treats rows independently takes ``(start, stop, ...)`` and handles the rows
of that range.  `over_rows` cuts the rows into ranges, of which the calling thread and those of a
pool take one after another: kernels release the GIL, so the threads run at once, and since no
row is split the answer has the same bits for any number of threads.  To wake a thread takes
some 50 microseconds; the caller does not wait for it, and if it comes late it finds less to do.

Python threads, not OpenMP: numba's OpenMP layer, OpenBLAS and PyTorch each keep a pool
that spins after its work is done, and on a small machine they wait milliseconds for each
other at every change from one to the next.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress
from itertools import pairwise
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from ._validate import FloatArray, as_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["get_num_threads", "over_rows", "ready", "set_num_threads"]

# glibc gives the top of the heap back to the system where more is free than twice the largest
# block that was ever freed, up to 32 MiB; what the next call allocates then comes in pages that the
# system has to fill with zeros. On a virtual machine that was a fifth of the time of a training
# step, and half of that of a table of 32 MiB. Freeing one block of nearly that size, never
# touched, ends it; elsewhere it does nothing.
np.empty(2**25 - 2**16, np.uint8)

#: Work below which a second thread costs more than it saves, in elementary operations:
#: a dispatch takes some 50 microseconds, an operation a nanosecond.
MIN_WORK = 200_000
#: Least work of a range, and least part of all the work.
MIN_RANGE, MIN_PART = 50_000, 1 / 64


class _State(threading.local):
    inside = False  # whether this thread is a worker: a nested call runs serially


_state = _State()
_pool: _Pool | None = None
_lock = threading.Lock()


def _available() -> int:
    if hasattr(os, "sched_getaffinity"):  # what this process may use, not what there is
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _from_environment() -> int:
    text = os.environ.get("DLREF_NUM_THREADS")
    if text is None:
        return _available()
    return as_integer("DLREF_NUM_THREADS", int(text) if text.isdecimal() else text, least=1)


_num_threads = _from_environment()


def _forget_pool() -> None:
    global _pool  # noqa: PLW0603
    _pool = None  # its threads, if there are any in this process, end with it


if hasattr(os, "register_at_fork"):  # pragma: no branch  # threads do not survive a fork
    os.register_at_fork(after_in_child=_forget_pool)


def get_num_threads() -> int:
    """
    Return how many threads dlref may use.

    Returns
    -------
    int
        The value of the last :func:`set_num_threads`, else of the environment variable
        ``DLREF_NUM_THREADS``, else the number of cores this process may run on.

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
        At least 1. Small arrays use one thread whatever the limit is.

    Raises
    ------
    TypeError
        If `num_threads` is not an integer.
    ValueError
        If `num_threads` is less than 1.

    See Also
    --------
    get_num_threads : The limit in force.

    Notes
    -----
    Every result has the same bits for any number of threads: threads share out whole
    rows, and no sum is ever split between two of them.

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
    with _lock:
        _num_threads = as_integer("num_threads", num_threads, least=1)
        _forget_pool()


class _Job:
    """Ranges that threads take one after another until none is left."""

    def __init__(self, call: Callable[[int, int], None], ranges: Iterable[tuple[int, int]]) -> None:
        self.call = call
        self.ranges = deque(ranges)
        self.unfinished = len(self.ranges)
        self.count = threading.Lock()
        self.end = threading.Lock()
        self.end.acquire()  # until the last range is done
        self.error: BaseException | None = None

    def work(self) -> None:
        outside, _state.inside = _state.inside, True
        with suppress(IndexError):  # no range is left
            while True:
                self.do(*self.ranges.popleft())
        _state.inside = outside

    def do(self, start: int, stop: int) -> None:
        try:
            if self.error is None:
                self.call(start, stop)
        except BaseException as error:  # raised in the thread that waits
            self.error = error
        with self.count:
            self.unfinished -= 1
            if not self.unfinished:
                self.end.release()

    def wait(self) -> None:
        self.end.acquire()
        del self.call  # a thread that has yet to wake would keep its arrays
        if self.error is not None:
            raise self.error


class _Pool:
    """
    Threads that sleep until there is a job.

    A queue and no more: an executor takes longer to hand a job over than many a kernel to run.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        for _ in range(count):
            # a daemon: it holds nothing that the end of the process must wait for
            threading.Thread(target=self.serve, args=(self.jobs,), daemon=True).start()

    @staticmethod
    def serve(jobs: SimpleQueue[_Job | None]) -> None:
        while (job := jobs.get()) is not None:
            job.work()
            del job  # with what an error may hold

    def __del__(self) -> None:
        for _ in range(self.count):
            self.jobs.put(None)


def _threads() -> _Pool:
    global _pool  # noqa: PLW0603
    with _lock:
        if _pool is None:
            _pool = _Pool(_num_threads - 1)
        return _pool


def _guided(rows: int, threads: int, least: int) -> list[int]:
    """
    Return the bounds of ranges that get shorter, so that all threads end at about the same time.

    Each is half of what a thread would get if the rest were shared out evenly, and one that was
    held up takes fewer.
    """
    bounds = [0]
    while bounds[-1] < rows:
        rest = rows - bounds[-1]
        bounds.append(bounds[-1] + min(rest, max(least, -(-rest // (2 * threads)))))
    return bounds


def over_rows(
    kernel: Callable[..., None], rows: int, cost: float, *arguments: Any, even: bool = False
) -> None:
    """
    Call ``kernel(start, stop, *arguments)`` on ranges that cover ``range(rows)``.

    `cost` is the number of elementary operations of one row.  `even` asks for one range a
    thread, for kernels that gain from long ones.
    """
    work = rows * cost
    threads = min(_num_threads, rows, int(work // MIN_WORK) + 1)
    if threads <= 1 or _state.inside:
        kernel(0, rows, *arguments)
        return
    bounds = [rows * part // threads for part in range(threads + 1)]
    if not even:
        bounds = _guided(rows, threads, max(1, int(rows * max(MIN_RANGE / work, MIN_PART))))
    job = _Job(lambda start, stop: kernel(start, stop, *arguments), pairwise(bounds))
    jobs = _threads().jobs
    for _ in range(threads - 1):
        jobs.put(job)
    job.work()
    job.wait()


def ready(a: FloatArray) -> FloatArray:
    """
    Return `a` as kernels want it: contiguous, and writeable, though they do not write to it.

    A read-only array is another type to numba, for which it would compile once more.
    """
    return a if a.flags.carray else np.require(a, requirements=["C", "W"])
