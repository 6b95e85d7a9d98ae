"""The displayed products with vectors of calculus, losses, neurons and training.

Each map is written once, `reverse` and `forward` differentiate it with a complex step, and the
formula of the text stands beside the value of dlref.
"""

import numpy as np
import scipy.stats
from equations.ledger import definition, equation
from equations.numeric import gradients, rate

from dlref import calculus, formulas, losses, neurons, propagation, training

RNG = np.random.default_rng(3)
W, X = RNG.uniform(0.5, 2, size=(2, 5))
U, DW, DX = RNG.normal(size=(3, 5))
ROWS, DROWS = RNG.normal(size=(2, 3, 4))
SEED = RNG.normal(size=3)
A, DA = RNG.normal(size=(2, 5, 5))
H = lambda z: np.heaviside(z, 0.5)  # noqa: E731


def reverse(f, *primals, u=U):
    """Return the gradients of the sum of u times f."""
    return gradients(lambda *p: np.sum(u * f(*p)), *primals)


def forward(f, *tangents, primals=None):
    return rate(f, (W, X) if primals is None else primals, tangents)


# Two operands, element by element


@equation(
    r"\pdv{L}{w_j} = \sum_i u_i\, \delta_{ij} = u_j , \qquad \pdv{L}{x_j} = u_j",
    r"\dot y = \dot w + \dot x",
)
def products_of_add():
    found = reverse(lambda w, x: w + x, W, X)
    yield found, [np.einsum("i,ij->j", U, np.eye(5)), U], calculus.add_vjp(U, W, X)
    yield forward(lambda w, x: w + x, DW, DX), DW + DX, calculus.add_jvp((W, X), (DW, DX))


@equation(
    r"\pdv{L}{w_j} = u_j , \qquad \pdv{L}{x_j} = -u_j",
    r"\dot y = \dot w - \dot x",
)
def products_of_subtract():
    yield reverse(lambda w, x: w - x, W, X), [U, -U], calculus.subtract_vjp(U, W, X)
    yield forward(lambda w, x: w - x, DW, DX), DW - DX, calculus.subtract_jvp((W, X), (DW, DX))


@equation(r"\dot y = x \odot \dot w + w \odot \dot x")
def tangent_of_multiply():
    found = forward(lambda w, x: w * x, DW, DX)
    yield found, X * DW + W * DX, calculus.multiply_jvp((W, X), (DW, DX))


@equation(
    r"\pdv{L}{w_j} = \frac{u_j}{x_j} , \qquad \pdv{L}{x_j} = -\frac{u_j\, w_j}{x_j^2}",
)
def gradients_of_divide():
    formula = [U / X, -U * W / X**2]
    yield reverse(lambda w, x: w / x, W, X), formula, calculus.divide_vjp(U, W, X)


@equation(
    r"""\pdv{L}{w_j} = u_j\, x_j\, w_j^{x_j - 1} , \qquad
    \pdv{L}{x_j} = u_j\, w_j^{x_j} \log w_j""",
    r"\dot y_j = x_j\, w_j^{x_j - 1}\, \dot w_j + w_j^{x_j} \log w_j\; \dot x_j",
)
def products_of_power():
    power = lambda w, x: np.exp(x * np.log(w))  # noqa: E731
    formula = [U * X * W ** (X - 1), U * W**X * np.log(W)]
    yield reverse(power, W, X), formula, calculus.power_vjp(U, W, X)
    formula = X * W ** (X - 1) * DW + W**X * np.log(W) * DX
    yield forward(power, DW, DX), formula, calculus.power_jvp((W, X), (DW, DX))


