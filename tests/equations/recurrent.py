"""The displayed equations of dlref.recurrent.

A loop is run with complex numbers, and with a bump added to one of its quantities: the derivative
by the bump is the gradient of the loss by that quantity, with all that comes after it.
"""

import functools

import numpy as np
from equations import differentials
from equations.evaluate import From, Of, mapped
from equations.ledger import equation, reads
from equations.numeric import complex_step, jacobian_of, rate

from dlref import recurrent
from dlref.formulas import attention as formulas_of_attention
from dlref.formulas import recurrent as formulas
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


WEIGHTS = {r"W_{ih}": W_IH, r"W_{hh}": W_HH, r"b_{ih}": B_IH, r"b_{hh}": B_HH}
STEPS = range(1, T + 1)
INPUTS = {"x": From(1, X), "start": START, **WEIGHTS}
TANH = {r"\phi": np.tanh, "t": STEPS, "T": T}


def from_start(f):
    """Return a function of the states, the one before all steps first."""
    return lambda x, start, *weights: From(0, [start, *f(x, start, *weights)])


@reads(
    r"\dv{L}{\vec h_t} = \vec u_t + \mat W_{hh}^\top \vec\delta_{t+1}, \qquad \vec\delta_{T+1}…",
    r"\vec\delta_t = \phi'(\vec z_t) \odot \bigl( \vec u_t + \mat W_{hh}^\top \vec\delta_{t+1}…",
    r"\pdv{L}{\mat W_{hh}} = \sum_{t=1}^T \vec\delta_t\, \vec h_{t-1}^\top…",
    r"\dot{\vec h}_t = \phi'(\vec z_t) \odot \bigl( \mat W_{hh}\, \dot{\vec h}_{t-1} + \mat…",
)
def of_rnn():
    """Return the environment of the plain network, with the gradients of its steps."""
    dh, dz, *_ = rnn_gradients()
    f = formulas.rnn
    states = Of(from_start(f), *INPUTS)
    before = Of(lambda *a: From(1, rnn(*a)[0]), *INPUTS)
    loss = Of(lambda x, start, *w: np.sum(U * f(x, start, *w)), *INPUTS)
    back = {r"\delta": From(1, [*dz, np.zeros(H)]), r"\dv{L}{h}": From(1, dh), "u": From(1, U)}
    return {**INPUTS, **TANH, "h": states, "z": before, "L": loss, **back}


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


@reads(r"\vec z = \mat W_{ih}\, \vec x + \vec b_{ih} + \mat W_{hh}\, \vec h + \vec b_{hh}…")
def rnn_cell():
    inputs = {"x": X[0], "h": START, **WEIGHTS}
    return [
        mapped(
            functools.partial(formulas.rnn_cell, activation=name), inputs, "h'", **{r"\phi": phi}
        )
        for name, phi in (("tanh", np.tanh), ("sigmoid", sigmoid))
    ]


@reads(r"\pdv{L}{\vec x} = \mat W_{ih}^\top \vec\delta, \quad \pdv{L}{\vec h}…")
def rnn_cell_vjp():
    inputs = {"x": X[0], "h": START, "W_{ih}": W_IH, "W_{hh}": W_HH, "b": B_IH}
    env = mapped(formulas.rnn_cell, inputs, "h'")
    z = W_IH @ X[0] + W_HH @ START + B_IH
    return {**env, r"\delta": env["u"] * complex_step(np.tanh, z)}


@reads(r"\dot{\vec h}' = \phi'(\vec z) \odot \bigl( \mat W_{ih} \dot{\vec x} + \dot{\mat W}_{ih}…")
def rnn_cell_jvp():
    inputs = {"x": X[0], "h": START, **WEIGHTS}
    z = before_of_rnn(*inputs.values())
    return mapped(formulas.rnn_cell, inputs, "h'", z=z, **{r"\phi": np.tanh})


