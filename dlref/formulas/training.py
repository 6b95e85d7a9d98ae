"""
Formulas of the chapter on training.

theta stands for the parameters, g for the gradient and eta for the learning rate. Parameters are
a tree: an array, None, or a tuple of trees. Functions whose names begin with simple_ take a step
for one array; the others take it for a tree, with all options, and carry a state along, whose
first entry is the number of steps so far. A state of None starts.
"""

import numpy as np

from .activations import activation_of, second_slope_of, softmax_vjp
from .losses import cross_entropy, cross_entropy_grad, squared_error, squared_error_grad
from .neurons import as_rows, mlp, mlp_vjp

# == shared


def rate_at(learning_rate, step):
    """A learning rate is a number, or a function of the step 1, 2, ..."""
    return learning_rate(step) if callable(learning_rate) else learning_rate


def tree_full(tree, value):
    """The same number everywhere, with which the sums and means of an optimizer start."""
    return tree_map(lambda a: np.full_like(a, value), tree)


def with_decay(params, grads, weight_decay):
    """Gradient of the loss plus half the squared parameters, times the weight decay."""
    return tree_map(lambda theta, g: g + weight_decay * theta, params, grads)


# == fit_neuron


def fit_neuron(X, y, w, b, *, learning_rate, epochs):
    """
    The loop, with the gradient of the mean squared error written out.

    >>> X, y, w = np.array([[1.0]]), np.array([3.0]), np.array([1.0])
    >>> w, b, losses = fit_neuron(X, y, w, 0.0, learning_rate=0.25, epochs=2)
    >>> print(w, b, losses)
    [2.] 1.0 [4. 0.]
    """
    N, losses = len(y), []
    for epoch in range(1, epochs + 1):
        z = X @ w + b
        e = np.maximum(z, 0) - y
        losses.append(np.mean(e**2))
        d = 2 / N * e * (z > 0)
        eta = rate_at(learning_rate, epoch)
        w = w - eta * (X.T @ d)
        b = b - eta * np.sum(d)
    return w, b, np.array(losses)


# == gradient_descent


def simple_gradient_descent(value_and_grad, theta, learning_rate, steps):
    """
    The loop for one array, with the loss before each step.

    >>> parabola = lambda x: (2 * x**2, 4 * x)
    >>> print(*simple_gradient_descent(parabola, 8.0, 0.125, 3))
    1.0 [128.  32.   8.]
    """
    losses = []
    for _ in range(steps):
        value, g = value_and_grad(theta)
        losses.append(value)
        theta = theta - learning_rate * g
    return theta, np.array(losses)


def gradient_descent(value_and_grad, params, *, learning_rate, steps):
    """
    The loop for a tree, with rates that may depend on the step.

    >>> parabola = lambda x: (2 * x**2, 4 * x)
    >>> x, losses = gradient_descent(parabola, 8.0, learning_rate=0.125, steps=3)
    >>> print(x, losses)
    1.0 [128.  32.   8.]
    """
    losses = []
    for step in range(1, steps + 1):
        value, grads = value_and_grad(params)
        losses.append(value)
        eta = rate_at(learning_rate, step)
        params = descended(params, grads, eta)
    return params, np.array(losses)


def descended(params, directions, eta):
    """Parameters after a step against a direction."""
    return tree_map(lambda theta, d: theta - eta * d, params, directions)


# == sgd


def simple_sgd_step(theta, g, learning_rate):
    """
    One step against the gradient.

    >>> theta, g = np.array([1.0, 2.0]), np.array([2.0, 0.0])
    >>> print(simple_sgd_step(theta, g, 0.25))
    [0.5 2. ]
    """
    return theta - learning_rate * g


def sgd_step(params, grads, state, *, learning_rate, weight_decay=0.0):
    """
    One step, with weight decay.

    >>> params, grads = (np.array([1.0, 2.0]), 3.0), (np.array([2.0, 0.0]), 4.0)
    >>> params, state = sgd_step(params, grads, None, learning_rate=0.25)
    >>> print(*params)
    [0.5 2. ] 2.0
    """
    step = 0 if state is None else state[0]
    grads = with_decay(params, grads, weight_decay)
    return descended(params, grads, learning_rate), (step + 1,)


# == momentum


