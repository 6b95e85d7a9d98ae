"""The displayed equations of dlref.calculus."""

import numpy as np
from equations.ledger import definition, equation
from equations.numeric import complex_step, hessian_of, jacobian_of

from dlref import calculus

RNG = np.random.default_rng(0)
W, X, U, DW, DX = RNG.normal(size=(5, 4))
A = RNG.normal(size=(4, 4))
DA, COTANGENT = RNG.normal(size=(2, 4, 4))
FIRST, SECOND, UPPER = (RNG.normal(size=shape) for shape in [(2, 3), (3, 4), (2, 4)])
MANY_W, MANY_X = RNG.normal(size=(2, 20))
DELTA = np.eye(4)


def both_jacobians(f, w=W, x=X):
    """Return the derivatives of f(w, x) with respect to either operand."""
    return jacobian_of(lambda w: f(w, x), w), jacobian_of(lambda x: f(w, x), x)


# Element by element


@equation(
    r"""\pdv{y_i}{w_j} = \pdv{y_i}{x_j} = \delta_{ij}
    \quad\Longrightarrow\quad J_w = J_x = I ."""
)
def jacobians_of_a_sum():
    by_w, by_x = both_jacobians(lambda w, x: w + x)
    delta = [[float(i == j) for j in range(4)] for i in range(4)]
    yield by_w, by_x, delta
    yield *calculus.add_jacobian(W, X), np.eye(4)


@equation(r"\pdv{y_i}{w_j} = \delta_{ij}, \qquad \pdv{y_i}{x_j} = -\delta_{ij} .")
def jacobians_of_a_difference():
    by_w, by_x = both_jacobians(lambda w, x: w - x)
    yield by_w, DELTA
    yield by_x, -DELTA


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


@equation(r"J_w = \operatorname{diag}(x), \qquad J_x = \operatorname{diag}(w) .")
def jacobians_of_a_product():
    by_w, by_x = both_jacobians(lambda w, x: w * x)
    yield by_w, np.diag(X)
    yield by_x, np.diag(W)


@equation(r"\pdv{L}{w_j} = \sum_i u_i \pdv{y_i}{w_j} = \sum_i u_i x_i \delta_{ij} = u_j x_j .")
def gradient_through_a_product():
    yield (
        jacobian_of(lambda w: np.sum(U * (w * X)), W),
        np.einsum("i,ij->j", U, both_jacobians(lambda w, x: w * x)[0]),
        np.einsum("i,i,ij->j", U, X, DELTA),
        U * X,
    )


@equation(
    r"""\pdv{y_i}{w_i} = \frac{1}{x_i}, \qquad
    \pdv{y_i}{x_i} = -\frac{y_i}{x_i} = -\frac{w_i}{x_i^2} ."""
)
def slopes_of_a_quotient():
    by_w, by_x = both_jacobians(lambda w, x: w / x)
    y = W / X
    yield np.diag(by_w), 1 / X
    yield np.diag(by_x), -y / X, -W / X**2


@definition(r"\dot y_j = \frac{\dot w_j}{x_j} - \frac{w_j\, \dot x_j}{x_j^2}")
def tangent_of_a_quotient():
    moved = [DW[j] / X[j] - W[j] * DX[j] / X[j] ** 2 for j in range(len(X))]
    yield calculus.divide_jvp((W, X), (DW, DX)), moved


@equation(r"\frac{\dot y}{y} = \frac{\dot w}{w} - \frac{\dot x}{x} .")
def relative_change_of_a_quotient():
    moved = complex_step(lambda t: (W + t * DW) / (X + t * DX), 0.0)
    yield moved / (W / X), DW / W - DX / X


@equation(
    r"""\pdv{y}{x} = e^{x \log w} \log w = w^x \log w, \qquad
    \pdv{y}{w} = e^{x \log w}\, \frac{x}{w} = x\, w^{x - 1} ."""
)
def slopes_of_a_power():
    w, power = np.abs(W), lambda w, x: np.exp(x * np.log(w))
    by_w, by_x = (np.diag(J) for J in both_jacobians(power, w))
    yield by_x, np.exp(X * np.log(w)) * np.log(w), w**X * np.log(w)
    yield by_w, np.exp(X * np.log(w)) * X / w, X * w ** (X - 1)


@equation(r"\pdv{y_i}{w_i} = H(w_i - x_i), \qquad \pdv{y_i}{x_i} = H(x_i - w_i).")
def slopes_of_the_larger():
    w, x = MANY_W, MANY_X
    by_w, by_x = (np.diag(J) for J in both_jacobians(np.maximum, w, x))
    yield by_w, np.heaviside(w - x, 0.5)
    yield by_x, np.heaviside(x - w, 0.5)


