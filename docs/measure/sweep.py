"""
All 4 294 967 296 float32 inputs of an activation, compared with a double-double reference.

    python docs/measure/sweep.py sigmoid gelu_deriv --jobs 2 --results sweep

The bit patterns of float32 are cut into pieces of neighbors, halved until a polynomial fits to the
values of mpmath with 40 digits.  It stands for the function: its value is the sum of two float64
and good to 2^-52 of the terms it adds up, which is checked between the points of the fit.  Where
even that lies too near the middle between two float32 numbers to tell which is nearer, mpmath
decides.  Each chunk of inputs leaves a file, so that a sweep can be stopped and resumed; joblib
hands the chunks out (to more cores or to a Dask cluster, as its backend says), and a progress
bar shows where they are.  Writes docs/results/sweep.csv.  Needs joblib and tqdm.
"""

import argparse
import csv
import json
from pathlib import Path

import exact
import numpy as np
from mpmath import mp, mpf

import dlref.activations as A

RESULTS = Path(__file__).parents[1] / "results" / "sweep.csv"
CHUNKS = 4096
SIZE = 2**32 // CHUNKS
BLOCK = 2**15  # inputs at a time, for the cache
DEGREE = 9
DIGITS = 40
DOUBT = 2.0**-52
NODES = [mp.cos(mp.pi * (2 * k + 1) / (2 * DEGREE + 2)) for k in range(DEGREE + 1)]
STEMS = (
    *("sigmoid", "log_sigmoid", "softplus", "tanh", "tanhshrink", "softsign"),
    *("elu", "selu", "celu", "silu", "mish", "gelu", "gelu_tanh"),
)
NAMES = [stem + form for stem in STEMS for form in ("", "_deriv")]


def functions(name):
    """Return the function of dlref, and that of mpmath."""
    options = {"approximate": "tanh"} if "_tanh" in name else {}
    plain = name.replace("_tanh", "")
    ours, true = getattr(A, plain), getattr(exact, plain)
    return lambda x: ours(x, **options), lambda x: true(x, **options)


def number(pattern):
    """Return the float32 with these bits."""
    return float(np.uint32(pattern).view(np.float32))


def horner(powers, u):
    """Evaluate a polynomial, lowest power first."""
    total = mpf(0)
    for c in reversed(powers):
        total = total * u + c
    return total


def fit(true, first, last):
    """
    Fit a polynomial in (x - center) / radius between two numbers, at the nodes of Chebyshev.

    Return center and radius, the coefficients (the lowest in two parts), the size of all terms,
    the part of it that is not constant, and the greatest error seen, as float64.
    """
    with mp.workdps(DIGITS):
        center = (mpf(first) + mpf(last)) / 2
        reach = abs(mpf(last) - mpf(first)) / 2
        radius = mpf(2) ** mp.frexp(reach)[1]  # so that dividing by it is exact
        ends = [true(mpf(end)) for end in sorted((first, last))]
        if max(map(abs, ends)) < mpf(2) ** -160:
            return float(center), float(radius), [0.0] * (DEGREE + 2), 0.0, 0.0, 2.0**-160
        nodes = [reach / radius * node for node in NODES]
        table = [true(center + radius * u) for u in nodes]  # Newton's divided differences
        for k in range(1, DEGREE + 1):
            for i in range(DEGREE, k - 1, -1):
                table[i] = (table[i] - table[i - 1]) / (nodes[i] - nodes[i - k])
        powers = [table[DEGREE]]
        for k in range(DEGREE - 1, -1, -1):  # times (u - node), plus the next difference
            powers = [mpf(0), *powers]
            for i in range(len(powers) - 1):
                powers[i] -= nodes[k] * powers[i + 1]
            powers[0] += table[k]
        u = reach / radius
        seen = [abs(horner(powers, s * u) - end) for s, end in zip((-1, 1), ends, strict=True)]
        seen.append(abs(horner(powers, u / 7) - true(center + reach / 7)))
        high = float(powers[0])
        moving = float(sum(abs(c) for c in powers[1:]))
        coefficients = [high, float(powers[0] - high), *map(float, powers[1:])]
        scale = abs(high) + moving
        return float(center), float(radius), coefficients, scale, moving, float(max(seen))


def pieces(true, first, count):
    """Yield first pattern, count and polynomial of pieces on which the polynomial is good."""
    *polynomial, scale, moving, seen = fit(true, number(first), number(first + count - 1))
    if count <= 256 or (seen <= DOUBT * scale and moving <= scale / 4) or not scale:
        yield first, count, (*polynomial, max(DOUBT * scale, 4 * seen))
    else:
        half = count // 2
        yield from pieces(true, first, half)
        yield from pieces(true, first + half, count - half)


def constant(polynomial):
    """Return the float32 to which all values of a piece round, and their distance, or None."""
    _, _, (high, _, *rest), doubt = polynomial
    rounded = np.float32(high)
    unit = float(units(np.array([rounded]))[0])
    distance = abs(high - float(rounded)) + sum(map(abs, rest)) + doubt
    return (rounded, distance / unit) if distance < unit / 4 else None


def units(rounded):
    """Return the distance from float32 numbers to the next greater in size, as float64."""
    exponent = np.maximum(rounded.view(np.int32) >> 23 & 0xFF, 1).astype(np.int64)
    return (exponent + (1023 - 150) << 52).view(np.float64)


