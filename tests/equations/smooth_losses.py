"""The displayed equations of losses that are formulas of arrays."""

import functools
import itertools

import numpy as np
import scipy.stats
from equations.evaluate import From, Of, Random, each, mapped
from equations.ledger import reads

from dlref.formulas import losses as formulas
from dlref.formulas.activations import sigmoid, softmax
from dlref.losses import (
    info_nce,
)

RNG = np.random.default_rng(0)
MEAN, LOG_VAR, D_MEAN, D_LOG_VAR = RNG.normal(size=(4, 3))


@reads(r"\ell = \sum_d \int q_d(z) \log \frac{q_d(z)}{p(z)} \dd z…")
def integral_of_two_gaussians():
    def density(mean, log_var):
        scale = np.exp(log_var / 2)
        return lambda z: max(scipy.stats.norm.pdf(z, mean, scale), 1e-290)

    return {
        "q": lambda d: density(MEAN[d], LOG_VAR[d]),
        "p": density(0.0, 0.0),
        "d": range(3),
        r"\mu": MEAN,
        "s": LOG_VAR,
        r"\ell": formulas.gaussian_kl(MEAN, LOG_VAR),
    }


@reads(
    r"\pdv{\ell}{\mu_d} = \mu_d , \qquad \pdv{\ell}{s_d} = \frac{e^{s_d} - 1}{2} .",
    r"\pdv{L}{\mu_d} = u\, \mu_d , \qquad \pdv{L}{s_d} = \frac u2 \bigl( e^{s_d} - 1 \bigr) .",
    r"\dot\ell = \sum_d \Bigl( \mu_d\, \dot\mu_d + \frac{e^{s_d} - 1}{2}\, \dot s_d \Bigr) .",
)
def derivatives_of_the_gaussian_divergence():
    return mapped(formulas.gaussian_kl, {r"\mu": MEAN, "s": LOG_VAR}, r"\ell")


LOG_P, LOG_REF = np.log(RNG.dirichlet(np.ones(5), 2))


@reads(
    r"k_1 = -\rho , \qquad k_2 = \tfrac12 \rho^2 , \qquad k_3 = e^\rho - 1 - \rho .",
    r"\dv{k_1}{\log p} = 1 , \qquad \dv{k_2}{\log p} = -\rho , \qquad \dv{k_3}{\log p}…",
    r"\pdv{L}{\log p} = u\, (1 - e^\rho) , \qquad \pdv{L}{\log p_{ref}} = -u\, (1 - e^\rho) .",
    r"\dot k_3 = (e^\rho - 1)\, \dot\rho .",
)
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


@reads(r"\E_p[k_1] = \E_p[k_3] = \sum_x p(x) \log \frac{p(x)}{p_{ref}(x)} .")
def means_of_two_estimates():
    p, ref = np.exp(LOG_P), np.exp(LOG_REF)
    drawn = {r"\E_{p}": [Random(p, s=range(5))], "s": 0, "x": range(5)}
    estimates = {
        f"k_{n}": Of(lambda s, n=n: KINDS[f"k{n}"](LOG_P[s], LOG_REF[s]), "s") for n in (1, 3)
    }
    return {**drawn, **estimates, "p": lambda x: p[x], "p_{ref}": lambda x: ref[x]}


ANSWERS = tuple(RNG.normal(size=(2, 2, 4)))
BETA, E = 0.7, 0.2
DPO = {"beta": BETA, "label_smoothing": E}


@reads(
    r"z = \beta\, (g_1 - g_2) , \qquad \ell…",
    r"\dv{\ell}{z} = \epsilon\, \sigma(z) - (1 - \epsilon)\, \sigma(-z) …",
    r"\pdv{L}{\log p_k} = (-1)^{k - 1} u \beta\, \ell' , \qquad \pdv{L}{\log p_{ref, k}}…",
    r"\dot\ell = \beta \bigl( \epsilon\, \sigma(z) - (1 - \epsilon)\, \sigma(-z) \bigr) (\dot g_1…",
)
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


@reads(r"\sum_x p_x r_x - \beta \sum_x p_x \log \frac{p_x}{q_x}…")
def optimum_of_preferences():
    rng = np.random.default_rng(5)
    p, q = (softmax(row) for row in rng.normal(size=(2, 6)))
    r = rng.normal(size=6)
    weights = q * np.exp(r / BETA)
    Z = weights.sum()
    return {"p": p, "q": q, "r": r, r"\beta": BETA, "Z": Z, "m": weights / Z}


