r"""The gated recurrent unit: its cell and its sequence, with the reset before or after."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_bool
from .._core.jit import kernel
from .._core.threads import as_carray
from .._math.dense import blas_matmul
from .._math.elementary import sigmoid, tanh
from .._math.gemm import panels
from ._kernels.recurrence import (
    ONE_STEP,
    Inputs,
    Steps,
    add_product,
    by_time,
    cotangents,
    inputs,
    jvp_arguments,
    named,
    over_batch,
    over_steps,
    padded,
    product_of_steps,
    project,
    rows_of,
    total,
    with_first,
)

GATES = 3


@kernel
def _gates(
    start: int,
    stop: int,
    bias: FloatArray,
    after: bool,
    old: FloatArray,
    hidden: FloatArray,
    z: FloatArray,
    inside: FloatArray,
) -> None:
    """
    Turn the pre-activations of r and z of some entries into gates, and prepare the argument of n.

    `hidden` (B, ...) is the product of the old state with the weights of r and z, and of n if the
    reset is `after` it; it is cleared.  `bias` has four parts, for r, z, n, and W_hn.
    """
    size = inside.shape[1]
    for r in range(start, stop):
        for j in range(2 * size):
            z[r, j] = sigmoid(np.float64(z[r, j] + hidden[r, j] + bias[j]))
        if after:
            for j in range(size):
                inside[r, j] = hidden[r, 2 * size + j] + bias[3 * size + j]
        else:
            for j in range(size):
                inside[r, j] = z[r, j] * old[r, j]
        for j in range(hidden.shape[1]):
            hidden[r, j] = 0.0


@kernel
def _candidate(
    start: int,
    stop: int,
    bias: FloatArray,
    after: bool,
    old: FloatArray,
    hidden: FloatArray,
    inside: FloatArray,
    z: FloatArray,
    h: FloatArray,
) -> None:
    """
    Turn the pre-activation of n of some entries into n, and the old state into the new.

    `hidden` (B, ...) is the product of the reset state with the weights of n, if the reset is not
    `after` it; it is cleared.
    """
    size = h.shape[1]
    of_n = bias[2 * size :]
    for i in range(start, stop):
        # slices, whose index is not negative for sure: LLVM treats several elements at once
        r, u, n = z[i, :size], z[i, size : 2 * size], z[i, 2 * size : 3 * size]
        product, within, before, out = hidden[i], inside[i], old[i], h[i]
        for j in range(size):
            more = r[j] * within[j] if after else product[j]
            n[j] = n[j] + of_n[j] + more
        for j in range(size):
            n[j] = tanh(np.float64(n[j]))
        for j in range(size):
            out[j] = n[j] + u[j] * (before[j] - n[j])
        for j in range(product.size):
            product[j] = 0.0


@kernel
def _forward(
    start: int,
    stop: int,
    begin: int,
    end: int,
    w: FloatArray,
    w_n: FloatArray,
    bias: FloatArray,
    after: bool,
    hidden: FloatArray,
    z: FloatArray,
    inside: FloatArray,
    h: FloatArray,
) -> None:
    """
    Compute the states h (T + 1, B, H); z (T, B, ...), products of the inputs, become gates.

    `inside` (T, B, H) is the product of W_hn and the state (after), or the reset state (before).
    """
    for t in range(begin, end):
        add_product(h[t, start:stop], w, hidden[start:stop])
        _gates(start, stop, bias, after, h[t], hidden, z[t], inside[t])
        if not after:
            add_product(inside[t, start:stop], w_n, hidden[start:stop])
        _candidate(start, stop, bias, after, h[t], hidden, inside[t], z[t], h[t + 1])


@kernel
def _candidate_vjp(
    start: int,
    stop: int,
    t: int,
    after: bool,
    dout: FloatArray,
    h: FloatArray,
    z: FloatArray,
    inside: FloatArray,
    dn: FloatArray,
    dh: FloatArray,
) -> None:
    """
    Put the gradients of the pre-activations of n and z in their places.

    If the reset is `after` the product, do the same for r, and `inside` becomes the gradient of the
    product of W_hn and the state. dn (B, H) is the gradient that W_hn gets.
    """
    size = h.shape[2]
    for i in range(start, stop):
        for j in range(size):
            r, u, n = z[t, i, j], z[t, i, size + j], z[t, i, 2 * size + j]
            v = dh[i, j] + dout[i, t, j]
            d = v * (1.0 - u) * ((1.0 - n) * (1.0 + n))
            z[t, i, size + j] = v * (h[t, i, j] - n) * (u * (1.0 - u))
            z[t, i, 2 * size + j] = d
            dh[i, j] = v * u
            if after:
                z[t, i, j] = d * inside[t, i, j] * (r * (1.0 - r))
                d *= r
                inside[t, i, j] = d
            dn[i, j] = d


@kernel
def _reset_vjp(
    start: int,
    stop: int,
    t: int,
    after: bool,
    h: FloatArray,
    z: FloatArray,
    dreset: FloatArray,
    dh: FloatArray,
) -> None:
    """Propagate the gradient of the factor of W_hn, through r if the reset is not `after`."""
    for i in range(start, stop):
        for j in range(h.shape[2]):
            d = dreset[i, j]
            dreset[i, j] = 0.0
            if after:
                dh[i, j] += d
            else:
                r = z[t, i, j]
                dh[i, j] += d * r
                z[t, i, j] = d * h[t, i, j] * (r * (1.0 - r))


@kernel
def _backward(
    start: int,
    stop: int,
    begin: int,
    end: int,
    w_rz: FloatArray,
    w_n: FloatArray,
    after: bool,
    dout: FloatArray,
    h: FloatArray,
    z: FloatArray,
    inside: FloatArray,
    dn: FloatArray,
    dreset: FloatArray,
    dh: FloatArray,
) -> None:
    """Turn the gates z into gradients; dh becomes the gradient of the first state."""
    for t in range(end - 1, begin - 1, -1):
        _candidate_vjp(start, stop, t, after, dout, h, z, inside, dn, dh)
        add_product(dn[start:stop], w_n, dreset[start:stop])
        _reset_vjp(start, stop, t, after, h, z, dreset, dh)
        add_product(z[t, start:stop], w_rz, dh[start:stop])


class _Forward(NamedTuple):
    """A forward pass, in the order of the steps."""

    x: FloatArray  # (T, B, D)
    z: FloatArray  # (T, B, ...): the gates, and padding of the last panel
    inside: FloatArray  # (T, B, H): W_hn times the state (after), or the reset state
    h: FloatArray  # (T + 1, B, H), with the initial state

    @property
    def gates(self) -> FloatArray:
        return self.z[..., : GATES * self.h.shape[2]]


@np.errstate(all="ignore")
def _forward_pass(a: Inputs, steps: Steps, *, after: bool) -> _Forward:
    x, size, two = by_time(steps.arranged(a.x)), a.size, 2 * a.size
    bias = np.concatenate([a.b_ih + a.b_hh, a.b_hh[two:]])
    if after:
        bias[two : 3 * size] = a.b_ih[two:]
    z, h = project(x, a.w_ih), with_first(a.states[0], len(x))
    inside, hidden = np.empty_like(h[1:]), np.zeros_like(z, shape=z.shape[1:])
    w = a.w_hh if after else a.w_hh[:two]
    if len(x) == 1:
        hidden[:, : len(w)] = h[0] @ w.T
        over_batch(_gates, 40 * size, len(hidden), bias, after, h[0], hidden, z[0], inside[0])
        if not after:
            hidden[:, :size] = inside[0] @ a.w_hh[two:].T
        rest = h[0], hidden, inside[0], z[0], h[1]
        over_batch(_candidate, 40 * size, len(hidden), bias, after, *rest)
    else:
        cost = 3 * size * (size + 60)
        weights = panels(w.T), panels(a.w_hh[two:].T)
        over_steps(_forward, cost, z.shape, *weights, bias, after, hidden, z, inside, h)
    for y in (z, inside, h[1:]):
        steps.clip(y)
    return _Forward(x, z, inside, h)


def _states(a: Inputs, steps: Steps, *, after: bool) -> FloatArray:
    """Return the state (B, T, H) after each step."""
    h = _forward_pass(a, steps, after=after).h[1:]
    return steps.arranged(h.swapaxes(0, 1))


@np.errstate(all="ignore")
def _vjp(dout: FloatArray, a: Inputs, steps: Steps, *, after: bool) -> tuple[FloatArray, ...]:
    forward = _forward_pass(a, steps, after=after)
    (x, z, inside, h), dz = forward, forward.gates  # the kernels put the gradients in their place
    (_, batch, size), two = h.shape, 2 * a.size
    u, (w_rz, w_n) = as_carray(steps.arranged(dout)), (a.w_hh[:two], a.w_hh[two:])
    dn = np.empty_like(h[0])
    dreset, dh = np.zeros((2, batch, padded(size, h.dtype)), h.dtype)
    if len(x) == 1:
        arguments = 0, after, u, h, z, inside, dn, dh
        over_batch(_candidate_vjp, 20 * size, batch, *arguments)
        dreset[:, :size] = dn @ w_n
        over_batch(_reset_vjp, 10 * size, batch, 0, after, h, z, dreset, dh)
        dh[:, :size] += dz[0, :, :two] @ w_rz
    else:
        cost, weights = 3 * size * (size + 20), (panels(w_rz), panels(w_n))
        arrays = u, h, z, inside, dn, dreset, dh
        over_steps(_backward, cost, z.shape, *weights, after, *arrays, backward=True)
    hidden = inside if after else z[..., two : 3 * size]  # the gradient that W_hn gets, or of n
    sums, rows, before = total(dz), rows_of(dz), rows_of(h[:-1])
    return a.gradients(
        x=steps.arranged(product_of_steps(dz, a.w_ih).swapaxes(0, 1)),
        h=dh[:, :size],
        w_ih=blas_matmul(rows.T, rows_of(x)),
        w_hh=np.concatenate(
            [
                blas_matmul(rows[:, :two].T, before),
                blas_matmul(rows_of(hidden).T, before if after else rows_of(inside)),
            ]
        ),
        b_ih=sums,
        b_hh=np.concatenate([sums[:two], total(hidden)]),
    )


@np.errstate(all="ignore")
def _jvp(a: Inputs, d: Inputs, steps: Steps, *, after: bool) -> FloatArray:
    forward = _forward_pass(a, steps, after=after)
    (x, _, inside, h), gates, two = forward, forward.gates, 2 * a.size
    dx = by_time(steps.arranged(d.x))
    dz = dx @ a.w_ih.T + x @ d.w_ih.T + d.b_ih
    d_rz, d_n = h[:-1] @ d.w_hh[:two].T, (h[:-1] if after else inside) @ d.w_hh[two:].T
    d_hidden = np.concatenate([d_rz, d_n], axis=-1) + d.b_hh
    dh, out = d.states[0], np.empty_like(inside)
    w_rz, w_n = a.w_hh[:two], a.w_hh[two:]
    for t in range(len(x)):
        r, u, n = np.split(gates[t], GATES, axis=-1)
        gated = dz[t, :, :two] + d_hidden[t, :, :two] + dh @ w_rz.T
        d_r, d_u = np.split(gated, 2, axis=-1)
        d_r, d_u = d_r * r * (1 - r), d_u * u * (1 - u)
        d_n = dz[t, :, two:].copy()
        if after:
            d_n += d_r * inside[t] + r * (d_hidden[t, :, two:] + dh @ w_n.T)
        else:
            d_n += d_hidden[t, :, two:] + (d_r * h[t] + r * dh) @ w_n.T
        d_n *= (1 - n) * (1 + n)
        dh = (1 - u) * d_n + u * dh + d_u * (h[t] - n)
        out[t] = dh
    return steps.arranged(out.swapaxes(0, 1))


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
        If an array is not real, or `reset_after` not a bool.
    ValueError
        If a shape does not fit.

    See Also
    --------
    gru : Many steps.
    gru_cell_vjp : Its gradients.
    lstm_cell : Three gates instead of two, and a state of its own for memory.

    Notes
    -----
    Two gates and a candidate, each a dense layer of the input and the state:

    .. math::

        \vec r &= \sigma(\mat W_{xr} \vec x + \vec b_{xr} + \mat W_{hr} \vec h + \vec b_{hr}), \\
        \vec z &= \sigma(\mat W_{xz} \vec x + \vec b_{xz} + \mat W_{hz} \vec h + \vec b_{hz}), \\
        \vec n &= \tanh\bigl(\mat W_{xn} \vec x + \vec b_{xn}
            + \vec r \odot (\mat W_{hn} \vec h + \vec b_{hn})\bigr)
            && (\text{reset after}), \\
        \vec n &= \tanh\bigl(\mat W_{xn} \vec x + \vec b_{xn}
            + \mat W_{hn} (\vec r \odot \vec h) + \vec b_{hn}\bigr)
            && (\text{reset before}),

    and the new state, a mean of the candidate and the old state, with weights for each unit:

    .. math:: \vec h' = (1 - \vec z) \odot \vec n + \vec z \odot \vec h .

    `w_ih` holds :math:`\mat W_{xr}, \mat W_{xz}, \mat W_{xn}` one below the other, `b_ih` the
    biases :math:`\vec b_{xr}, \vec b_{xz}, \vec b_{xn}`; `w_hh` and `b_hh` hold those with h in
    place of x. The *update gate* z does the work of the forget and the input gate of an LSTM: it
    keeps as much as it does not overwrite. Where it is 1 the state is copied, and the input of the
    step is skipped. The *reset gate* r decides how much of the state the candidate n sees (PyTorch
    calls n the *new gate*): none where r is 0. With r = 1 and z = 0 the unit is a plain recurrent
    one, :func:`rnn_cell`. The reset before or after the product makes two different functions; with
    the reset after it, all products with the state can be computed as one. (Cho and others print
    :math:`\vec z \odot \vec h + (1 - \vec z) \odot \vec n` as here; some papers exchange z and 1 -
    z.)

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

    With r = 1 and z = 0, by biases of 99 and −99, it is a plain recurrent unit:

    >>> from dlref.recurrent import rnn_cell
    >>> w_ih, w_hh = np.array([[0.3], [0.1], [2.0]]), np.array([[0.2], [0.4], [-1.0]])
    >>> gru_cell([0.5], [0.3], w_ih, w_hh, [99, -99, 0]).round(4)
    array([0.6044])
    >>> rnn_cell([0.5], [0.3], w_ih[2:], w_hh[2:]).round(4)
    array([0.6044])

    The two conventions differ if r varies between the units that the matrix mixes, or if the
    product has a bias, which only the later gate multiplies. Here it is the bias:

    >>> b = [0, -99, np.arctanh(0.5)]  # z = 0: the state is the candidate
    >>> w = np.zeros((3, 1))
    >>> gru_cell([1.0], [3.0], w, w, b_hh=b, reset_after=False)
    array([0.5])
    >>> gru_cell([1.0], [3.0], w, w, b_hh=b)  # tanh of half of it
    array([0.268])
    """
    after = as_bool("reset_after", reset_after)
    values = named(x, h, w_ih, w_hh, b_ih, b_hh, cell=True)
    a, _ = inputs(values, gates=GATES, cell=True)
    return a.outputs(_states(a, ONE_STEP, after=after))[0]


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
    x, h, w_ih, w_hh, b_ih, b_hh, reset_after : as in `gru_cell`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients (dx, dh, dw_ih, dw_hh, db_ih, db_hh), without the arguments that are None.

    See Also
    --------
    gru_vjp : Through many steps, with the derivation.

    Notes
    -----
    The formulas of :func:`gru_vjp` for T = 1, with :math:`\vec u` for the cotangent.

    **The differential.** The new state is a weighted mean:

    .. math:: \dd \vec h' = \vec z \odot \dd \vec h + (1 - \vec z) \odot \dd \vec n
       + (\vec h - \vec n) \odot \dd \vec z .

    **The inner product.** :math:`\dd L = \vec u \cdot \dd \vec h'`.

    **The transpose.** The three factors, times the slopes of the gates, are the gradients of the
    pre-activations; from there the transposed weights lead to :math:`\vec x` and :math:`\vec h`.
    With the reset after the product,

    .. math::

        \vec\delta_n &= \vec u \odot (1 - \vec z) \odot (1 - \vec n^2), \qquad
        \vec\delta_z = \vec u \odot (\vec h - \vec n) \odot \vec z \odot (1 - \vec z), \\
        \vec\delta_r &= \vec\delta_n \odot (\mat W_{hn} \vec h + \vec b_{hn}) \odot \vec r \odot
            (1 - \vec r), \\
        \pdv{L}{\vec x} &= \mat W_{xr}^\top \vec\delta_r + \mat W_{xz}^\top \vec\delta_z
            + \mat W_{xn}^\top \vec\delta_n, \\
        \pdv{L}{\vec h} &= \vec z \odot \vec u + \mat W_{hr}^\top \vec\delta_r
            + \mat W_{hz}^\top \vec\delta_z + \mat W_{hn}^\top (\vec r \odot \vec\delta_n) .

    On the direct path from state to state, the first term, the gradient is multiplied by the update
    gate. The weights get the products :math:`\vec\delta\, \vec x^\top` and
    :math:`\vec\delta\, \vec h^\top`, and :math:`\mat W_{hn}` gets it with
    :math:`\vec r \odot \vec\delta_n`.

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
    after = as_bool("reset_after", reset_after)
    values = named(x, h, w_ih, w_hh, b_ih, b_hh, cell=True)
    a, [u] = cotangents(dout, values, gates=GATES, cell=True)
    return _vjp(u, a, ONE_STEP, after=after)


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
    reset_after : as in `gru_cell`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., H)
        Tangent of the new state.

    See Also
    --------
    gru_jvp : Through many steps, with the derivation.

    Notes
    -----
    The product rule on the mean, with a dot for a tangent; :func:`gru_jvp` has the tangents of the
    update gate and of the candidate:

    .. math::

        \dot{\vec h}' = (1 - \vec z) \odot \dot{\vec n} + \vec z \odot \dot{\vec h}
            + \dot{\vec z} \odot (\vec h - \vec n) .

    Examples
    --------
    Weights of 0: the state follows half of its own change.

    >>> import numpy as np
    >>> from dlref.recurrent import gru_cell_jvp
    >>> primals = [1.0], [3.0], np.zeros((3, 1)), np.zeros((3, 1)), None, None
    >>> gru_cell_jvp(primals, (None, [1.0], None, None, None, None))
    array([0.5])
    """
    after = as_bool("reset_after", reset_after)
    a, d = jvp_arguments(primals, tangents, gates=GATES, cell=True)
    return a.outputs(_jvp(a, d, ONE_STEP, after=after))[0]


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
    segment_ids: npt.ArrayLike | None = None,
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
    segment_ids : array_like of integers or None, shape (..., T)
        Number of each step's document, for documents that are packed into one row, or an array that
        broadcasts to this shape. A document begins wherever the number differs from the number of
        the step before, and its state begins at 0. None is a single document.

    Returns
    -------
    ndarray, shape (..., T, H)
        State after each step.

    Raises
    ------
    TypeError
        If an array is not real, `lengths` or `segment_ids` not integer, or `reset_after` not a
        bool.
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

        \vec h_t = \Bigl( \prod_{k=1}^t \vec z_k \Bigr) \odot \vec h_0
            + \sum_{s=1}^t \Bigl( \prod_{k=s+1}^t \vec z_k \Bigr) \odot (1 - \vec z_s)
              \odot \vec n_s ,

    so it stays between -1 and 1 if it starts there, while the cell state of an LSTM has no bound.
    As with the forget gate, memory depends on the bias of z: at 0 the state halves at each step, at
    :math:`\log(d - 1)` it is kept for some d steps.

    **Computation.** As in :func:`rnn`: one product for all inputs, then one compiled loop over time
    in which threads divide the entries of the batch among them; 3 B T H (D + H) products, and 5 B T
    H + B T D numbers of memory, the result included: the last are a copy of the input. Errors in
    float32 are as in :func:`rnn`.

    **Packed documents.** See :func:`rnn`: with `segment_ids` each document has the states that it
    would have alone.

    References
    ----------
    - :cite:t:`Cho2014`
    - :cite:t:`Chung2014`

    Examples
    --------
    With z = 1, by a bias of 99, the state stays, and with z = 0 it follows the candidate:

    >>> import numpy as np
    >>> from dlref.recurrent import gru
    >>> x, w, zero = np.ones((3, 1)), np.array([[0.0], [0.0], [99.0]]), np.zeros((3, 1))
    >>> gru(x, [0.25], w, zero, [0, 99, 0]).T
    array([[0.25, 0.25, 0.25]])
    >>> gru(x, [0.25], w, zero, [0, -99, 0]).T
    array([[1., 1., 1.]])

    In between, the state is a moving mean: 1 - (1 - h)/2 at each step.

    >>> gru(x, [0.0], w, zero).T
    array([[0.5  , 0.75 , 0.875]])
    """
    after = as_bool("reset_after", reset_after)
    values = named(x, h0, w_ih, w_hh, b_ih, b_hh)
    a, _ = inputs(values, gates=GATES)
    a, steps = a.arranged(lengths, segment_ids, reverse=reverse)
    return a.outputs(_states(a, steps, after=after))[0]


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
    segment_ids: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Backpropagation through time: the vector-Jacobian product of :func:`gru`.

    Parameters
    ----------
    dout : array_like, shape (..., T, H)
        Cotangent of the state after each step, without the part that reaches the loss through later
        ones.
    x, h0, w_ih, w_hh, b_ih, b_hh, reset_after, reverse, lengths, segment_ids : as in `gru`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients (dx, dh0, dw_ih, dw_hh, db_ih, db_hh), without the arguments that are None.

    See Also
    --------
    rnn_vjp : The same idea for one state, step by step.

    Notes
    -----
    **The differential.** With the gates of step t, the new state is the mean
    :math:`(1 - \vec z) \odot \vec n + \vec z \odot \vec h_{t-1}`, so

    .. math:: \dd \vec h_t = \vec z \odot \dd \vec h_{t-1} + (1 - \vec z) \odot \dd \vec n
       + (\vec h_{t-1} - \vec n) \odot \dd \vec z .

    The differential of a gate is its slope times the differential of its pre-activation, a dense
    layer of :math:`\vec x_t` and :math:`\vec h_{t-1}`.

    **The inner product.** With the upstream gradients :math:`\vec u_t` of the states,
    :math:`\dd L = \sum_t \vec u_t \cdot \dd \vec h_t`.

    **The transpose.** From the last step to the first one. Let :math:`\bar{\vec h}_t` be the
    gradient that comes from the next step, :math:`\vec 0` for t = T, and
    :math:`\vec\eta = \vec u_t + \bar{\vec h}_t` the total derivative with respect to
    :math:`\vec h_t`. The factors above are diagonal and their own transposes:

    1. *Candidate and update gate*:

       .. math::

           \vec\delta_n = \vec\eta \odot (1 - \vec z) \odot (1 - \vec n^2), \qquad
           \vec\delta_z = \vec\eta \odot (\vec h_{t-1} - \vec n) \odot \vec z \odot (1 - \vec z).

    2. *The reset gate*, after the product: with
       :math:`\vec m = \mat W_{hn} \vec h_{t-1} + \vec b_{hn}`,

       .. math::

           \vec\delta_r = \vec\delta_n \odot \vec m \odot \vec r \odot (1 - \vec r), \qquad
           \vec\mu = \pdv{L}{\vec m} = \vec\delta_n \odot \vec r ;

       before it: with :math:`\vec\rho = \mat W_{hn}^\top \vec\delta_n`, the gradient of
       :math:`\vec r \odot \vec h_{t-1}`,

       .. math::

           \vec\delta_r = \vec\rho \odot \vec h_{t-1} \odot \vec r \odot (1 - \vec r).

    3. *The state before* gets, along the direct path and through each product,

       .. math::

           \bar{\vec h}_{t-1} = \vec z \odot \vec\eta + \mat W_{hr}^\top \vec\delta_r
             + \mat W_{hz}^\top \vec\delta_z
             + \begin{cases} \mat W_{hn}^\top \vec\mu & \text{after,} \\
               \vec r \odot \vec\rho & \text{before.} \end{cases}

       After the first step :math:`\bar{\vec h}_0` is the gradient of `h0`. The input has
       :math:`\partial L / \partial \vec x_t = \mat W_{xr}^\top \vec\delta_r + \mat W_{xz}^\top
       \vec\delta_z + \mat W_{xn}^\top \vec\delta_n`.

    4. *The weights* are the same at all steps, so they get sums over steps and batch of
       :math:`\vec\delta\, \vec x_t^\top` and :math:`\vec\delta\, \vec h_{t-1}^\top`; for
       :math:`\mat W_{hn}` of :math:`\vec\mu\, \vec h_{t-1}^\top` (after) or
       :math:`\vec\delta_n (\vec r \odot \vec h_{t-1})^\top` (before). The two biases of n have
       different gradients only if the reset comes after: :math:`\vec\delta_n` and :math:`\vec\mu`.

    **Cost.** About twice the products of the forward pass, and the forward pass itself. It keeps
    the gates, which the gradients later overwrite, :math:`\vec m` or the reset states, and the
    states: 5 B T H + 2 B T D numbers in addition to inputs and results, and a copy of the cotangent
    with `reverse` or `lengths`.

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
    after = as_bool("reset_after", reset_after)
    values = named(x, h0, w_ih, w_hh, b_ih, b_hh)
    a, [u] = cotangents(dout, values, gates=GATES)
    a, steps = a.arranged(lengths, segment_ids, reverse=reverse)
    return _vjp(a.split(u), a, steps, after=after)


