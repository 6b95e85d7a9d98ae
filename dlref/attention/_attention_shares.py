r"""Shares of attention by kind of position."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    MAX_OFFSET,
    FloatArray,
    as_floats,
    as_integer,
    as_tangents,
    check_ndim,
    check_shape,
    result,
)


def _places(p: FloatArray, q_offset: int) -> FloatArray:
    """Return one-hot rows (T, S, 3) for the first, the previous and the own token."""
    T, S = p.shape[-2:]
    own = np.arange(T)[:, None] + as_integer(
        "q_offset", q_offset, least=-MAX_OFFSET, most=MAX_OFFSET
    )
    columns = np.arange(S)
    hits = [np.broadcast_to(columns == 0, (T, S)), columns == own - 1, columns == own]
    return np.stack(hits, axis=-1).astype(np.float64)


def attention_shares(weights: npt.ArrayLike, *, q_offset: int = 0) -> FloatArray:
    r"""
    Share of the first, of the previous and of the own token in each row of weights.

    Parameters
    ----------
    weights : array_like, shape (..., T, S)
        Rows of weights that sum to 1.
    q_offset : int, default 0
        Position of query 0 among the keys.

    Returns
    -------
    ndarray, shape (..., T, 3)
        Weights of key 0, of key i + offset − 1 and of key i + offset; 0 where there is no such
        key.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `weights` has fewer than 2 axes.

    See Also
    --------
    attention_distance : One number for all distances.

    Notes
    -----
    Row i of the result is

    .. math::

        \vec a_i = \bigl( p_{i, 0},\; p_{i,\, i + o - 1},\; p_{i,\, i + o} \bigr), \qquad
        o = \text{offset},

    with 0 in place of a key that does not exist. These are three patterns that heads of trained
    models show: a *sink*, where a head with nothing to do puts its weight on the first token, which
    every query sees; the *previous token* head, a part of the circuit that continues repeated
    sequences; and the token itself. At the first two positions the same key counts twice, so a
    row may sum to more than 1.

    References
    ----------
    - :cite:t:`Clark2019`
    - :cite:t:`Xiao2024`

    Examples
    --------
    >>> from dlref.attention import attention_shares
    >>> attention_shares([[0.1, 0.2, 0.3, 0.4]], q_offset=3)
    array([[0.1, 0.3, 0.4]])

    A query at position 0 has no predecessor:

    >>> attention_shares([[1.0, 0.0]])
    array([[1., 0., 1.]])
    """
    dtype, (p,) = as_floats({"weights": weights})
    check_ndim("weights", p, 2)
    with np.errstate(all="ignore"):
        return result(np.einsum("...ij,ijn->...in", p, _places(p, q_offset)), dtype)


def attention_shares_vjp(
    dout: npt.ArrayLike, weights: npt.ArrayLike, *, q_offset: int = 0
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the three shares.

    Parameters
    ----------
    dout : array_like, shape (..., T, 3)
        Cotangent of the shares.
    weights, q_offset : as in `attention_shares`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, S)
        Gradient with respect to `weights`: each cotangent at the place its share was read from.

    Notes
    -----
    The adjoint of reading is adding: each cotangent goes to the place its share was read from,

    .. math::

        \pdv{L}{p_{ij}} = u_{i1}\, [j = 0] + u_{i2}\, [j = i + o - 1] + u_{i3}\, [j = i + o] .

    Where two shares were read from one key, two cotangents are added there.

    Examples
    --------
    >>> from dlref.attention import attention_shares_vjp
    >>> attention_shares_vjp([[1.0, 2.0, 4.0]], [[0.1, 0.2, 0.3]], q_offset=1)
    array([[3., 4., 0.]])
    """
    dtype, (u, p) = as_floats({"dout": dout, "weights": weights})
    check_ndim("weights", p, 2)
    check_shape("dout", u, (*p.shape[:-1], 3))
    with np.errstate(all="ignore"):
        return result(np.einsum("...in,ijn->...ij", u, _places(p, q_offset)), dtype)


def attention_shares_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, q_offset: int = 0
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the three shares.

    Parameters
    ----------
    primals : array_like, shape (..., T, S)
        Rows of weights.
    tangents : array_like or None, shape (..., T, S)
        Their tangents; None is zero.
    q_offset : as in `attention_shares`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, 3)
        Tangent of each share.

    Notes
    -----
    The map is linear, so tangents are read from the same places:

    .. math::

        \dot{\vec a}_i = \bigl( \dot p_{i, 0},\; \dot p_{i,\, i + o - 1},\; \dot p_{i,\, i + o}
            \bigr) .

    Examples
    --------
    >>> from dlref.attention import attention_shares_jvp
    >>> attention_shares_jvp([[0.5, 0.5]], [[-1, 1]], q_offset=1)
    array([[-1., -1., 1.]])
    """
    dtype, [p], [dp] = as_tangents(primals, tangents, count=1)
    check_ndim("primals", p, 2)
    with np.errstate(all="ignore"):
        return result(np.einsum("...ij,ijn->...in", dp, _places(p, q_offset)), dtype)
