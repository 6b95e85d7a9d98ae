r"""
The displayed derivatives of element-wise activations: :math:`f'`, :math:`f''` and both products.

Each map and each of its derivatives is transcribed once; the products are this derivative times the
cotangent or the tangent.
"""

import numpy as np
from equations.ledger import definition, equation
from equations.numeric import complex_step, nth_derivative

from dlref import activations
from dlref.formulas.activations import normal_cdf, normal_density, sigmoid, sigmoid_deriv

X = np.random.default_rng(1).uniform(-4, 4, size=40)
U, DX = np.random.default_rng(2).normal(size=(2, 40))


def where(condition, yes, no):
    return np.where(condition, yes, no)


def mish_slope(x):
    w = np.exp(x)
    d = w**2 + 2 * w + 2
    return w * ((w + 2) * d + 4 * x * (w + 1)) / d**2


LAMBDA, ALPHA = 1.0507009873554805, 1.6732632423543772
A, B = 0.3, 0.6  # options
OTHERWISE = r"0 & \text{otherwise} \end{cases}"

#: name: text of f', f, f', options, kinks
MAPS = {
    "relu": (
        r"\begin{cases} 1 & x > 0 \\ 0 & x \le 0 \end{cases}",
        lambda x: where(x.real > 0, x, 0),
        lambda x: where(x > 0, 1, 0),
        {},
        [0],
    ),
    "leaky_relu": (
        r"\begin{cases} 1 & x > 0 \\ a & x \le 0 \end{cases}",
        lambda x: where(x.real > 0, x, A * x),
        lambda x: where(x > 0, 1, A),
        {"negative_slope": A},
        [0],
    ),
    "relu6": (
        rf"\begin{{cases}} 1 & 0 < x < 6 \\ {OTHERWISE}",
        lambda x: where(x.real > 6, 6, where(x.real > 0, x, 0)),
        lambda x: where((x > 0) & (x < 6), 1, 0),
        {},
        [0, 6],
    ),
    "thresholded_relu": (
        r"\begin{cases} 1 & x > \alpha \\ 0 & x \le \alpha \end{cases}",
        lambda x: where(x.real > A, x, 0),
        lambda x: where(x > A, 1, 0),
        {"alpha": A},
        [A],
    ),
    "hard_tanh": (
        rf"\begin{{cases}} 1 & -1 < x < 1 \\ {OTHERWISE}",
        lambda x: where(np.abs(x.real) < 1, x, np.sign(x.real)),
        lambda x: where((x > -1) & (x < 1), 1, 0),
        {},
        [-1, 1],
    ),
    "hard_sigmoid": (
        rf"\begin{{cases}} \alpha & 0 < \alpha x + \beta < 1 \\ {OTHERWISE}",
        lambda x: where(np.abs(A * x.real + B - 0.5) < 0.5, A * x + B, x.real > 0),
        lambda x: where((A * x + B > 0) & (A * x + B < 1), A, 0),
        {"alpha": A, "beta": B},
        [-2],
    ),
    "hard_swish": (
        r"""\begin{cases} 0 & x \le -3 \\ (2x + 3) / 6 & -3 < x < 3 \\ 1 & x \ge 3
        \end{cases}""",
        lambda x: where(x.real > 3, x, where(x.real > -3, x * (x + 3) / 6, 0)),
        lambda x: np.select([x <= -3, x < 3, x >= 3], [0 * x, (2 * x + 3) / 6, 1 + 0 * x]),
        {},
        [-3, 3],
    ),
    "sigmoid": (r"\sigma(x)\, \sigma(-x)", sigmoid, lambda x: sigmoid(x) * sigmoid(-x), {}, []),
    "log_sigmoid": (r"\sigma(-x)", lambda x: np.log(sigmoid(x)), lambda x: sigmoid(-x), {}, []),
    "softplus": (
        r"\sigma(\beta x)",
        lambda x: np.log(1 + np.exp(B * x)) / B,
        lambda x: sigmoid(B * x),
        {"beta": B},
        [],
    ),
    "relu_squared": (
        r"2 \max(x, 0)",
        lambda x: where(x.real > 0, x**2, 0),
        lambda x: 2 * np.maximum(x, 0),
        {},
        [0],
    ),
    "tanh": (r"(1 - \tanh^2 x)", np.tanh, lambda x: 1 - np.tanh(x) ** 2, {}, []),
    "tanhshrink": (r"\tanh^2 x", lambda x: x - np.tanh(x), lambda x: np.tanh(x) ** 2, {}, []),
    "softsign": (
        r"\frac{1}{(1 + \abs{x})^2}",
        lambda x: x / (1 + where(x.real > 0, x, -x)),
        lambda x: 1 / (1 + np.abs(x)) ** 2,
        {},
        [0],
    ),
    "elu": (
        r"\begin{cases} 1 & x > 0 \\ \alpha e^x & x \le 0 \end{cases}",
        lambda x: where(x.real > 0, x, A * (np.exp(x) - 1)),
        lambda x: where(x > 0, 1, A * np.exp(x)),
        {"alpha": A},
        [0],
    ),
    "selu": (
        r"\lambda \begin{cases} 1 & x > 0 \\ \alpha e^x & x \le 0 \end{cases}",
        lambda x: LAMBDA * where(x.real > 0, x, ALPHA * (np.exp(x) - 1)),
        lambda x: LAMBDA * where(x > 0, 1, ALPHA * np.exp(x)),
        {},
        [0],
    ),
    "celu": (
        r"\begin{cases} 1 & x > 0 \\ e^{x / \alpha} & x \le 0 \end{cases}",
        lambda x: where(x.real > 0, x, A * (np.exp(x / A) - 1)),
        lambda x: where(x > 0, 1, np.exp(x / A)),
        {"alpha": A},
        [0],
    ),
    "silu": (
        r"\bigl( \sigma(\beta x) + \beta x\, \sigma(\beta x)\, \sigma(-\beta x) \bigr)",
        lambda x: x * sigmoid(B * x),
        lambda x: sigmoid(B * x) + B * x * sigmoid(B * x) * sigmoid(-B * x),
        {"beta": B},
        [],
    ),
    "mish": (
        r"\frac{w \bigl( (w + 2) d + 4 x (w + 1) \bigr)}{d^2}",
        lambda x: x * np.tanh(np.log(1 + np.exp(x))),
        mish_slope,
        {},
        [],
    ),
    "gelu": (
        r"\bigl( \Phi(x) + x\, \phi(x) \bigr)",
        lambda x: x * normal_cdf(x),
        lambda x: normal_cdf(x) + x * normal_density(x),
        {},
        [],
    ),
}
AFTER = {"mish": r" , \quad w = e^x , \; d = w^2 + 2w + 2"}
PIECEWISE = ["relu", "leaky_relu", "relu6", "thresholded_relu", "hard_tanh", "hard_sigmoid"]
CASES = [*PIECEWISE, "hard_swish", "selu"]


