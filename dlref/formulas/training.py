"""
Formulas of the chapter on training.

theta stands for the parameters, g for the gradient and eta for the learning rate. Parameters are
a tree: an array, None, or a tuple of trees. Functions whose names begin with simple_ take a step
for one array; the others take it for a tree, with all options, and carry a state along, whose
first entry is the number of steps so far. A state of None starts.
"""

import numpy as np

from .losses import cross_entropy, cross_entropy_grad, squared_error, squared_error_grad
from .neurons import mlp, mlp_vjp

# == shared


def rate_at(learning_rate, step):
    """A learning rate is a number, or a function of the step 1, 2, ..."""
    return learning_rate(step) if callable(learning_rate) else learning_rate


def tree_full(tree, value):
    """The same number everywhere: what the sums and means of an optimizer start with."""
    return tree_map(lambda a: np.full_like(a, value), tree)


def with_decay(params, grads, weight_decay):
    """Gradient of the loss plus half the squared parameters, times the weight decay."""
    return tree_map(lambda theta, g: g + weight_decay * theta, params, grads)


# == fit_neuron


def fit_neuron(X, y, w, b, *, learning_rate, epochs):
    """The loop, with the gradient of the mean squared error written out."""
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


def gradient_descent(value_and_grad, params, *, learning_rate, steps):
    """The loop, with the loss before each step."""
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
    """One step."""
    return theta - learning_rate * g


def sgd_step(params, grads, state, *, learning_rate, weight_decay=0.0):
    """One step, with weight decay."""
    step = 0 if state is None else state[0]
    grads = with_decay(params, grads, weight_decay)
    return descended(params, grads, learning_rate), (step + 1,)


# == momentum


def simple_momentum_step(theta, g, v, learning_rate, momentum=0.9):
    """One step of the heavy ball, without dampening; v starts at 0."""
    v = momentum * v + g
    return theta - learning_rate * v, v


def simple_nesterov_step(theta, g, v, learning_rate, momentum=0.9):
    """One step of Nesterov's method."""
    v = momentum * v + g
    return theta - learning_rate * (g + momentum * v), v


def momentum_step(
    params, grads, state, *, learning_rate, momentum=0.9, dampening=0.0, weight_decay=0.0
):  # fmt: skip
    """One step of the heavy ball; the first gradient is not dampened."""
    step, velocity = (0, tree_full(params, 0)) if state is None else state
    share = 1 if state is None else 1 - dampening
    grads = with_decay(params, grads, weight_decay)
    velocity = tree_map(lambda v, g: momentum * v + share * g, velocity, grads)
    return descended(params, velocity, learning_rate), (step + 1, velocity)


def nesterov_step(
    params, grads, state, *, learning_rate, momentum=0.9, weight_decay=0.0
):  # fmt: skip
    """One step of Nesterov's method, with weight decay."""
    step, velocity = (0, tree_full(params, 0)) if state is None else state
    grads = with_decay(params, grads, weight_decay)
    velocity = tree_map(lambda v, g: momentum * v + g, velocity, grads)
    ahead = tree_map(lambda v, g: g + momentum * v, velocity, grads)
    return descended(params, ahead, learning_rate), (step + 1, velocity)


# == adagrad


def simple_adagrad_step(theta, g, s, learning_rate, eps=1e-10):
    """One step; s starts at 0."""
    s = s + g**2
    return theta - learning_rate * g / (np.sqrt(s) + eps), s


def adagrad_step(
    params, grads, state, *, learning_rate,
    lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10,
):  # fmt: skip
    """One step, with a learning rate that may fall on its own."""
    first = 0, tree_full(params, initial_accumulator_value)
    step, total = first if state is None else state
    eta = learning_rate / (1 + step * lr_decay)
    grads = with_decay(params, grads, weight_decay)
    total = tree_map(lambda s, g: s + g**2, total, grads)
    direction = tree_map(lambda s, g: g / (np.sqrt(s) + eps), total, grads)
    return descended(params, direction, eta), (step + 1, total)


# == rmsprop


