"""Inline relations of training, and of its exercises."""

import math

import numpy as np
from equations.stated import Near, draw, slope, stated

from dlref import training


@stated("dlref/training/_newton_schulz.py")
def of_newton_schulz():
    a, b, c = 15 / 8, -10 / 8, 3 / 8
    p = lambda s: a * s + b * s**3 + c * s**5  # noqa: E731
    second = slope(lambda s: a + 3 * b * s**2 + 5 * c * s**4, 1.0)
    yield r"p'(1) = p''(1) = 0", slope(p, 1.0), second, 0
    yield r"a^5 \approx 485", 3.4445**5, 485, Near(0.5)
    yield r"p(1) = 0.70", 3.4445 - 4.7750 + 2.0315, 0.70, Near(5e-3)


@stated("docs/exercises/training/adam.rst")
def of_the_exercises_on_adam():
    yield r"-3\eta / \sqrt{8.1} > -1.055 \eta", -3 / math.sqrt(8.1) > -1.055, True
    yield (
        r"\eta / \sqrt{1.8} + \eta / \sqrt{1.08} > 1.7 \eta",
        1 / math.sqrt(1.8) + 1 / math.sqrt(1.08) > 1.7,
        True,
    )


@stated("dlref/training/_muon.py")
def of_orthogonal_steps():
    G, O = draw(87, (3, 4), (3, 4))
    U, s, Vt = np.linalg.svd(G, full_matrices=False)
    text = r"\sum_{ij} G_{ij} O_{ij} = \sum_k s_k\, \vec u_k^\top \mat O\, \vec v_k"
    yield text, np.sum(G * O), sum(s[k] * U[:, k] @ O @ Vt[k] for k in range(3))


@stated("dlref/training/_lion.py")
def of_lion():
    rng, eta, decay = np.random.default_rng(122), 0.3, 0.8
    before = rng.normal(size=50)
    after = (1 - eta * decay) * before - eta * np.sign(rng.normal(size=50))
    text = r"\abs{\theta_t} \le (1 - \eta \lambda) \abs{\theta_{t-1}} + \eta"
    yield (
        text,
        bool(np.all(np.abs(after) <= (1 - eta * decay) * np.abs(before) + eta + 1e-15)),
        True,
    )


@stated("docs/exercises/training/newton_schulz.rst")
def of_the_cubic():
    a, b = 3 / 2, -1 / 2
    p = lambda s: a * s + b * s**3  # noqa: E731
    yield r"p'(1) = 0", slope(p, 1.0), 0
    yield r"a + b = 1", a + b, 1
    yield r"a + 3 b = 0", a + 3 * b, 0
    X = draw(138, (3, 4))[0]
    text = r"\mat A \mat X = \mat X \mat X^\top \mat X = \mat X (\mat X^\top \mat X)"
    yield text, (X @ X.T) @ X, X @ (X.T @ X)


@stated("docs/exercises/training/lion.rst")
def of_lion_turning_around():
    k = next(k for k in range(200) if 0.99**k < 1 / 2)
    m = 2 * 0.99**k - 1
    yield r"0.99^k < 1/2", 0.99 ** (k - 1) >= 0.5 > 0.99**k, True
    yield r"m = 2 \cdot 0.99^k - 1", m, sum(-0.01 * 0.99 ** (k - 1 - j) for j in range(k)) + 0.99**k


@stated("dlref/training/_sgd.py")
def of_a_step_of_descent():
    theta, g, eta = *draw(134, 3, 3), 0.3
    new, _ = training.sgd_step(theta, g, None, learning_rate=eta)
    yield r"\theta^+ = \theta - \eta\, \vec g", new, theta - eta * g


@stated("dlref/training/_adam.py")
def of_the_example_of_nadam():
    gradient, beta2 = 2.0, 0.75
    v = (1 - beta2) * gradient**2
    yield r"\sqrt{\hat v} = 2", math.sqrt(v / (1 - beta2)), 2
