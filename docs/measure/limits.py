"""
Measure what limits the speed of products of matrices, recurrent networks and training:
``tox run -e measure -- limits``.

The parts of an LSTM one by one; the innermost loop of dlref's product, a whole product, and
those of the others.  Each library has a process of its own.  Writes docs/results/limits.csv.
"""

import argparse
import csv
import functools
import json
import subprocess
import sys
from pathlib import Path

import bench
import numpy as np
from bench import label

RESULTS = Path(__file__).parents[1] / "results" / "limits.csv"
SIDE = 1024  # of the matrices that are multiplied
SEQUENCES = [(100, 32, 64, 128), (100, 64, 256, 512)]  # T, B, D, H
MODEL = (8, 128, 256, 4, 4)
HEADS = (1, 8, 512, 64)
ROUNDS = 3
fastest = functools.partial(bench.fastest, seconds=0.6)


def model(library):
    """Return the calls that consist of products mostly: a training step and attention."""
    return {
        "training step": bench.call_of(
            library, "transformer", "language_model_loss", "vjp", MODEL, "float32"
        ),
        "attention, forward and backward": bench.call_of(
            library, "attention", "scaled_dot_product_attention", "vjp", HEADS, "float32"
        ),
    }


def innermost():
    """Return the call of the loop over a tile that stays in the first-level cache."""
    from dlref._core.jit import kernel  # noqa: PLC0415
    from dlref._math.gemm_tiles import ROWS, WIDTH_BYTES, add_tile  # noqa: PLC0415

    depth, times, width = 128, 10_000, WIDTH_BYTES // 4

    @kernel
    def repeat(a, w, out):
        for _ in range(times):
            add_tile(a, w, out)

    shapes = (ROWS, depth), (1, depth, width), (ROWS, width)
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    return (lambda: repeat(*arrays)), label((ROWS, depth, width)), 2 * times * ROWS * depth * width


def rows_of_dlref():
    """Return the rows of this process: what, size, operations or None, microseconds."""
    from dlref._math.gemm import matmul  # noqa: PLC0415

    a = np.random.default_rng(0).random((SIDE, SIDE), np.float32)
    call, size, operations = innermost()
    rows = [("innermost loop of dlref, one thread", size, operations, fastest(call))]
    time = fastest(lambda: matmul(a[None], a[None]))
    rows.append(("matrix product of dlref, one thread", label(a.shape), 2 * SIDE**3, time))
    for (what, call), shape in zip(model("dlref").items(), (MODEL, HEADS), strict=True):
        rows.append((what, label(shape), None, fastest(call)))
    return rows


def rows_of_numpy():
    from threadpoolctl import threadpool_info, threadpool_limits  # noqa: PLC0415

    a = np.random.default_rng(0).random((SIDE, SIDE), np.float32)
    core = next(i["architecture"] for i in threadpool_info() if i["internal_api"] == "openblas")
    title = f"matrix product of NumPy, one thread (OpenBLAS for {core})"
    with threadpool_limits(1):
        return [(title, label(a.shape), 2 * SIDE**3, fastest(lambda: a @ a))]


def rows_of_torch():
    import torch  # noqa: PLC0415

    a = torch.rand(SIDE, SIDE)
    rows = []
    for (what, call), shape in zip(model("PyTorch").items(), (MODEL, HEADS), strict=True):
        rows.append((f"{what} of PyTorch", label(shape), None, fastest(call)))
    for shape in SEQUENCES:
        call = bench.call_of("PyTorch", "recurrent", "lstm", "map", shape, "float32")
        T, B, D, H = shape
        operations = 2 * T * B * 4 * H * (D + H)
        rows.append(("LSTM of PyTorch", label(shape), operations, fastest(call)))
    torch.set_num_threads(1)
    time = fastest(lambda: a @ a)
    return [("matrix product of PyTorch, one thread", label(a.shape), 2 * SIDE**3, time), *rows]


LIBRARIES = {"dlref": rows_of_dlref, "numpy": rows_of_numpy, "torch": rows_of_torch}


def measured(library):
    """Return the rows that a process of its own prints."""
    command = [sys.executable, __file__, "--measure", library]
    environment = bench.environment()
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return [tuple(row) for row in json.loads(done.stdout)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--measure", choices=LIBRARIES, help=argparse.SUPPRESS)
    library = parser.parse_args().measure
    if library:
        print(json.dumps(LIBRARIES[library]()))
        return
    best = {}
    for _ in range(ROUNDS):
        for library in LIBRARIES:
            for *row, time in measured(library):
                best[tuple(row)] = min(time, best.get(tuple(row), time))
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["what", "size", "ms", "GFLOP/s"])
        for (what, size, operations), time in sorted(best.items(), key=lambda item: item[0][1]):
            rate = f"{operations / time / 1e3:.0f}" if operations else ""
            writer.writerow([what, size, f"{time / 1e3:.2f}", rate])
            print(what, size, f"{time / 1e3:.2f}", rate, sep="\t")


if __name__ == "__main__":
    main()