@reads(r"\vec z_t = \mat W_{ih}\, \vec x_t + \vec b_{ih} + \mat W_{hh}\, \vec h_{t-1} + \vec…")
def rnn_of_a_sequence():
    return {key: value for key, value in of_rnn().items() if key != "z"}


@reads(r"\vec h_t = \phi(\mat W_{ih}\, \vec x_t + \mat W_{hh}\, \vec h_{t-1} + \vec b) .")
def rnn_with_one_bias():
    h = formulas.rnn(X, START, W_IH, W_HH, B_IH)
    return {**INPUTS, **TANH, "b": B_IH, "h": From(0, [START, *h])}


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


def named(prefix, letters, array):
    """Return the parts of stacked weights by the names that the text gives them."""
    parts = np.split(array, len(letters))
    return {f"{prefix}{letter}}}": part for letter, part in zip(letters, parts, strict=True)}


@reads(
    r"\vec c_t = \vec f_t \odot \vec c_{t-1} + \vec i_t \odot \vec g_t, \qquad \vec h_t…",
    r"\vec c_t = \Bigl( \prod_{k=1}^{t} \vec f_k \Bigr) \odot \vec c_0 + \sum_{s=1}^{t} \Bigl(…",
)
def of_lstm(peepholes=None):
    """Return the environment of a sequence of an LSTM."""
    w_p = None if peepholes is None else peepholes.ravel()
    gates = formulas.lstm_gates(X, START, CELL, W_X, W_H, B, w_p=w_p)
    h, _ = formulas.lstm_states(X, np.zeros(T, bool), START, CELL, W_X, W_H, B, None, w_p)[:2]
    c = [CELL]
    for i, f, g, _ in zip(*gates, strict=True):
        c.append(f * c[-1] + i * g)
    h = [START, *(o * np.tanh(new) for o, new in zip(gates[3], c[1:], strict=True))]
    arrays = {"h": From(0, h), "c": From(0, c), r"\sigma": sigmoid, "t": STEPS, "x": From(1, X)}
    weights = named("W_{x", "ifgo", W_X) | named("W_{h", "ifgo", W_H) | named("b_{", "ifgo", B)
    named_gates = {letter: From(1, gate) for letter, gate in zip("ifgo", gates, strict=True)}
    held = {} if peepholes is None else dict(zip(("p_i", "p_f", "p_o"), peepholes, strict=True))
    return {**arrays, **weights, **named_gates, **held}


@reads(
    r"\vec\kappa = \vec u^c_t + \bar{\vec c}_t + \vec\eta \odot \vec o_t \odot (1 - \tanh^2…",
    r"\vec\delta_i &= \vec\kappa \odot \vec g_t \odot \vec i_t \odot (1 - \vec i_t)…",
    r"\bar{\vec h}_{t-1} = \mat W_{hh}^\top \vec\delta, \qquad \bar{\vec c}_{t-1}…",
)
def of_lstm_step():
    """Return the environment of one step back through an LSTM with peepholes."""
    deltas, kappa, (i, f, g, o, c, _) = lstm_gradients()
    gates = {"i_t": i, "f_t": f, "g_t": g, "o_t": o, "c_t": c, "c_{t-1}": CELL}
    states = {r"\eta": ETA, r"u^c_t": U_C, r"\bar c_t": BAR_C, r"\kappa": kappa}
    back = dict(zip((r"\delta_i", r"\delta_f", r"\delta_g", r"\delta_o"), deltas, strict=True))
    held = dict(zip(("p_i", "p_f", "p_o"), PEEPHOLES, strict=True))
    before = {r"\bar h_{t-1}": jacobian_of(lambda h: lstm_loss(h=h), START)}
    before |= {r"\bar c_{t-1}": jacobian_of(lambda c: lstm_loss(c=c), CELL)}
    return {**gates, **states, **back, **held, **before, "W_{hh}": W_H, r"\delta": deltas.ravel()}


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


