"""
Search for the largest errors of the activations: ``tox run -e measure -- largest_errors``.

Millions of points of all scales are compared with the same formulas in 64 binary digits
(`extended.py`); then more of them are drawn around the worst, ever nearer; the worst of all are
confirmed with 60 digits.  Rows of scores grow in the same way: the worst are changed, and kept if
they became worse.  Writes docs/results/largest.csv, whose errors the docstrings quote, and the
arguments to tests/activations/largest_errors.json; `activations/test_largest_errors.py` tests each.

A search with another seed raises the figures that it exceeds, unless the table is to be `--fresh`:
after a change of the formulas.

    python docs/measure/largest_errors.py mish gelu_deriv --seed 3 --compare

says by how much another search exceeds the table.
"""

import argparse
import csv
import heapq
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import exact
import extended
import numpy as np
from accuracy import RANGES, exact_rows
from libraries import Dlref
from mpmath import mp
from tqdm import tqdm

RESULTS = Path(__file__).parents[1] / "results" / "largest.csv"
ARGUMENTS = RESULTS.parents[2] / "tests" / "activations" / "largest_errors.json"
HEADER = ["function", "dtype", "largest error", "unit", "at", "points"]
CHUNK = 2**17
KEPT = 48  # of the worst points, each with points around it
WIDTHS = 2.0 ** -np.array([3, 5, 8, 12, 18, 26, 40])  # of what is drawn around them, relative
ROUNDS = 3
ROWS = ("softmax", "log_softmax", "logsumexp")
LENGTHS = (2, 3, 5, 8, 16, 24, 64, 250, 1000)
NAMES = [stem + form for stem in RANGES for form in ("", "_deriv", "_deriv2")]
#: Around the zeros of second derivatives the error is measured in units of 2^-53.
NEAR = 0.5


def near_a_zero(name, x):
    """Return where x is near a zero of a second derivative that moves with the formula."""
    zeros = extended.ZEROS[name][0] if name.endswith("2") and name in extended.ZEROS else ()
    return np.any([abs(x - zero) < NEAR for zero in zeros], axis=0) & np.ones(x.shape, bool)


def units(values, dtype):
    """Return the unit in the last place of long doubles, as `dtype` would round them."""
    bits = exact.MANTISSA[dtype.name]
    _, exponent = np.frexp(values)
    return np.ldexp(extended.Long(1), np.maximum(exponent - bits, exact.SMALLEST[dtype.name]))


def errors(name, x, *, near):
    """Return the errors of dlref, in ULP, or in 2^-53 near zeros of second derivatives."""
    with np.errstate(all="ignore"):
        got = DLREF.evaluate(name, x).astype(extended.Long)
        true = extended.function(name)(x)
        away = abs(got - true)
        inside = near_a_zero(name, x)
        unit = extended.Long(2.0**-53) if near else units(true, x.dtype)
        out = np.where(inside == near, away / unit, 0).astype(float)
    overflow = np.isinf(got) & (abs(true) > np.finfo(x.dtype).max)
    out[overflow | (got == true)] = 0.0
    out[np.isnan(out)] = np.inf
    return out


