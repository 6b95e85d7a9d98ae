"""Equations of routers and mixtures of experts."""

import numpy as np
from equations.ledger import equation
from equations.numeric import gradients, rate

from dlref.formulas.activations import silu
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


@equation(
    r"""s_e = \frac{e^{z_e}}{\sum_f e^{z_f}} \quad \text{or} \quad s_e = \sigma(z_e), \qquad
    w_e = m\, \frac{s_e}{\sum_{f \in C} s_f} \quad (e \in C) ,"""
)
def scores_and_weights():
    for score in SCORES:
        s, at = scored(X @ WEIGHT.T + BIAS, score), chosen(score)
        for normalize in (True, False):
            options = {"bias": BIAS, "score": score, "scale": M, "normalize": normalize}
            found = top_k_router(X, WEIGHT, k=K, **options)
            yield s, found.scores
            yield weights(s, at, normalize), found.weights


@equation(
    r"""g_e = v_e + [\, e \in C \,]\, \frac{m}{S} \Bigl( u_e - \sum_{f \in C} u_f\,
    \frac{s_f}{S} \Bigr) ,""",
    r"""\pdv{L}{z_e} = s_e \Bigl( g_e - \sum_f s_f g_f \Bigr) \quad \text{(softmax)}, \qquad
    \pdv{L}{z_e} = s_e (1 - s_e)\, g_e \quad \text{(sigmoid)} .""",
)
def gradients_of_a_router_by_complex_step():
    u, v, z = RNG.normal(size=(T, K)), RNG.normal(size=(T, N)), X @ WEIGHT.T
    for score in SCORES:
        at, s = top_k_router(X, WEIGHT, k=K, score=score).experts, scored(z, score)
        [found] = gradients(lambda s, at=at: np.sum(u * weights(s, at)) + np.sum(v * s), s)
        g = v.copy()
        for t in range(T):
            total = sum(s[t, e] for e in at[t])
            mean = sum(u[t, i] * s[t, e] / total for i, e in enumerate(at[t]))
            for i, e in enumerate(at[t]):
                g[t, e] += M / total * (u[t, i] - mean)
        yield found, g
        [dz] = gradients(
            lambda z, at=at, score=score: (
                np.sum(u * weights(scored(z, score), at)) + np.sum(v * scored(z, score))
            ),
            z,
        )
        if score == "softmax":
            yield dz, s * (g - (s * g).sum(1, keepdims=True))
        else:
            yield dz, s * (1 - s) * g


@equation(
    r"""\dot s_e = s_e \Bigl( \dot z_e - \sum_f s_f \dot z_f \Bigr) \quad \text{or} \quad
    \dot s_e = s_e (1 - s_e)\, \dot z_e, \qquad
    \dot w_e = \frac{m}{S} \Bigl( \dot s_e - \frac{s_e}{S} \sum_{f \in C} \dot s_f \Bigr) ."""
)
def tangents_of_a_router_by_complex_step():
    z, dz = X @ WEIGHT.T, RNG.normal(size=(T, N))
    for score in SCORES:
        at, s = top_k_router(X, WEIGHT, k=K, score=score).experts, scored(z, score)
        ds = s * (dz - (s * dz).sum(1, keepdims=True)) if score == "softmax" else s * (1 - s) * dz
        yield rate(lambda z, score=score: scored(z, score), [z], [dz]), ds
        some, moved = (np.array([[a[t, e] for e in at[t]] for t in range(T)]) for a in (s, ds))
        total = some.sum(1, keepdims=True)
        dw = M / total * (moved - some / total * moved.sum(1, keepdims=True))
        yield rate(lambda z, at=at, score=score: weights(scored(z, score), at), [z], [dz]), dw


@equation(
    r"""L = n \sum_e f_e P_e , \qquad f_e = \frac1N \sum_t [\, e \in C_t \,], \qquad
    P_e = \frac1N \sum_t s_{te} .""",
    r"\pdv{L}{s_{te}} = \frac{n}{N} f_e .",
)
def balance():
    s, at = scored(X @ WEIGHT.T, "softmax"), chosen("softmax")
    f = np.array([sum(e in at[t] for t in range(T)) / T for e in range(N)])
    p = np.array([sum(s[t, e] for t in range(T)) / T for e in range(N)])
    yield N * np.sum(f * p), load_balancing_loss(s, at)
    yield np.array([N / T * f] * T), load_balancing_loss_grad(s, at)


@equation(
    r"L = \frac1N \sum_t \Bigl( \log \sum_e e^{z_{te}} \Bigr)^2",
    r"\pdv{L}{z_{te}} = \frac2N\, p_{te} \log \sum_f e^{z_{tf}} .",
)
def z_loss():
    z = X @ WEIGHT.T
    sums = np.log(np.exp(z).sum(1))
    yield sum(sums**2) / T, router_z_loss(z)
    yield 2 / T * scored(z, "softmax") * sums[:, None], router_z_loss_grad(z)


@equation(
    r"""\vec y = \sum_{e \in C} w_e\, N_e(\vec x) + \sigma(\vec g \cdot \vec x)\, N(\vec x),
    \qquad
    N_e(\vec x) = \mat W^d_e \bigl( f(\min(\vec a, \ell)) \odot
    (\operatorname{clip}(\vec b, -\ell, \ell) + \delta) \bigr) + \vec b^d_e ,"""
)
def mixture():
    at, w = chosen("softmax"), weights(scored(X @ WEIGHT.T + BIAS, "softmax"), chosen("softmax"))
    y = [sum(w[t, i] * expert(X[t], e) for i, e in enumerate(at[t])) for t in range(T)]
    options = {"k": K, "scale": M, "router_bias": BIAS, "limit": LIMIT, "shift": SHIFT}
    yield np.array(y), mixture_of_experts(X, WEIGHT, EXPERTS, **options)
    for t in range(T):
        network = SHARED.w_down @ (silu(SHARED.w_gate @ X[t]) * (SHARED.w_up @ X[t]))
        y[t] = y[t] + network / (1 + np.exp(-GATE[0] @ X[t]))
    options |= {"shared": SHARED, "shared_gate": GATE}
    yield np.array(y), mixture_of_experts(X, WEIGHT, EXPERTS, **options)


@equation(
    r"""\pdv{L}{N_e} = w_e\, \vec u, \qquad
    \pdv{L}{w_e} = \vec u \cdot N_e(\vec x) \quad (e \in C),""",
    r"""\dot{\vec y} = \sum_{e \in C} \bigl( \dot w_e\, N_e(\vec x) + w_e\, \dot N_e \bigr) ,""",
)
def derivatives_of_a_mixture_by_complex_step():
    w, u = RNG.normal(size=K), RNG.normal(size=D)
    at, x = chosen("softmax")[0], X[0]
    outputs = np.array([expert(x, e) for e in at])
    dw, dn = gradients(lambda w, n: u @ sum(w[i] * n[i] for i in range(K)), w, outputs)
    yield dn, np.array([w[i] * u for i in range(K)])
    yield dw, np.array([u @ outputs[i] for i in range(K)])
    wdot, xdot = RNG.normal(size=K), RNG.normal(size=D)
    moved = rate(
        lambda w, x: sum(w[i] * expert(x, e) for i, e in enumerate(at)), (w, x), (wdot, xdot)
    )
    ndot = [rate(lambda x, e=e: expert(x, e), [x], [xdot]) for e in at]
    yield moved, sum(wdot[i] * outputs[i] + w[i] * ndot[i] for i in range(K))
