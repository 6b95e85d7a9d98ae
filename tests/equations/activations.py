"""The displayed equations of dlref.activations."""

import math

import numpy as np
import scipy.integrate
import scipy.special
from equations.ledger import definition, equation
from equations.numeric import (
    complex_step,
    hessian_of,
    jacobian_of,
    nth_derivative,
)

from dlref import activations
from dlref.formulas.activations import (
    log_softmax,
    logsumexp,
    mish,
    normal_cdf,
    relu,
    sigmoid,
    softmax,
)

RNG = np.random.default_rng(0)
X = 2 * RNG.normal(size=9)
G, DX, DG = RNG.normal(size=(3, 9))
SCORES, U, V = RNG.normal(size=(3, 5))
DELTA = np.eye(5)


# The relu family


@definition(r"\operatorname{relu}(x) = \max(x, 0) = \tfrac12 (x + \abs{x}).")
def the_relu():
    yield np.maximum(X, 0), (X + np.abs(X)) / 2, activations.relu(X)


@definition(r"f(x) = \min(\max(x, 0), 6)")
def the_relu6():
    x = 4 * X
    yield np.minimum(np.maximum(x, 0), 6), activations.relu6(x)


@definition(r"f(x) = \begin{cases} x & x > 0 \\ a x & x \le 0 \end{cases}")
def the_leaky_relu():
    a = 0.3
    yield np.where(X > 0, X, a * X), activations.leaky_relu(X, negative_slope=a)


@definition(r"f(x) = \begin{cases} x & x > \alpha \\ 0 & x \le \alpha \end{cases}")
def the_thresholded_relu():
    alpha = 0.5
    x = np.append(X, alpha)
    yield np.where(x > alpha, x, 0), activations.thresholded_relu(x, alpha=alpha)


@definition(r"f(x, a) = \max(x, 0) + a \min(x, 0)")
def the_prelu():
    yield np.maximum(X, 0) + G * np.minimum(X, 0), activations.prelu(X, G)


@equation(
    r"""\pdv{L}{x} = u \begin{cases} 1 & x > 0 \\ a & x \le 0 \end{cases}, \qquad
    \pdv{L}{a} = \sum u \min(x, 0)"""
)
def gradients_of_prelu():
    u, a = G, 0.3

    def loss(x, a):
        return np.sum(u * (np.maximum(x, 0) + a * np.minimum(x, 0)))

    yield jacobian_of(lambda x: loss(x, a), X), u * np.where(X > 0, 1, a)
    yield jacobian_of(lambda a: loss(X, a), a), np.sum(u * np.minimum(X, 0))
    yield activations.prelu_vjp(1.0, 0.0, a)[0], a  # the choice at the kink


# Exponential units


@definition(r"f(x) = \max(0, x) + \min\bigl(0, \alpha (e^{x / \alpha} - 1)\bigr)")
def the_celu():
    alpha = 0.7
    want = np.maximum(0, X) + np.minimum(0, alpha * (np.exp(X / alpha) - 1))
    yield want, activations.celu(X, alpha=alpha)


@definition(r"f(x) = \begin{cases} x & x > 0 \\ \alpha (e^x - 1) & x \le 0 \end{cases}")
def the_elu():
    alpha = 0.7
    yield np.where(X > 0, X, alpha * (np.exp(X) - 1)), activations.elu(X, alpha=alpha)


LAMBDA, ALPHA = 1.0507009873554805, 1.6732632423543772


def selu(x):
    return LAMBDA * np.where(x.real > 0, x, ALPHA * (np.exp(x) - 1))


@definition(
    r"f(x) = \lambda \begin{cases} x & x > 0 \\ \alpha (e^x - 1) & x \le 0 \end{cases}",
)
def the_selu():
    yield selu(X), activations.selu(X)


@equation(
    r"""\E f'(x)^2 = \lambda^2 \Bigl( \tfrac12 + \alpha^2
    \E\bigl[e^{2x};\, x < 0\bigr] \Bigr)
    = \lambda^2 \bigl( \tfrac12 + \alpha^2 e^2\, \Phi(-2) \bigr) = 1.0716 ,"""
)
def mean_square_slope_of_selu():
    def mean(f, *ends):
        """Return the mean of f(x) over a part of a standard normal x."""
        density = lambda x: np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)  # noqa: E731
        return scipy.integrate.quad(lambda x: f(x) * density(x), *ends, epsabs=1e-13)[0]

    def square(x):
        return complex_step(selu, x) ** 2

    closed = LAMBDA**2 * (0.5 + ALPHA**2 * np.exp(2) * normal_cdf(np.float64(-2)))
    yield (
        mean(square, -12, 0) + mean(square, 0, 12),
        LAMBDA**2 * (0.5 + ALPHA**2 * mean(lambda x: np.exp(2 * x), -12, 0)),
        closed,
    )
    yield round(closed, 4), 1.0716


