"""The displayed equations of losses of policies."""

import numpy as np
from equations.ledger import equation
from equations.numeric import gradients, rate

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


@equation(
    r"""g_{it} = \min \bigl( \rho_{it} A_{it} ,\; \operatorname{clip}(\rho_{it},
    1 - \epsilon, 1 + \epsilon_h)\, A_{it} \bigr) , \qquad
    L = -\frac1N \sum_i \frac{1}{n_i} \sum_t g_{it} .""",
    r"""\rho_i^{GSPO} = \exp \Bigl( \frac{1}{|o_i|} \sum_t (\log p_{it} - \log p_{old, it})
    \Bigr) , \qquad
    g_{it}^{CISPO} = \operatorname{sg} \bigl[ \operatorname{clip}(\rho_{it}, 1 - \epsilon,
    1 + \epsilon_h) \bigr]\, A_{it} \log p_{it} .""",
)
def losses_of_policies():
    for kind in DIVISORS:
        yield loss(LOG_P, kind), policy_loss(LOG_P, OLD, A, kind=kind, **OPTIONS)


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


@equation(
    r"""\pdv{L}{\log p_{it}} = -\frac{\rho_{it} A_{it}}{N n_i} \bigl( 1 - [A_{it} > 0]
    [\rho_{it} > 1 + \epsilon_h] - [A_{it} < 0][\rho_{it} < 1 - \epsilon]
    - [A_{it} < 0][\rho_{it} > \delta] \bigr) .""",
    r"""\pdv{L}{\log p_{it}} = -\frac{A_{it}}{N n_i} \operatorname{clip}(\rho_{it}, 1 - \epsilon,
    1 + \epsilon_h) .""",
)
def where_the_gradient_stops():
    for kind in ("ppo", "grpo", "dr_grpo", "cispo"):
        (grad,) = gradients(lambda x, kind=kind: loss(x, kind), LOG_P)
        n, N = DIVISORS[kind]
        by_hand = np.where(MASK, -slopes(kind) / (N * n[:, None]), 0)
        yield grad, by_hand, policy_loss_grad(LOG_P, OLD, A, kind=kind, **OPTIONS)
    rho = ratio(LOG_P, "ppo")
    by_hand = np.where(MASK, -slopes("ppo") / MASK.sum() * (1 - (A < 0) * (rho > DELTA)), 0)
    yield by_hand, policy_loss_grad(LOG_P, OLD, A, delta=DELTA, **OPTIONS)


@equation(
    r"""\pdv{L}{\log p_{it}} = -\frac{\rho_i A_i}{N n_i} \bigl( 1 - [A_i > 0][\rho_i
    > 1 + \epsilon_h] - [A_i < 0][\rho_i < 1 - \epsilon] - [A_i < 0][\rho_i > \delta] \bigr) ."""
)
def one_advantage_and_one_ratio():
    n, N = DIVISORS["gspo"]
    rho = ratio(LOG_P, "gspo")[:, :1]
    for a in (A[:, :1], -A[:, :1]):
        stops = 1 - (a > 0) * (rho > HIGH) - (a < 0) * (rho < LOW) - (a < 0) * (rho > DELTA)
        by_hand = np.where(MASK, -rho * a / (N * n[:, None]) * stops, 0)
        yield by_hand, policy_loss_grad(LOG_P, OLD, a, kind="gspo", delta=DELTA, **OPTIONS)


@equation(
    r"""\pdv{L}{\log p_{it}} = -\frac{u}{N n_i}\, g'_{it} , \qquad
    \pdv{L}{\log p_{it}} = -\frac{u}{N n_i} \frac{1}{|o_i|} \sum_s g'_{is} ,""",
    r"\dot L = -\frac1N \sum_i \frac{1}{n_i} \sum_t g'_{it}\, v_{it} .",
)
def products_of_policies():
    u = 1.7
    for kind, (n, N) in DIVISORS.items():
        slope, v = slopes(kind), DLOG_P
        by_hand = -u / (N * n[:, None]) * slope
        if kind == "gspo":
            sums = [sum(slope[i, s] for s in range(T) if MASK[i, s]) for i in range(G)]
            by_hand = -u / (N * n[:, None]) / LENGTHS[:, None] * np.array(sums)[:, None]
            means = [sum(v[i, t] for t in range(T) if MASK[i, t]) / LENGTHS[i] for i in range(G)]
            v = np.repeat(np.array(means)[:, None], T, axis=1)
        (grad,) = gradients(lambda x, kind=kind: u * loss(x, kind), LOG_P)
        pulled = policy_loss_vjp(u, LOG_P, OLD, A, kind=kind, **OPTIONS)
        by_hand = np.where(MASK, by_hand, 0)
        yield grad, by_hand, pulled
        pushed = policy_loss_jvp((LOG_P, OLD, A), (DLOG_P, None, None), kind=kind, **OPTIONS)
        moved = -sum(slope[i, t] * v[i, t] / n[i] for i, t in PLACES) / N
        yield rate(lambda x, kind=kind: loss(x, kind), (LOG_P,), (DLOG_P,)), moved, pushed
