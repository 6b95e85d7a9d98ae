"""The differentials with which backward passes begin: the formula, and a complex step.

Where the map has a product in forward mode, the formula is compared with this product as well.
"""

import numpy as np
from equations.ledger import definition, equation
from equations.numeric import rate

from dlref import (
    activations,
    attention,
    calculus,
    convolution,
    losses,
    neurons,
    positions,
    recurrent,
    transformer,
)
from dlref import normalization as norms
from dlref.formulas.activations import sigmoid, softmax


def draw(seed, *shapes):
    """Return an array and its differential for each shape."""
    rng = np.random.default_rng(seed)
    return [list(rng.normal(size=(2, *shape))) for shape in shapes]


def sides(pairs):
    """Return the arrays and their differentials, each as a tuple."""
    return tuple(p for p, _ in pairs), tuple(d for _, d in pairs)


@equation(r"\dd y = \sigma(g)\, \dd x + x\, \sigma(g)\, \sigma(-g)\, \dd g .")
def gated():
    (x, dx), (g, dg) = pairs = draw(1, (4,), (4,))
    slope = sigmoid(g) * dx + x * sigmoid(g) * sigmoid(-g) * dg
    yield (
        slope,
        rate(lambda x, g: x * sigmoid(g), *sides(pairs)),
        activations.glu_jvp(*sides(pairs)),
    )


@equation(
    r"""\dd s_i = \sum_j J_{ij}\, \dd x_j
    = s_i \Bigl( \dd x_i - \sum_j s_j\, \dd x_j \Bigr) .""",
    r"\dd \ell_i = \dd x_i - \sum_j s_j\, \dd x_j .",
    r"\dd f = \sum_i s_i\, \dd x_i .",
)
def softmax_and_its_relatives():
    [(x, dx)] = draw(2, (5,))
    s, J = softmax(x), activations.softmax_jacobian(x)
    mean = sum(s[j] * dx[j] for j in range(5))
    step = rate(softmax, [x], [dx])
    by_rows = [sum(J[i, j] * dx[j] for j in range(5)) for i in range(5)]
    yield step, by_rows, [s[i] * (dx[i] - mean) for i in range(5)]
    yield step, activations.softmax_jvp(x, dx)
    yield [dx[i] - mean for i in range(5)], activations.log_softmax_jvp(x, dx)
    yield rate(lambda x: np.log(softmax(x)), [x], [dx]), dx - mean
    yield sum(s[i] * dx[i] for i in range(5)), activations.logsumexp_jvp(x, dx)
    yield rate(lambda x: np.log(np.sum(np.exp(x))), [x], [dx]), mean


@equation(
    r"""\dd s_{ij} = (1 - t_{ij}^2)\, c\, (\vec k_j \cdot \dd \vec q_i
    + \vec q_i \cdot \dd \vec k_j) + \dd B_{ij} ."""
)
def capped_scores():
    (q, dq), (k, dk), (B, dB) = pairs = draw(3, (2, 4), (3, 4), (2, 3))
    a, c = 1.5, 0.7
    t = np.tanh(c * q @ k.T / a)
    slope = [
        [(1 - t[i, j] ** 2) * c * (k[j] @ dq[i] + q[i] @ dk[j]) + dB[i, j] for j in range(3)]
        for i in range(2)
    ]
    yield slope, rate(lambda q, k, B: a * np.tanh(c * q @ k.T / a) + B, *sides(pairs))
    options = {"bias": B, "dbias": dB, "scale": c, "softcap": a}
    yield slope, attention.attention_scores_jvp((q, k), (dq, dk), **options)


@equation(r"\dd \vec o_i = \frac{\dd \vec n_i - \vec o_i\, \dd z_i}{z_i} .")
def quotient_of_linear_attention():
    (q, dq), (k, dk), (v, _dv) = pairs = draw(4, (3, 2), (4, 2), (4, 3))
    q, k = np.abs(q) + 2, np.abs(k) + 2  # features that are the numbers themselves
    primals, tangents = (q, k, v), sides(pairs)[1]
    n, z = (q @ k.T) @ v, np.sum(q @ k.T, axis=1)
    dn = rate(lambda q, k, v: (q @ k.T) @ v, primals, tangents)
    dz = rate(lambda q, k: np.sum(q @ k.T, axis=1), (q, k), (dq, dk))
    want = attention.linear_attention_jvp(primals, tangents, feature_map="identity")
    yield [(dn[i] - n[i] / z[i] * dz[i]) / z[i] for i in range(3)], want