# The sigmoid and what is made of it


@definition(r"\sigma(x) = \frac{1}{1 + e^{-x}} = \frac{e^x}{1 + e^x}")
def the_sigmoid():
    yield 1 / (1 + np.exp(-X)), np.exp(X) / (1 + np.exp(X)), activations.sigmoid(X)


@equation(r"\sigma' = \frac{e^{-x}}{(1 + e^{-x})^2} = \sigma(x) \sigma(-x) = \sigma (1 - \sigma).")
def slope_of_the_sigmoid():
    s = sigmoid(X)
    yield (
        complex_step(sigmoid, X),
        np.exp(-X) / (1 + np.exp(-X)) ** 2,
        sigmoid(X) * sigmoid(-X),
        s * (1 - s),
    )


@definition(r"\log \sigma(x) = -\log(1 + e^{-x}) = \min(x, 0) - \log\bigl(1 + e^{-\abs{x}}\bigr)")
def the_log_sigmoid():
    yield (
        np.log(sigmoid(X)),
        -np.log(1 + np.exp(-X)),
        np.minimum(X, 0) - np.log(1 + np.exp(-np.abs(X))),
        activations.log_sigmoid(X),
    )


@definition(
    r"""f(x) = \frac1\beta \log(1 + e^{\beta x})
    = \max(x, 0) + \frac1\beta \log\bigl(1 + e^{-\beta \abs{x}}\bigr)"""
)
def the_softplus():
    for beta in (1.0, 1.7):
        yield (
            np.log(1 + np.exp(beta * X)) / beta,
            np.maximum(X, 0) + np.log(1 + np.exp(-beta * np.abs(X))) / beta,
            activations.softplus(X, beta=beta),
        )


@definition(r"f(x) = \max(x, 0)^2 = x \max(x, 0)")
def the_squared_relu():
    yield np.maximum(X, 0) ** 2, X * np.maximum(X, 0), activations.relu_squared(X)


@definition(
    r"""x' = \min(\max(x, -\ell), \ell) , \qquad g' = \min(g, \ell) , \qquad
    f(x, g) = (x' + c)\, g'\, \sigma(\beta g') ."""
)
def the_swiglu_with_a_bound():
    g, limit, c, beta = X[::-1], 1.1, 0.7, 1.702
    values, gate = np.minimum(np.maximum(X, -limit), limit), np.minimum(g, limit)
    want = (values + c) * gate * sigmoid(beta * gate)
    yield want, activations.swiglu(X, g, beta=beta, limit=limit, shift=c)


@definition(r"f(x) = x \, \sigma(\beta x) = \frac{x}{1 + e^{-\beta x}}")
def the_silu():
    beta = 1.7
    yield X * sigmoid(beta * X), X / (1 + np.exp(-beta * X)), activations.silu(X, beta=beta)


@equation(
    r"""f' = \sigma(u) + u \, \sigma(u) \sigma(-u)
    = \begin{cases} e^u (1 + e^u + u) / (1 + e^u)^2 & u < 0 \\
    (1 + e^{-u} + u e^{-u}) / (1 + e^{-u})^2 & u \ge 0 . \end{cases}"""
)
def slope_of_the_silu():
    beta = 1.7
    u = beta * X
    left = np.exp(u) * (1 + np.exp(u) + u) / (1 + np.exp(u)) ** 2
    right = (1 + np.exp(-u) + u * np.exp(-u)) / (1 + np.exp(-u)) ** 2
    yield (
        complex_step(lambda x: x * sigmoid(beta * x), X),
        sigmoid(u) + u * sigmoid(u) * sigmoid(-u),
        np.where(u < 0, left, right),
    )


@definition(
    r"""\tanh x = \frac{e^x - e^{-x}}{e^x + e^{-x}} = \frac{t}{t + 2}, \qquad
    t = e^{2x} - 1"""
)
def the_tanh():
    t = np.exp(2 * X) - 1
    sinh, cosh = np.exp(X) - np.exp(-X), np.exp(X) + np.exp(-X)
    yield sinh / cosh, t / (t + 2), activations.tanh(X)


