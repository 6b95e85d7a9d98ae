"""
Long runs: a million calls that leave no memory behind, training that has the same bits everywhere.

    python docs/measure/endurance.py --calls 1000000 --steps 1000

All public functions take turns.  Memory counts from the time when each was called often enough to
be compiled and to have filled what it keeps.  A small language model is trained with 1, 2 and 5
threads and in another process.  Writes docs/results/endurance.csv.  Needs tqdm.
"""

import argparse
import csv
import gc
import hashlib
import itertools
import multiprocessing
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import battery
import numpy as np

from dlref import get_num_threads, set_num_threads
from dlref.training import adamw_step
from dlref.transformer import (
    LanguageModelConfig,
    copy_task,
    init_language_model,
    language_model_loss_value_and_grad,
)

RESULTS = Path(__file__).parents[1] / "results" / "endurance.csv"
THREADS = (1, 2, 5)
MEGABYTE = 2**20
GROWTH = 4 * MEGABYTE  # of the heap itself, which is not given back page by page


def memory():
    """Return the bytes that this process holds in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def growth(count, cases, watch=lambda calls: calls):
    """Call the cases in turn; return by how many bytes the process grew in the second half."""
    turns = itertools.cycle(cases)
    half = count // 2
    before = 0
    for number in watch(range(count)):
        if number == half:
            before = memory()
        next(turns).run()
    return memory() - before


def trained(steps, threads):
    """Return a digest of the bits of a model after so many steps of training."""
    earlier = get_num_threads()
    set_num_threads(threads)
    try:
        rng = np.random.default_rng(0)
        config = LanguageModelConfig(
            vocab_size=12, d_model=32, num_heads=4, num_layers=2, length=32
        )
        params, state = init_language_model(rng, config), None
        for _ in range(steps):
            tokens, targets = copy_task(rng, 8, length=10, vocabulary=config.vocab_size)
            _, grads = language_model_loss_value_and_grad(tokens, params, config, targets=targets)
            params, state = adamw_step(params, grads, state, learning_rate=1e-3)
    finally:
        set_num_threads(earlier)
    return hashlib.sha256(b"".join(battery.bits(params))).hexdigest()


def digests(steps):
    """Yield (how, digest) of the same training under other circumstances."""
    for threads in THREADS:
        yield f"{threads} threads", trained(steps, threads)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield "another process", pool.submit(trained, steps, 1).result()


def main():
    """Run both, and write what came of them."""
    from tqdm import tqdm  # noqa: PLC0415  # the tests do without

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--calls", type=int, default=10**6)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    cases = [case for key, case in battery.cases().items() if key.split("/")[1] == "0"]
    grown = growth(options.calls, cases, tqdm)
    found = dict(tqdm(digests(options.steps), total=len(THREADS) + 1))
    same = len(set(found.values())) == 1
    rows = [
        ("calls in turn", f"{options.calls:,}", f"{grown / MEGABYTE:.1f} MB in the second half"),
        (
            f"training for {options.steps:,} steps, with " + ", ".join(found),
            len(found),
            "the same bits" if same else "other bits",
        ),
    ]
    with RESULTS.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["long run", "runs", "outcome"])
        table.writerows(rows)
    print(*rows, sep="\n")
    sys.exit(grown > GROWTH or not same)


if __name__ == "__main__":
    main()