@equation(r"\dd \vec r_i = \mat W^\top \dd \vec q_i + \dd \mat W^\top \vec q_i .")
def projected_query():
    (W, dW), (q, dq) = pairs = draw(5, (4, 3), (4,))
    yield W.T @ dq + dW.T @ q, rate(lambda W, q: W.T @ q, *sides(pairs))


@equation(
    r"""\dd \vec o_i = \sum_j (p_{ij}\, \dd \vec v_j + \vec v_j\, \dd p_{ij}) , \qquad
    \dd p_{ij} = p_{ij} \Bigl( \dd s_{ij} - \sum_m p_{im}\, \dd s_{im} \Bigr) ."""
)
def weighted_mean_of_values():
    (q, dq), (k, dk), (v, dv) = pairs = draw(6, (2, 4), (3, 4), (3, 5))
    s, p = q @ k.T / 2, softmax(q @ k.T / 2)
    ds = (dq @ k.T + q @ dk.T) / 2
    means = [sum(p[i, m] * ds[i, m] for m in range(3)) for i in range(2)]
    dp = np.array([[p[i, j] * (ds[i, j] - means[i]) for j in range(3)] for i in range(2)])
    yield dp, rate(softmax, [s], [ds])
    do = [sum(p[i, j] * dv[j] + v[j] * dp[i, j] for j in range(3)) for i in range(2)]
    yield do, attention.scaled_dot_product_attention_jvp(*sides(pairs))


@equation(r"\dd y_j = \frac{\dd w_j - y_j\, \dd x_j}{x_j} .")
def quotient():
    (w, dw), (x, dx) = pairs = draw(7, (4,), (4,))
    y = w / x
    slope = [(dw[j] - y[j] * dx[j]) / x[j] for j in range(4)]
    yield slope, rate(np.divide, *sides(pairs)), calculus.divide_jvp(*sides(pairs))


@equation(
    r"\dd y = \sum_j (x_j\, \dd w_j + w_j\, \dd x_j) .",
    r"\dd y_i = x_i\, \dd w_i + w_i\, \dd x_i .",
)
def products_of_vectors():
    (w, dw), (x, dx) = pairs = draw(8, (4,), (4,))
    terms = [x[i] * dw[i] + w[i] * dx[i] for i in range(4)]
    yield terms, calculus.multiply_jvp(*sides(pairs)), rate(np.multiply, *sides(pairs))
    yield sum(terms), calculus.dot_jvp(*sides(pairs)), rate(np.dot, *sides(pairs))


@equation(
    r"""\dd \mat A\, \mat Y + \mat A\, \dd \mat Y = 0 \quad\Rightarrow\quad
    \dd \mat Y = -\mat Y\, \dd \mat A\, \mat Y .""",
    r"""\dd y = \sum_{kl} (\mat A^{-1})_{lk}\, \dd A_{kl}
    = \operatorname{tr}(\mat A^{-1}\, \dd \mat A) .""",
)
def inverse_and_determinant():
    [(A, dA)] = draw(9, (3, 3))
    Y, dY = np.linalg.inv(A), rate(np.linalg.inv, [A], [dA])
    yield dA @ Y + A @ dY, np.zeros((3, 3))
    yield dY, -Y @ dA @ Y, calculus.inverse_jvp(A, dA)
    double = sum(Y[m, k] * dA[k, m] for k in range(3) for m in range(3))
    yield double, np.trace(Y @ dA), calculus.logdet_jvp(A, dA)


@equation(r"\dd \mat Y = \dd \mat A\, \mat B + \mat A\, \dd \mat B .")
def product_of_matrices():
    (A, dA), (B, dB) = pairs = draw(10, (2, 3), (3, 4))
    yield dA @ B + A @ dB, rate(np.matmul, *sides(pairs)), calculus.matmul_jvp(*sides(pairs))


@equation(r"\dd y_k = \frac{1}{y_k} \sum_j x_{kj}\, \dd x_{kj} .")
def norm_of_a_slice():
    [(x, dx)] = draw(11, (3, 4))
    y = np.sqrt(np.sum(x**2, axis=1))
    slope = [sum(x[k, j] * dx[k, j] for j in range(4)) / y[k] for k in range(3)]
    step = rate(lambda x: np.sqrt(np.sum(x**2, axis=1)), [x], [dx])
    yield slope, step, calculus.norm_jvp(x, dx, axis=1)