@reads(
    r"\vec i &= \sigma(\mat W_{xi} \vec x + \mat W_{hi} \vec h + \vec b_i), & \vec f…",
    r"\vec c' = \vec f \odot \vec c + \vec i \odot \vec g, \qquad \vec h'…",
)
def lstm_cell():
    weights = named("W_{x", "ifgo", W_X) | named("W_{h", "ifgo", W_H) | named("b_{", "ifgo", B)
    h, c = formulas.lstm_cell(X[0], START, CELL, W_X, W_H, B)
    given = {"x": X[0], "h": START, "c": CELL, r"\sigma": sigmoid}
    return {**given, **weights, "h'": h, "c'": c}


@reads(r"\dv{L}{\vec c'} = \pdv{L}{\vec c'} + \pdv{L}{\vec h'} \odot \vec o \odot (1 - \tanh^2…")
def through_the_cell():
    def loss(c=CELL, **bumps):
        *_, new, h = lstm_step(X[0], START, c, W_X, W_H, B, **bumps)
        return np.sum(U[0] * h + U[1] * new)

    _, f, _, o, new, _ = lstm_step(*STEP)
    by_new = jacobian_of(lambda b: loss(by_cell=b), np.zeros(H))
    total = {r"\dv{L}{\vec c'}": by_new, r"\dv{L}{\vec c}": jacobian_of(loss, CELL)}
    direct = {r"\pdv{L}{\vec c'}": U[1], r"\pdv{L}{\vec h'}": U[0]}
    return {**total, **direct, "f": f, "o": o, "c'": new}


@reads(r"\dot{\vec c}' = \vec f \odot \dot{\vec c} + \dot{\vec f} \odot \vec c + \vec i \odot…")
def lstm_cell_jvp():
    return differentials.lstm_step("x", "h", "c", "{}", "c'", "h'")


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


@reads(r"\dot{\vec z}_t = \mat W_{ih} \dot{\vec x}_t + \dot{\mat W}_{ih} \vec x_t + \mat W_{hh}…")
def tangent_of_the_pre_activation():
    z = Of(
        lambda x, h, w_x, w_h, b: w_x @ x + w_h @ h + b, "x_t", "h_{t-1}", "W_{ih}", "W_{hh}", "b"
    )
    return {"x_t": X[0], "h_{t-1}": START, "W_{ih}": W_X, "W_{hh}": W_H, "b": B, "z_t": z}


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


@reads(
    r"\vec r &= \sigma(\mat W_{xr} \vec x + \vec b_{xr} + \mat W_{hr} \vec h + \vec b_{hr})…",
    r"\vec h' = (1 - \vec z) \odot \vec n + \vec z \odot \vec h .",
)
def gru_cell():
    weights = named("W_{x", "rzn", GRU_X) | named("W_{h", "rzn", GRU_H)
    weights |= named("b_{x", "rzn", GRU_BX) | named("b_{h", "rzn", GRU_BH)
    given = {"x": X[0], "h": START, r"\sigma": sigmoid, **weights}
    return [
        {**given, "branch": f"reset {name}", "h'": formulas.gru_cell(*GRU, reset_after=is_after)}
        for name, is_after in (("after", True), ("before", False))
    ]


@reads(r"\dot{\vec h}' = (1 - \vec z) \odot \dot{\vec n} + \vec z \odot \dot{\vec h} +…")
def gru_cell_jvp():
    return differentials.gru_step("x", "h", "h'")


@reads(r"\vec h_t = \Bigl( \prod_{k=1}^t \vec z_k \Bigr) \odot \vec h_0 + \sum_{s=1}^t \Bigl(…")
def of_gru():
    """Return the environment of a sequence of a GRU."""
    _, z, n, h = (np.array(values) for values in zip(*gru_states(), strict=True))
    return {"z": From(1, z), "n": From(1, n), "h": From(0, [START, *h]), "t": STEPS}