def called(name, form, *arguments):
    return getattr(activations, name + form)(*arguments, **MAPS[name][3])


def named(function, name):
    """Give a check that is made for each map a name of its own, for its page and its link."""
    function.__name__ = function.__qualname__ = name
    return function


def register(name, shown, f, slope, kinks):
    """Mark the displayed slope of a map and its two products as checked."""
    after, at = AFTER.get(name, ""), np.append(X, kinks)
    u, dx = np.resize(U, at.size), np.resize(DX, at.size)

    def reverse():
        yield U * complex_step(f, X), U * slope(X)
        yield u * slope(at), called(name, "_vjp", u, at)  # kinks as well

    def forward():
        yield complex_step(f, X, DX), slope(X) * DX
        yield slope(at) * dx, called(name, "_jvp", at, dx)

    def derivative():
        yield complex_step(f, X), slope(X)
        yield slope(at), called(name, "_deriv", at)

    text = rf"\pdv{{L}}{{x}} = u\, f'(x) = u\, {shown}{after}"
    equation(text)(named(reverse, f"gradient_through_{name}"))
    text = rf"\dot y = f'(x)\, \dot x = {shown}\, \dot x{after}"
    equation(text)(named(forward, f"tangent_of_{name}"))
    if name in CASES:
        equation(rf"f'(x) = {shown}")(named(derivative, f"derivative_of_{name}"))


