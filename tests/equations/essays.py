"""The displayed equations of the essays."""

import functools
import itertools
import math

import numpy as np
import scipy.integrate
import scipy.optimize
import scipy.stats
from equations.evaluate import From, Of, Random, normal
from equations.ledger import equation, reads
from equations.numeric import complex_step, hessian_of, jacobian_of

from dlref import attention, formulas, training
from dlref.formulas.activations import sigmoid, softmax
from dlref.neurons import LinearParams
from dlref.positions import rope_matrix
from dlref.transformer import LanguageModelConfig


def layers():
    """Return three weights, the states of a network of tanh units, and its Jacobians."""
    w = np.random.default_rng(3).normal(size=(3, 4, 4))
    states = [np.array([0.3, -1.2, 0.7, 0.1])]
    for matrix in w:
        states.append(np.tanh(matrix @ states[-1]))
    pairs = zip(w, states[:-1], strict=True)
    return w, states, [jacobian_of(lambda h, m=m: np.tanh(m @ h), h) for m, h in pairs]


def loss_of_the_first(w):
    def loss(h):
        for matrix in w:
            h = np.tanh(matrix @ h)
        return h[0] ** 2 - 3.0 * h[1] * h[2]

    return loss


def gradient_of_the_last(h):
    return np.array([2.0 * h[0], -3.0 * h[2], -3.0 * h[1], 0.0])


@equation(
    r"""\pdv{L}{\vec h_0} = \mat J_1^\top \mat J_2^\top \cdots \mat J_n^\top
    \pdv{L}{\vec h_n} ."""
)
def a_product_of_jacobians():
    w, h, (J1, J2, J3) = layers()
    product = J1.T @ J2.T @ J3.T @ gradient_of_the_last(h[3])
    yield jacobian_of(loss_of_the_first(w), h[0]), product


@equation(
    r"""\norm{\pdv{L}{\vec h_0}} \le \sigma_1(\mat J_1)\, \sigma_1(\mat J_2) \cdots
    \sigma_1(\mat J_n) \norm{\pdv{L}{\vec h_n}} ."""
)
def a_product_of_norms():
    rng = np.random.default_rng(5)

    def both_sides(J, u):
        top = np.prod([np.linalg.svd(m, compute_uv=False)[0] for m in J])
        return np.linalg.norm(J[0].T @ J[1].T @ J[2].T @ u), top * np.linalg.norm(u)

    for _ in range(20):
        J, u = rng.normal(size=(3, 4, 4)), rng.normal(size=4)
        size, bound = both_sides(J, u)
        yield size <= bound, True
    symmetric = J[0].T @ J[0]  # attained by its first eigenvector
    yield both_sides([symmetric] * 3, np.linalg.eigh(symmetric)[1][:, -1])


@reads(r"\E z_i^2 = \sum_{j=1}^{n} \E W_{ij}^2\, \E h_j^2 = n\, v\, \E h^2 ,", rtol=0.05)
def mean_square_of_a_pre_activation():
    factors = {
        **{f"w_{j}": [-0.7, 0.7] for j in (1, 2, 3)},
        **{f"g_{j}": [0.0, 2.0] for j in (1, 2, 3)},
    }
    drawn = [Random([1, 1], **{name: values}) for name, values in factors.items()]
    same = Random([1, 1], **{"W_{ij}": [-0.7, 0.7]}), Random([1, 1], h=[0.0, 2.0], h_j=[0.0, 2.0])
    names = dict.fromkeys([*factors, "W_{ij}", "h_j", "h"], 0.0)
    z = Of(lambda *a: np.dot(a[:3], a[3:]), *factors)
    return {**names, "z_i": z, r"\E": [*drawn, *same], "n": 3, "v": 0.49, "j": range(1, 4)}


@reads(r"(\mat I + \mat F_2)(\mat I + \mat F_1)…")
def four_paths():
    F = np.random.default_rng(7).normal(size=(2, 3, 3))
    return {r"\mat I": np.eye(3), "F_1": F[0], "F_2": F[1]}


@reads(r"\vec c_t = \vec f_t \odot \vec c_{t-1} + \vec i_t \odot \vec g_t ,")
def the_cell_adds():
    b, c = np.random.default_rng(2).normal(size=(4, 3)), np.random.default_rng(3).normal(size=3)
    zero, none = np.zeros((12, 3)), np.zeros(3)
    _, new = formulas.recurrent.lstm_cell(none, none, c, zero, zero, b.ravel())
    i, f = sigmoid(b[:2])
    return {"i_t": i, "f_t": f, "g_t": np.tanh(b[2]), "c_{t-1}": c, "c_t": new}


@reads(r"\operatorname{clip}(\vec g) = \vec g\, \min \Bigl( 1, \frac{c}{\norm{\vec g}} \Bigr) .")
def clipping():
    g = np.array([1.0, -2.0, 2.0])  # of norm 3
    f = formulas.training.clip_by_norm
    return [{"g": g, "c": c, "clip": functools.partial(f, max_norm=c)} for c in (0.5, 2.0, 5.0)]


@reads(r"\mat M = \sum_{j=1}^{S} \vec v_j \vec k_j^\top , \qquad \mat M \vec q…")
def a_memory_of_fixed_size():
    rng, S = np.random.default_rng(4), 5
    k, v, q = rng.normal(size=(S, 3)), rng.normal(size=(S, 2)), rng.normal(size=3)
    options = {"feature_map": "identity", "normalize": False}
    np.testing.assert_allclose(attention.linear_attention(q[None], k, v, **options)[0], v.T @ k @ q)
    return {"k": From(1, k), "v": From(1, v), "q": q, "S": S}


def one_query():
    """Return a query, keys, values, an upstream gradient, and the weights."""
    rng = np.random.default_rng(6)
    q, k, v = rng.normal(size=4), rng.normal(size=(5, 4)), rng.normal(size=(5, 3))
    p = np.exp(k @ q / 2.0)
    return q, k, v, rng.normal(size=3), p / np.sum(p)


