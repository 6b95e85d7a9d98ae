"""The displayed equations of dlref.activations."""

import numpy as np
from equations.ledger import definition

from dlref.activations import celu

RNG = np.random.default_rng(0)
X = RNG.normal(size=7)


@definition(
    r"f(x) = \max(0, x) + \min\bigl(0, \alpha (e^{x / \alpha} - 1)\bigr)",
)
def the_celu():
    alpha = 0.7
    yield np.maximum(0, X) + np.minimum(0, alpha * (np.exp(X / alpha) - 1)), celu(X, alpha=alpha)
