r"""The bias of forgetting attention: sums of the logarithms of forget gates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    MAX_OFFSET,
    FloatArray,
    as_floats,
    as_integer,
    as_offsets,
    as_tangents,
    check_ndim,
    check_shape,
    check_size,
    result,
)
from .._core.broadcasting import unbroadcast


def _places(
    label: str, log_forget: FloatArray, q_offset: npt.ArrayLike, T: int | None
) -> npt.NDArray[np.int64]:
    """Return the positions of the queries (T,), or (..., 1, T) if sequences have their own."""
    check_ndim(label, log_forget, 1)
    S = log_forget.shape[-1]
    firsts = as_offsets(label, log_forget, log_forget.shape[:-1], q_offset)
    if T is None:
        if firsts.ndim:
            msg = "Argument 'T' must be given if 'q_offset' is an array."
            raise ValueError(msg)
        T = S - as_integer("q_offset", int(firsts), least=-MAX_OFFSET, most=S)
    else:
        T = as_integer("T", T, least=0, most=max(S - int(firsts.max(initial=0)), 0))
    check_size(T=T, S=S)
    return firsts[..., None] + np.arange(T)


@np.errstate(all="ignore")
def _sums(log_forget: FloatArray, places: npt.NDArray[np.int64]) -> FloatArray:
    """Return the sums over j < l <= i, each added up from j on, for the queries i."""
    S = log_forget.shape[-1]
    later = np.tri(S + 1, S, -2, dtype=bool)  # l > j, with rows l from -1 on
    gates = np.pad(log_forget, [(0, 0)] * (log_forget.ndim - 1) + [(1, 0)])
    sums = np.cumsum(np.where(later, gates[..., :, None], 0.0), axis=-2)
    rows = (np.maximum(places, -1) + 1)[..., None]
    shape = np.broadcast_shapes(log_forget.shape[:-1], rows.shape[:-2])
    sums, rows = (np.broadcast_to(z, (*shape, *z.shape[-2:])) for z in (sums, rows))
    return np.take_along_axis(sums, rows, -2)


def forgetting_bias(
    log_forget: npt.ArrayLike, *, q_offset: npt.ArrayLike = 0, T: int | None = None
) -> FloatArray:
    r"""
    Let attention forget as a recurrent network does, by a bias.

    Parameters
    ----------
    log_forget : array_like, shape (..., H, S)
        Logarithm :math:`f_l` of the forget gate of each head at each position, usually
        :func:`~dlref.activations.log_sigmoid` of a linear map of the token.
    q_offset : int or array_like of int, default 0
        Position of query 0 among the keys. It is negative where the first queries stand before all
        keys, and see none. An array has one for each sequence: its axes broadcast with the batch
        axes of `log_forget`.
    T : int or None
        Number of queries; None means that the last query stands at the last key, T = S −
        `q_offset`. An array of offsets needs it.

    Returns
    -------
    ndarray, shape (..., H, T, S)
        The bias; 0 for keys after the query, which a causal mask has to hide.

    Raises
    ------
    TypeError
        If `log_forget` is not real, or `q_offset` or `T` is not integer.
    ValueError
        If `log_forget` is a scalar, a query stands after the last key, the axes of an array of
        offsets do not broadcast, or `T` is missing beside it.

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

    One query of each of two sequences, whose caches hold 4 and 2 keys:

    >>> late = forgetting_bias(np.log([[0.5, 0.5, 0.25, 0.5]]), q_offset=[3, 1], T=1)
    >>> np.exp(late[:, 0, 0]).round(6)
    array([[0.0625, 0.125 , 0.5   , 1.    ],
           [0.5   , 1.    , 1.    , 1.    ]])

    A constant gate is ALiBi:

    >>> forgetting_bias(np.full((1, 3), -0.5))[0] * np.tri(3)
    array([[ 0. ,  0. ,  0. ],
           [-0.5,  0. ,  0. ],
           [-1. , -0.5,  0. ]])
    """
    dtype, [f] = as_floats({"log_forget": log_forget})
    return result(_sums(f, _places("log_forget", f, q_offset, T)), dtype)


def forgetting_bias_vjp(
    dout: npt.ArrayLike,
    log_forget: npt.ArrayLike,
    *,
    q_offset: npt.ArrayLike = 0,
    T: int | None = None,
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of the bias of forgetting attention.

    Parameters
    ----------
    dout : array_like, shape (..., H, T, S)
        Cotangent of the bias.
    log_forget, q_offset, T : as in `forgetting_bias`
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
    places, S = _places("log_forget", f, q_offset, T)[..., None], f.shape[-1]
    lead = np.broadcast_shapes(f.shape[:-1], places.shape[:-2])
    check_shape("dout", u, (*lead, places.shape[-2], S))
    with np.errstate(all="ignore"):
        below = np.where(np.arange(S) < places, u, 0.0)
        keys = np.zeros(u.shape)  # sums over j < l of the cotangents of each query
        keys[..., 1:] = np.cumsum(below, axis=-1)[..., :-1]
        grad = np.where(np.arange(S) <= places, keys, 0.0).sum(-2)
        return result(unbroadcast(grad, f.shape), dtype)


def forgetting_bias_jvp(
    primals: npt.ArrayLike,
    tangents: npt.ArrayLike | None,
    *,
    q_offset: npt.ArrayLike = 0,
    T: int | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of the bias of forgetting attention.

    Parameters
    ----------
    primals : array_like, shape (..., H, S)
        Logarithms of the forget gates.
    tangents : array_like, shape of `primals`, or None
        Their tangents; None is zero.
    q_offset, T : as in `forgetting_bias`
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
    return result(_sums(v, _places("primals", f, q_offset, T)), dtype)
