"""The differentials with which backward passes begin: the formula, and a complex step.

Where the map has a product in forward mode, the formula is compared with this product as well.
"""

import functools

import numpy as np
from equations.evaluate import From, Of, elementwise, mapped
from equations.ledger import reads

from dlref import formulas, positions, transformer
from dlref.formulas.activations import sigmoid

X, G = np.random.default_rng(1).normal(size=(2, 4))
CELL = ["W_x", "W_h", "b_x", "b_h"]


def draw(*shapes):
    rng = np.random.default_rng(2)
    return [rng.normal(size=shape) for shape in shapes]


def cell_of(names, gates):
    """Return the inputs of a cell of three units: x, the states, weights and biases."""
    states = [(3,)] * (len(names) - 1 - (4 if len(names) != 5 else 3))
    shapes = [(2,), *states, (3 * gates, 2), (3 * gates, 3), (3 * gates,), (3 * gates,)]
    return dict(zip(names, draw(*shapes), strict=False))


def lstm_step(x, h, c, gate, new, out):
    """Return the environment of a step of an LSTM, with the names that its quantities have."""
    names = [x, h, c, *CELL]

    def part(k):
        activation = np.tanh if k == 2 else sigmoid
        f = lambda x, h, c, W, V, b, d: activation(np.split(W @ x + V @ h + b + d, 4)[k])  # noqa: E731
        return Of(f, *names)

    parts = {gate.format(letter): part(k) for k, letter in enumerate("ifgo")}
    states = [Of(lambda *a, k=k: formulas.recurrent.lstm_cell(*a)[k], *names) for k in (0, 1)]
    return {**cell_of(names, 4), **parts, out: states[0], new: states[1]}


def gru_step(x, h, out):
    """Return the environment of a step of a GRU, with the names that its quantities have."""
    names = [x, h, *CELL]

    def parts(x, h, W, V, b, c):
        a, s = np.split(W @ x + b, 3), np.split(V @ h + c, 3)
        r, z = sigmoid(a[0] + s[0]), sigmoid(a[1] + s[1])
        return np.stack([z, np.tanh(a[2] + r * s[2])])

    z, n = (Of(lambda *a, k=k: parts(*a)[k], *names) for k in (0, 1))
    return mapped(formulas.recurrent.gru_cell, cell_of(names, 3), out, z=z, n=n)


@reads(r"\dd y = \sigma(g)\, \dd x + x\, \sigma(g)\, \sigma(-g)\, \dd g .")
def gated():
    return elementwise(formulas.activations.glu, {"x": X, "g": G}, **{r"\sigma": sigmoid})


@reads(
    r"\dd s_i = \sum_j J_{ij}\, \dd x_j = s_i \Bigl( \dd x_i - \sum_j s_j\, \dd x_j \Bigr) .",
    r"\dd \ell_i = \dd x_i - \sum_j s_j\, \dd x_j .",
    r"\dd f = \sum_i s_i\, \dd x_i .",
)
def softmax_and_its_relatives():
    forms = formulas.activations
    given = {"x": X, "J": forms.softmax_jacobian(X), r"\ell": Of(forms.log_softmax, "x")}
    return {**given, "s": Of(forms.softmax, "x"), "f": Of(forms.logsumexp, "x")}


@reads(r"\dd s_{ij} = (1 - t_{ij}^2)\, c\, (\vec k_j \cdot \dd \vec q_i + \vec q_i \cdot \dd \vec…")
def capped_scores():
    q, k, B = draw((2, 4), (3, 4), (2, 3))
    t = Of(lambda q, k: np.tanh(0.7 * q @ k.T / 1.5), "q", "k")
    f = lambda q, k, B: formulas.attention.attention_scores(q, k, bias=B, scale=0.7, softcap=1.5)  # noqa: E731
    return mapped(f, {"q": q, "k": k, "B": B}, "s", t=t, c=0.7)


@reads(r"\dd \vec o_i = \frac{\dd \vec n_i - \vec o_i\, \dd z_i}{z_i} .")
def quotient_of_linear_attention():
    q, k, v = (np.abs(a) + 1 for a in draw((3, 2), (4, 2), (4, 3)))
    f = functools.partial(formulas.attention.linear_attention, feature_map="identity")
    z = Of(lambda q, k: np.sum(q @ k.T, axis=1), "q", "k")
    n = Of(lambda q, k, v: q @ k.T @ v, "q", "k", "v")
    return mapped(f, {"q": q, "k": k, "v": v}, "o", z=z, n=n)


@reads(r"\dd \vec r_i = \mat W^\top \dd \vec q_i + \dd \mat W^\top \vec q_i .")
def projected_query():
    W, q = draw((4, 3), (2, 4))
    return mapped(lambda W, q: q @ W, {"W": W, "q": q}, "r")


@reads(r"\dd \vec o_i = \sum_j (p_{ij}\, \dd \vec v_j + \vec v_j\, \dd p_{ij}) …")
def weighted_mean_of_values():
    q, k, v = draw((2, 4), (3, 4), (3, 5))
    s = Of(formulas.attention.attention_scores, "q", "k")
    p = Of(formulas.activations.softmax, "s")
    f = formulas.attention.attention
    return mapped(f, {"q": q, "k": k, "v": v}, "o", s=s, p=p)


