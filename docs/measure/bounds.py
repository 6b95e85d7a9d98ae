"""
Search published bounds with fresh points and options: ``tox run -e measure -- bounds``.

The docstrings quote the largest errors that were found. For each of them, points of all scales are
drawn again, and where a function has an option, another value of it for every few thousand points.
The worst point of each seed is confirmed with 60 digits. Rows of scores have up to a million
elements. Writes docs/results/bounds.csv; fails if a bound is exceeded.

    python docs/measure/bounds.py elu softplus --seeds 7 --points 1e6
"""

import argparse
import csv
import inspect
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import exact
import extended
import largest_errors
import numpy as np
from accuracy import RANGES
from tqdm import tqdm

from dlref import activations, losses

RESULTS = Path(__file__).parents[1] / "results" / "bounds.csv"
HEADER = ["function", "dtype", "options", "published", "unit", "largest found"]
HEADER += ["at", "with", "seed", "points"]
CHUNK = 2**13  # points with one value of an option
LOW, HIGH = -6, 6  # the powers of two between which an option is drawn
LONGEST = 6  # the power of ten of the elements of the longest row
SINGLE = 0.501
STEMS = [*RANGES, "squareplus"]
NAMES = [stem + form for stem in STEMS for form in ("", "_deriv", "_deriv2")]
ROWS = ("softmax", "log_softmax", "logsumexp", "kl_divergence")


def published(name):
    """Return the largest error in ULP that the docstring of a function quotes, for float64."""
    if name == "kl_divergence":
        return float(re.search(r":math:`(\d) u` times the size", text(losses.kl_divergence))[1]) / 2
    said = text(getattr(activations, name.replace("gelu_tanh", "gelu")))
    sentence = re.search(r"Largest error found(.*?)\.(?: |$)", said)[1]
    figures = re.findall(r"([\d.]+) ULP(?: (exact|tanh))?", sentence)
    wanted = {"": "exact", "_tanh": "tanh"}.get(re.sub("^gelu|_deriv2?$", "", name), "")
    return max(float(figure) for figure, form in figures if form in ("", wanted))


def text(function):
    return " ".join(inspect.getdoc(function).split())


def option_of(name):
    """Return the name of a function's option and its formula, or nothing."""
    return extended.OPTIONS.get(re.sub("_deriv2?$", "", name), (None, None))


def call(name, x, options):
    if options:
        return getattr(activations, name)(x, **options)
    return largest_errors.DLREF.evaluate(name, x)


def drawn(name, dtype, rng):
    """Draw points and options: the points scaled so that the curve bends among them."""
    option, _ = option_of(name)
    stem = re.sub("_deriv2?$", "", name)
    x = largest_errors.draw("softsign" if stem == "squareplus" else stem, dtype, rng, count=CHUNK)
    if not option:
        return x, {}
    value = float(2.0 ** rng.uniform(LOW, HIGH))
    scale = {"celu": value, "elu": 1.0, "squareplus": value**0.5}.get(stem, 1 / value)
    with np.errstate(over="ignore", under="ignore"):
        x = (x * scale).astype(dtype)
    return x[np.isfinite(x)], {option: value}


def errors(name, x, options):
    """Return the errors in ULP, and 0 near the zeros of a second derivative."""
    option, formula = option_of(name)
    with np.errstate(all="ignore"):
        got = call(name, x, options)
        wide = x.astype(extended.Long)
        value = options.get(option)
        true = formula(name, wide, value) if option else extended.function(name)(wide)
        out = abs(got - true) / largest_errors.units(true, x.dtype)
        overflow = np.isinf(got) & (abs(true) > np.finfo(x.dtype).max)
        u = wide * value if option == "beta" else wide
    near = largest_errors.near_a_zero(name, u)
    return np.where((got == true) | overflow | near, 0.0, out).astype(float)


def search(name, dtype, count, seed):
    """Return the largest error, its argument and options, and the number of points."""
    rng = np.random.default_rng([seed, *name.encode(), dtype.itemsize])
    best, tried = (-1.0, 0.0, {}), 0
    while tried < count:
        x, options = drawn(name, dtype, rng)
        e = errors(name, x, options)
        at = int(e.argmax())
        best = max(best, (float(e[at]), float(x[at]), options), key=lambda found: found[0])
        tried += x.size
    return confirmed(name, dtype, *best[1:]), *best[1:], tried