def simple_momentum_step(theta, g, v, learning_rate, momentum=0.9):
    """
    One step of the heavy ball, without dampening; v starts at 0.

    >>> theta, v = 0.0, 0.0
    >>> for _ in range(4):
    ...     theta, v = simple_momentum_step(theta, 1.0, v, 1.0, momentum=0.5)
    ...     print(theta, v)
    -1.0 1.0
    -2.5 1.5
    -4.25 1.75
    -6.125 1.875
    """
    v = momentum * v + g
    return theta - learning_rate * v, v


def simple_nesterov_step(theta, g, v, learning_rate, momentum=0.9):
    """
    One step of Nesterov's method.

    >>> print(*simple_nesterov_step(0.0, 1.0, 0.0, 1.0, momentum=0.5))
    -1.5 1.0
    """
    v = momentum * v + g
    return theta - learning_rate * (g + momentum * v), v


def momentum_step(
    params, grads, state, *, learning_rate, momentum=0.9, dampening=0.0, weight_decay=0.0
):  # fmt: skip
    """
    One step of the heavy ball; the first gradient is not dampened.

    >>> p, state = 0.0, None
    >>> for _ in range(4):
    ...     p, state = momentum_step(p, 1.0, state, learning_rate=1, momentum=0.5)
    ...     print(p, state[1])
    -1.0 1.0
    -2.5 1.5
    -4.25 1.75
    -6.125 1.875
    """
    step, velocity = (0, tree_full(params, 0)) if state is None else state
    share = 1 if state is None else 1 - dampening
    grads = with_decay(params, grads, weight_decay)
    velocity = tree_map(lambda v, g: momentum * v + share * g, velocity, grads)
    return descended(params, velocity, learning_rate), (step + 1, velocity)


def nesterov_step(
    params, grads, state, *, learning_rate, momentum=0.9, weight_decay=0.0
):  # fmt: skip
    """
    One step of Nesterov's method, with weight decay.

    >>> p, state = nesterov_step(0.0, 1.0, None, learning_rate=1, momentum=0.5)
    >>> print(p, state[1])
    -1.5 1.0
    """
    step, velocity = (0, tree_full(params, 0)) if state is None else state
    grads = with_decay(params, grads, weight_decay)
    velocity = tree_map(lambda v, g: momentum * v + g, velocity, grads)
    ahead = tree_map(lambda v, g: g + momentum * v, velocity, grads)
    return descended(params, ahead, learning_rate), (step + 1, velocity)


# == adagrad


def simple_adagrad_step(theta, g, s, learning_rate, eps=1e-10):
    """
    One step; s, the sum of all squares, starts at 0.

    >>> theta, s, g = np.zeros(2), np.zeros(2), np.array([1.0, 1000.0])
    >>> for _ in range(4):
    ...     theta, s = simple_adagrad_step(theta, g, s, 1.0)
    ...     print(theta.round(4))
    [-1. -1.]
    [-1.7071 -1.7071]
    [-2.2845 -2.2845]
    [-2.7845 -2.7845]
    """
    s = s + g**2
    return theta - learning_rate * g / (np.sqrt(s) + eps), s


def adagrad_step(
    params, grads, state, *, learning_rate,
    lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10,
):  # fmt: skip
    """
    One step, with a learning rate that may fall on its own.

    >>> p, g, state = np.zeros(2), np.array([1.0, 1000.0]), None
    >>> for _ in range(4):
    ...     p, state = adagrad_step(p, g, state, learning_rate=1)
    ...     print(p.round(4))
    [-1. -1.]
    [-1.7071 -1.7071]
    [-2.2845 -2.2845]
    [-2.7845 -2.7845]
    """
    first = 0, tree_full(params, initial_accumulator_value)
    step, total = first if state is None else state
    eta = learning_rate / (1 + step * lr_decay)
    grads = with_decay(params, grads, weight_decay)
    total = tree_map(lambda s, g: s + g**2, total, grads)
    direction = tree_map(lambda s, g: g / (np.sqrt(s) + eps), total, grads)
    return descended(params, direction, eta), (step + 1, total)


# == rmsprop


def simple_rmsprop_step(theta, g, s, learning_rate, alpha=0.99, eps=1e-8):
    """
    One step, without momentum; s, the mean of the squares, starts at 0.

    >>> theta, s = 0.0, 0.0
    >>> for _ in range(3):
    ...     theta, s = simple_rmsprop_step(theta, 1.0, s, 1.0)
    ...     print(theta.round(3))
    -10.0
    -17.089
    -22.891
    """
    s = alpha * s + (1 - alpha) * g**2
    return theta - learning_rate * g / (np.sqrt(s) + eps), s