@reads(r"\vec o = \sum_{j=1}^{S} p_j \vec v_j .")
def a_weighted_mean():
    q, k, v, _, p = one_query()
    return {
        "p": From(1, p),
        "v": From(1, v),
        "S": 5,
        "o": formulas.attention.attention(q[None], k, v)[0],
    }


@reads(r"\operatorname{Var}(\vec q \cdot \vec k)…", rtol=0.02)
def variance_of_a_dot_product():
    names = ["q_1", "q_2", "k_1", "k_2"]
    drawn = [Random([1, 1], **{name: [-1.0, 1.0]}) for name in names]
    one = [Random([1, 1], **{name: [-1.0, 1.0]}) for name in ("q_e", "k_e")]
    vectors = {
        "q": Of(lambda *q: np.array(q), *names[:2]),
        "k": Of(lambda *k: np.array(k), *names[2:]),
    }
    zeros = dict.fromkeys([*names, "q_e", "k_e"], 0.0)
    return {**zeros, **vectors, r"\E": [*drawn, *one], "E": 2}


@reads(r"\pdv{L}{s_j} = p_j\, \vec u \cdot (\vec v_j - \vec o) ,")
def gradient_of_the_scores():
    q, k, v, u, p = one_query()
    s, o = k @ q / 2.0, Of(lambda s: softmax(s) @ v, "s")
    return {"s": s, "p": p, "v": v, "u": u, "o": o, "L": Of(lambda o: u @ o, "o")}


@reads(
    r"(\mat R_m \vec q) \cdot (\mat R_n \vec k) = \vec q \cdot (\mat R_{n-m} \vec k) .",
    r"(\mat R_m \vec q) \cdot (\mat R_n \vec k) = \vec q^\top \mat R_m^\top \mat R_n \vec k…",
)
def the_distance_alone():
    q, k, *_ = one_query()
    frequencies = np.array([1.0, 0.3])
    return [
        {
            "q": q,
            "k": k[0],
            "R_m": rope_matrix(m, frequencies),
            "R_n": rope_matrix(n, frequencies),
            "R_{n-m}": rope_matrix(n - m, frequencies),
        }
        for m, n in ((2, 5), (7, 3))
    ]


@reads(r"N = 2\, L\, H_k\, E\, T ,")
def numbers_in_the_cache():
    config = LanguageModelConfig(50, 24, 6, 2, num_layers=3)
    T, L, H_k, E = 7, config.num_layers, config.num_kv_heads, config.d_model // config.num_heads
    cache = attention.KVCache.empty((), H_k, E)
    keys, values = cache.append(np.zeros((H_k, T, E)), np.zeros((H_k, T, E)))
    return {"N": L * (keys.size + values.size), "L": L, "H_k": H_k, "E": E, "T": T}


@reads(r"\mat O = \operatorname{softmax} \Bigl( \frac{\mat Q \mat K^\top}{\sqrt E} + \mat B…")
def attention_as_a_whole():
    Q, K, V = np.random.default_rng(8).normal(size=(3, 5, 4))
    B = np.where(np.tri(5, dtype=bool), 0.0, -np.inf)
    o = attention.scaled_dot_product_attention(Q, K, V, bias=B)
    return {"Q": Q, "K": K, "V": V, "B": B, "E": 4, "O": o}


CURVATURES = np.array([0.1, 0.4, 1.0])


@reads(r"L = \frac{1}{2} \sum_{i=1}^{n} \lambda_i \theta_i^2 , \qquad \pdv{L}{\theta_i}…")
def a_quadratic_loss():
    turned, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    hessian = turned @ np.diag(CURVATURES) @ turned.T

    def loss(theta):  # about axes that are turned
        x = turned @ theta
        return 0.5 * x @ hessian @ x

    theta = From(1, turned.T @ np.array([0.3, -1.2, 0.7]))
    return {r"\theta": theta, r"\lambda": From(1, CURVATURES), "n": 3, "L": Of(loss, r"\theta")}


@reads(r"\theta_{t+1} = \theta_t - \eta \lambda \theta_t = (1 - \eta \lambda)\, \theta_t ,")
def a_step_in_one_direction():
    theta, eta, lam = 0.7, 0.15, 4.0
    new, _ = formulas.training.sgd_step(theta, lam * theta, None, learning_rate=eta)
    return {r"\theta_t": theta, r"\theta_{t+1}": new, r"\eta": eta, r"\lambda": lam}


@reads(r"\eta = \frac{2}{\lambda_{\min} + \lambda_{\max}} , \qquad 1 - \eta \lambda_{\min}…")
def the_best_rate_of_descent():
    low, high = CURVATURES[[0, -1]]
    worst = lambda eta: np.max(np.abs(1 - eta * CURVATURES))  # noqa: E731
    found = scipy.optimize.minimize_scalar(worst, (0.5, 2.5), method="golden", tol=1e-12)
    np.testing.assert_allclose(found.fun, (high / low - 1) / (high / low + 1), rtol=1e-6)
    return {r"\lambda_{\min}": low, r"\lambda_{\max}": high, r"\eta": found.x}


@reads(r"L = \frac{1}{2} (ab - 1)^2 , \qquad \pdv{L}{a} = (ab - 1)\, b , \qquad \pdv{L}{b}…")
def two_weights_in_a_row():
    loss = Of(
        lambda a, b: 0.5 * (formulas.neurons.linear(np.stack([a]), np.stack([[b]]))[0] - 1) ** 2,
        "a",
        "b",
    )
    return {"a": 1.5, "b": -0.4, "L": loss}


def three_steps(step, eta, lam, mu):
    """Return three parameters in a row of an optimizer with momentum."""
    theta, state, out = 0.7, None, []
    for _ in range(3):
        theta, state = step(theta, lam * theta, state, learning_rate=eta, momentum=mu)
        out.append(theta)
    rates = {r"\eta": eta, r"\lambda": lam, r"\mu": mu}
    return rates | dict(zip((r"\theta_{t-1}", r"\theta_t", r"\theta_{t+1}"), out, strict=True))