for _name, (_shown, _f, _slope, _, _kinks) in MAPS.items():
    register(_name, _shown, _f, _slope, _kinks)


@equation(r"f''(x) = 0")
def second_derivative_of_piecewise_linear_maps():
    for name in PIECEWISE:
        _, _, slope, _, kinks = MAPS[name]
        h = 1e-6 * np.ones(X.size)
        difference = (slope(X + h) - slope(X - h)) / (2 * h)
        yield np.zeros(X.size), difference, called(name, "_deriv2", X)
        assert kinks
        yield np.zeros(len(kinks)), called(name, "_deriv2", np.array(kinks, float))


@equation(rf"f''(x) = \begin{{cases}} 1/3 & -3 < x < 3 \\ {OTHERWISE}")
def second_derivative_of_hard_swish():
    kinks = MAPS["hard_swish"][-1]
    x = np.append(X, kinks)
    want = where((x > -3) & (x < 3), 1 / 3, 0)
    yield complex_step(lambda z: where(np.abs(z.real) < 3, (2 * z + 3) / 6, 0), X), want[: X.size]
    yield want, called("hard_swish", "_deriv2", x)


def left(inner):
    """Return the second derivative of a map that is the identity on the right."""
    return where(X > 0, 0, inner(np.minimum(X, 0)))


@equation(r"f''(x) = \lambda \begin{cases} 0 & x > 0 \\ \alpha e^x & x \le 0 \end{cases}")
def second_derivative_of_selu():
    slope = lambda x: LAMBDA * where(x.real > 0, 1, ALPHA * np.exp(x))  # noqa: E731
    yield complex_step(slope, X), LAMBDA * left(lambda x: ALPHA * np.exp(x))
    yield activations.selu_deriv2(0.0), LAMBDA * ALPHA
    yield activations.selu_deriv2(X), LAMBDA * left(lambda x: ALPHA * np.exp(x))


@equation(
    r"f'(x) = \begin{cases} 1 & x > 0 \\ \alpha e^x = f(x) + \alpha & x \le 0 \end{cases}",
    r"""f''(x) = \begin{cases} 0 & x > 0 \\ \dv{}{x} \alpha e^x = \alpha e^x & x \le 0
    \end{cases}""",
)
def derivatives_of_elu():
    _, f, slope, options, _ = MAPS["elu"]
    x = X[X <= 0]
    yield complex_step(f, X), slope(X), activations.elu_deriv(X, **options)
    yield A * np.exp(x), f(x) + A
    yield complex_step(lambda z: A * np.exp(z), x), A * np.exp(x)
    yield left(lambda z: A * np.exp(z)), activations.elu_deriv2(X, **options)


@equation(
    r"""f'(x) = \begin{cases} 1 & x > 0 \\
    \alpha \cdot \frac{1}{\alpha} e^{x / \alpha} = e^{x / \alpha} & x \le 0 \end{cases}""",
    r"""f''(x) = \begin{cases} 0 & x > 0 \\
    \dv{}{x} e^{x / \alpha} = e^{x / \alpha} / \alpha & x \le 0 \end{cases}""",
)
def derivatives_of_celu():
    _, f, slope, options, _ = MAPS["celu"]
    x = X[X <= 0]
    yield complex_step(f, X), slope(X), activations.celu_deriv(X, **options)
    yield A * (1 / A) * np.exp(x / A), np.exp(x / A)
    yield complex_step(lambda z: np.exp(z / A), x), np.exp(x / A) / A
    yield left(lambda z: np.exp(z / A) / A), activations.celu_deriv2(X, **options)


# Sigmoids


@equation(
    r"""\sigma'' = \sigma'(x)\, \sigma(-x) - \sigma(x)\, \sigma'(-x)
    = \sigma' \bigl( \sigma(-x) - \sigma(x) \bigr) = -\sigma' \tanh \frac x2 ,"""
)
def curvature_of_the_sigmoid():
    s, slope = sigmoid, sigmoid_deriv
    yield (
        nth_derivative(s, X, 2),
        slope(X) * s(-X) - s(X) * slope(-X),
        slope(X) * (s(-X) - s(X)),
        -slope(X) * np.tanh(X / 2),
        activations.sigmoid_deriv2(X),
    )


