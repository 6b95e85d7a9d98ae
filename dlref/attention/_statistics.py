r"""What a map of attention weights says, in numbers that mean something."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._validate import (
    FloatArray,
    as_floats,
    as_integer,
    as_number,
    as_tangents,
    check_matrix,
    check_ndim,
    check_shape,
    result,
)

__all__ = [
    "attention_distance",
    "attention_distance_jvp",
    "attention_distance_vjp",
    "attention_entropy",
    "attention_entropy_jvp",
    "attention_entropy_vjp",
    "attention_rollout",
    "attention_rollout_jvp",
    "attention_rollout_vjp",
    "attention_shares",
    "attention_shares_jvp",
    "attention_shares_vjp",
]


def _minus_log(p: FloatArray) -> FloatArray:
    """Return -ln p, and 0 for what is not attended to."""
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
        Entropy in nats, from 0 (one key) to ln S (all alike).

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
    .. math:: H = -\sum_j p_j \ln p_j, \qquad 0 \ln 0 = 0 .

    :math:`e^H` is a number of keys: n keys of weight 1/n give :math:`H = \ln n`, wherever
    they are. It is the same for any order of the keys and for any number of masked ones. Unlike
    "the mean weight is above 0.1", which says no more than that there are fewer than ten
    keys (every row that sums to 1 has the mean 1/S), it tells one map from another. A row
    with nothing to attend to has entropy 0.

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
    weights : array_like, shape (..., S)
        Rows of weights.

    Returns
    -------
    ndarray, shape (..., S)
        Gradient with respect to `weights`.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If `weights` is a scalar, or `dout` has not the shape of its rows.

    See Also
    --------
    attention_entropy_jvp : Forward mode.
    attention_weights_vjp : On to the queries and keys.

    Notes
    -----
    .. math:: \pdv{L}{p_j} = -u\, (\ln p_j + 1) .

    At :math:`p_j = 0` the slope is infinite; it is given as 0 there, because such a key is
    masked and stays so. The 1 drops out behind a softmax, whose Jacobian maps constant rows to 0.

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
        Rows of weights.
    tangents : array_like or None, shape (..., S)
        Their rates of change :math:`\dot p_j`; None is zero.

    Returns
    -------
    ndarray, shape (...)
        Rate of change of each entropy.

    Raises
    ------
    TypeError
        If an array is neither integer nor a real floating-point array.
    ValueError
        If `primals` is a scalar or the shapes differ.

    See Also
    --------
    attention_entropy_vjp : Reverse mode, with the derivative.

    Notes
    -----
    .. math:: \dot H = -\sum_j (\ln p_j + 1)\, \dot p_j ,

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


def _distances(p: FloatArray, q_offset: int) -> FloatArray:
    T, S = p.shape[-2:]
    offset = as_integer("q_offset", q_offset, least=-(1 << 40))
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

    A head of small distance reads the neighbourhood like a convolution. As a scale: uniform weights
    over T keys have the distance :math:`(T^2 - 1)/(3T)` on average over the queries.

    References
    ----------
    - :cite:t:`Clark2019`

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
    weights : array_like, shape (..., T, S)
        Rows of weights; only their shape matters.
    q_offset : int, default 0
        Position of query 0 among the keys.

    Returns
    -------
    ndarray, shape (..., T, S)
        Gradient with respect to `weights`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `weights` has fewer than 2 axes, or `dout` has not the shape of its rows.

    See Also
    --------
    attention_distance_jvp : Forward mode.

    Notes
    -----
    The map is linear, so the gradient is its table: :math:`u_i\, |j - i - \text{offset}|`.

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
        Their rates of change; None is zero.
    q_offset : int, default 0
        Position of query 0 among the keys.

    Returns
    -------
    ndarray, shape (..., T)
        Rate of change of each distance.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `primals` has fewer than 2 axes or the shapes differ.

    See Also
    --------
    attention_distance_vjp : Reverse mode.

    Notes
    -----
    The map is linear: the tangent is the distance of the tangents,
    :math:`\sum_j \dot p_{ij} |j - i - \text{offset}|`.

    Examples
    --------
    Moving weight from the own token to the one before it:

    >>> import numpy as np
    >>> from dlref.attention import attention_distance_jvp
    >>> attention_distance_jvp(np.eye(2), [[0, 0], [1, -1]])
    array([0., 1.])
    """
    dtype, [p], [dp] = as_tangents(primals, tangents, count=1)
    check_ndim("primals", p, 2)
    with np.errstate(all="ignore"):
        return result(np.sum(dp * _distances(p, q_offset), axis=-1), dtype)


