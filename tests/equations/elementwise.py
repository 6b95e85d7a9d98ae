r"""
The displayed derivatives of element-wise activations: :math:`f'`, :math:`f''` and both products.

A unit is a formula with its options, at some points and at its kinks, where a convention holds.
"""

import functools

import numpy as np
import scipy.stats
from equations.evaluate import From, Of, Random, derivative_of, elementwise, mapped
from equations.ledger import equation, reads

from dlref import activations
from dlref.formulas import activations as formulas
from dlref.formulas.activations import normal_cdf, normal_density, sigmoid

X = np.random.default_rng(1).uniform(-4, 4, size=12)
U, DX = np.random.default_rng(2).normal(size=(2, 40))
SYMBOLS = {"alpha": r"\alpha", "beta": r"\beta", "negative_slope": "a", "b": "b"}
SIGMA = {r"\sigma": sigmoid, r"\Phi": normal_cdf, r"\phi": normal_density}
LAMBDA, ALPHA = 1.0507009873554805, 1.6732632423543772
A, B = 0.3, 0.6  # options


def unit(name, kinks=(), more=(), at=X, **options):
    """Return the environments of a formula at points, and of its slopes at kinks."""
    forms = [getattr(formulas, name + form) for form in ("", "_deriv", "_deriv2")]
    f, slope, second = (functools.partial(form, **options) for form in forms)
    given = {SYMBOLS[key]: value for key, value in options.items() if key in SYMBOLS}
    given = {"f": f, "at": "x", **given, **SIGMA, **dict(more)}
    u, dx = 1.7, -0.6
    rows = elementwise(f, {"x": at}, **{"f''": derivative_of(slope, 1), **given})
    for x in np.asarray(kinks, float):
        slopes = {"f'": slope, "f''": second, r"\pdv{L}{x}": u * slope(x), r"\dot x": dx}
        rows.append({"x": x, "u": u, r"\dot y": slope(x) * dx, **given, **slopes})
    return rows


OTHERWISE = r"0 & \text{otherwise} \end{cases}"
SELU = {r"\lambda": LAMBDA, r"\alpha": ALPHA}
#: name: text of f', kinks, options
MAPS = {
    "relu": (r"\begin{cases} 1 & x > 0 \\ 0 & x \le 0 \end{cases}", [0], {}),
    "leaky_relu": (
        r"\begin{cases} 1 & x > 0 \\ a & x \le 0 \end{cases}",
        [0],
        {"negative_slope": A},
    ),
    "relu6": (rf"\begin{{cases}} 1 & 0 < x < 6 \\ {OTHERWISE}", [0, 6], {}),
    "thresholded_relu": (
        r"\begin{cases} 1 & x > \alpha \\ 0 & x \le \alpha \end{cases}",
        [A],
        {"alpha": A},
    ),
    "hard_tanh": (rf"\begin{{cases}} 1 & -1 < x < 1 \\ {OTHERWISE}", [-1, 1], {}),
    "hard_sigmoid": (
        rf"\begin{{cases}} \alpha & 0 < \alpha x + \beta < 1 \\ {OTHERWISE}",
        [-2],
        {"alpha": A, "beta": B},
    ),
    "hard_swish": (
        r"""\begin{cases} 0 & x \le -3 \\ (2x + 3) / 6 & -3 < x < 3 \\ 1 & x \ge 3
        \end{cases}""",
        [-3, 3],
        {},
    ),
    "sigmoid": (r"\sigma(x)\, \sigma(-x)", [], {}),
    "log_sigmoid": (r"\sigma(-x)", [], {}),
    "softplus": (r"\sigma(\beta x)", [], {"beta": B}),
    "squareplus": (r"\frac{f(x)}{\sqrt{x^2 + b}}", [], {"b": B}),
    "relu_squared": (r"2 \max(x, 0)", [0], {}),
    "tanh": (r"(1 - \tanh^2 x)", [], {}),
    "tanhshrink": (r"\tanh^2 x", [], {}),
    "softsign": (r"\frac{1}{(1 + \abs{x})^2}", [0], {}),
    "elu": (r"\begin{cases} 1 & x > 0 \\ \alpha e^x & x \le 0 \end{cases}", [0], {"alpha": A}),
    "selu": (
        r"\lambda \begin{cases} 1 & x > 0 \\ \alpha e^x & x \le 0 \end{cases}",
        [0],
        {"more": SELU},
    ),
    "celu": (
        r"\begin{cases} 1 & x > 0 \\ e^{x / \alpha} & x \le 0 \end{cases}",
        [0],
        {"alpha": A},
    ),
    "silu": (
        r"\bigl( \sigma(\beta x) + \beta x\, \sigma(\beta x)\, \sigma(-\beta x) \bigr)",
        [],
        {"beta": B},
    ),
    "mish": (r"\frac{w \bigl( (w + 2) d + 4 x (w + 1) \bigr)}{d^2}", [], {}),
    "gelu": (r"\bigl( \Phi(x) + x\, \phi(x) \bigr)", [], {}),
}
AFTER = {"mish": r" , \quad w = e^x , \; d = w^2 + 2w + 2"}
PIECEWISE = ["relu", "leaky_relu", "relu6", "thresholded_relu", "hard_tanh", "hard_sigmoid"]
CASES = [*PIECEWISE, "hard_swish", "selu"]


