"""The displayed equations of dlref.calculus."""

import functools
import itertools
import math

import numpy as np
from equations.evaluate import From, Of, Shifted, each, elementwise, mapped
from equations.ledger import equation, reads
from equations.numeric import complex_step, hessian_of, jacobian_of

from dlref import calculus
from dlref.formulas import calculus as of_calculus

RNG = np.random.default_rng(0)
W, X, U, DW, DX = RNG.normal(size=(5, 4))
A = RNG.normal(size=(4, 4))
FIRST, SECOND, UPPER = (RNG.normal(size=shape) for shape in [(2, 3), (3, 4), (2, 4)])
MANY_W, MANY_X = RNG.normal(size=(2, 20))


PAIR = {"w": W, "x": X}
MATMUL = mapped(of_calculus.matmul, {"A": FIRST, "B": SECOND}, "Y")
MATMUL["U"] = MATMUL["u"]
INVERSE = mapped(np.linalg.inv, {"A": A}, "Y")
INVERSE["U"] = INVERSE["u"]


def both_jacobians(f, w=W, x=X):
    """Return the derivatives of f(w, x) with respect to either operand."""
    return jacobian_of(lambda w: f(w, x), w), jacobian_of(lambda x: f(w, x), x)


# Functions of one number

SOME = np.array([0.3, 0.7, 1.6, 2.9])
#: The slope of each as the text has it. That of expm1 is the text of exp.
SLOPES = {
    "exp": "e^x",
    "log": r"\frac1x",
    "log1p": r"\frac{1}{1 + x}",
    "sqrt": r"\frac{1}{2 \sqrt x}",
    "sin": r"\cos(x)",
    "cos": r"-\sin(x)",
    "tan": r"(1 + \tan^2 x)",
    "erf": r"\frac{2}{\sqrt\pi}\, e^{-x^2}",
    "absolute": r"\operatorname{sign}(x)",
    "clip": r"\begin{cases} 1 & a \le x \le b \\ 0 & \text{otherwise} \end{cases}",
}


def of_one_number(name):
    """Return the environments of a function, and of its convention at a kink."""
    options = {"min": 0.5, "max": 2.0} if name == "clip" else {}
    f = functools.partial(getattr(of_calculus, name), **options)
    slope = functools.partial(getattr(calculus, f"{name}_deriv"), **options)
    given = {"f": f, "at": "x", "a": 0.5, "b": 2.0}
    points = SOME if name in {"log", "log1p", "sqrt"} else np.append(SOME, -SOME)
    rows = elementwise(f, {"x": points}, **given)
    for x in {"absolute": [0.0], "clip": [0.5, 2.0]}.get(name, []):
        moved = {r"\pdv{L}{x}": 1.7 * slope(x), r"\dot x": -0.6, r"\dot y": -0.6 * slope(x)}
        rows.append({"x": x, "u": 1.7, "f'": slope, **given, **moved})
    return rows


def register(name, slope):
    """Mark both products with a slope as read."""

    def check():
        return of_one_number(name) + (of_one_number("expm1") if name == "exp" else [])

    check.__name__ = check.__qualname__ = f"products_of_{name}"
    factor = f"-u\\, {slope[1:]}" if slope[0] == "-" else f"u\\, {slope}"
    reads(rf"\pdv{{L}}{{x}} = {factor}", rf"\dot y = {slope}\, \dot x")(check)


for _name, _slope in SLOPES.items():
    register(_name, _slope)


@reads(r"e^x = \sum_{n=0}^\infty \frac{x^n}{n!} , \qquad \dv{}{x} e^x = \sum_{n=1}^\infty…")
def series_of_the_exponential():
    return each({"x": X})


@reads(r"1 = e^{\log x}\, \dv{}{x} \log x = x\, \dv{}{x} \log x…")
def slope_of_the_logarithm():
    return of_one_number("log")


@reads(r"\dv{}{x} \log(1 + x) = \frac{1}{1 + x}\, \dv{}{x} (1 + x) = \frac{1}{1 + x}")
def slope_of_log1p():
    return of_one_number("log1p")


