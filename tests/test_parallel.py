"""Tests of dlref._parallel: rows over threads."""

import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import dlref
from dlref import _parallel
from dlref._jit import COMPILED, kernel
from dlref._parallel import over_phases, over_rows

pytestmark = pytest.mark.usefixtures("set_num_threads")  # many set the limit


@kernel
def visit(start, stop, seen):
    for i in range(start, stop):
        seen[i] += 1


@kernel
def note(start, stop, when, count):
    for i in range(start, stop):
        count[0] += 1
        when[i] = count[0]


@kernel
def meet(start, _stop, present):
    """Stay until the other range has begun, or for a second."""
    _parallel._atomic_add(present, start, 1)
    for _ in range(10**8):
        if _parallel._atomic_add(present, 1 - start, 0):
            present[2 + start] = 1
            break


@kernel
def fail(start, _stop, begun):
    _parallel._atomic_add(begun, 0, 1)
    if start >= 0:
        raise RuntimeError


@kernel
def follow(phase, part, marks, early):
    """Mark a part of a phase, and count the parts of the phase before that are not marked."""
    if phase > 0:
        for other in range(marks.shape[1]):
            early[part] += marks[phase - 1, other] != 1
    marks[phase, part] += 1


def have_met():
    """Return whether two threads were at work at once; the second may have just fallen asleep."""
    for _ in range(5):
        present = np.zeros(4, np.int64)
        over_rows(meet, 2, 10 * _parallel.MIN_WORK, present)
        if present.all():
            return True
    return False


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 1000])
def test_every_row_is_visited_once(rows, threads):
    dlref.set_num_threads(threads)
    seen = np.zeros(rows, np.int64)
    for count in range(1, 5):
        over_rows(visit, rows, _parallel.MIN_WORK, seen)
        assert (seen == count).all()
    assert _parallel._pool is None or len(_parallel._pool.alarms) == threads - 1


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("phases", "parts"), [(0, 2), (1, 1), (3, 2), (1000, 3), (200, 5)])
def test_a_phase_begins_when_the_one_before_is_done(threads, phases, parts):
    dlref.set_num_threads(threads)
    for _ in range(5):
        marks, early = np.zeros((phases, parts), np.int64), np.zeros(parts, np.int64)
        over_phases(follow, phases, parts, _parallel.MIN_WORK, marks, early)
        assert (marks == 1).all()
        assert not early.any()


def test_small_work_starts_no_thread():
    dlref.set_num_threads(8)
    seen = np.zeros(100, np.int64)
    over_rows(visit, 100, 1, seen)
    assert (seen == 1).all()
    assert _parallel._pool is None


@pytest.mark.skipif(not COMPILED, reason="interpreted, all is done on one thread")
class TestPool:
    def test_threads_work_at_once(self):
        dlref.set_num_threads(2)
        assert all(have_met() for _ in range(3))

    def test_a_thread_falls_asleep_and_is_woken(self):
        dlref.set_num_threads(2)
        assert have_met()
        end = time.monotonic() + 10
        while not _parallel._pool.seats[0, _parallel.ASLEEP]:
            assert time.monotonic() < end
        assert have_met()

    def test_an_error_in_a_thread_is_raised_here(self):
        dlref.set_num_threads(2)
        begun = np.zeros(1, np.int64)
        with pytest.raises(RuntimeError):
            over_rows(fail, 1000, _parallel.MIN_WORK, begun)
        assert begun[0] <= 2  # nothing more is begun
        assert have_met()

    def test_an_error_of_a_helper_is_kept(self):
        job = _parallel._Job(fail, 2, 1, 1, np.zeros(1, np.int64))
        job.help(1)
        assert isinstance(job.error, RuntimeError)
        assert not job.helpers

    def test_while_a_pool_works_another_call_does_without(self):
        dlref.set_num_threads(2)
        seen = np.zeros(100, np.int64)
        with _parallel._threads().free:
            over_rows(visit, 100, _parallel.MIN_WORK, seen)
        assert (seen == 1).all()

    def test_a_helper_that_is_held_up_is_waited_for(self):
        job = _parallel._Job(visit, 2, 1, 1, np.zeros(1, np.int64))
        job.helpers.append(job)
        threading.Timer(0.02, job.helpers.pop).start()
        _parallel._Pool(1).run(job, 1)
        assert not job.helpers

    def test_threads_hold_nothing_after_a_call(self):
        dlref.set_num_threads(2)
        seen = np.zeros(100, np.int64)
        held = weakref.ref(seen)
        over_rows(visit, 100, _parallel.MIN_WORK, seen)
        del seen
        end = time.monotonic() + 10
        while held() is not None:  # only if it was held up
            assert time.monotonic() < end

    def test_threads_end_with_their_pool(self):
        before = set(threading.enumerate())
        pool = _parallel._Pool(2)
        threads = set(threading.enumerate()) - before
        assert len(threads) == 2
        del pool
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()


def counters(count):
    return np.zeros((count, _parallel.LINE), np.int64)


