"""Inline relations that state results and need vectors, derivatives or a context: each is checked.

A check names the file where its relations stand, and yields each text with the values of its sides.
"""

import math

import numpy as np
from equations.numeric import complex_step, jacobian_of, rate

import dlref
from dlref import (
    activations,
    attention,
    calculus,
    neurons,
    normalization,
    positions,
    propagation,
    recurrent,
    training,
    transformer,
)

STATED = {}


class Near(float):
    """How far values may be from each other: rounded numbers, quadratures, differences."""


def stated(file):
    """Mark a function as the check of inline relations of a file."""

    def mark(function):
        assert function.__name__ not in STATED
        STATED[function.__name__] = file, function
        return function

    return mark


def draw(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def softmax(x):
    return np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def slope(f, x):
    return complex_step(f, x)


@stated("dlref/activations/_softmax.py")
def of_the_softmax():
    x, v, u = draw(1, 4, 4, 4)
    s, J = activations.softmax(x), activations.softmax_jacobian(x)
    yield r"s_i / s_j = e^{x_i - x_j}", s[1] / s[2], np.exp(x[1] - x[2])
    yield r"s(x - c \vec 1) = s(x)", activations.softmax(x - 0.7), s
    yield r"\log s_i = x_i - \log \sum_l e^{x_l}", np.log(s), x - np.log(sum(np.exp(x)))
    quadratic = sum(s[i] * v[i] ** 2 for i in range(4)) - sum(s[i] * v[i] for i in range(4)) ** 2
    yield r"\vec v^\top \mat J \vec v = \sum_i s_i v_i^2 - (\sum_i s_i v_i)^2", v @ J @ v, quadratic
    yield r"\mat{J} \vec 1 = 0", J @ np.ones(4), np.zeros(4)
    double = sum(u[i] * J[i, j] * v[j] for i in range(4) for j in range(4))
    text = r"\dd L = \sum_i u_i\, \dd s_i = \sum_{ij} u_i J_{ij}\, \dd x_j"
    yield text, u @ activations.softmax_jvp(x, v), double


@stated("docs/exercises/activations/softmax.rst")
def of_the_exercises_on_softmax():
    x, dx = draw(2, 3, 3)
    s = softmax(x)
    eye = np.eye(3)
    J = [[s[i] * (eye[i, j] - s[j]) for j in range(3)] for i in range(3)]
    yield r"J_{ij} = s_i(\delta_{ij} - s_j)", J, jacobian_of(softmax, x)
    yield (
        r"\dd s_i = s_i \sum_j (\delta_{ij} - s_j) \dd x_j",
        np.array(J) @ dx,
        rate(softmax, [x], [dx]),
    )
    tau, mean = 0.7, softmax(x / 0.7) @ x
    text = r"\partial s_i / \partial \tau = -s_i (x_i - \bar x) / \tau^2"
    yield text, slope(lambda t: softmax(x / t), tau), -softmax(x / tau) * (x - mean) / tau**2
    yield r"\log (s_i / s_1) = x_i - x_1", np.log(s / s[0]), x - x[0]
    yield (
        r"\dd \log s_i = \dd s_i / s_i",
        rate(lambda x: np.log(softmax(x)), [x], [dx]),
        rate(softmax, [x], [dx]) / s,
    )
    quadratic = sum(s * dx**2) - sum(s * dx) ** 2
    yield r"v^\top J v = \sum_i s_i v_i^2 - (\sum_i s_i v_i)^2", dx @ np.array(J) @ dx, quadratic


@stated("dlref/activations/_log_softmax.py")
def of_the_log_softmax():
    x, v = draw(3, 4, 4)
    J, s = activations.log_softmax_jacobian(x), softmax(x)
    yield r"\mat J^2 = \mat J", J @ J, J
    yield r"\vec s^\top \vec 1 = 1", s @ np.ones(4), 1
    dl, ds = activations.log_softmax_jvp(x, v), activations.softmax_jvp(x, v)
    yield r"\sum_i s_i \dot\ell_i = \sum_i \dot s_i = 0", s @ dl, sum(ds), 0


@stated("dlref/activations/_gelu.py")
def of_gelu():
    x = 0.7
    c = 2 * math.sqrt(2 / math.pi)
    d = 0.044715 * c

    def v(x):
        return c * x + d * x**3

    pdf = lambda x: np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    cdf = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))  # noqa: E731
    yield r"\Phi' = \phi", (cdf(x + 1e-5) - cdf(x - 1e-5)) / 2e-5, pdf(x), Near(1e-9)
    yield r"\phi' = -x \phi", slope(pdf, x), -x * pdf(x)
    yield r"v'' = 6 d x", slope(lambda x: c + 3 * d * x**2, x), 6 * d * x
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
    d = w**2 + 2 * w + 2
    tanh = lambda x: np.tanh(np.log(1 + np.exp(x)))  # noqa: E731
    yield r"T = 1 - 2/d", tanh(x), 1 - 2 / d
    yield r"d' = 2w(w + 1)", slope(lambda x: np.exp(2 * x) + 2 * np.exp(x) + 2, x), 2 * w * (w + 1)
    yield r"T' = 4 (w^2 + w) / d^2", slope(tanh, x), 4 * (w**2 + w) / d**2
    yield r"(w^2 + w)' = 2w^2 + w", slope(lambda x: np.exp(2 * x) + np.exp(x), x), 2 * w**2 + w
    yield r"f' = T + x T'", activations.mish_deriv(x), tanh(x) + x * slope(tanh, x)


@stated("dlref/activations/_selu.py")
def of_selu():
    a, scale = 1.6732632423543772, 1.0507009873554805
    z, weight = np.polynomial.hermite_e.hermegauss(200)
    weight = weight / np.sum(weight)
    f = activations.selu(z)
    yield r"\E f(z) = 0", weight @ f, 0, Near(2e-3)
    yield r"\E f(z)^2 = 1", weight @ f**2, 1, Near(2e-3)
    yield (
        r"\E[z;\, z > 0] = 1 / \sqrt{2\pi}",
        weight @ np.maximum(z, 0),
        1 / math.sqrt(2 * math.pi),
        Near(2e-3),
    )
    yield r"\E[z^2;\, z > 0] = \frac12", weight @ (z**2 * (z > 0)), 0.5, Near(1e-9)
    yield r"\lambda \alpha = 1.758", scale * a, 1.758, Near(5e-4)
    yield r"\lambda = 1.051", scale, 1.051, Near(5e-4)
    yield (
        r"\alpha = 1.6732632423543772",
        activations.selu(-100.0),
        -scale * 1.6732632423543772,
        Near(1e-14),
    )
    yield r"\lambda = 1.0507009873554805", activations.selu(1.0), 1.0507009873554805, Near(1e-15)