@equation(
    r"""\sigma''' = \sigma'' (1 - 2 \sigma) - 2 \sigma'^2
    = \sigma' \bigl( (1 - 2 \sigma)^2 - 2 \sigma' \bigr) = \sigma' (1 - 6 \sigma') ,"""
)
def third_derivative_of_the_sigmoid():
    s, slope = sigmoid(X), sigmoid_deriv(X)
    yield (
        nth_derivative(sigmoid, X, 3),
        complex_step(sigmoid_deriv, X) * (1 - 2 * s) - 2 * slope**2,
        slope * ((1 - 2 * s) ** 2 - 2 * slope),
        slope * (1 - 6 * slope),
    )
    extreme = np.log(2 + np.sqrt(3) * np.array([-1, 1]))  # as the text concludes
    yield sigmoid_deriv(extreme), np.full(2, 1 / 6)


@equation(
    r"""f' = \frac{\sigma'(x)}{\sigma(x)} = \frac{\sigma(x)\, \sigma(-x)}{\sigma(x)}
    = \sigma(-x)""",
    r"f'' = \dv{}{x} \sigma(-x) = -\sigma'(-x) = -\sigma(x)\, \sigma(-x)",
)
def derivatives_of_log_sigmoid():
    s = sigmoid(X)
    first = complex_step(lambda x: np.log(sigmoid(x)), X)
    yield first, complex_step(sigmoid, X) / s, s * sigmoid(-X) / s, sigmoid(-X)
    second = complex_step(lambda x: sigmoid(-x), X)
    yield second, -complex_step(sigmoid, -X), -s * sigmoid(-X), activations.log_sigmoid_deriv2(X)


@equation(
    r"""f' = \frac1\beta \dv{}{x} \log(1 + e^{\beta x})
    = \frac{e^{\beta x}}{1 + e^{\beta x}} = \sigma(\beta x)""",
    r"""f'' = \beta\, \sigma'(\beta x) = \beta\, \frac{e^{-\beta x}}{(1 + e^{-\beta x})^2}
    = \beta\, \sigma(\beta x)\, \sigma(-\beta x)""",
)
def derivatives_of_softplus():
    def f(x):
        return np.log(1 + np.exp(B * x)) / B

    yield (
        complex_step(f, X),
        complex_step(lambda x: np.log(1 + np.exp(B * x)), X) / B,
        np.exp(B * X) / (1 + np.exp(B * X)),
        sigmoid(B * X),
        activations.softplus_deriv(X, beta=B),
    )
    yield (
        nth_derivative(f, X, 2),
        B * complex_step(sigmoid, B * X),
        B * np.exp(-B * X) / (1 + np.exp(-B * X)) ** 2,
        B * sigmoid(B * X) * sigmoid(-B * X),
        activations.softplus_deriv2(X, beta=B),
    )


@equation(
    r"f'(x) = 2 \max(x, 0)",
    r"f''(x) = \begin{cases} 2 & x > 0 \\ 0 & x \le 0 \end{cases}",
)
def derivatives_of_squared_relu():
    def f(x):
        return where(x.real > 0, x**2, 0)

    at = np.append(X, 0.0)
    yield complex_step(f, X), 2 * np.maximum(X, 0)
    yield 2 * np.maximum(at, 0), activations.relu_squared_deriv(at)
    yield complex_step(lambda x: where(x.real > 0, 2 * x, 0), X), where(X > 0, 2, 0)
    yield where(at > 0, 2, 0), activations.relu_squared_deriv2(at)


