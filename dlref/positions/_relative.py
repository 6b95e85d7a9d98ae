r"""
Learned relative positions: a number, or a vector, for every offset.

A matrix whose element i, j depends on j − i only is a Toeplitz matrix.  Its T S elements are
T + S − 1 numbers, each along one diagonal; the gradient of a number is the sum along its diagonal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._broadcast import unbroadcast
from .._jit import kernel
from .._parallel import over_rows
from .._validate import (
    FloatArray,
    as_floats,
    as_integer,
    as_tangents,
    check_broadcast,
    check_ndim,
    check_shape,
    result,
)

__all__ = [
    "relative_bias",
    "relative_bias_jvp",
    "relative_bias_vjp",
    "shaw_scores",
    "shaw_scores_jvp",
    "shaw_scores_vjp",
    "transformer_xl_scores",
    "transformer_xl_scores_jvp",
    "transformer_xl_scores_vjp",
]


@kernel
def _copy_diagonals(start: int, stop: int, table: FloatArray, T: int, out: FloatArray) -> None:
    for r in range(start, stop):
        first = T - 1 - r % T
        source, row = table[r // T], out[r]
        for j in range(row.size):
            row[j] = source[first + j]


@kernel
def _add_diagonals(start: int, stop: int, dout: FloatArray, T: int, out: FloatArray) -> None:
    S = dout.shape[1]
    for h in range(start, stop):
        for i in range(T):
            row, to = dout[h * T + i], out[h, T - 1 - i : T - 1 - i + S]
            for j in range(S):
                to[j] += np.float64(row[j])


def as_grid(T: int, S: int, q_offset: int, *, least: int = 0) -> tuple[int, int, int]:
    """Return the numbers of queries and keys, at least `least`, and where the queries begin."""
    T, S = as_integer("T", T, least=least), as_integer("S", S, least=least)
    return T, S, as_integer("q_offset", q_offset, least=0)


def distances(T: int, S: int, first: int, *, symmetric: bool) -> FloatArray:
    """Return how far back the key lies on each diagonal; 0 where it lies ahead, or as far."""
    behind = first - np.arange(1.0 - T, S)
    return np.asarray(np.abs(behind) if symmetric else np.maximum(behind, 0.0))


def diagonals(table: FloatArray, T: int, S: int) -> FloatArray:
    """Return the matrices (..., T, S) whose element i, j is entry j - i + T - 1 of the table."""
    out = np.empty((*table.shape[:-1], T, S), table.dtype)
    if out.size:
        rows = np.ascontiguousarray(table).reshape(-1, table.shape[-1])
        matrix = out.reshape(-1, S)
        over_rows(_copy_diagonals, len(matrix), S / 4, rows, T, matrix)
    return out


def diagonal_sums(dout: FloatArray) -> FloatArray:
    """Return the sums along all diagonals of matrices (..., T, S), in float64."""
    T, S = dout.shape[-2:]
    out = np.zeros((*dout.shape[:-2], max(T + S - 1, 0)))
    if dout.size:
        sums = out.reshape(-1, T + S - 1)
        over_rows(_add_diagonals, len(sums), T * S / 2, dout.reshape(-1, S), T, sums)
    return out


def _sizes(name: str, table: FloatArray, T: int, S: int) -> tuple[int, int]:
    T, S, _ = as_grid(T, S, 0, least=1)
    check_ndim(name, table, 1)
    check_shape(name, table, (*table.shape[:-1], T + S - 1))
    return T, S


def relative_bias(table: npt.ArrayLike, T: int, S: int) -> FloatArray:
    r"""
    Add to the scores a number that every offset has of its own.

    Parameters
    ----------
    table : array_like, shape (..., H, T + S - 1)
        Numbers b, for each head and offset; entry 0 belongs to the offset 1 − T.
    T : int
        Number of queries, at least 1.
    S : int
        Number of keys, at least 1.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        The bias; its matrices are constant along diagonals.

    Raises
    ------
    TypeError
        If `table` is not real, or a number no integer.
    ValueError
        If `T` or `S` is less than 1, or the last axis of `table` is not T + S − 1 long.

    See Also
    --------
    relative_bias_vjp, relative_bias_jvp : The derivatives.
    t5_bias : One number for a range of offsets.
    alibi_bias : A fixed number.

    Notes
    -----
    .. math:: B_{hij} = b_{h,\, j - i + T - 1}

    The offset j − i runs from 1 − T to S − 1, hence T + S − 1 numbers per head. (A table of
    that many entries *per channel* would be something else: offsets count tokens.) For keys that
    began t tokens earlier, T and S stay and the meaning of the table moves by t.

    References
    ----------
    - :cite:t:`Shaw2018`
    - :cite:t:`Raffel2020`

    Examples
    --------
    >>> from dlref.positions import relative_bias
    >>> relative_bias([-2, -1, 0, 1, 2], 3, 3)
    array([[ 0.,  1.,  2.],
           [-1.,  0.,  1.],
           [-2., -1.,  0.]])
    """
    dtype, (b,) = as_floats({"table": table}, work=np.float32)
    T, S = _sizes("table", b, T, S)
    return result(diagonals(b, T, S), dtype)


def relative_bias_vjp(dout: npt.ArrayLike, table: npt.ArrayLike, T: int, S: int) -> FloatArray:
    r"""
    Reverse mode of `relative_bias`: sums along the diagonals.

    Parameters
    ----------
    dout : array_like, shape (..., H, T, S)
        Gradient of a loss with respect to the bias.
    table : array_like, shape (..., H, T + S - 1)
        The table. Only its shape and dtype matter.
    T : int
        Number of queries, at least 1.
    S : int
        Number of keys, at least 1.

    Returns
    -------
    ndarray, shape of `table`
        Gradient of that loss with respect to the table.

    Raises
    ------
    TypeError
        If an array is not real, or a number no integer.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    relative_bias : The map.
    relative_bias_jvp : Forward mode.

    Notes
    -----
    Entry r of the table is read by all pairs with j − i + T − 1 = r, a diagonal:

    .. math:: \pdv{L}{b_{hr}} = \sum_i U_{h, i,\, r + i - T + 1} .

    Examples
    --------
    >>> from dlref.positions import relative_bias_vjp
    >>> relative_bias_vjp([[1, 2, 4], [8, 16, 32]], [0.0, 0.0, 0.0, 0.0], 2, 3)
    array([ 8., 17., 34.,  4.])
    """
    dtype, (u, b) = as_floats({"dout": dout, "table": table}, work=np.float32)
    T, S = _sizes("table", b, T, S)
    check_shape("dout", u, (*b.shape[:-1], T, S))
    return result(diagonal_sums(np.ascontiguousarray(u)), dtype)


def relative_bias_jvp(primals: Any, tangents: Any, T: int, S: int) -> FloatArray:
    r"""
    Forward mode of `relative_bias`: the bias of the tangent.

    Parameters
    ----------
    primals : array_like, shape (..., H, T + S - 1)
        The table.
    tangents : array_like or None
        Its rate of change; None is zero.
    T : int
        Number of queries, at least 1.
    S : int
        Number of keys, at least 1.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        Rate of change of the bias.

    Raises
    ------
    TypeError
        If an array is not real, or a number no integer.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    relative_bias : The map.
    relative_bias_vjp : Reverse mode.

    Notes
    -----
    The map copies, so it is linear: :math:`\dot B_{hij} = \dot b_{h,\, j - i + T - 1}`.

    Examples
    --------
    >>> from dlref.positions import relative_bias_jvp
    >>> relative_bias_jvp([5.0, 5.0, 5.0], [-1, 0, 1], 2, 2)
    array([[ 0.,  1.],
           [-1.,  0.]])
    """
    dtype, (b,), (moved,) = as_tangents(primals, tangents, count=1)
    T, S = _sizes("primals", b, T, S)
    return result(diagonals(moved, T, S), dtype)


def _nearest(width: int, T: int) -> npt.NDArray[np.int64]:
    """Return the row of Shaw's table for each pair of T tokens."""
    most = width // 2
    offset = np.arange(T) - np.arange(T)[:, None]
    return np.asarray(np.clip(offset, -most, most) + most, np.int64)


