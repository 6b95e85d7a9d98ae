"""
One step of an optimizer, in one pass over memory.

NumPy writes an array for each operation of a formula, ten for a step of Adam; a kernel reads each
parameter, its gradient and its slots once and writes the new ones.  It computes in the dtype of the
parameters, as PyTorch does: the coefficients are converted to that dtype.

Adagrad, RMSprop and Adam keep squares of gradients.  A square can be too large or too small for
the dtype while its root, and the step, are not.  Such a slot holds *minus the root* instead, a sign
that no square has.  The usual loop only notes whether there is such an element; if so, a second
loop over the same elements works with roots, scaled by the larger of the two that are combined.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.arguments import FloatArray, as_floats, check_shape, result
from ..._core.jit import inline_fma, kernel
from ..._core.pytree import check_state, check_structure, rebuilt
from ..._core.threads import as_carray, over_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..._core.arguments import FloatDType

    Shape = tuple[int, ...]
    ShapeOf = Callable[[Shape], Shape | None]

COST = 1.0  #: nanoseconds an element
Number = Any


@inline_fma
def _with_decay(slope: Number, decay: Number, p: Number) -> Number:
    return slope + decay * p if decay != 0.0 else slope  # 0 times infinity is not 0


@inline_fma
def _root(slot: Number) -> Number:
    """Return the root of the square that a slot stands for."""
    return np.sqrt(slot) if slot >= slot - slot else -slot


@inline_fma
def _combined(before: Number, slope: Number, keep: Number, rest: Number) -> Number:
    """Return the root of keep * before**2 + rest * slope**2, without the squares."""
    size = abs(slope)
    largest = before if before > size else size
    if largest == largest - largest or largest - largest != largest - largest:
        return largest  # 0, infinite or NaN
    a, b = before / largest, size / largest
    return largest * np.sqrt(keep * a * a + rest * b * b)


@inline_fma
def _slot(root: Number, tiny: Number) -> Number:
    """Return the square of a root, or minus the root where the square is out of range."""
    square = root * root
    zero = tiny - tiny
    inside = square - square == zero and (square >= tiny or root == zero)
    return square if inside or root - root != zero else -root


@inline_fma
def _out_of_range(
    slot: Number, square: Number, slope: Number, floor: Number, zero: Number
) -> Number:
    """Whether a slot holds a root, or its new square is infinite, NaN or too small."""
    return (slot < zero) | (square - square != zero) | ((square < floor) & (slope != zero))


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
def lion(
    start: int,
    stop: int,
    p: FloatArray,
    g: FloatArray,
    m: FloatArray,
    out: FloatArray,
    m_out: FloatArray,
    eta: Number,
    keep: Number,
    beta1: Number,
    rest1: Number,
    beta2: Number,
    rest2: Number,
) -> None:
    p, g, m = p[start:stop], g[start:stop], m[start:stop]
    out, m_out = out[start:stop], m_out[start:stop]
    for i in range(p.size):
        out[i] = keep * p[i] - eta * np.sign(beta1 * m[i] + rest1 * g[i])
        m_out[i] = beta2 * m[i] + rest2 * g[i]


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
    one: Number,
    tiny: Number,
) -> None:
    p, g, s = p[start:stop], g[start:stop], s[start:stop]
    out, s_out = out[start:stop], s_out[start:stop]
    zero, odd = tiny - tiny, False
    floor = tiny if eps * eps < tiny else zero
    for i in range(p.size):
        slope = _with_decay(g[i], decay, p[i])
        total = s[i] + slope * slope
        odd |= _out_of_range(s[i], total, slope, floor, zero)
        s_out[i] = total
        out[i] = p[i] - eta * (slope / (np.sqrt(total) + eps))
    if odd:
        for i in range(p.size):
            slope = _with_decay(g[i], decay, p[i])
            root = _combined(_root(s[i]), slope, one, one)
            s_out[i] = _slot(root, tiny)
            out[i] = p[i] - eta * (slope / (root + eps))


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
    tiny: Number,
) -> None:
    p, g, s, m, v = p[start:stop], g[start:stop], s[start:stop], m[start:stop], v[start:stop]
    out, s_out = out[start:stop], s_out[start:stop]
    m_out, v_out = m_out[start:stop], v_out[start:stop]
    centered, moving = m.size > 0, v.size > 0
    zero, odd = tiny - tiny, False
    floor = tiny if eps * eps < tiny else zero
    for i in range(p.size):
        slope = _with_decay(g[i], decay, p[i])
        square = alpha * s[i] + rest * (slope * slope)
        odd |= _out_of_range(s[i], square, slope, floor, zero)
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
    if odd:
        for i in range(p.size):
            slope = _with_decay(g[i], decay, p[i])
            root = _combined(_root(s[i]), slope, alpha, rest)
            s_out[i] = _slot(root, tiny)
            if centered and root > zero:
                ratio = abs(m_out[i]) / root
                variance = (root / root - ratio) * (root / root + ratio)
                root = root * np.sqrt(zero if variance < zero else variance)
            direction = slope / (root + eps)
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
    ahead: Number,
    keep: Number,
    decay: Number,
    beta1: Number,
    rest1: Number,
    beta2: Number,
    rest2: Number,
    scale: Number,
    eps: Number,
    tiny: Number,
) -> None:
    p, g, m, v = p[start:stop], g[start:stop], m[start:stop], v[start:stop]
    out, m_out, v_out = out[start:stop], m_out[start:stop], v_out[start:stop]
    zero, odd = tiny - tiny, False
    floor = tiny if eps * eps < tiny else zero
    for i in range(p.size):
        slope = _with_decay(g[i], decay, p[i])
        mean = beta1 * m[i] + rest1 * slope
        square = beta2 * v[i] + rest2 * (slope * slope)
        odd |= _out_of_range(v[i], square, slope, floor, zero)
        m_out[i], v_out[i] = mean, square
        out[i] = keep * p[i] - (eta * mean + ahead * slope) / (np.sqrt(square) * scale + eps)
    if odd:
        for i in range(p.size):
            slope = _with_decay(g[i], decay, p[i])
            root = _combined(_root(v[i]), slope, beta2, rest2)
            v_out[i] = _slot(root, tiny)
            root = root * scale + eps
            out[i] = keep * p[i] - (eta * (m_out[i] / root) + ahead * (slope / root))


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
    tiny: Number,
) -> None:
    p, g, m, v, top = p[start:stop], g[start:stop], m[start:stop], v[start:stop], top[start:stop]
    out, m_out = out[start:stop], m_out[start:stop]
    v_out, top_out = v_out[start:stop], top_out[start:stop]
    zero, odd = tiny - tiny, False
    floor = tiny if eps * eps < tiny else zero
    for i in range(p.size):
        slope = _with_decay(g[i], decay, p[i])
        mean = beta1 * m[i] + rest1 * slope
        square = beta2 * v[i] + rest2 * (slope * slope)
        largest = top[i] if top[i] > square else square
        odd |= _out_of_range(v[i], square, slope, floor, zero) | (top[i] < zero)
        m_out[i], v_out[i], top_out[i] = mean, square, largest
        out[i] = keep * p[i] - eta * mean / (np.sqrt(largest) * scale + eps)
    if odd:
        for i in range(p.size):
            slope = _with_decay(g[i], decay, p[i])
            root = _combined(_root(v[i]), slope, beta2, rest2)
            above = _root(top[i])
            above = above if above > root else root
            v_out[i], top_out[i] = _slot(root, tiny), _slot(above, tiny)
            out[i] = keep * p[i] - eta * (m_out[i] / (above * scale + eps))


#: the kernels with a slot of squared gradients
KEEP_SQUARES = (adagrad, rmsprop, adam, amsgrad)


def _new(params: Any, start: float, shape_of: ShapeOf) -> Any:
    """Return a slot before the first step: `start` in the structure of the parameters."""
    if isinstance(params, tuple):
        return rebuilt(params, (_new(entry, start, shape_of) for entry in params))
    if params is None:
        return None
    _, (p,) = as_floats({"params": params}, work=np.float32)
    shape = shape_of(p.shape)
    return None if shape is None else np.full(shape, start, p.dtype)


def _whole(shape: Shape) -> Shape:
    return shape


def _no_slot(_: Shape) -> None:
    return None


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

    A kernel that keeps squares gets the smallest normal number of the dtype as last coefficient.

    Slots are the state of an optimizer, in the structure of the parameters; None stands for one
    full of `start`. An unused slot stays None.
    """
    used = used or (True,) * len(slots)
    shapes = [_whole if use else _no_slot for use in used]
    ready = tuple(slot if use else None for slot, use in zip(slots, used, strict=True))
    of_kernel = partial(_updated, step, coefficients)
    moved, *new = walked(of_kernel, params, grads, ready, shapes=shapes, start=start)
    return moved, *(slot if use else None for slot, use in zip(new, used, strict=True))