@equation(
    r"""\dd y = \dd \vec x^\top \mat A\, \vec x + \vec x^\top \dd \mat A\, \vec x
    + \vec x^\top \mat A\, \dd \vec x ."""
)
def quadratic_form():
    (x, dx), (A, dA) = pairs = draw(12, (3,), (3, 3))
    slope = dx @ A @ x + x @ dA @ x + x @ A @ dx
    yield (
        slope,
        rate(lambda x, A: x @ A @ x, *sides(pairs)),
        calculus.quadratic_form_jvp(*sides(pairs)),
    )


@equation(
    r"""\dd y_{o t} = \sum_c \sum_k \bigl( W_{o c k}\, \dd x_{c,\, s t + d k - p}
    + x_{c,\, s t + d k - p}\, \dd W_{o c k} \bigr) + \dd b_o ."""
)
def convolution_of_a_row():
    (x, dx), (W, dW), (_b, db) = pairs = draw(13, (2, 9), (3, 2, 3), (3,))
    s, d, p, count = 2, 2, 1, (9 + 2 - 4 - 1) // 2 + 1
    wide, dwide = (np.pad(a, [(0, 0), (p, p)]) for a in (x, dx))  # place j is j + p here
    slope = [
        [
            sum(
                W[o, c, k] * dwide[c, s * t + d * k] + wide[c, s * t + d * k] * dW[o, c, k]
                for c in range(2)
                for k in range(3)
            )
            + db[o]
            for t in range(count)
        ]
        for o in range(3)
    ]
    yield slope, convolution.conv_jvp(*sides(pairs), stride=s, padding=p, dilation=d)


@equation(r"\dd \ell = 2\, (p - t)\, (\dd p - \dd t) .")
def square():
    (p, dp), (t, dt) = pairs = draw(14, (4,), (4,))
    slope = 2 * (p - t) * (dp - dt)
    yield slope, losses.squared_error_jvp(*sides(pairs), reduction="none")
    yield slope, rate(lambda p, t: (p - t) ** 2, *sides(pairs))


@equation(
    r"\dd Y_{ni} = \sum_j (W_{ij}\, \dd X_{nj} + X_{nj}\, \dd W_{ij}) + \dd b_i .",
    r"""\dd a_n = f'(z_n)\, (\vec w \cdot \dd \vec x_n + \vec x_n \cdot \dd \vec w
    + \dd b) .""",
)
def layer_and_neuron():
    (X, dX), (W, dW), (b, db) = pairs = draw(15, (3, 4), (2, 4), (2,))
    slope = [
        [sum(W[i, j] * dX[n, j] + X[n, j] * dW[i, j] for j in range(4)) + db[i] for i in range(2)]
        for n in range(3)
    ]
    yield slope, neurons.linear_jvp(*sides(pairs))
    z = X @ W[0] + b[0]
    one = [(1 - np.tanh(z[n]) ** 2) * (W[0] @ dX[n] + X[n] @ dW[0] + db[0]) for n in range(3)]
    primals, tangents = (X, W[0], b[0]), (dX, dW[0], db[0])
    yield one, neurons.neuron_jvp(primals, tangents, activation="tanh")


@equation(
    r"""\dd \vec y = \mat W\, \dd \vec x + s\, (\dd \mat B\, \mat A \vec x
    + \mat B\, \dd \mat A\, \vec x + \mat B \mat A\, \dd \vec x) ."""
)
def correction_of_low_rank():
    (x, dx), (A, dA), (B, dB), (W, _) = draw(16, (4,), (2, 4), (3, 2), (3, 4))
    s = 0.6
    slope = W @ dx + s * (dB @ A @ x + B @ dA @ x + B @ A @ dx)
    yield slope, rate(lambda x, A, B: W @ x + s * (B @ (A @ x)), (x, A, B), (dx, dA, dB))


