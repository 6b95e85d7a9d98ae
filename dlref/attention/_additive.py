r"""Additive attention: a small network, not a dot product, compares query and key."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_mask,
    as_tangents,
    check_fits,
    check_flags,
    check_ndim,
    check_pattern,
    check_shape,
    result,
)

NAMES = "q", "k", "v", "w", "u", "vec"
BLOCK = 1 << 20  #: numbers that may be held for a block of queries


def _check(names: tuple[str, ...], arrays: list[FloatArray]) -> None:
    q, k, v, w, u, vec = arrays
    check_ndim(names[0], q, 2)
    check_pattern(names[1], k, (*q.shape[:-2], "S", "D_k"))
    check_pattern(names[2], v, (*k.shape[:-1], "V"))
    check_pattern(names[3], w, ("A", q.shape[-1]))
    check_pattern(names[4], u, (len(w), k.shape[-1]))
    check_shape(names[5], vec, (len(w),))


def _full_mask(mask: npt.ArrayLike | None, q: FloatArray, k: FloatArray) -> FloatArray:
    """Return the mask, of the shape of the scores."""
    grid = (*q.shape[:-1], k.shape[-2])
    if mask is None:
        return np.broadcast_to(np.True_, grid)
    seen = as_mask("mask", mask)
    check_fits("mask", seen, grid, "..., T, S")
    return np.broadcast_to(seen, grid)


def _blocks(q: FloatArray, k: FloatArray, inner: int) -> list[slice]:
    """Split the queries into blocks for which all hidden values fit into `BLOCK` numbers."""
    T, S = q.shape[-2], k.shape[-2]
    others = int(np.prod(q.shape[:-2], dtype=np.int64)) * S * max(inner, 1)
    size = max(1, BLOCK // max(others, 1))
    return [slice(i, min(i + size, T)) for i in range(0, T, size)]


def _block(
    a: FloatArray, b: FloatArray, vec: FloatArray, seen: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the hidden values tanh(a_i + b_j) and the weights of a block of queries."""
    hidden = np.tanh(a[..., :, None, :] + b[..., None, :, :])
    scores = np.where(seen, hidden @ vec, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    e = np.where(seen, np.exp(scores - np.where(top == -np.inf, 0.0, top)), 0.0)
    total = e.sum(-1, keepdims=True)
    return hidden, e / np.where(total == 0.0, 1.0, total)


def _gapped(p: FloatArray, v: FloatArray) -> FloatArray:
    """Return ``p @ v``, where a zero of p ignores the value, even a NaN."""
    if np.isfinite(v).all():
        return p @ v
    terms = np.where((p == 0.0)[..., None], 0.0, p[..., None] * v[..., None, :, :])
    return np.asarray(terms.sum(-2))


@overload
def additive_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    w: npt.ArrayLike,
    u: npt.ArrayLike,
    vec: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = ...,
    return_weights: Literal[False] = ...,
) -> FloatArray: ...
@overload
def additive_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    w: npt.ArrayLike,
    u: npt.ArrayLike,
    vec: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = ...,
    return_weights: Literal[True],
) -> tuple[FloatArray, ...]: ...
def additive_attention(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    w: npt.ArrayLike,
    u: npt.ArrayLike,
    vec: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
    return_weights: bool = False,
) -> FloatArray | tuple[FloatArray, ...]:
    r"""
    Average of the values, weighted by a network that compares query and key (Bahdanau).

    Parameters
    ----------
    q : array_like, shape (..., T, D)
        Queries: states of a decoder.
    k : array_like, shape (..., S, D_k)
        Keys: states of an encoder.
    v : array_like, shape (..., S, V)
        Values, often the keys themselves.
    w : array_like, shape (A, D)
        Projection of the queries :math:`\mat W`.
    u : array_like, shape (A, D_k)
        Projection of the keys :math:`\mat U`.
    vec : array_like, shape (A,)
        Weights of the hidden units, :math:`\vec a`.
    mask : array_like of bool or None, shape (..., T, S)
        True where query i may attend to key j; it broadcasts.
    return_weights : bool, default False
        Whether to return the weights, too.

    Returns
    -------
    out : ndarray, shape (..., T, V)
        Context vectors :math:`\vec o_i`.
    weights : ndarray, shape (..., T, S)
        Weights :math:`p_{ij}`. Only if requested.

    Raises
    ------
    TypeError
        If an array is not real, `mask` is not boolean, or `return_weights` is not a bool.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    multiplicative_attention : A bilinear form in place of the network.
    scaled_dot_product_attention : No parameters in the score.

    Notes
    -----
    .. math::

        s_{ij} = \vec a^\top \tanh(\mat W \vec q_i + \mat U \vec k_j), \qquad
        p_{ij} = \frac{e^{s_{ij}}}{\sum_m e^{s_{im}}}, \qquad
        \vec o_i = \sum_j p_{ij} \vec v_j .

    This was the first content-based attention in machine translation; a window that moves over a
    text is older (:cite:t:`Graves2013`). Query and key may have different widths. The score is
    bounded by :math:`\sum_m |a_m|`, so it needs no :math:`1/\sqrt E`: the variance of a dot product
    grows with the width, while :math:`\vec a` sets the variance of bounded units.

    **Cost.** T S A values of tanh, and T A D + S A :math:`D_k` multiplications for the projections.
    A dot product of width A costs T S A multiplications, but as one product of matrices, while here
    each of them is a function call: the reason why the dot product prevailed. The hidden values are
    computed for a block of queries at a time, in float64.

    A row with nothing to attend to gives 0. A key of weight 0 contributes nothing, even if it is
    NaN.

    References
    ----------
    - :cite:t:`Bahdanau2015`

    Examples
    --------
    Two hidden units and a constant feature of the queries, 3, compare signs: the score is
    :math:`8 \tanh(q + k - 3) + 8 \tanh(-q - k - 3)`, larger if q and k agree.

    >>> from dlref.attention import additive_attention
    >>> w, u, vec = [[1, -1], [-1, -1]], [[1], [-1]], [8, 8]
    >>> q, k, v = [[2.0, 3.0], [-2.0, 3.0]], [[2.0], [-2.0]], [[1.0], [0.0]]
    >>> additive_attention(q, k, v, w, u, vec).round(3)
    array([[1.],
           [0.]])

    A single unit without that feature cannot compare: its score grows with the key for any query.

    >>> additive_attention([[2.0], [-2.0]], k, v, [[1]], [[1]], [4]).round(3)
    array([[0.982],
           [0.982]])
    """
    dtype, arrays = as_floats(dict(zip(NAMES, (q, k, v, w, u, vec), strict=True)))
    _check(NAMES, arrays)
    check_flags(return_weights=return_weights)
    q, k, v, w, u, vec = arrays
    seen = _full_mask(mask, q, k)
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    weights = np.zeros(seen.shape) if return_weights else None
    with np.errstate(all="ignore"):
        a, b = q @ w.T, k @ u.T
        for rows in _blocks(q, k, len(w)):
            _, p = _block(a[..., rows, :], b, vec, seen[..., rows, :])
            out[..., rows, :] = _gapped(p, v)
            if weights is not None:
                weights[..., rows, :] = p
    return result(out, dtype) if weights is None else (result(out, dtype), result(weights, dtype))