@reads(r"\theta_{t+1} = (1 + \mu - \eta \lambda)\, \theta_t - \mu\, \theta_{t-1} ,")
def two_terms_of_the_heavy_ball():
    return three_steps(formulas.training.momentum_step, 0.15, 4.0, 0.6)


@reads(r"\theta_{t+1} = (1 - \eta \lambda) \bigl( (1 + \mu)\, \theta_t - \mu\, \theta_{t-1}…")
def two_terms_of_nesterov():
    return three_steps(formulas.training.nesterov_step, 0.15, 4.0, 0.6)


def step_of_the_heavy_ball(eta_lam, mu):
    """Return the matrix that a step multiplies (θ, velocity) by, at the learning rate 1."""
    return np.array([[1 - eta_lam, -mu], [eta_lam, mu]])


@reads(r"z^2 - (1 + \mu - \eta \lambda)\, z + \mu = 0 .")
def roots_of_the_heavy_ball():
    rows = []
    for eta_lam, mu in ((0.3, 0.81), (1.7, 0.2), (2.5, 0.5)):
        rates = {r"\eta": eta_lam, r"\lambda": 1.0, r"\mu": mu}
        rows += [{**rates, "z": z} for z in np.linalg.eigvals(step_of_the_heavy_ball(eta_lam, mu))]
    return rows


@equation(r"(1 - \sqrt{\mu})^2 \le \eta \lambda \le (1 + \sqrt{\mu})^2 .")
def where_the_roots_are_complex():
    mu = 0.36
    low, high = (1 - np.sqrt(mu)) ** 2, (1 + np.sqrt(mu)) ** 2
    for eta_lam in np.arange(0.005, 3.0, 0.01):  # beside the ends, where a root is double
        size = np.max(np.abs(np.linalg.eigvals(step_of_the_heavy_ball(eta_lam, mu))))
        if low <= eta_lam <= high:
            yield size, np.sqrt(mu)
        else:
            yield size > np.sqrt(mu) + 1e-6, True


@reads(r"\sqrt{\mu} = \frac{\sqrt{\kappa} - 1}{\sqrt{\kappa} + 1} , \qquad \eta…")
def the_best_rate_of_the_heavy_ball():
    low, high = CURVATURES[[0, -1]]

    def worst(rates):
        steps = [step_of_the_heavy_ball(rates[0] * lam, rates[1]) for lam in CURVATURES]
        return np.max(np.abs(np.linalg.eigvals(steps)))

    root = (np.sqrt(high / low) - 1) / (np.sqrt(high / low) + 1)
    eta = (1 + root) ** 2 / high  # where the steepest direction is critically damped
    assert all(
        worst((e, m)) > root - 1e-6
        for e in np.linspace(0.05, 3, 60)
        for m in np.linspace(0, 0.95, 39)
    )
    np.testing.assert_allclose(worst((eta, root**2)), root, atol=1e-6)
    curvatures = {r"\lambda_{\min}": low, r"\lambda_{\max}": high, r"\kappa": high / low}
    return {**curvatures, r"\eta": eta, r"\mu": root**2}


@reads(r"z^2 - 2 (1 - s)\, z + (1 - s)^2 = \bigl( z - (1 - s) \bigr)^2 .")
def a_double_root_of_nesterov():
    lam, s = CURVATURES / CURVATURES[-1], np.sqrt(CURVATURES[0] / CURVATURES[-1])
    mu = (1 - s) / (1 + s)
    for z in (0.3, -1.2, 2.0):  # the polynomial of the recurrence in the flattest direction
        left = z**2 - (1 - lam[0]) * (1 + mu) * z + (1 - lam[0]) * mu
        np.testing.assert_allclose(left, (z - 1 + s) ** 2, atol=1e-14)
    for q in 1 - np.linspace(lam[0], 1, 50):
        assert np.max(np.abs(np.roots([1, -q * (1 + mu), q * mu]))) <= 1 - s + 1e-7
    return [{"z": z, "s": s} for z in (0.3, -1.2, 2.0)]


@reads(r"\E \theta_{t+1}^2 = (1 - \eta \lambda)^2\, \E \theta_t^2 + \eta^2 \sigma^2 ,", rtol=0.02)
def a_step_under_noise():
    def after(theta, noise):
        gradient = 1.5 * theta + noise
        return formulas.training.sgd_step(theta, gradient, None, learning_rate=0.3)[0]

    drawn = Random([1, 1, 1], **{r"\theta_t": [-1.0, 0.5, 2.0]}), Random([1, 1], x=[-2.0, 2.0])
    moved = {r"\theta_{t+1}": Of(after, r"\theta_t", "x"), r"\theta_t": 0.0, "x": 0.0}
    return {**moved, r"\E": [*drawn], r"\eta": 0.3, r"\lambda": 1.5, r"\sigma": 2.0}


@reads(r"\E \theta_\infty^2 = \frac{\eta^2 \sigma^2}{1 - (1 - \eta \lambda)^2}…", rtol=0.02)
def the_noise_ball():
    rng, eta, lam, sigma = np.random.default_rng(4), 0.3, 1.5, 2.0
    theta = np.zeros(200_000)
    for _ in range(40):
        noise = sigma * rng.normal(size=theta.size)
        theta, _ = formulas.training.sgd_step(theta, lam * theta + noise, None, learning_rate=eta)
    some = np.quantile(theta, (np.arange(500) + 0.5) / 500)
    drawn = {r"\E": [Random(np.ones(500), **{r"\theta_\infty": some})], r"\theta_\infty": 0.0}
    return {**drawn, r"\eta": eta, r"\lambda": lam, r"\sigma": sigma}


# == curvature


def network(theta, x):
    """Return the logits of two layers, whose weights stand in one vector."""
    first, second = theta[:6].reshape(3, 2), theta[6:].reshape(3, 3)
    return second @ np.tanh(first @ x)


def a_small_network():
    rng = np.random.default_rng(11)
    return rng.normal(size=15) / 2, np.array([0.4, -1.1]), rng.normal(size=15)


def cost(z, label):
    return np.log(np.sum(np.exp(z))) - z[label]


