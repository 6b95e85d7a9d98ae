"""Derivatives of a transcribed formula, for the checks of equations.

A formula accepts complex numbers: `np.maximum` and `np.max` compare the real parts first, and
`np.where` on `x.real` takes pieces apart; `np.abs` does not.
"""

import math

import numpy as np

STEP = 1e-100


def complex_step(f, x, v=1.0):
    """Return the derivative of f at x along v, exact to rounding."""
    return rate(f, (x,), (v,))


def jacobian_of(f, x):
    """Return the derivatives of f, the axes of its output before those of x."""
    x = np.asarray(x, float)
    units = np.eye(x.size).reshape(x.size, *x.shape)
    columns = np.stack([complex_step(f, x, unit) for unit in units], axis=-1)
    return columns.reshape(columns.shape[:-1] + x.shape)


def rate(f, primals, tangents):
    """Return the derivative of a function of several arrays along tangents."""
    moved = [p + 1j * STEP * np.asarray(t) for p, t in zip(primals, tangents, strict=True)]
    return np.imag(f(*moved)) / STEP


def gradients(loss, *primals):
    """Return the gradients of a scalar function of several arrays."""
    return [
        jacobian_of(lambda a, k=k: loss(*primals[:k], a, *primals[k + 1 :]), primal)
        for k, primal in enumerate(primals)
    ]


def central(f, x, step=1e-6):
    """Return the slope of f at every element of x by a central difference, at kinks too."""
    return (f(x + step) - f(x - step)) / (2 * step)


def nth_derivative(f, x, order, v=1.0):
    """Return a derivative along v as Cauchy's integral over a small circle, f being analytic."""
    radius, points = 0.25, 32
    circle = np.exp(2j * np.pi * np.arange(points) / points)
    values = [f(x + radius * z * np.asarray(v)) * z**-order for z in circle]
    return np.real(np.mean(values, axis=0)) * math.factorial(order) / radius**order


def hessian_of(f, x):
    """Return the second derivatives of an analytic f of a vector, by polarization."""
    units = np.eye(x.size)
    return np.array(
        [
            [(nth_derivative(f, x, 2, a + b) - nth_derivative(f, x, 2, a - b)) / 4 for b in units]
            for a in units
        ]
    )
