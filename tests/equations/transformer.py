"""The displayed equations of dlref.transformer."""

import dataclasses

import numpy as np
from equations.ledger import definition, equation
from equations.numeric import gradients, jacobian_of, rate

from dlref.attention import AttentionParams
from dlref.recurrent import rnn
from dlref.transformer import (
    DecoderBlockParams,
    EncoderBlockParams,
    EncoderDecoderParams,
    FeedForwardParams,
    GatedFeedForwardParams,
    LanguageModelConfig,
    LanguageModelParams,
    NormParams,
    SequenceClassifierParams,
    encoder,
    encoder_block,
    encoder_decoder_model,
    feed_forward,
    gated_feed_forward,
    init_language_model,
    language_model,
    language_model_loss,
    parameter_counts,
    sequence_classifier,
)

RNG = np.random.default_rng(0)
T, D, F, HEADS, VOCABULARY, EPS = 3, 4, 5, 2, 7, 1e-5
X, U = RNG.normal(size=(2, T, D))


def silu(x):
    return x / (1 + np.exp(-x))


def silu_slope(x):
    return np.imag(silu(x + 1e-30j)) / 1e-30


def softmax(scores):
    e = np.exp(scores)
    return e / e.sum(-1, keepdims=True)


def normalize(x, p):
    centered = x - x.mean(-1, keepdims=True)
    tau = np.sqrt((centered**2).mean(-1, keepdims=True) + EPS)
    return p.weight * centered / tau + p.bias


def attend(x, memory, p, causal=False):
    """Return what each position gathers from a memory, head by head."""
    q, k, v = x @ p.w_q.T + p.b_q, memory @ p.w_k.T + p.b_k, memory @ p.w_v.T + p.b_v
    heads = []
    for q_h, k_h, v_h in zip(*(np.split(z, HEADS, axis=1) for z in (q, k, v)), strict=True):
        scores = q_h @ k_h.T / np.sqrt(q_h.shape[1])
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        heads.append(softmax(scores) @ v_h)
    return np.concatenate(heads, axis=1) @ p.w_o.T + p.b_o


def network(x, p):
    return silu(x @ p.w1.T + p.b1) @ p.w2.T + p.b2


def block(x, p, causal=False, norm_first=True):
    """Return what an encoder block makes of its input."""

    def a(x):
        return attend(x, x, p.attention, causal)

    if norm_first:
        y = x + a(normalize(x, p.norm1))
        return y + network(normalize(y, p.norm2), p.feed_forward)
    y = normalize(x + a(x), p.norm1)
    return normalize(y + network(y, p.feed_forward), p.norm2)


def new_norm():
    return NormParams(*RNG.normal(size=(2, D)))


def new_attention():
    return AttentionParams(*RNG.normal(size=(4, D, D)), *RNG.normal(size=(4, D)))


def new_network():
    shapes = (F, D), F, (D, F), D
    return FeedForwardParams(*(RNG.normal(size=shape) for shape in shapes))


def new_block():
    return EncoderBlockParams(new_attention(), new_norm(), new_network(), new_norm())


BLOCKS, NORM = [new_block(), new_block()], new_norm()


@definition(
    r"\text{post-norm: } & \quad \mat Y = \operatorname{norm}_1(\mat X + A(\mat X)), & \quad "
    r"\mat Z &= \operatorname{norm}_2(\mat Y + N(\mat Y)), \\ \text{pre-norm: } & \quad \mat Y "
    r"= \mat X + A(\operatorname{norm}_1(\mat X)), & \quad \mat Z &= \mat Y + "
    r"N(\operatorname{norm}_2(\mat Y)).",
)
def both_orders_of_a_block():
    p = BLOCKS[0]
    options = {"num_heads": HEADS, "activation": "silu", "eps": EPS}
    for norm_first in False, True:
        computed = encoder_block(X, p, norm_first=norm_first, **options)
        yield block(X, p, norm_first=norm_first), computed


@equation(
    r"\pdv{L}{\mat Y} = \mat U + J_{norm}^\top J_f^\top \mat U :",
    r"\pdv{L}{\mat Y} = \mat V + J_f^\top \mat V , \qquad \mat V = J_{norm}^\top \mat U .",
)
def gradients_of_sublayers_by_complex_step():
    y, u, norm, p = X[0], U[0], NORM, new_network()

    def transposed(function, at):
        return jacobian_of(function, at).T

    def f(x):
        return network(x, p)

    def normed(x):
        return normalize(x, norm)

    before = gradients(lambda y: np.sum(u * (y + f(normed(y)))), y)[0]
    yield before, u + transposed(normed, y) @ transposed(f, normed(y)) @ u
    after = gradients(lambda y: np.sum(u * normed(y + f(y))), y)[0]
    v = transposed(normed, y + f(y)) @ u
    yield after, v + transposed(f, y) @ v


