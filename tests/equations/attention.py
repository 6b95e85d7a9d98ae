"""The displayed equations of dlref.attention."""

import itertools

import numpy as np
from equations.ledger import equation
from equations.numeric import gradients, rate

from dlref.attention import (
    AttentionParams,
    additive_attention,
    attention_distance,
    attention_entropy,
    attention_rollout,
    attention_scores,
    attention_shares,
    attention_weights,
    block_mask,
    causal_mask,
    chunk_mask,
    differential_attention,
    differential_attention_jvp,
    differential_attention_vjp,
    document_mask,
    forgetting_bias,
    forgetting_bias_jvp,
    forgetting_bias_vjp,
    indexer_scores,
    indexer_scores_jvp,
    indexer_scores_vjp,
    linear_attention,
    merge_attention,
    merge_attention_jvp,
    merge_attention_vjp,
    multi_head_attention,
    multiplicative_attention,
    padding_mask,
    prefix_mask,
    recurrent_linear_attention,
    recurrent_linear_attention_vjp,
    repeat_kv,
    scaled_dot_product_attention,
    select_keys,
    tree_mask,
    window_mask,
)
from dlref.formulas.activations import softmax

RNG = np.random.default_rng(0)
T, S, E, V = 3, 4, 5, 2
Q, K, VALUES = RNG.normal(size=(T, E)), RNG.normal(size=(S, E)), RNG.normal(size=(S, V))
QKV = Q, K, VALUES
U = RNG.normal(size=(T, V))  # cotangent of an output
DQ, DK, DVALUES = (RNG.normal(size=x.shape) for x in QKV)


def attend(q, k, v):
    return softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v


A_UNITS, D_K = 3, 6
KEYS = RNG.normal(size=(S, D_K))
W, W_U, A = RNG.normal(size=(A_UNITS, E)), RNG.normal(size=(A_UNITS, D_K)), RNG.normal(size=A_UNITS)
ADDITIVE = Q, KEYS, VALUES, W, W_U, A


def additive_scores(q, k, w, u, a):
    return np.tanh((q @ w.T)[:, None] + (k @ u.T)[None]) @ a


def additive(q, k, v, w, u, a):
    return softmax(additive_scores(q, k, w, u, a)) @ v


@equation(
    r"s_{ij} = \vec a^\top \tanh(\mat W \vec q_i + \mat U \vec k_j), \qquad p_{ij} = "
    r"\frac{e^{s_{ij}}}{\sum_m e^{s_{im}}}, \qquad \vec o_i = \sum_j p_{ij} \vec v_j .",
)
def additive_scores_weights_and_averages():
    s = np.array([[A @ np.tanh(W @ q + W_U @ k) for k in KEYS] for q in Q])
    p = np.array([[np.exp(s[i, j]) / np.exp(s[i]).sum() for j in range(S)] for i in range(T)])
    o = np.array([sum(p[i, j] * VALUES[j] for j in range(S)) for i in range(T)])
    out, weights = additive_attention(*ADDITIVE, return_weights=True)
    yield p, weights
    yield o, out


@equation(
    r"\pdv{L}{p_{ij}} &= \vec u_i \cdot \vec v_j, \qquad \pdv{L}{\vec v_j} = \sum_i p_{ij} "
    r"\vec u_i \\ d_{ij} = \pdv{L}{s_{ij}} &= p_{ij} \Bigl( \pdv{L}{p_{ij}} - \sum_m p_{im} "
    r"\pdv{L}{p_{im}} \Bigr) && \text{(softmax)} \\ \pdv{L}{\vec a} &= \sum_{ij} d_{ij} \vec "
    r"h_{ij}, \qquad \vec\delta_{ij} = d_{ij}\, \vec a \odot (1 - \vec h_{ij}^2) && "
    r"\text{(tanh)} \\ \pdv{L}{\mat W} &= \sum_i \Bigl( \sum_j \vec\delta_{ij} \Bigr) \vec "
    r"q_i^\top, \qquad \pdv{L}{\vec q_i} = \mat W^\top \sum_j \vec\delta_{ij} && \text{(sum over "
    r"keys)} \\ \pdv{L}{\mat U} &= \sum_j \Bigl( \sum_i \vec\delta_{ij} \Bigr) \vec k_j^\top, "
    r"\qquad \pdv{L}{\vec k_j} = \mat U^\top \sum_i \vec\delta_{ij} && \text{(sum over queries)} ,",
)
def additive_gradients_by_complex_step():
    s = additive_scores(Q, KEYS, W, W_U, A)
    p, h = softmax(s), np.tanh((Q @ W.T)[:, None] + (KEYS @ W_U.T)[None])
    dp = np.array([[U[i] @ VALUES[j] for j in range(S)] for i in range(T)])
    yield dp, gradients(lambda p: np.sum(U * (p @ VALUES)), p)[0]
    expected = gradients(lambda *x: np.sum(U * additive(*x)), *ADDITIVE)
    yield expected[2], np.einsum("ij,iv->jv", p, U)
    d = p * (dp - np.sum(p * dp, axis=1, keepdims=True))
    yield gradients(lambda s: np.sum(U * (softmax(s) @ VALUES)), s)[0], d
    yield expected[5], np.einsum("ij,ija->a", d, h)
    delta = d[..., None] * A * (1 - h**2)
    before = np.arctanh(h)
    yield gradients(lambda x: np.sum(U * (softmax(np.tanh(x) @ A) @ VALUES)), before)[0], delta
    yield expected[3], sum(np.outer(delta[i].sum(0), Q[i]) for i in range(T))
    yield expected[0], np.array([W.T @ delta[i].sum(0) for i in range(T)])
    yield expected[4], sum(np.outer(delta[:, j].sum(0), KEYS[j]) for j in range(S))
    yield expected[1], np.array([W_U.T @ delta[:, j].sum(0) for j in range(S)])


@equation(
    r"\dot{\vec h}_{ij} &= (1 - \vec h_{ij}^2) \odot (\dot{\mat W} \vec q_i + \mat W \dot{\vec "
    r"q}_i + \dot{\mat U} \vec k_j + \mat U \dot{\vec k}_j), \\ \dot s_{ij} &= \dot{\vec a} "
    r"\cdot \vec h_{ij} + \vec a \cdot \dot{\vec h}_{ij}, \qquad \dot p_{ij} = p_{ij} \Bigl( "
    r"\dot s_{ij} - \sum_m p_{im} \dot s_{im} \Bigr), \\ \dot{\vec o}_i &= \sum_j \dot p_{ij} "
    r"\vec v_j + p_{ij} \dot{\vec v}_j .",
)
def additive_tangents_by_complex_step():
    tangents = dq, dk, dv, dw, du, da = [RNG.normal(size=x.shape) for x in ADDITIVE]
    h = np.tanh((Q @ W.T)[:, None] + (KEYS @ W_U.T)[None])
    p = softmax(h @ A)
    inner = [
        [dw @ Q[i] + W @ dq[i] + du @ KEYS[j] + W_U @ dk[j] for j in range(S)] for i in range(T)
    ]
    dh = (1 - h**2) * np.array(inner)
    hidden = rate(
        lambda q, k, w, u: np.tanh((q @ w.T)[:, None] + (k @ u.T)[None]),
        (Q, KEYS, W, W_U),
        (dq, dk, dw, du),
    )
    yield hidden, dh
    ds = h @ da + dh @ A
    yield rate(additive_scores, (Q, KEYS, W, W_U, A), (dq, dk, dw, du, da)), ds
    dp = p * (ds - np.sum(p * ds, axis=1, keepdims=True))
    yield rate(softmax, [h @ A], [ds]), dp
    yield rate(additive, ADDITIVE, tangents), dp @ VALUES + p @ dv


@equation(
    r"d_i = \sum_j p_{ij}\, |j - i - \text{offset}| .",
)
def distance():
    p, offset = softmax(RNG.normal(size=(T, S))), 2
    d = [sum(p[i, j] * abs(j - i - offset) for j in range(S)) for i in range(T)]
    yield d, attention_distance(p, q_offset=offset)


@equation(
    r"H = -\sum_j p_j \log p_j, \qquad 0 \log 0 = 0 .",
)
def entropy():
    p = np.array([0.2, 0.5, 0.3])
    yield -sum(x * np.log(x) for x in p), attention_entropy(p), attention_entropy([0, *p])


@equation(
    r"\pdv{L}{p_j} = -u\, (\log p_j + 1) .",
)
def entropy_gradient_by_complex_step():
    p, u = softmax(RNG.normal(size=S)), 1.7
    yield gradients(lambda p: -u * np.sum(p * np.log(p)), p)[0], -u * (np.log(p) + 1)


@equation(
    r"\dot H = -\sum_j (\log p_j + 1)\, \dot p_j ,",
)
def entropy_tangent_by_complex_step():
    p, dp = softmax(RNG.normal(size=S)), RNG.normal(size=S)
    yield rate(lambda p: -np.sum(p * np.log(p)), [p], [dp]), -np.sum((np.log(p) + 1) * dp)


