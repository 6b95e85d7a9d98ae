r"""
Contextual positions: a query counts the tokens that matter to it, not all of them.

Each key opens a gate to the degree that it matters to the query; the position of a key is the sum
of the gates from it to the query.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_tangents,
    check_axes,
    check_ndim,
    check_shape,
    result,
)
from ..activations import sigmoid, sigmoid_deriv


def _check(names: list[str], q: FloatArray, scores: FloatArray, table: FloatArray) -> None:
    check_ndim(names[0], q, 2)
    check_ndim(names[1], scores, 2)
    check_shape(names[1], scores, (*q.shape[:-1], *scores.shape[-1:]))
    check_axes(names[2], table, 2)
    check_shape(names[2], table, (max(len(table), 1), *q.shape[-1:]))


def _after(gates: FloatArray) -> FloatArray:
    """Return the sums over each key and all that follow it."""
    return np.flip(np.flip(gates, -1).cumsum(-1), -1)


def _places(
    scores: FloatArray, last: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], FloatArray, npt.NDArray[np.bool_]]:
    """Return the entries before and after each position, its fraction, and if it is free."""
    position = _after(sigmoid(scores))
    free = position < last
    position = np.minimum(position, last)
    low = np.floor(np.nan_to_num(position)).astype(np.int64)
    return low, np.minimum(low + 1, last), position - low, free


def _interpolated(
    values: FloatArray,
    low: npt.NDArray[np.int64],
    high: npt.NDArray[np.int64],
    fraction: FloatArray,
) -> FloatArray:
    at_low, at_high = (np.take_along_axis(values, where, axis=-1) for where in (low, high))
    return at_low + fraction * (at_high - at_low)


def cope(q: npt.ArrayLike, scores: npt.ArrayLike, table: npt.ArrayLike) -> FloatArray:
    r"""
    Score queries against learned vectors for positions that depend on the text itself.

    Parameters
    ----------
    q : array_like, shape (..., T, E)
        Queries.
    scores : array_like, shape (..., T, S)
        Scores of the keys, as they enter the softmax: scaled, and −inf where masked.
    table : array_like, shape (P, E)
        Vectors a for the positions 0 to P − 1.

    Returns
    -------
    ndarray, shape (..., T, S)
        The term to be added to the scores.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If the shapes do not fit, or the table is empty.

    See Also
    --------
    cope_vjp, cope_jvp : The derivatives.
    shaw_scores : The same with positions that count tokens.

    Notes
    -----
    .. math::

       g_{ij} = \sigma(s_{ij}), \qquad
       p_{ij} = \min\Bigl(\sum_{t \ge j} g_{it},\; P - 1\Bigr), \qquad
       c_{ij} = \vec q_i \cdot \vec a(p_{ij})

    A masked key has the gate σ(−inf) = 0, so under a causal mask the sum ends at the query. With
    all gates 1 it counts tokens and :math:`p_{ij} = i - j + 1`; with gates open at the ends
    of sentences alone it counts sentences, which no fixed encoding can.

    Positions are real numbers, so the code interpolates between two vectors. As the score is linear
    in the vector, it interpolates the products :math:`z_{in} = \vec q_i \cdot \vec a_n`, and there
    are only T P of these:

    .. math:: c_{ij} = (1 - w)\, z_{i,n} + w\, z_{i,n+1}, \qquad n = \lfloor p_{ij} \rfloor,\;
       w = p_{ij} - n .

    At the bound :math:`p_{ij} = P - 1` the share w is 0, and there is no second term.

    :doc:`/positions_compared` has the loss, cost and cache of this scheme compared with all others.

    References
    ----------
    - :cite:t:`Golovneva2024`

    Examples
    --------
    Five keys. The query opens the gates of the second and the last, and finds the keys from the
    third on at position 1, the others further back at position 2.

    >>> import numpy as np
    >>> from dlref.positions import cope
    >>> scores = np.where([[0, 1, 0, 0, 1]], 40.0, -40.0)
    >>> cope([[1.0]], scores, [[0.0], [10.0], [20.0], [30.0]])
    array([[20., 20., 10., 10., 10.]])
    """
    arguments = {"q": q, "scores": scores, "table": table}
    dtype, (q, s, a) = as_floats(arguments)
    _check(list(arguments), q, s, a)
    low, high, fraction, _ = _places(s, len(a) - 1)
    with np.errstate(all="ignore"):
        return result(_interpolated(q @ a.T, low, high, fraction), dtype)


def cope_vjp(
    dout: npt.ArrayLike, q: npt.ArrayLike, scores: npt.ArrayLike, table: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""
    Reverse mode of `cope`.

    Parameters
    ----------
    dout : array_like, shape (..., T, S)
        Gradient of a loss with respect to the result.
    q, scores, table : as in `cope`
        Raises the same errors.

    Returns
    -------
    dq : ndarray, shape (..., T, E)
        Gradient of that loss with respect to the queries.
    dscores : ndarray, shape (..., T, S)
        With respect to the scores, through the gates.
    dtable : ndarray, shape (P, E)
        With respect to the table, summed over the batch.

    Notes
    -----
    With the cotangent :math:`U_{ij}`, and a bar for the gradient with respect to the symbol below
    it:

    1. The interpolation gives a share of U to each of its two products, which are bilinear in query
       and vector:

       .. math::

           \bar z_{in} &= \sum_{j:\, \lfloor p_{ij} \rfloor = n} (1 - w_{ij})\, U_{ij}
               + \sum_{j:\, \lfloor p_{ij} \rfloor = n - 1} w_{ij}\, U_{ij}, \\
           \pdv{L}{\vec q_i} &= \sum_n \bar z_{in}\, \vec a_n, \qquad
           \pdv{L}{\vec a_n} = \sum_i \bar z_{in}\, \vec q_i .

    2. It gives :math:`\bar p_{ij}` to the position, with :math:`n = \lfloor p_{ij} \rfloor`, or 0
       where the position is at its bound. Gate t is a part of the positions of all keys up to t,
       and a sigmoid of its score:

       .. math::

           \bar p_{ij} = U_{ij} (z_{i,n+1} - z_{i,n}), \qquad
           \pdv{L}{s_{it}} = \sigma'(s_{it}) \sum_{j \le t} \bar p_{ij} .

       At a whole number it returns the right slope.

    Examples
    --------
    >>> from dlref.positions import cope_vjp
    >>> dq, ds, dtable = cope_vjp([[1.0, 1.0]], [[1.0]], [[0.0, 0.0]], [[0.0], [4.0], [8.0]])
    >>> dq, ds, dtable.T
    (array([[6.]]), array([[1., 2.]]), array([[0.5, 1.5, 0. ]]))
    """
    arguments = {"q": q, "scores": scores, "table": table}
    dtype, (u, q, s, a) = as_floats({"dout": dout, **arguments})
    _check(list(arguments), q, s, a)
    check_shape("dout", u, s.shape)
    low, high, fraction, free = _places(s, len(a) - 1)
    with np.errstate(all="ignore"):
        z = q @ a.T
        at_low, at_high = (np.take_along_axis(z, where, axis=-1) for where in (low, high))
        dp = np.where(free | np.isnan(fraction), u * (at_high - at_low), 0.0)
        ds = sigmoid_deriv(s) * dp.cumsum(-1)
        dz = np.zeros((math.prod(q.shape[:-1]), len(a)))
        row = np.arange(len(dz))[:, None]
        shape = (len(dz), s.shape[-1])
        np.add.at(dz, (row, low.reshape(shape)), ((1 - fraction) * u).reshape(shape))
        np.add.at(dz, (row, high.reshape(shape)), (fraction * u).reshape(shape))
        dq = (dz @ a).reshape(q.shape)
        dtable = dz.T @ q.reshape(len(dz), q.shape[-1])
    return result(dq, dtype), result(ds, dtype), result(dtable, dtype)