class TestCounters:
    """What a pool consists of, on one thread."""

    def test_waits_for_a_signal(self):
        seat = np.zeros(_parallel.LINE, np.int64)
        seat[_parallel.SIGNALS] = 3
        assert _parallel._await(seat, 2) == 3
        assert _parallel._await(seat, 3) == 3
        assert (seat[_parallel.SEEN], seat[_parallel.ASLEEP]) == (3, 1)

    def test_all_ranges_are_taken(self):
        seen, seats, job = np.zeros(10, np.int64), counters(2), counters(3)
        seats[0, _parallel.ASLEEP] = 1  # the other never answers
        _parallel._sharing(visit)(seats, job, 0, 10, 4, seen)
        assert (seen == 1).all()
        assert job[:, _parallel.TAKEN].tolist() == [2, 2, 3]  # once more than there are
        assert job[0, _parallel.DONE] == 4
        assert (seats[:, _parallel.SIGNALS] == 1).all()

    @pytest.mark.parametrize(
        ("own", "order"),
        [(0, [1, 2, 3, 4, 5, 6]), (1, [5, 6, 1, 2, 3, 4]), (2, [3, 4, 5, 6, 1, 2])],
    )
    def test_a_thread_begins_with_its_own_share(self, own, order):
        when, count = np.zeros(6, np.int64), np.zeros(1, np.int64)
        _parallel._sharing(note)(_parallel.NOBODY, counters(3), own, 6, 6, when, count)
        assert when.tolist() == order

    def test_a_range_that_is_not_finished_is_waited_for(self):
        seats, job, seen = counters(1), counters(2), np.zeros(2, np.int64)
        job[0, _parallel.TAKEN] = 1  # by a thread that does not get on
        _parallel._sharing(visit)(seats, job, 1, 2, 2, seen)
        assert seen.tolist() == [0, 1]


class TestPhases:
    """One thread, where another has begun or done some parts."""

    def run(self, taken, done):
        marks, early = np.zeros((3, 2), np.int64), np.zeros(2, np.int64)
        _parallel._phasing(follow)(0, 1, 3, np.array(taken), np.array(done), marks, early)
        return marks.tolist()

    def test_parts_that_nobody_begins_are_done(self):
        assert self.run([[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]) == [[1, 1]] * 3

    def test_another_that_kept_up_and_left_is_waited_for_not_for_long(self):
        assert self.run([[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [1, 0, 0]]) == [[1, 0], [1, 1], [1, 1]]

    def test_a_part_that_is_begun_is_waited_for(self):
        taken, done = np.array([[0, 0, 0], [1, 1, 1]]), np.array([[0, 0, 0], [1, 0, 1]])
        marks, early = np.zeros((3, 2), np.int64), np.zeros(2, np.int64)
        before = []

        def finish():
            before.extend(marks[:, 0])
            done[1, 1] = 1

        threading.Timer(0.1, finish).start()
        _parallel._phasing(follow)(0, 1, 3, taken, done, marks, early)
        assert before == [1, 1, 0]
        assert marks.tolist() == [[1, 0]] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_gets_threads_of_its_own(tmp_path):
    program = tmp_path / "program.py"  # compiled code is kept for functions from files alone
    program.write_text("""
import os, numpy as np, dlref
from dlref import _parallel
dlref.set_num_threads(2)
from dlref._jit import kernel
@kernel
def visit(start, stop, seen):
    for i in range(start, stop):
        seen[i] += 1
def all_seen():
    seen = np.zeros(8, np.int64)
    _parallel.over_rows(visit, 8, _parallel.MIN_WORK, seen)
    return (seen == 1).all()
assert all_seen()
child = os.fork()
if child == 0:
    os._exit(0 if all_seen() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
""")
    subprocess.run([sys.executable, "-W", "ignore", program], check=True, timeout=60)


@pytest.mark.parametrize(("text", "code"), [("3", 0), ("0", 1), ("many", 1)])
def test_the_environment_sets_the_limit(text, code):
    done = subprocess.run(
        [sys.executable, "-c", "import dlref; assert dlref.get_num_threads() == 3"],
        env={**os.environ, "DLREF_NUM_THREADS": text},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code
    assert ("Argument 'DLREF_NUM_THREADS' must be" in done.stderr) == bool(code)


def test_without_a_limit_it_is_the_cores_this_process_may_use(monkeypatch):
    monkeypatch.delenv("DLREF_NUM_THREADS", raising=False)
    assert 1 <= _parallel._from_environment() <= os.cpu_count()
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert _parallel._from_environment() == 1
    monkeypatch.setenv("DLREF_NUM_THREADS", "5")
    assert _parallel._from_environment() == 5


@pytest.mark.parametrize(
    ("bad", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("2", TypeError)]
)
def test_a_wrong_limit_is_refused(bad, error):
    with pytest.raises(error, match=r"^Argument 'num_threads' must be .*, not "):
        dlref.set_num_threads(bad)
