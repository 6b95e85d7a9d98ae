r"""Long short-term memory: its cell, its sequence, its gates, and their derivatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._elementary import sigmoid, tanh
from .._jit import kernel
from .._parallel import ready
from .._product import copy, multiply, pack, panels
from .._recurrence import (
    AT_ONCE,
    Inputs,
    Steps,
    cotangents,
    flat_product,
    inputs,
    moving,
    multiply_inputs,
    outer_products,
    parts_of,
    previous,
    room,
    room_for_panels,
    rooms,
    run,
    run_parts,
    total,
)
from .._validate import FloatArray

__all__ = [
    "LSTMGates",
    "lstm",
    "lstm_cell",
    "lstm_cell_jvp",
    "lstm_cell_vjp",
    "lstm_gates",
    "lstm_gates_jvp",
    "lstm_gates_vjp",
    "lstm_jvp",
    "lstm_vjp",
]

GATES = 4
ONE_STEP = Steps(None, reverse=False)


@kernel
def _sigmoids(z: FloatArray) -> None:
    for j in range(z.size):
        z[j] = sigmoid(np.float64(z[j]))


@kernel
def _add(x: FloatArray, total: FloatArray) -> None:
    for j in range(total.size):
        total[j] += x[j]


@kernel
def _add_product(p: FloatArray, c: FloatArray, z: FloatArray) -> None:
    for j in range(z.size):
        z[j] += p[j] * c[j]


@kernel
def _step(
    z: FloatArray,
    peep: FloatArray,
    old: FloatArray,
    c: FloatArray,
    h: FloatArray,
) -> None:
    """Turn the pre-activations z of one entry into gates, and the old cell state into the new."""
    size = h.size
    i, f, g, o = z[:size], z[size : 2 * size], z[2 * size : 3 * size], z[3 * size :]
    if peep.size:
        _add_product(peep[:size], old, i)
        _add_product(peep[size : 2 * size], old, f)
    _sigmoids(z[: 2 * size])
    for j in range(g.size):
        g[j] = tanh(np.float64(g[j]))
    for j in range(c.size):
        c[j] = np.float64(f[j]) * old[j] + np.float64(i[j]) * g[j]
    if peep.size:
        _add_product(peep[2 * size :], c, o)
    _sigmoids(o)
    for j in range(h.size):
        h[j] = o[j] * tanh(np.float64(c[j]))


@kernel
def _forward(
    start: int,
    stop: int,
    x: FloatArray,
    first: FloatArray,
    memory: FloatArray,
    w_ih: FloatArray,
    w_hh: FloatArray,
    bias: FloatArray,
    peep: FloatArray,
    h: FloatArray,
    c: FloatArray,
    gates: FloatArray,
) -> None:
    """Compute the states h and c (B, T, H), and keep the gates (B, T, 4 H) if there is room."""
    rows = stop - start
    some, xs, zs = rooms(rows, x, bias.size)
    before, kept = first, memory
    for t in range(h.shape[1]):
        if t % some == 0:
            multiply_inputs(x[start:stop, t : t + some], w_ih, bias, xs, zs)
        z = zs[t % some * rows : (t % some + 1) * rows]
        s = max(t - 1, 0)
        multiply(before[start:stop, s], w_hh, z)
        for r in range(rows):
            _step(z[r], peep, kept[start + r, s], c[start + r, t], h[start + r, t])
            copy(z[r], gates[start + r, t])
        before, kept = h, c


@kernel
def _forward_part(
    phase: int,
    part: int,
    x: FloatArray,
    first: FloatArray,
    memory: FloatArray,
    w_ih: FloatArray,
    w_hh: FloatArray,
    bias: FloatArray,
    peep: FloatArray,
    panels_ih: FloatArray,
    panels_hh: FloatArray,
    ahead: FloatArray,
    near: FloatArray,
    h: FloatArray,
    c: FloatArray,
    gates: FloatArray,
) -> None:
    """
    Do what `_forward` does, for some units of a single sequence: a step in each phase from 1 on.

    In phase 0 their weights become panels.  Each part has room `ahead` (N, 4 U) for what the inputs
    give to N steps, and `near` (1, H) for the state, of which another thread has written a part.
    """
    size, units = h.shape[2], ahead.shape[2] // GATES
    begin, end = part * units, (part + 1) * units
    wi, wh = panels_ih[part], panels_hh[part]
    if phase == 0:
        each = len(wi) // GATES
        for g in range(GATES):
            rows, to = slice(g * size + begin, g * size + end), slice(g * each, (g + 1) * each)
            pack(w_ih[rows].T, wi[to])
            pack(w_hh[rows].T, wh[to])
    else:
        t, zs, state = phase - 1, ahead[part, :-1], near[part, :-1]
        s, now = max(t - 1, 0), t % len(zs)
        if now == 0:
            xs = x[0, t : t + len(zs)]
            for row in zs:
                for g in range(GATES):
                    copy(bias[g * size + begin :], row[g * units : (g + 1) * units])
            multiply(xs, wi, zs[: len(xs)])
        copy(h[0, s] if t else first[0, 0], state[0])
        multiply(state, wh, zs[now : now + 1])
        z, old = zs[now], (c[0, s] if t else memory[0, 0])[begin:end]
        _step(z, peep[3 * begin : 3 * end], old, c[0, t, begin:end], h[0, t, begin:end])
        for g in range(GATES if gates.shape[2] else 0):
            copy(z[g * units :], gates[0, t, g * size + begin : g * size + end])


@kernel
def _step_back(
    z: FloatArray,
    peep: FloatArray,
    old: FloatArray,
    c: FloatArray,
    more_h: FloatArray,
    more_c: FloatArray,
    dh: FloatArray,
    dc: FloatArray,
    scratch: FloatArray,
) -> None:
    """
    Turn the gates of one entry into the gradients of their pre-activations.

    `dh` and `dc` are the gradients of the states but for `more_h` and `more_c`, and but for what
    comes to c through h; `dc` becomes that of the old cell state, and `dh` zero, for a product.
    """
    size = dh.size
    _add(more_h, dh)
    _add(more_c, dc)
    i, f, g, o = z[:size], z[size : 2 * size], z[2 * size : 3 * size], z[3 * size :]
    th, keep = scratch[:size], scratch[size : 2 * size]
    for j in range(th.size):
        th[j] = tanh(np.float64(c[j]))
    for j in range(dc.size):
        dc[j] += dh[j] * o[j] * ((1.0 - th[j]) * (1.0 + th[j]))
    for j in range(o.size):
        o[j] = dh[j] * th[j] * (o[j] * (1.0 - o[j]))
    if peep.size:
        _add_product(peep[2 * size :], o, dc)
    for j in range(keep.size):
        keep[j] = dc[j] * g[j] * (i[j] * (1.0 - i[j]))
    for j in range(g.size):
        g[j] = dc[j] * i[j] * ((1.0 - g[j]) * (1.0 + g[j]))
    for j in range(i.size):
        i[j] = keep[j]
    for j in range(keep.size):
        keep[j] = dc[j] * old[j] * (f[j] * (1.0 - f[j]))
    for j in range(dc.size):
        dc[j] *= f[j]
    for j in range(f.size):
        f[j] = keep[j]
    if peep.size:
        _add_product(peep[:size], i, dc)
        _add_product(peep[size : 2 * size], f, dc)
    for j in range(dh.size):
        dh[j] = 0.0


@kernel
def _backward(
    start: int,
    stop: int,
    memory: FloatArray,
    w: FloatArray,
    peep: FloatArray,
    c: FloatArray,
    dout_h: FloatArray,
    dout_c: FloatArray,
    z: FloatArray,
    carry_h: FloatArray,
    carry_c: FloatArray,
) -> None:
    """Turn the gates z into gradients, the carries, first zero, into those of the first states."""
    size = c.shape[2]
    scratch = np.empty(2 * size, c.dtype)
    for t in range(c.shape[1] - 1, -1, -1):
        for r in range(start, stop):
            dh, dc = carry_h[r, 0], carry_c[r, 0]
            old = c[r, t - 1] if t > 0 else memory[r, 0]
            more_h, more_c = dout_h[r, t], dout_c[r, t]
            _step_back(z[r, t], peep, old, c[r, t], more_h, more_c, dh, dc, scratch)
        multiply(z[start:stop, t], w, carry_h[start:stop, 0])


@kernel
def _backward_part(
    phase: int,
    part: int,
    memory: FloatArray,
    w_hh: FloatArray,
    peep: FloatArray,
    panels_hh: FloatArray,
    near: FloatArray,
    scratch: FloatArray,
    c: FloatArray,
    dout_h: FloatArray,
    dout_c: FloatArray,
    z: FloatArray,
    carry_h: FloatArray,
    carry_c: FloatArray,
) -> None:
    """
    Do what `_backward` does, for some units of a single sequence.

    Phase 0 makes panels, the next ones take the steps, the last completes the gradient of h0.
    """
    units = carry_h.shape[2]
    size, begin, end = c.shape[2], part * units, (part + 1) * units
    w, dh, dc, given = panels_hh[part], carry_h[part, 0], carry_c[part, 0], near[part, :-1]
    t = c.shape[1] - phase
    if phase == 0:
        pack(w_hh[:, begin:end], w)
    elif phase > 1:
        copy(z[0, t + 1], given[0])
        multiply(given, w, carry_h[part])
    if phase > 0 and t >= 0:
        more_h, more_c = dout_h[0, t, begin:end], dout_c[0, t, begin:end]
        own, rest = scratch[part, 0, : GATES * units], scratch[part, 0, GATES * units :]
        for g in range(GATES):
            copy(z[0, t, g * size + begin :], own[g * units : (g + 1) * units])
        old = (c[0, t - 1] if t else memory[0, 0])[begin:end]
        holes, new = peep[3 * begin : 3 * end], c[0, t, begin:end]
        _step_back(own, holes, old, new, more_h, more_c, dh, dc, rest)
        for g in range(GATES):
            copy(own[g * units :], z[0, t, g * size + begin : g * size + end])


class _Run(NamedTuple):
    """A forward pass, in the order of the steps."""

    x: FloatArray
    z: FloatArray  # the gates
    h: FloatArray
    c: FloatArray


def _peepholes(a: Inputs) -> list[FloatArray]:
    """Return the peepholes of i, f and o, zeros where there are none."""
    return np.split(np.zeros(3 * a.size, a.x.dtype) if a.w_p is None else a.w_p, 3)


def _peepholes_by_parts(a: Inputs, parts: int) -> FloatArray:
    """Return the peepholes of each part of the units, one part after the other."""
    if a.w_p is None:
        return np.zeros(0, a.x.dtype)
    return ready(a.w_p.reshape(3, parts, a.size // parts).swapaxes(0, 1).reshape(-1))


def _run(a: Inputs, steps: Steps, *, keep: bool = True) -> _Run:
    x = steps.arranged(a.x)
    batch, count, inputs = x.shape
    sizes = a.size, a.size, len(a.w_hh) if keep else 0
    h, c, z = (np.empty((batch, count, size), x.dtype) for size in sizes)
    cost, bias = 4 * count * a.size * (inputs + a.size + 60), a.b_ih + a.b_hh
    parts = parts_of(a, len(a.w_hh), cost)
    peep = _peepholes_by_parts(a, parts)
    if parts == 1:
        weights = panels(a.w_ih.T), panels(a.w_hh.T)
        run(_forward, cost, batch, ready(x), *a.states, *weights, bias, peep, h, c, z)
    else:
        columns, weights = len(a.w_hh) // parts, (ready(a.w_ih), ready(a.w_hh))
        rooms = [room_for_panels(parts, rows, columns, x.dtype) for rows in (inputs, a.size)]
        rooms += room(parts, AT_ONCE, columns, x.dtype), room(parts, 1, a.size, x.dtype)
        given = *a.states, *weights, bias, peep, *rooms
        run_parts(_forward_part, cost, count + 1, parts, ready(x), *given, h, c, z)
    if steps.lengths is not None:
        z, h, c = (Steps(steps.lengths, reverse=False).arranged(y) for y in (z, h, c))
    return _Run(x, z, h, c)


def _split(z: FloatArray) -> list[FloatArray]:
    return np.split(z, GATES, axis=-1)


def _slopes(z: FloatArray) -> FloatArray:
    """Return the slopes of the activations of the gates z, in the place of the gates."""
    i, f, g, o = _split(z)
    return np.concatenate([i * (1 - i), f * (1 - f), (1 - g) * (1 + g), o * (1 - o)], axis=-1)


def _pull(
    a: Inputs, steps: Steps, u_h: FloatArray, u_c: FloatArray, u_z: FloatArray | None = None
) -> tuple[FloatArray, ...]:
    """Pull cotangents of h, c and perhaps of the gates back; they are in the order of time."""
    x, z, h, c = _run(a, steps)
    u_h, u_c = ready(steps.arranged(u_h)), ready(steps.arranged(u_c))
    batch, count, size = h.shape
    first_h: Any = 0.0
    first_c: Any = 0.0
    direct = None
    if u_z is not None:  # what the gates get by themselves goes on to the states before
        direct = steps.arranged(u_z) * _slopes(z)
        into_h = flat_product(direct, a.w_hh.T)
        (d_i, d_f, _, d_o), (p_i, p_f, p_o) = _split(direct), _peepholes(a)
        into_c = d_i * p_i + d_f * p_f
        first_h, first_c = into_h[:, :1].sum(axis=1), into_c[:, :1].sum(axis=1)
        u_h, u_c = np.zeros_like(u_h), d_o * p_o
        u_h[:, :-1] += into_h[:, 1:]
        u_c[:, :-1] += into_c[:, 1:]
    cost = 4 * count * size * (size + 20)
    parts = parts_of(a, size, cost)
    peep, units = _peepholes_by_parts(a, parts), size // parts
    carries = np.zeros((2, batch * parts, 1, units), h.dtype)
    if parts == 1:
        w = panels(a.w_hh)
        run(_backward, cost, batch, a.states[1], w, peep, c, u_h, u_c, z, *carries)
    else:
        rooms = [room_for_panels(parts, len(a.w_hh), units, h.dtype)]
        rooms += (room(parts, 1, n, h.dtype) for n in (len(a.w_hh), 6 * units))
        given = a.states[1], ready(a.w_hh), peep, *rooms
        run_parts(_backward_part, cost, count + 2, parts, *given, c, u_h, u_c, z, *carries)
    carry_h, carry_c = carries.reshape(2, batch, 1, size)
    if direct is not None:
        z += direct  # the kernel has put the gradients in the place of the gates
    sums, peepholes = total(z), [peep]
    if a.w_p is not None:
        (i, f, _, o), old = _split(z), previous(a.states[1], c)
        peepholes = [total(i * old), total(f * old), total(o * c)]
    return a.gradients(
        x=steps.arranged(flat_product(z, a.w_ih.T)),
        h=carry_h[:, 0] + first_h,
        c=carry_c[:, 0] + first_c,
        w_ih=outer_products(z, x),
        w_hh=outer_products(z, previous(a.states[0], h)),
        b_ih=sums,
        b_hh=sums,
        w_p=np.concatenate(peepholes),
    )


def _push(a: Inputs, d: Inputs, steps: Steps) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the tangents of z (as gates), h and c, in the order of the steps."""
    x, z, h, c = _run(a, steps)
    moved = flat_product(steps.arranged(d.x), a.w_ih) + flat_product(x, d.w_ih)
    moved += flat_product(previous(a.states[0], h), d.w_hh)
    moved += d.b_ih + d.b_hh
    old, th, slopes = previous(a.states[1], c), np.tanh(c), _slopes(z)
    (p_i, p_f, p_o), (dp_i, dp_f, dp_o) = _peepholes(a), _peepholes(d)
    dh, dc = (state[:, 0] for state in d.states)
    out_h, out_c = np.empty_like(h), np.empty_like(c)
    for t in range(h.shape[1]):
        i, f, g, o = _split(z[:, t])
        moved[:, t] += dh @ a.w_hh.T
        z_i, z_f, _, z_o = _split(moved[:, t])  # views
        z_i += p_i * dc + dp_i * old[:, t]
        z_f += p_f * dc + dp_f * old[:, t]
        moved[:, t, : 3 * a.size] *= slopes[:, t, : 3 * a.size]
        d_i, d_f, d_g, _ = _split(moved[:, t])
        dc = f * dc + d_f * old[:, t] + i * d_g + d_i * g
        z_o += p_o * dc + dp_o * c[:, t]
        z_o *= slopes[:, t, 3 * a.size :]
        dh = z_o * th[:, t] + o * (1 - th[:, t]) * (1 + th[:, t]) * dc
        out_h[:, t], out_c[:, t] = dh, dc
    return moved, out_h, out_c


