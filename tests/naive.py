"""
Naive oracles: each displayed formula, transcribed once, with no tricks.

Written from the docstrings, never from the code under test.  They accept complex input, so
that a complex step differentiates them to the last digit.
"""

import functools

import numpy as np


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


def subtract(w, x):
    return w - x


def multiply(w, x):
    return w * x


def divide(w, x):
    return w / x


def power(w, x):
    return np.exp(x * np.log(w))


def maximum(w, x):
    return np.where(np.real(w) > np.real(x), w, x)


def minimum(w, x):
    return np.where(np.real(w) < np.real(x), w, x)


def sum(x, axis=None, keepdims=False):
    return np.sum(x, axis=axis, keepdims=keepdims)


def mean(x, axis=None, keepdims=False):
    count = np.sum(np.ones(x.shape), axis=axis, keepdims=keepdims)
    return np.sum(x, axis=axis, keepdims=keepdims) / count


def prod(x, axis=None, keepdims=False):
    return np.prod(x, axis=axis, keepdims=keepdims)


def max(x, axis=None, keepdims=False):
    return np.max(x, axis=axis, keepdims=keepdims)  # complex numbers compare by real part first


def norm(x, axis=None, keepdims=False):
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


def dot(w, x):
    return np.sum(w * x, axis=-1)


def scaled_sum(x, z):
    return np.sum(x * np.reshape(z, ()))


def matmul(a, b):
    return a @ b


def quadratic_form(x, a):
    return np.einsum("...i,...ij,...j->...", x, a, x)


def trace(a):
    return np.einsum("...ii->...", a)


def inverse(a):
    return np.linalg.inv(a)


def logdet(a):
    return np.log(np.linalg.det(a))


def chain_rule(*jacobians):
    return functools.reduce(np.matmul, jacobians)