def of_gru_step(*, after):
    """Return the environment of one step back through a GRU."""
    deltas, by_m, by_h, (r, z, n, _) = gru_gradients(after=after)
    back = dict(zip((r"\delta_r", r"\delta_z", r"\delta_n"), deltas, strict=True))
    m = W_HN @ START + GRU_BH.reshape(3, H)[2]
    given = {r"\eta": ETA, "r": r, "z": z, "n": n, "m": m, "h_{t-1}": START, r"\bar h_{t-1}": by_h}
    weights = named("W_{h", "rzn", GRU_H)
    more = {r"\mu": by_m, r"\pdv{L}{m}": by_m, r"\rho": W_HN.T @ deltas[2]}
    return {**given, **back, **weights, **more}


def gru_states():
    """Return r, z, n and h of every step."""
    h, steps = START, []
    for x in X:
        steps.append(gru_step(x, h, *GRU[2:], after=True))
        h = steps[-1][3]
    return steps


@reads(r"\vec h_t = (1 - \vec z_t) \odot \vec n_t + \vec z_t \odot \vec h_{t-1} .")
def gru():
    return {**of_gru(), "h": From(0, [START, *formulas.gru(X, *GRU[1:])])}


def gru_gradients(*, after):
    """Return the gradients by the pre-activations r, z, n, by m and by h, and the values."""

    def loss(h=START, **bumps):
        return np.sum(ETA * gru_step(X[0], h, *GRU[2:], after=after, **bumps)[3])

    deltas = jacobian_of(lambda b: loss(bumps=b), np.zeros((3, H)))
    by_m = jacobian_of(lambda b: loss(by_m=b), np.zeros(H))
    return deltas, by_m, jacobian_of(loss, START), gru_step(*GRU, after=after)


@reads(r"\vec\delta_n = \vec\eta \odot (1 - \vec z) \odot (1 - \vec n^2), \qquad \vec\delta_z…")
def gradient_of_the_mean():
    return [of_gru_step(after=True), of_gru_step(after=False)]


W_HR, W_HZ, W_HN = GRU_H.reshape(3, H, H)


@reads(r"\vec\delta_r = \vec\delta_n \odot \vec m \odot \vec r \odot (1 - \vec r), \qquad \vec\mu…")
def reset_after():
    return of_gru_step(after=True)


@reads(r"\vec\delta_r = \vec\rho \odot \vec h_{t-1} \odot \vec r \odot (1 - \vec r).")
def reset_before():
    return of_gru_step(after=False)


@reads(r"\bar{\vec h}_{t-1} = \vec z \odot \vec\eta + \mat W_{hr}^\top \vec\delta_r…")
def gradient_of_the_state_before():
    rows = []
    for after in (True, False):
        deltas, mu, by_h, (r, z, *_) = gru_gradients(after=after)
        given = dict(zip((r"\delta_r", r"\delta_z"), deltas, strict=False))
        given |= {"W_{hr}": W_HR, "W_{hz}": W_HZ, "W_{hn}": W_HN, r"\mu": mu, r"\eta": ETA}
        given |= {"r": r, "z": z, r"\bar h_{t-1}": by_h, r"\rho": W_HN.T @ deltas[2]}
        rows.append({**given, "after": after, "before": not after})
    return rows


@reads(r"\dot{\vec a}_r &= \dot{\mat W}_{xr} \vec x + \mat W_{xr} \dot{\vec x} +…")
def tangents_of_gate_and_candidate():
    leaves = {"x": X[0], "h": START}
    leaves |= named("W_{x", "rzn", GRU_X) | named("W_{h", "rzn", GRU_H)
    leaves |= named("b_{x", "rzn", GRU_BX) | named("b_{h", "rzn", GRU_BH)

    def part(k):
        def f(x, h, *w):
            stacked = [np.concatenate(w[m : m + 3]) for m in range(0, 12, 3)]
            return gru_step(x, h, *stacked, after=True)[k]

        return Of(f, *leaves)

    a_r = Of(lambda r: np.log(r / (1 - r)), "r")
    return {**leaves, "r": part(0), "n": part(2), "a_r": a_r, "a_n": Of(np.arctanh, "n")}


