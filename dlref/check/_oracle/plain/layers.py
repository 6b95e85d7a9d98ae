"""Linear layers and normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import summed, widen


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Return sums from left to right."""
    terms = widen(x)[..., None, :] * widen(weight)
    y = summed(terms)[..., 0] if terms.shape[-1] else np.zeros(terms.shape[:-1], terms.dtype)
    return (y if bias is None else y + bias).astype(x.dtype)


def _mean(x: Any) -> Any:
    return summed(x) / x.dtype.type(x.shape[-1])


def rms_norm(x: Any, weight: Any = None, *, eps: float = 1e-6, weight_offset: float = 0.0) -> Any:
    """Return rows over the root of their mean square."""
    wide = widen(x)
    y = wide / np.sqrt(_mean(wide * wide) + wide.dtype.type(eps))
    return (y if weight is None else y * (weight + x.dtype.type(weight_offset))).astype(x.dtype)


def rms_norm_vjp(
    dout: Any, x: Any, weight: Any = None, *, eps: float = 1e-6, **options: Any
) -> Any:
    """Return the remainder of dout across the row, over its size; for rows without weights."""
    if weight is not None:
        raise NotImplementedError
    wide, dout = widen(x), widen(dout)
    size = np.sqrt(_mean(wide * wide) + wide.dtype.type(eps))
    y = wide / size
    return ((dout - y * _mean(dout * y)) / size).astype(x.dtype)


def layer_norm(x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5) -> Any:
    """Return rows minus their mean, over their standard deviation."""
    wide = widen(x)
    y = rms_norm(wide - _mean(wide), weight, eps=eps)
    return (y if bias is None else y + bias).astype(x.dtype)
