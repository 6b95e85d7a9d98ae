"""The displayed equations of dlref.recurrent.

A loop is run with complex numbers, and with a bump added to one of its quantities: the derivative
by the bump is the gradient of the loss by that quantity, with all that comes after it.
"""

import functools

import numpy as np
from equations.ledger import equation
from equations.numeric import complex_step, gradients, jacobian_of, rate

from dlref import recurrent
from dlref.attention import recurrent_linear_attention
from dlref.formulas.activations import sigmoid

T, D, H = 4, 2, 3
RNG = np.random.default_rng(0)
X, START, CELL = RNG.normal(size=(T, D)), RNG.normal(size=H), RNG.normal(size=H)
W_IH, W_HH = RNG.normal(size=(H, D)), RNG.normal(size=(H, H)) / 2
B_IH, B_HH = RNG.normal(size=H), RNG.normal(size=H)
U = RNG.normal(size=(T, H))  # the cotangents of the states
W_OUT, B_OUT = RNG.normal(size=(2, H)), RNG.normal(size=2)
STILL = np.zeros((T, H))


def drawn(arrays):
    """Return a tangent for each array."""
    rng = np.random.default_rng(1)
    return [rng.normal(size=np.shape(a)) for a in arrays]


# The plain network


def before_of_rnn(x, h, w_ih, w_hh, b_ih, b_hh):
    """Return the pre-activation of one step."""
    return w_ih @ x + b_ih + w_hh @ h + b_hh


RNN = START, W_IH, W_HH, B_IH, B_HH


def rnn(x, h, *weights, by_state=STILL, by_z=STILL):
    """Return the pre-activations and the states, moved by bumps."""
    before, states = [], []
    for t in range(T):
        before.append(before_of_rnn(x[t], h, *weights) + by_z[t])
        h = np.tanh(before[-1]) + by_state[t]
        states.append(h)
    return np.array(before), np.array(states)


def rnn_loss(x=X, h=START, *weights, **bumps):
    """Return the loss whose cotangents are U."""
    return np.sum(U * rnn(x, h, *(weights or RNN[1:]), **bumps)[1])


def rnn_gradients():
    """Return dL/dh and dL/dz of all steps, and the states with the initial one before them."""
    dh = jacobian_of(lambda b: rnn_loss(by_state=b), STILL)
    dz = jacobian_of(lambda b: rnn_loss(by_z=b), STILL)
    before, states = rnn(X, *RNN)
    return dh, dz, before, np.array([START, *states])


@equation(
    r"""\vec z = \mat W_{ih}\, \vec x + \vec b_{ih} + \mat W_{hh}\, \vec h + \vec b_{hh}, \qquad
    \vec h' = \phi(\vec z)."""
)
def rnn_cell():
    z = W_IH @ X[0] + B_IH + W_HH @ START + B_HH
    yield recurrent.rnn_cell(X[0], *RNN), np.tanh(z)
    yield recurrent.rnn_cell(X[0], *RNN, activation="sigmoid"), sigmoid(z)


@equation(
    r"""\pdv{L}{\vec x} = \mat W_{ih}^\top \vec\delta, \quad
    \pdv{L}{\vec h} = \mat W_{hh}^\top \vec\delta, \quad
    \pdv{L}{\mat W_{ih}} = \vec\delta\, \vec x^\top, \quad
    \pdv{L}{\mat W_{hh}} = \vec\delta\, \vec h^\top, \quad
    \pdv{L}{\vec b} = \vec\delta ,"""
)
def rnn_cell_vjp():
    point, u = (X[0], *RNN), U[0]
    z = before_of_rnn(*point)
    delta = complex_step(np.tanh, z) * u

    def gradient(k):
        def loss(a):
            moved = [*point[:k], a, *point[k + 1 :]]
            return np.sum(u * np.tanh(before_of_rnn(*moved)))

        return jacobian_of(loss, point[k])

    x, h = point[:2]
    yield gradient(0), W_IH.T @ delta
    yield gradient(1), W_HH.T @ delta
    yield gradient(2), np.outer(delta, x)
    yield gradient(3), np.outer(delta, h)
    yield gradient(4), gradient(5), delta


@equation(
    r"""\dot{\vec h}' = \phi'(\vec z) \odot \bigl( \mat W_{ih} \dot{\vec x}
    + \dot{\mat W}_{ih} \vec x + \mat W_{hh} \dot{\vec h} + \dot{\mat W}_{hh} \vec h
    + \dot{\vec b}_{ih} + \dot{\vec b}_{hh} \bigr)."""
)
def rnn_cell_jvp():
    point = x, h, w_ih, w_hh, _, _ = (X[0], *RNN)
    moves = dx, dh, dw_ih, dw_hh, db_ih, db_hh = drawn(point)
    slope = complex_step(np.tanh, before_of_rnn(*point))
    right = slope * (w_ih @ dx + dw_ih @ x + w_hh @ dh + dw_hh @ h + db_ih + db_hh)
    yield rate(lambda *a: np.tanh(before_of_rnn(*a)), point, moves), right


@equation(
    r"""\vec z_t = \mat W_{ih}\, \vec x_t + \vec b_{ih} + \mat W_{hh}\, \vec h_{t-1} + \vec b_{hh},
    \qquad \vec h_t = \phi(\vec z_t), \qquad t = 1 \dots T."""
)
def rnn_of_a_sequence():
    h = [START]
    for t in range(1, T + 1):
        z = W_IH @ X[t - 1] + B_IH + W_HH @ h[t - 1] + B_HH
        h.append(np.tanh(z))
    yield recurrent.rnn(X, *RNN), h[1:]


@equation(r"\vec h_t = \phi(\mat W_{ih}\, \vec x_t + \mat W_{hh}\, \vec h_{t-1} + \vec b) .")
def rnn_with_one_bias():
    h, b = [START], B_IH
    for t in range(1, T + 1):
        h.append(np.tanh(W_IH @ X[t - 1] + W_HH @ h[t - 1] + b))
    yield recurrent.rnn(X, START, W_IH, W_HH, b), h[1:]


@equation(
    r"""\dv{L}{\vec h_t} = \vec u_t + \mat W_{hh}^\top \vec\delta_{t+1},
    \qquad \vec\delta_{T+1} = \vec 0 ."""
)
def total_derivative_by_a_state():
    dh, dz, *_ = rnn_gradients()
    delta = [*dz, np.zeros(H)]
    for t in range(T):
        yield dh[t], U[t] + W_HH.T @ delta[t + 1]


@equation(
    r"""\vec\delta_t = \phi'(\vec z_t) \odot
    \bigl( \vec u_t + \mat W_{hh}^\top \vec\delta_{t+1} \bigr), \qquad t = T, \dots, 1 ."""
)
def backpropagation_through_time():
    _, dz, before, _ = rnn_gradients()
    delta = np.zeros(H)
    for t in reversed(range(T)):
        delta = complex_step(np.tanh, before[t]) * (U[t] + W_HH.T @ delta)
        yield delta, dz[t]