def of_map(name):
    _, kinks, options = MAPS[name]
    return unit(name, kinks, **options)


def register_as(name, text, rows, *of):
    """Mark a text as read, with a name of its own for its page and its link."""

    def check():
        return rows(*of)

    check.__name__ = check.__qualname__ = name
    reads(text)(check)


def register(name, shown):
    """Mark the displayed slope of a map and its two products as read."""
    after = AFTER.get(name, "")
    factor = r"\tanh^2(x)" if name == "tanhshrink" else shown  # before another factor
    texts = {
        "gradient_through": rf"\pdv{{L}}{{x}} = u\, f'(x) = u\, {shown}{after}",
        "tangent_of": rf"\dot y = f'(x)\, \dot x = {factor}\, \dot x{after}",
    }
    if name in CASES:
        texts["derivative_of"] = rf"f'(x) = {shown}"
    for what, text in texts.items():
        register_as(f"{what}_{name}", text, of_map, name)


for _name, (_shown, _, _) in MAPS.items():
    register(_name, _shown)


@reads(r"f''(x) = 0")
def second_derivative_of_piecewise_linear_maps():
    return [row for name in PIECEWISE for row in of_map(name)]


@reads(rf"f''(x) = \begin{{cases}} 1/3 & -3 < x < 3 \\ {OTHERWISE}")
def second_derivative_of_hard_swish():
    return of_map("hard_swish")


@reads(r"f''(x) = \lambda \begin{cases} 0 & x > 0 \\ \alpha e^x & x \le 0 \end{cases}")
def second_derivative_of_selu():
    return of_map("selu")


@reads(
    r"f'(x) = \begin{cases} 1 & x > 0 \\ \alpha e^x = f(x) + \alpha & x \le 0 \end{cases}",
    r"f''(x) = \begin{cases} 0 & x > 0 \\ \dv{}{x} \alpha e^x = \alpha e^x & x \le 0 \end{cases}",
)
def derivatives_of_elu():
    return of_map("elu")


@reads(
    r"f'(x) = \begin{cases} 1 & x > 0 \\ \alpha \cdot \frac{1}{\alpha} e^{x / \alpha} =…",
    r"f''(x) = \begin{cases} 0 & x > 0 \\ \dv{}{x} e^{x / \alpha} = e^{x / \alpha} / \alpha & x…",
)
def derivatives_of_celu():
    return of_map("celu")


# Sigmoids


@reads(
    r"\sigma'' = \sigma'(x)\, \sigma(-x) - \sigma(x)\, \sigma'(-x)…",
    r"\sigma''' = \sigma''\, (1 - 2 \sigma) - 2 \sigma'^2…",
)
def higher_derivatives_of_the_sigmoid():
    return unit("sigmoid")


@reads(
    r"f' = \frac{\sigma'(x)}{\sigma(x)} = \frac{\sigma(x)\, \sigma(-x)}{\sigma(x)} = \sigma(-x)",
    r"f'' = \dv{}{x} \sigma(-x) = -\sigma'(-x) = -\sigma(x)\, \sigma(-x)",
)
def derivatives_of_log_sigmoid():
    return unit("log_sigmoid")