class LSTMGates(NamedTuple):
    """
    Gates of an LSTM, as :func:`lstm_gates` returns them.

    Parameters
    ----------
    i : ndarray, shape (..., T, H)
        Input gates, between 0 and 1: how much of the candidate is written.
    f : ndarray, shape (..., T, H)
        Forget gates, between 0 and 1: how much of the cell state is kept.
    g : ndarray, shape (..., T, H)
        Candidates, between -1 and 1: what is written.
    o : ndarray, shape (..., T, H)
        Output gates, between 0 and 1: how much of the cell state is shown.

    See Also
    --------
    lstm_gates : Computes them.

    Notes
    -----
    The order is that of PyTorch and of the rows of all weights.
    :func:`dlref.interop.convert_gates` changes it.

    Examples
    --------
    >>> from dlref.recurrent import LSTMGates
    >>> LSTMGates._fields
    ('i', 'f', 'g', 'o')
    """

    i: FloatArray
    f: FloatArray
    g: FloatArray
    o: FloatArray


def lstm_cell(
    x: npt.ArrayLike,
    h: npt.ArrayLike | None,
    c: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    w_p: npt.ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""
    One step of long short-term memory.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Input of this step.
    h, c : array_like or None, shape (..., H)
        State and cell state before it; None is zero.
    w_ih : array_like, shape (4 H, D)
        Weights of the input, for the gates i, f, g, o in this order.
    w_hh : array_like, shape (4 H, H)
        Weights of the state, in the same order.
    b_ih, b_hh : array_like or None, shape (4 H,)
        Biases, of which only the sum matters; None is zero.
    w_p : array_like or None, shape (3 H,)
        Peepholes in the order i, f, o; None has none.

    Returns
    -------
    h : ndarray, shape (..., H)
        State after the step.
    c : ndarray, shape (..., H)
        Cell state after the step.

    Raises
    ------
    TypeError
        If an array is not real.
    ValueError
        If a shape does not fit.

    See Also
    --------
    lstm : Many steps.
    lstm_cell_vjp : Its gradients.
    gru_cell : Three gates instead of four.

    Notes
    -----
    Six equations. Three gates, between 0 and 1, and a candidate, between -1 and 1, each a dense
    layer of input and state, with :math:`\vec b = \vec b_{ih} + \vec b_{hh}`:

    .. math::

        \vec i &= \sigma(\mat W_{xi} \vec x + \mat W_{hi} \vec h + \vec b_i), &
        \vec f &= \sigma(\mat W_{xf} \vec x + \mat W_{hf} \vec h + \vec b_f), \\
        \vec g &= \tanh(\mat W_{xg} \vec x + \mat W_{hg} \vec h + \vec b_g), &
        \vec o &= \sigma(\mat W_{xo} \vec x + \mat W_{ho} \vec h + \vec b_o),

    and the two states, where :math:`\circ` multiplies element by element:

    .. math::

        \vec c' = \vec f \circ \vec c + \vec i \circ \vec g, \qquad
        \vec h' = \vec o \circ \tanh(\vec c').

    The cell state is *added to*, not rewritten: that is the whole idea. `w_ih` holds
    :math:`\mat W_{xi}, \mat W_{xf}, \mat W_{xg}, \mat W_{xo}` one below the other.

    **Peepholes** let the gates see the cell state, each unit its own:
    :math:`\vec p_i \circ \vec c` and :math:`\vec p_f \circ \vec c` are added inside of the
    input and the forget gate, :math:`\vec p_o \circ \vec c'`, of the new state, inside of the
    output gate.

    The first LSTM had no forget gate, :math:`\vec f = 1`; Gers and others added it.

    References
    ----------
    - :cite:t:`Hochreiter1997`
    - :cite:t:`Gers2000`
    - :cite:t:`GersSchmidhuber2000`

    Examples
    --------
    With weights of 0 all gates are half open and the candidate is 0; the cell state halves:

    >>> import numpy as np
    >>> from dlref.recurrent import lstm_cell
    >>> h, c = lstm_cell([1.0], [0.0], [3.0], np.zeros((4, 1)), np.zeros((4, 1)))
    >>> c
    array([1.5])
    >>> h / np.tanh(1.5)
    array([0.5])
    """
    values = {
        "x": x,
        "h": h,
        "c": c,
        "w_ih": w_ih,
        "w_hh": w_hh,
        "b_ih": b_ih,
        "b_hh": b_hh,
        "w_p": w_p,
    }
    a, _ = inputs(values, gates=GATES, states=2, cell=True)
    forward = _run(a, ONE_STEP, keep=False)
    h, c = a.outputs(forward.h, forward.c)
    return h, c


def lstm_cell_vjp(
    dout: Any,
    x: npt.ArrayLike,
    h: npt.ArrayLike | None,
    c: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    w_p: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of one step of long short-term memory.

    Parameters
    ----------
    dout : tuple (dh, dc) of array_like or None, shape (..., H)
        Cotangents of the new states; None is zero.
    x : array_like, shape (..., D)
        Input of this step.
    h, c : array_like or None, shape (..., H)
        State and cell state before it; None is zero.
    w_ih : array_like, shape (4 H, D)
        Weights of the input, for the gates i, f, g, o in this order.
    w_hh : array_like, shape (4 H, H)
        Weights of the state, in the same order.
    b_ih, b_hh : array_like or None, shape (4 H,)
        Biases, of which only the sum matters; None is zero.
    w_p : array_like or None, shape (3 H,)
        Peepholes in the order i, f, o; None has none.

    Returns
    -------
    tuple of ndarray
        Gradients (dx, dh, dc, dw_ih, dw_hh, db_ih, db_hh, dw_p), without those of what was None.

    Raises
    ------
    TypeError
        If an array is not real.
    ValueError
        If a shape does not fit.

    See Also
    --------
    lstm_vjp : Through many steps, with the derivation.
    lstm_cell_jvp : Forward mode.

    Notes
    -----
    The formulas of :func:`lstm_vjp` for T = 1. Along the cell state the gradient passes one
    product,

    .. math:: \pdv{L}{\vec c} = \vec f \circ \pdv{L}{\vec c'} \quad (\text{no peepholes}),

    and no matrix, no slope of an activation.

    Examples
    --------
    Weights of 0: half of the gradient of the cell state goes back.

    >>> import numpy as np
    >>> from dlref.recurrent import lstm_cell_vjp
    >>> w = np.zeros((4, 1))
    >>> dx, dh, dc, dw_ih, dw_hh = lstm_cell_vjp(([0.0], [1.0]), [1.0], [0.0], [3.0], w, w)
    >>> dc
    array([0.5])

    Only the forget gate, with the slope 1/4 times the state 3, and the candidate, with half of it
    written, matter to the cell state:

    >>> dw_ih.T
    array([[0.  , 0.75, 0.5 , 0.  ]])
    """
    values = {
        "x": x,
        "h": h,
        "c": c,
        "w_ih": w_ih,
        "w_hh": w_hh,
        "b_ih": b_ih,
        "b_hh": b_hh,
        "w_p": w_p,
    }
    a, [u_h, u_c] = cotangents(dout, values, outputs=2, gates=GATES, states=2, cell=True)
    return _pull(a, ONE_STEP, u_h, u_c)