@stated("dlref/activations/_sigmoid.py")
def of_the_sigmoid():
    x = np.array([-2.0, 0.3, 1.7])
    s, first = sigmoid(x), sigmoid(x) * sigmoid(-x)
    yield r"x = \log \frac{\sigma}{1 - \sigma}", x, np.log(s / (1 - s))
    yield r"(1 - 2 \sigma)^2 = 1 - 4 \sigma'", (1 - 2 * s) ** 2, 1 - 4 * first
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
    yield (
        r"\dd y = f'(x)\, \dd x",
        slope(sigmoid, x) * 0.5,
        activations.sigmoid_jvp(x, np.full(3, 0.5)),
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
    yield r"f(x) - f(-x) = x", activations.softplus(x) - activations.softplus(-x), x


@stated("dlref/activations/_hard_swish.py")
def of_the_hard_swish():
    yield r"f(-3/2) = -3/8", activations.hard_swish(-1.5), -3 / 8
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
    J = activations.sparsemax_jacobian(x)
    yield r"\mat J^2 = \mat J", J @ J, J
    p = activations.sparsemax(x)
    tau = x[0] - p[0]
    yield r"p_i = s_i (x_i - \tau)", p, (p > 0) * (x - tau)


@stated("dlref/attention/_attention_weights.py")
def of_attention_weights():
    (s, u), rng = draw(7, (2, 3), (2, 3)), np.random.default_rng(8)
    sink = 0.4
    below = np.exp(sink) + np.sum(np.exp(s), axis=1)
    p, at_sink = np.exp(s) / below[:, None], np.exp(sink) / below
    want = -sum(at_sink[i] * sum(p[i, m] * u[i, m] for m in range(3)) for i in range(2))

    def loss(sink):
        return np.sum(u * np.exp(s) / (np.exp(sink) + np.sum(np.exp(s), axis=1))[:, None])

    text = r"\partial L / \partial \sigma = -\sum_i p_{i\sigma} \sum_m p_{im} u_{im}"
    yield text, slope(loss, sink), want
    swap = np.eye(3)[[2, 0, 1]]
    P, V = softmax(rng.normal(size=(3, 3))), rng.normal(size=(3, 2))
    text = (
        r"\mat P \mat V \to \mat \Pi \mat P \mat \Pi^\top \mat \Pi \mat V ="
        r" \mat \Pi (\mat P \mat V)"
    )
    yield text, swap @ P @ swap.T @ swap @ V, swap @ (P @ V)


@stated("dlref/attention/_scaled_dot_product.py")
def of_attention():
    q, k, v, u = draw(9, 4, (3, 4), (3, 5), 5)
    s = k @ q / 2
    p = softmax(s)
    out = attention.scaled_dot_product_attention(q[None], k, v)[0]
    whole = r"\mat O = \operatorname{softmax}(\mat Q \mat K^\top / \sqrt E)\, \mat V"
    yield whole, out, p @ v
    square = lambda x: x @ x  # noqa: E731
    text = (
        r"-\norm{\vec q_i - \vec k_j}^2 / (2 \sqrt E) = s_{ij} - \norm{\vec q_i}^2 / (2 \sqrt E)"
        r" - \norm{\vec k_j}^2 / (2 \sqrt E)"
    )
    yield text, -square(q - k[0]) / 4, s[0] - square(q) / 4 - square(k[0]) / 4
    m, larger = np.max(s), np.max(s) + 0.5
    yield (
        r"e^{s_j - m'} = e^{m - m'} e^{s_j - m}",
        np.exp(s - larger),
        np.exp(m - larger) * np.exp(s - m),
    )
    z = sum(np.exp(s - m))
    yield r"\ell = m + \log z", np.log(sum(np.exp(s))), m + np.log(z)
    a = sum(np.exp(s[j] - m) * v[j] for j in range(3))
    yield r"\vec o = \vec a / z", out, a / z
    yield (
        r"\partial \ell_i / \partial s_{ij} = p_{ij}",
        jacobian_of(lambda s: np.log(np.sum(np.exp(s))), s),
        p,
    )
    grads = attention.scaled_dot_product_attention_vjp(u[None], q[None], k, v)
    text = r"\partial L / \partial \vec v_j = \sum_i p_{ij} \vec u_i"
    yield text, grads[2], np.outer(p, u)
    of_p = jacobian_of(lambda p: u @ (p @ v), p)
    text = r"w_{ij} = \partial L / \partial p_{ij} = \vec u_i \cdot \vec v_j"
    yield text, of_p, [u @ v[j] for j in range(3)]
    ds = np.array([0.3, -1.0, 0.4])
    mean = sum(p[j] * ds[j] for j in range(3))
    text = r"\dot p_{ij} = p_{ij} (\dot s_{ij} - \mu_i)"
    yield text, rate(softmax, [s], [ds]), p * (ds - mean)
    sink, du = 0.3, 0.7  # and the cotangent of the log-sum-exp

    def loss(sink):
        total = np.exp(sink) + np.sum(np.exp(s))
        return u @ (np.exp(s) / total @ v) + du * np.log(total)

    lse = np.log(np.exp(sink) + sum(np.exp(s)))
    D = u @ (np.exp(s - lse) @ v)
    text = r"\partial L / \partial \sigma = \sum_i e^{\sigma - \ell_i} (u^\ell_i - D_i)"
    yield text, slope(loss, sink), np.exp(sink - lse) * (du - D)


@stated("dlref/attention/_multiplicative.py")
def of_multiplicative_attention():
    W, q, k, Q, K = draw(10, (4, 3), 4, 3, (2, 4), (2, 3))
    yield r"\vec q^\top \mat W \vec k = (\mat W^\top \vec q) \cdot \vec k", q @ W @ k, (W.T @ q) @ k
    text = (
        r"(\mat W_Q \vec x_i) \cdot (\mat W_K \vec x_j) = \vec x_i^\top "
        r"(\mat W_Q^\top \mat W_K)\, \vec x_j"
    )
    yield text, (Q @ q) @ (K @ k), q @ (Q.T @ K) @ k


@stated("dlref/attention/_merge_attention.py")
def of_merged_attention():
    l, dl = draw(11, 3, 3)
    lse = lambda l: np.log(np.sum(np.exp(l)))  # noqa: E731
    w = np.exp(l - lse(l))
    yield r"\sum_p w_p = 1", sum(w), 1
    d = rate(lse, [l], [dl])
    yield r"\dd \ell = \sum_p w_p\, \dd \ell_p", d, sum(w[p] * dl[p] for p in range(3))
    step = rate(lambda l: np.exp(l - lse(l)), [l], [dl])
    yield r"\dd w_p = w_p (\dd \ell_p - \dd \ell)", step, w * (dl - d)


@stated("dlref/attention/_attention_entropy.py")
def of_the_entropy():
    yield r"H = \log n", attention.attention_entropy(np.full(5, 0.2)), np.log(5)


@stated("dlref/calculus/_divide.py")
def of_the_quotient():
    w, x, dw, dx, u = draw(12, 3, 3, 3, 3, 3)
    of_w, of_x = calculus.divide_vjp(u, w, x)
    yield r"\partial L / \partial x = -y \odot \partial L / \partial w", of_x, -(w / x) * of_w
    dy = calculus.divide_jvp((w, x), (dw, dx))
    yield r"\dot y = \dot w / x - w \odot \dot x / x^2", dy, dw / x - w * dx / x**2
    yield r"\dd w = x\, \dd y + y\, \dd x", dw, x * dy + w / x * dx
    of_divisor = slope(lambda x: w / x, x)
    yield r"\frac{\partial y_i}{\partial x_i} x_i + y_i = 0", of_divisor * x + w / x, np.zeros(3)


@stated("dlref/calculus/_dot.py")
def of_the_dot_product():
    w, x, dw, dx = draw(13, 3, 3, 3, 3)
    yield r"\partial y / \partial w = x", jacobian_of(lambda w: w @ x, w), x
    yield r"\partial y / \partial x = w", jacobian_of(lambda x: w @ x, x), w
    yield (
        r"\dot y = \dot w^\top x + w^\top \dot x",
        calculus.dot_jvp((w, x), (dw, dx)),
        dw @ x + w @ dx,
    )


@stated("dlref/calculus/_inverse.py")
def of_the_inverse():
    A, dA, U = draw(14, (3, 3), (3, 3), (3, 3))
    Y = np.linalg.inv(A)
    dY = calculus.inverse_jvp(A, dA)
    yield r"(1/a)' = -1/a^2", slope(lambda a: 1 / a, 0.7), -1 / 0.7**2
    yield r"\dot{\mat Y} = -\mat Y \dot{\mat A} \mat Y", dY, -Y @ dA @ Y
    yield r"\dot{\mat Y} = -\mat Y", calculus.inverse_jvp(A, A), -Y
    text = (
        r"\dd L = \operatorname{tr}(\mat U^\top \dd \mat Y) = -\operatorname{tr}(\mat U^\top "
        r"\mat Y\, \dd \mat A\, \mat Y)"
    )
    yield text, np.vdot(U, dY), np.trace(U.T @ dY), -np.trace(U.T @ Y @ dA @ Y)
    text = r"\dd L = -\operatorname{tr}(\mat Y \mat U^\top \mat Y\, \dd \mat A)"
    yield text, np.vdot(U, dY), -np.trace(Y @ U.T @ Y @ dA)


@stated("dlref/calculus/_logdet.py")
def of_the_determinant():
    A, dA = draw(15, (3, 3), (3, 3))
    inverse, det = np.linalg.inv(A), np.linalg.det(A)
    minor = lambda k, l: np.linalg.det(np.delete(np.delete(A, k, 0), l, 1))  # noqa: E731
    C = np.array([[(-1) ** (k + l) * minor(k, l) for l in range(3)] for k in range(3)])
    yield r"\det \mat A = \sum_l A_{kl} C_{kl}", det, sum(A[1, l] * C[1, l] for l in range(3))
    yield r"\partial \det \mat A / \partial A_{kl} = C_{kl}", det * inverse.T, C
    yield r"C_{kl} = \det \mat A\; (\mat A^{-1})_{lk}", C[0, 2], det * inverse[2, 0]
    text = r"\dot y = \operatorname{tr}(\mat A^{-1} \dot{\mat A})"
    yield text, calculus.logdet_jvp(A, dA), np.trace(inverse @ dA)


@stated("dlref/calculus/_power.py")
def of_the_power():
    w, x, dw, dx = np.array([1.5, 0.7]), np.array([2.0, -0.4]), *draw(16, 2, 2)
    yield r"y = e^{x \log w}", w**x, np.exp(x * np.log(w))
    yield r"(w^3)' = 3 w^2", slope(lambda w: w**3, w), 3 * w**2
    yield r"(2^x)' = 2^x \log 2", slope(lambda x: np.exp(x * np.log(2)), x), 2**x * np.log(2)
    text = r"\dot y = x \odot w^{x-1} \odot \dot w + w^x \odot \log w \odot \dot x"
    yield text, calculus.power_jvp((w, x), (dw, dx)), x * w ** (x - 1) * dw + w**x * np.log(w) * dx


@stated("dlref/calculus/_norm.py")
def of_the_norm():
    x, dx = draw(17, 4, 4)
    y = calculus.norm(x) if hasattr(calculus, "norm") else np.linalg.norm(x)
    of_x = jacobian_of(lambda x: np.sqrt(np.sum(x**2)), x)
    yield r"2 y\, \partial y / \partial x_j = 2 x_j", 2 * y * of_x, 2 * x
    yield r"\dot y = x^\top \dot x / \lVert x \rVert_2", calculus.norm_jvp(x, dx), x @ dx / y


@stated("dlref/calculus/_prod.py")
def of_the_product():
    x, dx = draw(18, 4, 4)
    dy = calculus.prod_jvp(x, dx)
    total = sum(dx[j] * np.prod(np.delete(x, j)) for j in range(4))
    yield r"\dot y = \sum_j \dot x_j \prod_{i \ne j} x_i", dy, total
    yield r"\dot y / y = \sum_j \dot x_j / x_j", dy / np.prod(x), sum(dx / x)
    yield r"(t^3)' = 3 t^2", slope(lambda t: t**3, 0.7), 3 * 0.7**2


@stated("dlref/calculus/_quadratic_form.py")
def of_the_quadratic_form():
    x, A, dx, dA = draw(19, 3, (3, 3), 3, (3, 3))
    text = (
        r"\dot y = \dot{\vec x}^\top (\mat A + \mat A^\top) \vec x +"
        r" \vec x^\top \dot{\mat A} \vec x"
    )
    yield text, calculus.quadratic_form_jvp((x, A), (dx, dA)), dx @ (A + A.T) @ x + x @ dA @ x


@stated("dlref/calculus/_multiply.py")
def of_the_product_rule():
    w, x, dw, dx = draw(20, 3, 3, 3, 3)
    text = r"\dot y = x \odot \dot w + w \odot \dot x"
    yield text, calculus.multiply_jvp((w, x), (dw, dx)), x * dw + w * dx
    e = 0.3
    text = (
        r"(w + \epsilon \dot w)(x + \epsilon \dot x) = w x + \epsilon (x \dot w + w \dot x)"
        r" + \epsilon^2 \dot w \dot x"
    )
    yield text, (w + e * dw) * (x + e * dx), w * x + e * (x * dw + w * dx) + e**2 * dw * dx


@stated("dlref/calculus/_matmul.py")
def of_the_matrix_product():
    A, B, dA, dB, U = draw(21, (2, 3), (3, 4), (2, 3), (3, 4), (2, 4))
    yield (
        r"Y_{il} = \sum_m A_{im} B_{ml}",
        A @ B,
        [[sum(A[i, m] * B[m, l] for m in range(3)) for l in range(4)] for i in range(2)],
    )
    dY = calculus.matmul_jvp((A, B), (dA, dB))
    text = r"\dot{\mat Y} = \dot{\mat A} \mat B + \mat A \dot{\mat B}"
    yield text, dY, dA @ B + A @ dB
    of_a, of_b = calculus.matmul_vjp(U, A, B)
    text = r"\dd L = \langle \mat U, \dd \mat Y \rangle = \sum_{il} U_{il}\, \dd Y_{il}"
    yield text, np.vdot(U, dY), np.vdot(of_a, dA) + np.vdot(of_b, dB)


@stated("dlref/calculus/_trace.py")
def of_the_trace():
    A, B = draw(22, (3, 3), (3, 3))
    text = r"\operatorname{tr}(\mat B^\top \mat A) = \sum_{kl} B_{kl} A_{kl}"
    yield text, np.trace(B.T @ A), sum(B[k, l] * A[k, l] for k in range(3) for l in range(3))


@stated("dlref/calculus/_max.py")
def of_the_maximum():
    x, u = draw(23, (2, 4), 2)
    grads = calculus.max_vjp(u, x, axis=-1)
    yield r"\sum_j \partial L / \partial x_{kj} = u_k", grads.sum(-1), u


@stated("dlref/normalization/_batch_norm.py")
def of_batch_norm():
    (x,), eps = draw(24, 5), 0.1
    M, mean = 5, np.mean(x)
    var = np.mean((x - mean) ** 2)
    tau = np.sqrt(var + eps)
    hat = (x - mean) / tau
    yield (
        r"\partial \tau / \partial \sigma^2 = 1 / (2 \tau)",
        slope(lambda v: np.sqrt(v + eps), var),
        1 / (2 * tau),
    )
    text = r"\partial \sigma^2 / \partial \mu = -\frac2M \sum_n (x_n - \mu) = 0"
    yield text, slope(lambda m: np.mean((x - m) ** 2), mean), -2 / M * sum(x - mean), 0
    yield r"\partial \mu / \partial x_m = 1/M", jacobian_of(np.mean, x), np.full(5, 1 / M)
    text = r"\partial \sigma^2 / \partial x_m = 2 (x_m - \mu) / M = 2 \tau \hat x_m / M"
    of_x = jacobian_of(lambda x: np.mean((x - np.mean(x)) ** 2), x)
    yield text, of_x, 2 * (x - mean) / M, 2 * tau * hat / M


@stated("dlref/normalization/_layer_norm.py")
def of_layer_norm():
    (x, dx), eps, D = draw(25, 6, 6), 0.1, 6
    mean, var = np.mean(x), np.var(x)
    tau = lambda x: np.sqrt(np.mean((x - np.mean(x)) ** 2) + eps)  # noqa: E731
    hat = (x - mean) / tau(x)
    yield (
        r"\sigma = \norm{\vec x - \mu \vec 1} / \sqrt D",
        np.sqrt(var),
        np.linalg.norm(x - mean) / np.sqrt(D),
    )
    yield r"\sigma^2 = \overline{x^2} - \mu^2", var, np.mean(x**2) - mean**2
    dvar = rate(lambda x: np.mean((x - np.mean(x)) ** 2), [x], [dx])
    yield r"\dd \sigma^2 = 2\, \overline{(x - \mu)\, \dd x}", dvar, 2 * np.mean((x - mean) * dx)
    text = r"\dd \tau = \dd \sigma^2 / (2 \tau) = \overline{\hat x\, \dd x}"
    yield text, rate(tau, [x], [dx]), dvar / (2 * tau(x)), np.mean(hat * dx)
    yield r"\partial \mu / \partial x_j = 1/D", jacobian_of(np.mean, x), np.full(D, 1 / D)
    centred = jacobian_of(lambda x: x - np.mean(x), x)
    yield r"\partial d_i / \partial x_j = \delta_{ij} - 1/D", centred, np.eye(D) - 1 / D
    text = r"\partial \tau / \partial x_j = d_j / (D \tau) = \hat x_j / D"
    yield text, jacobian_of(tau, x), (x - mean) / (D * tau(x)), hat / D
    text = r"\norm{\hat{\vec x}}^2 = D \sigma^2 / (\sigma^2 + \epsilon)"
    yield (
        text,
        normalization.layer_norm(x, eps=eps) @ normalization.layer_norm(x, eps=eps),
        D * var / (var + eps),
    )
    plain = normalization.layer_norm(x, eps=0.0)
    yield r"\norm{\hat{\vec x}}^2 = D", plain @ plain, D


@stated("dlref/normalization/_rms_norm.py")
def of_rms_norm():
    (x, dx), eps, D = draw(26, 5, 5), 0.1, 5
    rho = lambda x: np.sqrt(np.mean(x**2) + eps)  # noqa: E731
    hat = x / rho(x)
    yield r"\dd \rho = \overline{\hat x\, \dd x}", rate(rho, [x], [dx]), np.mean(hat * dx)
    of_x = jacobian_of(rho, x)
    yield r"2 \rho \, \partial \rho / \partial x_j = 2 x_j / D", 2 * rho(x) * of_x, 2 * x / D
    yield r"\partial \rho / \partial x_j = \hat x_j / D", of_x, hat / D


@stated("dlref/normalization/_l2_norm.py")
def of_the_l2_norm():
    (x, dx), eps = draw(27, 5, 5), 0.1
    length = lambda x: np.sqrt(np.sum(x * x) + eps)  # noqa: E731
    d = rate(length, [x], [dx])
    yield r"\ell\, \dd \ell = \vec x \cdot \dd \vec x", length(x) * d, x @ dx
    yield r"\dd \ell = \vec y \cdot \dd \vec x", d, x / length(x) @ dx


@stated("dlref/positions/_rotary.py")
def of_rotations():
    theta = np.array([1.0, 0.3])
    R = lambda p: positions.rope_matrix(float(p), theta)  # noqa: E731
    eye = np.eye(4)
    yield r"\mat R_0 = \mat I", R(0), eye
    text = r"\mat R_m^\top \mat R_m = \mat S_0 = \mat R_0^\top \mat R_0 = \mat I"
    yield text, R(3).T @ R(3), R(0).T @ R(0), eye
    yield r"\mat R_m^\top \mat R_n = \mat R_{n - m}", R(2).T @ R(5), R(3)
    yield r"\mat R_m^\top \mat R_n = \mat R_{n-m}", R(7).T @ R(4), R(-3)
    yield r"\mat R_n = \mat R_m \mat R_{n-m}", R(5), R(2) @ R(3)
    yield r"\mat R_p = \mat R_1^p", R(4), np.linalg.matrix_power(R(1), 4)
    D = lambda a: np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])  # noqa: E731
    yield r"\mat D_\phi \mat D_\psi = \mat D_{\phi+\psi}", D(0.3) @ D(1.1), D(1.4)
    x = np.arange(4.0)
    out = positions.apply_rope(x[None], *(f(2 * theta)[None] for f in (np.cos, np.sin)))[0]
    yield r"f(\vec x, p) = \mat R_p \vec x", out, R(2) @ x


