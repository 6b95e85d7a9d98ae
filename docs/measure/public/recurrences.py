"""Recurrent layers, linear attention as a recurrence, and scans."""

import numpy as np

from dlref import attention as att
from dlref import convolution, recurrent

from .kernels import Wrong, cases, gradients, sigmoid

R = np.random.default_rng(55)


def flat(a):
    return a.reshape(-1, a.shape[-1])


def dense(x, weight, bias=None):
    y = x @ weight.T
    return y if bias is None else y + bias


def gru_cell(x, h, w_ih, w_hh, b_ih=None, b_hh=None, reset_after=True, slip=""):
    """One step, the reset gate after the product (PyTorch) or before it (paper, ONNX)."""
    x_r, x_z, x_n = np.split(dense(x, w_ih, b_ih), 3, -1)
    h = np.zeros_like(x_r) if h is None else h
    h_r, h_z, h_n = np.split(dense(h, w_hh, b_hh), 3, -1)
    r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
    if reset_after:
        n = np.tanh(x_n + r * h_n)
    else:
        w, b = np.split(w_hh, 3)[2], 0 if b_hh is None else np.split(b_hh, 3)[2]
        one = slip == "reset gate of the row"  # the gate of the row for all columns
        n = np.tanh(x_n + (r * (h @ w.T) if one else (r * h) @ w.T) + b)
    if slip == "update gate inverted":
        return z * n + (1 - z) * h
    return (1 - z) * n if slip == "old state missing" else (1 - z) * n + z * h


