"""
Formulas of the chapter on recurrent networks.

x holds the inputs (..., T, D), time second to last, and h the states (..., T, H). Rows of a weight
matrix belong to units, gate after gate, so that a layer of a row x is x @ w.T. The functions whose
names begin with simple_ take one sequence (T, D) and one bias; the others take batches, lengths
and all options, and build on one step. delta is the gradient of a pre-activation.
"""

import numpy as np

from .activations import relu, sigmoid, softplus
from .neurons import linear, linear_vjp
from .normalization import batch_axes

# == shared


def arranged(x, lengths, reverse):
    """Steps in the order in which they are taken, 0 beyond the end; its own inverse."""
    *batch, T, _ = x.shape
    t = np.arange(T)
    n = np.full(batch, T)[..., None] if lengths is None else np.asarray(lengths)[..., None]
    order = np.where(reverse & (t < n), n - 1 - t, t)
    taken = np.take_along_axis(x, order[..., None], axis=-2)
    return np.where((t < n)[..., None], taken, 0)


def beginnings(segment_ids, x, lengths, reverse):
    """Whether another document begins at each step, in the order in which steps are taken."""
    begins = np.zeros(x.shape[:-1], bool)
    if segment_ids is not None:
        ids = np.broadcast_to(segment_ids, x.shape[:-1])
        ids = arranged(ids[..., None], lengths, reverse)[..., 0]
        begins[..., 1:] = ids[..., 1:] != ids[..., :-1]
    return begins


def states_before(states, begins):
    """The state before each step, 0 where a document begins."""
    return np.where(begins[..., None], 0, states[..., :-1, :])


def state_or_zeros(h, batch, w_hh):
    """The initial state."""
    return np.zeros((*batch, w_hh.shape[1]), w_hh.dtype) if h is None else h


def sum_of_outer(delta, x):
    """Gradient of a matrix that all entries and steps share."""
    axes = batch_axes(x)
    return np.tensordot(delta, x, (axes, axes))


def sum_of_rows(delta):
    """Gradient of a bias that all entries and steps share."""
    return np.sum(delta, axis=batch_axes(delta))


def of_given(grads, arguments):
    """Gradients of the arguments that are not None."""
    return tuple(g for g, a in zip(grads, arguments, strict=True) if a is not None)


def without_states(grads, states):
    """Leave out the gradients of initial states that are None."""
    dx, *rest = grads
    return dx, *of_given(rest[: len(states)], states), *rest[len(states) :]


def zeros_for_none(cotangents, like):
    """Cotangents of outputs that the loss does not depend on."""
    return tuple(np.zeros_like(like) if u is None else u for u in cotangents)


def through_time(step, x, begins, *states):
    """All states of a sequence, the initial ones first; a document begins with states of 0."""
    steps = [states]
    for t in range(x.shape[-2]):
        before = (np.where(begins[..., t, None], 0, state) for state in steps[-1])
        steps.append(step(x[..., t, :], *before))
    return tuple(np.stack(state, axis=-2) for state in zip(*steps, strict=True))


def through_time_vjp(step_vjp, x, begins, states, weights):
    """The steps backwards; they share the weights, so the gradients of these add up."""
    dx = np.zeros_like(x)
    dstates = [np.zeros_like(state) for state in states]
    dweights = [np.zeros_like(w) for w in weights if w is not None]
    for t in reversed(range(x.shape[-2])):
        dx[..., t, :], *grads = step_vjp(t, *dstates)
        dstates = [np.where(begins[..., t, None], 0, d) for d in grads[: len(states)]]
        new = grads[len(states) :]
        dweights = [total + g for total, g in zip(dweights, new, strict=True)]
    return dx, *dstates, *dweights


# == rnn


def simple_rnn(x, h, w_ih, w_hh, b):
    """
    Forward, one sequence.

    >>> x, h0 = np.array([[1.0], [0.0], [0.0]]), np.array([0.0])
    >>> w, b = np.array([[9.0]]), np.array([0.0])
    >>> print(simple_rnn(x, h0, w, w, b).T.round(4))
    [[1. 1. 1.]]
    """
    states = []
    for x_t in x:
        h = np.tanh(w_ih @ x_t + w_hh @ h + b)
        states.append(h)
    return np.array(states)


def simple_rnn_vjp(dout, x, h0, w_ih, w_hh, b):
    """
    Backpropagation through time, one sequence.

    >>> x, h0, dout = np.zeros((3, 1)), np.zeros(1), np.array([[0.0], [0.0], [1.0]])
    >>> w_ih, w_hh, b = np.array([[1.0]]), np.array([[0.5]]), np.array([0.0])
    >>> dx, dh0, dw_ih, dw_hh, db = simple_rnn_vjp(dout, x, h0, w_ih, w_hh, b)
    >>> print(dx.T, dh0, db)
    [[0.25 0.5  1.  ]] [0.125] [1.75]
    """
    h = np.array([h0, *simple_rnn(x, h0, w_ih, w_hh, b)])
    dx, dw_ih, dw_hh, db = (np.zeros_like(a) for a in (x, w_ih, w_hh, b))
    dh = np.zeros_like(h0)  # the gradient from later steps
    for t in reversed(range(len(x))):
        delta = (dout[t] + dh) * (1 - h[t + 1] ** 2)
        dx[t] = w_ih.T @ delta
        dh = w_hh.T @ delta
        dw_ih += np.outer(delta, x[t])
        dw_hh += np.outer(delta, h[t])
        db += delta
    return dx, dh, dw_ih, dw_hh, db


def rnn_activation(z, activation):
    """The four activations whose slope follows from their value."""
    if activation == "tanh":
        return np.tanh(z)
    if activation == "relu":
        return relu(z)
    if activation == "sigmoid":
        return sigmoid(z)
    return z


def rnn_slope(h, activation):
    """Slope of the activation, from its value."""
    if activation == "tanh":
        return 1 - h**2
    if activation == "relu":
        return np.where(h.real > 0, np.ones_like(h), 0)
    if activation == "sigmoid":
        return h * (1 - h)
    return np.ones_like(h)


def rnn_cell(x, h, w_ih, w_hh, b_ih=None, b_hh=None, *, activation="tanh"):
    """
    One step: a layer of the input plus a layer of the state, then the activation.

    >>> x, h, w = np.array([2.0]), np.array([40.0]), np.array([[1.0]])
    >>> print(rnn_cell(x, h, w, w, activation="identity"))
    [42.]
    """
    h = state_or_zeros(h, x.shape[:-1], w_hh)
    z = linear(x, w_ih, b_ih) + linear(h, w_hh, b_hh)
    return rnn_activation(z, activation)


