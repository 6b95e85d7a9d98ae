r"""Scores of the indexer of sparse attention, and the keys that they select."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    MAX_OFFSET,
    FloatArray,
    as_bool,
    as_floats,
    as_integer,
    as_tangents,
    check_ndim,
    check_pattern,
    check_shape,
    result,
)


def _check(q: FloatArray, k: FloatArray, w: FloatArray, names: tuple[str, str, str]) -> None:
    check_ndim(names[0], q, 3)
    *batch, H, T, E = q.shape
    check_pattern(names[1], k, (*batch, "S", E))
    check_pattern(names[2], w, (*batch, T, H))


def _products(q: FloatArray, k: FloatArray, h: int) -> FloatArray:
    return np.asarray(q[..., h, :, :] @ k.swapaxes(-1, -2))


def indexer_scores(q: npt.ArrayLike, k: npt.ArrayLike, w: npt.ArrayLike) -> FloatArray:
    r"""
    Cheap scores that decide which keys sparse attention reads.

    Parameters
    ----------
    q : array_like, shape (..., H, T, E)
        Queries of the indexer, with few and narrow heads.
    k : array_like, shape (..., S, E)
        Its keys, one for all heads.
    w : array_like, shape (..., T, H)
        Weight of each head for each query.

    Returns
    -------
    ndarray, shape (..., T, S)
        Scores; only their order matters to :func:`select_keys`.

    Raises
    ------
    TypeError
        If an array is not real.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    select_keys : The keys with the largest scores.
    indexer_scores_vjp : The gradients by which the indexer learns.

    Notes
    -----
    .. math:: I_{ts} = \sum_h w_{th} \max(\vec q_{th} \cdot \vec k_s, 0)

    This is the lightning indexer of DeepSeek-V3.2. Attention itself reads only the 2048 keys with
    the largest scores, so its cost for each token does not grow with the text. The indexer still
    compares every pair; it is cheap because its heads are few, share their keys, are computed in
    FP8, and need no softmax. Without the relu the sum over heads would be one bilinear form
    :math:`(\sum_h w_{th} \vec q_{th}) \cdot \vec k_s`, in which several heads are no better than
    one.

    **Numerics.** Products of matrices in the dtype of the input; one head at a time, so that memory
    is needed for two matrices of T x S.

    **Conventions.** There is no scale here. DeepSeek's code multiplies w by
    :math:`1 / \sqrt H` and :math:`1 / \sqrt E`.

    References
    ----------
    - :cite:t:`DeepSeekV32`

    Examples
    --------
    Two heads look in opposite directions, and the second counts twice:

    >>> from dlref.attention import indexer_scores
    >>> q, k = [[[1.0]], [[-1.0]]], [[3.0], [-5.0], [0.0]]
    >>> indexer_scores(q, k, [[1.0, 2.0]])
    array([[ 3., 10.,  0.]])
    """
    dtype, (q, k, w) = as_floats({"q": q, "k": k, "w": w}, work=np.float32)
    _check(q, k, w, ("q", "k", "w"))
    out = np.zeros((*w.shape[:-1], k.shape[-2]), q.dtype)
    with np.errstate(all="ignore"):
        for h in range(q.shape[-3]):
            out += w[..., h, None] * np.maximum(_products(q, k, h), 0)
    return result(out, dtype)


def indexer_scores_vjp(
    dout: npt.ArrayLike, q: npt.ArrayLike, k: npt.ArrayLike, w: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""
    Vector-Jacobian product (reverse mode) of the scores of the indexer.

    Parameters
    ----------
    dout : array_like, shape (..., T, S)
        Cotangent u of the scores.
    q, k, w : as in `indexer_scores`
        Raises the same errors.

    Returns
    -------
    dq : ndarray, shape of `q`
        Gradient of the queries.
    dk : ndarray, shape of `k`
        Gradient of the keys.
    dw : ndarray, shape of `w`
        Gradient of the weights of the heads.

    Notes
    -----
    Let :math:`z_{hts} = \vec q_{th} \cdot \vec k_s`. The differential of the score is :math:`\sum_h
    \bigl( \dd w_{th} \max(z_{hts}, 0) + w_{th} [z_{hts} > 0]\, \dd z_{hts} \bigr)`, so with
    :math:`g_{hts} = u_{ts}\, w_{th}\, [z_{hts} > 0]`

    .. math::

        \pdv{L}{w_{th}} = \sum_s u_{ts} \max(z_{hts}, 0) , \qquad
        \pdv{L}{\vec q_{th}} = \sum_s g_{hts} \vec k_s , \qquad
        \pdv{L}{\vec k_s} = \sum_{h, t} g_{hts} \vec q_{th} .

    **Where the gradient comes from.** The choice of the largest scores is piecewise constant and
    has no gradient, so the loss of the model cannot train the indexer. DeepSeek-V3.2 trains it by a
    loss of its own: the KL divergence of the softmax of the scores, as the prediction, with the
    weights of attention, summed over heads and normalized, as the target. It detaches the inputs
    of the indexer, so that this loss does not change the model.

    Examples
    --------
    >>> from dlref.attention import indexer_scores_vjp
    >>> q, k = [[[1.0]], [[-1.0]]], [[3.0], [-5.0], [0.0]]
    >>> dq, dk, dw = indexer_scores_vjp([[1.0, 1.0, 1.0]], q, k, [[1.0, 2.0]])
    >>> dw, dq.ravel(), dk.ravel()
    (array([[3., 5.]]), array([  3., -10.]), array([ 1., -2.,  0.]))
    """
    dtype, (u, q, k, w) = as_floats({"dout": dout, "q": q, "k": k, "w": w}, work=np.float32)
    _check(q, k, w, ("q", "k", "w"))
    check_shape("dout", u, (*w.shape[:-1], k.shape[-2]))
    dq, dk, dw = np.empty_like(q), np.zeros_like(k), np.empty_like(w)
    with np.errstate(all="ignore"):
        for h in range(q.shape[-3]):
            z = _products(q, k, h)
            dw[..., h] = np.sum(u * np.maximum(z, 0), axis=-1)
            g = np.where(z <= 0, 0, u * w[..., h, None])
            dq[..., h, :, :] = g @ k
            dk += g.swapaxes(-1, -2) @ q[..., h, :, :]
    return result(dq, dtype), result(dk, dtype), result(dw, dtype)