def _summed(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the sum over all rows of the outer products of two arrays of rows."""
    rows = math.prod(a.shape[:-1])
    return a.reshape(rows, a.shape[-1]).T @ b.reshape(rows, b.shape[-1])


def additive_attention_vjp(
    dout: npt.ArrayLike,
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    v: npt.ArrayLike,
    w: npt.ArrayLike,
    u: npt.ArrayLike,
    vec: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of additive attention.

    Parameters
    ----------
    dout : array_like, shape (..., T, V)
        Cotangent of the context vectors.
    q, k, v, w, u, vec, mask : as in `additive_attention`
        Raises the same errors.

    Returns
    -------
    tuple of ndarray
        Gradients with respect to `q`, `k`, `v`, `w`, `u` and `vec`, of their shapes.

    Notes
    -----
    With the hidden values :math:`\vec h_{ij} = \tanh(\mat W \vec q_i + \mat U \vec k_j)` and the
    cotangent :math:`\vec u_i` of row i, from the output back:

    .. math::

        \pdv{L}{p_{ij}} &= \vec u_i \cdot \vec v_j, \qquad
        \pdv{L}{\vec v_j} = \sum_i p_{ij} \vec u_i \\
        d_{ij} = \pdv{L}{s_{ij}}
            &= p_{ij} \Bigl( \pdv{L}{p_{ij}} - \sum_m p_{im} \pdv{L}{p_{im}} \Bigr)
            && \text{(softmax)} \\
        \pdv{L}{\vec a} &= \sum_{ij} d_{ij} \vec h_{ij}, \qquad
        \vec\delta_{ij} = d_{ij}\, \vec a \odot (1 - \vec h_{ij}^2) && \text{(tanh)} \\
        \pdv{L}{\mat W} &= \sum_i \Bigl( \sum_j \vec\delta_{ij} \Bigr) \vec q_i^\top, \qquad
        \pdv{L}{\vec q_i} = \mat W^\top \sum_j \vec\delta_{ij} && \text{(sum over keys)} \\
        \pdv{L}{\mat U} &= \sum_j \Bigl( \sum_i \vec\delta_{ij} \Bigr) \vec k_j^\top, \qquad
        \pdv{L}{\vec k_j} = \mat U^\top \sum_i \vec\delta_{ij} && \text{(sum over queries)} ,

    where :math:`\vec\delta_{ij}` is the gradient of the pre-activation
    :math:`\mat W \vec q_i + \mat U \vec k_j`. The gradients of :math:`\vec a`, :math:`\mat W` and
    :math:`\mat U` are summed over the batch as well.

    References
    ----------
    - :cite:t:`Bahdanau2015`

    Examples
    --------
    Equal keys get equal weights whatever the parameters, so the query has no influence:

    >>> import numpy as np
    >>> from dlref.attention import additive_attention_vjp
    >>> q, keys, v = [[1.0]], [[2.0], [2.0]], [[1.0], [3.0]]
    >>> dq, _, dv, *_ = additive_attention_vjp([[1.0]], q, keys, v, [[1]], [[1]], [1])
    >>> dq, dv
    (array([[0.]]), array([[0.5], [0.5]]))
    """
    given = {"dout": dout} | dict(zip(NAMES, (q, k, v, w, u, vec), strict=True))
    dtype, [g, *arrays] = as_floats(given)
    _check(NAMES, arrays)
    q, k, v, w, u, vec = arrays
    check_shape("dout", g, (*q.shape[:-1], v.shape[-1]))
    seen = _full_mask(mask, q, k)
    da, db, dv = (
        np.zeros((*q.shape[:-1], len(w))),
        np.zeros((*k.shape[:-1], len(w))),
        np.zeros_like(v),
    )
    dvec = np.zeros_like(vec)
    with np.errstate(all="ignore"):
        a, b = q @ w.T, k @ u.T
        for rows in _blocks(q, k, len(w)):
            h, p = _block(a[..., rows, :], b, vec, seen[..., rows, :])
            gi = g[..., rows, :]
            dv += _gapped(np.swapaxes(p, -1, -2), gi)
            dp = np.where(p == 0.0, 0.0, gi @ np.swapaxes(v, -1, -2))
            d = np.where(p == 0.0, 0.0, p * (dp - np.sum(p * dp, axis=-1, keepdims=True)))
            h = np.where((p == 0.0)[..., None], 0.0, h)
            dvec += d.ravel() @ h.reshape(d.size, len(vec))
            z = d[..., None] * (vec * ((1.0 - h) * (1.0 + h)))
            da[..., rows, :] = z.sum(-2)
            db += z.sum(-3)
        grads = da @ w, db @ u, dv, _summed(da, q), _clean_sum(db, k), dvec
    return tuple(result(grad, dtype) for grad in grads)


def _clean_sum(db: FloatArray, k: FloatArray) -> FloatArray:
    """Sum outer products, leaving out keys that nothing depends on."""
    return _summed(db, np.where(np.all(db == 0.0, axis=-1, keepdims=True), 0.0, k))


def additive_attention_jvp(
    primals: Any, tangents: Any, *, mask: npt.ArrayLike | None = None
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of additive attention.

    Parameters
    ----------
    primals : tuple (q, k, v, w, u, vec) of array_like
        The operands, as in `additive_attention`.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its operand; None is zero.
    mask : as in `additive_attention`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, V)
        Tangent of the context vectors.

    Notes
    -----
    Step by step, with a dot for a tangent:

    .. math::

        \dot{\vec h}_{ij} &= (1 - \vec h_{ij}^2) \odot (\dot{\mat W} \vec q_i
            + \mat W \dot{\vec q}_i + \dot{\mat U} \vec k_j + \mat U \dot{\vec k}_j), \\
        \dot s_{ij} &= \dot{\vec a} \cdot \vec h_{ij} + \vec a \cdot \dot{\vec h}_{ij}, \qquad
        \dot p_{ij} = p_{ij} \Bigl( \dot s_{ij} - \sum_m p_{im} \dot s_{im} \Bigr), \\
        \dot{\vec o}_i &= \sum_j \bigl( \dot p_{ij} \vec v_j + p_{ij} \dot{\vec v}_j \bigr) .

    Examples
    --------
    Equal tangents of all values are the tangent of the output:

    >>> from dlref.attention import additive_attention_jvp
    >>> primals = [[1.0]], [[2.0], [3.0]], [[1.0], [3.0]], [[1.0]], [[1.0]], [1.0]
    >>> moved = additive_attention_jvp(primals, (None, None, [[5.0], [5.0]], None, None, None))
    >>> moved.round(12)
    array([[5.]])
    """
    dtype, arrays, moves = as_tangents(primals, tangents, count=6)
    _check(tuple(f"primals[{i}]" for i in range(6)), arrays)
    (q, k, v, w, u, vec), (dq, dk, dv, dw, du, dvec) = arrays, moves
    seen = _full_mask(mask, q, k)
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    with np.errstate(all="ignore"):
        a, b = q @ w.T, k @ u.T
        da, db = q @ dw.T + dq @ w.T, k @ du.T + dk @ u.T
        for rows in _blocks(q, k, len(w)):
            h, p = _block(a[..., rows, :], b, vec, seen[..., rows, :])
            slope = (1.0 - h) * (1.0 + h)
            dh = slope * (da[..., rows, None, :] + db[..., None, :, :])
            ds = np.where(p == 0.0, 0.0, h @ dvec + dh @ vec)
            dp = np.where(p == 0.0, 0.0, p * (ds - np.sum(p * ds, axis=-1, keepdims=True)))
            out[..., rows, :] = _gapped(dp, v) + _gapped(p, dv)
    return result(out, dtype)