def rnn_cell_vjp(dout, x, h, w_ih, w_hh, b_ih=None, b_hh=None, *, activation="tanh"):
    """
    Backward pass of a step.

    >>> dout, x, h, w = np.array([1.0]), np.array([2.0]), np.array([3.0]), np.array([[0.0]])
    >>> print(*rnn_cell_vjp(dout, x, h, w, w))
    [0.] [0.] [[2.]] [[3.]]
    """
    arguments = x, h, w_ih, w_hh, b_ih, b_hh
    after = rnn_cell(x, h, w_ih, w_hh, b_ih, b_hh, activation=activation)
    h = state_or_zeros(h, x.shape[:-1], w_hh)
    delta = dout * rnn_slope(after, activation)
    dx = delta @ w_ih
    dh = delta @ w_hh
    dw_ih = sum_of_outer(delta, x)
    dw_hh = sum_of_outer(delta, h)
    db = sum_of_rows(delta)
    return of_given((dx, dh, dw_ih, dw_hh, db, db), arguments)


def rnn_states(x, begins, h0, *weights, activation):
    """All states, the initial one first."""

    def step(x_t, h):
        return (rnn_cell(x_t, h, *weights, activation=activation),)

    (h,) = through_time(step, x, begins, state_or_zeros(h0, x.shape[:-2], weights[1]))
    return h


def rnn(
    x, h0, w_ih, w_hh, b_ih=None, b_hh=None, *,
    activation="tanh", reverse=False, lengths=None, segment_ids=None,
):  # fmt: skip
    """
    The same step at every time, with lengths and direction.

    >>> x, w = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0]])
    >>> print(rnn(x, None, w, w, activation="identity", reverse=True).T)
    [[6. 5. 3.]]
    """
    begins = beginnings(segment_ids, x, lengths, reverse)
    x = arranged(x, lengths, reverse)
    h = rnn_states(x, begins, h0, w_ih, w_hh, b_ih, b_hh, activation=activation)
    return arranged(h[..., 1:, :], lengths, reverse)


def rnn_vjp(
    dout, x, h0, w_ih, w_hh, b_ih=None, b_hh=None, *,
    truncate=None, activation="tanh", reverse=False, lengths=None, segment_ids=None,
):  # fmt: skip
    """
    Backpropagation through time, with lengths and direction.

    >>> x, w = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0]])
    >>> dout = np.array([[0.0], [0.0], [1.0]])
    >>> dx, dw_ih, dw_hh = rnn_vjp(dout, x, None, w, w, activation="identity")
    >>> print(dx.T, dw_ih, dw_hh)
    [[1. 1. 1.]] [[6.]] [[4.]]
    """
    weights = w_ih, w_hh, b_ih, b_hh
    begins = beginnings(segment_ids, x, lengths, reverse)
    x, dout = arranged(x, lengths, reverse), arranged(dout, lengths, reverse)
    h = states_before(rnn_states(x, begins, h0, *weights, activation=activation), begins)

    def step_vjp(t, dh):
        u = dout[..., t, :] + dh
        return rnn_cell_vjp(u, x[..., t, :], h[..., t, :], *weights, activation=activation)

    first = state_or_zeros(h0, x.shape[:-2], w_hh)
    if truncate is None:
        dx, dh0, *dweights = through_time_vjp(step_vjp, x, begins, [first], weights)
    else:
        dx, dh0, *dweights = truncated_vjp(dout, x, begins, h, weights, truncate, activation)
    return without_states((arranged(dx, lengths, reverse), dh0, *dweights), (h0,))


def truncated_vjp(dout, x, begins, h, weights, truncate, activation):
    """Each output goes back by itself, to a state that counts as a constant."""
    dx, dh0 = np.zeros_like(x), np.zeros(dout.shape[:-2] + dout.shape[-1:], h.dtype)
    dweights = [np.zeros_like(w) for w in weights if w is not None]
    document = np.cumsum(begins, axis=-1)
    for t in range(x.shape[-2]):
        start = max(t + 1 - truncate, 0)
        window = slice(start, t + 1)
        u = np.zeros_like(dout[..., window, :])
        u[..., -1, :] = dout[..., t, :]
        dx_part, dh, *new = rnn_vjp(
            u, x[..., window, :], h[..., start, :], *weights,
            activation=activation, segment_ids=document[..., window],
        )  # fmt: skip
        dx[..., window, :] += dx_part
        if start == 0:
            dh0 = dh0 + dh
        dweights = [total + g for total, g in zip(dweights, new, strict=True)]
    return dx, dh0, *dweights


def rnn_state_jacobian(
    x, h0, w_ih, w_hh, b_ih=None, b_hh=None, *, t=None, s=0, activation="tanh"
):  # fmt: skip
    """
    A product of the Jacobians of the steps, the latest on the left.

    >>> x, w_ih, w_hh = np.zeros((3, 1)), np.zeros((2, 1)), np.diag([0.5, 2.0])
    >>> print(rnn_state_jacobian(x, None, w_ih, w_hh))
    [[0.125 0.   ]
     [0.    8.   ]]
    """
    *batch, T, _ = x.shape
    H = w_hh.shape[1]
    begins = np.zeros((*batch, T), bool)
    h = rnn_states(x, begins, h0, w_ih, w_hh, b_ih, b_hh, activation=activation)
    jacobian = np.broadcast_to(np.eye(H, dtype=h.dtype), (*batch, H, H))
    for k in range(s, T if t is None else t):
        slope = rnn_slope(h[..., k + 1, :], activation)
        jacobian = slope[..., :, None] * (w_hh @ jacobian)
    return jacobian


def rnn_state(x, h0, w_ih, w_hh, b_ih=None, b_hh=None, *, activation="tanh"):
    """State after the last step, whose Jacobian is a product of the Jacobians of all steps."""
    return rnn(x, h0, w_ih, w_hh, b_ih, b_hh, activation=activation)[..., -1, :]


# == lstm


def simple_lstm_cell(x, h, c, w_ih, w_hh, b):
    """
    One step; the gates stand in the order i, f, g, o.

    >>> x, h, c, w = np.array([1.0]), np.array([0.0]), np.array([2.0]), np.zeros((4, 1))
    >>> b = np.array([0.0, np.log(3), np.arctanh(0.5), -np.log(3)])
    >>> h, c, gates = simple_lstm_cell(x, h, c, w, w, b)
    >>> print(*gates, c, h / np.tanh(c))
    [0.5] [0.75] [0.5] [0.25] [1.75] [0.25]
    """
    i, f, g, o = np.split(w_ih @ x + w_hh @ h + b, 4)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    c = f * c + i * g
    h = o * np.tanh(c)
    return h, c, (i, f, g, o)


def simple_lstm(x, h, c, w_ih, w_hh, b):
    """
    Forward, one sequence.

    >>> x, h0, c0 = np.arange(5.0)[:, None], np.array([0.0]), np.array([0.25])
    >>> w, b = np.zeros((4, 1)), np.array([-99.0, 99.0, 0.0, 0.0])
    >>> h, c = simple_lstm(x, h0, c0, w, w, b)
    >>> print(c.T)
    [[0.25 0.25 0.25 0.25 0.25]]
    """
    hs, cs = [], []
    for x_t in x:
        h, c, _ = simple_lstm_cell(x_t, h, c, w_ih, w_hh, b)
        hs.append(h)
        cs.append(c)
    return np.array(hs), np.array(cs)


