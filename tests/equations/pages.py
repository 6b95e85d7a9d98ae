"""The displayed equations of pages that belong to no topic, and of the elementary functions."""

import itertools

import mpmath
import numpy as np
from equations.ledger import equation
from equations.numeric import complex_step, jacobian_of

from dlref import activations, calculus, losses, neurons


@equation(r"J_{ij} = \pdv{y_i}{x_j},")
def jacobian():
    x = np.array([0.3, -1.2, 0.7])
    units = np.eye(3)
    for i in range(3):
        for j in range(3):
            slope = complex_step(lambda x: np.exp(x)[i] / np.sum(np.exp(x)), x, units[j])  # noqa: B023
            yield activations.softmax_jacobian(x)[i, j], slope
    w = np.random.default_rng(0).normal(size=(2, 3))
    product = calculus.matmul_jacobian(w, x[:, None])[1]  # of (2, 1) by (3, 1)
    yield np.reshape(product, (2, 3)), jacobian_of(lambda x: w @ x, x)


@equation(r"\frac{\partial L}{\partial x_j} = s_j \Bigl( u_j - \sum_i s_i u_i \Bigr)")
def gradient_through_softmax():
    x, u = np.array([0.3, -1.2, 0.7]), np.array([1.0, -0.5, 2.0])
    s = np.exp(x) / np.sum(np.exp(x))
    slopes = jacobian_of(lambda x: np.sum(u * np.exp(x) / np.sum(np.exp(x))), x)
    yield slopes, [s[j] * (u[j] - sum(s[i] * u[i] for i in range(3))) for j in range(3)]


@equation(r"J_{ij} = f'(x_i) \, \delta_{ij},")
def diagonal_jacobian():
    x = np.array([0.3, -1.2, 0.7])
    delta = np.eye(3)
    slopes = [[complex_step(np.tanh, x[i]) * delta[i, j] for j in range(3)] for i in range(3)]
    yield jacobian_of(np.tanh, x), slopes


@equation(
    r"C(\vec w, b) = \frac1N \sum_n \bigl( \max(0, \vec w \cdot \vec x_n + b) - y_n \bigr)^2 ."
)
def loss_of_a_neuron():
    rng = np.random.default_rng(1)
    x, y, w, b = rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=3), 0.3
    want = sum((max(0, w @ x[n] + b) - y[n]) ** 2 for n in range(5)) / 5
    yield losses.neuron_squared_error(x, y, w, b), want


def network(x, weights, biases, bumps=(0, 0, 0)):
    """Return the values before and after tanh of each layer, the former moved by bumps."""
    h, before, after = x, [], []
    for w, b, bump in zip(weights, biases, bumps, strict=True):
        before.append(h @ w.T + b + bump)
        h = np.tanh(before[-1])
        after.append(h)
    return before, after


def drawn_network():
    """Return inputs, weights and biases of three layers."""
    rng = np.random.default_rng(2)
    sizes = [3, 4, 5, 2]
    weights = [rng.normal(size=(n, m)) for m, n in itertools.pairwise(sizes)]
    return rng.normal(size=(6, 3)), weights, [rng.normal(size=n) for n in sizes[1:]]


@equation(r"\vec z_l = \mat W_l \vec h_{l-1} + \vec b_l , \qquad \vec h_l = \phi(\vec z_l) ,")
def layers():
    x, weights, biases = drawn_network()
    h = x[0]
    for w, b in zip(weights, biases, strict=True):
        z = w @ h + b
        h = np.tanh(z)
    params = [neurons.LinearParams(*layer) for layer in zip(weights, biases, strict=True)]
    yield neurons.mlp(x[0], params, activation="tanh"), z


