"""Tests of dlref._core.threads: rows over threads."""

import _thread
import concurrent.futures
import functools
import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import dlref
from dlref._core import threads
from dlref._core.jit import COMPILED, kernel
from dlref._core.threads import over_rows

compiled_only = pytest.mark.skipif(not COMPILED, reason="interpreted, all is done on one thread")
GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="Linux counts processors so")


@kernel
def visit(start, stop, seen):
    for i in range(start, stop):
        seen[i] += 1


@kernel
def fail(start, _stop, begun):
    begun[start] += 1
    raise RuntimeError


class Noted:
    """A kernel in Python that notes its threads, each of which waits for `count` to be there."""

    def __init__(self, count):
        self.present, self.barrier = set(), threading.Barrier(count)

    def __call__(self, start, stop, seen):
        if threading.get_ident() not in self.present:
            self.present.add(threading.get_ident())
            self.barrier.wait(20)
        seen[start:stop] += 1


def run(code, *, timeout=60, **environment):
    """Run a program in a fresh process; return what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(code)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", program],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_call_has_room_of_its_own(set_num_threads):
    set_num_threads(2)
    rooms = []
    note = threads.with_workspace(lambda *arguments: rooms.append(arguments[3:]), 2, 5)
    over_rows(note, 100, threads.MAX_PIECE, "out")  # a piece is at most a row
    assert len(rooms) > 1
    assert {room.shape for (room,) in rooms} == {(2, 5)}
    assert len({room.ctypes.data for (room,) in rooms}) == len(rooms)


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 1000])
def test_every_row_is_visited_once(rows, count, even, set_num_threads):
    set_num_threads(count)
    seen = np.zeros(rows, np.int64)
    for turn in range(1, 5):
        over_rows(visit, rows, threads.MIN_WORK, seen, even=even)
        assert (seen == turn).all()


@pytest.mark.parametrize("count", [1, 2])
def test_a_piece_takes_at_most_a_tenth_of_a_second(count, set_num_threads):
    set_num_threads(count)
    sizes = []
    over_rows(lambda start, stop: sizes.append(stop - start), 1000, 1e7, even=True)
    assert sum(sizes) == 1000
    assert max(sizes) * 1e7 <= 1e8
    assert min(sizes) > 1


def test_small_work_is_one_call_on_this_thread(set_num_threads):
    set_num_threads(8)
    calls = []
    over_rows(lambda *arguments: calls.append(arguments), 100, 1, "out")
    assert calls == [(0, 100, "out")]
    assert threads._pool.ended  # none has been asked since


@compiled_only
class TestPool:
    def test_threads_work_at_once(self, set_num_threads):
        set_num_threads(3)
        noted, seen = Noted(3), np.zeros(30, np.int64)
        over_rows(noted, 30, threads.MIN_WORK, seen)
        assert (seen == 1).all()
        assert threading.get_ident() in noted.present

    def test_no_more_threads_than_processors(self, set_num_threads, monkeypatch):
        monkeypatch.setattr(threads, "available", lambda: 2)
        set_num_threads(64)
        assert threads.threads_for(1000, threads.MIN_WORK) == 2
        for _ in range(20):
            over_rows(visit, 1000, threads.MIN_WORK, np.zeros(1000, np.int64))
        assert threads._pool.started <= 1
        monkeypatch.setattr(threads, "available", lambda: 1)
        assert threads.threads_for(1000, threads.MIN_WORK) == 1

    def test_threads_end_when_the_limit_changes(self, set_num_threads):
        set_num_threads(8)
        before = _thread._count()
        over_rows(Noted(8), 100, threads.MIN_WORK, np.zeros(100, np.int64))
        assert threads._pool.started == 7
        set_num_threads(1)
        end = time.monotonic() + 10
        while _thread._count() > before:
            assert time.monotonic() < end
            time.sleep(0.01)

    @pytest.mark.parametrize("count", [1, 4])
    def test_an_error_is_raised_here_and_ends_the_work(self, set_num_threads, count):
        set_num_threads(count)
        begun = np.zeros(1000, np.int64)
        with pytest.raises(RuntimeError):
            over_rows(fail, 1000, threads.MIN_WORK, begun)
        assert begun.sum() <= count
        seen = np.zeros(9, np.int64)
        over_rows(visit, 9, threads.MIN_WORK, seen)
        assert (seen == 1).all()

    def test_an_error_of_another_thread_is_raised_here(self, set_num_threads):
        set_num_threads(2)
        here, both = threading.get_ident(), threading.Barrier(2)

        def fail_there(_start, _stop):
            both.wait(20)
            if threading.get_ident() != here:
                raise FloatingPointError

        with pytest.raises(FloatingPointError):
            over_rows(fail_there, 2, threads.MIN_WORK)

    def test_calls_within_calls(self, set_num_threads):
        set_num_threads(3)
        seen = np.zeros((20, 50), np.int64)

        def visit_row(start, stop):
            for i in range(start, stop):
                over_rows(visit, 50, threads.MIN_WORK, seen[i])

        over_rows(visit_row, 20, threads.MIN_WORK)
        assert (seen == 1).all()

    def test_calls_from_many_threads_while_the_limit_changes(self, set_num_threads):
        set_num_threads(3)

        def visits(_):
            seen = np.zeros(50, np.int64)
            for _ in range(50):
                over_rows(visit, 50, threads.MIN_WORK, seen)
            return (seen == 50).all()

        with concurrent.futures.ThreadPoolExecutor(6) as others:
            found = others.map(visits, range(12))
            for count in 50 * (2, 5, 1):
                set_num_threads(count)
            assert all(found)

    @pytest.mark.parametrize("started", [0, 1])
    def test_does_without_threads_that_cannot_be_started(
        self, set_num_threads, monkeypatch, started
    ):
        start, tried = _thread.start_new_thread, []

        def few(*arguments):
            tried.append(arguments)
            if len(tried) > started:
                msg = "can't start new thread"
                raise RuntimeError(msg)
            return start(*arguments)

        set_num_threads(4)
        monkeypatch.setattr(threads, "_thread", SimpleNamespace(start_new_thread=few))
        for _ in range(3):
            seen = np.zeros(100, np.int64)
            over_rows(visit, 100, threads.MIN_WORK, seen)
            assert (seen == 1).all()
        assert len(tried) > started

    def test_threads_hold_nothing_after_a_call(self, set_num_threads):
        set_num_threads(2)
        seen = np.zeros(100, np.int64)
        held = weakref.ref(seen)
        over_rows(visit, 100, threads.MIN_WORK, seen)
        del seen
        end = time.monotonic() + 10
        while held() is not None:  # only if a thread was held up
            assert time.monotonic() < end


@compiled_only
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize(("count", "signals"), [(1, 1), (3, 3)])
class TestInterrupts:
    #: A kernel of at most 20 ms a row.
    CODE = """
