"""
What the functions of the course are compared with: for each name a function of the course's
function, which returns its results and those of dlref, as two lists of arrays.
"""

import numpy as np

import dlref
import dlref.formulas.training
from dlref.attention import AttentionParams
from dlref.transformer import (
    EncoderBlockParams,
    FeedForwardParams,
    LanguageModelConfig,
    LanguageModelParams,
    NormParams,
)

RNG = np.random.default_rng(0)
X, Z = RNG.standard_normal((5, 4)), RNG.standard_normal((5, 3))
W, B = RNG.standard_normal((3, 4)), RNG.standard_normal(3)
TARGET = np.array([0, 2, 1, 1, 0])
LAYERS = (W, B), (RNG.standard_normal((3, 3)), RNG.standard_normal(3))
NETWORK = {"w1": W, "b1": B, "w2": LAYERS[1][0], "b2": LAYERS[1][1]}

CASES = {}
#: Functions that the course alone has, and why nothing is compared.
OWN = {}


# Part 1. Backpropagation


def flat_grads(loss, grads):
    """Return a loss and its gradients as lists, and those of dlref."""
    value, layers = dlref.training.mlp_loss_value_and_grad(X, TARGET, LAYERS)
    own = [grads[name] for name in ("w1", "b1", "w2", "b2")]
    return [loss, *own], [value, *(array for layer in layers for array in layer)]


CASES |= {
    "sigmoid": lambda f: ([f(X)], [dlref.activations.sigmoid(X)]),
    "relu": lambda f: ([f(X)], [dlref.activations.relu(X)]),
    "relu_vjp": lambda f: ([f(X, 2 * X - 1)], [dlref.activations.relu_vjp(X, 2 * X - 1)]),
    "linear": lambda f: ([f(X, W, B)], [dlref.neurons.linear(X, W, B)]),
    "linear_vjp": lambda f: (f(Z, X, W, B), dlref.neurons.linear_vjp(Z, X, W, B)),
    "softmax": lambda f: ([f(Z)], [dlref.activations.softmax(Z)]),
    "cross_entropy": lambda f: ([f(Z, TARGET)], [dlref.losses.cross_entropy(Z, TARGET)]),
    "cross_entropy_grad": lambda f: (
        [f(Z, TARGET)], [dlref.losses.cross_entropy_grad(Z, TARGET)]
    ),
    "network": lambda f: ([f(X, NETWORK)], [dlref.neurons.mlp(X, LAYERS)]),
    "network_grads": lambda f: flat_grads(*f(X, TARGET, NETWORK)),
}  # fmt: skip
OWN |= {
    "numerical_gradient": "it measures, and dlref.check has more than a lesson can explain",
    "crystal_loss": "an example of one number",
    "area_loss": "an example of a chain",
    "rectangle_loss": "an example of two paths",
    "Value": "the nodes of a graph; dlref has no automatic differentiation",
    "backward": "the same",
    "neuron_loss": "an example with the data of its lesson",
    "loss_with": "an example with the data of its lesson",
    "train_network": "a loop of the functions above",
    "network_jvp": "the lesson compares it with the gradient",
}


# Part 2. Training


def twice(step, **options):
    """Return the parameter and nothing else after two steps, for a parameter by name or alone."""

    def of(f, named):
        params, state = ({"w": X} if named else X), None
        for grads in (X**2, 1 - X):
            params, state = f(params, {"w": grads} if named else grads, state, **options)
        return [params["w"] if named else params]

    return lambda f: (of(f, named=True), of(getattr(dlref.training, step), named=False))


GAMMA, BETA = 1 + RNG.random(4), RNG.standard_normal(4)
BATCHES = [{"batch_size": 2}, {"batch_size": 5}]

