"""The displayed products with vectors of calculus, losses, neurons and training.

Each map is written once, `reverse` and `forward` differentiate it with a complex step, and the
formula of the text stands beside the value of dlref.
"""

import functools

import numpy as np
from equations.evaluate import From, Of, Shifted, mapped
from equations.ledger import equation, reads
from equations.losses import LOG_SUM, SMOOTHED, Q, of_error, of_logits
from equations.numeric import gradients

from dlref import calculus, formulas, losses, neurons, propagation, training
from dlref.formulas import calculus as of_calculus

RNG = np.random.default_rng(3)
W, X = RNG.uniform(0.5, 2, size=(2, 5))
U, DW, DX = RNG.normal(size=(3, 5))
ROWS, DROWS = RNG.normal(size=(2, 3, 4))
A, DA = RNG.normal(size=(2, 5, 5))
H = lambda z: np.heaviside(z, 0.5)  # noqa: E731


PAIR = {"w": W, "x": X}


def larger(f, vjp):
    """Return the environments of a map that takes one of two numbers, with ties."""
    tied = np.append(W[:-1], X[-1])
    slopes = dict(zip((r"\pdv{L}{w}", r"\pdv{L}{x}"), vjp(U, tied, X), strict=True))
    moved = {r"\dot w": DW, r"\dot x": DX}
    ones = vjp(np.ones(5), tied, X)
    moved[r"\dot y"] = ones[0] * DW + ones[1] * DX  # by the convention at a tie
    tied = {"w": tied, "x": X, "u": U, "H": H, **slopes, **moved}
    return [mapped(f, PAIR, H=H), tied]


def of_rows(name, **more):
    """Return the environment of a reduction of rows."""
    return mapped(functools.partial(getattr(of_calculus, name), axis=1), {"x": ROWS}, **more)


def tanh_unit(x, w, b):
    return formulas.neurons.neuron(x, w, b, activation="tanh")


# Two operands, element by element


@reads(
    r"\pdv{L}{w_j} = \sum_i u_i\, \delta_{ij} = u_j , \qquad \pdv{L}{x_j} = u_j",
    r"\dot y = \dot w + \dot x",
)
def products_of_add():
    return mapped(of_calculus.add, PAIR)


@reads(r"\pdv{L}{w_j} = u_j , \qquad \pdv{L}{x_j} = -u_j", r"\dot y = \dot w - \dot x")
def products_of_subtract():
    return mapped(of_calculus.subtract, PAIR)


@reads(r"\dot y = x \odot \dot w + w \odot \dot x")
def tangent_of_multiply():
    return mapped(of_calculus.multiply, PAIR)


@reads(r"\pdv{L}{w_j} = \frac{u_j}{x_j} , \qquad \pdv{L}{x_j} = -\frac{u_j\, w_j}{x_j^2}")
def gradients_of_divide():
    return mapped(of_calculus.divide, PAIR)


@reads(
    r"\pdv{L}{w_j} = u_j\, x_j\, w_j^{x_j - 1} , \qquad \pdv{L}{x_j} = u_j\, w_j^{x_j} \log w_j",
    r"\dot y_j = x_j\, w_j^{x_j - 1}\, \dot w_j + w_j^{x_j} \log w_j\; \dot x_j",
)
def products_of_power():
    return mapped(of_calculus.power, PAIR)


@reads(
    r"\pdv{L}{w_j} = u_j\, H(w_j - x_j) , \qquad \pdv{L}{x_j} = u_j\, H(x_j - w_j)",
    r"\dot y_j = H(w_j - x_j)\, \dot w_j + H(x_j - w_j)\, \dot x_j",
)
def products_of_maximum():
    return larger(of_calculus.maximum, of_calculus.maximum_vjp)


@reads(
    r"\pdv{L}{w_j} = u_j\, H(x_j - w_j) , \qquad \pdv{L}{x_j} = u_j\, H(w_j - x_j)",
    r"\dot y_j = H(x_j - w_j)\, \dot w_j + H(w_j - x_j)\, \dot x_j",
)
def products_of_minimum():
    return larger(of_calculus.minimum, of_calculus.minimum_vjp)


# Reductions of rows


@reads(r"\pdv{L}{x_{kj}} = \sum_l u_l \pdv{y_l}{x_{kj}} = u_k", r"\dot y_k = \sum_i \dot x_{ki}")
def products_of_sum():
    return of_rows("sum")


