"""The displayed equations of the cross-entropy of a linear layer."""

import numpy as np
from equations.ledger import definition, equation
from equations.numeric import gradients, rate

from dlref.losses import (
    linear_cross_entropy,
    linear_cross_entropy_grad,
    linear_cross_entropy_jvp,
    linear_cross_entropy_vjp,
)

RNG = np.random.default_rng(0)
X, DX = RNG.normal(size=(2, 3, 2))
W, DW = RNG.normal(size=(2, 4, 2))
B, DB = RNG.normal(size=(2, 4))
T, U = np.array([1, 3, 1]), RNG.normal(size=3)
EPS, ZETA, C = 0.3, 0.2, 4
OPTIONS = {"label_smoothing": EPS, "z_loss": ZETA, "reduction": "none"}
ROWS, CLASSES, INPUTS = range(3), range(4), range(2)


def logits(x, w, b):
    return np.array(
        [[sum(w[c, j] * x[n, j] for j in INPUTS) + b[c] for c in CLASSES] for n in ROWS]
    )


def terms(x, w, b):
    z = logits(x, w, b)
    lam = np.array([np.log(sum(np.exp(z[n, c]) for c in CLASSES)) for n in ROWS])
    return np.array(
        [
            lam[n]
            - (1 - EPS) * z[n, T[n]]
            - EPS / C * sum(z[n, c] for c in CLASSES)
            + ZETA * lam[n] ** 2
            for n in ROWS
        ]
    )


@definition(
    r"""z_{nc} = \sum_j W_{cj} x_{nj} + b_c , \qquad
    \lambda_n = \log \sum_c e^{z_{nc}} , \qquad
    \ell_n = \lambda_n - (1 - \epsilon)\, z_{n t_n} - \frac{\epsilon}{C} \sum_c z_{nc}
    + \zeta \lambda_n^2 ."""
)
def loss_of_a_linear_layer():
    yield terms(X, W, B), linear_cross_entropy(X, W, T, B, **OPTIONS)


Z = logits(X, W, B)
LAM = np.log(np.exp(Z).sum(1))
P = np.exp(Z - LAM[:, None])
D = np.array(
    [
        [(1 + 2 * ZETA * LAM[n]) * P[n, c] - (1 - EPS) * (c == T[n]) - EPS / C for c in CLASSES]
        for n in ROWS
    ]
)


@equation(
    r"""D_{nc} &= (1 + 2 \zeta \lambda_n)\, p_{nc} - (1 - \epsilon)\, [c = t_n]
    - \frac{\epsilon}{C} , \\
    \pdv{L}{x_{nj}} &= u_n \sum_c D_{nc} W_{cj} , \qquad
    \pdv{L}{W_{cj}} = \sum_n u_n D_{nc}\, x_{nj} , \qquad
    \pdv{L}{b_c} = \sum_n u_n D_{nc} ."""
)
def gradients_of_a_linear_layer():
    dx, dw, db = gradients(lambda x, w, b: np.sum(U * terms(x, w, b)), X, W, B)
    got = linear_cross_entropy_vjp(U, X, W, T, B, **OPTIONS)
    by_hand = [[U[n] * sum(D[n, c] * W[c, j] for c in CLASSES) for j in INPUTS] for n in ROWS]
    yield dx, by_hand, got[0]
    by_hand = [[sum(U[n] * D[n, c] * X[n, j] for n in ROWS) for j in INPUTS] for c in CLASSES]
    yield dw, by_hand, got[1]
    yield db, [sum(U[n] * D[n, c] for n in ROWS) for c in CLASSES], got[2]


@equation(
    r"""\pdv{L}{x_{nj}} = \frac1N \sum_c \bigl( p_{nc} - [c = t_n] \bigr) W_{cj} , \qquad
    \pdv{L}{W_{cj}} = \frac1N \sum_n \bigl( p_{nc} - [c = t_n] \bigr)\, x_{nj} ."""
)
def mean_gradient_of_a_linear_layer():
    off = np.array([[P[n, c] - (c == T[n]) for c in CLASSES] for n in ROWS])
    own = linear_cross_entropy_grad(X, W, T, B)
    of_x = [[sum(off[n, c] * W[c, j] for c in CLASSES) / 3 for j in INPUTS] for n in ROWS]
    yield of_x, own[0]
    of_w = [[sum(off[n, c] * X[n, j] for n in ROWS) / 3 for j in INPUTS] for c in CLASSES]
    yield of_w, own[1]


@equation(
    r"""\dot\ell_n = \sum_c D_{nc} \Bigl( \sum_j \bigl( \dot W_{cj} x_{nj}
    + W_{cj} \dot x_{nj} \bigr) + \dot b_c \Bigr) ."""
)
def tangent_of_a_linear_layer():
    by_hand = [
        sum(
            D[n, c] * (sum(DW[c, j] * X[n, j] + W[c, j] * DX[n, j] for j in INPUTS) + DB[c])
            for c in CLASSES
        )
        for n in ROWS
    ]
    pushed = linear_cross_entropy_jvp((X, W, T, B), (DX, DW, None, DB), **OPTIONS)
    yield rate(terms, (X, W, B), (DX, DW, DB)), by_hand, pushed