@equation(
    r"\pdv{L}{w_j} = u_j\, H(w_j - x_j) , \qquad \pdv{L}{x_j} = u_j\, H(x_j - w_j)",
    r"\dot y_j = H(w_j - x_j)\, \dot w_j + H(x_j - w_j)\, \dot x_j",
    r"\pdv{L}{w_j} = u_j\, H(x_j - w_j) , \qquad \pdv{L}{x_j} = u_j\, H(w_j - x_j)",
    r"\dot y_j = H(x_j - w_j)\, \dot w_j + H(w_j - x_j)\, \dot x_j",
)
def products_of_maximum_and_minimum():
    tied = np.append(W[:-1], X[-1])
    for sign, name in ((1, "maximum"), (-1, "minimum")):
        f = lambda w, x, s=sign: np.where(s * (w - x).real > 0, w, x)  # noqa: E731
        vjp, jvp = (getattr(calculus, f"{name}_{form}") for form in ("vjp", "jvp"))
        first, second = H(sign * (W - X)), H(sign * (X - W))
        yield reverse(f, W, X), [U * first, U * second], vjp(U, W, X)
        yield forward(f, DW, DX), first * DW + second * DX, jvp((W, X), (DW, DX))
        first, second = H(sign * (tied - X)), H(sign * (X - tied))  # the convention at a tie
        yield [U * first, U * second], vjp(U, tied, X)
        yield first * DW + second * DX, jvp((tied, X), (DW, DX))


# Reductions of rows


@equation(
    r"\pdv{L}{x_{kj}} = \sum_l u_l \pdv{y_l}{x_{kj}} = u_k",
    r"\dot y_k = \sum_i \dot x_{ki}",
    r"\pdv{L}{x_{kj}} = \frac{u_k}{n}",
    r"\dot y_k = \frac1n \sum_i \dot x_{ki}",
)
def products_of_sum_and_mean():
    n = ROWS.shape[1]
    spread = np.repeat(SEED[:, None], n, axis=1)
    for name, scale in (("sum", 1), ("mean", 1 / n)):
        f = lambda x, s=scale: s * x.sum(-1)  # noqa: E731
        vjp, jvp = (getattr(calculus, f"{name}_{form}") for form in ("vjp", "jvp"))
        (found,) = reverse(f, ROWS, u=SEED)
        yield found, scale * spread, vjp(SEED, ROWS, axis=1)
        moved = [scale * sum(DROWS[k, i] for i in range(n)) for k in range(3)]
        yield forward(f, DROWS, primals=(ROWS,)), moved, jvp(ROWS, DROWS, axis=1)


@equation(
    r"\pdv{L}{x_{kj}} = u_k \prod_{i \ne j} x_{ki}",
    r"\dot y_k = \sum_j \dot x_{kj} \prod_{i \ne j} x_{ki}",
)
def products_of_prod():
    rest = np.array([[np.prod(np.delete(row, j)) for j in range(4)] for row in ROWS])
    (found,) = reverse(lambda x: x.prod(axis=1), ROWS, u=SEED)
    yield found, SEED[:, None] * rest, calculus.prod_vjp(SEED, ROWS, axis=1)
    moved = forward(lambda x: x.prod(axis=1), DROWS, primals=(ROWS,))
    yield moved, np.sum(DROWS * rest, axis=1), calculus.prod_jvp(ROWS, DROWS, axis=1)


@equation(
    r"""\pdv{L}{x_{kj}} = \frac{u_k}{m_k} \begin{cases} 1 & x_{kj} = y_k \\
    0 & x_{kj} < y_k \end{cases}""",
    r"\dot y_k = \frac{1}{m_k} \sum_{j :\, x_{kj} = y_k} \dot x_{kj}",
)
def products_of_max():
    def formulas(x):
        y = x.max(axis=1, keepdims=True)
        m = (x == y).sum(axis=1)
        return (SEED / m)[:, None] * (x == y), 1 / m * np.sum(DROWS, axis=1, where=x == y)

    largest = lambda x: np.take_along_axis(x, x.real.argmax(axis=1)[:, None], 1)[:, 0]  # noqa: E731
    (found,) = reverse(largest, ROWS, u=SEED)
    for x in (ROWS, np.round(ROWS)):  # the second has ties
        gradient, tangent = formulas(x)
        yield gradient, calculus.max_vjp(SEED, x, axis=1)
        yield tangent, calculus.max_jvp(x, DROWS, axis=1)
    yield found, formulas(ROWS)[0]
    yield forward(largest, DROWS, primals=(ROWS,)), formulas(ROWS)[1]


