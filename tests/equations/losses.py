"""The displayed equations of dlref.losses."""

import numpy as np
from equations.ledger import definition, equation
from equations.numeric import central, complex_step, jacobian_of

from dlref import losses
from dlref.formulas.activations import logsumexp, sigmoid, softmax

RNG = np.random.default_rng(0)
T = RNG.normal(size=8)  # targets, and predictions with errors of both signs and all sizes
P = T + np.array([-2.8, -1.3, -0.6, -0.1, 0.2, 0.5, 1.2, 2.9])
Z = 2 * RNG.normal(size=8)
SHARE = RNG.uniform(size=8)  # targets from 0 to 1
W, PI = RNG.uniform(0.5, 2.0, size=(2, 8))  # weights


# Of an error


@definition(r"L = \frac1N \sum_{n} (p_n - t_n)^2 ,")
def the_squared_error():
    N = P.size
    yield 1 / N * sum((p - t) ** 2 for p, t in zip(P, T, strict=True)), losses.squared_error(P, T)


@equation(
    r"""\pdv{\ell}{p} = 2 e\, \pdv{e}{p} = 2 (p - t) , \qquad
    \pdv{L}{p_n} = \frac2N e_n ."""
)
def gradient_of_the_squared_error():
    e, N = P - T, P.size
    yield (
        complex_step(lambda p: (p - T) ** 2, P),
        2 * e * complex_step(lambda p: p - T, P),
        2 * (P - T),
    )
    yield jacobian_of(lambda p: np.mean((p - T) ** 2), P), 2 / N * e


@equation(
    r"\pdv{\ell}{p} = \begin{cases} -1 & p < t \\ 0 & p = t \\ 1 & p > t . \end{cases}",
    rtol=1e-8,
    atol=1e-8,
)
def gradient_of_the_absolute_error():
    p, t = np.append(P, 0.5), np.append(T, 0.5)  # the last one is right
    slope = central(lambda p: np.abs(p - t), p)
    yield slope, np.select([p < t, p == t, p > t], [-1, 0, 1])
    yield losses.absolute_error_grad(p, t, reduction="sum"), np.sign(p - t)


def huber(e, delta):
    return np.where(np.abs(e) <= delta, e**2 / 2, delta * (np.abs(e) - delta / 2))


@definition(
    r"""\ell = \begin{cases}
    \frac12 e^2 & \abs e \le \delta \\
    \delta \bigl( \abs e - \frac12 \delta \bigr) & \abs e > \delta .
    \end{cases}"""
)
def the_huber_loss():
    delta = 0.7
    e = P - T
    want = np.where(np.abs(e) <= delta, 1 / 2 * e**2, delta * (np.abs(e) - 1 / 2 * delta))
    yield want, losses.huber(P, T, delta=delta, reduction="none")


@equation(
    r"""\pdv{\ell}{p} = \begin{cases} e & \abs e \le \delta \\
    \delta \operatorname{sign} e & \abs e > \delta \end{cases}
    \; = \; \min(\max(e, -\delta), \delta) .""",
    rtol=1e-8,
    atol=1e-8,
)
def gradient_of_the_huber_loss():
    delta = 0.7
    e = P - T
    yield (
        central(lambda p: huber(p - T, delta), P),
        np.where(np.abs(e) <= delta, e, delta * np.sign(e)),
        np.minimum(np.maximum(e, -delta), delta),
    )


@equation(r"\pdv{\ell}{p} = \begin{cases} -t & t p < 1 \\ 0 & t p \ge 1 . \end{cases}")
def gradient_of_the_hinge_loss():
    p, t = 2 * P, np.sign(T)

    def cases(p):
        return np.where(t * p < 1, -t, 0)

    yield complex_step(lambda p: np.maximum(0, 1 - t * p), p), cases(p)
    yield losses.hinge_grad(t, t, reduction="sum"), cases(t)  # the choice at the kink


# Binary cross-entropy


def binary_cross_entropy(z, t=SHARE, w=W, pi=PI):
    return -w * (pi * t * np.log(sigmoid(z)) + (1 - t) * np.log(1 - sigmoid(z)))


@definition(r"\ell = -w \bigl( \pi\, t \log \sigma(z) + (1 - t) \log (1 - \sigma(z)) \bigr) .")
def the_binary_cross_entropy():
    t, w, pi = SHARE, W, PI
    want = -w * (pi * t * np.log(sigmoid(Z)) + (1 - t) * np.log(1 - sigmoid(Z)))
    options = {"weight": w, "pos_weight": pi, "reduction": "none"}
    yield want, losses.binary_cross_entropy(Z, t, **options)


