"""The displayed equations of losses that are formulas of arrays."""

import functools
import itertools

import numpy as np
from equations.evaluate import From, Of, mapped
from equations.ledger import equation, reads
from equations.numeric import gradients

from dlref.formulas import losses as formulas
from dlref.formulas.activations import sigmoid, softmax
from dlref.losses import (
    info_nce,
    kto_loss_jvp,
    kto_loss_vjp,
    multi_margin_loss_jvp,
    multi_margin_loss_vjp,
    orpo_loss_jvp,
    orpo_loss_vjp,
    sigmoid_focal_loss_jvp,
    sigmoid_focal_loss_vjp,
    sparsemax_loss_jvp,
    sparsemax_loss_vjp,
    triplet_margin_loss_jvp,
    triplet_margin_loss_vjp,
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
    yield total, gaussian(MEAN, LOG_VAR), formulas.gaussian_kl(MEAN, LOG_VAR)


@reads(
    r"""\pdv{\ell}{\mu_d} = \mu_d , \qquad
    \pdv{\ell}{s_d} = \frac{e^{s_d} - 1}{2} .""",
    r"""\pdv{L}{\mu_d} = u\, \mu_d , \qquad
    \pdv{L}{s_d} = \frac u2 \bigl( e^{s_d} - 1 \bigr) .""",
    r"""\dot\ell = \sum_d \Bigl( \mu_d\, \dot\mu_d + \frac{e^{s_d} - 1}{2}\,
    \dot s_d \Bigr) .""",
)
def derivatives_of_the_gaussian_divergence():
    return mapped(formulas.gaussian_kl, {r"\mu": MEAN, "s": LOG_VAR}, r"\ell")


LOG_P, LOG_REF = np.log(RNG.dirichlet(np.ones(5), 2))


def of_estimates():
    """Return the environments of the estimates from one sample."""
    rows = []
    for log_p, log_ref in zip(LOG_P, LOG_REF, strict=True):
        inputs = {r"\log p": log_p, r"\log p_{ref}": log_ref}
        row = mapped(formulas.kl_estimate, inputs, "k_3")
        for kind in ("k1", "k2"):
            f = functools.partial(formulas.kl_estimate, kind=kind)
            row[f"k_{kind[1]}"] = Of(f, *inputs)
        row[r"\rho"] = Of(lambda p, ref: ref - p, *inputs)
        rows.append(row)
    return rows


KINDS = {
    "k1": lambda p, ref: -(ref - p),
    "k2": lambda p, ref: (ref - p) ** 2 / 2,
    "k3": lambda p, ref: np.exp(ref - p) - 1 - (ref - p),
}


@reads(r"k_1 = -\rho , \qquad k_2 = \tfrac12 \rho^2 , \qquad k_3 = e^\rho - 1 - \rho .")
def three_estimates():
    return of_estimates()


@equation(
    r"\E_p[k_1] = \E_p[k_3] = \sum_x p(x) \log \frac{p(x)}{p_{ref}(x)} .",
)
def means_of_two_estimates():
    p, ref = np.exp(LOG_P), np.exp(LOG_REF)
    divergence = sum(p[x] * np.log(p[x] / ref[x]) for x in range(5))
    yield p @ KINDS["k1"](LOG_P, LOG_REF), p @ KINDS["k3"](LOG_P, LOG_REF), divergence


@reads(
    r"""\dv{k_1}{\log p} = 1 , \qquad \dv{k_2}{\log p} = -\rho , \qquad
    \dv{k_3}{\log p} = 1 - e^\rho .""",
    r"""\pdv{L}{\log p} = u\, (1 - e^\rho) , \qquad
    \pdv{L}{\log p_{ref}} = -u\, (1 - e^\rho) .""",
    r"\dot k_3 = (e^\rho - 1)\, \dot\rho .",
)
def derivatives_of_estimates():
    return of_estimates()


ANSWERS = tuple(RNG.normal(size=(2, 2, 4)))
BETA, E = 0.7, 0.2
DPO = {"beta": BETA, "label_smoothing": E}


def of_preferences():
    """Return the environments of the loss of one pair of answers."""
    rows = []
    for n in range(4):
        inputs = {r"\log p": From(1, ANSWERS[0][:, n]), r"\log p_{ref}": From(1, ANSWERS[1][:, n])}
        gain = Of(lambda p, ref: From(1, p - ref), *inputs)
        margin = Of(lambda g: BETA * (g[0] - g[1]), "g")
        given = {r"\beta": BETA, r"\epsilon": E, r"\sigma": sigmoid, "u": 1.7, "at": "z"}
        loss = Of(lambda z: formulas.dpo_loss(np.array([z / BETA, 0 * z]), np.zeros(2), **DPO), "z")
        weighted = Of(lambda loss: 1.7 * loss, r"\ell")
        rows.append({**inputs, **given, "g": gain, "z": margin, r"\ell": loss, "L": weighted})
    return rows


@reads(
    r"""\sum_x p_x r_x - \beta \sum_x p_x \log \frac{p_x}{q_x}
    = \beta \log Z - \beta \sum_x p_x \log \frac{p_x}{m_x} ,"""
)
def optimum_of_preferences():
    rng = np.random.default_rng(5)
    p, q = (softmax(row) for row in rng.normal(size=(2, 6)))
    r = rng.normal(size=6)
    weights = q * np.exp(r / BETA)
    Z = weights.sum()
    return {"p": p, "q": q, "r": r, r"\beta": BETA, "Z": Z, "m": weights / Z}


@reads(
    r"""z = \beta\, (g_1 - g_2) , \qquad
    \ell = -(1 - \epsilon) \log \sigma(z) - \epsilon \log \sigma(-z) ."""
)
def loss_of_preferences():
    return of_preferences()


@reads(
    r"""\dv{\ell}{z} = \epsilon\, \sigma(z) - (1 - \epsilon)\, \sigma(-z) , \qquad
    \pdv{\ell}{\log p_1} = \beta \dv{\ell}{z} = -\pdv{\ell}{\log p_2} .""",
    r"""\pdv{L}{\log p_k} = (-1)^{k - 1} u \beta\, \ell' , \qquad
    \pdv{L}{\log p_{ref, k}} = (-1)^k u \beta\, \ell' , \qquad k = 1, 2 .""",
    r"""\dot\ell = \beta \bigl( \epsilon\, \sigma(z) - (1 - \epsilon)\, \sigma(-z) \bigr)
    (\dot g_1 - \dot g_2) .""",
)
def derivatives_of_preferences():
    return of_preferences()


@equation(
    r"""\ell^{hinge} = \max(0, 1 - z) , \qquad
    \ell^{ipo} = \Bigl( g_1 - g_2 - \frac{1}{2 \beta} \Bigr)^2 .""",
    r"""\dv{\ell^{hinge}}{z} = -[z < 1] , \qquad
    \dv{\ell^{ipo}}{z} = \frac2\beta \Bigl( g_1 - g_2 - \frac{1}{2 \beta} \Bigr) ,""",
)
def other_losses_of_preferences():
    options = {"beta": BETA, "reduction": "none"}
    zero = np.zeros(2)
    for h in (-3.0, 0.2, 1.0, 4.0):
        z, pair = BETA * h, np.array([h, 0.0])
        yield formulas.dpo_loss(pair, zero, kind="hinge", **options), max(0, 1 - z)
        yield formulas.dpo_loss(pair, zero, kind="ipo", **options), (h - 1 / (2 * BETA)) ** 2
        for kind, by_z in (("hinge", -(z < 1.0)), ("ipo", 2 / BETA * (h - 1 / (2 * BETA)))):
            of_h = functools.partial(formulas.dpo_loss, log_ref=zero, kind=kind, **options)
            (slope,) = gradients(lambda x, f=of_h: f(np.stack([x / BETA, 0 * x])), np.array(z))
            yield slope, by_z


@equation(
    r"""z = \beta\, (g - k) , \qquad \ell = w\, (1 - \sigma(y z)) = w\, \sigma(-y z) .""",
    r"""\pdv{\ell}{\log p} = -y\, w\, \beta\, \sigma(z)\, \sigma(-z) .""",
    r"""\pdv{L}{\log p} = -u\, y\, w\, \beta\, \sigma(z)\, \sigma(-z)
    = -\pdv{L}{\log p_{ref}} .""",
    r"\dot\ell = -y\, w\, \beta\, \sigma(z)\, \sigma(-z)\, \dot g .",
)
def loss_of_single_answers():
    u, k, weights = 1.7, 0.3, {True: 1.5, False: 0.5}
    options = {"beta": BETA, "kl": k, "desirable_weight": 1.5, "undesirable_weight": 0.5}
    (p, _), (ref, _) = ANSWERS
    (dp, _), (dref, _) = RNG.normal(size=(2, *ANSWERS[0].shape))
    for n, good in itertools.product(range(4), (True, False)):
        at, kind = (np.array([p[n]]), np.array([ref[n]])), np.array([good])
        y, w, z = 2 * good - 1, weights[good], BETA * (p[n] - ref[n] - k)
        loss = formulas.kto_loss(*at, kind, **options)
        yield loss, w * (1 - sigmoid(y * z)), w * sigmoid(-y * z)
        by_p, by_ref = gradients(lambda a, b, c=kind: formulas.kto_loss(a, b, c, **options), *at)
        by_hand = -y * w * BETA * sigmoid(z) * sigmoid(-z)
        yield by_p, by_hand
        dlog_p, dlog_ref = kto_loss_vjp(u, *at, kind, **options)
        yield dlog_p, -u * y * w * BETA * sigmoid(z) * sigmoid(-z), -dlog_ref, -u * by_ref
        moves = np.array([dp[n]]), np.array([dref[n]]), None
        yield kto_loss_jvp((*at, kind), moves, **options), by_hand * (dp[n] - dref[n])


@equation(
    r"""o = \log \frac{p}{1 - p} , \qquad z = o_1 - o_2 , \qquad
    \ell = -\log p_1 - \beta \log \sigma(z) .""",
    r"""\pdv{\ell}{\log p_1} = -1 - \beta\, \frac{\sigma(-z)}{1 - p_1} , \qquad
    \pdv{\ell}{\log p_2} = \beta\, \frac{\sigma(-z)}{1 - p_2} .""",
    r"""\pdv{L}{\log p_1} = -u \Bigl( 1 + \beta\, \frac{\sigma(-z)}{1 - p_1} \Bigr) , \qquad
    \pdv{L}{\log p_2} = u \beta\, \frac{\sigma(-z)}{1 - p_2} .""",
    r"""\dot\ell = -v_1 - \beta\, \sigma(-z) \Bigl( \frac{v_1}{1 - p_1}
    - \frac{v_2}{1 - p_2} \Bigr) .""",
)
def loss_of_odds():
    u = 1.7
    for _ in range(4):
        p, v = RNG.uniform(size=2), RNG.normal(size=2)
        o = np.log(p / (1 - p))
        z = o[0] - o[1]
        yield formulas.orpo_loss(np.log(p), beta=BETA), -np.log(p[0]) - BETA * np.log(sigmoid(z))
        (slopes,) = gradients(lambda x: formulas.orpo_loss(x, beta=BETA), np.log(p))
        first, second = -1 - BETA * sigmoid(-z) / (1 - p[0]), BETA * sigmoid(-z) / (1 - p[1])
        yield slopes[0], first
        yield slopes[1], second
        pulled = orpo_loss_vjp(u, np.log(p), beta=BETA)
        yield pulled[0], u * slopes[0], -u * (1 + BETA * sigmoid(-z) / (1 - p[0]))
        yield pulled[1], u * slopes[1], u * BETA * sigmoid(-z) / (1 - p[1])
        by_hand = -v[0] - BETA * sigmoid(-z) * (v[0] / (1 - p[0]) - v[1] / (1 - p[1]))
        yield orpo_loss_jvp(np.log(p), v, beta=BETA), by_hand, slopes @ v


@equation(
    r"""\ell_i = -\frac{1}{\abs{P_i}} \sum_{j \in P_i} \log p_{ij} , \qquad
    p_{ij} = \frac{e^{s_{ij}}}{\sum_k e^{s_{ik}}} ."""
)
def several_positives():
    s, positives = RNG.normal(size=(4, 4)), [[1, 2], [0, 2], [0], []]
    mask = np.array([[j in positives[i] for j in range(4)] for i in range(4)])
    options = {"positives": mask, "symmetric": False, "reduction": "none"}
    losses = formulas.info_nce(s, **options)
    for i, row in enumerate(positives[:3]):
        p = [np.exp(s[i, j]) / sum(np.exp(s[i, k]) for k in range(4)) for j in range(4)]
        yield losses[i], info_nce(s, **options)[i], -sum(np.log(p[j]) for j in row) / len(row)


HOT, SHARE = 2.0, 0.3
STUDENT, TEACHER = RNG.normal(size=(2, 4))


def of_distillation(kind):
    """Return the environment of a loss of distillation."""
    f = functools.partial(formulas.distillation_loss, temperature=HOT, kind=kind, beta=SHARE)
    p, q = softmax(STUDENT / HOT), softmax(TEACHER / HOT)
    return mapped(
        f, {"z": STUDENT, "t": TEACHER}, r"\ell", T=HOT, p=p, q=q, branch=kind, **{r"\beta": SHARE}
    )


@reads(
    r"""\text{kl:}\quad \ell &= T^2 \sum_c q_c \log \frac{q_c}{p_c} \\
    \text{reverse:}\quad \ell &= T^2 \sum_c p_c \log \frac{p_c}{q_c} \\
    \text{jsd:}\quad \ell &= T^2 \sum_c \Bigl( \beta\, q_c \log \frac{q_c}{m_c}
    + (1 - \beta)\, p_c \log \frac{p_c}{m_c} \Bigr) , \qquad
    m_c = \beta\, q_c + (1 - \beta)\, p_c ."""
)
def three_divergences():
    return [of_distillation(kind) for kind in ("kl", "reverse", "jsd")]


@reads(
    r"""\text{kl:}\quad \pdv{\ell}{z_c} &= T\, (p_c - q_c) \\
    \text{reverse:}\quad \pdv{\ell}{z_c} &= T\, p_c \Bigl( \log \frac{p_c}{q_c} - D \Bigr) \\
    \text{jsd:}\quad \pdv{\ell}{z_c} &= (1 - \beta)\, T\, p_c \Bigl( \log \frac{p_c}{m_c}
    - \sum_j p_j \log \frac{p_j}{m_j} \Bigr) ."""
)
def gradients_of_three_divergences():
    rows = [of_distillation(kind) for kind in ("kl", "reverse", "jsd")]
    p, q = rows[0]["p"], rows[0]["q"]
    return [
        {**row, "D": np.sum(p * np.log(p / q)), "m": SHARE * q + (1 - SHARE) * p} for row in rows
    ]


@reads(
    r"""\pdv{L}{z_c} = u\, T\, (p_c - q_c) , \qquad
    \pdv{L}{t_c} = u\, T\, q_c \Bigl( \log \frac{q_c}{p_c} - D \Bigr) .""",
    r"""\dot\ell = T \sum_c \Bigl( (p_c - q_c)\, \dot z_c + q_c \Bigl( \log \frac{q_c}{p_c}
    - D \Bigr)\, \dot t_c \Bigr) .""",
)
def both_derivatives_of_distillation():
    row = of_distillation("kl")
    p, q = row["p"], row["q"]
    return {**row, "D": np.sum(q * np.log(q / p))}


@equation(
    r"""h_j = \max(0,\, m - x_y + x_j) , \qquad
    \ell = \frac{w_y}{C} \sum_{j \ne y} h_j^p .""",
    r"""g_j = p\, h_j^{p - 1}\, [h_j > 0] .""",
    r"""\pdv{\ell}{x_j} = \frac{w_y}{C}\, g_j , \qquad
    \pdv{\ell}{x_y} = -\frac{w_y}{C} \sum_{j \ne y} g_j .""",
    r"""\pdv{L}{x_j} = \frac{u\, w_y}{C}\, g_j , \qquad
    \pdv{L}{x_y} = -\frac{u\, w_y}{C} \sum_{j \ne y} g_j .""",
    r"""\dot\ell = \frac{w_y}{C} \sum_{j \ne y} g_j\, (\dot x_j - \dot x_y) .""",
)
def hinge_of_several_classes():
    u, m, w = 1.7, 0.8, RNG.uniform(0.5, 2.0, 5)
    for p, y in itertools.product((1, 2), range(5)):
        x, v = RNG.normal(size=(2, 5))
        options, others = {"p": p, "margin": m, "weight": w}, [j for j in range(5) if j != y]
        h = {j: max(0, m - x[y] + x[j]) for j in others}
        by_hand = w[y] / 5 * sum(h[j] ** p for j in others)
        yield formulas.multi_margin_loss(x, np.array(y), **options), by_hand
        g = {j: p * h[j] ** (p - 1) * (h[j] > 0) for j in others}
        (slopes,) = gradients(
            lambda a, y=y, t=options: formulas.multi_margin_loss(a, np.array(y), **t), x
        )
        pulled = multi_margin_loss_vjp(u, x, y, **options)
        for j in others:
            yield slopes[j], w[y] / 5 * g[j], pulled[j] / u
        yield slopes[y], -w[y] / 5 * sum(g.values()), pulled[y] / u
        pushed = w[y] / 5 * sum(g[j] * (v[j] - v[y]) for j in others)
        yield multi_margin_loss_jvp((x, y), (v, None), **options), pushed, slopes @ v


@equation(
    r"""p &= \sigma(x) , \qquad q = t\, (1 - p) + (1 - t)\, p , \\
    b &= -t \log p - (1 - t) \log (1 - p) , \qquad
    a = \alpha\, t + (1 - \alpha)\, (1 - t) , \\
    \ell &= a\, q^\gamma\, b .""",
    r"""\dv{q}{x} = (1 - 2 t)\, p\, (1 - p) , \qquad \dv{b}{x} = p - t ,""",
    r"""\pdv{\ell}{x} = a\, q^\gamma (p - t)
    + a\, \gamma\, q^{\gamma - 1}\, (1 - 2 t)\, p\, (1 - p)\, b .""",
    r"""\frac{p\, (1 - p)}{q} = r , \qquad
    r = \frac{1}{1 + t\, e^{-x} + (1 - t)\, e^x} ,""",
    r"""\pdv{\ell}{x} = -\alpha\, (1 - p)^\gamma \bigl( 1 - p - \gamma\, p \log p \bigr) .""",
    r"""\pdv{L}{x} = u\, a\, q^\gamma \bigl( p - t + \gamma\, (1 - 2 t)\, r\, b \bigr) .""",
    r"""\pdv{L}{t} = u\, (2 \alpha - 1)\, q^\gamma\, b
    + u\, a \bigl( \gamma\, q^{\gamma - 1}\, (1 - 2 p)\, b - q^\gamma\, x \bigr) .""",
    r"""\dot\ell = \pdv{\ell}{x}\, \dot x + \pdv{\ell}{t}\, \dot t .""",
)
def loss_with_a_focus():
    u, alpha, gamma = 1.7, 0.3, 1.6
    options = {"alpha": alpha, "gamma": gamma}

    def parts(x, t):
        p = 1 / (1 + np.exp(-x))
        return t * (1 - p) + (1 - t) * p, -t * np.log(p) - (1 - t) * np.log(1 - p)

    drawn = np.random.default_rng(5).normal(size=(4, 6))
    drawn[0, 0] = 1.5
    for x, t, dx, dt in zip(*drawn, strict=True):
        t = 1.0 if x > 1 else sigmoid(t)  # noqa: PLW2901  # a hard target, too
        p, (q, b) = sigmoid(x), parts(x, t)
        a, r = alpha * t + (1 - alpha) * (1 - t), 1 / (1 + t * np.exp(-x) + (1 - t) * np.exp(x))
        at = np.array(x), np.array(t)
        yield formulas.sigmoid_focal_loss(*at, **options), a * q**gamma * b
        dq, db = (gradients(lambda x, i=i, t=t: parts(x, t)[i], at[0])[0] for i in (0, 1))
        yield dq, (1 - 2 * t) * p * (1 - p)
        yield db, p - t
        yield r, p * (1 - p) / q
        by_x, by_t = gradients(lambda x, t: formulas.sigmoid_focal_loss(x, t, **options), *at)
        second = a * gamma * q ** (gamma - 1) * (1 - 2 * t) * p * (1 - p) * b
        yield by_x, a * q**gamma * (p - t) + second
        if t == 1:
            yield by_x, -alpha * (1 - p) ** gamma * (1 - p - gamma * p * np.log(p))
        pulled = sigmoid_focal_loss_vjp(u, *at, **options)
        yield pulled[0], u * a * q**gamma * (p - t + gamma * (1 - 2 * t) * r * b), u * by_x
        of_wrong = gamma * q ** (gamma - 1) * (1 - 2 * p) * b - q**gamma * x
        yield pulled[1], u * (2 * alpha - 1) * q**gamma * b + u * a * of_wrong, u * by_t
        yield sigmoid_focal_loss_jvp(at, (dx, dt), **options), by_x * dx + by_t * dt


@equation(
    r"""d_+ &= \norm{\vec a - \vec b + \epsilon}_p , \qquad
    d_- = \norm{\vec a - \vec c + \epsilon}_p , \\
    \ell &= \max(0,\, m + d_+ - d_-) .""",
    r"""d_- = \min \bigl( \norm{\vec a - \vec c + \epsilon}_p ,\,
    \norm{\vec b - \vec c + \epsilon}_p \bigr) .""",
    r"""\pdv{d}{v_i} = \operatorname{sign}(v_i)
    \Bigl( \frac{\abs{v_i}}{d} \Bigr)^{p - 1} ,""",
    r"""\pdv{\ell}{\vec a} = \vec g_+ - \vec g_- , \qquad
    \pdv{\ell}{\vec b} = -\vec g_+ , \qquad \pdv{\ell}{\vec c} = \vec g_- .""",
    r"""\pdv{L}{\vec a} = u\, (\vec g_+ - \vec g_-) , \qquad
    \pdv{L}{\vec b} = -u\, \vec g_+ , \qquad \pdv{L}{\vec c} = u\, \vec g_- .""",
    r"""\dot\ell = \vec g_+ \cdot (\dot{\vec a} - \dot{\vec b})
    - \vec g_- \cdot (\dot{\vec a} - \dot{\vec c}) .""",
)
def loss_of_triplets():
    u, m, eps = 1.7, 12.0, 0.1

    def norm(v, p):
        return np.sum(np.where(v.real < 0, -v, v) ** p) ** (1 / p)

    for p in (1.0, 2.0, 3.0):
        triplet, moves = RNG.normal(size=(2, 3, 4))
        options = {"margin": m, "p": p, "eps": eps}
        differences = [triplet[0] - other + eps for other in triplet[1:]]
        near, far = (norm(v, p) for v in differences)
        assert m + near - far > 0
        yield formulas.triplet_margin_loss(*triplet, **options), max(0, m + near - far)
        far = min(far, norm(triplet[1] - triplet[2] + eps, p))
        swapped = formulas.triplet_margin_loss(*triplet, swap=True, **options)
        yield swapped, max(0, m + near - far)
        g_near, g_far = (np.sign(v) * (np.abs(v) / norm(v, p)) ** (p - 1) for v in differences)
        for v, g in zip(differences, (g_near, g_far), strict=True):
            yield gradients(lambda v, p=p: norm(v, p), v)[0], g
        grads = gradients(lambda *x, t=options: formulas.triplet_margin_loss(*x, **t), *triplet)
        pulled = triplet_margin_loss_vjp(u, *triplet, **options)
        wanted = g_near - g_far, -g_near, g_far
        for grad, ours, by_hand in zip(grads, pulled, wanted, strict=True):
            yield grad, by_hand, ours / u
        da, db, dc = moves
        by_hand = g_near @ (da - db) - g_far @ (da - dc)
        pushed = triplet_margin_loss_jvp((*triplet,), (da, db, dc), **options)
        yield pushed, by_hand, sum(np.sum(g * v) for g, v in zip(grads, moves, strict=True))


@equation(
    r"""\tau = \frac{1}{\abs S} \Bigl( \sum_{j \in S} z_j - 1 \Bigr) , \qquad
    \ell = -z_y + \frac12 \sum_{j \in S} (z_j^2 - \tau^2) + \frac12 .""",
    r"\ell = \frac12 \norm{\vec p - \vec e_y}^2 + \max(0,\, \tau - z_y) .",
    r"\pdv{\ell}{z_j} = p_j - [j = y] .",
    r"\pdv{L}{z_j} = u\, (p_j - [j = y]) .",
    r"\dot\ell = \sum_j p_j\, \dot z_j - \dot z_y",
)
def loss_of_sparse_probabilities():
    u = 1.7
    for y in range(5):
        z, v = RNG.normal(size=(2, 5))
        # The support by trial: of all sets of classes, the one whose threshold separates it.
        sets = (s for n in range(1, 6) for s in itertools.combinations(range(5), n))
        found = [(s, (sum(z[j] for j in s) - 1) / len(s)) for s in sets]
        [(S, tau)] = [(s, t) for s, t in found if all((z[j] > t) == (j in s) for j in range(5))]
        p, e = np.maximum(0, z - tau), np.eye(5)[y]
        yield np.sum(p), 1
        loss = -z[y] + 0.5 * sum(z[j] ** 2 - tau**2 for j in S) + 0.5
        other = 0.5 * np.sum((p - e) ** 2) + max(0, tau - z[y])
        yield formulas.sparsemax_loss(z, np.array(y)), loss, other
        (grad,) = gradients(lambda a, y=y: formulas.sparsemax_loss(a, np.array(y)), z)
        pulled = sparsemax_loss_vjp(u, z, y)
        for j in range(5):
            yield grad[j], p[j] - (j == y), pulled[j] / u
        yield sparsemax_loss_jvp((z, y), (v, None)), sum(p * v) - v[y], grad @ v


@equation(
    r"""\ell = \begin{cases} 0 & t \ge 1 \\ \frac{(1 - t)^2}{4} & -1 < t < 1 \\
    -t & t \le -1 . \end{cases}"""
)
def sparsemax_loss_of_two_classes():
    for t in (-4.0, -1.0, -0.3, 0.0, 0.6, 1.0, 2.5):
        piece = 0 if t >= 1 else (1 - t) ** 2 / 4 if t > -1 else -t
        yield formulas.sparsemax_loss(np.array([0.7, 0.7 + t]), np.array(1)), piece