@equation(
    r"\pdv{L}{x_{kj}} = u_k\, \frac{x_{kj}}{\norm{x_k}}",
    r"\dot y_k = \frac{1}{\norm{x_k}} \sum_j x_{kj}\, \dot x_{kj}",
)
def products_of_norm():
    norm = lambda x: np.sqrt(np.sum(x * x, axis=1))  # noqa: E731
    (found,) = reverse(norm, ROWS, u=SEED)
    formula = SEED[:, None] * ROWS / norm(ROWS)[:, None]
    yield found, formula, calculus.norm_vjp(SEED, ROWS, axis=1)
    moved = forward(norm, DROWS, primals=(ROWS,))
    formula = 1 / norm(ROWS) * np.sum(ROWS * DROWS, axis=1)
    yield moved, formula, calculus.norm_jvp(ROWS, DROWS, axis=1)


@equation(
    r"\pdv{L}{w_j} = u\, x_j , \qquad \pdv{L}{x_j} = u\, w_j",
    r"\dot y = \dot w^\top x + w^\top \dot x",
)
def products_of_dot():
    u, dot = 1.7, lambda w, x: np.sum(w * x)
    yield reverse(dot, W, X, u=u), [u * X, u * W], calculus.dot_vjp(u, W, X)
    yield forward(dot, DW, DX), DW @ X + W @ DX, calculus.dot_jvp((W, X), (DW, DX))


@equation(
    r"\pdv{L}{x_j} = u\, z , \qquad \pdv{L}{z} = u \sum_i x_i",
    r"\dot y = z \sum_i \dot x_i + \dot z \sum_i x_i",
)
def products_of_scaled_sum():
    u, z, dz = 1.7, 0.8, -0.3
    f = lambda x, z: np.sum(x * z)  # noqa: E731
    dx, by_z = reverse(f, X, np.array(z), u=u)
    found = calculus.scaled_sum_vjp(u, X, z)
    yield dx, u * z, found[0]
    yield by_z, u * X.sum(), found[1]
    moved = rate(f, (X, z), (DX, dz))
    yield moved, z * DX.sum() + dz * X.sum(), calculus.scaled_sum_jvp((X, z), (DX, dz))


# Matrices


@equation(
    r"\dot{\mat Y} = \dot{\mat A} \mat B + \mat A \dot{\mat B}",
    r"""\pdv{L}{\vec x} = u\, (\mat A + \mat A^\top)\, \vec x , \qquad
    \pdv{L}{\mat A} = u\, \vec x \vec x^\top""",
    r"""\dot y = \dot{\vec x}^\top (\mat A + \mat A^\top)\, \vec x
    + \vec x^\top \dot{\mat A}\, \vec x""",
)
def products_of_matmul_and_quadratic_form():
    b, db = ROWS.T, DROWS.T
    a, da = A[:2, :4], DA[:2, :4]
    moved = rate(lambda a, b: a @ b, (a, b), (da, db))
    yield moved, da @ b + a @ db, calculus.matmul_jvp((a, b), (da, db))
    u, form = 1.7, lambda x, a: x @ a @ x
    formula = [u * (A + A.T) @ X, u * np.outer(X, X)]
    yield from zip(
        reverse(form, X, A, u=u), formula, calculus.quadratic_form_vjp(u, X, A), strict=True
    )
    moved, formula = rate(form, (X, A), (DX, DA)), DX @ (A + A.T) @ X + X @ DA @ X
    yield moved, formula, calculus.quadratic_form_jvp((X, A), (DX, DA))


