r"""Attention rollout: weights multiplied through the layers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_number,
    as_tangents,
    check_matrix,
    check_ndim,
    check_shape,
    result,
)


def _layers(name: str, weights: FloatArray, residual: float) -> FloatArray:
    """Return the mixing matrix of each layer: (L, ..., T, T)."""
    check_ndim(name, weights, 4)
    check_matrix(name, weights)
    share = as_number("residual", residual, least=0, most=1)
    return share * np.eye(weights.shape[-1]) + (1.0 - share) * _mean(weights)


def _mean(weights: FloatArray) -> FloatArray:
    """Return the mean over the heads, 0 if there are none."""
    if weights.shape[-3]:
        return np.asarray(weights.mean(axis=-3))
    return np.zeros((*weights.shape[:-3], *weights.shape[-2:]))


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
    A layer replaces each token by a mixture: of itself, by the residual connection, and of others,
    by attention. With the mean over the heads, and L mixtures one after the other,

    .. math::

        \mat A_l = r\, \mat I + \frac{1 - r}{H} \sum_h \mat P_{lh}, \qquad
        \mat R = \mat A_L \cdots \mat A_2 \mat A_1 .

    The first layer is on the right, because it acts on the inputs first. A product of matrices
    whose rows are shares has rows that are shares. It is bookkeeping, not a derivative: values,
    their projections, feed-forward layers and normalization are ignored.

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
    weights, residual : as in `attention_rollout`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (L, ..., H, T, T)
        Gradient with respect to `weights`.

    Notes
    -----
    A layer in the middle of :math:`\mat R = \mat B\, \mat A_l\, \mat C`, with B the product of the
    later and C the product of the earlier ones, has

    .. math::

        \dd \mat R = \mat B\, \dd \mat A_l\, \mat C
        \quad\Rightarrow\quad
        \pdv{L}{\mat A_l} = \mat B^\top \mat U \mat C^\top, \qquad
        \pdv{L}{\mat P_{lh}} = \frac{1 - r}{H} \pdv{L}{\mat A_l} .

    The products C are kept from the forward pass; :math:`\mat B^\top \mat U` is accumulated in the
    backward pass.

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
        Their tangents; None is zero.
    residual : as in `attention_rollout`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, T)
        Tangent of the product.

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
        moves = (1.0 - residual) * _mean(dp)
        moved = np.zeros(layers.shape[1:])
        for layer, move, before in zip(layers, moves, _chain(layers), strict=False):
            moved = move @ before + layer @ moved
        return result(moved, dtype)
