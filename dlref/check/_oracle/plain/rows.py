"""Softmax and its kin, along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .common import summed, widen

if TYPE_CHECKING:
    from collections.abc import Callable


def softmax(x: Any, axis: int = -1) -> Any:
    """Return exponentials over their sum, the maximum subtracted."""
    e = np.exp(widen(x) - widen(x).max(axis, keepdims=True))
    return (e / summed(e, axis)).astype(x.dtype)


def softmax_vjp(dout: Any, x: Any, axis: int = -1, probabilities: Any = softmax) -> Any:
    """Return p (dout - <p, dout>), of probabilities that were rounded."""
    p, dout = widen(probabilities(x, axis)), widen(dout)
    return (p * (dout - (p * dout).sum(axis, keepdims=True))).astype(x.dtype)


def softmax_vjp_of_jax(dout: Any, x: Any, axis: int = -1) -> Any:
    """Return the same, with the sum and the difference rounded, too."""
    p = softmax(x, axis)
    total = summed(widen(p * dout), axis).astype(x.dtype)
    return p * (dout - total)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """Return x - max, minus the logarithm of the sum."""
    x = x - x.max(axis, keepdims=True)
    return x - np.log(summed(np.exp(x), axis))


def log_softmax_vjp(dout: Any, x: Any, axis: int = -1) -> Any:
    """Return dout - p sum(dout), of a logarithm of p that was rounded."""
    y = x - np.expand_dims(_logsumexp(x, axis), axis)
    dout = widen(dout)
    return (dout - np.exp(widen(y)) * summed(dout, axis)).astype(x.dtype)


def gumbel_softmax(x: Any, noise: Any, *, temperature: float = 1.0, hard: bool = False) -> Any:
    """Return the softmax of noisy logits, or the row of the identity that is nearest."""
    p = softmax(_noisy(x, noise, temperature))
    return np.eye(p.shape[-1], dtype=p.dtype)[p.argmax(-1)] if hard else p


def gumbel_softmax_vjp(
    dout: Any, x: Any, noise: Any, *, temperature: float = 1.0, **_options: Any
) -> Any:
    """Return the gradient of the softmax for both; a hard choice has the same."""
    grad = softmax_vjp(dout, _noisy(x, noise, temperature)) / x.dtype.type(temperature)
    return grad, grad


def _noisy(x: Any, noise: Any, temperature: float) -> Any:
    return (x + noise) / x.dtype.type(temperature)


def log_softmax_jvp(x: Any, dx: Any, axis: int = -1) -> Any:
    """Return dx minus its mean, by the exponential of a logarithm of p that was rounded."""
    y = x - np.expand_dims(_logsumexp(x, axis), axis)
    dx = widen(dx)
    return (dx - summed(np.exp(widen(y)) * dx, axis)).astype(x.dtype)


def by_logsumexp(x: Any, axis: int = -1) -> Any:
    """Return a softmax as exponentials of x minus logsumexp(x)."""
    wide = widen(x)
    return np.exp(wide - np.expand_dims(_logsumexp(wide, axis), axis)).astype(x.dtype)


def _logsumexp(x: Any, axis: int) -> Any:
    """Return the maximum plus the logarithm of the sum, each rounded."""
    most = x.max(axis, keepdims=True)
    total = summed(np.exp(widen(x - most)), axis).astype(x.dtype)
    return (most + np.log(widen(total)).astype(x.dtype)).take(0, axis)


def logsumexp_vjp(dout: Any, x: Any, axis: int = -1) -> Any:
    """Return exp(x - y), of a y that was rounded."""
    y = np.expand_dims(_logsumexp(x, axis), axis)
    p = np.exp(widen(x - y)).astype(x.dtype)
    return (np.expand_dims(widen(np.asarray(dout)), axis) * p).astype(x.dtype)


def _shifted(x: Any, dx: Any, axis: int) -> tuple[Any, Any, Any]:
    """Return the exponentials of x less its maximum, their sum, and the tangent of that."""
    wide, dx, at = widen(x), widen(dx), np.expand_dims(x.argmax(axis), axis)
    e = np.exp(wide - np.take_along_axis(wide, at, axis))
    return e, summed(e, axis), dx - np.take_along_axis(dx, at, axis)


def softmax_jvp_shifted(x: Any, dx: Any, axis: int = -1) -> Any:
    """Return the tangent of softmax by the quotient rule, with the maximum's subtracted first."""
    e, total, dz = _shifted(x, dx, axis)
    return (e * dz / total - e * summed(e * dz, axis) / (total * total)).astype(x.dtype)


def log_softmax_jvp_shifted(x: Any, dx: Any, axis: int = -1) -> Any:
    e, total, dz = _shifted(x, dx, axis)
    return (dz - summed(e * dz, axis) / total).astype(x.dtype)


def logsumexp_jvp(x: Any, dx: Any, axis: int = -1) -> Any:
    """Return the maximum's tangent plus the mean of the remainders."""
    e, total, dz = _shifted(x, dx, axis)
    mean = summed(e * dz, axis) / total
    return (widen(dx) - dz + mean).take(0, axis).astype(x.dtype)


def through_maximum(formula: Callable[..., Any], *, total: bool = False) -> Callable[..., Any]:
    """
    Return a vjp as autograd computes it, which sends a gradient through the maximum, too.

    It is the total, dout or 0, less the sum of the gradients: 0, but for its rounding.
    """

    def vjp(dout: Any, x: Any, *others: Any, **options: Any) -> Any:
        axis, wide = options.get("axis", -1), widen(x)
        grads = formula(widen(np.asarray(dout)), wide, *others, **options)
        grad, *rest = grads if isinstance(grads, tuple) else (grads,)
        own = (np.expand_dims(dout, axis) if total else 0) - summed(grad, axis)
        at = np.expand_dims(x.argmax(axis), axis)
        np.put_along_axis(grad, at, np.take_along_axis(grad, at, axis) + own, axis)
        grad = grad.astype(x.dtype)
        return (grad, *rest) if rest else grad

    return vjp