@equation(
    r"""\tanh' x = \frac{\cosh^2 x - \sinh^2 x}{\cosh^2 x} = \frac{1}{\cosh^2 x}
    = 1 - \tanh^2 x .""",
    r"\tanh'' x = -2 \tanh x \, \tanh' x = \frac{-2 \tanh x}{\cosh^2 x}",
    r"f' = 1 - \tanh' x = 1 - \frac{1}{\cosh^2 x} = \tanh^2 x",
    r"f'' = -\tanh'' x = \frac{2 \tanh x}{\cosh^2 x}",
)
def derivatives_of_tanh_and_tanhshrink():
    t, c = np.tanh(X), np.cosh(X)
    slope, second = complex_step(np.tanh, X), nth_derivative(np.tanh, X, 2)
    yield slope, (c**2 - np.sinh(X) ** 2) / c**2, 1 / c**2, 1 - t**2
    yield second, -2 * t * slope, -2 * t / c**2
    shrink = lambda x: x - np.tanh(x)  # noqa: E731
    yield complex_step(shrink, X), 1 - slope, 1 - 1 / c**2, t**2
    yield nth_derivative(shrink, X, 2), -second, 2 * t / c**2, activations.tanhshrink_deriv2(X)


@equation(
    r"""f' = \frac{(1 + \abs{x}) - x \operatorname{sign}(x)}{(1 + \abs{x})^2}
    = \frac{1}{(1 + \abs{x})^2} ,""",
    r"""f'' = -2\, (1 + \abs{x})^{-3} \dv{\abs{x}}{x}
    = \frac{-2 \operatorname{sign}(x)}{(1 + \abs{x})^3}""",
)
def derivatives_of_softsign():
    f, size = MAPS["softsign"][1], np.abs(X)
    yield complex_step(f, X), ((1 + size) - X * np.sign(X)) / (1 + size) ** 2, 1 / (1 + size) ** 2
    slope_of_size = complex_step(lambda x: where(x.real > 0, x, -x), X)
    yield (
        complex_step(lambda x: 1 / (1 + where(x.real > 0, x, -x)) ** 2, X),
        -2 * (1 + size) ** -3 * slope_of_size,
        -2 * np.sign(X) / (1 + size) ** 3,
        activations.softsign_deriv2(X),
    )


# Smooth rectifiers


@equation(
    r"""f'' = \beta \bigl( 2 \sigma'(u) + u\, \sigma''(u) \bigr)
    = \beta\, \sigma(u)\, \sigma(-u) \Bigl( 2 - u \tanh \frac u2 \Bigr)"""
)
def curvature_of_the_silu():
    u = B * X
    yield (
        nth_derivative(lambda x: x * sigmoid(B * x), X, 2),
        B * (2 * complex_step(sigmoid, u) + u * nth_derivative(sigmoid, u, 2)),
        B * sigmoid(u) * sigmoid(-u) * (2 - u * np.tanh(u / 2)),
    )


@equation(
    r"f' = \Phi(x) + x\, \phi(x) , \qquad \phi(x) = \frac{e^{-x^2/2}}{\sqrt{2\pi}}",
    r"f'' = \Phi' + (x \phi)' = 2 \phi(x) + x\, \phi'(x) = (2 - x^2)\, \phi(x) .",
)
def derivatives_of_gelu():
    def f(x):
        return x * normal_cdf(x)

    phi = np.exp(-(X**2) / 2) / np.sqrt(2 * np.pi)
    yield complex_step(f, X), normal_cdf(X) + X * phi, activations.gelu_deriv(X)
    yield (
        nth_derivative(f, X, 2),
        complex_step(normal_cdf, X) + complex_step(lambda x: x * normal_density(x), X),
        2 * phi + X * complex_step(normal_density, X),
        (2 - X**2) * phi,
        activations.gelu_deriv2(X),
    )