@reads(r"\dv{}{x} (e^x - 1) = e^x")
def slope_of_expm1():
    return of_one_number("expm1")


@reads(r"1 = 2 y\, \dv{y}{x} \quad\Longrightarrow\quad \dv{y}{x} = \frac{1}{2 y}…")
def slope_of_the_root():
    return of_one_number("sqrt")


@equation(
    r"""\dv{}{x} (\cos x + \mathrm{i} \sin x) = \dv{}{x} e^{\mathrm{i} x}
    = \mathrm{i} e^{\mathrm{i} x} = -\sin x + \mathrm{i} \cos x"""
)
def velocity_on_the_circle():
    for x in X:
        by_parts = complex_step(np.cos, x) + 1j * complex_step(np.sin, x)
        yield by_parts, 1j * np.exp(1j * x), -math.sin(x) + 1j * math.cos(x)
        yield by_parts, calculus.cos_deriv(x) + 1j * calculus.sin_deriv(x)


@reads(r"\dv{}{x} \sin x = \cos x")
def slope_of_the_sine():
    return of_one_number("sin")


@reads(r"\dv{}{x} \cos x = -\sin x")
def slope_of_the_cosine():
    return of_one_number("cos")


@reads(r"\dv{}{x} \frac{\sin x}{\cos x} = \frac{\cos^2 x + \sin^2 x}{\cos^2 x}…")
def slope_of_the_tangent():
    return of_one_number("tan")


@reads(r"\operatorname{erf} x = \frac{2}{\sqrt\pi} \int_0^x e^{-t^2}\, \dd t…")
def slope_of_the_error_function():
    return [{"x": x} for x in X]


@reads(r"\dv{}{x} \abs{x} = \operatorname{sign}(x)…")
def slope_of_the_absolute_value():
    return [row for row in of_one_number("absolute") if row["x"] != 0]


@reads(r"f'(x) = \begin{cases} 1 & a \le x \le b \\ 0 & \text{otherwise} \end{cases}")
def slope_of_a_clip():
    return of_one_number("clip")


# Element by element


@reads(r"\pdv{y_i}{w_j} = \pdv{y_i}{x_j} = \delta_{ij} \quad\Longrightarrow\quad J_w = J_x = I .")
def jacobians_of_a_sum():
    J_w, J_x = of_calculus.add_vjp(np.ones(4), W, X)
    jacobians = {"J_w": np.diag(J_w), "J_x": np.diag(J_x)}
    return mapped(of_calculus.add, PAIR, I=np.eye(4), **jacobians)


@reads(r"\pdv{y_i}{w_j} = \delta_{ij}, \qquad \pdv{y_i}{x_j} = -\delta_{ij} .")
def jacobians_of_a_difference():
    return mapped(of_calculus.subtract, PAIR)


@equation(
    r"""\pdv{y_i}{w_j} = 0 \quad (i \ne j), \qquad
    \pdv{y_i}{w_i} = \pdv{f}{w}(w_i, x_i) ."""
)
def elementwise_jacobians_are_diagonal():
    def f(w, x):
        return np.sin(w * x) + w**2 * np.exp(x)

    by_w, _ = both_jacobians(f)
    for i in range(4):
        yield [by_w[i, j] for j in range(4) if i != j], 0
        yield by_w[i, i], complex_step(lambda w, i=i: f(w, X[i]), W[i])


@reads(r"J_w = \operatorname{diag}(x), \qquad J_x = \operatorname{diag}(w) .")
def jacobians_of_a_product():
    J_w, J_x = both_jacobians(of_calculus.multiply)
    return {"w": W, "x": X, "J_w": J_w, "J_x": J_x}


@reads(r"\pdv{L}{w_j} = \sum_i u_i \pdv{y_i}{w_j} = \sum_i u_i x_i \delta_{ij} = u_j x_j .")
def gradient_through_a_product():
    return mapped(of_calculus.multiply, PAIR)


@reads(
    r"\pdv{y_i}{w_i} = \frac{1}{x_i}, \qquad \pdv{y_i}{x_i} = -\frac{y_i}{x_i}…",
    r"\dot y_j = \frac{\dot w_j}{x_j} - \frac{w_j\, \dot x_j}{x_j^2}",
)
def slopes_and_tangent_of_a_quotient():
    return mapped(of_calculus.divide, PAIR)