@reads(
    r"f' = \frac1\beta \dv{}{x} \log(1 + e^{\beta x}) = \frac{e^{\beta x}}{1 + e^{\beta x}}…",
    r"f'' = \beta\, \sigma'(\beta x) = \beta\, \frac{e^{-\beta x}}{(1 + e^{-\beta x})^2}…",
)
def derivatives_of_softplus():
    return of_map("softplus")


@reads(
    r"f(x) = \frac{x + r}{2} , \qquad r = \sqrt{x^2 + b}",
    r"f(x) - f(-x) = x , \qquad f(x)\, f(-x) = \frac{r^2 - x^2}{4} = \frac b4 .",
    r"f(x) = \max(x, 0) + f(-\abs{x}) = \max(x, 0) + \frac{b}{2 (\abs{x} + r)}",
    r"\dv{r}{x} = \frac xr , \qquad f' = \frac12 \Bigl( 1 + \frac xr \Bigr) = \frac{x + r}{2 r}…",
    r"f'' = \frac12 \dv{}{x} \frac xr = \frac12 \cdot \frac{r - x^2 / r}{r^2}…",
)
def squareplus_and_its_derivatives():
    return unit("squareplus", more={"r": Of(lambda x: np.sqrt(x**2 + B), "x")}, b=B)


@reads(
    r"f'(x) = 2 \max(x, 0)",
    r"f''(x) = \begin{cases} 2 & x > 0 \\ 0 & x \le 0 \end{cases}",
)
def derivatives_of_squared_relu():
    return of_map("relu_squared")


@reads(
    r"\tanh' x = \frac{\cosh^2 x - \sinh^2 x}{\cosh^2 x} = \frac{1}{\cosh^2 x} = 1 - \tanh^2 x .",
    r"\tanh'' x = -2 \tanh x \, \tanh' x = \frac{-2 \tanh x}{\cosh^2 x}",
    r"f' = 1 - \tanh' x = 1 - \frac{1}{\cosh^2 x} = \tanh^2 x",
    r"f'' = -\tanh'' x = \frac{2 \tanh x}{\cosh^2 x}",
)
def derivatives_of_tanh_and_tanhshrink():
    return unit("tanhshrink")


@reads(
    r"f' = \frac{(1 + \abs{x}) - x \operatorname{sign}(x)}{(1 + \abs{x})^2}…",
    r"f'' = -2\, (1 + \abs{x})^{-3} \dv{\abs{x}}{x}…",
)
def derivatives_of_softsign():
    return unit("softsign")


# Smooth rectifiers


@reads(r"f'' = \beta \bigl( 2 \sigma'(u) + u\, \sigma''(u) \bigr)…")
def curvature_of_the_silu():
    return unit("silu", more={"u": Of(lambda x: B * x, "x")}, beta=B)


@reads(
    r"f' = \Phi(x) + x\, \phi(x) , \qquad \phi(x) = \frac{e^{-x^2/2}}{\sqrt{2\pi}}",
    r"f'' = \Phi' + (x \phi)' = 2 \phi(x) + x\, \phi'(x) = (2 - x^2)\, \phi(x) .",
)
def derivatives_of_gelu():
    return unit("gelu")


@reads(
    r"f' = \sigma(v) + x\, v'\, \sigma(v)\, \sigma(-v) , \qquad v = c x + d x^3 , \quad v'…",
    r"f'' = 2 v'\, \sigma'(v) + x\, v''\, \sigma'(v) + x\, v'^2\, \sigma''(v)…",
)
def derivatives_of_gelu_by_tanh():
    c = 2 * np.sqrt(2 / np.pi)
    more = {"c": c, "d": 0.044715 * c, "v''": Of(lambda x: 6 * 0.044715 * c * x, "x")}
    return unit("gelu", at=X / 2, more=more, approximate="tanh")


# Maps of two arrays


