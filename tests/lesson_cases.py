"""
What the functions of the course are compared with: for each name a function of the course's
function, which returns its results and those of dlref, as two lists of arrays.
"""

import numpy as np

import dlref

RNG = np.random.default_rng(0)
X, Z = RNG.standard_normal((5, 4)), RNG.standard_normal((5, 3))
W, B = RNG.standard_normal((3, 4)), RNG.standard_normal(3)
TARGET = np.array([0, 2, 1, 1, 0])

CASES = {}
#: Functions that the course alone has, and why nothing is compared.
OWN = {}


# Part 1. Backpropagation

CASES |= {
    "sigmoid": lambda f: ([f(X)], [dlref.activations.sigmoid(X)]),
    "linear_vjp": lambda f: (f(Z, X, W, B), dlref.neurons.linear_vjp(Z, X, W, B)),
    "cross_entropy": lambda f: ([f(Z, TARGET)], [dlref.losses.cross_entropy(Z, TARGET)]),
}


# Part 2. Training


# Part 3. Sequences


# Part 4. Attention and positions


# Part 5. A language model


# Beyond