@reads(r"\frac{\dot y}{y} = \frac{\dot w}{w} - \frac{\dot x}{x} .")
def relative_change_of_a_quotient():
    return elementwise(of_calculus.divide, PAIR)


@reads(r"\pdv{y}{x} = e^{x \log w} \log w = w^x \log w, \qquad \pdv{y}{w}…")
def slopes_of_a_power():
    return elementwise(of_calculus.power, {"w": np.abs(W), "x": X})


@reads(r"\pdv{y_i}{w_i} = H(w_i - x_i), \qquad \pdv{y_i}{x_i} = H(x_i - w_i).")
def slopes_of_the_larger():
    heaviside = lambda z: np.heaviside(z, 0.5)  # noqa: E731
    return mapped(of_calculus.maximum, {"w": MANY_W, "x": MANY_X}, H=heaviside)


@equation(r"\pdv{\min}{w} = 1 - \pdv{\max}{w} = \pdv{\max}{x} .")
def slopes_of_the_smaller():
    smaller, _ = both_jacobians(np.minimum)
    by_w, by_x = both_jacobians(np.maximum)
    yield np.diag(smaller), 1 - np.diag(by_w), np.diag(by_x)


# Reductions


@reads(r"\pdv{y}{x_j} = \sum_i \pdv{x_i}{x_j} = \sum_i \delta_{ij} = 1, \qquad \nabla y…")
def gradient_of_a_sum():
    return mapped(
        of_calculus.sum,
        {"x": X},
        i=range(4),
        **{r"\nabla y": calculus.sum_grad(X), r"\vec 1": np.ones(4)},
    )


@reads(r"\pdv{y}{x_j} = \frac{1}{n} .")
def gradient_of_a_mean():
    return mapped(of_calculus.mean, {"x": X}, n=4)


@reads(r"\pdv{y}{x_j} = \prod_{i \ne j} x_i .")
def gradient_of_a_product_of_all():
    return mapped(of_calculus.prod, {"x": X})


@reads(r"\pdv{y}{x_j} = \delta_{jk} .")
def gradient_of_the_largest_or_the_smallest():
    largest = mapped(of_calculus.max, {"x": X}, k=np.argmax(X))
    return [largest, mapped(of_calculus.min, {"x": X}, k=np.argmin(X))]


@reads(r"\min_i x_i = -\max_i (-x_i)")
def the_smallest_element():
    return {"x": X}


@reads(r"\nabla y = \frac{x}{\norm{x}} .")
def gradient_of_the_norm():
    return {"x": X, r"\nabla y": of_calculus.norm_grad(X)}


@reads(r"\pdv{y}{x_j} = \sum_i \pdv{(x_i z)}{x_j} = \sum_i \delta_{ij}\, z = z, \qquad \pdv{y}{z}…")
def gradients_of_a_scaled_sum():
    return mapped(of_calculus.scaled_sum, {"x": X, "z": 0.7}, i=range(4))


@equation(
    r"""\nabla_w\, y = \pdv{y}{p} \pdv{p}{w}
    = \vec{1}^\top \operatorname{diag}(x) = x^\top ,"""
)
def gradient_of_a_dot_product():
    by_p, by_w = jacobian_of(np.sum, W * X), jacobian_of(lambda w: w * X, W)
    gradient = jacobian_of(lambda w: np.dot(w, X), W)
    yield gradient, by_p @ by_w, np.ones(4).T @ np.diag(X), X.T


# Matrices


@reads(
    r"\pdv{Y_{il}}{A_{rs}} = \sum_m \delta_{ir} \delta_{ms} B_{ml} = \delta_{ir} B_{sl}…",
    r"\pdv{L}{A_{rs}} = \sum_{i,l} U_{il}\, \delta_{ir} B_{sl} = \sum_l U_{rl} B_{sl}…",
)
def derivatives_of_a_matrix_product():
    return MATMUL