# Outputs


@reads(
    r"\pdv{L}{\vec h_t} = \mat W_{out}^\top \vec u_t, \qquad \pdv{L}{\mat W_{out}}…",
    r"\dot{\vec y}_t = \mat W_{out}\, \dot{\vec h}_t + \dot{\mat W}_{out}\, \vec h_t +…",
)
def of_outputs():
    """Return the environment of outputs of all states, and of the last."""
    inputs = {**INPUTS, "W_{out}": W_OUT, "b_{out}": B_OUT}
    h = Of(lambda *a: From(1, formulas.rnn(*a)), *INPUTS)
    y = Of(lambda h, w, b: From(1, h @ w.T + b), "h", "W_{out}", "b_{out}")
    loss = Of(lambda y: np.sum(UY * y), "y")
    return {**inputs, "h": h, "y": y, "L": loss, "u": From(1, UY), "t": STEPS}


@reads(r"\vec y_t = \mat W_{out}\, \vec h_t + \vec b_{out} .")
def output_of_every_state():
    got = formulas.sequence_to_sequence("rnn", X, RNN, W_OUT, B_OUT)
    return {**of_outputs(), "y": From(1, got)}


@reads(r"\vec y = \mat W_{out}\, \vec h_T + \vec b_{out} .")
def output_of_the_last_state():
    got = formulas.sequence_to_vector("rnn", X, RNN, W_OUT, B_OUT)
    return {**of_outputs(), "y": got, "T": T}


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


@reads(r"\vec h^\to_t = f(\vec x_t, \vec h^\to_{t-1}), \qquad \vec h^\gets_t…")
def states_of_both_directions():
    got = recurrent.bidirectional(recurrent.rnn, X, RNN, BACK)
    there, back = [START, *states(X, *RNN)], [*states(X[::-1], *BACK)[::-1], BACK[0]]
    cells = {"f": lambda x, h: formulas.rnn_cell(x, h, *RNN[1:])}
    cells |= {"g": lambda x, h: formulas.rnn_cell(x, h, *BACK[1:])}
    found = {r"h^\to": From(0, there), r"h^\gets": From(1, back), "y": From(1, got)}
    return {"x": From(1, X), "t": STEPS, **cells, **found}


@reads(r"\pdv{L}{\vec x_t} = \sum_{s \ge t} \Bigl( \pdv{\vec h^\to_s}{\vec x_t} \Bigr)^\top…")
def gradient_of_an_input_of_both_directions():
    u = RNG.normal(size=(T, 2 * H))
    there = Of(lambda x: From(1, states(x, *RNN)), "x")
    back = Of(lambda x: From(1, states(x[::-1], *BACK)[::-1]), "x")
    loss = Of(lambda x: np.sum(u * both(x, RNN, BACK)), "x")
    parts = {r"u^\to": From(1, u[:, :H]), r"u^\gets": From(1, u[:, H:]), "u": From(1, u)}
    given = {"x": From(1, X), "t": STEPS, "s": STEPS, "L": loss, **parts}
    return {**given, r"h^\to": there, r"h^\gets": back}


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


@reads(
    r"\pdv{L}{\vec h_T} = \mat W_{out}^\top \vec u, \qquad \pdv{L}{\mat W_{out}}…",
    r"\dot{\vec y} = \mat W_{out}\, \dot{\vec h}_T + \dot{\mat W}_{out}\, \vec h_T +…",
)
def derivatives_of_the_last_output():
    inputs = {"h_T": states(X, *RNN)[-1], "W_{out}": W_OUT, "b_{out}": B_OUT}
    return mapped(lambda h, w, b: w @ h + b, inputs)


