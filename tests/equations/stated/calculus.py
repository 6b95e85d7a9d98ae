"""Inline relations of calculus, and of its exercises."""

import math

import numpy as np
from equations.numeric import jacobian_of, rate
from equations.stated import Near, change, draw, slope, stated

from dlref import calculus


@stated("dlref/calculus/_divide.py")
def of_the_quotient():
    w, x, dw, dx, u = draw(12, 3, 3, 3, 3, 3)
    of_w, of_x = calculus.divide_vjp(u, w, x)
    yield r"\partial L / \partial x = -y \odot \partial L / \partial w", of_x, -(w / x) * of_w
    dy = calculus.divide_jvp((w, x), (dw, dx))
    yield r"\dot y = \dot w / x - w \odot \dot x / x^2", dy, dw / x - w * dx / x**2
    yield r"\dd w = x\, \dd y + y\, \dd x", dw, x * dy + w / x * dx
    of_divisor = slope(lambda x: w / x, x)
    yield r"\frac{\partial y_i}{\partial x_i} x_i + y_i = 0", of_divisor * x + w / x, np.zeros(3)


@stated("dlref/calculus/_dot.py")
def of_the_dot_product():
    w, x, dw, dx = draw(13, 3, 3, 3, 3)
    yield r"\partial y / \partial w = x", jacobian_of(lambda w: w @ x, w), x
    yield r"\partial y / \partial x = w", jacobian_of(lambda x: w @ x, x), w
    yield (
        r"\dot y = \dot w^\top x + w^\top \dot x",
        calculus.dot_jvp((w, x), (dw, dx)),
        dw @ x + w @ dx,
    )


@stated("dlref/calculus/_inverse.py")
def of_the_inverse():
    A, dA, U = draw(14, (3, 3), (3, 3), (3, 3))
    Y = np.linalg.inv(A)
    dY = calculus.inverse_jvp(A, dA)
    yield r"(1/a)' = -1/a^2", slope(lambda a: 1 / a, 0.7), -1 / 0.7**2
    yield r"\dot{\mat Y} = -\mat Y \dot{\mat A} \mat Y", dY, -Y @ dA @ Y
    yield r"\dot{\mat Y} = -\mat Y", calculus.inverse_jvp(A, A), -Y
    text = (
        r"\dd L = \operatorname{tr}(\mat U^\top \dd \mat Y) = -\operatorname{tr}(\mat U^\top "
        r"\mat Y\, \dd \mat A\, \mat Y)"
    )
    yield text, np.vdot(U, dY), np.trace(U.T @ dY), -np.trace(U.T @ Y @ dA @ Y)
    text = r"\dd L = -\operatorname{tr}(\mat Y \mat U^\top \mat Y\, \dd \mat A)"
    yield text, np.vdot(U, dY), -np.trace(Y @ U.T @ Y @ dA)


@stated("dlref/calculus/_logdet.py")
def of_the_determinant():
    A, dA = draw(15, (3, 3), (3, 3))
    inverse, det = np.linalg.inv(A), np.linalg.det(A)
    minor = lambda k, l: np.linalg.det(np.delete(np.delete(A, k, 0), l, 1))  # noqa: E731
    C = np.array([[(-1) ** (k + l) * minor(k, l) for l in range(3)] for k in range(3)])
    yield r"\det \mat A = \sum_l A_{kl} C_{kl}", det, sum(A[1, l] * C[1, l] for l in range(3))
    yield r"\partial \det \mat A / \partial A_{kl} = C_{kl}", det * inverse.T, C
    yield r"C_{kl} = \det \mat A\; (\mat A^{-1})_{lk}", C[0, 2], det * inverse[2, 0]
    text = r"\dot y = \operatorname{tr}(\mat A^{-1} \dot{\mat A})"
    yield text, calculus.logdet_jvp(A, dA), np.trace(inverse @ dA)


