r"""The recurrent network: its cell, its sequence, backpropagation through time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_integer, choice, result
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

#: Values of `activation`: functions whose slope follows from their value.
ACTIVATIONS = ("tanh", "relu", "sigmoid", "identity")


@kernel
def _step(start: int, stop: int, bias: FloatArray, code: int, z: FloatArray, h: FloatArray) -> None:
    """Compute the states h (B, H) of some entries from their pre-activations z."""
    for r in range(start, stop):
        if code == 0:
            for j in range(bias.size):
                h[r, j] = tanh(np.float64(z[r, j] + bias[j]))
        elif code == 1:
            for j in range(bias.size):
                y = z[r, j] + bias[j]
                h[r, j] = np.float64(0.0) if y <= 0.0 else np.float64(y)  # NaN stays
        elif code == 2:
            for j in range(bias.size):
                h[r, j] = sigmoid(np.float64(z[r, j] + bias[j]))
        else:
            for j in range(bias.size):
                h[r, j] = z[r, j] + bias[j]


@kernel
def _forward(
    start: int,
    stop: int,
    begin: int,
    end: int,
    w: FloatArray,
    bias: FloatArray,
    code: int,
    z: FloatArray,
    h: FloatArray,
) -> None:
    """Compute the states h (T + 1, B, H); z (T, B, ...) are the products of the inputs."""
    for t in range(begin, end):
        add_product(h[t, start:stop], w, z[t, start:stop])
        _step(start, stop, bias, code, z[t], h[t + 1])


@kernel
def _step_vjp(
    start: int,
    stop: int,
    t: int,
    code: int,
    dout: FloatArray,
    h: FloatArray,
    dz: FloatArray,
    dh: FloatArray,
) -> None:
    """Fill dz of a step from dh, the gradient that comes from later steps, and clear it."""
    for r in range(start, stop):
        for j in range(h.shape[2]):
            y, u = h[t + 1, r, j], dout[r, t, j] + dh[r, j]
            if code == 0:
                dz[t, r, j] = u * ((1.0 - y) * (1.0 + y))
            elif code == 1:
                dz[t, r, j] = u * (y > 0.0)
            elif code == 2:
                dz[t, r, j] = u * (y * (1.0 - y))
            else:
                dz[t, r, j] = u
            dh[r, j] = 0.0


@kernel
def _backward(
    start: int,
    stop: int,
    begin: int,
    end: int,
    w: FloatArray,
    code: int,
    dout: FloatArray,
    h: FloatArray,
    dz: FloatArray,
    dh: FloatArray,
) -> None:
    """Fill dz (T, B, H); dh (B, ...), first zero, becomes the gradient of the state before."""
    for t in range(end - 1, begin - 1, -1):
        _step_vjp(start, stop, t, code, dout, h, dz, dh)
        add_product(dz[t, start:stop], w, dh[start:stop])


def _code(activation: str) -> int:
    choice("activation", activation, ACTIVATIONS)
    return ACTIVATIONS.index(activation)


def _states(a: Inputs, x: FloatArray, code: int, steps: Steps) -> FloatArray:
    """Return the states (T + 1, B, H) for the inputs (T, B, D), in the order of the steps."""
    size, bias = a.size, a.b_ih + a.b_hh
    z, h = project(x, a.w_ih), with_first(a.states[0], len(x))
    if len(x) == 1:
        z[0, :, :size] += h[0] @ a.w_hh.T
        over_batch(_step, 40 * size, z.shape[1], bias, code, z[0], h[1])
    else:
        weights = panels(a.w_hh.T), bias
        over_steps(_forward, size * (size + 40), z.shape, *weights, code, z, h)
    steps.clip(h[1:])
    return h


@np.errstate(all="ignore")
def _run(a: Inputs, code: int, steps: Steps) -> FloatArray:
    """Return the state (B, T, H) after each step."""
    h = _states(a, by_time(steps.arranged(a.x)), code, steps)
    return steps.arranged(h[1:].swapaxes(0, 1))


def _slopes(h: FloatArray, code: int) -> FloatArray:
    """Return the slope of the activation at each value."""
    one = np.ones_like(h)
    return [(1 - h) * (1 + h), one * (h > 0), h * (1 - h), one][code]


def _truncated(
    dout: FloatArray, slopes: FloatArray, w_hh: FloatArray, reach: int
) -> tuple[FloatArray, FloatArray]:
    """Return dz and the gradient of the first state if no gradient goes `reach` steps back."""
    count, batch, size = slopes.shape
    dz = np.zeros_like(slopes)
    parts = np.zeros((min(reach, count), batch, size), dz.dtype)  # by the steps they have gone
    for t in range(count - 1, -1, -1):
        parts[1:] = parts[:-1] @ w_hh
        parts[0] = dout[:, t]
        parts *= slopes[t]
        dz[t] = parts.sum(axis=0)
    return dz, dz[0] @ w_hh if count else np.zeros((batch, size), dz.dtype)


def _backpropagated(
    dout: FloatArray, h: FloatArray, code: int, w_hh: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return dz and the gradient of the first state."""
    _, batch, size = h.shape
    dz = np.empty_like(h[1:])
    dh = np.zeros((batch, padded(size, h.dtype)), h.dtype)
    if len(dz) == 1:
        over_batch(_step_vjp, 20 * size, batch, 0, code, dout, h, dz, dh)
        return dz, dz[0] @ w_hh
    arguments = panels(w_hh), code, dout, h, dz, dh
    over_steps(_backward, size * (size + 20), dz.shape, *arguments, backward=True)
    return dz, dh[:, :size]


