r"""The gated recurrent unit: its cell and its sequence, with the reset before or after."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._elementary import sigmoid, tanh
from .._jit import kernel
from .._parallel import ready
from .._product import copy, multiply, panels
from .._recurrence import (
    Inputs,
    Steps,
    cotangents,
    flat_product,
    inputs,
    moving,
    multiply_inputs,
    outer_products,
    previous,
    rooms,
    run,
    total,
)
from .._validate import FloatArray

__all__ = ["gru", "gru_cell", "gru_cell_jvp", "gru_cell_vjp", "gru_jvp", "gru_vjp"]

GATES = 3
ONE_STEP = Steps(None, reverse=False)


@kernel
def _gates(z: FloatArray, inside: FloatArray, old: FloatArray, after: bool) -> None:
    """Turn the pre-activations of r and z into gates, and prepare what is inside of n."""
    size = inside.size
    r = z[:size]
    for j in range(2 * size):
        z[j] = sigmoid(np.float64(z[j]))
    if not after:
        for j in range(size):
            inside[j] = r[j] * old[j]


@kernel
def _candidate(
    z: FloatArray, inside: FloatArray, old: FloatArray, after: bool, h: FloatArray
) -> None:
    """Turn the pre-activation of n into n, and the old state into the new."""
    size = h.size
    r, u, n = z[:size], z[size : 2 * size], z[2 * size :]
    if after:
        for j in range(n.size):
            n[j] += r[j] * inside[j]
    for j in range(n.size):
        n[j] = tanh(np.float64(n[j]))
    for j in range(h.size):
        h[j] = n[j] + u[j] * (old[j] - n[j])


@kernel
def _forward(
    start: int,
    stop: int,
    x: FloatArray,
    first: FloatArray,
    w_ih: FloatArray,
    w_rz: FloatArray,
    w_n: FloatArray,
    bias: FloatArray,
    bias_inside: FloatArray,
    after: bool,
    inside: FloatArray,
    h: FloatArray,
    gates: FloatArray,
) -> None:
    """
    Compute the states h (B, T, H), and keep the gates (B, T, 3 H) if there is room.

    `inside` (B, T, H) is what W_hn makes of the state (after), or the reset state (before).
    """
    rows, size = stop - start, h.shape[2]
    some, xs, zs = rooms(rows, x, bias.size)
    before = first
    for t in range(h.shape[1]):
        s = max(t - 1, 0)
        if t % some == 0:
            multiply_inputs(x[start:stop, t : t + some], w_ih, bias, xs, zs)
        z, held = zs[t % some * rows : (t % some + 1) * rows], inside[start:stop, t]
        if after:
            for r in range(rows):
                copy(bias_inside, held[r])
        for part in range(2):  # one call of multiply: each is compiled anew
            states, w, to = before[start:stop, s], w_rz, z[:, : 2 * size]
            if part == 1:
                w = w_n
                if after:
                    to = held
                else:
                    states, to = held, z[:, 2 * size :]
            multiply(states, w, to)
            for r in range(rows):
                if part == 0:
                    _gates(z[r], held[r], before[start + r, s], after)
                else:
                    _candidate(z[r], held[r], before[start + r, s], after, h[start + r, t])
        for r in range(rows):
            copy(z[r], gates[start + r, t])
        before = h


@kernel
def _start_back(
    z: FloatArray,
    inside: FloatArray,
    old: FloatArray,
    after: bool,
    dh: FloatArray,
    keep: FloatArray,
) -> None:
    """Put the gradients of n and z in their places, and in that of r what r will be needed for."""
    size = dh.size
    r, u, n = z[:size], z[size : 2 * size], z[2 * size :]
    for j in range(keep.size):
        keep[j] = dh[j] * (old[j] - n[j]) * (u[j] * (1.0 - u[j]))
    for j in range(n.size):
        n[j] = dh[j] * (1.0 - u[j]) * ((1.0 - n[j]) * (1.0 + n[j]))
    for j in range(dh.size):
        dh[j] *= u[j]
    for j in range(u.size):
        u[j] = keep[j]
    if after:
        for j in range(keep.size):
            keep[j] = n[j] * inside[j] * (r[j] * (1.0 - r[j]))
        for j in range(inside.size):
            inside[j] = n[j] * r[j]
        for j in range(r.size):
            r[j] = keep[j]


@kernel
def _end_back(r: FloatArray, old: FloatArray, into: FloatArray, dh: FloatArray) -> None:
    """Put the gradient of r in its place, from that of the reset state; clear the latter."""
    for j in range(dh.size):
        dh[j] += into[j] * r[j]
    for j in range(r.size):
        r[j] = into[j] * old[j] * (r[j] * (1.0 - r[j]))
    for j in range(into.size):
        into[j] = 0.0


@kernel
def _backward(
    start: int,
    stop: int,
    first: FloatArray,
    w_rz: FloatArray,
    w_n: FloatArray,
    after: bool,
    dout: FloatArray,
    h: FloatArray,
    z: FloatArray,
    inside: FloatArray,
    carry: FloatArray,
    reset: FloatArray,
) -> None:
    """
    Turn the gates z into gradients of their pre-activations, and `carry` into that of `first`.

    `inside` becomes the gradient of what W_hn made of the state (after).  `carry` and `reset`
    (B, 1, H) are zero at the start.
    """
    size = h.shape[2]
    keep = np.empty(size, h.dtype)
    for t in range(h.shape[1] - 1, -1, -1):
        for r in range(start, stop):
            dh, more = carry[r, 0], dout[r, t]
            for j in range(dh.size):
                dh[j] += more[j]
            old = h[r, t - 1] if t > 0 else first[r, 0]
            _start_back(z[r, t], inside[r, t], old, after, dh, keep)
        for part in range(2):  # through n, then through r and z
            rows, w, to = z[start:stop, t, : 2 * size], w_rz, carry[start:stop, 0]
            if part == 0:
                w = w_n
                if after:
                    rows = inside[start:stop, t]
                else:
                    rows, to = z[start:stop, t, 2 * size :], reset[start:stop, 0]
            multiply(rows, w, to)
            if part == 0 and not after:
                for r in range(start, stop):
                    old = h[r, t - 1] if t > 0 else first[r, 0]
                    _end_back(z[r, t][:size], old, reset[r, 0], carry[r, 0])


class _Run(NamedTuple):
    """A forward pass, in the order of the steps."""

    x: FloatArray
    z: FloatArray  # the gates
    inside: FloatArray
    h: FloatArray


def _run(a: Inputs, steps: Steps, *, after: bool, keep: bool = True) -> _Run:
    x, two = steps.arranged(a.x), 2 * a.size
    batch, count, inputs = x.shape
    sizes = a.size, a.size, len(a.w_hh) if keep else 0
    inside, h, z = (np.empty((batch, count, size), x.dtype) for size in sizes)
    bias = a.b_ih + a.b_hh
    if after:
        bias[two:] = a.b_ih[two:]
    cost = 3 * count * a.size * (inputs + a.size + 60)
    weights = panels(a.w_ih.T), panels(a.w_hh[:two].T), panels(a.w_hh[two:].T)
    biases = bias, ready(a.b_hh[two:])
    run(_forward, cost, batch, ready(x), a.states[0], *weights, *biases, after, inside, h, z)
    if steps.lengths is not None:
        masked = Steps(steps.lengths, reverse=False)
        z, inside, h = (masked.arranged(y) for y in (z, inside, h))
    return _Run(x, z, inside, h)


def _pull(dout: FloatArray, a: Inputs, steps: Steps, *, after: bool) -> tuple[FloatArray, ...]:
    x, z, inside, h = _run(a, steps, after=after)
    before = previous(a.states[0], h)
    (batch, count, size), two = h.shape, 2 * a.size
    carry, reset = np.zeros((batch, 1, size), h.dtype), np.zeros((batch, 1, size), h.dtype)
    cost = 3 * count * size * (size + 20)
    weights = panels(a.w_hh[:two]), panels(a.w_hh[two:])
    rest = ready(steps.arranged(dout)), h, z, inside, carry, reset
    run(_backward, cost, batch, a.states[0], *weights, after, *rest)
    hidden = inside if after else z[..., two:]  # the gradient of what W_hn, or of n
    sums = total(z)
    return a.gradients(
        x=steps.arranged(flat_product(z, a.w_ih.T)),
        h=carry[:, 0],
        w_ih=outer_products(z, x),
        w_hh=np.concatenate(
            [
                outer_products(ready(z[..., :two]), before),
                outer_products(ready(hidden), before if after else inside),
            ]
        ),
        b_ih=sums,
        b_hh=np.concatenate([sums[:two], total(hidden)]),
    )


def _push(a: Inputs, d: Inputs, steps: Steps, *, after: bool) -> FloatArray:
    x, gates, inside, h = _run(a, steps, after=after)
    before, two = previous(a.states[0], h), 2 * a.size
    moved = flat_product(steps.arranged(d.x), a.w_ih) + flat_product(x, d.w_ih) + d.b_ih
    of_state = np.concatenate(
        [
            flat_product(before, d.w_hh[:two]),
            flat_product(before if after else inside, d.w_hh[two:]),
        ],
        axis=-1,
    )
    of_state += d.b_hh
    v, out = d.states[0][:, 0], np.empty_like(h)
    w_rz, w_n = a.w_hh[:two], a.w_hh[two:]
    for t in range(h.shape[1]):
        r, u, n = np.split(gates[:, t], GATES, axis=-1)
        old = before[:, t]
        gated = moved[:, t, :two] + of_state[:, t, :two] + v @ w_rz.T
        d_r, d_u = np.split(gated, 2, axis=-1)
        d_r, d_u = d_r * r * (1 - r), d_u * u * (1 - u)
        d_n = moved[:, t, two:].copy()
        if after:
            d_n += d_r * inside[:, t] + r * (of_state[:, t, two:] + v @ w_n.T)
        else:
            d_n += of_state[:, t, two:] + (d_r * old + r * v) @ w_n.T
        d_n *= (1 - n) * (1 + n)
        v = (1 - u) * d_n + u * v + d_u * (old - n)
        out[:, t] = v
    return steps.arranged(out)


def gru_cell(
    x: npt.ArrayLike,
    h: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    reset_after: bool = True,
) -> FloatArray:
    r"""
    One step of a gated recurrent unit.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Input of this step.
    h : array_like or None, shape (..., H)
        State before it; None is zero.
    w_ih : array_like, shape (3 H, D)
        Weights of the input, for the gates r, z and the candidate n in this order.
    w_hh : array_like, shape (3 H, H)
        Weights of the state, in the same order.
    b_ih, b_hh : array_like or None, shape (3 H,)
        Biases; None is zero.
    reset_after : bool, default True
        Whether the reset gate acts after the product of the state with the weights, as in PyTorch
        and cuDNN, or before it, as in the paper and by default in ONNX.

    Returns
    -------
    ndarray, shape (..., H)
        State after the step.

    Raises
    ------
    TypeError
        If an array is not real.
    ValueError
        If a shape does not fit.

    See Also
    --------
    gru : Many steps.
    gru_cell_vjp : Its gradients.
    lstm_cell : Four gates and a state of its own for memory.

    Notes
    -----
    Two gates and a candidate, each a dense layer of the input and the state:

    .. math::

        \vec r &= \sigma(\mat W_{xr} \vec x + \vec b_{xr} + \mat W_{hr} \vec h + \vec b_{hr}), \\
        \vec z &= \sigma(\mat W_{xz} \vec x + \vec b_{xz} + \mat W_{hz} \vec h + \vec b_{hz}), \\
        \vec n &= \tanh\bigl(\mat W_{xn} \vec x + \vec b_{xn}
            + \vec r \circ (\mat W_{hn} \vec h + \vec b_{hn})\bigr)
            && (\text{reset after}), \\
        \vec n &= \tanh\bigl(\mat W_{xn} \vec x + \vec b_{xn}
            + \mat W_{hn} (\vec r \circ \vec h) + \vec b_{hn}\bigr)
            && (\text{reset before}),

    and the new state, a mean of the candidate and the old one, each unit with its weights:

    .. math:: \vec h' = (1 - \vec z) \circ \vec n + \vec z \circ \vec h .

    The *update gate* z does the work of the forget and the input gate of an LSTM: as much is kept
    as is not written. The *reset gate* r lets the candidate look away from the state. Before or
    after the product makes two different functions; after it, all products with the state can be
    one. (Cho and others print :math:`\vec z \circ \vec h + (1 - \vec z) \circ \vec n` as here;
    some papers exchange z and 1 - z.)

    References
    ----------
    - :cite:t:`Cho2014`
    - :cite:t:`Chung2014`

    Examples
    --------
    With weights of 0 the candidate is 0 and the update gate 1/2: the state halves.

    >>> import numpy as np
    >>> from dlref.recurrent import gru_cell
    >>> gru_cell([1.0], [3.0], np.zeros((3, 1)), np.zeros((3, 1)))
    array([1.5])

    The two conventions differ where a state passes a half-open reset gate and a matrix that mixes
    units, here by a bias inside of the gate:

    >>> b = [0, -99, np.arctanh(0.5)]  # z = 0: the state is the candidate
    >>> w = np.zeros((3, 1))
    >>> gru_cell([1.0], [3.0], w, w, b_hh=b, reset_after=False)
    array([0.5])
    >>> gru_cell([1.0], [3.0], w, w, b_hh=b)  # tanh of half of it
    array([0.268])
    """
    values = {"x": x, "h": h, "w_ih": w_ih, "w_hh": w_hh, "b_ih": b_ih, "b_hh": b_hh}
    a, _ = inputs(values, gates=GATES, cell=True)
    return a.outputs(_run(a, ONE_STEP, after=reset_after, keep=False).h)[0]


def gru_cell_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    h: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    reset_after: bool = True,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of one step of a gated recurrent unit.

    Parameters
    ----------
    dout : array_like, shape (..., H)
        Cotangent of the new state.
    x : array_like, shape (..., D)
        Input of this step.
    h : array_like or None, shape (..., H)
        State before it; None is zero.
    w_ih : array_like, shape (3 H, D)
        Weights of the input, for the gates r, z and the candidate n in this order.
    w_hh : array_like, shape (3 H, H)
        Weights of the state, in the same order.
    b_ih, b_hh : array_like or None, shape (3 H,)
        Biases; None is zero.
    reset_after : bool, default True
        Whether the reset gate acts after the product of the state with the weights, as in PyTorch
        and cuDNN, or before it, as in the paper and by default in ONNX.

    Returns
    -------
    tuple of ndarray
        Gradients (dx, dh, dw_ih, dw_hh, db_ih, db_hh), without those of what was None.

    Raises
    ------
    TypeError
        If an array is not real.
    ValueError
        If a shape does not fit.

    See Also
    --------
    gru_vjp : Through many steps, with the derivation.
    gru_cell_jvp : Forward mode.

    Notes
    -----
    The formulas of :func:`gru_vjp` for T = 1. The direct path from state to state multiplies the
    gradient by the update gate z, element by element.

    Examples
    --------
    Weights of 0: half of the gradient goes back along the direct path.

    >>> import numpy as np
    >>> from dlref.recurrent import gru_cell_vjp
    >>> w = np.zeros((3, 1))
    >>> dx, dh, dw_ih, dw_hh = gru_cell_vjp([1.0], [1.0], [3.0], w, w)
    >>> dh
    array([0.5])
    """
    values = {"x": x, "h": h, "w_ih": w_ih, "w_hh": w_hh, "b_ih": b_ih, "b_hh": b_hh}
    a, [u] = cotangents(dout, values, gates=GATES, cell=True)
    return _pull(u, a, ONE_STEP, after=reset_after)