@reads(r"\pdv{L}{x_{kj}} = \frac{u_k}{n}", r"\dot y_k = \frac1n \sum_i \dot x_{ki}")
def products_of_mean():
    return of_rows("mean", n=4)


@reads(
    r"\pdv{L}{x_{kj}} = u_k \prod_{i \ne j} x_{ki}",
    r"\dot y_k = \sum_j \dot x_{kj} \prod_{i \ne j} x_{ki}",
)
def products_of_prod():
    return of_rows("prod")


@reads(
    r"\pdv{L}{x_{kj}} = \frac{u_k}{m_k} \begin{cases} 1 & x_{kj} = y_k \\ 0 & x_{kj} < y_k…",
    r"\dot y_k = \frac{1}{m_k} \sum_{j :\, x_{kj} = y_k} \dot x_{kj}",
)
def products_of_max():
    ties = np.round(ROWS)
    seed = np.array([0.3, -1.1, 0.7])
    found = of_calculus.max_vjp(seed, ties, axis=1)
    tied = {"x": ties, "y": ties.max(1), "u": seed, r"\dot x": DROWS, r"\pdv{L}{x}": found}
    tied |= {"m": [2, 1, 1], r"\dot y": calculus.max_jvp(ties, DROWS, axis=1)}
    tied["m"] = np.sum(ties == ties.max(1, keepdims=True), axis=1)
    return [of_rows("max", m=np.ones(3)), tied]


@reads(
    r"\pdv{L}{x_{kj}} = \frac{u_k}{m_k} \begin{cases} 1 & x_{kj} = y_k \\ 0 & x_{kj} > y_k…",
    r"\dot y_k = \frac{1}{m_k} \sum_{j :\, y_k = x_{kj}} \dot x_{kj}",
)
def products_of_min():
    ties = np.round(ROWS)
    seed = np.array([0.3, -1.1, 0.7])
    found = calculus.min_vjp(seed, ties, axis=1)
    m = np.sum(ties == ties.min(1, keepdims=True), axis=1)
    tied = {"x": ties, "y": ties.min(1), "u": seed, "m": m, r"\pdv{L}{x}": found}
    tied |= {r"\dot x": DROWS, r"\dot y": calculus.min_jvp(ties, DROWS, axis=1)}
    return [of_rows("min", m=np.ones(3)), tied]


@reads(
    r"\pdv{L}{x_{kj}} = u_k\, \frac{x_{kj}}{\norm{x_k}}",
    r"\dot y_k = \frac{1}{\norm{x_k}} \sum_j x_{kj}\, \dot x_{kj}",
)
def products_of_norm():
    return of_rows("norm")


# Scans


@reads(
    r"y_i = \sum_{j \le i} x_j",
    r"\pdv{L}{x_j} = \sum_{i \ge j} u_i",
    r"\dot y_i = \sum_{j \le i} \dot x_j",
)
def products_of_cumsum():
    return mapped(of_calculus.cumsum, {"x": X})


@reads(
    r"y_i = \prod_{j \le i} x_j",
    r"\pdv{L}{x_j} = \sum_{i \ge j} u_i \prod_{j \ne k \le i} x_k",
)
def products_of_cumprod():
    return mapped(of_calculus.cumprod, {"x": X})


@reads(
    r"y_i = \log \sum_{j \le i} e^{x_j}",
    r"\pdv{L}{x_j} = \sum_{i \ge j} u_i\, e^{x_j - y_i}",
    r"\dot y_i = \sum_{j \le i} e^{x_j - y_i}\, \dot x_j",
)
def products_of_cumlogsumexp():
    return mapped(of_calculus.cumlogsumexp, {"x": X})


@reads(
    r"\pdv{L}{x_j} = p_j\, s_j , \qquad p_j = \prod_{k < j} x_k , \qquad s_j = u_j…",
    r"\dot y_i = x_i\, \dot y_{i-1} + y_{i-1}\, \dot x_i",
)
def recurrences_of_cumprod():
    sums = [sum(U[i] * np.prod(X[j + 1 : i + 1]) for i in range(j, 5)) for j in range(5)]
    given = {"x": From(1, X, 0.0), "u": From(1, U), "s": From(1, sums, 0.0)}
    given |= {"i": range(1, 6), "j": range(1, 6), "k": range(1, 6)}
    products = Of(lambda x: From(0, np.r_[1.0, of_calculus.cumprod(x)]), "x")
    loss = Of(lambda x: np.sum(U * of_calculus.cumprod(x)), "x")
    return {**given, "y": products, "L": loss}


