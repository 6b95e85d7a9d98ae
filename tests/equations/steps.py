"""The displayed equations of docs/steps: one pass forward and back, with numbers."""

import numpy as np
from equations.ledger import equation
from equations.numeric import gradients, jacobian_of

from dlref.activations import softmax
from dlref.losses import cross_entropy
from dlref.neurons import linear
from dlref.recurrent import rnn

RNG = np.random.default_rng(0)
STEPS = 4
X, START, WEIGHT = RNG.normal(size=STEPS), 0.3, 0.7


def states(x, h, w):
    """Return h_0 to h_4, with a weight for each step."""
    found = [h]
    for t in range(STEPS):
        found.append(np.tanh(w[t] * found[-1] + x[t]))
    return np.array(found)


H = states(X, START, [WEIGHT] * STEPS)


@equation(*(rf"h_{t} = \tanh(w h_{t - 1} + x_{t})" for t in range(1, STEPS + 1)))
def states_of_one_unit():
    h = [START]
    for t in range(1, STEPS + 1):
        h.append(np.tanh(WEIGHT * h[t - 1] + X[t - 1]))
    yield h[1:], rnn(X[:, None], [START], [[1.0]], [[WEIGHT]])[:, 0]


def last(bump, t, to="h"):
    """Return h_4 if h_t, or the pre-activation z_t, is raised by a bump."""
    h = H[t] + bump if to == "h" else np.tanh(WEIGHT * H[t - 1] + X[t - 1] + bump)
    for s in range(t, STEPS):
        h = np.tanh(WEIGHT * h + X[s])
    return h


@equation(
    r"\bar h_4 = \frac{\partial L}{\partial h_4} = 1",
    *(rf"\bar z_{t} = (1 - h_{t}^2)\, \bar h_{t}" for t in range(1, STEPS + 1)),
    *(rf"\bar h_{t} = w\, \bar z_{t + 1}" for t in range(STEPS)),
    *(rf"\bar w \leftarrow \bar w + \bar z_{t} h_{t - 1}" for t in range(1, STEPS + 1)),
)
def gradients_of_one_unit():
    by_weight = jacobian_of(lambda w: states(X, START, w)[-1], [WEIGHT] * STEPS)
    dh, dw = 1, 0
    for t in range(STEPS, 0, -1):
        yield jacobian_of(lambda b, t=t: last(b, t), 0.0), dh
        dz = (1 - H[t] ** 2) * dh
        yield jacobian_of(lambda b, t=t: last(b, t, "z"), 0.0), dz
        dw = dw + dz * H[t - 1]
        yield sum(by_weight[t - 1 :]), dw
        dh = WEIGHT * dz
    yield jacobian_of(lambda b: last(b, 0), 0.0), dh


@equation(r"(\bar{\vec x}, \bar h_0, \bar w) = \mat J^\top \bar{\vec h}")
def all_gradients_of_one_unit():
    def of(values):
        return states(values[:STEPS], values[STEPS], [values[-1]] * STEPS)[1:]

    point = np.array([*X, START, WEIGHT])
    u = RNG.normal(size=STEPS)
    yield gradients(lambda values: np.sum(u * of(values)), point)[0], jacobian_of(of, point).T @ u


CLASSES, FEATURES = 3, 2
W, B, INPUT = RNG.normal(size=(CLASSES, FEATURES)), RNG.normal(size=CLASSES), RNG.normal(size=2)
TRUTH = np.array([0.0, 1.0, 0.0])


@equation(
    r"\vec z = \mat W \vec x + \vec b",
    r"s_i = \frac{e^{z_i}}{\sum_k e^{z_k}}",
    r"L = -\sum_i y_i \log s_i",
)
def loss_of_a_classifier():
    z = W @ INPUT + B
    s = [np.exp(z[i]) / sum(np.exp(z[k]) for k in range(CLASSES)) for i in range(CLASSES)]
    yield z, linear(INPUT, W, B)
    yield s, softmax(z)
    yield -sum(TRUTH[i] * np.log(s[i]) for i in range(CLASSES)), cross_entropy(z, 1)


@equation(
    r"\bar s_i = -\frac{y_i}{s_i}",
    r"\bar z_j = s_j \Bigl( \bar s_j - \sum_i s_i \bar s_i \Bigr) = s_j - y_j",
    r"\bar{\mat W} = \bar{\vec z}\, \vec x^\top",
    r"\bar{\vec b} = \bar{\vec z}",
    r"\bar{\vec x} = \mat W^\top \bar{\vec z}",
    r"""\bar{\vec z} = \nabla L(\vec z), \quad
    (\bar{\vec x}, \bar{\mat W}, \bar{\vec b}) = \mat J^\top \bar{\vec z}""",
)
def gradients_of_a_classifier():
    def probabilities(z):
        return np.exp(z) / np.sum(np.exp(z))

    def loss(x, w, b):
        return -np.sum(TRUTH * np.log(probabilities(w @ x + b)))

    z = W @ INPUT + B
    s = probabilities(z)
    ds = gradients(lambda s: -np.sum(TRUTH * np.log(s)), s)[0]
    yield ds, [-TRUTH[i] / s[i] for i in range(CLASSES)]
    dz = gradients(lambda z: -np.sum(TRUTH * np.log(probabilities(z))), z)[0]
    mean = sum(s[i] * ds[i] for i in range(CLASSES))
    yield dz, [s[j] * (ds[j] - mean) for j in range(CLASSES)], s - TRUTH
    dx, dw, db = gradients(loss, INPUT, W, B)
    yield dw, np.outer(dz, INPUT)
    yield db, dz
    yield dx, W.T @ dz
    for gradient, f, at in (
        (dx, lambda x: W @ x + B, INPUT),
        (dw, lambda w: w @ INPUT + B, W),
        (db, lambda b: W @ INPUT + b, B),
    ):
        yield gradient, np.tensordot(dz, jacobian_of(f, at), 1)