@reads(r"\pdv{y}{x_k} = \sum_{ij} (\delta_{ik} A_{ij} x_j + x_i A_{ij} \delta_{jk})…")
def gradients_of_a_quadratic_form():
    return mapped(of_calculus.quadratic_form, {"x": X, "A": A})


@reads(r"\pdv{y}{A_{kl}} = \sum_i \delta_{ik} \delta_{il} = \delta_{kl} .")
def gradient_of_the_trace():
    return mapped(of_calculus.trace, {"A": A}, i=range(4))


@reads(r"\pdv{y}{A_{kl}} = \frac{1}{\det \mat A} \pdv{\det \mat A}{A_{kl}} = (\mat A^{-1})_{lk}…")
def gradient_of_the_log_determinant():
    f = lambda a: np.log(np.linalg.det(a) ** 2) / 2  # noqa: E731
    return [
        mapped(f, {"A": a}, **{r"\nabla y": calculus.logdet_grad(a)})
        for a in (A, A[[1, 0, 2, 3]])  # determinants of both signs
    ]


@reads(
    r"\dot{\mat A} \mat Y + \mat A \dot{\mat Y} = 0 \quad\Longrightarrow\quad \dot{\mat Y}…",
    r"\pdv{Y_{ij}}{A_{kl}} = -Y_{ik} Y_{lj} .",
    r"\pdv{L}{\mat A} = -(\mat Y \mat U^\top \mat Y)^\top = -\mat Y^\top \mat U \mat Y^\top .",
)
def derivatives_of_an_inverse():
    return INVERSE


@reads(
    r"\dd \mat A\, \mat Y + \mat A\, \dd \mat Y = \dd \mat B \quad…",
    r"\pdv{L}{\mat B} = \mat G , \qquad \pdv{L}{\mat A} = -\mat G\, \mat Y^\top .",
    r"\dot{\mat Y} = \mat A^{-1} \bigl( \dot{\mat B} - \dot{\mat A}\, \mat Y \bigr) .",
)
def derivatives_of_a_linear_system():
    system = mapped(of_calculus.solve, {"A": A, "B": A[::-1, :3] + 1}, "Y")
    return {**system, "G": np.linalg.inv(A).T @ system["u"]}


# The chain rule, and what it costs


@reads(r"\dv{y}{x} = \dv{y}{u} \dv{u}{x} .")
def chain_rule_of_one_variable():
    chain = {"u": Of(lambda x: x**2 * np.exp(x), "x"), "y": Of(np.sin, "u")}
    return [{"x": x, **chain} for x in X]


@reads(r"\pdv{y_i}{x_j} = \sum_k \pdv{y_i}{u_k} \pdv{u_k}{x_j}…")
def chain_rule_of_vectors():
    u, y = Of(lambda x: np.sin(SECOND @ x), "x"), Of(lambda u: np.exp(FIRST @ u), "u")
    outer, inner = jacobian_of(y.function, u.function(X)), jacobian_of(u.function, X)
    functions = {"J_f": lambda _: outer, "J_g": lambda _: inner, "g": u.function}
    by_x = {r"J_{f \circ g}": lambda _: jacobian_of(lambda x: y.function(u.function(x)), X)}
    return {"x": X, "u": u, "y": y, **functions, **by_x}


@reads(r"\pdv{L}{x_j} = \sum_i u_i \pdv{y_i}{x_j} .")
def loss_after_a_map():
    def loss(y):
        return np.sum(y**2 * np.arange(1, y.size + 1), axis=0)

    y = Of(lambda x: np.sin(SECOND @ np.exp(x)), "x")
    return {"x": X, "y": y, "L": Of(loss, "y"), "u": jacobian_of(loss, y.function(X))}


@reads(r"\dv{y}{x} = \sum_{i=1}^{k} \pdv{y}{u_i} \pdv{u_i}{x} .")
def derivative_along_all_paths():
    u = Of(lambda x: From(1, [x, x**2, np.exp(x)]), "x")  # the first is x itself
    y = Of(lambda u: u[0] * np.sin(u[1]) + u[2] ** 2 * u[0], "u")
    return {"x": 0.3, "k": 3, "u": u, "y": y}