def leaves(tree):
    """Return the arrays of nested tuples."""
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in leaves(part)]
    return [] if tree is None else [tree]


@definition(
    r"\text{embedding} &= V D , & \text{positions} &= P D , \\ \text{attention} &= L \bigl( 2 "
    r"D^2 + 2 D H_k E + [\, 2 D + 2 H_k E \,] \bigr) , \\ \text{feed-forward} &= L \bigl( 2 D "
    r"F + [\, F + D \,] \bigr) \quad \text{or, gated,} \quad 3 L D F , \\ \text{norms} &= (2 L "
    r"+ 1)\, D \, [\, \cdot\, 2 \,] , & \text{head} &= V D \text{ or } 0 ,",
)
def number_of_parameters_of_each_kind():
    for biases, norm, gated, tied in (
        (True, "layer", False, True),
        (False, "layer", True, False),
        (False, "rms", False, True),
    ):
        v, d, heads, h_k, layers, f, p = 11, 12, 6, 3, 2, 10, 9
        e, both = d // heads, 2 if biases else 1
        config = LanguageModelConfig(
            v,
            d,
            heads,
            kv_heads=h_k,
            layers=layers,
            hidden=f,
            length=p,
            norm=norm,
            activation="swiglu" if gated else "gelu",
            biases=biases,
            tied=tied,
        )
        attention = layers * (2 * d**2 + 2 * d * h_k * e + biases * (2 * d + 2 * h_k * e))
        feed = 3 * layers * d * f if gated else layers * (2 * d * f + biases * (f + d))
        norms = (2 * layers + 1) * d * both
        formula = [v * d, p * d, attention, feed, norms, 0 if tied else v * d]
        params = init_language_model(np.random.default_rng(0), config)
        blocks = params.blocks
        kinds = (
            params.embedding,
            params.positions,
            tuple(b.attention for b in blocks),
            tuple(b.feed_forward for b in blocks),
            (*(b.norm1 for b in blocks), *(b.norm2 for b in blocks), params.norm),
            params.head,
        )
        sizes = [sum(leaf.size for leaf in leaves(kind)) for kind in kinds]
        counts = parameter_counts(config)
        names = "embedding", "positions", "attention", "feed_forward", "norms", "head"
        yield formula, sizes, [getattr(counts, name) for name in names]


CONFIG = LanguageModelConfig(
    VOCABULARY, D, HEADS, layers=2, hidden=F, length=6, activation="silu", eps=EPS, tied=False
)
EMBEDDING, HEAD = RNG.normal(size=(2, VOCABULARY, D))
PLACES, SOURCE_PLACES = RNG.normal(size=(2, 6, D))
TOKENS, SOURCE = np.array([4, 0, 6, 3]), np.array([2, 5, 1])


@definition(
    r"\mat H = \operatorname{encoder}(\vec c, \vec e_1, \dots, \vec e_T) , \qquad "
    r"\text{logits} = \mat W \vec h_0 + \vec b",
)
def classes_from_the_first_output():
    token, w, b = RNG.normal(size=D), RNG.normal(size=(5, D)), RNG.normal(size=5)
    params = SequenceClassifierParams(token, EMBEDDING, PLACES, tuple(BLOCKS), NORM, w, b)
    x = np.array([token, *EMBEDDING[TOKENS]]) + PLACES[:5]
    h = normalize(block(block(x, BLOCKS[0]), BLOCKS[1]), NORM)
    yield w @ h[0] + b, sequence_classifier(TOKENS, params, CONFIG)


