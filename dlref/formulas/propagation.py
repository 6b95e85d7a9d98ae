"""
Random weights, and the size of signals and gradients in deep networks of them.

Weights have the shape (n_out, n_in, ...); q is the mean square of a pre-activation.
"""

import itertools
import math

import numpy as np

from .activations import activation_of, relu
from .calculus import absolute

# == gradient_magnitude


def gradient_magnitude(weight, depth, *, activation_slope=1.0):
    """
    A product of equal factors, one for each layer.

    >>> depth = np.array([1, 2, 3])
    >>> print(gradient_magnitude(2.0, depth, activation_slope=0.25))
    [0.5   0.25  0.125]
    """
    factor = absolute(np.asarray(weight * activation_slope))
    return factor ** np.asarray(depth, factor.dtype)


# == initialization


def fans(shape):
    """Inputs of each output, and outputs of each input."""
    n_out, n_in, *window = shape
    return n_in * math.prod(window), n_out * math.prod(window)


def glorot_uniform(rng, shape, *, gain=1.0):
    """
    Glorot, also called Xavier: a compromise between both directions.

    >>> W = glorot_uniform(np.random.default_rng(0), (400, 200))
    >>> print(np.round(np.max(np.abs(W)), 3))
    0.1
    >>> print(np.round(np.var(W) * (400 + 200) / 2, 1))
    1.0
    """
    n_in, n_out = fans(shape)
    a = gain * math.sqrt(6 / (n_in + n_out))
    return rng.uniform(-a, a, shape)


def glorot_normal(rng, shape, *, gain=1.0):
    """The same variance, with normal weights."""
    n_in, n_out = fans(shape)
    return rng.normal(0.0, gain * math.sqrt(2 / (n_in + n_out)), shape)


def he_uniform(rng, shape, *, negative_slope=0.0):
    """He, also called Kaiming: for rectifiers, which keep half of the mean square."""
    n_in, _ = fans(shape)
    a = math.sqrt(6 / ((1 + negative_slope**2) * n_in))
    return rng.uniform(-a, a, shape)


def he_normal(rng, shape, *, negative_slope=0.0):
    """
    The same variance, with normal weights.

    >>> W = he_normal(np.random.default_rng(0), (400, 600))
    >>> print(np.round(np.var(W) * 600, 1))
    2.0
    """
    n_in, _ = fans(shape)
    return rng.normal(0.0, math.sqrt(2 / ((1 + negative_slope**2) * n_in)), shape)


def lecun_normal(rng, shape):
    """
    LeCun: for activations that keep the mean square, such as SELU.

    >>> W = lecun_normal(np.random.default_rng(0), (400, 600))
    >>> print(np.round(np.var(W) * 600, 1))
    1.0
    """
    n_in, _ = fans(shape)
    return rng.normal(0.0, math.sqrt(1 / n_in), shape)


def orthogonal(rng, shape, *, gain=1.0):
    """
    Rows or columns that are orthonormal.

    >>> W = orthogonal(np.random.default_rng(0), (2, 3))
    >>> print(np.abs(np.round(W @ W.T, 12)))
    [[1. 0.]
     [0. 1.]]
    """
    (n_in, _), n_out = fans(shape), shape[0]
    tall = (max(n_out, n_in), min(n_out, n_in))
    q, r = np.linalg.qr(rng.normal(size=tall))
    q = q * np.where(np.diag(r) < 0, -1, 1)  # No matter which signs the algorithm prefers.
    return gain * (q if n_out >= n_in else q.T).reshape(shape)


# == signal_propagation


def initialization_of(name):
    """An initialization, by name."""
    by_name = {
        "glorot_uniform": glorot_uniform,
        "glorot_normal": glorot_normal,
        "he_uniform": he_uniform,
        "he_normal": he_normal,
        "lecun_normal": lecun_normal,
        "orthogonal": orthogonal,
    }
    return by_name[name]


def forward_moments(rng, widths, samples=100):
    """
    Mean squares of the pre-activations, layer by layer, with He weights and ReLU.

    >>> moments = forward_moments(np.random.default_rng(0), (500, 500, 500, 500))
    >>> print(np.round(moments))
    [2. 2. 2.]
    """
    h, moments = rng.normal(size=(samples, widths[0])), []
    for n_in, n_out in itertools.pairwise(widths):
        z = h @ he_normal(rng, (n_out, n_in)).T
        moments.append(np.mean(z**2))
        h = relu(z)
    return moments


