"""The displayed equations of numbers with few bits."""

import functools
import itertools

import numpy as np
from equations.evaluate import each
from equations.ledger import equation, reads

from dlref import quantization

RNG = np.random.default_rng(0)
BITS, S, Z = 3, 0.7, 1
LOW, HIGH = -(2 ** (BITS - 1)), 2 ** (BITS - 1) - 1
X = 2 * RNG.normal(size=40)
U, DX = RNG.normal(size=(2, 40))
DS = 0.3


def rounded(t):
    """Round the real part; the slope is taken as 1."""
    return t + (np.rint(t.real) - t.real)


def clip(q):
    return np.where(q.real < LOW, LOW, np.where(q.real > HIGH, HIGH, q))


GIVEN = {"s": S, "z": Z, "n": BITS}
FAKE = quantization.fake_quantize(X, S, Z, bits=BITS)


@reads(r"q = \operatorname{clip} \bigl( \operatorname{round}(x / s) + z ,\; -2^{n-1} ,\; 2^{n-1}…")
def rounding_to_integers():
    return each({"x": X, r"\hat x": FAKE}, GIVEN)


@reads(r"|\hat x - x| \le \frac s2 ,")
def half_a_step():
    inside = (np.rint(X / S) + Z >= LOW) & (np.rint(X / S) + Z <= HIGH)
    ends = np.array([0.499999, -0.499999]) * S
    values = (
        np.append(X[inside], ends),
        np.append(FAKE[inside], quantization.fake_quantize(ends, S)),
    )
    return each(dict(zip(("x", r"\hat x"), values, strict=True)), GIVEN)


@reads(
    r"\pdv{L}{x_i} = \begin{cases} u_i & -2^{n-1} \le \hat q_i \le 2^{n-1} - 1 \\ 0 & \text{else}…",
    r"\pdv{L}{s} = \sum_i u_i \cdot \begin{cases} \operatorname{round}(x_i / s) - x_i / s &…",
)
def straight_through():
    dx, ds = quantization.fake_quantize_vjp(U, X, S, Z, bits=BITS)
    hat = np.rint(X / S) + Z
    return {
        **GIVEN,
        r"\pdv{L}{x}": dx,
        r"\pdv{L}{s}": ds,
        "x": X,
        "u": U,
        r"\hat q": hat,
        "q": clip(hat),
    }


@reads(r"\dot{\hat x} = \begin{cases} \dot x + (\operatorname{round}(x / s) - x / s)\, \dot s &…")
def tangent_straight_through():
    pushed = quantization.fake_quantize_jvp((X, S, Z), (DX, DS, None), bits=BITS)
    hat = np.rint(X / S) + Z
    moves = {r"\dot{\hat x}": pushed, r"\dot x": DX, "x": X, r"\hat q": hat, "q": clip(hat)}
    return each(moves, {**GIVEN, r"\dot s": DS})


#: m, E_min, E_max, the largest number.
ELEMENTS = {
    "mxfp8_e4m3": (3, -6, 8, 448),
    "mxfp8_e5m2": (2, -14, 15, 57344),
    "mxfp6_e2m3": (3, 0, 2, 7.5),
    "mxfp6_e3m2": (2, -2, 4, 28),
    "mxfp4": (1, 0, 2, 6),
}
BLOCK = RNG.normal(size=32) * np.exp2(RNG.integers(-6, 3, 32))


def element(name, v):
    """Return the number of a format that is next to another one, of all that it has."""
    m, least, most, largest = ELEMENTS[name]
    powers = np.exp2(np.arange(least, most + 1.0))
    numbers = [
        2.0 ** (least - m) * np.arange(2**m),
        *(p * (1 + np.arange(2**m) / 2**m) for p in powers),
    ]
    numbers = np.concatenate([n[n <= largest] for n in numbers])
    place = int(np.argmin(np.round(abs(numbers - abs(v)) * 2.0**60)))
    tie = place + 1 < len(numbers) and abs(numbers[place + 1] - abs(v)) == abs(
        numbers[place] - abs(v)
    )
    return np.sign(v) * numbers[place + (tie and place % 2)]