def simple_rmsprop_step(theta, g, s, learning_rate, alpha=0.99, eps=1e-8):
    """One step, without momentum; s starts at 0."""
    s = alpha * s + (1 - alpha) * g**2
    return theta - learning_rate * g / (np.sqrt(s) + eps), s


def rmsprop_step(
    params, grads, state, *, learning_rate,
    alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False,
):  # fmt: skip
    """One step; centered divides by a standard deviation, and momentum adds a velocity."""
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
    """Step t = 1, 2, ...; m and v start at 0."""
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - learning_rate * m_hat / (np.sqrt(v_hat) + eps), m, v


def simple_adamw_step(theta, g, m, v, t, learning_rate, weight_decay=0.01):
    """AdamW: the decay stands outside the fraction."""
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
    """One step; the decay is part of the gradient, and so of both means."""
    grads = with_decay(params, grads, weight_decay)
    direction, state = adam_direction(params, grads, state, betas, eps, amsgrad)
    return descended(params, direction, learning_rate), state


def adamw_step(
    params, grads, state, *, learning_rate,
    betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False,
):  # fmt: skip
    """One step; the decay is no part of the gradient."""
    direction, state = adam_direction(params, grads, state, betas, eps, amsgrad)
    kept = tree_map(lambda theta: (1 - learning_rate * weight_decay) * theta, params)
    return descended(kept, direction, learning_rate), state


# == lion


def simple_lion_step(theta, g, m, learning_rate, beta1=0.9, beta2=0.99, weight_decay=0.0):
    """One step; m starts at 0."""
    sign = np.sign(beta1 * m + (1 - beta1) * g)
    theta = (1 - learning_rate * weight_decay) * theta - learning_rate * sign
    return theta, beta2 * m + (1 - beta2) * g


def lion_step(
    params, grads, state, *, learning_rate, betas=(0.9, 0.99), weight_decay=0.0
):  # fmt: skip
    """One step, of the sign of one mean; another mean is kept."""
    beta1, beta2 = betas
    step, mean = (0, tree_full(params, 0)) if state is None else state
    sign = tree_map(lambda m, g: np.sign(beta1 * m + (1 - beta1) * g), mean, grads)
    mean = tree_map(lambda m, g: beta2 * m + (1 - beta2) * g, mean, grads)
    kept = tree_map(lambda theta: (1 - learning_rate * weight_decay) * theta, params)
    return descended(kept, sign, learning_rate), (step + 1, mean)


# == muon


def simple_muon_step(w, g, m, learning_rate, momentum=0.95, weight_decay=0.1):
    """One step for one matrix; m starts at 0."""
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
    """One step: a mean of the gradients, with its singular values brought near 1."""
    mu = momentum
    step, mean = (0, tree_full(params, 0)) if state is None else state
    mean = tree_map(lambda m, g: mu * m + (1 - mu) * g, mean, grads)
    blend = tree_map(lambda m, g: (1 - mu) * g + mu * m, mean, grads) if nesterov else mean

    def moved(w, n):
        ns = newton_schulz(n, steps=steps, coefficients=coefficients, eps=eps)
        r = muon_factor(w, adjust)
        return (1 - learning_rate * weight_decay) * w - learning_rate * r * ns

    return tree_map(moved, params, blend), (step + 1, mean)


# == newton_schulz