@definition(
    r"\mat M = \operatorname{encoder}(\text{source}) , \qquad \mat H = "
    r"\operatorname{decoder}(\text{target}, \mat M) , \qquad \text{logits} = \mat H \mat "
    r"W^\top",
)
def one_text_given_another():
    decoder = tuple(
        DecoderBlockParams(
            new_attention(), new_norm(), new_attention(), new_norm(), new_network(), new_norm()
        )
        for _ in range(2)
    )
    other = new_norm()
    params = EncoderDecoderParams(
        EMBEDDING, SOURCE_PLACES, PLACES, tuple(BLOCKS), NORM, decoder, other, HEAD
    )
    memory = EMBEDDING[SOURCE] + SOURCE_PLACES[: len(SOURCE)]
    for p in BLOCKS:
        memory = block(memory, p)
    memory = normalize(memory, NORM)
    h = EMBEDDING[TOKENS] + PLACES[: len(TOKENS)]
    for p in decoder:
        z = normalize(h, p.norm1)
        h = h + attend(z, z, p.self_attention, causal=True)
        h = h + attend(normalize(h, p.norm2), memory, p.cross_attention)
        h = h + network(normalize(h, p.norm3), p.feed_forward)
    h = normalize(h, other)
    yield h @ HEAD.T, encoder_decoder_model(SOURCE, TOKENS, params, CONFIG)
    tied, config = params._replace(head=None), dataclasses.replace(CONFIG, tied=True)
    yield h @ EMBEDDING.T, encoder_decoder_model(SOURCE, TOKENS, tied, config)


@definition(
    r"\vec y = \mat W_2 \, f(\mat W_1 \vec x + \vec b_1) + \vec b_2",
    r"\vec y = \vec b_2 + \sum_i f(\vec k_i \cdot \vec x + b_{1i}) \, \vec v_i",
)
def network_as_layers_and_as_a_memory():
    p = new_network()
    layers = [p.w2 @ silu(p.w1 @ x + p.b1) + p.b2 for x in X]
    keys, values = p.w1, p.w2.T
    memory = [p.b2 + sum(silu(keys[i] @ x + p.b1[i]) * values[i] for i in range(F)) for x in X]
    yield layers, memory, feed_forward(X, p, activation="silu")


@equation(
    r"\pdv{L}{\mat W_2} &= \sum \vec u \vec h^\top , & \pdv{L}{\vec b_2} &= \sum \vec u , & "
    r"\pdv{L}{\vec h} &= \mat W_2^\top \vec u , \\ \vec g = \pdv{L}{\vec a} &= f'(\vec a) "
    r"\odot \pdv{L}{\vec h} , \\ \pdv{L}{\mat W_1} &= \sum \vec g \vec x^\top , & \pdv{L}{\vec "
    r"b_1} &= \sum \vec g , & \pdv{L}{\vec x} &= \mat W_1^\top \vec g ,",
)
def network_gradients_by_complex_step():
    w1, b1, w2, b2 = p = new_network()
    dx, dw1, db1, dw2, db2 = gradients(
        lambda x, *p: np.sum(U * network(x, FeedForwardParams(*p))), X, *p
    )
    a = X @ w1.T + b1
    h = silu(a)
    yield dw2, sum(np.outer(U[t], h[t]) for t in range(T))
    yield db2, sum(U)
    dh = np.array([w2.T @ u for u in U])
    yield gradients(lambda h: np.sum(U * (h @ w2.T + b2)), h)[0], dh
    g = silu_slope(a) * dh
    yield gradients(lambda a: np.sum(U * (silu(a) @ w2.T + b2)), a)[0], g
    yield dw1, sum(np.outer(g[t], X[t]) for t in range(T))
    yield db1, sum(g)
    yield dx, np.array([w1.T @ g[t] for t in range(T)])


@equation(
    r"\dot{\vec a} = \dot{\mat W}_1 \vec x + \mat W_1 \dot{\vec x} + \dot{\vec b}_1 , \qquad "
    r"\dot{\vec y} = \dot{\mat W}_2 f(\vec a) + \mat W_2 \bigl( f'(\vec a) \odot \dot{\vec a} "
    r"\bigr) + \dot{\vec b}_2 .",
)
def network_tangents_by_complex_step():
    w1, b1, w2, _ = p = new_network()
    dx, dw1, db1, dw2, db2 = tangents = [RNG.normal(size=z.shape) for z in (X, *p)]
    a = X @ w1.T + b1
    da = np.array([dw1 @ X[t] + w1 @ dx[t] + db1 for t in range(T)])
    yield rate(lambda x, w, b: x @ w.T + b, (X, w1, b1), (dx, dw1, db1)), da
    slope = silu_slope(a) * da
    dy = np.array([dw2 @ silu(a[t]) + w2 @ slope[t] + db2 for t in range(T)])
    yield rate(lambda x, *p: network(x, FeedForwardParams(*p)), (X, *p), tangents), dy


GATED = GatedFeedForwardParams(*RNG.normal(size=(2, F, D)), RNG.normal(size=(D, F)))


def gated(x, w_gate, w_up, w_down):
    return (silu(x @ w_gate.T) * (x @ w_up.T)) @ w_down.T