N = [3, 7, 2, 9, 4, 5]  # the widths of a chain of five Jacobians
L = len(N) - 1
SHAPES = [(N[k - 1], N[k]) for k in range(1, L + 1)]


def cost_of(order):
    """Return the sides of a product of the Jacobians in an order, and its multiplications."""
    if isinstance(order, int):
        return *SHAPES[order], 0
    (rows, inner, left), (_, columns, right) = map(cost_of, order)
    return rows, columns, left + right + rows * inner * columns


def all_orders(i, j):
    """Yield every way of multiplying the Jacobians from i to j."""
    if i == j:
        yield i
    for k in range(i, j):
        for left in all_orders(i, k):
            yield from ((left, right) for right in all_orders(k + 1, j))


@reads(r"C_\text{forward} = n_L \sum_{k=1}^{L-1} n_{k-1} n_k .")
def the_cost_of_forward_mode():
    counted = cost_of((0, (1, (2, (3, 4)))))[2]
    found = calculus.chain_cost(SHAPES, mode="forward")[0]
    return [{"n": N, "L": L, r"C_\text{forward}": cost} for cost in (counted, found)]


@reads(r"C_\text{reverse} = n_0 \sum_{k=2}^{L} n_{k-1} n_k .")
def the_cost_of_reverse_mode():
    counted = cost_of(((((0, 1), 2), 3), 4))[2]
    found = calculus.chain_cost(SHAPES, mode="reverse")[0]
    return [{"n": N, "L": L, r"C_\text{reverse}": cost} for cost in (counted, found)]


@reads(r"m_{ii} = 0, \qquad m_{ij} = \min_{i \le k < j} \bigl( m_{ik} + m_{k+1,j}…")
def the_least_cost():
    costs = np.zeros((L, L))
    for i, j in itertools.combinations(range(L), 2):  # over all orders of the matrices i to j
        costs[i, j] = min(cost_of(order)[2] for order in all_orders(i, j))
    found = {"m": Shifted([1, 1], costs), "n": N, "k": range(1, L + 1)}
    pairs = itertools.combinations(range(1, L + 1), 2)
    assert costs[0, -1] == calculus.chain_cost(SHAPES)[0]
    return [{**found, "i": i, "j": j} for i, j in pairs]


# The page of the chapter


@reads(r"\vec y = \begin{pmatrix} x_1 x_2 \\ \sin x_1 \\ x_2^2 \end{pmatrix} , \qquad \mat J…")
def a_jacobian_of_three_rows():
    y = lambda x: np.array([x[0] * x[1], np.sin(x[0]), x[1] ** 2])  # noqa: E731
    return {"x": From(1, X[:2]), "y": y(X), "J": jacobian_of(y, X[:2])}


@reads(r"\mat J_A = \mat I_n \otimes \mat B^\top , \qquad \mat J_B = \mat A \otimes \mat I_p .")
def jacobians_of_stacked_rows():
    a, b = FIRST, SECOND
    by_a = jacobian_of(lambda a: a @ b, a).reshape(8, 6)
    by_b = jacobian_of(lambda b: a @ b, b).reshape(8, 12)
    return {"A": a, "B": b, "J_A": by_a, "J_B": by_b, "I_n": np.eye(2), "I_p": np.eye(4)}


@reads(r"\mat H \vec v = \dv{}{t} \nabla f(\vec x + t \vec v) \Big|_{t = 0} ,")
def hessian_vector_product():
    f = lambda x: np.log(np.sum(np.exp(x)))  # noqa: E731
    slope = lambda x: np.exp(x) / np.sum(np.exp(x))  # noqa: E731
    return {"H": hessian_of(f, X), "x": X, "v": U, r"\nabla f": slope, "t": 0.0}


@reads(r"\kappa = \Bigl| \frac{x f'(x)}{f(x)} \Bigr| .", rtol=1e-06)
def condition_number():
    step, rows = 1e-6, []
    for f in (np.log, np.exp, lambda x: 3.0 - x):
        for x in (0.3, 1.2, 2.5):
            change = (f(x * (1 + step)) - f(x * (1 - step))) / (2 * f(x))
            rows.append({"f": f, "x": x, r"\kappa": abs(change) / step})
    return rows