@equation(r"\pdv{\min}{w} = 1 - \pdv{\max}{w} = \pdv{\max}{x} .")
def slopes_of_the_smaller():
    smaller, _ = both_jacobians(np.minimum)
    by_w, by_x = both_jacobians(np.maximum)
    yield np.diag(smaller), 1 - np.diag(by_w), np.diag(by_x)


# Reductions


@equation(
    r"""\pdv{y}{x_j} = \sum_i \pdv{x_i}{x_j} = \sum_i \delta_{ij} = 1,
    \qquad \nabla y = \vec{1} ."""
)
def gradient_of_a_sum():
    yield (
        jacobian_of(np.sum, X),
        jacobian_of(lambda x: x, X).sum(axis=0),
        DELTA.sum(axis=0),
        1,
    )
    yield calculus.sum_grad(X), np.ones(4)


@equation(r"\pdv{y}{x_j} = \frac{1}{n} .")
def gradient_of_a_mean():
    n = X.size
    yield jacobian_of(np.mean, X), 1 / n


@equation(r"\pdv{y}{x_j} = \prod_{i \ne j} x_i .")
def gradient_of_a_product_of_all():
    others = [np.prod([X[i] for i in range(4) if i != j]) for j in range(4)]
    yield jacobian_of(np.prod, X), others


@equation(r"\pdv{y}{x_j} = \delta_{jk} .")
def gradient_of_the_largest():
    k = np.argmax(X)
    yield jacobian_of(np.max, X), DELTA[:, k]


@equation(r"\nabla y = \frac{x}{\norm{x}} .")
def gradient_of_the_norm():
    yield jacobian_of(lambda x: np.sqrt(np.sum(x**2)), X), X / np.linalg.norm(X)


@equation(
    r"""\pdv{y}{x_j} = \sum_i \pdv{(x_i z)}{x_j} = \sum_i \delta_{ij}\, z = z,
    \qquad
    \pdv{y}{z} = \sum_i \pdv{(x_i z)}{z} = \sum_i x_i ."""
)
def gradients_of_a_scaled_sum():
    z = 0.7
    yield (
        jacobian_of(lambda x: np.sum(x * z), X),
        jacobian_of(lambda x: x * z, X).sum(axis=0),
        (DELTA * z).sum(axis=0),
        z,
    )
    yield (
        jacobian_of(lambda z: np.sum(X * z), z),
        jacobian_of(lambda z: X * z, z).sum(),
        X.sum(),
    )


@equation(
    r"""\nabla_w\, y = \pdv{y}{p} \pdv{p}{w}
    = \vec{1}^\top \operatorname{diag}(x) = x^\top ,"""
)
def gradient_of_a_dot_product():
    by_p, by_w = jacobian_of(np.sum, W * X), jacobian_of(lambda w: w * X, W)
    gradient = jacobian_of(lambda w: np.dot(w, X), W)
    yield gradient, by_p @ by_w, np.ones(4).T @ np.diag(X), X.T


# Matrices


@equation(
    r"""\pdv{Y_{il}}{A_{rs}} = \sum_m \delta_{ir} \delta_{ms} B_{ml} = \delta_{ir} B_{sl},
    \qquad
    \pdv{Y_{il}}{B_{rs}} = A_{ir}\, \delta_{ls} ."""
)
def jacobians_of_a_matrix_product():
    a, b = FIRST, SECOND
    by_a, by_b = both_jacobians(np.matmul, a, b)
    two, three, four = np.eye(2), np.eye(3), np.eye(4)
    yield (
        by_a,
        np.einsum("ir,ms,ml->ilrs", two, three, b),
        np.einsum("ir,sl->ilrs", two, b),
    )
    yield by_b, np.einsum("ir,ls->ilrs", a, four)


@equation(
    r"""\pdv{L}{A_{rs}} = \sum_{i,l} U_{il}\, \delta_{ir} B_{sl}
    = \sum_l U_{rl} B_{sl} = (\mat U \mat B^\top)_{rs},
    \qquad
    \pdv{L}{B_{rs}} = \sum_{i,l} U_{il}\, A_{ir} \delta_{ls}
    = (\mat A^\top \mat U)_{rs} ."""
)
def gradients_through_a_matrix_product():
    a, b, u = FIRST, SECOND, UPPER
    by_a, by_b = both_jacobians(lambda a, b: np.sum(u * (a @ b)), a, b)
    yield (
        by_a,
        np.einsum("il,ir,sl->rs", u, np.eye(2), b),
        np.einsum("rl,sl->rs", u, b),
        u @ b.T,
    )
    yield by_b, np.einsum("il,ir,ls->rs", u, a, np.eye(4)), a.T @ u