@equation(
    r"""\dd \vec z_l = \mat W_l\, \dd \vec h_{l-1} + \dd \mat W_l\, \vec h_{l-1}
    + \dd \vec b_l , \qquad
    \dd \vec h_l = \vec m_l \odot \phi'(\vec z_l) \odot \dd \vec z_l .""",
    r"""\dd \vec a &= \mat W_1\, \dd \vec x + \dd \mat W_1\, \vec x + \dd \vec b_1 , \qquad
    \dd \vec h = f'(\vec a) \odot \dd \vec a , \\
    \dd \vec y &= \mat W_2\, \dd \vec h + \dd \mat W_2\, \vec h + \dd \vec b_2 .""",
)
def two_layers():
    (x, dx), *weights = pairs = draw(17, (3,), (4, 3), (4,), (3, 4), (3,))
    (W1, dW1), (b1, db1), (W2, dW2), (b2, db2) = weights
    m = np.array([0.0, 2.0, 2.0, 2.0])
    for mask in (m, np.ones(4)):
        z = W1 @ x + b1
        dz = W1 @ dx + dW1 @ x + db1
        h, dh = mask * np.tanh(z), mask * (1 - np.tanh(z) ** 2) * dz
        dy = W2 @ dh + dW2 @ h + db2
        options = {"activation": "tanh", "dropout": (mask,)}
        primals = x, ((W1, b1), (W2, b2))
        tangents = dx, ((dW1, db1), (dW2, db2))
        yield dy, neurons.mlp_jvp(primals, tangents, **options)

    def network(x, W1, b1, W2, b2):
        return W2 @ np.tanh(W1 @ x + b1) + b2

    yield dy, rate(network, *sides(pairs))
    params = [
        transformer.FeedForwardParams(w1=w1, b1=b1, w2=w2, b2=b2)
        for w1, b1, w2, b2 in zip(*weights, strict=True)
    ]
    yield dy, transformer.feed_forward_jvp((x, params[0]), (dx, params[1]), activation="tanh")


@equation(
    r"""\dd \hat x_n = \frac1\tau \bigl( \dd x_n - \dd \mu \bigr)
    - \frac{\hat x_n}{2 \tau^2}\, \dd \sigma^2 , \qquad
    \dd y_n = w\, \dd \hat x_n + \hat x_n\, \dd w + \dd b ."""
)
def a_channel_of_batch_norm():
    (x, dx), (w, dw), (_b, db) = pairs = draw(18, (5, 1), (1,), (1,))
    eps = 0.1
    tau = np.sqrt(np.var(x) + eps)
    dmu = rate(np.mean, [x], [dx])
    dvar = rate(lambda x: np.mean((x - np.mean(x)) ** 2), [x], [dx])
    x_hat = (x - np.mean(x)) / tau
    dx_hat = (dx - dmu) / tau - x_hat / (2 * tau**2) * dvar
    yield dx_hat, norms.batch_norm_jvp((x, None, None), (dx, None, None), eps=eps)
    yield w * dx_hat + x_hat * dw + db, norms.batch_norm_jvp(*sides(pairs), eps=eps)


@equation(
    r"""\dd \hat x_{pc} = \frac1\tau \bigl( \dd x_{pc} - \overline{\dd x}
    - \hat x_{pc} \, \overline{\hat x\, \dd x} \bigr) , \qquad
    \dd y_{pc} = w_c\, \dd \hat x_{pc} + \hat x_{pc}\, \dd w_c + \dd b_c ."""
)
def a_group_of_group_norm():
    (x, dx), (w, dw), (b, db) = draw(19, (5, 2), (2,), (2,))  # positions, channels of one group
    eps = 0.1
    tau = np.sqrt(np.var(x) + eps)
    x_hat = (x - np.mean(x)) / tau
    dx_hat = (dx - np.mean(dx) - x_hat * np.mean(x_hat * dx)) / tau
    slope = [
        [w[c] * dx_hat[p, c] + x_hat[p, c] * dw[c] + db[c] for c in range(2)] for p in range(5)
    ]
    primals, tangents = (x[None], 1, w, b), (dx[None], None, dw, db)
    yield [slope], norms.group_norm_jvp(primals, tangents, eps=eps)
    primals, tangents = (x[None], 1, None, None), (dx[None], None, None, None)
    yield [dx_hat], norms.group_norm_jvp(primals, tangents, eps=eps)


@equation(
    r"""\dd y = (\mat R_r \vec k) \cdot \dd \vec q
    + (\mat R_r^\top \vec q) \cdot \dd \vec k ."""
)
def score_of_a_rotated_key():
    (q, dq), (k, dk) = draw(20, (4,), (4,))
    r, theta = 3.0, np.array([1.0, 0.2])
    R = positions.rope_matrix(r, theta)
    primals, tangents = (q, k, r, theta), (dq, dk, None, None)
    yield (R @ k) @ dq + (R.T @ q) @ dk, positions.rope_score_jvp(primals, tangents)


def cell_arguments(gates, count):
    """Return input, states, weights and biases of a cell of one entry."""
    return draw(
        21, (2,), *[(3,)] * count, (3 * gates, 2), (3 * gates, 3), (3 * gates,), (3 * gates,)
    )


def one_step(pairs):
    """Return the primals and the tangents of a sequence of one step."""
    return tuple((first[None], *rest) for first, *rest in sides(pairs))


