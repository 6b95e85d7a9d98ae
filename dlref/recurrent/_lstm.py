r"""Long short-term memory: its cell, its sequence, its gates, and their derivatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray
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

GATES = 4


@kernel
def _step(
    start: int,
    stop: int,
    bias: FloatArray,
    w_p: FloatArray,
    old: FloatArray,
    z: FloatArray,
    c: FloatArray,
    h: FloatArray,
) -> None:
    """
    Turn the pre-activations z (B, ...) of some entries into gates, the cell state into the new one.

    Short loops, each over few arrays and counting from 0, so that no index could be a negative one:
    LLVM treats several elements at once.
    """
    size = h.shape[1]
    for r in range(start, stop):
        row, before, cell, out = z[r], old[r], c[r], h[r]
        i, f = row[:size], row[size : 2 * size]
        g, o = row[2 * size : 3 * size], row[3 * size : 4 * size]
        for j in range(bias.size):
            row[j] += bias[j]
        if w_p.size:
            of_f, of_o = w_p[size:], w_p[2 * size :]
            for j in range(size):
                i[j] += w_p[j] * before[j]
                f[j] += of_f[j] * before[j]
        for j in range(2 * size):
            row[j] = sigmoid(np.float64(row[j]))
        for j in range(size):
            g[j] = tanh(np.float64(g[j]))
        for j in range(size):
            cell[j] = np.float64(f[j]) * before[j] + np.float64(i[j]) * g[j]
        if w_p.size:
            for j in range(size):
                o[j] += of_o[j] * cell[j]
        for j in range(size):
            o[j] = sigmoid(np.float64(o[j]))
        for j in range(size):
            out[j] = o[j] * tanh(np.float64(cell[j]))


@kernel
def _forward(
    start: int,
    stop: int,
    begin: int,
    end: int,
    w: FloatArray,
    bias: FloatArray,
    w_p: FloatArray,
    z: FloatArray,
    c: FloatArray,
    h: FloatArray,
) -> None:
    """Compute the states h and c (T + 1, B, H); z (T, B, ...), products of inputs, become gates."""
    for t in range(begin, end):
        add_product(h[t, start:stop], w, z[t, start:stop])
        _step(start, stop, bias, w_p, c[t], z[t], c[t + 1], h[t + 1])


@kernel
def _step_vjp(
    start: int,
    stop: int,
    t: int,
    w_p: FloatArray,
    dout_h: FloatArray,
    dout_c: FloatArray,
    c: FloatArray,
    z: FloatArray,
    tanh_c: FloatArray,
    dc: FloatArray,
    dh: FloatArray,
) -> None:
    """
    Turn the gates z of a step into the gradients of their pre-activations.

    `dh` and `dc` (B, ...) are the gradients that come from later steps; `dc` becomes the gradient
    of the previous cell state, and `dh` zero, for a product.  `tanh_c` is a workspace (B, H).
    """
    size = c.shape[2]
    of_f, of_o = w_p[size:], w_p[2 * size :]
    for r in range(start, stop):
        y, before, of_c, of_h = tanh_c[r], c[t, r], dc[r], dh[r]
        for j in range(size):
            y[j] = tanh(np.float64(c[t + 1, r, j]))
        i, f = z[t, r, :size], z[t, r, size : 2 * size]
        g, o = z[t, r, 2 * size : 3 * size], z[t, r, 3 * size : 4 * size]
        for j in range(size):
            u, a = of_h[j] + dout_h[r, t, j], o[j]
            of_c[j] += dout_c[r, t, j] + u * a * ((1.0 - y[j]) * (1.0 + y[j]))
            o[j] = u * y[j] * (a * (1.0 - a))
            of_h[j] = 0.0
        if w_p.size:
            for j in range(size):
                of_c[j] += of_o[j] * o[j]
        for j in range(size):
            v, a, b, d = of_c[j], i[j], f[j], g[j]
            i[j] = v * d * (a * (1.0 - a))
            f[j] = v * before[j] * (b * (1.0 - b))
            g[j] = v * a * ((1.0 - d) * (1.0 + d))
            of_c[j] = v * b
        if w_p.size:
            for j in range(size):
                of_c[j] += w_p[j] * i[j] + of_f[j] * f[j]


@kernel
def _backward(
    start: int,
    stop: int,
    begin: int,
    end: int,
    w: FloatArray,
    w_p: FloatArray,
    dout_h: FloatArray,
    dout_c: FloatArray,
    c: FloatArray,
    z: FloatArray,
    tanh_c: FloatArray,
    dc: FloatArray,
    dh: FloatArray,
) -> None:
    """Turn the gates z into gradients; dh and dc become the gradients of the first states."""
    for t in range(end - 1, begin - 1, -1):
        _step_vjp(start, stop, t, w_p, dout_h, dout_c, c, z, tanh_c, dc, dh)
        add_product(z[t, start:stop], w, dh[start:stop])


class _Forward(NamedTuple):
    """A forward pass, in the order of the steps; the states begin with the initial ones."""

    x: FloatArray  # (T, B, D)
    z: FloatArray  # (T, B, ...): the gates, and padding of the last panel
    h: FloatArray  # (T + 1, B, H)
    c: FloatArray

    @property
    def gates(self) -> FloatArray:
        return self.z[..., : GATES * self.h.shape[2]]


def _peepholes(a: Inputs) -> list[FloatArray]:
    """Return the peepholes of i, f and o, zeros where there are none."""
    return np.split(np.zeros(3 * a.size, a.x.dtype) if a.w_p is None else a.w_p, 3)


def _kernel_peepholes(a: Inputs) -> FloatArray:
    """Return the peepholes for a kernel: an empty array where there are none."""
    return np.empty(0, a.x.dtype) if a.w_p is None else a.w_p


@np.errstate(all="ignore")
def _forward_pass(a: Inputs, steps: Steps) -> _Forward:
    x, size, bias, w_p = by_time(steps.arranged(a.x)), a.size, a.b_ih + a.b_hh, _kernel_peepholes(a)
    z = project(x, a.w_ih)
    h, c = (with_first(state, len(x)) for state in a.states)
    if len(x) == 1:
        z[0, :, : GATES * size] += h[0] @ a.w_hh.T
        over_batch(_step, 4 * 60 * size, z.shape[1], bias, w_p, c[0], z[0], c[1], h[1])
    else:
        cost = 4 * size * (size + 60)
        over_steps(_forward, cost, z.shape, panels(a.w_hh.T), bias, w_p, z, c, h)
    for y in (z, h[1:], c[1:]):
        steps.clip(y)
    return _Forward(x, z, h, c)


def _states(a: Inputs, steps: Steps) -> tuple[FloatArray, FloatArray]:
    """Return both states (B, T, H) after each step."""
    states = _forward_pass(a, steps)[2:]  # the gates are not held any longer
    h, c = a.outputs(*(steps.arranged(state[1:].swapaxes(0, 1)) for state in states))
    return h, c


def _split(z: FloatArray) -> list[FloatArray]:
    return np.split(z, GATES, axis=-1)


def _slopes(z: FloatArray) -> FloatArray:
    """Return the slopes of the activations of the gates z, in place."""
    i, f, g, o = _split(z)
    return np.concatenate([i * (1 - i), f * (1 - f), (1 - g) * (1 + g), o * (1 - o)], axis=-1)


@np.errstate(all="ignore")
def _vjp(
    a: Inputs, steps: Steps, u_h: FloatArray, u_c: FloatArray, u_z: FloatArray | None = None
) -> tuple[FloatArray, ...]:
    """Return the gradients for cotangents (B, T, ...) of h, c and perhaps of the gates."""
    forward = _forward_pass(a, steps)
    (x, z, h, c), dz = forward, forward.gates  # the kernel puts the gradients in their place
    _, batch, size = h.shape
    u_h, u_c = as_carray(steps.arranged(u_h)), as_carray(steps.arranged(u_c))
    first_h = first_c = np.zeros((), h.dtype)
    direct = None
    if u_z is not None:  # cotangents of the gates reach earlier states
        direct = by_time(steps.arranged(u_z)) * _slopes(dz)
        (d_i, d_f, _, d_o), (p_i, p_f, p_o) = _split(direct), _peepholes(a)
        into_h, into_c = direct @ a.w_hh, d_i * p_i + d_f * p_f
        first_h, first_c = into_h[:1].sum(axis=0), into_c[:1].sum(axis=0)
        u_h, u_c = np.zeros_like(u_h), by_time(d_o * p_o)
        u_h[:, :-1] += into_h[1:].swapaxes(0, 1)
        u_c[:, :-1] += into_c[1:].swapaxes(0, 1)
    dh, dc = np.zeros((batch, padded(size, h.dtype)), h.dtype), np.zeros_like(h[0])
    arguments = _kernel_peepholes(a), u_h, u_c, c, z, np.empty_like(dc), dc, dh
    if len(x) == 1:
        over_batch(_step_vjp, 4 * 20 * size, batch, 0, *arguments)
        dh = dz[0] @ a.w_hh
    else:
        cost, w = 4 * size * (size + 20), panels(a.w_hh)
        over_steps(_backward, cost, z.shape, w, *arguments, backward=True)
    if direct is not None:
        dz += direct
    peepholes = [a.b_ih[:0]]
    if a.w_p is not None:
        d_i, d_f, _, d_o = _split(dz)
        peepholes = [total(d_i * c[:-1]), total(d_f * c[:-1]), total(d_o * c[1:])]
    sums, rows = total(dz), rows_of(dz)
    return a.gradients(
        x=steps.arranged(product_of_steps(dz, a.w_ih).swapaxes(0, 1)),
        h=dh[:, :size] + first_h,
        c=dc + first_c,
        w_ih=blas_matmul(rows.T, rows_of(x)),
        w_hh=blas_matmul(rows.T, rows_of(h[:-1])),
        b_ih=sums,
        b_hh=sums.copy(),
        w_p=np.concatenate(peepholes),
    )


@np.errstate(all="ignore")
def _jvp(a: Inputs, d: Inputs, steps: Steps) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the tangents (B, T, ...) of z (as gates), h and c."""
    forward = _forward_pass(a, steps)
    (x, _, h, c), z = forward, forward.gates
    dx, slopes, y = by_time(steps.arranged(d.x)), _slopes(z), np.tanh(c[1:])
    dz = dx @ a.w_ih.T + x @ d.w_ih.T + h[:-1] @ d.w_hh.T + (d.b_ih + d.b_hh)
    (p_i, p_f, p_o), (dp_i, dp_f, dp_o) = _peepholes(a), _peepholes(d)
    dh, dc = d.states
    out_h, out_c = np.empty_like(h[1:]), np.empty_like(c[1:])
    for t in range(len(x)):
        i, f, g, o = _split(z[t])
        dz[t] += dh @ a.w_hh.T
        d_i, d_f, d_g, d_o = _split(dz[t])  # views
        d_i += p_i * dc + dp_i * c[t]
        d_f += p_f * dc + dp_f * c[t]
        dz[t, :, : 3 * a.size] *= slopes[t, :, : 3 * a.size]
        dc = f * dc + d_f * c[t] + i * d_g + d_i * g
        d_o += p_o * dc + dp_o * c[t + 1]
        d_o *= slopes[t, :, 3 * a.size :]
        dh = d_o * y[t] + o * (1 - y[t]) * (1 + y[t]) * dc
        out_h[t], out_c[t] = dh, dc
    of_z, of_h, of_c = (steps.arranged(v.swapaxes(0, 1)) for v in (dz, out_h, out_c))
    return of_z, of_h, of_c


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
        Candidates, between -1 and 1: the values that are written.
    o : ndarray, shape (..., T, H)
        Output gates, between 0 and 1: how much of the cell state is shown.

    See Also
    --------
    lstm_gates : Computes them.

    Notes
    -----
    The order is the same as in PyTorch and in the rows of all weights.
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
        Biases; only their sum matters. None is zero.
    w_p : array_like or None, shape (3 H,)
        Peepholes in the order i, f, o; None leaves them out.

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
    gru_cell : Two gates instead of three.

    Notes
    -----
    Six equations. Three gates, between 0 and 1, and a candidate, between -1 and 1, each a dense
    layer of input and state, with :math:`\vec b = \vec b_{ih} + \vec b_{hh}`:

    .. math::

        \vec i &= \sigma(\mat W_{xi} \vec x + \mat W_{hi} \vec h + \vec b_i), &
        \vec f &= \sigma(\mat W_{xf} \vec x + \mat W_{hf} \vec h + \vec b_f), \\
        \vec g &= \tanh(\mat W_{xg} \vec x + \mat W_{hg} \vec h + \vec b_g), \quad &
        \vec o &= \sigma(\mat W_{xo} \vec x + \mat W_{ho} \vec h + \vec b_o),

    and the two states, where :math:`\odot` multiplies element by element:

    .. math::

        \vec c' = \vec f \odot \vec c + \vec i \odot \vec g, \qquad
        \vec h' = \vec o \odot \tanh(\vec c').

    `w_ih` holds :math:`\mat W_{xi}, \mat W_{xf}, \mat W_{xg}, \mat W_{xo}` one below the other, and
    `w_hh` holds the same with h in place of x.

    **Gate by gate.** Say that a unit of a language model stores whether the subject is plural.

    - The *forget gate* f is the share of the old cell state that is kept. It should be near 0 at a
      new subject, and near 1 until then.
    - The *candidate* g is the value that could be stored, and the *input gate* i the share of it
      that is added. At the word "dogs" both should be near 1.
    - The *output gate* o is the share of the cell state that the other layers see. It should be
      near 1 where a verb comes next, since the verb must agree with the subject.

    The state h stays between −1 and 1, as a share of a tanh. The cell state has no bound: a unit
    that keeps all and writes 1 at every step counts.

    **Why it remembers.** The cell state is added to. A plain recurrent network multiplies its state
    by a matrix and applies tanh at every step; here the old state is multiplied by f only, and
    so is its gradient.

    **Peepholes** let the gates see the cell state, each unit its own:
    :math:`\vec p_i \odot \vec c` and :math:`\vec p_f \odot \vec c` are added inside of the
    input and the forget gate, :math:`\vec p_o \odot \vec c'`, of the new state, inside of the
    output gate.

    **Relatives.** The first LSTM had no forget gate, :math:`\vec f = 1`; Gers and others added it.
    Coupled gates, :math:`\vec f = 1 - \vec i`, store something new only where something old is
    dropped; :func:`gru_cell` has them, and has no cell state in addition to h.

    References
    ----------
    - :cite:t:`Hochreiter1997`
    - :cite:t:`Gers2000`
    - :cite:t:`GersSchmidhuber2000`

    Examples
    --------
    With weights of 0 the biases alone determine the gates. The sigmoid of log 3 is 3/4, so i = 1/2,
    f = 3/4, g = 1/2 and o = 1/4. Let the old cell state be 2. Then the new one is 3/4 · 2 + 1/2 ·
    1/2 = 1.75:

    >>> import numpy as np
    >>> from dlref.recurrent import lstm_cell
    >>> bias = [0.0, np.log(3), np.arctanh(0.5), -np.log(3)]
    >>> h, c = lstm_cell([1.0], [0.0], [2.0], np.zeros((4, 1)), np.zeros((4, 1)), bias)
    >>> float(c[0]), float(h[0] / np.tanh(1.75))
    (1.7500, 0.2500)

    With biases of 0 as well all gates are half open and the candidate is 0; the cell state halves:

    >>> h, c = lstm_cell([1.0], [0.0], [3.0], np.zeros((4, 1)), np.zeros((4, 1)))
    >>> c
    array([1.5])
    >>> h / np.tanh(1.5)
    array([0.5])
    """
    values = named(x, h, c, w_ih, w_hh, b_ih, b_hh, w_p, cell=True)
    a, _ = inputs(values, gates=GATES, states=2, cell=True)
    return _states(a, ONE_STEP)


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
    x, h, c, w_ih, w_hh, b_ih, b_hh, w_p : as in `lstm_cell`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients (dx, dh, dc, dw_ih, dw_hh, db_ih, db_hh, dw_p), without the arguments that are
        None.

    See Also
    --------
    lstm_vjp : Through many steps, with the derivation.

    Notes
    -----
    The formulas of :func:`lstm_vjp` for T = 1.

    **The differential.** From :math:`\vec c' = \vec f \odot \vec c + \vec i \odot \vec g` and
    :math:`\vec h' = \vec o \odot \tanh \vec c'`,

    .. math::

        \dd \vec c' &= \vec f \odot \dd \vec c + \vec c \odot \dd \vec f
            + \vec g \odot \dd \vec i + \vec i \odot \dd \vec g , \\
        \dd \vec h' &= \tanh \vec c' \odot \dd \vec o
            + \vec o \odot (1 - \tanh^2 \vec c') \odot \dd \vec c' .

    **The inner product.** :math:`\dd L = \langle \partial L / \partial \vec h', \dd \vec h' \rangle
    + \langle \partial L / \partial \vec c', \dd \vec c' \rangle`.

    **The transpose.** All factors are diagonal and their own transposes. The new cell state acts on
    the loss directly and through the new hidden state, and its total derivative collects both:

    .. math:: \dv{L}{\vec c'} = \pdv{L}{\vec c'}
        + \pdv{L}{\vec h'} \odot \vec o \odot (1 - \tanh^2 \vec c') , \qquad
        \dv{L}{\vec c} = \vec f \odot \dv{L}{\vec c'} \quad (\text{no peepholes}).

    Along the cell state the gradient passes one product and no matrix, no slope of an activation.

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
    values = named(x, h, c, w_ih, w_hh, b_ih, b_hh, w_p, cell=True)
    a, [u_h, u_c] = cotangents(dout, values, outputs=2, gates=GATES, states=2, cell=True)
    return _vjp(a, ONE_STEP, u_h, u_c)


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
        Raises the same errors as `lstm_cell`.
    tangents : tuple of array_like or None
        Their directions; None is zero.
    w_p, w_p_tangent : array_like or None, shape (3 H,)
        Peepholes and their direction.

    Returns
    -------
    dh : ndarray, shape (..., H)
        Tangent of the new state.
    dc : ndarray, shape (..., H)
        Tangent of the new cell state.

    See Also
    --------
    lstm_jvp : Through many steps, with the derivation.

    Notes
    -----
    The product rule on both states, with a dot for a tangent; :func:`lstm_gates_jvp` has the
    tangents of the gates:

    .. math::

        \dot{\vec c}' = \vec f \odot \dot{\vec c} + \dot{\vec f} \odot \vec c
            + \vec i \odot \dot{\vec g} + \dot{\vec i} \odot \vec g, \qquad
        \dot{\vec h}' = \dot{\vec o} \odot \tanh \vec c'
            + \vec o \odot (1 - \tanh^2 \vec c') \odot \dot{\vec c}' .

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
    a, d = jvp_arguments(
        primals, tangents, gates=GATES, states=2, cell=True, w_p=w_p, w_p_tangent=w_p_tangent
    )
    h, c = a.outputs(*_jvp(a, d, ONE_STEP)[1:])
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
    segment_ids: npt.ArrayLike | None = None,
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
        Biases; only their sum matters. None is zero.
    w_p : array_like or None, shape (3 H,)
        Peepholes in the order i, f, o; None leaves them out.
    reverse : bool, default False
        Whether the steps go from the last time to the first; the outputs stay in the order of the
        input.
    lengths : array_like of int or None, shape (...)
        Number of steps of each entry, from 0 to T; None is T for all. Outputs beyond are 0.
    segment_ids : array_like of integers or None, shape (..., T)
        Number of each step's document, for documents that are packed into one row, or an array that
        broadcasts to this shape. A document begins wherever the number differs from the number of
        the step before, and its states begin at 0. None is a single document.

    Returns
    -------
    h : ndarray, shape (..., T, H)
        State after each step.
    c : ndarray, shape (..., T, H)
        Cell state after each step.

    Raises
    ------
    TypeError
        If an array is not real, or `lengths` or `segment_ids` not integer.
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

        \vec c_t = \Bigl( \prod_{k=1}^{t} \vec f_k \Bigr) \odot \vec c_0
            + \sum_{s=1}^{t} \Bigl( \prod_{k=s+1}^{t} \vec f_k \Bigr)
              \odot \vec i_s \odot \vec g_s .

    A gate at 0.99 keeps 37 % over 100 steps; a gate at 1/2, its value if weights and biases are 0,
    keeps :math:`10^{-30}`. So it is best to start the bias of the forget gate at 1 (f = 0.73) or
    more (:cite:t:`Jozefowicz2015`): elements H to 2 H − 1 of `b_ih` or `b_hh`. If a unit is to
    remember d steps, a bias of :math:`\log(d - 1)` puts its gate at 1 - 1/d
    (:cite:t:`TallecOllivier2018`).

    **Computation.** As in :func:`rnn`: one product for all inputs, then one compiled loop over
    time in which threads divide the entries of the batch among them. Time is proportional to 4 B T
    H (D + H); the memory is 6 B T H + B T D numbers, results included. Errors in float32 are as in
    :func:`rnn`.

    **Packed documents.** See :func:`rnn`: with `segment_ids` each document has the states that it
    would have alone.

    References
    ----------
    - :cite:t:`Hochreiter1997`
    - :cite:t:`Gers2000`
    - :cite:t:`Jozefowicz2015`
    - :cite:t:`TallecOllivier2018`

    Examples
    --------
    An open forget gate and a closed input gate keep the cell state, whatever the input is:

    >>> import numpy as np
    >>> from dlref.recurrent import lstm
    >>> x, zero = np.arange(5.0)[:, None], np.zeros((4, 1))
    >>> h, c = lstm(x, [0.0], [0.25], zero, zero, b_ih=[-99, 99, 0, 0])
    >>> c.T
    array([[0.25, 0.25, 0.25, 0.25, 0.25]])

    With biases of 0 it would be halved at each step:

    >>> lstm(x, [0.0], [0.25], zero, zero)[1].T * 4
    array([[0.5    , 0.25   , 0.125  , 0.0625 , 0.03125]])
    """
    values = named(x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_p)
    a, _ = inputs(values, gates=GATES, states=2)
    return _states(*a.arranged(lengths, segment_ids, reverse=reverse))


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
    segment_ids: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Backpropagation through time: the vector-Jacobian product of :func:`lstm`.

    Parameters
    ----------
    dout : tuple (dh, dc) of array_like or None, shape (..., T, H)
        Cotangents of the states after each step, without the part that reaches the loss through
        later ones; None is zero.
    x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_p, reverse, lengths, segment_ids : as in `lstm`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients (dx, dh0, dc0, dw_ih, dw_hh, db_ih, db_hh, dw_p), without the arguments that are
        None.

    See Also
    --------
    rnn_vjp : The same idea for one state, step by step.

    Notes
    -----
    **The differential.** Step t has

    .. math::

        \dd \vec c_t &= \vec f_t \odot \dd \vec c_{t-1} + \vec c_{t-1} \odot \dd \vec f_t
            + \vec g_t \odot \dd \vec i_t + \vec i_t \odot \dd \vec g_t , \\
        \dd \vec h_t &= \tanh \vec c_t \odot \dd \vec o_t
            + \vec o_t \odot (1 - \tanh^2 \vec c_t) \odot \dd \vec c_t .

    The differential of a gate is its slope times the differential of its pre-activation, and the
    pre-activations are linear in :math:`\vec x_t`, :math:`\vec h_{t-1}` and the peepholes' cell
    states. Without peepholes :math:`\vec p = \vec 0`.

    **The inner product.** With the upstream gradients of the two states,
    :math:`\dd L = \sum_t (\vec u^h_t \cdot \dd \vec h_t + \vec u^c_t \cdot \dd \vec c_t)`.

    **The transpose.** From the last step to the first one. Two gradients come from the step after:
    :math:`\bar{\vec h}_t`, through the products with :math:`\mat W_{hh}`, and
    :math:`\bar{\vec c}_t`, along the cell state; both are :math:`\vec 0` for t = T. Within step t
    all factors are diagonal and their own transposes:

    1. *The state*: :math:`\vec\eta = \vec u^h_t + \bar{\vec h}_t` is the total derivative
       :math:`\mathrm dL / \mathrm d \vec h_t`.
    2. *The output gate*: the factor of its differential is :math:`\tanh \vec c_t`, so its
       pre-activation has :math:`\vec\delta_o = \vec\eta \odot \tanh \vec c_t \odot \vec o_t \odot
       (1 - \vec o_t)`.
    3. *The cell state*, with the total derivative :math:`\vec\kappa`, reaches the loss directly,
       through :math:`\vec c_{t+1}`, through :math:`\vec h_t`, and through the peephole of o:

       .. math::

           \vec\kappa = \vec u^c_t + \bar{\vec c}_t
             + \vec\eta \odot \vec o_t \odot (1 - \tanh^2 \vec c_t) + \vec p_o \odot \vec\delta_o .

    4. *The other gates*, with their factors in :math:`\dd \vec c_t`:

       .. math::

           \vec\delta_i &= \vec\kappa \odot \vec g_t \odot \vec i_t \odot (1 - \vec i_t), \\
           \vec\delta_f &= \vec\kappa \odot \vec c_{t-1} \odot \vec f_t \odot (1 - \vec f_t), \\
           \vec\delta_g &= \vec\kappa \odot \vec i_t \odot (1 - \vec g_t^2) .

    5. *The step before* gets, with :math:`\vec\delta = (\vec\delta_i, \vec\delta_f, \vec\delta_g,
       \vec\delta_o)`,

       .. math::

           \bar{\vec h}_{t-1} = \mat W_{hh}^\top \vec\delta, \qquad
           \bar{\vec c}_{t-1} = \vec f_t \odot \vec\kappa
             + \vec p_i \odot \vec\delta_i + \vec p_f \odot \vec\delta_f .

       After the first step these are the gradients of `h0` and `c0`. The input has
       :math:`\partial L / \partial \vec x_t = \mat W_{ih}^\top \vec\delta`.

    6. *The weights* are the same at all steps, so their differentials occur once for each step, and
       their gradients are the gradients of a dense layer, summed over steps and batch:
       :math:`\partial L / \partial \mat W_{hh} = \sum_t \vec\delta\, \vec h_{t-1}^\top`, with
       :math:`\vec x_t` for :math:`\mat W_{ih}` and 1 for the biases; :math:`\partial L / \partial
       \vec p_f = \sum_t \vec\delta_f \odot \vec c_{t-1}`, likewise for i, and with :math:`\vec c_t`
       for o.

    **The direct path.** Along the cell states alone the Jacobian is
    :math:`\partial \vec c_T / \partial \vec c_0 = \prod_t \operatorname{diag} \vec f_t`. Gradients
    do not flow *unchanged* unless the gates are 1: with biases of 0, :math:`f \approx 1/2`, they
    are halved at each step. The product cannot exceed 1, but this is not all of the
    gradient: through the gates the state feeds back with :math:`\mat W_{hh}`, and there
    it may explode. So gradients of LSTMs are clipped, too.

    **Cost.** About twice the products of the forward pass, and the forward pass itself. The
    backward pass needs the gates, which the gradients :math:`\vec\delta` then overwrite, and both
    states: 6 B T H + 2 B T D numbers in addition to inputs and results, and copies of the
    cotangents with `reverse` or `lengths`. The code computes :math:`\tanh \vec c` again. Slopes
    come from values, :math:`o (1 - o)` and :math:`(1 - g) (1 + g)`: exact to a rounding of 1, not
    relative to the slope of a saturated gate.

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
    values = named(x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_p)
    a, [u_h, u_c] = cotangents(dout, values, outputs=2, gates=GATES, states=2)
    a, steps = a.arranged(lengths, segment_ids, reverse=reverse)
    return _vjp(a, steps, a.split(u_h), a.split(u_c))