@reads(
    r"\ell^{hinge} = \max(0, 1 - z) , \qquad \ell^{ipo}…",
    r"\dv{\ell^{hinge}}{z} = -[z < 1] , \qquad \dv{\ell^{ipo}}{z}…",
)
def other_losses_of_preferences():
    def loss(kind):
        f = functools.partial(formulas.dpo_loss, log_ref=np.zeros(2), beta=BETA, kind=kind)
        return Of(lambda z: f(np.stack([z / BETA, 0 * z])), "z")

    losses = {rf"\ell^{{{kind}}}": loss(kind) for kind in ("hinge", "ipo")}
    gain = Of(lambda z: From(1, np.stack([z / BETA + 1, 0 * z + 1])), "z")
    return [{"z": z, r"\beta": BETA, "g": gain, **losses} for z in (-2.1, 0.14, 0.7, 2.8)]


@reads(
    r"z = \beta\, (g - k) , \qquad \ell = w\, (1 - \sigma(y z)) = w\, \sigma(-y z) .",
    r"\pdv{\ell}{\log p} = -y\, w\, \beta\, \sigma(z)\, \sigma(-z) .",
    r"\pdv{L}{\log p} = -u\, y\, w\, \beta\, \sigma(z)\, \sigma(-z) = -\pdv{L}{\log p_{ref}} .",
    r"\dot\ell = -y\, w\, \beta\, \sigma(z)\, \sigma(-z)\, \dot g .",
)
def loss_of_single_answers():
    k, rows = 0.3, []
    options = {"beta": BETA, "kl": k, "desirable_weight": 1.5, "undesirable_weight": 0.5}
    for n, good in itertools.product(range(4), (True, False)):
        inputs = {r"\log p": ANSWERS[0][0, n], r"\log p_{ref}": ANSWERS[1][0, n]}

        def loss(p, ref, good=good):
            return formulas.kto_loss(np.stack([p]), np.stack([ref]), np.array([good]), **options)

        row = mapped(loss, inputs, r"\ell", k=k, w=1.5 if good else 0.5, y=2 * good - 1)
        names = {r"\beta": BETA, r"\sigma": sigmoid, "g": Of(lambda p, ref: p - ref, *inputs)}
        rows.append({**row, **names, "z": Of(lambda g: BETA * (g - k), "g")})
    return rows


@reads(
    r"o = \log \frac{p}{1 - p} , \qquad z = o_1 - o_2 , \qquad \ell…",
    r"\pdv{\ell}{\log p_1} = -1 - \beta\, \frac{\sigma(-z)}{1 - p_1} …",
    r"\pdv{L}{\log p_1} = -u \Bigl( 1 + \beta\, \frac{\sigma(-z)}{1 - p_1} \Bigr) …",
    r"\dot\ell = -v_1 - \beta\, \sigma(-z) \Bigl( \frac{v_1}{1 - p_1} - \frac{v_2}{1 - p_2}…",
)
def loss_of_odds():
    rows = []
    for _ in range(4):
        log_p, v = From(1, np.log(RNG.uniform(size=2))), From(1, RNG.normal(size=2))
        row = {r"\log p": log_p, "p": Of(lambda x: From(1, np.exp(x)), r"\log p")}
        row["o"] = Of(lambda x: From(1, x - np.log(1 - np.exp(x))), r"\log p")
        row["z"] = Of(lambda o: o[0] - o[1], "o")
        row[r"\ell"] = Of(lambda x: formulas.orpo_loss(x, beta=BETA), r"\log p")
        row["L"] = Of(lambda loss: 1.7 * loss, r"\ell")
        given = {r"\beta": BETA, r"\sigma": sigmoid, "u": 1.7, "v": v, r"\dot{\log p}": v}
        rows.append({**row, **given})
    return rows


