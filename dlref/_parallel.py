"""
Rows over threads.

A kernel that treats rows independently takes ``(start, stop, ...)`` and handles the rows
of that range.  `over_rows` cuts the rows into ranges, of which the calling thread and those of a
pool take one after another: kernels release the GIL, so the threads run at once, and since no
row is split the answer has the same bits for any number of threads.

A thread begins with its own share of the ranges, which is the same in each call, and then takes
what is left of the others'.  So what it read or wrote is still in the caches of its core when the
next call is about the same arrays: to copy 12 MB again and again takes half the time.

To wake a thread that sleeps takes 15 to 100 microseconds, longer than many a kernel.  So a thread
of the pool stays awake for some 100 microseconds after its work, ready for the next call, and only
then goes to sleep.  It must also never wait for the GIL, which would put it to sleep as well:

- the ranges are taken in compiled code, from a counter that one instruction reads and increases;
- the calling thread gives its signal there, after it has released the GIL, and goes on for the
  microsecond or two that the others need to let go of its arrays and to be ready again.

`over_phases` is for work whose parts need each other from time to time, such as the steps of a
recurrent network: all parts of a phase are done before the next one begins.  A thread that has
done its part leaves theirs to the others as long as they keep up, and does what nobody has begun.

Python threads, not OpenMP: numba's OpenMP layer, OpenBLAS and PyTorch each keep a pool that
spins for milliseconds after its work is done, and on a small machine they wait for each other
at every change from one to the next.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ._jit import COMPILED, emitted, kernel, loop_over
from ._validate import FloatArray, as_integer

if COMPILED:
    from llvmlite import ir

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Counters: TypeAlias = npt.NDArray[np.int64]

__all__ = [
    "available",
    "get_num_threads",
    "over_phases",
    "over_rows",
    "ready",
    "set_num_threads",
    "threads_for",
]

# glibc gives the top of the heap back to the system where more is free than twice the largest
# block that was ever freed, up to 32 MiB; what the next call allocates then comes in pages that the
# system has to fill with zeros. On a virtual machine that was a fifth of the time of a training
# step, and half of that of a table of 32 MiB. Freeing one block of nearly that size, never
# touched, ends it; elsewhere it does nothing.
np.empty(2**25 - 2**16, np.uint8)

#: Work below which a second thread costs more than it saves, in elementary operations:
#: a dispatch takes some 10 microseconds, an operation a nanosecond.
MIN_WORK = 100_000
#: Least work of a range, and ranges for each thread, so that one that was held up takes fewer.
MIN_RANGE, RANGES = 10_000, 16
#: Whether there is an instruction to wait with, which leaves a core that two threads share to the
#: other one; and looks at a counter before a thread stops waiting: some 100 microseconds.
PAUSES = platform.machine() in {"x86_64", "AMD64"}
SPINS = 3_500 if PAUSES else 100_000

# The counters of a thread of the pool, and those of a job.
SIGNALS, SEEN, ASLEEP = 0, 1, 2
TAKEN, DONE = 0, 1
LINE = 8  #: counters that share a line of memory; threads had better not share one
ENOUGH = 2**40  #: more than there are ranges
NOBODY = np.zeros((0, LINE), np.int64)  #: no seats: those of a helper, who calls no others

_pool: _Pool | None = None
_lock = threading.Lock()


def available() -> int:
    """Return the number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # what this process may use, not what there is
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _from_environment() -> int:
    text = os.environ.get("DLREF_NUM_THREADS")
    if text is None:
        return available()
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