@reads(
    r"m_i = \max(m_{i-1}, x_i) , \qquad z_i = z_{i-1}\, e^{m_{i-1} - m_i} + e^{x_i - m_i}…",
    r"\pdv{L}{x_j} = e^{x_j - m_j}\, s_j , \qquad s_j = \frac{u_j}{z_j}…",
)
def recurrences_of_cumlogsumexp():
    y, m = of_calculus.cumlogsumexp(X), np.maximum.accumulate(X)
    z = np.exp(y - m)
    sums = [sum(U[i] / z[i] * np.exp(m[j] - m[i]) for i in range(j, 5)) for j in range(5)]
    given = {"x": From(1, X), "u": From(1, U), "y": From(1, y), "s": From(1, sums, 0.0)}
    given |= {"m": From(0, [-np.inf, *m], 0.0), "z": From(0, [0.0, *z])}
    loss = Of(lambda x: np.sum(U * of_calculus.cumlogsumexp(x)), "x")
    return {**given, "L": loss, "i": range(1, 6), "j": range(1, 6)}


# Structure

PLACES = np.array([3, 0, 3, 4])


def scattered(x, w):
    return of_calculus.scatter_add(x, PLACES, w)


@reads(
    r"y_i = x_i + \sum_{n :\, t_n = i} w_n",
    r"\pdv{L}{x_i} = u_i , \qquad \pdv{L}{w_n} = u_{t_n}",
    r"\dot y_i = \dot x_i + \sum_{n :\, t_n = i} \dot w_n",
)
def products_of_scatter_add():
    return mapped(scattered, {"x": X, "w": W[:4]}, t=PLACES)


@reads(r"\pdv{L}{x_i} = \sum_{n :\, t_n = i} u_n", r"\dot y_n = \dot x_{t_n}")
def products_of_take():
    return mapped(lambda x: of_calculus.take(x, PLACES), {"x": X}, t=PLACES)


@reads(
    r"y_i = \begin{cases} w_i & c_i = 1 \\ x_i & c_i = 0 \end{cases}",
    r"\pdv{L}{w_i} = \begin{cases} u_i & c_i = 1 \\ 0 & c_i = 0 \end{cases} , \qquad \pdv{L}{x_i}…",
    r"\dot y_i = \begin{cases} \dot w_i & c_i = 1 \\ \dot x_i & c_i = 0 \end{cases}",
)
def products_of_where():
    c = np.array([1, 0, 0, 1, 1])
    return mapped(lambda w, x: of_calculus.where(c == 1, w, x), PAIR, c=c)


@reads(
    r"\pdv{L}{w_i} = u_i , \qquad \pdv{L}{x_i} = u_{n+i}",
    r"\dot y_i = \dot w_i , \qquad \dot y_{n+i} = \dot x_i",
)
def products_of_concatenate():
    return mapped(of_calculus.concatenate, {"w": W, "x": X}, n=5, i=range(5))


@reads(r"\pdv{L}{x_j} = \sum_{i :\, s_i = j} u_i", r"\dot y_i = \dot x_{s_i}")
def products_of_pad():
    def padded(x, mode):
        return of_calculus.pad(x, pad_width=(3, 2), mode=mode)

    return [
        mapped(functools.partial(padded, mode=mode), {"x": X}, s=s)
        for mode, s in {
            "edge": [0, 0, 0, 0, 1, 2, 3, 4, 4, 4],
            "wrap": [2, 3, 4, 0, 1, 2, 3, 4, 0, 1],
            "reflect": [3, 2, 1, 0, 1, 2, 3, 4, 3, 2],
            "symmetric": [2, 1, 0, 0, 1, 2, 3, 4, 4, 3],
        }.items()
    ]


@reads(
    r"Y_{ik} = \sum_j A_{ij} B_{jk} , \qquad \pdv{L}{A_{ij}} = \sum_k U_{ik} B_{jk} …",
    r"\dot Y_{ik} = \sum_j \dot A_{ij} B_{jk} + \sum_j A_{ij} \dot B_{jk}",
)
def products_of_einsum():
    def product(a, b):
        return of_calculus.einsum(a, b, subscripts="ij,jk->ik")

    found = mapped(product, {"A": ROWS, "B": DROWS.T}, "Y")
    return {**found, "U": found["u"]}


@reads(r"y_i = A_{ii} , \qquad \pdv{L}{A_{ij}} = \delta_{ij}\, u_i")
def products_of_the_diagonal():
    return mapped(lambda a: of_calculus.einsum(a, subscripts="ii->i"), {"A": A})