def gru_jvp(
    primals: Any,
    tangents: Any,
    *,
    reset_after: bool = True,
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
    segment_ids: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of :func:`gru`.

    Parameters
    ----------
    primals : tuple (x, h0, w_ih, w_hh, b_ih, b_hh) of array_like or None
        The positional arguments of :func:`gru`.
    tangents : tuple of array_like or None
        Their directions; None is zero.
    reset_after, reverse, lengths, segment_ids : as in `gru`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, H)
        Tangent of each state.

    See Also
    --------
    rnn_jvp : Forward mode and real-time recurrent learning.

    Notes
    -----
    Tangents are propagated along with the states. Write :math:`\vec a_r`, :math:`\vec a_z`,
    :math:`\vec a_n` for the pre-activations in :func:`gru_cell`, where :math:`\vec z` is a gate.
    Their tangents have a term for each factor of each product. With the reset after,

    .. math::

        \dot{\vec a}_r &= \dot{\mat W}_{xr} \vec x + \mat W_{xr} \dot{\vec x} + \dot{\vec b}_{xr}
          + \dot{\mat W}_{hr} \vec h + \mat W_{hr} \dot{\vec h} + \dot{\vec b}_{hr}, \qquad
        \dot{\vec r} = \vec r \odot (1 - \vec r) \odot \dot{\vec a}_r, \\
        \dot{\vec a}_n &= \dot{\mat W}_{xn} \vec x + \mat W_{xn} \dot{\vec x} + \dot{\vec b}_{xn}
          + \dot{\vec r} \odot (\mat W_{hn} \vec h + \vec b_{hn})
          + \vec r \odot (\dot{\mat W}_{hn} \vec h + \mat W_{hn} \dot{\vec h}
          + \dot{\vec b}_{hn}), \\
        \dot{\vec n} &= (1 - \vec n^2) \odot \dot{\vec a}_n ,

    and :math:`\dot{\vec z}` like :math:`\dot{\vec r}`. With the reset before, the last two terms of
    :math:`\dot{\vec a}_n` are :math:`\dot{\mat W}_{hn} (\vec r \odot \vec h) + \mat W_{hn}
    (\dot{\vec r} \odot \vec h + \vec r \odot \dot{\vec h}) + \dot{\vec b}_{hn}`.
    :func:`gru_cell_jvp` has the tangent of the state.

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
    after = as_bool("reset_after", reset_after)
    a, d = jvp_arguments(primals, tangents, gates=GATES)
    a, steps = a.arranged(lengths, segment_ids, reverse=reverse)
    return a.outputs(_jvp(a, d.packed(a.documents), steps, after=after))[0]