def lstm_jvp(
    primals: Any,
    tangents: Any,
    *,
    w_p: npt.ArrayLike | None = None,
    w_p_tangent: npt.ArrayLike | None = None,
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
    segment_ids: npt.ArrayLike | None = None,
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
    reverse, lengths, segment_ids : as in `lstm`
        Raises the same errors.

    Returns
    -------
    dh : ndarray, shape (..., T, H)
        Tangent of each state.
    dc : ndarray, shape (..., T, H)
        Tangent of each cell state.

    See Also
    --------
    rnn_jvp : Forward mode and real-time recurrent learning.

    Notes
    -----
    Tangents are carried along with the states. With a dot for a tangent, the tangent of the
    pre-activations is

    .. math::

        \dot{\vec z}_t = \mat W_{ih} \dot{\vec x}_t + \dot{\mat W}_{ih} \vec x_t
          + \mat W_{hh} \dot{\vec h}_{t-1} + \dot{\mat W}_{hh} \vec h_{t-1} + \dot{\vec b} ,

    with :math:`\vec b = \vec b_{ih} + \vec b_{hh}`, plus
    :math:`\vec p \odot \dot{\vec c} + \dot{\vec p} \odot \vec c` with peepholes, where
    :math:`\vec c` is :math:`\vec c_{t-1}` for i and f, :math:`\vec c_t` for o.
    :func:`lstm_gates_jvp` has the tangents of the gates, this times their slopes, and
    :func:`lstm_cell_jvp` has the tangents of the states.

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
    a, d = jvp_arguments(primals, tangents, gates=GATES, states=2, w_p=w_p, w_p_tangent=w_p_tangent)
    a, steps = a.arranged(lengths, segment_ids, reverse=reverse)
    h, c = a.outputs(*_jvp(a, d.packed(a.documents), steps)[1:])
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
    segment_ids: npt.ArrayLike | None = None,
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
        Biases; only their sum matters. None is zero.
    w_p : array_like or None, shape (3 H,)
        Peepholes in the order i, f, o; None leaves them out.
    reverse : bool, default False
        Whether the steps go from the last time to the first; the outputs stay in the order of the
        input.
    lengths : array_like of int or None, shape (...)
        Number of steps of each entry, from 0 to T; None is T for all. Outputs beyond are 0.
    segment_ids : array_like of integers or None, shape (..., T)
        Number of each step's document, for documents that are packed into one row, or an array that
        broadcasts to this shape. A document begins wherever the number differs from the number of
        the step before, and its states begin at 0. None is a single document.

    Returns
    -------
    LSTMGates
        The tuple (i, f, g, o), each of shape (..., T, H).

    Raises
    ------
    TypeError
        If an array is not real, or `lengths` or `segment_ids` not integer.
    ValueError
        If a shape does not fit, or a length is not between 0 and T.

    See Also
    --------
    lstm : The states of the same run.
    LSTMGates : The meaning of each gate.

    Notes
    -----
    The gates of :func:`lstm_cell` at every step, with :math:`\vec p = \vec 0` where there are no
    peepholes:

    .. math::

        \vec i_t &= \sigma(\mat W_{xi} \vec x_t + \mat W_{hi} \vec h_{t-1} + \vec b_i
            + \vec p_i \odot \vec c_{t-1}), &
        \vec f_t &= \sigma(\mat W_{xf} \vec x_t + \mat W_{hf} \vec h_{t-1} + \vec b_f
            + \vec p_f \odot \vec c_{t-1}), \\
        \vec g_t &= \tanh(\mat W_{xg} \vec x_t + \mat W_{hg} \vec h_{t-1} + \vec b_g), &
        \vec o_t &= \sigma(\mat W_{xo} \vec x_t + \mat W_{ho} \vec h_{t-1} + \vec b_o
            + \vec p_o \odot \vec c_t) .

    The states follow from the gates alone:
    :math:`\vec c_t = \vec f_t \odot \vec c_{t-1} + \vec i_t \odot \vec g_t` and
    :math:`\vec h_t = \vec o_t \odot \tanh \vec c_t`.

    Examples
    --------
    The product of the forget gates is the share of the initial cell state that remains if nothing
    is written:

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
    values = named(x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_p)
    a, _ = inputs(values, gates=GATES, states=2)
    a, steps = a.arranged(lengths, segment_ids, reverse=reverse)
    z = _forward_pass(a, steps).gates.swapaxes(0, 1)
    return LSTMGates(*a.outputs(*_split(steps.arranged(z))))


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
    segment_ids: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of :func:`lstm_gates`.

    Parameters
    ----------
    dout : tuple (di, df, dg, do) of array_like or None, shape (..., T, H)
        Cotangents of the gates after each step; None is zero.
    x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_p, reverse, lengths, segment_ids : as in `lstm_gates`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients (dx, dh0, dc0, dw_ih, dw_hh, db_ih, db_hh, dw_p), without the arguments that are
        None.

    See Also
    --------
    lstm_vjp : From the states.

    Notes
    -----
    A cotangent of a gate, times its slope, is a gradient of its pre-activation. It is added to the
    gradients from the next step, :math:`\bar{\vec h}_t` and :math:`\bar{\vec c}_t` of
    :func:`lstm_vjp`:

    .. math::

        \vec\delta_o &= (\vec u^o_t + \bar{\vec h}_t \odot \tanh \vec c_t) \odot \vec o_t \odot
            (1 - \vec o_t), \\
        \vec\kappa &= \bar{\vec c}_t + \bar{\vec h}_t \odot \vec o_t \odot (1 - \tanh^2 \vec c_t)
            + \vec p_o \odot \vec\delta_o, \\
        \vec\delta_i &= (\vec u^i_t + \vec\kappa \odot \vec g_t) \odot \vec i_t \odot
            (1 - \vec i_t), \\
        \vec\delta_f &= (\vec u^f_t + \vec\kappa \odot \vec c_{t-1}) \odot \vec f_t \odot
            (1 - \vec f_t), \\
        \vec\delta_g &= (\vec u^g_t + \vec\kappa \odot \vec i_t) \odot (1 - \vec g_t^2) .

    The gradients of the previous step and of the weights are as in :func:`lstm_vjp`. A penalty on
    gates, say to keep them open, is differentiated in this way.

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
    values = named(x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_p)
    a, gates = cotangents(dout, values, outputs=GATES, gates=GATES, states=2)
    a, steps = a.arranged(lengths, segment_ids, reverse=reverse)
    u = a.split(np.concatenate(gates, axis=-1))
    zero = np.zeros((*u.shape[:2], a.size), u.dtype)
    return _vjp(a, steps, zero, zero, u)


def lstm_gates_jvp(
    primals: Any,
    tangents: Any,
    *,
    w_p: npt.ArrayLike | None = None,
    w_p_tangent: npt.ArrayLike | None = None,
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
    segment_ids: npt.ArrayLike | None = None,
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
    reverse, lengths, segment_ids : as in `lstm_gates`
        Raises the same errors.

    Returns
    -------
    LSTMGates
        Tangents of i, f, g and o, each of shape (..., T, H).

    See Also
    --------
    lstm_jvp : Of the states.

    Notes
    -----
    With the tangents :math:`\dot{\vec z}_t` of the pre-activations of :func:`lstm_jvp`,

    .. math::

        \dot{\vec i}_t &= \vec i_t \odot (1 - \vec i_t) \odot \dot{\vec z}_{i,t}, &
        \dot{\vec f}_t &= \vec f_t \odot (1 - \vec f_t) \odot \dot{\vec z}_{f,t}, \\
        \dot{\vec g}_t &= (1 - \vec g_t^2) \odot \dot{\vec z}_{g,t}, &
        \dot{\vec o}_t &= \vec o_t \odot (1 - \vec o_t) \odot \dot{\vec z}_{o,t} .

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
    a, d = jvp_arguments(primals, tangents, gates=GATES, states=2, w_p=w_p, w_p_tangent=w_p_tangent)
    a, steps = a.arranged(lengths, segment_ids, reverse=reverse)
    dz, _, _ = _jvp(a, d.packed(a.documents), steps)
    return LSTMGates(*a.outputs(*_split(dz)))