@stated("dlref/calculus/_power.py")
def of_the_power():
    w, x, dw, dx = np.array([1.5, 0.7]), np.array([2.0, -0.4]), *draw(16, 2, 2)
    yield r"y = e^{x \log w}", w**x, np.exp(x * np.log(w))
    yield r"(w^3)' = 3 w^2", slope(lambda w: w**3, w), 3 * w**2
    yield r"(2^x)' = 2^x \log 2", slope(lambda x: np.exp(x * np.log(2)), x), 2**x * np.log(2)
    text = r"\dot y = x \odot w^{x-1} \odot \dot w + w^x \odot \log w \odot \dot x"
    yield text, calculus.power_jvp((w, x), (dw, dx)), x * w ** (x - 1) * dw + w**x * np.log(w) * dx


@stated("dlref/calculus/_norm.py")
def of_the_norm():
    x, dx = draw(17, 4, 4)
    y = calculus.norm(x) if hasattr(calculus, "norm") else np.linalg.norm(x)
    of_x = jacobian_of(lambda x: np.sqrt(np.sum(x**2)), x)
    yield r"2 y\, \partial y / \partial x_j = 2 x_j", 2 * y * of_x, 2 * x
    yield r"\dot y = x^\top \dot x / \lVert x \rVert_2", calculus.norm_jvp(x, dx), x @ dx / y


@stated("dlref/calculus/_prod.py")
def of_the_product():
    x, dx = draw(18, 4, 4)
    dy = calculus.prod_jvp(x, dx)
    total = sum(dx[j] * np.prod(np.delete(x, j)) for j in range(4))
    yield r"\dot y = \sum_j \dot x_j \prod_{i \ne j} x_i", dy, total
    yield r"\dot y / y = \sum_j \dot x_j / x_j", dy / np.prod(x), sum(dx / x)
    yield r"(t^3)' = 3 t^2", slope(lambda t: t**3, 0.7), 3 * 0.7**2


@stated("dlref/calculus/_quadratic_form.py")
def of_the_quadratic_form():
    x, A, dx, dA = draw(19, 3, (3, 3), 3, (3, 3))
    text = (
        r"\dot y = \dot{\vec x}^\top (\mat A + \mat A^\top) \vec x +"
        r" \vec x^\top \dot{\mat A} \vec x"
    )
    yield text, calculus.quadratic_form_jvp((x, A), (dx, dA)), dx @ (A + A.T) @ x + x @ dA @ x


@stated("dlref/calculus/_multiply.py")
def of_the_product_rule():
    w, x, dw, dx = draw(20, 3, 3, 3, 3)
    text = r"\dot y = x \odot \dot w + w \odot \dot x"
    yield text, calculus.multiply_jvp((w, x), (dw, dx)), x * dw + w * dx
    e = 0.3
    text = (
        r"(w + \epsilon \dot w)(x + \epsilon \dot x) = w x + \epsilon (x \dot w + w \dot x)"
        r" + \epsilon^2 \dot w \dot x"
    )
    yield text, (w + e * dw) * (x + e * dx), w * x + e * (x * dw + w * dx) + e**2 * dw * dx


@stated("dlref/calculus/_matmul.py")
def of_the_matrix_product():
    A, B, dA, dB, U = draw(21, (2, 3), (3, 4), (2, 3), (3, 4), (2, 4))
    yield (
        r"Y_{il} = \sum_m A_{im} B_{ml}",
        A @ B,
        [[sum(A[i, m] * B[m, l] for m in range(3)) for l in range(4)] for i in range(2)],
    )
    dY = calculus.matmul_jvp((A, B), (dA, dB))
    text = r"\dot{\mat Y} = \dot{\mat A} \mat B + \mat A \dot{\mat B}"
    yield text, dY, dA @ B + A @ dB
    of_a, of_b = calculus.matmul_vjp(U, A, B)
    text = r"\dd L = \langle \mat U, \dd \mat Y \rangle = \sum_{il} U_{il}\, \dd Y_{il}"
    yield text, np.vdot(U, dY), np.vdot(of_a, dA) + np.vdot(of_b, dB)


@stated("dlref/calculus/_trace.py")
def of_the_trace():
    A, B = draw(22, (3, 3), (3, 3))
    text = r"\operatorname{tr}(\mat B^\top \mat A) = \sum_{kl} B_{kl} A_{kl}"
    yield text, np.trace(B.T @ A), sum(B[k, l] * A[k, l] for k in range(3) for l in range(3))