GATED = {
    "glu": r"""\pdv{L}{x} = \sum u\, \sigma(g) , \qquad
    \pdv{L}{g} = \sum u\, x\, \sigma(g)\, \sigma(-g)""",
    "swiglu": r"""\pdv{L}{x} = \sum u\, g\, \sigma(\beta g) , \qquad
    \pdv{L}{g} = \sum u\, x\, \bigl( \sigma(\beta g)
    + \beta g\, \sigma(\beta g)\, \sigma(-\beta g) \bigr)""",
    "geglu": r"""\pdv{L}{x} = \sum u\, g\, \Phi(g) , \qquad
    \pdv{L}{g} = \sum u\, x\, \bigl( \Phi(g) + g\, \phi(g) \bigr)""",
    "reglu": r"""\pdv{L}{x} = \sum u\, \max(g, 0) , \qquad
    \pdv{L}{g} = \sum u\, x\, \begin{cases} 1 & g > 0 \\ 0 & g \le 0 \end{cases}""",
}


def gated(name):
    options = {"beta": B} if name == "swiglu" else {}
    f = functools.partial(getattr(formulas, name), **options)
    inputs = {"x": X, "g": np.append(-X[:-1], 0.0)}  # 0 is the kink of relu
    return elementwise(f, inputs, **SIGMA, **{r"\beta": B})


for _name, _text in GATED.items():
    register_as(f"gradients_of_{_name}", _text, gated, _name)


@reads(r"\dot y = \begin{cases} \dot x & x > 0 \\ a\, \dot x + x\, \dot a & x \le 0 \end{cases}")
def tangent_of_prelu():
    return [mapped(formulas.prelu, {"x": x, "a": A}) for x in X]


# Rows


@reads(r"\dot f = \sum_i s_i v_i", r"\pdv{L}{x_i} = u\, s_i")
def products_of_logsumexp():
    return mapped(
        formulas.logsumexp, {"x": X}, "f", s=formulas.softmax(X), v=DX[:12], **{r"\dot x": DX[:12]}
    )


@reads(r"y_i = \delta_{ia} , \qquad a = \min \{ i : x_i = \max_j x_j \} .")
def the_hardmax():
    rows = (X, np.array([1.0, 3.0, 2.0, 3.0]))
    return [
        {"x": x, "y": activations.hardmax(x), "i": range(x.size), "a": int(np.argmax(x))}
        for x in rows
    ]


# The two constants of SELU


@reads(r"I_t = \E[e^{tz};\, z < 0] = \int_{-\infty}^0 e^{tz}\,…", rtol=1e-05)
def moments_of_selu():
    moments = {
        "I": lambda t: np.exp(t * t / 2) * normal_cdf(np.float64(-t)),
        r"\Phi": lambda t: normal_cdf(np.float64(t)),
    }
    z = (np.arange(3000) - 1499.5) / 150
    drawn = {r"\E": [Random(np.exp(-(z**2) / 2), z=z)], "z": 0.0}
    return {**moments, **drawn, "t": range(3)}


@reads(r"0 = \E \frac{f(z)}{\lambda} = \frac{1}{\sqrt{2\pi}} + \alpha…", atol=1e-05, rtol=1e-05)
def conditions_of_selu():
    moments = {"I": lambda t: np.exp(t * t / 2) * normal_cdf(np.float64(-t)), r"\alpha": ALPHA}
    z = (np.arange(3000) - 1499.5) / 150
    drawn = {r"\E": [Random(np.exp(-(z**2) / 2), z=z)], "z": 0.0, "f": formulas.selu}
    return {**moments, **drawn, r"\lambda": LAMBDA}


@reads(r"\alpha = \frac{1 / \sqrt{2\pi}}{\frac12 - \sqrt{e}\, \Phi(-1)} , \qquad \lambda…")
def constants_of_selu():
    return {r"\alpha": ALPHA, r"\lambda": LAMBDA, r"\Phi": lambda t: normal_cdf(np.float64(t))}


# Sparsemax and Gumbel-softmax


def projected(x):
    """Return sparsemax by bisection for the threshold, whose definition is a sum of one."""
    low, high = x.max() - 1, x.max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(x - middle, 0).sum() > 1 else (low, middle)
    return low


ROW = np.array([0.9, 0.3, -0.2, 0.6, -1.5])


