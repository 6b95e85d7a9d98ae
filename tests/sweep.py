"""
All 4 294 967 296 float32 inputs of an activation, compared with a better reference.

    python tests/sweep.py sigmoid gelu_deriv --jobs 2 --results sweep

The reference is evaluated in extended precision (64 binary digits, on x86).  Where it lies too
near the middle between two float32 numbers to tell which is nearer, mpmath decides.  Each
chunk of inputs leaves a file, so that a sweep can be stopped and resumed; joblib hands
the chunks out, and shows a progress bar.  Needs joblib and tqdm.
"""

import argparse
import json
from pathlib import Path

import exact
import numpy as np
from mpmath import mp, mpf
from scipy.special import erfcx

import dlref.activations as A

CHUNKS = 4096
SIZE = 2**32 // CHUNKS
EXTENDED = np.finfo(np.longdouble).nmant >= 63


# Each reference returns its value and the size of the terms that it adds up; relative to
# these its error is below `doubt`.


def logistic(x):
    e = np.exp(-abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def sigmoid(x):
    return logistic(x), logistic(x)


def sigmoid_deriv(x):
    value = logistic(x) * logistic(-x)
    return value, value


def softplus(x):
    value = np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))
    return value, value


def log_sigmoid(x):
    value, scale = softplus(-x)
    return -value, scale


def log_sigmoid_deriv(x):
    return sigmoid(-x)


def tanh(x):
    t = np.expm1(-2 * abs(x))
    value = -np.sign(x) * t / (2 + t)
    return value, abs(value)


def tanh_deriv(x):
    value = 4 * logistic(2 * x) * logistic(-2 * x)
    return value, value


def elu(x):
    value = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    return value, abs(value)


def elu_deriv(x):
    value = np.exp(np.minimum(x, 0))
    return value, value


def silu(x):
    value = x * logistic(x)
    return value, abs(value)


def silu_deriv(x):
    gate, slope = logistic(x), x * logistic(x) * logistic(-x)
    return gate + slope, gate + abs(slope)


def mish(x):
    e = np.exp(np.minimum(x, 50))
    value = x * e * (e + 2) / (e * e + 2 * e + 2)
    return value, abs(value)


def mish_deriv(x):
    x = np.minimum(x, 50)
    e = np.exp(x)
    d = e * e + 2 * e + 2
    left, right = e * (e + 2) / d, 4 * x * e * (e + 1) / d / d
    return left + right, left + abs(right)


def normal_tail(x):
    """Return the normal distribution function at -|x|; scipy's factor is good to 50 digits."""
    size = np.minimum(abs(x), 150)
    return np.exp(-size * size / 2) * erfcx(size.astype(float) / np.sqrt(2)) / 2


def gelu(x):
    tail = normal_tail(x)
    value = x * np.where(x < 0, tail, 1 - tail)
    return value, abs(value)


def gelu_deriv(x):
    tail, size = normal_tail(x), np.minimum(abs(x), 150)
    density = size * np.exp(-size * size / 2) / np.sqrt(2 * np.longdouble(np.pi))
    gate = np.where(x < 0, tail, 1 - tail)
    return gate + np.sign(x) * density, gate + density


REFERENCES = {f.__name__: f for f in (sigmoid, sigmoid_deriv, softplus, log_sigmoid)}
REFERENCES |= {f.__name__: f for f in (log_sigmoid_deriv, tanh, tanh_deriv, elu, elu_deriv)}
REFERENCES |= {f.__name__: f for f in (silu, silu_deriv, mish, mish_deriv, gelu, gelu_deriv)}


def doubt(name):
    return 2.0**-47 if name.startswith("gelu") else 2.0**-59


@np.errstate(all="ignore")
def check(name, patterns):
    """Compare on the float32 numbers with these bits; return counts and the largest error."""
    x = patterns.view(np.float32)
    x = x[np.isfinite(x)]
    got = getattr(A, name)(x)
    value, scale = REFERENCES[name](x.astype(np.longdouble))
    rounded = value.astype(np.float32)
    unit = np.spacing(abs(rounded)).astype(np.longdouble)
    finite = np.isfinite(rounded)
    error = np.where(finite, abs(got - value) / unit, 0)
    wrong = got != rounded
    margin = abs(abs(rounded - value) - unit / 2)
    unclear = finite & (margin <= doubt(name) * scale)
    with mp.workdps(exact.DIGITS):
        for i in np.flatnonzero(unclear):
            true = getattr(exact, name)(mpf(float(x[i])))
            size = mpf(float(unit[i]))
            distance = abs(mpf(float(got[i])) - true) / size
            error[i], wrong[i] = float(distance), distance > mpf(1) / 2
    return {
        "inputs": int(x.size),
        "largest": float(error.max(initial=0)),
        "at": float(x[error.argmax()]) if x.size else 0.0,
        "not_correctly_rounded": int(wrong.sum()),
        "decided_by_mpmath": int(unclear.sum()),
    }


def chunk(name, index, folder):
    """Check one chunk, or read what is known of it."""
    path = Path(folder) / name / f"{index:04}.json"
    if not path.exists():
        start = index * SIZE
        patterns = np.arange(start, start + SIZE, dtype=np.uint64).astype(np.uint32)
        found = check(name, patterns)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".tmp")
        partial.write_text(json.dumps(found))
        partial.rename(path)
    return json.loads(path.read_text())


def summary(name, chunks):
    """Add up what the chunks found."""
    worst = max(chunks, key=lambda found: found["largest"])
    counts = ("inputs", "not_correctly_rounded", "decided_by_mpmath")
    total = {key: sum(found[key] for found in chunks) for key in counts}
    return {"name": name, "largest": worst["largest"], "at": worst["at"], **total}


def main():
    import joblib  # noqa: PLC0415  # the test of a sample does without
    from tqdm import tqdm  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("names", nargs="*", default=list(REFERENCES))
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--results", default="sweep")
    parser.add_argument("--chunks", type=int, default=CHUNKS, help="only the first so many")
    options = parser.parse_args()
    if not EXTENDED:
        parser.error("the long double of this machine is no wider than a double")
    run = joblib.Parallel(n_jobs=options.jobs, return_as="generator")
    for name in options.names:
        tasks = (joblib.delayed(chunk)(name, k, options.results) for k in range(options.chunks))
        found = list(tqdm(run(tasks), total=options.chunks, desc=name))
        print(json.dumps(summary(name, found)))


if __name__ == "__main__":
    main()