@reads(r"\vec y_t = \mat W_{out}\, f(\vec x_t, \vec h_{t-1}) + \vec b_{out}, \qquad \vec x_t…")
def sequence_from_one_input():
    rows = []
    for feed in ("repeat", "first"):
        options = {"steps": T, "feed": feed}
        got = recurrent.vector_to_sequence(recurrent.rnn, X[0], RNN, W_OUT, B_OUT, **options)
        h = [START, *states(fed(X[0], feed), *RNN)]
        given = {"f": lambda x, h: formulas.rnn_cell(x, h, *RNN[1:])}
        given |= {"x": X[0], r"x_\cdot": From(1, fed(X[0], feed)), "h": From(0, h)}
        given |= {"W_{out}": W_OUT, "b_{out}": B_OUT, "y": From(1, got), "t": STEPS}
        rows.append({**given, "repeat": feed == "repeat", "first": feed == "first"})
    return rows


@reads(
    r'\pdv{L}{\vec x} = \sum_{t=1}^T \pdv{L}{\vec x_t} \quad (\text{"repeat"}), \qquad…',
    r'\dot{\vec x}_t = \begin{cases} \dot{\vec x} & \text{"repeat", or } t = 1, \\…',
)
def derivatives_by_the_one_input():
    loss = Of(lambda x: np.sum(UY * read(states(x, *RNN), W_OUT, B_OUT)), r"x_\cdot")
    rows = []
    for feed in ("repeat", "first"):
        inputs = Of(lambda x, feed=feed: From(1, fed(x, feed)), "x")
        flags = {"repeat": feed == "repeat", "first": feed == "first", "branch": feed}
        rows.append({"x": X[0], r"x_\cdot": inputs, "L": loss, "T": T, "t": STEPS, **flags})
    return rows


@reads(r"\vec h_t = f(\vec x_t, \vec h_{t-1}), \qquad \vec s_0 = \vec h_T, \qquad \vec s_t…")
def decoder_that_begins_where_the_encoder_ends():
    h, s = [START, *states(X, *RNN)], []
    s = [h[T], *states(Y, h[T], *BACK[1:])]
    got = formulas.encoder_decoder("rnn", X, Y, RNN, BACK[1:], W_OUT, B_OUT)
    cells = {"f": lambda x, h: formulas.rnn_cell(x, h, *RNN[1:])}
    cells |= {"g": lambda y, s: formulas.rnn_cell(y, s, *BACK[1:])}
    arrays = {"x": From(1, X), "y": From(1, Y), "h": From(0, h), "s": From(0, s), "o": From(1, got)}
    return {**arrays, **cells, "T": T, "t": range(1, 4), "W_{out}": W_OUT, "b_{out}": B_OUT}


@reads(r"\vec\eta_t = \dv{L}{\vec s_t} = \mat W_{out}^\top \vec u_t + \Bigl( \pdv{\vec s_{t+1}}…")
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

    def steps(inputs, states, *weights):
        """Return the derivatives of each state by the one before, and none after the last."""
        found = np.zeros((len(inputs) + 2, len(inputs) + 1, H, H))
        for t, x in enumerate(inputs):
            found[t + 1, t] = jacobian_of(lambda z, x=x: step(x, z, *weights), states[t])
        return found

    nothing = np.zeros(H)
    eta = [jacobian_of(lambda b, t=t: of_decoder(b, t), nothing) for t in range(1, count + 1)]
    dh = [jacobian_of(lambda z, t=t: of_encoder(z, t), h[t]) for t in range(T + 1)]
    found = {r"\eta": From(1, [*eta, nothing]), r"\dv{L}{s}": From(1, eta), r"\dv{L}{h}": dh}
    found |= {r"\pdv{s}{s}": steps(Y, s, *weights), r"\pdv{h}{h}": steps(X, h, *RNN[1:])}
    given = {"W_{out}": W_OUT, "u": From(1, u), "T": T, **found}
    return [{**given, "t": range(1, count + 1)}, {**given, "t": range(1, count + 1)}]