def lstm_cell(x, h, c, w_ih, w_hh, b_ih=None, b_hh=None, slip=""):
    """One step, gates in the order i, f, g, o."""
    z = dense(x, w_ih, b_ih)
    zeros = np.zeros_like(z[..., : z.shape[-1] // 4])
    h, c = (zeros if s is None else s for s in (h, c))
    i, f, g, o = np.split(z + dense(h, w_hh, b_hh), 4, -1)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    write = i + g if slip == "sum of the gates" else i * g
    c = f * c + (f * g if slip == "forget gate of the input" else write)
    return o * (c if slip == "no tanh" else np.tanh(c)), c


def lstm_states(x, h, c, w_ih, w_hh, b_ih, b_hh):
    """States before and after each step, and gates."""
    steps, gates = [(h, c)], []
    for t in range(x.shape[-2]):
        z = dense(x[..., t, :], w_ih, b_ih) + dense(h, w_hh, b_hh)
        i, f, g, o = np.split(z, 4, -1)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        c = f * c + i * g
        h = o * np.tanh(c)
        steps.append((h, c))
        gates.append((i, f, g, o))
    return steps, gates


def lstm_backward(dout, x, h0, c0, w_ih, w_hh, b_ih=None, b_hh=None, slip=""):
    """Backpropagation through time."""
    H, T = w_hh.shape[1], x.shape[-2]
    zeros = np.zeros((*x.shape[:-2], H), x.dtype)
    steps, gates = lstm_states(
        x, *(zeros if s is None else s for s in (h0, c0)), w_ih, w_hh, b_ih, b_hh
    )
    d_h, d_c = (np.zeros((*x.shape[:-1], H), x.dtype) if u is None else u for u in dout)
    dx, dz = np.zeros_like(x), np.zeros((*x.shape[:-1], 4 * H), x.dtype)
    dh, dc = zeros, zeros
    for t in reversed(range(T)):
        (i, f, g, o), (_, before), (_, c) = gates[t], steps[t], steps[t + 1]
        if slip != "last step alone" or t == T - 1:
            dh = dh + d_h[..., t, :]
        of_h = dh * o * (1 - np.tanh(c) ** 2)
        dc = of_h if slip == "cell gradient overwritten" else dc + of_h
        if slip != "last cell state" or t < T - 1:
            dc = dc + d_c[..., t, :]
        of_f = sigmoid(f) if slip == "no derivative" else f * (1 - f)
        parts = dc * g * i * (1 - i), dc * before * of_f, dc * i * (1 - g * g)
        dz[..., t, :] = np.concatenate([*parts, dh * np.tanh(c) * o * (1 - o)], -1)
        dx[..., t, :] = dz[..., t, :] @ w_ih
        dh, dc = dz[..., t, :] @ w_hh, dc * f
    hidden = np.stack([h for h, _ in steps[:-1]], -2) if T else np.zeros((*x.shape[:-1], H))
    dbias = flat(dz).sum(0)
    if slip == "bias of the forget gate":
        dbias = np.concatenate([dbias[H : 2 * H], dbias[H : 3 * H], dbias[H : 2 * H]])
    return gradients(
        dx, None if h0 is None else dh, None if c0 is None else dc, flat(dz).T @ flat(x),
        flat(dz).T @ flat(hidden), None if b_ih is None else dbias,
        None if b_hh is None else dbias.copy(),
    )  # fmt: skip


def rnn_backward(dout, x, h0, w_ih, w_hh, b_ih=None, b_hh=None, slip=""):
    """Backpropagation through time of a layer with tanh."""
    h = np.zeros((*x.shape[:-2], w_hh.shape[1]), x.dtype) if h0 is None else h0
    states = [h]
    for t in range(x.shape[-2]):
        states.append(np.tanh(dense(x[..., t, :], w_ih, b_ih) + dense(states[-1], w_hh, b_hh)))
    dz, dh = np.zeros_like(dout), np.zeros_like(h)
    for t in reversed(range(x.shape[-2])):
        u = dout[..., t, :] if slip == "not passed on" else dout[..., t, :] + dh
        dz[..., t, :] = u * (1 - states[t + 1] ** 2)
        dh = dz[..., t, :] @ w_hh
    before = np.stack(states[:-1], -2)
    return gradients(
        dz @ w_ih, None if h0 is None else dh, flat(dz).T @ flat(x), flat(dz).T @ flat(before),
        None if b_ih is None else flat(dz).sum(0), None if b_hh is None else flat(dz).sum(0),
    )  # fmt: skip


def recurrent_linear_attention(
    q, k, v, decay=None, beta=None, state=None, scale=1.0, slip=""
):  # fmt: skip
    """Forget, correct, write, read, step by step."""
    S = np.zeros((*q.shape[:-2], q.shape[-1], v.shape[-1]), v.dtype) if state is None else state
    out = np.zeros(v.shape, v.dtype)
    if decay is not None and slip == "decay of the first head" and decay.ndim > 2:
        decay = np.broadcast_to(decay[..., :1, :, :], decay.shape)
    for t in range(q.shape[-2]):
        k_t, w = k[..., t, :], v[..., t, :]
        old = S
        factor = 1 if decay is None else np.exp(decay[..., t, :])[..., None]
        if slip != "decay after the write":
            S = factor * S
        if beta is not None:
            b = beta[..., t, None]
            read = np.einsum("...ev,...e->...v", old if slip == "state before" else S, k_t)
            w = b * w - read if slip == "beta of the values alone" else b * (w - read)
        S = S + k_t[..., :, None] * w[..., None, :]
        if slip == "decay after the write":
            S = factor * S
        out[..., t, :] = v.dtype.type(scale) * np.einsum("...ev,...e->...v", S, q[..., t, :])
    return out, S


def causal_conv(x, weight, bias=None, state=None, slip=""):
    """A causal convolution of each channel, and the last K - 1 inputs as the state."""
    K = weight.shape[1]
    before = np.zeros((*x.shape[:-2], K - 1, x.shape[-1]), x.dtype) if state is None else state
    whole = np.concatenate([before, x], -2)
    T = x.shape[-2]
    y = sum(weight[:, i] * whole[..., i : i + T, :] for i in range(K))
    last = whole[..., T:, :].copy()
    if slip == "state of a short piece" and T < K - 1:
        # the new state is filled from x alone: what is missing is 0
        last[..., : K - 1 - T, :] = 0
    return (y if bias is None else y + bias).astype(x.dtype), last


def causal_conv_backward(dout, x, weight, bias=None, state=None, slip=""):
    """Gradients of inputs, kernel, bias and first state, from those of outputs and last state."""
    K, T = weight.shape[1], x.shape[-2]
    before = np.zeros((*x.shape[:-2], K - 1, x.shape[-1]), x.dtype) if state is None else state
    whole = np.concatenate([before, x], -2)
    dy, dlast = dout
    dwhole, dweight = np.zeros_like(whole), np.zeros_like(weight)
    of_inputs = dlast
    if slip == "state gradient shifted" and T < K - 1:
        # the place of a token is counted from max(0, T - (K - 1))
        of_inputs = np.concatenate([dlast[..., : K - 1 - T, :], dlast[..., :T, :]], -2)
    if slip == "kept state forgotten" and T < K - 1:
        of_inputs = np.where(np.arange(K - 1)[:, None] < K - 1 - T, 0, dlast)
    dwhole[..., T:, :] = of_inputs
    for i in range(K):
        dwhole[..., i : i + T, :] += weight[:, i] * dy
        dweight[:, i] = flat(dy * whole[..., i : i + T, :]).sum(0)
    return gradients(
        dwhole[..., K - 1 :, :], dweight, None if bias is None else flat(dy).sum(0),
        None if state is None else dwhole[..., : K - 1, :],
    )  # fmt: skip


def decay_gradient(dout, q, k, v, decay, slip=""):
    """The gradient of a decay as a sum from the end of q dq - k dk, and of the last state."""
    _, D = dout
    dq, dk, dv, _ = att.recurrent_linear_attention_vjp(dout, q, k, v, decay)
    last = att.recurrent_linear_attention(q, k, v, decay)[1]
    ddecay = (q * dq - k * dk)[..., ::-1, :].cumsum(-2)[..., ::-1, :]
    if slip != "last state left out":
        ddecay = ddecay + (last * D).sum(-1)[..., None, :]
    if decay.shape[-1] == 1:
        ddecay = ddecay.sum(-1, keepdims=True)
    return dq, dk, dv, ddecay


def log_decay(*shape):
    return -np.abs(R.normal(size=shape)) / 4


def unit(*shape):
    a = R.normal(size=shape)
    return a / np.linalg.norm(a, axis=-1, keepdims=True)


def tokens(heads, T=12, E=6, V=5):
    return unit(2, heads, T, E), unit(2, heads, T, E), R.normal(size=(2, heads, T, V))


THREE = tokens(3), tokens(3)
GATED = cases(
    ((*THREE[0], log_decay(2, 3, 12, 1), R.uniform(0, 1, (2, 3, 12))), {}),
    ((*THREE[1], log_decay(2, 3, 12, 6), R.uniform(0, 1, (2, 3, 12))), {"scale": 0.5}),
)
DECAYED = cases(
    ((*THREE[0], log_decay(2, 3, 12, 1)), {}), ((*THREE[1], log_decay(2, 3, 12, 6)), {})
)
DELTA = cases(
    ((*THREE[0], None, R.uniform(0, 1, (2, 3, 12))), {}),
    ((*THREE[1], None, R.uniform(0, 2, (2, 3, 12))), {}),
)
PIECES = cases(
    ((R.normal(size=(2, 1, 3)), R.normal(size=(3, 4)), None, R.normal(size=(2, 3, 3))), {}),
    ((R.normal(size=(2, 2, 3)), R.normal(size=(3, 4)), None, R.normal(size=(2, 3, 3))), {}),
    ((R.normal(size=(2, 9, 3)), R.normal(size=(3, 4)), None, R.normal(size=(2, 3, 3))), {}),
)


def layer(T, D, H, gates, states, *, bias=True):
    """Return inputs of a recurrent layer: a sequence, no state or random ones, and weights."""
    sizes = (gates * H, D), (gates * H, H), *(((gates * H,),) * 2 if bias else ())
    given = [R.normal(size=(2, H)) if s else None for s in states]
    return (R.normal(size=(2, T, D)), *given, *(R.normal(size=s) / 2 for s in sizes))


LAYER = cases((layer(6, 3, 4, 4, (True, True)), {}), (layer(4, 5, 3, 4, (False, False)), {}))
SIMPLE = cases((layer(6, 3, 4, 1, (True,)), {}), (layer(4, 5, 3, 1, (False,), bias=False), {}))
LINEAR, LSTM, GRU = att.recurrent_linear_attention, recurrent.lstm, recurrent.gru_cell
GIVEN = [
    Wrong("C", LSTM, "vjp", lstm_backward, "last step alone",
        "The upstream gradients of the hidden states between the steps are not used.",
        (r"(last|final) (step|state|time|entry of dout)",
         r"(dh|hidden).*(last|final|between|steps)",
         r"dh\[.*T - 1|upstream.*(steps|times)"), LAYER),
    Wrong("D", GRU, "forward", gru_cell, "old state missing",
        "The term z h is missing.",
        (r"z \* h", r"(old|previous) state.*(missing|left out|lacks|dropped|forgotten)",
         r"(missing|lacks|without).*(old|previous) state")),
    Wrong("B", LINEAR, "forward", recurrent_linear_attention, "decay of the first head",
        "The decay of the first head stands for those of all heads.",
        (r"decay.*(head|first|axis|broadcast)", r"head.*decay"), DECAYED),
    Wrong("B", LINEAR, "forward", recurrent_linear_attention, "beta of the values alone",
        "beta multiplies the values, and not what is read from the state.",
        (r"beta.*(values?|alone|only|correction|not|read|state)", r"beta.*w - rows"), DELTA),
    Wrong("B", LINEAR, "forward", recurrent_linear_attention, "decay after the write",
        "The decay comes after the write, and so fades the new token as well.",
        (r"decay.*(after|order|write|new|written|t \+ 1|t - 1|next)", r"(after|order).*decay"),
        DECAYED),
    Wrong("B", convolution.causal_conv, "forward", causal_conv, "state of a short piece",
        "If a piece is shorter than the state, the old state is lost in the new one.",
        (r"(old|previous|given|first) state.*(lost|missing|left out|not)", r"(new|last) state",
         r"state.*lost|short", r"'state is None' is always taken"),
        PIECES),
]  # fmt: skip
FRESH = [
    Wrong("fla-org/flash-linear-attention#885", LINEAR, "forward", recurrent_linear_attention,
        "state before",
        "The error is that of the state before it has faded.",
        (r"(state|S\b).*(before|not faded|undecayed|without|old|pre)",
         r"decay.*(after|order|before)",
         r"(before|after).*decay"), GATED),
    Wrong("ooples/AiDotNet#722", GRU, "forward", gru_cell, "reset gate of the row",
        "The reset gate multiplies the product, not the state before the product.",
        (r"reset_after", r"reset.*(after|product)", r"r \* (m|linear)")),
    Wrong("lucidrains/minGRU-pytorch#21", GRU, "forward", gru_cell, "update gate inverted",
        "The update gate is inverted: z n + (1 - z) h.",
        (r"(z|update).*(invert|swap|exchang|opposite)", r"1 - (z|sigmoid)", r"\bz \* n")),
    Wrong("MartinuzziFrancesco/torchrecurrent#22", recurrent.lstm_cell, "forward", lstm_cell,
        "sum of the gates",
        "The input gate and the candidate are added, not multiplied.",
        (r"i \+ g", r"(sum|added).*(product|multiplied)", r"\+.*(stands|for|place).*\*")),
    Wrong("qixianbiao/RNN#2", recurrent.rnn, "vjp", rnn_backward, "not passed on",
        "The gradient of a state is not passed on to the step before.",
        (r"(through time|truncate|passed|step before|earlier step|later|one step)",
         r"dh.*(0|missing)",
         r"dout\[.*stands"), SIMPLE),
    Wrong("hanbt/learn_dl#53", LSTM, "vjp", lstm_backward, "bias of the forget gate",
        "The gradients of the biases of i and o are those of f.",
        (r"bias.*(forget|gate|f\b)", r"(forget|gate|block).*bias",
         r"gates?.*(repeat|same|equal)", r"part 0 of 4 holds part 1"), LAYER),
    Wrong("apache/mxnet#4057", LSTM, "vjp", lstm_backward, "cell gradient overwritten",
        "The gradient of the cell state from the next step is overwritten, not added to.",
        (r"\bdc\b", r"cell.*(overwrit|lost|missing|ignored|not added|next|later)",
         r"dc_later"), LAYER),
    Wrong("fla-org/flash-linear-attention#459", LINEAR, "vjp", decay_gradient,
        "last state left out",
        "The gradient of the decay lacks the term of the last state.",
        (r"(last|final) state|dstate|cotangent of the state",
         r"state.*(lacks|ignored|missing|left out)", r"decay.*(lacks|missing)"), DECAYED),
    Wrong("fla-org/flash-linear-attention#1140", convolution.causal_conv, "vjp",
        causal_conv_backward, "state gradient shifted",
        "In a piece shorter than the state, the gradient of the last state goes to other tokens.",
        (r"shift|other (token|place|step)|(last|new) state|dlast|T - ",), PIECES),
    Wrong("fla-org/flash-linear-attention#1140", convolution.causal_conv, "vjp",
        causal_conv_backward, "kept state forgotten",
        "In a piece shorter than the state, what is kept of the first state has no gradient.",
        (r"(last|new) state|dlast|kept|short|gradient of state.*left out",), PIECES),
]  # fmt: skip