@equation(
    r"""f' = \sigma(v) + x\, v'\, \sigma(v)\, \sigma(-v) , \qquad v = c x + d x^3 , \quad
    v' = c + 3 d x^2 ,""",
    r"""f'' = 2 v'\, \sigma'(v) + x\, v''\, \sigma'(v) + x\, v'^2\, \sigma''(v)
    = \sigma(v)\, \sigma(-v) \Bigl( 2 v' + x\, v'' - x\, v'^2 \tanh \frac v2 \Bigr) .""",
)
def derivatives_of_gelu_by_tanh():
    c = 2 * np.sqrt(2 / np.pi)
    d = 0.044715 * c

    def inner(x):
        return c * x + d * x**3

    def f(x):
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    x = X / 2  # further out Cauchy's circle meets poles
    v, v1, v2 = inner(x), c + 3 * d * x**2, 6 * d * x
    s, gate = sigmoid(v), sigmoid(v) * sigmoid(-v)
    yield complex_step(inner, x), v1
    yield complex_step(f, x), s + x * v1 * gate, activations.gelu_deriv(x, approximate="tanh")
    yield (
        nth_derivative(f, x, 2),
        (2 * v1 + x * v2) * complex_step(sigmoid, v) + x * v1**2 * complex_step(sigmoid_deriv, v),
        gate * (2 * v1 + x * v2 - x * v1**2 * np.tanh(v / 2)),
        activations.gelu_deriv2(x, approximate="tanh"),
    )


# Maps of two arrays


@equation(
    r"""\pdv{L}{x} = \sum u\, \sigma(g) , \qquad
    \pdv{L}{g} = \sum u\, x\, \sigma(g)\, \sigma(-g)""",
    r"""\pdv{L}{x} = \sum u\, g\, \sigma(\beta g) , \qquad
    \pdv{L}{g} = \sum u\, x\, \bigl( \sigma(\beta g)
    + \beta g\, \sigma(\beta g)\, \sigma(-\beta g) \bigr)""",
    r"""\pdv{L}{x} = \sum u\, g\, \Phi(g) , \qquad
    \pdv{L}{g} = \sum u\, x\, \bigl( \Phi(g) + g\, \phi(g) \bigr)""",
    r"""\pdv{L}{x} = \sum u\, \max(g, 0) , \qquad
    \pdv{L}{g} = \sum u\, x\, \begin{cases} 1 & g > 0 \\ 0 & g \le 0 \end{cases}""",
)
def gradients_of_gated_units():
    x, g = DX, np.stack([X, np.append(-X[:-1], 0.0)])  # x is broadcast; 0 is the kink of relu
    u = np.stack([U, 2 * U])
    units = {
        "glu": (sigmoid, lambda g: sigmoid(g) * sigmoid(-g), {}),
        "swiglu": (lambda g: g * sigmoid(B * g), MAPS["silu"][2], {"beta": B}),
        "geglu": (lambda g: g * normal_cdf(g), MAPS["gelu"][2], {}),
        "reglu": (MAPS["relu"][1], MAPS["relu"][2], {}),
    }
    for name, (a, slope, options) in units.items():
        dx, dg = getattr(activations, f"{name}_vjp")(u, x, g, **options)
        left = np.where(g == 0, -1e-13, g)  # of the kink
        yield complex_step(lambda z, a=a: np.sum(u * z * a(g), 0), x), np.sum(u * a(g), 0), dx
        yield complex_step(lambda z, a=a: u * x * a(z), left), u * x * slope(g), dg


@equation(r"\dot y = \begin{cases} \dot x & x > 0 \\ a\, \dot x + x\, \dot a & x \le 0 \end{cases}")
def tangent_of_prelu():
    def f(t):
        x = X + t * DX
        return where(x.real > 0, x, (A + t * B) * x)

    formula = where(X > 0, DX, A * DX + X * B)
    yield complex_step(f, 0.0), formula, activations.prelu_jvp((X, A), (DX, B))


# Rows


@equation(r"\dot f = \sum_i s_i v_i", r"\pdv{L}{x_i} = u\, s_i")
def products_of_logsumexp():
    def f(x):
        return np.log(np.sum(np.exp(x)))

    s, u = np.exp(X) / np.exp(X).sum(), 1.7
    yield complex_step(f, X, DX), np.sum(s * DX), activations.logsumexp_jvp(X, DX)
    units = np.eye(X.size)
    yield [u * complex_step(f, X, e) for e in units], u * s, activations.logsumexp_vjp(u, X)


@equation(r"y_i = \delta_{ia} , \qquad a = \min \{ i : x_i = \max_j x_j \} .")
def the_hardmax():
    for row in (X, np.array([1.0, 3.0, 2.0, 3.0])):
        a = min(i for i in range(row.size) if row[i] == max(row))
        yield np.eye(row.size)[a], activations.hardmax(row)