@reads(r"\ell_i = -\frac{1}{\abs{P_i}} \sum_{j \in P_i} \log p_{ij} , \qquad p_{ij}…")
def several_positives():
    s, positives = RNG.normal(size=(4, 4)), [{1, 2}, {0, 2}, {0}, set()]
    mask = np.array([[j in positives[i] for j in range(4)] for i in range(4)])
    options = {"positives": mask, "symmetric": False, "reduction": "none"}
    np.testing.assert_allclose(formulas.info_nce(s, **options), info_nce(s, **options), rtol=1e-12)
    return {"s": s, "P": lambda i: positives[i], r"\ell": formulas.info_nce(s, **options)[:3]}


HOT, SHARE = 2.0, 0.3
STUDENT, TEACHER = RNG.normal(size=(2, 4))


def of_distillation(kind):
    """Return the environment of a loss of distillation."""
    f = functools.partial(formulas.distillation_loss, temperature=HOT, kind=kind, beta=SHARE)
    p, q = softmax(STUDENT / HOT), softmax(TEACHER / HOT)
    return mapped(
        f, {"z": STUDENT, "t": TEACHER}, r"\ell", T=HOT, p=p, q=q, branch=kind, **{r"\beta": SHARE}
    )


@reads(r"\text{kl:}\quad \ell &= T^2 \sum_c q_c \log \frac{q_c}{p_c} \\ \text{reverse:}\quad \ell…")
def three_divergences():
    return [of_distillation(kind) for kind in ("kl", "reverse", "jsd")]


@reads(r"\text{kl:}\quad \pdv{\ell}{z_c} &= T\, (p_c - q_c)…")
def gradients_of_three_divergences():
    rows = [of_distillation(kind) for kind in ("kl", "reverse", "jsd")]
    p, q = rows[0]["p"], rows[0]["q"]
    return [
        {**row, "D": np.sum(p * np.log(p / q)), "m": SHARE * q + (1 - SHARE) * p} for row in rows
    ]


@reads(
    r"\pdv{L}{z_c} = u\, T\, (p_c - q_c) , \qquad \pdv{L}{t_c}…",
    r"\dot\ell = T \sum_c \Bigl( (p_c - q_c)\, \dot z_c + q_c \Bigl( \log \frac{q_c}{p_c} - D…",
)
def both_derivatives_of_distillation():
    row = of_distillation("kl")
    p, q = row["p"], row["q"]
    return {**row, "D": np.sum(q * np.log(q / p))}


@reads(
    r"h_j = \max(0,\, m - x_y + x_j) , \qquad \ell = \frac{w_y}{C} \sum_{j \ne y} h_j^p .",
    r"g_j = p\, h_j^{p - 1}\, [h_j > 0] .",
    r"\pdv{\ell}{x_j} = \frac{w_y}{C}\, g_j , \qquad \pdv{\ell}{x_y}…",
    r"\pdv{L}{x_j} = \frac{u\, w_y}{C}\, g_j , \qquad \pdv{L}{x_y}…",
    r"\dot\ell = \frac{w_y}{C} \sum_{j \ne y} g_j\, (\dot x_j - \dot x_y) .",
)
def hinge_of_several_classes():
    rows, m, w = [], 0.8, RNG.uniform(0.5, 2.0, 5)
    for p, y in itertools.product((1, 2), (0, 4)):
        options = {"p": p, "margin": m, "weight": w}
        f = functools.partial(formulas.multi_margin_loss, target=np.array(y), **options)
        row = mapped(f, {"x": RNG.normal(size=5)}, r"\ell", p=p, y=y, m=m, w=w, C=5)
        rows.append({**row, "j": range(1, 5) if y == 0 else range(4)})
    return rows


def of_focus(x, t):
    """Return the environment of the focal loss of one score."""
    alpha, gamma = 0.3, 1.6
    f = functools.partial(formulas.sigmoid_focal_loss, alpha=alpha, gamma=gamma)
    row = mapped(f, {"x": x, "t": t}, r"\ell", p=Of(sigmoid, "x"))
    row["q"] = Of(lambda p, t: t * (1 - p) + (1 - t) * p, "p", "t")
    row["b"] = Of(lambda p, t: -t * np.log(p) - (1 - t) * np.log(1 - p), "p", "t")
    row["a"] = Of(lambda t: alpha * t + (1 - alpha) * (1 - t), "t")
    return {**row, r"\alpha": alpha, r"\gamma": gamma, r"\sigma": sigmoid}


