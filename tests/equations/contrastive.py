"""The displayed equations of contrastive losses."""

import numpy as np
from equations.ledger import definition, equation
from equations.numeric import gradients, rate

from dlref.formulas.activations import sigmoid
from dlref.losses import (
    info_nce,
    info_nce_grad,
    info_nce_jvp,
    info_nce_vjp,
    siglip_loss,
    siglip_loss_grad,
    siglip_loss_jvp,
    siglip_loss_vjp,
)

RNG = np.random.default_rng(0)
N = 4
S, DS = RNG.normal(size=(2, N, N))
U, BIAS = RNG.normal(size=N), -0.7
ALL = range(N)
EYE = np.eye(N)


def terms(s):
    return np.array(
        [
            0.5 * (np.log(sum(np.exp(s[i, j]) for j in ALL)) - s[i, i])
            + 0.5 * (np.log(sum(np.exp(s[j, i]) for j in ALL)) - s[i, i])
            for i in ALL
        ]
    )


P = np.exp(S) / np.exp(S).sum(1, keepdims=True)
Q = np.exp(S) / np.exp(S).sum(0, keepdims=True)


@definition(
    r"""\ell_i = \frac12 \Bigl( \log \sum_j e^{s_{ij}} - s_{ii} \Bigr) + \frac12 \Bigl( \log
    \sum_j e^{s_{ji}} - s_{ii} \Bigr) ,"""
)
def loss_of_each_pair():
    yield terms(S), info_nce(S, reduction="none")


@equation(
    r"""\pdv{}{s_{ij}} \sum_k \ell_k = \frac{p_{ij} + q_{ij}}{2} - \delta_{ij} .""",
    r"""\pdv{L}{s_{ij}} = \frac{u_i}{2} (p_{ij} - \delta_{ij}) + \frac{u_j}{2}
    (q_{ij} - \delta_{ij}) .""",
    r"""\dot\ell_i = \frac12 \sum_j \bigl( p_{ij}\, \dot s_{ij} + q_{ji}\, \dot s_{ji} \bigr)
    - \dot s_{ii} .""",
)
def derivatives_of_the_contrastive_loss():
    (grad,) = gradients(lambda s: np.sum(terms(s)), S)
    yield grad, (P + Q) / 2 - EYE, info_nce_grad(S, reduction="sum")
    (grad,) = gradients(lambda s: np.sum(U * terms(s)), S)
    by_hand = [
        [U[i] / 2 * (P[i, j] - EYE[i, j]) + U[j] / 2 * (Q[i, j] - EYE[i, j]) for j in ALL]
        for i in ALL
    ]
    yield grad, by_hand, info_nce_vjp(U, S, reduction="none")
    by_hand = [
        0.5 * sum(P[i, j] * DS[i, j] + Q[j, i] * DS[j, i] for j in ALL) - DS[i, i] for i in ALL
    ]
    yield rate(terms, [S], [DS]), by_hand, info_nce_jvp(S, DS, reduction="none")


@equation(
    r"""\pdv{L}{\tau} = \sum_{ij} G_{ij}\, \vec x_i \cdot \vec y_j , \qquad
    \pdv{L}{\vec x_i} = \tau \sum_j G_{ij}\, \vec y_j ."""
)
def gradient_of_the_temperature():
    x, y, tau = *RNG.normal(size=(2, N, 3)), 1.7

    def loss(x, tau):
        return np.mean(terms(tau * x @ y.T))

    by_x, by_tau = gradients(loss, x, tau)
    G = info_nce_grad(tau * x @ y.T)
    yield by_tau, sum(G[i, j] * (x[i] @ y[j]) for i in ALL for j in ALL)
    yield by_x, [tau * sum(G[i, j] * y[j] for j in ALL) for i in ALL]


LABEL = 2 * EYE - 1


def questions(s, b):
    return np.array([-sum(np.log(sigmoid(LABEL[i, j] * (s[i, j] + b))) for j in ALL) for i in ALL])


@definition(r"\ell_i = -\sum_j \log \sigma \bigl( y_{ij}\, (s_{ij} + b) \bigr) .")
def loss_of_each_question():
    yield questions(S, BIAS), siglip_loss(S, BIAS, reduction="none")


@equation(
    r"""\pdv{\ell_i}{s_{ij}} = -y_{ij}\, \sigma \bigl( -y_{ij} (s_{ij} + b) \bigr) , \qquad
    \pdv{\ell_i}{b} = \sum_j \pdv{\ell_i}{s_{ij}} .""",
    r"""\pdv{L}{s_{ij}} = -u_i\, y_{ij}\, \sigma \bigl( -y_{ij} (s_{ij} + b) \bigr) , \qquad
    \pdv{L}{b} = \sum_{ij} \pdv{L}{s_{ij}} .""",
    r"""\dot\ell_i = -\sum_j y_{ij}\, \sigma \bigl( -y_{ij} (s_{ij} + b) \bigr)
    (\dot s_{ij} + \dot b) .""",
)
def derivatives_of_the_sigmoid_loss():
    slope = -LABEL * sigmoid(-LABEL * (S + BIAS))
    ds, db = gradients(lambda s, b: np.sum(questions(s, b)), S, BIAS)
    got = siglip_loss_grad(S, BIAS, reduction="sum")
    yield ds, slope, got[0]
    yield db, np.sum(slope), got[1]
    ds, db = gradients(lambda s, b: np.sum(U * questions(s, b)), S, BIAS)
    got = siglip_loss_vjp(U, S, BIAS, reduction="none")
    yield ds, U[:, None] * slope, got[0]
    yield db, np.sum(ds), got[1]
    by_hand = [sum(slope[i, j] * (DS[i, j] + 0.3) for j in ALL) for i in ALL]
    pushed = siglip_loss_jvp((S, BIAS), (DS, 0.3), reduction="none")
    yield rate(questions, (S, BIAS), (DS, 0.3)), by_hand, pushed
