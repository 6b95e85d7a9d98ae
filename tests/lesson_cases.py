"""
What the functions of the course are compared with: for each name a function of the course's
function, which returns its results and those of dlref, as two lists of arrays.
"""

import numpy as np

import dlref
import dlref.formulas.training

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
DOUT = np.random.default_rng(0).standard_normal((2, 6, 3))
IDS = np.array([[0, 2, 2], [4, 0, 2]])


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
    "embedding": lambda f: ([f(X, IDS)], [dlref.neurons.embedding(X, IDS)]),
    "embedding_vjp": lambda f: tuple(
        [g(np.ones((2, 3, 4)), X, IDS)] for g in (f, dlref.neurons.embedding_vjp)
    ),
    "rnn_cell": lambda f: ([f(*of_step(RNN))], [dlref.recurrent.rnn_cell(*of_step(RNN))]),
    "rnn": lambda f: ([f(*RNN)], [dlref.recurrent.rnn(*RNN)]),
    "rnn_vjp": lambda f: (f(DOUT, *RNN), dlref.recurrent.rnn_vjp(DOUT, *RNN)),
    "lstm_step": lambda f: (
        [*f(*of_step(LSTM))[:2], *f(*of_step(LSTM))[2]], lstm_of_both(LSTM)
    ),
    "lstm": lambda f: (f(*LSTM), dlref.recurrent.lstm(*LSTM)),
    "lstm_vjp": lambda f: (f(DOUT, *LSTM), dlref.recurrent.lstm_vjp((DOUT, None), *LSTM)),
    "gru_step": lambda f: ([f(*of_step(GRU))[0]], [dlref.recurrent.gru_cell(*of_step(GRU))]),
    "gru": lambda f: ([f(*GRU)], [dlref.recurrent.gru(*GRU)]),
    "gru_vjp": lambda f: (f(DOUT, *GRU), dlref.recurrent.gru_vjp(DOUT, *GRU)),
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


# Part 5. A language model


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
    "sample": "dlref has the target of diffusion, not the sampler",
}
