"""
Measure the largest and the mean error of dlref and its peers: ``tox run -e measure -- accuracy``.

Every result is compared with 60 digits, on points that are hard on purpose: the whole range, the
middle of it, and both sides of zero.  Writes docs/results/accuracy.csv.
"""

import argparse
import csv
from pathlib import Path

import exact
import numpy as np
from libraries import LIBRARIES
from mpmath import mp, mpf
from tqdm import tqdm

RESULTS = Path(__file__).parents[1] / "results" / "accuracy.csv"
POINTS = 2400

#: The interval on which each function is neither constant nor its argument to the last digit.
RANGES = {
    "sigmoid": (-745, 745),
    "log_sigmoid": (-800, 745),
    "softplus": (-745, 800),
    "tanh": (-20, 20),
    "tanhshrink": (-30, 30),
    "softsign": (-1e30, 1e30),
    "elu": (-50, 50),
    "selu": (-50, 50),
    "celu": (-50, 50),
    "silu": (-745, 745),
    "mish": (-745, 745),
    "gelu": (-38, 38),
    "gelu_tanh": (-15, 15),
}
#: Narrower for float32: beyond, the value is below its smallest number.
NARROW = dict.fromkeys(("sigmoid", "log_sigmoid", "softplus", "silu", "mish"), 103.0)
ROWS = ("softmax", "log_softmax", "logsumexp")


def points(name, dtype, rng):
    """Draw the points of an element-wise function, exact in `dtype`."""
    low, high = RANGES[name.removesuffix("_deriv")]
    if dtype == np.float32:
        limit = NARROW.get(name.removesuffix("_deriv"), np.inf)
        low, high = max(low, -limit), min(high, limit)
    return np.unique(exact.grid(low, high, rng=rng, count=POINTS).astype(dtype))


def scores(dtype, rng):
    """Draw rows of scores: from nearly equal to nearly one-hot."""
    scale = np.repeat([0.01, 1.0, 10.0, 100.0], 20)[:, None]
    return (scale * rng.normal(size=(80, 24)) + rng.normal(size=(80, 1))).astype(dtype)


def exact_rows(name, x):
    """Return the exact softmax, log-softmax or log-sum-exp of each row, in one list."""
    out = []
    with mp.workdps(exact.DIGITS):
        for row in x.tolist():
            total = mp.fsum(mp.exp(mpf(v)) for v in row)
            if name == "logsumexp":
                out.append(mp.log(total))
            elif name == "softmax":
                out += [mp.exp(mpf(v)) / total for v in row]
            else:  # log(1 - p) needs as many digits again as p has zeros
                with mp.workdps(4 * exact.DIGITS):
                    out += [mpf(v) - mp.log(mp.fsum(mp.exp(mpf(u)) for u in row)) for v in row]
    return out


def cases():
    """Yield (name, dtype, inputs, exact values)."""
    for dtype in (np.float64, np.float32):
        rng = np.random.default_rng(0)
        for name in [f"{stem}{form}" for stem in RANGES for form in ("", "_deriv")]:
            x = points(name, dtype, rng)
            yield name, dtype, x, exact.evaluate(exact.reference(name), x.astype(np.float64))
        for name in ROWS:
            x = scores(dtype, rng)
            yield name, dtype, x, exact_rows(name, x.astype(np.float64))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=Path, default=RESULTS)
    output = parser.parse_args().output
    libraries = [library() for library in LIBRARIES]
    header = ["function", "dtype"]
    header += [f"{library.name} {which}" for library in libraries for which in ("max", "mean")]
    table = []
    total = 2 * (2 * len(RANGES) + len(ROWS))
    for name, dtype, x, true in tqdm(cases(), total=total, unit="function"):
        row = [name, np.dtype(dtype).name]
        for library in libraries:
            errors = [np.nan]
            if library.has(name):
                errors = exact.ulp_errors(np.ravel(library.evaluate(name, x)), true)
            row += [f"{np.max(errors):.3g}", f"{np.mean(errors):.3g}"]
        table.append([cell.replace("nan", "") for cell in row])
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *sorted(table)])
    print(f"wrote {output}")


if __name__ == "__main__":
    main()