LAYERS, HEADS, SHARE = 3, 2, 0.3
MAPS = softmax(RNG.normal(size=(LAYERS, HEADS, T, T)))


def mixtures(maps):
    return SHARE * np.eye(T) + (1 - SHARE) / HEADS * maps.sum(1)


def rollout(maps):
    first, second, third = mixtures(maps)
    return third @ second @ first


@equation(
    r"\mat A_l = r\, \mat I + \frac{1 - r}{H} \sum_h \mat P_{lh}, \qquad \mat R = \mat A_L "
    r"\cdots \mat A_2 \mat A_1 .",
)
def rollout_of_three_layers():
    a = [SHARE * np.eye(T) + (1 - SHARE) / HEADS * sum(MAPS[n]) for n in range(LAYERS)]
    yield a[2] @ a[1] @ a[0], attention_rollout(MAPS, residual=SHARE)


@equation(
    r"d\mat R = \mat B\, d\mat A_l\, \mat C \quad\Rightarrow\quad \pdv{L}{\mat A_l} = \mat "
    r"B^\top \mat U \mat C^\top, \qquad \pdv{L}{\mat P_{lh}} = \frac{1 - r}{H} \pdv{L}{\mat "
    r"A_l} .",
)
def rollout_gradient_by_complex_step():
    c, a, b = mixtures(MAPS)  # the middle one of three
    u, da = RNG.normal(size=(T, T)), RNG.normal(size=(T, T))
    yield rate(lambda a: b @ a @ c, [a], [da]), b @ da @ c
    gradient = b.T @ u @ c.T
    yield gradients(lambda a: np.sum(u * (b @ a @ c)), a)[0], gradient
    of_maps = gradients(lambda maps: np.sum(u * rollout(maps)), MAPS)[0]
    for head in range(HEADS):
        yield of_maps[1, head], (1 - SHARE) / HEADS * gradient


@equation(
    r"\dot{\mat R}_l = \dot{\mat A}_l \mat R_{l-1} + \mat A_l \dot{\mat R}_{l-1} .",
)
def rollout_tangent_by_complex_step():
    a, da = mixtures(MAPS), RNG.normal(size=(LAYERS, T, T))
    r, dr = np.eye(T), np.zeros((T, T))
    for layer in range(LAYERS):
        r, dr = a[layer] @ r, da[layer] @ r + a[layer] @ dr
        yield r, np.linalg.multi_dot([*a[layer::-1], np.eye(T)])
    yield rate(lambda a: a[2] @ a[1] @ a[0], [a], [da]), dr


SCALE, CAP = 0.8, 1.5
B = RNG.normal(size=(T, S))


def capped(q, k, b):
    return CAP * np.tanh(SCALE * (q @ k.T) / CAP) + b


@equation(
    r"s_{ij} = a \tanh \Bigl( \frac{c\, \vec q_i \cdot \vec k_j}{a} \Bigr) + b_{ij} \quad "
    r"\text{or} \quad -\infty ,",
)
def scores_with_cap_and_bias():
    dots = np.array([[q @ k for k in K] for q in Q])
    s = CAP * np.tanh(SCALE * dots / CAP) + B
    mask = np.array([[True, False, True, True]] * T)
    options = {"bias": B, "scale": SCALE, "softcap": CAP}
    yield s, attention_scores(Q, K, **options)
    yield np.where(mask, s, -np.inf), attention_scores(Q, K, mask=mask, **options)


@equation(
    r"r_{ij} = (1 - t_{ij}^2)\, u_{ij}, \qquad \pdv{L}{\vec q_i} = c \sum_j r_{ij} \vec k_j, "
    r"\qquad \pdv{L}{\vec k_j} = c \sum_i r_{ij} \vec q_i .",
)
def score_gradients_by_complex_step():
    u, t = RNG.normal(size=(T, S)), np.tanh(SCALE * (Q @ K.T) / CAP)
    dq, dk, db = gradients(lambda *x: np.sum(u * capped(*x)), Q, K, B)
    r = (1 - t**2) * u
    before = SCALE * (Q @ K.T)
    yield gradients(lambda x: np.sum(u * CAP * np.tanh(x / CAP)), before)[0], r
    yield dq, np.array([SCALE * sum(r[i, j] * K[j] for j in range(S)) for i in range(T)])
    yield dk, np.array([SCALE * sum(r[i, j] * Q[i] for i in range(T)) for j in range(S)])
    yield db, u


@equation(
    r"\dot s_{ij} = (1 - t_{ij}^2)\, c\, (\dot{\vec q}_i \cdot \vec k_j + \vec q_i \cdot "
    r"\dot{\vec k}_j) + \dot b_{ij} ,",
)
def score_tangents_by_complex_step():
    db, t = RNG.normal(size=(T, S)), np.tanh(SCALE * (Q @ K.T) / CAP)
    inner = [[DQ[i] @ K[j] + Q[i] @ DK[j] for j in range(S)] for i in range(T)]
    ds = (1 - t**2) * SCALE * np.array(inner) + db
    yield rate(capped, (Q, K, B), (DQ, DK, db)), ds


@equation(
    r"p_{ij} = \frac{e^{s_{ij}}}{e^{\sigma} + \sum_m e^{s_{im}}}",
)
def weights_with_a_sink():
    s, sink = Q @ K.T / np.sqrt(E), 0.4
    p = [[np.exp(s[i, j]) / (np.exp(sink) + sum(np.exp(s[i]))) for j in range(S)] for i in range(T)]
    yield p, attention_weights(Q[None], K[None], sink=[sink])[0]


def weights_of(scores, sink):
    e = np.exp(scores)
    return e / (np.exp(sink) + e.sum(-1, keepdims=True))


@equation(
    r"d_{ij} = p_{ij} \Bigl( u_{ij} - \sum_m p_{im} u_{im} \Bigr),",
)
def softmax_gradient_by_complex_step():
    u, p = RNG.normal(size=(T, S)), weights_of(B, 0.4)
    d = p * (u - np.sum(p * u, axis=1, keepdims=True))
    yield gradients(lambda s: np.sum(u * weights_of(s, 0.4)), B)[0], d


@equation(
    r"\dot p_{ij} = p_{ij} \Bigl( \dot s_{ij} - \sum_m p_{im} \dot s_{im} \Bigr) .",
)
def softmax_tangent_by_complex_step():
    ds, dsink = RNG.normal(size=(T, S)), 0.7
    p, left = weights_of(B, 0.4), 1 - weights_of(B, 0.4).sum(-1, keepdims=True)
    mean = np.sum(p * ds, axis=1, keepdims=True) + left * dsink
    yield rate(weights_of, (B, 0.4), (ds, dsink)), p * (ds - mean)


def phi(x):
    return np.where(x.real > 0, x + 1, np.exp(x))  # ELU + 1


def linear(a, b, v):
    weights = a @ b.T
    return weights @ v / weights.sum(1, keepdims=True)


@equation(
    r"\vec o_i = \frac{\sum_j \bigl( \phi(\vec q_i) \cdot \phi(\vec k_j) \bigr)\, \vec v_j} "
    r"{\sum_j \phi(\vec q_i) \cdot \phi(\vec k_j)} = \frac{\phi(\vec q_i)^\top \bigl( \sum_j "
    r"\phi(\vec k_j)\, \vec v_j^\top \bigr)} {\phi(\vec q_i)^\top \sum_j \phi(\vec k_j)} .",
)
def linear_attention_in_both_orders():
    dots = [[phi(q) @ phi(k) for k in K] for q in Q]
    first = [sum(dots[i][j] * VALUES[j] for j in range(S)) / sum(dots[i]) for i in range(T)]
    memory, total = sum(np.outer(phi(K[j]), VALUES[j]) for j in range(S)), sum(map(phi, K))
    second = [phi(q) @ memory / (phi(q) @ total) for q in Q]
    yield first, second, linear_attention(Q, K, VALUES)


@equation(
    r"\vec g_i = \Bigl( \frac{\vec u_i}{z_i},\; -\frac{\vec u_i \cdot \vec o_i}{z_i} \Bigr),",
    r"\pdv{L}{\vec a_i} = \sum_j (\vec g_i \cdot \vec c_j)\, \vec b_j, \qquad \pdv{L}{\vec "
    r"b_j} = \sum_i (\vec c_j \cdot \vec g_i)\, \vec a_i, \qquad \pdv{L}{\vec c_j} = \sum_i "
    r"(\vec b_j \cdot \vec a_i)\, \vec g_i .",
)
def linear_attention_gradients_by_complex_step():
    a, b = phi(Q), phi(K)
    c = np.column_stack([VALUES, np.ones(S)])
    sums = np.array([sum((a[i] @ b[j]) * c[j] for j in range(S)) for i in range(T)])
    n, z = sums[:, :V], sums[:, V]
    o = n / z[:, None]
    g = np.array([[*(U[i] / z[i]), -(U[i] @ o[i]) / z[i]] for i in range(T)])
    yield gradients(lambda s: np.sum(U * (s[:, :V] / s[:, V:])), sums)[0], g

    def loss(a, b, c):
        s = a @ b.T @ c
        return np.sum(U * (s[:, :V] / s[:, V:]))

    da, db, dc = gradients(loss, a, b, c)
    yield da, np.array([sum((g[i] @ c[j]) * b[j] for j in range(S)) for i in range(T)])
    yield db, np.array([sum((c[j] @ g[i]) * a[i] for i in range(T)) for j in range(S)])
    yield dc, np.array([sum((b[j] @ a[i]) * g[i] for i in range(T)) for j in range(S)])


