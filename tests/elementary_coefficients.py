"""
The coefficients of dlref._math.elementary and dlref._math.circle, computed.

Each function is interpolated at Chebyshev points with 60 digits; the interpolant is within a
factor of a few of the best polynomial of its degree.  Its Chebyshev series is rewritten in
powers and each coefficient is rounded to float64.  Run it to print what the module holds:

    python tests/elementary_coefficients.py
"""

import exact
from mpmath import mp, mpf

DIGITS = 60


def interpolate(f, low, high, degree):
    """
    Return the coefficients, lowest power first, of the Chebyshev interpolant of f.

    Beside them, what the rounding of the first one lost.
    """
    n = degree + 1
    angles = [mp.pi * (2 * k + 1) / (2 * n) for k in range(n)]
    middle, half = (mpf(high) + low) / 2, (mpf(high) - low) / 2
    values = [f(middle + half * mp.cos(angle)) for angle in angles]
    series = [
        2 * mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles, strict=True)) / n
        for j in range(n)
    ]
    series[0] /= 2
    # T_j as polynomials in x: T_{j+1} = 2 y T_j - T_{j-1}, where y = (x - middle) / half
    before, now = [mpf(1)], [-middle / half, 1 / half]
    total = [mpf(0)] * n
    for coefficient in series:
        for power, term in enumerate(before):
            total[power] += coefficient * term
        shifted = [mpf(0), *now]
        after = [2 * term / half for term in shifted]
        for power, term in enumerate(now):
            after[power] -= 2 * middle / half * term
        for power, term in enumerate(before):
            after[power] -= term
        before, now = now, after
    return [float(c) for c in total], float(total[0] - mpf(float(total[0])))


def expm1_tail(r):
    """(e^r - 1 - r) / r^2."""
    if abs(r) < mpf(10) ** -20:
        return mpf(1) / 2 + r / 6
    return (mp.expm1(r) - r) / r**2


def log_tail(z):
    """(2 artanh(s) - 2 s) / s^3 at z = s^2."""
    if z < mpf(10) ** -20:
        return mpf(2) / 3 + 2 * z / 5
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / (s * z)


def erf_excess(z):
    """erf(x) / x - 1 at z = x^2."""
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1 if x else 2 / mp.sqrt(mp.pi) - 1


def normal_flat(q):
    """(1 + 13/16 t) e^(t^2 / 2) Phi(-t) at q = (t - 4) / (t + 4)."""
    t = 4 * (1 + q) / (1 - q)
    return (1 + 13 * t / 16) * mp.exp(t**2 / 2) * mp.erfc(t / mp.sqrt(2)) / 2


def normal_flat_single(q):
    """(t + 5) e^(t^2 / 2) Phi(-t) at q = (t - 5) / (t + 5)."""
    t = 5 * (1 + q) / (1 - q)
    return (t + 5) * mp.exp(t**2 / 2) * mp.erfc(t / mp.sqrt(2)) / 2


def tanh_tail(z):
    """(x - tanh x) / x^3 at z = x^2."""
    if z < mpf(10) ** -15:
        return mpf(1) / 3 - 2 * z / 15
    x = mp.sqrt(z)
    return (x - mp.tanh(x)) / (x * z)


def sine_tail(z):
    """(sin a - a) / a^3 at z = a^2."""
    if z < mpf(10) ** -15:
        return -mpf(1) / 6 + z / 120
    a = mp.sqrt(z)
    return (mp.sin(a) - a) / (a * z)


def cosine_tail(z):
    """(cos a - 1 + a^2 / 2) / a^4 at z = a^2."""
    if z < mpf(10) ** -15:
        return mpf(1) / 24 - z / 720
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def split(value, bits):
    """Return value as the sum of a float64 with few bits and a float64."""
    scale = mpf(2) ** (bits - mp.ceil(mp.log(abs(value), 2)))
    high = mp.nint(value * scale) / scale
    return float(high), float(value - high)


def coefficients():
    """Return the constants of the module by name."""
    with mp.workdps(DIGITS):
        half = mp.log(2) / 2 * mpf("1.0001")
        low, high = -half, half
        normal, rest = interpolate(normal_flat, -1, mpf("0.82"), 22)
        most = (3 - 2 * mp.sqrt(2)) ** 2 * mpf("1.001")
        eighth = (mp.pi / 4) ** 2 * mpf("1.0001")  # of a turn, squared
        return {
            "LN2": split(mp.log(2), 32),
            "EXPM1": tuple(interpolate(expm1_tail, low, high, 10)[0]),
            "LOG": tuple(interpolate(log_tail, 0, most, 7)[0]),
            "ERF": tuple(interpolate(erf_excess, 0, 1, 12)[0]),
            "TANH": tuple(interpolate(tanh_tail, 0, 1, 15)[0]),
            "NORMAL": tuple(normal),
            "NORMAL_REST": rest,
            "LN2_SINGLE": float(mp.log(2)),
            "EXPM1_SINGLE": tuple(interpolate(expm1_tail, low, high, 6)[0]),
            "LOG_SINGLE": tuple(interpolate(log_tail, 0, most, 4)[0]),
            "TANH_SINGLE": tuple(interpolate(tanh_tail, 0, 1, 10)[0]),
            "NORMAL_SINGLE": tuple(interpolate(normal_flat_single, -1, mpf("0.6"), 13)[0]),
            "SQRT2": split(mp.sqrt(2), 53),
            "SIN_SINGLE": tuple(interpolate(sine_tail, 0, eighth, 3)[0]),
            "COS_SINGLE": tuple(interpolate(cosine_tail, 0, eighth, 3)[0]),
        }


#: Derivatives that vanish at a number that is no float64, and a guess of it.
ZEROS = {"SILU": -1.28, "MISH": -1.19, "GELU": -0.75, "GELU_TANH": -0.75}


def at_zeros():
    """Return where each of these derivatives vanishes, in two parts, and it over the distance."""
    constants = {}
    with mp.workdps(DIGITS):
        for name, guess in ZEROS.items():
            stem = name.lower().removesuffix("_tanh")
            options = {"approximate": "tanh"} if name.endswith("_TANH") else {}
            first, second = (getattr(exact, f"{stem}_deriv{n}") for n in ("", "2"))
            zero = mp.findroot(lambda x, f=first, o=options: f(x, **o), guess)

            def slope(d, zero=zero, first=first, second=second, options=options):
                x = zero + d
                return first(x, **options) / d if abs(d) > 1e-30 else second(x, **options)

            high = float(zero)
            constants[f"{name}_ZERO"] = (high, float(zero - high))
            constants[f"{name}_SLOPE"] = tuple(interpolate(slope, -0.375, 0.375, 15)[0])
    return constants


if __name__ == "__main__":
    for name, values in (coefficients() | at_zeros()).items():
        print(f"{name} = {values!r}")
