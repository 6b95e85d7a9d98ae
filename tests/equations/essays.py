"""The displayed equations of the essays: on depth, on attention, on rates of descent."""

import functools

import numpy as np
from equations.evaluate import From, Of
from equations.ledger import equation, reads
from equations.numeric import jacobian_of

from dlref import attention, formulas
from dlref.formulas.activations import sigmoid, softmax
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
    for _ in range(20):
        J, u = rng.normal(size=(3, 4, 4)), rng.normal(size=4)
        top = np.prod([np.linalg.svd(m, compute_uv=False)[0] for m in J])
        yield np.linalg.norm(J[0].T @ J[1].T @ J[2].T @ u) <= top * np.linalg.norm(u), True
    symmetric = J[0].T @ J[0]  # attained by its first eigenvector
    values, vectors = np.linalg.eigh(symmetric)
    yield np.linalg.norm(symmetric @ symmetric @ vectors[:, -1]), values[-1] ** 2


@equation(r"\E z_i^2 = \sum_{j=1}^{n} \E W_{ij}^2\, \E h_j^2 = n\, v\, \E h^2 ,", rtol=0.05)
def mean_square_of_a_pre_activation():
    rng, n, v = np.random.default_rng(0), 6, 0.3
    W = np.sqrt(v) * rng.normal(size=(200_000, n))
    h = rng.choice([0.0, 2.0], size=(200_000, n))  # not of mean 0: a ReLU's outputs
    z = np.sum(W * h, axis=1)
    parts = np.mean(W**2, axis=0) * np.mean(h**2, axis=0)
    yield np.mean(z**2), sum(parts[j] for j in range(n)), n * v * np.mean(h**2)


@reads(
    r"""(\mat I + \mat F_2)(\mat I + \mat F_1)
    = \mat I + \mat F_1 + \mat F_2 + \mat F_2 \mat F_1 ,"""
)
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


@reads(
    r"""\mat M = \sum_{j=1}^{S} \vec v_j \vec k_j^\top , \qquad
    \mat M \vec q = \sum_{j=1}^{S} (\vec k_j \cdot \vec q)\, \vec v_j ."""
)
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


@equation(
    r"\operatorname{Var}(\vec q \cdot \vec k) = \sum_{e=1}^{E} \operatorname{Var}(q_e k_e) = E .",
    rtol=0.02,
)
def variance_of_a_dot_product():
    E, rng = 9, np.random.default_rng(0)
    q = rng.choice([-1.0, 1.0], size=(200_000, E))
    k = rng.normal(size=(200_000, E))
    yield np.var(np.sum(q * k, axis=1)), sum(np.var(q[:, e] * k[:, e]) for e in range(E)), E


@reads(r"\pdv{L}{s_j} = p_j\, \vec u \cdot (\vec v_j - \vec o) ,")
def gradient_of_the_scores():
    q, k, v, u, p = one_query()
    s, o = k @ q / 2.0, Of(lambda s: softmax(s) @ v, "s")
    return {"s": s, "p": p, "v": v, "u": u, "o": o, "L": Of(lambda o: u @ o, "o")}


