"""The displayed equations of latent attention, one head and one token after the other."""

import numpy as np
from equations.ledger import equation
from equations.numeric import gradients, rate

from dlref.attention import (
    LatentAttentionParams,
    latent_attention,
    latent_attention_jvp,
    latent_attention_vjp,
)
from dlref.formulas.normalization import rms_norm
from dlref.positions import rope_tables

RNG = np.random.default_rng(0)
T, D, H, N, R, V, QUERIES, LATENT = 3, 5, 2, 2, 4, 3, 4, 3
X, U = RNG.normal(size=(T, D)), RNG.normal(size=(T, 6))
W = tuple(
    RNG.normal(size=shape)
    for shape in (
        (QUERIES, D), (QUERIES,), (H * (N + R), QUERIES), (LATENT + R, D), (LATENT,),
        (H * N, LATENT), (H * V, LATENT), (6, H * V),
    )
)  # fmt: skip
P = LatentAttentionParams(*W)
FREQUENCIES = np.array([1.0, 0.3])
TOLD = {"num_heads": H, "rope": rope_tables(np.arange(T), FREQUENCIES), "eps": 0.1}
HEADS, TOKENS = range(H), range(T)


def rms(z, weight):
    return rms_norm(z, weight, eps=0.1)


def rotation(i):
    """Return the matrix that turns neighbors by the angles of position i."""
    out = np.zeros((R, R))
    for pair, angle in enumerate(i * FREQUENCIES):
        c, s = np.cos(angle), np.sin(angle)
        out[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = [[c, -s], [s, c]]
    return out


def rows(w, h, size):
    return w[h * size : (h + 1) * size]


def down(x, w):
    """Return the latents before the norm, and the shared keys."""
    both = [w[3] @ x[j] for j in TOKENS]
    return [y[:LATENT] for y in both], [y[LATENT:] for y in both]


def latents(x, w):
    return [rms(z, w[4]) for z in down(x, w)[0]]


def low(x, w):
    """Return the latents of the queries."""
    return [rms(w[0] @ x[i], w[1]) for i in TOKENS]


def queries(x, w):
    """Return both parts of the queries, by head and token."""
    both = [[rows(w[2], h, N + R) @ c for c in low(x, w)] for h in HEADS]
    return [[y[:N] for y in head] for head in both], [[y[N:] for y in head] for head in both]


def keys(x, w):
    return [[rows(w[5], h, N) @ c for c in latents(x, w)] for h in HEADS]


def values(x, w):
    return [[rows(w[6], h, V) @ c for c in latents(x, w)] for h in HEADS]


def averages(q, r, k, t, v):
    """Return the averages of all heads, merged, one row for each token."""
    c, out = 1 / np.sqrt(N + R), []
    for i in TOKENS:
        row = []
        for h in HEADS:
            s = [
                c * (q[h][i] @ k[h][j] + (rotation(i) @ r[h][i]) @ (rotation(j) @ t[h][j]))
                for j in range(i + 1)
            ]
            p = np.exp(s) / np.sum(np.exp(s))
            row.append(sum(p[j] * v[h][j] for j in range(i + 1)))
        out.append(np.concatenate(row))
    return np.array(out)


def forward(x, *w):
    shared = down(x, w)[1]
    o = averages(*queries(x, w), keys(x, w), [shared, shared], values(x, w))
    return o @ w[7].T


@equation(
    r"""\begin{pmatrix} \vec z_j \\ \vec t_j \end{pmatrix} = \mat W_{DKV}\, \vec x_j , \qquad
    \vec c_j = \operatorname{rms}(\vec z_j) , \qquad
    \vec k_{hj} = \mat W_{UK}^{(h)} \vec c_j , \qquad
    \vec v_{hj} = \mat W_{UV}^{(h)} \vec c_j .""",
    r"""\begin{pmatrix} \vec q_{hi} \\ \vec r_{hi} \end{pmatrix} = \mat W_{UQ}^{(h)}
    \operatorname{rms}(\mat W_{DQ}\, \vec x_i) .""",
    r"""s_{hij} = c \bigl( \vec q_{hi} \cdot \vec k_{hj} + (\mat R_i \vec r_{hi}) \cdot
    (\mat R_j \vec t_j) \bigr) , \qquad
    \vec o_{hi} = \sum_j p_{hij} \vec v_{hj} , \qquad
    \vec y_i = \mat W_O \begin{pmatrix} \vec o_{1i} \\ \vdots \\ \vec o_{Hi} \end{pmatrix} .""",
)
def latent_attention_head_by_head():
    yield forward(X, *W), latent_attention(X, P, **TOLD)


@equation(
    r"""\vec q_{hi} \cdot \bigl( \mat W_{UK}^{(h)} \vec c_j \bigr)
    = \bigl( \mat W_{UK}^{(h)\top} \vec q_{hi} \bigr) \cdot \vec c_j , \qquad
    \sum_j p_{hij}\, \mat W_{UV}^{(h)} \vec c_j
    = \mat W_{UV}^{(h)} \sum_j p_{hij}\, \vec c_j ."""
)
def absorption():
    c, p = latents(X, W), RNG.uniform(size=T)
    for h in HEADS:
        q, up, uv = queries(X, W)[0][h][0], rows(W[5], h, N), rows(W[6], h, V)
        yield [q @ (up @ c[j]) for j in TOKENS], [(up.T @ q) @ c[j] for j in TOKENS]
        together = uv @ sum(p[j] * c[j] for j in TOKENS)
        yield sum(p[j] * (uv @ c[j]) for j in TOKENS), together
    yield forward(X, *W), latent_attention(X, P, absorbed=True, **TOLD)


def of_heads():
    """Return the gradients of q, r, k, t and v of each head, and the merged averages."""
    shared = down(X, W)[1]
    at = (*queries(X, W), keys(X, W), [shared, shared], values(X, W))
    at = [np.array(a) for a in at]
    return gradients(lambda *a: np.sum(U * (averages(*a) @ W[7].T)), *at), averages(*at)


def latents_gradients():
    (_, _, gk, gt, gv), _ = of_heads()
    dc = [
        sum(rows(W[5], h, N).T @ gk[h, j] + rows(W[6], h, V).T @ gv[h, j] for h in HEADS)
        for j in TOKENS
    ]
    # the rotation of the shared key is part of `averages`, and so its transpose of gt
    return dc, [sum(gt[h, j] for h in HEADS) for j in TOKENS]


@equation(
    r"""\pdv{L}{\vec c_j} = \sum_h \bigl( \mat W_{UK}^{(h)\top} \vec g^k_{hj}
    + \mat W_{UV}^{(h)\top} \vec g^v_{hj} \bigr) , \qquad
    \pdv{L}{\vec t_j} = \mat R_j^\top \sum_h \vec g^t_{hj} ."""
)
def gradients_of_the_latents():
    dc, dt = latents_gradients()

    def loss(c, t):
        k = [[rows(W[5], h, N) @ c[j] for j in TOKENS] for h in HEADS]
        v = [[rows(W[6], h, V) @ c[j] for j in TOKENS] for h in HEADS]
        return np.sum(U * (averages(*queries(X, W), k, [t, t], v) @ W[7].T))

    by_c, by_t = gradients(loss, np.array(latents(X, W)), np.array(down(X, W)[1]))
    yield by_c, dc
    yield by_t, dt

    def turned(t):  # of keys that are rotated already
        back = [[rotation(j).T @ t[h][j] for j in TOKENS] for h in HEADS]
        q, r = queries(X, W)
        return np.sum(U * (averages(q, r, keys(X, W), back, values(X, W)) @ W[7].T))

    shared = down(X, W)[1]
    (g,) = gradients(turned, np.array(2 * [[rotation(j) @ shared[j] for j in TOKENS]]))
    yield by_t, [rotation(j).T @ sum(g[h, j] for h in HEADS) for j in TOKENS]


@equation(
    r"""\pdv{L}{\mat W_{UK}^{(h)}} = \sum_j \vec g^k_{hj}\, \vec c_j^\top , \qquad
    \pdv{L}{\mat W_{UV}^{(h)}} = \sum_j \vec g^v_{hj}\, \vec c_j^\top , \qquad
    \pdv{L}{\mat W_O} = \sum_i \vec u_i\, \vec o_i^\top ,"""
)
def gradients_of_the_projections_up():
    (_, _, gk, _, gv), o = of_heads()
    c = latents(X, W)
    of_uk = [sum(np.outer(gk[h, j], c[j]) for j in TOKENS) for h in HEADS]
    of_uv = [sum(np.outer(gv[h, j], c[j]) for j in TOKENS) for h in HEADS]
    of_o = sum(np.outer(U[i], o[i]) for i in TOKENS)
    want = gradients(lambda x, *w: np.sum(U * forward(x, *w)), X, *W)
    got = latent_attention_vjp(U, X, P, **TOLD)[1]
    yield want[6], np.concatenate(of_uk), got.w_uk
    yield want[7], np.concatenate(of_uv), got.w_uv
    yield want[8], of_o, got.w_o


@equation(
    r"""\pdv{L}{\mat W_{DKV}} = \sum_j \begin{pmatrix} \vec g^z_j \\ \pdv{L}{\vec t_j} \end{pmatrix}
    \vec x_j^\top , \qquad
    \pdv{L}{\vec x_i} = \mat W_{DQ}^\top \vec g_i + \mat W_{DKV}^\top
    \begin{pmatrix} \vec g^z_i \\ \pdv{L}{\vec t_i} \end{pmatrix} ."""
)
def gradients_of_the_projections_down():
    dc, dt = latents_gradients()
    (gq, gr, *_), _ = of_heads()
    z = down(X, W)[0]
    gz = [gradients(lambda z, j=j: dc[j] @ rms(z, W[4]), z[j])[0] for j in TOKENS]
    both = [np.concatenate([gz[j], dt[j]]) for j in TOKENS]
    dlow = [
        sum(rows(W[2], h, N + R).T @ np.concatenate([gq[h, i], gr[h, i]]) for h in HEADS)
        for i in TOKENS
    ]
    g = [gradients(lambda z, i=i: dlow[i] @ rms(z, W[1]), W[0] @ X[i])[0] for i in TOKENS]
    want = gradients(lambda x, *w: np.sum(U * forward(x, *w)), X, *W)
    dx, got = latent_attention_vjp(U, X, P, **TOLD)
    yield want[4], sum(np.outer(both[j], X[j]) for j in TOKENS), got.w_dkv
    yield want[0], [W[0].T @ g[i] + W[3].T @ both[i] for i in TOKENS], dx


@equation(
    r"""\dot{\vec k}_{hj} = \dot{\mat W}_{UK}^{(h)} \vec c_j + \mat W_{UK}^{(h)} \dot{\vec c}_j ,
    \qquad
    \dot{\vec v}_{hj} = \dot{\mat W}_{UV}^{(h)} \vec c_j + \mat W_{UV}^{(h)} \dot{\vec c}_j ,"""
)
def tangents_of_keys_and_values():
    dx, moves = RNG.normal(size=X.shape), tuple(RNG.normal(size=w.shape) for w in W)
    c, dc = latents(X, W), rate(lambda x, *w: latents(x, w), (X, *W), (dx, *moves))
    for f, place, size in ((keys, 5, N), (values, 6, V)):
        by_hand = [
            [rows(moves[place], h, size) @ c[j] + rows(W[place], h, size) @ dc[j] for j in TOKENS]
            for h in HEADS
        ]
        yield rate(lambda x, *w, f=f: f(x, w), (X, *W), (dx, *moves)), by_hand
    got = latent_attention_jvp((X, P), (dx, LatentAttentionParams(*moves)), **TOLD)
    yield rate(forward, (X, *W), (dx, *moves)), got
