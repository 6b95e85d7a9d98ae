"""Inline relations of positions, and of its exercises."""

import math

import numpy as np
from equations.stated import draw, stated

from dlref import positions


@stated("dlref/positions/_rotary.py")
def of_rotations():
    theta = np.array([1.0, 0.3])
    R = lambda p: positions.rope_matrix(float(p), theta)  # noqa: E731
    eye = np.eye(4)
    yield r"\mat R_0 = \mat I", R(0), eye
    text = r"\mat R_m^\top \mat R_m = \mat S_0 = \mat R_0^\top \mat R_0 = \mat I"
    yield text, R(3).T @ R(3), R(0).T @ R(0), eye
    yield r"\mat R_p = \mat R_1^p", R(4), np.linalg.matrix_power(R(1), 4)
    D = lambda a: np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])  # noqa: E731
    yield r"\mat D_\phi \mat D_\psi = \mat D_{\phi+\psi}", D(0.3) @ D(1.1), D(1.4)
    x = np.arange(4.0)
    out = positions.apply_rope(x[None], *(f(2 * theta)[None] for f in (np.cos, np.sin)))[0]
    yield r"f(\vec x, p) = \mat R_p \vec x", out, R(2) @ x


@stated("docs/exercises/positions/rotary.rst")
def of_the_exercises_on_rotations():
    theta = np.array([1.0, 0.3])
    R = lambda p: positions.rope_matrix(float(p), theta)  # noqa: E731
    x, eye = draw(28, 2)[0], np.eye(4)
    yield r"\mat R_m^\top = \mat R_{-m}", R(2).T, R(-2)
    yield r"\mat R^\top \mat R = \mat I", R(3).T @ R(3), eye
    a = 0.7
    turn = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    text = r"\vec x^\top \mat R(\alpha) \vec x = \norm{\vec x}^2 \cos \alpha"
    yield text, x @ turn @ x, x @ x * np.cos(a)
    text = r"\norm{\mat R \vec x}^2 = \vec x^\top \mat R^\top \mat R \vec x = \norm{\vec x}^2"
    yield text, np.linalg.norm(turn @ x) ** 2, x @ turn.T @ turn @ x, x @ x
    text = r"\mat R_1^\top \mat R_{n+1} = \mat R_0^\top \mat R_n = \mat R_n"
    yield text, R(1).T @ R(4), R(0).T @ R(3), R(3)
    yield r"\mat R_{n+1} = \mat R_1 \mat R_n", R(4), R(1) @ R(3)
    yield r"\mat R_n = \mat R_1^n", R(4), np.linalg.matrix_power(R(1), 4)
    slowest = lambda d, L: (L / (2 * math.pi)) ** (d / (d - 2))  # noqa: E731
    want = positions.rope_frequencies(8, base=slowest(8, 500.0))[-1]
    yield r"b = (L / 2\pi)^{d/(d - 2)}", want * 500.0, 2 * math.pi


@stated("dlref/positions/_sinusoidal.py")
def of_sinusoids():
    PE = positions.sinusoidal(9, 8, base=100.0)
    w = 100.0 ** (-np.arange(4) / 4)
    p, q = 7, 2
    sums = sum(np.sin(p * w) * np.sin(q * w) + np.cos(p * w) * np.cos(q * w))
    text = (
        r"\langle PE_p, PE_q \rangle = \sum_i \sin p\omega_i \sin q\omega_i + \cos p\omega_i "
        r"\cos q\omega_i = \sum_i \cos (p - q) \omega_i"
    )
    yield text, PE[p] @ PE[q], sums, sum(np.cos((p - q) * w))
    text = r"\abs{PE_p - PE_q}^2 = D - 2 \sum_i \cos (p - q) \omega_i"
    yield text, sum((PE[p] - PE[q]) ** 2), 8 - 2 * sum(np.cos((p - q) * w))
    M = lambda k: positions.sinusoidal_shift(k, 8, base=100.0)  # noqa: E731
    yield r"PE_{p+k} = \mat M_k PE_p", PE[7], M(5) @ PE[2]
    yield r"\mat M_k^{-1} = \mat M_k^\top = \mat M_{-k}", np.linalg.inv(M(3)), M(3).T, M(-3)
    yield r"\mat M_j \mat M_k = \mat M_{j+k}", M(2) @ M(3), M(5)


@stated("docs/exercises/positions/sinusoidal.rst")
def of_products_of_sinusoids():
    p, q, w = 3.0, 7.0, 0.4
    text = r"\sin p\omega \sin q\omega + \cos p\omega \cos q\omega = \cos (p - q) \omega"
    yield (
        text,
        math.sin(p * w) * math.sin(q * w) + math.cos(p * w) * math.cos(q * w),
        math.cos((p - q) * w),
    )


@stated("dlref/positions/_t5.py")
def of_buckets():
    e, n, M = 8, 16, 128
    agree = [
        ((r / e) ** (n - e) >= (M / e) ** k) == (r ** (n - e) >= M**k * e ** (n - e - k))
        for k in range(1, 8)
        for r in range(9, 140)
        if abs((r / e) ** (n - e) - (M / e) ** k) > 1e-6
    ]
    yield r"(r/e)^{n-e} \ge (M/e)^k", all(agree), True
    yield r"r^{n-e} \ge M^k e^{n-e-k}", all(agree), True


@stated("docs/exercises/positions/alibi.rst")
def of_half_a_weight():
    m = 0.25
    d = math.log(2) / m
    yield r"e^{-m d} = 1/2", math.exp(-m * d), 1 / 2
    yield r"d = \log 2 / m", d, math.log(2) / m


@stated("docs/exercises/positions/learned.rst")
def of_selected_rows():
    S, W, U = np.eye(4)[[1, 3, 1]], *draw(136, (4, 2), (3, 2))
    yield r"\mat Y = \mat S \mat W", W[[1, 3, 1]], S @ W
    grad = np.zeros((4, 2))
    np.add.at(grad, [1, 3, 1], U)
    yield r"\bar{\mat W} = \mat S^\top \mat U", grad, S.T @ U
