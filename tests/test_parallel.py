"""Tests of dlref._parallel: rows over threads."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import dlref
from dlref import _parallel
from dlref._parallel import over_rows


@pytest.fixture(autouse=True)
def keep_the_limit():
    before = dlref.get_num_threads()
    yield
    dlref.set_num_threads(before)


def visit(start, stop, seen, by):
    seen[start:stop] += 1
    by[start:stop] = threading.get_ident()


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 1000])
def test_every_row_is_visited_once(rows, threads):
    dlref.set_num_threads(threads)
    seen, by = np.zeros(rows, int), np.zeros(rows, np.uint64)
    over_rows(visit, rows, _parallel.MIN_WORK, seen, by)
    assert (seen == 1).all()
    assert len(set(by)) <= threads


def test_large_work_uses_several_threads():
    dlref.set_num_threads(2)
    barrier = threading.Barrier(2, timeout=10)  # passes only if both ranges run at once
    over_rows(lambda _start, _stop: barrier.wait(), 2, 10 * _parallel.MIN_WORK)


def test_ranges_get_shorter(monkeypatch):
    alone = staticmethod(lambda _jobs: None)  # the other thread ends at once
    monkeypatch.setattr(_parallel._Pool, "serve", alone)
    dlref.set_num_threads(2)
    sizes = []
    over_rows(lambda start, stop: sizes.append(stop - start), 1000, _parallel.MIN_WORK)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 250
    assert sizes[-2] == 15  # a 64th of all, and then what is left
    assert sum(sizes) == 1000


def test_small_work_stays_on_this_thread():
    dlref.set_num_threads(8)
    seen, by = np.zeros(100, int), np.zeros(100, np.uint64)
    over_rows(visit, 100, 1, seen, by)
    assert set(by) == {threading.get_ident()}


def test_an_error_in_a_thread_is_raised_here():
    def fail(start, _stop):
        if start:
            raise RuntimeError(start)

    dlref.set_num_threads(2)
    with pytest.raises(RuntimeError):
        over_rows(fail, 2, _parallel.MIN_WORK)


def test_after_an_error_nothing_more_is_begun():
    dlref.set_num_threads(2)
    begun = []

    def fail(start, _stop):
        begun.append(start)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        over_rows(fail, 1000, _parallel.MIN_WORK)
    assert len(begun) <= 2


def test_nested_calls_do_not_wait_for_each_other():
    dlref.set_num_threads(2)
    seen = np.zeros((4, 4), int)

    def outer(start, stop):
        for row in range(start, stop):
            over_rows(visit, 4, _parallel.MIN_WORK, seen[row], np.zeros(4, np.uint64))

    over_rows(outer, 4, _parallel.MIN_WORK)
    assert (seen == 1).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_gets_threads_of_its_own():
    code = """
import os, numpy as np, dlref
from dlref import _parallel
dlref.set_num_threads(2)
def visit(start, stop, seen):
    seen[start:stop] += 1
def all_seen():
    seen = np.zeros(8, int)
    _parallel.over_rows(visit, 8, _parallel.MIN_WORK, seen)
    return (seen == 1).all()
assert all_seen()
child = os.fork()
if child == 0:
    os._exit(0 if all_seen() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


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