@stated("docs/exercises/positions/rotary.rst")
def of_the_exercises_on_rotations():
    theta = np.array([1.0, 0.3])
    R = lambda p: positions.rope_matrix(float(p), theta)  # noqa: E731
    (q, k, x), eye = draw(28, 4, 4, 2), np.eye(4)
    yield r"\mat R_m^\top = \mat R_{-m}", R(2).T, R(-2)
    text = (
        r"(\mat R_m \vec q)^\top \mat R_n \vec k = \vec q^\top \mat R_m^\top \mat R_n \vec k ="
        r" \vec q^\top \mat R_{n-m} \vec k"
    )
    yield text, (R(2) @ q) @ R(5) @ k, q @ R(2).T @ R(5) @ k, q @ R(3) @ k
    yield r"\mat R^\top \mat R = \mat I", R(3).T @ R(3), eye
    a = 0.7
    turn = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    text = r"\vec x^\top \mat R(\alpha) \vec x = \norm{\vec x}^2 \cos \alpha"
    yield text, x @ turn @ x, x @ x * np.cos(a)
    text = r"\norm{\mat R \vec x}^2 = \vec x^\top \mat R^\top \mat R \vec x = \norm{\vec x}^2"
    yield text, np.linalg.norm(turn @ x) ** 2, x @ turn.T @ turn @ x, x @ x
    text = r"\mat R_1^\top \mat R_{n+1} = \mat R_0^\top \mat R_n = \mat R_n"
    yield text, R(1).T @ R(4), R(0).T @ R(3), R(3)
    yield r"\mat R_{n+1} = \mat R_1 \mat R_n", R(4), R(1) @ R(3)
    yield r"\mat R_n = \mat R_1^n", R(4), np.linalg.matrix_power(R(1), 4)
    slowest = lambda d, L: (L / (2 * math.pi)) ** (d / (d - 2))  # noqa: E731
    want = positions.rope_frequencies(8, base=slowest(8, 500.0))[-1]
    yield r"b = (L / 2\pi)^{d/(d - 2)}", want * 500.0, 2 * math.pi


@stated("dlref/positions/_sinusoidal.py")
def of_sinusoids():
    PE = positions.sinusoidal(9, 8, base=100.0)
    w = 100.0 ** (-np.arange(4) / 4)
    p, q = 7, 2
    sums = sum(np.sin(p * w) * np.sin(q * w) + np.cos(p * w) * np.cos(q * w))
    text = (
        r"\langle PE_p, PE_q \rangle = \sum_i \sin p\omega_i \sin q\omega_i + \cos p\omega_i "
        r"\cos q\omega_i = \sum_i \cos (p - q) \omega_i"
    )
    yield text, PE[p] @ PE[q], sums, sum(np.cos((p - q) * w))
    text = r"\abs{PE_p - PE_q}^2 = D - 2 \sum_i \cos (p - q) \omega_i"
    yield text, sum((PE[p] - PE[q]) ** 2), 8 - 2 * sum(np.cos((p - q) * w))
    M = lambda k: positions.sinusoidal_shift(k, 8, base=100.0)  # noqa: E731
    yield r"PE_{p+k} = \mat M_k PE_p", PE[7], M(5) @ PE[2]
    yield r"\mat M_k^{-1} = \mat M_k^\top = \mat M_{-k}", np.linalg.inv(M(3)), M(3).T, M(-3)
    yield r"\mat M_j \mat M_k = \mat M_{j+k}", M(2) @ M(3), M(5)


@stated("dlref/propagation/_signal_propagation.py")
def of_critical_gains():
    z, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / np.sum(weight)
    f, df = np.tanh(z), 1 - np.tanh(z) ** 2
    yield r"\E s f(s) = \E f'(s)", weight @ (z * f), weight @ df, Near(1e-8)
    yield r"q^* = (3 + \sqrt{17}) / 2 = 3.56", (3 + math.sqrt(17)) / 2, 3.56, Near(5e-3)
    relu = 2 / (0.0**2 + 1.0**2)
    text = r"\sigma_w^2 = 2 / (\phi'(0^-)^2 + \phi'(0^+)^2)"
    yield text, propagation.critical_gain("relu") ** 2, relu


@stated("dlref/propagation/_initialization.py")
def of_variances():
    a = 0.7
    places = np.linspace(-a, a, 200_001)
    mean = np.mean((places[1:] + places[:-1]) ** 2 / 4)
    yield r"\frac{1}{2a} \int_{-a}^a w^2 dw = a^2 / 3", mean, a**2 / 3, Near(1e-8)
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / np.sum(weight)
    out = activations.leaky_relu(z, negative_slope=0.3)
    text = r"\E \phi(z)^2 = \frac{1 + a^2}{2} \E z^2"
    yield text, weight @ out**2, (1 + 0.3**2) / 2 * (weight @ z**2), Near(1e-9)


@stated("dlref/recurrent/_rnn.py")
def of_an_rnn():
    x1, x2, x3, w = 1.0, 2.0, 1.0, 1.0
    states = recurrent.rnn([[x1], [x2], [x3]], None, [[1.0]], [[w]], activation="identity")
    yield r"h_3 = x_3 + w (x_2 + w x_1)", states[2, 0], x3 + w * (x2 + w * x1)
    yield r"x_2 + 2 w x_1 = 4", slope(lambda w: x3 + w * (x2 + w * x1), w), x2 + 2 * w * x1, 4
    yield r"\delta_3 h_2 = 3", states[1, 0], 3
    yield r"\delta_2 h_1 = 1", w * states[0, 0], 1


@stated("dlref/recurrent/_lstm.py")
def of_an_lstm():
    b, c = draw(29, (4, 3), 3)
    i, f, g, o = sigmoid(b[0]), sigmoid(b[1]), np.tanh(b[2]), sigmoid(b[3])
    zero, none = np.zeros((12, 3)), np.zeros(3)
    h_new, c_new = recurrent.lstm_cell(none, none, c, zero, zero, b.ravel())
    yield r"\vec c' = \vec f \odot \vec c + \vec i \odot \vec g", c_new, f * c + i * g
    yield r"\vec h' = \vec o \odot \tanh \vec c'", h_new, o * np.tanh(c_new)
    yield r"\vec c_t = \vec f_t \odot \vec c_{t-1} + \vec i_t \odot \vec g_t", c_new, f * c + i * g
    yield r"\vec h_t = \vec o_t \odot \tanh \vec c_t", h_new, o * np.tanh(c_new)
    u = np.array([1.0, -0.5, 2.0])
    *_, db = recurrent.lstm_cell_vjp((u, none), none, none, c, zero, zero, b.ravel())
    text = r"\vec\delta_o = \vec\eta \odot \tanh \vec c_t \odot \vec o_t \odot (1 - \vec o_t)"
    yield text, db[9:], u * np.tanh(c_new) * o * (1 - o)


