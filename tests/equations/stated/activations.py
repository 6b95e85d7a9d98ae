"""Inline relations of activations, and of its exercises."""

import math

import numpy as np
from equations.numeric import rate
from equations.stated import Near, draw, slope, stated

from dlref import activations
from dlref.formulas.activations import sigmoid, softmax


@stated("dlref/activations/_softmax.py")
def of_the_softmax():
    x = draw(1, 4)[0]
    s, J = activations.softmax(x), activations.softmax_jacobian(x)
    yield r"s(x - c \vec 1) = s(x)", activations.softmax(x - 0.7), s
    yield r"\mat{J} \vec 1 = 0", J @ np.ones(4), np.zeros(4)


@stated("docs/exercises/activations/softmax.rst")
def of_the_exercises_on_softmax():
    x, dx = draw(2, 3, 3)
    s = softmax(x)
    tau, mean = 0.7, softmax(x / 0.7) @ x
    text = r"\partial s_i / \partial \tau = -s_i (x_i - \bar x) / \tau^2"
    yield text, slope(lambda t: softmax(x / t), tau), -softmax(x / tau) * (x - mean) / tau**2
    yield (
        r"\dd \log s_i = \dd s_i / s_i",
        rate(lambda x: np.log(softmax(x)), [x], [dx]),
        rate(softmax, [x], [dx]) / s,
    )


@stated("dlref/activations/_log_softmax.py")
def of_the_log_softmax():
    x, v = draw(3, 4, 4)
    s = softmax(x)
    dl, ds = activations.log_softmax_jvp(x, v), activations.softmax_jvp(x, v)
    yield r"\sum_i s_i \dot\ell_i = \sum_i \dot s_i = 0", s @ dl, sum(ds), 0


@stated("dlref/activations/_gelu.py")
def of_gelu():
    x = 0.7
    c = 2 * math.sqrt(2 / math.pi)
    d = 0.044715 * c

    def v(x):
        return c * x + d * x**3

    first = lambda v: sigmoid(v) * sigmoid(-v)  # noqa: E731
    yield (
        r"\sigma'' = -\sigma' \tanh \frac v2",
        slope(first, v(x)),
        -first(v(x)) * np.tanh(v(x) / 2),
    )


@stated("dlref/activations/_mish.py")
def of_mish():
    x = np.array([-1.3, 0.4, 2.0])
    w = np.exp(x)
    yield r"(w^2 + w)' = 2w^2 + w", slope(lambda x: np.exp(2 * x) + np.exp(x), x), 2 * w**2 + w


@stated("dlref/activations/_selu.py")
def of_selu():
    a, scale = 1.6732632423543772, 1.0507009873554805
    z, weight = np.polynomial.hermite_e.hermegauss(200)
    weight = weight / np.sum(weight)
    f = activations.selu(z)
    yield r"\E f(z) = 0", weight @ f, 0, Near(2e-3)
    yield r"\lambda \alpha = 1.758", scale * a, 1.758, Near(5e-4)
    yield r"\lambda = 1.051", scale, 1.051, Near(5e-4)


@stated("dlref/activations/_sigmoid.py")
def of_the_sigmoid():
    top = math.log(2 + math.sqrt(3))
    yield r"\sigma' = 1/6", sigmoid(top) * sigmoid(-top), 1 / 6
    t = math.exp(top)
    yield r"t / (1 + t)^2 = 1/6", t / (1 + t) ** 2, 1 / 6
    yield r"t^2 - 4t + 1 = 0", t**2 - 4 * t + 1, 0
    yield (
        r"x = \log(2 \pm \sqrt 3) = \pm 1.317",
        abs(math.log(2 - math.sqrt(3))),
        top,
        1.317,
        Near(5e-4),
    )


@stated("dlref/activations/_silu.py")
def of_silu():
    u = 2.3994
    yield r"u \tanh \frac u2 = 2", u * math.tanh(u / 2), 2, Near(1e-4)
    yield r"u = \pm 2.3994", activations.silu_deriv2(2.3994), 0, Near(1e-5)
    x, b = 0.6, 1.7
    yield r"f_\beta(x) = f_1(\beta x) / \beta", x * sigmoid(b * x), b * x * sigmoid(b * x) / b
    low = activations.silu_deriv(-1.2784645427610738)
    yield r"1 + x + e^x = 0", 1 - 1.2784645427610738 + math.exp(-1.2784645427610738), low, 0
    first = lambda u: sigmoid(u) * sigmoid(-u)  # noqa: E731
    yield r"\sigma'' = -\sigma' \tanh \frac u2", slope(first, x), -first(x) * np.tanh(x / 2)


