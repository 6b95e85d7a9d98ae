r"""Convolution over time that never looks ahead, a channel at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    FloatDType,
    as_cotangents,
    as_floats,
    check_given,
    check_ndim,
    check_shape,
    entries,
    present,
    result,
    tangents_by_name,
    wrong_shape,
)
from .._core.documents import beginnings
from .._core.jit import kernel
from .._core.threads import as_carray, over_rows
from ._kernels.windows import ROOM, blocks

NAMES = ("x", "weight", "bias", "state")
Operands = dict[str, FloatArray]
Flags = npt.NDArray[np.bool_]


def _operands(
    labels: dict[str, Any], extra: dict[str, Any]
) -> tuple[FloatDType, Operands, list[FloatArray]]:
    """Check the operands, by name; an absent bias or state gets no entry."""
    given = present(labels)
    for label in list(labels)[:2]:
        check_given(label, labels[label])
    dtype, floats = as_floats({**given, **extra}, work=np.float32)
    arrays = dict(zip(given, floats, strict=False))
    x, weight, bias, state = labels
    check_ndim(x, arrays[x], 2)
    *batch, _, width = arrays[x].shape
    w = arrays[weight]
    if w.ndim != 2 or len(w) != width or not w.shape[1]:
        wrong_shape(weight, w, f"({width}, K) with K of at least 1")
    if bias in arrays:
        check_shape(bias, arrays[bias], (width,))
    if state in arrays:
        check_shape(state, arrays[state], (*batch, w.shape[1] - 1, width))
    names = dict(zip(labels, NAMES, strict=True))
    return dtype, {names[label]: arrays[label] for label in given}, floats[len(given) :]


def _sequences(ops: Operands) -> tuple[FloatArray, FloatArray]:
    """Return the inputs (N, T, D), and the state or zeros, which are before them: (N, K - 1, D)."""
    x, before = ops["x"], ops["weight"].shape[1] - 1
    count, width = math.prod(x.shape[:-2]), x.shape[-1]
    state = ops.get("state", np.zeros((count, before, width), x.dtype))
    return x.reshape(count, *x.shape[-2:]), state.reshape(count, before, width)


def _steps(x: FloatArray) -> list[slice]:
    """Return ranges of time with few enough numbers for the cache."""
    room = ROOM // max(1, 4 * x.shape[-1] * x.itemsize)
    return [part for (part,) in blocks(x.shape[-2:-1], room)]


def _numbers(segment_ids: Any, x: FloatArray, width: int) -> npt.NDArray[np.int64] | None:
    """Return the number (N, K - 1 + T) of the document of each input; the state is of number 0."""
    begins = beginnings(segment_ids, x.shape[:-1])
    if begins is None:
        return None
    return np.pad(np.cumsum(begins, axis=-1, dtype=np.int64), [(0, 0), (width - 1, 0)])


def _foreign(inputs: npt.NDArray[np.int64], outputs: npt.NDArray[np.int64], width: int) -> Flags:
    """Return whether the k-th input of a window is of another document: (K, N, steps)."""
    steps = outputs.shape[1]
    return np.stack([inputs[:, k : k + steps] != outputs for k in range(width)])


def _without(terms: FloatArray, foreign: Flags | None, *place: Any) -> FloatArray:
    """Set the terms of other documents to 0, in place: a product with 0 would keep their NaN."""
    if foreign is not None:
        terms[foreign[place]] = 0
    return terms


@kernel
def _filter(
    start: int,
    stop: int,
    x: FloatArray,
    before: FloatArray,
    columns: FloatArray,
    foreign: Flags,
    out: FloatArray,
) -> None:
    for r in range(start, stop):
        i, t = r // x.shape[1], r % x.shape[1]
        to = out[i, t]
        for c in range(to.size):
            to[c] = 0.0
        for k in range(columns.shape[0]):
            if foreign.shape[0] > 0 and foreign[k, i, t]:
                continue
            place = t + k - before.shape[1]
            row, factor = x[i, place] if place >= 0 else before[i, t + k], columns[k]
            for c in range(to.size):
                to[c] += row[c] * factor[c]


def _filtered(
    x: FloatArray, before: FloatArray, w: FloatArray, foreign: Flags | None = None
) -> FloatArray:
    """Return the sums over the window of every step of x (N, T, D), after (N, K - 1, D)."""
    out = np.empty(x.shape, x.dtype)
    flags = np.empty((0, 0, 0), np.bool_) if foreign is None else foreign
    rows, cost = math.prod(x.shape[:2]), w.size / 8
    if out.size:
        arrays = as_carray(x), as_carray(before), as_carray(w.T), flags
        over_rows(_filter, rows, cost, *arrays, out)
    return out


def causal_conv(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    state: npt.ArrayLike | None = None,
    *,
    segment_ids: npt.ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Causal convolution over time, with one kernel for each channel.

    Parameters
    ----------
    x : array_like, shape (..., T, D)
        Inputs, T steps of D channels.
    weight : array_like, shape (D, K)
        A kernel of K weights for each channel. The last weight multiplies the current step.
    bias : array_like or None, shape (D,)
        One number for each channel; None leaves it out.
    state : array_like or None, shape (..., K - 1, D)
        The K - 1 inputs before the first step, the oldest first. None is zero.
    segment_ids : array_like of integers or None, shape (..., T)
        Number of each step's document, for documents that are packed into one row, or an array that
        broadcasts to this shape. A document begins wherever the number differs from the number of
        the step before, and no output depends on an earlier document. None is a single document.

    Returns
    -------
    out : ndarray, shape (..., T, D)
        Outputs.
    state : ndarray, shape (..., K - 1, D)
        The last K - 1 inputs, with 0 for inputs of earlier documents: the state for the next call.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or `segment_ids` are not
        integer.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    conv : Any number of axes of space; its channels come before them.
    dlref.recurrent.selective_scan : The next layer of a Mamba block.
    dlref.attention.recurrent_linear_attention : The next layer of a Gated DeltaNet.

    Notes
    -----
    Each output is a weighted sum of the last K inputs of its channel,

    .. math:: y_{t d} = b_d + \sum_{k=0}^{K-1} W_{d k}\, x_{t - K + 1 + k,\, d} ,

    where :math:`x_{-1}, x_{-2}, \dots` are the rows of the state from the last one on. It is a
    convolution with as many groups as channels and K - 1 zeros, or the state, before the first step
    and none after the last.

    **The state.** An output depends on K - 1 earlier inputs and on nothing else, so these are all
    that has to be kept to continue a sequence. With the steps of all earlier calls counted,

    .. math:: \vec h_T = (\vec x_{T - K + 1}, \dots, \vec x_{T - 1})

    is the state after T steps. A sequence in pieces, each with the state of the piece before, gives
    the outputs of the whole sequence, and to the last bit: the same products are added in the same
    order. If a piece has fewer than K - 1 steps, a part of the old state stays in the new one.

    **Packed documents.** Let :math:`z_t` be the segment ids, and count the documents that begin
    after step 0, with :math:`n_t = 0` for the state:

    .. math:: n_t = \sum_{s=1}^{t} [\, z_s \ne z_{s-1}\,] , \qquad
       y_{t d} = b_d + \sum_{k=0}^{K-1} W_{d k}\, x_{t - K + 1 + k,\, d}\,
       [\, n_{t - K + 1 + k} = n_t\,] .

    So each document has the outputs that it would have alone. The state before the first step
    belongs to the first document, and the state after the last step to the last document. A number
    that comes back later begins a new document. The terms of other documents are left out and not
    multiplied by 0, so that their NaN and infinities have no effect.

    **Use.** In Mamba and in linear attention with gates, this layer with K = 4 stands
    before the recurrence. It compares neighboring tokens, which a decaying sum cannot do well. In
    WaveNet, causal convolutions with growing dilation are the whole model.

    **Cost.** K T D multiplications, in the dtype of the input, and memory for one padded copy of
    the input.

    References
    ----------
    - :cite:t:`GuDao2023`, Figure 3
    - :cite:t:`OordWaveNet2016`, Section 2.1

    Examples
    --------
    >>> from dlref.convolution import causal_conv
    >>> x, weight = [[1.0], [2.0], [4.0], [8.0]], [[100, 10, 1]]
    >>> out, state = causal_conv(x, weight)
    >>> out.ravel(), state.ravel()
    (array([  1.,  12., 124., 248.]), array([4., 8.]))

    In two pieces, with the state between them:

    >>> first, state = causal_conv(x[:1], weight)
    >>> second, state = causal_conv(x[1:], weight, None, state)
    >>> first.ravel(), second.ravel()
    (array([1.]), array([ 12., 124., 248.]))

    Its matrix has nothing above the diagonal. Each column is a channel here, with a unit vector as
    its sequence:

    >>> import numpy as np
    >>> causal_conv(np.eye(4), np.tile([100, 10, 1], (4, 1)))[0]
    array([[  1.,   0.,   0.,   0.],
           [ 10.,   1.,   0.,   0.],
           [100.,  10.,   1.,   0.],
           [  0., 100.,  10.,   1.]])

    If a document begins at the third step, it sees nothing of the two steps before:

    >>> out, state = causal_conv(x, weight, segment_ids=[0, 0, 1, 1])
    >>> out.ravel()
    array([ 1., 12.,  4., 48.])
    """
    labels = dict(zip(NAMES, (x, weight, bias, state), strict=True))
    dtype, ops, _ = _operands(labels, {})
    out, last = _outputs(ops, _numbers(segment_ids, ops["x"], ops["weight"].shape[1]))
    return result(out, dtype), result(last, dtype)