@stated("dlref/training/_newton_schulz.py")
def of_newton_schulz():
    a, b, c = 15 / 8, -10 / 8, 3 / 8
    p = lambda s: a * s + b * s**3 + c * s**5  # noqa: E731
    yield r"p(1) = 1", p(1.0), 1
    second = slope(lambda s: a + 3 * b * s**2 + 5 * c * s**4, 1.0)
    yield r"p'(1) = p''(1) = 0", slope(p, 1.0), second, 0
    yield r"a^5 = 485", 3.4445**5, 485, Near(0.5)
    yield r"p(1) = 0.70", 3.4445 - 4.7750 + 2.0315, 0.70, Near(5e-3)


@stated("dlref/transformer/_budget.py")
def of_the_budget():
    config = transformer.LanguageModelConfig(100, 48, 4, layers=1)
    costs = [transformer.multiplication_counts(config, context=S) for S in (6 * 48 - 1, 6 * 48 + 1)]
    rest = [c.total - c.scores - 100 * 48 for c in costs]
    found = [c.scores > r for c, r in zip(costs, rest, strict=True)]
    yield r"2 D S > 12 D^2", found, [False, True]


@stated("dlref/quantization/_fake_quantize.py")
def of_quantization():
    x = np.array([-1.5, 0.2, 0.9])
    yield r"s = \max |x| / (2^{n-1} - 1)", np.max(np.abs(x)) / (2**7 - 1), 1.5 / 127
    s = 0.3
    text = r"s\, \partial (x / s) / \partial s = -x / s"
    yield text, s * slope(lambda s: x / s, s), -x / s


@stated("docs/exercises/training/adam.rst")
def of_the_exercises_on_adam():
    b, t = 0.8, 7
    total = (1 - b) * sum(b ** (t - k) for k in range(1, t + 1))
    text = r"\E m_t = (1 - \beta_1) \frac{1 - \beta_1^t}{1 - \beta_1} \E g = (1 - \beta_1^t) \E g"
    yield text, total, (1 - b) * (1 - b**t) / (1 - b), 1 - b**t
    yield r"-3\eta / \sqrt{8.1} > -1.055 \eta", -3 / math.sqrt(8.1) > -1.055, True
    yield (
        r"\eta / \sqrt{1.8} + \eta / \sqrt{1.08} > 1.7 \eta",
        1 / math.sqrt(1.8) + 1 / math.sqrt(1.08) > 1.7,
        True,
    )
    yield r"m = \frac14 - \frac12 = -\frac14", 0.5 * 0.5 + 0.5 * -1, 1 / 4 - 1 / 2, -1 / 4
    yield r"v = \frac14 + \frac12 = \frac34", 0.5 * 0.5 + 0.5 * 1, 1 / 4 + 1 / 2, 3 / 4


@stated("docs/exercises/normalization/layer_norm.rst")
def of_the_exercises_on_layer_norm():
    x, dx = draw(30, 5, 5)
    mean, s = np.mean(x), np.std(x)
    hat = (x - mean) / s
    std = lambda x: np.sqrt(np.mean((x - np.mean(x)) ** 2))  # noqa: E731
    ds = rate(std, [x], [dx])
    yield r"\dd \sigma = \operatorname{mean}(\hat x\, \dd x)", ds, np.mean(hat * dx)
    text = (
        r"\dd \hat x = (\dd x - \dd \mu - \hat x \dd \sigma) / \sigma = \bigl( \dd x -"
        r" \operatorname{mean}(\dd x) - \hat x \operatorname{mean}(\hat x\, \dd x) \bigr) / \sigma"
    )
    step = rate(lambda x: (x - np.mean(x)) / std(x), [x], [dx])
    yield (
        text,
        step,
        (dx - np.mean(dx) - hat * ds) / s,
        (dx - np.mean(dx) - hat * np.mean(hat * dx)) / s,
    )
    a, var, eps = 3.0, s**2, 0.2
    text = (
        r"a (x - \mu) / \sqrt{a^2 \sigma^2 + \epsilon} ="
        r" (x - \mu) / \sqrt{\sigma^2 + \epsilon / a^2}"
    )
    yield text, a * (x - mean) / np.sqrt(a**2 * var + eps), (x - mean) / np.sqrt(var + eps / a**2)
    yield (
        r"\hat x = \frac13 (-5, 1, 1, 3)",
        normalization.layer_norm([1.0, 7, 7, 9], eps=0.0),
        np.array([-5, 1, 1, 3]) / 3,
    )
    bound = max(abs(normalization.layer_norm(r, eps=0.0)).max() for r in (x, np.eye(5)[0], dx))
    yield r"a^2 \le D - 1", bound**2 <= 4 + 1e-12, True


@stated("docs/exercises/recurrent/gru.rst")
def of_the_exercises_on_gru():
    h, z, n = 2.0, 3 / 4, 1 / 2
    yield r"h' = \frac14 \cdot \frac12 + \frac34 \cdot 2 = \frac{13}8", (1 - z) * n + z * h, 13 / 8
    yield (
        r"(h - n) z (1 - z) = \frac32 \cdot \frac3{16} = \frac9{32}",
        (h - n) * z * (1 - z),
        9 / 32,
    )
    yield r"(1 - z)(1 - n^2) = \frac14 \cdot \frac34 = \frac3{16}", (1 - z) * (1 - n**2), 3 / 16
    b = -math.log(2**0.1 - 1)
    yield r"b = -\log(2^{1/10} - 1)", sigmoid(b) ** 10, 0.5
    yield r"1 + e^{-b} = 2^{1/10}", 1 + math.exp(-b), 2**0.1
    yield r"n = \log 2 / \log(1 + e^{-b})", math.log(2) / math.log(1 + math.exp(-b)), 10


@stated("docs/exercises/neurons/mlp.rst")
def of_the_exercises_on_mlp():
    W1, W2, b1, b2, x, z = draw(31, (4, 3), (2, 4), 4, 2, 3, 5)
    text = r"W_2 (W_1 x + b_1) + b_2 = (W_2 W_1) x + (W_2 b_1 + b_2)"
    yield text, W2 @ (W1 @ x + b1) + b2, (W2 @ W1) @ x + (W2 @ b1 + b2)
    yield r"\max(0, a z) = a \max(0, z)", np.maximum(0, 2.5 * z), 2.5 * np.maximum(0, z)
    u = np.array([1.0, -2.0])
    want = jacobian_of(lambda z: u @ (W2 @ np.tanh(z) + b2), b1)
    text = r"\vec \delta_{l-1} = \mat W_l^\top \vec \delta_l \odot f'(\vec z_{l-1})"
    yield text, want, (W2.T @ u) * (1 - np.tanh(b1) ** 2)


def inner(jvp, vjp, primals, seed=50, **options):
    """Return both sides of the change of a loss: with the tangent, and with the gradients."""
    single = not isinstance(primals, tuple)
    points = (primals,) if single else primals
    rng = np.random.default_rng(seed)
    tangents = [rng.normal(size=np.shape(p)) for p in points]
    dy = (
        jvp(points[0], tangents[0], **options)
        if single
        else jvp(points, tuple(tangents), **options)
    )
    u = rng.normal(size=np.shape(dy))
    grads = vjp(u, *points, **options)
    grads = (grads,) if single else grads
    return np.vdot(u, dy), sum(np.vdot(g, v) for g, v in zip(grads, tangents, strict=True))


def change(chapter, name, text, *shapes):
    """State the change of a loss in the file of a map, for arrays of these shapes."""
    module = getattr(dlref, chapter)
    primals = draw(51, *shapes)
    primals = primals[0] if len(shapes) == 1 else tuple(primals)

    def check():
        yield text, *inner(getattr(module, f"{name}_jvp"), getattr(module, f"{name}_vjp"), primals)

    check.__name__ = f"change_of_the_loss_of_{name}"
    stated(f"dlref/{chapter}/_{FILES.get(name, name)}.py")(check)


ATTENTION = (2, 4), (3, 4), (3, 5)
#: Files that are not named after their map.
FILES = {
    "scaled_dot_product_attention": "scaled_dot_product",
    "multiplicative_attention": "multiplicative",
    "gru_cell": "gru",
}
change("activations", "glu", r"\dd L = \sum u\, \dd y", (4,), (4,))
change("activations", "swiglu", r"\dd L = \sum u\, \dd y", (4,), (4,))
change("activations", "log_softmax", r"\dd L = \sum_i u_i\, \dd \ell_i", (5,))
change("activations", "logsumexp", r"\dd L = u\, \dd f", (5,))
change("activations", "relu", r"\dd L = \sum u\, \dd y = \sum u f'(x)\, \dd x", (5,))
change("activations", "sigmoid", r"\dd L = \sum u\, \dd y = \sum u f'(x)\, \dd x", (5,))
change("activations", "tanh", r"\dd L = \sum u\, \dd y = \sum u f'(x)\, \dd x", (5,))
change("attention", "attention_scores", r"\dd L = \sum_{ij} u_{ij}\, \dd s_{ij}", (2, 4), (3, 4))
change("attention", "attention_weights", r"\dd L = \sum_{ij} u_{ij}\, \dd p_{ij}", (2, 4), (3, 4))
SDPA = "scaled_dot_product_attention"
change("attention", SDPA, r"\dd L = \sum_i \vec u_i \cdot \dd \vec o_i", *ATTENTION)
WITH_DOTS = r"\dd L = \sum_i \vec g_i \cdot \dd \vec r_i + \dots"
change("attention", "multiplicative_attention", WITH_DOTS, (2, 4), (3, 5), (3, 6), (4, 5))
change("calculus", "divide", r"\dd L = \sum_j u_j\, \dd y_j", (4,), (4,))
change("calculus", "dot", r"\dd L = u\, \dd y", (4,), (4,))
change("calculus", "logdet", r"\dd L = u\, \dd y", (3, 3))
change("calculus", "multiply", r"\dd L = \sum_i u_i\, \dd y_i", (4,), (4,))
change("calculus", "quadratic_form", r"\dd L = u\, \dd y", (3,), (3, 3))
change("losses", "squared_error", r"\dd L = \sum u\, \dd \ell", (4,), (4,))
change("neurons", "linear", r"\dd L = \sum_{ni} U_{ni}\, \dd Y_{ni}", (3, 4), (2, 4), (2,))
change("neurons", "neuron", r"\dd L = \sum_n u_n\, \dd a_n", (3, 4), (4,), ())
change("normalization", "batch_norm", r"\dd L = \sum_n u_n\, \dd y_n", (5, 2), (2,), (2,))
change("normalization", "layer_norm", r"\dd L = \sum_i u_i\, \dd y_i", (5, 3), (3,), (3,))
change("normalization", "rms_norm", r"\dd L = \sum_i u_i\, \dd y_i", (5, 3), (3,))
change("convolution", "conv", r"\dd L = \sum_{o t} u_{o t}\, \dd y_{o t}", (2, 7), (3, 2, 3), (3,))
RNN = (2,), (3,), (3, 2), (3, 3), (3,), (3,)
change("recurrent", "rnn", r"\dd L = \sum_t \vec u_t \cdot \dd \vec h_t", (4, 2), *RNN[1:])
GRU = (2,), (3,), (9, 2), (9, 3), (9,), (9,)
change("recurrent", "gru_cell", r"\dd L = \vec u \cdot \dd \vec h'", *GRU)
change("recurrent", "gru", r"\dd L = \sum_t \vec u_t \cdot \dd \vec h_t", (4, 2), *GRU[1:])


