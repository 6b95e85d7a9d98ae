"""The displayed equations of dlref.activations."""

import functools

import numpy as np
from equations.evaluate import From, Of, Random, derivative_of, each, elementwise, mapped
from equations.ledger import equation, reads
from equations.numeric import (
    hessian_of,
    jacobian_of,
)

from dlref import activations
from dlref.formulas import activations as formulas
from dlref.formulas.activations import (
    log_softmax,
    logsumexp,
    normal_cdf,
    sigmoid,
    softmax,
)

RNG = np.random.default_rng(0)
X = 2 * RNG.normal(size=9)
G, DX, DG = RNG.normal(size=(3, 9))
SCORES, U, V = RNG.normal(size=(3, 5))
LAMBDA, ALPHA = 1.0507009873554805, 1.6732632423543772
SELU = {r"\lambda": LAMBDA, r"\alpha": ALPHA}
MISH = {
    "at": "x",
    "w": Of(np.exp, "x"),
    "d": Of(lambda x: np.exp(2 * x) + 2 * np.exp(x) + 2, "x"),
    "T": Of(lambda x: np.tanh(np.log(1 + np.exp(x))), "x"),
}
SYMBOLS = {
    "alpha": r"\alpha",
    "beta": r"\beta",
    "negative_slope": "a",
    "limit": r"\ell",
    "shift": "c",
}
SOFTMAX = mapped(softmax, {"x": SCORES}, "s", v=V, J=formulas.softmax_jacobian(SCORES))
LOG_SOFTMAX = {
    **mapped(log_softmax, {"x": SCORES}, r"\ell", v=V, J=formulas.log_softmax_jacobian(SCORES)),
    "s": softmax(SCORES),
    "m": SCORES.max(),
    "a": SCORES.argmax(),
    r"\mat I": np.eye(5),
    r"\vec 1": np.ones(5),
}


def at(name, x=X, more=(), options=(), **inputs):
    """Return the environments of a formula at points."""
    f = functools.partial(getattr(formulas, name), **dict(options))
    symbols = {SYMBOLS[key]: value for key, value in dict(options).items() if key in SYMBOLS}
    units = {r"\sigma": sigmoid, r"\Phi": normal_cdf}
    return each({"x": x, **inputs}, {"f": f, **symbols, **units, **dict(more)})


# The relu family


@reads(r"\operatorname{relu}(x) = \max(x, 0) = \tfrac12 (x + \abs{x}).")
def the_relu():
    return each({"x": X}, {"relu": activations.relu})


@reads(r"f(x) = \min(\max(x, 0), 6)")
def the_relu6():
    return at("relu6", 4 * X)


@reads(r"f(x) = \begin{cases} x & x > 0 \\ a x & x \le 0 \end{cases}")
def the_leaky_relu():
    return at("leaky_relu", options={"negative_slope": 0.3})


@reads(r"f(x) = \begin{cases} x & x > \alpha \\ 0 & x \le \alpha \end{cases}")
def the_thresholded_relu():
    return at("thresholded_relu", np.append(X, 0.5), options={"alpha": 0.5})


@reads(r"f(x, a) = \max(x, 0) + a \min(x, 0)")
def the_prelu():
    return at("prelu", a=G)


@reads(r"\pdv{L}{x} = u \begin{cases} 1 & x > 0 \\ a & x \le 0 \end{cases}, \qquad \pdv{L}{a}…")
def gradients_of_prelu():
    return [mapped(formulas.prelu, {"x": x, "a": 0.3}) for x in X] + [
        {"x": 0.0, "u": 1.0, "a": 0.3, r"\pdv{L}{x}": 0.3, r"\pdv{L}{a}": 0.0}  # the kink
    ]


# Exponential units


@reads(r"f(x) = \max(0, x) + \min\bigl(0, \alpha (e^{x / \alpha} - 1)\bigr)")
def the_celu():
    return at("celu", options={"alpha": 0.7})


@reads(r"f(x) = \begin{cases} x & x > 0 \\ \alpha (e^x - 1) & x \le 0 \end{cases}")
def the_elu():
    return at("elu", options={"alpha": 0.7})


@reads(r"f(x) = \lambda \begin{cases} x & x > 0 \\ \alpha (e^x - 1) & x \le 0 \end{cases}")
def the_selu():
    return at("selu", more=SELU)


@reads(r"\E f'(x)^2 = \lambda^2 \Bigl( \tfrac12 + \alpha^2…", rtol=1e-4)
def mean_square_slope_of_selu():
    x = (np.arange(3000) - 1499.5) / 150
    given = {r"\lambda": LAMBDA, r"\alpha": ALPHA, r"\Phi": lambda z: normal_cdf(np.float64(z))}
    return {**given, "f": formulas.selu, "x": 0.0, r"\E": [Random(np.exp(-(x**2) / 2), x=x)]}


