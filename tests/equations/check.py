"""The displayed equations of dlref.check."""

import math

import numpy as np
from equations.ledger import equation
from equations.numeric import complex_step, jacobian_of

from dlref.check import ulp_error

RNG = np.random.default_rng(0)
X, V, U = RNG.normal(size=(3, 4))


def f(x):
    """Return two numbers from four."""
    return np.array([x[0] * np.exp(x[1]), np.sin(x[2]) * x[3] + x[0]])


@equation(
    r"""\frac{\abs{a - e}}{\operatorname{ulp}(e)}, \qquad
    \operatorname{ulp}(e) = 2^{k - p + 1} \quad \text{for} \quad 2^k \le \abs e < 2^{k+1},"""
)
def error_in_units_of_the_last_place():
    for e, digits, dtype in (3.0, 53, np.float64), (0.7, 24, np.float32), (-5.5, 11, np.float16):
        k = math.floor(math.log2(abs(e)))
        a = dtype(e * (1 + 3 * 2.0**-digits))
        unit = 2.0 ** (k - digits + 1)
        yield abs(float(a) - e) / unit, ulp_error(a, e)


@equation(
    r"""\vec u \cdot (\mat J \vec v) = \vec u^\top \mat J \vec v = (\mat J^\top \vec u) \cdot
    \vec v"""
)
def both_modes_give_one_number():
    jacobian, u = jacobian_of(f, X), U[:2]
    forward = complex_step(f, X, V)
    yield u @ forward, u @ jacobian @ V, (jacobian.T @ u) @ V


@equation(
    r"""\text{central: } & \quad \pdv{f}{x_j} = \frac{f(\vec x + h \vec e_j) - f(\vec x - h \vec
    e_j)}{2 h}
    + O(h^2), \\
    \text{complex: } & \quad \pdv{f}{x_j} = \frac{\operatorname{Im} f(\vec x + i h \vec
    e_j)}{h}
    + O(h^2) .""",
    rtol=1e-4,
)
def differences_and_a_complex_step():
    jacobian = jacobian_of(f, X)
    for j, unit in enumerate(np.eye(4)):
        for h in (1e-3, 1e-4):
            yield (f(X + h * unit) - f(X - h * unit)) / (2 * h), jacobian[:, j]
            yield np.imag(f(X + 1j * h * unit)) / h, jacobian[:, j]
        h = 0.1  # the error falls with the square of the step
        for method in (
            lambda h, unit=unit: (f(X + h * unit) - f(X - h * unit)) / (2 * h),
            lambda h, unit=unit: np.imag(f(X + 1j * h * unit)) / h,
        ):
            far, near = (np.abs(method(s) - jacobian[:, j]).max() for s in (h, h / 10))
            yield near <= far / 90 + 1e-13, True