@stated("dlref/activations/_softplus.py")
def of_softplus():
    x, b = 0.6, 1.7
    f = lambda x, b=1.0: np.log(1 + np.exp(b * x)) / b  # noqa: E731
    yield r"f_\beta(x) = f_1(\beta x) / \beta", activations.softplus(x, beta=b), f(b * x) / b


@stated("dlref/activations/_hard_swish.py")
def of_the_hard_swish():
    yield r"2 x + 3 = 0", activations.hard_swish_deriv(-1.5), 2 * -1.5 + 3, 0


@stated("dlref/activations/_relu.py")
def of_relu():
    x, c = np.array([-1.5, 0.5]), 2.5
    relu = activations.relu
    yield r"\operatorname{relu}(c x) = c \operatorname{relu}(x)", relu(c * x), c * relu(x)
    lines = [relu(y) >= g * y for y in (-2.0, 0.0, 3.0) for g in (0.0, 0.3, 1.0)]
    yield r"\operatorname{relu}(x) \ge g x", all(lines), True


@stated("dlref/activations/_relu_squared.py")
def of_relu_squared():
    x, c = np.array([-1.5, 0.5]), 2.5
    f = activations.relu_squared
    yield r"f(c x) = c^2 f(x)", f(c * x), c**2 * f(x)


@stated("dlref/activations/_sparsemax.py")
def of_sparsemax():
    x = np.array([0.6, 0.2, -1.0])
    p = activations.sparsemax(x)
    tau = x[0] - p[0]
    yield r"p_i = s_i (x_i - \tau)", p, (p > 0) * (x - tau)


@stated("dlref/activations/_gumbel_softmax.py")
def of_the_gumbel_distribution():
    x, t = draw(92, 4)[0], 0.3
    G = lambda t: np.exp(-np.exp(-t))  # noqa: E731
    text = r"\prod_{i \ne a} G(t - x_i) = \exp(-e^{-t} \sum_{i \ne a} e^{x_i})"
    yield text, np.prod(G(t - x[1:])), np.exp(-np.exp(-t) * sum(np.exp(x[1:])))


@stated("docs/exercises/activations/sigmoid.rst")
def of_the_exercises_on_the_sigmoid():
    x = np.array([-1.0, 0.4])
    yield (
        r"\sigma' = \sigma (1 - \sigma)",
        activations.sigmoid_deriv(x),
        sigmoid(x) * (1 - sigmoid(x)),
    )


@stated("docs/exercises/activations/softmax.rst")
def of_more_exercises_on_softmax():
    x = draw(102, 4)[0]
    v = x / np.linalg.norm(x)
    text = r"(\max v - \min v)^2 \le 2 (\max v)^2 + 2 (\min v)^2 \le 2"
    yield text, (max(v) - min(v)) ** 2 <= 2 * max(v) ** 2 + 2 * min(v) ** 2 <= 2, True


@stated("docs/exercises/activations/swiglu.rst")
def of_three_matrices():
    D = 48
    F = 8 * D / 3
    yield r"3 F D = 8 D^2", 3 * F * D, 8 * D**2
    yield r"F = \frac83 D", F, 8 / 3 * D


@stated("docs/exercises/activations/tanh.rst")
def of_the_exercises_on_tanh():
    x = 0.8
    yield r"\tanh' = 1 - \tanh^2", activations.tanh_deriv(x), 1 - math.tanh(x) ** 2
    text = r"(\cosh^2 - \sinh^2)/\cosh^2 = 1 - \tanh^2"
    yield text, (math.cosh(x) ** 2 - math.sinh(x) ** 2) / math.cosh(x) ** 2, 1 - math.tanh(x) ** 2


@stated("dlref/activations/_swiglu.py")
def of_swiglu():
    x, g, dx, dg = draw(103, 3, 3, 3, 3)
    f = lambda g: g * sigmoid(g)  # noqa: E731
    text = r"\dd y = f(g)\, \dd x + x f'(g)\, \dd g"
    yield text, activations.swiglu_jvp((x, g), (dx, dg)), f(g) * dx + x * slope(f, g) * dg
    b = 1.3
    text = r"a'(g) = \sigma(\beta g) + \beta g\, \sigma(\beta g)\, \sigma(-\beta g)"
    want = sigmoid(b * g) + b * g * sigmoid(b * g) * sigmoid(-b * g)
    yield text, slope(lambda g: g * sigmoid(b * g), g), want