def walked(
    step: Callable[..., tuple[Any, ...]],
    params: Any,
    grads: Any,
    slots: tuple[Any, ...],
    *,
    shapes: Sequence[ShapeOf] = (),
    start: float = 0.0,
) -> tuple[Any, ...]:
    """
    Call ``step(p, g, *slots)`` for each array of the parameters, as `updated` for a kernel.

    It returns the new array and the new slots, in the dtype of p. `shapes` has a function for each
    slot, of the shape of p; where one returns None there is no slot.
    """
    shapes = shapes or [_whole] * len(slots)
    ready = [
        _new(params, start, shape) if slot is None else slot
        for slot, shape in zip(slots, shapes, strict=True)
    ]
    return _walked(step, shapes, params, grads, ready)


def _walked(
    step: Callable[..., tuple[Any, ...]],
    shapes: Sequence[ShapeOf],
    params: Any,
    grads: Any,
    slots: list[Any],
) -> tuple[Any, ...]:
    if isinstance(params, tuple):
        check_structure(isinstance(grads, tuple) and len(grads) == len(params), params, grads)
        count = len(params)
        check_state(all(isinstance(s, tuple) and len(s) == count for s in slots))
        results = [
            _walked(step, shapes, p, g, [s[i] for s in slots])
            for i, (p, g) in enumerate(zip(params, grads, strict=True))
        ]
        columns = zip(*results, strict=True) if results else [()] * (1 + len(slots))
        return tuple(rebuilt(params, column) for column in columns)
    if params is None:
        check_structure(grads is None, params, grads)
        check_state(all(s is None for s in slots))
        return (None,) * (1 + len(slots))
    check_structure(grads is not None and not isinstance(grads, tuple), params, grads)
    dtype, (p,) = as_floats({"params": params}, work=np.float32)
    _, (g,) = as_floats({"grads": grads}, work=np.float32)
    check_shape("grads", g, p.shape)
    kept = [_state(s, of(p.shape), p.dtype) for s, of in zip(slots, shapes, strict=True)]
    moved, *new = step(p, g.astype(p.dtype, copy=False), *kept)
    return result(moved, dtype), *new


