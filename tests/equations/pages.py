"""The displayed equations of pages that belong to no topic, and of the elementary functions."""

import itertools

import mpmath
import numpy as np
from equations.ledger import definition, equation
from equations.numeric import complex_step, jacobian_of

from dlref import activations, calculus, losses, neurons


@definition(r"J_{ij} = \pdv{y_i}{x_j},")
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


@definition(
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


@definition(r"\vec z_l = \mat W_l \vec h_{l-1} + \vec b_l , \qquad \vec h_l = \phi(\vec z_l) ,")
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
