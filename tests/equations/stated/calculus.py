"""Inline relations of calculus, and of its exercises."""

import math

import numpy as np
from equations.numeric import jacobian_of
from equations.stated import Near, draw, slope, stated

from dlref import calculus


@stated("dlref/calculus/_divide.py")
def of_the_quotient():
    w, x = draw(12, 3, 3)
    of_divisor = slope(lambda x: w / x, x)
    yield r"\frac{\partial y_i}{\partial x_i} x_i + y_i = 0", of_divisor * x + w / x, np.zeros(3)


@stated("dlref/calculus/_inverse.py")
def of_the_inverse():
    A = draw(14, (3, 3))[0]
    Y = np.linalg.inv(A)
    yield r"(1/a)' = -1/a^2", slope(lambda a: 1 / a, 0.7), -1 / 0.7**2
    yield r"\dot{\mat Y} = -\mat Y", calculus.inverse_jvp(A, A), -Y


@stated("dlref/calculus/_logdet.py")
def of_the_determinant():
    A = draw(15, (3, 3))[0]
    inverse, det = np.linalg.inv(A), np.linalg.det(A)
    minor = lambda k, l: np.linalg.det(np.delete(np.delete(A, k, 0), l, 1))  # noqa: E731
    C = np.array([[(-1) ** (k + l) * minor(k, l) for l in range(3)] for k in range(3)])
    yield r"\det \mat A = \sum_l A_{kl} C_{kl}", det, sum(A[1, l] * C[1, l] for l in range(3))
    yield r"\partial \det \mat A / \partial A_{kl} = C_{kl}", det * inverse.T, C
    yield r"C_{kl} = \det \mat A\; (\mat A^{-1})_{lk}", C[0, 2], det * inverse[2, 0]


@stated("dlref/calculus/_power.py")
def of_the_power():
    w, x = np.array([1.5, 0.7]), np.array([2.0, -0.4])
    yield r"(w^3)' = 3 w^2", slope(lambda w: w**3, w), 3 * w**2
    yield r"(2^x)' = 2^x \log 2", slope(lambda x: np.exp(x * np.log(2)), x), 2**x * np.log(2)


@stated("dlref/calculus/_norm.py")
def of_the_norm():
    x, dx = draw(17, 4, 4)
    y = np.linalg.norm(x)
    of_x = jacobian_of(lambda x: np.sqrt(np.sum(x**2)), x)
    yield r"2 y\, \partial y / \partial x_j = 2 x_j", 2 * y * of_x, 2 * x
    yield r"\dot y = x^\top \dot x / \lVert x \rVert_2", calculus.norm_jvp(x, dx), x @ dx / y


@stated("dlref/calculus/_prod.py")
def of_the_product():
    yield r"(t^3)' = 3 t^2", slope(lambda t: t**3, 0.7), 3 * 0.7**2


@stated("dlref/calculus/_multiply.py")
def of_the_product_rule():
    w, x, dw, dx = draw(20, 3, 3, 3, 3)
    e = 0.3
    text = (
        r"(w + \epsilon \dot w)(x + \epsilon \dot x) = w x + \epsilon (x \dot w + w \dot x)"
        r" + \epsilon^2 \dot w \dot x"
    )
    yield text, (w + e * dw) * (x + e * dx), w * x + e * (x * dw + w * dx) + e**2 * dw * dx


@stated("dlref/calculus/_trace.py")
def of_the_trace():
    A, B = draw(22, (3, 3), (3, 3))
    text = r"\operatorname{tr}(\mat B^\top \mat A) = \sum_{kl} B_{kl} A_{kl}"
    yield text, np.trace(B.T @ A), sum(B[k, l] * A[k, l] for k in range(3) for l in range(3))


