"""The displayed equations of the two essays, on depth and on attention."""

import numpy as np
from equations.ledger import equation
from equations.numeric import jacobian_of

from dlref import attention, recurrent, training
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


@equation(
    r"""(\mat I + \mat F_2)(\mat I + \mat F_1)
    = \mat I + \mat F_1 + \mat F_2 + \mat F_2 \mat F_1 ,"""
)
def four_paths():
    w, x = np.random.default_rng(7).normal(size=(2, 3, 3)), np.array([0.3, -1.2, 0.7])

    def layer(h, k):
        return h + np.tanh(w[k] @ h)

    F1 = jacobian_of(lambda h: np.tanh(w[0] @ h), x)
    F2 = jacobian_of(lambda h: np.tanh(w[1] @ h), layer(x, 0))
    eye = np.eye(3)
    whole = jacobian_of(lambda h: layer(layer(h, 0), 1), x)
    yield whole, (eye + F2) @ (eye + F1), eye + F1 + F2 + F2 @ F1


@equation(r"\vec c_t = \vec f_t \odot \vec c_{t-1} + \vec i_t \odot \vec g_t ,")
def the_cell_adds():
    rng = np.random.default_rng(2)
    b, c = rng.normal(size=(4, 3)), rng.normal(size=3)
    i, f, g = 1 / (1 + np.exp(-b[0])), 1 / (1 + np.exp(-b[1])), np.tanh(b[2])
    zero, none = np.zeros((12, 3)), np.zeros(3)
    _, new = recurrent.lstm_cell(none, none, c, zero, zero, b.ravel())
    yield new, f * c + i * g


@equation(r"\operatorname{clip}(\vec g) = \vec g\, \min \Bigl( 1, \frac{c}{\norm{\vec g}} \Bigr) .")
def clipping():
    g = np.array([1.0, -2.0, 2.0])  # of norm 3
    for c in (0.5, 2.0, 5.0):
        yield training.clip_by_norm(g, c), g * min(1, c / np.sqrt(np.sum(g**2)))


@equation(
    r"""\mat M = \sum_{j=1}^{S} \vec v_j \vec k_j^\top , \qquad
    \mat M \vec q = \sum_{j=1}^{S} (\vec k_j \cdot \vec q)\, \vec v_j ."""
)
def a_memory_of_fixed_size():
    rng, S = np.random.default_rng(4), 5
    k, v, q = rng.normal(size=(S, 3)), rng.normal(size=(S, 2)), rng.normal(size=3)
    M = sum(np.outer(v[j], k[j]) for j in range(S))
    options = {"feature_map": "identity", "normalize": False}
    read = attention.linear_attention(q[None], k, v, **options)[0]
    yield read, M @ q, sum((k[j] @ q) * v[j] for j in range(S))


def one_query():
    """Return a query, keys, values, an upstream gradient, and the weights."""
    rng = np.random.default_rng(6)
    q, k, v = rng.normal(size=4), rng.normal(size=(5, 4)), rng.normal(size=(5, 3))
    p = np.exp(k @ q / 2.0)
    return q, k, v, rng.normal(size=3), p / np.sum(p)


@equation(r"\vec o = \sum_{j=1}^{S} p_j \vec v_j .")
def a_weighted_mean():
    q, k, v, _, p = one_query()
    out = attention.scaled_dot_product_attention(q[None], k, v)[0]
    yield out, sum(p[j] * v[j] for j in range(5))


@equation(
    r"\operatorname{Var}(\vec q \cdot \vec k) = \sum_{e=1}^{E} \operatorname{Var}(q_e k_e) = E .",
    rtol=0.02,
)
def variance_of_a_dot_product():
    E, rng = 9, np.random.default_rng(0)
    q = rng.choice([-1.0, 1.0], size=(200_000, E))
    k = rng.normal(size=(200_000, E))
    yield np.var(np.sum(q * k, axis=1)), sum(np.var(q[:, e] * k[:, e]) for e in range(E)), E


@equation(r"\pdv{L}{s_j} = p_j\, \vec u \cdot (\vec v_j - \vec o) ,")
def gradient_of_the_scores():
    q, k, v, u, p = one_query()
    slope = jacobian_of(lambda s: u @ (np.exp(s) / np.sum(np.exp(s)) @ v), k @ q / 2.0)
    yield slope, [p[j] * (u @ (v[j] - p @ v)) for j in range(5)]


@equation(r"(\mat R_m \vec q) \cdot (\mat R_n \vec k) = \vec q \cdot (\mat R_{n-m} \vec k) .")
def the_distance_alone():
    q, k, *_ = one_query()
    frequencies, k = np.array([1.0, 0.3]), k[0]
    for m, n in ((2, 5), (7, 3)):
        R_m, R_n, R = (rope_matrix(place, frequencies) for place in (m, n, n - m))
        yield (R_m @ q) @ (R_n @ k), q @ (R @ k)


@equation(r"N = 2\, L\, H_k\, E\, T ,")
def numbers_in_the_cache():
    config = LanguageModelConfig(50, 24, 6, 2, num_layers=3)
    T = 7
    for L, H_k, E in [(config.num_layers, config.num_kv_heads, config.d_model // config.num_heads)]:
        cache = attention.KVCache.empty((), H_k, E)
        keys, values = cache.append(np.zeros((H_k, T, E)), np.zeros((H_k, T, E)))
        yield L * (keys.size + values.size), 2 * L * H_k * E * T


@equation(
    r"""\mat O = \operatorname{softmax} \Bigl( \frac{\mat Q \mat K^\top}{\sqrt E}
    + \mat B \Bigr) \mat V"""
)
def attention_as_a_whole():
    rng, E = np.random.default_rng(8), 4
    Q, K, V = rng.normal(size=(3, 5, E))
    B = np.where(np.tri(5, dtype=bool), 0.0, -np.inf)
    weights = np.exp(Q @ K.T / np.sqrt(E) + B)
    weights /= np.sum(weights, axis=1, keepdims=True)
    yield attention.scaled_dot_product_attention(Q, K, V, is_causal=True), weights @ V
    yield attention.scaled_dot_product_attention(Q, K, V, bias=B), weights @ V