def _check_shaw(names: tuple[str, str], q: FloatArray, table: FloatArray) -> None:
    check_ndim(names[0], q, 2)
    check_ndim(names[1], table, 1)
    rows = table.shape[0] | 1  # an odd number: 2 K + 1 offsets
    check_shape(names[1], table, (rows, q.shape[-1]))


def shaw_scores(q: npt.ArrayLike, table: npt.ArrayLike) -> FloatArray:
    r"""
    Score queries against a learned vector for every offset.

    Parameters
    ----------
    q : array_like, shape (..., T, E)
        Queries.
    table : array_like, shape (2 K + 1, E)
        Vectors a for the offsets −K to K; K is the greatest distance told apart.

    Returns
    -------
    ndarray, shape (..., T, T)
        What is added to the scores of the T keys at the same positions, before the scale.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not fit, or `table` has an even number of rows.

    See Also
    --------
    shaw_scores_vjp, shaw_scores_jvp : The derivatives.
    relative_bias : The case of a number instead of a vector.

    Notes
    -----
    A key gets a learned vector that depends on its offset from the query, clipped to K:

    .. math:: s_{ij} = \vec q_i \cdot (\vec k_j + \vec a_{\operatorname{clip}(j - i, -K, K)}),
       \qquad\text{of which}\quad
       s'_{ij} = \vec q_i \cdot \vec a_{\operatorname{clip}(j - i, -K, K)}

    is computed here. The vectors :math:`\vec a_{j-i}` for all pairs would be T² E numbers. Instead,
    the product of all queries with all 2K + 1 vectors is formed, and read along
    diagonals: the score depends on the pair only through i and the clipped offset.

    References
    ----------
    - :cite:t:`Shaw2018`

    Examples
    --------
    >>> from dlref.positions import shaw_scores
    >>> shaw_scores([[1.0], [1.0], [1.0], [2.0]], [[-1.0], [0.0], [1.0]])
    array([[ 0.,  1.,  1.,  1.],
           [-1.,  0.,  1.,  1.],
           [-1., -1.,  0.,  1.],
           [-2., -2., -2.,  0.]])
    """
    dtype, (q, a) = as_floats({"q": q, "table": table})
    _check_shaw(("q", "table"), q, a)
    return result(_shaw(q, a), dtype)