def confirmed(name, dtype, x, options):
    """Return the error at a point to 60 digits."""
    point = np.array([x], dtype)
    true = exact.evaluate(exact.reference(name), point.astype(np.float64), **options)
    return float(exact.ulp_errors(call(name, point, options), true)[0])


def search_rows(name, dtype, count, seed):
    """Return the largest error of rows of all lengths, the length, and the number of elements."""
    rng = np.random.default_rng([seed, *name.encode(), dtype.itemsize])
    best, tried = (-1.0, 0), 0
    while tried < count:
        width = int(10.0 ** rng.uniform(0.3, LONGEST))
        rows = max(1, CHUNK // width)
        of = divergence_errors if name == "kl_divergence" else scores_errors
        best = max(best, (float(of(name, dtype, rng, (rows, width)).max()), width))
        tried += rows * width
    return best[0], f"a row of {best[1]}", {}, tried


def scores_errors(name, dtype, rng, shape):
    x = largest_errors.draw_rows(dtype, rng, shape[1])[: shape[0]]
    return largest_errors.row_errors(name, x)


def divergence_errors(_name, dtype, rng, shape):
    """Return errors of divergences in machine epsilons times the sizes of what is added up."""
    p, q = (
        rng.gamma(10.0 ** rng.uniform(-1, 3), size=shape) if rng.random() < 0.7 else np.ones(shape)
        for _ in range(2)
    )
    q = (q / q.sum(-1, keepdims=True)).astype(dtype)
    with np.errstate(divide="ignore"):
        log_p = np.maximum(np.log(p / p.sum(-1, keepdims=True)), -700).astype(dtype)
    wide, logs = q.astype(extended.Long), log_p.astype(extended.Long)
    log_q = np.log(wide, where=wide > 0, out=np.zeros_like(wide))
    true = (wide * (log_q - logs)).sum(-1)
    size = (wide * (abs(log_q) + abs(logs))).sum(-1)
    got = losses.kl_divergence(log_p, q, reduction="none")
    return abs(got - true) / (size * np.finfo(dtype).eps)


def measure(task, count, seeds):
    """Return a row of the table."""
    name, dtype = task[0], np.dtype(task[1])
    found, tried = (-1.0,), 0
    for seed in seeds:
        error, at, options, points = (search_rows if name in ROWS else search)(
            name, dtype, count, seed
        )
        found, tried = (
            max(found, (error, at, options, seed), key=lambda each: each[0]),
            tried + points,
        )
    error, at, options, seed = found
    bound = published(name) if dtype == np.float64 else SINGLE
    option, _ = option_of(name)
    scope = f"{option} from 2^{LOW} to 2^{HIGH}" if option else ""
    scope = f"2 to 10^{LONGEST} elements" if name in ROWS else scope
    unit = "eps times size" if name == "kl_divergence" else "ULP"
    given = " ".join(f"{key} = {value!r}" for key, value in options.items())
    place = at if isinstance(at, str) else repr(at)
    figures = [f"{bound:g}", unit, exact.rounded_up(error, 4)]
    return [name, dtype.name, scope, *figures, place, given, seed, f"{tried:.0e}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", default=[*NAMES, *ROWS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--points", type=float, default=1e7, help="for each seed")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    tasks = [(name, dtype) for name in options.names for dtype in ("float64", "float32")]
    run = partial(measure, count=int(options.points), seeds=options.seeds)
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = list(tqdm(pool.map(run, tasks), total=len(tasks), file=sys.stderr))
    if options.names == [*NAMES, *ROWS]:
        with RESULTS.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
    exceeded = [row for row in rows if float(row[5]) > float(row[3])]
    for row in exceeded:
        print(*row)
    sys.exit(f"{len(exceeded)} of {len(rows)} bounds are exceeded" if exceeded else 0)


if __name__ == "__main__":
    main()
