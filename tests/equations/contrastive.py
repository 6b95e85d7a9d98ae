"""The displayed equations of contrastive losses."""

import functools

import numpy as np
from equations.evaluate import Of, mapped
from equations.ledger import reads

from dlref.formulas import losses as formulas
from dlref.formulas.activations import sigmoid, softmax

RNG = np.random.default_rng(0)
N = 4
S, DS = RNG.normal(size=(2, N, N))
U, BIAS = RNG.normal(size=N), -0.7
EYE = np.eye(N)
PAIRS = mapped(functools.partial(formulas.info_nce, reduction="none"), {"s": S}, r"\ell")
PAIRS |= {"p": softmax(S), "q": softmax(S, axis=0)}
QUESTIONS = mapped(
    functools.partial(formulas.siglip_loss, reduction="none"), {"s": S, "b": BIAS}, r"\ell"
)
QUESTIONS |= {"y": 2 * EYE - 1, r"\sigma": sigmoid}


@reads(
    r"\ell_i = \frac12 \Bigl( \log \sum_j e^{s_{ij}} - s_{ii} \Bigr) + \frac12 \Bigl( \log…",
    r"\pdv{}{s_{ij}} \sum_k \ell_k = \frac{p_{ij} + q_{ij}}{2} - \delta_{ij} .",
    r"\pdv{L}{s_{ij}} = \frac{u_i}{2} (p_{ij} - \delta_{ij}) + \frac{u_j}{2} (q_{ij} -…",
    r"\dot\ell_i = \frac12 \sum_j \bigl( p_{ij}\, \dot s_{ij} + q_{ji}\, \dot s_{ji} \bigr) -…",
)
def loss_of_each_pair_and_its_derivatives():
    return PAIRS


@reads(r"\pdv{L}{\tau} = \sum_{ij} G_{ij}\, \vec x_i \cdot \vec y_j , \qquad \pdv{L}{\vec x_i}…")
def gradient_of_the_temperature():
    x, y, tau = *RNG.normal(size=(2, N, 3)), 1.7
    loss = Of(lambda x, tau: formulas.info_nce(tau * x @ y.T), "x", r"\tau")
    return {"x": x, "y": y, r"\tau": tau, "L": loss, "G": formulas.info_nce_grad(tau * x @ y.T)}


@reads(
    r"\ell_i = -\sum_j \log \sigma \bigl( y_{ij}\, (s_{ij} + b) \bigr) .",
    r"\pdv{\ell_i}{s_{ij}} = -y_{ij}\, \sigma \bigl( -y_{ij} (s_{ij} + b) \bigr) …",
    r"\pdv{L}{s_{ij}} = -u_i\, y_{ij}\, \sigma \bigl( -y_{ij} (s_{ij} + b) \bigr) …",
    r"\dot\ell_i = -\sum_j y_{ij}\, \sigma \bigl( -y_{ij} (s_{ij} + b) \bigr) (\dot s_{ij} + \dot…",
)
def loss_of_each_question_and_its_derivatives():
    return QUESTIONS