@equation(
    r"\pdv{L}{A_{kl}} = u\, \delta_{kl}",
    r"\dot y = \sum_k \dot A_{kk} = \operatorname{tr} \dot{\mat A}",
    r"\pdv{L}{A_{kl}} = u\, (\mat A^{-1})_{lk}",
    r"""\dot y = \sum_{kl} (\mat A^{-1})_{lk}\, \dot A_{kl}
    = \operatorname{tr}(\mat A^{-1} \dot{\mat A})""",
)
def products_of_trace_and_logdet():
    u, inverse = 1.7, np.linalg.inv(A)
    (found,) = reverse(np.trace, A, u=u)
    yield found, u * np.eye(5), calculus.trace_vjp(u, A)
    moved = rate(np.trace, (A,), (DA,))
    yield moved, sum(DA[k, k] for k in range(5)), np.trace(DA), calculus.trace_jvp(A, DA)
    sign = np.sign(np.linalg.det(A))
    logdet = lambda a: np.log(sign * np.linalg.det(a))  # noqa: E731
    (found,) = reverse(logdet, A, u=u)
    positive = A if sign > 0 else A[::-1]
    yield found, u * inverse.T
    yield calculus.logdet_vjp(u, positive), u * np.linalg.inv(positive).T
    moved = rate(logdet, (A,), (DA,))
    yield moved, np.einsum("lk,kl->", inverse, DA), np.trace(inverse @ DA)
    yield calculus.logdet_jvp(positive, DA), np.trace(np.linalg.inv(positive) @ DA)


# Losses

T, DT = RNG.normal(size=(2, 5))
P = T + np.array([-2.8, -0.6, 0.2, 1.2, 2.9])
NONE = {"reduction": "none"}


def check_loss(name, f, slope_p, slope_t, p=P, t=T, **options):
    """Yield the gradients and the tangent of a loss of two arrays."""
    vjp, jvp = (getattr(losses, f"{name}_{form}") for form in ("vjp", "jvp"))
    yield reverse(f, p, t), [U * slope_p, U * slope_t], vjp(U, p, t, **options, **NONE)
    moved, formula = rate(f, (p, t), (DX, DT)), slope_p * DX + slope_t * DT
    yield moved, formula, jvp((p, t), (DX, DT), **options, **NONE)


@definition(r"L = \frac1N \sum_n \abs{p_n - t_n}")
def the_absolute_error():
    yield sum(abs(p - t) for p, t in zip(P, T, strict=True)) / 5, losses.absolute_error(P, T)


@definition(r"\ell = \max(0,\, 1 - t p)")
def the_hinge_loss():
    t = np.sign(T)
    yield np.maximum(0, 1 - t * P), losses.hinge(P, t, **NONE)


@equation(
    r"""\pdv{L}{p} = u \operatorname{sign}(p - t) , \qquad
    \pdv{L}{t} = -u \operatorname{sign}(p - t)""",
    r"\dot\ell = \operatorname{sign}(p - t)\, (\dot p - \dot t)",
)
def products_of_the_absolute_error():
    size = lambda p, t: np.where((p - t).real > 0, p - t, t - p)  # noqa: E731
    yield from check_loss("absolute_error", size, np.sign(P - T), -np.sign(P - T))


@equation(
    r"\pdv{L}{p} = 2 u\, (p - t) , \qquad \pdv{L}{t} = -2 u\, (p - t)",
    r"\dot\ell = 2\, (p - t)\, (\dot p - \dot t)",
)
def products_of_the_squared_error():
    yield from check_loss("squared_error", lambda p, t: (p - t) ** 2, 2 * (P - T), -2 * (P - T))


@equation(
    r"""\pdv{L}{p} = u \min(\max(p - t, -\delta), \delta) , \qquad
    \pdv{L}{t} = -\pdv{L}{p}""",
    r"\dot\ell = \min(\max(p - t, -\delta), \delta)\, (\dot p - \dot t)",
)
def products_of_the_huber_loss():
    delta = 0.9

    def huber(p, t):
        return formulas.losses.huber(p, t, delta=delta, reduction="none")

    clipped = np.minimum(np.maximum(P - T, -delta), delta)
    yield from check_loss("huber", huber, clipped, -clipped, delta=delta)


@equation(
    r"""\pdv{L}{p} = \begin{cases} -u t & t p < 1 \\ 0 & t p \ge 1 , \end{cases} \qquad
    \pdv{L}{t} = \begin{cases} -u p & t p < 1 \\ 0 & t p \ge 1 \end{cases}""",
    r"""\dot\ell = \begin{cases} -(t\, \dot p + p\, \dot t) & t p < 1 \\
    0 & t p \ge 1 \end{cases}""",
)
def products_of_the_hinge_loss():
    hinge = lambda p, t: np.where((t * p).real < 1, 1 - t * p, 0)  # noqa: E731
    t = np.array([-1.0, 1.0, -1.0, 1.0, 1.0])
    inside = P * t < 1
    assert 0 < np.sum(inside) < 5
    yield from check_loss("hinge", hinge, np.where(inside, -t, 0), np.where(inside, -P, 0), t=t)