@equation(
    r"""\pdv{L}{\mat W_{hh}} = \sum_{t=1}^T \vec\delta_t\, \vec h_{t-1}^\top, \qquad
    \pdv{L}{\mat W_{ih}} = \sum_{t=1}^T \vec\delta_t\, \vec x_t^\top, \qquad
    \pdv{L}{\vec b_{ih}} = \pdv{L}{\vec b_{hh}} = \sum_{t=1}^T \vec\delta_t ,"""
)
def gradients_of_the_weights():
    _, delta, _, h = rnn_gradients()
    loss = functools.partial(rnn_loss, X, START)
    steps = range(1, T + 1)
    yield (
        jacobian_of(lambda w: loss(W_IH, w, B_IH, B_HH), W_HH),
        sum(np.outer(delta[t - 1], h[t - 1]) for t in steps),
    )
    yield (
        jacobian_of(lambda w: loss(w, W_HH, B_IH, B_HH), W_IH),
        sum(np.outer(delta[t - 1], X[t - 1]) for t in steps),
    )
    yield (
        jacobian_of(lambda b: loss(W_IH, W_HH, b, B_HH), B_IH),
        jacobian_of(lambda b: loss(W_IH, W_HH, B_IH, b), B_HH),
        sum(delta[t - 1] for t in steps),
    )


@equation(
    r"""\dot{\vec h}_t = \phi'(\vec z_t) \odot \bigl( \mat W_{hh}\, \dot{\vec h}_{t-1}
    + \mat W_{ih} \dot{\vec x}_t + \dot{\mat W}_{ih} \vec x_t
    + \dot{\mat W}_{hh} \vec h_{t-1} + \dot{\vec b}_{ih} + \dot{\vec b}_{hh} \bigr)."""
)
def tangents_of_the_states():
    point = (X, *RNN)
    moves = dx, dh_0, dw_ih, dw_hh, db_ih, db_hh = drawn(point)
    dh = [dh_0, *rate(lambda *a: rnn(*a)[1], point, moves)]
    before, states = rnn(*point)
    h = [START, *states]
    for t in range(1, T + 1):
        slope = complex_step(np.tanh, before[t - 1])
        terms = W_HH @ dh[t - 1] + W_IH @ dx[t - 1] + dw_ih @ X[t - 1] + dw_hh @ h[t - 1]
        yield dh[t], slope * (terms + db_ih + db_hh)


@equation(
    r"""\pdv{\vec h_t}{\vec h_s} = \prod_{k=t}^{s+1}
    \operatorname{diag}\bigl(\phi'(\vec z_k)\bigr)\, \mat W_{hh} ."""
)
def jacobian_of_a_state():
    before, states = rnn(X, *RNN)

    def last(h, s):
        """Return the last state from that of step s, counted from 1."""
        for x in X[s:]:
            h = np.tanh(before_of_rnn(x, h, *RNN[1:]))
        return h

    for s in range(1, T):
        product = np.eye(H)
        for k in range(T, s, -1):
            product = product @ np.diag(complex_step(np.tanh, before[k - 1])) @ W_HH
        yield jacobian_of(functools.partial(last, s=s), states[s - 1]), product


@equation(r"\norm{\pdv{\vec h_t}{\vec h_s}}_2 \le (\gamma\, \norm{\mat W_{hh}}_2)^{t-s} .")
def bound_of_the_jacobian():
    rng = np.random.default_rng(7)
    turn = 0.9 * np.linalg.qr(rng.normal(size=(H, H)))[0]
    for slopes in ("sigmoid", "one"):
        for weight in (rng.normal(size=(H, H)), turn):
            gamma, product, distance = (0.25 if slopes == "sigmoid" else 1.0), np.eye(H), 5
            for z in rng.normal(size=(distance, H)):
                slope = complex_step(sigmoid, z) if slopes == "sigmoid" else np.ones(H)
                product = np.diag(slope) @ weight @ product
            norm = np.linalg.norm(product, 2)
            bound = (gamma * np.linalg.norm(weight, 2)) ** distance
            yield norm <= bound * (1 + 1e-12), True
            if slopes == "one" and weight is turn:
                yield norm, bound  # which is reached


# LSTM

W_X, W_H = RNG.normal(size=(4 * H, D)), RNG.normal(size=(4 * H, H))
B = RNG.normal(size=4 * H)
PEEPHOLES = RNG.normal(size=(3, H))  # of i, f and o
NONE = np.zeros((3, H))


def lstm_step(x, h, c, w_x, w_h, b, peepholes=NONE, bumps=STILL, by_cell=0.0):
    """Return the gates and both states of one step; bumps of the pre-activations i, f, g, o."""
    p_i, p_f, p_o = peepholes
    z_i, z_f, z_g, z_o = (w_x @ x + w_h @ h + b).reshape(4, H) + bumps
    i, f, g = sigmoid(z_i + p_i * c), sigmoid(z_f + p_f * c), np.tanh(z_g)
    new = f * c + i * g + by_cell
    o = sigmoid(z_o + p_o * new)
    return i, f, g, o, new, o * np.tanh(new)


STEP = X[0], START, CELL, W_X, W_H, B


@equation(
    r"""\vec i &= \sigma(\mat W_{xi} \vec x + \mat W_{hi} \vec h + \vec b_i), &
    \vec f &= \sigma(\mat W_{xf} \vec x + \mat W_{hf} \vec h + \vec b_f), \\
    \vec g &= \tanh(\mat W_{xg} \vec x + \mat W_{hg} \vec h + \vec b_g), \quad &
    \vec o &= \sigma(\mat W_{xo} \vec x + \mat W_{ho} \vec h + \vec b_o),""",
    r"""\vec c' = \vec f \odot \vec c + \vec i \odot \vec g, \qquad
    \vec h' = \vec o \odot \tanh(\vec c').""",
)
def lstm_cell():
    x, h, c = STEP[:3]
    (xi, xf, xg, xo), (hi, hf, hg, ho) = W_X.reshape(4, H, D), W_H.reshape(4, H, H)
    bi, bf, bg, bo = B.reshape(4, H)
    i = sigmoid(xi @ x + hi @ h + bi)
    f = sigmoid(xf @ x + hf @ h + bf)
    g = np.tanh(xg @ x + hg @ h + bg)
    o = sigmoid(xo @ x + ho @ h + bo)
    new = f * c + i * g
    got = recurrent.lstm_cell(x, h, c, W_X, W_H, B)
    yield got[0], o * np.tanh(new)
    yield got[1], new
    yield np.stack(lstm_step(*STEP)), np.stack([i, f, g, o, new, o * np.tanh(new)])


def lstm_states():
    """Return the values of every step: i, f, g, o, c and h."""
    h, c, steps = START, CELL, []
    for x in X:
        steps.append(lstm_step(x, h, c, W_X, W_H, B))
        c, h = steps[-1][4:]
    return steps


@equation(
    r"""\vec c_t = \vec f_t \odot \vec c_{t-1} + \vec i_t \odot \vec g_t, \qquad
    \vec h_t = \vec o_t \odot \tanh \vec c_t ."""
)
def lstm():
    got, c = recurrent.lstm(X, START, CELL, W_X, W_H, B), CELL
    for t, (i, f, g, o, _, _) in enumerate(lstm_states()):
        c = f * c + i * g
        yield got[0][t], o * np.tanh(c)


@equation(
    r"""\vec c_t = \Bigl( \prod_{k=1}^{t} \vec f_k \Bigr) \odot \vec c_0
    + \sum_{s=1}^{t} \Bigl( \prod_{k=s+1}^{t} \vec f_k \Bigr)
    \odot \vec i_s \odot \vec g_s ."""
)
def cell_unrolled():
    i, f, g, _, c, _ = (np.array(values) for values in zip(*lstm_states(), strict=True))
    for t in range(1, T + 1):
        written = [np.prod(f[s:t], axis=0) * i[s - 1] * g[s - 1] for s in range(1, t + 1)]
        yield c[t - 1], np.prod(f[:t], axis=0) * CELL + sum(written)


