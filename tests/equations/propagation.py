"""The displayed equations of dlref.propagation."""

import functools
import itertools

import numpy as np
import scipy.integrate
import scipy.optimize
from equations.ledger import equation
from equations.numeric import complex_step

from dlref import propagation

# Gradients through depth


@equation(r"\dv{h_L}{h_0} = \prod_{l=1}^{L} \phi'(w h_{l-1}) \, w,")
def derivative_through_depth():
    w, L = 1.3, 6

    def values(first):
        h = [first]
        for _ in range(L):
            h.append(np.tanh(w * h[-1]))
        return h

    h = values(0.4)
    factors = [complex_step(np.tanh, w * h[l - 1]) * w for l in range(1, L + 1)]
    yield complex_step(lambda first: values(first)[L], 0.4), np.prod(factors)


@equation(r"\Bigl\lVert \prod_l \mat D_l \mat W \Bigr\rVert \le (\gamma \, \sigma_{\max})^L,")
def bound_of_a_product_of_layers():
    def both_sides(weight, slopes, gamma):
        product = np.eye(3)
        for d in slopes:
            product = np.diag(d) @ weight @ product
        sigma = np.linalg.svd(weight)[1].max()
        return np.linalg.norm(product, 2), (gamma * sigma) ** len(slopes)

    rng = np.random.default_rng(0)
    for _ in range(500):  # also nearly orthogonal weights, which come close to the bound
        weight = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        weight += rng.exponential(0.3) * rng.normal(size=(3, 3))
        slopes = rng.choice([-0.7, 0.7]) * rng.uniform(rng.uniform(), 1, size=(4, 3))
        norm, bound = both_sides(weight, slopes, 0.7)
        assert norm <= bound * (1 + 1e-12), (weight, slopes)
    turn = 1.5 * np.linalg.qr(weight)[0]
    yield both_sides(turn, np.full((4, 3), 0.7), 0.7)  # which reaches the bound


# Variances of weights, in exact means over distributions of a few equally likely values

WEIGHT = np.array([-1.0, -0.5, 1.5])  # mean 0
VARIANCE = np.mean(WEIGHT**2)
VALUE = np.array([0.3, 1.7, -0.9])  # any mean
SYMMETRIC = np.array([-1.5, -0.5, 0.5, 1.5])


def mean_square_sum(weight, values):
    """Return the mean square of a sum of products of independent factors."""
    n = len(values)
    draws = itertools.product(*[weight] * n, *values)
    return np.mean([np.dot(draw[:n], draw[n:]) ** 2 for draw in draws])


@equation(
    r"""\E z_i^2 = \sum_j \E W_{ij}^2 \, \E h_j^2 = n_{in} \operatorname{Var} W \; \E h^2 ."""
)
def second_moment_of_a_weighted_sum():
    n_in = 3
    for h in ([VALUE] * n_in, [VALUE, SYMMETRIC, 2 * VALUE]):
        terms = [np.mean(WEIGHT**2) * np.mean(h[j] ** 2) for j in range(n_in)]
        yield mean_square_sum(WEIGHT, h), sum(terms)
    yield mean_square_sum(WEIGHT, [VALUE] * n_in), n_in * VARIANCE * np.mean(VALUE**2)


@equation(
    r"""\E \Bigl( \pdv{L}{h_j} \Bigr)^2
    = n_{out} \operatorname{Var} W \; \E \Bigl( \pdv{L}{z} \Bigr)^2 ."""
)
def second_moment_of_the_way_back():
    n_out = 3

    def squared_slope(draw):
        """Return the square of dL/dh for z_i = W_i h and given dL/dz_i."""
        weights, by_z = np.array(draw[:n_out]), np.array(draw[n_out:])
        return complex_step(lambda h: np.sum(by_z * (weights * h)), 0.7) ** 2

    draws = itertools.product(*[WEIGHT] * n_out, *[VALUE] * n_out)
    slopes = [squared_slope(draw) for draw in draws]
    yield np.mean(slopes), n_out * VARIANCE * np.mean(VALUE**2)


@equation(
    r"""\E z_l^2 = n_{in} \operatorname{Var} W \; \E \phi(z_{l-1})^2
    = n_{in} \operatorname{Var} W \; \frac{1 + a^2}{2} \; \E z_{l-1}^2,"""
)
def second_moment_behind_a_rectifier():
    n_in, a = 3, 0.3
    phi = np.where(SYMMETRIC > 0, SYMMETRIC, a * SYMMETRIC)
    yield (
        mean_square_sum(WEIGHT, [phi] * n_in),
        n_in * VARIANCE * np.mean(phi**2),
        n_in * VARIANCE * (1 + a**2) / 2 * np.mean(SYMMETRIC**2),
    )


# Initializations, each against a large draw

N_OUT, N_IN, GAIN, SLOPE = 500, 1000, 1.7, 0.3


def drawn(init, **options):
    return init(np.random.default_rng(0), (N_OUT, N_IN), **options)


