"""Inline relations of recurrent, and of its exercises."""

import math

import numpy as np
from equations.numeric import rate
from equations.stated import draw, inner, slope, stated

from dlref import recurrent
from dlref.formulas.activations import sigmoid


@stated("dlref/recurrent/_rnn.py")
def of_an_rnn():
    x1, x2, x3, w = 1.0, 2.0, 1.0, 1.0
    states = recurrent.rnn([[x1], [x2], [x3]], None, [[1.0]], [[w]], activation="identity")
    yield r"h_3 = x_3 + w (x_2 + w x_1)", states[2, 0], x3 + w * (x2 + w * x1)
    yield r"x_2 + 2 w x_1 = 4", slope(lambda w: x3 + w * (x2 + w * x1), w), x2 + 2 * w * x1, 4
    yield r"\delta_3 h_2 = 3", states[1, 0], 3
    yield r"\delta_2 h_1 = 1", w * states[0, 0], 1


@stated("docs/exercises/recurrent/gru.rst")
def of_the_exercises_on_gru():
    h, z, n = 2.0, 3 / 4, 1 / 2
    yield (
        r"(h - n) z (1 - z) = \frac32 \cdot \frac3{16} = \frac9{32}",
        (h - n) * z * (1 - z),
        9 / 32,
    )
    yield r"(1 - z)(1 - n^2) = \frac14 \cdot \frac34 = \frac3{16}", (1 - z) * (1 - n**2), 3 / 16
    b = -math.log(2**0.1 - 1)
    yield r"b = -\log(2^{1/10} - 1)", sigmoid(b) ** 10, 0.5
    yield r"1 + e^{-b} = 2^{1/10}", 1 + math.exp(-b), 2**0.1
    yield r"n = \log 2 / \log(1 + e^{-b})", math.log(2) / math.log(1 + math.exp(-b)), 10


@stated("dlref/recurrent/_gru.py")
def of_the_change_by_a_gru():
    primals = tuple(draw(51, (4, 2), 3, (9, 2), (9, 3), 9, 9))
    sides = inner(recurrent.gru_jvp, recurrent.gru_vjp, primals)
    yield r"\dd L = \sum_t \vec u_t \cdot \dd \vec h_t", *sides


@stated("dlref/recurrent/_lstm.py")
def of_gradients_through_an_lstm():
    x, h, c, W, V, b, u = draw(65, 2, 3, 3, (12, 2), (12, 3), 12, 3)
    none = np.zeros(3)
    dx, dh, dc, dW, dV, db = recurrent.lstm_cell_vjp((u, none), x, h, c, W, V, b)[:6]
    delta = db
    yield r"\partial L / \partial \vec x_t = \mat W_{ih}^\top \vec\delta", dx, W.T @ delta
    text = r"\partial L / \partial \mat W_{hh} = \sum_t \vec\delta\, \vec h_{t-1}^\top"
    yield text, dV, np.outer(delta, h)
    steps, zero, T = draw(66, (4, 3))[0], np.zeros((12, 3)), 4
    f = [sigmoid(s + b[3:6]) for s in steps]
    gates = np.zeros((12, 3))
    gates[3:6] = np.eye(3)
    u_last = np.zeros((T, 3))
    u_last[-1] = u
    grads = recurrent.lstm_vjp((np.zeros((T, 3)), u_last), steps, none, c, gates, zero, b)
    text = r"\partial \vec c_T / \partial \vec c_0 = \prod_t \operatorname{diag} \vec f_t"
    yield text, grads[2], np.prod(f, axis=0) * u
    assert dh.shape == dc.shape == (3,)
    assert dW.shape == W.shape


@stated("dlref/recurrent/_rnn.py")
def of_gradients_through_an_rnn():
    x, h, W, V, b, u, dx, dh = draw(67, (1, 2), 3, (3, 2), (3, 3), 3, (1, 3), 2, 3)
    z = W @ x[0] + V @ h + b
    delta = (1 - np.tanh(z) ** 2) * u[0]
    grads = recurrent.rnn_vjp(u, x, h, W, V, b)
    yield r"\partial L / \partial \vec h_0 = \mat W_{hh}^\top \vec\delta_1", grads[1], V.T @ delta
    dz = W @ dx + V @ dh
    new = rate(lambda x, h: np.tanh(W @ x + V @ h + b), [x[0], h], [dx, dh])
    text = r"\dd L = \vec u \cdot \dd \vec h' = \vec\delta \cdot \dd \vec z"
    yield text, u[0] @ new, delta @ dz


@stated("docs/exercises/recurrent/lstm.rst")
def of_the_exercises_on_lstm():
    rng = np.random.default_rng(81)
    weights = [30 * rng.normal(size=s) for s in ((12, 2), (12, 3))]
    c0 = rng.normal(size=3)
    h, c = recurrent.lstm(rng.normal(size=(20, 2)), np.zeros(3), c0, *weights)
    t = np.arange(1, 21)[:, None]
    yield r"\abs{c_t} \le \abs{c_0} + t", bool(np.all(np.abs(c) <= np.abs(c0) + t)), True
    yield r"\abs{h_t} < 1", bool(np.all(np.abs(h) < 1)), True
    n, F = 10, 0.9
    b = math.log(n - 1)
    yield r"1 / (1 + e^{-b}) = (n - 1) / n", 1 / (1 + math.exp(-b)), (n - 1) / n
    yield r"e^b = n - 1", math.exp(b), n - 1
    bound = [F**k * 2.0 + sum(F**j for j in range(k)) <= 2.0 + 1 / (1 - F) for k in range(60)]
    text = r"\abs{c_t} \le F^t \abs{c_0} + 1 + F + F^2 + \dots \le \abs{c_0} + 1 / (1 - F)"
    yield text, all(bound), True
    yield (
        r"\abs{c_t} \le f_t \abs{c_{t-1}} + i_t \abs{g_t} \le \abs{c_{t-1}} + 1",
        bool(np.all(np.abs(c[1:]) <= np.abs(c[:-1]) + 1)),
        True,
    )


