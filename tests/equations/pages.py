"""The displayed equations of pages that belong to no topic, and of the elementary functions."""

import itertools

import mpmath
import numpy as np
from equations.evaluate import From, Of, Random, mapped, normal
from equations.ledger import equation, reads
from equations.numeric import complex_step, jacobian_of

from dlref import activations, calculus, losses, neurons
from dlref.formulas.activations import softmax


def stacked(*values):
    return From(1, values)


@reads(r"J_{ij} = \pdv{y_i}{x_j},")
def jacobian():
    x = np.array([0.3, -1.2, 0.7])
    w = np.random.default_rng(0).normal(size=(2, 3))
    product = calculus.matmul_jacobian(w, x[:, None])[1]  # of (2, 1) by (3, 1)
    of_softmax = {"J": activations.softmax_jacobian(x), "y": Of(softmax, "x"), "x": x}
    return [of_softmax, {"J": product.reshape(2, 3), "y": Of(lambda x: w @ x, "x"), "x": x}]


@reads(r"\frac{\partial L}{\partial x_j} = s_j \Bigl( u_j - \sum_i s_i u_i \Bigr)")
def gradient_through_softmax():
    return mapped(softmax, {"x": np.array([0.3, -1.2, 0.7])}, "s")


@reads(r"J_{ij} = f'(x_i) \, \delta_{ij},")
def diagonal_jacobian():
    x = np.array([0.3, -1.2, 0.7])
    return {"x": x, "f": np.tanh, "J": jacobian_of(np.tanh, x)}


@reads(r"C(\vec w, b) = \frac1N \sum_n \bigl( \max(0, \vec w \cdot \vec x_n + b) - y_n \bigr)^2 .")
def loss_of_a_neuron():
    rng = np.random.default_rng(1)
    x, y, w, b = rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=3), 0.3
    given = {"x": x, "y": y, "w": w, "b": b, "N": 5}
    return {**given, "C": lambda w, b: losses.neuron_squared_error(x, y, w, b)}


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


@reads(r"\vec z_l = \mat W_l \vec h_{l-1} + \vec b_l , \qquad \vec h_l = \phi(\vec z_l) ,")
def layers():
    x, weights, biases = drawn_network()
    params = [neurons.LinearParams(*layer) for layer in zip(weights, biases, strict=True)]
    z = [None, *(neurons.mlp(x[0], params[:n], activation="tanh") for n in (1, 2, 3))]
    h = [x[0], *map(np.tanh, z[1:])]
    given = {"W": lambda l: weights[l - 1], "b": lambda l: biases[l - 1], r"\phi": np.tanh}
    return {**given, "h": h.__getitem__, "z": z.__getitem__, "l": range(1, 4)}


@reads(r"\vec \delta_l = \phi'(\vec z_l) \odot \mat W_{l+1}^\top \vec \delta_{l+1} …")
def backpropagation():
    x, weights, biases = drawn_network()
    before, after = network(x[0], weights, biases)
    u = np.random.default_rng(3).normal(size=2)

    def loss(bumps, weights=weights):
        return np.sum(u * network(x[0], weights, biases, bumps)[0][-1])

    def one(values, k, new):
        return [new if k == l else value for l, value in enumerate(values)]

    deltas = [
        jacobian_of(lambda z, l=l: loss(one([0, 0, 0], l, z)), 0 * before[l]) for l in range(3)
    ]
    slopes = [
        jacobian_of(lambda w, l=l: loss((0, 0, 0), one(weights, l, w)), weights[l])
        for l in range(3)
    ]
    states = [x[0], *after]
    given = {"W": weights.__getitem__, "z": before.__getitem__, "h": lambda l: states[l + 1]}
    given |= {r"\delta": deltas.__getitem__, r"\pdv{L}{W}": slopes.__getitem__, r"\phi": np.tanh}
    return {**given, "l": range(2), "rows": range(1)}


@reads(r"\log m = 2 \operatorname{artanh} s = 2s + s^3 L(s^2).", rtol=1e-13, atol=0)
def logarithm():
    rows = []
    for number in (0.71, 0.9, 0.999999, 1.0001, 1.4):
        with mpmath.workdps(40):
            m = mpmath.mpf(number)
            s = (m - 1) / (m + 1)
            series = [mpmath.nsum(lambda n, s=s: 2 * s ** (2 * n) / (2 * n + 3), [0, mpmath.inf])]
        rows.append({"m": number, "s": float(s), "L": lambda _, value=float(series[0]): value})
    return rows


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
    J, shares = jacobian_of(a_map, POINT), []
    for size in (1e-2, 1e-3, 1e-4):
        dx = size * STEP
        rest = a_map(POINT + dx) - a_map(POINT) - J @ dx
        shares.append(np.linalg.norm(rest) / np.linalg.norm(dx))
    yield bool(np.all(np.diff(np.log10(shares)) < -0.9)), True  # of second order
    yield J @ STEP, complex_step(a_map, POINT, STEP)
    yield (J @ STEP)[1], sum(J[1, j] * STEP[j] for j in range(3))


def matrices():
    rng = np.random.default_rng(5)
    return [rng.normal(size=shape) for shape in ((4, 3), (2, 3), (4, 3), (2, 3), (4, 2))]


