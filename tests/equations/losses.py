"""The displayed equations of dlref.losses."""

import functools

import numpy as np
from equations.evaluate import From, Of, each, elementwise, mapped
from equations.ledger import reads
from equations.numeric import complex_step

from dlref import losses
from dlref.formulas import losses as formulas
from dlref.formulas.activations import log_softmax, logsumexp, relu, sigmoid, softmax, softplus

RNG = np.random.default_rng(0)
T = RNG.normal(size=8)  # targets, and predictions with errors of both signs and all sizes
P = T + np.array([-2.8, -1.3, -0.6, -0.1, 0.2, 0.5, 1.2, 2.9])
Z = 2 * RNG.normal(size=8)
SHARE = RNG.uniform(size=8)  # targets from 0 to 1
W, PI = RNG.uniform(0.5, 2.0, size=(2, 8))  # weights


def of_error(name, p=P, t=T, **options):
    """Return the environments of a loss of one difference."""
    f = functools.partial(getattr(formulas, name), reduction="none", **options)
    more = {"e": Of(np.subtract, "p", "t"), r"\delta": options.get("delta")}
    return elementwise(f, {"p": p, "t": t}, r"\ell", **more)


@reads(
    r"\ell = -w \bigl( \pi\, t \log \sigma(z) + (1 - t) \log (1 - \sigma(z)) \bigr) .",
    r"\ell = w \bigl( \pi\, t\, s(-z) + (1 - t)\, s(z) \bigr) , \qquad s(z) = \log (1 + e^z)…",
    r"\pdv{\ell}{z} = w \bigl( (1 - t)\, \sigma(z) - \pi\, t\, \sigma(-z) \bigr) ,",
)
def of_logits(w=W, pi=PI):
    """Return the environments of the binary cross-entropy of one logit."""
    rows = []
    for z, t, *weights in zip(Z, SHARE, w + 0 * Z, pi + 0 * Z, strict=True):
        options = dict(zip(("weight", "pos_weight"), weights, strict=True))
        f = functools.partial(formulas.binary_cross_entropy, reduction="none", **options)
        more = {"w": weights[0], r"\pi": weights[1], "s": softplus, r"\sigma": sigmoid}
        rows.append(mapped(f, {"z": z, "t": t}, r"\ell", **more))
    return rows


# Of an error


@reads(r"L = \frac1N \sum_{n} (p_n - t_n)^2 ,")
def the_squared_error():
    return {"p": P, "t": T, "N": 8, "L": losses.squared_error(P, T)}


@reads(r"\pdv{\ell}{p} = 2 e\, \pdv{e}{p} = 2 (p - t) , \qquad \pdv{L}{p_n} = \frac2N e_n .")
def gradient_of_the_squared_error():
    slope = complex_step(lambda p: (p - T) ** 2, P)
    inputs = {"p": P, "t": T, "N": 8, r"\pdv{\ell}{p}": slope, r"\pdv{e}{p}": 1}
    e, L = Of(np.subtract, "p", "t"), Of(formulas.squared_error, "p", "t")
    return {**inputs, "e": e, "L": L}


@reads(r"\pdv{\ell}{p} = \begin{cases} -1 & p < t \\ 0 & p = t \\ 1 & p > t . \end{cases}")
def gradient_of_the_absolute_error():
    kink = np.float64(0.5)
    slope = formulas.absolute_error_grad(kink, kink, reduction="sum")
    return [*of_error("absolute_error"), {"p": kink, "t": kink, r"\pdv{\ell}{p}": slope}]


@reads(
    r"\ell = \begin{cases} \frac12 e^2 & \abs e \le \delta \\ \delta \bigl( \abs e - \frac12…",
    r"\pdv{\ell}{p} = \begin{cases} e & \abs e \le \delta \\ \delta \operatorname{sign} e &…",
)
def the_huber_loss_and_its_gradient():
    return of_error("huber", delta=0.7)


@reads(r"\pdv{\ell}{p} = \begin{cases} -t & t p < 1 \\ 0 & t p \ge 1 . \end{cases}")
def gradient_of_the_hinge_loss():
    t = np.sign(T)
    slopes = formulas.hinge_grad(t, t, reduction="sum")  # the choice at the kink
    kinks = each({"p": t, "t": t, r"\pdv{\ell}{p}": slopes})
    return [*of_error("hinge", 2 * P, t), *kinks]


@reads(
    r"\ell = \max(0,\, 1 - t p)^2",
    r"\pdv{\ell}{p} = -2\, t \max(0,\, 1 - t p) .",
    r"\pdv{L}{p} = -2\, u\, t \max(0,\, 1 - t p) , \qquad \pdv{L}{t}…",
    r"\dot\ell = -2 \max(0,\, 1 - t p)\, (t\, \dot p + p\, \dot t)",
)
def the_squared_hinge_loss_and_its_derivatives():
    t = np.sign(P) * np.sign(T)
    return of_error("hinge", 2 * P, t, squared=True)


# Binary cross-entropy


@reads(r"\pdv{\ell}{z} = \sigma(z) - t .")
def gradient_of_the_binary_cross_entropy_without_weights():
    return of_logits(1.0, 1.0)


# Cross-entropy


EPSILON, ZETA = 0.1, 0.3
C = 8
TARGET = softmax(T)


