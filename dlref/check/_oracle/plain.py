"""
Formulas as most kernels compute them, in the dtype of the input.

They cancel where dlref does not: a kernel is not wrong for that, so that their error, measured
near the inputs, is allowed. Each stands under the name of its map and form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import erf

if TYPE_CHECKING:
    from collections.abc import Callable


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _cdf(x: Any) -> Any:
    wide = np.float64 if x.dtype == np.float64 else np.float32
    return (1 + erf((x * x.dtype.type(0.5**0.5)).astype(wide)).astype(x.dtype)) / 2


def _bent(x: Any) -> Any:
    """Return the argument of the tanh in the approximate gelu."""
    kind = x.dtype.type
    return kind((2 / np.pi) ** 0.5) * (x + kind(0.044715) * x * x * x)


def gelu(x: Any, approximate: str = "none") -> Any:
    """Return x times the normal distribution."""
    return x * _cdf(x) if approximate == "none" else x * (1 + np.tanh(_bent(x))) / 2


def gelu_deriv(x: Any, approximate: str = "none") -> Any:
    """Return its derivative."""
    kind = x.dtype.type
    if approximate == "none":
        return _cdf(x) + x * np.exp(-x * x / 2) * kind((2 * np.pi) ** -0.5)
    t = np.tanh(_bent(x))
    inner = kind((2 / np.pi) ** 0.5) * (1 + 3 * kind(0.044715) * x * x)
    return (1 + t) / 2 + x * (1 - t * t) * inner / 2


def sigmoid_deriv(x: Any) -> Any:
    """Return s (1 - s)."""
    s = _sigmoid(x)
    return s * (1 - s)


def tanh_deriv(x: Any) -> Any:
    """Return 1 - t²."""
    t = np.tanh(x)
    return 1 - t * t


def silu_deriv(x: Any, beta: float = 1.0) -> Any:
    """Return s + beta x s (1 - s)."""
    kind = x.dtype.type
    s = _sigmoid(kind(beta) * x)
    return s * (1 + kind(beta) * x * (1 - s))


def tanhshrink(x: Any) -> Any:
    """Return x - tanh(x)."""
    return x - np.tanh(x)


def tanhshrink_deriv(x: Any) -> Any:
    """Return the square of the tanh."""
    return np.tanh(x) ** 2


def log_softmax(x: Any, axis: int = -1) -> Any:
    """Return x - max, minus the logarithm of the sum."""
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _kept(target: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return classes, and which of them count; refuse further options."""
    if {*options} - {"reduction", "ignore_index"}:
        raise NotImplementedError
    kept = target != options.get("ignore_index", -100)
    return np.where(kept, target, 0), kept


def cross_entropy_vjp(dout: Any, logits: Any, target: Any, **options: Any) -> Any:
    """Return p - y for classes, over their number for the mean."""
    target, kept = _kept(target, options)
    gap = _softmax(logits) - np.eye(logits.shape[-1], dtype=logits.dtype)[target]
    n = kept.sum() if options.get("reduction", "mean") == "mean" else 1
    return np.asarray(dout)[..., None] * gap * kept[..., None] / n


def cross_entropy(logits: Any, target: Any, **options: Any) -> Any:
    """Return the mean of the logarithms, their sum, or all."""
    target, kept = _kept(target, options)
    losses = -np.take_along_axis(log_softmax(logits), target[..., None], -1)[..., 0] * kept
    how = options.get("reduction", "mean")
    if how == "none":
        return losses
    return losses.sum() / (kept.sum() if how == "mean" else 1)


def binary_cross_entropy_vjp(dout: Any, logits: Any, target: Any, **options: Any) -> Any:
    """Return s - y for the mean, without further options."""
    if options.get("reduction", "mean") != "mean" or {*options} - {"reduction"}:
        raise NotImplementedError
    return dout * (_sigmoid(logits) - target) / logits.size, -dout * logits / logits.size


def _reversed(deriv: Callable[..., Any]) -> Callable[..., Any]:
    return lambda dout, x, **options: dout * deriv(x, **options)


def _forward(deriv: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dx, **options: dx * deriv(x, **options)


PLAIN: dict[tuple[str, str], Callable[..., Any]] = {
    ("gelu", "forward"): gelu,
    ("tanhshrink", "forward"): tanhshrink,
    ("log_softmax", "forward"): log_softmax,
    ("cross_entropy", "forward"): cross_entropy,
    ("cross_entropy", "vjp"): cross_entropy_vjp,
    ("binary_cross_entropy", "vjp"): binary_cross_entropy_vjp,
}
for _f in (gelu_deriv, sigmoid_deriv, tanh_deriv, silu_deriv, tanhshrink_deriv):
    _name = _f.__name__.removesuffix("_deriv")
    PLAIN[_name, "vjp"] = _reversed(_f)
    PLAIN[_name, "jvp"] = _forward(_f)
