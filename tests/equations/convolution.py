"""The displayed equations of the chapter convolution."""

import itertools

import numpy as np
from equations.ledger import equation
from equations.numeric import gradients, rate

from dlref.convolution import (
    causal_conv,
    causal_conv_jvp,
    causal_conv_vjp,
    conv,
    conv_jvp,
    conv_transpose,
    conv_transpose_jvp,
    conv_transpose_vjp,
    conv_vjp,
    max_pool,
    max_pool_jvp,
    max_pool_vjp,
    mean_pool,
    mean_pool_jvp,
    mean_pool_vjp,
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


@equation(r"y_{o t} = b_o + \sum_c \sum_{k=0}^{K-1} W_{o c k}\, x_{c,\, s t + d k - p} ,")
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


@equation(r"y_{t d} = b_d + \sum_{k=0}^{K-1} W_{d k}\, x_{t - K + 1 + k,\, d} ,")
def window_of_the_last_inputs():
    yield filtered(*SEQUENCE), causal_conv(*SEQUENCE)[0]


@equation(r"\vec h_T = (\vec x_{T - K + 1}, \dots, \vec x_{T - 1})")
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


# transposed convolution: from the channels of O to those of C, with the weight (O, C, K)

Q = 1  # output padding
UP = {**OPTIONS, "output_padding": Q}
SHORT = 6
SIZE = (SHORT - 1) * S + D * (K - 1) + 1 - 2 * P + Q
V, VB, VU = (RNG.normal(size=s) for s in ((O, SHORT), (C,), (C, SIZE)))
PAIRS = list(itertools.product(range(SHORT), PLACES))


def written(x, w, o, j):
    """Return what all inputs write to an output."""
    return sum(x[c, t] * w[c, o, k] * (S * t + D * k - P == j) for c in OUTPUTS for t, k in PAIRS)


def spread_out(x, w, b):
    return np.array([[b[o] + written(x, w, o, j) for j in range(SIZE)] for o in CHANNELS])


@equation(
    r"""y_{o j} = b_o + \sum_c \sum_t \sum_{k=0}^{K-1} x_{c t}\, W_{c o k}\,
    [\, s t + d k - p = j\,] ."""
)
def kernels_written_by_inputs():
    yield spread_out(V, W, VB), conv_transpose(V, W, VB, **UP)


@equation(r"T' = (T - 1)\, s + d (K - 1) + 1 - 2 p + q .")
def size_of_a_transposed_convolution():
    for length, size, s, p, d in itertools.product((3, 4), (2, 3), (1, 2, 3), (0, 1), (1, 2)):
        for q in range(max(s, d)):
            # the last place that a kernel reaches, without the padding at both ends
            last = max(s * t + d * k for t in range(length) for k in range(size))
            by_formula = (length - 1) * s + d * (size - 1) + 1 - 2 * p + q
            options = {"stride": s, "padding": p, "dilation": d, "output_padding": q}
            got = conv_transpose(np.ones((1, length)), np.ones((1, 1, size)), **options)
            yield last + 1 - 2 * p + q, by_formula, got.shape[1]


@equation(
    r"""\sum_{c t} x_{c t}\, \operatorname{conv}(\vec z)_{c t}
    = \sum_{o j} \operatorname{conv}^\top(\vec x)_{o j}\, z_{o j} ,"""
)
def adjoint_of_a_convolution():
    z = RNG.normal(size=(C, SIZE))
    y = np.array([[summed(z, W, c, t) for t in range(SHORT)] for c in OUTPUTS])
    back = np.array([[written(V, W, o, j) for j in range(SIZE)] for o in CHANNELS])
    yield conv(z, W, **OPTIONS), y
    yield sum(V[c, t] * y[c, t] for c in OUTPUTS for t in range(SHORT)), np.sum(back * z)


@equation(
    r"""\vec y = \begin{pmatrix} W_0 & 0 \\ W_1 & 0 \\ W_2 & W_0 \\ 0 & W_1 \\ 0 & W_2
    \end{pmatrix} \vec x + b ."""
)
def matrix_of_a_transposed_convolution():
    x, (w0, w1, w2), b = RNG.normal(size=2), RNG.normal(size=3), 0.3
    matrix = [[w0, 0], [w1, 0], [w2, w0], [0, w1], [0, w2]]
    got = conv_transpose(x[None], [[[w0, w1, w2]]], [b], stride=2)[0]
    yield np.array(matrix) @ x + b, got


@equation(
    r"""\pdv{L}{x_{c t}} = \sum_o \sum_k W_{c o k}\, u_{o,\, s t + d k - p} , \qquad
    \pdv{L}{W_{c o k}} = \sum_t x_{c t}\, u_{o,\, s t + d k - p} , \qquad
    \pdv{L}{b_o} = \sum_j u_{o j} ,"""
)
def gradients_of_a_transposed_convolution():
    dx, dw, db = gradients(lambda *ops: np.sum(VU * spread_out(*ops)), V, W, VB)
    got = conv_transpose_vjp(VU, V, W, VB, **UP)
    by_hand = [[summed(VU, W, c, t) for t in range(SHORT)] for c in OUTPUTS]
    yield dx, by_hand, got[0]
    by_hand = [
        [
            [sum(V[c, t] * inside(VU, o, S * t + D * k - P) for t in range(SHORT)) for k in PLACES]
            for o in CHANNELS
        ]
        for c in OUTPUTS
    ]
    yield dw, by_hand, got[1]
    yield db, [sum(VU[o, j] for j in range(SIZE)) for o in CHANNELS], got[2]


@equation(
    r"""\dot y_{o j} = \dot b_o + \sum_c \sum_t \sum_k \bigl( \dot x_{c t}\, W_{c o k}
    + x_{c t}\, \dot W_{c o k} \bigr) [\, s t + d k - p = j\,] ."""
)
def tangent_of_a_transposed_convolution():
    moves = dx, dw, db = [RNG.normal(size=a.shape) for a in (V, W, VB)]
    by_hand = [
        [db[o] + written(dx, W, o, j) + written(V, dw, o, j) for j in range(SIZE)] for o in CHANNELS
    ]
    moved = conv_transpose_jvp((V, W, VB), moves, **UP)
    yield rate(spread_out, (V, W, VB), moves), by_hand, moved


# pooling: windows of four places, two steps apart, of a row of nine with one more at both ends

ROW, PLACES_OF_A_WINDOW = RNG.normal(size=9), range(4)
POOLED = {"size": (4,), "stride": 2, "padding": 1}
WINDOWS = range((9 + 2 - 4) // 2 + 1)
ROW_U, ROW_MOVE = RNG.normal(size=len(WINDOWS)), RNG.normal(size=9)


def of_row(x, j, beyond):
    return x[j] if 0 <= j < 9 else beyond


def winner(t):
    return max(PLACES_OF_A_WINDOW, key=lambda k: of_row(ROW, 2 * t + k - 1, -np.inf))


@equation(r"y_t = \max_{0 \le k < K} x_{s t + k - p} ,")
def maximum_of_a_window():
    by_hand = [
        max(of_row(ROW, 2 * t + k - 1, -np.inf) for k in PLACES_OF_A_WINDOW) for t in WINDOWS
    ]
    yield by_hand, max_pool(ROW, **POOLED)


@equation(
    r"\pdv{L}{x_j} = \sum_t u_t\, [\, s t + k_t - p = j\,] .",
    r"\dot y_t = \dot x_{s t + k_t - p} .",
)
def derivatives_of_the_maximum_of_a_window():
    def pooled(x):
        return np.array([x[2 * t + winner(t) - 1] for t in WINDOWS])

    (grad,) = gradients(lambda x: np.sum(ROW_U * pooled(x)), ROW)
    by_hand = [sum(ROW_U[t] * (2 * t + winner(t) - 1 == j) for t in WINDOWS) for j in range(9)]
    yield grad, by_hand, max_pool_vjp(ROW_U, ROW, **POOLED)
    by_hand = [ROW_MOVE[2 * t + winner(t) - 1] for t in WINDOWS]
    yield rate(pooled, [ROW], [ROW_MOVE]), by_hand, max_pool_jvp(ROW, ROW_MOVE, **POOLED)


def averaged(x):
    return np.array(
        [sum(of_row(x, 2 * t + k - 1, 0.0) for k in PLACES_OF_A_WINDOW) / 4 for t in WINDOWS]
    )


@equation(r"y_t = \frac{1}{K} \sum_{k=0}^{K-1} x_{s t + k - p} ,")
def mean_of_a_window():
    yield averaged(ROW), mean_pool(ROW, **POOLED)


@equation(
    r"\pdv{L}{x_j} = \frac{1}{K} \sum_t \sum_{k=0}^{K-1} u_t\, [\, s t + k - p = j\,] .",
    r"\dot y_t = \frac{1}{K} \sum_{k=0}^{K-1} \dot x_{s t + k - p} .",
)
def derivatives_of_the_mean_of_a_window():
    (grad,) = gradients(lambda x: np.sum(ROW_U * averaged(x)), ROW)
    every = list(itertools.product(WINDOWS, PLACES_OF_A_WINDOW))
    by_hand = [sum(ROW_U[t] / 4 * (2 * t + k - 1 == j) for t, k in every) for j in range(9)]
    yield grad, by_hand, mean_pool_vjp(ROW_U, ROW, **POOLED)
    moved = mean_pool_jvp(ROW, ROW_MOVE, **POOLED)
    yield rate(averaged, [ROW], [ROW_MOVE]), averaged(ROW_MOVE), moved
