"""Activations to 60 digits, and errors in units in the last place (ULP)."""

import numpy as np
from mpmath import mp, mpf

from dlref._core.jit import COMPILED

DIGITS = 60
MANTISSA = {"float32": 24, "float64": 53}
SMALLEST = {"float32": -149, "float64": -1074}  # exponent of the smallest subnormal number


def ulp_errors(got, exact, *, absolute=0.0):
    """
    Return |got - exact| in units in the last place of the exact value, one by one.

    `absolute` is subtracted from the differences first.
    """
    name = got.dtype.name
    errors = np.empty(got.size)
    with mp.workdps(DIGITS):
        largest = mpf(float(np.finfo(got.dtype).max))
        for i, (value, true) in enumerate(zip(got.tolist(), exact, strict=True)):
            if not np.isfinite(value):  # right only beyond the largest number
                errors[i] = 0.0 if abs(true) > largest and value * true > 0 else np.inf
                continue
            exponent = mp.frexp(true)[1] - MANTISSA[name] if true else SMALLEST[name]
            unit = mpf(2) ** max(exponent, SMALLEST[name])
            errors[i] = max(abs(mpf(value) - true) - absolute, mpf(0)) / unit
    return errors


def rounded_up(error, digits):
    """Return an error as the tables and docstrings quote it: never less than it is."""
    unit = 10.0 ** (np.floor(np.log10(error)) - digits + 1)
    return f"{np.ceil(error / unit - 1e-9) * unit:.{digits}g}"


def reference(name):
    """Return the function of this module for a name of the tables, such as gelu_tanh_deriv."""
    if name.startswith("gelu_tanh"):
        plain = globals()[name.replace("_tanh", "", 1)]
        return lambda x: plain(x, approximate="tanh")
    return globals()[name]


def evaluate(f, points, **options):
    """Return the exact values of f at float64 points, as numbers of mpmath."""
    with mp.workdps(DIGITS):
        options = {k: mpf(v) if isinstance(v, float) else v for k, v in options.items()}
        return [f(mpf(x), **options) for x in points.tolist()]


