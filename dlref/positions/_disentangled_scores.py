r"""Scores of DeBERTa: content with content, content with position, position with content."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_even,
    as_floats,
    as_integer,
    as_tangents,
    check_flags,
    check_ndim,
    check_pattern,
    check_shape,
    result,
)
from ._kernels.pairs import Rows, read_rows, row_sums


def _buckets(offset: Any, num_buckets: int | None, max_distance: int | None) -> Rows:
    """Return offsets, the large ones on a logarithmic scale."""
    if num_buckets is None:
        if max_distance is not None:
            msg = f"Argument 'max_distance' must be None without num_buckets, not {max_distance}."
            raise ValueError(msg)
        return np.asarray(offset, np.int64)
    half = as_even("num_buckets", num_buckets, least=4) // 2
    far = as_integer("max_distance", max_distance, least=half + 2)
    distance = np.maximum(np.abs(offset), half)
    steps = np.ceil(np.log(distance / half) / np.log((far - 1) / half) * (half - 1))
    coarse = np.sign(offset) * (half + steps)
    return np.asarray(np.where(np.abs(offset) <= half, offset, coarse), np.int64)


class _Terms:
    """The arguments, checked, and which row of a table each pair of tokens reads."""

    def __init__(
        self,
        names: tuple[str, ...],
        arrays: list[FloatArray],
        num_buckets: int | None,
        max_distance: int | None,
        c2p: bool,
        p2c: bool,
    ) -> None:
        check_flags(c2p=c2p, p2c=p2c)
        q, k, pos_q, pos_k = arrays
        check_ndim(names[0], q, 3)
        check_pattern(names[1], k, (*q.shape[:-2], "S", q.shape[-1]))
        check_pattern(names[2], pos_q, (q.shape[-3], "L", q.shape[-1]))
        check_shape(names[3], pos_k, pos_q.shape)
        self.c2p, self.p2c, L = c2p, p2c, pos_q.shape[-2]
        if L % 2 or not L:
            msg = (
                f"Argument {names[2]!r} must have an even number of rows, not shape {pos_q.shape}."
            )
            raise ValueError(msg)
        offset = np.arange(q.shape[-2])[:, None] - np.arange(k.shape[-2])
        row = _buckets(offset, num_buckets, max_distance) + L // 2
        self.row: Rows = np.clip(row, 0, L - 1)

    def scores(
        self, q: FloatArray, k: FloatArray, pos_q: FloatArray, pos_k: FloatArray
    ) -> FloatArray:
        """Return the scores."""
        s = q @ k.swapaxes(-1, -2)
        if self.c2p:
            s = s + read_rows(q @ pos_k.swapaxes(-1, -2), self.row)
        if self.p2c:
            s = s + read_rows(k @ pos_q.swapaxes(-1, -2), self.row.T).swapaxes(-1, -2)
        return np.asarray(s)

    def vjp(
        self, u: FloatArray, q: FloatArray, k: FloatArray, pos_q: FloatArray, pos_k: FloatArray
    ) -> list[FloatArray]:
        """Return the gradients of all four."""
        back = u.swapaxes(-1, -2)
        dq, dk = u @ k, back @ q
        dpos_q: FloatArray = np.zeros(pos_q.shape)
        dpos_k: FloatArray = np.zeros(pos_k.shape)
        if self.c2p:
            sums = row_sums(u, self.row, pos_k.shape[-2])
            dq, dpos_k = dq + sums @ pos_k, _over_batch(sums.swapaxes(-1, -2) @ q)
        if self.p2c:
            sums = row_sums(back, self.row.T, pos_q.shape[-2])
            dk, dpos_q = dk + sums @ pos_q, _over_batch(sums.swapaxes(-1, -2) @ k)
        return [dq, dk, dpos_q, dpos_k]


def _over_batch(grad: FloatArray) -> FloatArray:
    return np.asarray(grad.sum(axis=tuple(range(grad.ndim - 3))))


NAMES = "q", "k", "pos_q", "pos_k"


def disentangled_scores(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    pos_q: npt.ArrayLike,
    pos_k: npt.ArrayLike,
    *,
    num_buckets: int | None = None,
    max_distance: int | None = None,
    c2p: bool = True,
    p2c: bool = True,
) -> FloatArray:
    r"""
    Score contents against each other, and contents against relative positions.

    DeBERTa gives a token two vectors, one of its content and one of its position, and adds three
    of the four products.

    Parameters
    ----------
    q : array_like, shape (..., H, T, E)
        Queries of the contents.
    k : array_like, shape (..., H, S, E)
        Keys of the contents.
    pos_q, pos_k : array_like, shape (H, L, E)
        Queries and keys of the relative positions: the table of offsets, projected. L is even.
    num_buckets : int or None
        Number of buckets for the offsets of each sign, even and at least 4, usually L / 2; distant
        offsets share one. None gives every offset one of its own.
    max_distance : int or None
        Distance from which all offsets share the last bucket. Needed with `num_buckets`.
    c2p : bool, default True
        Whether the content of the query meets the position of the key.
    p2c : bool, default True
        Whether the content of the key meets the position of the query.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        The scores, before the scale.

    Raises
    ------
    TypeError
        If an array is not real, a number is not an integer, or a flag is not True or False.
    ValueError
        If the shapes do not fit, or a number is out of range.

    See Also
    --------
    disentangled_scores_vjp, disentangled_scores_jvp : The derivatives.
    shaw_scores : The second term, with a table of keys alone.
    transformer_xl_scores : Four terms, with a table of sinusoids.

    Notes
    -----
    With :math:`\vec a^q_r` and :math:`\vec a^k_r` for the rows of `pos_q` and `pos_k`,

    .. math:: s_{ij} = \vec q_i \cdot \vec k_j + \vec q_i \cdot \vec a^k_{r(i, j)}
       + \vec k_j \cdot \vec a^q_{r(i, j)} , \qquad
       r(i, j) = \operatorname{clip}\bigl( \beta(i - j) + \tfrac L2 ,\, 0,\, L - 1 \bigr) .

    The product of two positions is left out: it would be the same for all texts. The scores are
    then divided by :math:`\sqrt{E n}`, where n is the number of terms, 3 with both flags: a sum of
    n products has n times the variance of one.

    **Buckets.** Without `num_buckets`, :math:`\beta(\delta) = \delta`. With it, let m be half of
    it. Offsets up to m in size have a bucket each; larger ones are on a logarithmic scale,

    .. math:: \beta(\delta) = \operatorname{sign}(\delta) \biggl( m + \biggl\lceil
       \frac{\log (\abs\delta / m)}{\log ((M - 1) / m)}\, (m - 1) \biggr\rceil \biggr) , \qquad
       \abs\delta > m ,

    which reaches the last one, 2m − 1, at the distance :math:`M - 1`, `max_distance` minus 1.

    **Conventions.** In the third term the paper has the offset j − i. The published code and
    the models have i − j in both, as here. Their table is :math:`\vec a_r` of
    the offset of the query from the key; :func:`shaw_scores` and :func:`relative_bias` count from
    the key to the query.

    References
    ----------
    - :cite:t:`HeLiu2020`

    Examples
    --------
    Contents of zero except for one query; the table of keys is 10 r. The query at 1 sees the keys
    at 0 and 1 with the offsets 1 and 0, in the rows 3 and 2:

    >>> import numpy as np
    >>> from dlref.positions import disentangled_scores
    >>> q, k = np.array([[[0.0], [1.0]]]), np.zeros((1, 2, 1))
    >>> table = np.array([[[0.0], [10.0], [20.0], [30.0]]])
    >>> disentangled_scores(q, k, table, table)
    array([[[ 0.,  0.],
            [30., 20.]]])
    """
    dtype, arrays = as_floats(dict(zip(NAMES, (q, k, pos_q, pos_k), strict=True)))
    terms = _Terms(NAMES, arrays, num_buckets, max_distance, c2p, p2c)
    with np.errstate(all="ignore"):
        return result(terms.scores(*arrays), dtype)


def disentangled_scores_vjp(
    dout: npt.ArrayLike,
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    pos_q: npt.ArrayLike,
    pos_k: npt.ArrayLike,
    *,
    num_buckets: int | None = None,
    max_distance: int | None = None,
    c2p: bool = True,
    p2c: bool = True,
) -> tuple[FloatArray, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of the scores of DeBERTa.

    Parameters
    ----------
    dout : array_like, shape (..., H, T, S)
        Cotangent :math:`U_{ij}` of the scores.
    q, k, pos_q, pos_k, num_buckets, max_distance, c2p, p2c : as in `disentangled_scores`
        Raises the same errors.

    Returns
    -------
    dq, dk : ndarray, shapes of `q` and `k`
        Gradients of the contents.
    dpos_q, dpos_k : ndarray, shape (H, L, E)
        Gradients of the positions, summed over the batch.

    Notes
    -----
    The pairs that read one row of a table are the pairs with :math:`r(i, j) = r`. First add up
    their cotangents, for each query and for each key,

    .. math:: G_{ir} = \sum_{j :\, r(i, j) = r} U_{ij} , \qquad
       F_{jr} = \sum_{i :\, r(i, j) = r} U_{ij} ;

    the rest is three products of matrices:

    .. math::

        \pdv{L}{\vec q_i} &= \sum_j U_{ij} \vec k_j + \sum_r G_{ir}\, \vec a^k_r , \qquad
        \pdv{L}{\vec a^k_r} = \sum_i G_{ir}\, \vec q_i \\
        \pdv{L}{\vec k_j} &= \sum_i U_{ij} \vec q_i + \sum_r F_{jr}\, \vec a^q_r , \qquad
        \pdv{L}{\vec a^q_r} = \sum_j F_{jr}\, \vec k_j .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import disentangled_scores_vjp
    >>> q, k, table = np.array([[[3.0]]]), np.array([[[5.0]]]), np.ones((1, 2, 1))
    >>> dq, dk, dpos_q, dpos_k = disentangled_scores_vjp([[[1.0]]], q, k, table, table)
    >>> dq.item(), dpos_q.ravel(), dpos_k.ravel()
    (6.0, array([0., 5.]), array([0., 3.]))
    """
    given = dict(zip(NAMES, (q, k, pos_q, pos_k), strict=True))
    dtype, (u, *arrays) = as_floats({"dout": dout, **given})
    terms = _Terms(NAMES, arrays, num_buckets, max_distance, c2p, p2c)
    check_shape("dout", u, (*arrays[0].shape[:-1], arrays[1].shape[-2]))
    with np.errstate(all="ignore"):
        return tuple(result(g, dtype) for g in terms.vjp(u, *arrays))


