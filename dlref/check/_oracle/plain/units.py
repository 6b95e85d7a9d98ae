"""Activations of single elements, and gated units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.broadcasting import unbroadcast
from .common import OFF, sigmoid, tanh, widen

if TYPE_CHECKING:
    from collections.abc import Callable

#: Scale and alpha of SELU.
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _normal_cdf(x: Any) -> Any:
    from scipy.special import erf  # noqa: PLC0415  # it takes longer to import than all others

    wide = np.float64 if x.dtype == np.float64 else np.float32
    value = erf((x * x.dtype.type(0.5**0.5)).astype(wide))
    value = value * (1 - OFF * np.finfo(wide).eps)
    return (1 + value.astype(x.dtype)) / 2


def _tanh_argument(x: Any) -> Any:
    """Return the argument of the tanh in the approximate gelu."""
    kind = x.dtype.type
    return kind((2 / np.pi) ** 0.5) * (x + kind(0.044715) * x * x * x)


def gelu(x: Any, approximate: str = "none") -> Any:
    """Return x times the normal distribution."""
    return x * _normal_cdf(x) if approximate == "none" else x * (1 + tanh(_tanh_argument(x))) / 2


def gelu_deriv(x: Any, approximate: str = "none") -> Any:
    kind = x.dtype.type
    if approximate == "none":
        return _normal_cdf(x) + x * np.exp(-x * x / 2) * kind((2 * np.pi) ** -0.5)
    t = tanh(_tanh_argument(x))
    inner = kind((2 / np.pi) ** 0.5) * (1 + 3 * kind(0.044715) * x * x)
    return (1 + t) / 2 + x * (1 - t * t) * inner / 2


def sigmoid_deriv(x: Any) -> Any:
    s = sigmoid(x)
    return s * (1 - s)


def tanh_deriv(x: Any) -> Any:
    t = tanh(x)
    return 1 - t * t


def silu(x: Any, beta: float = 1.0) -> Any:
    """Return x times the sigmoid, whose exponential overflows early in float16."""
    return x * sigmoid(x.dtype.type(beta) * x)


def silu_deriv(x: Any, beta: float = 1.0) -> Any:
    kind = x.dtype.type
    s = sigmoid(kind(beta) * x)
    return s * (1 + kind(beta) * x * (1 - s))


def elu(x: Any, alpha: float = 1.0) -> Any:
    """Return alpha (exp(x) - 1) where x is negative, of an exponential that was rounded."""
    wide = widen(x)
    below = wide.dtype.type(alpha) * (np.exp(np.minimum(wide, 0)) - 1)
    return np.where(wide > 0, wide, below).astype(x.dtype)


def elu_deriv(x: Any, alpha: float = 1.0) -> Any:
    """Return y + alpha, of an output y that is a rounding too low."""
    wide = np.nextafter(widen(elu(x, alpha)), -np.inf)
    return np.where(x > 0, 1, wide + wide.dtype.type(alpha)).astype(x.dtype)


def elu_deriv_of_jax(x: Any, alpha: float = 1.0) -> Any:
    """Return alpha (y + 1), of an exp(x) - 1 that was rounded."""
    return np.where(x > 0, x.dtype.type(1), x.dtype.type(alpha) * elu_deriv(x))


def celu(x: Any, alpha: float = 1.0) -> Any:
    """Return alpha (exp(x / alpha) - 1) where x is negative."""
    kind = x.dtype.type
    return kind(alpha) * elu(x / kind(alpha))


def celu_deriv(x: Any, alpha: float = 1.0) -> Any:
    """Return y / alpha + 1."""
    return elu_deriv(x / x.dtype.type(alpha))


def selu(x: Any) -> Any:
    return x.dtype.type(SELU_SCALE) * elu(x, SELU_ALPHA)


def selu_deriv(x: Any) -> Any:
    return x.dtype.type(SELU_SCALE) * elu_deriv(x, SELU_ALPHA)


def selu_deriv_of_jax(x: Any) -> Any:
    return x.dtype.type(SELU_SCALE) * elu_deriv_of_jax(x, SELU_ALPHA)


def mish(x: Any) -> Any:
    """Return x times the tanh of a softplus that was rounded."""
    return x * tanh(np.log1p(np.exp(x)))


def mish_deriv(x: Any) -> Any:
    """Return t + x (1 - t²) s, of a tanh t and a sigmoid s that were rounded."""
    t = tanh(np.log1p(np.exp(x)))
    return t + x * (1 - t * t) * sigmoid(x)


def mish_vjp_of_jax(dout: Any, x: Any) -> Any:
    """Return the terms one by one, by the softplus y, whose slope is exp(x - y)."""
    y = np.log1p(np.exp(x))
    t = tanh(y)
    through = dout * x
    return dout * t + (through + through * t) * (1 - t) * np.exp(x - y)


def tanh_vjp_of_jax(dout: Any, x: Any) -> Any:
    """Return dout (1 - t²) as JAX has it: (dout + dout t) (1 - t)."""
    t = tanh(x)
    return (dout + dout * t) * (1 - t)


def tanhshrink_vjp_of_jax(dout: Any, x: Any) -> Any:
    return dout - tanh_vjp_of_jax(dout, x)


def tanhshrink(x: Any) -> Any:
    return x - tanh(x)


def tanhshrink_vjp(dout: Any, x: Any) -> Any:
    """Return the vjp of the difference of x and tanh(x), term by term."""
    return dout - dout * tanh_deriv(x)


def softsign_vjp(dout: Any, x: Any) -> Any:
    """Return the vjp of the quotient x / (1 + |x|), term by term."""
    d = 1 + abs(x)
    return dout / d - (dout * x / d / d) * np.sign(x)


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    return np.where(x > 0, x, x.dtype.type(negative_slope) * x)


def leaky_relu_deriv(x: Any, negative_slope: float = 0.01) -> Any:
    kind = x.dtype.type
    return np.where(x > 0, kind(1), kind(negative_slope))


def hard_swish(x: Any) -> Any:
    wide = widen(x)
    return (wide * np.maximum(np.minimum(wide + 3, 6), 0) / 6).astype(x.dtype)


def hard_swish_deriv(x: Any) -> Any:
    """Return the slope in three parts; 1/2 + x/3 within."""
    return np.where(x < 3, np.where(x > -3, x / 3 + x.dtype.type(0.5), 0), 1).astype(x.dtype)


def thresholded_relu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > alpha, x, x * 0)


def softplus_deriv(x: Any, beta: float = 1.0) -> Any:
    return sigmoid(x.dtype.type(beta) * x)


def in_reverse(deriv: Callable[..., Any]) -> Callable[..., Any]:
    return lambda dout, x, **options: dout * deriv(x, **options)


def in_forward_mode(deriv: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dx, **options: dx * deriv(x, **options)


def _bounded(x: Any, gate: Any, limit: float | None, shift: float) -> tuple[Any, Any, Any, Any]:
    """Return the two factors of a gated unit with a bound, and where derivatives pass."""
    if limit is None:
        return x + shift, gate, 1, 1
    inside = np.abs(x) <= limit, gate <= limit
    return np.clip(x, -limit, limit) + shift, np.minimum(gate, limit), *inside


def gated(f: Callable[..., Any], slope: Callable[..., Any]) -> dict[str, Any]:
    """Return x f(gate) in its three forms."""

    def jvp(
        primals: Any, tangents: Any, limit: Any = None, shift: float = 0.0, **options: Any
    ) -> Any:
        dx, dgate = (0 if d is None else d for d in tangents)
        x, gate, *inside = _bounded(primals[0], primals[1], limit, shift)
        dx, dgate = dx * inside[0], dgate * inside[1]
        return dx * f(gate, **options) + x * (dgate * slope(gate, **options))

    def vjp(
        dout: Any, x: Any, gate: Any, limit: Any = None, shift: float = 0.0, **options: Any
    ) -> Any:
        shapes = np.shape(x), np.shape(gate)
        x, gate, *inside = _bounded(x, gate, limit, shift)
        dx, dgate = dout * f(gate, **options), dout * x * slope(gate, **options)
        return unbroadcast(dx * inside[0], shapes[0]), unbroadcast(dgate * inside[1], shapes[1])

    def forward(x: Any, gate: Any, limit: Any = None, shift: float = 0.0, **options: Any) -> Any:
        x, gate, *_ = _bounded(x, gate, limit, shift)
        return x * f(gate, **options)

    return {"forward": forward, "vjp": vjp, "jvp": jvp}