def simple_lstm_vjp(dout, x, h0, c0, w_ih, w_hh, b):
    """
    Backpropagation through time, one sequence; dout is the cotangent of all h.

    >>> x, zero, w, dout = np.zeros((5, 1)), np.zeros(1), np.zeros((4, 1)), np.zeros((5, 1))
    >>> dout[-1] = 64
    >>> dx, dh0, dc0, *dweights = simple_lstm_vjp(dout, x, zero, zero, w, w, np.zeros(4))
    >>> print(dc0)
    [1.]
    """
    h, c = simple_lstm(x, h0, c0, w_ih, w_hh, b)
    h, c = np.array([h0, *h]), np.array([c0, *c])
    dx, dw_ih, dw_hh, db = (np.zeros_like(a) for a in (x, w_ih, w_hh, b))
    dh, dc = np.zeros_like(h0), np.zeros_like(c0)
    for t in reversed(range(len(x))):
        _, _, (i, f, g, o) = simple_lstm_cell(x[t], h[t], c[t], w_ih, w_hh, b)
        tanh_c = np.tanh(c[t + 1])
        dh = dh + dout[t]
        dc = dc + dh * o * (1 - tanh_c**2)
        delta_i = dc * g * i * (1 - i)
        delta_f = dc * c[t] * f * (1 - f)
        delta_g = dc * i * (1 - g**2)
        delta_o = dh * tanh_c * o * (1 - o)
        delta = np.concatenate([delta_i, delta_f, delta_g, delta_o])
        dx[t] = w_ih.T @ delta
        dh = w_hh.T @ delta
        dc = dc * f
        dw_ih += np.outer(delta, x[t])
        dw_hh += np.outer(delta, h[t])
        db += delta
    return dx, dh, dc, dw_ih, dw_hh, db


def peepholes(w_p, H, dtype):
    """The peepholes of i, f and o, 0 where there are none."""
    return np.split(np.zeros(3 * H, dtype) if w_p is None else w_p, 3)


def lstm_step(x, h, c, w_ih, w_hh, b_ih, b_hh, w_p):
    """Both states after a step, and the four gates."""
    z_i, z_f, z_g, z_o = np.split(linear(x, w_ih, b_ih) + linear(h, w_hh, b_hh), 4, axis=-1)
    p_i, p_f, p_o = peepholes(w_p, h.shape[-1], h.dtype)
    i = sigmoid(z_i + p_i * c)
    f = sigmoid(z_f + p_f * c)
    g = np.tanh(z_g)
    c = f * c + i * g
    o = sigmoid(z_o + p_o * c)
    h = o * np.tanh(c)
    return h, c, (i, f, g, o)


def lstm_step_vjp(dh, dc, dgates, x, h, c, w_ih, w_hh, b_ih, b_hh, w_p):
    """Backward pass of a step, for cotangents of both states and of the gates."""
    _, c_after, (i, f, g, o) = lstm_step(x, h, c, w_ih, w_hh, b_ih, b_hh, w_p)
    p_i, p_f, p_o = peepholes(w_p, h.shape[-1], h.dtype)
    u_i, u_f, u_g, u_o = dgates
    tanh_c = np.tanh(c_after)
    delta_o = (u_o + dh * tanh_c) * o * (1 - o)
    kappa = dc + dh * o * (1 - tanh_c**2) + p_o * delta_o  # of the new cell state
    delta_i = (u_i + kappa * g) * i * (1 - i)
    delta_f = (u_f + kappa * c) * f * (1 - f)
    delta_g = (u_g + kappa * i) * (1 - g**2)
    delta = np.concatenate([delta_i, delta_f, delta_g, delta_o], axis=-1)
    dx = delta @ w_ih
    dh = delta @ w_hh
    dc = f * kappa + p_i * delta_i + p_f * delta_f
    dw_ih = sum_of_outer(delta, x)
    dw_hh = sum_of_outer(delta, h)
    db = sum_of_rows(delta)
    dw_p = [sum_of_rows(d) for d in (delta_i * c, delta_f * c, delta_o * c_after)]
    grads = dx, dh, dc, dw_ih, dw_hh, db, db, np.concatenate(dw_p)
    return of_given(grads, (x, h, c, w_ih, w_hh, b_ih, b_hh, w_p))


def lstm_cell(x, h, c, w_ih, w_hh, b_ih=None, b_hh=None, *, w_p=None):
    """
    One step: the state decays, is written to, and is read.

    >>> x, h, c, w = np.array([1.0]), np.array([0.0]), np.array([3.0]), np.zeros((4, 1))
    >>> h, c = lstm_cell(x, h, c, w, w)
    >>> print(c, h / np.tanh(c))
    [1.5] [0.5]
    """
    h, c = (state_or_zeros(state, x.shape[:-1], w_hh) for state in (h, c))
    h, c, _ = lstm_step(x, h, c, w_ih, w_hh, b_ih, b_hh, w_p)
    return h, c


def lstm_cell_vjp(dout, x, h, c, w_ih, w_hh, b_ih=None, b_hh=None, *, w_p=None):
    """
    Backward pass of a step.

    >>> x, h, c, w = np.array([1.0]), np.array([0.0]), np.array([3.0]), np.zeros((4, 1))
    >>> dout = np.array([0.0]), np.array([1.0])
    >>> dx, dh, dc, dw_ih, dw_hh = lstm_cell_vjp(dout, x, h, c, w, w)
    >>> print(dc, dw_ih.T)
    [0.5] [[0.   0.75 0.5  0.  ]]
    """
    h_in, c_in = (state_or_zeros(state, x.shape[:-1], w_hh) for state in (h, c))
    dh, dc = zeros_for_none(dout, h_in)
    no_gates = (0, 0, 0, 0)
    grads = lstm_step_vjp(dh, dc, no_gates, x, h_in, c_in, w_ih, w_hh, b_ih, b_hh, w_p)
    return without_states(grads, (h, c))


def lstm_states(x, begins, h0, c0, *weights):
    """All states and cell states, the initial ones first."""

    def step(x_t, h, c):
        h, c, _ = lstm_step(x_t, h, c, *weights)
        return h, c

    first = (state_or_zeros(state, x.shape[:-2], weights[1]) for state in (h0, c0))
    return through_time(step, x, begins, *first)


