"""
Naive oracles: each displayed formula, transcribed once, with no tricks.

Written from the docstrings, never from the code under test.  They accept complex input, so
that a complex step differentiates them to the last digit; NumPy compares their real parts first.

After an oracle stands the backward pass that its page shows, if it takes a few lines: `f_vjp` or
`f_grad` of the arguments of dlref, where u is the upstream gradient. Its docstring is the caption
there. tests/test_plain.py compares it with the compiled function, with the inputs of the first call
in the record of the map.
"""

import functools
import itertools

import numpy as np
import scipy.special


def complex_step(f, inputs, tangents, h=1e-100):
    """Return the directional derivative of an analytic f, exact to rounding."""
    moved = [
        x if dx is None else np.asarray(x, np.complex128) + 1j * h * np.asarray(dx, np.float64)
        for x, dx in zip(inputs, tangents, strict=True)
    ]
    out = f(*moved)
    if isinstance(out, tuple):
        return tuple(np.asarray(y).imag / h for y in out)
    return np.asarray(out).imag / h


# calculus


def add(w, x):
    return w + x


def add_vjp(u, w, x):
    """Backward pass, for equal shapes."""
    return u, u


def subtract(w, x):
    return w - x


def multiply(w, x):
    return w * x


def multiply_vjp(u, w, x):
    """Backward pass, for equal shapes."""
    return u * x, u * w


def divide(w, x):
    return w / x


def divide_vjp(u, w, x):
    """Backward pass, for equal shapes."""
    return u / x, -u * w / x**2


def power(w, x):
    return np.exp(x * np.log(w))


def maximum(w, x):
    return np.maximum(w, x)


def minimum(w, x):
    return np.minimum(w, x)


def sum(x, axis=None, keepdims=False):
    return np.sum(x, axis=axis, keepdims=keepdims)


def sum_vjp(u, x):
    """Backward pass: every element gets the same."""
    return u * np.ones(x.shape)


def mean(x, axis=None, keepdims=False):
    count = np.sum(np.ones(x.shape), axis=axis, keepdims=keepdims)
    return np.sum(x, axis=axis, keepdims=keepdims) / count


def mean_vjp(u, x):
    """Backward pass: every element gets the same share."""
    return u * np.ones(x.shape) / x.size


def prod(x, axis=None, keepdims=False):
    return np.prod(x, axis=axis, keepdims=keepdims)


def max(x, axis=None, keepdims=False):
    return np.max(x, axis=axis, keepdims=keepdims)  # complex numbers compare by real part first


def norm(x, axis=None, keepdims=False):
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


def norm_vjp(u, x):
    """Backward pass, where x is not 0."""
    return u * x / np.sqrt(np.sum(x * x))


def dot(w, x):
    return np.sum(w * x, axis=-1)


def dot_vjp(u, w, x):
    """Backward pass."""
    return u * x, u * w


def scaled_sum(x, z):
    return np.sum(x * np.reshape(z, ()))


def matmul(a, b):
    return a @ b


def matmul_vjp(u, a, b):
    """Backward pass."""
    return u @ b.T, a.T @ u


def quadratic_form(x, a):
    return np.einsum("...i,...ij,...j->...", x, a, x)


def quadratic_form_vjp(u, x, a):
    """Backward pass."""
    return u * (a + a.T) @ x, u * np.outer(x, x)


def trace(a):
    return np.einsum("...ii->...", a)


def trace_vjp(u, a):
    """Backward pass."""
    return u * np.eye(len(a))


def inverse(a):
    return np.linalg.inv(a)


def inverse_vjp(u, a):
    """Backward pass."""
    y = np.linalg.inv(a)
    return -y.T @ u @ y.T


def logdet(a):
    return np.log(np.linalg.det(a))


def logdet_vjp(u, a):
    """Backward pass."""
    return u * np.linalg.inv(a).T


def chain_rule(*jacobians):
    return functools.reduce(np.matmul, jacobians)


# activations


def relu(x):
    return np.maximum(x, 0)


def relu_vjp(u, x):
    """Backward pass."""
    return u * (x > 0)


def relu_squared(x):
    return np.where(x.real > 0, x**2, 0)


def leaky_relu(x, negative_slope=0.01):
    return np.where(x > 0, x, negative_slope * x)


def relu6(x):
    return np.minimum(relu(x), 6)


def thresholded_relu(x, alpha=1.0):
    return np.where(x > alpha, x, 0)


def hard_tanh(x):
    return np.clip(x, -1, 1)


def hard_sigmoid(x, alpha=1 / 6, beta=0.5):
    return np.clip(alpha * x + beta, 0, 1)


def hard_swish(x):
    return x * relu6(x + 3) / 6


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * (np.exp(x) - 1))


def selu(x):
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return scale * np.where(x > 0, x, alpha * (np.exp(x) - 1))


def celu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * (np.exp(x / alpha) - 1))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sigmoid_vjp(u, x):
    """Backward pass."""
    s = sigmoid(x)
    return u * s * (1 - s)


def log_sigmoid(x):
    return np.log(sigmoid(x))


def softplus(x, beta=1.0):
    return np.log(1 + np.exp(beta * x)) / beta


def tanh(x):
    return np.sinh(x) / np.cosh(x)


def tanh_vjp(u, x):
    """Backward pass."""
    return u * (1 - np.tanh(x) ** 2)


def tanhshrink(x):
    return x - np.tanh(x)


def softsign(x):
    return x / (1 + np.maximum(x, -x))


def silu(x, beta=1.0):
    return x * sigmoid(beta * x)


def silu_vjp(u, x):
    """Backward pass."""
    s = sigmoid(x)
    return u * (s + x * s * (1 - s))


def mish(x):
    return x * np.tanh(np.log(1 + np.exp(x)))


def gelu(x, approximate="none"):
    if approximate == "tanh":
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x / 2 * (1 + scipy.special.erf(x / np.sqrt(2)))


def gelu_vjp(u, x):
    """Backward pass."""
    density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    return u * (scipy.special.ndtr(x) + x * density)


def gelu_tanh(x):
    return gelu(x, approximate="tanh")


def prelu(x, slope):
    return np.where(x > 0, x, slope * x)


def glu(x, gate):
    return x * sigmoid(gate)


def swiglu(x, gate, beta=1.0, limit=None, shift=0.0):
    if limit is not None:
        x = np.where(abs(x.real) > limit, np.sign(x.real) * limit, x)
        gate = np.where(gate.real > limit, limit, gate)
    return (x + shift) * silu(gate, beta)


def swiglu_vjp(u, x, gate):
    """Backward pass."""
    s = sigmoid(gate)
    return u * gate * s, u * x * (s + gate * s * (1 - s))


def geglu(x, gate):
    return x * gelu(gate)


def reglu(x, gate):
    return x * relu(gate)


def softmax(x):
    e = np.exp(x)
    return e / np.sum(e, axis=-1, keepdims=True)


def sparsemax(x):
    order = -np.sort(-x.real, axis=-1)
    k = np.arange(1, x.shape[-1] + 1)
    size = np.sum(1 + k * order > np.cumsum(order, axis=-1), axis=-1, keepdims=True)
    inside = x.real >= np.take_along_axis(order, size - 1, -1) if x.size else x.real > 0
    threshold = (np.sum(np.where(inside, x, 0), axis=-1, keepdims=True) - 1) / size
    return np.where(inside, x - threshold, 0)


