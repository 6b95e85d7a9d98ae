r"""The selective scan: a linear recurrence whose coefficients depend on the token."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    FloatDType,
    as_bool,
    as_cotangents,
    as_floats,
    check_axes,
    check_given,
    check_ndim,
    check_pattern,
    check_shape,
    entries,
    present,
    result,
    tangents_by_name,
)
from .._core.documents import beginnings, of_document
from ..activations import sigmoid, softplus
from ._kernels import scan

NAMES = ("x", "delta", "a", "b", "c", "d", "state")


def _operands(
    labels: dict[str, Any], extra: dict[str, Any]
) -> tuple[FloatDType, dict[str, FloatArray], list[FloatArray]]:
    """Check the operands, by name; an absent `d` or `state` gets no entry."""
    given = present(labels)
    for label in list(labels)[:5]:
        check_given(label, labels[label])
    dtype, floats = as_floats({**given, **extra})
    arrays = dict(zip(given, floats, strict=False))
    names = dict(zip(NAMES, labels, strict=True))
    x, a = arrays[names["x"]], arrays[names["a"]]
    check_ndim(names["x"], x, 2)
    check_shape(names["delta"], arrays[names["delta"]], x.shape)
    check_axes(names["a"], a, 2)
    check_pattern(names["a"], a, (x.shape[-1], "N"))
    for name in ("b", "c"):
        check_shape(names[name], arrays[names[name]], (*x.shape[:-1], a.shape[1]))
    if names["d"] in arrays:
        check_shape(names["d"], arrays[names["d"]], x.shape[-1:])
    if names["state"] in arrays:
        check_shape(names["state"], arrays[names["state"]], (*x.shape[:-2], *a.shape))
    return dtype, {n: arrays[names[n]] for n in NAMES if names[n] in arrays}, floats[len(given) :]


def _by_rows(arrays: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the arrays with one batch axis, and states of zero where there are none."""
    batch = arrays["x"].shape[:-2]
    count = math.prod(batch)
    start = arrays.get("state", np.zeros((*batch, *arrays["a"].shape)))
    return {
        name: array if name in ("a", "d") else array.reshape(count, *array.shape[len(batch) :])
        for name, array in {**arrays, "state": start}.items()
    }


