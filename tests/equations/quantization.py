"""The displayed equations of numbers with few bits."""

import numpy as np
from equations.ledger import equation
from equations.numeric import rate

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


def quantized(x, s):
    q = clip(rounded(x / s) + Z)
    return s * (q - Z)


@equation(
    r"""q = \operatorname{clip} \bigl( \operatorname{round}(x / s) + z ,\; -2^{n-1} ,\;
    2^{n-1} - 1 \bigr) , \qquad \hat x = s\, (q - z) ."""
)
def rounding_to_integers():
    yield quantized(X, S), quantization.fake_quantize(X, S, Z, bits=BITS)


@equation(r"|\hat x - x| \le \frac s2 ,")
def half_a_step():
    inside = (rounded(X / S) + Z >= LOW) & (rounded(X / S) + Z <= HIGH)
    error = abs(quantized(X, S) - X)[inside]
    yield np.all(error <= S / 2), True
    ends = np.array([0.499999, -0.499999]) * S
    worst = np.max(abs(quantized(ends, S) - ends))
    yield np.round(worst, 5), np.round(S / 2, 5)


@equation(
    r"""\pdv{L}{x_i} = \begin{cases} u_i & -2^{n-1} \le \hat q_i \le 2^{n-1} - 1 \\
    0 & \text{else} \end{cases}""",
    r"""\pdv{L}{s} = \sum_i u_i \cdot \begin{cases} \operatorname{round}(x_i / s) - x_i / s &
    -2^{n-1} \le \hat q_i \le 2^{n-1} - 1 \\ q_i - z & \text{else} \end{cases}""",
    r"""\dot{\hat x} = \begin{cases} \dot x + (\operatorname{round}(x / s) - x / s)\, \dot s &
    -2^{n-1} \le \hat q \le 2^{n-1} - 1 \\ (q - z)\, \dot s & \text{else} \end{cases}""",
)
def straight_through():
    hat = np.rint(X / S) + Z
    inside = (hat >= LOW) & (hat <= HIGH)
    dx, ds = quantization.fake_quantize_vjp(U, X, S, Z, bits=BITS)
    each = rate(lambda x: quantized(x, S), (X,), (np.ones(40),))
    yield U * each, np.where(inside, U, 0), dx
    slopes = np.where(inside, np.rint(X / S) - X / S, clip(hat) - Z)
    by_step = rate(lambda s: np.sum(U * quantized(X, s)), (S,), (1.0,))
    total = sum(U[i] * slopes[i] for i in range(40))
    yield by_step, total, ds
    pushed = quantization.fake_quantize_jvp((X, S, Z), (DX, DS, None), bits=BITS)
    moved = np.where(inside, DX + (np.rint(X / S) - X / S) * DS, (clip(hat) - Z) * DS)
    yield rate(quantized, (X, S), (DX, DS)), moved, pushed


#: m, E_min, E_max, the largest number.
ELEMENTS = {
    "mxfp8_e4m3": (3, -6, 8, 448),
    "mxfp8_e5m2": (2, -14, 15, 57344),
    "mxfp6_e2m3": (3, 0, 2, 7.5),
    "mxfp6_e3m2": (2, -2, 4, 28),
    "mxfp4": (1, 0, 2, 6),
}
BLOCK = RNG.normal(size=32) * np.exp2(RNG.integers(-6, 3, 32))


def nearest(v, m, least, largest):
    exponent = np.maximum(np.floor(np.log2(abs(v))), least)
    d = 2.0 ** (exponent - m)
    return np.clip(d * np.rint(v / d), -largest, largest)


def read(x, name, **options):
    codes = quantization.quantize_blocks(x, format=name, **options)
    return quantization.dequantize_blocks(*codes, format=name, dtype=np.float64, **options)


@equation(
    r"""R(v) = d \operatorname{round}(v / d) , \qquad
    d = 2^{E - m} , \qquad E = \max \bigl( \lfloor \log_2 |v| \rfloor , E_{min} \bigr) ,""",
    r"""s = 2^{\lfloor \log_2 \max_i |x_i| \rfloor - E_{max}} , \qquad
    \hat x_i = s\, R(x_i / s) ,""",
)
def blocks_with_powers():
    for name, (m, least, most, largest) in ELEMENTS.items():
        s = 2.0 ** (np.floor(np.log2(max(abs(BLOCK)))) - most)
        yield s * nearest(BLOCK / s, m, least, largest), read(BLOCK, name)


@equation(
    r"""s = t\, R_{E4M3} \Bigl( \frac{\max_i |x_i|}{6\, t} \Bigr) , \qquad
    \hat x_i = s\, R_{E2M1}(x_i / s) ."""
)
def blocks_with_fractions():
    for t in (1.0, 0.003, 7.0):
        for x in (BLOCK[:16], BLOCK[16:]):
            s = t * nearest(max(abs(x)) / (6 * t), 3, -6, 448)
            yield s * nearest(x / s, 1, 0, 6), read(x, "nvfp4", tensor_scale=t)


@equation(
    r"""v = (-1)^S \cdot \begin{cases} 2^{E_{min} - m} f & e = 0 \\
    2^{E_{min} + e - 1} (1 + 2^{-m} f) & e > 0 \end{cases}"""
)
def numbers_of_codes():
    widths = {"mxfp8_e4m3": 8, "mxfp8_e5m2": 8, "mxfp6_e2m3": 6, "mxfp6_e3m2": 6, "mxfp4": 4}
    for name, (m, least, _, largest) in ELEMENTS.items():
        width = widths[name]
        codes = np.resize(np.arange(2**width), max(32, 2**width))
        ones = np.full(codes.size // 32, 127)
        values = quantization.dequantize_blocks(codes, ones, format=name, dtype=np.float64)
        for code, value in zip(codes, values, strict=True):
            sign, e, f = code >> (width - 1), (code >> m) % 2 ** (width - 1 - m), code % 2**m
            v = 2.0 ** (least - m) * f if e == 0 else 2.0 ** (least + e - 1) * (1 + 2.0**-m * f)
            v = (-1) ** sign * v
            if abs(v) <= largest:
                yield v, value
