"""Inline relations of neurons, and of its exercises."""

import numpy as np
from equations.numeric import jacobian_of, rate
from equations.stated import draw, stated

from dlref import neurons


@stated("docs/exercises/neurons/mlp.rst")
def of_the_exercises_on_mlp():
    W1, W2, b1, b2, x, z = draw(31, (4, 3), (2, 4), 4, 2, 3, 5)
    text = r"W_2 (W_1 x + b_1) + b_2 = (W_2 W_1) x + (W_2 b_1 + b_2)"
    yield text, W2 @ (W1 @ x + b1) + b2, (W2 @ W1) @ x + (W2 @ b1 + b2)
    yield r"\max(0, a z) = a \max(0, z)", np.maximum(0, 2.5 * z), 2.5 * np.maximum(0, z)
    u = np.array([1.0, -2.0])
    want = jacobian_of(lambda z: u @ (W2 @ np.tanh(z) + b2), b1)
    text = r"\vec \delta_{l-1} = \mat W_l^\top \vec \delta_l \odot f'(\vec z_{l-1})"
    yield text, want, (W2.T @ u) * (1 - np.tanh(b1) ** 2)


@stated("docs/exercises/neurons/mlp.rst")
def of_balanced_gradients():
    w, v, x, u, dW, da, db = draw(85, 3, 2, 3, 2, (2, 3), 3, 2)
    b = 0.7
    f = lambda w, b, v: u @ (v * np.tanh(0 * b) + v * (w @ x + b))  # noqa: E731
    grads = [
        jacobian_of(lambda a, k=k: f(*[a if j == k else p for j, p in enumerate((w, b, v))]), p)
        for k, p in enumerate((w, b, v))
    ]
    text = (
        r"\vec w \cdot \partial L / \partial \vec w + b\, \partial L / \partial b = "
        r"\vec v \cdot \partial L / \partial \vec v"
    )
    yield text, w @ grads[0] + b * grads[1], v @ grads[2]  # where the unit is active
    W = draw(86, (2, 3))[0]
    text = (
        r"\dd \vec z_l = \dd \mat W_l\, \vec a_{l-1} + \mat W_l\, \dd \vec a_{l-1} + \dd \vec b_l"
    )
    step = rate(lambda W, a, b: W @ a + b, [W, x, u], [dW, da, db])
    yield text, step, dW @ x + W @ da + db


@stated("dlref/neurons/_lora_linear.py")
def of_low_rank():
    x, W, A, B, U = draw(112, (5, 4), (3, 4), (2, 4), (3, 2), (5, 3))
    s = 0.6
    grads = neurons.lora_linear_vjp(U, x, W, A, B, scale=s)
    G = U.T @ x  # of the merged weight
    names = {g.shape: g for g in grads if g is not None}
    yield r"\partial L / \partial \mat B = s\, \mat G \mat A^\top", names[3, 2], s * G @ A.T


@stated("docs/exercises/neurons/mlp.rst")
def of_the_change_of_a_layer():
    delta, dz, W, b = draw(133, 2, 2, (2, 3), 2)
    text = r"\dd L = \vec \delta_l^\top \dd \vec z_l"
    yield text, sum(delta[i] * dz[i] for i in range(2)), delta.T @ dz
    x = draw(134, 3)[0]
    yield r"\vec z_l = \mat W_l \vec a_{l-1} + \vec b_l", neurons.linear(x, W, b), W @ x + b
