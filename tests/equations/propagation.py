"""The displayed equations of dlref.propagation."""

import functools
import itertools

import numpy as np
import scipy.integrate
import scipy.optimize
from equations.evaluate import From, Of, Random, normal
from equations.ledger import equation, reads
from equations.numeric import complex_step

from dlref import propagation

# Gradients through depth


@reads(r"\dv{h_L}{h_0} = \prod_{l=1}^{L} \phi'(w h_{l-1}) \, w,")
def derivative_through_depth():
    w, L = 1.3, 6

    def values(first):
        h = [first]
        for _ in range(L):
            h.append(np.tanh(w * h[-1]))
        return From(0, h)

    return {"h_0": 0.4, "h": Of(values, "h_0"), "w": w, "L": L, r"\phi": np.tanh}


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
    turn = np.multiply(1.5, np.linalg.qr(weight)[0])
    yield both_sides(turn, np.full((4, 3), 0.7), 0.7)  # which reaches the bound


# Variances of weights, in exact means over distributions of a few equally likely values

WEIGHT = np.array([-1.0, -0.5, 1.5])  # mean 0
VARIANCE = np.mean(WEIGHT**2)
VALUE = np.array([0.3, 1.7, -0.9])  # any mean
SYMMETRIC = np.array([-1.5, -0.5, 0.5, 1.5])


FACTORS = ["w_1", "w_2", "w_3", "h_1", "h_2", "h_3"]


def of_factors(values, weight=WEIGHT):
    """Return weights and values, independent of each other, as random names."""
    drawn = dict.fromkeys(FACTORS[:3], weight) | dict.fromkeys(FACTORS[3:], values)
    return [Random(np.ones(len(v)), **{name: v}) for name, v in drawn.items()]


def mean_square_sum(weight, values):
    """Return the mean square of a sum of products of independent factors."""
    n = len(values)
    draws = itertools.product(*[weight] * n, *values)
    return np.mean([np.dot(draw[:n], draw[n:]) ** 2 for draw in draws])


@reads(r"""\E z_i^2 = \sum_j \E W_{ij}^2 \, \E h_j^2 = n_{in} \operatorname{Var} W \; \E h^2 .""")
def second_moment_of_a_weighted_sum():
    z = Of(lambda *a: np.dot(a[:3], a[3:]), *FACTORS)
    pairs = (
        Random([1, 1, 1], **{"W": WEIGHT, "W_{ij}": WEIGHT}),
        Random([1, 1, 1], h=VALUE, h_j=VALUE),
    )
    names = dict.fromkeys([*FACTORS, "W", "h", "W_{ij}", "h_j"], 0.0)
    drawn = {r"\E": [*of_factors(VALUE), *pairs], "z_i": z}
    return {**names, **drawn, "n_{in}": 3, "j": range(3)}


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


@reads(r"\E z_l^2 = n_{in} \operatorname{Var} W \; \E \phi(z_{l-1})^2…")
def second_moment_behind_a_rectifier():
    def phi(z, a=0.3):
        return np.where(np.real(z) > 0, z, a * z)[()]

    z = Of(lambda *x: np.dot(x[:3], [phi(h) for h in x[3:]]), *FACTORS)
    pairs = Random([1, 1, 1], W=WEIGHT), Random([1, 1, 1, 1], **{"z_{l-1}": SYMMETRIC})
    drawn = {r"\E": [*of_factors(SYMMETRIC), *pairs], "z_l": z}
    names = dict.fromkeys([*FACTORS, "W", "z_{l-1}"], 0.0)
    return {**names, **drawn, "n_{in}": 3, "a": 0.3, r"\phi": phi}


# Initializations, each against a large draw

N_OUT, N_IN, GAIN, SLOPE = 500, 1000, 1.7, 0.3


def drawn(init, **options):
    return init(np.random.default_rng(0), (N_OUT, N_IN), **options)


def deviation(_, variance):
    """Return the deviation of a normal distribution."""
    return np.sqrt(variance)