def gumbel_softmax(logits, noise, temperature=1.0, hard=False):
    y = softmax((logits + noise) / temperature)
    if hard:  # the added difference is a constant, so that the gradient remains the soft one's
        y = y + (np.eye(y.shape[-1])[np.argmax(y.real, axis=-1)] - y.real)
    return y


def log_softmax(x):
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


def log_softmax_vjp(u, x):
    """Backward pass."""
    return u - softmax(x) * np.sum(u, axis=-1, keepdims=True)


def logsumexp(x):
    return np.log(np.sum(np.exp(x), axis=-1))


def logsumexp_vjp(u, x):
    """Backward pass."""
    return u[..., None] * softmax(x)


def hardmax(x):
    return (np.arange(x.shape[-1]) == np.argmax(x, axis=-1)[..., None]) * 1.0


# neurons


def neuron(x, w, b, activation="relu"):
    z = np.sum(w * x, axis=-1) + b
    return z if activation == "identity" else globals()[activation](z)


def neuron_grad(x, w, b, activation="relu"):
    z = np.sum(w * x, axis=-1) + b
    slope = {"relu": z > 0, "identity": np.ones_like(z), "tanh": 1 / np.cosh(z) ** 2}[
        activation
    ] * 1.0
    return slope[..., None] * x, slope


def mlp(x, params, activation="relu", dropout=None):
    h = x
    for l, (weight, bias) in enumerate(params[:-1]):
        h = globals()[activation](linear(h, weight, bias))
        h = h if dropout is None or dropout[l] is None else h * dropout[l]
    return linear(h, *params[-1])


def linear(x, weight, bias=None):
    y = x @ weight.T
    return y if bias is None else y + bias


def linear_vjp(u, x, weight, bias):
    """Backward pass, for rows of a batch."""
    return u @ weight, u.T @ x, np.sum(u, axis=0)


# convolution


def places(axes, stride, padding, dilation, T, K):
    """Yield indices of output, kernel and input that belong together, for a padded input."""
    s, p, d = (a if isinstance(a, tuple) else axes * (a,) for a in (stride, padding, dilation))
    sides = range(axes)
    count = [(T[i] + 2 * p[i] - d[i] * (K[i] - 1) - 1) // s[i] + 1 for i in sides]
    for t in np.ndindex(*count):
        for k in np.ndindex(*K):
            yield t, k, tuple(s[i] * t[i] + d[i] * k[i] for i in sides)


def around(x, axes, padding, value=0.0):
    """Return x with numbers around its axes of space."""
    p = padding if isinstance(padding, tuple) else axes * (padding,)
    width = [(0, 0)] * (x.ndim - axes) + [(n, n) for n in p]
    return np.pad(x, width, constant_values=value)


def conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    axes, (O, C) = weight.ndim - 2, weight.shape[:2]
    T, found = x.shape[x.ndim - axes :], {}
    inside = around(x, axes, padding)
    for t, k, j in places(axes, stride, padding, dilation, T, weight.shape[2:]):
        y = []
        for o in range(O):
            g = o // (O // groups)  # the group of this output
            of = inside[(..., slice(g * C, (g + 1) * C), *axes * (slice(None),))][(..., *j)]
            y.append(np.sum(weight[(o, slice(None), *k)] * of, axis=-1))
        batch = x.shape[: x.ndim - axes - 1]
        found[t] = found.get(t, 0) + (np.stack(y, axis=-1) if O else np.zeros((*batch, 0)))
    out = stacked(found)
    return out if bias is None else out + bias.reshape(-1, *axes * (1,))


def conv_transpose(
    x, weight, bias=None, stride=1, padding=0, output_padding=0, dilation=1, groups=1
):
    axes, (C, O) = weight.ndim - 2, weight.shape[:2]
    told = (stride, padding, dilation, output_padding)
    s, p, d, q = (a if isinstance(a, tuple) else axes * (a,) for a in told)
    T, K = x.shape[x.ndim - axes :], weight.shape[2:]
    sides = range(axes)
    size = [(T[i] - 1) * s[i] + d[i] * (K[i] - 1) + 1 - 2 * p[i] + q[i] for i in sides]
    y = np.zeros((*x.shape[: x.ndim - axes - 1], O * groups, *size), x.dtype) + 0 * weight.flat[0]
    for t in np.ndindex(*T):
        for k in np.ndindex(*K):
            j = tuple(s[i] * t[i] + d[i] * k[i] - p[i] for i in sides)
            if any(not 0 <= n < end for n, end in zip(j, size, strict=True)):
                continue
            for c in range(C):
                g = c // (C // groups)  # the group of this input
                of = x[(..., c, *t)]
                for o in range(O):
                    y[(..., g * O + o, *j)] += of * weight[(c, o, *k)]
    return y if bias is None else y + bias.reshape(-1, *axes * (1,))


def max_pool(x, size, stride=None, padding=0):
    stride, axes, found = size if stride is None else stride, len(size), {}
    inside = around(x, axes, padding, -np.inf)
    for t, _, j in places(axes, stride, padding, 1, x.shape[x.ndim - axes :], size):
        value = inside[(..., *j)]
        found[t] = np.where(value.real > found[t].real, value, found[t]) if t in found else value
    return stacked(found)


def mean_pool(x, size, stride=None, padding=0):
    stride, axes, found = size if stride is None else stride, len(size), {}
    inside = around(x, axes, padding)
    for t, _, j in places(axes, stride, padding, 1, x.shape[x.ndim - axes :], size):
        found[t] = found.get(t, 0) + inside[(..., *j)] / np.prod(size)
    return stacked(found)


def stacked(found):
    """Return the outputs of all places as an array."""
    last = [*found][-1]
    out = np.stack(list(found.values()), axis=-1)
    return out.reshape(*found[last].shape, *(n + 1 for n in last))


def causal_conv(x, weight, bias=None, state=None):
    (T, D), K = x.shape[-2:], weight.shape[1]
    before = np.zeros((*x.shape[:-2], K - 1, D)) if state is None else state
    x = np.concatenate([before, x], axis=-2)  # x[t + K - 1] is the input of step t
    out = [0 if bias is None else bias] * T
    for t in range(T):
        for k in range(K):
            out[t] = out[t] + weight[:, k] * x[..., t + k, :]
    y = np.stack(out, axis=-2) if T else np.zeros((*x.shape[:-2], 0, D))
    return y, x[..., T:, :]


# losses


def reduced(terms, reduction):
    if reduction == "none":
        return terms
    return np.sum(terms) / (np.size(terms) if reduction == "mean" else 1)


def squared_error(pred, target, reduction="mean"):
    return reduced((pred - target) ** 2, reduction)


def squared_error_grad(pred, target):
    """Gradient of the mean."""
    return 2 / pred.size * (pred - target)


def absolute_error(pred, target, reduction="mean"):
    e = pred - target
    return reduced(np.maximum(e, -e), reduction)


def absolute_error_grad(pred, target):
    """Gradient of the mean."""
    return np.sign(pred - target) / pred.size


def huber(pred, target, delta=1.0, reduction="mean"):
    e = pred - target
    size = np.maximum(e, -e)
    return reduced(np.where(size <= delta, e**2 / 2, delta * (size - delta / 2)), reduction)


def huber_grad(pred, target, delta=1.0):
    """Gradient of the mean."""
    return np.clip(pred - target, -delta, delta) / pred.size


def hinge(pred, target, reduction="mean"):
    return reduced(np.maximum(1 - target * pred, 0), reduction)


def hinge_grad(pred, target):
    """Gradient of the mean."""
    return -target * (target * pred < 1) / pred.size


def binary_cross_entropy(logits, target, weight=1.0, pos_weight=1.0, reduction="mean"):
    p = 1 / (1 + np.exp(-logits))
    cost = pos_weight * target * np.log(p) + (1 - target) * np.log(1 - p)
    return reduced(-weight * cost, reduction)


def binary_cross_entropy_grad(logits, target):
    """Gradient of the mean: prediction minus truth."""
    return (sigmoid(logits) - target) / logits.size


def cross_entropy(
    logits,
    target,
    weight=None,
    ignore_index=-100,
    label_smoothing=0.0,
    z_loss=0.0,
    reduction="mean",
):
    count = logits.shape[-1]
    w = np.ones(count) if weight is None else weight
    of_classes = target.ndim < logits.ndim
    valid = target != ignore_index if of_classes else np.full(target.shape[:-1], True)
    t = (target[..., None] == np.arange(count)) * 1.0 if of_classes else target
    q = w * ((1 - label_smoothing) * t + label_smoothing / count)
    lam = np.log(np.sum(np.exp(logits), axis=-1))
    rows = np.sum(q * (lam[..., None] - logits), axis=-1) + z_loss * lam**2
    rows = np.where(valid, rows, 0)
    if reduction == "mean":
        return np.sum(rows) / (np.sum(w[target[valid]]) if of_classes else valid.size)
    return reduced(rows, reduction)


def linear_cross_entropy(x, weight, target, bias=None, chunk=None, **options):
    z = x @ np.swapaxes(weight, -1, -2)
    return cross_entropy(z if bias is None else z + bias, target, **options)


def cross_entropy_value_and_grad(logits, target, **options):
    grad = np.zeros(logits.shape)
    for index in np.ndindex(logits.shape):
        unit = np.zeros(logits.shape)
        unit[index] = 1
        grad[index] = complex_step(
            lambda z: cross_entropy(z, target, **options), (logits,), (unit,)
        )
    return cross_entropy(logits, target, **options), grad


def nll(log_probs, target, weight=None, ignore_index=-100, reduction="mean"):
    count = log_probs.shape[-1]
    w = (np.ones(count) if weight is None else weight) * np.ones(count)
    w = (target[..., None] == np.arange(count)) * w * (target != ignore_index)[..., None]
    rows = -np.sum(w * log_probs, axis=-1)
    return np.sum(rows) / np.sum(w) if reduction == "mean" else reduced(rows, reduction)


def kl_divergence(log_p, q, reduction="mean"):
    log_q = np.log(np.where(q == 0, 1, q))  # a class of probability 0 costs nothing
    return reduced(np.sum(q * (log_q - log_p), axis=-1), reduction)


def kl_divergence_grad(log_p, q):
    """Gradient of the mean over rows."""
    return -q / len(q)


def neuron_squared_error(X, y, w, b):
    return mean((neuron(X, w, b) - y) ** 2)


# normalization


def normalized(x, weight, bias, eps, axes):
    """Subtract the mean over the axes, divide by the root of the biased variance."""
    mu = mean(x, axis=axes, keepdims=True)
    var = mean((x - mu) ** 2, axis=axes, keepdims=True)
    y = (x - mu) / np.sqrt(var + eps)
    y = y if weight is None else weight * y
    return y if bias is None else y + bias


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    return normalized(x, weight, bias, eps, -1)


def l2_norm(x, eps=1e-6):
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + eps)