def nearest(v, m, least, largest):
    exponent = np.maximum(np.floor(np.log2(abs(v))), least)
    d = 2.0 ** (exponent - m)
    return np.clip(d * np.rint(v / d), -largest, largest)


def read(x, name, **options):
    codes = quantization.quantize_blocks(x, format=name, **options)
    return quantization.dequantize_blocks(*codes, format=name, dtype=np.float64, **options)


@reads(r"R(v) = d \operatorname{round}(v / d) , \qquad d = 2^{E - m} , \qquad E…")
def rounding_to_an_element():
    rows = []
    for name, (m, least, _, largest) in ELEMENTS.items():
        v = largest * np.array([0.71, -0.33, 0.013, 0.0004, -0.0021])
        values = [element(name, x) for x in v]
        given = {"m": m, "E_{min}": least}
        rows += [{**given, "v": x, "R": lambda _, r=r: r} for x, r in zip(v, values, strict=True)]
    return rows


@reads(r"s = 2^{\lfloor \log_2 \max_i |x_i| \rfloor - E_{max}} , \qquad \hat x_i…")
def blocks_with_powers():
    rows = []
    for name, (*_, most, _) in ELEMENTS.items():
        row = {"x": BLOCK, r"\hat x": read(BLOCK, name), "E_{max}": most}
        rows.append({**row, "R": functools.partial(element, name)})
    return rows


@equation(
    r"""q = \frac{\max_i |x_i|}{s} , \qquad
    s' = \begin{cases} 2 s & \text{even: } R(q) = 2^{E_{max} + 1} \\
    2 s & \text{rceil: } q > x_{max} \\ 2 s & \text{ceil: } q > 2^{E_{max}} \\
    s & \text{otherwise.} \end{cases}"""
)
def scales_rounded_up():
    for name, (m, least, most, largest) in ELEMENTS.items():
        for factor in (1.0, 1.25, 1.6, 1.8, 1.9, 1.99):
            x = factor * BLOCK / max(abs(BLOCK))
            s = 2.0 ** (np.floor(np.log2(max(abs(x)))) - most)
            q = max(abs(x)) / s
            doubled = {
                "even": nearest(q, m, least, np.inf) == 2.0 ** (most + 1),
                "rceil": q > largest,
                "ceil": q > 2.0**most,
            }
            for mode, is_doubled in doubled.items():
                scales = quantization.quantize_blocks(x, format=name, scaling_mode=mode)[1]
                yield s * (1 + is_doubled), 2.0 ** (scales - 127.0)


@reads(r"s = t\, R_{E4M3} \Bigl( \frac{\max_i |x_i|}{6\, t} \Bigr) , \qquad \hat x_i…")
def blocks_with_fractions():
    rows = []
    for t, x in itertools.product((1.0, 0.003, 7.0), (BLOCK[:16], BLOCK[16:])):
        row = {"x": x, r"\hat x": read(x, "nvfp4", tensor_scale=t), "t": t}
        given = {"R_{E4M3}": lambda v: element("mxfp8_e4m3", v)}
        rows.append({**row, **given, "R_{E2M1}": lambda v: element("mxfp4", v)})
    return rows


@reads(r"v = (-1)^S \cdot \begin{cases} 2^{E_{min} - m} f & e = 0 \\ 2^{E_{min} + e - 1} (1 +…")
def numbers_of_codes():
    rows, widths = [], (8, 8, 6, 6, 4)
    for width, (name, (m, least, _, largest)) in zip(widths, ELEMENTS.items(), strict=True):
        codes = np.resize(np.arange(2**width), max(32, 2**width))
        ones = np.full(codes.size // 32, 127)
        values = quantization.dequantize_blocks(codes, ones, format=name, dtype=np.float64)
        for code, value in list(zip(map(int, codes), values, strict=True))[
            :: 1 if width < 8 else 7
        ]:
            e, f = (code >> m) % 2 ** (width - 1 - m), code % 2**m
            if abs(value) <= largest:
                row = {"v": value, "S": code >> (width - 1), "e": e, "f": f}
                rows.append({**row, "m": m, "E_{min}": least})
    return rows