@equation(
    r"""\dd \vec h' = \phi'(\vec z) \odot \bigl( \mat W_{ih}\, \dd \vec x
    + \mat W_{hh}\, \dd \vec h + \dd \mat W_{ih}\, \vec x + \dd \mat W_{hh}\, \vec h
    + \dd \vec b \bigr) .""",
    r"""\dd \vec z_t = \mat W_{ih}\, \dd \vec x_t + \dd \mat W_{ih}\, \vec x_t
    + \mat W_{hh}\, \dd \vec h_{t-1} + \dd \mat W_{hh}\, \vec h_{t-1}
    + \dd \vec b_{ih} + \dd \vec b_{hh} .""",
)
def steps_of_an_rnn():
    pairs = cell_arguments(1, 1)
    (x, dx), (h, dh), (W, dW), (V, dV), (b, db), (c, dc) = pairs
    z = W @ x + V @ h + b + c
    dz = W @ dx + dW @ x + V @ dh + dV @ h + db + dc
    yield dz, rate(lambda x, h, W, V, b, c: W @ x + V @ h + b + c, *sides(pairs))
    slope = (1 - np.tanh(z) ** 2) * (W @ dx + V @ dh + dW @ x + dV @ h + (db + dc))
    yield slope, recurrent.rnn_cell_jvp(*sides(pairs))
    yield slope, recurrent.rnn_jvp(*one_step(pairs))[0]


def gates_of(W, V, b, c, x, h):
    return np.split(W @ x + V @ h + b + c, 4)


@definition(
    r"""\dd \vec c' &= \vec f \odot \dd \vec c + \vec c \odot \dd \vec f
    + \vec g \odot \dd \vec i + \vec i \odot \dd \vec g , \\
    \dd \vec h' &= \tanh \vec c' \odot \dd \vec o
    + \vec o \odot (1 - \tanh^2 \vec c') \odot \dd \vec c' .""",
    r"""\dd \vec c_t &= \vec f_t \odot \dd \vec c_{t-1} + \vec c_{t-1} \odot \dd \vec f_t
    + \vec g_t \odot \dd \vec i_t + \vec i_t \odot \dd \vec g_t , \\
    \dd \vec h_t &= \tanh \vec c_t \odot \dd \vec o_t
    + \vec o_t \odot (1 - \tanh^2 \vec c_t) \odot \dd \vec c_t .""",
)
def step_of_an_lstm():
    pairs = cell_arguments(4, 2)
    (x, dx), (h, dh), (c, dc), *weights = pairs
    inputs, moved = ([w for w, _ in weights], [d for _, d in weights])
    values = gates_of(*inputs, x, h)
    rates = [
        rate(lambda *a, k=k: gates_of(*a)[k], (*inputs, x, h), (*moved, dx, dh)) for k in range(4)
    ]
    i, f, o = (sigmoid(values[k]) for k in (0, 1, 3))
    g = np.tanh(values[2])
    di, df, do = (sigmoid(values[k]) * sigmoid(-values[k]) * rates[k] for k in (0, 1, 3))
    dg = (1 - g**2) * rates[2]
    new = f * c + i * g
    dnew = f * dc + c * df + g * di + i * dg
    dh_new = np.tanh(new) * do + o * (1 - np.tanh(new) ** 2) * dnew
    yield from zip(recurrent.lstm_cell_jvp(*sides(pairs)), (dh_new, dnew), strict=True)
    yield from zip(recurrent.lstm_jvp(*one_step(pairs)), (dh_new[None], dnew[None]), strict=True)


@definition(
    r"""\dd \vec h' = \vec z \odot \dd \vec h + (1 - \vec z) \odot \dd \vec n
    + (\vec h - \vec n) \odot \dd \vec z .""",
    r"""\dd \vec h_t = \vec z \odot \dd \vec h_{t-1} + (1 - \vec z) \odot \dd \vec n
    + (\vec h_{t-1} - \vec n) \odot \dd \vec z .""",
)
def step_of_a_gru():
    pairs = cell_arguments(3, 1)
    (_x, _), (h, dh), *_ = pairs

    def parts(x, h, W, V, b, c):
        a, s = np.split(W @ x + b, 3), np.split(V @ h + c, 3)
        r, z = sigmoid(a[0] + s[0]), sigmoid(a[1] + s[1])
        return np.stack([z, np.tanh(a[2] + r * s[2])])

    z, n = parts(*sides(pairs)[0])
    dz, dn = rate(parts, *sides(pairs))
    move = z * dh + (1 - z) * dn + (h - n) * dz
    yield move, recurrent.gru_cell_jvp(*sides(pairs))
    yield move[None], recurrent.gru_jvp(*one_step(pairs))