def rmsprop_step(
    params, grads, state, *, learning_rate,
    alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False,
):  # fmt: skip
    """
    One step; centered divides by a standard deviation, and momentum adds a velocity.

    >>> p, state = 0.0, None
    >>> for _ in range(3):
    ...     p, state = rmsprop_step(p, 1.0, state, learning_rate=1)
    ...     print(p.round(3))
    -10.0
    -17.089
    -22.891
    """
    zeros = tree_full(params, 0)
    step, square, mean, velocity = (0, zeros, zeros, zeros) if state is None else state
    grads = with_decay(params, grads, weight_decay)
    square = tree_map(lambda s, g: alpha * s + (1 - alpha) * g**2, square, grads)
    variance = square
    if centered:
        mean = tree_map(lambda m, g: alpha * m + (1 - alpha) * g, mean, grads)
        variance = tree_map(lambda s, m: np.maximum(s - m**2, 0), square, mean)
    direction = tree_map(lambda s, g: g / (np.sqrt(s) + eps), variance, grads)
    if momentum > 0:
        velocity = tree_map(lambda v, d: momentum * v + d, velocity, direction)
        direction = velocity
    params = descended(params, direction, learning_rate)
    mean = mean if centered else None
    velocity = velocity if momentum > 0 else None
    return params, (step + 1, square, mean, velocity)


# == adam


def simple_adam_step(theta, g, m, v, t, learning_rate, beta1=0.9, beta2=0.999, eps=1e-8):
    """
    Step t = 1, 2, ...; m and v start at 0.

    >>> options = {"learning_rate": 0.75, "beta1": 0.5, "beta2": 0.75, "eps": 0.0}
    >>> theta, m, v = simple_adam_step(1.0, 2.0, 0.0, 0.0, 1, **options)
    >>> print(theta, m, v)
    0.25 1.0 1.0
    """
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - learning_rate * m_hat / (np.sqrt(v_hat) + eps), m, v


def simple_adamw_step(theta, g, m, v, t, learning_rate, weight_decay=0.01):
    """
    AdamW: the decay stands outside the fraction.

    >>> theta, zero = np.array([8.0, -8.0]), np.zeros(2)
    >>> theta, m, v = simple_adamw_step(theta, zero, zero, zero, 1, 0.5, weight_decay=0.25)
    >>> print(theta)
    [ 7. -7.]
    """
    kept = (1 - learning_rate * weight_decay) * theta
    return simple_adam_step(kept, g, m, v, t, learning_rate)


def adam_direction(params, grads, state, betas, eps, amsgrad):
    """The corrected mean over the root of the corrected mean square, and the new state."""
    beta1, beta2 = betas
    zeros = tree_full(params, 0)
    step, mean, square, largest = (0, zeros, zeros, zeros) if state is None else state
    t = step + 1
    mean = tree_map(lambda m, g: beta1 * m + (1 - beta1) * g, mean, grads)
    square = tree_map(lambda v, g: beta2 * v + (1 - beta2) * g**2, square, grads)
    largest = tree_map(np.maximum, largest, square) if amsgrad else None
    m_hat = tree_map(lambda m: m / (1 - beta1**t), mean)
    v_hat = tree_map(lambda v: v / (1 - beta2**t), largest if amsgrad else square)
    direction = tree_map(lambda m, v: m / (np.sqrt(v) + eps), m_hat, v_hat)
    return direction, (t, mean, square, largest)


def adam_step(
    params, grads, state, *, learning_rate,
    betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False,
):  # fmt: skip
    """
    One step; the decay is part of the gradient, and so of both means.

    >>> options = {"learning_rate": 0.75, "betas": (0.5, 0.75), "eps": 0.0}
    >>> p, state = adam_step(1.0, 2.0, None, **options)
    >>> print(p)
    0.25
    """
    grads = with_decay(params, grads, weight_decay)
    direction, state = adam_direction(params, grads, state, betas, eps, amsgrad)
    return descended(params, direction, learning_rate), state


def adamw_step(
    params, grads, state, *, learning_rate,
    betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False,
):  # fmt: skip
    """
    One step; the decay is no part of the gradient.

    >>> p, zero = np.array([8.0, -8.0]), np.zeros(2)
    >>> p, state = adamw_step(p, zero, None, learning_rate=0.5, weight_decay=0.25)
    >>> print(p)
    [ 7. -7.]
    """
    direction, state = adam_direction(params, grads, state, betas, eps, amsgrad)
    kept = tree_map(lambda theta: (1 - learning_rate * weight_decay) * theta, params)
    return descended(kept, direction, learning_rate), state


