"""Inline relations of pages that belong to no chapter."""

import math

import numpy as np
from equations.numeric import jacobian_of
from equations.stated import Near, draw, slope, stated

from dlref import calculus, positions
from dlref.formulas.activations import softmax


@stated("docs/expectations.rst")
def of_expectations():
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / np.sum(weight)
    yield r"\E \max(z, 0)^2 = \frac12", weight @ np.maximum(z, 0) ** 2, 0.5
    x, y = z[:, None], z
    both = np.outer(weight, weight)
    yield (
        r"\E[XY] = \E X \, \E Y",
        np.sum(both * (x**2 * np.exp(y / 3))),
        weight @ z**2 * (weight @ np.exp(z / 3)),
    )
    yield (
        r"\E[a X + b Y] = a \E X + b \E Y",
        np.sum(both * (2 * x**2 + 3 * y**4)),
        2 * (weight @ z**2) + 3 * (weight @ z**4),
    )
    c = 0.6
    other = c * x + math.sqrt(1 - c**2) * y
    text = r"\E[z_1 f(z_2)] = c\, \E f'(z_2)"
    yield text, np.sum(both * (x * np.sin(other))), c * np.sum(both * np.cos(other))


@stated("docs/questions.rst")
def of_the_questions():
    A, B, U, v = draw(76, (2, 3), (3, 4), (2, 4), 3)
    yield r"u^\top (J v) = (u^\top J) v", U[:, 0] @ (A @ v), (U[:, 0] @ A) @ v
    of_a, of_b = calculus.matmul_vjp(U, A, B)
    yield r"\bar{\mat A} = \mat U \mat B^\top", of_a, U @ B.T
    yield r"\bar{\mat B} = \mat A^\top \mat U", of_b, A.T @ U
    yield r"\log s_i = x_i - \log \sum_l e^{x_l}", np.log(softmax(v)), v - np.log(sum(np.exp(v)))
    p, V, u = softmax(v), draw(77, (3, 4))[0], U[0]
    yield (
        r"\sum_j p_{ij}\, u_i \cdot v_j = u_i \cdot o_i",
        sum(p[j] * (u @ V[j]) for j in range(3)),
        u @ (p @ V),
    )
    R = lambda n: positions.rope_matrix(float(n), np.array([1.0, 0.3]))  # noqa: E731
    q, k = draw(78, 4, 4)
    text = r"(R_m q)^\top (R_n k) = q^\top R_m^\top R_n k = q^\top R_{n - m} k"
    yield text, (R(2) @ q) @ (R(5) @ k), q @ R(2).T @ R(5) @ k, q @ R(3) @ k


@stated("docs/conventions.rst")
def of_conventions():
    u, J, v = draw(128, 3, (3, 4), 4)
    yield r"u^\top (J v) = (u^\top J)\, v", u @ (J @ v), (u @ J) @ v


@stated("docs/reference/check.rst")
def of_adjoints():
    u, J, v = draw(129, 3, (3, 4), 4)
    yield (
        r"\langle u, \mat J v \rangle = \langle \mat J^\top u, v \rangle",
        u @ (J @ v),
        (J.T @ u) @ v,
    )


@stated("docs/reference/neurons.rst")
def of_neurons():
    w, x, W, V, b = *draw(130, 3, 3, (4, 3), (2, 4)), 0.3
    yield r"\partial z / \partial \vec w = \vec x", jacobian_of(lambda w: w @ x + b, w), x
    yield r"\partial z / \partial b = 1", slope(lambda b: w @ x + b, b), 1
    yield r"\mat V (\mat W \vec x) = (\mat V \mat W) \vec x", V @ (W @ x), (V @ W) @ x