@reads(
    r"(\mat R_m \vec q) \cdot (\mat R_n \vec k) = \vec q \cdot (\mat R_{n-m} \vec k) .",
    r"(\mat R_m \vec q) \cdot (\mat R_n \vec k) = \vec q^\top \mat R_m^\top \mat R_n \vec k "
    r"= \vec q \cdot (\mat R_{n-m} \vec k) ,",
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


@equation(r"N = 2\, L\, H_k\, E\, T ,")
def numbers_in_the_cache():
    config = LanguageModelConfig(50, 24, 6, 2, num_layers=3)
    T = 7
    for L, H_k, E in [(config.num_layers, config.num_kv_heads, config.d_model // config.num_heads)]:
        cache = attention.KVCache.empty((), H_k, E)
        keys, values = cache.append(np.zeros((H_k, T, E)), np.zeros((H_k, T, E)))
        yield L * (keys.size + values.size), 2 * L * H_k * E * T


@reads(
    r"""\mat O = \operatorname{softmax} \Bigl( \frac{\mat Q \mat K^\top}{\sqrt E}
    + \mat B \Bigr) \mat V"""
)
def attention_as_a_whole():
    Q, K, V = np.random.default_rng(8).normal(size=(3, 5, 4))
    B = np.where(np.tri(5, dtype=bool), 0.0, -np.inf)
    o = attention.scaled_dot_product_attention(Q, K, V, bias=B)
    return {"Q": Q, "K": K, "V": V, "B": B, "E": 4, "O": o}


CURVATURES = np.array([0.1, 0.4, 1.0])


@equation(
    r"""L = \frac{1}{2} \sum_{i=1}^{n} \lambda_i \theta_i^2 , \qquad
    \pdv{L}{\theta_i} = \lambda_i \theta_i ."""
)
def a_quadratic_loss():
    def loss(x):  # about axes that are turned
        return 0.5 * x @ hessian @ x

    turned, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    hessian = turned @ np.diag(CURVATURES) @ turned.T
    x = np.array([0.3, -1.2, 0.7])
    lam, theta = CURVATURES, turned.T @ x
    yield loss(x), 0.5 * sum(lam[i] * theta[i] ** 2 for i in range(3))
    yield turned.T @ jacobian_of(loss, x), lam * theta


@reads(
    r"\theta_{t+1} = \theta_t - \eta \lambda \theta_t = (1 - \eta \lambda)\, \theta_t ,",
)
def a_step_in_one_direction():
    theta, eta, lam = 0.7, 0.15, 4.0
    new, _ = formulas.training.sgd_step(theta, lam * theta, None, learning_rate=eta)
    return {r"\theta_t": theta, r"\theta_{t+1}": new, r"\eta": eta, r"\lambda": lam}


@equation(
    r"""\eta = \frac{2}{\lambda_{\min} + \lambda_{\max}} , \qquad
    1 - \eta \lambda_{\min} = \frac{\kappa - 1}{\kappa + 1} , \qquad
    \kappa = \frac{\lambda_{\max}}{\lambda_{\min}} ."""
)
def the_best_rate_of_descent():
    low, high = CURVATURES[[0, -1]]
    rates = np.linspace(0.01, 2.5, 24_901)
    worst = np.max(np.abs(1 - rates[:, None] * CURVATURES), axis=1)
    eta, kappa = 2 / (low + high), high / low
    yield round(rates[np.argmin(worst)], 3), round(eta, 3)
    yield 1 - eta * low, (kappa - 1) / (kappa + 1)
    yield np.max(np.abs(1 - eta * CURVATURES)), (kappa - 1) / (kappa + 1)


@equation(
    r"""L = \frac{1}{2} (ab - 1)^2 , \qquad
    \pdv{L}{a} = (ab - 1)\, b , \qquad \pdv{L}{b} = (ab - 1)\, a ."""
)
def two_weights_in_a_row():
    def loss(w):
        return 0.5 * (formulas.neurons.linear(w[:1], w[1:, None])[0] - 1) ** 2

    a, b = 1.5, -0.4
    yield loss(np.array([a, b])), 0.5 * (a * b - 1) ** 2
    yield jacobian_of(loss, np.array([a, b])), np.array([(a * b - 1) * b, (a * b - 1) * a])


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


@reads(
    r"""\theta_{t+1}
    = (1 - \eta \lambda) \bigl( (1 + \mu)\, \theta_t - \mu\, \theta_{t-1} \bigr) ."""
)
def two_terms_of_nesterov():
    return three_steps(formulas.training.nesterov_step, 0.15, 4.0, 0.6)


def step_of_the_heavy_ball(eta_lam, mu):
    """Return the matrix that a step multiplies (θ, velocity) by, at the learning rate 1."""
    return np.array([[1 - eta_lam, -mu], [eta_lam, mu]])


@equation(r"z^2 - (1 + \mu - \eta \lambda)\, z + \mu = 0 .")
def roots_of_the_heavy_ball():
    for eta_lam, mu in ((0.3, 0.81), (1.7, 0.2), (2.5, 0.5)):
        for z in np.linalg.eigvals(step_of_the_heavy_ball(eta_lam, mu)):
            yield abs(z**2 - (1 + mu - eta_lam) * z + mu) < 1e-14, True


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


@equation(
    r"""\sqrt{\mu} = \frac{\sqrt{\kappa} - 1}{\sqrt{\kappa} + 1} , \qquad
    \eta = \frac{4}{(\sqrt{\lambda_{\min}} + \sqrt{\lambda_{\max}})^2} ."""
)
def the_best_rate_of_the_heavy_ball():
    low, high = CURVATURES[[0, -1]]
    kappa = high / low
    root_of_mu = (np.sqrt(kappa) - 1) / (np.sqrt(kappa) + 1)
    eta = 4 / (np.sqrt(low) + np.sqrt(high)) ** 2

    def worst(eta, mu):
        steps = [step_of_the_heavy_ball(eta * lam, mu) for lam in CURVATURES]
        return np.max(np.abs(np.linalg.eigvals(steps)))

    yield eta * low, (1 - root_of_mu) ** 2
    yield eta * high, (1 + root_of_mu) ** 2
    for other in np.linspace(0.05, 3.0, 60):
        for mu in np.linspace(0.0, 0.95, 39):
            yield worst(other, mu) > root_of_mu - 1e-6, True


@equation(r"z^2 - 2 (1 - s)\, z + (1 - s)^2 = \bigl( z - (1 - s) \bigr)^2 .")
def a_double_root_of_nesterov():
    lam, s = CURVATURES / CURVATURES[-1], np.sqrt(CURVATURES[0] / CURVATURES[-1])
    mu = (1 - s) / (1 + s)
    q = 1 - lam[0]
    for z in (0.3, -1.2, 2.0):  # the polynomial of the recurrence in the flattest direction
        yield z**2 - q * (1 + mu) * z + q * mu, z**2 - 2 * (1 - s) * z + (1 - s) ** 2
        yield z**2 - 2 * (1 - s) * z + (1 - s) ** 2, (z - (1 - s)) ** 2
    for q in 1 - np.linspace(lam[0], 1, 50):
        yield np.max(np.abs(np.roots([1, -q * (1 + mu), q * mu]))) <= 1 - s + 1e-7, True


@equation(
    r"\E \theta_{t+1}^2 = (1 - \eta \lambda)^2\, \E \theta_t^2 + \eta^2 \sigma^2 ,", rtol=0.02
)
def a_step_under_noise():
    rng, eta, lam, sigma = np.random.default_rng(4), 0.3, 1.5, 2.0
    theta, noise = 1.7 * rng.normal(size=200_000), sigma * rng.normal(size=200_000)
    new, _ = formulas.training.sgd_step(theta, lam * theta + noise, None, learning_rate=eta)
    yield np.mean(new**2), (1 - eta * lam) ** 2 * np.mean(theta**2) + eta**2 * sigma**2


@equation(
    r"""\E \theta_\infty^2 = \frac{\eta^2 \sigma^2}{1 - (1 - \eta \lambda)^2}
    = \frac{\eta \sigma^2}{\lambda (2 - \eta \lambda)} .""",
    rtol=0.02,
)
def the_noise_ball():
    rng, eta, lam, sigma = np.random.default_rng(4), 0.3, 1.5, 2.0
    theta = np.zeros(200_000)
    for _ in range(40):
        noise = sigma * rng.normal(size=theta.size)
        theta, _ = formulas.training.sgd_step(theta, lam * theta + noise, None, learning_rate=eta)
    right = eta * sigma**2 / (lam * (2 - eta * lam))
    yield np.mean(theta**2), eta**2 * sigma**2 / (1 - (1 - eta * lam) ** 2), right