import os, signal, sys, threading, time
import numpy as np
import dlref
from dlref._core import threads
from dlref._core.jit import kernel

running = True
def interrupted(*_):
    if running:  # later signals are those of a user who does not trust the first
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupted)
threads.available = lambda: 64
dlref.set_num_threads({count})
ROWS, COST = 1000, 2e7

@kernel
def spend(start, stop, out):
    for i in range(start, stop):
        x = 1.0
        for _ in range(5_000_000):
            x = x * 1.0000001 + 1e-9
        out[i] = x

spend(0, 1, np.zeros(1))
def interrupt():
    global sent
    while not out.any():  # on a busy machine the first row may take long
        time.sleep(0.01)
    for _ in range({signals}):
        sent = time.process_time()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.02)

out = np.zeros(ROWS)
threading.Thread(target=interrupt).start()
try:
    threads.over_rows(spend, ROWS, COST, out)
except KeyboardInterrupt:
    running = False
    raised, before = time.process_time(), out.copy()
time.sleep(0.2)
assert 0 < np.count_nonzero(before) < ROWS
assert (out == before).all(), "written to after the call has raised"
few = np.zeros(6)
threads.over_rows(spend, 6, COST, few)
assert few.all()
print(raised - sent)
"""

    def test_end_a_long_call(self, count, signals):
        # processor seconds, so that programs next to this one do not count: two cores at most
        assert float(run(self.CODE.format(count=count, signals=signals))) < 1.0


@compiled_only
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
class TestInterruptsOfFunctions:
    #: Name, arguments and size of calls that take some seconds on one thread.
    CALLS = {  # noqa: RUF012
        "attention": ("attention.scaled_dot_product_attention", "*3 * [heads(T)]", 8192),
        "attention_vjp": ("attention.scaled_dot_product_attention_vjp", "*4 * [heads(T)]", 8192),
        "attention_weights": ("attention.attention_weights", "heads(T, 1), heads(T, 1)", 12288),
        "lstm": ("recurrent.lstm", "x(T, 64), None, None, x(1024, 64), x(1024, 256)", 80_000),
        "gru": ("recurrent.gru", "x(T, 64), None, x(768, 64), x(768, 256)", 80_000),
        "linear": ("neurons.linear", "x(T, T), x(T, T)", 5000),
    }  # fmt: skip
    #: Processor seconds, so that programs beside this one do not count.
    CODE = """