@reads(
    r"\pdv{L}{w_j} = u\, x_j , \qquad \pdv{L}{x_j} = u\, w_j",
    r"\dot y = \dot w^\top x + w^\top \dot x",
)
def products_of_dot():
    return mapped(of_calculus.dot, PAIR)


@reads(
    r"\pdv{L}{x_j} = u\, z , \qquad \pdv{L}{z} = u \sum_i x_i",
    r"\dot y = z \sum_i \dot x_i + \dot z \sum_i x_i",
)
def products_of_scaled_sum():
    return mapped(of_calculus.scaled_sum, {"x": X, "z": 0.8})


# Matrices


@reads(r"\dot{\mat Y} = \dot{\mat A} \mat B + \mat A \dot{\mat B}")
def products_of_matmul():
    return mapped(of_calculus.matmul, {"A": A[:2, :4], "B": ROWS.T}, "Y")


@reads(
    r"\pdv{L}{\vec x} = u\, (\mat A + \mat A^\top)\, \vec x , \qquad \pdv{L}{\mat A}…",
    r"\dot y = \dot{\vec x}^\top (\mat A + \mat A^\top)\, \vec x + \vec x^\top \dot{\mat A}\,…",
)
def products_of_quadratic_form():
    return mapped(of_calculus.quadratic_form, {"x": X, "A": A})


@reads(
    r"\pdv{L}{A_{kl}} = u\, \delta_{kl}",
    r"\dot y = \sum_k \dot A_{kk} = \operatorname{tr} \dot{\mat A}",
)
def products_of_trace():
    return mapped(of_calculus.trace, {"A": A})


@reads(
    r"\pdv{L}{A_{kl}} = u\, (\mat A^{-1})_{lk}",
    r"\dot y = \sum_{kl} (\mat A^{-1})_{lk}\, \dot A_{kl}…",
)
def products_of_logdet():
    return mapped(of_calculus.logdet, {"A": A if np.linalg.det(A) > 0 else A[::-1]})


# Losses

T, DT = RNG.normal(size=(2, 5))
P = T + np.array([-2.8, -0.6, 0.2, 1.2, 2.9])
NONE = {"reduction": "none"}


@reads(r"L = \frac1N \sum_n \abs{p_n - t_n}")
def the_absolute_error():
    return {"p": P, "t": T, "N": 5, "L": losses.absolute_error(P, T)}


@reads(r"\ell = \max(0,\, 1 - t p)")
def the_hinge_loss():
    return of_error("hinge", P, np.sign(T))


@reads(
    r"\pdv{L}{p} = u \operatorname{sign}(p - t) , \qquad \pdv{L}{t}…",
    r"\dot\ell = \operatorname{sign}(p - t)\, (\dot p - \dot t)",
)
def products_of_the_absolute_error():
    targets = -np.sign(P) * T, 3 * P  # p - t and p + t have signs of their own
    return [row for t in targets for row in of_error("absolute_error", P, t)]


@reads(
    r"\pdv{L}{p} = 2 u\, (p - t) , \qquad \pdv{L}{t} = -2 u\, (p - t)",
    r"\dot\ell = 2\, (p - t)\, (\dot p - \dot t)",
)
def products_of_the_squared_error():
    return of_error("squared_error", P, T)


@reads(
    r"\pdv{L}{p} = u \min(\max(p - t, -\delta), \delta) , \qquad \pdv{L}{t} = -\pdv{L}{p}",
    r"\dot\ell = \min(\max(p - t, -\delta), \delta)\, (\dot p - \dot t)",
)
def products_of_the_huber_loss():
    return of_error("huber", P, T, delta=0.9)


@reads(
    r"\pdv{L}{p} = \begin{cases} -u t & t p < 1 \\ 0 & t p \ge 1 , \end{cases} \qquad \pdv{L}{t}…",
    r"\dot\ell = \begin{cases} -(t\, \dot p + p\, \dot t) & t p < 1 \\ 0 & t p \ge 1 \end{cases}",
)
def products_of_the_hinge_loss():
    t = np.array([-1.0, 1.0, -1.0, 1.0, 1.0])
    assert 0 < np.sum(P * t < 1) < 5
    return of_error("hinge", P, t)