@equation(
    r"""\dv{L}{\vec c'} = \pdv{L}{\vec c'} + \pdv{L}{\vec h'} \odot \vec o \odot
    (1 - \tanh^2 \vec c') , \qquad
    \dv{L}{\vec c} = \vec f \odot \dv{L}{\vec c'} \quad (\text{no peepholes})."""
)
def through_the_cell():
    def loss(c=CELL, **bumps):
        *_, new, h = lstm_step(X[0], START, c, W_X, W_H, B, **bumps)
        return np.sum(U[0] * h + U[1] * new)

    by_new = jacobian_of(lambda b: loss(by_cell=b), np.zeros(H))
    _, f, _, o, new, _ = lstm_step(*STEP)
    total = U[1] + U[0] * o * (1 - np.tanh(new) ** 2)
    yield by_new, total
    yield jacobian_of(loss, CELL), f * total


@equation(
    r"""\dot{\vec c}' = \vec f \odot \dot{\vec c} + \dot{\vec f} \odot \vec c
    + \vec i \odot \dot{\vec g} + \dot{\vec i} \odot \vec g, \qquad
    \dot{\vec h}' = \dot{\vec o} \odot \tanh \vec c'
    + \vec o \odot (1 - \tanh^2 \vec c') \odot \dot{\vec c}' ."""
)
def lstm_cell_jvp():
    moves = drawn(STEP)
    i, f, g, o, new, _ = lstm_step(*STEP)
    di, df, dg, do, dnew, dh = rate(lambda *a: np.stack(lstm_step(*a)), STEP, moves)
    c, dc = CELL, moves[2]
    yield dnew, f * dc + df * c + i * dg + di * g
    yield dh, do * np.tanh(new) + o * (1 - np.tanh(new) ** 2) * dnew


ETA, U_C, BAR_C = RNG.normal(size=(3, H))


def lstm_loss(h=START, c=CELL, **bumps):
    """Return the loss of one step: what its states are worth later, and in the output."""
    *_, new, out = lstm_step(X[0], h, c, W_X, W_H, B, PEEPHOLES, **bumps)
    return np.sum(ETA * out + (U_C + BAR_C) * new)


def lstm_gradients():
    """Return the gradients by the pre-activations and by the new cell state, and the values."""
    deltas = jacobian_of(lambda b: lstm_loss(bumps=b), np.zeros((4, H)))
    kappa = jacobian_of(lambda b: lstm_loss(by_cell=b), np.zeros(H))
    return deltas, kappa, lstm_step(*STEP, PEEPHOLES)


@equation(
    r"""\vec\kappa = \vec u^c_t + \bar{\vec c}_t
    + \vec\eta \odot \vec o_t \odot (1 - \tanh^2 \vec c_t) + \vec p_o \odot \vec\delta_o ."""
)
def gradient_of_the_cell():
    (*_, delta_o), kappa, (*_, o, c, _) = lstm_gradients()
    p_o = PEEPHOLES[2]
    yield kappa, U_C + BAR_C + ETA * o * (1 - np.tanh(c) ** 2) + p_o * delta_o


@equation(
    r"""\vec\delta_i &= \vec\kappa \odot \vec g_t \odot \vec i_t \odot (1 - \vec i_t), \\
    \vec\delta_f &= \vec\kappa \odot \vec c_{t-1} \odot \vec f_t \odot (1 - \vec f_t), \\
    \vec\delta_g &= \vec\kappa \odot \vec i_t \odot (1 - \vec g_t^2) ."""
)
def gradients_of_the_gates():
    (delta_i, delta_f, delta_g, _), kappa, (i, f, g, *_) = lstm_gradients()
    yield delta_i, kappa * g * i * (1 - i)
    yield delta_f, kappa * CELL * f * (1 - f)
    yield delta_g, kappa * i * (1 - g**2)


@equation(
    r"""\bar{\vec h}_{t-1} = \mat W_{hh}^\top \vec\delta, \qquad
    \bar{\vec c}_{t-1} = \vec f_t \odot \vec\kappa
    + \vec p_i \odot \vec\delta_i + \vec p_f \odot \vec\delta_f ."""
)
def gradients_of_the_step_before():
    deltas, kappa, (_, f, *_) = lstm_gradients()
    delta_i, delta_f = deltas[:2]
    p_i, p_f, _ = PEEPHOLES
    yield jacobian_of(lambda h: lstm_loss(h=h), START), W_H.T @ deltas.ravel()
    right = f * kappa + p_i * delta_i + p_f * delta_f
    yield jacobian_of(lambda c: lstm_loss(c=c), CELL), right


@equation(
    r"""\dot{\vec z}_t = \mat W_{ih} \dot{\vec x}_t + \dot{\mat W}_{ih} \vec x_t
    + \mat W_{hh} \dot{\vec h}_{t-1} + \dot{\mat W}_{hh} \vec h_{t-1} + \dot{\vec b} ,"""
)
def tangent_of_the_pre_activation():
    point = X[0], START, W_X, W_H, B
    moves = dx, dh, dw_x, dw_h, db = drawn(point)
    left = rate(lambda x, h, w_x, w_h, b: w_x @ x + w_h @ h + b, point, moves)
    yield left, W_X @ dx + dw_x @ X[0] + W_H @ dh + dw_h @ START + db


# GRU

GRU_X, GRU_H = RNG.normal(size=(3 * H, D)), RNG.normal(size=(3 * H, H))
GRU_BX, GRU_BH = RNG.normal(size=(2, 3 * H))
GRU = X[0], START, GRU_X, GRU_H, GRU_BX, GRU_BH


def gru_step(x, h, w_x, w_h, b_x, b_h, *, after, bumps=STILL, by_m=0.0):
    """Return r, z, n and the new state; bumps of the pre-activations r, z and n, and of m."""
    (xr, xz, xn), (hr, hz, hn) = w_x.reshape(3, H, D), w_h.reshape(3, H, H)
    (bxr, bxz, bxn), (bhr, bhz, bhn) = b_x.reshape(3, H), b_h.reshape(3, H)
    r = sigmoid(xr @ x + bxr + hr @ h + bhr + bumps[0])
    z = sigmoid(xz @ x + bxz + hz @ h + bhz + bumps[1])
    if after:
        n = np.tanh(xn @ x + bxn + r * (hn @ h + bhn + by_m) + bumps[2])
    else:
        n = np.tanh(xn @ x + bxn + hn @ (r * h) + bhn + bumps[2])
    return r, z, n, (1 - z) * n + z * h


@equation(
    r"""\vec r &= \sigma(\mat W_{xr} \vec x + \vec b_{xr} + \mat W_{hr} \vec h + \vec b_{hr}), \\
    \vec z &= \sigma(\mat W_{xz} \vec x + \vec b_{xz} + \mat W_{hz} \vec h + \vec b_{hz}), \\
    \vec n &= \tanh\bigl(\mat W_{xn} \vec x + \vec b_{xn}
    + \vec r \odot (\mat W_{hn} \vec h + \vec b_{hn})\bigr) && (\text{reset after}), \\
    \vec n &= \tanh\bigl(\mat W_{xn} \vec x + \vec b_{xn}
    + \mat W_{hn} (\vec r \odot \vec h) + \vec b_{hn}\bigr) && (\text{reset before}),""",
    r"\vec h' = (1 - \vec z) \odot \vec n + \vec z \odot \vec h .",
)
def gru_cell():
    for after in (True, False):
        yield recurrent.gru_cell(*GRU, reset_after=after), gru_step(*GRU, after=after)[3]


