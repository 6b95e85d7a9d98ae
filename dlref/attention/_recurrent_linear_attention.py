r"""Linear attention as a recurrence with a state of fixed size."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_number,
    check_constant,
    check_given,
    check_ndim,
    check_pattern,
    check_shape,
    entries,
    result,
)

__all__ = [
    "recurrent_linear_attention",
    "recurrent_linear_attention_jvp",
    "recurrent_linear_attention_vjp",
]

NAMES = ("q", "k", "v", "decay", "beta", "state")


def _operands(
    labels: dict[str, Any], extra: dict[str, Any]
) -> tuple[Any, dict[str, FloatArray], list[FloatArray]]:
    """Check the operands of the recurrence, by name; absent ones get no entry."""
    given = {label: value for label, value in labels.items() if value is not None}
    for label in list(labels)[:3]:
        check_given(label, labels[label])
    dtype, found = as_floats({**given, **extra})
    arrays = dict(zip(given, found, strict=False))
    names = dict(zip(NAMES, labels, strict=True))
    q, k, v = (arrays[names[n]] for n in NAMES[:3])
    check_ndim(names["q"], q, 2)
    check_shape(names["k"], k, q.shape)
    check_pattern(names["v"], v, (*q.shape[:-1], "V"))
    if names["decay"] in arrays:
        g = arrays[names["decay"]]
        width = 1 if g.shape[-1:] == (1,) else q.shape[-1]
        check_shape(names["decay"], g, (*q.shape[:-1], width))
    if names["beta"] in arrays:
        check_shape(names["beta"], arrays[names["beta"]], q.shape[:-1])
    if names["state"] in arrays:
        check_shape(
            names["state"], arrays[names["state"]], (*q.shape[:-2], q.shape[-1], v.shape[-1])
        )
    return dtype, {n: arrays[names[n]] for n in NAMES if names[n] in arrays}, found[len(given) :]


def _first_state(x: dict[str, FloatArray]) -> FloatArray:
    shape = (*x["q"].shape[:-2], x["q"].shape[-1], x["v"].shape[-1])
    return x["state"] if "state" in x else np.zeros(shape)


@np.errstate(all="ignore")
def _kept(x: dict[str, FloatArray]) -> FloatArray | None:
    return np.exp(x["decay"])[..., None] if "decay" in x else None


def _apply(state: FloatArray, vector: FloatArray) -> FloatArray:
    """Return state' vector."""
    return np.asarray(np.einsum("...ev,...e->...v", state, vector))


def _outer(a: FloatArray, b: FloatArray) -> FloatArray:
    return a[..., :, None] * b[..., None, :]


