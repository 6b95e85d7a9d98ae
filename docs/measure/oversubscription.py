"""
Measure calls with more threads than processors: ``tox run -e measure -- oversubscription``.

The median time of a call that gains nothing from threads (an LSTM, one sequence) and of one that
gains little (softmax), with 1, 2, 8 and 64 threads, on all processors and on one, each in a
process of its own.  Writes docs/results/threads.csv.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results" / "threads.csv"
THREADS = (1, 2, 8, 64)
SECONDS, ROUNDS = 1.0, 5


def calls():
    from dlref.activations import softmax  # noqa: PLC0415
    from dlref.recurrent import lstm  # noqa: PLC0415

    rng = np.random.default_rng(0)
    T, units = 100, 512
    x, logits = rng.normal(size=(1, T, units)), rng.normal(size=(512, 1000))
    weights = rng.uniform(-0.04, 0.04, size=(2, 4 * units, units))
    x, logits, *weights = (a.astype(np.float32) for a in (x, logits, *weights))
    return {
        "LSTM, T 100, 512 units, one sequence": lambda: lstm(x, None, None, *weights),
        "softmax, 512 x 1000": lambda: softmax(logits),
    }


def measure(processors):
    """Print the median milliseconds of each call, by number of threads, which take turns."""
    if processors:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:processors])
    from dlref import set_num_threads  # noqa: PLC0415

    found = {}
    for name, call in calls().items():
        call()
        times = {threads: [] for threads in THREADS}
        for _ in range(ROUNDS):
            for threads in THREADS:
                set_num_threads(threads)
                end = time.perf_counter() + SECONDS / ROUNDS
                while time.perf_counter() < end:
                    start = time.perf_counter()
                    call()
                    times[threads].append(time.perf_counter() - start)
        found[name] = [1e3 * statistics.median(times[threads]) for threads in THREADS]
    print(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    processors = parser.parse_args().measure
    if processors is not None:
        measure(processors)
        return
    every = len(os.sched_getaffinity(0))
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["call", "processors", *(f"ms, {n} threads" for n in THREADS)])
        for count in sorted({1, every}):
            command = [sys.executable, __file__, "--measure", str(count)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            for name, times in json.loads(done.stdout).items():
                row = [name, count, *(f"{t:.2f}" for t in times)]
                writer.writerow(row)
                print(*row, sep="\t")


if __name__ == "__main__":
    main()
