"""The displayed equations of losses of policies."""

import itertools

import numpy as np
from equations.ledger import equation, reads
from equations.numeric import gradients

from dlref.losses import policy_loss, policy_loss_grad, policy_loss_jvp, policy_loss_vjp

RNG = np.random.default_rng(0)
G, T = 3, 4
LOG_P, OLD, A, DLOG_P = RNG.normal(size=(4, G, T)) / 2
MASK = np.array([[1, 0, 0, 1], [1, 1, 1, 1], [0, 1, 1, 0]], bool)
LENGTHS = MASK.sum(axis=1)
LOW, HIGH = 0.9, 1.3
DELTA = 1.4
OPTIONS = {"clip": 0.1, "clip_high": 0.3, "mask": MASK}
PLACES = [(i, t) for i in range(G) for t in range(T) if MASK[i, t]]
#: n_i and N of each kind.
DIVISORS = {
    "ppo": (np.ones(G), MASK.sum()),
    "cispo": (np.ones(G), MASK.sum()),
    "grpo": (LENGTHS, G),
    "dr_grpo": (np.ones(G), G * T),
    "gspo": (LENGTHS, G),
}


def clip(x):
    return np.where(x.real < LOW, LOW, np.where(x.real > HIGH, HIGH, x))


def least(a, b):
    return np.where(a.real < b.real, a, b)


def ratio(log_p, kind):
    logs = log_p - OLD
    if kind == "gspo":
        means = [sum(logs[i, t] for t in range(T) if MASK[i, t]) / LENGTHS[i] for i in range(G)]
        logs = np.repeat(np.array(means)[:, None], T, axis=1)
    return np.exp(logs)


def gain(log_p, kind):
    rho = ratio(log_p, kind)
    if kind == "cispo":
        return clip(ratio(LOG_P, kind)) * A * log_p  # the ratio is a constant
    return least(rho * A, clip(rho) * A)


def loss(log_p, kind):
    n, N = DIVISORS[kind]
    g = gain(log_p, kind)
    return -sum(g[i, t] / n[i] for i, t in PLACES) / N


def of_policy(kind, sign=1):
    """Return the environment of a loss; where the mask ends an answer, the advantage is 0."""
    n, N = DIVISORS[kind]
    options = {"kind": kind, **OPTIONS}
    return {
        r"\rho": ratio(LOG_P, kind), "A": sign * A * MASK, "N": N, "n": n, r"\delta": np.inf,
        "L": policy_loss(LOG_P, OLD, sign * A, **options), r"\epsilon": 0.1, r"\epsilon_h": 0.3,
        r"\pdv{L}{\log p}": policy_loss_grad(LOG_P, OLD, sign * A, **options),
    }  # fmt: skip


@reads(r"g_{it} = \min \bigl( \rho_{it} A_{it} ,\; \operatorname{clip}(\rho_{it}, 1 - \epsilon, 1…")
def losses_of_policies():
    return [of_policy(kind) for kind in ("ppo", "grpo", "dr_grpo")]


@reads(r"\rho_i^{GSPO} = \exp \Bigl( \frac{1}{|o_i|} \sum_t (\log p_{it} - \log p_{old, it})…")
def ratio_and_gain_of_two_policies():
    for kind in DIVISORS:
        want = policy_loss(LOG_P, OLD, A, kind=kind, **OPTIONS)
        np.testing.assert_allclose(loss(LOG_P, kind), want, rtol=1e-12)
    logs = {
        "t": range(T),
        "i": range(G),
        r"\log p": LOG_P * MASK,
        r"\log p_{old}": OLD * MASK,
    }
    ratios = {r"\rho^{GSPO}": ratio(LOG_P, "gspo")[:, 0], "o": lambda i: range(LENGTHS[i])}
    return {**of_policy("ppo"), **logs, **ratios, "g^{CISPO}": gain(LOG_P, "cispo") * MASK}


