"""
Texts of different lengths in one array.

A model with a causal mask never looks at later tokens, so tokens *after* the end of a text change
nothing for those before it. Texts that are padded on the left are therefore moved to the beginning
of their rows first, where their positions count from 0, and the results are moved back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_integers, check_range, check_shape, choice

IntArray = npt.NDArray[np.int64]
SIDES = ("right", "left")
IGNORED = -100  #: a target that counts nothing


class Padding(NamedTuple):
    """Where the tokens of each text stand."""

    inside: npt.NDArray[np.bool_]  # (..., T), once the texts stand at the beginning of their rows
    places: IntArray  # (..., T): the place of each token in the caller's rows
    homes: IntArray  # (..., T): the inverse

    def texts(self, tokens: IntArray, fill: int = 0) -> IntArray:
        """Move texts to the beginning of their rows, and fill the rest."""
        return np.where(self.inside, np.take_along_axis(tokens, self.places, -1), fill)

    def rows(self, array: FloatArray) -> FloatArray:
        """Move rows (..., T, N) of the caller to the order of `texts`, with 0 beyond the ends."""
        moved = np.take_along_axis(array, self.places[..., None], -2)
        return np.where(self.inside[..., None], moved, np.zeros((), array.dtype))

    def back(self, array: FloatArray) -> FloatArray:
        """Move rows (..., T, N) back to the caller's order, with 0 where there is no token."""
        clean = np.where(self.inside[..., None], array, np.zeros((), array.dtype))
        return np.take_along_axis(clean, self.homes[..., None], -2)

    def of_heads(self) -> Padding:
        """Return the same with an axis of heads before the tokens."""
        inside, places, homes = self
        return Padding(inside[..., None, :], places[..., None, :], homes[..., None, :])

    def pairs_back(self, weights: FloatArray) -> FloatArray:
        """Move weights (..., H, T, T) of pairs of tokens back to the caller's order."""
        each = self.of_heads()
        columns = each.back(weights).swapaxes(-1, -2)
        return np.ascontiguousarray(each.back(columns).swapaxes(-1, -2))


def as_padding(
    lengths: npt.ArrayLike | None, padding: str, shape: tuple[int, ...], *given: Any
) -> Padding | None:
    """
    Check the lengths of texts (..., T); None if all of them fill their rows.

    `given` are factors of dropout, which belong to places and are not moved.
    """
    choice("padding", padding, SIDES)
    if lengths is None:
        return None
    counts = as_integers("lengths", lengths)
    check_shape("lengths", counts, shape[:-1])
    T = shape[-1]
    check_range("lengths", counts, T + 1)
    if padding == "left" and any(factors is not None for factors in given):
        msg = (
            "Factors of dropout must be None where 'padding' is 'left'; pad on the right to train."
        )
        raise ValueError(msg)
    steps = np.arange(T)
    shift = (T - counts)[..., None] if padding == "left" else np.zeros_like(counts)[..., None]
    places, homes = (steps + shift) % max(T, 1), (steps - shift) % max(T, 1)
    return Padding(steps < counts[..., None], places, homes)