def of_weights(weights):
    """Return the environment of weights: their quantiles, and what their distribution is."""
    some = np.quantile(weights, (np.arange(400) + 0.5) / 400)
    drawn = {r"\E": [Random(np.ones(400), W=some)], "W": np.std(weights), "N": deviation}
    kurtosis = np.mean(weights**4) / np.mean(weights**2) ** 2
    assert "U" in drawn or kurtosis < 3.05
    return drawn


@reads(r"\operatorname{Var} W = \frac{2 g^2}{n_{in} + n_{out}}, \qquad W \sim U(-a, a)…", rtol=0.01)
def the_glorot_uniform_weights():
    weights = drawn(propagation.glorot_uniform, gain=GAIN)
    np.testing.assert_allclose(np.mean(weights**4) / np.mean(weights**2) ** 2, 9 / 5, rtol=1e-2)
    given = {"g": GAIN, "n_{in}": N_IN, "n_{out}": N_OUT}
    return {**given, **of_weights(weights), "U": lambda low, high: (high - low) / np.sqrt(12)}


@reads(r"W \sim N \Bigl( 0, \; \frac{2 g^2}{n_{in} + n_{out}} \Bigr)", rtol=0.01)
def the_glorot_normal_weights():
    weights = drawn(propagation.glorot_normal, gain=GAIN)
    return {**of_weights(weights), "g": GAIN, "n_{in}": N_IN, "n_{out}": N_OUT}


@reads(r"\operatorname{Var} W = \frac{2}{(1 + a^2) \, n_{in}} .", rtol=0.01)
def variance_that_keeps_moments_behind_a_rectifier():
    weights = drawn(propagation.he_uniform, negative_slope=SLOPE)
    scaled = WEIGHT * np.sqrt(np.var(weights) * N_IN / 3 / VARIANCE)
    phi = np.where(SYMMETRIC > 0, SYMMETRIC, SLOPE * SYMMETRIC)
    kept = mean_square_sum(scaled, [phi] * 3) / np.mean(SYMMETRIC**2)
    np.testing.assert_allclose(kept, 1, rtol=1e-2)
    return {**of_weights(weights), "a": SLOPE, "n_{in}": N_IN}


@reads(r"W \sim N \Bigl( 0, \; \frac{2}{(1 + a^2) \, n_{in}} \Bigr)", rtol=0.01)
def the_he_normal_weights():
    return {
        **of_weights(drawn(propagation.he_normal, negative_slope=SLOPE)),
        "a": SLOPE,
        "n_{in}": N_IN,
    }


@reads(r"W \sim N \Bigl( 0, \; \frac{1}{n_{in}} \Bigr), \qquad \E z^2…", rtol=0.01)
def the_lecun_normal_weights():
    weights = drawn(propagation.lecun_normal)
    few = WEIGHT * np.sqrt(np.var(weights) * N_IN / 3 / VARIANCE)  # of 3 inputs, with few values
    z = Of(lambda *a: np.dot(a[:3], a[3:]), *FACTORS)
    pairs = Random([1, 1, 1], W=few), Random([1, 1, 1], h=VALUE)
    drawn_few = {r"\E": [*of_factors(VALUE, few), *pairs], "z": z, "W": np.std(few), "h": 0.0}
    return {**dict.fromkeys(FACTORS, 0.0), **drawn_few, "N": deviation, "n_{in}": 3}


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


@reads(r"q_1 = n_0 \, \overline{W_1^2}, \qquad q_{l+1}…")
def the_predicted_moments_forward():
    W, result = propagated()
    weights = {"W": lambda l: W[l].ravel(), "n": N, "l": range(1, 3)}
    return {**weights, "q": From(1, result.forward_predicted), r"\phi": np.tanh}