def moments(weights):
    """Return mean square and mean fourth power."""
    return np.mean(weights**2), np.mean(weights**4)


def normal_moments(variance):
    return variance, 3 * variance**2


@equation(
    r"""\operatorname{Var} W = \frac{2 g^2}{n_{in} + n_{out}}, \qquad
    W \sim U(-a, a), \quad a = g \sqrt{\frac{6}{n_{in} + n_{out}}},""",
    rtol=1e-2,
)
def the_glorot_uniform_weights():
    variance, a = 2 * GAIN**2 / (N_IN + N_OUT), GAIN * np.sqrt(6 / (N_IN + N_OUT))
    weights = drawn(propagation.glorot_uniform, gain=GAIN)
    yield np.mean(weights**2), variance
    yield moments(weights), (a**2 / 3, a**4 / 5)
    yield (weights.min(), weights.max()), (-a, a)
    yield abs(variance / (a**2 / 3) - 1) < 1e-15, True  # exactly


@equation(r"W \sim N \Bigl( 0, \; \frac{2 g^2}{n_{in} + n_{out}} \Bigr)", rtol=1e-2)
def the_glorot_normal_weights():
    variance = 2 * GAIN**2 / (N_IN + N_OUT)
    yield moments(drawn(propagation.glorot_normal, gain=GAIN)), normal_moments(variance)


@equation(r"\operatorname{Var} W = \frac{2}{(1 + a^2) \, n_{in}} .", rtol=1e-2)
def variance_that_keeps_moments_behind_a_rectifier():
    a, n_in = SLOPE, 3
    variance = 2 / ((1 + a**2) * n_in)
    scaled = WEIGHT * np.sqrt(variance / VARIANCE)
    phi = np.where(SYMMETRIC > 0, SYMMETRIC, a * SYMMETRIC)
    yield mean_square_sum(scaled, [phi] * n_in), np.mean(SYMMETRIC**2)
    weights, variance = drawn(propagation.he_uniform, negative_slope=a), 2 / ((1 + a**2) * N_IN)
    yield (np.mean(weights**2), weights.max()), (variance, np.sqrt(3 * variance))


@equation(r"W \sim N \Bigl( 0, \; \frac{2}{(1 + a^2) \, n_{in}} \Bigr)", rtol=1e-2)
def the_he_normal_weights():
    variance = 2 / ((1 + SLOPE**2) * N_IN)
    weights = drawn(propagation.he_normal, negative_slope=SLOPE)
    yield moments(weights), normal_moments(variance)


@equation(
    r"""W \sim N \Bigl( 0, \; \frac{1}{n_{in}} \Bigr), \qquad
    \E z^2 = n_{in} \operatorname{Var} W \; \E h^2 = \E h^2 .""",
    rtol=1e-2,
)
def the_lecun_normal_weights():
    yield moments(drawn(propagation.lecun_normal)), normal_moments(1 / N_IN)
    n_in = 3
    scaled = WEIGHT * np.sqrt(1 / n_in / VARIANCE)
    z2 = mean_square_sum(scaled, [VALUE] * n_in)
    yield z2, n_in * np.mean(scaled**2) * np.mean(VALUE**2), np.mean(VALUE**2)


# Signals through a random network


def mean_square(f, q):
    """Return the mean of f(sqrt(q) t)**2 for a standard normal t."""
    density = lambda t: np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)  # noqa: E731
    return scipy.integrate.quad(
        lambda t: f(np.sqrt(q) * t) ** 2 * density(t), -12, 12, epsabs=1e-13, epsrel=1e-12
    )[0]


def tanh_slope(z):
    return complex_step(np.tanh, z)


N = (30, 40, 20, 50)  # widths


def propagated():
    """Return the weights of a random network, and what was predicted of it."""
    weights = [None]

    def init(rng, shape):
        weights.append(rng.normal(0, 1.3 / np.sqrt(shape[1]), size=shape))
        return weights[-1]

    rng = np.random.default_rng(0)
    result = propagation.signal_propagation(N, activation="tanh", init=init, rng=rng, samples=2)
    return weights, result


@equation(
    r"""q_1 = n_0 \, \overline{W_1^2}, \qquad
    q_{l+1} = n_l \, \overline{W_{l+1}^2} \int \phi(\sqrt{q_l}\, t)^2 \,
    \frac{e^{-t^2/2}}{\sqrt{2 \pi}} \, dt ."""
)
def the_predicted_moments_forward():
    W, result = propagated()
    q = [None, N[0] * np.mean(W[1] ** 2)]
    for l in range(1, 3):
        q.append(N[l] * np.mean(W[l + 1] ** 2) * mean_square(np.tanh, q[l]))
    yield q[1:], result.forward_predicted