@stated("dlref/attention/_linear_attention.py")
def of_linear_attention():
    text = (
        r"\dd L = \sum_i \vec u_i \cdot \dd \vec o_i = \sum_i \vec g_i \cdot (\dd \vec n_i, "
        r"\dd z_i)"
    )
    f, g = attention.linear_attention_jvp, attention.linear_attention_vjp
    yield text, *inner(f, g, tuple(draw(51, *ATTENTION)))


@stated("dlref/calculus/_sum.py")
def of_the_sum():
    x, dx, u = draw(52, (2, 3), (2, 3), 2)
    yield (
        r"\dd y_k = \sum_j \dd x_{kj}",
        rate(lambda x: np.sum(x, axis=1), [x], [dx]),
        calculus.sum_jvp(x, dx, axis=1),
    )
    text = r"\dd L = \sum_k u_k\, \dd y_k = \sum_{kj} u_k\, \dd x_{kj}"
    want = sum(u[k] * dx[k, j] for k in range(2) for j in range(3))
    yield (
        text,
        u @ calculus.sum_jvp(x, dx, axis=1),
        want,
        np.vdot(calculus.sum_vjp(u, x, axis=1), dx),
    )


@stated("dlref/calculus/_mean.py")
def of_the_mean():
    x, dx, u = draw(53, (2, 3), (2, 3), 2)
    dy = calculus.mean_jvp(x, dx, axis=1)
    yield r"\dd y_k = \frac1n \sum_j \dd x_{kj}", dy, [sum(dx[k]) / 3 for k in range(2)]
    text = r"\dd L = \sum_k u_k\, \dd y_k = \sum_{kj} \frac{u_k}{n}\, \dd x_{kj}"
    want = sum(u[k] / 3 * dx[k, j] for k in range(2) for j in range(3))
    yield text, u @ dy, want, np.vdot(calculus.mean_vjp(u, x, axis=1), dx)


@stated("dlref/calculus/_norm.py")
def of_the_norms_of_slices():
    x, dx, u = draw(54, (2, 3), (2, 3), 2)
    dy = calculus.norm_jvp(x, dx, axis=1)
    text = r"\dd L = \sum_k u_k\, \dd y_k"
    yield text, sum(u[k] * dy[k] for k in range(2)), np.vdot(calculus.norm_vjp(u, x, axis=1), dx)


@stated("dlref/calculus/_maximum.py")
def of_the_larger_one():
    w, x, u = draw(55, 4, 4, 4)
    yield (
        r"\partial L / \partial w + \partial L / \partial x = u",
        sum(calculus.maximum_vjp(u, w, x)),
        u,
    )


@stated("dlref/calculus/_multiply.py")
def of_a_scalar_factor():
    x, u = draw(56, 3, 3)
    z = 5.0
    of_z = slope(lambda z: x * z, z)
    yield r"\partial y_i / \partial z = x_i", of_z, x
    yield (
        r"\partial y_i / \partial x_j = z\, \delta_{ij}",
        jacobian_of(lambda x: x * z, x),
        z * np.eye(3),
    )
    yield r"\partial L / \partial w = \sum_i u_i x_i", calculus.multiply_vjp(u, z, x)[0], sum(u * x)


@stated("dlref/calculus/_add.py")
def of_a_sum_with_a_scalar():
    x, u = draw(57, 3, 3)
    yield r"\partial y_i / \partial z = 1", slope(lambda z: x + z, 5.0), np.ones(3)
    of_w, of_x = calculus.add_vjp(u, x, 2 * x)
    yield r"u^\top J_w = \partial L / \partial w", u @ np.eye(3), of_w
    yield r"u^\top J_x = \partial L / \partial x", u @ np.eye(3), of_x
    dw, dx = draw(58, 3, 3)
    text = r"\dot y = J_w \dot w + J_x \dot x = \dot w + \dot x"
    yield text, calculus.add_jvp((x, x), (dw, dx)), np.eye(3) @ dw + np.eye(3) @ dx, dw + dx


@stated("dlref/attention/_repeat_kv.py")
def of_copies():
    x, dx = draw(59, (2, 3, 4), (2, 3, 4))
    n = 3
    out = attention.repeat_kv(x, n)
    yield r"\dd y_{nh + m} = \dd x_h", attention.repeat_kv(dx, n)[n + 2], dx[1]
    u = draw(60, out.shape)[0]
    text = r"\dd L = \sum_{h, m} u_{nh + m}\, \dd y_{nh + m}"
    grad = np.stack([sum(u[n * h + m] for m in range(n)) for h in range(2)])
    yield text, np.vdot(u, attention.repeat_kv(dx, n)), np.vdot(grad, dx)


@stated("dlref/positions/_rotary.py")
def of_rotated_gradients():
    x, dx, u = draw(61, 4, 4, 4)
    theta = np.array([1.0, 0.3])
    R = positions.rope_matrix(2.0, theta)
    tables = np.cos(2 * theta)[None], np.sin(2 * theta)[None]
    dy = positions.apply_rope(dx[None], *tables)[0]
    yield r"\dd \vec y = \mat R_p\, \dd \vec x", dy, R @ dx
    grad = positions.apply_rope_vjp(u[None], x[None], *tables)[0]
    yield r"\dd L = \vec u \cdot \mat R_p\, \dd \vec x", u @ R @ dx, grad @ dx


@stated("dlref/attention/_attention_weights.py")
def of_a_row_of_weights():
    s, ds = draw(62, (2, 3), (2, 3))
    p = softmax(s)
    want = [[p[i, j] * (ds[i, j] - sum(p[i] * ds[i])) for j in range(3)] for i in range(2)]
    text = r"\dd p_{ij} = p_{ij} \bigl( \dd s_{ij} - \sum_m p_{im}\, \dd s_{im} \bigr)"
    yield text, rate(softmax, [s], [ds]), want


@stated("dlref/neurons/_dropout.py")
def of_dropout():
    m, dx, u = np.array([0.0, 2.0, 2.0]), *draw(63, 3, 3)
    yield r"\dd y_i = m_i\, \dd x_i", rate(lambda x: m * x, [dx], [dx]), m * dx
    yield r"\dd L = \sum_i u_i\, \dd y_i", u @ (m * dx), neurons.dropout_vjp(u, dx, m) @ dx


@stated("dlref/neurons/_embedding.py")
def of_an_embedding():
    E, dE, u = draw(64, (5, 3), (5, 3), (4, 3))
    ids, c = np.array([1, 4, 1, 0]), 1.5
    dy = c * dE[ids]
    yield r"\dd y_{nd} = c\, \dd E_{t_n d}", rate(lambda E: c * E[ids], [E], [dE]), dy
    grad = sum(c * np.outer(np.eye(5)[ids[n]], u[n]) for n in range(4))
    yield r"\dd L = \sum_{nd} u_{nd}\, \dd y_{nd}", np.vdot(u, dy), np.vdot(grad, dE)


@stated("dlref/recurrent/_lstm.py")
def of_gradients_through_an_lstm():
    x, h, c, W, V, b, u = draw(65, 2, 3, 3, (12, 2), (12, 3), 12, 3)
    none = np.zeros(3)
    dx, dh, dc, dW, dV, db = recurrent.lstm_cell_vjp((u, none), x, h, c, W, V, b)[:6]
    delta = db
    yield r"\partial L / \partial \vec x_t = \mat W_{ih}^\top \vec\delta", dx, W.T @ delta
    text = r"\partial L / \partial \mat W_{hh} = \sum_t \vec\delta\, \vec h_{t-1}^\top"
    yield text, dV, np.outer(delta, h)
    steps, zero, T = draw(66, (4, 3))[0], np.zeros((12, 3)), 4
    f = [sigmoid(s + b[3:6]) for s in steps]
    gates = np.zeros((12, 3))
    gates[3:6] = np.eye(3)
    u_last = np.zeros((T, 3))
    u_last[-1] = u
    grads = recurrent.lstm_vjp((np.zeros((T, 3)), u_last), steps, none, c, gates, zero, b)
    text = r"\partial \vec c_T / \partial \vec c_0 = \prod_t \operatorname{diag} \vec f_t"
    yield text, grads[2], np.prod(f, axis=0) * u
    assert dh.shape == dc.shape == (3,)
    assert dW.shape == W.shape


@stated("dlref/recurrent/_rnn.py")
def of_gradients_through_an_rnn():
    x, h, W, V, b, u, dx, dh = draw(67, (1, 2), 3, (3, 2), (3, 3), 3, (1, 3), 2, 3)
    z = W @ x[0] + V @ h + b
    delta = (1 - np.tanh(z) ** 2) * u[0]
    grads = recurrent.rnn_vjp(u, x, h, W, V, b)
    yield (
        r"\partial L / \partial \vec x_t = \mat W_{ih}^\top \vec\delta_t",
        grads[0][0],
        W.T @ delta,
    )
    yield r"\partial L / \partial \vec h_0 = \mat W_{hh}^\top \vec\delta_1", grads[1], V.T @ delta
    dz = W @ dx + V @ dh
    text = r"\dd \vec h_t = \phi'(\vec z_t) \odot \dd \vec z_t"
    new = rate(lambda x, h: np.tanh(W @ x + V @ h + b), [x[0], h], [dx, dh])
    yield text, new, (1 - np.tanh(z) ** 2) * dz
    text = r"\dd L = \vec u \cdot \dd \vec h' = \vec\delta \cdot \dd \vec z"
    yield text, u[0] @ new, delta @ dz


@stated("dlref/losses/_kl_divergence.py")
def of_the_divergence():
    q, p = softmax(draw(68, 4)[0]), softmax(draw(69, 4)[0])
    divergence = sum(q * np.log(q / p))
    sums = -divergence, sum(q * np.log(p / q)), sum(p - q)
    text = r"-\ell = \sum_c q_c \log (p_c / q_c) \le \sum_c (p_c - q_c) \le 0"
    yield text, sums[0], sums[1]
    yield text, sums[1] <= sums[2] <= 1e-15, True


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
    z = draw(74, 4)[0]
    lse = np.log(sum(np.exp(z)))
    yield r"\log p_c = z_c - \lambda", np.log(softmax(z)), z - lse
    p = softmax(z)
    yield r"p_y - 1 = -\sum_{c \ne y} p_c", p[2] - 1, -(p[0] + p[1] + p[3])
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