# The sigmoid and what is made of it


@reads(r"\sigma(x) = \frac{1}{1 + e^{-x}} = \frac{e^x}{1 + e^x}")
def the_sigmoid():
    return each({"x": X}, {r"\sigma": activations.sigmoid})


@reads(r"\sigma' = \frac{e^{-x}}{(1 + e^{-x})^2} = \sigma(x) \sigma(-x) = \sigma\, (1 - \sigma).")
def slope_of_the_sigmoid():
    return each({"x": X}, {r"\sigma": sigmoid, "at": "x"})


@reads(r"\log \sigma(x) = -\log(1 + e^{-x}) = \min(x, 0) - \log\bigl(1 + e^{-\abs{x}}\bigr)")
def the_log_sigmoid():
    return each({"x": X}, {r"\sigma": sigmoid})


@reads(r"f(x) = \frac1\beta \log(1 + e^{\beta x})…")
def the_softplus():
    return [row for beta in (1.0, 1.7) for row in at("softplus", options={"beta": beta})]


@reads(r"f(x) = \max(x, 0)^2 = x \max(x, 0)")
def the_squared_relu():
    return at("relu_squared")


@reads(r"x' = \min(\max(x, -\ell), \ell) , \qquad g' = \min(g, \ell) , \qquad f(x, g)…")
def the_swiglu_with_a_bound():
    options = {"limit": 1.1, "shift": 0.7, "beta": 1.702}
    return at("swiglu", g=X[::-1], options=options)


@reads(r"f(x) = x \, \sigma(\beta x) = \frac{x}{1 + e^{-\beta x}}")
def the_silu():
    return at("silu", options={"beta": 1.7})


@reads(r"f' = \sigma(u) + u \, \sigma(u) \sigma(-u)…")
def slope_of_the_silu():
    f = lambda x: formulas.silu(x, beta=1.7)  # noqa: E731
    rows = each({"x": X}, {"f": f, r"\sigma": sigmoid, "at": "x"})
    return [{**row, "u": 1.7 * row["x"], "f'": derivative_of(f, 1)} for row in rows]


@reads(r"\tanh x = \frac{e^x - e^{-x}}{e^x + e^{-x}} = \frac{t}{t + 2}, \qquad t = e^{2x} - 1")
def the_tanh():
    return each({"x": X}, {r"\tanh": activations.tanh})


@reads(r"f(x) = x - \tanh x = \tfrac13 x^3 - \tfrac{2}{15} x^5 + \ldots", rtol=1e-7, atol=1e-15)
def the_tanhshrink():
    return [{"f": activations.tanhshrink, "x": x} for x in (0.01, -0.02)]


@reads(r"f(x) = \frac{x}{1 + \abs{x}}")
def the_softsign():
    return at("softsign")


# Piecewise linear stand-ins


@reads(r"f(x) = \max(0, \min(1, \alpha x + \beta))")
def the_hard_sigmoid():
    return at("hard_sigmoid", options={"alpha": 0.3, "beta": 0.6})


@reads(r"f(x) = x \max\Bigl(0, \min\Bigl(1, \frac{x + 3}{6}\Bigr)\Bigr)…")
def the_hard_swish():
    return at("hard_swish", np.append(3 * X, [-3, 3]))


@reads(r"f(x) = \max(-1, \min(1, x))")
def the_hard_tanh():
    return at("hard_tanh")


# Gelu and mish


@reads(r"f(x) = x \, \Phi(x) = \frac{x}{2} \Bigl( 1 + \operatorname{erf} \frac{x}{\sqrt 2} \Bigr)")
def the_gelu():
    return at("gelu")


@reads(r"f(x) = \frac{x}{2} \Bigl( 1 + \tanh\bigl( \sqrt{2/\pi}\, (x + 0.044715\, x^3) \bigr)…")
def the_gelu_by_tanh():
    return at("gelu", options={"approximate": "tanh"})


@reads(r"f(x) = x \tanh(\log(1 + e^x))")
def the_mish():
    return at("mish")


@reads(
    r"f(x) = x \, \frac{w (w + 2)}{w^2 + 2 w + 2},",
    r"T' = \frac{2 d'}{d^2} = \frac{4 w (w + 1)}{d^2}, \qquad f'…",
    r"T'' = 4\, \frac{(2w^2 + w)\, d - 2 (w^2 + w)\, d'}{d^3}…",
    r"f'' = 2 T' + x T'' = \frac{4w \bigl( 2 (w + 1) d + x (2 + 2w - 3w^2 - 2w^3) \bigr)}{d^3}…",
)
def the_mish_and_its_slopes():
    return at("mish", more=MISH)


