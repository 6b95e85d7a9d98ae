"""Losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .common import sigmoid, summed
from .rows import log_softmax


def _aimed(logits: Any, target: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return the weight of each class in each row, and the divisor of the mean."""
    if "z_loss" in options:
        raise NotImplementedError
    n, mixed = logits.shape[-1], options.get("label_smoothing", 0.0)
    weight = np.asarray(options.get("weight", np.ones(n)), logits.dtype)
    if target.dtype.kind in "iu":
        kept = target != options.get("ignore_index", -100)
        target = np.where(kept, target, 0)
        count = (weight[target] * kept).sum()
        target = np.eye(n, dtype=logits.dtype)[target] * kept[..., None]
        y = (1 - mixed) * target + mixed / n * kept[..., None]
    else:
        y, count = (1 - mixed) * target + mixed / n, math.prod(logits.shape[:-1])
    how = options.get("reduction", "mean")
    return (y * weight).astype(logits.dtype), count if how == "mean" else 1


def cross_entropy(logits: Any, target: Any, **options: Any) -> Any:
    """Return the mean of the logarithms, their sum, or all."""
    y, count = _aimed(logits, target, options)
    losses = -(y * np.where(y == 0, 0, log_softmax(logits))).sum(-1)
    return losses if options.get("reduction") == "none" else losses.sum() / count


def cross_entropy_vjp(dout: Any, logits: Any, target: Any, **options: Any) -> Any:
    """Return p - y, weighed, over the number of rows for the mean; and dtarget of real targets."""
    y, count = _aimed(logits, target, options)
    dout = (np.asarray(dout)[..., None] / count).astype(logits.dtype)
    logs = log_softmax(logits)
    grad = dout * (np.exp(logs) * y.sum(-1, keepdims=True) - y)
    if target.dtype.kind in "iu":
        return grad
    weight = np.asarray(options.get("weight", 1), logits.dtype)
    return grad, -dout * weight * logs * (1 - options.get("label_smoothing", 0.0))


def cross_entropy_vjp_of_logarithms(dout: Any, logits: Any, target: Any, **options: Any) -> Any:
    """Return the same by the gradient of the logarithms, which is summed from left to right."""
    y, count = _aimed(logits, target, options)
    grad = -(np.asarray(dout)[..., None] / count).astype(logits.dtype) * y
    grad = grad - np.exp(log_softmax(logits)) * summed(grad)
    if target.dtype.kind in "iu":
        return grad
    return grad, cross_entropy_vjp(dout, logits, target, **options)[1]


def _weighed(target: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    """Return the weight of a loss over the divisor of the mean, of a positive, and of both."""
    weight, positive = (
        np.asarray(options.get(key, 1), target.dtype) for key in ("weight", "pos_weight")
    )
    how = options.get("reduction", "mean")
    size = target.dtype.type(target.size if how == "mean" else 1)
    return weight / size, positive, 1 + (positive - 1) * target


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


def binary_cross_entropy(logits: Any, target: Any, **options: Any) -> Any:
    """Return x - x y + log(1 + exp(-x)), which cancels for each sign of x."""
    weight, _, both = _weighed(target, options)
    line = np.where(logits > 0, logits - logits * target, (1 - target) * logits)
    losses = weight * (line + both * _softplus(-logits))
    return losses if options.get("reduction") == "none" else losses.sum()


def binary_cross_entropy_vjp(dout: Any, logits: Any, target: Any, **options: Any) -> Any:
    """Return s - y and -x, weighed."""
    weight, positive, both = _weighed(target, options)
    dout = dout * weight
    slope = both * sigmoid(logits) - positive * target
    terms = positive * _softplus(-logits), _softplus(logits)  # their difference is -x without it
    return dout * slope, dout * (terms[0] - terms[1] if "pos_weight" in options else -logits)
