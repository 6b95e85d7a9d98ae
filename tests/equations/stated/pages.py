"""Inline relations of pages that belong to no chapter."""

import math

import numpy as np
from equations.numeric import jacobian_of
from equations.stated import draw, slope, stated

from dlref import calculus, convolution, formulas, positions, training
from dlref.formulas.activations import softmax


@stated("docs/expectations.rst")
def of_expectations():
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / np.sum(weight)
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


@stated("docs/exercises/calculus/chain_rule.rst")
def of_a_chain():
    for t in (0.7, -1.3):
        x, y = t**2, t**3
        yield r"y \cdot 2t = 2 t^4", y * slope(lambda t: t**2, t), 2 * t**4
        yield r"x \cdot 3t^2 = 3 t^4", x * slope(lambda t: t**3, t), 3 * t**4


@stated("docs/exercises/recurrent/lstm.rst")
def of_bounded_outputs():
    o, c = 1 / (1 + np.exp(-draw(132, 50)[0])), 5 * draw(133, 50)[0]
    h = o * np.tanh(c)
    text = r"\abs{h_t} = \abs{o_t \tanh c_t} < 1"
    yield text, np.abs(h), np.abs(o * np.tanh(c))
    yield text, bool(np.all(np.abs(h) < 1)), True


@stated("docs/error_bounds.rst")
def of_the_maps_with_error_bounds():
    u = 2.0**-24
    scores = np.array([0.3, -1.2, 4.0])
    D, e = scores.max() - scores, np.exp(scores - scores.max())
    for i in range(3):
        yield r"D_i = m - x_i \ge 0", D[i], max(scores) - scores[i], abs(D[i])
        yield r"s_i = e^{-D_i} / Z", softmax(scores)[i], np.exp(-D[i]) / np.sum(e)
    yield r"Z = \sum_j e^{-D_j}", np.sum(e), sum(np.exp(-D[j]) for j in range(3))
    yield r"Z = 1 + r", np.sum(e), 1 + e[0] + e[1]
    x, w, eps, n = scores, np.array([0.5, 2.0, 1.0]), 0.1, 3
    q = np.mean(x**2)
    yield r"q = \frac1n \sum_j x_j^2", q, 1 / n * sum(x[j] ** 2 for j in range(n))
    y = formulas.normalization.rms_norm(x, w, eps=eps)
    yield r"y_i = w_i x_i / \sqrt{q + \epsilon}", y, w * x / np.sqrt(q + eps)
    d, z = x - np.mean(x), formulas.normalization.layer_norm(x, eps=eps)
    size = np.sqrt(np.mean(d**2) + eps)
    yield r"d_i = x_i - \mu", z * size, x - np.mean(x)
    yield r"z_i = d_i / s", z, d / size
    text = r"s^2 = \frac1n \sum_j d_j^2 + \epsilon"
    yield text, (d[0] / z[0]) ** 2, 1 / n * sum(d[j] ** 2 for j in range(n)) + eps
    q, keys, values = draw(131, 5, (4, 5), (4, 3))
    p = softmax(np.array([q @ key for key in keys]) / np.sqrt(5))
    o = formulas.attention.attention(q[None], keys, values)[0]
    yield r"\vec o = \sum_j p_j \vec v_j", o, sum(p[j] * values[j] for j in range(4))
    yield r"x_j = \vec q \cdot \vec k_j / \sqrt E", p @ values, o
    E, A = 5, 7.0
    yield (
        r"B = (E + 2) A / (1 - (E + 2) u)",
        (E + 2) * u / (1 - (E + 2) * u) * A / u,
        ((E + 2) * A / (1 - (E + 2) * u)),
    )


@stated("docs/exercises/convolution/conv_transpose.rst")
def of_doubled_images():
    s = 2
    for K, p, q in ((4, 1, 0), (3, 1, 1)):
        shape = convolution.conv_transpose(
            np.ones((1, 7, 7)),
            np.ones((1, 1, K, K)),
            stride=s,
            padding=p,
            output_padding=q,
        ).shape
        yield r"6 s + K - 2 p + q = 14", 6 * s + K - 2 * p + q, 14, shape[-1]


@stated("docs/exercises/training/adam.rst")
def of_means_of_adam():
    g = -2.5
    _, state = training.adam_step(np.zeros(1), np.array([g]), None, learning_rate=0.1)
    second = (1 - 0.999) * g**2
    assert any(np.allclose(part, second) for part in state if np.ndim(part))
    yield r"\sqrt v = \sqrt{0.001}\, |g|", np.sqrt(second), np.sqrt(0.001) * abs(g)


@stated("dlref/_math/elementary.py")
def of_the_logarithm():
    for w in (0.3, 1.0, 7e5):
        m, k = math.frexp(w)
        m, k = (2 * m, k - 1) if m < math.sqrt(0.5) else (m, k)
        yield r"\log w = k \log 2 + \log m", math.log(w), k * math.log(2) + math.log(m)


@stated("docs/adjoints.rst")
def of_differentials():
    t, (da, db) = 0.3, (np.cos(0.3), np.exp(0.3))
    total = slope(lambda t: np.sin(t) + np.exp(t), t)
    yield r"\dd(a + b) = \dd a + \dd b", total, da + db
    product = slope(lambda t: np.sin(t) * np.exp(t), t)
    yield r"\dd(ab) = a\, \dd b + b\, \dd a", product, np.sin(t) * db + np.exp(t) * da
