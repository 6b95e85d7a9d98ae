"""
The selective scan: a loop over time for the channels of a block, next to each other.

Channels are independent, so threads share out blocks of them. Time is outside and channels are
inside of the loops, because they lie next to each other in memory: the exponential and both
recurrences are computed for several channels at once. Sums over channels (the gradients of b and c)
are kept for each block and added up in order, so that they have the same bits for any number of
threads.

The backward pass keeps the states of every `STEPS` steps, and computes those between again.

`begins` (B, T) says where a document begins, whose state before the step is 0. It has no elements
if there is a single document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._core.jit import inline_fma, inline_reassoc, inline_strict, kernel
from ..._core.threads import as_carray, over_rows, with_workspace
from ..._math.elementary import Number, add_multiple, exp

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..._core.arguments import FloatArray

BLOCK = 64  #: channels of a block
STEPS = 16  #: steps from one state that is kept to the next
COST, COST_VJP = 1.0, 4.0  #: nanoseconds for each number of a state, at each step


@inline_fma
def _advance(delta: FloatArray, x: FloatArray, a: FloatArray, b: Number, h: FloatArray) -> None:
    """Take a step of one row of the state."""
    for j in range(delta.size):
        h[j] = exp(delta[j] * a[j]) * h[j] + delta[j] * x[j] * b


@inline_strict
def _copy(h: FloatArray, to: FloatArray) -> None:
    for j in range(h.size):
        to[j] = h[j]


@inline_strict
def _clear(h: FloatArray) -> None:
    for j in range(h.size):
        h[j] = 0.0


@inline_strict
def _start_anew(begins: npt.NDArray[np.bool_], i: int, t: int, h: FloatArray) -> None:
    """Set a row of the state, or of its gradient, to 0 where a document begins."""
    if begins.size > 0 and begins[i, t]:
        _clear(h)


@inline_reassoc
def _dot(u: FloatArray, h: FloatArray) -> Number:
    total = np.float64(0.0)
    for j in range(h.size):
        total += u[j] * h[j]
    return total


@inline_reassoc
def _triple(delta: FloatArray, x: FloatArray, g: FloatArray) -> Number:
    total = np.float64(0.0)
    for j in range(g.size):
        total += delta[j] * x[j] * g[j]
    return total


@kernel
def _forward(
    start: int,
    stop: int,
    x: FloatArray,
    delta: FloatArray,
    a: FloatArray,
    b: FloatArray,
    c: FloatArray,
    begins: npt.NDArray[np.bool_],
    state: FloatArray,
    out: FloatArray,
) -> None:
    """Fill `out` (B, T, D) without the skip, and turn the first states (B, N, D) into the last."""
    T, D = x.shape[1], x.shape[2]
    blocks = (D + BLOCK - 1) // BLOCK
    for row in range(start, stop):
        i, k = row // blocks, row % blocks * BLOCK
        m = min(k + BLOCK, D)
        for t in range(T):
            out[i, t, k:m] = 0.0
            for n in range(a.shape[0]):
                h = state[i, n, k:m]
                _start_anew(begins, i, t, h)
                _advance(delta[i, t, k:m], x[i, t, k:m], a[n, k:m], b[i, t, n], h)
                add_multiple(c[i, t, n], h, out[i, t, k:m])


@inline_fma
def _back(
    delta: FloatArray,
    x: FloatArray,
    a: FloatArray,
    b: Number,
    before: FloatArray,
    g: FloatArray,
    ddelta: FloatArray,
    dx: FloatArray,
    da: FloatArray,
) -> None:
    """
    Take a step back through one row of the state.

    `g` is the gradient of the state after the step, but for this step's output; it becomes the
    gradient of the state before.
    """
    for j in range(g.size):
        decay = exp(delta[j] * a[j])
        kept = g[j] * decay * before[j]
        ddelta[j] += a[j] * kept + g[j] * x[j] * b
        dx[j] += delta[j] * g[j] * b
        da[j] += delta[j] * kept
        g[j] *= decay


@kernel
def _vjp(
    start: int,
    stop: int,
    u: FloatArray,
    x: FloatArray,
    delta: FloatArray,
    a: FloatArray,
    b: FloatArray,
    c: FloatArray,
    begins: npt.NDArray[np.bool_],
    first: FloatArray,
    g: FloatArray,
    dx: FloatArray,
    ddelta: FloatArray,
    da: FloatArray,
    db: FloatArray,
    dc: FloatArray,
    room: FloatArray,
) -> None:
    """
    Fill the gradients, without the skip. `g` (B, N, D) comes with the gradient of the last states,
    and leaves with the gradient of the first.

    `db` and `dc` have an axis of blocks, `da` one of the batch; `room` holds the kept states, then
    the states of `STEPS` steps, then zeros.
    """
    T, D = x.shape[1], x.shape[2]
    blocks = (D + BLOCK - 1) // BLOCK
    chunks = (T + STEPS - 1) // STEPS
    for row in range(start, stop):
        i, k = row // blocks, row % blocks * BLOCK
        m = min(k + BLOCK, D)
        w = m - k
        da[i, :, k:m] = 0.0
        for n in range(a.shape[0]):
            _clear(room[chunks + STEPS + 1, n, :w])
            _copy(first[i, n, k:m], room[chunks + STEPS, n, :w])
        for t in range(T):
            for n in range(a.shape[0]):
                h = room[chunks + STEPS, n, :w]
                _start_anew(begins, i, t, h)
                if t % STEPS == 0:
                    _copy(h, room[t // STEPS, n, :w])
                _advance(delta[i, t, k:m], x[i, t, k:m], a[n, k:m], b[i, t, n], h)
        for s in range(chunks - 1, -1, -1):
            begin, end = s * STEPS, min(s * STEPS + STEPS, T)
            for n in range(a.shape[0]):
                _copy(room[s, n, :w], room[chunks, n, :w])
            for t in range(begin, end):
                for n in range(a.shape[0]):
                    to = room[chunks + t - begin + 1, n, :w]
                    _copy(room[chunks + t - begin, n, :w], to)
                    _start_anew(begins, i, t, to)
                    _advance(delta[i, t, k:m], x[i, t, k:m], a[n, k:m], b[i, t, n], to)
            for t in range(end - 1, begin - 1, -1):
                anew = begins.size > 0 and begins[i, t]
                before = chunks + STEPS + 1 if anew else chunks + t - begin
                dx[i, t, k:m] = 0.0
                ddelta[i, t, k:m] = 0.0
                for n in range(a.shape[0]):
                    after, back = room[chunks + t - begin + 1, n, :w], g[i, n, k:m]
                    add_multiple(c[i, t, n], u[i, t, k:m], back)
                    dc[i, row % blocks, t, n] = _dot(u[i, t, k:m], after)
                    db[i, row % blocks, t, n] = _triple(delta[i, t, k:m], x[i, t, k:m], back)
                    _back(
                        delta[i, t, k:m],
                        x[i, t, k:m],
                        a[n, k:m],
                        b[i, t, n],
                        room[before, n, :w],
                        back,
                        ddelta[i, t, k:m],
                        dx[i, t, k:m],
                        da[i, n, k:m],
                    )
                    _start_anew(begins, i, t, back)


def _channels_last(state: FloatArray) -> FloatArray:
    """Return a new array with the channels last."""
    return np.array(state.swapaxes(-1, -2), np.float64, order="C")


def _flags(begins: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_]:
    return np.zeros((0, 0), np.bool_) if begins is None else begins


def _blocks(D: int) -> int:
    return (D + BLOCK - 1) // BLOCK


def forward(
    x: FloatArray,
    delta: FloatArray,
    a: FloatArray,
    b: FloatArray,
    c: FloatArray,
    state: FloatArray,
    out: FloatArray,
    begins: npt.NDArray[np.bool_] | None,
) -> FloatArray:
    """Fill `out` without the skip, and return the last states (B, D, N)."""
    rows, states = x.shape[0] * _blocks(x.shape[2]), _channels_last(state)
    cost = COST * x.shape[1] * a.shape[1] * BLOCK
    given = as_carray(x), as_carray(delta), _channels_last(a), as_carray(b), as_carray(c)
    over_rows(_forward, rows, cost, *given, _flags(begins), states, out)
    return states.swapaxes(-1, -2)


def vjp(
    u: FloatArray,
    dstate: FloatArray,
    x: FloatArray,
    delta: FloatArray,
    a: FloatArray,
    b: FloatArray,
    c: FloatArray,
    state: FloatArray,
    begins: npt.NDArray[np.bool_] | None,
) -> tuple[FloatArray, ...]:
    """Return the gradients of x (without the skip), delta, a, b, c and the first states."""
    (B, T, D), N = x.shape, a.shape[1]
    rows, back = B * _blocks(D), _channels_last(dstate)
    dx, ddelta, da = np.empty(x.shape), np.empty(x.shape), np.empty((B, N, D))
    db, dc = (np.empty((B, _blocks(D), T, N)) for _ in range(2))
    kept = (T + STEPS - 1) // STEPS + STEPS + 2
    given = as_carray(x), as_carray(delta), _channels_last(a), as_carray(b), as_carray(c)
    over_rows(
        with_workspace(_vjp, kept, N, BLOCK), rows, COST_VJP * T * N * BLOCK,
        as_carray(u), *given, _flags(begins), _channels_last(state), back, dx, ddelta, da, db, dc,
    )  # fmt: skip
    return dx, ddelta, da.sum(0).T, db.sum(1), dc.sum(1), back.swapaxes(-1, -2)