@equation(r"\mat H \vec v = \dv{}{t} \nabla L(\theta + t \vec v) \Big|_{t = 0} .")
def a_hessian_times_a_direction():
    theta, x, v = a_small_network()

    def layers(theta):
        weights = theta[:6].reshape(3, 2), theta[6:].reshape(3, 3)
        return tuple(LinearParams(weight) for weight in weights)

    def gradient(theta):
        found = formulas.training.mlp_loss_grad(
            x[None], np.array([1]), layers(theta), activation="tanh"
        )
        return np.concatenate([layer.weight.ravel() for layer in found])

    product = training.mlp_loss_hvp(x[None], [1], layers(theta), layers(v), activation="tanh")
    yield (
        hessian_of(lambda theta: cost(network(theta, x), 1), theta) @ v,
        complex_step(lambda t: gradient(theta + t * v), 0.0),
        np.concatenate([layer.weight.ravel() for layer in product]),
    )


@reads(r"\mat H_z = \operatorname{diag}(\vec p) - \vec p\, \vec p^\top , \qquad \vec v^\top…")
def curvature_of_the_logits():
    z, v = np.array([0.3, -1.2, 0.7]), np.array([1.5, 0.2, -0.4])
    return {"H_z": hessian_of(lambda z: cost(z, 2), z), "p": softmax(z), "v": v}


@reads(
    r"\mat H = \mat J^\top \mat H_z\, \mat J + \sum_k (p_k - t_k)\, \mat C_k ,",
    r"\mat F = \mat J^\top \Bigl( \sum_k p_k\, (\vec p - \vec e_k) (\vec p - \vec e_k)^\top…",
    r"(\mat G + \rho\, \mat I)\, \vec d = -\vec g .",
    rtol=1e-9,
)
def curvature_of_a_network():
    theta, x, _ = a_small_network()
    z, J = network(theta, x), jacobian_of(lambda theta: network(theta, x), theta)
    p, one_hot = softmax(z), np.eye(3)
    grads = [jacobian_of(lambda theta, k=k: cost(network(theta, x), k), theta) for k in range(3)]
    H_z = hessian_of(lambda z: cost(z, 1), z)
    G = J.T @ H_z @ J
    values, vectors = np.linalg.eigh(G)
    return {
        "H": hessian_of(lambda theta: cost(network(theta, x), 1), theta),
        "C": [hessian_of(lambda theta, k=k: network(theta, x)[k], theta) for k in range(3)],
        "J": J, "H_z": H_z, "p": p, "t": one_hot[1], r"\vec{e}": one_hot,
        "F": sum(p[k] * np.outer(grads[k], grads[k]) for k in range(3)),
        "G": G, r"\rho": 0.3, "I": np.eye(15), "g": grads[1],
        "d": -vectors @ (vectors.T @ grads[1] / (values + 0.3)),
    }  # fmt: skip


@reads(
    r"\mat F_W = \E\bigl[ \vec h \vec h^\top \otimes \vec \delta \vec \delta^\top \bigr]…",
    r"(\mat A \otimes \mat B)^{-1} \operatorname{vec}(\mat D)…",
)
def kronecker_factors():
    rng = np.random.default_rng(12)
    h, delta = rng.normal(size=(3, 2)), rng.normal(size=(4, 3))  # independent: exact
    blocks = [np.kron(np.outer(a, a), np.outer(b, b)) for a in h for b in delta]
    return {
        r"\E": [Random(np.ones(3), h=h), Random(np.ones(4), **{r"\delta": delta})],
        "h": h[0], r"\delta": delta[0], "F_W": np.mean(blocks, axis=0),
        "A": np.mean([np.outer(a, a) for a in h], axis=0),
        "B": np.mean([np.outer(b, b) for b in delta], axis=0),
        "D": rng.normal(size=(3, 2)), "vec": lambda matrix: np.ravel(matrix, order="F"),
    }  # fmt: skip


# == gradients of expectations


@reads(
    r"J = \sum_x p_x f_x , \qquad \pdv{J}{\theta_k}…",
    r"\pdv{J}{\theta_k} = \sum_x p_x\, f_x \pdv{\ell_x}{\theta_k} .",
)
def gradient_of_a_mean():
    theta, f = np.array([0.3, -1.2, 0.7]), np.array([2.0, -1.0, 0.5])
    return {
        r"\theta": theta, "f": f, "p": Of(softmax, r"\theta"), r"\ell": Of(np.log, "p"),
        "J": Of(lambda p: p @ f, "p"),
    }  # fmt: skip


@reads(r"b = \frac{\sum_x p_x s_x^2\, f_x}{\sum_x p_x s_x^2} .", rtol=1e-6)
def the_best_baseline():
    p, f = np.array([0.2, 0.5, 0.3]), np.array([2.0, -1.0, 0.5])
    s = jacobian_of(lambda theta: np.log(softmax(theta)), np.log(p))[:, 0]

    def variance(b):
        estimate = (f - b) * s
        return p @ estimate**2 - (p @ estimate) ** 2

    found = scipy.optimize.minimize_scalar(variance, (-1.0, 2.0), method="brent", tol=1e-12)
    return {"p": p, "f": f, "s": s, "b": found.x}


@reads(r"\dv{}{\mu} \E f(\mu + \sigma z) = \E f'(\mu + \sigma z)…", rtol=1e-6)
def a_derivative_inside_the_mean():
    return {r"\mu": 0.7, r"\sigma": 0.8, "z": 0.0, "f": np.sin, r"\E": [normal("z")]}


@reads(r"\operatorname{Var}(2 x) = 4 , \qquad \operatorname{Var}(x^2 z)…")
def variances_of_both_estimates():
    z, chances = np.polynomial.hermite_e.hermegauss(20)
    return {r"\mu": 0.7, "z": 0.0, "x": 0.0, r"\E": [Random(chances, z=z, x=0.7 + z)]}