@equation(
    r"""\pdv{L}{z} = u w \bigl( (1 - t)\, \sigma(z) - \pi\, t\, \sigma(-z) \bigr) , \qquad
    \pdv{L}{t} = u w \bigl( \pi\, s(-z) - s(z) \bigr)
    = u w \bigl( (\pi - 1)\, s(-z) - z \bigr)""",
    r"""\dot\ell = w \bigl( (1 - t)\, \sigma(z) - \pi\, t\, \sigma(-z) \bigr)\, \dot z
    + w \bigl( (\pi - 1)\, s(-z) - z \bigr)\, \dot t""",
)
def products_of_the_binary_cross_entropy():
    w, pi, t, z = 1.3, 0.7, W / 2.5, P
    s, sigma = lambda z: np.log(1 + np.exp(z)), lambda z: 1 / (1 + np.exp(-z))
    by_z = w * ((1 - t) * sigma(z) - pi * t * sigma(-z))
    yield w * (pi * s(-z) - s(z)), w * ((pi - 1) * s(-z) - z)
    yield from check_loss(
        "binary_cross_entropy",
        lambda z, t: w * (pi * t * s(-z) + (1 - t) * s(z)),
        by_z,
        w * ((pi - 1) * s(-z) - z),
        p=z,
        t=t,
        weight=w,
        pos_weight=pi,
    )


@equation(
    r"""\ell = \sum_c q_c (\lambda - z_c) + \zeta \lambda^2 , \qquad
    \pdv{\ell}{z_j} = (Q + 2 \zeta \lambda)\, p_j - q_j""",
    r"""\dot\ell = \sum_j \bigl( (Q + 2 \zeta \lambda)\, p_j - q_j \bigr)\, \dot z_j
    + \sum_c w_c (1 - \epsilon) (\lambda - z_c)\, \dot t_c""",
)
def products_of_the_cross_entropy():
    zeta, epsilon, w, t, z = 0.1, 0.2, W, np.abs(T) / np.abs(T).sum(), P

    def loss(z, t):
        q = w * ((1 - epsilon) * t + epsilon / 5)
        p = np.exp(z) / np.exp(z).sum()
        return -np.sum(q * np.log(p)) + zeta * np.log(np.exp(z).sum()) ** 2

    q, lam = w * ((1 - epsilon) * t + epsilon / 5), np.log(np.exp(z).sum())
    p = np.exp(z - lam)
    slope = (q.sum() + 2 * zeta * lam) * p - q
    options = {"weight": w, "label_smoothing": epsilon, "z_loss": zeta}
    value, grad = losses.cross_entropy_value_and_grad(z, t, **options)
    yield loss(z, t), np.sum(q * (lam - z)) + zeta * lam**2, value
    yield gradients(lambda z: loss(z, t), z)[0], slope, grad
    formula = np.sum(slope * DX) + np.sum(w * (1 - epsilon) * (lam - z) * DT)
    found = losses.cross_entropy_jvp((z, t), (DX, DT), **options)
    yield rate(loss, (z, t), (DX, DT)), formula, found


@equation(
    r"""\pdv{\ell}{\log p_c} = -q_c , \qquad
    \pdv{\ell}{z_j} = -\sum_c q_c\, (\delta_{cj} - p_j) = p_j - q_j""",
    r"""\dot\ell = \sum_c \bigl( (\log q_c + 1 - \log p_c)\, \dot q_c - q_c\, v_c \bigr)""",
)
def products_of_the_divergence():
    q = W / W.sum()
    log_softmax = lambda z: z - np.log(np.exp(z).sum())  # noqa: E731
    divergence = lambda log_p, q: np.sum(q * (np.log(q) - log_p))  # noqa: E731
    log_p = log_softmax(P)
    p = np.exp(log_p)
    yield gradients(lambda a: divergence(a, q), log_p)[0], -q, losses.kl_divergence_grad(log_p, q)
    through = gradients(lambda z: divergence(log_softmax(z), q), P)[0]
    yield through, [-np.sum(q * (np.eye(5)[:, j] - p[j])) for j in range(5)], p - q
    formula = np.sum((np.log(q) + 1 - log_p) * DT - q * DX)
    found = losses.kl_divergence_jvp((log_p, q), (DX, DT))
    yield rate(divergence, (log_p, q), (DX, DT)), formula, found


