"""The displayed equations of losses that are formulas of arrays."""

import numpy as np
from equations.ledger import definition, equation
from equations.numeric import gradients, rate

from dlref.formulas.activations import sigmoid
from dlref.losses import (
    distillation_loss,
    distillation_loss_grad,
    distillation_loss_jvp,
    distillation_loss_vjp,
    dpo_loss,
    dpo_loss_grad,
    dpo_loss_jvp,
    dpo_loss_vjp,
    gaussian_kl,
    gaussian_kl_grad,
    gaussian_kl_jvp,
    gaussian_kl_vjp,
    kl_estimate,
    kl_estimate_grad,
    kl_estimate_jvp,
    kl_estimate_vjp,
)

RNG = np.random.default_rng(0)
MEAN, LOG_VAR, D_MEAN, D_LOG_VAR = RNG.normal(size=(4, 3))


def gaussian(mean, log_var):
    return 0.5 * np.sum(mean**2 + np.exp(log_var) - 1 - log_var)


@equation(
    r"""\ell = \sum_d \int q_d(z) \log \frac{q_d(z)}{p(z)} \dd z
    = \frac12 \sum_d \bigl( \mu_d^2 + e^{s_d} - 1 - s_d \bigr) ."""
)
def integral_of_two_gaussians():
    z = np.linspace(-30, 30, 60001)
    total = 0.0
    for m, v in zip(MEAN, LOG_VAR, strict=True):
        log_q = -0.5 * (z - m) ** 2 / np.exp(v) - 0.5 * v  # without the constant, which cancels
        q = np.exp(log_q) / np.sqrt(2 * np.pi)
        total += np.sum(q * (log_q + 0.5 * z**2)) * (z[1] - z[0])
    yield total, gaussian(MEAN, LOG_VAR), gaussian_kl(MEAN, LOG_VAR)


@equation(
    r"""\pdv{\ell}{\mu_d} = \mu_d , \qquad
    \pdv{\ell}{s_d} = \frac{e^{s_d} - 1}{2} .""",
    r"""\pdv{L}{\mu_d} = u\, \mu_d , \qquad
    \pdv{L}{s_d} = \frac u2 \bigl( e^{s_d} - 1 \bigr) .""",
    r"""\dot\ell = \sum_d \Bigl( \mu_d\, \dot\mu_d + \frac{e^{s_d} - 1}{2}\,
    \dot s_d \Bigr) .""",
)
def derivatives_of_the_gaussian_divergence():
    want = gradients(gaussian, MEAN, LOG_VAR)
    by_hand = MEAN, (np.exp(LOG_VAR) - 1) / 2
    got, pulled = gaussian_kl_grad(MEAN, LOG_VAR), gaussian_kl_vjp(1.5, MEAN, LOG_VAR)
    for a, b, c, d in zip(want, by_hand, got, pulled, strict=True):
        yield a, b, c
        yield 1.5 * a, d
    yield 1.5 * want[1], 1.5 / 2 * (np.exp(LOG_VAR) - 1)
    moved = sum(MEAN[d] * D_MEAN[d] + (np.exp(LOG_VAR[d]) - 1) / 2 * D_LOG_VAR[d] for d in range(3))
    pushed = gaussian_kl_jvp((MEAN, LOG_VAR), (D_MEAN, D_LOG_VAR))
    yield rate(gaussian, (MEAN, LOG_VAR), (D_MEAN, D_LOG_VAR)), moved, pushed


LOG_P, LOG_REF = np.log(RNG.dirichlet(np.ones(5), 2))
RHO = LOG_REF - LOG_P
KINDS = {
    "k1": lambda p, ref: -(ref - p),
    "k2": lambda p, ref: (ref - p) ** 2 / 2,
    "k3": lambda p, ref: np.exp(ref - p) - 1 - (ref - p),
}


@definition(
    r"k_1 = -\rho , \qquad k_2 = \tfrac12 \rho^2 , \qquad k_3 = e^\rho - 1 - \rho .",
)
def three_estimates():
    for kind, want in zip(KINDS, (-RHO, RHO**2 / 2, np.exp(RHO) - 1 - RHO), strict=True):
        yield want, kl_estimate(LOG_P, LOG_REF, kind=kind, reduction="none")