@reads(r"\pdv{J}{\theta} = \sigma'(\theta)\, \bigl( f(1) - f(0) \bigr) , \qquad G…")
def straight_through_a_choice():
    f, p = np.sin, sigmoid(0.7)
    slopes = [complex_step(f, y) * complex_step(sigmoid, 0.7) for y in (1.0, 0.0)]
    mean = Of(lambda t: sigmoid(t) * f(1.0) + (1 - sigmoid(t)) * f(0.0), r"\theta")
    return {
        r"\theta": 0.7, r"\sigma": sigmoid, "f": f, "p": p, "J": mean,
        "G": p * slopes[0] + (1 - p) * slopes[1],
    }  # fmt: skip


@equation(
    r"""\pdv{J}{\theta} = \E \Bigl[ \sum_{t=1}^T s_t \sum_{i=t}^T r_i \Bigr] , \qquad
    s_t = \pdv{}{\theta} \log p(a_t) ."""
)
def rewards_from_its_own_time_on():
    texts = [*itertools.product((0, 1), repeat=3)]

    def reward(text, i):
        return (1 + text[0]) * text[i] * (i + 1.5)

    def chance(theta, a):
        return sigmoid(theta) if a else 1 - sigmoid(theta)

    def mean(theta, of_text):
        return sum(np.prod([chance(theta, a) for a in text]) * of_text(text) for text in texts)

    def scores(text):
        return [complex_step(lambda theta, a=a: np.log(chance(theta, a)), 0.4) for a in text]

    yield (
        complex_step(lambda theta: mean(theta, lambda x: sum(reward(x, i) for i in range(3))), 0.4),
        mean(
            0.4,
            lambda text: sum(
                scores(text)[t] * sum(reward(text, i) for i in range(t, 3)) for t in range(3)
            ),
        ),
    )


@reads(
    r"m_x = \frac{1}{Z}\, q_x\, e^{r_x / \beta} , \qquad Z…",
    rtol=1e-5,
)
def the_best_policy():
    q, r, beta = np.array([0.5, 0.3, 0.2]), np.array([0.3, -1.0, 2.0]), 0.7

    def objective(z):
        p = softmax(z)
        return p @ (beta * np.log(p / q) - r)

    found = scipy.optimize.minimize(objective, np.log(q), tol=1e-14)
    Z = np.exp(-found.fun / beta)  # of the best objective, beta log Z
    return {"q": q, "r": r, r"\beta": beta, "e": math.e, "m": softmax(found.x), "Z": Z}


# == scores


def mixture(alpha, sigma):
    """Return the density of a noisy example, which is one of three numbers before."""
    x, q = np.array([-1.0, 0.4, 1.3]), np.array([0.5, 0.2, 0.3])

    def normal_of(mean):
        factor = 1 / (sigma * np.sqrt(2 * np.pi))
        return lambda y: factor * np.exp(-((y - alpha * mean) ** 2) / (2 * sigma**2))

    parts = [normal_of(mean) for mean in x]
    return x, q, parts, lambda y: sum(c * part(y) for c, part in zip(q, parts, strict=True))


@reads(
    r"\hat x = \frac{1}{\alpha} \bigl( y + \sigma^2\, \ell'(y) \bigr) .",
    r"\hat z = \frac{y - \alpha \hat x}{\sigma} = -\sigma\, \ell'(y) .",
)
def noisy(y=0.37, alpha=0.8, sigma=0.6):
    """Return the values of the symbols, with the best guess as the mean given y."""
    x, q, parts, p = mixture(alpha, sigma)
    weights = q * [part(y) for part in parts]
    guess = weights @ x / weights.sum()
    return {
        r"\alpha": alpha, r"\sigma": sigma, "x": x, "q": q, "y": y, "p": p, r"\hat{x}": guess,
        r"\hat{z}": weights @ (y - alpha * x) / sigma / weights.sum(), "e": math.e, r"\pi": math.pi,
        "n_x": lambda y: np.array([part(y) for part in parts]), r"\ell": lambda y: np.log(p(y)),
    }  # fmt: skip


@equation(r"y = \alpha x + \sigma z ,")
def a_noisy_example():
    x, z, alpha, sigma = np.array([0.7, 0.1]), np.array([0.3, -1.2]), 0.8, 0.6
    kinds = {"noise": z, "data": x, "velocity": alpha * z - sigma * x, "flow": z - x}
    for kind, want in kinds.items():
        yield formulas.training.diffusion_target(x, z, alpha, sigma, kind=kind), want
    y = alpha * x + sigma * z
    yield alpha * y - sigma * kinds["velocity"], x  # so the velocity tells the example


@equation(
    r"""p(y) = \sum_x q_x\, n_x(y) , \qquad
    n_x(y) = \frac{1}{\sigma \sqrt{2 \pi}}\, e^{-(y - \alpha x)^2 / (2 \sigma^2)} .""",
    r"""p'(y) = \sum_x q_x\, \frac{\alpha x - y}{\sigma^2}\, n_x(y)
    = \frac{\alpha \hat x - y}{\sigma^2}\, p(y) .""",
    rtol=1e-8,
)
def density_of_noisy_examples():
    y, alpha, sigma = 0.37, 0.8, 0.6
    x, q, _, p = mixture(alpha, sigma)
    n = np.array([scipy.stats.norm.pdf(y, alpha * mean, sigma) for mean in x])
    yield p(y), q @ n
    guess = noisy(y, alpha, sigma)[r"\hat{x}"]
    slope = sum(q * (alpha * x - y) / sigma**2 * n)
    yield complex_step(p, y), slope, (alpha * guess - y) / sigma**2 * p(y)


@reads(r"u = \alpha' \hat x + \sigma' \hat z = \frac{\alpha'}{\alpha}\, y…")
def the_mean_velocity():
    symbols = noisy()
    slopes = {r"\alpha'": -0.9, r"\sigma'": 1.7}
    u = -0.9 * symbols[r"\hat{x}"] + 1.7 * symbols[r"\hat{z}"]
    return {**symbols, **slopes, "u": u}


