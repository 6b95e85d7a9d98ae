r"""Mean distance that attention weights bridge."""

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


def _distances(p: FloatArray, q_offset: int) -> FloatArray:
    T, S = p.shape[-2:]
    offset = as_integer("q_offset", q_offset, least=-MAX_OFFSET, most=MAX_OFFSET)
    distance: FloatArray = np.abs(np.arange(S) - (np.arange(T)[:, None] + offset))
    return distance.astype(np.float64)


def attention_distance(weights: npt.ArrayLike, *, q_offset: int = 0) -> FloatArray:
    r"""
    Mean distance between a query and the keys it attends to.

    Parameters
    ----------
    weights : array_like, shape (..., T, S)
        Rows of weights that sum to 1.
    q_offset : int, default 0
        Position of query 0 among the keys.

    Returns
    -------
    ndarray, shape (..., T)
        Distance of each query, in tokens.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `weights` has fewer than 2 axes.

    See Also
    --------
    attention_shares : How much goes to three special places.
    attention_entropy : How many keys, wherever they are.

    Notes
    -----
    .. math:: d_i = \sum_j p_{ij}\, |j - i - \text{offset}| .

    A head of small distance reads the neighborhood like a convolution. As a scale: uniform weights
    over T keys have the distance :math:`(T^2 - 1)/(3T)` on average over the queries.
    :cite:t:`Dosovitskiy2021` measured it between the patches of an image, and compared it with
    the receptive field of a convolution.

    References
    ----------
    - :cite:t:`Dosovitskiy2021`, section 4.5

    Examples
    --------
    All on the token before, and spread over everything:

    >>> import numpy as np
    >>> from dlref.attention import attention_distance
    >>> attention_distance(np.eye(4, k=-1)[1:], q_offset=1)
    array([1., 1., 1.])
    >>> attention_distance(np.full((4, 4), 0.25))
    array([1.5, 1. , 1. , 1.5])
    """
    dtype, (p,) = as_floats({"weights": weights})
    check_ndim("weights", p, 2)
    with np.errstate(all="ignore"):
        return result(np.sum(p * _distances(p, q_offset), axis=-1), dtype)


def attention_distance_vjp(
    dout: npt.ArrayLike, weights: npt.ArrayLike, *, q_offset: int = 0
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the distance of attention.

    Parameters
    ----------
    dout : array_like, shape (..., T)
        Cotangent :math:`u_i`, a number per row.
    weights, q_offset : as in `attention_distance`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, S)
        Gradient with respect to `weights`.

    Notes
    -----
    The map is linear, and its coefficients are the distances:

    .. math::

        \pdv{L}{p_{ij}} = u_i\, |j - i - \text{offset}| .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import attention_distance_vjp
    >>> attention_distance_vjp([1, 10], np.ones((2, 3)))
    array([[ 0., 1., 2.],
           [10., 0., 10.]])
    """
    dtype, (u, p) = as_floats({"dout": dout, "weights": weights})
    check_ndim("weights", p, 2)
    check_shape("dout", u, p.shape[:-1])
    with np.errstate(all="ignore"):
        return result(u[..., None] * _distances(p, q_offset), dtype)


def attention_distance_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, q_offset: int = 0
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the distance of attention.

    Parameters
    ----------
    primals : array_like, shape (..., T, S)
        Rows of weights.
    tangents : array_like or None, shape (..., T, S)
        Their tangents; None is zero.
    q_offset : as in `attention_distance`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T)
        Tangent of each distance.

    Notes
    -----
    The map is linear, so the tangent is the same sum of the tangents:

    .. math::

        \dot d_i = \sum_j \dot p_{ij}\, |j - i - \text{offset}| .

    Examples
    --------
    Moving weight from a token itself to the one before it:

    >>> import numpy as np
    >>> from dlref.attention import attention_distance_jvp
    >>> attention_distance_jvp(np.eye(2), [[0, 0], [1, -1]])
    array([0., 1.])
    """
    dtype, [p], [dp] = as_tangents(primals, tangents, count=1)
    check_ndim("primals", p, 2)
    with np.errstate(all="ignore"):
        return result(np.sum(dp * _distances(p, q_offset), axis=-1), dtype)