@reads(r"\mat Y = \mat X \mat W^\top \quad\Rightarrow\quad \dd \mat Y…")
def differential_of_a_product_of_matrices():
    X, W, *_ = matrices()
    return {"X": X, "W": W, "Y": Of(lambda x, w: x @ w.T, "X", "W")}


@reads(r"\dd L = \langle \vec u, \dd \vec y \rangle = \sum_i u_i\, \dd y_i …")
def change_of_the_loss():
    slope = lambda y: np.exp(y[0]) + y[0] * y[1]  # noqa: E731
    y, Y = a_map(POINT), matrices()[0]
    given = {"y": y, "L": Of(slope, "y"), "u": jacobian_of(slope, y), "Y": Y, "U": 2 * Y + 1}
    return {**given, r"\dd L": jacobian_of(slope, y) @ [0.3, -0.8], r"\dd y": np.array([0.3, -0.8])}


@reads(r"\dd L = \langle \vec u, \mat J\, \dd \vec x \rangle…")
def the_adjoint():
    loss = Of(lambda x: np.sum(UPSTREAM * a_map(x)), "x")
    return {"x": POINT, "J": jacobian_of(a_map, POINT), "u": UPSTREAM, "L": loss}


@reads(r"\langle \mat U, \dd \mat X\, \mat W^\top + \mat X\, \dd \mat W^\top \rangle…")
def adjoint_of_a_product_of_matrices():
    X, W, _, _, U = matrices()
    return {"X": X, "W": W, "U": U, "L": Of(lambda x, w: np.sum(U * (x @ w.T)), "X", "W")}


@reads(r"\mat J = \mat J_3 \mat J_2 \mat J_1 \quad\Rightarrow\quad \mat J^\top \vec u…")
def adjoints_in_the_opposite_order():
    rng = np.random.default_rng(6)
    maps = {
        f"J_{k}": rng.normal(size=shape) for k, shape in ((1, (4, 3)), (2, (5, 4)), (3, (2, 5)))
    }
    return {
        **maps,
        "u": UPSTREAM,
        "J": np.linalg.multi_dot([maps["J_3"], maps["J_2"], maps["J_1"]]),
    }


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


@reads(r"\operatorname{Var} X = \E (X - \E X)^2 = \E X^2 - (\E X)^2 …")
def variances():
    pair = [Random([0.2, 0.5, 0.3], a=[-1.0, 0.5, 3.0]), Random([1, 1, 1], b=[2.0, -0.5, 1.0])]
    return {r"\E": pair, "a": 0.0, "b": 0.0, "X": Of(lambda a, b: np.array([a, b]), "a", "b")}


@reads(r"z = \sum_{i=1}^n w_i x_i \quad\Rightarrow\quad \E z = 0 , \qquad \E z^2…")
def variance_of_a_sum_of_products():
    w, x = [-1.0, -0.5, 1.5], [[0.3, 1.7], [-0.9, 0.4], [2.0, 0.1]]
    drawn = [Random([1, 1, 1], **{name: w}) for name in "abc"]
    inputs = Random([1, 1], r=x[0], s=x[1], t=x[2])
    vectors = {"w": Of(stacked, *"abc"), "x": Of(stacked, *"rst")}
    ends = {"n": 3, "i": range(1, 4), "j": range(1, 4)}
    return {**dict.fromkeys("abcrst", 0.0), **vectors, r"\E": [*drawn, inputs], **ends}


@reads(r"\E e^{t z} = e^{t^2/2} , \qquad \E \abs z = \sqrt{2/\pi} …", rtol=0.0001)
def three_normal_integrals():
    z = (np.arange(2000) - 999.5) / 100
    grid = {r"\E": [Random(np.exp(-(z**2) / 2), z=z)], "z": 0.0}
    grid[r"\Phi"] = lambda x: float(mpmath.ncdf(float(x)))
    return [{**grid, "t": t, "a": a} for t, a in ((0.7, 0.3), (-1.3, 1.1))]


@reads(r"\E[z f(z)] = \E f'(z) .")
def steins_lemma():
    functions = (lambda z: np.exp(0.3 * z + 1), lambda z: np.sin(z) + z**3)
    return [{r"\E": [normal("z")], "z": 0.0, "f": f} for f in functions]


@reads(r"\int_a^b z f(z)\, \phi(z)\, dz = -f(b)\, \phi(b) + f(a)\, \phi(a) + \int_a^b f'(z)\,…")
def integration_by_parts():
    density = lambda z: np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)  # noqa: E731
    return {"f": np.sin, r"\phi": density, "a": -0.4, "b": 1.3}


@reads(r"\pdv{}{c} \E[f(z_1) f(z_2)] = \E[f'(z_1) f'(z_2)] .")
def prices_theorem():
    drawn = {r"\E": [normal("s"), normal("t")], "s": 0.0, "t": 0.0, "z_1": Of(lambda s: s, "s")}
    drawn["z_2"] = Of(lambda s, t, c: c * s + np.sqrt(1 - c * c) * t, "s", "t", "c")
    return [{**drawn, "f": np.sin, "c": c} for c in (0.3, -0.6)]
