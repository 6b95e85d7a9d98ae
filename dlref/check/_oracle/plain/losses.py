"""Losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .common import as_rows, product, sigmoid, summed, widen
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


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    y = product(as_rows(widen(x)), widen(weight).T).reshape(*x.shape[:-1], len(weight))
    return (y if bias is None else y + bias).astype(x.dtype)


def linear_cross_entropy(x: Any, weight: Any, target: Any, bias: Any = None, **options: Any) -> Any:
    """Return the cross-entropy of logits that are rounded."""
    return cross_entropy(_affine(x, weight, bias), target, **options)


def linear_cross_entropy_vjp(
    dout: Any, x: Any, weight: Any, target: Any, bias: Any = None, **options: Any
) -> Any:
    """Return the products of the gradient of the logits with weights and inputs, and its sum."""
    logits = _affine(x, weight, bias)
    grad = as_rows(cross_entropy_vjp(dout, logits, target, **options))
    of_weight = grad.T @ as_rows(x)
    return (grad @ weight).reshape(x.shape), of_weight, *([] if bias is None else [grad.sum(0)])


def _divisor(losses: Any, options: dict[str, Any]) -> Any:
    return losses.dtype.type(losses.size if options.get("reduction", "mean") == "mean" else 1)


def _reduced(losses: Any, options: dict[str, Any]) -> Any:
    """Return all losses, their sum, or their mean."""
    if options.get("reduction") == "none":
        return losses
    return losses.sum() / _divisor(losses, options)


def _each(dout: Any, losses: Any, options: dict[str, Any]) -> Any:
    """Return the upstream gradient of each loss."""
    return np.broadcast_to(dout, losses.shape) / _divisor(losses, options)


def _of_pairs(matrix: Any) -> Any:
    return np.diagonal(matrix, axis1=-2, axis2=-1)


def info_nce(similarity: Any, *, symmetric: bool = True, **options: Any) -> Any:
    """Return the cross-entropy of each row for the class on the diagonal; and of each column."""
    losses = -_of_pairs(log_softmax(similarity))
    if symmetric:
        losses = (losses - _of_pairs(log_softmax(similarity, -2))) / 2
    return _reduced(losses, options)


def info_nce_vjp(dout: Any, similarity: Any, *, symmetric: bool = True, **options: Any) -> Any:
    """Return p minus the identity, of the rows and of the columns."""
    u = _each(dout, similarity[..., 0], options)
    own = u[..., None] * np.eye(similarity.shape[-1], dtype=similarity.dtype)
    grad = u[..., None] * np.exp(log_softmax(similarity)) - own
    if symmetric:
        grad = (grad + u[..., None, :] * np.exp(log_softmax(similarity, -2)) - own) / 2
    return grad


def _divergence(log_q: Any, log_p: Any) -> Any:
    """Return the mean under q of the difference of the logarithms."""
    return np.sum(np.exp(log_q) * (log_q - log_p), -1, keepdims=True)


def _middle(log_p: Any, log_q: Any) -> Any:
    """Return the logarithm of the mean of both distributions."""
    return np.logaddexp(log_p, log_q) - np.log(log_p.dtype.type(2))


def _tempered(logits: Any, teacher: Any, temperature: float, kind: str) -> Any:
    """Return the logarithms of student and teacher, exchanged for the reverse direction."""
    both = [log_softmax(z / z.dtype.type(temperature)) for z in (logits, teacher)]
    return both[::-1] if kind == "reverse" else both


def distillation_loss(
    logits: Any, teacher: Any, *, temperature: float = 1.0, kind: str = "kl", **options: Any
) -> Any:
    """Return temperature² times the divergence, or times half of both from the middle."""
    log_p, log_q = _tempered(logits, teacher, temperature, kind)
    if kind == "jsd":
        middle = _middle(log_p, log_q)
        losses = (_divergence(log_q, middle) + _divergence(log_p, middle)) / 2
    else:
        losses = _divergence(log_q, log_p)
    return _reduced(losses[..., 0] * logits.dtype.type(temperature**2), options)


def distillation_loss_vjp(
    dout: Any,
    logits: Any,
    teacher: Any,
    *,
    temperature: float = 1.0,
    kind: str = "kl",
    **options: Any,
) -> Any:
    """Return the gradients as autograd has them, through each factor of q (log q - log p)."""
    u = _each(dout, logits[..., 0], options)[..., None] * logits.dtype.type(temperature)
    log_p, log_q = _tempered(logits, teacher, temperature, kind)
    p, q = np.exp(log_p), np.exp(log_q)
    if kind == "jsd":
        middle = _middle(log_p, log_q)
        of_p, of_q = (u / 2 * one * (log - middle) for one, log in ((p, log_p), (q, log_q)))
    else:
        of_p, of_q = -u * q, u * q * (log_q - log_p) + u * q
    grads = of_p - p * summed(of_p), of_q - q * summed(of_q)
    return grads[::-1] if kind == "reverse" else grads


def gaussian_kl(mean: Any, log_var: Any, **options: Any) -> Any:
    """Return half of mean² + variance - 1 - log variance, summed over rows."""
    terms = mean * mean + np.exp(log_var) - 1 - log_var
    return _reduced(np.sum(terms, -1) / 2, options)


def gaussian_kl_vjp(dout: Any, mean: Any, log_var: Any, **options: Any) -> Any:
    u = _each(dout, mean[..., 0], options)[..., None]
    return u * mean, (u * np.exp(log_var) - u) / 2


def kl_estimate(log_p: Any, log_ref: Any, *, kind: str = "k3", **options: Any) -> Any:
    """Return -r, r² / 2 or exp(r) - 1 - r of the log-ratio r."""
    r = log_ref - log_p
    losses = {"k1": -r, "k2": r * r / 2, "k3": np.exp(r) - 1 - r}
    return _reduced(losses[kind], options)


def kl_estimate_vjp(
    dout: Any, log_p: Any, log_ref: Any, *, kind: str = "k3", **options: Any
) -> Any:
    r = log_ref - log_p
    u = _each(dout, r, options)
    grad = {"k1": u, "k2": -u * r, "k3": u - u * np.exp(r)}[kind]
    return grad, -grad


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