def disentangled_scores_jvp(
    primals: Any,
    tangents: Any,
    *,
    num_buckets: int | None = None,
    max_distance: int | None = None,
    c2p: bool = True,
    p2c: bool = True,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the scores of DeBERTa.

    Parameters
    ----------
    primals : tuple (q, k, pos_q, pos_k) of array_like
        Queries, keys and both tables.
    tangents : tuple of array_like or None
        Tangents, each of the shape of its primal; None is zero.
    num_buckets, max_distance, c2p, p2c : as in `disentangled_scores`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        Tangent of the scores.

    Notes
    -----
    Each term is a product, so with r = r(i, j)

    .. math:: \dot s_{ij} = \dot{\vec q}_i \cdot (\vec k_j + \vec a^k_r) + \dot{\vec k}_j \cdot
       (\vec q_i + \vec a^q_r) + \vec q_i \cdot \dot{\vec a}^k_r + \vec k_j \cdot \dot{\vec a}^q_r .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.positions import disentangled_scores_jvp
    >>> q, k, table = np.array([[[3.0]]]), np.array([[[5.0]]]), np.ones((1, 2, 1))
    >>> disentangled_scores_jvp((q, k, table, table), (np.ones((1, 1, 1)), None, None, None))
    array([[[6.]]])
    """
    dtype, arrays, moves = as_tangents(primals, tangents, count=4)
    names = tuple(f"primals[{i}]" for i in range(4))
    terms = _Terms(names, arrays, num_buckets, max_distance, c2p, p2c)
    (q, k, pos_q, pos_k), (dq, dk, dpos_q, dpos_k) = arrays, moves
    # bilinear in the queries with pos_q, and in the keys with pos_k
    with np.errstate(all="ignore"):
        moved = terms.scores(dq, k, dpos_q, pos_k) + terms.scores(q, dk, pos_q, dpos_k)
    return result(moved, dtype)
