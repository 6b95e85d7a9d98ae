"""
What a first call costs: ``tox run -e measure -- cold [softmax attention ...]``.

Each public function is called once in a process that has compiled nothing, with an empty cache on
disk.  CPU seconds are those of the call alone, of all threads, without the import; they depend less
on what else the machine does than time on the clock.  "compiled" counts the functions that numba
compiled (tests/core/test_cold.py holds some of these numbers).

Arguments are those of tests/cases.py and tests/calls.py; for what is in neither, the examples of
the docstring are run.  Writes docs/results/cold.csv.
"""

import argparse
import contextlib
import csv
import doctest
import os
import pickle
import statistics
import sys
import time
import warnings
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results" / "cold.csv"
DTYPES = ("float32", "float64")


def in_a_child(f, *args):
    """Call a function in a forked child and return its result, so that this process stays cold."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        with os.fdopen(write, "wb") as out:
            try:
                pickle.dump(f(*args), out)
            except BaseException as error:  # raised by the parent
                pickle.dump(RuntimeError(f"{f.__name__}{args[:2]}: {error!r}"), out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        found = pickle.load(answer)  # our own child's
    os.waitpid(pid, 0)
    if isinstance(found, Exception):
        raise found
    return found


def prepared():
    """Return the calls of tests/calls.py, pickled; to prepare some of them compiles."""
    import calls  # noqa: PLC0415

    found = {}
    for name, call in calls.calls().items():
        with contextlib.suppress(AttributeError, pickle.PicklingError):  # of local functions
            found[name] = pickle.dumps(call)
    return found


def examples(f):
    """Return a call that runs the examples of a docstring."""
    test = doctest.DocTestFinder(recurse=False).find(f, globs={})[0]

    def run():
        for example in test.examples:
            shows_an_error = (Exception,) if example.exc_msg else ()
            with contextlib.suppress(*shows_an_error):
                exec(compile(example.source, "example", "single"), test.globs)

    return run


def call_of(name, dtype, known):
    """Return a call of a public function, or None where the dtype makes no difference."""
    import calls  # noqa: PLC0415
    import test_contract  # noqa: PLC0415

    if name in test_contract.FUNCTIONS:
        problem = test_contract.problems(name, dtype=np.dtype(dtype).type)[0]
        arguments = problem.arguments(test_contract.form_of(name))
        return lambda: test_contract.evaluate(name, problem, arguments)
    if name in known:
        given, options = pickle.loads(known[name])  # our own child's
        given = calls.mapped(lambda a: a.astype(dtype) if a.dtype.kind == "f" else a, given)
        return lambda: calls.function(name)(*given, **options)
    return examples(calls.function(name)) if dtype == "float64" else None


def first_call(name, dtype, known):
    """Return CPU seconds and the compiled functions of a first call."""
    from numba.core import event  # noqa: PLC0415

    call = call_of(name, dtype, known)
    if call is None:
        return None
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # examples print
    with event.install_recorder("numba:compile") as record, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        call()
        seconds = time.process_time() - start
    starts = [e for _, e in record.buffer if e.is_start]
    names = [e.data["dispatcher"].py_func.__name__ for e in starts]
    return seconds, names


def public_names():
    import dlref  # noqa: PLC0415

    for chapter in dlref.__all__:
        for name in getattr(getattr(dlref, chapter), "__all__", ()):
            f = getattr(getattr(dlref, chapter), name)
            if not isinstance(f, type) and name not in {"save_params", "load_params"}:
                yield f"{chapter}.{name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("words", nargs="*", help="only functions whose names hold one of these")
    parser.add_argument("--names", action="store_true", help="print what was compiled")
    options = parser.parse_args()
    os.environ["NUMBA_CACHE_DIR"] = os.devnull  # nothing is kept, so each child finds it empty
    import test_contract  # noqa: F401, PLC0415  # loads all chapters, and compiles nothing

    known = in_a_child(prepared)
    rows = []
    for name in public_names():
        if options.words and not any(word in name for word in options.words):
            continue
        found = [in_a_child(first_call, name, dtype, known) for dtype in DTYPES]
        there = [f for f in found if f is not None]
        seconds = [f"{f[0]:.2f}" if f else "" for f in found]
        rows.append([name, *seconds, max(len(f[1]) for f in there)])
        print(*rows[-1], sep="\t", flush=True)
        if options.names:
            print("   ", *there[-1][1])
    for i, dtype in enumerate(DTYPES, 1):
        seconds = [float(row[i]) for row in rows if row[i]]
        worst = max(rows, key=lambda row: float(row[i] or 0))
        print(f"{dtype}: median {statistics.median(seconds):.2f}, worst {worst[i]} ({worst[0]})")
    if not options.words:
        with RESULTS.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["function", *(f"{d}, CPU seconds" for d in DTYPES), "compiled"])
            writer.writerows(rows)


if __name__ == "__main__":
    main()
