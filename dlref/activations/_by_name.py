"""Activations by name, as options of other chapters give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import activations
from .._core.arguments import FloatArray, choice

if TYPE_CHECKING:
    from collections.abc import Callable

#: What an option `activation` may be: the functions of one number in `dlref.activations`.
ACTIVATIONS = (
    "identity",
    "relu",
    "leaky_relu",
    "elu",
    "selu",
    "celu",
    "sigmoid",
    "log_sigmoid",
    "hard_sigmoid",
    "tanh",
    "hard_tanh",
    "softplus",
    "softsign",
    "silu",
    "mish",
    "hard_swish",
    "gelu",
    "relu6",
    "tanhshrink",
    "thresholded_relu",
)


class Forms(NamedTuple):
    """A map and its derivatives; the vjp is the jvp with its arguments swapped."""

    map: Callable[[FloatArray], FloatArray]
    deriv: Callable[[FloatArray], FloatArray]
    vjp: Callable[[FloatArray, FloatArray], FloatArray]


def by_name(name: str) -> Forms:
    """Return an activation, or raise if there is none of that name."""
    choice("activation", name, ACTIVATIONS)
    if name == "identity":
        return Forms(np.positive, np.ones_like, lambda dout, x: dout)
    return Forms(*(getattr(activations, name + form) for form in ("", "_deriv", "_vjp")))