import os, signal, threading, time
import numpy as np
import dlref
from dlref import attention, neurons, recurrent

signal.signal(signal.SIGINT, signal.default_int_handler)
dlref.set_num_threads(1)
rng = np.random.default_rng(0)

def x(*shape):
    return 0.1 * rng.standard_normal(shape, np.float32)

def heads(T, count=8):
    return x(1, count, T, 64)

T = 16
{name}({arguments})  # compiles
T = {size}
arguments = [{arguments}]
done = False
def interrupt():
    global sent
    start = time.process_time()
    while time.process_time() < start + 0.1:
        time.sleep(0.01)
    sent = time.process_time()
    if not done:
        os.kill(os.getpid(), signal.SIGINT)

other = threading.Thread(target=interrupt)
try:
    other.start()
    {name}(*arguments)
    done = True
    other.join()
    print("too short a call")
except KeyboardInterrupt:
    print(time.process_time() - sent)
"""

    @pytest.mark.parametrize("call", CALLS)
    def test_end_within_half_a_second(self, call):
        name, arguments, size = self.CALLS[call]
        code = self.CODE.format(name=name, arguments=arguments, size=size)
        assert float(run(code, timeout=300, OPENBLAS_NUM_THREADS="1")) < 0.5


def test_an_interruption_of_the_wait_is_raised_after_it():
    job = threads._Job(visit, 4, 4, np.zeros(4))
    job.helping.append(1)
    waits = []

    class Interrupted:
        def get(self):
            waits.append(1)
            if len(waits) < 3:
                raise KeyboardInterrupt
            job.helping.pop()

    job.ended = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        job.end()
    assert (len(waits), len(job.pieces)) == (3, 0)


@compiled_only
@pytest.mark.parametrize("closed_over", [False, True])
def test_no_array_is_held_once_a_call_is_over(set_num_threads, monkeypatch, closed_over):
    """Nor by a job that waits behind others in the queue, and is not needed any more."""
    set_num_threads(2)
    asked, ask = [], threads._ask
    monkeypatch.setattr(threads, "_ask", lambda call, n: asked.append(call) or ask(call, n))
    seen = np.zeros(8)
    step, arguments = (functools.partial(visit, seen=seen), ()) if closed_over else (visit, (seen,))
    threads.over_rows(step, 8, threads.MIN_WORK, *arguments)
    assert len(asked) == 1
    held = weakref.ref(seen)
    del seen, step, arguments
    assert held() is None


@compiled_only
@pytest.mark.parametrize("failing", [1, 2])
def test_errors_hold_nothing_once_they_are_handled(set_num_threads, failing):
    """A job that keeps an error, whose traceback keeps the job, would live until a collection."""
    set_num_threads(2)
    begun, both = np.zeros(2, np.int64), threading.Barrier(2)

    def fail_together(start, stop, begun):
        if both.wait(20) < failing:
            fail(start, stop, begun)

    held = weakref.ref(begun)
    gc.disable()
    try:
        with pytest.raises(RuntimeError) as caught:
            over_rows(fail_together, 2, threads.MIN_WORK, begun)
        del caught, begun
        deadline = time.monotonic() + (0 if GIL else 5)
        while held() is not None and time.monotonic() < deadline:
            # what the other thread owns is freed when it runs the next time
            over_rows(visit, 8, threads.MIN_WORK, np.zeros(8))
        assert held() is None
    finally:
        gc.enable()


@compiled_only
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_100_forks_while_another_thread_changes_the_limit():
    # Without coverage, whose lock another thread may hold at a fork: the child would wait for ever.
    uncovered = {name: "" for name in os.environ if name.startswith("COVERAGE_PROCESS")}
    code = """
import os, threading, time
import numpy as np
import dlref
from dlref._core import threads

