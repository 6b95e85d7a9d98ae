"""
Measure errors beside the proved bounds of docs/error_bounds.rst, for `tox run -e measure`.

Two programs compute each map.  The plain one, in float32, rounds each operation once and adds up
one number after another: it fulfills the hypotheses of the proofs, and no order of a sum is worse.
The other one is dlref's, in float64.  Exact results have 64 binary digits.
docs/results/error_bounds.csv has, for each map, program and size, the element whose error is the
largest share of its bound.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import normwise
import numpy as np

from dlref import activations, attention, neurons, normalization

RESULTS = Path(__file__).parents[1] / "results" / "error_bounds.csv"
HEADER = ("map", "computed by", "numbers", "error", "bound", "share", "kind", "seed")
SIZES = (4, 64, 1024)
SEEDS = range(8)
ROWS = 8
Long = np.longdouble
C = 2  #: the exponentials and logarithms of both programs are right up to ⟨2⟩
EPS = 2.0**-20  # of the norms: a power of two is the same number in both dtypes


def unit(dtype):
    """Return the largest relative error of a rounding."""
    return Long(np.finfo(dtype).eps) / 2


def gamma(count, dtype):
    """Return the bound of the relative error that `count` roundings add up to."""
    u = unit(dtype)
    assert np.all(count * u < 1)
    return count * u / (1 - count * u)


# The plain programs: each operation is rounded to the dtype of the inputs.


def added(terms):
    """Add up along the last axis, one after another."""
    return np.add.accumulate(terms, axis=-1)[..., -1:]


def rounded(function, x):
    """Return an elementary function computed with more digits and rounded once."""
    return function(x.astype(Long)).astype(x.dtype)


def plain_softmax(x):
    e = rounded(np.exp, x - x.max(-1, keepdims=True))
    return e / added(e)


def plain_log_softmax(x):
    d = x - x.max(-1, keepdims=True)
    return d - rounded(np.log, added(rounded(np.exp, d)))


def plain_log_of_the_largest(x):
    d = np.sort(x, axis=-1)[..., ::-1]
    return -rounded(np.log1p, added(rounded(np.exp, (d - d[..., :1])[..., 1:])))


def plain_rms_norm(x, w):
    mean = added(x * x) / x.dtype.type(x.shape[-1])
    return x / np.sqrt(mean + x.dtype.type(EPS)) * w


def plain_layer_norm(x):
    n = x.dtype.type(x.shape[-1])
    d = x - added(x) / n
    return d / np.sqrt(added(d * d) / n + x.dtype.type(EPS))


def plain_linear(x, w, b):
    products = x[:, None] * w
    return added(
        np.concatenate([products, np.broadcast_to(b[:, None], (*products.shape[:2], 1))], -1)
    )[..., 0]


def plain_attention(q, k, v):
    scores = added(q[:, None] * k)[..., 0] / np.sqrt(q.dtype.type(q.shape[-1]))
    return added(plain_softmax(scores)[:, None] * v.T)[..., 0]


# Exact results with their bounds, in long doubles; `t` is the dtype of the program.


def below(x):
    """Return how far each score is below the largest one, and the sum of the exponentials."""
    d = x.max(-1, keepdims=True) - x
    return d, np.exp(-d).sum(-1, keepdims=True)


def softmax(t, x):
    d, total = below(x)
    s = np.exp(-d) / total
    n = x.shape[-1]
    return s, s * gamma(n + 2 * C + d + np.log(Long(n)), t), s


def log_softmax(t, x):
    d, total = below(x)
    y, n = -d - np.log(total), x.shape[-1]
    return y, gamma(C + 1, t) * abs(y) + gamma(n + 2 * C + np.log(Long(n)), t), 1 + abs(y)


def log_of_the_largest(t, x):
    d = np.sort(below(x)[0], axis=-1)[..., 1:]
    y, n = -np.log1p(np.exp(-d).sum(-1, keepdims=True)), x.shape[-1]
    return y, abs(y) * gamma(n - 2 + 2 * C + np.log(Long(n - 1)) + d[..., :1], t), abs(y)


def rms_norm(t, x, w):
    y = w * x / np.sqrt((x * x).mean(-1, keepdims=True) + Long(EPS))
    return y, abs(y) * gamma(Long(x.shape[-1]) / 2 + 4, t), abs(y)


def layer_norm(t, x):
    n = x.shape[-1]
    d = x - x.mean(-1, keepdims=True)
    s = np.sqrt((d * d).mean(-1, keepdims=True) + Long(EPS))
    y, condition = d / s, abs(x).mean(-1, keepdims=True) / s
    moved = gamma(n, t) * condition
    several = gamma(Long(n) / 2 + 5, t) * (abs(y) + moved)
    return y, several + moved + abs(y) * moved**2 / 2, abs(y) + condition


def linear(t, x, w, b):
    size = abs(x) @ abs(w).T + abs(b)
    return x @ w.T + b, gamma(x.shape[-1] + 1, t) * size, size


def attend(t, q, k, v):
    (S, E), scale = k.shape, 1 / np.sqrt(Long(q.shape[-1]))
    d, total = below(scale * q @ k.T)
    p = np.exp(-d) / total
    largest = scale * (abs(q) @ abs(k).T).max(-1, keepdims=True) / (1 - (E + 2) * unit(t))
    count = 2 * S + 2 * C + np.log(Long(S)) + 2 * (E + 3) * largest
    return p @ v, gamma(count, t) * (p @ abs(v)), p @ abs(v)


# Inputs: of the kinds of normwise.py, and one that attains the bounds.


def crumbs(dtype, shape, most=1.0):
    """
    Return rows of a number and many that are just above half a unit in its last place.

    Each addition rounds up, by nearly half a unit.
    """
    x = np.full(shape, float(unit(dtype)) * (1 + 2.0**-10), dtype)
    x[..., 0] = most
    return x


KINDS = ("crumbs", *normwise.KINDS)


def drawn(rng, kind, dtype, shape):
    return crumbs(dtype, shape) if kind == "crumbs" else normwise.KINDS[kind](rng, shape)


def scores(rng, kind, dtype, n, rows=ROWS):
    """Draw scores up to 30, so that no exponential underflows."""
    x = drawn(rng, kind, dtype, (rows, n))
    if kind == "crumbs":
        return (np.log(x).astype(dtype),)
    return ((x * min(1.0, 30 / abs(x).max())).astype(dtype),)


def of_rms_norm(rng, kind, dtype, n):
    x = drawn(rng, kind, dtype, (ROWS, n))
    x = np.sqrt(x) if kind == "crumbs" else x
    return x.astype(dtype), rng.uniform(0.5, 2.0, n).astype(dtype)


def of_layer_norm(rng, kind, dtype, n):
    return (drawn(rng, kind, dtype, (ROWS, n)).astype(dtype),)


def of_linear(rng, kind, dtype, n):
    w = np.ones((3, n)) if kind == "crumbs" else rng.normal(size=(3, n))
    b = np.zeros(3) if kind == "crumbs" else rng.normal(size=3)
    return drawn(rng, kind, dtype, (ROWS, n)).astype(dtype), w.astype(dtype), b.astype(dtype)


def of_attention(rng, kind, dtype, n):
    E = 4
    if kind == "crumbs":  # the sum of the weights rounds up, and that of the values down
        q, k, v = np.zeros((ROWS, E)), np.zeros((n, E)), np.full((n, E), -0.5)
        q[:, 0], k[:, 0], v[0] = 2.0, scores(rng, kind, dtype, n, 1)[0][0], 1.0
    else:
        q, k, v = rng.normal(size=(ROWS, E)), *(drawn(rng, kind, dtype, (E, n)).T for _ in range(2))
        q *= 30 / (abs(q) @ abs(k).T).max()
    return q.astype(dtype), k.astype(dtype), np.ascontiguousarray(v).astype(dtype)


class Map(NamedTuple):
    """A map: its inputs, its two programs, and its exact result with bound and size."""

    draw: Callable[..., tuple[Any, ...]]
    plain: Callable[..., Any]
    dlref: Callable[..., Any]
    exact: Callable[..., tuple[Any, Any, Any]]


MAPS = {
    "softmax": Map(scores, plain_softmax, activations.softmax, softmax),
    "log_softmax": Map(scores, plain_log_softmax, activations.log_softmax, log_softmax),
    "log_softmax of the largest score": Map(
        scores,
        plain_log_of_the_largest,
        lambda x: activations.log_softmax(x).max(-1, keepdims=True),
        log_of_the_largest,
    ),
    "rms_norm": Map(
        of_rms_norm, plain_rms_norm, lambda x, w: normalization.rms_norm(x, w, eps=EPS), rms_norm
    ),
    "layer_norm": Map(
        of_layer_norm, plain_layer_norm, lambda x: normalization.layer_norm(x, eps=EPS), layer_norm
    ),
    "linear": Map(of_linear, plain_linear, neurons.linear, linear),
    "attention": Map(
        of_attention, plain_attention, attention.scaled_dot_product_attention, attend
    ),
}  # fmt: skip
PROGRAMS = {"plain, float32": np.float32, "dlref, float64": np.float64}


def shares(name, program, inputs):
    """Return the largest error as a share of its bound, with error and bound in units of u."""
    made, dtype = MAPS[name], PROGRAMS[program]
    got = (made.plain if program.startswith("plain") else made.dlref)(*inputs)
    assert got.dtype == dtype
    true, bound, size = made.exact(dtype, *(a.astype(Long) for a in inputs))
    error = abs(got - true)
    share = np.where(error == 0, 0, error / np.where(bound == 0, np.finfo(Long).tiny, bound))
    at = np.unravel_index(share.argmax(), share.shape)
    size = size[at] * unit(dtype) or Long(1)
    return float(share[at]), float(error[at] / size), float(bound[at] / size)


def inputs_of(name, program, size, kind, seed):
    rng = np.random.default_rng([seed, size, *kind.encode()])
    return MAPS[name].draw(rng, kind, PROGRAMS[program], size)


def worst(name, program, size, seeds=SEEDS):
    """Return a row of the table."""
    found = max(
        (*shares(name, program, inputs_of(name, program, size, kind, seed)), kind, seed)
        for kind in KINDS
        for seed in seeds
    )
    figures = [f"{value:.3g}" for value in (*found[1:3], found[0])]
    return [name, program, size, *figures, *found[3:]]


def main():
    rows = [worst(name, program, size) for name in MAPS for program in PROGRAMS for size in SIZES]
    with RESULTS.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
    for row in rows:
        print(*row)


if __name__ == "__main__":
    main()