@equation(
    r"(\dot{\vec n}_i, \dot z_i) = \sum_j (\dot{\vec a}_i \cdot \vec b_j + \vec a_i \cdot "
    r"\dot{\vec b}_j)\, \vec c_j + (\vec a_i \cdot \vec b_j)\, (\dot{\vec v}_j, 0), \qquad "
    r"\dot{\vec o}_i = \frac{\dot{\vec n}_i - \dot z_i \vec o_i}{z_i} .",
)
def linear_attention_tangents_by_complex_step():
    a, b, c = phi(Q), phi(K), np.column_stack([VALUES, np.ones(S)])
    z = np.sum(a @ b.T, axis=1)
    moved = np.zeros((T, V + 1))
    for i in range(T):
        for j in range(S):
            moved[i] += (DQ[i] @ b[j] + a[i] @ DK[j]) * c[j]
            moved[i] += (a[i] @ b[j]) * np.array([*DVALUES[j], 0])
    dn, dz = moved[:, :V], moved[:, V:]
    yield rate(lambda a, b, v: a @ b.T @ v, (a, b, VALUES), (DQ, DK, DVALUES)), dn
    yield rate(lambda a, b: np.sum(a @ b.T, axis=1, keepdims=True), (a, b), (DQ, DK)), dz
    do = (dn - dz * linear(a, b, VALUES)) / z[:, None]
    yield rate(linear, (a, b, VALUES), (DQ, DK, DVALUES)), do


@equation(
    r"\vec q_{hi} = \mat W_Q^{(h)} \vec x_i + \vec b_Q^{(h)}, \qquad \vec o_{hi} = \sum_j "
    r"p_{hij} \vec v_{hj}, \qquad \vec y_i = \mat W_O \begin{pmatrix} \vec o_{1i} \\ \vdots \\ "
    r"\vec o_{Hi} \end{pmatrix} + \vec b_O .",
    r"\vec y_i = \vec b_O + \sum_h \sum_j p_{hij}\, \mat W_O^{(h)} \mat W_V^{(h)} \vec x_j ,",
)
def heads_side_by_side():
    heads, width, out = 2, 4, 5
    x = RNG.normal(size=(T, 6))
    w_q, w_k, w_v = RNG.normal(size=(3, heads, width, 6))
    b_q, b_k, b_v = RNG.normal(size=(3, heads, width))
    w_o, b_o = RNG.normal(size=(out, heads * width)), RNG.normal(size=out)
    blocks = np.split(w_o, heads, axis=1)

    def result(b_v):
        q = [[w_q[h] @ x[i] + b_q[h] for i in range(T)] for h in range(heads)]
        k = [[w_k[h] @ x[i] + b_k[h] for i in range(T)] for h in range(heads)]
        v = [[w_v[h] @ x[i] + b_v[h] for i in range(T)] for h in range(heads)]
        p = [softmax(np.array(q[h]) @ np.array(k[h]).T / np.sqrt(width)) for h in range(heads)]
        o = [[sum(p[h][i, j] * v[h][j] for j in range(T)) for i in range(T)] for h in range(heads)]
        y = [w_o @ np.concatenate([o[h][i] for h in range(heads)]) + b_o for i in range(T)]
        weights = [m.reshape(heads * width, 6) for m in (w_q, w_k, w_v)]
        params = AttentionParams(*weights, w_o, b_q.ravel(), b_k.ravel(), b_v.ravel(), b_o)
        return p, y, multi_head_attention(x, x, params, num_heads=heads)

    yield result(b_v)[1:]
    p, y, computed = result(0 * b_v)  # the sum over heads has no bias of the values
    for i in range(T):
        terms = [p[h][i, j] * (blocks[h] @ w_v[h] @ x[j]) for h in range(heads) for j in range(T)]
        yield b_o + sum(terms), y[i], computed[i]


FORM = RNG.normal(size=(E, D_K))


@equation(
    r"s_{ij} = c\, \vec q_i^\top \mat W \vec k_j, \qquad \vec o_i = \sum_j "
    r"\frac{e^{s_{ij}}}{\sum_m e^{s_{im}}} \vec v_j ,",
)
def bilinear_scores_and_averages():
    for c in (1.0, 0.3):
        s = np.array([[c * q @ FORM @ k for k in KEYS] for q in Q])
        e = np.exp(s)
        o = [sum(e[i, j] / sum(e[i]) * VALUES[j] for j in range(S)) for i in range(T)]
        yield o, multiplicative_attention(Q, KEYS, VALUES, FORM, scale=c)
    yield o, multiplicative_attention(Q, KEYS, VALUES, c * FORM)


@equation(
    r"\pdv{L}{\vec q_i} = \mat W \vec g_i, \qquad \pdv{L}{\mat W} = \sum_i \vec q_i\, \vec "
    r"g_i^\top .",
)
def bilinear_gradients_by_complex_step():
    dq, dw = gradients(lambda q, w: np.sum(U * (softmax(q @ w @ KEYS.T) @ VALUES)), Q, FORM)
    projected = np.array([FORM.T @ q for q in Q])
    g = gradients(lambda r: np.sum(U * (softmax(r @ KEYS.T) @ VALUES)), projected)[0]
    yield dq, np.array([FORM @ g[i] for i in range(T)])
    yield dw, sum(np.outer(Q[i], g[i]) for i in range(T))


STEPS = 4
MEMORY = (
    RNG.normal(size=(STEPS, E)) / 2,
    RNG.normal(size=(STEPS, E)) / 2,
    RNG.normal(size=(STEPS, V)),
    -RNG.uniform(size=(STEPS, E)),
    RNG.uniform(size=STEPS),
    RNG.normal(size=(E, V)),
)


def remember(q, k, v, g, beta, state):
    """Return all outputs and states, and the states that had faded."""
    outputs, states, faded = [], [state], []
    for t in range(STEPS):
        faded.append(np.diag(np.exp(g[t])) @ states[-1])
        w = v[t] if beta is None else beta[t] * (v[t] - faded[-1].T @ k[t])
        states.append(faded[-1] + np.outer(k[t], w))
        outputs.append(SCALE * states[-1].T @ q[t])
    return np.array(outputs), np.array(states), np.array(faded)


@equation(
    r"\mat S'_t &= \operatorname{diag}(e^{\vec g_t})\, \mat S_{t-1} && \text{(forget)} \\ \vec "
    r"w_t &= \vec v_t \quad \text{or} \quad \beta_t \bigl( \vec v_t - \mat S_t'^\top \vec k_t "
    r"\bigr) && \text{(what to write)} \\ \mat S_t &= \mat S'_t + \vec k_t \vec w_t^\top, "
    r"\qquad \vec o_t = c\, \mat S_t^\top \vec q_t && \text{(write, read)} .",
)
def memory_that_forgets_and_is_corrected():
    q, k, v, g, beta, state = MEMORY
    for rule in beta, None:
        outputs, states, _ = remember(q, k, v, g, rule, state)
        out, last = recurrent_linear_attention(q, k, v, g, rule, state, scale=SCALE)
        yield outputs, out
        yield states[-1], last


