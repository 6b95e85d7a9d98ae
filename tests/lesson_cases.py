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


# Part 3. Sequences


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
    "sample_pictures": "dlref has the target of diffusion, not the sampler",
}