@np.errstate(all="ignore")
def _outputs(ops: Operands, numbers: npt.NDArray[np.int64] | None) -> tuple[FloatArray, FloatArray]:
    (x, before), width = _sequences(ops), ops["weight"].shape[1]
    foreign = None
    if numbers is not None:
        foreign = _foreign(numbers, numbers[:, width - 1 :], width)
    out = _filtered(x, before, ops["weight"], foreign)
    if "bias" in ops:
        out += ops["bias"]
    steps, shape = x.shape[1], ops["x"].shape
    last = np.concatenate([before[:, steps:], x[:, max(0, steps - width + 1) :]], axis=1)
    if numbers is not None:
        last[numbers[:, steps:] != numbers[:, -1:]] = 0
    return out.reshape(shape), last.reshape(*shape[:-2], *last.shape[1:])


def causal_conv_vjp(
    dout: Any,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    state: npt.ArrayLike | None = None,
    *,
    segment_ids: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of a causal convolution.

    Parameters
    ----------
    dout : tuple (dout, dstate) of array_like or None
        Cotangents of the output (..., T, D) and of the last state (..., K - 1, D); None is zero.
    x, weight, bias, state, segment_ids : as in `causal_conv`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients with respect to `x` and `weight`, then of `bias` and `state` where given, each of
        the shape of its operand.

    Notes
    -----
    Let :math:`u_{t d}` be the cotangent of an output, 0 before the first step and after the last.
    Input t is at place k in the window of step :math:`t + K - 1 - k`, and in the last state if it
    is one of the last K - 1. With the cotangent v of the state, and row i of it for input
    :math:`T - K + 1 + i`,

    .. math::

        \pdv{L}{x_{t d}} = \sum_{k=0}^{K-1} W_{d k}\, u_{t + K - 1 - k,\, d}
            + v_{t - T + K - 1,\, d} , \qquad
        \pdv{L}{W_{d k}} = \sum_t u_{t d}\, x_{t - K + 1 + k,\, d} , \qquad
        \pdv{L}{b_d} = \sum_t u_{t d} ,

    where the last term of the first is 0 for all earlier inputs. For negative t the first formula
    is the gradient of the state. The gradient runs the other way through time: an input gets it
    from its own and the K - 1 later steps. The gradients of weight and bias add up over the batch,
    in float64.

    **Packed documents.** With the numbers :math:`n_t` of :func:`causal_conv`, the terms of other
    documents are left out of the gradients, too:

    .. math::

        \pdv{L}{x_{t d}} &= \sum_{k=0}^{K-1} W_{d k}\, u_{t + K - 1 - k,\, d}\,
            [\, n_{t + K - 1 - k} = n_t\,] + v_{t - T + K - 1,\, d}\, [\, n_{T-1} = n_t\,] \\
        \pdv{L}{W_{d k}} &= \sum_t u_{t d}\, x_{t - K + 1 + k,\, d}\,
            [\, n_{t - K + 1 + k} = n_t\,] .

    Examples
    --------
    The cotangent of step 2 reaches the steps 0, 1 and 2:

    >>> from dlref.convolution import causal_conv_vjp
    >>> x, weight, u = [[1.0], [2.0], [4.0], [8.0]], [[100, 10, 1]], [[0.0], [0.0], [1.0], [0.0]]
    >>> dx, dweight = causal_conv_vjp((u, [[0.0], [0.0]]), x, weight)
    >>> dx.ravel(), dweight
    (array([100.,  10.,   1.,   0.]), array([[1., 2., 4.]]))
    """
    labels = dict(zip(NAMES, (x, weight, bias, state), strict=True))
    given = entries("dout", dout, 2)
    dtype, ops, floats = _operands(labels, present(given))
    shape, width = ops["x"].shape, ops["weight"].shape[1]
    shapes = shape, (*shape[:-2], width - 1, shape[-1])
    u, v = as_cotangents(given, floats, shapes, ops["x"].dtype)
    numbers = _numbers(segment_ids, ops["x"], width)
    with np.errstate(all="ignore"):
        (x, before), foreign, back = _sequences(ops), None, None
        u, v = u.reshape(x.shape), v.reshape(before.shape)
        around = [(0, 0), (width - 1, width - 1)]
        if numbers is not None:
            foreign = _foreign(numbers, numbers[:, width - 1 :], width)
            later = np.pad(numbers[:, width - 1 :], around, constant_values=-1)
            back = _foreign(later, numbers, width)
            v = np.where((numbers[:, shape[-2] :] == numbers[:, -1:])[..., None], v, 0)
        after = np.zeros_like(before)
        until = np.concatenate([u, after], axis=1)
        moved = _filtered(until, after, ops["weight"][:, ::-1], back)
        moved[:, shape[-2] :] += v
        grads = {
            "x": moved[:, width - 1 :].reshape(shape),
            "weight": _weight_grad(u, np.concatenate([before, x], axis=1), width, foreign),
            "bias": np.sum(u, axis=(0, 1), dtype=np.float64),
            "state": moved[:, : width - 1].reshape(*shape[:-2], width - 1, shape[-1]),
        }
    return tuple(result(grads[name].copy(), dtype) for name in ops)


def _weight_grad(u: FloatArray, x: FloatArray, width: int, foreign: Flags | None) -> FloatArray:
    """Return the sums over batch and time of the products of u (N, T, D) and the inputs."""
    out = np.zeros((width, u.shape[2]))
    for i, (one, of) in enumerate(zip(u, x, strict=True)):
        for part in _steps(one):
            some = one[part]
            for k in range(width):
                terms = some * of[part.start + k : part.start + k + len(some)]
                _without(terms, foreign, k, i, part)
                out[k] += terms.sum(axis=0, dtype=np.float64)
    return out.T


def causal_conv_jvp(
    primals: Any, tangents: Any, *, segment_ids: npt.ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""
    Jacobian-vector product (forward mode) of a causal convolution.

    Parameters
    ----------
    primals : tuple (x, weight, bias, state) of array_like
        The operands, as in `causal_conv`; the last two may be None.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its operand; None is zero.
    segment_ids : as in `causal_conv`
        Raises the same errors.

    Returns
    -------
    dout : ndarray, shape (..., T, D)
        Tangent of the output.
    dstate : ndarray, shape (..., K - 1, D)
        Tangent of the last state.

    Notes
    -----
    .. math:: \dot y_{t d} = \dot b_d + \sum_{k=0}^{K-1} \bigl( \dot W_{d k}\,
       x_{t - K + 1 + k,\, d} + W_{d k}\, \dot x_{t - K + 1 + k,\, d} \bigr) , \qquad
       \dot{\vec h}_T = (\dot{\vec x}_{T - K + 1}, \dots, \dot{\vec x}_{T - 1}) .

    With segment ids, the terms of other documents are left out as in :func:`causal_conv`.

    Examples
    --------
    >>> from dlref.convolution import causal_conv_jvp
    >>> primals = [[1.0], [2.0], [4.0]], [[10, 1]], None, None
    >>> out, state = causal_conv_jvp(primals, ([[1.0], [0.0], [0.0]], None, None, None))
    >>> out.ravel(), state.ravel()
    (array([ 1., 10.,  0.]), array([0.]))
    """
    dtype, ops, at = tangents_by_name(NAMES, primals, tangents, _operands)
    zeros = {name: np.zeros_like(array) for name, array in ops.items()}
    at = {**zeros, **at}
    numbers = _numbers(segment_ids, ops["x"], ops["weight"].shape[1])
    with np.errstate(all="ignore"):
        out, last = _outputs({**at, "weight": ops["weight"]}, numbers)
        still = {name: array for name, array in ops.items() if name != "bias"}
        out += _outputs({**still, "weight": at["weight"]}, numbers)[0]
    return result(out, dtype), result(last, dtype)