@equation(
    r"""\vec \delta_l = \phi'(\vec z_l) \odot \mat W_{l+1}^\top \vec \delta_{l+1} , \qquad
    \pdv{L}{\mat W_l} = \sum_{\text{rows}} \vec \delta_l \vec h_{l-1}^\top ."""
)
def backpropagation():
    x, weights, biases = drawn_network()
    before, after = network(x, weights, biases)
    u = np.random.default_rng(3).normal(size=before[-1].shape)

    def loss(bumps, weights=weights):
        return np.sum(u * network(x, weights, biases, bumps)[0][-1])

    def delta(l):
        """Return the gradient of the loss by the values before layer l, a row for each example."""
        return jacobian_of(
            lambda z: loss([z - before[k] if k == l else 0 for k in range(3)]), before[l]
        )

    for l in range(3):
        if l < 2:
            slope = complex_step(np.tanh, before[l])
            rows = [weights[l + 1].T @ d for d in delta(l + 1)]
            yield delta(l), slope * np.array(rows)
        inputs = x if l == 0 else after[l - 1]

        def moved(w, l=l):
            return loss((0, 0, 0), [w if k == l else v for k, v in enumerate(weights)])

        products = [np.outer(d, h) for d, h in zip(delta(l), inputs, strict=True)]
        yield jacobian_of(moved, weights[l]), np.sum(products, axis=0)


@equation(r"\log m = 2 \operatorname{artanh} s = 2s + s^3 L(s^2).", rtol=1e-15, atol=0)
def logarithm():
    with mpmath.workdps(40):
        for number in (0.71, 0.9, 0.999999, 1.0001, 1.4):
            m = mpmath.mpf(number)
            f = m - 1
            s = f / (2 + f)
            series = sum(2 * (s**2) ** n / (2 * n + 3) for n in range(60))  # L, of artanh's series
            values = mpmath.log(m), 2 * mpmath.atanh(s), 2 * s + s**3 * series
            yield tuple(map(float, values))


# Differentials, inner products and adjoints


def a_map(x):
    return np.stack([np.exp(x[0]) * x[1], np.sin(x[1]) + x[2] ** 2])


POINT, STEP, UPSTREAM = (
    np.array([0.3, -1.2, 0.7]),
    np.array([0.5, 1.0, -0.4]),
    np.array([2.0, -1.0]),
)


@equation(
    r"""f(\vec x + \dd \vec x) = \vec y + \dd \vec y + o(\norm{\dd \vec x}) , \qquad
    \dd \vec y = \mat J\, \dd \vec x , \qquad \dd y_i = \sum_j \pdv{y_i}{x_j}\, \dd x_j ."""
)
def the_differential():
    J = jacobian_of(a_map, POINT)
    for size in (1e-2, 1e-3, 1e-4):
        dx = size * STEP
        rest = a_map(POINT + dx) - a_map(POINT) - J @ dx
        yield np.linalg.norm(rest) < 10 * size * np.linalg.norm(dx), True  # of second order
    yield J @ STEP, complex_step(a_map, POINT, STEP)
    yield (J @ STEP)[1], sum(J[1, j] * STEP[j] for j in range(3))


def matrices():
    rng = np.random.default_rng(5)
    return [rng.normal(size=shape) for shape in ((4, 3), (2, 3), (4, 3), (2, 3), (4, 2))]


@equation(
    r"""\mat Y = \mat X \mat W^\top \quad\Rightarrow\quad
    \dd \mat Y = \dd \mat X\, \mat W^\top + \mat X\, \dd \mat W^\top ."""
)
def differential_of_a_product_of_matrices():
    X, W, dX, dW, _ = matrices()
    moved = (X + 1e-20j * dX) @ (W + 1e-20j * dW).T
    yield moved.imag / 1e-20, dX @ W.T + X @ dW.T


@equation(
    r"""\dd L = \langle \vec u, \dd \vec y \rangle = \sum_i u_i\, \dd y_i , \qquad
    \langle \mat U, \dd \mat Y \rangle = \sum_{ij} U_{ij}\, \dd Y_{ij}
    = \operatorname{tr}(\mat U^\top \dd \mat Y) ."""
)
def change_of_the_loss():
    y, dy = a_map(POINT), np.array([0.3, -0.8])
    slope = jacobian_of(lambda y: np.exp(y[0]) + y[0] * y[1], y)
    change = complex_step(lambda y: np.exp(y[0]) + y[0] * y[1], y, dy)
    yield change, np.dot(slope, dy), sum(slope[i] * dy[i] for i in range(2))
    *_, U = matrices()
    dY = np.arange(8.0).reshape(4, 2)
    double = sum(U[i, j] * dY[i, j] for i in range(4) for j in range(2))
    yield np.vdot(U, dY), double, np.trace(U.T @ dY)