CASES |= {
    "minibatches": lambda f: tuple(
        [a for o in BATCHES for pair in g(np.random.default_rng(1), X, TARGET, **o) for a in pair]
        for g in (f, dlref.formulas.training.minibatches)
    ),
    "sgd_step": twice("sgd_step", learning_rate=0.1),
    "momentum_step": twice("momentum_step", learning_rate=0.1, momentum=0.7),
    "adam_step": twice("adam_step", learning_rate=0.1, betas=(0.8, 0.9)),
    "adamw_step": twice("adamw_step", learning_rate=0.1, weight_decay=0.3),
    "he_normal": lambda f: tuple(
        [g(np.random.default_rng(1), (3, 4))] for g in (f, dlref.propagation.he_normal)
    ),
    "dropout_mask": lambda f: tuple(
        [g(np.random.default_rng(1), (3, 4), rate=0.3)]
        for g in (f, dlref.formulas.transformer.dropout_mask)
    ),
    "batch_norm": lambda f: (
        [f(X, GAMMA, BETA)], [dlref.normalization.batch_norm(X, GAMMA, BETA)]
    ),
    "batch_norm_vjp": lambda f: (
        f(2 - X, X, GAMMA, BETA), dlref.normalization.batch_norm_vjp(2 - X, X, GAMMA, BETA)
    ),
    "layer_norm": lambda f: (
        [f(X, GAMMA, BETA)], [dlref.normalization.layer_norm(X, GAMMA, BETA)]
    ),
    "layer_norm_vjp": lambda f: (
        f(X**2, X, GAMMA, BETA), dlref.normalization.layer_norm_vjp(X**2, X, GAMMA, BETA)
    ),
    "rms_norm": lambda f: ([f(X, GAMMA)], [dlref.normalization.rms_norm(X, GAMMA)]),
    "rms_norm_vjp": lambda f: (
        f(X**2, X, GAMMA), dlref.normalization.rms_norm_vjp(X**2, X, GAMMA)
    ),
    "clip_by_norm": lambda f: (
        [*f({"w": X, "b": B}, 1.5).values(), *f({"w": X, "b": B}, 99.0).values()],
        [*dlref.training.clip_by_norm((X, B), 1.5), X, B],
    ),
    "cosine_schedule": lambda f: tuple(
        [g(t, peak=0.3, steps=90, warmup=10, floor=0.1) for t in (0, 5, 10, 40, 90, 200)]
        for g in (f, dlref.training.cosine_schedule)
    ),
}  # fmt: skip
OWN |= {
    "noisy_data": "a data set",
    "new_network": "a start that a later lesson improves",
    "price": "an example of one number",
    "valley": "an example of two numbers",
    "forward_sizes": "a measurement",
    "input_gradient": "layers without a bias, whose gradient alone is of interest",
    "dropout_grads": "network_grads with a mask",
    "rate": "a schedule with the numbers of its lesson",
    "tanh_layers": "a plain and a residual network in one",
    "tanh_layers_vjp": "the same",
}


# Part 3. Sequences


def recurrent(gates, states=1):
    """Return inputs of two sequences, initial states and weights of a recurrent network."""
    rng = np.random.default_rng(gates)
    first = [rng.standard_normal((2, 3)) for _ in range(states)]
    weights = [rng.standard_normal((3 * gates, size)) for size in (4, 3)]
    x = rng.standard_normal((2, 6, 4))
    return x, *first, *weights, rng.standard_normal(3 * gates)


RNN, LSTM, GRU = recurrent(1), recurrent(4, states=2), recurrent(3)
DSTATES = np.random.default_rng(0).standard_normal((2, 6, 3))
LETTERS = np.array([[0, 2, 2], [4, 0, 2]])


def of_step(arguments):
    """Return the inputs of the first step in place of those of the sequence."""
    x, *rest = arguments
    return x[:, 0], *rest


def lstm_of_both(arguments):
    """Return the states, cells and gates after a step of dlref."""
    full = dlref.recurrent.lstm_cell(*of_step(arguments))
    x, h, c, *weights = arguments
    gates = dlref.recurrent.lstm_gates(x[:, :1], h, c, *weights)
    return [*full, *(gate[:, 0] for gate in gates)]