@np.errstate(all="ignore")
def _vjp(
    dout: FloatArray, a: Inputs, code: int, steps: Steps, truncate: int | None
) -> tuple[FloatArray, ...]:
    x, u = by_time(steps.arranged(a.x)), as_carray(steps.arranged(dout))
    h = _states(a, x, code, steps)
    if truncate is None:
        dz, dh = _backpropagated(u, h, code, a.w_hh)
    else:
        dz, dh = _truncated(u, _slopes(h[1:], code), a.w_hh, truncate)
    sums, rows = total(dz), rows_of(dz)
    return a.gradients(
        x=steps.arranged(product_of_steps(dz, a.w_ih).swapaxes(0, 1)),
        h=dh,
        w_ih=blas_matmul(rows.T, rows_of(x)),
        w_hh=blas_matmul(rows.T, rows_of(h[:-1])),
        b_ih=sums,
        b_hh=sums.copy(),
    )


@np.errstate(all="ignore")
def _jvp(a: Inputs, d: Inputs, code: int, steps: Steps) -> FloatArray:
    x, dx = by_time(steps.arranged(a.x)), by_time(steps.arranged(d.x))
    h = _states(a, x, code, steps)
    slopes = _slopes(h[1:], code)
    dz = dx @ a.w_ih.T + x @ d.w_ih.T + h[:-1] @ d.w_hh.T + (d.b_ih + d.b_hh)
    dh = d.states[0]
    for t in range(len(dz)):
        dh = slopes[t] * (dz[t] + dh @ a.w_hh.T)
        dz[t] = dh
    return steps.arranged(dz.swapaxes(0, 1))