def recurrent_linear_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    decay: npt.ArrayLike | None = None,
    beta: npt.ArrayLike | None = None,
    state: npt.ArrayLike | None = None,
    *,
    scale: float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    r"""
    Linear attention as a memory that is written to, forgets, and is corrected.

    Parameters
    ----------
    q, k : array_like, shape (..., T, E)
        Queries and keys, after their feature map.
    v : array_like, shape (..., T, V)
        Values.
    decay : array_like or None, shape (..., T, E) or (..., T, 1)
        Logarithm :math:`\vec g_t` of the factor that decays the memory, usually at most 0; one for
        each row or one for all. None keeps everything.
    beta : array_like or None, shape (..., T)
        Share :math:`\beta_t` of the error that is corrected (the delta rule). None adds the value
        regardless of the memory's content.
    state : array_like or None, shape (..., E, V)
        Memory :math:`\mat S_0` before the first token; None is zero.
    scale : float, default 1.0
        Factor of the output.

    Returns
    -------
    out : ndarray, shape (..., T, V)
        Output of each query.
    state : ndarray, shape (..., E, V)
        Memory after the last token.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array, or `scale` is not a number.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    linear_attention : The same sums, all positions at once.

    Notes
    -----
    The memory is a matrix that maps keys to values.

    .. math::

        \mat S'_t &= \operatorname{diag}(e^{\vec g_t})\, \mat S_{t-1}
            && \text{(forget)} \\
        \vec w_t &= \vec v_t \quad \text{or} \quad
            \beta_t \bigl( \vec v_t - \mat S_t'^\top \vec k_t \bigr)
            && \text{(what to write)} \\
        \mat S_t &= \mat S'_t + \vec k_t \vec w_t^\top, \qquad
        \vec o_t = c\, \mat S_t^\top \vec q_t
            && \text{(write, read)} .

    **Parallel and recurrent form are equal.** Without decay and beta,
    :math:`\mat S_t = \sum_{j \le t} \vec k_j \vec v_j^\top`, so
    :math:`\vec o_t = c \sum_{j \le t} (\vec k_j \cdot \vec q_t)\, \vec v_j`:
    causal linear attention, not normalized. A channel of ones in the values gives
    the denominator.

    **The delta rule.** :math:`\mat S'^\top \vec k` is the current answer of the memory to the key.
    If the key has length 1 and :math:`\beta = 1`, it answers :math:`\vec v_t` after the step: a
    step of gradient descent on :math:`\tfrac12 \norm{\mat S^\top \vec k_t - \vec v_t}^2` with rate
    :math:`\beta`. Adding alone would answer with the sum of all values ever written under this key.

    Cost: 2 T E V multiplications, to write and to read, and T E V more each for decay and for beta.
    One state is kept at a time. In float64.

    References
    ----------
    - :cite:t:`Katharopoulos2020`
    - :cite:t:`Schlag2021` on the delta rule
    - :cite:t:`Yang2024`

    Examples
    --------
    Written twice under the same key: adding answers with the sum, correcting with the last.

    >>> import numpy as np
    >>> from dlref.attention import recurrent_linear_attention
    >>> key, values = np.ones((2, 1)), np.array([[5.0], [7.0]])
    >>> out, state = recurrent_linear_attention(key, key, values)
    >>> out.ravel()
    array([ 5., 12.])
    >>> out, state = recurrent_linear_attention(key, key, values, beta=np.ones(2))
    >>> out.ravel()
    array([5., 7.])
    """
    arguments = dict(zip(NAMES, (q, k, v, decay, beta, state), strict=True))
    dtype, x, _ = _operands(arguments, {})
    factor = as_number("scale", scale)
    with np.errstate(all="ignore"):
        out, states, _ = _run(x, factor, keep=False)
    return result(out, dtype), result(np.array(states[-1]), dtype)


def _run(
    x: dict[str, FloatArray], factor: float, *, keep: bool = True
) -> tuple[FloatArray, list[FloatArray], list[FloatArray]]:
    """Return the output, all states from the first (or the last only), and the values written."""
    q, k, v, kept = x["q"], x["k"], x["v"], _kept(x)
    states, written, out = [_first_state(x)], [], np.empty(v.shape)
    for t in range(q.shape[-2]):
        faded = states[-1] if kept is None else kept[..., t, :, :] * states[-1]
        w = v[..., t, :]
        if "beta" in x:
            w = x["beta"][..., t, None] * (w - _apply(faded, k[..., t, :]))
        states.append(faded + _outer(k[..., t, :], w))
        written.append(w)
        if not keep:
            del states[:-1], written[:-1]
        out[..., t, :] = factor * _apply(states[-1], q[..., t, :])
    return out, states, written