def selective_scan(
    x: npt.ArrayLike,
    delta: npt.ArrayLike,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    d: npt.ArrayLike | None = None,
    state: npt.ArrayLike | None = None,
    *,
    delta_softplus: bool = False,
    segment_ids: npt.ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Read a sequence with a linear recurrence whose coefficients depend on the token.

    This is the core of Mamba: each channel has a state of N numbers, which decay, are written to
    and are read. The step size decides how much of the past a token keeps.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        Inputs, T steps of D channels.
    delta : array_like, shape (..., T, D)
        Step size of each channel at each step, usually positive.
    a : array_like, shape (D, N)
        Rates of the N numbers of each channel's state, usually negative.
    b, c : array_like, shape (..., T, N)
        How the input is written to the state, and how the state is read. All channels share them.
    d : array_like or None, shape (D,)
        Factor of the input in the output of the same step. None is zero.
    state : array_like or None, shape (..., D, N)
        State before the first step. None is zero.
    delta_softplus : bool, default False
        Whether the step size is the :func:`~dlref.activations.softplus` of `delta`.
    segment_ids : array_like of integers or None, shape (..., T)
        Number of each step's document, for documents that are packed into one row, or an array that
        broadcasts to this shape. A document begins wherever the number differs from the number of
        the step before, and its state begins at 0. None is a single document.

    Returns
    -------
    out : ndarray, shape (..., T, D)
        Outputs.
    state : ndarray, shape (..., D, N)
        State after the last step, of the last document.

    Raises
    ------
    TypeError
        If an array is not real, `delta_softplus` is not True or False, or `segment_ids` are not
        integer.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    dlref.attention.recurrent_linear_attention : One rate for each head: the layer of Mamba-2.
    gru : Gates that also depend on the state, so that no scan computes them.

    Notes
    -----
    For each channel, with the step size :math:`\Delta_t` and :math:`\vec h_t` of length N,

    .. math:: \vec h_t = e^{\Delta_t \vec a} \odot \vec h_{t-1} + \Delta_t x_t\, \vec b_t , \qquad
       y_t = \vec c_t \cdot \vec h_t + d\, x_t .

    **Where it comes from.** The system :math:`\dot{\vec h} = \vec a \odot \vec h + \vec b\, x`
    is solved exactly over a time :math:`\Delta` in which x and b are constant. The state is
    multiplied by :math:`e^{\Delta \vec a}`, and the input by
    :math:`(e^{\Delta \vec a} - 1) / \vec a`. Mamba keeps the first and takes
    :math:`\Delta`, the linear term of the series, for the second. A step size of 0 skips a token:
    the state stays, and nothing is written. A large one forgets the past. So delta plays the part
    of the gates of a GRU.

    **One step after the other, or all at once.** The recurrence is linear, so two steps are one
    step. A step is a pair of a factor and a summand. The step :math:`(\vec \alpha, \vec \beta)`,
    followed by :math:`(\vec \alpha', \vec \beta')`, is

    .. math:: (\vec \alpha', \vec \beta') \bullet (\vec \alpha, \vec \beta) = (\vec \alpha' \odot
       \vec \alpha,\; \vec \alpha' \odot \vec \beta + \vec \beta') .

    This operation is associative. From a state of 0, the states are the summands of all its
    prefixes, and a *scan* finds all prefixes of an associative operation in
    :math:`\lceil \log_2 T \rceil` rounds: round k = 0, 1, ... combines each pair with the pair
    :math:`2^k` steps before. A graphics processor gains from that, although the sum of all rounds
    is more work. ``selective_scan_doubling`` below does so; the compiled loop takes one step after
    the other, with several channels at once.

    **Packed documents.** Let :math:`z_t` be the segment ids. From the second step on, the factor of
    the state is 0 where a document begins:

    .. math:: \vec h_t = [\, z_t = z_{t-1}\,]\, e^{\Delta_t \vec a} \odot \vec h_{t-1}
       + \Delta_t x_t\, \vec b_t .

    So each document has the outputs that it would have alone, and a scan needs no other operation,
    since a pair with the factor 0 forgets all pairs before it. A large step size forgets them, too,
    but it also scales the summand. The state before the first step belongs to the first document,
    and the state after the last step to the last document. A number that comes back later begins a
    new document. The code sets the state to 0, so that NaN and infinities of earlier documents have
    no effect.

    **Mamba-2.** If all N rates of a channel are one number, :math:`a_n = a`, and the
    channels of a head share it and delta, the states of a head are a matrix
    :math:`\mat S` of shape (N, D). Without the skip connection, d = 0,

    .. math:: \mat S_t = e^{\Delta_t a}\, \mat S_{t-1} + \vec b_t (\Delta_t \vec x_t)^\top , \qquad
       \vec y_t = \mat S_t^\top \vec c_t ,

    which is :func:`~dlref.attention.recurrent_linear_attention` with the queries c, the keys b, the
    values :math:`\Delta_t \vec x_t` and the decay :math:`\Delta_t a`. Its page derives the form in
    chunks, and why it is masked attention.

    **Conventions.** ``selective_scan_fn`` of mamba-ssm has time last, (B, D, T), and N before T.
    It adds ``delta_bias`` to delta before the softplus and multiplies the output by
    :math:`\operatorname{silu}(z)`, which are left to the caller here. The parameter of Mamba is
    :math:`\log(-\vec a)`.

    **Numerics.** In float64, rounded once. Cost: T D N exponentials, and T D + D N numbers of
    memory.

    References
    ----------
    - :cite:t:`GuDao2023`
    - :cite:t:`Blelloch1990` on scans

    Examples
    --------
    A step of 0 skips its token, and a large step forgets all earlier ones:

    >>> import numpy as np
    >>> from dlref.recurrent import selective_scan
    >>> x, ones = np.array([[4.0], [100.0], [2.0]]), np.ones((3, 1))
    >>> out, state = selective_scan(x, [[1.0], [0.0], [50.0]], [[-1.0]], ones, ones)
    >>> out.ravel()
    array([  4.,   4., 100.])

    With one rate for all it is linear attention:

    >>> from dlref.attention import recurrent_linear_attention
    >>> rng = np.random.default_rng(0)
    >>> x, b, c = rng.normal(size=(5, 3)), rng.normal(size=(5, 2)), rng.normal(size=(5, 2))
    >>> step = rng.uniform(size=(5, 1))
    >>> out, state = selective_scan(x, np.tile(step, 3), np.full((3, 2), -0.5), b, c)
    >>> same, memory = recurrent_linear_attention(c, b, step * x, -0.5 * step)
    >>> bool(np.allclose(out, same)), bool(np.allclose(state, memory.T))
    (True, True)

    Two documents in one row. The second begins with the third step, from a state of 0:

    >>> ones = np.ones((4, 1))
    >>> out, state = selective_scan(ones, ones, [[0.0]], ones, ones, segment_ids=[0, 0, 1, 1])
    >>> out.ravel()
    array([1., 2., 1., 2.])
    """
    through = as_bool("delta_softplus", delta_softplus)
    dtype, arrays, _ = _operands(dict(zip(NAMES, (x, delta, a, b, c, d, state), strict=True)), {})
    rows, begins = _by_rows(arrays), beginnings(segment_ids, arrays["x"].shape[:-1])
    out = np.empty(rows["x"].shape)
    with np.errstate(all="ignore"):
        step = softplus(rows["delta"]) if through else rows["delta"]
        a, b, c, first = (rows[n] for n in ("a", "b", "c", "state"))
        last = scan.forward(rows["x"], step, a, b, c, first, out, begins)
        if "d" in rows:
            out += rows["d"] * rows["x"]
    shape = (*arrays["x"].shape[:-2], *arrays["a"].shape)
    last = np.array(last, order="C").reshape(shape)
    return result(out.reshape(arrays["x"].shape), dtype), result(last, dtype)


def selective_scan_vjp(
    dout: Any,
    x: npt.ArrayLike,
    delta: npt.ArrayLike,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    d: npt.ArrayLike | None = None,
    state: npt.ArrayLike | None = None,
    *,
    delta_softplus: bool = False,
    segment_ids: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of the selective scan.

    Parameters
    ----------
    dout : tuple (dout, dstate) of array_like or None
        Cotangents of the output (..., T, D) and of the last state (..., D, N); None is zero.
    x, delta, a, b, c, d, state : as in `selective_scan`
        The operands.
    delta_softplus, segment_ids : as in `selective_scan`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients with respect to `x`, `delta`, `a`, `b` and `c`, then of `d` and `state` where
        given, each of the shape of its operand.

    Notes
    -----
    Let :math:`u_t` be the cotangent of :math:`y_t`, and :math:`\vec g_t` the gradient of
    :math:`\vec h_t` through all later steps and its own output. The state is multiplied by
    :math:`e^{\Delta_{t+1} \vec a}` on its way to the next step and by :math:`\vec c_t` on its way
    to the output, so the gradient runs backwards through the same kind of recurrence:

    .. math:: \vec g_t = e^{\Delta_{t+1} \vec a} \odot \vec g_{t+1} + u_t\, \vec c_t .

    It starts with the cotangent of the last state in place of the first term, and ends with the
    gradient of the first state, :math:`e^{\Delta_1 \vec a} \odot \vec g_1`. With the part of the
    state that was kept, :math:`\vec k_t = e^{\Delta_t \vec a} \odot \vec h_{t-1}`, the differential
    of a step is

    .. math:: \dd \vec h_t = \vec k_t \odot (\vec a\, \dd \Delta_t + \Delta_t\, \dd \vec a)
       + \vec b_t\, (x_t\, \dd \Delta_t + \Delta_t\, \dd x_t) + \Delta_t x_t\, \dd \vec b_t
       + e^{\Delta_t \vec a} \odot \dd \vec h_{t-1} ,

    and its dot product with :math:`\vec g_t` gives all gradients of a channel:

    .. math::

        \pdv{L}{\Delta_t} &= \vec g_t \cdot (\vec a \odot \vec k_t + x_t \vec b_t) , \qquad
        \pdv{L}{x_t} = \Delta_t\, \vec g_t \cdot \vec b_t + d\, u_t \\
        \pdv{L}{\vec a} &= \sum_t \Delta_t\, \vec g_t \odot \vec k_t , \qquad
        \pdv{L}{\vec b_t} = \Delta_t x_t\, \vec g_t , \qquad
        \pdv{L}{\vec c_t} = u_t \vec h_t , \qquad
        \pdv{L}{d} = \sum_t u_t x_t .

    The gradients of a and d add up over the batch, too, and the gradients of b and c over the
    channels, which share them. A step size that is a softplus multiplies its gradient by
    :math:`\sigma(\delta_t)`.

    **Packed documents.** In the first step of a document the factor of the state is 0, which is
    :math:`e^{\Delta_t \vec a}` in these formulas. So :math:`\vec k_t` is 0, and no gradient goes
    from this step to the step before.

    **Memory.** The states of all steps are T D N numbers, N times as many as the input. The code
    keeps every 16th state, and computes the states in between again.

    Examples
    --------
    The input of step t reaches the last state, decayed by the later steps:

    >>> import numpy as np
    >>> from dlref.recurrent import selective_scan_vjp
    >>> ones = np.ones((3, 1))
    >>> grads = selective_scan_vjp((0 * ones, [[1.0]]), ones, ones, [[np.log(0.5)]], ones, ones)
    >>> grads[0].ravel()
    array([0.25, 0.5 , 1.  ])
    """
    through = as_bool("delta_softplus", delta_softplus)
    labels = dict(zip(NAMES, (x, delta, a, b, c, d, state), strict=True))
    given = entries("dout", dout, 2)
    dtype, arrays, floats = _operands(labels, present(given))
    shapes = arrays["x"].shape, (*arrays["x"].shape[:-2], *arrays["a"].shape)
    u, dstate = as_cotangents(given, floats, shapes, arrays["x"].dtype)
    rows, begins = _by_rows(arrays), beginnings(segment_ids, arrays["x"].shape[:-1])
    u, dstate = u.reshape(rows["x"].shape), dstate.reshape(rows["state"].shape)
    with np.errstate(all="ignore"):
        step = softplus(rows["delta"]) if through else rows["delta"]
        a, b, c, first = (rows[n] for n in ("a", "b", "c", "state"))
        pulled = scan.vjp(u, dstate, rows["x"], step, a, b, c, first, begins)
        grads = dict(zip(("x", "delta", "a", "b", "c", "state"), pulled, strict=True))
        if through:
            grads["delta"] *= sigmoid(rows["delta"])
        if "d" in rows:
            grads["d"] = np.sum(u * rows["x"], axis=(0, 1))
            grads["x"] += rows["d"] * u
    shaped = {n: np.array(grads[n], order="C").reshape(array.shape) for n, array in arrays.items()}
    return tuple(result(shaped[n], dtype) for n in arrays)


def selective_scan_jvp(
    primals: Any,
    tangents: Any,
    *,
    delta_softplus: bool = False,
    segment_ids: npt.ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Jacobian-vector product (forward mode) of the selective scan.

    Parameters
    ----------
    primals : tuple (x, delta, a, b, c, d, state) of array_like
        The operands, as in `selective_scan`; the last two may be None.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its operand; None is zero.
    delta_softplus, segment_ids : as in `selective_scan`
        Raises the same errors.

    Returns
    -------
    dout : ndarray, shape (..., T, D)
        Tangent of the output.
    dstate : ndarray, shape (..., D, N)
        Tangent of the last state.

    Notes
    -----
    The differential of a step (:func:`selective_scan_vjp`) carries the tangent of the state along.
    With :math:`\vec k_t = e^{\Delta_t \vec a} \odot \vec h_{t-1}`,

    .. math::

        \dot{\vec h}_t &= e^{\Delta_t \vec a} \odot \dot{\vec h}_{t-1} + \vec k_t \odot
            (\dot\Delta_t \vec a + \Delta_t \dot{\vec a}) + (\dot\Delta_t x_t + \Delta_t \dot x_t)\,
            \vec b_t + \Delta_t x_t\, \dot{\vec b}_t \\
        \dot y_t &= \dot{\vec c}_t \cdot \vec h_t + \vec c_t \cdot \dot{\vec h}_t
            + \dot d\, x_t + d\, \dot x_t .

    In the first step of a document the state before it and its tangent are 0.

    Examples
    --------
    >>> from dlref.recurrent import selective_scan_jvp
    >>> primals = [[3.0]], [[2.0]], [[-1.0]], [[5.0]], [[7.0]], None, None
    >>> out, state = selective_scan_jvp(primals, ([[1.0]],) + 6 * (None,))
    >>> out, state
    (array([[70.]]), array([[10.]]))
    """
    through = as_bool("delta_softplus", delta_softplus)
    dtype, arrays, moving = tangents_by_name(NAMES, primals, tangents, _operands)
    begins = beginnings(segment_ids, arrays["x"].shape[:-1])
    changes = {n: moving.get(n, np.zeros(array.shape)) for n, array in arrays.items()}
    with np.errstate(all="ignore"):
        if through:
            changes["delta"] = changes["delta"] * sigmoid(arrays["delta"])
            arrays = {**arrays, "delta": np.asarray(softplus(arrays["delta"]))}
        out, last = _pushed(_by_rows(arrays), _by_rows(changes), begins)
    shape = (*arrays["x"].shape[:-2], *arrays["a"].shape)
    return result(out.reshape(arrays["x"].shape), dtype), result(last.reshape(shape), dtype)


def _pushed(
    rows: dict[str, FloatArray],
    moves: dict[str, FloatArray],
    begins: npt.NDArray[np.bool_] | None,
) -> tuple[FloatArray, FloatArray]:
    """Carry the states and their tangents through time; return tangents of outputs and state."""
    h, moved, a = rows["state"], moves["state"], rows["a"]
    out = np.empty(rows["x"].shape)
    for t in range(rows["x"].shape[1]):
        x, dx, step, dstep = (
            arrays[name][:, t, :, None] for name in ("x", "delta") for arrays in (rows, moves)
        )
        b, db, c, dc = (
            arrays[name][:, t, None, :] for name in ("b", "c") for arrays in (rows, moves)
        )
        h, moved = (of_document(state, begins, t) for state in (h, moved))
        decay = np.exp(step * a)
        kept = decay * h
        h = kept + step * x * b
        moved = decay * moved + kept * (dstep * a + step * moves["a"])
        moved = moved + (dstep * x + step * dx) * b + step * x * db
        out[:, t] = np.sum(dc * h + c * moved, axis=-1)
    if "d" in rows:
        out += moves["d"] * rows["x"] + rows["d"] * moves["x"]
    return out, np.array(moved)