def rnn_cell(
    x: npt.ArrayLike,
    h: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    activation: str = "tanh",
) -> FloatArray:
    r"""
    One step of a recurrent network: a dense layer of the input and of the state before.

    Parameters
    ----------
    x : array_like, shape (..., D)
        Input of this step.
    h : array_like or None, shape (..., H)
        State before it; None is zero.
    w_ih : array_like, shape (H, D)
        Weights of the input.
    w_hh : array_like, shape (H, H)
        Weights of the state.
    b_ih, b_hh : array_like or None, shape (H,)
        Biases; only their sum matters. None is zero.
    activation : {"tanh", "relu", "sigmoid", "identity"}
        The function :math:`\phi`.

    Returns
    -------
    ndarray, shape (..., H)
        State after the step.

    Raises
    ------
    TypeError
        If an array is not real.
    ValueError
        If a shape does not fit, or `activation` is not known.

    See Also
    --------
    rnn : Many steps.
    rnn_cell_vjp : Its gradients.
    lstm_cell, gru_cell : With gates.

    Notes
    -----
    .. math::

        \vec z = \mat W_{ih}\, \vec x + \vec b_{ih} + \mat W_{hh}\, \vec h + \vec b_{hh}, \qquad
        \vec h' = \phi(\vec z).

    It is one dense layer, with the matrix :math:`[\mat W_{ih}\; \mat W_{hh}]`, of the concatenation
    of both vectors. The two biases are a custom of cuDNN and PyTorch; one would do. ReLU has slope
    0 at 0.

    References
    ----------
    - :cite:t:`Elman1990`

    Examples
    --------
    Without a state it is a neuron, tanh(2 · 0.25 − 0.5):

    >>> from dlref.recurrent import rnn_cell
    >>> rnn_cell([2.0], None, [[0.25]], [[1.0]], b_ih=[-0.5])
    array([0.])

    With the identity and a weight of 1 it adds up:

    >>> rnn_cell([2.0], [40.0], [[1]], [[1]], activation="identity")
    array([42.])
    """
    code = _code(activation)
    values = named(x, h, w_ih, w_hh, b_ih, b_hh, cell=True)
    a, _ = inputs(values, gates=1, cell=True)
    return a.outputs(_run(a, code, ONE_STEP))[0]


def rnn_cell_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    h: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    activation: str = "tanh",
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of one step of a recurrent network.

    Parameters
    ----------
    dout : array_like, shape (..., H)
        Cotangent :math:`\vec u` of the new state.
    x, h, w_ih, w_hh, b_ih, b_hh, activation : as in `rnn_cell`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients (dx, dh, dw_ih, dw_hh, db_ih, db_hh), without the arguments that are None.

    See Also
    --------
    rnn_vjp : Through many steps.

    Notes
    -----
    **The differential.** The new state is :math:`\phi(\vec z)`, so

    .. math:: \dd \vec h' = \phi'(\vec z) \odot \bigl( \mat W_{ih}\, \dd \vec x
       + \mat W_{hh}\, \dd \vec h + \dd \mat W_{ih}\, \vec x + \dd \mat W_{hh}\, \vec h
       + \dd \vec b \bigr) .

    **The inner product.** :math:`\dd L = \vec u \cdot \dd \vec h' = \vec\delta \cdot \dd \vec z`
    with :math:`\vec\delta = \phi'(\vec z) \odot \vec u`, the gradient of the pre-activation.

    **The transpose.** It meets every term of :math:`\dd \vec z` with the other factor, transposed:

    .. math::

        \pdv{L}{\vec x} = \mat W_{ih}^\top \vec\delta, \quad
        \pdv{L}{\vec h} = \mat W_{hh}^\top \vec\delta, \quad
        \pdv{L}{\mat W_{ih}} = \vec\delta\, \vec x^\top, \quad
        \pdv{L}{\mat W_{hh}} = \vec\delta\, \vec h^\top, \quad
        \pdv{L}{\vec b} = \vec\delta ,

    the last three summed over the batch. The slope comes from the value, :math:`1 - h'^2` for
    tanh, so that :math:`\vec z` need not be kept.

    Examples
    --------
    At tanh 0 the slope is 1:

    >>> from dlref.recurrent import rnn_cell_vjp
    >>> rnn_cell_vjp([1.0], [2.0], [3.0], [[0.0]], [[0.0]])
    (array([0.]), array([0.]), array([[2.]]), array([[3.]]))
    """
    code = _code(activation)
    values = named(x, h, w_ih, w_hh, b_ih, b_hh, cell=True)
    a, [u] = cotangents(dout, values, gates=1, cell=True)
    return _vjp(u, a, code, ONE_STEP, None)


def rnn_cell_jvp(primals: Any, tangents: Any, *, activation: str = "tanh") -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of one step of a recurrent network.

    Parameters
    ----------
    primals : tuple (x, h, w_ih, w_hh, b_ih, b_hh) of array_like or None
        The arguments of :func:`rnn_cell`.
    tangents : tuple of array_like or None
        Their directions; None is zero.
    activation : as in `rnn_cell`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., H)
        Tangent of the new state.

    See Also
    --------
    rnn_jvp : Through many steps.

    Notes
    -----
    The product rule, with a dot for a tangent:

    .. math::

        \dot{\vec h}' = \phi'(\vec z) \odot \bigl( \mat W_{ih} \dot{\vec x}
            + \dot{\mat W}_{ih} \vec x + \mat W_{hh} \dot{\vec h} + \dot{\mat W}_{hh} \vec h
            + \dot{\vec b}_{ih} + \dot{\vec b}_{hh} \bigr).

    Examples
    --------
    First the weight of a state of 3 grows, then the state of a weight of 2:

    >>> from dlref.recurrent import rnn_cell_jvp
    >>> primals = [0.0], [3.0], [[1.0]], [[2.0]], None, None
    >>> rnn_cell_jvp(primals, (None, None, None, [[1.0]], None, None), activation="identity")
    array([3.])
    >>> rnn_cell_jvp(primals, (None, [1.0], None, None, None, None), activation="identity")
    array([2.])
    """
    code = _code(activation)
    a, d = jvp_arguments(primals, tangents, gates=1, cell=True)
    return a.outputs(_jvp(a, d, code, ONE_STEP))[0]