def _place(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    counters = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(counters.data, [args[1]])


def _emit_add(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    place = _place(context, builder, signature, args)
    return builder.atomic_rmw("add", place, args[2], "seq_cst")


def _add(counters: Counters, i: int, value: int) -> int:
    """Add to a counter, in one step for all threads, and return what it was."""
    before = int(counters[i])
    counters[i] += value
    return before


def _emit_look(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.load_atomic(_place(context, builder, signature, args), "acquire", align=8)


def _emit_watch(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    if PAUSES:  # pragma: no branch  # the other is for other processors
        kind = ir.FunctionType(ir.VoidType(), ())
        builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), ())
    return _emit_look(context, builder, signature, args)


def _read(counters: Counters, i: int) -> int:
    """Return what a counter is now."""
    return int(counters[i])


_atomic_add = emitted(_add, _emit_add, "int64")
_look = emitted(_read, _emit_look, "int64")
_watch = emitted(_read, _emit_watch, "int64")  #: `_look` after a pause


@kernel
def _await(seat: Counters, seen: int) -> int:
    """Return the number of signals as soon as it is no longer `seen`, or that one: to sleep."""
    seat[SEEN] = seen
    for _ in range(SPINS):
        signals = _watch(seat, SIGNALS)
        if signals != seen:
            return signals
    _atomic_add(seat, ASLEEP, 1)
    return seen


def _kernel(start: int, stop: int, *arguments: Any) -> None:
    """Stand for the kernel that `loop_over` puts here."""


def _share(
    seats: Counters, job: Counters, own: int, rows: int, parts: int, *arguments: Any
) -> None:
    """
    Take one range after another until none is left, those of the own share first.

    The thread that has the seats of others calls them first, and at the end waits for them.
    """
    for i in range(len(seats)):
        _atomic_add(seats[i], SIGNALS, 1)
    shares = len(job)
    for i in range(shares):
        share = (own + i) % shares
        begin, end = parts * share // shares, parts * (share + 1) // shares
        part = begin + _atomic_add(job[share], TAKEN, 1)
        while part < end:
            _kernel(rows * part // parts, rows * (part + 1) // parts, *arguments)
            _atomic_add(job[0], DONE, 1)
            part = begin + _atomic_add(job[share], TAKEN, 1)
    spins = SPINS if len(seats) else 0
    while spins > 0 and _watch(job[0], DONE) < parts:
        spins -= 1
    for i in range(len(seats)):
        seat = seats[i]
        while spins > 0 and _watch(seat, SEEN) < seat[SIGNALS] and not seat[ASLEEP]:
            spins -= 1


@cache
def _sharing(kernel: Callable[..., None]) -> Callable[..., None]:
    return loop_over(_share, _kernel=kernel)


class _Job:
    """Ranges of rows that threads take one after another until none is left."""

    def __init__(
        self, kernel: Callable[..., None], shares: int, rows: int, parts: int, *arguments: Any
    ) -> None:
        self.share = _sharing(kernel)
        self.arguments = rows, parts, *arguments
        self.counters = np.zeros((shares, LINE), np.int64)
        self.helpers: list[_Job] = []  # an entry for each that is at work
        self.error: BaseException | None = None

    def work(self, seats: Counters, own: int) -> None:
        try:
            self.share(seats, self.counters, own, *self.arguments)
        except BaseException as error:  # raised in the thread that waits
            self.error = error
            self.counters[:, TAKEN] = ENOUGH

    def help(self, own: int) -> None:
        self.helpers.append(self)
        self.work(NOBODY, own)
        self.helpers.pop()


class _Pool:
    """Threads that help with a job: ready for a while after each, then asleep."""

    def __init__(self, count: int) -> None:
        self.seats = np.zeros((count, LINE), np.int64)
        self.alarms: list[SimpleQueue[bool]] = [SimpleQueue() for _ in range(count)]
        self.current: list[_Job | None] = [None]
        self.free = threading.Lock()
        for own, seat in enumerate(self.seats, 1):
            arguments = own, seat, self.alarms[own - 1], self.current
            # a daemon: it holds nothing that the end of the process must wait for
            threading.Thread(target=self.serve, args=arguments, daemon=True).start()

    @staticmethod
    def serve(
        own: int, seat: Counters, alarm: SimpleQueue[bool], current: list[_Job | None]
    ) -> None:
        seen = 0
        while True:
            signals = _await(seat, seen)
            if signals == seen and not alarm.get():
                return
            seen = int(seat[SIGNALS])
            seat[ASLEEP] = 0
            job = current[0]
            if job is not None:
                job.help(own)
            del job  # with its arrays

    def run(self, job: _Job, helpers: int) -> None:
        """Do a job with the help of some threads."""
        self.current[0] = job
        for seat, alarm in zip(self.seats[:helpers], self.alarms, strict=False):
            if seat[ASLEEP] == 1:
                seat[ASLEEP] = 2  # once is enough
                alarm.put(True)
        job.work(self.seats[:helpers], 0)
        while job.helpers:  # something keeps a thread from its work
            time.sleep(1e-5)
        self.current[0] = None
        if job.error is not None:
            raise job.error

    def __del__(self) -> None:
        for alarm in self.alarms:
            alarm.put(False)


def _threads() -> _Pool:
    global _pool  # noqa: PLW0603
    with _lock:
        if _pool is None:
            _pool = _Pool(_num_threads - 1)
        return _pool


def threads_for(rows: int, cost: float) -> int:
    """Return how many threads share `rows` of `cost` elementary operations each."""
    work = rows * cost
    return 1 if work < MIN_WORK else min(_num_threads, rows, int(work // MIN_WORK) + 1)


def over_rows(
    kernel: Callable[..., None], rows: int, cost: float, *arguments: Any, even: bool = False
) -> None:
    """
    Call ``kernel(start, stop, *arguments)`` on ranges that cover ``range(rows)``.

    `cost` is the number of elementary operations of one row.  `even` asks for one range a
    thread, for kernels that gain from long ones.
    """
    work, threads = rows * cost, threads_for(rows, cost)
    if threads == 1 or not COMPILED:
        kernel(0, rows, *arguments)
        return
    parts = threads if even else min(rows, RANGES * threads, max(threads, int(work // MIN_RANGE)))
    pool = _threads()
    if not pool.free.acquire(blocking=False):  # it works for another thread
        kernel(0, rows, *arguments)
        return
    try:
        pool.run(_Job(kernel, threads, rows, parts, *arguments), threads - 1)
    finally:
        pool.free.release()


def _phase(phase: int, part: int, *arguments: Any) -> None:
    """Stand for the kernel that `loop_over` puts here."""


def _in_phases(
    start: int, stop: int, phases: int, taken: Counters, done: Counters, *arguments: Any
) -> None:
    """
    Do the own part of each phase, and the other parts if nobody has begun them.

    While another thread keeps up, its parts are left to it for some time.
    """
    parts = len(taken)
    for own in range(start, stop):
        patience = 0
        for phase in range(phases):
            alone = True
            for i in range(parts):
                part = (own + i) % parts
                spins = patience if i else 0
                while spins > 0 and not _watch(done[part], phase):
                    spins -= 1
                if not _look(done[part], phase) and not _atomic_add(taken[part], phase, 1):
                    _phase(phase, part, *arguments)
                    _atomic_add(done[part], phase, 1)
                elif i:
                    alone = False
            patience = 0 if alone else SPINS
            for part in range(parts):
                while not _watch(done[part], phase):
                    pass


@cache
def _phasing(kernel: Callable[..., None]) -> Callable[..., None]:
    return loop_over(_in_phases, _phase=kernel)


def over_phases(
    kernel: Callable[..., None], phases: int, parts: int, cost: float, *arguments: Any
) -> None:
    """
    Call ``kernel(phase, part, *arguments)`` for all parts of a phase, one phase after another.

    No phase begins before all parts of the one before are done.  `cost` is the number of
    elementary operations of a part in all phases.  The kernel must not raise: others would wait
    for it forever.
    """
    lines = -(-phases // LINE)  # whole ones: each thread writes to its own
    taken, done = np.zeros((2, parts, lines * LINE), np.int64)
    over_rows(_phasing(kernel), parts, cost, phases, taken, done, *arguments, even=True)


def ready(a: FloatArray) -> FloatArray:
    """
    Return `a` as kernels want it: contiguous, and writeable, though they do not write to it.

    A read-only array is another type to numba, for which it would compile once more.
    """
    return a if a.flags.carray else np.require(a, requirements=["C", "W"])