CASES |= {
    "embedding": lambda f: ([f(X, LETTERS)], [dlref.neurons.embedding(X, LETTERS)]),
    "embedding_vjp": lambda f: tuple(
        [g(np.ones((2, 3, 4)), X, LETTERS)] for g in (f, dlref.neurons.embedding_vjp)
    ),
    "rnn_cell": lambda f: ([f(*of_step(RNN))], [dlref.recurrent.rnn_cell(*of_step(RNN))]),
    "rnn": lambda f: ([f(*RNN)], [dlref.recurrent.rnn(*RNN)]),
    "rnn_vjp": lambda f: (f(DSTATES, *RNN), dlref.recurrent.rnn_vjp(DSTATES, *RNN)),
    "lstm_step": lambda f: (
        [*f(*of_step(LSTM))[:2], *f(*of_step(LSTM))[2]], lstm_of_both(LSTM)
    ),
    "lstm": lambda f: (f(*LSTM), dlref.recurrent.lstm(*LSTM)),
    "lstm_vjp": lambda f: (f(DSTATES, *LSTM), dlref.recurrent.lstm_vjp((DSTATES, None), *LSTM)),
    "gru_step": lambda f: ([f(*of_step(GRU))[0]], [dlref.recurrent.gru_cell(*of_step(GRU))]),
    "gru": lambda f: ([f(*GRU)], [dlref.recurrent.gru(*GRU)]),
    "gru_vjp": lambda f: (f(DSTATES, *GRU), dlref.recurrent.gru_vjp(DSTATES, *GRU)),
}  # fmt: skip
OWN |= {
    "loss_of_score": "an example with the data of its lesson",
    "second_state": "an example with the data of its lesson",
    "last_state": "an example with the data of its lesson",
    "last_cell": "an example with the data of its lesson",
    "new_state": "an example with the data of its lesson",
    "memory_task": "a data set",
    "learn_to_remember": "a loop of the functions above",
    "shifted": "states put one step later",
}


# Part 4. Attention and positions

MASK = np.tri(4, dtype=bool)
DOUT, Q, K, V = RNG.standard_normal((4, 2, 3, 4, 6))  # two texts, three heads, four tokens
WEIGHTS = RNG.standard_normal((4, 6, 6))
COS, SIN = dlref.positions.rope_tables(np.arange(4), dlref.positions.rope_frequencies(6))
MERGED = dlref.formulas.attention.merge_heads(Q)
CASES |= {
    "additive_attention": lambda f: (
        [f(X, 2 * X, Z, W, W + 1, B)],
        [dlref.attention.additive_attention(X, 2 * X, Z, W, W + 1, B)],
    ),
    "causal_mask": lambda f: ([f(4)], [dlref.attention.causal_mask(4)]),
    "attention": lambda f: (
        [f(Q, K, V), f(Q, K, V, MASK)],
        [
            dlref.attention.scaled_dot_product_attention(Q, K, V),
            dlref.attention.scaled_dot_product_attention(Q, K, V, is_causal=True),
        ],
    ),
    "attention_vjp": lambda f: (
        [*f(DOUT, Q, K, V), *f(DOUT, Q, K, V, MASK)],
        [
            *dlref.attention.scaled_dot_product_attention_vjp(DOUT, Q, K, V),
            *dlref.attention.scaled_dot_product_attention_vjp(DOUT, Q, K, V, is_causal=True),
        ],
    ),
    "split_heads": lambda f: ([f(MERGED, 3)], [Q]),
    "merge_heads": lambda f: ([f(Q)], [MERGED]),
    "causal_self_attention": lambda f: (
        [f(DOUT[0, 0], *WEIGHTS, 3)],
        [
            dlref.attention.multi_head_attention(
                DOUT[0, 0], DOUT[0, 0], AttentionParams(*WEIGHTS), num_heads=3, is_causal=True
            )
        ],
    ),
    "sinusoidal": lambda f: ([f(9, 6)], [dlref.positions.sinusoidal(9, 6)]),
    "rope_frequencies": lambda f: ([f(6)], [dlref.positions.rope_frequencies(6)]),
    "rope_tables": lambda f: (f(np.arange(4), dlref.positions.rope_frequencies(6)), [COS, SIN]),
    "apply_rope": lambda f: ([f(Q, COS, SIN)], [dlref.positions.apply_rope(Q, COS, SIN)]),
    "apply_rope_vjp": lambda f: (
        [f(DOUT, Q, COS, SIN)], [dlref.positions.apply_rope_vjp(DOUT, Q, COS, SIN)]
    ),
    "flash_attention": lambda f: (
        f(Q[0, 0], K[0, 0], V[0, 0], 3),
        dlref.formulas.attention.flash_attention(Q[0, 0], K[0, 0], V[0, 0], 3),
    ),
}  # fmt: skip
OWN |= {
    "sum_of_two": "an example with the data of its lesson",
    "last_output": "an example with the data of its lesson",
}


# Part 5. A language model