@stated("docs/exercises/recurrent/gru.rst")
def of_bounded_states():
    rng = np.random.default_rng(82)
    weights = [30 * rng.normal(size=s) for s in ((9, 2), (9, 3))]
    h0 = 2 * rng.normal(size=3)
    h = recurrent.gru(rng.normal(size=(20, 2)), h0, *weights)
    yield (
        r"\abs{h_t} \le \max(\abs{h_0}, 1)",
        bool(np.all(np.abs(h) <= np.maximum(np.abs(h0), 1))),
        True,
    )
    p, d = rng.uniform(size=(2, 50))
    yield (
        r"(1 - p)(1 - \delta) \ge 1 - p - \delta",
        bool(np.all((1 - p) * (1 - d) >= 1 - p - d - 1e-15)),
        True,
    )
    text = r"\abs{h_t} \le \max(\abs{n_t}, \abs{h_{t-1}}) \le \max(1, \abs{h_{t-1}})"
    before = np.vstack([h0, h[:-1]])
    yield text, bool(np.all(np.abs(h) <= np.maximum(1, np.abs(before)))), True


@stated("docs/exercises/recurrent/rnn.rst")
def of_contractions():
    rng = np.random.default_rng(83)
    W, h, k = rng.normal(size=(3, 3)), *rng.normal(size=(2, 3))
    gap = np.linalg.norm(np.tanh(W @ h) - np.tanh(W @ k))
    text = (
        r"\norm{\vec h_t - \vec h'_t} \le \norm{\mat W (\vec h_{t-1} - \vec h'_{t-1})} \le "
        r"\norm{\mat W} \norm{\vec h_{t-1} - \vec h'_{t-1}}"
    )
    middle = np.linalg.norm(W @ (h - k))
    yield text, gap <= middle <= np.linalg.norm(W, 2) * np.linalg.norm(h - k), True


@stated("dlref/recurrent/_gru.py")
def of_gradients_through_a_gru():
    x, h, W, V, b, c, u = draw(118, 2, 3, (9, 2), (9, 3), 9, 9, 3)
    dx, *_, db, _ = recurrent.gru_cell_vjp(u, x, h, W, V, b, c)
    text = (
        r"\partial L / \partial \vec x_t = \mat W_{xr}^\top \vec\delta_r + "
        r"\mat W_{xz}^\top \vec\delta_z + \mat W_{xn}^\top \vec\delta_n"
    )
    yield text, dx, W[:3].T @ db[:3] + W[3:6].T @ db[3:6] + W[6:].T @ db[6:]


@stated("dlref/recurrent/_lstm.py")
def of_both_outputs_of_an_lstm():
    primals = tuple(draw(119, 2, 3, 3, (12, 2), (12, 3), 12, 12))
    tangents = tuple(draw(120, 2, 3, 3, (12, 2), (12, 3), 12, 12))
    u, v = draw(121, 3, 3)
    moves = (122, primals), (123, tangents)
    dh, dc = recurrent.lstm_cell_jvp(primals, tangents)
    grads = recurrent.lstm_cell_vjp((u, v), *primals)
    want = sum(np.vdot(g, d) for g, d in zip(grads, tangents, strict=True))
    text = (
        r"\dd L = \langle \partial L / \partial \vec h', \dd \vec h' \rangle + \langle "
        r"\partial L / \partial \vec c', \dd \vec c' \rangle"
    )
    yield text, u @ dh + v @ dc, want
    primals, tangents = ((draw(seed, (4, 2))[0], *rest) for seed, (_, *rest) in moves)
    u, v = draw(124, (4, 3), (4, 3))
    dh, dc = recurrent.lstm_jvp(primals, tangents)
    grads = recurrent.lstm_vjp((u, v), *primals)
    want = sum(np.vdot(g, d) for g, d in zip(grads, tangents, strict=True))
    text = r"\dd L = \sum_t (\vec u^h_t \cdot \dd \vec h_t + \vec u^c_t \cdot \dd \vec c_t)"
    yield text, sum(u[t] @ dh[t] + v[t] @ dc[t] for t in range(4)), want


@stated("docs/exercises/recurrent/gru.rst")
def of_a_gru_without_recurrent_weights():
    b, h, dh = draw(137, 9, 3, 3)
    zero = np.zeros((9, 3)), np.zeros((9, 3))
    tangent = recurrent.gru_cell_jvp(
        (np.zeros(3), h, *zero, b, None), (None, dh, None, None, None, None)
    )
    yield r"\dd h_t = z_t \dd h_{t-1}", tangent, sigmoid(b[3:6]) * dh
    z, n = 0.3, -0.6
    yield (
        r"h_t = (1 - z_t) n_t + z_t h_{t-1}",
        recurrent.gru_cell(
            [0.0],
            [2.0],
            np.zeros((3, 1)),
            np.zeros((3, 1)),
            np.array([0.0, math.log(z / (1 - z)), math.atanh(n)]),
        ),
        [(1 - z) * n + z * 2.0],
    )


@stated("docs/exercises/recurrent/rnn.rst")
def of_two_steps():
    w, h_0 = 0.7, 1.0
    of_step_1 = slope(lambda w_1: w * (w_1 * h_0), w)
    yield r"w \cdot h_0 = w", of_step_1, w * h_0, w