@equation(
    r"""g_L = \int \phi'(\sqrt{q_L}\, t)^2 \, \frac{e^{-t^2/2}}{\sqrt{2 \pi}} \, dt , \qquad
    g_l = n_{l+1} \, \overline{W_{l+1}^2} \; g_{l+1}
    \int \phi'(\sqrt{q_l}\, t)^2 \, \frac{e^{-t^2/2}}{\sqrt{2 \pi}} \, dt ."""
)
def the_predicted_moments_back():
    W, result = propagated()
    q = [None, *result.forward_predicted]
    g = [None, None, None, mean_square(tanh_slope, q[3])]  # behind it the gradient is standard
    for l in (2, 1):
        g[l] = N[l + 1] * np.mean(W[l + 1] ** 2) * g[l + 1] * mean_square(tanh_slope, q[l])
    yield g[1:], result.backward_predicted


BIAS_DEVIATION = 0.3


def critical_variance():
    """Return the fixed point of the variances where slopes keep gradients."""
    residual = lambda q: (  # noqa: E731
        mean_square(np.tanh, q) / mean_square(tanh_slope, q) + BIAS_DEVIATION**2 - q
    )
    return scipy.optimize.brentq(residual, 1e-3, 50, xtol=1e-14, rtol=1e-14)


@equation(
    r"""q \leftarrow \sigma_w^2 \, \E \phi(\sqrt q\, t)^2 + \sigma_b^2, \qquad
    \chi = \sigma_w^2 \, \E \phi'(\sqrt q\, t)^2 ,""",
    rtol=1e-8,
)
def the_critical_gain():
    sigma_w = propagation.critical_gain("tanh", bias_deviation=BIAS_DEVIATION)
    q = 1.0
    for _ in range(400):
        q = sigma_w**2 * mean_square(np.tanh, q) + BIAS_DEVIATION**2
    chi = sigma_w**2 * mean_square(tanh_slope, q)
    yield chi, 1


def mean_product(f, q, c):
    """Return the mean of f at two normal variables of variance q and correlation c."""
    t, weights = np.polynomial.hermite_e.hermegauss(60)
    one, other = np.sqrt(q) * t[:, None], np.sqrt(q) * (c * t[:, None] + np.sqrt(1 - c**2) * t)
    return np.sum(weights[:, None] * weights * f(one) * f(other)) / (2 * np.pi)


@functools.cache
def fixed_point():
    """Return a variance of weights, and the variance of pre-activations it leads to with tanh."""
    sigma_w2, q = 1.4, 1.0
    for _ in range(200):
        q = sigma_w2 * mean_square(np.tanh, q) + BIAS_DEVIATION**2
    return sigma_w2, q


def correlation(c):
    """Return the next layer's correlation for tanh, and the fixed point."""
    sigma_w2, q = fixed_point()
    return (sigma_w2 * mean_product(np.tanh, q, c) + BIAS_DEVIATION**2) / q, sigma_w2, q


@equation(
    r"""C(c) = \frac{1}{q^*} \Bigl( \sigma_w^2 \, \E \bigl[ \phi(\sqrt{q^*}\, s) \,
    \phi\bigl(\sqrt{q^*}\, (c\, s + \sqrt{1 - c^2}\, t)\bigr) \bigr] + \sigma_b^2 \Bigr),
    \qquad C(1) = 1 .""",
    rtol=5e-3,
)
def correlation_of_the_next_layer():
    value, sigma_w2, q = correlation(0.6)
    s, t = np.random.default_rng(0).normal(size=(2, 400_000))  # the units of a wide layer
    one, other = np.tanh(np.sqrt(q) * s), np.tanh(np.sqrt(q) * (0.6 * s + 0.8 * t))
    covariance = sigma_w2 * np.mean(one * other) + BIAS_DEVIATION**2  # mean over weights and biases
    variance = sigma_w2 * np.mean(one**2) + BIAS_DEVIATION**2
    yield covariance / variance, value
    yield correlation(1.0)[0], 1.0


@equation(
    r"""C'(c) = \sigma_w^2 \, \E \bigl[ \phi'(\sqrt{q^*}\, s) \,
    \phi'\bigl(\sqrt{q^*}\, (c\, s + \sqrt{1 - c^2}\, t)\bigr) \bigr], \qquad
    C'(1) = \sigma_w^2 \, \E \phi'(\sqrt{q^*}\, s)^2 = \chi ,""",
    rtol=1e-6,
)
def slope_of_the_correlation():
    h = 1e-4
    for c in (0.2, 0.6, 0.9):
        _, sigma_w2, q = correlation(c)
        slope = (correlation(c + h)[0] - correlation(c - h)[0]) / (2 * h)
        yield slope, sigma_w2 * mean_product(tanh_slope, q, c)
    yield sigma_w2 * mean_product(tanh_slope, q, 1.0), sigma_w2 * mean_square(tanh_slope, q)


@equation(r"\frac{\E \phi(\sqrt q\, t)^2}{\E \phi'(\sqrt q\, t)^2} + \sigma_b^2 = q,")
def the_fixed_point_of_the_critical_gain():
    q = critical_variance()
    gain = 1 / np.sqrt(mean_square(tanh_slope, q))
    yield gain, propagation.critical_gain("tanh", bias_deviation=BIAS_DEVIATION)