@equation(
    r"""\dot{\vec h}' = (1 - \vec z) \odot \dot{\vec n} + \vec z \odot \dot{\vec h}
    + \dot{\vec z} \odot (\vec h - \vec n) ."""
)
def gru_cell_jvp():
    moves = drawn(GRU)
    h, dh = START, moves[1]
    for after in (True, False):
        step = functools.partial(gru_step, after=after)
        _, z, n, _ = step(*GRU)
        _, dz, dn, dnew = rate(lambda *a, f=step: np.stack(f(*a)), GRU, moves)
        yield dnew, (1 - z) * dn + z * dh + dz * (h - n)


def gru_states():
    """Return r, z, n and h of every step."""
    h, steps = START, []
    for x in X:
        steps.append(gru_step(x, h, *GRU[2:], after=True))
        h = steps[-1][3]
    return steps


@equation(r"\vec h_t = (1 - \vec z_t) \odot \vec n_t + \vec z_t \odot \vec h_{t-1} .")
def gru():
    got, h = recurrent.gru(X, *GRU[1:]), START
    for t, (_, z, n, _) in enumerate(gru_states()):
        h = (1 - z) * n + z * h
        yield got[t], h


@equation(
    r"""\vec h_t = \Bigl( \prod_{k=1}^t \vec z_k \Bigr) \odot \vec h_0
    + \sum_{s=1}^t \Bigl( \prod_{k=s+1}^t \vec z_k \Bigr) \odot (1 - \vec z_s)
    \odot \vec n_s ,"""
)
def gru_unrolled():
    _, z, n, h = (np.array(values) for values in zip(*gru_states(), strict=True))
    for t in range(1, T + 1):
        terms = [np.prod(z[s:t], axis=0) * (1 - z[s - 1]) * n[s - 1] for s in range(1, t + 1)]
        yield h[t - 1], np.prod(z[:t], axis=0) * START + sum(terms)


def gru_gradients(*, after):
    """Return the gradients by the pre-activations r, z, n, by m and by h, and the values."""

    def loss(h=START, **bumps):
        return np.sum(ETA * gru_step(X[0], h, *GRU[2:], after=after, **bumps)[3])

    deltas = jacobian_of(lambda b: loss(bumps=b), np.zeros((3, H)))
    by_m = jacobian_of(lambda b: loss(by_m=b), np.zeros(H))
    return deltas, by_m, jacobian_of(loss, START), gru_step(*GRU, after=after)


@equation(
    r"""\vec\delta_n = \vec\eta \odot (1 - \vec z) \odot (1 - \vec n^2), \qquad
    \vec\delta_z = \vec\eta \odot (\vec h_{t-1} - \vec n) \odot \vec z \odot (1 - \vec z)."""
)
def gradient_of_the_mean():
    for after in (True, False):
        (_, delta_z, delta_n), _, _, (_, z, n, _) = gru_gradients(after=after)
        yield delta_n, ETA * (1 - z) * (1 - n**2)
        yield delta_z, ETA * (START - n) * z * (1 - z)


W_HR, W_HZ, W_HN = GRU_H.reshape(3, H, H)


@equation(
    r"""\vec\delta_r = \vec\delta_n \odot \vec m \odot \vec r \odot (1 - \vec r), \qquad
    \vec\mu = \pdv{L}{\vec m} = \vec\delta_n \odot \vec r ;"""
)
def reset_after():
    (delta_r, _, delta_n), by_m, _, (r, *_) = gru_gradients(after=True)
    m = W_HN @ START + GRU_BH.reshape(3, H)[2]
    yield delta_r, delta_n * m * r * (1 - r)
    yield by_m, delta_n * r


@equation(r"\vec\delta_r = \vec\rho \odot \vec h_{t-1} \odot \vec r \odot (1 - \vec r).")
def reset_before():
    (delta_r, _, delta_n), _, _, (r, *_) = gru_gradients(after=False)
    rho = W_HN.T @ delta_n
    yield delta_r, rho * START * r * (1 - r)


@equation(
    r"""\bar{\vec h}_{t-1} = \vec z \odot \vec\eta + \mat W_{hr}^\top \vec\delta_r
    + \mat W_{hz}^\top \vec\delta_z
    + \begin{cases} \mat W_{hn}^\top \vec\mu & \text{after,} \\
    \vec r \odot \vec\rho & \text{before.} \end{cases}"""
)
def gradient_of_the_state_before():
    for after in (True, False):
        (delta_r, delta_z, delta_n), mu, by_h, (r, z, *_) = gru_gradients(after=after)
        last = W_HN.T @ mu if after else r * (W_HN.T @ delta_n)
        yield by_h, z * ETA + W_HR.T @ delta_r + W_HZ.T @ delta_z + last


@equation(
    r"""\dot{\vec a}_r &= \dot{\mat W}_{xr} \vec x + \mat W_{xr} \dot{\vec x} + \dot{\vec b}_{xr}
    + \dot{\mat W}_{hr} \vec h + \mat W_{hr} \dot{\vec h} + \dot{\vec b}_{hr}, \qquad
    \dot{\vec r} = \vec r \odot (1 - \vec r) \odot \dot{\vec a}_r, \\
    \dot{\vec a}_n &= \dot{\mat W}_{xn} \vec x + \mat W_{xn} \dot{\vec x} + \dot{\vec b}_{xn}
    + \dot{\vec r} \odot (\mat W_{hn} \vec h + \vec b_{hn})
    + \vec r \odot (\dot{\mat W}_{hn} \vec h + \mat W_{hn} \dot{\vec h}
    + \dot{\vec b}_{hn}), \\
    \dot{\vec n} &= (1 - \vec n^2) \odot \dot{\vec a}_n ,"""
)
def tangents_of_gate_and_candidate():
    x, h, moves = X[0], START, drawn(GRU)
    dx, dh, *dparams = moves
    shapes = (3, H, D), (3, H, H), (3, H), (3, H)
    (w_xr, *_), (w_hr, *_), (b_xr, *_), (b_hr, *_) = (
        a.reshape(shape) for a, shape in zip(GRU[2:], shapes, strict=True)
    )
    (dw_xr, _, dw_xn), (dw_hr, _, dw_hn), (db_xr, _, db_xn), (db_hr, _, db_hn) = (
        a.reshape(shape) for a, shape in zip(dparams, shapes, strict=True)
    )
    w_xn, b_hn = GRU_X.reshape(3, H, D)[2], GRU_BH.reshape(3, H)[2]
    r, _, n, _ = gru_step(*GRU, after=True)
    dr, _, dn, _ = rate(lambda *a: np.stack(gru_step(*a, after=True)), GRU, moves)
    da_r = dw_xr @ x + w_xr @ dx + db_xr + dw_hr @ h + w_hr @ dh + db_hr
    before = rate(
        lambda x, h, w_x, w_h, b_x, b_h: w_x @ x + b_x + w_h @ h + b_h,
        (x, h, w_xr, w_hr, b_xr, b_hr),
        (dx, dh, dw_xr, dw_hr, db_xr, db_hr),
    )
    yield before, da_r
    yield dr, r * (1 - r) * da_r
    da_n = dw_xn @ x + w_xn @ dx + db_xn + dr * (W_HN @ h + b_hn)
    da_n = da_n + r * (dw_hn @ h + W_HN @ dh + db_hn)
    yield rate(lambda *a: np.arctanh(gru_step(*a, after=True)[2]), GRU, moves), da_n
    yield dn, (1 - n**2) * da_n