def lstm(
    x, h0, c0, w_ih, w_hh, b_ih=None, b_hh=None, *,
    w_p=None, reverse=False, lengths=None, segment_ids=None,
):  # fmt: skip
    """
    The same step at every time, with lengths and direction.

    >>> x, c0, w = np.arange(5.0)[:, None], np.array([8.0]), np.zeros((4, 1))
    >>> h, c = lstm(x, None, c0, w, w)
    >>> print(c.T)
    [[4.   2.   1.   0.5  0.25]]
    """
    begins = beginnings(segment_ids, x, lengths, reverse)
    x = arranged(x, lengths, reverse)
    states = lstm_states(x, begins, h0, c0, w_ih, w_hh, b_ih, b_hh, w_p)
    return tuple(arranged(s[..., 1:, :], lengths, reverse) for s in states)


def lstm_states_vjp(dh, dc, dgates, x, begins, h0, c0, *weights):
    """Backpropagation through time, for cotangents of both states and of the gates."""
    h, c = (states_before(s, begins) for s in lstm_states(x, begins, h0, c0, *weights))

    def step_vjp(t, dh_later, dc_later):
        of_h = dh[..., t, :] + dh_later
        of_c = dc[..., t, :] + dc_later
        of_gates = [u[..., t, :] for u in dgates]
        now = x[..., t, :], h[..., t, :], c[..., t, :]
        return lstm_step_vjp(of_h, of_c, of_gates, *now, *weights)

    first = [state_or_zeros(state, x.shape[:-2], weights[1]) for state in (h0, c0)]
    grads = through_time_vjp(step_vjp, x, begins, first, weights)
    return without_states(grads, (h0, c0))


def lstm_vjp(
    dout, x, h0, c0, w_ih, w_hh, b_ih=None, b_hh=None, *,
    w_p=None, reverse=False, lengths=None, segment_ids=None,
):  # fmt: skip
    """
    Backpropagation through time, for cotangents of both states.

    >>> x, w, dc = np.zeros((5, 1)), np.zeros((4, 1)), np.zeros((5, 1))
    >>> dc[-1] = 32
    >>> dx, dh0, dc0, *dweights = lstm_vjp((None, dc), x, np.zeros(1), np.zeros(1), w, w)
    >>> print(dc0)
    [1.]
    """
    zero = np.zeros((*x.shape[:-1], w_hh.shape[1]), x.dtype)
    dh, dc = (arranged(u, lengths, reverse) for u in zeros_for_none(dout, zero))
    no_gates = [zero] * 4
    begins = beginnings(segment_ids, x, lengths, reverse)
    x = arranged(x, lengths, reverse)
    weights = w_ih, w_hh, b_ih, b_hh, w_p
    dx, *grads = lstm_states_vjp(dh, dc, no_gates, x, begins, h0, c0, *weights)
    return arranged(dx, lengths, reverse), *grads


def lstm_gates(
    x, h0, c0, w_ih, w_hh, b_ih=None, b_hh=None, *,
    w_p=None, reverse=False, lengths=None, segment_ids=None,
):  # fmt: skip
    """
    The gates at every step, from the states before it.

    >>> x, w, b = np.zeros((3, 1)), np.zeros((4, 1)), np.array([0.0, np.log(3), 0.0, 0.0])
    >>> i, f, g, o = lstm_gates(x, None, None, w, w, b)
    >>> print(f.T)
    [[0.75 0.75 0.75]]
    """
    begins = beginnings(segment_ids, x, lengths, reverse)
    x = arranged(x, lengths, reverse)
    weights = w_ih, w_hh, b_ih, b_hh, w_p
    h, c = (states_before(s, begins) for s in lstm_states(x, begins, h0, c0, *weights))
    _, _, gates = lstm_step(x, h, c, *weights)
    return tuple(arranged(gate, lengths, reverse) for gate in gates)


def lstm_gates_vjp(
    dout, x, h0, c0, w_ih, w_hh, b_ih=None, b_hh=None, *,
    w_p=None, reverse=False, lengths=None, segment_ids=None,
):  # fmt: skip
    """
    Backpropagation through time, for cotangents of the gates.

    >>> x, w, b, df = np.array([[2.0]]), np.zeros((4, 1)), np.zeros(4), np.array([[1.0]])
    >>> dx, dw_ih, dw_hh, db = lstm_gates_vjp((None, df, None, None), x, None, None, w, w, b)
    >>> print(db)
    [0.   0.25 0.   0.  ]
    """
    zero = np.zeros((*x.shape[:-1], w_hh.shape[1]), x.dtype)
    dgates = [arranged(u, lengths, reverse) for u in zeros_for_none(dout, zero)]
    begins = beginnings(segment_ids, x, lengths, reverse)
    x = arranged(x, lengths, reverse)
    weights = w_ih, w_hh, b_ih, b_hh, w_p
    dx, *grads = lstm_states_vjp(zero, zero, dgates, x, begins, h0, c0, *weights)
    return arranged(dx, lengths, reverse), *grads


# == gru


def simple_gru_cell(x, h, w_ih, w_hh, b_ih, b_hh):
    """
    One step, with the reset gate after the product as in PyTorch.

    >>> x, h, w, b = np.array([1.0]), np.array([3.0]), np.zeros((3, 1)), np.zeros(3)
    >>> h, gates = simple_gru_cell(x, h, w, w, b, b)
    >>> print(h)
    [1.5]
    """
    x_r, x_z, x_n = np.split(w_ih @ x + b_ih, 3)
    h_r, h_z, h_n = np.split(w_hh @ h + b_hh, 3)
    r = sigmoid(x_r + h_r)
    z = sigmoid(x_z + h_z)
    n = np.tanh(x_n + r * h_n)
    return (1 - z) * n + z * h, (r, z, n, h_n)


def simple_gru_cell_reset_before(x, h, w_ih, w_hh, b_ih, b_hh):
    """
    One step, with the reset gate before the product as in the paper.

    >>> x, h, w = np.array([1.0]), np.array([3.0]), np.zeros((3, 1))
    >>> b = np.array([0.0, -99.0, np.arctanh(0.5)])
    >>> print(simple_gru_cell_reset_before(x, h, w, w, np.zeros(3), b))
    [0.5]
    """
    w_r, w_z, w_n = np.split(w_ih, 3)
    v_r, v_z, v_n = np.split(w_hh, 3)
    b_r, b_z, b_n = np.split(b_ih + b_hh, 3)
    r = sigmoid(w_r @ x + v_r @ h + b_r)
    z = sigmoid(w_z @ x + v_z @ h + b_z)
    n = np.tanh(w_n @ x + v_n @ (r * h) + b_n)
    return (1 - z) * n + z * h


def simple_gru(x, h, w_ih, w_hh, b_ih, b_hh):
    """
    Forward, one sequence.

    >>> x, h0, w_hh, b = np.ones((3, 1)), np.zeros(1), np.zeros((3, 1)), np.zeros(3)
    >>> w_ih = np.array([[0.0], [0.0], [99.0]])
    >>> print(simple_gru(x, h0, w_ih, w_hh, b, b).T)
    [[0.5   0.75  0.875]]
    """
    states = []
    for x_t in x:
        h, _ = simple_gru_cell(x_t, h, w_ih, w_hh, b_ih, b_hh)
        states.append(h)
    return np.array(states)