@definition(r"f(x) = x - \tanh x = \tfrac13 x^3 - \tfrac{2}{15} x^5 + \ldots")
def the_tanhshrink():
    def f(x):
        return x - np.tanh(x)

    yield f(X), activations.tanhshrink(X)
    series = [nth_derivative(f, 0.0, n) / math.factorial(n) for n in range(7)]
    yield series, [0, 0, 0, 1 / 3, 0, -2 / 15, 0]


@definition(r"f(x) = \frac{x}{1 + \abs{x}}")
def the_softsign():
    yield X / (1 + np.abs(X)), activations.softsign(X)


# Piecewise linear stand-ins


@definition(r"f(x) = \max(0, \min(1, \alpha x + \beta))")
def the_hard_sigmoid():
    alpha, beta = 0.3, 0.6
    want = np.maximum(0, np.minimum(1, alpha * X + beta))
    yield want, activations.hard_sigmoid(X, alpha=alpha, beta=beta)


@definition(
    r"""f(x) = x \max\Bigl(0, \min\Bigl(1, \frac{x + 3}{6}\Bigr)\Bigr)
    = \begin{cases} 0 & x \le -3 \\ x (x + 3) / 6 & -3 < x < 3 \\ x & x \ge 3 \end{cases}"""
)
def the_hard_swish():
    x = np.append(3 * X, [-3, 3])
    yield (
        x * np.maximum(0, np.minimum(1, (x + 3) / 6)),
        np.select([x <= -3, (x > -3) & (x < 3), x >= 3], [0 * x, x * (x + 3) / 6, x]),
        activations.hard_swish(x),
    )


@definition(r"f(x) = \max(-1, \min(1, x))")
def the_hard_tanh():
    yield np.maximum(-1, np.minimum(1, X)), activations.hard_tanh(X)


# Gelu and mish


@definition(
    r"""f(x) = x \, \Phi(x)
    = \frac{x}{2} \Bigl( 1 + \operatorname{erf} \frac{x}{\sqrt 2} \Bigr)"""
)
def the_gelu():
    yield (
        X * scipy.special.ndtr(X),
        X / 2 * (1 + scipy.special.erf(X / np.sqrt(2))),
        activations.gelu(X),
    )


@definition(
    r"""f(x) = \frac{x}{2} \Bigl( 1 + \tanh\bigl( \sqrt{2/\pi}\, (x + 0.044715\, x^3) \bigr)
    \Bigr),"""
)
def the_gelu_by_tanh():
    want = X / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)))
    yield want, activations.gelu(X, approximate="tanh")


def mish_factor(x):
    return np.tanh(np.log(1 + np.exp(x)))


@definition(r"f(x) = x \tanh(\log(1 + e^x))")
def the_mish():
    yield X * np.tanh(np.log(1 + np.exp(X))), activations.mish(X)


@equation(r"f(x) = x \, \frac{w (w + 2)}{w^2 + 2 w + 2},")
def mish_without_a_logarithm():
    e = np.exp(X)
    yield mish(X), X * (e * (e + 2)) / (e**2 + 2 * e + 2)


@equation(
    r"""T' = \frac{2 d'}{d^2} = \frac{4 w (w + 1)}{d^2}, \qquad
    f' = \frac{w \bigl( (w + 2) d + 4 x (w + 1) \bigr)}{d^2} ."""
)
def slope_of_mish():
    def denominator(x):
        return np.exp(x) ** 2 + 2 * np.exp(x) + 2

    e, d, d_slope = np.exp(X), denominator(X), complex_step(denominator, X)
    yield complex_step(mish_factor, X), 2 * d_slope / d**2, 4 * e * (e + 1) / d**2
    yield complex_step(mish, X), e * ((e + 2) * d + 4 * X * (e + 1)) / d**2