CONFIG = LanguageModelConfig(
    9, 12, 3, d_ff=48, positions="rope", norm="rms", activation="relu", tied=False, eps=1e-6
)
IDS = RNG.integers(9, size=(2, 7))
PROMPT = np.array([3, 1, 4])
#: Our names of the parameters of a block, in the order of dlref's.
OF_BLOCK = ["w_q", "w_k", "w_v", "w_o", "norm1", "w1", "b1", "w2", "b2", "norm2"]


def random_model():
    """Return parameters of a language model, under the names of the course."""
    d, classes = CONFIG.d_model, CONFIG.vocab_size
    shapes = {"embedding": (classes, d), "norm": d, "w_out": (classes, d)}
    sizes = {"w1": (4 * d, d), "b1": 4 * d, "w2": (d, 4 * d), "b2": d, "norm1": d, "norm2": d}
    for i in range(CONFIG.num_layers):
        shapes |= {f"{i}.{name}": sizes.get(name, (d, d)) for name in OF_BLOCK}
    return {name: 0.4 * RNG.standard_normal(shape) for name, shape in shapes.items()}


def params_of_block(p):
    """Return the same parameters in the types of dlref."""
    *attention, norm1, w1, b1, w2, b2, norm2 = (p[name] for name in OF_BLOCK)
    return EncoderBlockParams(
        AttentionParams(*attention), NormParams(norm1), FeedForwardParams(w1, b1, w2, b2),
        NormParams(norm2),
    )  # fmt: skip


def blocks_in(model):
    """Return the parameters of each block, under the short names of the course."""
    return [{n: model[f"{i}.{n}"] for n in OF_BLOCK} for i in range(CONFIG.num_layers)]


def params_of(model):
    """Return the parameters of a model in the types of dlref."""
    blocks = tuple(map(params_of_block, blocks_in(model)))
    norm = NormParams(model["norm"])
    return LanguageModelParams(model["embedding"], None, blocks, norm, model["w_out"])


def arrays(tree):
    """Return the arrays of parameters or gradients of dlref, in order."""
    if isinstance(tree, tuple):
        return [array for branch in tree for array in arrays(branch)]
    return [] if tree is None else [tree]


def compare_gradients(loss, grads):
    """Return a loss and its gradients, and those of dlref."""
    pieces = {"tokens": IDS[:, :-1], "targets": IDS[:, 1:]}
    value, expected = dlref.transformer.language_model_loss_value_and_grad(
        params=params_of(MODEL), config=CONFIG, **pieces
    )
    return [loss, *arrays(params_of(grads))], [value, *arrays(expected)]


def compare_block_gradients(dx, grads):
    """Return the gradients of a block, and those of dlref."""
    expected = dlref.transformer.encoder_block_vjp(TOKENS[::-1], TOKENS, BLOCK, **KIND)
    return [dx, *arrays(params_of_block(grads))], arrays(tuple(expected))


def compare_network_gradients(dx, grads):
    """Return the gradients of a network, and those of dlref."""
    expected = dlref.transformer.feed_forward_vjp(TOKENS[::-1], TOKENS, BLOCK.feed_forward)
    return [dx, *(grads[n] for n in ("w1", "b1", "w2", "b2"))], arrays(tuple(expected))


def compare_cached(next_logits):
    """Return scores of a text read token by token, and those of dlref, which reads it at once."""
    empty = np.empty((3, 0, 4))
    cache = [(empty, empty)] * CONFIG.num_layers
    rows = [next_logits(token, MODEL, 3, cache) for token in IDS[0]]
    return rows, dlref.transformer.language_model(IDS[0], params_of(MODEL), CONFIG)


