"""Inline relations of propagation, and of its exercises."""

import math

import numpy as np
from equations.numeric import jacobian_of
from equations.stated import Near, draw, stated

from dlref import activations, propagation


@stated("dlref/propagation/_signal_propagation.py")
def of_critical_gains():
    z, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / np.sum(weight)
    f, df = np.tanh(z), 1 - np.tanh(z) ** 2
    yield r"\E s f(s) = \E f'(s)", weight @ (z * f), weight @ df, Near(1e-8)
    yield r"q^* = (3 + \sqrt{17}) / 2 = 3.56", (3 + math.sqrt(17)) / 2, 3.56, Near(5e-3)
    relu = 2 / (0.0**2 + 1.0**2)
    text = r"\sigma_w^2 = 2 / (\phi'(0^-)^2 + \phi'(0^+)^2)"
    yield text, propagation.critical_gain("relu") ** 2, relu


@stated("dlref/propagation/_initialization.py")
def of_variances():
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / np.sum(weight)
    out = activations.leaky_relu(z, negative_slope=0.3)
    text = r"\E \phi(z)^2 = \frac{1 + a^2}{2} \E z^2"
    yield text, weight @ out**2, (1 + 0.3**2) / 2 * (weight @ z**2), Near(1e-9)


@stated("dlref/propagation/_initialization.py")
def of_gradients_of_a_layer():
    W, h, u = draw(89, (2, 3), 3, 2)
    text = r"\partial L / \partial h_j = \sum_i W_{ij}\, \partial L / \partial z_i"
    yield (
        text,
        jacobian_of(lambda h: u @ (W @ h), h),
        [sum(W[i, j] * u[i] for i in range(2)) for j in range(3)],
    )


@stated("docs/exercises/propagation/gradient_magnitude.rst")
def of_a_weight_that_makes_up():
    yield (
        r"w \cdot \frac14 = 1",
        float(propagation.gradient_magnitude(4.0, 7, activation_slope=0.25)),
        1,
    )


@stated("dlref/propagation/_signal_propagation.py")
def of_hermite_polynomials():
    z, weight = np.polynomial.hermite_e.hermegauss(40)
    weight, c = np.outer(weight, weight) / np.sum(weight) ** 2, 0.6
    other = c * z[:, None] + np.sqrt(1 - c**2) * z
    for n in range(5):
        unit = np.eye(5)[n] / np.sqrt(float(math.factorial(n)))
        h, h_m = (np.polynomial.hermite_e.hermeval(x, unit) for x in (z[:, None], other))
        yield r"\E h_n h_m = c^n", np.sum(weight * h * h_m), c**n
