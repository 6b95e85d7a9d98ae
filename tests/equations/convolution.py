"""The displayed equations of the chapter convolution."""

import itertools

import numpy as np
from equations.ledger import definition, equation
from equations.numeric import gradients, rate

from dlref.convolution import (
    causal_conv,
    causal_conv_jvp,
    causal_conv_vjp,
    conv,
    conv_jvp,
    conv_vjp,
)

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


STEPS, WIDTH, TAPS = 5, 2, 4
SEQUENCE = tuple(
    RNG.normal(size=s) for s in ((STEPS, WIDTH), (WIDTH, TAPS), (WIDTH,), (TAPS - 1, WIDTH))
)


def at_step(x, state, t, d):
    """Return an input, from the state before the first step."""
    return x[t, d] if t >= 0 else state[t, d]


def filtered(x, w, b, state):
    return np.array(
        [
            [
                b[d] + sum(w[d, k] * at_step(x, state, t - TAPS + 1 + k, d) for k in range(TAPS))
                for d in range(WIDTH)
            ]
            for t in range(STEPS)
        ]
    )


def last_inputs(x, state):
    return np.array(
        [[at_step(x, state, t, d) for d in range(WIDTH)] for t in range(len(x) - TAPS + 1, len(x))]
    )


@definition(r"y_{t d} = b_d + \sum_{k=0}^{K-1} W_{d k}\, x_{t - K + 1 + k,\, d} ,")
def window_of_the_last_inputs():
    yield filtered(*SEQUENCE), causal_conv(*SEQUENCE)[0]


@definition(r"\vec h_T = (\vec x_{T - K + 1}, \dots, \vec x_{T - 1})")
def state_of_a_causal_convolution():
    x, w, b, state = SEQUENCE
    for steps in (1, 2, 5):
        yield last_inputs(x[:steps], state), causal_conv(x[:steps], w, b, state)[1]


@equation(
    r"""\pdv{L}{x_{t d}} = \sum_{k=0}^{K-1} W_{d k}\, u_{t + K - 1 - k,\, d}
    + v_{t - T + K - 1,\, d} , \qquad
    \pdv{L}{W_{d k}} = \sum_t u_{t d}\, x_{t - K + 1 + k,\, d} , \qquad
    \pdv{L}{b_d} = \sum_t u_{t d} ,"""
)
def gradients_of_a_causal_convolution():
    x, w, _, state = SEQUENCE
    u, v = RNG.normal(size=x.shape), RNG.normal(size=state.shape)

    def loss(x, w, b, state):
        return np.sum(u * filtered(x, w, b, state)) + np.sum(v * last_inputs(x, state))

    wanted, got = gradients(loss, *SEQUENCE), causal_conv_vjp((u, v), *SEQUENCE)

    def of_output(t, d):
        return u[t, d] if 0 <= t < STEPS else 0.0

    def of_state(i, d):
        return v[i, d] if i >= 0 else 0.0

    by_hand = np.array(
        [
            [
                sum(w[d, k] * of_output(t + TAPS - 1 - k, d) for k in range(TAPS))
                + of_state(t - STEPS + TAPS - 1, d)
                for d in range(WIDTH)
            ]
            for t in range(1 - TAPS, STEPS)
        ]
    )
    yield wanted[0], by_hand[TAPS - 1 :], got[0]
    yield wanted[3], by_hand[: TAPS - 1], got[3]
    by_hand = [
        [
            sum(u[t, d] * at_step(x, state, t - TAPS + 1 + k, d) for t in range(STEPS))
            for k in range(TAPS)
        ]
        for d in range(WIDTH)
    ]
    yield wanted[1], by_hand, got[1]
    yield wanted[2], [sum(u[t, d] for t in range(STEPS)) for d in range(WIDTH)], got[2]


@equation(
    r"""\dot y_{t d} = \dot b_d + \sum_{k=0}^{K-1} \bigl( \dot W_{d k}\,
    x_{t - K + 1 + k,\, d} + W_{d k}\, \dot x_{t - K + 1 + k,\, d} \bigr) , \qquad
    \dot{\vec h}_T = (\dot{\vec x}_{T - K + 1}, \dots, \dot{\vec x}_{T - 1}) ."""
)
def tangents_of_a_causal_convolution():
    x, w, _, state = SEQUENCE
    moves = dx, dw, db, dstate = tuple(RNG.normal(size=a.shape) for a in SEQUENCE)
    out, last = causal_conv_jvp(SEQUENCE, moves)
    by_hand = [
        [
            db[d]
            + sum(
                dw[d, k] * at_step(x, state, t - TAPS + 1 + k, d)
                + w[d, k] * at_step(dx, dstate, t - TAPS + 1 + k, d)
                for k in range(TAPS)
            )
            for d in range(WIDTH)
        ]
        for t in range(STEPS)
    ]
    yield rate(filtered, SEQUENCE, moves), by_hand, out
    yield last_inputs(dx, dstate), last