def gru_cell_jvp(
    primals: Any,
    tangents: Any,
    *,
    reset_after: bool = True,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of one step of a gated recurrent unit.

    Parameters
    ----------
    primals : tuple (x, h, w_ih, w_hh, b_ih, b_hh) of array_like or None
        The positional arguments of :func:`gru_cell`.
    tangents : tuple of array_like or None
        Their directions; None is zero.
    reset_after : bool, default True
        Whether the reset gate acts after the product of the state with the weights, as in PyTorch
        and cuDNN, or before it, as in the paper and by default in ONNX.

    Returns
    -------
    ndarray, shape (..., H)
        Rate of change of the new state.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If a shape does not fit, or an operand that is None
        has a tangent.

    See Also
    --------
    gru_jvp : Through many steps, with the derivation.
    gru_cell_vjp : Reverse mode.

    Notes
    -----
    The product rule on the mean, with a dot for a tangent:

    .. math::

        \dot{\vec h}' = (1 - \vec z) \circ \dot{\vec n} + \vec z \circ \dot{\vec h}
            + \dot{\vec z} \circ (\vec h - \vec n) .

    Examples
    --------
    Weights of 0: the state follows half of its own change.

    >>> import numpy as np
    >>> from dlref.recurrent import gru_cell_jvp
    >>> primals = [1.0], [3.0], np.zeros((3, 1)), np.zeros((3, 1)), None, None
    >>> gru_cell_jvp(primals, (None, [1.0], None, None, None, None))
    array([0.5])
    """
    a, d = moving(primals, tangents, gates=GATES, cell=True)
    return a.outputs(_push(a, d, ONE_STEP, after=reset_after))[0]


def gru(
    x: npt.ArrayLike,
    h0: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    reset_after: bool = True,
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Run a gated recurrent unit over a sequence; return the state after each step.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        Inputs, time second to last.
    h0 : array_like or None, shape (..., H)
        State before the first step; None is zero.
    w_ih : array_like, shape (3 H, D)
        Weights of the input, for the gates r, z and the candidate n in this order.
    w_hh : array_like, shape (3 H, H)
        Weights of the state, in the same order.
    b_ih, b_hh : array_like or None, shape (3 H,)
        Biases; None is zero.
    reset_after : bool, default True
        Whether the reset gate acts after the product of the state with the weights, as in PyTorch
        and cuDNN, or before it, as in the paper and by default in ONNX.
    reverse : bool, default False
        Whether the steps go from the last time to the first; the outputs stay in the order of the
        input.
    lengths : array_like of int or None, shape (...)
        Number of steps of each entry, from 0 to T; None is T for all. Outputs beyond are 0.

    Returns
    -------
    ndarray, shape (..., T, H)
        State after each step.

    Raises
    ------
    TypeError
        If an array is not real, or `lengths` not integer.
    ValueError
        If a shape does not fit, or a length is not between 0 and T.

    See Also
    --------
    gru_cell : One step: the equations of both conventions.
    gru_vjp : Backpropagation through time.
    rnn, lstm : Other cells.
    dlref.interop.convert_gates : Weights in the order of other libraries.

    Notes
    -----
    :func:`gru_cell` at every step, with the same weights. Unrolled, the state is a weighted mean of
    all candidates and the initial state, with weights that add up to 1:

    .. math::

        \vec h_t = \Bigl( \prod_{k=1}^t \vec z_k \Bigr) \circ \vec h_0
            + \sum_{s=1}^t \Bigl( \prod_{k=s+1}^t \vec z_k \Bigr) \circ (1 - \vec z_s)
              \circ \vec n_s ,

    so it stays between -1 and 1 if it starts there, while the cell state of an LSTM may count.
    As with the forget gate, memory is a matter of the bias of z: at 0 the state halves at each
    step, at :math:`\ln(d - 1)` it is kept for some d steps.

    **Computation.** As in :func:`rnn`: one product for all inputs, then one compiled loop over
    time in which threads share out the entries of the batch; 3 B T H (D + H) products, and
    5 B T H numbers of memory. Errors in float32 are those of :func:`rnn`.

    References
    ----------
    - :cite:t:`Cho2014`
    - :cite:t:`Chung2014`

    Examples
    --------
    Update gates that are open keep the state, closed ones follow the candidate:

    >>> import numpy as np
    >>> from dlref.recurrent import gru
    >>> x, w, zero = np.ones((3, 1)), np.array([[0.0], [0.0], [99.0]]), np.zeros((3, 1))
    >>> gru(x, [0.25], w, zero, [0, 99, 0]).T
    array([[0.25, 0.25, 0.25]])
    >>> gru(x, [0.25], w, zero, [0, -99, 0]).T
    array([[1., 1., 1.]])

    Between them lies a mean that moves: 1 - (1 - h)/2 at each step.

    >>> gru(x, [0.0], w, zero).T
    array([[0.5  , 0.75 , 0.875]])
    """
    values = {"x": x, "h0": h0, "w_ih": w_ih, "w_hh": w_hh, "b_ih": b_ih, "b_hh": b_hh}
    a, _ = inputs(values, gates=GATES)
    steps = a.steps(lengths, reverse=reverse)
    return a.outputs(steps.arranged(_run(a, steps, after=reset_after, keep=False).h))[0]


def gru_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    h0: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    reset_after: bool = True,
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Backpropagation through time: the vector-Jacobian product of :func:`gru`.

    Parameters
    ----------
    dout : array_like, shape (..., T, H)
        Cotangent of the state after each step, not counting what reaches the loss through later
        ones.
    x : array_like, shape (..., T, D)
        Inputs, time second to last.
    h0 : array_like or None, shape (..., H)
        State before the first step; None is zero.
    w_ih : array_like, shape (3 H, D)
        Weights of the input, for the gates r, z and the candidate n in this order.
    w_hh : array_like, shape (3 H, H)
        Weights of the state, in the same order.
    b_ih, b_hh : array_like or None, shape (3 H,)
        Biases; None is zero.
    reset_after : bool, default True
        Whether the reset gate acts after the product of the state with the weights, as in PyTorch
        and cuDNN, or before it, as in the paper and by default in ONNX.
    reverse : bool, default False
        Whether the steps go from the last time to the first; the outputs stay in the order of the
        input.
    lengths : array_like of int or None, shape (...)
        Number of steps of each entry, from 0 to T; None is T for all. Outputs beyond are 0.

    Returns
    -------
    tuple of ndarray
        Gradients (dx, dh0, dw_ih, dw_hh, db_ih, db_hh), without those of what was None.

    Raises
    ------
    TypeError
        If an array is not real, or `lengths` not integer.
    ValueError
        If a shape does not fit, or a length is not between 0 and T.

    See Also
    --------
    gru_jvp : Forward mode.
    rnn_vjp : The same idea for one state, step by step.

    Notes
    -----
    With :math:`\vec\eta = \vec u_t + \bar{\vec h}_t`, the gradient of :math:`\vec h_t` with what
    comes from the step after:

    1. *The mean* :math:`(1 - \vec z) \circ \vec n + \vec z \circ \vec h_{t-1}`:

       .. math::

           \vec\delta_n = \vec\eta \circ (1 - \vec z) \circ (1 - \vec n^2), \qquad
           \vec\delta_z = \vec\eta \circ (\vec h_{t-1} - \vec n) \circ \vec z \circ (1 - \vec z).

    2. *The reset gate*, after the product: with
       :math:`\vec m = \mat W_{hn} \vec h_{t-1} + \vec b_{hn}`,

       .. math::

           \vec\delta_r = \vec\delta_n \circ \vec m \circ \vec r \circ (1 - \vec r), \qquad
           \vec\mu = \pdv{L}{\vec m} = \vec\delta_n \circ \vec r ;

       before it: with :math:`\vec\rho = \mat W_{hn}^\top \vec\delta_n`, the gradient of
       :math:`\vec r \circ \vec h_{t-1}`,

       .. math::

           \vec\delta_r = \vec\rho \circ \vec h_{t-1} \circ \vec r \circ (1 - \vec r).

    3. *The state before* gets, along the direct path and through each product,

       .. math::

           \bar{\vec h}_{t-1} = \vec z \circ \vec\eta + \mat W_{hr}^\top \vec\delta_r
             + \mat W_{hz}^\top \vec\delta_z
             + \begin{cases} \mat W_{hn}^\top \vec\mu & \text{after,} \\
               \vec r \circ \vec\rho & \text{before.} \end{cases}

    4. *The weights*: sums over steps and batch of :math:`\vec\delta\, \vec x_t^\top` and
       :math:`\vec\delta\, \vec h_{t-1}^\top`; for :math:`\mat W_{hn}` of
       :math:`\vec\mu\, \vec h_{t-1}^\top` (after) or
       :math:`\vec\delta_n (\vec r \circ \vec h_{t-1})^\top` (before). The two biases of n have
       different gradients only if the reset comes after: :math:`\vec\delta_n` and :math:`\vec\mu`.

    **Cost.** About twice the products of the forward pass, and the forward pass itself. Kept are
    the gates, whose place the gradients then take, :math:`\vec m` or the reset states, the
    states and those before, and two gates once more for the last product: 8 B T H numbers.

    References
    ----------
    - :cite:t:`Chung2014`
    - :cite:t:`Werbos1990`

    Examples
    --------
    With weights of 0 half of the gradient is lost at each step; an update gate with a bias of 4
    keeps 98 % of it:

    >>> import numpy as np
    >>> from dlref.recurrent import gru_vjp
    >>> x, zero, u = np.zeros((5, 1)), np.zeros((3, 1)), np.zeros((5, 1))
    >>> u[-1] = 1
    >>> gru_vjp(u, x, [0.0], zero, zero)[1] * 32
    array([1.])
    >>> float(gru_vjp(u, x, [0.0], zero, zero, [0, 4, 0])[1][0])
    0.9132
    """
    values = {"x": x, "h0": h0, "w_ih": w_ih, "w_hh": w_hh, "b_ih": b_ih, "b_hh": b_hh}
    a, [u] = cotangents(dout, values, gates=GATES)
    return _pull(u, a, a.steps(lengths, reverse=reverse), after=reset_after)


def gru_jvp(
    primals: Any,
    tangents: Any,
    *,
    reset_after: bool = True,
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of :func:`gru`.

    Parameters
    ----------
    primals : tuple (x, h0, w_ih, w_hh, b_ih, b_hh) of array_like or None
        The positional arguments of :func:`gru`.
    tangents : tuple of array_like or None
        Their directions; None is zero.
    reset_after : bool, default True
        Whether the reset gate acts after the product of the state with the weights, as in PyTorch
        and cuDNN, or before it, as in the paper and by default in ONNX.
    reverse : bool, default False
        Whether the steps go from the last time to the first; the outputs stay in the order of the
        input.
    lengths : array_like of int or None, shape (...)
        Number of steps of each entry, from 0 to T; None is T for all. Outputs beyond are 0.

    Returns
    -------
    ndarray, shape (..., T, H)
        Rate of change of each state.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array, or `lengths` not integer.
    ValueError
        If a shape does not fit, a length is not between 0 and T, or an operand that is None
        has a tangent.

    See Also
    --------
    gru_vjp : Reverse mode.
    rnn_jvp : Forward mode and real-time recurrent learning.

    Notes
    -----
    Tangents travel with the states. That of each pre-activation has a term for each factor of each
    product in :func:`gru_cell`; reset after, that of n is

    .. math::

        \dot{\vec z}_n = \dot{\mat W}_{xn} \vec x + \mat W_{xn} \dot{\vec x} + \dot{\vec b}_{xn}
          + \dot{\vec r} \circ (\mat W_{hn} \vec h + \vec b_{hn})
          + \vec r \circ (\dot{\mat W}_{hn} \vec h + \mat W_{hn} \dot{\vec h}
          + \dot{\vec b}_{hn}) ,

    and reset before, the last two terms are
    :math:`\dot{\mat W}_{hn} (\vec r \circ \vec h) + \mat W_{hn} (\dot{\vec r} \circ \vec h
    + \vec r \circ \dot{\vec h}) + \dot{\vec b}_{hn}`. The slope of the gate multiplies, and
    :func:`gru_cell_jvp` says what becomes of the state.

    Examples
    --------
    A change of the initial state is halved by each step with weights of 0:

    >>> import numpy as np
    >>> from dlref.recurrent import gru_jvp
    >>> zero = np.zeros((3, 1))
    >>> primals = np.zeros((3, 1)), [0.0], zero, zero, None, None
    >>> gru_jvp(primals, (None, [1.0], None, None, None, None)).T
    array([[0.5  , 0.25 , 0.125]])
    """
    a, d = moving(primals, tangents, gates=GATES)
    return a.outputs(_push(a, d, a.steps(lengths, reverse=reverse), after=reset_after))[0]