@reads(
    r"p &= \sigma(x) , \qquad q = t\, (1 - p) + (1 - t)\, p , \\ b…",
    r"\dv{q}{x} = (1 - 2 t)\, p\, (1 - p) , \qquad \dv{b}{x} = p - t ,",
    r"\pdv{\ell}{x} = a\, q^\gamma (p - t) + a\, \gamma\, q^{\gamma - 1}\, (1 - 2 t)\, p\, (1 -…",
    r"\frac{p\, (1 - p)}{q} = r , \qquad r = \frac{1}{1 + t\, e^{-x} + (1 - t)\, e^x} ,",
    r"\pdv{L}{x} = u\, a\, q^\gamma \bigl( p - t + \gamma\, (1 - 2 t)\, r\, b \bigr) .",
    r"\pdv{L}{t} = u\, (2 \alpha - 1)\, q^\gamma\, b + u\, a \bigl( \gamma\, q^{\gamma - 1}\, (1…",
    r"\dot\ell = \pdv{\ell}{x}\, \dot x + \pdv{\ell}{t}\, \dot t .",
)
def loss_with_a_focus():
    return [of_focus(x, t) for x, t in ((1.5, 1.0), (-0.4, 0.3), (0.8, 0.6), (-1.3, 0.0))]


@reads(r"""\pdv{\ell}{x} = -\alpha\, (1 - p)^\gamma \bigl( 1 - p - \gamma\, p \log p \bigr) .""")
def focus_on_a_positive():
    return [of_focus(x, 1.0) for x in (1.5, -0.4)]


def of_focus_on_classes(y):
    """Return the environment of the focal loss of a row."""
    gamma, weight = 1.6, np.array([0.5, 2.0, 1.25, 0.8])
    options = {"gamma": gamma, "weight": weight, "reduction": "sum"}
    f = functools.partial(formulas.softmax_focal_loss, target=np.array(y), **options)
    row = mapped(f, {"z": RNG.normal(size=4)}, r"\ell", p=Of(softmax, "z"), w=weight, y=y)
    b = Of(lambda p: -np.log(p[y]), "p")
    slope = Of(lambda p: weight[y] * slope_of_focus(p[y], gamma), "p")
    return {**row, "q": Of(lambda p: 1 - p[y], "p"), "b": b, "f": slope, r"\gamma": gamma}


def slope_of_focus(p, gamma):
    """Return the derivative of the loss by its cross-entropy: minus p times the one by p."""
    return (1 - p) ** gamma - gamma * (1 - p) ** (gamma - 1) * p * np.log(p)


@reads(
    r"q = 1 - p_y , \qquad b = -\log p_y , \qquad \ell = w_y\, q^\gamma\, b .",
    r"\pdv{\ell}{z_j} = f\, (p_j - [j = y]) .",
    r"\pdv{L}{z_j} = u\, f\, (p_j - [j = y]) .",
    r"\dot\ell = f\, \Bigl( \sum_j p_j\, \dot z_j - \dot z_y \Bigr) .",
)
def focus_on_classes():
    return [of_focus_on_classes(y) for y in range(4)]


@reads(
    r"\dv{q}{b} = e^{-b} = p_y , \qquad \dv{\ell}{b} = w_y \bigl( q^\gamma + \gamma\, q^{\gamma…",
    r"f = \dv{\ell}{b} = w_y\, q^\gamma \Bigl( 1 + \frac{\gamma\, b}{e^b - 1} \Bigr) .",
)
def focus_by_the_cross_entropy():
    gamma, weight = 1.6, np.array([0.7])
    row = {
        "b": 0.9,
        r"\gamma": gamma,
        "w": weight,
        "y": 0,
        "p": Of(lambda b: np.array([np.exp(-b)]), "b"),
    }
    row["q"] = Of(lambda b: 1 - np.exp(-b), "b")
    row[r"\ell"] = Of(lambda b: 0.7 * (1 - np.exp(-b)) ** gamma * b, "b")
    return [{**row, "f": 0.7 * slope_of_focus(np.exp(-0.9), gamma)}]


TRIPLET = RNG.normal(size=(3, 4))


def length(v, p):
    return np.sum(np.where(v.real < 0, -v, v) ** p) ** (1 / p)


