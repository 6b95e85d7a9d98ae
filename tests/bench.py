"""
Time dlref against NumPy and PyTorch: ``tox run -e bench [-- name ...]``.

Every library runs in its own process, one after the other and again, with the same number of
threads, so that no library's idle threads disturb another's; the fastest of all repetitions
counts.  Times are in microseconds, ratios are the peer's time over dlref's.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np
from tqdm import tqdm

THREADS = 2
ROUNDS = 3  # processes per library
SECONDS = 0.3  # of repetitions, per process and row


def draw(*shape, dtype):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


# Each row: a shape and dtype, and for each library a function that returns the call to time.


def torch_vjp(f, *inputs, dout):
    """Return a call that runs forward and backward in PyTorch."""
    import torch  # noqa: PLC0415  # not in the processes of the others

    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    seed = torch.tensor(dout)
    return lambda: torch.autograd.grad(f(*tensors), tensors, seed)


def reduction(name, torch_name, numpy_vjp):
    def row(library, shape, dtype):
        x, dout = draw(*shape, dtype=dtype), draw(shape[0], dtype=dtype)
        if library == "dlref":
            from dlref import calculus  # noqa: PLC0415

            f = getattr(calculus, f"{name}_vjp")
            return lambda: f(dout, x, axis=1)
        if library == "numpy":
            return lambda: numpy_vjp(dout[:, None], x)
        import torch  # noqa: PLC0415

        f = {"norm": torch.linalg.vector_norm}.get(name) or getattr(torch, torch_name)
        return torch_vjp(lambda x: f(x, dim=1), x, dout=dout)

    return row


def matmul(library, shape, dtype):
    n = shape[0]
    a, b, dout = (draw(n, n, dtype=dtype) for _ in range(3))
    if library == "dlref":
        from dlref.calculus import matmul_vjp  # noqa: PLC0415

        return lambda: matmul_vjp(dout, a, b)
    if library == "numpy":
        return lambda: (dout @ b.T, a.T @ dout)
    import torch  # noqa: PLC0415

    return torch_vjp(torch.matmul, a, b, dout=dout)


ROWS = {
    "calculus.sum_vjp": reduction("sum", "sum", lambda u, x: u * np.ones_like(x)),
    "calculus.prod_vjp": reduction(
        "prod", "prod", lambda u, x: u * np.prod(x, axis=1, keepdims=True) / x
    ),
    "calculus.max_vjp": reduction(
        "max", "amax", lambda u, x: u * (x == x.max(axis=1, keepdims=True))
    ),
    "calculus.norm_vjp": reduction(
        "norm", "norm", lambda u, x: u * x / np.linalg.norm(x, axis=1, keepdims=True)
    ),
    "calculus.matmul_vjp": matmul,
}
SHAPES = {"calculus.matmul_vjp": [(64, 64), (512, 512)]}
REDUCED = [(64, 32), (4096, 512)]


def fastest(call):
    """Return the shortest time of a call, in microseconds."""
    call()
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best


def measure(library, names):
    """Print the times of one library, as JSON lines; runs in a process of its own."""
    if library == "torch":
        import torch  # noqa: PLC0415

        torch.set_num_threads(THREADS)
    for name in names:
        for shape in SHAPES.get(name, REDUCED):
            for dtype in ("float32", "float64"):
                key = f"{name} {'x'.join(map(str, shape))} {dtype}"
                print(json.dumps([key, fastest(ROWS[name](library, shape, dtype))]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", default=list(ROWS), help="rows to time")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.names)
        return
    libraries = ["dlref", "numpy", "torch"]
    environment = {name: str(THREADS) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    environment |= {**os.environ, "DLREF_NUM_THREADS": str(THREADS)}
    best = {}
    for _, library in tqdm([(r, lib) for r in range(ROUNDS) for lib in libraries], unit="run"):
        command = [sys.executable, __file__, "--measure", library, *arguments.names]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            key, value = json.loads(line)
            best.setdefault(key, {}).setdefault(library, []).append(value)
    print(f"{'':46}" + "".join(f"{name:>10}" for name in libraries) + "    ratios")
    for key, times in best.items():
        ours, *others = (min(times[library]) for library in libraries)
        ratios = "".join(f"{other / ours:8.2f}" for other in others)
        print(f"{key:46}" + "".join(f"{t:10.1f}" for t in (ours, *others)) + ratios)


if __name__ == "__main__":
    main()
