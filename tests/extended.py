"""
The activations in the 64 binary digits of an x86 processor's long double, millions a second.

`largest_errors.py` looks for large errors with them.  Each formula is that of the definition.
Where it would lose digits, an argument has a second part, or a Taylor series around the place
stands for it, with coefficients of mpmath.  A test compares them with mpmath, and the script
confirms with 60 digits what it publishes.
"""

import re
from functools import cache

import exact
import numpy as np
from mpmath import mp, mpf

Long = np.longdouble
TERMS = 40  # of a series
MILLS_STEP, MILLS_TERMS = 0.25, 16

#: Where the plain formula of a function cancels: the zeros there, and how near that is.
ZEROS = {
    "tanhshrink": ((0.0,), 0.25),
    "silu_deriv": ((-1.278,), 0.1),
    "silu_deriv2": ((-2.3994, 2.3994), 0.1),
    "mish_deriv": ((-1.1924,), 0.1),
    "mish_deriv2": ((-2.2564, 1.4907), 0.1),
    "gelu_deriv": ((-0.7518,), 0.1),
    "gelu_deriv2": ((-1.4142, 1.4142), 0.1),
    "gelu_tanh_deriv": ((-0.7525,), 0.1),
    "gelu_tanh_deriv2": ((-1.4006, 1.4006), 0.2),
}


def steep(name, x, beta):
    """
    Return f(beta x) / beta or a derivative of it, for the function f of this module.

    The rounding error of beta x is the derivative's business, which far out, where it matters, is
    the function itself or its negative.
    """
    stem = re.sub("_deriv2?$", "", name)
    power, further = {"": (-1, "_deriv"), "_deriv": (0, "_deriv2"), "_deriv2": (1, "")}[
        name.removeprefix(stem)
    ]
    u, low = two_product(x.astype(Long), Long(beta))
    value = function(name)(u)
    slope = function(stem + further)(u) if further else -np.sign(u) * value
    return (value + low * slope) * Long(beta) ** power


def shrunk(name, x, alpha):
    """Return alpha elu(x / alpha), or a derivative of it: CELU."""
    z = np.minimum(x.astype(Long), 0) / Long(alpha)
    product, low = two_product(z, Long(alpha))
    low = (np.minimum(x, 0) - product - low) / Long(alpha)
    power = np.exp(z)
    left = Long(alpha) * (np.expm1(z) + low * power) if name == "celu" else power + low * power
    right = {"celu": x, "celu_deriv": 1, "celu_deriv2": 0}[name]
    return np.where(x > 0, right, left / Long(alpha) if name == "celu_deriv2" else left)


def deepened(name, x, alpha):
    """Return an ELU of any alpha, or a derivative of it."""
    value = function(name)(x)
    return np.where(x > 0, value, Long(alpha) * value)


def rounded_corner(name, x, b):
    """Return squareplus or a derivative of it: sums of positive numbers only."""
    x, b = x.astype(Long), Long(b)
    r = np.sqrt(x * x + b)
    if name == "squareplus":
        return np.maximum(x, 0) + b / (2 * (abs(x) + r))
    if name == "squareplus_deriv2":
        return b / (2 * r**3)
    left = b / (2 * r * (abs(x) + r))
    return np.where(x < 0, left, 1 - left)


#: The formulas of the functions that have an option, by stem: the option's name and the formula.
OPTIONS = {
    "elu": ("alpha", deepened),
    "celu": ("alpha", shrunk),
    "softplus": ("beta", steep),
    "silu": ("beta", steep),
    "squareplus": ("b", rounded_corner),
}


def parts(value, count=2):
    """Return a number of mpmath as a sum of float64, in long doubles."""
    out = []
    with mp.workdps(exact.DIGITS):
        for _ in range(count):
            out.append(float(value))
            value -= mpf(out[-1])
    return [Long(part) for part in out]


def long(value):
    """Return a number of mpmath as a long double."""
    return sum(parts(value))