def _places(p: FloatArray, q_offset: int) -> FloatArray:
    """Return one-hot rows (T, S, 3) for the first, the previous and the own token."""
    T, S = p.shape[-2:]
    own = np.arange(T)[:, None] + as_integer("q_offset", q_offset, least=-(1 << 40))
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
    Three patterns that heads of trained models show: a *sink*, where a head with nothing to do puts
    its weight on the first token, which every query sees; the *previous token* head, a part of the
    circuit that continues repeated sequences; and the token itself. At the first
    two positions the same key counts twice, so rows of shares need not sum to less than 1.

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
    weights : array_like, shape (..., T, S)
        Rows of weights; only their shape matters.
    q_offset : int, default 0
        Position of query 0 among the keys.

    Returns
    -------
    ndarray, shape (..., T, S)
        Gradient with respect to `weights`: each cotangent at the place its share was read from.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `weights` has fewer than 2 axes, or `dout` has not the shape of the shares.

    See Also
    --------
    attention_shares_jvp : Forward mode.

    Notes
    -----
    Reading has writing as its adjoint; where two shares were read from one key, two
    cotangents are added there.

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
        Their rates of change; None is zero.
    q_offset : int, default 0
        Position of query 0 among the keys.

    Returns
    -------
    ndarray, shape (..., T, 3)
        Rate of change of each share.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `primals` has fewer than 2 axes or the shapes differ.

    See Also
    --------
    attention_shares_vjp : Reverse mode.

    Notes
    -----
    The map is linear: the tangent is the shares of the tangents.

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


def _layers(name: str, weights: FloatArray, residual: float) -> FloatArray:
    """Return the mixing matrix of each layer: (L, ..., T, T)."""
    check_ndim(name, weights, 4)
    check_matrix(name, weights)
    heads = weights.shape[-3]
    share = as_number("residual", residual, least=0, most=1)
    mean = weights.mean(axis=-3) if heads else np.zeros((*weights.shape[:-3], *weights.shape[-2:]))
    return share * np.eye(weights.shape[-1]) + (1.0 - share) * mean


def _chain(layers: FloatArray) -> list[FloatArray]:
    """Return the products of the first 0, 1, 2, ... layers, the later ones on the left."""
    out: list[FloatArray] = [np.broadcast_to(np.eye(layers.shape[-1]), layers.shape[1:])]
    for layer in layers:
        out.append(layer @ out[-1])  # each needs the one before
    return out


def attention_rollout(weights: npt.ArrayLike, *, residual: float = 0.5) -> FloatArray:
    r"""
    Share of each input token in each token after several layers, by multiplying weights.

    Parameters
    ----------
    weights : array_like, shape (L, ..., H, T, T)
        Weights of L layers with H heads each, the first layer first.
    residual : float, default 0.5
        Share r of the residual connection, from 0 to 1.

    Returns
    -------
    ndarray, shape (..., T, T)
        Row i holds the shares of the inputs in token i; it sums to 1 if the rows of weights do.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `weights` has fewer than 4 axes, its last two differ, or `residual` is out of range.

    See Also
    --------
    attention_entropy : Of one layer.

    Notes
    -----
    A layer replaces each token by a mixture: itself by its residual connection, others by
    attention. With the mean over the heads, and L mixtures one after the other,

    .. math::

        \mat A_l = r\, \mat I + \frac{1 - r}{H} \sum_h \mat P_{lh}, \qquad
        \mat R = \mat A_L \cdots \mat A_2 \mat A_1 .

    The first layer stands on the right, because it acts on the inputs first. A product of matrices
    whose rows are shares has rows that are shares. It is a bookkeeping, not a derivative: values,
    their projections, feed-forward layers and normalization are left out.

    The published form has r = 1/2. Cost: L products of T × T matrices.

    References
    ----------
    - :cite:t:`AbnarZuidema2020`

    Examples
    --------
    Both layers look one token back; together with the residuals, up to two:

    >>> import numpy as np
    >>> from dlref.attention import attention_rollout
    >>> back = np.eye(3, k=-1)
    >>> back[0, 0] = 1
    >>> rolled = attention_rollout([[back], [back]])
    >>> rolled
    array([[1.  , 0.  , 0.  ],
           [0.75, 0.25, 0.  ],
           [0.25, 0.5 , 0.25]])
    >>> rolled.sum(axis=-1)
    array([1., 1., 1.])
    """
    dtype, (p,) = as_floats({"weights": weights})
    with np.errstate(all="ignore"):
        return result(np.array(_chain(_layers("weights", p, residual))[-1]), dtype)