def draw(name, dtype, rng, *, count=CHUNK):
    """Draw points of all scales from the range in which a function is not trivial."""
    low, high = RANGES[name.removesuffix("2").removesuffix("_deriv")]
    info = np.finfo(dtype)
    smallest = np.log2(info.smallest_subnormal)
    size = count // 4
    limit = min(high, -low, info.max)
    parts = [
        rng.uniform(max(low, -info.max / 4), min(high, info.max / 4), size),
        rng.uniform(-min(6, limit), min(6, limit), size),
        *(s * 2.0 ** rng.uniform(-12, np.log2(limit), size // 2) for s in (-1, 1)),
        *(s * 2.0 ** rng.uniform(smallest, 0, size // 2) for s in (-1, 1)),
    ]
    return np.concatenate(parts).astype(dtype)


def around(worst, width, dtype, rng):
    """Draw points near the worst ones."""
    centers = np.repeat([x for _, x in worst], CHUNK // len(worst))
    return (centers * (1 + width * rng.uniform(-1, 1, centers.size))).astype(dtype)


def separate(found, count):
    """Return the worst of the points found, no two of which are neighbors."""
    out = []
    for error, x in sorted(found, reverse=True):
        if all(abs(x - other) > 1e-4 * abs(x) for _, other in out):
            out.append((error, x))
        if len(out) == count:
            break
    return out


def search(name, dtype, near, count, seed):
    """Return the largest error found, its argument, and the number of points."""
    rng = np.random.default_rng([seed, *name.encode(), near])
    found, tried = [], 0

    def look(x):
        nonlocal found, tried
        e = errors(name, x, near=near)
        tried += x.size
        top = np.argpartition(e, -KEPT)[-KEPT:]
        found = heapq.nlargest(40 * KEPT, [*found, *zip(e[top], x[top].tolist(), strict=True)])

    while tried < count:
        if near:
            zeros = np.array(extended.ZEROS[name][0])
            look((rng.choice(zeros, CHUNK) + NEAR * rng.uniform(-1, 1, CHUNK)).astype(dtype))
        else:
            look(draw(name, dtype, rng))
    for width in np.tile(WIDTHS, ROUNDS):
        worst = separate(found, KEPT)
        for _ in range(max(1, count // (len(WIDTHS) * ROUNDS * CHUNK))):
            look(around(worst, width, dtype, rng))
    best = max(confirmed(name, x, dtype, near) for _, x in separate(found, 8))
    return *best, tried


def confirmed(name, x, dtype, near):
    """Return the error at a point to 60 digits, and the point."""
    points = np.array([x], dtype)
    got = DLREF.evaluate(name, points)
    true = exact.evaluate(exact.reference(name), points.astype(np.float64))
    if near:
        with mp.workdps(exact.DIGITS):
            return float(abs(mp.mpf(float(got[0])) - true[0]) * 2**53), x
    return float(exact.ulp_errors(got, true)[0]), x


def row_errors(name, x):
    """Return the largest error of each row; that of logsumexp in units of its larger term."""
    with np.errstate(all="ignore"):
        got = DLREF.evaluate(name, x).astype(extended.Long)
        wide = x.astype(extended.Long)
        true = getattr(extended, name)(wide)
        size = larger_term(wide.max(-1), true) if name == "logsumexp" else true
        out = abs(got - true) / units(size, x.dtype)
    return (out if name == "logsumexp" else out.max(-1)).astype(float)


def larger_term(top, true):
    """Return the larger of the two terms of a log-sum-exp, which may cancel, and the result."""
    return np.maximum(np.maximum(abs(true), abs(top)), abs(true - top))


def draw_rows(dtype, rng, width):
    """Draw rows of scores: nearly equal to nearly one-hot, some with an offset."""
    rows = max(2**14 // width, 64)
    scale = 10.0 ** rng.uniform(-3, 2.3, (rows, 1))
    offset = rng.choice([0.0, 1.0, 30.0], (rows, 1)) * rng.normal(size=(rows, 1))
    return (scale * rng.normal(size=(rows, width)) + offset).astype(dtype)


def search_rows(name, dtype, count, seed):
    """Return the largest error found, the row, and the number of scores tried."""
    rng = np.random.default_rng([seed, *name.encode()])
    best, tried = [], 0
    for width in LENGTHS:
        pool = []
        for step in range(max(4, count // len(LENGTHS) // max(2**14, 64 * width))):
            if step % 3 == 0 or not pool:
                x = draw_rows(dtype, rng, width)
            else:  # change some scores of the worst rows, by much or by little
                parents = np.array([row for _, row in pool])
                x = parents[rng.integers(len(parents), size=max(2**14 // width, 64))]
                change = 10.0 ** rng.uniform(-16, 0, (len(x), 1)) * rng.normal(size=x.shape)
                x = (x + x * change * (rng.random(x.shape) < rng.random((len(x), 1)))).astype(dtype)
            e = row_errors(name, x)
            tried += x.size
            top = np.argsort(e)[-32:]
            pool = heapq.nlargest(32, [*pool, *((e[i], x[i]) for i in top)], key=lambda p: p[0])
        best += pool[:2]
    row, at = max(((confirmed_row(name, row), row.tolist()) for _, row in best), key=lambda p: p[0])
    return row, at, tried


def confirmed_row(name, x):
    """Return the largest error of a row to 60 digits."""
    got, wide = DLREF.evaluate(name, x[None]), x[None].astype(np.float64)
    true = exact_rows(name, wide)
    if name != "logsumexp":
        return float(exact.ulp_errors(np.ravel(got), true).max())
    with mp.workdps(exact.DIGITS):
        size = larger_term(*map(extended.Long, (float(x.max()), float(true[0]))))
        return float(abs(mp.mpf(float(got[0])) - true[0]) / mp.mpf(float(units(size, x.dtype))))


def measure(task, count, seed):
    """Return a row of the table."""
    name, dtype, near = task
    dtype = np.dtype(dtype)
    if name in ROWS:
        error, at, tried = search_rows(name, dtype, count, seed)
        place = f"a row of {len(at)} scores"
    else:
        error, at, tried = search(name, dtype, near, count, seed)
        place = repr(at)
    unit = "2^-53" if near else "ULP"
    return [name, dtype.name, exact.rounded_up(error, 4), unit, place, f"{tried:.0e}"], at


DLREF = Dlref()


def tasks(names):
    """List what is to be measured."""
    out = []
    for dtype in ("float64", "float32"):
        for name in names:
            out.append((name, dtype, False))
            if name.endswith("deriv2") and name in extended.ZEROS and dtype == "float64":
                out.append((name, dtype, True))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", default=[*NAMES, *ROWS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--points", type=float, default=1e7)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--fresh", action="store_true", help="forget what the table says")
    options = parser.parse_args()
    known, arguments = {}, json.loads(ARGUMENTS.read_text()) if ARGUMENTS.exists() else {}
    if RESULTS.exists():
        with RESULTS.open(newline="") as file:
            known = {tuple(row[i] for i in (0, 1, 3)): row for row in list(csv.reader(file))[1:]}
    run = partial(measure, count=int(options.points), seed=options.seed)
    todo, exceeded = tasks(options.names), []
    with ProcessPoolExecutor(options.jobs) as pool:
        found = pool.map(run, todo)
        for row, at in tqdm(found, total=len(todo), unit="function", file=sys.stderr):
            key = row[0], row[1], row[3]
            before = float(known[key][2]) if key in known else 0.0
            ratio = float(row[2]) / before if before else np.inf
            print(*row[:4], row[4][:80], f"{ratio:.3f} of the table", flush=True)
            if options.compare:
                exceeded += [key] if ratio > 1.02 else []
            elif ratio > 1 or options.fresh:
                known[key], arguments[" ".join(key)] = row, at
    if options.compare:
        sys.exit(f"more than 2 % above the table: {exceeded}" if exceeded else 0)
    order = [*NAMES, *ROWS]
    with RESULTS.open("w", newline="") as file:
        rows = sorted(known.values(), key=lambda row: (order.index(row[0]), row[1:4]))
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
    ARGUMENTS.write_text(json.dumps(dict(sorted(arguments.items()))) + "\n")


if __name__ == "__main__":
    main()