@reads(r"\dd y_j = \frac{\dd w_j - y_j\, \dd x_j}{x_j} .")
def quotient():
    return mapped(formulas.calculus.divide, {"w": X, "x": G})


@reads(r"\dd y = \sum_j (x_j\, \dd w_j + w_j\, \dd x_j) .")
def differential_of_dot():
    return mapped(formulas.calculus.dot, {"w": X, "x": G})


@reads(r"\dd y_i = x_i\, \dd w_i + w_i\, \dd x_i .")
def differential_of_multiply():
    return mapped(formulas.calculus.multiply, {"w": X, "x": G})


@reads(
    r"\dd \mat A\, \mat Y + \mat A\, \dd \mat Y = 0 \quad\Rightarrow\quad \dd \mat Y…",
    r"\dd y = \sum_{kl} (\mat A^{-1})_{lk}\, \dd A_{kl}…",
)
def inverse_and_determinant():
    (A,) = draw((3, 3))
    A = A * np.sign(np.linalg.det(A))
    return {"A": A, "Y": Of(np.linalg.inv, "A"), "y": Of(formulas.calculus.logdet, "A")}


@reads(r"\dd \mat Y = \dd \mat A\, \mat B + \mat A\, \dd \mat B .")
def product_of_matrices():
    A, B = draw((2, 3), (3, 4))
    return mapped(formulas.calculus.matmul, {"A": A, "B": B}, "Y")


@reads(r"\dd y_k = \frac{1}{y_k} \sum_j x_{kj}\, \dd x_{kj} .")
def norm_of_a_slice():
    (x,) = draw((3, 4))
    return mapped(functools.partial(formulas.calculus.norm, axis=1), {"x": x})


@reads(r"\dd y = \dd \vec x^\top \mat A\, \vec x + \vec x^\top \dd \mat A\, \vec x + \vec x^\top…")
def quadratic_form():
    x, A = draw((3,), (3, 3))
    return mapped(formulas.calculus.quadratic_form, {"x": x, "A": A})


@reads(r"\dd y_{o t} = \sum_c \sum_k \bigl( W_{o c k}\, \dd x_{c,\, s t + d k - p} +…")
def convolution_of_a_row():
    x, W, b = draw((2, 9), (3, 2, 3), (3,))
    options = {"stride": 2, "padding": 1, "dilation": 2}
    f = functools.partial(formulas.convolution.conv, **options)
    y = Of(lambda x, W, b: f(x[None], W, b)[0], "x", "W", "b")
    return {"x": From(0, x, outside=0), "W": W, "b": b, "y": y, "s": 2, "d": 2, "p": 1}


@reads(r"\dd \ell = 2\, (p - t)\, (\dd p - \dd t) .")
def square():
    f = functools.partial(formulas.losses.squared_error, reduction="none")
    return elementwise(f, {"p": X, "t": G}, r"\ell")


@reads(r"\dd Y_{ni} = \sum_j (W_{ij}\, \dd X_{nj} + X_{nj}\, \dd W_{ij}) + \dd b_i .")
def differential_of_a_layer():
    X, W, b = draw((3, 4), (2, 4), (2,))
    return mapped(formulas.neurons.linear, {"X": X, "W": W, "b": b}, "Y")


@reads(r"\dd a_n = f'(z_n)\, (\vec w \cdot \dd \vec x_n + \vec x_n \cdot \dd \vec w + \dd b) .")
def differential_of_a_neuron():
    x, w = draw((3, 4), (4,))
    f = functools.partial(formulas.neurons.neuron, activation="tanh")
    return mapped(f, {"x": x, "w": w, "b": 0.3}, "a", z=x @ w + 0.3, f=np.tanh)


@reads(r"\dd \vec y = \mat W\, \dd \vec x + s\, (\dd \mat B\, \mat A \vec x + \mat B\, \dd \mat…")
def correction_of_low_rank():
    x, A, B, W = draw((4,), (2, 4), (3, 2), (3, 4))
    f = lambda x, A, B: formulas.neurons.lora_linear(x[None], W, A, B, scale=0.6)[0]  # noqa: E731
    return mapped(f, {"x": x, "A": A, "B": B}, W=W, s=0.6)


@reads(r"\dd \vec z_l = \mat W_l\, \dd \vec h_{l-1} + \dd \mat W_l\, \vec h_{l-1} + \dd \vec b_l …")
def differentials_of_a_layer():
    h, W, b = draw((3,), (4, 3), (4,))
    m = np.array([0.0, 2.0, 2.0, 2.0])
    z = Of(lambda h, W, b: W @ h + b, "h_{l-1}", "W_l", "b_l")
    inputs = {"h_{l-1}": h, "W_l": W, "b_l": b, "m_l": m, r"\phi": np.tanh}
    return {**inputs, "z_l": z, "h_l": Of(lambda z: m * np.tanh(z), "z_l")}