@stated("docs/rates_of_descent.rst")
def of_the_rates_of_descent():
    low, high = 0.1, 1.0
    eta = 2 / (low + high)
    rates = np.linspace(0.01, 2.5, 24_901)
    best = rates[np.argmin(np.maximum(np.abs(1 - rates * low), np.abs(1 - rates * high)))]
    text = r"1 - \eta \lambda_{\min} = \eta \lambda_{\max} - 1"
    yield text, 1 - eta * low, eta * high - 1
    yield text, 1 - best * low, best * high - 1, Near(1e-3)

    def is_minimum_kept(a, eta):  # after a start beside it, on the hyperbola ab = 1
        a, b = a + 1e-6, 1 / a
        for _ in range(200):
            error = a * b - 1
            a, b = a - eta * error * b, b - eta * error * a
        return abs(a * b - 1) < 1e-6

    for a in (1.2, 1.9, 2.5):
        limit = 2 / (a**2 + a**-2)
        for eta in (0.97 * limit, 1.03 * limit):
            kept = is_minimum_kept(a, eta) and eta < limit
            yield r"a^2 + b^2 < 2 / \eta", a**2 + a**-2 < 2 / eta, kept
    mu = 0.36
    kappa = (1 + np.sqrt(mu)) ** 2 / (1 - np.sqrt(mu)) ** 2  # of the ends of the interval
    text = r"\sqrt{\kappa} = (1 + \sqrt{\mu}) / (1 - \sqrt{\mu})"
    yield text, np.sqrt(kappa), (1 + np.sqrt(mu)) / (1 - np.sqrt(mu))
    for z in ((1 + 1j * np.sqrt(15)) / 8, (1 - 1j * np.sqrt(15)) / 8):
        yield r"\eta \lambda = 1", z**2 - (1 + 1 / 4 - 1) * z + 1 / 4, 0


@stated("docs/error_bounds.rst")
def of_the_error_bounds():
    u = 2.0**-24
    for delta in (np.float32(x) / x - 1 for x in np.random.default_rng(0).uniform(1, 2, 500)):
        yield r"\abs \delta \le u", abs(delta) <= u, True
    yield r"1 + u \le 1 / (1 - u)", 1 + u <= 1 / (1 - u), True
    for k in (1, 1.5, 30, 1e6):
        yield r"(1 - u)^k \ge 1 - k u", np.expm1(k * np.log1p(-u)) >= -k * u * (1 + 1e-12), True
    D = np.append(0.0, np.random.default_rng(1).exponential(9, 5))
    Z, n, r = np.sum(np.exp(-D)), D.size, np.sum(np.exp(-D[1:]))
    yield r"n / Z \le n", n / Z <= n, True
    yield r"r \ge e^{-D}", r >= np.exp(-np.min(D[1:])), True
    ell = np.log(softmax(-D))
    for i in range(n):
        yield r"\ell_i = -D_i - \log Z", ell[i], -D[i] - np.log(Z)
        yield r"D_i + \log Z = \abs{\ell_i}", D[i] + np.log(Z), abs(ell[i])
    E, A = 5, 7.0
    gamma, B = (E + 2) * u / (1 - (E + 2) * u), (E + 2) * A / (1 - (E + 2) * u)
    yield r"\gamma_{E+2} A = u B", gamma * A, u * B
    yield r"A + u B = A / (1 - (E + 2) u)", A + u * B, A / (1 - (E + 2) * u)
    x = (np.random.default_rng(2).normal(size=9) + 50).astype(np.float32)
    d, moved = (
        x - np.mean(x, dtype=float),
        np.cumsum(x)[-1] / np.float32(9) - np.mean(x, dtype=float),
    )
    s, of_n = np.sqrt(np.mean(d**2)), 9 * u / (1 - 9 * u)
    size = of_n * np.mean(abs(x), dtype=float)
    text = r"\abs \Delta \le \gamma_n \frac1n \sum_j \abs{x_j} = \rho s"
    yield text, abs(moved) <= size, True
    rho = of_n * (np.mean(abs(x), dtype=float) / s)
    yield text, size, rho * s
    tilde = (d - moved) / np.sqrt(s**2 + moved**2)
    text = r"\abs{\tilde z_i} \le \abs{z_i} + \rho"
    yield text, bool(np.all(abs(tilde) <= abs(d / s) + rho)), True