@stated("dlref/calculus/_multiply.py")
def of_a_scalar_factor():
    x, u = draw(56, 3, 3)
    z = 5.0
    of_z = slope(lambda z: x * z, z)
    yield r"\partial y_i / \partial z = x_i", of_z, x
    yield (
        r"\partial y_i / \partial x_j = z\, \delta_{ij}",
        jacobian_of(lambda x: x * z, x),
        z * np.eye(3),
    )
    yield r"\partial L / \partial w = \sum_i u_i x_i", calculus.multiply_vjp(u, z, x)[0], sum(u * x)


@stated("dlref/calculus/_add.py")
def of_a_sum_with_a_scalar():
    (x,) = draw(57, 3)
    yield r"\partial y_i / \partial z = 1", slope(lambda z: x + z, 5.0), np.ones(3)


@stated("docs/exercises/calculus/inverse.rst")
def of_the_exercises_on_the_inverse():
    A, dA = draw(91, (3, 3), (3, 3))
    inverse = np.linalg.inv(A)
    dY = calculus.inverse_jvp(A, dA)
    yield r"\mat A \mat A^{-1} = \mat I", A @ inverse, np.eye(3)
    yield (
        r"\dot{\mat A} \mat A^{-1} + \mat A\, \dot{\mat Y} = 0",
        dA @ inverse + A @ dY,
        np.zeros((3, 3)),
    )


@stated("dlref/calculus/_chain_rule.py")
def of_small_changes():
    x, d = 0.7, 1e-5
    g, f = np.square, np.sin
    du, dy = g(x + d) - g(x), f(g(x + d)) - f(g(x))
    yield r"\Delta u = g'(x) \Delta x + o(\Delta x)", du / d, 2 * x, Near(1e-4)
    yield r"\Delta y = f'(u) \Delta u + o(\Delta u)", dy / du, math.cos(x**2), Near(1e-4)
    text = r"\Delta y = f'(u)\, g'(x)\, \Delta x + o(\Delta x)"
    yield text, dy / d, math.cos(x**2) * 2 * x, Near(1e-4)


@stated("dlref/calculus/_inverse.py")
def of_a_matrix_and_its_inverse():
    A = draw(107, (3, 3))[0]
    yield r"\mat A \mat Y = \mat I", A @ np.linalg.inv(A), np.eye(3)


@stated("dlref/calculus/_quadratic_form.py")
def of_antisymmetric_changes():
    x, B = draw(108, 3, (3, 3))
    yield r"\vec x^\top \dot{\mat A} \vec x = 0", x @ (B - B.T) @ x, 0


@stated("docs/exercises/calculus/accumulation.rst")
def of_a_square_in_an_exponential():
    x = 0.7
    yield r"dy/dx = e^{x^2} \cdot 2x", slope(lambda x: np.exp(x**2), x), math.exp(x**2) * 2 * x


@stated("docs/exercises/calculus/matmul.rst")
def of_a_sum_of_a_product():
    A, B = draw(131, (2, 3), (3, 4))
    grad = calculus.matmul_vjp(np.ones((2, 4)), A, B)[0]
    text = r"(\mat U \mat B^\top)_{ik} = \sum_j B_{kj}"
    yield text, grad, [[sum(B[k]) for k in range(3)] for _ in range(2)]


@stated("docs/exercises/calculus/power.rst")
def of_relative_changes():
    w, dw = 0.7, 0.3
    yield r"dy / y = 3\, dw / w", slope(lambda w: w**3, w) * dw / w**3, 3 * dw / w


@stated("dlref/calculus/_elementary.py")
def of_changes_of_exponentials():
    x, v = 0.7, 0.3
    y = np.exp(x)
    yield r"\dot y / y = \dot x", calculus.exp_jvp(x, v) / y, v


@stated("dlref/calculus/_norm.py")
def of_the_euclidean_norm():
    x = draw(61, 4)[0]
    yield r"y = \lVert x \rVert_2", calculus.norm_grad(x) @ x, np.sqrt(np.sum(x**2))