# Gated units


@reads(r"f(x, g) = x \, \sigma(g)")
def the_glu():
    return at("glu", g=G)


@reads(r"f(x, g) = x \max(g, 0)")
def the_reglu():
    return at("reglu", g=G)


@reads(r"f(x, g) = x \, g \, \Phi(g)")
def the_geglu():
    return at("geglu", g=G)


@reads(r"f(x, g) = x \, g \, \sigma(\beta g)")
def the_swiglu():
    return at("swiglu", g=G, options={"beta": 1.7})


@reads(r"\dot f = \dot x \, a(g) + x \, a'(g) \, \dot g")
def tangents_of_gated_units():
    gates = {
        "glu": sigmoid,
        "reglu": formulas.relu,
        "geglu": formulas.gelu,
        "swiglu": formulas.silu,
    }
    return [
        {**row, "a": gate}
        for name, gate in gates.items()
        for row in elementwise(getattr(formulas, name), {"x": X, "g": G}, "f")
    ]


# Softmax


@reads(
    r"s_i = \frac{e^{x_i}}{\sum_j e^{x_j}}",
    r"\frac{1}{s_i} \pdv{s_i}{x_j} = \delta_{ij} - \frac{e^{x_j}}{\sum_l e^{x_l}}…",
    r"(\mat J \vec v)_i = \sum_j s_i (\delta_{ij} - s_j) v_j = s_i (v_i - \bar v)…",
    r"\pdv{L}{x_j} = \sum_i u_i J_{ij} = s_j \Bigl( u_j - \sum_i s_i u_i \Bigr)",
)
def the_softmax_and_its_derivatives():
    return SOFTMAX


# Log-softmax


@reads(
    r"\ell_i = \log s_i = x_i - \log \sum_j e^{x_j}",
    r"\ell_i = (x_i - m) - \log\Bigl( 1 + \sum_{j \ne a} e^{x_j - m} \Bigr) ,",
    r"J_{ij} = \pdv{\ell_i}{x_j} = \delta_{ij} - s_j, \qquad \mat J…",
    r"(\mat J \vec v)_i = v_i - \sum_j s_j v_j",
    r"\pdv{L}{x_j} = \sum_i u_i (\delta_{ij} - s_j) = u_j - s_j \sum_i u_i",
)
def the_log_softmax_and_its_derivatives():
    return LOG_SOFTMAX


# Log-sum-exp


@reads(r"f(x) = \log \sum_{j=1}^k e^{x_j} = m + \log\Bigl( 1 + \sum_{j \ne a} e^{x_j - m} \Bigr)")
def the_logsumexp():
    a = SCORES.argmax() + 1
    return {"x": From(1, SCORES), "k": 5, "f": logsumexp, "m": SCORES.max(), "a": a}


@equation(r"m \le f(x) \le m + \log k .")
def bounds_of_logsumexp():
    def bounds(scores):
        m, k = scores.max(), scores.size
        return m, m + np.log(k)

    rng = np.random.default_rng(3)
    for scale in 10.0 ** rng.uniform(-9, 2.5, size=300):  # counterexamples are looked for
        scores = scale * rng.normal(size=rng.integers(1, 7)) + rng.normal()
        lower, upper = bounds(scores)
        value = logsumexp(scores)
        assert lower - value <= 4e-16 * (1 + abs(value)), scores
        assert value - upper <= 4e-16 * (1 + abs(value)), scores
    for scale in (1e-9, 1, 20):  # the first is close to the upper bound
        lower, upper = bounds(scale * SCORES)
        yield lower <= logsumexp(scale * SCORES) <= upper, True
    yield logsumexp(50 * SCORES), bounds(50 * SCORES)[0]  # and both are reached
    yield logsumexp(np.full(5, 0.3)), bounds(np.full(5, 0.3))[1]


@reads(r"\pdv{f}{x_i} = \frac{e^{x_i}}{\sum_j e^{x_j}} = s_i")
def gradient_of_logsumexp():
    return mapped(formulas.logsumexp, {"x": SCORES}, "f", s=softmax(SCORES))


@equation(
    r"""\frac{\partial^2 f}{\partial x_i \partial x_j} = \pdv{s_i}{x_j}
    = s_i (\delta_{ij} - s_j) ."""
)
def hessian_of_logsumexp():
    s = softmax(SCORES)
    yield (
        hessian_of(logsumexp, SCORES),
        jacobian_of(softmax, SCORES),
        s[:, None] * (np.eye(5) - s[None, :]),
    )
