"""Quantities that the expressions of `sentences.toml` are made of."""

import csv
import functools
import inspect
import math
import re

import numpy as np
import scipy.integrate
from equations import ledger

from dlref import activations, positions, quantization, training

CHAPTERS = (
    *("activations", "attention", "calculus", "convolution", "losses", "neurons"),
    *("normalization", "positions", "propagation", "quantization", "recurrent", "training"),
)
#: Vectors and matrices for definitions.
V, U, M, N = (
    np.random.default_rng(7).normal(size=(8, 3))[rows] for rows in (0, 1, slice(2, 5), slice(5, 8))
)
MEASURED = "docs/measure/positions_measured.py"


def jump_of(function):
    """Return the number nearest to 0, in steps of 1/4, where a function jumps."""
    places = sorted(np.arange(-2, 2.1, 0.25), key=abs)
    return next(x for x in places if abs(function(x + 1e-9) - function(x - 1e-9)) > 1e-6)


def moment(f, points=120):
    """Return the mean of a function of a standard normal number."""
    z, weight = np.polynomial.hermite_e.hermegauss(points)
    return weight @ f(z) / weight.sum()


def spread_of_differences(activation, gain, variance=1.0):
    """Return what a layer multiplies small differences by, once the variance has settled."""
    phi, slope = (getattr(activations, activation + kind) for kind in ("", "_deriv"))

    def mean_square(f):
        f_squared = functools.partial(lambda z, s: f(s * z) ** 2 * density(z), s=variance**0.5)
        return scipy.integrate.quad(f_squared, -12, 12, points=[0])[0]

    for _ in range(200):
        variance = gain**2 * mean_square(phi)
    return gain**2 * mean_square(slope)


def density(z):
    """Return the density of a standard normal number."""
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def off_by(bits=8):
    """Return the largest error of rounding to so many bits, in units of the last place."""
    x = np.linspace(1, 2, 12 * 2**bits, endpoint=False) * 2 ** (bits - 1)
    return np.abs(np.rint(x) - x).max()


def constant(path, pattern):
    """Return a number that a program of the repository has."""
    return float(re.search(pattern, program(path))[1])


def program(path):
    return (ledger.ROOT / path).read_text(encoding="utf-8")


def default(function, name):
    return inspect.signature(function).parameters[name].default


def cubed_by(a, b, c, near=1e-3):
    """Return what a step of a x + b x^3 + c x^5 multiplies the cubed distance from 1 by."""
    x = 1 - near
    return round(abs(1 - (a * x + b * x**3 + c * x**5)) / near**3, 1)


def adam_by_hand():
    """Return the state of Adam after gradients of 2 and -2, with decays of 1/2 and 3/4."""
    state = None
    for gradient in (2.0, -2.0):
        _, state = training.adam_step(
            [0.0], [gradient], state, learning_rate=1.0, betas=(0.5, 0.75)
        )
    return state


def smallest_distance(rows):
    """Return the smallest distance of two rows."""
    squares = np.sum(rows**2, axis=1)
    apart = squares[:, None] + squares - 2 * rows @ rows.T
    return math.sqrt(apart[~np.eye(len(rows), dtype=bool)].min())


def largest(name):
    """Return the largest number that a format of blocks has."""
    codes, ones = np.resize(np.arange(256 if "8" in name else 16), (256,)), np.full(8, 127)
    found = quantization.dequantize_blocks(codes, ones, format=name, dtype=np.float64)
    return np.nanmax(np.where(np.isfinite(found), found, np.nan))


def rounded_angles(count, width=128):
    """Return the largest error of a table whose frequencies and angles are float32."""
    theta = positions.rope_frequencies(width)
    rows = np.unique(np.r_[np.arange(min(count, 4096)), np.arange(max(0, count - 4096), count)])
    angles = np.multiply.outer(rows.astype(np.float32), theta.astype(np.float32))
    return np.abs(np.sin(angles.astype(float)) - np.sin(np.multiply.outer(rows, theta))).max()


def layers_of_gelu(variance):
    """Return after how many layers of GELU and weights of variance 4 / n it passes a million."""
    layers = 0
    while variance <= 1e6:
        spread = math.sqrt(variance)
        variance = 4 * moment(lambda z, s=spread: activations.gelu(s * z) ** 2)
        layers += 1
    return layers


def nadam_momentum(step):
    decay = default(training.nadam_step, "momentum_decay")
    return default(training.nadam_step, "betas")[0] * (1 - 0.5 * 0.96 ** (step * decay))


@functools.cache
def iterated(least=0.0052):
    """Return singular values from the least to 1 after the five steps of Newton and Schulz."""
    x = np.geomspace(least, 1, 4000)
    a, b, c = default(training.newton_schulz, "coefficients")
    for _ in range(default(training.newton_schulz, "steps")):
        x = a * x + b * x**3 + c * x**5
    return x


def reached(low, high):
    """Return from which singular value on the steps bring all between two numbers."""
    x = iterated(1e-3)
    return np.geomspace(1e-3, 1, 4000)[np.flatnonzero((x < low) | (x > high))[-1]]


def converged():
    """Return where the iteration with convergent coefficients ends."""
    x = 0.01
    for _ in range(99):
        x = 15 / 8 * x - 5 / 4 * x**3 + 3 / 8 * x**5
    return x


def bfloat16(number):
    """Return a number rounded to eight binary digits."""
    mantissa, exponent = math.frexp(number)
    return math.ldexp(round(mantissa * 256), exponent - 8)


def last_bucket(bidirectional):
    """Return the least distance in the last bucket of T5."""
    buckets = positions.t5_relative_position_bucket(-np.arange(200), bidirectional=bidirectional)
    return int(np.argmax(buckets == buckets.max()))


def loss_of(scheme):
    """Return the loss at 32 characters that positions_measured.py wrote."""
    text = (ledger.ROOT / "docs/results/positions_measured.csv").read_text(encoding="utf-8")
    return float(
        next(r["loss at 32"] for r in csv.DictReader(text.splitlines()) if r["scheme"] == scheme)
    )


def headings(page):
    """Return the number of sections of a page."""
    return len(re.findall(r"^-{3,}$", program(f"docs/{page}.rst"), re.MULTILINE))


def settled(activation, squared_gain, layers=50):
    """Return the variance of pre-activations after many layers, from 1 on."""
    variance = 1.0
    for _ in range(layers):
        spread = math.sqrt(variance)
        variance = squared_gain * moment(lambda z, s=spread: activation(s * z) ** 2, 300)
    return variance