def simple_gru_vjp(dout, x, h0, w_ih, w_hh, b_ih, b_hh):
    """
    Backpropagation through time, one sequence.

    >>> x, h0, w, b = np.zeros((5, 1)), np.zeros(1), np.zeros((3, 1)), np.zeros(3)
    >>> dout = np.zeros((5, 1))
    >>> dout[-1] = 32
    >>> dx, dh0, *dweights = simple_gru_vjp(dout, x, h0, w, w, b, b)
    >>> print(dh0)
    [1.]
    """
    h = np.array([h0, *simple_gru(x, h0, w_ih, w_hh, b_ih, b_hh)])
    dx, dw_ih, dw_hh = np.zeros_like(x), np.zeros_like(w_ih), np.zeros_like(w_hh)
    db_ih, db_hh, dh = np.zeros_like(b_ih), np.zeros_like(b_hh), np.zeros_like(h0)
    for t in reversed(range(len(x))):
        _, (r, z, n, h_n) = simple_gru_cell(x[t], h[t], w_ih, w_hh, b_ih, b_hh)
        dh = dh + dout[t]
        delta_n = dh * (1 - z) * (1 - n**2)
        delta_z = dh * (h[t] - n) * z * (1 - z)
        delta_r = delta_n * h_n * r * (1 - r)
        delta_x = np.concatenate([delta_r, delta_z, delta_n])
        delta_h = np.concatenate([delta_r, delta_z, delta_n * r])
        dx[t] = w_ih.T @ delta_x
        dh = dh * z + w_hh.T @ delta_h
        dw_ih += np.outer(delta_x, x[t])
        dw_hh += np.outer(delta_h, h[t])
        db_ih += delta_x
        db_hh += delta_h
    return dx, dh, dw_ih, dw_hh, db_ih, db_hh


def gru_step(x, h, w_ih, w_hh, b_ih, b_hh, reset_after):
    """The state after a step; then r, z, n, and the product m of W_hn and the old state."""
    x_r, x_z, x_n = np.split(linear(x, w_ih, b_ih), 3, axis=-1)
    h_r, h_z, m = np.split(linear(h, w_hh, b_hh), 3, axis=-1)
    r = sigmoid(x_r + h_r)
    z = sigmoid(x_z + h_z)
    if reset_after:
        n = np.tanh(x_n + r * m)
    else:
        w_hn = np.split(w_hh, 3)[2]
        b_hn = None if b_hh is None else np.split(b_hh, 3)[2]
        n = np.tanh(x_n + linear(r * h, w_hn, b_hn))
    return (1 - z) * n + z * h, (r, z, n, m)


def gru_cell(x, h, w_ih, w_hh, b_ih=None, b_hh=None, *, reset_after=True):
    """
    One step: a mean of the candidate and the old state.

    >>> x, h, w = np.array([1.0]), np.array([3.0]), np.zeros((3, 1))
    >>> b = np.array([0.0, -99.0, np.arctanh(0.5)])
    >>> print(gru_cell(x, h, w, w, b_hh=b, reset_after=False))
    [0.5]
    """
    h = state_or_zeros(h, x.shape[:-1], w_hh)
    h, _ = gru_step(x, h, w_ih, w_hh, b_ih, b_hh, reset_after)
    return h


def gru_cell_vjp(dout, x, h, w_ih, w_hh, b_ih=None, b_hh=None, *, reset_after=True):
    """
    Backward pass of a step.

    >>> dout, x, h, w = np.array([1.0]), np.array([1.0]), np.array([3.0]), np.zeros((3, 1))
    >>> dx, dh, dw_ih, dw_hh = gru_cell_vjp(dout, x, h, w, w)
    >>> print(dh, dw_ih.T)
    [0.5] [[0.   0.75 0.5 ]]
    """
    arguments = x, h, w_ih, w_hh, b_ih, b_hh
    h = state_or_zeros(h, x.shape[:-1], w_hh)
    _, (r, z, n, m) = gru_step(x, h, w_ih, w_hh, b_ih, b_hh, reset_after)
    w_hr, w_hz, w_hn = np.split(w_hh, 3)
    delta_n = dout * (1 - z) * (1 - n**2)
    delta_z = dout * (h - n) * z * (1 - z)
    if reset_after:
        mu = delta_n * r  # of the product m
        delta_r = delta_n * m * r * (1 - r)
        through_n = mu @ w_hn
        dw_hn = sum_of_outer(mu, h)
    else:
        mu = delta_n
        rho = delta_n @ w_hn  # of the product of r and the old state
        delta_r = rho * h * r * (1 - r)
        through_n = r * rho
        dw_hn = sum_of_outer(mu, r * h)
    delta = np.concatenate([delta_r, delta_z, delta_n], axis=-1)
    dx = delta @ w_ih
    dh = z * dout + delta_r @ w_hr + delta_z @ w_hz + through_n
    dw_ih = sum_of_outer(delta, x)
    dw_hh = np.concatenate([sum_of_outer(delta_r, h), sum_of_outer(delta_z, h), dw_hn])
    db_ih = sum_of_rows(delta)
    db_hh = np.concatenate([sum_of_rows(d) for d in (delta_r, delta_z, mu)])
    return of_given((dx, dh, dw_ih, dw_hh, db_ih, db_hh), arguments)


def gru_states(x, begins, h0, *weights, reset_after):
    """All states, the initial one first."""

    def step(x_t, h):
        return (gru_cell(x_t, h, *weights, reset_after=reset_after),)

    (h,) = through_time(step, x, begins, state_or_zeros(h0, x.shape[:-2], weights[1]))
    return h


def gru(
    x, h0, w_ih, w_hh, b_ih=None, b_hh=None, *,
    reset_after=True, reverse=False, lengths=None, segment_ids=None,
):  # fmt: skip
    """
    The same step at every time, with lengths and direction.

    >>> x, h0, w_hh = np.ones((3, 1)), np.array([0.25]), np.zeros((3, 1))
    >>> w_ih, b = np.array([[0.0], [0.0], [99.0]]), np.array([0.0, 99.0, 0.0])
    >>> print(gru(x, h0, w_ih, w_hh, b).T)
    [[0.25 0.25 0.25]]
    """
    begins = beginnings(segment_ids, x, lengths, reverse)
    x = arranged(x, lengths, reverse)
    h = gru_states(x, begins, h0, w_ih, w_hh, b_ih, b_hh, reset_after=reset_after)
    return arranged(h[..., 1:, :], lengths, reverse)