@equation(
    r"""\ell = w \bigl( \pi\, t\, s(-z) + (1 - t)\, s(z) \bigr) , \qquad
    s(z) = \log (1 + e^z) = \max(z, 0) + \log (1 + e^{-\abs z}) ."""
)
def binary_cross_entropy_by_softplus():
    def s(z):
        return np.maximum(z, 0) + np.log(1 + np.exp(-np.abs(z)))

    t, w, pi = SHARE, W, PI
    yield binary_cross_entropy(Z), w * (pi * t * s(-Z) + (1 - t) * s(Z))
    yield np.log(1 + np.exp(Z)), s(Z)


@equation(r"\pdv{\ell}{z} = w \bigl( (1 - t)\, \sigma(z) - \pi\, t\, \sigma(-z) \bigr) ,")
def gradient_of_the_binary_cross_entropy():
    t, w, pi = SHARE, W, PI
    formula = w * ((1 - t) * sigmoid(Z) - pi * t * sigmoid(-Z))
    yield complex_step(binary_cross_entropy, Z), formula


@equation(r"\pdv{\ell}{z} = \sigma(z) - t .")
def gradient_of_the_binary_cross_entropy_without_weights():
    t = SHARE
    slope = complex_step(lambda z: binary_cross_entropy(z, t, w=1, pi=1), Z)
    yield slope, sigmoid(Z) - t


# Cross-entropy


EPSILON, ZETA = 0.1, 0.3
C = 8
TARGET = softmax(T)


def smoothed(t, w=W):
    return w * ((1 - EPSILON) * t + EPSILON / C)


def cross_entropy(z, t=TARGET):
    return -np.sum(smoothed(t) * np.log(softmax(z))) + ZETA * logsumexp(z) ** 2


@definition(r"\ell = -\log p_y = \log \sum_j e^{z_j} - z_y .")
def cross_entropy_of_a_class():
    for y in range(C):
        p = np.exp(Z) / np.sum(np.exp(Z))
        want = np.log(sum(np.exp(Z[j]) for j in range(C))) - Z[y]
        yield -np.log(p[y]), want, losses.cross_entropy(Z, y)


@definition(
    r"""\ell = -\sum_c q_c \log p_c + \zeta\, \lambda^2 , \qquad
    \lambda = \log \sum_j e^{z_j} ,""",
    r"q_c = w_c \Bigl( (1 - \epsilon)\, t_c + \frac{\epsilon}{C} \Bigr) ,",
)
def the_cross_entropy():
    q = [W[c] * ((1 - EPSILON) * TARGET[c] + EPSILON / C) for c in range(C)]
    p, lam = softmax(Z), np.log(sum(np.exp(Z[j]) for j in range(C)))
    want = -sum(q[c] * np.log(p[c]) for c in range(C)) + ZETA * lam**2
    options = {"label_smoothing": EPSILON, "z_loss": ZETA, "reduction": "none"}
    yield want, losses.cross_entropy(Z, TARGET, weight=W, **options)


@equation(
    r"""\ell = \sum_c q_c (\lambda - z_c) + \zeta \lambda^2 , \qquad
    \lambda = m + \log \sum_j e^{z_j - m} , \quad m = \max_j z_j ,"""
)
def cross_entropy_after_the_maximum():
    q, m = smoothed(TARGET), np.max(Z)
    lam = m + np.log(np.sum(np.exp(Z - m)))
    yield cross_entropy(Z), np.sum(q * (lam - Z)) + ZETA * lam**2
    yield np.all(m >= Z), True


@equation(
    r"""\pdv{\lambda}{z_j} = \frac{1}{\sum_c e^{z_c}}\, \pdv{}{z_j} \sum_c e^{z_c}
    = \frac{e^{z_j}}{\sum_c e^{z_c}} = p_j ."""
)
def gradient_of_the_log_sum():
    total = np.sum(np.exp(Z))
    yield (
        jacobian_of(logsumexp, Z),
        1 / total * jacobian_of(lambda z: np.sum(np.exp(z)), Z),
        np.exp(Z) / total,
        softmax(Z),
    )