def two_product(a, b):
    """Return a b, rounded, and what it lacks."""
    half = Long(2**32 + 1)
    a_high, b_high = a * half - (a * half - a), b * half - (b * half - b)
    a_low, b_low = a - a_high, b - b_high
    product = a * b
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def times(x, constant):
    """Return x times a number of mpmath, in two parts."""
    first, second, third, fourth = parts(constant, 4)
    high, low = two_product(x, first + second)
    with np.errstate(invalid="ignore"):
        return high, low + x * ((first - (first + second)) + second + third + fourth)


def function(name):
    """Return the function of this module for a name of the table, accurate at its zeros too."""
    plain, (zeros, near) = globals()[name], ZEROS.get(name, ((), 0.0))

    def of(x):
        x = x.astype(Long)
        out = plain(x)
        for start in zeros:
            at = abs(x - Long(start)) < near
            if at.any():
                out[at] = _around(name, start, x[at])
        return out

    return of


def _around(name, start, x):
    zero, powers = _series(name, start)
    d = x
    for part in zero:
        d = d - part
    total = np.zeros_like(d)
    for c in reversed(powers):
        total = total * d + c
    return total


@cache
def _series(name, start):
    """Return a zero in parts, and the Taylor coefficients around it."""
    true = exact.reference(name)
    with mp.workdps(2 * exact.DIGITS):
        if not start:  # x - tanh x, whose formula in exact.py is itself a series there
            return [Long(0)], [long(c) for c in mp.taylor(lambda x: x - mp.tanh(x), 0, TERMS)]
        zero = mp.findroot(true, start)
        powers = mp.taylor(true, zero, TERMS // 2)
        return parts(zero, 3), [Long(0), *(long(c) for c in powers[1:])]


def sigmoid(x):
    e = np.exp(-abs(x))
    return np.where(x < 0, e, Long(1)) / (1 + e)


def sigmoid_deriv(x):
    e = np.exp(-abs(x))
    return e / (1 + e) ** 2


def sigmoid_deriv2(x):
    e = np.exp(-abs(x))
    return np.sign(x) * e * np.expm1(-abs(x)) / (1 + e) ** 3


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


softplus_deriv, softplus_deriv2 = sigmoid, sigmoid_deriv


def log_sigmoid(x):
    return -softplus(-x)


def log_sigmoid_deriv(x):
    return sigmoid(-x)


def log_sigmoid_deriv2(x):
    return -sigmoid_deriv(x)


def tanh(x):
    w = np.expm1(-2 * abs(x))
    return -np.sign(x) * w / (w + 2)


def tanh_deriv(x):
    return 4 * sigmoid_deriv(2 * x)


def tanh_deriv2(x):
    return 8 * sigmoid_deriv2(2 * x)


def tanhshrink(x):
    return x - tanh(x)


def tanhshrink_deriv(x):
    return tanh(x) ** 2


def tanhshrink_deriv2(x):
    return -tanh_deriv2(x)


def softsign(x):
    return x / (1 + abs(x))


def softsign_deriv(x):
    return 1 / (1 + abs(x)) ** 2


def softsign_deriv2(x):
    return -2 * np.sign(x) / (1 + abs(x)) ** 3


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def elu_deriv(x):
    return np.where(x > 0, Long(1), np.exp(np.minimum(x, 0)))


def elu_deriv2(x):
    return np.where(x > 0, Long(0), np.exp(np.minimum(x, 0)))


celu, celu_deriv, celu_deriv2 = elu, elu_deriv, elu_deriv2
ALPHA, SCALE = long(exact.SELU_ALPHA), long(exact.SELU_SCALE)


def selu(x):
    return SCALE * np.where(x > 0, x, ALPHA * elu(x))


def selu_deriv(x):
    return SCALE * np.where(x > 0, Long(1), ALPHA * elu_deriv(x))


def selu_deriv2(x):
    return SCALE * ALPHA * elu_deriv2(x)


def silu(x):
    return x * sigmoid(x)


def silu_deriv(x):
    return sigmoid(x) + x * sigmoid_deriv(x)


def silu_deriv2(x):
    return 2 * sigmoid_deriv(x) + x * sigmoid_deriv2(x)


def mish(x):
    e = np.exp(x)
    return x * e * (e + 2) / (e**2 + 2 * e + 2)


def mish_deriv(x):
    e = np.exp(x)
    d = e**2 + 2 * e + 2
    return e * ((e + 2) * d + 4 * x * (e + 1)) / d**2


def mish_deriv2(x):
    e = np.exp(x)
    d = e**2 + 2 * e + 2
    return 4 * e * (2 * (e + 1) * d + x * (2 + 2 * e - 3 * e**2 - 2 * e**3)) / d**3


@cache
def _mills():
    """Return Taylor coefficients of m(t) = e^(t^2/2) Phi(-t), from m' = t m - 1 / sqrt(2 pi)."""
    rows = []
    with mp.workdps(exact.DIGITS):
        density = 1 / mp.sqrt(2 * mp.pi)
        for k in range(int(40 / MILLS_STEP) + 1):
            t = mpf(k * MILLS_STEP)
            row = [mp.exp(t**2 / 2) * mp.erfc(t / mp.sqrt(2)) / 2]
            row.append(t * row[0] - density)
            for n in range(1, MILLS_TERMS - 1):
                row.append((t * row[n] + row[n - 1]) / (n + 1))
            rows.append([long(c) for c in row])
    return np.array(rows)


def mills(t):
    k = np.rint(t / MILLS_STEP).astype(int)
    d = t - k * Long(MILLS_STEP)
    powers = _mills()
    total = np.zeros_like(t)
    for n in reversed(range(MILLS_TERMS)):
        total = total * d + powers[k, n]
    return total


def bell(x):
    """Return e^(-x^2 / 2)."""
    high, low = two_product(x, x)
    return np.exp(-high / 2) * np.exp(-low / 2)


def density():
    """Return 1 / sqrt(2 pi)."""
    with mp.workdps(exact.DIGITS):
        return long(1 / mp.sqrt(2 * mp.pi))


def normal(x):
    size = np.minimum(abs(x), 40)
    tail = mills(size) * bell(size)
    return np.where(x < 0, tail, 1 - tail)


def gelu(x):
    return x * normal(x)


def gelu_deriv(x):
    size = np.minimum(abs(x), 40)
    left = (mills(size) - size * density()) * bell(size)
    return np.where(x < 0, left, 1 - left)


def gelu_deriv2(x):
    high, low = two_product(x, x)
    return ((2 - high) - low) * bell(x) * density()


@cache
def _cubic():
    with mp.workdps(exact.DIGITS):
        return mpf("0.044715"), 2 * mp.sqrt(2 / mp.pi)


def cubic(x):
    """Return e^-v, v and its first two derivatives, with v = 2 sqrt(2/pi) (x + 0.044715 x^3)."""
    d, c = _cubic()
    square, lost = two_product(x, x)
    high, low = times(square, d)
    whole = 1 + high
    rest = (high - (whole - 1)) + low + lost * long(d)
    v, more = two_product(x, whole)
    scaled, last = times(v, c)
    v_low = last + (more + x * rest) * long(c)
    e = np.exp(-scaled) * np.exp(-v_low)
    return e, scaled, long(c) * (1 + 3 * long(d) * square), 6 * long(c * d) * x


def gelu_tanh(x):
    e, *_ = cubic(x)
    return x / (1 + e)


def gelu_tanh_deriv(x):
    e, _, slope, _ = cubic(x)
    return (1 + e + x * slope * e) / (1 + e) ** 2


def gelu_tanh_deriv2(x):
    e, _, slope, bend = cubic(x)
    return (2 * slope + x * bend + x * slope**2 * (e - 1) / (1 + e)) * e / (1 + e) ** 2


def softmax(x):
    d = x - x.max(-1, keepdims=True)
    e = np.exp(d)
    return e / e.sum(-1, keepdims=True)


def _others(x):
    """Return x minus the maximum, and the sum of the exponentials of all others."""
    top = x.argmax(-1)[..., None]
    d = x - np.take_along_axis(x, top, -1)
    e = np.exp(d)
    np.put_along_axis(e, top, Long(0), -1)
    return d, e.sum(-1, keepdims=True)


def log_softmax(x):
    d, others = _others(x)
    return d - np.log1p(others)


def logsumexp(x):
    _, others = _others(x)
    return x.max(-1) + np.log1p(others)[..., 0]