def attention_rollout_vjp(
    dout: npt.ArrayLike, weights: npt.ArrayLike, *, residual: float = 0.5
) -> FloatArray:
    r"""
    Vector-Jacobian product (reverse mode) of attention rollout.

    Parameters
    ----------
    dout : array_like, shape (..., T, T)
        Cotangent :math:`\mat U` of the product.
    weights : array_like, shape (L, ..., H, T, T)
        Weights of L layers with H heads each.
    residual : float, default 0.5
        Share r of the residual connection.

    Returns
    -------
    ndarray, shape (L, ..., H, T, T)
        Gradient with respect to `weights`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a shape does not fit or `residual` is out of range.

    See Also
    --------
    attention_rollout_jvp : Forward mode.

    Notes
    -----
    A layer in the middle of :math:`\mat R = \mat B\, \mat A_l\, \mat C`, with B the product of the
    later and C that of the earlier ones, has

    .. math::

        d\mat R = \mat B\, d\mat A_l\, \mat C
        \quad\Rightarrow\quad
        \pdv{L}{\mat A_l} = \mat B^\top \mat U \mat C^\top, \qquad
        \pdv{L}{\mat P_{lh}} = \frac{1 - r}{H} \pdv{L}{\mat A_l} .

    The products C are kept from the way forward; :math:`\mat B^\top \mat U` is
    multiplied up on the way back.

    Examples
    --------
    One layer, one head: half of the cotangent.

    >>> import numpy as np
    >>> from dlref.attention import attention_rollout_vjp
    >>> attention_rollout_vjp([[2.0, 4.0], [6.0, 8.0]], np.ones((1, 1, 2, 2))).tolist()
    [[[[1.0, 2.0], [3.0, 4.0]]]]
    """
    dtype, (u, p) = as_floats({"dout": dout, "weights": weights})
    with np.errstate(all="ignore"):
        layers = _layers("weights", p, residual)
        check_shape("dout", u, layers.shape[1:])
        before, grads = _chain(layers), np.empty_like(layers)
        for index in range(len(layers) - 1, -1, -1):
            grads[index] = u @ np.swapaxes(before[index], -1, -2)
            u = np.swapaxes(layers[index], -1, -2) @ u
        share = (1.0 - residual) / max(p.shape[-3], 1)
        out = np.broadcast_to((share * grads)[..., None, :, :], p.shape)
        return result(np.array(out), dtype)


def attention_rollout_jvp(
    primals: npt.ArrayLike, tangents: npt.ArrayLike | None, *, residual: float = 0.5
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of attention rollout.

    Parameters
    ----------
    primals : array_like, shape (L, ..., H, T, T)
        Weights of L layers with H heads each.
    tangents : array_like or None, shape (L, ..., H, T, T)
        Their rates of change; None is zero.
    residual : float, default 0.5
        Share r of the residual connection.

    Returns
    -------
    ndarray, shape (..., T, T)
        Rate of change of the product.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a shape does not fit or `residual` is out of range.

    See Also
    --------
    attention_rollout_vjp : Reverse mode.

    Notes
    -----
    The product rule, layer by layer, with :math:`\mat R_l = \mat A_l \mat R_{l-1}`:

    .. math:: \dot{\mat R}_l = \dot{\mat A}_l \mat R_{l-1} + \mat A_l \dot{\mat R}_{l-1} .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.attention import attention_rollout_jvp
    >>> attention_rollout_jvp(np.ones((1, 2, 1, 1)), np.ones((1, 2, 1, 1)))
    array([[0.5]])
    """
    dtype, [p], [dp] = as_tangents(primals, tangents, count=1)
    with np.errstate(all="ignore"):
        layers = _layers("primals", p, residual)
        moves = _layers("tangents", dp, residual) - residual * np.eye(p.shape[-1])
        moved = np.zeros(layers.shape[1:])
        for layer, move, before in zip(layers, moves, _chain(layers), strict=False):
            moved = move @ before + layer @ moved
        return result(moved, dtype)
