"""Types and heads that blocks and each kind of attention have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ... import neurons
from ..._core.arguments import FloatArray


class RefutedError(Exception):
    """A block with a mistake differs from the other implementation before the step in question."""


#: Options in addition to the functions' own. "wrong" is a mistake that no parameter makes, and
#: "stop" a function of the steps so far that ends a trial early.
Options = dict[str, Any]
Steps = dict[str, FloatArray]
Mistake = tuple[str, Any, Options]  # message, parameters, options
Mistakes = Iterator[Mistake]

#: What scalings of rotations call the length of the texts in training.
LENGTH = "original_max_position_embeddings"

#: The activations of gated units by the names of the units.
GATES = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}
GATES |= {"reglu": "relu", "glu": "sigmoid", "bilinear": "identity"}


def linear(x: FloatArray, weight: Any, bias: FloatArray | None = None) -> FloatArray:
    """Return a dense layer's output; a matrix that stays in its file does the product itself."""
    if not hasattr(weight, "applied"):
        return neurons.linear(x, weight, bias)
    y: FloatArray = weight.applied(x)
    return y if bias is None else y + bias


def split(x: FloatArray, count: int) -> FloatArray:
    """Return heads before positions."""
    width = x.shape[-1] // count  # not -1, which no text of no tokens has
    return np.swapaxes(x.reshape(*x.shape[:-1], count, width), -2, -3)


def joined(x: FloatArray) -> FloatArray:
    """Return the channels of all heads of a position in one row."""
    rows = np.swapaxes(x, -2, -3)
    return rows.reshape(*rows.shape[:-2], rows.shape[-2] * rows.shape[-1])


def of_other_heads(said: str, numbers: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    """Yield numbers, or rows of them, one a head, that other heads have."""
    if len(numbers) > 1:
        yield f"{said} of the first head are those of all heads", np.full_like(numbers, numbers[0])
        yield f"{said} of the heads are in the opposite order", numbers[::-1].copy()
        yield f"{said} are those of the next head", np.roll(numbers, -1, axis=0)
        yield f"{said} are those of the head before", np.roll(numbers, 1, axis=0)


def inner_eps(o: Options) -> float:
    """Return the epsilon of the norms inside attention: of queries, keys and latents."""
    return float(o["eps"] if o.get("inner_eps") is None else o["inner_eps"])


def in_part(part: str, steps: Steps) -> Steps:
    """Return steps by their names in a block."""
    return {f"{part}.{name}": value for name, value in steps.items()}