@equation(
    r"""\pdv{y}{x_k} = \sum_{ij} (\delta_{ik} A_{ij} x_j + x_i A_{ij} \delta_{jk})
    = (\mat A \vec x)_k + (\mat A^\top \vec x)_k ,
    \qquad
    \pdv{y}{A_{kl}} = x_k x_l ."""
)
def gradients_of_a_quadratic_form():
    def form(x, a):
        return np.einsum("i,ij,j->", x, a, x)

    by_x, by_a = both_jacobians(form, X, A)
    first = np.einsum("ik,ij,j->k", DELTA, A, X)
    second = np.einsum("i,ij,jk->k", X, A, DELTA)
    yield by_x, first + second, A @ X + A.T @ X
    yield by_a, np.einsum("k,l->kl", X, X)


@equation(r"\pdv{y}{A_{kl}} = \sum_i \delta_{ik} \delta_{il} = \delta_{kl} .")
def gradient_of_the_trace():
    yield jacobian_of(np.trace, A), np.einsum("ik,il->kl", DELTA, DELTA), DELTA


@equation(
    r"""\pdv{y}{A_{kl}} = \frac{1}{\det \mat A} \pdv{\det \mat A}{A_{kl}} = (\mat A^{-1})_{lk},
    \qquad \nabla y = \mat A^{-\top} ."""
)
def gradient_of_the_log_determinant():
    for a in (A, A[[1, 0, 2, 3]]):  # determinants of both signs
        gradient = jacobian_of(lambda a: np.log(np.linalg.det(a) ** 2) / 2, a)
        entries = [[np.linalg.inv(a)[j, k] for j in range(4)] for k in range(4)]
        yield gradient, jacobian_of(np.linalg.det, a) / np.linalg.det(a), entries
        yield gradient, np.linalg.inv(a).T, calculus.logdet_grad(a)


@equation(
    r"""\dot{\mat A} \mat Y + \mat A \dot{\mat Y} = 0
    \quad\Longrightarrow\quad
    \dot{\mat Y} = -\mat A^{-1} \dot{\mat A} \mat Y = -\mat Y \dot{\mat A} \mat Y ."""
)
def tangent_of_an_inverse():
    Y, moved = np.linalg.inv(A), complex_step(np.linalg.inv, A, DA)
    yield DA @ Y + A @ moved, np.zeros((4, 4))
    yield moved, -np.linalg.solve(A, DA @ Y), -Y @ DA @ Y


@equation(r"\pdv{Y_{ij}}{A_{kl}} = -Y_{ik} Y_{lj} .")
def jacobian_of_an_inverse():
    Y = np.linalg.inv(A)
    yield jacobian_of(np.linalg.inv, A), -np.einsum("ik,lj->ijkl", Y, Y)


@equation(
    r"\pdv{L}{\mat A} = -(\mat Y \mat U^\top \mat Y)^\top = -\mat Y^\top \mat U \mat Y^\top ."
)
def gradient_through_an_inverse():
    Y, u = np.linalg.inv(A), COTANGENT
    gradient = jacobian_of(lambda a: np.sum(u * np.linalg.inv(a)), A)
    yield gradient, -(Y @ u.T @ Y).T, -Y.T @ u @ Y.T


# The chain rule, and what it costs


@equation(r"\dv{y}{x} = \dv{y}{u} \dv{u}{x} .")
def chain_rule_of_one_variable():
    def inner(x):
        return x**2 * np.exp(x)

    yield (
        complex_step(lambda x: np.sin(inner(x)), X),
        complex_step(np.sin, inner(X)) * complex_step(inner, X),
    )


@equation(
    r"""\pdv{y_i}{x_j} = \sum_k \pdv{y_i}{u_k} \pdv{u_k}{x_j},
    \qquad\text{that is,}\qquad
    J_{f \circ g}(x) = J_f(g(x))\, J_g(x) ."""
)
def chain_rule_of_vectors():
    def g(x):
        return np.sin(SECOND @ x)

    def f(u):
        return np.exp(FIRST @ u)

    outer, inner = jacobian_of(f, g(X)), jacobian_of(g, X)
    terms = sum(np.outer(outer[:, k], inner[k, :]) for k in range(3))
    yield jacobian_of(lambda x: f(g(x)), X), terms, outer @ inner


@equation(r"\pdv{L}{x_j} = \sum_i u_i \pdv{y_i}{x_j} .")
def loss_after_a_map():
    def y(x):
        return np.sin(SECOND @ np.exp(x))

    def loss(y):
        return np.sum(y**2 * np.arange(1, y.size + 1), axis=0)

    u, inner = jacobian_of(loss, y(X)), jacobian_of(y, X)
    yield jacobian_of(lambda x: loss(y(x)), X), sum(u[i] * inner[i] for i in range(len(u)))