@definition(
    r"\vec y = \mat W_{down} \bigl( f(\mat W_{gate} \vec x) \odot \mat W_{up} \vec x \bigr)",
)
def network_with_a_gate():
    w_gate, w_up, w_down = GATED
    y = [w_down @ (silu(w_gate @ x) * (w_up @ x)) for x in X]
    yield y, gated_feed_forward(X, GATED, activation="silu")


@equation(
    r"\pdv{L}{\vec p} = \vec g \odot f(\vec a) , \qquad \pdv{L}{\vec a} = \vec g \odot \vec p "
    r"\odot f'(\vec a) , \qquad \pdv{L}{\vec x} = \mat W_{up}^\top \pdv{L}{\vec p} + \mat "
    r"W_{gate}^\top \pdv{L}{\vec a} ,",
)
def gate_gradients_by_complex_step():
    w_gate, w_up, w_down = GATED
    a, p, g = X @ w_gate.T, X @ w_up.T, U @ w_down
    da, dp = gradients(lambda a, p: np.sum(U * ((silu(a) * p) @ w_down.T)), a, p)
    yield dp, g * silu(a)
    yield da, g * p * silu_slope(a)
    dx = gradients(lambda x: np.sum(U * gated(x, *GATED)), X)[0]
    yield dx, np.array([w_up.T @ dp[t] + w_gate.T @ da[t] for t in range(T)])


@equation(
    r"\dot{\vec h} = f'(\vec a) \odot \dot{\vec a} \odot \vec p + f(\vec a) \odot \dot{\vec p} "
    r", \qquad \dot{\vec y} = \dot{\mat W}_{down} \vec h + \mat W_{down} \dot{\vec h} ,",
)
def gate_tangents_by_complex_step():
    w_gate, w_up, w_down = GATED
    dx, dw_gate, dw_up, dw_down = tangents = [RNG.normal(size=z.shape) for z in (X, *GATED)]
    a, p = X @ w_gate.T, X @ w_up.T
    da, dp = X @ dw_gate.T + dx @ w_gate.T, X @ dw_up.T + dx @ w_up.T
    dh = silu_slope(a) * da * p + silu(a) * dp
    yield rate(lambda a, p: silu(a) * p, (a, p), (da, dp)), dh
    dy = np.array([dw_down @ (silu(a[t]) * p[t]) + w_down @ dh[t] for t in range(T)])
    yield rate(gated, (X, *GATED), tangents), dy


MODEL = LanguageModelParams(EMBEDDING, PLACES, tuple(BLOCKS), NORM, HEAD)


def logits_of(tokens):
    x = np.array([EMBEDDING[token] + PLACES[t] for t, token in enumerate(tokens)])
    h = normalize(block(block(x, BLOCKS[0], causal=True), BLOCKS[1], causal=True), NORM)
    return h @ HEAD.T


@definition(
    r"\vec x_t = \vec e_t + \vec p_t , \qquad \mat H = \operatorname{norm}(B_L(\cdots B_1(\mat "
    r"X))) , \qquad \text{logits} = \mat H \mat W^\top ,",
)
def logits_of_the_next_token():
    yield logits_of(TOKENS), language_model(TOKENS, MODEL, CONFIG)


@definition(
    r"L = - \frac1N \sum_t \log p(\text{token}_{t+1} \mid \text{token}_1, \dots, "
    r"\text{token}_t)",
)
def mean_of_the_negative_logarithms():
    n = len(TOKENS) - 1  # predictions, each from the text up to there
    probability = [softmax(logits_of(TOKENS[: t + 1])[-1])[TOKENS[t + 1]] for t in range(n)]
    yield -sum(np.log(p) for p in probability) / n, language_model_loss(TOKENS, MODEL, CONFIG)


@definition(
    r"\operatorname{encoder} = \operatorname{norm} \circ B_L \circ \dots \circ B_1",
)
def stack_of_blocks_and_a_norm():
    y = X
    for p in BLOCKS:
        y = block(y, p)
    options = {"num_heads": HEADS, "norm_first": True, "activation": "silu", "eps": EPS}
    yield normalize(y, NORM), encoder(X, tuple(BLOCKS), NORM, **options)


@definition(r"\vec h_t = \phi(\mat W_x \vec x_t + \mat W_h \vec h_{t-1} + \vec b) .")
def states_of_a_recurrent_network():
    w_x, w_h, b, h = *RNG.normal(size=(2, D, D)), *RNG.normal(size=(2, D))
    states = [h]
    for x in X:
        states.append(np.tanh(w_x @ x + w_h @ states[-1] + b))
    yield states[1:], rnn(X, h, w_x, w_h, b)