def limit(name, x):
    """
    Return what a function comes to but for less than 2^-120 of it, and the sign of that rest.

    Where the first lies in the middle between two float32, and there are millions of such
    inputs, the sign decides which is nearer.
    """
    if name in ("gelu", "gelu_tanh", "silu") and abs(x[0]) < 2.0**-125:
        return x / 2, 1.0  # x / 2 + b x^2
    if name == "tanhshrink" and abs(x[0]) >= 64:
        return x - np.sign(x), np.sign(x)  # x - 1 + 2 exp(-2 x)
    return np.full(x.shape, np.nan), 0.0


def compare(name, x, got, polynomial, true):
    """Return the errors in ULP, which are not correctly rounded, and what mpmath decided."""
    center, radius, (high, low, *rest), doubt = polynomial
    u = (x.astype(np.float64) - center) / radius
    tail = np.full(u.shape, rest[-1])
    for c in rest[-2::-1]:
        tail *= u
        tail += c
    tail *= u
    tail += low
    value = high + tail
    lost = tail - (value - high)
    rounded = value.astype(np.float32)
    unit = units(rounded)
    away = np.abs((rounded - value) - lost)
    error = np.abs((got - value) - lost) / unit
    wrong = got != rounded
    error[np.isinf(rounded) & ~wrong] = 0.0  # beyond the largest number
    unclear = np.abs(away - unit / 2) <= doubt
    power = (rounded.view(np.int32) & 0x7FFFFF) == 0  # below it, numbers lie twice as dense
    unclear |= power & (np.abs(away - unit / 4) <= doubt)
    dominant, side = limit(name, x.astype(np.float64))
    tie = unclear & (np.abs(dominant - value) <= doubt)
    wrong[tie] = ((got - dominant) * side <= 0)[tie]
    unclear &= ~tie
    with mp.workdps(exact.DIGITS):
        for i in np.flatnonzero(unclear):
            value = true(mpf(float(x[i])))
            near = np.float32(float(value))  # one of the two candidates; the other is beside it
            beside = [np.nextafter(near, np.float32(s * np.inf)) for s in (-1, 1)]
            best = min([near, *beside], key=lambda c: abs(mpf(float(c)) - value))
            distance = abs(mpf(float(got[i])) - value)
            wrong[i] = distance > abs(mpf(float(best)) - value)
            error[i] = float(distance / mpf(float(units(np.array([near]))[0])))
    return error, wrong, int(unclear.sum())


def check(name, start, count):
    """Compare on float32 numbers of neighboring bit patterns; none may be infinite or NaN."""
    ours, true = functions(name)
    largest, at, wrong_inputs, decided = 0.0, 0.0, 0, 0
    with np.errstate(all="ignore"):
        for first, size, polynomial in pieces(true, start, count):
            same = constant(polynomial)
            for begin in range(first, first + size, BLOCK):
                end = min(begin + BLOCK, first + size)
                x = np.arange(begin, end, dtype=np.uint64).astype(np.uint32).view(np.float32)
                got = ours(x)
                if same and np.all(got == same[0]):
                    error, wrong, unclear = np.array([same[1]]), np.array([False]), 0
                else:
                    error, wrong, unclear = compare(name, x, got, polynomial, true)
                worst = error.argmax()
                if error[worst] > largest or np.isnan(error[worst]):
                    largest, at = float(error[worst]), float(x[worst])
                wrong_inputs += int(wrong.sum())
                decided += unclear
    return {
        "inputs": count,
        "largest": largest,
        "at": at,
        "not_correctly_rounded": wrong_inputs,
        "decided_by_mpmath": decided,
    }


def chunk(name, index, folder):
    """Check one chunk, or read what is known of it."""
    path = Path(folder) / name / f"{index:04}.json"
    if not path.exists():
        start = index * SIZE
        parts = [check(name, start, SIZE)] if np.isfinite(number(start)) else []
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".tmp")
        partial.write_text(json.dumps(summary(name, parts)))
        partial.rename(path)
    return json.loads(path.read_text())


def summary(name, parts):
    """Add up what the parts found."""
    worst = max(parts, key=lambda found: found["largest"], default={"largest": 0.0, "at": 0.0})
    counts = ("inputs", "not_correctly_rounded", "decided_by_mpmath")
    total = {key: sum(found[key] for found in parts) for key in counts}
    return {"name": name, "largest": worst["largest"], "at": worst["at"], **total}


def report(rows):
    """Write the table of the page on accuracy; functions not swept now keep their rows."""
    known = {}
    if RESULTS.exists():
        with RESULTS.open(newline="") as file:
            known = {row[0]: row for row in list(csv.reader(file))[1:]}
    for row in rows:
        share = row["not_correctly_rounded"] / row["inputs"]
        known[row["name"]] = [
            row["name"],
            f"{row['inputs']:,}".replace(",", " "),
            f"{row['largest']:.6f}",
            f"{row['at']:.9g}",
            f"{row['not_correctly_rounded']:,}".replace(",", " "),
            f"{1e6 * share:.3g}",
        ]
    header = ["function", "inputs", "largest error", "at", "not correctly rounded", "per million"]
    with RESULTS.open("w", newline="") as file:
        table = [header, *(known[name] for name in NAMES if name in known)]
        csv.writer(file, lineterminator="\n").writerows(table)


def main():
    import joblib  # noqa: PLC0415  # the test of a sample does without
    from tqdm import tqdm  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--results", default="sweep")
    options = parser.parse_args()
    run = joblib.Parallel(n_jobs=options.jobs, return_as="generator")
    for name in options.names:
        tasks = (joblib.delayed(chunk)(name, k, options.results) for k in range(CHUNKS))
        found = summary(name, list(tqdm(run(tasks), total=CHUNKS, desc=name)))
        print(json.dumps(found))
        report([found])


if __name__ == "__main__":
    import sweep

    sweep.main()  # its functions are known by name to joblib's processes, those of a script are not