def nadam_step(
    params, grads, state, *, learning_rate, betas=(0.9, 0.999), eps=1e-8,
    momentum_decay=0.004, weight_decay=0.0, decoupled_weight_decay=False,
):  # fmt: skip
    """
    One step of NAdam: the new mean and the gradient, each with its own correction.

    >>> options = {"learning_rate": 0.75, "betas": (0.5, 0.75), "eps": 0.0}
    >>> p, state = nadam_step(1.0, 2.0, None, momentum_decay=0.0, **options)
    >>> print(p.round(12))
    0.15
    """
    beta1, beta2 = betas
    zeros = tree_full(params, 0)
    step, product, mean, square = (0, 1.0, zeros, zeros) if state is None else state
    t = step + 1
    mu, mu_next = (beta1 * (1 - 0.96 ** (s * momentum_decay) / 2) for s in (t, t + 1))
    product = product * mu
    if not decoupled_weight_decay:
        grads = with_decay(params, grads, weight_decay)
    mean = tree_map(lambda m, g: beta1 * m + (1 - beta1) * g, mean, grads)
    square = tree_map(lambda v, g: beta2 * v + (1 - beta2) * g**2, square, grads)

    def direction(m, v, g):
        ahead = mu_next * m / (1 - product * mu_next) + (1 - mu) * g / (1 - product)
        return ahead / (np.sqrt(v / (1 - beta2**t)) + eps)

    directions = tree_map(direction, mean, square, grads)
    if decoupled_weight_decay:
        params = tree_map(lambda theta: (1 - learning_rate * weight_decay) * theta, params)
    return descended(params, directions, learning_rate), (t, product, mean, square)


# == lion


def simple_lion_step(theta, g, m, learning_rate, beta1=0.9, beta2=0.99, weight_decay=0.0):
    """
    One step against the sign of a mean; m starts at 0.

    >>> theta, g = np.ones(3), np.array([1e-9, -1e9, 0.0])
    >>> theta, m = simple_lion_step(theta, g, np.zeros(3), 0.25)
    >>> print(theta)
    [0.75 1.25 1.  ]
    """
    sign = np.sign(beta1 * m + (1 - beta1) * g)
    theta = (1 - learning_rate * weight_decay) * theta - learning_rate * sign
    return theta, beta2 * m + (1 - beta2) * g


def lion_step(
    params, grads, state, *, learning_rate, betas=(0.9, 0.99), weight_decay=0.0
):  # fmt: skip
    """
    One step, of the sign of one mean; another mean is kept.

    >>> p, g = np.ones(3), np.array([1e-9, -1e9, 0.0])
    >>> p, state = lion_step(p, g, None, learning_rate=0.25)
    >>> print(p)
    [0.75 1.25 1.  ]
    """
    beta1, beta2 = betas
    step, mean = (0, tree_full(params, 0)) if state is None else state
    sign = tree_map(lambda m, g: np.sign(beta1 * m + (1 - beta1) * g), mean, grads)
    mean = tree_map(lambda m, g: beta2 * m + (1 - beta2) * g, mean, grads)
    kept = tree_map(lambda theta: (1 - learning_rate * weight_decay) * theta, params)
    return descended(kept, sign, learning_rate), (step + 1, mean)


# == adafactor


def rms(a):
    """Root mean square of all elements."""
    return np.sqrt(np.mean(a * a))


def simple_adafactor_step(w, g, r, c, t, learning_rate):
    """
    Step t = 1, 2, ... for one matrix; r and c start at 0.

    >>> w, g = np.full((2, 2), 4.0), np.array([[1.0, -10.0], [100.0, 1000.0]])
    >>> w, r, c = simple_adafactor_step(w, g, np.zeros(2), np.zeros(2), 1, 0.125)
    >>> print(w)
    [[3.5 4.5]
     [3.5 3.5]]
    """
    share = t**-0.8
    r = (1 - share) * r + share * np.mean(g**2, axis=1)
    c = (1 - share) * c + share * np.mean(g**2, axis=0)
    direction = g / np.sqrt(np.outer(r, c) / np.mean(r))
    direction = direction / max(1, rms(direction))
    return w - min(learning_rate, t**-0.5) * max(rms(w), 1e-3) * direction, r, c


