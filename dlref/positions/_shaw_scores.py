r"""A learned vector for every offset, in the scores (Shaw)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_tangents, check_ndim, check_shape, result
from ._kernels.pairs import Rows, read_rows, row_sums


def _nearest(width: int, T: int) -> Rows:
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
        Vectors a for the offsets −K to K; K is the maximum distance with a vector of its own.

    Returns
    -------
    ndarray, shape (..., T, T)
        The term added to the scores of the T keys at the same positions, before the scale.

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

    is computed here, before the division by :math:`\sqrt E`; :math:`\vec a_c` is row c + K of
    `table`. The vectors :math:`\vec a_{j-i}` for all pairs would be T² E numbers. Instead,
    the product of all queries with all 2K + 1 vectors is formed, and read along
    diagonals: the score depends on the pair only through i and the clipped offset.

    The paper has a second table on the side of the values: with the weights :math:`p_{ij}` the
    output is :math:`\sum_j p_{ij} (\vec v_j + \vec a^V_{\operatorname{clip}(j - i, -K, K)})`. That
    sum is not computed here.

    :doc:`/positions_compared` has the loss, cost and cache of this scheme compared with all others.

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
    with np.errstate(all="ignore"):
        return read_rows(q @ a.T, _nearest(len(a), q.shape[-2]))


def shaw_scores_vjp(
    dout: npt.ArrayLike, q: npt.ArrayLike, table: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""
    Reverse mode of `shaw_scores`.

    Parameters
    ----------
    dout : array_like, shape (..., T, T)
        Gradient of a loss with respect to the scores.
    q, table : as in `shaw_scores`
        Raises the same errors.

    Returns
    -------
    dq : ndarray, shape (..., T, E)
        Gradient with respect to the queries.
    dtable : ndarray, shape (2 K + 1, E)
        Gradient with respect to the table, summed over the batch.

    Notes
    -----
    Let :math:`U_{ij}` be the cotangent and :math:`G_{ic}` its sum over all j whose clipped offset
    from i is c, for c = −K, ..., K. Then :math:`s'_{ij} = \sum_e q_{ie} a_{ce}` gives

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
    with np.errstate(all="ignore"):
        sums = row_sums(u, _nearest(len(a), T), len(a))
        rows = math.prod(q.shape[:-1])
        dtable = sums.reshape(rows, len(a)).T @ q.reshape(rows, q.shape[-1])
        return result(sums @ a, dtype), result(dtable, dtype)


def shaw_scores_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Forward mode of `shaw_scores`.

    Parameters
    ----------
    primals : tuple (q, table) of array_like
        Queries (..., T, E) and vectors (2 K + 1, E).
        Raises the same errors as `shaw_scores`.
    tangents : tuple of array_like or None
        Directions of the shapes of the primals; None is zero.

    Returns
    -------
    ndarray, shape (..., T, T)
        Tangent of the scores.

    Notes
    -----
    The map is linear in each operand, so the product rule has two terms:

    .. math::

        \dot s'_{ij} = \dot{\vec q}_i \cdot \vec a_c + \vec q_i \cdot \dot{\vec a}_c, \qquad
        c = \operatorname{clip}(j - i, -K, K) .

    Examples
    --------
    >>> from dlref.positions import shaw_scores_jvp
    >>> shaw_scores_jvp(([[3.0]], [[7.0]]), ([[1.0]], [[10.0]]))
    array([[37.]])
    """
    dtype, (q, a), (dq, da) = as_tangents(primals, tangents, count=2)
    _check_shaw(("primals[0]", "primals[1]"), q, a)
    with np.errstate(all="ignore"):
        return result(_shaw(dq, a) + _shaw(q, da), dtype)