@reads(
    r"\pdv{L}{z} = u w \bigl( (1 - t)\, \sigma(z) - \pi\, t\, \sigma(-z) \bigr) …",
    r"\dot\ell = w \bigl( (1 - t)\, \sigma(z) - \pi\, t\, \sigma(-z) \bigr)\, \dot z + w \bigl(…",
)
def products_of_the_binary_cross_entropy():
    return of_logits(1.3, 0.7)


@reads(
    r"\ell = \sum_c q_c (\lambda - z_c) + \zeta \lambda^2 , \qquad \pdv{\ell}{z_j}…",
    r"\dot\ell = \sum_j \bigl( (Q + 2 \zeta \lambda)\, p_j - q_j \bigr)\, \dot z_j + \sum_c w_c…",
)
def products_of_the_cross_entropy():
    more = {"q": Q, "Q": np.sum(Q), r"\lambda": LOG_SUM}
    return {**SMOOTHED, **more}


@reads(r"\pdv{\ell}{\log p_c} = -q_c , \qquad \pdv{\ell}{z_j} = -\sum_c q_c\, (\delta_{cj} - p_j)…")
def slopes_of_the_divergence():
    more = {"z": P, r"\log p": Of(formulas.activations.log_softmax, "z"), "q": W / W.sum()}
    loss = Of(formulas.losses.kl_divergence, r"\log p", "q", reduction="sum")
    return {**more, "p": formulas.activations.softmax(P), r"\ell": loss}


@reads(r"""\dot\ell = \sum_c \bigl( (\log q_c + 1 - \log p_c)\, \dot q_c - q_c\, v_c \bigr)""")
def tangent_of_the_divergence():
    moved = {r"\dot q": DT, r"\dot{\log p}": DX, "v": DX}
    log_p = formulas.activations.log_softmax(P)
    loss = Of(formulas.losses.kl_divergence, r"\log p", "q", reduction="sum")
    return {r"\log p": log_p, "q": W / W.sum(), r"\ell": loss, **moved}


@reads(r"\ell_r = -w_{y_r} \log p_{r, y_r} , \qquad L = \frac{\sum_r \ell_r}{\sum_r w_{y_r}}")
def the_negative_log_likelihood():
    y, w = np.array([2, 0, 3]), np.array([0.5, 1.0, 2.0, 3.0])
    return {
        r"\log p": ROWS,
        "y": y,
        "w": w,
        "L": losses.nll(ROWS, y, weight=w),
        r"\ell": losses.nll(ROWS, y, weight=w, **NONE),
    }


@reads(r"\pdv{L}{\log p_c} = -u\, w_y\, \delta_{cy}", r"\dot\ell = -w_y\, v_y")
def products_of_the_negative_log_likelihood():
    f = functools.partial(formulas.losses.nll, target=np.array(2), weight=W, reduction="sum")
    env = mapped(f, {r"\log p": T}, r"\ell", w=W, y=2, v=DT)
    return {**env, r"\dot{\log p}": DT}


@reads(r"\hat\theta = \arg\max_\theta \prod_{r=1}^{N} p_{r, y_r}(\theta) = \arg\min_\theta…")
def maximum_likelihood():
    y, theta = [0, 1, 1, 1, 0], np.linspace(0.005, 0.995, 199)  # a coin
    of_coin = lambda _, c: lambda t: t if c else 1 - t  # noqa: E731
    mean = [losses.nll(np.tile(np.log([1 - t, t]), (5, 1)), y) for t in theta]
    best = {r"\hat\theta": theta[np.argmin(mean)], r"\theta": list(theta)}
    return {**best, "y": From(1, y), "N": 5, "p": of_coin}


@reads(r"-\log \prod_{n=1}^{N} \frac{1}{\sqrt{2 \pi}\, \sigma}\,…")
def likelihood_of_normal_errors():
    return {"t": From(1, T), "p": From(1, P), "N": 5, r"\sigma": 0.7}


# Neurons

INPUTS, DINPUTS = RNG.normal(size=(2, 6, 3))
TARGETS, DTARGETS = RNG.normal(size=(2, 6))
WEIGHTS, DWEIGHTS = RNG.normal(size=(2, 3))
BIAS, DBIAS = 0.3, -0.7


@reads(
    r"\pdv{L}{\vec x_n} = \delta_n \vec w , \quad \pdv{L}{y_n} = -\frac{2u}{N}\, e_n …",
    r"\dot C = \frac2N \sum_n e_n\, (\dot a_n - \dot y_n) , \qquad \dot a_n…",
)
def products_of_the_loss_of_a_neuron():
    inputs = {"x": INPUTS, "y": TARGETS, "w": WEIGHTS, "b": np.array(BIAS)}
    z = Of(lambda x, w, b: x @ w + b, "x", "w", "b")
    a, e = Of(formulas.activations.relu, "z"), Of(np.subtract, "a", "y")
    return mapped(formulas.losses.neuron_squared_error, inputs, "C", z=z, a=a, e=e, N=6)


