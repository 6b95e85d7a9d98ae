"""Helpers of several formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Error of the erf and tanh of libraries, in roundings.
OFF = 4
#: Multiplications of two matrices that OpenBLAS does in one thread.
IN_ONE_THREAD = 2**18


def widen(x: Any) -> Any:
    """Return an array in the dtype that kernels compute in: narrow formats in float32."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def summed(x: Any, axis: int = -1) -> Any:
    """Return sums from left to right."""
    return np.add.accumulate(x, axis).take([-1], axis)


def as_rows(x: Any) -> Any:
    """Return a matrix with the rows of all leading axes."""
    return x.reshape(-1, x.shape[-1])


def product(a: Any, b: Any) -> Any:
    """
    Return a product of matrices, a few rows at a time.

    Threads would take longer to meet than to multiply these, the more so the busier the processor.
    """
    count = max(1, IN_ONE_THREAD // max(1, b.shape[-2] * b.shape[-1]))
    parts = [a[..., i : i + count, :] @ b for i in range(0, a.shape[-2], count)]
    return np.concatenate(parts, -2) if len(parts) > 1 else a @ b


def tanh(x: Any) -> Any:
    """Return a tanh as inaccurate as the libraries'."""
    return np.tanh(x) * (1 - OFF * np.finfo(widen(x).dtype).eps).astype(x.dtype)


def sigmoid(x: Any) -> Any:
    """Return the quotient as it stands."""
    return 1 / (1 + np.exp(-x))