def newton_schulz(x, *, steps=5, coefficients=(3.4445, -4.7750, 2.0315), eps=1e-7):
    """All singular values near 1, by a polynomial of the matrix."""
    a, b, c = coefficients
    norm = np.sqrt(np.sum(x * x, axis=(-2, -1), keepdims=True))
    x = x / np.maximum(norm, eps)
    for _ in range(steps):
        gram = x @ np.swapaxes(x, -1, -2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


# == clipping


def clip_by_norm(grads, max_norm):
    """One factor for all arrays."""
    norm = float(np.sqrt(sum(np.sum(g * g) for g in tree_leaves(grads))))
    factor = 1 if norm <= max_norm else max_norm / norm
    if np.isinf(norm):  # such a gradient has no direction to keep
        factor = np.nan
    return tree_map(lambda g: g * factor, grads)


def clip_by_value(grads, limit):
    """Each element by itself."""
    return tree_map(lambda g: np.clip(g, -limit, limit), grads)


# == schedules


def warmup_schedule(step, *, peak, warmup):
    """Up in a line, then constant."""
    t = np.asarray(step)
    return np.where(t < warmup, peak * t / max(warmup, 1), peak)


def cosine_schedule(step, *, peak, steps, warmup=0, floor=0.0):
    """Up in a line, then down along half a cosine."""
    t = np.asarray(step)
    done = np.clip((t - warmup) / (steps - warmup), 0, 1)
    falling = floor + (peak - floor) * (1 + np.cos(np.pi * done)) / 2
    return np.where(t < warmup, peak * t / max(warmup, 1), falling)


def inverse_sqrt_schedule(step, *, peak, warmup):
    """Up in a line, then down as one over the root."""
    t = np.asarray(step)
    return peak * np.minimum(t / warmup, np.sqrt(warmup / np.maximum(t, 1)))


# == trees


def tree_leaves(tree):
    """The arrays of a tree, in order."""
    if isinstance(tree, tuple):
        return [leaf for entry in tree for leaf in tree_leaves(entry)]
    return [] if tree is None else [tree]


def tree_map(f, tree, *others):
    """A function of all arrays at the same place, for every place."""
    if isinstance(tree, tuple):
        entries = [tree_map(f, *parts) for parts in zip(tree, *others, strict=True)]
        return type(tree)(*entries) if hasattr(tree, "_fields") else tuple(entries)
    return None if tree is None else f(tree, *others)


def tree_ravel(tree):
    """One vector of all parameters."""
    return np.concatenate([np.ravel(a) for a in tree_leaves(tree)] or [np.zeros(0)])


def tree_unravel(vector, like):
    """The tree of such a vector."""
    sizes = [np.size(a) for a in tree_leaves(like)]
    parts = iter(np.split(vector, np.cumsum(sizes)[:-1]) if sizes else [])
    return tree_map(lambda a: next(parts).reshape(np.shape(a)), like)


# == mlp_loss


def mlp_loss(x, targets, params, *, loss="cross_entropy", activation="relu", dropout=None):
    """The mean loss of the outputs."""
    value = {"cross_entropy": cross_entropy, "squared_error": squared_error}[loss]
    out = mlp(x, params, activation=activation, dropout=dropout)
    return value(out, targets)


def mlp_loss_grad(
    x, targets, params, *, loss="cross_entropy", activation="relu", dropout=None
):  # fmt: skip
    """Forward pass, gradient of the loss, backpropagation."""
    grad = {"cross_entropy": cross_entropy_grad, "squared_error": squared_error_grad}[loss]
    out = mlp(x, params, activation=activation, dropout=dropout)
    dout = grad(out, targets)
    _, dparams = mlp_vjp(dout, x, params, activation=activation, dropout=dropout)
    return dparams


def mlp_loss_value_and_grad(
    x, targets, params, *, loss="cross_entropy", activation="relu", dropout=None
):  # fmt: skip
    """Both."""
    options = {"loss": loss, "activation": activation, "dropout": dropout}
    value = mlp_loss(x, targets, params, **options)
    return value, mlp_loss_grad(x, targets, params, **options)


# == minibatch_descent


def minibatches(rng, *arrays, batch_size):
    """One epoch: every example once, in a new order."""
    order = rng.permutation(len(arrays[0]))
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        yield tuple(a[rows] for a in arrays)


def minibatch_descent(
    value_and_grad, params, *arrays, step, epochs, batch_size, rng, validation=None, patience=None
):  # fmt: skip
    """Epochs of steps; with a validation loss the parameters of its minimum are kept."""
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
    """What the model sees."""
    return alpha * x + sigma * noise


def diffusion_target(x, noise, alpha, sigma, *, kind="noise"):
    """What the model is to predict."""
    if kind == "noise":
        return noise
    if kind == "data":
        return x
    if kind == "velocity":
        return alpha * noise - sigma * x
    return noise - x  # of the flow