def gru_vjp(
    dout, x, h0, w_ih, w_hh, b_ih=None, b_hh=None, *,
    reset_after=True, reverse=False, lengths=None, segment_ids=None,
):  # fmt: skip
    """
    Backpropagation through time.

    >>> x, h0, w, dout = np.zeros((5, 1)), np.zeros(1), np.zeros((3, 1)), np.zeros((5, 1))
    >>> dout[-1] = 32
    >>> dx, dh0, *dweights = gru_vjp(dout, x, h0, w, w)
    >>> print(dh0)
    [1.]
    """
    weights = w_ih, w_hh, b_ih, b_hh
    begins = beginnings(segment_ids, x, lengths, reverse)
    x, dout = arranged(x, lengths, reverse), arranged(dout, lengths, reverse)
    h = states_before(gru_states(x, begins, h0, *weights, reset_after=reset_after), begins)

    def step_vjp(t, dh):
        u = dout[..., t, :] + dh
        return gru_cell_vjp(u, x[..., t, :], h[..., t, :], *weights, reset_after=reset_after)

    first = state_or_zeros(h0, x.shape[:-2], w_hh)
    dx, *grads = through_time_vjp(step_vjp, x, begins, [first], weights)
    return without_states((arranged(dx, lengths, reverse), *grads), (h0,))


# == sequences


def simple_bidirectional(x, forward, backward):
    """
    One network from the left, one from the right; one sequence.

    >>> x = np.array([[1.0], [0.0], [0.0]])
    >>> network = np.zeros(1), np.array([[9.0]]), np.array([[9.0]]), np.zeros(1)
    >>> print(simple_bidirectional(x, network, network).T.round(4))
    [[1. 1. 1.]
     [1. 0. 0.]]
    """
    left = simple_rnn(x, *forward)
    right = simple_rnn(x[::-1], *backward)[::-1]
    return np.concatenate([left, right], axis=-1)


def simple_bidirectional_vjp(dout, x, forward, backward):
    """
    Backward pass: each half of the channels through its own network.

    >>> x, dout = np.zeros((3, 1)), np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> network = np.zeros(1), np.array([[1.0]]), np.array([[0.5]]), np.zeros(1)
    >>> dx, dforward, dbackward = simple_bidirectional_vjp(dout, x, network, network)
    >>> print(dx.T)
    [[0.5 2.  0.5]]
    """
    left, right = np.split(dout, 2, axis=-1)
    dx_left, *dforward = simple_rnn_vjp(left, x, *forward)
    dx_right, *dbackward = simple_rnn_vjp(right[::-1], x[::-1], *backward)
    return dx_left + dx_right[::-1], tuple(dforward), tuple(dbackward)


def simple_sequence_to_vector(x, arguments, w_out, b_out):
    """
    Read the last state; one sequence.

    >>> x, w_out, b_out = np.array([[1.0], [0.0], [0.0]]), np.array([[4.0]]), np.array([-1.0])
    >>> network = np.zeros(1), np.array([[9.0]]), np.array([[9.0]]), np.zeros(1)
    >>> print(simple_sequence_to_vector(x, network, w_out, b_out).round(4))
    [3.]
    """
    h = simple_rnn(x, *arguments)
    return w_out @ h[-1] + b_out


def simple_sequence_to_vector_vjp(dout, x, arguments, w_out, b_out):
    """
    Backward pass: the only cotangent is at the last step.

    >>> x, w_out, b_out = np.zeros((3, 1)), np.array([[4.0]]), np.array([-1.0])
    >>> network = np.zeros(1), np.array([[1.0]]), np.array([[0.5]]), np.zeros(1)
    >>> dx, *grads = simple_sequence_to_vector_vjp(np.array([1.0]), x, network, w_out, b_out)
    >>> print(dx.T)
    [[1. 2. 4.]]
    """
    h = simple_rnn(x, *arguments)
    dh = np.zeros_like(h)
    dh[-1] = w_out.T @ dout
    dx, *grads = simple_rnn_vjp(dh, x, *arguments)
    return dx, tuple(grads), np.outer(dout, h[-1]), dout


def simple_encoder_decoder(x, y, encoder, decoder):
    """
    The last state of one network is the first of another; one sequence.

    >>> x, y, w = np.array([[0.0], [-1.0]]), np.zeros((3, 1)), np.array([[9.0]])
    >>> encoder, decoder = (np.zeros(1), w, w, np.zeros(1)), (w, w, np.zeros(1))
    >>> print(simple_encoder_decoder(x, y, encoder, decoder).T.round(4))
    [[-1. -1. -1.]]
    """
    last = simple_rnn(x, *encoder)[-1]
    return simple_rnn(y, last, *decoder)


def simple_encoder_decoder_vjp(dout, x, y, encoder, decoder):
    """
    Backward pass: the gradient of the decoder's first state is the encoder's cotangent.

    >>> x, y, dout = np.zeros((2, 1)), np.zeros((2, 1)), np.array([[0.0], [8.0]])
    >>> w_ih, w_hh, zero = np.array([[1.0]]), np.array([[0.5]]), np.zeros(1)
    >>> networks = (zero, w_ih, w_hh, zero), (w_ih, w_hh, zero)
    >>> dx, dy, *grads = simple_encoder_decoder_vjp(dout, x, y, *networks)
    >>> print(dx.T, dy.T)
    [[1. 2.]] [[4. 8.]]
    """
    h = simple_rnn(x, *encoder)
    dy, dlast, *ddecoder = simple_rnn_vjp(dout, y, h[-1], *decoder)
    dh = np.zeros_like(h)
    dh[-1] = dlast
    dx, *dencoder = simple_rnn_vjp(dh, x, *encoder)
    return dx, dy, tuple(dencoder), tuple(ddecoder)


def name_of(f):
    """A sequence function is given by itself or by its name."""
    return getattr(f, "__name__", f)


def states_of(f, x, arguments, options):
    """All states, and for an LSTM all cell states."""
    if name_of(f) == "lstm":
        return lstm(x, *arguments, **options)
    return ({"rnn": rnn, "gru": gru}[name_of(f)](x, *arguments, **options),)


def states_of_vjp(dout, f, x, arguments, options):
    """Backward pass, for the cotangents of all that states_of returns."""
    if name_of(f) == "lstm":
        return lstm_vjp(dout, x, *arguments, **options)
    return {"rnn": rnn_vjp, "gru": gru_vjp}[name_of(f)](*dout, x, *arguments, **options)


def only_h(dout, f):
    """A cotangent of the states, and none of the cell states."""
    return (dout, None) if name_of(f) == "lstm" else (dout,)


def output_layer(h, w_out, b_out):
    """The output layer, if there is one."""
    return h if w_out is None else linear(h, w_out, b_out)


def output_layer_vjp(dout, h, w_out, b_out):
    """Backward pass: the cotangent of h, then the gradients of the layer."""
    return (dout,) if w_out is None else linear_vjp(dout, h, w_out, b_out)


def bidirectional(f, x, forward, backward, **options):
    """
    One network from the left, one from the right.

    >>> x, one = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0]])
    >>> network = None, one, one
    >>> print(bidirectional("rnn", x, network, network, activation="identity").T)
    [[1. 3. 6.]
     [6. 5. 3.]]
    """
    left = states_of(f, x, forward, options)
    right = states_of(f, x, backward, {**options, "reverse": True})
    joint = tuple(np.concatenate(pair, axis=-1) for pair in zip(left, right, strict=True))
    return joint if name_of(f) == "lstm" else joint[0]