def grid(low, high, *, rng, count=6000):
    """Draw hard points: the whole range, the middle of it, both sides of 0 down to 5e-324."""
    middle = min(6.0, high, -low) if low < 0 < high else high
    tiny = 10.0 ** rng.uniform(-323, 0, count // 12)
    parts = [
        rng.uniform(low, high, count // 2),
        rng.uniform(-middle, middle, count // 3),
        tiny,
        -tiny,
        [0.0, low, high],
    ]
    points = np.concatenate(parts)
    return points[(points >= low) & (points <= high)]


def assert_accurate(f, reference, low, high, bound, *, rng, absolute=0.0, **options):
    """
    Check f in both precisions: to `bound` ULP in float64, to 0.501 in float32.

    Near a zero of f an absolute error is allowed besides.
    """
    points = grid(low, high, rng=rng, count=6000 if COMPILED else 60)
    true = evaluate(reference, points, **options)
    errors = ulp_errors(f(points, **options), true, absolute=absolute)
    assert errors.max() <= bound, (points[errors.argmax()], errors.max())
    points = points[:: 4 if COMPILED else 1].astype(np.float32)
    true = evaluate(reference, points.astype(np.float64), **options)
    errors = ulp_errors(f(points, **options), true, absolute=absolute)
    assert errors.max() <= 0.501, (points[errors.argmax()], errors.max())


def sigmoid(x):
    e = mp.exp(-abs(x))
    return (e if x < 0 else 1) / (1 + e)


def sigmoid_deriv(x):
    e = mp.exp(-abs(x))
    return e / (1 + e) ** 2


def sigmoid_deriv2(x):
    e = mp.exp(-abs(x))
    return mp.sign(x) * e * mp.expm1(-abs(x)) / (1 + e) ** 3


def log_sigmoid(x):
    return min(x, mpf(0)) - mp.log1p(mp.exp(-abs(x)))


def log_sigmoid_deriv(x):
    return sigmoid(-x)


def log_sigmoid_deriv2(x):
    return -sigmoid_deriv(x)


def softplus(x, beta=1.0):
    b = mpf(beta)
    return max(x, mpf(0)) + mp.log1p(mp.exp(-b * abs(x))) / b


def softplus_deriv(x, beta=1.0):
    return sigmoid(mpf(beta) * x)


def softplus_deriv2(x, beta=1.0):
    return mpf(beta) * sigmoid_deriv(mpf(beta) * x)


def squareplus(x, b=4.0):
    r = mp.sqrt(x * x + b)
    return b / (2 * (r - x)) if x < 0 else (x + r) / 2


def squareplus_deriv(x, b=4.0):
    r = mp.sqrt(x * x + b)
    return b / (2 * r * (r - x)) if x < 0 else (1 + x / r) / 2


def squareplus_deriv2(x, b=4.0):
    return b / (2 * mp.sqrt(x * x + b) ** 3)


def tanh(x):
    return (
        -mp.expm1(-2 * x) / (1 + mp.exp(-2 * x)) if x > 0 else mp.expm1(2 * x) / (1 + mp.exp(2 * x))
    )


def tanh_deriv(x):
    return 4 * sigmoid_deriv(2 * x)


def tanh_deriv2(x):
    return 8 * sigmoid_deriv2(2 * x)


def tanhshrink(x):
    if abs(x) < mpf(10) ** -10:
        return x**3 / 3 - 2 * x**5 / 15
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
    return -2 * mp.sign(x) / (1 + abs(x)) ** 3


def elu(x, alpha=1.0):
    return x if x > 0 else alpha * mp.expm1(x)


def elu_deriv(x, alpha=1.0):
    return mpf(1) if x > 0 else alpha * mp.exp(x)


def elu_deriv2(x, alpha=1.0):
    return mpf(0) if x > 0 else alpha * mp.exp(x)


SELU_ALPHA, SELU_SCALE = mpf(1.6732632423543772), mpf(1.0507009873554805)


def selu(x):
    return SELU_SCALE * elu(x, SELU_ALPHA)


def selu_deriv(x):
    return SELU_SCALE * elu_deriv(x, SELU_ALPHA)


def selu_deriv2(x):
    return SELU_SCALE * elu_deriv2(x, SELU_ALPHA)


def celu(x, alpha=1.0):
    return x if x > 0 else alpha * mp.expm1(x / alpha)


def celu_deriv(x, alpha=1.0):
    return mpf(1) if x > 0 else mp.exp(x / alpha)


def celu_deriv2(x, alpha=1.0):
    return mpf(0) if x > 0 else mp.exp(x / alpha) / alpha


def silu(x, beta=1.0):
    return x * sigmoid(beta * x)


def silu_deriv(x, beta=1.0):
    return sigmoid(beta * x) + beta * x * sigmoid_deriv(beta * x)


def silu_deriv2(x, beta=1.0):
    return beta * (2 * sigmoid_deriv(beta * x) + beta * x * sigmoid_deriv2(beta * x))


def mish(x):
    e = mp.exp(x)
    return x * e * (e + 2) / (e**2 + 2 * e + 2)


def mish_deriv(x):
    e = mp.exp(x)
    d = e**2 + 2 * e + 2
    return e * ((e + 2) * d + 4 * x * (e + 1)) / d**2


def mish_deriv2(x):
    e = mp.exp(x)
    d = e**2 + 2 * e + 2
    return 4 * e * (2 * (e + 1) * d + x * (2 + 2 * e - 3 * e**2 - 2 * e**3)) / d**3


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def density(x):
    return mp.exp(-(x**2) / 2) / mp.sqrt(2 * mp.pi)


def cubic(x):
    """Twice the argument of tanh in the approximate gelu, and its first two derivatives."""
    c, d = 2 * mp.sqrt(2 / mp.pi), mpf("0.044715")
    return c * (x + d * x**3), c * (1 + 3 * d * x**2), 6 * c * d * x


def gelu(x, approximate="none"):
    return x * (normal(x) if approximate == "none" else sigmoid(cubic(x)[0]))


def gelu_deriv(x, approximate="none"):
    if approximate == "none":
        return normal(x) + x * density(x)
    v, slope, _ = cubic(x)
    return sigmoid(v) + x * slope * sigmoid_deriv(v)


def gelu_deriv2(x, approximate="none"):
    if approximate == "none":
        return (2 - x**2) * density(x)
    v, slope, bend = cubic(x)
    return (2 * slope + x * bend) * sigmoid_deriv(v) + x * slope**2 * sigmoid_deriv2(v)