@reads(r"\pdv{L}{\vec x_n} = \delta_n \vec w , \quad \pdv{L}{\vec w} = \sum_n \delta_n \vec x_n …")
def products_of_a_neuron():
    inputs = {"x": INPUTS, "w": WEIGHTS, "b": np.array(BIAS)}
    z = Of(lambda x, w, b: x @ w + b, "x", "w", "b")
    return mapped(tanh_unit, inputs, "a", z=z, f=np.tanh)


@reads(r"\dot a = f'(z)\, (\dot{\vec w} \cdot \vec x + \vec w \cdot \dot{\vec x} + \dot b)")
def tangent_of_a_neuron():
    inputs = {"x": INPUTS[0], "w": WEIGHTS, "b": np.array(BIAS)}
    return mapped(tanh_unit, inputs, "a", z=INPUTS[0] @ WEIGHTS + BIAS, f=np.tanh)


@reads(r"\dot{\mat Y} = \dot{\mat X} \mat W^\top + \mat X \dot{\mat W}^\top + \vec 1…")
def tangent_of_a_layer():
    inputs = {"X": INPUTS, "W": A[:2, :3], "b": A[2, :2]}
    return mapped(formulas.neurons.linear, inputs, "Y", **{r"\vec 1": np.ones(6)})


# Initialization and training


@equation(
    r"""\mat A = \mat Q \mat R , \qquad
    \mat W = g\, \mat Q
    \operatorname{diag}(\operatorname{sign} R_{11}, \dots, \operatorname{sign} R_{nn})"""
)
def the_orthogonal_weights():
    q, r = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 3)))
    found = propagation.orthogonal(np.random.default_rng(0), (5, 3), gain=1.5)
    yield 1.5 * q @ np.diag(np.sign(np.diag(r))), found
    yield found.T @ found, 1.5**2 * np.eye(3)


@reads(r"\hat g_i = \min(\max(g_i, -c), c)")
def the_clipped_gradient():
    return {"g": U, "c": 0.4, r"\hat g": training.clip_by_value(U, 0.4)}


@reads(r"\vec w \leftarrow \vec w - \frac{2 \eta}{N} \sum_{z_n > 0} e_n\, \vec x_n , \qquad b…")
def the_epochs_of_a_neuron():
    inputs = {"x": INPUTS, "w": WEIGHTS, "b": BIAS, r"\eta": 0.05, "N": 6}
    z = INPUTS @ WEIGHTS + BIAS
    new = training.fit_neuron(INPUTS, TARGETS, WEIGHTS, BIAS, epochs=1, learning_rate=0.05)
    return {**inputs, "z": z, "e": np.maximum(z, 0) - TARGETS, "w'": new[0], "b'": new[1]}


@equation(
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


@reads(r"\pdv{L}{\mat W_l} = \sum_n \vec \delta_l^{(n)} \bigl( \vec h_{l-1}^{(n)} \bigr)^\top…")
def gradient_of_the_loss_of_a_perceptron():
    weights, biases = (A[:3, :3], DA[:3, :3]), (A[3, :3], A[4, :3])
    x, y = INPUTS[:3], DINPUTS[:3]
    params = tuple(neurons.LinearParams(w, b) for w, b in zip(weights, biases, strict=True))
    grads = training.mlp_loss_grad(x, y, params, loss="squared_error", activation="tanh")
    h = np.tanh(x @ weights[0].T + biases[0])
    loss = lambda z: np.mean((z - y) ** 2)  # noqa: E731
    after = lambda z: loss(np.tanh(z) @ weights[1].T + biases[1])  # noqa: E731
    delta = [
        gradients(f, inputs @ w.T + b)[0]
        for f, inputs, w, b in zip((after, loss), (x, h), weights, biases, strict=True)
    ]
    found = {r"\pdv{L}{W}": From(1, [g.weight for g in grads])}
    found |= {r"\pdv{L}{b}": From(1, [g.bias for g in grads]), "n": range(3), "l": range(1, 3)}
    return {**found, r"\delta": Shifted([0, 1], np.stack(delta, 1)), "h": np.stack([x, h], 1)}