@reads(r"g_L = \int \phi'(\sqrt{q_L}\, t)^2 \, \frac{e^{-t^2/2}}{\sqrt{2 \pi}} \, dt , \qquad g_l…")
def the_predicted_moments_back():
    W, result = propagated()
    weights = {"W": lambda l: W[l].ravel(), "n": N, "l": range(1, 3), "L": 3, r"\phi": np.tanh}
    moments = {"q": From(1, result.forward_predicted), "g": From(1, result.backward_predicted)}
    return {**weights, **moments}


BIAS_DEVIATION = 0.3
GAUSSIAN = {r"\E": [normal("t", 60), normal("s", 60)], "t": 0.0, "s": 0.0, r"\phi": np.tanh}


def critical_variance():
    """Return the fixed point of the variances where slopes keep gradients."""
    residual = lambda q: (  # noqa: E731
        mean_square(np.tanh, q) / mean_square(tanh_slope, q) + BIAS_DEVIATION**2 - q
    )
    return scipy.optimize.brentq(residual, 1e-3, 50, xtol=1e-14, rtol=1e-14)


@reads(r"q \leftarrow \sigma_w^2 \, \E \phi(\sqrt q\, t)^2 + \sigma_b^2, \qquad \chi…", rtol=1e-06)
def the_critical_gain():
    sigma_w = propagation.critical_gain("tanh", bias_deviation=BIAS_DEVIATION)
    q = critical_variance()
    rates = {r"\sigma_w": sigma_w, r"\sigma_b": BIAS_DEVIATION, r"\chi": 1.0}
    return {**rates, "q": q, "q'": q, **GAUSSIAN}


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


@reads(r"C(c) = \frac{1}{q^*} \Bigl( \sigma_w^2 \, \E \bigl[…", rtol=0.01, atol=0.005)
def correlation_of_the_next_layer():
    sigma_w2, q = fixed_point()
    s, t = np.random.default_rng(0).normal(size=(2, 400_000))  # the units of a wide layer

    def measured(c):
        one, other = (np.tanh(np.sqrt(q) * z) for z in (s, c * s + np.sqrt(1 - c**2) * t))
        variance, bias = sigma_w2 * np.mean(one**2), BIAS_DEVIATION**2
        return (sigma_w2 * np.mean(one * other) + bias) / (variance + bias)

    rates = {r"\sigma_w": np.sqrt(sigma_w2), r"\sigma_b": BIAS_DEVIATION, "q^*": q}
    return [{**rates, "C": measured, "c": c, **GAUSSIAN} for c in (0.6, -0.3)]


@reads(r"C'(c) = \sigma_w^2 \, \E \bigl[ \phi'(\sqrt{q^*}\, s) \,…", rtol=1e-06)
def slope_of_the_correlation():
    sigma_w2, q = fixed_point()

    def slope(c, h=1e-4):
        """Return a difference of second order, on one side of 1."""
        at = [correlation(c - k * h)[0] for k in ((0, 1, 2) if c == 1 else (-1, 0, 1))]
        return np.dot(at, (1.5, -2, 0.5) if c == 1 else (0.5, 0, -0.5)) / h

    rates = {r"\sigma_w": np.sqrt(sigma_w2), r"\sigma_b": BIAS_DEVIATION, "q^*": q}
    rates |= {r"\chi": sigma_w2 * mean_square(tanh_slope, q), "C'": slope}
    return [{**rates, "c": c, **GAUSSIAN} for c in (0.2, 0.6)]


@reads(r"\frac{\E \phi(\sqrt q\, t)^2}{\E \phi'(\sqrt q\, t)^2} + \sigma_b^2 = q,", rtol=1e-6)
def the_fixed_point_of_the_critical_gain():
    sigma_w = propagation.critical_gain("tanh", bias_deviation=BIAS_DEVIATION)
    q = 1.0
    for _ in range(400):
        q = sigma_w**2 * mean_square(np.tanh, q) + BIAS_DEVIATION**2
    return {"q": q, r"\sigma_b": BIAS_DEVIATION, **GAUSSIAN}