# Outputs


@equation(r"\vec y_t = \mat W_{out}\, \vec h_t + \vec b_{out} .")
def output_of_every_state():
    states = rnn(X, *RNN)[1]
    got = recurrent.sequence_to_sequence(recurrent.rnn, X, RNN, W_OUT, B_OUT)
    yield got, [W_OUT @ h + B_OUT for h in states]


@equation(r"\vec y = \mat W_{out}\, \vec h_T + \vec b_{out} .")
def output_of_the_last_state():
    last = rnn(X, *RNN)[1][-1]
    got = recurrent.sequence_to_vector(recurrent.rnn, X, RNN, W_OUT, B_OUT)
    yield got, W_OUT @ last + B_OUT


# Configurations: a network in both directions, and what is fed in and read out

BACK = START / 2, W_IH[::-1], W_HH.T, B_HH, B_IH
UY = RNG.normal(size=(T, 2))  # cotangents of outputs
Y = RNG.normal(size=(3, D))  # inputs of a decoder


def step(x, h, *weights):
    return np.tanh(before_of_rnn(x, h, *weights))


def states(x, h, *weights):
    """Return the states of the plain network after each input."""
    found = []
    for row in x:
        h = step(row, h, *weights)
        found.append(h)
    return np.array(found)


def both(x, there, back):
    return np.concatenate([states(x, *there), states(x[::-1], *back)[::-1]], axis=1)


def read(h, w, b):
    return h @ w.T + b


def fed(x, feed):
    return np.array([x if feed == "repeat" or t == 0 else 0 * x for t in range(T)])


@equation(
    r"""\vec h^\to_t = f(\vec x_t, \vec h^\to_{t-1}), \qquad
    \vec h^\gets_t = g(\vec x_t, \vec h^\gets_{t+1}), \qquad
    \vec y_t = \begin{pmatrix} \vec h^\to_t \\ \vec h^\gets_t \end{pmatrix},"""
)
def states_of_both_directions():
    yield both(X, RNN, BACK), recurrent.bidirectional(recurrent.rnn, X, RNN, BACK)


@equation(
    r"""\pdv{L}{\vec x_t} = \sum_{s \ge t} \Bigl( \pdv{\vec h^\to_s}{\vec x_t} \Bigr)^\top
    \vec u^\to_s + \sum_{s \le t} \Bigl( \pdv{\vec h^\gets_s}{\vec x_t} \Bigr)^\top
    \vec u^\gets_s, \qquad
    \vec u_s = \begin{pmatrix} \vec u^\to_s \\ \vec u^\gets_s \end{pmatrix} ."""
)
def gradient_of_an_input_of_both_directions():
    u = RNG.normal(size=(T, 2 * H))
    of_there = jacobian_of(lambda x: states(x, *RNN), X)
    of_back = jacobian_of(lambda x: states(x[::-1], *BACK)[::-1], X)
    dx = jacobian_of(lambda x: np.sum(u * both(x, RNN, BACK)), X)
    for t in range(T):
        later = sum(of_there[s, :, t].T @ u[s, :H] for s in range(t, T))
        yield dx[t], later + sum(of_back[s, :, t].T @ u[s, H:] for s in range(t + 1))


@equation(
    r"""\dot{\vec y}_t = \begin{pmatrix} \dot{\vec h}^\to_t \\ \dot{\vec h}^\gets_t \end{pmatrix},
    \qquad \dot{\vec h}^\to_t = \pdv{f}{\vec x} \dot{\vec x}_t
    + \pdv{f}{\vec h} \dot{\vec h}^\to_{t-1} + \pdv{f}{\theta} \dot\theta ,"""
)
def tangents_of_both_directions():
    primals = X, *RNN, *BACK
    dx, *moves = drawn(primals)
    left = rate(lambda x, *p: both(x, p[:5], p[5:]), primals, (dx, *moves))
    for network, (dstart, *dtheta), part, order in (
        (RNN, moves[:5], slice(0, H), range(T)),
        (BACK, moves[5:], slice(H, None), range(T - 1, -1, -1)),
    ):
        (h, *theta), dh = network, dstart
        for t in order:
            of_x = jacobian_of(lambda x, h=h, w=theta: step(x, h, *w), X[t])
            of_h = jacobian_of(lambda h, x=X[t], w=theta: step(x, h, *w), h)
            of_theta = rate(lambda *w, x=X[t], h=h: step(x, h, *w), theta, dtheta)
            dh = of_x @ dx[t] + of_h @ dh + of_theta
            h = step(X[t], h, *theta)
            yield left[t, part], dh


@equation(
    r"""\pdv{L}{\vec h_t} = \mat W_{out}^\top \vec u_t, \qquad
    \pdv{L}{\mat W_{out}} = \sum_t \vec u_t\, \vec h_t^\top, \qquad
    \pdv{L}{\vec b_{out}} = \sum_t \vec u_t .""",
    r"""\pdv{L}{\vec h_T} = \mat W_{out}^\top \vec u, \qquad
    \pdv{L}{\mat W_{out}} = \vec u\, \vec h_T^\top, \qquad
    \pdv{L}{\vec b_{out}} = \vec u .""",
)
def gradients_of_outputs():
    h = states(X, *RNN)
    dh, dw, db = gradients(lambda h, w, b: np.sum(UY * read(h, w, b)), h, W_OUT, B_OUT)
    yield dh, np.array([W_OUT.T @ u for u in UY])
    yield dw, sum(np.outer(UY[t], h[t]) for t in range(T))
    yield db, sum(UY)
    u, last = UY[0], h[-1]
    dh, dw, db = gradients(lambda h, w, b: np.sum(u * read(h, w, b)), last, W_OUT, B_OUT)
    yield dh, W_OUT.T @ u
    yield dw, np.outer(u, last)
    yield db, u


@equation(
    r"""\dot{\vec y}_t = \mat W_{out}\, \dot{\vec h}_t + \dot{\mat W}_{out}\, \vec h_t
    + \dot{\vec b}_{out} .""",
    r"""\dot{\vec y} = \mat W_{out}\, \dot{\vec h}_T + \dot{\mat W}_{out}\, \vec h_T
    + \dot{\vec b}_{out} .""",
)
def tangents_of_outputs():
    primals = X, *RNN, W_OUT, B_OUT
    *moves, dw, db = drawn(primals)
    h, dh = states(X, *RNN), rate(states, (X, *RNN), moves)
    left = rate(lambda x, *p: read(states(x, *p[:5]), *p[5:]), primals, (*moves, dw, db))
    for t in range(T):
        yield left[t], W_OUT @ dh[t] + dw @ h[t] + db
    last = rate(lambda x, *p: read(states(x, *p[:5])[-1], *p[5:]), primals, (*moves, dw, db))
    yield last, W_OUT @ dh[-1] + dw @ h[-1] + db