def recurrent_linear_attention_vjp(
    dout: Any,
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    decay: npt.ArrayLike | None = None,
    beta: npt.ArrayLike | None = None,
    state: npt.ArrayLike | None = None,
    *,
    scale: float = 1.0,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of recurrent linear attention.

    Parameters
    ----------
    dout : tuple (dout, dstate) of array_like
        Cotangents of the output (..., T, V) and of the last state (..., E, V).
    q, k, v, decay, beta, state, scale : as in `recurrent_linear_attention`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients with respect to `q`, `k`, `v`, then of `decay`, `beta` and `state` where
        given, each of the shape of its operand.

    Notes
    -----
    Backpropagation through time. Let :math:`\vec u_t` be the cotangent of :math:`\vec o_t`, and
    :math:`\mat D`, of shape (E, V), the gradient of :math:`\mat S_t` from later steps; it starts as
    the cotangent of the last state. At each step, backwards:

    .. math::

        \mat D &\leftarrow \mat D + c\, \vec q_t \vec u_t^\top, \qquad
        \pdv{L}{\vec q_t} = c\, \mat S_t \vec u_t \\
        \vec d_t &= \mat D^\top \vec k_t, \qquad
        \pdv{L}{\vec k_t} = \mat D \vec w_t, \qquad
        \pdv{L}{\vec v_t} = \beta_t \vec d_t \\
        \pdv{L}{\beta_t} &= \vec d_t \cdot (\vec v_t - \mat S_t'^\top \vec k_t), \qquad
        \pdv{L}{\vec k_t} \mathrel{-}= \beta_t \mat S'_t \vec d_t, \qquad
        \mat D \leftarrow \mat D - \beta_t \vec k_t \vec d_t^\top \\
        \pdv{L}{g_{te}} &= e^{g_{te}} \sum_v D_{ev} S_{t-1,ev}, \qquad
        \mat D \leftarrow \operatorname{diag}(e^{\vec g_t})\, \mat D ,

    without the third line and with :math:`\beta_t = 1` if there is no beta. A decay that is one
    number for all rows gets the sum over e, and after the first step :math:`\mat D` is the gradient
    of the initial memory. All T states are kept from the forward pass.

    Examples
    --------
    A written value reaches the last state, decayed by the later steps:

    >>> import numpy as np
    >>> from dlref.attention import recurrent_linear_attention_vjp
    >>> ones, half = np.ones((3, 1)), np.full((3, 1), np.log(0.5))
    >>> grads = recurrent_linear_attention_vjp((0 * ones, [[1.0]]), ones, ones, ones, half)
    >>> grads[2].ravel()
    array([0.25, 0.5 , 1.  ])
    """
    arguments = dict(zip(NAMES, (q, k, v, decay, beta, state), strict=True))
    cotangents = entries("dout", dout, 2)
    dtype, x, [u, D] = _operands(arguments, cotangents)
    factor = as_number("scale", scale)
    check_shape("dout[0]", u, x["v"].shape)
    check_shape("dout[1]", D, (*x["q"].shape[:-2], x["q"].shape[-1], x["v"].shape[-1]))
    grads = {name: np.zeros(array.shape) for name, array in x.items()}
    q, k, v, kept = x["q"], x["k"], x["v"], _kept(x)
    with np.errstate(all="ignore"):
        _, states, written = _run(x, factor)
        for t in range(q.shape[-2] - 1, -1, -1):
            qt, kt, ut = q[..., t, :], k[..., t, :], u[..., t, :]
            D = D + factor * _outer(qt, ut)
            grads["q"][..., t, :] = factor * np.einsum("...ev,...v->...e", states[t + 1], ut)
            grads["k"][..., t, :] = np.einsum("...ev,...v->...e", D, written[t])
            d = _apply(D, kt)
            faded = states[t] if kept is None else kept[..., t, :, :] * states[t]
            if "beta" in x:
                beta_t = x["beta"][..., t, None]
                grads["beta"][..., t] = np.sum(d * (v[..., t, :] - _apply(faded, kt)), axis=-1)
                d = beta_t * d
                grads["k"][..., t, :] -= np.einsum("...ev,...v->...e", faded, d)
                D = D - _outer(kt, d)
            grads["v"][..., t, :] = d
            if kept is not None:
                slope = np.sum(D * faded, axis=-1)
                whole = x["decay"].shape[-1:] == (1,)
                grads["decay"][..., t, :] = slope.sum(-1, keepdims=True) if whole else slope
                D = kept[..., t, :, :] * D
        if "state" in grads:
            grads["state"] = np.array(D)
    return tuple(result(grad, dtype) for grad in grads.values())


def recurrent_linear_attention_jvp(
    primals: Any, tangents: Any, *, scale: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    r"""
    Jacobian-vector product (forward mode) of recurrent linear attention.

    Parameters
    ----------
    primals : tuple (q, k, v, decay, beta, state) of array_like
        The operands, as in `recurrent_linear_attention`; the last three may be None.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its operand; None is zero.
    scale : as in `recurrent_linear_attention`
        Raises the same errors.

    Returns
    -------
    dout : ndarray, shape (..., T, V)
        Tangent of the output.
    dstate : ndarray, shape (..., E, V)
        Tangent of the last state.

    Notes
    -----
    The product rule on each line of the recurrence; the tangent of the state is carried along.
    Without beta the second line is :math:`\dot{\vec w}_t = \dot{\vec v}_t`:

    .. math::

        \dot{\mat S}'_t &= \operatorname{diag}(e^{\vec g_t})
            (\dot{\mat S}_{t-1} + \operatorname{diag}(\dot{\vec g}_t)\, \mat S_{t-1}), \\
        \dot{\vec w}_t &= \dot\beta_t (\vec v_t - \mat S_t'^\top \vec k_t) + \beta_t
            (\dot{\vec v}_t - \dot{\mat S}_t'^\top \vec k_t - \mat S_t'^\top \dot{\vec k}_t), \\
        \dot{\mat S}_t &= \dot{\mat S}'_t + \dot{\vec k}_t \vec w_t^\top
            + \vec k_t \dot{\vec w}_t^\top, \qquad
        \dot{\vec o}_t = c\, (\dot{\mat S}_t^\top \vec q_t + \mat S_t^\top \dot{\vec q}_t) .

    Examples
    --------
    >>> from dlref.attention import recurrent_linear_attention_jvp
    >>> primals = [[2.0]], [[3.0]], [[5.0]], None, None, None
    >>> out, state = recurrent_linear_attention_jvp(primals, ([[1.0]],) + 5 * (None,))
    >>> out, state
    (array([[15.]]), array([[0.]]))
    """
    points = entries("primals", primals, 6)
    moves = entries("tangents", tangents, 6)
    for (_, point), (name, move) in zip(points.items(), moves.items(), strict=True):
        if point is None:
            check_constant(name, move)
    given = {name: move for name, move in moves.items() if move is not None}
    dtype, x, found = _operands(points, given)
    labels = dict(zip(moves, NAMES, strict=True))
    dx = {labels[name]: move for name, move in zip(given, found, strict=True)}
    for name, label in labels.items():
        if label in dx:
            check_shape(name, dx[label], x[label].shape)
    factor = as_number("scale", scale)
    with np.errstate(all="ignore"):
        return _jvp(x, {n: dx.get(n, np.zeros(a.shape)) for n, a in x.items()}, factor, dtype)


def _jvp(
    x: dict[str, FloatArray], dx: dict[str, FloatArray], factor: float, dtype: Any
) -> tuple[FloatArray, FloatArray]:
    """Carry the tangent of the state through time."""
    k, v, kept = x["k"], x["v"], _kept(x)
    _, states, written = _run(x, factor)
    moved = dx.get("state", np.zeros(states[0].shape))
    out = np.empty(v.shape)
    for t, w in enumerate(written):
        kt, dkt, faded = k[..., t, :], dx["k"][..., t, :], states[t]
        if kept is not None:
            moved = kept[..., t, :, :] * (moved + dx["decay"][..., t, :, None] * states[t])
            faded = kept[..., t, :, :] * states[t]
        dw = dx["v"][..., t, :]
        if "beta" in x:
            error = v[..., t, :] - _apply(faded, kt)
            dw = dx["beta"][..., t, None] * error + x["beta"][..., t, None] * (
                dw - _apply(moved, kt) - _apply(faded, dkt)
            )
        moved = moved + _outer(dkt, w) + _outer(kt, dw)
        read = _apply(moved, x["q"][..., t, :]) + _apply(states[t + 1], dx["q"][..., t, :])
        out[..., t, :] = factor * read
    return result(out, dtype), result(np.array(moved), dtype)
