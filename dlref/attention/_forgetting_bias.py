r"""The bias of forgetting attention: sums of the logarithms of forget gates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_integer,
    as_tangents,
    check_ndim,
    check_shape,
    result,
)

__all__ = ["forgetting_bias", "forgetting_bias_jvp", "forgetting_bias_vjp"]


def _offset(log_forget: FloatArray, q_offset: int, label: str) -> int:
    check_ndim(label, log_forget, 1)
    return as_integer("q_offset", q_offset, least=0, most=log_forget.shape[-1])


@np.errstate(all="ignore")
def _sums(log_forget: FloatArray, offset: int) -> FloatArray:
    """Return the sums over j < l <= i, each added up from j on, for the queries i."""
    S = log_forget.shape[-1]
    later = np.tri(S, S, -1, dtype=bool)  # l > j, with rows l
    terms = np.where(later, log_forget[..., :, None], 0.0)
    return np.asarray(np.cumsum(terms, axis=-2)[..., offset:, :])


def forgetting_bias(log_forget: npt.ArrayLike, *, q_offset: int = 0) -> FloatArray:
    r"""
    Let attention forget as a recurrent network does, by a bias.

    Parameters
    ----------
    log_forget : array_like, shape (..., H, S)
        Logarithm :math:`f_l` of the forget gate of each head at each position, usually
        :func:`~dlref.activations.log_sigmoid` of a linear map of the token.
    q_offset : int, default 0
        Position of query 0 among the keys, from 0 to S: the queries are the last ones.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        The bias for T = S - `q_offset` queries; 0 for keys after the query, which a causal mask has
        to hide.

    Raises
    ------
    TypeError
        If `log_forget` is not real or `q_offset` is not an integer.
    ValueError
        If `log_forget` is a scalar, or `q_offset` is not from 0 to S.

    See Also
    --------
    scaled_dot_product_attention : Takes it as `bias`, with ``is_causal=True`` and this `q_offset`.
    recurrent_linear_attention : Its decay is the same factor, without a softmax.
    dlref.positions.alibi_bias : The same for a forget gate that is constant.

    Notes
    -----
    With the position :math:`i' = i + \text{offset}` of query i,

    .. math:: b_{ij} = \begin{cases} \sum_{j < l \le i'} f_l & j \le i' \\ 0 & j > i' \end{cases}

    The softmax multiplies the weight of key j by :math:`e^{b_{ij}} = \prod_{j < l \le i'} e^{f_l}`,
    the product of all forget gates since then: one gate that closes hides all that was before, for
    all later queries (Forgetting Transformer). A token does not forget itself, :math:`b_{ii} = 0`.

    **ALiBi is the constant case.** For :math:`f_l = -m` the sum has i' - j terms, and
    :math:`b_{ij} = -m (i' - j)`.

    **Numerics.** Each sum is added up from its own first term. The difference of two cumulative
    sums, which kernels take because it needs S numbers and no matrix, loses the digits that the two
    have in common, and gives NaN after a gate of exactly 0.

    References
    ----------
    - :cite:t:`LinForgetting2025`

    Examples
    --------
    The gate at position 2 passes a quarter, the others a half:

    >>> import numpy as np
    >>> from dlref.attention import forgetting_bias
    >>> bias = forgetting_bias(np.log([[0.5, 0.5, 0.25, 0.5]]))
    >>> np.exp(bias[0]).round(6)
    array([[1.    , 1.    , 1.    , 1.    ],
           [0.5   , 1.    , 1.    , 1.    ],
           [0.125 , 0.25  , 1.    , 1.    ],
           [0.0625, 0.125 , 0.5   , 1.    ]])

    A constant gate is ALiBi:

    >>> forgetting_bias(np.full((1, 3), -0.5))[0] * np.tri(3)
    array([[ 0. ,  0. ,  0. ],
           [-0.5,  0. ,  0. ],
           [-1. , -0.5,  0. ]])
    """
    dtype, [f] = as_floats({"log_forget": log_forget})
    return result(_sums(f, _offset(f, q_offset, "log_forget")), dtype)


def forgetting_bias_vjp(
    dout: npt.ArrayLike, log_forget: npt.ArrayLike, *, q_offset: int = 0
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the bias of forgetting attention.

    Parameters
    ----------
    dout : array_like, shape (..., H, T, S)
        Cotangent of the bias.
    log_forget, q_offset : as in `forgetting_bias`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., H, S)
        Gradient with respect to `log_forget`.

    Notes
    -----
    The bias is linear. The gate at l is a term of the sums of all pairs with the key before l and
    the query at l or later, so its gradient is the sum of the cotangents of those pairs:

    .. math:: \pdv{L}{f_l} = \sum_{i' \ge l} \sum_{j < l} u_{ij} .

    The cotangent of hidden pairs, j > i', does not count. The first gate is a term of no sum.

    Examples
    --------
    Of three tokens, gate 1 lies between one key and two queries, gate 2 between two keys and one:

    >>> import numpy as np
    >>> from dlref.attention import forgetting_bias_vjp
    >>> forgetting_bias_vjp([[[0, 0, 0], [1, 0, 0], [10, 100, 0]]], np.zeros((1, 3)))
    array([[  0.,  11., 110.]])
    """
    dtype, (u, f) = as_floats({"dout": dout, "log_forget": log_forget})
    offset, S = _offset(f, q_offset, "log_forget"), f.shape[-1]
    check_shape("dout", u, (*f.shape[:-1], S - offset, S))
    with np.errstate(all="ignore"):
        below = np.where(np.tri(S - offset, S, offset - 1, dtype=bool), u, 0.0)
        keys = np.zeros(u.shape)  # sums over j < l of the cotangents of each query
        keys[..., 1:] = np.cumsum(below, axis=-1)[..., :-1]
        later = np.tri(S - offset, S, offset, dtype=bool)
        return result(np.where(later, keys, 0.0).sum(-2), dtype)


def forgetting_bias_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, q_offset: int = 0
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the bias of forgetting attention.

    Parameters
    ----------
    primals : array_like, shape (..., H, S)
        Logarithms of the forget gates.
    tangents : array_like, shape of `primals`, or None
        Their tangents; None is zero.
    q_offset : as in `forgetting_bias`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        Tangent of the bias.

    Notes
    -----
    The bias is linear, so its tangent is the bias of the tangents:

    .. math:: \dot b_{ij} = \begin{cases} \sum_{j < l \le i'} \dot f_l & j \le i' \\ 0 & j > i'
       \end{cases}

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import forgetting_bias_jvp
    >>> forgetting_bias_jvp(np.zeros((1, 3)), [[0.0, 1.0, 10.0]])[0]
    array([[ 0.,  0.,  0.],
           [ 1.,  0.,  0.],
           [11., 10.,  0.]])
    """
    dtype, [f], [v] = as_tangents(primals, tangents, count=1)
    return result(_sums(v, _offset(f, q_offset, "primals")), dtype)
