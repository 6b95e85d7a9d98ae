"""Equations of routers and mixtures of experts."""

import functools
import itertools

import numpy as np
from equations.evaluate import Of
from equations.ledger import reads
from equations.numeric import gradients, jacobian_of, rate

from dlref.formulas.activations import sigmoid, silu
from dlref.transformer import (
    ExpertParams,
    GatedFeedForwardParams,
    load_balancing_loss,
    load_balancing_loss_grad,
    mixture_of_experts,
    router_z_loss,
    router_z_loss_grad,
    top_k_router,
)

RNG = np.random.default_rng(0)
N, D, F, T, K, M = 5, 3, 4, 6, 2, 2.5
X, WEIGHT, BIAS = RNG.normal(size=(T, D)), RNG.normal(size=(N, D)), RNG.normal(size=N)
SCORES = ("softmax", "sigmoid")
LIMIT, SHIFT = 0.7, 1.0
SHAPES = (N, F, D), (N, F, D), (N, D, F), (N, F), (N, F), (N, D)
EXPERTS = ExpertParams(*(RNG.normal(size=shape) for shape in SHAPES))
SHARED = GatedFeedForwardParams(*(RNG.normal(size=s) for s in ((F, D), (F, D), (D, F))))
GATE = RNG.normal(size=(1, D))


def scored(z, score):
    if score == "sigmoid":
        return 1 / (1 + np.exp(-z))
    e = np.exp(z)
    return e / e.sum(-1, keepdims=True)


def chosen(score):
    return top_k_router(X, WEIGHT, k=K, bias=BIAS, score=score).experts


def weights(s, at, normalize=True):
    """Return the weights of the chosen experts."""
    some = np.array([[s[t, e] for e in at[t]] for t in range(T)])
    return M * some / (some.sum(1, keepdims=True) if normalize else 1)


def clipped(x, least):
    """Clip by the real part."""
    x = np.where(x.real > LIMIT, LIMIT, x)
    return np.where(x.real < -LIMIT, -LIMIT, x) if least else x


def expert(x, e, p=EXPERTS):
    a, b = p.w_gate[e] @ x + p.b_gate[e], p.w_up[e] @ x + p.b_up[e]
    return p.w_down[e] @ (silu(clipped(a, False)) * (clipped(b, True) + SHIFT)) + p.b_down[e]


@reads(r"s_e = \frac{e^{z_e}}{\sum_f e^{z_f}} \quad \text{or} \quad s_e = \sigma(z_e), \qquad w_e…")
def scores_and_weights():
    rows = []
    for branch, score in enumerate(SCORES):
        options = {"bias": BIAS, "score": score, "scale": M}
        found, z = top_k_router(X, WEIGHT, k=K, **options), X @ WEIGHT.T + BIAS
        plain = top_k_router(X, WEIGHT, k=K, normalize=False, **options)
        np.testing.assert_allclose(plain.weights, weights(found.scores, found.experts, False))
        for t in range(T):
            w = np.zeros(N)
            w[found.experts[t]] = found.weights[t]
            row = {"z": z[t], "s": found.scores[t], "w": w, "C": {*map(int, found.experts[t])}}
            rows.append({**row, "m": M, r"\sigma": sigmoid, "branch": branch})
    return rows


@reads(
    r"g_e = v_e + [\, e \in C \,]\, \frac{m}{S} \Bigl( u_e - \sum_{f \in C} u_f\, \frac{s_f}{S}…",
    r"\pdv{L}{z_e} = s_e \Bigl( g_e - \sum_f s_f g_f \Bigr) \quad \text{(softmax)}…",
)
def gradients_of_a_router_by_complex_step():
    rows, z = [], X @ WEIGHT.T
    for t, score in itertools.product(range(T), SCORES):
        at = top_k_router(X, WEIGHT, k=K, score=score).experts[t]
        u, v = np.zeros(N), RNG.normal(size=N)
        u[at] = RNG.normal(size=K)

        def loss(s, u=u, v=v, at=at):
            return M * np.sum(u * s) / np.sum(s[at]) + np.sum(v * s)

        s = scored(z[t], score)
        row = {"z": z[t], "s": s, "C": {*map(int, at)}, "S": np.sum(s[at]), "m": M, "u": u, "v": v}
        row["L"] = Of(lambda z, loss=loss, score=score: loss(scored(z, score)), "z")
        rows.append({**row, "g": jacobian_of(loss, s), "branch": score})
    return rows