def _shaw(q: FloatArray, a: FloatArray) -> FloatArray:
    T = q.shape[-2]
    with np.errstate(all="ignore"):
        products = q @ a.T
    where = np.broadcast_to(_nearest(len(a), T), (*q.shape[:-2], T, T))
    return np.take_along_axis(products, where, axis=-1)


def shaw_scores_vjp(
    dout: npt.ArrayLike, q: npt.ArrayLike, table: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of `shaw_scores`.

    Parameters
    ----------
    dout : array_like, shape (..., T, T)
        Gradient of a loss with respect to the scores.
    q : array_like, shape (..., T, E)
        Queries.
    table : array_like, shape (2 K + 1, E)
        Vectors of the offsets.

    Returns
    -------
    dq : ndarray, shape (..., T, E)
        Gradient with respect to the queries.
    dtable : ndarray, shape (2 K + 1, E)
        Gradient with respect to the table, summed over the batch.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    shaw_scores : The map.
    shaw_scores_jvp : Forward mode.

    Notes
    -----
    Let :math:`G_{ic}` be the sum of :math:`U_{ij}` over all j whose clipped offset from i is c.
    Then :math:`s'_{ij} = \sum_e q_{ie} a_{ce}` gives

    .. math:: \pdv{L}{q_{ie}} = \sum_c G_{ic}\, a_{ce}, \qquad
       \pdv{L}{a_{ce}} = \sum_i G_{ic}\, q_{ie} .

    Examples
    --------
    >>> from dlref.positions import shaw_scores_vjp
    >>> dq, dtable = shaw_scores_vjp([[1, 1], [1, 1]], [[3.0], [5.0]], [[-1.0], [0.0], [1.0]])
    >>> dq.T, dtable.T
    (array([[ 1., -1.]]), array([[5., 8., 3.]]))
    """
    dtype, (u, q, a) = as_floats({"dout": dout, "q": q, "table": table})
    _check_shaw(("q", "table"), q, a)
    T = q.shape[-2]
    check_shape("dout", u, (*q.shape[:-1], T))
    flat = u.reshape(math.prod(q.shape[:-2]), T, T)
    sums = np.zeros((len(flat), T, len(a)))
    where: Any = (slice(None), np.arange(T)[:, None], _nearest(len(a), T))
    np.add.at(sums, where, flat)
    with np.errstate(all="ignore"):
        dq = (sums @ a).reshape(q.shape)
        dtable = sums.reshape(-1, len(a)).T @ q.reshape(len(flat) * T, q.shape[-1])
    return result(dq, dtype), result(dtable, dtype)


def shaw_scores_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Forward mode of `shaw_scores`.

    Parameters
    ----------
    primals : tuple (q, table) of array_like
        Queries (..., T, E) and vectors (2 K + 1, E).
    tangents : tuple of array_like or None
        Directions of the shapes of the primals; None is zero.

    Returns
    -------
    ndarray, shape (..., T, T)
        Rate of change of the scores.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    shaw_scores : The map.
    shaw_scores_vjp : Reverse mode.

    Notes
    -----
    The map is linear in each operand, so that both rates add, as in any product:
    :math:`\dot s'_{ij} = \dot{\vec q}_i \cdot \vec a_c + \vec q_i \cdot \dot{\vec a}_c`.

    Examples
    --------
    >>> from dlref.positions import shaw_scores_jvp
    >>> shaw_scores_jvp(([[3.0]], [[7.0]]), ([[1.0]], [[10.0]]))
    array([[37.]])
    """
    dtype, (q, a), (dq, da) = as_tangents(primals, tangents, count=2)
    _check_shaw(("primals[0]", "primals[1]"), q, a)
    return result(_shaw(dq, a) + _shaw(q, da), dtype)


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
    where = np.arange(S) + (T - 1 - np.arange(T))[:, None]
    return np.take_along_axis(
        products, np.broadcast_to(where, (*products.shape[:-2], T, S)), axis=-1
    )


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
    u, v : array_like, shape (E,), or one that broadcasts to that of `q`
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

    .. math:: (\mat W_q (e_i + p_i)) \cdot (\mat W_k (e_j + p_j))
       = \underbrace{q_i \cdot k_j}_{(a)} + \underbrace{q_i \cdot \mat W_k p_j}_{(b)}
       + \underbrace{\mat W_q p_i \cdot k_j}_{(c)}
       + \underbrace{\mat W_q p_i \cdot \mat W_k p_j}_{(d)} .

    To depend on the offset alone, the position of the key becomes a vector :math:`r_{j-i}` of the
    offset with a projection of its own, and the position of the query, which must not matter, a
    constant: u in (c), v in (d). Collecting terms,

    .. math:: s_{ij} = (q_i + u) \cdot k_j + (q_i + v) \cdot r_{j-i} .

    The second product is formed for all T + S − 1 offsets at once, and each of its rows is read
    one entry further to the left than the row before. That is O(T (T + S) E) instead of a vector
    for each pair.

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
    q : array_like, shape (..., T, E)
        Queries.
    k : array_like, shape (..., S, E)
        Keys.
    r : array_like, shape (T + S - 1, E) or (..., T + S - 1, E)
        Keys of the offsets.
    u, v : array_like, shape (E,), or one that broadcasts to that of `q`
        Biases of the queries.

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

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    transformer_xl_scores : The map.
    transformer_xl_scores_jvp : Forward mode.

    Notes
    -----
    Let U be the cotangent and G its rows moved back, :math:`G_{i, j-i+T-1} = U_{ij}` and 0
    elsewhere. With rows as in the map,

    .. math::

       \pdv{L}{\vec q} &= \mat U \mat K + \mat G \mat R, &
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
    tangents : tuple of array_like or None
        Directions of the shapes of the primals; None is zero.

    Returns
    -------
    ndarray, shape (..., T, S)
        Rate of change of the scores.

    Raises
    ------
    TypeError
        If an argument is no tuple, or an entry no real array.
    ValueError
        If the shapes do not fit.

    See Also
    --------
    transformer_xl_scores : The map.
    transformer_xl_scores_vjp : Reverse mode.

    Notes
    -----
    The map is linear in (q, u, v) for fixed keys, and in the keys (k, r) for fixed queries: the
    rate is the map with the first three moved, plus the map with the keys moved.

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