@definition(
    r"""\ell_r = -w_{y_r} \log p_{r, y_r} , \qquad
    L = \frac{\sum_r \ell_r}{\sum_r w_{y_r}}""",
    r"\pdv{L}{\log p_c} = -u\, w_y\, \delta_{cy}",
    r"\dot\ell = -w_y\, v_y",
)
def the_negative_log_likelihood():
    y, w = [2, 0, 3], np.array([0.5, 1.0, 2.0, 3.0])
    terms = [-w[y[r]] * ROWS[r, y[r]] for r in range(3)]
    yield terms, losses.nll(ROWS, y, weight=w, **NONE)
    yield sum(terms) / sum(w[y[r]] for r in range(3)), losses.nll(ROWS, y, weight=w)
    loss = lambda a: -w[y] * a[range(3), y]  # noqa: E731
    (found,) = reverse(loss, ROWS, u=SEED)
    formula = -(SEED * w[y])[:, None] * np.eye(4)[y]
    yield found, formula, losses.nll_vjp(SEED, ROWS, y, weight=w, **NONE)
    moved = forward(loss, DROWS, primals=(ROWS,))
    formula = [-w[y[r]] * DROWS[r, y[r]] for r in range(3)]
    yield moved, formula, losses.nll_jvp((ROWS, y), (DROWS, None), weight=w, **NONE)


@equation(
    r"""\hat\theta = \arg\max_\theta \prod_{r=1}^{N} p_{r, y_r}(\theta)
    = \arg\min_\theta \frac1N \sum_{r=1}^{N} -\log p_{r, y_r}(\theta) ."""
)
def maximum_likelihood():
    y, theta = [0, 1, 1, 1, 0], np.linspace(0.005, 0.995, 199)  # a coin
    p = np.stack([1 - theta, theta])
    likelihood = np.prod([p[c] for c in y], axis=0)
    mean = sum(-np.log(p[c]) for c in y) / 5
    yield np.argmax(likelihood), np.argmin(mean)
    yield theta[np.argmin(mean)], 3 / 5
    rows = np.log(p).T
    yield mean, [losses.nll(np.tile(row, (5, 1)), y) for row in rows]


@equation(
    r"""-\log \prod_{n=1}^{N} \frac{1}{\sqrt{2 \pi}\, \sigma}\, e^{-(t_n - p_n)^2 / (2 \sigma^2)}
    = \frac{1}{2 \sigma^2} \sum_{n=1}^{N} (p_n - t_n)^2 + N \log (\sqrt{2 \pi}\, \sigma) ."""
)
def likelihood_of_normal_errors():
    sigma, N = 0.7, 5
    density = np.exp(-((T - P) ** 2) / (2 * sigma**2)) / (np.sqrt(2 * np.pi) * sigma)
    constant = N * np.log(np.sqrt(2 * np.pi) * sigma)
    yield -np.log(np.prod(density)), 1 / (2 * sigma**2) * np.sum((P - T) ** 2) + constant
    yield -scipy.stats.norm.logpdf(T, P, sigma).sum(), -np.log(np.prod(density))


# Neurons

INPUTS, DINPUTS = RNG.normal(size=(2, 6, 3))
TARGETS, DTARGETS = RNG.normal(size=(2, 6))
WEIGHTS, DWEIGHTS = RNG.normal(size=(2, 3))
BIAS, DBIAS = 0.3, -0.7