@equation(
    r"\mat D &\leftarrow \mat D + c\, \vec q_t \vec u_t^\top, \qquad \pdv{L}{\vec q_t} = c\, "
    r"\mat S_t \vec u_t \\ \vec d_t &= \mat D^\top \vec k_t, \qquad \pdv{L}{\vec k_t} = \mat D "
    r"\vec w_t, \qquad \pdv{L}{\vec v_t} = \beta_t \vec d_t \\ \pdv{L}{\beta_t} &= \vec d_t "
    r"\cdot (\vec v_t - \mat S_t'^\top \vec k_t), \qquad \pdv{L}{\vec k_t} \mathrel{-}= "
    r"\beta_t \mat S'_t \vec d_t, \qquad \mat D \leftarrow \mat D - \beta_t \vec k_t \vec "
    r"d_t^\top \\ \pdv{L}{g_{te}} &= e^{g_{te}} \sum_v D_{ev} S_{t-1,ev}, \qquad \mat D "
    r"\leftarrow \operatorname{diag}(e^{\vec g_t})\, \mat D ,",
)
def memory_gradients_by_complex_step():
    u, last = RNG.normal(size=(STEPS, V)), RNG.normal(size=(E, V))
    q, k, v, g, beta, _ = MEMORY

    def loss(*operands):
        outputs, states, _ = remember(*operands)
        return np.sum(u * outputs) + np.sum(last * states[-1])

    _, states, faded = remember(*MEMORY)
    d_state, result = last, [np.zeros_like(x) for x in MEMORY]
    dq, dk, dv, dg, db, _ = result
    for t in reversed(range(STEPS)):
        w = beta[t] * (v[t] - faded[t].T @ k[t])
        d_state = d_state + SCALE * np.outer(q[t], u[t])
        dq[t] = SCALE * states[t + 1] @ u[t]
        d = d_state.T @ k[t]
        dk[t] = d_state @ w
        dv[t] = beta[t] * d
        db[t] = d @ (v[t] - faded[t].T @ k[t])
        dk[t] -= beta[t] * faded[t] @ d
        d_state = d_state - beta[t] * np.outer(k[t], d)
        dg[t] = np.exp(g[t]) * np.sum(d_state * states[t], axis=1)
        d_state = np.diag(np.exp(g[t])) @ d_state
    yield from zip(gradients(loss, *MEMORY), [dq, dk, dv, dg, db, d_state], strict=True)


class Chunk:
    """All steps of MEMORY as one chunk, pair by pair."""

    def __init__(self, q, k, v, g, beta, state):
        self.sums = np.cumsum(g, axis=0)
        steps = range(STEPS)
        kept = np.exp(self.sums[:, None] - self.sums)  # of step t from step j, by channel
        self.A = np.array(
            [[(j < t) * np.sum(k[t] * kept[t, j] * k[j]) for j in steps] for t in steps]
        )
        self.P = np.array(
            [[(j <= t) * np.sum(q[t] * kept[t, j] * k[j]) for j in steps] for t in steps]
        )
        self.asked, self.read = k * np.exp(self.sums), q * np.exp(self.sums)
        self.written = k * np.exp(self.sums[-1] - self.sums)
        self.B, self.right = np.diag(beta), v - self.asked @ state
        self.W = np.linalg.solve(np.eye(STEPS) + self.B @ self.A, self.B @ self.right)


@equation(
    r"""\mat S_t = \operatorname{diag}(e^{\vec c_t})\, \mat S_0 + \sum_{j \le t}
    \operatorname{diag}(e^{\vec c_t - \vec c_j})\, \vec k_j \vec w_j^\top .""",
    r"""\vec w_t = \beta_t \Bigl( \vec v_t - \mat S_0^\top (e^{\vec c_t} \odot \vec k_t)
    - \sum_{j < t} A_{tj} \vec w_j \Bigr) .""",
    r"""(\mat I + \mat B \mat A)\, \mat W = \mat B\, (\mat V - \tilde{\mat K} \mat S_0) .""",
    r"""\mat O = c\, (\tilde{\mat Q} \mat S_0 + \mat P \mat W) , \qquad
    \mat S_C = \operatorname{diag}(e^{\vec c_C})\, \mat S_0 + \hat{\mat K}^\top \mat W .""",
)
def memory_in_one_chunk():
    _, k, v, _, beta, state = MEMORY
    outputs, states, faded = remember(*MEMORY)
    at = Chunk(*MEMORY)
    w = np.array([beta[t] * (v[t] - faded[t].T @ k[t]) for t in range(STEPS)])
    for t in range(STEPS):
        past = [
            np.diag(np.exp(at.sums[t] - at.sums[j])) @ np.outer(k[j], w[j]) for j in range(t + 1)
        ]
        yield states[t + 1], np.diag(np.exp(at.sums[t])) @ state + sum(past)
        earlier = sum((at.A[t, j] * w[j] for j in range(t)), np.zeros(V))
        yield w[t], beta[t] * (v[t] - state.T @ (np.exp(at.sums[t]) * k[t]) - earlier)
    yield (np.eye(STEPS) + at.B @ at.A) @ w, at.B @ (v - at.asked @ state)
    yield outputs, SCALE * (at.read @ state + at.P @ at.W)
    yield states[-1], np.diag(np.exp(at.sums[-1])) @ state + at.written.T @ at.W
    out, last = recurrent_linear_attention(*MEMORY, scale=SCALE, chunk=STEPS)
    yield outputs, out
    yield states[-1], last


@equation(
    r"""\pdv{L}{\mat W} = c\, \mat P^\top \mat U + \hat{\mat K} \mat D , \qquad
    \mat Z = (\mat I + \mat B \mat A)^{-\top} \pdv{L}{\mat W} , \qquad
    \pdv{L}{\mat V} = \mat B \mat Z .""",
    r"""\pdv{L}{\beta_t} &= \vec z_t \cdot (\mat R - \mat A \mat W)_t , \qquad
    \pdv{L}{\mat A} = -\mat B \mat Z \mat W^\top , \qquad
    \pdv{L}{\mat P} = c\, \mat U \mat W^\top \\
    \pdv{L}{\tilde{\mat K}} &= -\mat B \mat Z \mat S_0^\top , \qquad
    \pdv{L}{\tilde{\mat Q}} = c\, \mat U \mat S_0^\top , \qquad
    \pdv{L}{\hat{\mat K}} = \mat W \mat D^\top \\
    \pdv{L}{\mat S_0} &= \operatorname{diag}(e^{\vec c_C})\, \mat D
    + c\, \tilde{\mat Q}^\top \mat U - \tilde{\mat K}^\top \mat B \mat Z ,""",
)
def memory_gradients_in_one_chunk():
    u, d = RNG.normal(size=(STEPS, V)), RNG.normal(size=(E, V))
    _, _, v, _, beta, state = MEMORY
    at = Chunk(*MEMORY)
    kept = np.exp(at.sums[-1])

    def solved(v, beta, A, asked, state):
        right = beta[:, None] * (v - asked @ state)
        return np.linalg.solve(np.eye(STEPS) + beta[:, None] * A, right)

    def of_rows(w, P, read, written, state):
        last = kept[:, None] * state + written.T @ w
        return np.sum(u * SCALE * (read @ state + P @ w)) + np.sum(d * last)

    def loss(v, beta, A, asked, P, read, written, state):
        return of_rows(solved(v, beta, A, asked, state), P, read, written, state)

    dw = SCALE * at.P.T @ u + at.written @ d
    fixed = at.P, at.read, at.written, state
    yield gradients(lambda w: of_rows(w, *fixed), at.W)[0], dw
    z = np.linalg.solve((np.eye(STEPS) + at.B @ at.A).T, dw)
    found = gradients(loss, v, beta, at.A, at.asked, at.P, at.read, at.written, state)
    below, on = np.tril(np.ones((STEPS, STEPS)), -1), np.tril(np.ones((STEPS, STEPS)))
    yield found[0], at.B @ z
    yield found[1], [z[t] @ (at.right - at.A @ at.W)[t] for t in range(STEPS)]
    yield below * found[2], below * (-at.B @ z @ at.W.T)
    yield found[3], -at.B @ z @ state.T
    yield on * found[4], on * (SCALE * u @ at.W.T)
    yield found[5], SCALE * u @ state.T
    yield found[6], at.W @ d.T
    by_hand = np.diag(kept) @ d + SCALE * at.read.T @ u - at.asked.T @ at.B @ z
    yield found[7], by_hand
    got = recurrent_linear_attention_vjp((u, d), *MEMORY, scale=SCALE, chunk=STEPS)
    yield at.B @ z, got[2]
    yield found[1], got[4]
    yield by_hand, got[5]


@equation(
    r"\dot{\mat S}'_t &= \operatorname{diag}(e^{\vec g_t}) (\dot{\mat S}_{t-1} + "
    r"\operatorname{diag}(\dot{\vec g}_t)\, \mat S_{t-1}), \\ \dot{\vec w}_t &= \dot\beta_t "
    r"(\vec v_t - \mat S_t'^\top \vec k_t) + \beta_t (\dot{\vec v}_t - \dot{\mat S}_t'^\top "
    r"\vec k_t - \mat S_t'^\top \dot{\vec k}_t), \\ \dot{\mat S}_t &= \dot{\mat S}'_t + "
    r"\dot{\vec k}_t \vec w_t^\top + \vec k_t \dot{\vec w}_t^\top, \qquad \dot{\vec o}_t = c\, "
    r"(\dot{\mat S}_t^\top \vec q_t + \mat S_t^\top \dot{\vec q}_t) .",
)
def memory_tangents_by_complex_step():
    tangents = dq, dk, dv, dg, db, ds = [RNG.normal(size=x.shape) for x in MEMORY]
    q, k, v, g, beta, _ = MEMORY
    _, states, faded = remember(*MEMORY)
    do_all, ds_all, dfaded_all = (
        rate(lambda *x, n=n: remember(*x)[n], MEMORY, tangents) for n in range(3)
    )
    for t in range(STEPS):
        dfaded = np.diag(np.exp(g[t])) @ (ds + np.diag(dg[t]) @ states[t])
        yield dfaded_all[t], dfaded
        w = beta[t] * (v[t] - faded[t].T @ k[t])
        dw = db[t] * (v[t] - faded[t].T @ k[t])
        dw = dw + beta[t] * (dv[t] - dfaded.T @ k[t] - faded[t].T @ dk[t])
        ds = dfaded + np.outer(dk[t], w) + np.outer(k[t], dw)
        yield ds_all[t + 1], ds
        yield do_all[t], SCALE * (ds.T @ q[t] + states[t + 1].T @ dq[t])