def visit(start, stop, seen):
    seen[start:stop] += 1

def all_seen():
    seen = np.zeros(80, np.int64)
    threads.over_rows(visit, 80, threads.MIN_WORK, seen)
    return (seen == 1).all()

def change():
    while not done:
        for count in (2, 3, 1):
            dlref.set_num_threads(count)
            all_seen()

threads.available = lambda: 64
done = False
other = threading.Thread(target=change)
other.start()
for _ in range(100):
    child = os.fork()
    if child == 0:
        dlref.set_num_threads(4)
        os._exit(0 if all_seen() else 1)
    end = time.monotonic() + 20
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(child, 9)
            done = True
            raise SystemExit("a child hangs")
        time.sleep(1e-3)
    if found[1]:
        done = True
        raise SystemExit("a child fails")
done = True
other.join()
assert all_seen()
"""
    run(code, **uncovered)


def test_works_while_the_interpreter_ends():
    code = """
import atexit, numpy as np
from dlref._core import threads
threads.available = lambda: 64
threads.set_num_threads(3)

def visit(start, stop, seen):
    seen[start:stop] += 1

@atexit.register
def last():
    seen = np.zeros(80, np.int64)
    threads.over_rows(visit, 80, threads.MIN_WORK, seen)
    print((seen == 1).all())
"""
    assert run(code) == "True\n"


def test_what_a_thread_does():
    """Called here, since coverage does not follow threads that C starts."""
    seen = np.zeros(10, np.int64)
    job, calls = threads._Job(visit, 10, 2, seen), threads.SimpleQueue()
    calls.put(job.help)
    calls.put(None)
    threads._serve(calls)
    assert (seen == 1).all()
    assert job.ended.get() is None
    assert not job.helping


@compiled_only
class TestSignalHandlers:
    """Handlers run between any two steps of the main thread, also where it holds the lock."""

    HANDLER = """
import _thread, faulthandler, signal, time
import numpy as np
import dlref
from dlref._core import threads

faulthandler.dump_traceback_later(60, exit=True)
seconds = {seconds}
def visit(start, stop, seen):
    seen[start:stop] += 1

def call():
    seen = np.zeros(80, np.int64)
    threads.over_rows(visit, 80, threads.MIN_WORK, seen)
    assert (seen == 1).all()

{handler}

end, count, before = time.monotonic() + seconds, 0, _thread._count()
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
while True:
    try:
        while time.monotonic() < end:
            dlref.set_num_threads(2 + count % 3)
            call()
            count += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        break
    except TimeoutError:
        pass
dlref.set_num_threads(1)
time.sleep(0.5)
call()
print(_thread._count() <= before, count > 10)
"""

    def test_one_that_calls_does_not_hang(self):
        handler = """
inside = False
def handle(number, frame):
    global inside
    if not inside:
        inside = True
        dlref.set_num_threads(4)
        call()
        inside = False
"""
        assert run(self.HANDLER.format(seconds=3, handler=handler)) == "True True\n"

    def test_one_that_raises_leaves_no_thread(self):
        handler = """
def handle(number, frame):
    if frame.f_code.co_filename.endswith(("threads.py", "threading.py")):
        raise TimeoutError