@equation(r"\pdv{p}{t} = - \pdv{}{y} \bigl( p\, u \bigr) .", rtol=1e-7)
def a_density_that_flows():
    alpha, sigma = np.cos, np.sin  # of the time

    def flux(y, t=0.8):
        symbols = noisy(y.real, alpha(t), sigma(t))
        u = -np.sin(t) * symbols[r"\hat{x}"] + np.cos(t) * symbols[r"\hat{z}"]
        return symbols["p"](y.real) * u

    density = lambda t: mixture(alpha(t), sigma(t))[3](0.37)  # noqa: E731
    h = 1e-5
    slope = (flux(np.float64(0.37 + h)) - flux(np.float64(0.37 - h))) / (2 * h)
    yield complex_step(density, 0.8), -slope


@reads(r"D = \frac12 \Bigl( \frac{\alpha_s^2}{\sigma_s^2} - \frac{\alpha_t^2}{\sigma_t^2}…")
def nats_of_a_step():
    a, s = np.array([0.9, 0.5]), np.array([0.3, 0.8])  # at the times s and t
    x, guess, y = 0.7, -0.2, 0.4
    ratio = a[1] / a[0]  # y_t = ratio y_s + noise of this variance
    added = s[1] ** 2 - ratio**2 * s[0] ** 2
    variance = 1 / (1 / s[0] ** 2 + ratio**2 / added)
    means = [variance * (a[0] * at / s[0] ** 2 + ratio * y / added) for at in (x, guess)]
    return {
        r"\alpha_s": a[0], r"\alpha_t": a[1], r"\sigma_s": s[0], r"\sigma_t": s[1],
        "x": x, r"\hat{x}": guess, "D": (means[0] - means[1]) ** 2 / (2 * variance),
    }  # fmt: skip


@reads(r"\ell_w'(y) = \ell'(y) + w\, \bigl( \ell_c'(y) - \ell'(y) \bigr) ,")
def a_guided_score():
    free, given, w = np.sin, np.cos, 2.5
    return {
        "y": 0.7, "w": w, r"\ell": free, r"\ell_c": given,
        r"\ell_w": lambda y: (1 - w) * free(y) + w * given(y),  # p^(1-w) p_c^w
    }  # fmt: skip


# == wide networks


def seen_from_two_directions(angle, count=2000):
    """Return a plane normal vector, by its direction, from two; lengths have the mean square 2."""
    directions = (np.arange(count) + 0.5) * 2 * np.pi / count
    u, v = np.sqrt(2) * np.cos(directions), np.sqrt(2) * np.cos(directions - angle)
    return Random(np.ones(count), u=u, v=v)