def cope_jvp(primals: Any, tangents: Any) -> FloatArray:
    r"""
    Forward mode of `cope`.

    Parameters
    ----------
    primals : tuple (q, scores, table) of array_like
        Queries (..., T, E), scores (..., T, S) and vectors (P, E).
        Raises the same errors as `cope`.
    tangents : tuple of array_like or None
        Directions of the shapes of the primals; None is zero.

    Returns
    -------
    ndarray, shape (..., T, S)
        Tangent of the result.

    Notes
    -----
    .. math:: \dot c_{ij} = (1 - w)\, \dot z_{i,n} + w\, \dot z_{i,n+1}
       + (z_{i,n+1} - z_{i,n}) \sum_{t \ge j} \sigma'(s_{it})\, \dot s_{it}

    with n and w of `cope`, :math:`\dot z_{in} = \dot{\vec q}_i \cdot \vec a_n + \vec q_i \cdot
    \dot{\vec a}_n`, and without the last term where the position is at its bound.

    Examples
    --------
    >>> from dlref.positions import cope_jvp
    >>> point = [[1.0]], [[0.0, 0.0]], [[0.0], [4.0], [8.0]]
    >>> cope_jvp(point, (None, [[0.0, 1.0]], None))
    array([[1., 1.]])
    """
    dtype, (q, s, a), (dq, ds, da) = as_tangents(primals, tangents, count=3)
    _check([f"primals[{i}]" for i in range(3)], q, s, a)
    low, high, fraction, free = _places(s, len(a) - 1)
    with np.errstate(all="ignore"):
        z = q @ a.T
        at_low, at_high = (np.take_along_axis(z, where, axis=-1) for where in (low, high))
        dp = np.where(free | np.isnan(fraction), _after(sigmoid_deriv(s) * ds), 0.0)
        moved = _interpolated(dq @ a.T + q @ da.T, low, high, fraction)
        return result(moved + (at_high - at_low) * dp, dtype)