@equation(
    r"""T'' = 4\, \frac{(2w^2 + w)\, d - 2 (w^2 + w)\, d'}{d^3}
    = 4w\, \frac{(2w + 1)(w^2 + 2w + 2) - 4w (w + 1)^2}{d^3}
    = \frac{4w\, (2 + 2w - 3w^2 - 2w^3)}{d^3} ,"""
)
def curvature_of_the_factor_of_mish():
    w = np.exp(X)
    d = w**2 + 2 * w + 2
    d_slope = complex_step(lambda x: np.exp(2 * x) + 2 * np.exp(x) + 2, X)
    yield (
        nth_derivative(mish_factor, X, 2),
        4 * ((2 * w**2 + w) * d - 2 * (w**2 + w) * d_slope) / d**3,
        4 * w * ((2 * w + 1) * (w**2 + 2 * w + 2) - 4 * w * (w + 1) ** 2) / d**3,
        4 * w * (2 + 2 * w - 3 * w**2 - 2 * w**3) / d**3,
    )


@equation(
    r"""f'' = 2 T' + x T''
    = \frac{4w \bigl( 2 (w + 1) d + x (2 + 2w - 3w^2 - 2w^3) \bigr)}{d^3} ."""
)
def curvature_of_mish():
    w = np.exp(X)
    d, rest = w**2 + 2 * w + 2, 2 + 2 * w - 3 * w**2 - 2 * w**3
    yield (
        nth_derivative(mish, X, 2),
        2 * complex_step(mish_factor, X) + X * nth_derivative(mish_factor, X, 2),
        4 * w * (2 * (w + 1) * d + X * rest) / d**3,
    )


# Gated units


@definition(r"f(x, g) = x \, \sigma(g)")
def the_glu():
    yield X * sigmoid(G), activations.glu(X, G)


@definition(r"f(x, g) = x \max(g, 0)")
def the_reglu():
    yield X * np.maximum(G, 0), activations.reglu(X, G)


@definition(r"f(x, g) = x \, g \, \Phi(g)")
def the_geglu():
    yield X * G * scipy.special.ndtr(G), activations.geglu(X, G)


@definition(r"f(x, g) = x \, g \, \sigma(\beta g)")
def the_swiglu():
    beta = 1.7
    yield X * G * sigmoid(beta * G), activations.swiglu(X, G, beta=beta)


@equation(r"\dot f = \dot x \, a(g) + x \, a'(g) \, \dot g")
def tangents_of_gated_units():
    units = [
        (sigmoid, activations.glu_jvp),
        (relu, activations.reglu_jvp),
        (lambda g: g * normal_cdf(g), activations.geglu_jvp),
        (lambda g: g * sigmoid(g), activations.swiglu_jvp),
    ]
    for a, jvp in units:
        moved = complex_step(lambda t, a=a: (X + t * DX) * a(G + t * DG), 0.0)
        formula = DX * a(G) + X * complex_step(a, G) * DG
        yield moved, formula, jvp((X, G), (DX, DG))


# Softmax


@definition(r"s_i = \frac{e^{x_i}}{\sum_j e^{x_j}}")
def the_softmax():
    for i in range(5):
        want = np.exp(SCORES[i]) / sum(np.exp(SCORES[j]) for j in range(5))
        yield want, softmax(SCORES)[i], activations.softmax(SCORES)[i]


@equation(
    r"""\frac{1}{s_i} \pdv{s_i}{x_j} = \delta_{ij} - \frac{e^{x_j}}{\sum_l e^{x_l}}
    = \delta_{ij} - s_j, \qquad\text{hence}\qquad
    J_{ij} = s_i (\delta_{ij} - s_j), \quad
    \mat{J} = \operatorname{diag}(\vec s) - \vec s \vec s^\top ."""
)
def jacobian_of_softmax():
    s, J = softmax(SCORES), jacobian_of(softmax, SCORES)
    yield (
        1 / s[:, None] * J,
        DELTA - np.exp(SCORES)[None, :] / np.exp(SCORES).sum(),
        DELTA - s[None, :],
    )
    yield J, s[:, None] * (DELTA - s[None, :]), np.diag(s) - np.outer(s, s)


@equation(
    r"""(\mat J \vec v)_i = \sum_j s_i (\delta_{ij} - s_j) v_j = s_i (v_i - \bar v),
    \qquad \bar v = \sum_j s_j v_j"""
)
def tangent_of_softmax():
    s, J = softmax(SCORES), jacobian_of(softmax, SCORES)
    mean = np.sum(s * V)
    terms = s[:, None] * (DELTA - s[None, :]) * V[None, :]
    yield J @ V, terms.sum(axis=1), s * (V - mean)