@stated("docs/expectations.rst")
def of_expectations():
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / np.sum(weight)
    yield r"\E \max(z, 0)^2 = \frac12", weight @ np.maximum(z, 0) ** 2, 0.5
    x, y = z[:, None], z
    both = np.outer(weight, weight)
    yield (
        r"\E[XY] = \E X \, \E Y",
        np.sum(both * (x**2 * np.exp(y / 3))),
        weight @ z**2 * (weight @ np.exp(z / 3)),
    )
    yield (
        r"\E[a X + b Y] = a \E X + b \E Y",
        np.sum(both * (2 * x**2 + 3 * y**4)),
        2 * (weight @ z**2) + 3 * (weight @ z**4),
    )
    c = 0.6
    other = c * x + math.sqrt(1 - c**2) * y
    text = r"\E[z_1 f(z_2)] = c\, \E f'(z_2)"
    yield text, np.sum(both * (x * np.sin(other))), c * np.sum(both * np.cos(other))


@stated("docs/questions.rst")
def of_the_questions():
    A, B, U, v = draw(76, (2, 3), (3, 4), (2, 4), 3)
    yield r"u^\top (J v) = (u^\top J) v", U[:, 0] @ (A @ v), (U[:, 0] @ A) @ v
    of_a, of_b = calculus.matmul_vjp(U, A, B)
    yield r"\bar{\mat A} = \mat U \mat B^\top", of_a, U @ B.T
    yield r"\bar{\mat B} = \mat A^\top \mat U", of_b, A.T @ U
    yield r"\log s_i = x_i - \log \sum_l e^{x_l}", np.log(softmax(v)), v - np.log(sum(np.exp(v)))
    p, V, u = softmax(v), draw(77, (3, 4))[0], U[0]
    yield (
        r"\sum_j p_{ij}\, u_i \cdot v_j = u_i \cdot o_i",
        sum(p[j] * (u @ V[j]) for j in range(3)),
        u @ (p @ V),
    )
    R = lambda n: positions.rope_matrix(float(n), np.array([1.0, 0.3]))  # noqa: E731
    q, k = draw(78, 4, 4)
    text = r"(R_m q)^\top (R_n k) = q^\top R_m^\top R_n k = q^\top R_{n - m} k"
    yield text, (R(2) @ q) @ (R(5) @ k), q @ R(2).T @ R(5) @ k, q @ R(3) @ k


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


@stated("docs/exercises/recurrent/lstm.rst")
def of_the_exercises_on_lstm():
    rng = np.random.default_rng(81)
    weights = [30 * rng.normal(size=s) for s in ((12, 2), (12, 3))]
    c0 = rng.normal(size=3)
    h, c = recurrent.lstm(rng.normal(size=(20, 2)), np.zeros(3), c0, *weights)
    t = np.arange(1, 21)[:, None]
    yield r"\abs{c_t} \le \abs{c_0} + t", bool(np.all(np.abs(c) <= np.abs(c0) + t)), True
    yield r"\abs{h_t} < 1", bool(np.all(np.abs(h) < 1)), True
    n, F = 10, 0.9
    b = math.log(n - 1)
    yield r"1 / (1 + e^{-b}) = (n - 1) / n", 1 / (1 + math.exp(-b)), (n - 1) / n
    yield r"e^b = n - 1", math.exp(b), n - 1
    bound = [F**k * 2.0 + sum(F**j for j in range(k)) <= 2.0 + 1 / (1 - F) for k in range(60)]
    text = r"\abs{c_t} \le F^t \abs{c_0} + 1 + F + F^2 + \dots \le \abs{c_0} + 1 / (1 - F)"
    yield text, all(bound), True
    yield (
        r"\abs{c_t} \le f_t \abs{c_{t-1}} + i_t \abs{g_t} \le \abs{c_{t-1}} + 1",
        bool(np.all(np.abs(c[1:]) <= np.abs(c[:-1]) + 1)),
        True,
    )


@stated("docs/exercises/recurrent/gru.rst")
def of_bounded_states():
    rng = np.random.default_rng(82)
    weights = [30 * rng.normal(size=s) for s in ((9, 2), (9, 3))]
    h0 = 2 * rng.normal(size=3)
    h = recurrent.gru(rng.normal(size=(20, 2)), h0, *weights)
    yield (
        r"\abs{h_t} \le \max(\abs{h_0}, 1)",
        bool(np.all(np.abs(h) <= np.maximum(np.abs(h0), 1))),
        True,
    )
    p, d = rng.uniform(size=(2, 50))
    yield (
        r"(1 - p)(1 - \delta) \ge 1 - p - \delta",
        bool(np.all((1 - p) * (1 - d) >= 1 - p - d - 1e-15)),
        True,
    )
    text = r"\abs{h_t} \le \max(\abs{n_t}, \abs{h_{t-1}}) \le \max(1, \abs{h_{t-1}})"
    before = np.vstack([h0, h[:-1]])
    yield text, bool(np.all(np.abs(h) <= np.maximum(1, np.abs(before)))), True


@stated("docs/exercises/recurrent/rnn.rst")
def of_contractions():
    rng = np.random.default_rng(83)
    W, h, k = rng.normal(size=(3, 3)), *rng.normal(size=(2, 3))
    gap = np.linalg.norm(np.tanh(W @ h) - np.tanh(W @ k))
    text = (
        r"\norm{\vec h_t - \vec h'_t} \le \norm{\mat W (\vec h_{t-1} - \vec h'_{t-1})} \le "
        r"\norm{\mat W} \norm{\vec h_{t-1} - \vec h'_{t-1}}"
    )
    middle = np.linalg.norm(W @ (h - k))
    yield text, gap <= middle <= np.linalg.norm(W, 2) * np.linalg.norm(h - k), True


@stated("docs/exercises/normalization/batch_norm.rst")
def of_a_loss_behind_a_batch_norm():
    x, W, u = draw(84, (6, 3), (2, 3), (6, 2))

    def gradient(W):
        du = normalization.batch_norm_vjp(u, x @ W.T, eps=0.0)
        return du.T @ x

    a = 2.5
    yield r"\langle \nabla L(W), W \rangle = 0", np.vdot(gradient(W), W), 0
    yield r"a \nabla L(a W) = \nabla L(W)", a * gradient(a * W), gradient(W)
    value = [np.vdot(u, normalization.batch_norm(x @ V.T, eps=0.0)) for V in (a * W, W)]
    yield r"L(a W) = L(W)", *value


@stated("docs/exercises/neurons/mlp.rst")
def of_balanced_gradients():
    w, v, x, u, dW, da, db = draw(85, 3, 2, 3, 2, (2, 3), 3, 2)
    b = 0.7
    f = lambda w, b, v: u @ (v * np.tanh(0 * b) + v * (w @ x + b))  # noqa: E731
    grads = [
        jacobian_of(lambda a, k=k: f(*[a if j == k else p for j, p in enumerate((w, b, v))]), p)
        for k, p in enumerate((w, b, v))
    ]
    text = (
        r"\vec w \cdot \partial L / \partial \vec w + b\, \partial L / \partial b = "
        r"\vec v \cdot \partial L / \partial \vec v"
    )
    yield text, w @ grads[0] + b * grads[1], v @ grads[2]  # where the unit is active
    W = draw(86, (2, 3))[0]
    text = (
        r"\dd \vec z_l = \dd \mat W_l\, \vec a_{l-1} + \mat W_l\, \dd \vec a_{l-1} + \dd \vec b_l"
    )
    step = rate(lambda W, a, b: W @ a + b, [W, x, u], [dW, da, db])
    yield text, step, dW @ x + W @ da + db


@stated("dlref/training/_muon.py")
def of_orthogonal_steps():
    G, O = draw(87, (3, 4), (3, 4))
    U, s, Vt = np.linalg.svd(G, full_matrices=False)
    text = r"\sum_{ij} G_{ij} O_{ij} = \sum_k s_k\, \vec u_k^\top \mat O\, \vec v_k"
    yield text, np.sum(G * O), sum(s[k] * U[:, k] @ O @ Vt[k] for k in range(3))


@stated("dlref/training/_clipping.py")
def of_clipping():
    g, c = draw(88, 5)[0], 0.4
    text = r"\vec g \cdot \hat{\vec g} = \sum_i \abs{g_i} \min(\abs{g_i}, c) > 0"
    product = g @ training.clip_by_value(g, c)
    yield text, product, sum(abs(g) * np.minimum(abs(g), c))
    yield text, product > 0, True
    yield r"\norm{\vec g} = \sqrt{\sum_i g_i^2}", np.linalg.norm(training.clip_by_norm(g, 0.3)), 0.3


@stated("dlref/propagation/_initialization.py")
def of_gradients_of_a_layer():
    W, h, u = draw(89, (2, 3), 3, 2)
    text = r"\partial L / \partial h_j = \sum_i W_{ij}\, \partial L / \partial z_i"
    yield (
        text,
        jacobian_of(lambda h: u @ (W @ h), h),
        [sum(W[i, j] * u[i] for i in range(2)) for j in range(3)],
    )


@stated("dlref/positions/_fourier_features.py")
def of_fourier_features():
    f, x, df, dx = draw(90, (4, 2), 2, (4, 2), 2)
    text = r"\dd z_m = \vec f_m \cdot \dd \vec x + \vec x \cdot \dd \vec f_m"
    yield text, rate(lambda f, x: f @ x, [f, x], [df, dx]), f @ dx + df @ x


@stated("docs/exercises/calculus/inverse.rst")
def of_the_exercises_on_the_inverse():
    A, dA = draw(91, (3, 3), (3, 3))
    inverse = np.linalg.inv(A)
    dY = calculus.inverse_jvp(A, dA)
    yield r"\mat A \mat A^{-1} = \mat I", A @ inverse, np.eye(3)
    yield (
        r"\dot{\mat A} \mat A^{-1} + \mat A\, \dot{\mat Y} = 0",
        dA @ inverse + A @ dY,
        np.zeros((3, 3)),
    )
    yield r"\dot{\mat Y} = -\mat A^{-1} \dot{\mat A} \mat A^{-1}", dY, -inverse @ dA @ inverse


@stated("dlref/activations/_gumbel_softmax.py")
def of_the_gumbel_distribution():
    x, t = draw(92, 4)[0], 0.3
    G = lambda t: np.exp(-np.exp(-t))  # noqa: E731
    text = r"\prod_{i \ne a} G(t - x_i) = \exp(-e^{-t} \sum_{i \ne a} e^{x_i})"
    yield text, np.prod(G(t - x[1:])), np.exp(-np.exp(-t) * sum(np.exp(x[1:])))


@stated("dlref/attention/_forgetting_bias.py")
def of_forgetting():
    f = -np.abs(draw(93, 5)[0])
    bias = attention.forgetting_bias(f)
    text = r"e^{b_{ij}} = \prod_{j < l \le i'} e^{f_l}"
    yield text, np.exp(bias[4, 1]), np.prod(np.exp(f[2:5]))
    yield r"b_{ii} = 0", np.diagonal(bias), np.zeros(5)


@stated("docs/exercises/positions/sinusoidal.rst")
def of_products_of_sinusoids():
    p, q, w = 3.0, 7.0, 0.4
    text = r"\sin p\omega \sin q\omega + \cos p\omega \cos q\omega = \cos (p - q) \omega"
    yield (
        text,
        math.sin(p * w) * math.sin(q * w) + math.cos(p * w) * math.cos(q * w),
        math.cos((p - q) * w),
    )