MODEL = random_model()
TOKENS = RNG.standard_normal((4, 12))
BLOCK = params_of_block(blocks_in(MODEL)[0])
KIND = {
    "num_heads": 3, "norm_first": True, "norm": "rms", "activation": "relu", "eps": 1e-6,
    "is_causal": True,
    "rope": dlref.positions.rope_tables(np.arange(4), dlref.positions.rope_frequencies(4)),
}  # fmt: skip
CASES |= {
    "feed_forward": lambda f: (
        [f(TOKENS, blocks_in(MODEL)[0])],
        [dlref.transformer.feed_forward(TOKENS, BLOCK.feed_forward)],
    ),
    "feed_forward_vjp": lambda f: compare_network_gradients(
        *f(TOKENS[::-1], TOKENS, blocks_in(MODEL)[0])
    ),
    "block": lambda f: (
        [f(TOKENS, blocks_in(MODEL)[0], 3)],
        [dlref.transformer.encoder_block(TOKENS, BLOCK, **KIND)],
    ),
    "block_vjp": lambda f: compare_block_gradients(
        *f(TOKENS[::-1], TOKENS, blocks_in(MODEL)[0], 3)
    ),
    "language_model": lambda f: (
        [f(IDS, MODEL, 3)], [dlref.transformer.language_model(IDS, params_of(MODEL), CONFIG)]
    ),
    "model_grads": lambda f: compare_gradients(*f(IDS[:, :-1], IDS[:, 1:], MODEL, 3)),
    "next_token_probabilities": lambda f: (
        [f(Z[0], temperature=0.7, top_p=0.6)],
        [dlref.transformer.next_token_probabilities(Z[0], temperature=0.7, top_p=0.6)],
    ),
    "generate": lambda f: (
        [f(PROMPT, MODEL, 3, steps=9, top_p=0.9, rng=np.random.default_rng(1))],
        [
            dlref.transformer.generate(
                PROMPT, params_of(MODEL), CONFIG, steps=9, top_p=0.9, rng=np.random.default_rng(1)
            )
        ],
    ),
    "append_to_cache": lambda f: (
        f(Q, K, V, DOUT), dlref.formulas.attention.append_to_cache(Q, K, V, DOUT)
    ),
    "next_logits": compare_cached,
}  # fmt: skip
OWN |= {
    "rotated_heads": "compared as a part of the block",
    "rotary_attention": "the same",
    "rotary_attention_vjp": "the same",
    "new_block": "random numbers in an order of its own",
    "new_model": "the same",
    "blocks_of": "the names of the parameters are the course's",
    "loss_of_row": "an example with the data of its lesson",
    "random_pieces": "an example with the data of its lesson",
    "keys_after": "an example with the data of its lesson",
}


# Beyond

PAIRS, REFERENCE = RNG.standard_normal((2, 2, 6)) * 3
DOWN, UP = RNG.standard_normal((2, 4)), RNG.standard_normal((3, 2))
LINE, FILTERS = RNG.standard_normal((4, 9)), RNG.standard_normal((3, 4, 3))
CASES |= {
    "conv_line": lambda f: ([f(LINE, FILTERS)], [dlref.convolution.conv(LINE, FILTERS)]),
    "conv_line_vjp": lambda f: (
        f(np.ones((3, 7)), LINE, FILTERS),
        dlref.convolution.conv_vjp(np.ones((3, 7)), LINE, FILTERS),
    ),
    "lora_linear": lambda f: (
        [f(X, W, DOWN, UP, B, scale=2.0)],
        [dlref.neurons.lora_linear(X, W, DOWN, UP, B, scale=2.0)],
    ),
    "lora_linear_vjp": lambda f: (
        f(Z, X, W, DOWN, UP, B, scale=2.0),
        dlref.neurons.lora_linear_vjp(Z, X, W, DOWN, UP, B, scale=2.0),
    ),
    "dpo_loss": lambda f: ([f(PAIRS, REFERENCE)], [dlref.losses.dpo_loss(PAIRS, REFERENCE)]),
    "dpo_loss_grad": lambda f: (
        [f(PAIRS, REFERENCE)], [dlref.losses.dpo_loss_grad(PAIRS, REFERENCE)]
    ),
    "fake_quantize": lambda f: (
        [f(X, 0.3, 1, bits=3)], [dlref.quantization.fake_quantize(X, 0.3, 1, bits=3)]
    ),
    "straight_through_vjp": lambda f: (
        [f(X, 2 * X, 0.3, bits=3)],
        dlref.quantization.fake_quantize_vjp(X, 2 * X, 0.3, bits=3)[:1],
    ),
    "diffusion_mixture": lambda f: (
        [f(X, 2 * X - 1, 0.6, 0.8)],
        [dlref.formulas.training.diffusion_mixture(X, 2 * X - 1, 0.6, 0.8)],
    ),
}  # fmt: skip
OWN |= {
    "rounded": "it applies fake_quantize to the weights of a network",
    "corridor_errors": "an experiment of its lesson",
    "denoiser_grads": "the lesson checks it by differences",
    "sample_pictures": "dlref has the target of diffusion, not the sampler",
}