@equation(
    r"""\nabla \E_{old} \Bigl[ \frac{p(x)}{p_{old}(x)} A(x) \Bigr] = \E_{old} \Bigl[
    \frac{p(x)}{p_{old}(x)} A(x)\, \nabla \log p(x) \Bigr] = \E_p \bigl[ A(x)\, \nabla \log p(x)
    \bigr] ,"""
)
def gradient_of_a_mean_of_ratios():
    z, old, advantage = RNG.normal(size=5), RNG.dirichlet(np.ones(5)), RNG.normal(size=5)

    def p(z):
        return np.exp(z) / np.sum(np.exp(z))

    (grad,) = gradients(lambda z: np.sum(old * (p(z) / old) * advantage), z)
    logs = [gradients(lambda z, x=x: np.log(p(z)[x]), z)[0] for x in range(5)]
    first = sum(old[x] * (p(z)[x] / old[x]) * advantage[x] * logs[x] for x in range(5))
    yield grad, first, sum(p(z)[x] * advantage[x] * logs[x] for x in range(5))


def slopes(kind):
    rho = ratio(LOG_P, kind)
    if kind == "cispo":
        return clip(rho) * A
    return rho * A * (1 - (A > 0) * (rho > HIGH) - (A < 0) * (rho < LOW))


@reads(r"\pdv{L}{\log p_{it}} = -\frac{\rho_{it} A_{it}}{N n_i} \bigl( 1 - [A_{it} > 0]…")
def where_the_gradient_stops():
    slope = policy_loss_grad(LOG_P, OLD, A, delta=DELTA, **OPTIONS)
    with_delta = {**of_policy("ppo"), r"\pdv{L}{\log p}": slope, r"\delta": DELTA}
    kinds = itertools.product(("ppo", "grpo", "dr_grpo"), (1, -1))
    return [with_delta, *(of_policy(*pair) for pair in kinds)]


@reads(r"\pdv{L}{\log p_{it}} = -\frac{A_{it}}{N n_i} \operatorname{clip}(\rho_{it}, 1 -…")
def gradient_of_cispo():
    return of_policy("cispo")


@reads(r"\pdv{L}{\log p_{it}} = -\frac{\rho_i A_i}{N n_i} \bigl( 1 - [A_i > 0][\rho_i > 1 +…")
def one_advantage_and_one_ratio():
    rows = []
    for a in (A[:, :1], -A[:, :1]):
        slope = policy_loss_grad(LOG_P, OLD, a, kind="gspo", clip=0.1, clip_high=0.3, delta=DELTA)
        rho = np.exp((LOG_P - OLD).mean(axis=1))
        row = {
            r"\pdv{L}{\log p}": slope,
            r"\rho": rho,
            "A": a[:, 0],
            "N": G,
            "n": np.full(G, T),
            "t": range(T),
        }
        rows.append({**row, r"\epsilon": 0.1, r"\epsilon_h": 0.3, r"\delta": DELTA})
    return rows


@reads(r"\pdv{L}{\log p_{it}} = -\frac{u}{N n_i}\, g'_{it} , \qquad \pdv{L}{\log p_{it}}…")
def gradients_of_policies():
    slope = policy_loss_vjp(1.7, LOG_P, OLD, A[:, :1], kind="gspo", clip=0.1, clip_high=0.3)
    rho = np.exp((LOG_P - OLD).mean(axis=1))[:, None]
    stops = 1 - (A[:, :1] > 0) * (rho > HIGH) - (A[:, :1] < 0) * (rho < LOW)
    row = {r"\pdv{L}{\log p}": slope, "g'": np.repeat(rho * A[:, :1] * stops, T, axis=1)}
    return {**row, "u": 1.7, "N": G, "n": np.full(G, T), "o": lambda _: range(T), "t": range(T)}


@reads(r"\dot L = -\frac1N \sum_i \frac{1}{n_i} \sum_t g'_{it}\, v_{it} .")
def tangents_of_policies():
    rows = []
    for kind in ("ppo", "grpo", "dr_grpo", "cispo"):
        moves = DLOG_P, None, None
        pushed = policy_loss_jvp((LOG_P, OLD, A), moves, kind=kind, **OPTIONS)
        row = {r"\dot L": pushed, "g'": slopes(kind) * MASK, "v": DLOG_P}
        rows.append({**of_policy(kind), **row})
    return rows
