"""Types and heads that blocks and each kind of attention have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..._core.arguments import FloatArray

#: Options in addition to the functions' own. "wrong" is a mistake that no parameter makes.
Options = dict[str, Any]
Steps = dict[str, FloatArray]
Mistake = tuple[str, Any, Options]  # message, parameters, options
Mistakes = Iterator[Mistake]

#: The activations of gated units by the names of the units.
GATES = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}
GATES |= {"reglu": "relu", "glu": "sigmoid", "bilinear": "identity"}


def split(x: FloatArray, count: int) -> FloatArray:
    """Return heads before positions."""
    width = x.shape[-1] // count  # not -1, which no text of no tokens has
    return np.swapaxes(x.reshape(*x.shape[:-1], count, width), -2, -3)


def joined(x: FloatArray) -> FloatArray:
    """Return the channels of all heads of a position in one row."""
    rows = np.swapaxes(x, -2, -3)
    return rows.reshape(*rows.shape[:-2], rows.shape[-2] * rows.shape[-1])


def in_part(part: str, steps: Steps) -> Steps:
    """Return steps by their names in a block."""
    return {f"{part}.{name}": value for name, value in steps.items()}