@equation(
    r"""\dd L = \langle \vec u, \mat J\, \dd \vec x \rangle
    = \langle \mat J^\top \vec u, \dd \vec x \rangle
    \quad\Rightarrow\quad \pdv{L}{\vec x} = \mat J^\top \vec u ."""
)
def the_adjoint():
    J = jacobian_of(a_map, POINT)
    change = complex_step(lambda x: np.sum(UPSTREAM * a_map(x)), POINT, STEP)
    yield change, UPSTREAM @ (J @ STEP), (J.T @ UPSTREAM) @ STEP
    yield jacobian_of(lambda x: np.sum(UPSTREAM * a_map(x)), POINT), J.T @ UPSTREAM


@equation(
    r"""\langle \mat U, \dd \mat X\, \mat W^\top + \mat X\, \dd \mat W^\top \rangle
    = \langle \mat U \mat W, \dd \mat X \rangle + \langle \mat U^\top \mat X, \dd \mat W \rangle
    \quad\Rightarrow\quad \pdv{L}{\mat X} = \mat U \mat W , \quad
    \pdv{L}{\mat W} = \mat U^\top \mat X ."""
)
def adjoint_of_a_product_of_matrices():
    X, W, dX, dW, U = matrices()
    left = np.vdot(U, dX @ W.T + X @ dW.T)
    yield left, np.vdot(U @ W, dX) + np.vdot(U.T @ X, dW)
    of_x, of_w = neurons.linear_vjp(U, X, W)
    yield of_x, U @ W
    yield of_w, U.T @ X


@equation(
    r"""\mat J = \mat J_3 \mat J_2 \mat J_1 \quad\Rightarrow\quad
    \mat J^\top \vec u = \mat J_1^\top \bigl( \mat J_2^\top ( \mat J_3^\top \vec u ) \bigr) ."""
)
def adjoints_in_the_opposite_order():
    x, u = POINT, UPSTREAM
    w = np.random.default_rng(7).normal(size=(2, 3, 3))

    def first(x):
        return np.tanh(w[0] @ x)

    def second(x):
        return np.sin(w[1] @ x)

    J1, J2 = jacobian_of(first, x), jacobian_of(second, first(x))
    J3 = jacobian_of(a_map, second(first(x)))
    whole = jacobian_of(lambda x: a_map(second(first(x))), x)
    yield whole, J3 @ J2 @ J1
    yield whole.T @ u, J1.T @ (J2.T @ (J3.T @ u))


@equation(
    r"""\dv{L}{\vec h_t} = \pdv{L}{\vec h_t}
    + \Bigl( \pdv{\vec h_{t+1}}{\vec h_t} \Bigr)^\top \dv{L}{\vec h_{t+1}} ."""
)
def total_derivative_of_a_state():
    rng = np.random.default_rng(6)
    w, x, u, first = rng.normal(size=(3, 3)), *rng.normal(size=(3, 3))

    def after(h):
        return np.tanh(w @ h + x)

    def loss(h):  # of this step and of the next one
        return np.sum(u * h**2) + np.sum(np.sin(after(h)))

    direct = jacobian_of(lambda h: np.sum(u * h**2), first)
    later = jacobian_of(lambda h: np.sum(np.sin(h)), after(first))
    yield jacobian_of(loss, first), direct + jacobian_of(after, first).T @ later


# Expectations and normal integrals

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def mean_of(f):
    """Return E f(z) for a smooth f."""
    return np.sum(WEIGHTS * f(NODES))