def batch_norm_train(x, mean, var, weight=None, bias=None, momentum=0.1, eps=1e-5):
    axes = tuple(range(x.ndim - 1))
    mu = np.mean(x, axis=axes)
    squares = np.sum((x - mu) ** 2, axis=axes)
    count = np.prod(x.shape[:-1])
    y = (x - mu) / np.sqrt(squares / count + eps)
    y = (y if weight is None else weight * y) + (0 if bias is None else bias)
    unbiased = squares / (count - 1)
    return y, (1 - momentum) * mean + momentum * mu, (1 - momentum) * var + momentum * unbiased


def rms_norm(x, weight=None, eps=1e-6, weight_offset=0.0):
    y = x / np.sqrt(mean(x * x, axis=-1, keepdims=True) + eps)
    return y if weight is None else (weight + weight_offset) * y


def batch_norm(x, weight=None, bias=None, eps=1e-5):
    return normalized(x, weight, bias, eps, tuple(range(x.ndim - 1)))


def batch_norm_inference(x, mean, var, weight=None, bias=None, eps=1e-5):
    y = (x - mean) / np.sqrt(var + eps)
    y = y if weight is None else weight * y
    return y if bias is None else y + bias


def batch_norm_update(running, batch, momentum):
    return (1 - momentum) * running + momentum * batch


def instance_norm(x, weight=None, bias=None, eps=1e-5):
    return normalized(x, weight, bias, eps, tuple(range(1, x.ndim - 1)))


def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    per_group = np.split(x, int(groups), axis=-1)
    axes = tuple(range(1, x.ndim))
    y = np.concatenate([normalized(part, None, None, eps, axes) for part in per_group], axis=-1)
    y = y if weight is None else weight * y
    return y if bias is None else y + bias


# propagation


def gradient_magnitude(weight, depth, activation_slope=1.0):
    return np.abs(weight * activation_slope) ** depth


# positions


def rope_angles(positions, frequencies):
    return positions[..., None] * frequencies


def rope_tables(positions, frequencies, attention_factor=1.0):
    angles = positions[..., None] * frequencies
    return attention_factor * np.cos(angles), attention_factor * np.sin(angles)


def pairs(x, interleaved):
    """Return the first and the second elements of all pairs of channels."""
    half = x.shape[-1] // 2
    return (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])


def apply_rope(x, cos, sin, interleaved=True, rotary_dim=None):
    width = x.shape[-1] if rotary_dim is None else rotary_dim
    x1, x2 = pairs(x[..., :width], interleaved)
    y1, y2 = x1 * cos - x2 * sin, x1 * sin + x2 * cos
    turned = np.stack([y1, y2], axis=-1 if interleaved else -2)
    return np.concatenate([turned.reshape(*x.shape[:-1], width), x[..., width:]], axis=-1)