@equation(
    r"\E_p[k_1] = \E_p[k_3] = \sum_x p(x) \log \frac{p(x)}{p_{ref}(x)} .",
)
def means_of_two_estimates():
    p, ref = np.exp(LOG_P), np.exp(LOG_REF)
    divergence = sum(p[x] * np.log(p[x] / ref[x]) for x in range(5))
    yield p @ KINDS["k1"](LOG_P, LOG_REF), p @ KINDS["k3"](LOG_P, LOG_REF), divergence


@equation(
    r"""\dv{k_1}{\log p} = 1 , \qquad \dv{k_2}{\log p} = -\rho , \qquad
    \dv{k_3}{\log p} = 1 - e^\rho .""",
    r"""\pdv{L}{\log p} = u\, (1 - e^\rho) , \qquad
    \pdv{L}{\log p_{ref}} = -u\, (1 - e^\rho) .""",
    r"\dot k_3 = (e^\rho - 1)\, \dot\rho .",
)
def derivatives_of_estimates():
    told = {"reduction": "sum"}
    for (kind, f), want in zip(KINDS.items(), (1 + 0 * RHO, -RHO, 1 - np.exp(RHO)), strict=True):
        (grad,) = gradients(lambda p, f=f: np.sum(f(p, LOG_REF)), LOG_P)
        yield grad, want, kl_estimate_grad(LOG_P, LOG_REF, kind=kind, **told)
    both = gradients(lambda *x: 1.5 * np.sum(KINDS["k3"](*x)), LOG_P, LOG_REF)
    got = kl_estimate_vjp(1.5, LOG_P, LOG_REF, **told)
    yield both[0], 1.5 * (1 - np.exp(RHO)), got[0]
    yield both[1], -1.5 * (1 - np.exp(RHO)), got[1]
    dp, dref = RNG.normal(size=(2, 5))
    by_hand = sum((np.exp(RHO[x]) - 1) * (dref[x] - dp[x]) for x in range(5))
    pushed = kl_estimate_jvp((LOG_P, LOG_REF), (dp, dref), **told)
    moved = rate(lambda *x: np.sum(KINDS["k3"](*x)), (LOG_P, LOG_REF), (dp, dref))
    yield moved, by_hand, pushed


ANSWERS = tuple(RNG.normal(size=(2, 2, 4)))
BETA, E = 0.7, 0.2
DPO = {"beta": BETA, "label_smoothing": E}


def preferences(p, ref):
    z = BETA * ((p - ref)[0] - (p - ref)[1])
    return z, -(1 - E) * np.log(sigmoid(z)) - E * np.log(sigmoid(-z))


@definition(
    r"""z = \beta\, (g_1 - g_2) , \qquad
    \ell = -(1 - \epsilon) \log \sigma(z) - \epsilon \log \sigma(-z) ."""
)
def loss_of_preferences():
    yield preferences(*ANSWERS)[1], dpo_loss(*ANSWERS, reduction="none", **DPO)


@equation(
    r"""\dv{\ell}{z} = \epsilon\, \sigma(z) - (1 - \epsilon)\, \sigma(-z) , \qquad
    \pdv{\ell}{\log p_1} = \beta \dv{\ell}{z} = -\pdv{\ell}{\log p_2} .""",
    r"""\pdv{L}{\log p_k} = (-1)^{k - 1} u \beta\, \ell' , \qquad
    \pdv{L}{\log p_{ref, k}} = (-1)^k u \beta\, \ell' , \qquad k = 1, 2 .""",
    r"""\dot\ell = \beta \bigl( \epsilon\, \sigma(z) - (1 - \epsilon)\, \sigma(-z) \bigr)
    (\dot g_1 - \dot g_2) .""",
)
def derivatives_of_preferences():
    z, _ = preferences(*ANSWERS)
    slope = E * sigmoid(z) - (1 - E) * sigmoid(-z)
    (by_z,) = gradients(
        lambda z: np.sum(-(1 - E) * np.log(sigmoid(z)) - E * np.log(sigmoid(-z))), z
    )
    yield by_z, slope
    dp, dref = gradients(lambda *x: np.sum(preferences(*x)[1]), *ANSWERS)
    yield dp[0], BETA * slope, -dp[1], dpo_loss_grad(*ANSWERS, reduction="sum", **DPO)[0]
    u = RNG.normal(size=4)
    got = dpo_loss_vjp(u, *ANSWERS, reduction="none", **DPO)
    for k in (1, 2):
        sign = (-1) ** (k - 1)
        yield u * dp[k - 1], sign * u * BETA * slope, got[0][k - 1]
        yield u * dref[k - 1], -sign * u * BETA * slope, got[1][k - 1]
    moves = tuple(RNG.normal(size=(2, 2, 4)))
    gain = moves[0] - moves[1]
    by_hand = BETA * slope * (gain[0] - gain[1])
    pushed = dpo_loss_jvp(ANSWERS, moves, reduction="none", **DPO)
    yield rate(lambda *x: preferences(*x)[1], ANSWERS, moves), by_hand, pushed


