r"""Scores with relative positions as in Transformer-XL."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_broadcast,
    check_ndim,
    check_shape,
    result,
)
from .._core.broadcasting import unbroadcast
from ._kernels.pairs import read_rows


def _check_xl(
    names: list[str], q: FloatArray, k: FloatArray, r: FloatArray, *uv: FloatArray
) -> None:
    for name, array in zip(names, (q, k, r), strict=False):
        check_ndim(name, array, 2)
    T, S, E = q.shape[-2], k.shape[-2], q.shape[-1]
    check_shape(names[1], k, (*q.shape[:-2], S, E))
    check_shape(names[2], r, (*r.shape[:-2], max(T + S - 1, 0), E))
    check_broadcast(names[2], r.shape[:-2], q.shape[:-2])
    for name, array in zip(names[3:], uv, strict=True):
        check_broadcast(name, array.shape, q.shape)


def _xl(q: FloatArray, k: FloatArray, r: FloatArray, u: FloatArray, v: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        content = (q + u) @ np.swapaxes(k, -1, -2)
        return content + _skew((q + v) @ np.swapaxes(r, -1, -2), k.shape[-2])


def _skew(products: FloatArray, S: int) -> FloatArray:
    """Read row i of (..., T, T + S - 1) from entry T - 1 - i on."""
    T = products.shape[-2]
    return read_rows(products, np.arange(S) + (T - 1 - np.arange(T))[:, None])


def transformer_xl_scores(
    q: npt.ArrayLike, k: npt.ArrayLike, r: npt.ArrayLike, u: npt.ArrayLike, v: npt.ArrayLike
) -> FloatArray:
    r"""
    Score by content and by offset, as in Transformer-XL.

    Parameters
    ----------
    q : array_like, shape (..., T, E)
        Queries.
    k : array_like, shape (..., S, E)
        Keys, computed from the content of the tokens.
    r : array_like, shape (T + S - 1, E) or (..., T + S - 1, E)
        Keys of the offsets: projected sinusoids, entry j − i + T − 1 for key j and query i.
    u, v : array_like, shape (E,), or one that broadcasts to the shape of `q`
        Learned biases of the queries, for content and for offsets.

    Returns
    -------
    ndarray, shape (..., T, S)
        Scores, before the scale.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    transformer_xl_scores_vjp, transformer_xl_scores_jvp : The derivatives.
    shaw_scores : One term of it, with a learned table.

    Notes
    -----
    Let a token be the sum of an embedding e and an absolute position p, and expand the score:

    .. math::

        (\mat W_q (\vec e_i + \vec p_i)) \cdot (\mat W_k (\vec e_j + \vec p_j))
        = \underbrace{\vec q_i \cdot \vec k_j}_{(a)}
        + \underbrace{\vec q_i \cdot \mat W_k \vec p_j}_{(b)}
        + \underbrace{\mat W_q \vec p_i \cdot \vec k_j}_{(c)}
        + \underbrace{\mat W_q \vec p_i \cdot \mat W_k \vec p_j}_{(d)} .

    where :math:`\vec q_i = \mat W_q \vec e_i` and :math:`\vec k_j = \mat W_k \vec e_j` have the
    content alone. To depend on the offset alone, the position of the key becomes a vector
    :math:`\vec r_{j-i}` of the offset with a projection of its own, and the position of the query,
    which must not matter, a constant: :math:`\vec u` in (c), :math:`\vec v` in (d). Collecting
    terms,

    .. math::

        s_{ij} = (\vec q_i + \vec u) \cdot \vec k_j + (\vec q_i + \vec v) \cdot \vec r_{j-i} .

    The second product is formed for all T + S − 1 offsets at once, and each of its rows is read
    one entry further to the left than the row before. That is O(T (T + S) E) instead of a vector
    for each pair.

    :doc:`/positions_compared` has the loss, cost and cache of this scheme compared with all others.

    References
    ----------
    - :cite:t:`Dai2019`

    Examples
    --------
    With nothing but offsets, the scores are a Toeplitz matrix:

    >>> from dlref.positions import transformer_xl_scores
    >>> zero = [[0.0]] * 3
    >>> transformer_xl_scores(zero, zero, [[-2.0], [-1.0], [0.0], [1.0], [2.0]], [0.0], [1.0])
    array([[ 0.,  1.,  2.],
           [-1.,  0.,  1.],
           [-2., -1.,  0.]])
    """
    arguments = {"q": q, "k": k, "r": r, "u": u, "v": v}
    dtype, (q, k, r, u, v) = as_floats(arguments)
    _check_xl(list(arguments), q, k, r, u, v)
    return result(_xl(q, k, r, u, v), dtype)


def transformer_xl_scores_vjp(
    dout: npt.ArrayLike,
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    r: npt.ArrayLike,
    u: npt.ArrayLike,
    v: npt.ArrayLike,
) -> tuple[FloatArray, ...]:
    r"""
    Reverse mode of `transformer_xl_scores`.

    Parameters
    ----------
    dout : array_like, shape (..., T, S)
        Gradient of a loss with respect to the scores.
    q, k, r, u, v : as in `transformer_xl_scores`
        Raises the same errors.

    Returns
    -------
    dq : ndarray, shape of `q`
        Gradient of that loss with respect to the queries.
    dk : ndarray, shape of `k`
        With respect to the keys.
    dr : ndarray, shape of `r`
        With respect to the keys of the offsets.
    du : ndarray, shape of `u`
        With respect to the bias for content.
    dv : ndarray, shape of `v`
        With respect to the bias for offsets.

    Notes
    -----
    Let U, of shape (T, S), be the cotangent and G, of shape (T, T + S − 1), its rows moved back,
    :math:`G_{i, j-i+T-1} = U_{ij}` and 0 elsewhere. With queries, keys and keys of the offsets as
    rows of Q, K and R, and :math:`\vec u` and :math:`\vec v` added to each row,

    .. math::

       \pdv{L}{\mat Q} &= \mat U \mat K + \mat G \mat R, &
       \pdv{L}{\vec u} &= \sum_i (\mat U \mat K)_i, &
       \pdv{L}{\vec v} &= \sum_i (\mat G \mat R)_i, \\
       \pdv{L}{\mat K} &= \mat U^\top (\mat Q + \vec u), &
       \pdv{L}{\mat R} &= \mat G^\top (\mat Q + \vec v) .

    Examples
    --------
    >>> from dlref.positions import transformer_xl_scores_vjp
    >>> grads = transformer_xl_scores_vjp([[1.0]], [[2.0]], [[3.0]], [[5.0]], [7.0], [11.0])
    >>> [float(grad.item()) for grad in grads]
    [8.0, 9.0, 13.0, 3.0, 5.0]
    """
    arguments = {"q": q, "k": k, "r": r, "u": u, "v": v}
    dtype, (dout, q, k, r, u, v) = as_floats({"dout": dout, **arguments})
    _check_xl(list(arguments), q, k, r, u, v)
    T, S = q.shape[-2], k.shape[-2]
    check_shape("dout", dout, (*q.shape[:-1], S))
    moved = np.zeros((*q.shape[:-1], max(T + S - 1, 0)))
    where = np.arange(S) + (T - 1 - np.arange(T))[:, None]
    np.put_along_axis(moved, np.broadcast_to(where, dout.shape), dout, axis=-1)
    with np.errstate(all="ignore"):
        by_content, by_offset = dout @ k, moved @ r
        grads = [
            by_content + by_offset,
            np.swapaxes(dout, -1, -2) @ (q + u),
            unbroadcast(np.swapaxes(moved, -1, -2) @ (q + v), r.shape),
            unbroadcast(by_content, u.shape),
            unbroadcast(by_offset, v.shape),
        ]
    return tuple(result(grad, dtype) for grad in grads)


def transformer_xl_scores_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Forward mode of `transformer_xl_scores`.

    Parameters
    ----------
    primals : tuple (q, k, r, u, v) of array_like
        Queries, keys, keys of the offsets and biases, as in the map.
        Raises the same errors as `transformer_xl_scores`.
    tangents : tuple of array_like or None
        Directions of the shapes of the primals; None is zero.

    Returns
    -------
    ndarray, shape (..., T, S)
        Tangent of the scores.

    Notes
    -----
    Each of the two products has the product rule:

    .. math::

        \dot s_{ij} = (\dot{\vec q}_i + \dot{\vec u}) \cdot \vec k_j
            + (\vec q_i + \vec u) \cdot \dot{\vec k}_j
            + (\dot{\vec q}_i + \dot{\vec v}) \cdot \vec r_{j-i}
            + (\vec q_i + \vec v) \cdot \dot{\vec r}_{j-i} .

    Examples
    --------
    >>> from dlref.positions import transformer_xl_scores_jvp
    >>> point = [[2.0]], [[3.0]], [[5.0]], [7.0], [11.0]
    >>> transformer_xl_scores_jvp(point, ([[1.0]], None, [[1.0]], None, None))
    array([[21.]])
    """
    dtype, (q, k, r, u, v), (dq, dk, dr, du, dv) = as_tangents(primals, tangents, count=5)
    _check_xl([f"primals[{i}]" for i in range(5)], q, k, r, u, v)
    return result(_xl(dq, k, r, du, dv) + _xl(q, dk, dr, u, v), dtype)