@equation(r"\pdv{L}{x_j} = \sum_i u_i J_{ij} = s_j \Bigl( u_j - \sum_i s_i u_i \Bigr)")
def gradient_through_softmax():
    s, J = softmax(SCORES), jacobian_of(softmax, SCORES)
    yield (
        jacobian_of(lambda x: np.sum(U * softmax(x)), SCORES),
        np.einsum("i,ij->j", U, J),
        s * (U - np.sum(s * U)),
    )


# Log-softmax


@definition(r"\ell_i = \log s_i = x_i - \log \sum_j e^{x_j}")
def the_log_softmax():
    yield (
        np.log(softmax(SCORES)),
        SCORES - np.log(np.sum(np.exp(SCORES))),
        activations.log_softmax(SCORES),
    )


@equation(r"\ell_i = (x_i - m) - \log\Bigl( 1 + \sum_{j \ne a} e^{x_j - m} \Bigr) ,")
def log_softmax_after_the_maximum():
    m, a = SCORES.max(), SCORES.argmax()
    others = sum(np.exp(SCORES[j] - m) for j in range(5) if j != a)
    yield log_softmax(SCORES), (SCORES - m) - np.log(1 + others)


@equation(
    r"""J_{ij} = \pdv{\ell_i}{x_j} = \delta_{ij} - s_j, \qquad
    \mat J = \mat I - \vec 1 \vec s^\top ."""
)
def jacobian_of_log_softmax():
    s = softmax(SCORES)
    yield (
        activations.log_softmax_jacobian(SCORES),
        jacobian_of(log_softmax, SCORES),
        DELTA - s[None, :],
        np.eye(5) - np.outer(np.ones(5), s),
    )


@equation(r"(\mat J \vec v)_i = v_i - \sum_j s_j v_j")
def tangent_of_log_softmax():
    yield jacobian_of(log_softmax, SCORES) @ V, V - np.sum(softmax(SCORES) * V)


@equation(r"\pdv{L}{x_j} = \sum_i u_i (\delta_{ij} - s_j) = u_j - s_j \sum_i u_i")
def gradient_through_log_softmax():
    s = softmax(SCORES)
    yield (
        jacobian_of(lambda x: np.sum(U * log_softmax(x)), SCORES),
        np.einsum("i,ij->j", U, DELTA - s[None, :]),
        U - s * U.sum(),
    )


# Log-sum-exp


@definition(
    r"""f(x) = \log \sum_{j=1}^k e^{x_j}
    = m + \log\Bigl( 1 + \sum_{j \ne a} e^{x_j - m} \Bigr)"""
)
def the_logsumexp():
    m, a = SCORES.max(), SCORES.argmax()
    others = sum(np.exp(SCORES[j] - m) for j in range(5) if j != a)
    yield np.log(np.sum(np.exp(SCORES))), m + np.log(1 + others), activations.logsumexp(SCORES)


@equation(r"m \le f(x) \le m + \log k .")
def bounds_of_logsumexp():
    def bounds(scores):
        m, k = scores.max(), scores.size
        return m, m + np.log(k)

    rng = np.random.default_rng(3)
    for scale in 10.0 ** rng.uniform(-9, 2.5, size=300):  # counterexamples are looked for
        scores = scale * rng.normal(size=rng.integers(1, 7)) + rng.normal()
        lower, upper = bounds(scores)
        value = logsumexp(scores)
        error = 4e-16 * (1 + abs(value))
        assert lower - error <= value <= upper + error, scores
    for scale in (1e-9, 1, 20):  # the first is close to the upper bound
        lower, upper = bounds(scale * SCORES)
        yield lower <= logsumexp(scale * SCORES) <= upper, True
    far, equal = 50 * SCORES, np.full(5, 0.3)
    yield logsumexp(far), bounds(far)[0]  # and both are reached
    yield logsumexp(equal), bounds(equal)[1]


@equation(r"\pdv{f}{x_i} = \frac{e^{x_i}}{\sum_j e^{x_j}} = s_i")
def gradient_of_logsumexp():
    yield (
        jacobian_of(logsumexp, SCORES),
        np.exp(SCORES) / np.sum(np.exp(SCORES)),
        activations.softmax(SCORES),
    )


@equation(
    r"""\frac{\partial^2 f}{\partial x_i \partial x_j} = \pdv{s_i}{x_j}
    = s_i (\delta_{ij} - s_j) ."""
)
def hessian_of_logsumexp():
    s = softmax(SCORES)
    yield (
        hessian_of(logsumexp, SCORES),
        jacobian_of(softmax, SCORES),
        s[:, None] * (DELTA - s[None, :]),
    )