@reads(r"\dd \vec a &= \mat W_1\, \dd \vec x + \dd \mat W_1\, \vec x + \dd \vec b_1 …")
def differentials_of_two_layers():
    x, *weights = draw((3,), (4, 3), (4,), (3, 4), (3,))
    names = ["W_1", "b_1", "W_2", "b_2"]

    def y(x, w1, b1, w2, b2):
        params = transformer.FeedForwardParams(w1=w1, b1=b1, w2=w2, b2=b2)
        return formulas.transformer.feed_forward(x[None], params, activation="tanh")[0]

    a = Of(lambda x, W, b: W @ x + b, "x", "W_1", "b_1")
    inner = {"a": a, "h": Of(np.tanh, "a"), "f": np.tanh}
    return {"x": x, **dict(zip(names, weights, strict=True)), **inner, "y": Of(y, "x", *names)}


@reads(r"\dd \hat x_n = \frac1\tau \bigl( \dd x_n - \dd \mu \bigr) - \frac{\hat x_n}{2 \tau^2}\,…")
def a_channel_of_batch_norm():
    (x,) = draw((5,))
    f = lambda x, w, b: formulas.normalization.batch_norm(x[:, None], w, b, eps=0.1)[:, 0]  # noqa: E731
    hat = Of(lambda x: f(x, 1.0, 0.0), "x")
    more = {r"\mu": Of(np.mean, "x"), r"\tau": np.sqrt(x.var() + 0.1)}
    variance = Of(lambda x: np.mean((x - np.mean(x)) ** 2), "x")
    return mapped(
        f, {"x": x, "w": 1.3, "b": 0.2}, **{r"\sigma^2": variance, r"\hat x": hat, **more}
    )


@reads(r"\dd \hat x_{pc} = \frac1\tau \bigl( \dd x_{pc} - \overline{\dd x} - \hat x_{pc} \,…")
def a_group_of_group_norm():
    x, w, b = draw((5, 2), (2,), (2,))
    f = lambda x, w, b: formulas.normalization.group_norm(x[None], 1, w, b, eps=0.1)[0]  # noqa: E731
    hat = Of(lambda x: f(x, np.ones(2), np.zeros(2)), "x")
    more = {r"\hat x": hat, r"\tau": np.sqrt(x.var() + 0.1)}
    return mapped(f, {"x": x, "w": w, "b": b}, **more)


@reads(r"\dd y = (\mat R_r \vec k) \cdot \dd \vec q + (\mat R_r^\top \vec q) \cdot \dd \vec k .")
def score_of_a_rotated_key():
    q, k = draw((4,), (4,))
    theta = np.array([1.0, 0.2])
    f = lambda q, k: formulas.positions.rope_score(q, k, np.float64(3), theta)  # noqa: E731
    return mapped(f, {"q": q, "k": k}, R_r=positions.rope_matrix(3.0, theta))


@reads(r"\dd \vec h' = \phi'(\vec z) \odot \bigl( \mat W_{ih}\, \dd \vec x + \mat W_{hh}\, \dd…")
def differential_of_an_rnn_cell():
    names = ["x", "h", "W_{ih}", "W_{hh}", "b"]
    z = Of(lambda x, h, W, V, b: W @ x + V @ h + b, *names)
    f = formulas.recurrent.rnn_cell
    return mapped(f, cell_of(names, 1), "h'", z=z, **{r"\phi": np.tanh})


@reads(r"\dd \vec z_t = \mat W_{ih}\, \dd \vec x_t + \dd \mat W_{ih}\, \vec x_t + \mat W_{hh}\,…")
def differential_before_an_rnn_state():
    names = ["x_t", "h_{t-1}", "W_{ih}", "W_{hh}", "b_{ih}", "b_{hh}"]
    f = lambda x, h, W, V, b, c: W @ x + V @ h + b + c  # noqa: E731
    return mapped(f, cell_of(names, 1), "z_t")


@reads(r"\dd \vec c' &= \vec f \odot \dd \vec c + \vec c \odot \dd \vec f + \vec g \odot \dd \vec…")
def step_of_an_lstm():
    return lstm_step("x", "h", "c", "{}", "c'", "h'")


@reads(r"\dd \vec c_t &= \vec f_t \odot \dd \vec c_{t-1} + \vec c_{t-1} \odot \dd \vec f_t + \vec…")
def step_of_an_lstm_sequence():
    return lstm_step("x_t", "h_{t-1}", "c_{t-1}", "{}_t", "c_t", "h_t")


@reads(r"\dd \vec h' = \vec z \odot \dd \vec h + (1 - \vec z) \odot \dd \vec n + (\vec h - \vec…")
def step_of_a_gru():
    return gru_step("x", "h", "h'")


@reads(r"\dd \vec h_t = \vec z \odot \dd \vec h_{t-1} + (1 - \vec z) \odot \dd \vec n + (\vec…")
def step_of_a_gru_sequence():
    return gru_step("x_t", "h_{t-1}", "h_t")
