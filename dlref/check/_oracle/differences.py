"""Derivatives from values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._core.arguments import FloatArray


def ridders(f: Callable[[float], Any], h: float) -> FloatArray:
    """
    Return the derivative of a function of a step, at the step zero.

    Central differences are extrapolated to a step of zero; each element keeps its best value.
    """

    def central(h: float) -> FloatArray:
        return (np.asarray(f(h), np.float64) - np.asarray(f(-h), np.float64)) / (2 * h)

    shrink, rounds = 1.4, 12
    rows: list[FloatArray] = [central(h)]
    best, error = rows[0], np.full(np.shape(rows[0]), np.inf)
    for k in range(1, rounds):
        new: list[FloatArray] = [central(h / shrink**k)]
        for j in range(k):
            power = shrink ** (2 * (j + 1))
            new.append((power * new[j] - rows[j]) / (power - 1))
            gap = np.maximum(abs(new[j + 1] - new[j]), abs(new[j + 1] - rows[j]))
            better = gap <= error
            best, error = np.where(better, new[j + 1], best), np.where(better, gap, error)
        rows = new
    return best