@reads(r"\dot{\vec s}_0 = \dot{\vec h}_T, \qquad \dot{\vec o}_t…")
def tangents_through_encoder_and_decoder():
    leaves = {**INPUTS, "y": Y, "V": BACK[1], "W": BACK[2], "b": BACK[3], "c": BACK[4]}
    h = Of(lambda *a: From(1, states(*a)), *INPUTS)
    s = Of(lambda h, y, *w: From(0, [h[-1], *states(y, h[-1], *w)]), "h", "y", "V", "W", "b", "c")
    o = Of(lambda s, w, b: From(1, s[1:] @ w.T + b), "s", "W_{out}", "b_{out}")
    outputs = {"W_{out}": W_OUT, "b_{out}": B_OUT, "T": T, "t": range(1, 4)}
    return {**leaves, **outputs, "h": h, "s": s, "o": o}


@reads(r"\vec\delta_n &= \vec u \odot (1 - \vec z) \odot (1 - \vec n^2), \qquad \vec\delta_z…")
def gru_cell_gradients_by_complex_step():
    weights = (
        named("W_{x", "rzn", GRU_X) | named("W_{h", "rzn", GRU_H) | named("b_{h", "rzn", GRU_BH)
    )
    f = lambda x, h: formulas.gru_cell(x, h, *GRU[2:])  # noqa: E731
    r, z, n, _ = gru_step(*GRU, after=True)
    return {**mapped(f, {"x": X[0], "h": START}, "h'"), **weights, "r": r, "z": z, "n": n}


@reads(r"\vec i_t &= \sigma(\mat W_{xi} \vec x_t + \mat W_{hi} \vec h_{t-1} + \vec b_i + \vec p_i…")
def gates_of_every_step():
    return of_lstm(PEEPHOLES)


@reads(r"\dot{\vec i}_t &= \vec i_t \odot (1 - \vec i_t) \odot \dot{\vec z}_{i,t}, &…")
def tangents_of_the_gates():
    names = "x", "h", "c", *differentials.CELL
    env = differentials.lstm_step("x", "h", "c", "{}_t", "c'", "h'")

    def before(k):
        return Of(lambda x, h, c, W, V, b, d: np.split(W @ x + V @ h + b + d, 4)[k], *names)

    return {**env, **{f"z_{{{letter},t}}": before(k) for k, letter in enumerate("ifgo")}}


@reads(r"\vec\delta_o &= (\vec u^o_t + \bar{\vec h}_t \odot \tanh \vec c_t) \odot \vec o_t \odot…")
def gradients_from_the_gates():
    u = RNG.normal(size=(4, H))

    def loss(**bumps):
        *gates, c, h = lstm_step(*STEP, PEEPHOLES, **bumps)
        return np.sum(u * np.stack(gates)) + np.sum(ETA * h) + np.sum(BAR_C * c)

    deltas = jacobian_of(lambda b: loss(bumps=b), np.zeros((4, H)))
    i, f, g, o, c, _ = lstm_step(*STEP, PEEPHOLES)
    given = {**of_lstm_step(), "i_t": i, "f_t": f, "g_t": g, "o_t": o, "c_t": c, r"\bar h_t": ETA}
    given |= {rf"\delta_{letter}": delta for letter, delta in zip("ifgo", deltas, strict=True)}
    given |= {f"u^{letter}_t": values for letter, values in zip("ifgo", u, strict=True)}
    return {**given, r"\kappa": jacobian_of(lambda b: loss(by_cell=b), np.zeros(H))}


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