def rope_matrix(position, frequencies):
    angles = position[..., None] * frequencies
    size = 2 * frequencies.size
    out = np.zeros((*np.shape(position), size, size))
    for i in range(frequencies.size):
        c, s = np.cos(angles[..., i]), np.sin(angles[..., i])
        block = np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)
        out[..., 2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block
    return out


def rope_score(q, k, offset, frequencies, interleaved=True):
    (q1, q2), (k1, k2) = pairs(q, interleaved), pairs(k, interleaved)
    cos, sin = rope_tables(offset, frequencies)
    return np.sum(q1 * (k1 * cos - k2 * sin) + q2 * (k1 * sin + k2 * cos), axis=-1)


def offsets(T, S, q_offset=0):
    """Return key position minus query position for each pair."""
    return np.arange(S) - (np.arange(T)[:, None] + q_offset)


def alibi_bias(slopes, T, S, q_offset=0, symmetric=False):
    distance = -offsets(T, S, q_offset)
    distance = np.abs(distance) if symmetric else np.maximum(distance, 0)
    return -slopes[..., None, None] * distance


def learned_positions(table, positions):
    return (positions[..., None] == np.arange(len(table))) @ table


def relative_bias(table, T, S):
    one_hot = offsets(T, S)[..., None] + T - 1 == np.arange(T + S - 1)
    return np.einsum("ijr,...r->...ij", one_hot, table)


def t5_bias(table, T, S, bidirectional=True, q_offset=0, max_distance=128):
    count = len(table) // 2 if bidirectional else len(table)
    exact, out = count // 2, np.zeros((table.shape[1], T, S), table.dtype)
    for i in range(T):
        for j in range(S):
            r = j - i - q_offset
            far = abs(r) if bidirectional else -r * (r < 0)
            bucket = far
            if far >= exact:
                steps = np.log(far / exact) / np.log(max_distance / exact) * (count - exact)
                bucket = np.minimum(exact + int(steps + 1e-9), count - 1)
            out[:, i, j] = table[bucket + count * (bidirectional and r > 0)]
    return out


def shaw_scores(q, table):
    most = len(table) // 2
    vectors = table[np.clip(offsets(q.shape[-2], q.shape[-2]), -most, most) + most]
    return np.einsum("...ie,ije->...ij", q, vectors)


def transformer_xl_scores(q, k, r, u, v):
    T, S = q.shape[-2], k.shape[-2]
    by_content = np.einsum("...ie,...je->...ij", q + u, k)
    return by_content + np.einsum("...ie,...ije->...ij", q + v, r[..., offsets(T, S) + T - 1, :])


def timestep_embedding(t, dim, base=10000.0, cosine_first=False, shift=0.0, scale=1.0):
    i = np.arange(dim // 2)
    angle = np.multiply.outer(t, scale * base ** (-i / (dim / 2 - shift)))
    waves = np.sin(angle), np.cos(angle)
    return np.concatenate(waves[::-1] if cosine_first else waves, axis=-1)


def fourier_features(x, frequencies):
    z = 2 * np.pi * np.einsum("...d,md->...m", x, frequencies)
    return np.concatenate([np.cos(z), np.sin(z)], axis=-1)


def xpos_scales(positions, dim, gamma=0.4, scale_base=512.0):
    zeta = (np.arange(0, dim, 2) / dim + gamma) / (1 + gamma)
    return zeta ** (positions[..., None] / scale_base)


def apply_xpos(x, cos, sin, scales, inverse=False, interleaved=True, rotary_dim=None):
    factor = 1 / scales if inverse else scales
    return apply_rope(x, factor * cos, factor * sin, interleaved, rotary_dim)


def kerple_bias(r1, r2, T, S, kind="log", q_offset=0, symmetric=False):
    distance = -offsets(T, S, q_offset)
    distance = np.abs(distance) if symmetric else np.maximum(distance, 0)
    r1, r2 = r1[..., None, None], r2[..., None, None]
    return -r1 * (np.log(1 + r2 * distance) if kind == "log" else distance**r2)


def fire_bias(w1, b1, w2, b2, c, threshold, T, S, q_offset=0):
    i = np.arange(T)[:, None] + q_offset
    least = np.maximum(threshold, i)
    u = np.log(1 + c * np.abs(offsets(T, S, q_offset))) / np.log(1 + c * least)
    hidden = np.maximum(w1 * u[..., None] + b1, 0)
    return np.einsum("hf,ijf->hij", w2, hidden) + b2[:, None, None]


def cope(q, scores, table):
    gates = 1 / (1 + np.exp(-scores))
    last, out = len(table) - 1, np.zeros(scores.shape, np.result_type(q, scores, table))
    for j in range(scores.shape[-1]):
        p = np.sum(gates[..., j:], axis=-1)
        p = np.minimum(p, last)
        n = np.floor(np.real(p)).astype(int)
        w = (p - n)[..., None]
        vector = (1 - w) * table[n] + w * table[np.minimum(n + 1, last)]
        out[..., j] = np.sum(q * vector, axis=-1)
    return out


def apply_rope_axial(x, cos, sin, interleaved=True):
    axes = cos.shape[-2]
    blocks = np.split(x, axes, axis=-1)
    turned = [
        apply_rope(block, cos[..., a, :], sin[..., a, :], interleaved)
        for a, block in enumerate(blocks)
    ]
    return np.concatenate(turned, axis=-1)


# attention


def attention_scores(
    q, k, mask=None, bias=None, is_causal=False, q_offset=0, window=None, scale=None, softcap=None
):
    if q.ndim > 2:
        k = np.repeat(k, q.shape[-3] // k.shape[-3], axis=-3)
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    s = scale * np.einsum("...ie,...je->...ij", q, k)
    s = s if softcap is None else softcap * np.tanh(s / softcap)
    s = s if bias is None else s + bias
    r = offsets(*s.shape[-2:], q_offset)
    seen = (r <= 0) if is_causal else np.full(r.shape, True)
    left, right = (None, None) if window is None else window
    seen = seen if left is None else seen & (-r <= left)
    seen = seen if right is None else seen & (r <= right)
    return np.where(seen if mask is None else seen & mask, s, -np.inf)


def attention_weights(q, k, sink=None, **options):
    s = attention_scores(q, k, **options)
    rest = 0 if sink is None else np.exp(sink)[:, None, None]
    e = np.exp(s)
    total = np.sum(e, axis=-1, keepdims=True) + rest
    return e / np.where(total == 0, 1, total)


def scaled_dot_product_attention(q, k, v, dropout=None, indices=None, **options):
    if indices is not None:
        keys = np.any(indices[..., None] == np.arange(k.shape[-2]), axis=-2)
        mask = options.get("mask")
        options["mask"] = keys if mask is None else keys & mask
    p = attention_weights(q, k, **options) * (1 if dropout is None else dropout)
    if q.ndim > 2:
        v = np.repeat(v, q.shape[-3] // v.shape[-3], axis=-3)
    return np.einsum("...ij,...jd->...id", p, v)


def merge_attention(out, lse, axis=0):
    e = np.exp(lse)
    w = e / np.sum(e, axis=axis, keepdims=True)
    return np.sum(w[..., None] * out, axis=axis), np.log(np.sum(e, axis=axis))


def forgetting_bias(log_forget, q_offset=0):
    S = log_forget.shape[-1]
    rows = []
    for i in range(q_offset, S):
        row = [np.sum(log_forget[..., j + 1 : i + 1], axis=-1) for j in range(S)]
        rows.append(np.stack(row, axis=-1))
    return np.stack(rows, axis=-2) if rows else np.zeros((*log_forget.shape[:-1], 0, S))


def indexer_scores(q, k, w):
    z = np.einsum("...hie,...je->...hij", q, k)
    return np.einsum("...ih,...hij->...ij", w, np.where(z.real > 0, z, 0))


def differential_attention(q1, k1, q2, k2, v, lam, **options):
    attend = scaled_dot_product_attention
    return attend(q1, k1, v, **options) - lam * attend(q2, k2, v, **options)


def repeat_kv(x, n):
    return np.stack([x[..., h // int(n), :, :] for h in range(x.shape[-3] * int(n))], axis=-3)


def additive_attention(q, k, v, w, u, vec, mask=True):
    hidden = np.tanh((q @ w.T)[..., :, None, :] + (k @ u.T)[..., None, :, :])
    e = np.where(mask, np.exp(hidden @ vec), 0)
    return e / np.sum(e, axis=-1, keepdims=True) @ v


def multiplicative_attention(q, k, v, w, scale=1.0, **options):
    return scaled_dot_product_attention(q @ w, k, v, scale=scale, **options)


def linear_attention(q, k, v, feature_map="elu", is_causal=False, normalize=True):
    phi = {
        "elu": lambda x: np.where(x > 0, x + 1, np.exp(x)),
        "exp": np.exp,
        "identity": lambda x: x,
    }[feature_map]
    weights = np.einsum("...ie,...je->...ij", phi(q), phi(k))
    weights = np.tril(weights) if is_causal else weights
    out = weights @ v
    return out / np.sum(weights, axis=-1, keepdims=True) if normalize else out


def recurrent_linear_attention(q, k, v, decay=None, beta=None, state=None, scale=1.0):
    steps, width = q.shape[-2:]
    S = np.zeros((*q.shape[:-2], width, v.shape[-1])) if state is None else state
    out = []
    for t in range(steps):
        S = S if decay is None else np.exp(decay[..., t, :, None]) * S
        w = v[..., t, :]
        if beta is not None:
            w = beta[..., t, None] * (w - np.einsum("...ev,...e->...v", S, k[..., t, :]))
        S = S + np.einsum("...e,...v->...ev", k[..., t, :], w)
        out.append(scale * np.einsum("...ev,...e->...v", S, q[..., t, :]))
    return (np.stack(out, axis=-2) if out else np.zeros(v.shape)), S


def attention_entropy(weights):
    return -np.sum(weights * np.log(np.where(weights == 0, 1, weights)), axis=-1)


def attention_distance(weights, q_offset=0):
    return np.sum(weights * np.abs(offsets(*weights.shape[-2:], q_offset)), axis=-1)


def attention_shares(weights, q_offset=0):
    out = np.zeros((*weights.shape[:-1], 3), weights.dtype)
    for i in range(weights.shape[-2]):
        for n, j in enumerate((0, i + q_offset - 1, i + q_offset)):
            if 0 <= j < weights.shape[-1]:
                out[..., i, n] = weights[..., i, j]
    return out


def attention_rollout(weights, residual=0.5):
    out = np.eye(weights.shape[-1])
    for layer in weights:
        mixed = residual * np.eye(weights.shape[-1]) + (1 - residual) * np.mean(layer, axis=-3)
        out = mixed @ out
    return out


# transformer; parameters are nested tuples, read by position


def affine(x, weight, bias=None):
    return x @ weight.T if bias is None else x @ weight.T + bias


def feed_forward(x, params, activation="relu"):
    w1, b1, w2, b2 = params
    return affine(globals()[activation](affine(x, w1, b1)), w2, b2)


def gated_feed_forward(x, params, activation="silu"):
    w_gate, w_up, w_down = params
    return affine(globals()[activation](affine(x, w_gate)) * affine(x, w_up), w_down)


def attend_heads(
    x, memory, params, H, Hk=None, seen=True, bias=0.0, rope=None, kept=None, *,
    eps=1e-6, offset=0.0, after=False, scale=None, softcap=None,
):  # fmt: skip
    """Attention head by head; `seen` and `bias` broadcast to (..., H, T, S)."""
    w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, q_norm, k_norm, w_gate, b_gate, sink = params
    Hk = Hk or H
    q, k, v = affine(x, w_q, b_q), affine(memory, w_k, b_k), affine(memory, w_v, b_v)
    E, V = q.shape[-1] // H, v.shape[-1] // Hk
    shape = (*x.shape[:-2], H, x.shape[-2], memory.shape[-2])
    seen, bias = np.broadcast_to(seen, shape), np.broadcast_to(bias, shape)
    kept = np.broadcast_to(1.0 if kept is None else kept, shape)  # factors of dropout
    out = []
    for h in range(H):
        g = h // (H // Hk)
        qh = _prepared(q, h, E, q_norm, rope, eps, offset, after)
        kh = _prepared(k, g, E, k_norm, rope, eps, offset, after)
        scores = qh @ np.swapaxes(kh, -1, -2) * (E**-0.5 if scale is None else scale)
        scores = scores if softcap is None else softcap * np.tanh(scores / softcap)
        e = np.where(seen[..., h, :, :], np.exp(scores + bias[..., h, :, :]), 0.0)
        total = np.sum(e, axis=-1, keepdims=True) + (0.0 if sink is None else np.exp(sink[h]))
        p = kept[..., h, :, :] * e / total
        out.append(p @ v[..., g * V : (g + 1) * V])
    merged = np.concatenate(out, axis=-1)
    if w_gate is not None:
        merged = merged / (1 + np.exp(-affine(x, w_gate, b_gate)))
    return affine(merged, w_o, b_o)


def _prepared(x, h, E, w, rope, eps, offset, after):
    """One head of queries or keys, normalized and rotated, in either order."""

    def turned(z):
        heads = [z[..., i : i + E] for i in range(0, z.shape[-1], E)]
        return z if rope is None else np.concatenate([apply_rope(a, *rope) for a in heads], -1)

    def normed(z):
        if w is None:
            return z
        whole = len(w) == z.shape[-1]
        heads = [z] if whole else [z[..., i : i + E] for i in range(0, z.shape[-1], E)]
        return np.concatenate([rms_norm(a, offset + w, eps) for a in heads], -1)

    return (normed(turned(x)) if after else turned(normed(x)))[..., h * E : (h + 1) * E]


def norm_of(x, params, norm, eps, offset=0.0):
    if params is None:
        return x
    weight, bias = params
    if norm == "rms" or (norm is None and bias is None):
        return rms_norm(x, weight, eps, offset)
    return layer_norm(x, weight, bias, eps)


def sublayer(x, f, params, norm_first, norm, eps, factor):
    factor = 1.0 if factor is None else factor
    if norm_first:
        return x + factor * f(norm_of(x, params, norm, eps))
    return norm_of(x + factor * f(x), params, norm, eps)


def network_of(params, activation):
    f = gated_feed_forward if len(params) == 3 else feed_forward
    return lambda x: f(x, params, activation)


def causal(x, is_causal, mask):
    T = x.shape[-2]
    seen = np.tril(np.ones((T, T), bool)) if is_causal else np.ones((T, T), bool)
    return seen if mask is None else seen & mask


def encoder_block(
    x, params, num_heads, num_kv_heads=None, norm_first=False, norm=None, activation="relu",
    is_causal=False, mask=None, bias=0.0, rope=None, dropout=(None, None), eps=1e-5,
    attention_dropout=None, scale=None, softcap=None, norm_offset=0.0, norm_after_rope=False,
    parallel=False, residual_scale=1.0,
):  # fmt: skip
    attention, norm1, network, norm2, *outputs = (*params, None, None)[:6]

    def attend(z):
        return attend_heads(
            z, z, attention, num_heads, num_kv_heads, causal(x, is_causal, mask), bias, rope,
            attention_dropout, eps=eps, offset=norm_offset, after=norm_after_rope, scale=scale,
            softcap=softcap,
        )  # fmt: skip

    def normed(z, p):
        return norm_of(z, p, norm, eps, norm_offset)

    given, runs = x, (attend, network_of(network, activation))
    for f, before, after, factor in zip(runs, (norm1, norm2), outputs, dropout, strict=True):
        z = given if parallel else x
        z = normed(z, norm1 if parallel and before is None else before) if norm_first else z
        x = x + residual_scale * (1.0 if factor is None else factor) * normed(f(z), after)
        x = x if norm_first else normed(x, before)
    return x


def decoder_block(
    x, memory, params, num_heads, num_kv_heads=None, norm_first=False, norm=None,
    activation="relu", is_causal=True, mask=None, memory_mask=True, bias=0.0, rope=None,
    dropout=(None, None, None), eps=1e-5, attention_dropout=None, cross_scale=None,
):  # fmt: skip
    own, norm1, cross, norm2, network, norm3 = params
    seen, heads, order = causal(x, is_causal, mask), (num_heads, num_kv_heads), (norm_first, norm)
    x = sublayer(
        x, lambda z: attend_heads(z, z, own, *heads, seen, bias, rope, attention_dropout, eps=eps),
        norm1, *order, eps, dropout[0],
    )  # fmt: skip
    x = sublayer(
        x, lambda z: attend_heads(z, memory, cross, *heads, memory_mask, scale=cross_scale),
        norm2, *order, eps, dropout[1],
    )  # fmt: skip
    return sublayer(x, network_of(network, activation), norm3, *order, eps, dropout[2])


def encoder(
    x, params, norm_params=None, norm=None, eps=1e-5, dropout=None, attention_dropout=None,
    **options,
):  # fmt: skip
    for k, block in enumerate(params):
        options["attention_dropout"] = attention_dropout and attention_dropout[k]
        options["dropout"] = (dropout and dropout[k]) or (None, None)
        x = encoder_block(x, block, norm=norm, eps=eps, **options)
    return x if norm_params is None else norm_of(x, norm_params, norm, eps)


def decoder(
    x, memory, params, norm_params=None, norm=None, eps=1e-5, dropout=None,
    attention_dropout=None, **options,
):  # fmt: skip
    for k, block in enumerate(params):
        options["attention_dropout"] = attention_dropout and attention_dropout[k]
        options["dropout"] = (dropout and dropout[k]) or (None, None, None)
        x = decoder_block(x, memory, block, norm=norm, eps=eps, **options)
    return x if norm_params is None else norm_of(x, norm_params, norm, eps)


def placed(x, table, config, bidirectional, factors=None):
    """Return x with what the scheme of positions adds, and its options of the attention."""
    x, options = added_places(x, table, config, bidirectional)
    return (x if factors is None else x * factors), options


def added_places(x, table, config, bidirectional):
    T, D, scheme = x.shape[-2], x.shape[-1], config.positions
    positions = np.arange(T)
    if config.scale_embeddings:
        x = x * np.sqrt(D)
    if scheme == "learned":
        x = x + table[:T]
    if scheme == "sinusoidal":
        angles = positions[:, None] / 10000.0 ** (np.arange(0, D, 2) / D)
        x = x + np.stack([np.sin(angles), np.cos(angles)], -1).reshape(T, -1)[:, :D]
    if scheme == "rope":
        E = D // config.heads
        return x, {"rope": rope_tables(positions, config.rope_base ** (-np.arange(0, E, 2) / E))}
    if scheme == "alibi":
        slopes = 2.0 ** (-8.0 * np.arange(1, config.heads + 1) / config.heads)
        return x, {"bias": alibi_bias(slopes, T, T, symmetric=bidirectional)}
    if scheme == "t5":
        return x, {"bias": t5_bias(table, T, T, bidirectional=bidirectional)}
    return x, {}


def model_options(config):
    gates = {
        "swiglu": "silu",
        "geglu": "gelu",
        "geglu_tanh": "gelu_tanh",
        "reglu": "relu",
        "glu": "sigmoid",
    }
    return {
        "num_heads": config.heads, "num_kv_heads": config.kv_heads, "eps": config.eps,
        "norm_first": config.norm_first, "norm": config.norm,
        "activation": gates.get(config.activation, config.activation),
    }  # fmt: skip


def language_model(tokens, params, config, embedding_dropout=None, **drops):
    embedding, table, blocks, norm, head = params
    x, options = placed(embedding[tokens], table, config, False, embedding_dropout)
    h = encoder(x, blocks, norm, is_causal=True, **options, **drops, **model_options(config))
    return affine(h, embedding if head is None else head)


def sequence_classifier(tokens, params, config, lengths=None, embedding_dropout=None, **drops):
    token, embedding, table, blocks, norm, w_head, b_head = params
    x = embedding[tokens]
    x = np.concatenate([np.broadcast_to(token, (*x.shape[:-2], 1, x.shape[-1])), x], axis=-2)
    x, options = placed(x, table, config, True, embedding_dropout)
    if lengths is not None:
        options["mask"] = (np.arange(x.shape[-2]) <= lengths[..., None])[..., None, None, :]
    h = encoder(x, blocks, norm, **options, **drops, **model_options(config))
    return affine(h[..., 0, :], w_head, b_head)


def encoder_decoder_model(
    source, target, params, config, lengths=None, embedding_dropout=(None, None), **drops
):
    first, second = ({name: pair[i] for name, pair in drops.items()} for i in (0, 1))
    embedding, source_table, table, blocks, encoder_norm, decoder_blocks, norm, head = params
    mask = True
    if lengths is not None:
        mask = (np.arange(source.shape[-1]) < lengths[..., None])[..., None, None, :]
    x, options = placed(embedding[source], source_table, config, True, embedding_dropout[0])
    common = model_options(config)
    memory = encoder(x, blocks, encoder_norm, mask=mask, **options, **first, **common)
    x, options = placed(embedding[target], table, config, False, embedding_dropout[1])
    h = decoder(x, memory, decoder_blocks, norm, memory_mask=mask, **options, **second, **common)
    return affine(h, embedding if head is None else head)


# recurrent


def through_time(step, x, states, size, reverse=False, lengths=None):
    """Apply step(x_t, *states) -> states to each entry; return all states, 0 beyond its end."""
    batch, count = x.shape[:-2], x.shape[-2]
    states = [np.zeros((*batch, size)) if s is None else s for s in states]
    ends = np.full(batch, count) if lengths is None else np.asarray(lengths)
    dtype = np.result_type(np.complex128, x)
    outs = [np.zeros((*batch, count, size), dtype) for _ in states]
    for entry in np.ndindex(batch):
        now = [s[entry] for s in states]
        times = list(range(ends[entry]))
        for t in times[::-1] if reverse else times:
            now = step(x[entry][t], *now)
            for out, s in zip(outs, now, strict=True):
                out[entry][t] = s
    return outs


def as_result(outs, *inputs):
    """Drop the imaginary parts where no input has one; a single output is not a tuple."""
    real = not any(np.iscomplexobj(a) for a in inputs)
    outs = tuple(out.real if real else out for out in outs)
    return outs if len(outs) > 1 else outs[0]


def one_step(sequence, x, states, *weights, **options):
    outs = sequence(x[..., None, :], *states, *weights, **options)
    return tuple(o[..., 0, :] for o in outs) if isinstance(outs, tuple) else outs[..., 0, :]


def both(b_ih, b_hh):
    return (0 if b_ih is None else b_ih) + (0 if b_hh is None else b_hh)


def rnn(x, h0, w_ih, w_hh, b_ih=None, b_hh=None, activation="tanh", **options):
    phi = {"tanh": tanh, "relu": relu, "sigmoid": sigmoid, "identity": lambda z: z}[activation]

    def step(x, h):
        return [phi(w_ih @ x + w_hh @ h + both(b_ih, b_hh))]

    outs = through_time(step, x, [h0], w_hh.shape[1], **options)
    return as_result(outs, x, h0, w_ih, w_hh, b_ih, b_hh)


def rnn_cell(x, h, *weights, **options):
    return one_step(rnn, x, [h], *weights, **options)


def rnn_state(x, h0, *weights, **options):
    return rnn(x, h0, *weights, **options)[..., -1, :]


def lstm_run(x, h0, c0, w_ih, w_hh, b_ih=None, b_hh=None, w_p=None, **options):
    """Return h, c, i, f, g, o."""
    size = w_hh.shape[1]
    p_i, p_f, p_o = np.split(np.zeros(3 * size) if w_p is None else w_p, 3)

    def step(x, h, c, *_):
        i, f, g, o = np.split(w_ih @ x + w_hh @ h + both(b_ih, b_hh), 4)
        i, f, g = sigmoid(i + p_i * c), sigmoid(f + p_f * c), tanh(g)
        c = f * c + i * g
        o = sigmoid(o + p_o * c)
        return [o * tanh(c), c, i, f, g, o]

    outs = through_time(step, x, [h0, c0, None, None, None, None], size, **options)
    return as_result(outs, x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_p)


def lstm(*inputs, **options):
    return lstm_run(*inputs, **options)[:2]


def lstm_gates(*inputs, **options):
    return lstm_run(*inputs, **options)[2:]


def lstm_cell(x, h, c, *weights, **options):
    return one_step(lstm, x, [h, c], *weights, **options)


def gru(x, h0, w_ih, w_hh, b_ih=None, b_hh=None, reset_after=True, **options):
    size = w_hh.shape[1]
    zero = np.zeros(3 * size)
    b_x = np.split(zero if b_ih is None else b_ih, 3)
    b_h = np.split(zero if b_hh is None else b_hh, 3)
    w_x, w_h = np.split(w_ih, 3), np.split(w_hh, 3)

    def step(x, h):
        r, z = (sigmoid(w_x[k] @ x + b_x[k] + w_h[k] @ h + b_h[k]) for k in (0, 1))
        if reset_after:
            n = tanh(w_x[2] @ x + b_x[2] + r * (w_h[2] @ h + b_h[2]))
        else:
            n = tanh(w_x[2] @ x + b_x[2] + w_h[2] @ (r * h) + b_h[2])
        return [(1 - z) * n + z * h]

    outs = through_time(step, x, [h0], size, **options)
    return as_result(outs, x, h0, w_ih, w_hh, b_ih, b_hh)


def gru_cell(x, h, *weights, **options):
    return one_step(gru, x, [h], *weights, **options)


def mixture_of_experts(
    x, weight, params, chosen, k, score="softmax", normalize=True, scale=1.0, router_bias=None,
    activation="swiglu", limit=None, shift=0.0, beta=1.0, shared=None, shared_gate=None, **_,
):  # fmt: skip
    """Every token through every expert, with weight 0 where it was not chosen."""
    z = affine(x, weight, router_bias)
    e = np.exp(z - z.max(-1, keepdims=True))
    s = 1 / (1 + np.exp(-z)) if score == "sigmoid" else e / e.sum(-1, keepdims=True)
    mask = np.zeros(s.shape)
    np.put_along_axis(mask, chosen, 1.0, -1)
    w = scale * mask * s / (np.sum(mask * s, -1, keepdims=True) if normalize else 1.0)
    f = {"swiglu": lambda g: g / (1 + np.exp(-beta * g)), "geglu": gelu}[activation]
    out = np.zeros(x.shape)
    for i in range(len(weight)):
        w_gate, w_up, w_down, b_gate, b_up, b_down = (None if p is None else p[i] for p in params)
        g, u = affine(x, w_gate, b_gate), affine(x, w_up, b_up)
        if limit is not None:
            g, u = np.minimum(g, limit), np.clip(u, -limit, limit)
        out += w[..., i : i + 1] * affine(f(g) * (u + shift), w_down, b_down)
    if shared is not None:
        gate = 1.0 if shared_gate is None else 1 / (1 + np.exp(-affine(x, shared_gate)))
        out += gate * gated_feed_forward(x, shared)
    return out


def selective_scan(x, delta, a, b, c, d=None, state=None, delta_softplus=False):
    if delta_softplus:
        delta = np.log(1 + np.exp(delta))
    h = np.zeros((*x.shape[:-2], *a.shape)) if state is None else state
    out = []
    for t in range(x.shape[-2]):
        step, written = delta[..., t, :, None], delta[..., t, :] * x[..., t, :]
        h = np.exp(step * a) * h + written[..., None] * b[..., t, None, :]
        y = np.sum(c[..., t, None, :] * h, axis=-1)
        out.append(y if d is None else y + d * x[..., t, :])
    return (np.stack(out, axis=-2) if out else np.zeros(x.shape)), h


def disentangled_scores(
    q, k, pos_q, pos_k, num_buckets=None, max_distance=None, c2p=True, p2c=True
):
    T, S, L = q.shape[-2], k.shape[-2], pos_q.shape[-2]
    s = np.einsum("...te,...se->...ts", q, k)
    for i in range(T):
        for j in range(S):
            r = i - j
            if num_buckets is not None and abs(r) > num_buckets // 2:
                m = num_buckets // 2
                part = np.log(abs(r) / m) / np.log((max_distance - 1) / m)
                r = int(np.sign(r) * (m + np.ceil(part * (m - 1))))
            r = int(np.clip(r + L // 2, 0, L - 1))
            unit = np.zeros((T, S))
            unit[i, j] = 1
            if c2p:
                s = s + unit * np.sum(q[..., i, :] * pos_k[:, r], axis=-1)[..., None, None]
            if p2c:
                s = s + unit * np.sum(k[..., j, :] * pos_q[:, r], axis=-1)[..., None, None]
    return s


def relative_bias_grid(table, height, width):
    places = [(r, c) for r in range(height) for c in range(width)]
    out = []
    for r, c in places:
        rows = [(r - y + height - 1) * (2 * width - 1) + c - x + width - 1 for y, x in places]
        out.append([table[row] for row in rows])
    return np.moveaxis(np.array(out).reshape(len(out), len(out), -1), -1, 0)


def rope_tables_multi(positions, frequencies, sections, interleaved=False, attention_factor=1.0):
    A = len(sections)
    owner = [a for a, n in enumerate(sections) for _ in range(n)]
    if interleaved:
        owner = [i % A if i < A * sections[i % A] else 0 for i in range(len(frequencies))]
    angles = np.moveaxis(positions, -2, -1)[..., owner] * frequencies
    return attention_factor * np.cos(angles), attention_factor * np.sin(angles)


def embedding(table, ids, padding_id=None, scale=1.0):
    if padding_id is not None:  # as a constant: no imaginary part
        still = np.arange(len(table))[:, None] == padding_id
        table = np.where(still, table.real, table)
    return scale * table[ids]


def dropout(x, mask):
    return x * mask


def lora_linear(x, weight, a, b, bias=None, scale=1.0):
    y = x @ weight.T + scale * ((x @ a.T) @ b.T)
    return y if bias is None else y + bias


def reduce_terms(terms, reduction):
    return {"mean": np.mean, "sum": np.sum, "none": lambda t: t}[reduction](terms)


def gaussian_kl(mean, log_var, reduction="mean"):
    terms = 0.5 * (mean**2 + np.exp(log_var) - 1 - log_var)
    return reduce_terms(np.sum(terms, axis=-1), reduction)


def gaussian_kl_grad(mean, log_var):
    """Gradients of the mean over the rows."""
    rows = mean.size / mean.shape[-1]
    return mean / rows, (np.exp(log_var) - 1) / 2 / rows


def kl_estimate(log_p, log_ref, kind="k3", reduction="mean"):
    rho = log_ref - log_p
    terms = {"k1": -rho, "k2": rho**2 / 2, "k3": np.exp(rho) - 1 - rho}[kind]
    return reduce_terms(terms, reduction)


def kl_estimate_grad(log_p, log_ref):
    """Gradient of k3, the mean over the tokens."""
    return (1 - np.exp(log_ref - log_p)) / log_p.size


def dpo_loss(log_p, log_ref, beta=0.1, label_smoothing=0.0, reduction="mean"):
    gain = log_p - log_ref
    z, e = beta * (gain[0] - gain[1]), label_smoothing
    terms = (1 - e) * np.log(1 + np.exp(-z)) + e * np.log(1 + np.exp(z))
    return reduce_terms(terms, reduction)


def dpo_loss_grad(log_p, log_ref, beta=0.1):
    """Gradient for the chosen and for the rejected answers, the mean over the pairs."""
    gain = log_p - log_ref
    wrong = 1 / (1 + np.exp(beta * (gain[0] - gain[1])))  # probability of the wrong order
    return np.stack([-beta * wrong, beta * wrong]) / wrong.size


def distillation_loss(logits, teacher, temperature=1.0, kind="kl", reduction="mean"):
    p, q = softmax(logits / temperature), softmax(teacher / temperature)
    m = (p + q) / 2
    terms = {
        "kl": q * np.log(q / p),
        "reverse": p * np.log(p / q),
        "jsd": (p * np.log(p / m) + q * np.log(q / m)) / 2,
    }[kind]
    return reduce_terms(temperature**2 * np.sum(terms, axis=-1), reduction)


def distillation_loss_grad(logits, teacher, temperature=1.0):
    """Gradient of the divergence from the teacher, the mean over the rows."""
    p, q = softmax(logits / temperature), softmax(teacher / temperature)
    return temperature * (p - q) / (p.size / p.shape[-1])


def info_nce(similarity, symmetric=True, reduction="mean"):
    def found(s):
        return np.log(np.sum(np.exp(s), axis=-1)) - np.einsum("...ii->...i", s)

    terms = found(similarity)
    if symmetric:
        terms = (terms + found(np.swapaxes(similarity, -1, -2))) / 2
    return reduce_terms(terms, reduction)


def info_nce_grad(similarity):
    """Gradient of the mean over the pairs."""
    p, q = softmax(similarity), softmax(similarity.T).T
    return ((p + q) / 2 - np.eye(len(p))) / len(p)


def siglip_loss(similarity, bias, reduction="mean"):
    label = 2 * np.eye(similarity.shape[-1]) - 1
    terms = np.sum(np.log(1 + np.exp(-label * (similarity + bias))), axis=-1)
    return reduce_terms(terms, reduction)


def siglip_loss_grad(similarity, bias):
    """Gradients of the mean over the pairs, by the similarities and by the bias."""
    label = 2 * np.eye(len(similarity)) - 1
    grad = -label * sigmoid(-label * (similarity + bias)) / len(label)
    return grad, np.sum(grad)


def policy_loss(log_p, old, advantage, clip=0.2, clip_high=None, kind="ppo", mask=None):
    low, high = 1 - clip, 1 + (clip if clip_high is None else clip_high)
    mask = np.ones(log_p.shape, bool) if mask is None else mask
    lengths = np.maximum(np.sum(mask, axis=1, keepdims=True), 1)
    log_ratio = log_p - old
    if kind == "gspo":  # one ratio for each sequence
        log_ratio = np.sum(np.where(mask, log_ratio, 0), axis=1, keepdims=True) / lengths
    ratio = np.exp(log_ratio)
    clipped = np.where(ratio.real < low, low, np.where(ratio.real > high, high, ratio))
    if kind == "cispo":  # the real part is a constant for a complex step
        gain = clipped.real * advantage * log_p
    else:
        free, bounded = ratio * advantage, clipped * advantage
        gain = np.where(free.real < bounded.real, free, bounded)
    gain = np.where(mask, gain, 0)
    if kind in ("grpo", "gspo"):
        return -np.mean(np.sum(gain, axis=1, keepdims=True) / lengths)
    return -np.sum(gain) / (mask.size if kind == "dr_grpo" else np.sum(mask))


def policy_loss_grad(log_p, old, advantage, clip=0.2):
    """Gradient of PPO's loss, the mean over all tokens."""
    ratio = np.exp(log_p - old)
    stopped = np.where(advantage > 0, ratio > 1 + clip, ratio < 1 - clip)
    return np.where(stopped, 0, -ratio * advantage) / ratio.size


def ctc_loss(log_probs, targets, blank=0, lengths=None, target_lengths=None, reduction="mean"):
    *batch, T, C = log_probs.shape
    steps = np.broadcast_to(T if lengths is None else lengths, batch)
    letters = np.broadcast_to(
        targets.shape[-1] if target_lengths is None else target_lengths, batch
    )
    terms = np.zeros(batch, log_probs.dtype)
    for n in np.ndindex(*batch):
        x, text, total = log_probs[n], list(targets[n][: letters[n]]), 0
        for path in itertools.product(range(C), repeat=int(steps[n])):  # all of them
            merged = [k for k, _ in itertools.groupby(path)]
            if [k for k in merged if k != blank] == text:
                total = total + np.exp(np.sum(x[range(len(path)), list(path)]))
        terms[n] = -np.log(total) / (np.maximum(letters[n], 1) if reduction == "mean" else 1)
    return reduce_terms(terms, reduction)


def fake_quantize(x, scale, zero_point=0, bits=8):
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    ratio = x / scale
    q = ratio + (np.rint(ratio.real) - ratio.real) + zero_point  # the rounding is a constant
    q = np.where(q.real < low, low, np.where(q.real > high, high, q))
    return scale * (q - zero_point)


def fake_quantize_vjp(u, x, scale, zero_point=0, bits=8):
    """Straight-through gradient of the inputs and of one scale."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    q = np.rint(x / scale) + zero_point
    inside = (low <= q) & (q <= high)
    slope = np.clip(q, low, high) - zero_point - np.where(inside, x / scale, 0)
    return np.where(inside, u, 0), np.sum(u * slope)


def quantize_blocks(x, mantissa=3, least=-6, most=8, largest=448.0, block=32):
    blocks = np.reshape(x, (-1, block))
    top = np.max(np.abs(blocks), axis=1, keepdims=True)
    top[top == 0] = 1  # any scale will do for zeros
    scale = 2.0 ** (np.floor(np.log2(top)) - most)
    v = blocks / scale
    size = np.maximum(np.abs(v), 2.0**least)  # below it, the distances stay
    distance = 2.0 ** (np.floor(np.log2(size)) - mantissa)
    v = np.clip(distance * np.rint(v / distance), -largest, largest)
    return np.reshape(scale * v, np.shape(x))