@equation(
    r"""\vec p = \operatorname*{argmin}_{\vec p \ge 0,\; \sum_i p_i = 1}
    \tfrac12 \norm{\vec p - \vec x}^2"""
)
def the_projection_onto_the_simplex():
    p = activations.sparsemax(ROW)
    yield p.sum(), 1.0
    yield np.minimum(p, 0), np.zeros(5)
    slope = p - ROW  # no other point of the simplex is nearer: slope . (q - p) >= 0 at its corners
    yield bool(np.all((np.eye(5) - p) @ slope >= -1e-12)), True


@reads(
    r"p_i = \max(x_i - \tau, 0) , \qquad \tau = \frac1{|S|} \Bigl( \sum_{i \in S} x_i - 1 \Bigr)…"
)
def threshold_of_sparsemax():
    rows = [scale * ROW for scale in (0.2, 1.0, 3.0)]
    return [{"x": x, r"\tau": projected(x), "p": activations.sparsemax(x)} for x in rows]


@reads(r"|S| = \max \Bigl\{ k : 1 + k\, x_{(k)} > \sum_{j \le k} x_{(j)} \Bigr\} .")
def size_of_the_support_of_sparsemax():
    rows = [scale * ROW for scale in (0.2, 1.0, 3.0)]
    order = {"j": range(1, 6), "k": range(1, 6)}
    support = [set(np.flatnonzero(activations.sparsemax(x))) for x in rows]
    sides = zip(rows, support, strict=True)
    return [{"x": From(1, -np.sort(-x)), "S": kept, **order} for x, kept in sides]


@reads(
    r"\dd \tau = \frac1{|S|} \sum_{j \in S} \dd x_j , \qquad J_{ij}…",
    r"(\mat J \vec v)_i = s_i (v_i - \bar v) , \qquad \bar v = \frac1{|S|} \sum_{j \in S} v_j",
    r"\pdv{L}{x_j} = s_j (u_j - \bar u) , \qquad \bar u = \frac1{|S|} \sum_{i \in S} u_i",
)
def derivatives_of_sparsemax():
    s = 1.0 * (formulas.sparsemax(ROW) > 0)
    inside = {
        "S": set(np.flatnonzero(s)),
        r"\tau": Of(lambda x: (np.sum(s * x) - 1) / np.sum(s), "x"),
    }
    moved = {"v": DX[:5], r"\dot x": DX[:5]}
    return mapped(
        formulas.sparsemax,
        {"x": ROW},
        "y",
        s=s,
        J=formulas.sparsemax_jacobian(ROW),
        **inside,
        **moved,
    )


@equation(
    r"""\vec y = \operatorname{softmax}\Bigl( \frac{\vec x + \vec g}{T} \Bigr) , \qquad
    g_i = -\log(-\log U_i) , \quad U_i \sim \mathcal{U}(0, 1)"""
)
def the_gumbel_softmax():
    u = np.array([0.1, 0.5, 0.7, 0.9, 0.99])
    g = -np.log(-np.log(u))
    yield g, scipy.stats.gumbel_r.ppf(u)
    e = np.exp((ROW + g) / 0.7)
    yield e / e.sum(), activations.gumbel_softmax(ROW, g, temperature=0.7)


@reads(r"\int_0^\infty e^{x_a} e^{-w Z}\, \dd w = \frac{e^{x_a}}{Z} .")
def probability_that_a_class_is_drawn():
    return [{"x": ROW, "a": a, "Z": np.exp(ROW).sum()} for a in range(5)]


@reads(
    r"\pdv{L}{x_j} = \pdv{L}{g_j} = \frac{y_j}{T} \Bigl( u_j - \sum_i y_i u_i \Bigr)",
    r"\dot y_i = \frac{y_i}{T} \Bigl( v_i - \sum_j y_j v_j \Bigr)",
)
def products_of_gumbel_softmax():
    inputs = {"x": ROW, "g": DX[:5]}
    f = functools.partial(formulas.gumbel_softmax, temperature=0.7)
    v = DX[5:10]
    return mapped(f, inputs, T=0.7, v=v, **{r"\dot x": v, r"\dot g": 0 * v})
