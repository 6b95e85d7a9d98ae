"""The displayed equations of dlref.transformer."""

import dataclasses
import functools

import numpy as np
from equations.evaluate import From, Of
from equations.ledger import equation, reads
from equations.numeric import gradients, jacobian_of, rate

from dlref.attention import AttentionParams
from dlref.formulas.activations import silu, softmax
from dlref.formulas.losses import cross_entropy
from dlref.positions import alibi_bias, alibi_slopes, t5_bias
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
    beam_search,
    decoder,
    decoder_block,
    dropout_mask,
    encoder,
    encoder_block,
    encoder_decoder_generate,
    encoder_decoder_model,
    encoder_decoder_model_loss,
    encoder_decoder_weights,
    feed_forward,
    gated_feed_forward,
    generate,
    init_language_model,
    language_model,
    language_model_loss,
    language_model_trace,
    multiplication_counts,
    next_token_probabilities,
    parameter_counts,
    sequence_classifier,
    sequence_classifier_loss,
)

RNG = np.random.default_rng(0)
T, D, F, HEADS, VOCABULARY, EPS = 3, 4, 5, 2, 7, 1e-5
X, U = RNG.normal(size=(2, T, D))


def normalize(x, p):
    centered = x - x.mean(axis=x.ndim - 1, keepdims=True)
    tau = np.sqrt((centered**2).mean(axis=x.ndim - 1, keepdims=True) + EPS)
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


@reads(r"\text{post-norm: } & \quad \mat Y = \operatorname{norm}_1(\mat X + A(\mat X)), &…")
def both_orders_of_a_block():
    p = BLOCKS[0]
    options = {"num_heads": HEADS, "activation": "silu", "eps": EPS}
    parts = {
        "A": lambda x: attend(x, x, p.attention),
        "N": lambda x: network(x, p.feed_forward),
        "norm_1": functools.partial(normalize, p=p.norm1),
        "norm_2": functools.partial(normalize, p=p.norm2),
        "X": X,
    }
    return [
        {**parts, "Z": encoder_block(X, p, norm_first=first, **options), "branch": branch}
        for first, branch in ((True, "pre-norm"), (False, "post-norm"))
    ]


def normed(x):
    return normalize(x, NORM)


@reads(r"\pdv{L}{\mat Y} = \mat U + J_{norm}^\top J_f^\top \mat U :")
def gradient_of_a_sublayer_behind_its_norm():
    y, f, norm = X[0], functools.partial(network, p=new_network()), normed
    given = {r"J_{norm}": jacobian_of(norm, y), "J_f": jacobian_of(f, norm(y)), "U": U[0]}
    return {**given, r"\pdv{L}{Y}": gradients(lambda y: np.sum(U[0] * (y + f(norm(y)))), y)[0]}


@reads(r"\pdv{L}{\mat Y} = \mat V + J_f^\top \mat V , \qquad \mat V = J_{norm}^\top \mat U .")
def gradient_of_a_sublayer_before_its_norm():
    y, f, norm = X[0], functools.partial(network, p=new_network()), normed
    given = {r"J_{norm}": jacobian_of(norm, y + f(y)), "J_f": jacobian_of(f, y), "U": U[0]}
    return {**given, r"\pdv{L}{Y}": gradients(lambda y: np.sum(U[0] * norm(y + f(y))), y)[0]}


def leaves(tree):
    """Return the arrays of nested tuples."""
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in leaves(part)]
    return [] if tree is None else [tree]


@equation(
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
        (True, "rms", False, True),
    ):
        v, d, heads, h_k, layers, f, p = 11, 12, 6, 3, 2, 10, 9
        e, both = d // heads, 2 if biases and norm == "layer" else 1
        config = LanguageModelConfig(
            v,
            d,
            heads,
            num_kv_heads=h_k,
            num_layers=layers,
            d_ff=f,
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
    VOCABULARY, D, HEADS, num_layers=2, d_ff=F, length=6, activation="silu", eps=EPS, tied=False
)
EMBEDDING, HEAD = RNG.normal(size=(2, VOCABULARY, D))
PLACES, SOURCE_PLACES = RNG.normal(size=(2, 6, D))
TOKENS, SOURCE = np.array([4, 0, 6, 3]), np.array([2, 5, 1])


@equation(
    r"\mat H = \operatorname{encoder}(\vec c, \vec e_1, \dots, \vec e_T) , \qquad "
    r"\text{logits} = \mat W \vec h_0 + \vec b",
)
def classes_from_the_first_output():
    token, w, b = RNG.normal(size=D), RNG.normal(size=(5, D)), RNG.normal(size=5)
    params = SequenceClassifierParams(token, EMBEDDING, PLACES, tuple(BLOCKS), NORM, w, b)
    x = np.array([token, *EMBEDDING[TOKENS]]) + PLACES[:5]
    h = normalize(block(block(x, BLOCKS[0]), BLOCKS[1]), NORM)
    yield w @ h[0] + b, sequence_classifier(TOKENS, params, CONFIG)