HOT = 2.0
STUDENT, TEACHER = RNG.normal(size=(2, 4))


def softened(x):
    e = np.exp(x / HOT)
    return e / np.sum(e)


def distilled(kind, z, t):
    p, q = softened(z), softened(t)
    m = (p + q) / 2
    terms = {
        "kl": q * np.log(q / p),
        "reverse": p * np.log(p / q),
        "jsd": (q * np.log(q / m) + p * np.log(p / m)) / 2,
    }
    return HOT**2 * np.sum(terms[kind])


@definition(
    r"""\text{kl:}\quad \ell &= T^2 \sum_c q_c \log \frac{q_c}{p_c} \\
    \text{reverse:}\quad \ell &= T^2 \sum_c p_c \log \frac{p_c}{q_c} \\
    \text{jsd:}\quad \ell &= \frac{T^2}{2} \sum_c \Bigl( q_c \log \frac{q_c}{m_c} + p_c \log
    \frac{p_c}{m_c} \Bigr) , \qquad m_c = \frac{p_c + q_c}{2} ."""
)
def three_divergences():
    for kind in ("kl", "reverse", "jsd"):
        got = distillation_loss(STUDENT, TEACHER, temperature=HOT, kind=kind)
        yield distilled(kind, STUDENT, TEACHER), got


@equation(
    r"""\text{kl:}\quad \pdv{\ell}{z_c} &= T\, (p_c - q_c) \\
    \text{reverse:}\quad \pdv{\ell}{z_c} &= T\, p_c \Bigl( \log \frac{p_c}{q_c} - D \Bigr) \\
    \text{jsd:}\quad \pdv{\ell}{z_c} &= \frac T2\, p_c \Bigl( \log \frac{p_c}{m_c} - \sum_j p_j
    \log \frac{p_j}{m_j} \Bigr) ."""
)
def gradients_of_three_divergences():
    p, q = softened(STUDENT), softened(TEACHER)
    m = (p + q) / 2
    by_hand = {
        "kl": HOT * (p - q),
        "reverse": HOT * p * (np.log(p / q) - np.sum(p * np.log(p / q))),
        "jsd": HOT / 2 * p * (np.log(p / m) - np.sum(p * np.log(p / m))),
    }
    for kind, want in by_hand.items():
        (grad,) = gradients(lambda z, kind=kind: distilled(kind, z, TEACHER), STUDENT)
        yield grad, want, distillation_loss_grad(STUDENT, TEACHER, temperature=HOT, kind=kind)


@equation(
    r"""\pdv{L}{z_c} = u\, T\, (p_c - q_c) , \qquad
    \pdv{L}{t_c} = u\, T\, q_c \Bigl( \log \frac{q_c}{p_c} - D \Bigr) .""",
    r"""\dot\ell = T \sum_c \Bigl( (p_c - q_c)\, \dot z_c + q_c \Bigl( \log \frac{q_c}{p_c}
    - D \Bigr)\, \dot t_c \Bigr) .""",
)
def both_derivatives_of_distillation():
    p, q = softened(STUDENT), softened(TEACHER)
    D = np.sum(q * np.log(q / p))
    want = gradients(lambda z, t: 1.5 * distilled("kl", z, t), STUDENT, TEACHER)
    got = distillation_loss_vjp(1.5, STUDENT, TEACHER, temperature=HOT)
    yield want[0], 1.5 * HOT * (p - q), got[0]
    yield want[1], 1.5 * HOT * q * (np.log(q / p) - D), got[1]
    dz, dt = RNG.normal(size=(2, 4))
    by_hand = HOT * sum(
        (p[c] - q[c]) * dz[c] + q[c] * (np.log(q[c] / p[c]) - D) * dt[c] for c in range(4)
    )
    moved = rate(lambda z, t: distilled("kl", z, t), (STUDENT, TEACHER), (dz, dt))
    pushed = distillation_loss_jvp((STUDENT, TEACHER), (dz, dt), temperature=HOT)
    yield moved, by_hand, pushed
