"""Linear layers and normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import as_rows, product, summed, widen


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


# Gradients of weights, which are sums over all rows.


def _over_rows(terms: Any) -> Any:
    """Return sums over rows, one after the other."""
    if not len(terms):
        raise NotImplementedError
    return np.add.accumulate(terms, 0)[-1]


def linear_vjp(dout: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    """Return products with the weights, and sums of the products with the rows."""
    u, rows = as_rows(widen(dout)), as_rows(widen(x))
    dx = product(u, widen(weight)).reshape(x.shape)
    sums = [u[:, :, None] * rows[:, None, :], *([] if bias is None else [u])]
    return tuple(a.astype(x.dtype) for a in (dx, *map(_over_rows, sums)))


def norm_vjp(
    dout: Any, x: Any, weight: Any, bias: Any = None, *, eps: float, offset: float, centered: bool
) -> Any:
    """Return the gradients of a norm."""
    u, wide = widen(dout), widen(x)
    wide = wide - _mean(wide) if centered else wide
    size = np.sqrt(_mean(wide * wide) + wide.dtype.type(eps))
    scale = 1 if weight is None else widen(weight) + wide.dtype.type(offset)
    y, u_scaled = wide / size, u * scale
    dx = (u_scaled - y * _mean(u_scaled * y)) / size
    dx = dx - _mean(dx) if centered else dx
    sums = [as_rows(a) for a, b in ((u * y, weight), (u, bias)) if b is not None]
    return tuple(a.astype(x.dtype) for a in (dx, *map(_over_rows, sums)))


def l2_norm(x: Any, *, eps: float = 1e-6) -> Any:
    wide = widen(x)
    return (wide / np.sqrt(summed(wide * wide) + wide.dtype.type(eps))).astype(x.dtype)


def l2_norm_vjp(dout: Any, x: Any, *, eps: float = 1e-6) -> Any:
    """Return the remainder of dout across the row, over its length."""
    wide, u = widen(x), widen(dout)
    size = np.sqrt(summed(wide * wide) + wide.dtype.type(eps))
    y = wide / size
    return ((u - y * summed(u * y)) / size).astype(x.dtype)


def batch_norm_inference(
    x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5
) -> Any:
    wide = widen(x)
    y = (wide - widen(mean)) / np.sqrt(widen(var) + wide.dtype.type(eps))
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).astype(x.dtype)


def _of_columns(x: Any, eps: float) -> tuple[Any, Any]:
    """Return the normalized columns of all rows, and their size."""
    rows = as_rows(widen(x))
    count = rows.dtype.type(len(rows))
    centered = rows - _over_rows(rows) / count
    size = np.sqrt(_over_rows(centered * centered) / count + rows.dtype.type(eps))
    return centered / size, size


def batch_norm(x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5) -> Any:
    """Return columns minus their mean over all rows, over their standard deviation."""
    y = _of_columns(x, eps)[0].reshape(x.shape)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).astype(x.dtype)


def batch_norm_vjp(
    dout: Any, x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5
) -> Any:
    """Return the gradients of a batch norm, with sums over all rows."""
    (y, size), u = _of_columns(x, eps), as_rows(widen(dout))
    count, g = u.dtype.type(len(u)), u if weight is None else u * widen(weight)
    dx = (g - _over_rows(g) / count - y * (_over_rows(g * y) / count)) / size
    own = (dx.reshape(x.shape), _over_rows(u * y), _over_rows(u))
    given = (x, weight, bias)
    return tuple(a.astype(x.dtype) for a, b in zip(own, given, strict=True) if b is not None)


def weighted_layer_norm_vjp(*inputs: Any, eps: float = 1e-5) -> Any:
    """Return the gradients of a layer norm that has weights."""
    return norm_vjp(*inputs, *[None] * (3 - len(inputs)), eps=eps, offset=0.0, centered=True)


def weighted_rms_norm_vjp(*inputs: Any, eps: float = 1e-6, weight_offset: float = 0.0) -> Any:
    """Return the gradients of an RMS norm that has weights."""
    missing = [None] * (3 - len(inputs))
    return norm_vjp(*inputs, *missing, eps=eps, offset=weight_offset, centered=False)