def lstm_cell_jvp(
    primals: Any,
    tangents: Any,
    *,
    w_p: npt.ArrayLike | None = None,
    w_p_tangent: npt.ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Jacobian-vector product (forward mode) of one step of long short-term memory.

    Parameters
    ----------
    primals : tuple (x, h, c, w_ih, w_hh, b_ih, b_hh) of array_like or None
        The positional arguments of :func:`lstm_cell`.
    tangents : tuple of array_like or None
        Their directions; None is zero.
    w_p, w_p_tangent : array_like or None, shape (3 H,)
        Peepholes and their direction.

    Returns
    -------
    dh : ndarray, shape (..., H)
        Rate of change of the new state.
    dc : ndarray, shape (..., H)
        Rate of change of the new cell state.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If a shape does not fit, or an operand that is None
        has a tangent.

    See Also
    --------
    lstm_jvp : Through many steps, with the derivation.
    lstm_cell_vjp : Reverse mode.

    Notes
    -----
    The product rule on both states, with a dot for a tangent:

    .. math::

        \dot{\vec c}' = \vec f \circ \dot{\vec c} + \dot{\vec f} \circ \vec c
            + \vec i \circ \dot{\vec g} + \dot{\vec i} \circ \vec g, \qquad
        \dot{\vec h}' = \dot{\vec o} \circ \tanh \vec c'
            + \vec o \circ (1 - \tanh^2 \vec c') \circ \dot{\vec c}' .

    Examples
    --------
    Weights of 0: the cell state follows half of its own change.

    >>> import numpy as np
    >>> from dlref.recurrent import lstm_cell_jvp
    >>> primals = [1.0], [0.0], [3.0], np.zeros((4, 1)), np.zeros((4, 1)), None, None
    >>> dh, dc = lstm_cell_jvp(primals, (None, None, [1.0], None, None, None, None))
    >>> dc
    array([0.5])
    """
    a, d = moving(
        primals, tangents, gates=GATES, states=2, cell=True, w_p=w_p, w_p_tangent=w_p_tangent
    )
    _, h, c = _push(a, d, ONE_STEP)
    h, c = a.outputs(h, c)
    return h, c


def lstm(
    x: npt.ArrayLike,
    h0: npt.ArrayLike | None,
    c0: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    w_p: npt.ArrayLike | None = None,
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Run long short-term memory over a sequence; return both states after each step.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        Inputs, time second to last.
    h0, c0 : array_like or None, shape (..., H)
        State and cell state before the first step; None is zero.
    w_ih : array_like, shape (4 H, D)
        Weights of the input, for the gates i, f, g, o in this order.
    w_hh : array_like, shape (4 H, H)
        Weights of the state, in the same order.
    b_ih, b_hh : array_like or None, shape (4 H,)
        Biases, of which only the sum matters; None is zero.
    w_p : array_like or None, shape (3 H,)
        Peepholes in the order i, f, o; None has none.
    reverse : bool, default False
        Whether the steps go from the last time to the first; the outputs stay in the order of the
        input.
    lengths : array_like of int or None, shape (...)
        Number of steps of each entry, from 0 to T; None is T for all. Outputs beyond are 0.

    Returns
    -------
    h : ndarray, shape (..., T, H)
        State after each step.
    c : ndarray, shape (..., T, H)
        Cell state after each step.

    Raises
    ------
    TypeError
        If an array is not real, or `lengths` not integer.
    ValueError
        If a shape does not fit, or a length is not between 0 and T.

    See Also
    --------
    lstm_cell : One step: the six equations.
    lstm_gates : The gates of the same run.
    lstm_vjp : Backpropagation through time.
    rnn, gru : Other cells.
    dlref.interop.convert_gates : Weights in the order of other libraries.

    Notes
    -----
    :func:`lstm_cell` at every step, with the same weights.

    **How long it remembers.** Unrolled, the cell state is a sum of all that was ever written,
    each weighted by the product of the forget gates since:

    .. math::

        \vec c_t = \Bigl( \prod_{k=1}^{t} \vec f_k \Bigr) \circ \vec c_0
            + \sum_{s=1}^{t} \Bigl( \prod_{k=s+1}^{t} \vec f_k \Bigr)
              \circ \vec i_s \circ \vec g_s .

    A gate at 0.99 keeps 37 % over 100 steps, one at 1/2, where it stands if weights and biases
    are 0, keeps :math:`10^{-30}`. So the bias of the forget gate is best started at 1 (f = 0.73)
    or more: rows H to 2 H of `b_ih` or `b_hh`. If a unit is to remember d steps, a
    bias of :math:`\ln(d - 1)` puts its gate at 1 - 1/d.

    **Computation.** As in :func:`rnn`: one product for all inputs, then one compiled loop over
    time in which threads share out the entries of the batch. Time is proportional to
    4 B T H (D + H), memory to 6 B T H. Errors in float32 are those of :func:`rnn`.

    References
    ----------
    - :cite:t:`Hochreiter1997`
    - :cite:t:`Gers2000`
    - :cite:t:`Jozefowicz2015`

    Examples
    --------
    An open forget gate and a closed input gate keep what is there, whatever comes in:

    >>> import numpy as np
    >>> from dlref.recurrent import lstm
    >>> x, zero = np.arange(5.0)[:, None], np.zeros((4, 1))
    >>> h, c = lstm(x, [0.0], [0.25], zero, zero, b_ih=[-99, 99, 0, 0])
    >>> c.T
    array([[0.25, 0.25, 0.25, 0.25, 0.25]])

    With biases of 0 it would have been halved at each step:

    >>> lstm(x, [0.0], [0.25], zero, zero)[1].T * 4
    array([[0.5    , 0.25   , 0.125  , 0.0625 , 0.03125]])
    """
    values = {
        "x": x,
        "h0": h0,
        "c0": c0,
        "w_ih": w_ih,
        "w_hh": w_hh,
        "b_ih": b_ih,
        "b_hh": b_hh,
        "w_p": w_p,
    }
    a, _ = inputs(values, gates=GATES, states=2)
    steps = a.steps(lengths, reverse=reverse)
    forward = _run(a, steps, keep=False)
    h, c = a.outputs(steps.arranged(forward.h), steps.arranged(forward.c))
    return h, c


def lstm_vjp(
    dout: Any,
    x: npt.ArrayLike,
    h0: npt.ArrayLike | None,
    c0: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    w_p: npt.ArrayLike | None = None,
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Backpropagation through time: the vector-Jacobian product of :func:`lstm`.

    Parameters
    ----------
    dout : tuple (dh, dc) of array_like or None, shape (..., T, H)
        Cotangents of the states after each step, not counting what reaches the loss through
        later ones; None is zero.
    x : array_like, shape (..., T, D)
        Inputs, time second to last.
    h0, c0 : array_like or None, shape (..., H)
        State and cell state before the first step; None is zero.
    w_ih : array_like, shape (4 H, D)
        Weights of the input, for the gates i, f, g, o in this order.
    w_hh : array_like, shape (4 H, H)
        Weights of the state, in the same order.
    b_ih, b_hh : array_like or None, shape (4 H,)
        Biases, of which only the sum matters; None is zero.
    w_p : array_like or None, shape (3 H,)
        Peepholes in the order i, f, o; None has none.
    reverse : bool, default False
        Whether the steps go from the last time to the first; the outputs stay in the order of the
        input.
    lengths : array_like of int or None, shape (...)
        Number of steps of each entry, from 0 to T; None is T for all. Outputs beyond are 0.

    Returns
    -------
    tuple of ndarray
        Gradients (dx, dh0, dc0, dw_ih, dw_hh, db_ih, db_hh, dw_p), without those of what was None.

    Raises
    ------
    TypeError
        If an array is not real, or `lengths` not integer.
    ValueError
        If a shape does not fit, or a length is not between 0 and T.

    See Also
    --------
    lstm_jvp : Forward mode.
    rnn_vjp : The same idea for one state, step by step.

    Notes
    -----
    Two gradients come from the step after: :math:`\bar{\vec h}_t`, through the products with
    :math:`\mat W_{hh}`, and :math:`\bar{\vec c}_t`, along the cell state. At step t:

    1. *The state*: :math:`\vec\eta = \vec u^h_t + \bar{\vec h}_t` is
       :math:`\mathrm dL / \mathrm d \vec h_t`.
    2. *The output gate*: :math:`\vec h_t = \vec o_t \circ \tanh \vec c_t`, so its
       pre-activation has
       :math:`\vec\delta_o = \vec\eta \circ \tanh \vec c_t \circ \vec o_t \circ (1 - \vec o_t)`.
    3. *The cell state* is in :math:`\vec h_t`, in :math:`\vec c_{t+1}`, in the output, and in the
       peephole of o:

       .. math::

           \vec\kappa = \vec u^c_t + \bar{\vec c}_t
             + \vec\eta \circ \vec o_t \circ (1 - \tanh^2 \vec c_t) + \vec p_o \circ \vec\delta_o .

    4. *The other gates*, from
       :math:`\vec c_t = \vec f_t \circ \vec c_{t-1} + \vec i_t \circ \vec g_t`:

       .. math::

           \vec\delta_i &= \vec\kappa \circ \vec g_t \circ \vec i_t \circ (1 - \vec i_t), \\
           \vec\delta_f &= \vec\kappa \circ \vec c_{t-1} \circ \vec f_t \circ (1 - \vec f_t), \\
           \vec\delta_g &= \vec\kappa \circ \vec i_t \circ (1 - \vec g_t^2) .

    5. *The step before* gets, with :math:`\vec\delta = (\vec\delta_i, \vec\delta_f, \vec\delta_g,
       \vec\delta_o)`,

       .. math::

           \bar{\vec h}_{t-1} = \mat W_{hh}^\top \vec\delta, \qquad
           \bar{\vec c}_{t-1} = \vec f_t \circ \vec\kappa
             + \vec p_i \circ \vec\delta_i + \vec p_f \circ \vec\delta_f .

    6. *The weights* are those of a dense layer, summed over steps and batch: :math:`\partial L
       / \partial \mat W_{hh} = \sum_t \vec\delta\, \vec h_{t-1}^\top`, with :math:`\vec x_t`
       for :math:`\mat W_{ih}` and 1 for the biases;
       :math:`\partial L / \partial \vec p_f = \sum_t \vec\delta_f \circ \vec c_{t-1}`,
       likewise for i, and with :math:`\vec c_t` for o.

    **The direct path.** Along the cell states alone the Jacobian is
    :math:`\partial \vec c_T / \partial \vec c_0 = \prod_t \operatorname{diag} \vec f_t`. Gradients
    do not flow *unchanged* unless the gates are 1: with biases of 0, :math:`f \approx 1/2`, they
    vanish as fast as anywhere. The product cannot exceed 1, but this is not all of the
    gradient: through the gates the state feeds back with :math:`\mat W_{hh}`, and there
    it may explode. So gradients of LSTMs are clipped, too.

    **Cost.** About twice the products of the forward pass, and the forward pass itself. Kept for
    the way back are the gates, whose place the gradients :math:`\vec\delta` then take, both
    states, and the states before: 7 B T H numbers, beside copies of the cotangents. The code
    computes :math:`\tanh \vec c` again. Slopes come from values, :math:`o (1 - o)` and
    :math:`(1 - g) (1 + g)`: exact to a rounding of 1, not relative to that of a saturated gate.

    References
    ----------
    - :cite:t:`Gers2000`
    - :cite:t:`GersSchmidhuber2000`
    - :cite:t:`Werbos1990`

    Examples
    --------
    With weights and biases of 0 the gates are 1/2, and after 5 steps 1/32 of the gradient is left:

    >>> import numpy as np
    >>> from dlref.recurrent import lstm_vjp
    >>> x, zero, u = np.zeros((5, 1)), np.zeros((4, 1)), np.zeros((5, 1))
    >>> u[-1] = 1
    >>> dx, dh0, dc0, dw_ih, dw_hh = lstm_vjp((None, u), x, [0.0], [0.0], zero, zero)
    >>> dc0 * 32
    array([1.])

    Forget gates with a bias of 4 keep most of it:

    >>> b = [0, 4, 0, 0]
    >>> float(lstm_vjp((None, u), x, [0.0], [0.0], zero, zero, b)[2][0])
    0.9132
    """
    values = {
        "x": x,
        "h0": h0,
        "c0": c0,
        "w_ih": w_ih,
        "w_hh": w_hh,
        "b_ih": b_ih,
        "b_hh": b_hh,
        "w_p": w_p,
    }
    a, [u_h, u_c] = cotangents(dout, values, outputs=2, gates=GATES, states=2)
    return _pull(a, a.steps(lengths, reverse=reverse), u_h, u_c)


def lstm_jvp(
    primals: Any,
    tangents: Any,
    *,
    w_p: npt.ArrayLike | None = None,
    w_p_tangent: npt.ArrayLike | None = None,
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Jacobian-vector product (forward mode) of :func:`lstm`.

    Parameters
    ----------
    primals : tuple (x, h0, c0, w_ih, w_hh, b_ih, b_hh) of array_like or None
        The positional arguments of :func:`lstm`.
    tangents : tuple of array_like or None
        Their directions; None is zero.
    w_p, w_p_tangent : array_like or None, shape (3 H,)
        Peepholes and their direction.
    reverse : bool, default False
        Whether the steps go from the last time to the first; the outputs stay in the order of the
        input.
    lengths : array_like of int or None, shape (...)
        Number of steps of each entry, from 0 to T; None is T for all. Outputs beyond are 0.

    Returns
    -------
    dh : ndarray, shape (..., T, H)
        Rate of change of each state.
    dc : ndarray, shape (..., T, H)
        Rate of change of each cell state.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array, or `lengths` not integer.
    ValueError
        If a shape does not fit, a length is not between 0 and T, or an operand that is None
        has a tangent.

    See Also
    --------
    lstm_vjp : Reverse mode.
    rnn_jvp : Forward mode and real-time recurrent learning.

    Notes
    -----
    Tangents travel with the states. With a dot for a tangent, the pre-activations move by

    .. math::

        \dot{\vec z}_t = \mat W_{ih} \dot{\vec x}_t + \dot{\mat W}_{ih} \vec x_t
          + \mat W_{hh} \dot{\vec h}_{t-1} + \dot{\mat W}_{hh} \vec h_{t-1} + \dot{\vec b} ,

    and by :math:`\vec p \circ \dot{\vec c} + \dot{\vec p} \circ \vec c` with peepholes; the gates
    by that times their slopes; and the states as :func:`lstm_cell_jvp` says.

    Examples
    --------
    A change of the initial cell state is halved by each step with weights of 0:

    >>> import numpy as np
    >>> from dlref.recurrent import lstm_jvp
    >>> zero = np.zeros((4, 1))
    >>> primals = np.zeros((3, 1)), [0.0], [0.0], zero, zero, None, None
    >>> dh, dc = lstm_jvp(primals, (None, None, [1.0], None, None, None, None))
    >>> dc.T
    array([[0.5  , 0.25 , 0.125]])
    """
    a, d = moving(primals, tangents, gates=GATES, states=2, w_p=w_p, w_p_tangent=w_p_tangent)
    steps = a.steps(lengths, reverse=reverse)
    _, h, c = _push(a, d, steps)
    h, c = a.outputs(steps.arranged(h), steps.arranged(c))
    return h, c


def lstm_gates(
    x: npt.ArrayLike,
    h0: npt.ArrayLike | None,
    c0: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    w_p: npt.ArrayLike | None = None,
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
) -> LSTMGates:
    r"""
    All four gates of an LSTM, at each step of a sequence.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        Inputs, time second to last.
    h0, c0 : array_like or None, shape (..., H)
        State and cell state before the first step; None is zero.
    w_ih : array_like, shape (4 H, D)
        Weights of the input, for the gates i, f, g, o in this order.
    w_hh : array_like, shape (4 H, H)
        Weights of the state, in the same order.
    b_ih, b_hh : array_like or None, shape (4 H,)
        Biases, of which only the sum matters; None is zero.
    w_p : array_like or None, shape (3 H,)
        Peepholes in the order i, f, o; None has none.
    reverse : bool, default False
        Whether the steps go from the last time to the first; the outputs stay in the order of the
        input.
    lengths : array_like of int or None, shape (...)
        Number of steps of each entry, from 0 to T; None is T for all. Outputs beyond are 0.

    Returns
    -------
    LSTMGates
        The tuple (i, f, g, o), each of shape (..., T, H).

    Raises
    ------
    TypeError
        If an array is not real, or `lengths` not integer.
    ValueError
        If a shape does not fit, or a length is not between 0 and T.

    See Also
    --------
    lstm : The states of the same run.
    LSTMGates : What each gate does.

    Notes
    -----
    The first four equations of :func:`lstm_cell`. The states follow from the gates alone:
    :math:`\vec c_t = \vec f_t \circ \vec c_{t-1} + \vec i_t \circ \vec g_t` and
    :math:`\vec h_t = \vec o_t \circ \tanh \vec c_t`.

    Examples
    --------
    The product of the forget gates is what is left of the initial cell state if nothing is
    written:

    >>> import numpy as np
    >>> from dlref.recurrent import lstm, lstm_gates
    >>> rng = np.random.default_rng(0)
    >>> w_ih, w_hh = rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    >>> w_ih[4:6] = w_hh[4:6] = 0  # candidates of 0
    >>> x, c0 = rng.normal(size=(5, 3)), np.array([1.0, 2.0])
    >>> gates = lstm_gates(x, None, c0, w_ih, w_hh)
    >>> h, c = lstm(x, None, c0, w_ih, w_hh)
    >>> bool(np.allclose(c[-1], gates.f.prod(axis=0) * c0, rtol=1e-15))
    True
    """
    values = {
        "x": x,
        "h0": h0,
        "c0": c0,
        "w_ih": w_ih,
        "w_hh": w_hh,
        "b_ih": b_ih,
        "b_hh": b_hh,
        "w_p": w_p,
    }
    a, _ = inputs(values, gates=GATES, states=2)
    steps = a.steps(lengths, reverse=reverse)
    return LSTMGates(*a.outputs(*_split(steps.arranged(_run(a, steps).z))))


def lstm_gates_vjp(
    dout: Any,
    x: npt.ArrayLike,
    h0: npt.ArrayLike | None,
    c0: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    w_p: npt.ArrayLike | None = None,
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of :func:`lstm_gates`.

    Parameters
    ----------
    dout : tuple (di, df, dg, do) of array_like or None, shape (..., T, H)
        Cotangents of the gates after each step; None is zero.
    x : array_like, shape (..., T, D)
        Inputs, time second to last.
    h0, c0 : array_like or None, shape (..., H)
        State and cell state before the first step; None is zero.
    w_ih : array_like, shape (4 H, D)
        Weights of the input, for the gates i, f, g, o in this order.
    w_hh : array_like, shape (4 H, H)
        Weights of the state, in the same order.
    b_ih, b_hh : array_like or None, shape (4 H,)
        Biases, of which only the sum matters; None is zero.
    w_p : array_like or None, shape (3 H,)
        Peepholes in the order i, f, o; None has none.
    reverse : bool, default False
        Whether the steps go from the last time to the first; the outputs stay in the order of the
        input.
    lengths : array_like of int or None, shape (...)
        Number of steps of each entry, from 0 to T; None is T for all. Outputs beyond are 0.

    Returns
    -------
    tuple of ndarray
        Gradients (dx, dh0, dc0, dw_ih, dw_hh, db_ih, db_hh, dw_p), without those of what was None.

    Raises
    ------
    TypeError
        If an array is not real, or `lengths` not integer.
    ValueError
        If a shape does not fit, or a length is not between 0 and T.

    See Also
    --------
    lstm_vjp : From the states.
    lstm_gates_jvp : Forward mode.

    Notes
    -----
    A cotangent of a gate, times its slope, is a gradient of its pre-activation. From there it
    goes to the weights directly, and as a cotangent to the states before, with which
    :func:`lstm_vjp` goes on. A penalty on gates, say to keep them open, is differentiated so.

    Examples
    --------
    A sigmoid of 0 has slope 1/4:

    >>> import numpy as np
    >>> from dlref.recurrent import lstm_gates_vjp
    >>> zero = np.zeros((4, 1))
    >>> u = np.ones((1, 1))
    >>> lstm_gates_vjp((None, u, None, None), [[2.0]], None, None, zero, zero, zero[:, 0])[3]
    array([0.  , 0.25, 0.  , 0.  ])
    """
    values = {
        "x": x,
        "h0": h0,
        "c0": c0,
        "w_ih": w_ih,
        "w_hh": w_hh,
        "b_ih": b_ih,
        "b_hh": b_hh,
        "w_p": w_p,
    }
    a, gates = cotangents(dout, values, outputs=GATES, gates=GATES, states=2)
    zero, steps = np.zeros_like(gates[0]), a.steps(lengths, reverse=reverse)
    return _pull(a, steps, zero, zero, np.concatenate(gates, axis=-1))


def lstm_gates_jvp(
    primals: Any,
    tangents: Any,
    *,
    w_p: npt.ArrayLike | None = None,
    w_p_tangent: npt.ArrayLike | None = None,
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
) -> LSTMGates:
    r"""
    Jacobian-vector product (forward mode) of :func:`lstm_gates`.

    Parameters
    ----------
    primals : tuple (x, h0, c0, w_ih, w_hh, b_ih, b_hh) of array_like or None
        The positional arguments of :func:`lstm_gates`.
    tangents : tuple of array_like or None
        Their directions; None is zero.
    w_p, w_p_tangent : array_like or None, shape (3 H,)
        Peepholes and their direction.
    reverse : bool, default False
        Whether the steps go from the last time to the first; the outputs stay in the order of the
        input.
    lengths : array_like of int or None, shape (...)
        Number of steps of each entry, from 0 to T; None is T for all. Outputs beyond are 0.

    Returns
    -------
    LSTMGates
        Rates of change of i, f, g and o, each of shape (..., T, H).

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array, or `lengths` not integer.
    ValueError
        If a shape does not fit, a length is not between 0 and T, or an operand that is None
        has a tangent.

    See Also
    --------
    lstm_jvp : Of the states.
    lstm_gates_vjp : Reverse mode.

    Notes
    -----
    :math:`\dot{\vec f}_t = \vec f_t \circ (1 - \vec f_t) \circ \dot{\vec z}_{f,t}`, likewise
    for the others, with the tangents of the pre-activations of :func:`lstm_jvp`.

    Examples
    --------
    Along the bias of the forget gate, with slope 1/4:

    >>> import numpy as np
    >>> from dlref.recurrent import lstm_gates_jvp
    >>> zero = np.zeros((4, 1))
    >>> primals = [[2.0]], None, None, zero, zero, zero[:, 0], None
    >>> moved = lstm_gates_jvp(primals, (None, None, None, None, None, [0, 1, 0, 0], None))
    >>> moved.f
    array([[0.25]])
    """
    a, d = moving(primals, tangents, gates=GATES, states=2, w_p=w_p, w_p_tangent=w_p_tangent)
    steps = a.steps(lengths, reverse=reverse)
    return LSTMGates(*a.outputs(*_split(steps.arranged(_push(a, d, steps)[0]))))