@equation(
    r"""\pdv{\ell}{z_j} = \sum_c q_c (p_j - \delta_{cj}) + 2 \zeta \lambda\, p_j
    = (Q + 2 \zeta \lambda)\, p_j - q_j ."""
)
def gradient_of_the_cross_entropy():
    p, q, lam = softmax(Z), smoothed(TARGET), logsumexp(Z)
    terms = np.einsum("c,cj->j", q, p[None, :] - np.eye(C))
    yield (
        jacobian_of(cross_entropy, Z),
        terms + 2 * ZETA * lam * p,
        (q.sum() + 2 * ZETA * lam) * p - q,
    )


@equation(r"\pdv{\ell}{\vec z} = \vec p - \vec e_y .")
def gradient_of_the_surprisal():
    y = 3
    yield jacobian_of(lambda z: -np.log(softmax(z)[y]), Z), softmax(Z) - np.eye(C)[y]


@definition(
    r"""\pdv{L}{z_j} = u_r \bigl( (Q + 2 \zeta \lambda)\, p_j - q_j \bigr) , \qquad
    \pdv{L}{t_c} = u_r\, w_c (1 - \epsilon) (\lambda - z_c) ."""
)
def cotangents_of_the_cross_entropy():
    u, z = np.array([0.7, -1.3]), np.array([Z, Z[::-1]])
    options = {"label_smoothing": EPSILON, "z_loss": ZETA, "reduction": "none"}
    dz, dt = losses.cross_entropy_vjp(u, z, [TARGET, TARGET], weight=W, **options)
    q = smoothed(TARGET)
    for r in range(2):
        p, lam = softmax(z[r]), logsumexp(z[r])
        yield (
            u[r] * jacobian_of(cross_entropy, z[r]),
            u[r] * ((sum(q) + 2 * ZETA * lam) * p - q),
            dz[r],
        )
        slope = jacobian_of(lambda t, r=r: cross_entropy(z[r], t), TARGET)
        yield u[r] * slope, u[r] * W * (1 - EPSILON) * (lam - z[r]), dt[r]


@definition(r"\pdv{\ell}{l_c} = -w_y\, \delta_{cy} .")
def gradient_of_a_log_probability():
    y, delta = 3, np.eye(C)
    got = losses.nll_grad(np.log(softmax(Z)), y, weight=W, reduction="sum")
    yield jacobian_of(lambda l: -W[y] * l[y], np.log(softmax(Z))), -W[y] * delta[y], got


@equation(r"\pdv{\ell}{z_j} = -w_y (\delta_{yj} - p_j) = w_y (p_j - \delta_{yj}) ,")
def gradient_of_the_likelihood():
    y = 3
    p, delta = softmax(Z), np.eye(C)
    slope = jacobian_of(lambda z: -W[y] * np.log(softmax(z))[y], Z)
    yield slope, -W[y] * (delta[y] - p), W[y] * (p - delta[y])


@definition(
    r"""\ell = \sum_c q_c (\log q_c - \log p_c)
    = \underbrace{-\sum_c q_c \log p_c}_{\text{cross-entropy}}
    \; - \; \underbrace{\Bigl( -\sum_c q_c \log q_c \Bigr)}_{\text{entropy of } q} ."""
)
def the_divergence():
    p, q = softmax(Z), TARGET
    yield (
        np.sum(q * (np.log(q) - np.log(p))),
        -np.sum(q * np.log(p)) - (-np.sum(q * np.log(q))),
        losses.kl_divergence(np.log(p), q, reduction="none"),
    )


@definition(
    r"""\pdv{L}{\log p_c} = -u\, q_c , \qquad
    \pdv{L}{q_c} = u \Bigl( \log q_c - \log p_c + q_c\, \frac{1}{q_c} \Bigr)
    = u \Bigl( \log \frac{q_c}{p_c} + 1 \Bigr)"""
)
def cotangents_of_the_divergence():
    u, p, q = 0.7, softmax(Z), TARGET
    dlog_p, dq = losses.kl_divergence_vjp(u, np.log(p), q, reduction="none")
    yield u * jacobian_of(lambda l: np.sum(q * (np.log(q) - l)), np.log(p)), -u * q, dlog_p
    yield (
        u * jacobian_of(lambda q: np.sum(q * (np.log(q) - np.log(p))), q),
        u * (np.log(q) - np.log(p) + q * (1 / q)),
        u * (np.log(q / p) + 1),
        dq,
    )


# One neuron


INPUTS, OUTPUTS = RNG.normal(size=(8, 3)), RNG.normal(size=8)
WEIGHTS, BIAS = RNG.normal(size=3), 0.2


