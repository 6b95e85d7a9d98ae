"""The displayed equations of the cross-entropy of a linear layer."""

import numpy as np
from equations.evaluate import Of, mapped
from equations.ledger import reads

from dlref.formulas import losses as formulas
from dlref.formulas.activations import logsumexp, softmax

RNG = np.random.default_rng(0)
X, DX = RNG.normal(size=(2, 3, 2))
W, DW = RNG.normal(size=(2, 4, 2))
B, DB = RNG.normal(size=(2, 4))
T, U = np.array([1, 3, 1]), RNG.normal(size=3)
EPS, ZETA, C = 0.3, 0.2, 4
OPTIONS = {"label_smoothing": EPS, "z_loss": ZETA, "reduction": "none"}
ROWS, CLASSES, INPUTS = range(3), range(4), range(2)
LAYER = mapped(
    lambda x, w, b: formulas.linear_cross_entropy(x, w, T, b, **OPTIONS),
    {"x": X, "W": W, "b": B},
    r"\ell",
    t=T,
    C=C,
)
LAYER |= {r"\epsilon": EPS, r"\zeta": ZETA}
Z = X @ W.T + B
P, LAM = softmax(Z), logsumexp(Z)


@reads(r"z_{nc} = \sum_j W_{cj} x_{nj} + b_c , \qquad \lambda_n = \log \sum_c e^{z_{nc}} …")
def loss_of_a_linear_layer():
    return LAYER


D = np.array(
    [
        [(1 + 2 * ZETA * LAM[n]) * P[n, c] - (1 - EPS) * (c == T[n]) - EPS / C for c in CLASSES]
        for n in ROWS
    ]
)


@reads(r"D_{nc} &= (1 + 2 \zeta \lambda_n)\, p_{nc} - (1 - \epsilon)\, [c = t_n] -…")
def gradients_of_a_linear_layer():
    return {**LAYER, "p": P, r"\lambda": LAM}


@reads(r"\pdv{L}{x_{nj}} = \frac1N \sum_c \bigl( p_{nc} - [c = t_n] \bigr) W_{cj} …")
def mean_gradient_of_a_linear_layer():
    f = lambda x, w: formulas.linear_cross_entropy(x, w, T, B)  # noqa: E731
    return {"x": X, "W": W, "t": T, "N": 3, "p": P, "L": Of(f, "x", "W")}


@reads(r"\dot\ell_n = \sum_c D_{nc} \Bigl( \sum_j \bigl( \dot W_{cj} x_{nj} + W_{cj} \dot x_{nj}…")
def tangent_of_a_linear_layer():
    return {**LAYER, "D": D}
