"""The displayed equations of the chapter convolution."""

import itertools

import numpy as np
from equations.ledger import definition, equation
from equations.numeric import gradients, rate

from dlref.convolution import conv, conv_jvp, conv_vjp

RNG = np.random.default_rng(0)
C, O, T, K = 2, 3, 8, 3
S, P, D = 2, 3, 2  # stride, padding, dilation
OPTIONS = {"stride": S, "padding": P, "dilation": D}
COUNT = (T + 2 * P - D * (K - 1) - 1) // S + 1
X, W, B, U = (RNG.normal(size=s) for s in ((C, T), (O, C, K), (O,), (O, COUNT)))
CHANNELS, OUTPUTS, PLACES = range(C), range(O), range(K)


def inside(x, c, j):
    """Return an element, 0 outside."""
    return x[c, j] if 0 <= j < x.shape[1] else 0.0


def summed(x, w, o, t):
    """Return the sum over channels and places of the kernel."""
    return sum(w[o, c, k] * inside(x, c, S * t + D * k - P) for c in CHANNELS for k in PLACES)


def convolved(x, w, b):
    return np.array([[b[o] + summed(x, w, o, t) for t in range(COUNT)] for o in OUTPUTS])


@definition(r"y_{o t} = b_o + \sum_c \sum_{k=0}^{K-1} W_{o c k}\, x_{c,\, s t + d k - p} ,")
def windows_of_a_convolution():
    yield convolved(X, W, B), conv(X, W, B, **OPTIONS)


@equation(r"T' = \Bigl\lfloor \frac{T + 2 p - d (K - 1) - 1}{s} \Bigr\rfloor + 1 .")
def number_of_windows():
    for length, size, s, p, d in itertools.product((5, 6, 7), (1, 2, 3), (1, 2, 3), (0, 1), (1, 2)):
        # the windows that end within the padded input
        ends = [t for t in range(99) if s * t + d * (size - 1) <= length + 2 * p - 1]
        by_formula = np.floor((length + 2 * p - d * (size - 1) - 1) / s) + 1
        got = conv(np.ones((1, length)), np.ones((1, 1, size)), stride=s, padding=p, dilation=d)
        yield len(ends), by_formula, got.shape[1]


@equation(
    r"""\vec y = \begin{pmatrix} W_1 & W_2 & 0 & 0 \\ W_0 & W_1 & W_2 & 0 \\
    0 & W_0 & W_1 & W_2 \\ 0 & 0 & W_0 & W_1 \end{pmatrix} \vec x + b ."""
)
def matrix_of_a_convolution():
    x, (w0, w1, w2), b = RNG.normal(size=4), RNG.normal(size=3), 0.3
    matrix = [[w1, w2, 0, 0], [w0, w1, w2, 0], [0, w0, w1, w2], [0, 0, w0, w1]]
    yield np.array(matrix) @ x + b, conv(x[None], [[[w0, w1, w2]]], [b], padding=1)[0]


@equation(
    r"""\pdv{L}{x_{c j}} &= \sum_o \sum_t \sum_k u_{o t}\, W_{o c k}\, [\, s t + d k - p = j\,] \\
    \pdv{L}{W_{o c k}} &= \sum_t u_{o t}\, x_{c,\, s t + d k - p} , \qquad
    \pdv{L}{b_o} = \sum_t u_{o t} ,"""
)
def gradients_of_a_convolution():
    dx, dw, db = gradients(lambda *ops: np.sum(U * convolved(*ops)), X, W, B)
    got = conv_vjp(U, X, W, B, **OPTIONS)
    every = list(itertools.product(OUTPUTS, range(COUNT), PLACES))
    by_hand = [
        [
            sum(U[o, t] * W[o, c, k] * (S * t + D * k - P == j) for o, t, k in every)
            for j in range(T)
        ]
        for c in CHANNELS
    ]
    yield dx, by_hand, got[0]
    by_hand = [
        [
            [sum(U[o, t] * inside(X, c, S * t + D * k - P) for t in range(COUNT)) for k in PLACES]
            for c in CHANNELS
        ]
        for o in OUTPUTS
    ]
    yield dw, by_hand, got[1]
    yield db, [sum(U[o, t] for t in range(COUNT)) for o in OUTPUTS], got[2]


@equation(
    r"""\pdv{L}{x_{c j}} = \sum_o \sum_{k'} W_{o c,\, K - 1 - k'}\, u_{o,\, j + d k' - p'} ,
    \qquad p' = d (K - 1) - p :"""
)
def gradient_by_the_reversed_kernel():
    for p in (0, 1, 3, 5):
        u = RNG.normal(size=(O, T + 2 * p - D * (K - 1)))
        beyond = D * (K - 1) - p
        by_hand = [
            [
                sum(
                    W[o, c, K - 1 - k] * inside(u, o, j + D * k - beyond)
                    for o in OUTPUTS
                    for k in PLACES
                )
                for j in range(T)
            ]
            for c in CHANNELS
        ]
        yield by_hand, conv_vjp(u, X, W, padding=p, dilation=D)[0]


@equation(
    r"""\dot y_{o t} = \dot b_o + \sum_c \sum_k \bigl( \dot W_{o c k}\, x_{c,\, s t + d k - p}
    + W_{o c k}\, \dot x_{c,\, s t + d k - p} \bigr) ."""
)
def tangent_of_a_convolution():
    moves = dx, dw, db = [RNG.normal(size=a.shape) for a in (X, W, B)]
    by_hand = [
        [db[o] + summed(X, dw, o, t) + summed(dx, W, o, t) for t in range(COUNT)] for o in OUTPUTS
    ]
    yield rate(convolved, (X, W, B), moves), by_hand, conv_jvp((X, W, B), moves, **OPTIONS)