@equation(
    r"""\vec y_t = \mat W_{out}\, f(\vec x_t, \vec h_{t-1}) + \vec b_{out}, \qquad
    \vec x_t = \begin{cases} \vec x & \text{"repeat", or } t = 1, \\
    \vec 0 & \text{"first" and } t > 1 . \end{cases}"""
)
def sequence_from_one_input():
    for feed in ("repeat", "first"):
        options = {"steps": T, "feed": feed}
        got = recurrent.vector_to_sequence(recurrent.rnn, X[0], RNN, W_OUT, B_OUT, **options)
        yield np.array([W_OUT @ h + B_OUT for h in states(fed(X[0], feed), *RNN)]), got


@equation(
    r"""\pdv{L}{\vec x} = \sum_{t=1}^T \pdv{L}{\vec x_t} \quad (\text{"repeat"}), \qquad
    \pdv{L}{\vec x} = \pdv{L}{\vec x_1} \quad (\text{"first"}) .""",
    r"""\dot{\vec x}_t = \begin{cases} \dot{\vec x} & \text{"repeat", or } t = 1, \\
    \vec 0 & \text{"first" and } t > 1 . \end{cases}""",
)
def derivatives_by_the_one_input():
    dx = drawn([X[0]])[0]

    def loss(x):
        return np.sum(UY * read(states(x, *RNN), W_OUT, B_OUT))

    for feed in ("repeat", "first"):
        by_step = jacobian_of(loss, fed(X[0], feed))
        gradient = jacobian_of(lambda x, f=feed: loss(fed(x, f)), X[0])
        yield gradient, sum(by_step) if feed == "repeat" else by_step[0]
        moved = [dx if feed == "repeat" or t == 0 else np.zeros(D) for t in range(T)]
        yield rate(lambda x, f=feed: fed(x, f), [X[0]], [dx]), np.array(moved)


@equation(
    r"""\vec h_t = f(\vec x_t, \vec h_{t-1}), \qquad \vec s_0 = \vec h_T, \qquad
    \vec s_t = g(\vec y_t, \vec s_{t-1}), \qquad
    \vec o_t = \mat W_{out}\, \vec s_t + \vec b_{out} ."""
)
def decoder_that_begins_where_the_encoder_ends():
    h = START
    for x in X:
        h = step(x, h, *RNN[1:])
    s, o = h, []
    for y in Y:
        s = step(y, s, *BACK[1:])
        o.append(W_OUT @ s + B_OUT)
    got = recurrent.encoder_decoder(recurrent.rnn, X, Y, RNN, BACK[1:], W_OUT, B_OUT)
    yield np.array(o), got


@equation(
    r"""\vec\eta_t = \dv{L}{\vec s_t} = \mat W_{out}^\top \vec u_t
    + \Bigl( \pdv{\vec s_{t+1}}{\vec s_t} \Bigr)^\top \vec\eta_{t+1}, \qquad
    \dv{L}{\vec h_T} = \Bigl( \pdv{\vec s_1}{\vec s_0} \Bigr)^\top \vec\eta_1, \qquad
    \dv{L}{\vec h_{t-1}} = \Bigl( \pdv{\vec h_t}{\vec h_{t-1}} \Bigr)^\top \dv{L}{\vec h_t} ,"""
)
def gradients_through_decoder_and_encoder():
    count, weights, h = len(Y), BACK[1:], np.array([START, *states(X, *RNN)])
    s, u = np.array([h[T], *states(Y, h[T], *weights)]), RNG.normal(size=(len(Y), 2))

    def of_decoder(bump, t):
        """Return the loss if the state after t inputs of the decoder is moved."""
        o = [s[k] for k in range(1, t)] + ([s[t] + bump] if t else [])
        later = states(Y[t:], s[t] + bump, *weights)
        return np.sum(u * read(np.array([*o, *later]), W_OUT, B_OUT))

    def of_encoder(state, t):
        end = state if t == T else states(X[t:], state, *RNN[1:])[-1]
        return np.sum(u * read(states(Y, end, *weights), W_OUT, B_OUT))

    eta = W_OUT.T @ u[count - 1]
    for t in range(count, 0, -1):
        if t < count:
            after = jacobian_of(lambda z, t=t: step(Y[t], z, *weights), s[t])
            eta = W_OUT.T @ u[t - 1] + after.T @ eta
        yield jacobian_of(lambda b, t=t: of_decoder(b, t), np.zeros(H)), eta
    dh = jacobian_of(lambda z: step(Y[0], z, *weights), s[0]).T @ eta
    yield jacobian_of(lambda z: of_encoder(z, T), h[T]), dh
    for t in range(T, 0, -1):
        dh = jacobian_of(lambda z, t=t: step(X[t - 1], z, *RNN[1:]), h[t - 1]).T @ dh
        yield jacobian_of(lambda z, t=t: of_encoder(z, t - 1), h[t - 1]), dh


@equation(
    r"""\dot{\vec s}_0 = \dot{\vec h}_T, \qquad
    \dot{\vec o}_t = \mat W_{out}\, \dot{\vec s}_t + \dot{\mat W}_{out}\, \vec s_t
    + \dot{\vec b}_{out} ."""
)
def tangents_through_encoder_and_decoder():
    primals = X, *RNN, Y, *BACK[1:], W_OUT, B_OUT
    *moves, dw, db = drawn(primals)
    h, dh = states(X, *RNN)[-1], rate(states, (X, *RNN), moves[:6])[-1]
    s, ds = states(Y, h, *BACK[1:]), rate(states, (Y, h, *BACK[1:]), (moves[6], dh, *moves[7:]))

    def outputs(x, h, w_ih, w_hh, b_ih, b_hh, y, *rest):
        end = states(x, h, w_ih, w_hh, b_ih, b_hh)[-1]
        return read(states(y, end, *rest[:4]), *rest[4:])

    left = rate(outputs, primals, (*moves, dw, db))
    for t in range(len(Y)):
        yield left[t], W_OUT @ ds[t] + dw @ s[t] + db


@equation(
    r"""\vec\delta_n &= \vec u \odot (1 - \vec z) \odot (1 - \vec n^2), \qquad
    \vec\delta_z = \vec u \odot (\vec h - \vec n) \odot \vec z \odot (1 - \vec z), \\
    \vec\delta_r &= \vec\delta_n \odot (\mat W_{hn} \vec h + \vec b_{hn}) \odot \vec r \odot
    (1 - \vec r), \\
    \pdv{L}{\vec x} &= \mat W_{xr}^\top \vec\delta_r + \mat W_{xz}^\top \vec\delta_z
    + \mat W_{xn}^\top \vec\delta_n, \\
    \pdv{L}{\vec h} &= \vec z \odot \vec u + \mat W_{hr}^\top \vec\delta_r
    + \mat W_{hz}^\top \vec\delta_z + \mat W_{hn}^\top (\vec r \odot \vec\delta_n) ."""
)
def gru_cell_gradients_by_complex_step():
    u, (x, h) = U[0], GRU[:2]
    dx, dh = gradients(lambda x, h: np.sum(u * gru_step(x, h, *GRU[2:], after=True)[3]), x, h)
    r, z, n, _ = gru_step(*GRU, after=True)
    w_xr, w_xz, w_xn = GRU_X.reshape(3, H, D)
    delta_n, delta_z = u * (1 - z) * (1 - n**2), u * (h - n) * z * (1 - z)
    delta_r = delta_n * (W_HN @ h + GRU_BH.reshape(3, H)[2]) * r * (1 - r)
    yield dx, w_xr.T @ delta_r + w_xz.T @ delta_z + w_xn.T @ delta_n
    yield dh, z * u + W_HR.T @ delta_r + W_HZ.T @ delta_z + W_HN.T @ (r * delta_n)