@equation(r"\dv{y}{x} = \sum_{i=1}^{k} \pdv{y}{u_i} \pdv{u_i}{x} .")
def derivative_along_all_paths():
    def f(u):
        return u[0] * np.sin(u[1]) + u[2] ** 2 * u[0]

    def u(x):
        return np.stack([x, x**2, np.exp(x)])  # the first is x itself

    x = 0.3
    by_u, by_x = jacobian_of(f, u(x)), jacobian_of(u, x)
    yield jacobian_of(lambda x: f(u(x)), x), sum(by_u[i] * by_x[i] for i in range(3))


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


@definition(r"C_\text{forward} = n_L \sum_{k=1}^{L-1} n_{k-1} n_k .")
def the_cost_of_forward_mode():
    counted = cost_of((0, (1, (2, (3, 4)))))[2]
    formula = N[L] * sum(N[k - 1] * N[k] for k in range(1, L))
    yield counted, formula, calculus.chain_cost(SHAPES, mode="forward")[0]


@definition(r"C_\text{reverse} = n_0 \sum_{k=2}^{L} n_{k-1} n_k .")
def the_cost_of_reverse_mode():
    counted = cost_of(((((0, 1), 2), 3), 4))[2]
    formula = N[0] * sum(N[k - 1] * N[k] for k in range(2, L + 1))
    yield counted, formula, calculus.chain_cost(SHAPES, mode="reverse")[0]


@definition(
    r"""m_{ii} = 0, \qquad
    m_{ij} = \min_{i \le k < j} \bigl( m_{ik} + m_{k+1,j} + n_{i-1} n_k n_j \bigr) ."""
)
def the_least_cost():
    def m(i, j):
        if i == j:
            return 0
        return min(m(i, k) + m(k + 1, j) + N[i - 1] * N[k] * N[j] for k in range(i, j))

    cheapest = min(cost_of(order)[2] for order in all_orders(0, L - 1))
    yield cheapest, m(1, L), calculus.chain_cost(SHAPES)[0]


# The page of the chapter


@equation(
    r"""\vec y = \begin{pmatrix} x_1 x_2 \\ \sin x_1 \\ x_2^2 \end{pmatrix} , \qquad
    \mat J = \begin{pmatrix} x_2 & x_1 \\ \cos x_1 & 0 \\ 0 & 2 x_2 \end{pmatrix} ."""
)
def a_jacobian_of_three_rows():
    found = jacobian_of(lambda x: np.array([x[0] * x[1], np.sin(x[0]), x[1] ** 2]), X[:2])
    yield found, [[X[1], X[0]], [np.cos(X[0]), 0], [0, 2 * X[1]]]


@equation(r"\mat J_A = \mat I_n \otimes \mat B^\top , \qquad \mat J_B = \mat A \otimes \mat I_p .")
def jacobians_of_stacked_rows():
    a, b = FIRST, SECOND
    by_a = jacobian_of(lambda a: a @ b, a).reshape(8, 6)
    by_b = jacobian_of(lambda b: a @ b, b).reshape(8, 12)
    yield by_a, np.kron(np.eye(2), b.T)
    yield by_b, np.kron(a, np.eye(4))
    columns = lambda J, shape: np.concatenate(  # noqa: E731
        [J.reshape(2, 4, -1)[:, :, :].transpose(1, 0, 2).reshape(8, *shape)], axis=0
    )
    stacked = columns(by_a, (2, 3)).transpose(0, 2, 1).reshape(8, 6)
    yield stacked, np.kron(b.T, np.eye(2))  # of columns, as in the book
    stacked = columns(by_b, (3, 4)).transpose(0, 2, 1).reshape(8, 12)
    yield stacked, np.kron(np.eye(4), a)


@equation(r"\mat H \vec v = \dv{}{t} \nabla f(\vec x + t \vec v) \Big|_{t = 0} ,")
def hessian_vector_product():
    f = lambda x: np.log(np.sum(np.exp(x)))  # noqa: E731
    gradient = lambda x: np.exp(x) / np.sum(np.exp(x))  # noqa: E731
    yield jacobian_of(f, X), gradient(X)
    yield hessian_of(f, X) @ U, complex_step(lambda t: gradient(X + t * U), 0.0)


@equation(r"\kappa = \Bigl| \frac{x f'(x)}{f(x)} \Bigr| .", rtol=1e-6)
def condition_number():
    epsilon = 1e-7
    for f in (np.log, np.exp, lambda x: 3.0 - x):
        x = np.array([0.3, 1.2, 2.5])
        kappa = np.abs(x * complex_step(f, x) / f(x))
        change = (f(x * (1 + epsilon)) - f(x * (1 - epsilon))) / (2 * f(x))
        yield np.abs(change) / epsilon, kappa
    yield np.abs(x / (3.0 - x)), kappa  # of a difference
    x = np.array([0.3, 1.2])
    yield np.abs(x * complex_step(np.log, x) / np.log(x)), 1 / np.abs(np.log(x))