def of_triplets(p):
    """Return the environment of the loss of a triplet."""
    f = functools.partial(formulas.triplet_margin_loss, margin=12.0, p=p, eps=0.1)
    inputs = dict(zip("abc", TRIPLET, strict=True))
    return mapped(f, inputs, r"\ell", m=12.0, p=p, **{r"\epsilon": 0.1})


@reads(r"d_+ &= \norm{\vec a - \vec b + \epsilon}_p , \qquad d_-…")
def loss_of_triplets():
    return [of_triplets(p) for p in (1.0, 2.0, 3.0)]


@reads(r"d_- = \min \bigl( \norm{\vec a - \vec c + \epsilon}_p ,\,…")
def swapped_triplets():
    rows = []
    for p in (1.0, 2.0, 3.0):
        for a, b, c in (TRIPLET, TRIPLET[[1, 0, 2]]):
            swapped = formulas.triplet_margin_loss(a, b, c, swap=True, margin=12.0, p=p, eps=0.1)
            far = 12.0 + length(a - b + 0.1, p) - swapped
            rows.append({**of_triplets(p), "a": a, "b": b, "c": c, "d_-": far})
    return rows


@reads(r"\pdv{d}{v_i} = \operatorname{sign}(v_i) \Bigl( \frac{\abs{v_i}}{d} \Bigr)^{p - 1} ,")
def slope_of_a_length():
    v = TRIPLET[0] - TRIPLET[1]
    return [{"v": v, "p": p, "d": Of(lambda v, p=p: length(v, p), "v")} for p in (1.0, 2.0, 3.0)]


@reads(
    r"\pdv{\ell}{\vec a} = \vec g_+ - \vec g_- , \qquad \pdv{\ell}{\vec b} = -\vec g_+ …",
    r"\pdv{L}{\vec a} = u\, (\vec g_+ - \vec g_-) , \qquad \pdv{L}{\vec b} = -u\, \vec g_+ …",
    r"\dot\ell = \vec g_+ \cdot (\dot{\vec a} - \dot{\vec b}) - \vec g_- \cdot (\dot{\vec a} -…",
)
def derivatives_of_triplets():
    rows = []
    for p in (1.0, 2.0, 3.0):
        near, far = (TRIPLET[0] - other + 0.1 for other in TRIPLET[1:])
        slopes = [np.sign(v) * (np.abs(v) / length(v, p)) ** (p - 1) for v in (near, far)]
        rows.append({**of_triplets(p), "g_+": slopes[0], "g_-": slopes[1]})
    return rows


@reads(
    r"\tau = \frac{1}{\abs S} \Bigl( \sum_{j \in S} z_j - 1 \Bigr) , \qquad \ell…",
    r"\ell = \frac12 \norm{\vec p - \vec e_y}^2 + \max(0,\, \tau - z_y) .",
    r"\pdv{\ell}{z_j} = p_j - [j = y] .",
    r"\pdv{L}{z_j} = u\, (p_j - [j = y]) .",
    r"\dot\ell = \sum_j p_j\, \dot z_j - \dot z_y",
)
def loss_of_sparse_probabilities():
    rows = []
    for y in range(5):
        z = RNG.normal(size=5)
        # The support by trial: of all sets of classes, the one whose threshold separates it.
        sets = (s for n in range(1, 6) for s in itertools.combinations(range(5), n))
        found = [(s, (sum(z[j] for j in s) - 1) / len(s)) for s in sets]
        [(S, tau)] = [(s, t) for s, t in found if all((z[j] > t) == (j in s) for j in range(5))]
        row = mapped(lambda z, y=y: formulas.sparsemax_loss(z, np.array(y)), {"z": z}, r"\ell")
        given = {r"\tau": tau, "S": frozenset(S), "p": np.maximum(0, z - tau), "e": np.eye(5)}
        rows.append({**row, **given, "y": y})
    return rows


@reads(r"\ell = \begin{cases} 0 & t \ge 1 \\ \frac{(1 - t)^2}{4} & -1 < t < 1 \\ -t & t \le -1 .…")
def sparsemax_loss_of_two_classes():
    t = np.array([-4.0, -1.0, -0.3, 0.0, 0.6, 1.0, 2.5])
    loss = [formulas.sparsemax_loss(np.array([0.7, 0.7 + d]), np.array(1)) for d in t]
    return each({"t": t, r"\ell": loss})