def bidirectional_vjp(dout, f, x, forward, backward, **options):
    """
    Backward pass: each half through its own network.

    >>> x, one = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0]])
    >>> network, dout, options = (None, one, one), np.ones((3, 2)), {"activation": "identity"}
    >>> dx, *grads = bidirectional_vjp(dout, "rnn", x, network, network, **options)
    >>> print(dx.T)
    [[4. 4. 4.]]
    """
    douts = dout if name_of(f) == "lstm" else (dout,)
    H = forward[len(douts) + 1].shape[1]  # of w_hh
    left = [None if u is None else u[..., :H] for u in douts]
    right = [None if u is None else u[..., H:] for u in douts]
    dx_left, *dforward = states_of_vjp(left, f, x, forward, options)
    dx_right, *dbackward = states_of_vjp(right, f, x, backward, {**options, "reverse": True})
    return dx_left + dx_right, tuple(dforward), tuple(dbackward)


def sequence_to_sequence(f, x, arguments, w_out=None, b_out=None, **options):
    """
    An output at every step, 0 beyond the end.

    >>> x, w_out = np.array([[1.0], [-1.0], [1.0], [1.0]]), np.array([[0.5]])
    >>> adder = None, np.array([[1.0]]), np.array([[1.0]])
    >>> print(sequence_to_sequence("rnn", x, adder, w_out, activation="identity").T)
    [[0.5 0.  0.5 1. ]]
    """
    h = states_of(f, x, arguments, options)[0]
    return arranged(output_layer(h, w_out, b_out), options.get("lengths"), reverse=False)


def sequence_to_sequence_vjp(dout, f, x, arguments, w_out=None, b_out=None, **options):
    """
    Backward pass: the output layer, then back through time.

    >>> x, one, w_out = np.array([[1.0], [2.0]]), np.array([[1.0]]), np.array([[2.0]])
    >>> adder, dout, options = (None, one, one), np.ones((2, 1)), {"activation": "identity"}
    >>> dx, grads, dw_out = sequence_to_sequence_vjp(dout, "rnn", x, adder, w_out, **options)
    >>> print(dx.T, dw_out)
    [[4. 2.]] [[4.]]
    """
    h = states_of(f, x, arguments, options)[0]
    dout = arranged(dout, options.get("lengths"), reverse=False)
    dh, *dread = output_layer_vjp(dout, h, w_out, b_out)
    dx, *grads = states_of_vjp(only_h(dh, f), f, x, arguments, options)
    return dx, tuple(grads), *dread


def place_of_last(x, lengths=None, reverse=False, **_):
    """Where the last state of each entry stands, if the initial one is put before all others."""
    n = np.full(x.shape[:-2], x.shape[-2]) if lengths is None else np.asarray(lengths)
    return np.minimum(n, 1) if reverse else n


def final_states(f, x, arguments, options):
    """States after the last step of each entry; the initial ones where there was none."""
    place = place_of_last(x, **options)[..., None, None]
    finals = []
    for state, out in zip(arguments, states_of(f, x, arguments, options), strict=False):
        first = np.zeros((*x.shape[:-2], out.shape[-1]), out.dtype) if state is None else state
        every = np.concatenate([first[..., None, :], out], axis=-2)
        finals.append(np.take_along_axis(every, place, axis=-2)[..., 0, :])
    return tuple(finals)


def final_states_vjp(dout, f, x, arguments, options):
    """Backward pass: each cotangent goes to the place of the last step."""
    place = place_of_last(x, **options)[..., None, None]
    chosen = np.arange(x.shape[-2] + 1)[:, None] == place
    at_steps, at_start = [], []
    for u in zeros_for_none(dout, dout[0]):
        every = np.where(chosen, u[..., None, :], 0)
        at_start.append(every[..., 0, :])
        at_steps.append(every[..., 1:, :])
    dx, *grads = states_of_vjp(at_steps, f, x, arguments, options)
    for k, direct in enumerate(of_given(at_start, arguments[: len(dout)])):
        grads[k] = grads[k] + direct
    return dx, *grads


def sequence_to_vector(f, x, arguments, w_out=None, b_out=None, **options):
    """
    An output after the last step.

    >>> x, one = np.array([[[1.0], [2.0], [4.0]]] * 2), np.array([[1.0]])
    >>> adder, options = (None, one, one), {"activation": "identity", "lengths": [3, 2]}
    >>> print(sequence_to_vector("rnn", x, adder, **options).T)
    [[7. 3.]]
    """
    h = final_states(f, x, arguments, options)[0]
    return output_layer(h, w_out, b_out)


def sequence_to_vector_vjp(dout, f, x, arguments, w_out=None, b_out=None, **options):
    """
    Backward pass: the only cotangent is at the last step.

    >>> x, halves = np.array([[1.0], [2.0], [4.0]]), (None, np.array([[1.0]]), np.array([[0.5]]))
    >>> dout, options = np.array([1.0]), {"activation": "identity"}
    >>> dx, grads = sequence_to_vector_vjp(dout, "rnn", x, halves, **options)
    >>> print(dx.T)
    [[0.25 0.5  1.  ]]
    """
    h = final_states(f, x, arguments, options)[0]
    dh, *dread = output_layer_vjp(dout, h, w_out, b_out)
    dx, *grads = final_states_vjp(only_h(dh, f), f, x, arguments, options)
    return dx, tuple(grads), *dread


def repeated_input(x, steps, feed):
    """A sequence of one input: the same at every step, or 0 after the first."""
    t = np.arange(steps)[:, None]
    shown = (t == 0) if feed == "first" else (t >= 0)
    return np.where(shown, x[..., None, :], 0)


def vector_to_sequence(
    f, x, arguments, w_out=None, b_out=None, *, steps, feed="repeat", **options
):  # fmt: skip
    """
    Unfold one input into a sequence of outputs.

    >>> x, halves = np.array([1.0]), (None, np.array([[1.0]]), np.array([[0.5]]))
    >>> print(vector_to_sequence("rnn", x, halves, steps=3, activation="identity").T)
    [[1.   1.5  1.75]]
    """
    return sequence_to_sequence(
        f, repeated_input(x, steps, feed), arguments, w_out, b_out, **options
    )


def vector_to_sequence_vjp(
    dout, f, x, arguments, w_out=None, b_out=None, *, steps, feed="repeat", **options
):  # fmt: skip
    """
    Backward pass: the gradients of all steps that see the input add up.

    >>> x, halves = np.array([1.0]), (None, np.array([[1.0]]), np.array([[0.5]]))
    >>> dout, options = np.array([[0.0], [0.0], [1.0]]), {"steps": 3, "activation": "identity"}
    >>> dx, grads = vector_to_sequence_vjp(dout, "rnn", x, halves, **options)
    >>> print(dx)
    [1.75]
    """
    wide = repeated_input(x, steps, feed)
    dx, *grads = sequence_to_sequence_vjp(dout, f, wide, arguments, w_out, b_out, **options)
    dx = dx[..., 0, :] if feed == "first" else np.sum(dx, axis=-2)
    return dx, *grads