def rnn(
    x: npt.ArrayLike,
    h0: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    activation: str = "tanh",
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
    segment_ids: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Run a recurrent network over a sequence; return the state after each step.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        Inputs, time second to last.
    h0 : array_like or None, shape (..., H)
        State before the first step; None is zero.
    w_ih : array_like, shape (H, D)
        Weights of the input.
    w_hh : array_like, shape (H, H)
        Weights of the state.
    b_ih, b_hh : array_like or None, shape (H,)
        Biases; only their sum matters. None is zero.
    activation : {"tanh", "relu", "sigmoid", "identity"}
        The function :math:`\phi`.
    reverse : bool, default False
        Whether the steps go from the last time to the first. The outputs stay in the order of
        the input: the state after the last step is then at time 0.
    lengths : array_like of int or None, shape (...)
        Number of steps of each entry, from 0 to T; None is T for all. Outputs beyond are 0, and
        inputs there are ignored. Reversed, an entry starts at its own last time.
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
        If an array is not real, or `lengths` or `segment_ids` not integer.
    ValueError
        If a shape does not fit, a length is not between 0 and T, or `activation` is not known.

    See Also
    --------
    rnn_vjp : Backpropagation through time.
    rnn_state_jacobian : How a state depends on one before.
    lstm, gru : Cells with gates.
    bidirectional : Both directions.

    Notes
    -----
    The same cell at every time, with the initial state :math:`\vec h_0`:

    .. math::

        \vec z_t = \mat W_{ih}\, \vec x_t + \vec b_{ih} + \mat W_{hh}\, \vec h_{t-1} + \vec b_{hh},
        \qquad \vec h_t = \phi(\vec z_t), \qquad t = 1 \dots T.

    Element t - 1 of the output is :math:`\vec h_t`. Unrolled, it is a feed-forward network of T
    layers which share their weights and have an input each.

    **Memory of an impulse.** With the identity for :math:`\phi`, the contribution of
    :math:`\vec x_s` to :math:`\vec h_t` is :math:`\mat W_{hh}^{t-s} \mat W_{ih} \vec x_s`. It
    decays like the t - s'th power of the spectral radius of :math:`\mat W_{hh}`; with tanh, as a
    rule, faster. (Never slower, if the radius is also the largest singular value, as it is for
    symmetric and for orthogonal matrices. Otherwise slopes that differ between units may preserve
    information that the identity would forget.) The radius counts, not the size of an entry: a
    matrix of H × H entries 0.01 has the radius 0.01 H, forgets at once for H = 10, and for H = 1000
    grows by a factor of 10 per step.

    **Packed documents.** With `segment_ids` each document has the states that it would have alone.
    The initial state is for the document that is read first, the last one if the steps are
    reversed. The code makes a batch of the documents, padded to the longest of them.

    **Computation.** The products with :math:`\mat W_{ih}` depend on no state and are computed as
    one matrix product; the rest is one compiled loop over time, which divides the entries of the
    batch among threads. Time is proportional to B T H (D + H); the memory is 2 B T H + B T D
    numbers, the result included: the last are a copy of the input. In float32 everything is
    computed in float32, since each step rounds the state anyway: at T = 100 and H = 128 errors are
    below 1e-6 of the largest state, and below 1.5e-6 of the largest element of a gradient. In
    float64 products are summed in float64, with measured errors of 1e-15.

    References
    ----------
    - :cite:t:`Elman1990`

    Examples
    --------
    With the identity and weights of 1 it is a cumulative sum, and reversed the sum from the end:

    >>> from dlref.recurrent import rnn
    >>> x = [[1.0], [2.0], [3.0]]
    >>> rnn(x, None, [[1]], [[1]], activation="identity").T
    array([[1., 3., 6.]])
    >>> rnn(x, None, [[1]], [[1]], activation="identity", reverse=True).T
    array([[6., 5., 3.]])

    For a sequence of length 2, the third input is ignored:

    >>> rnn([x, x], None, [[1]], [[1]], activation="identity", lengths=[3, 2])[..., 0]
    array([[1., 3., 6.],
           [1., 3., 0.]])

    A new document begins with the third input:

    >>> rnn(x, None, [[1]], [[1]], activation="identity", segment_ids=[0, 0, 1]).T
    array([[1., 3., 3.]])
    """
    code = _code(activation)
    values = named(x, h0, w_ih, w_hh, b_ih, b_hh)
    a, _ = inputs(values, gates=1)
    a, steps = a.arranged(lengths, segment_ids, reverse=reverse)
    return a.outputs(_run(a, code, steps))[0]


def rnn_vjp(
    dout: npt.ArrayLike,
    x: npt.ArrayLike,
    h0: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    truncate: int | None = None,
    activation: str = "tanh",
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
    segment_ids: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Backpropagation through time: the vector-Jacobian product of a recurrent network.

    Parameters
    ----------
    dout : array_like, shape (..., T, H)
        Cotangent :math:`\vec u_t = \partial L / \partial \vec h_t` of each output, without the part
        that reaches the loss through later states.
    x, h0, w_ih, w_hh, b_ih, b_hh : as in `rnn`
        The same.
    truncate : int or None
        Number k of steps that :math:`\vec u_t` goes back: it reaches the steps
        :math:`s > t - k`, thus for k = 1 only its own. None goes back to the start.
    activation, reverse, lengths, segment_ids : as in `rnn`
        The same.

    Returns
    -------
    tuple of ndarray
        Gradients (dx, dh0, dw_ih, dw_hh, db_ih, db_hh), without the arguments that are None.

    Raises
    ------
    TypeError
        If an array is not real, or `lengths`, `segment_ids` or `truncate` not integer.
    ValueError
        If a shape does not fit, a length is not between 0 and T, `truncate` is less than 1, or
        `activation` is not known.

    See Also
    --------
    rnn_state_jacobian : The factor of the gradient on its way.
    lstm_vjp, gru_vjp : Through gates.

    Notes
    -----
    **The differential.** Step t has :math:`\dd \vec h_t = \phi'(\vec z_t) \odot \dd \vec z_t` and

    .. math:: \dd \vec z_t = \mat W_{ih}\, \dd \vec x_t + \dd \mat W_{ih}\, \vec x_t
       + \mat W_{hh}\, \dd \vec h_{t-1} + \dd \mat W_{hh}\, \vec h_{t-1}
       + \dd \vec b_{ih} + \dd \vec b_{hh} .

    **The inner product.** :math:`\dd L = \sum_t \vec u_t \cdot \dd \vec h_t`.

    **The transpose.** The loss depends on :math:`\vec h_t` in two ways: through the output of step
    t, and through :math:`\vec z_{t+1}`, in which :math:`\mat W_{hh}\, \vec h_t` is a term.

    1. *The state.* Write :math:`\vec\delta_t = \partial L / \partial \vec z_t`. The total
       derivative sums both ways,

       .. math::

           \dv{L}{\vec h_t} = \vec u_t + \mat W_{hh}^\top \vec\delta_{t+1},
           \qquad \vec\delta_{T+1} = \vec 0 .

    2. *The activation.* It acts on each unit separately, so its Jacobian is diagonal:

       .. math::
           :label: bptt

           \vec\delta_t = \phi'(\vec z_t) \odot
               \bigl( \vec u_t + \mat W_{hh}^\top \vec\delta_{t+1} \bigr),
           \qquad t = T, \dots, 1 .

    3. *The weights.* One matrix is used at every step. Give each step a copy of its own: the
       copy at step t has the gradient of a dense layer, :math:`\vec\delta_t \vec h_{t-1}^\top`. All
       copies have the same value, so their gradients add up:

       .. math::

           \pdv{L}{\mat W_{hh}} = \sum_{t=1}^T \vec\delta_t\, \vec h_{t-1}^\top, \qquad
           \pdv{L}{\mat W_{ih}} = \sum_{t=1}^T \vec\delta_t\, \vec x_t^\top, \qquad
           \pdv{L}{\vec b_{ih}} = \pdv{L}{\vec b_{hh}} = \sum_{t=1}^T \vec\delta_t ,

       and over the batch as well.
    4. *The inputs.* Inputs and the initial state enter once: :math:`\partial L / \partial \vec
       x_t = \mat W_{ih}^\top \vec\delta_t` and :math:`\partial L / \partial \vec h_0 = \mat
       W_{hh}^\top \vec\delta_1`.

    **Mean or sum.** The loss decides :math:`\vec u_t`, not this function. For outputs
    :math:`\hat y_t` and the loss :math:`\frac1T \sum_t (\hat y_t - y_t)^2` the cotangent of
    :math:`\hat y_t` is :math:`\frac2T (\hat y_t - y_t)`. The bare difference
    :math:`\hat y_t - y_t`, often written in its place, belongs to
    :math:`\frac12 \sum_t (\hat y_t - y_t)^2`, which is T/2 times as large, as are its gradients:
    see :doc:`/reference/recurrent`.

    **Truncation.** Sums over long sequences are cut to save time, and memory where the states are
    recomputed. Since :math:`\vec u_t` then does not reach the steps up to t - k, the result is not
    the gradient of any loss of the network, but of one in which each state k steps back is a
    constant: it is *biased*, towards short-term effects. By the bound of
    :func:`rnn_state_jacobian`, the part that is left out is of the order
    :math:`(\gamma \norm{\mat W_{hh}})^k`, small if gradients vanish, and the most important part if
    they do not.

    **Cost.** Twice the products of the forward pass, and the forward pass itself. It keeps the
    states, which give the slopes, and :math:`\vec\delta`: 2 B T H + 2 B T D numbers in addition to
    inputs and results, a copy of the cotangent with `reverse` or `lengths`, and more with
    `truncate`. With `truncate` each :math:`\vec u_t` goes back on its own, and the backward pass
    takes k times as long; training on chunks of k steps, as is usual, takes a single pass.

    References
    ----------
    - :cite:t:`Werbos1990`
    - :cite:t:`WilliamsPeng1990`

    Examples
    --------
    A sum of three inputs, read at the end: the full gradient reaches all of them, the truncated one
    only the last two.

    >>> from dlref.recurrent import rnn_vjp
    >>> x, w = [[1.0], [2.0], [3.0]], [[1.0]]
    >>> u = [[0.0], [0.0], [1.0]]
    >>> dx, dw_ih, dw_hh = rnn_vjp(u, x, None, w, w, activation="identity")
    >>> dx.T
    array([[1., 1., 1.]])
    >>> rnn_vjp(u, x, None, w, w, activation="identity", truncate=2)[0].T
    array([[0., 1., 1.]])

    The weight of the state, :math:`h_3 = x_3 + w (x_2 + w x_1)`, has the gradient
    :math:`x_2 + 2 w x_1 = 4`, the sum of :math:`\delta_3 h_2 = 3` and :math:`\delta_2 h_1 = 1`:

    >>> dw_hh
    array([[4.]])
    """
    code = _code(activation)
    reach = None if truncate is None else as_integer("truncate", truncate, least=1)
    values = named(x, h0, w_ih, w_hh, b_ih, b_hh)
    a, [u] = cotangents(dout, values, gates=1)
    a, steps = a.arranged(lengths, segment_ids, reverse=reverse)
    return _vjp(a.split(u), a, code, steps, reach)


def rnn_jvp(
    primals: Any,
    tangents: Any,
    *,
    activation: str = "tanh",
    reverse: bool = False,
    lengths: npt.ArrayLike | None = None,
    segment_ids: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a recurrent network.

    Parameters
    ----------
    primals : tuple (x, h0, w_ih, w_hh, b_ih, b_hh) of array_like or None
        The arguments of :func:`rnn`.
    tangents : tuple of array_like or None
        Their directions; None is zero.
    activation, reverse, lengths, segment_ids : as in `rnn`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, H)
        Tangent of each state.

    Notes
    -----
    Tangents are propagated with the states, forward in time:

    .. math::

        \dot{\vec h}_t = \phi'(\vec z_t) \odot \bigl( \mat W_{hh}\, \dot{\vec h}_{t-1}
            + \mat W_{ih} \dot{\vec x}_t + \dot{\mat W}_{ih} \vec x_t
            + \dot{\mat W}_{hh} \vec h_{t-1} + \dot{\vec b}_{ih} + \dot{\vec b}_{hh} \bigr).

    Only the last state and its tangent are stored, whatever T is: forward mode can run along with
    the network for any number of steps. **Real-time recurrent learning** does so for all weights at
    once. It carries the Jacobian of the state with respect to all P parameters, H P numbers, and
    the loss of step t has at once the gradient
    :math:`\vec u_t^\top\, \partial \vec h_t / \partial \theta`. With :math:`P \approx H^2`, a step
    multiplies an (H, H) by an (H, P) matrix: :math:`H^4` products where backpropagation through
    time needs :math:`H^2`, but no memory that grows with time. One column of that matrix is one
    call of this function.

    References
    ----------
    - :cite:t:`WilliamsZipser1989`

    Examples
    --------
    Real-time recurrent learning of one weight, :math:`h_t = \sum_s w^{t-s} x_s` at w = 1: the
    tangent of the state is its derivative, 0, 1 and 2 + 2.

    >>> from dlref.recurrent import rnn_jvp
    >>> primals = [[1.0], [2.0], [3.0]], None, [[1.0]], [[1.0]], None, None
    >>> direction = None, None, None, [[1.0]], None, None
    >>> rnn_jvp(primals, direction, activation="identity").T
    array([[0., 1., 4.]])
    """
    code = _code(activation)
    a, d = jvp_arguments(primals, tangents, gates=1)
    a, steps = a.arranged(lengths, segment_ids, reverse=reverse)
    return a.outputs(_jvp(a, d.packed(a.documents), code, steps))[0]


def rnn_state_jacobian(
    x: npt.ArrayLike,
    h0: npt.ArrayLike | None,
    w_ih: npt.ArrayLike,
    w_hh: npt.ArrayLike,
    b_ih: npt.ArrayLike | None = None,
    b_hh: npt.ArrayLike | None = None,
    *,
    t: int | None = None,
    s: int = 0,
    activation: str = "tanh",
) -> FloatArray:
    r"""
    Jacobian of a state with respect to one before it, :math:`\partial \vec h_t/\partial \vec h_s`.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        Inputs.
    h0 : array_like or None, shape (..., H)
        State before the first step; None is zero.
    w_ih : array_like, shape (H, D)
        Weights of the input.
    w_hh : array_like, shape (H, H)
        Weights of the state.
    b_ih, b_hh : array_like or None, shape (H,)
        Biases; None is zero.
    t : int or None
        Number of steps after which the state is read, at most T; None is T.
    s : int, default 0
        Number of steps after which the state is varied, at most t; 0 is the initial state.
    activation : {"tanh", "relu", "sigmoid", "identity"}
        The function :math:`\phi`.

    Returns
    -------
    ndarray, shape (..., H, H)
        ``J[..., i, j]`` is the derivative of unit i at t with respect to unit j at s, at given
        inputs.

    Raises
    ------
    TypeError
        If an array is not real, or `t` or `s` is not an integer.
    ValueError
        If a shape does not fit, not :math:`0 \le s \le t \le T`, or `activation` is not known.

    See Also
    --------
    rnn_vjp : Products with it, and more, without forming it.
    dlref.propagation.gradient_magnitude : The same question for layers.

    Notes
    -----
    One step has the Jacobian :math:`\operatorname{diag}(\phi'(\vec z_k))\, \mat W_{hh}`, and the
    chain rule multiplies, the latest on the left:

    .. math::

        \pdv{\vec h_t}{\vec h_s} = \prod_{k=t}^{s+1}
            \operatorname{diag}\bigl(\phi'(\vec z_k)\bigr)\, \mat W_{hh} .

    With :math:`\gamma = \max \abs{\phi'}`, which is 1 for tanh, ReLU and the identity and 1/4 for
    the sigmoid, the norm of a product is at most the product of the norms:

    .. math::

        \norm{\pdv{\vec h_t}{\vec h_s}}_2 \le (\gamma\, \norm{\mat W_{hh}}_2)^{t-s} .

    So if the largest *singular value* of the weights is below :math:`1/\gamma`, gradients
    vanish; that it is above is necessary for them to explode, but not sufficient.
    In the long run the *eigenvalues* count: for the identity, the t-th root of the norm
    of :math:`\mat W^t` tends to the spectral radius :math:`\rho`.

    Single weights decide neither. All weights of a 16 x 16 matrix are 0.9, less than 1, and it has
    :math:`\rho = 16 \cdot 0.9 = 14.4`; a 4 x 4 matrix with 5 above the diagonal and 0 elsewhere
    has :math:`\rho = 0`, and its fourth power is 0.

    References
    ----------
    - :cite:t:`Pascanu2013`

    Examples
    --------
    Weights below 1 that explode, and weights of 5 that vanish:

    >>> import numpy as np
    >>> from dlref.recurrent import rnn_state_jacobian
    >>> def after(steps, w):
    ...     n = len(w)
    ...     J = rnn_state_jacobian(
    ...         np.zeros((steps, 1)), None, np.zeros((n, 1)), w, activation="identity"
    ...     )
    ...     return float(np.linalg.norm(J, 2))
    >>> after(4, np.full((16, 16), 0.9)) / 14.4**4
    1.0
    >>> after(4, 5 * np.triu(np.ones((4, 4)), 1))
    0.0
    """
    code = _code(activation)
    values = named(x, h0, w_ih, w_hh, b_ih, b_hh)
    a, _ = inputs(values, gates=1)
    count = a.x.shape[1]
    last = count if t is None else as_integer("t", t, least=0, most=count)
    first = as_integer("s", s, least=0, most=last)
    with np.errstate(all="ignore"):
        slopes = _slopes(_states(a, by_time(a.x), code, ONE_STEP)[1:], code)
        jac = np.broadcast_to(np.eye(a.size, dtype=a.x.dtype), (len(a.x), a.size, a.size))
        for k in range(first, last):
            jac = slopes[k, :, :, None] * (a.w_hh @ jac)
    return result(as_carray(jac).reshape(*a.batch, a.size, a.size), a.dtype)