def adafactor_step(
    params, grads, state, *, learning_rate,
    beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0,
):  # fmt: skip
    """
    One step for matrices, stacks of them, and vectors.

    >>> w, g = np.full((2, 2), 4.0), np.array([[1.0, -10.0], [100.0, 1000.0]])
    >>> w, state = adafactor_step(w, g, None, learning_rate=0.125)
    >>> print(w)
    [[3.5 4.5]
     [3.5 3.5]]
    """
    zeros = tree_map(lambda g: 0.0, grads)
    step, row, column, square = (0, zeros, zeros, zeros) if state is None else state
    t = step + 1
    share = t**beta2_decay

    def mean_over(axis):
        def mean(g, old):
            return (1 - share) * old + share * np.mean(g * g, axis=axis, keepdims=True)

        return lambda g, old: mean(g, old) if np.ndim(g) > 1 else None

    def mean_of_each(g, old):
        return (1 - share) * old + share * g * g if np.ndim(g) < 2 else None

    row, column = tree_map(mean_over(-1), grads, row), tree_map(mean_over(-2), grads, column)
    square = tree_map(mean_of_each, grads, square)

    def updated(w, g, r, c, v):
        least = np.finfo(np.asarray(w).dtype).eps if eps[0] is None else eps[0]
        if np.ndim(w) > 1:
            v = r * c / np.maximum(np.mean(r, axis=-2, keepdims=True), least)
        direction = g / np.maximum(np.sqrt(v), least)
        rate = min(learning_rate, t**-0.5) * max(rms(w), eps[1])
        kept = (1 - learning_rate * weight_decay) * w
        return kept - rate * direction / max(1, rms(direction) / d)

    return tree_map(updated, params, grads, row, column, square), (t, row, column, square)


# == muon


def simple_muon_step(w, g, m, learning_rate, momentum=0.95, weight_decay=0.1):
    """
    One step for one matrix; m starts at 0.

    >>> zero, g = np.zeros((2, 2)), np.diag([100.0, 5.0])
    >>> w, m = simple_muon_step(zero, g, zero, 1.0)
    >>> print(w.round(2))
    [[-0.7   0.  ]
     [ 0.   -0.76]]
    """
    m = momentum * m + (1 - momentum) * g
    step = newton_schulz((1 - momentum) * g + momentum * m)
    rate = learning_rate * max(1, w.shape[0] / w.shape[1]) ** 0.5
    return (1 - learning_rate * weight_decay) * w - rate * step, m


def muon_factor(w, adjust):
    """Factor of the learning rate of a matrix."""
    rows, columns = w.shape
    if adjust == "match_rms_adamw":
        return 0.2 * max(rows, columns) ** 0.5
    return max(1, rows / columns) ** 0.5


def muon_step(
    params, grads, state, *, learning_rate, momentum=0.95, nesterov=True, weight_decay=0.1,
    steps=5, coefficients=(3.4445, -4.7750, 2.0315), eps=1e-7, adjust="original",
):  # fmt: skip
    """
    One step: a mean of the gradients, with its singular values brought near 1.

    >>> w, g = np.zeros((2, 2)), np.diag([100.0, 5.0])
    >>> w, state = muon_step(w, g, None, learning_rate=1.0)
    >>> print(w.round(2))
    [[-0.7   0.  ]
     [ 0.   -0.76]]
    """
    mu = momentum
    step, mean = (0, tree_full(params, 0)) if state is None else state
    mean = tree_map(lambda m, g: mu * m + (1 - mu) * g, mean, grads)
    blend = tree_map(lambda m, g: (1 - mu) * g + mu * m, mean, grads) if nesterov else mean

    def updated(w, n):
        ns = newton_schulz(n, steps=steps, coefficients=coefficients, eps=eps)
        r = muon_factor(w, adjust)
        return (1 - learning_rate * weight_decay) * w - learning_rate * r * ns

    return tree_map(updated, params, blend), (step + 1, mean)


# == newton_schulz