@stated("docs/exercises/attention/multi_head.rst")
def of_equivalent_heads():
    A, Q, K = draw(94, (2, 2), (2, 4), (2, 4))
    back = np.linalg.inv(A).T
    text = (
        r"(\mat A \mat W_Q)^\top \mat A^{-\top} \mat W_K = \mat W_Q^\top \mat A^\top"
        r" \mat A^{-\top} \mat W_K"
    )
    yield text, (A @ Q).T @ back @ K, Q.T @ A.T @ back @ K, Q.T @ K


@stated("docs/exercises/losses/ctc_loss.rst")
def of_counted_pairs():
    yield (
        r"T + T (T - 1) / 2 = T (T + 1) / 2",
        *([T + T * (T - 1) / 2 for T in range(9)], [T * (T + 1) / 2 for T in range(9)]),
    )


@stated("docs/exercises/attention/masks.rst")
def of_a_triangle():
    text = r"1 + 2 + \dots + n = n(n+1)/2"
    yield text, sum(range(1, 8)), 7 * 8 / 2, int(attention.causal_mask(7, 7).sum())


@stated("docs/exercises/activations/log_softmax.rst")
def of_the_exercises_on_log_softmax():
    x = draw(101, 4)[0]
    text = r"\log s_i = x_i - \log \sum_j e^{x_j}"
    yield text, activations.log_softmax(x), x - np.log(sum(np.exp(x)))


@stated("docs/exercises/activations/sigmoid.rst")
def of_the_exercises_on_the_sigmoid():
    x = np.array([-1.0, 0.4])
    yield (
        r"e^{-x} / (1 + e^{-x}) = 1 - \sigma",
        np.exp(-x) / (1 + np.exp(-x)),
        1 - activations.sigmoid(x),
    )
    yield (
        r"\sigma' = \sigma (1 - \sigma)",
        activations.sigmoid_deriv(x),
        sigmoid(x) * (1 - sigmoid(x)),
    )
    yield r"\sigma = (1 + e^{-x})^{-1}", activations.sigmoid(x), (1 + np.exp(-x)) ** -1


@stated("docs/exercises/activations/softmax.rst")
def of_more_exercises_on_softmax():
    x = draw(102, 4)[0]
    text = r"\log s_i = x_i - \log \sum_k e^{x_k}"
    yield text, np.log(activations.softmax(x)), x - np.log(sum(np.exp(x)))
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


@stated("dlref/activations/_tanh.py")
def of_tanh():
    x, dx = np.array([-1.0, 0.4]), np.array([0.3, 2.0])
    yield r"\dd y = f'(x)\, \dd x", activations.tanh_jvp(x, dx), slope(np.tanh, x) * dx


@stated("dlref/activations/_relu.py")
def of_the_slope_of_relu():
    x, dx = np.array([-1.0, 0.4]), np.array([0.3, 2.0])
    yield r"\dd y = f'(x)\, \dd x", activations.relu_jvp(x, dx), (x > 0) * dx


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


@stated("dlref/attention/_linear_attention.py")
def of_features_with_a_one():
    a, b, v = draw(104, 3, (4, 3), (4, 2))
    n, z = sum((a @ b[j]) * v[j] for j in range(4)), sum(a @ b[j] for j in range(4))
    c = np.hstack([v, np.ones((4, 1))])
    text = r"(\vec n_i, z_i) = \sum_j (\vec a_i \cdot \vec b_j)\, \vec c_j"
    yield text, [*n, z], sum((a @ b[j]) * c[j] for j in range(4))


@stated("dlref/attention/_recurrent_linear_attention.py")
def of_the_triangular_system():
    A, B, R, dA, dB, dR = draw(105, (3, 3), (3, 3), (3, 2), (3, 3), (3, 3), (3, 2))
    solve = lambda A, B, R: np.linalg.solve(np.eye(3) + B @ A, B @ R)  # noqa: E731
    W, dW = solve(A, B, R), rate(solve, [A, B, R], [dA, dB, dR])
    text = (
        r"(\mat I + \mat B \mat A)\, \dd \mat W = \dd \mat B\, (\mat R - \mat A \mat W) + "
        r"\mat B\, \dd \mat R - \mat B\, \dd \mat A\, \mat W"
    )
    yield text, (np.eye(3) + B @ A) @ dW, dB @ (R - A @ W) + B @ dR - B @ dA @ W


@stated("dlref/attention/_scaled_dot_product.py")
def of_attention_with_dropout():
    q, k, v, u = draw(106, (2, 4), (3, 4), (3, 5), (2, 5))
    m = np.array([[0.0, 2.0, 2.0], [2.0, 0.0, 2.0]])
    p = softmax(q @ k.T / 2)
    dv = attention.scaled_dot_product_attention_vjp(u, q, k, v, dropout=m)[2]
    text = r"\partial L / \partial \vec v_j = \sum_i m_{ij} p_{ij} \vec u_i"
    yield text, dv, [sum(m[i, j] * p[i, j] * u[i] for i in range(2)) for j in range(3)]
    out = attention.scaled_dot_product_attention(q, k, v, dropout=m)
    yield r"\vec o_i = \sum_j m_{ij} p_{ij} \vec v_j", out, (m * p) @ v


@stated("dlref/calculus/_chain_rule.py")
def of_small_changes():
    x, d = 0.7, 1e-5
    g, f = np.square, np.sin
    du, dy = g(x + d) - g(x), f(g(x + d)) - f(g(x))
    yield r"\Delta u = g'(x) \Delta x + o(\Delta x)", du / d, 2 * x, Near(1e-4)
    yield r"\Delta y = f'(u) \Delta u + o(\Delta u)", dy / du, math.cos(x**2), Near(1e-4)
    text = r"\Delta y = f'(u)\, g'(x)\, \Delta x + o(\Delta x)"
    yield text, dy / d, math.cos(x**2) * 2 * x, Near(1e-4)


@stated("dlref/calculus/_inverse.py")
def of_a_matrix_and_its_inverse():
    A = draw(107, (3, 3))[0]
    yield r"\mat A \mat Y = \mat I", A @ np.linalg.inv(A), np.eye(3)


@stated("dlref/calculus/_quadratic_form.py")
def of_antisymmetric_changes():
    x, B = draw(108, 3, (3, 3))
    yield r"\vec x^\top \dot{\mat A} \vec x = 0", x @ (B - B.T) @ x, 0


@stated("dlref/losses/_distillation_loss.py")
def of_the_mean_of_two():
    p, q = softmax(draw(109, 4)[0]), softmax(draw(110, 4)[0])
    m, dm = (p + q) / 2, draw(111, 4)[0]
    text = r"-\sum_c \tfrac{p_c + q_c}{2 m_c} \dd m_c = -\sum_c \dd m_c"
    yield text, -sum((p + q) / (2 * m) * dm), -sum(dm)


@stated("dlref/losses/_kl_estimate.py")
def of_the_log_ratio():
    yield r"\partial \rho / \partial \log p = -1", slope(lambda l: -0.3 - l, 0.5), -1


@stated("dlref/neurons/_lora_linear.py")
def of_low_rank():
    x, W, A, B, U = draw(112, (5, 4), (3, 4), (2, 4), (3, 2), (5, 3))
    s = 0.6
    grads = neurons.lora_linear_vjp(U, x, W, A, B, scale=s)
    G = U.T @ x  # of the merged weight
    names = {g.shape: g for g in grads if g is not None}
    yield r"\partial L / \partial \mat B = s\, \mat G \mat A^\top", names[3, 2], s * G @ A.T
    dx, dA, dB = draw(113, (5, 4), (2, 4), (3, 2))
    step = rate(lambda x, A, B: x @ W.T + s * x @ A.T @ B.T, (x, A, B), (dx, dA, dB))
    sums = sum(np.vdot(names[d.shape], d) for d in (dx, dA, dB))
    yield r"\dd L = \sum_n \vec u_n \cdot \dd \vec y_n", np.vdot(U, step), sums


@stated("dlref/neurons/_neuron.py")
def of_a_neuron():
    z = np.array([-0.4, 0.8])
    yield (
        r"\dv{a}{z} = f'(z)",
        neurons.neuron_jvp((z[:, None], np.ones(1), 0.0), (None, None, 1.0), activation="tanh"),
        slope(np.tanh, z),
    )


@stated("dlref/normalization/_batch_norm_inference.py")
def of_statistics():
    x, M = draw(114, 5)[0], 5
    yield r"\partial \mu / \partial x_m = 1/M", jacobian_of(np.mean, x), np.full(5, 1 / M)
    of_x = jacobian_of(lambda x: np.mean((x - np.mean(x)) ** 2), x)
    yield r"\partial \sigma^2 / \partial x_m = 2 (x_m - \mu) / M", of_x, 2 * (x - np.mean(x)) / M


@stated("dlref/normalization/_group_norm.py")
def of_group_norm():
    x, w, b, u = draw(115, (2, 5, 4), 4, 4, (2, 5, 4))
    dx, dw, db = draw(116, (2, 5, 4), 4, 4)
    dy = normalization.group_norm_jvp((x, 2, w, b), (dx, None, dw, db))
    grads = normalization.group_norm_vjp(u, x, 2, w, b)
    want = sum(np.vdot(g, d) for g, d in zip(grads, (dx, dw, db), strict=True))
    yield r"\dd L = \sum u_{npc}\, \dd y_{npc}", np.vdot(u, dy), want


@stated("dlref/positions/_rope_score.py")
def of_rope_scores():
    q, k, dq, dk = draw(117, 4, 4, 4, 4)
    theta, u = np.array([1.0, 0.2]), 0.7
    dy = positions.rope_score_jvp((q, k, 3.0, theta), (dq, dk, None, None))
    grads = positions.rope_score_vjp(u, q, k, 3.0, theta)
    yield r"\dd L = u\, \dd y", u * dy, grads[0] @ dq + grads[1] @ dk


@stated("dlref/positions/_t5.py")
def of_buckets():
    e, n, M = 8, 16, 128
    agree = [
        ((r / e) ** (n - e) >= (M / e) ** k) == (r ** (n - e) >= M**k * e ** (n - e - k))
        for k in range(1, 8)
        for r in range(9, 140)
        if abs((r / e) ** (n - e) - (M / e) ** k) > 1e-6
    ]
    yield r"(r/e)^{n-e} \ge (M/e)^k", all(agree), True
    yield r"r^{n-e} \ge M^k e^{n-e-k}", all(agree), True


@stated("dlref/recurrent/_gru.py")
def of_gradients_through_a_gru():
    x, h, W, V, b, c, u = draw(118, 2, 3, (9, 2), (9, 3), 9, 9, 3)
    dx, *_, db, _ = recurrent.gru_cell_vjp(u, x, h, W, V, b, c)
    text = (
        r"\partial L / \partial \vec x_t = \mat W_{xr}^\top \vec\delta_r + "
        r"\mat W_{xz}^\top \vec\delta_z + \mat W_{xn}^\top \vec\delta_n"
    )
    yield text, dx, W[:3].T @ db[:3] + W[3:6].T @ db[3:6] + W[6:].T @ db[6:]


