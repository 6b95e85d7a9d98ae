"""Helpers of several formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Error of the erf and tanh of libraries, in roundings.
OFF = 4


def widen(x: Any) -> Any:
    """Return an array in the dtype that kernels compute in: narrow formats in float32."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def summed(x: Any, axis: int = -1) -> Any:
    """Return sums from left to right."""
    return np.add.accumulate(x, axis).take([-1], axis)


def as_rows(x: Any) -> Any:
    """Return a matrix with the rows of all leading axes."""
    return x.reshape(-1, x.shape[-1])


def in_another_order(terms: Any) -> Any:
    """Return sums over rows, with the rounding that another order of the terms may leave."""
    off = np.finfo(terms.dtype).eps * abs(terms).sum(-1, keepdims=True)
    return terms.sum(-1, keepdims=True) + off


def tanh(x: Any) -> Any:
    """Return a tanh as inaccurate as the libraries'."""
    return np.tanh(x) * (1 - OFF * np.finfo(widen(x).dtype).eps).astype(x.dtype)


def sigmoid(x: Any) -> Any:
    """Return the quotient as it stands."""
    return 1 / (1 + np.exp(-x))