@reads(r"\dot s_e = s_e \Bigl( \dot z_e - \sum_f s_f \dot z_f \Bigr) \quad \text{or}…")
def tangents_of_a_router_by_complex_step():
    rows, z = [], X @ WEIGHT.T
    for t, (branch, score) in itertools.product(range(T), enumerate(SCORES)):
        at = top_k_router(X, WEIGHT, k=K, score=score).experts[t]
        s = Of(functools.partial(scored, score=score), "z")
        total = Of(lambda s, at=at: np.sum(s[at]), "s")
        row = {"z": z[t], "s": s, "C": {*map(int, at)}, "S": total, "m": M, "branch": branch}
        rows.append({**row, "w": Of(lambda s, S: M * s / S, "s", "S")})
    return rows


@reads(
    r"L = n \sum_e f_e P_e , \qquad f_e = \frac1N \sum_t [\, e \in C_t \,], \qquad P_e…",
    r"\pdv{L}{s_{te}} = \frac{n}{N} f_e .",
)
def balance():
    s, at = scored(X @ WEIGHT.T, "softmax"), chosen("softmax")
    chosen_by = [{*map(int, row)} for row in at]
    loss, slope = load_balancing_loss(s, at), load_balancing_loss_grad(s, at)
    given = {"L": loss, r"\pdv{L}{s}": slope, "s": s, "n": N, "N": T}
    return {**given, "C": lambda t: chosen_by[t], "e": range(N), "t": range(T)}


@reads(
    r"L = \frac1N \sum_t \Bigl( \log \sum_e e^{z_{te}} \Bigr)^2",
    r"\pdv{L}{z_{te}} = \frac2N\, p_{te} \log \sum_f e^{z_{tf}} .",
)
def z_loss():
    z = X @ WEIGHT.T
    slope = {r"\pdv{L}{z}": router_z_loss_grad(z), "p": scored(z, "softmax"), "z": z}
    return {**slope, "L": router_z_loss(z), "N": T}


def shared(x):
    return SHARED.w_down @ (silu(SHARED.w_gate @ x) * (SHARED.w_up @ x))


@reads(r"\vec y = \sum_{e \in C} w_e\, N_e(\vec x) + \sigma(\vec g \cdot \vec x)\, N(\vec x)…")
def mixture():
    options = {"k": K, "scale": M, "router_bias": BIAS, "limit": LIMIT, "shift": SHIFT}
    options |= {"shared": SHARED, "shared_gate": GATE}
    y, at = mixture_of_experts(X, WEIGHT, EXPERTS, **options), chosen("softmax")
    some = weights(scored(X @ WEIGHT.T + BIAS, "softmax"), at)
    given = {"g": GATE[0], r"\sigma": sigmoid, r"\ell": LIMIT, r"\delta": SHIFT, "f": silu}
    given |= {"W^d": EXPERTS.w_down, "b^d": EXPERTS.b_down}

    def network(e):
        """Return what an expert does, or the shared network."""
        return functools.partial(expert, e=e) if np.ndim(e) == 0 else shared(e)

    rows = []
    for t in range(T):
        w = dict(zip(map(int, at[t]), some[t], strict=True))
        row = {**given, "w": w.__getitem__, "C": {*w}, "N": network, "x": X[t], "y": y[t]}
        for e in w:
            a = EXPERTS.w_gate[e] @ X[t] + EXPERTS.b_gate[e]
            b = EXPERTS.w_up[e] @ X[t] + EXPERTS.b_up[e]
            rows.append({**row, "a": a, "b": b, "e": range(e, e + 1)})
    return rows


@reads(
    r"\pdv{L}{N_e} = w_e\, \vec u, \qquad \pdv{L}{w_e} = \vec u \cdot N_e(\vec x) \quad (e \in C),",
    r"\dot{\vec y} = \sum_{e \in C} \bigl( \dot w_e\, N_e(\vec x) + w_e\, \dot N_e \bigr) ,",
)
def derivatives_of_a_mixture_by_complex_step():
    w, u = RNG.normal(size=K), RNG.normal(size=D)
    at, x = chosen("softmax")[0], X[0]
    outputs = np.array([expert(x, e) for e in at])
    dw, dn = gradients(lambda w, n: u @ sum(w[i] * n[i] for i in range(K)), w, outputs)
    slopes = {r"\pdv{L}{N}": dn, r"\pdv{L}{w}": dw, "u": u, "C": {*range(K)}, "x": x, "w": w}
    wdot, xdot = RNG.normal(size=K), RNG.normal(size=D)
    moved = rate(
        lambda w, x: sum(w[i] * expert(x, e) for i, e in enumerate(at)), (w, x), (wdot, xdot)
    )
    ndot = [rate(lambda x, e=e: expert(x, e), [x], [xdot]) for e in at]
    tangents = {r"\dot y": moved, r"\dot w": wdot, r"\dot N": np.array(ndot)}
    return {**slopes, **tangents, "e": range(K), "N": lambda i: lambda x: expert(x, at[i])}