OPTIONS = {"weight": W, "label_smoothing": EPSILON, "z_loss": ZETA, "reduction": "sum"}
Q = W * ((1 - EPSILON) * TARGET + EPSILON / C)
LOG_SUM = Of(logsumexp, "z")
SMOOTHED = {
    "z": Z,
    "t": TARGET,
    "w": W,
    "C": C,
    r"\epsilon": EPSILON,
    r"\zeta": ZETA,
    "p": Of(softmax, "z"),
    r"\ell": Of(formulas.cross_entropy, "z", "t", **OPTIONS),
}
DIVERGENCE = {
    r"\log p": np.log(softmax(Z)),
    "q": TARGET,
    "p": softmax(Z),
    r"\ell": Of(formulas.kl_divergence, r"\log p", "q", reduction="sum"),
}


@reads(r"\ell = -\log p_y = \log \sum_j e^{z_j} - z_y .")
def cross_entropy_of_a_class():
    p = softmax(Z)
    return [{"z": Z, "p": p, "y": y, r"\ell": losses.cross_entropy(Z, y)} for y in range(C)]


@reads(
    r"\ell = -\sum_c q_c \log p_c + \zeta\, \lambda^2 , \qquad \lambda = \log \sum_j e^{z_j} ,",
    r"q_c = w_c \Bigl( (1 - \epsilon)\, t_c + \frac{\epsilon}{C} \Bigr) ,",
)
def the_cross_entropy():
    return SMOOTHED


@reads(r"\ell = \sum_c q_c (\lambda - z_c) + \zeta \lambda^2 , \qquad \lambda…")
def cross_entropy_after_the_maximum():
    return {**SMOOTHED, "q": Q, "m": np.max(Z)}


@reads(r"\pdv{\lambda}{z_j} = \frac{1}{\sum_c e^{z_c}}\, \pdv{}{z_j} \sum_c e^{z_c}…")
def gradient_of_the_log_sum():
    return {**SMOOTHED, r"\lambda": LOG_SUM}


@reads(r"\pdv{\ell}{z_j} = \sum_c q_c (p_j - \delta_{cj}) + 2 \zeta \lambda\, p_j…")
def gradient_of_the_cross_entropy():
    return {**SMOOTHED, "q": Q, "Q": np.sum(Q), r"\lambda": LOG_SUM}


@reads(r"\pdv{\ell}{\vec z} = \vec p - \vec e_y .")
def gradient_of_the_surprisal():
    loss = Of(lambda z: formulas.cross_entropy(z, np.array(3)), "z")
    return {"z": Z, "p": softmax(Z), "e": np.eye(C), "y": 3, r"\ell": loss}


@reads(r"\pdv{L}{z_j} = u_r \bigl( (Q + 2 \zeta \lambda)\, p_j - q_j \bigr) , \qquad \pdv{L}{t_c}…")
def cotangents_of_the_cross_entropy():
    u, given = np.array([0.7, -1.3]), {**SMOOTHED, "q": Q, "Q": np.sum(Q), r"\lambda": LOG_SUM}
    return [{**given, "u": u, "r": r, "L": Of(lambda l, r=r: u[r] * l, r"\ell")} for r in (0, 1)]


@reads(r"\pdv{\ell}{l_c} = -w_y\, \delta_{cy} .")
def gradient_of_a_log_probability():
    loss = lambda l: formulas.nll(l, np.array(3), weight=W, reduction="sum")  # noqa: E731
    return {"l": np.log(softmax(Z)), "w": W, "y": 3, r"\ell": Of(loss, "l")}


@reads(r"\pdv{\ell}{z_j} = -w_y (\delta_{yj} - p_j) = w_y (p_j - \delta_{yj}) ,")
def gradient_of_the_likelihood():
    def loss(z):
        return formulas.nll(log_softmax(z), np.array(3), weight=W, reduction="sum")

    return {"z": Z, "p": softmax(Z), "w": W, "y": 3, r"\ell": Of(loss, "z")}


@reads(r"\ell = \sum_c q_c (\log q_c - \log p_c)…")
def the_divergence():
    return DIVERGENCE


@reads(r"\pdv{L}{\log p_c} = -u\, q_c , \qquad \pdv{L}{q_c}…")
def cotangents_of_the_divergence():
    return {**DIVERGENCE, "u": 0.7, "L": Of(lambda l: 0.7 * l, r"\ell")}


# One neuron


INPUTS, OUTPUTS = RNG.normal(size=(8, 3)), RNG.normal(size=8)
WEIGHTS, BIAS = RNG.normal(size=3), 0.2


NEURON = {
    "x": INPUTS,
    "y": OUTPUTS,
    "w": WEIGHTS,
    "b": BIAS,
    "N": len(INPUTS),
    "z": Of(lambda x, w, b: x @ w + b, "x", "w", "b"),
    "a": Of(relu, "z"),
    "e": Of(np.subtract, "a", "y"),
    "C": Of(lambda e: np.mean(e**2), "e"),
}


@reads(r"C(\vec w, b) = \frac1N \sum_{n=1}^{N} \bigl( \max(0, \vec w \cdot \vec x_n + b) - y_n…")
def the_loss_of_a_neuron():
    C = functools.partial(losses.neuron_squared_error, INPUTS, OUTPUTS)
    return {**NEURON, "x": From(1, INPUTS), "y": From(1, OUTPUTS), "C": C}


@reads(
    r"z_n = \vec w \cdot \vec x_n + b , \qquad a_n = \max(0, z_n) , \qquad e_n = a_n - y_n …",
    r"\pdv{C}{e_n} = \frac2N e_n , \qquad \pdv{e_n}{a_n} = 1 .",
    r"\pdv{a_n}{\vec w} = \begin{cases} \vec 0 & z_n \le 0 \\ \vec x_n & z_n > 0 , \end{cases}…",
    r"\pdv{C}{\vec w} = \sum_n \pdv{C}{e_n} \pdv{e_n}{a_n} \pdv{a_n}{\vec w}…",
)
def loss_of_a_neuron_and_its_gradient():
    return NEURON