def normal_integral(f, low=-12.0, high=12.0):
    """Return the integral of f times the normal density."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    half, middle = (high - low) / 2, (high + low) / 2
    z = middle + half * nodes
    return half * np.sum(weights * f(z) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))


@equation(
    r"""\operatorname{Var} X = \E (X - \E X)^2 = \E X^2 - (\E X)^2 , \qquad
    \operatorname{Var} \sum_i X_i = \sum_i \operatorname{Var} X_i ."""
)
def variances():
    values, chances = np.array([-1.0, 0.5, 3.0]), np.array([0.2, 0.5, 0.3])
    mean = np.sum(chances * values)
    yield np.sum(chances * (values - mean) ** 2), np.sum(chances * values**2) - mean**2
    others = np.array([2.0, -0.5, 1.0])  # independent, equally likely
    pairs, weights = values[:, None] + others, chances[:, None] / 3
    whole = np.sum(weights * (pairs - np.sum(weights * pairs)) ** 2)
    yield whole, np.sum(chances * (values - mean) ** 2) + np.mean((others - np.mean(others)) ** 2)


@equation(
    r"""z = \sum_{i=1}^n w_i x_i \quad\Rightarrow\quad \E z = 0 , \qquad
    \E z^2 = \sum_{ij} \E[w_i w_j]\, \E[x_i x_j] = n \operatorname{Var}(w) \, \overline{\E x^2} ."""
)
def variance_of_a_sum_of_products():
    w, x = np.array([-1.0, -0.5, 1.5]), np.array([[0.3, 1.7], [-0.9, 0.4], [2.0, 0.1]])
    n, choices = 3, list(itertools.product(w, repeat=3))  # all weights, equally likely
    sums = [sum(chosen[i] * x[i, k] for i in range(n)) for chosen in choices for k in range(2)]
    yield np.mean(sums), 0
    of_w = np.array([[np.mean([c[i] * c[j] for c in choices]) for j in range(n)] for i in range(n)])
    of_x = x @ x.T / 2
    double = sum(of_w[i, j] * of_x[i, j] for i in range(n) for j in range(n))
    yield np.mean(np.square(sums)), double, n * np.mean(w**2) * np.mean(np.mean(x**2, axis=1))


@equation(
    r"""\E e^{t z} = e^{t^2/2} , \qquad \E \abs z = \sqrt{2/\pi} , \qquad
    \E[e^{t z};\, z < a] = e^{t^2/2}\, \Phi(a - t) ."""
)
def three_normal_integrals():
    for t, a in ((0.7, 0.3), (-1.3, 1.1)):
        yield mean_of(lambda z, t=t: np.exp(t * z)), np.exp(t**2 / 2)
        below = normal_integral(lambda z, t=t: np.exp(t * z), high=a)
        yield below, np.exp(t**2 / 2) * float(mpmath.ncdf(a - t))
    yield 2 * normal_integral(lambda z: z, low=0.0), np.sqrt(2 / np.pi)


@equation(r"\E[z f(z)] = \E f'(z) .")
def steins_lemma():
    yield mean_of(lambda z: z * np.exp(0.3 * z + 1)), mean_of(lambda z: 0.3 * np.exp(0.3 * z + 1))
    # with a kink: a leaky ReLU
    slope = 0.1
    left = normal_integral(lambda z: slope * z * z, high=0.0) + normal_integral(np.square, low=0.0)
    yield left, slope / 2 + 1 / 2


@equation(
    r"""\int_a^b z f(z)\, \phi(z)\, dz
    = -f(b)\, \phi(b) + f(a)\, \phi(a) + \int_a^b f'(z)\, \phi(z)\, dz ."""
)
def integration_by_parts():
    def density(z):
        return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

    a, b = -0.4, 1.3
    left = normal_integral(lambda z: z * np.sin(z), a, b)
    right = -np.sin(b) * density(b) + np.sin(a) * density(a)
    yield left, right + normal_integral(np.cos, a, b)


@equation(r"\pdv{}{c} \E[f(z_1) f(z_2)] = \E[f'(z_1) f'(z_2)] .")
def prices_theorem():
    def mean(f, c):
        """Return E f(z_1) f(z_2) for the correlation c."""
        other = c * NODES[:, None] + np.sqrt(1 - c**2) * NODES
        return np.sum(WEIGHTS[:, None] * WEIGHTS * f(NODES)[:, None] * f(other))

    for c in (0.3, -0.6):
        yield complex_step(lambda c: mean(np.sin, c), c), mean(np.cos, c)