@equation(
    r"""\pdv{L}{\vec x_n} = \delta_n \vec w , \quad
    \pdv{L}{y_n} = -\frac{2u}{N}\, e_n , \quad
    \pdv{L}{\vec w} = \sum_n \delta_n \vec x_n , \quad \pdv{L}{b} = \sum_n \delta_n , \qquad
    \delta_n = \frac{2u}{N} \begin{cases} e_n & z_n > 0 \\ 0 & z_n \le 0 \end{cases}""",
    r"""\dot C = \frac2N \sum_n e_n\, (\dot a_n - \dot y_n) , \qquad
    \dot a_n = \begin{cases} \dot{\vec x}_n \cdot \vec w + \vec x_n \cdot \dot{\vec w} + \dot b
    & z_n > 0 \\ 0 & z_n \le 0 \end{cases}""",
)
def products_of_the_loss_of_a_neuron():
    u, N = 1.7, 6

    def loss(x, y, w, b):
        z = x @ w + b
        return np.mean((np.where(z.real > 0, z, 0) - y) ** 2)

    primals = INPUTS, TARGETS, WEIGHTS, np.array(BIAS)
    z = INPUTS @ WEIGHTS + BIAS
    assert 0 < np.sum(z > 0) < N
    e = np.maximum(z, 0) - TARGETS
    delta = 2 * u / N * np.where(z > 0, e, 0)
    formula = np.outer(delta, WEIGHTS), -2 * u / N * e, delta @ INPUTS, delta.sum()
    found = losses.neuron_squared_error_vjp(u, *primals)
    yield from zip(gradients(lambda *p: u * loss(*p), *primals), formula, found, strict=True)
    tangents = DINPUTS, DTARGETS, DWEIGHTS, DBIAS
    da = np.where(z > 0, DINPUTS @ WEIGHTS + INPUTS @ DWEIGHTS + DBIAS, 0)
    moved = losses.neuron_squared_error_jvp(primals, tangents)
    yield rate(loss, primals, tangents), 2 / N * np.sum(e * (da - DTARGETS)), moved


@equation(
    r"""\pdv{L}{\vec x_n} = \delta_n \vec w , \quad
    \pdv{L}{\vec w} = \sum_n \delta_n \vec x_n , \quad \pdv{L}{b} = \sum_n \delta_n , \qquad
    \delta_n = u_n f'(z_n)""",
    r"""\dot a = f'(z)\,
    (\dot{\vec w} \cdot \vec x + \vec w \cdot \dot{\vec x} + \dot b)""",
    r"""\dot{\mat Y} = \dot{\mat X} \mat W^\top + \mat X \dot{\mat W}^\top
    + \vec 1 \dot{\vec b}^\top""",
)
def products_of_neurons():
    primals, tangents = (INPUTS, WEIGHTS, np.array(BIAS)), (DINPUTS, DWEIGHTS, DBIAS)
    slope = 1 - np.tanh(INPUTS @ WEIGHTS + BIAS) ** 2
    delta, unit = TARGETS * slope, lambda x, w, b: np.tanh(x @ w + b)
    formula = np.outer(delta, WEIGHTS), delta @ INPUTS, delta.sum()
    found = neurons.neuron_vjp(TARGETS, *primals, activation="tanh")
    yield from zip(reverse(unit, *primals, u=TARGETS), formula, found, strict=True)
    moved = neurons.neuron_jvp(primals, tangents, activation="tanh")
    formula = slope * (INPUTS @ DWEIGHTS + DINPUTS @ WEIGHTS + DBIAS)
    yield rate(unit, primals, tangents), formula, moved
    primals, tangents = (INPUTS, A[:2, :3], A[2, :2]), (DINPUTS, DA[:2, :3], DA[2, :2])
    layer = lambda x, w, b: x @ w.T + b  # noqa: E731
    (x, w, _), (dx, dw, db) = primals, tangents
    formula = dx @ w.T + x @ dw.T + np.outer(np.ones(6), db)
    yield rate(layer, primals, tangents), formula, neurons.linear_jvp(primals, tangents)


# Initialization and training


