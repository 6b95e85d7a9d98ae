"""Inline relations of losses, and of its exercises."""

import math

import numpy as np
from equations.numeric import jacobian_of
from equations.stated import draw, slope, stated

from dlref import losses
from dlref.formulas.activations import sigmoid, softmax


@stated("dlref/losses/_kl_estimate.py")
def of_the_estimates():
    p, ref = softmax(draw(70, 4)[0]), softmax(draw(71, 4)[0])
    yield r"\sum_x p\, p_{ref} / p = 1", sum(p * ref / p), 1
    x = draw(72, 4)[0]
    score = jacobian_of(lambda x: np.log(softmax(x)), x)
    yield r"\E_p[\nabla \log p] = 0", softmax(x) @ score, np.zeros(4)
    rho = np.log(ref) - np.log(softmax(x))
    text = r"\E_p[(1 - e^\rho) \nabla \log p] = -\sum_x p_{ref} \nabla \log p"
    yield text, (softmax(x) * (1 - np.exp(rho))) @ score, -ref @ score


@stated("dlref/losses/_nll.py")
def of_the_likelihood():
    z = draw(73, 4)[0]
    want = jacobian_of(lambda z: np.log(softmax(z)), z)
    yield r"\pdv{l_c}{z_j} = \delta_{cj} - p_j", want, np.eye(4) - softmax(z)


@stated("dlref/losses/_cross_entropy.py")
def of_cross_entropy():
    q = softmax(draw(75, 4)[0])
    yield r"z_i - z_j = \log (q_i / q_j)", np.log(q[0]) - np.log(q[1]), np.log(q[0] / q[1])


@stated("dlref/losses/_gaussian_kl.py")
def of_moments():
    z, weight = np.polynomial.hermite_e.hermegauss(20)
    weight = weight / np.sum(weight)
    mean, s = 0.4, 1.3
    x = mean + s * z
    yield r"\E[(z - \mu)^2] = \sigma^2", weight @ (x - mean) ** 2, s**2
    yield r"\E[z^2] = \mu^2 + \sigma^2", weight @ x**2, mean**2 + s**2


@stated("docs/exercises/losses/cross_entropy.rst")
def of_the_exercises_on_cross_entropy():
    x, y = draw(79, 4)[0], softmax(draw(80, 4)[0])
    s = softmax(x)
    L = -sum(y * np.log(s))
    text = r"-\sum_j y_j \log y_j - L = \sum_j y_j \log (s_j / y_j) \le \sum_j (s_j - y_j) = 0"
    yield text, -sum(y * np.log(y)) - L, sum(y * np.log(s / y))
    yield text, sum(y * np.log(s / y)) <= 0, True
    yield text, sum(s - y), 0
    left = (1 - s[1]) ** 2 + s[0] ** 2 + s[2] ** 2 + s[3] ** 2
    text = r"(1 - s_y)^2 + \sum_{j \ne y} s_j^2 \le 2 (1 - s_y)^2 \le 2"
    yield text, left <= 2 * (1 - s[1]) ** 2 <= 2, True
    z, weight = np.polynomial.hermite_e.hermegauss(40)
    v = 0.8
    yield r"\E e^x = e^{v/2}", weight @ np.exp(math.sqrt(v) * z) / np.sum(weight), math.exp(v / 2)
    yield (
        r"s - y = (0.15, 0.15, -0.3)",
        np.array([0.25, 0.25, 0.5]) - [0.1, 0.1, 0.8],
        [0.15, 0.15, -0.3],
    )


@stated("dlref/losses/_kl_estimate.py")
def of_the_log_ratio():
    yield r"\partial \rho / \partial \log p = -1", slope(lambda l: -0.3 - l, 0.5), -1


@stated("docs/exercises/losses/binary_cross_entropy.rst")
def of_the_binary_gradient():
    t, s = 0.3, 0.8
    text = r"-t (1 - \sigma) + (1 - t) \sigma = \sigma - t"
    yield text, -t * (1 - s) + (1 - t) * s, s - t
    x = 0.6
    yield r"\sigma' = \sigma (1 - \sigma)", slope(sigmoid, x), sigmoid(x) * (1 - sigmoid(x))


@stated("docs/exercises/losses/dpo_loss.rst")
def of_the_best_margin():
    z, e = math.log(4), 0.2
    text = r"\epsilon\, \sigma(z) = (1 - \epsilon)\, \sigma(-z)"
    yield text, e * sigmoid(z), (1 - e) * sigmoid(-z)
    yield (
        r"z = \log 4",
        slope(lambda z: -(1 - e) * np.log(sigmoid(z)) - e * np.log(sigmoid(-z)), z),
        0,
    )


@stated("docs/exercises/losses/gaussian_kl.rst")
def of_the_best_variance():
    a = 0.7
    s = math.log(1 / (1 + 2 * a))
    yield r"e^s (a + \tfrac12) = \tfrac12", math.exp(s) * (a + 0.5), 0.5
    yield (
        r"\sigma^2 = 1 / (1 + 2 a)",
        slope(lambda s: a * np.exp(s) + (np.exp(s) - 1 - s) / 2, s),
        0,
    )


@stated("dlref/losses/_sparsemax_loss.py")
def of_the_sparsemax_loss():
    z = np.array([0.6, 0.2, -1.0])
    S = [0, 1]

    def tau(z):
        return (np.sum(z[S]) - 1) / len(S)

    slopes = jacobian_of(tau, z)[S]
    yield r"\pdv{\tau}{z_j} = \frac{1}{\abs S}", slopes, np.full(2, 1 / len(S))
    text = r"z_j - \abs S\, \tau\, \pdv{\tau}{z_j} = z_j - \tau = p_j"
    yield text, z[S] - len(S) * tau(z) * slopes, z[S] - tau(z), np.maximum(z - tau(z), 0)[S]


@stated("dlref/losses/_multi_margin_loss.py")
def of_the_hinge_of_several_classes():
    x, dx = draw(92, 4, 4)
    y, m, p = 2, 0.8, 2
    j = [0, 1, 3]

    def shortfalls(x):
        return np.maximum(0, m - x[y] + x)[j]

    h = shortfalls(x)
    moved, g = jacobian_of(shortfalls, x) @ dx, p * h ** (p - 1) * (h > 0)
    inside = h > 0
    yield r"\dd h_j = \dd x_j - \dd x_y", moved[inside], (dx[j] - dx[y])[inside]
    text = r"\dd (h_j^p) = g_j\, (\dd x_j - \dd x_y)"
    yield text, jacobian_of(lambda x: shortfalls(x) ** p, x) @ dx, g * (dx[j] - dx[y])


@stated("dlref/losses/_triplet_margin_loss.py")
def of_triplets_at_their_kink():
    a, b, c = np.zeros(2), np.array([3.0, 4.0]), np.array([0.0, 8.0])
    near, far = np.hypot(*(a - b)), np.hypot(*(a - c))
    for m, text in ((3.5, r"m + d_+ - d_- > 0"), (3.0, r"m + d_+ - d_- = 0")):
        grads = losses.triplet_margin_loss_grad(a, b, c, margin=m, eps=0.0)
        yield text, m + near - far > 0, bool(np.any(grads))
    yield r"m + d_+ - d_- = 0", 3.0 + near - far, 0
