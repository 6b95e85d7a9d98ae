"""
One step of an optimizer, in one pass over memory.

NumPy writes an array for each operation of a formula, ten for a step of Adam; a kernel reads each
parameter, its gradient and its slots once and writes the new ones.  It computes in the dtype of
the parameters, as PyTorch does: the coefficients are brought to that dtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.arguments import FloatArray, as_floats, check_shape, result
from ..._core.jit import inline_fma, kernel
from ..._core.pytree import check_state, check_structure, rebuilt
from ..._core.threads import as_carray, over_rows

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["adagrad", "adam", "amsgrad", "momentum", "nesterov", "rmsprop", "sgd", "updated"]

COST = 1.0  #: nanoseconds an element
Number = Any


@inline_fma
def _with_decay(slope: Number, decay: Number, p: Number) -> Number:
    return slope + decay * p if decay != 0.0 else slope  # 0 times infinity is not 0


@kernel
def sgd(
    start: int, stop: int, p: FloatArray, g: FloatArray, out: FloatArray, eta: Number, decay: Number
) -> None:
    p, g, out = p[start:stop], g[start:stop], out[start:stop]
    for i in range(p.size):
        out[i] = p[i] - eta * _with_decay(g[i], decay, p[i])


@kernel
def momentum(
    start: int,
    stop: int,
    p: FloatArray,
    g: FloatArray,
    v: FloatArray,
    out: FloatArray,
    v_out: FloatArray,
    eta: Number,
    decay: Number,
    mu: Number,
    fresh: Number,
) -> None:
    p, g, v = p[start:stop], g[start:stop], v[start:stop]
    out, v_out = out[start:stop], v_out[start:stop]
    for i in range(p.size):
        velocity = mu * v[i] + fresh * _with_decay(g[i], decay, p[i])
        v_out[i] = velocity
        out[i] = p[i] - eta * velocity


@kernel
def nesterov(
    start: int,
    stop: int,
    p: FloatArray,
    g: FloatArray,
    v: FloatArray,
    out: FloatArray,
    v_out: FloatArray,
    eta: Number,
    decay: Number,
    mu: Number,
) -> None:
    p, g, v = p[start:stop], g[start:stop], v[start:stop]
    out, v_out = out[start:stop], v_out[start:stop]
    for i in range(p.size):
        slope = _with_decay(g[i], decay, p[i])
        velocity = mu * v[i] + slope
        v_out[i] = velocity
        out[i] = p[i] - eta * (slope + mu * velocity)


@kernel
def adagrad(
    start: int,
    stop: int,
    p: FloatArray,
    g: FloatArray,
    s: FloatArray,
    out: FloatArray,
    s_out: FloatArray,
    eta: Number,
    decay: Number,
    eps: Number,
) -> None:
    p, g, s = p[start:stop], g[start:stop], s[start:stop]
    out, s_out = out[start:stop], s_out[start:stop]
    for i in range(p.size):
        slope = _with_decay(g[i], decay, p[i])
        total = s[i] + slope * slope
        s_out[i] = total
        out[i] = p[i] - eta * (slope / (np.sqrt(total) + eps))


@kernel
def rmsprop(
    start: int,
    stop: int,
    p: FloatArray,
    g: FloatArray,
    s: FloatArray,
    m: FloatArray,
    v: FloatArray,
    out: FloatArray,
    s_out: FloatArray,
    m_out: FloatArray,
    v_out: FloatArray,
    eta: Number,
    decay: Number,
    alpha: Number,
    rest: Number,
    eps: Number,
    mu: Number,
    zero: Number,
) -> None:
    p, g, s, m, v = p[start:stop], g[start:stop], s[start:stop], m[start:stop], v[start:stop]
    out, s_out = out[start:stop], s_out[start:stop]
    m_out, v_out = m_out[start:stop], v_out[start:stop]
    centered, moving = m.size > 0, v.size > 0
    for i in range(p.size):
        slope = _with_decay(g[i], decay, p[i])
        square = alpha * s[i] + rest * (slope * slope)
        s_out[i] = square
        variance = square
        if centered:
            mean = alpha * m[i] + rest * slope
            m_out[i] = mean
            variance = square - mean * mean
            variance = zero if variance < zero else variance  # by rounding, of steady gradients
        direction = slope / (np.sqrt(variance) + eps)
        if moving:
            direction = mu * v[i] + direction
            v_out[i] = direction
        out[i] = p[i] - eta * direction


@kernel
def adam(
    start: int,
    stop: int,
    p: FloatArray,
    g: FloatArray,
    m: FloatArray,
    v: FloatArray,
    out: FloatArray,
    m_out: FloatArray,
    v_out: FloatArray,
    eta: Number,
    keep: Number,
    decay: Number,
    beta1: Number,
    rest1: Number,
    beta2: Number,
    rest2: Number,
    scale: Number,
    eps: Number,
) -> None:
    p, g, m, v = p[start:stop], g[start:stop], m[start:stop], v[start:stop]
    out, m_out, v_out = out[start:stop], m_out[start:stop], v_out[start:stop]
    for i in range(p.size):
        slope = _with_decay(g[i], decay, p[i])
        mean = beta1 * m[i] + rest1 * slope
        square = beta2 * v[i] + rest2 * (slope * slope)
        m_out[i], v_out[i] = mean, square
        out[i] = keep * p[i] - eta * mean / (np.sqrt(square) * scale + eps)


@kernel
def amsgrad(
    start: int,
    stop: int,
    p: FloatArray,
    g: FloatArray,
    m: FloatArray,
    v: FloatArray,
    top: FloatArray,
    out: FloatArray,
    m_out: FloatArray,
    v_out: FloatArray,
    top_out: FloatArray,
    eta: Number,
    keep: Number,
    decay: Number,
    beta1: Number,
    rest1: Number,
    beta2: Number,
    rest2: Number,
    scale: Number,
    eps: Number,
) -> None:
    for i in range(start, stop):
        slope = _with_decay(g[i], decay, p[i])
        mean = beta1 * m[i] + rest1 * slope
        square = beta2 * v[i] + rest2 * (slope * slope)
        largest = top[i] if top[i] > square else square
        m_out[i], v_out[i], top_out[i] = mean, square, largest
        out[i] = keep * p[i] - eta * mean / (np.sqrt(largest) * scale + eps)


def _new(params: Any, start: float) -> Any:
    """Return a slot before the first step: `start` in the structure of the parameters."""
    if isinstance(params, tuple):
        return rebuilt(params, (_new(entry, start) for entry in params))
    if params is None:
        return None
    _, (p,) = as_floats({"params": params}, work=np.float32)
    return np.full(p.shape, start, p.dtype)


def updated(
    step: Callable[..., None],
    coefficients: tuple[float, ...],
    params: Any,
    grads: Any,
    slots: tuple[Any, ...] = (),
    used: tuple[bool, ...] = (),
    start: float = 0.0,
) -> tuple[Any, ...]:
    """
    Apply the kernel `step` to each array of the parameters; return them and their slots.

    Slots are what an optimizer remembers, in the structure of the parameters; None stands for one
    full of `start`.  One that is not used stays None.
    """
    used = used or (True,) * len(slots)
    ready = [
        (_new(params, start) if slot is None else slot) if use else None
        for slot, use in zip(slots, used, strict=True)
    ]
    return _updated(step, coefficients, params, grads, ready)


def _updated(
    step: Callable[..., None],
    coefficients: tuple[float, ...],
    params: Any,
    grads: Any,
    slots: list[Any],
) -> tuple[Any, ...]:
    if isinstance(params, tuple):
        check_structure(isinstance(grads, tuple) and len(grads) == len(params), params, grads)
        count = len(params)
        check_state(all(s is None or (isinstance(s, tuple) and len(s) == count) for s in slots))
        for s in slots:  # a part that is missing would have no memory to be written to
            parts = () if s is None else zip(params, s, strict=True)
            check_state(all((p is None) == (part is None) for p, part in parts))
        results = [
            _updated(step, coefficients, p, g, [None if s is None else s[i] for s in slots])
            for i, (p, g) in enumerate(zip(params, grads, strict=True))
        ]
        columns = zip(*results, strict=True) if results else [()] * (1 + len(slots))
        trees = [rebuilt(params, column) for column in columns]
        return trees[0], *(None if s is None else t for s, t in zip(slots, trees[1:], strict=True))
    if params is None:
        check_structure(grads is None, params, grads)
        return (None,) * (1 + len(slots))
    check_structure(grads is not None and not isinstance(grads, tuple), params, grads)
    dtype, (p,) = as_floats({"params": params}, work=np.float32)
    _, (g,) = as_floats({"grads": grads}, work=np.float32)
    check_shape("grads", g, p.shape)
    unused = np.empty(0, p.dtype)
    kept = [unused if s is None else _flat(_state(s, p.shape), p.dtype) for s in slots]
    outs = [np.empty(a.size, p.dtype) for a in (p.ravel(), *kept)]
    numbers = (p.dtype.type(c) for c in coefficients)
    over_rows(step, p.size, COST, _flat(p, p.dtype), _flat(g, p.dtype), *kept, *outs, *numbers)
    moved, *new = (o.reshape(p.shape) if o.size == p.size else o for o in outs)
    return result(moved, dtype), *(
        None if s is None else n for s, n in zip(slots, new, strict=True)
    )


def _state(slot: Any, shape: tuple[int, ...]) -> FloatArray:
    _, (array,) = as_floats({"state": slot}, work=np.float32)
    check_state(array.shape == shape)
    return array


def _flat(a: Any, dtype: Any) -> FloatArray:
    return as_carray(np.asarray(a, dtype)).reshape(-1)
