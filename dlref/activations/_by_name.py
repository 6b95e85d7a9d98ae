"""Activations by name, for options of other chapters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from .. import activations
from .._core.arguments import FloatArray, choice

#: Values of an option `activation`. A new element-wise function is added here on purpose, or to
#: the exceptions in tests/neurons/test_neuron.py.
ACTIVATIONS = (
    "identity",
    "celu",
    "elu",
    "gelu",
    "gelu_tanh",
    "hard_sigmoid",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "relu",
    "relu6",
    "relu_squared",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
    "tanh",
    "tanhshrink",
    "thresholded_relu",
)


class Forms(NamedTuple):
    """A map and its derivatives; the vjp is the jvp with its arguments swapped."""

    map: Callable[[FloatArray], FloatArray]
    deriv: Callable[[FloatArray], FloatArray]
    vjp: Callable[[FloatArray, FloatArray], FloatArray]
    deriv2: Callable[[FloatArray], FloatArray]


def by_name(name: str) -> Forms:
    """Return an activation, or raise if there is none of that name."""
    choice("activation", name, ACTIVATIONS)
    if name == "identity":
        return Forms(np.positive, np.ones_like, lambda dout, x: dout, np.zeros_like)
    tanh = name == "gelu_tanh"
    stem = "gelu" if tanh else name
    forms = [getattr(activations, stem + form) for form in ("", "_deriv", "_vjp", "_deriv2")]
    return Forms(*(partial(f, approximate="tanh") for f in forms) if tanh else forms)
