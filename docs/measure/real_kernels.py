"""
Put kernels that libraries ship to check_all: ``tox run -e measure -- real_kernels LIBRARY``.

The libraries are in docs/measure/real. With ``--device cuda`` inputs are placed on a GPU; without
it, kernels of Triton run in its interpreter (``TRITON_INTERPRET=1``), with few small shapes. Prints
a line for each kernel and dtype, and with ``--list`` each report that is off. ``--write`` replaces
their lines in docs/results/real.csv. Each kernel has a process of its own, so that one that crashes
takes no other with it.
"""

import argparse
import csv
import importlib
import multiprocessing
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests")]

from real import complete_interpreter  # noqa: E402

from dlref import check  # noqa: E402

RESULTS = ROOT / "docs" / "results" / "real.csv"
HEADS = "library", "processor", "kernel", "dtype", "right", "off", "skipped"
LIBRARIES = "pytorch", "liger", "fla"
#: Seconds after which a kernel is given up.
PATIENCE = 300


def kernels(library, device):
    module = importlib.import_module(f"real.{library}")
    return module.KERNELS + (getattr(module, "ON_DEVICE", ()) if device else ())


def place(library, device):
    """Return where the kernels of a library run."""
    return "GPU" if device else "processor" if library == "pytorch" else "interpreter"


def put(library, name, dtype, device):
    """Return the numbers of cases, the main cause and the report of a kernel."""
    if place(library, device) == "interpreter":
        complete_interpreter()
    kernel = next(k for k in kernels(library, device) if k.name == name)
    options = {"framework": "torch", "dtype": dtype, "device": device, **kernel.options}
    if kernel.cases:
        options["cases"] = kernel.cases(dtype)
    elif place(library, device) == "interpreter" and kernel.few:
        options["shapes"] = kernel.few
    with np.errstate(all="ignore"):
        report = check.check_all(kernel.candidate, kernel.op, vjp=kernel.vjp, **options)
    right = sum(row.outcome == "right" for row in report.rows)
    causes = report.causes
    why = next(iter(causes)) if causes else ""
    return right, len(report.failed), len(report.unsupported), why, str(report)


def outcomes(todo, workers):
    """Yield what each process returns, in order; a crash or too long a time is said."""
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(workers, maxtasksperchild=1) as pool:
        waiting = [(one, pool.apply_async(put, one)) for one in todo]
        for one, result in waiting:
            try:
                yield one, result.get(PATIENCE)
            except multiprocessing.TimeoutError:
                yield one, (0, 0, 0, f"no result after {PATIENCE} s", "")
            except Exception as error:
                yield one, (0, 0, 0, f"{type(error).__name__}: {error}", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", nargs="+", choices=LIBRARIES)
    parser.add_argument("--device", help="such as cuda; without it, the processor")
    parser.add_argument("--only", nargs="*", help="kernels of these names")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    todo = [
        (library, kernel.name, dtype, options.device)
        for library in options.libraries
        for kernel in kernels(library, options.device)
        for dtype in kernel.dtypes
        # which has no bfloat16
        if place(library, options.device) != "interpreter" or dtype != "bfloat16"
        if not options.only or kernel.name in options.only
    ]
    if "fla" in options.libraries and not options.device:
        parser.error("fla needs a GPU: its functions ask for a driver")
    lines = []
    try:
        for (library, name, dtype, device), outcome in outcomes(todo, options.workers):
            *numbers, why, report = outcome
            lines.append((library, place(library, device), name, dtype, *numbers))
            print(*lines[-1], why, sep=", ", flush=True)
            if options.list and numbers[1]:
                print(report, flush=True)
    finally:
        if options.write:
            write(lines)


def write(lines):
    fresh = {line[:4] for line in lines}
    old = []
    if RESULTS.exists():
        with RESULTS.open(encoding="utf-8", newline="") as file:
            old = [line for line in list(csv.reader(file))[1:] if tuple(line[:4]) not in fresh]
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADS, *old, *lines])


if __name__ == "__main__":
    main()
