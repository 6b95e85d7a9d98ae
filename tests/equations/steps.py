"""The displayed equations of docs/steps: one pass forward and back, with numbers."""

import numpy as np
from equations.evaluate import From
from equations.ledger import reads
from equations.numeric import gradients, jacobian_of

from dlref import formulas
from dlref.formulas.activations import softmax
from dlref.formulas.losses import cross_entropy

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


@reads(*(rf"h_{t} = \tanh(w h_{t - 1} + x_{t})" for t in range(1, STEPS + 1)))
def states_of_one_unit():
    h = formulas.recurrent.rnn(X[:, None], np.array([START]), np.eye(1), np.array([[WEIGHT]]))
    return {"h": From(0, [START, *h[:, 0]]), "x": From(1, X), "w": WEIGHT}


def last(bump, t, to="h"):
    """Return h_4 if h_t, or the pre-activation z_t, is raised by a bump."""
    h = H[t] + bump if to == "h" else np.tanh(WEIGHT * H[t - 1] + X[t - 1] + bump)
    for s in range(t, STEPS):
        h = np.tanh(WEIGHT * h + X[s])
    return h


@reads(
    r"\bar h_4 = \frac{\partial L}{\partial h_4} = 1",
    *(rf"\bar z_{t} = (1 - h_{t}^2)\, \bar h_{t}" for t in range(1, STEPS + 1)),
    *(rf"\bar h_{t} = w\, \bar z_{t + 1}" for t in range(STEPS)),
)
def of_one_unit(t=0):
    """Return the environment of the way back; the weight's gradient grows at step t."""
    dh = [jacobian_of(lambda b, s=s: last(b, s), 0.0) for s in range(STEPS + 1)]
    dz = [jacobian_of(lambda b, s=s: last(b, s, "z"), 0.0) for s in range(1, STEPS + 1)]
    by_weight = jacobian_of(lambda w: states(X, START, w)[-1], [WEIGHT] * STEPS)
    grown = {r"\bar w": np.sum(by_weight[t:]), r"\bar w'": np.sum(by_weight[t - 1 :])}
    bar = {r"\bar h": From(0, dh), r"\bar z": From(1, dz), r"\pdv{L}{h}": From(0, dh)}
    return {**bar, **grown, "h": From(0, H), "w": WEIGHT}


def register(t):
    """Mark the text as read in which the weight's gradient grows at step t."""

    def check():
        return of_one_unit(t)

    check.__name__ = check.__qualname__ = f"gradient_of_the_weight_at_step_{t}"
    reads(rf"\bar w \leftarrow \bar w + \bar z_{t} h_{t - 1}")(check)


for _t in range(1, STEPS + 1):
    register(_t)


@reads(r"(\bar{\vec x}, \bar h_0, \bar w) = \mat J^\top \bar{\vec h}")
def all_gradients_of_one_unit():
    def of(values):
        return states(values[:STEPS], values[STEPS], [values[-1]] * STEPS)[1:]

    point = np.array([*X, START, WEIGHT])
    u = np.random.default_rng(1).normal(size=STEPS)
    found = gradients(lambda values: np.sum(u * of(values)), point)[0]
    parts = {r"\bar x": found[:STEPS], r"\bar h_0": found[STEPS], r"\bar w": found[-1]}
    return {**parts, "J": jacobian_of(of, point), r"\bar h": u}


CLASSES, FEATURES = 3, 2
W, B, INPUT = RNG.normal(size=(CLASSES, FEATURES)), RNG.normal(size=CLASSES), RNG.normal(size=2)
TRUTH = np.array([0.0, 1.0, 0.0])


@reads(
    r"\vec z = \mat W \vec x + \vec b",
    r"p_i = \frac{e^{z_i}}{\sum_k e^{z_k}}",
    r"L = -\sum_i y_i \log p_i",
)
def loss_of_a_classifier():
    loss = cross_entropy(W @ INPUT + B, np.array(1))
    p = softmax(W @ INPUT + B)
    return {"W": W, "x": INPUT, "b": B, "y": TRUTH, "L": loss, "p": p, "z": W @ INPUT + B}


@reads(
    r"\bar p_i = -\frac{y_i}{p_i}",
    r"\bar z_j = p_j \Bigl( \bar p_j - \sum_i p_i \bar p_i \Bigr) = p_j - y_j",
    r"\bar{\mat W} = \bar{\vec z}\, \vec x^\top",
    r"\bar{\vec b} = \bar{\vec z}",
    r"\bar{\vec x} = \mat W^\top \bar{\vec z}",
    r"\bar{\vec z} = \nabla L(\vec z), \quad (\bar{\vec x}, \bar{\mat W}, \bar{\vec b})…",
)
def gradients_of_a_classifier():
    def loss(x, w, b):
        return cross_entropy(w @ x + b, np.array(1))

    z = W @ INPUT + B
    p = softmax(z)
    bar = {r"\bar p": gradients(lambda p: -np.sum(TRUTH * np.log(p)), p)[0]}
    bar |= {r"\bar z": gradients(lambda z: cross_entropy(z, np.array(1)), z)[0]}
    bar |= dict(zip((r"\bar x", r"\bar W", r"\bar b"), gradients(loss, INPUT, W, B), strict=True))
    parts = [
        jacobian_of(f, at)
        for f, at in (
            (lambda x: W @ x + B, INPUT),
            (lambda w: w @ INPUT + B, W),
            (lambda b: W @ INPUT + b, B),
        )
    ]
    J = np.concatenate([part.reshape(CLASSES, -1) for part in parts], axis=1)
    slope = lambda z: softmax(z) - TRUTH  # noqa: E731
    return {"x": INPUT, "W": W, "y": TRUTH, "p": p, "z": z, "J": J, r"\nabla L": slope, **bar}