# The two constants of SELU


@equation(
    r"""I_t = \E[e^{tz};\, z < 0]
    = \int_{-\infty}^0 e^{tz}\, \frac{e^{-z^2/2}}{\sqrt{2\pi}}\, dz
    = e^{t^2/2}\, \Phi(-t) , \qquad I_0 = \tfrac12 .""",
    r"""0 = \E \frac{f(z)}{\lambda} = \frac{1}{\sqrt{2\pi}} + \alpha (I_1 - I_0) , \qquad
    1 = \E f(z)^2
    = \lambda^2 \Bigl( \tfrac12 + \alpha^2 (I_2 - 2 I_1 + I_0) \Bigr) .""",
    r"""\alpha = \frac{1 / \sqrt{2\pi}}{\frac12 - \sqrt{e}\, \Phi(-1)} , \qquad
    \lambda = \Bigl( \tfrac12 + \alpha^2 \bigl( e^2\, \Phi(-2) - 2 \sqrt{e}\, \Phi(-1)
    + \tfrac12 \bigr) \Bigr)^{-1/2} .""",
)
def constants_of_selu():
    nodes, weights = np.polynomial.legendre.leggauss(200)
    z, dz = 15 * (nodes - 1) / 2, 15 * weights / 2  # from -15 to 0

    def mean(values):
        return np.sum(values * normal_density(z) * dz)

    integral = [np.exp(t**2 / 2) * normal_cdf(-t) for t in np.arange(3.0)]
    yield [mean(np.exp(t * z)) for t in (0, 1, 2)], integral
    yield integral[0], 0.5
    tail = normal_cdf(np.float64(-1))
    alpha = 1 / np.sqrt(2 * np.pi) / (0.5 - np.sqrt(np.e) * tail)
    rest = np.exp(2) * normal_cdf(np.float64(-2)) - 2 * np.sqrt(np.e) * tail + 0.5
    yield alpha, ALPHA
    yield (0.5 + alpha**2 * rest) ** -0.5, LAMBDA
    right, negative = mean(-z), ALPHA * (np.exp(z) - 1)
    yield 0, right + mean(negative), 1 / np.sqrt(2 * np.pi) + ALPHA * (integral[1] - integral[0])
    square = 0.5 + ALPHA**2 * (integral[2] - 2 * integral[1] + integral[0])
    yield 1, LAMBDA**2 * (mean(z**2) + mean(negative**2)), LAMBDA**2 * square


# Sparsemax and Gumbel-softmax


def projected(x):
    """Return sparsemax by bisection for the threshold, whose definition is a sum of one."""
    low, high = x.max() - 1, x.max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(x - middle, 0).sum() > 1 else (low, middle)
    return low


ROW = np.array([0.9, 0.3, -0.2, 0.6, -1.5])


@definition(
    r"""\vec p = \operatorname*{argmin}_{\vec p \ge 0,\; \sum_i p_i = 1}
    \tfrac12 \norm{\vec p - \vec x}^2"""
)
def the_projection_onto_the_simplex():
    p = activations.sparsemax(ROW)
    yield p.sum(), 1.0
    yield np.minimum(p, 0), np.zeros(5)
    slope = p - ROW  # no other point of the simplex is nearer: slope . (q - p) >= 0 at its corners
    yield np.minimum((np.eye(5) - p) @ slope, 0), np.zeros(5)


@equation(
    r"""p_i = \max(x_i - \tau, 0) , \qquad \tau = \frac1{|S|} \Bigl( \sum_{i \in S} x_i - 1
    \Bigr) , \qquad S = \{ i : x_i > \tau \} .""",
    r"|S| = \max \Bigl\{ k : 1 + k\, x_{(k)} > \sum_{j \le k} x_{(j)} \Bigr\} .",
)
def threshold_of_sparsemax():
    for scale in (0.2, 1.0, 3.0):
        x = scale * ROW
        tau = projected(x)
        support = x > tau
        yield tau, (x[support].sum() - 1) / support.sum()
        yield np.maximum(x - tau, 0), activations.sparsemax(x)
        falling = -np.sort(-x)
        fits = [k for k in range(1, 6) if 1 + k * falling[k - 1] > falling[:k].sum()]
        yield support.sum(), max(fits)