def newton_schulz(x, *, steps=5, coefficients=(3.4445, -4.7750, 2.0315), eps=1e-7):
    """
    All singular values near 1, by a polynomial of the matrix.

    >>> q = np.array([[0.8, 0.6], [-0.6, 0.8]])
    >>> x = q @ np.diag([4.0, 1.0])
    >>> print(newton_schulz(x, coefficients=(1.875, -1.25, 0.375), steps=12))
    [[ 0.8  0.6]
     [-0.6  0.8]]
    """
    a, b, c = coefficients
    norm = np.sqrt(np.sum(x * x, axis=(-2, -1), keepdims=True))
    x = x / np.maximum(norm, eps)
    for _ in range(steps):
        gram = x @ np.swapaxes(x, -1, -2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


# == clipping


def clip_by_norm(grads, max_norm):
    """
    One factor for all arrays.

    >>> grads = (np.array([0.0, 3.0]), np.array([4.0]))
    >>> print(*clip_by_norm(grads, 2.5))
    [0.  1.5] [2.]
    """
    norm = float(np.sqrt(sum(np.sum(g * g) for g in tree_leaves(grads))))
    factor = 1 if norm <= max_norm else max_norm / norm
    if np.isinf(norm):  # such a gradient has no direction to keep
        factor = np.nan
    return tree_map(lambda g: g * factor, grads)


def clip_by_value(grads, limit):
    """
    Each element by itself.

    >>> grads = np.array([100.0, 2.0])
    >>> print(clip_by_value(grads, 1.0))
    [1. 1.]
    """
    return tree_map(lambda g: np.clip(g, -limit, limit), grads)


# == schedules


def warmup_schedule(step, *, peak, warmup):
    """
    Up in a line, then constant.

    >>> step = np.array([1, 2, 3, 4, 5])
    >>> print(warmup_schedule(step, peak=8.0, warmup=4))
    [2. 4. 6. 8. 8.]
    """
    t = np.asarray(step)
    return np.where(t < warmup, peak * t / max(warmup, 1), peak)


def cosine_schedule(step, *, peak, steps, warmup=0, floor=0.0):
    """
    Up in a line, then down along half a cosine.

    >>> step = np.array([0, 50, 100, 150])
    >>> print(cosine_schedule(step, peak=1.0, steps=100, floor=0.25))
    [1.    0.625 0.25  0.25 ]
    """
    t = np.asarray(step)
    done = np.clip((t - warmup) / (steps - warmup), 0, 1)
    falling = floor + (peak - floor) * (1 + np.cos(np.pi * done)) / 2
    return np.where(t < warmup, peak * t / max(warmup, 1), falling)


def wsd_schedule(step, *, peak, steps, decay, warmup=0, floor=0.0, kind="linear"):
    """
    Up in a line, constant, then down in the last steps.

    >>> step = np.array([5, 10, 80, 90, 100, 150])
    >>> print(wsd_schedule(step, peak=1.0, steps=100, decay=20, warmup=10))
    [0.5 1.  1.  0.5 0.  0. ]
    """
    t = np.asarray(step)
    u = np.clip((t - steps + decay) / decay, 0, 1)
    if kind == "linear":
        left = 1 - u
    elif kind == "1-sqrt":
        left = 1 - np.sqrt(u)
    else:
        left = (1 + np.cos(np.pi * u)) / 2
    return np.where(t < warmup, peak * t / max(warmup, 1), floor + (peak - floor) * left)


def inverse_sqrt_schedule(step, *, peak, warmup):
    """
    Up in a line, then down as one over the root.

    >>> step = np.array([2, 4, 16, 64])
    >>> print(inverse_sqrt_schedule(step, peak=1.0, warmup=4))
    [0.5  1.   0.5  0.25]
    """
    t = np.asarray(step)
    return peak * np.minimum(t / warmup, np.sqrt(warmup / np.maximum(t, 1)))


# == trees


def tree_leaves(tree):
    """The arrays of a tree, in order."""
    if isinstance(tree, tuple):
        return [leaf for entry in tree for leaf in tree_leaves(entry)]
    return [] if tree is None else [tree]


def tree_map(f, tree, *others):
    """
    A function of all arrays at the same place, for every place.

    >>> params = np.array([[1.0, 2.0]]), np.array([3.0])
    >>> grads = np.array([[10.0, 0.0]]), np.array([-10.0])
    >>> print(*tree_map(lambda theta, g: theta - 0.1 * g, params, grads))
    [[0. 2.]] [4.]
    """
    if isinstance(tree, tuple):
        entries = [tree_map(f, *parts) for parts in zip(tree, *others, strict=True)]
        return type(tree)(*entries) if hasattr(tree, "_fields") else tuple(entries)
    return None if tree is None else f(tree, *others)


def tree_ravel(tree):
    """
    One vector of all parameters.

    >>> params = np.array([[1.0, 2.0]]), np.array([3.0])
    >>> print(tree_ravel(params))
    [1. 2. 3.]
    """
    return np.concatenate([np.ravel(a) for a in tree_leaves(tree)] or [np.zeros(0)])


def tree_unravel(vector, like):
    """
    The tree that such a vector was made of.

    >>> like = np.zeros((1, 2)), np.zeros(1)
    >>> print(*tree_unravel(np.array([1.0, 2.0, 3.0]), like))
    [[1. 2.]] [3.]
    """
    sizes = [np.size(a) for a in tree_leaves(like)]
    parts = iter(np.split(vector, np.cumsum(sizes)[:-1]) if sizes else [])
    return tree_map(lambda a: next(parts).reshape(np.shape(a)), like)


# == mlp_loss


def mlp_loss(x, targets, params, *, loss="cross_entropy", activation="relu", dropout=None):
    """
    The mean loss of the outputs.

    >>> x, targets = np.ones((5, 3)), np.array([0, 1, 1, 0, 1])
    >>> params = ((np.zeros((2, 3)), np.zeros(2)),)
    >>> print(mlp_loss(x, targets, params) / np.log(2))
    1.0
    """
    value = {"cross_entropy": cross_entropy, "squared_error": squared_error}[loss]
    out = mlp(x, params, activation=activation, dropout=dropout)
    return value(out, targets)


def mlp_loss_grad(
    x, targets, params, *, loss="cross_entropy", activation="relu", dropout=None
):  # fmt: skip
    """
    Forward pass, gradient of the loss, backpropagation.

    >>> from collections import namedtuple
    >>> Layer = namedtuple("Layer", "weight bias")
    >>> params = (Layer(np.zeros((1, 1)), np.zeros(1)),)
    >>> x, targets = np.array([[2.0]]), np.array([[3.0]])
    >>> print(*mlp_loss_grad(x, targets, params, loss="squared_error"))
    Layer(weight=array([[-12.]]), bias=array([-6.]))
    """
    grad = {"cross_entropy": cross_entropy_grad, "squared_error": squared_error_grad}[loss]
    out = mlp(x, params, activation=activation, dropout=dropout)
    dout = grad(out, targets)
    _, dparams = mlp_vjp(dout, x, params, activation=activation, dropout=dropout)
    return dparams


def mlp_loss_value_and_grad(
    x, targets, params, *, loss="cross_entropy", activation="relu", dropout=None
):  # fmt: skip
    """
    The loss and its gradient.

    >>> from collections import namedtuple
    >>> Layer = namedtuple("Layer", "weight bias")
    >>> x, targets = np.ones((4, 3)), np.array([0, 1, 1, 1])
    >>> params = (Layer(np.zeros((2, 3)), np.zeros(2)),)
    >>> value, [layer] = mlp_loss_value_and_grad(x, targets, params)
    >>> print(value / np.log(2), layer.bias)
    1.0 [ 0.25 -0.25]
    """
    options = {"loss": loss, "activation": activation, "dropout": dropout}
    value = mlp_loss(x, targets, params, **options)
    return value, mlp_loss_grad(x, targets, params, **options)


def mlp_loss_hvp(
    x, targets, params, direction,
    *, loss="cross_entropy", activation="relu", dropout=None, gauss_newton=False,
):  # fmt: skip
    """
    Backpropagation, and the tangent of each of its lines.

    >>> from collections import namedtuple
    >>> Layer = namedtuple("Layer", "weight bias")
    >>> params = (Layer(np.zeros((2, 1)), np.zeros(2)),)
    >>> direction = (Layer(np.zeros((2, 1)), np.array([1.0, 0.0])),)
    >>> [layer] = mlp_loss_hvp(np.array([[3.0]]), np.array([0]), params, direction)
    >>> print(layer.bias)
    [ 0.25 -0.25]
    """
    f, slope = activation_of(activation)
    bend = second_slope_of(activation)
    masks = [1.0 if m is None else m for m in dropout or [None] * (len(params) - 1)]
    h, dh, inputs, zs = x, np.zeros_like(x), [], []
    for l, (layer, move) in enumerate(zip(params, direction, strict=True)):
        inputs.append((h, dh))
        bias, dbias = (0.0, 0.0) if layer.bias is None else (layer.bias, move.bias)
        z = h @ layer.weight.T + bias
        dz = dh @ layer.weight.T + h @ move.weight.T + dbias
        zs.append((z, dz))
        if l < len(masks):
            h, dh = masks[l] * f(z), masks[l] * slope(z) * dz
    if loss == "cross_entropy":
        if np.ndim(targets) < np.ndim(z):  # classes
            mass = targets[..., None] != -100
            count = int(np.sum(mass))
        else:
            mass, count = np.sum(targets, axis=-1, keepdims=True), z.size / z.shape[-1]
        delta, ddelta = cross_entropy_grad(z, targets), mass * softmax_vjp(dz, z) / count
    else:
        delta, ddelta = squared_error_grad(z, targets), 2 * dz / z.size
    products = []
    for l in reversed(range(len(params))):
        delta = 0 * delta if gauss_newton else delta
        (h, dh), layer, move = inputs[l], params[l], direction[l]
        dweight = as_rows(ddelta).T @ as_rows(h) + as_rows(delta).T @ as_rows(dh)
        dbias = None if layer.bias is None else np.sum(as_rows(ddelta), axis=0)
        products.insert(0, type(layer)(dweight, dbias))
        if l > 0:
            (z, dz), mask = zs[l - 1], masks[l - 1]
            g = mask * (delta @ layer.weight)
            dg = mask * (ddelta @ layer.weight + delta @ move.weight)
            delta, ddelta = slope(z) * g, slope(z) * dg + bend(z) * dz * g
    return tuple(products)


# == minibatch_descent


def minibatches(rng, *arrays, batch_size):
    """
    One epoch: every example once, in a new order.

    >>> rng, x = np.random.default_rng(0), np.arange(5)
    >>> for batch in minibatches(rng, x, 10 * x, batch_size=2):
    ...     print(*batch)
    [2 4] [20 40]
    [3 0] [30  0]
    [1] [10]
    """
    order = rng.permutation(len(arrays[0]))
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        yield tuple(a[rows] for a in arrays)


def minibatch_descent(
    value_and_grad, params, *arrays, step, epochs, batch_size, rng, validation=None, patience=None
):  # fmt: skip
    """
    Epochs of steps; with a validation loss the parameters of its minimum are kept.

    >>> rng, y = np.random.default_rng(0), np.array([1.0, 3.0])
    >>> f = lambda p, y: (np.mean((p - y) ** 2), 2 * np.mean(p - y))
    >>> step = lambda p, g, state: (p - 0.5 * g, state)
    >>> fit = minibatch_descent(f, 0.0, y, step=step, epochs=2, batch_size=2, rng=rng)
    >>> print(fit[0], fit[1])
    2.0 [5. 1.]
    """
    state, best, best_epoch, least = None, params, 0, np.inf
    losses, checks = [], []
    for epoch in range(1, epochs + 1):
        total = 0.0
        for batch in minibatches(rng, *arrays, batch_size=batch_size):
            value, grads = value_and_grad(params, *batch)
            params, state = step(params, grads, state)
            total += value * len(batch[0])
        losses.append(total / max(len(arrays[0]), 1))
        checks.append(np.nan if validation is None else validation(params))
        if validation is None or checks[-1] < least:
            best, best_epoch, least = params, epoch, checks[-1]
        elif patience is not None and epoch - best_epoch >= patience:
            break
    return best, np.array(losses), np.array(checks), best_epoch


# == diffusion_target


def diffusion_mixture(x, noise, alpha, sigma):
    """
    The input of the model: data mixed with noise.

    >>> x, noise = np.array([2.0, -1.0]), np.array([1.0, 3.0])
    >>> print(diffusion_mixture(x, noise, 0.75, 0.5))
    [2.   0.75]
    """
    return alpha * x + sigma * noise


def diffusion_target(x, noise, alpha, sigma, *, kind="noise"):
    """
    The target of the model.

    >>> x, noise = np.array([2.0, -1.0]), np.array([1.0, 3.0])
    >>> print(diffusion_target(x, noise, 0.75, 0.5, kind="velocity"))
    [-0.25  2.75]
    """
    if kind == "noise":
        return noise
    if kind == "data":
        return x
    if kind == "velocity":
        return alpha * noise - sigma * x
    return noise - x  # of the flow


def min_snr_weight(alpha, sigma, *, kind="noise", gamma=5.0):
    """
    Weight of the squared error of a target, at each time.

    >>> print(min_snr_weight(np.array([3.0, 1.0]), np.array([1.0, 1.0]), kind="data"))
    [5. 1.]
    """
    with np.errstate(divide="ignore"):
        ratio = alpha**2 / sigma**2
    if kind == "data":
        return np.minimum(ratio, gamma)
    if kind == "noise":
        return np.where(ratio > gamma, gamma / np.where(ratio > gamma, ratio, 1), 1)
    factor = alpha**2 + sigma**2 if kind == "velocity" else alpha + sigma
    return np.minimum(alpha**2, gamma * sigma**2) / factor**2