@definition(
    r"""\mat A = \mat Q \mat R , \qquad
    \mat W = g\, \mat Q
    \operatorname{diag}(\operatorname{sign} R_{11}, \dots, \operatorname{sign} R_{nn})"""
)
def the_orthogonal_weights():
    q, r = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 3)))
    found = propagation.orthogonal(np.random.default_rng(0), (5, 3), gain=1.5)
    yield 1.5 * q @ np.diag(np.sign(np.diag(r))), found
    yield found.T @ found, 1.5**2 * np.eye(3)


@definition(r"\hat g_i = \min(\max(g_i, -c), c)")
def the_clipped_gradient():
    yield [min(max(g, -0.4), 0.4) for g in U], training.clip_by_value(U, 0.4)


@definition(
    r"""\vec w \leftarrow \vec w - \frac{2 \eta}{N} \sum_{z_n > 0} e_n\, \vec x_n , \qquad
    b \leftarrow b - \frac{2 \eta}{N} \sum_{z_n > 0} e_n"""
)
def the_epochs_of_a_neuron():
    w, b, eta, N = WEIGHTS, BIAS, 0.05, 6
    for _ in range(3):
        z = INPUTS @ w + b
        e = np.where(z > 0, np.maximum(z, 0) - TARGETS, 0)
        w, b = w - 2 * eta / N * e @ INPUTS, b - 2 * eta / N * e.sum()
    found = training.fit_neuron(INPUTS, TARGETS, WEIGHTS, BIAS, epochs=3, learning_rate=eta)
    yield w, found[0]
    yield b, found[1]


@definition(
    r"""\theta \leftarrow \operatorname{step} \Bigl( \theta,\;
    \nabla \frac{1}{\abs{B}} \sum_{n \in B} \ell_n(\theta) \Bigr)"""
)
def the_steps_of_minibatches():
    batches = []

    def value_and_grad(w, x, y):
        batches.append((x, y))
        e = x @ w - y
        return np.mean(e**2), 2 / len(y) * e @ x

    found = training.minibatch_descent(
        value_and_grad,
        WEIGHTS,
        INPUTS,
        TARGETS,
        step=lambda w, g, state: (w - 0.1 * g, state),
        batch_size=2,
        epochs=1,
        rng=np.random.default_rng(0),
    )
    w = WEIGHTS
    for x, y in batches:
        mean = lambda w, x=x, y=y: sum((x[n] @ w - y[n]) ** 2 for n in range(2)) / 2  # noqa: E731
        w = w - 0.1 * gradients(mean, w)[0]
    yield w, found.params
    yield len(batches), 3


@equation(
    r"""\pdv{L}{\mat W_l} = \sum_n \vec \delta_l^{(n)}
    \bigl( \vec h_{l-1}^{(n)} \bigr)^\top , \qquad
    \pdv{L}{\vec b_l} = \sum_n \vec \delta_l^{(n)} ,"""
)
def gradient_of_the_loss_of_a_perceptron():
    shapes = [(4, 3), (2, 4)]
    weights = [A[:n, :m] for n, m in shapes]
    biases = [DA[k, :n] for k, (n, _) in enumerate(shapes)]
    y = DTARGETS.reshape(3, 2)
    x = INPUTS[:3]

    def loss(*parameters):
        (w1, b1), (w2, b2) = parameters[:2], parameters[2:]
        return np.mean((np.tanh(x @ w1.T + b1) @ w2.T + b2 - y) ** 2)

    h = np.tanh(x @ weights[0].T + biases[0])
    delta2 = 2 / 6 * (h @ weights[1].T + biases[1] - y)
    delta1 = delta2 @ weights[1] * (1 - h**2)
    params = tuple(neurons.LinearParams(w, b) for w, b in zip(weights, biases, strict=True))
    grads = training.mlp_loss_grad(x, y, params, loss="squared_error", activation="tanh")
    found = [part for layer in grads for part in layer]
    formula = []
    for delta, inputs in ((delta1, x), (delta2, h)):
        formula += [sum(np.outer(delta[n], inputs[n]) for n in range(3)), delta.sum(0)]
    flat = [part for pair in zip(weights, biases, strict=True) for part in pair]
    yield from zip(gradients(loss, *flat), formula, found, strict=True)