@reads(
    r"c_{l+1} = 2 \E \bigl( \max(u, 0) \max(v, 0) \bigr)…",
    r"\Theta_{l+1} = c_{l+1} + 2 \E \bigl( [u > 0]\, [v > 0] \bigr)\, \Theta_l…",
    rtol=1e-3,
)
def kernels_of_a_wide_layer():
    angle, rng = 1.1, np.random.default_rng(4)
    W = rng.normal(size=(400_000, 2))
    z, w = W @ [1.0, 0.0], W @ [np.cos(angle), np.sin(angle)]
    layer = 2 * np.mean(np.maximum(z, 0) * np.maximum(w, 0))  # of two million neurons
    slopes = 2 * np.mean((z > 0) * (w > 0))
    np.testing.assert_allclose(
        layer, (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi, rtol=0.01
    )
    np.testing.assert_allclose(slopes, 1 - angle / np.pi, rtol=0.01)
    new = (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi
    return {
        r"\E": [seen_from_two_directions(angle)], "u": 0.0, "v": 0.0, r"\vartheta": angle,
        "c_{l+1}": new, r"\Theta_l": 0.7, r"\Theta_{l+1}": new + (1 - angle / np.pi) * 0.7,
        r"\pi": math.pi,
    }  # fmt: skip


@equation(r"1 - c_l \approx \frac{9 \pi^2}{2 l^2} .", rtol=0.01)
def cosines_of_a_deep_network():
    c, layers = 0.5, 20_000
    for _ in range(layers):
        angle = np.arccos(c)
        c = (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi
    yield 1 - c, 9 * np.pi**2 / (2 * layers**2)


@equation(
    r"""\dv{}{t} f(x) = - \sum_i \Theta(x, x_i)\, \bigl( f(x_i) - y_i \bigr) , \qquad
    \Theta(x, y) = \pdv{f(x)}{\theta} \cdot \pdv{f(y)}{\theta} .""",
    r"e_k(t) = e^{-\mu_k t}\, e_k(0) .",
    rtol=1e-6,
)
def a_flow_of_functions():
    theta, x = np.array([0.3, -1.2, 0.7]), np.array([-1.0, 0.4, 1.5])
    targets = np.array([0.2, -0.5, 1.0])
    f = lambda theta, x: theta[0] * np.tanh(theta[1] * x) + theta[2]  # noqa: E731
    loss = lambda theta: 0.5 * np.sum((f(theta, x) - targets) ** 2)  # noqa: E731
    velocity = -jacobian_of(loss, theta)
    point = np.array([0.9])
    change = complex_step(lambda t: f(theta + t * velocity, point), 0.0)
    slopes = jacobian_of(lambda theta: f(theta, np.r_[x, point]), theta)
    kernel = slopes @ slopes.T
    yield change, -kernel[-1:, :-1] @ (f(theta, x) - targets)
    values, vectors = np.linalg.eigh(kernel[:-1, :-1])
    first = f(theta, x) - targets
    flow = scipy.integrate.solve_ivp(
        lambda _, e: -kernel[:-1, :-1] @ e, (0, 0.7), first, rtol=1e-10, atol=1e-12
    )
    yield vectors.T @ flow.y[:, -1], np.exp(-values * 0.7) * (vectors.T @ first)


# == connections and caches


def sides(loss, inputs, seed=0):
    """Return the gradients of a loss by several arrays, by complex steps."""
    for k in range(len(inputs)):
        yield jacobian_of(lambda x, k=k: loss(*inputs[:k], x, *inputs[k + 1 :]), inputs[k])


def streams():
    """Return streams, the matrix and both weights of a hyper-connection, and a block's weights."""
    rng = np.random.default_rng(30)
    shapes = (3, 4), (3, 3), 3, 3
    return [rng.normal(size=shape) for shape in shapes], rng.normal(size=(4, 4))


@equation(
    r"""\vec x = \sum_{j=1}^n a_j \vec h_j , \qquad
    \vec y_i = \sum_{j=1}^n P_{ij} \vec h_j + b_i\, f(\vec x) .""",
    r"""\vec g = \mat J^\top \sum_i b_i \vec u_i , \qquad
    \pdv{L}{\vec h_j} = \sum_i P_{ij} \vec u_i + a_j \vec g .""",
    r"""\pdv{L}{P_{ij}} = \vec u_i \cdot \vec h_j , \qquad
    \pdv{L}{a_j} = \vec g \cdot \vec h_j , \qquad
    \pdv{L}{b_i} = \vec u_i \cdot f(\vec x) .""",
)
def hyper_connections():
    (h, P, a, b), W = streams()
    u = np.random.default_rng(31).normal(size=(3, 4))

    def outputs(h, P, a, b):
        fx = np.tanh(W @ sum(a[j] * h[j] for j in range(3)))
        return [sum(P[i, j] * h[j] for j in range(3)) + b[i] * fx for i in range(3)]

    # A stream whose matrix is the identity and whose weights are 1 is the residual connection.
    x = h[0]
    one = outputs(np.stack([x, 0 * x, 0 * x]), np.eye(3), np.eye(3)[0], np.ones(3))[0]
    yield one, x + np.tanh(W @ x)

    def loss(h, P, a, b):
        return sum(u[i] @ y for i, y in enumerate(outputs(h, P, a, b)))

    dh, dP, da, db = sides(loss, (h, P, a, b))
    x = a @ h
    g = jacobian_of(lambda x: np.tanh(W @ x), x).T @ sum(b[i] * u[i] for i in range(3))
    for j in range(3):
        yield dh[j], sum(P[i, j] * u[i] for i in range(3)) + a[j] * g
        yield da[j], g @ h[j]
        yield db[j], u[j] @ np.tanh(W @ x)
    yield dP, [[u[i] @ h[j] for j in range(3)] for i in range(3)]


@equation(
    r"""\sum_i \Bigl( \sum_j P_{ij} h_j \Bigr)^2 \le \sum_i \sum_j P_{ij} h_j^2
    = \sum_j h_j^2 ."""
)
def means_of_squares():
    rng = np.random.default_rng(32)
    for _ in range(10):
        # A mean of permutations is doubly stochastic.
        orders = [np.eye(4)[rng.permutation(4)] for _ in range(5)]
        P = np.tensordot(rng.dirichlet(np.ones(5)), orders, 1)
        h = rng.normal(size=4)
        squares = sum(P[i, j] * h[j] ** 2 for i in range(4) for j in range(4))
        yield np.sum((P @ h) ** 2) <= squares, True
        yield squares, h @ h
    yield np.sum((orders[0] @ h) ** 2), h @ h  # attained by a permutation


def balanced(X):
    """Return the doubly stochastic limit and the logarithms of its factors, by Newton's method."""
    n, logs = len(X), np.zeros(2 * len(X))
    for _ in range(30):
        P = np.exp(X + logs[:n, None] + logs[n:])
        system = np.block([[np.diag(P.sum(1)), P], [P.T, np.diag(P.sum(0))]])
        off = np.concatenate([P.sum(1), P.sum(0)]) - 1
        logs = logs - np.linalg.lstsq(system, off, rcond=None)[0]
    return np.exp(X + logs[:n, None] + logs[n:]), logs[:n], logs[n:]


@equation(
    r"""P_{ij} = r_i\, e^{X_{ij}}\, c_j , \qquad
    \dd P_{ij} = P_{ij} \bigl( \dd X_{ij} + \alpha_i + \beta_j \bigr) ,""",
    r"""\pdv{L}{X_{ij}} = P_{ij} \bigl( U_{ij} + \alpha_i + \beta_j \bigr) , \qquad
    \alpha_i + \sum_j P_{ij} \beta_j = - \sum_j P_{ij} U_{ij} , \qquad
    \beta_j + \sum_i P_{ij} \alpha_i = - \sum_i P_{ij} U_{ij} .""",
    rtol=1e-6,
    atol=1e-8,
)
def the_limit_of_the_steps():
    X, U, V = np.random.default_rng(33).normal(size=(3, 4, 4))
    P, r, c = balanced(X)
    yield P, np.exp(r)[:, None] * np.exp(X) * np.exp(c)
    yield P, formulas.normalization.sinkhorn(X, steps=500)

    def change(V):
        """Return the changes of the limit and of the logarithms, by a difference quotient."""
        pairs = zip(balanced(X + 1e-5 * V), balanced(X - 1e-5 * V), strict=True)
        return [(above - below) / 2e-5 for above, below in pairs]

    dP, alpha, beta = change(V)
    yield dP, P * (V + alpha[:, None] + beta)
    basis = np.eye(16).reshape(16, 4, 4)
    gradient = np.reshape([np.sum(U * change(E)[0]) for E in basis], (4, 4))
    _, alpha, beta = change(U)  # the same map, of the gradient
    yield gradient, P * (U + alpha[:, None] + beta)
    yield alpha + P @ beta, -(P * U).sum(1)
    yield beta + P.T @ alpha, -(P * U).sum(0)


@equation(
    r"""\vec h_l = \sum_{i=0}^{l-1} p_{li} \vec v_i , \qquad
    p_{li} = \frac{\exp(\vec w_l \cdot \vec k_i)}{\sum_{m=0}^{l-1} \exp(\vec w_l \cdot \vec k_m)} ,
    \qquad \vec k_i = \operatorname{rms}(\vec v_i) .""",
    r"""d_{li} = p_{li}\, \vec u_l \cdot (\vec v_i - \vec h_l) , \qquad
    \pdv{L}{\vec w_l} = \sum_{i=0}^{l-1} d_{li} \vec k_i , \qquad
    \pdv{L}{\vec v_i} = \sum_{l > i}
    \bigl( p_{li} \vec u_l + d_{li} \mat N_i^\top \vec w_l \bigr) ,""",
)
def attention_over_depth():
    rng = np.random.default_rng(34)
    v, w, u = rng.normal(size=(3, 4, 5))  # outputs 0 to 3; the blocks 1 to 4
    norm = functools.partial(formulas.normalization.rms_norm, eps=0.0)

    def weights(v, w, l):
        scores = np.array([np.exp(w[l - 1] @ norm(v[i])) for i in range(l)])
        return scores / np.sum(scores)

    def inputs(v, w):
        return [sum(weights(v, w, l)[i] * v[i] for i in range(l)) for l in range(1, 5)]

    keys = norm(v)
    for l in range(1, 5):
        own = attention.scaled_dot_product_attention(w[[l - 1]], keys[:l], v[:l], scale=1.0)
        yield own[0], inputs(v, w)[l - 1]
    dv, dw = sides(lambda v, w: sum(u[l] @ h for l, h in enumerate(inputs(v, w))), (v, w))
    d = {
        (l, i): weights(v, w, l)[i] * (u[l - 1] @ (v[i] - inputs(v, w)[l - 1]))
        for l in range(1, 5)
        for i in range(l)
    }
    for l in range(1, 5):
        yield dw[l - 1], sum(d[l, i] * keys[i] for i in range(l))
    for i in range(4):
        N = jacobian_of(norm, v[i])
        later = range(i + 1, 5)
        terms = [weights(v, w, l)[i] * u[l - 1] + d[l, i] * N.T @ w[l - 1] for l in later]
        yield dv[i], sum(terms)


@equation(
    r"""L = \sum_{k=1}^n L_k , \qquad
    \pdv{L}{\vec h} = \sum_{k=1}^n \mat J_k^\top \pdv{L_k}{\vec z_k} ."""
)
def several_heads():
    rng = np.random.default_rng(35)
    h, W = rng.normal(size=4), rng.normal(size=(3, 5, 4))
    head = lambda h, k: np.tanh(W[k] @ h)  # noqa: E731
    loss = lambda z, k: np.log(np.sum(np.exp(z))) - z[k + 1]  # noqa: E731
    (dh,) = sides(lambda h: sum(loss(head(h, k), k) for k in range(3)), (h,))
    terms = [
        jacobian_of(lambda h, k=k: head(h, k), h).T
        @ jacobian_of(lambda z, k=k: loss(z, k), head(h, k))
        for k in range(3)
    ]
    yield dh, sum(terms)


@equation(r"N = \sum_{k=0}^{n-1} p^k = \frac{1 - p^n}{1 - p} .")
def accepted_drafts():
    p = 0.7
    for n in (1, 2, 4):
        # The first token is the model's own; each draft counts while all before it are accepted.
        drafts = itertools.product((True, False), repeat=n - 1)
        chance = [
            (np.prod([p if right else 1 - p for right in drawn]), [*drawn, False].index(False))
            for drawn in drafts
        ]
        yield sum(c * (1 + length) for c, length in chance), (1 - p**n) / (1 - p)
        yield sum(p**k for k in range(n)), (1 - p**n) / (1 - p)


@equation(
    r"""\vec c_j = \mat W_D \vec x_j , \qquad \vec k_j = \mat W_K \vec c_j , \qquad
    \vec v_j = \mat W_V \vec c_j , \qquad
    \vec q_i \cdot \vec k_j = \bigl( \mat W_K^\top \vec q_i \bigr) \cdot \vec c_j .""",
    r"""\pdv{L}{\vec c_j} = \mat W_K^\top \pdv{L}{\vec k_j}
    + \mat W_V^\top \pdv{L}{\vec v_j} , \qquad
    \pdv{L}{\mat W_K} = \sum_j \pdv{L}{\vec k_j} \vec c_j^\top .""",
)
def latents_of_keys_and_values():
    rng = np.random.default_rng(36)
    x, q, u = rng.normal(size=(5, 6)), *rng.normal(size=(2, 5, 4))
    W_D, W_K, W_V = rng.normal(size=(3, 6)), *rng.normal(size=(2, 4, 3))
    attend = formulas.attention.attention
    c = np.array([W_D @ row for row in x])
    loss = lambda k, v: np.sum(u * attend(q, k, v))  # noqa: E731
    dk, dv = sides(loss, (c @ W_K.T, c @ W_V.T))
    dc, dW_K = sides(lambda c, W_K: loss(c @ W_K.T, c @ W_V.T), (c, W_K))
    for j in range(5):
        yield dc[j], W_K.T @ dk[j] + W_V.T @ dv[j]
        yield q[1] @ (W_K @ c[j]), (W_K.T @ q[1]) @ c[j]
    yield dW_K, sum(np.outer(dk[j], c[j]) for j in range(5))


@equation(
    r"""\pdv{L}{\vec k_j} = c \sum_l \sum_i d_{lij} \vec q_{li} , \qquad
    \pdv{L}{\vec v_j} = \sum_l \sum_i p_{lij} \vec u_{li} ."""
)
def shared_keys_and_values():
    q, u = np.random.default_rng(37).normal(size=(2, 3, 5, 4))  # three layers
    k, v = np.random.default_rng(38).normal(size=(2, 5, 4))
    c, attend = 0.5, formulas.attention.attention
    dk, dv = sides(lambda k, v: sum(np.sum(u[l] * attend(q[l], k, v)) for l in range(3)), (k, v))
    p = softmax(c * q @ k.T)
    d = p * (u @ v.T - np.sum(u * (p @ v), -1)[..., None])
    for j in range(5):
        pairs = [(l, i) for l in range(3) for i in range(5)]
        yield dk[j], c * sum(d[l, i, j] * q[l, i] for l, i in pairs)
        yield dv[j], sum(p[l, i, j] * u[l, i] for l, i in pairs)