@equation(
    r"""\vec i_t &= \sigma(\mat W_{xi} \vec x_t + \mat W_{hi} \vec h_{t-1} + \vec b_i
    + \vec p_i \odot \vec c_{t-1}), &
    \vec f_t &= \sigma(\mat W_{xf} \vec x_t + \mat W_{hf} \vec h_{t-1} + \vec b_f
    + \vec p_f \odot \vec c_{t-1}), \\
    \vec g_t &= \tanh(\mat W_{xg} \vec x_t + \mat W_{hg} \vec h_{t-1} + \vec b_g), &
    \vec o_t &= \sigma(\mat W_{xo} \vec x_t + \mat W_{ho} \vec h_{t-1} + \vec b_o
    + \vec p_o \odot \vec c_t) ."""
)
def gates_of_every_step():
    (xi, xf, xg, xo), (hi, hf, hg, ho) = W_X.reshape(4, H, D), W_H.reshape(4, H, H)
    (bi, bf, bg, bo), (p_i, p_f, p_o) = B.reshape(4, H), PEEPHOLES
    h, c, gates = START, CELL, []
    for x in X:
        i = sigmoid(xi @ x + hi @ h + bi + p_i * c)
        f = sigmoid(xf @ x + hf @ h + bf + p_f * c)
        g = np.tanh(xg @ x + hg @ h + bg)
        c = f * c + i * g
        o = sigmoid(xo @ x + ho @ h + bo + p_o * c)
        h = o * np.tanh(c)
        gates.append([i, f, g, o])
    weights = START, CELL, W_X, W_H, B
    yield (
        np.array(gates),
        np.stack(recurrent.lstm_gates(X, *weights, w_p=PEEPHOLES.ravel()), axis=1),
    )


@equation(
    r"""\dot{\vec i}_t &= \vec i_t \odot (1 - \vec i_t) \odot \dot{\vec z}_{i,t}, &
    \dot{\vec f}_t &= \vec f_t \odot (1 - \vec f_t) \odot \dot{\vec z}_{f,t}, \\
    \dot{\vec g}_t &= (1 - \vec g_t^2) \odot \dot{\vec z}_{g,t}, &
    \dot{\vec o}_t &= \vec o_t \odot (1 - \vec o_t) \odot \dot{\vec z}_{o,t} ."""
)
def tangents_of_the_gates():
    point = X[0], START, W_X, W_H, B
    moves = drawn(point)
    dz = rate(lambda x, h, w_x, w_h, b: (w_x @ x + w_h @ h + b).reshape(4, H), point, moves)
    i, f, g, o, *_ = lstm_step(*STEP)

    def gates(x, h, *weights):
        return np.stack(lstm_step(x, h, CELL, *weights)[:4])

    di, df, dg, do = rate(gates, point, moves)
    yield di, i * (1 - i) * dz[0]
    yield df, f * (1 - f) * dz[1]
    yield dg, (1 - g**2) * dz[2]
    yield do, o * (1 - o) * dz[3]


@equation(
    r"""\vec\delta_o &= (\vec u^o_t + \bar{\vec h}_t \odot \tanh \vec c_t) \odot \vec o_t \odot
    (1 - \vec o_t), \\
    \vec\kappa &= \bar{\vec c}_t + \bar{\vec h}_t \odot \vec o_t \odot (1 - \tanh^2 \vec c_t)
    + \vec p_o \odot \vec\delta_o, \\
    \vec\delta_i &= (\vec u^i_t + \vec\kappa \odot \vec g_t) \odot \vec i_t \odot
    (1 - \vec i_t), \\
    \vec\delta_f &= (\vec u^f_t + \vec\kappa \odot \vec c_{t-1}) \odot \vec f_t \odot
    (1 - \vec f_t), \\
    \vec\delta_g &= (\vec u^g_t + \vec\kappa \odot \vec i_t) \odot (1 - \vec g_t^2) ."""
)
def gradients_from_the_gates():
    u_i, u_f, u_g, u_o = u = RNG.normal(size=(4, H))

    def loss(**bumps):
        *gates, c, h = lstm_step(*STEP, PEEPHOLES, **bumps)
        return np.sum(u * np.stack(gates)) + np.sum(ETA * h) + np.sum(BAR_C * c)

    deltas = jacobian_of(lambda b: loss(bumps=b), np.zeros((4, H)))
    i, f, g, o, c, _ = lstm_step(*STEP, PEEPHOLES)
    delta_o = (u_o + ETA * np.tanh(c)) * o * (1 - o)
    kappa = BAR_C + ETA * o * (1 - np.tanh(c) ** 2) + PEEPHOLES[2] * delta_o
    yield deltas[3], delta_o
    yield jacobian_of(lambda b: loss(by_cell=b), np.zeros(H)), kappa
    yield deltas[0], (u_i + kappa * g) * i * (1 - i)
    yield deltas[1], (u_f + kappa * CELL) * f * (1 - f)
    yield deltas[2], (u_g + kappa * i) * (1 - g**2)


# The selective scan, of two channels

SCAN = (
    RNG.normal(size=(T, 2)),
    RNG.uniform(0.1, 1.0, (T, 2)),
    -RNG.uniform(0.5, 2.0, (2, 3)),
    *RNG.normal(size=(2, T, 3)),
    RNG.normal(size=2),
    RNG.normal(size=(2, 3)),
)
NO_BUMPS = np.zeros((T, 2, 3))
SCAN_U = RNG.normal(size=(T, 2)), RNG.normal(size=(2, 3))


def scanned(x, delta, a, b, c, d, h, bumps=NO_BUMPS):
    """Return the outputs and the states of every step, moved by bumps."""
    out, states = [], []
    for t in range(T):
        new = [
            np.exp(delta[t, i] * a[i]) * h[i] + delta[t, i] * x[t, i] * b[t] + bumps[t, i]
            for i in range(2)
        ]
        h = np.array(new)
        states.append(h)
        out.append([c[t] @ h[i] + d[i] * x[t, i] for i in range(2)])
    return np.array(out), np.array(states)


def scan_loss(*operands, **bumps):
    out, states = scanned(*operands, **bumps)
    return np.sum(SCAN_U[0] * out) + np.sum(SCAN_U[1] * states[-1])


@equation(
    r"""\vec h_t = e^{\Delta_t \vec a} \odot \vec h_{t-1} + \Delta_t x_t\, \vec b_t , \qquad
    y_t = \vec c_t \cdot \vec h_t + d\, x_t ."""
)
def steps_of_the_selective_scan():
    out, states = scanned(*SCAN)
    got, last = recurrent.selective_scan(*SCAN)
    yield out, got
    yield states[-1], last