"""
        assert run(self.HANDLER.format(seconds=3, handler=handler)) == "True True\n"


class TestLimit:
    def test_of_the_environment(self):
        code = "import dlref; print(dlref.get_num_threads())"
        assert run(code, DLREF_NUM_THREADS="3") == "3\n"

    @pytest.mark.parametrize(
        "text", ["0", "-1", "many", str(2**62), "9" * 5000, "1.5", "+-2", "\N{SUPERSCRIPT TWO}"]
    )
    def test_a_wrong_one_of_the_environment_is_refused(self, monkeypatch, text):
        monkeypatch.setenv("DLREF_NUM_THREADS", text)
        with pytest.raises((TypeError, ValueError), match=r"^Argument 'DLREF_NUM_THREADS' must be"):
            threads._from_environment()

    @pytest.mark.parametrize("text", ["2", " 2", "+2", "2\n", "02"])
    def test_of_the_environment_as_shells_write_it(self, monkeypatch, text):
        monkeypatch.setenv("DLREF_NUM_THREADS", text)
        assert threads._from_environment() == 2

    @pytest.mark.parametrize("text", ["", " "])
    def test_an_empty_one_is_none(self, monkeypatch, text):
        monkeypatch.setenv("DLREF_NUM_THREADS", text)
        monkeypatch.setattr(threads, "available", lambda: 5)
        assert threads._from_environment() == 5

    def test_without_one_it_is_the_processors_there_are(self, monkeypatch):
        monkeypatch.delenv("DLREF_NUM_THREADS", raising=False)
        monkeypatch.setattr(threads, "available", lambda: 5)
        assert threads._from_environment() == 5
        monkeypatch.setenv("DLREF_NUM_THREADS", "7")
        assert threads._from_environment() == 7

    @pytest.mark.parametrize(
        ("bad", "error"),
        [
            (0, ValueError),
            (-1, ValueError),
            (2**62, ValueError),
            (1.5, TypeError),
            ("2", TypeError),
        ],
    )
    def test_a_wrong_one_is_refused(self, bad, error):
        before = dlref.get_num_threads()
        with pytest.raises(error, match=r"^Argument 'num_threads' must be .*, not "):
            dlref.set_num_threads(bad)
        assert dlref.get_num_threads() == before


class TestProcessors:
    @pytest.fixture
    def groups(self, monkeypatch, tmp_path):
        """Return what makes up control groups: the file of memberships, and others by name."""

        def make(membership, files):
            for name, text in files.items():
                path = tmp_path / "groups" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text + "\n")
            (tmp_path / "self").write_text(membership)
            threads._quota.cache_clear()

        monkeypatch.setattr(threads, "CONTROL_GROUPS", tmp_path / "groups")
        monkeypatch.setattr(threads, "MEMBERSHIP", tmp_path / "self")
        threads._quota.cache_clear()
        yield make
        threads._quota.cache_clear()

    @pytest.fixture
    def eight(self, monkeypatch):
        monkeypatch.setattr(os, "process_cpu_count", lambda: 8, raising=False)

    @pytest.mark.parametrize(
        ("membership", "files", "count"),
        [
            ("0::/a/b\n", {"a/b/cpu.max": "250000 100000"}, 3),  # rounded up
            ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "100000 100000"}, 1),
            ("0::/a/b\n", {"a/b/cpu.max": "max 100000"}, 8),
            ("0::/a\n", {"a/cpu.max": "1000 100000"}, 1),
            ("0::/a\n", {"a/cpu.max": "1600000 100000"}, 8),
            ("0::/docker/17\n", {"cpu.max": "200000 100000"}, 2),  # in a container
            ("0::/../../b\n", {"cpu.max": "200000 100000"}, 2),
            ("0::/a\n", {"a/cpu.max": "nonsense"}, 8),
            ("0::/\n", {}, 8),
            (
                "5:cpu,cpuacct:/c\n4:memory:/\n",
                {"cpu/c/cpu.cfs_quota_us": "350000", "cpu/c/cpu.cfs_period_us": "100000"},
                4,
            ),
            (
                "5:cpu,cpuacct:/c\n0::/\n",
                {
                    "cpu,cpuacct/c/cpu.cfs_quota_us": "-1",
                    "cpu,cpuacct/c/cpu.cfs_period_us": "100000",
                    "cpu,cpuacct/cpu.cfs_quota_us": "20000",
                    "cpu,cpuacct/cpu.cfs_period_us": "10000",
                },
                2,
            ),
            ("0::/a\n1:cpuset:/\n", {"unified/a/cpu.max": "300000 100000"}, 3),
        ],
    )
    def test_those_that_control_groups_grant(self, eight, groups, membership, files, count):
        groups(membership, files)
        assert threads.available() == count

    def test_without_control_groups(self, eight, groups):
        assert threads.available() == 8

    @linux_only
    def test_those_this_process_may_run_on(self):
        one = min(os.sched_getaffinity(0))
        code = f"""
import os
from dlref._core import threads
os.sched_setaffinity(0, [{one}])
print(threads.available(), threads.threads_for(1000, 1e6))
"""
        assert run(code, DLREF_NUM_THREADS="8") == "1 1\n"

    def test_elsewhere_all(self, groups, monkeypatch):
        monkeypatch.delattr(os, "process_cpu_count", raising=False)
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
        monkeypatch.setattr(os, "cpu_count", lambda: 4)
        assert threads.available() == 4
        monkeypatch.setattr(os, "cpu_count", lambda: None)
        assert threads.available() == 1
