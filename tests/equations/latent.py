"""The displayed equations of latent attention, one head and one token after the other."""

import numpy as np
from equations.evaluate import From, Of
from equations.ledger import reads
from equations.numeric import gradients

from dlref.attention import (
    LatentAttentionParams,
    latent_attention,
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


def weights(q, r, k, t):
    """Return the scores and the weights of all heads, by query and key."""
    c = 1 / np.sqrt(N + R)
    s = [[[c * (q[h][i] @ k[h][j] + (rotation(i) @ r[h][i]) @ (rotation(j) @ t[h][j]))
           for j in TOKENS] for i in TOKENS] for h in HEADS]  # fmt: skip
    e = np.exp(np.array(s)) * np.tri(T)
    return np.array(s), e / e.sum(-1, keepdims=True)


def averages(q, r, k, t, v):
    """Return the averages of all heads, merged, one row for each token."""
    p = weights(q, r, k, t)[1]
    heads = [[sum(p[h, i, j] * v[h][j] for j in TOKENS) for i in TOKENS] for h in HEADS]
    return np.concatenate([np.array(head) for head in heads], axis=-1)


def forward(x, *w):
    shared = down(x, w)[1]
    o = averages(*queries(x, w), keys(x, w), [shared, shared], values(x, w))
    return o @ w[7].T


NAMES = "W_{DQ}", "w^q", "W_{UQ}", "W_{DKV}", "w^c", "W_{UK}", "W_{UV}", "W_O"


def flat(w):
    """Return weights whose heads stand below one another."""
    return [a.reshape(-1, a.shape[-1]) if a.ndim == 3 else a for a in w]


def of_latents(**options):
    """Return the environment of the map, with the weights and gradients of each head."""
    parts = [w.reshape(H, -1, w.shape[1]) if k in {2, 5, 6} else w for k, w in enumerate(W)]
    parts = [From(1, w) if w.ndim == 3 else w for w in parts]
    given = {**dict(zip(NAMES, parts, strict=True)), "x": X, "u": U, "H": H}
    z, t = map(np.array, down(X, W))
    (q, r), k = queries(X, W), keys(X, W)
    s, p = weights(q, r, k, [t, t])
    given |= {"z": z, "t": t, r"c_\cdot": np.array(latents(X, W)), "c": (N + R) ** -0.5}
    heads = {"q": q, "r": r, "k": k, "v": values(X, W), "s": s, "p": p}
    (gq, gr, gk, _, gv), _ = of_heads()
    heads |= {"g^k": gk, "g^v": gv}
    given |= {name: From(1, value) for name, value in heads.items()}
    loss = Of(lambda x, *w: np.sum(U * forward(x, *flat(w))), "x", *NAMES)
    both = np.concatenate([gq, gr], -1)
    low = [sum(rows(W[2], h, N + R).T @ both[h, i] for h in HEADS) for i in TOKENS]
    dc, dt = latents_gradients()
    gz = [gradients(lambda z, j=j: dc[j] @ rms(z, W[4]), z[j])[0] for j in TOKENS]
    g = [gradients(lambda z, i=i: low[i] @ rms(z, W[1]), W[0] @ X[i])[0] for i in TOKENS]
    given |= {"L": loss, "g^z": np.array(gz), "g": np.array(g), r"\pdv{L}{t}": np.array(dt)}
    norm = lambda z: rms(z, W[1] if len(z) == QUERIES else W[4])  # noqa: E731
    turns = np.array([rotation(i) for i in TOKENS])
    return {**given, "rms": norm, "R": turns, "y": latent_attention(X, P, **TOLD, **options)}


@reads(
    r"\begin{pmatrix} \vec z_j \\ \vec t_j \end{pmatrix} = \mat W_{DKV}\, \vec x_j , \qquad…",
    r"\begin{pmatrix} \vec q_{hi} \\ \vec r_{hi} \end{pmatrix} = \mat W_{UQ}^{(h)}…",
    r"s_{hij} = c \bigl( \vec q_{hi} \cdot \vec k_{hj} + (\mat R_i \vec r_{hi}) \cdot (\mat R_j…",
    r"\pdv{L}{\mat W_{DKV}} = \sum_j \begin{pmatrix} \vec g^z_j \\ \pdv{L}{\vec t_j}…",
)
def latent_attention_head_by_head():
    return of_latents()


@reads(
    r"\vec q_{hi} \cdot \bigl( \mat W_{UK}^{(h)} \vec c_j \bigr) = \bigl( \mat W_{UK}^{(h)\top}…"
)
def absorption():
    return of_latents(absorbed=True)


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


@reads(r"\pdv{L}{\vec c_j} = \sum_h \bigl( \mat W_{UK}^{(h)\top} \vec g^k_{hj} + \mat…")
def gradients_of_the_latents():
    def loss(c, t):
        k = [[rows(W[5], h, N) @ c[j] for j in TOKENS] for h in HEADS]
        v = [[rows(W[6], h, V) @ c[j] for j in TOKENS] for h in HEADS]
        return np.sum(U * (averages(*queries(X, W), k, [t, t], v) @ W[7].T))

    def turned(t):  # of keys that are rotated already
        back = [[rotation(j).T @ t[h][j] for j in TOKENS] for h in HEADS]
        q, r = queries(X, W)
        return np.sum(U * (averages(q, r, keys(X, W), back, values(X, W)) @ W[7].T))

    shared = down(X, W)[1]
    (g,) = gradients(turned, np.array(2 * [[rotation(j) @ shared[j] for j in TOKENS]]))
    of = {r"\pdv{L}{c}": None, r"\pdv{L}{t}": None}
    of = dict(zip(of, gradients(loss, np.array(latents(X, W)), np.array(shared)), strict=True))
    return {**of_latents(), **of, "g^t": From(1, g)}


@reads(r"\pdv{L}{\mat W_{UK}^{(h)}} = \sum_j \vec g^k_{hj}\, \vec c_j^\top , \qquad \pdv{L}{\mat…")
def gradients_of_the_projections_up():
    got = latent_attention_vjp(U, X, P, **TOLD)[1]
    parts = got.w_uk.reshape(H, N, LATENT), got.w_uv.reshape(H, V, LATENT)
    found = {r"\pdv{L}{W_{UK}}": From(1, parts[0]), r"\pdv{L}{W_{UV}}": From(1, parts[1])}
    env = {**of_latents(), "o": of_heads()[1]}
    return [env, {**env, **found}]


@reads(
    r"\dot{\vec k}_{hj} = \dot{\mat W}_{UK}^{(h)} \vec c_j + \mat W_{UK}^{(h)} \dot{\vec c}_j ,…"
)
def tangents_of_keys_and_values():
    env = of_latents()
    names = {"k": "W_{UK}", "v": "W_{UV}"}
    up = lambda w, c: From(1, np.einsum("hnl,jl->hjn", w, c))  # noqa: E731
    parts = {name: Of(up, weight, r"c_\cdot") for name, weight in names.items()}
    c = Of(lambda x, *w: np.array(latents(x, flat(w))), "x", *NAMES)
    return {**env, **parts, r"c_\cdot": c}