def mean_square(f, q):
    """Mean of f(z)² for a normal z of mean 0 and variance q."""
    # Quadrature by Gauss and Legendre, on intervals that end at the kinks of activations.
    kinks = np.array([0.5, 1.0, 2.0, 3.0, 6.0, 12.0, 40.0]) / math.sqrt(q)
    kinks = kinks[kinks < 12]
    ends = np.unique(np.concatenate([-kinks, kinks, np.arange(-12, 12.5, 0.5)]))
    nodes, weights = np.polynomial.legendre.leggauss(24)
    middle, half = (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2
    t = middle[:, None] + half[:, None] * nodes
    density = np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)
    return np.sum(half[:, None] * weights * density * f(math.sqrt(q) * t) ** 2)


def predict_forward(weights, f):
    """Mean squares of the pre-activations, by a recursion from the first layer on."""
    q, moments = 1.0, []
    for W in weights:
        if moments:
            q = mean_square(f, q)
        q = W.shape[1] * np.mean(W**2) * q
        moments.append(q)
    return np.array(moments)


def predict_backward(weights, slope, moments):
    """Mean squares of the gradients, by a recursion from the last layer down."""
    g, gradients = 1.0, []
    for W, q in zip(weights[::-1], moments[::-1], strict=True):
        g = g * mean_square(slope, q)
        gradients.append(g)
        g = g * W.shape[0] * np.mean(W**2)
    return np.array(gradients[::-1])


def signal_propagation(widths, *, activation="relu", init="he_normal", rng, samples=100):
    """
    Mean squares in a random network, measured and predicted, forward and backward.

    >>> rng = np.random.default_rng(0)
    >>> forward, _, predicted, _ = signal_propagation((500, 500, 500, 500), rng=rng)
    >>> print(np.round(forward), np.round(predicted))
    [2. 2. 2.] [2. 2. 2.]
    """
    f, slope = activation_of(activation)
    draw = initialization_of(init) if isinstance(init, str) else init
    weights = [draw(rng, (n_out, n_in)) for n_in, n_out in itertools.pairwise(widths)]
    h, zs = rng.normal(size=(samples, widths[0])), []
    for W in weights:
        zs.append(h @ W.T)
        h = f(zs[-1])
    dh, deltas = rng.normal(size=h.shape), []
    for W, z in zip(weights[::-1], zs[::-1], strict=True):
        deltas.insert(0, dh * slope(z))
        dh = deltas[0] @ W
    forward = np.array([np.mean(z**2) for z in zs])
    backward = np.array([np.mean(delta**2) for delta in deltas])
    predicted = predict_forward(weights, f)
    return forward, backward, predicted, predict_backward(weights, slope, predicted)


def root_between(f, low, high):
    """Where a function changes its sign, by halving the interval."""
    for _ in range(200):
        middle = (low + high) / 2
        if (f(middle) > 0) == (f(low) > 0):
            low = middle
        else:
            high = middle
    return high


def critical_gain(activation, *, bias_deviation=0.0):
    """
    Gain with which gradients keep their size, at the fixed point of the mean square.

    >>> gains = [critical_gain(activation) for activation in ("tanh", "relu", "selu")]
    >>> print(np.round(gains, 2))
    [1.   1.41 0.69]
    """
    f, slope = activation_of(activation)
    if bias_deviation == 0 and f(np.zeros(1)) == 0:
        # The fixed point is 0, where only the slopes on both sides count.
        below, above = slope(np.array([-1e-300, 1e-300]))
        return math.sqrt(2 / (below**2 + above**2))

    def excess(q):
        return mean_square(f, q) / mean_square(slope, q) + bias_deviation**2 - q

    low, high = 1e-12, 1.0
    while excess(high) > 0 and high < 1e16:
        low, high = high, 4 * high
    if excess(high) <= 0:
        high = root_between(excess, low, high)
    return 1 / math.sqrt(mean_square(slope, high))