@equation(
    r"""(\vec \alpha', \vec \beta') \bullet (\vec \alpha, \vec \beta) = (\vec \alpha' \odot
    \vec \alpha,\; \vec \alpha' \odot \vec \beta + \vec \beta') ."""
)
def two_steps_are_one():
    def combined(second, first):
        return second[0] * first[0], second[0] * first[1] + second[1]

    one, two, three = RNG.normal(size=(3, 2, 4))
    h = RNG.normal(size=4)
    both = combined(two, one)
    yield two[0] * (one[0] * h + one[1]) + two[1], both[0] * h + both[1]
    yield from zip(
        combined(combined(three, two), one), combined(three, combined(two, one)), strict=True
    )
    x, delta, a, b, *_, h = SCAN
    total = np.ones((2, 3)), np.zeros((2, 3))
    for t in range(T):
        step = delta[t, :, None]
        total = combined((np.exp(step * a), step * x[t, :, None] * b[t]), total)
        yield total[0] * h + total[1], scanned(*SCAN)[1][t]


@equation(
    r"""\mat S_t = e^{\Delta_t a}\, \mat S_{t-1} + \vec b_t (\Delta_t \vec x_t)^\top , \qquad
    \vec y_t = \mat S_t^\top \vec c_t ,"""
)
def mamba_2_is_linear_attention():
    x, _, _, b, c, _, h = SCAN
    step, rate_of_all = RNG.uniform(size=T), -0.7
    S, rows = h.T, []
    for t in range(T):
        S = np.exp(step[t] * rate_of_all) * S + np.outer(b[t], step[t] * x[t])
        rows.append(S.T @ c[t])
    delta = np.stack([step, step], axis=1)
    out, last = recurrent.selective_scan(x, delta, np.full((2, 3), rate_of_all), b, c, None, h)
    yield rows, out
    yield S, last.T
    scaled = step[:, None]
    out, memory = recurrent_linear_attention(c, b, scaled * x, rate_of_all * scaled, None, h.T)
    yield rows, out
    yield S, memory


def scan_back():
    """Return the gradients of the states, one row for each step, and the kept parts."""
    _, delta, a, _, c, _, h = SCAN
    states = np.concatenate([h[None], scanned(*SCAN)[1]])
    g, kept = np.zeros((T, 2, 3)), np.zeros((T, 2, 3))
    for t in reversed(range(T)):
        for i in range(2):
            later = SCAN_U[1][i] if t == T - 1 else np.exp(delta[t + 1, i] * a[i]) * g[t + 1, i]
            g[t, i] = later + SCAN_U[0][t, i] * c[t]
            kept[t, i] = np.exp(delta[t, i] * a[i]) * states[t, i]
    return g, kept, states[1:]


@equation(
    r"\vec g_t = e^{\Delta_{t+1} \vec a} \odot \vec g_{t+1} + u_t\, \vec c_t .",
)
def gradients_of_the_states():
    g, *_ = scan_back()
    (grad,) = gradients(lambda bumps: scan_loss(*SCAN, bumps=bumps), np.zeros((T, 2, 3)))
    yield grad, g
    delta, a = SCAN[1:3]
    first = recurrent.selective_scan_vjp(SCAN_U, *SCAN)[-1]
    yield np.exp(delta[0][:, None] * a) * g[0], first


@equation(
    r"""\dd \vec h_t = \vec k_t \odot (\vec a\, \dd \Delta_t + \Delta_t\, \dd \vec a)
    + \vec b_t\, (x_t\, \dd \Delta_t + \Delta_t\, \dd x_t) + \Delta_t x_t\, \dd \vec b_t
    + e^{\Delta_t \vec a} \odot \dd \vec h_{t-1} ,"""
)
def differential_of_a_step_of_the_scan():
    values = [SCAN[0][0, 0], SCAN[1][0, 0], SCAN[2][0], SCAN[3][0], SCAN[6][0]]
    x, step, a, b, h = values
    dx, dstep, da, db, dh = moves = drawn(values)
    kept = np.exp(step * a) * h
    by_hand = (
        kept * (a * dstep + step * da)
        + b * (x * dstep + step * dx)
        + step * x * db
        + np.exp(step * a) * dh
    )
    moved = rate(lambda x, step, a, b, h: np.exp(step * a) * h + step * x * b, values, moves)
    yield moved, by_hand


@equation(
    r"""\pdv{L}{\Delta_t} &= \vec g_t \cdot (\vec a \odot \vec k_t + x_t \vec b_t) , \qquad
    \pdv{L}{x_t} = \Delta_t\, \vec g_t \cdot \vec b_t + d\, u_t \\
    \pdv{L}{\vec a} &= \sum_t \Delta_t\, \vec g_t \odot \vec k_t , \qquad
    \pdv{L}{\vec b_t} = \Delta_t x_t\, \vec g_t , \qquad
    \pdv{L}{\vec c_t} = u_t \vec h_t , \qquad
    \pdv{L}{d} = \sum_t u_t x_t ."""
)
def gradients_of_the_selective_scan():
    x, delta, a, b, _, d, _ = SCAN
    u, (g, kept, states) = SCAN_U[0], scan_back()
    want = gradients(scan_loss, *SCAN)
    got = recurrent.selective_scan_vjp(SCAN_U, *SCAN)
    both = range(2)
    dstep = [[g[t, i] @ (a[i] * kept[t, i] + x[t, i] * b[t]) for i in both] for t in range(T)]
    dx = [[delta[t, i] * (g[t, i] @ b[t]) + d[i] * u[t, i] for i in both] for t in range(T)]
    da = [sum(delta[t, i] * g[t, i] * kept[t, i] for t in range(T)) for i in both]
    db = [sum(delta[t, i] * x[t, i] * g[t, i] for i in both) for t in range(T)]
    dc = [sum(u[t, i] * states[t, i] for i in both) for t in range(T)]
    dd = [sum(u[t, i] * x[t, i] for t in range(T)) for i in both]
    yield from zip(want, [dx, dstep, da, db, dc, dd], got, strict=False)


@equation(
    r"""\dot{\vec h}_t &= e^{\Delta_t \vec a} \odot \dot{\vec h}_{t-1} + \vec k_t \odot
    (\dot\Delta_t \vec a + \Delta_t \dot{\vec a}) + (\dot\Delta_t x_t + \Delta_t \dot x_t)\,
    \vec b_t + \Delta_t x_t\, \dot{\vec b}_t \\
    \dot y_t &= \dot{\vec c}_t \cdot \vec h_t + \vec c_t \cdot \dot{\vec h}_t
    + \dot d\, x_t + d\, \dot x_t ."""
)
def tangents_of_the_selective_scan():
    x, delta, a, b, c, d, h = SCAN
    dx, ddelta, da, db, dc, dd, moved = drawn(SCAN)
    out = np.zeros((T, 2))
    for t in range(T):
        kept, decay = np.empty((2, 3)), np.exp(delta[t][:, None] * a)
        for i in range(2):
            kept[i] = decay[i] * h[i]
            moved[i] = (
                decay[i] * moved[i]
                + kept[i] * (ddelta[t, i] * a[i] + delta[t, i] * da[i])
                + (ddelta[t, i] * x[t, i] + delta[t, i] * dx[t, i]) * b[t]
                + delta[t, i] * x[t, i] * db[t]
            )
        h = kept + (delta[t] * x[t])[:, None] * b[t]
        for i in range(2):
            out[t, i] = dc[t] @ h[i] + c[t] @ moved[i] + dd[i] * x[t, i] + d[i] * dx[t, i]
    got, last = recurrent.selective_scan_jvp(SCAN, drawn(SCAN))
    yield rate(lambda *s: scanned(*s)[0], SCAN, drawn(SCAN)), out, got
    yield rate(lambda *s: scanned(*s)[1][-1], SCAN, drawn(SCAN)), moved, last