def of_decoder(options):
    """Lengths, direction and documents belong to the encoder."""
    of_encoder = "lengths", "reverse", "segment_ids"
    return {name: v for name, v in options.items() if name not in of_encoder}


def encoder_decoder(f, x, y, encoder, decoder, w_out=None, b_out=None, **options):
    """
    The last state of one network is the first of another.

    >>> x, y, one = np.array([[1.0], [2.0]]), np.array([[0.0], [10.0], [10.0]]), np.array([[1.0]])
    >>> encoder, decoder = (None, one, one), (one, one)
    >>> print(encoder_decoder("rnn", x, y, encoder, decoder, activation="identity").T)
    [[ 3. 13. 23.]]
    """
    states = final_states(f, x, encoder, options)
    h = states_of(f, y, (*states, *decoder), of_decoder(options))[0]
    return output_layer(h, w_out, b_out)


def encoder_decoder_vjp(
    dout, f, x, y, encoder, decoder, w_out=None, b_out=None, **options
):  # fmt: skip
    """
    Backward pass: the gradient of the decoder's first state is the encoder's cotangent.

    >>> x, y, one = np.array([[1.0], [2.0]]), np.array([[0.0], [0.0]]), np.array([[1.0]])
    >>> networks, dout = ((None, one, one), (one, one)), np.ones((2, 1))
    >>> options = {"activation": "identity"}
    >>> dx, dy, *grads = encoder_decoder_vjp(dout, "rnn", x, y, *networks, **options)
    >>> print(dx.T, dy.T)
    [[2. 2.]] [[2. 1.]]
    """
    states = final_states(f, x, encoder, options)
    second = (*states, *decoder)
    h = states_of(f, y, second, of_decoder(options))[0]
    dh, *dread = output_layer_vjp(dout, h, w_out, b_out)
    dy, *grads = states_of_vjp(only_h(dh, f), f, y, second, of_decoder(options))
    dstates, ddecoder = grads[: len(states)], grads[len(states) :]
    dx, *dencoder = final_states_vjp(dstates, f, x, encoder, options)
    return dx, dy, tuple(dencoder), tuple(ddecoder), *dread


# == selective_scan


def selective_scan_doubling(x, delta, a, b, c):
    """
    All steps at once, in rounds of combined pairs; one sequence, from a state of 0.

    >>> x, delta = np.array([[4.0], [100.0], [2.0]]), np.array([[1.0], [0.0], [50.0]])
    >>> a, ones = np.array([[-1.0]]), np.ones((3, 1))
    >>> print(selective_scan_doubling(x, delta, a, ones, ones).T)
    [[  4.   4. 100.]]
    """
    factor = np.exp(delta[:, :, None] * a)
    h = (delta * x)[:, :, None] * b[:, None, :]
    s = 1
    while s < len(x):  # combine each pair with the pair s steps before
        h[s:] = factor[s:] * h[:-s] + h[s:]
        factor[s:] = factor[s:] * factor[:-s]
        s *= 2
    return np.sum(c[:, None, :] * h, axis=-1)


def scan_states(x, delta, a, b, state, segment_ids=None):
    """All states, the first one before all steps; and the factors of the decay."""
    decay = np.exp(delta[..., None] * a)
    if segment_ids is not None:
        begins = segment_ids[..., 1:] != segment_ids[..., :-1]
        decay[..., 1:, :, :] = np.where(begins[..., None, None], 0, decay[..., 1:, :, :])
    written = (delta * x)[..., None] * b[..., None, :]
    zeros = np.zeros((*x.shape[:-2], *a.shape), a.dtype)
    h = [zeros if state is None else state]
    for t in range(x.shape[-2]):
        h.append(decay[..., t, :, :] * h[-1] + written[..., t, :, :])
    return np.stack(h, axis=-3), decay


def selective_scan(
    x, delta, a, b, c, d=None, state=None, *, delta_softplus=False, segment_ids=None
):
    """
    Each state decays, is written to and is read.

    >>> x, delta = np.array([[4.0], [100.0], [2.0]]), np.array([[1.0], [0.0], [50.0]])
    >>> a, ones = np.array([[-1.0]]), np.ones((3, 1))
    >>> y, state = selective_scan(x, delta, a, ones, ones)
    >>> print(y.T, state)
    [[  4.   4. 100.]] [[100.]]
    >>> y, _ = selective_scan(x, delta, a, ones, ones, segment_ids=np.array([0, 1, 1]))
    >>> print(y.T)
    [[  4.   0. 100.]]
    """
    step = softplus(delta) if delta_softplus else delta
    h, _ = scan_states(x, step, a, b, state, segment_ids)
    y = np.sum(c[..., None, :] * h[..., 1:, :, :], axis=-1)
    y = y if d is None else y + d * x
    return y, h[..., -1, :, :]


def selective_scan_vjp(
    dout, x, delta, a, b, c, d=None, state=None, *, delta_softplus=False, segment_ids=None
):
    """
    Backward pass: the gradient of the state runs backwards through the same decay.

    >>> a, ones = np.array([[np.log(0.5)]]), np.ones((3, 1))
    >>> dout = None, np.array([[1.0]])
    >>> dx, *grads = selective_scan_vjp(dout, ones, ones, a, ones, ones)
    >>> print(dx.T)
    [[0.25 0.5  1.  ]]
    """
    step = softplus(delta) if delta_softplus else delta
    h, decay = scan_states(x, step, a, b, state, segment_ids)
    u, dstate = dout
    u = np.zeros_like(x) if u is None else u
    later = np.zeros_like(h[..., 0, :, :]) if dstate is None else dstate
    g = np.zeros_like(decay)
    for t in reversed(range(x.shape[-2])):
        g[..., t, :, :] = later + u[..., t, :, None] * c[..., t, None, :]
        later = decay[..., t, :, :] * g[..., t, :, :]
    kept = decay * h[..., :-1, :, :]
    g_b = np.sum(g * b[..., None, :], axis=-1)
    dstep = np.sum(g * a * kept, axis=-1) + x * g_b
    ddelta = sigmoid(delta) * dstep if delta_softplus else dstep
    dx = step * g_b if d is None else step * g_b + d * u
    da = np.sum(step[..., None] * g * kept, axis=tuple(range(g.ndim - 2)))
    db = np.sum((step * x)[..., None] * g, axis=-2)
    dc = np.sum(u[..., None] * h[..., 1:, :, :], axis=-2)
    dd = sum_of_rows(u * x)
    return dx, ddelta, da, db, dc, *of_given((dd, later), (d, state))