@stated("dlref/recurrent/_lstm.py")
def of_both_outputs_of_an_lstm():
    primals = tuple(draw(119, 2, 3, 3, (12, 2), (12, 3), 12, 12))
    tangents = tuple(draw(120, 2, 3, 3, (12, 2), (12, 3), 12, 12))
    u, v = draw(121, 3, 3)
    moves = (122, primals), (123, tangents)
    dh, dc = recurrent.lstm_cell_jvp(primals, tangents)
    grads = recurrent.lstm_cell_vjp((u, v), *primals)
    want = sum(np.vdot(g, d) for g, d in zip(grads, tangents, strict=True))
    text = (
        r"\dd L = \langle \partial L / \partial \vec h', \dd \vec h' \rangle + \langle "
        r"\partial L / \partial \vec c', \dd \vec c' \rangle"
    )
    yield text, u @ dh + v @ dc, want
    primals, tangents = ((draw(seed, (4, 2))[0], *rest) for seed, (_, *rest) in moves)
    u, v = draw(124, (4, 3), (4, 3))
    dh, dc = recurrent.lstm_jvp(primals, tangents)
    grads = recurrent.lstm_vjp((u, v), *primals)
    want = sum(np.vdot(g, d) for g, d in zip(grads, tangents, strict=True))
    text = r"\dd L = \sum_t (\vec u^h_t \cdot \dd \vec h_t + \vec u^c_t \cdot \dd \vec c_t)"
    yield text, sum(u[t] @ dh[t] + v[t] @ dc[t] for t in range(4)), want


@stated("dlref/attention/_multi_head.py")
def of_the_output_of_multi_head_attention():
    x, dx, u, *weights = draw(125, (3, 4), (3, 4), (3, 5), *[(4, 4)] * 3, (5, 4))
    moves = draw(126, *[(4, 4)] * 3, (5, 4))
    params, dparams = attention.AttentionParams(*weights), attention.AttentionParams(*moves)
    heads = {"num_heads": 2}
    dy = attention.multi_head_attention_jvp((x, x, params), (dx, dx, dparams), **heads)
    by_q, by_kv, by_params = attention.multi_head_attention_vjp(u, x, x, params, **heads)
    want = np.vdot(by_q + by_kv, dx)
    want += sum(np.vdot(by_params[k], moves[k]) for k in range(4))
    yield r"\dd L = \sum_i \vec u_i \cdot \dd \vec y_i", sum(u[i] @ dy[i] for i in range(3)), want


@stated("dlref/transformer/_blocks.py")
def of_the_output_of_a_block():
    x, dx, u, w1, w2 = draw(127, (3, 4), (3, 4), (3, 4), (5, 4), (4, 5))
    params = transformer.EncoderBlockParams(
        attention.AttentionParams(*draw(128, *[(4, 4)] * 4)),
        transformer.NormParams(np.ones(4)),
        transformer.FeedForwardParams(w1, np.ones(5), w2, np.zeros(4)),
        transformer.NormParams(np.ones(4)),
    )
    for norm_first in (True, False):
        options = {"num_heads": 2, "norm_first": norm_first}
        dz = transformer.encoder_block_jvp((x, params), (dx, None), **options)
        by_x, _ = transformer.encoder_block_vjp(u, x, params, **options)
        want = np.vdot(by_x, dx)
        yield r"\dd L = \langle \mat U, \dd \mat Z \rangle", np.vdot(u, dz), want


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


@stated("dlref/training/_momentum.py")
def of_momentum():
    v, g, mu = *draw(123, 3, 3), 0.9
    new = mu * v + g
    yield r"\mu \vec v_{t-1} = \vec v_t - \vec g_t", mu * v, new - g


@stated("dlref/transformer/_feed_forward.py")
def of_networks():
    x, W, u = draw(124, 3, (4, 3), 3)
    dx, dW = draw(125, 3, (4, 3))
    step = rate(lambda W, x: W @ x, [W, x], [dW, dx])
    text = r"\dot{\vec a} = \dot{\mat W}_{gate} \vec x + \mat W_{gate} \dot{\vec x}"
    yield text, step, dW @ x + W @ dx
    params = transformer.FeedForwardParams(w1=W, b1=None, w2=draw(126, (3, 4))[0], b2=None)
    dy = transformer.feed_forward_jvp((x, params), (dx, None), activation="tanh")
    grads = transformer.feed_forward_vjp(u, x, params, activation="tanh")
    yield r"\dd L = \sum \vec u \cdot \dd \vec y", u @ dy, grads[0] @ dx
    a, p, da, dp = draw(129, 4, 4, 4, 4)
    move = np.tanh(a) * dp + p * (1 - np.tanh(a) ** 2) * da
    text = r"\dd \vec h = f(\vec a) \odot \dd \vec p + \vec p \odot f'(\vec a) \odot \dd \vec a"
    yield text, rate(lambda a, p: np.tanh(a) * p, [a, p], [da, dp]), move


@stated("dlref/transformer/_router.py")
def of_a_router():
    W, x, b, dW, dx, db = draw(127, (4, 3), 3, 4, (4, 3), 3, 4)
    step = rate(lambda W, x, b: W @ x + b, [W, x, b], [dW, dx, db])
    text = r"\dot{\vec z} = \dot{\mat W} \vec x + \mat W \dot{\vec x} + \dot{\vec b}"
    yield text, step, dW @ x + W @ dx + db


@stated("docs/conventions.rst")
def of_conventions():
    u, J, v = draw(128, 3, (3, 4), 4)
    yield r"u^\top (J v) = (u^\top J)\, v", u @ (J @ v), (u @ J) @ v


@stated("docs/reference/check.rst")
def of_adjoints():
    u, J, v = draw(129, 3, (3, 4), 4)
    yield (
        r"\langle u, \mat J v \rangle = \langle \mat J^\top u, v \rangle",
        u @ (J @ v),
        (J.T @ u) @ v,
    )


@stated("docs/reference/neurons.rst")
def of_neurons():
    w, x, W, V, b = *draw(130, 3, 3, (4, 3), (2, 4)), 0.3
    yield r"\partial z / \partial \vec w = \vec x", jacobian_of(lambda w: w @ x + b, w), x
    yield r"\partial z / \partial b = 1", slope(lambda b: w @ x + b, b), 1
    yield r"\mat V (\mat W \vec x) = (\mat V \mat W) \vec x", V @ (W @ x), (V @ W) @ x


@stated("docs/exercises/calculus/accumulation.rst")
def of_a_square_in_an_exponential():
    x = 0.7
    yield r"dy/dx = e^{x^2} \cdot 2x", slope(lambda x: np.exp(x**2), x), math.exp(x**2) * 2 * x


@stated("docs/exercises/calculus/matmul.rst")
def of_a_sum_of_a_product():
    A, B = draw(131, (2, 3), (3, 4))
    grad = calculus.matmul_vjp(np.ones((2, 4)), A, B)[0]
    text = r"(\mat U \mat B^\top)_{ik} = \sum_j B_{kj}"
    yield text, grad, [[sum(B[k]) for k in range(3)] for _ in range(2)]


@stated("docs/exercises/calculus/power.rst")
def of_relative_changes():
    w, dw = 0.7, 0.3
    yield r"dy / y = 3\, dw / w", slope(lambda w: w**3, w) * dw / w**3, 3 * dw / w


@stated("docs/exercises/convolution/conv.rst")
def of_sizes_of_convolutions():
    text = r"\lfloor (224 + 6 - 6 - 1) / 2 \rfloor + 1 = 111 + 1"
    yield text, (224 + 6 - 6 - 1) // 2 + 1, 111 + 1
    a, b, x = draw(132, 3, 2, (5, 4))
    text = r"\sum_{kl} a_k b_l\, x_{i+k, j+l} = \sum_k a_k \bigl( \sum_l b_l\, x_{i+k, j+l} \bigr)"
    double = sum(a[k] * b[m] * x[1 + k, 2 + m] for k in range(3) for m in range(2))
    yield text, double, sum(a[k] * sum(b[m] * x[1 + k, 2 + m] for m in range(2)) for k in range(3))


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


@stated("docs/exercises/neurons/mlp.rst")
def of_the_change_of_a_layer():
    delta, dz, W, b = draw(133, 2, 2, (2, 3), 2)
    text = r"\dd L = \vec \delta_l^\top \dd \vec z_l"
    yield text, sum(delta[i] * dz[i] for i in range(2)), delta.T @ dz
    x = draw(134, 3)[0]
    yield r"\vec z_l = \mat W_l \vec a_{l-1} + \vec b_l", neurons.linear(x, W, b), W @ x + b


@stated("docs/exercises/normalization/rms_norm.rst")
def of_a_lost_direction():
    x = draw(135, 4)[0]
    J = normalization.rms_norm_jacobian(x, eps=0.0)
    yield r"\mat J \hat{\vec x} = \vec 0", J @ normalization.rms_norm(x, eps=0.0), np.zeros(4)


@stated("docs/exercises/positions/alibi.rst")
def of_half_a_weight():
    m = 0.25
    d = math.log(2) / m
    yield r"e^{-m d} = 1/2", math.exp(-m * d), 1 / 2
    yield r"d = \log 2 / m", d, math.log(2) / m


@stated("docs/exercises/positions/learned.rst")
def of_selected_rows():
    S, W, U = np.eye(4)[[1, 3, 1]], *draw(136, (4, 2), (3, 2))
    yield r"\mat Y = \mat S \mat W", W[[1, 3, 1]], S @ W
    grad = np.zeros((4, 2))
    np.add.at(grad, [1, 3, 1], U)
    yield r"\bar{\mat W} = \mat S^\top \mat U", grad, S.T @ U


@stated("docs/exercises/propagation/gradient_magnitude.rst")
def of_a_weight_that_makes_up():
    yield (
        r"w \cdot \frac14 = 1",
        float(propagation.gradient_magnitude(4.0, 7, activation_slope=0.25)),
        1,
    )


@stated("docs/exercises/quantization/quantize_blocks.rst")
def of_exponents():
    yield r"\lfloor \log_2 13 \rfloor = 3", math.floor(math.log2(13)), 3


@stated("docs/exercises/recurrent/gru.rst")
def of_a_gru_without_recurrent_weights():
    b, h, dh = draw(137, 9, 3, 3)
    zero = np.zeros((9, 3)), np.zeros((9, 3))
    tangent = recurrent.gru_cell_jvp(
        (np.zeros(3), h, *zero, b, None), (None, dh, None, None, None, None)
    )
    yield r"\dd h_t = z_t \dd h_{t-1}", tangent, sigmoid(b[3:6]) * dh
    z, n = 0.3, -0.6
    yield (
        r"h_t = (1 - z_t) n_t + z_t h_{t-1}",
        recurrent.gru_cell(
            [0.0],
            [2.0],
            np.zeros((3, 1)),
            np.zeros((3, 1)),
            np.array([0.0, math.log(z / (1 - z)), math.atanh(n)]),
        ),
        [(1 - z) * n + z * 2.0],
    )


@stated("docs/exercises/training/newton_schulz.rst")
def of_the_cubic():
    a, b = 3 / 2, -1 / 2
    p = lambda s: a * s + b * s**3  # noqa: E731
    yield r"p(1) = 1", p(1.0), 1
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