@equation(
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


@reads(
    r"\vec y = \mat W_2 \, f(\mat W_1 \vec x + \vec b_1) + \vec b_2",
    r"\vec y = \vec b_2 + \sum_i f(\vec k_i \cdot \vec x + b_{1i}) \, \vec v_i",
)
def network_as_layers_and_as_a_memory():
    p = new_network()
    layers = {"W_1": p.w1, "b_1": p.b1, "W_2": p.w2, "b_2": p.b2, "f": silu, "b": p.b1}
    y = feed_forward(X, p, activation="silu")
    return [{**layers, "k": p.w1, "v": p.w2.T, "x": X[t], "y": y[t]} for t in range(T)]


def of_network(x):
    """Return the environment of the network at one position."""
    p, u = new_network(), U[0]
    given = {"x": x, "W_1": p.w1, "b_1": p.b1, "W_2": p.w2, "b_2": p.b2, "u": u, "f": silu}
    given["a"] = Of(lambda x, w, b: w @ x + b, "x", "W_1", "b_1")
    given["h"] = Of(silu, "a")
    given["y"] = Of(lambda h, w, b: w @ h + b, "h", "W_2", "b_2")
    return {**given, "L": Of(lambda y: np.sum(u * y), "y")}


@reads(
    r"\pdv{L}{\mat W_2} &= \sum \vec u \vec h^\top , & \pdv{L}{\vec b_2}…",
    r"\dot{\vec a} = \dot{\mat W}_1 \vec x + \mat W_1 \dot{\vec x} + \dot{\vec b}_1 …",
)
def derivatives_of_a_network():
    return of_network(X[0])


GATED = GatedFeedForwardParams(
    *RNG.normal(size=(2, F, D)),
    RNG.normal(size=(D, F)),
    *RNG.normal(size=(2, F)),
    RNG.normal(size=D),
)


OF_GATED = dict(
    zip(
        ("W_{gate}", "W_{up}", "W_{down}", "b_{gate}", "b_{up}", "b_{down}"),
        GATED,
        strict=True,
    )
)


@reads(
    r"\pdv{L}{\vec p} = \vec g \odot f(\vec a) , \qquad \pdv{L}{\vec a}…",
    r"\dot{\vec h} = f'(\vec a) \odot \dot{\vec a} \odot \vec p + f(\vec a) \odot \dot{\vec p}…",
)
def of_gate():
    """Return the environment of the network with a gate at one position."""
    u, affine = U[0], lambda w, x, b: w @ x + b
    given = {"x": X[0], **OF_GATED, "f": silu, "u": u, "g": GATED.w_down.T @ u}
    given |= {"a": Of(affine, "W_{gate}", "x", "b_{gate}")}
    given |= {"p": Of(affine, "W_{up}", "x", "b_{up}"), "h": Of(lambda a, p: silu(a) * p, "a", "p")}
    given |= {"y": Of(affine, "W_{down}", "h", "b_{down}")}
    return {**given, "L": Of(lambda y: np.sum(u * y), "y")}


@reads(r"\vec y = \mat W_{down} \bigl( f(\mat W_{gate} \vec x + \vec b_{gate}) \odot (\mat W_{up}…")
def network_with_a_gate():
    y = gated_feed_forward(X, GATED, activation="silu")
    return [{"x": X[t], "y": y[t], **OF_GATED, "f": silu} for t in range(T)]


MODEL = LanguageModelParams(EMBEDDING, PLACES, tuple(BLOCKS), NORM, HEAD)


def logits_of(tokens):
    x = np.array([EMBEDDING[token] + PLACES[t] for t, token in enumerate(tokens)])
    h = normalize(block(block(x, BLOCKS[0], causal=True), BLOCKS[1], causal=True), NORM)
    return h @ HEAD.T


@equation(
    r"\vec x_t = \vec e_t + \vec p_t , \qquad \mat H = \operatorname{norm}(B_K(\cdots B_1(\mat "
    r"X))) , \qquad \text{logits} = \mat H \mat W^\top ,",
)
def logits_of_the_next_token():
    yield logits_of(TOKENS), language_model(TOKENS, MODEL, CONFIG)


@equation(r"\vec e_t = \mat P \vec c_t , \qquad \mat W = \mat C \mat Q .")
def embeddings_of_another_width():
    narrow = LanguageModelConfig(9, 8, 2, num_layers=1, embedding_dim=3)
    model = init_language_model(np.random.default_rng(0), narrow)
    table, P, Q = model.embedding, model.embedding_in, model.embedding_out
    vectors = np.array([P @ row for row in table])
    wide = LanguageModelParams(vectors, *model[1:4], table @ Q)
    plain = LanguageModelConfig(9, 8, 2, num_layers=1, tied=False)
    yield language_model([3, 1, 4], model, narrow), language_model([3, 1, 4], wide, plain)


@equation(
    r"L = - \frac1N \sum_t \log p(\text{token}_{t+1} \mid \text{token}_1, \dots, "
    r"\text{token}_t)",
)
def mean_of_the_negative_logarithms():
    n = len(TOKENS) - 1  # predictions, each from the text up to there
    probability = [softmax(logits_of(TOKENS[: t + 1])[-1])[TOKENS[t + 1]] for t in range(n)]
    yield -sum(np.log(p) for p in probability) / n, language_model_loss(TOKENS, MODEL, CONFIG)


@equation(
    r"\operatorname{encoder} = \operatorname{norm} \circ B_K \circ \dots \circ B_1",
)
def stack_of_blocks_and_a_norm():
    y = X
    for p in BLOCKS:
        y = block(y, p)
    options = {"num_heads": HEADS, "norm_first": True, "activation": "silu", "eps": EPS}
    yield normalize(y, NORM), encoder(X, tuple(BLOCKS), NORM, **options)


# Derivatives of blocks, stacks and models

DECODER = tuple(
    DecoderBlockParams(
        new_attention(), new_norm(), new_attention(), new_norm(), new_network(), new_norm()
    )
    for _ in range(2)
)
MEMORY, DMEMORY, DX = RNG.normal(size=(3, T, D))


def back(f, x, u):
    """Return the transposed Jacobian of f at x times u."""
    return gradients(lambda x: np.sum(u * f(x)), x)[0]


def along(f, x, v):
    """Return the Jacobian of f at x times v."""
    return rate(f, [x], [v])


def sublayers(p):
    """Return self-attention, cross-attention, the network and the three norms."""
    return (
        lambda x: attend(x, x, p.self_attention, causal=True),
        lambda x, memory=MEMORY: attend(x, memory, p.cross_attention),
        lambda x: network(x, p.feed_forward),
        *(lambda x, q=q: normalize(x, q) for q in (p.norm1, p.norm2, p.norm3)),
    )


def decoded(x, memory, p):
    a, c, n, norm1, norm2, norm3 = sublayers(p)
    y = x + a(norm1(x))
    z = y + c(norm2(y), memory)
    return z + n(norm3(z))


@reads(r"\text{pre-norm: } & \quad \mat Y = \mat X + A(\operatorname{norm}_1(\mat X))…")
def three_sublayers_in_both_orders():
    (a, c, n, *norms), p = sublayers(DECODER[0]), DECODER[0]
    options = {"num_heads": HEADS, "activation": "silu", "eps": EPS}
    parts = {f"norm_{k + 1}": norm for k, norm in enumerate(norms)}
    parts |= {"A": a, "C": c, "N": n, "X": X, "M": MEMORY}
    return [
        {**parts, "Z'": decoder_block(X, MEMORY, p, norm_first=first, **options), "branch": branch}
        for first, branch in ((True, "pre-norm"), (False, "post-norm"))
    ]


def flat(x):
    return np.asarray(x).ravel()


def matrix(f, x):
    """Return a Jacobian with the entries of f(x) and of x in a row each."""
    return jacobian_of(f, x).reshape(-1, np.size(x))


def of_decoder_block():
    """Return the Jacobians of the sublayers and norms of a block of the decoder."""
    a, c, n, norm1, norm2, norm3 = sublayers(DECODER[0])
    y = X + a(norm1(X))
    z = y + c(norm2(y))
    return {
        r"J_{norm_1}": matrix(norm1, X),
        "J_A": matrix(a, norm1(X)),
        r"J_{norm_2}": matrix(norm2, y),
        "J_C": matrix(c, norm2(y)),
        r"J_{norm_3}": matrix(norm3, z),
        "J_N": matrix(n, norm3(z)),
        "J_{C, M}": matrix(lambda m: c(norm2(y), m), MEMORY),
        "U": flat(U),
    }


def of_sublayer(before, after, order):
    """Return the environments of a sublayer behind its norm, and before it."""
    p = BLOCKS[0]

    def f(y):
        return network(y, p.feed_forward)

    def norm(y):
        return normalize(y, p.norm2)

    behind = along(lambda y: y + f(norm(y)), X, DX)
    in_front = along(lambda y: norm(y + f(y)), X, DX)
    pre = {r"J_{norm}": matrix(norm, X), "J_f": matrix(f, norm(X)), after: flat(behind)}
    post = {r"J_{norm}": matrix(norm, X + f(X)), "J_f": matrix(f, X), after: flat(in_front)}
    return [
        {**pre, before: flat(DX), order: "pre-norm"},
        {**post, before: flat(DX), order: "post-norm"},
    ]


@reads(r"\mat V &= \mat U + J_{norm_3}^\top J_N^\top\, \mat U, & \mat W…")
def gradients_of_a_decoder_block():
    dx, dmemory = gradients(lambda x, m: np.sum(U * decoded(x, m, DECODER[0])), X, MEMORY)
    return {**of_decoder_block(), r"\pdv{L}{X}": flat(dx), r"\pdv{L}{M}": flat(dmemory)}


@reads(r"\dot{\mat Y} = \dot{\mat X} + J_A J_{norm_1} \dot{\mat X}, \qquad \dot{\mat Z}…")
def tangents_of_a_decoder_block():
    whole = rate(lambda x, m: decoded(x, m, DECODER[0]), (X, MEMORY), (DX, DMEMORY))
    tangents = {r"\dot X": flat(DX), r"\dot M": flat(DMEMORY), r"\dot Z'": flat(whole)}
    return {**of_decoder_block(), **tangents}


@reads(r"\dot{\mat Z} = \dot{\mat Y} + J_f J_{norm} \dot{\mat Y} \quad \text{(pre-norm)}…")
def tangents_of_sublayers():
    return of_sublayer(r"\dot Y", r"\dot Z", "branch")


@equation(
    r"""\dd \mat Z = \dd \mat Y + J_f J_{norm}\, \dd \mat Y \quad \text{and} \quad
    \dd \mat Z = J_{norm} ( \dd \mat Y + J_f\, \dd \mat Y ) ."""
)
def differentials_of_sublayers():
    behind, in_front = of_sublayer("dY", "dZ", "order")
    dy, f, norm = behind["dY"], behind["J_f"], behind[r"J_{norm}"]
    yield behind["dZ"], dy + f @ norm @ dy
    f, norm = in_front["J_f"], in_front[r"J_{norm}"]
    yield in_front["dZ"], norm @ (dy + f @ dy)


@reads(r"\mat H_0 = \mat X, \qquad \mat H_k = B_k(\mat H_{k-1}, \mat M)…")
def stack_of_decoder_blocks():
    options = {"num_heads": HEADS, "norm_first": True, "activation": "silu", "eps": EPS}
    h = [X]
    for p in DECODER:
        h.append(decoder_block(h[-1], MEMORY, p, **options))
    return {
        "X": X,
        "M": MEMORY,
        "H": np.array(h),
        "K": 2,
        "k": range(1, 3),
        "B": lambda k: functools.partial(decoded, p=DECODER[k - 1]),
        "decoder": lambda x, memory: decoder(x, memory, DECODER, NORM, **options),
        "norm": functools.partial(normalize, p=NORM),
    }


def with_bias(p, bias):
    """Return a block's parameters with another bias of the network's hidden layer."""
    return p._replace(feed_forward=p.feed_forward._replace(b1=bias))


@reads(
    r"\pdv{L}{\mat H_K} = J_{norm}^\top\, \mat U, \qquad \pdv{L}{\mat H_{k-1}}…",
    r"\dot{\mat H}_k = J_{B_k} \dot{\mat H}_{k-1} + \pdv{\mat H_k}{\theta_k}\, \dot\theta_k…",
)
def derivatives_of_a_stack():
    biases, dbiases = [p.feed_forward.b1 for p in BLOCKS], RNG.normal(size=(2, F))

    def layer(k):
        """Return a block as a function of its input and of its bias."""
        return lambda x, bias: block(x, with_bias(BLOCKS[k - 1], bias))

    def rest(k, x, *biases):
        """Return the loss if the state after k blocks is x."""
        for n, bias in enumerate(biases):
            x = layer(k + 1 + n)(x, bias)
        return np.sum(U * normalize(x, NORM))

    h, dh = [X], [DX]
    for k in (1, 2):
        pair = (h[-1], biases[k - 1]), (dh[-1], dbiases[k - 1])
        h.append(layer(k)(*pair[0]))
        dh.append(rate(layer(k), *pair))
    of_h = [flat(gradients(functools.partial(rest, k), h[k], *biases[k:])[0]) for k in range(3)]
    of_theta = np.array([np.zeros(F), *gradients(lambda *b: rest(0, X, *b), *biases)])
    by_theta = np.zeros((3, 3, X.size, F))
    for k in (1, 2):
        by_theta[k, k] = matrix(lambda b, k=k: layer(k)(h[k - 1], b), biases[k - 1])
    given = {
        r"\pdv{L}{H}": np.array(of_h),
        r"\pdv{L}{\theta}": of_theta,
        "K": 2,
        "U": flat(U),
        r"\pdv{H}{\theta}": by_theta,
        r"J_{norm}": matrix(lambda x: normalize(x, NORM), h[2]),
        r"\dot H": np.array([flat(d) for d in dh]),
        r"\dot\theta": np.array([dbiases[0], *dbiases]),
    }
    return [
        {
            **given,
            "k": range(k, k + 1),
            "J_{B_k}": matrix(lambda x, k=k: layer(k)(x, biases[k - 1]), h[k - 1]),
        }
        for k in (1, 2)
    ]


@equation(
    r"""\pdv{L}{\mat H_{k-1}} = J_{B_k}^\top \pdv{L}{\mat H_k}, \qquad
    \pdv{L}{\mat M} = \sum_{k=1}^K J_{B_k, M}^\top \pdv{L}{\mat H_k},""",
    r"""\dot{\mat H}_k = J_{B_k} \dot{\mat H}_{k-1} + J_{B_k, M} \dot{\mat M}
    + \pdv{\mat H_k}{\theta_k}\, \dot\theta_k .""",
)
def derivatives_of_a_decoder():
    first, second = DECODER
    h1 = decoded(X, MEMORY, first)
    dx, dm = gradients(lambda x, m: np.sum(U * decoded(decoded(x, m, first), m, second)), X, MEMORY)
    dh1 = back(lambda h: decoded(h, MEMORY, second), h1, U)
    yield dx, back(lambda x: decoded(x, MEMORY, first), X, dh1)
    of_second = back(lambda m: decoded(h1, m, second), MEMORY, U)
    yield dm, of_second + back(lambda m: decoded(X, m, first), MEMORY, dh1)
    bias, dbias = first.feed_forward.b1, RNG.normal(size=F)
    moved = along(lambda x: decoded(x, MEMORY, first), X, DX)
    moved = moved + along(lambda m: decoded(X, m, first), MEMORY, DMEMORY)
    moved = moved + along(lambda b: decoded(X, MEMORY, with_bias(first, b)), bias, dbias)
    whole = rate(
        lambda x, m, b: decoded(x, m, with_bias(first, b)),
        (X, MEMORY, bias),
        (DX, DMEMORY, dbias),
    )
    yield whole, moved


@equation(
    r"""m = \begin{cases} 0 & \text{with probability } p, \\
    1 / (1 - p) & \text{with probability } 1 - p, \end{cases} \qquad
    \E[m\, x] = (1 - p) \cdot \frac{x}{1 - p} + p \cdot 0 = x ."""
)
def factors_of_dropout():
    p, x, n = 0.25, 1.7, 10**6
    drawn = dropout_mask(np.random.default_rng(0), n, rate=p)
    factors, counts = np.unique(drawn, return_counts=True)
    yield factors, [0, 1 / (1 - p)]
    yield abs(counts / n - [p, 1 - p]).max() < 2e-3, True  # four standard deviations
    yield (1 - p) * (1 / (1 - p) * x) + p * 0, (1 - p) * (x / (1 - p)) + p * 0, x


TRANSLATOR = EncoderDecoderParams(
    EMBEDDING, SOURCE_PLACES, PLACES, tuple(BLOCKS), NORM, DECODER, new_norm(), HEAD
)


def read_source(bias):
    """Return the memory, with a bias of the first block of the encoder."""
    x = EMBEDDING[SOURCE] + SOURCE_PLACES[: len(SOURCE)]
    return normalize(block(block(x, with_bias(BLOCKS[0], bias)), BLOCKS[1]), NORM)


def written(memory, bias, tokens=TOKENS):
    """Return the output of the decoder, with a bias of its first block."""
    h = decoded(EMBEDDING[tokens] + PLACES[: len(tokens)], memory, with_bias(DECODER[0], bias))
    return normalize(decoded(h, memory, DECODER[1]), TRANSLATOR.norm)


ENC_BIAS, DEC_BIAS = BLOCKS[0].feed_forward.b1, DECODER[0].feed_forward.b1


@equation(
    r"""L = - \frac1N \sum_t \log p(\text{target}_{t+1} \mid \text{source}, \text{target}_1,
    \dots,
    \text{target}_t)"""
)
def loss_given_a_source():
    n, memory = len(TOKENS) - 1, read_source(ENC_BIAS)
    total = 0
    for t in range(n):
        logits = written(memory, DEC_BIAS, TOKENS[: t + 1])[-1] @ HEAD.T
        total += np.log(softmax(logits)[TOKENS[t + 1]])
    yield -total / n, encoder_decoder_model_loss(SOURCE, TOKENS, TRANSLATOR, CONFIG)


@reads(
    r"\pdv{L}{\text{logits}_{tv}} = \frac1N \bigl( p_{tv} - [\, v = \text{token}_{t+1} \,] \bigr)…",
    r"\pdv{L}{\text{logits}_{tv}} = \frac1N \bigl( p_{tv} - [\, v = \text{target}_{t+1} \,]…",
)
def prediction_minus_truth():
    logits, classes = RNG.normal(size=(3, 4)), np.array([2, 0, 2])
    loss = Of(lambda z: cross_entropy(z, classes), "logits")
    given = {"logits": logits, "p": softmax(logits), "L": loss, "N": 3}
    return {**given, "token": From(1, classes), "target": From(1, classes)}


@reads(r"""\pdv{L}{\text{logits}_{nc}} = \frac1N \bigl( p_{nc} - [\, c = c_n \,] \bigr) .""")
def prediction_of_classes_minus_truth():
    logits, classes = RNG.normal(size=(3, 4)), np.array([2, 0, 2])
    loss = Of(lambda z: cross_entropy(z, classes), "logits")
    given = {"logits": logits, "p": softmax(logits), "L": loss, "N": 3}
    return [{**given, "n": range(n, n + 1), "c_n": classes[n]} for n in range(3)]


@equation(
    r"""\pdv{L}{\mat W} = \mat U^\top \mat H, \qquad \pdv{L}{\mat H} = \mat U \mat W, \qquad
    \pdv{L}{\mat M} = \Bigl( \pdv{\mat H}{\mat M} \Bigr)^\top \pdv{L}{\mat H}, \qquad
    \pdv{L}{\theta_{enc}} = \Bigl( \pdv{\mat M}{\theta_{enc}} \Bigr)^\top \pdv{L}{\mat M} .""",
    r"""\dot{\mat H} = \pdv{\mat H}{\mat M}\, \dot{\mat M} + \pdv{\mat H}{\theta}\, \dot\theta,
    \qquad
    \dot{\text{logits}} = \dot{\mat H} \mat W^\top + \mat H \dot{\mat W}^\top .""",
)
def derivatives_of_an_encoder_decoder():
    u, memory = RNG.normal(size=(len(TOKENS), VOCABULARY)), read_source(ENC_BIAS)
    h = written(memory, DEC_BIAS)

    def logits(enc, dec, w):
        return written(read_source(enc), dec) @ w.T

    of_enc, _, dw = gradients(lambda *a: np.sum(u * logits(*a)), ENC_BIAS, DEC_BIAS, HEAD)
    yield dw, u.T @ h
    dh = u @ HEAD
    yield gradients(lambda h: np.sum(u * (h @ HEAD.T)), h)[0], dh
    dmemory = back(lambda m: written(m, DEC_BIAS), memory, dh)
    yield gradients(lambda m: np.sum(u * (written(m, DEC_BIAS) @ HEAD.T)), memory)[0], dmemory
    yield of_enc, back(read_source, ENC_BIAS, dmemory)
    denc, ddec, dhead = (RNG.normal(size=a.shape) for a in (ENC_BIAS, DEC_BIAS, HEAD))
    moved = along(lambda m: written(m, DEC_BIAS), memory, along(read_source, ENC_BIAS, denc))
    moved = moved + along(lambda b: written(memory, b), DEC_BIAS, ddec)
    whole = rate(logits, (ENC_BIAS, DEC_BIAS, HEAD), (denc, ddec, dhead))
    yield whole, moved @ HEAD.T + h @ dhead.T


def weights_of(x, memory, p, causal=False, biases=(0,) * HEADS):
    """Return the weights of each head."""
    q, k = np.split(x @ p.w_q.T + p.b_q, HEADS, 1), np.split(memory @ p.w_k.T + p.b_k, HEADS, 1)
    mask = np.where(np.tri(len(x), dtype=bool), 0, -np.inf) if causal else 0
    heads = zip(q, k, biases, strict=True)
    return [softmax(a @ b.T / np.sqrt(D / HEADS) + bias + mask) for a, b, bias in heads]


@equation(
    r"""\mat P_{kh} = \operatorname{softmax} \Bigl( \frac{\mat Q_{kh} \mat K_{kh}^\top}{\sqrt E}
    \Bigr) ,"""
)
def weights_on_the_source():
    memory, h = read_source(ENC_BIAS), EMBEDDING[TOKENS] + PLACES[: len(TOKENS)]
    got = encoder_decoder_weights(SOURCE, TOKENS, TRANSLATOR, CONFIG)
    for p, weights in zip(DECODER, got, strict=True):
        a, _, _, norm1, norm2, _ = sublayers(p)
        y = h + a(norm1(h))
        yield weights_of(norm2(y), memory, p.cross_attention), weights
        h = decoded(h, memory, p)


@equation(
    r"""\mat X_k = B_k(\mat X_{k-1}), \qquad
    \mat P_{kh} = \operatorname{softmax} \Bigl( \frac{\mat Q_{kh} \mat K_{kh}^\top}{\sqrt E}
    + \mat B_h + \text{mask} \Bigr) ."""
)
def stream_and_weights_of_each_block():
    x, trace = (
        EMBEDDING[TOKENS] + PLACES[: len(TOKENS)],
        language_model_trace(TOKENS, MODEL, CONFIG),
    )
    yield x, trace.residual[0]
    for k, p in enumerate(BLOCKS):
        z = normalize(x, p.norm1)
        yield weights_of(z, z, p.attention, causal=True), trace.weights[k]
        x = block(x, p, causal=True)
        yield x, trace.residual[k + 1]
    table, n = RNG.normal(size=(32, HEADS)), len(TOKENS)
    for name, places, biases in (
        ("alibi", None, alibi_bias(alibi_slopes(HEADS), n, n)),
        ("t5", table, t5_bias(table, n, n, bidirectional=False)),
    ):
        config = dataclasses.replace(CONFIG, positions=name)
        trace = language_model_trace(TOKENS, MODEL._replace(positions=places), config)
        for x, p, weights in zip(trace.residual, BLOCKS, trace.weights, strict=False):
            z = normalize(x, p.norm1)
            yield weights_of(z, z, p.attention, causal=True, biases=biases), weights


def through(x):
    """Return the output of the blocks and of the norm."""
    return normalize(block(block(x, BLOCKS[0], causal=True), BLOCKS[1], causal=True), NORM)


def hidden(embedding, tokens=TOKENS):
    return through(embedding[tokens] + PLACES[: len(tokens)])


@reads(r"\pdv{L}{\mat W} = \sum_t \vec u_t\, \vec h_t^\top, \qquad \pdv{L}{\vec h_t}…")
def derivatives_of_the_head():
    u, h = RNG.normal(size=(len(TOKENS), VOCABULARY)), hidden(EMBEDDING)
    return {"u": u, "h": h, "W": HEAD, "L": Of(lambda h, w: np.sum(u * (h @ w.T)), "h", "W")}


@reads(r"""\pdv{L}{\vec e_v} = \sum_{t:\, \text{token}_t = v} \pdv{L}{\vec x_t},""")
def derivatives_of_embeddings():
    tokens, v = np.array([4, 0, 4, 3]), RNG.normal(size=(4, D))  # one of them twice
    of_x = back(through, EMBEDDING[tokens] + PLACES[:4], v)
    of_e = back(lambda e: hidden(e, tokens), EMBEDDING, v)
    return {r"\pdv{L}{x}": of_x, r"\pdv{L}{e}": of_e, "token": tokens, "v": range(VOCABULARY)}


@reads(r"""\dot{\text{logits}} = \dot{\mat H} \mat W^\top + \mat H \dot{\mat W}^\top .""")
def tangent_of_the_logits():
    h, w = hidden(EMBEDDING), HEAD
    return {"H": h, "W": w, "logits": Of(lambda h, w: h @ w.T, "H", "W")}


@reads(r"\text{projections} &= L (2 D^2 + 2 D H_k E), & \text{scores} &= 2 L D S…")
def multiplications_of_a_token():
    sizes = {"V": 11, "D": 12, "H_k": 3, "L": 2, "F": 10, "S": 7, "E": 2}
    rows = []
    for gated in (False, True):
        config = LanguageModelConfig(
            11, 12, 6, num_kv_heads=3, num_layers=2, d_ff=10,
            activation="swiglu" if gated else "gelu",
        )  # fmt: skip
        projections, scores, feed, head = multiplication_counts(config, context=7)
        counts = {"projections": projections, "scores": scores, "feed-forward": feed, "head": head}
        rows.append({**sizes, **counts, "branch": int(gated)})
    return rows


@equation(
    r"""p_i = \frac{e^{z_i / \tau}}{\sum_{j \in K} e^{z_j / \tau}} \; (i \in K), \qquad
    q_i = \frac{p_i}{\sum_{j \in N} p_j} \; (i \in N), \qquad
    N = \Bigl\{ (m) : \sum_{l < m} p_{(l)} < p \Bigr\} ."""
)
def top_k_and_then_top_p():
    z, tau = RNG.normal(size=9), 0.7
    for k, mass in (9, 1.0), (5, 0.8), (4, 0.3), (9, 0.6):
        kept = np.argsort(-z)[:k]
        p, q = np.zeros(9), np.zeros(9)
        p[kept] = np.exp(z[kept] / tau) / sum(np.exp(z[kept] / tau))
        order = np.argsort(-p)
        nucleus = [order[m] for m in range(k) if sum(p[order[:m]]) < mass]
        q[nucleus] = p[nucleus] / sum(p[nucleus])
        got = next_token_probabilities(z, temperature=tau, top_k=k, top_p=mass)
        yield q, got


def probabilities(tokens):
    return softmax(logits_of(tokens)[-1])


@equation(
    r"""\text{score} = \frac{1}{n^a} \sum_{t=1}^n \log p(\text{token}_{T+t} \mid \text{token}_1,
    \dots,
    \text{token}_{T+t-1}) ."""
)
def score_of_a_beam():
    n, a = 2, 0.6
    texts, scores = beam_search(TOKENS, MODEL, CONFIG, steps=n, beams=3, length_penalty=a)
    for text, score in zip(texts, scores, strict=True):
        terms = [np.log(probabilities(text[:t])[text[t]]) for t in range(len(TOKENS), len(text))]
        yield sum(terms) / n**a, score


@equation(
    r"""\text{token}_{T+1} = \min \Bigl\{ v : \sum_{w \le v} p_w > r \Bigr\}, \qquad
    r \text{ uniform in } [0, 1) ."""
)
def token_that_is_drawn():
    for seed in range(5):
        p = probabilities(TOKENS)
        r = np.random.default_rng(seed).random()
        first = min(v for v in range(VOCABULARY) if sum(p[: v + 1]) > r)
        rng = np.random.default_rng(seed)
        yield first, generate(TOKENS, MODEL, CONFIG, steps=1, rng=rng)[-1]


CLASSIFIER = SequenceClassifierParams(
    X[0], EMBEDDING, PLACES, tuple(BLOCKS), NORM, *map(np.array, (HEAD[:5], HEAD[5, :1].repeat(5)))
)


def class_output(token):
    """Return the outputs of the encoder of a text, after the class token."""
    x = np.concatenate([token[None], EMBEDDING[TOKENS]]) + PLACES[: len(TOKENS) + 1]
    return normalize(block(block(x, BLOCKS[0]), BLOCKS[1]), NORM)


@equation(r"""L = - \frac1N \sum_n \log p(c_n \mid \text{text}_n)""")
def loss_of_classes():
    p = softmax(CLASSIFIER.w_head @ class_output(X[0])[0] + CLASSIFIER.b_head)
    texts, classes = [TOKENS, TOKENS], [3, 1]
    got = sequence_classifier_loss(texts, classes, CLASSIFIER, CONFIG)
    yield -sum(np.log(p[c]) for c in classes) / 2, got


@reads(
    r"\pdv{L}{\mat W} = \vec u\, \vec h_0^\top, \qquad \pdv{L}{\vec b} = \vec u…",
    r"\dot{\text{logits}} = \dot{\mat W} \vec h_0 + \mat W \dot{\vec h}_0 + \dot{\vec b} .",
)
def derivatives_of_the_class_head():
    w, b, h = CLASSIFIER.w_head, CLASSIFIER.b_head, class_output(X[0])
    u = RNG.normal(size=5)
    given = {"W": w, "b": b, "u": u, "h": h, "t": range(len(h))}
    given["logits"] = Of(lambda w, b, h: w @ h[0] + b, "W", "b", "h")
    return {**given, "L": Of(lambda y: np.sum(u * y), "logits")}


@reads(r"\text{token}_{t+1} = \arg\max_v \text{logits}_{tv} .")
def token_of_largest_probability():
    steps, head = 4, np.roll(HEAD, 2, axis=0)
    params = TRANSLATOR._replace(head=head)
    got = encoder_decoder_generate(SOURCE, params, CONFIG, start=1, steps=steps)
    assert min(got) > 0  # the double of which is another token
    memory = read_source(ENC_BIAS)
    logits = [written(memory, DEC_BIAS, got[: t + 1])[-1] @ head.T for t in range(steps)]
    return {"token": got, "logits": np.array(logits), "t": range(steps)}


@reads(r"\mat Y = \mat X + m\, \mat D \odot \operatorname{norm}'(f(\operatorname{norm}(\mat X))),")
def of_a_sublayer_with_a_norm_of_its_output():
    p, m = new_block()._replace(output_norm1=new_norm(), output_norm2=new_norm()), 0.5
    drops = 2.0 * (np.arange(D) % 2), np.linspace(0.5, 1.5, D)
    options = {"num_heads": HEADS, "norm_first": True, "activation": "silu", "eps": EPS}
    options |= {"residual_scale": m, "dropout": drops}
    after = encoder_block(X, p, **options)
    silent = p._replace(feed_forward=FeedForwardParams(*(0 * w for w in p.feed_forward)))
    silent = silent._replace(output_norm2=NormParams(*(0 * w for w in p.output_norm2)))
    middle = encoder_block(X, silent, **options)  # the second sublayer adds nothing
    sublayers = (
        (X, middle, lambda x: attend(x, x, p.attention), p.norm1, p.output_norm1, drops[0]),
        (middle, after, lambda x: network(x, p.feed_forward), p.norm2, p.output_norm2, drops[1]),
    )
    return [
        {
            "X": x,
            "Y": y,
            "f": f,
            "m": m,
            "D": drop * np.ones((T, 1)),
            "norm": functools.partial(normalize, p=norm),
            "norm'": functools.partial(normalize, p=last),
        }
        for x, y, f, norm, last, drop in sublayers
    ]


@reads(r"\mat Y = \mat X + m\, A(\operatorname{norm}_1(\mat X)) + m\,…")
def of_a_parallel_block():
    m, p, rows = 0.5, new_block(), []
    options = {"num_heads": HEADS, "norm_first": True, "activation": "silu"}
    options |= {"residual_scale": m, "parallel": True}
    parts = {"A": lambda x: attend(x, x, p.attention), "N": lambda x: network(x, p.feed_forward)}
    for second in (p.norm2, None):
        norms = {"norm_1": functools.partial(normalize, p=p.norm1)}
        norms["norm_2"] = functools.partial(normalize, p=second or p.norm1)
        y = encoder_block(X, p._replace(norm2=second), **options)
        rows.append({**parts, **norms, "X": X, "Y": y, "m": m})
    return rows