def _updated(
    step: Callable[..., None],
    coefficients: tuple[float, ...],
    p: FloatArray,
    g: FloatArray,
    *slots: FloatArray | None,
) -> tuple[Any, ...]:
    """Apply a kernel to one array and its slots."""
    unused = np.empty(0, p.dtype)
    kept = [unused if s is None else _flat(s) for s in slots]
    outs = [np.empty(a.size, p.dtype) for a in (p.ravel(), *kept)]
    least = (np.finfo(p.dtype).tiny,) if step in KEEP_SQUARES else ()
    numbers = (p.dtype.type(c) for c in (*coefficients, *least))
    over_rows(step, p.size, COST, _flat(p), _flat(g), *kept, *outs, *numbers)
    moved, *new = outs
    return moved.reshape(p.shape), *(
        None if s is None else n.reshape(p.shape) for s, n in zip(slots, new, strict=True)
    )


def _state(slot: Any, shape: Shape | None, dtype: FloatDType) -> FloatArray | None:
    check_state((slot is None) == (shape is None))  # one that is missing has no memory
    if slot is None:
        return None
    _, (array,) = as_floats({"state": slot}, work=np.float32)
    check_state(array.shape == shape)
    return array.astype(dtype, copy=False)


def _flat(a: FloatArray) -> FloatArray:
    return as_carray(a).reshape(-1)
