r"""Entropy of attention weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_floats, as_tangents, check_ndim, check_shape, result


def _minus_log(p: FloatArray) -> FloatArray:
    """Return -log p, and 0 for keys of weight 0."""
    with np.errstate(all="ignore"):
        return -np.log(np.where(p == 0.0, 1.0, p))


def attention_entropy(weights: npt.ArrayLike) -> FloatArray:
    r"""
    Entropy of each row of weights: over how many keys a query spreads its attention.

    Parameters
    ----------
    weights : array_like, shape (..., S)
        Rows of weights that are not negative and sum to 1.

    Returns
    -------
    ndarray, shape (...)
        Entropy in nats, from 0 (one key) to log S (equal weights).

    Raises
    ------
    TypeError
        If `weights` is neither integer nor a real floating-point array.
    ValueError
        If it is a scalar.

    See Also
    --------
    attention_distance : How far away the keys are.
    attention_weights : The rows.

    Notes
    -----
    .. math:: H = -\sum_j p_j \log p_j, \qquad 0 \log 0 = 0 .

    :math:`e^H` is a number of keys: n keys of weight 1/n give :math:`H = \log n`, wherever they
    are. It is the same for any order of the keys and for any number of masked ones. Unlike "the
    mean weight is above 0.1", which only says that there are fewer than ten keys (every row that
    sums to 1 has the mean 1/S), it distinguishes one map from another. A row with nothing to attend
    to has entropy 0. :cite:t:`Clark2019` found heads of BERT of both kinds, focused on a few tokens
    and spread over all.

    References
    ----------
    - :cite:t:`Clark2019`, section 3.3

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import attention_entropy
    >>> rows = [[1, 0, 0, 0], [0.5, 0, 0.5, 0], [0.25, 0.25, 0.25, 0.25]]
    >>> np.exp(attention_entropy(rows)).round(12)
    array([1., 2., 4.])
    """
    dtype, (p,) = as_floats({"weights": weights})
    check_ndim("weights", p, 1)
    with np.errstate(all="ignore"):
        return result(np.sum(p * _minus_log(p), axis=-1), dtype)


def attention_entropy_vjp(dout: npt.ArrayLike, weights: npt.ArrayLike) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the entropy of attention.

    Parameters
    ----------
    dout : array_like, shape (...)
        Cotangent :math:`u`, a number per row.
    weights : as in `attention_entropy`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., S)
        Gradient with respect to `weights`.

    See Also
    --------
    attention_weights_vjp : On to the queries and keys.

    Notes
    -----
    .. math:: \pdv{L}{p_j} = -u\, (\log p_j + 1) .

    At :math:`p_j = 0` the slope is infinite; it is given as 0 there, because such a key is
    masked and remains masked. The 1 drops out after a softmax, whose Jacobian maps constant rows
    to 0.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import attention_entropy_vjp
    >>> attention_entropy_vjp(1.0, [np.exp(-1), np.exp(-2), 0]).round(12) + 0.0
    array([0., 1., 0.])
    """
    dtype, (u, p) = as_floats({"dout": dout, "weights": weights})
    check_ndim("weights", p, 1)
    check_shape("dout", u, p.shape[:-1])
    with np.errstate(all="ignore"):
        return result(np.where(p == 0.0, 0.0, u[..., None] * (_minus_log(p) - 1.0)), dtype)


def attention_entropy_jvp(primals: npt.ArrayLike, tangents: npt.ArrayLike | None) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the entropy of attention.

    Parameters
    ----------
    primals : array_like, shape (..., S)
        Rows of weights. Raises the same errors as `attention_entropy`.
    tangents : array_like or None, shape (..., S)
        Their tangents :math:`\dot p_j`; None is zero.

    Returns
    -------
    ndarray, shape (...)
        Tangent of each entropy.

    Notes
    -----
    .. math:: \dot H = -\sum_j (\log p_j + 1)\, \dot p_j ,

    over the keys whose weight is not 0.

    Examples
    --------
    From equal weights no direction that keeps their sum changes the entropy, to first order:

    >>> from dlref.attention import attention_entropy_jvp
    >>> abs(float(attention_entropy_jvp([0.5, 0.5], [0.1, -0.1]))) < 1e-16
    True
    """
    dtype, [p], [dp] = as_tangents(primals, tangents, count=1)
    check_ndim("primals", p, 1)
    with np.errstate(all="ignore"):
        terms = np.where(p == 0.0, 0.0, (_minus_log(p) - 1.0) * dp)
        return result(np.sum(terms, axis=-1), dtype)
