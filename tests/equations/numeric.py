"""Derivatives of a transcribed formula, for the checks of equations.

A formula accepts complex numbers: `np.maximum` and `np.max` compare the real parts first, and
`np.where` on `x.real` takes pieces apart; `np.abs` does not, hence `absolute`.
"""

import math

import numpy as np


def absolute(x):
    """Return the absolute value, continued analytically from the real axis."""
    return np.where(np.real(x) < 0, -x, x)


def complex_step(f, x, v=1.0):
    """Return the derivative of f at x along v, exact to rounding."""
    step = 1e-100
    return np.imag(f(x + 1j * step * np.asarray(v))) / step


def jacobian_of(f, x):
    """Return the derivatives of f, the axes of its output before those of x."""
    x = np.asarray(x, float)
    units = np.eye(x.size).reshape(x.size, *x.shape)
    columns = np.stack([complex_step(f, x, unit) for unit in units], axis=-1)
    return columns.reshape(columns.shape[:-1] + x.shape)


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