def neuron_loss(w, b):
    return np.mean((np.maximum(0, INPUTS @ w + b) - OUTPUTS) ** 2)


@definition(
    r"""C(\vec w, b) = \frac1N \sum_{n=1}^{N}
    \bigl( \max(0, \vec w \cdot \vec x_n + b) - y_n \bigr)^2 ."""
)
def the_loss_of_a_neuron():
    N, w, b = len(INPUTS), WEIGHTS, BIAS
    want = 1 / N * sum((max(0, w @ INPUTS[n] + b) - OUTPUTS[n]) ** 2 for n in range(N))
    yield want, losses.neuron_squared_error(INPUTS, OUTPUTS, w, b)


def steps_of_a_neuron(w=WEIGHTS, b=BIAS):
    z = INPUTS @ w + b
    a = np.maximum(0, z)
    return z, a, a - OUTPUTS


@equation(
    r"""z_n = \vec w \cdot \vec x_n + b , \qquad a_n = \max(0, z_n) , \qquad
    e_n = a_n - y_n , \qquad C = \frac1N \sum_n e_n^2 ."""
)
def loss_of_a_neuron_in_steps():
    N = len(INPUTS)
    z = np.array([WEIGHTS @ INPUTS[n] + BIAS for n in range(N)])
    a = np.maximum(0, z)
    e = a - OUTPUTS
    yield np.stack([z, a, e]), np.stack(steps_of_a_neuron())
    yield 1 / N * np.sum(e**2), neuron_loss(WEIGHTS, BIAS)


@equation(r"\pdv{C}{e_n} = \frac2N e_n , \qquad \pdv{e_n}{a_n} = 1 .")
def slopes_of_the_error_of_a_neuron():
    N = len(INPUTS)
    _, a, e = steps_of_a_neuron()
    yield jacobian_of(lambda e: 1 / N * np.sum(e**2), e), 2 / N * e
    yield complex_step(lambda a: a - OUTPUTS, a), 1


@equation(
    r"""\pdv{a_n}{\vec w} = \begin{cases} \vec 0 & z_n \le 0 \\ \vec x_n & z_n > 0 ,
    \end{cases} \qquad
    \pdv{a_n}{b} = \begin{cases} 0 & z_n \le 0 \\ 1 & z_n > 0 . \end{cases}"""
)
def slopes_of_the_output_of_a_neuron():
    def cases(z):
        return np.where(z[:, None] <= 0, 0, INPUTS), np.where(z <= 0, 0, 1)

    z, _, _ = steps_of_a_neuron()
    by_w = jacobian_of(lambda w: steps_of_a_neuron(w=w)[1], WEIGHTS)
    by_b = jacobian_of(lambda b: steps_of_a_neuron(b=b)[1], BIAS)
    yield from zip((by_w, by_b), cases(z), strict=True)
    for n in range(len(INPUTS)):  # at the kink, where a subgradient was chosen
        one, at_the_kink = slice(n, n + 1), cases(0 * z)
        slopes = losses.neuron_squared_error_grad(INPUTS[one], OUTPUTS[one], 0 * WEIGHTS, 0.0)
        by_output = -2 * OUTPUTS[n]
        yield slopes[0], by_output * at_the_kink[0][n]
        yield slopes[1], by_output * at_the_kink[1][n]


@equation(
    r"""\pdv{C}{\vec w} = \sum_n \pdv{C}{e_n} \pdv{e_n}{a_n} \pdv{a_n}{\vec w}
    = \frac2N \sum_{z_n > 0} e_n\, \vec x_n , \qquad
    \pdv{C}{b} = \frac2N \sum_{z_n > 0} e_n ."""
)
def gradient_of_the_loss_of_a_neuron():
    N = len(INPUTS)
    z, a, e = steps_of_a_neuron()
    by_error = jacobian_of(lambda e: np.mean(e**2), e)
    by_output = complex_step(lambda a: a - OUTPUTS, a)
    by_weights = jacobian_of(lambda w: steps_of_a_neuron(w=w)[1], WEIGHTS)
    yield (
        jacobian_of(lambda w: neuron_loss(w, BIAS), WEIGHTS),
        np.einsum("n,n,nd->d", by_error, by_output, by_weights),
        2 / N * sum(e[n] * INPUTS[n] for n in range(N) if z[n] > 0),
    )
    slope = jacobian_of(lambda b: neuron_loss(WEIGHTS, b), BIAS)
    yield slope, 2 / N * sum(e[n] for n in range(N) if z[n] > 0)