@reads(
    r"\vec h_t = e^{\Delta_t \vec a} \odot \vec h_{t-1} + \Delta_t x_t\, \vec b_t , \qquad y_t…",
    r"\dd \vec h_t = \vec k_t \odot (\vec a\, \dd \Delta_t + \Delta_t\, \dd \vec a) + \vec…",
    r"\pdv{L}{\Delta_t} &= \vec g_t \cdot (\vec a \odot \vec k_t + x_t \vec b_t) …",
    r"\dot{\vec h}_t &= e^{\Delta_t \vec a} \odot \dot{\vec h}_{t-1} + \vec k_t \odot…",
)
def of_scan():
    """Return the environment of one channel of the scan."""
    x, delta, a, b, c, d, h = SCAN
    inputs = {"x": From(1, x[:, 0]), r"\Delta": From(1, delta[:, 0]), "a": a[0]}
    inputs |= {"b": From(1, b), "c": From(1, c), "d": d[0], "start": h[0]}
    u = SCAN_U[0][:, 0]

    def states(x, delta, a, b, start):
        return formulas.scan_states(x[:, None], delta[:, None], a[None], b, start[None])[0][:, 0]

    def outputs(x, delta, a, b, c, d, start):
        operands = x[:, None], delta[:, None], a[None], b, c, np.array([d]), start[None]
        return formulas.selective_scan(*operands)[0][:, 0]

    of_states = "x", r"\Delta", "a", "b", "start"
    h = Of(lambda *a: From(0, states(*a)), *of_states)
    kept = Of(lambda *a: From(1, np.exp(a[1][:, None] * a[2]) * states(*a)[:-1]), *of_states)
    env = {**inputs, "h": h, "k": kept, "y": Of(lambda *a: From(1, outputs(*a)), *inputs)}
    bumped = lambda bumps: np.sum(  # noqa: E731
        u * scanned(x, delta, a, b, c, d, SCAN[6], bumps=bumps)[0][:, 0]
    )
    g = jacobian_of(bumped, NO_BUMPS)[:, 0]
    return {**env, "g": From(1, g), "u": From(1, u), "t": STEPS, "L": Of(lambda y: u @ y, "y")}


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


@reads(r"\vec h_t = [\, z_t = z_{t-1}\,]\, e^{\Delta_t \vec a} \odot \vec h_{t-1} + \Delta_t…")
def steps_of_packed_documents():
    x, delta, a, b, *_, first = SCAN
    ids = np.arange(T) // 2
    states = formulas.scan_states(x, delta, a, b, first, ids)[0][:, 0]
    arrays = {"x": From(1, x[:, 0]), r"\Delta": From(1, delta[:, 0]), "b": From(1, b)}
    return {**arrays, "a": a[0], "z": From(1, ids), "h": From(0, states), "t": range(2, T + 1)}


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
    found = formulas.scan_states(x, delta, a, b, h)[0]
    total = np.ones((2, 3)), np.zeros((2, 3))
    for t in range(T):
        step = delta[t, :, None]
        total = combined((np.exp(step * a), step * x[t, :, None] * b[t]), total)
        yield total[0] * h + total[1], found[t + 1]


@reads(r"\mat S_t = e^{\Delta_t a}\, \mat S_{t-1} + \vec b_t (\Delta_t \vec x_t)^\top …")
def mamba_2_is_linear_attention():
    x, _, _, b, c, _, h = SCAN
    step, a = RNG.uniform(size=T), -0.7
    scaled = step[:, None]
    out, memory = formulas_of_attention.recurrent_linear_attention(
        c, b, scaled * x, a * scaled, None, h.T
    )
    delta = np.stack([step, step], axis=1)
    scan = formulas.scan_states(x, delta, np.full((2, 3), a), b, h)[0].swapaxes(-1, -2)
    np.testing.assert_allclose(memory, scan[-1], rtol=1e-12)
    arrays = {r"\Delta": From(1, step), "x": From(1, x), "b": From(1, b), "c": From(1, c)}
    return {**arrays, "a": a, "S": From(0, scan), "y": From(1, out), "t": STEPS}


@reads(r"\vec g_t = e^{\Delta_{t+1} \vec a} \odot \vec g_{t+1} + u_t\, \vec c_t .")
def gradients_of_the_states():
    return {**of_scan(), "t": range(1, T)}