@stated("dlref/calculus/_max.py")
def of_the_maximum():
    x, u = draw(23, (2, 4), 2)
    grads = calculus.max_vjp(u, x, axis=-1)
    yield r"\sum_j \partial L / \partial x_{kj} = u_k", grads.sum(-1), u


change("calculus", "divide", r"\dd L = \sum_j u_j\, \dd y_j", (4,), (4,))
change("calculus", "dot", r"\dd L = u\, \dd y", (4,), (4,))
change("calculus", "logdet", r"\dd L = u\, \dd y", (3, 3))
change("calculus", "multiply", r"\dd L = \sum_i u_i\, \dd y_i", (4,), (4,))
change("calculus", "quadratic_form", r"\dd L = u\, \dd y", (3,), (3, 3))


@stated("dlref/calculus/_sum.py")
def of_the_sum():
    x, dx, u = draw(52, (2, 3), (2, 3), 2)
    yield (
        r"\dd y_k = \sum_j \dd x_{kj}",
        rate(lambda x: np.sum(x, axis=1), [x], [dx]),
        calculus.sum_jvp(x, dx, axis=1),
    )
    text = r"\dd L = \sum_k u_k\, \dd y_k = \sum_{kj} u_k\, \dd x_{kj}"
    want = sum(u[k] * dx[k, j] for k in range(2) for j in range(3))
    yield (
        text,
        u @ calculus.sum_jvp(x, dx, axis=1),
        want,
        np.vdot(calculus.sum_vjp(u, x, axis=1), dx),
    )


@stated("dlref/calculus/_mean.py")
def of_the_mean():
    x, dx, u = draw(53, (2, 3), (2, 3), 2)
    dy = calculus.mean_jvp(x, dx, axis=1)
    yield r"\dd y_k = \frac1n \sum_j \dd x_{kj}", dy, [sum(dx[k]) / 3 for k in range(2)]
    text = r"\dd L = \sum_k u_k\, \dd y_k = \sum_{kj} \frac{u_k}{n}\, \dd x_{kj}"
    want = sum(u[k] / 3 * dx[k, j] for k in range(2) for j in range(3))
    yield text, u @ dy, want, np.vdot(calculus.mean_vjp(u, x, axis=1), dx)


@stated("dlref/calculus/_norm.py")
def of_the_norms_of_slices():
    x, dx, u = draw(54, (2, 3), (2, 3), 2)
    dy = calculus.norm_jvp(x, dx, axis=1)
    text = r"\dd L = \sum_k u_k\, \dd y_k"
    yield text, sum(u[k] * dy[k] for k in range(2)), np.vdot(calculus.norm_vjp(u, x, axis=1), dx)


@stated("dlref/calculus/_maximum.py")
def of_the_larger_one():
    w, x, u = draw(55, 4, 4, 4)
    yield (
        r"\partial L / \partial w + \partial L / \partial x = u",
        sum(calculus.maximum_vjp(u, w, x)),
        u,
    )


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
    x, u = draw(57, 3, 3)
    yield r"\partial y_i / \partial z = 1", slope(lambda z: x + z, 5.0), np.ones(3)
    of_w, of_x = calculus.add_vjp(u, x, 2 * x)
    yield r"u^\top J_w = \partial L / \partial w", u @ np.eye(3), of_w
    yield r"u^\top J_x = \partial L / \partial x", u @ np.eye(3), of_x
    dw, dx = draw(58, 3, 3)
    text = r"\dot y = J_w \dot w + J_x \dot x = \dot w + \dot x"
    yield text, calculus.add_jvp((x, x), (dw, dx)), np.eye(3) @ dw + np.eye(3) @ dx, dw + dx


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
    yield r"\dot{\mat Y} = -\mat A^{-1} \dot{\mat A} \mat A^{-1}", dY, -inverse @ dA @ inverse


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


@stated("dlref/calculus/_scans.py")
def of_the_running_logsumexp():
    (x,), i, j = draw(89, 6), 4, 1
    y = np.log(np.cumsum(np.exp(x)))
    text = r"e^{x_j} / \sum_{k \le i} e^{x_k} = e^{x_j - y_i}"
    yield text, np.exp(x[j]) / sum(np.exp(x[: i + 1])), np.exp(x[j] - y[i])