@equation(
    r"""\dd \tau = \frac1{|S|} \sum_{j \in S} \dd x_j , \qquad
    J_{ij} = s_i \Bigl( \delta_{ij} - \frac{s_j}{|S|} \Bigr) , \qquad
    \mat J = \operatorname{diag}(\vec s) - \frac{\vec s \vec s^\top}{|S|} .""",
    r"""(\mat J \vec v)_i = s_i (v_i - \bar v) , \qquad
    \bar v = \frac1{|S|} \sum_{j \in S} v_j""",
    r"""\pdv{L}{x_j} = s_j (u_j - \bar u) , \qquad \bar u = \frac1{|S|} \sum_{i \in S} u_i""",
)
def derivatives_of_sparsemax():
    s = 1.0 * (projected(ROW) < ROW)
    size, h = s.sum(), 1e-3

    def slope(f, v):  # piecewise linear: exact but for rounding
        return (f(ROW + h * v) - f(ROW - h * v)) / (2 * h)

    v, u = DX[:5], U[:5]
    yield slope(projected, v), (s * v).sum() / size
    jac = np.array([[s[i] * ((i == j) - s[j] / size) for j in range(5)] for i in range(5)])
    yield jac, np.diag(s) - s[:, None] * s / size, activations.sparsemax_jacobian(ROW)
    by_hand = s * (v - (s * v).sum() / size)
    yield slope(activations.sparsemax, v), jac @ v, by_hand, activations.sparsemax_jvp(ROW, v)
    by_hand = s * (u - (s * u).sum() / size)
    yield [u @ slope(activations.sparsemax, e) for e in np.eye(5)], by_hand
    yield by_hand, activations.sparsemax_vjp(u, ROW)


@definition(
    r"""\vec y = \operatorname{softmax}\Bigl( \frac{\vec x + \vec g}{T} \Bigr) , \qquad
    g_i = -\log(-\log U_i) , \quad U_i \sim \mathcal{U}(0, 1)"""
)
def the_gumbel_softmax():
    g = -np.log(-np.log(np.array([0.1, 0.5, 0.7, 0.9, 0.99])))
    e = np.exp((ROW + g) / 0.7)
    yield e / e.sum(), activations.gumbel_softmax(ROW, g, temperature=0.7)
    drawn = np.sort(np.random.default_rng(0).gumbel(size=200_001))
    yield round(drawn[100_000], 1), round(-np.log(-np.log(0.5)), 1)  # the medians


@equation(r"\int_0^\infty e^{x_a} e^{-w Z}\, \dd w = \frac{e^{x_a}}{Z} .")
def probability_that_a_class_is_drawn():
    total = np.exp(ROW).sum()
    nodes, weights = np.polynomial.laguerre.laggauss(40)
    w = nodes / 2
    inside = np.exp(ROW)[:, None] * np.exp(-w * total) * np.exp(nodes) / 2
    yield inside @ weights, np.exp(ROW) / total


@equation(
    r"""\pdv{L}{x_j} = \pdv{L}{g_j} = \frac{y_j}{T} \Bigl( u_j - \sum_i y_i u_i \Bigr)""",
    r"\dot y_i = \frac{y_i}{T} \Bigl( v_i - \sum_j y_j v_j \Bigr)",
)
def products_of_gumbel_softmax():
    T, g, u, v = 0.7, DX[:5], U[:5], DX[5:10]

    def f(x):
        e = np.exp((x + g) / T)
        return e / e.sum()

    y = f(ROW)
    grad = y / T * (u - (y * u).sum())
    yield [u @ complex_step(f, ROW, e) for e in np.eye(5)], grad
    for hard in (False, True):
        options = {"temperature": T, "hard": hard}
        yield grad, *activations.gumbel_softmax_vjp(u, ROW, g, **options)
        pushed = activations.gumbel_softmax_jvp((ROW, g), (v, None), **options)
        yield complex_step(f, ROW, v), y / T * (v - (y * v).sum()), pushed