def indexer_scores_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the scores of the indexer.

    Parameters
    ----------
    primals : tuple (q, k, w) of array_like
        The operands, as in `indexer_scores`.
    tangents : tuple of array_like or None
        Their tangents; None is zero.

    Returns
    -------
    ndarray, shape (..., T, S)
        Tangent of the scores.

    Notes
    -----
    With :math:`z_{hts} = \vec q_{th} \cdot \vec k_s`,

    .. math:: \dot I_{ts} = \sum_h \bigl( \dot w_{th} \max(z_{hts}, 0) + w_{th}\, [z_{hts} > 0]
       (\dot{\vec q}_{th} \cdot \vec k_s + \vec q_{th} \cdot \dot{\vec k}_s) \bigr) .

    Examples
    --------
    >>> from dlref.attention import indexer_scores_jvp
    >>> primals = [[[1.0]], [[-1.0]]], [[3.0], [-5.0], [0.0]], [[1.0, 2.0]]
    >>> indexer_scores_jvp(primals, (None, [[1.0], [1.0], [1.0]], None))
    array([[ 1., -2.,  0.]])
    """
    dtype, (q, k, w), (dq, dk, dw) = as_tangents(primals, tangents, count=3, work=np.float32)
    _check(q, k, w, ("primals[0]", "primals[1]", "primals[2]"))
    out = np.zeros((*w.shape[:-1], k.shape[-2]), q.dtype)
    with np.errstate(all="ignore"):
        for h in range(q.shape[-3]):
            z = _products(q, k, h)
            moved = w[..., h, None] * (_products(dq, k, h) + _products(q, dk, h))
            out += dw[..., h, None] * np.maximum(z, 0) + np.where(z <= 0, 0, moved)
    return result(out, dtype)


def select_keys(
    scores: npt.ArrayLike, *, count: int, is_causal: bool = True, q_offset: int = 0
) -> npt.NDArray[np.int64]:
    r"""
    Select the keys with the largest scores, for each query.

    Parameters
    ----------
    scores : array_like, shape (..., T, S)
        Scores, from :func:`indexer_scores` for instance; a key whose score is -inf is not selected.
    count : int
        Number of keys for each query, at least 1.
    is_causal : bool, default True
        Whether query i selects only from the keys :math:`j \le i + \text{q\_offset}`.
    q_offset : int, default 0
        Position of query 0 among the keys.

    Returns
    -------
    ndarray of int64, shape (..., T, min(count, S))
        Positions, the largest score first; of equal scores the first key. They are -1 where no
        further key is visible.

    Raises
    ------
    TypeError
        If `scores` is not real, or an option has the wrong type.
    ValueError
        If `scores` has less than two axes, or `count` is less than 1.

    See Also
    --------
    scaled_dot_product_attention : Takes them as `indices`.

    Notes
    -----
    With the visible keys :math:`\mathcal{V}_t` of query t and k for `count`, the selected ones are

    .. math:: \mathcal{S}_t = \operatorname*{argmax}_{\mathcal{S} \subseteq \mathcal{V}_t,\;
       |\mathcal{S}| = \min(k, |\mathcal{V}_t|)} \sum_{s \in \mathcal{S}} I_{ts} .

    The result is integer, and has no derivative: a small change of the scores changes nothing,
    until two of them change places. NaN counts as larger than everything, so that it is not
    overlooked.

    Examples
    --------
    The first query sees one key, the last all three and selects two:

    >>> from dlref.attention import select_keys
    >>> select_keys([[5.0, 9.0, 9.0], [5.0, 7.0, 9.0], [5.0, 7.0, 9.0]], count=2)
    array([[ 0, -1],
           [ 1,  0],
           [ 2,  1]])
    """
    _, [s] = as_floats({"scores": scores}, work=np.float32)
    check_ndim("scores", s, 2)
    T, S = s.shape[-2:]
    count = as_integer("count", count, least=1)
    offset = as_integer("q_offset", q_offset, least=-MAX_OFFSET, most=MAX_OFFSET)
    visible = ~(s == -np.inf)
    if as_bool("is_causal", is_causal):
        visible = visible & (np.arange(S) <= np.arange(T)[:, None] + offset)
    rank = np.where(np.isnan(s), np.inf, s)
    order = np.lexsort((-rank, ~visible), axis=-1)[..., : min(count, S)]
    return np.where(np.take_along_axis(visible, order, -1), order, -1)