@equation(
    r"y_{h} = x_{\lfloor h / n \rfloor} .",
)
def heads_side_by_side_copied():
    x, n = RNG.normal(size=(2, S, E)), 3
    yield np.array([x[h // n] for h in range(2 * n)]), repeat_kv(x, n)


@equation(
    r"s_{ij} = \frac{\vec q_i \cdot \vec k_j}{\sqrt E}, \qquad p_{ij} = "
    r"\frac{e^{s_{ij}}}{\sum_m e^{s_{im}}}, \qquad \vec o_i = \sum_j p_{ij} \vec v_j ,",
)
def scores_weights_and_averages():
    s = np.array([[q @ k / np.sqrt(E) for k in K] for q in Q])
    p = np.array([[np.exp(s[i, j]) / np.exp(s[i]).sum() for j in range(S)] for i in range(T)])
    o = np.array([sum(p[i, j] * VALUES[j] for j in range(S)) for i in range(T)])
    out, weights = scaled_dot_product_attention(*QKV, return_weights=True)
    yield s, attention_scores(Q, K)
    yield p, weights
    yield o, out


@equation(
    r"z \leftarrow e^{m - m'} z + \sum_{j\ \text{new}} e^{s_j - m'}, \qquad \vec a \leftarrow "
    r"e^{m - m'} \vec a + \sum_{j\ \text{new}} e^{s_j - m'} \vec v_j ,",
)
def row_taken_in_two_tiles():
    s, v = RNG.normal(size=2 * S), RNG.normal(size=(2 * S, V))
    s[S] = 5  # the second tile has a larger score
    m, m_new, new = s[:S].max(), s.max(), slice(S, None)
    z, a = np.exp(s[:S] - m).sum(), np.exp(s[:S] - m) @ v[:S]
    z = np.exp(m - m_new) * z + np.exp(s[new] - m_new).sum()
    a = np.exp(m - m_new) * a + np.exp(s[new] - m_new) @ v[new]
    yield z, np.sum(np.exp(s - m_new))
    yield a, np.exp(s - m_new) @ v
    yield a / z, softmax(s) @ v


def log_sum_exp(scores):
    return np.log(np.sum(np.exp(scores), axis=-1))


@equation(
    r"d_{ij} = p_{ij} \Bigl( w_{ij} - \sum_m p_{im} w_{im} \Bigr) .",
)
def gradient_of_scores_by_complex_step():
    p = softmax(B)
    w = gradients(lambda p: np.sum(U * (p @ VALUES)), p)[0]
    d = [[p[i, j] * (w[i, j] - sum(p[i] * w[i])) for j in range(S)] for i in range(T)]
    yield gradients(lambda s: np.sum(U * (softmax(s) @ VALUES)), B)[0], d


@equation(
    r"\sum_m p_{im} w_{im} = \sum_m p_{im}\, \vec u_i \cdot \vec v_m = \vec u_i \cdot \sum_m "
    r"p_{im} \vec v_m = \vec u_i \cdot \vec o_i =: D_i .",
)
def the_sum_needs_no_weights():
    p = softmax(B)
    w = gradients(lambda p: np.sum(U * (p @ VALUES)), p)[0]
    for i in range(T):
        yield (
            sum(p[i, m] * w[i, m] for m in range(S)),
            sum(p[i, m] * (U[i] @ VALUES[m]) for m in range(S)),
            U[i] @ sum(p[i, m] * VALUES[m] for m in range(S)),
            U[i] @ (softmax(B) @ VALUES)[i],
        )


@equation(
    r"d_{ij} = p_{ij} (w_{ij} - D_i + u^\ell_i), \qquad p_{ij} = e^{s_{ij} - \ell_i} .",
)
def gradient_of_scores_with_log_sum_exp():
    cotangent, lse = RNG.normal(size=T), log_sum_exp(B)
    p = np.exp(B - lse[:, None])
    yield p, softmax(B)
    w, d_row = U @ VALUES.T, np.sum(U * (p @ VALUES), axis=1)
    d = p * (w - d_row[:, None] + cotangent[:, None])

    def loss(s):
        return np.sum(U * (softmax(s) @ VALUES)) + np.sum(cotangent * log_sum_exp(s))

    yield gradients(loss, B)[0], d


@equation(
    r"\pdv{L}{\vec q_i} = c \sum_j r_{ij} \vec k_j, \qquad \pdv{L}{\vec k_j} = c \sum_i r_{ij} "
    r"\vec q_i .",
)
def gradients_of_queries_and_keys():
    c = 1 / np.sqrt(E)
    dq, dk = gradients(lambda q, k: np.sum(U * attend(q, k, VALUES)), Q, K)
    p, w = softmax(c * (Q @ K.T)), U @ VALUES.T
    r = p * (w - np.sum(p * w, axis=1, keepdims=True))
    yield dq, np.array([c * sum(r[i, j] * K[j] for j in range(S)) for i in range(T)])
    yield dk, np.array([c * sum(r[i, j] * Q[i] for i in range(T)) for j in range(S)])


@equation(
    r"\dot\ell_i = \mu_i, \qquad \dot{\vec o}_i = \sum_j p_{ij} \dot s_{ij} \vec v_j - \mu_i "
    r"\vec o_i + \sum_j p_{ij} \dot{\vec v}_j .",
)
def attention_tangents_by_complex_step():
    s, ds = Q @ K.T / np.sqrt(E), (DQ @ K.T + Q @ DK.T) / np.sqrt(E)
    p = softmax(s)
    mu = np.sum(p * ds, axis=1)
    yield rate(log_sum_exp, [s], [ds]), mu
    o = p @ VALUES
    terms = [sum(p[i, j] * ds[i, j] * VALUES[j] for j in range(S)) - mu[i] * o[i] for i in range(T)]
    yield rate(attend, QKV, (DQ, DK, DVALUES)), np.array(terms) + p @ DVALUES


@equation(
    r"\mat O = \operatorname{softmax} \Bigl( \frac{\mat Q \mat K^\top}{\sqrt E} \Bigr) \mat V ."
)
def attention_in_matrices():
    e = np.exp(Q @ K.T / np.sqrt(E))
    yield (e / e.sum(axis=1, keepdims=True)) @ VALUES, scaled_dot_product_attention(*QKV)


# Statistics, masks and copies: linear maps

OFFSET = 1
P, DP = RNG.normal(size=(2, T, S))
PLACES = np.abs(np.arange(S) - np.arange(T)[:, None] - OFFSET)


@equation(
    r"""\pdv{L}{p_{ij}} = u_i\, |j - i - \text{offset}| .""",
    r"""\dot d_i = \sum_j \dot p_{ij}\, |j - i - \text{offset}| .""",
)
def distance_derivatives_by_complex_step():
    u = RNG.normal(size=T)
    yield gradients(lambda p: np.sum(u[:, None] * p * PLACES), P)[0], u[:, None] * PLACES
    moved = [sum(DP[i, j] * abs(j - i - OFFSET) for j in range(S)) for i in range(T)]
    yield attention_distance(DP, q_offset=OFFSET), moved


def shares(p, offset=OFFSET):
    """Return three weights of each query, 0 where there is no key."""
    keys = [(0, i + offset - 1, i + offset) for i in range(T)]
    return np.array([[p[i, j] if 0 <= j < S else 0 * p[i, 0] for j in keys[i]] for i in range(T)])


@equation(
    r"""\vec a_i = \bigl( p_{i, 0},\; p_{i,\, i + o - 1},\; p_{i,\, i + o} \bigr), \qquad
    o = \text{offset},"""
)
def shares_of_three_keys():
    for o in 0, OFFSET, 2:
        yield shares(P, o), attention_shares(P, q_offset=o)


@equation(
    r"""\pdv{L}{p_{ij}} = u_{i1}\, [j = 0] + u_{i2}\, [j = i + o - 1] + u_{i3}\, [j = i + o] .""",
    r"""\dot{\vec a}_i = \bigl( \dot p_{i, 0},\; \dot p_{i,\, i + o - 1},\; \dot p_{i,\, i + o}
    \bigr) .""",
)
def share_derivatives_by_complex_step():
    u, o, gradient = RNG.normal(size=(T, 3)), OFFSET, np.zeros((T, S))
    for i, j in np.ndindex(T, S):
        gradient[i, j] = u[i, 0] * (j == 0) + u[i, 1] * (j == i + o - 1) + u[i, 2] * (j == i + o)
    yield gradients(lambda p: np.sum(u * shares(p)), P)[0], gradient
    moved = rate(shares, [P], [DP])
    for i in range(T):
        yield moved[i], [DP[i, 0], DP[i, i + o - 1], DP[i, i + o]]


@equation(
    r"""M_{ij} = [\, j \le i + \text{offset} \,] .""",
    r"""M_{ij} = [\, -\text{left} \le j - (i + \text{offset}) \le \text{right} \,] .""",
    r"""M_{n, 1, 1, j} = [\, j < \ell_n \,], \qquad j = 0, \dots, S - 1 .""",
)
def masks_of_each_pair():
    left, right, lengths = 1, 2, [0, 2, 4]
    pairs = np.empty((2, T, S), bool)
    for i, j in np.ndindex(T, S):
        pairs[0, i, j] = j <= i + OFFSET
        pairs[1, i, j] = -left <= j - (i + OFFSET) <= right
    yield pairs[0], causal_mask(T, S, q_offset=OFFSET)
    yield pairs[1], window_mask(T, S, left=left, right=right, q_offset=OFFSET)
    yield [[[[j < n for j in range(S)]]] for n in lengths], padding_mask(lengths, S)


@equation(
    r"""\pdv{L}{x_h} = \sum_{m=0}^{n-1} u_{nh + m} .""",
    r"""\dot y_h = \dot x_{\lfloor h / n \rfloor} .""",
)
def derivatives_of_repeated_heads():
    n, x, dx = 3, *RNG.normal(size=(2, 2, S, E))
    u = RNG.normal(size=(2 * n, S, E))
    dl = gradients(lambda x: np.sum(u * np.repeat(x, n, axis=0)), x)[0]
    yield dl, [sum(u[n * h + m] for m in range(n)) for h in range(2)]
    moved = rate(lambda x: np.repeat(x, n, axis=0), [x], [dx])
    yield moved, [dx[h // n] for h in range(2 * n)]


# Chains of projections

WIDTH, N_HEADS = 4, 2  # of a head, and their number
TOKENS = RNG.normal(size=(T, 6))
PROJECTIONS = (*RNG.normal(size=(3, N_HEADS * WIDTH, 6)), RNG.normal(size=(5, N_HEADS * WIDTH)))
BIASES = *RNG.normal(size=(3, N_HEADS * WIDTH)), RNG.normal(size=5)
SELF = TOKENS, *PROJECTIONS, *BIASES
NOTHING = np.zeros((T, N_HEADS * WIDTH))


def turn(x):
    """Rotate the first two channels of each head by the position."""
    rows = []
    for i, row in enumerate(x):
        c, s = np.cos(i), np.sin(i)
        plane = np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
        rows.append((row.reshape(-1, WIDTH) @ plane.T).ravel())
    return np.array(rows)


def heads_of(q, k, v):
    """Attend per head, and put the outputs side by side."""
    parts = zip(*(np.split(a, N_HEADS, axis=1) for a in (q, k, v)), strict=True)
    return np.concatenate([attend(*part) for part in parts], axis=1)


def project(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, bumps=(NOTHING,) * 4, rotated=NOTHING):
    """Return queries, outputs of the heads and the result; bumps of q, k, v and o."""
    q, k, v = x @ w_q.T + b_q + bumps[0], x @ w_k.T + b_k + bumps[1], x @ w_v.T + b_v + bumps[2]
    o = heads_of(turn(q) + rotated, turn(k), v) + bumps[3]
    return q, o, o @ w_o.T + b_o


@equation(
    r"""\pdv{L}{\mat W_O} = \sum_i \vec u_i\, \vec o_i^\top, \qquad
    \pdv{L}{\vec b_O} = \sum_i \vec u_i, \qquad
    \pdv{L}{\vec o_i} = \mat W_O^\top \vec u_i .""",
    r"""\vec g_{hi} = \mat R_i^\top \pdv{L}{(\mat R_i \vec q_{hi})} .""",
    r"""\pdv{L}{\mat W_Q} &= \sum_i \vec g_i\, \vec x_i^\top, \qquad
    \pdv{L}{\vec b_Q} = \sum_i \vec g_i, \\
    \pdv{L}{\vec x_i} &= \mat W_Q^\top \vec g_i + \mat W_K^\top \vec g^k_i + \mat W_V^\top
    \vec g^v_i .""",
)
def chain_of_gradients_by_complex_step():
    u, (w_q, w_k, w_v, w_o) = RNG.normal(size=(T, 5)), PROJECTIONS

    def loss(*operands, **bumps):
        return np.sum(u * project(*operands, **bumps)[2])

    dx, dw_q, *_, dw_o, db_q, _, _, db_o = gradients(loss, *SELF)
    g_q, g_k, g_v, d_o = gradients(lambda *b: loss(*SELF, bumps=b), *(NOTHING,) * 4)
    o = project(*SELF)[1]
    yield dw_o, sum(np.outer(u[i], o[i]) for i in range(T))
    yield db_o, sum(u)
    yield d_o, np.array([w_o.T @ u[i] for i in range(T)])
    of_rotated = gradients(lambda b: loss(*SELF, rotated=b), NOTHING)[0]
    for i in range(T):
        columns = [turn(np.eye(N_HEADS * WIDTH)[[n] * T])[i] for n in range(N_HEADS * WIDTH)]
        yield g_q[i], np.array(columns) @ of_rotated[i]  # rows are the transposed rotation
    yield dw_q, sum(np.outer(g_q[i], TOKENS[i]) for i in range(T))
    yield db_q, sum(g_q)
    yield dx, np.array([w_q.T @ g_q[i] + w_k.T @ g_k[i] + w_v.T @ g_v[i] for i in range(T)])


@equation(
    r"""\dd \vec q_{hi} = \mat W_Q^{(h)}\, \dd \vec x_i + \dd \mat W_Q^{(h)}\, \vec x_i
    + \dd \vec b_Q^{(h)}, \qquad
    \dd \vec y_i = \mat W_O\, \dd \vec o_i + \dd \mat W_O\, \vec o_i + \dd \vec b_O ,"""
)
def differentials_of_the_projections():
    moves = [np.cos(5 * a + k) for k, a in enumerate(SELF)]  # not drawn: RNG has more to draw
    (x, w_q, _, _, w_o, *_), (dx, dw_q, _, _, dw_o, db_q, _, _, db_o) = SELF, moves
    o = project(*SELF)[1]
    dq, do, dy = (rate(lambda *a, k=k: project(*a)[k], SELF, moves) for k in range(3))
    for i in range(T):
        for h in range(N_HEADS):
            of_head = slice(h * WIDTH, (h + 1) * WIDTH)
            want = w_q[of_head] @ dx[i] + dw_q[of_head] @ x[i] + db_q[of_head]
            yield dq[i, of_head], want
        yield dy[i], w_o @ do[i] + dw_o @ o[i] + db_o


W_GATE, B_GATE = RNG.normal(size=(N_HEADS * WIDTH, 6)), RNG.normal(size=N_HEADS * WIDTH)
Q_NORM, K_NORM = RNG.normal(size=(2, WIDTH))
SHIFT, NORM_EPS = 0.4, 0.05


def logistic(x):
    return 1 / (1 + np.exp(-x))


def normed_rows(x, w):
    """Normalize each head of rows, by the displayed formula."""
    parts = [
        (w + SHIFT) * part / np.sqrt(np.sum(part**2, axis=1, keepdims=True) / WIDTH + NORM_EPS)
        for part in np.split(x, N_HEADS, axis=1)
    ]
    return np.concatenate(parts, axis=1)


def whole(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, q_norm, k_norm, w_gate, b_gate, **bumps):
    """Return the result with norms and a gate; bumps of k, of normed k, of o and of z."""
    q, k, v = x @ w_q.T + b_q, x @ w_k.T + b_k + bumps.get("k", 0), x @ w_v.T + b_v
    normed = normed_rows(k, k_norm) + bumps.get("normed", 0)
    o = heads_of(turn(normed_rows(q, q_norm)), turn(normed), v) + bumps.get("o", 0)
    z = x @ w_gate.T + b_gate + bumps.get("z", 0)
    return o, z, (logistic(z) * o) @ w_o.T + b_o


ALL = *SELF, Q_NORM, K_NORM, W_GATE, B_GATE


@equation(
    r"""\hat{\vec q}_{hi} = \mat R_i \bigl( (\vec w^q + \delta) \odot \vec n_{hi} \bigr), \qquad
    \vec n_{hi} = \frac{\vec q_{hi}}{\rho_{hi}}, \qquad
    \rho_{hi} = \sqrt{\frac1E \sum_e q_{hie}^2 + \epsilon},""",
    r"""\vec y_i = \mat W_O \bigl( \sigma(\mat W_G \vec x_i + \vec b_G) \odot \vec o_i \bigr)
    + \vec b_O .""",
)
def norms_and_gate():
    options = {"num_heads": N_HEADS, "norm_eps": NORM_EPS, "norm_offset": SHIFT}
    angles = np.arange(T)[:, None]
    options["rope"] = np.cos(angles), np.sin(angles)
    yield whole(*ALL)[2], multi_head_attention(TOKENS, TOKENS, AttentionParams(*ALL[1:]), **options)


@equation(
    r"""\pdv{L}{\vec w^k} = \sum_h \sum_j \vec n_{hj} \odot \vec g_{hj}, \qquad
    \pdv{L}{\vec k_{hj}} = \frac{1}{\rho_{hj}} \Bigl( \vec a_{hj} - \vec n_{hj}\,
    \frac{\vec n_{hj} \cdot \vec a_{hj}}{E} \Bigr) .""",
    r"""\pdv{L}{\vec o_i} = \sigma(\vec z_i) \odot \vec u'_i, \qquad
    \pdv{L}{\vec z_i} = \sigma(\vec z_i) \odot \sigma(-\vec z_i) \odot \vec o_i \odot
    \vec u'_i,""",
)
def gradients_of_norms_and_gate_by_complex_step():
    u = RNG.normal(size=(T, 5))

    def loss(*operands, **bumps):
        return np.sum(u * whole(*operands, **bumps)[2])

    def of(name):
        return gradients(lambda b: loss(*ALL, **{name: b}), NOTHING)[0]

    dw = gradients(lambda w: loss(*ALL[:10], w, *ALL[11:]), K_NORM)[0]
    (x, _, w_k, *_), b_k = ALL, ALL[6]
    k = np.split(x @ w_k.T + b_k, N_HEADS, axis=1)
    g, dk, total = (*(np.split(of(n), N_HEADS, axis=1) for n in ("normed", "k")), 0)
    for h in range(N_HEADS):
        for j in range(T):
            rho = np.sqrt(np.mean(k[h][j] ** 2) + NORM_EPS)
            n, a = k[h][j] / rho, (K_NORM + SHIFT) * g[h][j]
            total = total + n * g[h][j]
            yield dk[h][j], (a - n * (n @ a) / WIDTH) / rho
    yield dw, total
    o, z, _ = whole(*ALL)
    back = u @ ALL[4]
    yield of("o"), logistic(z) * back
    yield of("z"), logistic(z) * logistic(-z) * o * back


@equation(
    r"""\dot{\vec q}_i &= \dot{\mat W}_Q \vec x_i + \mat W_Q \dot{\vec x}_i + \dot{\vec b}_Q, \\
    \dot{\vec y}_i &= \dot{\mat W}_O \vec o_i + \mat W_O \dot{\vec o}_i + \dot{\vec b}_O,"""
)
def chain_of_tangents_by_complex_step():
    tangents = dx, dw_q, *_, dw_o, db_q, _, _, db_o = [RNG.normal(size=a.shape) for a in SELF]
    (w_q, *_, w_o), o = PROJECTIONS, project(*SELF)[1]
    dq, do, dy = (rate(lambda *a, n=n: project(*a)[n], SELF, tangents) for n in range(3))
    yield dq, np.array([dw_q @ TOKENS[i] + w_q @ dx[i] + db_q for i in range(T)])
    yield dy, np.array([dw_o @ o[i] + w_o @ do[i] + db_o for i in range(T)])


@equation(
    r"""\dot{\vec r}_i = \mat W^\top \dot{\vec q}_i + \dot{\mat W}^\top \vec q_i, \qquad
    \dot s_{ij} = c\, (\dot{\vec r}_i \cdot \vec k_j + \vec r_i \cdot \dot{\vec k}_j) ."""
)
def bilinear_tangents_by_complex_step():
    dq, dk, dw = (RNG.normal(size=a.shape) for a in (Q, KEYS, FORM))
    r = np.array([FORM.T @ q for q in Q])
    dr = np.array([FORM.T @ dq[i] + dw.T @ Q[i] for i in range(T)])
    yield rate(lambda q, w: q @ w, (Q, FORM), (dq, dw)), dr
    c = 0.3
    ds = [[c * (dr[i] @ KEYS[j] + r[i] @ dk[j]) for j in range(S)] for i in range(T)]
    yield rate(lambda q, k, w: c * (q @ w @ k.T), (Q, KEYS, FORM), (dq, dk, dw)), np.array(ds)


@equation(
    r"""\phi(x) = \begin{cases} x + 1 & x > 0 \\ e^x & x \le 0 \end{cases} \quad (\text{"elu"}),
    \qquad
    \phi(x) = e^x \quad (\text{"exp"}), \qquad \phi(x) = x \quad (\text{"identity"})."""
)
def features_of_linear_attention():
    features = {
        "elu": lambda x: np.array([[z + 1 if z > 0 else np.exp(z) for z in row] for row in x]),
        "exp": np.exp,
        "identity": lambda x: x,
    }
    for name, f in features.items():
        yield linear(f(Q), f(K), VALUES), linear_attention(Q, K, VALUES, feature_map=name)


@equation(
    r"""\pdv{L}{\vec q_i} = \phi'(\vec q_i) \odot \pdv{L}{\vec a_i}, \qquad
    \pdv{L}{\vec k_j} = \phi'(\vec k_j) \odot \pdv{L}{\vec b_j} .""",
    r"""\dot{\vec a}_i = \phi'(\vec q_i) \odot \dot{\vec q}_i, \qquad
    \dot{\vec b}_j = \phi'(\vec k_j) \odot \dot{\vec k}_j .""",
)
def features_between_by_complex_step():
    def slope(x):
        return np.imag(phi(x + 1e-100j)) / 1e-100

    da, db = gradients(lambda a, b: np.sum(U * linear(a, b, VALUES)), phi(Q), phi(K))
    dq, dk = gradients(lambda q, k: np.sum(U * linear(phi(q), phi(k), VALUES)), Q, K)
    yield dq, slope(Q) * da
    yield dk, slope(K) * db
    yield rate(phi, [Q], [DQ]), slope(Q) * DQ
    yield rate(phi, [K], [DK]), slope(K) * DK


@equation(r"M_{ij} = [\, d_i = d'_j \,] .")
def same_document():
    d, other = [0, 0, 2, 1], [1, 0, 2]
    yield [[a == b for b in other] for a in d], document_mask(d, other)


@equation(r"M_{ij} = [\, j \le i \ \text{or} \ j < P \,] .")
def a_prefix_seen_by_all():
    yield [[j <= i or j < 2 for j in range(5)] for i in range(5)], prefix_mask(5, 2)


@equation(
    r"""M_{ij} = [\, j \le i' \ \text{and} \ \lfloor j / C \rfloor
    = \lfloor i' / C \rfloor \,] ."""
)
def causal_in_chunks():
    for offset in (0, 2, -1):
        pairs = [[(i + offset, j) for j in range(7)] for i in range(4)]
        want = [[j <= i and j // 3 == i // 3 for i, j in row] for row in pairs]
        yield want, chunk_mask(4, 7, size=3, q_offset=offset)


@equation(r"M_{ij} = [\, i = j \,] \ \text{or} \ M_{p(i) j} .")
def ancestors():
    parents = [-1, 0, 0, 1, 2, 4]

    def seen(i, j):
        return i == j or (parents[i] >= 0 and seen(parents[i], j))

    yield [[seen(i, j) for j in range(6)] for i in range(6)], tree_mask(parents)


@equation(r"M_{ij} = M'_{\lfloor i / b \rfloor \lfloor j / b \rfloor} .")
def blocks_expanded():
    blocks = np.array([[True, False, True], [False, False, True]])
    yield [[blocks[i // 2, j // 2] for j in range(6)] for i in range(4)], block_mask(blocks, size=2)


PARTS, LSES = RNG.normal(size=(3, T, V)), RNG.normal(size=(3, T))
U_PARTS, U_LSE = RNG.normal(size=(T, V)), RNG.normal(size=T)
D_PARTS, D_LSES = RNG.normal(size=(3, T, V)), RNG.normal(size=(3, T))


def merged(o, lse):
    total = np.log(np.sum(np.exp(lse), 0))
    return np.sum(np.exp(lse - total)[..., None] * o, 0), total


@equation(
    r"""\ell = \log \sum_p e^{\ell_p} , \qquad
    \vec o = \sum_p \sum_{j \in K_p} e^{s_j - \ell}\, \vec v_j
    = \sum_p w_p\, \vec o_p , \qquad w_p = e^{\ell_p - \ell} ."""
)
def parts_of_an_attention():
    s, v = RNG.normal(size=7), RNG.normal(size=(7, V))
    parts = [[0, 3], [1, 2, 6], [4, 5]]
    lse = np.array([np.log(np.exp(s[keys]).sum()) for keys in parts])
    o = np.array([np.exp(s[keys] - z) @ v[keys] for keys, z in zip(parts, lse, strict=True)])
    total = np.log(np.exp(lse).sum())
    whole = sum(np.exp(s[j] - total) * v[j] for keys in parts for j in keys)
    by_parts = sum(np.exp(lse[p] - total) * o[p] for p in range(3))
    out, last = merge_attention(o[:, None], lse[:, None])
    yield whole, by_parts, out[0], softmax(s) @ v
    yield total, last[0], np.log(np.exp(s).sum())


@equation(
    r"""\dd \vec o = \sum_p w_p \bigl( \dd \vec o_p
    + (\vec o_p - \vec o)\, \dd \ell_p \bigr) .""",
    r"""\pdv{L}{\vec o_p} = w_p\, \vec u , \qquad
    \pdv{L}{\ell_p} = w_p \bigl( \vec u \cdot (\vec o_p - \vec o) + u^\ell \bigr) .""",
    r"""\dot{\vec o} = \sum_p w_p \bigl( \dot{\vec o}_p + (\vec o_p - \vec o)\, \dot\ell_p
    \bigr) , \qquad \dot\ell = \sum_p w_p\, \dot\ell_p .""",
)
def derivatives_of_the_merge():
    o, lse = merged(PARTS, LSES)
    w = np.exp(LSES - lse)
    moved = np.sum(w[..., None] * (D_PARTS + (PARTS - o) * D_LSES[..., None]), 0)
    pushed = merge_attention_jvp((PARTS, LSES), (D_PARTS, D_LSES))
    arguments = [PARTS, LSES], [D_PARTS, D_LSES]
    yield rate(lambda *x: merged(*x)[0], *arguments), moved, pushed[0]
    yield rate(lambda *x: merged(*x)[1], *arguments), np.sum(w * D_LSES, 0), pushed[1]

    def loss(o, lse):
        out, total = merged(o, lse)
        return np.sum(U_PARTS * out) + np.sum(U_LSE * total)

    by_hand = w[..., None] * U_PARTS, w * (np.sum(U_PARTS * (PARTS - o), -1) + U_LSE)
    pulled = merge_attention_vjp((U_PARTS, U_LSE), PARTS, LSES)
    yield from zip(gradients(loss, PARTS, LSES), by_hand, pulled, strict=True)


@equation(
    r"""b_{ij} = \begin{cases} \sum_{j < l \le i'} f_l & j \le i' \\ 0 & j > i' \end{cases}""",
)
def forgetting_as_a_bias():
    f = RNG.normal(size=6)
    for offset in (0, 2):
        rows = range(offset, 6)
        want = [[sum(f[j + 1 : i + 1]) if j <= i else 0 for j in range(6)] for i in rows]
        yield want, forgetting_bias(f, q_offset=offset)


@equation(
    r"\pdv{L}{f_l} = \sum_{i' \ge l} \sum_{j < l} u_{ij} .",
    r"""\dot b_{ij} = \begin{cases} \sum_{j < l \le i'} \dot f_l & j \le i' \\ 0 & j > i'
    \end{cases}""",
)
def derivatives_of_forgetting():
    f, df, u = RNG.normal(size=6), RNG.normal(size=6), RNG.normal(size=(4, 6))

    def bias(f):
        rows = [[np.sum(f[j + 1 : i + 1]) if j <= i else 0 for j in range(6)] for i in range(2, 6)]
        return np.array(rows)

    pairs = [(i, j) for i in range(2, 6) for j in range(i)]
    by_hand = [sum(u[i - 2, j] for i, j in pairs if j < l <= i) for l in range(6)]
    (grad,) = gradients(lambda f: np.sum(u * bias(f)), f)
    yield grad, by_hand, forgetting_bias_vjp(u, f, q_offset=2)
    yield rate(bias, [f], [df]), bias(df), forgetting_bias_jvp(f, df, q_offset=2)


INDEXER = RNG.normal(size=(2, T, E)), RNG.normal(size=(S, E)), RNG.normal(size=(T, 2))


def indexed(q, k, w):
    z = np.einsum("hie,je->hij", q, k)
    return np.einsum("ih,hij->ij", w, np.where(z.real > 0, z, 0))


@equation(r"I_{ts} = \sum_h w_{th} \max(\vec q_{th} \cdot \vec k_s, 0)")
def scores_of_the_indexer():
    q, k, w = INDEXER
    rows = [
        [sum(w[t, h] * max(q[h, t] @ k[s], 0) for h in range(2)) for s in range(S)]
        for t in range(T)
    ]
    yield rows, indexer_scores(q, k, w)


@equation(
    r"""\pdv{L}{w_{th}} = \sum_s u_{ts} \max(z_{hts}, 0) , \qquad
    \pdv{L}{\vec q_{th}} = \sum_s g_{hts} \vec k_s , \qquad
    \pdv{L}{\vec k_s} = \sum_{h, t} g_{hts} \vec q_{th} .""",
    r"""\dot I_{ts} = \sum_h \bigl( \dot w_{th} \max(z_{hts}, 0) + w_{th}\, [z_{hts} > 0]
    (\dot{\vec q}_{th} \cdot \vec k_s + \vec q_{th} \cdot \dot{\vec k}_s) \bigr) .""",
)
def derivatives_of_the_indexer():
    q, k, w = INDEXER
    u, moves = RNG.normal(size=(T, S)), [RNG.normal(size=x.shape) for x in INDEXER]
    z = np.einsum("hie,je->hij", q, k)
    g = u * w.T[..., None] * (z > 0)
    dw = np.sum(u * np.maximum(z, 0), -1).T
    by_hand = g @ k, np.einsum("hij,hie->je", g, q), dw
    found = gradients(lambda *x: np.sum(u * indexed(*x)), *INDEXER)
    yield from zip(found, by_hand, indexer_scores_vjp(u, *INDEXER), strict=True)
    dz = np.einsum("hie,je->hij", moves[0], k) + np.einsum("hie,je->hij", q, moves[1])
    pushed = np.einsum("ih,hij->ij", moves[2], np.maximum(z, 0))
    pushed = pushed + np.einsum("ih,hij->ij", w, (z > 0) * dz)
    yield rate(indexed, INDEXER, moves), pushed, indexer_scores_jvp(INDEXER, moves)


@equation(
    r"""\mathcal{S}_t = \operatorname*{argmax}_{\mathcal{S} \subseteq \mathcal{V}_t,\;
    |\mathcal{S}| = \min(k, |\mathcal{V}_t|)} \sum_{s \in \mathcal{S}} I_{ts} ."""
)
def selected_keys():
    scores = RNG.normal(size=(4, 6))
    got = select_keys(scores, count=3, q_offset=1)
    for t in range(4):
        visible = range(min(t + 2, 6))
        sets = itertools.combinations(visible, min(3, len(visible)))
        best = max(sets, key=lambda keys: scores[t, list(keys)].sum())
        yield sorted(best), sorted(got[t][got[t] >= 0])


PAIRS = RNG.normal(size=(4, S, E))


@equation(
    r"""\vec o_i = \sum_j \bigl( p^{(1)}_{ij} - \lambda\, p^{(2)}_{ij} \bigr) \vec v_j
    = \vec o^{(1)}_i - \lambda\, \vec o^{(2)}_i ."""
)
def difference_of_two_maps():
    q1, k1, q2, k2 = PAIRS
    p1, p2 = (softmax(q @ k.T / np.sqrt(E)) for q, k in ((q1, k1), (q2, k2)))
    want = np.einsum("ij,jv->iv", p1 - 0.3 * p2, VALUES)
    yield want, p1 @ VALUES - 0.3 * p2 @ VALUES, differential_attention(*PAIRS, VALUES, 0.3)


@equation(
    r"\pdv{L}{\lambda} = -\sum_{h, i} \vec u_{hi} \cdot \vec o^{(2)}_{hi} ,",
    r"""\dot{\vec o}_i = \dot{\vec o}^{(1)}_i - \lambda\, \dot{\vec o}^{(2)}_i
    - \dot\lambda\, \vec o^{(2)}_i""",
)
def derivatives_of_the_difference():
    u = RNG.normal(size=(S, V))

    def one(q, k, v):
        e = np.exp(q @ k.T / np.sqrt(E))
        return e / e.sum(-1, keepdims=True) @ v

    def f(q1, k1, q2, k2, v, lam):
        return one(q1, k1, v) - lam * one(q2, k2, v)

    operands = [*PAIRS, VALUES, np.array(0.3)]
    moves = [RNG.normal(size=x.shape) for x in operands]
    found = gradients(lambda *x: np.sum(u * f(*x)), *operands)
    yield from zip(found, differential_attention_vjp(u, *operands), strict=True)
    second = one(PAIRS[2], PAIRS[3], VALUES)
    yield found[-1], -np.sum(u * second)
    first = rate(one, [*PAIRS[:2], VALUES], [*moves[:2], moves[4]])
    other = rate(one, [*PAIRS[2:], VALUES], [*moves[2:4], moves[4]])
    by_hand = first - 0.3 * other - moves[5] * second
    yield rate(f, operands, moves), by_hand, differential_attention_jvp(operands, moves)
